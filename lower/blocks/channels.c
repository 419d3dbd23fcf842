/*
 * Channels by capacity: a fast connection is spread over several channels, so that several thread
 * blocks drive its links (HeteCCL, NSDI 2026, section 5.3: C(u,v) > 1 gets several channels).
 *
 * C(u,v) = floor(tau_ref / tau_uv) lanes, at least 1, with tau = alpha + S_c beta of one lane
 * without reducing, S_c the chunk of a micro-batch, and tau_ref the greatest tau of any kind of
 * connection, each kind at its fastest. Only channels change, so what a schedule computes does not.
 */
#include "lower/lower_i.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/** Transfers of one connection and stage: list[first .. first + len), in order. */
typedef struct unit {
    uint32_t src, dst, first, len;
    uint32_t want; /* channels */
    uint16_t channel;
} unit_t;

typedef struct spreader {
    const ccl_schedule_t *schedule;
    const ccl_i_capacity_t *how;
    uint64_t *keys, *keys_tmp;
    uint32_t *list, *list_tmp; /* transfers by connection and stage, in order */
    unit_t *units;
    uint32_t *index; /* [ntransfers] place of the chunk among those of its channel */
    uint32_t *load;  /* [most channels of a unit] */
    uint16_t *channel;
    uint32_t nunits;
} spreader_t;

ccl_status_t ccl_i_schedule_with_channels(const ccl_schedule_t *schedule, const uint16_t *channel,
                                          ccl_schedule_t **out, ccl_error_t *err) {
    ccl_collective_t *coll;
    CCL_TRY(ccl_collective_clone(schedule->coll, &coll, err));
    ccl_schedule_builder_t *b = ccl_schedule_builder_create(schedule->name, coll);
    if (!b)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < schedule->ntransfers; i++) {
        ccl_transfer_t t = schedule->transfers[i];
        t.channel = channel[i];
        ccl_schedule_builder_add(b, t);
    }
    CCL_TRY(ccl_schedule_builder_finish(b, out, err));
    (*out)->limited = schedule->limited;
    (*out)->piece_bytes = schedule->piece_bytes;
    (*out)->stagger = schedule->stagger;
    (*out)->joined = schedule->joined;
    (*out)->listed = schedule->listed;
    return CCL_OK;
}

static void sort(spreader_t *s) {
    ccl_i_radix_sort(s->keys, s->list, s->keys_tmp, s->list_tmp, s->schedule->ntransfers);
}

/* Units are runs of equal connection and stage. */
static void find_units(spreader_t *s) {
    const ccl_schedule_t *schedule = s->schedule;
    uint32_t n = schedule->ntransfers;
    for (uint32_t i = 0; i < n; i++) {
        s->list[i] = i;
        s->keys[i] = s->how->stage ? s->how->stage[i] : 0;
    }
    sort(s);
    for (uint32_t i = 0; i < n; i++) {
        const ccl_transfer_t *t = &schedule->transfers[s->list[i]];
        s->keys[i] = (uint64_t)t->src << 40 | (uint64_t)t->dst << 16 | t->channel;
    }
    sort(s);
    for (uint32_t i = 0; i < n; i++) {
        const ccl_transfer_t *t = &schedule->transfers[s->list[i]];
        unit_t *u = s->nunits ? &s->units[s->nunits - 1] : NULL;
        bool same = u && s->keys[i] == s->keys[i - 1] &&
                    (!s->how->stage || s->how->stage[s->list[i]] == s->how->stage[s->list[i - 1]]);
        if (!same) {
            u = &s->units[s->nunits++];
            *u = (unit_t){t->src, t->dst, i, 0, 1, t->channel};
        }
        u->len++;
    }
}

