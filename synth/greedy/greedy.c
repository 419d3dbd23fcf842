/*
 * greedy: chunks matched to free hops over time (spread.c), with several cuts of the message and
 * seeds; the fastest is returned. Reductions are spreads time-reversed (turn.c). Demands with few
 * destinations are routed (spread_tree.c).
 */
#include "synth/common/race.h"
#include "synth/common/options.h"
#include "synth/compose/compose.h"
#include "synth/registry.h"
#include "synth/common/spread.h"
#include "synth/common/turn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/*
 * How much is tried. bench/cases/synth_allgather.c and synth_small.c run it.
 */
typedef struct policy {
    double transfers; /* of a schedule, up to which cuts of a shard are tried */
    double gain;      /* part of the time: fewer parts are tried while they bring as much */
    double small; /* latencies: of messages whose parts take no longer every cut is tried, and the
                     best of each is simulated: sharing and latency decide there, which its own
                     timing estimates badly */
    double simulated; /* transfers of all that are lowered and simulated */
    double size;      /* bytes, where the user gives none */
} policy_t;

static const policy_t POLICY = {
    .transfers = 70000, .gain = 1e-3, .small = 8, .simulated = 3e5, .size = CCL_LOWER_SIZE_BYTES};

/* Parts of a shard that are tried, most first. */
static const uint32_t cuts_tried[] = {48, 24, 16, 8, 4, 2, 1};
/* Candidates, the best by their own timing, that are lowered and simulated. */
#define FINALISTS 4
#define MOST_FINALISTS (FINALISTS + CCL_ARRAY_LEN(cuts_tried))

/* Sets that take as long as this part of the slowest are entered once per chunk; by stars. */
static const double tight[] = {0.95, 0.5};
enum { MODES = 4 };

typedef struct attempt {
    uint32_t parts;
    double tight;
    bool star;
    uint64_t seed;
    double time_s; /* by its own timing, later simulated; INFINITY: not done */
} attempt_t;

typedef struct greedy {
    const ccl_ctx_t *ctx;
    const ccl_topology_t *topo;
    const ccl_collective_t *want;
    const ccl_synth_options_t *options;
    ccl_i_exchange_t forward, backward; /* backward: time-reversed, where something is reduced */
    bool has_backward;
    double size_bytes;
    uint32_t nmodes; /* that differ */
    attempt_t *attempts;
    uint32_t nattempts, first; /* first: of those that run now */
    size_t attempts_cap;
    uint32_t finalists[MOST_FINALISTS], nfinalists;
    ccl_i_race_t trials; /* of attempts, by their own timing */
    ccl_i_race_t finals; /* of finalists, simulated */
} greedy_t;

/* ---------------------------------------------------------------- one direction */

typedef struct side {
    ccl_i_spread_t what;
    uint32_t *chunk, *owner; /* [nchunks] in the collective */
    double *bytes;
    const uint32_t **dests;
    uint32_t *ndests;
    bool everybody;
} side_t;

static void side_fini(side_t *s) {
    free(s->chunk);
    free(s->owner);
    free(s->bytes);
    free(s->dests);
    free(s->ndests);
}

/* What must be spread, from roots: up to those that contribute (to be time-reversed), or down. */
static ccl_status_t side_init(side_t *s, const greedy_t *g, const ccl_collective_t *coll,
                              const uint32_t *root, bool up, ccl_error_t *err) {
    size_t n = coll->nchunks + (size_t)1;
    memset(s, 0, sizeof *s);
    s->chunk = calloc(n, sizeof *s->chunk);
    s->owner = calloc(n, sizeof *s->owner);
    s->bytes = calloc(n, sizeof *s->bytes);
    s->dests = calloc(n, sizeof *s->dests);
    s->ndests = calloc(n, sizeof *s->ndests);
    if (!s->chunk || !s->owner || !s->bytes || !s->dests || !s->ndests)
        return ccl_fail_nomem(err);
    s->everybody = true;
    for (uint32_t k = 0; k < coll->nchunks; k++) {
        const ccl_chunk_t *c = &coll->chunks[k];
        uint32_t i = s->what.nchunks, to = up ? c->nsources : c->ndests;
        const uint32_t *list = up ? c->sources : c->dests;
        if (c->nsources == 0 || c->ndests == 0 || (up && !c->reduced) ||
            (to == 1 && list[0] == root[k]))
            continue;
        s->chunk[i] = k;
        s->owner[i] = root[k];
        s->bytes[i] = fmax(c->share * g->size_bytes, 1e-6);
        s->dests[i] = list;
        s->ndests[i] = to;
        s->everybody &= to == coll->nranks;
        s->what.nchunks++;
    }
    s->what.x = up ? &g->backward : &g->forward;
    s->what.owner = s->owner;
    s->what.bytes = s->bytes;
    s->what.dests = s->everybody ? NULL : s->dests;
    s->what.ndests = s->everybody ? NULL : s->ndests;
    return CCL_OK;
}

