/*
 * A device module as somebody else would write it, from device.h alone: memory of its own that the
 * host must copy to and from, one thread that steps the blocks in turn, int32 only. It finds out
 * whether device.h says enough. FAKE_ABI and FAKE_COUNT make modules that must be refused.
 */
#define _GNU_SOURCE
#include "fakenative.h"
#include "runtime/device.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifndef FAKE_ABI
#define FAKE_ABI CCL_DEVICE_ABI
#endif
#ifndef FAKE_COUNT
#define FAKE_COUNT 1
#endif

static void *away(void *p) {
    return (void *)((uintptr_t)p + AWAY);
}

static void *back(const void *p) {
    return (void *)((uintptr_t)p - AWAY);
}

struct ccl_device_handle {
    uint32_t index;
};
struct ccl_device_stream {
    fake_native_t native;
    uint32_t device;
    pthread_t thread; /* of the last thing queued; it waits for the one before */
    bool running;
};
struct ccl_device_event {
    uint64_t asked, recorded; /* times */
    double at_s;
};

#ifndef FAKE_OWN_PROGRAMS
typedef struct place {
    uint32_t step, batch, slice;
} place_t;

struct ccl_device_program {
    const ccl_device_plan_t *plan;
    const ccl_device_launch_t *launch;
    place_t *places;
};
#endif

static const char *error_text(int code) {
    return code == 7 ? "no driver (fake)" : "out of memory (fake)";
}

/** CCL_TEST_DEVICES of them, else one. */
static int count(uint32_t *out) {
    const char *devices = getenv("CCL_TEST_DEVICES");
    *out = FAKE_COUNT < 0 ? 0 : devices ? (uint32_t)atoi(devices) : FAKE_COUNT;
    return FAKE_COUNT < 0 ? 7 : 0;
}

static int properties(uint32_t index, ccl_device_properties_t *out) {
    uint32_t n = 0;
    count(&n);
    *out = (ccl_device_properties_t){.name = "fake", .architecture = "fake_1", .units = 3};
    out->whole_lines = !getenv("CCL_TEST_SPLIT_LINES");
    out->memory_bytes = UINT64_C(1) << 30;
    out->ipc = !getenv("CCL_TEST_NO_IPC");
    out->multicast = getenv("CCL_TEST_MULTICAST") != NULL;
    return index < n ? 0 : 7;
}

static int open_device(uint32_t index, ccl_device_handle_t **out) {
    *out = calloc(1, sizeof **out);
    if (*out)
        (*out)->index = index;
    return *out ? 0 : 1;
}

#ifndef FAKE_OWN_PROGRAMS
static void close_device(ccl_device_handle_t *device) {
    free(device);
}

static int memory_alloc(ccl_device_handle_t *device, size_t bytes, void **out) {
    (void)device;
    void *p = aligned_alloc(256, (bytes + 511) / 256 * 256);
    *out = p ? away(p) : NULL;
    return p ? 0 : 1;
}

static int memory_free(ccl_device_handle_t *device, void *memory) {
    (void)device;
    if (memory)
        free(back(memory));
    return 0;
}

#else
/* Memory that other processes can open, in sharedmemory.h. */
static void close_device(ccl_device_handle_t *device);
static int memory_alloc(ccl_device_handle_t *device, size_t bytes, void **out);
static int memory_free(ccl_device_handle_t *device, void *memory);
static int ipc_get(ccl_device_handle_t *device, void *memory, ccl_device_ipc_t *out);
static int ipc_open(ccl_device_handle_t *device, const ccl_device_ipc_t *ipc, void **out);
static int ipc_close(ccl_device_handle_t *device, void *memory);
static int peer_enable(ccl_device_handle_t *device, uint32_t peer_index);
static int host_register(ccl_device_handle_t *device, void *host, size_t bytes, void **out);
static int host_unregister(ccl_device_handle_t *device, void *host);
static int rdma_alloc(ccl_device_handle_t *device, size_t bytes, void **out);
static int rdma_export(ccl_device_handle_t *device, void *memory, size_t bytes, int *fd_out,
                       uint64_t *offset_out);
