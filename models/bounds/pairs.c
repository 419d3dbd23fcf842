/*
 * Bounds where each two ranks exchange a block of their own (AllToAll, SendRecv).
 *
 * For any lengths of the links, sum of bytes times distance over sum of capacity times length is a
 * bound on the time, and the best lengths make it exact (the dual of the flow program, aggregated
 * by source). The lengths come from a program whose columns are ways of routing all that one source
 * sends, made when they are wanted; they are then rounded to whole numbers and the bound is
 * computed from these exactly, so that no rounding of the program's can make it wrong. Sources and
 * links that are symmetric share variables. Cuts around single GPUs and servers are tried too.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/bounds/bounds.h"

/* Beyond this many variables cuts alone: a program without symmetry takes tens of seconds there. */
enum { MOST_ROWS = 700, MOST_ROWS_PLAIN = 260 };
enum { MOST_ROUNDS = 4000, LENGTH_BITS = 28, FEW_RANKS = 6 };
#define LIMIT_S 45.0
#define TIGHT 1e-7

typedef struct heap_item {
    double distance;
    uint32_t vertex;
} heap_item_t;

typedef struct pairs {
    const ccl_capacity_t *c;
    const ccl_bound_demand_t *demand;
    uint32_t n, nv;
    ccl_automorphisms_t symmetry;
    bool have_symmetry;
    uint32_t nsources, nlengths; /* classes */
    uint32_t *source, *count;    /* [nsources] rank; ranks it stands for */
    uint32_t *arc_class;         /* [narcs] */
    double *capacity;            /* [nlengths] units of all arcs of the class */
    double widest;
    double *length;                    /* [nlengths] */
    uint32_t *first, *arcs;            /* by tail */
    double *distance, *through, *load; /* [nv], [nv], [nlengths] */
    uint32_t *order, *place;
    heap_item_t *heap;
    size_t heap_len, heap_cap;
    ccl_arena_t arena;
} pairs_t;

static uint32_t wanted(const pairs_t *p, uint32_t s, uint32_t d) {
    if (p->demand->pairs)
        return p->demand->reversed ? p->demand->pairs[(size_t)d * p->n + s]
                                   : p->demand->pairs[(size_t)s * p->n + d];
    return s != d;
}

#define NEARER(x_, a_, b_) ((a_).distance < (b_).distance)
CCL_HEAP(heap, heap_item_t, void *, NEARER, CCL_HEAP_PUT)

static bool push(pairs_t *p, double distance, uint32_t vertex) {
    if (!ccl_grow(&p->heap, &p->heap_cap, p->heap_len + 1, sizeof *p->heap))
        return false;
    heap_push(NULL, p->heap, p->heap_len++, (heap_item_t){distance, vertex});
    return true;
}

static heap_item_t pop(pairs_t *p) {
    return heap_pop(NULL, p->heap, p->heap_len--);
}

static uint32_t tail(const pairs_t *p, uint32_t a) {
    return p->demand->reversed ? p->c->arcs[a].to : p->c->arcs[a].from;
}
static uint32_t headof(const pairs_t *p, uint32_t a) {
    return p->demand->reversed ? p->c->arcs[a].from : p->c->arcs[a].to;
}

/* Distances from a rank, vertices in order of distance. */
static bool distances(pairs_t *p, uint32_t rank) {
    uint32_t norder = 0;
    for (uint32_t v = 0; v < p->nv; v++) {
        p->distance[v] = INFINITY;
        p->place[v] = CCL_NONE;
    }
    uint32_t s = p->c->topo->rank_device[rank];
    p->distance[s] = 0;
    p->heap_len = 0;
    if (!push(p, 0, s))
        return false;
    while (p->heap_len > 0) {
        heap_item_t item = pop(p);
        if (p->place[item.vertex] != CCL_NONE)
            continue;
        p->place[item.vertex] = norder;
        p->order[norder++] = item.vertex;
        for (uint32_t i = p->first[item.vertex]; i < p->first[item.vertex + 1]; i++) {
            uint32_t a = p->arcs[i], v = headof(p, a);
            double d = item.distance + p->length[p->arc_class[a]];
            if (d < p->distance[v]) {
                p->distance[v] = d;
                if (!push(p, d, v))
                    return false;
            }
        }
    }
    p->order[p->nv] = norder;
    return true;
}

/* Route all that a rank sends over its shortest ways, equal ones alike; returns bytes x distance.
 */
