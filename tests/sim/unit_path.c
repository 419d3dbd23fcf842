/* The critical path of small runs that a line of arithmetic tells. */
#include "tests/sim/small.h"

/* Elements have 1e5 bytes: 10 us on a link of 10 GB/s. */
#define SIZE 4e5

typedef struct row {
    const char *why;
    small_system_t on;
    const char *program;
    uint32_t batches;
    ccl_sharing_t sharing;
    double us[CCL_PATH_CAUSES]; /* by cause */
    double wait_us[CCL_PATH_WAITS];
} row_t;

#define LINK CCL_PATH_LINK
#define SHARING CCL_PATH_SHARING
#define LATENCY CCL_PATH_LATENCY
#define END CCL_PATH_END
#define DATA CCL_PATH_DATA

static const row_t rows[] = {
    {.why = "one transfer: alpha + bytes beta",
     .program = "0>1: s1 | 1<0: r1",
     .us = {[LINK] = 10, [LATENCY] = 1},
     .wait_us = {[DATA] = 11}},
    {.why = "a chain of two hops",
     .program = "0>1: s1 | 1>2<0: rcs1 | 2<1: r1",
     .us = {[LINK] = 20, [LATENCY] = 2},
     .wait_us = {[DATA] = 22}},
    {.why = "two flows share a link",
     .program = "0>1: s1 | 1<0: r1 | 0>1#1: s1 | 1<0#1: r1",
     .us = {[LINK] = 10, [SHARING] = 10, [LATENCY] = 1},
     .wait_us = {[DATA] = 21}},
    {.why = "two flows of unequal length: the longer one is alone at the end",
     .program = "0>1: s1 | 1<0: r1 | 0>1#1: s2 | 1<0#1: r2",
     .us = {[LINK] = 20, [SHARING] = 10, [LATENCY] = 1},
     .wait_us = {[DATA] = 31}},
    {.why = "contention comes on top: at z = 2 the link moves 10 / 1.5 GB/s",
     .on = {.links = "0-1:nvlink,10,1,0.5"},
     .program = "0>1: s1 | 1<0: r1 | 0>1#1: s1 | 1<0#1: r1",
     .us = {[LINK] = 10, [SHARING] = 20, [LATENCY] = 1},
     .wait_us = {[DATA] = 31}},
    {.why = "a thread block of 4 GB/s",
     .on = {.transports = "\"nvlink\":{\"tb_rate\":\"4GB/s\"}"},
     .program = "0>1: s1 | 1<0: r1",
     .us = {[LINK] = 10, [CCL_PATH_BLOCK_RATE] = 15, [LATENCY] = 1},
     .wait_us = {[DATA] = 26}},
    {.why = "a group of 2 GB/s is narrower than the link",
     .on = {.groups = "{\"name\":\"g\",\"links\":[[\"0\",\"1\"]],\"bandwidth\":\"2GB/s\"}"},
     .program = "0>1: s1 | 1<0: r1",
     .us = {[LINK] = 50, [LATENCY] = 1},
     .wait_us = {[DATA] = 51}},
    {.why = "what arrived is reduced at 2 GB/s",
     .on = {.gpu = "\"reduce_rate\":\"2GB/s\""},
     .program = "0>1: s1 | 1<0: rrc1",
     .us = {[LINK] = 10, [LATENCY] = 1, [CCL_PATH_REDUCE] = 50},
     .wait_us = {[DATA] = 11, [END] = 50}},
    {.why = "a reduction on the way: 50 us, of which the link needs 10",
     .on = {.gpu = "\"reduce_rate\":\"2GB/s\""},
     .program = "0>1: s1 | 1>2<0: rrs1 | 2<1: r1",
     .us = {[LINK] = 20, [LATENCY] = 2, [CCL_PATH_REDUCE] = 40},
     .wait_us = {[DATA] = 62}},
    {.why = "launch, overheads of both ends, latency of the transport",
     .on = {.transports = "\"nvlink\":{\"overhead\":\"3us\",\"latency\":\"2us\"}",
            .gpu = "\"launch\":\"5us\""},
     .program = "0>1: s1 | 1<0: r1",
     .us = {[LINK] = 10,
            [LATENCY] = 1,
            [CCL_PATH_TRANSPORT] = 2,
            [CCL_PATH_OVERHEAD] = 6,
            [CCL_PATH_LAUNCH] = 5},
     .wait_us = {[DATA] = 16, [END] = 3, [CCL_PATH_BLOCK] = 5}},
    {.why = "copies one after another in a block, then a block that depends on them",
     .on = {.gpu = "\"copy_rate\":\"20GB/s\",\"overhead\":\"1us\",\"flag\":\"4us\""},
     .program = "0: cpy1 cpy1 | 0: cpy1@0.1 | 1: nop",
     .us = {[CCL_PATH_COPY] = 15, [CCL_PATH_OVERHEAD] = 3, [CCL_PATH_FLAG] = 4},
     .wait_us = {[CCL_PATH_BLOCK] = 6, [CCL_PATH_DEPENDENCY] = 10, [END] = 6}},
    {.why = "one slot: the second send waits until the first is reduced and its slot is back",
     .on = {.transports = "\"nvlink\":{\"slots\":1}", .gpu = "\"reduce_rate\":\"2GB/s\""},
     .program = "0>1: s1 s1 | 1<0: rrc1 rrc1",
     .us = {[LINK] = 20, [LATENCY] = 3, [CCL_PATH_REDUCE] = 100},
     .wait_us = {[DATA] = 22, [CCL_PATH_SLOT] = 51, [END] = 50}},
    {.why = "with slots enough the receiver's block is what is busy",
     .on = {.gpu = "\"reduce_rate\":\"2GB/s\""},
     .program = "0>1: s1 s1 | 1<0: rrc1 rrc1",
     .us = {[LINK] = 10, [LATENCY] = 1, [CCL_PATH_REDUCE] = 100},
     .wait_us = {[DATA] = 11, [CCL_PATH_BLOCK] = 50, [END] = 50}},
    {.why = "slices that left their block drain one after another",
     .on = {.links = "0-1:net,10,1"},
     .program = "0>1: s1 s1 | 1<0: r1 r1",
     .us = {[LINK] = 20, [LATENCY] = 1},
     .wait_us = {[DATA] = 11, [CCL_PATH_CONNECTION] = 10}},
    {.why = "micro-batches: the block is busy with the one before",
     .program = "0>1: s1 | 1<0: r1",
     .batches = 4,
     .us = {[LINK] = 10, [LATENCY] = 1},
     .wait_us = {[DATA] = 3.5, [CCL_PATH_BLOCK] = 7.5}},
    {.why = "exclusive links: the second flow waits for the first",
     .program = "0>1: s1 | 1<0: r1 | 0>1#1: s1 | 1<0#1: r1",
     .sharing = CCL_SHARING_EXCLUSIVE,
     .us = {[LINK] = 10, [LATENCY] = 1, [CCL_PATH_LINKS_HELD] = 10},
     .wait_us = {[DATA] = 21}},
    {.why = "nothing to do takes no time", .program = "0: nop | 1: nop"},
};

