/*
 * compare: every contender at every size, in parallel. First each contender is synthesized (once:
 * the baselines do not depend on the size; once per size for synthesizers that do), lowered and
 * verified (at every size, where the program goes by what happens at that size); then all (size,
 * contender) pairs are simulated, those near the winner also at (1 -+ 1e-6) times the size, because
 * sharing makes some long programs chaotic (docs/model.md): a difference inside that spread is a
 * tie. What the notebook has is neither synthesized nor simulated, but for ties and the winner's
 * links. What several threads have no memory for together is tried once more by itself; who has too
 * little even then does not take part, and the others go on.
 */
#include "search/tune/tuner.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define SPREAD 1e-6
/* Whoever is slower by more than this is no tie: a change of a millionth of the size brings a slice
   less, at most 20 % in what was measured (docs/decisions.md). */
static const double NEAR = 0.25;

enum { MAX_WARNINGS = 8 };

/* Primitives of all programs of a contender, over its sizes, that are kept for the winner's details
   (some 100 MB); larger ones are lowered again. */
static const double KEPT_STEPS = 2e6;

/** One contender made ready. */
typedef struct ready {
    ccl_program_t *own;           /* made here */
    const ccl_program_t *program; /* for all sizes; NULL: by size, or it does not take part */
    ccl_schedule_t *made;         /* by size: synthesized here */
    bool by_size, tried;          /* `made` is for size `first`, others are synthesized again */
    uint32_t first;               /* the first size that is asked for */
    char *settings;               /* malloc'ed, in the notebook; NULL: it is not */
    double synth_s;
    const ccl_schedule_t *schedule; /* by size: lowered for each; else NULL */
    ccl_program_t **kept;           /* [nsizes] by size: until the winner is known, if small */
    ccl_way_t way;
    ccl_status_t status;
    ccl_error_t err;
    char *warnings[MAX_WARNINGS]; /* malloc'ed: of the simulator, at the first size */
    uint32_t nwarnings;
    bool nomem;
    atomic_uint_least64_t dropped; /* candidates that its synthesizer had no memory for, any size */
} ready_t;

typedef struct compare {
    const ccl_ctx_t *ctx;
    const ccl_topology_t *topo;
    const ccl_collective_t *want;
    const ccl_compare_options_t *options;
    ccl_comparison_t *out;
    ready_t *ready;  /* [ncontenders] */
    char **cell_why; /* [nsizes][ncontenders] malloc'ed, NULL: it ran */
    bool *known;     /* [nsizes][ncontenders] the notebook had it */
    uint32_t *again; /* cells that are run at another size for ties */
    uint32_t nagain;
    ccl_content_t topology, demand; /* of the notebook */
    ccl_routes_t **routes;          /* [threads], made when first needed */
    atomic_uint unsure;             /* cells without a spread, sizes without links: no memory */
    atomic_uint_least64_t done;
    uint64_t total;
} compare_t;

static ccl_status_t poll(compare_t *c, const char *phase, uint32_t worker) {
    uint64_t done = atomic_load(&c->done);
    ccl_progress_t progress = {phase, done, c->total, 0, 0};
    ccl_ctx_t quiet = c->ctx ? *c->ctx : (ccl_ctx_t)CCL_CTX_INIT;
    if (worker != 0) /* callbacks come from one thread only */
        quiet.progress = NULL;
    return ccl_ctx_poll(&quiet, &progress);
}

static ccl_status_t routes_of(compare_t *c, uint32_t worker, ccl_routes_t **out, ccl_error_t *err) {
    if (!c->routes[worker])
        c->routes[worker] = ccl_routes_create(c->topo);
    if (!c->routes[worker])
        return ccl_fail_nomem(err);
    *out = c->routes[worker];
    return CCL_OK;
}

/* The simulator's options of one contender at one size. */
static ccl_sim_options_t sim_of(const compare_t *c, uint32_t contender, double size_bytes) {
    ccl_sim_options_t sim = c->options->sim;
    sim.size_bytes = size_bytes;
    sim.granularity = c->ready[contender].way.granularity;
    sim.trace = NULL;
    return sim;
}

/* How contender i is lowered and run: its own way, but for what the caller fixed. */
static ccl_way_t way_of(const compare_t *c, uint32_t i) {
    const ccl_contender_t *contender = &c->options->contenders[i];
    const ccl_synth_ops_t *ops =
        contender->program || contender->schedule ? NULL : ccl_synth_find(contender->name);
    const ccl_way_t *way = contender->way ? contender->way : ops ? ops->way : NULL;
    ccl_way_t given = {c->options->lower.order, c->options->lower.allocation,
                       c->options->sim.granularity};
    if (contender->program || !way)
        return given;
    return ccl_way_choose(way, given, c->options->way_bits);
}

