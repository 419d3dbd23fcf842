/* Logs of nccl-tests and rccl-tests behind prefixes, old and new columns; CSV; JSON lines. */
#include "tests/validate/common.h"

static const char old_log[] =
    "# nThread 1 nGpus 4 minBytes 8 maxBytes 1024 step: 2(factor) warmup iters: 5 iters: 20\n"
    "#\n"
    "# Using devices\n"
    "#   Rank  0 Pid 112424 on localhost device  0 [0x00] A100-SXM4-40GB\n"
    "#   Rank  1 Pid 112424 on localhost device  1 [0x00] A100-SXM4-40GB\n"
    "#   Rank  2 Pid 112424 on localhost device  2 [0x00] A100-SXM4-40GB\n"
    "#   Rank  3 Pid 112424 on localhost device  3 [0x00] A100-SXM4-40GB\n"
    "#\n"
    "#                                            out-of-place                    in-place\n"
    "#   size    count   type   redop    time   algbw   busbw  error   time   algbw   busbw  "
    "error\n"
    "#    (B)  (elements)                (us)  (GB/s)  (GB/s)          (us)  (GB/s)  (GB/s)\n"
    "hostname:3442:3442 [0] NCCL INFO Launch mode Parallel\n"
    "       0       0   float     sum   35.20    0.00    0.00    N/A  34.05    0.00    0.00    "
    "N/A\n"
    "    1024     256   float     sum   36.07    0.03    0.05    N/A  35.77    0.03    0.05    "
    "N/A\n"
    " 1048576  262144   float     sum   74.78   14.02   21.03    N/A  76.17   13.77   20.66    "
    "N/A\n"
    "# Out of bounds values : 0 OK\n";

START_TEST(test_old_columns) {
    ccl_measured_log_t *log = log_of(old_log);
    ck_assert_uint_eq(log->nruns, 1);
    const ccl_measured_run_t *run = &log->runs[0];
    /* redop without root and busbw / algbw = 1.5 on 4 ranks */
    ck_assert(run->known && run->kind == CCL_ALLREDUCE);
    ck_assert_uint_eq(run->nranks, 4);
    ck_assert_uint_eq(run->nhosts, 1);
    ck_assert_str_eq(run->gpu, "A100-SXM4-40GB");
    ck_assert_str_eq(run->type, "float");
    ck_assert_uint_eq(run->npoints, 2); /* nothing moves in the row of 0 bytes */
    ck_assert_double_eq(run->points[1].size_bytes, 1048576);
    ck_assert_double_eq_tol(run->points[1].time_s, 74.78e-6, 1e-12);
    ck_assert_double_eq_tol(run->points[1].in_place_time_s, 76.17e-6, 1e-12);
    ck_assert_uint_eq(run->points[1].line, 15);
    ck_assert_uint_eq(log->nskipped, 0);
    ccl_measured_log_destroy(log);
}
END_TEST

/* The same rows behind what launchers put before them. */
START_TEST(test_prefixes) {
    static const char *const prefixes[] = {
        "[1,0]<stdout>:", "0: ", "node-17: ", "[1,0]<stdout>: ", "2024-05-01 10:11:12 gpu01 | "};
    for (size_t p = 0; p < CCL_ARRAY_LEN(prefixes); p++) {
        ccl_text_t text = {0};
        for (const char *line = old_log; *line; line = strchr(line, '\n') + 1) {
            ccl_text_printf(&text, "%s", prefixes[p]);
            ccl_text_add(&text, line, (size_t)(strchr(line, '\n') - line) + 1);
        }
        ccl_measured_log_t *log = log_of(text.data);
        ck_assert_uint_eq(log->nruns, 1);
        ck_assert_msg(log->runs[0].npoints == 2, "prefix \"%s\": %u points", prefixes[p],
                      log->runs[0].npoints);
        ck_assert_uint_eq(log->runs[0].nranks, 4);
        ck_assert(log->runs[0].known && log->runs[0].kind == CCL_ALLREDUCE);
        ck_assert_double_eq_tol(log->runs[0].points[1].time_s, 74.78e-6, 1e-12);
        ccl_measured_log_destroy(log);
        ccl_text_fini(&text);
    }
}
END_TEST

