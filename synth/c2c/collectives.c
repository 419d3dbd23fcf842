/*
 * The eight collectives between clusters (HetCCL, algorithm 1, table 7, figures 20 and 21). Every
 * datum crosses a border once per cluster it must get into or through:
 *   AllGather, AllReduce, Broadcast, Reduce   around the ring of clusters;
 *   ReduceScatter, Gather, Scatter, AllToAll  straight to the cluster that wants it.
 * What is to be reduced lands on a border rank beside the one that keeps the result, and is added
 * by a reduction inside the receiving cluster (c2cRed): no rank adds what comes from another
 * vendor.
 */
#include "synth/c2c/moves.h"

#include <math.h>
#include <string.h>

static const ccl_i_c2c_item_t any = {CCL_NONE, CCL_NONE, CCL_NONE};

static const ccl_i_c2c_cluster_t *cluster_of(const ccl_i_c2c_t *b, uint32_t j) {
    return &b->map->clusters[j % b->map->nclusters];
}

/* Border ranks of cluster j for n items. */
static ccl_status_t assign(ccl_i_c2c_t *b, uint32_t j, bool outward, uint32_t n,
                           const ccl_i_c2c_item_t *items, uint32_t *rank_out, ccl_error_t *err) {
    const ccl_i_c2c_cluster_t *k = cluster_of(b, j);
    CCL_TRY(ccl_i_c2c_assign(b->cluster, k, outward, n, items, rank_out, err));
    for (uint32_t i = 0; i < n; i++)
        rank_out[i] = rank_out[i] == CCL_NONE ? CCL_NONE : k->borders[rank_out[i]];
    return CCL_OK;
}

static ccl_status_t items_init(ccl_i_c2c_t *b, uint32_t n, ccl_i_c2c_item_t **out,
                               ccl_error_t *err) {
    *out = ccl_arena_alloc(&b->arena, n + (size_t)1, sizeof **out);
    if (!*out)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < n; i++)
        (*out)[i] = any;
    return CCL_OK;
}

/* The rank beside border `rank`; CCL_NONE for a single rank. */
static uint32_t beside(const ccl_i_c2c_t *b, uint32_t rank) {
    const ccl_i_c2c_cluster_t *k = cluster_of(b, b->map->of[rank]);
    for (uint32_t i = 0; i < k->nborders; i++)
        if (k->borders[i] == rank)
            return k->beside[i];
    return CCL_NONE;
}

/* All of a cluster's ranks get (sum) the chunk from (at) rank. */
static ccl_status_t run_tree(ccl_i_c2c_t *b, const ccl_i_c2c_hom_t *homs, uint32_t rank,
                             double base, bool end, double *end_out, ccl_error_t *err) {
    const ccl_i_c2c_hom_t *hom = &homs[b->map->of[rank]];
    uint32_t index = ccl_i_c2c_hom_chunk(hom, b->map->local[rank], b->part, b->parts);
    return ccl_i_c2c_run(b, hom, index, base, end, end_out, err);
}

/* From src to dst inside their cluster. */
static ccl_status_t run_pair(ccl_i_c2c_t *b, uint32_t src, uint32_t dst, bool end,
                             ccl_error_t *err) {
    uint32_t j = b->map->of[src], n = cluster_of(b, j)->nranks;
    const ccl_i_c2c_hom_t *hom = &b->pairs[j];
    double base = ccl_i_c2c_arrived(b, src), over;
    if (src == dst)
        return CCL_OK;
    if (end)
        base = ccl_i_c2c_end_base(b, base);
    return ccl_i_c2c_run(
        b, hom,
        ccl_i_c2c_hom_chunk(hom, b->map->local[src] * n + b->map->local[dst], b->part, b->parts),
        base, end, &over, err);
}

/* ---------------------------------------------------------------- copies around the ring */

