/*
 * Plans with sums between two clusters, as FlagCX reads them. A call of the vendor's library adds
 * what all ranks of a cluster have, so what comes over the border lands where only its rank has
 * something: first everything but the sums that a rank keeps is set to zero (RefreshFunc).
 */
#include "schedule/c2c_plan_i.h"

#include <stdlib.h>

/** Where a chunk is summed. */
typedef struct way {
    uint32_t keeper[2]; /* of the cluster that sends its sum, of the one that adds it */
    uint32_t lands;     /* rank of the other cluster */
    uint32_t back;      /* rank of the first cluster that gets the result; CCL_NONE: none */
    uint32_t ncrossings;
    uint8_t from; /* cluster that sends */
} way_t;

typedef struct sums {
    const ccl_schedule_t *schedule;
    const ccl_c2c_groups_t *groups;
    uint32_t first[2], size[2]; /* ranks of the clusters */
    uint32_t lo[2], end[2];     /* chunks that are summed there */
    way_t *ways;                /* [nchunks] */
} sums_t;

bool ccl_i_c2c_plan_sums(const ccl_collective_t *coll) {
    return coll->kind == CCL_ALLREDUCE || coll->kind == CCL_REDUCE ||
           coll->kind == CCL_REDUCESCATTER;
}

static ccl_status_t find_clusters(sums_t *s, ccl_error_t *err) {
    const ccl_c2c_groups_t *g = s->groups;
    if (g->nclusters != 2)
        return ccl_fail(
            err, CCL_UNSUPPORTED,
            "plans of %s are for two clusters, here are %u: with more, what lands would "
            "have to be set to zero between steps, which FlagCX does not do",
            s->schedule->coll->name, g->nclusters);
    for (uint32_t r = 0; r < g->nranks; r++) {
        uint32_t q = g->of[r];
        if (s->size[q]++ == 0)
            s->first[q] = r;
        else if (g->of[r - 1] != q)
            return ccl_fail(err, CCL_UNSUPPORTED,
                            "ranks of a cluster must be consecutive, %u and %u are not", r - 1, r);
    }
    return CCL_OK;
}

static ccl_status_t crossing(sums_t *s, const ccl_transfer_t *t, ccl_error_t *err) {
    const ccl_collective_t *coll = s->schedule->coll;
    way_t *w = &s->ways[t->chunk];
    if (w->ncrossings++ == 0) {
        if (t->reduce)
            return ccl_fail(err, CCL_UNSUPPORTED,
                            "rank %u adds what it receives from another cluster itself; in a plan "
                            "it lands on another rank of its cluster",
                            t->dst);
        w->from = (uint8_t)s->groups->of[t->src];
        w->keeper[0] = t->src;
        w->keeper[1] = coll->kind == CCL_REDUCE ? coll->root : t->chunk / coll->chunks_per_block;
        w->lands = t->dst;
        w->back = CCL_NONE;
        return CCL_OK;
    }
    if (coll->kind != CCL_ALLREDUCE || w->ncrossings > 2 || s->groups->of[t->src] == w->from)
        return ccl_fail(err, CCL_UNSUPPORTED, "chunk %u crosses borders more often than plans do",
                        t->chunk);
    w->keeper[1] = t->src;
    w->back = t->dst;
    return CCL_OK;
}

static ccl_status_t find_ways(sums_t *s, ccl_error_t *err) {
    const ccl_collective_t *coll = s->schedule->coll;
    for (uint32_t i = 0; i < s->schedule->ntransfers; i++) {
        const ccl_transfer_t *t = &s->schedule->transfers[i];
        if (s->groups->of[t->src] != s->groups->of[t->dst])
            CCL_TRY(crossing(s, t, err));
    }
    for (uint32_t k = 0; k < coll->nchunks; k++) {
        const way_t *w = &s->ways[k];
        if (w->ncrossings != (coll->kind == CCL_ALLREDUCE ? 2 : 1))
            return ccl_fail(err, CCL_UNSUPPORTED, "chunk %u is summed in one cluster only", k);
        uint32_t q = 1 - w->from;
        if (s->end[q] && s->end[q] != k)
            return ccl_fail(
                err, CCL_UNSUPPORTED,
                "chunks that are summed in a cluster must be consecutive, %u and %u are "
                "not",
                s->end[q] - 1, k);
        s->lo[q] = s->end[q] ? s->lo[q] : k;
        s->end[q] = k + 1;
    }
    return CCL_OK;
}

/** The buffer of the reductions: a ReduceScatter's output is too small. */
static uint32_t work_buffer(const sums_t *s) {
    return s->schedule->coll->kind == CCL_REDUCESCATTER ? 2 : 1;
}

/* ---------------------------------------------------------------- one rank's plan */

static void push_call(ccl_c2c_call_t *calls, uint32_t *n, ccl_c2c_call_t c) {
    ccl_c2c_call_t *last = *n ? &calls[*n - 1] : NULL;
    if (last && last->root == c.root && last->send_off + last->count == c.send_off)
        last->count++;
    else
        calls[(*n)++] = c;
}

