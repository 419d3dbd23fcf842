/* Structure of a program: ranges, peers, dependencies, and which send meets which receive. */
#include "schedule/verify/verify.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool ccl_i_reads_src(ccl_primitive_t prim) {
    return prim == CCL_PRIM_S || prim == CCL_PRIM_RRS || prim == CCL_PRIM_RRC ||
           prim == CCL_PRIM_RRCS || prim == CCL_PRIM_CPY || prim == CCL_PRIM_RE;
}

bool ccl_i_writes_dst(ccl_primitive_t prim) {
    return prim == CCL_PRIM_R || prim == CCL_PRIM_RCS || prim == CCL_PRIM_RRC ||
           prim == CCL_PRIM_RRCS || prim == CCL_PRIM_CPY || prim == CCL_PRIM_RE;
}

static const char *const buffer_names[] = {"input", "output", "scratch"};

static double share_of(const ccl_program_t *p, uint32_t rank, uint8_t buffer, uint32_t elem) {
    return p->shares[3 * (size_t)rank + buffer][elem];
}

bool ccl_i_same_share(double a, double b) {
    return fabs(a - b) <= CCL_SHARE_TOLERANCE * fmax(fabs(a), fabs(b));
}

static void check_peer(const ccl_program_t *p, uint32_t t, uint32_t peer, const char *verb,
                       ccl_verdict_t *v) {
    const ccl_tb_t *tb = &p->tbs[t];
    bool member = ccl_peer_is_member(peer);
    if (peer == CCL_NONE)
        return;
    if (ccl_peer_is_group(peer)) {
        if ((peer & ~CCL_PEER_GROUP) >= p->ngroups)
            ccl_i_fault(v, "peer", tb->rank, tb->id, CCL_NONE, CCL_NONE,
                        "rank %u block %u %s group %u, but there are only %u groups", tb->rank,
                        tb->id, verb, peer & ~CCL_PEER_GROUP, p->ngroups);
        return;
    }
    peer = ccl_peer_rank(peer);
    if (peer >= p->nranks)
        ccl_i_fault(v, "peer", tb->rank, tb->id, CCL_NONE, CCL_NONE,
                    "rank %u block %u %s rank %u, but there are only %u ranks", tb->rank, tb->id,
                    verb, peer, p->nranks);
    else if (peer == tb->rank && !member)
        ccl_i_fault(v, "peer", tb->rank, tb->id, CCL_NONE, CCL_NONE, "rank %u block %u %s itself",
                    tb->rank, tb->id, verb);
}

static void check_range(const ccl_program_t *p, uint32_t t, uint32_t i, uint8_t buffer,
                        uint32_t off, ccl_verdict_t *v) {
    const ccl_tb_t *tb = &p->tbs[t];
    const ccl_step_t *s = &p->steps[tb->first_step + i];
    if (buffer > CCL_BUF_SCRATCH) {
        ccl_i_fault(v, "range", tb->rank, tb->id, i, CCL_NONE, "%s uses an unknown buffer",
                    ccl_i_place(p, t, i).text);
        return;
    }
    uint32_t len = p->buffer_len[3 * (size_t)tb->rank + buffer];
    if (off <= len && s->count <= len - off)
        return;
    ccl_i_fault(v, "range", tb->rank, tb->id, i, CCL_NONE,
                "%s (%s) uses %s elements %u to %llu of %u", ccl_i_place(p, t, i).text,
                ccl_primitive_name(s->type), buffer_names[buffer], off,
                (unsigned long long)off + s->count - 1, len);
}

