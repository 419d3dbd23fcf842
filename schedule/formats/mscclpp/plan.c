/* An execution plan of MSCCL++ in memory: its parts, and whether it comes to an end. */
#include "schedule/formats/mscclpp/plan_i.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

ccl_status_t ccl_i_mpp_init(ccl_i_mpp_t *plan, uint32_t ngpus, ccl_error_t *err) {
    *plan = (ccl_i_mpp_t){.ngpus = ngpus};
    plan->gpus = calloc(ngpus + (size_t)1, sizeof *plan->gpus);
    return plan->gpus ? CCL_OK : ccl_fail_nomem(err);
}

void ccl_i_mpp_fini(ccl_i_mpp_t *plan) {
    for (size_t r = 0; plan->gpus && r < plan->ngpus; r++) {
        for (int type = 0; type < CCL_I_MPP_NTYPES; type++)
            free(plan->gpus[r].peers[type]);
        for (uint32_t i = 0; i < plan->gpus[r].nswitches; i++)
            free(plan->gpus[r].switches[i].ranks);
        free(plan->gpus[r].switches);
    }
    free(plan->gpus);
    free(plan->blocks);
    free(plan->ops);
    free(plan->ids);
    *plan = (ccl_i_mpp_t){0};
}

void ccl_i_mpp_block(ccl_i_mpp_t *plan, uint32_t rank) {
    ccl_i_mpp_gpu_t *gpu = &plan->gpus[rank];
    plan->nomem |=
        !ccl_grow(&plan->blocks, &plan->blocks_cap, plan->nblocks + 1, sizeof *plan->blocks);
    if (plan->nomem)
        return;
    if (gpu->nblocks == 0)
        gpu->first_block = (uint32_t)plan->nblocks;
    plan->blocks[plan->nblocks++] =
        (ccl_i_mpp_block_t){.rank = rank, .id = gpu->nblocks++, .first = (uint32_t)plan->nops};
}

void ccl_i_mpp_add(ccl_i_mpp_t *plan, ccl_i_mpp_op_t op, const uint32_t *ids, uint32_t n) {
    plan->nomem |= !ccl_grow(&plan->ops, &plan->ops_cap, plan->nops + 1, sizeof *plan->ops) ||
                   !ccl_grow(&plan->ids, &plan->ids_cap, plan->nids + n + 1, sizeof *plan->ids);
    if (plan->nomem)
        return;
    op.first = (uint32_t)plan->nids;
    op.n = n;
    if (n > 0)
        memcpy(plan->ids + plan->nids, ids, n * sizeof *ids);
    plan->nids += n;
    plan->ops[plan->nops++] = op;
    plan->blocks[plan->nblocks - 1].nops++;
}

uint32_t ccl_i_mpp_channel(ccl_i_mpp_t *plan, uint32_t rank, uint32_t type, uint32_t peer) {
    ccl_i_mpp_gpu_t *gpu = &plan->gpus[rank];
    uint32_t n = gpu->nchannels[type];
    uint32_t *peers = realloc(gpu->peers[type], (n + (size_t)1) * sizeof *peers);
    plan->nomem |= !peers;
    if (!peers)
        return 0;
    gpu->peers[type] = peers;
    gpu->peers[type][gpu->nchannels[type]++] = peer;
    return n;
}

uint32_t ccl_i_mpp_switch(ccl_i_mpp_t *plan, uint32_t rank, uint32_t buffer, const uint32_t *ranks,
                          uint32_t n) {
    ccl_i_mpp_gpu_t *gpu = &plan->gpus[rank];
    for (uint32_t i = 0; i < gpu->nswitches; i++) {
        if (gpu->switches[i].buffer == buffer && gpu->switches[i].n == n &&
            memcmp(gpu->switches[i].ranks, ranks, n * sizeof *ranks) == 0)
            return i;
    }
    ccl_i_mpp_switch_t *more = realloc(gpu->switches, (gpu->nswitches + (size_t)1) * sizeof *more);
    uint32_t *copy = malloc((n + (size_t)1) * sizeof *copy);
    gpu->switches = more ? more : gpu->switches;
    if (!more || !copy) {
        plan->nomem = true;
        free(copy);
        return 0;
    }
    memcpy(copy, ranks, n * sizeof *copy);
    more[gpu->nswitches] = (ccl_i_mpp_switch_t){.buffer = buffer, .ranks = copy, .n = n};
    return gpu->nswitches++;
}

