/* sccl: least steps and rounds where they are known, capacities kept, what is refused; rotations.
 */
#include "common.h"
#include "synth/exact/sccl.h"

/** Torus or mesh of w x h GPUs, 1 GB/s links, a second lane in x direction when `fast`. */
static ccl_topology_t *grid(uint32_t w, uint32_t h, bool wrap, bool fast) {
    ccl_topology_builder_t *b = with_gpus("grid", w * h);
    for (uint32_t y = 0; y < h; y++)
        for (uint32_t x = 0; x < w; x++) {
            if (x + 1 < w || (wrap && w > 2))
                MUST(ccl_topology_builder_duplex(b, y * w + x, y * w + (x + 1) % w, "nvlink",
                                                 fast ? 2e9 : 1e9, 1e-6, fast ? 2 : 1, 0, e));
            if (y + 1 < h || (wrap && h > 2))
                add_duplex(b, y * w + x, (y + 1) % h * w + x, "nvlink", 1, 1);
        }
    return finish(b);
}

static ccl_status_t ask(const ccl_topology_t *topo, ccl_collective_kind_t kind, uint32_t steps,
                        uint32_t rounds, uint32_t chunks, ccl_schedule_t **out, ccl_error_t *err) {
    ccl_collective_t *want = collective(kind, topo->nranks, 0);
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    options.steps = steps;
    options.rounds = rounds;
    options.chunks = chunks;
    ccl_status_t status = ccl_synthesize(NULL, "sccl", topo, NULL, want, &options, out, err);
    ccl_collective_destroy(want);
    return status;
}

/** Chunks on the busiest connection in each step, summed. */
static uint32_t rounds_used(const ccl_schedule_t *s) {
    uint32_t n = s->coll->nranks, sum = 0;
    uint32_t *count = calloc((size_t)n * n, sizeof *count);
    for (uint32_t step = 0; step < s->nsteps; step++) {
        uint32_t most = 0;
        memset(count, 0, (size_t)n * n * sizeof *count);
        for (uint32_t i = 0; i < s->ntransfers; i++) {
            const ccl_transfer_t *t = &s->transfers[i];
            if (t->step == step && ++count[t->src * n + t->dst] > most)
                most = count[t->src * n + t->dst];
        }
        sum += most;
    }
    free(count);
    return sum;
}

typedef struct row {
    uint32_t w, h;
    bool wrap;
    ccl_collective_kind_t kind;
    uint32_t steps, rounds, chunks; /* asked; 0: left open */
    uint32_t want_steps, most_rounds;
} row_t;

static const row_t ROWS[] = {
    {4, 4, true, CCL_ALLGATHER, 0, 0, 0, 4, 4},  /* diameter 4, 15 chunks over 4 links */
    {4, 4, false, CCL_ALLGATHER, 8, 8, 1, 8, 8}, /* corners: 15 chunks over 2 links */
    {3, 1, false, CCL_ALLGATHER, 0, 0, 0, 2, 2},
    {4, 1, true, CCL_ALLGATHER, 2, 3, 2, 2, 3}, /* 6 chunks over 2 links; one step of two rounds */
    {2, 2, false, CCL_ALLTOALL, 0, 0, 0, 2, 2},
    {3, 3, true, CCL_BROADCAST, 0, 0, 1, 2, 2},
    {3, 2, false, CCL_SCATTER, 0, 0, 1, 3, 3},
    {4, 4, true, CCL_REDUCESCATTER, 0, 0, 0, 4, 4}, /* as its allgather */
    {3, 3, true, CCL_REDUCE, 0, 0, 1, 2, 2},
    {4, 1, true, CCL_ALLREDUCE, 2, 3, 2, 4, 6}, /* steps and rounds are each half's */
};

START_TEST(finds_the_least) {
    const row_t *row = &ROWS[_i];
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_schedule_t *s = NULL;
    ccl_topology_t *topo = grid(row->w, row->h, row->wrap, false);
    ccl_status_t status = ask(topo, row->kind, row->steps, row->rounds, row->chunks, &s, &err);
    ck_assert_msg(status == CCL_OK, "row %d: %s", _i, err.text);
    ck_assert_uint_eq(s->nsteps, row->want_steps);
    ck_assert_uint_le(rounds_used(s), row->most_rounds);
    ck_assert(!s->limited);
    if (row->chunks)
        ck_assert_uint_eq(s->coll->chunks_per_block,
                          row->chunks * (row->kind == CCL_ALLREDUCE ? topo->nranks : 1));
    ccl_schedule_destroy(s);
    ccl_topology_destroy(topo);
}
END_TEST

