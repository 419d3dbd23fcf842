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
enum { MOST_COPIES = 4 };
static const uint32_t COPIES[] = {MOST_COPIES, 2};
static const uint32_t PIECES[] = {8, 12, 16, 24, 32, 48, 64, 96, 128};
static const double LEAST_BYTES = 4096; /* of a piece */
static const double MOST_WORK = 200000; /* transfers times pieces */

typedef struct staggered {
    const ccl_i_asked_t *asked;
    const ccl_schedule_t *given;
    double size_bytes;
    ccl_schedule_t *best; /* NULL: none is faster than the schedule that there is */
    double best_s;        /* < 0: not known yet */
} staggered_t;

/** Where stars stand: all GPUs as one server, or servers of as many GPUs, the root's first. */
typedef struct place {
    const ccl_i_cluster_t *cluster;
    uint32_t root, servers, lanes; /* lane 0 is the root's */
    bool reduce;
} place_t;

static uint32_t rank_at(const place_t *p, uint32_t server, uint32_t lane) {
    const ccl_i_cluster_t *c = p->cluster;
    if (p->servers == 1)
        return (p->root + lane) % p->lanes;
    return ccl_i_cluster_rank(c, (c->server[p->root] + server) % p->servers,
                              c->local[p->root] + lane);
}

/* A hop of a chunk's tree, the more hops away from the root the later; of a Reduce the other way.
 */
static void add_hop(const place_t *p, ccl_schedule_builder_t *b, uint32_t src, uint32_t dst,
                    uint32_t chunk, uint32_t hop) {
    ccl_schedule_builder_add(b, (ccl_transfer_t){.src = p->reduce ? dst : src,
                                                 .dst = p->reduce ? src : dst,
                                                 .chunk = chunk,
                                                 .step = p->reduce ? p->servers - hop : hop,
                                                 .reduce = p->reduce});
}

/*
 * A tree of each lane: from server to server along it, and from the GPU of that lane to all others
 * there. Where there is one server the root's lane has none. Where there are several it is another
 * lane's GPU that passes the part of the root's lane on in the root's server.
 * @param turn  which.
 */
static ccl_status_t make_stars(const place_t *p, const ccl_collective_t *want, uint32_t turn,
                               ccl_schedule_t **out, ccl_error_t *err) {
    const uint32_t lanes = p->lanes, without = p->servers == 1;
    ccl_collective_t *coll = NULL;
    CCL_TRY(
        ccl_collective_create(want->kind, want->nranks, lanes - without, want->root, &coll, err));
    ccl_schedule_builder_t *b = ccl_schedule_builder_create("stars", coll);
    if (!b)
        return ccl_fail_nomem(err);
    for (uint32_t lane = without; lane < lanes; lane++) {
        uint32_t chunk = lane - without;
        for (uint32_t server = 0; server < p->servers; server++) {
            uint32_t at = server == 0 && lane == 0 ? 1 + turn % (lanes - 1) : lane;
            uint32_t hub = rank_at(p, server, at);
            add_hop(p, b, server == 0 ? p->root : rank_at(p, server - 1, lane), hub, chunk, server);
            for (uint32_t i = 1; i < lanes; i++) {
                uint32_t leaf = rank_at(p, server, (at + i) % lanes);
                if (leaf != p->root)
                    add_hop(p, b, hub, leaf, chunk, server + 1);
            }
        }
    }
    return ccl_schedule_builder_finish(b, out, err);
}

/* All trees on channels of their own, in pieces. @param bases  [copies] */
static ccl_status_t make_copies(const staggered_t *s, ccl_schedule_t *const *bases, uint32_t copies,
                                uint32_t pieces, ccl_schedule_t **out, ccl_error_t *err) {
    ccl_collective_t *coll = NULL;
    CCL_TRY(ccl_collective_split(bases[0]->coll, copies, &coll, err));
    ccl_schedule_builder_t *b = ccl_schedule_builder_create(s->given->name, coll);
    if (!b)
        return ccl_fail_nomem(err);
    for (uint32_t k = 0; k < copies; k++) {
        for (uint32_t i = 0; i < bases[k]->ntransfers; i++) {
            ccl_transfer_t t = bases[k]->transfers[i];
            t.chunk += k * bases[k]->coll->nchunks;
            t.channel = (uint16_t)(t.channel + k * bases[k]->nchannels);
            ccl_schedule_builder_add(b, t);
        }
    }
    CCL_TRY(ccl_schedule_builder_finish(b, out, err));
    (*out)->piece_bytes = ceil(s->size_bytes / (*out)->coll->nchunks / pieces);
    (*out)->stagger = copies;
    return CCL_OK;
}

static ccl_status_t try_pieces(staggered_t *s, ccl_schedule_t *const *bases, const char *how,
                               uint32_t copies, uint32_t pieces, ccl_i_timing_t *timing,
                               ccl_error_t *err) {
    ccl_schedule_t *made = NULL;
    CCL_TRY(make_copies(s, bases, copies, pieces, &made, err));
    ccl_status_t status =
        ccl_i_time_protocols(s->asked->ctx, s->asked->topo, s->asked->routes, made, timing, err);
    if (status == CCL_OK && timing->time_s < s->best_s) {
        ccl_origin_set(made->origin, "%s: %s, %u of each, %u pieces each, staggered",
                       s->given->name, how, copies, pieces);
        ccl_schedule_destroy(s->best);
        s->best = made;
        s->best_s = timing->time_s;
        return CCL_OK;
    }
    ccl_schedule_destroy(made);
    return status;
}

