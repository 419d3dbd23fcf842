/*
 * Reductions for planners that only copy (sccl, milp): the AllGather or Broadcast of the reversed
 * hops, time-reversed.
 */
#include "synth/common/turn.h"

#include <stdlib.h>
#include <string.h>

typedef struct turner {
    const ccl_ctx_t *ctx;
    const ccl_topology_t *topo;
    ccl_routes_t *routes;
    ccl_i_copies_fn plan;
} turner_t;

bool ccl_i_turn_copied(const ccl_collective_t *want) {
    return want->kind == CCL_REDUCESCATTER || want->kind == CCL_REDUCE ||
           want->kind == CCL_ALLREDUCE;
}

bool ccl_i_turn_supported(const ccl_collective_t *want, bool to_some, const char **why) {
    if (want->nranks > CCL_I_TURN_MOST_RANKS || want->nranks < 2) {
        *why = "it plans everything at once, which is for 2 to 64 GPUs";
        return false;
    }
    for (uint32_t c = 0; c < want->nchunks && !ccl_i_turn_copied(want); c++) {
        const ccl_chunk_t *chunk = &want->chunks[c];
        if (chunk->reduced || chunk->nsources != 1 || (to_some && !chunk->ndests)) {
            *why = to_some ? "of demands it does those that do not reduce, where every chunk goes "
                             "somewhere"
                           : "of demands it does those that do not reduce";
            return false;
        }
    }
    return true;
}

/* One chunk from each of n owners to all: an AllGather where every rank is one of them in turn. */
static ccl_status_t from_owners(const uint32_t *owner, uint32_t n, ccl_collective_t **out,
                                ccl_error_t *err) {
    bool even = true;
    for (uint32_t k = 0; k < n; k++)
        even = even && owner[k] == k;
    if (even)
        return ccl_collective_create(CCL_ALLGATHER, n, 1, 0, out, err);
    ccl_text_t t = {0};
    ccl_text_printf(&t, "{\"format\":\"ccllab-demand-1\",\"nranks\":%u,\"chunks\":[", n);
    for (uint32_t k = 0; k < n; k++)
        ccl_text_printf(&t, "%s{\"source\":%u,\"destinations\":\"all\",\"bytes\":1}", k ? "," : "",
                        owner[k]);
    ccl_text_printf(&t, "]}");
    ccl_status_t status =
        t.nomem ? ccl_fail_nomem(err) : ccl_demand_read_text("roots", t.data, t.len, out, err);
    ccl_text_fini(&t);
    return status;
}

/* What is spread: time-reversed to reduce, or down. */
static ccl_status_t spread_of(const turner_t *t, const ccl_collective_t *want,
                              const ccl_synth_options_t *options, ccl_collective_t **out,
                              ccl_error_t *err) {
    uint32_t n = want->nranks, *owner;
    ccl_i_exchange_t x;
    if (want->kind != CCL_ALLREDUCE)
        return ccl_collective_create(want->kind == CCL_REDUCE ? CCL_BROADCAST : CCL_ALLGATHER, n, 1,
                                     want->root, out, err);
    CCL_TRY(ccl_i_exchange_init(&x, t->topo, t->routes, NULL, err));
    owner = calloc(n, sizeof *owner);
    ccl_status_t status = owner ? CCL_OK : ccl_fail_nomem(err);
    if (status == CCL_OK)
        status = ccl_i_turn_roots(&x, n, options->uniform_roots, owner, err);
    if (status == CCL_OK)
        status = from_owners(owner, n, out, err);
    free(owner);
    ccl_i_exchange_fini(&x);
    return status;
}

ccl_status_t ccl_i_copies_search(const ccl_ctx_t *ctx, const ccl_child_limits_t *limits,
                                 ccl_child_fn fn, void *user, ccl_child_answer_t *out,
                                 bool *dropped_out, ccl_error_t *err) {
    ccl_error_t why = CCL_ERROR_INIT;
    ccl_status_t status = ccl_child_run(ctx, limits, fn, user, out, &why);
    *dropped_out = (status == CCL_ERR_NOMEM || status == CCL_UNSUPPORTED) && out->data;
    if (*dropped_out) {
        ccl_log(ctx, CCL_LOG_INFO, limits->phase, "the search ended early: %s", why.text);
        return CCL_OK;
    }
    if (status == CCL_OK && !out->data)
        return ccl_fail(err, CCL_TIMEOUT, "%s found nothing within its time limit", limits->phase);
    if (err && status != CCL_OK)
        *err = why;
    return status;
}

static ccl_status_t plan_side(const turner_t *t, bool up, const ccl_collective_t *what,
                              const ccl_synth_options_t *options, ccl_i_copies_t *out,
                              ccl_error_t *err) {
    ccl_i_exchange_options_t how = {.reversed = up, .reduce = up};
    ccl_i_exchange_t x;
    CCL_TRY(ccl_i_exchange_init(&x, t->topo, t->routes, &how, err));
    ccl_status_t status = t->plan(t->ctx, &x, what, options, out, err);
    ccl_i_exchange_fini(&x);
    return status;
}

ccl_status_t ccl_i_turn_copies(const ccl_i_asked_t *asked, const char *name, ccl_i_copies_fn plan,
                               ccl_schedule_t **out, ccl_error_t *err) {
    turner_t t = {asked->ctx, asked->topo, asked->routes, plan};
    const ccl_collective_t *want = asked->want;
    const ccl_synth_options_t *options = asked->options;
    bool reduces = ccl_i_turn_copied(want), both = want->kind == CCL_ALLREDUCE;
    ccl_collective_t *spread = NULL, *coll = NULL;
    ccl_i_copies_t ups = {0}, downs = {0};
    ccl_synth_options_t half = *options;
    ccl_status_t status = CCL_OK;
    if (reduces)
        CCL_TRY_GOTO(spread_of(&t, want, options, &spread, err), status, end);
    if (both)
        half.time_limit_s /= 2;
    if (reduces) {
        CCL_TRY_GOTO(plan_side(&t, true, spread, &half, &ups, err), status, end);
        half.chunks = ups.parts;
    }
    if (!reduces || both)
        CCL_TRY_GOTO(plan_side(&t, false, reduces ? spread : want, &half, &downs, err), status,
                     end);
    uint32_t parts = reduces ? ups.parts : downs.parts;
    CCL_TRY_GOTO(ccl_collective_split(want, both ? parts * want->nranks : parts, &coll, err),
                 status, end);
    ccl_i_turn_t turn = {.name = name,
                         .up = ups.moves,
                         .nup = ups.nmoves,
                         .down = downs.moves,
                         .ndown = downs.nmoves};
    status = ccl_i_turn_schedule(&turn, coll, out, err);
    if (status == CCL_OK)
        (*out)->limited = ups.limited || downs.limited || ups.dropped || downs.dropped;
    if (status == CCL_OK && options->stats)
        options->stats->dropped += (uint64_t)ups.dropped + downs.dropped;
end:
    ccl_collective_destroy(spread);
    free(ups.moves);
    free(downs.moves);
    return status;
}
