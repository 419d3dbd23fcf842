/* Pods: equal parts of a cluster, and parts of a topology as topologies of their own. */
#include "synth/compose/compose.h"
#include "synth/common/plan.h"
#include "synth/common/spread.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* From a label per rank; labels 0 .. nlabels - 1 by lowest rank. */
static ccl_status_t fill_pods(ccl_i_pods_t *out, uint32_t n, const uint32_t *label,
                              uint32_t nlabels, ccl_error_t *err) {
    out->npods = nlabels;
    out->first = calloc(nlabels + (size_t)2, sizeof *out->first);
    out->ranks = calloc(n, sizeof *out->ranks);
    out->pod = calloc(n, sizeof *out->pod);
    out->place = calloc(n, sizeof *out->place);
    out->kind = calloc(nlabels, sizeof *out->kind);
    out->index = calloc(nlabels, sizeof *out->index);
    out->kind_first = calloc(nlabels + (size_t)2, sizeof *out->kind_first);
    out->of_kind = calloc(nlabels, sizeof *out->of_kind);
    if (!out->first || !out->ranks || !out->pod || !out->place || !out->kind || !out->index ||
        !out->kind_first || !out->of_kind)
        return ccl_fail_nomem(err);
    for (uint32_t r = 0; r < n; r++)
        out->first[label[r] + 2]++;
    for (uint32_t p = 0; p < nlabels; p++) {
        out->most = out->first[p + 2] > out->most ? out->first[p + 2] : out->most;
        out->first[p + 2] += out->first[p + 1];
    }
    for (uint32_t r = 0; r < n; r++) {
        out->pod[r] = label[r];
        out->place[r] = out->index[label[r]]++;
        out->ranks[out->first[label[r] + 1]++] = r;
    }
    return CCL_OK;
}

static bool same_Bps(double a, double b) {
    return fabs(a - b) <= 1e-9 * a;
}

/* The fastest hop to (from) other pods. */
static double past_Bps(const ccl_i_exchange_t *x, const ccl_i_pods_t *pods, uint32_t r, bool in) {
    const uint32_t *first = in ? x->in_first : x->out_first;
    double best = 0;
    for (uint32_t i = first[r]; i < first[r + 1]; i++) {
        const ccl_i_hop_t *h = &x->hops[in ? x->in_hops[i] : i];
        if (pods->pod[h->src] != pods->pod[h->dst])
            best = fmax(best, h->link_Bps);
    }
    return best;
}

/* Whether GPUs at each place have as fast hops to the same places and to the outside. */
static bool same_kind(const ccl_i_exchange_t *x, const ccl_i_pods_t *pods, uint32_t p, uint32_t q,
                      double *seen) {
    uint32_t g = ccl_i_pod_size(pods, p);
    if (ccl_i_pod_size(pods, q) != g)
        return false;
    for (uint32_t i = 0; i < g; i++) {
        uint32_t a = ccl_i_pod_rank(pods, p, i), b = ccl_i_pod_rank(pods, q, i);
        bool same = same_Bps(past_Bps(x, pods, a, false), past_Bps(x, pods, b, false)) &&
                    same_Bps(past_Bps(x, pods, a, true), past_Bps(x, pods, b, true));
        for (uint32_t k = 0; k < g; k++)
            seen[k] = 0;
        for (uint32_t h = x->out_first[a]; h < x->out_first[a + 1]; h++)
            if (pods->pod[x->hops[h].dst] == p)
                seen[pods->place[x->hops[h].dst]] += x->hops[h].link_Bps;
        for (uint32_t h = x->out_first[b]; h < x->out_first[b + 1]; h++)
            if (pods->pod[x->hops[h].dst] == q)
                seen[pods->place[x->hops[h].dst]] -= x->hops[h].link_Bps;
        for (uint32_t k = 0; k < g; k++)
            same = same && fabs(seen[k]) < 1; /* bytes a second */
        if (!same)
            return false;
    }
    return true;
}

/* By the first pod of each kind. */
static void sort_kinds(const ccl_i_exchange_t *x, ccl_i_pods_t *pods, double *seen) {
    for (uint32_t p = 0; p < pods->npods; p++) {
        uint32_t kind = 0;
        for (; kind < pods->nkinds; kind++) {
            uint32_t model = 0;
            while (pods->kind[model] != kind)
                model++;
            if (same_kind(x, pods, model, p, seen))
                break;
        }
        pods->nkinds += kind == pods->nkinds;
        pods->kind[p] = kind;
        pods->index[p] = pods->kind_first[kind + 2]++;
    }
    for (uint32_t k = 0; k < pods->nkinds; k++)
        pods->kind_first[k + 2] += pods->kind_first[k + 1];
    for (uint32_t p = 0; p < pods->npods; p++)
        pods->of_kind[pods->kind_first[pods->kind[p] + 1]++] = p;
}

