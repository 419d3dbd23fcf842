/* All single failures of a cluster, those that are alike together. */
#include "models/models.h"
#include "search/failover/failover.h"

#include <stdlib.h>
#include <string.h>

const char *ccl_failure_kind_name(ccl_failure_kind_t kind) {
    static const char *const names[CCL_FAILURE_KINDS] = {"nic", "link", "gpu", "server"};
    return names[kind];
}

typedef struct finder {
    const ccl_topology_t *topo;
    const ccl_alike_t *alike;
    bool symmetric; /* else all are looked at */
    ccl_failures_t *out;
    ccl_failure_t *items;
    size_t cap;
} finder_t;

/* What may fail of a kind: parts 0 to this - 1, some of which are none. */
static uint32_t nparts(const finder_t *f, ccl_failure_kind_t kind) {
    switch (kind) {
    case CCL_FAILURE_LINK:
        return f->alike->npairs;
    case CCL_FAILURE_SERVER:
        return f->topo->nservers;
    case CCL_FAILURE_NIC:
        return f->topo->ndevices;
    case CCL_FAILURE_GPU:
        return f->topo->nranks;
    }
    return 0;
}

/* The lowest part that is like part i, as numbered here; CCL_NONE: it is no part of that kind. */
static uint32_t class_of(const finder_t *f, ccl_failure_kind_t kind, uint32_t i) {
    uint32_t class = i;
    switch (kind) {
    case CCL_FAILURE_LINK:
        class = f->alike->pair_class[i];
        break;
    case CCL_FAILURE_SERVER:
        class = f->alike->server_class[i];
        break;
    case CCL_FAILURE_NIC:
        if (f->topo->devices[i].kind != CCL_DEVICE_NIC)
            return CCL_NONE;
        class = f->alike->device_class[i];
        break;
    case CCL_FAILURE_GPU: { /* devices need not be in the order of ranks: the lowest rank counts */
        uint32_t device_class = f->alike->device_class[f->topo->rank_device[i]];
        for (class = 0; f->alike->device_class[f->topo->rank_device[class]] != device_class;)
            class ++;
        break;
    }
    }
    return f->symmetric ? class : i;
}

static const char *name_of(finder_t *f, ccl_failure_kind_t kind, uint32_t i) {
    const ccl_topology_t *topo = f->topo;
    char text[600];
    switch (kind) {
    case CCL_FAILURE_LINK:
        snprintf(text, sizeof text, "%s-%s", topo->devices[f->alike->pairs[i][0]].id,
                 topo->devices[f->alike->pairs[i][1]].id);
        break;
    case CCL_FAILURE_SERVER:
        snprintf(text, sizeof text, "%s", topo->servers[i]);
        break;
    case CCL_FAILURE_NIC:
        snprintf(text, sizeof text, "%s", topo->devices[i].id);
        break;
    case CCL_FAILURE_GPU:
        snprintf(text, sizeof text, "%s", topo->devices[topo->rank_device[i]].id);
        break;
    }
    return ccl_arena_strdup(&f->out->arena, text);
}

static const char *edit_of(finder_t *f, ccl_failure_kind_t kind, uint32_t i, const char *name) {
    char text[700];
    switch (kind) {
    case CCL_FAILURE_LINK:
        snprintf(text, sizeof text, "fail:%s", name);
        break;
    case CCL_FAILURE_SERVER:
        snprintf(text, sizeof text, "degrade:server:%s=50%%", name);
        break;
    case CCL_FAILURE_NIC:
        snprintf(text, sizeof text, "fail:nic:%s", name);
        break;
    case CCL_FAILURE_GPU:
        snprintf(text, sizeof text, "fail:gpu:%u", i);
        break;
    }
    return ccl_arena_strdup(&f->out->arena, text);
}

/* The class whose lowest part is `first`. */
static bool add_class(finder_t *f, ccl_failure_kind_t kind, uint32_t first) {
    uint32_t n = nparts(f, kind), nalike = 0;
    for (uint32_t i = first; i < n; i++)
        nalike += class_of(f, kind, i) == first;
    const char **alike = ccl_arena_alloc(&f->out->arena, nalike, sizeof *alike);
    if (!alike || !ccl_grow(&f->items, &f->cap, f->out->n + (size_t)1, sizeof *f->items))
        return false;
    uint32_t k = 0;
    for (uint32_t i = first; i < n; i++)
        if (class_of(f, kind, i) == first && !(alike[k++] = name_of(f, kind, i)))
            return false;
    const char *edit = edit_of(f, kind, first, alike[0]);
    f->items[f->out->n++] = (ccl_failure_t){kind, edit, alike[0], alike, nalike};
    f->out->nall += nalike;
    return edit != NULL;
}

/* Ranks of these may change places; of SendRecv and demands they may not. */
static bool is_symmetric(const ccl_collective_t *want) {
    return want->kind != CCL_SENDRECV && want->kind != CCL_CUSTOM;
}

static ccl_status_t find(finder_t *f, unsigned kinds, ccl_error_t *err) {
    for (uint32_t k = 0; k < CCL_FAILURE_KINDS; k++) {
        if (kinds && !(kinds & 1U << k))
            continue;
        for (uint32_t i = 0; i < nparts(f, (ccl_failure_kind_t)k); i++)
            if (class_of(f, (ccl_failure_kind_t)k, i) == i &&
                !add_class(f, (ccl_failure_kind_t)k, i))
                return ccl_fail_nomem(err);
    }
    ccl_failure_t *kept = ccl_arena_alloc(&f->out->arena, f->out->n + (size_t)1, sizeof *kept);
    if (!kept)
        return ccl_fail_nomem(err);
    if (f->out->n)
        memcpy(kept, f->items, f->out->n * sizeof *kept);
    f->out->items = kept;
    return CCL_OK;
}

ccl_status_t ccl_failures_find(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                               const ccl_collective_t *want, unsigned kinds, ccl_failures_t **out,
                               ccl_error_t *err) {
    ccl_alike_t *alike = NULL;
    uint32_t root =
        ccl_collective_kind_is_rooted(want->kind) ? topo->rank_device[want->root] : CCL_NONE;
    CCL_TRY(ccl_alike_find(ctx, topo, root, &alike, err));
    finder_t f = {.topo = topo, .alike = alike, .symmetric = is_symmetric(want)};
    f.out = calloc(1, sizeof *f.out);
    ccl_status_t status = f.out ? CCL_OK : ccl_fail_nomem(err);
    if (status == CCL_OK) {
        ccl_arena_init(&f.out->arena);
        status = find(&f, kinds, err);
    }
    if (status == CCL_OK)
        *out = f.out;
    else
        ccl_failures_destroy(f.out);
    free(f.items);
    ccl_alike_destroy(alike);
    return status;
}

void ccl_failures_destroy(ccl_failures_t *failures) {
    if (!failures)
        return;
    ccl_arena_fini(&failures->arena);
    free(failures);
}
