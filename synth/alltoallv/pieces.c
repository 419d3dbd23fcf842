/*
 * Which block takes which lane. A source sends what it can over its own lanes, straight to the
 * lane's end; what is left goes over lanes of its neighbours that have room. So a GPU with much to
 * send hands on no more than its NIC cannot carry, as FAST (arXiv 2505.09764) does it.
 */
#include "synth/alltoallv/work.h"

#include <math.h>
#include <string.h>

/*
 * Relayed pieces pass in parts of at most 1 / CUTS of what their narrowest link carries in all,
 * pieces that go straight in parts STRAIGHT times as large; searched ways, of more hops, in smaller
 * ones. A lane takes a remainder beyond its
 * room that is below 1 / (SLIVERS servers) of what its link carries: all lanes of it together then
 * are off by 1 / SLIVERS.
 */
enum { CUTS = 256, SEARCHED_CUTS = 512, HEAVY_CUTS = 1024, STRAIGHT = 8, SLIVERS = 256 };

typedef struct assign {
    ccl_i_av_work_t *w;
    uint32_t pair, first, nlanes; /* of lanes */
    double sliver;
} assign_t;

static ccl_status_t add_piece(ccl_i_av_work_t *w, uint32_t item, uint32_t lane, double bytes,
                              ccl_error_t *err) {
    if (w->npieces == w->cpieces &&
        !ccl_grow(&w->pieces, &w->cpieces, w->npieces + 1, sizeof *w->pieces))
        return ccl_fail_nomem(err);
    w->pieces[w->npieces++] =
        (ccl_i_av_piece_t){.bytes = bytes, .item = item, .lane = lane, .cuts = 1};
    return CCL_OK;
}

static bool ends_at(const ccl_i_av_work_t *w, const ccl_i_av_item_t *item, uint32_t lane) {
    uint32_t h = w->net->lanes[lane].dst;
    for (uint32_t k = 0; k < item->ndests; k++)
        if (w->dests[item->first_dest + k] == h)
            return true;
    return false;
}

/* As much of *rest as the lane has room for. */
static ccl_status_t take(assign_t *a, uint32_t item, uint32_t k, double *rest, ccl_error_t *err) {
    double bytes = fmin(*rest, a->w->left[k]);
    if (a->w->items[item].whole || *rest - bytes < a->sliver)
        bytes = *rest;
    a->w->left[k] -= bytes;
    *rest -= bytes;
    return add_piece(a->w, item, a->first + k, bytes, err);
}

static bool has_room(const assign_t *a, const ccl_i_av_item_t *item, uint32_t k) {
    return item->whole ? a->w->left[k] >= item->bytes / 2 : a->w->left[k] > a->sliver;
}

/* Over lanes that begin at the source; the one that ends where the block goes first. */
static ccl_status_t assign_own(assign_t *a, uint32_t item, double *rest, ccl_error_t *err) {
    const ccl_i_av_item_t *it = &a->w->items[item];
    const ccl_i_av_lane_t *lanes = a->w->net->lanes + a->first;
    for (int turn = 0; turn < 2; turn++)
        for (uint32_t k = 0; k<a->nlanes && * rest> 0; k++)
            if (lanes[k].src == it->src && has_room(a, it, k) &&
                ends_at(a->w, it, a->first + k) == (turn == 0))
                CCL_TRY(take(a, item, k, rest, err));
    return CCL_OK;
}

/* Over any lanes, those with most room first. */
static ccl_status_t assign_rest(assign_t *a, uint32_t item, double rest, ccl_error_t *err) {
    const ccl_i_av_item_t *it = &a->w->items[item];
    for (uint32_t turn = 0; rest > 0; turn++) {
        uint32_t best = 0;
        for (uint32_t k = 0; k < a->nlanes; k++) {
            if (turn == 0 && ends_at(a->w, it, a->first + k) && has_room(a, it, k) &&
                a->w->left[k] >= rest) {
                best = k;
                break;
            }
            best = a->w->left[k] > a->w->left[best] ? k : best;
        }
        if (a->w->left[best] <= a->sliver || turn > a->nlanes)
            a->w->left[best] = rest; /* rounding: nobody has room */
        CCL_TRY(take(a, item, best, &rest, err));
    }
    return CCL_OK;
}

