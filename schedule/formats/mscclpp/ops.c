/* Operations of one block of a plan of MSCCL++, and what its executor cannot do. */
#include "schedule/formats/mscclpp/build_i.h"

#include <stdlib.h>

/** The step at hand. */
typedef struct at_step {
    const ccl_step_t *s;
    ccl_primitive_t type;
    uint32_t step, rank, in, out; /* what it receives and sends on; CCL_NONE */
    const ccl_wiring_switch_t *pull, *multi;
    const ccl_wiring_conn_t *from, *to; /* a connection that is no switch connection of its own */
    bool takes, offers;
} at_step_t;

static at_step_t look(const ccl_i_mpp_maker_t *m, uint32_t step) {
    at_step_t a = {.s = &m->p->steps[step],
                   .step = step,
                   .rank = m->p->tbs[m->tb_of[step]].rank,
                   .in = ccl_i_mpp_conn(m, step, true),
                   .out = ccl_i_mpp_conn(m, step, false)};
    a.type = (ccl_primitive_t)a.s->type;
    if (ccl_wiring_is_switch(a.in))
        a.pull = &m->wiring.switches[a.in & ~CCL_WIRING_SWITCH];
    else if (a.in != CCL_NONE)
        a.from = &m->wiring.conns[a.in];
    if (ccl_wiring_is_switch(a.out))
        a.multi = &m->wiring.switches[a.out & ~CCL_WIRING_SWITCH];
    else if (a.out != CCL_NONE)
        a.to = &m->wiring.conns[a.out];
    a.takes = a.from && a.from->kind == CCL_WIRING_MULTICAST;
    a.offers = a.to && a.to->kind == CCL_WIRING_REDUCING;
    return a;
}

/* ---------------------------------------------------------------- what cannot be had */

/** Where the members keep what they offer to a step or take from it. */
static ccl_i_mpp_place_t members_place(const ccl_i_mpp_maker_t *m, const at_step_t *a,
                                       const ccl_wiring_switch_t *sw) {
    uint32_t k = m->number[2 * (size_t)a->step + (sw->reduces ? 1 : 0)];
    const ccl_step_t *s = &m->p->steps[ccl_i_mpp_member_step(m, m->wiring.members[sw->first], k)];
    bool src = sw->reduces && s->type == CCL_PRIM_S;
    return src ? (ccl_i_mpp_place_t){s->src_buf, s->src_off}
               : (ccl_i_mpp_place_t){s->dst_buf, s->dst_off};
}

static bool has_all(const ccl_program_t *p, uint32_t takers, uint32_t offerers, uint32_t rank) {
    const ccl_peer_group_t *g = &p->groups[offerers];
    for (uint32_t i = 0; i < g->n; i++) {
        if (g->ranks[i] != rank && !ccl_peer_group_has(&p->groups[takers], g->ranks[i]))
            return false;
    }
    return true;
}

/** What is stored to a group is stored to the GPU itself too, at the same place. */
static const char *why_not_store(const ccl_i_mpp_maker_t *m, const at_step_t *a) {
    const ccl_step_t *s = a->s;
    ccl_i_mpp_place_t there = members_place(m, a, a->multi);
    bool own = ccl_peer_group_has(&m->p->groups[a->multi->group], a->rank);
    ccl_i_mpp_place_t held = {s->dst_buf, s->dst_off};
    if (a->type == CCL_PRIM_S)
        held = (ccl_i_mpp_place_t){s->src_buf, s->src_off};
    bool same = a->type != CCL_PRIM_RRS && ccl_i_mpp_same(ccl_i_mpp_memory(m, a->rank, held),
                                                          ccl_i_mpp_memory(m, a->rank, there));
    if ((!own || a->pull) && !same)
        return "stores to a group whose members keep it elsewhere than the GPU itself does";
    return NULL;
}

static const char *why_not_pull(const ccl_i_mpp_maker_t *m, const at_step_t *a) {
    ccl_i_mpp_place_t src = {a->s->src_buf, a->s->src_off};
    bool own = ccl_peer_group_has(&m->p->groups[a->pull->group], a->rank);
    if (!a->multi)
        return "pulls a sum that it does not multicast in the same step; its executor has no pull "
               "alone";
    if (!has_all(m->p, a->multi->group, a->pull->group, a->rank))
        return "pulls from GPUs that it does not multicast the sum to, which do not know when it "
               "has read";
    if (own == ccl_primitive_reduces(a->type))
        return own ? "adds its own part to a sum that has it"
                   : "pulls a sum without its own part, but all GPUs of a group are summed";
    if (!own && !ccl_i_mpp_same(ccl_i_mpp_memory(m, a->rank, src),
                                ccl_i_mpp_memory(m, a->rank, members_place(m, a, a->pull))))
        return "adds a part that lies elsewhere than those it pulls";
    return NULL;
}

