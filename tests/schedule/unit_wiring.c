/* Units, connections and messages of programs. */
#include "suite.h"

#include <stdio.h>

enum { STEPS = 8 };

typedef struct row_step {
    uint32_t block; /* in the order of the rows below */
    uint8_t type;
    uint16_t stage;
    ccl_peers_t peers; /* of a shared block */
} row_step_t;

typedef struct row_block {
    uint32_t rank, send_peer, recv_peer, channel;
} row_block_t;

static bool has_group(ccl_peers_t peers) {
    return ccl_peer_is_group(peers.send_peer) || ccl_peer_is_group(peers.recv_peer);
}

/* Blocks of three ranks, by rank; every step moves element 0. Group 0 is ranks 1 and 2, group 1
 * all. */
static ccl_program_t *program(const row_block_t *blocks, uint32_t nblocks, const row_step_t *steps,
                              uint32_t n) {
    ccl_collective_t *coll = NULL;
    ccl_program_t *p = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_int_eq(ccl_collective_create(CCL_ALLREDUCE, 3, 1, 0, &coll, NULL), CCL_OK);
    ccl_program_builder_t *b = ccl_program_builder_create("wired", coll, 1, "Simple");
    bool groups = false;
    for (uint32_t i = 0; i < nblocks; i++)
        groups |= has_group((ccl_peers_t){blocks[i].send_peer, blocks[i].recv_peer, 0});
    for (uint32_t i = 0; i < n; i++)
        groups |= has_group(steps[i].peers);
    static const uint32_t all[] = {2, 1, 0};
    for (uint32_t g = 0; g < 2 && groups; g++)
        ck_assert_uint_eq(ccl_program_builder_group(b, all, 2 + g), CCL_PEER_GROUP | g);
    for (uint32_t r = 0; r < 3; r++)
        ccl_program_builder_buffer(b, r, CCL_BUF_INPUT, 1);
    for (uint32_t i = 0; i < nblocks; i++)
        ccl_program_builder_tb(b, blocks[i].rank, blocks[i].send_peer, blocks[i].recv_peer,
                               blocks[i].channel);
    for (uint32_t i = 0; i < n; i++) {
        ccl_step_t s = {.count = 1,
                        .dep_tb = CCL_NONE,
                        .dep_step = CCL_NONE,
                        .type = steps[i].type,
                        .stage = steps[i].stage};
        const row_block_t *block = &blocks[steps[i].block];
        if (block->send_peer == CCL_NONE && block->recv_peer == CCL_NONE)
            ccl_program_builder_step_peers(b, steps[i].block, s, steps[i].peers);
        else
            ccl_program_builder_step(b, steps[i].block, s);
    }
    check_ok(ccl_program_builder_finish(b, &p, &err), &err);
    return p;
}

/* "0>1 2>3": which step takes what which other sends. */
static void check_messages(const ccl_program_t *p, ccl_granularity_t level, const char *want,
                           bool want_whole) {
    ccl_wiring_t w;
    ccl_error_t err = CCL_ERROR_INIT;
    uint32_t receiver[STEPS], sender[STEPS];
    bool whole;
    char text[200] = "";
    check_ok(ccl_wiring_init(p, level, &w, &err), &err);
    check_ok(ccl_wiring_match(&w, p, receiver, sender, &whole, &err), &err);
    for (uint32_t i = 0; i < p->nsteps; i++) {
        size_t len = strlen(text);
        if (receiver[i] != CCL_NONE) {
            snprintf(text + len, sizeof text - len, "%u>%u ", i, receiver[i]);
            ck_assert_uint_eq(sender[receiver[i]], i);
        }
        if (sender[i] != CCL_NONE)
            ck_assert_uint_eq(receiver[sender[i]], i);
    }
    ck_assert_str_eq(text, want);
    ck_assert(whole == want_whole);
    ccl_wiring_fini(&w);
}

static const row_block_t chain[] = {{0, 1, CCL_NONE, 0}, {1, 2, 0, 0}, {2, CCL_NONE, 1, 0}};

