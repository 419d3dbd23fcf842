/* Whether schedules through switches are faster than others. */
#include "synth/common/race.h"
#include "synth/switch/through.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- is it faster */

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

typedef struct contest {
    const ccl_ctx_t *ctx;
    const ccl_topology_t *topo;
    ccl_routes_t *routes;
    double size_bytes;
    double hope_s; /* ccl_synth_options_t.hope_s, INFINITY where it is 0 */
} contest_t;

static bool has_many_ranks(const contest_t *c) {
    return c->topo->nranks > MOST_RANKS;
}

/* Plain ways of lowering are at most this much faster than a block per connection in step order:
   slower schedules than that are not lowered with care. On few GPUs, where blocks may lack, more.
 */
static double care(const contest_t *c) {
    return has_many_ranks(c) ? 2 : 3;
}

/* Where slower schedules than another's are of no use it is Simple that decides on large ones. */
static bool can_decide(const contest_t *c, uint32_t protocol) {
    bool large = c->hope_s < INFINITY && c->size_bytes > CCL_LINES_BYTES;
    return protocol == 0 ||
           (!large && ccl_model_has_protocol(c->topo, ccl_protocol_name((ccl_protocol_t)protocol)));
}

/** A schedule, lowered one way. */
typedef struct plain {
    double time_s; /* INFINITY: not below what it must beat; NAN: it does not fit */
    double work;   /* of its run, as ccl_i_timing_t has it */
} plain_t;

static ccl_status_t time_plain(const contest_t *c, const ccl_schedule_t *schedule, ccl_way_t way,
                               const char *proto, double beat_s, plain_t *out, ccl_error_t *err) {
    ccl_i_timing_t timing = {.size_bytes = c->size_bytes, .way = way, .give_up_s = beat_s};
    CCL_TRY(ccl_i_time_proto(c->ctx, c->topo, c->routes, schedule, proto, &timing, err));
    out->time_s = timing.unfit ? NAN : timing.time_s < beat_s ? timing.time_s : INFINITY;
    out->work = timing.work;
    return CCL_OK;
}

