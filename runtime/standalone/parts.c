/**
 * @file parts.c
 * Which elements hold the same part of a shard. The last elements of a shard may have fewer items
 * than the others when a count does not divide. That is right where an element of the caller's
 * buffers only ever holds its own part; where it may not be so, counts have to be padded.
 */
#include "runtime/standalone/standalone.h"

#include <stdlib.h>

/* Sets of elements that hold one part: a step joins what it reads, sends, receives and writes. */
typedef struct parts {
    const ccl_i_standalone_t *s;
    uint32_t *set;             /* elements of all ranks, then a node per element of a message */
    uint32_t *first;           /* [nranks] first scratch element of a rank among the nodes */
    uint32_t *message;         /* [nconns] first node of its messages */
    uint32_t *sent, *received; /* [nconns] elements so far */
    uint32_t user, nodes;      /* nodes of parts themselves come first */
} parts_t;

static uint32_t node_of(const parts_t *p, uint32_t rank, uint32_t buffer, uint32_t element) {
    ccl_i_standalone_at_t at = ccl_i_standalone_place(p->s, rank, buffer, element);
    uint32_t parts = p->s->program->coll->chunks_per_block;
    return at.buffer == CCL_BUF_SCRATCH ? p->first[rank] + at.element : at.element % parts;
}

/** The nodes of connections: as many as they carry elements. */
static ccl_status_t count_nodes(parts_t *p, ccl_error_t *err) {
    const ccl_i_standalone_t *s = p->s;
    const ccl_i_run_plan_t *plan = &s->plan;
    uint64_t n = s->program->coll->chunks_per_block;
    size_t nconns = plan->dev.nconns + (size_t)1;
    p->first = calloc(s->program->nranks + (size_t)1, sizeof *p->first);
    p->message = calloc(nconns, sizeof *p->message);
    p->sent = calloc(nconns, sizeof *p->sent);
    p->received = calloc(nconns, sizeof *p->received);
    if (!p->first || !p->message || !p->sent || !p->received)
        return ccl_fail_nomem(err);
    for (uint32_t r = 0; r < s->program->nranks; r++) {
        p->first[r] = (uint32_t)n;
        n += s->scratch[r];
    }
    for (uint32_t i = 0; i < plan->dev.nsteps; i++)
        if (plan->steps[i].send != CCL_NONE)
            p->message[plan->steps[i].send] += s->program->steps[plan->program_step[i]].count;
    for (uint32_t c = 0; c < plan->dev.nconns; c++) {
        uint64_t len = p->message[c];
        p->message[c] = (uint32_t)n;
        n += len;
    }
    if (n > UINT32_MAX / 2)
        return ccl_fail(err, CCL_UNSUPPORTED, "a kernel of %.0f elements is too large", (double)n);
    p->nodes = (uint32_t)n;
    p->set = malloc((size_t)(n + 1) * sizeof *p->set);
    if (!p->set)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < p->nodes; i++)
        p->set[i] = i;
    return CCL_OK;
}

static void join_step(parts_t *p, const ccl_device_unit_t *unit, uint32_t index) {
    const ccl_i_run_plan_t *plan = &p->s->plan;
    const ccl_device_step_t *d = &plan->steps[index];
    const ccl_step_t *step = &p->s->program->steps[plan->program_step[index]];
    for (uint32_t e = 0; e < step->count; e++) {
        uint32_t all[4], n = 0;
        if (ccl_i_prim_reads(step->type))
            all[n++] = node_of(p, unit->rank, step->src_buf, step->src_off + e);
        if (ccl_i_prim_writes(step->type))
            all[n++] = node_of(p, unit->rank, step->dst_buf, step->dst_off + e);
        if (d->send != CCL_NONE)
            all[n++] = p->message[d->send] + p->sent[d->send]++;
        if (d->recv != CCL_NONE)
            all[n++] = p->message[d->recv] + p->received[d->recv]++;
        for (uint32_t i = 1; i < n; i++)
            ccl_set_join(p->set, all[0], all[i]);
    }
}

ccl_status_t ccl_i_standalone_mixes(const ccl_i_standalone_t *s, bool *out, ccl_error_t *err) {
    parts_t p = {.s = s};
    ccl_status_t status = count_nodes(&p, err);
    if (status == CCL_OK) {
        for (uint32_t u = 0; u < s->plan.dev.nunits; u++) {
            const ccl_device_unit_t *unit = &s->plan.units[u];
            for (uint32_t i = unit->first_step; i < unit->first_step + unit->nsteps; i++)
                join_step(&p, unit, i);
        }
        *out = false;
        for (uint32_t k = 0; k < s->program->coll->chunks_per_block; k++)
            *out = *out || ccl_set_find(p.set, k) != k;
    }
    free(p.set);
    free(p.first);
    free(p.message);
    free(p.sent);
    free(p.received);
    return status;
}
