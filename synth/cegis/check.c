/*
 * Verification of cegis's plans in the discretisation (HeteCCL, NSDI 2026, section 5.2, equations 2
 * and 4 to 6; appendix I, equation 8), the squeezed start of the loop, and the fill-up of a step.
 */
#include "synth/cegis/cegis.h"

#include <stdlib.h>
#include <string.h>

typedef struct checker {
    const ccl_i_cegis_problem_t *p;
    uint32_t *got;     /* [nchunks * nranks] step from which it is there; CCL_NONE: never */
    uint32_t *sent_in; /* [nchunks * nranks] step in which it was last sent from there */
    uint32_t *hop_used, *resource_used; /* of a step */
    uint32_t *hop_list, *resource_list; /* those used */
    uint32_t nhops, nresources;
    uint32_t *total; /* [nresources] of all steps so far */
} checker_t;

static bool checker_init(checker_t *c, const ccl_i_cegis_problem_t *p) {
    size_t pairs = (size_t)p->nchunks * p->x->nranks;
    memset(c, 0, sizeof *c);
    c->p = p;
    c->got = malloc((pairs + 1) * sizeof *c->got);
    c->sent_in = malloc((pairs + 1) * sizeof *c->sent_in);
    c->hop_used = calloc(p->x->nhops + (size_t)1, sizeof *c->hop_used);
    c->resource_used = calloc(p->x->nresources + (size_t)1, sizeof *c->resource_used);
    c->hop_list = calloc(p->x->nhops + (size_t)1, sizeof *c->hop_list);
    c->resource_list = calloc(p->x->nresources + (size_t)1, sizeof *c->resource_list);
    c->total = calloc(p->x->nresources + (size_t)1, sizeof *c->total);
    if (!c->total || !c->got || !c->sent_in || !c->hop_used || !c->resource_used || !c->hop_list ||
        !c->resource_list)
        return false;
    memset(c->got, 0xff, pairs * sizeof *c->got);
    memset(c->sent_in, 0xff, pairs * sizeof *c->sent_in);
    for (uint32_t k = 0; k < p->nchunks; k++)
        c->got[(size_t)k * p->x->nranks + p->chunks[k].root] = 0;
    return true;
}

static void checker_fini(checker_t *c) {
    free(c->got);
    free(c->sent_in);
    free(c->hop_used);
    free(c->resource_used);
    free(c->hop_list);
    free(c->resource_list);
    free(c->total);
}

static void use(checker_t *c, uint32_t h) {
    const ccl_i_exchange_t *x = c->p->x;
    if (c->hop_used[h]++ == 0)
        c->hop_list[c->nhops++] = h;
    for (uint32_t u = x->hops[h].first_use; u < x->hops[h].first_use + x->hops[h].nuses; u++) {
        uint32_t r = x->uses[u].resource;
        if (c->resource_used[r] == 0)
            c->resource_list[c->nresources++] = r;
        c->resource_used[r] += x->uses[u].times;
    }
}

static void end_use(checker_t *c) {
    for (uint32_t i = 0; i < c->nhops; i++)
        c->hop_used[c->hop_list[i]] = 0;
    for (uint32_t i = 0; i < c->nresources; i++)
        c->resource_used[c->resource_list[i]] = 0;
    c->nhops = c->nresources = 0;
}

static bool note(ccl_i_cegis_examples_t *out, ccl_i_cegis_kind_t kind, size_t index, uint32_t step,
                 uint32_t over) {
    if (!ccl_grow(&out->items, &out->cap, out->len + 1, sizeof *out->items))
        return false;
    out->items[out->len++] = (ccl_i_cegis_example_t){kind, (uint32_t)index, step, over};
    return true;
}

static bool note_capacity(checker_t *c, uint32_t step, ccl_i_cegis_examples_t *out) {
    const ccl_i_chunking_t *cap = c->p->capacity;
    bool ok = true;
    for (uint32_t i = 0; i < c->nhops; i++) {
        uint32_t h = c->hop_list[i];
        if (c->hop_used[h] > cap->hop_chunks[h])
            ok &= note(out, CCL_I_CEGIS_LINK, h, step, c->hop_used[h] - cap->hop_chunks[h]);
    }
    for (uint32_t i = 0; i < c->nresources; i++) {
        uint32_t r = c->resource_list[i];
        if (c->resource_used[r] > cap->resource_chunks[r])
            ok &= note(out, CCL_I_CEGIS_GROUP, r, step,
                       c->resource_used[r] - cap->resource_chunks[r]);
        uint32_t before = c->total[r];
        c->total[r] += c->resource_used[r];
        if (c->p->budget && before <= c->p->budget[r] && c->total[r] > c->p->budget[r])
            ok &= note(out, CCL_I_CEGIS_BUDGET, r, step, c->total[r] - c->p->budget[r]);
    }
    return ok;
}

