/* A topology from what its builder has collected: checked as a whole, copied into one block of
 * memory. */
#include "topologies/builder.h"

#include <stdlib.h>
#include <string.h>

#include "topologies/graph.h"
#include "topologies/internal.h"

static ccl_status_t ranks_check(const ccl_topology_builder_t *b, uint32_t *rank_device,
                                uint32_t *device_out, ccl_error_t *err) {
    for (uint32_t r = 0; r < b->ngpus; r++)
        rank_device[r] = CCL_NONE;
    for (uint32_t d = 0; d < b->ndevices; d++) {
        const ccl_device_t *device = &b->devices[d];
        if (device->kind != CCL_DEVICE_GPU)
            continue;
        *device_out = d;
        if (device->rank >= b->ngpus)
            return ccl_fail(err, CCL_ERR_INPUT,
                            "rank %u of gpu \"%s\", but %u gpus have ranks 0 to %u", device->rank,
                            device->id, b->ngpus, b->ngpus - 1);
        if (rank_device[device->rank] != CCL_NONE)
            return ccl_fail(err, CCL_ERR_INPUT, "gpus \"%s\" and \"%s\" both have rank %u",
                            b->devices[rank_device[device->rank]].id, device->id, device->rank);
        rank_device[device->rank] = d;
    }
    *device_out = CCL_NONE;
    return CCL_OK;
}

static void *copied(ccl_arena_t *arena, const void *from, size_t n, size_t size) {
    void *to = ccl_arena_alloc(arena, n ? n : 1, size);
    if (to && n)
        memcpy(to, from, n * size);
    return to;
}

static bool freeze_transports(ccl_arena_t *arena, ccl_transport_spec_t *transports, size_t n) {
    bool ok = true;
    for (size_t i = 0; ok && i < n; i++) {
        transports[i].kind = ccl_arena_strdup(arena, transports[i].kind);
        ok = transports[i].kind != NULL;
        if (ok && transports[i].protocol)
            ok = (transports[i].protocol = ccl_arena_strdup(arena, transports[i].protocol)) != NULL;
        const char *from = transports[i].slots_from;
        if (ok && from)
            ok = (transports[i].slots_from = ccl_arena_strdup(arena, from)) != NULL;
    }
    return ok;
}

/* Copy all names and arrays into the topology's own arena; false when out of memory. */
static bool freeze(const ccl_topology_builder_t *b, ccl_topology_t *topo) {
    ccl_arena_t *arena = &topo->arena;
    topo->name = ccl_arena_strdup(arena, b->name);
    topo->source = ccl_arena_strdup(arena, b->source);
    topo->note = ccl_arena_strdup(arena, b->note);
    topo->profile = ccl_arena_strdup(arena, b->profile);
    topo->profile_about = ccl_arena_strdup(arena, b->profile_about);
    topo->own_profile = ccl_arena_strdup(arena, b->own_profile);
    ccl_device_t *devices = copied(arena, b->devices, b->ndevices, sizeof *devices);
    ccl_link_t *links = copied(arena, b->links, b->nlinks, sizeof *links);
    ccl_group_t *groups = copied(arena, b->groups, b->ngroups, sizeof *groups);
    const char **servers = copied(arena, b->servers, b->nservers, sizeof *servers);
    const char **kinds = copied(arena, b->kinds, b->nkinds, sizeof *kinds);
    ccl_transport_spec_t *transports =
        copied(arena, b->transports, b->ntransports, sizeof *transports);
    ccl_gpu_model_t *models = copied(arena, b->models, b->nmodels, sizeof *models);
    bool ok = topo->name && topo->source && topo->note && topo->profile && topo->profile_about &&
              topo->own_profile && devices && links && groups && servers && kinds && transports &&
              models;
    for (size_t i = 0; ok && i < b->ndevices; i++) {
        ok = (devices[i].id = ccl_arena_strdup(arena, devices[i].id)) != NULL;
        if (ok && devices[i].types)
            ok = (devices[i].types = ccl_arena_strdup(arena, devices[i].types)) != NULL;
    }
    for (size_t i = 0; ok && i < b->ngroups; i++) {
        groups[i].name = ccl_arena_strdup(arena, groups[i].name);
        groups[i].links = copied(arena, groups[i].links, groups[i].nlinks, sizeof(uint32_t));
        ok = groups[i].name && groups[i].links;
    }
    for (size_t i = 0; ok && i < b->nservers; i++)
        ok = (servers[i] = ccl_arena_strdup(arena, servers[i])) != NULL;
    for (size_t i = 0; ok && i < b->nkinds; i++)
        ok = (kinds[i] = ccl_arena_strdup(arena, kinds[i])) != NULL;
    ok = ok && freeze_transports(arena, transports, b->ntransports);
    for (size_t i = 0; ok && i < b->nmodels; i++) {
        models[i].name = ccl_arena_strdup(arena, models[i].name);
        models[i].vendor = ccl_arena_strdup(arena, models[i].vendor);
        ok = models[i].name && models[i].vendor;
    }
    topo->ndevices = (uint32_t)b->ndevices;
    topo->nlinks = (uint32_t)b->nlinks;
    topo->ngroups = (uint32_t)b->ngroups;
    topo->nservers = (uint32_t)b->nservers;
    topo->nkinds = (uint32_t)b->nkinds;
    topo->ntransports = (uint32_t)b->ntransports;
    topo->ngpu_models = (uint32_t)b->nmodels;
    topo->nranks = b->ngpus;
    topo->devices = devices;
    topo->links = links;
    topo->groups = groups;
    topo->servers = servers;
    topo->kinds = kinds;
    topo->transports = transports;
    topo->gpu_models = models;
    return ok;
}

