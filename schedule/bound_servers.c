/*
 * Bounds of demands for clusters of any size. Cuts around every part of a few partitions (GPUs,
 * servers, servers behind the same switches) take one pass over the demand each. And with each
 * server as one node, its inside without limits, the flow program is small: what it proves for the
 * servers holds for the cluster, and is all there is where the inside does not limit.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "schedule/schedule_i.h"

/* Links and servers of a program that is solved in a second or so. */
enum { MOST_ROWS = 160 };
/* Sums of many shares may be this much too large. */
#define ROUNDING 1e-9

/* ---------------------------------------------------------------- cuts */

typedef struct cuts {
    const ccl_cut_level_t *level;
    double *out, *in;        /* [nparts] shares that leave, and enter, a part */
    uint32_t *stamp, serial; /* [nparts] */
} cuts_t;

/* Adds a chunk to `sum` of each part of `ends` that `others` are not all in. */
static void count_ends(cuts_t *c, const uint32_t *ends, uint32_t n, const uint32_t *others,
                       uint32_t nothers, double share, double *sum) {
    c->serial++;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t part = c->level->part_of[ends[i]];
        bool crosses = false;
        if (part == CCL_NONE || c->stamp[part] == c->serial)
            continue;
        c->stamp[part] = c->serial;
        for (uint32_t k = 0; k < nothers && !crosses; k++)
            crosses = c->level->part_of[others[k]] != part;
        sum[part] += crosses ? share : 0;
    }
}

/* A part must take in what its ranks want and have no part of; of a copied chunk only if the source
   is outside. A sum needs a message from each side that contributes. */
static void count_chunk(cuts_t *c, const ccl_chunk_t *k) {
    count_ends(c, k->dests, k->ndests, k->sources, k->nsources, k->share, c->in);
    count_ends(c, k->sources, k->nsources, k->dests, k->ndests, k->share, c->out);
}

static ccl_status_t take_cut(const ccl_topology_t *topo, const ccl_cut_level_t *level,
                             uint32_t part, bool out_of, ccl_bandwidth_bound_t *best,
                             ccl_error_t *err) {
    ccl_bandwidth_bound_fini(best);
    ccl_arena_init(&best->arena);
    best->proof = CCL_BOUND_CUT;
    best->nparts = 2;
    best->part = ccl_arena_alloc(&best->arena, topo->ndevices, sizeof *best->part);
    best->links = ccl_arena_alloc(&best->arena, topo->nlinks + (size_t)1, sizeof *best->links);
    if (!best->part || !best->links)
        return ccl_fail_nomem(err);
    for (uint32_t d = 0; d < topo->ndevices; d++)
        best->part[d] = (level->device_part[d] == part) == out_of;
    for (uint32_t l = 0; l < topo->nlinks; l++)
        if (best->part[topo->links[l].from] == 1 && best->part[topo->links[l].to] == 0)
            best->links[best->nlinks++] = l;
    return CCL_OK;
}

static ccl_status_t by_level(const ccl_topology_t *topo, const ccl_collective_t *coll, cuts_t *c,
                             ccl_bandwidth_bound_t *best, ccl_error_t *err) {
    double least = best->Bps;
    uint32_t part = CCL_NONE;
    bool out_of = false;
    for (uint32_t k = 0; k < coll->nchunks; k++)
        if (coll->chunks[k].share > 0)
            count_chunk(c, &coll->chunks[k]);
    for (uint32_t p = 0; p < c->level->nparts; p++) {
        for (int turn = 0; turn < 2; turn++) {
            double share = turn ? c->in[p] : c->out[p];
            double Bps = turn ? c->level->in_Bps[p] : c->level->out_Bps[p];
            if (!(share > 0) || Bps / share * (1 + ROUNDING) >= least * (1 - 1e-6))
                continue;
            least = Bps / share * (1 + ROUNDING);
            part = p;
            out_of = turn == 0;
        }
    }
    if (part == CCL_NONE)
        return CCL_OK;
    CCL_TRY(take_cut(topo, c->level, part, out_of, best, err));
    best->Bps = least;
    return CCL_OK;
}

ccl_status_t ccl_i_bound_borders(const ccl_topology_t *topo, const ccl_collective_t *coll,
                                 double **entering, double **leaving, ccl_error_t *err) {
    ccl_cut_levels_t levels;
    size_t n = 0, at = 0;
    CCL_TRY(ccl_cut_levels_init(&levels, topo, err));
    for (uint32_t v = 0; v < levels.nlevels; v++)
        n += levels.levels[v].nparts;
    uint32_t *stamp = calloc(n + 1, sizeof *stamp);
    *entering = calloc(n + 1, sizeof **entering);
    *leaving = calloc(n + 1, sizeof **leaving);
    ccl_status_t status = stamp && *entering && *leaving ? CCL_OK : ccl_fail_nomem(err);
    for (uint32_t v = 0; v < levels.nlevels && status == CCL_OK; v++) {
        cuts_t c = {&levels.levels[v], *leaving + at, *entering + at, stamp + at, 0};
        for (uint32_t k = 0; k < coll->nchunks; k++)
            if (coll->chunks[k].share > 0)
                count_chunk(&c, &coll->chunks[k]);
        at += levels.levels[v].nparts;
    }
    for (size_t i = 0; i < n && status == CCL_OK; i++) {
        (*entering)[i] *= 1 - ROUNDING;
        (*leaving)[i] *= 1 - ROUNDING;
    }
    free(stamp);
    ccl_cut_levels_fini(&levels);
    return status;
}