/* The contender's schedule for one size. */
static ccl_status_t synthesize_at(const compare_t *c, const ccl_ctx_t *ctx, ccl_routes_t *routes,
                                  uint32_t contender, uint32_t size, ccl_schedule_t **out,
                                  ccl_error_t *err) {
    ccl_synth_options_t synth = c->options->synth;
    ccl_synth_stats_t stats = {0};
    if (synth.size == 0)
        synth = (ccl_synth_options_t)CCL_SYNTH_OPTIONS_INIT;
    if (c->ready[contender].by_size)
        synth.size_bytes = c->options->sizes_bytes[size];
    synth.stats = &stats;
    ccl_status_t status = ccl_synthesize(ctx, c->options->contenders[contender].name, c->topo,
                                         routes, c->want, &synth, out, err);
    atomic_fetch_add(&c->ready[contender].dropped, stats.dropped);
    return status;
}

/* Lower for one size and prove what came out. */
static ccl_status_t lower_at(const compare_t *c, const ccl_ctx_t *ctx, ccl_routes_t *routes,
                             const ccl_schedule_t *schedule, uint32_t contender, double size_bytes,
                             ccl_program_t **out, ccl_error_t *err) {
    const ccl_way_t way = c->ready[contender].way;
    ccl_sim_options_t sim = sim_of(c, contender, size_bytes);
    const ccl_contender_t *by = &c->options->contenders[contender];
    ccl_make_options_t make = ccl_i_make_options(way, &c->options->lower, &sim);
    make.no_prove = by->schedule && c->options->no_verify;
    make.wrong = by->schedule ? CCL_CHECK : CCL_ERR_INTERNAL;
    return ccl_make_program(ctx, c->topo, routes, schedule, &make, out, err);
}

static ccl_status_t check_ranks(const compare_t *c, const char *form, const ccl_collective_t *coll,
                                ccl_error_t *err) {
    if (coll->nranks != c->topo->nranks)
        return ccl_fail(err, CCL_ERR_INPUT, "the %s has %u ranks, the topology %u", form,
                        coll->nranks, c->topo->nranks);
    if (coll->kind != c->want->kind)
        return ccl_fail(err, CCL_ERR_INPUT, "the %s is an %s, not an %s", form, coll->name,
                        c->want->name);
    return CCL_OK;
}

static ccl_status_t prepare_program(compare_t *c, uint32_t i, uint32_t worker, ccl_error_t *err) {
    const ccl_contender_t *contender = &c->options->contenders[i];
    ready_t *r = &c->ready[i];
    ccl_ctx_t ctx = ccl_i_worker_ctx(c->ctx);
    ccl_routes_t *routes = NULL;
    CCL_TRY(routes_of(c, worker, &routes, err));
    if (contender->program) {
        r->program = contender->program;
        CCL_TRY(check_ranks(c, "program", r->program->coll, err));
        return c->options->no_verify ? CCL_OK
                                     : ccl_make_proven(&ctx, r->program, r->way.granularity,
                                                       CCL_EXECUTOR_ANY, CCL_CHECK, err);
    }
    if (contender->schedule) {
        r->schedule = contender->schedule;
        CCL_TRY(check_ranks(c, "schedule", r->schedule->coll, err));
    } else {
        const ccl_synth_ops_t *ops = ccl_synth_find(contender->name);
        r->by_size = ops && ops->by_size && c->options->nsizes > 0;
        double start_s = ccl_now_s();
        CCL_TRY(synthesize_at(c, &ctx, routes, i, r->first, &r->made, err));
        r->synth_s = ccl_now_s() - start_s;
        r->schedule = r->made;
    }
    /* HPDS and state look at runs, capacity at the bytes of a piece: each size is lowered for
       itself. */
    if (r->by_size || r->way.allocation != CCL_ALLOCATE_CONNECTION ||
        r->way.order == CCL_ORDER_HPDS) {
        r->kept = calloc(c->options->nsizes, sizeof *r->kept);
        return r->kept ? CCL_OK : ccl_fail_nomem(err);
    }
    CCL_TRY(lower_at(c, &ctx, routes, r->schedule, i, c->options->sizes_bytes[0], &r->own, err));
    r->program = r->own;
    r->schedule = NULL;
    ccl_schedule_destroy(r->made);
    r->made = NULL;
    return CCL_OK;
}

/* Is something of contender i to be run, and what is the first? */
static bool wanted(const compare_t *c, uint32_t i, uint32_t *first) {
    uint32_t nc = c->options->ncontenders;
    for (uint32_t s = 0; s < c->options->nsizes; s++) {
        bool again = c->out->winner[s] == i;
        for (uint32_t k = 0; k < c->nagain && !again; k++)
            again = c->again[k] == s * nc + i;
        if (c->known[(size_t)s * nc + i] && !again)
            continue;
        *first = s;
        return true;
    }
    return false;
}

static ccl_status_t prepare(uint32_t index, uint32_t worker, void *user, ccl_error_t *err) {
    compare_t *c = user;
    ready_t *r = &c->ready[index];
    if (r->tried || !wanted(c, index, &r->first))
        return CCL_OK;
    r->tried = true;
    CCL_TRY(poll(c, "synthesize", worker));
    ccl_error_clear(&r->err);
    r->status = prepare_program(c, index, worker, &r->err);
    if (r->status != CCL_OK) {
        r->program = NULL;
        r->schedule = NULL;
    }
    if (ccl_i_stops_all(r->status)) {
        if (err)
            *err = r->err;
        return r->status;
    }
    atomic_fetch_add(&c->done, 1);
    return CCL_OK;
}

