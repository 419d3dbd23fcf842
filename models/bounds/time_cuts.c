/*
 * Cuts over time: what must cross from a set of vertices to the others, and how much of it each
 * link can carry between the earliest time at which it has any and the latest at which it is of
 * use. docs/bounds.md has the proof.
 */
#include "models/bounds/time.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Sizes at which cuts compete: powers of two from this. */
#define LEAST_BYTES 64.0

typedef struct ccl_i_time_step {
    double after_s, Bps;
} step_t;

ccl_status_t ccl_i_time_cuts_init(ccl_i_time_cuts_t *cuts, const ccl_i_time_net_t *net,
                                  ccl_time_bound_t *out, ccl_error_t *err) {
    *cuts = (ccl_i_time_cuts_t){.net = net, .out = out};
    cuts->best_s = calloc(CCL_I_TIME_SIZES, sizeof *cuts->best_s);
    return cuts->best_s ? CCL_OK : ccl_fail_nomem(err);
}

void ccl_i_time_cuts_fini(ccl_i_time_cuts_t *cuts) {
    free(cuts->best_s);
    free(cuts->steps[0]);
    free(cuts->steps[1]);
    free(cuts->links);
    free(cuts->spans);
    memset(cuts, 0, sizeof *cuts);
}

static double carried(const ccl_time_steps_t *steps, double s) {
    double bytes = 0;
    for (uint32_t i = 0; i < steps->n && steps->after_s[i] < s; i++)
        bytes += steps->Bps[i] * (s - steps->after_s[i]);
    return bytes;
}

/* First time at which the steps have carried that much. */
static double time_of(const ccl_time_steps_t *steps, double bytes) {
    double Bps = 0, less = 0;
    if (!(bytes > 0))
        return 0;
    for (uint32_t i = 0; i < steps->n; i++) {
        Bps += steps->Bps[i];
        less += steps->Bps[i] * steps->after_s[i];
        double s = (bytes + less) / Bps;
        if (i + 1 == steps->n || s <= steps->after_s[i + 1])
            return s;
    }
    return INFINITY;
}

/* Bytes that must have crossed by time s, partial results among them. */
static double needed(const ccl_time_cut_t *cut, double size_bytes, double s) {
    double joined = fmin(1, carried(&cut->joined, s) / (cut->partials * size_bytes));
    return (cut->share - joined * (cut->share - cut->least)) * size_bytes;
}

static double cut_s(const ccl_time_cut_t *cut, double size_bytes) {
    double high = time_of(&cut->all, cut->share * size_bytes - cut->fixed_bytes);
    if (cut->share <= cut->least || high == 0)
        return high;
    double low = time_of(&cut->all, cut->least * size_bytes - cut->fixed_bytes);
    for (int i = 0; i < 200 && high - low > 1e-13 * high; i++) { /* the surplus grows with time */
        double s = low + (high - low) / 2;
        if (carried(&cut->all, s) + cut->fixed_bytes < needed(cut, size_bytes, s))
            low = s;
        else
            high = s;
    }
    return low;
}

static int by_time(const void *a, const void *b) {
    const step_t *x = a, *y = b;
    if (x->after_s < y->after_s)
        return -1;
    return x->after_s > y->after_s;
}

/* Steps in order, those of one time together. */
static ccl_status_t put_steps(step_t *steps, size_t n, ccl_arena_t *arena, ccl_time_steps_t *out,
                              ccl_error_t *err) {
    uint32_t k = 0;
    if (n > 0)
        qsort(steps, n, sizeof *steps, by_time);
    for (size_t i = 0; i < n; i++) {
        if (k > 0 && steps[i].after_s - steps[k - 1].after_s <= 1e-12 * steps[i].after_s)
            steps[k - 1].Bps += steps[i].Bps;
        else
            steps[k++] = steps[i];
    }
    out->n = k;
    out->after_s = ccl_arena_alloc(arena, k + (size_t)1, sizeof *out->after_s);
    out->Bps = ccl_arena_alloc(arena, k + (size_t)1, sizeof *out->Bps);
    if (!out->after_s || !out->Bps)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < k; i++) {
        out->after_s[i] = steps[i].after_s;
        out->Bps[i] = steps[i].Bps;
    }
    return CCL_OK;
}

/* When an arc can carry what crosses: from .. T - upto; else for `fixed` seconds whatever T is. */
typedef struct window {
    bool open;
    double from_s, upto_s, fixed_s;
} window_t;

