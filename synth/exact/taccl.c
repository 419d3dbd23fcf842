/*
 * TACCL (Shah and others, TACCL: Guiding Collective Algorithm Synthesis using Communication
 * Sketches, NSDI 2023) on GLPK: routes by a MILP without times, an order by a heuristic, then a
 * MILP that decides which sends go together and when. The communication sketch that its users write
 * is drawn here: inside servers all hops, between servers those of GPUs of the same place.
 * Reductions are found time-reversed (turn.h).
 */
#include "synth/exact/taccl.h"
#include "synth/common/options.h"
#include "synth/common/turn.h"
#include "synth/registry.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_VARIABLES 400000.0
#define DEFAULT_LIMIT_S 10.0
/* Of the search for routes, first for any, then for the best; of that for messages. The same on any
 * machine, unless the time limit comes first. */
enum { FIRST_NODES = 50, MOST_NODES = 20000, TIMES_NODES = 2000 };

typedef struct plan {
    ccl_i_exchange_t logical; /* its uses and resources are the whole graph's */
    ccl_collective_t *coll;   /* cut */
    ccl_i_rotation_t rotation;
    uint32_t *server;
    double *cost_s;
    ccl_i_taccl_t taccl;
} plan_t;

/* Of an answer; the sends stand behind it. */
typedef struct head {
    uint32_t nsends, unproven;
} head_t;

/* ---------------------------------------------------------------- the logical topology */

/* The server of each GPU (one without is a server of its own), and its place there. */
static void find_servers(const ccl_i_exchange_t *x, uint32_t *server, uint32_t *place,
                         uint32_t *gpus) {
    const ccl_topology_t *topo = x->topo;
    uint32_t n = x->nranks;
    for (uint32_t r = 0; r < n; r++) {
        uint32_t s = topo->devices[topo->rank_device[r]].server;
        server[r] = s == CCL_NONE ? topo->ndevices + r : s;
        place[r] = 0;
        for (uint32_t q = 0; q < r; q++)
            place[r] += server[q] == server[r];
    }
    for (uint32_t r = 0; r < n; r++) {
        gpus[r] = 0;
        for (uint32_t q = 0; q < n; q++)
            gpus[r] += server[q] == server[r];
    }
}

/* Between servers of unequal size the larger one's places come again after the smaller one's. */
static bool same_place(const uint32_t *place, const uint32_t *gpus, uint32_t a, uint32_t b) {
    uint32_t fewer = gpus[a] < gpus[b] ? gpus[a] : gpus[b];
    return place[a] % fewer == place[b] % fewer;
}

static ccl_status_t draw_sketch(plan_t *p, const ccl_i_exchange_t *x, ccl_error_t *err) {
    ccl_i_exchange_t *out = &p->logical;
    uint32_t n = x->nranks, *place = malloc(n * sizeof *place), *gpus = malloc(n * sizeof *gpus);
    *out = *x;
    out->nhops = 0;
    p->server = malloc(n * sizeof *p->server);
    out->hops = malloc((x->nhops + (size_t)1) * sizeof *out->hops);
    out->out_first = calloc(n + (size_t)1, sizeof *out->out_first);
    out->in_first = calloc(n + (size_t)1, sizeof *out->in_first);
    out->in_hops = malloc((x->nhops + (size_t)1) * sizeof *out->in_hops);
    bool done =
        place && gpus && p->server && out->hops && out->out_first && out->in_first && out->in_hops;
    if (done) {
        find_servers(x, p->server, place, gpus);
        for (uint32_t h = 0; h < x->nhops; h++) {
            const ccl_i_hop_t *hop = &x->hops[h];
            if (p->server[hop->src] == p->server[hop->dst] ||
                same_place(place, gpus, hop->src, hop->dst))
                out->hops[out->nhops++] = *hop;
        }
        for (uint32_t h = 0; h < out->nhops; h++) {
            out->out_first[out->hops[h].src + 1]++;
            out->in_first[out->hops[h].dst + 1]++;
        }
        for (uint32_t r = 0; r < n; r++) {
            out->out_first[r + 1] += out->out_first[r];
            out->in_first[r + 1] += out->in_first[r];
        }
        memset(place, 0, n * sizeof *place);
        for (uint32_t h = 0; h < out->nhops; h++) {
            uint32_t dst = out->hops[h].dst;
            out->in_hops[out->in_first[dst] + place[dst]++] = h;
        }
    }
    free(place);
    free(gpus);
    return done ? CCL_OK : ccl_fail_nomem(err);
}