/* One run; only its time is kept. */
static ccl_status_t time_at(compare_t *c, const ccl_ctx_t *ctx, ccl_routes_t *routes,
                            const ccl_program_t *program, ccl_sim_options_t sim, double *out,
                            ccl_error_t *err) {
    ccl_sim_result_t *result = NULL;
    ccl_status_t status = ccl_sim_program(ctx, c->topo, routes, program, &sim, &result, err);
    if (status == CCL_OK)
        *out = result->time_s;
    ccl_sim_result_destroy(result);
    return status;
}

/* Of a contender at the first size: one worker, so no lock. */
static void keep_warning(ccl_log_level_t level, const char *subsystem, const char *text,
                         void *user) {
    ready_t *r = user;
    (void)subsystem;
    if (level != CCL_LOG_WARN || r->nwarnings == MAX_WARNINGS)
        return;
    r->warnings[r->nwarnings] = strdup(text);
    if (r->warnings[r->nwarnings])
        r->nwarnings++;
    else
        r->nomem = true;
}

static ccl_status_t run_program(compare_t *c, uint32_t size, uint32_t contender,
                                const ccl_program_t *program, ccl_routes_t *routes,
                                ccl_compare_cell_t *cell, ccl_error_t *err) {
    ccl_ctx_t ctx = ccl_i_worker_ctx(c->ctx);
    ccl_sim_result_t *result = NULL;
    double size_bytes = c->options->sizes_bytes[size];
    ccl_sim_options_t sim = sim_of(c, contender, size_bytes);
    if (size == 0) { /* one worker's */
        ctx.log = keep_warning;
        ctx.log_user = &c->ready[contender];
    }
    ccl_status_t status = ccl_sim_program(&ctx, c->topo, routes, program, &sim, &result, err);
    ctx.log = NULL;
    if (c->ready[contender].nomem)
        status = ccl_fail_nomem(err);
    if (status == CCL_OK) {
        cell->time_s = cell->low_s = cell->high_s = result->time_s;
        cell->algbw_GBps = result->algbw_GBps;
        cell->busbw_GBps = result->busbw_GBps;
        cell->batches = result->batches;
        ccl_sim_usage(program, result, &cell->usage);
    }
    ccl_sim_result_destroy(result);
    return status;
}

/* The program of a contender at a size. @param own  set when the caller is to destroy it. */
static ccl_status_t program_at(compare_t *c, uint32_t size, uint32_t contender,
                               ccl_routes_t *routes, const ccl_program_t **out, ccl_program_t **own,
                               ccl_error_t *err) {
    const ready_t *r = &c->ready[contender];
    ccl_program_t *made = NULL;
    ccl_ctx_t ctx = ccl_i_worker_ctx(c->ctx);
    *own = NULL;
    if (r->status != CCL_OK) {
        if (err)
            *err = r->err;
        return r->status;
    }
    if (r->program || r->kept[size]) {
        *out = r->program ? r->program : r->kept[size];
        return CCL_OK;
    }
    ccl_schedule_t *anew = NULL;
    if (r->by_size && size != r->first)
        CCL_TRY(synthesize_at(c, &ctx, routes, contender, size, &anew, err));
    ccl_status_t status = lower_at(c, &ctx, routes, anew ? anew : r->schedule, contender,
                                   c->options->sizes_bytes[size], &made, err);
    ccl_schedule_destroy(anew);
    CCL_TRY(status);
    if ((double)made->nsteps * c->options->nsizes <= KEPT_STEPS)
        r->kept[size] = made; /* a size and a contender belong to one worker */
    else
        *own = made;
    *out = made;
    return CCL_OK;
}

static ccl_status_t run_cell(compare_t *c, uint32_t size, uint32_t contender, uint32_t worker,
                             ccl_compare_cell_t *cell, ccl_error_t *err) {
    ccl_routes_t *routes = NULL;
    const ccl_program_t *program = NULL;
    ccl_program_t *own = NULL;
    CCL_TRY(routes_of(c, worker, &routes, err));
    CCL_TRY(program_at(c, size, contender, routes, &program, &own, err));
    cell->usage.thread_blocks = ccl_i_most_blocks(program, c->ready[contender].way.granularity);
    ccl_status_t status = run_program(c, size, contender, program, routes, cell, err);
    ccl_program_destroy(own);
    return status;
}

