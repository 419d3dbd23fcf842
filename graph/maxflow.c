/*
 * Maximum flow in whole numbers: Dinic's algorithm (1970) on level graphs. The residual network
 * stays after a run, so that a caller may raise capacities and go on, or read the cut.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"

/* Costs that differ by less are equal: rounding of times of about a second at most. */
#define SAME_COST 1e-15

struct ccl_maxflow {
    uint32_t nvertices;
    uint32_t nhalves;  /* arc a is half 2a (forward) and 2a + 1 (back) */
    uint32_t *to;      /* [nhalves] */
    uint32_t *next;    /* [nhalves] next half of the same vertex */
    int64_t *left;     /* [nhalves] residual capacity */
    int64_t *capacity; /* [nhalves / 2] */
    size_t cap_to, cap_next, cap_left, cap_capacity;
    uint32_t *head;  /* [nvertices] */
    uint32_t *at;    /* [nvertices] half in hand */
    uint32_t *level; /* [nvertices] CCL_NONE: not reached */
    uint32_t *queue; /* [nvertices] also the path of halves */
    double *cost;    /* [nhalves / 2]; NULL: none has one */
    size_t cap_cost;
    bool *shut; /* [nhalves] not on a way of least cost; NULL: all count */
    size_t cap_shut;
};

ccl_maxflow_t *ccl_maxflow_create(uint32_t nvertices) {
    ccl_maxflow_t *f = calloc(1, sizeof *f);
    size_t n = (size_t)nvertices + 1;
    if (!f)
        return NULL;
    f->nvertices = nvertices;
    f->head = malloc(n * sizeof *f->head);
    f->at = malloc(n * sizeof *f->at);
    f->level = malloc(n * sizeof *f->level);
    f->queue = malloc(n * sizeof *f->queue);
    if (!f->head || !f->at || !f->level || !f->queue) {
        ccl_maxflow_destroy(f);
        return NULL;
    }
    memset(f->head, 0xff, n * sizeof *f->head);
    return f;
}

void ccl_maxflow_destroy(ccl_maxflow_t *f) {
    if (!f)
        return;
    free(f->to);
    free(f->next);
    free(f->left);
    free(f->capacity);
    free(f->head);
    free(f->at);
    free(f->level);
    free(f->queue);
    free(f->cost);
    free(f->shut);
    free(f);
}

uint32_t ccl_maxflow_arc(ccl_maxflow_t *f, uint32_t from, uint32_t to, int64_t capacity) {
    uint32_t h = f->nhalves;
    if (!ccl_grow(&f->to, &f->cap_to, h + (size_t)2, sizeof *f->to) ||
        !ccl_grow(&f->next, &f->cap_next, h + (size_t)2, sizeof *f->next) ||
        !ccl_grow(&f->left, &f->cap_left, h + (size_t)2, sizeof *f->left) ||
        !ccl_grow(&f->capacity, &f->cap_capacity, h / 2 + (size_t)1, sizeof *f->capacity))
        return CCL_NONE;
    f->to[h] = to;
    f->to[h + 1] = from;
    f->left[h] = f->capacity[h / 2] = capacity;
    f->left[h + 1] = 0;
    f->next[h] = f->head[from];
    f->head[from] = h;
    f->next[h + 1] = f->head[to];
    f->head[to] = h + 1;
    f->nhalves += 2;
    return h / 2;
}

void ccl_maxflow_capacity(ccl_maxflow_t *f, uint32_t arc, int64_t capacity) {
    f->left[2 * (size_t)arc] += capacity - f->capacity[arc];
    f->capacity[arc] = capacity;
}

void ccl_maxflow_reset(ccl_maxflow_t *f) {
    for (uint32_t a = 0; a < f->nhalves / 2; a++) {
        f->left[2 * (size_t)a] = f->capacity[a];
        f->left[2 * (size_t)a + 1] = 0;
    }
}

int64_t ccl_maxflow_of(const ccl_maxflow_t *f, uint32_t arc) {
    return f->left[2 * (size_t)arc + 1];
}

static bool passable(const ccl_maxflow_t *f, uint32_t half) {
    return f->left[half] > 0 && !(f->shut && f->shut[half]);
}

/* Levels from s; stops once t has one. */
static bool reach(ccl_maxflow_t *f, uint32_t s, uint32_t t) {
    uint32_t n = 0;
    memset(f->level, 0xff, f->nvertices * sizeof *f->level);
    f->level[s] = 0;
    f->queue[n++] = s;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t u = f->queue[i];
        for (uint32_t h = f->head[u]; h != CCL_NONE; h = f->next[h]) {
            uint32_t v = f->to[h];
            if (passable(f, h) && f->level[v] == CCL_NONE) {
                f->level[v] = f->level[u] + 1;
                if (v == t)
                    return true;
                f->queue[n++] = v;
            }
        }
    }
    return false;
}