static const char new_log[] =
    "# nccl-tests version 2.17.4 nccl-headers=22807 nccl-library=22807\n"
    "# Collective test starting: alltoall_perf\n"
    "# nThread 1 nGpus 1 minBytes 1024 maxBytes 2048 step: 2(factor) warmup iters: 1 iters: 20 agg "
    "iters: 1 validation: 1 graph: 0\n"
    "# Using devices\n"
    "#  Rank  0 Group  0 Pid   1 on node-a device  0 [0000:19:00] NVIDIA H100 80GB HBM3\n"
    "#  Rank  1 Group  0 Pid   2 on node-b device  0 [0000:19:00] NVIDIA H100 80GB HBM3\n"
    "node-a:1:1 [0] NCCL INFO 24 coll channels, 24 collnet channels, 0 nvls channels\n"
    "#  size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw  busbw  #wrong\n"
    "   1024    128  float  none   -1  10.00   0.10   0.05      0  N/A    N/A     N/A     N/A\n"
    "   2048    256  float  none   -1  20.00   0.10   0.05   0e+00  21.0   0.10    0.05    0\n"
    "# Collective test starting: all_gather_perf\n"
    "#  size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw  busbw  #wrong\n"
    "   4096    256  half   none   -1  30.00   0.13   0.07      0  31.0   0.13    0.06    0\n"
    "   8192    512  half   none   -1  3node-a:1:1 [0] NCCL INFO something else\n";

START_TEST(test_new_columns) {
    ccl_measured_log_t *log = log_of(new_log);
    ck_assert_uint_eq(log->nruns, 2);
    const ccl_measured_run_t *first = &log->runs[0], *second = &log->runs[1];
    ck_assert(first->known && first->kind == CCL_ALLTOALL);
    ck_assert_uint_eq(first->nranks, 2);
    ck_assert_uint_eq(first->nhosts, 2);
    ck_assert_uint_eq(first->channels, 24);
    ck_assert_uint_eq(first->version, 22807);
    ck_assert(first->no_nvls);
    ck_assert_str_eq(first->gpu, "NVIDIA H100 80GB HBM3");
    ck_assert_uint_eq(first->npoints, 2);
    ck_assert(first->points[0].in_place_time_s == 0 && first->points[1].in_place_time_s > 2e-5);
    ck_assert(second->known && second->kind == CCL_ALLGATHER);
    ck_assert_uint_eq(second->npoints, 1);
    ck_assert_str_eq(second->type, "half");
    ck_assert_uint_eq(log->nskipped, 1);
    ck_assert_uint_eq(log->first_skipped, 14);
    ccl_measured_log_destroy(log);
}
END_TEST

/* Which collective it was, from the columns and busbw / algbw alone. */
START_TEST(test_inferred) {
    static const struct {
        const char *why, *columns, *fields;
        double busbw;
        bool known;
        ccl_collective_kind_t kind;
    } rows[] = {
        {"reduces, (n-1)/n", "redop", "sum", 7.5, true, CCL_REDUCESCATTER},
        {"reduces, 2(n-1)/n", "redop root", "sum -1", 15, true, CCL_ALLREDUCE},
        {"reduces to a root", "redop root", "sum 0", 10, true, CCL_REDUCE},
        {"from a root", "root", "0", 10, true, CCL_BROADCAST},
        {"all_gather or alltoall", "", "", 7.5, false, CCL_ALLGATHER},
        {"all_gather or alltoall, new columns", "redop root", "none -1", 7.5, false, CCL_ALLGATHER},
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        char text[600];
        snprintf(text, sizeof text,
                 "# nThread 1 nGpus 4 minBytes 8\n# size count type %s time algbw busbw error time "
                 "algbw busbw error\n 1048576 262144 float %s 100.0 10.00 %.2f 0 100.0 10.00 %.2f "
                 "0\n",
                 rows[i].columns, rows[i].fields, rows[i].busbw, rows[i].busbw);
        ccl_measured_log_t *log = log_of(text);
        const ccl_measured_run_t *run = &log->runs[0];
        ck_assert_uint_eq(run->nranks, 4);
        ck_assert_msg(run->known == rows[i].known, "%s", rows[i].why);
        ck_assert_msg(!run->known || run->kind == rows[i].kind, "%s: %s", rows[i].why,
                      ccl_collective_kind_name(run->kind));
        ccl_measured_log_destroy(log);
    }
}
END_TEST

