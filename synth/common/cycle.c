/*
 * Hamiltonian paths and cycles. Widest first: for every edge weight, from the widest down, a
 * depth-first search over edges at least that wide, with a budget. It goes first where fewest ways
 * lead on (Warnsdorff) unless the graph is so dense that any order works (Dirac). Closed cycles of
 * sparse graphs (meshes, tori) also grow by insertion: an edge u-v of the cycle becomes u-x-v or
 * u-x-y-v.
 */
#include "synth/common/cycle.h"

#include <stdlib.h>
#include <string.h>

#define CYCLE_RESTARTS 24
#define PATH_RESTARTS 4

typedef struct search {
    const ccl_i_graph_t *g;
    uint32_t *adj_first, *adj; /* neighbours over edges >= threshold */
    uint8_t *used;
    uint32_t *path;
    uint32_t *order; /* [m][m] candidates per depth */
    uint32_t start, end;
    double threshold;
    bool cycle, dense;
    uint64_t budget;
    ccl_rng_t rng;
    bool shuffle;
} search_t;

static double weight(const ccl_i_graph_t *g, uint32_t a, uint32_t b) {
    return g->weight[(size_t)a * g->m + b];
}

static void make_adjacency(search_t *s, double threshold) {
    s->threshold = threshold;
    uint32_t m = s->g->m, at = 0, least = m;
    for (uint32_t a = 0; a < m; a++) {
        s->adj_first[a] = at;
        for (uint32_t i = 1; i < m; i++) { /* the next rank first: natural orders */
            uint32_t b = (a + i) % m;
            if (weight(s->g, a, b) >= threshold)
                s->adj[at++] = b;
        }
        least = at - s->adj_first[a] < least ? at - s->adj_first[a] : least;
    }
    s->adj_first[m] = at;
    s->dense = least >= m / 2 + 1;
}

static uint32_t ways_on(const search_t *s, uint32_t v) {
    uint32_t n = 0;
    for (uint32_t i = s->adj_first[v]; i < s->adj_first[v + 1]; i++)
        n += !s->used[s->adj[i]];
    return n;
}

/* Candidates after path[depth - 1], best first; their number. */
static uint32_t candidates(search_t *s, uint32_t depth, uint32_t *out) {
    uint32_t u = s->path[depth - 1], m = s->g->m, n = 0;
    for (uint32_t i = s->adj_first[u]; i < s->adj_first[u + 1]; i++) {
        uint32_t v = s->adj[i];
        if (!s->used[v] && (v != s->end || s->cycle || depth == m - 1))
            out[n++] = v;
    }
    if (s->dense)
        return n;
    if (s->shuffle) {
        for (uint32_t i = n; i > 1; i--) {
            uint32_t j = ccl_rng_below(&s->rng, i), t = out[i - 1];
            out[i - 1] = out[j];
            out[j] = t;
        }
    }
    for (uint32_t i = 1; i < n; i++) { /* insertion sort: stable */
        uint32_t v = out[i], w = ways_on(s, v), j = i;
        for (; j > 0 && ways_on(s, out[j - 1]) > w; j--)
            out[j] = out[j - 1];
        out[j] = v;
    }
    return n;
}

/* Whether the start reaches every node (backward: every node the start). */
static bool all_reached(search_t *s, bool backward) {
    uint32_t m = s->g->m, n = 0, *queue = s->order;
    memset(s->used, 0, m);
    queue[n++] = s->start;
    s->used[s->start] = 1;
    for (uint32_t head = 0; head < n; head++) {
        uint32_t u = queue[head];
        for (uint32_t v = 0; v < m; v++) {
            double w = backward ? weight(s->g, v, u) : weight(s->g, u, v);
            if (!s->used[v] && w >= s->threshold) {
                s->used[v] = 1;
                queue[n++] = v;
            }
        }
    }
    return n == m;
}

static bool closes(const search_t *s) {
    return !s->cycle || s->g->m < 2 ||
           weight(s->g, s->path[s->g->m - 1], s->path[0]) >= s->threshold;
}

static bool search_run(search_t *s, uint32_t *count, uint32_t *at) {
    uint32_t m = s->g->m, depth = 1;
    memset(s->used, 0, m);
    s->path[0] = s->start;
    s->used[s->start] = 1;
    if (m == 1)
        return true;
    count[1] = candidates(s, 1, s->order + m);
    at[1] = 0;
    while (depth > 0) {
        if (at[depth] == count[depth]) {
            s->used[s->path[--depth]] = 0;
            continue;
        }
        if (s->budget-- == 0)
            return false;
        uint32_t v = s->order[(size_t)depth * m + at[depth]++];
        s->path[depth] = v;
        if (depth + 1 == m) {
            if (closes(s))
                return true;
            continue;
        }
        s->used[v] = 1;
        depth++;
        count[depth] = candidates(s, depth, s->order + (size_t)depth * m);
        at[depth] = 0;
    }
    return false;
}

