/*
 * AllReduce. Valid for every schedule that copies and adds:
 * - a cut: the whole message must leave and enter every set of GPUs that is not all of them;
 * - a partition into k parts: per element 2 (k - 1) messages pass between parts, for the first part
 *   that has the whole reduction has heard of k - 1 others, and each of them must then hear of it
 * (one-way gossip, Harary, Schwenk 1974). Each part sends no more than its smallest cut lets out.
 * Beside it what trees reach: in-trees and out-trees with the same roots share the links; how much
 * is rooted where and how each link is split is a linear program over cuts, which are found by
 * maximum flows (ForestColl, arXiv 2402.06787, section on AllReduce). Switches neither copy nor
 * add, so each kind of tree takes as much into a switch as out of it.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/bounds/bounds.h"

enum { MOST_ROUNDS = 3000, MOST_ROWS = 500, FEW_RANKS = 6 };
#define LIMIT_S 20.0
#define SCALE ((double)(1 << 24))

typedef struct sets {
    const ccl_capacity_t *c;
    uint32_t n;
    ccl_i_cutter_t out, in; /* cuts of what leaves, of what enters */
    uint8_t *from, *to;     /* [n] */
    bool entering;          /* the partition in hand counts what enters its parts */
} sets_t;

/* Units that can leave (enter) the GPUs in `from` for all others. */
static int64_t around(sets_t *s, bool enter) {
    for (uint32_t r = 0; r < s->n; r++)
        s->to[r] = !s->from[r];
    ccl_i_cutter_t *k = enter ? &s->in : &s->out;
    int64_t units = ccl_i_cut_between(k, s->from, s->to);
    return units < 0 ? units : ccl_i_cut_units(k, k->side);
}

/* A cut that halves nothing: the message over what leaves it. */
static ccl_status_t try_cut(sets_t *s, int64_t units, bool enter, ccl_bandwidth_bound_t *out,
                            ccl_error_t *err) {
    ccl_i_cutter_t *k = enter ? &s->in : &s->out;
    ccl_bandwidth_bound_t rate = {0};
    if (units < 0)
        return ccl_fail_nomem(err);
    ccl_i_bound_rate(s->c, 1, (uint64_t)units, 1, &rate);
    if (!(rate.Bps < out->Bps * (1 - 1e-12)))
        return CCL_OK;
    out->Bps = rate.Bps;
    out->exact_Bps = rate.exact_Bps;
    out->proof = CCL_BOUND_CUT;
    out->nlinks = 0;
    return ccl_i_bound_witness(s->c, k->reversed, k->side, out, err);
}

/* GPUs in blocks: servers, or what stays together without the links of a tight cut. */
typedef struct blocks {
    uint32_t n;
    uint32_t *of; /* [nranks] CCL_NONE: in none */
} blocks_t;

