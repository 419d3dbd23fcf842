/**
 * @file group.c
 * Messages between the processes of a job. All go to or from process 0, which passes on what all
 * must know. A closed socket is a process that is gone; process 0 then informs all others.
 */
#define _GNU_SOURCE
#include "runtime/wire/group.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MESSAGE_DATA = 0x63636c01, MESSAGE_PROGRESS, MESSAGE_STOP, MESSAGE_ABORT };
#define TELL_EVERY_S 0.2
#define GRACE_S 5.0
#define PATIENCE_S 30.0

typedef struct header {
    uint32_t type, seq;
    uint64_t len;
} header_t;

ccl_status_t ccl_i_group_alone(ccl_i_group_t *out, ccl_error_t *err) {
    static const int none[1] = {-1};
    return ccl_i_group_join(0, 1, none, out, err);
}

ccl_status_t ccl_i_group_join(uint32_t rank, uint32_t world, const int *fds, ccl_i_group_t *out,
                              ccl_error_t *err) {
    ccl_i_group_t g = {
        .rank = rank, .world = world, .patience_s = PATIENCE_S, .together_s = ccl_now_s()};
    g.peers = calloc(world, sizeof *g.peers);
    if (!g.peers)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < world; i++)
        g.peers[i].fd = -1;
    if (rank == 0)
        for (uint32_t i = 1; i < world; i++)
            g.peers[i].fd = fds[i];
    else
        g.peers[0].fd = fds[0];
    *out = g;
    return CCL_OK;
}

void ccl_i_group_fini(ccl_i_group_t *group) {
    for (uint32_t i = 0; group->peers && i < group->world; i++) {
        if (group->peers[i].fd >= 0)
            close(group->peers[i].fd);
        free(group->peers[i].in);
    }
    free(group->peers);
    memset(group, 0, sizeof *group);
}

/* ---------------------------------------------------------------- sending */

static bool send_all(int fd, const void *data, size_t len) {
    const char *p = data;
    double limit_s = ccl_now_s() + 2 * GRACE_S;
    while (len > 0) {
        ssize_t n = send(fd, p, len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) {
            p += n;
            len -= (size_t)n;
        } else if (n < 0 && errno == EINTR) {
            continue;
        } else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) && ccl_now_s() < limit_s) {
            struct pollfd room = {.fd = fd, .events = POLLOUT};
            poll(&room, 1, 100);
        } else {
            return false;
        }
    }
    return true;
}

static bool send_message(ccl_i_group_t *g, uint32_t peer, uint32_t type, const void *data,
                         size_t len) {
    header_t h = {type, g->seq, len};
    int fd = g->peers[peer].fd;
    return fd >= 0 && send_all(fd, &h, sizeof h) && (len == 0 || send_all(fd, data, len));
}

static ccl_status_t give_up(ccl_i_group_t *g, uint32_t peer, const char *why,
                            const ccl_i_watch_t *watch, ccl_error_t *err) {
    ccl_error_t own = CCL_ERROR_INIT;
    if (watch)
        __atomic_store_n(watch->stop, 1, __ATOMIC_RELEASE);
    if (g->peers[peer].fd >= 0)
        close(g->peers[peer].fd);
    g->peers[peer].fd = -1;
    ccl_fail(&own, CCL_ERR_IO, "process %u of %u %s", peer, g->world, why);
    if (g->rank == 0)
        for (uint32_t i = 1; i < g->world; i++)
            if (g->peers[i].fd >= 0)
                send_message(g, i, MESSAGE_ABORT, &own, sizeof own);
    return ccl_fail(err, CCL_ERR_IO, "%s", own.text);
}

static ccl_status_t gone(ccl_i_group_t *g, uint32_t peer, const ccl_i_watch_t *watch,
                         ccl_error_t *err) {
    return give_up(g, peer, "ended before the run was over", watch, err);
}

/* ---------------------------------------------------------------- receiving */

/** Take what has arrived into the buffer; false when the other end is closed. */
static bool take_in(ccl_i_peer_t *p) {
    for (;;) {
        if (!ccl_grow(&p->in, &p->cap, p->len + 4096, 1))
            return false;
        ssize_t n = recv(p->fd, p->in + p->len, p->cap - p->len, MSG_DONTWAIT);
        if (n > 0) {
            p->len += (size_t)n;
            continue;
        }
        if (n < 0 && errno == EINTR)
            continue;
        return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    }
}

