/*
 * The thread blocks of GPUs (runtime/gpu/blocks.h) on the host: every block is LANES threads with a
 * barrier, the rest is the device of fakedevice.c. So what GPUs run is tested without one: waiting,
 * FIFOs, moving and reducing by several lanes, places of a stopped run.
 */
#define FAKE_OWN_PROGRAMS
#include "fakedevice.c"

#include <sched.h>
#include <time.h>

#include "runtime/kernels.h"

enum { LANES = 2 };

struct ccl_gpu_block;

typedef struct __attribute__((may_alias, aligned(16))) vector {
    uint32_t x, y, z, w;
} vector_t;
typedef uint32_t __attribute__((may_alias)) word_t;
typedef uint16_t __attribute__((may_alias)) narrow_t;

#define CCL_GPU_FN __attribute__((unused)) static inline
#define CCL_GPU_VECTOR vector_t
#define CCL_GPU_WORD word_t
#define CCL_GPU_NARROW narrow_t

static uint64_t ccl_gpu_load(const uint64_t *word) {
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}
static uint32_t ccl_gpu_load32(const uint32_t *word) {
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}
static void ccl_gpu_store(uint64_t *word, uint64_t value) {
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}
static void ccl_gpu_store32(uint32_t *word, uint32_t value) {
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}
static void ccl_gpu_note(uint64_t *word, uint64_t value) {
    __atomic_store_n(word, value, __ATOMIC_RELAXED);
}
static uint32_t ccl_gpu_add32(uint32_t *word, uint32_t value) {
    return __atomic_fetch_add(word, value, __ATOMIC_ACQ_REL);
}
static uint64_t ccl_gpu_clock(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
static void ccl_gpu_pause(void) {
    sched_yield();
}
static float ccl_gpu_half_to_float(uint32_t half) {
    return ccl_i_half_to_float((uint16_t)half);
}
static uint32_t ccl_gpu_half_from_float(float f) {
    return ccl_i_half_from_float(f);
}
static void ccl_gpu_barrier(const struct ccl_gpu_block *block);

#include "runtime/gpu/blocks.h"

static void ccl_gpu_barrier(const struct ccl_gpu_block *block) {
    pthread_barrier_wait(block->barrier);
}

/* ---------------------------------------------------------------- programs */

typedef struct lane {
    ccl_device_program_t *program;
    pthread_t thread;
    uint32_t index, lane;
} lane_t;

struct ccl_device_program {
    const ccl_device_plan_t *plan;
    const ccl_device_launch_t *launch;
    ccl_gpu_run_t run;
    uint32_t words[3];
    uint64_t start, end;
    ccl_device_conn_t *conns; /* with addresses that the host can reach */
    void **memory;
    ccl_gpu_shared_t *shared;
    pthread_barrier_t *barriers;
    lane_t *lanes;
    uint32_t nunits;
};

static void *lane_main(void *user) {
    lane_t *l = user;
    ccl_device_program_t *f = l->program;
    ccl_gpu_block_t block = {&f->shared[l->index], l->lane, LANES, &f->barriers[l->index]};
    ccl_gpu_block_run(&f->run, &block, l->index);
    return NULL;
}

static void *run_main(void *user) {
    ccl_device_program_t *f = user;
    const ccl_device_launch_t *l = f->launch;
    memset(f->run.done, 0, f->plan->nsteps * sizeof *f->run.done);
    memset(f->words, 0, sizeof f->words);
    uint32_t n = 0;
    for (; n < f->nunits * LANES; n++) {
        f->lanes[n] = (lane_t){f, 0, n / LANES, n % LANES};
        if (pthread_create(&f->lanes[n].thread, NULL, lane_main, &f->lanes[n]))
            abort();
    }
    if (n == 0)
        __atomic_store_n(l->ready, 1, __ATOMIC_RELEASE);
    while (n > 0)
        pthread_join(f->lanes[--n].thread, NULL);
    *l->start_s = 0;
    *l->end_s = 1e-9 * (double)(f->end - f->start);
    for (uint32_t u = 0; u < f->nunits; u++) {
        uint32_t at = f->plan->first_unit + u;
        const ccl_gpu_use_t *use = &f->run.uses[u];
        l->places[at] = f->run.places[u];
        if (l->uses)
            l->uses[at] = (ccl_device_use_t){1e-9 * (double)use->busy,
                                             1e-9 * (double)use->data,
                                             1e-9 * (double)use->slot,
                                             1e-9 * (double)use->peer,
                                             0,
                                             use->slices};
    }
    __atomic_store_n(l->over, 1, __ATOMIC_RELEASE);
    return NULL;
}

static int program_unload(ccl_device_program_t *f) {
    for (uint32_t u = 0; f->barriers && u < f->nunits; u++)
        pthread_barrier_destroy(&f->barriers[u]);
    free(f->conns);
    free(f->memory);
    free(f->shared);
    free(f->barriers);
    free(f->lanes);
    free(f->run.done);
    free(f->run.places);
    free(f->run.uses);
    free(f);
    return 0;
}

static int program_load(ccl_device_handle_t *device, const ccl_device_plan_t *plan,
                        uint32_t threads, ccl_device_program_t **out) {
    (void)device;
    (void)threads;
    ccl_device_program_t *f = calloc(1, sizeof *f);
    if (!f || plan->size != sizeof *plan) {
        free(f);
        return 1;
    }
    f->plan = plan;
    f->nunits = plan->end_unit - plan->first_unit;
    size_t n = f->nunits + (size_t)1;
    f->conns = calloc(plan->nconns + (size_t)1, sizeof *f->conns);
    f->memory = calloc(plan->nranks + (size_t)1, sizeof *f->memory);
    f->shared = calloc(n, sizeof *f->shared);
    f->barriers = calloc(n, sizeof *f->barriers);
    f->lanes = calloc(n * LANES, sizeof *f->lanes);
    f->run.done = calloc(plan->nsteps + (size_t)1, sizeof *f->run.done);
    f->run.places = calloc(n, sizeof *f->run.places);
    f->run.uses = calloc(n, sizeof *f->run.uses);
    if (!f->conns || !f->memory || !f->shared || !f->barriers || !f->lanes || !f->run.done ||
        !f->run.places || !f->run.uses)
        abort();
    for (uint32_t u = 0; u < f->nunits; u++)
        pthread_barrier_init(&f->barriers[u], NULL, LANES);
    for (uint32_t c = 0; c < plan->nconns; c++) {
        f->conns[c] = plan->conns[c];
        f->conns[c].data = back(plan->conns[c].data);
        f->conns[c].head = back(plan->conns[c].head);
        f->conns[c].tail = back(plan->conns[c].tail);
    }
    for (uint32_t r = 0; r < plan->nranks; r++)
        f->memory[r] = plan->memory[r] ? back(plan->memory[r]) : NULL;
    ccl_gpu_run_t *run = &f->run;
    run->units = plan->units + plan->first_unit;
    run->steps = plan->steps;
    run->pieces = plan->pieces;
    run->conns = f->conns;
    run->memory = f->memory;
    run->nunits = f->nunits;
    run->batches = plan->batches;
    run->by_task = plan->by_task;
    run->type = plan->type;
    run->op = plan->op;
    run->item_bytes = plan->item_bytes;
    run->arrived = &f->words[0];
    run->left = &f->words[1];
    run->go = &f->words[2];
    run->start = &f->start;
    run->end = &f->end;
    *out = f;
    return 0;
}

static int program_launch(ccl_device_program_t *f, ccl_device_stream_t *s,
                          const ccl_device_launch_t *launch) {
    stream_wait(s);
    f->launch = launch;
    f->run.timed = launch->uses != NULL;
    f->run.host_ready = launch->ready;
    f->run.host_gate = launch->gate;
    f->run.host_stop = launch->stop;
    f->run.host_progress = launch->progress;
    s->running = pthread_create(&s->thread, NULL, run_main, f) == 0;
    return s->running ? 0 : 1;
}
