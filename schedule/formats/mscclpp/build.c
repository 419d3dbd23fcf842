/*
 * A program as operations of MSCCL++. Plain messages are puts into the receiver's scratch, a slot
 * for every message, each with a signal; the receiver waits and copies or adds from the slot. So
 * nobody needs to know when a slot is free again but at the start, where every receiver signals to
 * its sender that it has begun. Through switches there are no slots: a pull reads what its group
 * offers where it lies, and a multicast stores where it is taken, so all signal that they are
 * ready, and who has stored signals that. Blocks of a GPU that wait for each other get a semaphore
 * each time. With the protocol LL messages are packets, which say themselves that they have come.
 */
#include "schedule/formats/mscclpp/build_i.h"

#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- who meets whom */

/** Numbers steps on their connections, and lists them by connection. */
static ccl_status_t list_steps(ccl_i_mpp_maker_t *m, ccl_error_t *err) {
    const ccl_wiring_t *w = &m->wiring;
    size_t lists = w->nconns + (size_t)w->nswitches;
    m->list_first = calloc(lists + 2, sizeof *m->list_first);
    m->list = calloc(2 * (size_t)m->p->nsteps + 1, sizeof *m->list);
    m->number = calloc(2 * (size_t)m->p->nsteps + 1, sizeof *m->number);
    if (!m->list_first || !m->list || !m->number)
        return ccl_fail_nomem(err);
    for (int fill = 0; fill < 2; fill++) {
        for (uint32_t s = 0; s < m->p->nsteps; s++) {
            for (int recv = 0; recv < 2; recv++) {
                uint32_t c = ccl_i_mpp_conn(m, s, recv == 1);
                bool hub = ccl_wiring_is_switch(c);
                if (c == CCL_NONE || (!hub && w->conns[c].kind == CCL_WIRING_PLAIN))
                    continue;
                uint32_t at = hub ? w->nconns + (c & ~CCL_WIRING_SWITCH) : c;
                if (fill) {
                    m->number[2 * (size_t)s + (size_t)recv] = m->list_first[at] - m->list_start[at];
                    m->list[m->list_first[at]] = s;
                }
                m->list_first[fill ? at : at + 1]++;
            }
        }
        if (fill)
            break;
        for (size_t i = 0; i < lists; i++)
            m->list_first[i + 1] += m->list_first[i];
        m->list_start = malloc((lists + 1) * sizeof *m->list_start);
        if (!m->list_start)
            return ccl_fail_nomem(err);
        memcpy(m->list_start, m->list_first, (lists + 1) * sizeof *m->list_start);
    }
    return CCL_OK;
}

uint32_t ccl_i_mpp_conn(const ccl_i_mpp_maker_t *m, uint32_t step, bool receiving) {
    ccl_primitive_t type = (ccl_primitive_t)m->p->steps[step].type;
    if (receiving ? !ccl_primitive_receives(type) : !ccl_primitive_sends(type))
        return CCL_NONE;
    return receiving ? ccl_wiring_recv(&m->wiring, m->tb_of[step], step)
                     : ccl_wiring_send(&m->wiring, m->tb_of[step], step);
}

uint32_t ccl_i_mpp_member_step(const ccl_i_mpp_maker_t *m, uint32_t conn, uint32_t k) {
    return m->list[m->list_start[conn] + k];
}
uint32_t ccl_i_mpp_hub_step(const ccl_i_mpp_maker_t *m, uint32_t conn, uint32_t k) {
    return m->list[m->list_start[m->wiring.nconns + m->wiring.conns[conn].in_switch] + k];
}

static bool crosses(const ccl_topology_t *topo, uint32_t a, uint32_t b) {
    return topo &&
           topo->devices[topo->rank_device[a]].server != topo->devices[topo->rank_device[b]].server;
}

/** Channels of both ends of every connection, in one order at both. */
static void find_channels(ccl_i_mpp_maker_t *m) {
    for (uint32_t c = 0; c < m->wiring.nconns; c++) {
        const ccl_wiring_conn_t *conn = &m->wiring.conns[c];
        uint32_t type = crosses(m->topo, conn->src, conn->dst) ? CCL_I_MPP_PORT : CCL_I_MPP_MEMORY;
        m->type[c] = (uint8_t)type;
        if (conn->src == conn->dst)
            continue;
        m->end[2 * (size_t)c] = ccl_i_mpp_channel(m->plan, conn->src, type, conn->dst);
        m->end[2 * (size_t)c + 1] = ccl_i_mpp_channel(m->plan, conn->dst, type, conn->src);
    }
}

