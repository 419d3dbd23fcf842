/* Plans between clusters for FlagCX: written, read back, and held to the schedule that they are of;
   what does not fit is refused, and each kind of damage is seen. */
#include <stdlib.h>
#include <string.h>

#include "synth/synth.h"
#include "tests/topologies/topologies.h"

typedef struct made {
    ccl_topology_t *topo;
    ccl_schedule_t *schedule;
    uint32_t *of;
    bool *borders;
    ccl_c2c_groups_t groups;
    ccl_c2c_plan_t **plans;
} made_t;

static void make(const char *cluster, ccl_collective_kind_t kind, const char *with, uint32_t root,
                 made_t *m) {
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_collective_t *want = NULL;
    ccl_routes_t *routes;
    ccl_error_t err = CCL_ERROR_INIT;
    uint32_t n, nclusters = 0;

    memset(m, 0, sizeof *m);
    options.size_bytes = 1e6;
    options.c2c.inner = "direct"; /* what is inside is not in plans */
    m->topo = topology(cluster);
    n = m->topo->nranks;
    routes = ccl_routes_create(m->topo);
    m->of = calloc(n, sizeof *m->of);
    m->borders = calloc(n, sizeof *m->borders);
    m->plans = calloc(n, sizeof *m->plans);
    ck_assert_msg(ccl_c2c_clusters(m->topo, 0, m->of, m->borders, &nclusters, &err) == CCL_OK, "%s",
                  err.text);
    m->groups = (ccl_c2c_groups_t){n, nclusters, m->of, m->borders};
    options.c2c.clusters = nclusters; /* no balanced ones, over whose borders more would go */
    ck_assert_int_eq(ccl_collective_create(kind, n, 1, root, &want, NULL), CCL_OK);
    ck_assert_msg(ccl_synthesize(NULL, with, m->topo, routes, want, &options, &m->schedule, &err) ==
                      CCL_OK,
                  "%s", err.text);
    ccl_collective_destroy(want);
    ccl_routes_destroy(routes);
}

static void fini(made_t *m) {
    for (uint32_t r = 0; r < m->groups.nranks; r++)
        ccl_c2c_plan_destroy(m->plans[r]);
    free(m->plans);
    free(m->borders);
    free(m->of);
    ccl_schedule_destroy(m->schedule);
    ccl_topology_destroy(m->topo);
}

/* Through XML and back, twice the same text. */
static void plans(made_t *m) {
    ccl_error_t err = CCL_ERROR_INIT;

    for (uint32_t r = 0; r < m->groups.nranks; r++) {
        ccl_c2c_plan_t *plan = NULL;
        ccl_text_t text = {0}, again = {0};

        ck_assert_msg(ccl_c2c_plan_create(m->schedule, &m->groups, r, &plan, &err) == CCL_OK, "%s",
                      err.text);
        ck_assert_int_eq(ccl_c2c_plan_write_xml(plan, &text, NULL), CCL_OK);
        ck_assert_msg(ccl_c2c_plan_read_xml("plan", text.data, text.len, r, &m->plans[r], &err) ==
                          CCL_OK,
                      "%d:%d: %s", err.line, err.column, err.text);
        ck_assert_int_eq(ccl_c2c_plan_write_xml(m->plans[r], &again, NULL), CCL_OK);
        ck_assert_str_eq(text.data, again.data);
        ccl_text_fini(&text);
        ccl_text_fini(&again);
        ccl_c2c_plan_destroy(plan);
    }
}

static ccl_status_t verify(const made_t *m, ccl_error_t *err) {
    ccl_error_clear(err);
    return ccl_c2c_plans_verify(m->schedule, &m->groups, (const ccl_c2c_plan_t *const *)m->plans,
                                err);
}

