/*
 * A library with NCCL's functions for the fake devices: ranks, also of several processes, meet in
 * a file of shared memory. What a group holds is queued on the ranks' streams, as with NCCL.
 * CCL_TEST_NCCL_FAULT: wrong (the first item), hang (rank 1 does not come), hang_second (not to
 * every second group), refuse, refuse_second. CCL_TEST_NCCL_LOG: a file that gets a line per call
 * of a rank.
 */
#define _GNU_SOURCE
#include "fakenative.h"
#include "runtime/host/kernels.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))
enum { RANKS = 8, BOX_BYTES = 1 << 18, OPS = 64, INVALID_USAGE = 5, TYPES = 10 };

typedef struct id {
    char internal[128];
} nccl_id_t;

/** Where the ranks of a communicator meet; zero at the start. */
typedef struct meeting {
    uint32_t here[RANKS]; /* 1 + the number of its device */
    uint32_t opened;
    uint64_t arrived;                               /* ranks at barriers so far */
    uint32_t sent[RANKS][RANKS], got[RANKS][RANKS]; /* groups with messages from, to */
    char boxes[RANKS][RANKS + 1][BOX_BYTES];        /* from, to; [RANKS]: to everybody */
} meeting_t;

typedef struct comm {
    meeting_t *meeting;
    uint32_t nranks, rank, refs, ngroups;
    uint64_t barriers; /* passed by this rank */
    uint32_t aborted;
} comm_t;

typedef enum what { ALLREDUCE, REDUCESCATTER, REDUCE, BROADCAST, ALLGATHER, SEND, RECV } what_t;

typedef struct op {
    what_t what;
    const void *in;
    void *out;
    size_t count;
    int type, op;
    uint32_t root; /* or peer */
    comm_t *comm;
    const fake_native_t *native;
} op_t;

/** What a rank does in a group. */
typedef struct task {
    comm_t *comm;
    uint32_t n, group;                 /* how many the rank had before */
    size_t given[RANKS + 1];           /* bytes in this rank's boxes */
    size_t taken[RANKS], heard[RANKS]; /* of what others sent here, and to everybody */
    op_t ops[OPS];
} task_t;

static __thread op_t queued[OPS];
static __thread uint32_t nqueued;

/** One write a line, so that lines of several processes do not mix. */
static void note(const op_t *o) {
    static const char *const names[] = {"allreduce", "reducescatter", "reduce", "broadcast",
                                        "allgather", "send",          "recv"};
    const char *path = getenv("CCL_TEST_NCCL_LOG");
    char line[96];
    if (!path)
        return;
    int n = snprintf(line, sizeof line, "%s %u of %u: %zu\n", names[o->what], o->comm->rank,
                     o->comm->nranks, o->count);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, line, (size_t)n) != n)
        abort();
    close(fd);
}

static bool fault(const char *what) {
    const char *wanted = getenv("CCL_TEST_NCCL_FAULT");
    return wanted && strcmp(wanted, what) == 0;
}

static void *back(const void *p) {
    return (void *)((uintptr_t)p - AWAY);
}

static size_t bytes_of(const op_t *o, size_t blocks) {
    size_t bytes = o->count * blocks * (o->type == 6 || o->type == 9 ? 2 : 4);
    if (bytes > BOX_BYTES)
        abort();
    return bytes;
}

/* ---------------------------------------------------------------- communicators */

API int ncclGetVersion(int *version) {
    *version = 21904;
    return 0;
}

API const char *ncclGetErrorString(int code) {
    return code == INVALID_USAGE ? "invalid usage (fake)" : "no error (fake)";
}

