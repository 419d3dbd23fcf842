/*
 * What is wrong is found and named: data, programs that cannot finish, ends that do not match,
 * options.
 */
#include "common.h"

typedef enum mutation {
    RIGHT,
    NO_COPY,      /* rank 1 never copies its own block */
    WRONG_PLACE,  /* rank 1 receives into its own block's place, then copies over it */
    WRONG_SOURCE, /* rank 0 sends what it received */
    NO_RECEIVE,   /* fewer receives than sends */
    OTHER_SIZE,   /* receives two elements of what was sent as one */
    NO_SENDER     /* receives from where nobody sends */
} mutation_t;

typedef struct place {
    uint8_t buffer;
    uint32_t offset;
} place_t;

static uint32_t step(ccl_program_builder_t *b, uint32_t tb, ccl_primitive_t type, place_t src,
                     place_t dst, uint32_t count) {
    ccl_step_t s = {.src_off = src.offset,
                    .dst_off = dst.offset,
                    .count = count,
                    .dep_tb = CCL_NONE,
                    .dep_step = CCL_NONE,
                    .type = (uint8_t)type,
                    .src_buf = src.buffer,
                    .dst_buf = dst.buffer};
    return ccl_program_builder_step(b, tb, s);
}

/** AllGather of two ranks, out of place, with a fault. */
static ccl_program_t *gather(mutation_t how) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_program_t *p = NULL;
    ccl_program_builder_t *b =
        ccl_program_builder_create("gather", collective(CCL_ALLGATHER, 2, 0), 2, "Simple");
    ccl_program_builder_place(b, false, true, 0, 0);
    for (uint32_t r = 0; r < 2; r++) {
        ccl_program_builder_buffer(b, r, CCL_BUF_INPUT, 1);
        ccl_program_builder_buffer(b, r, CCL_BUF_OUTPUT, 2);
        ccl_program_builder_buffer(b, r, CCL_BUF_SCRATCH, 2);
        uint32_t own = ccl_program_builder_tb(b, r, CCL_NONE, CCL_NONE, 0);
        if (!(how == NO_COPY && r == 1))
            step(b, own, CCL_PRIM_CPY, (place_t){CCL_BUF_INPUT, 0}, (place_t){CCL_BUF_OUTPUT, r},
                 1);
        uint32_t both = ccl_program_builder_tb(b, r, 1 - r, 1 - r, 0);
        bool skip = how == NO_SENDER && r == 0;
        if (how == WRONG_SOURCE && r == 0)
            step(b, both, CCL_PRIM_S, (place_t){CCL_BUF_SCRATCH, 0}, (place_t){CCL_BUF_INPUT, 0},
                 1);
        else if (!skip)
            step(b, both, CCL_PRIM_S, (place_t){CCL_BUF_INPUT, 0}, (place_t){CCL_BUF_INPUT, 0}, 1);
        uint32_t at = how == WRONG_PLACE && r == 1 ? 1 : 1 - r;
        if (how == OTHER_SIZE && r == 1)
            step(b, both, CCL_PRIM_R, (place_t){CCL_BUF_INPUT, 0}, (place_t){CCL_BUF_SCRATCH, 0},
                 2);
        else if (how != NO_RECEIVE || r == 0)
            step(b, both, CCL_PRIM_R, (place_t){CCL_BUF_INPUT, 0}, (place_t){CCL_BUF_OUTPUT, at},
                 1);
        else
            step(b, both, CCL_PRIM_NOP, (place_t){CCL_BUF_INPUT, 0}, (place_t){CCL_BUF_OUTPUT, at},
                 0);
    }
    ccl_status_t status = ccl_program_builder_finish(b, &p, &err);
    ck_assert_msg(status == CCL_OK, "%s", err.text);
    return p;
}

