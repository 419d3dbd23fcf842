/**
 * Engine speed on flows over very many links: an AllReduce through the switches of large domains.
 * usage: bench_sim_wide [CLUSTER [SYNTHESIZER [SIZE [REPEATS]]]]
 * (gb200-nvl72*2 nvls-pull 1G 3). The cluster's own constants; synthesis, lowering and verifying
 * are not counted.
 */
#include "bench/common.h"
#include "synth/synth.h"

static int fail(const ccl_error_t *err) {
    fprintf(stderr, "%s\n", err->text);
    return 1;
}

int main(int argc, char **argv) {
    const char *cluster = argc > 1 ? argv[1] : "gb200-nvl72*2";
    const char *name = argc > 2 ? argv[2] : "nvls-pull";
    double size_bytes = 0;
    int repeats = argc > 4 ? atoi(argv[4]) : 3;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_topology_t *topo = NULL;
    ccl_collective_t *want = NULL;
    ccl_schedule_t *schedule = NULL;
    ccl_program_t *program = NULL;
    ccl_synth_options_t synth = CCL_SYNTH_OPTIONS_INIT;
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    if (ccl_topology_read(NULL, cluster, &topo, &err) != CCL_OK ||
        ccl_parse_bytes(argc > 3 ? argv[3] : "1G", &size_bytes, &err) != CCL_OK ||
        ccl_collective_create(CCL_ALLREDUCE, topo->nranks, 1, 0, &want, &err) != CCL_OK)
        return fail(&err);
    ccl_routes_t *routes = ccl_routes_create(topo);
    synth.size_bytes = size_bytes;
    lower.topo = topo;
    lower.size_bytes = size_bytes;
    if (ccl_synthesize(NULL, name, topo, routes, want, &synth, &schedule, &err) != CCL_OK ||
        ccl_lower(NULL, schedule, &lower, &program, &err) != CCL_OK)
        return fail(&err);
    ccl_sim_options_t options = CCL_SIM_OPTIONS_INIT;
    options.size_bytes = size_bytes;
    bench_runs_t runs;
    if (bench_runs(topo, routes, program, &options, repeats, &runs, &err) != CCL_OK)
        return fail(&err);
    printf("%s on %s: time %.4f us  batches %u  events %llu  rate changes %llu  best of %d "
           "%.4f s  peak %.0f MB\n",
           name, cluster, runs.last->time_s * 1e6, runs.last->batches,
           (unsigned long long)runs.last->events, (unsigned long long)runs.last->rate_changes,
           repeats, runs.best_s, bench_peak_mb());
    ccl_sim_result_destroy(runs.last);
    return 0;
}
