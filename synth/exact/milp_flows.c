/*
 * The LP form for collectives in which every chunk has one destination (TE-CCL, section 4.1; there
 * with epochs): flows, added up by source, that bring everything in the least time, when all links
 * are busy all the time. Then every source's flows are taken apart into paths, and a chunk into
 * parts, one for each path.
 */
#include "synth/exact/milp.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A little of the objective for every hop, so that no flow goes round in circles. */
#define DETOUR 1e-4
#define LEAST_FLOW 1e-9 /* of the greatest chunk */

typedef struct flows {
    const ccl_i_exchange_t *x;
    const ccl_collective_t *coll;
    uint32_t n, nhops, parts;
    double unit;    /* share of a flow of 1 */
    double *flow;   /* [n][nhops] of a source over a hop */
    uint32_t *path; /* [n] hops of a walk */
    bool *seen;     /* [n] */
    ccl_i_glpk_t lp;
    ccl_i_milp_send_t *sends;
    size_t nsends, csends;
} flows_t;

/** Column of a source's flow over a hop; the first is the time. */
static int column(const flows_t *f, uint32_t src, uint32_t hop) {
    return 2 + (int)(src * f->nhops + hop);
}

/** What comes in goes on, but for what is wanted. @param wants  [n][n] chunks of a source for a GPU
 */
static void add_balance(flows_t *f, const double *wants) {
    const ccl_i_exchange_t *x = f->x;
    for (uint32_t s = 0; s < f->n; s++)
        for (uint32_t r = 0; r < f->n; r++) {
            if (r == s)
                continue;
            for (uint32_t i = x->in_first[r]; i < x->in_first[r + 1]; i++)
                ccl_i_glpk_term(&f->lp, column(f, s, x->in_hops[i]), 1);
            for (uint32_t h = x->out_first[r]; h < x->out_first[r + 1]; h++)
                ccl_i_glpk_term(&f->lp, column(f, s, h), -1);
            ccl_i_glpk_row(&f->lp, true, wants[(size_t)s * f->n + r]);
        }
}

/** No resource takes longer than the time. */
static void add_times(flows_t *f, double bytes) {
    const ccl_i_exchange_t *x = f->x;
    for (uint32_t r = 0; r < x->nresources; r++) {
        ccl_i_glpk_term(&f->lp, 1, -1);
        for (uint32_t h = 0; h < f->nhops; h++)
            for (uint32_t u = 0; u < x->hops[h].nuses; u++) {
                const ccl_i_use_t *use = &x->uses[x->hops[h].first_use + u];
                for (uint32_t s = 0; use->resource == r && s < f->n; s++)
                    ccl_i_glpk_term(&f->lp, column(f, s, h),
                                    use->times * bytes / x->resources[r].Bps);
            }
        ccl_i_glpk_row(&f->lp, false, 0);
    }
}

static double greatest(const ccl_collective_t *coll) {
    double share = 0;
    for (uint32_t c = 0; c < coll->nchunks; c++)
        share = fmax(share, coll->chunks[c].share);
    return share;
}

static bool goes(const ccl_chunk_t *chunk) {
    return chunk->ndests && chunk->dests[0] != chunk->sources[0];
}

/* Times in units of what the slowest link needs for a chunk, so that GLPK sees numbers near 1. */
static ccl_status_t build(flows_t *f, ccl_error_t *err) {
    double *wants = calloc((size_t)f->n * f->n, sizeof *wants), slowest = INFINITY;
    if (!wants)
        return ccl_fail_nomem(err);
    for (uint32_t r = 0; r < f->x->nresources; r++)
        slowest = fmin(slowest, f->x->resources[r].Bps);
    for (uint32_t c = 0; c < f->coll->nchunks; c++) {
        const ccl_chunk_t *chunk = &f->coll->chunks[c];
        if (goes(chunk))
            wants[(size_t)chunk->sources[0] * f->n + chunk->dests[0]] += chunk->share / f->unit;
    }
    for (uint32_t col = 0; col <= f->n * f->nhops; col++)
        ccl_i_glpk_column(&f->lp, CCL_I_GLPK_POSITIVE,
                          col == 0 ? 1 : DETOUR / ((double)f->n * f->nhops));
    add_balance(f, wants);
    add_times(f, slowest);
    free(wants);
    return CCL_OK;
}

ccl_status_t ccl_i_milp_flows(const ccl_i_exchange_t *x, const ccl_collective_t *coll,
                              double *flow_out, ccl_i_glpk_answer_t *answer, ccl_error_t *err) {
    const ccl_i_glpk_options_t options = {.presolve = true};
    flows_t f = {
        .x = x, .coll = coll, .n = coll->nranks, .nhops = x->nhops, .unit = greatest(coll)};
    double *columns = malloc(((size_t)f.n * f.nhops + 2) * sizeof *columns);
    if (!columns)
        return ccl_fail_nomem(err);
    ccl_status_t status = build(&f, err);
    if (status == CCL_OK)
        status = ccl_i_glpk_solve(&f.lp, &options, columns, NULL, answer, err);
    if (status == CCL_OK && *answer == CCL_I_GLPK_FOUND)
        memcpy(flow_out, columns + 2, (size_t)f.n * f.nhops * sizeof *flow_out);
    ccl_i_glpk_fini(&f.lp);
    free(columns);
    return status;
}

