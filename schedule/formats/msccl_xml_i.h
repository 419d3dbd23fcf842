/* What the reader and the writer of MSCCL XML agree on. */
#ifndef CCL_SCHEDULE_MSCCL_XML_I_H
#define CCL_SCHEDULE_MSCCL_XML_I_H

#include "schedule/schedule_i.h"

#define CCL_I_XML_MAX_GPUS 4096u
#define CCL_I_XML_MAX_CHUNKS (1u << 22) /* nchunksperloop */
#define CCL_I_XML_MAX_GROUPS 16384u
#define CCL_I_XML_MAX_BYTES 9223372036854775808.0

/** Chunks per shard of a collective whose program has `nchunks`; 0: they do not divide. */
uint32_t ccl_i_xml_chunks_per_block(ccl_collective_kind_t kind, uint32_t nranks, uint32_t nchunks);

/**
 * Turn the `deps` of one gpu's steps up to `end` from an `s` into an index. @param tbs its blocks,
 * whose first_step are indices into `steps` and `marks`.
 */
ccl_status_t ccl_i_xml_resolve_deps(const char *file, const ccl_tb_t *tbs, uint32_t ntbs,
                                    ccl_step_t *steps, const ccl_step_mark_t *marks, size_t end,
                                    ccl_error_t *err);

#endif
