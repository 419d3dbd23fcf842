/*
 * A schedule for traffic that changed, from that of the traffic before. Blocks move independently
 * of each other, so each may keep its former ways, scaled to its bytes, or take those of a plan
 * made from the start. All keep theirs at first; then blocks leave the busiest link for the ways of
 * the other plan, those first that relieve it most, until no link is busy for longer than with
 * that.
 */
#include "synth/alltoallv/warm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A block that grew by more has too few parts for its bytes. */
static const double MOST_GROWTH = 2;
/* Steps of two schedules whose numbers differ by less are set side by side as they are. */
static const double LIKE_STEPS = 0.1;

/* ---------------------------------------------------------------- blocks */

typedef struct block_end {
    const ccl_chunk_t *chunk;
    uint32_t side, index; /* side 0: of `a`, 1: of `b` */
} block_end_t;

static int by_ranks(const uint32_t *a, const uint32_t *b, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        if (a[i] != b[i])
            return a[i] < b[i] ? -1 : 1;
    return 0;
}

static int by_ends(const void *a, const void *b) {
    const ccl_chunk_t *x = ((const block_end_t *)a)->chunk, *y = ((const block_end_t *)b)->chunk;
    if (x->reduced != y->reduced)
        return x->reduced ? 1 : -1;
    if (x->nsources != y->nsources)
        return x->nsources < y->nsources ? -1 : 1;
    if (x->ndests != y->ndests)
        return x->ndests < y->ndests ? -1 : 1;
    int order = by_ranks(x->sources, y->sources, x->nsources);
    return order ? order : by_ranks(x->dests, y->dests, x->ndests);
}

static int by_place(const void *a, const void *b) {
    const block_end_t *x = a, *y = b;
    int order = by_ends(a, b);
    if (order)
        return order;
    return x->side != y->side ? (x->side < y->side ? -1 : 1) : x->index < y->index ? -1 : 1;
}

ccl_status_t ccl_i_av_number_blocks(const ccl_collective_t *a, const ccl_collective_t *b,
                                    uint32_t **out, uint32_t *n_out, ccl_error_t *err) {
    size_t n = (size_t)a->nchunks + b->nchunks;
    block_end_t *all = calloc(n + 1, sizeof *all);
    uint32_t *of = calloc(n + 1, sizeof *of), last = 0;
    if (!all || !of) {
        free(all);
        free(of);
        return ccl_fail_nomem(err);
    }
    for (uint32_t k = 0; k < n; k++)
        all[k] = k < a->nchunks ? (block_end_t){&a->chunks[k], 0, k}
                                : (block_end_t){&b->chunks[k - a->nchunks], 1, k - a->nchunks};
    qsort(all, n, sizeof *all, by_place);
    for (size_t i = 0; i < n; i++) {
        last += i > 0 && by_ends(&all[i - 1], &all[i]) != 0;
        of[all[i].side * a->nchunks + all[i].index] = last;
    }
    free(all);
    *out = of;
    *n_out = n ? last + 1 : 0;
    return CCL_OK;
}

/* Entry i belongs to of(i); CCL_NONE: to nothing. */
static ccl_status_t make_lists(ccl_i_av_lists_t *lists, uint32_t nowners, uint32_t n,
                               uint32_t (*of)(const void *user, uint32_t i), const void *user,
                               ccl_error_t *err) {
    lists->first = calloc(nowners + (size_t)2, sizeof *lists->first);
    lists->list = calloc(n + (size_t)1, sizeof *lists->list);
    if (!lists->first || !lists->list)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < n; i++)
        if (of(user, i) != CCL_NONE)
            lists->first[of(user, i) + 2]++;
    for (uint32_t k = 0; k < nowners; k++)
        lists->first[k + 2] += lists->first[k + 1];
    for (uint32_t i = 0; i < n; i++)
        if (of(user, i) != CCL_NONE)
            lists->list[lists->first[of(user, i) + 1]++] = i;
    return CCL_OK;
}

static uint32_t chunk_of(const void *user, uint32_t i) {
    return ((const ccl_schedule_t *)user)->transfers[i].chunk;
}

static uint32_t number_of(const void *user, uint32_t i) {
    return ((const uint32_t *)user)[i];
}

static void lists_fini(ccl_i_av_lists_t *lists) {
    free(lists->first);
    free(lists->list);
    *lists = (ccl_i_av_lists_t){NULL, NULL};
}

/* ---------------------------------------------------------------- the former schedule */