static window_t window_of(const ccl_i_time_net_t *net, const ccl_i_time_side_t *side, uint32_t arc,
                          bool joined) {
    uint32_t u = net->c->arcs[arc].from, v = net->c->arcs[arc].to;
    const double *earliest =
        joined && side->several_earliest ? side->several_earliest : side->earliest;
    const double *latest = joined && side->several_latest ? side->several_latest : side->latest;
    size_t at = net->c->nvertices + (size_t)arc;
    double delay = net->delay_s[arc];
    window_t w = {.from_s = earliest[at], .upto_s = latest[at]};
    if (!isfinite(w.from_s) || !isfinite(w.upto_s))
        return (window_t){0}; /* nothing that counts can take it */
    w.open = side->weights && side->weights[arc] > 0;
    if (side->weights)
        return w;
    if (!side->late[u] && side->from)
        w.from_s = fmax(w.from_s, side->from[u]);
    if (!side->late[u] && side->late[v]) {
        w.open = true;
        w.upto_s = side->upto ? fmax(w.upto_s, delay + side->upto[v]) : w.upto_s;
    } else if (!side->late[u] && side->from) {
        w.fixed_s = fmax(0, side->from[v] - delay - w.from_s);
    } else if (side->late[u] && side->late[v] && side->upto) {
        w.fixed_s = fmax(0, side->upto[u] - delay - side->upto[v]);
    }
    return w;
}

typedef struct ccl_i_time_span {
    double from_s, upto_s;
} span_t;

static int by_begin(const void *a, const void *b) {
    const span_t *x = a, *y = b;
    if (x->from_s != y->from_s)
        return x->from_s < y->from_s ? -1 : 1;
    return (x->upto_s > y->upto_s) - (x->upto_s < y->upto_s);
}

/*
 * When the routes that take an arc can use it for what crosses: in cuts->spans, without those that
 * lie in others, so that later ones end later. The one window where routes are in no tables, or
 * the set has times of its own.
 */
static ccl_status_t spans(ccl_i_time_cuts_t *cuts, const ccl_i_time_side_t *side, uint32_t arc,
                          bool joined, const window_t *window, size_t *n_out, ccl_error_t *err) {
    const ccl_i_time_net_t *net = cuts->net;
    const ccl_topology_t *topo = net->c->topo;
    const double *earliest =
        joined && side->several_earliest ? side->several_earliest : side->earliest;
    const double *latest = joined && side->several_latest ? side->several_latest : side->latest;
    size_t n = topo->nranks, base = arc * n, count = 0, kept = 0;
    bool plain = !side->from && !side->upto && net->pair_s && net->c->arcs[arc].link != CCL_NONE;
    if (!ccl_grow(&cuts->spans, &cuts->cap_spans, plain ? n * n : 1, sizeof *cuts->spans))
        return ccl_fail_nomem(err);
    cuts->spans[0] = (span_t){window->from_s, window->upto_s};
    for (size_t s = 0; s < n && plain; s++)
        for (size_t d = 0; d < n && net->overheads_s[base + s] < INFINITY; d++) {
            double from_s = earliest[topo->rank_device[s]] + net->pair_overhead_s[s * n + d];
            double upto_s = net->pair_s[s * n + d] + latest[topo->rank_device[d]];
            if (net->to_s[base + d] < INFINITY && isfinite(from_s) && isfinite(upto_s))
                cuts->spans[count++] = (span_t){from_s, upto_s};
        }
    if (count > 0)
        qsort(cuts->spans, count, sizeof *cuts->spans, by_begin);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || cuts->spans[i].upto_s < cuts->spans[kept - 1].upto_s)
            cuts->spans[kept++] = cuts->spans[i];
    *n_out = plain ? kept : 1;
    return CCL_OK;
}

/* An arc's windows, each once, less what two that follow each other have in common. */
static ccl_status_t put_arc(ccl_i_time_cuts_t *cuts, const ccl_i_time_side_t *side, uint32_t arc,
                            bool joined, double Bps, ccl_error_t *err) {
    const ccl_capacity_arc_t *a = &cuts->net->c->arcs[arc];
    window_t w = window_of(cuts->net, side, arc, joined);
    size_t *nsteps = &cuts->nsteps[joined], n = 0;
    if (!joined)
        cuts->fixed_bytes += Bps * w.fixed_s;
    if (!w.open || !(Bps > 0))
        return CCL_OK;
    CCL_TRY(spans(cuts, side, arc, joined, &w, &n, err));
    if (!ccl_grow(&cuts->steps[joined], &cuts->cap_steps[joined], *nsteps + 2 * n,
                  sizeof *cuts->steps[joined]) ||
        !ccl_grow(&cuts->links, &cuts->cap_links, cuts->nlinks + n, sizeof *cuts->links))
        return ccl_fail_nomem(err);
    for (size_t i = 0; i < n; i++) {
        const span_t *s = &cuts->spans[i];
        cuts->steps[joined][(*nsteps)++] = (step_t){s->from_s + s->upto_s, Bps};
        if (i + 1 < n)
            cuts->steps[joined][(*nsteps)++] = (step_t){s[1].from_s + s->upto_s, -Bps};
        if (!joined)
            cuts->links[cuts->nlinks++] =
                (ccl_time_link_t){a->link, a->group, s->from_s, s->upto_s, Bps};
    }
    return CCL_OK;
}

