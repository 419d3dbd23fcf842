/*
 * Experts placed for a cluster and its traffic: local search with exchanges of two experts, or of
 * an expert with a free place. What counts is the time in which the tokens that were drawn cross
 * the borders of GPUs, servers, and servers behind the same switches, each token once to a server;
 * the busiest border first, then the others, so that a plateau has a slope. Tokens are counted, not
 * estimated by popularity: experts that are chosen together pay where they stand together.
 *
 * Search looks at a sample of the tokens of each GPU; all of them decide what is kept.
 */
#include "schedule/formats/moe_i.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Tokens of the search; tokens counted again in all exchanges that are tried; starts; exchanges of
   random places without gain that end one; places up to whose square all pairs are tried. */
typedef struct policy {
    uint32_t sample, starts, patience, sweep;
    uint64_t work;
} policy_t;

static const policy_t POLICY = {
    .sample = 8192, .starts = 8, .patience = 3000, .sweep = 48, .work = (uint64_t)6 << 20};
/* Borders that nothing crosses in time. */
#define NEVER_S 1e30

/* Border k of a level, into and out of each part, is entry 2 (base + part), + 1 for out. */
typedef struct borders {
    ccl_cut_levels_t levels;
    uint32_t base[4], n; /* entries */
    double *slow_s;      /* [n] of a token */
} borders_t;

typedef struct score {
    double most_s, rest; /* the busiest border; a norm of all */
    uint32_t border;     /* entry */
} score_t;

typedef struct search {
    const ccl_i_moe_t *m;
    const borders_t *borders;
    uint32_t ntokens, each;       /* of all GPUs, of one */
    uint32_t *experts;            /* [ntokens][top_k] */
    uint32_t *by_first, *by_list; /* tokens of an expert */
    uint32_t *expert;             /* [nreplicas] */
    uint32_t *gpu;                /* [nreplicas] */
    uint32_t *slot;               /* [n room] replica, or CCL_NONE */
    uint32_t room;
    int64_t *count; /* [borders.n] tokens */
    double norm_s;
    uint64_t work;
    ccl_rng_t rng;
} search_t;

/* ---------------------------------------------------------------- borders */

static ccl_status_t borders_init(borders_t *b, const ccl_i_moe_t *m, ccl_error_t *err) {
    const double token_bytes = (double)m->o->hidden * m->o->element_bytes;
    CCL_TRY(ccl_cut_levels_init(&b->levels, m->topo, err));
    for (uint32_t v = 0; v < b->levels.nlevels; v++)
        b->base[v + 1] = b->base[v] + b->levels.levels[v].nparts;
    b->n = 2 * b->base[b->levels.nlevels];
    b->slow_s = calloc(b->n + (size_t)1, sizeof *b->slow_s);
    if (!b->slow_s)
        return ccl_fail_nomem(err);
    for (uint32_t v = 0; v < b->levels.nlevels; v++) {
        const ccl_cut_level_t *level = &b->levels.levels[v];
        for (uint32_t p = 0; p < level->nparts; p++) {
            double in = m->o->combine ? level->out_Bps[p] : level->in_Bps[p];
            double out = m->o->combine ? level->in_Bps[p] : level->out_Bps[p];
            b->slow_s[2 * (b->base[v] + p)] = in > 0 ? token_bytes / in : NEVER_S;
            b->slow_s[2 * (b->base[v] + p) + 1] = out > 0 ? token_bytes / out : NEVER_S;
        }
    }
    return CCL_OK;
}

static void borders_fini(borders_t *b) {
    ccl_cut_levels_fini(&b->levels);
    free(b->slow_s);
}

static void cross(const borders_t *b, uint32_t v, uint32_t src, uint32_t dst, bool out,
                  int64_t sign, int64_t *count) {
    const ccl_cut_level_t *level = &b->levels.levels[v];
    uint32_t from = level->part_of[src], to = level->part_of[dst];
    if (from == to)
        return;
    if (to != CCL_NONE)
        count[2 * (b->base[v] + to)] += sign;
    if (from != CCL_NONE && out)
        count[2 * (b->base[v] + from) + 1] += sign;
}

