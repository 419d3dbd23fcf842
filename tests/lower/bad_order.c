/* What ordering refuses, with the words it does it in; cancelling; memory that runs out. */
#include "tests/synth/common.h"

#include "tests/base/failing_malloc.h"

static ccl_order_options_t wanted(const ccl_topology_t *topo, ccl_order_t order) {
    ccl_order_options_t wish = CCL_ORDER_OPTIONS_INIT;
    wish.topo = topo;
    wish.order = order;
    return wish;
}

static void refused(const ccl_schedule_t *s, const ccl_topology_t *topo, int order,
                    ccl_status_t status, const char *text) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_schedule_t *out = NULL;
    uint32_t *pipeline = NULL;
    ccl_lower_stats_t stats = {1, 2, 3, 4};
    ccl_order_options_t wish = wanted(topo, (ccl_order_t)order);
    ck_assert_int_eq(ccl_schedule_order(NULL, s, &wish, &out, &pipeline, &stats, &err), status);
    ck_assert_str_eq(err.text, text);
    ck_assert(!out && !pipeline && stats.pipelines == 4);
}

START_TEST(test_refused) {
    ccl_topology_t *small = topology("servers:1 gpus:4 nvswitch=300GB/s,1us");
    ccl_topology_t *big = topology("servers:2 gpus:4 nvswitch=300GB/s,1us nics:4x25GB/s,2us "
                                   "fabric=rail");
    ccl_schedule_t *four = synthesized("direct", small, CCL_ALLTOALL, NULL);
    for (int order = CCL_ORDER_RR; order <= CCL_ORDER_HPDS_PRINTED; order++) {
        refused(four, big, order, CCL_ERR_INPUT, "the schedule is for 4 ranks, the topology has 8");
        refused(four, NULL, order, CCL_ERR_USAGE, "this order needs a topology");
    }
    refused(four, small, 4, CCL_ERR_USAGE, "there is no order 4");
    ccl_schedule_destroy(four);
    ccl_topology_destroy(big);
    ccl_topology_destroy(small);
}
END_TEST

START_TEST(test_no_route) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_topology_t *whole = topology("heteccl-h20-4+8"), *broken = NULL;
    ccl_schedule_t *s = synthesized("direct", whole, CCL_ALLTOALL, NULL), *out = NULL;
    ck_assert_int_eq(ccl_topology_edit(whole, "fail:s1/nic0", &broken, &err), CCL_OK);
    for (int order = CCL_ORDER_RR; order <= CCL_ORDER_HPDS_PRINTED; order++) {
        ccl_order_options_t wish = wanted(broken, (ccl_order_t)order);
        ccl_error_clear(&err);
        ck_assert_int_eq(ccl_schedule_order(NULL, s, &wish, &out, NULL, NULL, &err), CCL_ERR_INPUT);
        ck_assert_msg(strstr(err.text, "no route") != NULL, "%s", err.text);
    }
    ccl_schedule_destroy(s);
    ccl_topology_destroy(broken);
    ccl_topology_destroy(whole);
}
END_TEST

typedef struct calls {
    uint32_t n, stop_at;
    uint64_t done, total;
} calls_t;

static int count(const ccl_progress_t *progress, void *user) {
    calls_t *calls = user;
    ck_assert_str_eq(progress->phase, "order");
    ck_assert(calls->n == 0 ? progress->done == 0 : progress->done >= calls->done);
    calls->done = progress->done;
    calls->total = progress->total;
    return ++calls->n == calls->stop_at;
}

START_TEST(test_interrupted) {
    ccl_topology_t *topo = topology("servers:2 gpus:4 nvswitch=300GB/s,1us nics:4x25GB/s,2us");
    ccl_schedule_t *s = synthesized("hm", topo, CCL_ALLREDUCE, NULL);
    for (int order = CCL_ORDER_RR; order <= CCL_ORDER_HPDS_PRINTED; order++) {
        calls_t calls = {0};
        ccl_ctx_t ctx = CCL_CTX_INIT;
        ccl_schedule_t *out = NULL;
        ccl_order_options_t wish = wanted(topo, (ccl_order_t)order);
        ctx.progress = count;
        ctx.progress_user = &calls;
        ck_assert_int_eq(ccl_schedule_order(&ctx, s, &wish, &out, NULL, NULL, NULL), CCL_OK);
        ck_assert_uint_gt(calls.n, 2); /* begin, between, end */
        ck_assert(calls.done == calls.total && calls.total % out->nsteps == 0);
        ccl_schedule_destroy(out);
        out = NULL;
        for (uint32_t stop = calls.n; stop > 0; stop--) {
            calls = (calls_t){.stop_at = stop};
            ck_assert_int_eq(ccl_schedule_order(&ctx, s, &wish, &out, NULL, NULL, NULL),
                             CCL_INTERRUPTED);
            ck_assert_ptr_null(out);
        }
    }
    ccl_schedule_destroy(s);
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(test_every_allocation) {
    ccl_topology_t *topo = topology("resccl-topo1");
    ccl_schedule_t *s = synthesized(_i % 2 ? "recursive" : "hm", topo, CCL_ALLREDUCE, NULL);
    ccl_order_options_t wish = wanted(topo, _i < 2 ? CCL_ORDER_HPDS : CCL_ORDER_RR);
    wish.batches = 1;
    for (long n = 0;; n++) {
        ccl_error_t err = CCL_ERROR_INIT;
        ccl_schedule_t *out = NULL;
        uint32_t *pipeline = NULL;
        fail_in = n;
        armed = true;
        ccl_status_t status = ccl_schedule_order(NULL, s, &wish, &out, &pipeline, NULL, &err);
        bool struck = fail_in < 0;
        armed = false;
        ck_assert_msg(status == (struck ? CCL_ERR_NOMEM : CCL_OK), "allocation %ld: %s", n,
                      err.text);
        ck_assert((status == CCL_OK) == (out != NULL));
        ck_assert((status == CCL_OK) == (pipeline != NULL));
        free(pipeline);
        ccl_schedule_destroy(out);
        if (!struck) {
            ck_assert_int_gt(n, 50);
            break;
        }
    }
    ccl_schedule_destroy(s);
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("bad.synth.order");
    TCase *tcase = tcase_create("order");
    tcase_set_timeout(tcase, 0);
    tcase_add_test(tcase, test_refused);
    tcase_add_test(tcase, test_no_route);
    tcase_add_test(tcase, test_interrupted);
    tcase_add_loop_test(tcase, test_every_allocation, 0, 4);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