static bool sums(const ccl_collective_t *coll) {
    for (uint32_t k = 0; k < coll->nchunks; k++)
        if (coll->chunks[k].nsources > 1)
            return true;
    return false;
}

ccl_status_t ccl_alltoallv_warm_check(const ccl_topology_t *topo, ccl_routes_t *routes,
                                      const ccl_schedule_t *former, const ccl_collective_t *want,
                                      ccl_error_t *err) {
    static const char *const what[] = {"copies", "sums"};
    const ccl_collective_t *had = former->coll;
    ccl_verdict_t verdict;
    if (want->kind != CCL_CUSTOM)
        return ccl_fail(err, CCL_ERR_INPUT,
                        "a warm start is for demands: the traffic of an %s does not change",
                        want->name);
    if (had->kind != CCL_CUSTOM)
        return ccl_fail(err, CCL_ERR_INPUT,
                        "the former schedule is an %s: that of a demand is wanted", had->name);
    if (had->nranks != topo->nranks)
        return ccl_fail(err, CCL_ERR_INPUT,
                        "the former schedule is for another cluster: it has %u GPUs, %.80s has %u",
                        had->nranks, topo->name, topo->nranks);
    if (sums(had) != sums(want))
        return ccl_fail(err, CCL_ERR_INPUT, "the former schedule %s, the demand %s",
                        what[sums(had)], what[sums(want)]);
    CCL_TRY(ccl_schedule_refuse_groups(former, "a warm start", err));
    for (uint32_t i = 0; i < former->ntransfers; i++) {
        const ccl_transfer_t *t = &former->transfers[i];
        const ccl_route_t *route;
        ccl_status_t status = ccl_routes_get(routes, t->src, t->dst, t->channel, &route, err);
        if (status == CCL_ERR_NOMEM)
            return status;
        if (status != CCL_OK) {
            ccl_error_clear(err);
            return ccl_fail(err, CCL_ERR_INPUT,
                            "the former schedule is for another cluster: it sends from GPU %u to "
                            "%u, between which %.80s has no route",
                            t->src, t->dst, topo->name);
        }
    }
    CCL_TRY(ccl_schedule_verify(NULL, former, &verdict, err));
    return verdict.valid ? CCL_OK
                         : ccl_fail(err, CCL_ERR_INPUT, "the former schedule is wrong: %.400s",
                                    verdict.fault.text);
}

/* Of several blocks with the same ends the first has what was. */
static ccl_status_t match(ccl_i_av_warm_t *w, ccl_error_t *err) {
    const ccl_collective_t *want = w->want, *had = w->former->coll;
    uint32_t *number = NULL, *block, n = 0;
    CCL_TRY(ccl_i_av_number_blocks(want, had, &number, &n, err));
    block = calloc(n + (size_t)1, sizeof *block); /* the number's block of `want` */
    if (!block) {
        free(number);
        return ccl_fail_nomem(err);
    }
    memset(block, 0xff, n * sizeof *block);
    for (uint32_t k = want->nchunks; k-- > 0;)
        block[number[k]] = k;
    uint32_t *of = number + want->nchunks;
    for (uint32_t c = 0; c < had->nchunks; c++) {
        of[c] = had->chunks[c].share > 0 ? block[of[c]] : CCL_NONE;
        if (of[c] != CCL_NONE)
            w->had_bytes[of[c]] += had->chunks[c].share * w->former_bytes;
    }
    ccl_status_t status = make_lists(&w->parts, want->nchunks, had->nchunks, number_of, of, err);
    free(block);
    free(number);
    return status;
}

ccl_status_t ccl_i_av_warm_init(ccl_i_av_warm_t *w, const ccl_i_av_net_t *net,
                                const ccl_schedule_t *former, const ccl_collective_t *want,
                                double size_bytes, ccl_error_t *err) {
    CCL_TRY(ccl_alltoallv_warm_check(net->topo, net->routes, former, want, err));
    *w = (ccl_i_av_warm_t){.net = net, .former = former, .want = want, .size_bytes = size_bytes};
    w->former_bytes = former->coll->natural_bytes > 0 ? former->coll->natural_bytes : size_bytes;
    w->had_bytes = calloc(want->nchunks + (size_t)1, sizeof *w->had_bytes);
    if (!w->had_bytes)
        return ccl_fail_nomem(err);
    for (uint32_t k = 0; k < want->nchunks; k++)
        w->blocks += ccl_i_av_moves(&want->chunks[k]);
    CCL_TRY(match(w, err));
    return make_lists(&w->moves, former->coll->nchunks, former->ntransfers, chunk_of, former, err);
}

