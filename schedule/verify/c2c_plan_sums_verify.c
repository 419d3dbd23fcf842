/*
 * Plans with sums, run as FlagCX runs them, on sets: which ranks' data a place holds the sum of.
 * What nobody wrote holds nothing that may be added; what was set to zero holds the empty sum.
 */
#include "schedule/c2c_plan_i.h"

#include <stdlib.h>
#include <string.h>

typedef struct check {
    const ccl_schedule_t *schedule;
    const ccl_c2c_groups_t *groups;
    const ccl_c2c_plan_t *const *plans;
    uint32_t nranks, nchunks, words, first[2], size[2];
    bool *known;    /* [3][nranks][nchunks] of input, output, scratch */
    uint64_t *sets; /* the same, [words] each */
    bool *crossed;  /* [nranks][nchunks] */
    uint64_t *sum;  /* [words] */
    uint32_t messages;
    ccl_error_t *err;
} check_t;

#define WRONG(c_, ...) ccl_fail((c_)->err, CCL_CHECK, __VA_ARGS__)

static size_t place(const check_t *c, uint32_t buffer, uint32_t rank, uint32_t chunk) {
    return ((size_t)buffer * c->nranks + rank) * c->nchunks + chunk;
}

static uint64_t *set_at(const check_t *c, size_t place) {
    return c->sets + place * c->words;
}

static void put(check_t *c, size_t to, const uint64_t *set) {
    c->known[to] = true;
    memmove(set_at(c, to), set, c->words * sizeof *set);
}

/** c->sum: of all ranks of cluster q. */
static ccl_status_t add_up(check_t *c, uint32_t q, uint32_t buffer, uint32_t chunk) {
    memset(c->sum, 0, c->words * sizeof *c->sum);
    for (uint32_t r = c->first[q]; r < c->first[q] + c->size[q]; r++) {
        size_t at = place(c, buffer, r, chunk);
        if (!c->known[at])
            return WRONG(c, "rank %u adds chunk %u, of which it has nothing", r, chunk);
        for (uint32_t w = 0; w < c->words; w++) {
            if (c->sum[w] & set_at(c, at)[w])
                return WRONG(c, "chunk %u of some rank is added twice in the cluster of rank %u",
                             chunk, c->first[q]);
            c->sum[w] |= set_at(c, at)[w];
        }
    }
    return CCL_OK;
}

static ccl_status_t call(check_t *c, uint32_t q, const ccl_c2c_call_t *k) {
    uint32_t n = k->op == CCL_C2C_REDUCESCATTER ? k->count * c->size[q] : k->count;
    bool rooted = k->op == CCL_C2C_REDUCE || k->op == CCL_C2C_BROADCAST;
    if ((!rooted && k->op != CCL_C2C_ALLREDUCE && k->op != CCL_C2C_REDUCESCATTER) || !k->count ||
        k->send_off + (uint64_t)n > c->nchunks || k->recv_off + (uint64_t)k->count > c->nchunks ||
        k->send_buf > 2 || k->recv_buf < 1 || k->recv_buf > 2 || k->scope == 1 ||
        (rooted && (k->root < 0 || (uint32_t)k->root >= c->size[q])))
        return WRONG(c, "a call in the cluster of rank %u that plans with sums have not",
                     c->first[q]);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t root = c->first[q] + (uint32_t)k->root, to = k->recv_off + i;
        size_t from = place(c, k->send_buf, root, k->send_off + i);
        if (k->op != CCL_C2C_BROADCAST)
            CCL_TRY(add_up(c, q, k->send_buf, k->send_off + i));
        else if (!c->known[from])
            return WRONG(c, "rank %u broadcasts chunk %u before it has it", root, k->send_off + i);
        else
            memcpy(c->sum, set_at(c, from), c->words * sizeof *c->sum);
        uint32_t lo = c->first[q], end = c->first[q] + c->size[q];
        if (k->op == CCL_C2C_REDUCE)
            lo = root, end = root + 1;
        if (k->op == CCL_C2C_REDUCESCATTER) {
            lo = c->first[q] + i / k->count, end = lo + 1;
            to = k->recv_off + i % k->count;
        }
        for (uint32_t r = lo; r < end; r++)
            put(c, place(c, k->recv_buf, r, to), c->sum);
    }
    return CCL_OK;
}

