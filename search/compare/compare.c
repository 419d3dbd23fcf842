/*
 * compare: every contender at every size, in parallel. First each contender is synthesized (once:
 * the baselines do not depend on the size; once per size for synthesizers that do), lowered and
 * verified (at every size, where the program goes by what happens at that size); then all (size,
 * contender) pairs are simulated, those near the winner also at (1 -+ 1e-6) times the size, because
 * sharing makes some long programs chaotic (docs/model.md): a difference inside that spread is a
 * tie. What the notebook has is neither synthesized nor simulated, but for ties and the winner's
 * links. With a gap the synthesizers for each size run one after the other, and none where a time
 * is already that near to the bound. What several threads have no memory for together is tried once
 * more by itself; who has too little even then does not take part, and the others go on.
 */
#include "search/compare/cells.h"
#include "search/compare/shared.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- with little memory */

/* Contenders that there was no memory for beside others. */
static ccl_status_t prepare_alone(ccl_i_compare_t *c, ccl_error_t *err) {
    for (uint32_t i = 0; i < c->options->ncontenders; i++) {
        ccl_i_ready_t *r = &c->ready[i];
        if (r->status != CCL_ERR_NOMEM)
            continue;
        ccl_i_compare_forget(r, c->options->nsizes);
        atomic_store(&r->dropped, 0);
        atomic_fetch_sub(&c->done, 1);
        r->tried = false;
        r->status = CCL_OK;
        CCL_TRY(ccl_i_compare_prepare(i, 0, c, err));
    }
    return CCL_OK;
}

/* The same of runs. */
static ccl_status_t simulate_alone(ccl_i_compare_t *c, ccl_error_t *err) {
    uint32_t nc = c->options->ncontenders, n = nc * c->options->nsizes;
    for (uint32_t index = 0; index < n; index++) {
        size_t cell = (size_t)(c->options->nsizes - 1 - index / nc) * nc + index % nc;
        if (c->out->cells[cell].status != CCL_ERR_NOMEM || c->ready[index % nc].status != CCL_OK)
            continue;
        free(c->cell_why[cell]);
        c->cell_why[cell] = NULL;
        c->ready[index % nc].nomem = false;
        atomic_fetch_sub(&c->done, 1);
        CCL_TRY(ccl_i_compare_simulate(index, 0, c, err));
    }
    return CCL_OK;
}

static ccl_status_t prepare_one(uint32_t index, uint32_t worker, void *user, ccl_error_t *err) {
    ccl_i_compare_t *c = user;
    return ccl_i_compare_prepare(c->group[index], worker, c, err);
}

static ccl_status_t simulate_one(uint32_t index, uint32_t worker, void *user, ccl_error_t *err) {
    ccl_i_compare_t *c = user;
    uint32_t nc = c->options->ncontenders, n = c->ngroup;
    return ccl_i_compare_simulate(index / n * nc + c->group[index % n], worker, c, err);
}

/* Nobody has a time, and memory is why. */
static bool too_little(const ccl_comparison_t *out) {
    bool scarce = false;
    for (size_t i = 0; i < (size_t)out->nsizes * out->ncontenders; i++) {
        if (out->cells[i].status == CCL_OK)
            return false;
        scarce |= out->cells[i].status == CCL_ERR_NOMEM;
    }
    return scarce;
}

/* In one warning: what is missing for lack of memory. */
static void tell_memory(const ccl_i_compare_t *c, ccl_text_t *text) {
    const ccl_comparison_t *out = c->out;
    for (uint32_t i = 0; i < out->ncontenders; i++) {
        uint64_t dropped = atomic_load(&c->ready[i].dropped);
        uint32_t missing = 0;
        for (uint32_t s = 0; s < out->nsizes; s++)
            missing += out->cells[(size_t)s * out->ncontenders + i].status == CCL_ERR_NOMEM;
        const char *before = text->len ? ", " : "out of memory: ";
        if (missing)
            ccl_text_printf(text, "%s%s ran at %u of %u sizes", before, out->names[i],
                            out->nsizes - missing, out->nsizes);
        else if (dropped)
            ccl_text_printf(text, "%s%s is without %llu of its candidates", before, out->names[i],
                            (unsigned long long)dropped);
    }
    if (atomic_load(&c->unsure))
        ccl_text_printf(text, "%sties and links of winners are not complete",
                        text->len ? ", " : "out of memory: ");
}

