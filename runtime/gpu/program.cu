/**
 * @file program.cu
 * Programs on a GPU: the plan in its memory, one kernel that stays until the run is over, one of
 * its thread blocks per unit. What a block does is in blocks.h, or in a kernel of the program's
 * own.
 */
#include "runtime/gpu/program.h"

#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

__global__ void __launch_bounds__(GPU_MOST_THREADS) ccl_gpu_kernel(ccl_gpu_run_t run) {
    __shared__ ccl_gpu_shared_t shared;
    extern __shared__ uint4 ccl_gpu_tiles[];
    ccl_gpu_block_t block = {&shared, threadIdx.x, blockDim.x, NULL, (char *)ccl_gpu_tiles};
    ccl_gpu_block_run(&run, &block, blockIdx.x);
}

struct ccl_device_program {
    ccl_device_handle_t *device;
    const ccl_device_plan_t *plan;
    uint32_t nunits, threads;
    gpu_kernel_t kernel; /* of its own; NULL: it is interpreted */
    ccl_gpu_run_t run;
    char *memory; /* of the device: the plan, then what is zeroed before a run */
    size_t zero_at, zero_bytes;
    char *shared; /* of the host, seen by the device: what a run leaves behind */
    const ccl_device_launch_t *launch;
};

/* ---------------------------------------------------------------- what the device can do */

/** Of a block, for tiles. */
static size_t shared_bytes(const ccl_device_plan_t *plan) {
    uint32_t tiles = CCL_GPU_TILES;
    for (uint32_t i = 0; i < plan->nsteps; i++)
        if (plan->steps[i].nrecv > 1)
            tiles = CCL_GPU_TILES_TO_PULL;
    return plan->protocol == CCL_DEVICE_SIMPLE ? 0 : (size_t)tiles * CCL_GPU_TILE_BYTES;
}

int gpu_residency(uint32_t index, uint32_t multiprocessors, uint32_t threads, size_t shared,
                  uint32_t *out) {
    int per = 0;
    GPU_TRY(GPU(SetDevice)((int)index));
    GPU_TRY(
        GPU(OccupancyMaxActiveBlocksPerMultiprocessor)(&per, ccl_gpu_kernel, (int)threads, shared));
    *out = multiprocessors * (uint32_t)(per > 0 ? per : 0);
    return 0;
}

#ifdef __HIP__
__global__ void ccl_gpu_clock_kernel(uint64_t *out) {
    *out = ccl_gpu_clock();
}

