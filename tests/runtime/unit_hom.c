// timeout: 120
/*
 * Starts and ends of clusters by vendors' libraries (runtime/hom*.c) while the program crosses the
 * border: a fake library (fakenccl.c) as NCCL and as RCCL on two pretended vendors. The data are
 * right, calls and volumes exactly as table 7 of HetCCL (Peking/BAAI) wants them.
 */
#include "common.h"
#include "tests/base/nightly.h"
#include "tests/schedule/mutants.h"

static const char mixed[] = "servers:1 gpus:4 nvswitch=200GB/s,1us nics:2x25GB/s,2us model=A + "
                            "servers:1 gpus:2 nvswitch=100GB/s,1us nics:2x25GB/s,2us model=B";
enum { RANKS = 6, ITEMS = 3000 }; /* of 4 bytes, a rank's block */

static char log_path[] = "/tmp/ccl-hom-XXXXXX";

static ccl_program_t *program_for(const char *with, ccl_collective_kind_t kind, const char *spec) {
    ccl_lower_options_t how = CCL_LOWER_OPTIONS_INIT;
    how.granularity = CCL_GRANULARITY_STAGE;
    how.stages = CCL_STAGES_PHASE;
    how.out_of_place = kind == CCL_ALLTOALL;
    return program_of(with, kind, spec, &how);
}

static ccl_run_options_t options(const char *folders, const char *fault) {
    ccl_run_options_t o = CCL_RUN_OPTIONS_INIT;
    setenv("CCL_DEVICE_PATH", folders, 1);
    setenv("CCL_TEST_DEVICES", "8", 1);
    setenv("CCL_TEST_NCCL_LOG", log_path, 1);
    unsetenv("CCL_TEST_NCCL_FAULT");
    if (fault)
        setenv("CCL_TEST_NCCL_FAULT", fault, 1);
    ck_assert_int_eq(truncate(log_path, 0), 0);
    o.device = "cuda*4,hip*2";
    o.ranks = CCL_RANKS_PROCESSES;
    o.processes = 3; /* 2 ranks each */
    o.granularity = CCL_GRANULARITY_STAGE;
    o.hom_library = CCL_LIBRARY_AUTO;
    o.size_bytes = 4 * ITEMS * RANKS;
    o.repeats = 2;
    o.warmups = 0;
    return o;
}

/** Lines of the log with this beginning. */
static uint32_t lines_of(const char *what) {
    char line[96];
    uint32_t n = 0;
    FILE *file = fopen(log_path, "r");
    ck_assert_ptr_nonnull(file);
    while (fgets(line, sizeof line, file))
        n += strncmp(line, what, strlen(what)) == 0;
    fclose(file);
    return n;
}

/* ---------------------------------------------------------------- calls and volumes */

/** Of one step. Calls: allgather, reducescatter, broadcast, reduce, sendrecv. */
typedef struct want {
    uint32_t calls[CCL_RUN_CALLS];
    double blocks; /* the sum of the counts, in blocks of ITEMS */
} want_t;

/*
 * Clusters of 4 ranks and of 2, all border ranks. AllReduce, Broadcast and Reduce have 6 blocks.
 * Counts are those of nccl.h: of an AllGather what a rank gives, of a ReduceScatter what it gets.
 */
static const struct {
    ccl_collective_kind_t kind;
    want_t start[2], end[2];
} cases[] = {
    /* Each gathers its own blocks; of those that came every rank has its part: two ranks of the
       first have the second's two blocks, both of the second two of four. */
    {CCL_ALLGATHER, {{{1}, 1}, {{1}, 1}}, {{{0, 0, 2}, 2}, {{1}, 2}}},
    /* A sum for each of the cluster's own ranks, and for each foreign one at a border rank. */
    {CCL_REDUCESCATTER, {{{0, 1, 0, 2}, 1 + 2}, {{0, 2}, 1 + 2}}, {{{0}, 0}, {{0}, 0}}},
    /* Both halves of the data are summed and handed out over all ranks of each cluster. */
    {CCL_ALLREDUCE, {{{0, 2}, 6. / 4}, {{0, 2}, 6. / 2}}, {{{2}, 6. / 4}, {{2}, 6. / 2}}},
    /* From the root, and from where halves came over the border. */
    {CCL_BROADCAST, {{{0, 0, 1}, 6}, {{0}, 0}}, {{{0}, 0}, {{1}, 6. / 2}}},
    {CCL_REDUCE, {{{0, 0, 0, 1}, 6}, {{0, 0, 0, 3}, 6}}, {{{0}, 0}, {{0}, 0}}},
    /* To the root: three at once, and what came on its neighbour. */
    {CCL_GATHER, {{{0, 0, 0, 0, 3}, 3}, {{0}, 0}}, {{{0, 0, 0, 0, 1}, 1}, {{0}, 0}}},
    {CCL_SCATTER, {{{0, 0, 0, 0, 4}, 3 + 1}, {{0}, 0}}, {{{0}, 0}, {{0}, 0}}},
    /* All pairs, a rank with itself too; of two ranks what one gives is a broadcast. */
    {CCL_ALLTOALL, {{{0, 0, 0, 0, 16}, 16}, {{0, 0, 2, 0, 2}, 4}}, {{{0}, 0}, {{0}, 0}}},
};

