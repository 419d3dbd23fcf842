/* Tuning: the same on any number of threads, never worse than untuned, budgets kept, notebook used.
 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "search/tune/tune.h"
#include "tests/topologies/topologies.h"

static const double sizes[] = {65536, 4194304};

static ccl_tuning_t *tune_kind(ccl_collective_kind_t kind, const char *cluster,
                               const char *const *knobs, ccl_strategy_t strategy, uint64_t runs,
                               uint32_t threads, ccl_notebook_t *notebook) {
    ccl_topology_t *topo = NULL;
    ccl_collective_t *want = NULL;
    ccl_space_t *space = NULL;
    ccl_tuning_t *out = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ccl_tune_options_t options = CCL_TUNE_OPTIONS_INIT;
    ctx.threads = threads;
    topo = topology(cluster);
    ck_assert_int_eq(ccl_collective_create(kind, topo->nranks, 1, 0, &want, NULL), CCL_OK);
    ck_assert_int_eq(ccl_space_create(&space, &err), CCL_OK);
    for (; *knobs; knobs++)
        ck_assert_msg(ccl_space_set(space, *knobs, &err) == CCL_OK, "%s", err.text);
    options.space = space;
    options.strategy = strategy;
    options.sizes_bytes = sizes;
    options.nsizes = CCL_ARRAY_LEN(sizes);
    options.budget_runs = runs;
    options.notebook = notebook;
    ck_assert_msg(ccl_tune(&ctx, topo, want, &options, &out, &err) == CCL_OK, "%s", err.text);
    ccl_space_destroy(space);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
    return out;
}

static ccl_tuning_t *tune(const char *cluster, const char *const *knobs, ccl_strategy_t strategy,
                          uint64_t runs, uint32_t threads, ccl_notebook_t *notebook) {
    return tune_kind(CCL_ALLGATHER, cluster, knobs, strategy, runs, threads, notebook);
}

#define RAILS "servers:2 gpus:2 nvswitch=300GB/s,0.7us nics:2x25GB/s,2us fabric=rail"
static const char *const few[] = {"with=ring,hm,direct,greedy",
                                  "channels=auto,1:4",
                                  "chunks=auto,1:4",
                                  "order=auto,hpds",
                                  "allocate=auto",
                                  "granularity=auto,task",
                                  NULL};

static void same(const ccl_tuning_t *a, const ccl_tuning_t *b) {
    ck_assert_uint_eq(a->npoints, b->npoints);
    ck_assert_uint_eq(a->nruns, b->nruns);
    ck_assert_str_eq(a->stopped, b->stopped);
    for (uint32_t i = 0; i < a->nruns; i++) {
        const ccl_tune_run_t *x = &a->runs[i], *y = &b->runs[i];
        ck_assert(x->point == y->point && x->size == y->size && x->estimate == y->estimate);
        ck_assert_int_eq(x->result.status, y->result.status);
        ck_assert(x->result.time_s == y->result.time_s);
        ck_assert_uint_eq(x->result.thread_blocks, y->result.thread_blocks);
        ck_assert_str_eq(x->result.why, y->result.why);
    }
    for (uint32_t s = 0; s < a->nsizes; s++)
        ck_assert_uint_eq(a->best[s], b->best[s]);
}

START_TEST(test_threads) {
    ccl_tuning_t *one = tune(RAILS, few, (ccl_strategy_t)_i, 150, 1, NULL);
    ccl_tuning_t *four = tune(RAILS, few, (ccl_strategy_t)_i, 150, 4, NULL);
    same(one, four);
    ck_assert_uint_gt(one->nruns, 20);
    ck_assert_uint_le(one->nruns, 150);
    for (uint32_t s = 0; s < one->nsizes; s++) {
        const ccl_tune_run_t *best = &one->runs[one->best[s]];
        ck_assert(best->result.time_s <= one->runs[one->untuned[s]].result.time_s);
        ck_assert(best->result.time_s >= one->bound_s[s] * (1 - 1e-9));
        ck_assert(!best->estimate);
    }
    ccl_tuning_destroy(one);
    ccl_tuning_destroy(four);
}
END_TEST

/* Simple goes through the switch, LL has schedules that do not. */
START_TEST(test_switches) {
    static const char *const knobs[] = {
        "with=packing",  "channels=auto",    "chunks=auto", "order=auto",
        "allocate=auto", "granularity=auto", "fuse=auto",   "slots=auto",
        "batches=auto",  "proto=auto,LL",    NULL};
    ccl_tuning_t *t =
        tune_kind(CCL_ALLREDUCE, "servers:1 gpus:8 nvswitch=450GB/s,0.7us,nvls model=H100", knobs,
                  CCL_STRATEGY_GRID, 100, 1, NULL);
    uint32_t through = 0;
    ck_assert_uint_ge(t->nruns, 4);
    for (uint32_t i = 0; i < t->nruns; i++) {
        const ccl_tune_run_t *run = &t->runs[i];
        ck_assert_msg(run->result.status == CCL_OK, "%s: %s", t->points[run->point].settings,
                      run->result.why);
        bool ll = strstr(t->points[run->point].settings, "\"LL\"") != NULL;
        bool in = strstr(run->result.origin, "through switches") != NULL;
        ck_assert_msg(!(ll && in), "%s", run->result.origin);
        through += in;
    }
    ck_assert_uint_gt(through, 0);
    ccl_tuning_destroy(t);
}
END_TEST

