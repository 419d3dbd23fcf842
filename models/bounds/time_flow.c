/*
 * Flows over time. The most that reaches one side by time T is a flow of least cost repeated over
 * time (Ford, Fulkerson 1958): as flow grows along ever longer ways, what is left of the links says
 * after each growth which cut over time limits it from there on.
 */
#include "models/bounds/time.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Growths; longer ways count at ever larger sizes, where one cut of the bandwidth does. */
enum { MOST_LEVELS = 48 };

struct ccl_i_time_flow {
    ccl_i_time_cuts_t *cuts;
    ccl_maxflow_t *flow; /* arcs, then one to each GPU from the source, one from each to the sink */
    int64_t most;
    uint32_t source, sink;
    double *dist, *rest;       /* [nvertices + 2] from the source, to the sink */
    double *from, *upto;       /* [nvertices + 2] */
    double *earliest, *latest; /* of ccl_i_time_reach() */
    double *several;           /* likewise */
    bool *late;                /* [nvertices + 2] */
    uint8_t *sources, *dests;  /* [nranks] that a cut counts */
};

/* An overhead comes before the first byte of a source; later ones only where nothing is sliced. */
static double first_overhead(const ccl_i_time_net_t *net, uint32_t device) {
    double least = INFINITY;
    for (uint32_t j = net->out_first[device]; j < net->out_first[device + 1]; j++) {
        uint32_t arc = net->out_arcs[j];
        least = fmin(least, net->c->arcs[arc].link == CCL_NONE ? 0 : net->overhead_s[arc]);
    }
    return isfinite(least) ? least : 0;
}

static bool add_arcs(ccl_i_time_flow_t *f) {
    const ccl_i_time_net_t *net = f->cuts->net;
    const ccl_capacity_t *c = net->c;
    bool ok = true;
    for (uint32_t a = 0; a < c->narcs && ok; a++) {
        double s = net->delay_s[a] + (net->sliced ? 0 : net->overhead_s[a]);
        bool used =
            isfinite(net->delay_s[a]) && isfinite(net->overhead_s[a]) && isfinite(net->wire[a]);
        ok = ccl_maxflow_arc(f->flow, c->arcs[a].from, c->arcs[a].to,
                             used ? (int64_t)((double)c->arcs[a].units / net->wire[a]) : 0) !=
                 CCL_NONE &&
             ccl_maxflow_cost(f->flow, a, used ? s : 0);
        f->most += c->arcs[a].units;
    }
    for (uint32_t i = 0; i < 2 * c->topo->nranks && ok; i++) {
        uint32_t r = i % c->topo->nranks, v = c->topo->rank_device[r];
        bool in = i < c->topo->nranks;
        double s = in ? net->launch_s[r] + (net->sliced ? first_overhead(net, v) : 0) : net->last_s;
        uint32_t a = ccl_maxflow_arc(f->flow, in ? f->source : v, in ? v : f->sink, 0);
        ok = a != CCL_NONE && ccl_maxflow_cost(f->flow, a, s);
    }
    return ok;
}

ccl_i_time_flow_t *ccl_i_time_flow_create(ccl_i_time_cuts_t *cuts) {
    const ccl_capacity_t *c = cuts->net->c;
    size_t nv = c->nvertices + (size_t)2, n = c->topo->nranks + (size_t)1;
    ccl_i_time_flow_t *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    f->cuts = cuts;
    f->source = c->nvertices;
    f->sink = c->nvertices + 1;
    f->flow = ccl_maxflow_create(c->nvertices + 2);
    f->dist = malloc(nv * sizeof *f->dist);
    f->rest = malloc(nv * sizeof *f->rest);
    f->from = malloc(nv * sizeof *f->from);
    f->upto = malloc(nv * sizeof *f->upto);
    f->earliest = malloc((nv + c->narcs) * sizeof *f->earliest);
    f->latest = malloc((nv + c->narcs) * sizeof *f->latest);
    f->several = malloc((nv + c->narcs) * sizeof *f->several);
    f->late = calloc(nv, sizeof *f->late);
    f->sources = calloc(n, 1);
    f->dests = calloc(n, 1);
    if (!f->flow || !f->dist || !f->rest || !f->from || !f->upto || !f->earliest || !f->latest ||
        !f->several || !f->late || !f->sources || !f->dests || !add_arcs(f)) {
        ccl_i_time_flow_destroy(f);
        return NULL;
    }
    return f;
}

void ccl_i_time_flow_destroy(ccl_i_time_flow_t *f) {
    if (!f)
        return;
    ccl_maxflow_destroy(f->flow);
    free(f->dist);
    free(f->rest);
    free(f->from);
    free(f->upto);
    free(f->earliest);
    free(f->latest);
    free(f->several);
    free(f->late);
    free(f->sources);
    free(f->dests);
    free(f);
}

