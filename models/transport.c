/* Transports resolved per link kind and protocol (docs/model.md, "Connections"). */
#include <math.h>
#include <string.h>

#include "models/models.h"

/* A pool of 64 MiB per connection, in slices of 4 MiB (HetCCL, Peking University and BAAI,
   section 5). */
#define POOL_SLICE_BYTES 4194304.0
#define POOL_SLOTS 16

static void apply(ccl_transport_t *t, const ccl_transport_spec_t *spec) {
    const ccl_transport_t *v = &spec->value;
    if (spec->given & CCL_TRANSPORT_OVERHEAD)
        t->overhead_s = v->overhead_s;
    if (spec->given & CCL_TRANSPORT_LATENCY)
        t->latency_s = v->latency_s;
    if (spec->given & CCL_TRANSPORT_TB_RATE)
        t->tb_rate_Bps = v->tb_rate_Bps;
    if (spec->given & CCL_TRANSPORT_SLICE)
        t->slice_bytes = v->slice_bytes;
    if (spec->given & CCL_TRANSPORT_PIECE)
        t->piece_bytes = v->piece_bytes;
    if (spec->given & CCL_TRANSPORT_SLICES)
        t->slices = v->slices;
    if (spec->given & CCL_TRANSPORT_SLOTS)
        t->slots = v->slots;
    if (spec->given & CCL_TRANSPORT_DIRECT)
        t->direct = v->direct;
    if (spec->given & CCL_TRANSPORT_HOLDS_TB)
        t->holds_tb = v->holds_tb;
    if (spec->given & CCL_TRANSPORT_MECHANISM)
        t->mechanism = v->mechanism;
    if (spec->given & CCL_TRANSPORT_COPY_IN)
        t->copy_in_Bps = v->copy_in_Bps;
    if (spec->given & CCL_TRANSPORT_COPY_OUT)
        t->copy_out_Bps = v->copy_out_Bps;
    if (spec->given & CCL_TRANSPORT_WIRE)
        t->wire = v->wire;
    if (spec->given & CCL_TRANSPORT_MESSAGE)
        t->message_s = v->message_s;
    if (spec->given & CCL_TRANSPORT_MESSAGE_SIZE)
        t->message_bytes = v->message_bytes;
}

/* Copies by engines in place of thread blocks' passes. */
static void copy_by_engines(ccl_transport_t *t, uint32_t given) {
    t->tb_rate_Bps = t->copy_in_Bps;
    t->direct = t->holds_tb = false;
    if (!(given & CCL_TRANSPORT_SLICE))
        t->slice_bytes = POOL_SLICE_BYTES;
    if (!(given & CCL_TRANSPORT_SLOTS))
        t->slots = POOL_SLOTS;
}

double ccl_model_receive_Bps(const ccl_transport_t *t) {
    if (t->mechanism != CCL_MECHANISM_DEVICE)
        return t->copy_out_Bps;
    return t->direct ? INFINITY : t->tb_rate_Bps;
}

/* Names of few letters, most of which differ early: quicker than a call. */
static bool same_name(const char *a, const char *b) {
    while (*a && *a == *b) {
        a++;
        b++;
    }
    return *a == *b;
}

ccl_transport_t ccl_model_transport(const ccl_topology_t *topo, const char *kind,
                                    const char *proto) {
    ccl_transport_t t = ccl_transport_default(kind);
    uint32_t given = 0, own = topo->ntransports; /* own: the protocol's begin there */
    /* The kind's own keys first, then the protocol's, wherever they stand; of several in turn. */
    for (uint32_t i = 0; i < topo->ntransports; i++) {
        const ccl_transport_spec_t *spec = &topo->transports[i];
        if (!same_name(spec->kind, kind))
            continue;
        if (!spec->protocol) {
            apply(&t, spec);
            given |= spec->given;
        } else if (i < own && proto && same_name(spec->protocol, proto)) {
            own = i;
        }
    }
    for (uint32_t i = own; i < topo->ntransports; i++) {
        const ccl_transport_spec_t *spec = &topo->transports[i];
        if (spec->protocol && same_name(spec->kind, kind) && same_name(spec->protocol, proto)) {
            apply(&t, spec);
            given |= spec->given;
        }
    }
    if (t.mechanism != CCL_MECHANISM_DEVICE)
        copy_by_engines(&t, given);
    return t;
}