static const struct {
    mutation_t how;
    ccl_status_t want;
    const char *text;
    uint32_t rank, element;
} wrongs[] = {
    {RIGHT, CCL_OK, "", 0, 0},
    {NO_COPY, CCL_CHECK, "it was not written", 1, 1},
    {WRONG_PLACE, CCL_CHECK, "rank 1 output offset 0 ", 1, 0},
    {WRONG_SOURCE, CCL_CHECK, "rank 1 output offset 0 ", 1, 0},
    /* They cannot run. */
    {NO_RECEIVE, CCL_CHECK, "on channel 0 has 1 sends and 0 receives", CCL_NONE, 0},
    {OTHER_SIZE, CCL_CHECK, "receives 2 elements, but message 0 of its connection", CCL_NONE, 0},
    {NO_SENDER, CCL_CHECK, "on channel 0 has 0 sends and 1 receives", CCL_NONE, 0},
};

START_TEST(test_data) {
    ccl_program_t *p = gather(wrongs[_i].how);
    for (uint32_t type = 0; type < CCL_TYPES; type++) {
        ccl_run_options_t o = CCL_RUN_OPTIONS_INIT;
        ccl_run_result_t *r = NULL;
        ccl_error_t err = CCL_ERROR_INIT;
        o.size_bytes = 1000;
        o.type = (ccl_type_t)type;
        ccl_status_t status = ccl_run_program(NULL, p, &o, &r, &err);
        ck_assert_msg(status == wrongs[_i].want, "%s: %s", ccl_status_name(status), err.text);
        if (status != CCL_OK)
            ck_assert_msg(strstr(err.text, wrongs[_i].text), "%s", err.text);
        if (wrongs[_i].rank == CCL_NONE) { /* before anything starts, as the verifier says it */
            ccl_verdict_t verdict;
            ck_assert_int_eq(ccl_program_verify(NULL, p, NULL, &verdict, NULL), CCL_OK);
            ck_assert_str_eq(err.text, verdict.fault.text);
            ck_assert_ptr_null(r);
        } else if (status == CCL_CHECK) {
            ck_assert_uint_eq(r->fault.rank, wrongs[_i].rank);
            ck_assert_uint_eq(r->fault.element, wrongs[_i].element);
            ck_assert_uint_gt(r->wrong_items, 0);
        }
        ccl_run_result_destroy(r);
    }
    ccl_program_destroy(p);
}
END_TEST

START_TEST(test_stuck) {
    static const struct {
        bool no_static_check;
        ccl_run_ranks_t ranks;
        ccl_run_transport_t transport;
        const char *text;
    } ways[] = {{false, CCL_RANKS_THREADS, CCL_RUN_SHM, "cannot finish"},
                {true, CCL_RANKS_THREADS, CCL_RUN_SHM, "nothing moved for 0.3 s"},
                {true, CCL_RANKS_PROCESSES, CCL_RUN_SHM, "nothing moved for 0.3 s"},
                {true, CCL_RANKS_PROCESSES, CCL_RUN_TCP, "nothing moved for 0.3 s"}};
    ccl_program_t *p = stuck();
    ccl_run_options_t o = CCL_RUN_OPTIONS_INIT;
    ccl_run_result_t *r = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    o.size_bytes = 4096;
    o.watchdog_s = 0.3;
    o.no_static_check = ways[_i].no_static_check;
    o.ranks = ways[_i].ranks;
    o.transport = ways[_i].transport;
    double before_s = ccl_now_s();
    ck_assert_int_eq(ccl_run_program(NULL, p, &o, &r, &err), CCL_DEADLOCK);
    ck_assert_double_lt(ccl_now_s() - before_s, 5);
    ck_assert_msg(strstr(err.text, ways[_i].text), "%s", err.text);
    ck_assert_ptr_nonnull(r->deadlock);
    ck_assert_uint_eq(r->deadlock->nwaits, 2);
    ck_assert_uint_eq(r->deadlock->stuck, 2);
    for (uint32_t i = 0; i < 2; i++) {
        ck_assert_int_eq(r->deadlock->waits[i].wait, CCL_WAIT_DATA);
        ck_assert_uint_eq(r->deadlock->waits[i].step, 0);
        ck_assert_uint_eq(r->deadlock->waits[i].on_rank, 1 - r->deadlock->waits[i].rank);
    }
    ccl_run_result_destroy(r);
    ccl_program_destroy(p);
}
END_TEST

