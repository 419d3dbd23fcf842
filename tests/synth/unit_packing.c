/* What packing stands on: hops, symmetries that move every GPU, and the bound by prices. */
#include <math.h>

#include "common.h"
#include "synth/packing/packing.h"

typedef struct fixture {
    ccl_topology_t *topo;
    ccl_routes_t *routes;
    ccl_capacity_t *capacity;
    ccl_i_cluster_t cluster;
    ccl_i_pack_hops_t hops;
} fixture_t;

static void open_edited(fixture_t *f, const char *spec, const char *edit, uint32_t spread) {
    ccl_error_t err = CCL_ERROR_INIT;
    f->topo = topology(spec);
    if (edit) {
        ccl_topology_t *whole = f->topo;
        ck_assert_msg(ccl_topology_edit(whole, edit, &f->topo, &err) == CCL_OK, "%s: %s", edit,
                      err.text);
        ccl_topology_destroy(whole);
    }
    f->routes = ccl_routes_create(f->topo);
    ck_assert_int_eq(ccl_i_cluster_init(&f->cluster, f->topo, f->routes, &err), CCL_OK);
    ck_assert_int_eq(ccl_capacity_create(f->topo, &f->capacity, &err), CCL_OK);
    ck_assert_msg(ccl_i_pack_hops_init(NULL, &f->cluster, f->capacity, true, spread, &f->hops,
                                       &err) == CCL_OK,
                  "%s: %s", spec, err.text);
}

static void open_fixture(fixture_t *f, const char *spec, uint32_t spread) {
    open_edited(f, spec, NULL, spread);
}

static void close_fixture(fixture_t *f) {
    ccl_i_pack_hops_fini(&f->hops);
    ccl_capacity_destroy(f->capacity);
    ccl_i_cluster_fini(&f->cluster);
    ccl_routes_destroy(f->routes);
    ccl_topology_destroy(f->topo);
}

START_TEST(symmetries) {
    static const struct {
        const char *spec;
        uint32_t order, spread;
        const char *why;
    } rows[] = {
        {"servers:1 gpus:8 nvswitch=300GB/s", 8, 0, "round the switch"},
        {"servers:3 gpus:4 nvswitch=300GB/s nics:2x25GB/s", 12, 0, "servers, and NICs with GPUs"},
        {"servers:4 gpus:4 nvswitch=100GB/s nics:4x25GB/s fabric=rail", 16, 0, "rails too"},
        {"servers:8 gpus:8 nvswitch=100GB/s nics:8x25GB/s fabric=rail", 64, 8, "few hops kept"},
        {"heteccl-h20-4+8", 1, 0, "4 and 8 GPUs: no turn of both leaves none where it was"},
        {"heteccl-h20-4x8+8x4", 4, 0, "servers of 4 and of 8 go round, GPUs in them do not"},
        {"dgx1-v100", 4, 0, "a hybrid cube mesh, half of whose symmetries keep the routes"},
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        fixture_t f;
        open_fixture(&f, rows[i].spec, rows[i].spread);
        const ccl_i_pack_hops_t *x = &f.hops;
        ck_assert_msg(x->order == rows[i].order, "%s: %u symmetries: %s", rows[i].spec, x->order,
                      rows[i].why);
        ck_assert(x->thinned == (rows[i].spread > 0));
        for (uint32_t g = 0; g < x->order; g++) {
            const uint32_t *image = x->image + (size_t)g * x->n;
            for (uint32_t r = 0; r < x->n; r++)
                ck_assert(g == 0 ? image[r] == r : image[r] != r);
            for (uint32_t h = 0; h < x->nhops; h++) {
                uint32_t to = ccl_i_pack_hops_image(x, g, h);
                ck_assert_uint_lt(to, x->nhops);
                ck_assert_uint_eq(x->hops[to].src, image[x->hops[h].src]);
                ck_assert_uint_eq(x->hops[to].dst, image[x->hops[h].dst]);
                ck_assert_uint_eq(x->hops[to].nuses, x->hops[h].nuses);
                for (uint32_t k = 0; k < x->hops[h].nuses; k++)
                    ck_assert_uint_eq(x->uses[x->hops[to].first_use + k],
                                      x->uses[x->hops[h].first_use + k]);
            }
        }
        close_fixture(&f);
    }
}
END_TEST