static double now_s() {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int read_clock(uint64_t *device_word, double *s, uint64_t *ticks) {
    double before_s = now_s();
    hipLaunchKernelGGL(ccl_gpu_clock_kernel, dim3(1), dim3(1), 0, 0, device_word);
    GPU_TRY(hipGetLastError());
    GPU_TRY(hipDeviceSynchronize());
    *s = 0.5 * (before_s + now_s());
    return (int)hipMemcpy(ticks, device_word, sizeof *ticks, hipMemcpyDeviceToHost);
}

/** The rate of its constant clock is not told; 50 ms beside the host's give it to about 0.1 %. */
int gpu_clock_rate(ccl_device_handle_t *device) {
    uint64_t *word = NULL, ticks[2] = {0, 0};
    double s[2] = {0, 0};
    GPU_TRY(hipMalloc((void **)&word, sizeof *word));
    int code = read_clock(word, &s[0], &ticks[0]); /* the first launch loads the module */
    code = code ? code : read_clock(word, &s[0], &ticks[0]);
    if (!code)
        usleep(50000);
    code = code ? code : read_clock(word, &s[1], &ticks[1]);
    (void)hipFree(word);
    device->tick_s = ticks[1] > ticks[0] ? (s[1] - s[0]) / (double)(ticks[1] - ticks[0]) : 1e-8;
    return code;
}
#else
int gpu_clock_rate(ccl_device_handle_t *device) {
    device->tick_s = 1e-9; /* %globaltimer counts nanoseconds */
    return 0;
}
#endif

typedef struct host_call {
    ccl_device_host_fn fn;
    void *user;
} host_call_t;

#ifdef __HIP__
static void called(hipStream_t stream, hipError_t status, void *user) {
    (void)stream;
    (void)status;
#else
static void CUDART_CB called(void *user) {
#endif
    host_call_t *call = (host_call_t *)user;
    call->fn(call->user);
    free(call);
}

int gpu_stream_call(ccl_device_stream_t *s, ccl_device_host_fn fn, void *user) {
    host_call_t *call = (host_call_t *)malloc(sizeof *call);
    if (!call)
        return GPU_HOST_MEMORY;
    call->fn = fn;
    call->user = user;
#ifdef __HIP__
    int code = (int)hipStreamAddCallback(s->stream, called, call, 0);
#else
    int code = (int)cudaLaunchHostFunc(s->stream, called, call);
#endif
    if (code)
        free(call);
    return code;
}

/* ---------------------------------------------------------------- loading */

/** Parts of one allocation; each begins on a line of its own. */
typedef struct room {
    char *base;
    size_t at;
} room_t;

static void *take(room_t *room, size_t count, size_t bytes) {
    void *part = room->base ? room->base + room->at : NULL;
    room->at += (count * bytes + 255) / 256 * 256;
    return part;
}

/** With base NULL it only measures. */
static void lay_out(ccl_device_program_t *p, room_t *room) {
    const ccl_device_plan_t *plan = p->plan;
    ccl_gpu_run_t *r = &p->run;
    r->units = (ccl_device_unit_t *)take(room, p->nunits, sizeof *r->units);
    r->steps = (ccl_device_step_t *)take(room, plan->nsteps, sizeof *r->steps);
    r->pieces = (ccl_device_piece_t *)take(room, plan->npieces, sizeof *r->pieces);
    r->conns = (ccl_device_conn_t *)take(room, plan->nconns, sizeof *r->conns);
    r->memory = (void *const *)take(room, plan->nranks, sizeof *r->memory);
    p->zero_at = room->at;
    r->done = (uint64_t *)take(room, plan->nsteps, sizeof *r->done);
    r->arrived = (uint32_t *)take(room, 1, sizeof *r->arrived);
    r->left = (uint32_t *)take(room, 1, sizeof *r->left);
    r->go = (uint32_t *)take(room, 1, sizeof *r->go);
    p->zero_bytes = room->at - p->zero_at;
}

static void lay_out_shared(ccl_device_program_t *p, room_t *room) {
    ccl_gpu_run_t *r = &p->run;
    r->start = (uint64_t *)take(room, 1, sizeof *r->start);
    r->end = (uint64_t *)take(room, 1, sizeof *r->end);
    r->places = (ccl_device_place_t *)take(room, p->nunits, sizeof *r->places);
    r->uses = (ccl_gpu_use_t *)take(room, p->nunits, sizeof *r->uses);
}

static int upload(const void *to, const void *from, size_t count, size_t bytes) {
    if (count == 0)
        return 0;
    return (int)GPU(Memcpy)((void *)to, from, count * bytes, GPU(MemcpyHostToDevice));
}

static int fill(ccl_device_program_t *p) {
    const ccl_device_plan_t *plan = p->plan;
    ccl_gpu_run_t *r = &p->run;
    GPU_TRY(upload(r->units, plan->units + plan->first_unit, p->nunits, sizeof *r->units));
    GPU_TRY(upload(r->steps, plan->steps, plan->nsteps, sizeof *r->steps));
    GPU_TRY(upload(r->pieces, plan->pieces, plan->npieces, sizeof *r->pieces));
    GPU_TRY(upload(r->conns, plan->conns, plan->nconns, sizeof *r->conns));
    return upload(r->memory, plan->memory, plan->nranks, sizeof *r->memory);
}

static int choose_threads(ccl_device_program_t *p) {
    int multiprocessors = 0, cooperative = 0, index = (int)p->device->index;
    uint32_t fit = 0;
#ifdef __HIP__
    GPU_TRY(hipDeviceGetAttribute(&cooperative, hipDeviceAttributeCooperativeLaunch, index));
    GPU_TRY(hipDeviceGetAttribute(&multiprocessors, hipDeviceAttributeMultiprocessorCount, index));
#else
    GPU_TRY(cudaDeviceGetAttribute(&cooperative, cudaDevAttrCooperativeLaunch, index));
    GPU_TRY(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, index));
#endif
    if (!cooperative)
        return GPU_NOT_COOPERATIVE;
    for (uint32_t n = GPU_MOST_THREADS; n >= GPU_LEAST_THREADS; n /= 2) {
        if (p->kernel) {
            int per = 0;
            GPU_TRY(gpu_kernel_residency(p->kernel, n, shared_bytes(p->plan), &per));
            fit = (uint32_t)multiprocessors * (uint32_t)(per > 0 ? per : 0);
        } else {
            GPU_TRY(gpu_residency((uint32_t)index, (uint32_t)multiprocessors, n,
                                  shared_bytes(p->plan), &fit));
        }
        p->threads = n;
        if (fit >= p->nunits)
            return 0;
    }
    return GPU_TOO_MANY_BLOCKS;
}

static int prepare(ccl_device_program_t *p) {
    const ccl_device_plan_t *plan = p->plan;
    room_t room = {NULL, 0}, shared = {NULL, 0};
    if (plan->source)
        GPU_TRY(gpu_kernel_get(p->device, plan->source, &p->kernel));
    GPU_TRY(choose_threads(p));
    lay_out(p, &room);
    lay_out_shared(p, &shared);
    GPU_TRY(GPU(Malloc)((void **)&p->memory, room.at));
    GPU_TRY(gpu_host_alloc((void **)&p->shared, shared.at));
    room.base = p->memory;
    shared.base = p->shared;
    room.at = shared.at = 0;
    lay_out(p, &room);
    lay_out_shared(p, &shared);
    p->run.nunits = p->nunits;
    p->run.batches = plan->batches;
    p->run.by_task = plan->by_task;
    p->run.type = plan->type;
    p->run.op = plan->op;
    p->run.item_bytes = plan->item_bytes;
    p->run.protocol = plan->protocol;
    return fill(p);
}

int gpu_program_load(ccl_device_handle_t *device, const ccl_device_plan_t *plan, uint32_t threads,
                     ccl_device_program_t **out) {
    (void)threads; /* the host's workers */
    if (plan->size != sizeof *plan)
        return GPU_OTHER_PLAN;
    GPU_TRY(gpu_use(device));
    ccl_device_program_t *p = (ccl_device_program_t *)calloc(1, sizeof *p);
    if (!p)
        return GPU_HOST_MEMORY;
    p->device = device;
    p->plan = plan;
    p->nunits = plan->end_unit - plan->first_unit;
    int code = prepare(p);
    if (code)
        gpu_program_unload(p);
    else
        *out = p;
    return code;
}

int gpu_program_unload(ccl_device_program_t *p) {
    if (!p)
        return 0;
    int code = gpu_use(p->device);
    if (p->memory) {
        int freed = (int)GPU(Free)(p->memory);
        code = code ? code : freed;
    }
    if (p->shared) {
        int freed = (int)gpu_host_free(p->shared);
        code = code ? code : freed;
    }
    free(p);
    return code;
}

/* ---------------------------------------------------------------- a run */

/** Called when the kernel has ended. */
static void finish(void *user) {
    ccl_device_program_t *p = (ccl_device_program_t *)user;
    const ccl_device_launch_t *l = p->launch;
    const ccl_gpu_run_t *r = &p->run;
    double tick_s = p->device->tick_s;
    *l->start_s = 0;
    *l->end_s = *r->end > *r->start ? (double)(*r->end - *r->start) * tick_s : 0;
    for (uint32_t u = 0; u < p->nunits; u++) {
        uint32_t at = p->plan->first_unit + u;
        if (l->places)
            l->places[at] = r->places[u];
        if (!l->uses)
            continue;
        ccl_device_use_t *to = &l->uses[at];
        const ccl_gpu_use_t *use = &r->uses[u];
        memset(to, 0, sizeof *to);
        to->busy_s = (double)use->busy * tick_s;
        to->wait_data_s = (double)use->data * tick_s;
        to->wait_slot_s = (double)use->slot * tick_s;
        to->wait_peer_s = (double)use->peer * tick_s;
        to->slices = use->slices;
    }
    __atomic_store_n(l->over, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, l->over, FUTEX_WAKE, INT_MAX, NULL, NULL, 0); /* if somebody sleeps there */
}

/** No blocks: the gate has nobody to wait at it. */
static void none(void *user) {
    ccl_device_program_t *p = (ccl_device_program_t *)user;
    __atomic_store_n(p->launch->ready, 1, __ATOMIC_RELEASE);
    finish(user);
}

int gpu_program_launch(ccl_device_program_t *p, ccl_device_stream_t *s,
                       const ccl_device_launch_t *launch) {
    GPU_TRY(gpu_use(p->device));
    ccl_gpu_run_t run = p->run;
    room_t room = {NULL, 0};
    ccl_device_program_t sizes = *p;
    lay_out_shared(&sizes, &room);
    memset(p->shared, 0, room.at);
    p->launch = launch;
    run.timed = launch->uses != NULL;
    run.host_ready = launch->ready;
    run.host_gate = launch->gate;
    run.host_stop = launch->stop;
    run.host_progress = launch->progress;
    if (p->nunits == 0)
        return gpu_stream_call(s, none, p);
    GPU_TRY(GPU(MemsetAsync)(p->memory + p->zero_at, 0, p->zero_bytes, s->stream));
    void *arguments[] = {&run};
    if (p->kernel)
        GPU_TRY(gpu_kernel_launch(p->kernel, p->nunits, p->threads, shared_bytes(p->plan),
                                  s->stream, arguments));
    else
        GPU_TRY(GPU(LaunchCooperativeKernel)((const void *)ccl_gpu_kernel, dim3(p->nunits),
                                             dim3(p->threads), arguments, shared_bytes(p->plan),
                                             s->stream));
    return gpu_stream_call(s, finish, p);
}