uint32_t ccl_i_mpp_partner(const ccl_i_mpp_t *plan, uint32_t rank, uint32_t type,
                           uint32_t channel) {
    const ccl_i_mpp_gpu_t *gpu = &plan->gpus[rank];
    uint32_t peer = gpu->peers[type][channel], nth = 0;
    for (uint32_t i = 0; i < channel; i++)
        nth += gpu->peers[type][i] == peer;
    const ccl_i_mpp_gpu_t *other = &plan->gpus[peer];
    for (uint32_t i = 0; i < other->nchannels[type]; i++) {
        if (other->peers[type][i] == rank && nth-- == 0)
            return i;
    }
    return CCL_NONE;
}

ccl_status_t ccl_i_mpp_fail(const ccl_json_doc_t *doc, const ccl_i_mpp_t *plan, uint32_t op,
                            ccl_error_t *err, const char *fmt, ...) {
    const ccl_i_mpp_op_t *o = &plan->ops[op];
    const ccl_i_mpp_block_t *b = &plan->blocks[o->block];
    char text[300];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    ccl_json_at_t at = ccl_json_root(doc);
    at = ccl_json_member(&at, "gpus");
    at = ccl_json_element(&at, b->rank);
    at = ccl_json_member(&at, "threadblocks");
    at = ccl_json_element(&at, b->id);
    at = ccl_json_member(&at, "ops");
    at = ccl_json_element(&at, o->where);
    return ccl_json_fail(&at, err, "%s", text);
}

/* ---------------------------------------------------------------- running */

/** Signals that have come and not been taken, and other ends; semaphores. By GPU. */
typedef struct tokens {
    uint32_t *signals[CCL_I_MPP_NTYPES], *partners[CCL_I_MPP_NTYPES], *semaphores;
} tokens_t;

static bool tokens_init(const ccl_i_mpp_t *plan, uint32_t rank, tokens_t *t) {
    const ccl_i_mpp_gpu_t *gpu = &plan->gpus[rank];
    bool ok = true;
    t->semaphores = calloc(gpu->nsemaphores + (size_t)1, sizeof *t->semaphores);
    for (int type = 0; type < CCL_I_MPP_NTYPES; type++) {
        size_t n = gpu->nchannels[type];
        t->signals[type] = calloc(n + 1, sizeof *t->signals[type]);
        t->partners[type] = calloc(n + 1, sizeof *t->partners[type]);
        ok = ok && t->signals[type] && t->partners[type];
        for (uint32_t i = 0; ok && i < n; i++)
            t->partners[type][i] = ccl_i_mpp_partner(plan, rank, (uint32_t)type, i);
    }
    return ok && t->semaphores;
}

/** One operation; false: it has to wait. */
static bool operate(const ccl_i_mpp_t *plan, tokens_t *tokens, uint32_t rank,
                    const ccl_i_mpp_op_t *op) {
    const uint32_t *ids = plan->ids + op->first;
    tokens_t *own = &tokens[rank];
    bool waits = op->kind == CCL_I_MPP_WAIT, acquires = op->kind == CCL_I_MPP_ACQUIRE;
    uint32_t *held = waits ? own->signals[op->type] : own->semaphores;
    for (uint32_t i = 0; (waits || acquires) && i < op->n; i++) {
        if (held[ids[i]] == 0)
            return false;
    }
    for (uint32_t i = 0; i < op->n; i++) {
        uint32_t other = op->kind == CCL_I_MPP_SIGNAL ? own->partners[op->type][ids[i]] : CCL_NONE;
        if (waits || acquires)
            held[ids[i]]--;
        else if (op->kind == CCL_I_MPP_RELEASE)
            own->semaphores[ids[i]]++;
        else if (other != CCL_NONE)
            tokens[plan->gpus[rank].peers[op->type][ids[i]]].signals[op->type][other]++;
    }
    return true;
}

static void run(const ccl_i_mpp_t *plan, tokens_t *tokens, uint32_t *at) {
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t b = 0; b < plan->nblocks; b++) {
            const ccl_i_mpp_block_t *block = &plan->blocks[b];
            while (at[b] < block->nops &&
                   operate(plan, tokens, block->rank, &plan->ops[block->first + at[b]])) {
                at[b]++;
                moved = true;
            }
        }
    }
}

