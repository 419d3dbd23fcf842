/**
 * @file library.h
 * NCCL and RCCL: found at run time, by the part of nccl.h that has not changed since version 2.7.
 * No header of theirs is needed to build.
 */
#ifndef CCL_RUNTIME_LIBRARY_H
#define CCL_RUNTIME_LIBRARY_H

#include "runtime/runtime.h"

typedef struct ccl_i_comm ccl_i_comm_t; /* ncclComm */
typedef struct ccl_i_library_id {
    char internal[128];
} ccl_i_library_id_t;

/** Names as in nccl.h; they return 0, or what GetErrorString explains. */
typedef struct ccl_i_library_calls {
    int (*GetVersion)(int *version);
    const char *(*GetErrorString)(int code);
    int (*GetUniqueId)(ccl_i_library_id_t *out);
    int (*CommInitRank)(ccl_i_comm_t **out, int nranks, ccl_i_library_id_t id, int rank);
    int (*CommDestroy)(ccl_i_comm_t *comm);
    int (*CommAbort)(ccl_i_comm_t *comm);
    int (*GroupStart)(void);
    int (*GroupEnd)(void);
    int (*AllReduce)(const void *in, void *out, size_t count, int type, int op, ccl_i_comm_t *comm,
                     void *stream);
    int (*ReduceScatter)(const void *in, void *out, size_t count, int type, int op,
                         ccl_i_comm_t *comm, void *stream);
    int (*Reduce)(const void *in, void *out, size_t count, int type, int op, int root,
                  ccl_i_comm_t *comm, void *stream);
    int (*Broadcast)(const void *in, void *out, size_t count, int type, int root,
                     ccl_i_comm_t *comm, void *stream);
    int (*AllGather)(const void *in, void *out, size_t count, int type, ccl_i_comm_t *comm,
                     void *stream);
    int (*Send)(const void *in, size_t count, int type, int peer, ccl_i_comm_t *comm, void *stream);
    int (*Recv)(void *out, size_t count, int type, int peer, ccl_i_comm_t *comm, void *stream);
} ccl_i_library_calls_t;

typedef struct ccl_i_library {
    const char *name, *file, *kind; /* "nccl", "libnccl.so.2", of devices "cuda" */
    ccl_i_library_calls_t calls;
} ccl_i_library_t;

/** The library that is asked for; AUTO: that of `kind` ("hip": RCCL, else NCCL). Sets the names. */
void ccl_i_library_choose(ccl_run_library_t which, const char *kind, ccl_i_library_t *out);
/**
 * Opens the chosen library, for the life of the process.
 * @param version_out  "nccl 2.18.5".
 * @retval CCL_ERR_MISSING  it is not here, or too old.
 */
ccl_status_t ccl_i_library_open(ccl_i_library_t *library, char *version_out, size_t len,
                                ccl_error_t *err);
/** CCL_ERR_IO: "nccl: WHAT: its own words". */
ccl_status_t ccl_i_library_fail(const ccl_i_library_t *library, int code, const char *what,
                                ccl_error_t *err);
int ccl_i_library_type(ccl_type_t type);
int ccl_i_library_op(ccl_reduction_t op);

#endif