static ccl_status_t spread(const greedy_t *g, const side_t *s, const attempt_t *a,
                           ccl_i_sends_t *out, ccl_error_t *err) {
    ccl_i_spread_params_t params = {a->seed, a->tight, 64, a->star};
    ccl_i_cuts_t cuts;
    memset(out, 0, sizeof *out);
    if (s->what.nchunks == 0)
        return CCL_OK;
    if (!s->everybody)
        return ccl_i_spread_trees(g->ctx, &s->what, &params, out, err);
    CCL_TRY(ccl_i_cuts_init(&cuts, &s->what, err));
    ccl_status_t status = ccl_i_spread_match(g->ctx, &s->what, &cuts, &params, INFINITY, out, err);
    ccl_i_cuts_fini(&cuts);
    return status;
}

/* Moves of the collective's chunks, on channels that take the hops' routes. */
static ccl_status_t moves_of(const side_t *s, const ccl_i_sends_t *sends, ccl_routes_t *routes,
                             bool up, ccl_i_move_t **out, uint32_t *channels_out,
                             ccl_error_t *err) {
    ccl_i_move_t *moves = calloc(sends->len + 1, sizeof *moves);
    *out = moves;
    if (!moves)
        return ccl_fail_nomem(err);
    for (size_t i = 0; i < sends->len; i++) {
        const ccl_i_sent_t *t = &sends->sent[i];
        const ccl_i_hop_t *hop = &s->what.x->hops[t->hop];
        moves[i] = (ccl_i_move_t){t->src,       t->dst,     s->chunk[t->chunk],
                                  hop->channel, t->start_s, t->arrive_s};
        if (t->lane > 0)
            CCL_TRY(ccl_i_exchange_channel(hop, routes, up, t->lane, &moves[i].channel, err));
        if (moves[i].channel >= *channels_out)
            *channels_out = moves[i].channel + 1u;
    }
    return CCL_OK;
}

/* ---------------------------------------------------------------- one attempt */

/* Where every chunk starts, or is summed up. */
static ccl_status_t find_roots(const greedy_t *g, const ccl_collective_t *coll, uint32_t *root,
                               ccl_error_t *err) {
    if (coll->kind == CCL_ALLREDUCE)
        return ccl_i_turn_roots(&g->forward, coll->nchunks, g->options->uniform_roots, root, err);
    for (uint32_t k = 0; k < coll->nchunks; k++) {
        const ccl_chunk_t *c = &coll->chunks[k];
        if (c->nsources == 0 || c->ndests == 0)
            root[k] = 0;
        else
            root[k] = c->reduced ? c->dests[k % c->ndests] : c->sources[0];
    }
    return CCL_OK;
}

/* @param out  NULL: only the time. */
static ccl_status_t attempt(const greedy_t *g, const attempt_t *a, ccl_routes_t *routes,
                            double *time_out, ccl_schedule_t **out, ccl_error_t *err) {
    uint32_t parts = a->parts * (g->want->kind == CCL_ALLREDUCE ? g->want->nranks : 1);
    ccl_collective_t *coll = NULL;
    side_t up = {0}, down = {0};
    ccl_i_sends_t ups = {0}, downs = {0};
    ccl_i_turn_t turn = {.name = "greedy"};
    ccl_i_move_t *up_moves = NULL, *down_moves = NULL;
    uint32_t *root = NULL, channels = 0;
    ccl_status_t status;
    CCL_TRY_GOTO(ccl_collective_split(g->want, parts, &coll, err), status, end);
    root = calloc(coll->nchunks + (size_t)1, sizeof *root);
    if (!root) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    CCL_TRY_GOTO(find_roots(g, coll, root, err), status, end);
    if (g->has_backward) {
        CCL_TRY_GOTO(side_init(&up, g, coll, root, true, err), status, end);
        CCL_TRY_GOTO(spread(g, &up, a, &ups, err), status, end);
    }
    CCL_TRY_GOTO(side_init(&down, g, coll, root, false, err), status, end);
    CCL_TRY_GOTO(spread(g, &down, a, &downs, err), status, end);
    *time_out = ups.time_s + downs.time_s;
    if (!out)
        goto end;
    if (ups.len > 0)
        CCL_TRY_GOTO(moves_of(&up, &ups, routes, true, &up_moves, &channels, err), status, end);
    uint32_t down_channels = 0;
    CCL_TRY_GOTO(moves_of(&down, &downs, routes, false, &down_moves, &down_channels, err), status,
                 end);
    turn.up = up_moves;
    turn.nup = ups.len;
    turn.down = down_moves;
    turn.ndown = downs.len;
    status = ccl_i_turn_schedule(&turn, coll, out, err);
    coll = NULL;
end:
    ccl_collective_destroy(coll);
    side_fini(&up);
    side_fini(&down);
    ccl_i_sends_fini(&ups);
    ccl_i_sends_fini(&downs);
    free(up_moves);
    free(down_moves);
    free(root);
    return status;
}

