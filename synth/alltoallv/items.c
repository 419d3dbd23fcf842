/* What has to move, by pairs of servers; and the cuts that it must cross. */
#include "synth/alltoallv/work.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

ccl_status_t ccl_i_av_work_init(ccl_i_av_work_t *w, ccl_i_av_net_t *net, ccl_error_t *err) {
    size_t pairs = (size_t)net->nservers * net->nservers;
    memset(w, 0, sizeof *w);
    w->net = w->own_net = net;
    w->item_first = calloc(pairs + 2, sizeof *w->item_first);
    w->piece_first = calloc(pairs + 1, sizeof *w->piece_first);
    w->share = calloc(net->nlanes + 1, sizeof *w->share);
    w->lane_bytes = calloc(net->nlanes + 1, sizeof *w->lane_bytes);
    w->lane_channels = calloc(net->nlanes + 1, 1);
    w->left = calloc(CCL_I_AV_LANES, sizeof *w->left);
    w->load_s = calloc(net->nresources + (size_t)1, sizeof *w->load_s);
    w->inner_bytes = calloc(2 * net->ninner + 1, sizeof *w->inner_bytes);
    w->shed = calloc(net->nlanes + 1, sizeof *w->shed);
    w->touched = calloc(pairs + 1, 1);
    w->inner_channels[0] = calloc(net->ninner + 1, 1);
    w->inner_channels[1] = calloc(net->ninner + 1, 1);
    if (!w->item_first || !w->piece_first || !w->share || !w->lane_bytes || !w->lane_channels ||
        !w->left || !w->load_s || !w->inner_bytes || !w->inner_channels[0] ||
        !w->inner_channels[1] || !w->shed || !w->touched)
        return ccl_fail_nomem(err);
    for (uint32_t p = 0; p < pairs; p++)
        for (uint32_t l = net->lane_first[p]; l < net->lane_first[p + 1]; l++)
            w->share[l] = 1.0 / (net->lane_first[p + 1] - net->lane_first[p]);
    return CCL_OK;
}

void ccl_i_av_work_fini(ccl_i_av_work_t *w) {
    ccl_i_av_search_fini(w->search);
    free(w->items);
    free(w->item_first);
    free(w->dests);
    free(w->share);
    free(w->lane_bytes);
    free(w->left);
    free(w->load_s);
    free(w->border);
    free(w->crossed);
    free(w->inner_bytes);
    free(w->pieces);
    free(w->piece_first);
    free(w->ways);
    free(w->nsub);
    free(w->rest);
    free(w->blocks);
    free(w->made);
    free(w->transfers);
    free(w->step_first);
    free(w->lane_channels);
    free(w->inner_channels[0]);
    free(w->inner_channels[1]);
    free(w->item_piece);
    free(w->piece_next);
    free(w->shed);
    free(w->touched);
    free(w->shift);
    free(w->number);
    free(w->fresh);
    free(w->fresh_number);
    free(w->room);
    memset(w, 0, sizeof *w);
}

/* ---------------------------------------------------------------- items */

static ccl_status_t room(ccl_i_av_work_t *w, size_t items, size_t dests, ccl_error_t *err) {
    if (!ccl_grow(&w->items, &w->citems, items + 1, sizeof *w->items) ||
        !ccl_grow(&w->dests, &w->cdests, dests + 1, sizeof *w->dests))
        return ccl_fail_nomem(err);
    return CCL_OK;
}

ccl_status_t ccl_i_av_items_matrix(ccl_i_av_work_t *w, const double *bytes, ccl_error_t *err) {
    const ccl_i_cluster_t *c = &w->net->cluster;
    uint32_t n = w->net->n, ns = w->net->nservers, nitems = 0;
    double sum = 0;
    CCL_TRY(room(w, (size_t)n * n, (size_t)n * n, err));
    for (uint32_t a = 0; a < ns; a++) {
        for (uint32_t b = 0; b < ns; b++) {
            w->item_first[a * ns + b] = nitems;
            for (uint32_t i = c->first[a]; i < c->first[a + 1]; i++) {
                uint32_t src = c->ranks[i];
                const double *row = bytes + (size_t)src * n;
                for (uint32_t j = c->first[b]; j < c->first[b + 1]; j++) {
                    uint32_t dst = c->ranks[j];
                    double x = row[dst];
                    if (!(x > 0) || src == dst)
                        continue;
                    w->items[nitems] =
                        (ccl_i_av_item_t){x, 1, src, src * n + dst, nitems, 1, 0, false};
                    w->dests[nitems++] = dst;
                    sum += x;
                }
            }
        }
    }
    w->item_first[ns * ns] = nitems;
    w->nitems = w->ndests = nitems;
    w->nchunks = n * n;
    w->moved_bytes = sum;
    return CCL_OK;
}