/* A partition whose parts are blocks, whole or GPU by GPU: whichever makes sum / (k - 1) least. */
static ccl_status_t partitions(sets_t *s, const blocks_t *b, const int64_t *single,
                               const int64_t *whole, bool enter, ccl_bandwidth_bound_t *out,
                               ccl_error_t *err) {
    const ccl_topology_t *topo = s->c->topo;
    int64_t *split_sum = calloc(b->n + (size_t)1, sizeof *split_sum);
    uint32_t *gpus = calloc(b->n + (size_t)1, sizeof *gpus);
    uint32_t *name = calloc(b->n + (size_t)1, sizeof *name);
    uint8_t *split = calloc(b->n + (size_t)1, 1);
    double best = INFINITY;
    int64_t loose = 0;
    uint32_t nloose = 0;
    ccl_status_t status = CCL_OK;
    if (!split_sum || !gpus || !name || !split) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    for (uint32_t r = 0; r < s->n; r++) {
        if (b->of[r] == CCL_NONE) {
            loose += single[r];
            nloose++;
        } else {
            split_sum[b->of[r]] += single[r];
            gpus[b->of[r]]++;
        }
    }
    memset(split, 1, b->n);
    for (;;) { /* Newton's method on the ratio: it falls each time */
        int64_t sum = loose;
        uint32_t k = nloose;
        for (uint32_t v = 0; v < b->n; v++) {
            sum += gpus[v] == 0 ? 0 : split[v] ? split_sum[v] : whole[v];
            k += gpus[v] == 0 ? 0 : split[v] ? gpus[v] : 1;
        }
        double rate = k < 2 ? INFINITY : (double)sum / (double)(k - 1);
        if (!(rate < best))
            break;
        best = rate;
        ccl_bandwidth_bound_t now = {0};
        ccl_i_bound_rate(s->c, 1, (uint64_t)sum, 2 * (uint64_t)(k - 1), &now);
        if (now.Bps < out->Bps * (1 - 1e-12)) {
            out->Bps = now.Bps;
            out->exact_Bps = now.exact_Bps;
            out->proof = CCL_BOUND_PARTITION;
            out->nparts = k;
            out->nlinks = 0;
            s->entering = enter;
            out->part = ccl_arena_alloc(&out->arena, topo->ndevices, sizeof *out->part);
            if (!out->part) {
                status = ccl_fail_nomem(err);
                goto end;
            }
            memset(out->part, 0xff, topo->ndevices * sizeof *out->part);
            memset(name, 0xff, (b->n + (size_t)1) * sizeof *name);
            uint32_t next = 0;
            for (uint32_t r = 0; r < s->n; r++) {
                uint32_t v = b->of[r];
                bool together = v != CCL_NONE && !split[v];
                if (together && name[v] == CCL_NONE)
                    name[v] = next++;
                out->part[topo->rank_device[r]] = together ? name[v] : next++;
            }
        }
        for (uint32_t v = 0; v < b->n; v++)
            split[v] =
                gpus[v] > 0 && (double)split_sum[v] - rate * gpus[v] < (double)whole[v] - rate;
    }
end:
    free(split_sum);
    free(gpus);
    free(name);
    free(split);
    return status;
}

/* The links over which the parts of a partition send (or receive) at most: the smallest cut around
 * each. */
static ccl_status_t partition_links(const ccl_ctx_t *ctx, sets_t *s, ccl_bandwidth_bound_t *out,
                                    ccl_error_t *err) {
    const ccl_capacity_t *c = s->c;
    const ccl_topology_t *topo = c->topo;
    ccl_i_cutter_t *k = s->entering ? &s->in : &s->out;
    uint8_t *crosses = calloc(topo->nlinks + (size_t)1, sizeof *crosses);
    ccl_status_t status = crosses ? CCL_OK : ccl_fail_nomem(err);
    for (uint32_t p = 0; p < out->nparts && status == CCL_OK; p++) {
        CCL_TRY_GOTO(ccl_ctx_poll(ctx, NULL), status, end);
        for (uint32_t r = 0; r < s->n; r++)
            s->from[r] = out->part[topo->rank_device[r]] == p;
        if (around(s, s->entering) < 0)
            status = ccl_fail_nomem(err);
        else
            ccl_i_bound_crossing(c, k->reversed, k->side, crosses);
    }
    if (status == CCL_OK)
        status = ccl_i_bound_links(topo, crosses, out, err);
end:
    free(crosses);
    return status;
}

