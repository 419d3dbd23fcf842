/*
 * Partitions of a cluster's GPUs whose parts have a narrow border: every GPU alone, every server,
 * and the servers behind the same switches. What leaves or enters a part is limited by the links of
 * its border, so one pass over a demand and a level bounds it by as many cuts as there are parts.
 */
#include "models/models.h"

#include <math.h>
#include <string.h>

/* A device's part at each level; CCL_NONE: in none. */
typedef struct levels {
    const ccl_topology_t *topo;
    ccl_cut_levels_t *out;
    uint32_t *part; /* [ndevices] of the level in hand */
} levels_t;

/* Bandwidth of the links that leave and enter each part. Groups may carry less: the cut still
 * holds. */
static void add_border(levels_t *w, ccl_cut_level_t *level) {
    const ccl_topology_t *topo = w->topo;
    for (uint32_t l = 0; l < topo->nlinks; l++) {
        uint32_t a = w->part[topo->links[l].from], b = w->part[topo->links[l].to];
        if (a == b)
            continue;
        if (a != CCL_NONE)
            level->out_Bps[a] += topo->links[l].bandwidth_Bps;
        if (b != CCL_NONE)
            level->in_Bps[b] += topo->links[l].bandwidth_Bps;
    }
}

/* @param parts  of w->part. */
static ccl_status_t add_level(levels_t *w, uint32_t nparts, const char *what, ccl_error_t *err) {
    const ccl_topology_t *topo = w->topo;
    ccl_cut_level_t *level = &w->out->levels[w->out->nlevels];
    level->what = what;
    level->nparts = nparts;
    level->part_of = ccl_arena_alloc(&w->out->arena, topo->nranks, sizeof *level->part_of);
    level->out_Bps = ccl_arena_alloc(&w->out->arena, nparts, sizeof *level->out_Bps);
    level->in_Bps = ccl_arena_alloc(&w->out->arena, nparts, sizeof *level->in_Bps);
    level->device_part =
        ccl_arena_alloc(&w->out->arena, topo->ndevices, sizeof *level->device_part);
    if (!level->device_part || !level->part_of || !level->out_Bps || !level->in_Bps)
        return ccl_fail_nomem(err);
    for (uint32_t r = 0; r < topo->nranks; r++)
        level->part_of[r] = w->part[topo->rank_device[r]];
    memcpy(level->device_part, w->part, topo->ndevices * sizeof *w->part);
    add_border(w, level);
    w->out->nlevels++;
    return CCL_OK;
}

/*
 * Servers whose links lead to the same devices outside belong together, with those devices.
 * `hash` of a server: a sum over the devices next to it, so that order does not matter.
 */
static uint32_t join_servers(levels_t *w, uint64_t *hash, uint32_t *stamp) {
    const ccl_topology_t *topo = w->topo;
    uint32_t nparts = 0;
    for (uint32_t l = 0; l < topo->nlinks; l++) {
        const ccl_link_t *link = &topo->links[l];
        uint32_t a = topo->devices[link->from].server, b = topo->devices[link->to].server;
        if (a != CCL_NONE && b == CCL_NONE && stamp[link->to] != a + 1) {
            /* A device met again later counts again: as often for servers alike. */
            stamp[link->to] = a + 1;
            hash[a] += ccl_mix64(link->to + (uint64_t)1);
        }
    }
    for (uint32_t d = 0; d < topo->ndevices; d++)
        w->part[d] = CCL_NONE;
    /* Numbered by their first server; `stamp` becomes the part of a server. */
    for (uint32_t s = 0; s < topo->nservers; s++) {
        uint32_t same = 0;
        while (same < s && hash[same] != hash[s])
            same++;
        stamp[s] = hash[s] == 0 ? CCL_NONE : same < s ? stamp[same] : nparts++;
    }
    for (uint32_t d = 0; d < topo->ndevices; d++)
        if (topo->devices[d].server != CCL_NONE)
            w->part[d] = stamp[topo->devices[d].server];
    for (uint32_t l = 0; l < topo->nlinks; l++) {
        const ccl_link_t *link = &topo->links[l];
        if (topo->devices[link->from].server != CCL_NONE &&
            topo->devices[link->to].server == CCL_NONE)
            w->part[link->to] = w->part[link->from];
    }
    return nparts;
}

static ccl_status_t find(levels_t *w, ccl_error_t *err) {
    const ccl_topology_t *topo = w->topo;
    ccl_arena_t *arena = &w->out->arena;
    size_t room = topo->ndevices + (size_t)topo->nservers + 1;
    uint64_t *hash = ccl_arena_alloc(arena, topo->nservers + (size_t)1, sizeof *hash);
    uint32_t *stamp = ccl_arena_alloc(arena, room, sizeof *stamp);
    w->part = ccl_arena_alloc(arena, topo->ndevices, sizeof *w->part);
    if (!hash || !stamp || !w->part)
        return ccl_fail_nomem(err);
    for (uint32_t d = 0; d < topo->ndevices; d++)
        w->part[d] = topo->devices[d].rank;
    CCL_TRY(add_level(w, topo->nranks, "a GPU", err));
    if (topo->nservers < 2)
        return CCL_OK;
    for (uint32_t d = 0; d < topo->ndevices; d++)
        w->part[d] = topo->devices[d].server;
    CCL_TRY(add_level(w, topo->nservers, "a server", err));
    uint32_t nparts = join_servers(w, hash, stamp);
    if (nparts > 1 && nparts < topo->nservers)
        CCL_TRY(add_level(w, nparts, "servers behind the same switches", err));
    return CCL_OK;
}

ccl_status_t ccl_cut_levels_init(ccl_cut_levels_t *out, const ccl_topology_t *topo,
                                 ccl_error_t *err) {
    memset(out, 0, sizeof *out);
    ccl_arena_init(&out->arena);
    levels_t w = {.topo = topo, .out = out};
    ccl_status_t status = find(&w, err);
    if (status != CCL_OK)
        ccl_cut_levels_fini(out);
    return status;
}

void ccl_cut_levels_fini(ccl_cut_levels_t *levels) {
    ccl_arena_fini(&levels->arena);
    memset(levels, 0, sizeof *levels);
}
