/**
 * @file wire.c
 * Slices over TCP. One socket per pair of processes carries all their connections; a slice is sent
 * when the receiver's FIFO has room for it (the sender's tail moves when the receiver's credit
 * comes), so a reader never has to wait and the socket never stands still for one connection.
 */
#define _GNU_SOURCE
#include "runtime/wire.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { KIND_DATA = 1, KIND_CREDIT = 2 };
/* Looks at devices' connections: so many per yield, and until the wire sleeps between them. */
enum { IDLE_LOOKS = 64, IDLE_LIMIT = 20000 };

typedef struct message {
    uint32_t conn, kind;
    uint64_t n; /* bytes that follow; or credits */
} message_t;

typedef struct peer {
    int fd;
    /* sending: connections that have something, in turn */
    uint32_t *queue;
    uint32_t head, len, cap;
    message_t out;
    const char *out_data;
    size_t out_done, out_bytes; /* of header and data; out_bytes 0: nothing on the way */
    /* receiving */
    message_t in;
    size_t in_done;
} peer_t;

struct ccl_i_wire {
    ccl_i_run_plan_t *plan;
    const ccl_i_host_t *host;
    const ccl_device_conn_t *conns; /* as the host sees them */
    const bool *carried;            /* NULL: all that cross */
    bool looks;                     /* nobody rings: look at all connections again and again */
    uint32_t idle;
    uint32_t nprocesses;
    peer_t *peers;
    uint32_t *conn_peer;   /* [nconns] process at the other end; CCL_NONE: not ours to carry */
    uint64_t *conn_passed; /* [nconns] slices sent, or credits given */
    uint8_t *conn_queued;
    uint64_t *lengths;
    uint64_t *dirty; /* bits: something happened at a connection */
    uint32_t nwords;
    uint32_t sleeping, quit, broken; /* atomic */
    uint32_t *stop;
    struct pollfd *fds; /* [nprocesses + 1] of the thread */
    int wake;
    bool started;
    pthread_t thread;
};

void ccl_i_wire_ring(void *user, uint32_t conn, bool data) {
    ccl_i_wire_t *w = user;
    (void)data;
    __atomic_fetch_or(&w->dirty[conn / 64], UINT64_C(1) << conn % 64, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&w->sleeping, __ATOMIC_SEQ_CST)) {
        uint64_t one = 1;
        ssize_t n = write(w->wake, &one, sizeof one);
        (void)n; /* full: it is awake */
    }
}

uint32_t ccl_i_wire_broken(const ccl_i_wire_t *wire) {
    return wire ? __atomic_load_n(&wire->broken, __ATOMIC_ACQUIRE) : CCL_NONE;
}

static bool outbound(const ccl_i_wire_t *w, uint32_t conn) {
    return w->host->unit_process[w->conns[conn].sender] == w->host->self;
}

static void fail(ccl_i_wire_t *w, uint32_t process) {
    peer_t *p = &w->peers[process];
    if (p->fd >= 0)
        close(p->fd);
    p->fd = -1;
    __atomic_store_n(&w->broken, process, __ATOMIC_RELEASE);
    __atomic_store_n(w->stop, 1, __ATOMIC_RELEASE);
}

/* ---------------------------------------------------------------- sending */

/** What a connection has to pass on. */
static uint64_t waiting(const ccl_i_wire_t *w, uint32_t conn) {
    const ccl_device_conn_t *c = &w->conns[conn];
    const uint64_t *count = outbound(w, conn) ? c->head : c->tail;
    return __atomic_load_n(count, __ATOMIC_ACQUIRE) - w->conn_passed[conn];
}

static void enqueue(ccl_i_wire_t *w, uint32_t conn) {
    peer_t *p = &w->peers[w->conn_peer[conn]];
    if (w->conn_queued[conn] || waiting(w, conn) == 0)
        return;
    w->conn_queued[conn] = 1;
    p->queue[(p->head + p->len++) % p->cap] = conn;
}

