/* Traces are well-formed Chrome trace JSON whose rows do not overlap and add up to the busy times.
 */
#include "small.h"
#include "base/json.h"

typedef struct traced {
    ccl_topology_t *topo;
    ccl_program_t *program;
    ccl_sim_result_t *result;
    json_t *root;
} traced_t;

static traced_t trace_on(const small_system_t *on, const char *text, uint32_t batches,
                         uint64_t max_events) {
    traced_t t = {0};
    ccl_trace_t *trace = ccl_trace_create(max_events);
    ccl_sim_options_t options = CCL_SIM_OPTIONS_INIT;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_text_t out = {0};
    json_error_t wrong;
    t.topo = small_topology(on);
    t.program = small_program(text, 3, "Simple", NULL);
    options.size_bytes = 4e6 * batches;
    options.batches = batches;
    options.trace = trace;
    ck_assert_msg(ccl_sim_program(NULL, t.topo, NULL, t.program, &options, &t.result, &err) ==
                      CCL_OK,
                  "%s", err.text);
    ccl_trace_about_t about = CCL_TRACE_ABOUT_INIT;
    about.topo = t.topo;
    about.program = t.program;
    about.result = t.result;
    ck_assert_int_eq(ccl_trace_write(trace, &about, &out, &err), CCL_OK);
    t.root = json_loads(out.data, JSON_REJECT_DUPLICATES, &wrong);
    ck_assert_msg(t.root != NULL, "line %d: %s", wrong.line, wrong.text);
    ccl_text_fini(&out);
    ccl_trace_destroy(trace);
    return t;
}

static traced_t trace(const char *text, uint32_t batches, uint64_t max_events) {
    static const small_system_t on = {.links = "0-1:nvlink,10,1 1-2:net,5,2 0-2:nvlink,10,1",
                                      .transports =
                                          "\"nvlink\":{\"slices\":2,\"overhead\":\"1us\"},"
                                          "\"net\":{\"tb_rate\":\"20GB/s\"}",
                                      .gpu = "\"copy_rate\":\"10GB/s\""};
    return trace_on(&on, text, batches, max_events);
}

static void traced_fini(traced_t *t) {
    json_decref(t->root);
    ccl_sim_result_destroy(t->result);
    ccl_program_destroy(t->program);
    ccl_topology_destroy(t->topo);
}

static double number(const json_t *event, const char *key) {
    const json_t *value = json_object_get(event, key);
    ck_assert_msg(json_is_number(value), "no number %s", key);
    return json_number_value(value);
}

#define PROGRAM "0>1: s1 s1 | 0: cpy1 | 1<0>2: rcs1 rcs1 | 2<1: r1 r1"

/* Passes of a block do not overlap. @param i  the pass that is held against those before it */
static void check_apart(const json_t *events, size_t i) {
    const json_t *e = json_array_get(events, i);
    double from_us = number(e, "ts"), for_us = number(e, "dur");
    uint32_t pid = (uint32_t)number(e, "pid"), tid = (uint32_t)number(e, "tid");
    for (size_t j = 0; j < i; j++) {
        const json_t *o = json_array_get(events, j);
        if (strcmp(json_string_value(json_object_get(o, "ph")), "X") != 0 ||
            number(o, "pid") != pid || number(o, "tid") != tid)
            continue;
        ck_assert(number(o, "ts") + number(o, "dur") <= from_us + 1e-5 ||
                  from_us + for_us <= number(o, "ts") + 1e-5);
    }
}

/* What passes and waits come to is what the result says. */
static void check_blocks(const traced_t *t, double busy_us[3][2], double wait_us[3][2]) {
    for (uint32_t k = 0; k < t->program->ntbs; k++) {
        const ccl_tb_t *tb = &t->program->tbs[k];
        ck_assert_double_eq_tol(busy_us[tb->rank][tb->id], t->result->tbs[k].busy_s * 1e6, 1e-4);
        ck_assert_double_eq_tol(wait_us[tb->rank][tb->id],
                                (t->result->tbs[k].wait_data_s + t->result->tbs[k].wait_peer_s +
                                 t->result->tbs[k].wait_slot_s) *
                                    1e6,
                                1e-2);
    }
}