ccl_status_t ccl_i_topology_builder_finish(ccl_topology_builder_t *b, ccl_topology_t **out,
                                           uint32_t *device_out, ccl_error_t *err) {
    *device_out = CCL_NONE;
    if (b->nomem)
        return ccl_fail_nomem(err);
    if (b->ngpus == 0)
        return ccl_fail(err, CCL_ERR_INPUT, "no gpu among %zu devices; at least one", b->ndevices);
    ccl_status_t status = CCL_ERR_NOMEM;
    ccl_topology_t *topo = calloc(1, sizeof *topo);
    if (!topo)
        return ccl_fail_nomem(err);
    ccl_arena_init(&topo->arena);
    uint32_t *rank_device = ccl_arena_alloc(&topo->arena, b->ngpus, sizeof(uint32_t));
    uint32_t *local = ccl_arena_alloc(&topo->arena, b->ngpus, sizeof(uint32_t));
    uint32_t *first = ccl_arena_alloc(&topo->arena, b->ndevices + 1, sizeof(uint32_t));
    uint32_t *list = ccl_arena_alloc(&topo->arena, b->nlinks + 1, sizeof(uint32_t));
    uint32_t *in_server = calloc(b->nservers + 1, sizeof *in_server);
    if (!rank_device || !local || !first || !list || !in_server)
        goto nomem;
    CCL_TRY_GOTO(ranks_check(b, rank_device, device_out, err), status, fail);
    uint32_t from, to;
    CCL_TRY_GOTO(ccl_i_graph_unreachable((uint32_t)b->ndevices, b->devices, b->links,
                                         (uint32_t)b->nlinks, &from, &to, err),
                 status, fail);
    if (from != CCL_NONE) {
        const ccl_device_t *a = &b->devices[from], *z = &b->devices[to];
        *device_out = a->rank == 0 ? to : from;
        status = ccl_fail(err, CCL_ERR_INPUT,
                          "no path from gpu \"%s\" (rank %u) to gpu \"%s\" (rank %u), not even "
                          "through other gpus",
                          a->id, a->rank, z->id, z->rank);
        goto fail;
    }
    if (!freeze(b, topo))
        goto nomem;
    for (uint32_t r = 0; r < b->ngpus; r++) {
        uint32_t server = b->devices[rank_device[r]].server;
        local[r] = server == CCL_NONE ? r : in_server[server]++;
    }
    ccl_i_graph_csr(topo->ndevices, topo->links, topo->nlinks, false, first, list);
    topo->rank_device = rank_device;
    topo->rank_local_index = local;
    topo->out_first = first;
    topo->out_links = list;
    free(in_server);
    *out = topo;
    return CCL_OK;
nomem:
    status = ccl_fail_nomem(err);
fail:
    free(in_server);
    ccl_topology_destroy(topo);
    return status;
}

ccl_status_t ccl_topology_builder_finish(ccl_topology_builder_t *b, ccl_topology_t **out,
                                         ccl_error_t *err) {
    uint32_t device;
    return ccl_i_topology_builder_finish(b, out, &device, err);
}

void ccl_topology_destroy(ccl_topology_t *topo) {
    if (!topo)
        return;
    ccl_arena_fini(&topo->arena);
    free(topo);
}
