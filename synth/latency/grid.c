/* GPUs as places of a grid. */
#include "synth/compose/compose.h"
#include "synth/latency/latency.h"

#include <string.h>

static ccl_status_t alloc(ccl_arena_t *arena, uint32_t ngroups, uint32_t nranks, ccl_i_grid_t *out,
                          ccl_error_t *err) {
    out->ngroups = ngroups;
    out->first = ccl_arena_alloc(arena, ngroups + (size_t)1, sizeof *out->first);
    out->ranks = ccl_arena_alloc(arena, nranks, sizeof *out->ranks);
    out->place = ccl_arena_alloc(arena, nranks, sizeof *out->place);
    return out->first && out->ranks && out->place ? CCL_OK : ccl_fail_nomem(err);
}

static void number(ccl_i_grid_t *g) {
    g->inner = 0;
    g->even = true;
    for (uint32_t s = 0; s < g->ngroups; s++) {
        uint32_t size = g->first[s + 1] - g->first[s];
        g->even = g->even && size == g->first[1];
        g->inner = size > g->inner ? size : g->inner;
    }
    for (uint32_t s = 0; s < g->ngroups; s++)
        for (uint32_t i = g->first[s]; i < g->first[s + 1]; i++)
            g->place[g->ranks[i]] = s * g->inner + (i - g->first[s]);
}

ccl_status_t ccl_i_grid_servers(const ccl_i_cluster_t *cluster, ccl_arena_t *arena,
                                ccl_i_grid_t *out, ccl_error_t *err) {
    CCL_TRY(alloc(arena, cluster->nservers, cluster->nranks, out, err));
    memcpy(out->first, cluster->first, (cluster->nservers + (size_t)1) * sizeof *out->first);
    memcpy(out->ranks, cluster->ranks, cluster->nranks * sizeof *out->ranks);
    number(out);
    return CCL_OK;
}

ccl_status_t ccl_i_grid_sets(const ccl_i_cluster_t *cluster, ccl_routes_t *routes,
                             ccl_arena_t *arena, ccl_i_grid_t *out, ccl_error_t *err) {
    const uint32_t n = cluster->nranks;
    ccl_i_pods_t pods;
    CCL_TRY(ccl_i_pods_find(cluster->topo, routes, false, &pods, err));
    ccl_status_t status = alloc(arena, pods.npods, n, out, err);
    if (status == CCL_OK) {
        memcpy(out->first, pods.first, (pods.npods + (size_t)1) * sizeof *out->first);
        memcpy(out->ranks, pods.ranks, n * sizeof *out->ranks);
        number(out);
        out->sets = true;
    }
    ccl_i_pods_fini(&pods);
    return status;
}

/* Do all groups' GPUs at a lane reach each other? */
static bool is_alive(const ccl_i_cluster_t *c, const ccl_i_grid_t *g, uint32_t lane) {
    bool reach = true;
    for (uint32_t a = 0; a < g->ngroups && reach; a++)
        for (uint32_t b = 0; b < g->ngroups && reach; b++)
            reach = a == b || ccl_i_cluster_reaches(c, g->ranks[g->first[a] + lane],
                                                    g->ranks[g->first[b] + lane]);
    return reach;
}

ccl_status_t ccl_i_grid_alive(const ccl_i_cluster_t *cluster, ccl_arena_t *arena,
                              const ccl_i_grid_t *from, ccl_i_grid_t *out, uint32_t *alive,
                              ccl_error_t *err) {
    uint32_t next = 0;
    CCL_TRY(alloc(arena, from->ngroups, cluster->nranks, out, err));
    *alive = 0;
    memcpy(out->first, from->first, (from->ngroups + (size_t)1) * sizeof *out->first);
    for (int dead = 0; dead < 2 && from->even; dead++) {
        for (uint32_t lane = 0; lane < from->inner; lane++) {
            if (is_alive(cluster, from, lane) == dead)
                continue;
            *alive += !dead;
            for (uint32_t g = 0; g < from->ngroups; g++)
                out->ranks[out->first[g] + next] = from->ranks[from->first[g] + lane];
            next++;
        }
    }
    if (*alive == 0 || *alive == from->inner)
        return ccl_fail(err, CCL_UNSUPPORTED, "all lanes are alive, or none");
    out->sets = from->sets;
    number(out);
    return CCL_OK;
}