/* Places of chunks among those of their channel, ascending. */
static void number_chunks(spreader_t *s) {
    uint32_t n = s->schedule->ntransfers, at = 0;
    for (uint32_t i = 0; i < n; i++) {
        const ccl_transfer_t *t = &s->schedule->transfers[i];
        s->keys[i] = (uint64_t)t->channel << 32 | t->chunk;
        s->list[i] = i;
    }
    sort(s);
    for (uint32_t i = 0; i < n; i++) {
        if (i > 0 && s->keys[i] != s->keys[i - 1])
            at = s->keys[i] >> 32 == s->keys[i - 1] >> 32 ? at + 1 : 0;
        s->index[s->list[i]] = at;
    }
}

/** What a connection is like. */
typedef struct speed {
    double tau_s;
    uint32_t lanes, fill; /* blocks that fill it; UINT32_MAX: no block has a limit */
} speed_t;

double ccl_lower_most_chunk_bytes(const ccl_topology_t *topo, const char *proto) {
    double most = INFINITY, slice = INFINITY;
    uint32_t slots = UINT32_MAX;
    for (uint32_t k = 0; k < topo->nkinds; k++) {
        ccl_transport_t t = ccl_model_transport(topo, topo->kinds[k], proto);
        slots = t.slots < slots ? t.slots : slots;
        slice = fmin(slice, t.slice_bytes);
        most = fmin(most, t.piece_bytes);
    }
    most = fmin(most, 0.5 * slots * slice);
    return most > 0 ? most : INFINITY;
}

double ccl_lower_batches(const ccl_schedule_t *schedule, const ccl_topology_t *topo,
                         const char *proto, double size_bytes, double *chunk_bytes_out) {
    const ccl_collective_t *coll = schedule->coll;
    double share = 0, most = ccl_lower_most_chunk_bytes(topo, proto);
    if (schedule->piece_bytes > 0)
        most = fmin(most, schedule->piece_bytes);
    for (uint32_t k = 0; k < coll->nchunks; k++)
        share = coll->chunks[k].share > share ? coll->chunks[k].share : share;
    double bytes = share * (size_bytes > 0 ? size_bytes : CCL_LOWER_SIZE_BYTES);
    double batches = isfinite(most) ? ccl_model_ceil(bytes / most) : 1;
    *chunk_bytes_out = bytes;
    return fmax(batches, 1);
}

static double chunk_bytes(const spreader_t *s) {
    const ccl_i_capacity_t *how = s->how;
    double bytes = 0;
    double batches = ccl_lower_batches(s->schedule, how->topo, how->proto, how->size_bytes, &bytes);
    return bytes / (how->batches ? how->batches : batches);
}

static ccl_status_t speed_of(const spreader_t *s, const unit_t *u, double bytes, speed_t *out,
                             const char **kind_out, ccl_error_t *err) {
    const ccl_topology_t *topo = s->how->topo;
    const ccl_route_t *route;
    CCL_TRY(ccl_routes_get(s->how->routes, u->src, u->dst, u->channel, &route, err));
    *kind_out = ccl_model_route_kind(topo, route);
    ccl_transport_t t = ccl_model_transport(topo, *kind_out, s->how->proto);
    out->lanes = 1;
    for (uint32_t i = 0; i < route->nlinks; i++) {
        const ccl_link_t *link = &topo->links[route->links[i]];
        if (link->bandwidth_Bps <= route->bottleneck_Bps) {
            out->lanes = link->lanes;
            break;
        }
    }
    out->tau_s =
        t.overhead_s + t.latency_s + route->latency_s + bytes * out->lanes / route->bottleneck_Bps;
    double fill = ccl_model_ceil(route->bottleneck_Bps / t.tb_rate_Bps);
    out->fill = !isfinite(t.tb_rate_Bps) || fill > UINT16_MAX ? UINT32_MAX : (uint32_t)fill;
    return CCL_OK;
}

