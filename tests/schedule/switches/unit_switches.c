/* Switch connections that the verifier refuses, and what it says of right ones. */
#include "tests/schedule/suite.h"

#define NONE CCL_NONE

/* Blocks, each of one step, of `program`, by rank. */
enum { PULLS, OFFERS_1, TAKES_1, OFFERS_2, TAKES_2, KEEPS_2, BLOCKS };

/**
 * AllReduce of 2 elements in place: rank 0 pulls what 1 and 2 offer, adds its own and multicasts
 * the sum. The last block copies rank 2's input to its scratch.
 */
static ccl_program_t *program(void) {
    static const uint32_t members[] = {2, 1};
    ccl_collective_t *coll = NULL;
    ccl_program_t *p = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    check_ok(ccl_collective_create(CCL_ALLREDUCE, 3, 2, 0, &coll, &err), &err);
    ccl_program_builder_t *b = ccl_program_builder_create("switch", coll, 2, "Simple");
    ccl_program_builder_place(b, true, false, 0, 0);
    uint32_t group = ccl_program_builder_group(b, members, 2);
    const struct {
        uint32_t rank, send, recv;
        uint8_t type, dst_buf;
    } rows[BLOCKS] = {{0, group, group, CCL_PRIM_RRCS, CCL_BUF_INPUT},
                      {1, CCL_PEER_MEMBER, NONE, CCL_PRIM_S, CCL_BUF_INPUT},
                      {1, NONE, CCL_PEER_MEMBER, CCL_PRIM_R, CCL_BUF_INPUT},
                      {2, CCL_PEER_MEMBER, NONE, CCL_PRIM_S, CCL_BUF_INPUT},
                      {2, NONE, CCL_PEER_MEMBER, CCL_PRIM_R, CCL_BUF_INPUT},
                      {2, NONE, NONE, CCL_PRIM_NOP, CCL_BUF_SCRATCH}};
    for (uint32_t r = 0; r < 3; r++)
        ccl_program_builder_buffer(b, r, CCL_BUF_SCRATCH, 2);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        ccl_step_t s = {.type = rows[i].type,
                        .dst_buf = rows[i].dst_buf,
                        .count = rows[i].type == CCL_PRIM_NOP ? 0 : 2,
                        .dep_tb = NONE,
                        .dep_step = NONE};
        ccl_program_builder_step(
            b, ccl_program_builder_tb(b, rows[i].rank, rows[i].send, rows[i].recv, 0), s);
    }
    check_ok(ccl_program_builder_finish(b, &p, &err), &err);
    return p;
}

static void expect(const ccl_program_t *p, const char *why, const char *kind, const char *text) {
    ccl_verdict_t v;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_msg(ccl_program_verify(NULL, p, NULL, &v, &err) == CCL_OK, "%s: %s", why, err.text);
    ck_assert_msg(!v.valid && !strcmp(v.fault.kind, kind) && strstr(v.fault.text, text),
                  "%s: %s: %s", why, v.valid ? "valid" : v.fault.kind, v.fault.text);
}

START_TEST(right) {
    ccl_program_t *p = program();
    ccl_verdict_t v;
    check_ok(ccl_program_verify(NULL, p, NULL, &v, &(ccl_error_t)CCL_ERROR_INIT),
             &(ccl_error_t)CCL_ERROR_INIT);
    ck_assert_msg(v.valid, "%s", v.fault.text);
    ck_assert_uint_eq(v.nwarnings, 1);
    ck_assert_ptr_nonnull(strstr(v.warnings[0], "in a switch, in no fixed order"));
    static const ccl_executor_t executors[] = {CCL_EXECUTOR_MSCCL, CCL_EXECUTOR_RCCL,
                                               CCL_EXECUTOR_MSCCL_OLD};
    for (size_t i = 0; i < CCL_ARRAY_LEN(executors); i++) {
        ccl_verify_options_t options = CCL_VERIFY_OPTIONS_INIT;
        options.executor = executors[i];
        ck_assert_int_eq(ccl_program_verify(NULL, p, &options, &v, NULL), CCL_OK);
        ck_assert(!v.valid);
        ck_assert_str_eq(v.fault.kind, "limit");
        ck_assert_ptr_nonnull(strstr(v.fault.text, "has no such connections"));
    }
    ccl_program_destroy(p);
}
END_TEST

