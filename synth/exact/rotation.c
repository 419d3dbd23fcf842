/*
 * Automorphisms by backtracking: rank by rank, an image whose hops to and from all ranks placed so
 * far are the same. Those that also map shared resources, and have circles of one length, count.
 */
#include "synth/exact/rotation.h"
#include "synth/common/turn.h"

#include <stdlib.h>
#include <string.h>

#define MAX_NODES 400000u /* of the whole search */
#define MAX_FOUND 400u    /* automorphisms looked at per image of rank 0 */

typedef struct search {
    const ccl_i_exchange_t *x;
    uint64_t *edge;      /* [n * n] hash of the hops from u to v; 0: none */
    uint32_t *first_hop; /* [n * n] of u to v, CCL_NONE */
    uint64_t *users;     /* [nresources] hash of who uses it, and its rate */
    uint32_t order[CCL_I_TURN_MOST_RANKS], image[CCL_I_TURN_MOST_RANKS];
    bool used[CCL_I_TURN_MOST_RANKS];
    uint32_t nodes, found;
    uint32_t *hop, *resource; /* of the candidate */
    ccl_i_rotation_t *best;
} search_t;

static uint64_t bits(double value) {
    uint64_t out;
    memcpy(&out, &value, sizeof out);
    return out;
}

static uint64_t hop_kind(const ccl_i_hop_t *h) {
    return ccl_mix64(bits(h->link_Bps) ^ ccl_mix64(bits(h->alpha_s) ^ ccl_mix64(bits(h->tb_Bps))));
}

/** Circles of one length: that length, else 1. */
static uint32_t circle(const uint32_t *image, uint32_t n) {
    uint32_t len = 0;
    for (uint32_t r = 0; r < n; r++) {
        uint32_t k = 1;
        for (uint32_t at = image[r]; at != r; at = image[at])
            k++;
        if (len && k != len)
            return 1;
        len = k;
    }
    return len;
}

static bool map_hops(search_t *s) {
    const ccl_i_exchange_t *x = s->x;
    uint32_t n = x->nranks;
    for (uint32_t h = 0; h < x->nhops; h++) {
        const ccl_i_hop_t *hop = &x->hops[h];
        uint32_t from = s->first_hop[hop->src * n + hop->dst];
        uint32_t to = s->first_hop[s->image[hop->src] * n + s->image[hop->dst]];
        uint32_t image = to + (h - from);
        if (to == CCL_NONE || image >= x->nhops || x->hops[image].src != s->image[hop->src] ||
            x->hops[image].dst != s->image[hop->dst] ||
            hop_kind(hop) != hop_kind(&x->hops[image]) || hop->nuses != x->hops[image].nuses)
            return false;
        s->hop[h] = image;
    }
    return true;
}

/** A resource goes to the one, of those of its users' images, that the images of its users use. */
static bool map_resources(search_t *s) {
    const ccl_i_exchange_t *x = s->x;
    uint64_t *image = calloc(x->nresources + (size_t)1, sizeof *image);
    if (!image)
        return false;
    for (uint32_t r = 0; r < x->nresources; r++) {
        image[r] = ccl_mix64(bits(x->resources[r].Bps));
        s->resource[r] = CCL_NONE;
    }
    for (uint32_t h = 0; h < x->nhops; h++)
        for (uint32_t u = 0; u < x->hops[h].nuses; u++) {
            const ccl_i_use_t *use = &x->uses[x->hops[h].first_use + u];
            image[use->resource] += ccl_mix64(ccl_mix64(s->hop[h]) ^ use->times);
        }
    bool fits = true;
    for (uint32_t h = 0; h < x->nhops && fits; h++)
        for (uint32_t u = 0; u < x->hops[h].nuses && fits; u++) {
            uint32_t r = x->uses[x->hops[h].first_use + u].resource, to = CCL_NONE;
            const ccl_i_hop_t *g = &x->hops[s->hop[h]];
            if (s->resource[r] != CCL_NONE)
                continue;
            for (uint32_t v = 0; v < g->nuses; v++)
                if (s->users[x->uses[g->first_use + v].resource] == image[r])
                    to = x->uses[g->first_use + v].resource;
            s->resource[r] = to;
            fits = to != CCL_NONE;
        }
    for (uint32_t r = 0; r < x->nresources; r++)
        if (s->resource[r] == CCL_NONE)
            s->resource[r] = r; /* nobody uses it */
    free(image);
    return fits;
}

