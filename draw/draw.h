/**
 * @file draw.h
 * Pictures of clusters, runs and comparisons as SVG, PDF and PNG.
 *
 * A picture is a list of shapes that the functions below fill and ccl_picture_write() writes.
 * Lengths are units of 1/96 inch, a pixel of an SVG. Equal input gives equal bytes: no dates, no
 * host names. Letters are DejaVu Sans; layout uses its widths whether it is installed or not.
 */
#ifndef CCL_DRAW_DRAW_H
#define CCL_DRAW_DRAW_H

#include "sim/sim.h"

CCL_BEGIN_DECLS

typedef enum ccl_draw_format { CCL_DRAW_SVG, CCL_DRAW_PDF, CCL_DRAW_PNG } ccl_draw_format_t;
/**
 * The format that a file name asks for by its end: .svg, .pdf, .png in any case.
 * @retval CCL_ERR_USAGE  another one, or none.
 */
ccl_status_t ccl_draw_format_of(const char *path, ccl_draw_format_t *out, ccl_error_t *err);

typedef struct ccl_picture ccl_picture_t;
/** Frees it and all it owns; NULL is fine. */
void ccl_picture_destroy(ccl_picture_t *picture);
double ccl_picture_width(const ccl_picture_t *picture);  /**< units */
double ccl_picture_height(const ccl_picture_t *picture); /**< units */
/**
 * Append a picture to `out`.
 *
 * @param width_px  the picture is scaled to this many pixels (PDF: units); 0: its own width.
 * @retval CCL_ERR_INPUT    a PNG of more than 32,767 pixels a side.
 * @retval CCL_ERR_MISSING  PDF and PNG: the font DejaVu Sans is not installed.
 */
ccl_status_t ccl_picture_write(const ccl_picture_t *picture, ccl_draw_format_t format,
                               uint32_t width_px, ccl_text_t *out, ccl_error_t *err);
/**
 * As an element `svg` that can stand inside an HTML page.
 * @param wide  it takes the width of what it stands in.
 */
ccl_status_t ccl_picture_write_inline(const ccl_picture_t *picture, bool wide, ccl_text_t *out,
                                      ccl_error_t *err);

/* ---------------------------------------------------------------- clusters */

typedef struct ccl_draw_topology_options {
    size_t size;
    const char *title;           /**< NULL: the cluster's name */
    const ccl_link_use_t *links; /**< [nlinks] of a run: links are coloured by it; NULL: by kind */
    const char *run;             /**< then what was run, for the line below the title */
} ccl_draw_topology_options_t;
/** The defaults. */
#define CCL_DRAW_TOPOLOGY_OPTIONS_INIT                                                             \
    { sizeof(ccl_draw_topology_options_t), NULL, NULL, NULL }
/**
 * A cluster: servers as boxes with their GPUs, switches and NICs, the fabric above; a line per pair
 * of linked devices, its width by the square root of its bandwidth (the larger direction).
 *
 * Where servers in a row would be wider than a page, those that are alike (devices, models and
 * links by their place in the server) are drawn once, with the number of them, and all servers
 * again as small boxes; a folded link's colour is that of the busiest it stands for.
 *
 * @param options  NULL: defaults.
 * @param out      destroy with ccl_picture_destroy().
 */
ccl_status_t ccl_draw_topology(const ccl_topology_t *topo,
                               const ccl_draw_topology_options_t *options, ccl_picture_t **out,
                               ccl_error_t *err);

/* ---------------------------------------------------------------- runs over time */

typedef enum ccl_draw_rows {
    CCL_DRAW_ROWS_AUTO,  /**< blocks where at most 160 differ, else GPUs, above 512 servers */
    CCL_DRAW_ROWS_BLOCK, /**< one per thread block; at stage level, one per block and stage */
    CCL_DRAW_ROWS_GPU,
    CCL_DRAW_ROWS_SERVER,
    CCL_DRAW_ROWS_LINK, /**< one per link that carried data, at most 160 */
    CCL_DRAW_ROWS_PHASE /**< one per phase: reducing, moving, over which kind of link */
} ccl_draw_rows_t;
typedef struct ccl_draw_timeline_options {
    size_t size;
    const char *title; /**< NULL: the program's name */
    ccl_draw_rows_t rows;
    bool by_chunk; /**< busy time is coloured by chunk (place in the buffer) instead of by state */
    uint32_t rank; /**< only blocks of this GPU; CCL_NONE: all */
    bool unfolded; /**< rows that look alike are drawn one by one */
} ccl_draw_timeline_options_t;
/** The defaults. */
#define CCL_DRAW_TIMELINE_OPTIONS_INIT                                                             \
    { sizeof(ccl_draw_timeline_options_t), NULL, CCL_DRAW_ROWS_AUTO, false, CCL_NONE, false }
