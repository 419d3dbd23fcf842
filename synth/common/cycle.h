/* Private to synth: Hamiltonian paths and cycles, by heuristic search (cycle.c), and in small
 * graphs exactly (cycle_small.c). */
#ifndef CCL_SYNTH_CYCLE_H
#define CCL_SYNTH_CYCLE_H

#include "base/base.h"

/** A small directed graph with edge weights (0: no edge) and what a search needs. */
typedef struct ccl_i_graph {
    uint32_t m;
    double *weight; /* [m][m] */
} ccl_i_graph_t;

/** Which path is wanted. */
typedef struct ccl_i_path_want {
    uint32_t start, end; /* CCL_NONE: any */
    bool cycle;          /* the ends are one: m edges */
    uint64_t variant;    /* 0: natural order first; else another of the equal answers */
    double most;         /* what no path can be wider than (INFINITY: not known) */
} ccl_i_path_want_t;

/**
 * A path over all nodes whose narrowest edge is as wide as the search finds.
 *
 * @param path  [m] nodes; a cycle does not repeat the start.
 * @param bottleneck_out  its narrowest edge; 0: none was found.
 */
ccl_status_t ccl_i_path_find(const ccl_i_graph_t *graph, const ccl_i_path_want_t *want,
                             uint32_t *path, double *bottleneck_out, ccl_error_t *err);
/** Most nodes of a graph for ccl_i_path_small(): time and room double with each. */
#define CCL_I_SMALL_GRAPH 10

/**
 * The same exactly, and of the widest paths the one with the least sum of 1 / weight: over edges
 * that have most left.
 */
ccl_status_t ccl_i_path_small(const ccl_i_graph_t *graph, const ccl_i_path_want_t *want,
                              uint32_t *path, double *bottleneck_out, ccl_error_t *err);
/**
 * A closed walk over all nodes, as few of them twice as the search finds: a long cycle grown by
 * insertion, with detours to what is left. @param walk  room for 2 m. @param len_out 0: none.
 */
ccl_status_t ccl_i_walk_find(const ccl_i_graph_t *graph, double threshold, uint64_t variant,
                             uint32_t *walk, uint32_t *len_out, ccl_error_t *err);

#endif
