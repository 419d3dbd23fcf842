enum { CCL_RANKS_MOST = 1024, CCL_PATIENCE_S = 60 };

struct ccllabComm {
    ccl_common_t common;
    char *region;                 /* this rank's */
    char **bases;                 /* of the device: [nranks] */
    char *opened[CCL_RANKS_MOST]; /* regions of other processes */
    struct ccl_seats *table;      /* of processes; NULL: of one process */
};

static void ccl_leave(ccllabComm_t c);

static ccllabResult_t ccl_region_init(ccllabComm_t c, int rank, int device, int together) {
    uint64_t bytes = ccl_program.region[rank] + 256;
    CCL_OWN_TRY(ccl_common_init(&c->common, rank, device, together));
    CCL_GPU_TRY(GPU_REGION((void **)&c->region, bytes));
    CCL_GPU_TRY(GPU(Memset)(c->region, 0, bytes));
    CCL_GPU_TRY(GPU(Malloc)((void **)&c->bases, ccl_program.nranks * sizeof *c->bases));
    CCL_GPU_TRY(GPU(DeviceSynchronize)());
    return ccllabSuccess;
}

/** Lines of LL128 arrive whole between these devices (links with native atomics have it). */
static bool ccl_whole_lines(int a, int b) {
    int native = 0;
    return a == b || (GPU(DeviceGetP2PAttribute)(&native, GPU(DevP2PAttrNativeAtomicSupported), a,
                                                 b) == GPU(Success) &&
                      native);
}

/** When all its calls are over; all processes of a job call it. */
extern "C" ccllabResult_t ccllabCommDestroy(ccllabComm_t c) {
    if (!c)
        return ccllabSuccess;
    ccl_leave(c);
    ccl_common_fini(&c->common);
    for (uint32_t r = 0; r < ccl_program.nranks; r++)
        if (c->opened[r])
            (void)GPU(IpcCloseMemHandle)(c->opened[r]);
    (void)GPU(Free)(c->region);
    (void)GPU(Free)(c->bases);
    free(c);
    return ccllabSuccess;
}

/** Makes the kernels of a communicator that stands still end; it is of no use then. */
extern "C" ccllabResult_t ccllabCommAbort(ccllabComm_t c) {
    __atomic_store_n(c->common.stop, 1u, __ATOMIC_RELEASE);
    return ccllabSuccess;
}

/* ---------------------------------------------------------------- one process */

static ccllabResult_t ccl_peers(const int *devices, uint32_t a, uint32_t b) {
    int can = 0;
    if (devices[a] == devices[b])
        return ccllabSuccess;
    CCL_GPU_TRY(GPU(DeviceCanAccessPeer)(&can, devices[a], devices[b]));
    if (!can)
        return ccl_fail(ccllabInvalidUsage, "peer access", "two of the devices have none");
    CCL_GPU_TRY(GPU(SetDevice)(devices[a]));
    GPU(Error_t) code = GPU(DeviceEnablePeerAccess)(devices[b], 0);
    if (code == GPU(ErrorPeerAccessAlreadyEnabled))
        (void)GPU(GetLastError)();
    else
        CCL_GPU_TRY(code);
    return ccllabSuccess;
}

static ccllabResult_t ccl_connect_all(ccllabComm_t *comms, const int *devices) {
    uint32_t n = ccl_program.nranks, counted = 0;
    char *bases[CCL_RANKS_MOST];
    for (uint32_t a = 0; a < n; a++) {
        int together = 0;
        for (uint32_t b = 0; b < n; b++) {
            CCL_OWN_TRY(ccl_peers(devices, a, b));
            together += devices[a] == devices[b];
            counted |= !ccl_whole_lines(devices[a], devices[b]);
        }
        if (together > CCL_MOST_TOGETHER)
            return ccl_fail(ccllabInvalidUsage, "the devices", "at most 8 ranks share one");
        CCL_OWN_TRY(ccl_region_init(comms[a], (int)a, devices[a], together));
        bases[a] = comms[a]->region;
    }
    for (uint32_t a = 0; a < n; a++) {
        comms[a]->common.counted = CCL_SA_PROTOCOL == CCL_DEVICE_LL128 && counted;
        CCL_GPU_TRY(GPU(SetDevice)(devices[a]));
        CCL_GPU_TRY(
            GPU(Memcpy)(comms[a]->bases, bases, n * sizeof *bases, GPU(MemcpyHostToDevice)));
    }
    return ccllabSuccess;
}

