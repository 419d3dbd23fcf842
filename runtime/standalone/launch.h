/* ---------------------------------------------------------------- the kernel and its launch */

enum { CCL_MOST_TOGETHER = 8, CCL_MOST_THREADS = 512, CCL_LEAST_THREADS = 128 };

/** Ranks that share a device run in one launch, so that their blocks are there together. */
typedef struct ccl_launch {
    uint32_t n;
    ccl_sa_run_t runs[CCL_MOST_TOGETHER];
    CCL_REACH reach;
} ccl_launch_t;

extern "C" __global__ void __launch_bounds__(CCL_MOST_THREADS)
    ccl_kernel(const CCL_GRID_CONSTANT ccl_launch_t launch) {
    __shared__ ccl_gpu_shared_t shared;
    __shared__ ccl_sa_run_t run;
    __shared__ uint4 tiles[CCL_SA_PROTOCOL ? CCL_GPU_TILES * CCL_GPU_TILE_BYTES / 16 : 1];
    uint32_t index = blockIdx.x, r = 0;
    while (index >= launch.runs[r].nunits)
        index -= launch.runs[r++].nunits;
    if (threadIdx.x == 0) {
        run = launch.runs[r];
        run.reach = &launch.reach;
    }
    __syncthreads();
    ccl_gpu_block_t b = {&shared, threadIdx.x, blockDim.x, (void *)0, (char *)tiles};
    ccl_block(&run, &b, index);
}

static thread_local char ccl_error[256] = "no error";
/** What the last call of this thread that failed could not do. */
extern "C" const char *ccllabGetLastError(void) {
    return ccl_error;
}

static ccllabResult_t ccl_fail(ccllabResult_t code, const char *what, const char *why) {
    snprintf(ccl_error, sizeof ccl_error, "%s: %s", what, why);
    return code;
}