/* A token of a GPU, and the experts that it goes to. */
typedef struct token {
    const uint32_t *experts; /* [top_k] */
    uint32_t src, number;
} token_t;

static token_t token_of(const search_t *s, uint32_t t) {
    return (token_t){s->experts + (size_t)t * s->m->o->top_k, t / s->each, t % s->each};
}

/* A token leaves its GPU, and its server, once for each server; each GPU of that gets it. */
static void count_token(const ccl_i_moe_t *m, const borders_t *b, const uint32_t *gpu, token_t t,
                        int64_t sign, int64_t *count) {
    uint32_t src = t.src;
    uint32_t dests[CCL_I_MOE_TOP], n = 0;
    for (uint32_t k = 0; k < m->o->top_k; k++) {
        uint32_t g = ccl_i_moe_copy(m, gpu, t.experts[k], src, t.number), i = 0;
        while (i < n && dests[i] != g)
            i++;
        if (g == src || i < n)
            continue;
        bool first = true; /* of its server, or all are */
        for (i = 0; i < n && first && !m->o->each_expert; i++)
            first = m->part[dests[i]] != m->part[g];
        dests[n++] = g;
        cross(b, 0, src, g, first, sign, count);
        for (uint32_t v = 1; first && v < b->levels.nlevels; v++)
            cross(b, v, src, g, true, sign, count);
    }
}

static score_t score_of(const borders_t *b, const int64_t *count, double norm_s) {
    score_t out = {0, 0, 0};
    for (uint32_t i = 0; i < b->n; i++) {
        double s = (double)count[i] * b->slow_s[i];
        if (s > out.most_s) {
            out.most_s = s;
            out.border = i;
        }
        double x = s / norm_s, x2 = x * x, x4 = x2 * x2;
        out.rest += x4 * x4;
    }
    return out;
}

static bool is_better(const score_t *a, const score_t *b) {
    if (a->most_s != b->most_s)
        return a->most_s < b->most_s;
    return a->rest < b->rest * (1 - 1e-12);
}

/* ---------------------------------------------------------------- exchanges */

static bool has_expert(const search_t *s, uint32_t token, uint32_t expert) {
    const uint32_t *of = s->experts + (size_t)token * s->m->o->top_k;
    for (uint32_t k = 0; k < s->m->o->top_k; k++)
        if (of[k] == expert)
            return true;
    return false;
}

/* Tokens of two experts (CCL_NONE: none), each once. */
static void count_experts(search_t *s, uint32_t a, uint32_t b, int64_t sign) {
    for (int turn = 0; turn < 2; turn++) {
        uint32_t e = turn ? b : a;
        if (e == CCL_NONE)
            continue;
        for (uint32_t i = s->by_first[e]; i < s->by_first[e + 1]; i++) {
            uint32_t t = s->by_list[i];
            if (turn && a != CCL_NONE && has_expert(s, t, a))
                continue;
            count_token(s->m, s->borders, s->gpu, token_of(s, t), sign, s->count);
            s->work++;
        }
    }
}

static void exchange(search_t *s, uint32_t a, uint32_t b) {
    uint32_t x = s->slot[a], y = s->slot[b];
    uint32_t ex = x == CCL_NONE ? CCL_NONE : s->expert[x];
    uint32_t ey = y == CCL_NONE ? CCL_NONE : s->expert[y];
    count_experts(s, ex, ey == ex ? CCL_NONE : ey, -1);
    s->slot[a] = y;
    s->slot[b] = x;
    if (x != CCL_NONE)
        s->gpu[x] = b / s->room;
    if (y != CCL_NONE)
        s->gpu[y] = a / s->room;
    count_experts(s, ex, ey == ex ? CCL_NONE : ey, 1);
}

/* Keeps the exchange if it is one for the better. */
static bool try_exchange(search_t *s, uint32_t a, uint32_t b, score_t *now) {
    if (a / s->room == b / s->room || s->slot[a] == s->slot[b])
        return false;
    exchange(s, a, b);
    score_t then = score_of(s->borders, s->count, s->norm_s);
    if (is_better(&then, now)) {
        *now = then;
        return true;
    }
    exchange(s, a, b);
    return false;
}

