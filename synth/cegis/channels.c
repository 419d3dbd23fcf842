/* How many connections each hop of a plan of cegis gets, and their channels. */
#include "synth/cegis/job.h"

#include <math.h>
#include <stdlib.h>

/* A link or group with this share of the busiest one's load is worth connections of its own. */
#define BUSY 0.4
#define MOST_LANES 32u

/** Hops that share a busy link or group with others. */
static ccl_status_t find_contended(ccl_i_cegis_job_t *c, ccl_i_cegis_side_t *side,
                                   ccl_error_t *err) {
    const ccl_i_exchange_t *x = &side->x;
    double *load_s = calloc(x->nresources + (size_t)1, sizeof *load_s), most_s = 0;
    uint32_t *user = calloc(x->nresources + (size_t)1, sizeof *user); /* hop + 1; several: NONE */
    side->contended = ccl_arena_alloc(&c->arena, x->nhops + (size_t)1, 1);
    bool ok = load_s && user && side->contended;
    for (size_t i = 0; ok && i < side->plan.len; i++) {
        uint32_t h = side->plan.sends[i].hop;
        const ccl_i_hop_t *hop = &x->hops[h];
        for (uint32_t u = hop->first_use; u < hop->first_use + hop->nuses; u++) {
            uint32_t r = x->uses[u].resource;
            load_s[r] += x->uses[u].times / x->resources[r].Bps;
            most_s = fmax(most_s, load_s[r]);
            user[r] = user[r] == 0 || user[r] == h + 1 ? h + 1 : CCL_NONE;
        }
    }
    for (uint32_t h = 0; ok && h < x->nhops; h++) {
        const ccl_i_hop_t *hop = &x->hops[h];
        for (uint32_t u = hop->first_use; u < hop->first_use + hop->nuses; u++) {
            uint32_t r = x->uses[u].resource;
            side->contended[h] |= user[r] == CCL_NONE && load_s[r] > BUSY * most_s;
        }
    }
    free(load_s);
    free(user);
    return ok ? CCL_OK : ccl_fail_nomem(err);
}

/** The `lane`-th channel from `from` on whose connection takes the route of hop->channel. */
static ccl_status_t next_channel(ccl_i_cegis_job_t *c, const ccl_i_cegis_side_t *side,
                                 const ccl_i_hop_t *hop, uint32_t from, uint32_t *out,
                                 ccl_error_t *err) {
    uint32_t src = side->up ? hop->dst : hop->src, dst = side->up ? hop->src : hop->dst;
    const ccl_route_t *route, *other;
    CCL_TRY(ccl_routes_get(c->routes, src, dst, hop->channel, &route, err));
    uint32_t index = route->index;
    for (*out = from; *out < from + 2 * CCL_I_EXCHANGE_ROUTES; ++*out) {
        CCL_TRY(ccl_routes_get(c->routes, src, dst, *out, &other, err));
        if (other->index == index)
            return CCL_OK;
    }
    *out = hop->channel;
    return CCL_OK;
}

/** Time in which everything is to be carried. */
static double target_s(const ccl_i_cegis_job_t *c) {
    double time_s = 0;
    for (int i = 0; i < 2; i++) {
        if (c->sides[i].used)
            time_s += ccl_i_cegis_load_s(&c->sides[i].problem, &c->sides[i].plan);
    }
    return time_s;
}

/**
 * Where busy links are shared every chunk has a connection of its own, so that max-min sharing
 * gives all chunks the same; elsewhere a connection takes all of them, or as many do as thread
 * blocks need to keep up. Never more than `most`.
 */
