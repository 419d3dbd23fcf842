/* Programs that cannot finish: found, and told who waits for whom. */
#include "small.h"
#include "tests/topologies/topologies.h"

typedef struct row {
    const char *why, *program;
    uint32_t slots, slices, batches;
    ccl_granularity_t granularity;
    uint32_t cycle; /* length; 0: it finishes */
    uint32_t stuck;
    const char *waits; /* what the members wait for */
    uint32_t least;    /* slots with which it finishes; 0: with none */
    uint32_t in;       /* micro-batches with which it finishes as the FIFOs are; 0: none */
} row_t;

#define RING3 "0>1<2: s1 rcs1 r1 | 1>2<0: s1 rcs1 r1 | 2>0<1: s1 rcs1 r1"

static const row_t rows[] = {
    {"a ring at task level in one block, a slot to spare", RING3, 4, 1, 3, CCL_GRANULARITY_TASK, 0,
     0, "", 0, 0},
    {"... as many micro-batches as slots: nobody has one left to forward", RING3, 4, 1, 4,
     CCL_GRANULARITY_TASK, 3, 3, "slot", 5, 3},
    {"... more micro-batches than slots", RING3, 4, 1, 64, CCL_GRANULARITY_TASK, 3, 3, "slot", 65,
     3},
    {"... slices take slots, too: two micro-batches of 4 in 4 slots", RING3, 4, 4, 2,
     CCL_GRANULARITY_TASK, 3, 3, "slot", 9, 0},
    {"the same ring at algorithm level", RING3, 4, 1, 64, CCL_GRANULARITY_ALGORITHM, 0, 0, "", 0,
     0},
    {"one slot is not enough when every block forwards",
     "0>1<2: s1 rcs1 r1 | 1>2<0: s1 rcs1 r1 | 2>0<1: s1 rcs1 r1", 1, 1, 1,
     CCL_GRANULARITY_ALGORITHM, 3, 3, "slot", 2, 0},
    {"two blocks that both receive first", "0>1<1: r1 s1 | 1>0<0: r1 s1", 8, 1, 1,
     CCL_GRANULARITY_ALGORITHM, 2, 2, "data", 0, 0},
    {"two that both send first have slots", "0>1<1: s1 r1 | 1>0<0: s1 r1", 8, 1, 1,
     CCL_GRANULARITY_ALGORITHM, 0, 0, "", 0, 0},
    {"two blocks of a GPU that wait for each other", "0: cpy1@1.0 | 0: cpy1@0.0", 8, 1, 1,
     CCL_GRANULARITY_ALGORITHM, 2, 2, "dependency", 0, 0},
    {"a step that waits for a later one of its block", "0: cpy1@0.1 cpy1", 8, 1, 1,
     CCL_GRANULARITY_ALGORITHM, 1, 1, "dependency", 0, 0},
    {"a receive that nobody sends", "1<0: r1", 8, 1, 1, CCL_GRANULARITY_ALGORITHM, 1, 1, "data", 0,
     0},
    {"more sends than receives, more than slots", "0>1: s1 s1 s1 | 1<0: r1", 1, 1, 1,
     CCL_GRANULARITY_ALGORITHM, 1, 1, "slot", 2, 0},
    {"others finish: two of three are stuck", "0>1<1: r1 s1 | 1>0<0: r1 s1 | 2: cpy1", 8, 1, 2,
     CCL_GRANULARITY_ALGORITHM, 2, 2, "data", 0, 0},
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
    options.cause = true;
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
        const ccl_deadlock_cause_t *c = &d->cause;
        ck_assert_msg(c->known && c->least_slots == row->least && c->batches == row->in,
                      "%s: %u slots or %u micro-batches; expected %u, %u", row->why, c->least_slots,
                      c->batches, row->least, row->in);
        ck_assert_str_eq(c->transport, row->least ? "nvlink" : "");
        ck_assert_uint_eq(c->slots, row->least ? row->slots : 0);
        ck_assert_msg(strstr(err.text, row->least ? "; slots of nvlink are "
                                                  : "cannot finish, at any depth of FIFOs"),
                      "%s: '%s'", row->why, err.text);
    }
    ccl_sim_result_destroy(result);
    ccl_program_destroy(program);
    ccl_topology_destroy(topo);
}
END_TEST