ccl_status_t ccl_i_bound_levels(const ccl_topology_t *topo, const ccl_collective_t *coll,
                                ccl_bandwidth_bound_t *best, ccl_error_t *err) {
    ccl_cut_levels_t levels;
    CCL_TRY(ccl_cut_levels_init(&levels, topo, err));
    ccl_status_t status = CCL_OK;
    for (uint32_t v = 0; v < levels.nlevels && status == CCL_OK; v++) {
        size_t n = levels.levels[v].nparts;
        cuts_t c = {.level = &levels.levels[v]};
        c.out = calloc(n, sizeof *c.out);
        c.in = calloc(n, sizeof *c.in);
        c.stamp = calloc(n, sizeof *c.stamp);
        status =
            c.out && c.in && c.stamp ? by_level(topo, coll, &c, best, err) : ccl_fail_nomem(err);
        free(c.out);
        free(c.in);
        free(c.stamp);
    }
    ccl_cut_levels_fini(&levels);
    return status;
}

/* ---------------------------------------------------------------- servers as nodes */

typedef struct joint {
    uint32_t from, to; /* devices of the small cluster */
    double Bps;
} joint_t;

typedef struct servers {
    const ccl_topology_t *topo;
    ccl_topology_t *small;
    uint32_t n;      /* servers */
    uint32_t *node;  /* [ndevices] in the small cluster */
    joint_t *joints; /* its links */
    size_t njoints;
} servers_t;

static int by_ends(const void *a, const void *b) {
    const joint_t *x = a, *y = b;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return x->to < y->to ? -1 : x->to > y->to;
}

/* Each server with GPUs is a GPU, all else outside of them a device as before. */
static ccl_status_t add_nodes(servers_t *s, ccl_topology_builder_t *b, ccl_error_t *err) {
    const ccl_topology_t *topo = s->topo;
    uint32_t *at = malloc((topo->nservers + (size_t)1) * sizeof *at);
    char id[32];
    ccl_status_t status = CCL_OK;
    if (!at)
        return ccl_fail_nomem(err);
    memset(at, 0xff, topo->nservers * sizeof *at);
    for (uint32_t r = 0; r < topo->nranks && status == CCL_OK; r++) {
        uint32_t d = topo->rank_device[r], server = topo->devices[d].server;
        if (server != CCL_NONE && at[server] != CCL_NONE) {
            s->node[d] = at[server];
            continue;
        }
        snprintf(id, sizeof id, "s%u", s->n);
        status =
            ccl_topology_builder_device(b, id, CCL_DEVICE_GPU, NULL, s->n, NULL, &s->node[d], err);
        if (server != CCL_NONE)
            at[server] = s->node[d];
        s->n++;
    }
    for (uint32_t d = 0; d < topo->ndevices && status == CCL_OK; d++) {
        uint32_t server = topo->devices[d].server;
        if (topo->devices[d].rank != CCL_NONE)
            continue;
        if (server != CCL_NONE && at[server] != CCL_NONE) {
            s->node[d] = at[server];
            continue;
        }
        snprintf(id, sizeof id, "d%u", d);
        status = ccl_topology_builder_device(b, id, CCL_DEVICE_SWITCH, NULL, CCL_NONE, NULL,
                                             &s->node[d], err);
    }
    free(at);
    return status;
}

/* Links between nodes, those with the same ends as one. */
static ccl_status_t add_joints(servers_t *s, ccl_topology_builder_t *b, ccl_error_t *err) {
    const ccl_topology_t *topo = s->topo;
    size_t n = 0;
    s->joints = calloc(topo->nlinks + (size_t)1, sizeof *s->joints);
    if (!s->joints)
        return ccl_fail_nomem(err);
    for (uint32_t l = 0; l < topo->nlinks; l++) {
        joint_t j = {s->node[topo->links[l].from], s->node[topo->links[l].to],
                     topo->links[l].bandwidth_Bps};
        if (j.from != j.to)
            s->joints[n++] = j;
    }
    qsort(s->joints, n, sizeof *s->joints, by_ends);
    for (size_t i = 0; i < n; i++) {
        if (s->njoints > 0 && by_ends(&s->joints[s->njoints - 1], &s->joints[i]) == 0)
            s->joints[s->njoints - 1].Bps += s->joints[i].Bps;
        else
            s->joints[s->njoints++] = s->joints[i];
    }
    for (size_t i = 0; i < s->njoints; i++)
        CCL_TRY(ccl_topology_builder_link(b, s->joints[i].from, s->joints[i].to, "net",
                                          s->joints[i].Bps, 0, 1, 0, err));
    return CCL_OK;
}

