/*
 * A problem for cegis: zones (ranks that fast hops join, level by level), how many chunks can enter
 * and leave them in a step, and from that a number of steps below which no plan goes.
 */
#include "synth/cegis/cegis.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Part of a hop's latency that another slice costs: slices overlap. */
#define SLICE_COST 0.125

void ccl_i_cegis_problem_fini(ccl_i_cegis_problem_t *p) {
    ccl_arena_fini(&p->arena);
}

void ccl_i_cegis_plan_fini(ccl_i_cegis_plan_t *plan) {
    free(plan->sends);
    memset(plan, 0, sizeof *plan);
}

bool ccl_i_cegis_plan_copy(ccl_i_cegis_plan_t *to, const ccl_i_cegis_plan_t *from) {
    if (!ccl_grow(&to->sends, &to->cap, from->len + 1, sizeof *to->sends))
        return false;
    if (from->len)
        memcpy(to->sends, from->sends, from->len * sizeof *to->sends);
    to->len = from->len;
    to->nsteps = from->nsteps;
    return true;
}

bool ccl_i_cegis_plan_sort(ccl_i_cegis_plan_t *plan) {
    uint32_t last = 0;
    for (size_t i = 0; i < plan->len; i++)
        last = plan->sends[i].step > last ? plan->sends[i].step : last;
    size_t *first = calloc(last + (size_t)3, sizeof *first);
    ccl_i_cegis_send_t *sorted = calloc(plan->len + 1, sizeof *sorted);
    if (!first || !sorted) {
        free(first);
        free(sorted);
        return false;
    }
    for (size_t i = 0; i < plan->len; i++)
        first[plan->sends[i].step + 1]++;
    for (uint32_t t = 0; t <= last; t++)
        first[t + 1] += first[t];
    for (size_t i = 0; i < plan->len; i++)
        sorted[first[plan->sends[i].step]++] = plan->sends[i];
    free(first);
    free(plan->sends);
    plan->sends = sorted;
    plan->cap = plan->len + 1;
    plan->nsteps = plan->len ? last + 1 : 0;
    return true;
}

/* ---------------------------------------------------------------- zones */

static uint32_t find(uint32_t *parent, uint32_t v) {
    while (parent[v] != v)
        v = parent[v] = parent[parent[v]];
    return v;
}

