#ifndef CCLLAB_NO_MAIN
/* ---------------------------------------------------------------- how the test connects */
enum { CCL_TEST_RANKS = CCL_RANKS_MOST, CCL_TEST_TOGETHER = CCL_MOST_TOGETHER };
#define CCL_TEST_SHARED ccllabTogether
struct ccl_test;
static void ccl_test_places(ccllabComm_t c) {
    ccl_print_places(&c->common);
}

/** @return 0, 77 where too few devices are here, 1 where it failed. */
template <class Test> static int ccl_test_connect(Test *t, int rank, const char *job, int devices) {
    uint32_t n = ccl_program.nranks;
    ccllabComm_t comms[CCL_RANKS_MOST];
    int on[CCL_RANKS_MOST];
    ccllabResult_t code;
    if (n > (uint32_t)devices * CCL_MOST_TOGETHER || n > CCL_RANKS_MOST) {
        fprintf(stderr, "%s: %u ranks, but %d devices are here\n", CCLLAB_NAME, n, devices);
        return 77;
    }
    for (uint32_t r = 0; r < n; r++) /* neighbours share a device, where there are too few */
        on[r] = (int)((uint64_t)r * (uint32_t)(devices < (int)n ? devices : (int)n) / n);
    t->n = job ? 1 : n;
    if (job) {
        code = GPU(SetDevice)(rank % devices) == GPU(Success)
                   ? ccllabCommInitRank(&comms[0], (int)n, job, rank)
                   : ccllabUnhandledCudaError;
        t->ranks[0].rank = rank;
        t->ranks[0].device = rank % devices;
    } else {
        code = ccllabCommInitAll(comms, (int)n, on);
    }
    for (uint32_t i = 0; i < t->n && code == ccllabSuccess; i++) {
        t->ranks[i].comm = comms[i];
        if (!job) {
            t->ranks[i].rank = (int)i;
            t->ranks[i].device = on[i];
        }
    }
    if (code != ccllabSuccess)
        fprintf(stderr, "%s: %s\n", CCLLAB_NAME, ccllabGetLastError());
    t->n = code == ccllabSuccess ? t->n : 0;
    return code == ccllabSuccess ? 0 : 1;
}

template <class Test> static void ccl_test_disconnect(Test *t) {
    for (uint32_t i = 0; i < t->n; i++)
        (void)ccllabCommDestroy(t->ranks[i].comm);
}
#endif
