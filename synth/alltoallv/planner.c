/*
 * The planner that is kept: a matrix in, a verified schedule out, in memory that stays. The
 * schedule and its collective are structs over the planner's arrays.
 */
#include "synth/alltoallv/work.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CUT_BYTES 262144.0
#define SEARCH_GPUS 64u
/* A plan is searched for where the first one is further from the cuts than this. */
#define SEARCH_FROM 1.02
/* Searched ways by which more of the bytes are relayed get `heavy` connections: what waits for
   several hops loses less then, on average of random clusters. */
#define HEAVY_FROM 0.7
/* A changed matrix keeps the last plan's ways while no link is loaded more than this over what the
   last plan made from the start reached; links are evened out until it is a part of that. */
#define CHANGED 0.005
#define EVEN 0.4

struct ccl_alltoallv {
    ccl_alltoallv_options_t options;
    ccl_i_av_net_t net;
    ccl_i_av_work_t work;
    ccl_collective_t coll;
    ccl_schedule_t schedule;
    uint32_t *all;  /* [n] 0.. : {r} is &all[r] */
    double *column; /* [n] bytes that a rank gets */
    ccl_chunk_t *chunks;
    uint32_t *lists, *list_first, *list_at; /* custom_chunks, custom_first and the filling of it */
    uint32_t *room;
    size_t cchunks, clists, croom;
    size_t nblocks;     /* of the matrix that have bytes and move */
    bool planned;       /* work and schedule are a plan */
    size_t most_pieces; /* that it may have until it is made again */
    double reached;     /* by the last plan made from the start: over the cuts */
    double changed_bytes;
    uint32_t changed_pairs, replanned; /* of servers */
};

ccl_status_t ccl_alltoallv_create(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                                  const ccl_alltoallv_options_t *options, ccl_alltoallv_t **out,
                                  ccl_error_t *err) {
    const ccl_alltoallv_options_t defaults = CCL_ALLTOALLV_OPTIONS_INIT;
    CCL_OPTIONS_TRY(ccl_alltoallv_options_t, options, err);
    (void)ctx;
    ccl_alltoallv_t *p = calloc(1, sizeof *p);
    if (!p)
        return ccl_fail_nomem(err);
    p->options = options ? *options : defaults;
    uint32_t n = topo->nranks;
    ccl_status_t status = CCL_OK;
    p->all = calloc(n, sizeof *p->all);
    p->list_first = calloc(2 * (size_t)n + 1, sizeof *p->list_first);
    p->list_at = calloc(2 * (size_t)n + 1, sizeof *p->list_at);
    p->column = calloc(n, sizeof *p->column);
    if (!p->all || !p->column || !p->list_first || !p->list_at) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    for (uint32_t r = 0; r < n; r++)
        p->all[r] = r;
    CCL_TRY_GOTO(ccl_i_av_net_init(&p->net, topo, false, err), status, end);
    CCL_TRY_GOTO(ccl_i_av_work_init(&p->work, &p->net, err), status, end);
    p->work.cut_bytes = p->options.cut_bytes > 0 ? p->options.cut_bytes : CUT_BYTES;
    *out = p;
    return CCL_OK;
end:
    ccl_alltoallv_destroy(p);
    return status;
}

void ccl_alltoallv_destroy(ccl_alltoallv_t *p) {
    if (!p)
        return;
    ccl_i_av_work_fini(&p->work);
    ccl_i_av_net_fini(&p->net);
    free(p->all);
    free(p->column);
    free(p->chunks);
    free(p->lists);
    free(p->list_first);
    free(p->list_at);
    free(p->room);
    free(p);
}

/* ---------------------------------------------------------------- the matrix */

static ccl_status_t check(ccl_alltoallv_t *p, const double *bytes, double *largest_out,
                          ccl_error_t *err) {
    uint32_t n = p->net.n;
    p->nblocks = 0;
    double largest = 0, *in = p->column;
    memset(in, 0, n * sizeof *in);
    for (uint32_t s = 0; s < n; s++) {
        double out = 0;
        for (uint32_t d = 0; d < n; d++) {
            double x = bytes[(size_t)s * n + d];
            if (!(x >= 0) || isinf(x))
                return ccl_fail(err, CCL_ERR_INPUT, "%g bytes from rank %u to %u: 0 or more", x, s,
                                d);
            p->nblocks += x > 0 && s != d;
            out += x;
            in[d] += x;
        }
        largest = fmax(largest, out);
    }
    for (uint32_t d = 0; d < n; d++)
        largest = fmax(largest, in[d]);
    *largest_out = largest;
    return CCL_OK;
}