/* A block that several connections share pulls before it pulls and multicasts in one step. */
START_TEST(shared_block) {
    static const uint32_t members[] = {1, 2};
    ccl_collective_t *coll = NULL;
    ccl_program_t *p = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_verdict_t v;
    check_ok(ccl_collective_create(CCL_ALLREDUCE, 3, 2, 0, &coll, &err), &err);
    ccl_program_builder_t *b = ccl_program_builder_create("shared", coll, 2, "Simple");
    ccl_program_builder_place(b, true, false, 0, 0);
    uint32_t group = ccl_program_builder_group(b, members, 2);
    const struct {
        uint32_t rank, send, recv, off;
        uint8_t type;
        bool begins; /* a block */
    } rows[] = {{0, NONE, group, 0, CCL_PRIM_RRC, true},
                {0, group, group, 1, CCL_PRIM_RRCS, false},
                {0, group, NONE, 0, CCL_PRIM_S, false},
                {1, CCL_PEER_MEMBER, NONE, 0, CCL_PRIM_S, true},
                {1, CCL_PEER_MEMBER, NONE, 1, CCL_PRIM_S, false},
                {1, NONE, CCL_PEER_MEMBER, 1, CCL_PRIM_R, true},
                {1, NONE, CCL_PEER_MEMBER, 0, CCL_PRIM_R, false},
                {2, CCL_PEER_MEMBER, NONE, 0, CCL_PRIM_S, true},
                {2, CCL_PEER_MEMBER, NONE, 1, CCL_PRIM_S, false},
                {2, NONE, CCL_PEER_MEMBER, 1, CCL_PRIM_R, true},
                {2, NONE, CCL_PEER_MEMBER, 0, CCL_PRIM_R, false}};
    for (uint32_t i = 0, tb = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_step_t s = {.type = rows[i].type,
                        .src_off = rows[i].off,
                        .dst_off = rows[i].off,
                        .count = 1,
                        .dep_tb = NONE,
                        .dep_step = NONE};
        tb = rows[i].begins ? ccl_program_builder_tb(b, rows[i].rank, NONE, NONE, 0) : tb;
        ccl_program_builder_step_peers(b, tb, s, (ccl_peers_t){rows[i].send, rows[i].recv, 0});
    }
    check_ok(ccl_program_builder_finish(b, &p, &err), &err);
    check_ok(ccl_program_verify(NULL, p, NULL, &v, &err), &err);
    ck_assert_msg(v.valid, "%s", v.fault.text);
    ccl_program_destroy(p);
}
END_TEST

