/* compare: winners, ties, who does not take part and why, threads do not matter, cancelling. */
#include "search/compare/compare.h"
#include "search/tune/tune.h"
#include "tests/topologies/topologies.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static ccl_comparison_t *compare(const ccl_topology_t *topo, ccl_collective_kind_t kind,
                                 uint32_t threads, const ccl_contender_t *contenders,
                                 uint32_t ncontenders, const double *sizes, uint32_t nsizes) {
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_collective_t *want;
    ccl_comparison_t *out = NULL;
    ccl_compare_options_t options = {.size = sizeof options,
                                     .contenders = contenders,
                                     .ncontenders = ncontenders,
                                     .sizes_bytes = sizes,
                                     .nsizes = nsizes,
                                     .synth = CCL_SYNTH_OPTIONS_INIT,
                                     .lower = CCL_LOWER_OPTIONS_INIT,
                                     .sim = CCL_SIM_OPTIONS_INIT};
    ctx.threads = threads;
    ck_assert_int_eq(ccl_collective_create(kind, topo->nranks, 1, 0, &want, NULL), CCL_OK);
    ccl_status_t status = ccl_compare(&ctx, topo, want, &options, &out, &err);
    ck_assert_msg(status == CCL_OK, "%s", err.text);
    ccl_collective_destroy(want);
    return out;
}

static const double sizes[] = {1024, 1 << 20, 1 << 28};

START_TEST(test_winners) {
    static const ccl_contender_t contenders[] = {
        {.name = "ring"}, {.name = "direct"}, {.name = "pxn"}, {.name = "hm"}};
    ccl_topology_t *topo =
        topology("servers:2 gpus:4 nvswitch=300GB/s,1us nics:4x25GB/s,2us fabric=rail");
    ccl_comparison_t *c = compare(topo, CCL_ALLGATHER, 1, contenders, 4, sizes, 3);
    for (uint32_t s = 0; s < 3; s++) {
        const ccl_compare_cell_t *row = c->cells + 4 * s;
        uint32_t w = c->winner[s];
        ck_assert_uint_ne(w, CCL_NONE);
        ck_assert_ptr_nonnull(c->best[s]);
        ck_assert_double_eq(c->best[s]->time_s, row[w].time_s);
        for (uint32_t i = 0; i < 4; i++) {
            if (i == 2)
                continue;
            ck_assert_int_eq(row[i].status, CCL_OK);
            ck_assert_double_gt(row[i].time_s, 0);
            ck_assert_double_le(row[w].time_s, row[i].time_s);
            ck_assert_double_le(row[i].low_s, row[i].time_s);
            ck_assert_double_ge(row[i].high_s, row[i].time_s);
            ck_assert_double_eq_tol(row[i].algbw_GBps, sizes[s] / row[i].time_s / 1e9, 1e-9);
        }
        ck_assert_int_eq(row[2].status, CCL_UNSUPPORTED);
    }
    /* A ring of 8 pays 7 latencies, the mesh of depth 2 far fewer. */
    ck_assert_uint_ne(c->winner[0], 0);
    ck_assert_ptr_null(c->why_not[0]);
    ck_assert_ptr_nonnull(strstr(c->why_not[2], "hm"));
    ck_assert_uint_gt(c->thread_blocks[1], c->thread_blocks[0]);
    ck_assert_uint_eq(c->thread_blocks[2], 0);
    ccl_comparison_destroy(c);
    ccl_topology_destroy(topo);
}
END_TEST