/* Who has the chunk, or gets the sum. */
static uint32_t root_of(const ccl_i_av_work_t *w, const ccl_chunk_t *c) {
    return w->net->reversed ? c->dests[0] : c->sources[0];
}

/* Counts items by pair (place NULL), or puts them at place[pair]. */
static size_t spread_chunk(ccl_i_av_work_t *w, const ccl_chunk_t *c, uint32_t chunk, double bytes,
                           uint32_t *place) {
    const ccl_i_cluster_t *k = &w->net->cluster;
    uint32_t root = root_of(w, c), n = w->net->reversed ? c->nsources : c->ndests;
    const uint32_t *ends = w->net->reversed ? c->sources : c->dests;
    uint32_t row = k->server[root] * w->net->nservers, last = CCL_NONE, at = 0;
    size_t nitems = 0;
    /* Ends of one server follow each other in most clusters; where they do not, several items of
       one server are right too, just not shared. */
    for (uint32_t i = 0; i < n; i++) {
        if (ends[i] == root)
            continue;
        uint32_t server = k->server[ends[i]];
        bool more = server == last;
        nitems += !more;
        if (place && !more) {
            at = place[row + server]++;
            w->items[at] =
                (ccl_i_av_item_t){bytes, 1, root, chunk, (uint32_t)w->ndests, 0, 0, false};
        } else if (!place && !more) {
            w->item_first[row + server + 1]++;
        }
        if (place) {
            w->items[at].ndests++;
            w->dests[w->ndests++] = ends[i];
        }
        last = server;
    }
    return nitems;
}

ccl_status_t ccl_i_av_items_collective(ccl_i_av_work_t *w, const ccl_collective_t *coll,
                                       double size_bytes, bool whole, ccl_error_t *err) {
    uint32_t pairs = w->net->nservers * w->net->nservers;
    size_t nitems = 0, ndests = 0;
    memset(w->item_first, 0, (pairs + 1) * sizeof *w->item_first);
    w->ndests = 0;
    w->moved_bytes = 0;
    w->nchunks = coll->nchunks;
    for (uint32_t k = 0; k < coll->nchunks; k++) {
        const ccl_chunk_t *c = &coll->chunks[k];
        if (c->share > 0 && c->ndests > 0)
            nitems += spread_chunk(w, c, k, 0, NULL);
        ndests += w->net->reversed ? c->nsources : c->ndests;
    }
    CCL_TRY(room(w, nitems, ndests, err));
    for (uint32_t p = 0; p < pairs; p++)
        w->item_first[p + 1] += w->item_first[p];
    /* item_first[p] moves to the end of p, which is the start of p + 1; so shift it back. */
    for (uint32_t k = 0; k < coll->nchunks; k++) {
        const ccl_chunk_t *c = &coll->chunks[k];
        if (!(c->share > 0) || c->ndests == 0)
            continue;
        double bytes = c->share * size_bytes;
        size_t first = w->ndests, several = spread_chunk(w, c, k, bytes, w->item_first);
        w->moved_bytes += bytes * (double)(w->ndests - first);
        uint32_t row = w->net->cluster.server[root_of(w, c)] * w->net->nservers;
        for (size_t i = first; i < w->ndests; i++) {
            uint32_t server = w->net->cluster.server[w->dests[i]];
            ccl_i_av_item_t *item = &w->items[w->item_first[row + server] - 1];
            item->whole = whole || several > 1;
            item->nth = several == 1 ? 0 : item->first_dest == first ? 1 : 2;
        }
    }
    memmove(w->item_first + 1, w->item_first, pairs * sizeof *w->item_first);
    w->item_first[0] = 0;
    w->nitems = nitems;
    return CCL_OK;
}

