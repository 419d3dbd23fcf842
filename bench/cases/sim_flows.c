/**
 * Engine speed on flow lists. usage: bench_sim_flows KIND RANKS even|odd [REPEATS]
 * Prints engine time (tables included; the first run also finds all routes; making the list and
 * reading are not), flows/s and peak memory.
 */
#include "bench/common.h"

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: bench_sim_flows ring|mesh|hier|ring8 RANKS even|odd [REPEATS]\n");
        return 2;
    }
    bench_keep_memory();
    uint32_t n = (uint32_t)atoi(argv[2]);
    bool odd = argc > 3 && strcmp(argv[3], "odd") == 0;
    int repeats = argc > 4 ? atoi(argv[4]) : 1;
    ccl_topology_t *topo = bench_cluster(n, odd, NULL);
    if (!topo)
        return 2;
    ccl_flow_list_t *list = bench_flows(argv[1], n, 1048576, odd ? 0.1 : 0);
    double base_mb = bench_peak_mb(), best_s = 1e9, first_s = 0;
    ccl_routes_t *routes = ccl_routes_create(topo);
    ccl_sim_options_t options = CCL_SIM_OPTIONS_INIT;
    for (int i = 0; i < repeats; i++) {
        ccl_error_t err = CCL_ERROR_INIT;
        ccl_sim_result_t *r = NULL;
        double t = ccl_now_s();
        if (ccl_sim_flows(NULL, topo, routes, list, &options, &r, &err) != CCL_OK) {
            fprintf(stderr, "%s\n", err.text);
            return 1;
        }
        t = ccl_now_s() - t;
        best_s = t < best_s ? t : best_s;
        first_s = i == 0 ? t : first_s;
        if (i + 1 == repeats)
            printf("%-6s %4u %-4s flows %8u  time %.4f us  first run %.4f s, best of %d %.4f s "
                   "(%.0f flows/s)  peak %.0f MB (%.0f before)  rate changes %llu\n",
                   argv[1], n, odd ? "odd" : "even", list->nflows, r->time_s * 1e6, first_s,
                   repeats, best_s, list->nflows / best_s, bench_peak_mb(), base_mb,
                   (unsigned long long)r->rate_changes);
        ccl_sim_result_destroy(r);
    }
    return 0;
}