/* ---------------------------------------------------------------- the collective */

static void share_chunks(ccl_alltoallv_t *p, const double *bytes, double largest) {
    ccl_i_av_work_t *w = &p->work;
    uint32_t n = p->net.n;
    for (uint32_t s = 0, k = 0; s < n; s++) {
        for (uint32_t d = 0; d < n; d++, k++) {
            ccl_chunk_t c = {bytes[k] / largest, &p->all[s], &p->all[d], 1, 1, false};
            for (uint32_t i = w->nsub[k]; i < w->nsub[k + 1]; i++)
                p->chunks[i] = c;
        }
    }
    /* Cut blocks: each part has its piece's bytes. */
    for (size_t i = 0; i < w->npieces; i++) {
        const ccl_i_av_piece_t *piece = &w->pieces[i];
        const ccl_i_av_item_t *item = &w->items[piece->item];
        uint32_t first = w->nsub[item->chunk] + piece->sub;
        if (w->nsub[item->chunk + 1] - w->nsub[item->chunk] == 1)
            continue;
        double share = piece->bytes / piece->cuts / largest;
        for (uint32_t j = 0; j < piece->cuts; j++)
            p->chunks[first + j].share = share;
    }
}

/* What each rank puts in and gets out, as custom collectives have it. */
static ccl_status_t list_chunks(ccl_alltoallv_t *p, ccl_error_t *err) {
    ccl_i_av_work_t *w = &p->work;
    uint32_t n = p->net.n, at = 0;
    if (!ccl_grow(&p->lists, &p->clists, 2 * (size_t)w->nsub[w->nchunks] + 1, sizeof *p->lists))
        return ccl_fail_nomem(err);
    memset(p->list_at, 0, (2 * (size_t)n + 1) * sizeof *p->list_at);
    for (uint32_t s = 0, k = 0; s < n; s++) {
        for (uint32_t d = 0; d < n; d++, k++) {
            p->list_at[2 * s] += w->nsub[k + 1] - w->nsub[k];
            p->list_at[2 * d + 1] += w->nsub[k + 1] - w->nsub[k];
        }
    }
    for (uint32_t i = 0; i < 2 * n; i++) {
        uint32_t len = p->list_at[i];
        p->list_first[i] = p->list_at[i] = at;
        at += len;
    }
    p->list_first[2 * n] = at;
    for (uint32_t s = 0, k = 0; s < n; s++) {
        for (uint32_t d = 0; d < n; d++, k++) {
            for (uint32_t i = w->nsub[k]; i < w->nsub[k + 1]; i++) {
                p->lists[p->list_at[2 * s]++] = i;
                p->lists[p->list_at[2 * d + 1]++] = i;
            }
        }
    }
    return CCL_OK;
}

static ccl_status_t assemble(ccl_alltoallv_t *p, const double *bytes, double largest,
                             ccl_error_t *err) {
    ccl_i_av_work_t *w = &p->work;
    uint32_t nchunks = w->nsub[w->nchunks];
    if (!ccl_grow(&p->chunks, &p->cchunks, nchunks + (size_t)1, sizeof *p->chunks))
        return ccl_fail_nomem(err);
    share_chunks(p, bytes, largest);
    CCL_TRY(list_chunks(p, err));
    p->coll = (ccl_collective_t){.kind = CCL_CUSTOM,
                                 .nranks = p->net.n,
                                 .nchunks = nchunks,
                                 .chunks_per_block = 1,
                                 .chunks = p->chunks,
                                 .natural_bytes = largest,
                                 .name = "alltoallv",
                                 .custom_first = p->list_first,
                                 .custom_chunks = p->lists};
    uint32_t channels = 1;
    for (size_t i = 0; i < w->nmade; i++)
        channels = w->transfers[i].channel >= channels ? w->transfers[i].channel + 1u : channels;
    p->schedule = (ccl_schedule_t){.name = "alltoallv",
                                   .coll = &p->coll,
                                   .transfers = w->transfers,
                                   .ntransfers = (uint32_t)w->nmade,
                                   .nsteps = w->nmade ? w->transfers[w->nmade - 1].step + 1 : 0,
                                   .nchannels = channels};
    ccl_i_av_origin(w, p->schedule.origin);
    return CCL_OK;
}