static void check_dep(const ccl_program_t *p, uint32_t t, uint32_t i, ccl_verdict_t *v) {
    const ccl_tb_t *tb = &p->tbs[t];
    const ccl_step_t *s = &p->steps[tb->first_step + i];
    if (s->dep_tb == CCL_NONE)
        return;
    uint32_t ntbs = p->rank_first_tb[tb->rank + 1] - p->rank_first_tb[tb->rank];
    if (s->dep_tb >= ntbs) {
        ccl_i_fault(v, "dependency", tb->rank, tb->id, i, CCL_NONE,
                    "%s waits for block %u, but rank %u has %u blocks", ccl_i_place(p, t, i).text,
                    s->dep_tb, tb->rank, ntbs);
        return;
    }
    uint32_t on = p->rank_first_tb[tb->rank] + s->dep_tb;
    if (s->dep_step >= p->tbs[on].nsteps) {
        ccl_i_fault(v, "dependency", tb->rank, tb->id, i, CCL_NONE,
                    "%s waits for step %d of block %u, which has %u steps",
                    ccl_i_place(p, t, i).text, (int)s->dep_step, s->dep_tb, p->tbs[on].nsteps);
        return;
    }
    /* On an earlier step of its own block order is enough. */
    if (on != t && !p->steps[p->tbs[on].first_step + s->dep_step].has_dep)
        ccl_i_fault(
            v, "dependency", tb->rank, tb->id, i, CCL_NONE,
            "%s waits for block %u step %u, which does not signal that it is done (hasdep=0): "
            "it would wait for ever",
            ccl_i_place(p, t, i).text, s->dep_tb, s->dep_step);
}

/** A step whose source and destination overlap but are not the same reads what it just wrote. */
static void check_overlap(const ccl_program_t *p, uint32_t t, uint32_t i, ccl_verdict_t *v) {
    const ccl_tb_t *tb = &p->tbs[t];
    const ccl_step_t *s = &p->steps[tb->first_step + i];
    if (!ccl_i_reads_src(s->type) || !ccl_i_writes_dst(s->type))
        return;
    if (p->shares) {
        for (uint32_t e = 0; e < s->count; e++) {
            if (!ccl_i_same_share(share_of(p, tb->rank, s->src_buf, s->src_off + e),
                                  share_of(p, tb->rank, s->dst_buf, s->dst_off + e))) {
                ccl_i_fault(v, "mismatch", tb->rank, tb->id, i, CCL_NONE,
                            "%s: source element %u and destination element %u differ in size",
                            ccl_i_place(p, t, i).text, s->src_off + e, s->dst_off + e);
                return;
            }
        }
    }
    if (s->src_buf != s->dst_buf || s->src_off == s->dst_off)
        return;
    uint32_t gap = s->src_off > s->dst_off ? s->src_off - s->dst_off : s->dst_off - s->src_off;
    if (gap < s->count)
        ccl_i_fault(v, "alias", tb->rank, tb->id, i, CCL_NONE,
                    "%s (%s): source and destination overlap, %u elements apart",
                    ccl_i_place(p, t, i).text, ccl_primitive_name(s->type), gap);
}

static void check_steps(const ccl_program_t *p, ccl_verdict_t *v) {
    for (uint32_t t = 0; t < p->ntbs && v->valid; t++) {
        const ccl_tb_t *tb = &p->tbs[t];
        check_peer(p, t, tb->send_peer, "sends to", v);
        check_peer(p, t, tb->recv_peer, "receives from", v);
        for (uint32_t i = 0; i < tb->nsteps && v->valid; i++) {
            const ccl_step_t *s = &p->steps[tb->first_step + i];
            ccl_peers_t peers = ccl_program_peers(p, tb, tb->first_step + i);
            bool no_send = ccl_primitive_sends(s->type) && peers.send_peer == CCL_NONE;
            bool no_recv = ccl_primitive_receives(s->type) && peers.recv_peer == CCL_NONE;
            if (p->peers) {
                check_peer(p, t, peers.send_peer, "sends to", v);
                check_peer(p, t, peers.recv_peer, "receives from", v);
            }
            if (s->type > CCL_PRIM_NOP || no_send || no_recv)
                ccl_i_fault(v, "peer", tb->rank, tb->id, i, CCL_NONE, "%s (%s) %s",
                            ccl_i_place(p, t, i).text, ccl_primitive_name(s->type),
                            no_send   ? "sends, but its block has no peer to send to"
                            : no_recv ? "receives, but its block has no peer to receive from"
                                      : "is no primitive");
            if (ccl_i_reads_src(s->type))
                check_range(p, t, i, s->src_buf, s->src_off, v);
            if (ccl_i_writes_dst(s->type))
                check_range(p, t, i, s->dst_buf, s->dst_off, v);
            check_dep(p, t, i, v);
            if (v->valid)
                check_overlap(p, t, i, v);
        }
    }
}

