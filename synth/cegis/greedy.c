/*
 * The start of cegis: step by step, chunks go first where a whole zone lacks them, over the hops
 * that cross its border, then on inside (HeteCCL, NSDI 2026, section 5.2: maximise link use).
 *
 * In a step zones take turns, the one that needs the most steps for what it lacks first; of the
 * chunks within reach the one that the fewest zones have. What only has to be passed on (a chunk
 * with few targets in a sparse graph) goes along shortest ways, the farthest first.
 */
#include "base/rng_inline.h"
#include "synth/cegis/cegis.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct zones {
    uint64_t *has;   /* [nzones][words] some rank has it, or will after this step */
    uint64_t *wants; /* [nzones][words] some rank must get it */
    uint32_t *count; /* [nchunks] zones that have it */
    uint32_t *lacks; /* [nzones] wanted and not there */
    double *need;    /* [nzones] steps that this takes, about */
    double *sent;    /* [nranks] in this step, of what the rank's zone lets out */
    uint8_t *stuck;  /* [nzones] in this step */
    uint32_t *open;  /* as the level's cross: hops into a zone that may still fit in this step */
    uint32_t *nopen; /* [nzones] */
    uint64_t *could; /* [nzones][words] what those who send over these had */
    uint32_t *seen;  /* [nzones] g->closed when these were found */
} zones_t;

typedef struct greedy {
    const ccl_i_cegis_problem_t *p;
    ccl_i_cegis_plan_t *plan;
    ccl_rng_t rng;
    uint32_t words, step;
    bool plain;    /* any chunk, any hop */
    uint64_t *had; /* [nranks][words] at the start of the step */
    uint32_t *hop_left, *resource_left;
    uint32_t *most_times; /* [nresources] of a hop */
    uint32_t closed;      /* changes where a hop may fit no more; 0: never */
    uint32_t *budget;     /* [nresources] left of all steps together; NULL: no limit */
    uint32_t *sender;     /* [nchunks * nranks] step in which it last sent, one_send only */
    uint32_t *out_used;   /* [nranks] sends of the step */
    uint64_t *reach;      /* [words] scratch */
    uint64_t *pairs;      /* chunk and target by distance, relays only */
    size_t npairs;
    uint64_t missing; /* pairs of chunk and target */
    const ccl_i_cegis_limit_t *most;
    double *busy_s; /* [nresources] so far, with a limit only */
    uint32_t later; /* steps that are wanted behind this one, at most */
    bool over;      /* the limit */
    size_t before;  /* sends at the start of the step */
    zones_t zones[CCL_I_CEGIS_LEVELS];
    ccl_arena_t arena;
} greedy_t;

static inline bool bit(const uint64_t *set, uint32_t i) {
    return set[i / 64] >> (i % 64) & 1;
}
static inline void set_bit(uint64_t *set, uint32_t i) {
    set[i / 64] |= (uint64_t)1 << (i % 64);
}

static bool fits(const greedy_t *g, uint32_t h) {
    const ccl_i_exchange_t *x = g->p->x;
    const ccl_i_hop_t *hop = &x->hops[h];
    if (!g->hop_left[h])
        return false;
    for (uint32_t u = hop->first_use; u < hop->first_use + hop->nuses; u++) {
        uint32_t r = x->uses[u].resource;
        if (g->resource_left[r] < x->uses[u].times ||
            (g->budget && g->budget[r] < x->uses[u].times))
            return false;
    }
    return true;
}

static void hold(greedy_t *g, uint32_t k, uint32_t v) {
    if (ccl_i_cegis_wants(g->p, k, v))
        g->missing--;
    for (uint32_t l = 0; l < g->p->nlevels; l++) {
        zones_t *zones = &g->zones[l];
        uint32_t z = g->p->levels[l].zone[v];
        uint64_t *has = zones->has + (size_t)z * g->words;
        if (bit(has, k))
            continue;
        set_bit(has, k);
        zones->count[k]++;
        if (!bit(zones->wants + (size_t)z * g->words, k))
            continue;
        zones->lacks[z]--;
        zones->need[z] = zones->lacks[z] / (g->p->levels[l].in_chunks[z] + 1e-3);
    }
}

