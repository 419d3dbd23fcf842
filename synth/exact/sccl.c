/*
 * Synchronous schedules by one SMT query (SCCL: Cai and others, Synthesizing Optimal Collective
 * Algorithms, PPoPP 2021): in a step a chunk goes one hop, a step has one or more rounds, in a
 * round a link carries as many chunks as it is faster than the slowest. Least steps first; then
 * least rounds per chunk, the bandwidth cost. Steps, rounds and chunks may be given. Reductions are
 * found time-reversed (turn.h).
 */
#include "synth/registry.h"
#include "synth/common/options.h"
#include "synth/exact/sccl.h"
#include "synth/common/turn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_VARIABLES 2000000u
#define MAX_STEPS 64u
#define MAX_ROUNDS 1024u
#define MAX_BOUND 256.0  /* rounds per chunk: links are too unequal for rounds beyond it */
#define MAX_CHUNKS 16u   /* per block, where nobody says how many */
#define MORE_ROUNDS 4u   /* than steps, likewise */
#define MORE_STEPS 8u    /* than the least hops, likewise */
#define CAPACITY 4096.0  /* rounds of a link, at most, however fast */
#define EFFORT 30000000u /* of a query, where neither it nor a limit was given */

typedef struct point {
    uint32_t steps, rounds, chunks;
} point_t;

typedef struct search {
    const ccl_i_exchange_t *x;
    const ccl_collective_t *want;
    const ccl_synth_options_t *options;
    ccl_i_rotation_t rotation, none;
    uint32_t *capacity;
    uint16_t *hops_between;
    uint32_t least_steps;
    double least_rounds; /* per chunk of a block */
    bool unproven;       /* some question that came before the answer was left open */
} search_t;

typedef struct answer {
    point_t point;
    uint32_t nsends, unproven;
} answer_t;

/* ---------------------------------------------------------------- what the network can do */

static void set_capacities(search_t *s) {
    double slowest = INFINITY;
    for (uint32_t r = 0; r < s->x->nresources; r++)
        slowest = fmin(slowest, s->x->resources[r].Bps);
    for (uint32_t r = 0; r < s->x->nresources; r++)
        s->capacity[r] =
            (uint32_t)fmin(floor(s->x->resources[r].Bps / slowest * (1 + 1e-9)), CAPACITY);
}

static void set_distances(search_t *s) {
    uint32_t n = s->x->nranks, queue[CCL_I_TURN_MOST_RANKS];
    memset(s->hops_between, 0xff, (size_t)n * n * sizeof *s->hops_between);
    for (uint32_t src = 0; src < n; src++) {
        uint16_t *from = &s->hops_between[(size_t)src * n];
        uint32_t len = 0;
        from[src] = 0;
        queue[len++] = src;
        for (uint32_t at = 0; at < len; at++)
            for (uint32_t h = s->x->out_first[queue[at]]; h < s->x->out_first[queue[at] + 1]; h++) {
                uint32_t dst = s->x->hops[h].dst;
                if (from[dst] != UINT16_MAX)
                    continue;
                from[dst] = (uint16_t)(from[queue[at]] + 1);
                queue[len++] = dst;
            }
    }
}

/** Chunks that can come into (go out of) a rank in a round: over one resource per hop. */
static double rank_capacity(const search_t *s, uint32_t rank, bool in, uint32_t *mark) {
    const ccl_i_exchange_t *x = s->x;
    const uint32_t *first = in ? x->in_first : x->out_first;
    double best = INFINITY;
    for (uint32_t way = 0; way < 2; way++) { /* narrowest of each hop; most shared of each hop */
        double sum = 0;
        memset(mark, 0, x->nresources * sizeof *mark);
        for (uint32_t i = first[rank]; i < first[rank + 1]; i++) {
            const ccl_i_hop_t *h = &x->hops[in ? x->in_hops[i] : i];
            for (uint32_t u = 0; u < h->nuses; u++)
                mark[x->uses[h->first_use + u].resource] += 2;
        }
        for (uint32_t i = first[rank]; i < first[rank + 1]; i++) {
            const ccl_i_hop_t *h = &x->hops[in ? x->in_hops[i] : i];
            uint32_t chosen = CCL_NONE;
            for (uint32_t u = 0; u < h->nuses; u++) {
                uint32_t r = x->uses[h->first_use + u].resource;
                if (chosen == CCL_NONE || (way == 0 ? s->capacity[r] < s->capacity[chosen]
                                                    : mark[r] / 2 > mark[chosen] / 2))
                    chosen = r;
            }
            if (chosen != CCL_NONE && !(mark[chosen] & 1))
                sum += s->capacity[chosen];
            if (chosen != CCL_NONE)
                mark[chosen] |= 1;
            else
                sum = INFINITY; /* nothing limits it */
        }
        best = fmin(best, sum);
    }
    return best;
}

