/*
 * What plain trees reach for AllReduce: in-trees and out-trees with the same roots share the links;
 * how much is rooted where and how each link is split is a linear program over cuts, which are
 * found by maximum flows (ForestColl, arXiv 2402.06787, section on AllReduce). Switches neither
 * copy nor add here, so each kind of tree takes as much into a switch as out of it.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/bounds/bounds.h"

enum { MOST_ROUNDS = 3000, MOST_ROWS = 500 };
#define LIMIT_S 20.0
#define SCALE ((double)(1 << 24))

typedef struct trees {
    const ccl_capacity_t *c;
    uint32_t n, nroots, nlinks; /* classes */
    uint32_t *root_class;       /* [n] */
    uint32_t *root_count;       /* [nroots] */
    uint32_t *arc_class;        /* [narcs] */
    double *units;              /* [nlinks] of one arc of the class */
    double widest;
    ccl_maxflow_t *flow[2]; /* all-gather, reduce-scatter reversed */
    double *x;              /* [nroots] rooted at each: duals */
    double *share[2];       /* [nlinks] of a link: all-gather, reduce-scatter: duals */
    bool *side;
    ccl_arena_t arena;
} trees_t;

static ccl_status_t trees_init(trees_t *t, const ccl_automorphisms_t *symmetry, ccl_error_t *err) {
    const ccl_capacity_t *c = t->c;
    const ccl_topology_t *topo = c->topo;
    ccl_arena_t *arena = &t->arena;
    size_t n = t->n, nv = c->nvertices, na = c->narcs;
    t->root_class = ccl_arena_alloc(arena, n, sizeof *t->root_class);
    t->root_count = ccl_arena_alloc(arena, n, sizeof *t->root_count);
    t->arc_class = ccl_arena_alloc(arena, na + 1, sizeof *t->arc_class);
    t->units = ccl_arena_alloc(arena, na + 1, sizeof *t->units);
    t->x = ccl_arena_alloc(arena, n, sizeof *t->x);
    t->share[0] = ccl_arena_alloc(arena, na + 1, sizeof *t->share[0]);
    t->share[1] = ccl_arena_alloc(arena, na + 1, sizeof *t->share[1]);
    t->side = ccl_arena_alloc(arena, nv + 1, sizeof *t->side);
    uint32_t *class_of = ccl_arena_alloc(arena, nv + na, sizeof *class_of);
    t->flow[0] = ccl_maxflow_create(c->nvertices + 1);
    t->flow[1] = ccl_maxflow_create(c->nvertices + 1);
    bool ok = t->root_class && t->root_count && t->arc_class && t->units && t->x && t->share[0] &&
              t->share[1] && t->side && class_of && t->flow[0] && t->flow[1];
    for (uint32_t a = 0; ok && a < na; a++)
        ok = ccl_maxflow_arc(t->flow[0], c->arcs[a].from, c->arcs[a].to, 0) != CCL_NONE &&
             ccl_maxflow_arc(t->flow[1], c->arcs[a].to, c->arcs[a].from, 0) != CCL_NONE;
    for (uint32_t r = 0; ok && r < n; r++)
        ok = ccl_maxflow_arc(t->flow[0], c->nvertices, topo->rank_device[r], 0) != CCL_NONE &&
             ccl_maxflow_arc(t->flow[1], c->nvertices, topo->rank_device[r], 0) != CCL_NONE;
    if (!ok)
        return ccl_fail_nomem(err);
    memset(class_of, 0xff, (nv + na) * sizeof *class_of);
    for (uint32_t r = 0; r < n; r++) {
        uint32_t v = topo->rank_device[r], orbit = symmetry ? symmetry->vertex_orbit[v] : v;
        if (class_of[orbit] == CCL_NONE)
            class_of[orbit] = t->nroots++;
        t->root_class[r] = class_of[orbit];
        t->root_count[class_of[orbit]]++;
    }
    for (uint32_t a = 0; a < na; a++) {
        uint32_t orbit = symmetry ? symmetry->arc_orbit[a] : a;
        if (class_of[nv + orbit] == CCL_NONE)
            class_of[nv + orbit] = t->nlinks++;
        t->arc_class[a] = class_of[nv + orbit];
        t->units[t->arc_class[a]] = (double)c->arcs[a].units;
        t->widest = fmax(t->widest, (double)c->arcs[a].units);
    }
    return CCL_OK;
}

/* A column for a cut that the trees in hand break, for sink r; *ratio: how much of the trees the
 * cut lets through. */
static bool separate(trees_t *t, ccl_lp_t *lp, uint32_t r, int reduce, double *entries,
                     double *ratio) {
    const ccl_capacity_t *c = t->c;
    ccl_maxflow_t *f = t->flow[reduce];
    uint32_t rows = t->nroots + 2 * t->nlinks;
    int64_t want = 0;
    for (uint32_t a = 0; a < c->narcs; a++) {
        double share = fmax(0, t->share[reduce][t->arc_class[a]]);
        ccl_maxflow_capacity(f, a, (int64_t)llround(share * SCALE));
    }
    for (uint32_t k = 0; k < t->n; k++) {
        int64_t x = (int64_t)floor(fmax(0, t->x[t->root_class[k]]) * SCALE);
        ccl_maxflow_capacity(f, c->narcs + k, x);
        want += x;
    }
    ccl_maxflow_reset(f);
    int64_t got = ccl_maxflow_run(f, c->nvertices, c->topo->rank_device[r], want);
    *ratio = want > 0 ? (double)got / (double)want : 1;
    if (got >= want)
        return true;
    ccl_maxflow_side(f, c->nvertices, t->side);
    memset(entries, 0, rows * sizeof *entries);
    for (uint32_t k = 0; k < t->n; k++)
        entries[t->root_class[k]] += t->side[c->topo->rank_device[k]];
    for (uint32_t a = 0; a < c->narcs; a++) {
        uint32_t u = reduce ? c->arcs[a].to : c->arcs[a].from;
        uint32_t v = reduce ? c->arcs[a].from : c->arcs[a].to;
        if (t->side[u] && !t->side[v])
            entries[t->nroots + reduce * t->nlinks + t->arc_class[a]] -= 1;
    }
    return ccl_lp_column(lp, 0, entries) != CCL_NONE;
}