/* Links of n chunks from `from` (in cluster j) on, through all others. */
static ccl_status_t copy_chain(ccl_i_c2c_t *b, uint32_t j, uint32_t n, const uint32_t *from,
                               ccl_i_c2c_link_t *links, ccl_error_t *err) {
    ccl_i_c2c_item_t *items;
    CCL_TRY(items_init(b, n, &items, err));
    for (uint32_t s = 0; s + 1 < b->map->nclusters; s++) {
        CCL_TRY(ccl_i_c2c_link_init(b, n, &links[s], err));
        for (uint32_t u = 0; u < n; u++) {
            links[s].from[u] = s ? links[s - 1].to[u] : from[u];
            items[u].peer = links[s].from[u];
        }
        CCL_TRY(assign(b, j + s + 1, false, n, items, links[s].to, err));
        CCL_TRY(ccl_i_c2c_link_count(b, &links[s], err));
    }
    return CCL_OK;
}

/* A chunk along its chain, and to all in each cluster. @param first  c2c step of the first link. */
static ccl_status_t run_chain(ccl_i_c2c_t *b, const ccl_i_c2c_link_t *links, uint32_t u,
                              uint32_t first, ccl_error_t *err) {
    double over;
    for (uint32_t s = 0; s + 1 < b->map->nclusters; s++)
        CCL_TRY(ccl_i_c2c_cross(b, &links[s], u, first + s, false, 0, err));
    for (uint32_t s = 0; s + 1 < b->map->nclusters; s++) {
        uint32_t rank = links[s].to[u];
        CCL_TRY(run_tree(b, b->gather, rank, ccl_i_c2c_end_base(b, ccl_i_c2c_arrived(b, rank)),
                         true, &over, err));
    }
    return CCL_OK;
}

static ccl_status_t links_init(ccl_i_c2c_t *b, ccl_i_c2c_link_t **out, ccl_error_t *err) {
    *out = ccl_arena_alloc(&b->arena, b->map->nclusters, sizeof **out);
    return *out ? CCL_OK : ccl_fail_nomem(err);
}

static ccl_status_t all_gather(ccl_i_c2c_t *b, ccl_error_t *err) {
    b->c2c_steps = b->map->nclusters - 1;
    for (uint32_t j = 0; j < b->map->nclusters; j++) {
        const ccl_i_c2c_cluster_t *k = cluster_of(b, j);
        uint32_t n = k->nranks * b->parts;
        uint32_t *from = ccl_arena_alloc(&b->arena, n, sizeof *from);
        ccl_i_c2c_item_t *items;
        ccl_i_c2c_link_t *links;
        double over;
        if (!from)
            return ccl_fail_nomem(err);
        CCL_TRY(links_init(b, &links, err));
        CCL_TRY(items_init(b, n, &items, err));
        for (uint32_t u = 0; u < n; u++)
            items[u].prefer = k->ranks[u / b->parts];
        CCL_TRY(assign(b, j, true, n, items, from, err));
        CCL_TRY(copy_chain(b, j, n, from, links, err));
        for (uint32_t u = 0; u < n; u++) {
            uint32_t rank = k->ranks[u / b->parts], part = u % b->parts;
            ccl_i_c2c_begin(b, rank * b->parts + part, part, rank);
            CCL_TRY(run_tree(b, b->gather, rank, 0, false, &over, err));
            CCL_TRY(run_chain(b, links, u, 0, err));
        }
    }
    return CCL_OK;
}

static ccl_status_t broadcast(ccl_i_c2c_t *b, ccl_error_t *err) {
    uint32_t n = b->parts, j = b->map->of[b->want->root];
    uint32_t *from = ccl_arena_alloc(&b->arena, n, sizeof *from);
    ccl_i_c2c_item_t *items;
    ccl_i_c2c_link_t *links;
    double over;
    b->c2c_steps = b->map->nclusters - 1;
    if (!from)
        return ccl_fail_nomem(err);
    CCL_TRY(links_init(b, &links, err));
    CCL_TRY(items_init(b, n, &items, err));
    CCL_TRY(assign(b, j, true, n, items, from, err));
    CCL_TRY(copy_chain(b, j, n, from, links, err));
    for (uint32_t u = 0; u < n; u++) {
        ccl_i_c2c_begin(b, u, u, b->want->root);
        CCL_TRY(ccl_i_c2c_run(b, &b->root, ccl_i_c2c_hom_chunk(&b->root, 0, u, n), 0, false, &over,
                              err));
        CCL_TRY(run_chain(b, links, u, 0, err));
    }
    return CCL_OK;
}

