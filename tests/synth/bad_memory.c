/*
 * Out of memory at every allocation in turn, while synthesizing and lowering: CCL_ERR_NOMEM and
 * nothing leaked, or a program that is right all the same. malloc and friends are wrapped by the
 * linker.
 */
#include "common.h"

#include "tests/base/failing_malloc.h"

static const struct {
    const char *name, *spec;
    ccl_collective_kind_t kind;
    uint32_t slots;
    ccl_granularity_t granularity;
    ccl_allocation_t allocation;
    ccl_executor_t executor;
} rows[] = {
    {"ring", "servers:2 gpus:2 nvswitch=300GB/s,1us nics:2x25GB/s,2us", CCL_ALLREDUCE, 1, 0, 0, 0},
    {"ring", "dgx1-v100", CCL_ALLGATHER, 0, 0, 0, 0},
    {"tree", "servers:3 gpus:2 nvswitch=300GB/s,1us nics:2x25GB/s,2us", CCL_BROADCAST, 0, 0, 0, 0},
    {"recursive", "servers:1 gpus:3 nvswitch=300GB/s,1us", CCL_REDUCESCATTER, 0, 0, 0, 0},
    {"direct", "servers:2 gpus:2 nvswitch=1GB/s,1us nics:2x1GB/s,1us fabric=rail", CCL_ALLTOALL, 0,
     0, 0, 0},
    {"pairwise", "servers:1 gpus:3 nvswitch=300GB/s,1us", CCL_ALLTOALL, 0, 0, 0, 0},
    {"pxn", "servers:2 gpus:2 nvswitch=1GB/s,1us nics:2x1GB/s,1us fabric=rail", CCL_ALLTOALL, 0, 0,
     0, 0},
    {"hm", "servers:2 gpus:2 nvswitch=1GB/s,1us nics:2x1GB/s,1us fabric=rail", CCL_ALLREDUCE, 0, 0,
     0, 0},
    {"hm", "resccl-topo1", CCL_ALLREDUCE, 0, CCL_GRANULARITY_STAGE, CCL_ALLOCATE_CAPACITY,
     CCL_EXECUTOR_MSCCL},
    {"recursive", "servers:1 gpus:3 nvswitch=300GB/s,1us", CCL_ALLREDUCE, 0, CCL_GRANULARITY_TASK,
     CCL_ALLOCATE_CONNECTION, CCL_EXECUTOR_RCCL},
    {"greedy", "servers:2 gpus:2 nvswitch=1GB/s,1us nics:2x1GB/s,1us fabric=rail", CCL_ALLREDUCE, 0,
     0, 0, 0},
    {"greedy", "servers:2 gpus:2 nvswitch=1GB/s,1us nics:2x1GB/s,1us fabric=rail", CCL_ALLTOALL, 0,
     0, 0, 0},
};

START_TEST(test_every_allocation) {
    ccl_topology_t *topo = topology(rows[_i].spec);
    ccl_collective_t *want = collective(rows[_i].kind, topo->nranks, 0);
    ccl_ctx_t ctx = CCL_CTX_INIT; /* one thread: allocations in one order */
    ctx.threads = 1;
    long step = 1;
    for (long n = 0;; n += step) {
        ccl_error_t err = CCL_ERROR_INIT;
        ccl_schedule_t *schedule = NULL;
        ccl_program_t *program = NULL;
        ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
        ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
        options.channels = options.chunks = 2;
        lower.out_of_place = _i % 2;
        lower.slots = rows[_i].slots;
        lower.granularity = rows[_i].granularity;
        lower.allocation = rows[_i].allocation;
        lower.executor = rows[_i].executor;
        lower.topo = topo;
        fail_in = n;
        armed = true;
        ccl_status_t status =
            ccl_synthesize(&ctx, rows[_i].name, topo, NULL, want, &options, &schedule, &err);
        if (status == CCL_OK)
            status = ccl_lower(NULL, schedule, &lower, &program, &err);
        bool struck = fail_in < 0;
        armed = false;
        ck_assert_msg(status == CCL_OK || status == CCL_ERR_NOMEM, "%s: allocation %ld: %s %s",
                      rows[_i].name, n, ccl_status_name(status), err.text);
        if (status == CCL_OK)
            check_program(program, 2, rows[_i].name);
        ccl_program_destroy(program);
        ccl_schedule_destroy(schedule);
        if (!struck) {
            ck_assert_int_gt(n, 50);
            break;
        }
        step = n < 400 ? 1 : 1 + n / 50; /* searches allocate thousands of times alike */
    }
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}
END_TEST

/* From a former schedule, with what is reported of it. */
START_TEST(test_every_allocation_of_a_warm_start) {
    static const char *const text[] = {
        "{\"format\": \"ccllab-demand-1\", \"alltoallv\": [[0, 9e6, 3e6, 4e6], [0, 0, 8e6, 1e6], "
        "[7e6, 0, 0, 2e6], [1e6, 2e6, 3e6, 0]]}",
        "{\"format\": \"ccllab-demand-1\", \"alltoallv\": [[0, 9e6, 5e6, 4e6], [1e6, 0, 2e6, 1e6], "
        "[7e6, 0, 0, 2e6], [1e6, 2e6, 0, 0]]}"};
    ccl_topology_t *topo = topology("servers:2 gpus:2 nvswitch=300GB/s,1us nics:2x25GB/s,2us");
    ccl_collective_t *want[2] = {NULL, NULL};
    ccl_schedule_t *former = NULL;
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ctx.threads = 1;
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(ccl_demand_read_text("m", text[i], strlen(text[i]), &want[i], NULL),
                         CCL_OK);
    ck_assert_int_eq(ccl_synthesize(NULL, "direct", topo, NULL, want[0], NULL, &former, NULL),
                     CCL_OK);
    for (long n = 0, step = 1;; n += step) {
        ccl_error_t err = CCL_ERROR_INIT;
        ccl_schedule_t *schedule = NULL;
        ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
        ccl_synth_stats_t stats = {0};
        options.warm = former;
        options.stats = &stats;
        fail_in = n;
        armed = true;
        ccl_status_t status =
            ccl_synthesize(&ctx, "alltoallv", topo, NULL, want[1], &options, &schedule, &err);
        bool struck = fail_in < 0;
        armed = false;
        ck_assert_msg(status == CCL_OK || status == CCL_ERR_NOMEM, "allocation %ld: %s %s", n,
                      ccl_status_name(status), err.text);
        ck_assert((schedule != NULL) == (status == CCL_OK));
        ccl_schedule_destroy(schedule);
        if (!struck) {
            ck_assert_int_gt(n, 100);
            ck_assert_uint_eq(stats.warm.runs, 1);
            break;
        }
        step = n < 600 ? 1 : 1 + n / 50;
    }
    ccl_schedule_destroy(former);
    ccl_collective_destroy(want[0]);
    ccl_collective_destroy(want[1]);
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("bad.synth.memory");
    TCase *tcase = tcase_create("memory");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, test_every_allocation, 0, (int)CCL_ARRAY_LEN(rows));
    tcase_add_test(tcase, test_every_allocation_of_a_warm_start);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
