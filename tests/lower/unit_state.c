/* State-based allocation: which blocks become one, what that saves, that nothing else changes. */
#include "tests/synth/common.h"
#include "lower/lower_i.h"

#include <math.h>

#define CLUSTER "servers:2 gpus:4 nvswitch=300GB/s,1us nics:4x25GB/s,2us fabric=single"

typedef struct row {
    const char *name;
    ccl_collective_kind_t kind;
    const char *cluster;
    double most;  /* of connection allocation's blocks on the busiest GPU */
    double least; /* fewer would be a wrong merge: so many are active at once */
    const char *why;
} row_t;

static const row_t ROWS[] = {
    {"pairwise", CCL_ALLTOALL, CLUSTER, 0.35, 0.1,
     "a round per peer: one sends and one receives at a time, seven connections each way"},
    {"hm", CCL_ALLGATHER, CLUSTER, 1, 0.99,
     "all connections are busy from end to end, so each keeps its block"},
};

static uint32_t busiest(const ccl_program_t *p) {
    uint32_t most = 0;
    for (uint32_t r = 0; r < p->nranks; r++) {
        uint32_t n = p->rank_first_tb[r + 1] - p->rank_first_tb[r];
        most = n > most ? n : most;
    }
    return most;
}

static double run_s(const ccl_lower_options_t *options, const ccl_program_t *p) {
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    ccl_sim_result_t *r = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    sim.size_bytes = options->size_bytes;
    sim.batches = options->batches;
    sim.granularity = options->granularity;
    ck_assert_msg(ccl_sim_program(NULL, options->topo, options->routes, p, &sim, &r, &err) ==
                      CCL_OK,
                  "%s", err.text);
    double time_s = r->time_s;
    ccl_sim_result_destroy(r);
    return time_s;
}

START_TEST(merges) {
    for (size_t i = 0; i < CCL_ARRAY_LEN(ROWS); i++) {
        const row_t *row = &ROWS[i];
        ccl_topology_t *topo = topology(row->cluster);
        ccl_routes_t *routes = ccl_routes_create(topo);
        ccl_collective_t *want = collective(row->kind, topo->nranks, 0);
        ccl_schedule_t *schedule = NULL;
        ccl_program_t *plain = NULL;
        ccl_timed_program_t merged = {NULL, NULL};
        ccl_error_t err = CCL_ERROR_INIT;
        ccl_synth_options_t synth = CCL_SYNTH_OPTIONS_INIT;
        ccl_lower_options_t options = CCL_LOWER_OPTIONS_INIT;
        synth.channels = 1;
        ck_assert_msg(
            ccl_synthesize(NULL, row->name, topo, routes, want, &synth, &schedule, &err) == CCL_OK,
            "%s: %s", row->name, err.text);
        options.no_fuse = true;
        ck_assert_int_eq(ccl_lower(NULL, schedule, &options, &plain, &err), CCL_OK);
        ck_assert_int_eq(ccl_lower(NULL, schedule, &options, &merged.program, &err), CCL_OK);
        options.granularity = CCL_GRANULARITY_TASK;
        options.topo = topo;
        options.routes = routes;
        options.size_bytes = 64 * 1048576.0;
        options.batches = 16;
        ck_assert_msg(ccl_i_allocate_state(NULL, &options, &merged, &err) == CCL_OK, "%s: %s",
                      row->name, err.text);
        double before = busiest(plain), after = busiest(merged.program);
        double plain_s = run_s(&options, plain), merged_s = run_s(&options, merged.program);
        ck_assert_msg(after <= row->most * before && after >= row->least * before,
                      "%s: %g of %g blocks (%s)", row->name, after, before, row->why);
        ck_assert_msg(merged_s <= plain_s * 1.01, "%s: %g s, without merging %g s", row->name,
                      merged_s, plain_s);
        ccl_verify_options_t how = CCL_VERIFY_OPTIONS_INIT;
        ccl_verdict_t verdict;
        how.granularity = CCL_GRANULARITY_TASK;
        how.slots = 1;
        how.batches = 9;
        ck_assert_int_eq(ccl_program_verify(NULL, merged.program, &how, &verdict, &err), CCL_OK);
        ck_assert_msg(verdict.valid, "%s: %s", row->name, verdict.fault.text);
        ccl_program_destroy(plain);
        ccl_timed_program_fini(&merged);
        ccl_schedule_destroy(schedule);
        ccl_collective_destroy(want);
        ccl_routes_destroy(routes);
        ccl_topology_destroy(topo);
    }
}
END_TEST