static void check_step(const ccl_run_cluster_step_t *s, const want_t *want, const char *library,
                       const char *what) {
    bool any = false;
    for (uint32_t c = 0; c < CCL_RUN_CALLS; c++) {
        any |= want->calls[c] > 0;
        ck_assert_msg(s->calls[c] == want->calls[c], "%s: %u %s, not %u", what, s->calls[c],
                      ccl_run_call_name((ccl_run_call_t)c), want->calls[c]);
    }
    ck_assert_int_eq(s->by, any ? CCL_RUN_BY_LIBRARY : CCL_RUN_BY_NOBODY);
    ck_assert_msg(s->bytes == 4 * ITEMS * want->blocks, "%s: %g blocks, not %g", what,
                  s->bytes / 4 / ITEMS, want->blocks);
    ck_assert_str_eq(s->why, "");
    ck_assert(!any || strcmp(library, "") != 0);
}

/** What the library saw: every call by every rank of the cluster, in the first run and two more. */
static void check_log(const ccl_run_result_t *r) {
    uint32_t want[CCL_RUN_CALLS] = {0};
    for (uint32_t c = 0; c < r->nclusters; c++)
        for (uint32_t k = 0; k < CCL_RUN_CALLS; k++)
            want[k] += (r->clusters[c].start.calls[k] + r->clusters[c].end.calls[k]) *
                       (k == CCL_CALL_SENDRECV ? 1 : r->clusters[c].nranks);
    for (uint32_t k = 0; k < CCL_CALL_SENDRECV; k++) {
        char name[24];
        snprintf(name, sizeof name, "%s ", ccl_run_call_name((ccl_run_call_t)k));
        ck_assert_uint_eq(lines_of(name), 3 * want[k]);
    }
    ck_assert_uint_eq(lines_of("send "), 3 * want[CCL_CALL_SENDRECV]);
    ck_assert_uint_eq(lines_of("recv "), 3 * want[CCL_CALL_SENDRECV]);
}

/* Sanitized every second one, as three processes start twice; of the others but Reduce and AllToAll
   there are more below. */
START_TEST(test_volumes) {
    if (SANITIZED && !nightly() && (_i + _i / 2) % 2 == 0)
        return;
    const char *what = ccl_collective_kind_name(cases[_i].kind);
    ccl_program_t *p = program_for(_i % 2 ? "c2c" : "c2c-sequential", cases[_i].kind, mixed);
    ccl_run_options_t o = options(FAKE_BOTH, NULL);
    ccl_run_result_t *r = run_right(p, &o, what);
    ck_assert_uint_gt(r->checked_items, 0);
    ck_assert(r->min_s > 0);
    ck_assert_uint_eq(r->nclusters, 2);
    for (uint32_t c = 0; c < 2; c++) {
        const ccl_run_cluster_t *k = &r->clusters[c];
        ck_assert_str_eq(k->device, c ? "hip" : "cuda");
        ck_assert_str_eq(k->library, c ? "rccl 2.19.4" : "nccl 2.19.4");
        ck_assert(k->nranks == (c ? 2 : 4) && k->first_rank == 4 * c && k->last_rank == 3 + 2 * c);
        check_step(&k->start, &cases[_i].start[c], k->library, what);
        check_step(&k->end, &cases[_i].end[c], k->library, what);
    }
    check_log(r);
    /* The program alone moves more slices, and says nothing of clusters. */
    uint64_t transfers = r->transfers;
    ccl_run_result_destroy(r);
    o.hom_library = CCL_LIBRARY_NONE;
    r = run_right(p, &o, what);
    ck_assert(!r->clusters && r->transfers > transfers);
    ccl_run_result_destroy(r);
    ccl_program_destroy(p);
}
END_TEST

/* ---------------------------------------------------------------- other groups */

static const char three[] = "servers:1 gpus:3 nvswitch=200GB/s,1us nics:1x25GB/s,2us model=A + "
                            "servers:1 gpus:2 nvswitch=100GB/s,1us nics:1x25GB/s,2us model=B + "
                            "servers:2 gpus:2 nvswitch=100GB/s,1us nics:1x25GB/s,2us model=C";

