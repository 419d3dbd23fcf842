/*
 * A plan for blocks of other bytes: each keeps its ways, and where links are then loaded unevenly,
 * some of its bytes leave: for another piece of the same block, or for a new one over a lane that
 * has room. All other transfers and their proof stay; new parts come behind those of their block.
 */
#include "synth/alltoallv/work.h"

#include <math.h>
#include <string.h>

/* Sweeps over all pieces; what a piece keeps of its bytes; the least that a new piece carries, as
   a part of what its lane carries in all. */
typedef struct policy {
    uint32_t sweeps;
    double keeps, least;
    double haste, several; /* what a lane sheds, in parts of what is too much, and in leasts */
} policy_t;

static const policy_t POLICY = {
    .sweeps = 6, .keeps = 0.05, .least = 2e-4, .haste = 2, .several = 6};

/* ---------------------------------------------------------------- ways of pieces */

enum { MOST_USES = CCL_I_AV_HOPS + 3 };
typedef struct way {
    const ccl_i_av_uses_t *uses[MOST_USES];
    uint32_t n;
} way_t;

/* Of an item for one GPU. */
static way_t way_of(const ccl_i_av_work_t *w, const ccl_i_av_piece_t *p) {
    const ccl_i_av_item_t *item = &w->items[p->item];
    uint32_t at = item->src, to = w->dests[item->first_dest];
    way_t out = {.n = 0};
    for (uint32_t k = 0; k < p->nhops; k++)
        out.uses[out.n++] = &w->ways[p->way + k].uses;
    if (p->nhops > 0)
        return out;
    if (p->lane != CCL_NONE) {
        const ccl_i_av_lane_t *lane = &w->net->lanes[p->lane];
        out.uses[out.n++] = &ccl_i_av_inner(w->net, at, lane->src)->uses;
        out.uses[out.n++] = &lane->uses;
        at = lane->dst;
    }
    out.uses[out.n++] = &ccl_i_av_inner(w->net, at, to)->uses;
    return out;
}

/* Bytes until the first of its links is at the aim; below 0: how many are too many. */
static double room_of(const ccl_i_av_work_t *w, const way_t *way, double aim_s) {
    double room = INFINITY;
    for (uint32_t k = 0; k < way->n; k++) {
        for (uint32_t i = 0; i < way->uses[k]->n; i++) {
            uint32_t r = w->net->uses[way->uses[k]->first + i];
            room = fmin(room, (aim_s - w->load_s[r]) / w->net->slow[r]);
        }
    }
    return room;
}

static void load(ccl_i_av_work_t *w, ccl_i_av_piece_t *p, const way_t *way, double bytes) {
    for (uint32_t k = 0; k < way->n; k++)
        ccl_i_av_add(w->net, way->uses[k], bytes, w->load_s);
    p->bytes += bytes;
    if (p->nhops == 0 && p->lane != CCL_NONE)
        w->lane_bytes[p->lane] += bytes;
}

/* ---------------------------------------------------------------- moves */

typedef struct even {
    ccl_i_av_work_t *w;
    double aim_s, limit_s;
    size_t most; /* pieces */
    bool grow;   /* new pieces may be made */
    bool inside; /* links inside servers are above the limit as well */
} even_t;

static uint32_t pair_of(const ccl_i_av_work_t *w, const ccl_i_av_item_t *item) {
    const uint32_t *server = w->net->cluster.server;
    return server[item->src] * w->net->nservers + server[w->dests[item->first_dest]];
}

static void move(ccl_i_av_work_t *w, size_t from, const way_t *way, size_t to, double bytes) {
    way_t other = way_of(w, &w->pieces[to]);
    load(w, &w->pieces[from], way, -bytes);
    load(w, &w->pieces[to], &other, bytes);
    w->touched[pair_of(w, &w->items[w->pieces[from].item])] = 1;
}

