/* A sub-demand in canonical numbers and epochs, and the shapes that are proven best. */
#include "synth/sketch/solve.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void ccl_i_part_fini(ccl_i_part_t *part) {
    ccl_collective_destroy(part->coll);
    ccl_i_rotation_fini(&part->rotation);
    ccl_text_fini(&part->content);
    ccl_arena_fini(&part->arena);
    memset(part, 0, sizeof *part);
}

/* ---------------------------------------------------------------- canonical numbers */

/* A part in the order in which its hops were found. */
typedef struct draft {
    const ccl_i_space_t *space;
    uint32_t *place;    /* [nranks] CCL_NONE: not in the part */
    uint32_t *hop;      /* [nhops] of the space */
    uint32_t *resource; /* [nresources] of the space: number here; CCL_NONE: not used */
    uint32_t nhops, nresources, nuses;
    ccl_i_exchange_t x;
    uint32_t *delay, *window, *capacity;
} draft_t;

static bool pick(draft_t *d, const ccl_i_part_want_t *want, ccl_arena_t *arena) {
    const ccl_i_exchange_t *x = &d->space->x;

    d->place = ccl_arena_alloc(arena, x->nranks, sizeof *d->place);
    d->hop = ccl_arena_alloc(arena, x->nhops + (size_t)1, sizeof *d->hop);
    d->resource = ccl_arena_alloc(arena, x->nresources + (size_t)1, sizeof *d->resource);
    if (!d->place || !d->hop || !d->resource)
        return false;
    memset(d->place, 0xff, x->nranks * sizeof *d->place);
    memset(d->resource, 0xff, x->nresources * sizeof *d->resource);
    for (uint32_t i = 0; i < want->n; i++)
        d->place[want->ranks[i]] = i;
    for (uint32_t h = 0; h < x->nhops; h++) {
        const ccl_i_hop_t *hop = &x->hops[h];

        if (d->place[hop->src] == CCL_NONE || d->place[hop->dst] == CCL_NONE ||
            !(d->space->dimensions[h] & want->dimensions))
            continue;
        d->hop[d->nhops++] = h;
        d->nuses += hop->nuses;
        for (uint32_t u = hop->first_use; u < hop->first_use + hop->nuses; u++) {
            if (d->resource[x->uses[u].resource] == CCL_NONE)
                d->resource[x->uses[u].resource] = d->nresources++;
        }
    }
    return true;
}

/* The hops and resources picked, as an exchange graph of its own. */
static bool build(draft_t *d, uint32_t n, ccl_arena_t *arena) {
    const ccl_i_exchange_t *from = &d->space->x;
    ccl_i_exchange_t *x = &d->x;

    x->topo = from->topo;
    x->nranks = n;
    x->nhops = d->nhops;
    x->nresources = d->nresources;
    x->hops = ccl_arena_alloc(arena, d->nhops + (size_t)1, sizeof *x->hops);
    x->uses = ccl_arena_alloc(arena, d->nuses + (size_t)1, sizeof *x->uses);
    x->resources = ccl_arena_alloc(arena, d->nresources + (size_t)1, sizeof *x->resources);
    d->delay = ccl_arena_alloc(arena, d->nhops + (size_t)1, sizeof *d->delay);
    d->window = ccl_arena_alloc(arena, d->nresources + (size_t)1, sizeof *d->window);
    d->capacity = ccl_arena_alloc(arena, d->nresources + (size_t)1, sizeof *d->capacity);
    if (!x->hops || !x->uses || !x->resources || !d->delay || !d->window || !d->capacity)
        return false;
    for (uint32_t r = 0; r < from->nresources; r++) {
        if (d->resource[r] != CCL_NONE)
            x->resources[d->resource[r]] = from->resources[r];
    }
    uint32_t uses = 0;
    for (uint32_t i = 0; i < d->nhops; i++) {
        const ccl_i_hop_t *hop = &from->hops[d->hop[i]];

        x->hops[i] = *hop;
        x->hops[i].src = d->place[hop->src];
        x->hops[i].dst = d->place[hop->dst];
        x->hops[i].first_use = uses;
        for (uint32_t u = 0; u < hop->nuses; u++) {
            x->uses[uses] = from->uses[hop->first_use + u];
            x->uses[uses].resource = d->resource[x->uses[uses].resource];
            uses++;
        }
    }
    return true;
}

