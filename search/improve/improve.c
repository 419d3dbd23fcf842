/*
 * Local search over a schedule: one or a few small changes at a time, proven, lowered and simulated
 * as any schedule, kept by simulated annealing (Kirkpatrick, Gelatt and Vecchi, Science 1983).
 *
 * A change keeps what the schedule computes wherever each rank sends a sum and receives a copy of a
 * chunk at most once, as trees, rings and meshes do: after it, steps of the chunk are pushed later
 * until everything that a transfer reads is there. What that does not keep is refused by the proof.
 */
#include "search/improve/improve.h"
#include "search/compare/shared.h"
#include "search/improve/moves.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_CHANGES = 3,       /* of one try */
    MOST_TRANSFERS = 100000 /* beyond these a schedule is not cut finer */
};
static const double HEAT = 0.004, /* of the time, at first */
    GUIDED = 0.75;                /* changes that begin on the critical path */

typedef struct improve {
    const ccl_ctx_t *ctx;
    const ccl_topology_t *topo;
    const ccl_improve_options_t *options;
    ccl_routes_t *routes;
    ccl_rng_t rng;
    const ccl_schedule_t *from;
    ccl_i_moves_t now; /* what changes begin from */
    double now_s;
    double *heat; /* [nranks][nranks] share of the critical path on each connection */
} improve_t;

/* ---------------------------------------------------------------- one schedule */

static ccl_status_t schedule_of(const improve_t *m, const ccl_i_moves_t *from, ccl_schedule_t **out,
                                ccl_error_t *err) {
    ccl_collective_t *coll = NULL;
    CCL_TRY(ccl_collective_clone(from->coll, &coll, err));
    ccl_schedule_builder_t *b = ccl_schedule_builder_create(m->from->name, coll);
    if (!b)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < from->n; i++)
        ccl_schedule_builder_add(b, from->transfers[i]);
    CCL_TRY(ccl_schedule_builder_finish(b, out, err));
    ccl_origin_set((*out)->origin, "%s", m->from->origin);
    (*out)->rounds = m->from->rounds;
    (*out)->joined = m->from->joined;
    (*out)->listed = m->from->listed;
    (*out)->piece_bytes = m->from->piece_bytes;
    (*out)->stagger = m->from->stagger;
    return CCL_OK;
}

/* Not of this try alone. */
static bool ends(ccl_status_t status) {
    return ccl_i_stops_all(status) || status == CCL_ERR_NOMEM;
}

/* Proven as a schedule, lowered, simulated; *program_out is not proven yet. */
static ccl_status_t try_out(const improve_t *m, const ccl_schedule_t *schedule, bool *good_out,
                            ccl_program_t **program_out, double *time_s_out) {
    ccl_verdict_t *verdict = calloc(1, sizeof *verdict);
    ccl_sim_options_t sim = m->options->sim;
    ccl_sim_result_t *result = NULL;
    ccl_status_t status;
    *good_out = false;
    if (!verdict)
        return CCL_ERR_NOMEM;
    status = ccl_schedule_verify(m->ctx, schedule, verdict, NULL);
    bool valid = status == CCL_OK && verdict->valid;
    free(verdict);
    if (!valid)
        return ends(status) ? status : CCL_OK;
    sim.granularity = m->options->way.granularity;
    ccl_make_options_t make = ccl_i_make_options(m->options->way, &m->options->lower, &sim);
    make.no_prove = true; /* what is taken over is proven */
    status = ccl_make_program(m->ctx, m->topo, m->routes, schedule, &make, program_out, NULL);
    if (status == CCL_OK)
        status = ccl_sim_program(m->ctx, m->topo, m->routes, *program_out, &sim, &result, NULL);
    if (status == CCL_OK) {
        *time_s_out = result->time_s;
        *good_out = true;
    } else {
        ccl_program_destroy(*program_out);
        *program_out = NULL;
    }
    ccl_sim_result_destroy(result);
    return ends(status) ? status : CCL_OK; /* it does not fit, or cannot finish */
}