static ccl_status_t time_attempt(void *user, uint32_t index, const ccl_i_racer_t *with,
                                 const ccl_schedule_t *schedule, ccl_i_raced_t *out,
                                 ccl_error_t *err) {
    greedy_t *g = user;
    (void)with;
    (void)schedule;
    return attempt(g, &g->attempts[g->first + index], NULL, &out->time_s, NULL, err);
}

static ccl_status_t make_finalist(void *user, uint32_t index, const ccl_i_racer_t *with,
                                  ccl_schedule_t **out, ccl_error_t *err) {
    greedy_t *g = user;
    double time_s;
    return attempt(g, &g->attempts[g->finalists[index]], with->routes, &time_s, out, err);
}

/* ---------------------------------------------------------------- the best of them */

static double transfers_of(const greedy_t *g, uint32_t parts) {
    return ccl_i_collective_transfers(g->want) * parts;
}

/* A block of AllReduce, Broadcast or Reduce is a whole buffer: as many parts for every rank. */
static uint32_t parts_of(const greedy_t *g, uint32_t cut) {
    bool whole = g->want->kind == CCL_BROADCAST || g->want->kind == CCL_REDUCE;
    return whole && !g->options->chunks ? cut * g->want->nranks : cut;
}

/* Modes that differ: some set is nearly, but not quite, what limits; some GPUs share a switch. */
static ccl_status_t find_modes(greedy_t *g, ccl_error_t *err) {
    uint32_t n = g->topo->nranks;
    g->nmodes = 1;
    for (uint32_t k = 0; k < g->want->nchunks; k++) { /* trees know no modes */
        const ccl_chunk_t *c = &g->want->chunks[k];
        if (c->ndests < n && c->nsources < n)
            return CCL_OK;
    }
    g->nmodes = MODES / 2;
    uint32_t *owner = calloc(n, sizeof *owner);
    double *bytes = calloc(n, sizeof *bytes);
    ccl_i_spread_t what = {.x = &g->forward, .nchunks = n, .owner = owner, .bytes = bytes};
    ccl_i_cuts_t cuts;
    ccl_status_t status = owner && bytes ? CCL_OK : ccl_fail_nomem(err);
    if (status == CCL_OK) {
        for (uint32_t r = 0; r < n; r++)
            owner[r] = r, bytes[r] = 1;
        status = ccl_i_cuts_init(&cuts, &what, err);
    }
    if (status == CCL_OK) {
        for (uint32_t s = 0; s < cuts.nsets; s++)
            if (cuts.share[s] >= tight[1] && cuts.share[s] < tight[0])
                g->nmodes = MODES;
        ccl_i_cuts_fini(&cuts);
    }
    free(owner);
    free(bytes);
    return status;
}

/* All modes and seeds with one cut of the message. */
static ccl_status_t try_cut(greedy_t *g, uint32_t cut, ccl_error_t *err) {
    uint32_t restarts = g->options->restarts ? g->options->restarts : 1, first = g->nattempts;
    uint64_t seed = g->ctx->seed;
    if (!ccl_grow(&g->attempts, &g->attempts_cap, first + MODES * (size_t)restarts,
                  sizeof *g->attempts))
        return ccl_fail_nomem(err);
    for (uint32_t r = 0; r < restarts; r++) {
        ccl_rng_t rng;
        ccl_rng_init(&rng, seed * 0x9e3779b97f4a7c15u + r);
        uint64_t start = ccl_rng_next(&rng);
        for (uint32_t mode = 0; mode < g->nmodes; mode++)
            g->attempts[g->nattempts++] =
                (attempt_t){parts_of(g, cut), tight[mode / 2], mode % 2 == 0, start, INFINITY};
    }
    g->first = first;
    CCL_TRY(ccl_i_race_run(&g->trials, g->nattempts - first, err));
    for (uint32_t i = first; i < g->nattempts; i++)
        g->attempts[i].time_s = g->trials.results[i - first].time_s;
    return CCL_OK;
}

