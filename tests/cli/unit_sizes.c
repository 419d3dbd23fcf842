/* Lists of sizes and words of the command line. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "tests/base/main.h"

static const struct {
    const char *text;
    uint32_t n;
    double first, last;
    const char *why;
} good[] = {
    {"64M", 1, 67108864, 67108864, "one size"},
    {"1K:4G", 23, 1024, 4294967296, "doubling, both ends included"},
    {"1K:5K", 3, 1024, 4096, "the end need not be met"},
    {"1M:1M", 1, 1048576, 1048576, "an empty range"},
    {"1K:1M:4", 6, 1024, 1048576, "another factor"},
    {"100:1000:1.1", 25, 100, 100 * 9.849732675807628, "a factor that is no whole number"},
    {"1000:1331:1.1", 4, 1000, 1331, "rounding does not lose the end"},
    {"4M,1M", 2, 4194304, 1048576, "the order given is kept"},
    {"1K,64K:256K,1GB", 5, 1024, 1e9, "a mixture"},
    {"1.5K", 1, 1536, 1536, "a fraction"},
};

START_TEST(sizes_good) {
    double *sizes = NULL;
    uint32_t n = 0;
    ccl_error_t err = CCL_ERROR_INIT;

    ck_assert_msg(ccl_i_sizes(good[_i].text, &sizes, &n, &err) == CCL_OK, "%s: %s", good[_i].why,
                  err.text);
    ck_assert_msg(n == good[_i].n, "%s: %u sizes", good[_i].why, n);
    ck_assert_double_eq_tol(sizes[0], good[_i].first, 1e-9 * good[_i].first);
    ck_assert_double_eq_tol(sizes[n - 1], good[_i].last, 1e-9 * good[_i].last);
    free(sizes);
}
END_TEST

static const struct {
    const char *text, *why;
} bad[] = {
    {"", "nothing"},
    {",", "holes"},
    {"1M,", "a hole at the end"},
    {"4M:1M", "backwards"},
    {"1M:4M:1", "no growth"},
    {"1M:4M:0.5", "shrinking"},
    {"1M:4M:nan", "no number"},
    {"1M:4M:inf", "no end"},
    {"1M:4M:2x", "text after the factor"},
    {"1M:4M:2:2", "too many parts"},
    {"1M:", "no last"},
    {":1M", "no first"},
    {"0", "a size of nothing"},
    {"0:1M", "a range from nothing never ends"},
    {"-1", "negative"},
    {"1Q", "unknown unit"},
    {"1:4G:1.0000001", "too many"},
};

START_TEST(sizes_bad) {
    double *sizes = NULL;
    uint32_t n = 0;
    ccl_error_t err = CCL_ERROR_INIT;

    ck_assert_msg(ccl_i_sizes(bad[_i].text, &sizes, &n, &err) == CCL_ERR_USAGE, "%s was taken",
                  bad[_i].why);
    ck_assert_msg(strstr(err.text, "--sizes") != NULL, "%s: %s", bad[_i].why, err.text);
    ck_assert_ptr_null(sizes);
}
END_TEST

START_TEST(options_mixed) {
    /* options before, between and after inputs; letters together; both forms of a value */
    char *line[] = {"-qv",           "a.xml",     "--size=1K", "-b4",          "--fail",
                    "gpu:1",         "--degrade", "x-y=1GB/s", "--fail=nic:0", "-v",
                    "--granularity", "task",      "--",        "--json"};
    const int argc = (int)(sizeof(line) / sizeof(line[0]));
    ccl_i_args_t args;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_i_command_t command = ccl_i_cmd_simulate;

    command.max_inputs = 2;
    ccl_i_args_init(&args);
    ck_assert_msg(ccl_i_options_parse(&command, argc, line, &args, &err) == CCL_OK, "%s", err.text);
    ck_assert(args.quiet);
    ck_assert_uint_eq(args.verbose, 2);
    ck_assert_uint_eq(args.sim.batches, 4);
    ck_assert_double_eq(args.size_bytes, 1024);
    ck_assert_uint_eq(args.sim.granularity, CCL_GRANULARITY_TASK);
    ck_assert(!args.json);
    ck_assert_uint_eq(args.inputs.n, 2);
    ck_assert_str_eq(args.inputs.items[0], "a.xml");
    ck_assert_str_eq(args.inputs.items[1], "--json");
    ck_assert_uint_eq(args.edits.n, 3);
    ck_assert_str_eq(args.edits.items[0], "fail:gpu:1");
    ck_assert_str_eq(args.edits.items[1], "degrade:x-y=1GB/s");
    ck_assert_str_eq(args.edits.items[2], "fail:nic:0");
    ck_assert_uint_eq(args.seed, 1);
    ccl_i_args_fini(&args);
}
END_TEST

START_TEST(protocols) {
    char any_case[] = "--proto=ll128", wrong[] = "--proto=LL64", input[] = "a.xml";
    char *line[] = {input, any_case}, *bad_line[] = {input, wrong};
    ccl_i_args_t args;
    ccl_error_t err = CCL_ERROR_INIT;

    ccl_i_args_init(&args);
    ck_assert_str_eq(args.lower.proto, "Simple");
    ck_assert_int_eq(ccl_i_options_parse(&ccl_i_cmd_simulate, 2, line, &args, &err), CCL_OK);
    ck_assert_str_eq(args.lower.proto, "LL128");
    ck_assert_int_eq(ccl_i_options_parse(&ccl_i_cmd_simulate, 2, bad_line, &args, &err),
                     CCL_ERR_USAGE);
    ccl_i_args_fini(&args);
}
END_TEST

/* `lower` takes lists of words, each once, in their order; other commands one. */
START_TEST(lists) {
    char several[] = "--order=hpds,step,hpds", wrong[] = "--order=hpds,x", input[] = "a.json";
    char *line[] = {input, several}, *bad_line[] = {input, wrong};
    ccl_i_args_t args;
    ccl_error_t err = CCL_ERROR_INIT;

    ccl_i_args_init(&args);
    ck_assert_msg(ccl_i_options_parse(&ccl_i_cmd_lower, 2, line, &args, &err) == CCL_OK, "%s",
                  err.text);
    ccl_i_choices_t orders =
        ccl_i_choices(&args, ccl_option_find(ccl_lower_option_table, "order", 5));
    ck_assert_uint_eq(orders.n, 2);
    ck_assert_uint_eq(orders.at[0], CCL_ORDER_HPDS);
    ck_assert_uint_eq(orders.at[1], CCL_ORDER_STEP);
    ck_assert_uint_eq(args.lower.order, CCL_ORDER_HPDS);
    ck_assert_int_eq(ccl_i_options_parse(&ccl_i_cmd_lower, 2, bad_line, &args, &err),
                     CCL_ERR_USAGE);
    ck_assert_ptr_nonnull(
        strstr(err.text, "option --order wants one of step,rr,hpds,hpds-printed, not \"x\""));
    ccl_error_clear(&err);
    ck_assert_int_eq(ccl_i_options_parse(&ccl_i_cmd_simulate, 2, line, &args, &err), CCL_ERR_USAGE);
    ccl_i_args_fini(&args);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("sizes and options");
    TCase *cases = tcase_create("all");

    tcase_add_loop_test(cases, sizes_good, 0, (int)(sizeof(good) / sizeof(good[0])));
    tcase_add_loop_test(cases, sizes_bad, 0, (int)(sizeof(bad) / sizeof(bad[0])));
    tcase_add_test(cases, options_mixed);
    tcase_add_test(cases, protocols);
    tcase_add_test(cases, lists);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
