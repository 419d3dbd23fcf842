/*
 * Private to the lowering of schedules with groups (docs/model.md "Switch connections").
 *
 * Every transfer is operations: one at each rank that has a part in it. They have one total order:
 * by step; in a step by how many transfers of the step the connection had before; then all that
 * send before all that receive; then as the schedule has them. Blocks, dependencies and messages go
 * forward in it, so the program finishes with FIFOs of one primitive (the argument of lower_i.h).
 * A pull or receive that forwards in the same primitive stands where it sends; ccl_i_switch_flows()
 * sees to it that messages still go forward.
 */
#ifndef CCL_LOWER_SWITCH_I_H
#define CCL_LOWER_SWITCH_I_H

#include "lower/lower_i.h"

/** Which receives forward in the same primitive. */
typedef enum ccl_i_forward {
    CCL_I_FORWARD_NONE,
    CCL_I_FORWARD_PULLS, /**< pulls that are multicast: MULTI_LOAD_REDUCE_STORE */
    CCL_I_FORWARD_ALL    /**< and all others */
} ccl_i_forward_t;

/** What one rank does for one transfer. */
typedef struct ccl_i_swop {
    uint32_t rank, transfer;
    uint32_t peer;  /* as in ccl_peers_t, groups as the schedule numbers them */
    uint32_t chunk; /* of the transfer, as are channel and reduces */
    uint32_t item;  /* of which it is part */
    uint16_t channel;
    bool sends : 1;  /* else receives */
    bool shared : 1; /* offer, or take of a multicast: its block is the rank's for the
                        channel */
    bool reduces : 1;
} ccl_i_swop_t;

/** A primitive to be: a send, a receive, or both; operations or CCL_NONE. */
typedef struct ccl_i_switem {
    uint32_t send, recv;
    uint32_t more;        /* transfers that are one with it and come before it */
    uint32_t block, step; /* local id of its block, index of its last step there */
    ccl_i_loc_t src, dst;
    uint32_t first_dep, ndeps; /* into `on` */
} ccl_i_switem_t;

typedef struct ccl_i_swdep {
    uint32_t item, on; /* it waits for another */
} ccl_i_swdep_t;

typedef struct ccl_i_switching {
    const ccl_schedule_t *schedule;
    const ccl_collective_t *coll;
    bool in_place;
    ccl_i_forward_t forward;
    bool joined;  /* plain transfers of a step whose chunks lie side by side are one primitive */
    bool crossed; /* out: an item waits for one behind it in the total order */
    ccl_i_swop_t *ops; /* [nops] in the total order, those of one place as they were made */
    uint32_t nops;
    uint32_t *history;     /* [nops] operations by rank, then chunk, then order */
    ccl_i_switem_t *items; /* [nitems] in the total order */
    uint32_t nitems;
    ccl_i_swdep_t *deps; /* as they were found */
    size_t ndeps, deps_cap;
    uint32_t *on;         /* [ndeps] by item */
    ccl_i_copy_t *copies; /* by rank */
    size_t ncopies, copies_cap;
    uint32_t *scratch_len; /* [nranks] */
    struct ccl_i_swscratch {
        uint32_t rank, chunk;
    } * scratch; /* each element, by rank */
    size_t nscratch, scratch_cap;
    ccl_arena_t arena;
} ccl_i_switching_t;

/** Operations, their order and their histories. */
ccl_status_t ccl_i_switch_ops(ccl_i_switching_t *w, ccl_error_t *err);
/** Items: which operations are one primitive, and their order. */
ccl_status_t ccl_i_switch_items(ccl_i_switching_t *w, ccl_error_t *err);
/** Where the items' data are, and what they wait for. */
ccl_status_t ccl_i_switch_values(ccl_i_switching_t *w, ccl_error_t *err);
/** Whether each FIFO gives what it got in that order, and none needs more than `slots` primitives:
    the k-th receive stands before the send that takes its slot again. */
ccl_status_t ccl_i_switch_flows(const ccl_i_switching_t *w, uint32_t slots, bool *out,
                                ccl_error_t *err);
/** Blocks and the program. */
ccl_status_t ccl_i_switch_program(ccl_i_switching_t *w, const char *proto, ccl_program_t **out,
                                  ccl_error_t *err);

/** One end of a connection as a key: the rank, what is beyond, the channel and the direction. */
static inline uint64_t ccl_i_switch_end(uint32_t rank, uint32_t peer, uint16_t channel, bool out) {
    const uint64_t beyond = (uint64_t)(peer >> 30) << 29 | (peer & ((1u << 29) - 1));
    return beyond << 33 | (uint64_t)rank << 17 | (uint64_t)channel << 1 | out;
}

#endif