/* Both send all they have before they receive: 4 MB in slices of the transport's. */
#define EXCHANGE "0>1<1: s1 r1 | 1>0<0: s1 r1"

static const struct {
    const char *why, *program, *proto, *links, *transports, *edit, *profile;
    uint32_t batches;
    const char *transport, *protocol, *from; /* expected */
    uint32_t slots, least, in;
    double slice_bytes;
} causes[] = {
    {"the transport's own slots, from its file", EXCHANGE, "Simple", "0-1:nvlink,10,1",
     "\"nvlink\":{\"slots\":3,\"slice\":1000000}", NULL, NULL, 1, "nvlink", "", "test", 3, 4, 2,
     1e6},
    {"a protocol's", EXCHANGE, "LL", "0-1:nvlink,10,1",
     "\"nvlink\":{\"slots\":9,\"slice\":1000000,\"protocols\":{\"LL\":{\"slots\":3}}}", NULL, NULL,
     1, "nvlink", "LL", "test", 3, 4, 2, 1e6},
    {"another protocol's do not count", EXCHANGE, "LL", "0-1:nvlink,10,1",
     "\"nvlink\":{\"slots\":3,\"slice\":1000000,\"protocols\":{\"LL128\":{\"slots\":2}}}", NULL,
     NULL, 1, "nvlink", "", "test", 3, 4, 2, 1e6},
    {"the default", EXCHANGE, "Simple", "0-1:nvlink,10,1", "\"nvlink\":{\"slice\":100000}", NULL,
     NULL, 1, "nvlink", "", "", 8, 40, 5, 1e5},
    {"an edit", EXCHANGE, "Simple", "0-1:nvlink,10,1", "\"nvlink\":{\"slots\":9,\"slice\":1000000}",
     "set:slots:nvlink=2", NULL, 1, "nvlink", "", "set:slots:nvlink=2", 2, 4, 2, 1e6},
    {"a scaled default", EXCHANGE, "Simple", "0-1:nvlink,10,1", "\"nvlink\":{\"slice\":1000000}",
     "scale:slots=0.25", NULL, 1, "nvlink", "", "scale:slots=0.25", 2, 4, 2, 1e6},
    {"a profile", EXCHANGE, "Simple", "0-1:nvlink,10,1",
     "\"nvlink\":{\"slots\":9,\"slice\":1000000}", NULL,
     "\"transports\":{\"nvlink\":{\"slots\":3}}", 1, "nvlink", "", "profile p", 3, 4, 2, 1e6},
    {"a profile of other keys", EXCHANGE, "Simple", "0-1:nvlink,10,1",
     "\"nvlink\":{\"slots\":3,\"slice\":1000000}", NULL,
     "\"transports\":{\"nvlink\":{\"tb_rate\":\"1GB/s\"}}", 1, "nvlink", "", "test", 3, 4, 2, 1e6},
    {"a least number of slices: more micro-batches do not help", EXCHANGE, "Simple",
     "0-1:nvlink,10,1", "\"nvlink\":{\"slots\":3,\"slices\":4,\"slice\":1000000}", NULL, NULL, 1,
     "nvlink", "", "test", 3, 4, 0, 1e6},
    {"of two transports the one that is waited for",
     "0>1<1: s1 r1 | 1>0<0: s1 r1 | 1>2: s1 | 2<1: r1", "Simple", "0-1:xgmi,10,1 1-2:nvlink,10,1",
     "\"xgmi\":{\"slots\":3,\"slice\":1000000},\"nvlink\":{\"slots\":2}", NULL, NULL, 1, "xgmi", "",
     "test", 3, 4, 2, 1e6},
};