/* Groups without a library run the program for all steps; sizes that do not divide, other types.
   For every change half of the collectives, as here nine processes start, and out of place the
   others. */
START_TEST(test_some_without) {
    if (!nightly() && ((_i + _i / 4) % 2 || (SANITIZED && _i % 3)))
        return;
    ccl_collective_kind_t kind = cases[_i].kind;
    ccl_program_t *p = program_for("c2c", kind, three);
    ccl_run_options_t o = options(FAKE_BOTH, NULL);
    o.device = "cuda*3,host*2,hip*4";
    o.processes = 9;
    o.size_bytes = 50001;
    o.type = (ccl_type_t)(_i % CCL_TYPES);
    o.op = (ccl_reduction_t)(_i % CCL_REDUCTIONS);
    ccl_run_result_t *r = run_right(p, &o, ccl_collective_kind_name(kind));
    uint32_t used = 0;
    for (uint32_t c = 0; c < r->nclusters; c++) {
        const ccl_run_cluster_t *k = &r->clusters[c];
        const ccl_run_cluster_step_t *steps[] = {&k->start, &k->end};
        bool host = strcmp(k->device, "host") == 0;
        for (int i = 0; i < 2; i++) {
            used += steps[i]->by == CCL_RUN_BY_LIBRARY;
            ck_assert(steps[i]->by != (host ? CCL_RUN_BY_LIBRARY : CCL_RUN_BY_PROGRAM));
            ck_assert(!host || steps[i]->by == CCL_RUN_BY_NOBODY ||
                      strcmp(steps[i]->why, "nccl runs on cuda devices, not on host") == 0);
        }
    }
    ck_assert_uint_gt(used, 0);
    ccl_run_result_destroy(r);
    ccl_program_destroy(p);
}
END_TEST

/* One library asked for, too few devices, out of place with the program's own copies. */
START_TEST(test_one) {
    ccl_program_t *p = program_for("c2c", CCL_ALLGATHER, mixed);
    ccl_run_options_t o = options(FAKE_BOTH, NULL);
    o.hom_library = CCL_LIBRARY_RCCL;
    ccl_run_result_t *r = run_right(p, &o, "rccl alone");
    ck_assert_int_eq(r->clusters[0].start.by, CCL_RUN_BY_PROGRAM);
    ck_assert_str_eq(r->clusters[0].end.why, "rccl runs on hip devices, not on cuda");
    ck_assert_int_eq(r->clusters[1].end.by, CCL_RUN_BY_LIBRARY);
    ck_assert_uint_eq(lines_of("allgather 0 of 4"), 0);
    ck_assert_uint_eq(lines_of("allgather 0 of 2"), 2 * 3);
    ccl_run_result_destroy(r);
    o = options(FAKE_BOTH, NULL);
    setenv("CCL_TEST_DEVICES", "2", 1);
    r = run_right(p, &o, "two devices");
    ck_assert_str_eq(r->clusters[0].start.why, "it wants a device for every rank");
    ck_assert_int_eq(r->clusters[1].start.by, CCL_RUN_BY_LIBRARY);
    ccl_run_result_destroy(r);
    o = options(FAKE_GPU ":" FAKE_OLD_NCCL, NULL);
    r = run_right(p, &o, "no library that will do");
    ck_assert_str_eq(r->clusters[1].start.why,
                     "librccl.so.1 has no ncclSend: version 2.7 or later is needed");
    ccl_run_result_destroy(r);
    ccl_program_destroy(p);
}
END_TEST

START_TEST(test_out_of_place) {
    if (!nightly() && ((_i + _i / 4) % 2 == 0 || (SANITIZED && _i % 3)))
        return;
    ccl_lower_options_t how = CCL_LOWER_OPTIONS_INIT;
    how.granularity = CCL_GRANULARITY_STAGE;
    how.stages = CCL_STAGES_PHASE;
    how.out_of_place = true;
    ccl_program_t *p = program_of("c2c", cases[_i].kind, mixed, &how);
    ccl_run_options_t o = options(FAKE_BOTH, NULL);
    o.out_of_place = true;
    ccl_run_result_t *r = run_right(p, &o, ccl_collective_kind_name(cases[_i].kind));
    ck_assert_int_eq(r->clusters[0].start.by, CCL_RUN_BY_LIBRARY);
    ccl_run_result_destroy(r);
    ccl_program_destroy(p);
}
END_TEST