static double route(pairs_t *p, uint32_t rank) {
    double cost = 0;
    memset(p->load, 0, p->nlengths * sizeof *p->load);
    memset(p->through, 0, p->nv * sizeof *p->through);
    for (uint32_t d = 0; d < p->n; d++) {
        uint32_t v = p->c->topo->rank_device[d];
        if (d != rank && wanted(p, rank, d)) {
            p->through[v] += wanted(p, rank, d);
            cost += wanted(p, rank, d) * p->distance[v];
        }
    }
    /* Arcs into v that are on shortest ways from vertices before it. `into` is by scanning arcs of
     * the tails, so count first. */
    for (uint32_t i = p->order[p->nv]; i-- > 1;) {
        uint32_t v = p->order[i], ways = 0;
        if (p->through[v] == 0)
            continue;
        for (int pass = 0; pass < 2; pass++) {
            for (uint32_t k = p->first[p->nv + 1 + v]; k < p->first[p->nv + 2 + v]; k++) {
                uint32_t a = p->arcs[k], u = tail(p, a);
                if (p->place[u] == CCL_NONE || p->place[u] >= i ||
                    p->distance[u] + p->length[p->arc_class[a]] >
                        p->distance[v] * (1 + 1e-12) + 1e-15)
                    continue;
                if (pass == 0) {
                    ways++;
                } else {
                    p->through[u] += p->through[v] / ways;
                    p->load[p->arc_class[a]] += p->through[v] / ways;
                }
            }
        }
    }
    return cost;
}

/* Sources and lengths that are alike by symmetry are one. @param class_of  [nv + narcs] scratch */
static void find_classes(pairs_t *p, uint32_t *class_of) {
    const ccl_capacity_t *c = p->c;
    size_t n = p->n, nv = p->nv, na = c->narcs;
    memset(class_of, 0xff, (nv + na) * sizeof *class_of);
    for (uint32_t r = 0; r < n; r++) {
        uint32_t v = c->topo->rank_device[r];
        uint32_t orbit = p->have_symmetry ? p->symmetry.vertex_orbit[v] : v;
        if (class_of[orbit] == CCL_NONE) {
            class_of[orbit] = p->nsources;
            p->source[p->nsources++] = r;
        }
        p->count[class_of[orbit]]++;
    }
    for (uint32_t a = 0; a < na; a++) {
        uint32_t orbit = p->have_symmetry ? p->symmetry.arc_orbit[a] : a;
        if (class_of[nv + orbit] == CCL_NONE)
            class_of[nv + orbit] = p->nlengths++;
        p->arc_class[a] = class_of[nv + orbit];
        p->capacity[p->arc_class[a]] += (double)c->arcs[a].units;
        p->widest = fmax(p->widest, (double)c->arcs[a].units);
    }
}

static ccl_status_t sort_arcs(pairs_t *p, ccl_error_t *err) {
    size_t nv = p->nv, na = p->c->narcs;
    /* Arcs by tail, then by head. */
    for (uint32_t a = 0; a < na; a++) {
        p->first[tail(p, a) + 1]++;
        p->first[nv + 1 + headof(p, a) + 1]++;
    }
    p->first[nv + 1] = 0;
    for (uint32_t v = 0; v < nv; v++)
        p->first[v + 1] += p->first[v];
    p->first[nv + 1] = (uint32_t)na;
    for (uint32_t v = 0; v < nv; v++)
        p->first[nv + 2 + v] += p->first[nv + 1 + v];
    uint32_t *at = ccl_arena_alloc(&p->arena, 2 * nv + 3, sizeof *at);
    if (!at)
        return ccl_fail_nomem(err);
    memcpy(at, p->first, (2 * nv + 3) * sizeof *at);
    for (uint32_t a = 0; a < na; a++) {
        p->arcs[at[tail(p, a)]++] = a;
        p->arcs[at[nv + 1 + headof(p, a)]++] = a;
    }
    return CCL_OK;
}

