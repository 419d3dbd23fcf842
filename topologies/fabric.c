/* Expansion of a cluster: servers side by side, then the fabric that joins their ports. */
#include "topologies/cluster.h"

#include <stdlib.h>
#include <string.h>

#define ID_BYTES 240

typedef struct expansion {
    const ccl_ctx_t *ctx;
    const ccl_i_cluster_spec_t *cluster;
    ccl_topology_builder_t *b;
    ccl_error_t *err;
    uint32_t *first_device; /* [nservers] */
    uint32_t next_link;
} expansion_t;

/* What one end of the fabric offers. */
typedef struct socket_end {
    uint32_t device;
    double bandwidth_Bps, latency_s;
    bool out, in;
} socket_end_t;

static const ccl_i_server_type_t *type_of(const ccl_i_cluster_spec_t *cluster, uint32_t server) {
    return &cluster->types[cluster->servers[server]];
}

static socket_end_t port_end(const expansion_t *x, uint32_t server, uint32_t index) {
    const ccl_i_fabric_t *fabric = &x->cluster->fabric;
    const ccl_i_port_t *port = &type_of(x->cluster, server)->ports[index];
    socket_end_t end = {x->first_device[server] + port->device, port->bandwidth_Bps,
                        port->latency_s, port->out, port->in};
    if (fabric->bandwidth_Bps > 0)
        end.bandwidth_Bps = fabric->bandwidth_Bps;
    if (fabric->latency_s >= 0)
        end.latency_s = fabric->latency_s;
    return end;
}

ccl_status_t ccl_i_cluster_check(const ccl_i_cluster_spec_t *cluster, ccl_error_t *err) {
    uint64_t ndevices = 0, nlinks = 0, ngrouplinks = 0, ngpus = 0, nports = 0;
    if (cluster->nservers == 0)
        return ccl_fail(err, CCL_ERR_INPUT, "a cluster needs at least one server");
    if (cluster->nservers > CCL_I_CLUSTER_MAX_SERVERS)
        return ccl_fail(err, CCL_ERR_INPUT, "%u servers, more than %u", cluster->nservers,
                        CCL_I_CLUSTER_MAX_SERVERS);
    for (uint32_t s = 0; s < cluster->nservers; s++) {
        const ccl_i_server_type_t *type = type_of(cluster, s);
        ndevices += type->ndevices;
        nlinks += type->ndirected;
        ngrouplinks += type->ngrouplinks;
        ngpus += type->ngpus;
        nports += type->nports;
        /* Each step adds at most 2^32 of each, so nothing can wrap before it is refused. */
        if (ngpus > CCL_I_CLUSTER_MAX_GPUS || ndevices > CCL_I_CLUSTER_MAX_DEVICES ||
            nlinks + 2 * nports > CCL_I_CLUSTER_MAX_LINKS || ngrouplinks > CCL_I_CLUSTER_MAX_LINKS)
            return ccl_fail(err, CCL_ERR_INPUT,
                            "the cluster is too large: at most %u gpus, %llu devices and %llu "
                            "directed links",
                            CCL_I_CLUSTER_MAX_GPUS, (unsigned long long)CCL_I_CLUSTER_MAX_DEVICES,
                            (unsigned long long)CCL_I_CLUSTER_MAX_LINKS);
    }
    if (ngpus == 0)
        return ccl_fail(err, CCL_ERR_INPUT, "the cluster has no gpu");
    return CCL_OK;
}

/* ------------------------------------------------------------------ servers */

/* @param first  of the devices that the link numbers. */
static ccl_status_t add_link(expansion_t *x, uint32_t first, const ccl_i_part_link_t *link,
                             bool back) {
    uint32_t from = first + (back ? link->to : link->from);
    uint32_t to = first + (back ? link->from : link->to);
    CCL_TRY(ccl_topology_builder_link(x->b, from, to, link->kind, link->bandwidth_Bps,
                                      link->latency_s, link->lanes, link->contention, x->err));
    x->next_link++;
    return CCL_OK;
}