/* A hop from every GPU to those at its place in all pods of its kind. */
static bool has_rails(const ccl_i_exchange_t *x, const ccl_i_pods_t *pods) {
    for (uint32_t r = 0; r < x->nranks; r++) {
        uint32_t rails = 0, kind = pods->kind[pods->pod[r]];
        for (uint32_t h = x->out_first[r]; h < x->out_first[r + 1]; h++) {
            uint32_t to = x->hops[h].dst;
            rails += pods->pod[to] != pods->pod[r] && pods->kind[pods->pod[to]] == kind &&
                     pods->place[to] == pods->place[r] &&
                     (h == x->out_first[r] || x->hops[h - 1].dst != to);
        }
        if (rails != ccl_i_kind_size(pods, kind) - 1)
            return false;
    }
    return true;
}

/* Numbers sets of `size`, 0: of any, larger first, that have no GPU in common. */
static uint32_t label_family(const ccl_i_cuts_t *cuts, uint32_t n, uint32_t size, uint32_t *label,
                             uint32_t *covered) {
    uint32_t family = 0;
    *covered = 0;
    for (uint32_t r = 0; r < n; r++)
        label[r] = CCL_NONE;
    for (uint32_t left = size ? size : n - 1; left >= (size ? size : 2); left--) {
        for (uint32_t s = 0; s < cuts->nsets; s++) {
            uint32_t free = 0;
            if (cuts->first[s + 1] - cuts->first[s] != left)
                continue;
            for (uint32_t i = cuts->first[s]; i < cuts->first[s + 1]; i++)
                free += label[cuts->ranks[i]] == CCL_NONE;
            for (uint32_t i = cuts->first[s]; free == left && i < cuts->first[s + 1]; i++)
                label[cuts->ranks[i]] = family;
            if (free == left) {
                family++;
                *covered += left;
            }
        }
    }
    return family;
}

/* The largest family of equal sets that share out all GPUs (of DGX-1 their quads), else, unless
   they have to be equal, one of any sets; 0 when there is none. */
static uint32_t label_by_sets(const ccl_i_cuts_t *cuts, uint32_t n, bool equal, uint32_t *label) {
    uint32_t best = 0, covered;
    for (uint32_t s = 0; s < cuts->nsets; s++) {
        uint32_t size = cuts->first[s + 1] - cuts->first[s];
        if (n % size == 0 && size > best) {
            label_family(cuts, n, size, label, &covered);
            best = covered == n ? size : best;
        }
    }
    if (best == 0 && equal)
        return 0;
    uint32_t family = label_family(cuts, n, best, label, &covered);
    return covered == n ? family : 0;
}

static ccl_status_t find_sets(const ccl_i_exchange_t *x, bool equal, uint32_t *label,
                              uint32_t *nlabels_out, ccl_error_t *err) {
    uint32_t n = x->nranks;
    uint32_t *owner = calloc(n, sizeof *owner);
    double *bytes = calloc(n, sizeof *bytes);
    ccl_i_spread_t what = {.x = x, .nchunks = n, .owner = owner, .bytes = bytes};
    ccl_i_cuts_t cuts;
    ccl_status_t status = owner && bytes ? CCL_OK : ccl_fail_nomem(err);
    for (uint32_t r = 0; status == CCL_OK && r < n; r++)
        owner[r] = r, bytes[r] = 1;
    if (status == CCL_OK)
        status = ccl_i_cuts_init(&cuts, &what, err);
    if (status == CCL_OK) {
        *nlabels_out = label_by_sets(&cuts, n, equal, label);
        ccl_i_cuts_fini(&cuts);
    }
    free(owner);
    free(bytes);
    return status;
}

