/* Blocks and connections as a run at some granularity has them. */
#include "schedule/verify/verify.h"

#include <stdlib.h>
#include <string.h>

uint32_t ccl_i_dep(const ccl_program_t *program, const ccl_tb_t *tb, const ccl_step_t *step) {
    if (step->dep_tb == CCL_NONE || step->dep_step == CCL_NONE)
        return CCL_NONE;
    uint32_t on = program->rank_first_tb[tb->rank] + step->dep_tb;
    return program->tbs[on].first_step + step->dep_step;
}

void ccl_i_blocks_fini(ccl_i_blocks_t *blocks) {
    free(blocks->blocks);
    free(blocks->conns);
    free(blocks->order);
    free(blocks->block_of);
    free(blocks->index_of);
    free(blocks->step_in);
    free(blocks->step_out);
    free(blocks->members);
    memset(blocks, 0, sizeof *blocks);
}

typedef struct staged {
    uint32_t stage, step;
} staged_t;

static int staged_cmp(const void *a, const void *b) {
    const staged_t *x = a, *y = b;
    if (x->stage != y->stage)
        return x->stage < y->stage ? -1 : 1;
    return x->step < y->step ? -1 : x->step > y->step;
}

/** Writes the steps of one thread block to out->order, by stage; `staged` is scratch of its size.
 */
static void order_steps(const ccl_program_t *p, const ccl_tb_t *tb, staged_t *staged,
                        uint32_t *order) {
    bool sorted = true;
    for (uint32_t i = 0; i < tb->nsteps; i++) {
        uint32_t step = tb->first_step + i;
        order[step] = step;
        sorted = sorted && (!i || p->steps[step - 1].stage <= p->steps[step].stage);
    }
    if (sorted)
        return;
    for (uint32_t i = 0; i < tb->nsteps; i++)
        staged[i] = (staged_t){p->steps[tb->first_step + i].stage, tb->first_step + i};
    qsort(staged, tb->nsteps, sizeof *staged, staged_cmp);
    for (uint32_t i = 0; i < tb->nsteps; i++)
        order[tb->first_step + i] = staged[i].step;
}

static bool cut_blocks(const ccl_program_t *p, bool by_stage, ccl_i_blocks_t *out) {
    uint32_t longest = 0;
    for (uint32_t t = 0; t < p->ntbs; t++)
        longest = p->tbs[t].nsteps > longest ? p->tbs[t].nsteps : longest;
    staged_t *staged = malloc((longest ? longest : 1) * sizeof *staged);
    size_t cap = 0;
    if (!staged || !ccl_grow(&out->blocks, &cap, p->ntbs + (size_t)1, sizeof *out->blocks))
        goto nomem;
    for (uint32_t t = 0; t < p->ntbs; t++) {
        const ccl_tb_t *tb = &p->tbs[t];
        if (by_stage)
            order_steps(p, tb, staged, out->order);
        uint32_t prev = CCL_NONE;
        for (uint32_t i = 0; i < tb->nsteps || i == 0;) {
            uint32_t end = by_stage && tb->nsteps ? i + 1 : tb->nsteps;
            while (by_stage && end < tb->nsteps &&
                   p->steps[out->order[tb->first_step + end]].stage ==
                       p->steps[out->order[tb->first_step + i]].stage)
                end++;
            if (!ccl_grow(&out->blocks, &cap, out->nblocks + (size_t)1, sizeof *out->blocks))
                goto nomem;
            out->blocks[out->nblocks] = (ccl_i_block_t){.tb = t,
                                                        .first = tb->first_step + i,
                                                        .nsteps = end - i,
                                                        .prev = prev,
                                                        .in = CCL_NONE,
                                                        .out = CCL_NONE};
            for (uint32_t k = i; by_stage && k < end; k++) {
                out->block_of[out->order[tb->first_step + k]] = out->nblocks;
                out->index_of[out->order[tb->first_step + k]] = k - i;
            }
            prev = out->nblocks++;
            i = end > i ? end : i + 1;
        }
    }
    free(staged);
    return true;
nomem:
    free(staged);
    return false;
}

static size_t conn_hash(const ccl_i_verify_conn_t *c) {
    uint64_t ends = (uint64_t)c->src << 32 | c->dst, lane = (uint64_t)c->channel << 32 | c->stage;
    return (size_t)ccl_mix64(ends ^ ccl_mix64(lane));
}

/** Connections by their keys; with room for all. */
typedef struct conn_table {
    uint32_t *slots;
    size_t mask;
} conn_table_t;

