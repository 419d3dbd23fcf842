/* How much is rooted at each GPU of an AllReduce: as much as cuts let out at once. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "synth/packing/packing.h"

typedef ccl_i_packing_t packing_t;

/* Arcs, then an arc from the source to each rank. */
ccl_maxflow_t *ccl_i_pack_network(const packing_t *p, bool reversed) {
    const ccl_capacity_t *c = p->c;
    ccl_maxflow_t *f = ccl_maxflow_create(c->nvertices + 1);
    bool ok = f != NULL;
    for (uint32_t a = 0; ok && a < c->narcs; a++)
        ok = ccl_maxflow_arc(f, reversed ? c->arcs[a].to : c->arcs[a].from,
                             reversed ? c->arcs[a].from : c->arcs[a].to, 0) != CCL_NONE;
    for (uint32_t r = 0; ok && r < p->n; r++)
        ok = ccl_maxflow_arc(f, c->nvertices, c->topo->rank_device[r], 0) != CCL_NONE;
    if (ok)
        return f;
    ccl_maxflow_destroy(f);
    return NULL;
}

/* Seconds per part and unit when each rank has `weights` parts, from the bound of that. */
ccl_status_t ccl_i_pack_bound_of(const packing_t *p, const uint32_t *weights, bool reversed,
                                 double *seconds_out, ccl_error_t *err) {
    ccl_bandwidth_bound_t bound;
    ccl_bound_demand_t demand = {.reversed = reversed, .weights = weights, .parts = 1};
    CCL_TRY(ccl_model_bandwidth_bound(p->ctx, p->c->topo, &demand, &bound, err));
    *seconds_out = p->c->unit_Bps / bound.Bps;
    ccl_bandwidth_bound_fini(&bound);
    return CCL_OK;
}

/* Weights of an AllReduce's ranks while they grow. */
typedef struct filling {
    double scale;            /* of capacities */
    uint8_t *fixed;          /* [nranks] it cannot have more */
    uint32_t *full;          /* [nranks] it is inside the cut that was found full last */
    bool *side;              /* [nvertices + 1] of that cut */
    ccl_maxflow_t *flows[2]; /* copies, reductions */
} filling_t;

/* What each open rank may still get before the cut in f->side is full. */
static double room_in_cut(const packing_t *p, const filling_t *f, bool reversed, double now) {
    const ccl_capacity_t *c = p->c;
    double units = 0, have = 0;
    uint32_t inside = 0;
    for (uint32_t a = 0; a < c->narcs; a++) {
        uint32_t u = reversed ? c->arcs[a].to : c->arcs[a].from;
        uint32_t v = reversed ? c->arcs[a].from : c->arcs[a].to;
        units += f->side[u] && !f->side[v] ? (double)c->arcs[a].units : 0;
    }
    for (uint32_t q = 0; q < p->n; q++) {
        have += f->side[c->topo->rank_device[q]] ? p->weight[q] : 0;
        inside += f->side[c->topo->rank_device[q]] && !f->fixed[q];
    }
    return inside ? fmax(0, (units - have) / inside) : now;
}

/* Shortens a step that all open ranks take to what a cut allows; its ranks are in f->full then. */
static bool shorten_step(const packing_t *p, filling_t *f, double *step) {
    const ccl_capacity_t *c = p->c;
    bool tight = false;
    for (int k = 0; k < 2; k++) {
        int64_t want = 0;
        for (uint32_t r = 0; r < p->n; r++) {
            int64_t x = (int64_t)((p->weight[r] + (f->fixed[r] ? 0 : *step)) * f->scale);
            ccl_maxflow_capacity(f->flows[k], c->narcs + r, x);
            want += x;
        }
        for (uint32_t r = 0; r < p->n; r++) {
            ccl_maxflow_reset(f->flows[k]);
            if (ccl_maxflow_run(f->flows[k], c->nvertices, c->topo->rank_device[r], want) >=
                want - (int64_t)p->n)
                continue;
            ccl_maxflow_side(f->flows[k], c->nvertices, f->side);
            double allowed = room_in_cut(p, f, k == 1, *step);
            if (allowed < *step * (1 - 1e-9)) {
                *step = allowed;
                tight = true;
                for (uint32_t q = 0; q < p->n; q++)
                    f->full[q] = f->side[c->topo->rank_device[q]];
                break;
            }
        }
    }
    return tight;
}

