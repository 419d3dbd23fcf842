/**
 * AllGather of 1e9 bytes by a synthesizer, lowered its own way and simulated.
 * usage: bench_synth_allgather NAME CHUNKS TOPOLOGY...
 * CHUNKS: parts of a block, 0: the synthesizer's choice. A line per topology: seconds to
 * synthesize, transfers, simulated time.
 */
#include "bench/common.h"
#include "synth/synth.h"

static int fail(const ccl_error_t *err) {
    fprintf(stderr, "%s\n", err->text);
    return 1;
}

static ccl_status_t bench(const char *name, uint32_t chunks, const char *spec, ccl_error_t *err) {
    ccl_topology_t *topo = NULL;
    ccl_collective_t *want = NULL;
    ccl_schedule_t *schedule = NULL;
    ccl_program_t *program = NULL;
    ccl_sim_result_t *result = NULL;
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    const ccl_synth_ops_t *ops = ccl_synth_find(name);
    ccl_way_t way = ccl_way_choose(ops ? ops->way : NULL, (ccl_way_t){0}, 0);
    ccl_status_t status = ccl_topology_read(NULL, spec, &topo, err);
    options.size_bytes = lower.size_bytes = sim.size_bytes = 1e9;
    options.chunks = chunks;
    if (status == CCL_OK)
        status = ccl_collective_create(CCL_ALLGATHER, topo->nranks, 1, 0, &want, err);
    double start_s = ccl_now_s(), made_s = 0;
    if (status == CCL_OK)
        status = ccl_synthesize(NULL, name, topo, NULL, want, &options, &schedule, err);
    made_s = ccl_now_s() - start_s;
    if (status == CCL_OK) {
        lower.topo = topo;
        lower.order = way.order;
        lower.allocation = way.allocation;
        lower.granularity = sim.granularity = way.granularity;
        status = ccl_lower(NULL, schedule, &lower, &program, err);
    }
    if (status == CCL_OK)
        status = ccl_sim_program(NULL, topo, NULL, program, &sim, &result, err);
    if (status == CCL_OK)
        printf("%-24s %4u GPUs %8.3f s %8u transfers %10.1f us\n", topo->name, topo->nranks, made_s,
               schedule->ntransfers, result->time_s * 1e6);
    ccl_sim_result_destroy(result);
    ccl_program_destroy(program);
    ccl_schedule_destroy(schedule);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
    return status;
}

int main(int argc, char **argv) {
    if (argc < 4) {
        fprintf(stderr, "usage: %s NAME CHUNKS TOPOLOGY...\n", argv[0]);
        return 2;
    }
    for (int i = 3; i < argc; i++) {
        ccl_error_t err = CCL_ERROR_INIT;
        if (bench(argv[1], (uint32_t)strtoul(argv[2], NULL, 10), argv[i], &err) != CCL_OK)
            return fail(&err);
    }
    return 0;
}
