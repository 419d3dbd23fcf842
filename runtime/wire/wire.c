/**
 * @file wire.c
 * Which connections have something to pass on, and the thread that does it.
 */
#include "runtime/wire/wire_i.h"

#include "runtime/wire/verbs.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Looks at devices' connections: how many per yield, and until the wire sleeps between them. */
enum { IDLE_LOOKS = 64, IDLE_LIMIT = 20000 };

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

const char *ccl_i_wire_why(const ccl_i_wire_t *wire) {
    return wire->why;
}

bool ccl_i_wire_is_rdma(const ccl_i_wire_t *wire) {
    return wire->how.verbs != NULL;
}

const char *ccl_i_wire_device_memory(const ccl_i_wire_t *wire, const char **why_out) {
    *why_out = wire->device_why;
    return wire->device_memory;
}

bool ccl_i_wire_outbound(const ccl_i_wire_t *w, uint32_t conn) {
    return w->host->unit_process[w->conns[conn].sender] == w->host->self;
}

void ccl_i_wire_fail(ccl_i_wire_t *w, uint32_t process, const char *why) {
    ccl_i_wire_peer_t *p = &w->peers[process];
    if (p->fd >= 0)
        close(p->fd);
    p->fd = -1;
    if (ccl_i_wire_broken(w) == CCL_NONE) {
        snprintf(w->why, sizeof w->why, "%s", why ? why : "");
        __atomic_store_n(&w->broken, process, __ATOMIC_RELEASE);
    }
    __atomic_store_n(w->how.stop, 1, __ATOMIC_RELEASE);
}

/* ---------------------------------------------------------------- connections */

uint64_t ccl_i_wire_waiting(const ccl_i_wire_t *w, uint32_t conn) {
    const ccl_device_conn_t *c = &w->conns[conn];
    const uint64_t *count = ccl_i_wire_outbound(w, conn) ? c->head : c->tail;
    return __atomic_load_n(count, __ATOMIC_ACQUIRE) - w->conn_passed[conn];
}

void ccl_i_wire_enqueue(ccl_i_wire_t *w, uint32_t conn) {
    ccl_i_wire_peer_t *p = &w->peers[w->conn_peer[conn]];
    if (w->conn_queued[conn] || ccl_i_wire_waiting(w, conn) == 0)
        return;
    w->conn_queued[conn] = 1;
    p->queue[(p->head + p->len++) % p->cap] = conn;
}

uint32_t ccl_i_wire_next(ccl_i_wire_t *w, ccl_i_wire_peer_t *p) {
    if (p->len == 0)
        return CCL_NONE;
    uint32_t conn = p->queue[p->head];
    p->head = (p->head + 1) % p->cap;
    p->len--;
    w->conn_queued[conn] = 0;
    return conn;
}

bool ccl_i_wire_acceptable(const ccl_i_wire_t *w, uint32_t process, uint32_t conn, bool data,
                           uint64_t n) {
    if (conn >= w->plan->dev.nconns || w->conn_peer[conn] != process ||
        ccl_i_wire_outbound(w, conn) == data)
        return false;
    const ccl_device_conn_t *c = &w->conns[conn];
    uint64_t in_fifo =
        __atomic_load_n(c->head, __ATOMIC_ACQUIRE) - __atomic_load_n(c->tail, __ATOMIC_ACQUIRE);
    return data ? n <= c->slot_bytes && in_fifo < c->slots : n <= in_fifo;
}

void ccl_i_wire_arrived(ccl_i_wire_t *w, uint32_t conn, uint64_t n) {
    const ccl_device_conn_t *c = &w->conns[conn];
    bool outbound = ccl_i_wire_outbound(w, conn);
    __atomic_fetch_add(outbound ? c->tail : c->head, n, __ATOMIC_RELEASE);
    if (!w->looks)
        ccl_i_host_ring(w->host, outbound ? c->sender : c->receiver);
}

/* ---------------------------------------------------------------- the thread */

static void look_at_connections(ccl_i_wire_t *w) {
    for (uint32_t i = 0; i < w->nwords; i++) {
        if (!__atomic_load_n(&w->dirty[i], __ATOMIC_SEQ_CST))
            continue;
        uint64_t bits = __atomic_exchange_n(&w->dirty[i], 0, __ATOMIC_ACQ_REL);
        for (; bits; bits &= bits - 1)
            ccl_i_wire_enqueue(w, i * 64 + (uint32_t)__builtin_ctzll(bits));
    }
}

