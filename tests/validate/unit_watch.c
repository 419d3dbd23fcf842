/* Calls of growing files: every line once whatever becomes of the files, medians, and suspects. */
#include "tests/validate/common.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[] = "/tmp/ccllab-watch-XXXXXX", file[100], other[100];

static void setup(void) {
    memcpy(dir + sizeof dir - 7, "XXXXXX", 6);
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(file, sizeof file, "%s/rank0.log", dir);
    snprintf(other, sizeof other, "%s/rank0.log.1", dir);
}

static void teardown(void) {
    unlink(file);
    unlink(other);
    ck_assert_int_eq(rmdir(dir), 0);
}

static void add(const char *path, const char *mode, const char *text) {
    FILE *f = fopen(path, mode);
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
}

/** A call as one rank logs it. */
static const char *call(char out[1000], uint32_t rank, uint32_t nranks, uint32_t nnodes,
                        uint32_t number, double size_bytes, double us) {
    snprintf(out, 1000,
             "{\"header\": {\"id\": \"0xab\", \"rank\": %u, \"n_ranks\": %u, \"nnodes\": %u}, "
             "\"coll_perf\": {\"coll\": \"AllReduce\", \"coll_sn\": %u, "
             "\"coll_msg_size_bytes\": %.0f, \"coll_exec_time_us\": %.3f}}\n",
             rank, nranks, nnodes, number, size_bytes, us);
    return out;
}

static ccl_watch_t *watch_of(const ccl_topology_t *topo, bool follow, uint32_t window) {
    ccl_watch_options_t options = CCL_WATCH_OPTIONS_INIT;
    ccl_watch_t *w = NULL;
    options.follow = follow;
    options.window = window;
    OK(ccl_watch_create(NULL, topo, &options, &w, &err));
    return w;
}

static uint64_t read_new(ccl_watch_t *w, const char *path) {
    uint64_t n = 99;
    OK(ccl_watch_read(w, path, &n, &err));
    return n;
}

static ccl_watch_table_t *judge(ccl_watch_t *w, bool known) {
    ccl_watch_table_t *table = NULL;
    OK(ccl_watch_judge(w, known, &table, &err));
    return table;
}

START_TEST(test_growing) {
    setup();
    ccl_topology_t *topo = topology("dgx-h100");
    ccl_watch_t *w = watch_of(topo, true, 0);
    char line[1000];
    ck_assert_uint_eq(read_new(w, file), 0); /* not there yet */
    add(file, "w", call(line, 0, 8, 1, 1, 1e6, 100));
    ck_assert_uint_eq(read_new(w, file), 1);
    ck_assert_uint_eq(read_new(w, file), 0);
    call(line, 0, 8, 1, 2, 1e6, 300);
    char half[1000];
    snprintf(half, sizeof half, "%.40s", line);
    add(file, "a", half);
    ck_assert_uint_eq(read_new(w, file), 0); /* the line's end is missing */
    add(file, "a", line + 40);
    ck_assert_uint_eq(read_new(w, file), 1);
    /* Renamed: what was still written to it comes first, then the new one from its start. */
    add(file, "a", call(line, 0, 8, 1, 3, 1e6, 200));
    ck_assert_int_eq(rename(file, other), 0);
    add(other, "a", call(line, 0, 8, 1, 4, 1e6, 200));
    add(file, "w", call(line, 0, 8, 1, 5, 1e6, 200));
    ck_assert_uint_eq(read_new(w, file), 3);
    /* Cut off: from the start. Bad lines are skipped, and counted. */
    add(file, "w", "");
    ck_assert_uint_eq(read_new(w, file), 0);
    add(file, "w", "no JSON\n\n{\"coll_perf\": {}}\n");
    ck_assert_uint_eq(read_new(w, file), 0);
    /* As long as before, and another: its beginning tells. */
    call(line, 0, 8, 1, 6, 1e6, 200);
    add(file, "w", line);
    ck_assert_uint_eq(read_new(w, file), 1);
    add(file, "w", "{\"summary\": {\"dropped_collectives\": 0, \"leaked_collectives\": 0}}\n");
    add(file, "a", call(line, 0, 8, 1, 7, 1e6, 200));
    add(file, "a", call(line, 0, 8, 1, 8, 1e6, 200));
    ck_assert_uint_eq(read_new(w, file), 2);
    /* Cut off, with the same beginning: its length tells. */
    add(file, "w", "{\"summary\": {\"dropped_collectives\": 0, \"leaked_collectives\": 0}}\n");
    add(file, "a", call(line, 0, 8, 1, 9, 1e6, 200));
    ck_assert_uint_eq(read_new(w, file), 1);
    ccl_watch_table_t *table = judge(w, true);
    ck_assert_uint_eq(table->calls, 9);
    ck_assert_uint_eq(table->bad, 2);
    ck_assert_uint_eq(table->nruns, 1);
    ck_assert_double_eq_tol(table->runs[0].rows[0].measured_s, 200e-6, 1e-12);
    ccl_watch_table_destroy(table);
    ccl_watch_destroy(w);
    ccl_topology_destroy(topo);
    teardown();
}
END_TEST

