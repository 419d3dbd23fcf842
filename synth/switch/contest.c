/* Whether schedules through switches are faster than others. */
#include "synth/common/race.h"
#include "synth/switch/contest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/** Over which connections of a GPU are spread at most, as NCCL does. */
#define MOST_CHANNELS 32
/** Pieces that are tried: halves of the schedule's, or of the first, but of no more than the last.
 */
#define MOST_PIECE_BYTES 1048576.0
#define LEAST_PIECE_BYTES 16384.0
/** On many GPUs, halves of pieces that gain less are the last. */
#define PIECE_GAIN 0.005
/** Waves of one piece at the start and at the end, and the bytes of a piece of 256 MiB; with more
 * transfers, those within servers one by one, they take too long to make. */
#define FIRST_WAVES 2
#define LAST_WAVES 6
#define WAVE_BYTES 65536.0
#define MOST_TRANSFERS 1200000.0
/** More than that: a look at everything takes long. */
#define MOST_RANKS 32
/** Work of a run from which a schedule's own way of lowering, some runs of it, takes too long. */
#define OWN_WAY_WORK 4e5

/* Channels of the first look; over several domains two that take turns with pieces. */
#define LOOK_CHANNELS 4
#define LOOK_PIECE_BYTES 262144.0

static bool has_many_ranks(const ccl_i_contest_t *c) {
    return c->topo->nranks > MOST_RANKS;
}

/* Plain ways of lowering are at most this much faster than a block per connection in step order:
   slower schedules than that are not lowered with care. On few GPUs, where blocks may lack, more.
 */
static double care(const ccl_i_contest_t *c) {
    return has_many_ranks(c) ? 2 : 3;
}

/* Where slower schedules than another's are of no use it is Simple that decides on large ones. */
static bool can_decide(const ccl_i_contest_t *c, uint32_t protocol) {
    bool large = c->hope_s < INFINITY && c->size_bytes > CCL_LINES_BYTES;
    return protocol == 0 ||
           (!large && ccl_model_has_protocol(c->topo, ccl_protocol_name((ccl_protocol_t)protocol)));
}

/** A schedule, lowered one way. */
typedef struct plain {
    double time_s; /* INFINITY: not below what it must beat; NAN: it does not fit */
    double work;   /* of its run, as ccl_i_timing_t has it */
} plain_t;

static ccl_status_t time_plain(const ccl_i_contest_t *c, const ccl_schedule_t *schedule,
                               ccl_way_t way, const char *proto, double beat_s, plain_t *out,
                               ccl_error_t *err) {
    ccl_i_timing_t timing = {.size_bytes = c->size_bytes, .way = way, .give_up_s = beat_s};
    CCL_TRY(ccl_i_time_proto(c->ctx, c->topo, c->routes, schedule, proto, &timing, err));
    out->time_s = timing.unfit ? NAN : timing.time_s < beat_s ? timing.time_s : INFINITY;
    out->work = timing.work;
    return CCL_OK;
}

/* The busiest link's time at its full rate: no run of the schedule takes less. */
static ccl_status_t least_time(const ccl_i_contest_t *c, const ccl_schedule_t *s, double *out,
                               ccl_error_t *err) {
    double *bytes = calloc(c->topo->nlinks + (size_t)1, sizeof *bytes);
    ccl_status_t status = bytes ? CCL_OK : ccl_fail_nomem(err);
    *out = 0;
    for (uint32_t i = 0; i < s->ntransfers && status == CCL_OK; i++) {
        const ccl_transfer_t *t = &s->transfers[i];
        const ccl_route_t *route;
        status = ccl_routes_get(c->routes, t->src, t->dst, t->channel, &route, err);
        for (uint32_t l = 0; status == CCL_OK && l < route->nlinks; l++) {
            uint32_t link = route->links[l];
            bytes[link] += s->coll->chunks[t->chunk].share * c->size_bytes;
            *out = fmax(*out, bytes[link] / c->topo->links[link].bandwidth_Bps);
        }
    }
    free(bytes);
    return status;
}

/*
 * Whether the schedule as it is runs in less. Its own way of lowering may take long, so it is asked
 * only under protocols with which the busiest link takes less.
 */
