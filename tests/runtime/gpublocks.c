/*
 * The thread blocks of GPUs (runtime/gpu/blocks.h) on the host: every block is LANES threads with a
 * barrier, the rest is the device of fakedevice.c. So what GPUs run is tested without one: waiting,
 * FIFOs, moving and reducing by several lanes, places of a stopped run.
 */
#define FAKE_OWN_PROGRAMS
#include "fakedevice.c"
#include "hostmachine.h"
#include "sharedmemory.h"
#include "fakemulticast.h"

#include "runtime/gpu/blocks.h"
#include "runtime/gpu/cache.h"

#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

enum { LANES = 2 };
#define TILES_BYTES ((size_t)CCL_GPU_TILES_TO_PULL * CCL_GPU_TILE_BYTES)

static void ccl_gpu_barrier(const struct ccl_gpu_block *block) {
    fake_wait(block->barrier);
}
static bool ccl_gpu_barrier_or(const struct ccl_gpu_block *block, bool what) {
    return fake_vote(block->barrier, what);
}

/* ---------------------------------------------------------------- generated kernels */

typedef void (*kernel_fn)(const ccl_gpu_run_t *run, const ccl_gpu_block_t *b, uint32_t index);

static ccl_gpu_cache_t cache = CCL_GPU_CACHE_INIT;
__attribute__((visibility("default"))) uint32_t fake_compiles;

/** CCL_TEST_MUTATE, "from=>to": a fault in the text, which must be found. */
static char *mutated(const char *source) {
    const char *how = getenv("CCL_TEST_MUTATE"), *arrow = how ? strstr(how, "=>") : NULL;
    if (!arrow)
        return strdup(source);
    char *from = strndup(how, (size_t)(arrow - how)), *out = NULL;
    const char *at = strstr(source, from), *to = arrow + 2;
    if (at && asprintf(&out, "%.*s%s%s", (int)(at - source), source, to, at + strlen(from)) < 0)
        out = NULL;
    free(from);
    return out;
}

static const char barrier[] = "\nstatic void ccl_gpu_barrier(const struct ccl_gpu_block *b) {\n"
                              "    fake_wait(b->barrier);\n}\n"
                              "static bool ccl_gpu_barrier_or(const struct ccl_gpu_block *b, bool "
                              "what) {\n"
                              "    return fake_vote(b->barrier, what);\n}\n";

static bool write_text(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    bool ok = file && fputs(text, file) >= 0 && fputs(barrier, file) >= 0;
    return file && fclose(file) == 0 && ok;
}

static void read_log(const char *path, char *log, size_t len) {
    FILE *file = fopen(path, "r");
    size_t n = file && log && len ? fread(log, 1, len - 1, file) : 0;
    if (log && len)
        log[n] = '\0';
    if (file)
        fclose(file);
}

/** The host's C++ compiler makes a shared object of it. */
static kernel_fn compile_here(const char *source, char *log, size_t len) {
    char folder[] = "/tmp/ccl-kernel-XXXXXX", path[3][64], command[2048];
    static const char *const names[] = {"kernel.cpp", "kernel.so", "log"};
    char *text = mutated(source);
    kernel_fn fn = NULL;
    if (!text || !mkdtemp(folder)) {
        free(text);
        return NULL;
    }
    for (int i = 0; i < 3; i++)
        snprintf(path[i], sizeof path[i], "%s/%s", folder, names[i]);
    snprintf(command, sizeof command,
             "%s -std=c++17 -O0 -Wall -Wextra -Werror -shared -fPIC -DCCL_KERNEL_ON_HOST "
             "-include %s -o %s %s %s -pthread >%s 2>&1",
             FAKE_CXX, FAKE_MACHINE, path[1], path[0], FAKE_LIBRARY, path[2]);
    if (write_text(path[0], text) && system(command) == 0) {
        void *library = dlopen(path[1], RTLD_NOW | RTLD_LOCAL);
        void *symbol = library ? dlsym(library, "ccl_kernel_block") : NULL;
        memcpy(&fn, &symbol, sizeof fn);
    }
    read_log(path[2], log, len);
    for (int i = 0; i < 3; i++)
        unlink(path[i]);
    rmdir(folder);
    free(text);
    return fn;
}

