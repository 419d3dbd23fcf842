/** @file plan_i.h Shared by plan.c and connections.c. */
#ifndef CCL_RUNTIME_PLAN_I_H
#define CCL_RUNTIME_PLAN_I_H

#include "runtime/plan.h"

bool ccl_i_prim_reads(uint32_t prim);  /**< its source */
bool ccl_i_prim_writes(uint32_t prim); /**< its destination */

/** Connections of all steps, one unit at each end, as ccl_program_check() wants them. */
ccl_status_t ccl_i_run_plan_connect(const ccl_program_t *program, bool by_stage,
                                    ccl_i_run_plan_t *plan, ccl_error_t *err);

#endif
