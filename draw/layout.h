/**
 * @file layout.h
 * Private to draw/: where the devices of a cluster stand, and which servers stand for others.
 */
#ifndef CCL_DRAW_LAYOUT_H
#define CCL_DRAW_LAYOUT_H

#include "draw/canvas.h"

typedef struct ccl_i_layout_place {
    double x, y, w, h; /* middle of the device, its width and height */
    bool drawn;
} ccl_i_layout_place_t;

/** A server, or (the last one, where there are such) the GPUs and NICs outside of all servers. */
typedef struct ccl_i_box {
    uint32_t first, n; /* into devices */
    uint32_t like;     /* the box that is drawn for it: itself or an earlier one */
    uint32_t alike;    /* how many it stands for, itself included */
    double x, y, w, h; /* of those that are drawn */
    bool flat;         /* outside of all servers: no frame */
    bool grid;         /* its GPUs stand in several rows */
    uint32_t folded;   /* GPUs that are like others of it and not drawn */
} ccl_i_box_t;

typedef struct ccl_i_draw_layout {
    const ccl_topology_t *topo;
    ccl_i_layout_place_t *places; /* [ndevices] */
    uint32_t *box_of;             /* [ndevices]; CCL_NONE: fabric */
    uint32_t *at;                 /* [ndevices] position in its box */
    uint32_t *devices;            /* by box, then index */
    uint32_t *level;              /* [ndevices] of fabric: 0 next to servers */
    ccl_i_box_t *boxes;
    uint32_t nboxes, ndrawn;
    bool folded;
    uint32_t hidden;  /* switches of the fabric that are left out */
    uint32_t *stands; /* [ndevices] device that is drawn for it within its box: mostly itself */
    bool springs;     /* GPUs outside of servers stand as their links want it, not in rows */
    double width, bottom;
    ccl_arena_t arena;
} ccl_i_draw_layout_t;

/** Links of devices in both directions: those of d are list[first[d]] to list[first[d + 1]] - 1. */
typedef struct ccl_i_neighbours {
    const uint32_t *first, *list;
} ccl_i_neighbours_t;

/** In boxes of many GPUs that are alike, the first of them stand for all: l->stands, box->folded.
 */
ccl_status_t ccl_i_layout_fold(ccl_i_draw_layout_t *l, const ccl_i_neighbours_t *near,
                               ccl_error_t *err);
/**
 * Places for the GPUs of a flat box by stress majorization of their distances in hops, where fewer
 * lines then cross than in rows; l->springs.
 * @param x,y  its corner; width and height are written to the box.
 */
ccl_status_t ccl_i_layout_springs(ccl_i_draw_layout_t *l, ccl_i_box_t *box,
                                  const ccl_i_neighbours_t *near, ccl_error_t *err);

/** Name of a device without its server's. */
const char *ccl_i_short_id(const ccl_topology_t *topo, uint32_t device);
/** @param top  y above which nothing stands. */
ccl_status_t ccl_i_draw_layout(const ccl_topology_t *topo, double top, ccl_i_draw_layout_t *out,
                               ccl_error_t *err);
void ccl_i_draw_layout_fini(ccl_i_draw_layout_t *layout);

#endif
