/* Plans between clusters, as FlagCX reads them: made from a schedule, and written. */
#include "schedule/c2c_plan_i.h"

#include <stdlib.h>
#include <string.h>

/** How chunks get into clusters. */
typedef struct ways {
    const ccl_schedule_t *schedule;
    const ccl_c2c_groups_t *groups;
    uint32_t nchunks, nsteps;
    uint32_t *after;  /* [nclusters][nchunks] steps after which it is there, 0: from the start;
                         CCL_NONE: never */
    uint32_t *keeper; /* [nclusters][nchunks] who took it in */
    uint32_t *first;  /* [nclusters] lowest rank */
    uint32_t *size;   /* [nclusters] */
    bool own;         /* messages leave the input, where a rank has its own chunks alone */
} ways_t;

static void ways_fini(ways_t *w) {
    free(w->after);
    free(w->keeper);
    free(w->first);
    free(w->size);
}

static ccl_status_t clusters(ways_t *w, ccl_error_t *err) {
    const ccl_c2c_groups_t *g = w->groups;
    bool all_borders = true, alike = true;
    w->first = malloc(g->nclusters * sizeof *w->first);
    w->size = calloc(g->nclusters, sizeof *w->size);
    if (!w->first || !w->size)
        return ccl_fail_nomem(err);
    for (uint32_t r = 0; r < g->nranks; r++) {
        uint32_t q = g->of[r];
        if (w->size[q] == 0)
            w->first[q] = r;
        else if (g->of[r - 1] != q)
            return ccl_fail(err, CCL_UNSUPPORTED,
                            "ranks of a cluster must be consecutive, %u and %u are not", r - 1, r);
        w->size[q]++;
        all_borders = all_borders && g->borders[r];
    }
    for (uint32_t q = 0; q < g->nclusters; q++)
        alike = alike && w->size[q] == w->size[0];
    /* FlagCX's own rule for an allgather: every rank next to a NIC, clusters of one size. */
    w->own = w->schedule->coll->kind == CCL_ALLGATHER && all_borders && alike && w->size[0] > 1;
    return CCL_OK;
}

static ccl_status_t crossing(ways_t *w, const ccl_transfer_t *t, ccl_error_t *err) {
    uint32_t from = w->groups->of[t->src], to = w->groups->of[t->dst];
    size_t a = (size_t)from * w->nchunks + t->chunk, b = (size_t)to * w->nchunks + t->chunk;
    if (w->after[b] != CCL_NONE)
        return ccl_fail(err, CCL_UNSUPPORTED, "chunk %u enters the cluster of rank %u twice",
                        t->chunk, t->dst);
    if (w->after[a] == CCL_NONE || (w->after[a] > 0 && w->keeper[a] != t->src) ||
        (w->own && w->schedule->coll->chunks[t->chunk].sources[0] != t->src))
        return ccl_fail(err, CCL_UNSUPPORTED,
                        "chunk %u goes on from rank %u, where a plan does not have it then",
                        t->chunk, t->src);
    w->after[b] = w->after[a] + 1;
    w->keeper[b] = t->dst;
    w->nsteps = w->after[b] > w->nsteps ? w->after[b] : w->nsteps;
    return CCL_OK;
}