/* A place on the busiest side: experts that leave it help where too much comes in, or others that
   come where too much goes out. */
static uint32_t busy_slot(search_t *s, const score_t *now) {
    uint32_t v = 0, part = now->border / 2, n = s->m->n;
    while (v + 1 < s->borders->levels.nlevels && part >= s->borders->base[v + 1])
        v++;
    part -= s->borders->base[v];
    uint32_t g = ccl_rng_below(&s->rng, n);
    for (uint32_t k = 0; k < n && s->borders->levels.levels[v].part_of[g] != part; k++)
        g = (g + 1) % n;
    return g * s->room + ccl_rng_below(&s->rng, s->room);
}

static score_t descend(search_t *s, uint64_t until) {
    uint32_t nslots = s->m->n * s->room;
    score_t now = score_of(s->borders, s->count, s->norm_s);
    bool small = nslots <= POLICY.sweep, better = small;
    while (better && s->work < until) {
        better = false;
        for (uint32_t a = 0; a < nslots; a++)
            for (uint32_t b = a + 1; b < nslots; b++)
                better |= try_exchange(s, a, b, &now);
    }
    for (uint32_t idle = 0; !small && idle < POLICY.patience && s->work < until; idle++) {
        uint32_t a = idle % 2 ? ccl_rng_below(&s->rng, nslots) : busy_slot(s, &now);
        if (try_exchange(s, a, ccl_rng_below(&s->rng, nslots), &now))
            idle = 0;
    }
    return now;
}

/* ---------------------------------------------------------------- starts */

/* Places by s->gpu, and what crosses then. */
static void settle(search_t *s) {
    uint32_t nslots = s->m->n * s->room;
    memset(s->slot, 0xff, nslots * sizeof *s->slot);
    for (uint32_t r = 0; r < s->m->nreplicas; r++) {
        uint32_t a = s->gpu[r] * s->room;
        while (s->slot[a] != CCL_NONE)
            a++;
        s->slot[a] = r;
    }
    memset(s->count, 0, s->borders->n * sizeof *s->count);
    for (uint32_t t = 0; t < s->ntokens; t++)
        count_token(s->m, s->borders, s->gpu, token_of(s, t), 1, s->count);
}

static void start_random(search_t *s) {
    for (uint32_t r = 0; r < s->m->nreplicas; r++)
        s->gpu[r] = r % s->m->n;
    for (uint32_t r = s->m->nreplicas; r > 1; r--) {
        uint32_t k = ccl_rng_below(&s->rng, r), g = s->gpu[r - 1];
        s->gpu[r - 1] = s->gpu[k];
        s->gpu[k] = g;
    }
}

/* Experts that are chosen together side by side: the next is who shares most tokens with those of
   the server that is filled. @param shared  [experts], to work with. */
static void start_together(search_t *s, uint32_t *order, uint32_t *shared) {
    const ccl_i_moe_t *m = s->m;
    uint32_t n = m->o->experts, at = 0;
    for (uint32_t e = 0; e < n; e++)
        order[e] = 0; /* 1: has its places */
    for (uint32_t g = 0, left = 0, server = CCL_NONE; g < m->n && at < n; g++) {
        if (m->server[g] != server)
            memset(shared, 0, n * sizeof *shared);
        server = m->server[g];
        for (left = s->room; left > 0 && at < n; left--) {
            uint32_t best = CCL_NONE;
            for (uint32_t e = 0; e < n; e++)
                if (!order[e] && (best == CCL_NONE || shared[e] > shared[best]))
                    best = e;
            order[best] = 1;
            at++;
            s->gpu[m->first[best]] = g;
            for (uint32_t i = s->by_first[best]; i < s->by_first[best + 1]; i++)
                for (uint32_t k = 0; k < m->o->top_k; k++)
                    shared[s->experts[(size_t)s->by_list[i] * m->o->top_k + k]]++;
        }
    }
}

