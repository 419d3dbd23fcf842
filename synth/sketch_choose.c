/*
 * Candidates of the sketch synthesizer: mixes made into schedules, and the choice among the most
 * promising by simulation (SyCCL, section 5.2).
 */
#include "synth/sketch.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Together no more than so many transfers are simulated: some seconds. */
#define SIMULATED_TRANSFERS 6e5
/* So many that are estimated alike are simulated. */
enum { ALIKE = 2 };
/* Then the best over four channels, and what wins over as many as these. */
static const uint32_t FINE_CHANNELS[] = {2, 8, 16};
enum { FINE_MIXES = 3, FIRST_CHANNELS = 4 };

/* Parts are cut further while an estimate gains more than a hundredth by it, up to so many transfers;
   then the best one while its simulation does. */
#define CUT_GAIN 0.01
#define CUT_TRANSFERS 2e4
#define FINE_TRANSFERS 1e5

/* A mix, how groups hand on, over how many channels. */
typedef struct candidate {
    const ccl_i_mix_t *mix;
    uint8_t shapes[CCL_I_SKETCH_DIMENSIONS];
    uint32_t channels, parts, index, transfers;
    uint32_t cuts; /* parts are so many times those of the mix with its turns */
    bool hopeless; /* more than twice as many */
    bool wide;     /* more connections than a GPU has thread blocks: only where nothing else is */
    double estimate_s;
    double time_s[CCL_I_SKETCH_WAYS]; /* simulated */
    bool late;                        /* not simulated: no time left */
    uint8_t net;                      /* shape over the network */
} candidate_t;

/* ---------------------------------------------------------------- a schedule */

typedef struct maker {
    const ccl_i_space_t *space;
    const ccl_i_sketches_t *sketches;
    const candidate_t *candidate;
    ccl_i_grower_t *growers; /* one per part: what it grew last is kept */
    uint32_t *root;          /* [parts] its root; CCL_NONE: nothing yet */
    uint32_t *sketch, *turn; /* [nclasses][parts] */
} maker_t;

/* A channel near `wanted` that takes the hop's route: equal routes take turns by channel. */
static uint32_t channel_of(const ccl_i_exchange_t *x, uint32_t hop, uint32_t wanted) {
    uint32_t first = hop, last = hop + 1;

    while (first > 0 && x->hops[first - 1].src == x->hops[hop].src &&
           x->hops[first - 1].dst == x->hops[hop].dst)
        first--;
    while (last < x->nhops && x->hops[last].src == x->hops[hop].src &&
           x->hops[last].dst == x->hops[hop].dst)
        last++;
    if (x->hops[last - 1].channel != last - first - 1)
        return x->hops[hop].channel; /* not in turns */
    return wanted - wanted % (last - first) + x->hops[hop].channel;
}

static ccl_status_t tree(void *user, const ccl_i_want_t *want, ccl_i_tree_t *out,
                         ccl_error_t *err) {
    maker_t *m = user;
    const candidate_t *c = m->candidate;
    uint32_t part = want->part;
    ccl_i_grower_t *g = &m->growers[part];
    bool gather = want->kind == CCL_GATHER;
    uint32_t root = gather ? m->space->root : want->root;

    if (m->root[part] != root) {
        size_t at = (size_t)m->space->root_class[root] * c->parts + part;

        if (!ccl_i_grow(g, &m->sketches->items[m->sketch[at]], c->shapes, root, m->turn[at]))
            return ccl_fail(err, CCL_ERR_INTERNAL, "sketch: root %u does not reach all", root);
        m->root[part] = root;
    }
    if (m->space->scatter) {
        /* One destination: the way to it, in a gather turned round. */
        uint32_t last = gather ? want->root : want->targets[0];

        for (uint32_t r = last; g->got[r] != 1; r = g->parent[r]) {
            uint32_t channel = channel_of(&m->space->x, g->via[r], part % c->channels);

            if (gather)
                ccl_i_tree_add(out, r, g->parent[r], (1u << 16) - g->step[r], channel);
            else
                ccl_i_tree_add(out, g->parent[r], r, g->step[r], channel);
        }
        return CCL_OK;
    }
    for (uint32_t i = 1; i < g->norder; i++) {
        uint32_t r = g->order[i];

        ccl_i_tree_add(out, g->parent[r], r, g->step[r],
                       channel_of(&m->space->x, g->via[r], part % c->channels));
    }
    return CCL_OK;
}