/* What a cell says, as a point has it. */
static void keep_cell(const ready_t *r, const ccl_compare_cell_t *cell, const char *why,
                      double bound_s, ccl_point_result_t *out) {
    *out = (ccl_point_result_t){.status = cell->status,
                                .time_s = cell->time_s,
                                .algbw_GBps = cell->algbw_GBps,
                                .busbw_GBps = cell->busbw_GBps,
                                .bound_s = bound_s,
                                .synth_s = r->synth_s,
                                .thread_blocks = cell->usage.thread_blocks,
                                .batches = cell->batches,
                                .comm_share = cell->usage.comm_share,
                                .mean_idle_share = cell->usage.mean_idle_share,
                                .max_idle_share = cell->usage.max_idle_share,
                                .link_utilization = cell->usage.link_utilization};
    snprintf(out->why, sizeof out->why, "%.255s", why ? why : "");
}

static void take_cell(const ccl_point_result_t *r, ccl_compare_cell_t *cell) {
    cell->status = r->status;
    cell->time_s = cell->low_s = cell->high_s = r->time_s;
    cell->algbw_GBps = r->algbw_GBps;
    cell->busbw_GBps = r->busbw_GBps;
    cell->batches = r->batches;
    cell->usage.thread_blocks = r->thread_blocks;
    if (r->status == CCL_OK)
        cell->usage = (ccl_sim_usage_t){r->thread_blocks, r->comm_share, r->mean_idle_share,
                                        r->max_idle_share, r->link_utilization};
}

static ccl_point_t point_of(const compare_t *c, uint32_t size, uint32_t contender) {
    ccl_point_t p = {.settings = c->ready[contender].settings,
                     .seed = c->ctx ? c->ctx->seed : 1,
                     .size_bytes = c->options->sizes_bytes[size]};
    memcpy(p.topology, c->topology, sizeof p.topology);
    memcpy(p.demand, c->demand, sizeof p.demand);
    return p;
}

static ccl_status_t write_down(compare_t *c, uint32_t size, uint32_t contender, double eval_s,
                               const char *why, ccl_error_t *err) {
    const ready_t *r = &c->ready[contender];
    ccl_point_result_t result;
    /* With more memory it may be another time. */
    bool scarce =
        c->out->cells[(size_t)size * c->options->ncontenders + contender].status == CCL_ERR_NOMEM ||
        atomic_load(&r->dropped);
    if (!r->settings || scarce)
        return CCL_OK;
    ccl_point_t point = point_of(c, size, contender);
    keep_cell(r, &c->out->cells[(size_t)size * c->options->ncontenders + contender], why,
              c->out->bound_s[size], &result);
    result.eval_s = eval_s;
    return ccl_notebook_add(c->options->notebook, &point, &result, c->options->profile, err);
}

static ccl_status_t simulate(uint32_t index, uint32_t worker, void *user, ccl_error_t *err) {
    compare_t *c = user;
    uint32_t nc = c->options->ncontenders;
    /* Big sizes take longest: start with them. */
    uint32_t size = c->options->nsizes - 1 - index / nc, contender = index % nc;
    const ready_t *r = &c->ready[contender];
    ccl_compare_cell_t *cell = &c->out->cells[(size_t)size * nc + contender];
    ccl_error_t why = r->err;
    CCL_TRY(poll(c, "simulate", worker));
    atomic_fetch_add(&c->done, 1);
    if (c->known[(size_t)size * nc + contender])
        return CCL_OK;
    double start_s = ccl_now_s();
    cell->status = r->status;
    if (r->program || r->schedule)
        cell->status = run_cell(c, size, contender, worker, cell, &why);
    if (ccl_i_stops_all(cell->status)) {
        if (err)
            *err = why;
        return cell->status;
    }
    if (cell->status != CCL_OK && (r->program || r->schedule)) {
        char **text = &c->cell_why[(size_t)size * nc + contender];
        *text = strdup(why.text);
        if (!*text)
            return ccl_fail_nomem(err);
    }
    return write_down(c, size, contender, ccl_now_s() - start_s, why.text, err);
}

/* ---------------------------------------------------------------- with little memory */

static void forget(ready_t *r, uint32_t nsizes) {
    ccl_program_destroy(r->own);
    ccl_schedule_destroy(r->made);
    for (uint32_t k = 0; r->kept && k < nsizes; k++)
        ccl_program_destroy(r->kept[k]);
    free(r->kept);
    r->own = NULL;
    r->made = NULL;
    r->kept = NULL;
    r->program = NULL;
    r->schedule = NULL;
}

/* Contenders that there was no memory for beside others. */
static ccl_status_t prepare_alone(compare_t *c, ccl_error_t *err) {
    for (uint32_t i = 0; i < c->options->ncontenders; i++) {
        ready_t *r = &c->ready[i];
        if (r->status != CCL_ERR_NOMEM)
            continue;
        forget(r, c->options->nsizes);
        atomic_store(&r->dropped, 0);
        atomic_fetch_sub(&c->done, 1);
        r->tried = false;
        r->status = CCL_OK;
        CCL_TRY(prepare(i, 0, c, err));
    }
    return CCL_OK;
}