/* Further copies where there is room, each on a GPU of its own as far as that goes. */
static void add_copies(search_t *s, uint32_t *count) {
    const ccl_i_moe_t *m = s->m;
    memset(count, 0, m->n * sizeof *count);
    for (uint32_t e = 0; e < m->o->experts; e++)
        count[s->gpu[m->first[e]]]++;
    for (uint32_t e = 0, g = 0; e < m->o->experts; e++) {
        for (uint32_t r = m->first[e] + 1; r < m->first[e + 1]; r++) {
            while (count[g] >= s->room)
                g = (g + 1) % m->n;
            count[g]++;
            s->gpu[r] = g;
            g = (g + 1) % m->n;
        }
    }
}

/* ---------------------------------------------------------------- the search */

static void draw_sample(search_t *s) {
    const ccl_i_moe_t *m = s->m;
    uint32_t top = m->o->top_k;
    for (uint32_t src = 0; src < m->n; src++) {
        ccl_rng_t rng;
        ccl_i_moe_begin(m, src, &rng);
        for (uint32_t t = 0; t < s->each; t++)
            ccl_i_moe_draw(m, &rng, s->experts + ((size_t)src * s->each + t) * top);
    }
    for (size_t i = 0; i < (size_t)s->ntokens * top; i++)
        s->by_first[s->experts[i] + 2]++;
    for (uint32_t e = 0; e < m->o->experts; e++)
        s->by_first[e + 2] += s->by_first[e + 1];
    for (size_t i = 0; i < (size_t)s->ntokens * top; i++)
        s->by_list[s->by_first[s->experts[i] + 1]++] = (uint32_t)(i / top);
    for (uint32_t e = 0; e < m->o->experts; e++)
        for (uint32_t r = m->first[e]; r < m->first[e + 1]; r++)
            s->expert[r] = e;
}

static ccl_status_t search_init(search_t *s, const ccl_i_moe_t *m, const borders_t *b,
                                ccl_error_t *err) {
    uint32_t most = (POLICY.sample + m->n - 1) / m->n;
    *s = (search_t){.m = m, .borders = b, .norm_s = 1};
    s->each = m->o->tokens < most ? m->o->tokens : most;
    s->ntokens = s->each * m->n;
    s->room = (m->nreplicas + m->n - 1) / m->n;
    s->experts = calloc((size_t)s->ntokens * m->o->top_k, sizeof *s->experts);
    s->by_first = calloc(m->o->experts + (size_t)2, sizeof *s->by_first);
    s->by_list = calloc((size_t)s->ntokens * m->o->top_k, sizeof *s->by_list);
    s->expert = calloc(m->nreplicas, sizeof *s->expert);
    s->gpu = calloc(m->nreplicas, sizeof *s->gpu);
    s->slot = calloc((size_t)m->n * s->room, sizeof *s->slot);
    s->count = calloc(b->n + (size_t)1, sizeof *s->count);
    if (!s->experts || !s->by_first || !s->by_list || !s->expert || !s->gpu || !s->slot ||
        !s->count)
        return ccl_fail_nomem(err);
    ccl_rng_init(&s->rng, m->o->seed ^ 0x706c616365);
    draw_sample(s);
    return CCL_OK;
}

static void search_fini(search_t *s) {
    free(s->experts);
    free(s->by_first);
    free(s->by_list);
    free(s->expert);
    free(s->gpu);
    free(s->slot);
    free(s->count);
}

static void begin(search_t *s, uint32_t start, const uint32_t *balanced, uint32_t *work) {
    if (start == 0) {
        memcpy(s->gpu, balanced, s->m->nreplicas * sizeof *s->gpu);
    } else if (start == 1) {
        start_together(s, work, work + s->m->o->experts);
        add_copies(s, work);
    } else {
        start_random(s);
    }
    settle(s);
}

/* From the balanced placement, from experts that are chosen together, and with few places from any;
   a quarter of the work each. The best goes on with what is left. */
