/*
 * Where what takes longer than another's schedule is of no use (ccl_synth_options_t.hope_s)
 * synthesizers do less: simulations and their events are counted.
 */
#include "common.h"
#include "tests/base/main.h"

/** @param hope_s  0: any schedule is of use. */
static ccl_work_t work_of(const char *name, const ccl_topology_t *topo, double bytes,
                          double hope_s) {
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_collective_t *want = collective(CCL_ALLREDUCE, topo->nranks, 0);
    ccl_schedule_t *schedule = NULL;
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ccl_work_t work = {0};
    ctx.work = &work;
    options.size_bytes = bytes;
    options.hope_s = hope_s;
    MUST(ccl_synthesize(&ctx, name, topo, NULL, want, &options, &schedule, e));
    ccl_schedule_destroy(schedule);
    ccl_collective_destroy(want);
    return work;
}

#define TWO "servers:2 gpus:4 nvswitch=450GB/s,1us nics:4x50GB/s,2us model=H100"

/** The most simulations where nothing has hope; with others more rounds follow. */
static const struct {
    const char *name, *spec;
    double bytes;
    uint64_t runs;
} races[] = {
    {"greedy", TWO, 0x1p27, 5},         {"sketch", TWO, 0x1p27, 40},
    {"latency", TWO, 0x1p24, 54},       {"nvlstree", "dgx-h100*2", 0x1p27, 5},
    {"packing", "dgx-h100", 0x1p27, 6}, /* one protocol for a look at the whole */
};

/* Simulations end early, and what comes after them is left out. */
START_TEST(races_end) {
    for (size_t i = 0; i < CCL_ARRAY_LEN(races); i++) {
        ccl_topology_t *topo = topology(races[i].spec);
        ccl_work_t work = work_of(races[i].name, topo, races[i].bytes, 1e-9);
        ck_assert_msg(work.runs <= races[i].runs, "%s: %llu simulations", races[i].name,
                      (unsigned long long)work.runs);
        ck_assert_msg(work.events < 10000 || strcmp(races[i].name, "packing") == 0,
                      "%s: %llu events", races[i].name, (unsigned long long)work.events);
        ccl_topology_destroy(topo);
    }
}
END_TEST

/* Beyond low trees nothing is looked for at small sizes on many GPUs. */
START_TEST(low_trees_are_enough) {
    if (SANITIZED) /* work alone */
        return;
    ccl_topology_t *whole =
        topology("servers:5 gpus:8 nvswitch=450GB/s,1us nics:8x50GB/s,2us model=H100");
    ccl_topology_t *topo = edited(whole, "fail:nic:0");
    ccl_work_t work = work_of("packing", topo, 0x1p20, 1);
    ck_assert_msg(work.runs <= 5, "%llu simulations", (unsigned long long)work.runs);
    ccl_topology_destroy(topo);
    ccl_topology_destroy(whole);
}
END_TEST

/* Large messages go with Simple where plain schedules stand beside those through switches. */
START_TEST(simple_decides) {
    if (SANITIZED) /* work alone */
        return;
    ccl_topology_t *topo = topology("dgx-h100*2");
    ccl_work_t any = work_of("greedy", topo, 0x1p27, 0), hope = work_of("greedy", topo, 0x1p27, 1);
    ck_assert_msg(hope.runs + 8 <= any.runs, "%llu and %llu simulations",
                  (unsigned long long)hope.runs, (unsigned long long)any.runs);
    ccl_topology_destroy(topo);
}
END_TEST

RUN_TESTS(races_end, low_trees_are_enough, simple_decides)