/* A cut with the sides in f->late: its sources are those on the early side. */
static ccl_status_t put(ccl_i_time_flow_t *f, const ccl_i_time_need_t *need, const double *from,
                        const double *upto, ccl_error_t *err) {
    const ccl_topology_t *topo = f->cuts->net->c->topo;
    bool forth = false, back = false;
    for (uint32_t r = 0; r < topo->nranks; r++) {
        f->sources[r] = need->sources[r] && !f->late[topo->rank_device[r]];
        f->dests[r] = need->dests[r] && f->late[topo->rank_device[r]];
        forth |= f->sources[r];
        back |= f->dests[r];
    }
    if (!forth || !back)
        return CCL_OK;
    ccl_i_time_side_t side = {
        .late = f->late, .from = from, .upto = upto, .earliest = f->earliest, .latest = f->latest};
    ccl_i_time_needed_t needed = {.sources = f->sources, .dests = f->dests, .partials = 1};
    needed.share = need->share(need->user, f->sources, f->dests);
    needed.least = need->joins ? 1 : needed.share;
    if (need->joins)
        *(need->to_one ? &side.several_earliest : &side.several_latest) = f->several;
    CCL_TRY(ccl_i_time_leave(f->cuts, &side, err));
    return ccl_i_time_cut(f->cuts, &needed, err);
}

/* Cuts after a growth: where the source's distances grow past the sink's, and where the sink's pass
 * the source's. Inside windows of a whole route all cuts hold; labels of their own need data that
 * arrive before they go on, which switches that add or copy do not wait for. */
static ccl_status_t put_level(ccl_i_time_flow_t *f, const ccl_i_time_need_t *need,
                              ccl_error_t *err) {
    const ccl_i_time_net_t *net = f->cuts->net;
    const ccl_topology_t *topo = net->c->topo;
    double reach = f->dist[f->sink];
    double near = isfinite(reach) ? reach * (1 - 1e-9) : INFINITY;
    uint32_t nv = net->c->nvertices;
    for (int by_sink = 0; by_sink < 2; by_sink++) {
        for (uint32_t v = 0; v < nv; v++) {
            f->late[v] = by_sink ? f->rest[v] < near : !(f->dist[v] < near);
            f->from[v] = f->dist[v];
            f->upto[v] = by_sink ? f->rest[v] : 0;
        }
        for (uint32_t r = 0; r < topo->nranks; r++) {
            uint32_t v = topo->rank_device[r];
            f->late[v] |= need->dests[r] > 0;
            f->from[v] = need->sources[r] ? fmin(f->from[v], net->launch_s[r]) : f->from[v];
            f->upto[v] = need->dests[r] ? fmax(f->upto[v], net->last_s) : f->upto[v];
        }
        CCL_TRY(put(f, need, NULL, NULL, err));
        if (!net->able && !need->joins)
            CCL_TRY(put(f, need, by_sink ? NULL : f->from, f->upto, err));
    }
    return CCL_OK;
}

/* When what counts can be where. */
static ccl_status_t reach(ccl_i_time_flow_t *f, const ccl_i_time_need_t *need, ccl_error_t *err) {
    const ccl_i_time_net_t *net = f->cuts->net;
    CCL_TRY(ccl_i_time_reach(net, false, need->sources, need->group_of, f->earliest,
                             need->joins && need->to_one ? f->several : NULL, err));
    return ccl_i_time_reach(net, true, need->dests, need->group_of, f->latest,
                            need->joins && !need->to_one ? f->several : NULL, err);
}

ccl_status_t ccl_i_time_border(const ccl_ctx_t *ctx, ccl_i_time_flow_t *f,
                               const ccl_i_time_need_t *need, const bool *late, ccl_error_t *err) {
    CCL_TRY(ccl_ctx_poll(ctx, NULL));
    memcpy(f->late, late, f->cuts->net->c->nvertices * sizeof *late);
    CCL_TRY(reach(f, need, err));
    return put(f, need, NULL, NULL, err);
}

ccl_status_t ccl_i_time_flow(const ccl_ctx_t *ctx, ccl_i_time_flow_t *f,
                             const ccl_i_time_need_t *need, ccl_error_t *err) {
    const ccl_i_time_net_t *net = f->cuts->net;
    uint32_t n = net->c->topo->nranks;
    CCL_TRY(ccl_ctx_poll(ctx, NULL));
    for (uint32_t r = 0; r < n; r++) {
        ccl_maxflow_capacity(f->flow, net->c->narcs + r, need->sources[r] ? f->most : 0);
        ccl_maxflow_capacity(f->flow, net->c->narcs + n + r, need->dests[r] ? f->most : 0);
    }
    ccl_maxflow_reset(f->flow);
    CCL_TRY(reach(f, need, err));
    for (uint32_t level = 0; level < MOST_LEVELS; level++) {
        if (!ccl_maxflow_distances(f->flow, f->source, false, f->dist) ||
            !ccl_maxflow_distances(f->flow, f->sink, true, f->rest))
            return ccl_fail_nomem(err);
        CCL_TRY(put_level(f, need, err));
        if (!isfinite(f->dist[f->sink]))
            return CCL_OK;
        int64_t more = ccl_maxflow_cheapest(f->flow, f->source, f->sink, f->dist, f->most);
        if (more < 0)
            return ccl_fail_nomem(err);
        if (more == 0)
            return CCL_OK;
    }
    return CCL_OK;
}
