/*
 * State-based thread-block allocation (ResCCL, SIGCOMM 2025, section 4.4): connections that are
 * never active at the same time share one block.
 *
 * The timeline is a simulated run of the program with a block per connection. A step is active from
 * its first pass in the first micro-batch to its end in the last. Blocks of a GPU whose steps
 * hardly overlap become one, their steps in one order of all transfers in which nothing waits for
 * what comes later:
 * every transfer is one place in that order (its send and its receive together), so the first
 * transfer that is not finished can always go on, with one FIFO slot, at any granularity and for
 * any number of micro-batches. Merging is tried from generous to strict; the first result that
 * finishes and takes at most 1 % longer is it. Of long runs the strictest is tried second, of large
 * programs first: where it fails, nearly always all do.
 */
#include "lower/lower_i.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Overlap that is tried, as a share of the run; the simulated time decides. */
static const double TOLERANCE[] = {0.08, 0.03, 0.01, 0.003, 1e-9};
static const double SLOWER = 0.01;
/* Steps of a program of which a try takes a good part of a second, and primitives of a run (steps
   times micro-batches) of which it takes milliseconds. */
#define LARGE_STEPS 100000u
#define LONG_RUN 20000.0

typedef struct span {
    double start_s, end_s;
} span_t;

/** What becomes one block. */
typedef struct team {
    uint32_t rank;
    uint32_t first_tb; /* list through next_tb */
    span_t *spans;     /* ascending, disjoint enough */
    size_t nspans, cspans;
} team_t;

typedef struct state {
    const ccl_program_t *p;
    const ccl_lower_options_t *options;
    const ccl_sim_result_t *timeline;
    uint32_t *tb_of;    /* [nsteps] */
    uint32_t *match;    /* [nsteps] the other end of its message (of a fused step: who takes what it
                           sends); CCL_NONE */
    uint32_t *node;     /* [nsteps] place holder: a plain receive has its send's */
    uint32_t *position; /* [nsteps] in the order of all transfers */
    uint32_t *team_of;  /* [ntbs] */
    uint32_t *next_tb;  /* [ntbs] of its team */
    team_t *teams;
    uint32_t nteams;
    uint32_t *order; /* [nsteps] steps of teams, and scratch */
} state_t;

static void teams_fini(state_t *s) {
    for (uint32_t i = 0; i < s->nteams; i++)
        free(s->teams[i].spans);
    s->nteams = 0;
}

static void state_fini(state_t *s) {
    teams_fini(s);
    free(s->tb_of);
    free(s->match);
    free(s->node);
    free(s->position);
    free(s->team_of);
    free(s->next_tb);
    free(s->teams);
    free(s->order);
}

static ccl_status_t state_init(state_t *s, ccl_error_t *err) {
    size_t n = s->p->nsteps + (size_t)1, nt = s->p->ntbs + (size_t)1;
    s->tb_of = malloc(n * sizeof *s->tb_of);
    s->match = malloc(n * sizeof *s->match);
    s->node = malloc(n * sizeof *s->node);
    s->position = malloc(n * sizeof *s->position);
    s->order = malloc(n * sizeof *s->order);
    s->team_of = malloc(nt * sizeof *s->team_of);
    s->next_tb = malloc(nt * sizeof *s->next_tb);
    s->teams = malloc(nt * sizeof *s->teams);
    if (!s->tb_of || !s->match || !s->node || !s->position || !s->order || !s->team_of ||
        !s->next_tb || !s->teams)
        return ccl_fail_nomem(err);
    for (uint32_t t = 0; t < s->p->ntbs; t++)
        for (uint32_t k = 0; k < s->p->tbs[t].nsteps; k++)
            s->tb_of[s->p->tbs[t].first_step + k] = t;
    return CCL_OK;
}

/* ---------------------------------------------------------------- messages */

static ccl_status_t find_messages(state_t *s, ccl_error_t *err) {
    const ccl_program_t *p = s->p;
    bool whole = false;
    ccl_wiring_t w;
    CCL_TRY(ccl_wiring_init(p, s->options->granularity, &w, err));
    uint32_t *sender = malloc((p->nsteps + (size_t)1) * sizeof *sender);
    ccl_status_t status =
        sender ? ccl_wiring_match(&w, p, s->match, sender, &whole, err) : ccl_fail_nomem(err);
    for (uint32_t i = 0; status == CCL_OK && i < p->nsteps; i++)
        if (s->match[i] == CCL_NONE)
            s->match[i] = sender[i];
    if (status == CCL_OK && !whole)
        status = ccl_fail(err, CCL_ERR_INTERNAL, "sends and receives do not match");
    free(sender);
    ccl_wiring_fini(&w);
    return status;
}