/* The same of runs. */
static ccl_status_t simulate_alone(compare_t *c, ccl_error_t *err) {
    uint32_t nc = c->options->ncontenders, n = nc * c->options->nsizes;
    for (uint32_t index = 0; index < n; index++) {
        size_t cell = (size_t)(c->options->nsizes - 1 - index / nc) * nc + index % nc;
        if (c->out->cells[cell].status != CCL_ERR_NOMEM || c->ready[index % nc].status != CCL_OK)
            continue;
        free(c->cell_why[cell]);
        c->cell_why[cell] = NULL;
        c->ready[index % nc].nomem = false;
        atomic_fetch_sub(&c->done, 1);
        CCL_TRY(simulate(index, 0, c, err));
    }
    return CCL_OK;
}

static ccl_status_t run_all(compare_t *c, uint32_t threads, ccl_error_t *err) {
    uint32_t nc = c->options->ncontenders;
    CCL_TRY(ccl_parallel_for(nc, threads, prepare, c, err));
    if (threads > 1)
        CCL_TRY(prepare_alone(c, err));
    CCL_TRY(ccl_parallel_for(nc * c->options->nsizes, threads, simulate, c, err));
    return threads > 1 ? simulate_alone(c, err) : CCL_OK;
}

/* Nobody has a time, and memory is why. */
static bool too_little(const ccl_comparison_t *out) {
    bool scarce = false;
    for (size_t i = 0; i < (size_t)out->nsizes * out->ncontenders; i++) {
        if (out->cells[i].status == CCL_OK)
            return false;
        scarce |= out->cells[i].status == CCL_ERR_NOMEM;
    }
    return scarce;
}

/* In one warning: what is missing for lack of memory. */
static void tell_memory(const compare_t *c, ccl_text_t *text) {
    const ccl_comparison_t *out = c->out;
    for (uint32_t i = 0; i < out->ncontenders; i++) {
        uint64_t dropped = atomic_load(&c->ready[i].dropped);
        uint32_t missing = 0;
        for (uint32_t s = 0; s < out->nsizes; s++)
            missing += out->cells[(size_t)s * out->ncontenders + i].status == CCL_ERR_NOMEM;
        const char *before = text->len ? ", " : "out of memory: ";
        if (missing)
            ccl_text_printf(text, "%s%s ran at %u of %u sizes", before, out->names[i],
                            out->nsizes - missing, out->nsizes);
        else if (dropped)
            ccl_text_printf(text, "%s%s is without %llu of its candidates", before, out->names[i],
                            (unsigned long long)dropped);
    }
    if (atomic_load(&c->unsure))
        ccl_text_printf(text, "%sties and links of winners are not complete",
                        text->len ? ", " : "out of memory: ");
}

/* ---------------------------------------------------------------- what is known */

static ccl_status_t look_up(compare_t *c, ccl_error_t *err) {
    uint32_t nc = c->options->ncontenders;
    const ccl_topology_t *topo = c->options->known_as ? c->options->known_as : c->topo;
    if (!c->options->notebook || ccl_compare_untold(c->options))
        return CCL_OK;
    CCL_TRY(ccl_i_point_inputs(c->options->notebook, topo, c->want, c->topology, c->demand, err));
    CCL_TRY(ccl_i_notebook_tell(c->ctx, c->options->notebook, c->topology, c->demand, err));
    for (uint32_t i = 0; i < nc; i++) {
        const ccl_contender_t *contender = &c->options->contenders[i];
        if (contender->program || contender->schedule || !ccl_synth_find(contender->name))
            continue;
        c->ready[i].settings = ccl_i_compare_settings(c->options, contender);
        if (!c->ready[i].settings)
            return ccl_fail_nomem(err);
        for (uint32_t s = 0; s < c->options->nsizes; s++) {
            size_t at = (size_t)s * nc + i;
            ccl_point_t point = point_of(c, s, i);
            ccl_point_result_t result;
            CCL_TRY(ccl_notebook_find(c->options->notebook, &point, &result, &c->known[at], err));
            if (!c->known[at])
                continue;
            take_cell(&result, &c->out->cells[at]);
            c->out->resumed++;
            if (result.status != CCL_OK && !(c->cell_why[at] = strdup(result.why)))
                return ccl_fail_nomem(err);
        }
    }
    return CCL_OK;
}

/* ---------------------------------------------------------------- winners and ties */

static void pick_winner(ccl_comparison_t *out, uint32_t size) {
    const ccl_compare_cell_t *cells = out->cells + (size_t)size * out->ncontenders;
    uint32_t best = CCL_NONE;
    for (uint32_t i = 0; i < out->ncontenders; i++) {
        if (cells[i].status == CCL_OK && (best == CCL_NONE || cells[i].time_s < cells[best].time_s))
            best = i;
    }
    out->winner[size] = best;
}

static void find_tie(ccl_comparison_t *out, uint32_t size) {
    const ccl_compare_cell_t *cells = out->cells + (size_t)size * out->ncontenders;
    uint32_t best = out->winner[size];
    for (uint32_t i = 0; best != CCL_NONE && i < out->ncontenders; i++) {
        if (i != best && cells[i].status == CCL_OK && cells[i].low_s <= cells[best].high_s)
            out->tie[size] = true;
    }
}