const ccl_transport_spec_t *ccl_model_slots_spec(const ccl_topology_t *topo, const char *kind,
                                                 const char *proto) {
    const ccl_transport_spec_t *found = NULL;
    for (uint32_t i = 0; i < topo->ntransports; i++) {
        const ccl_transport_spec_t *spec = &topo->transports[i];
        if (strcmp(spec->kind, kind) != 0 || !(spec->given & CCL_TRANSPORT_SLOTS))
            continue;
        if (spec->protocol ? proto && strcmp(spec->protocol, proto) == 0 : !found)
            found = spec;
    }
    return found;
}

const char *ccl_model_route_kind(const ccl_topology_t *topo, const ccl_route_t *route) {
    if (route->crosses_net)
        return "net";
    if (route->crosses_pcie)
        return "pcie";
    return topo->kinds[route->first_kind];
}

const char *ccl_model_tree_kind(const ccl_topology_t *topo, const ccl_route_t *route) {
    const char *kind = ccl_model_route_kind(topo, route);
    const size_t len = strlen(kind);
    for (uint32_t i = 0; i < topo->ntransports; i++) {
        const char *own = topo->transports[i].kind;
        if (strncmp(own, kind, len) == 0 && strcmp(own + len, "-switch") == 0)
            return own;
    }
    return kind;
}

ccl_gpu_model_t ccl_model_gpu(const ccl_topology_t *topo, uint32_t rank) {
    uint32_t model = rank < topo->nranks ? topo->devices[topo->rank_device[rank]].model : CCL_NONE;
    return model == CCL_NONE ? ccl_gpu_model_default("") : topo->gpu_models[model];
}

double ccl_model_launch_s(const ccl_topology_t *topo, uint32_t rank, const char *proto) {
    const ccl_gpu_model_t model = ccl_model_gpu(topo, rank);
    const ccl_protocol_t only = ccl_protocol_find(proto);
    double least = INFINITY;
    for (uint32_t p = 0; p < CCL_PROTOCOLS; p++)
        if (!proto || p == only)
            least =
                fmin(least, model.launches & 1u << p ? model.protocol_launch_s[p] : model.launch_s);
    return isfinite(least) ? least : model.launch_s;
}

double ccl_model_wire(const ccl_topology_t *topo, const char *proto) {
    const bool able = ccl_topology_able(topo);
    double least = INFINITY;
    for (uint32_t k = 0; k < topo->nkinds; k++)
        for (uint32_t p = 0; p < CCL_PROTOCOLS; p++) {
            const char *name = proto ? proto : ccl_protocol_name((ccl_protocol_t)p);
            least = fmin(least, ccl_model_transport(topo, topo->kinds[k], name).wire);
        }
    for (uint32_t i = 0; able && i < topo->ntransports; i++) {
        const char *kind = topo->transports[i].kind, *dash = strrchr(kind, '-');
        for (uint32_t p = 0; dash && strcmp(dash, "-switch") == 0 && p < CCL_PROTOCOLS; p++) {
            const char *name = proto ? proto : ccl_protocol_name((ccl_protocol_t)p);
            least = fmin(least, ccl_model_transport(topo, kind, name).wire);
        }
    }
    return isfinite(least) ? least : 1;
}

bool ccl_model_has_protocol(const ccl_topology_t *topo, const char *proto) {
    uint32_t p = ccl_protocol_find(proto);
    for (uint32_t i = 0; i < topo->ntransports; i++)
        if (topo->transports[i].protocol && strcmp(topo->transports[i].protocol, proto) == 0)
            return true;
    for (uint32_t m = 0; m < topo->ngpu_models && p < CCL_PROTOCOLS; m++)
        if (topo->gpu_models[m].launches & 1u << p)
            return true;
    return false;
}