static ccl_status_t add_server(expansion_t *x, uint32_t server, uint32_t *rank) {
    const ccl_i_server_type_t *type = type_of(x->cluster, server);
    char name[32], id[ID_BYTES];
    snprintf(name, sizeof name, "s%u", server);
    for (uint32_t d = 0; d < type->ndevices; d++) {
        const ccl_i_part_device_t *device = &type->devices[d];
        uint32_t index;
        snprintf(id, sizeof id, "%s/%s", name, device->id);
        bool is_gpu = device->kind == CCL_DEVICE_GPU;
        CCL_TRY(ccl_topology_builder_device(x->b, id, device->kind, name,
                                            is_gpu ? (*rank)++ : CCL_NONE, device->model, &index,
                                            x->err));
        if (device->able)
            CCL_TRY(ccl_topology_builder_abilities(x->b, index, device->able, x->err));
        if (d == 0)
            x->first_device[server] = index;
    }
    uint32_t first = x->first_device[server], first_link = x->next_link;
    for (uint32_t l = 0; l < type->nlinks; l++) {
        const ccl_i_part_link_t *link = &type->links[l];
        CCL_TRY(add_link(x, first, link, false));
        if (link->duplex)
            CCL_TRY(add_link(x, first, link, true));
    }
    for (uint32_t g = 0; g < type->ngroups; g++) {
        const ccl_i_part_group_t *group = &type->groups[g];
        uint32_t *links = calloc((size_t)group->nlinks + 1, sizeof *links);
        if (!links)
            return ccl_fail_nomem(x->err);
        for (uint32_t l = 0; l < group->nlinks; l++)
            links[l] = first_link + group->links[l];
        snprintf(id, sizeof id, "%s/%s", name, group->name);
        ccl_status_t status = ccl_topology_builder_group(x->b, id, group->bandwidth_Bps, links,
                                                         group->nlinks, x->err);
        free(links);
        CCL_TRY(status);
    }
    return CCL_OK;
}

/* ------------------------------------------------------------------ fabrics */

static ccl_status_t add_switch(expansion_t *x, const char *what, uint32_t number,
                               uint32_t *index_out) {
    char id[ID_BYTES];
    if (number == CCL_NONE)
        snprintf(id, sizeof id, "fabric/%s", what);
    else
        snprintf(id, sizeof id, "fabric/%s%u", what, number);
    CCL_TRY(ccl_topology_builder_device(x->b, id, CCL_DEVICE_SWITCH, NULL, CCL_NONE, NULL,
                                        index_out, x->err));
    const ccl_device_t *able = x->cluster->fabric.able;
    return able ? ccl_topology_builder_abilities(x->b, *index_out, able, x->err) : CCL_OK;
}

static ccl_status_t add_net(expansion_t *x, uint32_t from, uint32_t to, double bandwidth_Bps,
                            double latency_s) {
    const ccl_i_part_link_t link = {.from = from,
                                    .to = to,
                                    .kind = "net",
                                    .bandwidth_Bps = bandwidth_Bps,
                                    .latency_s = latency_s,
                                    .contention = x->cluster->fabric.contention,
                                    .lanes = 1};
    return add_link(x, 0, &link, false);
}

static ccl_status_t add_net_duplex(expansion_t *x, uint32_t from, uint32_t to, double bandwidth_Bps,
                                   double latency_s) {
    CCL_TRY(add_net(x, from, to, bandwidth_Bps, latency_s));
    return add_net(x, to, from, bandwidth_Bps, latency_s);
}

static ccl_status_t attach(expansion_t *x, socket_end_t end, uint32_t to_switch) {
    if (end.out)
        CCL_TRY(add_net(x, end.device, to_switch, end.bandwidth_Bps, end.latency_s));
    if (end.in)
        CCL_TRY(add_net(x, to_switch, end.device, end.bandwidth_Bps, end.latency_s));
    return CCL_OK;
}

