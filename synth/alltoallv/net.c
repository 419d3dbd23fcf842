/*
 * The cluster by servers. Lanes: hops between two servers, such that every NIC of either has one.
 * Inner ways: hops inside servers. Both know which links and groups they load.
 */
#include "synth/alltoallv/net.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Routes of a pair of GPUs, over other NICs or spines, that become lanes of their own. */
enum { MOST_ROUTES = 4 };

/* Links of the route, and groups that they are in, each as often as a flow counts there. */
static ccl_status_t add_route(ccl_i_av_net_t *net, const ccl_route_t *route, ccl_i_av_uses_t *out,
                              ccl_error_t *err) {
    for (uint32_t i = 0; i < route->nlinks; i++) {
        uint32_t l = route->links[i];
        for (uint32_t k = net->group_first[l]; k <= net->group_first[l + 1]; k++) {
            uint32_t r = k == net->group_first[l + 1] ? l : net->topo->nlinks + net->group_of[k];
            if (!ccl_grow(&net->uses, &net->cuses, net->nuses + 1, sizeof *net->uses))
                return ccl_fail_nomem(err);
            net->uses[net->nuses++] = r;
            out->slowest = fmax(out->slowest, net->slow[r]);
            out->n++;
        }
    }
    return CCL_OK;
}

static ccl_status_t list_groups(ccl_i_av_net_t *net, ccl_error_t *err) {
    const ccl_topology_t *topo = net->topo;
    size_t members = 0;
    for (uint32_t g = 0; g < topo->ngroups; g++)
        members += topo->groups[g].nlinks;
    net->group_first = calloc(topo->nlinks + (size_t)2, sizeof *net->group_first);
    net->group_of = calloc(members + 1, sizeof *net->group_of);
    if (!net->group_first || !net->group_of)
        return ccl_fail_nomem(err);
    for (uint32_t g = 0; g < topo->ngroups; g++)
        for (uint32_t i = 0; i < topo->groups[g].nlinks; i++)
            net->group_first[topo->groups[g].links[i] + 2]++;
    for (uint32_t l = 1; l <= topo->nlinks; l++)
        net->group_first[l + 1] += net->group_first[l];
    for (uint32_t g = 0; g < topo->ngroups; g++)
        for (uint32_t i = 0; i < topo->groups[g].nlinks; i++)
            net->group_of[net->group_first[topo->groups[g].links[i] + 1]++] = g;
    return CCL_OK;
}

static const ccl_route_t *route_of(ccl_i_av_net_t *net, uint32_t src, uint32_t dst,
                                   uint32_t channel) {
    return net->reversed ? ccl_i_cluster_route(&net->cluster, dst, src, channel)
                         : ccl_i_cluster_route(&net->cluster, src, dst, channel);
}

static double block_Bps(const ccl_i_av_net_t *net, const ccl_route_t *route) {
    return ccl_model_transport(net->topo, ccl_model_route_kind(net->topo, route), "Simple")
        .tb_rate_Bps;
}

ccl_status_t ccl_i_av_hop(ccl_i_av_net_t *net, uint32_t a, uint32_t b, uint32_t channel,
                          ccl_i_av_lane_t *out, ccl_error_t *err) {
    const ccl_route_t *route = route_of(net, a, b, channel);
    uint32_t period =
        net->reversed ? ccl_routes_period(net->routes, b, a) : ccl_routes_period(net->routes, a, b);
    if (!route)
        return net->cluster.nomem
                   ? ccl_fail_nomem(err)
                   : ccl_fail(err, CCL_ERR_INTERNAL, "no route from GPU %u to %u", a, b);
    *out = (ccl_i_av_lane_t){.src = a, .dst = b, .channel = (uint16_t)channel};
    out->period = (uint16_t)(period < UINT16_MAX / 64 ? period : UINT16_MAX / 64);
    out->tb_Bps = block_Bps(net, route);
    out->uses.first = (uint32_t)net->nuses;
    return add_route(net, route, &out->uses, err);
}

