/**
 * @file generate.h
 * A program as a kernel of its own: C++ for the compilers of GPUs.
 */
#ifndef CCL_RUNTIME_GENERATE_H
#define CCL_RUNTIME_GENERATE_H

#include "runtime/plan.h"

/** What every generated kernel begins with (made by gpu/embed.cmake). */
extern const char ccl_i_kernel_prelude[];
/**
 * The units first_unit to end_unit of the plan as a kernel. Offsets, counts, slices, micro-batches,
 * type and reduction are constants in it; addresses are arguments, so the text depends only on the
 * plan.
 */
ccl_status_t ccl_i_kernel_text(const ccl_device_plan_t *plan, uint32_t slots, ccl_text_t *out,
                               ccl_error_t *err);

#endif