START_TEST(test_folder) {
    setup();
    ccl_topology_t *topo = topology("dgx-h100");
    ccl_watch_t *w = watch_of(topo, true, 0);
    char line[1000], ignored[100];
    add(file, "w", call(line, 0, 8, 1, 1, 1e6, 100));
    ck_assert_uint_eq(read_new(w, dir), 1);
    /* Renamed within the folder: it is the same file, and the new one another. */
    ck_assert_int_eq(rename(file, other), 0);
    add(other, "a", call(line, 0, 8, 1, 2, 1e6, 100));
    add(file, "w", call(line, 1, 8, 1, 1, 1e6, 80));
    ck_assert_uint_eq(read_new(w, dir), 2);
    snprintf(ignored, sizeof ignored, "%s/notes.txt", dir);
    add(ignored, "w", "no JSON\n");
    ck_assert_uint_eq(read_new(w, dir), 0);
    ccl_watch_table_t *table = judge(w, true);
    ck_assert_uint_eq(table->bad, 0);
    /* Calls of 80 (the least of two ranks) and of 100 us. */
    ck_assert_double_eq_tol(table->runs[0].rows[0].measured_s, 90e-6, 1e-12);
    ccl_watch_table_destroy(table);
    unlink(ignored);
    ccl_watch_destroy(w);
    ccl_topology_destroy(topo);
    teardown();
}
END_TEST

START_TEST(test_refused) {
    setup();
    static const struct {
        const char *text, *says;
        int line, column;
    } rows[] = {
        {"\n{\"coll_perf\": {\"coll\": \"AllReduce\"}}\n", "header", 2, 0},
        {"{\"header\": {\"n_ranks\": 8, \"rank\": 8}, \"coll_perf\": {}}", "rank", 1, 0},
        {"{\"header\": {\"n_ranks\": 8}, \"coll_perf\": {\"coll\": \"Sum\"}}", "\"Sum\"", 1, 0},
        {"AllReduce 8 ranks", "", 1, 9},
    };
    ccl_topology_t *topo = topology("dgx-h100");
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_watch_t *w = watch_of(topo, false, 0);
        ccl_error_t err = CCL_ERROR_INIT;
        uint64_t n;
        add(file, "w", rows[i].text);
        ck_assert_int_eq(ccl_watch_read(w, file, &n, &err), CCL_ERR_INPUT);
        ck_assert_int_eq(err.line, rows[i].line);
        ck_assert_msg(strstr(err.text, rows[i].says) && strstr(err.where, "rank0.log"), "%s: %s",
                      err.where, err.text);
        if (rows[i].column)
            ck_assert_int_eq(err.column, rows[i].column);
        ccl_watch_destroy(w);
    }
    ccl_watch_t *w = watch_of(topo, false, 0);
    ccl_error_t err = CCL_ERROR_INIT;
    uint64_t n;
    ck_assert_int_eq(ccl_watch_read(w, other, &n, &err), CCL_ERR_IO);
    ccl_watch_destroy(w);
    ccl_topology_destroy(topo);
    teardown();
}
END_TEST