static ccl_status_t prepare(pairs_t *p, ccl_error_t *err) {
    const ccl_capacity_t *c = p->c;
    ccl_arena_t *arena = &p->arena;
    size_t n = p->n, nv = p->nv, na = c->narcs;
    p->source = ccl_arena_alloc(arena, n, sizeof *p->source);
    p->count = ccl_arena_alloc(arena, n, sizeof *p->count);
    p->arc_class = ccl_arena_alloc(arena, na + 1, sizeof *p->arc_class);
    p->capacity = ccl_arena_alloc(arena, na + 1, sizeof *p->capacity);
    p->length = ccl_arena_alloc(arena, na + 1, sizeof *p->length);
    p->load = ccl_arena_alloc(arena, na + 1, sizeof *p->load);
    p->first = ccl_arena_alloc(arena, 2 * nv + 3, sizeof *p->first);
    p->arcs = ccl_arena_alloc(arena, 2 * na + 1, sizeof *p->arcs);
    p->distance = ccl_arena_alloc(arena, nv, sizeof *p->distance);
    p->through = ccl_arena_alloc(arena, nv, sizeof *p->through);
    p->order = ccl_arena_alloc(arena, nv + 1, sizeof *p->order);
    p->place = ccl_arena_alloc(arena, nv, sizeof *p->place);
    uint32_t *class_of = ccl_arena_alloc(arena, nv + na + 1, sizeof *class_of);
    if (!p->source || !p->count || !p->arc_class || !p->capacity || !p->length || !p->load ||
        !p->first || !p->arcs || !p->distance || !p->through || !p->order || !p->place || !class_of)
        return ccl_fail_nomem(err);
    if (!p->demand->pairs && p->n >= FEW_RANKS && c->nleft_groups == 0) {
        CCL_TRY(ccl_automorphisms_find(&c->graph, CCL_NONE, &p->symmetry, err));
        p->have_symmetry = true;
    }
    find_classes(p, class_of);
    return sort_arcs(p, err);
}

/* Whole lengths: a small multiple that fits, else many bits. */
static void round_lengths(pairs_t *p, const double *length) {
    double most = 0;
    for (uint32_t k = 0; k < p->nlengths; k++)
        most = fmax(most, length[k]);
    for (uint32_t m = 1; m <= 360; m++) {
        bool fits = true;
        for (uint32_t k = 0; k < p->nlengths && fits; k++) {
            double x = length[k] / most * m;
            fits = fabs(x - round(x)) < 1e-6;
        }
        if (fits) {
            for (uint32_t k = 0; k < p->nlengths; k++)
                p->length[k] = round(length[k] / most * m);
            return;
        }
    }
    for (uint32_t k = 0; k < p->nlengths; k++)
        p->length[k] = round(length[k] / most * (1 << LENGTH_BITS));
}

