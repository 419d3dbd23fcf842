/** @file thread.c Parallel loops and locks on pthreads; the clock for measuring our own work. */
#define _GNU_SOURCE
#include "base/base.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
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
    /* beside forks: */
    uint32_t running; /* workers that may still allocate */
    bool over;        /* they may end */
} loop_t;

/* ---------------------------------------------------------------- threads and their stacks */

/* A worker's thread. */
typedef struct thread {
    pthread_t id;
    char *stack; /* unmapped with it: libc would keep stacks, which count where memory is limited */
    size_t stack_len;
} thread_t;

static bool map_stack(thread_t *thread, pthread_attr_t *attr) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), len = 0;
    if (pthread_attr_getstacksize(attr, &len))
        return false;
    len = (len + page - 1) / page * page + page;
    void *stack = mmap(NULL, len, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED)
        return false;
    /* The lowest page is the guard. */
    if (mprotect(stack, page, PROT_NONE) ||
        pthread_attr_setstack(attr, (char *)stack + page, len - page)) {
        munmap(stack, len);
        return false;
    }
    thread->stack = stack;
    thread->stack_len = len;
    return true;
}

static bool thread_start(thread_t *thread, void *(*fn)(void *), void *arg) {
    pthread_attr_t attr;
    if (pthread_attr_init(&attr))
        return false;
    bool mapped = map_stack(thread, &attr);
    bool started = mapped && pthread_create(&thread->id, &attr, fn, arg) == 0;
    if (mapped && !started)
        munmap(thread->stack, thread->stack_len);
    pthread_attr_destroy(&attr);
    return started;
}

static void thread_join(const thread_t *thread) {
    pthread_join(thread->id, NULL);
    munmap(thread->stack, thread->stack_len);
}

/* ---------------------------------------------------------------- forks beside threads */

#ifdef __SANITIZE_ADDRESS__
/*
 * The address sanitizer's locks do not survive a fork beside threads that allocate: the child
 * hangs. So in such builds a fork waits until all workers of loops stand between two jobs, or wait
 * here.
 */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t busy;    /* threads of loops that may allocate */
    uint32_t pending; /* forks wanted */
    bool forking;
} gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
static _Thread_local uint32_t depth; /* of loops that this thread works in */

static void gate_leave(void) {
    pthread_mutex_lock(&gate.lock);
    gate.busy--;
    pthread_cond_broadcast(&gate.changed);
    pthread_mutex_unlock(&gate.lock);
}

static void gate_enter(void) {
    pthread_mutex_lock(&gate.lock);
    while (gate.forking || gate.pending)
        pthread_cond_wait(&gate.changed, &gate.lock);
    gate.busy++;
    pthread_mutex_unlock(&gate.lock);
}

void ccl_fork_point(void) {
    if (!depth)
        return;
    pthread_mutex_lock(&gate.lock);
    bool wanted = gate.pending || gate.forking;
    pthread_mutex_unlock(&gate.lock);
    if (wanted) {
        gate_leave();
        gate_enter();
    }
}

static void loop_begin(void) {
    if (depth++ == 0)
        gate_enter();
}

static void loop_end(void) {
    if (--depth == 0)
        gate_leave();
}

/** One more worker, or one less: the caller, busy itself, starts it. */
static void count_worker(loop_t *loop, bool more) {
    pthread_mutex_lock(&gate.lock);
    gate.busy += more ? 1u : -1u;
    loop->running += more ? 1u : -1u;
    pthread_mutex_unlock(&gate.lock);
}

static void worker_begin(void) {
    depth = 1; /* who started it let it in */
}

/** Threads end under the same locks: only while the one that joins them keeps forks away. */
static void worker_end(loop_t *loop) {
    pthread_mutex_lock(&gate.lock);
    gate.busy--;
    loop->running--;
    pthread_cond_broadcast(&gate.changed);
    while (!loop->over)
        pthread_cond_wait(&gate.changed, &gate.lock);
    pthread_mutex_unlock(&gate.lock);
}

static void join(loop_t *loop, const thread_t *threads, uint32_t n) {
    if (!n)
        return;
    pthread_mutex_lock(&gate.lock);
    gate.busy--;
    pthread_cond_broadcast(&gate.changed);
    while (loop->running || gate.forking || gate.pending)
        pthread_cond_wait(&gate.changed, &gate.lock);
    gate.busy++;
    loop->over = true;
    pthread_cond_broadcast(&gate.changed);
    pthread_mutex_unlock(&gate.lock);
    for (uint32_t i = 0; i < n; i++)
        thread_join(&threads[i]);
}