START_TEST(test_round_trip) {
    static const struct {
        const char *cluster, *with;
        ccl_collective_kind_t kind;
        uint32_t root, pipe_pre, pipe_post;
    } rows[] = {
        {"hetccl-snu", "c2c", CCL_ALLGATHER, 0, 1, 0}, /* all ranks share their server's NIC */
        {"hetccl-snu", "c2c", CCL_BROADCAST, 5, 0, 0},
        {"hetccl-pku-hw2+hw3", "c2c", CCL_ALLGATHER, 0, 1, 0}, /* a NIC per rank */
        {"hetccl-pku-a800+hw1", "c2c", CCL_ALLGATHER, 0, 0, 0},
        {"hetccl-pku-a800+hw1", "c2c-sequential", CCL_BROADCAST, 9, 0, 0},
        {"hetccl-pku", "c2c", CCL_BROADCAST, 40, 0, 2}, /* a ring of four clusters */
        {"hetccl-snu", "c2c", CCL_ALLREDUCE, 0, 0, 1},
        {"hetccl-snu", "c2c-sequential", CCL_REDUCESCATTER, 0, 0, 0},
        {"hetccl-snu", "c2c", CCL_REDUCE, 11, 0, 0},
        {"hetccl-pku-a800+hw1", "c2c", CCL_REDUCESCATTER, 0, 0, 0}, /* of unlike size */
        {"hetccl-pku-hw2+hw3", "c2c", CCL_ALLREDUCE, 0, 0, 1},
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_error_t err = CCL_ERROR_INIT;
        made_t m;

        make(rows[i].cluster, rows[i].kind, rows[i].with, rows[i].root, &m);
        plans(&m);
        ck_assert_uint_eq(m.plans[0]->pipe_pre, rows[i].pipe_pre);
        ck_assert_uint_eq(m.plans[0]->pipe_post, rows[i].pipe_post);
        ck_assert_msg(verify(&m, &err) == CCL_OK, "%s %s: %s", rows[i].cluster, rows[i].with,
                      err.text);
        fini(&m);
    }
}
END_TEST

/* The verifier sees what it is there for. */
START_TEST(test_damage) {
    ccl_error_t err = CCL_ERROR_INIT;
    uint32_t r = 0;
    made_t m;

    make("hetccl-pku-a800+hw1", CCL_ALLGATHER, "c2c", 0, &m);
    plans(&m);
    while (m.plans[r]->nmessages == 0)
        r++;
    ccl_c2c_plan_t *p = m.plans[r];
    ccl_c2c_message_t kept = p->messages[0];
    p->messages[0].count++;
    ck_assert_int_eq(verify(&m, &err), CCL_CHECK);
    p->messages[0] = kept;
    p->messages[0].offset += 1;
    ck_assert_int_eq(verify(&m, &err), CCL_CHECK);
    p->messages[0] = kept;
    p->nmessages--;
    ck_assert_int_eq(verify(&m, &err), CCL_CHECK);
    p->nmessages++;
    for (uint32_t q = 0; q < m.groups.nranks; q++)
        m.plans[q]->npost = 0;
    ck_assert_int_eq(verify(&m, &err), CCL_CHECK);
    ck_assert_ptr_nonnull(strstr(err.text, "ends without chunk"));
    fini(&m);
}
END_TEST

static void wrong(const made_t *m, const char *text) {
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_int_eq(verify(m, &err), CCL_CHECK);
    ck_assert_msg(strstr(err.text, text), "%s, not: %s", err.text, text);
}

/* Sums: what is added twice, or from where nothing is, or is not the schedule's. */
static void damage_sums(ccl_collective_kind_t kind) {
    made_t m;
    make("hetccl-snu", kind, "c2c", 0, &m);
    plans(&m);
    for (uint32_t r = 0; r < m.groups.nranks; r++)
        m.plans[r]->refresh.op = CCL_C2C_NO_OP; /* what else lies there is added */
    wrong(&m, "adds chunk 0, of which it has nothing");
    for (uint32_t r = 0; r < m.groups.nranks; r++)
        m.plans[r]->refresh.op = CCL_C2C_SUM;
    ccl_c2c_refresh_t kept = m.plans[0]->refresh;
    m.plans[0]->refresh.count = 0; /* rank 0 loses the sum that it keeps */
    wrong(&m, "of 16 ranks' data in chunk");
    m.plans[0]->refresh = kept;
    for (uint32_t r = 0; r < 8; r++)
        m.plans[r]->inter[0].send_buf = 0; /* inputs once more */
    wrong(&m, "of 16 ranks' data in chunk");
    for (uint32_t r = 0; r < 8; r++)
        m.plans[r]->inter[0].send_buf = kind == CCL_REDUCESCATTER ? 2 : 1;
    uint32_t s = 8;
    while (m.plans[s]->nmessages == 0)
        s++;
    m.plans[s]->messages[0].offset++;
    wrong(&m, "is not met");
    m.plans[s]->messages[0].offset--;
    for (uint32_t r = 8; r < 16; r++)
        m.plans[r]->pre[0].op = CCL_C2C_BROADCAST; /* one rank's data instead of the sum */
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_int_eq(verify(&m, &err), CCL_CHECK);
    for (uint32_t r = 8; r < 16; r++)
        m.plans[r]->pre[0].op = CCL_C2C_REDUCE;
    ck_assert_msg(verify(&m, &err) == CCL_OK, "%s", err.text);
    fini(&m);
}