/** A whole message at the head of the buffer? */
static bool whole(const ccl_i_peer_t *p, header_t *h) {
    if (p->len < sizeof *h)
        return false;
    memcpy(h, p->in, sizeof *h);
    return p->len - sizeof *h >= h->len;
}

static void drop(ccl_i_peer_t *p, const header_t *h) {
    size_t n = sizeof *h + (size_t)h->len;
    memmove(p->in, p->in + n, p->len - n);
    p->len -= n;
}

static ccl_status_t handle(ccl_i_group_t *g, uint32_t peer, const ccl_i_watch_t *watch,
                           ccl_error_t *err) {
    ccl_i_peer_t *p = &g->peers[peer];
    header_t h;
    while (!p->answered && whole(p, &h)) {
        ccl_error_t told;
        switch (h.type) {
        case MESSAGE_DATA:
            p->answered = true; /* stays at the head until the exchange takes it */
            return CCL_OK;
        case MESSAGE_PROGRESS:
            g->moved_s = ccl_now_s();
            break;
        case MESSAGE_STOP:
            g->hung = true;
            if (watch)
                __atomic_store_n(watch->stop, 1, __ATOMIC_RELEASE);
            break;
        case MESSAGE_ABORT:
            if (watch)
                __atomic_store_n(watch->stop, 1, __ATOMIC_RELEASE);
            if (h.len != sizeof told)
                return ccl_fail(err, CCL_ERR_IO, "the job was given up");
            memcpy(&told, p->in + sizeof h, sizeof told);
            told.text[sizeof told.text - 1] = '\0';
            return ccl_fail(err, CCL_ERR_IO, "%s", told.text);
        default:
            return ccl_fail(err, CCL_ERR_IO, "process %u sends what is no message of a job", peer);
        }
        drop(p, &h);
    }
    return CCL_OK;
}

static ccl_status_t receive(ccl_i_group_t *g, const ccl_i_watch_t *watch, double wait_s,
                            ccl_error_t *err) {
    struct pollfd few[64], *fds = few;
    uint32_t n = 0;
    if (g->world > CCL_ARRAY_LEN(few)) {
        fds = malloc(g->world * sizeof *fds);
        if (!fds)
            return ccl_fail_nomem(err);
    }
    uint32_t last = g->rank == 0 ? g->world : 1;
    for (uint32_t i = 0; i < last; i++)
        fds[n++] = (struct pollfd){.fd = g->peers[i].fd, .events = POLLIN};
    ccl_status_t status = CCL_OK;
    if (poll(fds, n, (int)(wait_s * 1000 + 0.5)) > 0) {
        for (uint32_t i = 0; i < n && status == CCL_OK; i++) {
            if (g->peers[i].fd < 0 || !fds[i].revents)
                continue;
            bool open = take_in(&g->peers[i]);
            status = handle(g, i, watch, err);
            if (open || status != CCL_OK)
                continue;
            if (!g->peers[i].answered) {
                status = gone(g, i, watch, err);
            } else { /* it may be done; who needs it later finds out */
                close(g->peers[i].fd);
                g->peers[i].fd = -1;
            }
        }
    }
    if (fds != few)
        free(fds);
    return status;
}

/* ---------------------------------------------------------------- watching */

void ccl_i_group_watch_begin(ccl_i_group_t *group) {
    group->moved_s = group->told_s = ccl_now_s();
    group->seen = 0;
    group->hung = false;
}

static ccl_status_t look_after(ccl_i_group_t *g, const ccl_i_watch_t *watch, ccl_error_t *err) {
    double now_s = ccl_now_s();
    uint64_t progress = __atomic_load_n(watch->progress, __ATOMIC_RELAXED);
    if (progress != g->seen) {
        g->moved_s = now_s;
        if (g->rank == 0) {
            g->seen = progress;
        } else if (now_s - g->told_s > TELL_EVERY_S) {
            g->seen = progress;
            g->told_s = now_s;
            if (!send_message(g, 0, MESSAGE_PROGRESS, NULL, 0))
                return gone(g, 0, watch, err);
        }
    }
    if (g->rank != 0 || g->hung || now_s - g->moved_s < watch->limit_s)
        return CCL_OK;
    g->hung = true;
    __atomic_store_n(watch->stop, 1, __ATOMIC_RELEASE);
    for (uint32_t i = 1; i < g->world; i++)
        if (!send_message(g, i, MESSAGE_STOP, NULL, 0))
            return gone(g, i, watch, err);
    return CCL_OK;
}