/* Cells near a size's winner: it, or those that may be as good. */
static void choose_again(compare_t *c, bool winners) {
    uint32_t nc = c->options->ncontenders;
    c->nagain = 0;
    for (uint32_t s = 0; s < c->options->nsizes; s++) {
        const ccl_compare_cell_t *cells = c->out->cells + (size_t)s * nc;
        uint32_t best = c->out->winner[s];
        bool rivals = false;
        for (uint32_t i = 0; best != CCL_NONE && i < nc; i++) {
            if (i == best || cells[i].status != CCL_OK ||
                cells[i].time_s > cells[best].time_s * (1 + NEAR))
                continue;
            rivals = true;
            if (!winners && cells[i].time_s > cells[best].high_s)
                c->again[c->nagain++] = s * nc + i;
        }
        if (winners && rivals)
            c->again[c->nagain++] = s * nc + best;
    }
}

/* Without memory for it a cell has no spread, a size no links. */
static ccl_status_t unsure(compare_t *c, ccl_status_t status) {
    if (status != CCL_ERR_NOMEM)
        return status;
    atomic_fetch_add(&c->unsure, 1);
    return CCL_OK;
}

/* The spread of a cell. */
static ccl_status_t run_again(uint32_t index, uint32_t worker, void *user, ccl_error_t *err) {
    compare_t *c = user;
    uint32_t nc = c->options->ncontenders, size = c->again[index] / nc,
             contender = c->again[index] % nc;
    ccl_compare_cell_t *cell = &c->out->cells[c->again[index]];
    double size_bytes = c->options->sizes_bytes[size];
    ccl_ctx_t ctx = ccl_i_worker_ctx(c->ctx);
    ccl_sim_options_t sim = sim_of(c, contender, size_bytes);
    ccl_routes_t *routes = NULL;
    const ccl_program_t *program = NULL;
    ccl_program_t *own = NULL;
    CCL_TRY(poll(c, "simulate", worker));
    ccl_status_t status = routes_of(c, worker, &routes, err);
    if (status == CCL_OK)
        status = program_at(c, size, contender, routes, &program, &own, err);
    sim.batches = cell->batches; /* as at the size itself: their number may jump there */
    for (int side = -1; side <= 1 && status == CCL_OK; side += 2) {
        double time_s = cell->time_s;
        sim.size_bytes = size_bytes * (1 + side * SPREAD);
        status = time_at(c, &ctx, routes, program, sim, &time_s, err);
        cell->low_s = fmin(cell->low_s, time_s);
        cell->high_s = fmax(cell->high_s, time_s);
    }
    ccl_program_destroy(own);
    return unsure(c, status);
}

static ccl_status_t find_ties(compare_t *c, uint32_t threads, ccl_error_t *err) {
    for (int winners = 1; winners >= 0; winners--) {
        choose_again(c, winners);
        CCL_TRY(ccl_parallel_for(c->options->ncontenders, threads, prepare, c, err));
        CCL_TRY(ccl_parallel_for(c->nagain, threads, run_again, c, err));
    }
    for (uint32_t s = 0; s < c->options->nsizes; s++)
        find_tie(c->out, s);
    return CCL_OK;
}

static ccl_status_t run_winner(compare_t *c, uint32_t size, uint32_t worker, ccl_error_t *err) {
    uint32_t winner = c->out->winner[size];
    ccl_ctx_t ctx = ccl_i_worker_ctx(c->ctx);
    ccl_sim_options_t sim = sim_of(c, winner, c->options->sizes_bytes[size]);
    ccl_routes_t *routes = NULL;
    const ccl_program_t *program = NULL;
    ccl_program_t *own = NULL;
    CCL_TRY(routes_of(c, worker, &routes, err));
    CCL_TRY(program_at(c, size, winner, routes, &program, &own, err));
    if (size == 0 && c->known[winner]) { /* nothing was run that could warn */
        ctx.log = keep_warning;
        ctx.log_user = &c->ready[winner];
    }
    ccl_status_t status =
        ccl_sim_program(&ctx, c->topo, routes, program, &sim, &c->out->best[size], err);
    ccl_program_destroy(own);
    return status;
}

/* The winner again, for its full result. */
static ccl_status_t detail(uint32_t size, uint32_t worker, void *user, ccl_error_t *err) {
    compare_t *c = user;
    CCL_TRY(poll(c, "simulate", worker));
    if (c->out->winner[size] != CCL_NONE)
        CCL_TRY(unsure(c, run_winner(c, size, worker, err)));
    atomic_fetch_add(&c->done, 1);
    return CCL_OK;
}