/* Parts of the sketches in turn, so that neighbours in the buffer go different ways. */
static void assign_parts(const ccl_i_mix_t *mix, uint32_t class, uint32_t parts, uint32_t *sketch,
                         uint32_t *turn) {
    double due[CCL_I_SKETCH_MIX] = {0};
    uint32_t given[CCL_I_SKETCH_MIX] = {0};

    for (uint32_t p = 0; p < parts; p++) {
        uint32_t best = 0;

        for (uint32_t i = 0; i < mix->n; i++) {
            due[i] += (double)mix->count[class][i] / mix->parts;
            best = due[i] > due[best] + 1e-12 ? i : best;
        }
        due[best] -= 1;
        sketch[p] = mix->sketch[best];
        turn[p] = given[best]++;
    }
}

static ccl_status_t make(const ccl_ctx_t *ctx, const ccl_i_space_t *space,
                         const ccl_i_sketches_t *sketches, const candidate_t *candidate,
                         ccl_i_cluster_t *cluster, const ccl_collective_t *want,
                         ccl_schedule_t **out, ccl_error_t *err) {
    uint32_t parts = candidate->parts, made = 0;
    maker_t m = {.space = space, .sketches = sketches, .candidate = candidate};
    ccl_i_plan_t plan = {
        .name = "sketch", .parts = parts, .spread_roots = true, .tree = tree, .user = &m};
    ccl_status_t status = CCL_OK;

    m.growers = calloc(parts, sizeof *m.growers);
    m.root = calloc(parts, sizeof *m.root);
    m.sketch = calloc((size_t)parts * space->nclasses, sizeof *m.sketch);
    m.turn = calloc((size_t)parts * space->nclasses, sizeof *m.turn);
    if (!m.growers || !m.root || !m.sketch || !m.turn)
        status = ccl_fail_nomem(err);
    for (; status == CCL_OK && made < parts; made++) {
        m.root[made] = CCL_NONE;
        status = ccl_i_grower_init(&m.growers[made], space, err);
        if (status != CCL_OK)
            break;
    }
    if (status == CCL_OK) {
        for (uint32_t c = 0; c < space->nclasses; c++)
            assign_parts(candidate->mix, c, parts, m.sketch + (size_t)c * parts,
                         m.turn + (size_t)c * parts);
        plan.down_channels =
            ccl_i_cluster_down_channels(cluster, candidate->channels, 2 * cluster->max_gpus);
        status = ccl_i_plan_run(ctx, cluster, want, &plan, out, err);
    }
    while (made)
        ccl_i_grower_fini(&m.growers[--made]);
    free(m.growers);
    free(m.root);
    free(m.sketch);
    free(m.turn);
    return status;
}

/* ---------------------------------------------------------------- candidates */

typedef struct candidates {
    candidate_t *items;
    size_t n, cap;
} candidates_t;