static uint32_t more_scratch(ccl_i_mpp_maker_t *m, uint32_t step) {
    uint32_t *len = &m->plan->gpus[m->p->tbs[m->tb_of[step]].rank].len[CCL_BUF_SCRATCH];
    uint32_t at = *len;
    *len += m->p->steps[step].count;
    return at;
}

/**
 * A slot in the receiver's scratch for every plain message. Packets take twice the room of their
 * payload, from twice the index on: what is no packet lies before all of them.
 */
static void find_slots(ccl_i_mpp_maker_t *m) {
    const ccl_program_t *p = m->p;
    for (uint32_t s = 0; m->plan->packets && s < p->nsteps; s++) {
        if (p->steps[s].type == CCL_PRIM_RRS)
            m->room[s] = more_scratch(m, s);
    }
    for (uint32_t s = 0; s < p->nsteps; s++) {
        uint32_t in = ccl_i_mpp_conn(m, s, true), out = ccl_i_mpp_conn(m, s, false);
        if (m->sender[s] != CCL_NONE && m->wiring.conns[in].kind == CCL_WIRING_PLAIN)
            m->slot[s] = more_scratch(m, s);
        if (m->plan->packets && out != CCL_NONE && m->type[out] == CCL_I_MPP_PORT)
            m->pack[s] = more_scratch(m, s);
    }
}

/**
 * Packets need no signals, but nobody may be a launch ahead of a GPU that still reads them: with
 * two halves of scratch that holds where every GPU needs something of every other one in each
 * launch. Switches store plain data.
 */
static bool in_packets(const ccl_i_mpp_maker_t *m) {
    ccl_collective_kind_t kind = m->p->coll->kind;
    return strcmp(m->p->proto, "LL") == 0 && m->wiring.nswitches == 0 &&
           (kind == CCL_ALLREDUCE || kind == CCL_ALLGATHER || kind == CCL_REDUCESCATTER ||
            kind == CCL_ALLTOALL);
}

/* ---------------------------------------------------------------- what is written again */

/** Where a step writes for good; false: nowhere. */
static bool writes(const ccl_i_mpp_maker_t *m, uint32_t step, ccl_i_mpp_place_t *out) {
    const ccl_step_t *s = &m->p->steps[step];
    ccl_primitive_t type = (ccl_primitive_t)s->type;
    if (type == CCL_PRIM_S || type == CCL_PRIM_RRS || type == CCL_PRIM_NOP)
        return false;
    *out = ccl_i_mpp_memory(m, m->p->tbs[m->tb_of[step]].rank,
                            (ccl_i_mpp_place_t){s->dst_buf, s->dst_off});
    return true;
}

/**
 * Steps that send over a port from memory that may be written afterwards: by a later step of the
 * block, or by another block. Ports read when they get to it, so these must wait for it.
 */
static ccl_status_t find_rewritten(ccl_i_mpp_maker_t *m, ccl_error_t *err) {
    const ccl_program_t *p = m->p;
    enum { NOBODY = 0, MANY = 1 };
    m->rewritten = calloc(p->nsteps + (size_t)1, sizeof *m->rewritten);
    ccl_status_t status = m->rewritten ? CCL_OK : ccl_fail_nomem(err);
    for (uint32_t r = 0; r < p->nranks && status == CCL_OK; r++) {
        uint32_t *by[3], *last[3]; /* block + 2 that writes an element; its last step there */
        ccl_i_mpp_place_t at;
        for (int b = 0; b < 3; b++) {
            by[b] = calloc(p->buffer_len[3 * (size_t)r + (size_t)b] + (size_t)1, sizeof **by);
            last[b] = calloc(p->buffer_len[3 * (size_t)r + (size_t)b] + (size_t)1, sizeof **last);
            status = by[b] && last[b] ? status : ccl_fail_nomem(err);
        }
        for (int look = 0; look < 2 && status == CCL_OK; look++) {
            for (uint32_t t = p->rank_first_tb[r]; t < p->rank_first_tb[r + 1]; t++) {
                for (uint32_t s = p->tbs[t].first_step; s < p->tbs[t].first_step + p->tbs[t].nsteps;
                     s++) {
                    const ccl_step_t *step = &p->steps[s];
                    bool src = step->type == CCL_PRIM_S;
                    if (!look && !writes(m, s, &at))
                        continue;
                    if (look)
                        at = ccl_i_mpp_memory(
                            m, r,
                            (ccl_i_mpp_place_t){src ? step->src_buf : step->dst_buf,
                                                src ? step->src_off : step->dst_off});
                    for (uint32_t i = at.at; i < at.at + step->count; i++) {
                        uint32_t *who = &by[at.buffer][i];
                        if (look) {
                            m->rewritten[s] = m->rewritten[s] || *who == MANY ||
                                              (*who != NOBODY && *who != t + 2) ||
                                              (*who == t + 2 && last[at.buffer][i] > s);
                            continue;
                        }
                        *who = *who == NOBODY || *who == t + 2 ? t + 2 : MANY;
                        last[at.buffer][i] = s;
                    }
                }
            }
        }
        for (int b = 0; b < 3; b++) {
            free(by[b]);
            free(last[b]);
        }
    }
    return status;
}

