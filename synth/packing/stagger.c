/*
 * Broadcast and Reduce in staggered pieces (ccl_schedule_t.stagger): each tree as many times side
 * by side as keep its links busy while some pay the overhead of their next piece. Trees are stars,
 * in which the root sends each GPU a part that this one passes on to all others (the links' work of
 * Scatter and AllGather in one pipeline, over two hops), and the chains of `ring`.
 */
#include "synth/packing/stagger.h"
#include "synth/common/plan.h"

#include <math.h>

/* Of a tree: the second where the first has no room in thread blocks. */
static const uint32_t COPIES[] = {4, 2};
static const uint32_t PIECES[] = {16, 24, 32, 48, 64, 96, 128};
static const double LEAST_BYTES = 4096; /* of a piece */

typedef struct staggered {
    const ccl_i_asked_t *asked;
    const char *name; /* of the synthesizer */
    double size_bytes;
    ccl_schedule_t *best; /* NULL: none is faster than the schedule that there is */
    double best_s;
} staggered_t;

/* Trees of two hops; of a Reduce the other way. */
static ccl_status_t make_stars(const ccl_collective_t *want, ccl_schedule_t **out,
                               ccl_error_t *err) {
    const uint32_t n = want->nranks, root = want->root, m = n - 1;
    bool reduce = want->kind == CCL_REDUCE;
    ccl_collective_t *coll = NULL;
    CCL_TRY(ccl_collective_create(want->kind, n, m, root, &coll, err));
    ccl_schedule_builder_t *b = ccl_schedule_builder_create("stars", coll);
    if (!b)
        return ccl_fail_nomem(err);
    for (uint32_t k = 0; k < m; k++) {
        uint32_t hub = (root + 1 + k) % n;
        for (uint32_t i = 0; i < m; i++) { /* the root, then the others in turn */
            uint32_t leaf = i == 0 ? root : (root + 1 + (k + i) % m) % n;
            bool down = (i == 0) == reduce; /* from the hub */
            ccl_schedule_builder_add(b, (ccl_transfer_t){.src = down ? hub : leaf,
                                                         .dst = down ? leaf : hub,
                                                         .chunk = k,
                                                         .step = down,
                                                         .reduce = reduce});
        }
    }
    return ccl_schedule_builder_finish(b, out, err);
}

/* Copies of all trees on channels of their own, in pieces. */
static ccl_status_t make_copies(const staggered_t *s, const ccl_schedule_t *base, uint32_t copies,
                                uint32_t pieces, ccl_schedule_t **out, ccl_error_t *err) {
    ccl_collective_t *coll = NULL;
    CCL_TRY(ccl_collective_split(base->coll, copies, &coll, err));
    ccl_schedule_builder_t *b = ccl_schedule_builder_create(s->name, coll);
    if (!b)
        return ccl_fail_nomem(err);
    for (uint32_t k = 0; k < copies; k++) {
        for (uint32_t i = 0; i < base->ntransfers; i++) {
            ccl_transfer_t t = base->transfers[i];
            t.chunk += k * base->coll->nchunks;
            t.channel = (uint16_t)(t.channel + k * base->nchannels);
            ccl_schedule_builder_add(b, t);
        }
    }
    CCL_TRY(ccl_schedule_builder_finish(b, out, err));
    (*out)->piece_bytes = ceil(s->size_bytes / (*out)->coll->nchunks / pieces);
    (*out)->stagger = copies;
    return CCL_OK;
}

static ccl_status_t try_pieces(staggered_t *s, const ccl_schedule_t *base, const char *how,
                               uint32_t copies, uint32_t pieces, ccl_i_timing_t *timing,
                               ccl_error_t *err) {
    ccl_schedule_t *made = NULL;
    CCL_TRY(make_copies(s, base, copies, pieces, &made, err));
    ccl_status_t status =
        ccl_i_time_schedule(s->asked->ctx, s->asked->topo, s->asked->routes, made, timing, err);
    if (status == CCL_OK && timing->time_s < s->best_s) {
        ccl_origin_set(made->origin, "%s: %s, %u of each, %u pieces each, staggered", s->name, how,
                       copies, pieces);
        ccl_schedule_destroy(s->best);
        s->best = made;
        s->best_s = timing->time_s;
        return CCL_OK;
    }
    ccl_schedule_destroy(made);
    return status;
}

/* All numbers of pieces: the time is not smooth in it, as blocks may fall into step. */
static ccl_status_t try_base(staggered_t *s, const ccl_schedule_t *base, const char *how,
                             ccl_error_t *err) {
    const double most_bytes = ccl_lower_most_chunk_bytes(s->asked->topo, "Simple");
    bool unfit = true;
    for (uint32_t i = 0; i < CCL_ARRAY_LEN(COPIES) && unfit; i++) {
        double tree_bytes = s->size_bytes / base->coll->nchunks / COPIES[i];
        unfit = false;
        for (uint32_t k = 0; k < CCL_ARRAY_LEN(PIECES) && !unfit; k++) {
            double bytes = tree_bytes / PIECES[k];
            ccl_i_timing_t timing = {.size_bytes = s->size_bytes,
                                     .way.granularity = CCL_GRANULARITY_ALGORITHM,
                                     .give_up_s = isfinite(s->best_s) ? s->best_s : 0};
            if (bytes < LEAST_BYTES || bytes > most_bytes)
                continue;
            CCL_TRY(try_pieces(s, base, how, COPIES[i], PIECES[k], &timing, err));
            unfit = timing.unfit;
        }
    }
    return CCL_OK;
}

/* Each with the protocol that suits it. */
static ccl_status_t best_time(const staggered_t *s, const ccl_schedule_t *schedule, double *out,
                              ccl_error_t *err) {
    ccl_i_timing_t timing = {.size_bytes = s->size_bytes,
                             .way.granularity = CCL_GRANULARITY_ALGORITHM};
    CCL_TRY(ccl_i_time_protocols(s->asked->ctx, s->asked->topo, s->asked->routes, schedule, &timing,
                                 err));
    *out = timing.time_s;
    return CCL_OK;
}

ccl_status_t ccl_i_stagger_if_faster(const ccl_i_asked_t *asked, ccl_schedule_t **schedule,
                                     ccl_error_t *err) {
    const ccl_synth_options_t *options = asked->options;
    const ccl_collective_t *want = asked->want;
    staggered_t s = {.asked = asked, .name = (*schedule)->name, .size_bytes = options->size_bytes};
    ccl_synth_options_t usual = CCL_SYNTH_OPTIONS_INIT;
    ccl_schedule_t *base = NULL;

    if ((want->kind != CCL_BROADCAST && want->kind != CCL_REDUCE) || want->nranks < 3 ||
        !(options->size_bytes > 0) || asked->topo->ntransports == 0 || options->chunks ||
        options->channels || options->part || options->plain)
        return CCL_OK;
    CCL_TRY(best_time(&s, *schedule, &s.best_s, err));
    CCL_TRY(make_stars(want, &base, err));
    ccl_status_t status = try_base(&s, base, "stars", err);
    ccl_schedule_destroy(base);
    base = NULL;
    usual.size_bytes = options->size_bytes;
    if (status == CCL_OK && ccl_synthesize(asked->ctx, "ring", asked->topo, asked->routes, want,
                                           &usual, &base, NULL) == CCL_OK)
        status = try_base(&s, base, "chains", err);
    ccl_schedule_destroy(base);
    if (status == CCL_OK && s.best) {
        ccl_schedule_destroy(*schedule);
        *schedule = s.best;
        s.best = NULL;
    }
    ccl_schedule_destroy(s.best);
    return status;
}
