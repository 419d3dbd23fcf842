/*
 * Automorphisms of a coloured graph by individualization and refinement (McKay, Piperno 2014,
 * section 2), without backtracking: what is found is checked, what is missed only makes orbits
 * finer.
 */
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"

/* Searches for a symmetry between two orbits before the rest are taken as they are. */
enum { MOST_TRIES = 64 };

/* Arcs of each vertex, both ways, with a colour for direction, capacity and kind. */
typedef struct half {
    uint32_t to, arc;
    uint64_t colour;
} half_t;

typedef struct refiner {
    uint32_t n;
    uint32_t *first; /* [n + 1] */
    half_t *halves;
    uint64_t *kind; /* [n] colour of a vertex */
} refiner_t;

/* An ordered partition: cells are runs of elem. */
typedef struct partition {
    uint32_t *elem, *place; /* [n] */
    uint32_t *start;        /* [n] first place of the vertex's cell */
    uint32_t *len;          /* [n] at a cell's first place: its length */
    uint64_t *sum;          /* [n] scratch: what a vertex sees of the splitter */
    uint8_t *seen;          /* [n] scratch: it sees something */
    uint32_t *touched;      /* [n] scratch */
    uint32_t *queue;        /* ring of cells that may split others */
    uint8_t *queued;        /* [n] by first place */
    uint32_t head, waiting;
    uint32_t ncells;
} partition_t;

static bool partition_init(partition_t *p, ccl_arena_t *arena, uint32_t n) {
    memset(p, 0, sizeof *p);
    p->elem = ccl_arena_alloc(arena, n, sizeof *p->elem);
    p->place = ccl_arena_alloc(arena, n, sizeof *p->place);
    p->start = ccl_arena_alloc(arena, n, sizeof *p->start);
    p->len = ccl_arena_alloc(arena, n, sizeof *p->len);
    p->sum = ccl_arena_alloc(arena, n, sizeof *p->sum);
    p->seen = ccl_arena_alloc(arena, n, sizeof *p->seen);
    p->touched = ccl_arena_alloc(arena, n, sizeof *p->touched);
    p->queue = ccl_arena_alloc(arena, n, sizeof *p->queue);
    p->queued = ccl_arena_alloc(arena, n, sizeof *p->queued);
    return p->elem && p->place && p->start && p->len && p->sum && p->seen && p->touched &&
           p->queue && p->queued;
}

static void enqueue(partition_t *p, uint32_t n, uint32_t cell) {
    if (p->queued[cell])
        return;
    p->queued[cell] = 1;
    p->queue[(p->head + p->waiting++) % n] = cell;
}

typedef struct keyed {
    uint64_t key;
    uint32_t vertex;
} keyed_t;

static int by_key(const void *a, const void *b) {
    const keyed_t *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->vertex < y->vertex ? -1 : x->vertex > y->vertex;
}

/* Split a cell by the vertices' keys, ascending; parts are named by place, so isomorphic inputs
 * give isomorphic cells. */
static void split(partition_t *p, uint32_t n, uint32_t cell, const uint64_t *key,
                  keyed_t *scratch) {
    uint32_t len = p->len[cell];
    bool equal = true;
    for (uint32_t i = 1; i < len && equal; i++)
        equal = key[p->elem[cell + i]] == key[p->elem[cell]];
    if (equal)
        return;
    for (uint32_t i = 0; i < len; i++)
        scratch[i] = (keyed_t){key[p->elem[cell + i]], p->elem[cell + i]};
    qsort(scratch, len, sizeof *scratch, by_key);
    uint32_t begin = 0;
    for (uint32_t i = 0; i < len; i++) {
        if (i > 0 && scratch[i].key != scratch[i - 1].key) {
            p->len[cell + begin] = i - begin;
            begin = i;
            p->ncells++;
        }
        p->elem[cell + i] = scratch[i].vertex;
        p->place[scratch[i].vertex] = cell + i;
        p->start[scratch[i].vertex] = cell + begin;
    }
    p->len[cell + begin] = len - begin;
    for (uint32_t i = 0; i < len; i += p->len[cell + i])
        enqueue(p, n, cell + i);
}