/* ---------------------------------------------------------------- semaphores */

static void add_edge(ccl_i_mpp_maker_t *m, uint32_t from, uint32_t to, uint8_t when) {
    m->plan->nomem |= !ccl_grow(&m->edges, &m->edges_cap, m->nedges + 1, sizeof *m->edges);
    if (!m->plan->nomem)
        m->edges[m->nedges++] = (ccl_i_mpp_edge_t){
            .from = from,
            .to = to,
            .semaphore = m->plan->gpus[m->p->tbs[m->tb_of[to]].rank].nsemaphores++,
            .when = when};
}

static uint32_t step_awaited(const ccl_program_t *p, const ccl_tb_t *tb, uint32_t step) {
    const ccl_step_t *s = &p->steps[step];
    if (s->dep_tb == CCL_NONE || s->dep_step == CCL_NONE || s->dep_tb == tb->id)
        return CCL_NONE;
    return p->tbs[p->rank_first_tb[tb->rank] + s->dep_tb].first_step + s->dep_step;
}

ccl_i_mpp_place_t ccl_i_mpp_memory(const ccl_i_mpp_maker_t *m, uint32_t rank,
                                   ccl_i_mpp_place_t place) {
    ccl_buffer_t buffer = (ccl_buffer_t)place.buffer;
    if (ccl_program_element(m->p, rank, m->p->in_place, &buffer, &place.at))
        place.buffer = buffer;
    return place;
}

bool ccl_i_mpp_same(ccl_i_mpp_place_t a, ccl_i_mpp_place_t b) {
    return a.buffer == b.buffer && a.at == b.at;
}

static void own_edge(ccl_i_mpp_maker_t *m, uint32_t from, uint32_t to) {
    if (m->tb_of[from] == m->tb_of[to])
        return;
    add_edge(m, from, to, CCL_I_EDGE_DONE);
    m->own_from[to] = from;
}

/** A GPU that is a member of its own group: its blocks meet by semaphores. */
static void own_edges(ccl_i_mpp_maker_t *m, uint32_t conn) {
    const ccl_wiring_conn_t *c = &m->wiring.conns[conn];
    uint32_t n = m->list_first[conn] - m->list_start[conn];
    for (uint32_t k = 0; k < n; k++) {
        uint32_t member = ccl_i_mpp_member_step(m, conn, k), hub = ccl_i_mpp_hub_step(m, conn, k);
        if (c->kind == CCL_WIRING_REDUCING) {
            own_edge(m, member, hub);
            continue;
        }
        const ccl_step_t *s = &m->p->steps[hub];
        bool src = s->type == CCL_PRIM_S;
        ccl_i_mpp_place_t held = {src ? s->src_buf : s->dst_buf, src ? s->src_off : s->dst_off};
        ccl_i_mpp_place_t taken = {m->p->steps[member].dst_buf, m->p->steps[member].dst_off};
        own_edge(m, hub, member);
        if (!ccl_i_mpp_same(ccl_i_mpp_memory(m, c->src, held), ccl_i_mpp_memory(m, c->src, taken)))
            add_edge(m, member, hub, CCL_I_EDGE_READY); /* else what is there stays */
    }
}

/** By what releases them. */
static int by_from(const void *a, const void *b) {
    const ccl_i_mpp_edge_t *x = a, *y = b;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return x->semaphore < y->semaphore ? -1 : x->semaphore > y->semaphore;
}