START_TEST(test_damaged_sums) {
    damage_sums(CCL_ALLREDUCE);
    damage_sums(CCL_REDUCESCATTER);
    damage_sums(CCL_REDUCE);
}
END_TEST

/** Whether the schedule sends the chunk to the rank from another cluster. */
static bool crosses(const made_t *m, uint32_t rank, uint32_t chunk) {
    for (uint32_t i = 0; i < m->schedule->ntransfers; i++) {
        const ccl_transfer_t *t = &m->schedule->transfers[i];
        if (t->dst == rank && t->chunk == chunk && m->of[t->src] != m->of[rank])
            return true;
    }
    return false;
}

/* A schedule that sends less across borders than its plans, or to someone else. */
START_TEST(test_other_borders) {
    static const ccl_collective_kind_t kinds[] = {CCL_ALLGATHER, CCL_ALLREDUCE};
    uint32_t i = 0, other = 0;
    made_t m;

    make("hetccl-snu", kinds[_i], "c2c", 0, &m);
    plans(&m);
    while (m.of[m.schedule->transfers[i].src] == m.of[m.schedule->transfers[i].dst])
        i++;
    ccl_transfer_t *t = &m.schedule->transfers[i], kept = *t;
    t->src = t->dst;
    wrong(&m, "cross borders in the plans");
    *t = kept;
    while (m.of[other] != m.of[t->dst] || crosses(&m, other, t->chunk))
        ck_assert_uint_lt(++other, m.groups.nranks);
    t->dst = other;
    wrong(&m, "the plans do not");
    *t = kept;
    fini(&m);
}
END_TEST

START_TEST(test_refused) {
    ccl_c2c_plan_t *plan = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    made_t m;

    make("hetccl-snu", CCL_GATHER, "c2c", 0, &m);
    ck_assert_int_eq(ccl_c2c_plan_create(m.schedule, &m.groups, 0, &plan, &err), CCL_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.text, "reduce and reducescatter, not of gather"));
    fini(&m);
    ccl_error_clear(&err);
    make("hetccl-snu", CCL_REDUCE, "direct", 0, &m); /* the root adds what comes from there */
    ck_assert_int_eq(ccl_c2c_plan_create(m.schedule, &m.groups, 0, &plan, &err), CCL_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.text, "adds what it receives from another cluster itself"));
    fini(&m);
    ccl_error_clear(&err);
    make("hetccl-pku", CCL_REDUCE, "c2c", 0, &m);
    ck_assert_int_eq(ccl_c2c_plan_create(m.schedule, &m.groups, 0, &plan, &err), CCL_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.text, "for two clusters, here are 4"));
    fini(&m);
    ccl_error_clear(&err);
    make("hetccl-snu", CCL_ALLGATHER, "direct", 0, &m); /* chunks enter a cluster eight times */
    ck_assert_int_eq(ccl_c2c_plan_create(m.schedule, &m.groups, 0, &plan, &err), CCL_UNSUPPORTED);
    ck_assert_ptr_null(plan);
    fini(&m);
}
END_TEST

