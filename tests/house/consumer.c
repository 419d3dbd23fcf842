/* What a program outside writes: it sees installed headers only and touches every module. */
#include <ccllab.h>

#include <stdio.h>
#include <string.h>

int main(void) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_topology_t *topo = NULL;
    static const char text[] =
        "{\"format\":\"ccllab-topology-1\",\"name\":\"pair\",\"devices\":["
        "{\"id\":\"a\",\"kind\":\"gpu\",\"rank\":0},{\"id\":\"b\",\"kind\":\"gpu\",\"rank\":1}],"
        "\"links\":[{\"from\":\"a\",\"to\":\"b\",\"kind\":\"nvlink\",\"bandwidth\":\"1GB/s\","
        "\"latency\":\"1us\"}]}";
    ccl_collective_t *want = NULL;
    ccl_schedule_t *schedule = NULL;
    ccl_program_t *program = NULL;
    ccl_sim_result_t *result = NULL;
    ccl_comparison_t *comparison = NULL;
    ccl_synth_options_t synth = CCL_SYNTH_OPTIONS_INIT;
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    ccl_contender_t ring = {.name = "ring"};
    double size_bytes = 1e6;
    int failed = 1;

    sim.size_bytes = size_bytes;
    ccl_compare_options_t options = {.size = sizeof options,
                                     .contenders = &ring,
                                     .ncontenders = 1,
                                     .sizes_bytes = &size_bytes,
                                     .nsizes = 1,
                                     .synth = synth,
                                     .lower = lower,
                                     .sim = sim};
    ccl_routes_t *routes = NULL;
    if (ccl_topology_read_text(NULL, "pair", text, strlen(text), &topo, &err) != CCL_OK ||
        ccl_collective_create(CCL_ALLGATHER, 2, 1, 0, &want, &err) != CCL_OK)
        goto out;
    routes = ccl_routes_create(topo);
    if (!routes ||
        ccl_synthesize(NULL, "ring", topo, routes, want, &synth, &schedule, &err) != CCL_OK ||
        ccl_lower(NULL, schedule, &lower, &program, &err) != CCL_OK ||
        ccl_sim_program(NULL, topo, routes, program, &sim, &result, &err) != CCL_OK ||
        ccl_compare(NULL, topo, want, &options, &comparison, &err) != CCL_OK)
        goto out;
    /* one hop of half the buffer: L + M / (2 B) = 1 us + 500 us */
    printf("time %.9g s\n", result->time_s);
    failed = !(result->time_s > 501e-6 * (1 - 1e-9) && result->time_s < 501e-6 * (1 + 1e-9));
out:
    if (err.text[0])
        fprintf(stderr, "%s\n", err.text);
    ccl_comparison_destroy(comparison);
    ccl_sim_result_destroy(result);
    ccl_program_destroy(program);
    ccl_schedule_destroy(schedule);
    ccl_collective_destroy(want);
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
    return failed;
}