static ccl_status_t check_step(const ccl_i_mpp_maker_t *m, const at_step_t *a, ccl_error_t *err) {
    const ccl_tb_t *tb = &m->p->tbs[m->tb_of[a->step]];
    const char *why = NULL;
    if (a->pull)
        why = why_not_pull(m, a);
    if (!why && a->multi)
        why = why_not_store(m, a);
    if (!why && a->takes && ccl_primitive_reduces(a->type))
        why = "adds what it takes from a multicast, which is stored where it stays";
    bool far = (a->takes && m->type[a->in] == CCL_I_MPP_PORT) ||
               (a->offers && m->type[a->out] == CCL_I_MPP_PORT);
    if (!why && far)
        why = "goes through switches between servers; its switch channels join GPUs of one";
    if (why)
        return ccl_fail(err, CCL_UNSUPPORTED,
                        "a plan of MSCCL++ cannot have what rank %u block %u "
                        "step %u does: it %s",
                        a->rank, tb->id, a->step - tb->first_step, why);
    return CCL_OK;
}

/* ---------------------------------------------------------------- waits and signals */

/** One operation for up to eight channels, or sixteen semaphores. */
static void with_ids(ccl_i_mpp_maker_t *m, ccl_i_mpp_kind_t kind, uint32_t type,
                     const uint32_t *ids, uint32_t n) {
    uint32_t most = kind == CCL_I_MPP_ACQUIRE || kind == CCL_I_MPP_RELEASE ? CCL_I_MPP_OP_SEMAPHORES
                                                                           : CCL_I_MPP_OP_CHANNELS;
    for (uint32_t i = 0; i < n; i += most)
        ccl_i_mpp_add(m->plan, (ccl_i_mpp_op_t){.kind = (uint8_t)kind, .type = (uint8_t)type},
                      ids + i, n - i < most ? n - i : most);
}

static void on_channel(ccl_i_mpp_maker_t *m, ccl_i_mpp_kind_t kind, uint32_t conn, bool dst) {
    with_ids(m, kind, m->type[conn], &m->end[2 * (size_t)conn + dst], 1);
}

/** With all members of a switch connection but the GPU itself. */
static void on_members(ccl_i_mpp_maker_t *m, ccl_i_mpp_kind_t kind, const ccl_wiring_switch_t *sw) {
    uint32_t n = 0, members = m->p->groups[sw->group].n;
    for (uint32_t i = 0; i < members; i++) {
        uint32_t c = m->wiring.members[sw->first + i];
        if (m->wiring.conns[c].src != m->wiring.conns[c].dst)
            m->scratch[n++] = m->end[2 * (size_t)c + sw->reduces];
    }
    with_ids(m, kind, CCL_I_MPP_MEMORY, m->scratch, n);
}

/** Semaphores that a step acquires: of a GPU's own multicast that it takes, or all others. */
static void acquire(ccl_i_mpp_maker_t *m, const at_step_t *a, bool stored) {
    uint32_t n = 0;
    for (uint32_t i = m->acquire_first[a->step]; i < m->acquire_first[a->step + 1]; i++) {
        const ccl_i_mpp_edge_t *e = &m->edges[m->acquires[i]];
        if ((a->takes && e->from == m->own_from[a->step]) == stored)
            m->scratch[n++] = e->semaphore;
        if (n == CCL_I_MPP_OP_SEMAPHORES) {
            with_ids(m, CCL_I_MPP_ACQUIRE, 0, m->scratch, n);
            n = 0;
        }
    }
    with_ids(m, CCL_I_MPP_ACQUIRE, 0, m->scratch, n);
}

static void release(ccl_i_mpp_maker_t *m, const at_step_t *a, uint8_t when) {
    for (uint32_t i = m->release_first[a->step]; i < m->release_first[a->step + 1];) {
        uint32_t n = 0;
        for (; i < m->release_first[a->step + 1] && n < CCL_I_MPP_OP_SEMAPHORES; i++) {
            if (m->edges[i].when == when)
                m->scratch[n++] = m->edges[i].semaphore;
        }
        with_ids(m, CCL_I_MPP_RELEASE, 0, m->scratch, n);
    }
}