/* Whether parts of a block cut so often take little longer than latencies. Not in parts of a
   composition: what comes before and behind them hides latencies. */
static bool is_small(const greedy_t *g, uint32_t parts) {
    if (g->options->part)
        return false;
    const ccl_i_exchange_t *x = &g->forward;
    double alpha_s = 0, slowest_Bps = INFINITY, share = 0;
    for (uint32_t k = 0; k < g->want->nchunks; k++)
        share = fmax(share, g->want->chunks[k].share);
    for (uint32_t h = 0; h < x->nhops; h++) {
        alpha_s = fmax(alpha_s, x->hops[h].alpha_s);
        slowest_Bps = fmin(slowest_Bps, x->hops[h].link_Bps);
    }
    if (g->want->kind == CCL_ALLREDUCE)
        share /= g->want->nranks;
    return g->size_bytes * share / parts / slowest_Bps < POLICY.small * alpha_s;
}

static ccl_status_t try_cuts(greedy_t *g, ccl_error_t *err) {
    double best_s = INFINITY;
    CCL_TRY(find_modes(g, err));
    for (size_t c = 0; c < CCL_ARRAY_LEN(cuts_tried); c++) {
        uint32_t cut = g->options->chunks ? g->options->chunks : cuts_tried[c];
        bool last = g->options->chunks || c + 1 == CCL_ARRAY_LEN(cuts_tried);
        double now_s = INFINITY;
        if (!last && transfers_of(g, parts_of(g, cut)) > POLICY.transfers)
            continue;
        CCL_TRY(try_cut(g, cut, err));
        for (uint32_t i = g->first; i < g->nattempts; i++)
            now_s = fmin(now_s, g->attempts[i].time_s);
        if (last || (now_s > (1 - POLICY.gain) * best_s && !is_small(g, parts_of(g, cut))))
            break;
        best_s = fmin(best_s, now_s);
    }
    return CCL_OK;
}

/* Whether an attempt, or one just as good, is among the finalists, or failed. */
static bool is_taken(const greedy_t *g, uint32_t i) {
    const attempt_t *a = &g->attempts[i];
    bool taken = a->time_s >= INFINITY;
    for (uint32_t k = 0; k < g->nfinalists; k++) {
        const attempt_t *b = &g->attempts[g->finalists[k]];
        taken |= g->finalists[k] == i || (b->time_s == a->time_s && b->parts == a->parts);
    }
    return taken;
}

/* The fastest few by their own timing, stars and others in turn, since only stars keep their time
   where links are shared; as many as can be simulated in reasonable time. */
static void choose_finalists(greedy_t *g) {
    double simulated = 0;
    for (uint32_t f = 0; f < FINALISTS; f++) {
        uint32_t best = CCL_NONE, other = CCL_NONE;
        for (uint32_t i = 0; i < g->nattempts; i++) {
            const attempt_t *a = &g->attempts[i];
            uint32_t *one = a->star == (f % 2 == 0) ? &best : &other;
            if (!is_taken(g, i) && (*one == CCL_NONE || a->time_s < g->attempts[*one].time_s))
                *one = i;
        }
        best = best == CCL_NONE ? other : best;
        if (best == CCL_NONE)
            return;
        simulated += transfers_of(g, g->attempts[best].parts);
        if (g->nfinalists > 0 && simulated > POLICY.simulated)
            return;
        g->finalists[g->nfinalists++] = best;
    }
    for (size_t c = 0; c < CCL_ARRAY_LEN(cuts_tried); c++) { /* of each cut, if small, the best */
        uint32_t parts = parts_of(g, cuts_tried[c]), best = CCL_NONE;
        for (uint32_t i = 0; i < g->nattempts && is_small(g, parts); i++) {
            const attempt_t *a = &g->attempts[i];
            if (a->parts == parts && a->time_s < INFINITY &&
                (best == CCL_NONE || a->time_s < g->attempts[best].time_s))
                best = i;
        }
        if (best == CCL_NONE || is_taken(g, best))
            continue;
        simulated += transfers_of(g, parts);
        if (simulated <= POLICY.simulated)
            g->finalists[g->nfinalists++] = best;
    }
}