/* ---------------------------------------------------------------- sums around the ring */

static ccl_status_t check_route(const ccl_i_c2c_t *b, uint32_t from, uint32_t to,
                                ccl_error_t *err) {
    if (ccl_i_cluster_reaches(b->cluster, from, to))
        return CCL_OK;
    return ccl_fail(err, CCL_UNSUPPORTED, "rank %u has no route to rank %u of another cluster",
                    from, to);
}

/* Whether keepers of results can be chosen by what they send on: what lands beside them lands on
   borders of any share, and all have routes to all. */
static bool keepers_first(const ccl_i_c2c_t *b, uint32_t j) {
    const ccl_i_c2c_cluster_t *k = cluster_of(b, j);
    bool borders = b->cluster->full;
    for (uint32_t i = 0; borders && i < k->nborders; i++) {
        borders = false;
        for (uint32_t other = 0; other < k->nborders; other++)
            borders |= k->borders[other] == k->beside[i];
    }
    return borders;
}

/* A link of reductions into cluster j: where they land, and keeper[n] that adds them. */
static ccl_status_t sum_link(ccl_i_c2c_t *b, uint32_t j, ccl_i_c2c_item_t *items,
                             ccl_i_c2c_link_t *link, uint32_t *keeper, ccl_error_t *err) {
    bool first = keepers_first(b, j);
    for (uint32_t u = 0; u < link->n; u++)
        items[u] = any;
    if (first)
        CCL_TRY(assign(b, j, true, link->n, items, keeper, err));
    for (uint32_t u = 0; u < link->n; u++)
        items[u] = (ccl_i_c2c_item_t){first ? beside(b, keeper[u]) : CCL_NONE,
                                      first ? keeper[u] : CCL_NONE, link->from[u]};
    CCL_TRY(assign(b, j, false, link->n, items, link->to, err));
    for (uint32_t u = 0; u < link->n; u++) {
        if (!first)
            keeper[u] = beside(b, link->to[u]);
        if (keeper[u] == CCL_NONE) /* a single rank */
            keeper[u] = link->to[u];
        if (link->to[u] == CCL_NONE)
            link->to[u] = keeper[u];
    }
    return CCL_OK;
}

/* The last link of reductions, into the cluster of the rank that keeps them all. */
static ccl_status_t root_link(ccl_i_c2c_t *b, uint32_t root, ccl_i_c2c_item_t *items,
                              ccl_i_c2c_link_t *link, uint32_t *keeper, ccl_error_t *err) {
    for (uint32_t u = 0; u < link->n; u++)
        items[u] = (ccl_i_c2c_item_t){root, root, link->from[u]};
    CCL_TRY(assign(b, b->map->of[root], false, link->n, items, link->to, err));
    for (uint32_t u = 0; u < link->n; u++) {
        keeper[u] = root;
        if (link->to[u] == CCL_NONE || !ccl_i_cluster_reaches(b->cluster, link->to[u], root))
            link->to[u] = root;
    }
    return CCL_OK;
}

/* Reductions of n chunks go from cluster j + 1 round to j: links, and in each cluster the rank that
   keeps the result, keeper[s][n] of cluster j + 1 + s. @param root  keeps all in cluster j, or
   none.
 */
static ccl_status_t sum_chain(ccl_i_c2c_t *b, uint32_t j, uint32_t n, uint32_t root,
                              ccl_i_c2c_link_t *links, uint32_t **keeper, ccl_error_t *err) {
    uint32_t nc = b->map->nclusters;
    ccl_i_c2c_item_t *items;
    CCL_TRY(items_init(b, n, &items, err));
    for (uint32_t s = 0; s < nc; s++) {
        keeper[s] = ccl_arena_alloc(&b->arena, n, sizeof *keeper[s]);
        if (!keeper[s])
            return ccl_fail_nomem(err);
    }
    CCL_TRY(assign(b, j + 1, true, n, items, keeper[0], err));
    for (uint32_t s = 0; s + 1 < nc; s++) {
        ccl_i_c2c_link_t *link = &links[s];
        CCL_TRY(ccl_i_c2c_link_init(b, n, link, err));
        memcpy(link->from, keeper[s], n * sizeof *link->from);
        if (s + 2 == nc && root != CCL_NONE)
            CCL_TRY(root_link(b, root, items, link, keeper[s + 1], err));
        else
            CCL_TRY(sum_link(b, j + s + 2, items, link, keeper[s + 1], err));
        for (uint32_t u = 0; u < n; u++)
            CCL_TRY(check_route(b, link->from[u], link->to[u], err));
        CCL_TRY(ccl_i_c2c_link_count(b, link, err));
    }
    return CCL_OK;
}