/* Where the time goes: connections by their share of the critical path. */
static ccl_status_t look(improve_t *m, const ccl_program_t *program, ccl_error_t *err) {
    uint32_t n = m->topo->nranks;
    ccl_sim_options_t sim = m->options->sim;
    ccl_sim_result_t *result = NULL;
    sim.granularity = m->options->way.granularity;
    sim.path = true;
    memset(m->heat, 0, (size_t)n * n * sizeof *m->heat);
    ccl_status_t status = ccl_sim_program(m->ctx, m->topo, m->routes, program, &sim, &result, NULL);
    for (uint32_t i = 0; status == CCL_OK && i < result->npath; i++) {
        const ccl_path_segment_t *p = &result->path[i];
        if (p->peer != CCL_NONE)
            m->heat[(size_t)program->tbs[p->tb].rank * n + p->peer] += p->end_s - p->start_s;
    }
    ccl_sim_result_destroy(result);
    if (ends(status))
        return ccl_fail(err, status, "%s", ccl_status_meaning(status));
    return CCL_OK; /* too long to keep a path: changes begin anywhere */
}

/* ---------------------------------------------------------------- tries */

/* A transfer, mostly of a connection that the critical path passes. */
static uint32_t pick(improve_t *m) {
    uint32_t n = m->topo->nranks, count = 0, chosen = CCL_NONE;
    double all = 0;
    for (size_t i = 0; i < (size_t)n * n; i++)
        all += m->heat[i];
    if (!(all > 0) || ccl_rng_unit(&m->rng) >= GUIDED)
        return ccl_rng_below(&m->rng, m->now.n);
    double at = ccl_rng_unit(&m->rng) * all;
    size_t conn = 0;
    while (conn + 1 < (size_t)n * n && (at -= m->heat[conn]) >= 0)
        conn++;
    for (uint32_t i = 0; i < m->now.n; i++) {
        const ccl_transfer_t *t = &m->now.transfers[i];
        if ((size_t)t->src * n + t->dst == conn && ccl_rng_below(&m->rng, ++count) == 0)
            chosen = i;
    }
    return chosen != CCL_NONE ? chosen : ccl_rng_below(&m->rng, m->now.n);
}

static ccl_status_t change(improve_t *m, ccl_i_moves_t *to, bool *changed, ccl_error_t *err) {
    uint32_t changes = 1;
    *changed = false;
    while (changes < MOST_CHANGES && ccl_rng_below(&m->rng, 3) == 0)
        changes++;
    for (uint32_t i = 0; i < changes; i++) {
        uint32_t at = pick(m);
        bool done = false;
        if (ccl_rng_below(&m->rng, 50) == 0 && to->n <= MOST_TRANSFERS / 2)
            CCL_TRY(ccl_i_moves_split(to, &done, err));
        else
            CCL_TRY(ccl_i_moves_any(to, &m->rng, at < to->n ? at : 0, &done, err));
        *changed |= done;
    }
    return CCL_OK;
}

/* Simulated annealing: always what is faster, sometimes what is not. */
static bool accepted(improve_t *m, double time_s, uint32_t left) {
    double heat = HEAT * m->now_s * left / m->options->tries;
    double luck = ccl_rng_unit(&m->rng);
    return time_s < m->now_s || (heat > 0 && luck < exp((m->now_s - time_s) / heat));
}

/* Takes over `to`, which is accepted, and its schedule where it is the best so far. */
static ccl_status_t take_over(improve_t *m, ccl_i_moves_t *to, ccl_schedule_t **schedule,
                              const ccl_program_t *program, double time_s, ccl_improvement_t *best,
                              ccl_error_t *err) {
    ccl_error_t why = CCL_ERROR_INIT;
    ccl_status_t status = ccl_make_proven(m->ctx, program, m->options->way.granularity,
                                          m->options->lower.executor, CCL_CHECK, &why);
    if (status == CCL_CHECK) /* of valid schedules lowering makes right programs only */
        return ccl_fail(err, CCL_ERR_INTERNAL, "%.300s", why.text);
    CCL_TRY(status);
    CCL_TRY(look(m, program, err));
    best->accepted++;
    ccl_i_moves_t old = m->now;
    m->now = *to;
    *to = old;
    m->now_s = time_s;
    if (time_s < best->time_s) {
        ccl_schedule_destroy(best->schedule);
        best->schedule = *schedule;
        best->time_s = time_s;
        *schedule = NULL;
    }
    return CCL_OK;
}