/** Sums inside, before; the results from where they came in, behind. */
static ccl_status_t make_calls(const sums_t *s, ccl_c2c_plan_t *p, ccl_error_t *err) {
    const ccl_collective_t *coll = s->schedule->coll;
    uint32_t q = s->groups->of[p->rank], work = work_buffer(s), n = s->end[q] - s->lo[q];
    p->pre = ccl_arena_alloc(&p->arena, coll->nchunks, sizeof *p->pre);
    p->post = ccl_arena_alloc(&p->arena, coll->nchunks, sizeof *p->post);
    p->inter = ccl_arena_alloc(&p->arena, 1, sizeof *p->inter);
    if (!p->pre || !p->post || !p->inter)
        return ccl_fail_nomem(err);
    for (uint32_t k = 0; k < coll->nchunks; k++) {
        const way_t *w = &s->ways[k];
        int32_t keeper = (int32_t)(w->keeper[w->from != q] - s->first[q]);
        push_call(p->pre, &p->npre,
                  (ccl_c2c_call_t){0, keeper, 0, work, k, k, 1, 0, CCL_C2C_REDUCE});
        if (w->from == q && w->back != CCL_NONE && s->size[q] > 1)
            push_call(p->post, &p->npost,
                      (ccl_c2c_call_t){p->pipe_post, (int32_t)(w->back - s->first[q]), 1, 1, k, k,
                                       1, 2, CCL_C2C_BROADCAST});
    }
    if (n == 0)
        return CCL_OK;
    ccl_c2c_call_t *c = &p->inter[p->ninter++];
    *c = (ccl_c2c_call_t){0, -1, work, 1, s->lo[q], s->lo[q], n, 0, CCL_C2C_ALLREDUCE};
    if (coll->kind == CCL_REDUCE) {
        c->op = CCL_C2C_REDUCE;
        c->root = (int32_t)(coll->root - s->first[q]);
    } else if (coll->kind == CCL_REDUCESCATTER) {
        c->op = CCL_C2C_REDUCESCATTER;
        c->recv_off = 0;
        c->count = coll->chunks_per_block;
    }
    return CCL_OK;
}

/** All that is summed here but what this rank keeps of it becomes zero. */
static ccl_status_t make_refresh(const sums_t *s, ccl_c2c_plan_t *p, ccl_error_t *err) {
    uint32_t q = s->groups->of[p->rank], lo = 0, end = 0;
    for (uint32_t k = s->lo[q]; k < s->end[q]; k++) {
        if (s->ways[k].lands == p->rank && s->ways[k].keeper[1] == p->rank)
            return ccl_fail(err, CCL_UNSUPPORTED, "chunk %u lands where its sum is, at rank %u", k,
                            p->rank);
        if (s->ways[k].keeper[1] != p->rank)
            continue;
        if (end && end != k)
            return ccl_fail(
                err, CCL_UNSUPPORTED,
                "chunks that a rank keeps must be consecutive, %u and %u of rank %u are "
                "not",
                end - 1, k, p->rank);
        lo = end ? lo : k;
        end = k + 1;
    }
    p->refresh =
        (ccl_c2c_refresh_t){(int32_t)work_buffer(s), s->lo[q],   end ? lo - s->lo[q] : 0, end - lo,
                            s->end[q] - s->lo[q],    CCL_C2C_SUM};
    return CCL_OK;
}

static void push_message(ccl_c2c_plan_t *p, uint32_t step, uint32_t peer, uint32_t chunk,
                         bool receives) {
    for (uint32_t i = p->nmessages; i-- > 0;) { /* the last one to or from this peer */
        ccl_c2c_message_t *m = &p->messages[i];
        if (m->step != step || m->peer != peer || m->receives != receives)
            continue;
        if (m->offset + m->count == chunk) {
            m->count++;
            return;
        }
        break;
    }
    p->messages[p->nmessages++] = (ccl_c2c_message_t){step, peer, chunk, 1, receives};
}

static ccl_status_t make_messages(const sums_t *s, ccl_c2c_plan_t *p, ccl_error_t *err) {
    uint32_t n = s->schedule->coll->nchunks;
    p->messages = ccl_arena_alloc(&p->arena, 2 * (size_t)n, sizeof *p->messages);
    if (!p->messages)
        return ccl_fail_nomem(err);
    for (uint32_t step = 0; step < 2; step++) {
        for (uint32_t k = 0; k < n; k++) {
            const way_t *w = &s->ways[k];
            uint32_t src = w->keeper[step], dst = step ? w->back : w->lands;
            if (dst == CCL_NONE)
                continue;
            if (src == p->rank)
                push_message(p, step, dst, k, false);
            if (dst == p->rank)
                push_message(p, step, src, k, true);
        }
    }
    return CCL_OK;
}

ccl_status_t ccl_i_c2c_plan_create_sums(const ccl_schedule_t *schedule,
                                        const ccl_c2c_groups_t *groups, ccl_c2c_plan_t *p,
                                        ccl_error_t *err) {
    sums_t s = {.schedule = schedule, .groups = groups};
    s.ways = calloc(schedule->coll->nchunks, sizeof *s.ways);
    ccl_status_t status = s.ways ? CCL_OK : ccl_fail_nomem(err);
    p->nchunks = schedule->coll->nchunks;
    p->seq_pre = p->seq_inter = p->seq_post = 1;
    p->pipe_post =
        schedule->coll->kind == CCL_ALLREDUCE; /* also keeps results from becoming zero */
    if (status == CCL_OK)
        status = find_clusters(&s, err);
    if (status == CCL_OK)
        status = find_ways(&s, err);
    if (status == CCL_OK)
        status = make_calls(&s, p, err);
    if (status == CCL_OK)
        status = make_refresh(&s, p, err);
    if (status == CCL_OK)
        status = make_messages(&s, p, err);
    free(s.ways);
    return status;
}
