/** @file move.h Private to the host device: what a primitive does to a slice. */
#ifndef CCL_RUNTIME_MOVE_H
#define CCL_RUNTIME_MOVE_H

#include "runtime/device.h"
#include "runtime/host/kernels.h"

typedef struct ccl_i_pass {
    ccl_i_reduce_fn reduce;
    const ccl_device_piece_t *pieces; /* of the step */
    uint32_t npieces, prim, item_bytes;
    char *memory;   /* of the rank */
    const char *in; /* data of the slice that came; NULL: none */
    char *out;      /* of the one that is sent */
} ccl_i_pass_t;

/** Items begin .. end of a step's data in a micro-batch; in and out point at them. */
void ccl_i_move_slice(ccl_i_pass_t *pass, uint64_t batch, uint64_t begin, uint64_t end);

#endif
