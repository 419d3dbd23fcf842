/*
 * Executors limit the steps of a block and the blocks of a GPU on a channel. The transfers of a
 * connection are cut into segments, both ends alike, each on a channel of its own; the result
 * is lowered and measured, and cut finer where a block is still too long. Stages, which executors
 * do not know, become channels as well.
 *
 * Segments of one channel, stage and number share a channel at all GPUs, so that blocks that
 * forward keep doing so; where that takes too many channels, every segment takes the first channel
 * that is free for it.
 */
#include "lower/lower_i.h"

#include <stdlib.h>
#include <string.h>

/** Transfers of one connection and stage: list[first .. first + len), in order. */
typedef struct unit {
    uint32_t src, dst, first, len, group;
    uint16_t channel;
} unit_t;

/** Units of one channel and stage. */
typedef struct group {
    uint32_t cap;     /* most transfers of a segment */
    uint32_t next;    /* the same, next time */
    uint32_t longest; /* of its units */
    uint32_t first;   /* its planes: first .. */
    uint16_t channel;
} group_t;

typedef struct fitter {
    const ccl_schedule_t *schedule;
    const ccl_executor_limits_t *limits;
    ccl_routes_t *routes;
    const uint16_t *stage;
    uint64_t *keys, *keys_tmp;
    uint32_t *list, *list_tmp;
    unit_t *units;   /* by source and destination */
    group_t *groups; /* by channel and stage */
    uint32_t *plane; /* [channels] channel of each plane */
    uint16_t *channel;
    uint32_t *group_of;        /* [ntransfers] */
    uint8_t *sends, *receives; /* [nranks][channels] blocks */
    uint32_t nunits, ngroups;
} fitter_t;

static void sort(fitter_t *f, size_t n) {
    ccl_i_radix_sort(f->keys, f->list, f->keys_tmp, f->list_tmp, n);
}

/* Transfers by channel and stage give the groups; by source and destination, the units. */
static void find_units(fitter_t *f) {
    uint32_t n = f->schedule->ntransfers;
    for (uint32_t i = 0; i < n; i++) {
        f->list[i] = i;
        f->keys[i] =
            (uint64_t)f->schedule->transfers[i].channel << 16 | (f->stage ? f->stage[i] : 0);
    }
    sort(f, n);
    for (uint32_t i = 0; i < n; i++) {
        if (i == 0 || f->keys[i] != f->keys[i - 1])
            f->groups[f->ngroups++] = (group_t){.channel = (uint16_t)(f->keys[i] >> 16)};
        f->group_of[f->list[i]] = f->ngroups - 1;
    }
    for (uint32_t i = 0; i < n; i++) {
        const ccl_transfer_t *t = &f->schedule->transfers[f->list[i]];
        f->keys[i] = (uint64_t)t->src << 32 | t->dst;
    }
    sort(f, n);
    for (uint32_t i = 0; i < n; i++) {
        const ccl_transfer_t *t = &f->schedule->transfers[f->list[i]];
        uint32_t group = f->group_of[f->list[i]];
        unit_t *u = f->nunits ? &f->units[f->nunits - 1] : NULL;
        if (!u || u->src != t->src || u->dst != t->dst || u->group != group) {
            u = &f->units[f->nunits++];
            *u = (unit_t){t->src, t->dst, i, 0, group, t->channel};
        }
        group_t *g = &f->groups[group];
        g->longest = ++u->len > g->longest ? u->len : g->longest;
    }
}

static uint32_t segments(const fitter_t *f, const unit_t *u) {
    uint32_t cap = f->groups[u->group].cap;
    return (u->len + cap - 1) / cap;
}

/* Segments of a unit are as equal as can be. */
static void set_channel(fitter_t *f, const unit_t *u, uint32_t segment, uint32_t channel) {
    uint64_t n = segments(f, u);
    uint32_t from = (uint32_t)(u->len * (uint64_t)segment / n);
    uint32_t to = (uint32_t)(u->len * (segment + (uint64_t)1) / n);
    for (uint32_t i = from; i < to; i++)
        f->channel[f->list[u->first + i]] = (uint16_t)channel;
}