/* What there is, under the protocol that suits it; asked for when something may be faster. */
static ccl_status_t find_best(staggered_t *s, ccl_error_t *err) {
    ccl_i_timing_t timing = {.size_bytes = s->size_bytes,
                             .way.granularity = CCL_GRANULARITY_ALGORITHM};
    if (s->best_s >= 0)
        return CCL_OK;
    CCL_TRY(ccl_i_time_protocols(s->asked->ctx, s->asked->topo, s->asked->routes, s->given, &timing,
                                 err));
    s->best_s = timing.time_s;
    return CCL_OK;
}

/* All numbers of pieces: the time is not smooth in it, as blocks may fall into step. */
static ccl_status_t try_bases(staggered_t *s, ccl_schedule_t *const bases[MOST_COPIES],
                              const char *how, ccl_error_t *err) {
    const double most_bytes = ccl_lower_most_chunk_bytes(s->asked->topo, "Simple");
    bool unfit = true;
    for (uint32_t i = 0; i < CCL_ARRAY_LEN(COPIES) && unfit; i++) {
        double tree_bytes = s->size_bytes / bases[0]->coll->nchunks / COPIES[i];
        unfit = false;
        for (uint32_t k = 0; k < CCL_ARRAY_LEN(PIECES) && !unfit; k++) {
            double bytes = tree_bytes / PIECES[k];
            if (bytes < LEAST_BYTES || bytes > most_bytes ||
                (double)COPIES[i] * bases[0]->ntransfers * PIECES[k] > MOST_WORK)
                continue;
            CCL_TRY(find_best(s, err));
            ccl_i_timing_t timing = {.size_bytes = s->size_bytes,
                                     .way.granularity = CCL_GRANULARITY_ALGORITHM,
                                     .give_up_s = isfinite(s->best_s) ? s->best_s : 0};
            CCL_TRY(try_pieces(s, bases, how, COPIES[i], PIECES[k], &timing, err));
            unfit = timing.unfit;
        }
    }
    return CCL_OK;
}

/* Do all that a star joins reach each other? */
static bool can_be(const ccl_i_cluster_t *c, const ccl_schedule_t *stars) {
    bool reach = true;
    for (uint32_t i = 0; i < stars->ntransfers && reach; i++)
        reach = ccl_i_cluster_reaches(c, stars->transfers[i].src, stars->transfers[i].dst);
    return reach;
}

static ccl_status_t try_stars(staggered_t *s, ccl_error_t *err) {
    const ccl_collective_t *want = s->asked->want;
    ccl_schedule_t *bases[MOST_COPIES] = {NULL};
    ccl_i_cluster_t c;
    CCL_TRY(ccl_i_cluster_init(&c, s->asked->topo, s->asked->routes, err));
    bool rails = c.nservers > 1 && c.min_gpus == c.max_gpus && c.min_gpus > 2;
    const place_t place = {.cluster = &c,
                           .root = want->root,
                           .servers = rails ? c.nservers : 1,
                           .lanes = rails ? c.min_gpus : c.nranks,
                           .reduce = want->kind == CCL_REDUCE};
    ccl_status_t status = CCL_OK;
    bool can = true;
    for (uint32_t k = 0; status == CCL_OK && k < MOST_COPIES; k++) {
        status = make_stars(&place, want, k, &bases[k], err);
        can = can && status == CCL_OK && can_be(&c, bases[k]);
    }
    if (can)
        status = try_bases(s, bases, rails ? "stars along rails" : "stars", err);
    for (uint32_t k = 0; k < MOST_COPIES; k++)
        ccl_schedule_destroy(bases[k]);
    ccl_i_cluster_fini(&c);
    return status;
}

static ccl_status_t try_chains(staggered_t *s, ccl_error_t *err) {
    ccl_synth_options_t usual = CCL_SYNTH_OPTIONS_INIT;
    ccl_schedule_t *base = NULL;
    usual.size_bytes = s->size_bytes;
    ccl_status_t made = ccl_synthesize(s->asked->ctx, "ring", s->asked->topo, s->asked->routes,
                                       s->asked->want, &usual, &base, err);
    if (made != CCL_OK)
        return made == CCL_UNSUPPORTED ? CCL_OK : made;
    ccl_schedule_t *const bases[MOST_COPIES] = {base, base, base, base};
    ccl_status_t status = try_bases(s, bases, "chains", err);
    ccl_schedule_destroy(base);
    return status;
}

ccl_status_t ccl_i_stagger_if_faster(const ccl_i_asked_t *asked, ccl_schedule_t **schedule,
                                     ccl_error_t *err) {
    const ccl_synth_options_t *options = asked->options;
    const ccl_collective_t *want = asked->want;
    staggered_t s = {
        .asked = asked, .given = *schedule, .size_bytes = options->size_bytes, .best_s = -1};
    if ((want->kind != CCL_BROADCAST && want->kind != CCL_REDUCE) || want->nranks < 3 ||
        !(options->size_bytes > 0) || asked->topo->ntransports == 0 || options->chunks ||
        options->channels || options->part || options->plain)
        return CCL_OK;
    ccl_status_t status = try_stars(&s, err);
    if (status == CCL_OK)
        status = try_chains(&s, err);
    if (status == CCL_OK && s.best) {
        ccl_schedule_destroy(*schedule);
        *schedule = s.best;
        s.best = NULL;
    }
    ccl_schedule_destroy(s.best);
    return status;
}
