/**
 * @file search.h
 * Which schedule wins: every chosen synthesizer at every size.
 */
#ifndef CCL_SEARCH_SEARCH_H
#define CCL_SEARCH_SEARCH_H

#include "synth/synth.h"

#ifdef __cplusplus
extern "C" {
#endif

/** One contender: a synthesizer, or a program of the user's. */
typedef struct ccl_contender {
    const char *name;             /**< column title */
    const ccl_program_t *program; /**< NULL: synthesize `name` */
} ccl_contender_t;

typedef struct ccl_compare_options {
    size_t size;
    const ccl_contender_t *contenders;
    uint32_t ncontenders;
    const double *sizes_bytes;
    uint32_t nsizes;
    ccl_synth_options_t synth;
    ccl_lower_options_t lower;
    ccl_sim_options_t sim; /**< size_bytes is set per run */
    bool no_verify;        /**< take contenders' own programs without proof */
} ccl_compare_options_t;

typedef struct ccl_compare_cell {
    ccl_status_t status; /**< CCL_OK, or why there is no time */
    double time_s, algbw_GBps, busbw_GBps;
    double low_s, high_s; /**< spread over sizes (1 -+ 1e-6) */
    uint32_t batches;
} ccl_compare_cell_t;

typedef struct ccl_comparison {
    uint32_t ncontenders, nsizes;
    const char **names;           /**< [ncontenders] */
    const char **why_not;         /**< [ncontenders] NULL, or why it does not take part */
    uint32_t *thread_blocks;      /**< [ncontenders] most per GPU */
    double *sizes_bytes;          /**< [nsizes] */
    ccl_compare_cell_t *cells;    /**< [nsizes][ncontenders] */
    uint32_t *winner;             /**< [nsizes] contender, CCL_NONE: none ran */
    bool *tie;                    /**< [nsizes] another is within the winner's spread */
    ccl_sim_result_t **best;      /**< [nsizes] full result of the winner; NULL when none */
    uint32_t nwarnings;
    const char **warnings; /**< [nwarnings] of the simulator on this cluster, each kind once */
    ccl_arena_t arena;
} ccl_comparison_t;

/**
 * Synthesize, lower, verify and simulate every contender at every size, in parallel.
 * A size is repeated at (1 -+ 1e-6) to see its spread; a winner inside the spread of another is a tie.
 * @par Determinism  the same for any number of threads.
 */
ccl_status_t ccl_compare(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                         const ccl_collective_t *want, const ccl_compare_options_t *options,
                         ccl_comparison_t **out, ccl_error_t *err);
/** Do two warnings say the same of different links or transports (which stand before the colon)? */
bool ccl_warnings_alike(const char *a, const char *b);
void ccl_comparison_destroy(ccl_comparison_t *comparison);

#ifdef __cplusplus
}
#endif
#endif
