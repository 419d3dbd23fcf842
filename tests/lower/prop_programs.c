// timeout: 120
/*
 * Lowering never changes what a program computes, and the program finishes: random schedules and
 * synthesizers' x orders x granularities x allocations x executors, on small clusters of all
 * shapes. At task level with FIFOs of depth 1 and any number of micro-batches.
 */
#include "random_schedule.h"
#include "tests/base/nightly.h"

#ifdef __SANITIZE_ADDRESS__
enum { TRIALS = 2, NIGHTLY_TRIALS = 14, EVERY = 5 }; /* ten times as slow */
#else
enum { TRIALS = 4, NIGHTLY_TRIALS = 60, EVERY = 2 };
#endif

static const struct {
    const char *spec, *why;
} topologies[] = {
    {"servers:1 gpus:5 nvswitch=300GB/s,1us", "one kind of connection"},
    {"servers:2 gpus:3 nvswitch=300GB/s,1us nics:2x25GB/s,2us", "two kinds"},
    {"servers:3 gpus:2 nvswitch=300GB/s,1us nics:1x25GB/s,2us", "a NIC for two"},
    {"servers:4 gpus:1 nvswitch=300GB/s,1us nics:2x25GB/s,2us", "two NICs for a GPU"},
    {"heteccl-h20-4+8", "mixed servers"},
    {"resccl-topo1", "blocks that cannot fill links"},
};

typedef struct counts {
    unsigned lowered, refused, several, spread, cut, joined;
} counts_t;

static uint32_t greatest_stage(const ccl_program_t *p) {
    uint32_t most = 0;
    for (uint32_t i = 0; i < p->nsteps; i++)
        most = p->steps[i].stage > most ? p->steps[i].stage : most;
    return most;
}

static void check_finishes(const ccl_program_t *program, ccl_granularity_t granularity,
                           uint32_t slots, uint32_t batches, const char *what) {
    ccl_deadlock_t *deadlock = calloc(1, sizeof *deadlock);
    ccl_blocking_t blocking = {.granularity = granularity, .batches = batches, .slots = slots};
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_msg(ccl_program_deadlock(NULL, program, &blocking, deadlock, &err) == CCL_OK,
                  "%s: %s", what, err.text);
    ck_assert_msg(deadlock->nwaits == 0 && deadlock->stuck == 0,
                  "%s: %u batches, %u slots: %u blocks are stuck", what, batches, slots,
                  deadlock->stuck);
    free(deadlock);
}

static void check_lowered(const ccl_schedule_t *schedule, const ccl_lower_options_t *options,
                          const char *spec, counts_t *counts) {
    char what[400];
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_program_t *program = NULL;
    ccl_verdict_t *verdict = calloc(1, sizeof *verdict);
    ccl_verify_options_t verify = CCL_VERIFY_OPTIONS_INIT;
    snprintf(
        what, sizeof what,
        "%s %s on %s: order %d, granularity %d, allocation %d, executor %d, stages %d, slots %u%s",
        schedule->name, schedule->coll->name, spec, (int)options->order, (int)options->granularity,
        (int)options->allocation, (int)options->executor, (int)options->stages, options->slots,
        options->out_of_place ? ", out of place" : "");
    ccl_status_t status = ccl_lower(NULL, schedule, options, &program, &err);
    if (status == CCL_UNSUPPORTED) { /* limits of the executor, or of the GPU */
        ck_assert_msg(strstr(err.text, "rank") != NULL, "%s: %s", what, err.text);
        counts->refused++;
        free(verdict);
        return;
    }
    ck_assert_msg(status == CCL_OK, "%s: %s", what, err.text);
    counts->lowered++;
    uint32_t slots = options->granularity == CCL_GRANULARITY_TASK ? 1
                     : options->slots                             ? options->slots
                                                                  : 2;
    verify.executor = options->executor;
    verify.granularity = options->granularity;
    verify.slots = slots;
    verify.batches = 3;
    status = ccl_program_verify(NULL, program, &verify, verdict, &err);
    ck_assert_msg(status == CCL_OK, "%s: %s", what, err.text);
    ck_assert_msg(verdict->valid, "%s: %s: %s", what, verdict->fault.kind, verdict->fault.text);
    for (uint32_t batches = 1; batches <= 9; batches += 4)
        check_finishes(program, options->granularity, slots, batches, what);
    if (options->granularity == CCL_GRANULARITY_STAGE) {
        /* In order of stages it is valid at algorithm level as well. */
        check_finishes(program, CCL_GRANULARITY_ALGORITHM, slots, 2, what);
        counts->several += greatest_stage(program) > 0;
        if (options->executor != CCL_EXECUTOR_ANY)
            ck_assert_msg(greatest_stage(program) == 0, "%s", what);
    }
    counts->spread +=
        options->allocation == CCL_ALLOCATE_CAPACITY && program->nchannels > schedule->nchannels;
    for (uint32_t i = 0; i < program->nsteps; i++)
        counts->joined += program->steps[i].count > 1;
    counts->cut +=
        options->executor != CCL_EXECUTOR_ANY && program->nchannels > schedule->nchannels;
    ccl_program_destroy(program);
    free(verdict);
}