static bool next_message(ccl_i_wire_t *w, peer_t *p) {
    if (p->len == 0)
        return false;
    uint32_t conn = p->queue[p->head];
    const ccl_device_conn_t *c = &w->conns[conn];
    p->head = (p->head + 1) % p->cap;
    p->len--;
    w->conn_queued[conn] = 0;
    uint64_t n = waiting(w, conn), slot = w->conn_passed[conn] % c->slots;
    if (outbound(w, conn)) {
        p->out = (message_t){conn, KIND_DATA, c->lengths[slot]};
        p->out_data = (const char *)c->data + slot * c->slot_bytes;
        p->out_bytes = sizeof p->out + (size_t)p->out.n;
        w->conn_passed[conn]++;
    } else {
        p->out = (message_t){conn, KIND_CREDIT, n};
        p->out_bytes = sizeof p->out;
        w->conn_passed[conn] += n;
    }
    p->out_done = 0;
    enqueue(w, conn);
    return true;
}

static void flush(ccl_i_wire_t *w, uint32_t process) {
    peer_t *p = &w->peers[process];
    while (p->fd >= 0 && (p->out_bytes || next_message(w, p))) {
        struct iovec parts[2];
        int n = 0;
        size_t done = p->out_done, header = sizeof p->out;
        if (done < header)
            parts[n++] = (struct iovec){(char *)&p->out + done, header - done};
        if (p->out_bytes > header) {
            size_t off = done > header ? done - header : 0;
            parts[n++] = (struct iovec){(void *)(p->out_data + off), p->out_bytes - header - off};
        }
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)n};
        ssize_t sent = sendmsg(p->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (sent < 0) {
            fail(w, process);
            return;
        }
        w->idle = 0;
        p->out_done += (size_t)sent;
        if (p->out_done == p->out_bytes)
            p->out_bytes = 0;
    }
}

/* ---------------------------------------------------------------- receiving */

static bool acceptable(const ccl_i_wire_t *w, uint32_t process, const message_t *m) {
    if (m->conn >= w->plan->dev.nconns || w->conn_peer[m->conn] != process)
        return false;
    const ccl_device_conn_t *c = &w->conns[m->conn];
    uint64_t in_fifo =
        __atomic_load_n(c->head, __ATOMIC_ACQUIRE) - __atomic_load_n(c->tail, __ATOMIC_ACQUIRE);
    if (m->kind == KIND_DATA)
        return !outbound(w, m->conn) && m->n <= c->slot_bytes && in_fifo < c->slots;
    return m->kind == KIND_CREDIT && outbound(w, m->conn) && m->n <= in_fifo;
}

static void arrived(ccl_i_wire_t *w, peer_t *p) {
    const ccl_device_conn_t *c = &w->conns[p->in.conn];
    if (p->in.kind == KIND_DATA) {
        __atomic_fetch_add(c->head, 1, __ATOMIC_RELEASE);
        if (!w->looks)
            ccl_i_host_ring(w->host, c->receiver);
    } else {
        __atomic_fetch_add(c->tail, p->in.n, __ATOMIC_RELEASE);
        if (!w->looks)
            ccl_i_host_ring(w->host, c->sender);
    }
    p->in_done = 0;
}

