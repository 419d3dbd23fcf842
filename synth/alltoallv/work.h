/*
 * Private to synth/alltoallv: a plan in the making. All arrays grow when they must and are kept
 * from plan to plan.
 */
#ifndef CCL_SYNTH_ALLTOALLV_WORK_H
#define CCL_SYNTH_ALLTOALLV_WORK_H

#include "synth/alltoallv/net.h"

/** A block, or what of it goes to one server. */
typedef struct ccl_i_av_item {
    double bytes, factor; /* factor: over the last plan's, where its ways are kept */
    uint32_t src, chunk;
    uint32_t first_dest; /* into dests */
    uint16_t ndests;
    uint8_t nth; /* 0: the only one of its chunk, 1: the first of several, 2: a later one */
    bool whole;  /* must not be cut */
} ccl_i_av_item_t;

/** What of an item takes one way, in `cuts` equal parts one after the other. */
typedef struct ccl_i_av_piece {
    double bytes;
    uint32_t item, lane; /* lane CCL_NONE: inside the server, or over `way` */
    uint32_t cuts, sub;  /* sub: parts of the chunk before it */
    uint32_t way, nhops; /* nhops > 0: ranks behind the source, into ways */
} ccl_i_av_piece_t;

/** What of an item had no room at its source's lanes. */
typedef struct ccl_i_av_rest {
    double bytes;
    uint32_t item;
} ccl_i_av_rest_t;

/** A way of a block over hops of the search. At most LEAST hops, where that reaches all GPUs. */
enum { CCL_I_AV_HOPS = 7, CCL_I_AV_LEAST_HOPS = 4 };
typedef struct ccl_i_av_way {
    double bytes;
    uint32_t nhops, hops[CCL_I_AV_HOPS];
} ccl_i_av_way_t;
typedef struct ccl_i_av_search ccl_i_av_search_t; /* search.c */

typedef struct ccl_i_av_work {
    const ccl_i_av_net_t *net;
    ccl_i_av_net_t *own_net;      /* the same: a search adds what its hops use */
    ccl_i_av_search_t *search;    /* NULL: none yet */
    double cut_bytes, deadline_s; /* deadline: by ccl_now_s(); 0: none */
    bool apart;                   /* as searched ways even where the plan by lanes is even */
    bool heavy; /* searched ways: finer parts, and what has most of a link gets most of it; sums:
                   those inside servers are not behind those that cross, on fewer connections */
    bool prove; /* fill ways_s */
    /* what has to move */
    ccl_i_av_item_t *items;
    uint32_t *item_first; /* [nservers^2 + 1] by pair of servers */
    uint32_t *dests;
    size_t nitems, citems, ndests, cdests;
    uint32_t nchunks; /* of the collective that is wanted */
    double moved_bytes;
    /* how it goes */
    double *share;       /* [nlanes] of its pair's bytes */
    double *lane_bytes;  /* [nlanes] */
    double *left;        /* [CCL_I_AV_LANES] */
    double *load_s;      /* [nresources] */
    double *inner_bytes; /* [2][ninner] from a source or to where it stays; and from a NIC */
    double *border;      /* what leaves and enters each part of a level */
    uint64_t *crossed;   /* [nchunks] parts whose border a chunk of several items has crossed */
    size_t cborder, ccrossed;
    double load_max_s, bound_s;
    double ways_s;     /* no ways of at most way_hops hops load links less; 0: not known */
    uint32_t way_hops; /* of a search */
    const char *cut;
    bool searched, late;
    ccl_i_av_piece_t *pieces;
    uint32_t *piece_first; /* [nservers^2 + 1] */
    size_t npieces, cpieces;
    ccl_i_av_rest_t *rest; /* of the pair in hand */
    size_t nrest, crest;
    double way_slow;       /* seconds of a byte on the slowest of the ways' links */
    ccl_i_av_lane_t *ways; /* hops of searched pieces */
    size_t nways, cways;
    uint32_t *nsub; /* [nchunks + 1] parts of a chunk; then their first */
    size_t cnsub;
    double relayed_bytes;
    /* the schedule */
    uint32_t nsteps, stride;
    ccl_transfer_t *made, *transfers;
    uint32_t *step_first;
    size_t nmade, cmade, ctransfers, cstep_first;
    uint32_t *blocks; /* [n] */
    size_t cblocks;
    uint8_t *lane_channels, *inner_channels[2];
    /* a plan for another matrix: even.c */
    uint32_t *item_piece,
        *piece_next;          /* [nitems], [npieces] pieces of an item; CCL_NONE: no more */
    double *shed;             /* [nlanes] bytes that are to leave */
    uint8_t *touched;         /* [nservers^2] blocks have other ways */
    uint32_t *shift, *number; /* [nchunks + 1], [parts]: numbers of parts as they were */
    ccl_chunk_t *fresh;       /* [new parts] */
    uint32_t *fresh_number, *room;
    size_t citem_piece, cpiece_next, cshift, cnumber, cfresh, cfresh_number, croom;
} ccl_i_av_work_t;

