/**
 * @file topology.h
 * Private to draw/topology*.c: a cluster while it is drawn, and its lines.
 */
#ifndef CCL_DRAW_TOPOLOGY_H
#define CCL_DRAW_TOPOLOGY_H

#include "draw/layout.h"

/** All links between two devices of one kind. */
typedef struct ccl_i_drawn_edge {
    uint32_t a, b, kind; /* a < b */
    double there_Bps, back_Bps;
    double share; /* utilisation of the busiest */
    uint32_t nlinks;
} ccl_i_drawn_edge_t;

typedef struct ccl_i_drawn_cluster {
    const ccl_topology_t *topo;
    const ccl_draw_topology_options_t *options;
    ccl_picture_t *p;
    ccl_i_draw_layout_t l;
    ccl_i_drawn_edge_t *edges;
    uint32_t nedges;
    double most_Bps, busiest; /* busiest: utilisation, of all links */
    double heat_top;          /* utilisation at the end of the scale of colours */
} ccl_i_drawn_cluster_t;

/** Edges between what is drawn. */
ccl_status_t ccl_i_edges_make(ccl_i_drawn_cluster_t *g, ccl_error_t *err);
/** All lines, the busiest in front, with their bandwidths. */
ccl_status_t ccl_i_edges_draw(ccl_i_drawn_cluster_t *g, ccl_error_t *err);
/** How a line of a kind is drawn. @param share  utilisation */
ccl_i_pen_t ccl_i_edge_pen(const ccl_i_drawn_cluster_t *g, uint32_t kind, double Bps, double share);
/** Colour of a utilisation on the scale of this picture. */
uint32_t ccl_i_edge_heat(const ccl_i_drawn_cluster_t *g, double share);

#endif