/* Every cell runs once, the winner too. */
START_TEST(test_runs) {
    ccl_topology_t *topo = topology("servers:1 gpus:4 nvswitch=100GB/s,1us");
    const ccl_contender_t ring = {.name = "ring"};
    ccl_compare_options_t options = CCL_COMPARE_OPTIONS_INIT;
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ccl_work_t work = {0};
    ccl_collective_t *want;
    ccl_comparison_t *out = NULL;
    options.contenders = &ring;
    options.ncontenders = 1;
    options.sizes_bytes = sizes;
    options.nsizes = CCL_ARRAY_LEN(sizes);
    ctx.work = &work;
    ck_assert_int_eq(ccl_collective_create(CCL_ALLGATHER, 4, 1, 0, &want, NULL), CCL_OK);
    ck_assert_int_eq(ccl_compare(&ctx, topo, want, &options, &out, NULL), CCL_OK);
    ck_assert_uint_eq(work.runs, CCL_ARRAY_LEN(sizes));
    ccl_comparison_destroy(out);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}
END_TEST

/* Who is made for a size and takes much longer than the fastest before it does not run, whatever
   the threads do; the first of them knows only those that are made for no size. */
START_TEST(test_no_hope) {
    static const ccl_contender_t all[] = {{.name = "packing"},
                                          {.name = "ring"},
                                          {.name = "greedy"}},
                                 two[] = {{.name = "greedy"}, {.name = "packing"}};
    static const double at[] = {1 << 16, 1 << 24};
    ccl_topology_t *topo = topology("servers:2 gpus:3 nvswitch=300GB/s,1us nics:3x25GB/s,2us");
    ccl_compare_options_t options = CCL_COMPARE_OPTIONS_INIT;
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ccl_collective_t *want;
    ccl_comparison_t *whole = NULL, *out = NULL;
    options.contenders = all;
    options.ncontenders = 3;
    options.sizes_bytes = at;
    options.nsizes = 2;
    MUST(ccl_collective_create(CCL_ALLREDUCE, 6, 1, 0, &want, e));
    MUST(ccl_compare(&ctx, topo, want, &options, &whole, e));
    for (uint32_t threads = 1; threads <= 3; threads += 2) {
        ctx.threads = threads;
        options.hope = 1e3;
        MUST(ccl_compare(&ctx, topo, want, &options, &out, e));
        for (uint32_t i = 0; i < 6; i++) {
            ck_assert(!out->cells[i].hopeless);
            ck_assert_double_eq(out->cells[i].time_s, whole->cells[i].time_s);
        }
        ccl_comparison_destroy(out);
        options.hope = 1e-3;
        MUST(ccl_compare(&ctx, topo, want, &options, &out, e));
        for (uint32_t i = 0; i < 6; i++) {
            ck_assert(out->cells[i].hopeless == (i % 3 != 1));
            ck_assert_int_eq(out->cells[i].status, i % 3 == 1 ? CCL_OK : CCL_UNSUPPORTED);
        }
        ck_assert_uint_eq(out->winner[0], 1);
        ck_assert_ptr_nonnull(strstr(out->why_not[0], "not run: it takes more than 0.001 times"));
        ccl_comparison_destroy(out);
    }
    options.contenders = two;
    options.ncontenders = 2;
    MUST(ccl_compare(&ctx, topo, want, &options, &out, e));
    for (uint32_t i = 0; i < 4; i++)
        ck_assert(out->cells[i].hopeless == (i % 2 == 1));
    ccl_comparison_destroy(out);
    options.hope = -1;
    ck_assert_int_eq(ccl_compare(&ctx, topo, want, &options, &out, NULL), CCL_ERR_INPUT);
    ccl_comparison_destroy(whole);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}
END_TEST

/* Lowering in HPDS order comes late, too. Large messages go with Simple: the look at the whole is
   one simulation, and of small ones one for each protocol. */