/* A chunk's sums; over[s] is when cluster s of the chain has its own. */
static ccl_status_t run_sums(ccl_i_c2c_t *b, const ccl_i_c2c_link_t *links, uint32_t *const *keeper,
                             uint32_t u, const double *over, ccl_error_t *err) {
    for (uint32_t s = 0; s + 1 < b->map->nclusters; s++) {
        bool lands = links[s].to[u] != keeper[s + 1][u];
        CCL_TRY(ccl_i_c2c_cross(b, &links[s], u, 2 * s, !lands, fmax(over[s], over[s + 1]), err));
        if (lands)
            CCL_TRY(ccl_i_c2c_sum(b, &links[s], u, 2 * s, keeper[s + 1][u], err));
    }
    return CCL_OK;
}

static ccl_status_t chain_arrays(ccl_i_c2c_t *b, uint32_t ***keeper, double **over,
                                 ccl_error_t *err) {
    *keeper = ccl_arena_alloc(&b->arena, b->map->nclusters, sizeof **keeper);
    *over = ccl_arena_alloc(&b->arena, b->map->nclusters, sizeof **over);
    return *keeper && *over ? CCL_OK : ccl_fail_nomem(err);
}

static ccl_status_t all_reduce(ccl_i_c2c_t *b, ccl_error_t *err) {
    uint32_t nc = b->map->nclusters, n = b->parts / nc; /* each cluster sums as much */
    uint32_t **keeper;
    double *over, end;
    b->c2c_steps = 3 * (nc - 1);
    CCL_TRY(chain_arrays(b, &keeper, &over, err));
    for (uint32_t j = 0; j < nc; j++) {
        ccl_i_c2c_link_t *sums, *copies;
        CCL_TRY(links_init(b, &sums, err));
        CCL_TRY(links_init(b, &copies, err));
        CCL_TRY(sum_chain(b, j, n, CCL_NONE, sums, keeper, err));
        CCL_TRY(copy_chain(b, j, n, keeper[nc - 1], copies, err));
        for (uint32_t u = 0; u < n; u++) {
            uint32_t at = keeper[nc - 1][u];
            ccl_i_c2c_begin(b, j * n + u, u, CCL_NONE);
            for (uint32_t s = 0; s < nc; s++)
                CCL_TRY(run_tree(b, b->scatter, keeper[s][u], 0, false, &over[s], err));
            CCL_TRY(run_sums(b, sums, keeper, u, over, err));
            double sum = ccl_i_c2c_arrived(b, at);
            CCL_TRY(run_chain(b, copies, u, 2 * (nc - 1), err));
            CCL_TRY(run_tree(b, b->gather, at, ccl_i_c2c_end_base(b, sum), true, &end, err));
        }
    }
    return CCL_OK;
}

static ccl_status_t reduce(ccl_i_c2c_t *b, ccl_error_t *err) {
    uint32_t nc = b->map->nclusters, n = b->parts, j = b->map->of[b->want->root];
    uint32_t **keeper;
    double *over;
    ccl_i_c2c_link_t *sums;
    b->c2c_steps = 2 * (nc - 1);
    CCL_TRY(chain_arrays(b, &keeper, &over, err));
    CCL_TRY(links_init(b, &sums, err));
    CCL_TRY(sum_chain(b, j, n, b->want->root, sums, keeper, err));
    for (uint32_t u = 0; u < n; u++) {
        ccl_i_c2c_begin(b, u, u, CCL_NONE);
        for (uint32_t s = 0; s + 1 < nc; s++)
            CCL_TRY(run_tree(b, b->scatter, keeper[s][u], 0, false, &over[s], err));
        CCL_TRY(ccl_i_c2c_run(b, &b->root, ccl_i_c2c_hom_chunk(&b->root, 0, u, n), 0, false,
                              &over[nc - 1], err));
        CCL_TRY(run_sums(b, sums, keeper, u, over, err));
    }
    return CCL_OK;
}