/* The latest calls count, by number, in whatever order their ranks are read. */
START_TEST(test_window) {
    setup();
    ccl_topology_t *topo = topology("dgx-h100");
    ccl_watch_t *w = watch_of(topo, false, 5);
    ccl_text_t text = {0};
    char line[1000];
    for (uint32_t rank = 0; rank < 2; rank++)
        for (uint32_t n = 1; n <= 20; n++) /* the first fifteen are slow; rank 1 waits */
            ccl_text_printf(
                &text, "%s",
                call(line, rank, 8, 1, 10 * n, 1e6, (n <= 15 ? 900 : 100 + n) + 50 * rank));
    add(file, "w", text.data);
    ck_assert_uint_eq(read_new(w, file), 40);
    ccl_watch_table_t *table = judge(w, true);
    ck_assert_double_eq_tol(table->runs[0].rows[0].measured_s, 118e-6, 1e-12);
    ck_assert_uint_eq(table->runs[0].rows[0].calls, 40);
    ccl_watch_table_destroy(table);
    ccl_text_fini(&text);
    ccl_watch_destroy(w);
    ccl_topology_destroy(topo);
    teardown();
}
END_TEST

/** What a job of 16 GPUs logs. */
typedef struct job {
    double slow; /**< times what the model expects */
    const char *algo;
    unsigned bad;      /**< channels whose kernels take longer */
    double bad_share;  /**< ... than others, times */
    uint32_t channels; /**< that are logged, if any are bad */
    int late;          /**< a rank for which others wait; -1: none */
    double wait_share; /**< ... of their time in the call */
} job_t;

static void kernels(const job_t *job, double us, ccl_text_t *out) {
    for (uint32_t c = 0; c < job->channels && job->bad; c++)
        ccl_text_printf(out,
                        "%s{\"channel_id\": %u, \"kernel_start_ts\": 1000, "
                        "\"kernel_stop_ts\": %.3f}%s",
                        c ? ", " : ", \"event_trace_ts\": {\"kernel_events\": [", c,
                        1000 + us * (job->bad >> c & 1 ? job->bad_share : 1),
                        c + 1 == job->channels ? "]}" : "");
}

static void write_job(const ccl_topology_t *topo, const job_t *job) {
    static const double sizes_bytes[] = {16777216, 33554432, 67108864};
    ccl_predictor_t *predictor = NULL;
    ccl_text_t text = {0};
    OK(ccl_predictor_create(NULL, topo, NULL, 0, &predictor, &err));
    for (uint32_t s = 0; s < 3; s++) {
        ccl_prediction_t p;
        OK(ccl_predictor_run(predictor, CCL_ALLREDUCE, 0, sizes_bytes[s], NULL, &p, &err));
        const double us = p.time_s * 1e6 * job->slow;
        for (uint32_t n = 1; n <= 4; n++)
            for (uint32_t rank = 0; rank < topo->nranks; rank++) {
                bool waits = job->late >= 0 && rank != (uint32_t)job->late;
                char line[3000];
                ccl_text_t more = {0};
                ccl_text_printf(&more, ", \"coll_algo\": \"%s\", \"coll_proto\": \"SIMPLE\"",
                                job->algo);
                kernels(job, us, &more);
                snprintf(
                    line, sizeof line,
                    "{\"header\": {\"id\": \"0xab\", \"rank\": %u, \"n_ranks\": %u, "
                    "\"nnodes\": 2}, \"coll_perf\": {\"coll\": \"AllReduce\", \"coll_sn\": %u, "
                    "\"coll_msg_size_bytes\": %.0f, \"coll_exec_time_us\": %.3f%s}}\n",
                    rank, topo->nranks, 3 * n + s, sizes_bytes[s],
                    waits ? us / (1 - job->wait_share) : us, more.data);
                ccl_text_printf(&text, "%s", line);
                ccl_text_fini(&more);
            }
    }
    add(file, "w", text.data);
    ccl_text_fini(&text);
    ccl_predictor_destroy(predictor);
}