/** Connection of that key, added when new. */
static uint32_t find_conn(ccl_i_blocks_t *out, conn_table_t table, ccl_i_verify_conn_t key) {
    uint32_t *slots = table.slots;
    size_t mask = table.mask, at = conn_hash(&key) & mask;
    for (; slots[at] != CCL_NONE; at = (at + 1) & mask) {
        const ccl_i_verify_conn_t *c = &out->conns[slots[at]];
        if (c->src == key.src && c->dst == key.dst && c->channel == key.channel &&
            c->stage == key.stage && c->kind == key.kind)
            return slots[at];
    }
    slots[at] = out->nconns;
    out->conns[out->nconns] = key;
    return out->nconns++;
}

/** Block b is at one end of connection c. */
static void take_end(ccl_i_blocks_t *out, uint32_t c, uint32_t b, bool sends) {
    uint32_t *end = sends ? &out->conns[c].sender : &out->conns[c].receiver;
    if (*end == CCL_NONE)
        *end = b;
    if (*end == b || out->twin_a != CCL_NONE)
        return;
    out->twin_a = *end;
    out->twin_b = b;
    out->twin_sends = sends;
    out->twin_conn = c;
}

/** One side of a block. */
typedef struct side {
    uint32_t block, rank, channel, stage;
    bool sends;
} side_t;

/** Connection of one side of a block, of its hub or a member's where it is one of a switch. */
static uint32_t side_conn(ccl_i_blocks_t *out, conn_table_t table, side_t side, uint32_t peer) {
    ccl_i_verify_conn_t key = {.channel = side.channel,
                               .stage = side.stage,
                               .sender = CCL_NONE,
                               .receiver = CCL_NONE,
                               .hub = CCL_NONE};
    bool sends = side.sends;
    if (ccl_peer_is_group(peer)) {
        key.kind = sends ? CCL_I_MULTICAST : CCL_I_PULL;
    } else if (ccl_peer_is_member(peer)) {
        key.kind = sends ? CCL_I_OFFER : CCL_I_TAKE;
        peer = ccl_peer_rank(peer);
    }
    key.src = sends ? side.rank : peer;
    key.dst = sends ? peer : side.rank;
    uint32_t c = find_conn(out, table, key);
    take_end(out, c, side.block, sends);
    return c;
}

/** Connections of a block whose steps each have their own. */
static void join_shared(const ccl_program_t *p, uint32_t b, uint32_t stage, ccl_i_blocks_t *out,
                        conn_table_t table) {
    const ccl_i_block_t *block = &out->blocks[b];
    const ccl_tb_t *tb = &p->tbs[block->tb];
    for (uint32_t i = 0; i < block->nsteps; i++) {
        uint32_t step = ccl_i_block_step(out, block->first + i);
        ccl_peers_t peers = ccl_program_peers(p, tb, step);
        out->step_in[step] = out->step_out[step] = CCL_NONE;
        if (ccl_primitive_sends(p->steps[step].type) && peers.send_peer != CCL_NONE)
            out->step_out[step] = side_conn(
                out, table, (side_t){b, tb->rank, peers.channel, stage, true}, peers.send_peer);
        if (ccl_primitive_receives(p->steps[step].type) && peers.recv_peer != CCL_NONE)
            out->step_in[step] = side_conn(
                out, table, (side_t){b, tb->rank, peers.channel, stage, false}, peers.recv_peer);
    }
}

/** Room for `more` connections beyond those that are there; pointers to these end. False: no
    memory. */
static bool reserve(ccl_i_blocks_t *out, size_t more, conn_table_t *table) {
    size_t most = out->nconns + more, nslots = 16;
    while (nslots < 2 * most)
        nslots *= 2;
    ccl_i_verify_conn_t *conns = realloc(out->conns, (most + 1) * sizeof *conns);
    out->conns = conns ? conns : out->conns;
    free(table->slots);
    *table = (conn_table_t){ccl_array_alloc(nslots, sizeof *table->slots), nslots - 1};
    if (!conns || !table->slots)
        return false;
    memset(table->slots, 0xff, nslots * sizeof *table->slots);
    for (uint32_t c = 0; c < out->nconns; c++) {
        size_t at = conn_hash(&conns[c]) & table->mask;
        while (table->slots[at] != CCL_NONE)
            at = (at + 1) & table->mask;
        table->slots[at] = c;
    }
    return true;
}

/** The group of a hub; NULL: another connection. */
static const ccl_peer_group_t *hub_group(const ccl_program_t *p, const ccl_i_verify_conn_t *conn) {
    if (conn->kind != CCL_I_MULTICAST && conn->kind != CCL_I_PULL)
        return NULL;
    return ccl_program_group(p, conn->kind == CCL_I_MULTICAST ? conn->dst : conn->src);
}