static ccl_status_t run(search_t *s, const uint32_t *balanced, uint32_t *out, ccl_error_t *err) {
    const ccl_i_moe_t *m = s->m;
    uint32_t starts = m->n * s->room <= POLICY.sweep ? POLICY.starts : 2;
    uint32_t *work = calloc(2 * (size_t)m->o->experts + m->n, sizeof *work);
    score_t best = {INFINITY, INFINITY, 0};
    if (!work)
        return ccl_fail_nomem(err);
    for (uint32_t k = 0; k < starts && s->work < POLICY.work; k++) {
        begin(s, k, balanced, work);
        if (k == 0)
            s->norm_s = fmax(1e-30, score_of(s->borders, s->count, 1).most_s);
        score_t now = descend(s, s->work + POLICY.work / 4);
        if (k == 0 || is_better(&now, &best)) {
            best = now;
            memcpy(out, s->gpu, m->nreplicas * sizeof *out);
        }
    }
    memcpy(s->gpu, out, m->nreplicas * sizeof *out);
    settle(s);
    descend(s, POLICY.work);
    memcpy(out, s->gpu, m->nreplicas * sizeof *out);
    free(work);
    return CCL_OK;
}

/* ---------------------------------------------------------------- all tokens */

enum { PLACEMENTS = 3 }; /* block, balanced, found */

static void count_all(const ccl_i_moe_t *m, const borders_t *b, uint32_t *const *gpu,
                      int64_t *count) {
    uint32_t experts[CCL_I_MOE_TOP];
    for (uint32_t src = 0; src < m->n; src++) {
        ccl_rng_t rng;
        ccl_i_moe_begin(m, src, &rng);
        for (uint32_t t = 0; t < m->o->tokens; t++) {
            ccl_i_moe_draw(m, &rng, experts);
            for (uint32_t p = 0; p < PLACEMENTS; p++)
                count_token(m, b, gpu[p], (token_t){experts, src, t}, 1, count + (size_t)p * b->n);
        }
    }
}

/* The best of three by all tokens. */
static ccl_status_t keep_best(ccl_i_moe_t *m, const borders_t *b, uint32_t *const *gpu,
                              ccl_moe_report_t *report, ccl_error_t *err) {
    score_t score[PLACEMENTS];
    int64_t *count = calloc(PLACEMENTS * (size_t)b->n + 1, sizeof *count);
    if (!count)
        return ccl_fail_nomem(err);
    count_all(m, b, gpu, count);
    for (uint32_t p = 0; p < PLACEMENTS; p++)
        score[p] = score_of(b, count + (size_t)p * b->n, 1);
    free(count);
    uint32_t best = 2;
    for (uint32_t p = 0; p < PLACEMENTS; p++)
        best = score[p].most_s < score[best].most_s ? p : best;
    memcpy(m->gpu, gpu[best], m->nreplicas * sizeof *m->gpu);
    uint32_t v = 0;
    while (v + 1 < b->levels.nlevels && score[best].border / 2 >= b->base[v + 1])
        v++;
    report->block_bound_s = score[0].most_s;
    report->balanced_bound_s = score[1].most_s;
    report->bound_s = score[best].most_s;
    report->border = b->levels.levels[v].what;
    return CCL_OK;
}

ccl_status_t ccl_i_moe_optimise(ccl_i_moe_t *m, ccl_moe_report_t *report, ccl_error_t *err) {
    uint32_t *all = calloc(PLACEMENTS * (size_t)m->nreplicas, sizeof *all);
    uint32_t *gpu[PLACEMENTS];
    borders_t borders = {0};
    search_t search = {0};
    if (!all)
        return ccl_fail_nomem(err);
    for (uint32_t p = 0; p < PLACEMENTS; p++)
        gpu[p] = all + (size_t)p * m->nreplicas;
    ccl_status_t status = borders_init(&borders, m, err);
    if (status == CCL_OK)
        status = ccl_i_moe_place(m, CCL_MOE_BLOCK, gpu[0], err);
    if (status == CCL_OK)
        status = ccl_i_moe_place(m, CCL_MOE_BALANCED, gpu[1], err);
    if (status == CCL_OK)
        status = search_init(&search, m, &borders, err);
    if (status == CCL_OK)
        status = run(&search, gpu[1], gpu[2], err);
    if (status == CCL_OK)
        status = keep_best(m, &borders, gpu, report, err);
    search_fini(&search);
    borders_fini(&borders);
    free(all);
    return status;
}