/* To the other piece of the block that has most room. @return  what is too much still. */
static double move_over(even_t *e, size_t i, const way_t *way, double bytes) {
    ccl_i_av_work_t *w = e->w;
    uint32_t best = CCL_NONE;
    double most = 0;
    for (uint32_t k = w->item_piece[w->pieces[i].item]; k != CCL_NONE; k = w->piece_next[k]) {
        way_t other = way_of(w, &w->pieces[k]);
        double room = k == i ? 0 : room_of(w, &other, e->aim_s);
        if (room > most)
            most = room, best = k;
    }
    double moved = fmin(fmin(bytes, most), (1 - POLICY.keeps) * w->pieces[i].bytes);
    if (best == CCL_NONE || !(moved > 0))
        return bytes;
    move(w, i, way, best, moved);
    return bytes - moved;
}

/* To a new piece over the lane that has most room: no more than what the lane is to shed. */
static ccl_status_t branch(even_t *e, size_t i, const way_t *way, double bytes, ccl_error_t *err) {
    ccl_i_av_work_t *w = e->w;
    uint32_t from = w->pieces[i].lane, pair = pair_of(w, &w->items[w->pieces[i].item]);
    double least = POLICY.least * e->aim_s / w->net->lanes[from].uses.slowest;
    bytes = fmin(fmin(bytes, w->shed[from]), (1 - POLICY.keeps) * w->pieces[i].bytes);
    if (bytes < least)
        return CCL_OK;
    ccl_i_av_piece_t fresh = {.item = w->pieces[i].item, .lane = CCL_NONE, .cuts = 1}, best = fresh;
    double most = 0;
    for (uint32_t l = w->net->lane_first[pair]; l < w->net->lane_first[pair + 1]; l++) {
        fresh.lane = l;
        way_t other = way_of(w, &fresh);
        double room = l == from ? 0 : room_of(w, &other, e->aim_s);
        if (room > most)
            most = room, best = fresh;
    }
    double moved = fmin(bytes, most);
    if (moved < least)
        return CCL_OK;
    if (!ccl_grow(&w->pieces, &w->cpieces, w->npieces + 1, sizeof *w->pieces) ||
        !ccl_grow(&w->piece_next, &w->cpiece_next, w->npieces + 1, sizeof *w->piece_next))
        return ccl_fail_nomem(err);
    w->piece_next[w->npieces] = w->item_piece[best.item];
    w->item_piece[best.item] = (uint32_t)w->npieces;
    w->pieces[w->npieces++] = best;
    w->shed[from] -= moved;
    move(w, i, way, w->npieces - 1, moved);
    return CCL_OK;
}

/* What lanes above the limit are to shed. */
static void look(even_t *e) {
    ccl_i_av_work_t *w = e->w;
    for (size_t l = 0; l < w->net->nlanes; l++) {
        const ccl_i_av_uses_t *uses = &w->net->lanes[l].uses;
        double s = ccl_i_av_level(w->net, uses, w->load_s);
        w->shed[l] = s > e->limit_s ? fmax(POLICY.haste * (s - e->aim_s) / s * w->lane_bytes[l],
                                           POLICY.several * POLICY.least * e->aim_s / uses->slowest)
                                    : 0;
    }
    e->inside = false;
    for (size_t k = 0; k < w->net->ninner && !e->inside; k++)
        e->inside = ccl_i_av_level(w->net, &w->net->inner[k].uses, w->load_s) > e->limit_s;
}

static ccl_status_t sweep_pieces(even_t *e, size_t begin, size_t end, ccl_error_t *err) {
    ccl_i_av_work_t *w = e->w;
    for (size_t i = begin; i < end && w->npieces < e->most; i++) {
        const ccl_i_av_piece_t *p = &w->pieces[i];
        const ccl_i_av_item_t *item = &w->items[p->item];
        if (p->nhops == 0 && !e->inside && (p->lane == CCL_NONE || !(w->shed[p->lane] > 0)))
            continue;
        if (item->whole || item->ndests != 1)
            continue;
        way_t way = way_of(w, p);
        double bytes = -room_of(w, &way, e->aim_s);
        if (bytes > 0)
            bytes = move_over(e, i, &way, bytes);
        if (bytes > 0 && e->grow && w->pieces[i].lane != CCL_NONE)
            CCL_TRY(branch(e, i, &way, bytes, err));
    }
    return CCL_OK;
}

