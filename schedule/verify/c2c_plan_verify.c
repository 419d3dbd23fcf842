/* Plans between clusters: what they send across borders beside a schedule, and whether every rank
   has everything in the end. */
#include "schedule/c2c_plan_i.h"

#include <stdlib.h>
#include <string.h>

typedef struct check {
    const ccl_schedule_t *schedule;
    const ccl_c2c_groups_t *groups;
    const ccl_c2c_plan_t *const *plans;
    uint32_t nchunks, block;
    uint32_t *first, *size; /* [nclusters] */
    bool *has;              /* [nranks][nchunks] in its output */
    bool *crossed;          /* [nranks][nchunks] received from another cluster */
    uint32_t messages;      /* chunks that crossed */
    ccl_error_t *err;
} check_t;

#define WRONG(c_, ...) ccl_fail((c_)->err, CCL_CHECK, __VA_ARGS__)

static bool *at(const check_t *c, uint32_t rank, uint32_t chunk) {
    return &c->has[(size_t)rank * c->nchunks + chunk];
}

/* Own data of a rank: element `offset` of its input. */
static bool own(const check_t *c, uint32_t rank, uint32_t chunk) {
    return c->schedule->coll->chunks[chunk].sources[0] == rank;
}

static bool in_range(const check_t *c, uint32_t offset, uint32_t count) {
    return count > 0 && offset < c->nchunks && count <= c->nchunks - offset;
}

/* A call of the whole cluster `q`, as its first rank has it. */
static ccl_status_t call(check_t *c, uint32_t q, const ccl_c2c_call_t *k) {
    uint32_t first = c->first[q], n = c->size[q];
    if (k->op == CCL_C2C_ALLGATHER) {
        if (k->send_buf != 0 || k->recv_buf != 1 || k->send_off != 0 || k->count != c->block ||
            k->recv_off != first * c->block)
            return WRONG(c, "the AllGather of the cluster of rank %u is not of its ranks' blocks",
                         first);
        for (uint32_t r = first; r < first + n; r++) {
            for (uint32_t i = 0; i < n * c->block; i++)
                *at(c, r, k->recv_off + i) = true;
        }
        return CCL_OK;
    }
    if (k->op != CCL_C2C_BROADCAST || k->root < 0 || (uint32_t)k->root >= n || k->recv_buf != 1 ||
        k->send_off != k->recv_off || !in_range(c, k->send_off, k->count))
        return WRONG(c, "a call in the cluster of rank %u that is neither AllGather nor Broadcast",
                     first);
    for (uint32_t i = k->send_off; i < k->send_off + k->count; i++) {
        uint32_t root = first + (uint32_t)k->root;
        if (k->send_buf == 0 ? !own(c, root, i) : !*at(c, root, i))
            return WRONG(c, "rank %u broadcasts chunk %u before it has it", root, i);
        for (uint32_t r = first; r < first + n; r++)
            *at(c, r, i) = true;
    }
    return CCL_OK;
}

/* Calls of a step: all ranks of a cluster make the same. */
static ccl_status_t calls(check_t *c, bool post, uint32_t step) {
    for (uint32_t q = 0; q < c->groups->nclusters; q++) {
        const ccl_c2c_plan_t *p = c->plans[c->first[q]];
        const ccl_c2c_call_t *mine = post ? p->post : p->pre;
        uint32_t n = post ? p->npost : p->npre;
        for (uint32_t r = c->first[q] + 1; r < c->first[q] + c->size[q]; r++) {
            const ccl_c2c_plan_t *o = c->plans[r];
            const ccl_c2c_call_t *theirs = post ? o->post : o->pre;
            if ((post ? o->npost : o->npre) != n || memcmp(mine, theirs, n * sizeof *mine) != 0)
                return WRONG(c, "ranks %u and %u of a cluster make different calls", c->first[q],
                             r);
        }
        for (uint32_t i = 0; i < n; i++) {
            if (mine[i].step == step)
                CCL_TRY(call(c, q, &mine[i]));
        }
    }
    return CCL_OK;
}