/* tau of the slowest kind, each kind at its fastest: a single bad link slows no kind down. */
static ccl_status_t find_speeds(const spreader_t *s, speed_t *speeds, double *ref_out,
                                ccl_error_t *err) {
    uint32_t nkinds = s->how->topo->nkinds;
    double bytes = chunk_bytes(s), *best = malloc((nkinds + (size_t)1) * sizeof *best);
    ccl_status_t status = best ? CCL_OK : ccl_fail_nomem(err);
    for (uint32_t k = 0; best && k < nkinds; k++)
        best[k] = INFINITY;
    for (uint32_t i = 0; status == CCL_OK && i < s->nunits; i++) {
        const char *kind;
        status = speed_of(s, &s->units[i], bytes, &speeds[i], &kind, err);
        for (uint32_t k = 0; status == CCL_OK && k < nkinds; k++) {
            if (strcmp(s->how->topo->kinds[k], kind) == 0)
                best[k] = fmin(best[k], speeds[i].tau_s);
        }
    }
    *ref_out = 0;
    for (uint32_t k = 0; best && k < nkinds; k++)
        *ref_out = isfinite(best[k]) ? fmax(*ref_out, best[k]) : *ref_out;
    free(best);
    return status;
}

/*
 * What every GPU has to spare beyond a block per connection end is shared out: where more is wanted
 * than there is, all its connections get the same part of what they want beyond the first channel.
 */
static ccl_status_t fit_blocks(spreader_t *s, ccl_error_t *err) {
    uint32_t nranks = s->schedule->coll->nranks;
    double *part = malloc((nranks + (size_t)1) * sizeof *part);
    uint64_t *ends = calloc(nranks + (size_t)1, sizeof *ends);
    uint64_t *more = calloc(nranks + (size_t)1, sizeof *more);
    ccl_status_t status = part && ends && more ? CCL_OK : ccl_fail_nomem(err);
    for (uint32_t i = 0; status == CCL_OK && i < s->nunits; i++) {
        const unit_t *u = &s->units[i];
        ends[u->src]++;
        ends[u->dst]++;
        more[u->src] += u->want - 1;
        more[u->dst] += u->want - 1;
    }
    for (uint32_t r = 0; status == CCL_OK && r < nranks; r++) {
        ccl_gpu_model_t gpu = ccl_model_gpu(s->how->topo, r);
        uint64_t most = gpu.sms && gpu.sms < s->how->max_blocks ? gpu.sms : s->how->max_blocks;
        uint64_t base = ends[r] + s->how->copies;
        uint64_t room = most > base ? most - base : 0;
        part[r] = more[r] > room ? (double)room / (double)more[r] : 1;
    }
    for (uint32_t i = 0; status == CCL_OK && i < s->nunits; i++) {
        unit_t *u = &s->units[i];
        u->want = 1 + (uint32_t)((u->want - 1) * fmin(part[u->src], part[u->dst]));
    }
    free(part);
    free(ends);
    free(more);
    return status;
}

/*
 * Further channels of channel c are c + stride, c + 2 stride ..., a stride that keeps the choice
 * among equal routes, which goes by channel modulo their number.
 */
static uint32_t find_stride(const spreader_t *s) {
    uint32_t all = 1, nchannels = s->schedule->nchannels;
    for (uint32_t i = 0; i < s->nunits; i++) {
        const unit_t *u = &s->units[i];
        if (u->want < 2 ||
            (i > 0 && s->units[i - 1].src == u->src && s->units[i - 1].dst == u->dst))
            continue;
        uint32_t width = ccl_routes_width(s->how->routes, u->src, u->dst);
        if (width > 1 && all / (uint32_t)ccl_gcd(all, width) * width <= 64)
            all = all / (uint32_t)ccl_gcd(all, width) * width;
    }
    return (nchannels + all - 1) / all * all;
}

/*
 * By chunk, the same everywhere, so that a block that forwards goes on doing so; where that does
 * not spread a connection's transfers evenly, round robin in order.
 */