ccl_status_t ccl_i_av_work_init(ccl_i_av_work_t *w, ccl_i_av_net_t *net, ccl_error_t *err);
void ccl_i_av_work_fini(ccl_i_av_work_t *w);
/** Items of a matrix [n][n]. */
ccl_status_t ccl_i_av_items_matrix(ccl_i_av_work_t *w, const double *bytes, ccl_error_t *err);
/**
 * Items of a collective: chunks of one source (or, reversed, one destination).
 * @param whole  no chunk is cut.
 */
ccl_status_t ccl_i_av_items_collective(ccl_i_av_work_t *w, const ccl_collective_t *coll,
                                       double size_bytes, bool whole, ccl_error_t *err);
/** Time that no schedule of the items can beat, by the cuts of net->levels. */
ccl_status_t ccl_i_av_cuts(ccl_i_av_work_t *w, ccl_error_t *err);
/** Lanes' bytes such that links are loaded evenly. */
void ccl_i_av_shares(ccl_i_av_work_t *w);
/** Pieces: which part of an item takes which lane. */
ccl_status_t ccl_i_av_pieces(ccl_i_av_work_t *w, ccl_error_t *err);
/** Into how many parts pieces are cut, and where these are in their chunks. */
ccl_status_t ccl_i_av_cut(ccl_i_av_work_t *w, ccl_error_t *err);
/** The same by a search of ways from GPU to GPU, where it loads links less. */
ccl_status_t ccl_i_av_search(ccl_i_av_work_t *w, ccl_error_t *err);
/** The ways that were searched, as `heavy` ones. */
ccl_status_t ccl_i_av_make_heavy(ccl_i_av_work_t *w, ccl_error_t *err);
void ccl_i_av_search_fini(ccl_i_av_search_t *s);
/** Loads of all links by the pieces, and the greatest. */
void ccl_i_av_load(ccl_i_av_work_t *w);
/** Connections for the bytes of a hop beside `flows` - 1 others (0: as if even), at most `most`. */
uint8_t ccl_i_av_channels(const ccl_i_av_work_t *w, const ccl_i_av_lane_t *lane, double bytes,
                          uint32_t flows, uint32_t most);
/** How many parts one piece has, and where they are among its chunk's; nsub as while it is counted.
 */
void ccl_i_av_cut_piece(ccl_i_av_work_t *w, ccl_i_av_piece_t *p);
/**
 * A plan whose blocks have other bytes: these leave what is loaded above the limit until it is at
 * the aim, for pieces of the
 * same block on other ways or new pieces over other lanes, which come behind the others.
 */
ccl_status_t ccl_i_av_even(ccl_i_av_work_t *w, double aim_s, double limit_s, ccl_error_t *err);
/** Pieces from `first` on become transfers among those of the plan, and are verified. */
ccl_status_t ccl_i_av_add_pieces(ccl_i_av_work_t *w, size_t first, ccl_error_t *err);
/** Of pieces from `first` on: into `made`, by steps, of parts 0, 1, .. in order of the pieces. */
ccl_status_t ccl_i_av_emit_more(ccl_i_av_work_t *w, size_t first, ccl_error_t *err);
/** Room for as much as a changed matrix may need, so that it allocates nothing. */
ccl_status_t ccl_i_av_even_room(ccl_i_av_work_t *w, ccl_error_t *err);
/** Transfers in order of steps, of chunk numbers nsub[chunk] + part; reversed ones all reduce. */
ccl_status_t ccl_i_av_emit(ccl_i_av_work_t *w, ccl_error_t *err);
/** Cuts, shares, pieces, and a search where that is allowed and wanted; all but the transfers. */
ccl_status_t ccl_i_av_ways(ccl_i_av_work_t *w, bool search, ccl_error_t *err);
/** @param origin  a ccl_origin_t. */
void ccl_i_av_origin(const ccl_i_av_work_t *w, char *origin);
void ccl_i_av_tell(const ccl_i_av_work_t *w, ccl_alltoallv_report_t *report);
void ccl_i_av_forget(ccl_i_av_work_t *w);
/** New pieces that a plan may get from changed matrices until it is made again. */
static inline size_t ccl_i_av_spare(size_t npieces) {
    return npieces / 4 + 64;
}
static inline bool ccl_i_av_is_late(ccl_i_av_work_t *w) {
    if (w->deadline_s > 0 && !w->late)
        w->late = ccl_now_s() > w->deadline_s;
    return w->late;
}

#endif
