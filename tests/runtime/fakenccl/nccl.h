/*
 * A stand-in for NCCL's headers, for tests alone and no part of NCCL: names, members and parameters
 * as NVIDIA documents them, so that nvcc compiles what uses them. Nothing here works.
 */
#ifndef CCL_TESTS_COMPILED_NCCL_H
#define CCL_TESTS_COMPILED_NCCL_H

#include <cuda_runtime.h>
#include <stddef.h>
#include <stdint.h>

#define NCCL_VERSION(x_, y_, z_) ((x_)*10000 + (y_)*100 + (z_))
#define NCCL_VERSION_CODE NCCL_VERSION(2, 29, 7)
#define NCCL_WIN_COLL_SYMMETRIC 0x01

typedef enum {
    ncclSuccess,
    ncclUnhandledCudaError,
    ncclSystemError,
    ncclInternalError,
    ncclInvalidArgument,
    ncclInvalidUsage
} ncclResult_t;
typedef enum { ncclInt32 = 2, ncclFloat16 = 6, ncclFloat32 = 7, ncclBfloat16 = 9 } ncclDataType_t;
typedef enum { ncclSum, ncclProd, ncclMax, ncclMin } ncclRedOp_t;
typedef struct {
    char internal[128];
} ncclUniqueId;
typedef struct ncclComm *ncclComm_t;
typedef struct ncclWindow_vidmem *ncclWindow_t;

extern "C" {
const char *ncclGetErrorString(ncclResult_t code);
ncclResult_t ncclGetUniqueId(ncclUniqueId *out);
ncclResult_t ncclCommInitRank(ncclComm_t *out, int nranks, ncclUniqueId id, int rank);
ncclResult_t ncclCommInitAll(ncclComm_t *out, int n, const int *devices);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *out);
ncclResult_t ncclCommCount(const ncclComm_t comm, int *out);
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *out);
ncclResult_t ncclMemAlloc(void **out, size_t bytes);
ncclResult_t ncclMemFree(void *memory);
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *memory, size_t bytes, ncclWindow_t *out,
                                    int flags);
ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window);
}

#endif