static const ccl_c2c_call_t *list(const ccl_c2c_plan_t *p, int which, uint32_t *n) {
    *n = which == 0 ? p->npre : which == 1 ? p->ninter : p->npost;
    return which == 0 ? p->pre : which == 1 ? p->inter : p->post;
}

/** Calls of a step of list `which`, the same at all ranks of a cluster. */
static ccl_status_t calls(check_t *c, int which, uint32_t step) {
    for (uint32_t q = 0; q < 2; q++) {
        uint32_t n, m;
        const ccl_c2c_call_t *mine = list(c->plans[c->first[q]], which, &n);
        for (uint32_t r = c->first[q]; r < c->first[q] + c->size[q]; r++) {
            const ccl_c2c_call_t *theirs = list(c->plans[r], which, &m);
            if (n != m || (n && memcmp(mine, theirs, n * sizeof *mine) != 0))
                return WRONG(c, "ranks %u and %u of a cluster make different calls", c->first[q],
                             r);
        }
        for (uint32_t i = 0; i < n; i++)
            if (mine[i].step == step)
                CCL_TRY(call(c, q, &mine[i]));
    }
    return CCL_OK;
}

static ccl_status_t refresh(check_t *c) {
    memset(c->sum, 0, c->words * sizeof *c->sum);
    for (uint32_t r = 0; r < c->nranks; r++) {
        const ccl_c2c_refresh_t *f = &c->plans[r]->refresh;
        if (f->op != CCL_C2C_SUM)
            continue;
        if (f->buffer < 1 || f->buffer > 2 || f->start + (uint64_t)f->total > c->nchunks ||
            f->offset + (uint64_t)f->count > f->total)
            return WRONG(c, "rank %u sets to zero what it has not", r);
        for (uint32_t i = 0; i < f->total; i++)
            if (i < f->offset || i >= f->offset + f->count)
                put(c, place(c, (uint32_t)f->buffer, r, f->start + i), c->sum);
    }
    return CCL_OK;
}

/** The message that meets the i-th of rank r: the k-th from that peer in its step. */
static const ccl_c2c_message_t *met(const check_t *c, uint32_t r, uint32_t i) {
    const ccl_c2c_message_t *m = &c->plans[r]->messages[i];
    const ccl_c2c_plan_t *p = c->plans[m->peer];
    uint32_t k = 0;
    for (uint32_t j = 0; j < i; j++) {
        const ccl_c2c_message_t *o = &c->plans[r]->messages[j];
        k += o->step == m->step && o->peer == m->peer && o->receives == m->receives;
    }
    for (uint32_t j = 0; j < p->nmessages; j++) {
        const ccl_c2c_message_t *o = &p->messages[j];
        if (o->step == m->step && o->peer == r && o->receives != m->receives && k-- == 0)
            return o;
    }
    return NULL;
}

static ccl_status_t messages(check_t *c, uint32_t step) {
    uint32_t buffer = c->schedule->coll->kind == CCL_REDUCESCATTER ? 2 : 1;
    for (uint32_t r = 0; r < c->nranks; r++) {
        for (uint32_t i = 0; i < c->plans[r]->nmessages; i++) {
            const ccl_c2c_message_t *m = &c->plans[r]->messages[i], *o;
            if (m->step != step)
                continue;
            if (m->peer >= c->nranks || c->groups->of[m->peer] == c->groups->of[r] || !m->count ||
                m->offset + (uint64_t)m->count > c->nchunks)
                return WRONG(c, "rank %u has a message with rank %u that is none", r, m->peer);
            o = met(c, r, i);
            if (!o || o->offset != m->offset || o->count != m->count)
                return WRONG(c, "rank %u's message of step %u with rank %u is not met", r, step,
                             m->peer);
            for (uint32_t k = m->offset; m->receives && k < m->offset + m->count; k++) {
                size_t from = place(c, buffer, m->peer, k);
                if (!c->known[from])
                    return WRONG(c, "rank %u sends chunk %u before it has it", m->peer, k);
                put(c, place(c, buffer, r, k), set_at(c, from));
                c->crossed[(size_t)r * c->nchunks + k] = true;
                c->messages++;
            }
        }
    }
    return CCL_OK;
}