/** @param step  one in this many of the ways, others for the next schedule */
static void check_ways(ccl_rng_t *rng, const ccl_schedule_t *schedule, const ccl_topology_t *topo,
                       ccl_routes_t *routes, uint32_t step, const char *spec, counts_t *counts) {
    for (uint32_t way = ccl_rng_below(rng, step); way < 3 * 3 * 4; way += step) {
        ccl_lower_options_t options = CCL_LOWER_OPTIONS_INIT;
        options.granularity = (ccl_granularity_t)(way % 3);
        options.allocation = (ccl_allocation_t)(way / 3 % 3);
        options.executor = (ccl_executor_t)(way / 9);
        if (options.allocation == CCL_ALLOCATE_STATE && options.executor != CCL_EXECUTOR_ANY)
            continue;
        options.order = (ccl_order_t)ccl_rng_below(rng, 3);
        options.size_bytes = 1 << 20;
        options.stages = ccl_rng_below(rng, 2) ? CCL_STAGES_AUTO : CCL_STAGES_PHASE;
        options.out_of_place = ccl_rng_below(rng, 2);
        options.no_fuse = ccl_rng_below(rng, 4) == 0;
        options.ordered = ccl_rng_below(rng, 4) == 0;
        options.slots = ccl_rng_below(rng, 3);
        options.batches = ccl_rng_below(rng, 2);
        options.topo = topo;
        options.routes = ccl_rng_below(rng, 2) ? routes : NULL;
        check_lowered(schedule, &options, spec, counts);
    }
}

START_TEST(test_random) {
    static const ccl_collective_kind_t kinds[] = {CCL_ALLREDUCE, CCL_ALLGATHER, CCL_REDUCESCATTER,
                                                  CCL_BROADCAST, CCL_REDUCE};
    const char *spec = topologies[_i].spec;
    ccl_topology_t *topo = topology(spec);
    ccl_routes_t *routes = ccl_routes_create(topo);
    counts_t counts = {0};
    ccl_rng_t rng;
    ccl_rng_init(&rng, 77 + (uint64_t)_i);
    uint32_t trials = nightly() ? NIGHTLY_TRIALS : TRIALS;
    for (uint32_t trial = 0; trial < trials; trial++) {
        ccl_schedule_t *schedule =
            random_schedule(&rng, kinds[trial % CCL_ARRAY_LEN(kinds)], topo->nranks);
        schedule->joined = trial % 2;
        check_ways(&rng, schedule, topo, routes, 1, spec, &counts);
        ccl_schedule_destroy(schedule);
    }
    ck_assert_uint_gt(counts.lowered, trials * 18);
    ck_assert_uint_ge(counts.several * 2, trials);
    ck_assert(_i == 0 || _i == 3 || counts.spread > 0); /* of one kind: nothing to spread */
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(test_synthesizers) {
    const char *spec = topologies[_i].spec;
    ccl_topology_t *topo = topology(spec);
    ccl_routes_t *routes = ccl_routes_create(topo);
    counts_t counts = {0};
    ccl_rng_t rng;
    ccl_rng_init(&rng, 7 + (uint64_t)_i);
    uint32_t step = SANITIZED ? 3 : nightly() ? 1 : 2, every = nightly() ? 1 : EVERY;
    for (uint32_t kind = (uint32_t)_i % step; kind < CCL_CUSTOM; kind += step) {
        ccl_collective_t *want = collective((ccl_collective_kind_t)kind, topo->nranks, 1);
        for (const ccl_synth_ops_t *const *ops = ccl_synth_all(); *ops && !(*ops)->by_name; ops++) {
            ccl_synth_options_t synth = CCL_SYNTH_OPTIONS_INIT;
            ccl_schedule_t *schedule = NULL;
            ccl_error_t err = CCL_ERROR_INIT;
            if (only_plain(*ops, want->kind))
                continue;
            synth.chunks = 1; /* tries fewer ways where a synthesizer searches */
            synth.sketch.cache = solved_once();
            synth.channels = 1 + ccl_rng_below(&rng, 2);
            ccl_status_t status =
                ccl_synthesize(NULL, (*ops)->name, topo, routes, want, &synth, &schedule, &err);
            if (status == CCL_UNSUPPORTED)
                continue;
            ck_assert_msg(status == CCL_OK, "%s: %s", (*ops)->name, err.text);
            schedule->joined = true;
            check_ways(&rng, schedule, topo, routes, every, spec, &counts);
            ccl_schedule_destroy(schedule);
        }
        ccl_collective_destroy(want);
    }
    ck_assert_uint_gt(counts.lowered, 24 * 20 / step / every);
#ifndef __SANITIZE_ADDRESS__ /* there those that search have one kind of collective */
    ck_assert(_i == 0 || counts.joined > 0); /* on one server nothing lies side by side */
#endif
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("prop.synth.lowering");
    TCase *tcase = tcase_create("lowering");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, test_random, 0, (int)CCL_ARRAY_LEN(topologies));
    tcase_add_loop_test(tcase, test_synthesizers, 0, (int)CCL_ARRAY_LEN(topologies));
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
