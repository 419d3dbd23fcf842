/*
 * The whole collective as one program of epochs (TE-CCL: Liu and others, Rethinking Machine
 * Learning Collective Communication as a Multi-Commodity Flow Problem, SIGCOMM 2024). Chunks for
 * several GPUs: the MILP, with ever fewer epochs, from what a greedy plan needs. Chunks for one GPU
 * each: the LP. Reductions are found time-reversed (turn.h).
 */
#include "synth/exact/milp.h"
#include "synth/common/options.h"
#include "synth/registry.h"
#include "synth/common/turn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_EPOCHS CCL_I_MILP_EPOCHS
#define MAX_VARIABLES 400000.0
#define DEFAULT_LIMIT_S 10.0
#define PARTS 6u /* of a chunk in the LP form */

typedef struct plan {
    const ccl_collective_t *want;
    const ccl_synth_options_t *options;
    const ccl_i_exchange_t *x;
    ccl_collective_t *coll; /* cut */
    ccl_i_rotation_t rotation;
    ccl_i_milp_t milp;
    uint32_t *delay, *window, *capacity, *away;
    double epoch_s, chunk_bytes;
    bool flows; /* the LP form */
} plan_t;

typedef struct answer {
    uint32_t nsends, epochs, parts, unproven;
} answer_t;

static bool put(ccl_child_pipe_t *pipe, answer_t head, ccl_i_milp_send_t *sends) {
    const struct iovec parts[] = {{&head, sizeof head}, {sends, head.nsends * sizeof *sends}};
    return ccl_child_put_parts(pipe, parts, 2);
}

/* ---------------------------------------------------------------- epochs */

/** How long an epoch is: the slowest link's time for a chunk, or the fastest's if that is near. */
static void choose_epoch(plan_t *p) {
    double slow = 0, fast = INFINITY;
    for (uint32_t r = 0; r < p->x->nresources; r++) {
        double time = p->chunk_bytes / p->x->resources[r].Bps;
        if (p->x->resources[r].link == CCL_NONE)
            continue;
        slow = fmax(slow, time);
        fast = fmin(fast, time);
    }
    p->epoch_s = slow <= 2 * fast * (1 + 1e-9) ? fast : slow;
    if (p->options->epoch_s > 0)
        p->epoch_s = p->options->epoch_s;
}

/* ---------------------------------------------------------------- a plan to start from */

typedef struct greedy {
    const plan_t *p;
    uint32_t *here;    /* [nchunks][n] epoch from which the GPU has it; CCL_NONE: not yet */
    uint32_t *load;    /* [MAX_EPOCHS][nresources] chunks that start in the epoch */
    uint32_t *holders; /* [nchunks] */
    ccl_i_milp_send_t *sends;
    size_t nsends, cap;
    uint32_t epochs;
} greedy_t;

static bool fits(const greedy_t *g, uint32_t hop, uint32_t epoch) {
    const ccl_i_exchange_t *x = g->p->x;
    const ccl_i_hop_t *h = &x->hops[hop];
    for (uint32_t u = 0; u < h->nuses; u++) {
        const ccl_i_use_t *use = &x->uses[h->first_use + u];
        uint32_t window = g->p->window[use->resource], sum = use->times;
        for (uint32_t k = epoch + 1 > window ? epoch + 1 - window : 0; k <= epoch; k++)
            sum += g->load[(size_t)k * x->nresources + use->resource];
        if (sum > g->p->capacity[use->resource] &&
            !(sum == use->times && use->times > g->p->capacity[use->resource]))
            return false;
    }
    return true;
}

static bool take(greedy_t *g, uint32_t chunk, uint32_t hop, uint32_t epoch) {
    const ccl_i_exchange_t *x = g->p->x;
    const ccl_i_hop_t *h = &x->hops[hop];
    if (!ccl_grow(&g->sends, &g->cap, g->nsends + 1, sizeof *g->sends))
        return false;
    g->sends[g->nsends++] = (ccl_i_milp_send_t){chunk, hop, epoch};
    for (uint32_t u = 0; u < h->nuses; u++) {
        const ccl_i_use_t *use = &x->uses[h->first_use + u];
        g->load[(size_t)epoch * x->nresources + use->resource] += use->times;
    }
    g->here[(size_t)chunk * x->nranks + h->dst] = epoch + g->p->delay[hop];
    g->holders[chunk]++;
    if (epoch + g->p->delay[hop] > g->epochs)
        g->epochs = epoch + g->p->delay[hop];
    return true;
}

