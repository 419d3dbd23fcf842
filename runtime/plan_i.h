/** @file plan_i.h Shared by plan.c and connections.c. */
#ifndef CCL_RUNTIME_PLAN_I_H
#define CCL_RUNTIME_PLAN_I_H

#include "runtime/plan.h"

bool ccl_i_prim_reads(uint32_t prim);  /**< its source */
bool ccl_i_prim_writes(uint32_t prim); /**< its destination */

/** Units, primitives and connections of all steps. @param program  passes ccl_program_check(). */
ccl_status_t ccl_i_run_plan_connect(const ccl_program_t *program, ccl_granularity_t granularity,
                                    ccl_i_run_plan_t *plan, ccl_error_t *err);

#endif
