/**
 * @file wire_verbs.c
 * Slices by RDMA: one reliable connection (RC) per pair of processes. The sender writes a slice
 * from its FIFO straight into the same place of the receiver's, and the write's immediate number
 * says which connection it was; credits are writes of nothing. The sockets stay, to see a process
 * die.
 *
 * @par Source  NCCL's net_ib does the same with writes and immediates; the InfiniBand
 *              specification 1.4, 9.7.5.1 (writes of a QP are done in order, the immediate last).
 */
#include "runtime/wire/wire_verbs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

/* Requests: the process, what it was, the connection. */
enum { KIND_SHIFT = 32, PROCESS_SHIFT = 40 };
enum { SENT_DATA, SENT_CREDIT, RECEIVED };
/* Most requests at a QP. Receives that are not posted in time are asked again (RNR). */
enum { SEND_DEPTH = 256, RECV_DEPTH = 1024, POLL_BATCH = 32 };
/* 4.096 us 2^14 = 67 ms without an answer, seven times; 0.64 ms until a receiver is asked again,
   for ever: it is only slow, who is dead closes its socket. */
enum { ACK_TIMEOUT = 14, RETRIES = 7, RNR_FOR_EVER = 7, RNR_TIMER = 12 };

typedef ccl_i_rdma_link_t link_t;
typedef ccl_i_rdma_card_t card_t;
typedef ccl_i_rdma_t rdma_t;

static ccl_status_t verbs_fail(const rdma_t *s, const char *what, ccl_error_t *err) {
    return ccl_fail(err, CCL_ERR_IO, "RDMA device %s: %s: %s", s->verbs->name, what,
                    strerror(errno));
}

static const char *state_name(struct ibv_qp *qp) {
    static const char *const names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
    struct ibv_qp_attr attr = {0};
    struct ibv_qp_init_attr init;
    if (ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) ||
        (unsigned)attr.qp_state >= CCL_ARRAY_LEN(names))
        return "UNKNOWN";
    return names[attr.qp_state];
}

static void broke(ccl_i_wire_t *w, uint32_t process, const char *what, const char *why) {
    const rdma_t *s = w->state;
    char text[sizeof w->why];
    snprintf(text, sizeof text, "RDMA device %s: %s process %u: %s; its QP is in state %s",
             s->verbs->name, what, process, why, state_name(s->links[process].qp));
    ccl_i_wire_fail(w, process, text);
}

/* ---------------------------------------------------------------- sending */

static uint64_t request(uint32_t process, uint32_t kind, uint32_t conn) {
    return (uint64_t)process << PROCESS_SHIFT | (uint64_t)kind << KIND_SHIFT | conn;
}

/** Writes a slice, or nothing, with an immediate number. */
static bool post_write(ccl_i_wire_t *w, uint32_t process, uint64_t id, const struct ibv_sge *slice,
                       uint64_t to, uint32_t rkey, uint32_t immediate) {
    rdma_t *s = w->state;
    link_t *link = &s->links[process];
    struct ibv_send_wr wr = {.wr_id = id,
                             .sg_list = (struct ibv_sge *)slice,
                             .num_sge = slice ? 1 : 0,
                             .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
                             .send_flags = IBV_SEND_SIGNALED,
                             .imm_data = htonl(immediate)};
    struct ibv_send_wr *bad;
    wr.wr.rdma.remote_addr = to;
    wr.wr.rdma.rkey = rkey;
    int code = ibv_post_send(link->qp, &wr, &bad);
    if (code)
        broke(w, process, "sending to", strerror(code));
    link->inflight += !code;
    return !code;
}