static uint64_t gcd64(uint64_t a, uint64_t b) {
    while (b) {
        uint64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

/* The bound that lengths prove, in whole numbers. False: out of memory or out of range. */
static bool exact_bound(pairs_t *p, uint64_t *units_out, uint64_t *moved_out) {
    unsigned __int128 width = 0, moved = 0;
    for (uint32_t a = 0; a < p->c->narcs; a++)
        width +=
            (unsigned __int128)(uint64_t)p->c->arcs[a].units * (uint64_t)p->length[p->arc_class[a]];
    for (uint32_t k = 0; k < p->nsources; k++) {
        unsigned __int128 sum = 0;
        if (!distances(p, p->source[k]))
            return false;
        for (uint32_t d = 0; d < p->n; d++) {
            if (d != p->source[k] && wanted(p, p->source[k], d))
                sum += (unsigned __int128)wanted(p, p->source[k], d) *
                       (uint64_t)p->distance[p->c->topo->rank_device[d]];
        }
        moved += sum * p->count[k];
    }
    /* Rounded towards the weaker bound until both fit. */
    uint32_t lost = 0;
    while (width >> 62 || moved >> 62) {
        width = (width + 1) >> 1;
        moved >>= 1;
        lost++;
    }
    if (moved == 0 || width == 0)
        return false;
    uint64_t g = gcd64((uint64_t)width, (uint64_t)moved);
    *units_out = (uint64_t)width / g;
    *moved_out = (uint64_t)moved / g;
    return true;
}

typedef struct best {
    double *length; /* [nlengths] */
    double bound;   /* time in parts per unit */
} best_t;

/* The program before any way is in it: slack of each length, and the value. @param entries  room
   for a column. @return NULL: out of memory */
static ccl_lp_t *start_program(const pairs_t *p, double *entries) {
    uint32_t rows = p->nlengths + p->nsources;
    for (uint32_t k = 0; k < rows; k++)
        entries[k] = k >= p->nlengths;
    ccl_lp_t *lp = ccl_lp_create(rows, entries, 100);
    bool ok = lp != NULL;
    memset(entries, 0, rows * sizeof *entries);
    for (uint32_t k = 0; k < p->nlengths && ok; k++) {
        entries[k] = 1;
        ok = ccl_lp_column(lp, 0, entries) != CCL_NONE;
        entries[k] = 0;
    }
    for (uint32_t k = 0; k < p->nlengths; k++)
        entries[k] = -p->capacity[k] / p->widest;
    if (ok && ccl_lp_column(lp, 1, entries) != CCL_NONE)
        return lp;
    ccl_lp_destroy(lp);
    return NULL;
}

/* Column generation; the best lengths seen stay in best. False: out of memory. */
static bool solve(pairs_t *p, const ccl_ctx_t *ctx, best_t *best, bool *optimal, double *value) {
    uint32_t rows = p->nlengths + p->nsources;
    double *entries = calloc(rows, sizeof *entries);
    double start = ccl_now_s(), scale = 0;
    ccl_lp_t *lp = NULL;
    bool ok = entries != NULL;
    *optimal = false;
    for (uint32_t k = 0; k < p->nlengths; k++)
        p->length[k] = p->widest / (p->capacity[k] > 0 ? p->capacity[k] : 1);
    /* Loads are scaled to about 1, capacities by their mean. */
    for (uint32_t k = 0; k < p->nsources && ok; k++) {
        ok = distances(p, p->source[k]);
        scale += ok ? route(p, p->source[k]) * p->count[k] : 0;
    }
    scale = scale > 0 ? scale : 1;
    if (ok)
        lp = start_program(p, entries);
    ok = lp != NULL;
    for (uint32_t round = 0; ok && round < MOST_ROUNDS; round++) {
        double bound = 0, width = 0;
        bool more = false;
        for (uint32_t k = 0; k < p->nlengths; k++)
            width += p->length[k] * p->capacity[k] / p->widest;
        const double *duals = ccl_lp_duals(lp);
        for (uint32_t k = 0; k < p->nsources && ok; k++) {
            ok = distances(p, p->source[k]);
            if (!ok)
                break;
            double cost = route(p, p->source[k]) * p->count[k] / scale;
            bound += cost;
            if (round > 0 && cost >= duals[p->nlengths + k] - 1e-11)
                continue;
            for (uint32_t i = 0; i < p->nlengths; i++)
                entries[i] = p->load[i] * p->count[k] / scale;
            for (uint32_t i = 0; i < p->nsources; i++)
                entries[p->nlengths + i] = i == k;
            ok = ccl_lp_column(lp, 0, entries) != CCL_NONE;
            more = true;
        }
        if (ok && width > 0 && bound / width > best->bound) {
            best->bound = bound / width;
            memcpy(best->length, p->length, p->nlengths * sizeof *best->length);
        }
        double reached = round > 0 ? ccl_lp_value(lp) : INFINITY;
        *value = reached * scale / p->widest;
        if (!more || best->bound >= reached * (1 - 1e-10)) {
            *optimal = true;
            break;
        }
        if (ccl_now_s() - start > LIMIT_S || ccl_ctx_poll(ctx, NULL) != CCL_OK || !ccl_lp_solve(lp))
            break;
        for (uint32_t k = 0; k < p->nlengths; k++)
            p->length[k] = fmax(0, -ccl_lp_duals(lp)[k]);
    }
    ccl_lp_destroy(lp);
    free(entries);
    return ok;
}

/* Cuts around single GPUs and servers, both ways. */
static ccl_status_t by_cuts(const pairs_t *p, ccl_bandwidth_bound_t *out, ccl_error_t *err) {
    const ccl_topology_t *topo = p->c->topo;
    uint8_t *from = calloc(2 * (size_t)p->n, 1), *to = from ? from + p->n : NULL;
    double best = out->Bps;
    ccl_status_t status = CCL_OK;
    if (!from)
        return ccl_fail_nomem(err);
    for (int turn = 0; turn < 2 && status == CCL_OK; turn++) {
        ccl_i_cutter_t k;
        bool reversed = p->demand->reversed != (turn == 1);
        CCL_TRY_GOTO(ccl_i_cutter_init(&k, p->c, reversed, err), status, end);
        for (uint32_t set = 0; set < p->nsources + topo->nservers && status == CCL_OK; set++) {
            uint64_t moved = 0;
            uint32_t inside = 0;
            for (uint32_t r = 0; r < p->n; r++) {
                from[r] = set < p->nsources
                              ? r == p->source[set]
                              : topo->devices[topo->rank_device[r]].server == set - p->nsources;
                to[r] = !from[r];
                inside += from[r];
            }
            if (inside == 0 || inside == p->n)
                continue;
            for (uint32_t s = 0; s < p->n; s++) {
                for (uint32_t d = 0; from[s] && d < p->n; d++)
                    moved += to[d] ? turn ? wanted(p, d, s) : wanted(p, s, d) : 0;
            }
            if (moved == 0)
                continue;
            int64_t units = ccl_i_cut_between(&k, from, to);
            if (units < 0) {
                status = ccl_fail_nomem(err);
                break;
            }
            units = ccl_i_cut_units(&k, k.side);
            ccl_bandwidth_bound_t rate = {0};
            ccl_i_bound_rate(p->c, p->demand->parts, (uint64_t)units, moved, &rate);
            if (rate.Bps < best * (1 - 1e-12)) {
                best = out->Bps = rate.Bps;
                out->exact_Bps = rate.exact_Bps;
                out->proof = CCL_BOUND_CUT;
                out->tight = false;
                out->nlinks = 0;
                status = ccl_i_bound_witness(p->c, reversed, k.side, out, err);
            }
        }
        ccl_i_cutter_fini(&k);
    }
end:
    free(from);
    return status;
}

ccl_status_t ccl_i_bound_pairs(const ccl_ctx_t *ctx, const ccl_capacity_t *c,
                               const ccl_bound_demand_t *demand, ccl_bandwidth_bound_t *out,
                               ccl_error_t *err) {
    pairs_t p = {.c = c, .demand = demand, .n = c->topo->nranks, .nv = c->nvertices};
    best_t best = {NULL, 0};
    bool optimal = false, any = false;
    double value = 0;
    uint64_t units = 0, moved = 0;
    ccl_arena_init(&p.arena);
    ccl_status_t status = prepare(&p, err);
    if (status != CCL_OK)
        goto end;
    for (uint32_t s = 0; s < p.n && !any; s++) {
        for (uint32_t d = 0; d < p.n && !any; d++)
            any = s != d && wanted(&p, s, d) > 0;
    }
    if (!any)
        goto end;
    if (p.nlengths + p.nsources <= (p.have_symmetry ? MOST_ROWS : MOST_ROWS_PLAIN)) {
        best.length = ccl_arena_alloc(&p.arena, p.nlengths, sizeof *best.length);
        if (!best.length || !solve(&p, ctx, &best, &optimal, &value)) {
            status = ccl_fail_nomem(err);
            goto end;
        }
        CCL_TRY_GOTO(ccl_ctx_poll(ctx, NULL), status, end);
        round_lengths(&p, best.length);
        if (exact_bound(&p, &units, &moved)) {
            out->proof = CCL_BOUND_LENGTHS;
            ccl_i_bound_rate(c, demand->parts, units, moved, out);
            out->tight = optimal && c->exact && c->nleft_groups == 0 &&
                         (double)moved / (double)units >= value * (1 - TIGHT);
            out->links =
                ccl_arena_alloc(&out->arena, c->topo->nlinks + (size_t)1, sizeof *out->links);
            size_t n = c->topo->nlinks + (size_t)c->topo->ngroups;
            out->lengths = ccl_arena_alloc(&out->arena, n + 1, sizeof *out->lengths);
            if (!out->links || !out->lengths) {
                status = ccl_fail_nomem(err);
                goto end;
            }
            out->distance = 0;
            for (size_t i = 0; i < n; i++)
                out->lengths[i] = 0;
            for (uint32_t a = 0; a < c->narcs; a++) {
                const ccl_capacity_arc_t *arc = &c->arcs[a];
                out->lengths[arc->link != CCL_NONE ? arc->link : c->topo->nlinks + arc->group] =
                    p.length[p.arc_class[a]];
                out->distance +=
                    (double)arc->units * p.length[p.arc_class[a]] * (double)moved / (double)units;
                if (c->arcs[a].link != CCL_NONE && p.length[p.arc_class[a]] > 0)
                    out->links[out->nlinks++] = c->arcs[a].link;
            }
        }
    }
    if (!out->tight)
        status = by_cuts(&p, out, err);
end:
    free(p.heap);
    if (p.have_symmetry)
        ccl_automorphisms_fini(&p.symmetry);
    ccl_arena_fini(&p.arena);
    return status;
}