START_TEST(test_csv) {
    ccl_measured_log_t *log =
        log_of("framework,version,device,op_name,kernel_source,nccl_dtype,num_gpus,message_size,"
               "latency\n"
               "T,2.27.3,\"NVIDIA A100, 80GB\",all_gather,NCCL,half,2,256,0.00898\n"
               "T,2.27.3,\"NVIDIA A100, 80GB\",all_gather,NCCL,half,2,512,0.009\r\n"
               "T,2.27.3,\"NVIDIA A100, 80GB\",all_gather,NCCL,int8,2,512,0.009\n"
               "T,2.29.2,\"NVIDIA A100, 80GB\",all_gather,NCCL,half,2,512,0.008\n");
    ck_assert_uint_eq(log->nruns, 3);
    ck_assert_str_eq(log->runs[0].gpu, "NVIDIA A100, 80GB");
    ck_assert_uint_eq(log->runs[0].npoints, 2);
    ck_assert_double_eq(log->runs[0].points[1].size_bytes, 1024); /* half: 2 bytes */
    ck_assert_double_eq_tol(log->runs[0].points[1].time_s, 9e-6, 1e-15);
    ck_assert_double_eq(log->runs[1].points[0].size_bytes, 512);
    ck_assert_str_eq(log->runs[2].label, "2.29.2");
    ccl_measured_log_destroy(log);
    log = log_of("source,op,gpu,ranks,nodes,config,size_bytes,oop_us,oop_algbw,oop_busbw,ip_us\n"
                 "somebody#1,all_reduce,A100,24,3,\"4 NICs; default\",1048576,2560.7,1,1,2556.2\n"
                 "somebody#2,all_reduce,A100,16,2,x,1048576,,,127.38,\n"
                 "somebody#3,alltoall,H100,4,1,x,524288000,,,,1163.4\n");
    ck_assert_uint_eq(log->nruns, 2); /* a bandwidth without a time is no measurement */
    ck_assert_uint_eq(log->runs[0].nhosts, 3);
    ck_assert_double_eq_tol(log->runs[0].points[0].in_place_time_s, 2556.2e-6, 1e-12);
    ck_assert(log->runs[1].points[0].time_s == 0);
    ccl_measured_log_destroy(log);
}
END_TEST

START_TEST(test_json_lines) {
    ccl_measured_log_t *log =
        log_of("{\"name\":\"allgather\", \"kernel\":1, \"ranks\":16,\"ranksPerNode\":8, "
               "\"size\":1024, \"time\":12.5}\n\n"
               "{\"name\":\"allgather\", \"kernel\":1, \"ranks\":16,\"ranksPerNode\":8, "
               "\"size\":2048, \"time\":13.5}\n"
               "{\"name\":\"allreduce\", \"ranks\":8, \"size\":8, \"time\":6}\n");
    ck_assert_uint_eq(log->nruns, 2);
    ck_assert_uint_eq(log->runs[0].npoints, 2);
    ck_assert_uint_eq(log->runs[0].nhosts, 2);
    ck_assert_str_eq(log->runs[0].label, "kernel 1");
    ccl_measured_log_destroy(log);
}
END_TEST