static ccl_status_t allocate(compare_t *c, ccl_error_t *err) {
    const ccl_compare_options_t *o = c->options;
    ccl_comparison_t *out = c->out;
    ccl_arena_t *arena = &out->arena;
    size_t nc = o->ncontenders, ns = o->nsizes;
    out->ncontenders = o->ncontenders;
    out->nsizes = o->nsizes;
    out->names = ccl_arena_alloc(arena, nc + 1, sizeof *out->names);
    out->why_not = ccl_arena_alloc(arena, nc + 1, sizeof *out->why_not);
    out->thread_blocks = ccl_arena_alloc(arena, nc + 1, sizeof *out->thread_blocks);
    out->ways = ccl_arena_alloc(arena, nc + 1, sizeof *out->ways);
    out->lowered = ccl_arena_alloc(arena, nc + 1, sizeof *out->lowered);
    out->sizes_bytes = ccl_arena_alloc(arena, ns + 1, sizeof *out->sizes_bytes);
    out->bound_s = ccl_arena_alloc(arena, ns + 1, sizeof *out->bound_s);
    out->cells = ccl_arena_alloc(arena, ns * nc + 1, sizeof *out->cells);
    out->winner = ccl_arena_alloc(arena, ns + 1, sizeof *out->winner);
    out->tie = ccl_arena_alloc(arena, ns + 1, sizeof *out->tie);
    out->best = ccl_arena_alloc(arena, ns + 1, sizeof *out->best);
    if (!out->names || !out->why_not || !out->thread_blocks || !out->ways || !out->lowered ||
        !out->sizes_bytes || !out->bound_s || !out->cells || !out->winner || !out->tie ||
        !out->best)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < nc; i++) {
        out->names[i] = ccl_arena_strdup(arena, o->contenders[i].name);
        if (!out->names[i])
            return ccl_fail_nomem(err);
    }
    for (uint32_t i = 0; i < ns; i++)
        out->sizes_bytes[i] = o->sizes_bytes[i];
    return CCL_OK;
}

/* Who has no time at any size does not take part; the largest size says why. */
static ccl_status_t explain(compare_t *c, ccl_error_t *err) {
    ccl_comparison_t *out = c->out;
    for (uint32_t i = 0; i < out->ncontenders; i++) {
        const char *why = c->ready[i].err.text;
        bool ran = false;
        out->ways[i] = c->ready[i].way;
        out->lowered[i] = c->options->contenders[i].program == NULL;
        for (uint32_t s = 0; s < out->nsizes; s++) {
            size_t cell = (size_t)s * out->ncontenders + i;
            uint32_t blocks = out->cells[cell].usage.thread_blocks;
            ran |= out->cells[cell].status == CCL_OK;
            if (blocks > out->thread_blocks[i])
                out->thread_blocks[i] = blocks;
            if (c->cell_why[cell])
                why = c->cell_why[cell];
        }
        for (uint32_t s = 0; ran && s < out->nsizes; s++) {
            size_t cell = (size_t)s * out->ncontenders + i;
            if (!c->cell_why[cell])
                continue;
            out->cells[cell].why = ccl_arena_strdup(&out->arena, c->cell_why[cell]);
            if (!out->cells[cell].why)
                return ccl_fail_nomem(err);
        }
        if (ran)
            continue;
        out->why_not[i] = ccl_arena_strdup(&out->arena, why);
        if (!out->why_not[i])
            return ccl_fail_nomem(err);
    }
    return CCL_OK;
}

bool ccl_warnings_alike(const char *a, const char *b) {
    const char *colon_a = strrchr(a, ':'), *colon_b = strrchr(b, ':');
    return strcmp(colon_a ? colon_a : a, colon_b ? colon_b : b) == 0;
}

/* Each kind once, in the order of the contenders whatever the threads did. */
static ccl_status_t gather_warnings(compare_t *c, ccl_error_t *err) {
    ccl_comparison_t *out = c->out;
    size_t most = (size_t)out->ncontenders * MAX_WARNINGS + 1;
    ccl_text_t memory = {0};
    out->warnings = ccl_arena_alloc(&out->arena, most + 1, sizeof *out->warnings);
    if (!out->warnings)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < out->ncontenders; i++) {
        for (uint32_t k = 0; k < c->ready[i].nwarnings; k++) {
            const char *text = c->ready[i].warnings[k];
            bool known = false;
            for (uint32_t j = 0; j < out->nwarnings && !known; j++)
                known = ccl_warnings_alike(out->warnings[j], text);
            if (known)
                continue;
            out->warnings[out->nwarnings] = ccl_arena_strdup(&out->arena, text);
            if (!out->warnings[out->nwarnings])
                return ccl_fail_nomem(err);
            out->nwarnings++;
        }
    }
    tell_memory(c, &memory);
    if (memory.len)
        out->warnings[out->nwarnings] = ccl_arena_strdup(&out->arena, memory.data);
    bool nomem = memory.nomem || (memory.len && !out->warnings[out->nwarnings]);
    out->nwarnings += memory.len > 0;
    ccl_text_fini(&memory);
    return nomem ? ccl_fail_nomem(err) : CCL_OK;
}

static ccl_status_t bound_sizes(compare_t *c, ccl_error_t *err) {
    ccl_bound_t bound;
    CCL_TRY(ccl_bound(c->ctx, c->topo, c->want, NULL, &bound, err));
    for (uint32_t s = 0; s < c->out->nsizes; s++)
        c->out->bound_s[s] = ccl_bound_time_s(&bound, c->out->sizes_bytes[s]);
    ccl_bound_fini(&bound);
    return CCL_OK;
}

