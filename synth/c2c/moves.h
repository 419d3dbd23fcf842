/* Private to c2c*.c: transfers of a cluster-to-cluster schedule, in time. */
#ifndef CCL_SYNTH_C2C_MOVES_H
#define CCL_SYNTH_C2C_MOVES_H

#include "synth/c2c/c2c.h"

typedef struct ccl_i_c2c_move {
    double key; /* moves with one key share a step */
    ccl_transfer_t t;
} ccl_i_c2c_move_t;

/**
 * A schedule in the making. Times only order moves: start collectives take 1, a step between
 * clusters takes 1, end collectives 1/2 behind what they wait for. In a sequential schedule a time
 * is a step, and phases follow each other.
 */
typedef struct ccl_i_c2c {
    const ccl_ctx_t *ctx;
    const ccl_topology_t *topo;
    ccl_i_cluster_t *cluster;
    const ccl_i_c2c_map_t *map;
    const ccl_collective_t *want;
    ccl_collective_t *coll; /* want, cut */
    const char *inner;      /* synthesizer of collectives inside; NULL: the fastest of a few */
    bool sequential;
    uint32_t parts; /* that a chunk of want is cut into */
    /* [nclusters] each; those that the collective does not need are empty */
    ccl_i_c2c_hom_t *gather, *scatter, *pairs, root;
    uint32_t end_channels;           /* end collectives run on channels higher by this */
    uint32_t sum_channel;            /* hops from where data lands to where it is reduced */
    uint32_t start_steps, c2c_steps; /* of a sequential schedule */
    uint32_t chunk, part;            /* the chunk in hand, its number in its block */
    double *arrived;                 /* [nranks] of the chunk in hand */
    uint32_t *stamp, serial;
    ccl_i_c2c_move_t *moves;
    size_t nmoves, cap;
    ccl_arena_t arena;
} ccl_i_c2c_t;

/** One step between clusters of a set of chunks; what each sends, in what order. */
typedef struct ccl_i_c2c_link {
    uint32_t n;
    uint32_t *from, *to;     /* [n] ranks */
    uint32_t *index, *count; /* [n] among those that leave `from` */
} ccl_i_c2c_link_t;

/** Moves of another chunk follow; it is at rank `source` (CCL_NONE: at its contributors). */
void ccl_i_c2c_begin(ccl_i_c2c_t *b, uint32_t chunk, uint32_t part, uint32_t source);
double ccl_i_c2c_arrived(const ccl_i_c2c_t *b, uint32_t rank);
/** A move no earlier than `key`, nor than its chunk's arrival. @param span that it takes. */
ccl_status_t ccl_i_c2c_add(ccl_i_c2c_t *b, ccl_transfer_t t, double key, double span,
                           ccl_error_t *err);
/** A collective's moves of its chunk `index`, from `base` on. @param end_out when it is over. */
ccl_status_t ccl_i_c2c_run(ccl_i_c2c_t *b, const ccl_i_c2c_hom_t *hom, uint32_t index, double base,
                           bool end, double *end_out, ccl_error_t *err);
/** From border to border in c2c step `step`, the i-th of a link. @param ready not before. */
ccl_status_t ccl_i_c2c_cross(ccl_i_c2c_t *b, const ccl_i_c2c_link_t *link, uint32_t i,
                             uint32_t step, bool reduce, double ready, ccl_error_t *err);
/** What has landed is added where the sum is. */
ccl_status_t ccl_i_c2c_sum(ccl_i_c2c_t *b, const ccl_i_c2c_link_t *link, uint32_t i, uint32_t step,
                           uint32_t keeper, ccl_error_t *err);
/** When end collectives may start. */
double ccl_i_c2c_end_base(const ccl_i_c2c_t *b, double arrived);

ccl_status_t ccl_i_c2c_link_init(ccl_i_c2c_t *b, uint32_t n, ccl_i_c2c_link_t *out,
                                 ccl_error_t *err);
/** Fill index and count. */
ccl_status_t ccl_i_c2c_link_count(ccl_i_c2c_t *b, ccl_i_c2c_link_t *link, ccl_error_t *err);

/** All moves of b->want (c2c_collectives.c). */
ccl_status_t ccl_i_c2c_collective(ccl_i_c2c_t *b, ccl_error_t *err);
/** Moves by time, as a schedule; takes b->coll. */
ccl_status_t ccl_i_c2c_schedule(ccl_i_c2c_t *b, const char *name, ccl_schedule_t **out,
                                ccl_error_t *err);

#endif