/* ---------------------------------------------------------------- what is known */

static ccl_status_t look_up(ccl_i_compare_t *c, ccl_error_t *err) {
    uint32_t nc = c->options->ncontenders;
    if (!c->options->notebook || ccl_compare_untold(c->options))
        return CCL_OK;
    CCL_TRY(
        ccl_i_point_inputs(c->options->notebook, c->topo, c->want, c->topology, c->demand, err));
    CCL_TRY(ccl_i_notebook_tell(c->ctx, c->options->notebook, c->topology, c->demand, err));
    for (uint32_t i = 0; i < nc; i++) {
        const ccl_contender_t *contender = &c->options->contenders[i];
        if (contender->program || contender->schedule || contender->library ||
            !ccl_synth_find(contender->name))
            continue;
        c->ready[i].settings = ccl_i_compare_settings(c->options, contender);
        if (!c->ready[i].settings)
            return ccl_fail_nomem(err);
        for (uint32_t s = 0; s < c->options->nsizes; s++) {
            size_t at = (size_t)s * nc + i;
            ccl_point_t point = ccl_i_compare_point(c, s, i);
            ccl_point_result_t result;
            CCL_TRY(ccl_notebook_find(c->options->notebook, &point, &result, &c->known[at], err));
            if (!c->known[at])
                continue;
            ccl_i_compare_take(&result, &c->out->cells[at]);
            if (result.status == CCL_OK) /* a point has one protocol, its settings' */
                c->out->cells[at].proto =
                    ccl_protocol_name(ccl_protocol_find(c->options->lower.proto));
            c->out->resumed++;
            if (result.status != CCL_OK && !(c->cell_why[at] = strdup(result.why)))
                return ccl_fail_nomem(err);
        }
    }
    return CCL_OK;
}

/* ---------------------------------------------------------------- winners and ties */

/* Over samples, where a quantile of lost samples is as long for all, by the mean of the others. */
static bool is_better(const ccl_comparison_t *out, size_t a, size_t b) {
    if (out->rank.kind == CCL_RANK_NONE)
        return out->cells[a].time_s < out->cells[b].time_s;
    const ccl_compare_spread_t *x = &out->spreads[a], *y = &out->spreads[b];
    if (x->rank != y->rank)
        return x->rank < y->rank;
    return x->spread.lost != y->spread.lost ? x->spread.lost < y->spread.lost
                                            : x->spread.mean_s < y->spread.mean_s;
}

static void pick_winner(ccl_comparison_t *out, uint32_t size) {
    const ccl_compare_cell_t *cells = out->cells + (size_t)size * out->ncontenders;
    uint32_t best = CCL_NONE;
    for (uint32_t i = 0; i < out->ncontenders; i++) {
        size_t first = (size_t)size * out->ncontenders;
        if (cells[i].status == CCL_OK &&
            (best == CCL_NONE || is_better(out, first + i, first + best)))
            best = i;
    }
    out->winner[size] = best;
}

static ccl_status_t run_all(ccl_i_compare_t *c, uint32_t threads, ccl_error_t *err) {
    for (uint32_t from = CCL_NONE; ccl_i_compare_next(c, &from);) {
        if (c->options->gap > 0)
            CCL_TRY(ccl_i_compare_end_races(c, err));
        ccl_i_compare_hope(c);
        bool whole = ccl_i_compare_is_large(c);
        CCL_TRY(whole ? ccl_i_compare_large(c, err)
                      : ccl_parallel_for(c->ngroup, threads, prepare_one, c, err));
        if (threads > 1)
            CCL_TRY(prepare_alone(c, err));
        if (!whole)
            CCL_TRY(
                ccl_parallel_for(c->ngroup * c->options->nsizes, threads, simulate_one, c, err));
        if (threads > 1)
            CCL_TRY(simulate_alone(c, err));
        for (uint32_t k = 0; k < c->ngroup; k++)
            ccl_i_compare_release(c, c->group[k]);
    }
    return CCL_OK;
}

