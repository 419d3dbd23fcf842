/* Thresholds of a cluster, read back, and runs held against them. */
#include "tests/validate/common.h"
#include "report/report.h"

#include <unistd.h>

static const ccl_collective_kind_t kinds[] = {CCL_ALLGATHER, CCL_ALLREDUCE};
static const double sizes_bytes[] = {1048576, 16777216, 268435456};

static ccl_thresholds_t *made(const ccl_topology_t *topo, double share, uint32_t threads) {
    ccl_thresholds_options_t options = CCL_THRESHOLDS_OPTIONS_INIT;
    ccl_thresholds_t *t = NULL;
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ctx.threads = threads;
    options.share = share;
    options.kinds = kinds;
    options.nkinds = 2;
    options.sizes_bytes = sizes_bytes;
    options.nsizes = 3;
    OK(ccl_thresholds_make(&ctx, topo, &options, &t, &err));
    return t;
}

START_TEST(test_made) {
    ccl_topology_t *topo = topology("dgx-h100");
    ccl_thresholds_t *t = made(topo, 0, 3);
    ccl_predictor_t *predictor = NULL;
    OK(ccl_predictor_create(NULL, topo, NULL, 0, &predictor, &err));
    ck_assert_uint_eq(t->n, 6);
    ck_assert_double_eq(t->share, CCL_NORMAL_LOW);
    for (uint32_t i = 0; i < 6; i++) {
        const ccl_threshold_t *item = &t->items[i];
        ccl_prediction_t p;
        /* By collective, then size, whatever the order of the options. */
        ck_assert_int_eq(item->kind, i < 3 ? CCL_ALLREDUCE : CCL_ALLGATHER);
        ck_assert_double_eq(item->size_bytes, sizes_bytes[i % 3]);
        OK(ccl_predictor_run(predictor, item->kind, 0, item->size_bytes, NULL, &p, &err));
        ck_assert_double_eq(item->expected_s, p.time_s);
        ck_assert_double_eq_tol(item->least_busbw_GBps / (0.8 * p.busbw_GBps), 1, 1e-12);
        ck_assert(item->bound_s > 0 && item->bound_s < item->expected_s);
    }
    ccl_predictor_destroy(predictor);
    ccl_thresholds_destroy(t);
    ccl_topology_destroy(topo);
}
END_TEST

/** A log with one AllGather; times are `factor` of what is expected. */
static ccl_measured_log_t *log_with(const ccl_thresholds_t *t, double factor) {
    ccl_text_t text = {0};
    ccl_text_printf(&text, "size_bytes,op,ranks,oop_us,ip_us\n");
    for (uint32_t i = 0; i < 3; i++)
        ccl_text_printf(&text, "%.0f,allgather,8,%.9f,%.9f\n", t->items[3 + i].size_bytes,
                        t->items[3 + i].expected_s * 1e6 * factor,
                        t->items[3 + i].expected_s * 2e6);
    ccl_measured_log_t *log = log_of(text.data);
    ccl_text_fini(&text);
    return log;
}

START_TEST(test_checked) {
    ccl_topology_t *topo = topology("dgx-h100");
    ccl_thresholds_t *t = made(topo, 0.5, 1);
    static const struct {
        double factor;
        bool in_place;
        uint32_t nrefused;
    } rows[] = {{1, false, 0}, {1.99, false, 0}, {2.01, false, 3}, {1, true, 0}, {5, true, 0}};
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_measured_log_t *log = log_with(t, rows[i].factor);
        const ccl_measured_run_t *runs[] = {&log->runs[0]};
        ccl_acceptance_t *a = NULL;
        OK(ccl_thresholds_check(t, runs, 1, rows[i].in_place, &a, &err));
        ck_assert_uint_eq(a->n, 3);
        ck_assert_uint_eq(a->nothers, 0);
        ck_assert_uint_eq(a->nrefused, rows[i].nrefused);
        for (uint32_t k = 0; k < 3; k++) {
            ck_assert_uint_eq(a->items[k].line, k + 2);
            ck_assert_double_eq_tol(a->items[k].measured_busbw_GBps /
                                        a->items[k].expected_busbw_GBps,
                                    1 / (rows[i].in_place ? 2 : rows[i].factor), 1e-6);
        }
        ccl_acceptance_destroy(a);
        ccl_measured_log_destroy(log);
    }
    ccl_thresholds_destroy(t);
    ccl_topology_destroy(topo);
}
END_TEST

/* Between two sizes by powers; beyond them, on other ranks and for other collectives there is none.
 */