/* Any prices are a bound; where a cut is tight the search's own prove that it is done. */
START_TEST(prices) {
    fixture_t f;
    open_fixture(&f, "mi300x-x8", 0);
    const int64_t roots[8] = {2, 2, 2, 2, 2, 2, 2, 2};
    const ccl_i_pack_request_t ask = {.roots = roots, .down = true, .enough_s = 1e-15, .fresh = 1};
    ccl_i_pack_swaps_t swaps;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_rng_t rng;
    ccl_rng_init(&rng, 3);
    ck_assert_int_eq(ccl_i_pack_swap(NULL, &f.hops, &ask, &swaps, &err), CCL_OK);
    ck_assert_double_gt(swaps.least_s, swaps.busiest_s * (1 - 1e-6));
    ck_assert_double_lt(swaps.least_s, swaps.busiest_s * (1 + 1e-6));
    double *price = calloc(f.hops.nclasses, sizeof *price), least = 0;
    for (int round = 0; round < 50; round++) {
        for (uint32_t i = 0; i < f.hops.nclasses; i++)
            price[i] = 1 + ccl_rng_below(&rng, 9);
        ck_assert_int_eq(ccl_i_pack_least(NULL, &f.hops, &ask, price, &least, &err), CCL_OK);
        ck_assert_double_gt(least, 0);
        ck_assert_double_le(least, swaps.busiest_s * (1 + 1e-9));
    }
    free(price);
    ccl_i_pack_swaps_fini(&swaps);
    close_fixture(&f);
}
END_TEST

/* New hops at a price: as little load over fewer connections. */
START_TEST(connections) {
    fixture_t f;
    open_fixture(&f, "heteccl-h20-4x8+8x4", 0);
    int64_t roots[64];
    ccl_i_pack_request_t ask = {
        .roots = roots, .down = true, .up = true, .enough_s = 1e-13, .fresh = 1};
    ccl_i_pack_swaps_t many, few;
    ccl_error_t err = CCL_ERROR_INIT;
    for (uint32_t r = 0; r < 64; r++)
        roots[r] = 1;
    ck_assert_int_eq(ccl_i_pack_swap(NULL, &f.hops, &ask, &many, &err), CCL_OK);
    ask.fresh = 3;
    ck_assert_int_eq(ccl_i_pack_swap(NULL, &f.hops, &ask, &few, &err), CCL_OK);
    ck_assert_msg(4 * few.blocks < 3 * many.blocks, "%u blocks, with a price %u", many.blocks,
                  few.blocks);
    ck_assert_double_le(few.busiest_s, many.busiest_s * 1.05);
    ccl_i_pack_swaps_fini(&many);
    ccl_i_pack_swaps_fini(&few);
    close_fixture(&f);
}
END_TEST

/* Distinct channels of the edges from GPU 0 to `dst`. */
static uint32_t channels_to(uint32_t dst, const ccl_i_pack_edge_t *edges, size_t nedges) {
    bool used[64] = {false};
    uint32_t n = 0;
    for (size_t i = 0; i < nedges; i++) {
        ck_assert_uint_lt(*edges[i].channel, 64);
        if (edges[i].dst == dst && !used[*edges[i].channel]) {
            used[*edges[i].channel] = true;
            n++;
        }
    }
    return n;
}

/* Thread blocks for 6 ends of connections, 8 trees to one GPU and 2 to another: 4 and 2 when all
 * hops have as many, 5 and 1 when the slowest hop is the next to get one. */
START_TEST(by_load) {
    static const struct {
        bool by_load;
        const char *edit;
        uint32_t heavy, light;
        bool limited;
    } rows[] = {{false, "set:blocks=6", 4, 2, true},
                {true, "set:blocks=6", 5, 1, false},
                {false, "set:blocks=10", 8, 2, false}};
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        fixture_t f;
        ccl_i_pack_edge_t edges[10];
        uint16_t channel[10] = {0};
        uint32_t depth[10] = {0}, channels = 0;
        const ccl_i_pack_lanes_t lanes = {.nlanes = 8, .tree_Bps = 1e9, .by_load = rows[i].by_load};
        bool limited = true;
        open_edited(&f, "heteccl-h20-4+8", rows[i].edit, 0);
        for (uint32_t t = 0; t < 10; t++)
            edges[t] = (ccl_i_pack_edge_t){.src = 0,
                                           .dst = t < 8 ? 1 : 2,
                                           .tree = t % 8,
                                           .lane = t % 8,
                                           .channel = &channel[t],
                                           .depth = &depth[t],
                                           .ways = 1};
        ck_assert_int_eq(
            ccl_i_pack_channels(&f.cluster, edges, 10, &lanes, &channels, &limited, NULL), CCL_OK);
        ck_assert_uint_eq(channels_to(1, edges, 10), rows[i].heavy);
        ck_assert_uint_eq(channels_to(2, edges, 10), rows[i].light);
        ck_assert(limited == rows[i].limited);
        ck_assert_uint_ge(channels, rows[i].heavy);
        close_fixture(&f);
    }
}
END_TEST