static ccl_status_t check_options(const ccl_topology_t *topo, const ccl_collective_t *want,
                                  const ccl_compare_options_t *o, ccl_error_t *err) {
    if (want->nranks != topo->nranks)
        return ccl_fail(err, CCL_ERR_INPUT, "the collective has %u ranks, topology %.80s has %u",
                        want->nranks, topo->name, topo->nranks);
    if (o->ncontenders == 0 || o->nsizes == 0)
        return ccl_fail(err, CCL_ERR_INPUT, "nothing to compare: %s",
                        o->nsizes ? "no contender" : "no size");
    for (uint32_t i = 0; i < o->nsizes; i++) {
        if (!(o->sizes_bytes[i] > 0) || !isfinite(o->sizes_bytes[i]))
            return ccl_fail(err, CCL_ERR_INPUT, "size %u is %g bytes: more than 0 is needed", i,
                            o->sizes_bytes[i]);
    }
    return CCL_OK;
}

static void compare_fini(compare_t *c, uint32_t threads) {
    uint32_t nc = c->options->ncontenders, ns = c->options->nsizes;
    for (uint32_t i = 0; c->ready && i < nc; i++) {
        forget(&c->ready[i], ns);
        free(c->ready[i].settings);
        for (uint32_t k = 0; k < c->ready[i].nwarnings; k++)
            free(c->ready[i].warnings[k]);
    }
    for (uint32_t i = 0; c->routes && i < threads; i++)
        ccl_routes_destroy(c->routes[i]);
    for (size_t i = 0; c->cell_why && i < (size_t)nc * ns; i++)
        free(c->cell_why[i]);
    free(c->cell_why);
    free(c->known);
    free(c->again);
    free(c->ready);
    free(c->routes);
    ccl_comparison_destroy(c->out);
}

ccl_status_t ccl_compare(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                         const ccl_collective_t *want, const ccl_compare_options_t *options,
                         ccl_comparison_t **out, ccl_error_t *err) {
    CCL_OPTIONS_TRY(ccl_compare_options_t, options, err);
    CCL_OPTIONS_TRY(ccl_synth_options_t, &options->synth, err);
    CCL_OPTIONS_TRY(ccl_lower_options_t, &options->lower, err);
    CCL_OPTIONS_TRY(ccl_sim_options_t, &options->sim, err);
    compare_t c = {.ctx = ctx, .topo = topo, .want = want, .options = options};
    uint32_t threads = ctx && ctx->threads ? ctx->threads : ccl_core_count();
    uint32_t nc = options->ncontenders, ns = options->nsizes;
    CCL_TRY(check_options(topo, want, options, err));
    if ((uint64_t)nc * ns > UINT32_MAX)
        return ccl_fail(err, CCL_ERR_INPUT, "too many sizes and contenders");
    ccl_status_t status = CCL_OK;
    c.total = (uint64_t)nc + (uint64_t)nc * ns + ns;
    atomic_init(&c.done, 0);
    atomic_init(&c.unsure, 0);
    c.out = calloc(1, sizeof *c.out);
    c.ready = calloc(nc, sizeof *c.ready);
    c.routes = calloc(threads, sizeof *c.routes);
    c.cell_why = calloc((size_t)nc * ns, sizeof *c.cell_why);
    c.known = calloc((size_t)nc * ns, sizeof *c.known);
    c.again = calloc((size_t)nc * ns, sizeof *c.again);
    if (!c.out || !c.ready || !c.routes || !c.cell_why || !c.known || !c.again) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    ccl_arena_init(&c.out->arena);
    CCL_TRY_GOTO(allocate(&c, err), status, end);
    CCL_TRY_GOTO(bound_sizes(&c, err), status, end);
    for (uint32_t i = 0; i < nc; i++)
        c.ready[i].way = way_of(&c, i);
    for (uint32_t k = 0; k < ns; k++)
        c.out->winner[k] = CCL_NONE;
    CCL_TRY_GOTO(look_up(&c, err), status, end);
    CCL_TRY_GOTO(run_all(&c, threads, err), status, end);
    if (too_little(c.out)) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    for (uint32_t s = 0; s < ns; s++)
        pick_winner(c.out, s);
    CCL_TRY_GOTO(find_ties(&c, threads, err), status, end);
    CCL_TRY_GOTO(ccl_parallel_for(ns, threads, detail, &c, err), status, end);
    CCL_TRY_GOTO(explain(&c, err), status, end);
    CCL_TRY_GOTO(gather_warnings(&c, err), status, end);
    CCL_TRY_GOTO(poll(&c, "simulate", 0), status, end);
    *out = c.out;
    c.out = NULL;
end:
    compare_fini(&c, threads);
    return status;
}

void ccl_comparison_destroy(ccl_comparison_t *comparison) {
    if (!comparison)
        return;
    for (uint32_t i = 0; comparison->best && i < comparison->nsizes; i++)
        ccl_sim_result_destroy(comparison->best[i]);
    ccl_arena_fini(&comparison->arena);
    free(comparison);
}