#define CCL_GPU_TRY(call_)                                                                         \
    do {                                                                                           \
        GPU(Error_t) code_ = (call_);                                                              \
        if (code_ != GPU(Success))                                                                 \
            return ccl_fail(ccllabUnhandledCudaError, #call_, GPU(GetErrorString)(code_));         \
    } while (0)
#define CCL_OWN_TRY(call_)                                                                         \
    do {                                                                                           \
        ccllabResult_t code_ = (call_);                                                            \
        if (code_ != ccllabSuccess)                                                                \
            return code_;                                                                          \
    } while (0)

/** What every communicator has. */
typedef struct ccl_common {
    int rank, device;
    uint64_t *done, base; /* marks of steps; micro-batches so far */
    char *work, *scratch; /* kept from call to call, and grown */
    uint64_t work_bytes, scratch_bytes;
    uint32_t *stop; /* of the host, mapped */
    uint64_t *progress;
    ccl_device_place_t *places;
    uint32_t threads, counted;
} ccl_common_t;

static ccllabResult_t ccl_common_init(ccl_common_t *c, int rank, int device, int together) {
    const ccl_sa_program_t *p = &ccl_program;
    uint32_t n = p->first_unit[rank + 1] - p->first_unit[rank];
    int units = 0, resident = 0, cooperative = 0;
    size_t host = 256 + (n + 1) * sizeof(ccl_device_place_t);
    char *shared = NULL;
    memset(c, 0, sizeof *c);
    c->rank = rank;
    c->device = device;
    CCL_GPU_TRY(GPU(SetDevice)(device));
    CCL_GPU_TRY(GPU(DeviceGetAttribute)(&units, GPU_UNITS, device));
    CCL_GPU_TRY(GPU(DeviceGetAttribute)(&cooperative, GPU_COOPERATIVE, device));
    for (c->threads = CCL_MOST_THREADS; cooperative && c->threads >= CCL_LEAST_THREADS;
         c->threads /= 2) {
        CCL_GPU_TRY(GPU(OccupancyMaxActiveBlocksPerMultiprocessor)(&resident, ccl_kernel,
                                                                   (int)c->threads, 0));
        if ((uint64_t)resident * units >= (uint64_t)n * together)
            break;
    }
    if (c->threads < CCL_LEAST_THREADS || !cooperative)
        return ccl_fail(ccllabInvalidUsage, "the device", "holds fewer thread blocks at once");
    CCL_GPU_TRY(GPU(Malloc)((void **)&c->done, (p->marks[rank] + 1) * sizeof *c->done));
    CCL_GPU_TRY(GPU(Memset)(c->done, 0, (p->marks[rank] + 1) * sizeof *c->done));
    CCL_GPU_TRY(GPU_HOST((void **)&shared, host));
    memset(shared, 0, host);
    c->stop = (uint32_t *)shared;
    c->progress = (uint64_t *)(shared + 128);
    c->places = (ccl_device_place_t *)(shared + 256);
    return ccllabSuccess;
}

static void ccl_common_fini(ccl_common_t *c) {
    (void)GPU(SetDevice)(c->device);
    (void)GPU(DeviceSynchronize)();
    (void)GPU(Free)(c->done);
    (void)GPU(Free)(c->work);
    (void)GPU(Free)(c->scratch);
    (void)GPU_HOST_FREE(c->stop);
}

/** Where the blocks of a rank stood when they were given up. */
static void ccl_print_places(const ccl_common_t *c) {
    static const char *const waits[] = {"data", "a free slot", "another block", "its last stage"};
    const ccl_sa_program_t *p = &ccl_program;
    for (uint32_t u = 0; u < p->first_unit[c->rank + 1] - p->first_unit[c->rank]; u++)
        if (c->places[u].waits < 4)
            fprintf(stderr, "%s: rank %d block %u stands at step %u, micro-batch %u, for %s\n",
                    CCLLAB_NAME, c->rank, u, c->places[u].step, c->places[u].batch,
                    waits[c->places[u].waits]);
}

/** In the order of the stream, so that no other device is waited for. */
static ccllabResult_t ccl_grow(char **memory, uint64_t *have, uint64_t need, GPU(Stream_t) stream) {
    if (need <= *have)
        return ccllabSuccess;
    if (*memory)
        CCL_GPU_TRY(GPU(FreeAsync)(*memory, stream));
    *memory = NULL;
    *have = 0;
    CCL_GPU_TRY(GPU(MallocAsync)((void **)memory, need, stream));
    *have = need;
    return ccllabSuccess;
}

/** One rank's part of a call. */
typedef struct ccl_call {
    const void *in;
    void *out;
    ccl_common_t *c;
    char *const *bases;
    ccl_sa_place_t at;
} ccl_call_t;

static bool ccl_type_of(int type, uint32_t *out) {
    *out = type == (int)ccllabInt32     ? (uint32_t)CCL_GPU_INT32
           : type == (int)ccllabFloat32 ? (uint32_t)CCL_GPU_FP32
           : type == (int)ccllabFloat16 ? (uint32_t)CCL_GPU_FP16
                                        : (uint32_t)CCL_GPU_BF16;
    return type == (int)ccllabInt32 || type == (int)ccllabFloat32 || type == (int)ccllabFloat16 ||
           type == (int)ccllabBfloat16;
}

static bool ccl_op_of(int op, uint32_t *out) {
    *out = op == (int)ccllabSum   ? (uint32_t)CCL_GPU_SUM
           : op == (int)ccllabMin ? (uint32_t)CCL_GPU_MIN
                                  : (uint32_t)CCL_GPU_MAX;
    return op == (int)ccllabSum || op == (int)ccllabMin || op == (int)ccllabMax;
}

/** Before the kernel: how it works, memory, copies of the input. */
static ccllabResult_t ccl_prepare(ccl_call_t *call, size_t count, uint32_t type, uint32_t op,
                                  GPU(Stream_t) stream, ccl_sa_run_t *run) {
    const ccl_sa_program_t *p = &ccl_program;
    ccl_common_t *c = call->c;
    ccl_sa_shards_t s = ccl_sa_shards(p, (uint32_t)c->rank);
    memset(run, 0, sizeof *run);
    ccl_sa_shape(p, (uint32_t)c->rank, count, type, op, run);
    uint64_t shard = count * run->gpu.item_bytes;
    call->at = ccl_sa_place(p, run, call->in, call->out, NULL);
    CCL_OWN_TRY(ccl_grow(&c->work, &c->work_bytes, call->at.work_bytes, stream));
    CCL_OWN_TRY(ccl_grow(&c->scratch, &c->scratch_bytes, ccl_sa_scratch_bytes(p, run), stream));
    call->at = ccl_sa_place(p, run, call->in, call->out, c->work);
    ccl_sa_buffers(&call->at, c->scratch, run);
    run->gpu.host_stop = c->stop;
    run->gpu.host_progress = c->progress;
    run->gpu.places = c->places;
    run->bases = call->bases;
    run->done = c->done;
    run->base = c->base;
    run->counted = c->counted;
    if (call->at.copies_in)
        CCL_GPU_TRY(GPU(Memcpy2DAsync)(ccl_sa_in_at(p, run, &call->at),
                                       run->stride * run->gpu.item_bytes, call->in, shard, shard,
                                       s.in, GPU(MemcpyDeviceToDevice), stream));
    return ccllabSuccess;
}

static ccllabResult_t ccl_finish(ccl_call_t *call, size_t count, GPU(Stream_t) stream,
                                 const ccl_sa_run_t *run) {
    const ccl_sa_program_t *p = &ccl_program;
    uint64_t shard = count * run->gpu.item_bytes;
    call->c->base += run->batches;
    if (call->at.copies_out)
        CCL_GPU_TRY(GPU(Memcpy2DAsync)(
            call->out, shard, ccl_sa_out_at(p, run, &call->at), run->stride * run->gpu.item_bytes,
            shard, ccl_sa_shards(p, run->rank).out, GPU(MemcpyDeviceToDevice), stream));
    return ccllabSuccess;
}

/** The parts of ranks that share a device, in one launch. */
static ccllabResult_t ccl_enqueue(ccl_call_t *calls, uint32_t n, size_t count, int type, int op,
                                  const CCL_REACH *reach, GPU(Stream_t) stream) {
    ccl_launch_t launch;
    uint32_t blocks = 0, own_type = 0, own_op = CCL_GPU_SUM;
    void *arguments[] = {&launch};
    if (!ccl_type_of(type, &own_type))
        return ccl_fail(ccllabInvalidArgument, "type", "int32, float32, float16 and bfloat16 are");
    if (!ccl_op_of(op, &own_op) && ccl_sa_reduces(&ccl_program))
        return ccl_fail(ccllabInvalidArgument, "operation", "sum, min and max are");
    if (count == 0)
        return ccllabSuccess;
    memset(&launch, 0, sizeof launch);
    launch.n = n;
    launch.reach = *reach;
    CCL_GPU_TRY(GPU(SetDevice)(calls[0].c->device));
    for (uint32_t i = 0; i < n; i++) {
        CCL_OWN_TRY(ccl_prepare(&calls[i], count, own_type, own_op, stream, &launch.runs[i]));
        blocks += launch.runs[i].nunits;
    }
    if (blocks)
        CCL_GPU_TRY(GPU(LaunchCooperativeKernel)((const void *)ccl_kernel, dim3(blocks),
                                                 dim3(calls[0].c->threads), arguments, 0, stream));
    for (uint32_t i = 0; i < n; i++)
        CCL_OWN_TRY(ccl_finish(&calls[i], count, stream, &launch.runs[i]));
    return ccllabSuccess;
}
