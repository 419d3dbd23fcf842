/* milp: epochs and flows where the least is known, the limit, what is refused. */
#include "common.h"
#include "synth/exact/milp.h"

#include <math.h>

/** Ring of n GPUs, both ways, 1 GB/s and no latency; every second link twice as fast when `mixed`.
 */
static ccl_topology_t *ring(uint32_t n, bool mixed) {
    ccl_topology_builder_t *b = with_gpus("ring", n);
    for (uint32_t i = 0; i < n; i++)
        add_duplex(b, i, (i + 1) % n, "nvlink", mixed && i % 2 ? 2 : 1, 0);
    return finish(b);
}

static ccl_schedule_t *make(const ccl_topology_t *topo, ccl_collective_kind_t kind, double size,
                            double epoch_s, uint32_t chunks) {
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    options.size_bytes = size;
    options.epoch_s = epoch_s;
    options.chunks = chunks;
    options.time_limit_s = 60;
    return synthesized("milp", topo, kind, &options);
}

static double time_of(const ccl_topology_t *topo, const ccl_schedule_t *s, double size) {
    return timed_s(topo, s, size, (ccl_way_t){0});
}

typedef struct row {
    uint32_t n;
    bool mixed;
    ccl_collective_kind_t kind;
    double epoch_s; /* a chunk is 1 MB: 1 ms on a slow link; 0: its choice */
    uint32_t chunks, most_steps;
    double most_s;
} row_t;

static const row_t ROWS[] = {
    {4, false, CCL_ALLGATHER, 0, 1, 2, 2e-3},     /* 3 chunks over two links */
    {5, false, CCL_ALLGATHER, 0, 1, 2, 2e-3},     /* 4 over two */
    {4, true, CCL_ALLGATHER, 0, 1, 4, 2e-3},      /* 3 over 3 GB/s, but a slow link takes 1 ms */
    {4, true, CCL_ALLGATHER, 1e-3, 1, 2, 2e-3},   /* slow epochs: two chunks in one, 3 in two */
    {4, false, CCL_BROADCAST, 0, 2, 3, 1.5e-3},   /* two halves from the source, two hops */
    {4, false, CCL_REDUCESCATTER, 0, 1, 2, 2e-3}, /* as the allgather, turned round */
    {4, true, CCL_REDUCESCATTER, 0, 1, 4, 2e-3},  {4, false, CCL_REDUCE, 0, 2, 3, 1.5e-3},
    {4, false, CCL_ALLREDUCE, 0, 1, 4, 4e-3}, /* both */
};

START_TEST(fewest_epochs) {
    const row_t *row = &ROWS[_i];
    ccl_topology_t *topo = ring(row->n, row->mixed);
    bool whole = row->kind == CCL_BROADCAST || row->kind == CCL_REDUCE;
    double size = 1e6 * (whole ? 1 : row->n * row->chunks);
    ccl_schedule_t *s = make(topo, row->kind, size, row->epoch_s, row->chunks);
    ck_assert_uint_le(s->nsteps, row->most_steps);
    ck_assert(!s->limited);
    double time_s = time_of(topo, s, size);
    ck_assert_msg(time_s <= row->most_s * (1 + 1e-9), "row %d: %g s", _i, time_s);
    ccl_schedule_destroy(s);
    ccl_topology_destroy(topo);
}
END_TEST

/** Who adds up: half of the chunks in the server of one GPU, or a chunk at each. */
START_TEST(roots) {
    ccl_topology_t *topo = topology("servers:1 gpus:1 nics:2x20GB/s,2us + servers:1 gpus:3 "
                                    "nvswitch=400GB/s,1us nics:2x20GB/s,2us fabric=single");
    for (int uniform = 0; uniform < 2; uniform++) {
        ccl_collective_t *want = collective(CCL_ALLREDUCE, 4, 0);
        ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
        ccl_schedule_t *s = NULL;
        ccl_error_t err = CCL_ERROR_INIT;
        uint32_t in_small = 0;
        options.uniform_roots = uniform;
        options.time_limit_s = 2;
        options.size_bytes = 4e6;
        ck_assert_msg(ccl_synthesize(NULL, "milp", topo, NULL, want, &options, &s, &err) == CCL_OK,
                      "%s", err.text);
        for (uint32_t k = 0; k < s->coll->nchunks; k++) {
            uint32_t root = CCL_NONE; /* the last to add: transfers are by step */
            for (uint32_t i = 0; i < s->ntransfers; i++)
                if (s->transfers[i].chunk == k && s->transfers[i].reduce)
                    root = s->transfers[i].dst;
            in_small += root == 0;
        }
        ck_assert_uint_eq(in_small, uniform ? 1 : 2);
        ccl_schedule_destroy(s);
        ccl_collective_destroy(want);
    }
    ccl_topology_destroy(topo);
}
END_TEST

