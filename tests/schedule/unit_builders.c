/* The builders of schedules and programs. */
#include "suite.h"

#include <math.h>

static ccl_collective_t *allgather(uint32_t n) {
    ccl_collective_t *coll = NULL;
    ck_assert_int_eq(ccl_collective_create(CCL_ALLGATHER, n, 1, 0, &coll, NULL), CCL_OK);
    return coll;
}

START_TEST(steps_are_sorted_and_stable) {
    ccl_schedule_builder_t *b = ccl_schedule_builder_create("x", allgather(4));
    ccl_schedule_t *s;
    ccl_error_t err = CCL_ERROR_INIT;
    /* Steps beyond 2^12 need more than one pass of the sort. */
    const uint32_t steps[] = {70000, 3, 70000, 0, 4096, 3, 0, 8191};
    for (uint16_t i = 0; i < CCL_ARRAY_LEN(steps); i++)
        ccl_schedule_builder_add(b, (ccl_transfer_t){0, 1, 0, steps[i], i, 0, 0});
    check_ok(ccl_schedule_builder_finish(b, &s, &err), &err);
    static const uint16_t order[] = {3, 6, 1, 5, 4, 7, 0, 2};
    ck_assert_uint_eq(s->ntransfers, CCL_ARRAY_LEN(order));
    for (size_t i = 0; i < CCL_ARRAY_LEN(order); i++) {
        ck_assert_uint_eq(s->transfers[i].channel, order[i]);
        ck_assert_uint_eq(s->transfers[i].step, steps[order[i]]);
    }
    ck_assert_uint_eq(s->nsteps, 70001);
    ck_assert_uint_eq(s->nchannels, 8);
    ccl_schedule_destroy(s);
    check_ok(ccl_schedule_builder_finish(ccl_schedule_builder_create("", allgather(1)), &s, &err),
             &err);
    ck_assert_uint_eq(s->ntransfers, 0);
    ck_assert_uint_eq(s->nsteps, 0);
    ck_assert_uint_eq(s->nchannels, 1);
    ccl_schedule_destroy(s);
}
END_TEST

START_TEST(bad_transfers) {
    static const struct {
        const char *text;
        ccl_transfer_t transfer;
    } rows[] = {
        {"from rank 4 to 0 of 4", {4, 0, 0, 0, 0, 0, 0}},
        {"from rank 0 to 9 of 4", {0, 9, 0, 0, 0, 0, 0}},
        {"to itself", {1, 1, 0, 0, 0, 0, 0}},
        {"chunk 4 of 4", {0, 1, 4, 0, 0, 0, 0}},
        {"step 4294967295", {0, 1, 0, UINT32_MAX, 0, 0, 0}},
        {"operation 2", {0, 1, 0, 0, 0, 2, 0}},
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_schedule_builder_t *b = ccl_schedule_builder_create("x", allgather(4));
        ccl_schedule_t *s;
        ccl_error_t err = CCL_ERROR_INIT;
        ccl_schedule_builder_add(b, (ccl_transfer_t){0, 1, 0, 0, 0, 0, 0});
        ccl_schedule_builder_add(b, rows[i].transfer);
        ck_assert_int_eq(ccl_schedule_builder_finish(b, &s, &err), CCL_ERR_INPUT);
        ck_assert_msg(strstr(err.text, rows[i].text) && strstr(err.text, "transfer 1 "), "%s",
                      err.text);
    }
}
END_TEST

static ccl_step_t step_of(ccl_primitive_t type, uint32_t dep_tb, uint32_t dep_step) {
    return (ccl_step_t){.src_off = 1,
                        .dst_off = 2,
                        .count = 1,
                        .dep_tb = dep_tb,
                        .dep_step = dep_step,
                        .type = (uint8_t)type,
                        .src_buf = CCL_BUF_OUTPUT,
                        .dst_buf = CCL_BUF_OUTPUT,
                        .has_dep = 1};
}

