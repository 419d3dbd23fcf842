/**
 * @file hom_flow.c
 * What the start and the end of a program do to memory: the program runs untimed, on names instead
 * of data. Then, backwards, what is read later or is a result.
 */
#include "runtime/hom/hom.h"

#include "runtime/plan_i.h"

#include <stdlib.h>
#include <string.h>

/** What a place holds: what another place held before the part, or the sum of two nodes. */
typedef struct node {
    uint32_t a, b; /* b == CCL_NONE: place a */
} node_t;

typedef struct queue {
    uint32_t *nodes;
    size_t cap;
    uint32_t head, tail;
} queue_t;

/** A place that a part wrote. */
typedef struct change {
    uint32_t place, node;
} change_t;

enum { SEGMENTS = 3 }; /* start, middle, end */

typedef struct flow {
    const ccl_program_t *program;
    const ccl_i_run_plan_t *plan;
    ccl_i_hom_t *hom;
    ccl_i_hom_flow_t *out;
    node_t *nodes;
    size_t nnodes, nodes_cap;
    uint32_t *now;     /* [nplaces] node; CCL_NONE: as before the part */
    queue_t *queues;   /* [nconns] */
    uint32_t *at_step; /* [nunits] */
    bool *done;        /* [nsteps] */
    change_t *changes;
    size_t nchanges, changes_cap;
    size_t end_of[SEGMENTS]; /* into changes */
} flow_t;

/* ---------------------------------------------------------------- places */

static int by_at(const void *a, const void *b) {
    const uint64_t *x = a, *y = b;
    return x[0] < y[0] ? -1 : x[0] > y[0];
}

static ccl_status_t find_places(const ccl_i_layout_t *l, ccl_i_hom_t *hom, ccl_error_t *err) {
    ccl_i_hom_flow_t *f = &hom->flow;
    uint32_t total = l->first[3 * (size_t)l->nranks];
    uint64_t(*sorted)[2] = malloc((total + (size_t)1) * sizeof *sorted);
    f->first = ccl_arena_alloc(&hom->arena, l->nranks + (size_t)1, sizeof *f->first);
    f->rank = ccl_arena_alloc(&hom->arena, total + (size_t)1, sizeof *f->rank);
    f->at = ccl_arena_alloc(&hom->arena, total + (size_t)1, sizeof *f->at);
    f->items = ccl_arena_alloc(&hom->arena, total + (size_t)1, sizeof *f->items);
    if (!sorted || !f->first || !f->rank || !f->at || !f->items) {
        free(sorted);
        return ccl_fail_nomem(err);
    }
    for (uint32_t r = 0; r < l->nranks; r++) {
        uint32_t n = 0;
        f->first[r] = f->nplaces;
        for (uint32_t e = l->first[3 * (size_t)r]; e < l->first[3 * (size_t)r + 3]; e++) {
            if (l->items[e] == 0)
                continue;
            sorted[n][0] = l->at[e];
            sorted[n++][1] = l->items[e];
        }
        qsort(sorted, n, sizeof *sorted, by_at);
        for (uint32_t i = 0; i < n; i++) {
            if (i > 0 && sorted[i][0] == sorted[i - 1][0]) /* input and output in place */
                continue;
            f->rank[f->nplaces] = r;
            f->at[f->nplaces] = sorted[i][0];
            f->items[f->nplaces++] = sorted[i][1];
        }
    }
    f->first[l->nranks] = f->nplaces;
    free(sorted);
    return CCL_OK;
}

