/*
 * Private to synth: Broadcast and Reduce in staggered pieces (ccl_schedule_t.stagger).
 */
#ifndef CCL_SYNTH_STAGGER_H
#define CCL_SYNTH_STAGGER_H

#include "synth/common/asked.h"

/**
 * Replaces the schedule of a Broadcast or Reduce by stars or chains in staggered pieces, where one
 * of these is faster: by simulation at options->size_bytes; the schedule that there is under the
 * protocol that suits it. Everything else stays as it is.
 */
ccl_status_t ccl_i_stagger_if_faster(const ccl_i_asked_t *asked, ccl_schedule_t **schedule,
                                     ccl_error_t *err);

#endif