static const struct {
    const char *why;
    job_t job;
    uint32_t nslow;
    const char *verdict, *suspect, *not ; /* of 64 MiB */
} suspects[] = {
    {"as expected", {1, "NVLS_TREE", 0, 1, 16, -1, 0}, 0, "as expected", "", "x"},
    {"twice as slow", {2, "NVLS_TREE", 0, 1, 16, -1, 0}, 3, "3 of 3 sizes slow: ", "", "x"},
    {"faster", {0.5, "NVLS_TREE", 0, 1, 16, -1, 0}, 0, "3 of 3 sizes faster", "", "x"},
    {"another algorithm",
     {2, "RING", 0, 1, 16, -1, 0},
     3,
     "slow",
     "NCCL ran RING with SIMPLE, expected is nvlstree with Simple",
     "channel"},
    {"a rank comes late",
     {1, "NVLS_TREE", 0, 1, 16, 5, 0.25},
     0,
     "as expected",
     "rank 5 comes late: others wait ",
     "ranks"},
    {"a wait of 15 %", {1, "NVLS_TREE", 0, 1, 16, 5, 0.15}, 0, "as expected", "", "x"},
    {"a wait of 40 %, and less than 10 us",
     {0.01, "NVLS_TREE", 0, 1, 16, 5, 0.4},
     0,
     "3 of 3 sizes faster",
     "",
     "x"},
    {"one rail is slow",
     {2, "RING", 1u << 3 | 1u << 11, 2, 16, -1, 0},
     3,
     "slow",
     "channels 3, 11 take 2.0 times as long as others: the links of n0/s0/nic2, n0/s0/nic3, "
     "n1/s0/nic2, n1/s0/nic3, which only they use",
     "nic4"},
    {"a channel of a rail that another uses as well",
     {2, "RING", 1u << 3, 2, 16, -1, 0},
     3,
     "slow",
     "channel 3 takes 2.0 times as long as others;",
     "nic"},
    {"the same of eight channels, of which none uses that rail",
     {2, "RING", 1u << 3, 2, 8, -1, 0},
     3,
     "slow",
     "channel 3 takes 2.0 times as long as others: the links of n0/s0/nic2, ",
     "nic4"},
    {"a channel by 30 %",
     {1, "NVLS_TREE", 1u << 3, 1.3, 16, -1, 0},
     0,
     "as expected",
     "channel 3 takes 1.3 times",
     "x"},
    {"a channel by 20 %", {1, "NVLS_TREE", 1u << 3, 1.2, 16, -1, 0}, 0, "as expected", "", "x"},
};

START_TEST(test_suspects) {
    setup();
    ccl_topology_t *topo = topology("dgx-h100*2");
    for (size_t i = 0; i < CCL_ARRAY_LEN(suspects); i++) {
        ccl_watch_t *w = watch_of(topo, false, 0);
        write_job(topo, &suspects[i].job);
        ck_assert_uint_eq(read_new(w, file), 192);
        ccl_watch_table_t *table = judge(w, true);
        ck_assert_int_eq(table->runs[0].rows[2].state, CCL_WATCH_UNKNOWN);
        ck_assert_str_eq(table->runs[0].verdict, "3 of 3 sizes not judged yet");
        ccl_watch_table_destroy(table);
        table = judge(w, false);
        const ccl_watch_run_t *run = &table->runs[0];
        const ccl_watch_row_t *row = &run->rows[2];
        ck_assert_uint_eq(run->nrows, 3);
        ck_assert_uint_eq(table->nslow, suspects[i].nslow);
        ck_assert_double_eq_tol(row->ratio * suspects[i].job.slow, 1, 1e-3);
        ck_assert(row->bound_s > 0 && row->bound_s <= row->expected_s);
        ck_assert_msg(strstr(run->verdict, suspects[i].verdict) != NULL, "%s: %s", suspects[i].why,
                      run->verdict);
        ck_assert_msg(isfinite(run->probability) == (suspects[i].nslow > 0), "%s", suspects[i].why);
        ck_assert_msg((suspects[i].suspect[0] ? strstr(row->suspect, suspects[i].suspect) != NULL
                                              : row->suspect[0] == '\0') &&
                          !strstr(row->suspect, suspects[i].not ),
                      "%s: %s", suspects[i].why, row->suspect);
        ccl_watch_table_destroy(table);
        ccl_watch_destroy(w);
    }
    ccl_topology_destroy(topo);
    teardown();
}
END_TEST

/* What was long ago is forgotten: rank 1 was late in the first twenty calls. */
START_TEST(test_forgets) {
    setup();
    ccl_topology_t *topo = topology("dgx-h100");
    ccl_watch_t *w = watch_of(topo, false, 5);
    char line[1000];
    for (uint32_t part = 0; part < 2; part++) {
        ccl_text_t text = {0};
        for (uint32_t n = 1 + 20 * part; n <= 20 + 40 * part; n++)
            for (uint32_t rank = 0; rank < 8; rank++)
                ccl_text_printf(&text, "%s",
                                call(line, rank, 8, 1, n, 1e6, part || rank == 1 ? 100 : 1100));
        add(file, "a", text.data);
        ccl_text_fini(&text);
        read_new(w, file);
        ccl_watch_table_t *table = judge(w, false);
        const char *suspect = table->runs[0].rows[0].suspect;
        ck_assert_msg(part ? suspect[0] == '\0'
                           : strstr(suspect, "rank 1 comes late: others wait 1000 us") != NULL,
                      "%s", suspect);
        ccl_watch_table_destroy(table);
    }
    ccl_watch_destroy(w);
    ccl_topology_destroy(topo);
    teardown();
}
END_TEST

