/** @file thread.c Parallel loops on pthreads; the clock for measuring our own work. */
#define _GNU_SOURCE
#include "base/base.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

typedef struct loop {
    ccl_job_fn fn;
    void *user;
    uint32_t n;
    uint32_t next;   /* atomic: next index to hand out */
    uint32_t failed; /* lowest failing index so far; CCL_NONE: none. Under lock to write */
    ccl_status_t status;
    ccl_error_t error;
    pthread_mutex_t lock;
} loop_t;

typedef struct worker {
    loop_t *loop;
    uint32_t index;
    pthread_t thread;
} worker_t;

/*
 * Indices are handed out in ascending order and only those beyond a known failure are dropped, so
 * every index below the lowest failing one runs, whatever the timing.
 */
static void work(loop_t *loop, uint32_t worker) {
    for (;;) {
        uint32_t index = __atomic_load_n(&loop->next, __ATOMIC_RELAXED);
        do {
            if (index >= loop->n || index > __atomic_load_n(&loop->failed, __ATOMIC_RELAXED))
                return;
        } while (!__atomic_compare_exchange_n(&loop->next, &index, index + 1, true,
                                              __ATOMIC_RELAXED, __ATOMIC_RELAXED));
        ccl_error_t error = CCL_ERROR_INIT;
        ccl_status_t status = loop->fn(index, worker, loop->user, &error);
        if (status == CCL_OK)
            continue;
        pthread_mutex_lock(&loop->lock);
        if (index < loop->failed) {
            loop->status = status;
            loop->error = error;
            __atomic_store_n(&loop->failed, index, __ATOMIC_RELAXED);
        }
        pthread_mutex_unlock(&loop->lock);
    }
}

static void *thread_main(void *arg) {
    worker_t *worker = arg;
    work(worker->loop, worker->index);
    return NULL;
}

ccl_status_t ccl_parallel_for(uint32_t n, uint32_t threads, ccl_job_fn fn, void *user,
                              ccl_error_t *err) {
    if (!n)
        return CCL_OK;
    if (!threads)
        threads = ccl_core_count();
    if (threads > n)
        threads = n;
    loop_t loop = {.fn = fn, .user = user, .n = n, .failed = CCL_NONE, .status = CCL_OK};
    if (pthread_mutex_init(&loop.lock, NULL))
        return ccl_fail_nomem(err);
    /* The caller works too, as worker 0. Threads that cannot be had are done without. */
    worker_t *workers = threads > 1 ? calloc(threads - 1, sizeof *workers) : NULL;
    uint32_t started = 0;
    for (uint32_t i = 0; workers && i < threads - 1; i++) {
        workers[i] = (worker_t){.loop = &loop, .index = i + 1};
        if (pthread_create(&workers[i].thread, NULL, thread_main, &workers[i]))
            break;
        started++;
    }
    work(&loop, 0);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(workers[i].thread, NULL);
    free(workers);
    pthread_mutex_destroy(&loop.lock);
    if (loop.status != CCL_OK && err && err->status == CCL_OK)
        *err = loop.error;
    return loop.status;
}

uint32_t ccl_core_count(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        int count = CPU_COUNT(&set);
        if (count > 0)
            return (uint32_t)count;
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (uint32_t)online : 1;
}

double ccl_now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}