/* A lane for each of the pair's routes. */
static ccl_status_t add_lanes(ccl_i_av_net_t *net, uint32_t src, uint32_t dst, size_t first,
                              ccl_error_t *err) {
    uint32_t period = net->reversed ? ccl_routes_period(net->routes, dst, src)
                                    : ccl_routes_period(net->routes, src, dst);
    for (uint32_t c = 0; c < period && c < MOST_ROUTES && net->nlanes - first < CCL_I_AV_LANES;
         c++) {
        if (!ccl_grow(&net->lanes, &net->clanes, net->nlanes + 1, sizeof *net->lanes))
            return ccl_fail_nomem(err);
        CCL_TRY(ccl_i_av_hop(net, src, dst, c, &net->lanes[net->nlanes], err));
        net->nlanes++;
    }
    return CCL_OK;
}

static bool reaches(const ccl_i_av_net_t *net, uint32_t src, uint32_t dst) {
    return net->reversed ? ccl_i_cluster_reaches(&net->cluster, dst, src)
                         : ccl_i_cluster_reaches(&net->cluster, src, dst);
}

/* GPU i with GPU i, modulo their numbers; who has no route there, with the first that it has. */
static ccl_status_t join(ccl_i_av_net_t *net, uint32_t from, uint32_t to, ccl_error_t *err) {
    const ccl_i_cluster_t *c = &net->cluster;
    uint32_t na = ccl_i_cluster_gpus(c, from), nb = ccl_i_cluster_gpus(c, to);
    uint32_t n = na > nb ? na : nb;
    size_t first = net->nlanes;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t g = ccl_i_cluster_rank(c, from, k), h = ccl_i_cluster_rank(c, to, k);
        if (reaches(net, g, h)) {
            CCL_TRY(add_lanes(net, g, h, first, err));
            continue;
        }
        for (uint32_t j = 1; j < nb; j++) {
            uint32_t other = ccl_i_cluster_rank(c, to, k + j);
            if (k < na && reaches(net, g, other)) {
                CCL_TRY(add_lanes(net, g, other, first, err));
                break;
            }
        }
    }
    net->lacking |= net->nlanes == first;
    return CCL_OK;
}

/* The way from a to b inside their server, over other GPUs of it where it must be. */
static ccl_status_t add_inner(ccl_i_av_net_t *net, uint32_t src, uint32_t dst,
                              ccl_i_av_inner_t *out, uint32_t *path, ccl_error_t *err) {
    *out = (ccl_i_av_inner_t){.first = (uint32_t)net->npath, .tb_Bps = INFINITY};
    out->uses.first = (uint32_t)net->nuses;
    if (src == dst)
        return CCL_OK;
    CCL_TRY(ccl_i_cluster_path(&net->cluster, net->reversed ? dst : src, net->reversed ? src : dst,
                               path, &out->nhops, err));
    net->relayed |= out->nhops > 1;
    if (out->nhops > CCL_I_AV_INNER)
        return ccl_fail(err, CCL_UNSUPPORTED,
                        "GPUs %u and %u of a server are %u hops apart: at most %d are planned", src,
                        dst, out->nhops, CCL_I_AV_INNER);
    if (!ccl_grow(&net->path, &net->cpath, net->npath + out->nhops, sizeof *net->path))
        return ccl_fail_nomem(err);
    for (uint32_t k = 1, at = src; k <= out->nhops; k++) {
        uint32_t next = path[net->reversed ? out->nhops - k : k];
        const ccl_route_t *route = route_of(net, at, next, 0);
        if (!route)
            return net->cluster.nomem
                       ? ccl_fail_nomem(err)
                       : ccl_fail(err, CCL_ERR_INTERNAL, "no route from GPU %u to %u", at, next);
        CCL_TRY(add_route(net, route, &out->uses, err));
        out->tb_Bps = fmin(out->tb_Bps, block_Bps(net, route));
        net->path[net->npath++] = at = next;
    }
    return CCL_OK;
}

