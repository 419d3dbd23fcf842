/*
 * A run as rows over time; private to timeline*.c.
 */
#ifndef CCL_DRAW_TIMELINE_H
#define CCL_DRAW_TIMELINE_H

#include "draw/canvas.h"

enum { CHUNK_COLOURS = 16 };

/** States of a thread block. */
enum { BUSY, WAIT_DATA, WAIT_PEER, WAIT_SLOT, NSTATES };

typedef struct ccl_i_timeline_row {
    uint32_t rank, server;
    uint32_t lanes; /* thread blocks in it */
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
    float *share;         /* [nrows][nbins][nstates] seconds */
    double time_s, left;  /* left: where the field begins */
    bool heat;            /* colours show a share, not a state */
    ccl_arena_t arena;
} ccl_i_timeline_t;

/** Choose and name the rows. */
ccl_status_t ccl_i_timeline_rows(ccl_i_timeline_t *t, ccl_error_t *err);
/** What the rows' thread blocks, or links, did: t->share. */
ccl_status_t ccl_i_timeline_blocks(ccl_i_timeline_t *t, ccl_error_t *err);
ccl_status_t ccl_i_timeline_links(ccl_i_timeline_t *t, ccl_error_t *err);

#endif
