/** @file sched.h Private to the host device: units that may go on (see host.h, sched.c). */
#ifndef CCL_RUNTIME_SCHED_H
#define CCL_RUNTIME_SCHED_H

#include "runtime/host/host.h"

enum { CCL_I_MARK = 1, CCL_I_RUN = 2 };

static inline uint32_t *ccl_i_sched_state(ccl_i_sched_t *sched, uint32_t local) {
    return (uint32_t *)((char *)sched + sched->states_at) + local;
}

/** @return whether it waits for a worker now; false: one is stepping it and will look again. */
bool ccl_i_sched_mark(ccl_i_sched_t *sched, uint32_t local);
/** Units that a worker looks at before all others, so that workers rarely meet. */
typedef struct ccl_i_home {
    uint32_t first, end, cursor;
} ccl_i_home_t;
/** The next marked unit, now the caller's to step; CCL_NONE: none is marked. */
uint32_t ccl_i_sched_take(ccl_i_sched_t *sched, ccl_i_home_t *home);
/** This unit, if it is marked and nobody has it. */
bool ccl_i_sched_claim(ccl_i_sched_t *sched, uint32_t local);
/** Give it back; `again`: it could go on at once. */
void ccl_i_sched_release(ccl_i_sched_t *sched, uint32_t local, bool again);
bool ccl_i_sched_any(const ccl_i_sched_t *sched);

#endif