/* The k-th message of a step from `src` to `dst`. */
static const ccl_c2c_message_t *sent(const check_t *c, uint32_t src, uint32_t dst, uint32_t step,
                                     uint32_t k) {
    const ccl_c2c_plan_t *p = c->plans[src];
    for (uint32_t i = 0; i < p->nmessages; i++) {
        const ccl_c2c_message_t *m = &p->messages[i];
        if (m->step == step && m->peer == dst && !m->receives && k-- == 0)
            return m;
    }
    return NULL;
}

/* What a message brings; it leaves the input where calls go on beside it, else the output. */
static ccl_status_t message(check_t *c, uint32_t src, const ccl_c2c_message_t *from, uint32_t dst,
                            const ccl_c2c_message_t *to) {
    bool input = c->schedule->coll->kind == CCL_ALLGATHER && c->plans[src]->pipe_pre > 0;
    uint32_t shift = input ? src * c->block : 0;
    if (!in_range(c, to->offset, to->count) || from->count != to->count ||
        from->offset + shift != to->offset)
        return WRONG(c, "rank %u sends %u chunks from %u, rank %u takes %u to %u", src, from->count,
                     from->offset + shift, dst, to->count, to->offset);
    for (uint32_t i = to->offset; i < to->offset + to->count; i++) {
        if (input ? !own(c, src, i) : !*at(c, src, i))
            return WRONG(c, "rank %u sends chunk %u to rank %u before it has it", src, i, dst);
        c->crossed[(size_t)dst * c->nchunks + i] = true;
        c->messages++;
    }
    return CCL_OK;
}

/* All send what they had before the step. */
static ccl_status_t messages(check_t *c, uint32_t step) {
    uint32_t taken = 0, given = 0;
    for (uint32_t r = 0; r < c->groups->nranks; r++) {
        const ccl_c2c_plan_t *p = c->plans[r];
        for (uint32_t i = 0, k = 0; i < p->nmessages; i++) {
            const ccl_c2c_message_t *m = &p->messages[i], *from;
            if (m->step != step)
                continue;
            given += !m->receives;
            if (!m->receives)
                continue;
            if (m->peer >= c->groups->nranks || c->groups->of[m->peer] == c->groups->of[r])
                return WRONG(c, "rank %u receives from rank %u, which is in no other cluster", r,
                             m->peer);
            k = i > 0 && p->messages[i - 1].step == step && p->messages[i - 1].receives &&
                        p->messages[i - 1].peer == m->peer
                    ? k + 1
                    : 0;
            from = sent(c, m->peer, r, step, k);
            if (!from)
                return WRONG(c, "rank %u waits in step %u for rank %u, which does not send", r,
                             step, m->peer);
            CCL_TRY(message(c, m->peer, from, r, m));
            taken++;
        }
    }
    if (taken != given)
        return WRONG(c, "step %u has %u messages that nobody receives", step, given - taken);
    return CCL_OK;
}

static void arrive(check_t *c) {
    for (size_t i = 0; i < (size_t)c->groups->nranks * c->nchunks; i++)
        c->has[i] = c->has[i] || c->crossed[i];
}

static ccl_status_t run(check_t *c) {
    const ccl_c2c_plan_t *p = c->plans[0];
    uint32_t nmessages = p->pipe_pre + p->seq_inter + p->pipe_post;
    for (uint32_t s = 0; s < p->seq_pre; s++)
        CCL_TRY(calls(c, false, s));
    for (uint32_t s = 0; s < nmessages; s++) {
        CCL_TRY(messages(c, s)); /* beside calls, whose results it does not see */
        if (s < p->pipe_pre)
            CCL_TRY(calls(c, false, p->seq_pre + s));
        else if (s >= p->pipe_pre + p->seq_inter)
            CCL_TRY(calls(c, true, s - p->pipe_pre - p->seq_inter));
        arrive(c);
    }
    for (uint32_t s = 0; s < p->seq_post; s++)
        CCL_TRY(calls(c, true, p->pipe_post + s));
    return CCL_OK;
}

