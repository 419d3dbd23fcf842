/* Shared by c2c_plan*.c: plans between clusters. */
#ifndef CCL_SCHEDULE_C2C_PLAN_I_H
#define CCL_SCHEDULE_C2C_PLAN_I_H

#include "schedule/schedule_i.h"

/** Collectives with sums: allreduce, reduce, reducescatter. */
bool ccl_i_c2c_plan_sums(const ccl_collective_t *coll);
/** Fills the plan of p->rank. */
ccl_status_t ccl_i_c2c_plan_create_sums(const ccl_schedule_t *schedule,
                                        const ccl_c2c_groups_t *groups, ccl_c2c_plan_t *p,
                                        ccl_error_t *err);
/** Runs the plans on sets of contributions. */
ccl_status_t ccl_i_c2c_plans_verify_sums(const ccl_schedule_t *schedule,
                                         const ccl_c2c_groups_t *groups,
                                         const ccl_c2c_plan_t *const *plans, ccl_error_t *err);
/** Whether what crossed borders in the plans is what the schedule sends across them.
 * @param crossed   [nranks][nchunks] received from another cluster
 * @param messages  chunks that crossed
 * @retval CCL_CHECK  it is not */
ccl_status_t ccl_i_c2c_same_borders(const ccl_schedule_t *schedule, const ccl_c2c_groups_t *groups,
                                    const bool *crossed, uint32_t nchunks, uint32_t messages,
                                    ccl_error_t *err);

#endif
