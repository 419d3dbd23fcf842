// timeout: 120
/*
 * Work on large clusters: what baselines do alike on every rail is simulated once. Events of
 * comparisons at one size on 64 GPUs; as soon as one rail is treated otherwise there are some
 * times as many. And what such comparisons need not hold.
 */
#include "make/make.h"
#include "tests/search/events.h"
#include "tests/topologies/topologies.h"

typedef struct question {
    const char *cluster, *contender;
    ccl_collective_kind_t kind;
    double size_bytes;
    double events; /* at most; 3 % above what there are */
    double before; /* as long as rails were not treated alike */
} question_t;

static const question_t QUESTIONS[] = {
    {"dgx-h100*8", "tree", CCL_ALLREDUCE, 1073741824, 69800, 1096264},
    {"dgx-h100*8", "nccl", CCL_ALLREDUCE, 67108864, 173500, 2150464},
};

START_TEST(test_events) {
    const question_t *q = &QUESTIONS[_i];
    const ccl_contender_t contender = {.name = q->contender,
                                       .library = strcmp(q->contender, "nccl") == 0};
    ccl_topology_t *topo = topology(q->cluster);
    uint64_t events = events_of(topo, q->kind, &contender, &q->size_bytes, 1);
    ck_assert_msg((double)events <= q->events, "%s at %.0f: %llu events, %.0f before", q->contender,
                  q->size_bytes, (unsigned long long)events, q->before);
    ccl_topology_destroy(topo);
}
END_TEST

/* AllGather by hm, recursive and ring, over one channel. */
enum { THREE = 3 };
static ccl_comparison_t *compare_three(const ccl_topology_t *topo, const double *sizes,
                                       uint32_t nsizes, uint32_t threads) {
    static const ccl_contender_t contenders[THREE] = {
        {.name = "hm"}, {.name = "recursive"}, {.name = "ring"}};
    ccl_collective_t *want = NULL;
    ccl_comparison_t *made = NULL;
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ccl_compare_options_t options = CCL_COMPARE_OPTIONS_INIT;
    ctx.threads = threads;
    options.contenders = contenders;
    options.ncontenders = THREE;
    options.sizes_bytes = sizes;
    options.nsizes = nsizes;
    options.synth.channels = 1;
    ck_assert_int_eq(ccl_collective_create(CCL_ALLGATHER, topo->nranks, 1, 0, &want, NULL), CCL_OK);
    ck_assert_int_eq(ccl_compare(&ctx, topo, want, &options, &made, NULL), CCL_OK);
    ccl_collective_destroy(want);
    return made;
}

/* On 256 GPUs whoever is far behind the winner is given back, on any number of threads; one that is
   near stays. */
START_TEST(test_released) {
    static const double sizes[] = {67108864}; /* recursive is 5 % behind */
    ccl_topology_t *topo = topology("servers:32 gpus:8 nvswitch=450GB/s,1us nics:8x50GB/s,2us");
    double times[2][THREE];
    for (uint32_t threads = 1; threads <= (SANITIZED ? 1 : 4); threads += 3) {
        ccl_comparison_t *made = compare_three(topo, sizes, 1, threads);
        uint32_t far = 0;
        for (uint32_t i = 0; i < THREE; i++) {
            const ccl_compare_cell_t *cells = made->cells;
            times[threads > 1][i] = cells[i].time_s;
            far += cells[i].time_s > 1.25 * cells[made->winner[0]].time_s;
        }
        ck_assert_uint_eq(far, 1);
        ck_assert_uint_eq(made->released, far);
        ccl_comparison_destroy(made);
    }
    if (!SANITIZED) /* on one thread only */
        ck_assert_mem_eq(times[0], times[1], sizeof times[0]);
    ccl_topology_destroy(topo);
}
END_TEST

/* On 416 GPUs one after the other is made, whatever the threads, and the times are the same. Not
   sanitized: that would take as long as all other tests here. */
START_TEST(test_alone) {
    static const double sizes[] = {1048576, 67108864};
    ccl_topology_t *topo = topology("servers:52 gpus:8 nvswitch=450GB/s,1us nics:8x50GB/s,2us");
    double times[2][2 * THREE];
    for (uint32_t threads = 1; threads <= 4; threads += 3) {
        ccl_comparison_t *made = compare_three(topo, sizes, 2, threads);
        for (uint32_t i = 0; i < 2 * THREE; i++)
            times[threads > 1][i] = made->cells[i].time_s;
        ck_assert_uint_eq(made->together, 1);
        ccl_comparison_destroy(made);
    }
    ck_assert_mem_eq(times[0], times[1], sizeof times[0]);
    ccl_topology_destroy(topo);
}
END_TEST