/** Whether (src, dst) has the same route on both channels. */
static ccl_status_t same_route(const fitter_t *f, uint32_t src, uint32_t dst, uint32_t a,
                               uint32_t b, bool *out, ccl_error_t *err) {
    const ccl_route_t *x, *y;
    *out = true;
    if (a == b || !f->routes)
        return CCL_OK;
    CCL_TRY(ccl_routes_get(f->routes, src, dst, a, &x, err));
    CCL_TRY(ccl_routes_get(f->routes, src, dst, b, &y, err));
    *out = x->nlinks == y->nlinks && memcmp(x->links, y->links, x->nlinks * sizeof *x->links) == 0;
    return CCL_OK;
}

/* Most blocks of a rank that send (that receive) on one channel are not exceeded. */
static bool take(fitter_t *f, const unit_t *u, uint32_t channel) {
    uint32_t most = f->limits->tbs_per_channel;
    uint8_t *send = &f->sends[(size_t)u->src * f->limits->channels + channel];
    uint8_t *receive = &f->receives[(size_t)u->dst * f->limits->channels + channel];
    if (*send >= most || *receive >= most)
        return false;
    ++*send;
    ++*receive;
    return true;
}

static void clear(fitter_t *f) {
    size_t n = (size_t)f->schedule->coll->nranks * f->limits->channels;
    memset(f->sends, 0, n);
    memset(f->receives, 0, n);
}

/* How many of a group's connections would get another route on this channel. */
static ccl_status_t count_moved(const fitter_t *f, uint32_t group, uint32_t channel, uint32_t most,
                                uint32_t *out, ccl_error_t *err) {
    *out = 0;
    for (uint32_t i = 0; f->routes && i < f->nunits && *out < most; i++) {
        const unit_t *u = &f->units[i];
        bool same = true;
        if (u->group == group)
            CCL_TRY(same_route(f, u->src, u->dst, u->channel, channel, &same, err));
        *out += !same;
    }
    return CCL_OK;
}

/* A channel for every segment number of every group, at all GPUs alike. *out false: too many. */
static ccl_status_t by_planes(fitter_t *f, bool *out, ccl_error_t *err) {
    uint64_t used = 0; /* at most 64 channels */
    uint32_t n = 0, channels = f->limits->channels;
    *out = false;
    for (uint32_t g = 0; g < f->ngroups; g++) {
        f->groups[g].first = n;
        n += (f->groups[g].longest + f->groups[g].cap - 1) / f->groups[g].cap;
        if (n > channels)
            return CCL_OK;
    }
    memset(f->plane, 0xff, channels * sizeof *f->plane);
    for (uint32_t g = 0; g < f->ngroups; g++) { /* the first of a channel stays on it */
        uint32_t channel = f->groups[g].channel;
        if (channel < channels && !(used >> channel & 1)) {
            used |= (uint64_t)1 << channel;
            f->plane[f->groups[g].first] = channel;
        }
    }
    for (uint32_t g = 0; g < f->ngroups; g++) {
        uint32_t end = g + 1 < f->ngroups ? f->groups[g + 1].first : n;
        for (uint32_t p = f->groups[g].first; p < end; p++) {
            uint32_t best = CCL_NONE, best_moved = UINT32_MAX;
            for (uint32_t c = 0; f->plane[p] == CCL_NONE && c < channels && best_moved; c++) {
                uint32_t moved;
                if (used >> c & 1)
                    continue;
                CCL_TRY(count_moved(f, g, c, best_moved, &moved, err));
                if (moved < best_moved) {
                    best = c;
                    best_moved = moved;
                }
            }
            if (f->plane[p] == CCL_NONE) {
                used |= (uint64_t)1 << best;
                f->plane[p] = best;
            }
        }
    }
    clear(f);
    for (uint32_t i = 0; i < f->nunits; i++) {
        const unit_t *u = &f->units[i];
        for (uint32_t k = 0; k < segments(f, u); k++) {
            uint32_t channel = f->plane[f->groups[u->group].first + k];
            if (!take(f, u, channel))
                return CCL_OK;
            set_channel(f, u, k, channel);
        }
    }
    *out = true;
    return CCL_OK;
}