/* Which collectives rows can be of: digits that were cut off count, so that 79/80 is not 1. */
START_TEST(test_candidates) {
    static const struct {
        const char *why, *columns, *fields;
        uint32_t nranks;
        double algbw, busbw;
        uint32_t kinds;
    } rows[] = {
#define K_(kind) (1u << CCL_##kind)
        {"two alike", "redop root", "none -1", 80, 50, 49.38, K_(ALLGATHER) | K_(ALLTOALL)},
        {"from or to a root", "redop root", "none 0", 8, 50, 43.75, K_(GATHER) | K_(SCATTER)},
        {"one peer each", "redop root", "none -1", 80, 50, 50, K_(SENDRECV)},
        {"2(n-1)/n is 1 on two ranks", "redop root", "sum -1", 2, 50, 50, K_(ALLREDUCE)},
        {"too small to tell", "redop root", "none -1", 80, 0.01, 0.01,
         K_(ALLGATHER) | K_(ALLTOALL) | K_(SENDRECV)},
        {"of no collective", "redop root", "none -1", 8, 50, 20, 0},
#undef K_
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        char text[600];
        snprintf(text, sizeof text,
                 "# nThread 1 nGpus %u minBytes 8\n# size count type %s time algbw busbw error\n"
                 " 1048576 262144 float %s 100.0 %.2f %.2f 0\n",
                 rows[i].nranks, rows[i].columns, rows[i].fields, rows[i].algbw, rows[i].busbw);
        ccl_measured_log_t *log = log_of(text);
        ck_assert_msg(ccl_measured_candidates(&log->runs[0]) == rows[i].kinds, "%s: %x",
                      rows[i].why, ccl_measured_candidates(&log->runs[0]));
        ccl_measured_log_destroy(log);
    }
}
END_TEST

/* NCCL's variables, as NCCL or the launcher names them; the mean that nccl-tests prints. */
START_TEST(test_settings) {
    ccl_measured_log_t *log =
        log_of("mpirun -x NCCL_ALGO=Tree -x NCCL_DEBUG=INFO all_reduce_perf -b 8\n"
               "# nThread 1 nGpus 4 minBytes 8\n"
               "a:1:1 [0] NCCL INFO NCCL_ALGO set by environment to Ring.\n"
               "a:1:1 [0] NCCL INFO NCCL_MAX_NCHANNELS set by environment to 8.\n"
               "a:1:1 [0] NCCL INFO NCCL_BUFFSIZE set by environment to 8388608.\n"
               " 1024 256 float sum -1 30.0 0.03 0.05 0 30.0 0.03 0.07 0\n"
               "# Avg bus bandwidth    : 0.06\n");
    const ccl_measured_run_t *run = &log->runs[0];
    ck_assert_str_eq(ccl_measured_setting(run, "NCCL_ALGO"), "Ring");
    ck_assert_str_eq(ccl_measured_setting(run, "NCCL_BUFFSIZE"), "8388608");
    ck_assert_ptr_null(ccl_measured_setting(run, "NCCL_PROTO"));
    ck_assert_ptr_null(ccl_measured_setting(run, "NCCL_DEBUG"));
    ck_assert_uint_eq(run->nsettings, 3);
    ck_assert_uint_eq(run->channels, 8);
    ck_assert_double_eq_tol(run->average_GBps, 0.06, 1e-9);
    ck_assert_double_eq_tol(run->rows_GBps, 0.06, 1e-9);
    ccl_measured_log_destroy(log);
}
END_TEST

#define CALL(rank, coll, number, bytes, us)                                                        \
    "{\"header\":{\"id\":\"0xab\",\"rank\":" rank ",\"n_ranks\":4,\"nnodes\":2}"                   \
    ",\"metadata\":{\"hostname\":\"a\"},\"coll_perf\":{\"coll\":\"" coll "\",\"coll_sn\":" number  \
    ",\"coll_msg_size_bytes\":" bytes ",\"coll_exec_time_us\":" us                                 \
    ",\"coll_timing_source\":\"kernel_gpu\",\"coll_algobw_gbs\":1.0}}\n"