static ccl_status_t prepare(plan_t *p, const ccl_i_exchange_t *x, const ccl_collective_t *want,
                            const ccl_synth_options_t *options, ccl_error_t *err) {
    uint32_t chunks = options->chunks ? options->chunks : 1;
    double size = options->size_bytes > 0 ? options->size_bytes : CCL_LOWER_SIZE_BYTES, bytes = 0;
    CCL_TRY(ccl_collective_split(want, chunks, &p->coll, err));
    CCL_TRY(draw_sketch(p, x, err));
    for (uint32_t c = 0; c < p->coll->nchunks; c++)
        bytes = fmax(bytes, size * p->coll->chunks[c].share);
    if (!(bytes > 0))
        return ccl_fail(err, CCL_UNSUPPORTED, "all chunks are empty");
    p->cost_s = malloc((p->logical.nhops + (size_t)1) * sizeof *p->cost_s);
    if (!p->cost_s)
        return ccl_fail_nomem(err);
    for (uint32_t h = 0; h < p->logical.nhops; h++)
        p->cost_s[h] = p->logical.hops[h].alpha_s + bytes / p->logical.hops[h].link_Bps;
    CCL_TRY(ccl_i_rotation_find(&p->logical, &p->rotation, err));
    if (p->coll->kind != CCL_ALLGATHER && p->coll->kind != CCL_ALLTOALL)
        p->rotation.order = 1;
    p->taccl = (ccl_i_taccl_t){&p->logical, p->coll, &p->rotation, p->server, p->cost_s, bytes};
    double variables = (double)p->coll->nchunks * p->logical.nhops / p->rotation.order;
    if (variables > MAX_VARIABLES)
        return ccl_fail(err, CCL_UNSUPPORTED, "%.0f variables are too many for GLPK", variables);
    return CCL_OK;
}

static void plan_fini(plan_t *p) {
    free(p->logical.hops);
    free(p->logical.out_first);
    free(p->logical.in_first);
    free(p->logical.in_hops);
    free(p->server);
    free(p->cost_s);
    ccl_i_rotation_fini(&p->rotation);
    ccl_collective_destroy(p->coll);
}

/* ---------------------------------------------------------------- child */

static bool put(ccl_child_pipe_t *pipe, const ccl_i_taccl_sends_t *s, bool unproven) {
    head_t head = {(uint32_t)s->n, unproven};
    const struct iovec parts[] = {{&head, sizeof head}, {s->sends, s->n * sizeof *s->sends}};
    return ccl_child_put_parts(pipe, parts, 2);
}

/* Each stage's answer counts where the next finds none in time: routes on shortest paths, better
 * ones, times. */
static ccl_status_t stages(plan_t *p, ccl_child_pipe_t *pipe, ccl_i_taccl_sends_t *s,
                           ccl_error_t *err) {
    ccl_i_taccl_question_t ask = {.nodes = FIRST_NODES};
    ccl_i_glpk_answer_t answer = CCL_I_GLPK_UNKNOWN;
    bool proven = false, timed = false;
    for (uint32_t k = 0; k < 2; k++) {
        CCL_TRY(ccl_i_taccl_route(&p->taccl, &ask, s, err));
        ccl_child_tell(pipe, k + 1, 3);
        proven = ask.answer == CCL_I_GLPK_NONE || (ask.answer == CCL_I_GLPK_FOUND && ask.best);
        if (k == 0 && ask.answer != CCL_I_GLPK_FOUND)
            return ccl_fail(err, CCL_TIMEOUT, "taccl found no routes within its limit");
        ask.wide = true;
        ask.nodes = MOST_NODES;
        if (ask.answer != CCL_I_GLPK_FOUND)
            continue;
        CCL_TRY(ccl_i_taccl_order(&p->taccl, s, err));
        if (!put(pipe, s, true))
            return ccl_fail_nomem(err);
    }
    CCL_TRY(ccl_i_taccl_times(&p->taccl, TIMES_NODES, s, &answer, &timed, err));
    if (answer == CCL_I_GLPK_FOUND && !put(pipe, s, !proven || !timed))
        return ccl_fail_nomem(err);
    return CCL_OK;
}

