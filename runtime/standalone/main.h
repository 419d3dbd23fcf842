#ifndef CCLLAB_NO_MAIN
/* ---------------------------------------------------------------- a test of the data */

/* Every type and reduction with counts from 1 to MOST items, in place and not, each call twice.
   FILE [--max ITEMS] [--time]: all ranks in this process. FILE ... --rank R --job NAME: one rank
   of a job. Exit code 0: all data are right; 1: they are not; 77: no device is here. */

typedef struct ccl_test_rank {
    ccllabComm_t comm;
    GPU(Stream_t) stream;
    char *in, *out; /* of the device, with room for every shard */
    int device, rank;
} ccl_test_rank_t;

typedef struct ccl_test {
    ccl_test_rank_t ranks[CCL_TEST_RANKS];
    uint32_t first, n; /* ranks of this process */
    uint64_t most;     /* items of a shard */
    bool times, quiet;
    uint64_t wrong, calls;
    char *host;
} ccl_test_t;

static const char *ccl_type_names[] = {"int32", "fp32", "fp16", "bf16"};
static const char *ccl_op_names[] = {"sum", "min", "max"};
static const ccllabDataType_t ccl_types[] = {ccllabInt32, ccllabFloat32, ccllabFloat16,
                                             ccllabBfloat16};
static const ccllabRedOp_t ccl_ops[] = {ccllabSum, ccllabMin, ccllabMax};

#define CCL_TEST_TRY(call_)                                                                        \
    do {                                                                                           \
        ccllabResult_t code_ = (call_);                                                            \
        if (code_ != ccllabSuccess) {                                                              \
            fprintf(stderr, "%s: %s\n", CCLLAB_NAME, ccllabGetLastError());                        \
            return false;                                                                          \
        }                                                                                          \
    } while (0)