static void refine(const refiner_t *r, partition_t *p, keyed_t *scratch, uint32_t *cells) {
    while (p->waiting > 0) {
        uint32_t cell = p->queue[p->head], ntouched = 0, ncells = 0;
        p->head = (p->head + 1) % r->n;
        p->waiting--;
        p->queued[cell] = 0;
        for (uint32_t i = 0; i < p->len[cell]; i++) {
            uint32_t v = p->elem[cell + i];
            for (uint32_t h = r->first[v]; h < r->first[v + 1]; h++) {
                uint32_t u = r->halves[h].to;
                if (!p->seen[u])
                    p->touched[ntouched++] = u;
                p->seen[u] = 1;
                p->sum[u] += r->halves[h].colour;
            }
        }
        for (uint32_t i = 0; i < ntouched; i++)
            cells[ncells++] = p->start[p->touched[i]];
        /* In order of place, each once. */
        for (uint32_t i = 0; i < ncells; i++)
            scratch[i] = (keyed_t){cells[i], 0};
        qsort(scratch, ncells, sizeof *scratch, by_key);
        uint32_t kept = 0;
        for (uint32_t i = 0; i < ncells; i++) {
            if (i == 0 || scratch[i].key != scratch[i - 1].key)
                cells[kept++] = (uint32_t)scratch[i].key;
        }
        for (uint32_t i = 0; i < kept; i++) {
            if (p->len[cells[i]] > 1)
                split(p, r->n, cells[i], p->sum, scratch);
        }
        for (uint32_t i = 0; i < ntouched; i++) {
            p->sum[p->touched[i]] = 0;
            p->seen[p->touched[i]] = 0;
        }
    }
}

static void individualize(partition_t *p, uint32_t n, uint32_t v) {
    uint32_t cell = p->start[v], len = p->len[cell], at = p->place[v];
    uint32_t other = p->elem[cell];
    p->elem[cell] = v;
    p->place[v] = cell;
    p->elem[at] = other;
    p->place[other] = at;
    p->len[cell] = 1;
    p->len[cell + 1] = len - 1;
    for (uint32_t i = 1; i < len; i++)
        p->start[p->elem[cell + i]] = cell + 1;
    p->ncells++;
    enqueue(p, n, cell);
    enqueue(p, n, cell + 1);
}

static void copy(partition_t *to, const partition_t *from, uint32_t n) {
    memcpy(to->elem, from->elem, n * sizeof *to->elem);
    memcpy(to->place, from->place, n * sizeof *to->place);
    memcpy(to->start, from->start, n * sizeof *to->start);
    memcpy(to->len, from->len, n * sizeof *to->len);
    to->ncells = from->ncells;
    to->head = to->waiting = 0;
}

static uint32_t least(const partition_t *p, uint32_t cell) {
    uint32_t v = p->elem[cell];
    for (uint32_t i = 1; i < p->len[cell]; i++)
        v = p->elem[cell + i] < v ? p->elem[cell + i] : v;
    return v;
}

static int by_place(const void *a, const void *b) {
    const half_t *x = a, *y = b;
    if (x->to != y->to)
        return x->to < y->to ? -1 : 1;
    if (x->colour != y->colour)
        return x->colour < y->colour ? -1 : 1;
    return x->arc < y->arc ? -1 : x->arc > y->arc;
}

typedef struct search {
    refiner_t r;
    partition_t base, a, b;
    keyed_t *scratch;
    uint32_t *cells, *image, *arc_image;
    half_t *mine, *theirs;
    ccl_automorphisms_t *out;
} search_t;