/** Devices do not ring. */
static void look_at_all(ccl_i_wire_t *w) {
    for (uint32_t c = 0; c < w->plan->dev.nconns; c++)
        if (w->conn_peer[c] != CCL_NONE)
            ccl_i_wire_enqueue(w, c);
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

static void round_of(ccl_i_wire_t *w) {
    uint32_t n = w->nprocesses;
    struct pollfd *fds = w->fds;
    if (w->carrier->attend)
        w->carrier->attend(w);
    if (w->looks)
        look_at_all(w);
    else
        look_at_connections(w);
    for (uint32_t i = 0; i < n; i++) {
        bool full = w->carrier->flush(w, i);
        fds[i] = (struct pollfd){.fd = w->peers[i].fd, .events = full ? POLLIN | POLLOUT : POLLIN};
    }
    fds[n] = (struct pollfd){.fd = w->wake, .events = POLLIN};
    fds[n + 1] = (struct pollfd){.fd = w->extra_fd, .events = POLLIN};
    __atomic_store_n(&w->sleeping, 1, __ATOMIC_SEQ_CST);
    int ready = poll(fds, n + 2, patience_ms(w));
    __atomic_store_n(&w->sleeping, 0, __ATOMIC_SEQ_CST);
    if (ready <= 0)
        return;
    if (fds[n].revents) {
        uint64_t count;
        ssize_t got = read(w->wake, &count, sizeof count);
        (void)got; /* it only woke us */
    }
    for (uint32_t i = 0; i < n; i++)
        if (w->peers[i].fd >= 0 && (fds[i].revents & (POLLIN | POLLHUP | POLLERR)))
            w->carrier->take_in(w, i);
}

static void *wire_main(void *arg) {
    ccl_i_wire_t *w = arg;
    while (!__atomic_load_n(&w->quit, __ATOMIC_ACQUIRE))
        round_of(w);
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
    w->fds = calloc(w->nprocesses + (size_t)2, sizeof *w->fds);
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
        if (w->how.staged && !w->how.staged->carried[c])
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
        if (w->conn_peer[c] != CCL_NONE) {
            w->plan->conns[c].lengths = &w->lengths[carried++ * slots];
            w->plan->conns[c].counted = 1;
        }
    for (uint32_t i = 0; i < w->nprocesses; i++) {
        w->peers[i].queue = malloc((w->peers[i].cap + (size_t)1) * sizeof(uint32_t));
        if (!w->peers[i].queue)
            return ccl_fail_nomem(err);
    }
    return CCL_OK;
}

static const ccl_i_wire_carrier_t *carrier_of(const ccl_i_wire_how_t *how) {
#ifdef CCL_VERBS
    if (how->verbs)
        return &ccl_i_wire_verbs;
#endif
    (void)how;
    return &ccl_i_wire_tcp;
}

ccl_status_t ccl_i_wire_create(ccl_i_run_plan_t *plan, const ccl_i_host_t *host,
                               const ccl_i_wire_how_t *how, uint32_t nprocesses, const int *fds,
                               ccl_i_wire_t **out, ccl_error_t *err) {
    ccl_i_wire_t *w = calloc(1, sizeof *w);
    ccl_i_wire_peer_t *peers = calloc(nprocesses, sizeof *peers);
    if (!w || !peers) {
        for (uint32_t i = 0; i < nprocesses; i++)
            if (fds[i] >= 0)
                close(fds[i]);
        ccl_i_verbs_close(how->verbs);
        free(w);
        free(peers);
        return ccl_fail_nomem(err);
    }
    w->plan = plan;
    w->host = host;
    w->how = *how;
    w->carrier = carrier_of(how);
    w->conns = how->staged ? how->staged->conns : plan->conns;
    w->looks = how->staged != NULL;
    w->nprocesses = nprocesses;
    w->peers = peers;
    w->broken = CCL_NONE;
    w->extra_fd = -1;
    for (uint32_t i = 0; i < nprocesses; i++)
        peers[i].fd = fds[i];
    w->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    ccl_status_t status =
        w->wake < 0 ? ccl_fail(err, CCL_ERR_IO, "eventfd: %s", strerror(errno)) : allot(w, err);
    if (status == CCL_OK)
        status = w->carrier->open(w, err);
    if (status != CCL_OK) {
        ccl_i_wire_destroy(w);
        return status;
    }
    *out = w;
    return CCL_OK;
}

ccl_status_t ccl_i_wire_start(ccl_i_wire_t *w, ccl_error_t *err) {
    if (w->carrier->connect)
        CCL_TRY(w->carrier->connect(w, err));
    if (pthread_create(&w->thread, NULL, wire_main, w))
        return ccl_fail(err, CCL_ERR_IO, "no more threads can be had");
    w->started = true;
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
    w->carrier->close(w);
    ccl_i_verbs_close(w->how.verbs);
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