static bool pass_slice(ccl_i_wire_t *w, uint32_t process, uint32_t conn) {
    rdma_t *s = w->state;
    const ccl_device_conn_t *c = &w->conns[conn];
    uint64_t at = w->conn_passed[conn] % c->slots * c->slot_bytes;
    uint64_t n = c->lengths[w->conn_passed[conn] % c->slots];
    struct ibv_sge slice = {(uintptr_t)c->data + at, (uint32_t)n, s->local_key[conn]};
    w->conn_passed[conn]++;
    return post_write(w, process, request(process, SENT_DATA, conn), n ? &slice : NULL,
                      s->remote_at[conn] + at, s->remote_key[conn], conn);
}

static bool pass_credits(ccl_i_wire_t *w, uint32_t process, uint32_t conn) {
    const link_t *link = &((rdma_t *)w->state)->links[process];
    uint64_t n = ccl_i_wire_waiting(w, conn);
    n = n < MOST_CREDITS ? n : MOST_CREDITS;
    w->conn_passed[conn] += n;
    return post_write(w, process, request(process, SENT_CREDIT, conn), NULL, link->base, link->rkey,
                      CREDIT_BIT | (uint32_t)n << CONN_BITS | conn);
}

static bool flush(ccl_i_wire_t *w, uint32_t process) {
    rdma_t *s = w->state;
    ccl_i_wire_peer_t *p = &w->peers[process];
    while (p->fd >= 0 && s->links[process].qp && s->links[process].inflight < s->send_depth) {
        uint32_t conn = ccl_i_wire_next(w, p);
        if (conn == CCL_NONE)
            break;
        w->idle = 0;
        if (!(ccl_i_wire_outbound(w, conn) ? pass_slice(w, process, conn)
                                           : pass_credits(w, process, conn)))
            break;
        ccl_i_wire_enqueue(w, conn);
    }
    return false; /* completions wake the thread, not the socket */
}

/* ---------------------------------------------------------------- completions */

/** A slot is free when its slice has left and the receiver has given it back. */
static void settle(ccl_i_wire_t *w, uint32_t conn) {
    const rdma_t *s = w->state;
    uint64_t tail = __atomic_load_n(w->conns[conn].tail, __ATOMIC_RELAXED);
    uint64_t freed = s->written[conn] < s->credited[conn] ? s->written[conn] : s->credited[conn];
    if (freed > tail)
        ccl_i_wire_arrived(w, conn, freed - tail);
}

static bool post_receive(ccl_i_wire_t *w, uint32_t process) {
    const rdma_t *s = w->state;
    struct ibv_recv_wr wr = {.wr_id = request(process, RECEIVED, 0)}, *bad;
    int code = ibv_post_recv(s->links[process].qp, &wr, &bad);
    if (code)
        broke(w, process, "receiving from", strerror(code));
    return !code;
}

/** A slice in a device's memory is there for its kernel. */
static bool visible(const ccl_i_wire_t *w, uint32_t conn) {
    uint64_t at;
    const ccl_i_direct_t *part =
        ccl_i_wire_direct_of(&((const rdma_t *)w->state)->direct, conn, &at);
    return !part || part->ops->rdma_flush(part->device) == 0;
}

static void received(ccl_i_wire_t *w, uint32_t process, const struct ibv_wc *wc) {
    rdma_t *s = w->state;
    uint32_t immediate = ntohl(wc->imm_data), conn = immediate & CONN_MASK;
    bool data = !(immediate & CREDIT_BIT);
    uint64_t n = data ? wc->byte_len : (immediate & ~CREDIT_BIT) >> CONN_BITS;
    if (!(wc->wc_flags & IBV_WC_WITH_IMM) || !ccl_i_wire_acceptable(w, process, conn, data, n)) {
        broke(w, process, "receiving from", "it sent what it must not");
        return;
    }
    if (data && !visible(w, conn)) {
        broke(w, process, "receiving from", "its device does not see what came");
        return;
    }
    if (data) {
        ccl_i_wire_arrived(w, conn, 1);
    } else {
        s->credited[conn] += n;
        settle(w, conn);
    }
    post_receive(w, process);
}