START_TEST(test_no_hope_of_careful_lowering) {
    static const ccl_way_t careful = {CCL_ORDER_HPDS, CCL_ALLOCATE_CONNECTION,
                                      CCL_GRANULARITY_ALGORITHM};
    ccl_contender_t contenders[] = {{.name = "tree"}, {.name = "own", .way = &careful}};
    ccl_topology_t *topo =
        topology("servers:2 gpus:4 nvswitch=450GB/s,1us nics:4x50GB/s,2us model=H100");
    ccl_compare_options_t options = CCL_COMPARE_OPTIONS_INIT;
    ccl_collective_t *want;
    ccl_schedule_t *ring = NULL;
    uint64_t runs[2];
    MUST(ccl_collective_create(CCL_ALLREDUCE, 8, 1, 0, &want, e));
    MUST(ccl_synthesize(NULL, "ring", topo, NULL, want, NULL, &ring, e));
    contenders[1].schedule = ring;
    options.contenders = contenders;
    options.ncontenders = 2;
    options.nsizes = 1;
    options.protocols = true;
    options.hope = 1e-3;
    for (int large = 0; large < 2; large++) {
        const double bytes = large ? 0x1p27 : 0x1p26;
        ccl_comparison_t *out = NULL;
        ccl_ctx_t ctx = CCL_CTX_INIT;
        ccl_work_t work = {0};
        ctx.work = &work;
        options.sizes_bytes = &bytes;
        MUST(ccl_compare(&ctx, topo, want, &options, &out, e));
        ck_assert(out->cells[1].hopeless);
        ccl_comparison_destroy(out);
        runs[large] = work.runs;
    }
    ck_assert_uint_eq(runs[0], runs[1] + 2);
    ccl_schedule_destroy(ring);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}
END_TEST

/* Through switches there is one way of lowering: what is slower has no hope, by however little. */
START_TEST(test_no_hope_by_little) {
    static const ccl_contender_t contenders[] = {{.name = "nvls-pull"}, {.name = "nvls"}};
    static const double bytes = 0x1p28;
    ccl_topology_t *topo = topology("servers:1 gpus:4 nvswitch=100GB/s,nvls");
    ccl_compare_options_t options = CCL_COMPARE_OPTIONS_INIT;
    ccl_collective_t *want;
    ccl_comparison_t *out = NULL;
    options.contenders = contenders;
    options.ncontenders = 2;
    options.sizes_bytes = &bytes;
    options.nsizes = 1;
    options.hope = 2; /* it takes 5/4 */
    MUST(ccl_collective_create(CCL_ALLREDUCE, 4, 1, 0, &want, e));
    MUST(ccl_compare(NULL, topo, want, &options, &out, e));
    ck_assert(!out->cells[0].hopeless && out->cells[1].hopeless);
    ccl_comparison_destroy(out);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}
END_TEST

/* What has no hope as it is is not tried through switches. */
START_TEST(test_no_hope_through_switches) {
    ccl_topology_t *topo = topology("dgx-h100");
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_routes_t *routes = ccl_routes_create(topo);
    ccl_collective_t *want;
    options.size_bytes = 1 << 26;
    MUST(ccl_collective_create(CCL_ALLREDUCE, 8, 1, 0, &want, e));
    for (int hope = 0; hope < 2; hope++) {
        ccl_schedule_t *made = NULL;
        options.hope_s = hope ? 1e-6 : 0;
        MUST(ccl_synthesize(NULL, "packing", topo, routes, want, &options, &made, e));
        ck_assert((strstr(made->origin, "through switches") != NULL) == (hope == 0));
        ccl_schedule_destroy(made);
    }
    ccl_collective_destroy(want);
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
}
END_TEST

