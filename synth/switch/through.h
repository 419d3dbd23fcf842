/*
 * Private to synth: schedules of other families through switches.
 */
#ifndef CCL_SYNTH_THROUGH_H
#define CCL_SYNTH_THROUGH_H

#include "synth/common/asked.h"

/**
 * A message in waves, which follow each other, instead of in pieces that are micro-batches: in each
 * the next pieces of all parts of all chunks, where what goes from one GPU to another is joined.
 * The first waves and the last are of one piece of each part, as there is little else on the way
 * then and all wait for them; those between are of two, which takes fewer messages.
 */
typedef struct ccl_i_through_waves {
    uint32_t pieces;      /* of every part, even; 0: no waves */
    uint32_t first, last; /* waves of one piece; both together even, at most `pieces` */
    uint32_t pulls;       /* of a GPU, at most, without parts */
} ccl_i_through_waves_t;

/** How transfers go through switches. */
typedef struct ccl_i_through_way {
    uint32_t channels;           /* over which the connections of a GPU are spread, at least 1 */
    uint32_t parts;              /* that every chunk is cut into, at least 1 */
    bool in_turn;                /* channels begin with different GPUs */
    double piece_bytes;          /* 0: as the schedule has it */
    ccl_i_through_waves_t waves; /* of an AllReduce; then inside servers alone */
} ccl_i_through_way_t;

/**
 * The same schedule with switch connections for its trees inside the reach of a switch: where a
 * chunk goes from one GPU of a server on to several of it, one multicast; where several of a server
 * send what is added up at one of it, one pull. Then the same between the servers' GPUs of a rail.
 *
 * @param out  NULL: there is no such tree.
 */
ccl_status_t ccl_i_through_switches(const ccl_topology_t *topo, ccl_routes_t *routes,
                                    const ccl_schedule_t *schedule, const ccl_i_through_way_t *way,
                                    ccl_schedule_t **out, ccl_error_t *err);

/**
 * An AllReduce without groups for waves: chunks that follow each other and go the same way are one,
 * where they are as many everywhere, and each transfer is as early as it can be.
 */
ccl_status_t ccl_i_through_uncut(const ccl_schedule_t *schedule, ccl_schedule_t **out,
                                 ccl_error_t *err);

/** Transfers in their order, chunk by chunk. @param first  [nchunks + 2] of 0; chunk c has those
 * from first[c] to first[c + 1] of the list. @param list  [ntransfers]. */
void ccl_i_through_by_chunk(const ccl_schedule_t *schedule, uint32_t *first, uint32_t *list);

/** From one rank to another. */
static inline bool ccl_i_is_plain(const ccl_transfer_t *t) {
    return !ccl_peer_is_group(t->src) && !ccl_peer_is_group(t->dst);
}

/**
 * Replaces a schedule by the fastest of those through switches, where one is faster: by simulation
 * at options->size_bytes (0: 256 MiB), the schedule itself lowered as `ops` has it, under every
 * protocol.
 */
ccl_status_t ccl_i_through_if_faster(const ccl_ctx_t *ctx, const ccl_synth_ops_t *ops,
                                     const ccl_topology_t *topo, ccl_routes_t *routes,
                                     const ccl_synth_options_t *options, ccl_schedule_t **schedule,
                                     ccl_error_t *err);

/** A schedule through switches, in one way, to compare trees by. @param beat_s  what takes longer
 * is of no use. @param time_out  INFINITY: it takes longer, or there are no trees. */
ccl_status_t ccl_i_through_look(const ccl_i_asked_t *asked, const ccl_schedule_t *schedule,
                                double size_bytes, double beat_s, double *time_out,
                                ccl_error_t *err);

/**
 * The fastest through switches of the trees that `ops` makes for a small message, one of each rank,
 * where no schedule without them need be looked at. AllReduce in large domains: it takes less than
 * the bound of the cluster without switches that copy and add. In one, AllGather, Broadcast and
 * ReduceScatter where it is near the bound, and Reduce; the trees as they are instead, where they
 * are faster.
 *
 * @param out  NULL: others are to be looked at.
 */
ccl_status_t ccl_i_through_alone(const ccl_synth_ops_t *ops, const ccl_i_asked_t *asked,
                                 ccl_schedule_t **out, ccl_error_t *err);

#endif