static ccl_status_t solve(ccl_child_pipe_t *pipe, void *user, ccl_error_t *err) {
    ccl_i_taccl_sends_t sends = {0};
    ccl_status_t status = stages(user, pipe, &sends, err);
    free(sends.sends);
    return status;
}

/* ---------------------------------------------------------------- all of it */

/* Times in steps of 0.1 ns, without the solver's rounding: nothing goes before it is there. */
static ccl_status_t moves_of(const plan_t *p, const ccl_child_answer_t *answer, uint32_t parts,
                             ccl_i_copies_t *out, ccl_error_t *err) {
    const double tick_s = 1e-10;
    head_t head;
    memcpy(&head, answer->data, sizeof head);
    const char *sends = (const char *)answer->data + sizeof head;
    out->moves = calloc(head.nsends + (size_t)1, sizeof *out->moves);
    if (!out->moves)
        return ccl_fail_nomem(err);
    for (; out->nmoves < head.nsends; out->nmoves++) {
        ccl_i_taccl_send_t send;
        memcpy(&send, sends + out->nmoves * sizeof send, sizeof send);
        const ccl_i_hop_t *h = &p->logical.hops[send.hop];
        double start = round(send.start_s / tick_s), there = round(send.arrive_s / tick_s);
        if (send.parent != CCL_NONE)
            start = fmax(start, out->moves[send.parent].arrive_s);
        out->moves[out->nmoves] =
            (ccl_i_move_t){h->src, h->dst, send.chunk, h->channel, start, fmax(there, start + 1)};
    }
    out->parts = parts;
    out->limited = answer->limited || head.unproven;
    return CCL_OK;
}

static ccl_status_t plan(const ccl_ctx_t *ctx, const ccl_i_exchange_t *x,
                         const ccl_collective_t *want, const ccl_synth_options_t *options,
                         ccl_i_copies_t *out, ccl_error_t *err) {
    plan_t p = {.coll = NULL};
    ccl_child_answer_t answer = {0};
    ccl_child_limits_t limits = {
        options->time_limit_s > 0 ? options->time_limit_s : DEFAULT_LIMIT_S, 0, "taccl"};
    ccl_status_t status = prepare(&p, x, want, options, err);
    if (status == CCL_OK)
        status = ccl_i_copies_search(ctx, &limits, solve, &p, &answer, &out->dropped, err);
    if (status == CCL_OK)
        status = moves_of(&p, &answer, p.coll->nchunks / want->nchunks, out, err);
    free(answer.data);
    plan_fini(&p);
    return status;
}

static ccl_status_t synthesize(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                               ccl_routes_t *routes, const ccl_collective_t *want,
                               const ccl_synth_options_t *options, ccl_schedule_t **out,
                               ccl_error_t *err) {
    const ccl_i_asked_t asked = {ctx, topo, routes, want, options};
    CCL_TRY(ccl_i_turn_copies(&asked, "taccl", plan, out, err));
    (*out)->joined = true; /* messages of several chunks */
    ccl_origin_set((*out)->origin, "taccl: GLPK's routes and messages, %s",
                   (*out)->limited ? "the best within a limit" : "proven");
    return CCL_OK;
}

static bool supports(const ccl_topology_t *topo, const ccl_collective_t *want, const char **why) {
    (void)topo;
    return ccl_i_turn_supported(want, true, why);
}

static const ccl_option_t *const options[] = {ccl_i_rooted_options, NULL};

const ccl_synth_ops_t ccl_i_synth_taccl = {
    .size = sizeof(ccl_synth_ops_t),
    .name = "taccl",
    .summary = "routes, an order and messages by MILPs in GLPK",
    .source = "TACCL (NSDI 2023)",
    .supports = supports,
    .synthesize = synthesize,
    .by_name = true,
    .options = options,
};