/* ---------------------------------------------------------------- straight to who wants it */

/* Sums of cluster i for the ranks of cluster j. */
static ccl_status_t scatter_link(ccl_i_c2c_t *b, uint32_t i, uint32_t j, ccl_i_c2c_link_t *link,
                                 ccl_error_t *err) {
    const ccl_i_c2c_cluster_t *k = cluster_of(b, j);
    uint32_t n = k->nranks * b->parts;
    ccl_i_c2c_item_t *items;
    CCL_TRY(items_init(b, n, &items, err));
    CCL_TRY(ccl_i_c2c_link_init(b, n, link, err));
    for (uint32_t u = 0; u < n; u++) {
        uint32_t dst = k->ranks[u / b->parts], next = beside(b, dst);
        /* What a border reduces lands beside it; others' on any border of their server. */
        items[u] = (ccl_i_c2c_item_t){next == CCL_NONE ? dst : next, k->nranks > 1 ? dst : CCL_NONE,
                                      CCL_NONE};
    }
    CCL_TRY(assign(b, j, false, n, items, link->to, err));
    for (uint32_t u = 0; u < n; u++) {
        uint32_t dst = k->ranks[u / b->parts], to = link->to[u];
        if (to == CCL_NONE || (to != dst && !ccl_i_cluster_reaches(b->cluster, to, dst)))
            link->to[u] = dst;
        items[u] = (ccl_i_c2c_item_t){CCL_NONE, CCL_NONE, link->to[u]};
    }
    CCL_TRY(assign(b, i, true, n, items, link->from, err));
    return ccl_i_c2c_link_count(b, link, err);
}

static ccl_status_t reduce_scatter(ccl_i_c2c_t *b, ccl_error_t *err) {
    uint32_t nc = b->map->nclusters;
    b->c2c_steps = 2 * (nc - 1);
    for (uint32_t j = 0; j < nc; j++) {
        const ccl_i_c2c_cluster_t *k = cluster_of(b, j);
        ccl_i_c2c_link_t *links;
        CCL_TRY(links_init(b, &links, err));
        for (uint32_t s = 0; s + 1 < nc; s++)
            CCL_TRY(scatter_link(b, (j + 1 + s) % nc, j, &links[s], err));
        for (uint32_t u = 0; u < k->nranks * b->parts; u++) {
            uint32_t dst = k->ranks[u / b->parts], part = u % b->parts;
            double own, theirs;
            ccl_i_c2c_begin(b, dst * b->parts + part, part, CCL_NONE);
            CCL_TRY(run_tree(b, b->scatter, dst, 0, false, &own, err));
            for (uint32_t s = 0; s + 1 < nc; s++) {
                uint32_t from = links[s].from[u];
                bool lands = links[s].to[u] != dst;
                CCL_TRY(run_tree(b, b->scatter, from, 0, false, &theirs, err));
                CCL_TRY(ccl_i_c2c_cross(b, &links[s], u, 2 * s, !lands, fmax(own, theirs), err));
                if (lands)
                    CCL_TRY(ccl_i_c2c_sum(b, &links[s], u, 2 * s, dst, err));
                own = ccl_i_c2c_arrived(b, dst); /* what lands next must not come before */
            }
        }
    }
    return CCL_OK;
}

/** Chunks of AllToAll, Gather, Scatter from cluster i to cluster j. */
typedef struct pairs {
    uint32_t n, *src, *dst, *part, *chunk;
} pairs_t;