void ccl_i_av_warm_fini(ccl_i_av_warm_t *w) {
    lists_fini(&w->parts);
    lists_fini(&w->moves);
    free(w->had_bytes);
    *w = (ccl_i_av_warm_t){0};
}

void ccl_i_av_cold_fini(ccl_i_av_cold_t *cold) {
    ccl_schedule_destroy(cold->schedule);
    free(cold->first);
    lists_fini(&cold->moves);
    *cold = (ccl_i_av_cold_t){0};
}

/* ---------------------------------------------------------------- loads */

/* Seconds that a transfer's bytes take on a resource; CCL_NONE: on all, added to load_s. */
static ccl_status_t load_transfer(const ccl_i_av_net_t *net, const ccl_transfer_t *t, double bytes,
                                  uint32_t only, double *load_s, ccl_error_t *err) {
    const ccl_route_t *route;
    CCL_TRY(ccl_routes_get(net->routes, t->src, t->dst, t->channel, &route, err));
    for (uint32_t i = 0; i < route->nlinks; i++) {
        uint32_t l = route->links[i], end = net->group_first[l + 1];
        for (uint32_t k = net->group_first[l]; k <= end; k++) {
            uint32_t r = k == end ? l : net->topo->nlinks + net->group_of[k];
            if (only == CCL_NONE)
                load_s[r] += bytes * net->slow[r];
            else if (only == r)
                *load_s += bytes * net->slow[r];
        }
    }
    return CCL_OK;
}

ccl_status_t ccl_i_av_load_schedule(const ccl_i_av_net_t *net, const ccl_schedule_t *s, double size,
                                    double *load_s, ccl_error_t *err) {
    memset(load_s, 0, net->nresources * sizeof *load_s);
    for (uint32_t i = 0; i < s->ntransfers; i++) {
        const ccl_transfer_t *t = &s->transfers[i];
        CCL_TRY(
            load_transfer(net, t, s->coll->chunks[t->chunk].share * size, CCL_NONE, load_s, err));
    }
    return CCL_OK;
}

static uint32_t busiest(const ccl_i_av_net_t *net, const double *load_s) {
    uint32_t most = 0;
    for (uint32_t r = 1; r < net->nresources; r++)
        most = load_s[r] > load_s[most] ? r : most;
    return most;
}

/* ---------------------------------------------------------------- the mix */

typedef struct mix {
    ccl_i_av_warm_t *w;
    const ccl_i_av_cold_t *cold;
    bool *again;    /* [blocks] on the ways of the cold plan */
    double *load_s; /* [nresources] */
    double *gain_s; /* [blocks] that the busiest link gets rid of; what is sorted */
    uint32_t *order;
} mix_t;

static double share_of(const ccl_i_av_warm_t *w, uint32_t block, uint32_t part) {
    const double had = w->had_bytes[block];
    return w->want->chunks[block].share *
           (w->former->coll->chunks[part].share * w->former_bytes / had);
}

/* What a block puts on a resource (CCL_NONE: on all), by its former ways or by the cold plan's. */
static ccl_status_t load_block(const mix_t *m, uint32_t block, bool again, double sign,
                               uint32_t only, double *load_s, ccl_error_t *err) {
    const ccl_i_av_warm_t *w = m->w;
    const ccl_i_av_lists_t *moves = again ? &m->cold->moves : &w->moves;
    const ccl_schedule_t *s = again ? m->cold->schedule : w->former;
    uint32_t begin = again ? m->cold->first[block] : w->parts.first[block];
    uint32_t end = again ? m->cold->first[block + 1] : w->parts.first[block + 1];
    for (uint32_t p = begin; p < end; p++) {
        uint32_t chunk = again ? p : w->parts.list[p];
        double share = again ? s->coll->chunks[chunk].share : share_of(w, block, chunk);
        for (uint32_t i = moves->first[chunk]; i < moves->first[chunk + 1]; i++)
            CCL_TRY(load_transfer(w->net, &s->transfers[moves->list[i]],
                                  sign * share * w->size_bytes, only, load_s, err));
    }
    return CCL_OK;
}

static void sift_order(uint32_t *order, uint32_t n, uint32_t i, const double *gain_s) {
    for (uint32_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && gain_s[order[child + 1]] > gain_s[order[child]])
            child++;
        if (!(gain_s[order[child]] > gain_s[order[i]]))
            return;
        uint32_t x = order[i];
        order[i] = order[child];
        order[child] = x;
    }
}