/** Blocks and steps may come in any order; ids count per rank. */
START_TEST(interleaved_program) {
    ccl_program_builder_t *b = ccl_program_builder_create("p", allgather(3), 3, "LL");
    ccl_program_t *p;
    ccl_error_t err = CCL_ERROR_INIT;
    uint32_t x = ccl_program_builder_tb(b, 2, 1, CCL_NONE, 0);
    uint32_t y = ccl_program_builder_tb(b, 0, CCL_NONE, 1, 5);
    uint32_t z = ccl_program_builder_tb(b, 2, CCL_NONE, 0, 1);
    ck_assert_uint_eq(ccl_program_builder_step(b, x, step_of(CCL_PRIM_S, CCL_NONE, CCL_NONE)), 0);
    ck_assert_uint_eq(ccl_program_builder_step(b, y, step_of(CCL_PRIM_R, CCL_NONE, CCL_NONE)), 0);
    ck_assert_uint_eq(ccl_program_builder_step(b, z, step_of(CCL_PRIM_R, CCL_NONE, CCL_NONE)), 0);
    ck_assert_uint_eq(ccl_program_builder_step(b, z, step_of(CCL_PRIM_R, CCL_NONE, CCL_NONE)), 1);
    ck_assert_uint_eq(ccl_program_builder_step(b, x, step_of(CCL_PRIM_S, 1, 1)), 1);
    ccl_program_builder_buffer(b, 0, CCL_BUF_SCRATCH, 7);
    ccl_program_builder_place(b, true, false, 1024, 4096);
    check_ok(ccl_program_builder_finish(b, &p, &err), &err);
    ck_assert_uint_eq(p->ntbs, 3);
    ck_assert_uint_eq(p->nsteps, 5);
    ck_assert_uint_eq(p->nchannels, 6);
    static const uint32_t first[] = {0, 1, 1, 3};
    for (int r = 0; r < 4; r++)
        ck_assert_uint_eq(p->rank_first_tb[r], first[r]);
    ck_assert_uint_eq(p->tbs[0].recv_peer, 1);
    ck_assert_uint_eq(p->tbs[1].send_peer, 1);
    ck_assert_uint_eq(p->tbs[1].id, 0);
    ck_assert_uint_eq(p->tbs[2].id, 1);
    ck_assert_uint_eq(p->tbs[1].first_step, 1);
    ck_assert_uint_eq(p->tbs[1].nsteps, 2);
    ck_assert_uint_eq(p->tbs[2].first_step, 3);
    /* has_dep is derived: only step 1 of block 1 is waited for. */
    static const uint32_t tb[] = {0, 1, 1, 2, 2}, s[] = {0, 0, 1, 0, 1};
    static const uint8_t has_dep[] = {0, 0, 0, 0, 1};
    for (int i = 0; i < 5; i++) {
        ck_assert_uint_eq(ccl_program_mark(p, &p->tbs[tb[i]], (uint32_t)i).s, s[i]);
        ck_assert_uint_eq(p->steps[i].has_dep, has_dep[i]);
    }
    ck_assert_uint_eq(p->buffer_len[CCL_BUF_INPUT], 1);
    ck_assert_uint_eq(p->buffer_len[CCL_BUF_OUTPUT], 3);
    ck_assert_uint_eq(p->buffer_len[CCL_BUF_SCRATCH], 7);
    ck_assert(p->in_place && !p->out_of_place && p->min_bytes == 1024 && p->max_bytes == 4096);
    ccl_program_destroy(p);
}
END_TEST

START_TEST(shares_of_steps) {
    static const double input[] = {0.125, 0.25}, output[] = {0.5, 0.0625, 0.03125};
    static const struct {
        const char *why;
        ccl_primitive_t type;
        uint8_t src_buf, dst_buf;
        double even, given; /* without and with shares; src 0, dst 1, count 2 */
    } rows[] = {
        {"a send reads its source", CCL_PRIM_S, CCL_BUF_INPUT, CCL_BUF_OUTPUT, 0.5, 0.375},
        {"a receive writes its destination", CCL_PRIM_R, CCL_BUF_INPUT, CCL_BUF_OUTPUT, 0.5,
         0.09375},
        {"so does rcs", CCL_PRIM_RCS, CCL_BUF_INPUT, CCL_BUF_OUTPUT, 0.5, 0.09375},
        {"a reduction reads its source", CCL_PRIM_RRC, CCL_BUF_INPUT, CCL_BUF_OUTPUT, 0.5, 0.375},
        {"a copy too", CCL_PRIM_CPY, CCL_BUF_OUTPUT, CCL_BUF_INPUT, 0.5, 0.5625},
        {"a nop moves nothing", CCL_PRIM_NOP, CCL_BUF_INPUT, CCL_BUF_INPUT, 0, 0},
    };
    for (int given = 0; given < 2; given++) {
        ccl_program_builder_t *b = ccl_program_builder_create("p", allgather(2), 4, "Simple");
        ccl_program_t *p;
        ccl_error_t err = CCL_ERROR_INIT;
        uint32_t tb = ccl_program_builder_tb(b, 0, 1, 1, 0);
        for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++)
            ccl_program_builder_step(b, tb,
                                     (ccl_step_t){.dst_off = 1,
                                                  .count = 2,
                                                  .dep_tb = CCL_NONE,
                                                  .dep_step = CCL_NONE,
                                                  .type = (uint8_t)rows[i].type,
                                                  .src_buf = rows[i].src_buf,
                                                  .dst_buf = rows[i].dst_buf});
        for (uint32_t r = 0; r < 2; r++) {
            ccl_program_builder_buffer(b, r, CCL_BUF_INPUT, 2);
            ccl_program_builder_buffer(b, r, CCL_BUF_OUTPUT, 3);
            if (given) {
                ccl_program_builder_shares(b, r, CCL_BUF_INPUT, input);
                ccl_program_builder_shares(b, r, CCL_BUF_OUTPUT, output);
            }
        }
        check_ok(ccl_program_builder_finish(b, &p, &err), &err);
        for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
            double share = ccl_program_step_share(p, &p->tbs[0], &p->steps[i]);
            ck_assert_msg(share == (given ? rows[i].given : rows[i].even), "%s: %g", rows[i].why,
                          share);
        }
        ccl_program_destroy(p);
    }
}
END_TEST