static int widest_first(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x > y ? -1 : x < y;
}

/* Distinct weights, widest first; equal to 1e-9 is equal. */
static uint32_t thresholds(const ccl_i_graph_t *g, double *out) {
    uint32_t n = 0, m = g->m, kept = 0;
    for (uint32_t i = 0; i < m * m; i++) {
        if (g->weight[i] > 0)
            out[n++] = g->weight[i];
    }
    qsort(out, n, sizeof *out, widest_first);
    for (uint32_t i = 0; i < n; i++) {
        if (kept == 0 || out[i] < out[kept - 1] * (1 - 1e-9))
            out[kept++] = out[i];
        else
            out[kept - 1] = out[i];
    }
    return kept;
}

static double narrowest(const ccl_i_graph_t *g, const uint32_t *path, bool cycle) {
    double least = 0;
    for (uint32_t i = 0; i + 1 < g->m + (cycle ? 1 : 0); i++) {
        double w = weight(g, path[i], path[(i + 1) % g->m]);
        least = i == 0 || w < least ? w : least;
    }
    return least;
}

/* A path or cycle of hops at least this wide, by one of some starts. @param walk  room for a walk
   @param count  room of the search */
static ccl_status_t try_width(search_t *s, double width, bool shuffle, uint32_t *walk,
                              uint32_t *count, bool *found, ccl_error_t *err) {
    uint32_t m = s->g->m;
    *found = false;
    for (uint32_t restart = 0; restart < (s->cycle ? CYCLE_RESTARTS : PATH_RESTARTS) && !*found;
         restart++) {
        s->shuffle = restart > 0 || shuffle;
        if (s->cycle && restart % 3 == 2) {
            uint32_t len = 0;
            CCL_TRY(ccl_i_walk_find(s->g, width, ccl_rng_next(&s->rng) | 1, walk, &len, err));
            if (len == m) {
                memcpy(s->path, walk, m * sizeof *walk);
                *found = true;
            }
            continue;
        }
        s->budget = 40 * (uint64_t)m + 400;
        *found = search_run(s, count, count + m + 2);
        if (s->dense && !*found)
            break;
    }
    return CCL_OK;
}

ccl_status_t ccl_i_path_find(const ccl_i_graph_t *g, const ccl_i_path_want_t *want, uint32_t *path,
                             double *bottleneck_out, ccl_error_t *err) {
    bool cycle = want->cycle;
    uint32_t m = g->m;
    size_t mm = (size_t)m * m;
    search_t s = {.g = g, .start = want->start, .end = want->end, .cycle = cycle, .path = path};
    double *widths = malloc((mm + 1) * sizeof *widths);
    uint32_t *walk = malloc(2 * (size_t)m * sizeof *walk);
    uint32_t *count = calloc(2 * ((size_t)m + 2), sizeof *count);
    s.adj_first = malloc((m + (size_t)1) * sizeof *s.adj_first);
    s.adj = malloc((mm + 1) * sizeof *s.adj);
    s.order = malloc((mm + m) * sizeof *s.order);
    s.used = malloc(m);
    ccl_status_t status = CCL_OK;
    *bottleneck_out = 0;
    if (!widths || !walk || !count || !s.adj_first || !s.adj || !s.order || !s.used) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    uint32_t nwidths = thresholds(g, widths);
    ccl_rng_init(&s.rng, want->variant + 1);
    for (uint32_t i = 0; i < nwidths; i++) {
        if (widths[i] > want->most * (1 + 1e-9))
            continue;
        make_adjacency(&s, widths[i]);
        if (!all_reached(&s, false) || (cycle && !all_reached(&s, true)))
            continue; /* no path this wide */
        bool found;
        CCL_TRY_GOTO(try_width(&s, widths[i], want->variant > 0, walk, count, &found, err), status,
                     end);
        if (found) {
            *bottleneck_out = m > 1 ? narrowest(g, path, cycle) : widths[i];
            break;
        }
    }
    if (m == 1)
        path[0] = want->start;
end:
    free(widths);
    free(walk);
    free(count);
    free(s.adj_first);
    free(s.adj);
    free(s.order);
    free(s.used);
    return status;
}

/* ---------------------------------------------------------------- growing a closed walk */

