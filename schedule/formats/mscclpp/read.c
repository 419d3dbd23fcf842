/*
 * Execution plans of MSCCL++ as programs. A put and the signal behind it are a send, the wait that
 * the signal ends is its receive; a store to a group is taken where its members wait for the signal
 * behind it, and what is pulled is offered where they signalled last. Other signals only keep
 * buffers from being written too early, which FIFOs do here. A slot that is read once needs no
 * memory: its receive and what reads it are one step.
 */
#include "schedule/formats/mscclpp/read_i.h"

#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- steps */

typedef struct built {
    ccl_step_t step;
    uint32_t send, recv; /* connections */
    uint32_t block, dep; /* an item; CCL_NONE */
} built_t;

typedef struct builder {
    ccl_i_mpp_reader_t *r;
    built_t *steps; /* by block */
    size_t nsteps, cap;
    uint32_t *last_of; /* [items] the last step that has the item */
} builder_t;

static bool same(ccl_i_mpp_place_t a, ccl_i_mpp_place_t b) {
    return a.buffer == b.buffer && a.at == b.at;
}

/** Memory that only a message and what reads it use. */
static bool lone(const ccl_i_mpp_reader_t *r, const ccl_i_mpp_item_t *it, uint8_t uses) {
    if (it->dst.buffer != CCL_BUF_SCRATCH)
        return false;
    const ccl_i_mpp_uses_t *u = r->uses[r->plan->blocks[it->block].rank];
    for (uint32_t i = 0; i < it->count; i++) {
        if (u[it->dst.at + i].reads != uses || u[it->dst.at + i].writes != uses)
            return false;
    }
    return true;
}

/** Whether the item behind goes on with this one: nothing is waited for in between. */
static const ccl_i_mpp_item_t *next_item(const ccl_i_mpp_reader_t *r, size_t i) {
    const ccl_i_mpp_item_t *it = &r->items[i], *next = it + 1;
    if (i + 1 >= r->nitems || next->block != it->block || next->count != it->count)
        return NULL;
    for (uint32_t o = it->op + 1; o <= next->op; o++) {
        if (r->plan->ops[o].kind == CCL_I_MPP_ACQUIRE)
            return NULL;
    }
    return next;
}

static bool sends_on(const ccl_i_mpp_reader_t *r, const ccl_i_mpp_item_t *in,
                     const ccl_i_mpp_item_t *out, ccl_i_mpp_place_t held) {
    return out && out->prim == CCL_PRIM_S && same(out->a, held) &&
           r->conns[in->recv].channel == r->conns[out->send].channel;
}

static void add_step(builder_t *b, const ccl_i_mpp_item_t *it, ccl_primitive_t prim,
                     ccl_i_mpp_place_t src, ccl_i_mpp_place_t dst) {
    b->r->nomem |= !ccl_grow(&b->steps, &b->cap, b->nsteps + 1, sizeof *b->steps);
    if (b->r->nomem)
        return;
    bool nop = prim == CCL_PRIM_NOP;
    b->steps[b->nsteps++] = (built_t){.step = {.type = (uint8_t)prim,
                                               .src_buf = (uint8_t)src.buffer,
                                               .src_off = nop ? 0 : src.at,
                                               .dst_buf = (uint8_t)dst.buffer,
                                               .dst_off = nop ? 0 : dst.at,
                                               .count = nop ? 0 : it->count,
                                               .dep_tb = CCL_NONE,
                                               .dep_step = CCL_NONE},
                                      .send = it->send,
                                      .recv = it->recv,
                                      .block = it->block,
                                      .dep = CCL_NONE};
}