/* Cuts around blocks and GPUs, and partitions into them. */
static ccl_status_t by_blocks(const ccl_ctx_t *ctx, sets_t *s, const blocks_t *b,
                              const ccl_automorphisms_t *symmetry, ccl_bandwidth_bound_t *out,
                              ccl_error_t *err) {
    const ccl_topology_t *topo = s->c->topo;
    int64_t *single = calloc(s->n, sizeof *single);
    int64_t *whole = calloc(b->n + (size_t)1, sizeof *whole);
    ccl_status_t status = single && whole ? CCL_OK : ccl_fail_nomem(err);
    for (int enter = 0; enter < 2 && status == CCL_OK; enter++) {
        for (uint32_t r = 0; r < s->n && status == CCL_OK; r++) {
            uint32_t first = symmetry ? symmetry->vertex_orbit[topo->rank_device[r]] : CCL_NONE;
            uint32_t like = first != CCL_NONE ? topo->devices[first].rank : r;
            CCL_TRY_GOTO(ccl_ctx_poll(ctx, NULL), status, end);
            if (like < r) {
                single[r] = single[like];
                continue;
            }
            memset(s->from, 0, s->n);
            s->from[r] = 1;
            single[r] = around(s, enter);
            status = try_cut(s, single[r], enter, out, err);
        }
        for (uint32_t v = 0; v < b->n && status == CCL_OK; v++) {
            uint32_t inside = 0;
            CCL_TRY_GOTO(ccl_ctx_poll(ctx, NULL), status, end);
            for (uint32_t r = 0; r < s->n; r++) {
                s->from[r] = b->of[r] == v;
                inside += s->from[r];
            }
            if (inside == 0 || inside == s->n)
                continue;
            whole[v] = around(s, enter);
            status = try_cut(s, whole[v], enter, out, err);
        }
        if (status == CCL_OK)
            status = partitions(s, b, single, whole, enter, out, err);
    }
end:
    free(single);
    free(whole);
    return status;
}

/* Parts for a topology that names no servers: the tightest cut of an AllGather shows which links
 * are narrow; what stays together without links as narrow as these is a block. */
static ccl_status_t find_blocks(const ccl_ctx_t *ctx, sets_t *s,
                                const ccl_automorphisms_t *symmetry, blocks_t *b,
                                ccl_error_t *err) {
    const ccl_capacity_t *c = s->c;
    const ccl_topology_t *topo = c->topo;
    uint32_t *weights = calloc(s->n, sizeof *weights);
    uint32_t *set = calloc(c->nvertices, sizeof *set);
    ccl_i_cut_t cut = {0, 0, calloc(c->nvertices, sizeof *cut.side)};
    int64_t narrow = 0;
    ccl_status_t status = weights && set && cut.side ? CCL_OK : ccl_fail_nomem(err);
    for (uint32_t r = 0; r < s->n && status == CCL_OK; r++)
        weights[r] = 1;
    for (uint32_t r = 0; r < s->n && status == CCL_OK; r++) {
        uint32_t v = topo->rank_device[r];
        if (symmetry && symmetry->vertex_orbit[v] != v &&
            topo->devices[symmetry->vertex_orbit[v]].rank < r)
            continue;
        CCL_TRY_GOTO(ccl_ctx_poll(ctx, NULL), status, end);
        status = ccl_i_cut_tighten(&s->out, weights, r, &cut, err);
    }
    if (status != CCL_OK)
        goto end;
    for (uint32_t a = 0; a < c->narcs; a++) {
        if (cut.side[c->arcs[a].from] && !cut.side[c->arcs[a].to] && c->arcs[a].units > narrow)
            narrow = c->arcs[a].units;
    }
    for (uint32_t v = 0; v < c->nvertices; v++)
        set[v] = v;
    for (uint32_t a = 0; a < c->narcs; a++) {
        if (c->arcs[a].units > narrow)
            ccl_set_join(set, c->arcs[a].from, c->arcs[a].to);
    }
    b->n = c->nvertices;
    for (uint32_t r = 0; r < s->n; r++)
        b->of[r] = ccl_set_find(set, topo->rank_device[r]);
end:
    free(weights);
    free(set);
    free(cut.side);
    return status;
}