/** Rarest chunk first, to the GPU that gets it soonest, of these to where most links lead on. */
static bool fill_epoch(greedy_t *g, uint32_t epoch, size_t *left) {
    const ccl_i_exchange_t *x = g->p->x;
    for (;;) {
        uint32_t chunk = CCL_NONE, hop = CCL_NONE;
        for (uint32_t i = 0; i < g->p->coll->nchunks; i++) {
            uint32_t c = (i + epoch) % g->p->coll->nchunks, soonest = CCL_NONE;
            const uint32_t *here = &g->here[(size_t)c * x->nranks];
            if (g->holders[c] >= x->nranks ||
                (chunk != CCL_NONE && g->holders[c] >= g->holders[chunk]))
                continue;
            uint32_t best = CCL_NONE;
            for (uint32_t h = 0; h < x->nhops; h++) {
                if (here[x->hops[h].src] > epoch || here[x->hops[h].dst] != CCL_NONE ||
                    g->p->delay[h] >= soonest || !fits(g, h, epoch))
                    continue;
                soonest = g->p->delay[h];
                best = h;
            }
            if (best != CCL_NONE) {
                chunk = c;
                hop = best;
            }
        }
        if (chunk == CCL_NONE)
            return true;
        if (!take(g, chunk, hop, epoch))
            return false;
        --*left;
    }
}

/** Chunks spread to all GPUs, whether they want them or not; what nobody needs is left out. */
static ccl_status_t start_plan(const plan_t *p, ccl_i_milp_send_t **sends, size_t *nsends,
                               uint32_t *epochs, ccl_error_t *err) {
    uint32_t n = p->x->nranks, nchunks = p->coll->nchunks;
    greedy_t g = {.p = p};
    g.here = malloc((size_t)nchunks * n * sizeof *g.here);
    g.holders = malloc(nchunks * sizeof *g.holders);
    g.load = calloc((size_t)(MAX_EPOCHS + 1) * (p->x->nresources + 1), sizeof *g.load);
    ccl_status_t status = CCL_OK;
    if (!g.here || !g.holders || !g.load) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    memset(g.here, 0xff, (size_t)nchunks * n * sizeof *g.here);
    size_t left = (size_t)nchunks * (n - 1);
    for (uint32_t c = 0; c < nchunks; c++) {
        g.here[(size_t)c * n + p->coll->chunks[c].sources[0]] = 0;
        g.holders[c] = 1;
    }
    for (uint32_t k = 0; left && k < MAX_EPOCHS; k++)
        if (!fill_epoch(&g, k, &left)) {
            status = ccl_fail_nomem(err);
            goto end;
        }
    if (left)
        status = ccl_fail(err, CCL_UNSUPPORTED, "more than %u epochs would be needed", MAX_EPOCHS);
    *sends = g.sends;
    *nsends = g.nsends;
    *epochs = g.epochs;
end:
    if (status != CCL_OK)
        free(g.sends);
    free(g.here);
    free(g.holders);
    free(g.load);
    return status;
}

/* ---------------------------------------------------------------- child */

/** No fewer epochs than the way of some chunk takes. */
static uint32_t least_epochs(const plan_t *p) {
    uint32_t least = 1;
    for (uint32_t c = 0; c < p->coll->nchunks; c++) {
        const ccl_chunk_t *chunk = &p->coll->chunks[c];
        for (uint32_t i = 0; i < chunk->ndests; i++) {
            uint32_t away = p->away[(size_t)chunk->sources[0] * p->x->nranks + chunk->dests[i]];
            least = away > least ? away : least;
        }
    }
    return least;
}

