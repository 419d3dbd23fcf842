/**
 * How near a synthesizer comes to the bandwidth bound with links alone: without thread blocks,
 * transports and latencies. 1e9 bytes.
 * usage: bench_synth_links NAME COLLECTIVE BATCHES TOPOLOGY...
 * A line per topology: CPU seconds to synthesize and verify, transfers, load of the busiest link
 * over the bound, and (BATCHES above 0) the simulated time over the bound; peak memory.
 */
#include <math.h>

#include <jansson.h>

#include "bench/common.h"
#include "synth/synth.h"

/* The cluster without transports, GPU models and latencies: links and groups are all that is left.
 */
static ccl_status_t links_alone(const char *spec, ccl_topology_t **out, ccl_error_t *err) {
    ccl_topology_t *topo = NULL;
    ccl_text_t text = {0};
    json_t *root = NULL;
    size_t i;
    json_t *x;
    CCL_TRY(ccl_topology_read(NULL, spec, &topo, err));
    ccl_status_t status = ccl_topology_write_json(topo, &text, err);
    if (status == CCL_OK && !(root = json_loadb(text.data, text.len, 0, NULL)))
        status = ccl_fail_nomem(err);
    ccl_text_fini(&text);
    if (status == CCL_OK) {
        json_object_del(root, "transports");
        json_object_del(root, "gpu_models");
        json_array_foreach(json_object_get(root, "devices"), i, x) json_object_del(x, "model");
        json_array_foreach(json_object_get(root, "links"), i, x) json_object_del(x, "latency");
        char *left = json_dumps(root, 0);
        status = left ? ccl_topology_read_text(NULL, topo->name, left, strlen(left), out, err)
                      : ccl_fail_nomem(err);
        free(left);
    }
    json_decref(root);
    ccl_topology_destroy(topo);
    return status;
}

/* Seconds of the busiest link or group. */
static ccl_status_t load(const ccl_topology_t *topo, ccl_routes_t *routes,
                         const ccl_schedule_t *schedule, double *out, ccl_error_t *err) {
    double *bytes = calloc(topo->nlinks + (size_t)1, sizeof *bytes);
    ccl_status_t status = bytes ? CCL_OK : ccl_fail_nomem(err);
    *out = 0;
    for (uint32_t i = 0; status == CCL_OK && i < schedule->ntransfers; i++) {
        const ccl_transfer_t *t = &schedule->transfers[i];
        const ccl_route_t *route = NULL;
        status = ccl_routes_get(routes, t->src, t->dst, t->channel, &route, err);
        for (uint32_t l = 0; status == CCL_OK && l < route->nlinks; l++)
            bytes[route->links[l]] += schedule->coll->chunks[t->chunk].share * 1e9;
    }
    for (uint32_t l = 0; status == CCL_OK && l < topo->nlinks; l++)
        *out = fmax(*out, bytes[l] / topo->links[l].bandwidth_Bps);
    for (uint32_t g = 0; status == CCL_OK && g < topo->ngroups; g++) {
        double sum = 0;
        for (uint32_t i = 0; i < topo->groups[g].nlinks; i++)
            sum += bytes[topo->groups[g].links[i]];
        *out = fmax(*out, sum / topo->groups[g].bandwidth_Bps);
    }
    free(bytes);
    return status;
}

static ccl_status_t bench(const char *name, ccl_collective_kind_t kind, uint32_t batches,
                          const char *spec, ccl_error_t *err) {
    ccl_topology_t *topo = NULL;
    ccl_routes_t *routes = NULL;
    ccl_collective_t *want = NULL;
    ccl_schedule_t *schedule = NULL;
    ccl_program_t *program = NULL;
    ccl_sim_result_t *result = NULL;
    ccl_bound_t bound = {0};
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    const ccl_synth_ops_t *ops = ccl_synth_find(name);
    ccl_way_t way = ccl_way_choose(ops ? ops->way : NULL, (ccl_way_t){0}, 0);
    double busiest_s = 0, cpu_s = 0, bound_s = 0;
    ccl_status_t status = links_alone(spec, &topo, err);
    options.size_bytes = lower.size_bytes = sim.size_bytes = 1e9;
    if (status == CCL_OK)
        status = ccl_collective_create(kind, topo->nranks, 1, 0, &want, err);
    if (status == CCL_OK)
        status = ccl_bound(NULL, topo, want, NULL, &bound, err);
    if (status == CCL_OK && !(routes = ccl_routes_create(topo)))
        status = ccl_fail_nomem(err);
    if (status == CCL_OK) {
        bound_s = 1e9 / bound.bandwidth.Bps;
        cpu_s = bench_cpu_s();
        status = ccl_synthesize(NULL, name, topo, routes, want, &options, &schedule, err);
        cpu_s = bench_cpu_s() - cpu_s;
    }
    if (status == CCL_OK)
        status = load(topo, routes, schedule, &busiest_s, err);
    if (status == CCL_OK) {
        printf("%-24s %4u GPUs %8.3f s %8u transfers %5u steps, load %.4f", topo->name,
               topo->nranks, cpu_s, schedule->ntransfers, schedule->nsteps, busiest_s / bound_s);
        if (kind == CCL_ALLREDUCE && bound.bandwidth.trees_Bps > 0)
            printf(" (of trees %.4f)", busiest_s * bound.bandwidth.trees_Bps / 1e9);
        fflush(stdout);
    }
    if (status == CCL_OK && batches > 0) {
        lower.topo = topo;
        lower.batches = batches;
        lower.order = way.order;
        lower.allocation = way.allocation;
        lower.granularity = sim.granularity = way.granularity;
        sim.batches = batches;
        status = ccl_lower(NULL, schedule, &lower, &program, err);
        if (status == CCL_OK)
            status = ccl_sim_program(NULL, topo, routes, program, &sim, &result, err);
        if (status == CCL_OK)
            printf(", time %.4f", result->time_s / bound_s);
    }
    if (status == CCL_OK)
        printf(", %.0f MB\n", bench_peak_mb());
    ccl_bound_fini(&bound);
    ccl_sim_result_destroy(result);
    ccl_program_destroy(program);
    ccl_schedule_destroy(schedule);
    ccl_collective_destroy(want);
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
    return status;
}

int main(int argc, char **argv) {
    ccl_collective_kind_t kind;
    ccl_error_t bad = CCL_ERROR_INIT;
    if (argc < 5 || ccl_collective_kind_parse(argv[2], &kind, &bad) != CCL_OK) {
        fprintf(stderr, "usage: %s NAME COLLECTIVE BATCHES TOPOLOGY...\n", argv[0]);
        return 2;
    }
    int failed = 0;
    for (int i = 4; i < argc; i++) {
        ccl_error_t err = CCL_ERROR_INIT;
        uint32_t batches = (uint32_t)strtoul(argv[3], NULL, 10);
        if (bench(argv[1], kind, batches, argv[i], &err) != CCL_OK) {
            printf("%-24s %s\n", argv[i], err.text);
            failed = 1;
        }
    }
    return failed;
}