/** Where a step keeps what it sends, or has received, for comparing sizes. */
static void payload(const ccl_step_t *s, uint8_t *buffer_out, uint32_t *off_out) {
    bool dst = s->type == CCL_PRIM_R || s->type == CCL_PRIM_RCS;
    *buffer_out = dst ? s->dst_buf : s->src_buf;
    *off_out = dst ? s->dst_off : s->src_off;
}

static void check_sizes(const ccl_program_t *p, const ccl_i_links_t *links, uint32_t send,
                        uint32_t recv, uint32_t number, ccl_verdict_t *v) {
    const ccl_step_t *s = &p->steps[send], *r = &p->steps[recv];
    uint32_t st = links->nodes[send].tb, rt = links->nodes[recv].tb;
    uint32_t si = send - p->tbs[st].first_step, ri = recv - p->tbs[rt].first_step;
    if (s->count != r->count) {
        ccl_i_fault(v, "mismatch", p->tbs[rt].rank, p->tbs[rt].id, ri, CCL_NONE,
                    "%s receives %u elements, but message %u of its connection, sent by %s, has %u",
                    ccl_i_place(p, rt, ri).text, r->count, number, ccl_i_place(p, st, si).text,
                    s->count);
        return;
    }
    if (!p->shares)
        return;
    uint8_t sb, rb;
    uint32_t so, ro;
    payload(s, &sb, &so);
    payload(r, &rb, &ro);
    for (uint32_t e = 0; e < s->count; e++) {
        double a = share_of(p, p->tbs[st].rank, sb, so + e);
        double b = share_of(p, p->tbs[rt].rank, rb, ro + e);
        if (!ccl_i_same_share(a, b)) {
            ccl_i_fault(v, "mismatch", p->tbs[rt].rank, p->tbs[rt].id, ri, CCL_NONE,
                        "%s receives an element of share %.9g, but %s sends one of %.9g",
                        ccl_i_place(p, rt, ri).text, b, ccl_i_place(p, st, si).text, a);
            return;
        }
    }
}

/** Next step of an end of connection c, or of its hub, from *at on; CCL_NONE: none. Moves *at past
 * it. */
static uint32_t next_of(const ccl_program_t *p, const ccl_i_blocks_t *net, uint32_t c, bool sends,
                        uint32_t *at) {
    uint32_t block = sends ? net->conns[c].sender : net->conns[c].receiver;
    if (block == CCL_NONE)
        return CCL_NONE;
    const ccl_i_block_t *b = &net->blocks[block];
    uint32_t kind = net->conns[c].kind;
    if (sends ? kind == CCL_I_TAKE : kind == CCL_I_OFFER)
        c = net->conns[c].hub;
    while (*at < b->nsteps) {
        uint32_t step = ccl_i_block_step(net, b->first + (*at)++);
        ccl_primitive_t type = p->steps[step].type;
        uint32_t on = sends ? ccl_i_step_out(net, block, step) : ccl_i_step_in(net, block, step);
        if (on == c && (sends ? ccl_primitive_sends(type) : ccl_primitive_receives(type)))
            return step;
    }
    return CCL_NONE;
}

static uint32_t count_of(const ccl_program_t *p, const ccl_i_blocks_t *net, uint32_t c,
                         bool sends) {
    uint32_t at = 0, n = 0;
    while (next_of(p, net, c, sends, &at) != CCL_NONE)
        n++;
    return n;
}