START_TEST(test_between) {
    ccl_topology_t *topo = topology("dgx-h100");
    ccl_thresholds_t *t = made(topo, 0.5, 1);
    ccl_measured_log_t *log = log_of("size_bytes,op,ranks,oop_us\n"
                                     "4194304,allgather,8,1\n"
                                     "4194304,allgather,4,1\n"
                                     "4194304,alltoall,8,1\n"
                                     "524288,allgather,8,1\n"
                                     "1073741824,allgather,8,1\n");
    const ccl_measured_run_t *runs[8];
    ccl_acceptance_t *a = NULL;
    for (uint32_t i = 0; i < log->nruns; i++)
        runs[i] = &log->runs[i];
    OK(ccl_thresholds_check(t, runs, log->nruns, false, &a, &err));
    ck_assert_uint_eq(a->n, 1);
    ck_assert_uint_eq(a->nothers, 4);
    double time_s = sqrt(t->items[3].most_s * t->items[4].most_s); /* 4M is midway */
    ck_assert_double_eq_tol(a->items[0].least_busbw_GBps / (4194304 * 7.0 / 8 / time_s / 1e9), 1,
                            1e-9);
    ccl_acceptance_destroy(a);
    ccl_error_t err = CCL_ERROR_INIT;
    const ccl_measured_run_t *alone[1] = {NULL};
    for (uint32_t i = 0; i < log->nruns; i++)
        if (log->runs[i].kind == CCL_ALLTOALL)
            alone[0] = &log->runs[i];
    ck_assert_int_eq(ccl_thresholds_check(t, alone, 1, false, &a, &err), CCL_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(err.text, "no size"));
    ccl_measured_log_destroy(log);
    ccl_thresholds_destroy(t);
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(test_read_back) {
    ccl_topology_t *topo = topology("dgx-h100");
    ccl_thresholds_t *t = made(topo, 0.7, 2), *read = NULL;
    ccl_report_style_t style = CCL_REPORT_STYLE_INIT;
    ccl_text_t text = {0};
    char path[] = "/tmp/ccllab-thresholds-XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(path));
    char file[100];
    snprintf(file, sizeof file, "%s/thresholds.json", path);
    style.format = CCL_REPORT_JSON;
    OK(ccl_report_thresholds(t, &style, &text, &err));
    OK(ccl_file_write(file, text.data, text.len, &err));
    for (int folder = 0; folder < 2; folder++) {
        OK(ccl_thresholds_read(folder ? path : file, &read, &err));
        ck_assert_str_eq(read->topology, t->topology);
        ck_assert_double_eq(read->share, 0.7);
        ck_assert_uint_eq(read->n, t->n);
        for (uint32_t i = 0; i < t->n; i++) {
            ck_assert_int_eq(read->items[i].kind, t->items[i].kind);
            ck_assert_uint_eq(read->items[i].nranks, 8);
            ck_assert_double_eq(read->items[i].most_s, t->items[i].most_s);
            ck_assert_double_eq_tol(read->items[i].least_busbw_GBps / t->items[i].least_busbw_GBps,
                                    1, 1e-12);
        }
        ccl_thresholds_destroy(read);
    }
    unlink(file);
    rmdir(path);
    ccl_text_fini(&text);
    ccl_thresholds_destroy(t);
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(test_refused) {
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"[]", "object"},
        {"{\"schema\": \"ccllab/watch/1\"}", "\"ccllab/watch/1\", where thresholds are"},
        {"{\"schema\": \"ccllab/thresholds/1\", \"topology\": \"x\", \"share\": 1}", "thresholds"},
        {"{\"schema\": \"ccllab/thresholds/1\", \"topology\": \"x\", \"share\": 1, "
         "\"thresholds\": [{\"collective\": \"sum\"}]}",
         "\"sum\" is no collective"},
        {"{\"schema\": \"ccllab/thresholds/1\", \"topology\": \"x\", \"share\": 1, \"thresholds\": "
         "[{\"collective\": \"allgather\", \"nranks\": 1}]}",
         "1 ranks"},
        {"{\"schema\": \"ccllab/thresholds/1\", \"topology\": \"x\", \"share\": 1, \"thresholds\": "
         "[{\"collective\": \"allgather\", \"nranks\": 8, \"size_bytes\": 8, \"expected_s\": 1, "
         "\"most_s\": 0}]}",
         "above 0"},
    };
    char path[] = "/tmp/ccllab-thresholds-XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_error_t err = CCL_ERROR_INIT;
        ccl_thresholds_t *t = NULL;
        OK(ccl_file_write(path, rows[i].text, strlen(rows[i].text), &err));
        ck_assert_int_eq(ccl_thresholds_read(path, &t, &err), CCL_ERR_INPUT);
        ck_assert_msg(strstr(err.text, rows[i].says) != NULL && err.line == 1, "%s", err.text);
    }
    unlink(path);
}
END_TEST

RUN_TESTS(test_made, test_checked, test_between, test_read_back, test_refused)