static ccl_status_t sweep(even_t *e, ccl_error_t *err) {
    ccl_i_av_work_t *w = e->w;
    size_t n = w->npieces, done = 0;
    uint32_t pairs = w->net->nservers * w->net->nservers;
    look(e);
    /* Of lanes pieces come by pairs of servers; not those of a search, nor new ones. */
    for (uint32_t pair = 0; pair < pairs && !w->searched && !e->inside; pair++) {
        bool sheds = false;
        for (uint32_t l = w->net->lane_first[pair]; l < w->net->lane_first[pair + 1]; l++)
            sheds |= w->shed[l] > 0;
        done = w->piece_first[pair + 1];
        if (sheds)
            CCL_TRY(sweep_pieces(e, w->piece_first[pair], done, err));
    }
    return sweep_pieces(e, done, n, err);
}

static double greatest(const ccl_i_av_work_t *w) {
    double most = 0;
    for (uint32_t r = 0; r < w->net->nresources; r++)
        most = fmax(most, w->load_s[r]);
    return most;
}

ccl_status_t ccl_i_av_even(ccl_i_av_work_t *w, double aim_s, double limit_s, ccl_error_t *err) {
    even_t e = {.w = w,
                .aim_s = aim_s,
                .limit_s = limit_s,
                .most = w->npieces + ccl_i_av_spare(w->npieces)};
    memset(w->touched, 0, (size_t)w->net->nservers * w->net->nservers);
    if (!ccl_grow(&w->item_piece, &w->citem_piece, w->nitems + 1, sizeof *w->item_piece) ||
        !ccl_grow(&w->piece_next, &w->cpiece_next, w->npieces + 1, sizeof *w->piece_next))
        return ccl_fail_nomem(err);
    memset(w->item_piece, 0xff, w->nitems * sizeof *w->item_piece);
    for (size_t i = w->npieces; i-- > 0;) {
        w->piece_next[i] = w->item_piece[w->pieces[i].item];
        w->item_piece[w->pieces[i].item] = (uint32_t)i;
    }
    for (uint32_t k = 0; k < POLICY.sweeps && w->load_max_s > limit_s && !ccl_i_av_is_late(w);
         k++) {
        e.grow = k > 0 || w->npieces == w->nitems; /* no block has a second way */
        CCL_TRY(sweep(&e, err));
        w->load_max_s = greatest(w);
    }
    return CCL_OK;
}

/* ---------------------------------------------------------------- their transfers */

ccl_status_t ccl_i_av_even_room(ccl_i_av_work_t *w, ccl_error_t *err) {
    size_t more = ccl_i_av_spare(w->npieces), parts = w->nsub[w->nchunks] + 4 * more;
    size_t transfers = w->nmade + 12 * more;
    return ccl_grow(&w->pieces, &w->cpieces, w->npieces + more + 1, sizeof *w->pieces) &&
                   ccl_grow(&w->piece_next, &w->cpiece_next, w->npieces + more + 1,
                            sizeof *w->piece_next) &&
                   ccl_grow(&w->item_piece, &w->citem_piece, w->nitems + 1,
                            sizeof *w->item_piece) &&
                   ccl_grow(&w->shift, &w->cshift, w->nchunks + (size_t)1, sizeof *w->shift) &&
                   ccl_grow(&w->number, &w->cnumber, parts, sizeof *w->number) &&
                   ccl_grow(&w->fresh, &w->cfresh, 4 * more, sizeof *w->fresh) &&
                   ccl_grow(&w->fresh_number, &w->cfresh_number, 4 * more,
                            sizeof *w->fresh_number) &&
                   ccl_grow(&w->room, &w->croom, 16 * more + 1, sizeof *w->room) &&
                   ccl_grow(&w->transfers, &w->ctransfers, transfers, sizeof *w->transfers)
               ? CCL_OK
               : ccl_fail_nomem(err);
}