/* Who makes few transfers comes beside a large one, with the same times and spreads. */
START_TEST(test_beside) {
    static const ccl_contender_t contenders[] = {
        {.name = "hm"}, {.name = "tree"}, {.name = "direct"}};
    enum { N = CCL_ARRAY_LEN(contenders) };
    const double sizes[] = {1048576};
    ccl_topology_t *topo = topology("servers:52 gpus:8 nvswitch=450GB/s,1us nics:8x50GB/s,2us");
    ccl_collective_t *want = NULL;
    ccl_compare_options_t options = CCL_COMPARE_OPTIONS_INIT;
    ccl_compare_cell_t cells[2][N];
    options.contenders = contenders;
    options.ncontenders = N;
    options.sizes_bytes = sizes;
    options.nsizes = 1;
    options.synth.channels = 1;
    ck_assert_int_eq(ccl_collective_create(CCL_ALLREDUCE, topo->nranks, 1, 0, &want, NULL), CCL_OK);
    for (uint32_t threads = SANITIZED ? 3 : 1; threads <= 3; threads += 2) {
        ccl_comparison_t *made = NULL;
        ccl_ctx_t ctx = CCL_CTX_INIT;
        ctx.threads = threads;
        ck_assert_int_eq(ccl_compare(&ctx, topo, want, &options, &made, NULL), CCL_OK);
        memcpy(cells[threads > 1], made->cells, sizeof cells[0]);
        ck_assert_uint_le(made->together, threads > 1 ? 3 : 1);
        ccl_comparison_destroy(made);
    }
    for (uint32_t i = 0; i < N; i++) {
        const ccl_compare_cell_t *one = &cells[0][i], *more = &cells[1][i];
        ck_assert(more->status == CCL_OK || i == 2); /* direct has no room for its blocks there */
        if (SANITIZED)                               /* with three threads only */
            continue;
        ck_assert_int_eq(one->status, more->status);
        ck_assert(one->time_s == more->time_s && one->low_s == more->low_s &&
                  one->high_s == more->high_s);
    }
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}
END_TEST

/* Keeps what runs first, and stops. */
static int keep_first(const ccl_progress_t *progress, void *user) {
    char *first = user;
    if (!first[0])
        snprintf(first, 64, "%s", progress->phase);
    return 1;
}

/* What NCCL runs is proven before a large program is made, wherever it stands. */
START_TEST(test_library_first) {
    static const ccl_contender_t contenders[] = {{.name = "hm"}, {.name = "nccl", .library = true}};
    static const double sizes[] = {1048576};
    char first[64] = "";
    ccl_topology_t *topo = topology("dgx-h100*52");
    ccl_collective_t *want = NULL;
    ccl_comparison_t *made = NULL;
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ccl_compare_options_t options = CCL_COMPARE_OPTIONS_INIT;
    ctx.threads = 2;
    ctx.progress = keep_first;
    ctx.progress_user = first;
    options.contenders = contenders;
    options.ncontenders = CCL_ARRAY_LEN(contenders);
    options.sizes_bytes = sizes;
    options.nsizes = 1;
    ck_assert_int_eq(ccl_collective_create(CCL_ALLREDUCE, topo->nranks, 1, 0, &want, NULL), CCL_OK);
    ccl_compare(&ctx, topo, want, &options, &made, NULL);
    ck_assert_str_eq(first, "nccl at 1M");
    ccl_comparison_destroy(made);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}
END_TEST

/* Of millions of primitives that lowering makes there are no two copies. */
START_TEST(test_handed_over) {
    ccl_topology_t *topo = topology("dgx-h100*2");
    ccl_collective_t *want = NULL;
    ccl_made_t made = {0};
    ck_assert_int_eq(ccl_collective_create(CCL_ALLREDUCE, topo->nranks, 1, 0, &want, NULL), CCL_OK);
    ck_assert_int_eq(ccl_make(NULL, "recursive", topo, NULL, want, NULL, NULL, false, &made, NULL),
                     CCL_OK);
    ck_assert_ptr_nonnull(made.program->own_steps);
    ck_assert_ptr_eq(made.program->own_steps, made.program->steps);
    ccl_made_fini(&made);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("unit.search.large_work");
    TCase *tcase = tcase_create("events");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, test_events, 0, CCL_ARRAY_LEN(QUESTIONS));
    tcase_add_test(tcase, test_released);
    if (!SANITIZED)
        tcase_add_test(tcase, test_alone);
    tcase_add_test(tcase, test_beside);
    tcase_add_test(tcase, test_handed_over);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("order");
    tcase_add_test(tcase, test_library_first);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