/** Back from a GPU to the source along the widest flows; 0: no way with flow left. */
static uint32_t walk_back(flows_t *f, uint32_t src, uint32_t dst) {
    const ccl_i_exchange_t *x = f->x;
    uint32_t len = 0;
    memset(f->seen, 0, f->n * sizeof *f->seen);
    for (uint32_t at = dst; at != src;) {
        uint32_t best = CCL_NONE;
        f->seen[at] = true;
        for (uint32_t i = x->in_first[at]; i < x->in_first[at + 1]; i++) {
            uint32_t h = x->in_hops[i];
            if (!f->seen[x->hops[h].src] && f->flow[(size_t)src * f->nhops + h] > LEAST_FLOW &&
                (best == CCL_NONE ||
                 f->flow[(size_t)src * f->nhops + h] > f->flow[(size_t)src * f->nhops + best]))
                best = h;
        }
        if (best == CCL_NONE)
            return 0;
        f->path[len++] = best; /* last hop first */
        at = x->hops[best].src;
    }
    return len;
}

static bool add_path(flows_t *f, uint32_t chunk, uint32_t part, uint32_t len) {
    if (!ccl_grow(&f->sends, &f->csends, f->nsends + len, sizeof *f->sends))
        return false;
    for (uint32_t i = 0; i < len; i++)
        f->sends[f->nsends++] =
            (ccl_i_milp_send_t){chunk * f->parts + part, f->path[i], len - 1 - i};
    return true;
}

/** What still has far to go first: what waits for it keeps links busy at the end. */
static bool sort_sends(flows_t *f) {
    uint32_t nchunks = f->coll->nchunks * f->parts;
    uint32_t *len = calloc(nchunks + (size_t)1, sizeof *len);
    ccl_i_milp_send_t *sorted = malloc((f->nsends + 1) * sizeof *sorted);
    size_t n = 0;
    uint32_t longest = 0;
    if (!len || !sorted) {
        free(len);
        free(sorted);
        return false;
    }
    for (size_t i = 0; i < f->nsends; i++) {
        uint32_t *of = &len[f->sends[i].chunk];
        *of = f->sends[i].epoch + 1 > *of ? f->sends[i].epoch + 1 : *of;
        longest = *of > longest ? *of : longest;
    }
    for (uint32_t step = 0; step < longest; step++)
        for (uint32_t left = longest; left > 0; left--)
            for (size_t i = 0; i < f->nsends; i++)
                if (f->sends[i].epoch == step && len[f->sends[i].chunk] - step == left)
                    sorted[n++] = f->sends[i];
    free(f->sends);
    free(len);
    f->sends = sorted;
    return true;
}

/** A chunk's parts one by one: each along the widest path left, which it narrows by its size. */
static bool take_apart(flows_t *f) {
    for (uint32_t part = 0; part < f->parts; part++)
        for (uint32_t c = 0; c < f->coll->nchunks; c++) {
            const ccl_chunk_t *chunk = &f->coll->chunks[c];
            if (!goes(chunk))
                continue;
            uint32_t src = chunk->sources[0], dst = chunk->dests[0];
            uint32_t len = walk_back(f, src, dst);
            if (!len) { /* rounded away: the shortest way with any hops at all */
                for (uint32_t h = 0; h < f->nhops; h++)
                    f->flow[(size_t)src * f->nhops + h] += 1e-6;
                len = walk_back(f, src, dst);
                for (uint32_t h = 0; h < f->nhops; h++)
                    f->flow[(size_t)src * f->nhops + h] -= 1e-6;
            }
            if (!len || !add_path(f, c, part, len))
                return false;
            for (uint32_t i = 0; i < len; i++)
                f->flow[(size_t)src * f->nhops + f->path[i]] -= chunk->share / f->unit / f->parts;
        }
    return sort_sends(f);
}

ccl_status_t ccl_i_milp_paths(const ccl_i_exchange_t *x, const ccl_collective_t *coll, double *flow,
                              uint32_t parts, ccl_i_milp_send_t **sends, size_t *nsends,
                              ccl_error_t *err) {
    flows_t f = {.x = x,
                 .coll = coll,
                 .n = coll->nranks,
                 .nhops = x->nhops,
                 .parts = parts,
                 .unit = greatest(coll),
                 .flow = flow};
    f.path = malloc((f.n + (size_t)1) * sizeof *f.path);
    f.seen = malloc(f.n + (size_t)1);
    ccl_status_t status = f.path && f.seen && take_apart(&f) ? CCL_OK : ccl_fail_nomem(err);
    free(f.path);
    free(f.seen);
    if (status != CCL_OK) {
        free(f.sends);
        return status;
    }
    *sends = f.sends;
    *nsends = f.nsends;
    return CCL_OK;
}