static ccl_schedule_t *made_for(const fixture_t *f, ccl_collective_kind_t kind, double size) {
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_collective_t *want = NULL;
    ccl_schedule_t *schedule = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    options.size_bytes = size;
    ck_assert_int_eq(ccl_collective_create(kind, f->topo->nranks, 1, 0, &want, &err), CCL_OK);
    ck_assert_msg(ccl_synthesize(NULL, "packing", f->topo, f->routes, want, &options, &schedule,
                                 &err) == CCL_OK,
                  "%s", err.text);
    ccl_collective_destroy(want);
    return schedule;
}

/* Trees are cut for the size, by a good share of the time, also over links alone. */
START_TEST(by_size) {
    static const struct {
        const char *spec;
        ccl_collective_kind_t kind;
        double size_bytes, at_most; /* of the time of whole trees */
    } rows[] = {{"heteccl-h20-4+8", CCL_ALLREDUCE, 16 << 20, 0.5},
                {"heteccl-h20-4+8", CCL_ALLGATHER, 16 << 20, 0.7},
                {"heteccl-h20-4+8", CCL_REDUCESCATTER, 1 << 10, 1},
                {"servers:4 gpus:2 nvswitch=100GB/s nics:2x25GB/s", CCL_ALLREDUCE, 16 << 20, 0.8}};
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        fixture_t f;
        ccl_i_timing_t timing = {.size_bytes = rows[i].size_bytes,
                                 .way.granularity = CCL_GRANULARITY_ALGORITHM};
        open_fixture(&f, rows[i].spec, 0);
        ccl_schedule_t *whole = made_for(&f, rows[i].kind, 0);
        ccl_schedule_t *cut = made_for(&f, rows[i].kind, rows[i].size_bytes);
        ck_assert_int_eq(ccl_i_time_schedule(NULL, f.topo, f.routes, whole, &timing, NULL), CCL_OK);
        double whole_s = timing.time_s;
        ck_assert_int_eq(ccl_i_time_schedule(NULL, f.topo, f.routes, cut, &timing, NULL), CCL_OK);
        double cut_s = timing.time_s;
        ck_assert_msg(cut_s <= rows[i].at_most * whole_s, "%s, row %zu: %g us, whole trees %g us",
                      rows[i].spec, i, 1e6 * cut_s, 1e6 * whole_s);
        ck_assert((cut->ntransfers > whole->ntransfers || cut->piece_bytes > 0) ==
                  (rows[i].at_most < 1));
        ccl_schedule_destroy(whole);
        ccl_schedule_destroy(cut);
        close_fixture(&f);
    }
}
END_TEST

/* What is too large to be raced runs once where there is something to beat: what its links need is
 * no time. */
START_TEST(too_large_to_race) {
    enum { N = 6, TIMES = 2000 };
    static const struct {
        double beat; /* times what links need; 0: nothing was made before */
        bool runs, faster;
    } rows[] = {{0, false, true}, {1.001, true, false}, {10, true, true}};
    fixture_t f;
    open_fixture(&f, "servers:3 gpus:2 nvswitch=100GB/s,1us nics:2x25GB/s,2us", 0);
    double weight[N] = {1, 1, 1, 1, 1, 1};
    int64_t roots[N] = {0};
    ccl_collective_t *want = collective(CCL_ALLREDUCE, N, 0);
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_i_packing_t p = {.cluster = &f.cluster,
                         .c = f.capacity,
                         .want = want,
                         .n = N,
                         .weight = weight,
                         .roots = roots,
                         .units = calloc(f.capacity->narcs + (size_t)1, sizeof *p.units),
                         .has_up = true,
                         .has_down = true};
    options.size_bytes = 0x1p20;
    ck_assert_int_eq(ccl_i_pack_anywhere(&p, 1, NULL), CCL_OK);
    ck_assert_int_eq(ccl_i_pack_share(&p, TIMES, NULL), CCL_OK);
    double links_s = ccl_i_pack_seconds(&p) * options.size_bytes;
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_schedule_t *made = NULL;
        double time_s;
        p.beat_s = rows[i].beat * links_s;
        ck_assert_int_eq(ccl_i_pack_schedule(&p, false, &options, &made, &time_s, NULL), CCL_OK);
        ck_assert_int_eq(made->ntransfers, 2 * N * TIMES * (N - 1));
        ck_assert_msg((time_s < INFINITY) == rows[i].faster, "row %zu: %g us", i, 1e6 * time_s);
        ck_assert_msg((time_s > links_s) == rows[i].runs, "row %zu: %g us", i, 1e6 * time_s);
        ccl_schedule_destroy(made);
    }
    ccl_i_pack_forest_fini(&p.down);
    ccl_i_pack_forest_fini(&p.up);
    free(p.units);
    ccl_collective_destroy(want);
    close_fixture(&f);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("packing");
    TCase *tc = tcase_create("packing");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, symmetries);
    tcase_add_test(tc, prices);
    tcase_add_test(tc, by_load);
    tcase_add_test(tc, by_size);
    tcase_add_test(tc, connections);
    tcase_add_test(tc, too_large_to_race);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
