/**
 * @file flows.c
 * Pure network runs: a flow starts when its dependency has arrived.
 */
#include "sim/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { EV_ARRIVED, EV_BEGIN };

typedef struct run {
    const ccl_flow_list_t *list;
    const ccl_route_t **route; /* [nflows] */
    uint32_t *path, *first_child, *next_child;
    double *latency_s; /* [paths] */
    size_t clatency;
    ccl_i_engine_t *engine;
    ccl_sim_result_t *result;
    ccl_trace_t *trace;
    double *start_s;
} run_t;

static void begin(run_t *run, uint32_t f, double time_s) {
    if (run->start_s)
        run->start_s[f] = time_s;
    const ccl_i_engine_flow_t flow = {run->route[f],       run->path[f],      f,
                                      run->list->bytes[f], run->list->src[f], f};
    ccl_i_engine_flow(run->engine, time_s, &flow);
}

static void drained(void *user, uint32_t f, double time_s) {
    run_t *run = user;
    double arrival = time_s + run->latency_s[run->path[f]];
    run->result->flow_done_s[f] = arrival;
    if (arrival > run->result->time_s)
        run->result->time_s = arrival;
    if (run->trace) {
        ccl_trace_span_t slice = {.start_s = run->start_s[f],
                                  .end_s = time_s,
                                  .bytes = run->list->bytes[f],
                                  .rank = run->list->src[f],
                                  .other = run->list->dst[f],
                                  .step = f};
        ccl_i_trace_flow(run->trace, &slice);
    }
    if (run->first_child[f] != CCL_NONE)
        ccl_i_engine_at(run->engine, arrival, EV_ARRIVED, f);
}

static void event(void *user, uint32_t kind, uint32_t f, double time_s) {
    run_t *run = user;
    if (kind == EV_BEGIN) {
        for (uint32_t i = 0; i < run->list->nflows; i++)
            if (run->list->dep[i] == CCL_NONE)
                begin(run, i, time_s);
        return;
    }
    for (uint32_t c = run->first_child[f]; c != CCL_NONE; c = run->next_child[c])
        begin(run, c, time_s);
}

static void granted(void *user, uint32_t f, double time_s) {
    run_t *run = user;
    if (run->start_s)
        run->start_s[f] = time_s;
}

static const ccl_i_engine_ops_t OPS = {event, drained, granted, NULL, NULL};

/* Routes of this many flows are looked up before the first of them is read. */
#define BLOCK 32u

static bool register_paths(run_t *run, uint32_t from, uint32_t to) {
    ccl_i_net_t *net = ccl_i_engine_net(run->engine);
    for (uint32_t f = from; f < to; f++) {
        const ccl_route_t *route = run->route[f];
        uint32_t path = ccl_i_net_path(net, route, INFINITY);
        if (path == CCL_NONE ||
            !ccl_i_grow(&run->latency_s, &run->clatency, path + 1u, sizeof(*run->latency_s)))
            return false;
        run->path[f] = path;
        run->latency_s[path] = route->latency_s;
        for (uint32_t i = 0; i < route->nlinks; i++) /* while the route is in the cache */
            run->result->links[route->links[i]].bytes += run->list->bytes[f];
    }
    return true;
}

