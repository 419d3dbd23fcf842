/* What changed from a former schedule to the one that was made from it. */
#include "synth/alltoallv/warm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Bytes that differ by less than this part are the same: they were summed in another order. */
static const double ROUNDING = 1e-9;

/* ---------------------------------------------------------------- blocks */

static void tell_blocks(const ccl_i_av_warm_t *w, const uint32_t *number, uint32_t n, double *had,
                        double *has, ccl_warm_stats_t *out) {
    const ccl_collective_t *want = w->want, *former = w->former->coll;
    for (uint32_t k = 0; k < want->nchunks + former->nchunks; k++) {
        bool now = k < want->nchunks;
        const ccl_chunk_t *c = now ? &want->chunks[k] : &former->chunks[k - want->nchunks];
        if (ccl_i_av_moves(c))
            *(now ? &has[number[k]] : &had[number[k]]) +=
                c->share * (now ? w->size_bytes : w->former_bytes);
    }
    for (uint32_t b = 0; b < n; b++) {
        double change = fabs(has[b] - had[b]);
        bool changed = change > ROUNDING * fmax(has[b], had[b]);
        out->blocks += has[b] > 0;
        out->changed += changed;
        out->bytes_before += had[b];
        out->bytes += has[b];
        out->bytes_changed += changed ? change : 0;
    }
}

/* ---------------------------------------------------------------- transfers */

static int by_move(const void *a, const void *b) {
    const ccl_transfer_t *x = a, *y = b;
    if (x->chunk != y->chunk)
        return x->chunk < y->chunk ? -1 : 1;
    if (x->src != y->src)
        return x->src < y->src ? -1 : 1;
    if (x->dst != y->dst)
        return x->dst < y->dst ? -1 : 1;
    return x->channel < y->channel ? -1 : x->channel > y->channel;
}

/* A schedule's transfers in order of blocks, which stand in place of chunks. */
static ccl_transfer_t *moves_of(const ccl_schedule_t *s, const uint32_t *number) {
    ccl_transfer_t *all = calloc(s->ntransfers + (size_t)1, sizeof *all);
    for (uint32_t i = 0; all && i < s->ntransfers; i++) {
        all[i] = s->transfers[i];
        all[i].chunk = number[all[i].chunk];
    }
    if (all)
        qsort(all, s->ntransfers, sizeof *all, by_move);
    return all;
}

/* How many are in both; touched: blocks with one that is not. */
static uint32_t count_kept(const ccl_transfer_t *a, uint32_t na, const ccl_transfer_t *b,
                           uint32_t nb, bool *touched) {
    uint32_t kept = 0;
    for (uint32_t i = 0, k = 0; i < na || k < nb;) {
        int order = i == na ? 1 : k == nb ? -1 : by_move(&a[i], &b[k]);
        kept += order == 0;
        if (order != 0)
            touched[order < 0 ? a[i].chunk : b[k].chunk] = true;
        i += order <= 0;
        k += order >= 0;
    }
    return kept;
}

static ccl_status_t tell_transfers(const ccl_i_av_warm_t *w, const ccl_schedule_t *now,
                                   ccl_warm_stats_t *out, ccl_error_t *err) {
    const ccl_schedule_t *was = w->former;
    uint32_t *number = NULL, n;
    CCL_TRY(ccl_i_av_number_blocks(was->coll, now->coll, &number, &n, err));
    const uint32_t *now_number = number + was->coll->nchunks;
    ccl_transfer_t *a = moves_of(was, number), *b = moves_of(now, now_number);
    bool *touched = calloc(n + (size_t)1, sizeof *touched);
    ccl_status_t status = a && b && touched ? CCL_OK : ccl_fail_nomem(err);
    if (status == CCL_OK) {
        out->kept = count_kept(a, was->ntransfers, b, now->ntransfers, touched);
        out->added = now->ntransfers - out->kept;
        out->dropped = was->ntransfers - out->kept;
        for (uint32_t k = 0; k < now->coll->nchunks; k++) {
            bool *again = &touched[now_number[k]];
            out->blocks_again += *again && ccl_i_av_moves(&now->coll->chunks[k]);
            *again = *again && !ccl_i_av_moves(&now->coll->chunks[k]); /* once */
        }
    }
    free(touched);
    free(a);
    free(b);
    free(number);
    return status;
}

/* ---------------------------------------------------------------- links */

static double change_of(const ccl_warm_link_t *l) {
    return fabs(l->after_s - l->before_s);
}

static void add_link(ccl_warm_stats_t *out, ccl_warm_link_t link) {
    uint32_t at = out->nlinks;
    while (at > 0 && change_of(&link) > change_of(&out->links[at - 1]))
        at--;
    if (at == CCL_WARM_LINKS)
        return;
    out->nlinks += out->nlinks < CCL_WARM_LINKS;
    for (uint32_t i = out->nlinks - 1; i > at; i--)
        out->links[i] = out->links[i - 1];
    out->links[at] = link;
}

static ccl_status_t tell_links(const ccl_i_av_warm_t *w, const ccl_schedule_t *now,
                               ccl_warm_stats_t *out, ccl_error_t *err) {
    uint32_t n = w->net->nresources;
    double *before = calloc(2 * (size_t)n + 1, sizeof *before), *after = before + n;
    ccl_status_t status = before ? CCL_OK : ccl_fail_nomem(err);
    if (status == CCL_OK)
        status = ccl_i_av_load_schedule(w->net, w->former, w->former_bytes, before, err);
    if (status == CCL_OK)
        status = ccl_i_av_load_schedule(w->net, now, w->size_bytes, after, err);
    for (uint32_t r = 0; status == CCL_OK && r < n; r++) {
        out->load_before_s = fmax(out->load_before_s, before[r]);
        out->load_s = fmax(out->load_s, after[r]);
        if (r < w->net->topo->nlinks &&
            fabs(after[r] - before[r]) > ROUNDING * fmax(after[r], before[r]))
            add_link(out, (ccl_warm_link_t){r, before[r], after[r]});
    }
    free(before);
    return status;
}

ccl_status_t ccl_i_av_warm_tell(const ccl_i_av_warm_t *w, const ccl_schedule_t *now,
                                ccl_warm_stats_t *out, ccl_error_t *err) {
    uint32_t *number = NULL, n = 0;
    ccl_warm_stats_t stats = {.runs = 1};
    CCL_TRY(ccl_i_av_number_blocks(w->want, w->former->coll, &number, &n, err));
    double *bytes = calloc(2 * (size_t)n + 1, sizeof *bytes);
    ccl_status_t status = bytes ? CCL_OK : ccl_fail_nomem(err);
    if (status == CCL_OK) {
        tell_blocks(w, number, n, bytes, bytes + n, &stats);
        status = tell_transfers(w, now, &stats, err);
    }
    if (status == CCL_OK)
        status = tell_links(w, now, &stats, err);
    if (status == CCL_OK)
        *out = stats;
    free(bytes);
    free(number);
    return status;
}