START_TEST(test_rows) {
    const row_t *row = &rows[_i];
    ccl_topology_t *topo = small_topology(&row->on);
    ccl_program_t *program = small_program(row->program, topo->nranks, "Simple", NULL);
    ccl_sim_options_t options = CCL_SIM_OPTIONS_INIT;
    ccl_sim_result_t *result = NULL;
    ccl_path_sum_t sum;
    ccl_error_t err = CCL_ERROR_INIT;
    double total_us = 0;
    options.size_bytes = SIZE;
    options.batches = row->batches ? row->batches : 1;
    options.sharing = row->sharing;
    options.path = true;
    ck_assert_msg(ccl_sim_program(NULL, topo, NULL, program, &options, &result, &err) == CCL_OK,
                  "%s: %s", row->why, err.text);
    ck_assert_int_eq(ccl_path_sum(topo, result, &sum, &err), CCL_OK);
    for (int c = 0; c < CCL_PATH_CAUSES; c++) {
        total_us += row->us[c];
        ck_assert_msg(fabs(sum.cause_s[c] * 1e6 - row->us[c]) < 1e-9 * (1 + row->us[c]),
                      "%s: %s %.12g us, not %.12g", row->why,
                      ccl_path_cause_name((ccl_path_cause_t)c), sum.cause_s[c] * 1e6, row->us[c]);
    }
    for (int w = 0; w < CCL_PATH_WAITS; w++)
        ck_assert_msg(fabs(sum.wait_s[w] * 1e6 - row->wait_us[w]) < 1e-9 * (1 + row->wait_us[w]),
                      "%s: waited for %s: %.12g us, not %.12g", row->why,
                      ccl_path_wait_name((ccl_path_wait_t)w), sum.wait_s[w] * 1e6, row->wait_us[w]);
    ck_assert_msg(fabs(result->time_s * 1e6 - total_us) < 1e-9 * (1 + total_us), "%s: %.12g us",
                  row->why, result->time_s * 1e6);
    ccl_path_sum_fini(&sum);
    ccl_sim_result_destroy(result);
    ccl_program_destroy(program);
    ccl_topology_destroy(topo);
}
END_TEST