static void completed(ccl_i_wire_t *w, const struct ibv_wc *wc) {
    rdma_t *s = w->state;
    uint32_t process = (uint32_t)(wc->wr_id >> PROCESS_SHIFT), conn = (uint32_t)wc->wr_id;
    uint32_t kind = (uint32_t)(wc->wr_id >> KIND_SHIFT) & 0xff;
    w->idle = 0;
    if (kind != RECEIVED)
        s->links[process].inflight--;
    if (w->peers[process].fd < 0)
        return; /* it broke before */
    if (wc->status != IBV_WC_SUCCESS) {
        broke(w, process, kind == RECEIVED ? "receiving from" : "sending to",
              ibv_wc_status_str(wc->status));
    } else if (kind == RECEIVED) {
        received(w, process, wc);
    } else if (kind == SENT_DATA) {
        s->written[conn]++;
        settle(w, conn);
    }
}

static void take_events(ccl_i_wire_t *w) {
    const rdma_t *s = w->state;
    struct ibv_cq *cq;
    void *context;
    while (ibv_get_cq_event(s->channel, &cq, &context) == 0)
        ibv_ack_cq_events(cq, 1);
}

/** All completions; later ones wake the thread. */
static void attend(ccl_i_wire_t *w) {
    const rdma_t *s = w->state;
    struct ibv_wc wc[POLL_BATCH];
    bool armed = false;
    if (w->fds[w->nprocesses + 1].revents)
        take_events(w);
    for (;;) {
        int n = ibv_poll_cq(s->cq, POLL_BATCH, wc);
        for (int i = 0; i < n; i++)
            completed(w, &wc[i]);
        if (n > 0)
            continue;
        if (armed || n < 0 || ibv_req_notify_cq(s->cq, 0))
            break;
        armed = true; /* what came before that makes no event */
    }
}

/** Nothing is said over the socket; it closes when the process ends. */
static void take_in(ccl_i_wire_t *w, uint32_t process) {
    char c;
    ssize_t n = recv(w->peers[process].fd, &c, 1, MSG_DONTWAIT);
    if (n >= 0 || (errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK))
        ccl_i_wire_fail(w, process, NULL);
}

/* ---------------------------------------------------------------- queue pairs */