ccl_status_t ccl_i_pods_find(const ccl_topology_t *topo, ccl_routes_t *routes, bool equal,
                             ccl_i_pods_t *out, ccl_error_t *err) {
    ccl_i_cluster_t cluster;
    ccl_i_exchange_t x;
    uint32_t n = topo->nranks, nlabels = 0;
    memset(out, 0, sizeof *out);
    CCL_TRY(ccl_i_cluster_init(&cluster, topo, routes, err));
    uint32_t *label = calloc(n, sizeof *label);
    double *seen = calloc(n, sizeof *seen);
    ccl_status_t status = ccl_i_exchange_init(&x, topo, routes, NULL, err);
    if (status != CCL_OK)
        goto end;
    if (!label || !seen) {
        status = ccl_fail_nomem(err);
        goto fini;
    }
    bool uneven = false;
    for (uint32_t s = 0; s < cluster.nservers; s++)
        uneven = uneven || cluster.first[s + 1] - cluster.first[s] != cluster.first[1];
    if (cluster.nservers == 1 || (uneven && equal))
        CCL_TRY_GOTO(find_sets(&x, uneven, label, &nlabels, err), status, fini);
    if (cluster.nservers > 1 && nlabels == 0) {
        nlabels = cluster.nservers;
        memcpy(label, cluster.server, n * sizeof *label);
    }
    if (nlabels < 2 || nlabels == n) {
        status = ccl_fail(err, CCL_UNSUPPORTED, "the cluster has no pods");
        goto fini;
    }
    CCL_TRY_GOTO(fill_pods(out, n, label, nlabels, err), status, fini);
    sort_kinds(&x, out, seen);
    out->rails = has_rails(&x, out);
fini:
    ccl_i_exchange_fini(&x);
end:
    ccl_i_cluster_fini(&cluster);
    free(label);
    free(seen);
    if (status != CCL_OK)
        ccl_i_pods_fini(out);
    return status;
}

void ccl_i_pods_fini(ccl_i_pods_t *pods) {
    uint32_t *const all[] = {pods->first, pods->ranks, pods->pod,        pods->place,
                             pods->kind,  pods->index, pods->kind_first, pods->of_kind};
    for (size_t i = 0; i < CCL_ARRAY_LEN(all); i++)
        free(all[i]);
    memset(pods, 0, sizeof *pods);
}

/* ---------------------------------------------------------------- parts of a topology */

typedef struct part {
    const ccl_topology_t *topo;
    uint8_t *link;    /* [nlinks] kept */
    uint32_t *device; /* [ndevices] new index; CCL_NONE */
    uint32_t *renum;  /* [nlinks] new index */
    uint32_t *list;   /* [nlinks] scratch */
    uint32_t inside;  /* server that routes must not leave; CCL_NONE: they may */
} part_t;

static bool leaves(const part_t *p, const ccl_route_t *route) {
    for (uint32_t i = 0; i < route->nlinks && p->inside != CCL_NONE; i++) {
        if (p->topo->devices[p->topo->links[route->links[i]].to].server != p->inside)
            return true;
    }
    return false;
}

static ccl_status_t keep_routes(part_t *p, ccl_routes_t *routes, const uint32_t *ranks, uint32_t n,
                                ccl_error_t *err) {
    for (uint32_t a = 0; a < n; a++) {
        for (uint32_t b = 0; b < n; b++) {
            const ccl_route_t *first, *route;
            if (a == b || ccl_routes_width(routes, ranks[a], ranks[b]) == 0)
                continue;
            for (uint32_t c = 0; c < CCL_I_EXCHANGE_ROUTES; c++) {
                CCL_TRY(ccl_routes_get(routes, ranks[a], ranks[b], c, &route, err));
                if (c == 0)
                    first = route;
                else if (route == first)
                    break;
                for (uint32_t i = 0; i < route->nlinks && !leaves(p, route); i++)
                    p->link[route->links[i]] = 1;
            }
        }
    }
    return CCL_OK;
}

static ccl_status_t add_devices(part_t *p, ccl_topology_builder_t *b, const uint32_t *ranks,
                                uint32_t n, ccl_error_t *err) {
    const ccl_topology_t *topo = p->topo;
    for (uint32_t d = 0; d < topo->ndevices; d++)
        p->device[d] = CCL_NONE;
    for (uint32_t l = 0; l < topo->nlinks; l++) {
        if (p->link[l])
            p->device[topo->links[l].from] = p->device[topo->links[l].to] = 0;
    }
    for (uint32_t r = 0; r < n; r++)
        p->device[topo->rank_device[ranks[r]]] = 0;
    for (uint32_t d = 0; d < topo->ndevices; d++) {
        const ccl_device_t *dev = &topo->devices[d];
        uint32_t rank = CCL_NONE;
        if (p->device[d] == CCL_NONE)
            continue;
        for (uint32_t r = 0; dev->rank != CCL_NONE && r < n; r++)
            rank = ranks[r] == dev->rank ? r : rank;
        CCL_TRY(ccl_topology_builder_device(
            b, dev->id, dev->kind, dev->server == CCL_NONE ? NULL : topo->servers[dev->server],
            rank, dev->model == CCL_NONE ? NULL : topo->gpu_models[dev->model].name, &p->device[d],
            err));
        CCL_TRY(ccl_topology_builder_abilities(b, p->device[d], dev, err));
    }
    return CCL_OK;
}