/** Which link, which block, what was carried when. */
START_TEST(test_names) {
    small_system_t on = {.links = "0-s:nvlink,10,1 1-s:nvlink,5,2"};
    ccl_topology_t *topo = small_topology(&on);
    ccl_program_t *program =
        small_program("0>1: s1 | 1<0: r1 | 0>1#1: s1 | 1<0#1: r1", topo->nranks, "Simple", NULL);
    ccl_sim_options_t options = CCL_SIM_OPTIONS_INIT;
    ccl_sim_result_t *r = NULL;
    ccl_path_sum_t sum;
    options.size_bytes = SIZE;
    options.batches = 1;
    options.path = true;
    options.intervals = 43; /* 20 us on the narrow link each, 40 in all, 3 us of latency */
    ck_assert_int_eq(ccl_sim_program(NULL, topo, NULL, program, &options, &r, NULL), CCL_OK);
    ck_assert_uint_eq(r->npath, 4);
    const ccl_path_segment_t *s = r->path;
    const uint8_t causes[] = {LINK, SHARING, LATENCY, LATENCY};
    const uint32_t links[] = {3, 3, 0, 3}; /* 0->s, s->0, 1->s, s->1 */
    for (uint32_t i = 0; i < 4; i++) {
        ck_assert_uint_eq(s[i].cause, causes[i]);
        ck_assert_uint_eq(s[i].resource, links[i]);
        ck_assert_uint_eq(s[i].kind, 0);
        ck_assert_uint_eq(s[i].peer, 1);
        ck_assert_uint_eq(program->tbs[s[i].tb].rank, 0);
    }
    for (uint32_t i = 0; i < 43; i++) {
        double want = i < 40 ? 5000 : 0; /* 5 GB/s for a microsecond */
        ck_assert_msg(fabs(r->link_bytes[3 * 43 + i] - want) < 1e-3, "interval %u: %g", i,
                      r->link_bytes[3 * 43 + i]);
        ck_assert_double_eq(r->link_bytes[1 * 43 + i], 0);
    }
    ck_assert_int_eq(ccl_path_sum(topo, r, &sum, NULL), CCL_OK);
    ck_assert_double_eq_tol(sum.resource_s[3 * CCL_PATH_CAUSES + SHARING], 20e-6, 1e-15);
    ck_assert_double_eq_tol(sum.kind_s[LATENCY], 3e-6, 1e-15);
    ck_assert_double_eq_tol(sum.tb_s[s[0].tb], 43e-6, 1e-15);
    ck_assert_uint_eq(sum.transfers, 1);
    ccl_path_sum_fini(&sum);
    ccl_sim_result_destroy(r);

    ccl_error_t err = CCL_ERROR_INIT;
    options.path = false;
    ck_assert_int_eq(ccl_sim_program(NULL, topo, NULL, program, &options, &r, NULL), CCL_OK);
    ck_assert_int_eq(ccl_path_sum(topo, r, &sum, &err), CCL_ERR_INPUT);
    ccl_sim_result_destroy(r);
    options.path = true;
    options.batches = 1u << 24; /* two nodes each */
    ck_assert_int_eq(ccl_sim_program(NULL, topo, NULL, program, &options, &r, &err),
                     CCL_UNSUPPORTED);
    ccl_program_destroy(program);
    ccl_topology_destroy(topo);
}
END_TEST

/** Of links that are as narrow the network's is named, wherever it stands. */
START_TEST(test_network_is_named) {
    static const struct {
        const char *links;
        uint32_t link; /* 0->n, n->0, n->1, 1->n */
    } cases[] = {{"0-n:pcie,10,1 n-1:net,10,1", 2},
                 {"0-n:net,10,1 n-1:pcie,10,1", 0},
                 {"0-n:pcie,5,1 n-1:net,10,1", 0}};
    for (size_t i = 0; i < CCL_ARRAY_LEN(cases); i++) {
        small_system_t on = {.links = cases[i].links};
        ccl_topology_t *topo = small_topology(&on);
        ccl_program_t *program = small_program("0>1: s1 | 1<0: r1", 2, "Simple", NULL);
        ccl_sim_options_t options = CCL_SIM_OPTIONS_INIT;
        ccl_sim_result_t *r = NULL;
        uint32_t named = 0;
        options.size_bytes = SIZE;
        options.path = true;
        ck_assert_int_eq(ccl_sim_program(NULL, topo, NULL, program, &options, &r, NULL), CCL_OK);
        for (uint32_t k = 0; k < r->npath; k++) {
            if (r->path[k].cause != LINK)
                continue;
            ck_assert_uint_eq(r->path[k].resource, cases[i].link);
            named++;
        }
        ck_assert_uint_gt(named, 0);
        ccl_sim_result_destroy(r);
        ccl_program_destroy(program);
        ccl_topology_destroy(topo);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("path");
    TCase *tc = tcase_create("path");
    tcase_add_loop_test(tc, test_rows, 0, (int)CCL_ARRAY_LEN(rows));
    tcase_add_test(tc, test_names);
    tcase_add_test(tc, test_network_is_named);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