/* A second tuning runs nothing again, and comes to the same. */
START_TEST(test_resume) {
    char path[] = "/tmp/ccllab_tune_XXXXXX", command[100];
    ccl_notebook_t *n = NULL;
    ck_assert_ptr_nonnull(mkdtemp(path));
    char file[80];
    snprintf(file, sizeof file, "%s/n.db", path);
    ck_assert_int_eq(ccl_notebook_open(file, true, &n, NULL), CCL_OK);
    ccl_tuning_t *none = tune(RAILS, few, CCL_STRATEGY_HALVING, 120, 2, NULL);
    ccl_tuning_t *part = tune(RAILS, few, CCL_STRATEGY_HALVING, 50, 2, n);
    ccl_tuning_t *whole = tune(RAILS, few, CCL_STRATEGY_HALVING, 120, 2, n);
    ccl_tuning_t *again = tune(RAILS, few, CCL_STRATEGY_HALVING, 120, 2, n);
    uint32_t resumed = 0;
    same(none, whole);
    same(none, again);
    for (uint32_t i = 0; i < whole->nruns; i++)
        resumed += whole->runs[i].resumed;
    ck_assert_uint_gt(resumed, 0);
    ck_assert_uint_lt(resumed, whole->nruns);
    for (uint32_t i = 0; i < again->nruns; i++)
        ck_assert(again->runs[i].resumed);
    ck_assert_uint_eq(again->schedules, 0);
    ccl_tuning_destroy(none);
    ccl_tuning_destroy(part);
    ccl_tuning_destroy(whole);
    ccl_tuning_destroy(again);
    ccl_notebook_close(n);
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

static bool tried(const ccl_tuning_t *t, double channels, double chunks) {
    for (uint32_t p = 0; p < t->npoints; p++) {
        const double *v = t->points[p].values;
        if (v[CCL_KNOB_CHANNELS] == channels && v[CCL_KNOB_CHUNKS] == chunks)
            return true;
    }
    return false;
}

/* With budget left, halving draws points up to two steps of channels and chunks above the best,
   and none above. The coarse grid has auto, 2 and 8, so 1 and 4 come by steps or draws only. */
START_TEST(test_levels) {
    static const char *const cuts[] = {"with=ring",
                                       "channels=auto,1,2,4,8,16",
                                       "chunks=auto,1,2,4,8,16",
                                       "order=auto",
                                       "allocate=auto",
                                       "granularity=auto",
                                       "proto=auto",
                                       NULL};
    ccl_tuning_t *t =
        tune("servers:1 gpus:3 nvswitch=100GB/s,1us", cuts, CCL_STRATEGY_HALVING, 150, 1, NULL);
    ck_assert_str_eq(t->stopped, "space");
    for (uint32_t z = 0; z < t->nsizes; z++) {
        const double *best = t->points[t->runs[t->best[z]].point].values;
        ck_assert(isnan(best[CCL_KNOB_CHANNELS]) && isnan(best[CCL_KNOB_CHUNKS]));
    }
    ck_assert(tried(t, 1, 1));
    ck_assert(!tried(t, 1, 4) && !tried(t, 4, 1));
    ck_assert(!tried(t, 4, 4) && !tried(t, 1, 16) && !tried(t, 16, 1));
    ccl_tuning_destroy(t);
}
END_TEST

/* Halving comes near to the best of the whole grid. */
START_TEST(test_halving) {
    ccl_tuning_t *grid = tune(RAILS, few, CCL_STRATEGY_GRID, 0, 2, NULL);
    ccl_tuning_t *halving = tune(RAILS, few, CCL_STRATEGY_HALVING, 0, 2, NULL);
    uint32_t grid_runs = 0, halving_runs = 0;
    for (uint32_t i = 0; i < grid->nruns; i++)
        grid_runs += !grid->runs[i].estimate;
    for (uint32_t i = 0; i < halving->nruns; i++)
        halving_runs += !halving->runs[i].estimate;
    ck_assert_uint_lt(halving_runs * 2, grid_runs);
    for (uint32_t s = 0; s < grid->nsizes; s++) {
        double best_s = grid->runs[grid->best[s]].result.time_s;
        double found_s = halving->runs[halving->best[s]].result.time_s;
        ck_assert_msg(found_s <= best_s * 1.02, "size %u: %g, grid %g", s, found_s, best_s);
        /* The fronts begin with the fewest blocks and end with the best. */
        uint32_t *front = NULL, n = 0;
        ck_assert_int_eq(ccl_tuning_front(grid, s, CCL_FRONT_BLOCKS, &front, &n, NULL), CCL_OK);
        ck_assert_uint_ge(n, 1);
        ck_assert(grid->runs[front[n - 1]].result.time_s == best_s);
        for (uint32_t i = 1; i < n; i++) {
            const ccl_point_result_t *a = &grid->runs[front[i - 1]].result;
            const ccl_point_result_t *b = &grid->runs[front[i]].result;
            ck_assert(a->thread_blocks < b->thread_blocks && a->time_s > b->time_s);
        }
        free(front);
    }
    ccl_knob_worth_t *worth = NULL;
    uint32_t n = 0, best_sizes = 0;
    ck_assert_int_eq(ccl_tuning_sensitivity(grid, &worth, &n, NULL), CCL_OK);
    ck_assert_uint_ge(n, 4 + 4 + 4 + 2 + 2);
    for (uint32_t i = 0; i < n; i++) {
        ck_assert(!(worth[i].slowdown < 1));
        best_sizes += worth[i].knob == CCL_KNOB_WITH ? worth[i].best_sizes : 0;
    }
    ck_assert_uint_eq(best_sizes, grid->nsizes);
    free(worth);
    ccl_tuning_destroy(grid);
    ccl_tuning_destroy(halving);
}
END_TEST

/* Two GPUs and one link: a size that is near its bound is not tuned on. */
START_TEST(test_bound_stops) {
    static const char *const knobs[] = {"with=ring", "batches=auto,1:1024", NULL};
    static const char pair[] = "servers:1 gpus:2 nvswitch=300GB/s,0.001us";
    ccl_tuning_t *t = tune(pair, knobs, CCL_STRATEGY_GRID, 0, 1, NULL);
    bool all = true;
    for (uint32_t s = 0; s < t->nsizes; s++)
        all &= t->done[s];
    ck_assert(strcmp(t->stopped, "gap") == 0 ? all : !all);
    for (uint32_t i = 0; i < t->nruns; i++)
        ck_assert(t->runs[i].result.status != CCL_OK ||
                  t->runs[i].result.time_s >= t->bound_s[t->runs[i].size] * (1 - 1e-9));
    ccl_tuning_destroy(t);
}
END_TEST

START_TEST(test_interrupted) {
    ccl_topology_t *topo = NULL;
    ccl_collective_t *want = NULL;
    ccl_space_t *space = NULL;
    ccl_tuning_t *out = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    int cancel = 1;
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ctx.cancel = &cancel;
    ccl_tune_options_t options = CCL_TUNE_OPTIONS_INIT;
    topo = topology(RAILS);
    ck_assert_int_eq(ccl_collective_create(CCL_ALLGATHER, topo->nranks, 1, 0, &want, NULL), CCL_OK);
    ck_assert_int_eq(ccl_space_create(&space, &err), CCL_OK);
    options.space = space;
    options.sizes_bytes = sizes;
    ck_assert_int_eq(ccl_tune(&ctx, topo, want, &options, &out, &err), CCL_ERR_INPUT); /* no size */
    options.nsizes = CCL_ARRAY_LEN(sizes);
    ccl_error_clear(&err);
    ck_assert_int_eq(ccl_tune(&ctx, topo, want, &options, &out, &err), CCL_INTERRUPTED);
    if (out)
        ck_assert(out->interrupted && out->nruns == 0);
    ccl_tuning_destroy(out);
    ccl_space_destroy(space);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    Suite *s = suite_create("tune");
    TCase *t = tcase_create("tune");
    tcase_set_timeout(t, 100);
    tcase_add_loop_test(t, test_threads, 0, 3);
    tcase_add_test(t, test_resume);
    tcase_add_test(t, test_switches);
    tcase_add_test(t, test_halving);
    tcase_add_test(t, test_levels);
    tcase_add_test(t, test_bound_stops);
    tcase_add_test(t, test_interrupted);
    suite_add_tcase(s, t);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}
