/*
 * A stand-in for NCCL's host API, for tests alone, written from what NVIDIA documents: what
 * stand-alone sources use of it. Ranks are threads of one process.
 */
#ifndef CCL_TESTS_FAKE_NCCL_H
#define CCL_TESTS_FAKE_NCCL_H

#include <cuda_runtime.h>

#define NCCL_VERSION(x_, y_, z_) ((x_)*10000 + (y_)*100 + (z_))
#ifndef NCCL_VERSION_CODE
#define NCCL_VERSION_CODE NCCL_VERSION(2, 29, 7)
#endif
#define NCCL_WIN_COLL_SYMMETRIC 0x01

typedef enum {
    ncclSuccess = 0,
    ncclUnhandledCudaError = 1,
    ncclSystemError = 2,
    ncclInternalError = 3,
    ncclInvalidArgument = 4,
    ncclInvalidUsage = 5
} ncclResult_t;
typedef enum {
    ncclInt8 = 0,
    ncclInt32 = 2,
    ncclFloat16 = 6,
    ncclFloat32 = 7,
    ncclFloat64 = 8,
    ncclBfloat16 = 9
} ncclDataType_t;
typedef enum { ncclSum = 0, ncclProd = 1, ncclMax = 2, ncclMin = 3 } ncclRedOp_t;
typedef struct {
    char internal[128];
} ncclUniqueId;

enum { FAKE_RANKS = 64 };
typedef struct fake_group {
    std::mutex lock;
    std::condition_variable changed;
    int n, arrived, turn;
    char *memory[FAKE_RANKS];
    size_t bytes[FAKE_RANKS];
    uint64_t *signals[FAKE_RANKS];
} fake_group_t;
typedef struct ncclComm {
    int rank, device;
    fake_group_t *group;
} * ncclComm_t;
typedef struct fake_window *ncclWindow_t; /* of this rank: its index in the group */
struct fake_window {
    fake_group_t *group;
    int rank;
};

static inline void fake_meet(fake_group_t *g) {
    std::unique_lock<std::mutex> hold(g->lock);
    int turn = g->turn;
    if (++g->arrived == g->n) {
        g->arrived = 0;
        g->turn++;
        g->changed.notify_all();
    }
    g->changed.wait(hold, [g, turn] { return g->turn != turn; });
}
static inline const char *ncclGetErrorString(ncclResult_t) {
    return "an error of the stand-in";
}
static inline ncclResult_t ncclGetUniqueId(ncclUniqueId *) {
    return ncclInvalidUsage;
}
static inline ncclResult_t ncclCommInitRank(ncclComm_t *, int, ncclUniqueId, int) {
    return ncclInvalidUsage;
}
static inline ncclResult_t ncclCommInitAll(ncclComm_t *out, int n, const int *) {
    fake_group_t *g = new fake_group_t();
    g->n = n;
    for (int r = 0; r < n; r++)
        out[r] = new ncclComm{r, r, g};
    return ncclSuccess;
}
static inline ncclResult_t ncclCommDestroy(ncclComm_t) {
    return ncclSuccess;
}
static inline ncclResult_t ncclCommUserRank(ncclComm_t c, int *out) {
    *out = c->rank;
    return ncclSuccess;
}
static inline ncclResult_t ncclCommCount(ncclComm_t c, int *out) {
    *out = c->group->n;
    return ncclSuccess;
}
static inline ncclResult_t ncclCommCuDevice(ncclComm_t c, int *out) {
    *out = c->device;
    return ncclSuccess;
}
static inline ncclResult_t ncclMemAlloc(void **out, size_t bytes) {
    return cudaMalloc(out, bytes) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}
static inline ncclResult_t ncclMemFree(void *p) {
    return cudaFree(p) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}
static inline ncclResult_t ncclCommWindowRegister(ncclComm_t c, void *memory, size_t bytes,
                                                  ncclWindow_t *out, int) {
    fake_group_t *g = c->group;
    g->memory[c->rank] = (char *)memory;
    g->bytes[c->rank] = bytes;
    fake_meet(g);
    for (int r = 0; r < g->n; r++)
        if (g->bytes[r] != bytes) /* windows are symmetric */
            return ncclInvalidArgument;
    *out = new fake_window{g, c->rank};
    return ncclSuccess;
}
static inline ncclResult_t ncclCommWindowDeregister(ncclComm_t, ncclWindow_t) {
    return ncclSuccess;
}

#endif