/** "rank 3 block 2 step 5 sends what nobody receives: ..." */
static void fault_unmet(const ccl_program_t *p, const ccl_i_blocks_t *net,
                        const ccl_i_links_t *links, uint32_t c, uint32_t send, uint32_t recv,
                        ccl_verdict_t *v) {
    const ccl_i_verify_conn_t *conn = &net->conns[c];
    uint32_t step = send == CCL_NONE ? recv : send, t = links->nodes[step].tb;
    uint32_t i = step - p->tbs[t].first_step;
    static const char *const kinds[] = {"connection", "multicast", "reducing connection"};
    ccl_i_fault(v, "mismatch", p->tbs[t].rank, p->tbs[t].id, i, CCL_NONE,
                "%s %s: the %s from rank %u to rank %u on channel %u has %u sends and %u receives",
                ccl_i_place(p, t, i).text,
                send == CCL_NONE ? "receives what nobody sends" : "sends what nobody receives",
                kinds[conn->kind], conn->src, conn->dst, conn->channel, count_of(p, net, c, true),
                count_of(p, net, c, false));
}

static void match(const ccl_program_t *p, const ccl_i_blocks_t *net, ccl_i_links_t *links,
                  ccl_verdict_t *v) {
    for (uint32_t c = 0; c < net->nconns && v->valid; c++) {
        const ccl_i_verify_conn_t *conn = &net->conns[c];
        uint32_t at_s = 0, at_r = 0;
        if (conn->kind >= CCL_I_MULTICAST)
            continue;
        for (uint32_t number = 0; v->valid; number++) {
            uint32_t send = next_of(p, net, c, true, &at_s);
            uint32_t recv = next_of(p, net, c, false, &at_r);
            if (send == CCL_NONE && recv == CCL_NONE)
                break;
            if (send == CCL_NONE || recv == CCL_NONE) {
                fault_unmet(p, net, links, c, send, recv, v);
                break;
            }
            if (conn->kind != CCL_I_TAKE)
                links->nodes[send].next = recv;
            if (conn->kind != CCL_I_OFFER)
                links->nodes[recv].sender = send;
            check_sizes(p, links, send, recv, number, v);
        }
    }
}

/** Buffer and offset of what a step offers or takes; false: it keeps that in no buffer. */
static bool place_at_member(const ccl_step_t *s, bool offers, uint8_t *buffer, uint32_t *off) {
    bool dst = !offers || s->type != CCL_PRIM_S;
    *buffer = dst ? s->dst_buf : s->src_buf;
    *off = dst ? s->dst_off : s->src_off;
    return s->type != CCL_PRIM_RRS;
}

/** A group's memory lies at one place: what all members offer, or take, at once. */
static void check_place(const ccl_program_t *p, const ccl_i_links_t *links, bool offers,
                        uint32_t first, uint32_t step, ccl_verdict_t *v) {
    uint8_t a, b;
    uint32_t x, y, t = links->nodes[step].tb, i = step - p->tbs[t].first_step;
    bool known = place_at_member(&p->steps[first], offers, &a, &x);
    bool kept = place_at_member(&p->steps[step], offers, &b, &y);
    if (offers && !kept) {
        ccl_i_fault(v, "offer", p->tbs[t].rank, p->tbs[t].id, i, CCL_NONE,
                    "%s (%s) offers a sum that it keeps in no buffer", ccl_i_place(p, t, i).text,
                    ccl_primitive_name(p->steps[step].type));
        return;
    }
    if (!known || !kept || (a == b && x == y))
        return;
    uint32_t ft = links->nodes[first].tb;
    const char *verb = offers ? "offers" : "takes";
    ccl_i_fault(v, "offset", p->tbs[t].rank, p->tbs[t].id, i, CCL_NONE,
                "%s %s %s element %u, but %s %s %s element %u: the members of a group use one "
                "place",
                ccl_i_place(p, t, i).text, verb, buffer_names[b], y,
                ccl_i_place(p, ft, first - p->tbs[ft].first_step).text, verb, buffer_names[a], x);
}