/**
 * A run over time: what every thread block did (busy, or what it waited for), or how busy every
 * link was.
 *
 * A row of one block shows its states; a row of many shows the share of them that is busy by its
 * colour and, where rows are not too thin for it, the share that waits by how far it is light from
 * its top (in quarters), and a row of a link the share of its bandwidth that is used. Time is cut
 * into as many parts as the picture can show and 40,000 rectangles can draw; a part of a row has
 * the colour of what took the most of it, equal neighbours are one rectangle. Rows that look alike
 * (to 1 % of their time) are drawn once, with their number. So a million
 * transfers make no larger picture than ten thousand do.
 *
 * @param result  of the run that filled `trace`.
 * @param trace   kept passes; for rows of links, slices.
 * @param out     destroy with ccl_picture_destroy().
 * @retval CCL_UNSUPPORTED  the trace dropped events.
 * @retval CCL_ERR_INPUT    no such rank; nothing ran.
 */
ccl_status_t ccl_draw_timeline(const ccl_topology_t *topo, const ccl_program_t *program,
                               const ccl_sim_result_t *result, const ccl_trace_t *trace,
                               const ccl_draw_timeline_options_t *options, ccl_picture_t **out,
                               ccl_error_t *err);

/* ---------------------------------------------------------------- comparisons */

typedef struct ccl_draw_curve {
    const char *name;
    const double *values; /**< one for each place on the axis; NaN: none, the line has a gap */
} ccl_draw_curve_t;
/** Several schedules of one collective on one cluster. */
typedef struct ccl_draw_busbw {
    const char *title;
    uint32_t nsizes, ncurves;
    const double *sizes_bytes;      /**< [nsizes] > 0 */
    const ccl_draw_curve_t *curves; /**< busbw in GB/s */
    const double *bound_GBps; /**< [nsizes] what none can exceed; NaN: not known; NULL: none */
    double factor; /**< busbw / algbw, so that time is size x factor / busbw; 0: no plot of time */
} ccl_draw_busbw_t;
/**
 * busbw over size and, beside the one of bandwidth, time over size, on logarithmic axes, so that
 * small sizes are as legible as large ones; one pair below the other.
 */
ccl_status_t ccl_draw_busbw(const ccl_draw_busbw_t *plots, uint32_t nplots, ccl_picture_t **out,
                            ccl_error_t *err);

/** Anything over a setting. */
typedef struct ccl_draw_curves {
    const char *title, *x_name, *y_name; /**< names of axes with their units */
    uint32_t n, ncurves;
    const double *x;                /**< [n] > 0, ascending */
    const ccl_draw_curve_t *curves; /**< [n] >= 0 */
} ccl_draw_curves_t;
/** Curves over a logarithmic axis, from 0 on; one plot below the other. */
ccl_status_t ccl_draw_curves(const ccl_draw_curves_t *plots, uint32_t nplots, ccl_picture_t **out,
                             ccl_error_t *err);

/** Times over samples of one contender. */
typedef struct ccl_draw_spread {
    const char *name;
    const double *quantile_s; /**< [n] ascending: what shares 0, 1 / (n - 1) ... 1 of the samples do
                                 not exceed; not finite: none */
} ccl_draw_spread_t;
typedef struct ccl_draw_spreads {
    const char *title;
    uint32_t n, ncurves; /**< n >= 2 quantiles of each */
    const ccl_draw_spread_t *curves;
} ccl_draw_spreads_t;
/** Share of the samples over time (the empirical distribution), a step curve each; one plot below
 * the other. A curve of which samples are lost ends below 100 %. */
ccl_status_t ccl_draw_spreads(const ccl_draw_spreads_t *plots, uint32_t nplots, ccl_picture_t **out,
                              ccl_error_t *err);

