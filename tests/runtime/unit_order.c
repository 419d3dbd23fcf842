/* The order in which one worker takes the passes: all data once, a slice's receiver first. */
#include "common.h"

typedef struct seen {
    const ccl_program_t *program;
    uint64_t memory_bytes, read_bytes, written_bytes;
    uint32_t batches, nuses, handed_over; /* of those that read: written by the very next use */
    uint32_t last_rank, last_prim;
} seen_t;

static ccl_status_t begin(void *user, uint64_t bytes, uint32_t batches, ccl_error_t *err) {
    seen_t *s = user;
    (void)err;
    s->memory_bytes = bytes;
    s->batches = batches;
    return CCL_OK;
}

static void use(void *user, const ccl_run_use_t *u) {
    seen_t *s = user;
    const ccl_tb_t *tb = s->program->tbs;
    while (u->step >= tb->first_step + tb->nsteps)
        tb++;
    uint32_t prim = s->program->steps[u->step].type;
    s->nuses++;
    if (u->src_at != CCL_RUN_NOWHERE) {
        s->read_bytes += u->bytes;
        ck_assert_uint_le(u->src_at + u->bytes, s->memory_bytes);
    }
    if (u->dst_at != CCL_RUN_NOWHERE) {
        s->written_bytes += u->bytes;
        ck_assert_uint_le(u->dst_at + u->bytes, s->memory_bytes);
    }
    if (prim == CCL_PRIM_R && s->last_prim == CCL_PRIM_S)
        s->handed_over += ccl_program_peers(s->program, tb, u->step).recv_peer == s->last_rank;
    s->last_prim = prim;
    s->last_rank = tb->rank;
}

/* Everybody sends its block to everybody: 4 x 3 blocks are read and written, each handed over. */
START_TEST(hands_over_at_once) {
    static const ccl_run_order_ops_t ops = {begin, use};
    ccl_program_t *p =
        program_of("direct", CCL_ALLGATHER, "servers:1 gpus:4 nvswitch=300GB/s,1us", NULL);
    ccl_run_options_t o = CCL_RUN_OPTIONS_INIT;
    ccl_error_t err = CCL_ERROR_INIT;
    seen_t s = {.program = p};
    o.size_bytes = 4 << 20;
    o.slice_bytes = 32 << 10;
    ck_assert_int_eq(ccl_run_order(p, &o, &ops, &s, &err), CCL_OK);
    ck_assert_uint_eq(s.batches, 8);
    ck_assert_uint_eq(s.read_bytes, 12u << 20);
    ck_assert_uint_eq(s.written_bytes, 12u << 20);
    ck_assert_uint_eq(s.nuses, 2 * 12 * 32);
    ck_assert_uint_eq(s.handed_over, 12 * 32);
    ccl_program_destroy(p);
}
END_TEST

/* NVLS: every rank's input is read once as an offer, every sum stored once and taken by all. */
START_TEST(passes_through_switches) {
    static const ccl_run_order_ops_t ops = {begin, use};
    ccl_program_t *p =
        program_of("nvls", CCL_ALLREDUCE, "servers:1 gpus:4 nvswitch=300GB/s,1us,nvls", NULL);
    ccl_run_options_t o = CCL_RUN_OPTIONS_INIT;
    ccl_error_t err = CCL_ERROR_INIT;
    seen_t s = {.program = p};
    o.size_bytes = 4 << 20;
    ck_assert_msg(ccl_run_order(p, &o, &ops, &s, &err) == CCL_OK, "%s", err.text);
    ck_assert_uint_gt(s.nuses, 0);
    ck_assert_uint_eq(s.read_bytes, 4u * (4u << 20));
    ck_assert_uint_ge(s.written_bytes, 4u * (4u << 20));
    ccl_program_destroy(p);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("unit.runtime.order");
    TCase *tcase = tcase_create("order");
    tcase_add_test(tcase, hands_over_at_once);
    tcase_add_test(tcase, passes_through_switches);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