ccl_status_t ccl_i_c2c_same_borders(const ccl_schedule_t *schedule, const ccl_c2c_groups_t *groups,
                                    const bool *crossed, uint32_t nchunks, uint32_t messages,
                                    ccl_error_t *err) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < schedule->ntransfers; i++) {
        const ccl_transfer_t *t = &schedule->transfers[i];
        if (groups->of[t->src] == groups->of[t->dst])
            continue;
        n++;
        if (!crossed[(size_t)t->dst * nchunks + t->chunk])
            return ccl_fail(err, CCL_CHECK,
                            "the schedule sends chunk %u to rank %u, the plans do not", t->chunk,
                            t->dst);
    }
    if (n != messages)
        return ccl_fail(err, CCL_CHECK, "%u chunks cross borders in the plans, %u in the schedule",
                        messages, n);
    return CCL_OK;
}

static ccl_status_t right(const check_t *c) {
    CCL_TRY(ccl_i_c2c_same_borders(c->schedule, c->groups, c->crossed, c->nchunks, c->messages,
                                   c->err));
    for (size_t i = 0; i < (size_t)c->groups->nranks * c->nchunks; i++) {
        if (!c->has[i])
            return WRONG(c, "rank %u ends without chunk %u", (uint32_t)(i / c->nchunks),
                         (uint32_t)(i % c->nchunks));
    }
    return CCL_OK;
}

static ccl_status_t same_steps(const check_t *c) {
    for (uint32_t r = 0; r < c->groups->nranks; r++) {
        const ccl_c2c_plan_t *a = c->plans[0], *b = c->plans[r];
        if (b->rank != r || b->nchunks != c->nchunks || a->seq_pre != b->seq_pre ||
            a->pipe_pre != b->pipe_pre || a->seq_inter != b->seq_inter ||
            a->pipe_post != b->pipe_post || a->seq_post != b->seq_post)
            return WRONG(c, "the plan of rank %u has other chunks or steps than rank 0's", r);
        if (b->ninter > 0)
            return WRONG(c, "rank %u has calls among border ranks, which only sums need", r);
    }
    return CCL_OK;
}

ccl_status_t ccl_c2c_plans_verify(const ccl_schedule_t *schedule, const ccl_c2c_groups_t *groups,
                                  const ccl_c2c_plan_t *const *plans, ccl_error_t *err) {
    if (ccl_i_c2c_plan_sums(schedule->coll))
        return ccl_i_c2c_plans_verify_sums(schedule, groups, plans, err);
    check_t c = {.schedule = schedule,
                 .groups = groups,
                 .plans = plans,
                 .nchunks = schedule->coll->nchunks,
                 .block = schedule->coll->chunks_per_block,
                 .err = err};
    size_t cells = (size_t)groups->nranks * c.nchunks;
    ccl_status_t status = CCL_OK;
    c.first = malloc(groups->nclusters * sizeof *c.first);
    c.size = calloc(groups->nclusters, sizeof *c.size);
    c.has = calloc(cells, sizeof *c.has);
    c.crossed = calloc(cells, sizeof *c.crossed);
    if (!c.first || !c.size || !c.has || !c.crossed)
        status = ccl_fail_nomem(err);
    for (uint32_t r = 0; status == CCL_OK && r < groups->nranks; r++) {
        if (c.size[groups->of[r]]++ == 0)
            c.first[groups->of[r]] = r;
    }
    if (status == CCL_OK)
        status = same_steps(&c);
    if (status == CCL_OK)
        status = run(&c);
    if (status == CCL_OK)
        status = right(&c);
    free(c.first);
    free(c.size);
    free(c.has);
    free(c.crossed);
    return status;
}