/* ---------------------------------------------------------------- one order of all transfers */

typedef struct keyed {
    double key;
    uint32_t node;
} keyed_t;

#define KEYED_BEFORE(x_, a_, b_)                                                                   \
    ((a_).key < (b_).key || ((a_).key == (b_).key && (a_).node < (b_).node))
CCL_HEAP(keyed, keyed_t, void *, KEYED_BEFORE, CCL_HEAP_PUT)

static uint32_t dependency(const ccl_program_t *p, const ccl_tb_t *tb, uint32_t step) {
    const ccl_step_t *st = &p->steps[step];
    if (st->dep_tb == CCL_NONE)
        return CCL_NONE;
    return p->tbs[p->rank_first_tb[tb->rank] + st->dep_tb].first_step + st->dep_step;
}

/** A plain send and its plain receive are one place. */
static bool contracted(const state_t *s, uint32_t step) {
    return s->node[step] != step;
}

/**
 * Steps by earliest start, but never before what they wait for. @param contract  a message is one
 * place in the order. *cycle_out: that is impossible (two ranks exchange: both send, then both
 * receive).
 */
static ccl_status_t sort_steps(state_t *s, bool contract, bool *cycle_out, ccl_error_t *err) {
    const ccl_program_t *p = s->p;
    size_t n = p->nsteps + (size_t)1, nheap = 0;
    uint32_t *open = calloc(n, sizeof *open); /* what a place waits for */
    uint32_t *first_dep = malloc(n * sizeof *first_dep), *next_dep = malloc(n * sizeof *next_dep);
    keyed_t *heap = malloc(n * sizeof *heap);
    ccl_status_t status = CCL_OK;
    uint32_t done = 0, places = 0;
    if (!open || !first_dep || !next_dep || !heap) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    memset(first_dep, 0xff, n * sizeof *first_dep);
    for (uint32_t i = 0; i < p->nsteps; i++) {
        uint32_t m = s->match[i];
        bool plain = p->steps[i].type == CCL_PRIM_R || p->steps[i].type == CCL_PRIM_RRC;
        s->node[i] = contract && plain && m != CCL_NONE && p->steps[m].type == CCL_PRIM_S ? m : i;
        places += s->node[i] == i;
    }
    for (uint32_t i = 0; i < p->nsteps; i++) {
        const ccl_tb_t *tb = &p->tbs[s->tb_of[i]];
        uint32_t dep = dependency(p, tb, i);
        open[s->node[i]] += i > tb->first_step; /* the step before it in its block */
        next_dep[i] = CCL_NONE;
        if (dep != CCL_NONE && s->node[dep] != s->node[i]) {
            open[s->node[i]]++;
            next_dep[i] = first_dep[dep];
            first_dep[dep] = i;
        }
        if (ccl_primitive_sends(p->steps[i].type) && s->node[s->match[i]] != s->node[i])
            open[s->node[s->match[i]]]++;
    }
    for (uint32_t i = 0; i < p->nsteps; i++)
        if (s->node[i] == i && !open[i])
            keyed_push(NULL, heap, nheap++, (keyed_t){s->timeline->step_start_s[i], i});
    while (nheap) {
        uint32_t place = keyed_pop(NULL, heap, nheap--).node;
        uint32_t members[2] = {place, CCL_NONE};
        if (contract && s->match[place] != CCL_NONE && s->node[s->match[place]] == place)
            members[1] = s->match[place];
        for (int k = 0; k < 2 && members[k] != CCL_NONE; k++) {
            uint32_t i = members[k], freed[2] = {CCL_NONE, CCL_NONE};
            const ccl_tb_t *tb = &p->tbs[s->tb_of[i]];
            s->position[i] = done;
            if (i + 1 < tb->first_step + tb->nsteps)
                freed[0] = i + 1;
            if (ccl_primitive_sends(p->steps[i].type) && !contracted(s, s->match[i]))
                freed[1] = s->match[i];
            for (int f = 0; f < 2; f++)
                if (freed[f] != CCL_NONE && --open[s->node[freed[f]]] == 0)
                    keyed_push(NULL, heap, nheap++,
                               (keyed_t){s->timeline->step_start_s[freed[f]], s->node[freed[f]]});
            for (uint32_t w = first_dep[i]; w != CCL_NONE; w = next_dep[w])
                if (--open[s->node[w]] == 0)
                    keyed_push(NULL, heap, nheap++,
                               (keyed_t){s->timeline->step_start_s[w], s->node[w]});
        }
        done++;
    }
    *cycle_out = done < places;
end:
    free(open);
    free(first_dep);
    free(next_dep);
    free(heap);
    return status;
}