static int kernel_compile(const char *source, const char *architecture, char *log, size_t len) {
    if (log && len)
        log[0] = '\0';
    pthread_mutex_lock(&cache.lock);
    ccl_gpu_image_t *image = ccl_gpu_cache_find(&cache, source, architecture);
    if (!image) {
        kernel_fn fn = compile_here(source, log, len);
        image = fn ? ccl_gpu_cache_add(&cache, source, architecture, NULL, 0) : NULL;
        if (image)
            memcpy(&image->loaded[0], &fn, sizeof fn);
        fake_compiles += image != NULL;
    }
    pthread_mutex_unlock(&cache.lock);
    return image ? 0 : 1;
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
    fake_barrier_t *barriers;
    char *tiles; /* of all blocks */
    lane_t *lanes;
    uint32_t nunits;
    kernel_fn kernel; /* NULL: interpreted */
};

static void *lane_main(void *user) {
    lane_t *l = user;
    ccl_device_program_t *f = l->program;
    ccl_gpu_block_t block = {&f->shared[l->index], l->lane, LANES, &f->barriers[l->index],
                             f->tiles + l->index * TILES_BYTES};
    if (f->kernel)
        f->kernel(&f->run, &block, l->index);
    else
        ccl_gpu_block_run(&f->run, &block, l->index);
    return NULL;
}

static void run_main(void *user) {
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
}

static int program_unload(ccl_device_program_t *f) {
    for (uint32_t u = 0; f->barriers && u < f->nunits; u++)
        pthread_barrier_destroy(&f->barriers[u].barrier);
    free(f->conns);
    free(f->memory);
    free(f->shared);
    free(f->barriers);
    free(f->tiles);
    free(f->lanes);
    free(f->run.done);
    free(f->run.places);
    free(f->run.uses);
    free(f);
    return 0;
}

static void set_run(ccl_device_program_t *f, const ccl_device_plan_t *plan) {
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
    run->protocol = plan->protocol;
    run->arrived = &f->words[0];
    run->left = &f->words[1];
    run->go = &f->words[2];
    run->start = &f->start;
    run->end = &f->end;
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
    if (plan->source) {
        pthread_mutex_lock(&cache.lock);
        ccl_gpu_image_t *image = ccl_gpu_cache_find(&cache, plan->source, "fake_1");
        if (image)
            memcpy(&f->kernel, &image->loaded[0], sizeof f->kernel);
        pthread_mutex_unlock(&cache.lock);
        if (!f->kernel) {
            free(f);
            return 1;
        }
    }
    f->plan = plan;
    f->nunits = plan->end_unit - plan->first_unit;
    size_t n = f->nunits + (size_t)1;
    f->conns = calloc(plan->nconns + (size_t)1, sizeof *f->conns);
    f->memory = calloc(plan->nranks + (size_t)1, sizeof *f->memory);
    f->shared = calloc(n, sizeof *f->shared);
    f->barriers = calloc(n, sizeof *f->barriers);
    f->lanes = calloc(n * LANES, sizeof *f->lanes);
    f->tiles = aligned_alloc(16, n * TILES_BYTES);
    f->run.done = calloc(plan->nsteps + (size_t)1, sizeof *f->run.done);
    f->run.places = calloc(n, sizeof *f->run.places);
    f->run.uses = calloc(n, sizeof *f->run.uses);
    if (!f->tiles || !f->conns || !f->memory || !f->shared || !f->barriers || !f->lanes ||
        !f->run.done || !f->run.places || !f->run.uses)
        abort();
    for (uint32_t u = 0; u < f->nunits; u++)
        pthread_barrier_init(&f->barriers[u].barrier, NULL, LANES);
    for (uint32_t c = 0; c < plan->nconns; c++) {
        f->conns[c] = plan->conns[c];
        f->conns[c].data = back(plan->conns[c].data);
        f->conns[c].head = back(plan->conns[c].head);
        f->conns[c].tail = back(plan->conns[c].tail);
        if (plan->conns[c].multi)
            f->conns[c].multi = back(plan->conns[c].multi);
        if (plan->conns[c].lengths)
            f->conns[c].lengths = back(plan->conns[c].lengths);
    }
    for (uint32_t r = 0; r < plan->nranks; r++)
        f->memory[r] = plan->memory[r] ? back(plan->memory[r]) : NULL;
    set_run(f, plan);
    *out = f;
    return 0;
}

static int program_launch(ccl_device_program_t *f, ccl_device_stream_t *s,
                          const ccl_device_launch_t *launch) {
    f->launch = launch;
    f->run.timed = launch->uses != NULL;
    f->run.host_ready = launch->ready;
    f->run.host_gate = launch->gate;
    f->run.host_stop = launch->stop;
    f->run.host_progress = launch->progress;
    return stream_call(s, run_main, f);
}