static void take_in(ccl_i_wire_t *w, uint32_t process) {
    peer_t *p = &w->peers[process];
    for (;;) {
        char *to;
        size_t want;
        if (p->in_done < sizeof p->in) {
            to = (char *)&p->in + p->in_done;
            want = sizeof p->in - p->in_done;
        } else {
            const ccl_device_conn_t *c = &w->conns[p->in.conn];
            uint64_t slot = __atomic_load_n(c->head, __ATOMIC_RELAXED) % c->slots;
            size_t off = p->in_done - sizeof p->in;
            to = (char *)c->data + slot * c->slot_bytes + off;
            want = (size_t)p->in.n - off;
        }
        ssize_t n = recv(p->fd, to, want, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (n <= 0) {
            fail(w, process);
            return;
        }
        w->idle = 0;
        p->in_done += (size_t)n;
        if (p->in_done < sizeof p->in)
            continue;
        if (p->in_done == sizeof p->in && !acceptable(w, process, &p->in)) {
            fail(w, process);
            return;
        }
        size_t data = p->in.kind == KIND_DATA ? (size_t)p->in.n : 0;
        if (p->in_done == sizeof p->in + data)
            arrived(w, p);
    }
}

/* ---------------------------------------------------------------- the thread */

static bool look_at_connections(ccl_i_wire_t *w) {
    bool any = false;
    for (uint32_t i = 0; i < w->nwords; i++) {
        if (!__atomic_load_n(&w->dirty[i], __ATOMIC_SEQ_CST))
            continue;
        uint64_t bits = __atomic_exchange_n(&w->dirty[i], 0, __ATOMIC_ACQ_REL);
        any = any || bits;
        for (; bits; bits &= bits - 1)
            enqueue(w, i * 64 + (uint32_t)__builtin_ctzll(bits));
    }
    return any;
}

/** Devices do not ring. */
static void look_at_all(ccl_i_wire_t *w) {
    for (uint32_t c = 0; c < w->plan->dev.nconns; c++)
        if (w->conn_peer[c] != CCL_NONE)
            enqueue(w, c);
}

static bool any_dirty(const ccl_i_wire_t *w) {
    for (uint32_t i = 0; i < w->nwords; i++)
        if (__atomic_load_n(&w->dirty[i], __ATOMIC_SEQ_CST))
            return true;
    return false;
}

/** How long to sleep when nothing came: not at all while something moves, then ever longer. */
static int patience_ms(ccl_i_wire_t *w) {
    if (!w->looks)
        return any_dirty(w) ? 0 : 100;
    if (++w->idle % IDLE_LOOKS == 0)
        sched_yield();
    return w->idle < IDLE_LIMIT ? 0 : 1;
}

static void *wire_main(void *arg) {
    ccl_i_wire_t *w = arg;
    uint32_t n = w->nprocesses;
    struct pollfd *fds = w->fds;
    while (!__atomic_load_n(&w->quit, __ATOMIC_ACQUIRE)) {
        if (w->looks)
            look_at_all(w);
        else
            look_at_connections(w);
        for (uint32_t i = 0; i < n; i++) {
            flush(w, i);
            const peer_t *p = &w->peers[i];
            fds[i] = (struct pollfd){.fd = p->fd, .events = POLLIN};
            if (p->out_bytes)
                fds[i].events |= POLLOUT;
        }
        fds[n] = (struct pollfd){.fd = w->wake, .events = POLLIN};
        __atomic_store_n(&w->sleeping, 1, __ATOMIC_SEQ_CST);
        int ready = poll(fds, n + 1, patience_ms(w));
        __atomic_store_n(&w->sleeping, 0, __ATOMIC_SEQ_CST);
        if (ready <= 0)
            continue;
        if (fds[n].revents) {
            uint64_t count;
            ssize_t got = read(w->wake, &count, sizeof count);
            (void)got; /* it only woke us */
        }
        for (uint32_t i = 0; i < n; i++)
            if (w->peers[i].fd >= 0 && (fds[i].revents & (POLLIN | POLLHUP | POLLERR)))
                take_in(w, i);
    }
    return NULL;
}

/* ---------------------------------------------------------------- life */

static ccl_status_t allot(ccl_i_wire_t *w, ccl_error_t *err) {
    uint32_t nconns = w->plan->dev.nconns;
    uint64_t carried = 0, slots = w->plan->slots;
    w->nwords = (nconns + 63) / 64;
    w->conn_peer = malloc((nconns + (size_t)1) * sizeof *w->conn_peer);
    w->conn_passed = calloc(nconns + (size_t)1, sizeof *w->conn_passed);
    w->conn_queued = calloc(nconns + (size_t)1, 1);
    w->fds = calloc(w->nprocesses + (size_t)1, sizeof *w->fds);
    w->dirty = calloc(w->nwords + (size_t)1, sizeof *w->dirty);
    if (!w->conn_peer || !w->conn_passed || !w->conn_queued || !w->dirty || !w->fds)
        return ccl_fail_nomem(err);
    for (uint32_t c = 0; c < nconns; c++) {
        uint32_t from = w->host->unit_process[w->plan->conns[c].sender];
        uint32_t to = w->host->unit_process[w->plan->conns[c].receiver];
        w->conn_peer[c] = from == to              ? CCL_NONE
                          : from == w->host->self ? to
                          : to == w->host->self   ? from
                                                  : CCL_NONE;
        if (w->carried && !w->carried[c])
            w->conn_peer[c] = CCL_NONE;
        if (w->conn_peer[c] == CCL_NONE)
            continue;
        w->peers[w->conn_peer[c]].cap++;
        carried++;
    }
    w->lengths = calloc((size_t)(carried * slots + 1), sizeof *w->lengths);
    if (!w->lengths)
        return ccl_fail_nomem(err);
    carried = 0;
    for (uint32_t c = 0; c < nconns && !w->looks; c++)
        if (w->conn_peer[c] != CCL_NONE)
            w->plan->conns[c].lengths = &w->lengths[carried++ * slots];
    for (uint32_t i = 0; i < w->nprocesses; i++) {
        w->peers[i].queue = malloc((w->peers[i].cap + (size_t)1) * sizeof(uint32_t));
        if (!w->peers[i].queue)
            return ccl_fail_nomem(err);
    }
    return CCL_OK;
}

ccl_status_t ccl_i_wire_create(ccl_i_run_plan_t *plan, const ccl_i_host_t *host,
                               const ccl_i_wire_staged_t *staged, uint32_t nprocesses,
                               const int *fds, uint32_t *stop, ccl_i_wire_t **out,
                               ccl_error_t *err) {
    ccl_i_wire_t *w = calloc(1, sizeof *w);
    peer_t *peers = calloc(nprocesses, sizeof *peers);
    if (!w || !peers) {
        for (uint32_t i = 0; i < nprocesses; i++)
            if (fds[i] >= 0)
                close(fds[i]);
        free(w);
        free(peers);
        return ccl_fail_nomem(err);
    }
    w->plan = plan;
    w->host = host;
    w->conns = staged ? staged->conns : plan->conns;
    w->carried = staged ? staged->carried : NULL;
    w->looks = staged != NULL;
    w->nprocesses = nprocesses;
    w->peers = peers;
    w->stop = stop;
    w->broken = CCL_NONE;
    for (uint32_t i = 0; i < nprocesses; i++)
        peers[i].fd = fds[i];
    w->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    ccl_status_t status =
        w->wake < 0 ? ccl_fail(err, CCL_ERR_IO, "eventfd: %s", strerror(errno)) : allot(w, err);
    if (status == CCL_OK && pthread_create(&w->thread, NULL, wire_main, w))
        status = ccl_fail(err, CCL_ERR_IO, "no more threads can be had");
    w->started = status == CCL_OK;
    if (status != CCL_OK) {
        ccl_i_wire_destroy(w);
        return status;
    }
    *out = w;
    return CCL_OK;
}

void ccl_i_wire_destroy(ccl_i_wire_t *w) {
    if (!w)
        return;
    if (w->started) {
        uint64_t one = 1;
        __atomic_store_n(&w->quit, 1, __ATOMIC_RELEASE);
        ssize_t n = write(w->wake, &one, sizeof one);
        (void)n;
        pthread_join(w->thread, NULL);
    }
    if (w->wake >= 0)
        close(w->wake);
    for (uint32_t c = 0; c < w->plan->dev.nconns && !w->looks; c++)
        w->plan->conns[c].lengths = NULL;
    for (uint32_t i = 0; i < w->nprocesses; i++) {
        if (w->peers[i].fd >= 0)
            close(w->peers[i].fd);
        free(w->peers[i].queue);
    }
    free(w->peers);
    free(w->conn_peer);
    free(w->conn_passed);
    free(w->conn_queued);
    free(w->lengths);
    free(w->dirty);
    free(w->fds);
    free(w);
}