/** A semaphore for every wait on another block, each acquired once. */
static ccl_status_t find_semaphores(ccl_i_mpp_maker_t *m, ccl_error_t *err) {
    const ccl_program_t *p = m->p;
    for (uint32_t c = 0; c < m->wiring.nconns; c++) {
        if (m->wiring.conns[c].kind != CCL_WIRING_PLAIN &&
            m->wiring.conns[c].src == m->wiring.conns[c].dst)
            own_edges(m, c);
    }
    for (uint32_t t = 0; t < p->ntbs; t++) {
        for (uint32_t s = p->tbs[t].first_step; s < p->tbs[t].first_step + p->tbs[t].nsteps; s++) {
            uint32_t on = step_awaited(p, &p->tbs[t], s);
            if (on != CCL_NONE && on != m->own_from[s])
                add_edge(m, on, s, CCL_I_EDGE_DONE);
        }
    }
    m->acquires = calloc(m->nedges + 1, sizeof *m->acquires);
    m->acquire_first = calloc(p->nsteps + (size_t)3, sizeof *m->acquire_first);
    m->release_first = calloc(p->nsteps + (size_t)2, sizeof *m->release_first);
    if (m->plan->nomem || !m->acquires || !m->acquire_first || !m->release_first)
        return ccl_fail_nomem(err);
    if (m->nedges > 0)
        qsort(m->edges, m->nedges, sizeof *m->edges, by_from);
    for (size_t i = 0; i < m->nedges; i++) {
        m->release_first[m->edges[i].from + 1]++;
        m->acquire_first[m->edges[i].to + 2]++;
    }
    for (uint32_t s = 0; s < p->nsteps; s++) {
        m->release_first[s + 1] += m->release_first[s];
        m->acquire_first[s + 2] += m->acquire_first[s + 1];
    }
    for (size_t i = 0; i < m->nedges; i++)
        m->acquires[m->acquire_first[m->edges[i].to + 1]++] = (uint32_t)i;
    return CCL_OK;
}

/* ---------------------------------------------------------------- all of it */

static ccl_status_t prepare(ccl_i_mpp_maker_t *m, ccl_error_t *err) {
    const ccl_program_t *p = m->p;
    bool whole = false;
    size_t ns = p->nsteps;
    m->type = calloc(m->wiring.nconns + (size_t)1, sizeof *m->type);
    m->end = calloc(2 * (size_t)m->wiring.nconns + 1, sizeof *m->end);
    m->own_from = malloc((ns + 1) * sizeof *m->own_from);
    m->scratch =
        calloc(m->wiring.nconns + (size_t)p->nranks + CCL_I_MPP_OP_SEMAPHORES, sizeof *m->scratch);
    m->sender = malloc((ns + 1) * sizeof *m->sender);
    m->receiver = malloc((ns + 1) * sizeof *m->receiver);
    m->slot = calloc(ns + 1, sizeof *m->slot);
    m->room = calloc(ns + 1, sizeof *m->room);
    m->pack = calloc(ns + 1, sizeof *m->pack);
    m->tb_of = calloc(ns + 1, sizeof *m->tb_of);
    if (!m->type || !m->end || !m->own_from || !m->scratch || !m->sender || !m->receiver ||
        !m->slot || !m->room || !m->pack || !m->tb_of)
        return ccl_fail_nomem(err);
    for (uint32_t t = 0; t < p->ntbs; t++) {
        for (uint32_t s = p->tbs[t].first_step; s < p->tbs[t].first_step + p->tbs[t].nsteps; s++)
            m->tb_of[s] = t;
    }
    memset(m->own_from, 0xff, (ns + 1) * sizeof *m->own_from); /* CCL_NONE */
    for (uint32_t i = 0; i < 3 * p->nranks; i++)
        m->plan->gpus[i / 3].len[i % 3] = p->buffer_len[i];
    CCL_TRY(ccl_wiring_match(&m->wiring, p, m->receiver, m->sender, &whole, err));
    if (!whole)
        return ccl_fail(err, CCL_ERR_INPUT,
                        "the program sends what nobody receives, or receives what nobody sends");
    m->plan->packets = in_packets(m);
    CCL_TRY(list_steps(m, err));
    find_channels(m);
    find_slots(m);
    CCL_TRY(find_rewritten(m, err));
    return find_semaphores(m, err);
}

/**
 * All scratch buffers that a group shares are of one length; with packets all, since who sends
 * takes its own half for the receiver's.
 */