static int by_estimate(const void *a, const void *b) {
    const candidate_t *x = a, *y = b;

    if (x->mix->given != y->mix->given) /* what the user asks for is tried */
        return x->mix->given ? -1 : 1;
    if (x->wide != y->wide)
        return x->wide ? 1 : -1;
    if (x->estimate_s != y->estimate_s)
        return x->estimate_s < y->estimate_s ? -1 : 1;
    if (x->parts != y->parts)
        return x->parts < y->parts ? -1 : 1;
    if (x->mix != y->mix)
        return x->mix < y->mix ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

/* So many times the parts that each way of a sub-demand, and of one root each way to pick single
   GPUs, has as many. */
static uint32_t turns(const ccl_i_space_t *space, const ccl_i_sketches_t *sketches,
                      const ccl_i_mix_t *mix) {
    uint32_t times = 0, most = 32 > space->rotations ? 32 : space->rotations;
    bool even = false;

    while (!even && ++times <= most) {
        even = true;
        for (uint32_t i = 0; i < mix->n; i++) {
            const ccl_i_sketch_t *sketch = &sketches->items[mix->sketch[i]];

            for (uint32_t c = 0; c < space->nclasses; c++)
                even &= mix->count[c][i] * times % sketch->variants == 0;
            if (space->root != CCL_NONE && sketch->uses_one)
                even &= mix->count[0][i] * times % space->rotations == 0;
        }
    }
    return even ? times : 1;
}

/* Thread blocks of a sketch over so many channels. */
static uint32_t blocks_of(const ccl_i_sketch_t *sketch, uint32_t channels) {
    uint32_t all = sketch->blocks * channels, turns = channels / sketch->variants;

    turns = sketch->turn_blocks * (turns + (channels % sketch->variants > 0));
    return turns < all ? turns : all;
}

/* Whether single GPUs of many servers are reached from one: chains do not change that. */
static bool fans_out(const ccl_i_space_t *space, const ccl_i_sketch_t *sketch) {
    return memchr(sketch->reach, CCL_I_REACH_EACH, (size_t)sketch->nstages * space->ngroups) !=
           NULL;
}

/*
 * What comes on top of latencies: links and overheads, or FIFOs that are too short for them; and
 * until a first piece (of a part in a micro-batch) has come all the way links wait.
 */
static double flow_s(const ccl_i_space_t *space, const ccl_i_mix_t *mix, uint32_t parts,
                     double chunk_bytes) {
    double pieces = parts * fmax(1, ccl_model_ceil(chunk_bytes / parts / space->piece_bytes));

    return fmax(mix->s_per_byte * chunk_bytes + mix->busy_s * (parts - 1.0) / mix->n,
                mix->fifo_s * parts / mix->n) +
           mix->fill_s_per_byte * chunk_bytes / pieces;
}

/* Into how many each part is cut, by the estimate. */
static uint32_t best_cuts(const ccl_i_space_t *space, const ccl_i_mix_t *mix, uint32_t parts,
                          double each, double chunk_bytes) {
    uint32_t best = 1;
    double best_s = mix->depth_s + flow_s(space, mix, parts, chunk_bytes);

    for (uint32_t cuts = 2; cuts <= CCL_I_SKETCH_CUTS && each * parts * cuts <= CUT_TRANSFERS;
         cuts *= 2) {
        double s = mix->depth_s + flow_s(space, mix, parts * cuts, chunk_bytes);

        if (s >= best_s * (1 - CUT_GAIN))
            break;
        best = cuts;
        best_s = s;
    }
    return best;
}

/* What is the same for all candidates. */
typedef struct costs {
    double chunk_bytes;
    double each;  /* transfers of a part */
    uint32_t sms; /* of the GPU that has fewest; 0: no limit */
} costs_t;

/* @param cuts  0: as the estimate says */
static bool add_candidate(candidates_t *all, const ccl_i_space_t *space,
                          const ccl_i_sketches_t *sketches, const ccl_i_mix_t *mix,
                          uint32_t channels, uint32_t cuts, const costs_t *costs,
                          ccl_i_shape_t net) {
    uint32_t sms = costs->sms;
    candidate_t c = {
        .mix = mix, .channels = channels, .index = (uint32_t)all->n, .net = (uint8_t)net};
    double chain_s = 0;
    bool chained = false;

    for (uint32_t d = 0; d < space->ndimensions; d++) {
        const ccl_dimension_t *dim = &space->symmetry->dimensions[space->dimension[d]];

        if (strcmp(dim->kind, "net") == 0 && dim->max_gpus > 2) {
            c.shapes[d] = (uint8_t)net;
            chained = true;
            if (net == CCL_I_SHAPE_CHAIN)
                chain_s += (dim->max_gpus - 2) * dim->max_latency_s;
        }
    }
    if (net == CCL_I_SHAPE_CHAIN && !chained)
        return true; /* the same as direct */
    for (uint32_t i = 0; i < mix->n && sms; i++) {
        const ccl_i_sketch_t *sketch = &sketches->items[mix->sketch[i]];

        /* In chains a GPU has fewer. */
        if (net == CCL_I_SHAPE_DIRECT || fans_out(space, sketch)) {
            c.wide |= blocks_of(sketch, channels) > sms;
            c.hopeless |= blocks_of(sketch, channels) > 2 * sms;
        }
    }
    c.parts = mix->parts * turns(space, sketches, mix);
    c.parts *= (channels + c.parts - 1) / c.parts;
    c.cuts = cuts ? cuts : best_cuts(space, mix, c.parts, costs->each, costs->chunk_bytes);
    c.parts *= c.cuts;
    c.estimate_s = mix->depth_s + chain_s + flow_s(space, mix, c.parts, costs->chunk_bytes);
    if (!ccl_grow(&all->items, &all->cap, all->n + 1, sizeof *all->items))
        return false;
    all->items[all->n++] = c;
    return true;
}

/* A mix of the user's, as it was given. */
static bool add_given(candidates_t *all, const ccl_i_space_t *space,
                      const ccl_i_sketches_t *sketches, const ccl_i_mix_t *mix, uint32_t channels,
                      const costs_t *costs) {
    candidate_t c = {.mix = mix,
                     .channels = mix->channels ? mix->channels : channels,
                     .cuts = mix->cuts ? mix->cuts : 1,
                     .index = (uint32_t)all->n};

    memcpy(c.shapes, mix->shapes, sizeof c.shapes);
    c.parts = mix->parts * turns(space, sketches, mix);
    c.parts *= (c.channels + c.parts - 1) / c.parts;
    c.parts *= c.cuts;
    c.estimate_s = mix->depth_s + flow_s(space, mix, c.parts, costs->chunk_bytes);
    if (!ccl_grow(&all->items, &all->cap, all->n + 1, sizeof *all->items))
        return false;
    all->items[all->n++] = c;
    return true;
}

static bool solved(const ccl_i_sketches_t *sketches, const ccl_i_mix_t *mix) {
    bool some = false;

    for (uint32_t i = 0; i < mix->n; i++)
        some |= sketches->items[mix->sketch[i]].sub != NULL;
    return some;
}

/* Of the GPU that has fewest; 0: no limit. */
static uint32_t least_sms(const ccl_topology_t *topo) {
    uint32_t sms = 0;

    for (uint32_t r = 0; r < topo->nranks; r++) {
        uint32_t mine = ccl_model_gpu(topo, r).sms;

        sms = mine && (sms == 0 || mine < sms) ? mine : sms;
    }
    return sms;
}

/* Every mix over one channel and over all, each shape; in the order of what they are estimated to
   take. */
static ccl_status_t fill(candidates_t *all, const ccl_i_space_t *space,
                         const ccl_i_sketches_t *sketches, const ccl_i_mixes_t *mixes,
                         uint32_t channels, bool fixed, const costs_t *costs, ccl_error_t *err) {
    for (size_t i = 0; i < mixes->n; i++) {
        const ccl_i_mix_t *mix = &mixes->items[i];

        if (mix->given) {
            if (!add_given(all, space, sketches, mix, channels, costs))
                return ccl_fail_nomem(err);
            continue;
        }
        for (int shape = CCL_I_SHAPE_DIRECT; shape <= CCL_I_SHAPE_CHAIN; shape++) {
            bool ok = add_candidate(all, space, sketches, mix, channels, 0, costs,
                                    (ccl_i_shape_t)shape);

            /* Every way of a solved sub-demand over a channel of its own. */
            if (ok && !fixed && shape == CCL_I_SHAPE_DIRECT) {
                uint32_t own = all->items[all->n - 1].parts;

                own /= all->items[all->n - 1].cuts;
                if (solved(sketches, mix) && own > 1 && own <= 32 && own != channels)
                    ok = add_candidate(all, space, sketches, mix, own, 0, costs,
                                       CCL_I_SHAPE_DIRECT);
            }
            if (ok && !fixed && channels > 1)
                ok = add_candidate(all, space, sketches, mix, 1, 0, costs, (ccl_i_shape_t)shape);
            if (!ok)
                return ccl_fail_nomem(err);
        }
    }
    if (all->n)
        qsort(all->items, all->n, sizeof *all->items, by_estimate);
    return CCL_OK;
}

/* ---------------------------------------------------------------- simulation */

typedef struct race {
    const ccl_ctx_t *ctx;
    const ccl_i_space_t *space;
    const ccl_i_sketches_t *sketches;
    const ccl_collective_t *want;
    candidate_t *candidates;
    double size_bytes, until_s; /* 0: no limit */
    ccl_routes_t **routes;      /* [workers] */
    ccl_i_cluster_t **clusters; /* [workers] */
    ccl_routes_t *given;
    uint32_t n, first; /* candidates; those before `first` are done */
    costs_t costs;
    double transfers;  /* of all that are simulated */
    atomic_uint done;
} race_t;

/* Ways of lowering that candidates are compared in. Sharing blocks between connections (state)
   costs at most a hundredth and takes long to find: it is left to the lowering of the winner. */
static const ccl_way_t TRIED[CCL_I_SKETCH_WAYS] = {
    {CCL_ORDER_HPDS, CCL_ALLOCATE_CONNECTION, CCL_GRANULARITY_TASK}};

static ccl_status_t simulate(const race_t *race, const ccl_ctx_t *ctx, ccl_routes_t *routes,
                             const ccl_schedule_t *schedule, const ccl_way_t *way, double *time_s,
                             ccl_error_t *err) {
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    ccl_program_t *program = NULL;
    ccl_sim_result_t *result = NULL;
    ccl_status_t status;

    lower.order = way->order;
    lower.allocation = way->allocation;
    lower.granularity = sim.granularity = way->granularity;
    lower.topo = race->space->topo;
    lower.routes = routes;
    lower.size_bytes = sim.size_bytes = race->size_bytes;
    ccl_lower_options_fit(&lower, race->space->topo);
    status = ccl_lower(ctx, schedule, &lower, &program, err);
    if (status == CCL_OK)
        status = ccl_sim_program(ctx, race->space->topo, routes, program, &sim, &result, err);
    if (status == CCL_OK)
        *time_s = result->time_s;
    ccl_sim_result_destroy(result);
    ccl_program_destroy(program);
    return status;
}

/* Routes and clusters fill as they are used: each worker has its own. */
static ccl_status_t ready(race_t *race, uint32_t worker, ccl_error_t *err) {
    if (worker == 0)
        race->routes[worker] = race->given;
    if (!race->routes[worker])
        race->routes[worker] = ccl_routes_create(race->space->topo);
    if (!race->routes[worker])
        return ccl_fail_nomem(err);
    if (!race->clusters[worker]) {
        ccl_i_cluster_t *cluster = calloc(1, sizeof *cluster);
        ccl_status_t status;

        if (!cluster)
            return ccl_fail_nomem(err);
        status = ccl_i_cluster_init(cluster, race->space->topo, race->routes[worker], err);
        if (status != CCL_OK) {
            free(cluster);
            return status;
        }
        race->clusters[worker] = cluster;
    }
    return CCL_OK;
}

static ccl_status_t run_one(uint32_t index, uint32_t worker, void *user, ccl_error_t *err) {
    race_t *race = user;
    candidate_t *c = &race->candidates[index += race->first];
    ccl_progress_t progress = {"simulate", atomic_load(&race->done), race->n, 0, 0};
    ccl_ctx_t ctx = race->ctx ? *race->ctx : (ccl_ctx_t)CCL_CTX_INIT;
    ccl_schedule_t *schedule = NULL;
    ccl_status_t status;

    ctx.log = NULL; /* its order would depend on the threads */
    if (worker != 0)
        ctx.progress = NULL;
    CCL_TRY(ccl_ctx_poll(&ctx, &progress));
    ctx.progress = NULL;
    ctx.threads = 1;
    if (race->until_s > 0 && index > 0 && ccl_now_s() > race->until_s) {
        c->late = true;
        return CCL_OK;
    }
    CCL_TRY(ready(race, worker, err));
    status = make(&ctx, race->space, race->sketches, c, race->clusters[worker], race->want,
                  &schedule, err);
    if (status == CCL_OK)
        c->transfers = schedule->ntransfers;
    for (uint32_t i = 0; i < CCL_I_SKETCH_WAYS && status == CCL_OK; i++) {
        ccl_error_t why = CCL_ERROR_INIT;

        status =
            simulate(race, &ctx, race->routes[worker], schedule, &TRIED[i], &c->time_s[i], &why);
        if (status == CCL_ERR_UNSUPPORTED) { /* more thread blocks than a GPU has */
            c->time_s[i] = INFINITY;
            status = CCL_OK;
        }
        if (status != CCL_OK && err)
            *err = why;
    }
    ccl_schedule_destroy(schedule);
    atomic_fetch_add(&race->done, 1);
    return status;
}

static void log_candidate(const ccl_ctx_t *ctx, const ccl_i_sketches_t *sketches,
                          const candidate_t *c) {
    ccl_text_t text = {0};

    for (uint32_t i = 0; i < c->mix->n; i++)
        ccl_text_printf(&text, "%s%u/%u %s", i ? "; " : "", c->mix->count[0][i], c->mix->parts,
                        sketches->items[c->mix->sketch[i]].name);
    ccl_text_printf(&text, ": %u parts, %u channels, %u transfers, estimate %.4g us, simulated",
                    c->parts, c->channels, c->transfers, c->estimate_s * 1e6);
    for (uint32_t i = 0; i < CCL_I_SKETCH_WAYS; i++)
        ccl_text_printf(&text, " %.4g us", c->time_s[i] * 1e6);
    if (text.data && !text.nomem)
        ccl_log(ctx, CCL_LOG_DEBUG, "sketch", "%s", text.data);
    ccl_text_fini(&text);
}

/*
 * Those worth a simulation come to the front: near the first, few of those whose estimates do not
 * tell them apart, together not too long.
 * @param transfers  simulated so far, added to.
 */
static uint32_t worth(candidates_t *all, const ccl_collective_t *want,
                      const ccl_i_sketch_run_t *run, double *transfers) {
    double each = ccl_i_collective_transfers(want);
    double limit_s;
    uint32_t n = 0;

    /* All that the user gave, and as many of the others as ever. */
    while (n < all->n && all->items[n].mix->given)
        n++;
    const uint32_t given = n;

    limit_s = given < all->n ? all->items[given].estimate_s * (1 + run->within) : 0;
    for (size_t i = given; i < all->n && n - given < run->most; i++) {
        candidate_t c = all->items[i];
        uint32_t alike = 0;

        if (c.estimate_s > limit_s)
            continue; /* those that are too wide come last, whatever their estimate */
        for (uint32_t k = 0; k < n; k++) {
            const candidate_t *other = &all->items[k];

            alike += fabs(other->estimate_s - c.estimate_s) <= 1e-9 * c.estimate_s &&
                     other->channels == c.channels && other->parts == c.parts;
        }
        if (alike >= ALIKE)
            continue;
        if (n > given && *transfers + each * c.parts > SIMULATED_TRANSFERS)
            break;
        *transfers += each * c.parts;
        memmove(all->items + n + 1, all->items + n, (i - n) * sizeof c);
        all->items[n++] = c;
    }
    return n;
}

/* Simulates candidates from `first` on; *best is the fastest of all so far. */
static ccl_status_t race_from(race_t *race, uint32_t first, uint32_t threads, uint32_t *best,
                              double *best_s, ccl_error_t *err) {
    race->first = first;
    CCL_TRY(ccl_parallel_for(race->n - first, threads, run_one, race, err));
    for (uint32_t i = first; i < race->n; i++) {
        const candidate_t *c = &race->candidates[i];

        if (c->late)
            continue;
        log_candidate(race->ctx, race->sketches, c);
        for (uint32_t k = 0; k < CCL_I_SKETCH_WAYS; k++) {
            if (c->time_s[k] < *best_s) {
                *best_s = c->time_s[k];
                *best = i;
            }
        }
    }
    return CCL_OK; /* none fits a GPU's thread blocks: the first, for lowering by state to try */
}

/* The candidate `from` over other channels, or in other cuts, joins the race, if it fits and was not
   there yet. @param cuts  0: as the estimate says */
static ccl_status_t add_variant(candidates_t *all, race_t *race, uint32_t from_index,
                                uint32_t channels, uint32_t cuts, ccl_error_t *err) {
    const candidate_t from = all->items[from_index];
    double each = race->costs.each;
    candidates_t one = {0};
    bool ok;

    if (from.mix->given)
        return CCL_OK; /* as it was given */
    ok = add_candidate(&one, race->space, race->sketches, from.mix, channels, cuts, &race->costs,
                       (ccl_i_shape_t)from.net);
    for (uint32_t i = 0; ok && one.n && i < race->n; i++) {
        const candidate_t *c = &all->items[i];

        if (c->mix == from.mix && c->channels == channels && c->cuts == one.items[0].cuts &&
            memcmp(c->shapes, from.shapes, sizeof from.shapes) == 0)
            one.n = 0;
    }
    if (ok && one.n && !one.items[0].hopeless &&
        race->transfers + each * one.items[0].parts <= SIMULATED_TRANSFERS) {
        ok = ccl_grow(&all->items, &all->cap, all->n + 1, sizeof *all->items);
        if (ok) { /* behind those raced so far */
            memmove(all->items + race->n + 1, all->items + race->n,
                    (all->n - race->n) * sizeof *all->items);
            all->items[race->n++] = one.items[0];
            all->n++;
            race->transfers += each * one.items[0].parts;
        }
    }
    free(one.items);
    race->candidates = all->items;
    return ok ? CCL_OK : ccl_fail_nomem(err);
}

/* The fastest so far, one candidate a mix; how many there are. */
static uint32_t leaders(const race_t *race, double limit_s, uint32_t out[FINE_MIXES]) {
    const candidate_t *c = race->candidates;
    uint32_t n = 0;

    while (n < FINE_MIXES) {
        uint32_t next = CCL_NONE;

        for (uint32_t i = 0; i < race->n; i++) {
            bool tried = c[i].late || !isfinite(c[i].time_s[0]);

            for (uint32_t k = 0; k < n; k++)
                tried |= c[out[k]].mix == c[i].mix;
            if (!tried && (next == CCL_NONE || c[i].time_s[0] < c[next].time_s[0]))
                next = i;
        }
        if (next == CCL_NONE || c[next].time_s[0] > limit_s)
            break;
        out[n++] = next;
    }
    return n;
}

/*
 * What several channels gain (thread blocks that fill a link, NICs, flows that do not wait for each
 * other) no estimate tells: the fastest once more over four, then what wins over other numbers.
 */
static ccl_status_t race_fine(candidates_t *all, race_t *race, const ccl_i_sketch_run_t *run,
                              uint32_t threads, uint32_t *best, double *best_s, ccl_error_t *err) {
    uint32_t done = race->n, leader[FINE_MIXES + 1];
    uint32_t n = leaders(race, *best_s * (1 + run->within), leader);

    leader[n++] = 0; /* the best estimate, which may be held up by its one channel */
    for (uint32_t k = 0; k < n; k++) {
        const ccl_i_mix_t *mix = all->items[leader[k]].mix;

        /* Where latency counts most there is nothing to gain. */
        if (mix->s_per_byte * race->costs.chunk_bytes >= mix->depth_s)
            CCL_TRY(add_variant(all, race, leader[k], FIRST_CHANNELS, 0, err));
    }
    if (race->n > done)
        CCL_TRY(race_from(race, done, threads, best, best_s, err));
    done = race->n;
    for (size_t f = 0; f < CCL_ARRAY_LEN(FINE_CHANNELS); f++) {
        /* Beyond four only where four were better. */
        if (FINE_CHANNELS[f] > FIRST_CHANNELS && all->items[*best].channels != FIRST_CHANNELS)
            break;
        CCL_TRY(add_variant(all, race, *best, FINE_CHANNELS[f], 0, err));
    }
    if (race->n > done)
        CCL_TRY(race_from(race, done, threads, best, best_s, err));
    done = race->n;
    for (double before_s = INFINITY; before_s * (1 - CUT_GAIN) > *best_s; done = race->n) {
        const candidate_t c = all->items[*best];

        before_s = *best_s;
        if (c.cuts < CCL_I_SKETCH_CUTS && 2 * c.parts * race->costs.each <= FINE_TRANSFERS)
            CCL_TRY(add_variant(all, race, *best, c.channels, 2 * c.cuts, err));
        CCL_TRY(race_from(race, done, threads, best, best_s, err));
    }
    return CCL_OK;
}

ccl_status_t ccl_i_sketch_choose(const ccl_ctx_t *ctx, const ccl_i_space_t *space,
                                 const ccl_i_sketches_t *sketches, const ccl_i_mixes_t *mixes,
                                 ccl_routes_t *routes, const ccl_collective_t *want,
                                 const ccl_i_sketch_run_t *run, ccl_i_chosen_t *chosen,
                                 ccl_schedule_t **out, ccl_error_t *err) {
    candidates_t all = {0};
    race_t race = {.ctx = ctx,
                   .space = space,
                   .sketches = sketches,
                   .want = want,
                   .size_bytes = run->size_bytes,
                   .until_s = run->until_s,
                   .given = routes,
                   .costs = {.each = ccl_i_collective_transfers(want),
                             .sms = least_sms(space->topo)}};
    uint32_t threads = ctx && ctx->threads ? ctx->threads : ccl_core_count();
    uint32_t channels = run->channels, best = 0;
    double best_s = INFINITY;
    ccl_status_t status;

    race.costs.chunk_bytes = run->size_bytes * (want->nchunks ? want->chunks[0].share : 1);
    if (want->kind == CCL_ALLREDUCE)
        race.costs.chunk_bytes /= space->topo->nranks; /* a chunk of every root */
    race.routes = calloc(threads, sizeof(ccl_routes_t *));
    race.clusters = calloc(threads, sizeof(ccl_i_cluster_t *));
    if (!race.routes || !race.clusters) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    CCL_TRY_GOTO(ready(&race, 0, err), status, end);
    if (channels == 0)
        channels = ccl_i_cluster_channels(race.clusters[0], race.clusters[0]->max_gpus - 1,
                                          2 * race.clusters[0]->max_gpus,
                                          ccl_i_collective_transfers(want));
    CCL_TRY_GOTO(
        fill(&all, space, sketches, mixes, channels, run->channels != 0, &race.costs, err), status,
        end);
    race.n = worth(&all, want, run, &race.transfers);
    race.candidates = all.items;
    if (race.n > 1 || run->fine) /* else there is no choice */
        CCL_TRY_GOTO(race_from(&race, 0, threads, &best, &best_s, err), status, end);
    if (run->fine)
        CCL_TRY_GOTO(race_fine(&all, &race, run, threads, &best, &best_s, err), status, end);
    if (run->stats)
        run->stats->candidates += all.n;
    chosen->mix = all.items[best].mix;
    chosen->channels = all.items[best].channels;
    chosen->cuts = all.items[best].cuts;
    memcpy(chosen->shapes, all.items[best].shapes, sizeof chosen->shapes);
    status = make(ctx, space, sketches, &all.items[best], race.clusters[0], want, out, err);
    for (uint32_t i = 0; status == CCL_OK && i < race.n; i++) {
        (*out)->limited |= all.items[i].late;
        if (run->stats)
            run->stats->simulated += race.n > 1 && !all.items[i].late;
    }
end:
    for (uint32_t i = 0; i < threads; i++) {
        if (race.clusters && race.clusters[i]) {
            ccl_i_cluster_fini(race.clusters[i]);
            free(race.clusters[i]);
        }
        if (race.routes && race.routes[i] != routes)
            ccl_routes_destroy(race.routes[i]);
    }
    free(race.clusters);
    free(race.routes);
    free(all.items);
    return status;
}
