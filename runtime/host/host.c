/**
 * @file host.c
 * The host's table of device functions: memory is memory, a stream is a thread with a queue.
 */
#define _GNU_SOURCE
#include "runtime/host/host.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct ccl_device_handle {
    uint32_t index;
};

typedef enum job_kind { JOB_COPY, JOB_SET, JOB_CALL, JOB_RECORD, JOB_FOLLOW, JOB_RUN } job_kind_t;

typedef struct job {
    struct job *next;
    job_kind_t kind;
    int byte;
    void *dst;
    const void *src;
    size_t bytes;
    ccl_device_host_fn fn;
    void *user;
    ccl_device_event_t *event;
    uint64_t ticket; /* of the event */
    ccl_device_program_t *program;
    const ccl_device_launch_t *launch;
} job_t;

struct ccl_device_stream {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t more, idle;
    job_t *head, **tail;
    bool busy, quit;
};

struct ccl_device_event {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t recorded, done; /* tickets */
    double done_s;
};

/* ---------------------------------------------------------------- devices and memory */

static const char *error_text(int code) {
    switch (code) {
    case ENOMEM:
        return "out of memory";
    case EAGAIN:
        return "no more threads can be had";
    case ENODEV:
        return "no such device";
    default:
        return "failed";
    }
}

static int count(uint32_t *out) {
    *out = 1;
    return 0;
}

static int properties(uint32_t index, ccl_device_properties_t *out) {
    if (index != 0)
        return ENODEV;
    ccl_device_properties_t p = {.name = "this machine's cores", .architecture = ""};
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    long available = sysconf(_SC_AVPHYS_PAGES);
    const char *architecture =
#if defined(__x86_64__)
        "x86_64";
#elif defined(__aarch64__)
        "aarch64";
#else
        "other";
#endif
    memcpy(p.architecture, architecture, strlen(architecture) + 1);
    p.units = ccl_core_count();
    p.memory_bytes = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
    p.free_bytes = available > 0 && page > 0 ? (uint64_t)available * (uint64_t)page : 0;
    p.host_access = true;
    *out = p;
    return 0;
}

static int device_open(uint32_t index, ccl_device_handle_t **out) {
    if (index != 0)
        return ENODEV;
    ccl_device_handle_t *device = calloc(1, sizeof *device);
    if (!device)
        return ENOMEM;
    *out = device;
    return 0;
}

static void device_close(ccl_device_handle_t *device) {
    free(device);
}

static int memory_alloc(ccl_device_handle_t *device, size_t bytes, void **out) {
    (void)device;
    void *memory = NULL;
    if (posix_memalign(&memory, 256, bytes ? bytes : 1))
        return ENOMEM;
    *out = memory;
    return 0;
}

static int memory_free(ccl_device_handle_t *device, void *memory) {
    (void)device;
    free(memory);
    return 0;
}

static int host_register(ccl_device_handle_t *device, void *host, size_t bytes, void **device_out) {
    (void)device;
    (void)bytes;
    *device_out = host;
    return 0;
}

static int host_unregister(ccl_device_handle_t *device, void *host) {
    (void)device;
    (void)host;
    return 0;
}

/* ---------------------------------------------------------------- events */

static int event_create(ccl_device_handle_t *device, ccl_device_event_t **out) {
    (void)device;
    ccl_device_event_t *event = calloc(1, sizeof *event);
    if (!event)
        return ENOMEM;
    if (pthread_mutex_init(&event->lock, NULL)) {
        free(event);
        return ENOMEM;
    }
    if (pthread_cond_init(&event->changed, NULL)) {
        pthread_mutex_destroy(&event->lock);
        free(event);
        return ENOMEM;
    }
    *out = event;
    return 0;
}

static int event_destroy(ccl_device_event_t *event) {
    if (!event)
        return 0;
    pthread_cond_destroy(&event->changed);
    pthread_mutex_destroy(&event->lock);
    free(event);
    return 0;
}

static void event_reach(ccl_device_event_t *event, uint64_t ticket) {
    pthread_mutex_lock(&event->lock);
    event->done = ticket > event->done ? ticket : event->done;
    event->done_s = ccl_now_s();
    pthread_cond_broadcast(&event->changed);
    pthread_mutex_unlock(&event->lock);
}

static void event_await(ccl_device_event_t *event, uint64_t ticket) {
    pthread_mutex_lock(&event->lock);
    while (event->done < ticket)
        pthread_cond_wait(&event->changed, &event->lock);
    pthread_mutex_unlock(&event->lock);
}

static uint64_t event_ticket(ccl_device_event_t *event, bool record) {
    pthread_mutex_lock(&event->lock);
    uint64_t ticket = record ? ++event->recorded : event->recorded;
    pthread_mutex_unlock(&event->lock);
    return ticket;
}

static int event_wait(ccl_device_event_t *event) {
    event_await(event, event_ticket(event, false));
    return 0;
}

static int event_done(ccl_device_event_t *event, bool *out) {
    pthread_mutex_lock(&event->lock);
    *out = event->done >= event->recorded;
    pthread_mutex_unlock(&event->lock);
    return 0;
}

static int event_elapsed(ccl_device_event_t *from, ccl_device_event_t *to, double *s_out) {
    ccl_device_event_t *both[2] = {from, to};
    double at_s[2];
    for (int i = 0; i < 2; i++) {
        pthread_mutex_lock(&both[i]->lock);
        bool done = both[i]->recorded > 0 && both[i]->done >= both[i]->recorded;
        at_s[i] = both[i]->done_s;
        pthread_mutex_unlock(&both[i]->lock);
        if (!done)
            return EAGAIN;
    }
    *s_out = at_s[1] - at_s[0];
    return 0;
}