/** As FlagCX does: zeros behind `pre`, and before each sequential step if no step is pipelined. */
static ccl_status_t run(check_t *c) {
    const ccl_c2c_plan_t *p = c->plans[0];
    bool plain = p->pipe_post == 0;
    for (uint32_t s = 0; s < p->seq_pre; s++)
        CCL_TRY(calls(c, 0, s));
    CCL_TRY(refresh(c));
    for (uint32_t s = 0; s < p->seq_inter; s++) {
        if (plain)
            CCL_TRY(refresh(c));
        CCL_TRY(messages(c, s));
        CCL_TRY(calls(c, 1, s));
    }
    for (uint32_t s = 0; s < p->pipe_post; s++) {
        CCL_TRY(calls(c, 2, s));
        CCL_TRY(messages(c, p->seq_inter + s));
        CCL_TRY(calls(c, 1, p->seq_inter + s));
    }
    for (uint32_t s = 0; s < p->seq_post; s++)
        CCL_TRY(calls(c, 2, p->pipe_post + s));
    return CCL_OK;
}

static ccl_status_t same_steps(const check_t *c) {
    const ccl_c2c_plan_t *a = c->plans[0];
    for (uint32_t r = 0; r < c->nranks; r++) {
        const ccl_c2c_plan_t *b = c->plans[r];
        if (b->rank != r || b->nchunks != c->nchunks || a->seq_pre != b->seq_pre || b->pipe_pre ||
            a->seq_inter != b->seq_inter || a->pipe_post != b->pipe_post ||
            a->seq_post != b->seq_post)
            return WRONG(c, "the plan of rank %u has other chunks or steps than rank 0's", r);
    }
    if (a->pipe_post == 0 && a->npost > 0)
        return WRONG(c, "calls behind sequential steps come after zeros");
    return CCL_OK;
}

static ccl_status_t right(const check_t *c) {
    const ccl_collective_t *coll = c->schedule->coll;
    CCL_TRY(ccl_i_c2c_same_borders(c->schedule, c->groups, c->crossed, c->nchunks, c->messages,
                                   c->err));
    for (uint32_t r = 0; r < c->nranks; r++) {
        uint32_t len = ccl_collective_output_len(coll, r);
        for (uint32_t i = 0; i < len; i++) {
            size_t at = place(c, 1, r, i);
            uint32_t held = 0;
            for (uint32_t q = 0; c->known[at] && q < c->nranks; q++)
                held += set_at(c, at)[q / 64] >> q % 64 & 1;
            if (held != c->nranks)
                return WRONG(c, "rank %u ends with %u of %u ranks' data in chunk %u", r, held,
                             c->nranks, i);
        }
    }
    return CCL_OK;
}

ccl_status_t ccl_i_c2c_plans_verify_sums(const ccl_schedule_t *schedule,
                                         const ccl_c2c_groups_t *groups,
                                         const ccl_c2c_plan_t *const *plans, ccl_error_t *err) {
    check_t c = {.schedule = schedule,
                 .groups = groups,
                 .plans = plans,
                 .nranks = groups->nranks,
                 .nchunks = schedule->coll->nchunks,
                 .words = (groups->nranks + 63) / 64,
                 .err = err};
    size_t cells = 3 * (size_t)c.nranks * c.nchunks;
    if (groups->nclusters != 2)
        return WRONG(&c, "plans with sums are of two clusters");
    for (uint32_t r = 0; r < c.nranks; r++)
        if (c.size[groups->of[r]]++ == 0)
            c.first[groups->of[r]] = r;
    c.known = calloc(cells, sizeof *c.known);
    c.sets = calloc(cells * c.words, sizeof *c.sets);
    c.crossed = calloc(cells, sizeof *c.crossed);
    c.sum = calloc(c.words, sizeof *c.sum);
    ccl_status_t status = c.known && c.sets && c.crossed && c.sum ? CCL_OK : ccl_fail_nomem(err);
    for (uint32_t r = 0; r < c.nranks && status == CCL_OK; r++)
        for (uint32_t k = 0; k < c.nchunks; k++) {
            c.known[place(&c, 0, r, k)] = true;
            set_at(&c, place(&c, 0, r, k))[r / 64] |= UINT64_C(1) << r % 64;
        }
    if (status == CCL_OK)
        status = same_steps(&c);
    if (status == CCL_OK)
        status = run(&c);
    if (status == CCL_OK)
        status = right(&c);
    free(c.known);
    free(c.sets);
    free(c.crossed);
    free(c.sum);
    return status;
}
