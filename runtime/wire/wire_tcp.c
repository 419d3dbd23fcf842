/**
 * @file wire_tcp.c
 * Slices over TCP. One socket per pair of processes carries all their connections; a slice is sent
 * when the receiver's FIFO has room for it (the sender's tail moves when the receiver's credit
 * comes), so a reader never has to wait and the socket never stands still for one connection.
 */
#define _GNU_SOURCE
#include "runtime/wire/wire_i.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { KIND_DATA = 1, KIND_CREDIT = 2 };

typedef struct message {
    uint32_t conn, kind;
    uint64_t n; /* bytes that follow; or credits */
} message_t;

/** One per peer. */
typedef struct stream {
    message_t out;
    const char *out_data;
    size_t out_done, out_bytes; /* of header and data; out_bytes 0: nothing on the way */
    message_t in;
    size_t in_done;
} stream_t;

static stream_t *stream_of(const ccl_i_wire_t *w, uint32_t process) {
    return (stream_t *)w->state + process;
}

/* ---------------------------------------------------------------- sending */

static bool next_message(ccl_i_wire_t *w, uint32_t process) {
    stream_t *s = stream_of(w, process);
    uint32_t conn = ccl_i_wire_next(w, &w->peers[process]);
    if (conn == CCL_NONE)
        return false;
    const ccl_device_conn_t *c = &w->conns[conn];
    uint64_t n = ccl_i_wire_waiting(w, conn), slot = w->conn_passed[conn] % c->slots;
    if (ccl_i_wire_outbound(w, conn)) {
        s->out = (message_t){conn, KIND_DATA, c->lengths[slot]};
        s->out_data = (const char *)c->data + slot * c->slot_bytes;
        s->out_bytes = sizeof s->out + (size_t)s->out.n;
        w->conn_passed[conn]++;
    } else {
        s->out = (message_t){conn, KIND_CREDIT, n};
        s->out_bytes = sizeof s->out;
        w->conn_passed[conn] += n;
    }
    s->out_done = 0;
    ccl_i_wire_enqueue(w, conn);
    return true;
}

static bool flush(ccl_i_wire_t *w, uint32_t process) {
    ccl_i_wire_peer_t *p = &w->peers[process];
    stream_t *s = stream_of(w, process);
    while (p->fd >= 0 && (s->out_bytes || next_message(w, process))) {
        struct iovec parts[2];
        int n = 0;
        size_t done = s->out_done, header = sizeof s->out;
        if (done < header)
            parts[n++] = (struct iovec){(char *)&s->out + done, header - done};
        if (s->out_bytes > header) {
            size_t off = done > header ? done - header : 0;
            parts[n++] = (struct iovec){(void *)(s->out_data + off), s->out_bytes - header - off};
        }
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)n};
        ssize_t sent = sendmsg(p->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return true;
        if (sent < 0) {
            ccl_i_wire_fail(w, process, NULL);
            return false;
        }
        w->idle = 0;
        s->out_done += (size_t)sent;
        if (s->out_done == s->out_bytes)
            s->out_bytes = 0;
    }
    return false;
}

/* ---------------------------------------------------------------- receiving */

static bool acceptable(const ccl_i_wire_t *w, uint32_t process, const message_t *m) {
    return (m->kind == KIND_DATA || m->kind == KIND_CREDIT) &&
           ccl_i_wire_acceptable(w, process, m->conn, m->kind == KIND_DATA, m->n);
}

static void take_in(ccl_i_wire_t *w, uint32_t process) {
    stream_t *s = stream_of(w, process);
    for (;;) {
        char *to;
        size_t want;
        if (s->in_done < sizeof s->in) {
            to = (char *)&s->in + s->in_done;
            want = sizeof s->in - s->in_done;
        } else {
            const ccl_device_conn_t *c = &w->conns[s->in.conn];
            uint64_t slot = __atomic_load_n(c->head, __ATOMIC_RELAXED) % c->slots;
            size_t off = s->in_done - sizeof s->in;
            to = (char *)c->data + slot * c->slot_bytes + off;
            want = (size_t)s->in.n - off;
        }
        ssize_t n = recv(w->peers[process].fd, to, want, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (n <= 0) {
            ccl_i_wire_fail(w, process, NULL);
            return;
        }
        w->idle = 0;
        s->in_done += (size_t)n;
        if (s->in_done < sizeof s->in)
            continue;
        if (s->in_done == sizeof s->in && !acceptable(w, process, &s->in)) {
            ccl_i_wire_fail(w, process, NULL);
            return;
        }
        bool data = s->in.kind == KIND_DATA;
        if (s->in_done == sizeof s->in + (data ? (size_t)s->in.n : 0)) {
            ccl_i_wire_arrived(w, s->in.conn, data ? 1 : s->in.n);
            s->in_done = 0;
        }
    }
}

/* ---------------------------------------------------------------- life */

static ccl_status_t open_streams(ccl_i_wire_t *w, ccl_error_t *err) {
    w->state = calloc(w->nprocesses, sizeof(stream_t));
    return w->state ? CCL_OK : ccl_fail_nomem(err);
}

static void close_streams(ccl_i_wire_t *w) {
    free(w->state);
}

const ccl_i_wire_carrier_t ccl_i_wire_tcp = {.name = "tcp",
                                             .open = open_streams,
                                             .flush = flush,
                                             .take_in = take_in,
                                             .close = close_streams};