/**
 * AllToAll on a ring of 4: each GPU sends 1 MB to each neighbour and half of 1 MB each way to the
 * GPU opposite, which its neighbours pass on: 1 + 1/2 + 1/2 over each link.
 */
START_TEST(flows) {
    ccl_topology_t *topo = ring(4, false);
    ccl_schedule_t *s = make(topo, CCL_ALLTOALL, 4e6, 0, 2);
    uint32_t count[4][4] = {{0}};
    for (uint32_t i = 0; i < s->ntransfers; i++)
        count[s->transfers[i].src][s->transfers[i].dst]++;
    for (uint32_t i = 0; i < 4; i++)
        for (uint32_t j = 0; j < 4; j++)
            ck_assert_uint_eq(count[i][j], (i + j) % 2 ? 4 : 0); /* halves */
    /* Who passes on may wait for a part; with more parts the links are busy all the time. */
    ck_assert_double_le(time_of(topo, s, 4e6), 2.5e-3 * 1.001);
    ccl_schedule_destroy(s);
    s = make(topo, CCL_ALLTOALL, 4e6, 0, 12);
    ck_assert_double_le(time_of(topo, s, 4e6), 2.1e-3);
    ccl_schedule_destroy(s);
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(flow_time_is_least) {
    ccl_topology_t *topo = ring(6, false);
    ccl_routes_t *routes = ccl_routes_create(topo);
    ccl_collective_t *want = collective(CCL_ALLTOALL, 6, 0);
    ccl_i_exchange_t x;
    ccl_i_glpk_answer_t answer = CCL_I_GLPK_UNKNOWN;
    ccl_i_milp_send_t *sends = NULL;
    size_t nsends = 0;
    ck_assert_int_eq(ccl_i_exchange_init(&x, topo, routes, NULL, NULL), CCL_OK);
    /* Hops of a GPU's chunks: 1 + 2 + 3 + 2 + 1 = 9 over 2 links out of each of 6 GPUs. */
    double *flow = calloc(6 * (size_t)x.nhops, sizeof *flow);
    ck_assert_int_eq(ccl_i_milp_flows(&x, want, flow, &answer, NULL), CCL_OK);
    ck_assert_int_eq(answer, CCL_I_GLPK_FOUND);
    for (uint32_t h = 0; h < x.nhops; h++) {
        double load = 0;
        for (uint32_t src = 0; src < 6; src++)
            load += flow[src * x.nhops + h];
        ck_assert_double_eq_tol(load, 4.5, 1e-6);
    }
    ck_assert_int_eq(ccl_i_milp_paths(&x, want, flow, 2, &sends, &nsends, NULL), CCL_OK);
    ck_assert_uint_eq(nsends, 6 * 9 * 2);
    free(sends);
    free(flow);
    ccl_i_exchange_fini(&x);
    ccl_collective_destroy(want);
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(limited_and_refused) {
    ccl_topology_t *topo =
        topology("servers:4 gpus:8 nvswitch=300GB/s,1us nics:4x25GB/s,2us fabric=single");
    ccl_collective_t *want = collective(CCL_ALLGATHER, topo->nranks, 0);
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_schedule_t *s = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    options.time_limit_s = 3;
    ccl_status_t status = ccl_synthesize(NULL, "milp", topo, NULL, want, &options, &s, &err);
    ck_assert_msg(status == CCL_OK || status == CCL_TIMEOUT, "%s", err.text);
    ck_assert(!s || s->limited); /* 32 GPUs are beyond it, a plan to start from is not */
    ccl_schedule_destroy(s);
    s = NULL;
    ccl_error_clear(&err);
    options.epoch_s = 1e-12;
    ck_assert_int_eq(ccl_synthesize(NULL, "milp", topo, NULL, want, &options, &s, &err),
                     CCL_ERR_USAGE);
    ck_assert_msg(strstr(err.text, "too short"), "%s", err.text);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
    topo = topology("servers:9 gpus:8 nvswitch=300GB/s,1us nics:4x25GB/s,2us");
    want = collective(CCL_REDUCESCATTER, topo->nranks, 0);
    ccl_error_clear(&err);
    ck_assert_int_eq(ccl_synthesize(NULL, "milp", topo, NULL, want, &options, &s, &err),
                     CCL_UNSUPPORTED);
    ck_assert_msg(strstr(err.text, "2 to 64 GPUs"), "%s", err.text);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("synth.milp");
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 110);
    tcase_add_loop_test(all, fewest_epochs, 0, (int)CCL_ARRAY_LEN(ROWS));
    tcase_add_test(all, roots);
    tcase_add_test(all, flows);
    tcase_add_test(all, flow_time_is_least);
    tcase_add_test(all, limited_and_refused);
    suite_add_tcase(suite, all);
    return run_suite(suite);
}