START_TEST(test_cause) {
    small_system_t on = {.links = causes[_i].links, .transports = causes[_i].transports};
    ccl_topology_t *topo = small_topology(&on), *other = NULL;
    ccl_profile_t *profile = NULL;
    ccl_program_t *program =
        small_program(causes[_i].program, topo->nranks, causes[_i].proto, NULL);
    ccl_sim_options_t options = CCL_SIM_OPTIONS_INIT;
    ccl_sim_result_t *result = NULL;
    char text[300];
    if (causes[_i].edit) {
        ck_assert_int_eq(ccl_topology_edit(topo, causes[_i].edit, &other, NULL), CCL_OK);
    } else if (causes[_i].profile) {
        snprintf(text, sizeof text, "{\"format\":\"ccllab-profile-1\",\"name\":\"p\",%s}",
                 causes[_i].profile);
        ck_assert_int_eq(ccl_profile_read_text("p", text, strlen(text), &profile, NULL), CCL_OK);
        ck_assert_int_eq(ccl_profile_apply(NULL, profile, topo, &other, NULL), CCL_OK);
    }
    options.size_bytes = 4e6 * program->nchunks;
    options.batches = causes[_i].batches;
    options.cause = true;
    ck_assert_int_eq(
        ccl_sim_program(NULL, other ? other : topo, NULL, program, &options, &result, NULL),
        CCL_DEADLOCK);
    const ccl_deadlock_cause_t *c = &result->deadlock->cause;
    ck_assert_msg(strcmp(c->transport, causes[_i].transport) == 0 &&
                      strcmp(c->protocol, causes[_i].protocol) == 0 &&
                      strcmp(c->from, causes[_i].from) == 0,
                  "%s: '%s' '%s' '%s'", causes[_i].why, c->transport, c->protocol, c->from);
    ck_assert_msg(c->slots == causes[_i].slots && c->least_slots == causes[_i].least &&
                      c->batches == causes[_i].in && c->slice_bytes == causes[_i].slice_bytes,
                  "%s: %u slots of %g, least %u, or %u micro-batches", causes[_i].why, c->slots,
                  c->slice_bytes, c->least_slots, c->batches);
    ccl_sim_result_destroy(result);
    ccl_program_destroy(program);
    ccl_profile_destroy(profile);
    ccl_topology_destroy(other);
    ccl_topology_destroy(topo);
}
END_TEST

/** Constants of the library are named as such. */
START_TEST(test_cause_of_library) {
    ccl_topology_t *topo = NULL;
    ccl_program_t *program = small_program(EXCHANGE, 8, "Simple", NULL);
    ccl_sim_options_t options = CCL_SIM_OPTIONS_INIT;
    ccl_sim_result_t *result = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    topo = topology("mi300x-x8");
    options.size_bytes = 4.0 * 6 * 1048576; /* 6 slices of 1 MiB, where FIFOs take 4 */
    options.batches = 1;
    options.cause = true;
    ck_assert_int_eq(ccl_sim_program(NULL, topo, NULL, program, &options, &result, &err),
                     CCL_DEADLOCK);
    ck_assert_str_eq(err.text, "deadlock: 2 thread blocks cannot finish; slots of xgmi are 4 "
                               "(library mi300x-x8), with 6 they would");
    ck_assert_uint_eq(result->deadlock->cause.batches, 2);
    ccl_sim_result_destroy(result);
    ccl_program_destroy(program);
    ccl_topology_destroy(topo);
}
END_TEST

/** It is looked for on demand only: a search would pay for it at every deadlock. */
START_TEST(test_cause_on_demand) {
    small_system_t on = {.links = "0-1:nvlink,10,1",
                         .transports = "\"nvlink\":{\"slots\":3,\"slices\":4}"};
    ccl_topology_t *topo = small_topology(&on);
    ccl_program_t *program = small_program(EXCHANGE, 2, "Simple", NULL);
    ccl_sim_options_t options = CCL_SIM_OPTIONS_INIT;
    ccl_sim_result_t *result = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    options.size_bytes = 4e6;
    ck_assert_int_eq(ccl_sim_program(NULL, topo, NULL, program, &options, &result, &err),
                     CCL_DEADLOCK);
    ck_assert(!result->deadlock->cause.known);
    ck_assert_str_eq(err.text, "deadlock: 2 thread blocks cannot finish");
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
    tcase_add_loop_test(tcase, test_cause, 0, (int)CCL_ARRAY_LEN(causes));
    tcase_add_test(tcase, test_cause_of_library);
    tcase_add_test(tcase, test_cause_on_demand);
    tcase_add_test(tcase, test_cyclic_flows);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