/* ---------------------------------------------------------------- teams */

/** Active spans of one block, ascending. @return their number; spans has room for its steps. */
static size_t spans_of(const state_t *s, uint32_t t, span_t *spans) {
    const ccl_tb_t *tb = &s->p->tbs[t];
    size_t n = 0;
    for (uint32_t k = 0; k < tb->nsteps; k++) {
        uint32_t i = tb->first_step + k;
        double start_s = s->timeline->step_start_s[i], end_s = s->timeline->step_end_s[i];
        if (s->p->steps[i].type == CCL_PRIM_NOP || !(end_s > start_s))
            continue;
        /* At algorithm level a later micro-batch's first step comes before an earlier one's last */
        if (n && start_s < spans[n - 1].end_s)
            spans[n - 1].end_s = fmax(spans[n - 1].end_s, end_s);
        else
            spans[n++] = (span_t){start_s, end_s};
    }
    return n;
}

/** Seconds that both are active. @param most_s  more than that need not be known better. */
static double overlap(const team_t *team, const span_t *spans, size_t n, double most_s) {
    double sum = 0;
    for (size_t a = 0, b = 0; a < team->nspans && b < n && sum <= most_s;) {
        double start_s = fmax(team->spans[a].start_s, spans[b].start_s);
        double end_s = fmin(team->spans[a].end_s, spans[b].end_s);
        sum += end_s > start_s ? end_s - start_s : 0;
        if (team->spans[a].end_s < spans[b].end_s)
            a++;
        else
            b++;
    }
    return sum;
}

static bool team_add(state_t *s, uint32_t index, uint32_t t, const span_t *spans, size_t n) {
    team_t *team = &s->teams[index];
    if (!ccl_grow(&team->spans, &team->cspans, team->nspans + n + 1, sizeof *team->spans))
        return false;
    /* Merge from the back. */
    size_t a = team->nspans, b = n, at = a + n;
    while (b > 0) {
        if (a > 0 && team->spans[a - 1].start_s > spans[b - 1].start_s)
            team->spans[--at] = team->spans[--a];
        else
            team->spans[--at] = spans[--b];
    }
    team->nspans += n;
    s->next_tb[t] = team->first_tb;
    team->first_tb = t;
    s->team_of[t] = index;
    return true;
}

typedef struct begun {
    double start_s;
    uint32_t tb;
} begun_t;

static int by_start(const void *a, const void *b) {
    const begun_t *x = a, *y = b;
    if (x->start_s != y->start_s)
        return x->start_s < y->start_s ? -1 : 1;
    return x->tb < y->tb ? -1 : x->tb > y->tb;
}

