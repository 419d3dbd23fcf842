/* Input that cannot be simulated is told in one line; what is doubtful gives a warning. */
#include "small.h"

typedef struct row {
    const char *why, *program;
    double size_bytes;
    uint32_t nranks; /* of the program */
    const char *links, *transports, *text;
    uint32_t batches;
} row_t;

#define ONE "0>1: s1 | 1<0: r1"

static const row_t rows[] = {
    {"more ranks than GPUs", ONE, 4e6, 4, NULL, NULL, "4 ranks", 0},
    {"fewer ranks than GPUs", ONE, 4e6, 2, NULL, NULL, "3 GPUs", 0},
    {"size 0", ONE, 0, 3, NULL, NULL, "size", 0},
    {"negative size", ONE, -1, 3, NULL, NULL, "size", 0},
    {"size is no number", ONE, NAN, 3, NULL, NULL, "size", 0},
    {"size is infinite", ONE, INFINITY, 3, NULL, NULL, "size", 0},
    {"size is absurd", ONE, 1e30, 3, NULL, NULL, "size", 0},
    {"two blocks send on one connection", "0>1: s1 | 0>1: s1 | 1<0: r1 r1", 4e6, 3, NULL, NULL,
     "send on the same connection", 0},
    {"two blocks receive on one connection", "0>1: s1 s1 | 1<0: r1 | 1<0: r1", 4e6, 3, NULL, NULL,
     "receive on the same connection", 0},
    {"no route but through a GPU", "0>2: s1 | 2<0: r1", 4e6, 3, "0-1:nvlink,10,1 1-2:nvlink,10,1",
     NULL, "route", 0},
    {"slices without number", ONE, 4e17, 3, NULL, "\"nvlink\":{\"slice\":1}", "slices", 1},
    {"micro-batches without number", ONE, 9e17, 3, NULL, "\"nvlink\":{\"piece\":1}",
     "micro-batches", 0},
};

START_TEST(test_row) {
    const row_t *row = &rows[_i];
    small_system_t on = {.links = row->links ? row->links
                                             : "0-1:nvlink,10,1 1-2:nvlink,10,1 0-2:nvlink,10,1",
                         .transports = row->transports};
    ccl_topology_t *topo = small_topology(&on);
    ccl_program_t *program = small_program(row->program, row->nranks, "Simple", NULL);
    ccl_sim_options_t options = CCL_SIM_OPTIONS_INIT;
    ccl_sim_result_t *result = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    options.size_bytes = row->size_bytes;
    options.batches = row->batches;
    ccl_status_t status = ccl_sim_program(NULL, topo, NULL, program, &options, &result, &err);
    ck_assert_msg(status == CCL_ERR_INPUT, "%s: %s", row->why, ccl_status_name(status));
    ck_assert_msg(strstr(err.text, row->text), "%s: '%s' lacks '%s'", row->why, err.text,
                  row->text);
    ck_assert_ptr_null(strchr(err.text, '\n'));
    ck_assert_ptr_null(result);
    ccl_program_destroy(program);
    ccl_topology_destroy(topo);
}
END_TEST

/** An error that names no GPU is no help. */
START_TEST(test_no_route_names_both) {
    small_system_t on = {.links = "0-1:nvlink,10,1 1-2:nvlink,10,1"};
    ccl_topology_t *topo = small_topology(&on);
    uint32_t src[] = {0}, dst[] = {2}, dep[] = {CCL_NONE};
    double bytes[] = {1};
    ccl_flow_list_t list = {3, 1, 3, src, dst, dep, bytes};
    ccl_sim_options_t options = CCL_SIM_OPTIONS_INIT;
    ccl_sim_result_t *result = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_int_eq(ccl_sim_flows(NULL, topo, NULL, &list, &options, &result, &err),
                     CCL_ERR_INPUT);
    ck_assert_msg(strchr(err.text, '0') && strchr(err.text, '2'), "'%s'", err.text);
    list.nranks = 2;
    ccl_error_clear(&err);
    ck_assert_int_eq(ccl_sim_flows(NULL, topo, NULL, &list, &options, &result, &err),
                     CCL_ERR_INPUT);
    ck_assert_msg(strstr(err.text, "2 ranks"), "'%s'", err.text);
    ccl_topology_destroy(topo);
}
END_TEST

/* ---------------------------------------------------------------- warnings */

typedef struct told {
    uint32_t warnings;
    char text[512];
} told_t;

static void listen(ccl_log_level_t level, const char *subsystem, const char *text, void *user) {
    told_t *told = user;
    (void)subsystem;
    if (level > CCL_LOG_WARN)
        return;
    told->warnings++;
    snprintf(told->text, sizeof told->text, "%s", text);
}

static const struct {
    const char *why, *links, *transports;
    uint32_t warnings;
    const char *text;
} warnings[] = {
    {"nothing to warn about", "0-1:nvlink,10,1", "", 0, ""},
    {"contention and blocks of unlimited rate", "0-1:nvlink,10,1,0.5", "", 1, "contention"},
    {"contention and blocks of a rate", "0-1:nvlink,10,1,0.5", "\"nvlink\":{\"tb_rate\":\"5GB/s\"}",
     0, ""},
    {"store and forward of whole messages", "0-1:net,10,1", "\"net\":{\"tb_rate\":\"5GB/s\"}", 1,
     "store"},
    {"... in slices is fine", "0-1:net,10,1", "\"net\":{\"tb_rate\":\"5GB/s\",\"slices\":2}", 0,
     ""},
    {"... of a size, too", "0-1:net,10,1", "\"net\":{\"tb_rate\":\"5GB/s\",\"slice\":4096}", 0, ""},
    {"... or when the block is held", "0-1:net,10,1",
     "\"net\":{\"tb_rate\":\"5GB/s\",\"holds_tb\":true}", 0, ""},
};

START_TEST(test_warning) {
    small_system_t on = {.links = warnings[_i].links, .transports = warnings[_i].transports};
    ccl_topology_t *topo = small_topology(&on);
    ccl_program_t *program = small_program(ONE, 2, "Simple", NULL);
    told_t told = {0};
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ctx.log = listen;
    ctx.log_user = &told;
    ccl_sim_options_t options = CCL_SIM_OPTIONS_INIT;
    ccl_sim_result_t *result = NULL;
    options.size_bytes = 4e4;
    ck_assert_int_eq(ccl_sim_program(&ctx, topo, NULL, program, &options, &result, NULL), CCL_OK);
    ck_assert_msg(told.warnings == warnings[_i].warnings, "%s: %u warnings (%s)", warnings[_i].why,
                  told.warnings, told.text);
    ck_assert_msg(strstr(told.text, warnings[_i].text), "%s: '%s'", warnings[_i].why, told.text);
    ccl_sim_result_destroy(result);
    ccl_program_destroy(program);
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("unit.sim.input");
    TCase *tcase = tcase_create("input");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, test_row, 0, (int)CCL_ARRAY_LEN(rows));
    tcase_add_test(tcase, test_no_route_names_both);
    tcase_add_loop_test(tcase, test_warning, 0, (int)CCL_ARRAY_LEN(warnings));
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