/* ---------------------------------------------------------------- cuts */

/*
 * Whether an item's chunk crosses the border of a part for the first time. A chunk for several
 * servers is several items, and may leave its own part, and enter others, once. Of more parts than
 * there are bits its first item alone counts, at least where one part may have several servers.
 */
static bool crosses(ccl_i_av_work_t *w, const ccl_i_av_item_t *item, uint32_t v, uint32_t part,
                    bool out) {
    if (item->nth == 0)
        return true;
    if (w->net->levels.levels[v].nparts > 64)
        return item->nth == 1 || (!out && v < 2 && w->net->contiguous);
    uint64_t bit = (uint64_t)1 << part;
    bool first = !(w->crossed[item->chunk] & bit);
    w->crossed[item->chunk] |= bit;
    return first;
}

static ccl_status_t cut_room(ccl_i_av_work_t *w, uint32_t nparts, bool *shared, ccl_error_t *err) {
    *shared = false;
    for (size_t i = 0; i < w->nitems && !*shared; i++)
        *shared = w->items[i].nth > 0;
    if (!ccl_grow(&w->border, &w->cborder, 2 * (size_t)nparts, sizeof *w->border) ||
        (*shared &&
         !ccl_grow(&w->crossed, &w->ccrossed, w->nchunks + (size_t)1, sizeof *w->crossed)))
        return ccl_fail_nomem(err);
    return CCL_OK;
}

/* What leaves and enters the parts of a level. */
static void count_shared(ccl_i_av_work_t *w, uint32_t v, double *out, double *in) {
    const ccl_cut_level_t *level = &w->net->levels.levels[v];
    for (size_t i = 0; i < w->nitems; i++) {
        const ccl_i_av_item_t *item = &w->items[i];
        uint32_t from = level->part_of[item->src], last = from;
        bool leaves = false;
        for (uint32_t k = 0; k < item->ndests; k++) {
            uint32_t to = level->part_of[w->dests[item->first_dest + k]];
            if (to != last && to != from && to != CCL_NONE && crosses(w, item, v, to, false))
                in[to] += item->bytes;
            leaves |= to != from;
            last = to;
        }
        if (leaves && from != CCL_NONE && crosses(w, item, v, from, true))
            out[from] += item->bytes;
    }
}

/* The same of items for one GPU each, which are many. */
static void count_plain(const ccl_i_av_work_t *w, uint32_t v, double *out, double *in) {
    const uint32_t *part_of = w->net->levels.levels[v].part_of;
    for (size_t i = 0; i < w->nitems; i++) {
        const ccl_i_av_item_t *item = &w->items[i];
        uint32_t from = part_of[item->src], to = part_of[w->dests[item->first_dest]];
        if (from == to)
            continue;
        if (to != CCL_NONE)
            in[to] += item->bytes;
        if (from != CCL_NONE)
            out[from] += item->bytes;
    }
}

ccl_status_t ccl_i_av_cuts(ccl_i_av_work_t *w, ccl_error_t *err) {
    const ccl_i_av_net_t *net = w->net;
    bool shared;
    w->bound_s = 0;
    w->cut = "nothing";
    for (uint32_t v = 0; v < net->levels.nlevels; v++) {
        const ccl_cut_level_t *level = &net->levels.levels[v];
        CCL_TRY(cut_room(w, level->nparts, &shared, err));
        double *out = w->border, *in = w->border + level->nparts;
        memset(out, 0, 2 * (size_t)level->nparts * sizeof *out);
        if (shared)
            memset(w->crossed, 0, w->nchunks * sizeof *w->crossed);
        if (shared || w->ndests != w->nitems)
            count_shared(w, v, out, in);
        else
            count_plain(w, v, out, in);
        for (uint32_t p = 0; p < level->nparts; p++) {
            double up = net->reversed ? level->in_Bps[p] : level->out_Bps[p];
            double down = net->reversed ? level->out_Bps[p] : level->in_Bps[p];
            double s = fmax(out[p] > 0 ? out[p] / up : 0, in[p] > 0 ? in[p] / down : 0);
            if (s > w->bound_s * (1 + 1e-12)) {
                w->bound_s = s;
                w->cut = level->what;
            }
        }
    }
    return CCL_OK;
}