/* ---------------------------------------------------------------- data */

/** The GPU's switch channel for a group and the GPU itself; all of them have it. */
static uint32_t switch_channel(ccl_i_mpp_maker_t *m, const at_step_t *a,
                               const ccl_wiring_switch_t *sw, uint32_t buffer) {
    const ccl_peer_group_t *g = &m->p->groups[sw->group];
    uint32_t n = 0, own = 0;
    bool in = false;
    for (uint32_t i = 0; i < g->n; i++) {
        if (!in && g->ranks[i] >= a->rank) {
            m->scratch[n++] = a->rank;
            in = true;
        }
        if (g->ranks[i] != a->rank)
            m->scratch[n++] = g->ranks[i];
    }
    if (!in)
        m->scratch[n++] = a->rank;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = ccl_i_mpp_switch(m->plan, m->scratch[i], buffer, m->scratch, n);
        own = m->scratch[i] == a->rank ? at : own;
    }
    return own;
}

static void move(ccl_i_mpp_maker_t *m, ccl_i_mpp_kind_t kind, const at_step_t *at,
                 ccl_i_mpp_place_t a, ccl_i_mpp_place_t b, ccl_i_mpp_place_t dst) {
    ccl_i_mpp_add(
        m->plan,
        (ccl_i_mpp_op_t){.kind = (uint8_t)kind, .a = a, .b = b, .dst = dst, .count = at->s->count},
        NULL, 0);
}

/** Through a switch, to all members and the GPU itself. */
static void store(ccl_i_mpp_maker_t *m, const at_step_t *a, ccl_i_mpp_place_t held) {
    ccl_i_mpp_op_t op = {.kind = CCL_I_MPP_STORE, .a = held, .count = a->s->count};
    op.dst = members_place(m, a, a->multi);
    if (a->pull) {
        op.kind = CCL_I_MPP_PULL_STORE;
        op.a = members_place(m, a, a->pull);
        op.from = switch_channel(m, a, a->pull, op.a.buffer);
    }
    op.to = switch_channel(m, a, a->multi, op.dst.buffer);
    ccl_i_mpp_add(m->plan, op, NULL, 0);
}

static void put(ccl_i_mpp_maker_t *m, const at_step_t *a, ccl_i_mpp_place_t held) {
    bool packets = m->plan->packets, port = m->type[a->out] == CCL_I_MPP_PORT;
    if (packets && port) { /* its packets are made here first */
        ccl_i_mpp_place_t pack = {CCL_BUF_SCRATCH, m->pack[a->step]};
        move(m, CCL_I_MPP_PACK, a, held, held, pack);
        held = pack;
    }
    ccl_i_mpp_op_t op = {.kind = (uint8_t)(!packets ? CCL_I_MPP_PUT
                                           : port   ? CCL_I_MPP_PASS_PACKETS
                                                    : CCL_I_MPP_PUT_PACKETS),
                         .type = m->type[a->out],
                         .peer = a->to->dst,
                         .a = held,
                         .dst = {CCL_BUF_SCRATCH, m->slot[m->receiver[a->step]]},
                         .count = a->s->count};
    ccl_i_mpp_add(m->plan, op, &m->end[2 * (size_t)a->out], 1);
}

static void data_ops(ccl_i_mpp_maker_t *m, const at_step_t *a) {
    const ccl_step_t *s = a->s;
    ccl_i_mpp_place_t src = {s->src_buf, s->src_off}, dst = {s->dst_buf, s->dst_off};
    ccl_i_mpp_place_t slot = {CCL_BUF_SCRATCH, m->slot[a->step]};
    bool slotted = a->from && !a->takes, packets = m->plan->packets;
    ccl_i_mpp_kind_t reduce = packets && slotted ? CCL_I_MPP_REDUCE_PACKETS : CCL_I_MPP_REDUCE;
    ccl_i_mpp_place_t sum = packets ? (ccl_i_mpp_place_t){CCL_BUF_SCRATCH, m->room[a->step]} : slot;
    if (a->type == CCL_PRIM_CPY)
        move(m, CCL_I_MPP_COPY, a, src, src, dst);
    else if (a->type == CCL_PRIM_RE)
        move(m, CCL_I_MPP_REDUCE, a, dst, src, dst);
    else if (slotted && a->type == CCL_PRIM_RRS)
        move(m, reduce, a, src, slot, sum);
    else if (slotted && ccl_primitive_reduces(a->type))
        move(m, reduce, a, src, slot, dst);
    else if (slotted)
        move(m, packets ? CCL_I_MPP_UNPACK : CCL_I_MPP_COPY, a, slot, slot, dst);
    ccl_i_mpp_place_t held = a->type == CCL_PRIM_S ? src : a->type == CCL_PRIM_RRS ? sum : dst;
    if (a->multi)
        store(m, a, held);
    else if (a->to && !a->offers)
        put(m, a, held);
}

