/*
 * Limits of the executors that run MSCCL XML.
 *
 * Source: MSCCL's parser as RCCL and msccl-executor-nccl carry it (msccl_parser.cc,
 * msccl_struct.h): steps and counts are fixed arrays, `s` is compared with the number of steps,
 * blocks on one channel of a GPU share an array of peers, and the waits of nops go to the next
 * instruction, which must wait itself.
 */
#include "schedule/verify/verify.h"

#include <stdio.h>
#include <string.h>

#define NEW_DIALECT (CCL_ATTRIBUTE_OUTOFPLACE | CCL_ATTRIBUTE_MINBYTES | CCL_ATTRIBUTE_MAXBYTES)

static const ccl_executor_limits_t limits_of[] = {
    [CCL_EXECUTOR_ANY] = {"", UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX},
    [CCL_EXECUTOR_MSCCL] = {"msccl", 64, 1024, 32, 71, 32},
    [CCL_EXECUTOR_RCCL] = {"rccl", 64, 64, 32, 71, 32},
    [CCL_EXECUTOR_MSCCL_OLD] = {"msccl-old", 256, 1024, 32, 71, 32},
};

/* CCL_ATTRIBUTE_*: its parser skips a file without them, silently. */
static const uint32_t needs_of[] = {
    [CCL_EXECUTOR_ANY] = 0,
    [CCL_EXECUTOR_MSCCL] = NEW_DIALECT,
    [CCL_EXECUTOR_RCCL] = NEW_DIALECT,
    [CCL_EXECUTOR_MSCCL_OLD] = 0,
};

const ccl_executor_limits_t *ccl_executor_limits(ccl_executor_t executor) {
    return &limits_of[executor <= CCL_EXECUTOR_MSCCL_OLD ? executor : CCL_EXECUTOR_ANY];
}

static void check_attributes(const ccl_program_t *p, ccl_executor_t executor, ccl_verdict_t *v) {
    static const char *const names[] = {"outofplace", "minBytes", "maxBytes"};
    uint32_t missing =
        p->missing_attributes & needs_of[executor <= CCL_EXECUTOR_MSCCL_OLD ? executor : 0];
    char list[64] = "";
    if (!missing)
        return;
    for (size_t i = 0; i < CCL_ARRAY_LEN(names); i++) {
        if (missing >> i & 1)
            snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", *list ? ", " : "",
                     names[i]);
    }
    ccl_i_fault(v, "limit", CCL_NONE, CCL_NONE, CCL_NONE, CCL_NONE,
                "the file lacks %s of algo: %s skips such a file without a word", list,
                ccl_executor_limits(executor)->name);
}

static void check_tb(const ccl_program_t *p, const ccl_executor_limits_t *limit, uint32_t t,
                     ccl_verdict_t *v) {
    const ccl_tb_t *tb = &p->tbs[t];
    if (tb->channel >= limit->channels)
        ccl_i_fault(v, "limit", tb->rank, tb->id, CCL_NONE, CCL_NONE,
                    "rank %u block %u uses channel %u: %s has channels 0 to %u", tb->rank, tb->id,
                    tb->channel, limit->name, limit->channels - 1);
    if (ccl_program_tb_shared(p, tb))
        ccl_i_fault(v, "limit", tb->rank, tb->id, CCL_NONE, CCL_NONE,
                    "rank %u block %u serves several connections: %s takes one peer to send to and "
                    "one to receive from",
                    tb->rank, tb->id, limit->name);
    bool open = false; /* nops before this step wait for others */
    for (uint32_t i = 0; i < tb->nsteps && v->valid; i++) {
        const ccl_step_t *s = &p->steps[tb->first_step + i];
        uint32_t number = ccl_program_mark(p, tb, tb->first_step + i).s;
        number = number > i ? number : i;
        ccl_i_place_t place = ccl_i_place(p, t, i);
        if (number >= limit->steps)
            ccl_i_fault(v, "limit", tb->rank, tb->id, i, CCL_NONE,
                        "%s is number %u of its block: %s takes at most %u", place.text, number + 1,
                        limit->name, limit->steps);
        if (s->type == CCL_PRIM_NOP) {
            open = open || s->dep_tb != CCL_NONE;
            continue;
        }
        if (s->count > limit->count)
            ccl_i_fault(v, "limit", tb->rank, tb->id, i, CCL_NONE,
                        "%s has count %u: %s takes at most %u", place.text, s->count, limit->name,
                        limit->count);
        if (open && s->dep_tb == CCL_NONE)
            ccl_i_fault(v, "limit", tb->rank, tb->id, i, CCL_NONE,
                        "%s follows nops that wait and must wait itself: %s reads the last wait of "
                        "a chain from the instruction",
                        place.text, limit->name);
        open = false;
        if (s->dep_tb == tb->id && s->dep_step < tb->nsteps &&
            !p->steps[tb->first_step + s->dep_step].has_dep)
            ccl_i_fault(v, "limit", tb->rank, tb->id, i, CCL_NONE,
                        "%s waits for step %u of its own block, which has hasdep=0: %s would hang",
                        place.text, s->dep_step, limit->name);
    }
}