ccl_status_t ccl_i_plain_beats(const ccl_i_contest_t *c, const ccl_synth_ops_t *ops,
                               const ccl_schedule_t *schedule, double time_s, bool *out,
                               ccl_error_t *err) {
    const ccl_way_t simple = ccl_way_choose(NULL, (ccl_way_t){0}, 0);
    const ccl_way_t way = ccl_way_choose(ops->way, (ccl_way_t){0}, 0);
    double least_s;
    plain_t took;
    *out = false;
    CCL_TRY(least_time(c, schedule, &least_s, err));
    for (uint32_t k = 0; k < CCL_PROTOCOLS && !*out; k++) {
        const char *proto = ccl_protocol_name((ccl_protocol_t)k);
        if (!can_decide(c, k) || least_s * ccl_model_wire(c->topo, proto) >= time_s)
            continue;
        CCL_TRY(
            time_plain(c, schedule, simple, proto, fmin(care(c) * time_s, c->hope_s), &took, err));
        *out = took.time_s <= time_s;
        bool heavy = has_many_ranks(c) && took.work > OWN_WAY_WORK;
        if (*out || took.time_s == INFINITY || !ops->way || heavy) /* its own may fit if NAN */
            continue;
        CCL_TRY(time_plain(c, schedule, way, proto, time_s, &took, err));
        *out = took.time_s <= time_s;
    }
    return CCL_OK;
}

/* Most pulls of one GPU, or multicasts. */
static ccl_status_t most_used(const ccl_schedule_t *s, uint32_t *out, ccl_error_t *err) {
    uint32_t *used = calloc(2 * (s->coll->nranks + (size_t)1), sizeof *used);
    *out = 1;
    for (uint32_t i = 0; used && i < s->ntransfers; i++) {
        const ccl_transfer_t *t = &s->transfers[i];
        bool pulls = ccl_peer_is_group(t->src);
        if (!pulls && !ccl_peer_is_group(t->dst))
            continue;
        uint32_t n = ++used[2 * (pulls ? t->dst : t->src) + pulls];
        *out = n > *out ? n : *out;
    }
    ccl_status_t status = used ? CCL_OK : ccl_fail_nomem(err);
    free(used);
    return status;
}

static ccl_status_t make_through(const ccl_i_contest_t *c, const ccl_schedule_t *schedule,
                                 ccl_i_through_way_t way, double beat_s, ccl_i_through_t *out,
                                 ccl_error_t *err) {
    ccl_verdict_t *verdict = calloc(1, sizeof *verdict);
    ccl_status_t status = verdict ? CCL_OK : ccl_fail_nomem(err);
    *out = (ccl_i_through_t){NULL, INFINITY, way};
    if (status == CCL_OK)
        status = ccl_i_through_switches(c->topo, c->routes, schedule, &way, &out->schedule, err);
    if (status == CCL_OK && out->schedule)
        status = ccl_schedule_verify(c->ctx, out->schedule, verdict, err);
    if (status == CCL_OK && out->schedule && verdict->valid) {
        ccl_i_timing_t timing = {.size_bytes = c->size_bytes,
                                 .give_up_s = beat_s < INFINITY ? beat_s : 0};
        status = ccl_i_time_schedule(c->ctx, c->topo, c->routes, out->schedule, &timing, err);
        out->time_s = timing.time_s;
        ccl_origin_add(out->schedule->origin, "through switches, %u channel%s", way.channels,
                       way.channels == 1 ? "" : "s");
        if (way.waves.pieces > 0)
            ccl_origin_add(out->schedule->origin, "in waves");
        if (way.piece_bytes > 0)
            ccl_origin_add(out->schedule->origin, "pieces of %.3g KB", way.piece_bytes / 1024);
    }
    free(verdict);
    return status;
}

/** If it is faster than the best so far it is the best then. */
static ccl_status_t try_through(const ccl_i_contest_t *c, const ccl_schedule_t *schedule,
                                ccl_i_through_way_t way, ccl_i_through_t *best, bool *better,
                                ccl_error_t *err) {
    ccl_i_through_t now;
    ccl_status_t status = make_through(c, schedule, way, best->time_s, &now, err);
    *better = status == CCL_OK && now.time_s < best->time_s;
    if (*better) {
        ccl_schedule_destroy(best->schedule);
        *best = now;
    } else {
        ccl_schedule_destroy(now.schedule);
    }
    return status;
}

/* Most pulls of a GPU, or multicasts, of trees on one channel; 0: there are none. */
static ccl_status_t count_used(const ccl_i_contest_t *c, const ccl_schedule_t *schedule,
                               uint32_t *out, ccl_error_t *err) {
    const ccl_i_through_way_t at = {.channels = 1, .parts = 1};
    ccl_schedule_t *one = NULL;
    *out = 0;
    ccl_status_t status = ccl_i_through_switches(c->topo, c->routes, schedule, &at, &one, err);
    if (status == CCL_OK && one)
        status = most_used(one, out, err);
    ccl_schedule_destroy(one);
    return status;
}

