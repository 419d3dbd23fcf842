/*
 * Loads of sketches: what each puts on links and groups, how many transfers and thread blocks it
 * takes, on all cores.
 */
#include "synth/sketch/sketch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Hops of a way from the root that count one by one; those after them count as one. */
enum { LEVELS = 96 };

static void add_load(const ccl_i_space_t *s, ccl_i_grower_t *g, double *weight, double scale,
                     double *load) {
    const ccl_i_exchange_t *x = &s->x;

    for (uint32_t i = 0; i < g->norder; i++)
        weight[g->order[i]] = 1;
    for (uint32_t i = g->norder; i-- > 1;) {
        uint32_t rank = g->order[i];
        const ccl_i_hop_t *hop = &x->hops[g->via[rank]];

        for (uint32_t u = hop->first_use; u < hop->first_use + hop->nuses; u++) {
            uint32_t r = x->uses[u].resource;

            load[r] += scale * weight[rank] * x->uses[u].times / x->resources[r].Bps;
        }
        if (s->scatter)
            weight[g->parent[rank]] += weight[rank];
    }
}

/* The same by the hop of the way; weights as add_load() left them.
   @param level_load  [LEVELS][nresources] */
static void add_levels(const ccl_i_space_t *s, const ccl_i_grower_t *g, const double *weight,
                       uint32_t *level, double *level_load) {
    const ccl_i_exchange_t *x = &s->x;

    level[g->order[0]] = 0;
    for (uint32_t i = 1; i < g->norder; i++) {
        uint32_t rank = g->order[i], up = level[g->parent[rank]];
        const ccl_i_hop_t *hop = &x->hops[g->via[rank]];

        level[rank] = up + (up + 1 < LEVELS);
        for (uint32_t u = hop->first_use; u < hop->first_use + hop->nuses; u++) {
            uint32_t r = x->uses[u].resource;

            level_load[(size_t)level[rank] * x->nresources + r] +=
                weight[rank] * x->uses[u].times / x->resources[r].Bps;
        }
    }
}

/* What one worker needs to load sketches. */
typedef struct loader {
    ccl_i_grower_t grower;
    double *weight;                   /* [nranks] */
    float *sends;                     /* [x.nhops] over each hop */
    uint32_t *blocks;                 /* [nranks] */
    uint32_t *turns;                  /* [x.nhops] bit per variant that goes over it */
    uint32_t *level;                  /* [nranks] hops from the root */
    double *level_load[CCL_I_SHAPES]; /* [LEVELS][x.nresources] */
    bool ready;
} loader_t;

typedef struct loads {
    const ccl_ctx_t *ctx;
    const ccl_i_space_t *space;
    ccl_i_sketches_t *sketches;
    double **load;     /* [sketches] zeroed */
    loader_t *loaders; /* [workers] */
} loads_t;

static ccl_status_t loader_init(loader_t *l, const ccl_i_space_t *s, ccl_error_t *err) {
    if (l->ready)
        return CCL_OK;
    CCL_TRY(ccl_i_grower_init(&l->grower, s, err));
    l->ready = true;
    l->weight = calloc(s->topo->nranks, sizeof *l->weight);
    l->sends = calloc(s->x.nhops + (size_t)1, sizeof *l->sends);
    l->blocks = calloc(s->topo->nranks, sizeof *l->blocks);
    l->turns = calloc(s->x.nhops + (size_t)1, sizeof *l->turns);
    l->level = calloc(s->topo->nranks, sizeof *l->level);
    bool ok = l->weight && l->sends && l->blocks && l->turns && l->level;

    for (int i = 0; i < CCL_I_SHAPES; i++) {
        l->level_load[i] = calloc(LEVELS * (s->x.nresources + (size_t)1), sizeof *l->level_load[i]);
        ok &= l->level_load[i] != NULL;
    }
    return ok ? CCL_OK : ccl_fail_nomem(err);
}

