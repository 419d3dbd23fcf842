/**
 * @file verbs_i.h
 * An open RDMA port, for those who use libibverbs.
 */
#ifndef CCL_RUNTIME_VERBS_I_H
#define CCL_RUNTIME_VERBS_I_H

#include "runtime/wire/verbs.h"

#include <infiniband/verbs.h>

struct ccl_i_verbs {
    struct ibv_context *context;
    struct ibv_device_attr device;
    struct ibv_port_attr port;
    char name[64]; /* "rxe0 port 1" */
    uint8_t port_number;
    bool ethernet; /* RoCE: peers are found by gid; else by lid */
    int gid_index;
    union ibv_gid gid;
};

#endif
