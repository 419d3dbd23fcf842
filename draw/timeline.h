/*
 * A run as rows over time; private to timeline*.c.
 */
#ifndef CCL_DRAW_TIMELINE_H
#define CCL_DRAW_TIMELINE_H

#include "draw/canvas.h"

enum { CHUNK_COLOURS = 16, CCL_I_MOST_ROWS = 160 };

/** States of a thread block. */
enum { BUSY, WAIT_DATA, WAIT_PEER, WAIT_SLOT, NSTATES };

typedef struct ccl_i_timeline_row {
    uint32_t rank, server;
    uint32_t lanes; /* thread blocks in it */
    uint32_t alike; /* rows that look like it and are not drawn */
    char name[64];
} ccl_i_timeline_row_t;

typedef struct ccl_i_timeline {
    const ccl_topology_t *topo;
    const ccl_program_t *program;
    const ccl_sim_result_t *result;
    const ccl_draw_timeline_options_t *options;
    const ccl_trace_span_t *spans;
    uint64_t nspans;
    ccl_draw_rows_t by;
    ccl_i_timeline_row_t *rows;
    uint32_t nrows, nbins, nstates, nchunks, nlinks, nlanes;
    /* lanes: thread blocks, at stage level of one stage each */
    uint32_t *first_lane; /* [ntbs + 1] */
    uint32_t *lane_row;   /* [lanes] CCL_NONE: not drawn */
    uint32_t *link_row;   /* [nlinks] */
    uint32_t *phase_row;  /* [nsteps] of rows of phases; else NULL */
    float *share;         /* [nrows][nbins][nstates] seconds */
    double time_s, left;  /* left: where the field begins */
    bool too_many;        /* blocks that differ, for a row each */
    uint32_t folded;      /* rows that are not drawn, as others look like them */
    bool heat;            /* colours show a share, not a state */
    ccl_arena_t arena;
} ccl_i_timeline_t;

/** Name the rows of t->by; a first choice, where that is not said: t->by. */
ccl_status_t ccl_i_timeline_rows(ccl_i_timeline_t *t, ccl_error_t *err);
/** Rows by what is done over which kind of link. */
ccl_status_t ccl_i_timeline_phases(ccl_i_timeline_t *t, ccl_error_t *err);
/** Rows of blocks, GPUs, servers or links that look alike become one, with their number. */
ccl_status_t ccl_i_timeline_fold(ccl_i_timeline_t *t, ccl_error_t *err);
/** What moves, of the k-th of CHUNK_COLOURS parts of the chunks, in words. */
void ccl_i_timeline_chunk(const ccl_i_timeline_t *t, uint32_t k, char *out, size_t out_len);
/** What the rows' thread blocks, or links, did: t->share. */
ccl_status_t ccl_i_timeline_blocks(ccl_i_timeline_t *t, ccl_error_t *err);
ccl_status_t ccl_i_timeline_links(ccl_i_timeline_t *t, ccl_error_t *err);

#endif