static void carry(greedy_t *g, const ccl_i_use_t *use) {
    double *busy_s = &g->busy_s[use->resource];
    *busy_s += use->times * g->p->capacity->chunk_bytes / g->p->x->resources[use->resource].Bps;
    g->over |= g->later == 0 && *busy_s >= g->most->load_s * (1 - 1e-9);
}

static bool add(greedy_t *g, uint32_t k, uint32_t h) {
    const ccl_i_exchange_t *x = g->p->x;
    const ccl_i_hop_t *hop = &x->hops[h];
    ccl_i_cegis_plan_t *plan = g->plan;
    if (!ccl_grow(&plan->sends, &plan->cap, plan->len + 1, sizeof *plan->sends))
        return false;
    plan->sends[plan->len++] = (ccl_i_cegis_send_t){k, h, g->step};
    g->closed += --g->hop_left[h] == 0;
    uint32_t out = ++g->out_used[hop->src];
    for (uint32_t l = 0; l < g->p->nlevels; l++) {
        const ccl_i_cegis_level_t *level = &g->p->levels[l];
        g->zones[l].sent[hop->src] = (double)out / (1 + level->out_chunks[level->zone[hop->src]]);
    }
    for (uint32_t u = hop->first_use; u < hop->first_use + hop->nuses; u++) {
        uint32_t r = x->uses[u].resource;
        g->resource_left[r] -= x->uses[u].times;
        g->closed += g->resource_left[r] < g->most_times[r];
        if (g->budget) {
            g->budget[r] -= x->uses[u].times;
            g->closed += g->budget[r] < g->most_times[r];
        }
        if (g->most)
            carry(g, &x->uses[u]);
    }
    if (g->sender)
        g->sender[(size_t)k * x->nranks + hop->src] = g->step;
    hold(g, k, hop->dst);
    return true;
}

static bool may_send(const greedy_t *g, uint32_t k, uint32_t u) {
    return !g->sender || g->sender[(size_t)k * g->p->x->nranks + u] != g->step;
}

/* ---------------------------------------------------------------- zones */

/**
 * Chunks that zone z lacks and that a hop which still fits could bring: into g->reach. What does
 * not fit any more will not in this step.
 */
static bool find_reach(greedy_t *g, const ccl_i_cegis_level_t *level, const zones_t *zones,
                       uint32_t z) {
    const ccl_i_exchange_t *x = g->p->x;
    const uint64_t *has = zones->has + (size_t)z * g->words;
    const uint64_t *wants = zones->wants + (size_t)z * g->words;
    uint32_t *open = zones->open + level->cross_first[z], n = 0;
    uint64_t *could = zones->could + (size_t)z * g->words, any = 0;
    if (zones->seen[z] != g->closed) {
        memset(could, 0, g->words * sizeof *could);
        for (uint32_t i = 0; i < zones->nopen[z]; i++) {
            if (!fits(g, open[i]))
                continue;
            const uint64_t *had = g->had + (size_t)x->hops[open[i]].src * g->words;
            open[n++] = open[i];
            for (uint32_t w = 0; w < g->words; w++)
                could[w] |= had[w];
        }
        zones->nopen[z] = n;
        zones->seen[z] = g->closed;
    }
    for (uint32_t w = 0; w < g->words; w++)
        any |= g->reach[w] = could[w] & wants[w] & ~has[w];
    return any != 0;
}

/** @param count  who has a chunk; NULL: any chunk will do. */
static uint32_t rarest(greedy_t *g, const uint32_t *count) {
    uint32_t best = CCL_NONE, best_count = CCL_NONE, ties = 0;
    for (uint32_t w = 0; w < g->words; w++) {
        for (uint64_t m = g->reach[w]; m; m &= m - 1) {
            uint32_t k = w * 64 + (uint32_t)__builtin_ctzll(m);
            uint32_t have = count ? count[k] : 0;
            if (have < best_count) {
                best = k;
                best_count = have;
                ties = 1;
            } else if (have == best_count && ccl_i_rng_below(&g->rng, ++ties) == 0) {
                best = k;
            }
        }
    }
    return best;
}