static ccl_status_t run_winner(ccl_i_compare_t *c, uint32_t size, uint32_t worker,
                               ccl_error_t *err) {
    uint32_t winner = c->out->winner[size];
    ccl_ctx_t ctx = ccl_i_worker_ctx(c->ctx);
    ccl_routes_t *routes = NULL;
    ccl_i_cell_run_t how = {0};
    CCL_TRY(ccl_i_compare_routes(c, worker, &routes, err));
    CCL_TRY(ccl_i_compare_open(c, size, winner, routes, &how, err));
    if (size == 0) { /* nothing was run that could warn */
        ctx.log = ccl_i_compare_warning;
        ctx.log_user = &c->ready[winner];
    }
    ccl_sim_result_destroy(c->out->best[size]);
    c->out->best[size] = NULL;
    ccl_status_t status =
        ccl_sim_program(&ctx, how.topo, routes, how.program, &how.sim, &c->out->best[size], err);
    ccl_sim_result_destroy(how.run);
    ccl_program_destroy(how.own);
    return status;
}

/* A winner of the notebook is run for its full result. */
static ccl_status_t detail(uint32_t size, uint32_t worker, void *user, ccl_error_t *err) {
    ccl_i_compare_t *c = user;
    uint32_t winner = c->out->winner[size];
    if (winner != c->best_of[size] && ccl_i_compare_begin(c, size, winner, worker))
        CCL_TRY(ccl_i_compare_unsure(c, run_winner(c, size, worker, err)));
    atomic_fetch_add(&c->done, 1);
    return CCL_OK;
}

static ccl_status_t allocate(ccl_i_compare_t *c, ccl_error_t *err) {
    const ccl_compare_options_t *o = c->options;
    ccl_comparison_t *out = c->out;
    ccl_arena_t *arena = &out->arena;
    size_t nc = o->ncontenders, ns = o->nsizes;
    out->ncontenders = o->ncontenders;
    out->nsizes = o->nsizes;
    out->names = ccl_arena_alloc(arena, nc + 1, sizeof *out->names);
    out->why_not = ccl_arena_alloc(arena, nc + 1, sizeof *out->why_not);
    out->thread_blocks = ccl_arena_alloc(arena, nc + 1, sizeof *out->thread_blocks);
    out->ways = ccl_arena_alloc(arena, nc + 1, sizeof *out->ways);
    out->lowered = ccl_arena_alloc(arena, nc + 1, sizeof *out->lowered);
    out->sizes_bytes = ccl_arena_alloc(arena, ns + 1, sizeof *out->sizes_bytes);
    out->bound_s = ccl_arena_alloc(arena, ns + 1, sizeof *out->bound_s);
    out->cells = ccl_arena_alloc(arena, ns * nc + 1, sizeof *out->cells);
    out->winner = ccl_arena_alloc(arena, ns + 1, sizeof *out->winner);
    out->tie = ccl_arena_alloc(arena, ns + 1, sizeof *out->tie);
    out->best = ccl_arena_alloc(arena, ns + 1, sizeof *out->best);
    if (!out->names || !out->why_not || !out->thread_blocks || !out->ways || !out->lowered ||
        !out->sizes_bytes || !out->bound_s || !out->cells || !out->winner || !out->tie ||
        !out->best)
        return ccl_fail_nomem(err);
    if (o->draws) {
        out->nsamples = o->samples;
        out->rank = o->rank;
        out->samples_s = ccl_arena_alloc(arena, ns * nc * o->samples + 1, sizeof *out->samples_s);
        out->spreads = ccl_arena_alloc(arena, ns * nc + 1, sizeof *out->spreads);
        if (!out->samples_s || !out->spreads)
            return ccl_fail_nomem(err);
        for (size_t i = 0; i < ns * nc * o->samples; i++)
            out->samples_s[i] = NAN;
    }
    out->gap = o->gap > 0 ? o->gap : CCL_COMPARE_GAP;
    out->nccl = CCL_NONE;
    for (uint32_t i = 0; i < nc; i++) {
        if (o->contenders[i].library && out->nccl == CCL_NONE)
            out->nccl = i;
        out->names[i] = ccl_arena_strdup(arena, o->contenders[i].name);
        if (!out->names[i])
            return ccl_fail_nomem(err);
    }
    for (uint32_t i = 0; i < ns; i++)
        out->sizes_bytes[i] = o->sizes_bytes[i];
    return CCL_OK;
}

