/**
 * A collective of 1e9 bytes on a large cluster, composed of pods from 96 GPUs on.
 * usage: bench_synth_composed NAME COLLECTIVE CHUNKS ROOTS TOPOLOGY...
 * CHUNKS: parts of a block, 0: the synthesizer's choice. ROOTS: weighted or uniform. A line per
 * topology: wall and processor seconds to synthesize with verification, memory until then,
 * transfers, simulated time, that over the bandwidth bound.
 */
#include "bench/common.h"
#include "synth/synth.h"

typedef struct job {
    const char *name, *collective;
    uint32_t chunks;
    bool uniform;
} job_t;

static ccl_status_t bench(const job_t *job, const char *spec, ccl_error_t *err) {
    ccl_topology_t *topo = NULL;
    ccl_collective_t *want = NULL;
    ccl_schedule_t *schedule = NULL;
    ccl_program_t *program = NULL;
    ccl_sim_result_t *result = NULL;
    ccl_bound_t bound = {0};
    ccl_collective_kind_t kind;
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    ccl_bound_options_t most = CCL_BOUND_OPTIONS_INIT;
    ccl_status_t status = ccl_topology_read(NULL, spec, &topo, err);
    options.size_bytes = lower.size_bytes = sim.size_bytes = most.size_bytes = 1e9;
    options.chunks = job->chunks;
    options.uniform_roots = job->uniform;
    most.no_latency = true;
    if (status == CCL_OK)
        status = ccl_collective_kind_parse(job->collective, &kind, err);
    if (status == CCL_OK)
        status = ccl_collective_create(kind, topo->nranks, 1, 0, &want, err);
    double start_s = ccl_now_s(), start_cpu_s = bench_cpu_s();
    if (status == CCL_OK)
        status = ccl_synthesize(NULL, job->name, topo, NULL, want, &options, &schedule, err);
    double wall_s = ccl_now_s() - start_s, cpu_s = bench_cpu_s() - start_cpu_s;
    double peak_mb = bench_peak_mb();
    if (status == CCL_OK) {
        lower.topo = topo;
        status = ccl_lower(NULL, schedule, &lower, &program, err);
    }
    if (status == CCL_OK)
        status = ccl_sim_program(NULL, topo, NULL, program, &sim, &result, err);
    if (status == CCL_OK)
        status = ccl_bound(NULL, topo, want, &most, &bound, err);
    if (status == CCL_OK) {
        printf("%-16s %4u GPUs %7.2f s %7.2f cpu s %6.0f MB %8u transfers %10.1f us %7.4f\n",
               topo->name, topo->nranks, wall_s, cpu_s, peak_mb, schedule->ntransfers,
               result->time_s * 1e6, result->time_s / bound.bandwidth_s);
        ccl_bound_fini(&bound);
    }
    fflush(stdout);
    ccl_sim_result_destroy(result);
    ccl_program_destroy(program);
    ccl_schedule_destroy(schedule);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
    return status;
}

int main(int argc, char **argv) {
    if (argc < 6) {
        fprintf(stderr, "usage: %s NAME COLLECTIVE CHUNKS ROOTS TOPOLOGY...\n", argv[0]);
        return 2;
    }
    job_t job = {argv[1], argv[2], (uint32_t)strtoul(argv[3], NULL, 10),
                 strcmp(argv[4], "uniform") == 0};
    for (int i = 5; i < argc; i++) {
        ccl_error_t err = CCL_ERROR_INIT;
        if (bench(&job, argv[i], &err) != CCL_OK) {
            fprintf(stderr, "%s\n", err.text);
            return 1;
        }
    }
    return 0;
}