static ccl_status_t step_ops(ccl_i_mpp_maker_t *m, uint32_t step, ccl_error_t *err) {
    at_step_t a = look(m, step);
    bool self_in = a.from && a.from->src == a.from->dst, packets = m->plan->packets;
    CCL_TRY(check_step(m, &a, err));
    acquire(m, &a, false);
    if (a.takes && !self_in)
        on_channel(m, CCL_I_MPP_SIGNAL, a.in, true); /* ready to be stored to */
    release(m, &a, CCL_I_EDGE_READY);
    acquire(m, &a, true);
    if (a.multi)
        on_members(m, CCL_I_MPP_WAIT, a.multi);
    if (a.pull)
        on_members(m, CCL_I_MPP_WAIT, a.pull);
    else if (a.from && !self_in && !packets)
        on_channel(m, CCL_I_MPP_WAIT, a.in, true);
    data_ops(m, &a);
    if (a.multi)
        on_members(m, CCL_I_MPP_SIGNAL, a.multi);
    else if (a.to && a.to->src != a.to->dst && !packets)
        on_channel(m, CCL_I_MPP_SIGNAL, a.out, false);
    if (a.to && m->type[a.out] == CCL_I_MPP_PORT && m->rewritten[step] && !packets)
        on_channel(m, CCL_I_MPP_FLUSH, a.out, false);
    release(m, &a, CCL_I_EDGE_DONE);
    return CCL_OK;
}

/** An operation for the plain connections of a block and one type, each once. */
static void on_plain(ccl_i_mpp_maker_t *m, const ccl_tb_t *tb, ccl_i_mpp_kind_t kind,
                     uint32_t types, bool receiving) {
    for (uint32_t type = 0; type < CCL_I_MPP_NTYPES; type++) {
        uint32_t n = 0;
        if (!(types >> type & 1))
            continue;
        for (uint32_t s = tb->first_step; s < tb->first_step + tb->nsteps; s++) {
            uint32_t c = ccl_i_mpp_conn(m, s, receiving);
            if (c == CCL_NONE || ccl_wiring_is_switch(c) || m->type[c] != type ||
                m->wiring.conns[c].kind != CCL_WIRING_PLAIN)
                continue;
            uint32_t id = m->end[2 * (size_t)c + receiving];
            bool known = false;
            for (uint32_t i = 0; i < n && !known; i++)
                known = m->scratch[i] == id;
            if (!known)
                m->scratch[n++] = id;
        }
        with_ids(m, kind, type, m->scratch, n);
    }
}

ccl_status_t ccl_i_mpp_make_block(ccl_i_mpp_maker_t *m, uint32_t tb, ccl_error_t *err) {
    const ccl_tb_t *b = &m->p->tbs[tb];
    const uint32_t all = 1u << CCL_I_MPP_MEMORY | 1u << CCL_I_MPP_PORT;
    ccl_i_mpp_block(m->plan, b->rank);
    if (!m->plan->packets) { /* receivers say that they have begun, senders wait for that */
        on_plain(m, b, CCL_I_MPP_SIGNAL, all, true);
        on_plain(m, b, CCL_I_MPP_WAIT, all, false);
    }
    for (uint32_t s = b->first_step; s < b->first_step + b->nsteps && !m->plan->nomem; s++)
        CCL_TRY(step_ops(m, s, err));
    if (!m->plan->packets) /* what ports still read must not be written when the kernel has ended */
        on_plain(m, b, CCL_I_MPP_FLUSH, 1u << CCL_I_MPP_PORT, false);
    return CCL_OK;
}