/* A table after another computes only what is new. */
START_TEST(test_kept) {
    setup();
    ccl_work_t work = {0};
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ccl_watch_t *w = NULL;
    ccl_topology_t *topo = topology("dgx-h100*2");
    ccl_watch_options_t options = CCL_WATCH_OPTIONS_INIT;
    ctx.work = &work;
    options.window = 4;
    OK(ccl_watch_create(&ctx, topo, &options, &w, &err));
    write_job(topo, &(job_t){2, "RING", 1u << 3 | 1u << 11, 2, 16, -1, 0});
    ck_assert_uint_eq(read_new(w, file), 192);
    ccl_watch_table_destroy(judge(w, false));
    ck_assert_uint_gt(work.runs, 3);
    work.runs = 0;
    ccl_watch_table_t *table = judge(w, false);
    ck_assert_uint_eq(work.runs, 0);
    ck_assert_ptr_nonnull(strstr(table->runs[0].verdict, "3 of 3 sizes slow: "));
    ccl_watch_table_destroy(table);
    /* Another set of slow sizes is another question. */
    char line[1000];
    for (uint32_t n = 100; n < 104; n++)
        add(file, "a", call(line, 0, 16, 2, n, 16777216, 10));
    ck_assert_uint_eq(read_new(w, file), 4);
    table = judge(w, false);
    ck_assert_uint_gt(work.runs, 0);
    ck_assert_ptr_nonnull(strstr(table->runs[0].verdict, "2 of 3 sizes slow: "));
    ccl_watch_table_destroy(table);
    ccl_watch_destroy(w);
    ccl_topology_destroy(topo);
    teardown();
}
END_TEST

/* One size of nine is just below the limit: the cluster is healthy rather than anything else. */
START_TEST(test_healthy) {
    setup();
    ccl_topology_t *topo = topology("dgx-h100");
    ccl_predictor_t *predictor = NULL;
    ccl_watch_t *w = watch_of(topo, false, 0);
    OK(ccl_predictor_create(NULL, topo, NULL, 0, &predictor, &err));
    for (uint32_t s = 0; s < 9; s++) {
        ccl_prediction_t p;
        char line[1000];
        const double size_bytes = ldexp(1e7, (int)s);
        OK(ccl_predictor_run(predictor, CCL_ALLREDUCE, 0, size_bytes, NULL, &p, &err));
        for (uint32_t n = 1; n <= 4; n++)
            add(file, "a", call(line, 0, 8, 1, n, size_bytes, p.time_s * (s == 4 ? 1.3e6 : 1e6)));
    }
    ck_assert_uint_eq(read_new(w, file), 36);
    ccl_watch_table_t *table = judge(w, false);
    ck_assert_str_eq(table->runs[0].verdict,
                     "1 of 9 sizes slow: by what the model misses on healthy clusters");
    ck_assert_double_gt(table->runs[0].probability, 0.5);
    ccl_watch_table_destroy(table);
    ccl_predictor_destroy(predictor);
    ccl_watch_destroy(w);
    ccl_topology_destroy(topo);
    teardown();
}
END_TEST

START_TEST(test_too_large) {
    setup();
    ccl_topology_t *topo = topology("dgx-h100");
    ccl_watch_t *w = watch_of(topo, false, 0);
    char line[1000];
    add(file, "w", call(line, 0, 64, 8, 1, 1e6, 100));
    ck_assert_uint_eq(read_new(w, file), 1);
    ccl_watch_table_t *table = judge(w, false);
    ck_assert_int_eq(table->runs[0].rows[0].state, CCL_WATCH_UNKNOWN);
    ck_assert_ptr_nonnull(strstr(table->runs[0].verdict, "no expectation: a run of 64 ranks"));
    ccl_watch_table_destroy(table);
    ccl_watch_destroy(w);
    ccl_topology_destroy(topo);
    teardown();
}
END_TEST

RUN_TESTS(test_growing, test_folder, test_refused, test_window, test_suspects, test_forgets,
          test_kept, test_healthy, test_too_large)