#define CCL_TEST_GPU(call_)                                                                        \
    do {                                                                                           \
        GPU(Error_t) code_ = (call_);                                                              \
        if (code_ != GPU(Success)) {                                                               \
            fprintf(stderr, "%s: %s: %s\n", CCLLAB_NAME, #call_, GPU(GetErrorString)(code_));      \
            return false;                                                                          \
        }                                                                                          \
    } while (0)

static double ccl_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/** Where a rank's input and output are in a call: one memory, or two. */
static void ccl_test_place(const ccl_test_rank_t *r, uint64_t shard, bool in_place, char **in,
                           char **out) {
    ccl_sa_shards_t s = ccl_sa_shards(&ccl_program, (uint32_t)r->rank);
    bool one = in_place && s.in && s.out;
    *in = one ? r->out + s.in_first * shard : r->in;
    *out = one ? r->out + s.out_first * shard : r->out;
}

static bool ccl_test_begin(ccl_test_t *t, uint64_t count, uint32_t type, bool in_place) {
    for (uint32_t i = 0; i < t->n; i++) {
        ccl_test_rank_t *r = &t->ranks[i];
        ccl_sa_shards_t s = ccl_sa_shards(&ccl_program, (uint32_t)r->rank);
        uint64_t shard = count * ccl_sa_type_bytes(type);
        char *in, *out;
        ccl_test_place(r, shard, in_place, &in, &out);
        CCL_TEST_GPU(GPU(SetDevice)(r->device));
        CCL_TEST_GPU(GPU(Memset)(r->out, 0xa5, s.both * shard));
        ccl_sa_fill(&ccl_program, type, (uint32_t)r->rank, count, t->host);
        CCL_TEST_GPU(GPU(Memcpy)(in, t->host, s.in * shard, GPU(MemcpyHostToDevice)));
        CCL_TEST_GPU(GPU(DeviceSynchronize)());
    }
    return true;
}

/** Ranks that share a device begin together; nothing else would be sure to end. */
static bool ccl_test_call(ccl_test_t *t, uint64_t count, uint32_t type, uint32_t op,
                          bool in_place) {
    for (uint32_t i = 0; i < t->n; i++) {
        const void *in[CCL_TEST_TOGETHER];
        void *out[CCL_TEST_TOGETHER];
        ccllabComm_t comms[CCL_TEST_TOGETHER];
        int n = 0;
        bool led = true; /* the first rank of its device */
        for (uint32_t k = 0; k < t->n && n < CCL_TEST_TOGETHER; k++) {
            if (t->ranks[k].device != t->ranks[i].device)
                continue;
            char *a, *b;
            led = led && k >= i;
            ccl_test_place(&t->ranks[k], count * ccl_sa_type_bytes(type), in_place, &a, &b);
            in[n] = a;
            out[n] = b;
            comms[n++] = t->ranks[k].comm;
        }
        if (!led)
            continue;
        CCL_TEST_GPU(GPU(SetDevice)(t->ranks[i].device));
        if (n == 1)
            CCL_TEST_TRY(CCLLAB_COLLECTIVE(in[0], out[0], count, ccl_types[type], ccl_ops[op],
                                           comms[0], t->ranks[i].stream));
        else
            CCL_TEST_TRY(CCL_TEST_SHARED(in, out, n, count, ccl_types[type], ccl_ops[op], comms,
                                         t->ranks[i].stream));
    }
    return true;
}

/** Waits for all streams; says where blocks stand if that takes too long. */
static bool ccl_test_wait(ccl_test_t *t) {
    double end = ccl_now() + 60;
    for (uint32_t i = 0; i < t->n; i++) {
        ccl_test_rank_t *r = &t->ranks[i];
        CCL_TEST_GPU(GPU(SetDevice)(r->device));
        GPU(Error_t) code;
        while ((code = GPU(StreamQuery)(r->stream)) == GPU(ErrorNotReady) && ccl_now() < end)
            usleep(20);
        if (code == GPU(Success))
            continue;
        if (code != GPU(ErrorNotReady))
            CCL_TEST_GPU(code);
        for (uint32_t k = 0; k < t->n; k++)
            (void)ccllabCommAbort(t->ranks[k].comm);
        (void)GPU(StreamSynchronize)(r->stream);
        for (uint32_t k = 0; k < t->n; k++)
            ccl_test_places(t->ranks[k].comm);
        return false;
    }
    return true;
}

static bool ccl_test_check(ccl_test_t *t, uint64_t count, uint32_t type, uint32_t op,
                           bool in_place) {
    uint64_t wrong = 0;
    for (uint32_t i = 0; i < t->n; i++) {
        ccl_test_rank_t *r = &t->ranks[i];
        uint64_t shard = count * ccl_sa_type_bytes(type);
        char *in, *out;
        ccl_test_place(r, shard, in_place, &in, &out);
        CCL_TEST_GPU(GPU(SetDevice)(r->device));
        CCL_TEST_GPU(GPU(Memcpy)(t->host, out,
                                 ccl_sa_shards(&ccl_program, (uint32_t)r->rank).out * shard,
                                 GPU(MemcpyDeviceToHost)));
        wrong += ccl_sa_wrong(&ccl_program, type, op, (uint32_t)r->rank, count, t->host);
    }
    t->wrong += wrong;
    t->calls++;
    if (wrong)
        printf("%s: %llu items %s %s%s: %llu are wrong\n", CCLLAB_NAME, (unsigned long long)count,
               ccl_type_names[type], ccl_op_names[op], in_place ? " in place" : "",
               (unsigned long long)wrong);
    return true;
}

/** Time of a call, of many one after the other; that of the slowest rank here. */
static bool ccl_test_time(ccl_test_t *t, uint64_t count) {
    enum { WARM = 5, CALLS = 20 };
    double start = 0;
    if (!ccl_test_begin(t, count, CCL_GPU_FP32, false))
        return false;
    for (int i = 0; i < WARM + CALLS; i++) {
        if (i == WARM) {
            if (!ccl_test_wait(t))
                return false;
            start = ccl_now();
        }
        if (!ccl_test_call(t, count, CCL_GPU_FP32, CCL_GPU_SUM, false))
            return false;
    }
    if (!ccl_test_wait(t))
        return false;
    double s = (ccl_now() - start) / CALLS;
    printf("%s fp32 sum: %llu items of a shard in %.2f us a call (%.3f GB/s)\n", CCLLAB_NAME,
           (unsigned long long)count, 1e6 * s, 4e-9 * (double)count / s);
    return true;
}

static bool ccl_test_all(ccl_test_t *t) {
    const uint64_t counts[] = {1, 7, 1000, 65537, 1u << 20, (1u << 22) + 4};
    for (uint32_t k = 0; k < sizeof counts / sizeof *counts; k++) {
        for (uint32_t v = 0; v < 24 && counts[k] <= t->most; v++) {
            uint32_t type = v % 4, op = v / 4 % 3;
            bool in_place = v >= 12;
            if ((op && !ccl_sa_reduces(&ccl_program)) || (counts[k] > 65537 && v % 5))
                continue;
            for (int twice = 0; twice < 2; twice++)
                if (!ccl_test_begin(t, counts[k], type, in_place) ||
                    !ccl_test_call(t, counts[k], type, op, in_place) || !ccl_test_wait(t) ||
                    !ccl_test_check(t, counts[k], type, op, in_place))
                    return false;
        }
        if (t->times && counts[k] <= t->most && !ccl_test_time(t, counts[k]))
            return false;
    }
    return true;
}

static bool ccl_test_memory(ccl_test_t *t) {
    uint64_t all = 0;
    for (uint32_t i = 0; i < t->n; i++) {
        ccl_test_rank_t *r = &t->ranks[i];
        ccl_sa_shards_t s = ccl_sa_shards(&ccl_program, (uint32_t)r->rank);
        uint64_t bytes = (uint64_t)(s.both > s.in ? s.both : s.in) * t->most * 4 + 256;
        all = bytes > all ? bytes : all;
        CCL_TEST_GPU(GPU(SetDevice)(r->device));
        CCL_TEST_GPU(GPU(Malloc)((void **)&r->in, bytes));
        CCL_TEST_GPU(GPU(Malloc)((void **)&r->out, bytes));
        CCL_TEST_GPU(GPU(StreamCreateWithFlags)(&r->stream, GPU(StreamNonBlocking)));
    }
    t->host = (char *)malloc(all);
    return t->host != NULL;
}

int main(int argc, char **argv) {
    static ccl_test_t t;
    const char *job = NULL;
    int rank = -1, devices = 0, code = 0;
    t.most = (1u << 22) + 4;
    for (int i = 1; i < argc; i++) {
        bool value = i + 1 < argc;
        if (strcmp(argv[i], "--time") == 0) {
            t.times = true;
        } else if (strcmp(argv[i], "--max") == 0 && value) {
            t.most = strtoull(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--rank") == 0 && value) {
            rank = atoi(argv[++i]);
        } else if (strcmp(argv[i], "--job") == 0 && value) {
            job = argv[++i];
        } else {
            fprintf(stderr, "usage: %s [--max ITEMS] [--time] [--rank R --job NAME]\n", argv[0]);
            return 2;
        }
    }
    if (GPU(GetDeviceCount)(&devices) != GPU(Success) || devices == 0) {
        fprintf(stderr, "%s: no device is here\n", CCLLAB_NAME);
        return 77;
    }
    code = ccl_test_connect(&t, rank, job, devices);
    if (code == 0)
        code = ccl_test_memory(&t) && ccl_test_all(&t) && t.wrong == 0 ? 0 : 1;
    if (code == 0)
        printf("%s: %llu calls of %u ranks, all data right\n", CCLLAB_NAME,
               (unsigned long long)t.calls, t.n);
    for (uint32_t i = 0; i < t.n; i++) {
        (void)GPU(SetDevice)(t.ranks[i].device);
        (void)GPU(Free)(t.ranks[i].in);
        (void)GPU(Free)(t.ranks[i].out);
    }
    if (code != 77)
        ccl_test_disconnect(&t);
    free(t.host);
    return code;
}
#endif
