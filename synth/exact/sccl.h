/* Private to synth: the question that sccl asks a solver, and its answer. */
#ifndef CCL_SYNTH_SCCL_H
#define CCL_SYNTH_SCCL_H

#include "synth/exact/rotation.h"

/** Is there a schedule of these numbers of steps, rounds and chunks? */
typedef struct ccl_i_sccl_query {
    const ccl_i_exchange_t *x;
    const ccl_collective_t *coll; /* already cut */
    const ccl_i_rotation_t
        *rotation;                /* imposed when its order is above 1 and the demand turns too */
    const uint32_t *capacity;     /* [nresources] chunks per round */
    const uint16_t *hops_between; /* [nranks * nranks] least hops, UINT16_MAX: no way */
    uint32_t steps, rounds;
    uint64_t effort; /* in the solver's own unit, so that the answer does not depend on the
                        machine; 0: no limit */
} ccl_i_sccl_query_t;

typedef struct ccl_i_sccl_send {
    uint32_t chunk, hop, step;
} ccl_i_sccl_send_t;

typedef enum ccl_i_sccl_answer {
    CCL_I_SCCL_FOUND,
    CCL_I_SCCL_NONE, /* with a rotation: none that turns */
    CCL_I_SCCL_UNKNOWN
} ccl_i_sccl_answer_t;

/** In a child process only. @param sends  FOUND: malloc'ed, caller frees; every one is needed. */
ccl_status_t ccl_i_sccl_ask(const ccl_i_sccl_query_t *query, ccl_i_sccl_answer_t *answer,
                            ccl_i_sccl_send_t **sends, size_t *nsends, ccl_error_t *err);

#endif