static int rdma_flush(ccl_device_handle_t *device);
static bool multicast_reduces(uint32_t type, uint32_t op);
static int multicast_alloc(ccl_device_handle_t *const *devices, uint32_t n, uint32_t members,
                           size_t bytes, ccl_device_multicast_t **out);
static int multicast_free(ccl_device_multicast_t *memory);
#endif

static int host_alloc(ccl_device_handle_t *device, size_t bytes, void **out) {
    (void)device;
    *out = malloc(bytes ? bytes : 1);
    return *out ? 0 : 1;
}

static int host_free(ccl_device_handle_t *device, void *memory) {
    (void)device;
    free(memory);
    return 0;
}

static int stream_wait(ccl_device_stream_t *s);

static int copy_h2d(ccl_device_stream_t *s, void *dst, const void *src, size_t bytes) {
    stream_wait(s);
    memcpy(back(dst), src, bytes);
    return 0;
}

static int copy_d2h(ccl_device_stream_t *s, void *dst, const void *src, size_t bytes) {
    stream_wait(s);
    memcpy(dst, back(src), bytes);
    return 0;
}

static int copy_d2d(ccl_device_stream_t *s, void *dst, const void *src, size_t bytes) {
    stream_wait(s);
    memcpy(back(dst), back(src), bytes);
    return 0;
}

static int memory_set(ccl_device_stream_t *s, void *dst, int byte, size_t bytes) {
    stream_wait(s);
    memset(back(dst), byte, bytes);
    return 0;
}

static int stream_call(ccl_device_stream_t *s, ccl_device_host_fn fn, void *user);

static int call_native(void *stream, ccl_device_host_fn fn, void *user) {
    return stream_call(stream, fn, user);
}

static int stream_create(ccl_device_handle_t *device, ccl_device_stream_t **out) {
    *out = calloc(1, sizeof **out);
    if (*out)
        **out = (ccl_device_stream_t){.native = {*out, call_native}, .device = device->index};
    return *out ? 0 : 1;
}

static int stream_native(ccl_device_stream_t *s, void **out) {
    char number[16];
    snprintf(number, sizeof number, "%u", s->device);
    *out = &s->native;
    return setenv(FAKE_CURRENT, number, 1);
}

static int stream_wait(ccl_device_stream_t *s) {
    if (s->running)
        pthread_join(s->thread, NULL);
    s->running = false;
    return 0;
}

static int stream_destroy(ccl_device_stream_t *s) {
    stream_wait(s);
    free(s);
    return 0;
}

static int stream_done(ccl_device_stream_t *s, bool *out) {
    *out = !s->running;
    return 0;
}

typedef struct queued {
    pthread_t before;
    bool has_before;
    ccl_device_host_fn fn;
    void *user;
} queued_t;

static void *queued_main(void *user) {
    queued_t *q = user;
    if (q->has_before)
        pthread_join(q->before, NULL);
    q->fn(q->user);
    free(q);
    return NULL;
}

static int stream_call(ccl_device_stream_t *s, ccl_device_host_fn fn, void *user) {
    queued_t *q = malloc(sizeof *q);
    if (!q)
        return 1;
    *q = (queued_t){s->thread, s->running, fn, user};
    if (pthread_create(&s->thread, NULL, queued_main, q))
        abort();
    s->running = true;
    return 0;
}

static int event_create(ccl_device_handle_t *device, ccl_device_event_t **out) {
    (void)device;
    *out = calloc(1, sizeof **out);
    return *out ? 0 : 1;
}

static int event_destroy(ccl_device_event_t *e) {
    free(e);
    return 0;
}

static void record(void *user) {
    ccl_device_event_t *e = user;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    e->at_s = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    __atomic_add_fetch(&e->recorded, 1, __ATOMIC_RELEASE);
}

