/*
 * Private to the family `switch`: schedules of multicasts and reductions in switches.
 */
#ifndef CCL_SYNTH_SWITCH_H
#define CCL_SYNTH_SWITCH_H

#include "synth/common/plan.h"

/** What joins the servers. */
typedef enum ccl_i_between {
    CCL_I_BETWEEN_DIRECT, /**< each GPU of a rail to the root's and back */
    CCL_I_BETWEEN_RING,
    CCL_I_BETWEEN_TREE,    /**< a binary tree, rotated by the root's server */
    CCL_I_BETWEEN_SWITCH,  /**< reduction and multicast in switches */
    CCL_I_BETWEEN_EXCHANGE /**< sums of a server to all others of its rail, which add them: between
                                two servers as few bytes as over a root, and one way */
} ccl_i_between_t;

/** One schedule to make. */
typedef struct ccl_i_switch_how {
    const char *name;
    bool own; /**< what a GPU gives itself travels over its port, as NCCL has it */
    ccl_i_between_t between;
    uint32_t channels;
    uint32_t parts;     /**< of a root's chunk on a channel, one after the other */
    double piece_bytes; /**< most bytes of a chunk in a micro-batch; 0: by the model's rule */
} ccl_i_switch_how_t;

/**
 * @param want  each chunk comes from one GPU or is reduced.
 * @retval CCL_ERR_NOMEM, CCL_ERR_INPUT
 */
ccl_status_t ccl_i_switch_make(const ccl_i_cluster_t *cluster, const ccl_collective_t *want,
                               const ccl_i_switch_how_t *how, ccl_schedule_t **out,
                               ccl_error_t *err);

#endif
