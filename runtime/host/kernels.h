/**
 * @file kernels.h
 * Copy and reduce loops of the host, by type and reduction.
 */
#ifndef CCL_RUNTIME_KERNELS_H
#define CCL_RUNTIME_KERNELS_H

#include "runtime/runtime.h"

/** out[i] = op(a[i], b[i]); out may be a or b. */
typedef void (*ccl_i_reduce_fn)(void *out, const void *a, const void *b, size_t items);
ccl_i_reduce_fn ccl_i_reduce_get(ccl_type_t type, ccl_reduction_t op);

/** Whole numbers in the type; must be exact in it. */
void ccl_i_from_int(ccl_type_t type, const int32_t *values, void *out, size_t items);
double ccl_i_item_value(ccl_type_t type, const void *item);

uint16_t ccl_i_half_from_float(float value); /**< nearest, ties to even */
float ccl_i_half_to_float(uint16_t half);
uint16_t ccl_i_bfloat_from_float(float value); /**< nearest, ties to even */
float ccl_i_bfloat_to_float(uint16_t bfloat);

#endif