/* Every segment by itself: the first channel that is free, better one that keeps its route. */
static ccl_status_t by_first_fit(fitter_t *f, ccl_error_t *err) {
    uint32_t channels = f->limits->channels;
    uint64_t used = 0;
    clear(f);
    for (uint32_t i = 0; i < f->nunits; i++) {
        const unit_t *u = &f->units[i];
        if (i == 0 || u->src != f->units[i - 1].src || u->dst != f->units[i - 1].dst)
            used = 0;
        for (uint32_t k = 0; k < segments(f, u); k++) {
            bool done = false, full = true;
            for (uint32_t pass = 0; pass < 2 && !done; pass++) {
                for (uint32_t c = 0; c < channels && !done; c++) {
                    bool same = true;
                    if (used >> c & 1)
                        continue;
                    full = false;
                    if (pass == 0)
                        CCL_TRY(same_route(f, u->src, u->dst, u->channel, c, &same, err));
                    done = same && take(f, u, c);
                    if (done) {
                        used |= (uint64_t)1 << c;
                        set_channel(f, u, k, c);
                    }
                }
            }
            if (!done && full)
                return ccl_fail(err, CCL_UNSUPPORTED,
                                "%s: rank %u has more to send to rank %u than %u channels of %s, "
                                "with blocks of %u steps, can hold",
                                f->schedule->name, u->src, u->dst, channels, f->limits->name,
                                f->limits->steps);
            if (!done)
                return ccl_fail(err, CCL_UNSUPPORTED,
                                "%s: rank %u or rank %u has more connections than %s can hold: %u "
                                "on each of %u channels",
                                f->schedule->name, u->src, u->dst, f->limits->name,
                                f->limits->tbs_per_channel, channels);
        }
    }
    return CCL_OK;
}

/*
 * A block of too many steps serves the connection `key`, whose source and destination begin at
 * keys[at]: cut its group finer. @return false: it has a single transfer
 */
static bool cut_finer(fitter_t *f, uint32_t at, uint64_t key, uint32_t nsteps) {
    uint32_t n = f->schedule->ntransfers, group = CCL_NONE, len = 0;
    for (; at < n && f->keys[at] >> 16 == key >> 16; at++) {
        if (f->keys[at] == key) {
            group = f->group_of[f->list[at]];
            len++;
        }
    }
    if (len <= 1)
        return false;
    uint32_t next = (uint32_t)((uint64_t)len * f->limits->steps / nsteps);
    next = next < len ? next : len - 1;
    next = next ? next : 1;
    if (next < f->groups[group].next)
        f->groups[group].next = next;
    return true;
}

/*
 * Blocks with too many steps: their groups are cut finer. *fits false: at least one was.
 */
static ccl_status_t measure(fitter_t *f, const ccl_program_t *program, bool *fits,
                            ccl_error_t *err) {
    uint32_t n = f->schedule->ntransfers, most = f->limits->steps;
    *fits = true;
    for (uint32_t i = 0; i < n; i++) { /* transfers by connection as it is now */
        const ccl_transfer_t *t = &f->schedule->transfers[f->list[i]];
        f->keys[i] = (uint64_t)t->src << 40 | (uint64_t)t->dst << 16 | f->channel[f->list[i]];
    }
    /* f->list is by source and destination; within them channels come in any order. */
    for (uint32_t b = 0; b < program->ntbs; b++) {
        const ccl_tb_t *tb = &program->tbs[b];
        if (tb->nsteps <= most)
            continue;
        bool finer = false;
        for (int end = 0; end < 2; end++) {
            uint32_t src = end ? tb->recv_peer : tb->rank, dst = end ? tb->rank : tb->send_peer;
            if (src == CCL_NONE || dst == CCL_NONE)
                continue;
            uint64_t pair = (uint64_t)src << 40 | (uint64_t)dst << 16;
            uint32_t lo = 0, hi = n;
            while (lo < hi) {
                uint32_t mid = lo + (hi - lo) / 2;
                if (f->keys[mid] >> 16 < pair >> 16)
                    lo = mid + 1;
                else
                    hi = mid;
            }
            finer |= cut_finer(f, lo, pair | tb->channel, tb->nsteps);
        }
        if (!finer)
            return ccl_fail(err, CCL_UNSUPPORTED,
                            "%s: rank %u block %u has %u steps: %s takes at most %u",
                            f->schedule->name, tb->rank, tb->id, tb->nsteps, f->limits->name, most);
        *fits = false;
    }
    for (uint32_t g = 0; g < f->ngroups; g++)
        f->groups[g].cap = f->groups[g].next;
    return CCL_OK;
}