ccl_status_t ccl_i_time_leave(ccl_i_time_cuts_t *cuts, const ccl_i_time_side_t *side,
                              ccl_error_t *err) {
    const ccl_i_time_net_t *net = cuts->net;
    bool partials = side->several_earliest || side->several_latest;
    for (uint32_t a = 0; a < net->c->narcs; a++) {
        double Bps = (double)net->c->arcs[a].units * net->c->unit_Bps / net->wire[a] *
                     (side->weights ? side->weights[a] : 1);
        CCL_TRY(put_arc(cuts, side, a, false, Bps, err));
        if (partials)
            CCL_TRY(put_arc(cuts, side, a, true, Bps, err));
    }
    return CCL_OK;
}

/* Where it proves most. */
static bool improves(ccl_i_time_cuts_t *cuts, const ccl_time_cut_t *cut) {
    bool better = false;
    for (int i = 0; i < CCL_I_TIME_SIZES && cut->all.n > 0; i++) {
        double s = cut_s(cut, ldexp(LEAST_BYTES, i));
        better |= isfinite(s) && s > cuts->best_s[i] * (1 + 1e-9);
        if (isfinite(s))
            cuts->best_s[i] = fmax(cuts->best_s[i], s);
    }
    return better;
}

static ccl_status_t copy_steps(ccl_arena_t *arena, ccl_time_steps_t *steps, ccl_error_t *err) {
    double *after = ccl_arena_alloc(arena, steps->n + (size_t)1, sizeof *after);
    double *Bps = ccl_arena_alloc(arena, steps->n + (size_t)1, sizeof *Bps);
    if (!after || !Bps)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < steps->n; i++) {
        after[i] = steps->after_s[i];
        Bps[i] = steps->Bps[i];
    }
    steps->after_s = after;
    steps->Bps = Bps;
    return CCL_OK;
}

static ccl_status_t keep(ccl_i_time_cuts_t *cuts, const ccl_i_time_needed_t *needed,
                         ccl_time_cut_t *cut, ccl_error_t *err) {
    ccl_time_bound_t *out = cuts->out;
    size_t n = cuts->net->c->topo->nranks;
    CCL_TRY(copy_steps(&out->arena, &cut->all, err));
    CCL_TRY(copy_steps(&out->arena, &cut->joined, err));
    cut->nlinks = (uint32_t)cuts->nlinks;
    cut->links = ccl_arena_alloc(&out->arena, cuts->nlinks + 1, sizeof *cut->links);
    cut->sources = ccl_arena_alloc(&out->arena, n, 1);
    cut->dests = ccl_arena_alloc(&out->arena, n, 1);
    if (!cut->links || !cut->sources || !cut->dests ||
        !ccl_grow(&out->cuts, &cuts->cap, out->ncuts + (size_t)1, sizeof *out->cuts))
        return ccl_fail_nomem(err);
    memcpy(cut->links, cuts->links, cuts->nlinks * sizeof *cut->links);
    memcpy(cut->sources, needed->sources, n);
    memcpy(cut->dests, needed->dests, n);
    out->cuts[out->ncuts++] = *cut;
    return CCL_OK;
}

ccl_status_t ccl_i_time_cut(ccl_i_time_cuts_t *cuts, const ccl_i_time_needed_t *needed,
                            ccl_error_t *err) {
    ccl_time_cut_t cut = {.share = needed->share,
                          .least = needed->least,
                          .partials = needed->partials,
                          .lengths = needed->lengths,
                          .fixed_bytes = cuts->fixed_bytes};
    ccl_arena_t scratch;
    ccl_status_t status = CCL_OK;
    ccl_arena_init(&scratch);
    if (needed->share > 0) {
        status = put_steps(cuts->steps[0], cuts->nsteps[0], &scratch, &cut.all, err);
        if (status == CCL_OK)
            status = put_steps(cuts->steps[1], cuts->nsteps[1], &scratch, &cut.joined, err);
        if (status == CCL_OK && improves(cuts, &cut))
            status = keep(cuts, needed, &cut, err);
    }
    cuts->nsteps[0] = cuts->nsteps[1] = cuts->nlinks = 0;
    cuts->fixed_bytes = 0;
    ccl_arena_fini(&scratch);
    return status;
}

double ccl_time_bound_s(const ccl_time_bound_t *bound, double size_bytes,
                        const ccl_time_cut_t **cut_out) {
    double best = 0;
    const ccl_time_cut_t *by = NULL;
    for (uint32_t i = 0; i < bound->ncuts; i++) {
        double s = cut_s(&bound->cuts[i], size_bytes);
        if (s > best) {
            best = s;
            by = &bound->cuts[i];
        }
    }
    if (cut_out)
        *cut_out = by;
    return best * (1 - 1e-12); /* rounding of the sums above */
}

void ccl_time_bound_fini(ccl_time_bound_t *bound) {
    free(bound->cuts);
    ccl_arena_fini(&bound->arena);
    memset(bound, 0, sizeof *bound);
}