/* Pieces of a part in waves: the larger the message, the longer each. No more than waves of one
   piece take: it is too small. */
static uint32_t wave_pieces(const ccl_i_contest_t *c, double part_bytes) {
    double bytes = WAVE_BYTES * sqrt(c->size_bytes / CCL_LOWER_SIZE_BYTES);
    uint32_t pieces = FIRST_WAVES + LAST_WAVES;
    while (pieces * bytes * M_SQRT2 < part_bytes)
        pieces *= 2;
    return pieces;
}

static bool has_plain(const ccl_schedule_t *s) {
    for (uint32_t i = 0; i < s->ntransfers; i++)
        if (ccl_i_is_plain(&s->transfers[i]))
            return true;
    return false;
}

/* In waves, over as many channels as are best in pieces. What goes through switches all the way has
   no messages to save. */
static ccl_status_t try_waves(const ccl_i_contest_t *c, const ccl_schedule_t *schedule,
                              uint32_t channels, ccl_i_through_t *best, ccl_error_t *err) {
    ccl_schedule_t *whole = NULL;
    ccl_i_through_way_t way = {.channels = channels, .in_turn = true};
    uint32_t used = 0;
    bool better;
    if (schedule->coll->kind != CCL_ALLREDUCE || schedule->ngroups > 0 ||
        !has_plain(best->schedule))
        return CCL_OK;
    ccl_status_t status = ccl_i_through_uncut(schedule, &whole, err);
    if (status == CCL_OK)
        status = count_used(c, whole, &used, err);
    if (status == CCL_OK && used > 0) {
        way.parts = (channels + used - 1) / used;
        double part_bytes = c->size_bytes / whole->coll->nchunks / way.parts;
        way.waves =
            (ccl_i_through_waves_t){wave_pieces(c, part_bytes), FIRST_WAVES, LAST_WAVES, used};
        double transfers = (double)whole->ntransfers * way.parts * way.waves.pieces;
        if (way.waves.pieces > FIRST_WAVES + LAST_WAVES && transfers <= MOST_TRANSFERS)
            status = try_through(c, whole, way, best, &better, err);
    }
    ccl_schedule_destroy(whole);
    return status;
}

/* In smaller pieces: a pull hands on nothing before all of a piece has come, so it takes smaller
   ones than the trees that it replaces. Then in turn. */
static ccl_status_t try_pieces(const ccl_i_contest_t *c, const ccl_schedule_t *schedule,
                               ccl_i_through_way_t way, ccl_i_through_t *best, ccl_error_t *err) {
    double most = schedule->piece_bytes > 0 ? schedule->piece_bytes : MOST_PIECE_BYTES;
    double piece = fmin(most, c->size_bytes / best->schedule->coll->nchunks);
    ccl_i_through_way_t at = way;
    for (bool more = true; more;) {
        double before_s = best->time_s;
        bool better = false;
        at.piece_bytes = piece /= 2;
        if (piece >= LEAST_PIECE_BYTES)
            CCL_TRY(try_through(c, schedule, at, best, &better, err));
        if (better)
            way = at;
        more = best->time_s < (1 - (has_many_ranks(c) ? PIECE_GAIN : 0)) * before_s;
    }
    bool better;
    way.in_turn = true;
    return try_through(c, schedule, way, best, &better, err);
}

/* From few channels up; on many GPUs as long as more are faster. */
static ccl_status_t try_channels(const ccl_i_contest_t *c, const ccl_schedule_t *schedule,
                                 uint32_t used, ccl_i_through_t *best, ccl_error_t *err) {
    bool more = true, better;
    for (uint32_t n = 1; n <= MOST_CHANNELS && more; n *= 2) {
        ccl_i_through_way_t at = {.channels = n, .parts = (n + used - 1) / used};
        CCL_TRY(try_through(c, schedule, at, best, &better, err));
        more = better || !best->schedule || !has_many_ranks(c);
    }
    return CCL_OK;
}

/* One root's pulls: several of each block, one after the other. */
static ccl_status_t try_parts(const ccl_i_contest_t *c, const ccl_schedule_t *schedule,
                              ccl_i_through_t *best, ccl_error_t *err) {
    for (bool better = true; better;) {
        ccl_i_through_way_t at = best->way;
        at.parts *= 2;
        CCL_TRY(try_through(c, schedule, at, best, &better, err));
    }
    return CCL_OK;
}