static int event_record(ccl_device_event_t *e, ccl_device_stream_t *s) {
    e->asked++;
    return stream_call(s, record, e);
}

static int event_done(ccl_device_event_t *e, bool *out) {
    *out = __atomic_load_n(&e->recorded, __ATOMIC_ACQUIRE) == e->asked;
    return 0;
}

static void wait_for_event(void *user) {
    ccl_device_event_t *e = user;
    bool done = false;
    while (event_done(e, &done) == 0 && !done)
        usleep(20);
}

static int event_wait(ccl_device_event_t *e) {
    wait_for_event(e);
    return 0;
}

static int stream_follow(ccl_device_stream_t *s, ccl_device_event_t *e) {
    return stream_call(s, wait_for_event, e);
}

static int event_elapsed(ccl_device_event_t *a, ccl_device_event_t *b, double *out) {
    *out = b->at_s - a->at_s;
    return a->recorded && b->recorded ? 0 : 1;
}

#ifdef FAKE_OWN_PROGRAMS /* gpublocks.c has others */
static int program_load(ccl_device_handle_t *device, const ccl_device_plan_t *plan,
                        uint32_t threads, ccl_device_program_t **out);
static int program_unload(ccl_device_program_t *f);
static int program_launch(ccl_device_program_t *f, ccl_device_stream_t *s,
                          const ccl_device_launch_t *launch);
static int kernel_compile(const char *source, const char *architecture, char *log, size_t len);
#else

/* ---------------------------------------------------------------- programs */

static int32_t combine(uint32_t op, int32_t a, int32_t b) {
    if (op == 0)
        return (int32_t)((uint32_t)a + (uint32_t)b);
    return op == 1 ? (a < b ? a : b) : (a > b ? a : b);
}

static uint64_t items_in_batch(const ccl_device_piece_t *p, uint64_t batch) {
    uint64_t lo = batch * p->batch_items, hi = lo + p->batch_items;
    lo = lo < p->items ? lo : p->items;
    hi = hi < p->items ? hi : p->items;
    return hi - lo;
}

/** Item k of the step's data in a micro-batch: its places in source and destination. */
static void locate(const ccl_device_plan_t *plan, const ccl_device_step_t *s, uint64_t batch,
                   uint64_t k, uint64_t *src, uint64_t *dst) {
    for (uint32_t i = 0; i < s->npieces; i++) {
        const ccl_device_piece_t *p = &plan->pieces[s->first_piece + i];
        uint64_t own = items_in_batch(p, batch);
        if (k >= own * p->n) {
            k -= own * p->n;
            continue;
        }
        uint64_t off = k / own * p->items + batch * p->batch_items + k % own;
        *src = p->src + off;
        *dst = p->dst + off;
        return;
    }
}

/** Of the slice that a head or a tail is at. */
static char *slot(const ccl_device_conn_t *c, const uint64_t *count) {
    return (char *)back(c->data) + *(uint64_t *)back(count) % c->slots * c->slot_bytes;
}