static void consider(search_t *s) {
    const ccl_i_exchange_t *x = s->x;
    uint32_t order = circle(s->image, x->nranks);
    s->found++;
    if (order <= s->best->order || !map_hops(s) || !map_resources(s))
        return;
    s->best->order = order;
    memcpy(s->best->rank, s->image, x->nranks * sizeof *s->image);
    memcpy(s->best->hop, s->hop, x->nhops * sizeof *s->hop);
    memcpy(s->best->resource, s->resource, x->nresources * sizeof *s->resource);
}

static void place(search_t *s, uint32_t depth) {
    uint32_t n = s->x->nranks;
    if (depth == n) {
        consider(s);
        return;
    }
    uint32_t r = s->order[depth];
    for (uint32_t to = 0; to < n; to++) {
        if (s->used[to] || to == r || s->nodes >= MAX_NODES || s->found >= MAX_FOUND)
            continue;
        s->nodes++;
        bool fits = true;
        for (uint32_t i = 0; i < depth && fits; i++) {
            uint32_t q = s->order[i];
            fits = s->edge[r * n + q] == s->edge[to * n + s->image[q]] &&
                   s->edge[q * n + r] == s->edge[s->image[q] * n + to];
        }
        if (!fits)
            continue;
        s->image[r] = to;
        s->used[to] = true;
        place(s, depth + 1);
        s->used[to] = false;
    }
}

/** Ranks so that each, as far as can be, has a hop to one before it: conflicts show early. */
static void choose_order(search_t *s) {
    uint32_t n = s->x->nranks;
    bool in[CCL_I_TURN_MOST_RANKS] = {false};
    for (uint32_t k = 0; k < n; k++) {
        uint32_t best = CCL_NONE, most = 0;
        for (uint32_t r = 0; r < n; r++) {
            uint32_t links = 1;
            for (uint32_t i = 0; i < k && !in[r]; i++)
                links += s->edge[r * n + s->order[i]] != 0;
            if (!in[r] && links > most)
                best = r, most = links;
        }
        s->order[k] = best;
        in[best] = true;
    }
}

static void run(search_t *s) {
    const ccl_i_exchange_t *x = s->x;
    uint32_t n = x->nranks;
    memset(s->first_hop, 0xff, (size_t)n * n * sizeof *s->first_hop);
    for (uint32_t h = x->nhops; h-- > 0;) {
        const ccl_i_hop_t *hop = &x->hops[h];
        s->edge[hop->src * n + hop->dst] += hop_kind(hop);
        s->first_hop[hop->src * n + hop->dst] = h;
        for (uint32_t u = 0; u < hop->nuses; u++) {
            const ccl_i_use_t *use = &x->uses[hop->first_use + u];
            s->users[use->resource] += ccl_mix64(ccl_mix64(h) ^ use->times);
        }
    }
    for (uint32_t r = 0; r < x->nresources; r++)
        s->users[r] += ccl_mix64(bits(x->resources[r].Bps));
    choose_order(s);
    for (uint32_t to = 0; to < n; to++) {
        if (to == s->order[0])
            continue;
        s->found = 0;
        s->image[s->order[0]] = to;
        s->used[to] = true;
        place(s, 1);
        s->used[to] = false;
    }
}

static uint32_t *identity(uint32_t n) {
    uint32_t *out = malloc((n + (size_t)1) * sizeof *out);
    for (uint32_t i = 0; out && i < n; i++)
        out[i] = i;
    return out;
}