/* Where one is within the gap of the bound those that come later do not run, and only there. */
START_TEST(test_gap_ends_races) {
    static const ccl_contender_t contenders[] = {
        {.name = "packing"}, {.name = "ring"}, {.name = "greedy"}};
    ccl_topology_t *topo = topology("servers:1 gpus:4 nvswitch=100GB/s,5us");
    ccl_compare_options_t options = CCL_COMPARE_OPTIONS_INIT;
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ccl_collective_t *want;
    ccl_comparison_t *out = NULL;
    static const double two[] = {1 << 22, 1 << 30};
    options.contenders = contenders;
    options.ncontenders = 3;
    options.sizes_bytes = two;
    options.nsizes = 2;
    ck_assert_int_eq(ccl_collective_create(CCL_ALLGATHER, 4, 1, 0, &want, NULL), CCL_OK);
    ck_assert_int_eq(ccl_compare(&ctx, topo, want, &options, &out, NULL), CCL_OK);
    double gap_small = out->cells[1].time_s / out->bound_s[0] - 1,
           gap_large = out->cells[4].time_s / out->bound_s[1] - 1;
    for (uint32_t i = 0; i < 6; i++)
        ck_assert(!out->cells[i].ended);
    ck_assert_double_eq(out->gap, CCL_COMPARE_GAP);
    ck_assert_double_lt(gap_large, CCL_COMPARE_GAP);
    ck_assert_double_gt(gap_small, gap_large);
    ck_assert(ccl_comparison_proven(out, 1));
    ccl_comparison_destroy(out);
    for (uint32_t threads = 1; threads <= 3; threads += 2) {
        ctx.threads = threads;
        options.gap = (gap_small + gap_large) / 2;
        ck_assert_int_eq(ccl_compare(&ctx, topo, want, &options, &out, NULL), CCL_OK);
        for (uint32_t i = 0; i < 6; i++) {
            bool ended = i == 2 || i == 3 || i == 5;
            ck_assert_int_eq(out->cells[i].status, ended ? CCL_UNSUPPORTED : CCL_OK);
            ck_assert(out->cells[i].ended == ended);
        }
        /* greedy runs nowhere: packing is near at the small size, ring at the large one */
        ck_assert_ptr_nonnull(strstr(out->cells[3].why, "not run: ring is within"));
        ck_assert_ptr_nonnull(strstr(out->why_not[2], "not run: ring is within"));
        ck_assert_double_eq(out->gap, options.gap);
        ck_assert(ccl_comparison_proven(out, 0));
        ck_assert_uint_eq(out->winner[0], 0);
        ck_assert_uint_eq(out->winner[1], 1);
        ccl_comparison_destroy(out);
    }
    options.gap = 2 * gap_small; /* proven everywhere: neither takes part */
    ck_assert_int_eq(ccl_compare(&ctx, topo, want, &options, &out, NULL), CCL_OK);
    for (uint32_t i = 0; i < 6; i++)
        ck_assert(out->cells[i].ended == (i % 3 != 1));
    ck_assert_ptr_nonnull(strstr(out->why_not[0], "of the bound"));
    ck_assert_ptr_null(out->why_not[1]);
    ccl_comparison_destroy(out);
    options.gap = NAN;
    ck_assert_int_eq(ccl_compare(&ctx, topo, want, &options, &out, NULL), CCL_ERR_INPUT);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(test_tie) {
    /* The same schedule twice is a tie at every size; against another it is not. */
    static const ccl_contender_t twice[] = {{.name = "direct"}, {.name = "direct"}};
    static const ccl_contender_t other[] = {{.name = "direct"}, {.name = "ring"}};
    ccl_topology_t *topo = topology("servers:1 gpus:4 nvswitch=100GB/s,1us");
    ccl_comparison_t *a = compare(topo, CCL_ALLGATHER, 1, twice, 2, sizes, 3);
    ccl_comparison_t *b = compare(topo, CCL_ALLGATHER, 1, other, 2, sizes, 1);
    for (uint32_t s = 0; s < 3; s++) {
        ck_assert(a->tie[s]);
        ck_assert_uint_eq(a->winner[s], 0);
    }
    ck_assert(!b->tie[0]);
    ccl_comparison_destroy(a);
    ccl_comparison_destroy(b);
    ccl_topology_destroy(topo);
}
END_TEST

/* At this size one slice more than a millionth below it: who is slower by that slice alone is as
   good, who is slower by more than a slice may bring is not looked at again. */
START_TEST(test_tie_by_a_slice) {
    static const char text[] =
        "{\"format\":\"ccllab-topology-1\",\"name\":\"pair\",\"devices\":["
        "{\"id\":\"a\",\"kind\":\"gpu\",\"rank\":0},{\"id\":\"b\",\"kind\":\"gpu\",\"rank\":1}],"
        "\"links\":[{\"from\":\"a\",\"to\":\"b\",\"kind\":\"nvlink\",\"bandwidth\":\"10GB/s\"}],"
        "\"transports\":{\"nvlink\":{\"slice\":1000000,\"slots\":1,\"latency\":\"25us\","
        "\"protocols\":{"
        "\"LL\":{\"slice\":100000000,\"latency\":\"190us\"},"
        "\"LL128\":{\"latency\":\"60us\"}}}}}";
    const double size_bytes = 8e6 * (1 + 0.5e-6); /* 5 slices, and 4 a millionth below */
    static const char *const protos[] = {"LL", "Simple", "LL128"};
    ccl_topology_t *topo = topology_of(text);
    ccl_collective_t *want;
    ccl_schedule_t *schedule = NULL;
    ccl_contender_t contenders[3];
    ccl_program_t *programs[3];
    ck_assert_int_eq(ccl_collective_create(CCL_ALLGATHER, 2, 1, 0, &want, NULL), CCL_OK);
    ck_assert_int_eq(ccl_synthesize(NULL, "ring", topo, NULL, want, NULL, &schedule, NULL), CCL_OK);
    for (uint32_t i = 0; i < 3; i++) {
        ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
        lower.proto = protos[i];
        ck_assert_int_eq(ccl_lower(NULL, schedule, &lower, &programs[i], NULL), CCL_OK);
        contenders[i] = (ccl_contender_t){.name = protos[i], .program = programs[i]};
    }
    ccl_compare_options_t options = {.size = sizeof options,
                                     .contenders = contenders,
                                     .ncontenders = 3,
                                     .sizes_bytes = &size_bytes,
                                     .nsizes = 1,
                                     .synth = CCL_SYNTH_OPTIONS_INIT,
                                     .lower = CCL_LOWER_OPTIONS_INIT,
                                     .sim = CCL_SIM_OPTIONS_INIT};
    ccl_comparison_t *c = NULL;
    options.sim.batches = 1;
    ck_assert_int_eq(ccl_compare(NULL, topo, want, &options, &c, NULL), CCL_OK);
    const ccl_compare_cell_t *cells = c->cells;
    ck_assert_uint_eq(c->winner[0], 0);
    ck_assert_double_gt(cells[1].time_s, cells[0].high_s * 1.03);
    ck_assert_double_lt(cells[1].low_s, cells[0].time_s);
    ck_assert_double_gt(cells[0].high_s, cells[0].time_s);
    ck_assert(c->tie[0]);
    ck_assert_double_gt(cells[2].time_s, cells[0].time_s * 1.3);
    ck_assert_double_eq(cells[2].low_s, cells[2].time_s);
    ccl_comparison_destroy(c);
    for (uint32_t i = 0; i < 3; i++)
        ccl_program_destroy(programs[i]);
    ccl_schedule_destroy(schedule);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(test_threads) {
    static const ccl_contender_t contenders[] = {{.name = "ring"},
                                                 {.name = "tree"},
                                                 {.name = "recursive"},
                                                 {.name = "direct"},
                                                 {.name = "hm"}};
    ccl_topology_t *topo = topology("heteccl-h20-4+8");
    ccl_comparison_t *a = compare(topo, CCL_ALLREDUCE, 1, contenders, 5, sizes, 3);
    ccl_comparison_t *b = compare(topo, CCL_ALLREDUCE, 4, contenders, 5, sizes, 3);
    for (uint32_t i = 0; i < 15; i++) {
        ck_assert_int_eq(a->cells[i].status, b->cells[i].status);
        ck_assert_double_eq(a->cells[i].time_s, b->cells[i].time_s);
        ck_assert_double_eq(a->cells[i].low_s, b->cells[i].low_s);
        ck_assert_double_eq(a->cells[i].high_s, b->cells[i].high_s);
    }
    for (uint32_t s = 0; s < 3; s++) {
        ck_assert_uint_eq(a->winner[s], b->winner[s]);
        ck_assert_int_eq(a->tie[s], b->tie[s]);
    }
    ccl_comparison_destroy(a);
    ccl_comparison_destroy(b);
    ccl_topology_destroy(topo);
}
END_TEST

static void check_same_cells(const ccl_comparison_t *plain, const ccl_comparison_t *c) {
    for (uint32_t i = 0; i < 6; i++) {
        const ccl_compare_cell_t *a = &plain->cells[i], *b = &c->cells[i];
        ck_assert_int_eq(a->status, b->status);
        ck_assert(a->time_s == b->time_s && a->low_s == b->low_s && a->high_s == b->high_s);
        ck_assert(a->busbw_GBps == b->busbw_GBps && a->batches == b->batches);
        ck_assert(a->usage.thread_blocks == b->usage.thread_blocks &&
                  a->usage.mean_idle_share == b->usage.mean_idle_share &&
                  a->usage.link_utilization == b->usage.link_utilization);
    }
    for (uint32_t s = 0; s < 2; s++) {
        ck_assert_uint_eq(plain->winner[s], c->winner[s]);
        ck_assert(plain->tie[s] == c->tie[s]);
        ck_assert(plain->best[s]->time_s == c->best[s]->time_s);
    }
}

/* Tunes the settings that compare has run in HPDS's order, and those of auto. */
static void tune_resumes_hpds(const ccl_topology_t *topo, const ccl_collective_t *want,
                              ccl_notebook_t *n) {
    static const char *const knobs[] = {"with=ring,hm",    "channels=auto", "chunks=auto",
                                        "order=auto,hpds", "allocate=auto", "granularity=auto",
                                        "proto=auto"};
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_space_t *space = NULL;
    ccl_tuning_t *t = NULL;
    ck_assert_int_eq(ccl_space_create(&space, NULL), CCL_OK);
    for (size_t i = 0; i < CCL_ARRAY_LEN(knobs); i++)
        ck_assert_int_eq(ccl_space_set(space, knobs[i], NULL), CCL_OK);
    ccl_tune_options_t tune = CCL_TUNE_OPTIONS_INIT;
    tune.space = space;
    tune.strategy = CCL_STRATEGY_GRID;
    tune.sizes_bytes = sizes;
    tune.nsizes = 2;
    tune.gap = 0;
    tune.notebook = n;
    ck_assert_int_eq(ccl_tune(NULL, topo, want, &tune, &t, &err), CCL_OK);
    uint32_t resumed = 0;
    for (uint32_t i = 0; i < t->nruns; i++) {
        resumed += t->runs[i].resumed;
        bool hpds = strstr(t->points[t->runs[i].point].settings, "hpds") != NULL;
        ck_assert(t->runs[i].resumed == hpds);
    }
    ck_assert_uint_eq(resumed, 4);
    ccl_tuning_destroy(t);
    ccl_space_destroy(space);
}

/* What tune has run a comparison does not run again, and the other way round; the result is that of
   a comparison without a notebook. */
START_TEST(test_notebook) {
    static const ccl_contender_t contenders[] = {{.name = "ring"}, {.name = "hm"}, {.name = "pxn"}};
    char path[] = "/tmp/ccllab_compare_XXXXXX", file[80], command[100];
    ccl_topology_t *topo = topology("heteccl-h20-4+8");
    ccl_comparison_t *plain = compare(topo, CCL_ALLGATHER, 1, contenders, 3, sizes, 2), *c = NULL;
    ccl_collective_t *want;
    ccl_notebook_t *n = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_ptr_nonnull(mkdtemp(path));
    snprintf(file, sizeof file, "%s/n.db", path);
    ck_assert_int_eq(ccl_notebook_open(file, true, &n, NULL), CCL_OK);
    ck_assert_int_eq(ccl_collective_create(CCL_ALLGATHER, topo->nranks, 1, 0, &want, NULL), CCL_OK);
    ccl_compare_options_t o = {.size = sizeof o,
                               .contenders = contenders,
                               .ncontenders = 3,
                               .sizes_bytes = sizes,
                               .nsizes = 2,
                               .synth = CCL_SYNTH_OPTIONS_INIT,
                               .lower = CCL_LOWER_OPTIONS_INIT,
                               .sim = CCL_SIM_OPTIONS_INIT,
                               .notebook = n};
    /* In HPDS's order first by compare, then tune: that and auto. */
    o.lower.order = CCL_ORDER_HPDS;
    o.way_bits = CCL_WAY_ORDER;
    ck_assert_msg(ccl_compare(NULL, topo, want, &o, &c, &err) == CCL_OK, "%s", err.text);
    ck_assert_uint_eq(c->resumed, 0);
    tune_resumes_hpds(topo, want, n);
    ccl_comparison_destroy(c);
    /* As the synthesizers are: ring and hm from tune, pxn once. */
    o.way_bits = 0;
    o.lower.order = CCL_ORDER_STEP;
    for (uint32_t round = 0; round < 2; round++) {
        ck_assert_msg(ccl_compare(NULL, topo, want, &o, &c, &err) == CCL_OK, "%s", err.text);
        ck_assert_uint_eq(c->resumed, round == 0 ? 4 : 6);
        check_same_cells(plain, c);
        ck_assert_str_eq(plain->why_not[2], c->why_not[2]);
        ccl_comparison_destroy(c);
    }
    ck_assert_ptr_null(ccl_compare_untold(&o));
    o.synth.time_limit_s = 1;
    ck_assert_str_eq(ccl_compare_untold(&o), "time-limit");
    ck_assert_msg(ccl_compare(NULL, topo, want, &o, &c, &err) == CCL_OK, "%s", err.text);
    ck_assert_uint_eq(c->resumed, 0);
    ccl_comparison_destroy(c);
    ccl_comparison_destroy(plain);
    ccl_notebook_close(n);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

START_TEST(test_own_program) {
    ccl_topology_t *topo = topology("servers:1 gpus:4 nvswitch=100GB/s,1us");
    ccl_topology_t *other = topology("servers:1 gpus:3 nvswitch=100GB/s,1us");
    ccl_collective_t *want;
    ccl_schedule_t *schedule = NULL;
    ccl_program_t *program = NULL;
    ck_assert_int_eq(ccl_collective_create(CCL_ALLGATHER, 4, 1, 0, &want, NULL), CCL_OK);
    ck_assert_int_eq(ccl_synthesize(NULL, "ring", topo, NULL, want, NULL, &schedule, NULL), CCL_OK);
    ck_assert_int_eq(ccl_lower(NULL, schedule, NULL, &program, NULL), CCL_OK);
    ccl_contender_t contenders[] = {{.name = "mine", .program = program}, {.name = "ring"}};
    ccl_comparison_t *c = compare(topo, CCL_ALLGATHER, 2, contenders, 2, sizes, 2);
    ck_assert_double_eq(c->cells[0].time_s, c->cells[1].time_s);
    ck_assert_str_eq(c->names[0], "mine");
    ccl_comparison_destroy(c);
    c = compare(other, CCL_ALLGATHER, 2, contenders, 2, sizes, 1);
    ck_assert_ptr_nonnull(strstr(c->why_not[0], "4 ranks"));
    ck_assert_uint_eq(c->winner[0], 1);
    ccl_comparison_destroy(c);
    c = compare(topo, CCL_REDUCESCATTER, 2, contenders, 2, sizes, 1);
    ck_assert_ptr_nonnull(strstr(c->why_not[0], "allgather"));
    ccl_comparison_destroy(c);
    /* A program that forgets its first step is not timed. */
    program->steps[0].type = CCL_PRIM_NOP;
    c = compare(topo, CCL_ALLGATHER, 2, contenders, 2, sizes, 1);
    ck_assert_int_eq(c->cells[0].status, CCL_CHECK);
    ck_assert_ptr_nonnull(c->why_not[0]);
    ccl_comparison_destroy(c);
    ccl_program_destroy(program);
    ccl_schedule_destroy(schedule);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
    ccl_topology_destroy(other);
}
END_TEST

static int stop_after_first(const ccl_progress_t *progress, void *user) {
    uint32_t *calls = user;
    (*calls)++;
    return progress->done > 0;
}

START_TEST(test_refuses_and_stops) {
    static const ccl_contender_t contenders[] = {{.name = "direct"}, {.name = "nosuch"}};
    static const double bad[] = {0};
    ccl_topology_t *topo = topology("servers:1 gpus:4 nvswitch=100GB/s,1us");
    ccl_collective_t *want;
    ccl_comparison_t *out = NULL;
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ccl_error_t err = CCL_ERROR_INIT;
    uint32_t calls = 0;
    int cancel = 1;
    ccl_compare_options_t options = {.size = sizeof options,
                                     .contenders = contenders,
                                     .ncontenders = 2,
                                     .sizes_bytes = sizes,
                                     .nsizes = 3,
                                     .synth = CCL_SYNTH_OPTIONS_INIT,
                                     .lower = CCL_LOWER_OPTIONS_INIT,
                                     .sim = CCL_SIM_OPTIONS_INIT};
    ctx.threads = 1;
    ck_assert_int_eq(ccl_collective_create(CCL_ALLGATHER, 4, 1, 0, &want, NULL), CCL_OK);
    ctx.progress = stop_after_first;
    ctx.progress_user = &calls;
    ck_assert_int_eq(ccl_compare(&ctx, topo, want, &options, &out, &err), CCL_INTERRUPTED);
    ck_assert_uint_eq(calls, 2);
    ccl_comparison_destroy(out); /* what was finished */
    out = NULL;
    ctx.progress = NULL;
    ctx.cancel = &cancel;
    ck_assert_int_eq(ccl_compare(&ctx, topo, want, &options, &out, &err), CCL_INTERRUPTED);
    ccl_comparison_destroy(out);
    out = NULL;
    ctx.cancel = NULL;
    ccl_error_clear(&err);
    ck_assert_int_eq(ccl_compare(&ctx, topo, want, &options, &out, &err), CCL_OK);
    ck_assert_ptr_nonnull(strstr(out->why_not[1], "unknown synthesizer"));
    ccl_comparison_destroy(out);
    options.sizes_bytes = bad;
    options.nsizes = 1;
    ck_assert_int_eq(ccl_compare(&ctx, topo, want, &options, &out, &err), CCL_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(err.text, "size 0"));
    ccl_error_clear(&err);
    options.ncontenders = 0;
    ck_assert_int_eq(ccl_compare(&ctx, topo, want, &options, &out, &err), CCL_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(err.text, "no contender"));
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("unit.search.compare");
    TCase *tcase = tcase_create("compare");
    tcase_set_timeout(tcase, 0);
    tcase_add_test(tcase, test_winners);
    tcase_add_test(tcase, test_runs);
    tcase_add_test(tcase, test_no_hope);
    tcase_add_test(tcase, test_no_hope_of_careful_lowering);
    tcase_add_test(tcase, test_no_hope_by_little);
    tcase_add_test(tcase, test_no_hope_through_switches);
    tcase_add_test(tcase, test_gap_ends_races);
    tcase_add_test(tcase, test_tie);
    tcase_add_test(tcase, test_tie_by_a_slice);
    tcase_add_test(tcase, test_threads);
    tcase_add_test(tcase, test_notebook);
    tcase_add_test(tcase, test_own_program);
    tcase_add_test(tcase, test_refuses_and_stops);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