/** One epoch fewer, again and again: with the rotation as long as that works, then without. */
static ccl_status_t fewer_epochs(plan_t *p, ccl_child_pipe_t *pipe, uint32_t epochs, answer_t *last,
                                 ccl_error_t *err) {
    uint32_t least = least_epochs(p), order = p->rotation.order;
    bool turns = order > 1 && p->coll->kind == CCL_ALLGATHER;
    for (uint32_t way = turns ? 0 : 1; way < 2; way++) {
        p->rotation.order = way ? 1 : order;
        while (epochs > least) {
            ccl_i_milp_send_t *sends = NULL;
            size_t nsends = 0;
            ccl_i_glpk_answer_t answer = CCL_I_GLPK_UNKNOWN;
            ccl_child_tell(pipe, epochs - 1, epochs);
            if (ccl_i_milp_variables(&p->milp, epochs - 1) <= MAX_VARIABLES)
                CCL_TRY(ccl_i_milp_ask(&p->milp, epochs - 1, &answer, &sends, &nsends, err));
            last->unproven = answer != CCL_I_GLPK_NONE;
            if (answer != CCL_I_GLPK_FOUND)
                break;
            epochs--;
            *last = (answer_t){(uint32_t)nsends, epochs, 1, epochs > least};
            bool ok = put(pipe, *last, sends);
            free(sends);
            if (!ok)
                return ccl_fail_nomem(err);
        }
    }
    return CCL_OK;
}

static ccl_status_t solve_epochs(plan_t *p, ccl_child_pipe_t *pipe, ccl_error_t *err) {
    ccl_i_milp_send_t *sends = NULL;
    size_t nsends = 0;
    uint32_t epochs = 0;
    CCL_TRY(start_plan(p, &sends, &nsends, &epochs, err));
    answer_t first = {(uint32_t)nsends, epochs, 1, epochs > least_epochs(p)}, last = first;
    bool ok = put(pipe, first, sends);
    ccl_status_t status = ok ? fewer_epochs(p, pipe, epochs, &last, err) : ccl_fail_nomem(err);
    /* Proven in the end: the best so far once more, without the mark. */
    if (status == CCL_OK && !last.unproven && last.epochs == epochs) {
        first.unproven = 0;
        put(pipe, first, sends);
    }
    free(sends);
    return status;
}

static ccl_status_t solve_flows(plan_t *p, ccl_child_pipe_t *pipe, ccl_error_t *err) {
    uint32_t parts = p->options->chunks ? p->options->chunks : PARTS;
    ccl_i_glpk_answer_t answer = CCL_I_GLPK_UNKNOWN;
    ccl_i_milp_send_t *sends = NULL;
    size_t nsends = 0;
    double *flow = calloc((size_t)p->x->nranks * p->x->nhops + 1, sizeof *flow);
    ccl_status_t status =
        flow ? ccl_i_milp_flows(p->x, p->want, flow, &answer, err) : ccl_fail_nomem(err);
    if (status == CCL_OK && answer != CCL_I_GLPK_FOUND)
        status = ccl_fail(err, CCL_INFEASIBLE, "GLPK finds no flows");
    if (status == CCL_OK)
        status = ccl_i_milp_paths(p->x, p->want, flow, parts, &sends, &nsends, err);
    if (status == CCL_OK && !put(pipe, (answer_t){(uint32_t)nsends, 0, parts, 0}, sends))
        status = ccl_fail_nomem(err);
    free(sends);
    free(flow);
    return status;
}

static ccl_status_t solve(ccl_child_pipe_t *pipe, void *user, ccl_error_t *err) {
    plan_t *p = user;
    return p->flows ? solve_flows(p, pipe, err) : solve_epochs(p, pipe, err);
}

/* ---------------------------------------------------------------- all of it */

static ccl_status_t prepare(plan_t *p, ccl_error_t *err) {
    uint32_t n = p->x->nranks, chunks = p->options->chunks ? p->options->chunks : 1;
    double size = p->options->size_bytes > 0 ? p->options->size_bytes : CCL_LOWER_SIZE_BYTES;
    CCL_TRY(ccl_collective_split(p->want, chunks, &p->coll, err));
    p->delay = malloc((p->x->nhops + (size_t)1) * sizeof *p->delay);
    p->window = malloc((p->x->nresources + (size_t)1) * sizeof *p->window);
    p->capacity = malloc((p->x->nresources + (size_t)1) * sizeof *p->capacity);
    p->away = malloc((size_t)n * n * sizeof *p->away);
    if (!p->delay || !p->window || !p->capacity || !p->away)
        return ccl_fail_nomem(err);
    p->chunk_bytes = 0;
    for (uint32_t c = 0; c < p->coll->nchunks; c++)
        p->chunk_bytes = fmax(p->chunk_bytes, size * p->coll->chunks[c].share);
    if (!(p->chunk_bytes > 0))
        return ccl_fail(err, CCL_UNSUPPORTED, "all chunks are empty");
    choose_epoch(p);
    CCL_TRY(ccl_i_milp_discretise(p->x, p->chunk_bytes, p->epoch_s, p->delay, p->window,
                                  p->capacity, err));
    ccl_i_milp_distances(p->x, p->delay, p->away);
    CCL_TRY(ccl_i_rotation_find(p->x, &p->rotation, err));
    p->milp =
        (ccl_i_milp_t){p->x, p->coll, &p->rotation, p->delay, p->window, p->capacity, p->away, 0};
    return CCL_OK;
}