/** All ranks in this process, rank r on devices[r]; up to 8 may share a device (ccllabTogether). */
extern "C" ccllabResult_t ccllabCommInitAll(ccllabComm_t *comms, int n, const int *devices) {
    if (n != (int)ccl_program.nranks || n > CCL_RANKS_MOST)
        return ccl_fail(ccllabInvalidArgument, "ranks", "not as many as the program has");
    memset(comms, 0, (size_t)n * sizeof *comms);
    bool nomem = false;
    for (int r = 0; r < n; r++) {
        comms[r] = (ccllabComm_t)calloc(1, sizeof *comms[r]);
        nomem = nomem || !comms[r];
    }
    ccllabResult_t code = nomem ? ccl_fail(ccllabSystemError, "memory", "none is left")
                                : ccl_connect_all(comms, devices);
    for (int r = 0; r < n && code != ccllabSuccess; r++) {
        (void)ccllabCommDestroy(comms[r]);
        comms[r] = NULL;
    }
    return code;
}

/* ---------------------------------------------------------------- processes of one host */

/** What processes report to each other, in a file of /dev/shm. */
typedef struct ccl_seat {
    uint32_t state, counted; /* 1: the handle is there; 2: all were opened; 3: leaves */
    GPU(IpcMemHandle_t) handle;
    char bus[32];
} ccl_seat_t;
typedef struct ccl_seats {
    uint32_t ready, pid; /* of rank 0 */
    ccl_seat_t seats[CCL_RANKS_MOST];
} ccl_seats_t;

static void ccl_doze(void) {
    struct timespec t = {0, 1000000};
    nanosleep(&t, NULL);
}

/** Rank 0 makes the file under another name first; an old one's process is no more. */
static ccl_seats_t *ccl_seats_open(const char *name, int rank) {
    char path[256], fresh[300];
    time_t end = time(NULL) + CCL_PATIENCE_S;
    snprintf(path, sizeof path, "/dev/shm/ccllab-%.200s", name);
    snprintf(fresh, sizeof fresh, "%s.%d", path, (int)getpid());
    for (; time(NULL) < end; ccl_doze()) {
        int fd = rank == 0 ? open(fresh, O_RDWR | O_CREAT | O_EXCL, 0600) : open(path, O_RDWR);
        struct stat about;
        if (fd < 0 && rank == 0)
            return NULL;
        if (fd < 0)
            continue;
        bool sized = rank == 0
                         ? ftruncate(fd, sizeof(ccl_seats_t)) == 0
                         : fstat(fd, &about) == 0 && about.st_size >= (off_t)sizeof(ccl_seats_t);
        ccl_seats_t *t =
            sized ? (ccl_seats_t *)mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                  : (ccl_seats_t *)MAP_FAILED;
        close(fd);
        if (rank == 0 && t != MAP_FAILED) {
            t->pid = (uint32_t)getpid();
            t->ready = ccl_program.nranks;
            if (rename(fresh, path) == 0)
                return t;
        }
        if (rank == 0) {
            unlink(fresh);
            return NULL;
        }
        if (t != MAP_FAILED && t->ready == ccl_program.nranks &&
            (kill((pid_t)t->pid, 0) == 0 || errno == EPERM))
            return t;
        if (t != MAP_FAILED)
            munmap(t, sizeof *t);
    }
    return NULL;
}

static bool ccl_seated(ccl_seats_t *t, uint32_t state) {
    time_t end = time(NULL) + CCL_PATIENCE_S;
    for (uint32_t r = 0; r < ccl_program.nranks;) {
        if (__atomic_load_n(&t->seats[r].state, __ATOMIC_ACQUIRE) >= state)
            r++;
        else if (time(NULL) >= end)
            return false;
        else
            ccl_doze();
    }
    return true;
}

static ccllabResult_t ccl_connect(ccllabComm_t c, ccl_seats_t *t, int rank) {
    uint32_t n = ccl_program.nranks, counted = 0;
    ccl_seat_t *own = &t->seats[rank];
    char *bases[CCL_RANKS_MOST];
    CCL_GPU_TRY(GPU(IpcGetMemHandle)(&own->handle, c->region));
    CCL_GPU_TRY(GPU(DeviceGetPCIBusId)(own->bus, (int)sizeof own->bus, c->common.device));
    __atomic_store_n(&own->state, 1u, __ATOMIC_RELEASE);
    if (!ccl_seated(t, 1))
        return ccl_fail(ccllabSystemError, "processes", "not all came within 60 s");
    for (uint32_t r = 0; r < n; r++) {
        int peer = -1;
        bases[r] = c->region;
        if (r == (uint32_t)rank)
            continue;
        CCL_GPU_TRY(GPU(IpcOpenMemHandle)((void **)&c->opened[r], t->seats[r].handle,
                                          GPU(IpcMemLazyEnablePeerAccess)));
        bases[r] = c->opened[r];
        if (GPU(DeviceGetByPCIBusId)(&peer, t->seats[r].bus) != GPU(Success) ||
            !ccl_whole_lines(c->common.device, peer))
            own->counted = 1;
    }
    CCL_GPU_TRY(GPU(Memcpy)(c->bases, bases, n * sizeof *bases, GPU(MemcpyHostToDevice)));
    __atomic_store_n(&own->state, 2u, __ATOMIC_RELEASE);
    if (!ccl_seated(t, 2))
        return ccl_fail(ccllabSystemError, "processes", "one of them gave up");
    for (uint32_t r = 0; r < n; r++)
        counted |= t->seats[r].counted;
    c->common.counted = CCL_SA_PROTOCOL == CCL_DEVICE_LL128 && counted;
    return ccllabSuccess;
}

