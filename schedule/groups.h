/**
 * @file groups.h
 * Groups of ranks: the many ends of switch connections, in programs and in schedules.
 */
#ifndef CCL_SCHEDULE_GROUPS_H
#define CCL_SCHEDULE_GROUPS_H

#include "base/base.h"

CCL_BEGIN_DECLS

/**
 * Group of ranks at the many end of a switch connection (docs/model.md "Switch connections").
 *
 * A peer is CCL_NONE, a rank, or one of:
 * - CCL_PEER_GROUP plus an index into program->groups, for the single GPU: its block multicasts to
 *   the group (send_peer), or pulls the sum of what the group offers (recv_peer);
 * - CCL_PEER_MEMBER plus the rank of the single GPU, for a member: its block offers to that GPU's
 *   pull (send_peer), or takes what that GPU multicasts (recv_peer). The single GPU may be a member
 *   itself.
 */
typedef struct ccl_peer_group {
    const uint32_t *ranks; /**< [n], ascending */
    uint32_t n;            /**< at least 1 */
} ccl_peer_group_t;
#define CCL_PEER_GROUP 0x80000000u
#define CCL_PEER_MEMBER 0x40000000u
/** Whether a peer is a group of ranks. */
static inline bool ccl_peer_is_group(uint32_t peer) {
    return peer != CCL_NONE && (peer & CCL_PEER_GROUP) != 0;
}
/** Whether a peer is the single GPU of a switch connection, seen from a member. */
static inline bool ccl_peer_is_member(uint32_t peer) {
    return !(peer & CCL_PEER_GROUP) && (peer & CCL_PEER_MEMBER) != 0;
}
/** The rank of a peer that is no group and not CCL_NONE. */
static inline uint32_t ccl_peer_rank(uint32_t peer) {
    return peer & ~CCL_PEER_MEMBER;
}

/** Whether a group has this rank. */
bool ccl_peer_group_has(const ccl_peer_group_t *group, uint32_t rank);

CCL_END_DECLS
#endif