static void one_slice(const ccl_device_program_t *f, const ccl_device_unit_t *u,
                      const ccl_device_step_t *s, const place_t *at) {
    const ccl_device_plan_t *plan = f->plan;
    uint64_t n = 0;
    for (uint32_t i = 0; i < s->npieces; i++)
        n += plan->pieces[s->first_piece + i].n *
             items_in_batch(&plan->pieces[s->first_piece + i], at->batch);
    uint64_t x = (n + s->slices - 1) / s->slices;
    x = (x * plan->item_bytes + 15) / 16 * 16 / plan->item_bytes;
    int32_t *memory = back(plan->memory[u->rank]);
    const ccl_device_conn_t *r = s->recv == CCL_DEVICE_NONE ? NULL : &plan->conns[s->recv];
    const ccl_device_conn_t *w = s->send == CCL_DEVICE_NONE ? NULL : &plan->conns[s->send];
    for (uint64_t k = at->slice * x, i = 0; k < n && i < x; k++, i++) {
        uint64_t src = 0, dst = 0;
        int32_t in = 0, value;
        locate(plan, s, at->batch, k, &src, &dst);
        for (uint32_t c = 0; c < s->nrecv; c++) {
            int32_t x;
            memcpy(&x, slot(&r[c], r[c].tail) + 4 * i, 4);
            in = c ? combine(plan->op, in, x) : x;
        }
        switch (s->prim) {
        case CCL_DEVICE_S:
        case CCL_DEVICE_CPY:
            value = memory[src];
            break;
        case CCL_DEVICE_R:
        case CCL_DEVICE_RCS:
            value = in;
            break;
        case CCL_DEVICE_RE:
            value = combine(plan->op, memory[dst], memory[src]);
            break;
        default:
            value = combine(plan->op, memory[src], in);
            break;
        }
        if (s->prim != CCL_DEVICE_S && s->prim != CCL_DEVICE_RRS)
            memory[dst] = value;
        for (uint32_t c = 0; c < s->nsend; c++)
            memcpy(slot(&w[c], w[c].head) + 4 * i, &value, 4);
    }
    for (uint32_t c = 0; c < s->nrecv; c++)
        ++*(uint64_t *)back(r[c].tail);
    for (uint32_t c = 0; c < s->nsend; c++)
        ++*(uint64_t *)back(w[c].head);
}

/** What keeps the unit from its next slice; CCL_DEVICE_NONE: nothing. 0 data, 1 slot, 2, 3. */
static uint32_t waits(const ccl_device_program_t *f, const ccl_device_unit_t *u,
                      const ccl_device_step_t *s, const place_t *at) {
    const ccl_device_plan_t *plan = f->plan;
    if (at->step == 0 && u->after != CCL_DEVICE_NONE && plan->done[u->after] <= at->batch)
        return 3;
    if (s->dep != CCL_DEVICE_NONE && plan->done[s->dep] <= at->batch)
        return 2;
    for (uint32_t i = 0; i < s->nrecv; i++) {
        const ccl_device_conn_t *c = &plan->conns[s->recv + i];
        if (*(uint64_t *)back(c->head) == *(uint64_t *)back(c->tail))
            return 0;
    }
    for (uint32_t i = 0; i < s->nsend; i++) {
        const ccl_device_conn_t *c = &plan->conns[s->send + i];
        if (*(uint64_t *)back(c->head) - *(uint64_t *)back(c->tail) >= c->slots)
            return 1;
    }
    return CCL_DEVICE_NONE;
}

static bool step_unit(ccl_device_program_t *f, uint32_t index) {
    const ccl_device_plan_t *plan = f->plan;
    const ccl_device_unit_t *u = &plan->units[index];
    place_t *at = &f->places[index];
    if (at->step >= u->nsteps)
        return false;
    const ccl_device_step_t *s = &plan->steps[u->first_step + at->step];
    if (waits(f, u, s, at) != CCL_DEVICE_NONE)
        return false;
    one_slice(f, u, s, at);
    if (++at->slice < s->slices)
        return true;
    at->slice = 0;
    plan->done[u->first_step + at->step] = at->batch + UINT64_C(1);
    if (plan->by_task) {
        if (++at->batch == plan->batches) {
            at->batch = 0;
            at->step++;
        }
    } else if (++at->step == u->nsteps && ++at->batch < plan->batches) {
        at->step = 0;
    }
    return true;
}