static void spread_unit(spreader_t *s, const unit_t *u, uint32_t stride) {
    uint32_t most = (u->len + u->want - 1) / u->want;
    bool even = true;
    memset(s->load, 0, u->want * sizeof *s->load);
    for (uint32_t i = 0; i < u->len && even; i++)
        even = ++s->load[s->index[s->list[u->first + i]] % u->want] <= most;
    for (uint32_t i = 0; i < u->len; i++) {
        uint32_t t = s->list[u->first + i];
        uint32_t nth = (even ? s->index[t] : i) % u->want;
        s->channel[t] = (uint16_t)(u->channel + nth * stride);
    }
}

static ccl_status_t spread(spreader_t *s, uint32_t *spread_out, ccl_error_t *err) {
    speed_t *speeds = malloc((s->nunits + (size_t)1) * sizeof *speeds);
    double ref_s = 0;
    uint32_t longest = 1;
    ccl_status_t status = speeds ? find_speeds(s, speeds, &ref_s, err) : ccl_fail_nomem(err);
    for (uint32_t i = 0; status == CCL_OK && i < s->nunits; i++) {
        unit_t *u = &s->units[i];
        /* A zero tau (no latency, no bytes) asks for nothing. */
        double c =
            speeds[i].tau_s > 0 ? floor(ref_s / speeds[i].tau_s * (1 + 1e-9)) * speeds[i].lanes : 1;
        c = fmin(fmin(c, speeds[i].fill), fmin(u->len, s->how->max_channels));
        u->want = c > 1 ? (uint32_t)c : 1;
    }
    free(speeds);
    if (status == CCL_OK)
        status = fit_blocks(s, err);
    uint32_t stride = status == CCL_OK ? find_stride(s) : 1;
    uint32_t channels = s->how->all_channels < UINT16_MAX ? s->how->all_channels : UINT16_MAX;
    *spread_out = 1;
    for (uint32_t i = 0; status == CCL_OK && i < s->nunits; i++) {
        unit_t *u = &s->units[i];
        uint32_t most = channels > u->channel ? (channels - u->channel - 1) / stride + 1 : 1;
        u->want = u->want < most ? u->want : most;
        *spread_out = u->want > *spread_out ? u->want : *spread_out;
        longest = u->want > longest ? u->want : longest;
    }
    s->load = malloc(longest * sizeof *s->load);
    if (status == CCL_OK && !s->load)
        status = ccl_fail_nomem(err);
    for (uint32_t i = 0; status == CCL_OK && i < s->nunits; i++)
        spread_unit(s, &s->units[i], stride);
    return status;
}

ccl_status_t ccl_i_channels_capacity(const ccl_schedule_t *schedule, const ccl_i_capacity_t *how,
                                     uint32_t *spread_out, ccl_schedule_t **out, ccl_error_t *err) {
    spreader_t s = {.schedule = schedule, .how = how};
    size_t n = schedule->ntransfers + (size_t)1;
    ccl_status_t status = CCL_OK;
    s.keys = malloc(n * sizeof *s.keys);
    s.keys_tmp = malloc(n * sizeof *s.keys_tmp);
    s.list = malloc(n * sizeof *s.list);
    s.list_tmp = malloc(n * sizeof *s.list_tmp);
    s.units = malloc(n * sizeof *s.units);
    s.index = malloc(n * sizeof *s.index);
    s.channel = malloc(n * sizeof *s.channel);
    *spread_out = 1;
    if (!s.keys || !s.keys_tmp || !s.list || !s.list_tmp || !s.units || !s.index || !s.channel) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    number_chunks(&s);
    find_units(&s);
    CCL_TRY_GOTO(spread(&s, spread_out, err), status, end);
    status = ccl_i_schedule_with_channels(schedule, s.channel, out, err);
end:
    free(s.keys);
    free(s.keys_tmp);
    free(s.list);
    free(s.list_tmp);
    free(s.units);
    free(s.index);
    free(s.load);
    free(s.channel);
    return status;
}