/** A receive with what reads its slot, and with the send of the result. Items that became it. */
static size_t fuse_receive(builder_t *b, size_t i) {
    const ccl_i_mpp_reader_t *r = b->r;
    ccl_i_mpp_item_t it = r->items[i];
    const ccl_i_mpp_item_t *next = next_item(r, i), *more;
    ccl_i_mpp_place_t src = it.dst;
    size_t n = 1;
    bool reduces = false;
    if (r->conns[it.recv].kind != CCL_WIRING_PLAIN)
        next = NULL; /* what a group takes stays at its place */
    if (next && next->prim == CCL_PRIM_RE && (same(next->b, it.dst) || same(next->a, it.dst)) &&
        !same(next->a, next->b)) {
        ccl_i_mpp_place_t own = same(next->b, it.dst) ? next->a : next->b;
        more = next_item(r, i + 1);
        if (same(next->dst, it.dst) && lone(r, &it, 2) && sends_on(r, &it, more, it.dst)) {
            it.send = more->send;
            add_step(b, &it, CCL_PRIM_RRS, own, own);
            return 3;
        }
        if (!same(next->dst, it.dst) && lone(r, &it, 1)) {
            src = own;
            it.dst = next->dst;
            reduces = true;
            n = 2;
        }
    } else if (next && next->prim == CCL_PRIM_CPY && same(next->a, it.dst) && lone(r, &it, 1)) {
        src = it.dst = next->dst;
        n = 2;
    }
    more = next_item(r, i + n - 1);
    if (sends_on(r, &it, more, it.dst)) {
        it.send = more->send;
        add_step(b, &it, reduces ? CCL_PRIM_RRCS : CCL_PRIM_RCS, src, it.dst);
        return n + 1;
    }
    add_step(b, &it, reduces ? CCL_PRIM_RRC : CCL_PRIM_R, src, it.dst);
    return n;
}

static size_t plain_item(builder_t *b, size_t i) {
    const ccl_i_mpp_item_t *it = &b->r->items[i];
    if (it->prim == CCL_PRIM_R)
        return fuse_receive(b, i);
    if (it->prim != CCL_PRIM_RE) {
        bool keeps = it->prim == CCL_PRIM_RCS || it->prim == CCL_PRIM_CPY;
        add_step(b, it, it->prim, it->prim == CCL_PRIM_RCS ? it->dst : it->a,
                 keeps ? it->dst : it->a);
        return 1;
    }
    if (!same(it->dst, it->a) && !same(it->dst, it->b))
        add_step(b, it, CCL_PRIM_CPY, it->a, it->dst);
    add_step(b, it, CCL_PRIM_RE, same(it->dst, it->b) ? it->a : it->b, it->dst);
    return 1;
}

/** What an item waits for: nops before its step for all but the last. */
static void wait_steps(builder_t *b, size_t i) {
    const ccl_i_mpp_reader_t *r = b->r;
    const ccl_i_mpp_item_t *it = &r->items[i];
    uint32_t from = i > 0 && r->items[i - 1].block == it->block ? r->items[i - 1].op + 1
                                                                : r->plan->blocks[it->block].first;
    for (uint32_t o = from; o <= it->op; o++) {
        const ccl_i_mpp_op_t *op = &r->plan->ops[o];
        for (uint32_t k = 0; op->kind == CCL_I_MPP_ACQUIRE && k < op->n; k++) {
            uint32_t on = ccl_i_mpp_released_by(r, op->first + k);
            if (on == CCL_NONE)
                continue;
            ccl_i_mpp_item_t nop = {.block = it->block, .send = CCL_NONE, .recv = CCL_NONE};
            add_step(b, &nop, CCL_PRIM_NOP, (ccl_i_mpp_place_t){0, 0}, (ccl_i_mpp_place_t){0, 0});
            if (!r->nomem)
                b->steps[b->nsteps - 1].dep = on;
        }
    }
}

static ccl_status_t make_steps(builder_t *b, ccl_error_t *err) {
    ccl_i_mpp_reader_t *r = b->r;
    for (size_t i = 0; i < r->nitems && !r->nomem;) {
        size_t before = b->nsteps;
        wait_steps(b, i);
        bool waits = b->nsteps > before;
        size_t n = plain_item(b, i);
        if (r->nomem)
            break;
        if (waits) { /* the last thing waited for is the step's own */
            size_t first = b->nsteps - 1;
            while (b->steps[first - 1].step.type != CCL_PRIM_NOP)
                first--;
            b->steps[first].dep = b->steps[first - 1].dep;
            memmove(&b->steps[first - 1], &b->steps[first], (b->nsteps - first) * sizeof *b->steps);
            b->nsteps--;
        }
        for (size_t k = i; k < i + n; k++)
            b->last_of[k] = (uint32_t)b->nsteps - 1;
        i += n;
    }
    return r->nomem ? ccl_fail_nomem(err) : CCL_OK;
}