static int by_number(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* Colours are places among the distinct keys, so they do not depend on the order of vertices. */
static bool colour(const uint64_t *key, uint32_t n, uint32_t *out) {
    uint64_t *sorted = malloc((n + (size_t)1) * sizeof *sorted);
    uint32_t distinct = 0;

    if (!sorted)
        return false;
    memcpy(sorted, key, n * sizeof *sorted);
    if (n)
        qsort(sorted, n, sizeof *sorted, by_number);
    for (uint32_t i = 0; i < n; i++) {
        if (distinct == 0 || sorted[distinct - 1] != sorted[i])
            sorted[distinct++] = sorted[i];
    }
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t *at = bsearch(&key[i], sorted, distinct, sizeof *sorted, by_number);

        out[i] = (uint32_t)(at - sorted);
    }
    free(sorted);
    return true;
}

/*
 * Vertices: GPUs; two per hop, so that it has a direction; one per use that counts more than once;
 * resources.
 */
static ccl_status_t label(const ccl_ctx_t *ctx, const draft_t *d, uint32_t n, uint32_t root,
                          uint32_t **label_out, ccl_error_t *err) {
    const ccl_i_exchange_t *x = &d->x;
    uint32_t nv = n + 2 * x->nhops + x->nresources + d->nuses, at = n + 2 * x->nhops, more;
    uint64_t *key = calloc(nv + (size_t)1, sizeof *key);
    uint32_t *colours = calloc(nv + (size_t)1, sizeof *colours);
    uint32_t(*edges)[2] = calloc(3 * (size_t)x->nhops + 2 * (size_t)d->nuses + 1, sizeof *edges);
    size_t ne = 0;
    ccl_status_t status = CCL_OK;

    *label_out = calloc(nv + (size_t)1, sizeof **label_out);
    if (!key || !colours || !edges || !*label_out) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    for (uint32_t i = 0; i < n; i++)
        key[i] = i == root;
    for (uint32_t r = 0; r < x->nresources; r++)
        key[at + r] = (uint64_t)3 << 60 | (uint64_t)d->window[r] << 32 | d->capacity[r];
    more = at + x->nresources;
    for (uint32_t h = 0; h < x->nhops; h++) {
        const ccl_i_hop_t *hop = &x->hops[h];
        uint32_t out = n + 2 * h;

        key[out] = (uint64_t)1 << 60 | d->delay[h];
        key[out + 1] = (uint64_t)2 << 60 | d->delay[h];
        edges[ne][0] = hop->src, edges[ne++][1] = out;
        edges[ne][0] = out, edges[ne++][1] = out + 1;
        edges[ne][0] = out + 1, edges[ne++][1] = hop->dst;
        for (uint32_t u = hop->first_use; u < hop->first_use + hop->nuses; u++) {
            uint32_t end = at + x->uses[u].resource;

            if (x->uses[u].times > 1) {
                key[more] = (uint64_t)4 << 60 | x->uses[u].times;
                edges[ne][0] = more, edges[ne++][1] = end;
                end = more++;
            }
            edges[ne][0] = out, edges[ne++][1] = end;
        }
    }
    if (!colour(key, more, colours))
        status = ccl_fail_nomem(err);
    else
        status = ccl_graph_canonical(ctx, more, colours, ne, (const uint32_t(*)[2])edges,
                                     *label_out, err);
end:
    free(key);
    free(colours);
    free(edges);
    return status;
}

typedef struct labelled {
    uint32_t label, index;
} labelled_t;

static int by_label(const void *a, const void *b) {
    const labelled_t *x = a, *y = b;

    return x->label < y->label ? -1 : x->label > y->label;
}

/* order[k]: which of the vertices from `first` on has the k-th smallest label; place: the inverse.
 */
static void rank_labels(const uint32_t *label, uint32_t first, uint32_t step, uint32_t n,
                        labelled_t *scratch, uint32_t *order, uint32_t *place) {
    for (uint32_t i = 0; i < n; i++)
        scratch[i] = (labelled_t){label[first + i * step], i};
    if (n)
        qsort(scratch, n, sizeof *scratch, by_label);
    for (uint32_t i = 0; i < n; i++) {
        order[i] = scratch[i].index;
        place[scratch[i].index] = i;
    }
}

static int by_resource(const void *a, const void *b) {
    const ccl_i_use_t *x = a, *y = b;

    return x->resource < y->resource ? -1 : x->resource > y->resource;
}

