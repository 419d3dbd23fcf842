/*
 * Plans of packets (LL) as plans of signals: packets that are sent are a put and a signal, and who
 * reads them first waits for it. They lie in a half of scratch of their own.
 */
#include "schedule/formats/mscclpp/plan_i.h"

#include <stdlib.h>
#include <string.h>

typedef struct message {
    uint32_t rank, at, count;  /* where it comes to */
    uint32_t from_block, from; /* block and operation that send it */
    uint32_t to_block, to;     /* and that read it first; CCL_NONE: nobody does */
    uint32_t from_channel, to_channel;
} message_t;

typedef struct unpacker {
    const ccl_json_doc_t *doc;
    ccl_i_mpp_t *from, to;
    message_t *messages;
    size_t n;
    uint32_t *of;   /* [2 ops] message that an operation sends, and waits for; CCL_NONE */
    uint32_t *home; /* [blocks] the block that it is the rest of, or itself */
} unpacker_t;

static bool sends(const ccl_i_mpp_op_t *op) {
    return op->kind == CCL_I_MPP_PUT_PACKETS || op->kind == CCL_I_MPP_PASS_PACKETS;
}

/** The packets that an operation reads; false: it reads none. */
static bool reads(const ccl_i_mpp_op_t *op, ccl_i_mpp_place_t *out) {
    *out = op->kind == CCL_I_MPP_REDUCE_PACKETS ? op->b : op->a;
    return op->kind == CCL_I_MPP_UNPACK || op->kind == CCL_I_MPP_REDUCE_PACKETS ||
           op->kind == CCL_I_MPP_PASS_PACKETS;
}