ccl_status_t ccl_i_cegis_check(const ccl_i_cegis_problem_t *p, const ccl_i_cegis_plan_t *plan,
                               ccl_i_cegis_examples_t *out, ccl_error_t *err) {
    checker_t c;
    uint32_t n = p->x->nranks;
    bool ok = checker_init(&c, p);
    out->len = 0;
    for (size_t i = 0; ok && i < plan->len;) {
        uint32_t step = plan->sends[i].step;
        size_t first = i;
        for (; ok && i < plan->len && plan->sends[i].step == step; i++) {
            const ccl_i_cegis_send_t *s = &plan->sends[i];
            const ccl_i_hop_t *hop = &p->x->hops[s->hop];
            size_t src = (size_t)s->chunk * n + hop->src, dst = (size_t)s->chunk * n + hop->dst;
            use(&c, s->hop);
            if (c.got[src] > step)
                ok &= note(out, CCL_I_CEGIS_CAUSE, src, step, 1);
            if (c.got[dst] != CCL_NONE)
                ok &= note(out, CCL_I_CEGIS_TWICE, dst, step, 1);
            else
                c.got[dst] = step + 1;
            if (p->one_send && c.sent_in[src] == step)
                ok &= note(out, CCL_I_CEGIS_SENDER, src, step, 1);
            c.sent_in[src] = step;
        }
        ok = ok && note_capacity(&c, step, out);
        end_use(&c);
        if (i == first)
            break;
    }
    for (uint32_t k = 0; ok && k < p->nchunks; k++) {
        for (uint32_t i = 0; ok && i < p->chunks[k].ntargets; i++) {
            size_t at = (size_t)k * n + p->chunks[k].targets[i];
            if (c.got[at] == CCL_NONE)
                ok = note(out, CCL_I_CEGIS_GOAL, at, plan->nsteps, 1);
        }
    }
    checker_fini(&c);
    return ok ? CCL_OK : ccl_fail_nomem(err);
}

ccl_status_t ccl_i_cegis_squeeze(const ccl_i_cegis_problem_t *p, const ccl_i_cegis_plan_t *plan,
                                 uint32_t nsteps, ccl_i_cegis_plan_t *out, ccl_error_t *err) {
    uint32_t n = p->x->nranks;
    size_t pairs = (size_t)p->nchunks * n;
    uint32_t *feeds = malloc((pairs + 1) * sizeof *feeds); /* send that brings it */
    uint32_t *latest = malloc((plan->len + 1) * sizeof *latest);
    bool ok = feeds && latest && ccl_i_cegis_plan_copy(out, plan);
    if (ok) {
        memset(feeds, 0xff, pairs * sizeof *feeds);
        for (size_t i = 0; i < plan->len; i++) {
            feeds[(size_t)plan->sends[i].chunk * n + p->x->hops[plan->sends[i].hop].dst] =
                (uint32_t)i;
            latest[i] = nsteps - 1;
        }
        /* A send is late enough for those that pass its chunk on. */
        for (size_t i = plan->len; i-- > 0;) {
            ccl_i_cegis_send_t *s = &out->sends[i];
            uint32_t feed = feeds[(size_t)s->chunk * n + p->x->hops[s->hop].src];
            s->step = s->step < latest[i] ? s->step : latest[i];
            if (feed != CCL_NONE && latest[feed] >= s->step)
                latest[feed] = s->step ? s->step - 1 : 0;
        }
        ok = ccl_i_cegis_plan_sort(out);
        out->nsteps = nsteps;
    }
    free(feeds);
    free(latest);
    return ok ? CCL_OK : ccl_fail_nomem(err);
}

ccl_status_t ccl_i_cegis_fill(const ccl_i_cegis_problem_t *p, ccl_i_cegis_plan_t *plan,
                              uint32_t step, uint32_t *moved_out, ccl_error_t *err) {
    checker_t c;
    uint32_t n = p->x->nranks, moved = 0;
    bool ok = checker_init(&c, p);
    for (size_t i = 0; ok && i < plan->len; i++) {
        const ccl_i_cegis_send_t *s = &plan->sends[i];
        const ccl_i_hop_t *hop = &p->x->hops[s->hop];
        if (s->step < step)
            c.got[(size_t)s->chunk * n + hop->dst] = s->step + 1;
        if (s->step == step) {
            use(&c, s->hop);
            c.sent_in[(size_t)s->chunk * n + hop->src] = step;
        }
    }
    for (size_t i = 0; ok && i < plan->len; i++) {
        ccl_i_cegis_send_t *s = &plan->sends[i];
        const ccl_i_hop_t *hop = &p->x->hops[s->hop];
        size_t src = (size_t)s->chunk * n + hop->src;
        if (s->step <= step || c.got[src] > step || (p->one_send && c.sent_in[src] == step))
            continue;
        bool room = c.hop_used[s->hop] < p->capacity->hop_chunks[s->hop];
        for (uint32_t u = hop->first_use; u < hop->first_use + hop->nuses; u++) {
            uint32_t r = p->x->uses[u].resource;
            room &= c.resource_used[r] + p->x->uses[u].times <= p->capacity->resource_chunks[r];
        }
        if (!room)
            continue;
        use(&c, s->hop);
        c.sent_in[src] = step;
        s->step = step;
        moved++;
    }
    uint32_t nsteps = plan->nsteps;
    ok = ok && (!moved || ccl_i_cegis_plan_sort(plan));
    plan->nsteps = nsteps;
    checker_fini(&c);
    *moved_out = moved;
    return ok ? CCL_OK : ccl_fail_nomem(err);
}