/** Blocks of every GPU, by the start of their activity, each to the team it disturbs least. */
static ccl_status_t make_teams(state_t *s, double tolerance, ccl_error_t *err) {
    const ccl_program_t *p = s->p;
    uint32_t longest = 1, most = 1;
    teams_fini(s);
    for (uint32_t t = 0; t < p->ntbs; t++)
        longest = p->tbs[t].nsteps > longest ? p->tbs[t].nsteps : longest;
    for (uint32_t r = 0; r < p->nranks; r++) {
        uint32_t n = p->rank_first_tb[r + 1] - p->rank_first_tb[r];
        most = n > most ? n : most;
    }
    span_t *spans = malloc(longest * sizeof *spans);
    begun_t *begun = malloc(most * sizeof *begun);
    ccl_status_t status = CCL_OK;
    if (!spans || !begun)
        goto nomem;
    double allowed_s = tolerance * s->timeline->time_s;
    for (uint32_t r = 0; r < p->nranks; r++) {
        uint32_t first_team = s->nteams, n = 0;
        for (uint32_t t = p->rank_first_tb[r]; t < p->rank_first_tb[r + 1]; t++) {
            size_t k = spans_of(s, t, spans);
            begun[n++] = (begun_t){k ? spans[0].start_s : 0, t};
        }
        qsort(begun, n, sizeof *begun, by_start);
        for (uint32_t i = 0; i < n; i++) {
            uint32_t t = begun[i].tb, best = CCL_NONE;
            size_t k = spans_of(s, t, spans);
            double least_s = INFINITY, latest_s = -INFINITY;
            for (uint32_t g = first_team; g < s->nteams; g++) {
                const team_t *team = &s->teams[g];
                double over_s = overlap(team, spans, k, fmin(allowed_s, least_s));
                double last_s = team->nspans ? team->spans[team->nspans - 1].end_s : 0;
                if (over_s > allowed_s)
                    continue;
                if (over_s < least_s || (over_s == least_s && last_s > latest_s)) {
                    least_s = over_s;
                    latest_s = last_s;
                    best = g;
                }
            }
            if (best == CCL_NONE) {
                best = s->nteams++;
                s->teams[best] = (team_t){.rank = r, .first_tb = CCL_NONE};
            }
            if (!team_add(s, best, t, spans, k))
                goto nomem;
        }
    }
    goto end;
nomem:
    status = ccl_fail_nomem(err);
end:
    free(spans);
    free(begun);
    return status;
}

/* ---------------------------------------------------------------- the program of the teams */

typedef struct placed {
    uint32_t position, step;
} placed_t;

static int by_position(const void *a, const void *b) {
    const placed_t *x = a, *y = b;
    if (x->position != y->position)
        return x->position < y->position ? -1 : 1;
    return x->step < y->step ? -1 : x->step > y->step;
}

/** Steps of a team in order; a nop waits for the step behind it, so it stays in front of that. */
static uint32_t list_steps(const state_t *s, const team_t *team, placed_t *out) {
    const ccl_program_t *p = s->p;
    uint32_t n = 0;
    for (uint32_t t = team->first_tb; t != CCL_NONE; t = s->next_tb[t]) {
        const ccl_tb_t *tb = &p->tbs[t];
        uint32_t position = CCL_NONE;
        for (uint32_t k = tb->nsteps; k-- > 0;) {
            uint32_t i = tb->first_step + k;
            if (p->steps[i].type != CCL_PRIM_NOP || p->steps[i].has_dep || position == CCL_NONE)
                position = s->position[i];
            out[n++] = (placed_t){position, i};
        }
    }
    qsort(out, n, sizeof *out, by_position);
    return n;
}

/** A team of which all members use the same connections is a plain block. */
static ccl_peers_t team_peers(const state_t *s, const team_t *team, bool *shared_out) {
    ccl_peers_t own = {CCL_NONE, CCL_NONE, s->p->tbs[team->first_tb].channel};
    bool moves = false;
    *shared_out = false;
    for (uint32_t t = team->first_tb; t != CCL_NONE; t = s->next_tb[t]) {
        const ccl_tb_t *tb = &s->p->tbs[t];
        if (tb->send_peer == CCL_NONE && tb->recv_peer == CCL_NONE) {
            *shared_out = *shared_out || ccl_program_tb_shared(s->p, tb);
            continue;
        }
        if ((tb->send_peer != CCL_NONE && own.send_peer != CCL_NONE) ||
            (tb->recv_peer != CCL_NONE && own.recv_peer != CCL_NONE) ||
            (moves && tb->channel != own.channel))
            *shared_out = true;
        moves = true;
        own.channel = tb->channel;
        own.send_peer = tb->send_peer != CCL_NONE ? tb->send_peer : own.send_peer;
        own.recv_peer = tb->recv_peer != CCL_NONE ? tb->recv_peer : own.recv_peer;
    }
    if (*shared_out)
        own.send_peer = own.recv_peer = CCL_NONE;
    return own;
}

/** Block ids within their rank, and where every step goes (dropped nops: CCL_NONE). */
typedef struct layout {
    uint32_t *id;    /* [nteams] */
    uint32_t *first; /* [nteams + 1] into steps */
    uint32_t *steps; /* [kept] by team */
    uint32_t *index; /* [nsteps] in its block */
} layout_t;

static void layout_fini(layout_t *l) {
    free(l->id);
    free(l->first);
    free(l->steps);
    free(l->index);
}