START_TEST(bad_programs) {
    enum { PEER, SELF, DEP_TB, DEP_STEP, NO_SEND, NO_RECV, RANK, CHUNKS, PROTO, TYPE, SHARES, FAR };
    static const struct {
        int what;
        const char *text;
    } rows[] = {{PEER, "sends to rank 7"},
                {SELF, "receives from rank 0"},
                {DEP_TB, "waits for block 3 of 1"},
                {DEP_STEP, "waits for step 5 of block 0, which has 1"},
                {NO_SEND, "no peer to send to"},
                {NO_RECV, "no peer to receive from"},
                {RANK, "does not exist"},
                {CHUNKS, "0 chunks"},
                {PROTO, "protocol 'll'"},
                {TYPE, "unknown type"},
                {SHARES, "elements of its output buffer are missing"},
                {FAR, "beyond 2^31"}};
    static const double one[] = {1};
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        int what = rows[i].what;
        ccl_program_builder_t *b = ccl_program_builder_create(
            "p", allgather(2), what == CHUNKS ? 0 : 2, what == PROTO ? "ll" : "Simple");
        ccl_step_t step = step_of(what == NO_RECV ? CCL_PRIM_R : CCL_PRIM_S,
                                  what == DEP_TB     ? 3
                                  : what == DEP_STEP ? 0
                                                     : CCL_NONE,
                                  what == DEP_TB     ? 0
                                  : what == DEP_STEP ? 5
                                                     : CCL_NONE);
        uint32_t tb = ccl_program_builder_tb(b, what == RANK ? 2 : 0,
                                             what == PEER                         ? 7
                                             : what == NO_SEND || what == NO_RECV ? CCL_NONE
                                                                                  : 1,
                                             what == SELF ? 0 : CCL_NONE, 0);
        if (what == TYPE)
            step.type = 9;
        if (what == FAR)
            step.src_off = INT32_MAX;
        ccl_program_builder_step(b, tb, step);
        if (what == SHARES)
            ccl_program_builder_shares(b, 0, CCL_BUF_INPUT, one);
        ccl_program_t *p;
        ccl_error_t err = CCL_ERROR_INIT;
        ck_assert_int_eq(ccl_program_builder_finish(b, &p, &err), CCL_ERR_INPUT);
        ck_assert_msg(strstr(err.text, rows[i].text), "'%s' lacks '%s'", err.text, rows[i].text);
    }
}
END_TEST

/** 512 ranks, all to all directly: two blocks of one step for each pair. */
START_TEST(many_small_blocks) {
    enum { N = 512 };
    ccl_program_builder_t *b = ccl_program_builder_create("direct", allgather(N), N, "Simple");
    ccl_program_t *p;
    ccl_error_t err = CCL_ERROR_INIT;
    for (uint32_t r = 0; r < N; r++) {
        for (uint32_t q = 0; q < N; q++) {
            if (q == r)
                continue;
            uint32_t tb = ccl_program_builder_tb(b, r, q, CCL_NONE, 0);
            ccl_program_builder_step(b, tb, step_of(CCL_PRIM_S, CCL_NONE, CCL_NONE));
            tb = ccl_program_builder_tb(b, r, CCL_NONE, q, 0);
            ccl_program_builder_step(b, tb, step_of(CCL_PRIM_R, CCL_NONE, CCL_NONE));
        }
    }
    check_ok(ccl_program_builder_finish(b, &p, &err), &err);
    ck_assert_uint_eq(p->ntbs, 2 * N * (N - 1));
    ck_assert_uint_eq(p->tbs[p->ntbs - 1].recv_peer, N - 2);
    ck_assert_uint_eq(p->tbs[p->ntbs - 1].id, 2 * (N - 1) - 1);
    ccl_program_destroy(p);
}
END_TEST

START_TEST(primitives) {
    static const struct {
        const char *name;
        bool sends, receives, reduces;
    } rows[] = {
        {"s", true, false, false},    {"r", false, true, false},  {"rcs", true, true, false},
        {"rrs", true, true, true},    {"rrc", false, true, true}, {"rrcs", true, true, true},
        {"cpy", false, false, false}, {"re", false, false, true}, {"nop", false, false, false}};
    for (int i = 0; i <= CCL_PRIM_NOP; i++) {
        ck_assert_str_eq(ccl_primitive_name(i), rows[i].name);
        ck_assert_int_eq(ccl_primitive_sends(i), rows[i].sends);
        ck_assert_int_eq(ccl_primitive_receives(i), rows[i].receives);
        ck_assert_int_eq(ccl_primitive_reduces(i), rows[i].reduces);
    }
}
END_TEST

SUITE_MAIN("builders", steps_are_sorted_and_stable, bad_transfers, interleaved_program,
           shares_of_steps, bad_programs, many_small_blocks, primitives)
