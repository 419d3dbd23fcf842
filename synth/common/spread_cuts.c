/*
 * Sets of GPUs whose way in limits a collective. Candidates are single GPUs, servers, and the parts
 * that hang together over hops faster than each speed that occurs; what can flow into one is an
 * estimate by max-min fair rates of all hops that lead into it.
 */
#include "synth/common/spread.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rounds of filling: equal servers need a few. */
#define MOST_ROUNDS 64
/* Speeds that sets are made of. */
#define MOST_LEVELS 8

ccl_status_t ccl_i_exchange_inflow(const ccl_i_exchange_t *x, const uint8_t *inside, bool out,
                                   double *Bps_out, ccl_error_t *err) {
    double *left_Bps = malloc((x->nresources + (size_t)1) * sizeof *left_Bps);
    uint32_t *users = calloc(x->nresources + (size_t)1, sizeof *users);
    uint32_t *hops = malloc((x->nhops + (size_t)1) * sizeof *hops);
    uint32_t nhops = 0;
    double sum_Bps = 0, level_Bps = 0;
    if (!left_Bps || !users || !hops) {
        free(left_Bps);
        free(users);
        free(hops);
        return ccl_fail_nomem(err);
    }
    for (uint32_t r = 0; r < x->nresources; r++)
        left_Bps[r] = x->resources[r].Bps;
    for (uint32_t h = 0; h < x->nhops; h++) {
        bool from = inside[x->hops[h].src], to = inside[x->hops[h].dst];
        if (out ? from && !to : to && !from)
            hops[nhops++] = h;
    }
    for (uint32_t round = 0; nhops > 0 && round < MOST_ROUNDS; round++) {
        double step_Bps = INFINITY;
        memset(users, 0, x->nresources * sizeof *users);
        for (uint32_t i = 0; i < nhops; i++) {
            const ccl_i_hop_t *hop = &x->hops[hops[i]];
            step_Bps = fmin(step_Bps, hop->link_Bps - level_Bps);
            for (uint32_t u = 0; u < hop->nuses; u++)
                users[x->uses[hop->first_use + u].resource] += x->uses[hop->first_use + u].times;
        }
        for (uint32_t r = 0; r < x->nresources; r++)
            step_Bps = users[r] ? fmin(step_Bps, left_Bps[r] / users[r]) : step_Bps;
        step_Bps = fmax(step_Bps, 0);
        level_Bps += step_Bps;
        sum_Bps += step_Bps * nhops;
        for (uint32_t r = 0; r < x->nresources; r++)
            left_Bps[r] -= step_Bps * users[r];
        uint32_t kept = 0;
        for (uint32_t i = 0; i < nhops; i++) {
            const ccl_i_hop_t *hop = &x->hops[hops[i]];
            bool full = hop->link_Bps <= level_Bps * (1 + 1e-9);
            for (uint32_t u = 0; u < hop->nuses && !full; u++) {
                uint32_t r = x->uses[hop->first_use + u].resource;
                full = left_Bps[r] <= 1e-9 * x->resources[r].Bps;
            }
            if (!full)
                hops[kept++] = hops[i];
        }
        nhops = kept;
    }
    free(left_Bps);
    free(users);
    free(hops);
    *Bps_out = sum_Bps;
    return CCL_OK;
}

typedef struct finder {
    const ccl_i_spread_t *what;
    ccl_i_cuts_t *cuts;
    uint32_t *label, *queue; /* [nranks] */
    uint8_t *inside;         /* [nranks] */
    double *owned_bytes;     /* [nranks] */
    double all_bytes;
    uint64_t *seen; /* hashes of the sets so far */
    size_t nseen, seen_cap, sets_cap, ranks_cap, share_cap;
    uint32_t *first, *ranks;
    double *time_s;
    uint32_t nranks_listed;
    bool nomem;
} finder_t;

