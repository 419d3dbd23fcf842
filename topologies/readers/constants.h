/**
 * @file constants.h
 * "transports" and "gpu_models" of our JSON, entry by entry; private to topologies.
 */
#ifndef CCL_TOPOLOGIES_CONSTANTS_H
#define CCL_TOPOLOGIES_CONSTANTS_H

#include "topologies/topologies.h"
#include "base/json.h"
#include "topologies/internal.h"

/** One member of "transports" (its key is the link kind), with its protocols, into the builder. */
ccl_status_t ccl_i_constants_transport(const ccl_json_at_t *at, const char *kind,
                                       ccl_topology_builder_t *b, ccl_error_t *err);
/** One member of "gpu_models", into the builder. */
ccl_status_t ccl_i_constants_gpu_model(const ccl_json_at_t *at, const char *name,
                                       ccl_topology_builder_t *b, ccl_error_t *err);
/** Keys of what a switch can do, for lists of known keys. */
#define CCL_I_ABILITY_KEYS "multicast", "reduce", "groups", "reduce_rate", "types"
typedef struct ccl_i_abilities {
    ccl_device_t like; /**< for ccl_topology_builder_abilities(); its types lie below */
    bool given;        /**< some key is there */
    char types[CCL_I_MAX_TYPES_BYTES + 1];
} ccl_i_abilities_t;
/** Read them from an object. */
ccl_status_t ccl_i_constants_abilities(const ccl_json_at_t *at, ccl_i_abilities_t *out,
                                       ccl_error_t *err);
/** The builder does not know positions: its refusal is passed on with the place in the file. */
ccl_status_t ccl_i_constants_at(const ccl_json_at_t *at, ccl_status_t status,
                                const ccl_error_t *inner, ccl_error_t *err);

#endif
