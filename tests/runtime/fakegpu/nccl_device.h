/*
 * A stand-in for NCCL's device API, for tests alone, written from what NVIDIA documents: teams,
 * windows, LSA pointers, GIN's put, signal and readSignal. FAKE_LSA ranks in a row reach each other
 * by address.
 */
#ifndef CCL_TESTS_FAKE_NCCL_DEVICE_H
#define CCL_TESTS_FAKE_NCCL_DEVICE_H

#include <nccl.h>

typedef uint32_t ncclGinSignal_t;
typedef struct ncclTeam {
    int nRanks, rank, stride;
} ncclTeam;
typedef ncclTeam ncclTeam_t;
typedef enum {
    NCCL_GIN_CONNECTION_NONE,
    NCCL_GIN_CONNECTION_FULL,
    NCCL_GIN_CONNECTION_RAIL
} ncclGinConnectionType_t;
typedef struct ncclDevCommRequirements {
    bool lsaMultimem, ginForceEnable;
    int barrierCount, ginSignalCount;
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 29, 7)
    ncclGinConnectionType_t ginConnectionType;
#endif
} ncclDevCommRequirements;
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 29, 0)
#define NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER                                                     \
    {}
#endif
typedef struct ncclDevComm {
    int rank, nRanks, lsaRank, lsaSize;
    fake_group_t *group;
    int signals;
} ncclDevComm;

static inline ncclResult_t ncclDevCommCreate(ncclComm_t c, const ncclDevCommRequirements *reqs,
                                             ncclDevComm *out) {
    fake_group_t *g = c->group;
    int lsa = fake_env("FAKE_LSA", g->n);
    bool gin = reqs->ginForceEnable;
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 29, 7)
    gin = reqs->ginConnectionType == NCCL_GIN_CONNECTION_FULL;
#endif
    g->signals[c->rank] = gin ? new uint64_t[(size_t)reqs->ginSignalCount]() : NULL;
    *out = ncclDevComm{c->rank, g->n, c->rank % lsa, lsa, g, gin ? reqs->ginSignalCount : 0};
    fake_meet(g);
    return ncclSuccess;
}
static inline ncclResult_t ncclDevCommDestroy(ncclComm_t, const ncclDevComm *) {
    return ncclSuccess;
}
static inline ncclTeam ncclTeamWorld(const ncclDevComm &d) {
    return ncclTeam{d.nRanks, d.rank, 1};
}
static inline ncclTeam ncclTeamLsa(const ncclDevComm &d) {
    return ncclTeam{d.lsaSize, d.lsaRank, 1};
}
static inline int ncclTeamRankToTeam(ncclTeam a, ncclTeam b, int peer) {
    return a.rank + (peer - b.rank) * b.stride / a.stride;
}
static inline bool ncclTeamRankIsMember(ncclTeam a, ncclTeam b, int peer) {
    int at = ncclTeamRankToTeam(a, b, peer);
    return at >= 0 && at < a.nRanks;
}
static inline void *ncclGetLocalPointer(ncclWindow_t w, size_t offset) {
    return w->group->memory[w->rank] + offset;
}
static inline void *ncclGetLsaPointer(ncclWindow_t w, size_t offset, int peer) {
    int lsa = fake_env("FAKE_LSA", w->group->n);
    return w->group->memory[w->rank - w->rank % lsa + peer] + offset;
}

typedef struct ncclGin_SignalInc {
    ncclGinSignal_t signal;
} ncclGin_SignalInc;
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 7)
struct ncclGin {
    const ncclDevComm &comm;
    ncclGin(const ncclDevComm &comm_, int) : comm(comm_) {
    }
    void signal(ncclTeam, int peer, ncclGin_SignalInc inc) const {
        if ((int)inc.signal >= comm.signals)
            abort();
        __atomic_fetch_add(&comm.group->signals[peer][inc.signal], 1, __ATOMIC_ACQ_REL);
    }
    void put(ncclTeam team, int peer, ncclWindow_t to, size_t to_at, ncclWindow_t from,
             size_t from_at, size_t bytes, ncclGin_SignalInc inc) const {
        fake_group_t *g = comm.group;
        if (to_at + bytes > g->bytes[peer] || from_at + bytes > g->bytes[comm.rank])
            abort();
        memcpy(to->group->memory[peer] + to_at, from->group->memory[comm.rank] + from_at, bytes);
        signal(team, peer, inc);
    }
    uint64_t readSignal(ncclGinSignal_t signal) const {
        return __atomic_load_n(&comm.group->signals[comm.rank][signal], __ATOMIC_ACQUIRE);
    }
};
#endif

#endif