static ccl_status_t make_qp(ccl_i_wire_t *w, uint32_t process, ccl_error_t *err) {
    rdma_t *s = w->state;
    link_t *link = &s->links[process];
    struct ibv_qp_init_attr init = {.send_cq = s->cq,
                                    .recv_cq = s->cq,
                                    .qp_type = IBV_QPT_RC,
                                    .cap = {.max_send_wr = s->send_depth,
                                            .max_recv_wr = s->recv_depth,
                                            .max_send_sge = 1,
                                            .max_recv_sge = 1}};
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                               .port_num = s->verbs->port_number,
                               .qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE};
    link->qp = ibv_create_qp(s->pd, &init);
    if (!link->qp)
        return verbs_fail(s, "no queue pair", err);
    link->psn = link->qp->qp_num & 0xffffff;
    if (ibv_modify_qp(link->qp, &attr,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
        return verbs_fail(s, "a queue pair does not get to INIT", err);
    for (uint32_t i = 0; i < s->recv_depth; i++)
        if (!post_receive(w, process))
            return ccl_fail(err, CCL_ERR_IO, "%s", w->why);
    return CCL_OK;
}

/** As many requests as device and completion queue hold. */
static ccl_status_t make_queues(ccl_i_wire_t *w, ccl_error_t *err) {
    rdma_t *s = w->state;
    uint32_t links = 0, most = (uint32_t)s->verbs->device.max_qp_wr;
    for (uint32_t i = 0; i < w->nprocesses; i++)
        links += w->peers[i].cap > 0;
    uint32_t each = (uint32_t)s->verbs->device.max_cqe / (links ? links : 1);
    most = most < each / 2 ? most : each / 2;
    s->send_depth = most < SEND_DEPTH ? most : SEND_DEPTH;
    s->recv_depth = most < RECV_DEPTH ? most : RECV_DEPTH;
    if (!s->send_depth)
        return ccl_fail(err, CCL_ERR_MISSING,
                        "RDMA device %s: its completion queues are too small for %u processes",
                        s->verbs->name, links);
    s->channel = ibv_create_comp_channel(s->verbs->context);
    if (!s->channel || fcntl(s->channel->fd, F_SETFL, O_NONBLOCK))
        return verbs_fail(s, "no completion channel", err);
    s->cq = ibv_create_cq(s->verbs->context,
                          (int)((links ? links : 1) * (s->send_depth + s->recv_depth)), NULL,
                          s->channel, 0);
    if (!s->cq)
        return verbs_fail(s, "no completion queue", err);
    w->extra_fd = s->channel->fd;
    for (uint32_t i = 0; i < w->nprocesses; i++)
        if (w->peers[i].cap > 0)
            CCL_TRY(make_qp(w, i, err));
    return CCL_OK;
}

static ccl_status_t open_rdma(ccl_i_wire_t *w, ccl_error_t *err) {
    rdma_t *s = w->state = calloc(1, sizeof *s);
    if (!s)
        return ccl_fail_nomem(err);
    s->verbs = w->how.verbs;
    s->links = calloc(w->nprocesses, sizeof *s->links);
    if (!s->links)
        return ccl_fail_nomem(err);
    s->pd = ibv_alloc_pd(s->verbs->context);
    if (!s->pd)
        return verbs_fail(s, "no protection domain", err);
    CCL_TRY(ccl_i_rdma_memory(w, err));
    return make_queues(w, err);
}

/* ---------------------------------------------------------------- connecting */

static ccl_status_t connect_qp(const rdma_t *s, const link_t *link, const card_t *peer,
                               uint32_t qpn, ccl_error_t *err) {
    const ccl_i_verbs_t *v = s->verbs;
    uint8_t mtu = (uint8_t)v->port.active_mtu;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
                               .path_mtu = (enum ibv_mtu)(mtu < peer->mtu ? mtu : peer->mtu),
                               .dest_qp_num = qpn,
                               .rq_psn = qpn & 0xffffff,
                               .max_dest_rd_atomic = 0,
                               .min_rnr_timer = RNR_TIMER};
    attr.ah_attr.dlid = peer->lid;
    attr.ah_attr.port_num = v->port_number;
    attr.ah_attr.is_global = v->ethernet;
    attr.ah_attr.grh.dgid = peer->gid;
    attr.ah_attr.grh.sgid_index = (uint8_t)v->gid_index;
    attr.ah_attr.grh.hop_limit = 64;
    if (ibv_modify_qp(link->qp, &attr,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
        return verbs_fail(s, "a queue pair does not get to RTR", err);
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
                                .timeout = ACK_TIMEOUT,
                                .retry_cnt = RETRIES,
                                .rnr_retry = RNR_FOR_EVER,
                                .sq_psn = link->psn};
    if (ibv_modify_qp(link->qp, &attr,
                      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                          IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
        return verbs_fail(s, "a queue pair does not get to RTS", err);
    return CCL_OK;
}

static void write_card(const ccl_i_wire_t *w, card_t *card, uint32_t *qpns) {
    const rdma_t *s = w->state;
    *card = (card_t){.base = (uintptr_t)s->memory,
                     .rkey = s->mr->rkey,
                     .lid = s->verbs->port.lid,
                     .mtu = (uint8_t)s->verbs->port.active_mtu,
                     .ethernet = s->verbs->ethernet,
                     .staged = w->how.staged != NULL,
                     .direct = s->direct.used || s->direct.why[0] ? 1u + s->direct.path : 0,
                     .gid = s->verbs->gid};
    memcpy(card->why, s->direct.why, sizeof card->why);
    for (uint32_t k = 0; s->direct.used && k < CCL_I_MOST_PARTS; k++) {
        card->parts[k].base = (uintptr_t)s->direct.parts[k].memory;
        card->parts[k].rkey = s->direct.parts[k].key.rkey;
    }
    for (uint32_t i = 0; i < w->nprocesses; i++)
        qpns[i] = s->links[i].qp ? s->links[i].qp->qp_num : 0;
}

/** Offsets in a peer's memory of the host become addresses. */
static void host_at(const ccl_i_wire_t *w, uint32_t process) {
    const rdma_t *s = w->state;
    for (uint32_t c = 0; c < w->plan->dev.nconns; c++) {
        if (w->conn_peer[c] != process)
            continue;
        s->remote_at[c] += s->links[process].base;
        s->remote_key[c] = s->links[process].rkey;
    }
}

static ccl_status_t connect_all(ccl_i_wire_t *w, ccl_error_t *err) {
    rdma_t *s = w->state;
    size_t len = sizeof(card_t) + w->nprocesses * sizeof(uint32_t);
    len = (len + 7) / 8 * 8;
    char *mine = calloc(1, len), *all = calloc(w->nprocesses, len);
    ccl_status_t status = mine && all ? CCL_OK : ccl_fail_nomem(err);
    if (status == CCL_OK) {
        write_card(w, (card_t *)(void *)mine, (uint32_t *)(void *)(mine + sizeof(card_t)));
        status = ccl_i_group_exchange(w->how.group, mine, len, all, NULL, err);
    }
    for (uint32_t i = 0; i < w->nprocesses && status == CCL_OK; i++) {
        const card_t *peer = (const card_t *)(const void *)(all + i * len);
        const uint32_t *qpns = (const uint32_t *)(const void *)(peer + 1);
        link_t *link = &s->links[i];
        if (!link->qp)
            continue;
        link->base = peer->base;
        link->rkey = peer->rkey;
        if (peer->staged)
            ccl_i_rdma_staged_at(w, i);
        host_at(w, i);
        if (peer->direct > 1u + CCL_I_DIRECT_HOST)
            ccl_i_rdma_direct_at(w, i, peer);
        if (peer->ethernet != s->verbs->ethernet)
            status = ccl_fail(err, CCL_ERR_MISSING, "process %u has RDMA over %s, this one over %s",
                              i, peer->ethernet ? "Ethernet" : "InfiniBand",
                              s->verbs->ethernet ? "Ethernet" : "InfiniBand");
        else
            status = connect_qp(s, link, peer, qpns[w->host->self], err);
    }
    if (status == CCL_OK)
        ccl_i_rdma_report_devices(w, all, len);
    free(mine);
    free(all);
    return status;
}

static void close_rdma(ccl_i_wire_t *w) {
    rdma_t *s = w->state;
    if (!s)
        return;
    for (uint32_t i = 0; s->links && i < w->nprocesses; i++)
        if (s->links[i].qp)
            ibv_destroy_qp(s->links[i].qp);
    if (s->cq) {
        if (s->channel)
            take_events(w);
        ibv_destroy_cq(s->cq);
    }
    if (s->channel)
        ibv_destroy_comp_channel(s->channel);
    if (s->mr)
        ibv_dereg_mr(s->mr);
    ccl_i_wire_direct_fini(&s->direct);
    if (s->own_memory)
        munmap(s->memory, s->bytes);
    if (s->pd)
        ibv_dealloc_pd(s->pd);
    free(s->links);
    free(s->remote_at);
    free(s->local_key);
    free(s->remote_key);
    free(s->written);
    free(s->credited);
    free(s);
}

const ccl_i_wire_carrier_t ccl_i_wire_verbs = {.name = "verbs",
                                               .open = open_rdma,
                                               .connect = connect_all,
                                               .flush = flush,
                                               .take_in = take_in,
                                               .attend = attend,
                                               .close = close_rdma};