API int ncclGetUniqueId(nccl_id_t *out) {
    static uint32_t n;
    snprintf(out->internal, sizeof out->internal, "/dev/shm/fake-nccl-%d-%u", (int)getpid(),
             __atomic_add_fetch(&n, 1, __ATOMIC_RELAXED));
    int fd = open(out->internal, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int code = fd < 0 || ftruncate(fd, sizeof(meeting_t)) ? INVALID_USAGE : 0;
    if (fd >= 0)
        close(fd);
    return code;
}

static void unref(comm_t *c) {
    if (__atomic_sub_fetch(&c->refs, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    munmap(c->meeting, sizeof *c->meeting);
    free(c);
}

API int ncclCommInitRank(comm_t **out, int nranks, nccl_id_t id, int rank) {
    uint32_t device = 1 + (uint32_t)atoi(getenv(FAKE_CURRENT));
    int fd = open(id.internal, O_RDWR | O_CLOEXEC);
    if (fd < 0 || nranks > RANKS || rank >= nranks)
        return INVALID_USAGE;
    void *p = mmap(NULL, sizeof(meeting_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    comm_t *c = calloc(1, sizeof *c);
    if (!c || p == MAP_FAILED)
        abort();
    *c = (comm_t){.meeting = p, .nranks = (uint32_t)nranks, .rank = (uint32_t)rank, .refs = 1};
    __atomic_store_n(&c->meeting->here[rank], device, __ATOMIC_SEQ_CST);
    bool twice = false;
    for (int r = 0; r < nranks; r++)
        twice |= r != rank && __atomic_load_n(&c->meeting->here[r], __ATOMIC_SEQ_CST) == device;
    if (twice || __atomic_add_fetch(&c->meeting->opened, 1, __ATOMIC_SEQ_CST) == c->nranks)
        unlink(id.internal);
    if (twice) { /* as NCCL: a rank is a device */
        unref(c);
        return INVALID_USAGE;
    }
    *out = c;
    return 0;
}

API int ncclCommDestroy(comm_t *c) {
    unref(c);
    return 0;
}

API int ncclCommAbort(comm_t *c) {
    __atomic_store_n(&c->aborted, 1, __ATOMIC_RELEASE);
    unref(c);
    return 0;
}

/* ---------------------------------------------------------------- what ranks do */

static bool wait_until(const comm_t *c, const uint32_t *word, uint32_t value) {
    while (__atomic_load_n(word, __ATOMIC_SEQ_CST) != value) {
        if (__atomic_load_n(&c->aborted, __ATOMIC_ACQUIRE))
            return false;
        usleep(20);
    }
    return true;
}

/** Of all ranks, who all have such calls in their groups. */
static bool barrier(comm_t *c) {
    uint64_t all = ++c->barriers * c->nranks;
    __atomic_add_fetch(&c->meeting->arrived, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&c->meeting->arrived, __ATOMIC_SEQ_CST) < all) {
        if (__atomic_load_n(&c->aborted, __ATOMIC_ACQUIRE))
            return false;
        usleep(20);
    }
    return true;
}

/** Room behind what a box holds already. */
static size_t grow(size_t *used, size_t bytes) {
    size_t at = *used;
    *used += bytes;
    if (*used > BOX_BYTES)
        abort();
    return at;
}

static void give(task_t *t, const op_t *o) {
    comm_t *c = o->comm;
    bool is_root = c->rank == o->root;
    if (o->what == RECV || (o->what == BROADCAST && !is_root))
        return;
    size_t bytes = bytes_of(o, o->what == REDUCESCATTER ? c->nranks : 1);
    uint32_t to = o->what == SEND ? o->root : RANKS;
    memcpy(c->meeting->boxes[c->rank][to] + grow(&t->given[to], bytes), back(o->in), bytes);
}

/** What rank r gave to everybody for this call; all ranks make such calls in one order. */
static const char *heard(task_t *t, const op_t *o, uint32_t r) {
    if (o->what == BROADCAST && r != o->root)
        return NULL;
    size_t bytes = bytes_of(o, o->what == REDUCESCATTER ? o->comm->nranks : 1);
    return o->comm->meeting->boxes[r][RANKS] + grow(&t->heard[r], bytes);
}

static void reduce(const op_t *o, const char *const *from, size_t first_byte) {
    static const int types[TYPES] = {
        [2] = CCL_TYPE_INT32, [7] = CCL_TYPE_FP32, [6] = CCL_TYPE_FP16, [9] = CCL_TYPE_BF16};
    ccl_reduction_t how = o->op == 0 ? CCL_OP_SUM : o->op == 3 ? CCL_OP_MIN : CCL_OP_MAX;
    char *out = back(o->out);
    memcpy(out, from[0] + first_byte, bytes_of(o, 1));
    for (uint32_t r = 1; r < o->comm->nranks; r++)
        ccl_i_reduce_get((ccl_type_t)types[o->type], how)(out, out, from[r] + first_byte, o->count);
}

static void take(task_t *t, const op_t *o) {
    const comm_t *c = o->comm;
    const meeting_t *m = c->meeting;
    const char *from[RANKS] = {NULL};
    size_t bytes = bytes_of(o, 1);
    if (o->what == SEND)
        return;
    for (uint32_t r = 0; r < c->nranks && o->what != RECV; r++)
        from[r] = heard(t, o, r);
    if (o->what == REDUCE && c->rank != o->root)
        return;
    if (o->what == ALLREDUCE || o->what == REDUCE)
        reduce(o, from, 0);
    else if (o->what == REDUCESCATTER)
        reduce(o, from, c->rank * bytes);
    else if (o->what == BROADCAST)
        memcpy(back(o->out), from[o->root], bytes);
    else if (o->what == RECV)
        memcpy(back(o->out), m->boxes[o->root][c->rank] + grow(&t->taken[o->root], bytes), bytes);
    for (uint32_t r = 0; r < c->nranks && o->what == ALLGATHER; r++)
        memcpy((char *)back(o->out) + r * bytes, from[r], bytes);
    if (fault("wrong"))
        *(char *)back(o->out) ^= 1;
}

static bool has_message(const task_t *t, what_t what, uint32_t peer) {
    for (uint32_t i = 0; i < t->n; i++)
        if (t->ops[i].what == what && t->ops[i].root == peer)
            return true;
    return false;
}

/** Boxes of messages are filled again when the last group's have been taken. */
static bool give_all(task_t *t) {
    comm_t *c = t->comm;
    meeting_t *m = c->meeting;
    for (uint32_t q = 0; q < c->nranks; q++)
        if (has_message(t, SEND, q) && !wait_until(c, &m->got[c->rank][q], m->sent[c->rank][q]))
            return false;
    for (uint32_t i = 0; i < t->n; i++)
        give(t, &t->ops[i]);
    for (uint32_t q = 0; q < c->nranks; q++)
        if (has_message(t, SEND, q))
            __atomic_add_fetch(&m->sent[c->rank][q], 1, __ATOMIC_SEQ_CST);
    return true;
}

static bool take_all(task_t *t) {
    comm_t *c = t->comm;
    meeting_t *m = c->meeting;
    for (uint32_t q = 0; q < c->nranks; q++)
        if (has_message(t, RECV, q) && !wait_until(c, &m->sent[q][c->rank], m->got[q][c->rank] + 1))
            return false;
    for (uint32_t i = 0; i < t->n; i++)
        take(t, &t->ops[i]);
    for (uint32_t q = 0; q < c->nranks; q++)
        if (has_message(t, RECV, q))
            __atomic_add_fetch(&m->got[q][c->rank], 1, __ATOMIC_SEQ_CST);
    return true;
}

static void run(void *user) {
    task_t *t = user;
    bool hang = fault("hang") || (t->group % 2 && fault("hang_second"));
    bool alive = !(t->comm->rank == 1 && hang), all = false;
    while (!alive && !__atomic_load_n(&t->comm->aborted, __ATOMIC_ACQUIRE))
        usleep(100);
    for (uint32_t i = 0; i < t->n; i++)
        all |= t->ops[i].what != SEND && t->ops[i].what != RECV;
    alive = alive && give_all(t);
    alive = alive && (!all || barrier(t->comm));
    alive = alive && take_all(t);
    if (alive && all)
        barrier(t->comm);
    unref(t->comm);
    free(t);
}

/* ---------------------------------------------------------------- groups */

API int ncclGroupStart(void) {
    nqueued = 0;
    return 0;
}

API int ncclGroupEnd(void) {
    for (uint32_t i = 0; i < nqueued; i++) {
        comm_t *c = queued[i].comm;
        if (!c)
            continue;
        task_t *t = calloc(1, sizeof *t);
        if (!t)
            abort();
        t->comm = c;
        t->group = c->ngroups++;
        for (uint32_t k = i; k < nqueued; k++) {
            if (queued[k].comm != c)
                continue;
            note(&queued[k]);
            t->ops[t->n++] = queued[k];
            queued[k].comm = NULL;
        }
        __atomic_add_fetch(&c->refs, 1, __ATOMIC_ACQ_REL);
        const fake_native_t *native = t->ops[0].native;
        if (native->call(native->stream, run, t))
            abort();
    }
    nqueued = 0;
    return 0;
}

static int queue(op_t op) {
    bool second = op.comm->ngroups % 2 && fault("refuse_second");
    if (fault("refuse") || second || nqueued == OPS)
        return INVALID_USAGE;
    queued[nqueued++] = op;
    return 0;
}

API int ncclAllReduce(const void *in, void *out, size_t count, int type, int op, comm_t *comm,
                      void *stream) {
    return queue((op_t){ALLREDUCE, in, out, count, type, op, 0, comm, stream});
}

API int ncclReduceScatter(const void *in, void *out, size_t count, int type, int op, comm_t *comm,
                          void *stream) {
    return queue((op_t){REDUCESCATTER, in, out, count, type, op, 0, comm, stream});
}

API int ncclReduce(const void *in, void *out, size_t count, int type, int op, int root,
                   comm_t *comm, void *stream) {
    return queue((op_t){REDUCE, in, out, count, type, op, (uint32_t)root, comm, stream});
}

API int ncclBroadcast(const void *in, void *out, size_t count, int type, int root, comm_t *comm,
                      void *stream) {
    return queue((op_t){BROADCAST, in, out, count, type, 0, (uint32_t)root, comm, stream});
}

API int ncclAllGather(const void *in, void *out, size_t count, int type, comm_t *comm,
                      void *stream) {
    return queue((op_t){ALLGATHER, in, out, count, type, 0, 0, comm, stream});
}

#ifndef FAKE_OLD_NCCL /* before 2.7 */
API int ncclSend(const void *in, size_t count, int type, int peer, comm_t *comm, void *stream) {
    return queue((op_t){SEND, in, NULL, count, type, 0, (uint32_t)peer, comm, stream});
}

API int ncclRecv(void *out, size_t count, int type, int peer, comm_t *comm, void *stream) {
    return queue((op_t){RECV, NULL, out, count, type, 0, (uint32_t)peer, comm, stream});
}
#endif