/** Peers may still return slots: a region stays until all are done. */
static void ccl_leave(ccllabComm_t c) {
    if (!c->table)
        return;
    (void)GPU(SetDevice)(c->common.device);
    (void)GPU(DeviceSynchronize)();
    __atomic_store_n(&c->table->seats[c->common.rank].state, 3u, __ATOMIC_RELEASE);
    (void)ccl_seated(c->table, 3);
    munmap(c->table, sizeof *c->table);
}

/** This process is `rank` on its current device; `name`: one for all processes of the job. */
extern "C" ccllabResult_t ccllabCommInitRank(ccllabComm_t *comm, int nranks, const char *name,
                                             int rank) {
    int device = 0;
    if (nranks != (int)ccl_program.nranks || rank < 0 || rank >= nranks || nranks > CCL_RANKS_MOST)
        return ccl_fail(ccllabInvalidArgument, "ranks", "not as many as the program has");
    CCL_GPU_TRY(GPU(GetDevice)(&device));
    ccllabComm_t c = (ccllabComm_t)calloc(1, sizeof *c);
    if (!c)
        return ccl_fail(ccllabSystemError, "memory", "none is left");
    ccllabResult_t code = ccl_region_init(c, rank, device, 1);
    ccl_seats_t *t = code == ccllabSuccess ? ccl_seats_open(name, rank) : NULL;
    if (code == ccllabSuccess)
        code = t ? ccl_connect(c, t, rank)
                 : ccl_fail(ccllabSystemError, "processes", "rank 0 did not come within 60 s");
    if (rank == 0 && t) {
        char path[256];
        snprintf(path, sizeof path, "/dev/shm/ccllab-%.200s", name);
        unlink(path);
    }
    if (code == ccllabSuccess)
        c->table = t;
    else if (t)
        munmap(t, sizeof *t);
    if (code == ccllabSuccess)
        *comm = c;
    else
        (void)ccllabCommDestroy(c);
    return code;
}

/* ---------------------------------------------------------------- the collective */

static ccl_call_t ccl_call_of(const void *in, void *out, ccllabComm_t c) {
    ccl_call_t call;
    memset(&call, 0, sizeof call);
    call.in = in;
    call.out = out;
    call.c = &c->common;
    call.bases = c->bases;
    return call;
}

/** As NCCL's function of this collective; where the program has a root, it is the program's. */
extern "C" ccllabResult_t CCLLAB_COLLECTIVE(const void *sendbuff, void *recvbuff, size_t count,
                                            ccllabDataType_t type, ccllabRedOp_t op,
                                            ccllabComm_t comm, GPU(Stream_t) stream) {
    ccl_no_reach_t none = {0};
    if (!comm)
        return ccl_fail(ccllabInvalidArgument, "comm", "is NULL");
    ccl_call_t call = ccl_call_of(sendbuff, recvbuff, comm);
    return ccl_enqueue(&call, 1, count, (int)type, (int)op, &none, stream);
}

/** The same for n ranks of this process that share a device. */
extern "C" ccllabResult_t ccllabTogether(const void *const *sendbuffs, void *const *recvbuffs,
                                         int n, size_t count, ccllabDataType_t type,
                                         ccllabRedOp_t op, ccllabComm_t *comms,
                                         GPU(Stream_t) stream) {
    ccl_no_reach_t none = {0};
    ccl_call_t calls[CCL_MOST_TOGETHER];
    if (n < 1 || n > CCL_MOST_TOGETHER)
        return ccl_fail(ccllabInvalidArgument, "ranks", "1 to 8 share a device");
    for (int i = 0; i < n; i++)
        calls[i] = ccl_call_of(sendbuffs[i], recvbuffs[i], comms[i]);
    return ccl_enqueue(calls, (uint32_t)n, count, (int)type, (int)op, &none, stream);
}