/* The busiest link's time at its full rate: no run of the schedule takes less. */
static ccl_status_t least_time(const contest_t *c, const ccl_schedule_t *s, double *out,
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
static ccl_status_t plain_beats(const contest_t *c, const ccl_synth_ops_t *ops,
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

/** A schedule through switches, and its time. */
typedef struct through {
    ccl_schedule_t *schedule; /* NULL: there is none */
    double time_s;            /* INFINITY: it does not fit, is wrong or too slow */
} through_t;

static ccl_status_t make_through(const contest_t *c, const ccl_schedule_t *schedule,
                                 ccl_i_through_way_t way, double beat_s, through_t *out,
                                 ccl_error_t *err) {
    ccl_verdict_t *verdict = calloc(1, sizeof *verdict);
    ccl_status_t status = verdict ? CCL_OK : ccl_fail_nomem(err);
    *out = (through_t){NULL, INFINITY};
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
static ccl_status_t try_through(const contest_t *c, const ccl_schedule_t *schedule,
                                ccl_i_through_way_t way, through_t *best, bool *better,
                                ccl_error_t *err) {
    through_t now;
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
static ccl_status_t count_used(const contest_t *c, const ccl_schedule_t *schedule, uint32_t *out,
                               ccl_error_t *err) {
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
static uint32_t wave_pieces(const contest_t *c, double part_bytes) {
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
static ccl_status_t try_waves(const contest_t *c, const ccl_schedule_t *schedule, uint32_t channels,
                              through_t *best, ccl_error_t *err) {
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
static ccl_status_t try_pieces(const contest_t *c, const ccl_schedule_t *schedule,
                               ccl_i_through_way_t way, through_t *best, ccl_error_t *err) {
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

/* The fastest of those through switches: from few channels up, on many GPUs as long as more are
   faster; then in pieces, and in waves. */
static ccl_status_t best_through(const contest_t *c, const ccl_schedule_t *schedule,
                                 through_t *best, ccl_error_t *err) {
    ccl_i_through_way_t way = {0};
    uint32_t used = 0;
    bool better = false;
    *best = (through_t){NULL, INFINITY};
    ccl_status_t status = count_used(c, schedule, &used, err);
    for (uint32_t n = 1; n <= MOST_CHANNELS && used > 0 && status == CCL_OK; n *= 2) {
        ccl_i_through_way_t at = {.channels = n, .parts = (n + used - 1) / used};
        status = try_through(c, schedule, at, best, &better, err);
        if (better)
            way = at;
        else if (best->schedule && has_many_ranks(c))
            break;
    }
    if (has_many_ranks(c) && way.channels == 1) /* two take turns: one waits for latency */
        way = (ccl_i_through_way_t){.channels = 2, .parts = (2 + used - 1) / used};
    if (best->schedule && status == CCL_OK)
        status = try_pieces(c, schedule, way, best, err);
    if (best->schedule && status == CCL_OK)
        status = try_waves(c, schedule, way.channels, best, err);
    return status;
}

/* May the schedule be of use as it is? What does not fit a block per connection may. */
static ccl_status_t has_hope(const contest_t *c, const ccl_schedule_t *schedule, bool *out,
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
    through_t best = {NULL, INFINITY};
    bool plain = true, hope = true;
    ccl_ctx_t quiet = ctx ? *ctx : (ccl_ctx_t)CCL_CTX_INIT;
    quiet.progress = NULL;
    quiet.log = NULL;
    const contest_t c = {&quiet, topo, routes,
                         options->size_bytes > 0 ? options->size_bytes : CCL_LOWER_SIZE_BYTES,
                         options->hope_s > 0 ? options->hope_s : INFINITY};
    ccl_status_t status = has_hope(&c, *schedule, &hope, err);
    if (status == CCL_OK && hope)
        status = best_through(&c, *schedule, &best, err);
    if (status == CCL_OK && best.schedule)
        status = plain_beats(&c, ops, *schedule, best.time_s, &plain, err);
    if (status == CCL_OK && best.schedule && !plain) {
        ccl_schedule_destroy(*schedule);
        *schedule = best.schedule;
        best.schedule = NULL;
    }
    ccl_schedule_destroy(best.schedule);
    return status;
}

/* ---------------------------------------------------------------- nothing else can win */

/* Bytes of the message whose trees are taken: where they are as low as can be. */
#define SMALL_BYTES 16384.0
/* Channels of the first look; over several domains two that take turns with pieces. */
#define LOOK_CHANNELS 4
#define LOOK_PIECE_BYTES 262144.0
/** Ranks of a switch from which a race of plain schedules takes long. */
#define LARGE_DOMAIN 32
/** In one, no AllGather or ReduceScatter without switches is looked for that can only be faster by
    less than this. */
#define LEAST_GAIN 1.06

/* By its links alone; with trees for a small message nothing is won where latency decides. */
static ccl_status_t least_time_of(const ccl_i_asked_t *asked, const ccl_topology_t *topo,
                                  double *out, ccl_error_t *err) {
    ccl_bound_t bound;
    CCL_TRY(ccl_bound(asked->ctx, topo, asked->want, NULL, &bound, err));
    *out = asked->options->size_bytes / bound.bandwidth.Bps;
    ccl_bound_fini(&bound);
    return CCL_OK;
}

/* No schedule takes less on the cluster without what its switches copy and add. */
static ccl_status_t least_plain(const ccl_i_asked_t *asked, double *out, ccl_error_t *err) {
    ccl_topology_t plain = *asked->topo;
    ccl_device_t *devices = malloc((plain.ndevices + (size_t)1) * sizeof *devices);
    if (!devices)
        return ccl_fail_nomem(err);
    memcpy(devices, plain.devices, plain.ndevices * sizeof *devices);
    for (uint32_t d = 0; d < plain.ndevices; d++)
        devices[d].multicast = devices[d].reduce = false;
    plain.devices = devices;
    ccl_status_t status = least_time_of(asked, &plain, out, err);
    free(devices);
    return status;
}

/* Servers, where each is large and a switch joins all its GPUs; else 0. */
static ccl_status_t large_domains(const ccl_i_asked_t *asked, uint32_t *out, ccl_error_t *err) {
    ccl_i_cluster_t c;
    CCL_TRY(ccl_i_cluster_init(&c, asked->topo, asked->routes, err));
    *out = c.min_gpus >= LARGE_DOMAIN ? c.nservers : 0;
    for (uint32_t v = 0; v < c.nservers; v++)
        for (int adds = 0; adds < 2; adds++)
            if (!ccl_topology_in_switch(asked->topo, adds == 1, c.ranks + c.first[v],
                                        ccl_i_cluster_gpus(&c, v)))
                *out = 0;
    ccl_i_cluster_fini(&c);
    return CCL_OK;
}

ccl_status_t ccl_i_through_look(const ccl_i_asked_t *asked, const ccl_schedule_t *schedule,
                                double size_bytes, double beat_s, double *time_out,
                                ccl_error_t *err) {
    const contest_t c = {asked->ctx, asked->topo, asked->routes, size_bytes, INFINITY};
    through_t through = {NULL, INFINITY};
    uint32_t used = 0;
    CCL_TRY(count_used(&c, schedule, &used, err));
    ccl_i_through_way_t look = {.channels = LOOK_CHANNELS};
    if (used > 1) /* rails: no stars */
        look = (ccl_i_through_way_t){.channels = 2, .piece_bytes = LOOK_PIECE_BYTES};
    look.parts = used > 0 ? (look.channels + used - 1) / used : 1;
    ccl_status_t status =
        used > 0 ? make_through(&c, schedule, look, beat_s, &through, err) : CCL_OK;
    *time_out = through.time_s;
    ccl_schedule_destroy(through.schedule);
    return status;
}

/* Trees through switches as they are looked at first; *less_out: they take less. */
static ccl_status_t takes_less(const ccl_i_asked_t *asked, const ccl_schedule_t *trees,
                               double than_s, bool *less_out, ccl_error_t *err) {
    double time_s;
    CCL_TRY(ccl_i_through_look(asked, trees, asked->options->size_bytes, than_s, &time_s, err));
    *less_out = time_s < than_s;
    return CCL_OK;
}

/* Whether stars do, in one domain. */
static ccl_status_t stars_take_less(const ccl_i_asked_t *asked, double than_s, bool *out,
                                    ccl_error_t *err) {
    ccl_schedule_t *stars = NULL;
    CCL_TRY(ccl_synthesize(asked->ctx, "direct", asked->topo, asked->routes, asked->want, NULL,
                           &stars, err));
    ccl_status_t status = takes_less(asked, stars, than_s, out, err);
    ccl_schedule_destroy(stars);
    return status;
}

/* An AllReduce without switches takes at least this; of others, one through switches that takes
   less is good enough. *less_out: one through switches may. */
static ccl_status_t least_other(const ccl_i_asked_t *asked, double *out, bool *less_out,
                                ccl_error_t *err) {
    ccl_bound_t bound;
    double in_switch_s;
    *less_out = true;
    if (asked->want->kind == CCL_ALLREDUCE) {
        CCL_TRY(least_plain(asked, out, err));
        CCL_TRY(least_time_of(asked, asked->topo, &in_switch_s, err));
        *less_out = in_switch_s < *out;
        return CCL_OK;
    }
    CCL_TRY(ccl_bound(asked->ctx, asked->topo, asked->want, NULL, &bound, err));
    *out = LEAST_GAIN * ccl_bound_time_s(&bound, asked->options->size_bytes);
    ccl_bound_fini(&bound);
    return CCL_OK;
}

/* Whether anything through switches can take less than all others: in how many domains, or 0. */
static ccl_status_t may_be_alone(const ccl_i_asked_t *asked, double *least_out, uint32_t *out,
                                 ccl_error_t *err) {
    const ccl_collective_kind_t kind = asked->want->kind;
    const bool all_roots =
        kind == CCL_ALLREDUCE || kind == CCL_ALLGATHER || kind == CCL_REDUCESCATTER;
    bool less;
    *out = 0;
    if (!all_roots || !(asked->options->size_bytes > SMALL_BYTES) || asked->options->chunks)
        return CCL_OK;
    CCL_TRY(large_domains(asked, out, err));
    if (*out > 1 && kind != CCL_ALLREDUCE)
        *out = 0;
    if (*out == 0)
        return CCL_OK;
    CCL_TRY(least_other(asked, least_out, &less, err));
    if (less && *out == 1)
        CCL_TRY(stars_take_less(asked, *least_out, &less, err));
    *out = less ? *out : 0;
    return CCL_OK;
}

/* Over several domains a composition is what `hm` is, a mesh in each and rails, as all are alike.
 */
static ccl_status_t trees_of(const ccl_synth_ops_t *ops, const ccl_i_asked_t *asked, bool several,
                             ccl_schedule_t **out, ccl_error_t *err) {
    if (several && ops->composable)
        return ccl_synthesize(asked->ctx, "hm", asked->topo, asked->routes, asked->want,
                              asked->options, out, err);
    return ops->synthesize(asked->ctx, asked->topo, asked->routes, asked->want, asked->options, out,
                           err);
}

ccl_status_t ccl_i_through_alone(const ccl_synth_ops_t *ops, const ccl_i_asked_t *asked,
                                 ccl_schedule_t **out, ccl_error_t *err) {
    ccl_ctx_t quiet = asked->ctx ? *asked->ctx : (ccl_ctx_t)CCL_CTX_INIT;
    ccl_synth_options_t small = *asked->options;
    ccl_i_asked_t of = *asked;
    const contest_t c = {&quiet, asked->topo, asked->routes, asked->options->size_bytes, INFINITY};
    ccl_schedule_t *trees = NULL;
    through_t best = {NULL, INFINITY};
    double least_s = 0;
    uint32_t ndomains = 0;
    bool less = true;
    *out = NULL;
    quiet.progress = NULL;
    quiet.log = NULL;
    of.ctx = &quiet;
    CCL_TRY(may_be_alone(&of, &least_s, &ndomains, err));
    if (ndomains == 0)
        return CCL_OK;
    small.size_bytes = SMALL_BYTES;
    small.chunks = 1;
    small.in_switch_bytes = ndomains > 1 ? asked->options->size_bytes : 0;
    const ccl_i_asked_t for_trees = {asked->ctx, asked->topo, asked->routes, asked->want, &small};
    CCL_TRY(trees_of(ops, &for_trees, ndomains > 1, &trees, err));
    ccl_status_t status = CCL_OK;
    if (ndomains > 1) /* in one domain stars did */
        status = takes_less(&of, trees, least_s, &less, err);
    if (status == CCL_OK && less)
        status = best_through(&c, trees, &best, err);
    if (status == CCL_OK && best.time_s < least_s) {
        bool plain = false;
        if (asked->want->kind != CCL_ALLREDUCE)
            status = plain_beats(&c, ops, trees, best.time_s, &plain, err);
        ccl_schedule_t **winner = plain ? &trees : &best.schedule;
        *out = status == CCL_OK ? *winner : NULL;
        *winner = status == CCL_OK ? NULL : *winner;
    }
    ccl_schedule_destroy(best.schedule);
    ccl_schedule_destroy(trees);
    return status;
}