/* New pieces are cut; parts of all blocks get their new numbers. */
static ccl_status_t number_parts(ccl_i_av_work_t *w, size_t first, uint32_t *fresh_out,
                                 ccl_error_t *err) {
    uint32_t n = w->nchunks, parts = w->nsub[n], shift = 0, fresh = 0;
    if (!ccl_grow(&w->shift, &w->cshift, n + (size_t)1, sizeof *w->shift) ||
        !ccl_grow(&w->number, &w->cnumber, parts + (size_t)1, sizeof *w->number))
        return ccl_fail_nomem(err);
    /* `shift` has the parts of each block while new pieces are cut. */
    uint32_t *begin = w->nsub;
    for (uint32_t k = 0; k < n; k++)
        w->shift[k] = begin[k + 1] - begin[k];
    w->nsub = w->shift;
    for (size_t i = first; i < w->npieces; i++) {
        ccl_i_av_cut_piece(w, &w->pieces[i]);
        fresh += w->pieces[i].cuts;
    }
    w->nsub = begin;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t was = begin[k], end = begin[k + 1];
        for (uint32_t i = was; i < end; i++)
            w->number[i] = i + shift;
        begin[k] = was + shift;
        shift += w->shift[k] - (end - was);
    }
    begin[n] = parts + shift;
    *fresh_out = fresh;
    return CCL_OK;
}

/* New parts by themselves, as a schedule. */
static ccl_status_t verify(ccl_i_av_work_t *w, size_t first, uint32_t fresh, ccl_error_t *err) {
    uint32_t at = 0;
    if (!ccl_grow(&w->fresh, &w->cfresh, fresh + (size_t)1, sizeof *w->fresh) ||
        !ccl_grow(&w->fresh_number, &w->cfresh_number, fresh + (size_t)1, sizeof *w->fresh_number))
        return ccl_fail_nomem(err);
    for (size_t i = first; i < w->npieces; i++) {
        const ccl_i_av_piece_t *p = &w->pieces[i];
        const ccl_i_av_item_t *item = &w->items[p->item];
        for (uint32_t j = 0; j < p->cuts; j++, at++) {
            w->fresh[at] = (ccl_chunk_t){1, &item->src, &w->dests[item->first_dest], 1, 1, false};
            w->fresh_number[at] = w->nsub[item->chunk] + p->sub + j;
        }
    }
    ccl_collective_t coll = {
        .kind = CCL_CUSTOM, .nranks = w->net->n, .nchunks = fresh, .chunks = w->fresh};
    ccl_schedule_t schedule = {
        .coll = &coll, .transfers = w->made, .ntransfers = (uint32_t)w->nmade};
    if (!ccl_grow(&w->room, &w->croom, ccl_schedule_moves_room(&schedule), sizeof *w->room))
        return ccl_fail_nomem(err);
    return ccl_schedule_moves_right(&schedule, w->room)
               ? CCL_OK
               : ccl_fail(err, CCL_ERR_INTERNAL, "alltoallv made a wrong schedule of new parts");
}

ccl_status_t ccl_i_av_add_pieces(ccl_i_av_work_t *w, size_t first, ccl_error_t *err) {
    uint32_t fresh = 0;
    size_t old = w->nmade;
    CCL_TRY(number_parts(w, first, &fresh, err));
    CCL_TRY(ccl_i_av_emit_more(w, first, err));
    CCL_TRY(verify(w, first, fresh, err));
    if (!ccl_grow(&w->transfers, &w->ctransfers, old + w->nmade + 1, sizeof *w->transfers))
        return ccl_fail_nomem(err);
    /* From behind; of one step the plan's come first. */
    size_t more = w->nmade, at = old + more;
    for (w->nmade = at; at > 0;) {
        bool is_new =
            more > 0 && (old == 0 || w->made[more - 1].step >= w->transfers[old - 1].step);
        ccl_transfer_t t = is_new ? w->made[--more] : w->transfers[--old];
        t.chunk = is_new ? w->fresh_number[t.chunk] : w->number[t.chunk];
        w->transfers[--at] = t;
    }
    return CCL_OK;
}