/* Of the ranks of a call the last to come shows its time; of the calls of a size the median. */
START_TEST(test_inspector) {
    ccl_measured_log_t *log = log_of(
        CALL("0", "AllReduce", "1", "1048576", "90") CALL("1", "AllReduce", "1", "1048576", "50")
            CALL("0", "AllReduce", "2", "1048576", "40")
                CALL("0", "AllReduce", "3", "1048576", "400") CALL("0", "AllReduce", "4", "0", "4")
                    CALL("0", "AllGather", "5", "4096",
                         "20") "{\"header\":{\"n_ranks\":4},\"p2p_perf\":{\"p2p\":\"Send\"}}\n");
    ck_assert_uint_eq(log->nruns, 2);
    const ccl_measured_run_t *run = &log->runs[0], *gather = &log->runs[1];
    ck_assert(run->known && run->kind == CCL_ALLREDUCE);
    ck_assert_uint_eq(run->nranks, 4);
    ck_assert_uint_eq(run->nhosts, 2);
    ck_assert_str_eq(run->label, "communicator 0xab");
    ck_assert_uint_eq(run->npoints, 1);
    ck_assert_double_eq(run->points[0].size_bytes, 1048576);
    ck_assert_double_eq_tol(run->points[0].time_s, 50e-6, 1e-12);
    ck_assert(gather->kind == CCL_ALLGATHER);
    ck_assert_double_eq(gather->points[0].size_bytes, 16384); /* 4096 of each of 4 ranks */
    ccl_measured_log_destroy(log);
}
END_TEST

#define KERNEL(name, in, out, type, us)                                                            \
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"ncclDevKernel\",\"ts\":1,\"dur\":" us             \
    ",\"args\":{\"Collective name\":\"" name "\",\"In msg nelems\":" in ",\"Out msg nelems\":" out \
    ",\"Group size\":4,\"dtype\":\"" type                                                          \
    "\",\"In split size\":\"[]\",\"Process Group Name\":\"7\"}},\n"
#define TRACE(events) "{\"schemaVersion\":1,\n\"traceEvents\":[\n" events "{\"ph\":\"M\"}]}\n"

/* Kernels of collectives in a trace of PyTorch's profiler; its other events are left out. */
START_TEST(test_kineto) {
    ccl_measured_log_t *log = log_of(TRACE(
        KERNEL("allreduce", "1024", "1024", "BFloat16", "90")
            KERNEL("allreduce", "1024", "1024", "BFloat16", "50")
                KERNEL("allreduce", "1024", "1024", "BFloat16", "60")
                    KERNEL("_allgather_base", "256", "1024", "Float", "20")
                        KERNEL("_reduce_scatter_base", "1024", "256", "Float8_e4m3fn", "30")
                            KERNEL("send", "8", "8", "Float", "5")
                                KERNEL("barrier", "0", "0", "Int",
                                       "5") "7,\n"
                                            "{\"cat\":\"kernel\",\"name\":\"gemm\",\"dur\":3},\n"
                                            "{\"cat\":\"kernel\",\"dur\":9,\"args\":{\"Collective "
                                            "name\":\"all_to_allv\","
                                            "\"In msg nelems\":8,\"Out msg nelems\":8,\"Group "
                                            "size\":4,\"dtype\":\"Float\","
                                            "\"In split size\":\"[1, 3, 2, 2]\"}},\n"));
    ck_assert_uint_eq(log->nruns, 3);
    const ccl_measured_run_t *run = log->runs;
    ck_assert(run[0].known && run[0].kind == CCL_ALLREDUCE);
    ck_assert_uint_eq(run[0].nranks, 4);
    ck_assert_str_eq(run[0].label, "process group 7");
    ck_assert_uint_eq(run[0].npoints, 1);
    ck_assert_double_eq(run[0].points[0].size_bytes, 2048);
    ck_assert_double_eq_tol(run[0].points[0].time_s, 60e-6, 1e-12);
    ck_assert(run[1].kind == CCL_ALLGATHER);
    ck_assert_double_eq(run[1].points[0].size_bytes, 4096); /* the larger buffer */
    ck_assert(run[2].kind == CCL_REDUCESCATTER);
    ck_assert_double_eq(run[2].points[0].size_bytes, 1024);
    ccl_measured_log_destroy(log);
}
END_TEST