static int fastest_first(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/** Number zones of `parent` by their lowest rank. */
static ccl_status_t add_level(ccl_i_cegis_problem_t *p, uint32_t *parent, ccl_error_t *err) {
    uint32_t n = p->x->nranks;
    ccl_i_cegis_level_t *level = &p->levels[p->nlevels];
    level->zone = ccl_arena_alloc(&p->arena, n, sizeof(uint32_t));
    uint32_t *number = ccl_arena_alloc(&p->arena, n, sizeof(uint32_t));
    if (!level->zone || !number)
        return ccl_fail_nomem(err);
    level->nzones = 0;
    for (uint32_t v = 0; v < n; v++) {
        uint32_t top = find(parent, v);
        if (top == v)
            number[v] = level->nzones++;
        level->zone[v] = number[top];
    }
    /* Roots of union-find are the lowest ranks, so number[top] was set before. */
    p->nlevels++;
    return CCL_OK;
}

static ccl_status_t find_levels(ccl_i_cegis_problem_t *p, ccl_error_t *err) {
    const ccl_i_exchange_t *x = p->x;
    uint32_t n = x->nranks;
    double *rates = calloc(x->nhops + (size_t)1, sizeof *rates);
    uint32_t *parent = calloc(n, sizeof *parent);
    ccl_status_t status = rates && parent ? CCL_OK : ccl_fail_nomem(err);
    if (status != CCL_OK)
        goto end;
    for (uint32_t v = 0; v < n; v++)
        parent[v] = v;
    CCL_TRY_GOTO(add_level(p, parent, err), status, end);
    for (uint32_t h = 0; h < x->nhops; h++)
        rates[h] = x->hops[h].link_Bps;
    qsort(rates, x->nhops, sizeof *rates, fastest_first);
    uint32_t zones = n;
    double below = INFINITY;
    for (uint32_t i = 0; i < x->nhops && zones > 1; i++) {
        if (rates[i] > below * 0.99)
            continue;
        below = rates[i];
        uint32_t now = zones;
        for (uint32_t h = 0; h < x->nhops; h++) {
            if (x->hops[h].link_Bps <= below * 0.99)
                continue;
            uint32_t a = find(parent, x->hops[h].src), b = find(parent, x->hops[h].dst);
            if (a != b) {
                parent[a > b ? a : b] = a < b ? a : b;
                now--;
            }
        }
        if (now < zones && now > 1 && p->nlevels < CCL_I_CEGIS_LEVELS - 1)
            CCL_TRY_GOTO(add_level(p, parent, err), status, end);
        zones = now;
    }
    for (uint32_t v = 0; v < n; v++)
        parent[v] = 0;
    if (n > 1)
        CCL_TRY_GOTO(add_level(p, parent, err), status, end);
end:
    free(rates);
    free(parent);
    return status;
}

/* ---------------------------------------------------------------- what crosses a zone's border */

typedef struct cover {
    uint32_t *users;  /* [nresources] hops not yet covered */
    uint8_t *covered; /* [nhops] */
    uint32_t *touched;
    uint32_t ntouched;
    double *weights; /* [nweights] of what covers the hops */
    uint32_t nweights;
} cover_t;

/**
 * An upper bound on what a set of hops carries: weights of resources (or hops) that together cover
 * all of them, the cheapest per hop first.
 */
static double cover_hops(const ccl_i_cegis_problem_t *p, cover_t *c, bool chunks,
                         const uint32_t *hops, uint32_t nhops) {
    const ccl_i_exchange_t *x = p->x;
    const ccl_i_chunking_t *cap = p->capacity;
    double total = 0;
    uint32_t left = nhops;
    c->ntouched = c->nweights = 0;
    for (uint32_t i = 0; i < nhops; i++) {
        const ccl_i_hop_t *hop = &x->hops[hops[i]];
        c->covered[hops[i]] = 0;
        for (uint32_t u = hop->first_use; u < hop->first_use + hop->nuses; u++) {
            if (c->users[x->uses[u].resource]++ == 0)
                c->touched[c->ntouched++] = x->uses[u].resource;
        }
    }
    while (left) {
        uint32_t best = CCL_NONE, single = CCL_NONE;
        double best_cost = INFINITY, cheapest = INFINITY;
        for (uint32_t i = 0; i < c->ntouched; i++) {
            uint32_t r = c->touched[i];
            double weight = chunks ? cap->resource_chunks[r] : x->resources[r].Bps;
            double cost = c->users[r] ? weight / c->users[r] : INFINITY;
            if (cost < best_cost) {
                best_cost = cost;
                best = r;
            }
        }
        for (uint32_t i = 0; i < nhops; i++) {
            double weight = chunks ? cap->hop_chunks[hops[i]] : x->hops[hops[i]].link_Bps;
            if (!c->covered[hops[i]] && weight < cheapest) {
                cheapest = weight;
                single = hops[i];
            }
        }
        bool by_hop = best == CCL_NONE || cheapest < best_cost;
        double weight =
            by_hop ? cheapest : (chunks ? cap->resource_chunks[best] : x->resources[best].Bps);
        total += c->weights[c->nweights++] = weight;
        for (uint32_t i = 0; i < nhops; i++) {
            const ccl_i_hop_t *hop = &x->hops[hops[i]];
            bool now = by_hop && hops[i] == single;
            for (uint32_t u = hop->first_use; !by_hop && u < hop->first_use + hop->nuses; u++)
                now |= x->uses[u].resource == best;
            if (c->covered[hops[i]] || !now)
                continue;
            c->covered[hops[i]] = 1;
            left--;
            for (uint32_t u = hop->first_use; u < hop->first_use + hop->nuses; u++)
                c->users[x->uses[u].resource]--;
        }
    }
    for (uint32_t i = 0; i < c->ntouched; i++)
        c->users[c->touched[i]] = 0;
    return total;
}

static uint32_t cover_chunks(const ccl_i_cegis_problem_t *p, cover_t *c, const uint32_t *hops,
                             uint32_t nhops) {
    return (uint32_t)fmin(cover_hops(p, c, true, hops, nhops), CCL_NONE - 1);
}

/**
 * How long something at a border is busy at least with `nchunks` whole chunks; c->weights are the
 * rates of what covers it.
 */
static double least_busy_s(const cover_t *c, uint32_t nchunks, double rate_Bps, double bytes) {
    double busy_s = nchunks ? nchunks * bytes / rate_Bps : 0;
    while (busy_s > 0) {
        double fit = 0, next_s = INFINITY;
        for (uint32_t i = 0; i < c->nweights; i++) {
            double own = floor(busy_s * c->weights[i] / bytes * (1 + 1e-9));
            fit += own;
            next_s = fmin(next_s, (own + 1) * bytes / c->weights[i]);
        }
        if (fit >= nchunks)
            break;
        busy_s = next_s;
    }
    return busy_s;
}

/** Chunks that have to enter a zone, or to leave it. */
static uint32_t crossing_chunks(const ccl_i_cegis_problem_t *p, const ccl_i_cegis_level_t *level,
                                uint32_t z, bool in) {
    uint32_t n = 0;
    for (uint32_t k = 0; k < p->nchunks; k++) {
        const ccl_i_cegis_chunk_t *chunk = &p->chunks[k];
        bool crosses = false;
        for (uint32_t i = 0; i < chunk->ntargets && !crosses; i++)
            crosses = (level->zone[chunk->targets[i]] == z) == in;
        n += crosses && (level->zone[chunk->root] == z) != in;
    }
    return n;
}

static ccl_status_t measure_level(ccl_i_cegis_problem_t *p, ccl_i_cegis_level_t *level, cover_t *c,
                                  uint32_t *hops, ccl_error_t *err) {
    const ccl_i_exchange_t *x = p->x;
    uint32_t nz = level->nzones, ncross = 0;
    level->in_chunks = ccl_arena_alloc(&p->arena, nz, sizeof(uint32_t));
    level->out_chunks = ccl_arena_alloc(&p->arena, nz, sizeof(uint32_t));
    level->in_Bps = ccl_arena_alloc(&p->arena, nz, sizeof(double));
    level->out_Bps = ccl_arena_alloc(&p->arena, nz, sizeof(double));
    level->members = ccl_arena_alloc(&p->arena, nz, sizeof(uint32_t));
    level->cross_first = ccl_arena_alloc(&p->arena, nz + (size_t)2, sizeof(uint32_t));
    if (!level->in_chunks || !level->out_chunks || !level->in_Bps || !level->out_Bps ||
        !level->members || !level->cross_first)
        return ccl_fail_nomem(err);
    for (uint32_t v = 0; v < x->nranks; v++)
        level->members[level->zone[v]]++;
    for (uint32_t h = 0; h < x->nhops; h++) {
        uint32_t from = level->zone[x->hops[h].src], to = level->zone[x->hops[h].dst];
        if (from != to) {
            level->cross_first[to + 2]++;
            ncross++;
        }
    }
    level->cross = ccl_arena_alloc(&p->arena, ncross + (size_t)1, sizeof(uint32_t));
    if (!level->cross)
        return ccl_fail_nomem(err);
    for (uint32_t z = 0; z < nz; z++)
        level->cross_first[z + 1] += level->cross_first[z];
    for (uint32_t h = 0; h < x->nhops; h++) {
        uint32_t from = level->zone[x->hops[h].src], to = level->zone[x->hops[h].dst];
        if (from != to)
            level->cross[level->cross_first[to + 1]++] = h;
    }
    for (uint32_t z = 0; z < nz; z++) {
        uint32_t first = level->cross_first[z], len = level->cross_first[z + 1] - first;
        level->in_chunks[z] = cover_chunks(p, c, level->cross + first, len);
        level->in_Bps[z] = cover_hops(p, c, false, level->cross + first, len);
        p->least_s = fmax(p->least_s, least_busy_s(c, crossing_chunks(p, level, z, true),
                                                   level->in_Bps[z], p->capacity->chunk_bytes));
        len = 0;
        for (uint32_t v = 0; v < x->nranks; v++) {
            if (level->zone[v] != z)
                continue;
            for (uint32_t h = x->out_first[v]; h < x->out_first[v + 1]; h++) {
                if (level->zone[x->hops[h].dst] != z)
                    hops[len++] = h;
            }
        }
        level->out_chunks[z] = cover_chunks(p, c, hops, len);
        level->out_Bps[z] = cover_hops(p, c, false, hops, len);
        p->least_s = fmax(p->least_s, least_busy_s(c, crossing_chunks(p, level, z, false),
                                                   level->out_Bps[z], p->capacity->chunk_bytes));
    }
    return CCL_OK;
}

/* ---------------------------------------------------------------- bound */

static int ascending(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/** Crossings of a chunk that first crosses with `left` steps behind that one. */
static uint64_t crossings(uint32_t targets, uint32_t left, bool one_send) {
    if (one_send) /* holders beyond at most double in a step */
        return left >= 32 ? 1 : (targets + ((uint64_t)1 << left) - 1) >> left;
    return left ? 1 : targets;
}

/**
 * Steps for chunks to cross a border that lets `most` pass in a step: a chunk that crosses late has
 * to cross more often to reach all of its targets beyond. `targets`, ascending.
 */
static uint32_t steps_across(const uint32_t *targets, uint32_t nchunks, uint32_t most,
                             bool one_send) {
    if (!nchunks || !most)
        return 0;
    for (uint32_t steps = (nchunks + most - 1) / most;; steps++) {
        uint64_t room = (uint64_t)steps * most;
        uint32_t done = 0;
        /* The early steps take chunks with many targets, the last ones those with few. */
        for (uint32_t left = steps; left-- > 0 && done < nchunks;) {
            uint32_t in_step = 0;
            while (in_step < most && done < nchunks) {
                uint64_t cost = crossings(targets[nchunks - 1 - done], left, one_send);
                if (left == 0)
                    cost = crossings(targets[0], left, one_send);
                if (cost > room)
                    break;
                room -= cost;
                in_step++;
                done++;
            }
        }
        if (done == nchunks)
            return steps;
    }
}

static uint32_t bound_of(ccl_i_cegis_problem_t *p, uint32_t *inside, uint32_t *outside) {
    uint32_t n = p->x->nranks, bound = 0;
    for (uint32_t k = 0; k < p->nchunks; k++) {
        const ccl_i_cegis_chunk_t *chunk = &p->chunks[k];
        for (uint32_t i = 0; i < chunk->ntargets; i++) {
            uint32_t far = p->distance[(size_t)chunk->root * n + chunk->targets[i]];
            bound = far > bound ? far : bound;
        }
        uint32_t doublings = 0;
        while (p->one_send && chunk->ntargets >> doublings)
            doublings++;
        bound = doublings > bound ? doublings : bound;
    }
    for (uint32_t l = 0; l + 1 < p->nlevels; l++) {
        const ccl_i_cegis_level_t *level = &p->levels[l];
        for (uint32_t z = 0; z < level->nzones; z++) {
            uint32_t nin = 0, nout = 0;
            for (uint32_t k = 0; k < p->nchunks; k++) {
                const ccl_i_cegis_chunk_t *chunk = &p->chunks[k];
                uint32_t within = 0;
                for (uint32_t i = 0; i < chunk->ntargets; i++)
                    within += level->zone[chunk->targets[i]] == z;
                if (level->zone[chunk->root] != z && within)
                    inside[nin++] = within;
                if (level->zone[chunk->root] == z && within < chunk->ntargets)
                    outside[nout++] = chunk->ntargets - within;
            }
            qsort(inside, nin, sizeof *inside, ascending);
            qsort(outside, nout, sizeof *outside, ascending);
            uint32_t in = steps_across(inside, nin, level->in_chunks[z], p->one_send);
            uint32_t out = steps_across(outside, nout, level->out_chunks[z], p->one_send);
            double bytes = p->capacity->chunk_bytes;
            if (nin)
                p->load_s = fmax(p->load_s, nin * bytes / level->in_Bps[z]);
            if (nout)
                p->load_s = fmax(p->load_s, nout * bytes / level->out_Bps[z]);
            bound = in > bound ? in : bound;
            bound = out > bound ? out : bound;
        }
    }
    return bound;
}

static ccl_status_t find_distances(ccl_i_cegis_problem_t *p, ccl_error_t *err) {
    const ccl_i_exchange_t *x = p->x;
    uint32_t n = x->nranks;
    p->distance = ccl_arena_alloc(&p->arena, (size_t)n * n, sizeof *p->distance);
    uint32_t *queue = ccl_arena_alloc(&p->arena, n, sizeof *queue);
    if (!p->distance || !queue)
        return ccl_fail_nomem(err);
    for (uint32_t s = 0; s < n; s++) {
        uint16_t *d = p->distance + (size_t)s * n;
        uint32_t head = 0, tail = 0;
        memset(d, 0xff, n * sizeof *d);
        d[s] = 0;
        queue[tail++] = s;
        while (head < tail) {
            uint32_t u = queue[head++];
            for (uint32_t h = x->out_first[u]; h < x->out_first[u + 1]; h++) {
                uint32_t v = x->hops[h].dst;
                if (d[v] == UINT16_MAX) {
                    d[v] = d[u] + 1;
                    queue[tail++] = v;
                }
            }
        }
        p->farthest = d[queue[tail - 1]] > p->farthest ? d[queue[tail - 1]] : p->farthest;
        if (tail < n)
            return ccl_fail(err, CCL_ERR_INPUT, "rank %u cannot reach all others", s);
    }
    return CCL_OK;
}

ccl_status_t ccl_i_cegis_problem_init(ccl_i_cegis_problem_t *p, const ccl_i_exchange_t *x,
                                      const ccl_i_chunking_t *capacity,
                                      const ccl_i_cegis_chunk_t *chunks, uint32_t nchunks,
                                      bool one_send, ccl_error_t *err) {
    memset(p, 0, sizeof *p);
    ccl_arena_init(&p->arena);
    p->x = x;
    p->capacity = capacity;
    p->nchunks = nchunks;
    p->one_send = one_send;
    p->rank_words = (x->nranks + 63) / 64;
    p->chunks = ccl_arena_alloc(&p->arena, nchunks + (size_t)1, sizeof *p->chunks);
    p->wants = ccl_arena_alloc(&p->arena, (size_t)nchunks * p->rank_words + 1, sizeof *p->wants);
    uint32_t *numbers = ccl_arena_alloc(&p->arena, 2 * (size_t)nchunks + 2, sizeof(uint32_t));
    uint32_t *hops = ccl_arena_alloc(&p->arena, x->nhops + (size_t)1, sizeof(uint32_t));
    cover_t cover = {
        .users = ccl_arena_alloc(&p->arena, x->nresources + (size_t)1, sizeof(uint32_t)),
        .covered = ccl_arena_alloc(&p->arena, x->nhops + (size_t)1, 1),
        .touched = ccl_arena_alloc(&p->arena, x->nresources + (size_t)1, sizeof(uint32_t)),
        .weights = ccl_arena_alloc(&p->arena, x->nhops + (size_t)1, sizeof(double))};
    p->common = ccl_arena_alloc(&p->arena, x->nhops + (size_t)1, 1);
    if (!p->common || !p->chunks || !p->wants || !numbers || !hops || !cover.users ||
        !cover.covered || !cover.touched || !cover.weights)
        return ccl_fail_nomem(err);
    for (uint32_t k = 0; k < nchunks; k++) {
        p->chunks[k] = chunks[k];
        p->relays |= chunks[k].ntargets + 1 < x->nranks;
        for (uint32_t i = 0; i < chunks[k].ntargets; i++) {
            uint32_t v = chunks[k].targets[i];
            p->wants[(size_t)k * p->rank_words + v / 64] |= (uint64_t)1 << (v % 64);
        }
    }
    CCL_TRY(find_distances(p, err));
    CCL_TRY(find_levels(p, err));
    for (uint32_t h = 0; h < x->nhops; h++) {
        while (p->common[h] + 1u < p->nlevels && p->levels[p->common[h]].zone[x->hops[h].src] !=
                                                     p->levels[p->common[h]].zone[x->hops[h].dst])
            p->common[h]++;
    }
    for (uint32_t l = 0; l < p->nlevels; l++)
        CCL_TRY(measure_level(p, &p->levels[l], &cover, hops, err));
    p->bound = bound_of(p, numbers, numbers + nchunks + 1);
    return CCL_OK;
}

ccl_status_t ccl_i_cegis_problem_balance(ccl_i_cegis_problem_t *p, double slack, ccl_error_t *err) {
    const ccl_i_exchange_t *x = p->x;
    uint32_t *times = ccl_arena_alloc(&p->arena, x->nresources + (size_t)1, sizeof *times);
    p->budget = ccl_arena_alloc(&p->arena, x->nresources + (size_t)1, sizeof *p->budget);
    if (!times || !p->budget)
        return ccl_fail_nomem(err);
    for (uint32_t h = 0; h < x->nhops; h++) {
        for (uint32_t u = x->hops[h].first_use; u < x->hops[h].first_use + x->hops[h].nuses; u++) {
            uint32_t r = x->uses[u].resource;
            times[r] = x->uses[u].times > times[r] ? x->uses[u].times : times[r];
        }
    }
    for (uint32_t r = 0; r < x->nresources; r++) {
        double most = slack * p->load_s * x->resources[r].Bps / p->capacity->chunk_bytes;
        most = fmin(floor(most * (1 + 1e-9)), CCL_NONE / 2);
        p->budget[r] = most > times[r] ? (uint32_t)most : times[r];
    }
    return CCL_OK;
}

double ccl_i_cegis_load_s(const ccl_i_cegis_problem_t *p, const ccl_i_cegis_plan_t *plan) {
    const ccl_i_exchange_t *x = p->x;
    double *load_s = calloc(x->nresources + (size_t)1, sizeof *load_s), most_s = 0;
    for (size_t i = 0; load_s && i < plan->len; i++) {
        const ccl_i_hop_t *hop = &x->hops[plan->sends[i].hop];
        for (uint32_t u = hop->first_use; u < hop->first_use + hop->nuses; u++) {
            uint32_t r = x->uses[u].resource;
            load_s[r] += x->uses[u].times * p->capacity->chunk_bytes / x->resources[r].Bps;
            most_s = fmax(most_s, load_s[r]);
        }
    }
    free(load_s);
    return most_s;
}

double ccl_i_cegis_slices(const ccl_i_cegis_problem_t *p, const ccl_i_cegis_plan_t *plan) {
    double alpha_s = 0;
    for (size_t k = 0; k < plan->len; k++)
        alpha_s = fmax(alpha_s, p->x->hops[plan->sends[k].hop].alpha_s);
    return fmax(
        1, sqrt(ccl_i_cegis_load_s(p, plan) * plan->nsteps / fmax(SLICE_COST * alpha_s, 1e-7)));
}
