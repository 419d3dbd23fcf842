/*
 * HeteCCL's topology language (HeteCCL, NSDI 2026, appendix A, figure 10): statements to graph.
 *
 * The paper leaves the meaning to its example; this is how section 6.1 and figure 12 read it:
 * - direct (a,b) -> (B,n): n NVLinks of B GB/s from a to b, that direction only.
 * - switch with several tuples: each tuple is a PCIe switch that its GPUs share ("each pair of GPUs
 *   shares a 16 GB/s PCIe switch"), the switches are joined by the host; every link n x B.
 * - switch with one tuple: one switch for all its GPUs (the H20's NVSwitch), kind nvlink.
 * - interbandwidth: in each node, the listed GPUs share one NIC of n links of B GB/s; all NICs meet
 * in one fabric ("the nodes are interconnected by switches"). The NIC hangs below the PCIe switch
 * that has all its GPUs, else below the host that has them, else each GPU has its own link to it.
 * The same tuple with the same speed in another interbandwidth is the same NIC.
 * - latency (ours): of each link of that kind; a way between nodes crosses two net links.
 */
#include "topologies/readers/heteccl_dsl.h"

#include <stdlib.h>
#include <string.h>

#define GB 1e9

typedef struct dsl_builder {
    const ccl_i_dsl_t *dsl;
    ccl_topology_builder_t *b;
    ccl_error_t *err;
    uint32_t *first_rank;   /* [nnodes]; device index of a GPU = its rank */
    uint32_t *gpu_tuple;    /* [gpus]: the tuple of its PCIe switch, CCL_NONE: none */
    uint32_t *tuple_entry;  /* [ntuples] of PCIe switches */
    uint32_t *tuple_device; /* [ntuples]: its PCIe switch or its NIC, CCL_NONE: none */
    uint32_t *entry_host;   /* [nentries]: host of a switch of several tuples, CCL_NONE: none */
    uint32_t *switches, *hosts, *nics; /* [nnodes]: how many so far */
    ccl_strmap_t *known;               /* direct links and NICs */
    uint32_t fabric;
} dsl_builder_t;

static uint32_t gpu_device(const dsl_builder_t *s, uint32_t node, uint32_t gpu) {
    return s->first_rank[node] + gpu;
}

static ccl_status_t add_device(dsl_builder_t *s, uint32_t node, const char *what, uint32_t number,
                               ccl_device_kind_t kind, uint32_t rank, uint32_t *out) {
    char server[32], id[80];
    snprintf(server, sizeof(server), "node%u", node + 1);
    snprintf(id, sizeof(id), "%s/%s%u", server, what, number);
    return ccl_topology_builder_device(s->b, id, kind, server, rank, NULL, out, s->err);
}

static ccl_status_t add_gpus(dsl_builder_t *s) {
    uint32_t rank = 0;
    for (uint32_t node = 0; node < s->dsl->nnodes; node++) {
        s->first_rank[node] = rank;
        for (uint32_t gpu = 0; gpu < s->dsl->gpus[node]; gpu++)
            CCL_TRY(add_device(s, node, "gpu", gpu, CCL_DEVICE_GPU, rank++, NULL));
    }
    return CCL_OK;
}

static ccl_status_t duplex(dsl_builder_t *s, uint32_t from, uint32_t to, const char *kind,
                           const ccl_i_dsl_entry_t *entry) {
    double latency_s = strcmp(kind, "nvlink") == 0 ? s->dsl->nvlink_latency_s
                       : strcmp(kind, "pcie") == 0 ? s->dsl->pcie_latency_s
                                                   : s->dsl->net_latency_s;
    return ccl_topology_builder_duplex(s->b, from, to, kind, entry->GBps * entry->links * GB,
                                       latency_s, entry->links, 0, s->err);
}

static ccl_status_t add_direct(dsl_builder_t *s, const ccl_i_dsl_entry_t *entry) {
    const uint32_t *pair = &s->dsl->numbers[s->dsl->tuples[entry->first_tuple].first];
    char key[60];
    snprintf(key, sizeof(key), "direct %u %u %u", entry->node, pair[0], pair[1]);
    if (ccl_strmap_get(s->known, key) != CCL_NONE)
        return ccl_error_set(s->err, CCL_ERR_INPUT, s->dsl->file, entry->line, entry->column,
                             "direct link (%u,%u) of node%u given twice", pair[0], pair[1],
                             entry->node + 1);
    if (!ccl_strmap_put(s->known, key, 1))
        return ccl_fail_nomem(s->err);
    return ccl_topology_builder_link(
        s->b, gpu_device(s, entry->node, pair[0]), gpu_device(s, entry->node, pair[1]), "nvlink",
        entry->GBps * entry->links * GB, s->dsl->nvlink_latency_s, entry->links, 0, s->err);
}