/* ---------------------------------------------------------------- streams */

static void work(job_t *job) {
    switch (job->kind) {
    case JOB_COPY:
        if (job->dst != job->src)
            memcpy(job->dst, job->src, job->bytes);
        break;
    case JOB_SET:
        memset(job->dst, job->byte, job->bytes);
        break;
    case JOB_CALL:
        job->fn(job->user);
        break;
    case JOB_RECORD:
        event_reach(job->event, job->ticket);
        break;
    case JOB_FOLLOW:
        event_await(job->event, job->ticket);
        break;
    case JOB_RUN:
        ccl_i_host_program_run(job->program, job->launch);
        break;
    }
}

static void *stream_main(void *arg) {
    ccl_device_stream_t *s = arg;
    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (!s->head && !s->quit)
            pthread_cond_wait(&s->more, &s->lock);
        job_t *job = s->head;
        if (!job)
            break;
        s->head = job->next;
        if (!s->head)
            s->tail = &s->head;
        s->busy = true;
        pthread_mutex_unlock(&s->lock);
        work(job);
        free(job);
        pthread_mutex_lock(&s->lock);
        s->busy = false;
        if (!s->head)
            pthread_cond_broadcast(&s->idle);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static int stream_create(ccl_device_handle_t *device, ccl_device_stream_t **out) {
    (void)device;
    ccl_device_stream_t *s = calloc(1, sizeof *s);
    if (!s)
        return ENOMEM;
    s->tail = &s->head;
    if (pthread_mutex_init(&s->lock, NULL))
        goto no_lock;
    if (pthread_cond_init(&s->more, NULL))
        goto no_more;
    if (pthread_cond_init(&s->idle, NULL))
        goto no_idle;
    if (pthread_create(&s->thread, NULL, stream_main, s))
        goto no_thread;
    *out = s;
    return 0;
no_thread:
    pthread_cond_destroy(&s->idle);
no_idle:
    pthread_cond_destroy(&s->more);
no_more:
    pthread_mutex_destroy(&s->lock);
no_lock:
    free(s);
    return EAGAIN;
}

static int stream_destroy(ccl_device_stream_t *s) {
    if (!s)
        return 0;
    pthread_mutex_lock(&s->lock);
    s->quit = true;
    pthread_cond_broadcast(&s->more);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->idle);
    pthread_cond_destroy(&s->more);
    pthread_mutex_destroy(&s->lock);
    free(s);
    return 0;
}

static int stream_wait(ccl_device_stream_t *s) {
    pthread_mutex_lock(&s->lock);
    while (s->head || s->busy)
        pthread_cond_wait(&s->idle, &s->lock);
    pthread_mutex_unlock(&s->lock);
    return 0;
}

static int stream_done(ccl_device_stream_t *s, bool *out) {
    pthread_mutex_lock(&s->lock);
    *out = !s->head && !s->busy;
    pthread_mutex_unlock(&s->lock);
    return 0;
}

static int enqueue(ccl_device_stream_t *s, job_t job) {
    job_t *copy = malloc(sizeof *copy);
    if (!copy)
        return ENOMEM;
    *copy = job;
    copy->next = NULL;
    pthread_mutex_lock(&s->lock);
    *s->tail = copy;
    s->tail = &copy->next;
    pthread_cond_signal(&s->more);
    pthread_mutex_unlock(&s->lock);
    return 0;
}

static int copy(ccl_device_stream_t *stream, void *dst, const void *src, size_t bytes) {
    return enqueue(stream, (job_t){.kind = JOB_COPY, .dst = dst, .src = src, .bytes = bytes});
}

static int memory_set(ccl_device_stream_t *stream, void *dst, int byte, size_t bytes) {
    return enqueue(stream, (job_t){.kind = JOB_SET, .dst = dst, .byte = byte, .bytes = bytes});
}

static int stream_call(ccl_device_stream_t *stream, ccl_device_host_fn fn, void *user) {
    return enqueue(stream, (job_t){.kind = JOB_CALL, .fn = fn, .user = user});
}

static int event_record(ccl_device_event_t *event, ccl_device_stream_t *stream) {
    return enqueue(
        stream, (job_t){.kind = JOB_RECORD, .event = event, .ticket = event_ticket(event, true)});
}

static int stream_follow(ccl_device_stream_t *stream, ccl_device_event_t *event) {
    return enqueue(
        stream, (job_t){.kind = JOB_FOLLOW, .event = event, .ticket = event_ticket(event, false)});
}

static int program_launch(ccl_device_program_t *program, ccl_device_stream_t *stream,
                          const ccl_device_launch_t *launch) {
    return enqueue(stream, (job_t){.kind = JOB_RUN, .program = program, .launch = launch});
}

/* ---------------------------------------------------------------- the table */

const ccl_device_ops_t *ccl_i_host_ops(void) {
    static const ccl_device_ops_t ops = {
        .size = sizeof(ccl_device_ops_t),
        .abi = CCL_DEVICE_ABI,
        .name = "host",
        .summary = "thread blocks as state machines, stepped by one worker per core",
        .source = "built in",
        .error_text = error_text,
        .count = count,
        .properties = properties,
        .open = device_open,
        .close = device_close,
        .memory_alloc = memory_alloc,
        .memory_free = memory_free,
        .host_alloc = memory_alloc,
        .host_free = memory_free,
        .copy_h2d = copy,
        .copy_d2h = copy,
        .copy_d2d = copy,
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
        .host_register = host_register,
        .host_unregister = host_unregister,
        .program_load = ccl_i_host_program_load,
        .program_unload = ccl_i_host_program_unload,
        .program_launch = program_launch,
    };
    return &ops;
}