/** Least steps, and least rounds per chunk of a block by what each rank takes in and gives out. */
static bool set_bounds(search_t *s) {
    const ccl_collective_t *want = s->want;
    uint32_t n = want->nranks;
    uint32_t *mark = malloc((s->x->nresources + (size_t)1) * sizeof *mark);
    double *in = calloc(n, sizeof *in), *out = calloc(n, sizeof *out);
    bool ok = mark && in && out;
    s->least_steps = 1;
    for (uint32_t c = 0; ok && c < want->nchunks; c++) {
        const ccl_chunk_t *chunk = &want->chunks[c];
        uint32_t src = chunk->sources[0];
        bool leaves = false;
        for (uint32_t i = 0; i < chunk->ndests; i++) {
            uint32_t hops = s->hops_between[(size_t)src * n + chunk->dests[i]];
            s->least_steps = hops > s->least_steps ? hops : s->least_steps;
            leaves = leaves || hops > 0;
            in[chunk->dests[i]] += hops > 0;
        }
        out[src] += leaves;
    }
    for (uint32_t r = 0; ok && r < n; r++) {
        s->least_rounds = fmax(s->least_rounds, in[r] / rank_capacity(s, r, true, mark));
        s->least_rounds = fmax(s->least_rounds, out[r] / rank_capacity(s, r, false, mark));
    }
    free(mark);
    free(in);
    free(out);
    return ok;
}

/* ---------------------------------------------------------------- child */

static bool turns(const search_t *s) {
    return s->rotation.order > 1 &&
           (s->want->kind == CCL_ALLGATHER || s->want->kind == CCL_ALLTOALL);
}

static bool given(const search_t *s) {
    return s->options->steps && s->options->rounds && s->options->chunks;
}

/** One point: first with the rotation, which proves nothing when it fails, then without. */
static ccl_status_t try_point(search_t *s, ccl_child_pipe_t *pipe, point_t point, bool *found,
                              ccl_error_t *err) {
    ccl_collective_t *coll = NULL;
    ccl_i_sccl_send_t *sends = NULL;
    size_t nsends = 0;
    ccl_i_sccl_answer_t answer = CCL_I_SCCL_UNKNOWN;
    CCL_TRY(ccl_collective_split(s->want, point.chunks, &coll, err));
    uint64_t variables = (uint64_t)coll->nchunks * (s->x->nhops + s->x->nranks) * point.steps;
    ccl_status_t status = CCL_OK;
    for (uint32_t way = turns(s) ? 0 : 1; way < 2 && answer != CCL_I_SCCL_FOUND && status == CCL_OK;
         way++) {
        ccl_i_sccl_query_t query = {.x = s->x,
                                    .coll = coll,
                                    .rotation = way ? &s->none : &s->rotation,
                                    .capacity = s->capacity,
                                    .hops_between = s->hops_between,
                                    .steps = point.steps,
                                    .rounds = point.rounds};
        if (!(s->options->time_limit_s > 0) && !given(s))
            query.effort = EFFORT;
        answer = CCL_I_SCCL_UNKNOWN;
        if (variables / (way ? 1 : s->rotation.order) <= MAX_VARIABLES)
            status = ccl_i_sccl_ask(&query, &answer, &sends, &nsends, err);
    }
    ccl_collective_destroy(coll);
    CCL_TRY(status);
    if (answer == CCL_I_SCCL_UNKNOWN)
        s->unproven = true;
    if (answer != CCL_I_SCCL_FOUND)
        return CCL_OK;
    answer_t head = {point, (uint32_t)nsends, s->unproven};
    const struct iovec parts[] = {{&head, sizeof head}, {sends, nsends * sizeof *sends}};
    ccl_child_put_parts(pipe, parts, 2);
    free(sends);
    *found = true;
    return CCL_OK;
}