/* Who has no time at any size does not take part; the largest size says why. */
static ccl_status_t explain(ccl_i_compare_t *c, ccl_error_t *err) {
    ccl_comparison_t *out = c->out;
    for (uint32_t i = 0; i < out->ncontenders; i++) {
        const char *why = c->ready[i].err.text;
        bool ran = false;
        out->ways[i] = c->ready[i].way;
        out->lowered[i] = !c->options->contenders[i].program && !c->options->contenders[i].library;
        for (uint32_t s = 0; s < out->nsizes; s++) {
            size_t cell = (size_t)s * out->ncontenders + i;
            uint32_t blocks = out->cells[cell].usage.thread_blocks;
            ran |= out->cells[cell].status == CCL_OK;
            if (blocks > out->thread_blocks[i])
                out->thread_blocks[i] = blocks;
            if (c->cell_why[cell])
                why = c->cell_why[cell];
            else if (out->cells[cell].status == CCL_INTERRUPTED)
                why = "interrupted";
        }
        for (uint32_t s = 0; ran && s < out->nsizes; s++) {
            size_t cell = (size_t)s * out->ncontenders + i;
            if (!c->cell_why[cell])
                continue;
            out->cells[cell].why = ccl_arena_strdup(&out->arena, c->cell_why[cell]);
            if (!out->cells[cell].why)
                return ccl_fail_nomem(err);
        }
        if (ran)
            continue;
        out->why_not[i] = ccl_arena_strdup(&out->arena, why);
        if (!out->why_not[i])
            return ccl_fail_nomem(err);
    }
    return CCL_OK;
}

bool ccl_warnings_alike(const char *a, const char *b) {
    const char *colon_a = strrchr(a, ':'), *colon_b = strrchr(b, ':');
    return strcmp(colon_a ? colon_a : a, colon_b ? colon_b : b) == 0;
}

/* Each kind once, in the order of the contenders whatever the threads did. */
static ccl_status_t gather_warnings(ccl_i_compare_t *c, ccl_error_t *err) {
    ccl_comparison_t *out = c->out;
    size_t most = (size_t)out->ncontenders * CCL_I_COMPARE_WARNINGS + 1;
    ccl_text_t memory = {0};
    out->warnings = ccl_arena_alloc(&out->arena, most + 1, sizeof *out->warnings);
    if (!out->warnings)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < out->ncontenders; i++) {
        for (uint32_t k = 0; k < c->ready[i].nwarnings; k++) {
            const char *text = c->ready[i].warnings[k];
            bool known = false;
            for (uint32_t j = 0; j < out->nwarnings && !known; j++)
                known = ccl_warnings_alike(out->warnings[j], text);
            if (known)
                continue;
            out->warnings[out->nwarnings] = ccl_arena_strdup(&out->arena, text);
            if (!out->warnings[out->nwarnings])
                return ccl_fail_nomem(err);
            out->nwarnings++;
        }
    }
    tell_memory(c, &memory);
    if (memory.len)
        out->warnings[out->nwarnings] = ccl_arena_strdup(&out->arena, memory.data);
    bool nomem = memory.nomem || (memory.len && !out->warnings[out->nwarnings]);
    out->nwarnings += memory.len > 0;
    ccl_text_fini(&memory);
    return nomem ? ccl_fail_nomem(err) : CCL_OK;
}

ccl_status_t ccl_i_compare_bound(ccl_i_compare_t *c, const ccl_ctx_t *ctx, ccl_error_t *err) {
    ccl_bound_options_t how = CCL_BOUND_OPTIONS_INIT;
    ccl_bound_t bound;
    if (c->bounded)
        return CCL_OK;
    for (uint32_t i = 0; i < c->options->ncontenders; i++) {
        const ccl_program_t *given = c->options->contenders[i].program;
        how.any_switches |= given && given->ngroups > 0;
    }
    CCL_TRY(ccl_bound(ctx, c->topo, c->want, &how, &bound, err));
    for (uint32_t s = 0; s < c->out->nsizes; s++)
        c->out->bound_s[s] = ccl_bound_time_s(&bound, c->out->sizes_bytes[s]);
    ccl_bound_fini(&bound);
    c->bounded = true;
    return CCL_OK;
}

