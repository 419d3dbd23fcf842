/* What the reader and the writer of MSCCL XML agree on. */
#ifndef CCL_SCHEDULE_MSCCL_XML_I_H
#define CCL_SCHEDULE_MSCCL_XML_I_H

#include "schedule/schedule_i.h"

#define CCL_I_XML_MAX_GPUS 4096u
#define CCL_I_XML_MAX_CHUNKS (1u << 22) /* nchunksperloop */
#define CCL_I_XML_MAX_BYTES 9223372036854775808.0

/** Chunks per block of a collective whose program has `nchunks`; 0: they do not divide. */
uint32_t ccl_i_xml_chunks_per_block(ccl_collective_kind_t kind, uint32_t nranks, uint32_t nchunks);

#endif