static ccl_status_t list_pairs(ccl_i_c2c_t *b, uint32_t i, uint32_t j, pairs_t *out,
                               ccl_error_t *err) {
    const ccl_i_c2c_cluster_t *x = cluster_of(b, i), *y = cluster_of(b, j);
    ccl_collective_kind_t kind = b->want->kind;
    size_t most = (size_t)x->nranks * y->nranks * b->parts;
    uint32_t *all = ccl_arena_alloc(&b->arena, 4 * most + 1, sizeof *all);
    if (!all || most >= CCL_NONE)
        return ccl_fail_nomem(err);
    *out = (pairs_t){0, all, all + most, all + 2 * most, all + 3 * most};
    for (uint32_t turn = 0; turn < y->nranks; turn++)
        for (uint32_t s = 0; s < x->nranks; s++) {
            /* Each in turn to another one. */
            uint32_t src = x->ranks[s], dst = y->ranks[(s + turn) % y->nranks];
            uint32_t block = kind == CCL_ALLTOALL ? src * b->want->nranks + dst
                             : kind == CCL_GATHER ? src
                                                  : dst;
            if ((kind == CCL_GATHER && dst != b->want->root) ||
                (kind == CCL_SCATTER && src != b->want->root))
                continue;
            for (uint32_t p = 0; p < b->parts; p++) {
                out->src[out->n] = src;
                out->dst[out->n] = dst;
                out->part[out->n] = p;
                out->chunk[out->n++] = block * b->parts + p;
            }
        }
    return CCL_OK;
}

/* From cluster i to cluster j, `away` further round the ring: c2c step away - 1. */
static ccl_status_t move_pairs(ccl_i_c2c_t *b, uint32_t i, uint32_t j, uint32_t away,
                               ccl_error_t *err) {
    pairs_t p = {0};
    ccl_i_c2c_item_t *items;
    ccl_i_c2c_link_t link;
    CCL_TRY(list_pairs(b, i, j, &p, err));
    CCL_TRY(items_init(b, p.n, &items, err));
    CCL_TRY(ccl_i_c2c_link_init(b, p.n, &link, err));
    for (uint32_t u = 0; away && u < p.n; u++)
        items[u].prefer = p.dst[u];
    if (away)
        CCL_TRY(assign(b, j, false, p.n, items, link.to, err));
    for (uint32_t u = 0; away && u < p.n; u++)
        items[u] = (ccl_i_c2c_item_t){p.src[u], CCL_NONE, link.to[u]};
    if (away) {
        CCL_TRY(assign(b, i, true, p.n, items, link.from, err));
        CCL_TRY(ccl_i_c2c_link_count(b, &link, err));
    }
    for (uint32_t u = 0; u < p.n; u++) {
        ccl_i_c2c_begin(b, p.chunk[u], p.part[u], p.src[u]);
        if (!away) {
            CCL_TRY(run_pair(b, p.src[u], p.dst[u], false, err));
            continue;
        }
        CCL_TRY(run_pair(b, p.src[u], link.from[u], false, err));
        CCL_TRY(ccl_i_c2c_cross(b, &link, u, away - 1, false, 0, err));
        CCL_TRY(run_pair(b, link.to[u], p.dst[u], true, err));
    }
    return CCL_OK;
}

static ccl_status_t all_pairs(ccl_i_c2c_t *b, ccl_error_t *err) {
    uint32_t nc = b->map->nclusters;
    b->c2c_steps = nc - 1;
    for (uint32_t i = 0; i < nc; i++)
        for (uint32_t away = 0; away < nc; away++)
            CCL_TRY(move_pairs(b, i, (i + away) % nc, away, err));
    return CCL_OK;
}

ccl_status_t ccl_i_c2c_collective(ccl_i_c2c_t *b, ccl_error_t *err) {
    switch (b->want->kind) {
    case CCL_ALLGATHER:
        return all_gather(b, err);
    case CCL_ALLREDUCE:
        return all_reduce(b, err);
    case CCL_REDUCESCATTER:
        return reduce_scatter(b, err);
    case CCL_BROADCAST:
        return broadcast(b, err);
    case CCL_REDUCE:
        return reduce(b, err);
    case CCL_ALLTOALL:
    case CCL_GATHER:
    case CCL_SCATTER:
        return all_pairs(b, err);
    default:
        return ccl_fail(err, CCL_ERR_INTERNAL, "c2c was asked for %s", b->want->name);
    }
}
