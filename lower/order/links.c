/*
 * Communication dependencies: which connections the transfers use, and which links and groups
 * those share. Links with a contention slope and groups can be full; any other link loses nothing
 * when it is shared (docs/decisions.md).
 */
#include "lower/lower_i.h"
#include "lower/order/order.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct links {
    uint32_t *group_first, *groups; /* groups of a link: [nlinks + 1] */
    double *kind_rate_Bps;          /* [nkinds] tb_rate of the kind's transport */
    uint64_t *keys, *keys_tmp;      /* [nmembers] */
    uint32_t *items, *items_tmp;
    size_t uses_cap, nuses;
} links_t;

static ccl_status_t links_init(links_t *l, const ccl_topology_t *topo, uint32_t n,
                               ccl_error_t *err) {
    size_t nn = n + (size_t)1;
    uint32_t total = 0;
    for (uint32_t g = 0; g < topo->ngroups; g++)
        total += topo->groups[g].nlinks;
    l->group_first = calloc(topo->nlinks + (size_t)2, sizeof *l->group_first);
    l->groups = calloc(total + (size_t)1, sizeof *l->groups);
    l->kind_rate_Bps = calloc(topo->nkinds + (size_t)1, sizeof *l->kind_rate_Bps);
    l->keys = malloc(nn * sizeof *l->keys);
    l->keys_tmp = malloc(nn * sizeof *l->keys_tmp);
    l->items = malloc(nn * sizeof *l->items);
    l->items_tmp = malloc(nn * sizeof *l->items_tmp);
    if (!l->group_first || !l->groups || !l->kind_rate_Bps || !l->keys || !l->keys_tmp ||
        !l->items || !l->items_tmp)
        return ccl_fail_nomem(err);
    for (uint32_t g = 0; g < topo->ngroups; g++) {
        for (uint32_t i = 0; i < topo->groups[g].nlinks; i++)
            l->group_first[topo->groups[g].links[i] + 2]++;
    }
    for (uint32_t i = 0; i < topo->nlinks; i++)
        l->group_first[i + 2] += l->group_first[i + 1];
    for (uint32_t g = 0; g < topo->ngroups; g++) { /* leaves the starts in [.. + 0] */
        for (uint32_t i = 0; i < topo->groups[g].nlinks; i++)
            l->groups[l->group_first[topo->groups[g].links[i] + 1]++] = g;
    }
    for (uint32_t k = 0; k < topo->nkinds; k++)
        l->kind_rate_Bps[k] = ccl_model_transport(topo, topo->kinds[k], "Simple").tb_rate_Bps;
    return CCL_OK;
}

static void links_fini(links_t *l) {
    free(l->group_first);
    free(l->groups);
    free(l->kind_rate_Bps);
    free(l->keys);
    free(l->keys_tmp);
    free(l->items);
    free(l->items_tmp);
}

/* Numbers the connections that occur, ascending by source, channel and destination. */
static void number_conns(ccl_i_conns_t *c, const ccl_schedule_t *schedule, const ccl_i_dag_t *dag,
                         links_t *l, uint32_t nranks) {
    uint32_t n = dag->nmembers;
    for (uint32_t m = 0; m < n; m++) {
        const ccl_transfer_t *t = &schedule->transfers[dag->transfer[m]];
        l->keys[m] = ((uint64_t)t->src * schedule->nchannels + t->channel) * nranks + t->dst;
        l->items[m] = m;
    }
    ccl_i_radix_sort(l->keys, l->items, l->keys_tmp, l->items_tmp, n);
    for (uint32_t i = 0; i < n; i++) {
        c->nconns += i == 0 || l->keys[i] != l->keys[i - 1];
        c->conn_of[l->items[i]] = c->nconns - 1;
    }
}

static double kind_rate(const links_t *l, const ccl_topology_t *topo, const ccl_route_t *route) {
    const char *kind = ccl_model_route_kind(topo, route);
    for (uint32_t k = 0; k < topo->nkinds; k++) {
        if (strcmp(topo->kinds[k], kind) == 0)
            return l->kind_rate_Bps[k];
    }
    return route->bottleneck_Bps;
}