static ccl_status_t moves_of(const plan_t *p, const ccl_child_answer_t *answer, ccl_i_copies_t *out,
                             ccl_error_t *err) {
    answer_t head;
    memcpy(&head, answer->data, sizeof head);
    const char *sends = (const char *)answer->data + sizeof head;
    out->moves = calloc(head.nsends + (size_t)1, sizeof *out->moves);
    if (!out->moves)
        return ccl_fail_nomem(err);
    for (; out->nmoves < head.nsends; out->nmoves++) {
        ccl_i_milp_send_t send;
        memcpy(&send, sends + out->nmoves * sizeof send, sizeof send);
        const ccl_i_hop_t *h = &p->x->hops[send.hop];
        double there = send.epoch + (p->flows ? 1.0 : p->delay[send.hop]);
        out->moves[out->nmoves] =
            (ccl_i_move_t){h->src, h->dst, send.chunk, h->channel, send.epoch, there};
    }
    out->parts = p->flows ? head.parts : p->coll->nchunks / p->want->nchunks;
    out->limited = answer->limited || head.unproven;
    return CCL_OK;
}

static ccl_status_t plan(const ccl_ctx_t *ctx, const ccl_i_exchange_t *x,
                         const ccl_collective_t *want, const ccl_synth_options_t *options,
                         ccl_i_copies_t *out, ccl_error_t *err) {
    plan_t p = {.want = want, .options = options, .x = x, .flows = true};
    ccl_child_answer_t answer = {0};
    ccl_child_limits_t limits = {
        options->time_limit_s > 0 ? options->time_limit_s : DEFAULT_LIMIT_S, 0, "milp"};
    for (uint32_t c = 0; c < want->nchunks; c++)
        p.flows = p.flows && want->chunks[c].ndests == 1;
    ccl_status_t status = prepare(&p, err);
    if (status == CCL_OK)
        status = ccl_i_copies_search(ctx, &limits, solve, &p, &answer, &out->dropped, err);
    if (status == CCL_OK)
        status = moves_of(&p, &answer, out, err);
    free(answer.data);
    free(p.delay);
    free(p.window);
    free(p.capacity);
    free(p.away);
    ccl_i_rotation_fini(&p.rotation);
    ccl_collective_destroy(p.coll);
    return status;
}

static ccl_status_t synthesize(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                               ccl_routes_t *routes, const ccl_collective_t *want,
                               const ccl_synth_options_t *options, ccl_schedule_t **out,
                               ccl_error_t *err) {
    const ccl_i_asked_t asked = {ctx, topo, routes, want, options};
    CCL_TRY(ccl_i_turn_copies(&asked, "milp", plan, out, err));
    ccl_origin_set((*out)->origin, "milp: GLPK's plan of epochs, %s",
                   (*out)->limited ? "the best within a limit" : "proven");
    return CCL_OK;
}

static bool supports(const ccl_topology_t *topo, const ccl_collective_t *want, const char **why) {
    (void)topo;
    return ccl_i_turn_supported(want, true, why);
}

static const ccl_option_t own_options[] = {
    {.name = "epoch",
     .type = CCL_OPTION_TIME,
     .offset = CCL_I_SYNTH_AT(epoch_s),
     .value = "TIME",
     .doc = "length of an epoch",
     .otherwise = "what the slowest link needs for a chunk",
     .knob = "epoch"},
    {.name = NULL},
};
static const ccl_option_t *const options[] = {ccl_i_rooted_options, own_options, NULL};

const ccl_synth_ops_t ccl_i_synth_milp = {
    .size = sizeof(ccl_synth_ops_t),
    .name = "milp",
    .summary = "the whole collective as one epoch MILP, or LP of flows, in GLPK",
    .source = "TE-CCL (SIGCOMM 2024)",
    .supports = supports,
    .synthesize = synthesize,
    .by_name = true,
    .options = options,
};