/* Columns that are there from the start: what links hold, and switches in balance. */
static bool first_columns(trees_t *t, const ccl_automorphisms_t *symmetry, ccl_lp_t *lp,
                          double *entries) {
    const ccl_capacity_t *c = t->c;
    uint32_t rows = t->nroots + 2 * t->nlinks;
    bool ok = true;
    memset(entries, 0, rows * sizeof *entries);
    for (uint32_t k = 0; ok && k < rows; k++) {
        entries[k] = -1; /* rows are ">=" */
        ok = ccl_lp_column(lp, 0, entries) != CCL_NONE;
        entries[k] = 0;
    }
    for (uint32_t k = 0; ok && k < t->nlinks; k++) {
        entries[t->nroots + k] = entries[t->nroots + t->nlinks + k] = 1;
        ok = ccl_lp_column(lp, t->units[k] / t->widest, entries) != CCL_NONE;
        entries[t->nroots + k] = entries[t->nroots + t->nlinks + k] = 0;
    }
    for (uint32_t v = 0; ok && v < c->nvertices; v++) {
        if ((v < c->topo->ndevices && c->topo->devices[v].kind == CCL_DEVICE_GPU) ||
            (symmetry && symmetry->vertex_orbit[v] != v))
            continue;
        for (uint32_t reduce = 0; reduce < 2; reduce++) {
            uint32_t base = t->nroots + reduce * t->nlinks;
            for (int sign = 1; ok && sign >= -1; sign -= 2) {
                for (uint32_t a = 0; a < c->narcs; a++) {
                    if (c->arcs[a].to == v)
                        entries[base + t->arc_class[a]] += sign;
                    if (c->arcs[a].from == v)
                        entries[base + t->arc_class[a]] -= sign;
                }
                ok = ccl_lp_column(lp, 0, entries) != CCL_NONE;
                memset(entries, 0, rows * sizeof *entries);
            }
        }
    }
    return ok;
}

ccl_status_t ccl_i_bound_trees(const ccl_ctx_t *ctx, const ccl_capacity_t *c,
                               const ccl_automorphisms_t *symmetry, double *Bps_out,
                               ccl_error_t *err) {
    trees_t t = {.c = c, .n = c->topo->nranks};
    double *entries = NULL, start = ccl_now_s(), best = 0;
    ccl_lp_t *lp = NULL;
    ccl_arena_init(&t.arena);
    ccl_status_t status = trees_init(&t, symmetry, err);
    uint32_t rows = t.nroots + 2 * t.nlinks;
    *Bps_out = 0;
    if (status != CCL_OK || rows > MOST_ROWS)
        goto end;
    entries = calloc(rows, sizeof *entries);
    for (uint32_t k = 0; entries && k < t.nroots; k++)
        entries[k] = t.root_count[k];
    lp = entries ? ccl_lp_create(rows, entries, 2.0 * t.n * c->narcs) : NULL;
    bool ok = lp && first_columns(&t, symmetry, lp, entries);
    /* To begin with: half of every link each way, and far too much at every root. */
    for (uint32_t k = 0; k < t.nlinks; k++)
        t.share[0][k] = t.share[1][k] = t.units[k] / t.widest / 2;
    for (uint32_t k = 0; k < t.nroots; k++)
        t.x[k] = 4.0 * c->narcs / t.n;
    for (uint32_t round = 0; ok && round < MOST_ROUNDS; round++) {
        double least = INFINITY;
        for (uint32_t r = 0; ok && r < t.n; r++) {
            double ratio;
            bool first = true;
            for (uint32_t q = 0; q < r && first; q++)
                first = t.root_class[q] != t.root_class[r];
            for (int reduce = 0; ok && first && reduce < 2; reduce++) {
                ok = separate(&t, lp, r, reduce, entries, &ratio);
                least = fmin(least, ratio);
            }
        }
        if (ok && round > 0 && least > 1 - 1e-7) {
            best = ccl_lp_value(lp);
            break;
        }
        if (!ok || ccl_now_s() - start > LIMIT_S || ccl_ctx_poll(ctx, NULL) != CCL_OK ||
            !ccl_lp_solve(lp))
            break;
        memcpy(t.x, ccl_lp_duals(lp), t.nroots * sizeof *t.x);
        for (uint32_t reduce = 0; reduce < 2; reduce++)
            memcpy(t.share[reduce], ccl_lp_duals(lp) + t.nroots + reduce * t.nlinks,
                   t.nlinks * sizeof *t.share[reduce]);
    }
    if (!ok)
        status = ccl_fail_nomem(err);
    else
        status = ccl_ctx_poll(ctx, NULL);
    *Bps_out = best * t.widest * c->unit_Bps;
end:
    ccl_lp_destroy(lp);
    free(entries);
    ccl_maxflow_destroy(t.flow[0]);
    ccl_maxflow_destroy(t.flow[1]);
    ccl_arena_fini(&t.arena);
    return status;
}