/** The members' connections of every hub. False: no memory. */
static bool join_hubs(const ccl_program_t *p, ccl_i_blocks_t *out, conn_table_t *room) {
    size_t cap = 0, nmembers = 0;
    if (p->ngroups == 0)
        return true;
    for (uint32_t h = 0; h < out->nconns; h++) {
        const ccl_peer_group_t *group = hub_group(p, &out->conns[h]);
        nmembers += group ? group->n : 0;
    }
    if (!reserve(out, nmembers, room) || !ccl_grow(&out->members, &cap, nmembers, sizeof(uint32_t)))
        return false;
    conn_table_t table = *room;
    for (uint32_t h = 0, nhubs = out->nconns; h < nhubs; h++) {
        ccl_i_verify_conn_t *hub = &out->conns[h];
        bool casts = hub->kind == CCL_I_MULTICAST;
        const ccl_peer_group_t *group = hub_group(p, hub);
        if (!group)
            continue;
        hub->first = out->nmembers;
        hub->n = group->n;
        for (uint32_t i = 0; i < group->n; i++) {
            ccl_i_verify_conn_t key = {.src = casts ? hub->src : group->ranks[i],
                                       .dst = casts ? group->ranks[i] : hub->dst,
                                       .channel = hub->channel,
                                       .stage = hub->stage,
                                       .kind = casts ? CCL_I_TAKE : CCL_I_OFFER,
                                       .sender = CCL_NONE,
                                       .receiver = CCL_NONE,
                                       .hub = CCL_NONE};
            uint32_t c = find_conn(out, table, key);
            ccl_i_verify_conn_t *conn = &out->conns[c];
            if (conn->hub != CCL_NONE && out->twin_a == CCL_NONE) { /* two hubs on one end */
                const ccl_i_verify_conn_t *other = &out->conns[conn->hub];
                out->twin_a = casts ? other->sender : other->receiver;
                out->twin_b = casts ? hub->sender : hub->receiver;
                out->twin_sends = casts;
                out->twin_conn = c;
            }
            conn->hub = h;
            *(casts ? &conn->sender : &conn->receiver) = casts ? hub->sender : hub->receiver;
            out->members[out->nmembers++] = c;
        }
    }
    return true;
}

static bool join_blocks(const ccl_program_t *p, bool by_stage, ccl_i_blocks_t *out) {
    conn_table_t table = {NULL, 0};
    if (!reserve(out, 2 * (size_t)(p->peers ? p->nsteps : out->nblocks), &table)) {
        free(table.slots);
        return false;
    }
    for (uint32_t b = 0; b < out->nblocks; b++) {
        ccl_i_block_t *block = &out->blocks[b];
        const ccl_tb_t *tb = &p->tbs[block->tb];
        uint32_t stage =
            by_stage && block->nsteps ? p->steps[ccl_i_block_step(out, block->first)].stage : 0;
        if (p->peers) {
            join_shared(p, b, stage, out, table);
            continue;
        }
        bool sends = false, receives = false;
        for (uint32_t i = 0; i < block->nsteps; i++) {
            ccl_primitive_t type = p->steps[ccl_i_block_step(out, block->first + i)].type;
            sends = sends || ccl_primitive_sends(type);
            receives = receives || ccl_primitive_receives(type);
        }
        if (sends && tb->send_peer != CCL_NONE)
            block->out = side_conn(out, table, (side_t){b, tb->rank, tb->channel, stage, true},
                                   tb->send_peer);
        if (receives && tb->recv_peer != CCL_NONE)
            block->in = side_conn(out, table, (side_t){b, tb->rank, tb->channel, stage, false},
                                  tb->recv_peer);
    }
    bool joined = join_hubs(p, out, &table);
    free(table.slots);
    return joined;
}

ccl_status_t ccl_i_blocks_init(const ccl_program_t *program, ccl_granularity_t granularity,
                               ccl_i_blocks_t *out, ccl_error_t *err) {
    bool by_stage = granularity == CCL_GRANULARITY_STAGE;
    size_t n = program->nsteps ? program->nsteps : 1;
    memset(out, 0, sizeof *out);
    out->twin_a = out->twin_b = CCL_NONE;
    if (by_stage) {
        out->order = malloc(n * sizeof *out->order);
        out->block_of = malloc(n * sizeof *out->block_of);
        out->index_of = malloc(n * sizeof *out->index_of);
    }
    if (program->peers) {
        out->step_in = malloc(n * sizeof *out->step_in);
        out->step_out = malloc(n * sizeof *out->step_out);
    }
    if ((by_stage && (!out->order || !out->block_of || !out->index_of)) ||
        (program->peers && (!out->step_in || !out->step_out)) ||
        !cut_blocks(program, by_stage, out) || !join_blocks(program, by_stage, out)) {
        ccl_i_blocks_fini(out);
        return ccl_fail_nomem(err);
    }
    return CCL_OK;
}