static void *run(void *user) {
    ccl_device_program_t *f = user;
    const ccl_device_plan_t *plan = f->plan;
    const ccl_device_launch_t *l = f->launch;
    memset(f->places, 0, plan->nunits * sizeof *f->places);
    memset(plan->done, 0, plan->nsteps * sizeof *plan->done);
    __atomic_store_n(l->ready, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(l->gate, __ATOMIC_ACQUIRE) && !__atomic_load_n(l->stop, 0))
        ;
    for (bool left = true; left && !__atomic_load_n(l->stop, __ATOMIC_ACQUIRE);) {
        left = false;
        for (uint32_t i = plan->first_unit; i < plan->end_unit; i++) {
            if (step_unit(f, i))
                __atomic_fetch_add(l->progress, 1, __ATOMIC_RELAXED);
            left = left || f->places[i].step < plan->units[i].nsteps;
        }
    }
    *l->start_s = 1;
    *l->end_s = 1.5; /* its clock stands still */
    for (uint32_t i = plan->first_unit; i < plan->end_unit; i++) {
        const ccl_device_unit_t *u = &plan->units[i];
        uint32_t why = CCL_DEVICE_NONE;
        if (f->places[i].step < u->nsteps)
            why = waits(f, u, &plan->steps[u->first_step + f->places[i].step], &f->places[i]);
        l->places[i] =
            (ccl_device_place_t){f->places[i].step, f->places[i].batch, f->places[i].slice, why};
    }
    __atomic_store_n(l->over, 1, __ATOMIC_RELEASE);
    return NULL;
}

static int program_load(ccl_device_handle_t *device, const ccl_device_plan_t *plan,
                        uint32_t threads, ccl_device_program_t **out) {
    (void)device;
    (void)threads;
    if (plan->size != sizeof *plan || plan->item_bytes != 4 || plan->host)
        return 1;
    ccl_device_program_t *f = calloc(1, sizeof *f);
    place_t *places = calloc(plan->nunits + (size_t)1, sizeof *places);
    if (!f || !places)
        return 1;
    f->plan = plan;
    f->places = places;
    *out = f;
    return 0;
}

static int program_unload(ccl_device_program_t *f) {
    free(f->places);
    free(f);
    return 0;
}

static int program_launch(ccl_device_program_t *f, ccl_device_stream_t *s,
                          const ccl_device_launch_t *launch) {
    stream_wait(s);
    f->launch = launch;
    s->running = pthread_create(&s->thread, NULL, run, f) == 0;
    return s->running ? 0 : 1;
}

#endif

const ccl_device_ops_t *ccl_runtime_module_v1(void);

__attribute__((visibility("default"))) const ccl_device_ops_t *ccl_runtime_module_v1(void) {
    static const ccl_device_ops_t ops = {
        .size = sizeof ops,
        .abi = FAKE_ABI,
        .name = "fake",
        .summary = "for tests",
        .source = "tests",
        .error_text = error_text,
        .count = count,
        .properties = properties,
        .open = open_device,
        .close = close_device,
        .memory_alloc = memory_alloc,
        .memory_free = memory_free,
        .host_alloc = host_alloc,
        .host_free = host_free,
        .copy_h2d = copy_h2d,
        .copy_d2h = copy_d2h,
        .copy_d2d = copy_d2d,
        .memory_set = memory_set,
        .stream_create = stream_create,
        .stream_destroy = stream_destroy,
        .stream_wait = stream_wait,
        .stream_done = stream_done,
        .stream_call = stream_call,
        .event_create = event_create,
        .event_destroy = event_destroy,
        .event_record = event_record,
        .event_wait = event_wait,
        .event_done = event_done,
        .stream_follow = stream_follow,
        .event_elapsed = event_elapsed,
#ifdef FAKE_OWN_PROGRAMS
        .ipc_get = ipc_get,
        .ipc_open = ipc_open,
        .ipc_close = ipc_close,
        .peer_enable = peer_enable,
        .host_register = host_register,
        .host_unregister = host_unregister,
        .kernel_compile = kernel_compile,
        .rdma_alloc = rdma_alloc,
        .rdma_export = rdma_export,
        .rdma_flush = rdma_flush,
        .multicast_reduces = multicast_reduces,
        .multicast_alloc = multicast_alloc,
        .multicast_free = multicast_free,
#endif
        .program_load = program_load,
        .program_unload = program_unload,
        .program_launch = program_launch,
        .stream_native = stream_native,
    };
    return &ops;
}