/* ---------------------------------------------------------------- the program */

static uint32_t peer_of(const ccl_i_mpp_reader_t *r, uint32_t conn, bool sends) {
    if (conn == CCL_NONE)
        return CCL_NONE;
    const ccl_i_mpp_conn_t *c = &r->conns[conn];
    uint32_t other = r->plan->blocks[sends ? c->dst : c->src].rank;
    if (c->kind == CCL_WIRING_PLAIN)
        return other;
    return (c->kind == CCL_WIRING_MULTICAST) == sends ? r->groups[c->group]
                                                      : CCL_PEER_MEMBER | other;
}

static ccl_peers_t peers_of(const ccl_i_mpp_reader_t *r, const built_t *s) {
    uint32_t one = s->send == CCL_NONE ? s->recv : s->send;
    return (ccl_peers_t){peer_of(r, s->send, true), peer_of(r, s->recv, false),
                         one == CCL_NONE ? 0 : r->conns[one].channel};
}

/** Connections of a whole block; false: its steps have several. */
static bool block_peers(const ccl_i_mpp_reader_t *r, const built_t *s, size_t n, ccl_peers_t *out) {
    *out = (ccl_peers_t){CCL_NONE, CCL_NONE, CCL_NONE};
    for (size_t i = 0; i < n; i++) {
        ccl_peers_t p = peers_of(r, &s[i]);
        if (p.send_peer == CCL_NONE && p.recv_peer == CCL_NONE)
            continue;
        if ((p.send_peer != CCL_NONE && out->send_peer != CCL_NONE &&
             p.send_peer != out->send_peer) ||
            (p.recv_peer != CCL_NONE && out->recv_peer != CCL_NONE &&
             p.recv_peer != out->recv_peer) ||
            (out->channel != CCL_NONE && out->channel != p.channel))
            return false;
        out->send_peer = p.send_peer != CCL_NONE ? p.send_peer : out->send_peer;
        out->recv_peer = p.recv_peer != CCL_NONE ? p.recv_peer : out->recv_peer;
        out->channel = p.channel;
    }
    out->channel = out->channel == CCL_NONE ? 0 : out->channel;
    return true;
}

static void add_blocks(builder_t *b, ccl_program_builder_t *to) {
    const ccl_i_mpp_reader_t *r = b->r;
    for (size_t first = 0, end; first < b->nsteps; first = end) {
        uint32_t block = b->steps[first].block;
        ccl_peers_t all;
        for (end = first; end < b->nsteps && b->steps[end].block == block;)
            end++;
        bool own = block_peers(r, &b->steps[first], end - first, &all);
        if (!own)
            all = (ccl_peers_t){CCL_NONE, CCL_NONE, 0};
        uint32_t tb = ccl_program_builder_tb(to, r->plan->blocks[block].rank, all.send_peer,
                                             all.recv_peer, all.channel);
        for (size_t i = first; i < end; i++) {
            ccl_step_t step = b->steps[i].step;
            if (b->steps[i].dep != CCL_NONE) {
                uint32_t on = b->last_of[b->steps[i].dep], start = on;
                while (start > 0 && b->steps[start - 1].block == b->steps[on].block)
                    start--;
                step.dep_tb = r->ids[b->steps[on].block];
                step.dep_step = on - start;
            }
            if (own)
                ccl_program_builder_step(to, tb, step);
            else
                ccl_program_builder_step_peers(to, tb, step, peers_of(r, &b->steps[i]));
        }
    }
}

/** Buffers as the plan has them; of scratch what steps still use. */
static void add_buffers(const builder_t *b, ccl_program_builder_t *to) {
    const ccl_i_mpp_t *plan = b->r->plan;
    for (uint32_t g = 0; g < plan->ngpus; g++)
        plan->gpus[g].len[CCL_BUF_SCRATCH] = 0;
    for (size_t i = 0; i < b->nsteps; i++) {
        const ccl_step_t *s = &b->steps[i].step;
        uint32_t *len = &plan->gpus[plan->blocks[b->steps[i].block].rank].len[CCL_BUF_SCRATCH];
        if (s->src_buf == CCL_BUF_SCRATCH && s->src_off + s->count > *len)
            *len = s->src_off + s->count;
        if (s->dst_buf == CCL_BUF_SCRATCH && s->dst_off + s->count > *len)
            *len = s->dst_off + s->count;
    }
    for (uint32_t g = 0; g < plan->ngpus; g++) {
        for (int k = 0; k < 3; k++)
            ccl_program_builder_buffer(to, g, (ccl_buffer_t)k, plan->gpus[g].len[k]);
    }
}