/** The hop that brings k to the zone: inside the smallest common zone, from who sends least. */
static uint32_t choose_hop(greedy_t *g, uint32_t l, uint32_t z, uint32_t k) {
    const ccl_i_exchange_t *x = g->p->x;
    const uint32_t *open = g->zones[l].open + g->p->levels[l].cross_first[z];
    uint32_t best = CCL_NONE, ties = 0;
    double best_cost = INFINITY;
    for (uint32_t i = 0; i < g->zones[l].nopen[z]; i++) { /* all fit: find_reach was here */
        uint32_t h = open[i], u = x->hops[h].src, v = x->hops[h].dst;
        if (!bit(g->had + (size_t)u * g->words, k) || !may_send(g, k, u))
            continue;
        uint32_t common = g->p->common[h] > l ? g->p->common[h] : l + 1;
        double cost =
            g->plain ? 0 : common * 1e6 - 1e3 * ccl_i_cegis_wants(g->p, k, v) + g->zones[l].sent[u];
        if (cost < best_cost) {
            best_cost = cost;
            best = h;
            ties = 1;
        } else if (cost == best_cost && ccl_i_rng_below(&g->rng, ++ties) == 0) {
            best = h;
        }
    }
    return best;
}

static uint32_t next_zone(greedy_t *g, const ccl_i_cegis_level_t *level, const zones_t *zones) {
    uint32_t best = CCL_NONE, ties = 0;
    double best_need = 0;
    for (uint32_t z = 0; z < level->nzones; z++) {
        if (zones->stuck[z] || !zones->lacks[z])
            continue;
        double need = zones->need[z];
        if (need > best_need) {
            best_need = need;
            best = z;
            ties = 1;
        } else if (need == best_need && ccl_i_rng_below(&g->rng, ++ties) == 0) {
            best = z;
        }
    }
    return best;
}

static bool fill_level(greedy_t *g, uint32_t l) {
    const ccl_i_cegis_level_t *level = &g->p->levels[l];
    zones_t *zones = &g->zones[l];
    uint32_t z;
    memset(zones->stuck, 0, level->nzones);
    memset(zones->seen, 0, level->nzones * sizeof *zones->seen);
    memcpy(zones->open, level->cross, level->cross_first[level->nzones] * sizeof *zones->open);
    for (z = 0; z < level->nzones; z++)
        zones->nopen[z] = level->cross_first[z + 1] - level->cross_first[z];
    while (!g->over && (z = next_zone(g, level, zones)) != CCL_NONE) {
        bool sent = false;
        bool reach = find_reach(g, level, zones, z);
        while (reach && !sent) {
            uint32_t k = rarest(g, g->plain ? NULL : zones->count);
            if (k == CCL_NONE)
                break;
            uint32_t h = choose_hop(g, l, z, k);
            g->reach[k / 64] &= ~((uint64_t)1 << (k % 64));
            if (h == CCL_NONE)
                continue;
            if (!add(g, k, h))
                return false;
            sent = true;
        }
        zones->stuck[z] = !sent;
        /* What it lacks does not come in this step; with a budget used up, perhaps without. */
        g->over |= !sent && g->most && (!g->budget || g->plan->len > g->before) &&
                   zones->lacks[z] > (uint64_t)level->in_chunks[z] * g->later;
    }
    return true;
}

/* ---------------------------------------------------------------- passing on */