int64_t ccl_maxflow_run(ccl_maxflow_t *f, uint32_t s, uint32_t t, int64_t most) {
    int64_t total = 0;
    uint32_t *path = f->queue; /* halves; free once the levels stand */
    if (s == t)
        return most;
    while (total < most && reach(f, s, t)) {
        uint32_t depth = 0, u = s;
        memcpy(f->at, f->head, f->nvertices * sizeof *f->at);
        while (total < most) {
            if (u == t) {
                int64_t push = most - total;
                uint32_t cut = 0;
                for (uint32_t i = 0; i < depth; i++)
                    push = f->left[path[i]] < push ? f->left[path[i]] : push;
                for (uint32_t i = depth; i-- > 0;) {
                    f->left[path[i]] -= push;
                    f->left[path[i] ^ 1] += push;
                    if (f->left[path[i]] == 0)
                        cut = i;
                }
                total += push;
                depth = cut;
                u = f->to[path[cut] ^ 1];
                continue;
            }
            uint32_t h = f->at[u];
            while (h != CCL_NONE && !(passable(f, h) && f->level[f->to[h]] == f->level[u] + 1))
                h = f->next[h];
            f->at[u] = h;
            if (h != CCL_NONE) {
                path[depth++] = h;
                u = f->to[h];
            } else if (depth > 0) {
                u = f->to[path[--depth] ^ 1];
                f->at[u] = f->next[f->at[u]];
            } else {
                break;
            }
        }
    }
    return total;
}

void ccl_maxflow_side(ccl_maxflow_t *f, uint32_t s, bool *side) {
    reach(f, s, CCL_NONE);
    for (uint32_t v = 0; v < f->nvertices; v++)
        side[v] = f->level[v] != CCL_NONE;
}

bool ccl_maxflow_cost(ccl_maxflow_t *f, uint32_t arc, double cost) {
    size_t had = f->cost ? f->cap_cost : 0;
    if (!ccl_grow(&f->cost, &f->cap_cost, f->nhalves / 2, sizeof *f->cost))
        return false;
    for (size_t a = had; a < f->cap_cost; a++)
        f->cost[a] = 0;
    f->cost[arc] = cost;
    return true;
}

static double half_cost(const ccl_maxflow_t *f, uint32_t half) {
    double cost = f->cost ? f->cost[half / 2] : 0;
    return half & 1 ? -cost : cost;
}

bool ccl_maxflow_distances(ccl_maxflow_t *f, uint32_t s, bool backward, double *dist) {
    size_t n = f->nvertices, head = 0, tail = 0, waiting = 0;
    bool *queued = calloc(n + 1, sizeof *queued);
    if (!queued)
        return false;
    for (size_t v = 0; v < n; v++)
        dist[v] = INFINITY;
    dist[s] = 0;
    f->queue[tail++] = s;
    waiting = 1;
    while (waiting > 0) { /* Bellman, Ford, Moore; the queue is a ring */
        uint32_t u = f->queue[head];
        head = head + 1 == n ? 0 : head + 1;
        waiting--;
        queued[u] = false;
        for (uint32_t h = f->head[u]; h != CCL_NONE; h = f->next[h]) {
            uint32_t way = backward ? h ^ 1 : h, v = f->to[h];
            double through = dist[u] + half_cost(f, way);
            if (f->left[way] <= 0 || !(through < dist[v] - SAME_COST))
                continue;
            dist[v] = through;
            if (!queued[v]) {
                queued[v] = true;
                tail = tail == n ? 0 : tail;
                f->queue[tail++] = v;
                waiting++;
            }
        }
    }
    free(queued);
    return true;
}

int64_t ccl_maxflow_cheapest(ccl_maxflow_t *f, uint32_t s, uint32_t t, const double *dist,
                             int64_t most) {
    if (!ccl_grow(&f->shut, &f->cap_shut, f->nhalves, sizeof *f->shut))
        return -1;
    for (uint32_t h = 0; h < f->nhalves; h++) {
        double from = dist[f->to[h ^ 1]], to = dist[f->to[h]];
        f->shut[h] = !(from < INFINITY && fabs(from + half_cost(f, h) - to) <= 2 * SAME_COST);
    }
    int64_t added = ccl_maxflow_run(f, s, t, most);
    free(f->shut);
    f->shut = NULL;
    f->cap_shut = 0;
    return added;
}