/** The offers that every pull sums; what is at one place at all members. */
static bool match_hubs(const ccl_program_t *p, const ccl_i_blocks_t *net, ccl_i_links_t *links,
                       ccl_verdict_t *v) {
    for (uint32_t h = 0; h < net->nconns && v->valid; h++) {
        const ccl_i_verify_conn_t *hub = &net->conns[h];
        bool pulls = hub->kind == CCL_I_PULL;
        if (hub->kind < CCL_I_MULTICAST)
            continue;
        uint32_t *at = calloc(hub->n + (size_t)1, sizeof *at), at_hub = 0, step;
        if (!at)
            return false;
        while (v->valid && (step = next_of(p, net, h, !pulls, &at_hub)) != CCL_NONE) {
            uint32_t first = CCL_NONE;
            if (pulls && !ccl_grow(&links->offers, &links->offers_cap, links->noffers + hub->n,
                                   sizeof *links->offers)) {
                free(at);
                return false;
            }
            if (pulls) { /* a step may multicast as well */
                links->pull_first[step] = (uint32_t)links->noffers;
                links->pull_n[step] = hub->n;
            }
            for (uint32_t i = 0; i < hub->n && v->valid; i++) {
                uint32_t met = next_of(p, net, net->members[hub->first + i], pulls, &at[i]);
                if (first == CCL_NONE || p->steps[first].type == CCL_PRIM_RRS)
                    first = met; /* the first that keeps it in a buffer */
                check_place(p, links, pulls, first, met, v);
                if (pulls)
                    links->offers[links->noffers++] = met;
            }
        }
        free(at);
        if (pulls && v->valid)
            ccl_i_warn(v, "sums are made in a switch, in no fixed order: results may differ in "
                          "the last bits from run to run");
    }
    return true;
}

/** Members of no group. */
static void check_hubs(const ccl_program_t *p, const ccl_i_blocks_t *net, ccl_verdict_t *v) {
    for (uint32_t c = 0; c < net->nconns && v->valid; c++) {
        const ccl_i_verify_conn_t *conn = &net->conns[c];
        bool offers = conn->kind == CCL_I_OFFER;
        if ((!offers && conn->kind != CCL_I_TAKE) || conn->hub != CCL_NONE)
            continue;
        const ccl_tb_t *tb = &p->tbs[net->blocks[offers ? conn->sender : conn->receiver].tb];
        ccl_i_fault(v, "connection", tb->rank, tb->id, CCL_NONE, CCL_NONE,
                    "rank %u block %u %s rank %u on channel %u, which %s no group there that has "
                    "it",
                    tb->rank, tb->id, offers ? "offers to" : "takes the multicast of",
                    offers ? conn->dst : conn->src, conn->channel,
                    offers ? "pulls from" : "multicasts to");
    }
}

void ccl_i_fault_shared(const ccl_program_t *p, const ccl_i_links_t *links, ccl_verdict_t *v) {
    const ccl_tb_t *tb = &p->tbs[links->shared_tb];
    ccl_i_fault(v, "connection", tb->rank, tb->id, CCL_NONE, CCL_NONE,
                "%s; a connection takes one block at each end", links->shared_text);
}

void ccl_i_add_shared(const ccl_program_t *program, const ccl_i_links_t *links,
                      ccl_verdict_t *verdict) {
    if (verdict->valid) {
        ccl_i_fault_shared(program, links, verdict);
        return;
    }
    size_t len = strlen(verdict->fault.text);
    if (strcmp(verdict->fault.kind, "connection"))
        snprintf(verdict->fault.text + len, sizeof verdict->fault.text - len, " (%s)",
                 links->shared_text);
}