ccl_status_t ccl_i_group_tick(ccl_i_group_t *group, const ccl_i_watch_t *watch, double wait_s,
                              ccl_error_t *err) {
    if (group->world > 1)
        CCL_TRY(receive(group, watch, wait_s, err));
    return look_after(group, watch, err);
}

/* ---------------------------------------------------------------- exchanges */

static ccl_status_t take_data(ccl_i_group_t *g, uint32_t peer, void *out, size_t len,
                              ccl_error_t *err) {
    ccl_i_peer_t *p = &g->peers[peer];
    header_t h;
    if (!whole(p, &h) || h.len != len || h.seq != g->seq)
        return ccl_fail(err, CCL_ERR_IO,
                        "process %u does not run the same program with the same options", peer);
    memcpy(out, p->in + sizeof h, len);
    drop(p, &h);
    p->answered = false;
    return CCL_OK;
}

/** @param limit_s  when to give up without a watch. */
static ccl_status_t await(ccl_i_group_t *g, uint32_t peer, const ccl_i_watch_t *watch,
                          double limit_s, ccl_error_t *err) {
    static const char silent[] = "does not answer";
    double hung_s = 0;
    while (!g->peers[peer].answered) {
        if (g->peers[peer].fd < 0)
            return gone(g, peer, watch, err);
        CCL_TRY(receive(g, watch, 0.1, err));
        if (g->peers[peer].answered)
            break;
        if (watch)
            CCL_TRY(look_after(g, watch, err));
        else if (ccl_now_s() > limit_s)
            return give_up(g, peer, silent, watch, err);
        if (g->rank != 0 || !g->hung)
            continue;
        hung_s = hung_s > 0 ? hung_s : ccl_now_s();
        if (ccl_now_s() - hung_s > GRACE_S)
            return give_up(g, peer, silent, watch, err);
    }
    return CCL_OK;
}

ccl_status_t ccl_i_group_exchange(ccl_i_group_t *group, const void *mine, size_t len, void *all,
                                  const ccl_i_watch_t *watch, ccl_error_t *err) {
    ccl_i_group_t *g = group;
    double now_s = ccl_now_s(), limit_s = now_s + g->patience_s + 10 * (now_s - g->together_s);
    g->seq++;
    if (g->rank != 0) {
        if (!send_message(g, 0, MESSAGE_DATA, mine, len))
            return gone(g, 0, watch, err);
        /* Process 0 waits for the others, and says so if it gives up. */
        CCL_TRY(await(g, 0, watch, limit_s + g->patience_s + GRACE_S, err));
        CCL_TRY(take_data(g, 0, all, len * g->world, err));
        g->together_s = ccl_now_s();
        return handle(g, 0, watch, err);
    }
    if (len)
        memcpy(all, mine, len);
    for (uint32_t i = 1; i < g->world; i++) {
        CCL_TRY(await(g, i, watch, limit_s, err));
        CCL_TRY(take_data(g, i, (char *)all + i * len, len, err));
    }
    for (uint32_t i = 1; i < g->world; i++)
        if (!send_message(g, i, MESSAGE_DATA, all, len * g->world))
            return gone(g, i, watch, err);
    g->together_s = ccl_now_s();
    return CCL_OK;
}

typedef struct opinion {
    ccl_status_t status;
    ccl_error_t error;
} opinion_t;

ccl_status_t ccl_i_group_agree(ccl_i_group_t *group, ccl_status_t status, ccl_error_t *err) {
    if (group->world == 1)
        return status;
    opinion_t mine = {.status = status}, *all = malloc(group->world * sizeof *all);
    if (err && status != CCL_OK)
        mine.error = *err;
    if (!all)
        return ccl_fail_nomem(err);
    ccl_error_t later = CCL_ERROR_INIT;
    ccl_status_t agreed = ccl_i_group_exchange(group, &mine, sizeof mine, all, NULL, &later);
    if (agreed != CCL_OK) {
        ccl_fail(err, agreed, "%s", later.text);
        agreed = status != CCL_OK ? status : agreed;
    }
    for (uint32_t i = 0; i < group->world && agreed == CCL_OK; i++) {
        if (all[i].status == CCL_OK)
            continue;
        agreed = all[i].status;
        if (err)
            *err = all[i].error;
    }
    free(all);
    return agreed;
}