typedef struct placed_hop {
    uint32_t src, dst, label, index;
} placed_hop_t;

static int by_ends(const void *a, const void *b) {
    const placed_hop_t *x = a, *y = b;

    if (x->src != y->src)
        return x->src < y->src ? -1 : 1;
    if (x->dst != y->dst)
        return x->dst < y->dst ? -1 : 1;
    return x->label < y->label ? -1 : x->label > y->label;
}

/* Room for a part of x's GPUs, hops and resources. */
static bool alloc_part(ccl_i_part_t *p, uint32_t nuses) {
    ccl_i_exchange_t *x = &p->x;
    x->hops = ccl_arena_alloc(&p->arena, x->nhops + (size_t)1, sizeof *x->hops);
    x->uses = ccl_arena_alloc(&p->arena, nuses + (size_t)1, sizeof *x->uses);
    x->resources = ccl_arena_alloc(&p->arena, x->nresources + (size_t)1, sizeof *x->resources);
    x->out_first = ccl_arena_alloc(&p->arena, x->nranks + (size_t)1, sizeof *x->out_first);
    x->in_first = ccl_arena_alloc(&p->arena, x->nranks + (size_t)1, sizeof *x->in_first);
    x->in_hops = ccl_arena_alloc(&p->arena, x->nhops + (size_t)1, sizeof *x->in_hops);
    p->rank = ccl_arena_alloc(&p->arena, x->nranks, sizeof *p->rank);
    p->hop = ccl_arena_alloc(&p->arena, x->nhops + (size_t)1, sizeof *p->hop);
    p->delay = ccl_arena_alloc(&p->arena, x->nhops + (size_t)1, sizeof *p->delay);
    p->window = ccl_arena_alloc(&p->arena, x->nresources + (size_t)1, sizeof *p->window);
    p->capacity = ccl_arena_alloc(&p->arena, x->nresources + (size_t)1, sizeof *p->capacity);
    p->away = ccl_arena_alloc(&p->arena, (size_t)x->nranks * x->nranks, sizeof *p->away);
    return x->hops && x->uses && x->resources && x->out_first && x->in_first && x->in_hops &&
           p->rank && p->hop && p->delay && p->window && p->capacity && p->away;
}

/* The counts in out_first and in_first become places; hops by target. */
static void index_hops(ccl_i_exchange_t *x) {
    for (uint32_t i = 0; i < x->nranks; i++) {
        x->out_first[i + 1] += x->out_first[i];
        x->in_first[i + 1] += x->in_first[i];
    }
    for (uint32_t i = x->nhops; i-- > 0;)
        x->in_hops[--x->in_first[x->hops[i].dst + 1]] = i;
    /* Counting down left each first one step late. */
    for (uint32_t i = 0; i < x->nranks; i++)
        x->in_first[i] = x->in_first[i + 1];
    x->in_first[x->nranks] = x->nhops;
}