static ccl_status_t expand_single(expansion_t *x) {
    uint32_t hub;
    CCL_TRY(add_switch(x, "switch", CCL_NONE, &hub));
    for (uint32_t s = 0; s < x->cluster->nservers; s++)
        for (uint32_t p = 0; p < type_of(x->cluster, s)->nports; p++)
            CCL_TRY(attach(x, port_end(x, s, p), hub));
    return CCL_OK;
}

/* The lowest tier: switches ("leaves" or rails) and what their ports add up to. */
typedef struct tier {
    uint32_t n;
    uint32_t *device;     /* [n] CCL_NONE until something attaches to it */
    double *capacity_Bps; /* [n] sum of the ports below */
    double *latency_s;    /* [n] the largest latency below */
    uint32_t *last_server;
    uint32_t *nservers; /* [n] how many servers it joins */
} tier_t;

static void tier_fini(tier_t *tier) {
    free(tier->device);
    free(tier->capacity_Bps);
    free(tier->latency_s);
    free(tier->last_server);
    free(tier->nservers);
}

static ccl_status_t tier_init(tier_t *tier, uint64_t n, const char *what, ccl_error_t *err) {
    memset(tier, 0, sizeof *tier);
    if (n > CCL_I_CLUSTER_MAX_SWITCHES)
        return ccl_fail(err, CCL_ERR_INPUT, "the fabric would need %llu %s switches, more than %u",
                        (unsigned long long)n, what, CCL_I_CLUSTER_MAX_SWITCHES);
    tier->n = (uint32_t)n;
    tier->device = calloc((size_t)n + 1, sizeof *tier->device);
    tier->capacity_Bps = calloc((size_t)n + 1, sizeof *tier->capacity_Bps);
    tier->latency_s = calloc((size_t)n + 1, sizeof *tier->latency_s);
    tier->last_server = calloc((size_t)n + 1, sizeof *tier->last_server);
    tier->nservers = calloc((size_t)n + 1, sizeof *tier->nservers);
    if (!tier->device || !tier->capacity_Bps || !tier->latency_s || !tier->last_server ||
        !tier->nservers)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < tier->n; i++)
        tier->device[i] = tier->last_server[i] = CCL_NONE;
    return CCL_OK;
}

static ccl_status_t tier_attach(expansion_t *x, tier_t *tier, const char *what, uint32_t number,
                                uint32_t server, uint32_t port) {
    socket_end_t end = port_end(x, server, port);
    if (tier->device[number] == CCL_NONE)
        CCL_TRY(add_switch(x, what, number, &tier->device[number]));
    tier->capacity_Bps[number] += end.bandwidth_Bps;
    if (end.latency_s > tier->latency_s[number])
        tier->latency_s[number] = end.latency_s;
    if (tier->last_server[number] != server) {
        tier->last_server[number] = server;
        tier->nservers[number]++;
    }
    return attach(x, end, tier->device[number]);
}

/* Some switches of a tier, and the links down from each. */
typedef struct upper {
    const char *what; /* of a switch: "spine" */
    uint32_t first, n;
    double link_Bps;         /* 0: by oversubscription */
    double oversubscription; /* of the tier below */
    double latency_s;        /* less than 0: as below */
} upper_t;

/* Join the switches [first, last) of `below` through those of the next tier. */
static ccl_status_t join(expansion_t *x, const tier_t *below, uint32_t first, uint32_t last,
                         tier_t *above, const upper_t *upper) {
    const uint32_t n = upper->n;
    const uint64_t nlinks = (uint64_t)(last - first) * n * 2 + x->next_link;
    if (nlinks > CCL_I_CLUSTER_MAX_LINKS)
        return ccl_fail(x->err, CCL_ERR_INPUT, "the fabric would need more than %llu links",
                        (unsigned long long)CCL_I_CLUSTER_MAX_LINKS);
    for (uint32_t a = upper->first; a < upper->first + n; a++) {
        CCL_TRY(add_switch(x, upper->what, a, &above->device[a]));
        for (uint32_t i = first; i < last; i++) {
            if (below->device[i] == CCL_NONE)
                continue;
            double bandwidth_Bps = upper->link_Bps;
            if (!(bandwidth_Bps > 0))
                bandwidth_Bps = below->capacity_Bps[i] / upper->oversubscription / n;
            double link_s = upper->latency_s >= 0 ? upper->latency_s : below->latency_s[i];
            CCL_TRY(add_net_duplex(x, below->device[i], above->device[a], bandwidth_Bps, link_s));
            above->capacity_Bps[a] += bandwidth_Bps;
            if (link_s > above->latency_s[a])
                above->latency_s[a] = link_s;
        }
    }
    return CCL_OK;
}

