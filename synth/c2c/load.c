/*
 * How long a schedule of c2c keeps links busy, phase by phase and in all: what no order of its
 * transfers can beat, and what pipelining can gain (HetCCL, figure 9).
 */
#include "synth/c2c/c2c.h"

#include <math.h>
#include <stdlib.h>

enum { PHASES = 3 };

/** Seconds by resource: links, then groups. */
typedef struct loads {
    double *s[PHASES];
    uint32_t n;
} loads_t;

/* Groups of a link follow each other. */
static void add_groups(const ccl_topology_t *topo, double *s, const double *link_bytes) {
    for (uint32_t g = 0; g < topo->ngroups; g++) {
        double bytes = 0;
        for (uint32_t i = 0; i < topo->groups[g].nlinks; i++)
            bytes += link_bytes[topo->groups[g].links[i]];
        s[topo->nlinks + g] = bytes / topo->groups[g].bandwidth_Bps;
    }
}

static ccl_status_t add_transfers(const ccl_topology_t *topo, ccl_routes_t *routes,
                                  const ccl_schedule_t *schedule, double size_bytes, loads_t *loads,
                                  ccl_error_t *err) {
    for (uint32_t i = 0; i < schedule->ntransfers; i++) {
        const ccl_transfer_t *t = &schedule->transfers[i];
        const ccl_route_t *route;
        CCL_TRY(ccl_routes_get(routes, t->src, t->dst, t->channel, &route, err));
        double *s = loads->s[t->phase < PHASES ? t->phase : PHASES - 1];
        for (uint32_t k = 0; k < route->nlinks; k++)
            s[route->links[k]] += schedule->coll->chunks[t->chunk].share * size_bytes;
    }
    for (uint32_t p = 0; p < PHASES; p++) {
        add_groups(topo, loads->s[p], loads->s[p]);
        for (uint32_t l = 0; l < topo->nlinks; l++)
            loads->s[p][l] /= topo->links[l].bandwidth_Bps;
    }
    return CCL_OK;
}

ccl_status_t ccl_c2c_load(const ccl_topology_t *topo, ccl_routes_t *routes,
                          const ccl_schedule_t *schedule, double size_bytes, ccl_c2c_stats_t *out,
                          ccl_error_t *err) {
    loads_t loads = {.n = topo->nlinks + topo->ngroups};
    CCL_TRY(ccl_schedule_refuse_groups(schedule, "the load of clusters", err));
    double *all = calloc(PHASES * (size_t)loads.n + 1, sizeof *all);
    ccl_status_t status = all ? CCL_OK : ccl_fail_nomem(err);
    for (uint32_t p = 0; all && p < PHASES; p++)
        loads.s[p] = all + p * (size_t)loads.n;
    if (status == CCL_OK)
        status = add_transfers(topo, routes, schedule, size_bytes, &loads, err);
    if (status == CCL_OK) {
        *out = (ccl_c2c_stats_t){.runs = 1, .size_bytes = size_bytes};
        for (uint32_t l = 0; l < loads.n; l++) {
            double together = 0;
            for (uint32_t p = 0; p < PHASES; p++) {
                out->phase_s[p] = fmax(out->phase_s[p], loads.s[p][l]);
                together += loads.s[p][l];
            }
            out->together_s = fmax(out->together_s, together);
        }
        if (out->together_s > 0)
            out->overlap_gain =
                (out->phase_s[0] + out->phase_s[1] + out->phase_s[2]) / out->together_s;
    }
    free(all);
    return status;
}