static ccl_status_t renumber(ccl_i_part_t *p, const draft_t *d, const ccl_i_part_want_t *want,
                             const uint32_t *label, ccl_error_t *err) {
    const ccl_i_exchange_t *from = &d->x;
    ccl_i_exchange_t *x = &p->x;
    uint32_t n = want->n, most = n + from->nhops + from->nresources, uses = 0;
    labelled_t *scratch = calloc(most + (size_t)1, sizeof *scratch);
    placed_hop_t *hops = calloc(from->nhops + (size_t)1, sizeof *hops);
    uint32_t *gpu = calloc(2 * (size_t)n + 1, sizeof *gpu);
    uint32_t *res = calloc(2 * (size_t)from->nresources + 1, sizeof *res);
    uint32_t *gpu_place = gpu ? gpu + n : NULL, *res_place = res ? res + from->nresources : NULL;
    ccl_status_t status = CCL_OK;

    *x = (ccl_i_exchange_t){
        .topo = from->topo, .nranks = n, .nhops = from->nhops, .nresources = from->nresources};
    if (!scratch || !hops || !gpu || !res || !alloc_part(p, d->nuses)) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    rank_labels(label, 0, 1, n, scratch, gpu, gpu_place);
    rank_labels(label, n + 2 * from->nhops, 1, from->nresources, scratch, res, res_place);
    for (uint32_t i = 0; i < n; i++)
        p->rank[i] = want->ranks[gpu[i]];
    for (uint32_t r = 0; r < from->nresources; r++) {
        x->resources[r] = from->resources[res[r]];
        p->window[r] = d->window[res[r]];
        p->capacity[r] = d->capacity[res[r]];
    }
    for (uint32_t h = 0; h < from->nhops; h++)
        hops[h] = (placed_hop_t){gpu_place[from->hops[h].src], gpu_place[from->hops[h].dst],
                                 label[n + 2 * h], h};
    if (from->nhops)
        qsort(hops, from->nhops, sizeof *hops, by_ends);
    for (uint32_t i = 0; i < from->nhops; i++) {
        const ccl_i_hop_t *hop = &from->hops[hops[i].index];
        ccl_i_hop_t *to = &x->hops[i];

        *to = *hop;
        to->src = hops[i].src;
        to->dst = hops[i].dst;
        to->first_use = uses;
        p->hop[i] = d->hop[hops[i].index];
        p->delay[i] = d->delay[hops[i].index];
        for (uint32_t u = 0; u < hop->nuses; u++) {
            x->uses[uses] = from->uses[hop->first_use + u];
            x->uses[uses].resource = res_place[x->uses[uses].resource];
            uses++;
        }
        if (hop->nuses)
            qsort(x->uses + to->first_use, hop->nuses, sizeof *x->uses, by_resource);
        x->out_first[to->src + 1]++;
        x->in_first[to->dst + 1]++;
    }
    index_hops(x);
    p->root = want->root == CCL_NONE ? CCL_NONE : gpu_place[d->place[want->root]];
end:
    free(scratch);
    free(hops);
    free(gpu);
    free(res);
    return status;
}

static bool describe(ccl_i_part_t *p) {
    const ccl_i_exchange_t *x = &p->x;
    ccl_text_t *t = &p->content;

    ccl_text_printf(t, "%s %u gpus, %u chunks", p->root == CCL_NONE ? "allgather" : "broadcast",
                    p->n, p->chunks);
    if (p->root != CCL_NONE)
        ccl_text_printf(t, ", root %u", p->root);
    for (uint32_t r = 0; r < x->nresources; r++)
        ccl_text_printf(t, "\nr %u %u", p->window[r], p->capacity[r]);
    for (uint32_t h = 0; h < x->nhops; h++) {
        ccl_text_printf(t, "\nh %u %u %u", x->hops[h].src, x->hops[h].dst, p->delay[h]);
        for (uint32_t u = x->hops[h].first_use; u < x->hops[h].first_use + x->hops[h].nuses; u++)
            ccl_text_printf(t, " %ux%u", x->uses[u].resource, x->uses[u].times);
    }
    ccl_text_printf(t, "\n");
    return !t->nomem;
}

/* ---------------------------------------------------------------- bound */

/* Chunks that a resource lets start in the first `epochs` epochs. */
static double starts(const ccl_i_part_t *p, uint32_t resource, uint32_t epochs) {
    return ceil((double)epochs / p->window[resource]) * p->capacity[resource];
}

/* Most chunks that can come into (or leave) a GPU within `epochs`. */
static double room(const ccl_i_part_t *p, uint32_t gpu, bool in, uint32_t epochs) {
    const ccl_i_exchange_t *x = &p->x;
    uint32_t first = in ? x->in_first[gpu] : x->out_first[gpu];
    uint32_t last = in ? x->in_first[gpu + 1] : x->out_first[gpu + 1];
    double sum = 0, least = INFINITY;

    for (uint32_t i = first; i < last; i++) {
        uint32_t h = in ? x->in_hops[i] : i;
        uint32_t left = epochs >= p->delay[h] ? epochs - p->delay[h] + 1 : 0;
        double most = left ? INFINITY : 0;

        for (uint32_t u = x->hops[h].first_use; left && u < x->hops[h].first_use + x->hops[h].nuses;
             u++)
            most = fmin(most, floor(starts(p, x->uses[u].resource, left) / x->uses[u].times));
        sum += most;
    }
    /* A resource that all of them use. */
    for (uint32_t u = first < last ? x->hops[in ? x->in_hops[first] : first].first_use : 0;
         first < last && u < x->hops[in ? x->in_hops[first] : first].first_use +
                                 x->hops[in ? x->in_hops[first] : first].nuses;
         u++) {
        uint32_t r = x->uses[u].resource, delay = UINT32_MAX, times = UINT32_MAX;
        bool all = true;

        for (uint32_t i = first; i < last && all; i++) {
            const ccl_i_hop_t *hop = &x->hops[in ? x->in_hops[i] : i];

            all = false;
            for (uint32_t v = hop->first_use; v < hop->first_use + hop->nuses; v++) {
                if (x->uses[v].resource != r)
                    continue;
                all = true;
                times = x->uses[v].times < times ? x->uses[v].times : times;
            }
            delay = p->delay[hop - x->hops] < delay ? p->delay[hop - x->hops] : delay;
        }
        if (all)
            least =
                fmin(least, epochs >= delay ? floor(starts(p, r, epochs - delay + 1) / times) : 0);
    }
    return fmin(sum, least);
}