/* Between most and least overlap: what merges well at one tolerance does not at those beside it. */
START_TEST(tolerances) {
    static const struct {
        const char *name;
        ccl_collective_kind_t kind;
        ccl_granularity_t granularity;
        uint32_t most;
        const char *why;
    } rows[] = {
        {"greedy", CCL_ALLTOALL, CCL_GRANULARITY_TASK, 66, "3 %: 74 blocks without it"},
        {"recursive", CCL_REDUCESCATTER, CCL_GRANULARITY_ALGORITHM, 36, "1 %: 45 without it"},
        {"recursive", CCL_ALLGATHER, CCL_GRANULARITY_ALGORITHM, 36, "0.3 %: 45 without it"},
    };
    ccl_topology_t *topo = topology("heteccl-h20-4+8");
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_collective_t *want = collective(rows[i].kind, topo->nranks, 0);
        ccl_lower_options_t options = CCL_LOWER_OPTIONS_INIT;
        ccl_schedule_t *schedule = NULL;
        ccl_program_t *plain = NULL, *merged = NULL;
        ccl_synth_options_t synth = CCL_SYNTH_OPTIONS_INIT;
        synth.size_bytes = 256 << 20;
        ck_assert_int_eq(
            ccl_synthesize(NULL, rows[i].name, topo, NULL, want, &synth, &schedule, NULL), CCL_OK);
        options.topo = topo;
        options.size_bytes = 64 << 20;
        options.granularity = rows[i].granularity;
        options.no_fuse = rows[i].granularity == CCL_GRANULARITY_TASK;
        ck_assert_int_eq(ccl_lower(NULL, schedule, &options, &plain, NULL), CCL_OK);
        options.allocation = CCL_ALLOCATE_STATE;
        ck_assert_int_eq(ccl_lower(NULL, schedule, &options, &merged, NULL), CCL_OK);
        ck_assert_msg(busiest(merged) <= rows[i].most, "%s: %u blocks of %u", rows[i].why,
                      busiest(merged), busiest(plain));
        ck_assert_double_le(run_s(&options, merged), 1.01 * run_s(&options, plain));
        ccl_program_destroy(plain);
        ccl_program_destroy(merged);
        ccl_schedule_destroy(schedule);
        ccl_collective_destroy(want);
    }
    ccl_topology_destroy(topo);
}
END_TEST

typedef struct beside {
    const char *cluster;
    double size_bytes;
    bool parts; /* only in parts it is not slower than algorithm level */
} beside_t;

static const beside_t BESIDE[] = {
    {"resccl-topo1", 256 * 1048576.0, false},
    {"forestcoll-a100-2x8", 1024 * 1048576.0, true},
    {"heteccl-h20-4+8", 1024 * 1048576.0, true}, /* 0.88 in one go: its servers differ in size */
};

/* HPDS, state, task level is not slower than the usual way: the phases of a big AllReduce overlap.
 */
