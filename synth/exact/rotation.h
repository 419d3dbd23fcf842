/*
 * Private to synth: a rotation of an exchange graph, that is an automorphism under which all GPUs
 * move in circles of one length. Imposed on a search it leaves one chunk of each circle.
 */
#ifndef CCL_SYNTH_ROTATION_H
#define CCL_SYNTH_ROTATION_H

#include "synth/common/exchange.h"

typedef struct ccl_i_rotation {
    uint32_t order;     /* length of the circles; 1: none was found */
    uint32_t *rank;     /* [nranks] where a rank goes */
    uint32_t *hop;      /* [nhops] */
    uint32_t *resource; /* [nresources] */
} ccl_i_rotation_t;

/** The longest found within a bounded search. Without any (or none that helps) the identity. */
ccl_status_t ccl_i_rotation_find(const ccl_i_exchange_t *x, ccl_i_rotation_t *out,
                                 ccl_error_t *err);
void ccl_i_rotation_fini(ccl_i_rotation_t *rotation);

#endif