static ccl_status_t ways_init(ways_t *w, ccl_error_t *err) {
    const ccl_collective_t *coll = w->schedule->coll;
    size_t n;
    if (coll->kind != CCL_ALLGATHER && coll->kind != CCL_BROADCAST)
        return ccl_fail(err, CCL_UNSUPPORTED,
                        "plans between clusters are of allgather, broadcast, allreduce, reduce and "
                        "reducescatter, not of %s",
                        coll->name);
    if (coll->nranks != w->groups->nranks)
        return ccl_fail(err, CCL_ERR_INPUT, "the schedule has %u ranks, the clusters %u",
                        coll->nranks, w->groups->nranks);
    CCL_TRY(clusters(w, err));
    w->nchunks = coll->nchunks;
    n = (size_t)w->groups->nclusters * w->nchunks;
    w->after = malloc(n * sizeof *w->after);
    w->keeper = malloc(n * sizeof *w->keeper);
    if (!w->after || !w->keeper)
        return ccl_fail_nomem(err);
    memset(w->after, 0xff, n * sizeof *w->after);
    memset(w->keeper, 0xff, n * sizeof *w->keeper);
    for (uint32_t k = 0; k < w->nchunks; k++)
        w->after[(size_t)w->groups->of[coll->chunks[k].sources[0]] * w->nchunks + k] = 0;
    for (uint32_t i = 0; i < w->schedule->ntransfers; i++) {
        const ccl_transfer_t *t = &w->schedule->transfers[i];
        if (w->groups->of[t->src] != w->groups->of[t->dst])
            CCL_TRY(crossing(w, t, err));
    }
    for (size_t i = 0; i < n; i++) {
        if (w->after[i] == CCL_NONE)
            return ccl_fail(err, CCL_UNSUPPORTED, "chunk %u does not enter the cluster of rank %u",
                            (uint32_t)(i % w->nchunks), w->first[i / w->nchunks]);
    }
    return CCL_OK;
}

/* ---------------------------------------------------------------- one rank's plan */

