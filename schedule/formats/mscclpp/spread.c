/*
 * Blocks of a plan of MSCCL++ that meet more GPUs than one block has channels for, as the block
 * that pulls from and stores to a large group does: helpers wait and signal on the rest.
 */
#include "schedule/formats/mscclpp/plan_i.h"

#include <stdlib.h>
#include <string.h>

typedef struct spread {
    const ccl_i_mpp_t *from;
    ccl_i_mpp_t to;
    uint32_t rank, nhelpers;
    uint32_t *helper[CCL_I_MPP_NTYPES]; /* by channel of the GPU: 0: the block itself */
    uint32_t *semaphore;                /* [ops of the block][nhelpers] */
} spread_t;

static bool tells(const ccl_i_mpp_op_t *op) {
    return op->kind == CCL_I_MPP_SIGNAL || op->kind == CCL_I_MPP_WAIT;
}

/** Channels that a block uses; the first are those that it must keep, as it puts data on them. */
static uint32_t used(const ccl_i_mpp_t *plan, const ccl_i_mpp_block_t *b, uint32_t type,
                     uint32_t *list, uint32_t *mark) {
    uint32_t n = 0;
    for (int keep = 1; keep >= 0; keep--) {
        for (uint32_t i = b->first; i < b->first + b->nops; i++) {
            const ccl_i_mpp_op_t *op = &plan->ops[i];
            bool on = tells(op) || op->kind == CCL_I_MPP_FLUSH || ccl_i_mpp_puts(op);
            if (!on || op->type != type || tells(op) == (keep == 1))
                continue;
            for (uint32_t k = 0; k < op->n; k++) {
                uint32_t id = plan->ids[op->first + k];
                if (mark[id] == CCL_NONE)
                    continue;
                mark[id] = CCL_NONE;
                list[n++] = id;
            }
        }
    }
    return n;
}

/** Who has which channel: the block the first ones, each helper as many. */
static ccl_status_t share(spread_t *s, const ccl_i_mpp_block_t *b, ccl_error_t *err) {
    const ccl_i_mpp_gpu_t *gpu = &s->from->gpus[b->rank];
    s->nhelpers = 0;
    for (uint32_t type = 0; type < CCL_I_MPP_NTYPES; type++) {
        uint32_t n = gpu->nchannels[type];
        uint32_t *list = calloc(n + (size_t)1, sizeof *list);
        free(s->helper[type]);
        s->helper[type] = calloc(n + (size_t)1, sizeof *s->helper[type]);
        if (!list || !s->helper[type]) {
            free(list);
            return ccl_fail_nomem(err);
        }
        n = used(s->from, b, type, list, s->helper[type]);
        memset(s->helper[type], 0, gpu->nchannels[type] * sizeof *s->helper[type]);
        for (uint32_t i = CCL_I_MPP_CHANNELS; i < n; i++) {
            s->helper[type][list[i]] = i / CCL_I_MPP_CHANNELS;
            s->nhelpers =
                i / CCL_I_MPP_CHANNELS > s->nhelpers ? i / CCL_I_MPP_CHANNELS : s->nhelpers;
        }
        free(list);
    }
    return CCL_OK;
}

/** Channels of an operation that one of them has. */
static uint32_t part(const spread_t *s, const ccl_i_mpp_op_t *op, uint32_t who, uint32_t *out) {
    uint32_t n = 0;
    for (uint32_t k = 0; k < op->n; k++) {
        uint32_t id = s->from->ids[op->first + k];
        if (s->helper[op->type][id] == who)
            out[n++] = id;
    }
    return n;
}

/** Waits come first at the helper, which then releases; signals follow what the block releases. */
static void one(spread_t *s, const ccl_i_mpp_op_t *op, uint32_t *semaphores, uint32_t who) {
    uint32_t ids[CCL_I_MPP_OP_CHANNELS], with[CCL_I_MPP_OP_SEMAPHORES], nwith = 0;
    uint32_t n = part(s, op, who, ids);
    bool waits = op->kind == CCL_I_MPP_WAIT;
    for (uint32_t h = 1; h <= s->nhelpers && nwith < CCL_I_MPP_OP_SEMAPHORES; h++) {
        uint32_t other[CCL_I_MPP_OP_CHANNELS];
        if ((who == 0 || who == h) && part(s, op, h, other) > 0) {
            if (semaphores[h - 1] == CCL_NONE)
                semaphores[h - 1] = s->to.gpus[s->rank].nsemaphores++;
            with[nwith++] = semaphores[h - 1];
        }
    }
    ccl_i_mpp_op_t own = *op, meet = {.kind = CCL_I_MPP_RELEASE};
    if (waits == (who == 0))
        meet.kind = CCL_I_MPP_ACQUIRE;
    if (who && !waits && nwith)
        ccl_i_mpp_add(&s->to, meet, with, nwith);
    if (n > 0)
        ccl_i_mpp_add(&s->to, own, ids, n);
    if ((!who || waits) && nwith)
        ccl_i_mpp_add(&s->to, meet, with, nwith);
}

static ccl_status_t block(spread_t *s, const ccl_i_mpp_block_t *b, ccl_error_t *err) {
    const ccl_i_mpp_t *from = s->from;
    s->rank = b->rank;
    CCL_TRY(share(s, b, err));
    if (s->nhelpers > CCL_I_MPP_OP_SEMAPHORES)
        return ccl_fail(err, CCL_UNSUPPORTED,
                        "rank %u block %u meets more GPUs than MSCCL++ has room for: %u channels "
                        "for it and each of %u helpers",
                        b->rank, b->id, CCL_I_MPP_CHANNELS, CCL_I_MPP_OP_SEMAPHORES);
    free(s->semaphore);
    size_t n = (size_t)b->nops * s->nhelpers + 1;
    s->semaphore = malloc(n * sizeof *s->semaphore);
    if (!s->semaphore)
        return ccl_fail_nomem(err);
    memset(s->semaphore, 0xff, n * sizeof *s->semaphore); /* CCL_NONE */
    for (uint32_t who = 0; who <= s->nhelpers; who++) {
        ccl_i_mpp_block(&s->to, b->rank);
        for (uint32_t i = 0; i < b->nops && !s->to.nomem; i++) {
            const ccl_i_mpp_op_t *op = &from->ops[b->first + i];
            if (tells(op))
                one(s, op, &s->semaphore[(size_t)i * s->nhelpers], who);
            else if (who == 0)
                ccl_i_mpp_add(&s->to, *op, from->ids + op->first, op->n);
        }
    }
    return CCL_OK;
}

ccl_status_t ccl_i_mpp_spread(ccl_i_mpp_t *plan, ccl_error_t *err) {
    spread_t s = {.from = plan,
                  .to = {.ngpus = plan->ngpus, .gpus = plan->gpus, .packets = plan->packets}};
    ccl_status_t status = CCL_OK;
    for (uint32_t r = 0; r < plan->ngpus; r++)
        plan->gpus[r].nblocks = 0;
    for (size_t b = 0; b < plan->nblocks && status == CCL_OK; b++)
        status = block(&s, &plan->blocks[b], err);
    for (uint32_t type = 0; type < CCL_I_MPP_NTYPES; type++)
        free(s.helper[type]);
    free(s.semaphore);
    free(plan->blocks);
    free(plan->ops);
    free(plan->ids);
    *plan = s.to;
    return status == CCL_OK && plan->nomem ? ccl_fail_nomem(err) : status;
}
