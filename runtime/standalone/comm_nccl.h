/* ---------------------------------------------------------------- communicators beside NCCL's */

#define CCL_NCCL_TRY(call_)                                                                        \
    do {                                                                                           \
        ncclResult_t code_ = (call_);                                                              \
        if (code_ != ncclSuccess)                                                                  \
            return ccl_fail(code_, #call_, ncclGetErrorString(code_));                             \
    } while (0)

struct ccllabComm {
    ccl_common_t common;
    ncclComm_t nccl;
    ccl_nccl_reach_t reach;
    void *region;
    bool registered, connected;
};

static ncclResult_t ccl_dev_comm(ccllabComm_t c, int signals) {
#ifdef NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER
    ncclDevCommRequirements reqs = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
#else
    ncclDevCommRequirements reqs;
    memset(&reqs, 0, sizeof reqs);
#endif
#if CCL_HAS_GIN
    reqs.ginSignalCount = signals;
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 29, 7)
    reqs.ginConnectionType = signals ? NCCL_GIN_CONNECTION_FULL : NCCL_GIN_CONNECTION_NONE;
#else
    reqs.ginForceEnable = signals != 0;
#endif
#else
    if (signals)
        return ccl_fail(ncclInvalidUsage, "GIN", "NCCL 2.28.7 or newer is needed between hosts");
#endif
    CCL_NCCL_TRY(ncclDevCommCreate(c->nccl, &reqs, &c->reach.dev));
    c->connected = true;
    return ncclSuccess;
}

static ncclResult_t ccl_comm_fill(ccllabComm_t c, ncclComm_t nccl) {
    const ccl_sa_program_t *p = &ccl_program;
    int rank = 0, nranks = 0, device = 0;
    uint64_t bytes = 0, unit = 1 << 21;
    uint32_t signals = 1;
    c->nccl = nccl;
    CCL_NCCL_TRY(ncclCommUserRank(nccl, &rank));
    CCL_NCCL_TRY(ncclCommCount(nccl, &nranks));
    CCL_NCCL_TRY(ncclCommCuDevice(nccl, &device));
    if (nranks != (int)p->nranks)
        return ccl_fail(ncclInvalidArgument, "ranks", "not as many as the program has");
    CCL_OWN_TRY(ccl_common_init(&c->common, rank, device, 1));
    for (uint32_t r = 0; r < p->nranks; r++) { /* windows are of one size and layout */
        bytes = p->region[r] > bytes ? p->region[r] : bytes;
        signals = p->signals[r] > signals ? p->signals[r] : signals;
    }
    bytes = (bytes + unit - 1) / unit * unit;
    CCL_NCCL_TRY(ncclMemAlloc(&c->region, bytes));
    CCL_GPU_TRY(GPU(Memset)(c->region, 0, bytes));
    CCL_GPU_TRY(GPU(DeviceSynchronize)());
    CCL_NCCL_TRY(
        ncclCommWindowRegister(nccl, c->region, bytes, &c->reach.window, NCCL_WIN_COLL_SYMMETRIC));
    c->registered = true;
    CCL_OWN_TRY(ccl_dev_comm(c, 0));
    if (c->reach.dev.lsaSize < c->reach.dev.nRanks) { /* some peers are not reached by address */
        c->connected = false;
        CCL_NCCL_TRY(ncclDevCommDestroy(nccl, &c->reach.dev));
        CCL_OWN_TRY(ccl_dev_comm(c, (int)signals));
    }
    return ncclSuccess;
}

/** Before NCCL's communicator is destroyed. */
extern "C" ncclResult_t ccllabCommDestroy(ccllabComm_t c) {
    if (!c)
        return ncclSuccess;
    ccl_common_fini(&c->common);
    if (c->connected)
        (void)ncclDevCommDestroy(c->nccl, &c->reach.dev);
    if (c->registered)
        (void)ncclCommWindowDeregister(c->nccl, c->reach.window);
    if (c->region)
        (void)ncclMemFree(c->region);
    free(c);
    return ncclSuccess;
}

/** Makes the kernels of a communicator that stands still end; it is of no use then. */
extern "C" ncclResult_t ccllabCommAbort(ccllabComm_t c) {
    __atomic_store_n(c->common.stop, 1u, __ATOMIC_RELEASE);
    return ncclSuccess;
}

/** All ranks of NCCL's communicator call it, each from a process or thread of its own. */
extern "C" ncclResult_t ccllabCommInit(ccllabComm_t *comm, ncclComm_t nccl) {
    ccllabComm_t c = (ccllabComm_t)calloc(1, sizeof *c);
    if (!c)
        return ccl_fail(ncclSystemError, "memory", "none is left");
    ncclResult_t code = ccl_comm_fill(c, nccl);
    if (code == ncclSuccess)
        *comm = c;
    else
        (void)ccllabCommDestroy(c);
    return code;
}

/** As NCCL's function of this collective; where the program has a root, it is the program's. */
extern "C" ncclResult_t CCLLAB_COLLECTIVE(const void *sendbuff, void *recvbuff, size_t count,
                                          ncclDataType_t type, ncclRedOp_t op, ccllabComm_t comm,
                                          cudaStream_t stream) {
    ccl_call_t call;
    if (!comm)
        return ccl_fail(ncclInvalidArgument, "comm", "is NULL");
    memset(&call, 0, sizeof call);
    call.in = sendbuff;
    call.out = recvbuff;
    call.c = &comm->common;
    return ccl_enqueue(&call, 1, count, (int)type, (int)op, &comm->reach, stream);
}