ccl_status_t ccl_i_rotation_find(const ccl_i_exchange_t *x, ccl_i_rotation_t *out,
                                 ccl_error_t *err) {
    uint32_t n = x->nranks;
    *out = (ccl_i_rotation_t){1, identity(n), identity(x->nhops), identity(x->nresources)};
    if (!out->rank || !out->hop || !out->resource) {
        ccl_i_rotation_fini(out);
        return ccl_fail_nomem(err);
    }
    if (n < 2 || n > CCL_I_TURN_MOST_RANKS)
        return CCL_OK;
    search_t *s = calloc(1, sizeof *s);
    ccl_status_t status = CCL_OK;
    if (s) {
        s->x = x;
        s->best = out;
        s->edge = calloc((size_t)n * n, sizeof *s->edge);
        s->first_hop = malloc((size_t)n * n * sizeof *s->first_hop);
        s->users = calloc(x->nresources + (size_t)1, sizeof *s->users);
        s->hop = identity(x->nhops);
        s->resource = identity(x->nresources);
    }
    if (s && s->edge && s->first_hop && s->users && s->hop && s->resource)
        run(s);
    else
        status = ccl_fail_nomem(err);
    if (s) {
        free(s->edge);
        free(s->first_hop);
        free(s->users);
        free(s->hop);
        free(s->resource);
    }
    free(s);
    if (status != CCL_OK)
        ccl_i_rotation_fini(out);
    return status;
}

void ccl_i_rotation_fini(ccl_i_rotation_t *rotation) {
    free(rotation->rank);
    free(rotation->hop);
    free(rotation->resource);
    *rotation = (ccl_i_rotation_t){0, NULL, NULL, NULL};
}

/* ---------------------------------------------------------------- circles of chunks */

/* Where the rotation takes a chunk of a collective in which all ranks are alike. */
static uint32_t turned(const ccl_i_rotation_t *rotation, const ccl_collective_t *coll,
                       uint32_t chunk) {
    uint32_t c = coll->chunks_per_block, n = coll->nranks, block = chunk / c;
    const uint32_t *rank = rotation->rank;
    uint32_t to = coll->kind == CCL_ALLTOALL ? rank[block / n] * n + rank[block % n] : rank[block];
    return to * c + chunk % c;
}

ccl_status_t ccl_i_circles_init(const ccl_i_rotation_t *rotation, const ccl_i_exchange_t *x,
                                const ccl_collective_t *coll, ccl_i_circles_t *out,
                                ccl_error_t *err) {
    uint32_t n = x->nranks, nhops = x->nhops, order = rotation->order;
    *out = (ccl_i_circles_t){.order = order, .nranks = n, .nhops = nhops};
    out->rep = malloc((coll->nchunks + (size_t)1) * sizeof *out->rep);
    out->turns = calloc(coll->nchunks + (size_t)1, sizeof *out->turns);
    out->rank = malloc((size_t)order * n * sizeof *out->rank);
    out->hop = malloc(((size_t)order * nhops + 1) * sizeof *out->hop);
    if (!out->rep || !out->turns || !out->rank || !out->hop) {
        ccl_i_circles_fini(out);
        return ccl_fail_nomem(err);
    }
    for (uint32_t k = 0; k < order; k++) {
        for (uint32_t r = 0; r < n; r++)
            out->rank[k * n + r] = k ? rotation->rank[out->rank[(k - 1) * n + r]] : r;
        for (uint32_t h = 0; h < nhops; h++)
            out->hop[k * nhops + h] = k ? rotation->hop[out->hop[(k - 1) * nhops + h]] : h;
    }
    for (uint32_t c = 0; c < coll->nchunks; c++) {
        out->rep[c] = c;
        for (uint32_t k = 1, at = c; k < order; k++) {
            at = turned(rotation, coll, at);
            if (at < out->rep[c]) {
                out->rep[c] = at;
                out->turns[c] = k;
            }
        }
    }
    return CCL_OK;
}

void ccl_i_circles_fini(ccl_i_circles_t *circles) {
    free(circles->rep);
    free(circles->turns);
    free(circles->rank);
    free(circles->hop);
    *circles = (ccl_i_circles_t){0};
}