static ccl_status_t verify(ccl_alltoallv_t *p, ccl_error_t *err) {
    if (!ccl_grow(&p->room, &p->croom, ccl_schedule_moves_room(&p->schedule), sizeof *p->room))
        return ccl_fail_nomem(err);
    if (ccl_schedule_moves_right(&p->schedule, p->room))
        return CCL_OK;
    ccl_verdict_t verdict;
    CCL_TRY(ccl_schedule_verify(NULL, &p->schedule, &verdict, err));
    return verdict.valid ? CCL_OK
                         : ccl_fail(err, CCL_ERR_INTERNAL, "alltoallv made a wrong schedule: %s",
                                    verdict.fault.text);
}

/* ---------------------------------------------------------------- plans */

static ccl_status_t plan_anew(ccl_alltoallv_t *p, const double *bytes, double largest,
                              ccl_error_t *err) {
    ccl_i_av_work_t *w = &p->work;
    uint32_t most = p->options.search_gpus ? p->options.search_gpus : SEARCH_GPUS;
    p->planned = false;
    w->heavy = false;
    CCL_TRY(ccl_i_av_items_matrix(w, bytes, err));
    CCL_TRY(ccl_i_av_ways(w, most != CCL_NONE && p->net.n <= most, err));
    if (w->searched && w->relayed_bytes > HEAVY_FROM * w->moved_bytes)
        CCL_TRY(ccl_i_av_make_heavy(w, err));
    CCL_TRY(ccl_i_av_emit(w, err));
    CCL_TRY(ccl_i_av_even_room(w, err));
    CCL_TRY(assemble(p, bytes, largest, err));
    CCL_TRY(verify(p, err));
    p->most_pieces = w->npieces + ccl_i_av_spare(w->npieces);
    p->reached = w->late ? 1 : fmax(1, w->load_max_s / w->bound_s);
    p->planned = true;
    return CCL_OK;
}

/* Blocks get their new bytes, and their pieces in proportion. */
static void scale(ccl_alltoallv_t *p, const double *bytes) {
    ccl_i_av_work_t *w = &p->work;
    uint32_t pairs = p->net.nservers * p->net.nservers;
    double sum = 0, moved = 0;
    p->changed_pairs = 0;
    for (uint32_t pair = 0; pair < pairs; pair++) {
        double before = moved;
        for (uint32_t i = w->item_first[pair]; i < w->item_first[pair + 1]; i++) {
            double x = bytes[w->items[i].chunk];
            moved += fabs(x - w->items[i].bytes);
            sum += x;
            w->items[i].factor = x / w->items[i].bytes;
            w->items[i].bytes = x;
        }
        p->changed_pairs += moved > before;
    }
    for (size_t i = 0; i < w->npieces; i++)
        w->pieces[i].bytes *= w->items[w->pieces[i].item].factor;
    w->moved_bytes = sum;
    p->changed_bytes = moved;
}

/*
 * The last plan for another matrix: each block keeps its ways and what part of it takes which, but
 * for what links would carry too much. The transfers stay as they are, and so does their proof, as
 * long as the same blocks have bytes. False: others have, or links would be loaded too unevenly.
 */
static ccl_status_t keep_ways(ccl_alltoallv_t *p, const double *bytes, double largest, bool *out,
                              ccl_error_t *err) {
    ccl_i_av_work_t *w = &p->work;
    double within = p->options.changed > 0 ? p->options.changed : CHANGED;
    size_t first = w->npieces;
    *out = p->planned && p->nblocks == w->nitems;
    for (uint32_t i = 0; *out && i < w->nitems; i++)
        *out = bytes[w->items[i].chunk] > 0;
    p->replanned = 0;
    if (!*out)
        return CCL_OK;
    p->planned = false; /* on the way to another */
    scale(p, bytes);
    ccl_i_av_load(w);
    CCL_TRY(ccl_i_av_cuts(w, err));
    double base_s = p->reached * w->bound_s;
    if (w->load_max_s > (1 + within) * base_s) {
        CCL_TRY(ccl_i_av_even(w, (1 + EVEN * within) * base_s, (1 + within) * base_s, err));
        for (uint32_t k = 0; k < p->net.nservers * p->net.nservers; k++)
            p->replanned += w->touched[k];
    }
    *out = w->load_max_s <= (1 + within) * base_s && w->npieces <= p->most_pieces;
    if (!*out)
        return CCL_OK;
    if (w->npieces > first) {
        CCL_TRY(ccl_i_av_add_pieces(w, first, err));
        CCL_TRY(assemble(p, bytes, largest, err));
    } else {
        share_chunks(p, bytes, largest);
        p->coll.natural_bytes = largest;
    }
    p->planned = true;
    return CCL_OK;
}

