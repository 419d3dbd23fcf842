/* Programs that cannot finish: found, and told who waits for whom. */
#include "small.h"

typedef struct row {
    const char *why, *program;
    uint32_t slots, slices, batches;
    ccl_granularity_t granularity;
    uint32_t cycle; /* length; 0: it finishes */
    uint32_t stuck;
    const char *waits; /* what the members wait for */
} row_t;

#define RING3 "0>1<2: s1 rcs1 r1 | 1>2<0: s1 rcs1 r1 | 2>0<1: s1 rcs1 r1"

static const row_t rows[] = {
    {"a ring at task level in one block, a slot to spare", RING3, 4, 1, 3, CCL_GRANULARITY_TASK, 0,
     0, ""},
    {"... as many micro-batches as slots: nobody has one left to forward", RING3, 4, 1, 4,
     CCL_GRANULARITY_TASK, 3, 3, "slot"},
    {"... more micro-batches than slots", RING3, 4, 1, 64, CCL_GRANULARITY_TASK, 3, 3, "slot"},
    {"... slices take slots, too: two micro-batches of 4 in 4 slots", RING3, 4, 4, 2,
     CCL_GRANULARITY_TASK, 3, 3, "slot"},
    {"the same ring at algorithm level", RING3, 4, 1, 64, CCL_GRANULARITY_ALGORITHM, 0, 0, ""},
    {"one slot is not enough when every block forwards",
     "0>1<2: s1 rcs1 r1 | 1>2<0: s1 rcs1 r1 | 2>0<1: s1 rcs1 r1", 1, 1, 1,
     CCL_GRANULARITY_ALGORITHM, 3, 3, "slot"},
    {"two blocks that both receive first", "0>1<1: r1 s1 | 1>0<0: r1 s1", 8, 1, 1,
     CCL_GRANULARITY_ALGORITHM, 2, 2, "data"},
    {"two that both send first have slots", "0>1<1: s1 r1 | 1>0<0: s1 r1", 8, 1, 1,
     CCL_GRANULARITY_ALGORITHM, 0, 0, ""},
    {"two blocks of a GPU that wait for each other", "0: cpy1@1.0 | 0: cpy1@0.0", 8, 1, 1,
     CCL_GRANULARITY_ALGORITHM, 2, 2, "dependency"},
    {"a step that waits for a later one of its block", "0: cpy1@0.1 cpy1", 8, 1, 1,
     CCL_GRANULARITY_ALGORITHM, 1, 1, "dependency"},
    {"a receive that nobody sends", "1<0: r1", 8, 1, 1, CCL_GRANULARITY_ALGORITHM, 1, 1, "data"},
    {"more sends than receives, more than slots", "0>1: s1 s1 s1 | 1<0: r1", 1, 1, 1,
     CCL_GRANULARITY_ALGORITHM, 1, 1, "slot"},
    {"others finish: two of three are stuck", "0>1<1: r1 s1 | 1>0<0: r1 s1 | 2: cpy1", 8, 1, 2,
     CCL_GRANULARITY_ALGORITHM, 2, 2, "data"},
};

START_TEST(test_row) {
    const row_t *row = &rows[_i];
    char transports[96];
    snprintf(transports, sizeof transports, "\"nvlink\":{\"slots\":%u,\"slices\":%u}", row->slots,
             row->slices);
    small_system_t on = {.links = "0-1:nvlink,10,1 1-2:nvlink,10,1 0-2:nvlink,10,1",
                         .transports = transports};
    ccl_topology_t *topo = small_topology(&on);
    ccl_program_t *program = small_program(row->program, 3, "Simple", NULL);
    ccl_sim_options_t options = CCL_SIM_OPTIONS_INIT;
    ccl_sim_result_t *result = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    options.size_bytes = 4e6;
    options.batches = row->batches;
    options.granularity = row->granularity;
    ccl_status_t status = ccl_sim_program(NULL, topo, NULL, program, &options, &result, &err);
    ck_assert_msg(status == (row->cycle ? CCL_DEADLOCK : CCL_OK), "%s: %s (%s)", row->why,
                  ccl_status_name(status), err.text);
    ck_assert_ptr_nonnull(result);
    if (!row->cycle) {
        ck_assert_ptr_null(result->deadlock);
        ck_assert(result->time_s > 0);
    } else {
        const ccl_deadlock_t *d = result->deadlock;
        ck_assert_int_eq(err.status, CCL_DEADLOCK);
        ck_assert_msg(strstr(err.text, "deadlock"), "%s: '%s'", row->why, err.text);
        ck_assert_ptr_nonnull(d);
        ck_assert_msg(d->nwaits == row->cycle && d->stuck == row->stuck,
                      "%s: a cycle of %u, %u stuck; expected %u, %u", row->why, d->nwaits, d->stuck,
                      row->cycle, row->stuck);
        for (uint32_t i = 0; i < d->nwaits; i++) {
            const ccl_deadlock_wait_t *w = &d->waits[i], *next = &d->waits[(i + 1) % d->nwaits];
            ck_assert_msg(strcmp(ccl_wait_name(w->wait), row->waits) == 0, "%s: waits for %s",
                          row->why, ccl_wait_name(w->wait));
            ck_assert_msg(w->on_rank == CCL_NONE ||
                              (w->on_rank == next->rank && w->on_tb == next->tb),
                          "%s: no cycle", row->why);
        }
    }
    ccl_sim_result_destroy(result);
    ccl_program_destroy(program);
    ccl_topology_destroy(topo);
}
END_TEST

/** Flow lists whose dependencies run in a circle. */
START_TEST(test_cyclic_flows) {
    static const struct {
        const char *why;
        uint32_t n, dep[4];
    } lists[] = {{"waits for itself", 1, {0}},
                 {"two wait for each other", 2, {1, 0}},
                 {"a circle of three beside one that flows", 4, {1, 2, 0, CCL_NONE}},
                 {"behind a circle", 4, {1, 0, 1, 2}}};
    small_system_t on = {.links = "0-1:nvlink,10,1"};
    ccl_topology_t *topo = small_topology(&on);
    for (uint32_t i = 0; i < CCL_ARRAY_LEN(lists); i++) {
        uint32_t src[4] = {0, 1, 0, 1}, dst[4] = {1, 0, 1, 0}, dep[4];
        double bytes[4] = {1e6, 1e6, 1e6, 1e6};
        memcpy(dep, lists[i].dep, sizeof dep);
        ccl_flow_list_t list = {2, lists[i].n, 2, src, dst, dep, bytes};
        ccl_sim_options_t options = CCL_SIM_OPTIONS_INIT;
        ccl_sim_result_t *result = NULL;
        ccl_error_t err = CCL_ERROR_INIT;
        ccl_status_t status = ccl_sim_flows(NULL, topo, NULL, &list, &options, &result, &err);
        ck_assert_msg(status == CCL_CHECK || status == CCL_DEADLOCK, "%s: %s", lists[i].why,
                      ccl_status_name(status));
        ck_assert_msg(strstr(err.text, "cycle"), "%s: '%s'", lists[i].why, err.text);
        ck_assert_ptr_null(result);
    }
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("unit.sim.deadlock");
    TCase *tcase = tcase_create("deadlock");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, test_row, 0, (int)CCL_ARRAY_LEN(rows));
    tcase_add_test(tcase, test_cyclic_flows);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