/* A set that is not there yet and lacks something. */
static ccl_status_t add_set(finder_t *f, uint32_t label, ccl_error_t *err) {
    uint32_t n = f->what->x->nranks, members = 0;
    uint64_t hash = 0;
    double own_bytes = 0, Bps;
    for (uint32_t r = 0; r < n; r++) {
        f->inside[r] = f->label[r] == label;
        members += f->inside[r];
        if (f->inside[r]) {
            own_bytes += f->owned_bytes[r];
            hash = ccl_mix64(hash ^ r);
        }
    }
    if (members == n)
        return CCL_OK;
    for (size_t i = 0; i < f->nseen; i++)
        if (f->seen[i] == hash)
            return CCL_OK;
    if (!ccl_grow(&f->seen, &f->seen_cap, f->nseen + 1, sizeof *f->seen))
        return ccl_fail_nomem(err);
    f->seen[f->nseen++] = hash;
    CCL_TRY(ccl_i_exchange_inflow(f->what->x, f->inside, false, &Bps, err));
    double time_s = Bps > 0 ? (f->all_bytes - own_bytes) / Bps : 0;
    f->cuts->least_s = fmax(f->cuts->least_s, time_s);
    if (members < 2)
        return CCL_OK;
    uint32_t s = f->cuts->nsets;
    if (!ccl_grow(&f->first, &f->sets_cap, s + (size_t)2, sizeof *f->first) ||
        !ccl_grow(&f->time_s, &f->share_cap, s + (size_t)1, sizeof *f->time_s) ||
        !ccl_grow(&f->ranks, &f->ranks_cap, f->nranks_listed + (size_t)members, sizeof *f->ranks))
        return ccl_fail_nomem(err);
    for (uint32_t r = 0; r < n; r++)
        if (f->inside[r])
            f->ranks[f->nranks_listed++] = r;
    f->time_s[s] = time_s;
    f->first[s + 1] = f->nranks_listed;
    f->cuts->nsets = s + 1;
    return CCL_OK;
}

/* Parts that hang together, there and back, over hops faster than `above`. */
static void find_parts(finder_t *f, double above_Bps, uint32_t *nparts_out) {
    const ccl_i_exchange_t *x = f->what->x;
    uint32_t n = x->nranks, nparts = 0;
    for (uint32_t r = 0; r < n; r++)
        f->label[r] = CCL_NONE;
    for (uint32_t r = 0; r < n; r++) {
        uint32_t head = 0, tail = 0;
        if (f->label[r] != CCL_NONE)
            continue;
        f->label[r] = nparts;
        f->queue[tail++] = r;
        while (head < tail) {
            uint32_t a = f->queue[head++];
            for (uint32_t h = x->out_first[a]; h < x->out_first[a + 1]; h++) {
                uint32_t b = x->hops[h].dst;
                bool back = false;
                if (f->label[b] != CCL_NONE || x->hops[h].link_Bps <= above_Bps)
                    continue;
                for (uint32_t k = x->out_first[b]; k < x->out_first[b + 1] && !back; k++)
                    back = x->hops[k].dst == a && x->hops[k].link_Bps > above_Bps;
                if (back) {
                    f->label[b] = nparts;
                    f->queue[tail++] = b;
                }
            }
        }
        nparts++;
    }
    *nparts_out = nparts;
}

static ccl_status_t find_sets(finder_t *f, ccl_error_t *err) {
    const ccl_i_exchange_t *x = f->what->x;
    double levels[MOST_LEVELS];
    uint32_t nlevels = 0, nparts;
    /* Single GPUs: one of each kind would do, but they are cheap where there are few hops. */
    for (uint32_t r = 0; r < x->nranks; r++)
        f->label[r] = r;
    for (uint32_t r = 0; r < x->nranks && r < 64; r++)
        CCL_TRY(add_set(f, r, err));
    for (uint32_t h = 0; h < x->nhops && nlevels < MOST_LEVELS; h++) {
        bool known = false;
        for (uint32_t i = 0; i < nlevels && !known; i++)
            known = fabs(levels[i] - x->hops[h].link_Bps) <= 1e-9 * levels[i];
        if (!known)
            levels[nlevels++] = x->hops[h].link_Bps;
    }
    for (uint32_t i = 0; i < nlevels; i++) {
        find_parts(f, levels[i], &nparts);
        for (uint32_t p = 0; p < nparts && nparts < x->nranks; p++)
            CCL_TRY(add_set(f, p, err));
    }
    return CCL_OK;
}