#define HEAD                                                                                       \
    "<FlagcxC2cPlanner>\n<nChunks>4</nChunks>\n<nSeqPreSteps>0</nSeqPreSteps>\n"                   \
    "<nPipePreSteps>0</nPipePreSteps>\n<nSeqInterSteps>1</nSeqInterSteps>\n"                       \
    "<nPipePostSteps>0</nPipePostSteps>\n<nSeqPostSteps>0</nSeqPostSteps>\n"
#define TAIL                                                                                       \
    "<HomoInterFuncSteps><Step/></HomoInterFuncSteps>\n<PostHomoFuncSteps/>\n</FlagcxC2cPlanner>"
#define OP(rank_, peer_, recv_)                                                                    \
    "<P2pOp><rank>" rank_ "</rank><peerRank>" peer_ "</peerRank><offset>0</offset>"                \
    "<count>1</count><isRecv>" recv_ "</isRecv></P2pOp>"
#define ONE(inner_)                                                                                \
    HEAD "<PreHomoFuncSteps/>\n<HeteroFuncSteps><Step><HeteroFunc>" inner_                         \
         "</HeteroFunc></Step></HeteroFuncSteps>\n" TAIL

START_TEST(test_bad_files) {
    static const struct {
        const char *text;
        int line;
        const char *part;
    } rows[] = {
        {"<plan/>", 1, "<FlagcxC2cPlanner> is wanted"},
        {"<FlagcxC2cPlanner>", 1, "not well-formed"},
        {"<FlagcxC2cPlanner>\n<nChunks>x</nChunks></FlagcxC2cPlanner>", 2, "a whole number"},
        {"<FlagcxC2cPlanner>\n<nChunks>1</nChunks><nChunks>1</nChunks></FlagcxC2cPlanner>", 2,
         "twice"},
        {"<FlagcxC2cPlanner>\n<nChunks>1</nChunks></FlagcxC2cPlanner>", 2, "lacks <nSeqPreSteps>"},
        {"<FlagcxC2cPlanner>\n<Step/></FlagcxC2cPlanner>", 2, "has no place in"},
        {HEAD "<PreHomoFuncSteps/>\n<HeteroFuncSteps/>\n" TAIL, 1, "has 0 steps"},
        {ONE(OP("3", "1", "0")), 9, "in the plan of rank 2"},
        {ONE(OP("2", "1", "2")), 9, "0 or 1"},
        {ONE("<P2pOp><rank>2</rank></P2pOp>"), 9, "lacks <peerRank>"},
        {ONE("<P2pOp><rank>2<x/></rank></P2pOp>"), 9, "inside a number"},
        {ONE("stray"), 9, "text between"},
        {"<!DOCTYPE a [<!ENTITY b 'c'>]>\n<FlagcxC2cPlanner/>", 1, "no document type"},
    };
    ccl_c2c_plan_t *plan = NULL;
    ccl_error_t err = CCL_ERROR_INIT;

    ck_assert_msg(ccl_c2c_plan_read_xml("f", ONE(OP("2", "1", "0")), strlen(ONE(OP("2", "1", "0"))),
                                        2, &plan, &err) == CCL_OK,
                  "%s", err.text);
    ck_assert_uint_eq(plan->nmessages, 1);
    ck_assert_uint_eq(plan->messages[0].peer, 1);
    ccl_c2c_plan_destroy(plan);
    plan = NULL;
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_error_clear(&err);
        ck_assert_int_eq(
            ccl_c2c_plan_read_xml("f", rows[i].text, strlen(rows[i].text), 2, &plan, &err),
            CCL_ERR_INPUT);
        ck_assert_msg(strstr(err.text, rows[i].part) && err.line == rows[i].line,
                      "row %zu, line %d: \"%s\", not \"%s\"", i, err.line, err.text, rows[i].part);
        ck_assert_ptr_null(plan);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("unit.synth.c2c_plan");
    TCase *tcase = tcase_create("plans");
    tcase_add_test(tcase, test_round_trip);
    tcase_add_test(tcase, test_damage);
    tcase_add_test(tcase, test_damaged_sums);
    tcase_add_loop_test(tcase, test_other_borders, 0, 2);
    tcase_add_test(tcase, test_refused);
    tcase_add_test(tcase, test_bad_files);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