static void loader_fini(loader_t *l) {
    free(l->weight);
    free(l->sends);
    free(l->blocks);
    free(l->turns);
    free(l->level);
    for (int i = 0; i < CCL_I_SHAPES; i++)
        free(l->level_load[i]);
    if (l->ready)
        ccl_i_grower_fini(&l->grower);
}

static uint32_t most_of(const uint32_t *count, uint32_t n) {
    uint32_t most = 0;

    for (uint32_t i = 0; i < n; i++)
        most = count[i] > most ? count[i] : most;
    return most;
}

/* What hops one after the other take more than the busiest resource; level_load is zero again. */
static double fill_of(const ccl_i_space_t *s, double *level_load) {
    uint32_t n = s->x.nresources;
    double serial = 0, busiest = 0;

    for (uint32_t k = 0; k < LEVELS; k++) {
        double most = 0;

        for (uint32_t r = 0; r < n; r++)
            most = fmax(most, level_load[(size_t)k * n + r]);
        serial += most;
    }
    for (uint32_t r = 0; r < n; r++) {
        double sum = 0;

        for (uint32_t k = 0; k < LEVELS; k++)
            sum += level_load[(size_t)k * n + r];
        busiest = fmax(busiest, sum);
    }
    memset(level_load, 0, LEVELS * (size_t)n * sizeof *level_load);
    return serial - busiest;
}

/* Loads and sends of one root in all its turns. @param load  [root class][resource], infinite where
   the sketch does not reach all */
static void load_root(const ccl_i_space_t *s, loader_t *l, const ccl_i_sketch_t *sketch, uint32_t r,
                      uint32_t rotations, double *load) {
    ccl_i_grower_t *g = &l->grower;

    for (uint32_t turn = 0; turn < rotations; turn++) {
        if (!ccl_i_grow(g, sketch, NULL, r, turn))
            load[0] = INFINITY; /* does not work from every root */
        add_load(s, g, l->weight, 1.0 / rotations,
                 load + (size_t)s->root_class[r] * s->x.nresources);
        if (turn == 0)
            add_levels(s, g, l->weight, l->level, l->level_load[CCL_I_SHAPE_DIRECT]);
        for (uint32_t k = 1; k < g->norder; k++) {
            uint32_t hop = g->via[g->order[k]];

            l->sends[hop] += (float)(s->scatter ? l->weight[g->order[k]] : 1) / (float)rotations;
            l->turns[hop] |= 1u << turn % sketch->variants;
        }
    }
}

/* Transfers, waits and thread blocks from the sends of all roots, which become 0 again. */
static void take_sends(const ccl_i_space_t *s, loader_t *l, ccl_i_sketch_t *sketch) {
    uint32_t nranks = s->topo->nranks;

    memset(l->blocks, 0, nranks * sizeof *l->blocks);
    sketch->transfers = 0;
    for (uint32_t h = 0; h < s->x.nhops; h++) {
        sketch->transfers += l->sends[h];
        sketch->busy_s = fmax(sketch->busy_s, l->sends[h] * s->overhead_s[h]);
        sketch->fifo_s = fmax(sketch->fifo_s, l->sends[h] * s->slot_s[h]);
        l->blocks[s->x.hops[h].src] += l->sends[h] > 0;
        l->blocks[s->x.hops[h].dst] += l->sends[h] > 0;
        l->sends[h] = 0;
    }
    sketch->blocks = most_of(l->blocks, nranks);
    memset(l->blocks, 0, nranks * sizeof *l->blocks);
    for (uint32_t h = 0; h < s->x.nhops; h++) {
        l->blocks[s->x.hops[h].src] += (uint32_t)__builtin_popcount(l->turns[h]);
        l->blocks[s->x.hops[h].dst] += (uint32_t)__builtin_popcount(l->turns[h]);
        l->turns[h] = 0;
    }
    sketch->turn_blocks = most_of(l->blocks, nranks);
}