/* Blocks leave resource r, those first that relieve it most. */
static ccl_status_t relieve(mix_t *m, uint32_t r, double aim_s, ccl_error_t *err) {
    uint32_t n = 0;
    for (uint32_t b = 0; b < m->w->want->nchunks; b++) {
        double before_s = 0, after_s = 0;
        if (m->again[b])
            continue;
        CCL_TRY(load_block(m, b, false, 1, r, &before_s, err));
        if (before_s > 0)
            CCL_TRY(load_block(m, b, true, 1, r, &after_s, err));
        m->gain_s[b] = before_s - after_s;
        if (m->gain_s[b] > 0)
            m->order[n++] = b;
    }
    for (uint32_t i = n; i-- > 0;)
        sift_order(m->order, n, i, m->gain_s);
    while (n > 0 && m->load_s[r] > aim_s) {
        uint32_t b = m->order[0];
        m->order[0] = m->order[--n];
        sift_order(m->order, n, 0, m->gain_s);
        CCL_TRY(load_block(m, b, false, -1, CCL_NONE, m->load_s, err));
        CCL_TRY(load_block(m, b, true, 1, CCL_NONE, m->load_s, err));
        m->again[b] = true;
    }
    return CCL_OK;
}

/* The block takes the same hops on the same channels, part by part. */
static bool is_alike(const mix_t *m, uint32_t block) {
    const ccl_i_av_warm_t *w = m->w;
    uint32_t begin = m->cold->first[block], n = m->cold->first[block + 1] - begin;
    if (w->parts.first[block + 1] - w->parts.first[block] != n)
        return false;
    for (uint32_t p = 0; p < n; p++) {
        uint32_t f = w->parts.list[w->parts.first[block] + p], c = begin + p;
        uint32_t i = w->moves.first[f], k = m->cold->moves.first[c];
        if (w->moves.first[f + 1] - i != m->cold->moves.first[c + 1] - k)
            return false;
        for (; i < w->moves.first[f + 1]; i++, k++) {
            const ccl_transfer_t *x = &w->former->transfers[w->moves.list[i]];
            const ccl_transfer_t *y = &m->cold->schedule->transfers[m->cold->moves.list[k]];
            if (x->src != y->src || x->dst != y->dst || x->channel != y->channel)
                return false;
        }
    }
    return true;
}

static bool has_ways(const mix_t *m, const ccl_i_av_mix_t *how, uint32_t block) {
    double bytes = m->w->want->chunks[block].share * m->w->size_bytes;
    double had = m->w->had_bytes[block];
    return bytes > 0 && had > 0 && bytes <= MOST_GROWTH * had &&
           (!how->alike || is_alike(m, block));
}

static ccl_status_t settle(mix_t *m, const ccl_i_av_mix_t *how, ccl_error_t *err) {
    const ccl_i_av_warm_t *w = m->w;
    CCL_TRY(ccl_i_av_load_schedule(w->net, m->cold->schedule, w->size_bytes, m->load_s, err));
    const double aim_s = (1 + how->within) * (1 + 1e-9) * m->load_s[busiest(w->net, m->load_s)];
    memset(m->load_s, 0, w->net->nresources * sizeof *m->load_s);
    for (uint32_t b = 0; b < w->want->nchunks; b++) {
        m->again[b] = !has_ways(m, how, b);
        CCL_TRY(load_block(m, b, m->again[b], 1, CCL_NONE, m->load_s, err));
    }
    /* A round takes at least one block away; with none left the load is the cold plan's. */
    for (uint32_t round = 0; round <= w->want->nchunks; round++) {
        uint32_t r = busiest(w->net, m->load_s);
        if (m->load_s[r] <= aim_s)
            break;
        CCL_TRY(relieve(m, r, aim_s, err));
    }
    return CCL_OK;
}

/* Places of the cold plan's steps among the former's: times (*up), then by the ratio. */
static double match_steps(const mix_t *m, uint32_t *up) {
    double was = m->w->former->nsteps, now = m->cold->schedule->nsteps;
    *up = 1;
    if (was < 1 || fabs(now - was) <= LIKE_STEPS * was)
        return 1;
    *up = (uint32_t)fmax(1, ceil(now / was));
    return *up * was / now;
}