static ccl_status_t add_server(ccl_i_av_net_t *net, uint32_t s, uint32_t *path, ccl_error_t *err) {
    const ccl_i_cluster_t *c = &net->cluster;
    uint32_t gpus = ccl_i_cluster_gpus(c, s);
    net->inner_first[s] = (uint32_t)net->ninner;
    if (!ccl_grow(&net->inner, &net->cinner, net->ninner + (size_t)gpus * gpus, sizeof *net->inner))
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < gpus; i++)
        for (uint32_t j = 0; j < gpus; j++)
            CCL_TRY(add_inner(net, ccl_i_cluster_rank(c, s, i), ccl_i_cluster_rank(c, s, j),
                              &net->inner[net->ninner++], path, err));
    return CCL_OK;
}

static ccl_status_t fill(ccl_i_av_net_t *net, uint32_t *path, ccl_error_t *err) {
    const ccl_topology_t *topo = net->topo;
    uint32_t ns = net->nservers;
    for (uint32_t l = 0; l < topo->nlinks; l++)
        net->slow[l] = 1 / topo->links[l].bandwidth_Bps;
    for (uint32_t g = 0; g < topo->ngroups; g++)
        net->slow[topo->nlinks + g] = 1 / topo->groups[g].bandwidth_Bps;
    CCL_TRY(list_groups(net, err));
    for (uint32_t s = 0; s < ns; s++)
        CCL_TRY(add_server(net, s, path, err));
    for (uint32_t p = 0; p < ns * ns; p++) {
        net->lane_first[p] = (uint32_t)net->nlanes;
        if (p / ns != p % ns)
            CCL_TRY(join(net, p / ns, p % ns, err));
    }
    net->lane_first[ns * ns] = (uint32_t)net->nlanes;
    return CCL_OK;
}

ccl_status_t ccl_i_av_net_init(ccl_i_av_net_t *net, const ccl_topology_t *topo, bool reversed,
                               ccl_error_t *err) {
    uint32_t *path = NULL;
    memset(net, 0, sizeof *net);
    net->topo = topo;
    net->reversed = reversed;
    net->n = topo->nranks;
    net->nresources = topo->nlinks + topo->ngroups;
    net->routes = ccl_routes_create(topo);
    if (!net->routes)
        return ccl_fail_nomem(err);
    ccl_status_t status = ccl_i_cluster_init(&net->cluster, topo, net->routes, err);
    if (status != CCL_OK)
        goto end;
    net->nservers = net->cluster.nservers;
    net->contiguous = true;
    for (uint32_t r = 0; r < net->n; r++)
        net->contiguous &= net->cluster.ranks[r] == r;
    net->slow = calloc(net->nresources + (size_t)1, sizeof *net->slow);
    net->lane_first = calloc((size_t)net->nservers * net->nservers + 1, sizeof *net->lane_first);
    net->inner_first = calloc(net->nservers + (size_t)1, sizeof *net->inner_first);
    path = calloc(topo->nranks + (size_t)1, sizeof *path);
    if (!net->slow || !net->lane_first || !net->inner_first || !path) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    CCL_TRY_GOTO(fill(net, path, err), status, end);
    status = ccl_cut_levels_init(&net->levels, topo, err);
end:
    free(path);
    if (status != CCL_OK)
        ccl_i_av_net_fini(net);
    return status;
}

void ccl_i_av_net_fini(ccl_i_av_net_t *net) {
    ccl_i_cluster_fini(&net->cluster);
    ccl_routes_destroy(net->routes);
    ccl_cut_levels_fini(&net->levels);
    free(net->slow);
    free(net->group_first);
    free(net->group_of);
    free(net->lane_first);
    free(net->lanes);
    free(net->inner_first);
    free(net->inner);
    free(net->uses);
    free(net->path);
    memset(net, 0, sizeof *net);
}