/* Is `image` a symmetry? Fills arc_image. */
static bool check(search_t *s) {
    const refiner_t *r = &s->r;
    for (uint32_t v = 0; v < r->n; v++) {
        uint32_t w = s->image[v], len = r->first[v + 1] - r->first[v];
        if (r->kind[v] != r->kind[w] || r->first[w + 1] - r->first[w] != len)
            return false;
        for (uint32_t i = 0; i < len; i++) {
            s->mine[i] = r->halves[r->first[v] + i];
            s->mine[i].to = s->image[s->mine[i].to];
            s->theirs[i] = r->halves[r->first[w] + i];
        }
        qsort(s->mine, len, sizeof *s->mine, by_place);
        qsort(s->theirs, len, sizeof *s->theirs, by_place);
        for (uint32_t i = 0; i < len; i++) {
            if (s->mine[i].to != s->theirs[i].to || s->mine[i].colour != s->theirs[i].colour)
                return false;
            s->arc_image[s->mine[i].arc] = s->theirs[i].arc;
        }
    }
    return true;
}

/* A symmetry that takes v to w, if the first way tried is one. */
static bool search(search_t *s, uint32_t v, uint32_t w) {
    uint32_t n = s->r.n;
    copy(&s->a, &s->base, n);
    copy(&s->b, &s->base, n);
    for (uint32_t cell = 0;;) {
        individualize(&s->a, n, v);
        individualize(&s->b, n, w);
        refine(&s->r, &s->a, s->scratch, s->cells);
        refine(&s->r, &s->b, s->scratch, s->cells);
        if (s->a.ncells != s->b.ncells)
            return false;
        while (cell < n && s->a.len[cell] == 1 && s->b.len[cell] == 1)
            cell++;
        if (cell == n)
            break;
        if (s->a.len[cell] != s->b.len[cell])
            return false;
        v = least(&s->a, cell);
        w = least(&s->b, cell);
    }
    for (uint32_t i = 0; i < n; i++)
        s->image[s->a.elem[i]] = s->b.elem[i];
    return check(s);
}

static bool keep(search_t *s, const ccl_graph_t *g) {
    ccl_automorphisms_t *out = s->out;
    uint32_t *image = ccl_arena_alloc(&out->arena, s->r.n, sizeof *image);
    if (!image)
        return false;
    memcpy(image, s->image, s->r.n * sizeof *image);
    out->generators[out->ngenerators++] = image;
    for (uint32_t v = 0; v < s->r.n; v++)
        ccl_set_join(out->vertex_orbit, v, image[v]);
    for (uint32_t a = 0; a < g->narcs; a++)
        ccl_set_join(out->arc_orbit, a, s->arc_image[a]);
    return true;
}

