/*
 * cegis: HeteCCL's synthesizer (Hei et al., NSDI 2026, sections 4 and 5, appendices H and I).
 *
 * The cluster is chunked (chunking.h), a greedy plan in steps is the start, and
 * counterexample-guided search with Z3 takes steps away until a bound, a proof or a limit stops it.
 * ReduceScatter is AllGather time-reversed, AllReduce one after the other.
 *
 * The schedule is the plan for several slices of every chunk, each a round later than the one
 * before at every hop, so that all hops of the plan are busy at the same time. How many, into how
 * many parts shards are cut and how many connections hops get is decided by simulation.
 */
#include "synth/cegis/job.h"
#include "synth/common/options.h"
#include "synth/common/race.h"
#include "synth/registry.h"
#include "synth/common/turn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef ccl_i_cegis_job_t cegis_t;
typedef ccl_i_cegis_cut_t cut_t;
typedef ccl_i_cegis_side_t side_t;
typedef ccl_i_cegis_trial_t trial_t;

#define FEWEST_TREES 8u

static bool supports(const ccl_topology_t *topo, const ccl_collective_t *want, const char **why) {
    if (topo->nranks > UINT16_MAX) {
        *why = "more than 65535 GPUs";
        return false;
    }
    (void)want;
    return true;
}

/** Which start the plan that was taken has, and what the solver changed of it. */
static void tell_origin(const cegis_t *c, const cut_t *best, ccl_schedule_t *schedule) {
    const char *start = c->options->plain_start ? "plain" : "greedy";
    const ccl_synth_stats_t *own = &best->stats;
    uint32_t calls = 0;

    for (uint32_t k = 0; k < c->ncuts; k++)
        calls += c->cut[k].stats.solver_calls;
    ccl_origin_set(schedule->origin, "cegis: %s start, ", start);
    char *end = schedule->origin + strlen(schedule->origin);
    size_t room = (size_t)(schedule->origin + CCL_ORIGIN_LEN - end);
    if (own->solver_steps)
        snprintf(end, room, "Z3 took %u step%s away%s", own->solver_steps,
                 own->solver_steps == 1 ? "" : "s",
                 own->solver_spreads ? " and spread the load" : "");
    else if (own->solver_spreads)
        snprintf(end, room, "Z3 spread the load");
    else if (own->solver_calls)
        snprintf(end, room, "Z3 asked in vain");
    else
        snprintf(end, room, calls ? "Z3 asked about another plan only" : "Z3 not asked");
}

static ccl_status_t run(cegis_t *c, ccl_schedule_t **out, ccl_error_t *err) {
    trial_t best = {.time_s = INFINITY};
    c->best = &best;
    ccl_i_cegis_race_init(c);
    c->depth = ccl_arena_alloc(&c->arena, c->nranks, sizeof *c->depth);
    ccl_status_t status = c->depth ? ccl_i_cegis_cuts(c, err) : ccl_fail_nomem(err);
    if (status == CCL_OK)
        status = ccl_i_cegis_choose(c, err);
    if (status == CCL_OK)
        status = ccl_i_race_take(&c->race, out, err);
    ccl_i_race_fini(&c->race);
    if (status != CCL_OK)
        return status;
    ccl_log(c->ctx, CCL_LOG_INFO, "cegis", "%u cuts of a block, %u slices, connections by %s",
            c->cut[best.cut].cuts, best.slices,
            best.lanes == CCL_I_LANES_PLAIN  ? "chunk"
            : best.lanes == CCL_I_LANES_RATE ? "what they carry"
                                             : "what links carry");
    tell_origin(c, &c->cut[best.cut], *out);
    if (c->options->stats) {
        ccl_synth_stats_t *all = c->options->stats;
        all->dropped += c->task.dropped;
        const ccl_synth_stats_t *own = &c->cut[best.cut].stats;
        all->parts += own->parts;
        all->start_steps += own->start_steps;
        all->steps += own->steps;
        all->bound_steps += own->bound_steps;
        all->solver_steps += own->solver_steps;
        all->solver_spreads += own->solver_spreads;
        for (uint32_t k = 0; k < c->ncuts; k++) { /* what was asked on the way there, too */
            all->counterexamples += c->cut[k].stats.counterexamples;
            all->solver_calls += c->cut[k].stats.solver_calls;
            all->solver_s += c->cut[k].stats.solver_s;
            all->solver_work += c->cut[k].stats.solver_work;
        }
    }
    (*out)->limited = c->task.limited || c->task.dropped;
    return CCL_OK;
}