typedef struct grow {
    const ccl_i_graph_t *g;
    double threshold;
    uint32_t *next; /* cycle as a linked list */
    uint8_t *in;
    ccl_rng_t rng;
} grow_t;

static bool edge(const grow_t *w, uint32_t a, uint32_t b) {
    return weight(w->g, a, b) >= w->threshold;
}

static uint32_t outside_degree(const grow_t *w, uint32_t v) {
    uint32_t n = 0;
    for (uint32_t u = 0; u < w->g->m; u++)
        n += !w->in[u] && u != v && edge(w, v, u);
    return n;
}

/* One insertion: of all possible, the one whose nodes have the fewest other chances. */
static bool insert_once(grow_t *w) {
    uint32_t m = w->g->m, best_score = UINT32_MAX, ties = 0, bu = 0, bx = 0, by = CCL_NONE;
    for (uint32_t u = 0; u < m; u++) {
        if (!w->in[u])
            continue;
        uint32_t v = w->next[u];
        for (uint32_t x = 0; x < m; x++) {
            if (w->in[x] || !edge(w, u, x))
                continue;
            uint32_t dx = outside_degree(w, x);
            if (edge(w, x, v)) {
                uint32_t score = 2 * dx;
                if (score < best_score)
                    best_score = score, ties = 0;
                if (score == best_score && ccl_rng_below(&w->rng, ++ties) == 0)
                    bu = u, bx = x, by = CCL_NONE;
            }
            for (uint32_t y = 0; y < m; y++) {
                if (w->in[y] || y == x || !edge(w, x, y) || !edge(w, y, v))
                    continue;
                uint32_t score = dx + outside_degree(w, y);
                if (score < best_score)
                    best_score = score, ties = 0;
                if (score == best_score && ccl_rng_below(&w->rng, ++ties) == 0)
                    bu = u, bx = x, by = y;
            }
        }
    }
    if (best_score == UINT32_MAX)
        return false;
    uint32_t v = w->next[bu];
    w->next[bu] = bx;
    w->in[bx] = 1;
    if (by == CCL_NONE)
        w->next[bx] = v;
    else {
        w->next[bx] = by;
        w->next[by] = v;
        w->in[by] = 1;
    }
    return true;
}

/* Start as a two-node cycle over a link both ways; insertion turns it into a real one.
   @return nodes that are not in it */
static uint32_t start_walk(grow_t *w, uint32_t first) {
    uint32_t m = w->g->m;
    w->in[first] = 1;
    w->next[first] = first;
    for (uint32_t i = 1; i < m; i++) {
        uint32_t v = (first + i) % m;
        if (edge(w, first, v) && edge(w, v, first)) {
            w->in[v] = 1;
            w->next[first] = v;
            w->next[v] = first;
            return m - 2;
        }
    }
    return m - 1;
}

/* A node that is left, there and back from a node of the walk. @return false: there is none */
static bool detour(grow_t *w, uint32_t *walk, uint32_t *len) {
    for (uint32_t i = 0; i < *len; i++) {
        for (uint32_t x = 0; x < w->g->m; x++) {
            if (w->in[x] || !edge(w, walk[i], x) || !edge(w, x, walk[i]))
                continue;
            memmove(walk + i + 3, walk + i + 1, (*len - i - 1) * sizeof *walk);
            walk[i + 1] = x;
            walk[i + 2] = walk[i];
            *len += 2;
            w->in[x] = 1;
            return true;
        }
    }
    return false;
}

ccl_status_t ccl_i_walk_find(const ccl_i_graph_t *g, double threshold, uint64_t variant,
                             uint32_t *walk, uint32_t *len_out, ccl_error_t *err) {
    uint32_t m = g->m, first = 0, left;
    grow_t w = {.g = g, .threshold = threshold};
    w.next = malloc(m * sizeof *w.next);
    w.in = calloc(m, 1);
    *len_out = 0;
    if (!w.next || !w.in) {
        free(w.next);
        free(w.in);
        return ccl_fail_nomem(err);
    }
    ccl_rng_init(&w.rng, variant);
    if (variant)
        first = ccl_rng_below(&w.rng, m);
    left = start_walk(&w, first);
    while (left) {
        uint32_t before = left;
        if (insert_once(&w)) {
            left = 0;
            for (uint32_t v = 0; v < m; v++)
                left += !w.in[v];
        }
        if (left == before)
            break;
    }
    uint32_t len = 0, v = first;
    do {
        walk[len++] = v;
        v = w.next[v];
    } while (v != first);
    while (left && detour(&w, walk, &len))
        left--;
    *len_out = left ? 0 : len;
    free(w.next);
    free(w.in);
    return CCL_OK;
}