static ccl_status_t add_links(part_t *p, ccl_topology_builder_t *b, ccl_error_t *err) {
    const ccl_topology_t *topo = p->topo;
    uint32_t next = 0;
    for (uint32_t l = 0; l < topo->nlinks; l++) {
        const ccl_link_t *link = &topo->links[l];
        if (!p->link[l])
            continue;
        p->renum[l] = next++;
        CCL_TRY(ccl_topology_builder_link(b, p->device[link->from], p->device[link->to],
                                          topo->kinds[link->kind], link->bandwidth_Bps,
                                          link->latency_s, link->lanes, link->contention, err));
    }
    for (uint32_t g = 0; g < topo->ngroups; g++) {
        uint32_t n = 0;
        for (uint32_t i = 0; i < topo->groups[g].nlinks; i++) {
            if (p->link[topo->groups[g].links[i]])
                p->list[n++] = p->renum[topo->groups[g].links[i]];
        }
        if (n > 0)
            CCL_TRY(ccl_topology_builder_group(b, topo->groups[g].name,
                                               topo->groups[g].bandwidth_Bps, p->list, n, err));
    }
    return CCL_OK;
}

static ccl_status_t build_part(part_t p, ccl_routes_t *routes, const uint32_t *ranks,
                               uint32_t nranks, double sms_share, ccl_topology_t **out,
                               ccl_error_t *err) {
    const ccl_topology_t *topo = p.topo;
    ccl_topology_builder_t *b = ccl_topology_builder_create(topo->name);
    p.link = calloc(topo->nlinks + (size_t)1, 1);
    p.device = calloc(topo->ndevices, sizeof *p.device);
    p.renum = calloc(topo->nlinks + (size_t)1, sizeof *p.renum);
    p.list = calloc(topo->nlinks + (size_t)1, sizeof *p.list);
    ccl_status_t status = CCL_OK;
    if (!b || !p.link || !p.device || !p.renum || !p.list) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    CCL_TRY_GOTO(keep_routes(&p, routes, ranks, nranks, err), status, end);
    for (uint32_t m = 0; m < topo->ngpu_models; m++) {
        ccl_gpu_model_t model = topo->gpu_models[m];
        model.sms = model.sms > 4 ? (uint32_t)(model.sms * sms_share) : model.sms;
        CCL_TRY_GOTO(ccl_topology_builder_gpu_model(b, &model, err), status, end);
    }
    for (uint32_t t = 0; t < topo->ntransports; t++)
        CCL_TRY_GOTO(ccl_topology_builder_transport(b, &topo->transports[t], err), status, end);
    CCL_TRY_GOTO(add_devices(&p, b, ranks, nranks, err), status, end);
    CCL_TRY_GOTO(add_links(&p, b, err), status, end);
    status = ccl_topology_builder_finish(b, out, err);
end:
    ccl_topology_builder_destroy(b);
    free(p.link);
    free(p.device);
    free(p.renum);
    free(p.list);
    return status;
}

ccl_status_t ccl_i_topology_part(const ccl_topology_t *topo, ccl_routes_t *routes,
                                 const uint32_t *ranks, uint32_t nranks, double sms_share,
                                 ccl_topology_t **out, ccl_error_t *err) {
    part_t p = {.topo = topo, .inside = CCL_NONE};
    return build_part(p, routes, ranks, nranks, sms_share, out, err);
}

ccl_status_t ccl_i_topology_server(const ccl_topology_t *topo, ccl_routes_t *routes,
                                   const uint32_t *ranks, uint32_t nranks, ccl_topology_t **out,
                                   ccl_error_t *err) {
    part_t p = {.topo = topo, .inside = topo->devices[topo->rank_device[ranks[0]]].server};
    return build_part(p, routes, ranks, nranks, 1, out, err);
}
