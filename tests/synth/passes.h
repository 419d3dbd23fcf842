/* Shared by the tests of passes: a pass that gains time is held by a cluster where it does. */
#ifndef CCL_TESTS_SYNTH_PASSES_H
#define CCL_TESTS_SYNTH_PASSES_H

#include "bench/small_clusters.h"
#include "common.h"

/** Without the pass the time is more than `most_us`, about as far above it as the time is below. */
typedef struct pass_row {
    const char *pass, *algo;
    /* "small:SEED:NUMBER": a random one, "profiled:SPEC": with its profile; edit NULL: as it is */
    const char *spec, *edit;
    ccl_collective_kind_t kind;
    double size_bytes, most_us;
} pass_row_t;

/** With the constants of the library's profile for it. */
static inline ccl_topology_t *pass_topology(const char *spec) {
    unsigned seed, number;

    if (strncmp(spec, "profiled:", 9) == 0)
        return with_profile(spec + 9, NULL);
    if (sscanf(spec, "small:%u:%u", &seed, &number) != 2)
        return topology(spec);
    ccl_topology_t *topo = small_cluster(seed, number, NULL);
    ck_assert_ptr_nonnull(topo);
    return topo;
}

/** Simulated, lowered as `compare` does. */
static inline void check_pass(const pass_row_t *row) {
    ccl_topology_t *topo = pass_topology(row->spec);
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    ccl_schedule_t *schedule = NULL;
    ccl_timed_program_t timed = {NULL, NULL};

    if (row->edit) {
        ccl_topology_t *whole = topo;
        topo = edited(whole, row->edit);
        ccl_topology_destroy(whole);
    }
    ccl_collective_t *want = collective(row->kind, topo->nranks, 0);
    options.size_bytes = lower.size_bytes = row->size_bytes;
    lower.topo = topo;
    lower.order = CCL_ORDER_HPDS;
    lower.allocation = CCL_ALLOCATE_STATE;
    lower.granularity = CCL_GRANULARITY_TASK;
    if (strcmp(row->algo, "packing") == 0) { /* its trees alone, in pieces that lowering may cut */
        ccl_routes_t *routes = ccl_routes_create(topo);
        MUST(ccl_synth_find(row->algo)->synthesize(NULL, topo, routes, want, &options, &schedule,
                                                   e));
        ccl_routes_destroy(routes);
    } else
        MUST(ccl_synthesize(NULL, row->algo, topo, NULL, want, &options, &schedule, e));
    MUST(ccl_lower(NULL, schedule, &lower, &timed.program, e));
    MUST(ccl_lower_run(NULL, &lower, &timed, 0, e));
    ck_assert_msg(timed.run->time_s * 1e6 <= row->most_us,
                  "%s: %s %s of %.0f bytes on %s takes %.6g us, not at most %.6g", row->pass,
                  row->algo, want->name, row->size_bytes, row->spec, timed.run->time_s * 1e6,
                  row->most_us);
    ccl_timed_program_fini(&timed);
    ccl_schedule_destroy(schedule);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}

#endif
