/**
 * @file variation.c
 * One run on links, thread blocks and launches that differ from the cluster as drawn.
 */
#include "sim/program.h"

#include <math.h>
#include <stdlib.h>

static ccl_status_t check(const double *values, uint32_t n, bool factor, const char *what,
                          ccl_error_t *err) {
    for (uint32_t i = 0; values && i < n; i++)
        if (!isfinite(values[i]) || values[i] < 0 || (factor && values[i] == 0))
            return ccl_fail(err, CCL_ERR_INPUT, "variation: %s %u is %g: %s", what, i, values[i],
                            factor ? "a factor above 0 is needed" : "seconds from 0 on are needed");
    return CCL_OK;
}

ccl_status_t ccl_i_vary(const ccl_topology_t *topo, const ccl_sim_variation_t *variation,
                        ccl_topology_t *out, ccl_link_t **links_out, ccl_error_t *err) {
    CCL_TRY(check(variation->link_rate, topo->nlinks, true, "rate of link", err));
    CCL_TRY(check(variation->link_latency_s, topo->nlinks, false, "latency of link", err));
    CCL_TRY(check(variation->block_rate, topo->nranks, true, "thread blocks of rank", err));
    CCL_TRY(check(variation->late_s, topo->nranks, false, "launch of rank", err));
    ccl_link_t *links = malloc((topo->nlinks + (size_t)1) * sizeof *links);
    if (!links)
        return ccl_fail_nomem(err);
    for (uint32_t l = 0; l < topo->nlinks; l++) {
        links[l] = topo->links[l];
        if (variation->link_rate)
            links[l].bandwidth_Bps *= variation->link_rate[l];
        if (variation->link_latency_s)
            links[l].latency_s += variation->link_latency_s[l];
    }
    *out = *topo;
    out->links = *links_out = links;
    return CCL_OK;
}

double ccl_i_way_latency_s(const ccl_topology_t *topo, const uint32_t *links, uint32_t n) {
    double sum_s = 0;
    for (uint32_t i = 0; i < n; i++)
        sum_s += topo->links[links[i]].latency_s;
    return sum_s;
}

double ccl_i_way_bottleneck_Bps(const ccl_topology_t *topo, const uint32_t *links, uint32_t n) {
    double least_Bps = INFINITY;
    for (uint32_t i = 0; i < n; i++)
        least_Bps = fmin(least_Bps, topo->links[links[i]].bandwidth_Bps);
    return least_Bps;
}

double ccl_i_launch_s(const ccl_i_run_t *run, uint32_t rank) {
    double launch_s = ccl_model_launch_s(run->topo, rank, run->program->proto);
    return run->variation && run->variation->late_s ? launch_s + run->variation->late_s[rank]
                                                    : launch_s;
}
