/* A stand-in for NCCL's device API, for tests alone: see nccl.h beside it. */
#ifndef CCL_TESTS_COMPILED_NCCL_DEVICE_H
#define CCL_TESTS_COMPILED_NCCL_DEVICE_H

#include <nccl.h>

typedef uint32_t ncclGinSignal_t;
typedef struct ncclTeam {
    int nRanks, rank, stride;
} ncclTeam_t;
typedef enum {
    NCCL_GIN_CONNECTION_NONE,
    NCCL_GIN_CONNECTION_FULL,
    NCCL_GIN_CONNECTION_RAIL
} ncclGinConnectionType_t;
struct ncclDevCommRequirements {
    bool lsaMultimem;
    int barrierCount, lsaBarrierCount, railGinBarrierCount;
    bool ginForceEnable;
    int ginContextCount, ginSignalCount, ginCounterCount;
    ncclGinConnectionType_t ginConnectionType;
};
#define NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER                                                     \
    { false, 0, 0, 0, false, 4, 0, 0, NCCL_GIN_CONNECTION_NONE }
struct ncclDevComm {
    int rank, nRanks, lsaRank, lsaSize;
    uint8_t ginContextCount;
    void *more[64];
};

extern "C" ncclResult_t ncclDevCommCreate(ncclComm_t comm, const ncclDevCommRequirements *reqs,
                                          ncclDevComm *out);
extern "C" ncclResult_t ncclDevCommDestroy(ncclComm_t comm, const ncclDevComm *dev);

__host__ __device__ inline ncclTeam ncclTeamWorld(const ncclDevComm &d) {
    return ncclTeam{d.nRanks, d.rank, 1};
}
__host__ __device__ inline ncclTeam ncclTeamLsa(const ncclDevComm &d) {
    return ncclTeam{d.lsaSize, d.lsaRank, 1};
}
__host__ __device__ inline int ncclTeamRankToTeam(ncclTeam_t a, ncclTeam_t b, int peer) {
    return a.rank + (peer - b.rank) * b.stride / a.stride;
}
__host__ __device__ inline bool ncclTeamRankIsMember(ncclTeam_t a, ncclTeam_t b, int peer) {
    return (unsigned)ncclTeamRankToTeam(a, b, peer) < (unsigned)a.nRanks;
}
__device__ inline void *ncclGetLocalPointer(ncclWindow_t w, size_t offset) {
    return (char *)w + offset;
}
__device__ inline void *ncclGetLsaPointer(ncclWindow_t w, size_t offset, int peer) {
    return (char *)w + offset + ((size_t)peer << 40);
}

struct ncclGin_None {};
struct ncclGin_SignalInc {
    ncclGinSignal_t signal;
};
struct ncclCoopThread {};
struct ncclGin {
    const ncclDevComm &comm;
    __device__ ncclGin(const ncclDevComm &comm_, int) : comm(comm_) {
    }
    template <class RemoteAction, class LocalAction = ncclGin_None, class Coop = ncclCoopThread>
    __device__ void put(ncclTeam, int peer, ncclWindow_t to, size_t to_at, ncclWindow_t from,
                        size_t from_at, size_t bytes, RemoteAction, LocalAction = {},
                        Coop = {}) const {
        ((volatile size_t *)to)[to_at + peer] = ((volatile size_t *)from)[from_at] + bytes;
    }
    template <class RemoteAction, class Coop = ncclCoopThread>
    __device__ void signal(ncclTeam, int peer, RemoteAction action, Coop = {}) const {
        ((volatile int *)comm.more[0])[peer] = (int)action.signal;
    }
    __device__ uint64_t readSignal(ncclGinSignal_t signal, int = 64) const {
        return ((volatile uint64_t *)comm.more[1])[signal];
    }
};

#endif