/*
 * AllReduce: as much at each rank as cuts let out at once. All grow alike until a cut is full; its
 * ranks stay, the others grow on.
 */
ccl_status_t ccl_i_pack_fill_weights(packing_t *p, ccl_error_t *err) {
    const ccl_capacity_t *c = p->c;
    filling_t f = {.scale = 0x1p60, /* at most, so that a flow of all ranks fits 64 bits */
                   .fixed = calloc(p->n, 1),
                   .full = malloc(p->n * sizeof *f.full),
                   .side = calloc(c->nvertices + (size_t)1, sizeof *f.side),
                   .flows = {ccl_i_pack_network(p, false), ccl_i_pack_network(p, true)}};
    double seconds[2] = {0, 0};
    ccl_status_t status = CCL_OK;
    if (!f.fixed || !f.side || !f.full || !f.flows[0] || !f.flows[1]) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    for (uint32_t a = 0; a < c->narcs; a++)
        f.scale = fmin(f.scale, 0x1p60 / ((double)c->arcs[a].units * 4 * c->narcs * (p->n + 1.0)));
    f.scale = fmin(0x1p20, exp2(floor(log2(f.scale))));
    for (uint32_t r = 0; r < p->n; r++)
        f.full[r] = 1;
    for (int k = 0; k < 2; k++)
        CCL_TRY_GOTO(ccl_i_pack_bound_of(p, f.full, k == 1, &seconds[k], err), status, end);
    for (uint32_t r = 0; r < p->n; r++)
        p->weight[r] = 1 / fmax(seconds[0], seconds[1]); /* units of rate */
    for (int k = 0; k < 2; k++) {
        for (uint32_t a = 0; a < c->narcs; a++)
            ccl_maxflow_capacity(f.flows[k], a, (int64_t)((double)c->arcs[a].units * f.scale));
    }
    for (uint32_t round = 0; round < 4 * p->n; round++) {
        /* Ranks that cannot have a hair more are fixed. */
        double most = INFINITY;
        uint32_t open = 0;
        for (uint32_t r = 0; r < p->n; r++)
            open += !f.fixed[r];
        if (open == 0)
            break;
        for (double step = -1;;) { /* Newton on the step that all open ranks take */
            double now = step < 0 ? 4.0 * (double)c->arcs[0].units * c->narcs : step;
            bool tight = shorten_step(p, &f, &now);
            step = most = now;
            if (!tight)
                break;
        }
        uint32_t before = open;
        for (uint32_t r = 0; r < p->n; r++) {
            p->weight[r] += f.fixed[r] ? 0 : most;
            if (f.full[r] && !f.fixed[r]) {
                f.fixed[r] = 1;
                open--;
            }
        }
        if (open == before)
            break;
    }
end:
    free(f.fixed);
    free(f.side);
    free(f.full);
    ccl_maxflow_destroy(f.flows[0]);
    ccl_maxflow_destroy(f.flows[1]);
    return status;
}

ccl_status_t ccl_i_pack_bound_seconds(const ccl_i_packing_t *p, double *out, ccl_error_t *err) {
    ccl_bandwidth_bound_t bound;
    ccl_bound_demand_t demand = {.shape = CCL_BOUND_ALLREDUCE, .parts = 1};
    uint32_t *weights = calloc(p->n, sizeof *weights);
    if (!weights)
        return ccl_fail_nomem(err);
    for (uint32_t r = 0; r < p->n; r++) {
        weights[r] = p->weight[r] > 0;
        demand.parts += p->want->kind != CCL_ALLREDUCE && weights[r] > 0;
    }
    if (p->want->kind != CCL_ALLREDUCE) {
        demand.shape = CCL_BOUND_SPREAD;
        demand.reversed = p->has_up;
        demand.weights = weights;
        demand.parts--;
    }
    ccl_status_t status = ccl_model_bandwidth_bound(p->ctx, p->c->topo, &demand, &bound, err);
    free(weights);
    CCL_TRY(status);
    *out = 1 / (bound.trees_Bps > 0 ? bound.trees_Bps : bound.Bps);
    ccl_bandwidth_bound_fini(&bound);
    return CCL_OK;
}