START_TEST(test_kineto_refused) {
    static const struct {
        const char *input, *text;
    } rows[] = {{TRACE(KERNEL("allreduce", "8", "8", "Quad", "5")), "event 0: dtype \"Quad\""},
                {TRACE(""), "no measured rows"},
                {"{\"traceEvents\": 7}", "expected an array"},
                {"{\"traceEvents\": [", ""}};
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_measured_log_t *log = NULL;
        ccl_error_t err = CCL_ERROR_INIT;
        ck_assert(ccl_measured_read_text("log", rows[i].input, strlen(rows[i].input), &log, &err) ==
                  CCL_ERR_INPUT);
        ck_assert_ptr_null(log);
        ck_assert_msg(strstr(err.text, rows[i].text) != NULL, "%zu: %s", i, err.text);
    }
}
END_TEST

START_TEST(test_inspector_refused) {
    static const struct {
        const char *why, *input, *text;
        int line, column;
    } rows[] = {
        {"cut short", CALL("0", "AllReduce", "1", "8", "9") "{\"coll_perf\": {\n", "", 2, 0},
        {"no header", "{\"coll_perf\": {\"coll\": \"AllReduce\"}}\n", "missing", 1, 0},
        {"unknown collective", CALL("0", "AllFoo", "1", "8", "9"), "\"AllFoo\" is no collective", 1,
         105},
        {"size in words", "\n" CALL("0", "AllReduce", "1", "\"8K\"", "9"), "expected a number", 2,
         151},
        {"negative time", CALL("0", "AllReduce", "1", "8", "-9"), "a time of -9 us", 1, 173},
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_measured_log_t *log = NULL;
        ccl_error_t err = CCL_ERROR_INIT;
        ck_assert_msg(ccl_measured_read_text("log", rows[i].input, strlen(rows[i].input), &log,
                                             &err) == CCL_ERR_INPUT,
                      "%s was read", rows[i].why);
        ck_assert_ptr_null(log);
        ck_assert_msg(strstr(err.text, rows[i].text) != NULL, "%s: %s", rows[i].why, err.text);
        ck_assert_msg(err.line == rows[i].line, "%s: line %d", rows[i].why, err.line);
        ck_assert_msg(rows[i].column ? err.column == rows[i].column : err.column > 0,
                      "%s: column %d", rows[i].why, err.column);
    }
}
END_TEST

START_TEST(test_refused) {
    static const struct {
        const char *why, *input, *text;
        int line;
    } rows[] = {
        {"nothing", "", "no measured rows", 0},
        {"prose", "hello\nworld 12 13 float\n", "no measured rows", 0},
        {"only headers", "# nThread 1 nGpus 8\n# size count type time\n", "no measured rows", 0},
        {"only cut rows", "1024 256 float sum 3", "no measured rows", 0},
        {"unknown collective", "op,ranks,size_bytes,oop_us\nallfoo,8,1024,3\n",
         "\"allfoo\" is no collective", 2},
        {"no ranks", "op,ranks,size_bytes,oop_us\nallreduce,eight,1024,3\n", "number of ranks", 2},
        {"negative size", "op,ranks,size_bytes,oop_us\nallreduce,8,-4,3\n", "no positive number",
         2},
        {"type without size", "op,ranks,message_size,latency\nallreduce,8,4,3\n", "known size", 2},
        {"a column missing", "op,size_bytes,oop_us\nallreduce,8,3\n", "columns op, ranks", 1},
        {"broken JSON", "{\"name\": \"allreduce\"", "", 1},
        {"JSON without a size", "{\"name\": \"allreduce\", \"ranks\": 8, \"time\": 4}",
         "a row needs", 1},
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_measured_log_t *log = NULL;
        ccl_error_t err = CCL_ERROR_INIT;
        ck_assert_msg(ccl_measured_read_text("log", rows[i].input, strlen(rows[i].input), &log,
                                             &err) == CCL_ERR_INPUT,
                      "%s was read", rows[i].why);
        ck_assert_ptr_null(log);
        ck_assert_msg(strstr(err.text, rows[i].text) != NULL, "%s: %s", rows[i].why, err.text);
        ck_assert_msg(err.line == rows[i].line, "%s: line %d", rows[i].why, err.line);
    }
}
END_TEST

RUN_TESTS(test_old_columns, test_prefixes, test_new_columns, test_inferred, test_csv,
          test_json_lines, test_candidates, test_settings, test_inspector, test_inspector_refused,
          test_kineto, test_kineto_refused, test_refused)