START_TEST(places_and_sizes) {
    static const struct {
        const char *why;
        uint32_t step, off, count;
        uint8_t type, src_buf, dst_buf;
        const char *kind, *text;
    } rows[] = {
        {"taken to another buffer", TAKES_2, 0, 2, CCL_PRIM_R, 0, CCL_BUF_SCRATCH, "offset",
         "rank 2 block 1 step 0 takes scratch element 0, but rank 1 block 1 step 0 takes input "
         "element 0"},
        {"offered from another buffer", OFFERS_2, 0, 2, CCL_PRIM_S, CCL_BUF_SCRATCH, 0, "offset",
         "rank 2 block 0 step 0 offers scratch element 0, but rank 1 block 0 step 0 offers input"},
        {"fewer elements taken", TAKES_1, 0, 1, CCL_PRIM_R, 0, 0, "mismatch",
         "receives 1 elements, but message 0 of its connection, sent by rank 0 block 0 step 0"},
        {"fewer elements offered", OFFERS_1, 0, 1, CCL_PRIM_S, 0, 0, "mismatch",
         "receives 2 elements, but message 0 of its connection, sent by rank 1 block 0 step 0"},
        {"nothing taken", TAKES_1, 0, 0, CCL_PRIM_NOP, 0, 0, "mismatch",
         "the multicast from rank 0 to rank 1 on channel 0 has 1 sends and 0 receives"},
        {"nothing offered", OFFERS_2, 0, 0, CCL_PRIM_NOP, 0, 0, "mismatch",
         "the reducing connection from rank 2 to rank 0 on channel 0 has 0 sends and 1 receives"},
        {"its own part is not added", PULLS, 0, 2, CCL_PRIM_RCS, 0, 0, "missing",
         "lacks the contribution of rank 0"},
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_program_t *p = program();
        ccl_step_t *s = &p->steps[rows[i].step];
        s->src_off = s->dst_off = rows[i].off;
        s->count = rows[i].count;
        s->type = rows[i].type;
        s->src_buf = rows[i].src_buf;
        s->dst_buf = rows[i].dst_buf;
        expect(p, rows[i].why, rows[i].kind, rows[i].text);
        ccl_program_destroy(p);
    }
    /* What was offered is overwritten, and nothing says that the pull comes first. */
    ccl_program_t *p = program();
    p->steps[KEEPS_2] =
        (ccl_step_t){.type = CCL_PRIM_CPY, .dst_off = 1, .count = 1, .dep_tb = 1, .dep_step = 0};
    p->steps[TAKES_2].has_dep = 1;
    expect(p, "behind what it takes", "missing", "");
    p->steps[KEEPS_2].dep_tb = p->steps[KEEPS_2].dep_step = NONE;
    expect(p, "any time", "race", "nothing orders the two");
    p->steps[KEEPS_2].dep_tb = p->steps[KEEPS_2].dep_step = 0;
    p->steps[OFFERS_2].has_dep = 1;
    p->steps[TAKES_2].dep_tb = 2; /* what it takes comes behind */
    p->steps[TAKES_2].dep_step = 0;
    p->steps[KEEPS_2].has_dep = 1;
    expect(p, "behind the offer, but not behind the pull", "race", "nothing orders the two");
    ccl_program_destroy(p);
}
END_TEST

START_TEST(ends) {
    static const struct {
        const char *why;
        uint32_t tb, send, recv;
        const char *kind, *text;
    } rows[] = {
        {"no such group", PULLS, CCL_PEER_GROUP | 1, CCL_PEER_GROUP, "peer",
         "sends to group 1, but there are only 1 groups"},
        {"no such single GPU", OFFERS_1, CCL_PEER_MEMBER | 3, NONE, "peer",
         "sends to rank 3, but there are only 3 ranks"},
        {"offers to one that does not pull", OFFERS_1, CCL_PEER_MEMBER | 2, NONE, "connection",
         "rank 1 block 0 offers to rank 2 on channel 0, which pulls from no group there"},
        {"takes from one that does not multicast", TAKES_2, NONE, CCL_PEER_MEMBER | 1, "connection",
         "rank 2 block 1 takes the multicast of rank 1 on channel 0, which multicasts to no group"},
        {"a plain send in place of an offer", OFFERS_1, 0, NONE, "mismatch",
         "has 1 sends and 0 receives"},
        {"a plain receive in place of a pull", PULLS, CCL_PEER_GROUP, 1, "connection",
         "rank 1 block 0 offers to rank 0 on channel 0, which pulls from no group there"},
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_program_t *p = program();
        p->tbs[rows[i].tb].send_peer = rows[i].send;
        p->tbs[rows[i].tb].recv_peer = rows[i].recv;
        expect(p, rows[i].why, rows[i].kind, rows[i].text);
        ccl_program_destroy(p);
    }
    /* Two blocks at one end; a member that the group lacks. */
    ccl_program_t *p = program();
    p->tbs[KEEPS_2].send_peer = CCL_PEER_MEMBER;
    p->steps[KEEPS_2] = p->steps[OFFERS_2];
    expect(p, "two blocks offer", "connection", "rank 2: blocks 0 and 2 both send to rank 0");
    ccl_program_destroy(p);
    p = program();
    ((ccl_peer_group_t *)(uintptr_t)p->groups)[0].n = 1;
    expect(p, "a group without rank 2", "connection", "rank 2 block 0 offers to rank 0");
    ccl_program_destroy(p);
}
END_TEST

SUITE_MAIN("switches", right, shared_block, places_and_sizes, ends)
