/* Broadcast and Reduce over all rails at once, by greedy: what they gain, and what they cost. */
#include "passes.h"
#include "synth/common/plan.h"

#define SIX "servers:6 gpus:4 nvswitch=300GB/s,0.7us nics:4x25GB/s,3.3us fabric=rail"
#define EIGHT "servers:8 gpus:2 nvswitch=300GB/s,0.7us nics:2x25GB/s,3.3us fabric=rail"
#define MANY "servers:24 gpus:4 nvswitch=300GB/s,0.7us nics:4x25GB/s,3.3us"

/* Without lanes 60.7, 154, 70.5 and 47.7 us. Without rails by sketch 53.5 and 70.5 in the first and
   the third row, by greedy 107 and 47.7 in the others; chosen in step order 53.5 in the first. */
static const pass_row_t rows[] = {
    {"lanes", "greedy", SIX, NULL, CCL_BROADCAST, 1 << 22, 52.5},
    {"lanes", "greedy", EIGHT, NULL, CCL_REDUCE, 1 << 22, 103},
    {"lanes", "greedy", "gh200-x4*4", NULL, CCL_REDUCE, 1 << 20, 68},
    {"lanes of a composition", "greedy", MANY, NULL, CCL_REDUCE, 1 << 20, 35},
    {"lanes of pods that are no composition", "greedy", "heteccl-h20-4+8", NULL, CCL_REDUCE,
     1 << 26, 590}, /* 729 us */
    {"lanes of quads, where servers differ in size", "greedy", "v100-x8*2+v100-x4*1", NULL,
     CCL_BROADCAST, 24 << 20, 900}, /* 997 us */
    {"lanes of servers beside quads", "greedy", "v100-x4*3+v100-x8*2", NULL, CCL_BROADCAST, 102400,
     51.5}, /* quads alone 53.1 us */
    /* There are none: GPUs at a dead rail reach each other by GPUs at others. */
    {"none", "greedy", SIX, "fail:nic:0", CCL_BROADCAST, 1 << 20, 100},
};

START_TEST(test_gains) {
    check_pass(&rows[_i]);
}
END_TEST

static ccl_schedule_t *make_by(const char *algo, const ccl_topology_t *topo,
                               ccl_collective_kind_t kind, uint32_t root,
                               ccl_synth_options_t options) {
    ccl_collective_t *want = collective(kind, topo->nranks, root);
    ccl_schedule_t *schedule = NULL;
    MUST(ccl_synthesize(NULL, algo, topo, NULL, want, &options, &schedule, e));
    ccl_collective_destroy(want);
    return schedule;
}

static ccl_schedule_t *make(const ccl_topology_t *topo, ccl_collective_kind_t kind, uint32_t root,
                            ccl_synth_options_t options) {
    return make_by("greedy", topo, kind, root, options);
}

/* Other compositions do not try the same again. */
START_TEST(test_whose) {
    static const char *const algos[] = {"greedy", "cegis"};
    ccl_topology_t *topo = topology(SIX);
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    options.size_bytes = 0x1p22;
    options.compose = CCL_COMPOSE_ON;
    for (size_t i = 0; i < CCL_ARRAY_LEN(algos); i++) {
        ccl_schedule_t *schedule = make_by(algos[i], topo, CCL_BROADCAST, 0, options);
        ck_assert_msg((strstr(schedule->origin, "lanes") != NULL) == (i == 0), "%s",
                      schedule->origin);
        ccl_schedule_destroy(schedule);
    }
    ccl_topology_destroy(topo);
}
END_TEST

/* Pods of 2 and 4 GPUs: of four every second heads a lane, the root too if it is one of those. */
START_TEST(test_kinds) {
    static const char spec[] = "servers:4 gpus:2 nvswitch=300GB/s,0.7us nics:2x25GB/s,3.3us + "
                               "servers:3 gpus:4 nvswitch=300GB/s,0.7us nics:4x25GB/s,3.3us";
    ccl_topology_t *topo = topology(spec);
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    uint32_t count = 0;
    options.size_bytes = 0x1p20;
    for (uint32_t root = 0; root < topo->nranks; root += 5) {
        ccl_schedule_t *schedule = make(topo, root % 2 ? CCL_BROADCAST : CCL_REDUCE, root, options);
        count += strstr(schedule->origin, "2 lanes over 7 pods") != NULL;
        ccl_schedule_destroy(schedule);
    }
    ck_assert_uint_eq(count, 4);
    ccl_topology_destroy(topo);
}
END_TEST

/* The best under any protocol; without lanes 26.9 us. */
START_TEST(test_protocols) {
    ccl_topology_t *topo = topology("dgx-a100*2");
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_i_timing_t timing = {.size_bytes = 0x1p14,
                             .way = ccl_way_choose(&ccl_way_hpds, (ccl_way_t){0}, 0)};
    options.size_bytes = 0x1p14;
    options.hope_s = 15.2e-6; /* of `latency`: under Simple all take more than twice that */
    ccl_schedule_t *schedule = make(topo, CCL_BROADCAST, 0, options);
    MUST(ccl_i_time_protocols(NULL, topo, NULL, schedule, &timing, e));
    ck_assert_msg(timing.time_s < 16.6e-6, "%g s: %s", timing.time_s, schedule->origin);
    ccl_schedule_destroy(schedule);
    ccl_topology_destroy(topo);
}
END_TEST

/* At most 3 % above what there are: large messages under Simple alone, more GPUs in step order. */
static const struct {
    const char *spec;
    double size_bytes;
    uint64_t events, runs;
} work[] = {{"dgx-h100*2", 0x1p26, 1370000, 114},
            {"servers:36 gpus:4 nvswitch=300GB/s,0.7us nics:4x25GB/s,3.3us", 0x1p20, 1669000, 146}};

START_TEST(test_work) {
    bool through;
    ccl_work_t done =
        work_alone("greedy", work[_i].spec, CCL_REDUCE, work[_i].size_bytes, nightly(), &through);
    ck_assert_msg(done.events <= work[_i].events && done.runs <= work[_i].runs,
                  "row %d: %llu events, %llu runs", _i, (unsigned long long)done.events,
                  (unsigned long long)done.runs);
}
END_TEST

/* No more transfers than are lowered in reasonable time: rails in as many parts as greedy takes
   there would have three times as many. */
START_TEST(test_few_parts) {
    ccl_topology_t *topo = topology("servers:8 gpus:8 nvswitch=300GB/s,0.7us nics:8x25GB/s,3.3us");
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    options.size_bytes = 0x1p24;
    ccl_schedule_t *schedule = make(topo, CCL_BROADCAST, 0, options);
    ck_assert_msg(strstr(schedule->origin, "lanes") != NULL, "%s", schedule->origin);
    ck_assert_uint_le(schedule->ntransfers, 70000);
    ccl_schedule_destroy(schedule);
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("unit.synth.lanes");
    TCase *tcase = tcase_create("lanes");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, test_gains, 0, SANITIZED ? 2 : (int)CCL_ARRAY_LEN(rows));
    tcase_add_test(tcase, test_kinds);
    if (!SANITIZED) {
        tcase_add_loop_test(tcase, test_work, 0, (int)CCL_ARRAY_LEN(work));
        tcase_add_test(tcase, test_protocols);
        tcase_add_test(tcase, test_whose);
        tcase_add_test(tcase, test_few_parts);
    }
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