static int by_cost(const void *a, const void *b) {
    const point_t *p = a, *q = b;
    uint64_t x = (uint64_t)p->rounds * q->chunks, y = (uint64_t)q->rounds * p->chunks;
    if (x != y)
        return x < y ? -1 : 1;
    return p->chunks < q->chunks ? -1 : p->chunks > q->chunks;
}

/** Rounds and chunks to try with a number of steps, cheapest first. */
static size_t list_points(const search_t *s, uint32_t steps, point_t *points) {
    const ccl_synth_options_t *o = s->options;
    double fewest = s->least_rounds * (o->chunks ? o->chunks : 1);
    uint32_t first = o->rounds ? o->rounds : (uint32_t)fmax(steps, ceil(fewest - 1e-9));
    uint32_t last = o->rounds ? o->rounds : first + MORE_ROUNDS;
    size_t n = 0;
    for (uint32_t r = first; r <= last; r++)
        for (uint32_t c = o->chunks ? o->chunks : 1; c <= (o->chunks ? o->chunks : MAX_CHUNKS); c++)
            if (r >= steps && r >= s->least_rounds * c - 1e-9)
                points[n++] = (point_t){steps, r, c};
    qsort(points, n, sizeof *points, by_cost);
    /* Twice the rounds for twice the chunks cost the same and are harder to find. */
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (!kept || (uint64_t)points[i].rounds * points[kept - 1].chunks !=
                         (uint64_t)points[kept - 1].rounds * points[i].chunks)
            points[kept++] = points[i];
    return kept;
}

static ccl_status_t solve(ccl_child_pipe_t *pipe, void *user, ccl_error_t *err) {
    search_t *s = user;
    const ccl_synth_options_t *o = s->options;
    point_t points[(MORE_ROUNDS + 1) * MAX_CHUNKS];
    uint32_t first = o->steps ? o->steps : s->least_steps;
    uint32_t last = o->steps ? o->steps : first + MORE_STEPS;
    bool found = false;
    if (s->least_rounds > MAX_BOUND)
        return ccl_fail(
            err, CCL_UNSUPPORTED,
            "sccl: a chunk needs %.0f rounds of the slowest link here, %.0f are possible",
            s->least_rounds, MAX_BOUND);
    if (first < s->least_steps)
        return ccl_fail(err, CCL_INFEASIBLE, "%u steps are too few: some chunk needs %u hops",
                        first, s->least_steps);
    for (uint32_t steps = first; steps <= last && steps <= MAX_STEPS; steps++) {
        size_t n = list_points(s, steps, points);
        bool start = false; /* something to fall back on, costly and easily found */
        if (!o->rounds && n > 1 && o->time_limit_s > 0) {
            point_t easy = {steps, 2 * points[n - 1].rounds + steps, o->chunks ? o->chunks : 1};
            bool open = s->unproven;
            s->unproven = true; /* it is no answer yet */
            CCL_TRY(try_point(s, pipe, easy, &start, err));
            s->unproven = open;
        }
        for (size_t i = 0; i < n && !found; i++) {
            ccl_child_tell(pipe, i, n);
            CCL_TRY(try_point(s, pipe, points[i], &found, err));
        }
        if (found || start)
            return CCL_OK;
    }
    return ccl_fail(err, s->unproven ? CCL_TIMEOUT : CCL_INFEASIBLE,
                    s->unproven ? "nothing was found, though not all was searched"
                                : "no schedule has that few steps and rounds for that many chunks");
}

/* ---------------------------------------------------------------- all of it */