static void set_size(ccl_run_options_t *o) {
    o->size_bytes = 0;
}
static void set_huge(ccl_run_options_t *o) {
    o->size_bytes = 0x1p49;
}
static void set_device(ccl_run_options_t *o) {
    o->device = "abacus";
}
static void set_slice(ccl_run_options_t *o) {
    o->slice_bytes = 8;
}
static void set_batches(ccl_run_options_t *o) {
    o->batches = UINT32_MAX;
}
static void set_world(ccl_run_options_t *o) {
    o->world = 3;
    o->root = "127.0.0.1:1";
}
static void set_root(ccl_run_options_t *o) {
    o->world = 2;
    o->root = "nowhere";
}
static void set_rank(ccl_run_options_t *o) {
    o->world = 2;
    o->rank = 2;
    o->root = "127.0.0.1:1";
}

static const struct {
    void (*set)(ccl_run_options_t *o);
    ccl_status_t want;
    const char *text;
} bads[] = {
    {set_size, CCL_ERR_USAGE, "more than 0"},
    {set_huge, CCL_ERR_INPUT, "TiB of memory"},
    {set_device, CCL_ERR_USAGE, "host, cuda, hip or auto"},
    {set_slice, CCL_ERR_USAGE, "at least 16"},
    {set_batches, CCL_ERR_INPUT, "micro-batches"},
    {set_world, CCL_ERR_USAGE, "3 processes for 2 ranks"},
    {set_root, CCL_ERR_USAGE, "host:port"},
    {set_rank, CCL_ERR_USAGE, "rank below"},
};

START_TEST(test_options) {
    ccl_program_t *p = gather(RIGHT);
    ccl_run_options_t o = CCL_RUN_OPTIONS_INIT;
    ccl_run_result_t *r = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    o.size_bytes = 1 << 10;
    bads[_i].set(&o);
    ccl_status_t status = ccl_run_program(NULL, p, &o, &r, &err);
    ck_assert_msg(status == bads[_i].want, "%s: %s", ccl_status_name(status), err.text);
    ck_assert_msg(strstr(err.text, bads[_i].text), "%s", err.text);
    ck_assert_ptr_null(r);
    ccl_program_destroy(p);
}
END_TEST

static int stop_at_third(const ccl_progress_t *progress, void *user) {
    (void)user;
    return progress->done >= 2;
}

/* Whoever asks to stop gets it, in the midst of the runs too. */
START_TEST(test_cancel) {
    ccl_program_t *p = gather(RIGHT);
    ccl_run_options_t o = CCL_RUN_OPTIONS_INIT;
    ccl_run_result_t *r = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ctx.progress = stop_at_third;
    o.size_bytes = 1 << 10;
    o.ranks = _i ? CCL_RANKS_PROCESSES : CCL_RANKS_THREADS;
    ck_assert_int_eq(ccl_run_program(&ctx, p, &o, &r, &err), CCL_INTERRUPTED);
    ck_assert_ptr_null(r);
    ccl_program_destroy(p);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("unit.runtime.wrong");
    TCase *tcase = tcase_create("wrong");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, test_data, 0, (int)CCL_ARRAY_LEN(wrongs));
    tcase_add_loop_test(tcase, test_stuck, 0, 4);
    tcase_add_loop_test(tcase, test_options, 0, (int)CCL_ARRAY_LEN(bads));
    tcase_add_loop_test(tcase, test_cancel, 0, 2);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