static ccl_status_t check_options(const ccl_topology_t *topo, const ccl_collective_t *want,
                                  const ccl_compare_options_t *o, ccl_error_t *err) {
    if (want->nranks != topo->nranks)
        return ccl_fail(err, CCL_ERR_INPUT, "the collective has %u ranks, topology %.80s has %u",
                        want->nranks, topo->name, topo->nranks);
    if (o->ncontenders == 0 || o->nsizes == 0)
        return ccl_fail(err, CCL_ERR_INPUT, "nothing to compare: %s",
                        o->nsizes ? "no contender" : "no size");
    if (!(o->gap >= 0) || !isfinite(o->gap))
        return ccl_fail(err, CCL_ERR_INPUT, "the gap must be 0 or more");
    if (o->gap > 0 && o->rank.kind != CCL_RANK_NONE)
        return ccl_fail(err, CCL_ERR_INPUT,
                        "a gap ends races by times on the cluster as drawn: not with a rank over "
                        "samples");
    if (!(o->hope >= 0) || !isfinite(o->hope))
        return ccl_fail(err, CCL_ERR_INPUT, "hope must be 0 or more");
    if (o->hope > 0 && (o->notebook || o->rank.kind != CCL_RANK_NONE))
        return ccl_fail(err, CCL_ERR_INPUT,
                        "hope goes by times on the cluster as drawn: not with a notebook or a "
                        "rank over samples");
    if (o->keep && o->notebook)
        return ccl_fail(err, CCL_ERR_INPUT, "runs of a notebook are not at hand to be kept");
    if (o->rank.kind != CCL_RANK_NONE && !o->draws)
        return ccl_fail(err, CCL_ERR_INPUT, "nothing to rank by: no scenario");
    if (o->draws && (o->samples == 0 || o->samples > CCL_SAMPLES_MAX))
        return ccl_fail(err, CCL_ERR_INPUT, "%u samples: 1 to %u are possible", o->samples,
                        CCL_SAMPLES_MAX);
    for (uint32_t i = 0; i < o->nsizes; i++) {
        if (!(o->sizes_bytes[i] > 0) || !isfinite(o->sizes_bytes[i]))
            return ccl_fail(err, CCL_ERR_INPUT, "size %u is %g bytes: more than 0 is needed", i,
                            o->sizes_bytes[i]);
    }
    return CCL_OK;
}

/* @retval CCL_ERR_NOMEM  finish all the same */
static ccl_status_t compare_init(ccl_i_compare_t *c, uint32_t threads) {
    size_t nc = c->options->ncontenders, ns = c->options->nsizes;
    c->total = nc + nc * ns + ns;
    atomic_init(&c->done, 0);
    atomic_init(&c->unsure, 0);
    c->threads = threads;
    c->out = calloc(1, sizeof *c->out);
    c->ready = calloc(nc, sizeof *c->ready);
    c->routes = calloc(2 * (size_t)threads, sizeof *c->routes);
    c->cell_why = calloc(nc * ns, sizeof *c->cell_why);
    c->known = calloc(nc * ns, sizeof *c->known);
    c->for_protocol = calloc(nc * ns, sizeof *c->for_protocol);
    c->again = calloc(nc * ns, sizeof *c->again);
    c->best_of = calloc(ns, sizeof *c->best_of);
    c->hope_s = calloc(nc * ns, sizeof *c->hope_s);
    c->group = calloc(nc, sizeof *c->group);
    c->running = calloc(2 * (size_t)threads, sizeof *c->running);
    c->ended = calloc(threads, sizeof *c->ended);
    c->lock = ccl_lock_create();
    if (!c->group || !c->running || !c->ended || !c->out || !c->ready || !c->routes ||
        !c->cell_why || !c->known || !c->for_protocol || !c->again || !c->best_of || !c->hope_s ||
        !c->lock)
        return CCL_ERR_NOMEM;
    for (uint32_t w = 0; w < 2 * threads; w++)
        atomic_init(&c->running[w], CCL_NONE);
    return CCL_OK;
}

static void compare_fini(ccl_i_compare_t *c, uint32_t threads) {
    uint32_t nc = c->options->ncontenders, ns = c->options->nsizes;
    ccl_i_compare_forget_all(c->ready, nc, ns);
    for (uint32_t i = 0; c->routes && i < 2 * threads; i++)
        ccl_routes_destroy(c->routes[i]);
    for (size_t i = 0; c->cell_why && i < (size_t)nc * ns; i++)
        free(c->cell_why[i]);
    free(c->cell_why);
    free(c->known);
    free(c->for_protocol);
    free(c->again);
    free(c->best_of);
    free(c->hope_s);
    free(c->group);
    free(c->running);
    free(c->ended);
    ccl_lock_destroy(c->lock);
    free(c->routes);
    ccl_comparison_destroy(c->out);
}