static ccl_status_t assign_channels(ccl_i_cegis_job_t *c, ccl_i_cegis_side_t *side,
                                    ccl_i_cegis_lanes_t kind, uint32_t most, ccl_error_t *err) {
    const ccl_i_exchange_t *x = &side->x;
    double time_s = target_s(c), bytes = side->capacity.chunk_bytes;
    uint32_t total = 0;
    side->lanes = ccl_arena_alloc(&c->arena, x->nhops + (size_t)1, sizeof(uint32_t));
    side->lane_first = ccl_arena_alloc(&c->arena, x->nhops + (size_t)1, sizeof(uint32_t));
    if (!side->lanes || !side->lane_first)
        return ccl_fail_nomem(err);
    for (uint32_t h = 0; h < x->nhops; h++) {
        const ccl_i_hop_t *hop = &x->hops[h];
        uint32_t sends = side->sends_of[h];
        double lanes = side->contended[h] ? sends : 1, Bps = 0;
        if (kind == CCL_I_LANES_RATE && time_s > 0)
            Bps = 1.05 * sends * bytes / time_s;
        if (kind == CCL_I_LANES_LINK)
            Bps = hop->link_Bps;
        lanes = fmax(lanes, ccl_model_ceil(Bps / hop->tb_Bps));
        lanes = fmin(lanes, (double)sends * c->slices);
        side->lanes[h] = (uint32_t)fmin(lanes, most);
        side->lane_first[h] = total;
        total += side->lanes[h];
    }
    side->lane_channel = ccl_arena_alloc(&c->arena, total + (size_t)1, sizeof(uint16_t));
    if (!side->lane_channel)
        return ccl_fail_nomem(err);
    for (uint32_t h = 0; h < x->nhops; h++) {
        uint16_t *channels = side->lane_channel + side->lane_first[h];
        for (uint32_t lane = 0, channel = x->hops[h].channel; lane < side->lanes[h]; lane++) {
            if (lane > 0)
                CCL_TRY(next_channel(c, side, &x->hops[h], channel + 1, &channel, err));
            channels[lane] = (uint16_t)channel;
        }
    }
    return CCL_OK;
}

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/** Whether connections, a thread block for each end, fit every GPU. `apart`: sides share none. */
static ccl_status_t blocks_fit(const ccl_i_cegis_job_t *c, bool apart, bool *fit_out,
                               ccl_error_t *err) {
    size_t n = 0, most = 0;
    for (int i = 0; i < 2; i++) {
        const ccl_i_cegis_side_t *side = &c->sides[i];
        for (uint32_t h = 0; side->used && h < side->x.nhops; h++)
            most += side->lanes[h];
    }
    uint64_t *ends = malloc((most + 1) * sizeof *ends);
    uint32_t *blocks = calloc(c->nranks, sizeof *blocks);
    *fit_out = true;
    if (!ends || !blocks) {
        free(ends);
        free(blocks);
        return ccl_fail_nomem(err);
    }
    for (uint64_t i = 0; i < 2; i++) {
        const ccl_i_cegis_side_t *side = &c->sides[i];
        for (uint32_t h = 0; side->used && h < side->x.nhops; h++) {
            const ccl_i_hop_t *hop = &side->x.hops[h];
            uint64_t src = side->up ? hop->dst : hop->src, dst = side->up ? hop->src : hop->dst;
            for (uint32_t k = 0; k < side->lanes[h]; k++)
                ends[n++] = (apart ? i : 0) << 63 | src << 40 | dst << 20 |
                            side->lane_channel[side->lane_first[h] + k];
        }
    }
    qsort(ends, n, sizeof *ends, by_value);
    for (size_t k = 0; k < n; k++) {
        if (k == 0 || ends[k] != ends[k - 1]) {
            blocks[ends[k] >> 40 & 0x7fffff]++;
            blocks[ends[k] >> 20 & 0xfffff]++;
        }
    }
    for (uint32_t r = 0; r < c->nranks; r++) {
        uint32_t sms = ccl_model_gpu(c->topo, r).sms;
        *fit_out &= !sms || blocks[r] <= sms;
    }
    free(ends);
    free(blocks);
    return CCL_OK;
}

/** How far channels of results must be moved up so that they share no connection with inputs. */
static ccl_status_t find_down_channels(ccl_i_cegis_job_t *c, ccl_error_t *err) {
    const ccl_i_cegis_side_t *down = &c->sides[0];
    uint32_t least = 1;
    c->down_channels = 0;
    for (int i = 0; i < 2; i++) {
        const ccl_i_cegis_side_t *side = &c->sides[i];
        for (uint32_t h = 0; h < side->x.nhops; h++) {
            for (uint32_t k = side->lane_first[h]; k < side->lane_first[h] + side->lanes[h]; k++)
                least = side->lane_channel[k] >= least ? side->lane_channel[k] + 1u : least;
        }
    }
    for (uint32_t d = least; d < least + CCL_I_EXCHANGE_ROUTES; d++) {
        bool all = true;
        for (uint32_t h = 0; all && h < down->x.nhops; h++) {
            for (uint32_t k = 0; all && k < down->lanes[h]; k++) {
                uint32_t channel, given = down->lane_channel[down->lane_first[h] + k];
                CCL_TRY(next_channel(c, down, &down->x.hops[h], given + d, &channel, err));
                all = channel == given + d;
            }
        }
        if (all) {
            c->down_channels = d;
            break;
        }
    }
    return CCL_OK;
}

ccl_status_t ccl_i_cegis_channels(ccl_i_cegis_job_t *c, ccl_i_cegis_lanes_t kind,
                                  ccl_error_t *err) {
    bool both = c->sides[0].used && c->sides[1].used, fit = false;
    for (int i = 0; i < 2; i++) {
        if (c->sides[i].used && !c->sides[i].contended)
            CCL_TRY(find_contended(c, &c->sides[i], err));
    }
    uint32_t lanes = c->options->channels ? c->options->channels : MOST_LANES;
    c->down_channels = 0;
    for (bool apart = both;; apart = false) {
        for (uint32_t most = lanes; most; most /= 2) {
            for (int i = 0; i < 2; i++) {
                if (c->sides[i].used)
                    CCL_TRY(assign_channels(c, &c->sides[i], kind, most, err));
            }
            CCL_TRY(blocks_fit(c, apart, &fit, err));
            if (fit)
                break;
        }
        if (fit && apart)
            CCL_TRY(find_down_channels(c, err));
        if (fit || !apart)
            return CCL_OK;
    }
}