/* Steps 0 1 2 of rank 0, 3 4 5 of rank 1, 6 7 of rank 2. */
static const row_step_t chain_steps[] = {
    {0, CCL_PRIM_S, 1, {0}},   {0, CCL_PRIM_S, 0, {0}},   {0, CCL_PRIM_S, 1, {0}},
    {1, CCL_PRIM_RCS, 1, {0}}, {1, CCL_PRIM_RRC, 0, {0}}, {1, CCL_PRIM_RCS, 1, {0}},
    {2, CCL_PRIM_R, 1, {0}},   {2, CCL_PRIM_R, 1, {0}},
};

START_TEST(blocks_are_units) {
    ccl_program_t *p = program(chain, 3, chain_steps, 8);
    ccl_wiring_t w;
    ccl_error_t err = CCL_ERROR_INIT;
    check_ok(ccl_wiring_init(p, CCL_GRANULARITY_ALGORITHM, &w, &err), &err);
    ck_assert_uint_eq(w.nunits, 3);
    ck_assert_uint_eq(w.nconns, 2);
    for (uint32_t u = 0; u < 3; u++) {
        ck_assert_uint_eq(w.units[u].tb, u);
        ck_assert_uint_eq(w.units[u].previous, CCL_NONE);
        ck_assert_uint_eq(w.rank_units[u + 1], u + 1);
    }
    ck_assert_uint_eq(w.conns[0].src, 0);
    ck_assert_uint_eq(w.conns[0].dst, 1);
    ck_assert_uint_eq(w.conns[0].sender, 0);
    ck_assert_uint_eq(w.conns[0].receiver, 1);
    ck_assert_uint_eq(w.units[0].recv, CCL_NONE);
    ck_assert_uint_eq(w.units[1].send, 1);
    ck_assert_uint_eq(w.units[1].recv, 0);
    ck_assert_uint_eq(w.units[2].send, CCL_NONE);
    ck_assert_ptr_null(w.step_conns);
    for (uint32_t i = 0; i < p->nsteps; i++)
        ck_assert_uint_eq(w.order[i], i);
    ccl_wiring_fini(&w);
    check_messages(p, CCL_GRANULARITY_ALGORITHM, "0>3 1>4 2>5 3>6 5>7 ", true);
    ccl_program_destroy(p);
}
END_TEST

/* At stage level each stage of a block is a unit and each stage of a pair a connection. */
START_TEST(stages_are_units) {
    ccl_program_t *p = program(chain, 3, chain_steps, 8);
    ccl_wiring_t w;
    ccl_error_t err = CCL_ERROR_INIT;
    static const uint32_t order[] = {1, 0, 2, 4, 3, 5, 6, 7};
    check_ok(ccl_wiring_init(p, CCL_GRANULARITY_STAGE, &w, &err), &err);
    ck_assert_uint_eq(w.nunits, 5);
    ck_assert_uint_eq(w.nconns, 3);
    for (uint32_t i = 0; i < CCL_ARRAY_LEN(order); i++)
        ck_assert_uint_eq(w.order[i], order[i]);
    ck_assert_uint_eq(w.units[0].nsteps, 1);
    ck_assert_uint_eq(w.units[1].nsteps, 2);
    ck_assert_uint_eq(w.units[1].previous, 1); /* the step, not its place */
    ck_assert_uint_eq(w.units[2].previous, CCL_NONE);
    ck_assert_uint_eq(w.rank_units[1], 2);
    ck_assert_uint_eq(w.rank_units[3], 5);
    ck_assert_uint_eq(w.conns[w.units[1].send].stage, 1);
    ck_assert_uint_eq(w.conns[w.units[2].recv].stage, 0);
    ck_assert_uint_eq(w.conns[w.units[0].send].receiver, 2);
    ccl_wiring_fini(&w);
    check_messages(p, CCL_GRANULARITY_STAGE, "0>3 1>4 2>5 3>6 5>7 ", true);
    ccl_program_destroy(p);
    /* Stages sent in one order and received in the other meet at stage level as they should. */
    static const row_step_t crossed[] = {{0, CCL_PRIM_S, 1, {0}},
                                         {0, CCL_PRIM_S, 0, {0}},
                                         {1, CCL_PRIM_R, 0, {0}},
                                         {1, CCL_PRIM_R, 1, {0}}};
    p = program(chain, 2, crossed, 4);
    check_messages(p, CCL_GRANULARITY_STAGE, "0>3 1>2 ", true);
    check_messages(p, CCL_GRANULARITY_ALGORITHM, "0>2 1>3 ", true);
    ccl_program_destroy(p);
}
END_TEST