static bool reduces(const ccl_collective_t *want) {
    for (uint32_t k = 0; k < want->nchunks; k++)
        if (want->chunks[k].reduced)
            return true;
    return false;
}

static ccl_status_t init(greedy_t *g, ccl_routes_t *routes, ccl_error_t *err) {
    ccl_i_exchange_options_t turned = {.reversed = true, .reduce = true};
    g->size_bytes = g->options->size_bytes > 0 ? g->options->size_bytes : POLICY.size;
    g->trials = (ccl_i_race_t){.ctx = g->ctx, .topo = g->topo, .time = time_attempt, .user = g};
    if (g->options->time_limit_s > 0)
        g->trials.make_until_s = ccl_now_s() + g->options->time_limit_s;
    /* What has too many blocks for a GPU is slowest: another one may do. */
    g->finals = (ccl_i_race_t){.ctx = g->ctx,
                               .topo = g->topo,
                               .make = make_finalist,
                               .user = g,
                               .level = CCL_GRANULARITY_TASK,
                               .size_bytes = g->size_bytes,
                               .most_s = CCL_I_SYNTH_CARE * g->options->hope_s,
                               .skip_lone = true};
    CCL_TRY(ccl_i_exchange_init(&g->forward, g->topo, routes, NULL, err));
    if (reduces(g->want)) {
        CCL_TRY(ccl_i_exchange_init(&g->backward, g->topo, routes, &turned, err));
        g->has_backward = true;
    }
    return CCL_OK;
}

static void fini(greedy_t *g) {
    ccl_i_exchange_fini(&g->forward);
    ccl_i_exchange_fini(&g->backward);
    free(g->attempts);
    ccl_i_race_fini(&g->trials);
    ccl_i_race_fini(&g->finals);
}

static bool supports(const ccl_topology_t *topo, const ccl_collective_t *want, const char **why) {
    (void)topo;
    (void)want;
    (void)why;
    return true;
}

static ccl_status_t synthesize(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                               ccl_routes_t *routes, const ccl_collective_t *want,
                               const ccl_synth_options_t *options, ccl_schedule_t **out,
                               ccl_error_t *err) {
    ccl_ctx_t quiet = ctx ? *ctx : (ccl_ctx_t)CCL_CTX_INIT; /* workers report no progress */
    quiet.progress = NULL;
    quiet.log = NULL;
    greedy_t g = {.ctx = &quiet, .topo = topo, .want = want, .options = options};
    const ccl_i_asked_t asked = {&quiet, topo, routes, want, options};
    ccl_status_t status = init(&g, routes, err);
    if (status == CCL_OK)
        status = try_cuts(&g, err);
    if (status == CCL_OK) {
        choose_finalists(&g);
        status = ccl_i_race_run(&g.finals, g.nfinalists, err);
    }
    if (status == CCL_OK)
        status = ccl_i_race_take(&g.finals, out, err);
    if (status == CCL_OK) {
        const attempt_t *best = &g.attempts[g.finalists[g.finals.best.index]];
        (*out)->limited |= g.trials.late;
        ccl_origin_set((*out)->origin, "greedy: %u part%s of a shard%s, best of %u tries",
                       best->parts, best->parts == 1 ? "" : "s",
                       best->star ? ", stars in fast sets" : "", g.nattempts);
    }
    fini(&g);
    if (status == CCL_OK)
        status = ccl_i_lanes_if_faster(&asked, out, err);
    return status;
}

static const ccl_option_t own_options[] = {
    {.name = "restarts",
     .type = CCL_OPTION_COUNT,
     .offset = CCL_I_SYNTH_AT(restarts),
     .value = "N",
     .doc = "times that it starts again, each with a seed of its own",
     .otherwise = "its choice",
     .knob = "restarts",
     .knob_max = 10000},
    {.name = NULL},
};
static const ccl_option_t *const options[] = {own_options, ccl_i_rooted_options,
                                              ccl_i_compose_options, NULL};

const ccl_synth_ops_t ccl_i_synth_greedy = {
    .size = sizeof(ccl_synth_ops_t),
    .name = "greedy",
    .summary = "chunks matched to free links over time, rarest first; several cuts and seeds",
    .source = "TACOS (Won et al., arXiv 2304.05301)",
    .supports = supports,
    .synthesize = synthesize,
    .by_size = true,
    .through_switches = true,
    .way = &ccl_way_hpds,
    .composable = true,
    .options = options,
};