typedef struct ccl_draw_point {
    double size_bytes, value; /**< both > 0 */
    uint32_t kind;            /**< < nkinds: its colour and marker */
    const char *about;        /**< what is shown under a pointer */
} ccl_draw_point_t;
/** Single results of several kinds. */
typedef struct ccl_draw_points {
    const char *title, *y_name;
    uint32_t n, nkinds;
    const char *const *names;       /**< [nkinds] */
    const ccl_draw_point_t *points; /**< [n >= 1] by kind, size, value, ascending */
} ccl_draw_points_t;
/**
 * Values over size, both on logarithmic axes, with a line at 1, which none should be below. Kinds
 * stand side by side; of one kind and size, points less than a pixel above one that is drawn are
 * left out.
 */
ccl_status_t ccl_draw_points(const ccl_draw_points_t *plot, ccl_picture_t **out, ccl_error_t *err);

/** Seconds of a thread block by state, as ccl_tb_use_t. */
typedef struct ccl_draw_block {
    uint32_t rank, id;
    double start_s, done_s, busy_s, data_s, peer_s, slot_s;
} ccl_draw_block_t;
typedef struct ccl_draw_blocks {
    const char *title;
    double time_s; /**< of the run */
    uint32_t nblocks;
    const ccl_draw_block_t *blocks;
} ccl_draw_blocks_t;
/**
 * How long every thread block held its SM and what it did meanwhile, a bar each; runs below each
 * other on one scale of time.
 *
 * @param rank  blocks of this GPU; CCL_NONE: in every run the GPU with the most blocks.
 * @par Source  ResCCL (SIGCOMM 2025), figure 12.
 */
ccl_status_t ccl_draw_idle(const ccl_draw_blocks_t *runs, uint32_t nruns, uint32_t rank,
                           ccl_picture_t **out, ccl_error_t *err);

/** A piece of a bar. */
typedef struct ccl_draw_piece {
    const char *name;
    uint32_t colour; /**< pieces of equal numbers have one colour */
    double time_s;
} ccl_draw_piece_t;
/** What a change alters. */
typedef enum ccl_draw_change_of {
    CCL_DRAW_CHANGE_PROGRAM,
    CCL_DRAW_CHANGE_SETTING,
    CCL_DRAW_CHANGE_HARDWARE
} ccl_draw_change_of_t;
/** What was tried in place of a run. */
typedef struct ccl_draw_change {
    const char *what;
    ccl_draw_change_of_t of;
    double time_s;
} ccl_draw_change_t;
/** Why a run took its time. */
typedef struct ccl_draw_explanation {
    const char *title;
    double time_s;  /**< > 0 */
    double bound_s; /**< NaN: none */
    uint32_t ncauses, nwaits, nparts, nchanges;
    const ccl_draw_piece_t *causes; /**< [ncauses] of the critical path, by what it is spent on */
    const ccl_draw_piece_t *waits;  /**< [nwaits] the same time by why it had to be spent */
    const char *cut;                /**< a line about the links of the bound */
    const double *busy; /**< [nparts] use of these links in equal parts of the run, 0..1 */
    const uint32_t *on; /**< [nparts] colour of the path's main cause meanwhile */
    double cut_busy;    /**< over the whole run, 0..1 */
    const ccl_draw_change_t *changes; /**< [nchanges] the shortest time first */
} ccl_draw_explanation_t;
/**
 * The critical path as bars by cause and by wait, how busy the links of the bound were meanwhile
 * (where there are parts), and the changes tried as bars beside the run's time and the bound (where
 * there are any, at most the first 24).
 */
ccl_status_t ccl_draw_explanation(const ccl_draw_explanation_t *about, ccl_picture_t **out,
                                  ccl_error_t *err);

/** A moment of a search. */
typedef struct ccl_draw_moment {
    double at_s;              /**< seconds spent by the solver so far */
    uint32_t best, bound;     /**< steps: of the best schedule, proven least */
    uint32_t counterexamples; /**< of this moment's candidate */
    bool candidate;           /**< a candidate was looked at, else only best and bound are news */
    bool begins;              /**< of another search than the moment before */
} ccl_draw_moment_t;
typedef struct ccl_draw_search {
    const char *title;
    uint32_t nmoments;
    const ccl_draw_moment_t *moments; /**< in order of time */
} ccl_draw_search_t;
/** Best and bound of searches over time, with the counterexamples below; lines end where another
 * search begins. */
ccl_status_t ccl_draw_progress(const ccl_draw_search_t *searches, uint32_t nsearches,
                               ccl_picture_t **out, ccl_error_t *err);

CCL_END_DECLS
#endif