/* The fastest of those through switches: over the best number of channels, then in pieces, and in
   waves. */
ccl_status_t ccl_i_through_best(const ccl_i_contest_t *c, const ccl_schedule_t *schedule,
                                ccl_i_through_t *best, ccl_error_t *err) {
    uint32_t used = 0;
    *best = (ccl_i_through_t){.time_s = INFINITY};
    CCL_TRY(count_used(c, schedule, &used, err));
    if (used > 0)
        CCL_TRY(try_channels(c, schedule, used, best, err));
    if (!best->schedule)
        return CCL_OK;
    if (schedule->coll->kind == CCL_REDUCE)
        CCL_TRY(try_parts(c, schedule, best, err));
    ccl_i_through_way_t way = best->way;
    if (has_many_ranks(c) && way.channels == 1) /* two take turns: one waits for latency */
        way = (ccl_i_through_way_t){.channels = 2, .parts = (2 + used - 1) / used};
    CCL_TRY(try_pieces(c, schedule, way, best, err));
    return try_waves(c, schedule, way.channels, best, err);
}

/* May the schedule be of use as it is? What does not fit a block per connection may. */
static ccl_status_t has_hope(const ccl_i_contest_t *c, const ccl_schedule_t *schedule, bool *out,
                             ccl_error_t *err) {
    const ccl_way_t simple = ccl_way_choose(NULL, (ccl_way_t){0}, 0);
    *out = c->hope_s == INFINITY;
    for (uint32_t k = 0; k < CCL_PROTOCOLS && !*out; k++) {
        const char *proto = ccl_protocol_name((ccl_protocol_t)k);
        plain_t took;
        if (!can_decide(c, k))
            continue;
        CCL_TRY(time_plain(c, schedule, simple, proto, c->hope_s, &took, err));
        *out = !(took.time_s == INFINITY);
    }
    return CCL_OK;
}

ccl_status_t ccl_i_through_if_faster(const ccl_ctx_t *ctx, const ccl_synth_ops_t *ops,
                                     const ccl_topology_t *topo, ccl_routes_t *routes,
                                     const ccl_synth_options_t *options, ccl_schedule_t **schedule,
                                     ccl_error_t *err) {
    ccl_i_through_t best = {.time_s = INFINITY};
    bool plain = true, hope = true;
    ccl_ctx_t quiet = ctx ? *ctx : (ccl_ctx_t)CCL_CTX_INIT;
    quiet.progress = NULL;
    quiet.log = NULL;
    const ccl_i_contest_t c = {&quiet, topo, routes,
                               options->size_bytes > 0 ? options->size_bytes : CCL_LOWER_SIZE_BYTES,
                               options->hope_s > 0 ? options->hope_s : INFINITY};
    ccl_status_t status = has_hope(&c, *schedule, &hope, err);
    if (status == CCL_OK && hope)
        status = ccl_i_through_best(&c, *schedule, &best, err);
    if (status == CCL_OK && best.schedule)
        status = ccl_i_plain_beats(&c, ops, *schedule, best.time_s, &plain, err);
    if (status == CCL_OK && best.schedule && !plain) {
        ccl_schedule_destroy(*schedule);
        *schedule = best.schedule;
        best.schedule = NULL;
    }
    ccl_schedule_destroy(best.schedule);
    return status;
}

ccl_status_t ccl_i_through_look(const ccl_i_asked_t *asked, const ccl_schedule_t *schedule,
                                double size_bytes, double beat_s, double *time_out,
                                ccl_error_t *err) {
    const ccl_i_contest_t c = {asked->ctx, asked->topo, asked->routes, size_bytes, INFINITY};
    ccl_i_through_t through = {.time_s = INFINITY};
    uint32_t used = 0;
    CCL_TRY(count_used(&c, schedule, &used, err));
    const bool one_root = schedule->coll->kind == CCL_BROADCAST; /* its blocks do it all */
    ccl_i_through_way_t look = {.channels = one_root ? MOST_CHANNELS : LOOK_CHANNELS};
    if (used > 1) /* rails: no stars */
        look = (ccl_i_through_way_t){.channels = 2, .piece_bytes = LOOK_PIECE_BYTES};
    look.parts = used > 0 ? (look.channels + used - 1) / used : 1;
    ccl_status_t status =
        used > 0 ? make_through(&c, schedule, look, beat_s, &through, err) : CCL_OK;
    *time_out = through.time_s;
    ccl_schedule_destroy(through.schedule);
    return status;
}