static bool build(search_t *s, const ccl_graph_t *g, uint32_t fixed, ccl_arena_t *arena) {
    refiner_t *r = &s->r;
    uint32_t n = g->nvertices;
    r->n = n;
    r->first = ccl_arena_alloc(arena, n + (size_t)1, sizeof *r->first);
    r->halves = ccl_arena_alloc(arena, 2 * (size_t)g->narcs + 1, sizeof *r->halves);
    r->kind = ccl_arena_alloc(arena, n, sizeof *r->kind);
    s->scratch = ccl_arena_alloc(arena, n, sizeof *s->scratch);
    s->cells = ccl_arena_alloc(arena, n, sizeof *s->cells);
    s->image = ccl_arena_alloc(arena, n, sizeof *s->image);
    s->arc_image = ccl_arena_alloc(arena, g->narcs + (size_t)1, sizeof *s->arc_image);
    s->mine = ccl_arena_alloc(arena, 2 * (size_t)g->narcs + 1, sizeof *s->mine);
    s->theirs = ccl_arena_alloc(arena, 2 * (size_t)g->narcs + 1, sizeof *s->theirs);
    if (!r->first || !r->halves || !r->kind || !s->scratch || !s->cells || !s->image ||
        !s->arc_image || !s->mine || !s->theirs || !partition_init(&s->base, arena, n) ||
        !partition_init(&s->a, arena, n) || !partition_init(&s->b, arena, n))
        return false;
    for (uint32_t a = 0; a < g->narcs; a++) {
        r->first[g->ends[a][0] + 1]++;
        r->first[g->ends[a][1] + 1]++;
    }
    for (uint32_t v = 0; v < n; v++)
        r->first[v + 1] += r->first[v];
    for (uint32_t a = 0; a < g->narcs; a++) {
        uint64_t colour = g->arc_colour[a];
        uint32_t from = g->ends[a][0], to = g->ends[a][1];
        r->halves[r->first[from]++] = (half_t){to, a, ccl_mix64(colour)};
        r->halves[r->first[to]++] = (half_t){from, a, ccl_mix64(colour + 1)};
    }
    for (uint32_t v = n; v > 0; v--)
        r->first[v] = r->first[v - 1];
    r->first[0] = 0;
    for (uint32_t v = 0; v < n; v++) {
        r->kind[v] = g->vertex_colour[v] | (uint64_t)(v == fixed) << 63;
        s->base.elem[v] = s->base.place[v] = v;
    }
    s->base.len[0] = n;
    s->base.ncells = 1;
    enqueue(&s->base, n, 0);
    split(&s->base, n, 0, r->kind, s->scratch);
    refine(r, &s->base, s->scratch, s->cells);
    return true;
}

ccl_status_t ccl_automorphisms_find(const ccl_graph_t *g, uint32_t fixed, ccl_automorphisms_t *out,
                                    ccl_error_t *err) {
    ccl_arena_t arena;
    search_t s = {.out = out};
    uint32_t n = g->nvertices, failures = 0;
    ccl_status_t status = CCL_OK;
    memset(out, 0, sizeof *out);
    ccl_arena_init(&out->arena);
    ccl_arena_init(&arena);
    out->vertex_orbit = ccl_arena_alloc(&out->arena, n, sizeof *out->vertex_orbit);
    out->arc_orbit = ccl_arena_alloc(&out->arena, g->narcs + (size_t)1, sizeof *out->arc_orbit);
    out->generators = ccl_arena_alloc(&out->arena, n, sizeof *out->generators);
    if (!out->vertex_orbit || !out->arc_orbit || !out->generators || !build(&s, g, fixed, &arena)) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    for (uint32_t v = 0; v < n; v++)
        out->vertex_orbit[v] = v;
    for (uint32_t a = 0; a < g->narcs; a++)
        out->arc_orbit[a] = a;
    /* From the least vertex of a cell to the last one not yet in its orbit: the image takes the
     * least that is left each time, so that one symmetry turns all equal parts round. */
    for (uint32_t cell = 0; cell < n && failures < MOST_TRIES; cell += s.base.len[cell]) {
        uint32_t v = least(&s.base, cell);
        for (uint32_t i = s.base.len[cell]; i-- > 0 && failures < MOST_TRIES;) {
            uint32_t w = s.base.elem[cell + i];
            if (ccl_set_find(out->vertex_orbit, v) == ccl_set_find(out->vertex_orbit, w))
                continue;
            if (!search(&s, v, w))
                failures++;
            else if (!keep(&s, g)) {
                status = ccl_fail_nomem(err);
                goto end;
            }
        }
    }
    for (uint32_t v = 0; v < n; v++)
        out->vertex_orbit[v] = ccl_set_find(out->vertex_orbit, v);
    for (uint32_t a = 0; a < g->narcs; a++)
        out->arc_orbit[a] = ccl_set_find(out->arc_orbit, a);
end:
    ccl_arena_fini(&arena);
    if (status != CCL_OK)
        ccl_automorphisms_fini(out);
    return status;
}

void ccl_automorphisms_fini(ccl_automorphisms_t *symmetry) {
    ccl_arena_fini(&symmetry->arena);
    memset(symmetry, 0, sizeof *symmetry);
}