static ccl_status_t assign_pair(assign_t *a, ccl_error_t *err) {
    ccl_i_av_work_t *w = a->w;
    uint32_t begin = w->item_first[a->pair], end = w->item_first[a->pair + 1];
    a->first = w->net->lane_first[a->pair];
    a->nlanes = w->net->lane_first[a->pair + 1] - a->first;
    if (begin < end && a->nlanes == 0)
        return ccl_fail(err, CCL_UNSUPPORTED, "two servers have no route between their GPUs");
    memcpy(w->left, w->lane_bytes + a->first, a->nlanes * sizeof *w->left);
    /* All have their own lanes first; what is left over comes after. */
    w->nrest = 0;
    for (uint32_t i = begin; i < end; i++) {
        double rest = w->items[i].bytes;
        CCL_TRY(assign_own(a, i, &rest, err));
        if (rest > 0) {
            if (!ccl_grow(&w->rest, &w->crest, w->nrest + 1, sizeof *w->rest))
                return ccl_fail_nomem(err);
            w->rest[w->nrest++] = (ccl_i_av_rest_t){rest, i};
        }
    }
    for (size_t i = 0; i < w->nrest; i++)
        CCL_TRY(assign_rest(a, w->rest[i].item, w->rest[i].bytes, err));
    return CCL_OK;
}

/* How often a piece passes a GPU: not at all, before its lane, behind it, both. */
static bool is_relayed(const ccl_i_av_work_t *w, const ccl_i_av_piece_t *p) {
    const ccl_i_av_item_t *item = &w->items[p->item];
    if (p->nhops > 0)
        return p->nhops > 1;
    if (p->lane == CCL_NONE) {
        for (uint32_t k = 0; k < item->ndests; k++)
            if (ccl_i_av_inner(w->net, item->src, w->dests[item->first_dest + k])->nhops > 1)
                return true;
        return false;
    }
    return w->net->lanes[p->lane].src != item->src || item->ndests > 1 ||
           !ends_at(w, item, p->lane);
}

/* Most bytes of a part that is relayed: of a lane's last part the hop behind it is left to do. */
static double most_bytes(const ccl_i_av_work_t *w, const ccl_i_av_piece_t *p) {
    const ccl_i_av_item_t *item = &w->items[p->item];
    double slow = p->lane != CCL_NONE ? w->net->lanes[p->lane].uses.slowest
                  : p->nhops > 0
                      ? w->way_slow
                      : ccl_i_av_inner(w->net, item->src, w->dests[item->first_dest])->uses.slowest;
    return w->load_max_s / slow / (p->nhops == 0 ? CUTS : w->heavy ? HEAVY_CUTS : SEARCHED_CUTS);
}

void ccl_i_av_cut_piece(ccl_i_av_work_t *w, ccl_i_av_piece_t *p) {
    const ccl_i_av_item_t *item = &w->items[p->item];
    bool relayed = is_relayed(w, p);
    w->relayed_bytes += relayed ? p->bytes : 0;
    double most = fmax(w->cut_bytes, most_bytes(w, p));
    most *= relayed ? 1 : STRAIGHT;
    p->cuts = item->whole ? 1 : (uint32_t)fmax(1, ceil(p->bytes / most - 1e-9));
    if (item->nth == 2) {
        p->sub = 0;
        return;
    }
    p->sub = w->nsub[item->chunk];
    w->nsub[item->chunk] += p->cuts;
}

ccl_status_t ccl_i_av_cut(ccl_i_av_work_t *w, ccl_error_t *err) {
    if (!ccl_grow(&w->nsub, &w->cnsub, w->nchunks + (size_t)1, sizeof *w->nsub))
        return ccl_fail_nomem(err);
    memset(w->nsub, 0, (w->nchunks + (size_t)1) * sizeof *w->nsub);
    w->relayed_bytes = 0;
    for (size_t i = 0; i < w->npieces; i++)
        ccl_i_av_cut_piece(w, &w->pieces[i]);
    return CCL_OK;
}

ccl_status_t ccl_i_av_pieces(ccl_i_av_work_t *w, ccl_error_t *err) {
    uint32_t ns = w->net->nservers;
    assign_t a = {.w = w, .sliver = 0};
    w->npieces = w->nways = 0;
    for (uint32_t p = 0; p < ns * ns; p++) {
        w->piece_first[p] = (uint32_t)w->npieces;
        if (w->item_first[p] == w->item_first[p + 1])
            continue;
        a.pair = p;
        if (p / ns == p % ns) {
            for (uint32_t i = w->item_first[p]; i < w->item_first[p + 1]; i++)
                CCL_TRY(add_piece(w, i, CCL_NONE, w->items[i].bytes, err));
            continue;
        }
        if (w->net->lane_first[p] < w->net->lane_first[p + 1]) {
            double slow = w->net->lanes[w->net->lane_first[p]].uses.slowest;
            a.sliver = w->load_max_s / slow / SLIVERS / ns;
        }
        CCL_TRY(assign_pair(&a, err));
    }
    w->piece_first[ns * ns] = (uint32_t)w->npieces;
    return CCL_OK;
}