static ccl_status_t expand_rail(expansion_t *x) {
    const ccl_i_fabric_t *fabric = &x->cluster->fabric;
    uint32_t rails = fabric->rails;
    if (rails == 0) {
        /* By default no more rails than every server can reach: a richer server's further ports
           wrap around, so each of its NICs still meets every other server. */
        rails = CCL_NONE;
        for (uint32_t s = 0; s < x->cluster->nservers; s++)
            if (type_of(x->cluster, s)->nports < rails)
                rails = type_of(x->cluster, s)->nports;
    }
    tier_t tier = {0}, spine = {0};
    ccl_status_t status;
    CCL_TRY_GOTO(tier_init(&tier, rails, "rail", x->err), status, done);
    for (uint32_t s = 0; s < x->cluster->nservers; s++)
        for (uint32_t p = 0; p < type_of(x->cluster, s)->nports; p++)
            CCL_TRY_GOTO(tier_attach(x, &tier, "rail", p % rails, s, p), status, done);
    for (uint32_t r = 0; r < rails; r++)
        if (tier.nservers[r] < 2 && fabric->spines == 0 && x->cluster->nservers > 1)
            ccl_log(x->ctx, CCL_LOG_WARN, "topologies", "rail %u joins %u of %u servers", r,
                    tier.nservers[r], x->cluster->nservers);
    if (fabric->spines > 0) {
        CCL_TRY_GOTO(tier_init(&spine, fabric->spines, "spine", x->err), status, done);
        const double over = fabric->oversubscription > 0 ? fabric->oversubscription : 1;
        const upper_t spines = {
            "spine", 0, fabric->spines, fabric->uplink_Bps, over, fabric->uplink_latency_s};
        CCL_TRY_GOTO(join(x, &tier, 0, rails, &spine, &spines), status, done);
    }
    status = CCL_OK;
done:
    tier_fini(&tier);
    tier_fini(&spine);
    return status;
}