pid_t ccl_fork(void) {
    if (depth)
        gate_leave();
    pthread_mutex_lock(&gate.lock);
    gate.pending++;
    while (gate.busy || gate.forking)
        pthread_cond_wait(&gate.changed, &gate.lock);
    gate.pending--;
    gate.forking = true;
    pthread_mutex_unlock(&gate.lock);
    pid_t pid = fork();
    if (pid == 0) { /* alone, whatever the lock's state */
        gate.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
        gate.changed = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
        gate.pending = gate.busy = 0;
        gate.forking = false;
        gate.busy = depth ? 1 : 0;
        return pid;
    }
    pthread_mutex_lock(&gate.lock);
    gate.forking = false;
    pthread_cond_broadcast(&gate.changed);
    pthread_mutex_unlock(&gate.lock);
    if (depth)
        gate_enter();
    return pid;
}
#else
void ccl_fork_point(void) {
}

static void loop_begin(void) {
}

static void loop_end(void) {
}

static void count_worker(loop_t *loop, bool more) {
    (void)loop;
    (void)more;
}

static void worker_begin(void) {
}

static void worker_end(loop_t *loop) {
    (void)loop;
}

static void join(loop_t *loop, const thread_t *threads, uint32_t n) {
    (void)loop;
    for (uint32_t i = 0; i < n; i++)
        thread_join(&threads[i]);
}

pid_t ccl_fork(void) {
    return fork();
}
#endif

/* ---------------------------------------------------------------- loops */

typedef struct worker {
    loop_t *loop;
    uint32_t index;
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
        ccl_fork_point();
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
    worker_begin();
    work(worker->loop, worker->index);
    worker_end(worker->loop);
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
    loop_begin();
    worker_t *workers = threads > 1 ? calloc(threads - 1, sizeof *workers) : NULL;
    thread_t *started = threads > 1 ? calloc(threads - 1, sizeof *started) : NULL;
    uint32_t n_started = 0;
    for (uint32_t i = 0; workers && started && i < threads - 1; i++) {
        workers[i] = (worker_t){.loop = &loop, .index = i + 1};
        count_worker(&loop, true);
        if (!thread_start(&started[i], thread_main, &workers[i])) {
            count_worker(&loop, false);
            break;
        }
        n_started++;
    }
    work(&loop, 0);
    join(&loop, started, n_started);
    free(started);
    free(workers);
    loop_end();
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

struct ccl_lock {
    pthread_mutex_t mutex;
};

ccl_lock_t *ccl_lock_create(void) {
    ccl_lock_t *lock = malloc(sizeof *lock);
    if (lock && pthread_mutex_init(&lock->mutex, NULL)) {
        free(lock);
        lock = NULL;
    }
    return lock;
}

void ccl_lock_destroy(ccl_lock_t *lock) {
    if (!lock)
        return;
    pthread_mutex_destroy(&lock->mutex);
    free(lock);
}

void ccl_lock_take(ccl_lock_t *lock) {
    pthread_mutex_lock(&lock->mutex);
}

void ccl_lock_release(ccl_lock_t *lock) {
    pthread_mutex_unlock(&lock->mutex);
}

/* ---------------------------------------------------------------- beside the work */

struct ccl_ticker {
    thread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t ending;
    bool end;
    double every_s;
    void (*fn)(void *user);
    void *user;
};

static void *ticker_main(void *arg) {
    ccl_ticker_t *t = arg;
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    pthread_mutex_lock(&t->lock);
    while (!t->end) {
        long ns = at.tv_nsec + (long)(1e9 * (t->every_s - (double)(time_t)t->every_s));
        at.tv_sec += (time_t)t->every_s + ns / 1000000000;
        at.tv_nsec = ns % 1000000000;
        while (!t->end && pthread_cond_timedwait(&t->ending, &t->lock, &at) == 0)
            continue;
        if (t->end)
            break;
        pthread_mutex_unlock(&t->lock);
        loop_begin(); /* no fork while it allocates */
        t->fn(t->user);
        loop_end();
        clock_gettime(CLOCK_MONOTONIC, &at);
        pthread_mutex_lock(&t->lock);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

ccl_ticker_t *ccl_ticker_start(double every_s, void (*fn)(void *user), void *user) {
    ccl_ticker_t *t = calloc(1, sizeof *t);
    pthread_condattr_t attr;
    if (!t)
        return NULL;
    t->every_s = every_s;
    t->fn = fn;
    t->user = user;
    pthread_mutex_init(&t->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&t->ending, &attr);
    pthread_condattr_destroy(&attr);
    if (thread_start(&t->thread, ticker_main, t))
        return t;
    pthread_cond_destroy(&t->ending);
    pthread_mutex_destroy(&t->lock);
    free(t);
    return NULL;
}

void ccl_ticker_stop(ccl_ticker_t *t) {
    if (!t)
        return;
    pthread_mutex_lock(&t->lock);
    t->end = true;
    pthread_cond_signal(&t->ending);
    pthread_mutex_unlock(&t->lock);
    thread_join(&t->thread);
    pthread_cond_destroy(&t->ending);
    pthread_mutex_destroy(&t->lock);
    free(t);
}
