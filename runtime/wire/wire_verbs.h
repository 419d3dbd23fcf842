/*
 * RDMA between processes: its state and what processes exchange; private to wire_verbs*.c.
 */
#ifndef CCL_RUNTIME_WIRE_VERBS_H
#define CCL_RUNTIME_WIRE_VERBS_H

#include "runtime/wire/verbs_i.h"
#include "runtime/wire/wire_direct.h"
#include "runtime/wire/wire_i.h"

/* Immediate: bit 31 a credit, then its number of slices; the connection. */
enum { CONN_BITS = 20, MOST_CREDITS = (1 << (31 - CONN_BITS)) - 1 };
#define CREDIT_BIT (UINT32_C(1) << 31)
#define CONN_MASK ((UINT32_C(1) << CONN_BITS) - 1)

/** To a process. */
typedef struct ccl_i_rdma_link {
    struct ibv_qp *qp; /* NULL: nothing goes there */
    uint32_t psn, inflight;
    uint64_t base; /* of its memory */
    uint32_t rkey;
} ccl_i_rdma_link_t;

typedef struct ccl_i_rdma {
    ccl_i_verbs_t *verbs;
    struct ibv_pd *pd;
    struct ibv_mr *mr;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    ccl_i_rdma_link_t *links; /* [nprocesses] */
    uint64_t *remote_at; /* [nconns] of the slots of outbound ones, in the receiver's memory; an
                            address when all are connected */
    uint32_t *local_key, *remote_key; /* [nconns] of the memory at both ends */
    uint64_t *written;                /* [nconns] slices that have left this memory */
    uint64_t *credited;               /* [nconns] slices that the receiver has freed */
    char *memory;
    size_t bytes;
    bool own_memory;
    uint32_t send_depth, recv_depth;
    ccl_i_wire_direct_t direct; /* slots in memory of devices */
} ccl_i_rdma_t;

/** What a process sends to all others; numbers of its QPs, [nprocesses], follow. */
typedef struct ccl_i_rdma_card {
    uint64_t base;
    uint32_t rkey, psn;
    uint16_t lid;
    uint8_t mtu, ethernet;
    uint32_t staged; /* slots lie as in memory of the host that devices reach */
    uint32_t direct; /* or in that of its devices: 1 + ccl_i_direct_path_t; 0: it has none */
    union ibv_gid gid;
    struct {
        uint64_t base;
        uint32_t rkey;
    } parts[CCL_I_MOST_PARTS];
    char why[sizeof((ccl_i_direct_t *)0)->why]; /* not better */
} ccl_i_rdma_card_t;

/** Memory for all slots, registered. */
ccl_status_t ccl_i_rdma_memory(ccl_i_wire_t *w, ccl_error_t *err);
/** Places of a peer's slots as reach.c has them for a process of devices: flags, then slots, of all
 * connections. */
void ccl_i_rdma_staged_at(ccl_i_wire_t *w, uint32_t process);
/** Places of a peer's slots that are in its devices. */
void ccl_i_rdma_direct_at(ccl_i_wire_t *w, uint32_t process, const ccl_i_rdma_card_t *peer);
/** What all processes report of their devices, each way once. @param cards  of all, each `len`
 * bytes. */
void ccl_i_rdma_report_devices(ccl_i_wire_t *w, const char *cards, size_t len);

#endif
