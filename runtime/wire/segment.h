/** @file segment.h Private to the runtime: memory of processes that were started apart. */
#ifndef CCL_RUNTIME_SEGMENT_H
#define CCL_RUNTIME_SEGMENT_H

#include "runtime/wire/group.h"

/**
 * The same memory, zeroed, in all processes of a group that share a machine; NULL everywhere where
 * one of them cannot have it.
 * @retval CCL_ERR_IO  a process is gone.
 */
ccl_status_t ccl_i_segment_map(ccl_i_group_t *group, size_t bytes, void **out, ccl_error_t *err);

#endif