static ccl_status_t layout_init(const state_t *s, layout_t *l, ccl_error_t *err) {
    const ccl_program_t *p = s->p;
    placed_t *list = malloc((p->nsteps + (size_t)1) * sizeof *list);
    l->id = malloc((s->nteams + (size_t)1) * sizeof *l->id);
    l->first = malloc((s->nteams + (size_t)1) * sizeof *l->first);
    l->steps = malloc((p->nsteps + (size_t)1) * sizeof *l->steps);
    l->index = malloc((p->nsteps + (size_t)1) * sizeof *l->index);
    if (!list || !l->id || !l->first || !l->steps || !l->index) {
        free(list);
        return ccl_fail_nomem(err);
    }
    uint32_t at = 0;
    for (uint32_t g = 0; g < s->nteams; g++) {
        l->id[g] = g > 0 && s->teams[g].rank == s->teams[g - 1].rank ? l->id[g - 1] + 1 : 0;
        l->first[g] = at;
        uint32_t n = list_steps(s, &s->teams[g], list);
        for (uint32_t k = 0; k < n; k++) {
            uint32_t i = list[k].step;
            const ccl_step_t *st = &p->steps[i];
            uint32_t dep = dependency(p, &p->tbs[s->tb_of[i]], i);
            bool met = dep == CCL_NONE || s->team_of[s->tb_of[dep]] == g;
            l->index[i] = at - l->first[g];
            if (st->type == CCL_PRIM_NOP && !st->has_dep && met)
                continue; /* order does what it waited for */
            l->steps[at++] = i;
        }
    }
    l->first[s->nteams] = at;
    free(list);
    return CCL_OK;
}

static ccl_status_t build(const state_t *s, ccl_program_t **out, ccl_error_t *err) {
    const ccl_program_t *p = s->p;
    layout_t l = {0};
    ccl_collective_t *coll;
    ccl_status_t status = layout_init(s, &l, err);
    if (status == CCL_OK)
        status = ccl_collective_clone(p->coll, &coll, err);
    if (status != CCL_OK) {
        layout_fini(&l);
        return status;
    }
    ccl_program_builder_t *b = ccl_program_builder_create(p->name, coll, p->nchunks, p->proto);
    if (!b) {
        layout_fini(&l);
        return ccl_fail_nomem(err);
    }
    ccl_program_builder_place(b, p->in_place, p->out_of_place, p->min_bytes, p->max_bytes);
    for (uint32_t i = 0; i < 3 * p->nranks; i++) {
        ccl_program_builder_buffer(b, i / 3, (ccl_buffer_t)(i % 3), p->buffer_len[i]);
        if (p->shares)
            ccl_program_builder_shares(b, i / 3, (ccl_buffer_t)(i % 3), p->shares[i]);
    }
    for (uint32_t g = 0; g < s->nteams; g++) {
        bool shared;
        ccl_peers_t own = team_peers(s, &s->teams[g], &shared);
        uint32_t handle =
            ccl_program_builder_tb(b, s->teams[g].rank, own.send_peer, own.recv_peer, own.channel);
        for (uint32_t k = l.first[g]; k < l.first[g + 1]; k++) {
            uint32_t i = l.steps[k];
            const ccl_tb_t *tb = &p->tbs[s->tb_of[i]];
            ccl_step_t step = p->steps[i];
            uint32_t dep = dependency(p, tb, i);
            step.dep_tb = step.dep_step = CCL_NONE;
            if (dep != CCL_NONE && s->team_of[s->tb_of[dep]] != g) {
                step.dep_tb = l.id[s->team_of[s->tb_of[dep]]];
                step.dep_step = l.index[dep];
            }
            if (shared)
                ccl_program_builder_step_peers(b, handle, step, ccl_program_peers(p, tb, i));
            else
                ccl_program_builder_step(b, handle, step);
        }
    }
    layout_fini(&l);
    CCL_TRY(ccl_program_builder_finish(b, out, err));
    (*out)->piece_bytes = p->piece_bytes;
    return CCL_OK;
}

/* ---------------------------------------------------------------- trying */

/* Its run has times of steps: that of one whose time alone was known is made again. */
static ccl_status_t time_steps(const ccl_ctx_t *ctx, const ccl_lower_options_t *options,
                               ccl_timed_program_t *timed, ccl_error_t *err) {
    if (timed->run && timed->run->step_end_s)
        return CCL_OK;
    ccl_sim_result_destroy(timed->run);
    timed->run = NULL;
    return ccl_i_lower_simulate(ctx, options, timed->program, true, 0, &timed->run, err);
}