static void even_scratch(ccl_i_mpp_t *plan) {
    uint32_t most = 0;
    bool shared = plan->packets;
    for (size_t r = 0; r < plan->ngpus; r++) {
        most =
            plan->gpus[r].len[CCL_BUF_SCRATCH] > most ? plan->gpus[r].len[CCL_BUF_SCRATCH] : most;
        for (uint32_t i = 0; i < plan->gpus[r].nswitches; i++)
            shared = shared || plan->gpus[r].switches[i].buffer == CCL_BUF_SCRATCH;
    }
    for (size_t r = 0; shared && r < plan->ngpus; r++)
        plan->gpus[r].len[CCL_BUF_SCRATCH] = most;
}

/** The executor divides by the chunks of input and output, also of a GPU that has none. */
static void some_chunks(const ccl_program_t *p, ccl_i_mpp_t *plan) {
    bool rooted = p->coll->kind == CCL_BROADCAST || p->coll->kind == CCL_REDUCE;
    uint32_t most = 1;
    for (uint32_t i = 0; rooted && i < 2 * p->nranks; i++)
        most = plan->gpus[i / 2].len[i % 2] > most ? plan->gpus[i / 2].len[i % 2] : most;
    for (uint32_t i = 0; i < 2 * p->nranks; i++) {
        uint32_t *len = &plan->gpus[i / 2].len[i % 2];
        *len = rooted ? most : *len ? *len : 1;
    }
}

/** Blocks that wait for each other where FIFOs would let them go on. */
static ccl_status_t check_ends(const ccl_i_mpp_t *plan, ccl_error_t *err) {
    uint32_t stuck;
    CCL_TRY(ccl_i_mpp_ends(plan, &stuck, NULL, err));
    if (stuck != CCL_NONE)
        return ccl_fail(err, CCL_UNSUPPORTED,
                        "a plan of MSCCL++ has no FIFOs for what switches multicast, and without "
                        "them rank %u block %u would wait for ever",
                        plan->blocks[stuck].rank, plan->blocks[stuck].id);
    return CCL_OK;
}

/** Blocks wait for each other, so all of a GPU must be on it at once: one on each SM. */
static ccl_status_t check_blocks(const ccl_i_mpp_maker_t *m, ccl_error_t *err) {
    for (uint32_t r = 0; m->topo && r < m->p->nranks; r++) {
        ccl_gpu_model_t gpu = ccl_model_gpu(m->topo, r);
        if (gpu.sms > 0 && m->plan->gpus[r].nblocks > gpu.sms)
            return ccl_fail(err, CCL_UNSUPPORTED,
                            "rank %u needs %u thread blocks, of 64 operations each, and MSCCL++ "
                            "has %u at once on its %s: fewer channels or chunks need less",
                            r, m->plan->gpus[r].nblocks, gpu.sms, gpu.name);
    }
    return CCL_OK;
}

ccl_status_t ccl_i_mpp_build(const ccl_program_t *program, const ccl_topology_t *topo,
                             ccl_i_mpp_t *plan, ccl_error_t *err) {
    ccl_i_mpp_maker_t m = {.p = program, .topo = topo, .plan = plan};
    CCL_TRY(ccl_i_mpp_init(plan, program->nranks, err));
    ccl_status_t status = ccl_wiring_init(program, CCL_GRANULARITY_ALGORITHM, &m.wiring, err);
    if (status == CCL_OK)
        status = prepare(&m, err);
    for (uint32_t t = 0; t < program->ntbs && status == CCL_OK; t++)
        status = ccl_i_mpp_make_block(&m, t, err);
    if (status == CCL_OK && plan->nomem)
        status = ccl_fail_nomem(err);
    if (status == CCL_OK)
        status = check_ends(plan, err);
    if (status == CCL_OK)
        status = ccl_i_mpp_spread(plan, err);
    if (status == CCL_OK)
        status = ccl_i_mpp_sync(plan, err);
    if (status == CCL_OK) {
        even_scratch(plan);
        some_chunks(program, plan);
        status = check_blocks(&m, err);
    }
    ccl_wiring_fini(&m.wiring);
    free(m.type);
    free(m.end);
    free(m.own_from);
    free(m.scratch);
    free(m.sender);
    free(m.receiver);
    free(m.slot);
    free(m.room);
    free(m.pack);
    free(m.rewritten);
    free(m.tb_of);
    free(m.list);
    free(m.list_first);
    free(m.list_start);
    free(m.number);
    free(m.edges);
    free(m.acquires);
    free(m.acquire_first);
    free(m.release_first);
    return status;
}