ccl_status_t ccl_i_mpp_ends(const ccl_i_mpp_t *plan, uint32_t *stuck, uint32_t *at_out,
                            ccl_error_t *err) {
    tokens_t *tokens = calloc(plan->ngpus + 1, sizeof *tokens);
    uint32_t *at = calloc(plan->nblocks + 1, sizeof *at);
    bool ok = tokens && at;
    for (uint32_t r = 0; ok && r < plan->ngpus; r++)
        ok = tokens_init(plan, r, &tokens[r]);
    if (ok)
        run(plan, tokens, at);
    *stuck = CCL_NONE;
    for (uint32_t b = 0; ok && b < plan->nblocks && *stuck == CCL_NONE; b++)
        *stuck = at[b] < plan->blocks[b].nops ? b : CCL_NONE;
    if (ok && at_out)
        memcpy(at_out, at, plan->nblocks * sizeof *at);
    for (uint32_t r = 0; tokens && r < plan->ngpus; r++) {
        for (int type = 0; type < CCL_I_MPP_NTYPES; type++) {
            free(tokens[r].signals[type]);
            free(tokens[r].partners[type]);
        }
        free(tokens[r].semaphores);
    }
    free(tokens);
    free(at);
    return ok ? CCL_OK : ccl_fail_nomem(err);
}

/* ---------------------------------------------------------------- threads of a block */

/** A plan with more operations: the threads of its last block that have to meet. */
typedef struct synced {
    ccl_i_mpp_t plan;
    bool apart; /* some threads are behind others */
} synced_t;

static void meet(synced_t *s) {
    if (s->apart)
        ccl_i_mpp_add(&s->plan, (ccl_i_mpp_op_t){.kind = CCL_I_MPP_NOP}, NULL, 0);
    s->apart = false;
}

/**
 * A block that has no room for another operation goes on as a block that waits for its end.
 * Packets are made and passed on in one block.
 */
static void go_on(synced_t *s, uint32_t rank, bool makes_packets) {
    /* the operation and the release, each with a nop */
    const uint32_t room = makes_packets ? 6 : 4;
    uint32_t *semaphores = &s->plan.gpus[rank].nsemaphores;
    if (s->plan.nomem || s->plan.blocks[s->plan.nblocks - 1].nops + room <= CCL_I_MPP_OPS)
        return;
    meet(s);
    ccl_i_mpp_add(&s->plan, (ccl_i_mpp_op_t){.kind = CCL_I_MPP_RELEASE}, semaphores, 1);
    ccl_i_mpp_block(&s->plan, rank);
    ccl_i_mpp_add(&s->plan, (ccl_i_mpp_op_t){.kind = CCL_I_MPP_ACQUIRE}, semaphores, 1);
    ++*semaphores;
    s->apart = true;
}

/*
 * One thread per channel signals, waits, acquires and releases, all threads move data, and thread 0
 * hands puts to a port. So threads must meet after a wait, before others hear of what was moved,
 * and between two moves.
 */
ccl_status_t ccl_i_mpp_sync(ccl_i_mpp_t *plan, ccl_error_t *err) {
    synced_t s = {.plan = {.ngpus = plan->ngpus,
                           .gpus = plan->gpus,
                           .packets = plan->packets,
                           .nomem = plan->nomem}};
    for (uint32_t r = 0; r < plan->ngpus; r++)
        plan->gpus[r].nblocks = 0;
    for (uint32_t b = 0; b < plan->nblocks && !s.plan.nomem; b++) {
        const ccl_i_mpp_block_t *block = &plan->blocks[b];
        s.apart = false;
        ccl_i_mpp_block(&s.plan, block->rank);
        for (uint32_t i = block->first; i < block->first + block->nops; i++) {
            const ccl_i_mpp_op_t *op = &plan->ops[i];
            bool waits = op->kind == CCL_I_MPP_WAIT || op->kind == CCL_I_MPP_ACQUIRE;
            if (i == block->first || op[-1].kind != CCL_I_MPP_PACK)
                go_on(&s, block->rank, op->kind == CCL_I_MPP_PACK);
            if (!waits)
                meet(&s);
            s.apart = s.apart || waits || op->kind >= CCL_I_MPP_PUT;
            ccl_i_mpp_add(&s.plan, *op, plan->ids + op->first, op->n);
        }
    }
    free(plan->blocks);
    free(plan->ops);
    free(plan->ids);
    *plan = s.plan;
    return plan->nomem ? ccl_fail_nomem(err) : CCL_OK;
}