/** Messages on their way, per connection: a list through `next`, by step. */
typedef struct mail {
    uint32_t *first, *last; /* [nconns] */
    uint32_t *next;         /* [nsteps] */
    uint32_t *cur;          /* [nblocks] */
    uint8_t *done;          /* [nsteps] */
} mail_t;

/** Does the current step of block b if it can; matches it with its message. */
static bool step_shared(const ccl_program_t *p, const ccl_i_blocks_t *net, ccl_i_links_t *links,
                        mail_t *m, uint32_t b) {
    const ccl_i_block_t *block = &net->blocks[b];
    if (m->cur[b] == block->nsteps)
        return false;
    uint32_t step = ccl_i_block_step(net, block->first + m->cur[b]);
    ccl_primitive_t type = p->steps[step].type;
    bool receives = ccl_primitive_receives(type);
    if ((links->nodes[step].dep != CCL_NONE && !m->done[links->nodes[step].dep]) ||
        (receives && m->first[ccl_i_step_in(net, b, step)] == CCL_NONE))
        return false;
    if (receives) {
        uint32_t in = ccl_i_step_in(net, b, step), send = m->first[in];
        m->first[in] = m->next[send];
        links->nodes[step].sender = send;
        links->nodes[send].next = step;
    }
    if (ccl_primitive_sends(type)) {
        uint32_t c = ccl_i_step_out(net, b, step);
        m->next[step] = CCL_NONE;
        if (m->first[c] == CCL_NONE)
            m->first[c] = step;
        else
            m->next[m->last[c]] = step;
        m->last[c] = step;
    }
    m->done[step] = 1;
    m->cur[b]++;
    return true;
}

/** Which two blocks share an end. */
static void tell_shared(const ccl_program_t *p, const ccl_i_blocks_t *net, ccl_i_links_t *links) {
    const ccl_tb_t *a = &p->tbs[net->blocks[net->twin_a].tb];
    const ccl_tb_t *b = &p->tbs[net->blocks[net->twin_b].tb];
    const ccl_i_verify_conn_t *conn = &net->conns[net->twin_conn];
    char peer[24];
    uint32_t with = net->twin_sends ? conn->dst : conn->src;
    if (ccl_peer_is_group(with))
        snprintf(peer, sizeof peer, "group %u", with & ~CCL_PEER_GROUP);
    else
        snprintf(peer, sizeof peer, "rank %u", with);
    links->shared = true;
    links->shared_tb = net->blocks[net->twin_b].tb;
    snprintf(links->shared_text, sizeof links->shared_text,
             "rank %u: blocks %u and %u both %s %s on channel %u", a->rank, a->id, b->id,
             net->twin_sends ? "send to" : "receive from", peer, conn->channel);
}

/** Matches a program in which blocks share a connection; names the fault if that has no end. */
static ccl_status_t match_shared(const ccl_program_t *p, const ccl_i_blocks_t *net,
                                 ccl_i_links_t *links, ccl_verdict_t *v, ccl_error_t *err) {
    tell_shared(p, net, links);
    size_t nc = net->nconns + (size_t)1, ns = p->nsteps + (size_t)1;
    mail_t m = {malloc(nc * sizeof(uint32_t)), malloc(nc * sizeof(uint32_t)),
                malloc(ns * sizeof(uint32_t)), calloc(net->nblocks + (size_t)1, sizeof(uint32_t)),
                calloc(ns, 1)};
    ccl_status_t status = CCL_OK;
    if (!m.first || !m.last || !m.next || !m.cur || !m.done) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    memset(m.first, 0xff, nc * sizeof(uint32_t));
    uint32_t ndone = 0, before;
    do {
        before = ndone;
        for (uint32_t k = 0; k < net->nblocks; k++)
            while (step_shared(p, net, links, &m, k))
                ndone++;
    } while (ndone > before);
    bool matched = ndone == p->nsteps;
    for (uint32_t s = 0; s < p->nsteps && matched; s++) {
        uint32_t r = links->nodes[s].next;
        matched = !ccl_primitive_sends(p->steps[s].type) ||
                  (r != CCL_NONE && p->steps[r].count == p->steps[s].count);
    }
    if (!matched)
        ccl_i_fault_shared(p, links, v);
end:
    free(m.first);
    free(m.last);
    free(m.next);
    free(m.cur);
    free(m.done);
    return status;
}