static ccl_status_t load_one(uint32_t index, uint32_t worker, void *user, ccl_error_t *err) {
    const loads_t *all = user;
    const ccl_i_space_t *s = all->space;
    loader_t *l = &all->loaders[worker];
    ccl_i_grower_t *g = &l->grower;
    ccl_i_sketch_t *sketch = &all->sketches->items[index];
    uint32_t nranks = s->topo->nranks, rotations = sketch->uses_one ? s->rotations : 1;
    double *load = all->load[index];
    uint8_t shapes[CCL_I_SKETCH_DIMENSIONS];
    bool chained;
    ccl_ctx_t quiet = all->ctx ? *all->ctx : (ccl_ctx_t)CCL_CTX_INIT;

    /* Relays of what is for one only would hand on what is for all behind them: no chains. */
    chained = ccl_i_space_shapes(s, CCL_I_SHAPE_DIRECT, shapes) && !s->scatter;
    quiet.progress = NULL;
    sketch->variants = sketch->variants ? sketch->variants : 1;
    /* All ways to pick single GPUs with all ways of the sub-demands, if not too many. */
    if (sketch->variants > 1)
        rotations =
            rotations * sketch->variants <= 32 ? rotations * sketch->variants : sketch->variants;
    CCL_TRY(loader_init(l, s, err));
    for (uint32_t r = 0; r < nranks; r++) {
        if (s->root != CCL_NONE && r != s->root)
            continue;
        load_root(s, l, sketch, r, rotations, load);
        for (int net = CCL_I_SHAPE_CHAIN; chained && net < CCL_I_SHAPES; net++) {
            ccl_i_space_shapes(s, (ccl_i_shape_t)net, shapes);
            if (ccl_i_grow(g, sketch, shapes, r, 0))
                add_levels(s, g, l->weight, l->level, l->level_load[net]);
        }
        if (r % 16 == 0)
            CCL_TRY(ccl_ctx_poll(&quiet, NULL));
    }
    sketch->turns = rotations;
    sketch->load = load;
    for (int net = 0; net < CCL_I_SHAPES; net++)
        sketch->fill_s_per_byte[net] =
            fill_of(s, l->level_load[chained ? net : CCL_I_SHAPE_DIRECT]);
    take_sends(s, l, sketch);
    return CCL_OK;
}

ccl_status_t ccl_i_sketch_loads(const ccl_ctx_t *ctx, ccl_i_space_t *s, ccl_i_sketches_t *sketches,
                                uint64_t *unreaching, ccl_error_t *err) {
    uint32_t threads = ctx && ctx->threads ? ctx->threads : ccl_core_count();
    loads_t all = {ctx, s, sketches, NULL, NULL};
    ccl_status_t status = CCL_OK;

    if (sketches->n == 0)
        return CCL_OK;
    all.load = calloc(sketches->n, sizeof(double *));
    all.loaders = calloc(threads, sizeof *all.loaders);
    if (!all.load || !all.loaders)
        status = ccl_fail_nomem(err);
    for (size_t i = 0; status == CCL_OK && i < sketches->n; i++) {
        all.load[i] = ccl_arena_alloc(
            &s->arena, (size_t)s->nclasses * (s->x.nresources + (size_t)1), sizeof(double));
        if (!all.load[i])
            status = ccl_fail_nomem(err);
    }
    if (status == CCL_OK)
        status = ccl_parallel_for((uint32_t)sketches->n, threads, load_one, &all, err);
    /* A sketch that does not reach all GPUs from every root is none. */
    size_t kept = 0;
    for (size_t i = 0; i < sketches->n && status == CCL_OK; i++) {
        if (isfinite(sketches->items[i].load[0]))
            sketches->items[kept++] = sketches->items[i];
    }
    if (status == CCL_OK) {
        *unreaching = sketches->n - kept;
        sketches->n = kept;
    }
    for (uint32_t i = 0; all.loaders && i < threads; i++)
        loader_fini(&all.loaders[i]);
    free(all.loaders);
    free(all.load);
    return status;
}
