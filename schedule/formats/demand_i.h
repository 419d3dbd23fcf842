/* Demands: collecting chunks from any format, and writing them. */
#ifndef CCL_SCHEDULE_DEMAND_I_H
#define CCL_SCHEDULE_DEMAND_I_H

#include "schedule/schedule_i.h"
#include "base/json.h"

/** Chunks of a demand on their way to a collective. Zero-initialise, set nranks. */
typedef struct ccl_i_demand {
    uint32_t nranks;
    ccl_chunk_t *chunks; /**< share holds bytes */
    size_t len, cap;
    uint64_t members;
    uint32_t *all; /**< 0 .. nranks - 1, made when first needed */
    ccl_arena_t lists;
} ccl_i_demand_t;

#define CCL_I_DEMAND_ALL CCL_NONE /**< instead of a list's length: every rank */

void ccl_i_demand_fini(ccl_i_demand_t *demand);
/**
 * Check and add a chunk. Lists may come in any order; they are copied.
 * @param err  gets no position when it has one already; callers pass an empty one.
 */
ccl_status_t ccl_i_demand_add(ccl_i_demand_t *demand, const ccl_chunk_t *what, ccl_error_t *err);
ccl_status_t ccl_i_demand_finish(ccl_i_demand_t *demand, const char *name, ccl_collective_t **out,
                                 ccl_error_t *err);

/** A demand object of any document; its "format" may be missing when it is part of another. */
ccl_status_t ccl_i_demand_from_json(const ccl_json_at_t *at, bool whole_file,
                                    ccl_collective_t **out, ccl_error_t *err);
/** A custom collective as a demand object, one chunk a line; `indent` blanks before each line. */
void ccl_i_demand_write(const ccl_collective_t *coll, unsigned indent, ccl_text_t *out);
/** Bytes of a chunk at natural size, as text that survives reading and writing again. */
void ccl_i_demand_write_bytes(const ccl_collective_t *coll, const ccl_chunk_t *chunk,
                              ccl_text_t *out);

#endif