/** Finishes with one slot, also when every step runs several micro-batches. */
static ccl_status_t finishes(const ccl_ctx_t *ctx, const ccl_lower_options_t *options,
                             const ccl_program_t *p, bool *out, ccl_error_t *err) {
    ccl_blocking_t how = {.granularity = options->granularity, .batches = 4, .slots = 1};
    ccl_deadlock_t found;
    CCL_TRY(ccl_program_deadlock(ctx, p, &how, &found, err));
    *out = found.stuck == 0;
    return CCL_OK;
}

/** The program of one tolerance, NULL when it is no better than what there is. */
static ccl_status_t attempt(const ccl_ctx_t *ctx, state_t *s, bool any_slots, uint32_t limit,
                            ccl_timed_program_t *out, ccl_error_t *err) {
    ccl_program_t *merged = NULL;
    ccl_sim_result_t *run = NULL;
    double most_s = s->timeline->time_s * (1 + SLOWER);
    *out = (ccl_timed_program_t){NULL, NULL};
    if (s->nteams >= limit)
        return CCL_OK;
    CCL_TRY(build(s, &merged, err));
    ccl_status_t status = ccl_i_lower_simulate(ctx, s->options, merged, false, most_s, &run, err);
    bool good = status == CCL_OK && run->time_s <= most_s;
    if (status == CCL_DEADLOCK) /* refused, not a failure */
        status = CCL_OK;
    if (good && any_slots)
        status = finishes(ctx, s->options, merged, &good, err);
    ccl_timed_program_t timed = {merged, run};
    if (status == CCL_OK && good)
        *out = timed;
    else
        ccl_timed_program_fini(&timed);
    return status;
}

ccl_status_t ccl_i_allocate_state(const ccl_ctx_t *ctx, const ccl_lower_options_t *options,
                                  ccl_timed_program_t *timed, ccl_error_t *err) {
    ccl_timed_program_t merged = {NULL, NULL}, strict = {NULL, NULL};
    bool cycle = false, any_slots = false;
    state_t s = {.p = timed->program, .options = options};
    ccl_status_t status = CCL_OK;
    CCL_TRY(time_steps(ctx, options, timed, err));
    s.timeline = timed->run;
    CCL_TRY_GOTO(state_init(&s, err), status, end);
    CCL_TRY_GOTO(find_messages(&s, err), status, end);
    CCL_TRY_GOTO(sort_steps(&s, true, &cycle, err), status, end);
    if (cycle) {
        CCL_TRY_GOTO(sort_steps(&s, false, &cycle, err), status, end);
        if (cycle) {
            status = ccl_fail(err, CCL_ERR_INTERNAL, "steps wait for each other");
            goto end;
        }
    }
    /* A program that itself needs more slots than one (fused rings) is only held to the run. */
    CCL_TRY_GOTO(finishes(ctx, options, timed->program, &any_slots, err), status, end);
    uint32_t limit = timed->program->ntbs;
    size_t tries = CCL_ARRAY_LEN(TOLERANCE);
    double primitives = (double)timed->program->nsteps * s.timeline->batches;
    size_t before = timed->program->nsteps > LARGE_STEPS ? 0 : primitives > LONG_RUN ? 1 : tries;
    for (size_t k = 0; k < tries && !merged.program; k++) {
        if (k == before) {
            do /* the strictest that merges anything */
                CCL_TRY_GOTO(make_teams(&s, TOLERANCE[--tries], err), status, end);
            while (tries > 0 && s.nteams >= limit);
            CCL_TRY_GOTO(attempt(ctx, &s, any_slots, limit, &strict, err), status, end);
            if (!strict.program || k == tries)
                break;
        }
        CCL_TRY_GOTO(make_teams(&s, TOLERANCE[k], err), status, end);
        CCL_TRY_GOTO(attempt(ctx, &s, any_slots, limit, &merged, err), status, end);
    }
    if (!merged.program) {
        merged = strict;
        strict = (ccl_timed_program_t){NULL, NULL};
    }
    if (merged.program) {
        ccl_timed_program_fini(timed);
        *timed = merged;
    }
end:
    ccl_timed_program_fini(&strict);
    state_fini(&s);
    return status;
}