static ccl_status_t prepare(run_t *run, ccl_routes_t *routes, ccl_error_t *err) {
    const ccl_flow_list_t *list = run->list;
    uint32_t n = list->nflows;
    run->route = malloc((n + 1u) * sizeof(*run->route));
    run->path = malloc((n + 1u) * sizeof(*run->path));
    run->first_child = malloc((n + 1u) * sizeof(*run->first_child));
    run->next_child = malloc((n + 1u) * sizeof(*run->next_child));
    if (run->trace)
        run->start_s = calloc(n + 1u, sizeof(*run->start_s));
    if (!run->route || !run->path || !run->first_child || !run->next_child ||
        (run->trace && !run->start_s))
        return ccl_fail_nomem(err);
    memset(run->first_child, 0xff, n * sizeof(*run->first_child));
    for (uint32_t f = n; f-- > 0;) {
        uint32_t dep = list->dep[f];
        if (dep == CCL_NONE)
            continue;
        run->next_child[f] = run->first_child[dep];
        run->first_child[dep] = f;
    }
    ccl_i_net_t *net = ccl_i_engine_net(run->engine);
    uint64_t pairs = (uint64_t)list->nranks * list->nranks;
    if (!ccl_i_net_reserve(net, pairs < n ? (uint32_t)pairs : n + 1u))
        return ccl_fail_nomem(err);
    for (uint32_t f = 0; f < n; f += BLOCK) {
        uint32_t end = n - f < BLOCK ? n : f + BLOCK;
        for (uint32_t i = f; i < end; i++) {
            CCL_TRY(ccl_routes_get(routes, list->src[i], list->dst[i], 0, &run->route[i], err));
            __builtin_prefetch(run->route[i]);
            __builtin_prefetch(run->route[i] + 1); /* its links, mostly */
        }
        if (!register_paths(run, f, end))
            return ccl_fail_nomem(err);
    }
    return ccl_i_net_freeze(net) ? CCL_OK : ccl_fail_nomem(err);
}

static ccl_status_t finish(run_t *run, const ccl_topology_t *topo, ccl_error_t *err) {
    const ccl_flow_list_t *list = run->list;
    ccl_sim_result_t *r = run->result;
    uint32_t done = 0, first = CCL_NONE;
    for (uint32_t f = 0; f < list->nflows; f++) {
        if (r->flow_done_s[f] < 0) {
            first = first == CCL_NONE ? f : first;
            continue;
        }
        done++;
        r->size_bytes += list->bytes[f];
    }
    if (done < list->nflows)
        return ccl_fail(err, CCL_CHECK,
                        "flow %u never starts: its dependencies form a cycle (%u of %u flows left)",
                        first, list->nflows - done, list->nflows);
    r->transfers = r->flows = list->nflows;
    r->batches = 1;
    r->algbw_GBps = r->busbw_GBps = r->time_s > 0 ? r->size_bytes / r->time_s / 1e9 : 0;
    ccl_i_result_links(r, topo);
    return CCL_OK;
}

ccl_status_t ccl_sim_flows(const ccl_ctx_t *ctx, const ccl_topology_t *topo, ccl_routes_t *routes,
                           const ccl_flow_list_t *list, const ccl_sim_options_t *options,
                           ccl_sim_result_t **out, ccl_error_t *err) {
    CCL_OPTIONS_TRY(ccl_sim_options_t, options, err);
    if (list->nranks != topo->nranks)
        return ccl_fail(err, CCL_ERR_INPUT, "the flow list has %u ranks, the topology %u GPUs",
                        list->nranks, topo->nranks);
    ccl_routes_t *own = routes ? NULL : ccl_routes_create(topo);
    run_t run = {.list = list, .trace = options->trace};
    ccl_status_t status;
    run.result = ccl_i_result_create(topo->nlinks, 0, list->nflows + 1u);
    run.engine = ccl_i_engine_create(ctx, topo, options->sharing, &OPS, &run);
    if ((!routes && !own) || !run.result || !run.engine) {
        status = ccl_fail_nomem(err);
        goto done;
    }
    CCL_TRY_GOTO(prepare(&run, routes ? routes : own, err), status, done);
    for (uint32_t f = 0; f < list->nflows; f++)
        run.result->flow_done_s[f] = -1;
    ccl_i_engine_at(run.engine, 0, EV_BEGIN, 0);
    CCL_TRY_GOTO(ccl_i_engine_run(run.engine, err), status, done);
    run.result->events = ccl_i_engine_events(run.engine);
    run.result->rate_changes = ccl_i_net_rate_changes(ccl_i_engine_net(run.engine));
    status = finish(&run, topo, err);
done:
    free(run.route);
    free(run.path);
    free(run.latency_s);
    free(run.first_child);
    free(run.next_child);
    free(run.start_s);
    ccl_i_engine_destroy(run.engine);
    ccl_routes_destroy(own);
    if (status == CCL_OK)
        *out = run.result;
    else
        ccl_sim_result_destroy(run.result);
    return status;
}