static ccl_status_t build(ccl_i_mpp_reader_t *r, ccl_i_mpp_head_t *head, ccl_program_t **out,
                          ccl_error_t *err) {
    builder_t b = {.r = r, .last_of = calloc(r->nitems + 1, sizeof *b.last_of)};
    ccl_program_builder_t *to = ccl_program_builder_create(head->name, head->coll, head->nchunks,
                                                           head->packets ? "LL" : "Simple");
    ccl_status_t status = b.last_of && to ? CCL_OK : ccl_fail_nomem(err);
    head->coll = NULL; /* the builder's */
    for (uint32_t g = 0; status == CCL_OK && g < r->ngroups; g++)
        r->groups[g] = ccl_program_builder_group(to, r->group_ranks[g], r->group_n[g]);
    if (status == CCL_OK)
        status = make_steps(&b, err);
    if (status == CCL_OK) {
        uint32_t at = CCL_NONE;
        for (size_t i = 0; i < b.nsteps; i++) { /* blocks without steps are left out */
            if (b.steps[i].block == at)
                continue;
            at = b.steps[i].block;
            r->ids[at] = r->next_id[r->plan->blocks[at].rank]++;
        }
        ccl_program_builder_place(to, head->in_place, !head->in_place, head->min_bytes,
                                  head->max_bytes);
        add_buffers(&b, to);
        add_blocks(&b, to);
        status = ccl_program_builder_finish(to, out, err);
        to = NULL;
    }
    if (status == CCL_OK && head->origin)
        ccl_origin_set((*out)->origin, "%s", head->origin);
    ccl_program_builder_destroy(to);
    free(b.steps);
    free(b.last_of);
    return status;
}

static bool has(const char *text, size_t len, const char *word) {
    size_t n = strlen(word);
    for (const char *p = text; (p = memchr(p, word[0], len - (size_t)(p - text))) != NULL; p++) {
        if (len - (size_t)(p - text) >= n && memcmp(p, word, n) == 0)
            return true;
    }
    return false;
}

bool ccl_program_is_mscclpp(const char *text, size_t len) {
    return has(text, len, "\"gpus\"") && has(text, len, "\"threadblocks\"");
}

/** MSCCL++ writes 2^64 - 1 for no limit, which is no number of JSON's readers: 0 is none here. */
static void no_limit(char *text) {
    static const char all[] = "18446744073709551615";
    for (char *p = text; (p = strstr(p, all)) != NULL;) {
        memset(p, ' ', sizeof all - 1);
        *p = '0';
    }
}

ccl_status_t ccl_program_read_mscclpp(const char *name, const char *text, size_t len,
                                      ccl_program_t **out, ccl_error_t *err) {
    ccl_json_doc_t doc = {0};
    ccl_i_mpp_t plan;
    ccl_i_mpp_head_t head;
    char *copy = malloc(len + 1);
    *out = NULL;
    if (!copy)
        return ccl_fail_nomem(err);
    memcpy(copy, text, len);
    copy[len] = 0;
    no_limit(copy);
    ccl_status_t status = ccl_json_parse(name, copy, len, &doc, err);
    free(copy);
    CCL_TRY(status);
    ccl_i_mpp_reader_t r = {.doc = &doc, .plan = &plan};
    status = ccl_i_mpp_parse(&doc, &head, &plan, err);
    if (status == CCL_OK)
        status = ccl_i_mpp_meet(&r, err);
    if (status == CCL_OK)
        status = build(&r, &head, out, err);
    ccl_i_mpp_reader_fini(&r);
    ccl_collective_destroy(head.coll);
    ccl_i_mpp_fini(&plan);
    ccl_json_fini(&doc);
    return status;
}