static uint32_t place_of(const ccl_i_hom_flow_t *f, uint32_t rank, uint64_t at) {
    uint32_t lo = f->first[rank], hi = f->first[rank + 1];
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (f->at[mid] < at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo; /* elements of verified programs are there */
}

/* ---------------------------------------------------------------- one step */

static uint32_t make_node(flow_t *f, uint32_t a, uint32_t b) {
    if (!ccl_grow(&f->nodes, &f->nodes_cap, f->nnodes + 1, sizeof *f->nodes))
        return CCL_NONE;
    f->nodes[f->nnodes] = (node_t){a, b};
    return (uint32_t)f->nnodes++;
}

static uint32_t value(flow_t *f, uint32_t place) {
    return f->now[place] != CCL_NONE ? f->now[place] : make_node(f, place, CCL_NONE);
}

static bool set(flow_t *f, uint32_t place, uint32_t node) {
    if (f->now[place] == CCL_NONE) {
        if (!ccl_grow(&f->changes, &f->changes_cap, f->nchanges + 1, sizeof *f->changes))
            return false;
        f->changes[f->nchanges++].place = place;
    }
    f->now[place] = node;
    return true;
}

static bool push(queue_t *q, uint32_t node) {
    if (!ccl_grow(&q->nodes, &q->cap, q->tail + (size_t)1, sizeof *q->nodes))
        return false;
    q->nodes[q->tail++] = node;
    return true;
}

/** One element of a step; false: out of memory. */
static bool element(flow_t *f, uint32_t rank, const ccl_device_step_t *s, uint64_t src_at,
                    uint64_t dst_at) {
    bool reads = ccl_i_prim_reads(s->prim), writes = ccl_i_prim_writes(s->prim);
    uint32_t dst = writes ? place_of(f->out, rank, dst_at) : CCL_NONE, v = CCL_NONE;
    if (s->recv != CCL_NONE)
        v = f->queues[s->recv].nodes[f->queues[s->recv].head++];
    if (reads) {
        uint32_t src = value(f, place_of(f->out, rank, src_at));
        if (src == CCL_NONE)
            return false;
        v = v == CCL_NONE ? src : make_node(f, v, src);
    }
    if (s->prim == CCL_PRIM_RE) {
        uint32_t own = value(f, dst);
        v = own == CCL_NONE || v == CCL_NONE ? CCL_NONE : make_node(f, own, v);
    }
    return v != CCL_NONE && (!writes || set(f, dst, v)) &&
           (s->send == CCL_NONE || push(&f->queues[s->send], v));
}

static bool is_ready(const flow_t *f, const ccl_device_step_t *s) {
    uint64_t n = 0;
    if (s->dep != CCL_NONE && !f->done[s->dep])
        return false;
    for (uint32_t i = 0; i < s->npieces; i++)
        n += f->plan->pieces[s->first_piece + i].n;
    return s->recv == CCL_NONE || f->queues[s->recv].tail - f->queues[s->recv].head >= n;
}

static bool run_step(flow_t *f, uint32_t rank, const ccl_device_step_t *s) {
    for (uint32_t i = 0; i < s->npieces; i++) {
        const ccl_device_piece_t *p = &f->plan->pieces[s->first_piece + i];
        for (uint64_t e = 0; e < p->n; e++)
            if (!element(f, rank, s, p->src + e * p->items, p->dst + e * p->items))
                return false;
    }
    return true;
}

/* ---------------------------------------------------------------- segments */

static uint32_t stage_of(const flow_t *f, uint32_t unit) {
    return f->program->steps[f->plan->program_step[f->plan->units[unit].first_step]].stage;
}

static uint32_t segment_of(const flow_t *f, uint32_t unit) {
    uint32_t stage = stage_of(f, unit);
    return stage < f->hom->first_middle ? 0 : stage > f->hom->last_middle ? 2 : 1;
}

static ccl_status_t run_segment(flow_t *f, uint32_t segment, ccl_error_t *err) {
    bool moved = true, open = true;
    while (moved) {
        moved = open = false;
        for (uint32_t u = 0; u < f->plan->dev.nunits; u++) {
            const ccl_device_unit_t *unit = &f->plan->units[u];
            if (f->at_step[u] == unit->nsteps || segment_of(f, u) != segment ||
                (unit->after != CCL_NONE && !f->done[unit->after]))
                continue;
            for (; f->at_step[u] < unit->nsteps; f->at_step[u]++, moved = true) {
                uint32_t i = unit->first_step + f->at_step[u];
                if (!is_ready(f, &f->plan->steps[i]))
                    break;
                if (!run_step(f, unit->rank, &f->plan->steps[i]))
                    return ccl_fail_nomem(err);
                f->done[i] = true;
            }
        }
    }
    for (uint32_t u = 0; u < f->plan->dev.nunits; u++)
        open |= segment_of(f, u) == segment && f->at_step[u] < f->plan->units[u].nsteps;
    if (open)
        return ccl_fail(err, CCL_UNSUPPORTED,
                        "a stage of the program waits for a later one: its start and end cannot be "
                        "left to libraries");
    size_t first = segment ? f->end_of[segment - 1] : 0;
    for (size_t i = first; i < f->nchanges; i++) {
        f->changes[i].node = f->now[f->changes[i].place];
        f->now[f->changes[i].place] = CCL_NONE;
    }
    f->end_of[segment] = f->nchanges;
    return CCL_OK;
}

/* ---------------------------------------------------------------- what is needed */

/** The places of a node's sum, added to the leaves. */
static bool flatten(const flow_t *f, uint32_t node, uint32_t **stack, size_t *stack_cap,
                    size_t *leaves_cap) {
    size_t n = 0;
    if (!ccl_grow(stack, stack_cap, 1, sizeof **stack))
        return false;
    (*stack)[n++] = node;
    while (n > 0) {
        const node_t *x = &f->nodes[(*stack)[--n]];
        if (x->b != CCL_NONE) {
            if (!ccl_grow(stack, stack_cap, n + 2, sizeof **stack))
                return false;
            (*stack)[n++] = x->b;
            (*stack)[n++] = x->a;
            continue;
        }
        if (!ccl_grow(&f->out->leaves, leaves_cap, f->out->nleaves + 1, sizeof *f->out->leaves))
            return false;
        f->out->leaves[f->out->nleaves++] = x->a;
    }
    return true;
}

/** Results at the end. */
static void mark_results(const flow_t *f, bool *live) {
    const ccl_i_layout_t *l = &f->plan->layout;
    for (uint32_t r = 0; r < f->program->nranks; r++) {
        uint32_t len = ccl_collective_output_len(f->program->coll, r);
        for (uint32_t i = 0; i < len; i++) {
            uint32_t e = ccl_i_layout_find(f->program, l, r, CCL_BUF_OUTPUT, i);
            if (e != CCL_NONE && l->items[e])
                live[place_of(f->out, r, l->at[e])] = true;
        }
    }
}

/** Moves of a segment whose results are live; live becomes what it needs. */
static bool take_moves(flow_t *f, uint32_t segment, bool *live, bool *before) {
    size_t first = segment ? f->end_of[segment - 1] : 0, cap = 0, stack_cap = 0, leaves_cap;
    uint32_t *stack = NULL, part = segment / 2;
    bool ok = true;
    leaves_cap = f->out->nleaves;
    memcpy(before, live, f->out->nplaces * sizeof *before);
    for (size_t i = first; i < f->end_of[segment]; i++)
        before[f->changes[i].place] = false;
    for (size_t i = first; i < f->end_of[segment] && ok; i++) {
        const change_t *c = &f->changes[i];
        size_t begin = f->out->nleaves;
        if (!live[c->place])
            continue;
        ok = flatten(f, c->node, &stack, &stack_cap, &leaves_cap);
        for (size_t k = begin; k < f->out->nleaves; k++)
            before[f->out->leaves[k]] = true;
        bool itself = f->out->nleaves == begin + 1 && f->out->leaves[begin] == c->place;
        if (segment == 1 || itself || !ok) {
            f->out->nleaves = begin;
            continue;
        }
        uint32_t *n = &f->out->nmoves[part];
        ok = ccl_grow(&f->out->moves[part], &cap, *n + (size_t)1, sizeof *f->out->moves[part]);
        if (ok)
            f->out->moves[part][(*n)++] =
                (ccl_i_hom_move_t){c->place, (uint32_t)begin, (uint32_t)(f->out->nleaves - begin)};
    }
    memcpy(live, before, f->out->nplaces * sizeof *before);
    free(stack);
    return ok;
}

static ccl_status_t need(flow_t *f, ccl_error_t *err) {
    bool *live = calloc(2 * (size_t)f->out->nplaces + 1, sizeof *live);
    bool ok = live != NULL;
    if (ok)
        mark_results(f, live);
    for (uint32_t segment = SEGMENTS; segment-- > 0 && ok;)
        ok = take_moves(f, segment, live, live + f->out->nplaces);
    free(live);
    return ok ? CCL_OK : ccl_fail_nomem(err);
}

ccl_status_t ccl_i_hom_flow(const ccl_program_t *program, const ccl_i_run_plan_t *plan,
                            ccl_i_hom_t *hom, ccl_error_t *err) {
    flow_t f = {.program = program, .plan = plan, .hom = hom, .out = &hom->flow};
    CCL_TRY(find_places(&plan->layout, hom, err));
    f.now = malloc((f.out->nplaces + (size_t)1) * sizeof *f.now);
    f.queues = calloc(plan->dev.nconns + (size_t)1, sizeof *f.queues);
    f.at_step = calloc(plan->dev.nunits + (size_t)1, sizeof *f.at_step);
    f.done = calloc(plan->dev.nsteps + (size_t)1, sizeof *f.done);
    ccl_status_t status = CCL_OK;
    if (!f.now || !f.queues || !f.at_step || !f.done)
        status = ccl_fail_nomem(err);
    else
        memset(f.now, 0xff, f.out->nplaces * sizeof *f.now);
    for (uint32_t segment = 0; segment < SEGMENTS && status == CCL_OK; segment++)
        status = run_segment(&f, segment, err);
    if (status == CCL_OK)
        status = need(&f, err);
    for (uint32_t c = 0; f.queues && c < plan->dev.nconns; c++)
        free(f.queues[c].nodes);
    free(f.now);
    free(f.queues);
    free(f.at_step);
    free(f.done);
    free(f.nodes);
    free(f.changes);
    return status;
}
