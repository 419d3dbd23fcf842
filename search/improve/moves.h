/* Private to search: a schedule that is being changed, and small changes of it. */
#ifndef CCL_SEARCH_MOVES_H
#define CCL_SEARCH_MOVES_H

#include "schedule/schedule.h"

typedef struct ccl_i_moves {
    ccl_collective_t *coll;
    ccl_transfer_t *transfers; /* in any order */
    uint32_t n, nchannels;
    size_t cap;
} ccl_i_moves_t;

ccl_status_t ccl_i_moves_init(const ccl_schedule_t *schedule, ccl_i_moves_t *out, ccl_error_t *err);
ccl_status_t ccl_i_moves_copy(const ccl_i_moves_t *from, ccl_i_moves_t *out, ccl_error_t *err);
void ccl_i_moves_fini(ccl_i_moves_t *m);
/** Every chunk in two halves, one a step after the first, which then go their own ways. */
ccl_status_t ccl_i_moves_split(ccl_i_moves_t *m, bool *done_out, ccl_error_t *err);
/**
 * Another source or destination for transfer `at`, a relay in its way, the sources of it and of
 * another changed over, another step, another channel: one of these, drawn.
 * @param done_out  false: nothing was changed, or nothing that can be right.
 */
ccl_status_t ccl_i_moves_any(ccl_i_moves_t *m, ccl_rng_t *rng, uint32_t at, bool *done_out,
                             ccl_error_t *err);

#endif