/** Along x two chunks a round: 7 chunks come into each of 8 GPUs over 2 + 2 + 1 at most. */
START_TEST(fast_links_carry_more) {
    ccl_topology_t *topo = grid(4, 2, true, true), *slow = grid(4, 2, true, false);
    ccl_schedule_t *s = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_msg(ask(topo, CCL_ALLGATHER, 3, 4, 2, &s, &err) == CCL_OK, "%s", err.text);
    ccl_schedule_destroy(s);
    s = NULL;
    ck_assert_int_eq(ask(slow, CCL_ALLGATHER, 3, 4, 2, &s, &err), CCL_INFEASIBLE);
    ck_assert_ptr_null(s);
    ccl_topology_destroy(slow);
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(refuses) {
    ccl_topology_t *topo = grid(4, 1, false, false);
    ccl_schedule_t *s = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_int_eq(ask(topo, CCL_ALLGATHER, 2, 0, 0, &s, &err), CCL_INFEASIBLE);
    ck_assert_msg(strstr(err.text, "needs 3 hops"), "%s", err.text);
    ccl_error_clear(&err);
    ck_assert_int_eq(ask(topo, CCL_ALLGATHER, 4, 4, 2, &s, &err), CCL_INFEASIBLE);
    ccl_error_clear(&err);
    ck_assert_int_eq(ask(topo, CCL_ALLGATHER, 4, 3, 1, &s, &err), CCL_ERR_USAGE);
    ccl_error_clear(&err);
    ck_assert_int_eq(ask(topo, CCL_REDUCESCATTER, 2, 0, 0, &s, &err), CCL_INFEASIBLE);
    ck_assert_ptr_null(s);
    static const char sums[] =
        "{\"format\":\"ccllab-demand-1\",\"nranks\":4,\"chunks\":[{\"source\":"
        "[0,1],\"destinations\":[3],\"reduced\":true,\"bytes\":8}]}";
    const ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_collective_t *want = NULL;
    ck_assert_int_eq(ccl_demand_read_text("sums", sums, sizeof sums - 1, &want, &err), CCL_OK);
    ccl_error_clear(&err);
    ck_assert_int_eq(ccl_synthesize(NULL, "sccl", topo, NULL, want, &options, &s, &err),
                     CCL_UNSUPPORTED);
    ck_assert_msg(strstr(err.text, "do not reduce"), "%s", err.text);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(limit) {
    ccl_topology_t *topo = grid(8, 4, false, true);
    ccl_collective_t *want = collective(CCL_ALLGATHER, topo->nranks, 0);
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_schedule_t *s = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    options.time_limit_s = 1e-3;
    ck_assert_int_eq(ccl_synthesize(NULL, "sccl", topo, NULL, want, &options, &s, &err),
                     CCL_TIMEOUT);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}
END_TEST

static ccl_i_rotation_t rotation_of(ccl_topology_t *topo, ccl_i_exchange_t *x) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_i_rotation_t rotation;
    ccl_routes_t *routes = ccl_routes_create(topo);
    ck_assert_msg(ccl_i_exchange_init(x, topo, routes, NULL, &err) == CCL_OK, "%s", err.text);
    ck_assert_int_eq(ccl_i_rotation_find(x, &rotation, &err), CCL_OK);
    ccl_routes_destroy(routes);
    return rotation;
}

START_TEST(rotations) {
    ccl_i_exchange_t x;
    ccl_topology_t *topo = grid(4, 4, true, false);
    ccl_i_rotation_t r = rotation_of(topo, &x);
    ck_assert_uint_ge(r.order, 4);
    ck_assert_uint_eq(16 % r.order, 0);
    for (uint32_t h = 0; h < x.nhops; h++) {
        const ccl_i_hop_t *a = &x.hops[h], *b = &x.hops[r.hop[h]];
        ck_assert(b->src == r.rank[a->src] && b->dst == r.rank[a->dst]);
        ck_assert_double_eq(a->link_Bps, b->link_Bps);
        ck_assert_uint_eq(x.uses[b->first_use].resource, r.resource[x.uses[a->first_use].resource]);
    }
    ccl_i_rotation_fini(&r);
    ccl_i_exchange_fini(&x);
    ccl_topology_destroy(topo);
    topo = grid(3, 3, false, false); /* the GPU in the middle stays where it is */
    r = rotation_of(topo, &x);
    ck_assert_uint_eq(r.order, 1);
    ccl_i_rotation_fini(&r);
    ccl_i_exchange_fini(&x);
    ccl_topology_destroy(topo);
    topo = topology("servers:2 gpus:4 nvswitch=300GB/s,1us nics:4x25GB/s,2us fabric=single");
    r = rotation_of(topo, &x);
    ck_assert_uint_gt(r.order, 1);
    ccl_i_rotation_fini(&r);
    ccl_i_exchange_fini(&x);
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("synth.sccl");
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 110);
    tcase_add_loop_test(all, finds_the_least, 0, (int)CCL_ARRAY_LEN(ROWS));
    tcase_add_test(all, fast_links_carry_more);
    tcase_add_test(all, refuses);
    tcase_add_test(all, limit);
    tcase_add_test(all, rotations);
    suite_add_tcase(suite, all);
    return run_suite(suite);
}