/* What was not finished has no time; the full result of a run that did not win is dropped. */
static void finish(ccl_i_compare_t *c) {
    ccl_comparison_t *out = c->out;
    ccl_progress_t progress = {"", c->total, c->total, 0, 0};
    out->interrupted = atomic_load(&c->interrupted) || ccl_ctx_poll(c->ctx, &progress) != CCL_OK;
    for (size_t i = 0; i < (size_t)out->nsizes * out->ncontenders; i++) {
        out->finished += out->cells[i].status != CCL_INTERRUPTED;
        if (out->cells[i].status == CCL_INTERRUPTED)
            out->cells[i] = (ccl_compare_cell_t){.status = CCL_INTERRUPTED, .why = "interrupted"};
    }
    for (uint32_t s = 0; s < out->nsizes; s++)
        if (out->interrupted && out->winner[s] != c->best_of[s]) {
            ccl_sim_result_destroy(out->best[s]);
            out->best[s] = NULL;
        }
}

ccl_status_t ccl_compare(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                         const ccl_collective_t *want, const ccl_compare_options_t *options,
                         ccl_comparison_t **out, ccl_error_t *err) {
    CCL_OPTIONS_TRY(ccl_compare_options_t, options, err);
    CCL_OPTIONS_TRY(ccl_synth_options_t, &options->synth, err);
    CCL_OPTIONS_TRY(ccl_lower_options_t, &options->lower, err);
    CCL_OPTIONS_TRY(ccl_sim_options_t, &options->sim, err);
    ccl_i_compare_t c = {.ctx = ctx, .topo = topo, .want = want, .options = options};
    uint32_t threads = ctx && ctx->threads ? ctx->threads : ccl_core_count();
    uint32_t nc = options->ncontenders, ns = options->nsizes;
    CCL_TRY(check_options(topo, want, options, err));
    if ((uint64_t)nc * ns > UINT32_MAX)
        return ccl_fail(err, CCL_ERR_INPUT, "too many sizes and contenders");
    ccl_status_t status = CCL_OK;
    if (compare_init(&c, threads) != CCL_OK) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    ccl_arena_init(&c.out->arena);
    CCL_TRY_GOTO(allocate(&c, err), status, end);
    if (!ccl_i_compare_bounds_later(&c))
        CCL_TRY_GOTO(ccl_i_compare_bound(&c, ctx, err), status, end);
    for (uint32_t i = 0; i < nc; i++)
        c.ready[i].way = ccl_i_compare_way(&c, i);
    for (uint32_t k = 0; k < ns; k++)
        c.out->winner[k] = c.best_of[k] = CCL_NONE;
    CCL_TRY_GOTO(look_up(&c, err), status, end);
    CCL_TRY_GOTO(run_all(&c, threads, err), status, end);
    CCL_TRY_GOTO(ccl_i_compare_bound(&c, ctx, err), status, end);
    if (too_little(c.out)) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    CCL_TRY_GOTO(ccl_i_compare_rank(&c, err), status, end);
    for (uint32_t s = 0; s < ns; s++)
        pick_winner(c.out, s);
    CCL_TRY_GOTO(ccl_i_compare_ties(&c, threads, err), status, end);
    ccl_i_compare_pair(&c);
    CCL_TRY_GOTO(ccl_parallel_for(ns, threads, detail, &c, err), status, end);
    CCL_TRY_GOTO(explain(&c, err), status, end);
    CCL_TRY_GOTO(ccl_i_nccl_tell(&c, err), status, end);
    CCL_TRY_GOTO(gather_warnings(&c, err), status, end);
    finish(&c);
    if (options->keep)
        CCL_TRY_GOTO(ccl_i_compare_keep(&c, err), status, end);
    *out = c.out;
    status = c.out->interrupted ? CCL_INTERRUPTED : CCL_OK;
    c.out = NULL;
end:
    compare_fini(&c, threads);
    return status;
}

void ccl_comparison_destroy(ccl_comparison_t *comparison) {
    if (!comparison)
        return;
    for (uint32_t i = 0; comparison->best && i < comparison->nsizes; i++)
        ccl_sim_result_destroy(comparison->best[i]);
    ccl_i_compare_kept_destroy(comparison->kept);
    ccl_arena_fini(&comparison->arena);
    free(comparison);
}