/* In place with one of the two buffers only, as files have it; in turn, at night with each. */
START_TEST(test_one_buffer) {
    if (SANITIZED && !nightly() && _i % 3)
        return;
    for (uint32_t keep = CCL_BUF_INPUT; keep <= CCL_BUF_OUTPUT; keep++) {
        if (!nightly() && keep != CCL_BUF_INPUT + (uint32_t)_i % 2)
            continue;
        ccl_program_t *p = program_for("c2c", cases[_i].kind, mixed), m = mutant_of(p);
        ccl_run_options_t o = options(FAKE_BOTH, NULL);
        if (p->in_place)
            mutant_fold(&m, (ccl_buffer_t)keep);
        ccl_run_result_t *r = run_right(&m, &o, ccl_collective_kind_name(cases[_i].kind));
        ck_assert_int_eq(r->clusters[0].start.by, CCL_RUN_BY_LIBRARY);
        ccl_run_result_destroy(r);
        mutant_free(&m);
        ccl_program_destroy(p);
    }
}
END_TEST

/* ---------------------------------------------------------------- what goes wrong */

static void must_fail(const ccl_program_t *p, const ccl_run_options_t *o, ccl_status_t want,
                      const char *text) {
    ccl_run_result_t *r = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_status_t status = ccl_run_program(NULL, p, o, &r, &err);
    ck_assert_msg(status == want && strstr(err.text, text), "%s: %s, not: %s",
                  ccl_status_name(status), err.text, text);
    ccl_run_result_destroy(r);
}

/* Of the first or of a later process: in turn, at night of each. */
START_TEST(test_faults) {
    static const struct {
        const char *fault;
        ccl_status_t status;
        const char *text;
    } faults[] = {
        {"wrong", CCL_CHECK, "wrong data in run 0: rank "},
        {"refuse", CCL_ERR_IO, "ccl: start inside a cluster: invalid usage (fake)"},
        {"refuse_second", CCL_ERR_IO, "ccl: end inside a cluster: invalid usage (fake)"},
        {"hang", CCL_ERR_IO, "was not done with the start of the cluster of rank "},
        {"hang_second", CCL_ERR_IO, "was not done with the end of the cluster of rank "},
    };
    if (!nightly() && _i / 5 != _i % 5 % 2)
        return;
    ccl_program_t *p = program_for("c2c", CCL_ALLREDUCE, mixed);
    ccl_run_options_t o = options(FAKE_BOTH, faults[_i % 5].fault);
    o.watchdog_s = 0.4;
    if (_i >= 5) { /* one vendor's library alone, not in process 0 */
        o.device = "hip*4,cuda*2";
        o.hom_library = CCL_LIBRARY_NCCL;
    }
    must_fail(p, &o, faults[_i % 5].status, faults[_i % 5].text);
    ccl_program_destroy(p);
}
END_TEST

START_TEST(test_refused) {
    ccl_program_t *p = program_for("c2c", CCL_ALLGATHER, mixed);
    ccl_run_options_t o = options(FAKE_BOTH, NULL);
    o.device = "cuda";
    must_fail(p, &o, CCL_UNSUPPORTED, "nothing crosses between vendors; --with-ccl");
    o = options(FAKE_BOTH, NULL);
    o.device = "cuda*2,hip*4"; /* not the clusters of the program */
    must_fail(p, &o, CCL_UNSUPPORTED, "the program has no stages before or after those");
    o.device = "cuda*4,hip*2";
    o.granularity = CCL_GRANULARITY_ALGORITHM;
    must_fail(p, &o, CCL_ERR_USAGE, "want a program at stage level");
    o.granularity = CCL_GRANULARITY_STAGE;
    o.library = CCL_LIBRARY_AUTO;
    must_fail(p, &o, CCL_ERR_USAGE, "the whole collective or the insides of clusters, not both");
    ccl_program_destroy(p);
    p = program_of("ring", CCL_ALLGATHER, mixed, NULL);
    o.library = CCL_LIBRARY_NONE;
    must_fail(p, &o, CCL_UNSUPPORTED, "the program has no stages before or after those");
    ccl_program_destroy(p);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("hom");
    TCase *tests = tcase_create("hom");
    if (mkstemp(log_path) < 0)
        return 1;
    tcase_set_timeout(tests, 0);
    tcase_add_loop_test(tests, test_volumes, 0, CCL_ARRAY_LEN(cases));
    tcase_add_loop_test(tests, test_some_without, 0, CCL_ARRAY_LEN(cases));
    tcase_add_test(tests, test_one);
    tcase_add_loop_test(tests, test_out_of_place, 0, CCL_ARRAY_LEN(cases));
    tcase_add_loop_test(tests, test_one_buffer, 0, CCL_ARRAY_LEN(cases));
    tcase_add_loop_test(tests, test_faults, 0, 10);
    tcase_add_test(tests, test_refused);
    suite_add_tcase(suite, tests);
    int failed = run_suite(suite);
    unlink(log_path);
    return failed;
}