/* Once around: channels, program, measures. */
static ccl_status_t attempt(fitter_t *f, const ccl_i_maker_t *maker, ccl_program_t **out,
                            bool *fits, ccl_error_t *err) {
    ccl_schedule_t *cut = NULL;
    bool planes;
    CCL_TRY(by_planes(f, &planes, err));
    if (!planes)
        CCL_TRY(by_first_fit(f, err));
    CCL_TRY(ccl_i_schedule_with_channels(f->schedule, f->channel, &cut, err));
    ccl_status_t status = maker->make(maker->user, cut, out, err);
    ccl_schedule_destroy(cut);
    return status == CCL_OK ? measure(f, *out, fits, err) : status;
}

static ccl_status_t check(const ccl_ctx_t *ctx, const ccl_program_t *program,
                          ccl_executor_t executor, ccl_granularity_t granularity,
                          ccl_error_t *err) {
    ccl_verify_options_t options = CCL_VERIFY_OPTIONS_INIT;
    ccl_verdict_t *verdict = calloc(1, sizeof *verdict);
    if (!verdict)
        return ccl_fail_nomem(err);
    options.executor = executor;
    options.granularity = granularity;
    options.limits_only = true; /* lowering made the rest right */
    ccl_status_t status = ccl_program_verify(ctx, program, &options, verdict, err);
    if (status == CCL_OK && !verdict->valid)
        status = strcmp(verdict->fault.kind, "limit") == 0
                     ? ccl_fail(err, CCL_UNSUPPORTED, "%s: %s", program->name, verdict->fault.text)
                     : ccl_fail(err, CCL_ERR_INTERNAL, "lowering for an executor: %s: %s",
                                verdict->fault.kind, verdict->fault.text);
    free(verdict);
    return status;
}

static ccl_status_t fitter_init(fitter_t *f, ccl_error_t *err) {
    size_t n = f->schedule->ntransfers + (size_t)1;
    size_t cells = (size_t)f->schedule->coll->nranks * f->limits->channels + 1;
    f->keys = malloc(n * sizeof *f->keys);
    f->keys_tmp = malloc(n * sizeof *f->keys_tmp);
    f->list = malloc(n * sizeof *f->list);
    f->list_tmp = malloc(n * sizeof *f->list_tmp);
    f->units = malloc(n * sizeof *f->units);
    f->groups = malloc(n * sizeof *f->groups);
    f->group_of = malloc(n * sizeof *f->group_of);
    f->plane = malloc(f->limits->channels * sizeof *f->plane);
    f->channel = malloc(n * sizeof *f->channel);
    f->sends = malloc(cells);
    f->receives = malloc(cells);
    return f->keys && f->keys_tmp && f->list && f->list_tmp && f->units && f->groups &&
                   f->group_of && f->plane && f->channel && f->sends && f->receives
               ? CCL_OK
               : ccl_fail_nomem(err);
}

static void fitter_fini(fitter_t *f) {
    free(f->keys);
    free(f->keys_tmp);
    free(f->list);
    free(f->list_tmp);
    free(f->units);
    free(f->groups);
    free(f->group_of);
    free(f->plane);
    free(f->channel);
    free(f->sends);
    free(f->receives);
}

ccl_status_t ccl_i_executor_fit(const ccl_ctx_t *ctx, const ccl_schedule_t *schedule,
                                const ccl_lower_options_t *options, const uint16_t *stage,
                                const ccl_i_maker_t *maker, ccl_program_t **out, ccl_error_t *err) {
    fitter_t f = {.schedule = schedule,
                  .limits = ccl_executor_limits(options->executor),
                  .routes = options->routes,
                  .stage = stage};
    ccl_program_t *program = NULL;
    ccl_status_t status = fitter_init(&f, err);
    if (status != CCL_OK)
        goto end;
    find_units(&f);
    /* A block that forwards receives one more than it passes on. */
    for (uint32_t g = 0; g < f.ngroups; g++)
        f.groups[g].cap = f.groups[g].next = f.limits->steps - 1;
    for (bool fits = false; !fits;) {
        ccl_program_destroy(program);
        program = NULL;
        CCL_TRY_GOTO(ccl_ctx_poll(ctx, NULL), status, end);
        CCL_TRY_GOTO(attempt(&f, maker, &program, &fits, err), status, end);
    }
    CCL_TRY_GOTO(check(ctx, program, options->executor, options->granularity, err), status, end);
    *out = program;
    program = NULL;
end:
    ccl_program_destroy(program);
    fitter_fini(&f);
    return status;
}
