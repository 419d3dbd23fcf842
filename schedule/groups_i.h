/*
 * Private to the builders of programs and schedules: groups while they are collected.
 */
#ifndef CCL_SCHEDULE_GROUPS_I_H
#define CCL_SCHEDULE_GROUPS_I_H

#include "schedule/groups.h"

typedef struct ccl_i_groups {
    struct ccl_i_group {
        uint32_t *ranks, n;
    } * list;
    size_t len, cap;
} ccl_i_groups_t;

/** The peer that stands for the group, an equal one's if there is one; CCL_NONE: no memory. */
uint32_t ccl_i_groups_add(ccl_i_groups_t *groups, const uint32_t *ranks, uint32_t n);
/** As they stay, in an arena; *out NULL when there are none. False: no memory. */
bool ccl_i_groups_place(const ccl_i_groups_t *groups, ccl_arena_t *arena,
                        const ccl_peer_group_t **out, uint32_t *n_out);
void ccl_i_groups_fini(ccl_i_groups_t *groups);
/** Ranks exist, none is named twice, no group is empty. */
ccl_status_t ccl_i_groups_check(const ccl_peer_group_t *groups, uint32_t n, uint32_t nranks,
                                ccl_error_t *err);
bool ccl_i_groups_equal(const ccl_peer_group_t *a, uint32_t na, const ccl_peer_group_t *b,
                        uint32_t nb);

#endif