START_TEST(test_events) {
    traced_t t = trace(PROGRAM, 3, 0);
    const json_t *events = json_object_get(t.root, "traceEvents");
    double busy_us[3][2] = {{0}}, bytes = 0;
    uint32_t passes = 0, flows = 0, names = 0, arrows = 0, ends = 0, counters = 0;
    double wait_us[3][2] = {{0}};
    ck_assert(json_is_array(events));
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *e = json_array_get(events, i);
        const char *ph = json_string_value(json_object_get(e, "ph"));
        ck_assert_ptr_nonnull(ph);
        ck_assert_ptr_nonnull(json_string_value(json_object_get(e, "name")));
        if (strcmp(ph, "M") == 0) {
            names++;
            ck_assert_ptr_nonnull(
                json_string_value(json_object_get(json_object_get(e, "args"), "name")));
            continue;
        }
        if (strcmp(ph, "X") != 0) {
            counters += strcmp(ph, "C") == 0;
            arrows += strcmp(ph, "s") == 0;
            ends += strcmp(ph, "f") == 0;
            continue;
        }
        double from_us = number(e, "ts"), for_us = number(e, "dur");
        uint32_t pid = (uint32_t)number(e, "pid"), tid = (uint32_t)number(e, "tid");
        ck_assert(from_us >= 0 && for_us >= 0);
        ck_assert(from_us + for_us <= t.result->time_s * 1e6 * (1 + 1e-8));
        const json_t *args = json_object_get(e, "args");
        const char *category = json_string_value(json_object_get(e, "cat"));
        ck_assert_ptr_nonnull(category);
        if (strncmp(category, "wait ", 5) == 0) {
            wait_us[pid][tid] += for_us;
        } else if (pid < 3) {
            passes++;
            ck_assert_uint_lt(tid, 2);
            ck_assert(number(args, "batch") < 3 && number(args, "slice") < 2);
            busy_us[pid][tid] += for_us;
        } else {
            flows++;
            bytes += number(args, "bytes");
        }
        if (pid < 3)
            check_apart(events, i);
    }
    /* 3 micro-batches: two sends, two forwards, two receives in 2 slices each; one copy. */
    ck_assert_uint_eq(passes, 3 * (3 * 2 * 2 + 1));
    ck_assert_uint_eq(flows, t.result->flows);
    ck_assert_uint_eq(flows, 3 * 2 * 2 * 2);
    ck_assert_double_eq_tol(bytes, 3 * 2 * 2 * 1e6, 1);
    ck_assert_uint_ge(names, 4);
    /* Every slice that is sent is received: from 0 by 1, and from 1 by 2. */
    ck_assert_uint_eq(arrows, 3 * 2 * 2 * 2);
    ck_assert_uint_eq(ends, arrows);
    ck_assert_uint_ge(counters, 4); /* two links, up and down */
    check_blocks(&t, busy_us, wait_us);
    traced_fini(&t);
}
END_TEST

START_TEST(test_limit) {
    traced_t t = trace(PROGRAM, 3, 5);
    const json_t *events = json_object_get(t.root, "traceEvents");
    uint32_t spans = 0;
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *e = json_array_get(events, i);
        const char *category = json_string_value(json_object_get(e, "cat"));
        spans += strcmp(json_string_value(json_object_get(e, "ph")), "X") == 0 &&
                 strncmp(category, "wait", 4) != 0;
    }
    ck_assert_uint_eq(spans, 5);
    ck_assert_int_eq(
        json_integer_value(json_object_get(json_object_get(t.root, "otherData"), "dropped")),
        3 * (3 * 2 * 2 + 1) + 3 * 2 * 2 * 2 - 5);
    traced_fini(&t);
}
END_TEST

/** What a slice is, in words. */
START_TEST(test_words) {
    static const char *const wanted[] = {
        "send chunk 0 of 4, to GPU 1",
        "receive chunk 0 of 4, from GPU 1",
        "receive, keep and send on chunk 0 of 4, from GPU 0 to GPU 2",
        "waits for data from GPU 1",
        "block 0, from GPU 0 to GPU 2, channel 0",
        "GPU 0 to GPU 1, channel 0"};
    static const char *const switched[] = {"receive chunk 0 of 4, from GPUs 1-2",
                                           "send chunk 0 of 4, to GPU 0 through a switch",
                                           "block 0, to GPU 0 through a switch, channel 0"};
    static const small_system_t star = {.links = "0-s:nvlink,10,1 1-s:nvlink,10,1 2-s:nvlink,10,1",
                                        .switches = "\"multicast\":true,\"reduce\":true"};
    traced_t t[] = {trace(PROGRAM, 1, 0),
                    trace_on(&star, "0<{12}: r1 | 1>!0: s1 | 2>!0: s1", 1, 0)};
    for (int k = 0; k < 2; k++) {
        char *text = json_dumps(t[k].root, 0);
        for (size_t i = 0; i < (k ? CCL_ARRAY_LEN(switched) : CCL_ARRAY_LEN(wanted)); i++) {
            const char *words = k ? switched[i] : wanted[i];
            ck_assert_msg(strstr(text, words) != NULL, "no \"%s\"", words);
        }
        free(text);
        traced_fini(&t[k]);
    }
}
END_TEST