START_TEST(steps_have_connections) {
    static const row_block_t blocks[] = {
        {0, CCL_NONE, CCL_NONE, 0}, {1, CCL_NONE, 0, 0}, {2, CCL_NONE, 0, 1}};
    static const row_step_t steps[] = {
        {0, CCL_PRIM_S, 0, {1, CCL_NONE, 0}},
        {0, CCL_PRIM_S, 0, {2, CCL_NONE, 1}},
        {0, CCL_PRIM_S, 0, {1, CCL_NONE, 0}},
        {1, CCL_PRIM_R, 0, {0}},
        {1, CCL_PRIM_R, 0, {0}},
        {2, CCL_PRIM_R, 0, {0}},
    };
    ccl_program_t *p = program(blocks, 3, steps, 6);
    ccl_wiring_t w;
    ccl_error_t err = CCL_ERROR_INIT;
    check_ok(ccl_wiring_init(p, CCL_GRANULARITY_TASK, &w, &err), &err);
    ck_assert_uint_eq(w.nconns, 2);
    ck_assert_ptr_nonnull(w.step_conns);
    ck_assert_uint_eq(ccl_wiring_send(&w, 0, 0), ccl_wiring_send(&w, 0, 2));
    ck_assert_uint_ne(ccl_wiring_send(&w, 0, 0), ccl_wiring_send(&w, 0, 1));
    ck_assert_uint_eq(ccl_wiring_recv(&w, 2, 5), ccl_wiring_send(&w, 0, 1));
    ck_assert_uint_eq(w.step_conns[1], CCL_NONE);
    ccl_wiring_fini(&w);
    check_messages(p, CCL_GRANULARITY_TASK, "0>3 1>5 2>4 ", true);
    ccl_program_destroy(p);
}
END_TEST

START_TEST(what_does_not_meet) {
    static const row_step_t lone_send[] = {
        {0, CCL_PRIM_S, 0, {0}}, {0, CCL_PRIM_S, 0, {0}}, {1, CCL_PRIM_R, 0, {0}}};
    static const row_step_t lone_receive[] = {
        {0, CCL_PRIM_S, 0, {0}}, {1, CCL_PRIM_R, 0, {0}}, {1, CCL_PRIM_R, 0, {0}}};
    ccl_program_t *p = program(chain, 2, lone_send, 3);
    check_messages(p, CCL_GRANULARITY_ALGORITHM, "0>2 ", false);
    ccl_program_destroy(p);
    p = program(chain, 2, lone_receive, 3);
    check_messages(p, CCL_GRANULARITY_ALGORITHM, "0>1 ", false);
    ccl_program_destroy(p);
}
END_TEST

START_TEST(refused) {
    static const row_block_t twins[] = {
        {0, 1, CCL_NONE, 0}, {0, 1, CCL_NONE, 0}, {1, CCL_NONE, 0, 0}};
    static const row_step_t steps[] = {
        {0, CCL_PRIM_S, 0, {0}}, {1, CCL_PRIM_S, 0, {0}}, {2, CCL_PRIM_R, 0, {0}}};
    static const struct {
        uint32_t peer; /* of rank 0's first block, behind the builder's back */
        const char *text;
    } rows[] = {{1, "rank 0 blocks 0 and 1 send on the same connection (to 1, channel 0)"},
                {0, "rank 0 block 0: send peer 0 is itself"},
                {3, "rank 0 block 0: send peer 3 is no rank"},
                {CCL_NONE, "rank 0 block 0 sends but has no send peer"}};
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_program_t *p = program(twins, 3, steps, 3);
        ccl_error_t err = CCL_ERROR_INIT;
        ccl_wiring_t w;
        p->tbs[0].send_peer = rows[i].peer;
        ck_assert_int_eq(ccl_wiring_init(p, CCL_GRANULARITY_ALGORITHM, &w, &err), CCL_ERR_INPUT);
        ck_assert_str_eq(err.text, rows[i].text);
        ck_assert_ptr_null(w.units);
        ccl_program_destroy(p);
    }
}
END_TEST

