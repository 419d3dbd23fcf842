/* Private to synth: what milp asks, and the answers. */
#ifndef CCL_SYNTH_MILP_H
#define CCL_SYNTH_MILP_H

#include "synth/solvers/solver_glpk.h"
#include "synth/exact/rotation.h"

/** A chunk goes over a hop, from the start of an epoch. */
typedef struct ccl_i_milp_send {
    uint32_t chunk, hop, epoch;
} ccl_i_milp_send_t;

/** A collective in epochs. */
typedef struct ccl_i_milp {
    const ccl_i_exchange_t *x;
    const ccl_collective_t *coll;     /* already cut */
    const ccl_i_rotation_t *rotation; /* imposed where its order is above 1 */
    const uint32_t *delay;            /* [nhops] epochs until the chunk can be sent on */
    const uint32_t *window;           /* [nresources] in any this many epochs together ... */
    const uint32_t *capacity;         /* [nresources] ... at most these chunks */
    const uint32_t *away; /* [n * n] epochs from GPU to GPU at least; CCL_NONE: no way */
    uint32_t nodes;       /* of the search, at most; 0: no limit */
} ccl_i_milp_t;

/* Most epochs that a chunk may take on a hop. */
#define CCL_I_MILP_EPOCHS 4096u
/**
 * Epochs of a given length: delay of every hop, window and capacity of every resource.
 * @retval CCL_ERR_USAGE  an epoch is too short.
 */
ccl_status_t ccl_i_milp_discretise(const ccl_i_exchange_t *x, double chunk_bytes, double epoch_s,
                                   uint32_t *delay, uint32_t *window, uint32_t *capacity,
                                   ccl_error_t *err);
/** Least epochs from GPU to GPU, [n * n]; CCL_NONE: no way. */
void ccl_i_milp_distances(const ccl_i_exchange_t *x, const uint32_t *delay, uint32_t *away);

/** Variables of a model with `epochs` epochs. */
double ccl_i_milp_variables(const ccl_i_milp_t *m, uint32_t epochs);
/**
 * Is there a schedule of that many epochs? In a child process only.
 * @param answer  NONE: proven; with a rotation: none that turns.
 * @param sends   FOUND: malloc'ed, caller frees; by epoch, every one is needed.
 */
ccl_status_t ccl_i_milp_ask(const ccl_i_milp_t *m, uint32_t epochs, ccl_i_glpk_answer_t *answer,
                            ccl_i_milp_send_t **sends, size_t *nsends, ccl_error_t *err);

/**
 * Flows that bring every chunk from its source to its one destination in the least time, all links
 * busy all the time. In a child process only.
 *
 * @param flow_out  [n][nhops] FOUND: of a source's chunks over a hop, together, in greatest chunks.
 */
ccl_status_t ccl_i_milp_flows(const ccl_i_exchange_t *x, const ccl_collective_t *coll,
                              double *flow_out, ccl_i_glpk_answer_t *answer, ccl_error_t *err);
/**
 * Such flows taken apart: each chunk in as many parts, each part along one path.
 *
 * @param flow   as above; used up.
 * @param sends  malloc'ed, caller frees: chunk * parts + part over a hop; `epoch` is the place on
 *               its path. In order: what still has far to go first.
 */
ccl_status_t ccl_i_milp_paths(const ccl_i_exchange_t *x, const ccl_collective_t *coll, double *flow,
                              uint32_t parts, ccl_i_milp_send_t **sends, size_t *nsends,
                              ccl_error_t *err);

#endif