static void cegis_init(cegis_t *c, const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                       ccl_routes_t *routes, const ccl_collective_t *want,
                       const ccl_synth_options_t *options) {
    uint32_t trees = want->kind == CCL_ALLREDUCE ? want->nranks : want->nchunks;
    memset(c, 0, sizeof *c);
    c->ctx = ctx;
    c->options = options;
    c->want = want;
    c->topo = topo;
    c->routes = routes;
    c->nranks = topo->nranks;
    c->cuts = options->chunks ? options->chunks : 1;
    if (!options->chunks && trees && trees < FEWEST_TREES)
        c->cuts = (FEWEST_TREES + trees - 1) / trees;
    if (want->kind == CCL_ALLREDUCE)
        c->cuts *= want->nranks;
    c->sides[1].up = true;
    c->sides[1].one_send = true;
    c->task =
        (ccl_i_cegis_task_t){.ctx = ctx, .options = options, .stats = &c->stats, .balance = true};
    if (options->time_limit_s > 0)
        c->task.deadline_s = ccl_now_s() + options->time_limit_s;
}

static void cegis_fini(cegis_t *c) {
    for (int i = 0; i < 2; i++) {
        ccl_i_cegis_side_fini(&c->sides[i]);
        for (uint32_t k = 0; k < c->ncuts; k++)
            ccl_i_cegis_side_fini(&c->cut[k].sides[i]);
    }
    ccl_arena_fini(&c->arena);
}

static ccl_status_t synthesize(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                               ccl_routes_t *routes, const ccl_collective_t *want,
                               const ccl_synth_options_t *options, ccl_schedule_t **out,
                               ccl_error_t *err) {
    cegis_t c;
    cegis_init(&c, ctx, topo, routes, want, options);
    ccl_status_t status = run(&c, out, err);
    cegis_fini(&c);
    return status;
}

ccl_status_t ccl_synth_capacities(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                                  ccl_routes_t *routes, const ccl_collective_t *want,
                                  const ccl_synth_options_t *options, ccl_chunk_capacities_t **out,
                                  ccl_error_t *err) {
    CCL_OPTIONS_TRY(ccl_synth_options_t, options, err);
    const ccl_synth_options_t defaults = CCL_SYNTH_OPTIONS_INIT;
    cegis_t c;
    if (want->nranks != topo->nranks)
        return ccl_fail(err, CCL_ERR_INPUT, "the collective has %u ranks, topology %.80s has %u",
                        want->nranks, topo->name, topo->nranks);
    cegis_init(&c, ctx, topo, routes, want, options ? options : &defaults);
    ccl_status_t status = ccl_i_cegis_discretise(&c, &c.sides[0], err);
    side_t *side = &c.sides[0];
    if (status == CCL_OK && !side->used) {
        side = &c.sides[1];
        status = ccl_i_cegis_discretise(&c, side, err);
    }
    if (status == CCL_OK && !side->used)
        status = ccl_fail(err, CCL_ERR_INPUT, "%.80s moves nothing", want->name);
    if (status == CCL_OK)
        status = ccl_i_chunking_explain(&side->capacity, &side->x, out, err);
    cegis_fini(&c);
    return status;
}

static const ccl_option_t own_options[] = {
    {.name = "effort",
     .type = CCL_OPTION_COUNT,
     .offset = CCL_I_SYNTH_AT(effort),
     .value = "N",
     .automatic = 1,
     .doc = "times the usual work of solver and simulation; 0: the start alone",
     .otherwise = "1",
     .knob = "effort",
     .knob_max = 1000},
    {.name = "tau-ref",
     .type = CCL_OPTION_TIME,
     .offset = CCL_I_SYNTH_AT(tau_ref_s),
     .value = "TIME",
     .doc = "length of a step",
     .otherwise = "a multiple of what the slowest hop needs for a chunk",
     .knob = "tau_ref"},
    {.name = "capacity",
     .type = CCL_OPTION_EITHER,
     .offset = CCL_I_SYNTH_AT(ceiling),
     .value = "HOW",
     .words = CCL_OPTION_WORDS("floor", "ceiling"),
     .doc = "chunks that a link carries in a step are rounded down, or up as in HeteCCL's "
            "equation 1",
     .otherwise = "floor",
     .knob = "capacity"},
    {.name = "start",
     .type = CCL_OPTION_EITHER,
     .offset = CCL_I_SYNTH_AT(plain_start),
     .value = "HOW",
     .words = CCL_OPTION_WORDS("zones", "plain"),
     .doc = "the greedy start looks at zones and rarity, or fills links at random",
     .otherwise = "zones",
     .knob = "start"},
    {.name = "search-trace",
     .type = CCL_OPTION_OUTPUT,
     .offset = CCL_I_SYNTH_AT(trace),
     .value = "FILE",
     .doc = "write a JSON line per snapshot of the search",
     .alias = "trace",
     .flags = CCL_OPTION_NEUTRAL},
    {.name = NULL},
};
static const ccl_option_t *const options[] = {ccl_i_rooted_options, ccl_i_compose_options,
                                              own_options, NULL};

const ccl_synth_ops_t ccl_i_synth_cegis = {
    .size = sizeof(ccl_synth_ops_t),
    .name = "cegis",
    .summary = "chunked steps, greedy start, counterexample-guided repair with Z3",
    .source = "HeteCCL (NSDI 2026), sections 4 and 5, appendices H and I",
    .supports = supports,
    .synthesize = synthesize,
    .by_size = true,
    .through_switches = true,
    .way = &ccl_way_hpds,
    .composable = true,
    .options = options,
};
