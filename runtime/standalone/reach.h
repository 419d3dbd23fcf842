/* How peers are reached by NCCL's device API: by address within an LSA team, else by GIN. */
#if NCCL_VERSION_CODE < NCCL_VERSION(2, 28, 0)
#error "NCCL 2.28 or newer is needed: its device API"
#endif
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 7)
#define CCL_HAS_GIN 1
#else
#define CCL_HAS_GIN 0
#endif

typedef struct ccl_nccl_reach {
    ncclDevComm dev;
    ncclWindow_t window; /* of all ranks' regions */
} ccl_nccl_reach_t;
#define CCL_REACH ccl_nccl_reach_t

CCL_GPU_FN const ccl_nccl_reach_t *ccl_reach_of(const ccl_sa_run_t *run) {
    return (const ccl_nccl_reach_t *)run->reach;
}

CCL_GPU_FN bool ccl_sa_far(const ccl_sa_run_t *run, uint32_t peer) {
    const ccl_nccl_reach_t *reach = ccl_reach_of(run);
    return !ncclTeamRankIsMember(ncclTeamLsa(reach->dev), ncclTeamWorld(reach->dev), (int)peer);
}

CCL_GPU_FN char *ccl_sa_at(const ccl_sa_run_t *run, uint32_t rank, uint64_t offset) {
    const ccl_nccl_reach_t *reach = ccl_reach_of(run);
    if (rank == run->rank)
        return (char *)ncclGetLocalPointer(reach->window, offset);
    return (char *)ncclGetLsaPointer(
        reach->window, offset,
        ncclTeamRankToTeam(ncclTeamLsa(reach->dev), ncclTeamWorld(reach->dev), (int)rank));
}

CCL_GPU_FN uint64_t ccl_sa_signal(const ccl_sa_run_t *run, uint32_t signal) {
#if CCL_HAS_GIN
    ncclGin gin(ccl_reach_of(run)->dev, 0);
    return gin.readSignal((ncclGinSignal_t)signal);
#else
    (void)run;
    (void)signal;
    return 0;
#endif
}

CCL_GPU_FN void ccl_sa_put(const ccl_sa_run_t *run, const ccl_sa_end_t *e, uint64_t bytes) {
#if CCL_HAS_GIN
    const ccl_nccl_reach_t *reach = ccl_reach_of(run);
    ncclGin gin(reach->dev, 0);
    ncclTeam world = ncclTeamWorld(reach->dev);
    if (bytes)
        gin.put(world, (int)e->peer, reach->window, e->there + CCL_SA_SLOTS_AT + ccl_sa_slot_at(e),
                reach->window, e->here + CCL_SA_SLOTS_AT + ccl_sa_slot_at(e), bytes,
                ncclGin_SignalInc{(ncclGinSignal_t)e->signals});
    else
        gin.signal(world, (int)e->peer, ncclGin_SignalInc{(ncclGinSignal_t)e->signals});
#else
    (void)run;
    (void)e;
    (void)bytes;
#endif
}
