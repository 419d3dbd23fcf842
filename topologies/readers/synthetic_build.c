/*
 * A one-liner's words as servers, transports and GPU models, joined by its fabric (synthetic.c
 * reads the words).
 */
#include "topologies/readers/synthetic.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "topologies/internal.h"

typedef ccl_i_synthetic_part_t part_t;
typedef ccl_i_synthetic_parser_t parser_t;

static bool push_device(ccl_arena_t *arena, ccl_i_server_type_t *type, ccl_device_kind_t kind,
                        const char *stem, uint32_t number, const char *model) {
    char id[32];
    snprintf(id, sizeof id, "%s%u", stem, number);
    const char *copy = ccl_arena_strdup(arena, id);
    type->devices[type->ndevices++] = (ccl_i_part_device_t){copy, kind, model, NULL};
    return copy != NULL;
}

static void push_link(ccl_i_server_type_t *type, uint32_t from, uint32_t to, const char *kind,
                      double Bps, double latency_s) {
    type->links[type->nlinks++] = (ccl_i_part_link_t){.from = from,
                                                      .to = to,
                                                      .kind = kind,
                                                      .bandwidth_Bps = Bps,
                                                      .latency_s = latency_s,
                                                      .lanes = 1,
                                                      .duplex = true};
    type->ndirected += 2;
}

static ccl_status_t make_type(parser_t *p, const part_t *part, ccl_i_server_type_t *type) {
    const uint32_t n = part->gpus;
    const bool through_host = part->shape == SHAPE_NONE && n > 1;
    if (through_host && part->pcie_Bps <= 0)
        return ccl_i_synthetic_refuse(
            p, part->at,
            "nothing joins the %u gpus of a server; nvswitch=, nvlink=, xgmi= or pcie=", n);
    type->name = "one-liner";
    type->ngpus = n;
    type->devices = ccl_arena_alloc(&p->arena, (size_t)n + part->nics + 2, sizeof *type->devices);
    type->links =
        ccl_arena_alloc(&p->arena, (size_t)n * n + 2u * n + part->nics + 1, sizeof *type->links);
    type->ports = ccl_arena_alloc(&p->arena, (size_t)part->nics + 1, sizeof *type->ports);
    if (!type->devices || !type->links || !type->ports)
        return ccl_fail_nomem(p->err);
    bool ok = true;
    for (uint32_t i = 0; i < n; i++)
        ok = push_device(&p->arena, type, CCL_DEVICE_GPU, "gpu", i, part->model) && ok;
    uint32_t hub = type->ndevices;
    if (part->shape == SHAPE_SWITCH)
        ok = push_device(&p->arena, type, CCL_DEVICE_SWITCH, "nvswitch", 0, NULL) && ok;
    else if (through_host)
        ok = push_device(&p->arena, type, CCL_DEVICE_HOST, "host", 0, NULL) && ok;
    if (part->nvls)
        type->devices[hub].able = &ccl_i_able_both;
    for (uint32_t i = 0; i < n; i++) {
        if (part->shape == SHAPE_SWITCH)
            push_link(type, i, hub, part->kind, part->mesh_Bps, part->mesh_s / 2);
        else if (through_host)
            push_link(type, i, hub, "pcie", part->pcie_Bps, part->pcie_s / 2);
        for (uint32_t j = i + 1; j < n && part->shape == SHAPE_MESH; j++)
            push_link(type, i, j, part->kind, part->mesh_Bps, part->mesh_s);
        if (part->shape == SHAPE_RING && (i + 1 < n || n > 2))
            push_link(type, i, (i + 1) % n, part->kind, part->mesh_Bps, part->mesh_s);
    }
    uint32_t first_nic = type->ndevices;
    for (uint32_t k = 0; k < part->nics; k++) {
        ok = push_device(&p->arena, type, CCL_DEVICE_NIC, "nic", k, NULL) && ok;
        type->ports[type->nports++] =
            (ccl_i_port_t){first_nic + k, part->nic_Bps, part->nic_s / 2, true, true};
        if (through_host)
            push_link(type, hub, first_nic + k, "pcie", part->nic_Bps, 0);
    }
    for (uint32_t i = 0; i < n && part->nics > 0 && !through_host; i++) {
        /* GPUs share NICs evenly; with more NICs than GPUs each GPU has several. */
        uint32_t first = i * part->nics / n, last = (i + 1) * part->nics / n;
        for (uint32_t k = first; k < (last > first ? last : first + 1); k++)
            push_link(type, i, first_nic + k, "pcie",
                      part->pcie_Bps > 0 ? part->pcie_Bps : part->nic_Bps,
                      part->pcie_Bps > 0 ? part->pcie_s / 2 : 0);
    }
    return ok ? CCL_OK : ccl_fail_nomem(p->err);
}

static bool describes_model(const part_t *part) {
    return part->model || isfinite(part->copy_Bps) || isfinite(part->reduce_Bps) ||
           part->launch_s > 0 || part->sms > 0;
}