static ccl_status_t one_try(improve_t *m, uint32_t left, ccl_improvement_t *best,
                            ccl_error_t *err) {
    ccl_i_moves_t to = {0};
    ccl_schedule_t *schedule = NULL;
    ccl_program_t *program = NULL;
    double time_s = 0;
    bool good = false;
    ccl_status_t status = ccl_i_moves_copy(&m->now, &to, err);
    if (status == CCL_OK)
        status = change(m, &to, &good, err);
    if (status == CCL_OK && good)
        status = schedule_of(m, &to, &schedule, err);
    if (status == CCL_OK && good)
        status = try_out(m, schedule, &good, &program, &time_s);
    best->valid += status == CCL_OK && good;
    if (status == CCL_OK && good && accepted(m, time_s, left))
        status = take_over(m, &to, &schedule, program, time_s, best, err);
    ccl_program_destroy(program);
    ccl_schedule_destroy(schedule);
    ccl_i_moves_fini(&to);
    return status;
}

/* ---------------------------------------------------------------- all */

static ccl_status_t begin(improve_t *m, const ccl_schedule_t *schedule, ccl_improvement_t *best,
                          ccl_error_t *err) {
    ccl_program_t *program = NULL;
    bool good = false;
    m->from = schedule;
    m->routes = m->options->lower.routes ? m->options->lower.routes : ccl_routes_create(m->topo);
    m->heat = calloc((size_t)m->topo->nranks * m->topo->nranks, sizeof *m->heat);
    if (!m->routes || !m->heat)
        return ccl_fail_nomem(err);
    CCL_TRY(ccl_i_moves_init(schedule, &m->now, err));
    CCL_TRY(schedule_of(m, &m->now, &best->schedule, err));
    CCL_TRY(try_out(m, best->schedule, &good, &program, &m->now_s));
    if (!good)
        return ccl_fail(err, CCL_ERR_INPUT,
                        "the schedule to improve is wrong, or does not run this way");
    best->before_s = best->time_s = m->now_s;
    ccl_status_t status = look(m, program, err);
    ccl_program_destroy(program);
    return status;
}

ccl_status_t ccl_improve(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                         const ccl_schedule_t *schedule, const ccl_improve_options_t *options,
                         ccl_improvement_t *out, ccl_error_t *err) {
    CCL_OPTIONS_TRY(ccl_improve_options_t, options, err);
    CCL_OPTIONS_TRY(ccl_lower_options_t, &options->lower, err);
    CCL_OPTIONS_TRY(ccl_sim_options_t, &options->sim, err);
    ccl_ctx_t inner = ccl_i_worker_ctx(ctx);
    improve_t m = {.ctx = &inner, .topo = topo, .options = options};
    ccl_improvement_t best = {0};
    CCL_TRY(ccl_schedule_refuse_groups(schedule, "improving", err));
    if (schedule->coll->nranks != topo->nranks)
        return ccl_fail(err, CCL_ERR_INPUT, "the schedule has %u ranks, topology %.80s has %u",
                        schedule->coll->nranks, topo->name, topo->nranks);
    ccl_rng_init(&m.rng, ctx ? ctx->seed : 1);
    ccl_status_t status = begin(&m, schedule, &best, err);
    for (uint32_t i = 0; i < options->tries && status == CCL_OK && m.now.n > 0; i++) {
        ccl_progress_t progress = {"improve", i, options->tries, best.time_s, 0};
        status = ccl_ctx_poll(ctx, &progress);
        if (status == CCL_OK)
            status = one_try(&m, options->tries - i, &best, err);
        best.tries++;
    }
    ccl_i_moves_fini(&m.now);
    free(m.heat);
    if (m.routes != options->lower.routes)
        ccl_routes_destroy(m.routes);
    if (status == CCL_OK && best.time_s < best.before_s)
        ccl_origin_add(best.schedule->origin, "improved by %u of %u tried changes", best.accepted,
                       best.tries);
    if (status == CCL_OK)
        *out = best;
    else
        ccl_schedule_destroy(best.schedule);
    return status;
}