static ccl_status_t expand_clos(expansion_t *x) {
    const ccl_i_fabric_t *fabric = &x->cluster->fabric;
    const uint32_t nservers = x->cluster->nservers;
    const uint32_t rails = fabric->rails > 0 ? fabric->rails : 1;
    uint64_t nports = 0, port = 0, nleaves;
    for (uint32_t s = 0; s < nservers; s++)
        nports += type_of(x->cluster, s)->nports;
    if (fabric->ports_per_leaf > 0)
        nleaves = (nports + fabric->ports_per_leaf - 1) / fabric->ports_per_leaf;
    else
        nleaves =
            ((uint64_t)nservers + fabric->servers_per_leaf - 1) / fabric->servers_per_leaf * rails;
    tier_t leaf = {0}, spine = {0}, core = {0};
    ccl_status_t status;
    CCL_TRY_GOTO(tier_init(&leaf, nleaves, "leaf", x->err), status, done);
    for (uint32_t s = 0; s < nservers; s++) {
        for (uint32_t p = 0; p < type_of(x->cluster, s)->nports; p++, port++) {
            uint32_t number = fabric->ports_per_leaf > 0
                                  ? (uint32_t)(port / fabric->ports_per_leaf)
                                  : s / fabric->servers_per_leaf * rails + p % rails;
            CCL_TRY_GOTO(tier_attach(x, &leaf, "leaf", number, s, p), status, done);
        }
    }
    const uint32_t spines = fabric->spines > 0 ? fabric->spines : 1;
    const uint32_t per_pod = fabric->leaves_per_pod > 0 ? fabric->leaves_per_pod : leaf.n;
    const uint32_t pods = per_pod > 0 ? leaf.n / per_pod + (leaf.n % per_pod > 0) : 0;
    const double oversubscription = fabric->oversubscription > 0 ? fabric->oversubscription : 1;
    if (leaf.n > 1) {
        CCL_TRY_GOTO(tier_init(&spine, (uint64_t)spines * pods, "spine", x->err), status, done);
        for (uint32_t pod = 0; pod < pods; pod++) {
            uint32_t first = pod * per_pod;
            uint32_t last = leaf.n - first > per_pod ? first + per_pod : leaf.n;
            const upper_t upper = {"spine",          pod * spines,
                                   spines,           fabric->uplink_Bps,
                                   oversubscription, fabric->uplink_latency_s};
            CCL_TRY_GOTO(join(x, &leaf, first, last, &spine, &upper), status, done);
        }
    }
    if (pods > 1) {
        const uint32_t cores = fabric->cores > 0 ? fabric->cores : 1;
        const double over = fabric->core_oversubscription > 0 ? fabric->core_oversubscription : 1;
        CCL_TRY_GOTO(tier_init(&core, cores, "core", x->err), status, done);
        const upper_t upper = {"core", 0, cores, fabric->core_Bps, over, fabric->core_latency_s};
        CCL_TRY_GOTO(join(x, &spine, 0, spine.n, &core, &upper), status, done);
    }
    status = CCL_OK;
done:
    tier_fini(&leaf);
    tier_fini(&spine);
    tier_fini(&core);
    return status;
}

static ccl_status_t expand_direct(expansion_t *x) {
    const ccl_i_fabric_t *fabric = &x->cluster->fabric;
    for (uint32_t w = 0; w < fabric->nwires; w++) {
        const ccl_i_cable_t *wire = &fabric->wires[w];
        socket_end_t from = port_end(x, wire->from_server, wire->from_port);
        socket_end_t to = port_end(x, wire->to_server, wire->to_port);
        double bandwidth_Bps = wire->bandwidth_Bps;
        if (!(bandwidth_Bps > 0))
            bandwidth_Bps =
                from.bandwidth_Bps < to.bandwidth_Bps ? from.bandwidth_Bps : to.bandwidth_Bps;
        double latency_s = wire->latency_s;
        if (latency_s < 0)
            latency_s = from.latency_s > to.latency_s ? from.latency_s : to.latency_s;
        CCL_TRY(add_net(x, from.device, to.device, bandwidth_Bps, latency_s));
        if (wire->duplex)
            CCL_TRY(add_net(x, to.device, from.device, bandwidth_Bps, latency_s));
    }
    return CCL_OK;
}

ccl_status_t ccl_i_cluster_expand(const ccl_ctx_t *ctx, const ccl_i_cluster_spec_t *cluster,
                                  ccl_topology_builder_t *b, ccl_error_t *err) {
    CCL_TRY(ccl_i_cluster_check(cluster, err));
    expansion_t x = {ctx, cluster, b, err, NULL, 0};
    x.first_device = calloc(cluster->nservers, sizeof *x.first_device);
    if (!x.first_device)
        return ccl_fail_nomem(err);
    ccl_status_t status = CCL_OK;
    uint32_t rank = 0;
    for (uint32_t s = 0; s < cluster->nservers; s++)
        CCL_TRY_GOTO(add_server(&x, s, &rank), status, done);
    switch (cluster->fabric.kind) {
    case CCL_I_FABRIC_NONE:
        break;
    case CCL_I_FABRIC_SINGLE:
        status = expand_single(&x);
        break;
    case CCL_I_FABRIC_RAIL:
        status = expand_rail(&x);
        break;
    case CCL_I_FABRIC_CLOS:
        status = expand_clos(&x);
        break;
    case CCL_I_FABRIC_DIRECT:
        status = expand_direct(&x);
        break;
    }
done:
    free(x.first_device);
    return status;
}
