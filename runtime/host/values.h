/**
 * @file values.h
 * What buffers are filled with, and whether they hold what the collective defines.
 *
 * Every contribution is a whole number that depends on rank, chunk, position and run, small enough
 * that reductions are exact in the type whatever their order. All else is poison.
 */
#ifndef CCL_RUNTIME_VALUES_H
#define CCL_RUNTIME_VALUES_H

#include "runtime/plan.h"

typedef struct ccl_i_values {
    const ccl_program_t *program;
    const ccl_i_layout_t *layout;
    ccl_type_t type;
    ccl_reduction_t op;
    uint32_t first_rank, end_rank; /* whose memory is here */
    void *const *memory;           /* [nranks] readable by the host */
    uint32_t threads;
} ccl_i_values_t;

/** Poison the memory of the ranks, then fill their inputs. `run` changes all values. */
ccl_status_t ccl_i_values_fill(const ccl_i_values_t *values, uint32_t run, ccl_error_t *err);

/** Adds to *checked and *wrong; fills *fault with the first wrong item by rank and offset. */
ccl_status_t ccl_i_values_check(const ccl_i_values_t *values, uint32_t run, uint64_t *checked,
                                uint64_t *wrong, ccl_run_fault_t *fault, ccl_error_t *err);

/** Bits of the whole numbers used for a chunk of that many sources: [-2^(bits-1), 2^(bits-1)). */
uint32_t ccl_i_values_bits(ccl_type_t type, ccl_reduction_t op, const ccl_chunk_t *chunk,
                           uint32_t *every_out);

#endif
