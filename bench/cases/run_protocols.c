/**
 * What a protocol costs on the host: ring AllReduce of small sizes with Simple, LL and LL128.
 * usage: bench_run_protocols [RANKS] [ROUNDS] [WORKERS]
 * The three take turns in every round; prints the least time of each and its ratio to Simple's.
 */
#include "bench/common.h"

#include "lower/lower.h"
#include "runtime/runtime.h"
#include "synth/synth.h"

#include <stdio.h>

static ccl_program_t *ring(uint32_t nranks) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_topology_t *topo = bench_cluster(nranks, false, NULL);
    ccl_routes_t *routes = topo ? ccl_routes_create(topo) : NULL;
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    ccl_collective_t *want = NULL;
    ccl_schedule_t *schedule = NULL;
    ccl_program_t *program = NULL;
    options.channels = 1;
    if (!routes || ccl_collective_create(CCL_ALLREDUCE, nranks, 1, 0, &want, &err) != CCL_OK ||
        ccl_synthesize(NULL, "ring", topo, routes, want, &options, &schedule, &err) != CCL_OK ||
        ccl_lower(NULL, schedule, &lower, &program, &err) != CCL_OK)
        fprintf(stderr, "%s\n", err.text);
    ccl_schedule_destroy(schedule);
    ccl_collective_destroy(want);
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
    return program;
}

int main(int argc, char **argv) {
    uint32_t nranks = argc > 1 ? (uint32_t)atoi(argv[1]) : 8;
    int rounds = argc > 2 ? atoi(argv[2]) : 9;
    ccl_program_t *program = ring(nranks);
    if (!program)
        return 1;
    printf("ring allreduce, %u ranks; least us, over Simple\n", nranks);
    for (double size = 256; size <= 1 << 20; size *= 8) {
        double best_s[CCL_RUN_LL128 + 1] = {0};
        for (int i = 0; i < rounds; i++) {
            for (ccl_run_protocol_t p = CCL_RUN_SIMPLE; p <= CCL_RUN_LL128; p++) {
                ccl_run_options_t o = CCL_RUN_OPTIONS_INIT;
                ccl_run_result_t *r = NULL;
                ccl_error_t err = CCL_ERROR_INIT;
                o.size_bytes = size;
                o.protocol = p;
                o.threads = argc > 3 ? (uint32_t)atoi(argv[3]) : 0;
                o.repeats = 50;
                if (ccl_run_program(NULL, program, &o, &r, &err) != CCL_OK) {
                    fprintf(stderr, "%s\n", err.text);
                    return 1;
                }
                best_s[p] = i == 0 || r->min_s < best_s[p] ? r->min_s : best_s[p];
                ccl_run_result_destroy(r);
            }
        }
        printf("%8.0f ", size);
        for (ccl_run_protocol_t p = CCL_RUN_SIMPLE; p <= CCL_RUN_LL128; p++)
            printf("  %s %.1f (%.2f)", ccl_run_protocol_name(p), 1e6 * best_s[p],
                   best_s[p] / best_s[CCL_RUN_SIMPLE]);
        printf("\n");
    }
    ccl_program_destroy(program);
    return 0;
}