/* Every GPU can send one chunk in an epoch, and it takes one at least: holders double at most. */
static bool one_port(const ccl_i_part_t *p) {
    for (uint32_t g = 0; g < p->n; g++) {
        if (room(p, g, false, 1) > 1)
            return false;
    }
    for (uint32_t r = 0; r < p->x.nresources; r++) {
        if (p->window[r] != 1)
            return false;
    }
    return true;
}

static uint32_t least_epochs(const ccl_i_part_t *p) {
    uint32_t least = 1;

    for (uint32_t a = 0; a < p->n; a++) {
        for (uint32_t b = 0; b < p->n && (p->root == CCL_NONE || p->root == a); b++) {
            uint32_t away = p->away[(size_t)a * p->n + b];

            if (away == CCL_NONE)
                return CCL_NONE;
            least = away > least ? away : least;
        }
    }
    for (uint32_t g = 0; g < p->n; g++) {
        bool root = p->root == g || p->root == CCL_NONE;
        double in =
            p->root == CCL_NONE ? (double)(p->n - 1) * p->chunks : (root ? 0 : (double)p->chunks);

        while (least < CCL_I_MILP_EPOCHS &&
               ((in > 0 && room(p, g, true, least) < in) ||
                (root && p->n > 1 && room(p, g, false, least) < p->chunks)))
            least++;
    }
    if (p->root != CCL_NONE && one_port(p)) {
        uint32_t doublings = 0;

        while ((uint64_t)1 << doublings < p->n)
            doublings++;
        doublings += p->chunks - 1; /* the last chunk leaves the root after all others */
        least = doublings > least ? doublings : least;
    }
    return least;
}

ccl_status_t ccl_i_part_init(const ccl_ctx_t *ctx, ccl_i_part_t *out, const ccl_i_space_t *space,
                             const ccl_i_part_want_t *want, ccl_error_t *err) {
    draft_t d = {.space = space};
    ccl_arena_t arena;
    uint32_t *labels = NULL;
    double fastest_Bps = 0;
    ccl_status_t status = CCL_OK;

    memset(out, 0, sizeof *out);
    ccl_arena_init(&out->arena);
    ccl_arena_init(&arena);
    out->n = want->n;
    out->chunks = want->chunks;
    if (!pick(&d, want, &arena) || !build(&d, want->n, &arena)) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    for (uint32_t h = 0; h < d.nhops; h++)
        fastest_Bps = fmax(fastest_Bps, d.x.hops[h].link_Bps);
    if (!(fastest_Bps > 0)) {
        out->least = CCL_NONE;
        goto end;
    }
    CCL_TRY_GOTO(ccl_i_milp_discretise(&d.x, want->chunk_bytes,
                                       want->epochs * want->chunk_bytes / fastest_Bps, d.delay,
                                       d.window, d.capacity, err),
                 status, end);
    CCL_TRY_GOTO(label(ctx, &d, want->n, want->root == CCL_NONE ? CCL_NONE : d.place[want->root],
                       &labels, err),
                 status, end);
    CCL_TRY_GOTO(renumber(out, &d, want, labels, err), status, end);
    ccl_i_milp_distances(&out->x, out->delay, out->away);
    out->least = least_epochs(out);
    if (!describe(out)) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    status =
        ccl_collective_create(out->root == CCL_NONE ? CCL_ALLGATHER : CCL_BROADCAST, out->n,
                              out->chunks, out->root == CCL_NONE ? 0 : out->root, &out->coll, err);
end:
    free(labels);
    ccl_arena_fini(&arena);
    return status;
}