/* "m0@1:0>1,0>2 r0@0:1>0": the switch connections, their single GPUs' units and their FIFOs. */
static void check_switches(const ccl_wiring_t *w, const char *want) {
    char text[200] = "";
    for (uint32_t i = 0; i < w->nswitches; i++) {
        const ccl_wiring_switch_t *s = &w->switches[i];
        size_t len = strlen(text);
        snprintf(text + len, sizeof text - len, "%s%u@%u.%u:", s->reduces ? "r" : "m", s->single,
                 s->unit, s->stage);
        uint32_t end = i + 1 < w->nswitches ? w->switches[i + 1].first : w->nmembers;
        for (uint32_t k = s->first; k < end; k++) {
            const ccl_wiring_conn_t *c = &w->conns[w->members[k]];
            len = strlen(text);
            snprintf(text + len, sizeof text - len, "%u>%u ", c->src, c->dst);
            ck_assert_uint_eq(c->in_switch, i);
            ck_assert_uint_eq(c->kind, s->reduces ? CCL_WIRING_REDUCING : CCL_WIRING_MULTICAST);
            ck_assert_uint_eq(s->reduces ? c->receiver : c->sender, s->unit);
            uint32_t member = s->reduces ? c->sender : c->receiver;
            ck_assert_uint_ne(member, CCL_NONE);
            ck_assert_uint_eq(s->reduces ? w->units[member].send : w->units[member].recv,
                              w->members[k]);
        }
    }
    ck_assert_str_eq(text, want);
}

enum { GROUP = CCL_PEER_GROUP, ALL = CCL_PEER_GROUP | 1, TO_0 = CCL_PEER_MEMBER };
static const row_block_t switched[] = {{0, GROUP, ALL, 0},
                                       {0, TO_0, CCL_NONE, 0},
                                       {1, TO_0, CCL_NONE, 0},
                                       {1, CCL_NONE, TO_0, 0},
                                       {2, TO_0, TO_0, 0}};
static const row_step_t switched_steps[] = {
    {0, CCL_PRIM_RCS, 1, {0}}, {0, CCL_PRIM_RCS, 0, {0}}, {1, CCL_PRIM_S, 1, {0}},
    {1, CCL_PRIM_S, 0, {0}},   {2, CCL_PRIM_S, 1, {0}},   {2, CCL_PRIM_S, 0, {0}},
    {3, CCL_PRIM_R, 1, {0}},   {3, CCL_PRIM_R, 0, {0}},   {4, CCL_PRIM_S, 1, {0}},
    {4, CCL_PRIM_S, 0, {0}},   {4, CCL_PRIM_R, 1, {0}},   {4, CCL_PRIM_R, 0, {0}}};

/* Rank 0 pulls from all, itself too, and multicasts to the others. */
START_TEST(switch_connections) {
    ccl_program_t *p = program(switched, 5, switched_steps, 12);
    ccl_wiring_t w;
    ccl_error_t err = CCL_ERROR_INIT;
    check_ok(ccl_wiring_init(p, CCL_GRANULARITY_ALGORITHM, &w, &err), &err);
    ck_assert(ccl_wiring_is_switch(w.units[0].send) && ccl_wiring_is_switch(w.units[0].recv));
    ck_assert(!ccl_wiring_is_switch(w.units[1].send) && !ccl_wiring_is_switch(CCL_NONE));
    check_switches(&w, "m0@0.0:0>1 0>2 r0@0.0:0>0 1>0 2>0 ");
    ccl_wiring_fini(&w);
    check_ok(ccl_wiring_init(p, CCL_GRANULARITY_STAGE, &w, &err), &err);
    ck_assert_uint_eq(w.nunits, 10);
    ck_assert_uint_eq(w.nswitches, 4); /* each stage has its own */
    check_switches(&w, "m0@0.0:0>1 0>2 m0@1.1:0>1 0>2 r0@0.0:0>0 1>0 2>0 r0@1.1:0>0 1>0 2>0 ");
    ccl_wiring_fini(&w);
    ccl_program_destroy(p);
}
END_TEST

