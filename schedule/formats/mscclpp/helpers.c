/*
 * Blocks of a plan of MSCCL++ that wait and signal for another one, which has no room for more
 * channels (spread.c): what they do goes back into that block.
 */
#include "schedule/formats/mscclpp/plan_i.h"

#include <stdlib.h>
#include <string.h>

typedef struct joiner {
    ccl_i_mpp_t *from, to;
    /* Of all semaphores of all GPUs: the only operations that release and acquire it. */
    size_t *first;                            /* [ngpus + 1] of a GPU's semaphores */
    uint32_t *releases, *acquires, *block_of; /* CCL_NONE: none, or several; block_of: [ops] */
    uint32_t *instead; /* [semaphores] the operation of a helper that it stands for; CCL_NONE */
    bool *helps;       /* [blocks] */
} joiner_t;

static bool is(const ccl_i_mpp_op_t *op, ccl_i_mpp_kind_t kind) {
    return op->kind == kind;
}

static uint32_t *slot(joiner_t *j, uint32_t *of, uint32_t block, uint32_t semaphore) {
    return &of[j->first[j->from->blocks[block].rank] + semaphore];
}

static bool prepare(joiner_t *j) {
    const ccl_i_mpp_t *p = j->from;
    j->first = calloc(p->ngpus + 2, sizeof *j->first);
    j->helps = calloc(p->nblocks + 1, sizeof *j->helps);
    j->block_of = calloc(p->nops + 1, sizeof *j->block_of);
    if (!j->first || !j->helps || !j->block_of)
        return false;
    for (size_t g = 0; g < p->ngpus; g++)
        j->first[g + 1] = j->first[g] + p->gpus[g].nsemaphores;
    size_t n = j->first[p->ngpus] + 1;
    j->releases = malloc(n * sizeof *j->releases);
    j->acquires = malloc(n * sizeof *j->acquires);
    j->instead = malloc(n * sizeof *j->instead);
    if (!j->releases || !j->acquires || !j->instead)
        return false;
    memset(j->releases, 0xff, n * sizeof *j->releases); /* CCL_NONE */
    memset(j->acquires, 0xff, n * sizeof *j->acquires);
    memset(j->instead, 0xff, n * sizeof *j->instead);
    for (uint32_t b = 0; b < p->nblocks; b++) {
        for (uint32_t o = p->blocks[b].first; o < p->blocks[b].first + p->blocks[b].nops; o++) {
            const ccl_i_mpp_op_t *op = &p->ops[o];
            j->block_of[o] = b;
            for (uint32_t k = 0; k < op->n; k++) {
                if (is(op, CCL_I_MPP_RELEASE))
                    *slot(j, j->releases, b, p->ids[op->first + k]) = o;
                else if (is(op, CCL_I_MPP_ACQUIRE))
                    *slot(j, j->acquires, b, p->ids[op->first + k]) = o;
            }
        }
    }
    return true;
}

/** A block that does nothing but wait and then release, or acquire and then signal. */
static bool only_helps(joiner_t *j, uint32_t b) {
    const ccl_i_mpp_t *p = j->from;
    const ccl_i_mpp_block_t *block = &p->blocks[b];
    bool some = false;
    for (uint32_t i = 0; i < block->nops; i++) {
        const ccl_i_mpp_op_t *op = &p->ops[block->first + i];
        bool waits = is(op, CCL_I_MPP_WAIT), signals = is(op, CCL_I_MPP_SIGNAL);
        if (!waits && !signals) {
            if (!(is(op, CCL_I_MPP_ACQUIRE) || is(op, CCL_I_MPP_RELEASE)) || op->n != 1)
                return false;
            continue;
        }
        const ccl_i_mpp_op_t *meet = waits ? op + 1 : op - 1;
        if (waits ? i + 1 == block->nops : i == 0)
            return false;
        if (!is(meet, waits ? CCL_I_MPP_RELEASE : CCL_I_MPP_ACQUIRE) || meet->n != 1)
            return false;
        uint32_t other = *slot(j, waits ? j->acquires : j->releases, b, p->ids[meet->first]);
        if (other == CCL_NONE || j->block_of[other] == b)
            return false;
        some = true;
    }
    return some;
}

static void stand_for(joiner_t *j, uint32_t b) {
    const ccl_i_mpp_block_t *block = &j->from->blocks[b];
    j->helps[b] = true;
    for (uint32_t o = block->first; o < block->first + block->nops; o++) {
        const ccl_i_mpp_op_t *op = &j->from->ops[o];
        bool waits = is(op, CCL_I_MPP_WAIT);
        if (!waits && !is(op, CCL_I_MPP_SIGNAL))
            continue;
        const ccl_i_mpp_op_t *meet = waits ? op + 1 : op - 1;
        *slot(j, j->instead, b, j->from->ids[meet->first]) = o;
    }
}

/** An operation of a block that is helped: semaphores that stand for others' become these. */
static void put_back(joiner_t *j, uint32_t b, const ccl_i_mpp_op_t *op) {
    const ccl_i_mpp_t *p = j->from;
    bool meets = is(op, CCL_I_MPP_ACQUIRE) || is(op, CCL_I_MPP_RELEASE);
    if (!meets) {
        ccl_i_mpp_add(&j->to, *op, p->ids + op->first, op->n);
        return;
    }
    for (uint32_t k = 0; k < op->n; k++) {
        uint32_t id = p->ids[op->first + k], o = *slot(j, j->instead, b, id);
        if (o == CCL_NONE) {
            ccl_i_mpp_add(&j->to, *op, &id, 1);
            continue;
        }
        ccl_i_mpp_op_t told = p->ops[o];
        told.block = op->block;
        told.where = op->where;
        ccl_i_mpp_add(&j->to, told, p->ids + told.first, told.n);
    }
}

ccl_status_t ccl_i_mpp_join_helpers(ccl_i_mpp_t *plan, ccl_error_t *err) {
    joiner_t j = {.from = plan, .to = {.ngpus = plan->ngpus, .gpus = plan->gpus}};
    bool ok = prepare(&j), some = false;
    for (uint32_t b = 0; ok && b < plan->nblocks; b++) {
        if (only_helps(&j, b)) {
            stand_for(&j, b);
            some = true;
        }
    }
    if (ok && some) {
        for (uint32_t r = 0; r < plan->ngpus; r++)
            plan->gpus[r].nblocks = 0;
        for (uint32_t b = 0; b < plan->nblocks; b++) {
            const ccl_i_mpp_block_t *block = &plan->blocks[b];
            ccl_i_mpp_block(&j.to, block->rank);
            for (uint32_t i = 0; !j.helps[b] && i < block->nops && !j.to.nomem; i++)
                put_back(&j, b, &plan->ops[block->first + i]);
        }
        free(plan->blocks);
        free(plan->ops);
        free(plan->ids);
        *plan = j.to;
    }
    free(j.first);
    free(j.helps);
    free(j.block_of);
    free(j.releases);
    free(j.acquires);
    free(j.instead);
    return ok && !plan->nomem ? CCL_OK : ccl_fail_nomem(err);
}