static int by_place(const void *a, const void *b) {
    const message_t *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

static int by_blocks(const void *a, const void *b) {
    const message_t *x = a, *y = b;
    if (x->from_block != y->from_block)
        return x->from_block < y->from_block ? -1 : 1;
    if (x->to_block != y->to_block)
        return x->to_block < y->to_block ? -1 : 1;
    return x->from < y->from ? -1 : x->from > y->from;
}

static message_t *find(const unpacker_t *u, uint32_t rank, uint32_t at) {
    message_t key = {.rank = rank, .at = at};
    return bsearch(&key, u->messages, u->n, sizeof key, by_place);
}

/** A block that acquires first what the one before it releases last may be its rest. */
static void find_homes(unpacker_t *u) {
    const ccl_i_mpp_t *p = u->from;
    for (uint32_t b = 0; b < p->nblocks; b++) {
        const ccl_i_mpp_block_t *block = &p->blocks[b], *before = block - 1;
        u->home[b] = b;
        if (b == 0 || before->rank != block->rank || before->nops == 0 || block->nops == 0)
            continue;
        const ccl_i_mpp_op_t *x = &p->ops[block->first - 1], *y = &p->ops[block->first];
        if (x->kind == CCL_I_MPP_RELEASE && y->kind == CCL_I_MPP_ACQUIRE && x->n == 1 &&
            y->n == 1 && p->ids[x->first] == p->ids[y->first])
            u->home[b] = u->home[b - 1];
    }
}

static ccl_status_t find_messages(unpacker_t *u, ccl_error_t *err) {
    const ccl_i_mpp_t *p = u->from;
    u->messages = calloc(p->nops + 1, sizeof *u->messages);
    u->home = calloc(p->nblocks + 1, sizeof *u->home);
    if (!u->messages || !u->home)
        return ccl_fail_nomem(err);
    find_homes(u);
    for (uint32_t b = 0; b < p->nblocks; b++) {
        for (uint32_t o = p->blocks[b].first; o < p->blocks[b].first + p->blocks[b].nops; o++) {
            const ccl_i_mpp_op_t *op = &p->ops[o];
            if (sends(op))
                u->messages[u->n++] = (message_t){.rank = op->peer,
                                                  .at = op->dst.at,
                                                  .count = op->count,
                                                  .from_block = u->home[b],
                                                  .from = o,
                                                  .to_block = CCL_NONE};
        }
    }
    qsort(u->messages, u->n, sizeof *u->messages, by_place);
    for (size_t i = 1; i < u->n; i++) {
        const message_t *a = &u->messages[i - 1], *b = &u->messages[i];
        if (a->rank == b->rank && b->at < a->at + a->count)
            return ccl_i_mpp_fail(u->doc, p, b->from, err,
                                  "packets are sent to elements %u of GPU %u twice", b->at,
                                  b->rank);
    }
    return CCL_OK;
}

/** Packets that the GPU makes itself, just before it passes them on; NULL: they were sent to it. */
static const ccl_i_mpp_op_t *made(const ccl_i_mpp_t *p, const ccl_i_mpp_block_t *b, uint32_t o) {
    const ccl_i_mpp_op_t *op = &p->ops[o], *before = o > b->first ? op - 1 : NULL;
    return op->kind == CCL_I_MPP_PASS_PACKETS && before && before->kind == CCL_I_MPP_PACK &&
                   before->dst.at == op->a.at && before->count == op->count
               ? before
               : NULL;
}

static ccl_status_t find_readers(unpacker_t *u, ccl_error_t *err) {
    const ccl_i_mpp_t *p = u->from;
    for (uint32_t b = 0; b < p->nblocks; b++) {
        const ccl_i_mpp_block_t *block = &p->blocks[b];
        for (uint32_t o = block->first; o < block->first + block->nops; o++) {
            const ccl_i_mpp_op_t *op = &p->ops[o];
            ccl_i_mpp_place_t at;
            if (op->kind == CCL_I_MPP_PACK &&
                (o + 1 == block->first + block->nops || !made(p, block, o + 1)))
                return ccl_i_mpp_fail(u->doc, p, o, err,
                                      "packets are made but not passed on right away");
            if (!reads(op, &at) || made(p, block, o))
                continue;
            message_t *m = find(u, block->rank, at.at);
            if (!m || m->count != op->count)
                return ccl_i_mpp_fail(u->doc, p, o, err,
                                      "%u packets at element %u are not sent here in one piece",
                                      op->count, at.at);
            if (m->to_block != CCL_NONE && m->to_block != u->home[b])
                return ccl_i_mpp_fail(u->doc, p, o, err, "packets that another block reads, too");
            if (m->to_block == CCL_NONE) {
                m->to_block = u->home[b];
                m->to = o;
            }
        }
    }
    for (size_t i = 0; i < u->n; i++)
        if (u->messages[i].to_block == CCL_NONE)
            return ccl_i_mpp_fail(u->doc, p, u->messages[i].from, err, "nobody reads the packets");
    return CCL_OK;
}

/** A channel for the messages of two blocks, as long as they are read in the order of sending. */
static ccl_status_t join(unpacker_t *u, ccl_error_t *err) {
    u->of = malloc((u->from->nops + 1) * 2 * sizeof *u->of);
    if (!u->of)
        return ccl_fail_nomem(err);
    memset(u->of, 0xff, (u->from->nops + 1) * 2 * sizeof *u->of); /* CCL_NONE */
    qsort(u->messages, u->n, sizeof *u->messages, by_blocks);
    for (size_t i = 0; i < u->n; i++) {
        message_t *m = &u->messages[i], *last = i > 0 ? m - 1 : NULL;
        uint32_t src = u->from->blocks[m->from_block].rank;
        if (last && last->from_block == m->from_block && last->to_block == m->to_block &&
            last->to < m->to) {
            m->from_channel = last->from_channel;
            m->to_channel = last->to_channel;
        } else if (src == m->rank) {
            return ccl_i_mpp_fail(u->doc, u->from, m->from, err, "packets to the GPU itself");
        } else {
            m->from_channel = ccl_i_mpp_channel(u->from, src, CCL_I_MPP_MEMORY, m->rank);
            m->to_channel = ccl_i_mpp_channel(u->from, m->rank, CCL_I_MPP_MEMORY, src);
        }
        u->of[2 * (size_t)m->from] = u->of[2 * (size_t)m->to + 1] = (uint32_t)i;
    }
    return u->from->nomem ? ccl_fail_nomem(err) : CCL_OK;
}

static void add(unpacker_t *u, ccl_i_mpp_op_t op, ccl_i_mpp_kind_t kind, const uint32_t *channel) {
    op.kind = (uint8_t)kind;
    op.type = CCL_I_MPP_MEMORY;
    ccl_i_mpp_add(&u->to, op, channel, channel ? 1 : 0);
}

static void one(unpacker_t *u, const ccl_i_mpp_block_t *block, uint32_t o) {
    const ccl_i_mpp_t *p = u->from;
    ccl_i_mpp_op_t op = p->ops[o];
    const ccl_i_mpp_op_t *before = made(p, block, o);
    uint32_t sent = u->of[2 * (size_t)o], come = u->of[2 * (size_t)o + 1];
    uint32_t own = p->gpus[block->rank].len[CCL_BUF_SCRATCH];
    ccl_i_mpp_place_t at;
    if (op.kind == CCL_I_MPP_PACK)
        return;
    if (op.kind < CCL_I_MPP_PUT_PACKETS) {
        ccl_i_mpp_add(&u->to, op, p->ids + op.first, op.n);
        return;
    }
    if (come != CCL_NONE)
        add(u, op, CCL_I_MPP_WAIT, &u->messages[come].to_channel);
    if (before) {
        op.a = before->a;
    } else if (reads(&op, &at)) {
        if (op.kind == CCL_I_MPP_REDUCE_PACKETS)
            op.b.at += own;
        else
            op.a.at += own;
    }
    if (sent == CCL_NONE) {
        add(u, op, op.kind == CCL_I_MPP_UNPACK ? CCL_I_MPP_COPY : CCL_I_MPP_REDUCE, NULL);
        return;
    }
    op.dst.at += p->gpus[op.peer].len[CCL_BUF_SCRATCH];
    add(u, op, CCL_I_MPP_PUT, &u->messages[sent].from_channel);
    add(u, op, CCL_I_MPP_SIGNAL, &u->messages[sent].from_channel);
}

ccl_status_t ccl_i_mpp_unpack(const ccl_json_doc_t *doc, ccl_i_mpp_t *plan, ccl_error_t *err) {
    unpacker_t u = {.doc = doc, .from = plan, .to = {.ngpus = plan->ngpus, .gpus = plan->gpus}};
    ccl_status_t status = find_messages(&u, err);
    if (status == CCL_OK)
        status = find_readers(&u, err);
    if (status == CCL_OK)
        status = join(&u, err);
    if (status == CCL_OK) {
        for (uint32_t r = 0; r < plan->ngpus; r++)
            plan->gpus[r].nblocks = 0;
        for (uint32_t b = 0; b < plan->nblocks; b++) {
            ccl_i_mpp_block(&u.to, plan->blocks[b].rank);
            for (uint32_t i = 0; i < plan->blocks[b].nops && !u.to.nomem; i++)
                one(&u, &plan->blocks[b], plan->blocks[b].first + i);
        }
        for (uint32_t r = 0; r < plan->ngpus; r++)
            plan->gpus[r].len[CCL_BUF_SCRATCH] *= 2;
        free(plan->blocks);
        free(plan->ops);
        free(plan->ids);
        *plan = u.to;
        status = plan->nomem ? ccl_fail_nomem(err) : CCL_OK;
    }
    free(u.messages);
    free(u.of);
    free(u.home);
    return status;
}
