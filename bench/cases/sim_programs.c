/**
 * Engine speed on thread-block programs: AllGather of 1 MiB per rank.
 * usage: bench_sim_programs SYNTHESIZER RANKS [REPEATS [fold]]
 * One micro-batch, no transports' costs (pure links); lowering and verifying are not counted. Every
 * block is simulated unless `fold` is given.
 */
#include "bench/common.h"
#include "synth/synth.h"

static int fail(const ccl_error_t *err) {
    fprintf(stderr, "%s\n", err->text);
    return 1;
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: bench_sim_programs ring|hm|direct RANKS [REPEATS [fold]]\n");
        return 2;
    }
    bench_keep_memory();
    uint32_t n = (uint32_t)atoi(argv[2]);
    int repeats = argc > 3 ? atoi(argv[3]) : 1;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_topology_t *topo = bench_cluster(n, false, NULL);
    ccl_routes_t *routes = topo ? ccl_routes_create(topo) : NULL;
    ccl_collective_t *want = NULL;
    ccl_schedule_t *schedule = NULL;
    ccl_program_t *program = NULL;
    ccl_synth_options_t synth = CCL_SYNTH_OPTIONS_INIT;
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    synth.channels = 1;
    double t0 = ccl_now_s();
    if (!routes || ccl_collective_create(CCL_ALLGATHER, n, 1, 0, &want, &err) != CCL_OK ||
        ccl_synthesize(NULL, argv[1], topo, routes, want, &synth, &schedule, &err) != CCL_OK)
        return fail(&err);
    double t1 = ccl_now_s();
    if (ccl_lower(NULL, schedule, &lower, &program, &err) != CCL_OK)
        return fail(&err);
    double t2 = ccl_now_s(), before_mb = bench_peak_mb();
    ccl_sim_options_t options = CCL_SIM_OPTIONS_INIT;
    options.size_bytes = 1048576.0 * n;
    options.batches = 1;
    options.no_fold = argc < 5;
    bench_runs_t runs;
    if (bench_runs(topo, routes, program, &options, repeats, &runs, &err) != CCL_OK)
        return fail(&err);
    printf("%-6s %4u blocks %7u transfers %8llu  time %.4f us  synth+verify %.3f s lower %.3f s  "
           "first run %.4f s, best of %d %.4f s (%.0f transfers/s)  peak %.0f MB (%.0f before)\n",
           argv[1], n, program->ntbs, (unsigned long long)runs.last->transfers,
           runs.last->time_s * 1e6, t1 - t0, t2 - t1, runs.first_s, repeats, runs.best_s,
           (double)runs.last->transfers / runs.best_s, bench_peak_mb(), before_mb);
    ccl_sim_result_destroy(runs.last);
    return 0;
}
