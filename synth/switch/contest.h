/*
 * Private to synth/switch: schedules through switches, and what they must beat.
 */
#ifndef CCL_SYNTH_CONTEST_H
#define CCL_SYNTH_CONTEST_H

#include "synth/switch/through.h"

typedef struct ccl_i_contest {
    const ccl_ctx_t *ctx;
    const ccl_topology_t *topo;
    ccl_routes_t *routes;
    double size_bytes;
    double hope_s; /* ccl_synth_options_t.hope_s, INFINITY where it is 0 */
} ccl_i_contest_t;

/** A schedule through switches, and its time. */
typedef struct ccl_i_through {
    ccl_schedule_t *schedule; /* NULL: there is none */
    double time_s;            /* INFINITY: it does not fit, is wrong or too slow */
    ccl_i_through_way_t way;  /* that made it */
} ccl_i_through_t;

/** The fastest through switches that a schedule's trees make; to be destroyed by the caller. */
ccl_status_t ccl_i_through_best(const ccl_i_contest_t *c, const ccl_schedule_t *schedule,
                                ccl_i_through_t *best, ccl_error_t *err);

/** Whether a schedule as it is takes no longer than `time_s`, lowered plainly or as `ops` has it,
 * under any protocol. */
ccl_status_t ccl_i_plain_beats(const ccl_i_contest_t *c, const ccl_synth_ops_t *ops,
                               const ccl_schedule_t *schedule, double time_s, bool *out,
                               ccl_error_t *err);

#endif