ccl_status_t ccl_alltoallv_plan(ccl_alltoallv_t *p, const double *bytes, double deadline_s,
                                const ccl_schedule_t **out, ccl_alltoallv_report_t *report,
                                ccl_error_t *err) {
    ccl_i_av_work_t *w = &p->work;
    double largest = 0;
    bool first = !p->planned, kept = false;
    w->deadline_s = deadline_s > 0 ? ccl_now_s() + deadline_s : 0;
    CCL_TRY(check(p, bytes, &largest, err));
    if (!(largest > 0))
        return ccl_fail(err, CCL_ERR_INPUT, "no bytes: nothing to do");
    w->late = false;
    CCL_TRY(keep_ways(p, bytes, largest, &kept, err));
    if (!kept)
        CCL_TRY(plan_anew(p, bytes, largest, err));
    if (report) {
        ccl_i_av_tell(w, report);
        report->replanned = kept ? p->replanned : report->pairs;
        report->changed_pairs = kept ? p->changed_pairs : report->pairs;
        report->changed = first || w->moved_bytes <= 0 ? 1 : p->changed_bytes / w->moved_bytes;
    }
    *out = &p->schedule;
    return CCL_OK;
}

void ccl_alltoallv_forget(ccl_alltoallv_t *p) {
    p->planned = false;
    ccl_i_av_forget(&p->work);
}

/* ---------------------------------------------------------------- shared with the synthesizer */

ccl_status_t ccl_i_av_ways(ccl_i_av_work_t *w, bool search, ccl_error_t *err) {
    const ccl_i_av_net_t *net = w->net;
    w->late = w->searched = false;
    w->ways_s = 0;
    CCL_TRY(ccl_i_av_cuts(w, err));
    if (!net->lacking) {
        ccl_i_av_shares(w);
        CCL_TRY(ccl_i_av_pieces(w, err));
        ccl_i_av_load(w);
    } else if (!search) {
        return ccl_fail(err, CCL_UNSUPPORTED,
                        "some servers have no route to each other, and %u GPUs are too many for a "
                        "search of ways",
                        net->n);
    }
    if (search && (net->lacking || w->apart ||
                   (w->load_max_s > SEARCH_FROM * w->bound_s && !ccl_i_av_is_late(w))))
        CCL_TRY(ccl_i_av_search(w, err));
    return ccl_i_av_cut(w, err);
}

void ccl_i_av_origin(const ccl_i_av_work_t *w, char *origin) {
    double relayed = w->moved_bytes > 0 ? w->relayed_bytes / w->moved_bytes : 0;
    ccl_origin_set(origin,
                   "alltoallv: %s, %.0f %% of the bytes relayed, busiest link %.3f of the cut",
                   w->searched ? "ways searched" : "balanced over NICs", 100 * relayed,
                   w->bound_s > 0 ? w->load_max_s / w->bound_s : 1);
}

void ccl_i_av_tell(const ccl_i_av_work_t *w, ccl_alltoallv_report_t *report) {
    uint32_t pairs = w->net->nservers * w->net->nservers;
    *report = (ccl_alltoallv_report_t){.load_s = w->load_max_s,
                                       .bound_s = w->bound_s,
                                       .cut = w->cut,
                                       .searched = w->searched,
                                       .late = w->late,
                                       .parts = w->nsub[w->nchunks],
                                       .changed = 1};
    report->relayed = w->moved_bytes > 0 ? w->relayed_bytes / w->moved_bytes : 0;
    for (uint32_t p = 0; p < pairs; p++)
        report->pairs += w->item_first[p] < w->item_first[p + 1];
}

void ccl_i_av_forget(ccl_i_av_work_t *w) {
    const ccl_i_av_net_t *net = w->net;
    for (uint32_t p = 0; p < net->nservers * net->nservers; p++)
        for (uint32_t l = net->lane_first[p]; l < net->lane_first[p + 1]; l++)
            w->share[l] = 1.0 / (net->lane_first[p + 1] - net->lane_first[p]);
}