/** Blocks of one rank that send (receive) on one channel. */
static void check_channels(const ccl_program_t *p, const ccl_executor_limits_t *limit,
                           uint32_t rank, ccl_verdict_t *v) {
    uint32_t sends[64] = {0}, receives[64] = {0};
    for (uint32_t t = p->rank_first_tb[rank]; t < p->rank_first_tb[rank + 1]; t++) {
        const ccl_tb_t *tb = &p->tbs[t];
        if (tb->channel >= CCL_ARRAY_LEN(sends))
            continue;
        bool many_sends =
            tb->send_peer != CCL_NONE && ++sends[tb->channel] > limit->tbs_per_channel;
        bool many_receives =
            tb->recv_peer != CCL_NONE && ++receives[tb->channel] > limit->tbs_per_channel;
        if (many_sends || many_receives)
            ccl_i_fault(
                v, "limit", rank, tb->id, CCL_NONE, CCL_NONE,
                "rank %u block %u is one of more than %u that %s on channel %u: %s takes at "
                "most %u",
                rank, tb->id, limit->tbs_per_channel, many_sends ? "send" : "receive", tb->channel,
                limit->name, limit->tbs_per_channel);
    }
}

void ccl_i_check_executor(const ccl_program_t *program, ccl_executor_t executor,
                          ccl_verdict_t *verdict) {
    const ccl_program_t *p = program;
    const ccl_executor_limits_t *limit = ccl_executor_limits(executor);
    check_attributes(p, executor, verdict);
    if (verdict->valid && p->ngroups > 0)
        ccl_i_fault(verdict, "limit", CCL_NONE, CCL_NONE, CCL_NONE, CCL_NONE,
                    "the program multicasts or reduces in switches: %s has no such connections",
                    limit->name);
    if (verdict->valid && p->nchannels > limit->channels)
        ccl_i_fault(verdict, "limit", CCL_NONE, CCL_NONE, CCL_NONE, CCL_NONE,
                    "the program has %u channels: %s takes at most %u", p->nchannels, limit->name,
                    limit->channels);
    for (uint32_t r = 0; r < p->nranks && verdict->valid; r++) {
        uint32_t ntbs = p->rank_first_tb[r + 1] - p->rank_first_tb[r];
        if (ntbs > limit->tbs)
            ccl_i_fault(verdict, "limit", r, CCL_NONE, CCL_NONE, CCL_NONE,
                        "rank %u has %u blocks: %s takes at most %u", r, ntbs, limit->name,
                        limit->tbs);
        for (uint32_t t = p->rank_first_tb[r]; t < p->rank_first_tb[r + 1] && verdict->valid; t++)
            check_tb(p, limit, t, verdict);
        if (verdict->valid)
            check_channels(p, limit, r, verdict);
    }
}
