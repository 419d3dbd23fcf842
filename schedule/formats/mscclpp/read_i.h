/* Private to the schedule module: what a plan of MSCCL++ does, on the way to a program. */
#ifndef CCL_SCHEDULE_MSCCLPP_READ_I_H
#define CCL_SCHEDULE_MSCCLPP_READ_I_H

#include "schedule/formats/mscclpp/plan_i.h"
#include "schedule/wiring.h"

/** What a block does at an operation; a receive where it waits, an offer where it signals. */
typedef struct ccl_i_mpp_item {
    uint32_t block, op, seq; /* its place: block, operation, order of making */
    ccl_primitive_t prim;    /* S, R, CPY, RE (dst = a + b), RCS (pull and multicast), NOP */
    ccl_i_mpp_place_t a, b, dst;
    uint32_t count, send, recv; /* connections; CCL_NONE */
} ccl_i_mpp_item_t;

typedef struct ccl_i_mpp_conn {
    uint32_t src, dst; /* blocks */
    uint32_t kind;     /* ccl_wiring_kind_t */
    uint32_t group;    /* index; CCL_NONE: plain */
    uint32_t channel;
} ccl_i_mpp_conn_t;

typedef struct ccl_i_mpp_uses {
    uint8_t reads, writes; /* up to 3 */
} ccl_i_mpp_uses_t;

typedef struct ccl_i_mpp_reader {
    const ccl_json_doc_t *doc;
    ccl_i_mpp_t *plan;
    uint32_t *met;   /* [nids] the other end of a signal, wait, release or acquire; CCL_NONE */
    uint32_t *op_of; /* [nids] */
    uint32_t *home;  /* [nops] block; what goes on in another block is of the first */
    uint32_t *end;   /* [nblocks] behind its last operation */
    ccl_i_mpp_item_t *items;
    size_t nitems, items_cap;
    ccl_i_mpp_conn_t *conns;
    size_t nconns, conns_cap;
    const uint32_t **group_ranks;
    uint32_t *group_n, *groups, ngroups;
    ccl_i_mpp_uses_t **uses; /* [ngpus] of scratch */
    uint32_t *ids, *next_id; /* [nblocks], [ngpus]: of the program's blocks */
    bool nomem;
} ccl_i_mpp_reader_t;

/** Who meets whom: fills all but ids and groups. */
ccl_status_t ccl_i_mpp_meet(ccl_i_mpp_reader_t *r, ccl_error_t *err);
void ccl_i_mpp_reader_fini(ccl_i_mpp_reader_t *r);
/** The last item before what releases an acquired semaphore (index into ids); CCL_NONE. */
uint32_t ccl_i_mpp_released_by(const ccl_i_mpp_reader_t *r, uint32_t id);

#endif