static ccl_status_t moves_of(const search_t *s, const ccl_child_answer_t *answer,
                             ccl_i_copies_t *out, ccl_error_t *err) {
    answer_t head;
    memcpy(&head, answer->data, sizeof head);
    const char *sends = (const char *)answer->data + sizeof head;
    out->moves = calloc(head.nsends + (size_t)1, sizeof *out->moves);
    if (!out->moves)
        return ccl_fail_nomem(err);
    for (; out->nmoves < head.nsends; out->nmoves++) {
        ccl_i_sccl_send_t send;
        memcpy(&send, sends + out->nmoves * sizeof send, sizeof send);
        const ccl_i_hop_t *h = &s->x->hops[send.hop];
        out->moves[out->nmoves] =
            (ccl_i_move_t){h->src, h->dst, send.chunk, h->channel, send.step, send.step + 1.0};
    }
    out->parts = head.point.chunks;
    out->limited = answer->limited || head.unproven;
    return CCL_OK;
}

static ccl_status_t prepare(search_t *s, ccl_error_t *err) {
    uint32_t n = s->x->nranks;
    s->capacity = malloc((s->x->nresources + (size_t)1) * sizeof *s->capacity);
    s->hops_between = malloc((size_t)n * n * sizeof *s->hops_between);
    if (!s->capacity || !s->hops_between)
        return ccl_fail_nomem(err);
    set_capacities(s);
    set_distances(s);
    if (!set_bounds(s))
        return ccl_fail_nomem(err);
    CCL_TRY(ccl_i_rotation_find(s->x, &s->rotation, err));
    s->none = s->rotation;
    s->none.order = 1;
    return CCL_OK;
}

static ccl_status_t plan(const ccl_ctx_t *ctx, const ccl_i_exchange_t *x,
                         const ccl_collective_t *want, const ccl_synth_options_t *options,
                         ccl_i_copies_t *out, ccl_error_t *err) {
    search_t s = {.x = x, .want = want, .options = options};
    ccl_child_answer_t answer = {0};
    ccl_child_limits_t limits = {options->time_limit_s, 0, "sccl"};
    ccl_status_t status = prepare(&s, err);
    if (status == CCL_OK)
        status = ccl_i_copies_search(ctx, &limits, solve, &s, &answer, &out->dropped, err);
    if (status == CCL_OK)
        status = moves_of(&s, &answer, out, err);
    free(answer.data);
    free(s.capacity);
    free(s.hops_between);
    ccl_i_rotation_fini(&s.rotation);
    return status;
}

static ccl_status_t synthesize(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                               ccl_routes_t *routes, const ccl_collective_t *want,
                               const ccl_synth_options_t *options, ccl_schedule_t **out,
                               ccl_error_t *err) {
    if (options->steps > MAX_STEPS || options->rounds > MAX_ROUNDS ||
        (options->rounds && options->rounds < options->steps))
        return ccl_fail(err, CCL_ERR_USAGE,
                        "sccl wants at most %u steps, and rounds from as many to %u", MAX_STEPS,
                        MAX_ROUNDS);
    const ccl_i_asked_t asked = {ctx, topo, routes, want, options};
    CCL_TRY(ccl_i_turn_copies(&asked, "sccl", plan, out, err));
    ccl_origin_set((*out)->origin, "sccl: Z3's plan of %u steps, %s", (*out)->nsteps,
                   (*out)->limited ? "the best within a limit" : "proven");
    return CCL_OK;
}

static bool supports(const ccl_topology_t *topo, const ccl_collective_t *want, const char **why) {
    (void)topo;
    return ccl_i_turn_supported(want, false, why);
}

static const ccl_option_t own_options[] = {
    {.name = "steps",
     .type = CCL_OPTION_COUNT,
     .offset = CCL_I_SYNTH_AT(steps),
     .value = "N",
     .doc = "number of steps; of allreduce in each half",
     .otherwise = "as few as can be"},
    {.name = "rounds",
     .type = CCL_OPTION_COUNT,
     .offset = CCL_I_SYNTH_AT(rounds),
     .value = "N",
     .doc = "number of rounds in all steps together",
     .otherwise = "as few per chunk as can be"},
    {.name = NULL},
};
static const ccl_option_t *const options[] = {ccl_i_rooted_options, own_options, NULL};

const ccl_synth_ops_t ccl_i_synth_sccl = {
    .size = sizeof(ccl_synth_ops_t),
    .name = "sccl",
    .summary = "one question for Z3: least steps, then least rounds per chunk",
    .source = "SCCL (PPoPP 2021)",
    .supports = supports,
    .synthesize = synthesize,
    .by_name = true,
    .options = options,
};
