#ifndef CCLLAB_NO_MAIN
/* ---------------------------------------------------------------- how the test connects */
#include <thread>

enum { CCL_TEST_RANKS = 1024, CCL_TEST_TOGETHER = 1 };
/* Every rank has a device of its own. */
#define CCL_TEST_SHARED(in_, out_, n_, count_, type_, op_, comms_, stream_) ncclInternalError
static void ccl_test_places(ccllabComm_t c) {
    ccl_print_places(&c->common);
}
static ncclComm_t ccl_test_comms[CCL_TEST_RANKS];

/** Rank 0 of a job writes NCCL's unique id to a file that all see. */
static ncclResult_t ccl_test_id(int rank, const char *path, ncclUniqueId *id) {
    char fresh[300];
    snprintf(fresh, sizeof fresh, "%.250s.new", path);
    if (rank == 0) {
        CCL_NCCL_TRY(ncclGetUniqueId(id));
        FILE *file = fopen(fresh, "wb");
        bool written = file && fwrite(id, sizeof *id, 1, file) == 1;
        if (!file || fclose(file) != 0 || !written || rename(fresh, path) != 0)
            return ccl_fail(ncclSystemError, path, "cannot be written");
        return ncclSuccess;
    }
    for (int i = 0; i < 60000; i++) {
        FILE *file = fopen(path, "rb");
        bool read = file && fread(id, sizeof *id, 1, file) == 1;
        if (file)
            fclose(file);
        if (read)
            return ncclSuccess;
        usleep(1000);
    }
    return ccl_fail(ncclSystemError, path, "did not come within 60 s");
}

/** @return 0, 77 where too few devices are here, 1 where it failed. */
template <class Test> static int ccl_test_connect(Test *t, int rank, const char *job, int devices) {
    uint32_t n = ccl_program.nranks;
    ncclResult_t code = ncclSuccess;
    ncclUniqueId id;
    if ((!job && n > (uint32_t)devices) || n > CCL_TEST_RANKS) {
        fprintf(stderr, "%s: %u ranks, but %d devices are here\n", CCLLAB_NAME, n, devices);
        return 77;
    }
    t->n = job ? 1 : n;
    if (job) {
        t->ranks[0].rank = rank;
        t->ranks[0].device = rank % devices;
        code = ccl_test_id(rank, job, &id);
        if (code == ncclSuccess && cudaSetDevice(rank % devices) == cudaSuccess)
            code = ncclCommInitRank(&ccl_test_comms[0], (int)n, id, rank);
    } else {
        code = ncclCommInitAll(ccl_test_comms, (int)n, NULL);
    }
    /* Windows are registered by all ranks at once. */
    std::thread threads[CCL_TEST_RANKS];
    ncclResult_t codes[CCL_TEST_RANKS];
    for (uint32_t i = 0; i < t->n && code == ncclSuccess; i++) {
        t->ranks[i].rank = job ? rank : (int)i;
        t->ranks[i].device = job ? rank % devices : (int)i;
        threads[i] = std::thread([t, i, &codes] {
            (void)cudaSetDevice(t->ranks[i].device);
            codes[i] = ccllabCommInit(&t->ranks[i].comm, ccl_test_comms[i]);
            if (codes[i] != ncclSuccess)
                fprintf(stderr, "%s: %s\n", CCLLAB_NAME, ccllabGetLastError());
        });
    }
    for (uint32_t i = 0; i < t->n; i++) {
        if (!threads[i].joinable())
            continue;
        threads[i].join();
        code = codes[i] != ncclSuccess ? codes[i] : code;
    }
    if (code != ncclSuccess)
        fprintf(stderr, "%s: %s\n", CCLLAB_NAME, ncclGetErrorString(code));
    return code == ncclSuccess ? 0 : 1;
}

template <class Test> static void ccl_test_disconnect(Test *t) {
    for (uint32_t i = 0; i < t->n; i++) {
        (void)ccllabCommDestroy(t->ranks[i].comm);
        if (ccl_test_comms[i])
            (void)ncclCommDestroy(ccl_test_comms[i]);
    }
}
#endif