static ccl_status_t valid_bound(const ccl_ctx_t *ctx, sets_t *s,
                                const ccl_automorphisms_t *symmetry, ccl_bandwidth_bound_t *out,
                                ccl_error_t *err) {
    const ccl_topology_t *topo = s->c->topo;
    ccl_automorphisms_t still;
    blocks_t b = {topo->nservers, calloc(s->n, sizeof *b.of)};
    bool have = false;
    ccl_status_t status = b.of ? CCL_OK : ccl_fail_nomem(err);
    for (uint32_t r = 0; r < s->n && status == CCL_OK; r++)
        b.of[r] = topo->devices[topo->rank_device[r]].server;
    CCL_TRY_GOTO(status, status, end);
    CCL_TRY_GOTO(by_blocks(ctx, s, &b, symmetry, out, err), status, end);
    if (topo->nservers < 2) {
        CCL_TRY_GOTO(find_blocks(ctx, s, symmetry, &b, err), status, end);
        CCL_TRY_GOTO(by_blocks(ctx, s, &b, symmetry, out, err), status, end);
    }
    /* Every cut that parts rank 0 from another rank. */
    if (s->n > FEW_RANKS && s->c->nleft_groups == 0) {
        CCL_TRY_GOTO(ccl_automorphisms_find(&s->c->graph, topo->rank_device[0], &still, err),
                     status, end);
        have = true;
    }
    for (uint32_t r = 1; r < s->n; r++) {
        uint32_t v = topo->rank_device[r];
        if (have && still.vertex_orbit[v] != v && topo->devices[still.vertex_orbit[v]].rank < r)
            continue;
        for (int enter = 0; enter < 2; enter++) {
            ccl_i_cutter_t *k = enter ? &s->in : &s->out;
            memset(s->from, 0, s->n);
            memset(s->to, 0, s->n);
            s->from[0] = s->to[r] = 1;
            int64_t units = ccl_i_cut_between(k, s->from, s->to);
            if (units >= 0)
                units = ccl_i_cut_units(k, k->side);
            CCL_TRY_GOTO(ccl_ctx_poll(ctx, NULL), status, end);
            CCL_TRY_GOTO(try_cut(s, units, enter, out, err), status, end);
        }
    }
    if (out->proof == CCL_BOUND_PARTITION)
        status = partition_links(ctx, s, out, err);
end:
    if (have)
        ccl_automorphisms_fini(&still);
    free(b.of);
    return status;
}

/* ---------------------------------------------------------------- trees */

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

/* Bytes per second that the best trees reach; 0: not found in time. */
static ccl_status_t trees_rate(const ccl_ctx_t *ctx, const ccl_capacity_t *c,
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

ccl_status_t ccl_i_bound_allreduce(const ccl_ctx_t *ctx, const ccl_capacity_t *c,
                                   ccl_bandwidth_bound_t *out, ccl_error_t *err) {
    sets_t s = {.c = c, .n = c->topo->nranks};
    ccl_automorphisms_t symmetry;
    bool have = false;
    ccl_status_t status = CCL_OK;
    s.from = calloc(s.n, 1);
    s.to = calloc(s.n, 1);
    if (!s.from || !s.to) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    CCL_TRY_GOTO(ccl_i_cutter_init(&s.out, c, false, err), status, end);
    CCL_TRY_GOTO(ccl_i_cutter_init(&s.in, c, true, err), status, end);
    if (s.n > FEW_RANKS && c->nleft_groups == 0) {
        CCL_TRY_GOTO(ccl_automorphisms_find(&c->graph, CCL_NONE, &symmetry, err), status, end);
        have = true;
    }
    CCL_TRY_GOTO(valid_bound(ctx, &s, have ? &symmetry : NULL, out, err), status, end);
    CCL_TRY_GOTO(trees_rate(ctx, c, have ? &symmetry : NULL, &out->trees_Bps, err), status, end);
    out->tight = c->exact && c->nleft_groups == 0 && ccl_i_capacity_balanced(c) &&
                 out->trees_Bps >= out->Bps * (1 - 1e-6);
end:
    if (have)
        ccl_automorphisms_fini(&symmetry);
    ccl_i_cutter_fini(&s.out);
    ccl_i_cutter_fini(&s.in);
    free(s.from);
    free(s.to);
    return status;
}