static ccl_status_t add_switch(dsl_builder_t *s, const ccl_i_dsl_entry_t *entry, uint32_t *host) {
    const ccl_i_dsl_t *dsl = s->dsl;
    uint32_t node = entry->node;
    bool tree = entry->ntuples > 1;
    const char *kind = tree ? "pcie" : "nvlink";
    if (tree)
        CCL_TRY(add_device(s, node, "host", s->hosts[node]++, CCL_DEVICE_HOST, CCL_NONE, host));
    for (uint32_t t = 0; t < entry->ntuples; t++) {
        const ccl_i_dsl_tuple_t *tuple = &dsl->tuples[entry->first_tuple + t];
        uint32_t sw;
        CCL_TRY(
            add_device(s, node, "switch", s->switches[node]++, CCL_DEVICE_SWITCH, CCL_NONE, &sw));
        for (uint32_t i = 0; i < tuple->n; i++)
            CCL_TRY(
                duplex(s, gpu_device(s, node, dsl->numbers[tuple->first + i]), sw, kind, entry));
        if (tree) {
            CCL_TRY(duplex(s, sw, *host, kind, entry));
            s->tuple_device[entry->first_tuple + t] = sw;
            s->tuple_entry[entry->first_tuple + t] = (uint32_t)(entry - dsl->entries);
        }
        for (uint32_t i = 0; tree && i < tuple->n; i++) {
            uint32_t gpu = gpu_device(s, node, dsl->numbers[tuple->first + i]);
            if (s->gpu_tuple[gpu] == CCL_NONE)
                s->gpu_tuple[gpu] = entry->first_tuple + t;
        }
    }
    return CCL_OK;
}

/*
 * PCIe switch or host above all GPUs of a tuple, CCL_NONE when no one entry has them all. A GPU
 * below several PCIe switches counts for the first.
 */
static uint32_t above(const dsl_builder_t *s, uint32_t node, const ccl_i_dsl_tuple_t *gpus) {
    uint32_t tuple = CCL_NONE, entry = CCL_NONE;
    bool one = true;
    for (uint32_t i = 0; i < gpus->n; i++) {
        uint32_t gpu = gpu_device(s, node, s->dsl->numbers[gpus->first + i]);
        uint32_t t = s->gpu_tuple[gpu];
        if (t == CCL_NONE || (i > 0 && s->tuple_entry[t] != entry))
            return CCL_NONE;
        entry = s->tuple_entry[t];
        one = one && (i == 0 || t == tuple);
        tuple = t;
    }
    return one ? s->tuple_device[tuple] : s->entry_host[entry];
}