static ccl_status_t mixed_collective(const mix_t *m, uint32_t *first, ccl_collective_t **out,
                                     ccl_error_t *err) {
    const ccl_i_av_warm_t *w = m->w;
    uint32_t n = w->want->nchunks, at = 0;
    for (uint32_t b = 0; b < n; b++) {
        first[b] = at;
        at += m->again[b] ? m->cold->first[b + 1] - m->cold->first[b]
                          : w->parts.first[b + 1] - w->parts.first[b];
    }
    first[n] = at;
    double *shares = calloc(at + (size_t)1, sizeof *shares);
    if (!shares)
        return ccl_fail_nomem(err);
    for (uint32_t b = 0; b < n; b++)
        for (uint32_t i = 0; i < first[b + 1] - first[b]; i++)
            shares[first[b] + i] =
                m->again[b] ? m->cold->schedule->coll->chunks[m->cold->first[b] + i].share
                            : share_of(w, b, w->parts.list[w->parts.first[b] + i]);
    ccl_status_t status = ccl_collective_cut(w->want, first, shares, out, err);
    free(shares);
    return status;
}

/* Those of a schedule whose chunks have a place in the mix, in its order. */
static void add_transfers(const mix_t *m, const uint32_t *first, bool again, uint32_t *place,
                          ccl_schedule_builder_t *builder) {
    const ccl_i_av_warm_t *w = m->w;
    const ccl_schedule_t *s = again ? m->cold->schedule : w->former;
    uint32_t up;
    double ratio = match_steps(m, &up);
    memset(place, 0xff, s->coll->nchunks * sizeof *place);
    for (uint32_t b = 0; b < w->want->nchunks; b++)
        for (uint32_t i = 0; m->again[b] == again && i < first[b + 1] - first[b]; i++)
            place[again ? m->cold->first[b] + i : w->parts.list[w->parts.first[b] + i]] =
                first[b] + i;
    for (uint32_t i = 0; i < s->ntransfers; i++) {
        ccl_transfer_t t = s->transfers[i];
        if (place[t.chunk] == CCL_NONE)
            continue;
        t.chunk = place[t.chunk];
        t.step = again ? (uint32_t)(t.step * ratio + 1e-6) : t.step * up;
        ccl_schedule_builder_add(builder, t);
    }
}

static ccl_status_t assemble(const mix_t *m, ccl_schedule_t **out, ccl_error_t *err) {
    const ccl_i_av_warm_t *w = m->w;
    ccl_collective_t *coll = NULL;
    size_t most = (size_t)w->former->coll->nchunks + m->cold->schedule->coll->nchunks;
    uint32_t again = 0, *first = calloc(w->want->nchunks + (size_t)1, sizeof *first);
    uint32_t *place = calloc(most + 1, sizeof *place);
    ccl_status_t status =
        first && place ? mixed_collective(m, first, &coll, err) : ccl_fail_nomem(err);
    if (status == CCL_OK) {
        ccl_schedule_builder_t *builder = ccl_schedule_builder_create("alltoallv", coll);
        status = builder ? CCL_OK : ccl_fail_nomem(err);
        if (builder) {
            add_transfers(m, first, false, place, builder);
            add_transfers(m, first, true, place, builder);
            status = ccl_schedule_builder_finish(builder, out, err);
        }
    }
    free(first);
    free(place);
    for (uint32_t b = 0; b < w->want->nchunks; b++)
        again += m->again[b] && ccl_i_av_moves(&w->want->chunks[b]);
    if (status == CCL_OK)
        ccl_origin_set((*out)->origin, "alltoallv: %u of %u blocks on ways of the former schedule",
                       w->blocks - again, w->blocks);
    return status;
}

ccl_status_t ccl_i_av_warm_mix(ccl_i_av_warm_t *w, ccl_i_av_cold_t *cold, const ccl_i_av_mix_t *how,
                               ccl_schedule_t **out, ccl_error_t *err) {
    size_t n = w->want->nchunks + (size_t)1;
    mix_t m = {.w = w, .cold = cold};
    m.again = calloc(n, sizeof *m.again);
    m.gain_s = calloc(n, sizeof *m.gain_s);
    m.order = calloc(n, sizeof *m.order);
    m.load_s = calloc(w->net->nresources + (size_t)1, sizeof *m.load_s);
    ccl_status_t status = m.again && m.gain_s && m.order && m.load_s ? CCL_OK : ccl_fail_nomem(err);
    if (status == CCL_OK && !cold->moves.first)
        status = make_lists(&cold->moves, cold->schedule->coll->nchunks, cold->schedule->ntransfers,
                            chunk_of, cold->schedule, err);
    if (status == CCL_OK)
        status = settle(&m, how, err);
    if (status == CCL_OK)
        status = assemble(&m, out, err);
    free(m.again);
    free(m.gain_s);
    free(m.order);
    free(m.load_s);
    return status;
}