static ccl_status_t match_with_groups(const ccl_program_t *p, const ccl_i_blocks_t *net,
                                      ccl_i_links_t *links, ccl_verdict_t *v, ccl_error_t *err) {
    if (net->twin_a != CCL_NONE) {
        tell_shared(p, net, links);
        ccl_i_fault_shared(p, links, v);
        links->shared = false; /* nothing more is asked of it */
        return CCL_OK;
    }
    check_hubs(p, net, v);
    if (v->valid)
        match(p, net, links, v);
    return match_hubs(p, net, links, v) ? CCL_OK : ccl_fail_nomem(err);
}

void ccl_i_links_fini(ccl_i_links_t *links) {
    free(links->nodes);
    free(links->run);
    free(links->place);
    free(links->pull_first);
    free(links->pull_n);
    free(links->offers);
    memset(links, 0, sizeof *links);
}

/** Where steps are run, at stage level. */
static bool find_places(const ccl_i_blocks_t *net, size_t bytes, uint32_t nsteps,
                        ccl_i_links_t *links) {
    links->run = malloc(bytes);
    links->place = malloc(bytes);
    if (!links->run || !links->place)
        return false;
    for (uint32_t i = 0; i < nsteps; i++) {
        links->run[i] = net->order[i];
        links->place[net->order[i]] = i;
    }
    return true;
}

ccl_status_t ccl_i_links_init(const ccl_program_t *program, ccl_granularity_t granularity,
                              ccl_i_links_t *out, ccl_verdict_t *verdict, ccl_error_t *err) {
    const ccl_program_t *p = program;
    memset(out, 0, sizeof *out);
    check_steps(p, verdict);
    if (!verdict->valid)
        return CCL_OK;
    size_t bytes = (p->nsteps ? p->nsteps : 1) * sizeof(uint32_t);
    out->nodes = aligned_alloc(64, ((size_t)p->nsteps / 2 + 1) * 64); /* two to a cache line */
    ccl_memory_large(out->nodes, (size_t)p->nsteps * sizeof *out->nodes);
    if (p->ngroups > 0) {
        out->pull_first = malloc(bytes);
        out->pull_n = calloc(1, bytes);
    }
    ccl_i_blocks_t net;
    memset(&net, 0, sizeof net);
    if (!out->nodes || (p->ngroups > 0 && (!out->pull_first || !out->pull_n))) {
        ccl_i_links_fini(out);
        return ccl_fail_nomem(err);
    }
    for (uint32_t t = 0; t < p->ntbs; t++) {
        const ccl_tb_t *tb = &p->tbs[t];
        for (uint32_t s = tb->first_step; s < tb->first_step + tb->nsteps; s++) {
            memset(&out->nodes[s], 0xff, sizeof out->nodes[s]);
            out->nodes[s].tb = t;
            out->nodes[s].dep = ccl_i_dep(p, tb, &p->steps[s]);
        }
    }
    ccl_status_t status = ccl_i_blocks_init(p, granularity, &net, err);
    if (status != CCL_OK) {
        ccl_i_links_fini(out);
        return status;
    }
    if (granularity == CCL_GRANULARITY_STAGE && !find_places(&net, bytes, p->nsteps, out)) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    if (p->ngroups > 0)
        status = match_with_groups(p, &net, out, verdict, err);
    else if (net.twin_a != CCL_NONE)
        status = match_shared(p, &net, out, verdict, err);
    else
        match(p, &net, out, verdict);
end:
    ccl_i_blocks_fini(&net);
    if (status != CCL_OK)
        ccl_i_links_fini(out);
    return status;
}