static int descending(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/** Every chunk a hop nearer to each target that lacks it, the farthest first. */
static bool advance(greedy_t *g) {
    const ccl_i_cegis_problem_t *p = g->p;
    const ccl_i_exchange_t *x = p->x;
    const uint64_t *now = g->zones[0].has;
    uint32_t n = x->nranks;
    g->npairs = 0;
    for (uint32_t k = 0; k < p->nchunks; k++) {
        for (uint32_t i = 0; i < p->chunks[k].ntargets; i++) {
            uint32_t d = p->chunks[k].targets[i], near = UINT16_MAX;
            if (bit(now + (size_t)d * g->words, k))
                continue;
            for (uint32_t v = 0; v < n; v++) {
                uint32_t far = p->distance[(size_t)v * n + d];
                if (far < near && bit(now + (size_t)v * g->words, k))
                    near = far;
            }
            uint64_t dice = ccl_i_rng_next(&g->rng) & 0xffff;
            g->pairs[g->npairs++] = (uint64_t)near << 52 | dice << 36 | (uint64_t)k << 16 | d;
        }
    }
    qsort(g->pairs, g->npairs, sizeof *g->pairs, descending);
    for (size_t i = 0; i < g->npairs && !g->over; i++) {
        uint32_t near = (uint32_t)(g->pairs[i] >> 52), d = g->pairs[i] & 0xffff;
        uint32_t k = (uint32_t)(g->pairs[i] >> 16 & 0xfffff), best = CCL_NONE, ties = 0;
        if (bit(now + (size_t)d * g->words, k))
            continue;
        for (uint32_t u = 0; u < n; u++) {
            if (p->distance[(size_t)u * n + d] != near || !bit(g->had + (size_t)u * g->words, k) ||
                !may_send(g, k, u))
                continue;
            for (uint32_t h = x->out_first[u]; h < x->out_first[u + 1]; h++) {
                uint32_t v = x->hops[h].dst;
                if (p->distance[(size_t)v * n + d] + 1u == near && fits(g, h) &&
                    !bit(now + (size_t)v * g->words, k) && ccl_i_rng_below(&g->rng, ++ties) == 0)
                    best = h;
            }
        }
        if (best != CCL_NONE && !add(g, k, best))
            return false;
    }
    return true;
}

/* ---------------------------------------------------------------- all steps */

static bool one_target(const ccl_i_cegis_problem_t *p) {
    for (uint32_t k = 0; k < p->nchunks; k++) {
        if (p->chunks[k].ntargets > 1)
            return false;
    }
    return true;
}

static bool allocate(greedy_t *g, size_t npairs) {
    const ccl_i_cegis_problem_t *p = g->p;
    uint32_t n = p->x->nranks;
    bool ok = true;
    ccl_arena_t *arena = &g->arena;
    ok &= (g->had = ccl_arena_alloc(arena, (size_t)n * g->words + 1, sizeof(uint64_t))) != NULL;
    ok &= (g->hop_left = ccl_arena_alloc(arena, p->x->nhops + (size_t)1, sizeof(uint32_t))) != NULL;
    ok &= (g->resource_left =
               ccl_arena_alloc(arena, p->x->nresources + (size_t)1, sizeof(uint32_t))) != NULL;
    ok &= (g->out_used = ccl_arena_alloc(arena, n, sizeof(uint32_t))) != NULL;
    ok &= (g->reach = ccl_arena_alloc(arena, g->words + (size_t)1, sizeof(uint64_t))) != NULL;
    if (p->budget)
        ok &= (g->budget =
                   ccl_arena_alloc(arena, p->x->nresources + (size_t)1, sizeof(uint32_t))) != NULL;
    ok &= (g->most_times =
               ccl_arena_alloc(arena, p->x->nresources + (size_t)1, sizeof(uint32_t))) != NULL;
    if (g->most)
        ok &= (g->busy_s = ccl_arena_alloc(arena, p->x->nresources + (size_t)1, sizeof(double))) !=
              NULL;
    if (p->relays || one_target(p))
        ok &= (g->pairs = ccl_arena_alloc(arena, npairs + 1, sizeof(uint64_t))) != NULL;
    if (p->one_send)
        ok &= (g->sender = ccl_arena_alloc(arena, (size_t)p->nchunks * n + 1, sizeof(uint32_t))) !=
              NULL;
    for (uint32_t l = 0; ok && l < p->nlevels; l++) {
        zones_t *zones = &g->zones[l];
        size_t nz = p->levels[l].nzones;
        ok &= (zones->has = ccl_arena_alloc(arena, nz * g->words + 1, sizeof(uint64_t))) != NULL;
        ok &= (zones->wants = ccl_arena_alloc(arena, nz * g->words + 1, sizeof(uint64_t))) != NULL;
        ok &= (zones->count = ccl_arena_alloc(arena, p->nchunks, sizeof(uint32_t))) != NULL;
        ok &= (zones->lacks = ccl_arena_alloc(arena, nz, sizeof(uint32_t))) != NULL;
        ok &= (zones->need = ccl_arena_alloc(arena, nz, sizeof(double))) != NULL;
        ok &= (zones->sent = ccl_arena_alloc(arena, n, sizeof(double))) != NULL;
        ok &= (zones->stuck = ccl_arena_alloc(arena, nz, 1)) != NULL;
        ok &= (zones->could = ccl_arena_alloc(arena, nz * g->words + 1, sizeof(uint64_t))) != NULL;
        ok &= (zones->seen = ccl_arena_alloc(arena, nz, sizeof(uint32_t))) != NULL;
        ok &= (zones->nopen = ccl_arena_alloc(arena, nz, sizeof(uint32_t))) != NULL;
        ok &= (zones->open = ccl_arena_alloc(arena, p->levels[l].cross_first[nz] + (size_t)1,
                                             sizeof(uint32_t))) != NULL;
    }
    return ok;
}

static bool greedy_init(greedy_t *g) {
    const ccl_i_cegis_problem_t *p = g->p;
    uint32_t n = p->x->nranks;
    size_t npairs = 0;
    for (uint32_t k = 0; k < p->nchunks; k++)
        npairs += p->chunks[k].ntargets;
    g->words = (p->nchunks + 63) / 64;
    g->missing = npairs;
    if (!allocate(g, npairs))
        return false;
    for (uint32_t h = 0; h < p->x->nhops; h++) {
        const ccl_i_hop_t *hop = &p->x->hops[h];
        for (uint32_t u = hop->first_use; u < hop->first_use + hop->nuses; u++) {
            uint32_t *most = &g->most_times[p->x->uses[u].resource], times = p->x->uses[u].times;
            *most = times > *most ? times : *most;
        }
    }
    if (p->budget)
        memcpy(g->budget, p->budget, p->x->nresources * sizeof *g->budget);
    if (g->sender)
        memset(g->sender, 0xff, (size_t)p->nchunks * n * sizeof *g->sender);
    for (uint32_t k = 0; k < p->nchunks; k++) {
        for (uint32_t i = 0; i < p->chunks[k].ntargets; i++) {
            for (uint32_t l = 0; l < p->nlevels; l++) {
                uint32_t z = p->levels[l].zone[p->chunks[k].targets[i]];
                uint64_t *wants = g->zones[l].wants + (size_t)z * g->words;
                g->zones[l].lacks[z] += !bit(wants, k);
                set_bit(wants, k);
            }
        }
    }
    for (uint32_t l = 0; l < p->nlevels; l++)
        for (uint32_t z = 0; z < p->levels[l].nzones; z++)
            g->zones[l].need[z] = g->zones[l].lacks[z] / (p->levels[l].in_chunks[z] + 1e-3);
    for (uint32_t k = 0; k < p->nchunks; k++)
        hold(g, k, p->chunks[k].root);
    return true;
}

static void begin_step(greedy_t *g) {
    const ccl_i_cegis_problem_t *p = g->p;
    memcpy(g->had, g->zones[0].has, (size_t)p->x->nranks * g->words * sizeof *g->had);
    memcpy(g->hop_left, p->capacity->hop_chunks, p->x->nhops * sizeof *g->hop_left);
    memcpy(g->resource_left, p->capacity->resource_chunks,
           p->x->nresources * sizeof *g->resource_left);
    memset(g->out_used, 0, p->x->nranks * sizeof *g->out_used);
    for (uint32_t l = 0; l < p->nlevels; l++)
        memset(g->zones[l].sent, 0, p->x->nranks * sizeof(double));
    g->closed++;
}

/* Steps that are still to come, at least: a chunk goes one hop a step, and a zone gets no more in
   a step than its border lets in. */
static uint32_t steps_needed(const greedy_t *g) {
    const ccl_i_cegis_problem_t *p = g->p;
    const uint64_t *now = g->zones[0].has;
    uint32_t n = p->x->nranks, needed = 1;
    for (uint32_t l = 0; l < p->nlevels; l++) {
        for (uint32_t z = 0; z < p->levels[l].nzones; z++) {
            uint32_t lacks = g->zones[l].lacks[z], in = p->levels[l].in_chunks[z];
            if (lacks > (uint64_t)needed * in && in)
                needed = (lacks + in - 1) / in;
        }
    }
    for (uint32_t k = 0; k < p->nchunks && needed < p->farthest; k++) {
        for (uint32_t i = 0; i < p->chunks[k].ntargets; i++) {
            uint32_t d = p->chunks[k].targets[i], near = UINT16_MAX;
            if (bit(now + (size_t)d * g->words, k))
                continue;
            for (uint32_t v = 0; v < n && near > needed; v++) {
                uint32_t far = p->distance[(size_t)v * n + d];
                if (far < near && bit(now + (size_t)v * g->words, k))
                    near = far;
            }
            needed = near > needed && near < UINT16_MAX ? near : needed;
        }
    }
    return needed;
}

/* Whether the plan is beyond the limit, and whether only load can still make it worse. */
static bool exceeds(greedy_t *g) {
    uint32_t steps = g->step + steps_needed(g);
    g->over = steps > g->most->nsteps;
    g->later = g->over ? 0 : g->most->nsteps - g->step - 1;
    g->before = g->plan->len;
    for (uint32_t r = 0; steps == g->most->nsteps && r < g->p->x->nresources; r++)
        g->over |= g->busy_s[r] >= g->most->load_s * (1 - 1e-9);
    return g->over;
}

ccl_status_t ccl_i_cegis_greedy(const ccl_i_cegis_problem_t *p, bool plain, uint64_t seed,
                                const ccl_i_cegis_limit_t *most, ccl_i_cegis_plan_t *out,
                                ccl_error_t *err) {
    greedy_t g = {.p = p, .plan = out, .plain = plain, .most = most};
    ccl_status_t status = CCL_OK;
    bool single = one_target(p);
    ccl_rng_init(&g.rng, seed);
    out->len = 0;
    out->nsteps = 0;
    if (p->nchunks >= 1u << 20 || p->x->nranks >= 1u << 16) {
        status = ccl_fail(err, CCL_UNSUPPORTED, "more than a million chunks or 65535 ranks");
        goto end;
    }
    if (!greedy_init(&g)) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    while (g.missing) {
        uint64_t before = g.missing;
        size_t sends = out->len;
        bool ok = true;
        if (most && exceeds(&g)) {
            out->len = 0;
            goto end;
        }
        begin_step(&g);
        for (uint32_t l = plain ? 1 : p->nlevels - 1; ok && !single && l-- > 0;)
            ok = fill_level(&g, l);
        if (ok && (p->relays || single))
            ok = advance(&g);
        if (!ok) {
            status = ccl_fail_nomem(err);
            goto end;
        }
        if (g.over) {
            out->len = 0;
            goto end;
        }
        if (out->len == sends && g.budget) {
            g.budget = NULL; /* used up: then without */
            continue;
        }
        g.step++;
        if (out->len == sends && before == g.missing) {
            status = ccl_fail(err, CCL_ERR_INTERNAL, "nothing can be sent in step %u", g.step);
            goto end;
        }
    }
    out->nsteps = out->len ? out->sends[out->len - 1].step + 1 : 0;
end:
    ccl_arena_fini(&g.arena);
    return status;
}