static ccl_status_t add_use(ccl_i_conns_t *c, links_t *l, uint32_t resource, ccl_error_t *err) {
    if (!ccl_grow(&c->uses, &l->uses_cap, l->nuses + 1, sizeof *c->uses))
        return ccl_fail_nomem(err);
    c->uses[l->nuses++] = resource;
    return CCL_OK;
}

static ccl_status_t add_conn(ccl_i_conns_t *c, uint32_t conn, const ccl_transfer_t *t, links_t *l,
                             const ccl_topology_t *topo, ccl_routes_t *routes, ccl_error_t *err) {
    const ccl_route_t *route;
    CCL_TRY(ccl_routes_get(routes, t->src, t->dst, t->channel, &route, err));
    double rate_Bps = kind_rate(l, topo, route);
    c->peak_Bps[conn] = rate_Bps < route->bottleneck_Bps ? rate_Bps : route->bottleneck_Bps;
    c->delay_s[conn] = ccl_model_tau(topo, route, "Simple", t->dst, 0, false);
    c->crosses_net[conn] = route->crosses_net;
    c->use_first[conn] = (uint32_t)l->nuses;
    for (uint32_t i = 0; i < route->nlinks; i++) {
        uint32_t link = route->links[i];
        CCL_TRY(add_use(c, l, link, err));
        for (uint32_t g = l->group_first[link]; g < l->group_first[link + 1]; g++)
            CCL_TRY(add_use(c, l, topo->nlinks + l->groups[g], err));
    }
    return CCL_OK;
}

ccl_status_t ccl_i_conns_init(ccl_i_conns_t *c, const ccl_schedule_t *schedule,
                              const ccl_i_dag_t *dag, const ccl_topology_t *topo,
                              ccl_routes_t *routes, ccl_error_t *err) {
    links_t l = {0};
    uint32_t n = dag->nmembers;
    memset(c, 0, sizeof *c);
    c->nresources = topo->nlinks + topo->ngroups;
    c->capacity_Bps = malloc((c->nresources + (size_t)1) * sizeof *c->capacity_Bps);
    c->full_Bps = malloc((c->nresources + (size_t)1) * sizeof *c->full_Bps);
    c->conn_of = malloc((n + (size_t)1) * sizeof *c->conn_of);
    ccl_status_t status = links_init(&l, topo, n, err);
    if (status != CCL_OK)
        goto end;
    if (!c->capacity_Bps || !c->full_Bps || !c->conn_of)
        goto nomem;
    for (uint32_t i = 0; i < topo->nlinks; i++) {
        c->capacity_Bps[i] = topo->links[i].bandwidth_Bps;
        c->full_Bps[i] = topo->links[i].contention > 0 ? c->capacity_Bps[i] * (1 - 1e-9) : INFINITY;
    }
    for (uint32_t g = 0; g < topo->ngroups; g++) {
        c->capacity_Bps[topo->nlinks + g] = topo->groups[g].bandwidth_Bps;
        c->full_Bps[topo->nlinks + g] = topo->groups[g].bandwidth_Bps * (1 - 1e-9);
    }
    number_conns(c, schedule, dag, &l, topo->nranks);
    size_t nconns = c->nconns + (size_t)1;
    c->peak_Bps = malloc(nconns * sizeof *c->peak_Bps);
    c->delay_s = malloc(nconns * sizeof *c->delay_s);
    c->crosses_net = malloc(nconns);
    c->use_first = malloc(nconns * sizeof *c->use_first);
    if (!c->peak_Bps || !c->delay_s || !c->crosses_net || !c->use_first)
        goto nomem;
    for (uint32_t i = 0, conn = 0; i < n; i++) {
        if (i && l.keys[i] == l.keys[i - 1])
            continue;
        const ccl_transfer_t *t = &schedule->transfers[dag->transfer[l.items[i]]];
        CCL_TRY_GOTO(add_conn(c, conn++, t, &l, topo, routes, err), status, end);
    }
    c->use_first[c->nconns] = (uint32_t)l.nuses;
    goto end;
nomem:
    status = ccl_fail_nomem(err);
end:
    links_fini(&l);
    return status;
}

void ccl_i_conns_fini(ccl_i_conns_t *c) {
    free(c->conn_of);
    free(c->peak_Bps);
    free(c->delay_s);
    free(c->crosses_net);
    free(c->use_first);
    free(c->uses);
    free(c->capacity_Bps);
    free(c->full_Bps);
}