/* ---------------------------------------------------------------- shifts */

struct ccl_shift_search {
    search_t s;
    const ccl_graph_t *g;
    ccl_arena_t arena;
};

ccl_status_t ccl_shift_search_create(const ccl_graph_t *graph, ccl_shift_search_t **out,
                                     ccl_error_t *err) {
    ccl_shift_search_t *x = calloc(1, sizeof *x);
    if (!x)
        return ccl_fail_nomem(err);
    x->g = graph;
    ccl_arena_init(&x->arena);
    if (!build(&x->s, graph, CCL_NONE, &x->arena)) {
        ccl_shift_search_destroy(x);
        return ccl_fail_nomem(err);
    }
    *out = x;
    return CCL_OK;
}

void ccl_shift_search_destroy(ccl_shift_search_t *x) {
    if (!x)
        return;
    ccl_arena_fini(&x->arena);
    free(x);
}

/* The next vertex that has a choice, those with a place first; CCL_NONE: all are settled. */
static uint32_t next_vertex(const ccl_shift_search_t *x, uint32_t *place) {
    const ccl_graph_t *g = x->g;
    const partition_t *a = &x->s.a;
    for (; *place < g->nplaces; (*place)++) {
        if (a->len[a->start[g->vertex_at[*place]]] > 1)
            return g->vertex_at[*place];
    }
    for (uint32_t v = 0; v < x->s.r.n; v++) {
        if (a->len[a->start[v]] > 1)
            return v;
    }
    return CCL_NONE;
}

/* Of a cell the vertex nearest above `place`, round the end; the least where one has no place. */
static uint32_t nearest(const ccl_shift_search_t *x, uint32_t cell, uint32_t place) {
    const ccl_graph_t *g = x->g;
    const partition_t *b = &x->s.b;
    uint32_t best = CCL_NONE, distance = CCL_NONE;
    for (uint32_t i = 0; i < b->len[cell]; i++) {
        uint32_t v = b->elem[cell + i];
        if (g->place_of[v] == CCL_NONE)
            return least(b, cell);
        uint32_t d = (g->place_of[v] + 2 * g->nplaces - place) % g->nplaces;
        if (best == CCL_NONE || d < distance) {
            best = v;
            distance = d;
        }
    }
    return best;
}

bool ccl_shift_search_run(ccl_shift_search_t *x, uint32_t from, uint32_t to, uint32_t *vertex_out,
                          uint32_t *arc_out) {
    search_t *s = &x->s;
    const ccl_graph_t *g = x->g;
    uint32_t n = s->r.n, shift = (to + g->nplaces - from) % g->nplaces, place = 0;
    uint32_t v = g->vertex_at[from], w = g->vertex_at[to];
    copy(&s->a, &s->base, n);
    copy(&s->b, &s->base, n);
    while (v != CCL_NONE) {
        uint32_t cell = s->a.start[v];
        if (s->b.start[w] != cell || s->a.len[cell] != s->b.len[cell])
            return false;
        if (s->a.len[cell] > 1) {
            individualize(&s->a, n, v);
            individualize(&s->b, n, w);
            refine(&s->r, &s->a, s->scratch, s->cells);
            refine(&s->r, &s->b, s->scratch, s->cells);
        }
        if (s->a.ncells != s->b.ncells)
            return false;
        v = next_vertex(x, &place);
        if (v != CCL_NONE) {
            uint32_t at = g->place_of[v] != CCL_NONE ? g->place_of[v] : 0;
            w = nearest(x, s->a.start[v], at + shift);
        }
    }
    for (uint32_t i = 0; i < n; i++)
        s->image[s->a.elem[i]] = s->b.elem[i];
    if (!check(s))
        return false;
    memcpy(vertex_out, s->image, n * sizeof *vertex_out);
    memcpy(arc_out, s->arc_image, x->g->narcs * sizeof *arc_out);
    return true;
}