static int by_message(const void *a, const void *b) {
    const ccl_c2c_message_t *x = a, *y = b;
    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    if (x->peer != y->peer)
        return x->peer < y->peer ? -1 : 1;
    if (x->receives != y->receives)
        return x->receives ? 1 : -1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static int by_call(const void *a, const void *b) {
    const ccl_c2c_call_t *x = a, *y = b;
    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    if (x->root != y->root)
        return x->root < y->root ? -1 : 1;
    return x->send_off < y->send_off ? -1 : x->send_off > y->send_off;
}

static ccl_status_t make_messages(const ways_t *w, ccl_c2c_plan_t *p, ccl_error_t *err) {
    uint32_t n = 0, kept = 0, c = w->schedule->coll->chunks_per_block;
    for (uint32_t i = 0; i < w->schedule->ntransfers; i++) {
        const ccl_transfer_t *t = &w->schedule->transfers[i];
        n += w->groups->of[t->src] != w->groups->of[t->dst] &&
             (t->src == p->rank || t->dst == p->rank);
    }
    p->messages = ccl_arena_alloc(&p->arena, n + 1, sizeof *p->messages);
    if (!p->messages)
        return ccl_fail_nomem(err);
    n = 0;
    for (uint32_t i = 0; i < w->schedule->ntransfers; i++) {
        const ccl_transfer_t *t = &w->schedule->transfers[i];
        uint32_t to = w->groups->of[t->dst];
        bool receives = t->dst == p->rank;
        if (w->groups->of[t->src] == to || (t->src != p->rank && !receives))
            continue;
        p->messages[n++] = (ccl_c2c_message_t){
            w->after[(size_t)to * w->nchunks + t->chunk] - 1, receives ? t->src : t->dst,
            w->own && !receives ? t->chunk - p->rank * c : t->chunk, 1, receives};
    }
    qsort(p->messages, n, sizeof *p->messages, by_message);
    for (uint32_t i = 0; i < n; i++) {
        ccl_c2c_message_t *m = &p->messages[i], *last = kept ? &p->messages[kept - 1] : NULL;
        if (last && last->step == m->step && last->peer == m->peer &&
            last->receives == m->receives && last->offset + last->count == m->offset)
            last->count++;
        else
            p->messages[kept++] = *m;
    }
    p->nmessages = kept;
    return CCL_OK;
}

static ccl_status_t make_calls(const ways_t *w, ccl_c2c_plan_t *p, ccl_error_t *err) {
    const ccl_collective_t *coll = w->schedule->coll;
    uint32_t q = w->groups->of[p->rank], c = coll->chunks_per_block, n = 0, kept = 0;
    p->pre = ccl_arena_alloc(&p->arena, 1, sizeof *p->pre);
    p->post = ccl_arena_alloc(&p->arena, w->nchunks, sizeof *p->post);
    if (!p->pre || !p->post)
        return ccl_fail_nomem(err);
    if (coll->kind == CCL_ALLGATHER)
        p->pre[p->npre++] =
            (ccl_c2c_call_t){0, -1, 0, 1, 0, w->first[q] * c, c, 0, CCL_C2C_ALLGATHER};
    else if (w->groups->of[coll->root] == q)
        p->pre[p->npre++] = (ccl_c2c_call_t){
            0, (int32_t)(coll->root - w->first[q]), 0, 1, 0, 0, w->nchunks, 0, CCL_C2C_BROADCAST};
    if (w->size[q] == 1)
        return CCL_OK;
    for (uint32_t k = 0; k < w->nchunks; k++) {
        uint32_t after = w->after[(size_t)q * w->nchunks + k];
        if (after > 0)
            p->post[n++] =
                (ccl_c2c_call_t){after - 1,
                                 (int32_t)(w->keeper[(size_t)q * w->nchunks + k] - w->first[q]),
                                 1,
                                 1,
                                 k,
                                 k,
                                 1,
                                 2,
                                 CCL_C2C_BROADCAST};
    }
    qsort(p->post, n, sizeof *p->post, by_call);
    for (uint32_t i = 0; i < n; i++) {
        ccl_c2c_call_t *m = &p->post[i], *last = kept ? &p->post[kept - 1] : NULL;
        if (last && last->step == m->step && last->root == m->root &&
            last->send_off + last->count == m->send_off)
            last->count++;
        else
            p->post[kept++] = *m;
    }
    p->npost = kept;
    return CCL_OK;
}

static ccl_status_t finish(ccl_c2c_plan_t *p, ccl_status_t status, ccl_c2c_plan_t **out) {
    if (status == CCL_OK)
        *out = p;
    else
        ccl_c2c_plan_destroy(p);
    return status;
}

ccl_status_t ccl_c2c_plan_create(const ccl_schedule_t *schedule, const ccl_c2c_groups_t *groups,
                                 uint32_t rank, ccl_c2c_plan_t **out, ccl_error_t *err) {
    ways_t w = {.schedule = schedule, .groups = groups};
    CCL_TRY(ccl_schedule_refuse_groups(schedule, "a plan for FlagCX", err));
    ccl_c2c_plan_t *p = calloc(1, sizeof *p);
    if (p && ccl_i_c2c_plan_sums(schedule->coll)) {
        ccl_arena_init(&p->arena);
        p->rank = rank;
        return finish(p, ccl_i_c2c_plan_create_sums(schedule, groups, p, err), out);
    }
    ccl_status_t status = p ? ways_init(&w, err) : ccl_fail_nomem(err);
    if (p) {
        ccl_arena_init(&p->arena);
        p->rank = rank;
        p->refresh = (ccl_c2c_refresh_t){1, 0, 0, 0, w.nchunks, CCL_C2C_NO_OP};
        p->nchunks = w.nchunks;
        p->seq_pre = !w.own;
        p->pipe_pre = w.own;
        p->seq_inter = !w.own;
        p->pipe_post = w.nsteps ? w.nsteps - 1 : 0;
        p->seq_post = 1;
    }
    if (status == CCL_OK)
        status = make_messages(&w, p, err);
    if (status == CCL_OK)
        status = make_calls(&w, p, err);
    ways_fini(&w);
    return finish(p, status, out);
}

void ccl_c2c_plan_destroy(ccl_c2c_plan_t *plan) {
    if (!plan)
        return;
    ccl_arena_fini(&plan->arena);
    free(plan);
}

/* ---------------------------------------------------------------- XML: FlagCX reads it line by
 * line */

static void field(ccl_text_t *out, int indent, const char *name, int64_t value) {
    ccl_text_printf(out, "%*s<%s>%lld</%s>\n", indent, "", name, (long long)value, name);
}

static void write_call(ccl_text_t *out, const ccl_c2c_call_t *c) {
    ccl_text_printf(out, "      <HomoFunc>\n");
    field(out, 8, "rootRank", c->root);
    field(out, 8, "sendType", c->send_buf);
    field(out, 8, "recvType", c->recv_buf);
    field(out, 8, "sendOffset", c->send_off);
    field(out, 8, "recvOffset", c->recv_off);
    field(out, 8, "count", c->count);
    field(out, 8, "homoType", c->scope);
    field(out, 8, "commOp", c->op);
    ccl_text_printf(out, "      </HomoFunc>\n");
}

static void write_calls(ccl_text_t *out, const char *name, uint32_t nsteps,
                        const ccl_c2c_call_t *calls, uint32_t n) {
    uint32_t i = 0;
    ccl_text_printf(out, "  <%s>\n", name);
    for (uint32_t s = 0; s < nsteps; s++) {
        if (i == n || calls[i].step != s) {
            ccl_text_printf(out, "    <Step/>\n");
            continue;
        }
        ccl_text_printf(out, "    <Step>\n");
        for (; i < n && calls[i].step == s; i++)
            write_call(out, &calls[i]);
        ccl_text_printf(out, "    </Step>\n");
    }
    ccl_text_printf(out, "  </%s>\n", name);
}

static void write_messages(ccl_text_t *out, const ccl_c2c_plan_t *p) {
    uint32_t i = 0;
    ccl_text_printf(out, "  <HeteroFuncSteps>\n");
    for (uint32_t s = 0; s < p->pipe_pre + p->seq_inter + p->pipe_post; s++) {
        bool call = false; /* FlagCX makes it behind a HeteroFunc, which may be empty */
        for (uint32_t k = 0; k < p->ninter; k++)
            call |= p->inter[k].step == s;
        if (!call && (i == p->nmessages || p->messages[i].step != s)) {
            ccl_text_printf(out, "    <Step/>\n");
            continue;
        }
        ccl_text_printf(out, "    <Step>\n      <HeteroFunc>\n");
        for (; i < p->nmessages && p->messages[i].step == s; i++) {
            const ccl_c2c_message_t *m = &p->messages[i];
            ccl_text_printf(out, "        <P2pOp>\n");
            field(out, 10, "rank", p->rank);
            field(out, 10, "peerRank", m->peer);
            field(out, 10, "offset", m->offset);
            field(out, 10, "count", m->count);
            field(out, 10, "isRecv", m->receives);
            ccl_text_printf(out, "        </P2pOp>\n");
        }
        ccl_text_printf(out, "      </HeteroFunc>\n    </Step>\n");
    }
    ccl_text_printf(out, "  </HeteroFuncSteps>\n");
}

ccl_status_t ccl_c2c_plan_write_xml(const ccl_c2c_plan_t *p, ccl_text_t *out, ccl_error_t *err) {
    uint32_t messages = p->pipe_pre + p->seq_inter + p->pipe_post;
    ccl_text_printf(out, "<FlagcxC2cPlanner>\n");
    field(out, 2, "nChunks", p->nchunks);
    field(out, 2, "nSeqPreSteps", p->seq_pre);
    field(out, 2, "nPipePreSteps", p->pipe_pre);
    field(out, 2, "nSeqInterSteps", p->seq_inter);
    field(out, 2, "nPipePostSteps", p->pipe_post);
    field(out, 2, "nSeqPostSteps", p->seq_post);
    /* Without sums nothing is set to zero in between: the operation is none. */
    ccl_text_printf(out, "  <RefreshFunc>\n");
    field(out, 4, "buffType", p->refresh.buffer);
    field(out, 4, "start", p->refresh.start);
    field(out, 4, "offset", p->refresh.offset);
    field(out, 4, "count", p->refresh.count);
    field(out, 4, "totalCount", p->refresh.total);
    field(out, 4, "redOp", p->refresh.op);
    ccl_text_printf(out, "  </RefreshFunc>\n");
    write_calls(out, "PreHomoFuncSteps", p->seq_pre + p->pipe_pre, p->pre, p->npre);
    write_messages(out, p);
    write_calls(out, "HomoInterFuncSteps", messages, p->inter, p->ninter);
    write_calls(out, "PostHomoFuncSteps", p->pipe_post + p->seq_post, p->post, p->npost);
    ccl_text_printf(out, "</FlagcxC2cPlanner>\n");
    return out->nomem ? ccl_fail_nomem(err) : CCL_OK;
}
