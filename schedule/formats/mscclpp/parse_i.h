/*
 * Private to the schedule module: reading a plan of MSCCL++, with what its numbers stand for.
 */
#ifndef CCL_SCHEDULE_MSCCLPP_PARSE_I_H
#define CCL_SCHEDULE_MSCCLPP_PARSE_I_H

#include "schedule/formats/mscclpp/plan_i.h"

enum {
    CCL_I_MPP_MOST_SCRATCH = 1 << 24,
    CCL_I_MPP_MOST_BLOCKS = 4096,
    CCL_I_MPP_MOST_IDS = 1 << 16
};

typedef struct ccl_i_mpp_parser {
    ccl_i_mpp_t *plan;
    ccl_error_t *err;
    uint32_t rank;
    /* Of the GPU: owners and buffers of its remote buffers. */
    uint32_t *remote_rank, *remote_buffer, nremotes;
    /* Of the block: what its numbers stand for. */
    uint32_t *channels[3], nchannels[3];
    uint32_t *remotes[CCL_I_MPP_NTYPES], nrefs[CCL_I_MPP_NTYPES];
    uint32_t where;
    bool packets;
} ccl_i_mpp_parser_t;
enum { CCL_I_MPP_SWITCH = CCL_I_MPP_NTYPES }; /* beside memory and port */

extern const char *const ccl_i_mpp_types[], *const ccl_i_mpp_buffers[]; /* NULL-terminated */
/** Which of some words; CCL_ERR_INPUT for others. */
ccl_status_t ccl_i_mpp_one_of(const ccl_json_at_t *at, const char *const *words, uint32_t *out,
                              ccl_error_t *err);
/** A member that is a number of at most max. */
ccl_status_t ccl_i_mpp_member_u32(const ccl_json_at_t *at, const char *key, uint32_t max,
                                  uint32_t *out, ccl_error_t *err);
/** One operation of the block at hand, as those that it is made of. */
ccl_status_t ccl_i_mpp_parse_op(ccl_i_mpp_parser_t *p, const ccl_json_at_t *op);

#endif