START_TEST(keeps_up) {
    const beside_t *row = &BESIDE[_i];
    ccl_topology_t *topo = topology(row->cluster);
    ccl_routes_t *routes = ccl_routes_create(topo);
    ccl_collective_t *want = collective(CCL_ALLREDUCE, topo->nranks, 0);
    ccl_synth_options_t synth = CCL_SYNTH_OPTIONS_INIT;
    ccl_lower_options_t usual = CCL_LOWER_OPTIONS_INIT, hpds;
    ccl_schedule_t *schedule = NULL;
    ccl_program_t *a = NULL, *b = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_int_eq(ccl_synthesize(NULL, "hm", topo, routes, want, &synth, &schedule, &err),
                     CCL_OK);
    usual.topo = topo;
    usual.routes = routes;
    usual.size_bytes = row->size_bytes;
    hpds = usual;
    hpds.order = CCL_ORDER_HPDS;
    hpds.allocation = CCL_ALLOCATE_STATE;
    hpds.granularity = CCL_GRANULARITY_TASK;
    ck_assert_msg(ccl_lower(NULL, schedule, &usual, &a, &err) == CCL_OK, "%s", err.text);
    ck_assert_msg(ccl_lower(NULL, schedule, &hpds, &b, &err) == CCL_OK, "%s", err.text);
    ck_assert_int_eq(b->nchunks > a->nchunks, row->parts);
    double usual_s = run_s(&usual, a), hpds_s = run_s(&hpds, b);
    ck_assert_msg(hpds_s <= 1.02 * usual_s, "%s: %g s, the usual way %g s", row->cluster, hpds_s,
                  usual_s);
    ccl_verify_options_t how = CCL_VERIFY_OPTIONS_INIT;
    ccl_verdict_t verdict;
    how.granularity = CCL_GRANULARITY_TASK;
    how.slots = 1;
    how.batches = 5;
    ck_assert_int_eq(ccl_program_verify(NULL, b, &how, &verdict, &err), CCL_OK);
    ck_assert_msg(verdict.valid, "%s: %s", row->cluster, verdict.fault.text);
    ccl_program_destroy(a);
    ccl_program_destroy(b);
    ccl_schedule_destroy(schedule);
    ccl_collective_destroy(want);
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
}
END_TEST

/* Of a long run not every tolerance is tried; it has no more blocks than a short one. */
START_TEST(long_runs) {
    static const struct {
        const char *name;
        ccl_collective_kind_t kind;
        uint64_t runs; /* to merge, at most */
    } rows[] = {{"pairwise", CCL_ALLTOALL, 4}, {"cegis", CCL_ALLGATHER, 2}};
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows) - SANITIZED; i++) {
        ccl_topology_t *topo = topology(CLUSTER);
        ccl_collective_t *want = collective(rows[i].kind, topo->nranks, 0);
        ccl_schedule_t *schedule = NULL;
        ccl_error_t err = CCL_ERROR_INIT;
        ccl_lower_options_t options = CCL_LOWER_OPTIONS_INIT;
        double blocks[2];
        ck_assert_int_eq(
            ccl_synthesize(NULL, rows[i].name, topo, NULL, want, NULL, &schedule, &err), CCL_OK);
        options.granularity = CCL_GRANULARITY_TASK;
        options.topo = topo;
        for (int large = 0; large < 2; large++) {
            ccl_timed_program_t merged = {NULL, NULL};
            ccl_work_t work = {0};
            ccl_ctx_t ctx = CCL_CTX_INIT;
            options.batches = large ? 512 : 16;
            options.size_bytes = options.batches * 1048576.0;
            ck_assert_int_eq(ccl_lower(NULL, schedule, &options, &merged.program, &err), CCL_OK);
            ck_assert_int_eq(ccl_lower_run(NULL, &options, &merged, 0, &err), CCL_OK);
            ctx.work = &work;
            ck_assert_int_eq(ccl_i_allocate_state(&ctx, &options, &merged, &err), CCL_OK);
            blocks[large] = busiest(merged.program);
            ck_assert_msg(!large || work.runs <= rows[i].runs, "%s: %u runs", rows[i].name,
                          (unsigned)work.runs);
            ccl_timed_program_fini(&merged);
        }
        ck_assert_msg(blocks[1] <= blocks[0], "%s: %g blocks, of a short run %g", rows[i].name,
                      blocks[1], blocks[0]);
        ccl_schedule_destroy(schedule);
        ccl_collective_destroy(want);
        ccl_topology_destroy(topo);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("synth.state");
    TCase *all = tcase_create("all");
    tcase_add_test(all, merges);
    tcase_add_test(all, tolerances);
    tcase_add_test(all, long_runs);
    tcase_add_loop_test(all, keeps_up, 0, (int)CCL_ARRAY_LEN(BESIDE));
    suite_add_tcase(suite, all);
    return run_suite(suite);
}