/* Which sets a hop leads into. */
static ccl_status_t list_entries(finder_t *f, ccl_error_t *err) {
    ccl_i_cuts_t *cuts = f->cuts;
    const ccl_i_exchange_t *x = f->what->x;
    cuts->enters_first =
        ccl_arena_alloc(&cuts->arena, x->nhops + (size_t)2, sizeof *cuts->enters_first);
    if (!cuts->enters_first)
        return ccl_fail_nomem(err);
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t s = 0; s < cuts->nsets; s++) {
            memset(f->inside, 0, x->nranks);
            for (uint32_t i = cuts->first[s]; i < cuts->first[s + 1]; i++)
                f->inside[cuts->ranks[i]] = 1;
            for (uint32_t i = cuts->first[s]; i < cuts->first[s + 1]; i++) {
                uint32_t to = cuts->ranks[i];
                for (uint32_t k = x->in_first[to]; k < x->in_first[to + 1]; k++) {
                    uint32_t h = x->in_hops[k];
                    if (f->inside[x->hops[h].src])
                        continue;
                    if (pass == 0)
                        cuts->enters_first[h + 2]++;
                    else
                        cuts->enters[cuts->enters_first[h + 1]++] = s;
                }
            }
        }
        if (pass == 1)
            break;
        for (uint32_t h = 0; h < x->nhops; h++)
            cuts->enters_first[h + 2] += cuts->enters_first[h + 1];
        cuts->enters = ccl_arena_alloc(&cuts->arena, cuts->enters_first[x->nhops + 1] + (size_t)1,
                                       sizeof *cuts->enters);
        if (!cuts->enters)
            return ccl_fail_nomem(err);
    }
    return CCL_OK;
}

/* The lists get homes in the arena. */
static ccl_status_t keep_sets(finder_t *f, ccl_error_t *err) {
    ccl_i_cuts_t *cuts = f->cuts;
    uint32_t s = cuts->nsets;
    cuts->first = ccl_arena_alloc(&cuts->arena, s + (size_t)1, sizeof *cuts->first);
    cuts->ranks = ccl_arena_alloc(&cuts->arena, f->nranks_listed + (size_t)1, sizeof *cuts->ranks);
    cuts->share = ccl_arena_alloc(&cuts->arena, s + (size_t)1, sizeof *cuts->share);
    if (!cuts->first || !cuts->ranks || !cuts->share)
        return ccl_fail_nomem(err);
    if (s > 0) {
        memcpy(cuts->first, f->first, (s + (size_t)1) * sizeof *cuts->first);
        memcpy(cuts->ranks, f->ranks, f->nranks_listed * sizeof *cuts->ranks);
    }
    for (uint32_t i = 0; i < s; i++)
        cuts->share[i] = cuts->least_s > 0 ? f->time_s[i] / cuts->least_s : 0;
    return list_entries(f, err);
}

ccl_status_t ccl_i_cuts_init(ccl_i_cuts_t *cuts, const ccl_i_spread_t *what, ccl_error_t *err) {
    uint32_t n = what->x->nranks;
    finder_t f = {.what = what, .cuts = cuts};
    memset(cuts, 0, sizeof *cuts);
    ccl_arena_init(&cuts->arena);
    f.label = calloc(n, sizeof *f.label);
    f.queue = calloc(n, sizeof *f.queue);
    f.inside = calloc(n, 1);
    f.owned_bytes = calloc(n, sizeof *f.owned_bytes);
    ccl_status_t status = CCL_OK;
    if (!f.label || !f.queue || !f.inside || !f.owned_bytes) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    for (uint32_t k = 0; k < what->nchunks; k++) {
        f.owned_bytes[what->owner[k]] += what->bytes[k];
        f.all_bytes += what->bytes[k];
    }
    CCL_TRY_GOTO(find_sets(&f, err), status, end);
    status = keep_sets(&f, err);
end:
    free(f.label);
    free(f.queue);
    free(f.inside);
    free(f.owned_bytes);
    free(f.seen);
    free(f.first);
    free(f.ranks);
    free(f.time_s);
    if (status != CCL_OK)
        ccl_i_cuts_fini(cuts);
    return status;
}

void ccl_i_cuts_fini(ccl_i_cuts_t *cuts) {
    ccl_arena_fini(&cuts->arena);
}