/* Sorted GPU numbers, so that (0,1) and (1,0) are the same NIC. */
static int by_number(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static ccl_status_t nic_key(dsl_builder_t *s, uint32_t node, const ccl_i_dsl_entry_t *entry,
                            const ccl_i_dsl_tuple_t *tuple, ccl_text_t *out) {
    uint32_t *sorted = malloc(((size_t)tuple->n + 1) * sizeof(*sorted));
    if (!sorted)
        return ccl_fail_nomem(s->err);
    memcpy(sorted, &s->dsl->numbers[tuple->first], tuple->n * sizeof(*sorted));
    qsort(sorted, tuple->n, sizeof(*sorted), by_number);
    ccl_text_printf(out, "nic %u %.17g %u", node, entry->GBps, entry->links);
    for (uint32_t i = 0; i < tuple->n; i++)
        ccl_text_printf(out, " %u", sorted[i]);
    free(sorted);
    return out->nomem ? ccl_fail_nomem(s->err) : CCL_OK;
}

static ccl_status_t add_nic(dsl_builder_t *s, uint32_t node, const ccl_i_dsl_entry_t *entry,
                            const ccl_i_dsl_tuple_t *tuple) {
    uint32_t nic, up = above(s, node, tuple);
    if (s->fabric == CCL_NONE)
        CCL_TRY(ccl_topology_builder_device(s->b, "fabric", CCL_DEVICE_SWITCH, NULL, CCL_NONE, NULL,
                                            &s->fabric, s->err));
    CCL_TRY(add_device(s, node, "nic", s->nics[node]++, CCL_DEVICE_NIC, CCL_NONE, &nic));
    if (up != CCL_NONE)
        CCL_TRY(duplex(s, up, nic, "pcie", entry));
    for (uint32_t i = 0; up == CCL_NONE && i < tuple->n; i++)
        CCL_TRY(
            duplex(s, gpu_device(s, node, s->dsl->numbers[tuple->first + i]), nic, "pcie", entry));
    return duplex(s, nic, s->fabric, "net", entry);
}

/*
 * NICs of an entry. `known` counts, by key, how many such NICs there are (value), and in this
 * internode (a second key) how many were used: the k-th like entry takes the k-th NIC.
 */
static ccl_status_t add_inter(dsl_builder_t *s, const ccl_i_dsl_entry_t *entry) {
    const ccl_i_dsl_internode_t *inter = &s->dsl->internodes[entry->statement];
    for (uint32_t t = 0; t < entry->ntuples; t++) {
        const ccl_i_dsl_tuple_t *tuple = &s->dsl->tuples[entry->first_tuple + t];
        uint32_t node = s->dsl->numbers[inter->first + t];
        ccl_text_t key = {0};
        ccl_status_t status = nic_key(s, node, entry, tuple, &key);
        uint32_t have = 0, used = 0;
        if (status == CCL_OK) {
            have = ccl_strmap_get(s->known, key.data);
            have = have == CCL_NONE ? 0 : have;
            size_t plain = key.len;
            ccl_text_printf(&key, " in %u", entry->statement);
            used = key.nomem ? 0 : ccl_strmap_get(s->known, key.data);
            used = used == CCL_NONE ? 0 : used;
            if (key.nomem || !ccl_strmap_put(s->known, key.data, used + 1))
                status = ccl_fail_nomem(s->err);
            if (status == CCL_OK && used == have) {
                key.data[plain] = '\0';
                status = ccl_strmap_put(s->known, key.data, have + 1)
                             ? add_nic(s, node, entry, tuple)
                             : ccl_fail_nomem(s->err);
            }
        }
        ccl_text_fini(&key);
        CCL_TRY(status);
    }
    return CCL_OK;
}

static ccl_status_t build_all(dsl_builder_t *s, ccl_topology_t **out) {
    const ccl_i_dsl_t *dsl = s->dsl;
    ccl_topology_builder_about(s->b, "HeteCCL topology language (NSDI 2026, appendix A)", "");
    CCL_TRY(add_gpus(s));
    for (size_t e = 0; e < dsl->nentries; e++)
        if (dsl->entries[e].direct)
            CCL_TRY(add_direct(s, &dsl->entries[e]));
    for (size_t e = 0; e < dsl->nentries; e++)
        if (!dsl->entries[e].direct && dsl->entries[e].node != CCL_NONE)
            CCL_TRY(add_switch(s, &dsl->entries[e], &s->entry_host[e]));
    for (size_t e = 0; e < dsl->nentries; e++)
        if (dsl->entries[e].node == CCL_NONE)
            CCL_TRY(add_inter(s, &dsl->entries[e]));
    return ccl_topology_builder_finish(s->b, out, s->err);
}

ccl_status_t ccl_i_dsl_build(const ccl_i_dsl_t *dsl, ccl_topology_t **out, ccl_error_t *err) {
    ccl_arena_t arena;
    ccl_arena_init(&arena);
    char name[101];
    ccl_file_title(dsl->file, name, sizeof(name));
    if (!*name)
        snprintf(name, sizeof(name), "heteccl");
    dsl_builder_t s = {.dsl = dsl, .err = err, .fabric = CCL_NONE};
    size_t n = (size_t)dsl->nnodes + 1;
    s.first_rank = ccl_arena_alloc(&arena, n, sizeof(uint32_t));
    s.switches = ccl_arena_alloc(&arena, n, sizeof(uint32_t));
    s.hosts = ccl_arena_alloc(&arena, n, sizeof(uint32_t));
    s.nics = ccl_arena_alloc(&arena, n, sizeof(uint32_t));
    s.tuple_device = ccl_arena_alloc(&arena, dsl->ntuples + 1, sizeof(uint32_t));
    s.tuple_entry = ccl_arena_alloc(&arena, dsl->ntuples + 1, sizeof(uint32_t));
    s.gpu_tuple = ccl_arena_alloc(&arena, CCL_I_HETECCL_MAX_GPUS, sizeof(uint32_t));
    s.entry_host = ccl_arena_alloc(&arena, dsl->nentries + 1, sizeof(uint32_t));
    s.known = ccl_strmap_create();
    s.b = ccl_topology_builder_create(name);
    ccl_status_t status;
    if (s.first_rank && s.switches && s.hosts && s.nics && s.tuple_device && s.entry_host &&
        s.tuple_entry && s.gpu_tuple && s.known && s.b) {
        for (uint32_t i = 0; i < CCL_I_HETECCL_MAX_GPUS; i++)
            s.gpu_tuple[i] = CCL_NONE;
        for (size_t i = 0; i < dsl->ntuples; i++)
            s.tuple_device[i] = CCL_NONE;
        for (size_t i = 0; i < dsl->nentries; i++)
            s.entry_host[i] = CCL_NONE;
        status = build_all(&s, out);
    } else {
        status = ccl_fail_nomem(err);
    }
    ccl_topology_builder_destroy(s.b);
    ccl_strmap_destroy(s.known);
    ccl_arena_fini(&arena);
    return status;
}