START_TEST(switch_messages) {
    uint32_t receiver[12], sender[12];
    for (uint32_t left_out = 0; left_out < 3; left_out++) { /* nothing, an offer, a take */
        ccl_program_t *p = program(switched, 5, switched_steps, 12);
        ccl_wiring_t w;
        ccl_error_t err = CCL_ERROR_INIT;
        bool whole;
        if (left_out)
            p->steps[left_out == 1 ? 5 : 11].type = CCL_PRIM_NOP;
        check_ok(ccl_wiring_init(p, CCL_GRANULARITY_ALGORITHM, &w, &err), &err);
        check_ok(ccl_wiring_match(&w, p, receiver, sender, &whole, &err), &err);
        ck_assert(whole == (left_out == 0));
        ck_assert_uint_eq(receiver[0], CCL_NONE); /* it meets several */
        ck_assert_uint_eq(sender[0], CCL_NONE);
        ck_assert_uint_eq(receiver[2], 0); /* an offer goes to a pull, a take has a multicast */
        ck_assert_uint_eq(receiver[3], 1);
        ck_assert_uint_eq(sender[6], 0);
        ck_assert_uint_eq(sender[7], 1);
        ccl_wiring_fini(&w);
        ccl_program_destroy(p);
    }
}
END_TEST

/* A block whose steps each have connections of their own: two multicasts and an offer. */
START_TEST(switched_steps_of_a_shared_block) {
    static const row_block_t blocks[] = {{0, CCL_NONE, CCL_NONE, 0}, {0, CCL_NONE, ALL, 1},
                                         {1, CCL_NONE, TO_0, 0},     {1, TO_0, CCL_NONE, 1},
                                         {2, TO_0, TO_0, 0},         {2, TO_0, CCL_NONE, 1}};
    static const row_step_t steps[] = {{0, CCL_PRIM_S, 0, {GROUP, CCL_NONE, 0}},
                                       {0, CCL_PRIM_S, 0, {TO_0, CCL_NONE, 1}},
                                       {1, CCL_PRIM_R, 0, {0}},
                                       {2, CCL_PRIM_R, 0, {0}},
                                       {3, CCL_PRIM_S, 0, {0}},
                                       {4, CCL_PRIM_R, 0, {0}},
                                       {5, CCL_PRIM_S, 0, {0}}};
    ccl_program_t *p = program(blocks, 6, steps, 7);
    ccl_wiring_t w;
    ccl_error_t err = CCL_ERROR_INIT;
    check_ok(ccl_wiring_init(p, CCL_GRANULARITY_ALGORITHM, &w, &err), &err);
    ck_assert_uint_eq(w.nswitches, 2);
    ck_assert_uint_eq(ccl_wiring_send(&w, 0, 0), CCL_WIRING_SWITCH);
    ck_assert(!ccl_wiring_is_switch(ccl_wiring_send(&w, 0, 1)));
    ck_assert_uint_eq(w.conns[ccl_wiring_send(&w, 0, 1)].dst, 0);
    ck_assert_uint_eq(ccl_wiring_recv(&w, 1, 2), CCL_WIRING_SWITCH | 1);
    ck_assert_uint_eq(w.switches[1].channel, 1);
    ck_assert_uint_eq(w.switches[1].group, 1);
    ccl_wiring_fini(&w);
    ccl_program_destroy(p);
}
END_TEST

START_TEST(switches_refused) {
    static const struct {
        uint32_t block, send, recv;
        const char *text;
    } rows[] = {
        {2, TO_0 | 2, CCL_NONE,
         "rank 1 offers to rank 2 on channel 0, which pulls from no group there that has it"},
        {3, CCL_NONE, TO_0 | 1,
         "rank 1 takes the multicast of rank 1 on channel 0, which multicasts to no group there "
         "that has it"},
        {1, ALL, CCL_NONE, "rank 0 blocks 0 and 1 send on the same connection (to 1, channel 0)"},
        {1, TO_0 | 3, CCL_NONE, "rank 0 block 1: send peer 3 is no rank"},
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_program_t *p = program(switched, 5, switched_steps, 12);
        ccl_error_t err = CCL_ERROR_INIT;
        ccl_wiring_t w;
        p->tbs[rows[i].block].send_peer = rows[i].send;
        p->tbs[rows[i].block].recv_peer = rows[i].recv;
        ck_assert_int_eq(ccl_wiring_init(p, CCL_GRANULARITY_ALGORITHM, &w, &err), CCL_ERR_INPUT);
        ck_assert_str_eq(err.text, rows[i].text);
        ck_assert_ptr_null(w.units);
        ccl_program_destroy(p);
    }
}
END_TEST

SUITE_MAIN("wiring", blocks_are_units, stages_are_units, steps_have_connections, what_does_not_meet,
           refused, switch_connections, switch_messages, switched_steps_of_a_shared_block,
           switches_refused)