/* A part whose GPUs have constants of their own gets a model of its own. */
static ccl_status_t add_models(parser_t *p, ccl_topology_builder_t *b) {
    for (size_t i = 0; i < p->nparts; i++) {
        part_t *part = &p->parts[i];
        if (!describes_model(part))
            continue;
        if (!part->model) {
            char name[32];
            snprintf(name, sizeof name, p->nparts == 1 ? "gpu" : "gpu%zu", i);
            part->model = ccl_arena_strdup(&p->arena, name);
            if (!part->model)
                return ccl_fail_nomem(p->err);
        }
        const part_t *other = NULL;
        for (size_t j = 0; j < i && !other; j++)
            if (p->parts[j].model && strcmp(p->parts[j].model, part->model) == 0)
                other = &p->parts[j];
        if (other) {
            if (other->copy_Bps != part->copy_Bps || other->reduce_Bps != part->reduce_Bps ||
                other->launch_s != part->launch_s || other->sms != part->sms)
                return ccl_i_synthetic_refuse(
                    p, part->at, "model \"%.60s\" has two sets of constants", part->model);
            continue;
        }
        ccl_gpu_model_t model = ccl_gpu_model_default(part->model);
        ccl_topology_t *known = NULL;
        ccl_error_t inner = CCL_ERROR_INIT;
        CCL_TRY(ccl_i_synthetic_known(p, i, &known));
        ccl_i_synthetic_gpu(known, part, &model);
        ccl_status_t status = ccl_topology_builder_gpu_model(b, &model, &inner);
        ccl_topology_destroy(known);
        if (status != CCL_OK)
            return status == CCL_ERR_INPUT ? ccl_i_synthetic_refuse(p, part->at, "%s", inner.text)
                                           : ccl_fail(p->err, status, "%s", inner.text);
    }
    return CCL_OK;
}

static ccl_status_t add_transports(parser_t *p, ccl_topology_builder_t *b, bool networked) {
    const char *kinds[4];
    size_t n = 0;
    bool nvlink = false, xgmi = false, pcie = false;
    for (size_t i = 0; i < p->nparts; i++) {
        const part_t *part = &p->parts[i];
        bool joined = part->shape != SHAPE_NONE && part->gpus > 1;
        nvlink = nvlink || (joined && strcmp(part->kind, "nvlink") == 0);
        xgmi = xgmi || (joined && strcmp(part->kind, "xgmi") == 0);
        pcie = pcie || part->shape == SHAPE_NONE || part->nics > 0;
    }
    if (nvlink)
        kinds[n++] = "nvlink";
    if (xgmi)
        kinds[n++] = "xgmi";
    if (pcie)
        kinds[n++] = "pcie";
    if (networked)
        kinds[n++] = "net";
    if (!p->given)
        return ccl_i_synthetic_transports(p, b, kinds, n);
    for (size_t i = 0; i < n; i++) {
        ccl_transport_spec_t spec = {.kind = kinds[i], .given = p->given, .value = p->transport};
        /* A NIC takes over from its block slice by slice; one slice of everything would be store
           and forward of whole messages. */
        if (strcmp(kinds[i], "net") == 0 && (p->given & CCL_TRANSPORT_TB_RATE) &&
            !(p->given & CCL_TRANSPORT_SLICE)) {
            spec.given |= CCL_TRANSPORT_SLICE;
            spec.value.slice_bytes = 512 * 1024;
        }
        CCL_TRY(ccl_topology_builder_transport(b, &spec, p->err));
    }
    return CCL_OK;
}

ccl_status_t ccl_i_synthetic_build(parser_t *p, ccl_topology_builder_t *b, ccl_topology_t **out) {
    CCL_TRY(add_models(p, b)); /* before the types, which take the models' names */
    uint64_t nservers = 0;
    ccl_i_server_type_t *types = ccl_arena_alloc(&p->arena, p->nparts, sizeof *types);
    if (!types)
        return ccl_fail_nomem(p->err);
    for (size_t i = 0; i < p->nparts; i++) {
        CCL_TRY(make_type(p, &p->parts[i], &types[i]));
        nservers += p->parts[i].servers;
    }
    if (nservers > CCL_I_CLUSTER_MAX_SERVERS)
        return ccl_i_synthetic_refuse(p, 0, "%llu servers, more than %u",
                                      (unsigned long long)nservers, CCL_I_CLUSTER_MAX_SERVERS);
    uint32_t *servers = ccl_arena_alloc(&p->arena, nservers, sizeof *servers), n = 0;
    if (!servers)
        return ccl_fail_nomem(p->err);
    for (size_t i = 0; i < p->nparts; i++)
        for (uint32_t s = 0; s < p->parts[i].servers; s++)
            servers[n++] = (uint32_t)i;
    if (p->fabric.kind == CCL_I_FABRIC_NONE && nservers > 1)
        p->fabric.kind = CCL_I_FABRIC_SINGLE;
    const bool networked = p->fabric.kind != CCL_I_FABRIC_NONE;
    for (size_t i = 0; i < p->nparts && networked; i++)
        if (p->parts[i].nics == 0)
            return ccl_i_synthetic_refuse(p, p->parts[i].at,
                                          "servers without NICs cannot be joined; e.g. "
                                          "nics:4x25GB/s,2us");
    if (p->fabric.contention > 0 && !networked)
        return ccl_i_synthetic_refuse(
            p, 0, "contention is of the network's links, and there is no network");
    CCL_TRY(add_transports(p, b, networked));
    ccl_i_cluster_spec_t cluster = {types, (uint32_t)p->nparts, servers, n, p->fabric};
    ccl_error_t inner = CCL_ERROR_INIT;
    ccl_status_t status = ccl_i_cluster_expand(p->ctx, &cluster, b, &inner);
    if (status == CCL_OK)
        status = ccl_topology_builder_finish(b, out, &inner);
    if (status == CCL_ERR_INPUT)
        return ccl_i_synthetic_refuse(p, p->fabric_at, "%s", inner.text);
    return status == CCL_OK ? CCL_OK : ccl_fail(p->err, status, "%s", inner.text);
}