ccl_status_t ccl_i_grid_whole(const ccl_i_cluster_t *cluster, ccl_arena_t *arena, ccl_i_grid_t *out,
                              ccl_error_t *err) {
    CCL_TRY(alloc(arena, 1, cluster->nranks, out, err));
    out->first[0] = 0;
    out->first[1] = cluster->nranks;
    memcpy(out->ranks, cluster->ranks, cluster->nranks * sizeof *out->ranks);
    number(out);
    return CCL_OK;
}

/* ---------------------------------------------------------------- grids of wires */

/** Steps of a search. */
#define MOST_TRIES 200000u

typedef struct search {
    const ccl_i_cluster_t *cluster;
    const uint32_t *ranks; /* [n] of the group, those that may be taken */
    const uint32_t *factor;
    uint32_t n, ndigits, tries;
    uint32_t *at; /* [n] index of the GPU at a place */
    bool *taken;  /* [n] */
} search_t;

/* May GPU i stand at place v: does it reach all lower places that differ in one digit? */
static bool fits(const search_t *s, uint32_t v, uint32_t i) {
    uint32_t stride = 1;
    for (uint32_t d = 0; d < s->ndigits; stride *= s->factor[d++]) {
        uint32_t own = v / stride % s->factor[d];
        for (uint32_t x = 0; x < own; x++) {
            uint32_t peer = s->ranks[s->at[v - (own - x) * stride]];
            if (!ccl_i_cluster_reaches(s->cluster, s->ranks[i], peer) ||
                !ccl_i_cluster_reaches(s->cluster, peer, s->ranks[i]))
                return false;
        }
    }
    return true;
}

static bool fill(search_t *s, uint32_t v) {
    if (v == s->n)
        return true;
    for (uint32_t i = 0; i < s->n; i++) {
        if (s->taken[i] || !fits(s, v, i))
            continue;
        if (++s->tries > MOST_TRIES)
            return false;
        s->at[v] = i;
        s->taken[i] = true;
        if (fill(s, v + 1))
            return true;
        s->taken[i] = false;
    }
    return false;
}

ccl_status_t ccl_i_grid_wired(const ccl_i_cluster_t *cluster, ccl_arena_t *arena,
                              const ccl_i_grid_t *from, const uint32_t *factor, uint32_t ndigits,
                              ccl_i_grid_t *out, ccl_error_t *err) {
    uint32_t n = from->inner;
    CCL_TRY(alloc(arena, from->ngroups, cluster->nranks, out, err));
    search_t s = {.cluster = cluster,
                  .ranks = from->ranks,
                  .factor = factor,
                  .ndigits = ndigits,
                  .n = n,
                  .at = ccl_arena_alloc(arena, n, sizeof *s.at),
                  .taken = ccl_arena_alloc(arena, n, sizeof *s.taken)};
    if (!s.at || !s.taken)
        return ccl_fail_nomem(err);
    memset(s.taken, 0, n * sizeof *s.taken);
    if (!from->even || !fill(&s, 0))
        return ccl_fail(err, CCL_UNSUPPORTED, "the GPUs of a server form no such grid");
    memcpy(out->first, from->first, (from->ngroups + (size_t)1) * sizeof *out->first);
    for (uint32_t g = 0; g < from->ngroups; g++)
        for (uint32_t v = 0; v < n; v++)
            out->ranks[from->first[g] + v] = from->ranks[from->first[g] + s.at[v]];
    number(out);
    return CCL_OK;
}
