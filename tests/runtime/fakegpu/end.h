/* Behind a stand-alone source: how the stand-in starts its kernel; with FAKE_CALLS set, calls that
   must be refused, in place of main(). */
static void fake_kernel(const void *argument) {
    ccl_kernel(*(const ccl_launch_t *)argument);
}
static size_t fake_argument_bytes() {
    return sizeof(ccl_launch_t);
}

#if defined(CCL_FAKE_OWN)
static void fake_want(ccllabResult_t got, ccllabResult_t want, const char *text) {
    if (got == want && (want == ccllabSuccess || strstr(ccllabGetLastError(), text)))
        return;
    fprintf(stderr, "got %d (%s), want %d (%s)\n", (int)got, ccllabGetLastError(), (int)want, text);
    exit(1);
}

static int fake_calls() {
    int n = (int)ccl_program.nranks, devices[64] = {0};
    ccllabComm_t comms[64];
    cudaStream_t s;
    static char memory[4096], more[4096];
    if (!getenv("FAKE_CALLS"))
        return 0;
    fake_want(ccllabCommInitAll(comms, n + 1, devices), ccllabInvalidArgument, "ranks");
    fake_want(ccllabCommInitAll(comms, n, devices), ccllabSuccess, "");
    cudaStreamCreateWithFlags(&s, 0);
    fake_want(CCLLAB_COLLECTIVE(memory, more, 4, ccllabInt32, ccllabSum, NULL, s),
              ccllabInvalidArgument, "comm");
    fake_want(CCLLAB_COLLECTIVE(memory, more, 4, (ccllabDataType_t)8, ccllabSum, comms[0], s),
              ccllabInvalidArgument, "type");
    fake_want(CCLLAB_COLLECTIVE(memory, more, 4, ccllabInt32, (ccllabRedOp_t)1, comms[0], s),
              ccllabInvalidArgument, "operation");
    fake_want(CCLLAB_COLLECTIVE(memory, more, 0, ccllabInt32, ccllabSum, comms[0], s),
              ccllabSuccess, "");
    /* A call that the other ranks never make stands still until it is given up. */
    fake_want(CCLLAB_COLLECTIVE(memory, more, 64, ccllabInt32, ccllabSum, comms[0], s),
              ccllabSuccess, "");
    usleep(10000);
    if (cudaStreamQuery(s) != cudaErrorNotReady)
        exit(1);
    ccllabCommAbort(comms[0]);
    cudaStreamSynchronize(s);
    if (comms[0]->common.places[0].waits == CCL_DEVICE_NONE)
        exit(1);
    for (int r = 0; r < n; r++)
        ccllabCommDestroy(comms[r]);
    exit(0);
}
static int fake_called = fake_calls();
#endif