static ccl_status_t join(servers_t *s, ccl_error_t *err) {
    ccl_topology_builder_t *b = ccl_topology_builder_create("servers");
    s->node = calloc(s->topo->ndevices, sizeof *s->node);
    if (!b || !s->node) {
        ccl_topology_builder_destroy(b);
        return ccl_fail_nomem(err);
    }
    ccl_status_t status = add_nodes(s, b, err);
    if (status == CCL_OK)
        status = add_joints(s, b, err);
    if (status == CCL_OK)
        status = ccl_topology_builder_finish(b, &s->small, err);
    ccl_topology_builder_destroy(b);
    return status;
}

/* Whether all links lead to one switch: then cuts around servers are all there is. */
static bool is_star(const servers_t *s) {
    uint32_t hub = CCL_NONE;
    for (size_t i = 0; i < s->njoints; i++) {
        bool from = s->small->devices[s->joints[i].from].rank == CCL_NONE;
        bool to = s->small->devices[s->joints[i].to].rank == CCL_NONE;
        uint32_t end = from ? s->joints[i].from : s->joints[i].to;
        if (from == to || (hub != CCL_NONE && end != hub))
            return false;
        hub = end;
    }
    return true;
}

/* Links of the cluster that are the small one's. */
static ccl_status_t name_links(const servers_t *s, const ccl_bandwidth_bound_t *of,
                               ccl_bandwidth_bound_t *out, ccl_error_t *err) {
    const ccl_topology_t *topo = s->topo;
    out->links = ccl_arena_alloc(&out->arena, topo->nlinks + (size_t)1, sizeof *out->links);
    if (!out->links)
        return ccl_fail_nomem(err);
    for (uint32_t l = 0; l < topo->nlinks; l++) {
        joint_t ends = {s->node[topo->links[l].from], s->node[topo->links[l].to], 0};
        for (uint32_t i = 0; i < of->nlinks; i++) {
            if (by_ends(&ends, &s->joints[of->links[i]]) == 0) {
                out->links[out->nlinks++] = l;
                break;
            }
        }
    }
    return CCL_OK;
}

static ccl_status_t solve(const ccl_ctx_t *ctx, const servers_t *s, const ccl_collective_t *coll,
                          ccl_bandwidth_bound_t *best, ccl_error_t *err) {
    size_t n = s->n;
    ccl_bandwidth_bound_t one;
    double *share = calloc(n * n, sizeof *share);
    uint32_t *pairs = calloc(n * n, sizeof *pairs);
    ccl_status_t status = share && pairs ? CCL_OK : ccl_fail_nomem(err);
    for (uint32_t k = 0; k < coll->nchunks && status == CCL_OK; k++) {
        const ccl_chunk_t *c = &coll->chunks[k];
        uint32_t from = s->small->devices[s->node[s->topo->rank_device[c->sources[0]]]].rank;
        for (uint32_t i = 0; i < c->ndests; i++) {
            uint32_t to = s->small->devices[s->node[s->topo->rank_device[c->dests[i]]]].rank;
            share[from * n + to] += from != to ? c->share : 0;
        }
    }
    for (size_t i = 0; i < n * n && status == CCL_OK; i++)
        pairs[i] = (uint32_t)fmin(share[i] * CCL_I_BOUND_PARTS * (1 - ROUNDING), UINT32_MAX / 2);
    ccl_bound_demand_t demand = {
        .shape = CCL_BOUND_PAIRS, .pairs = pairs, .parts = CCL_I_BOUND_PARTS};
    if (status == CCL_OK)
        status = ccl_model_bandwidth_bound(ctx, s->small, &demand, &one, err);
    if (status == CCL_OK && one.proof == CCL_BOUND_LENGTHS && one.Bps < best->Bps * (1 - 1e-6)) {
        ccl_bandwidth_bound_fini(best);
        ccl_arena_init(&best->arena);
        best->proof = CCL_BOUND_SERVERS;
        best->Bps = one.Bps;
        best->exact_Bps = one.exact_Bps;
        status = name_links(s, &one, best, err);
    }
    if (status == CCL_OK)
        ccl_bandwidth_bound_fini(&one);
    free(share);
    free(pairs);
    return status;
}

ccl_status_t ccl_i_bound_servers(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                                 const ccl_collective_t *coll, ccl_bandwidth_bound_t *best,
                                 ccl_error_t *err) {
    servers_t s = {.topo = topo};
    ccl_status_t status = CCL_OK;
    if (topo->nservers < 2)
        return CCL_OK;
    CCL_TRY_GOTO(join(&s, err), status, end);
    if (s.n > 1 && s.n < topo->nranks && !is_star(&s) && s.njoints + s.n <= MOST_ROWS)
        status = solve(ctx, &s, coll, best, err);
end:
    ccl_topology_destroy(s.small);
    free(s.node);
    free(s.joints);
    return status;
}