/** Where all is too much, some GPUs are written, and the others are counted. */
START_TEST(test_sample) {
    small_system_t on = {.links = "0-1:nvlink,10,1 1-2:net,5,2"};
    ccl_topology_t *topo = small_topology(&on);
    ccl_program_t *program =
        small_program("0>1: s1 s1 | 1<0>2: rcs1 rcs1 | 2<1: r1 r1", 3, "Simple", NULL);
    ccl_sim_options_t options = CCL_SIM_OPTIONS_INIT;
    ccl_trace_about_t about = CCL_TRACE_ABOUT_INIT;
    ccl_sim_result_t *result = NULL;
    ccl_text_t out = {0};
    options.size_bytes = 4e6;
    options.batches = 1;
    options.trace = ccl_trace_create(0);
    ck_assert_int_eq(ccl_sim_program(NULL, topo, NULL, program, &options, &result, NULL), CCL_OK);
    about.topo = topo;
    about.program = program;
    about.result = result;
    about.most_bytes = 1000;
    ck_assert_int_eq(ccl_trace_write(options.trace, &about, &out, NULL), CCL_OK);
    ck_assert_ptr_nonnull(strstr(out.data, "\"gpus\":3,\"gpus_in_full\":1}"));
    ck_assert_ptr_nonnull(strstr(out.data, "busy blocks of the 2 GPUs that are not shown in full"));
    ck_assert_ptr_null(strstr(out.data, "\"GPU 2 ("));
    ccl_text_fini(&out);
    ccl_trace_destroy(options.trace);
    ccl_sim_result_destroy(result);
    ccl_program_destroy(program);
    ccl_topology_destroy(topo);
}
END_TEST

/** A traced run shows every micro-batch, so it skips none, and takes the same time. */
START_TEST(test_never_skips) {
    traced_t t = trace(PROGRAM, 100, 10);
    ck_assert_uint_eq(t.result->skipped_batches, 0);
    ccl_sim_options_t options = CCL_SIM_OPTIONS_INIT;
    ccl_sim_result_t *fast = NULL;
    options.size_bytes = 4e8;
    options.batches = 100;
    ck_assert_int_eq(ccl_sim_program(NULL, t.topo, NULL, t.program, &options, &fast, NULL), CCL_OK);
    ck_assert_uint_gt(fast->skipped_batches, 0);
    ck_assert_double_eq_tol(fast->time_s, t.result->time_s, 1e-9 * fast->time_s);
    ccl_sim_result_destroy(fast);
    traced_fini(&t);
}
END_TEST

START_TEST(test_empty) {
    traced_t t = trace("0: nop", 1, 0);
    ck_assert(json_is_array(json_object_get(t.root, "traceEvents")));
    traced_fini(&t);
}
END_TEST

START_TEST(test_flow_list) {
    small_system_t on = {.links = "0-1:nvlink,10,1"};
    ccl_topology_t *topo = small_topology(&on);
    uint32_t src[] = {0, 0, 1}, dst[] = {1, 1, 0}, dep[] = {CCL_NONE, 0, 1};
    double bytes[] = {1e6, 2e6, 0};
    ccl_flow_list_t list = {2, 3, 2, src, dst, dep, bytes};
    ccl_sim_options_t options = CCL_SIM_OPTIONS_INIT;
    ccl_sim_result_t *result = NULL;
    ccl_text_t out = {0};
    options.trace = ccl_trace_create(0);
    ck_assert_int_eq(ccl_sim_flows(NULL, topo, NULL, &list, &options, &result, NULL), CCL_OK);
    ck_assert_int_eq(ccl_trace_write(options.trace, NULL, &out, NULL), CCL_OK);
    json_t *root = json_loads(out.data, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_ptr_nonnull(root);
    double sum_us = 0;
    const json_t *events = json_object_get(root, "traceEvents");
    for (size_t i = 0; i < json_array_size(events); i++)
        if (strcmp(json_string_value(json_object_get(json_array_get(events, i), "ph")), "X") == 0)
            sum_us += number(json_array_get(events, i), "dur");
    ck_assert_double_eq_tol(sum_us, 300, 1e-5); /* 100 and 200 us, and nothing */
    json_decref(root);
    ccl_text_fini(&out);
    ccl_trace_destroy(options.trace);
    ccl_sim_result_destroy(result);
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("unit.sim.trace");
    TCase *tcase = tcase_create("trace");
    tcase_set_timeout(tcase, 0);
    tcase_add_test(tcase, test_events);
    tcase_add_test(tcase, test_limit);
    tcase_add_test(tcase, test_never_skips);
    tcase_add_test(tcase, test_words);
    tcase_add_test(tcase, test_sample);
    tcase_add_test(tcase, test_empty);
    tcase_add_test(tcase, test_flow_list);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
