/* Candidates of the sketch synthesizer: their schedules, and estimates of what they take. */
#include "synth/sketch/candidates.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Parts are cut further while an estimate gains more than a hundredth by it, up to this many
   transfers. */
#define CUT_TRANSFERS 2e4

/* ---------------------------------------------------------------- a schedule */

typedef struct maker {
    const ccl_i_space_t *space;
    const ccl_i_sketches_t *sketches;
    const ccl_i_candidate_t *candidate;
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
    const ccl_i_candidate_t *c = m->candidate;
    uint32_t part = want->part;
    ccl_i_grower_t *g = &m->growers[part];
    bool gather = want->kind == CCL_GATHER;
    uint32_t root = gather ? m->space->root : want->root;
    /* Above the others', apart from them also where channels choose among up to 8 equal routes. */
    const uint32_t apart = (c->channels + 7) / 8 * 8;
    /* Of pieces that are alike those of the first cut flow first. */
    uint32_t late = c->flow_bytes > 0 ? part / (c->parts / c->cuts) : 0;

    if (m->root[part] != root) {
        size_t at = (size_t)m->space->root_class[root] * c->parts + part;

        if (!ccl_i_grow(g, &m->sketches->items[m->sketch[at]], c->shapes, root, m->turn[at]))
            return ccl_fail(err, CCL_UNSUPPORTED, /* chains where a group lacks hops */
                            "sketch: root %u does not reach all", root);
        m->root[part] = root;
    }
    if (m->space->scatter) {
        /* One destination: the way to it, in a gather time-reversed. */
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

        ccl_i_tree_add(
            out, g->parent[r], r, g->step[r] + late,
            channel_of(&m->space->x, g->via[r],
                       part % c->channels + (c->apart && g->parent[r] != root ? apart : 0)));
    }
    return CCL_OK;
}

/* Parts of the sketches in turn, so that neighbours in the buffer go different ways. */
static void assign_parts(const ccl_i_sketches_t *sketches, const ccl_i_mix_t *mix, uint32_t class,
                         uint32_t parts, uint32_t *sketch, uint32_t *turn) {
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
        if (sketches->items[sketch[p]].uses_one) /* in another it might not reach all */
            turn[p] %= sketches->items[sketch[p]].turns;
    }
}

ccl_status_t ccl_i_candidate_make(const ccl_i_racer_t *with, const ccl_i_space_t *space,
                                  const ccl_i_sketches_t *sketches,
                                  const ccl_i_candidate_t *candidate, const ccl_collective_t *want,
                                  ccl_schedule_t **out, ccl_error_t *err) {
    ccl_i_cluster_t *cluster = with->cluster;
    uint32_t parts = candidate->parts, grown = 0;
    ccl_schedule_t *made = NULL;
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
    for (; status == CCL_OK && grown < parts; grown++) {
        m.root[grown] = CCL_NONE;
        status = ccl_i_grower_init(&m.growers[grown], space, err);
        if (status != CCL_OK)
            break;
    }
    if (status == CCL_OK) {
        for (uint32_t c = 0; c < space->nclasses; c++)
            assign_parts(sketches, candidate->mix, c, parts, m.sketch + (size_t)c * parts,
                         m.turn + (size_t)c * parts);
        plan.down_channels =
            ccl_i_cluster_down_channels(cluster, candidate->channels, 2 * cluster->max_gpus);
        status = ccl_i_plan_run(with->ctx, cluster, want, &plan, &made, err);
    }
    if (status == CCL_OK && candidate->flow_bytes > 0) {
        status = ccl_schedule_order_list(with->ctx, made, space->topo, cluster->routes,
                                         candidate->flow_bytes, out, err);
        ccl_schedule_destroy(made);
    } else if (status == CCL_OK) {
        *out = made;
    }
    while (grown)
        ccl_i_grower_fini(&m.growers[--grown]);
    free(m.growers);
    free(m.root);
    free(m.sketch);
    free(m.turn);
    return status;
}

ccl_status_t ccl_i_candidate_sign(const ccl_i_space_t *space, const ccl_i_sketches_t *sketches,
                                  ccl_i_candidate_t *c, bool steps, ccl_error_t *err) {
    uint32_t nranks = space->topo->nranks, parts = c->parts / (c->cuts ? c->cuts : 1);
    uint32_t *sketch = calloc(parts, sizeof *sketch), *turn = calloc(parts, sizeof *turn);
    uint32_t *via = malloc(nranks * sizeof *via);
    uint32_t head[] = {c->channels, c->parts};
    uint64_t hash = ccl_hash64(head, sizeof head, 0);
    ccl_i_grower_t g;
    ccl_status_t status = CCL_OK;

    if (!sketch || !turn || !via)
        status = ccl_fail_nomem(err);
    if (status == CCL_OK)
        status = ccl_i_grower_init(&g, space, err);
    /* Of every class the first root, and one that is not in its place. */
    for (uint32_t r = 0; status == CCL_OK && r < nranks; r++) {
        bool first = true;

        for (uint32_t i = 0; i < r; i++)
            first &= space->root_class[i] != space->root_class[r];
        if (space->root != CCL_NONE ? r != space->root : !first && r != nranks - 2)
            continue;
        assign_parts(sketches, c->mix, space->root_class[r], parts, sketch, turn);
        for (uint32_t p = 0; p < parts; p++) {
            ccl_i_grow(&g, &sketches->items[sketch[p]], c->shapes, r, turn[p]);
            memset(via, 0xff, nranks * sizeof *via);
            for (uint32_t k = 1; k < g.norder; k++)
                via[g.order[k]] = g.via[g.order[k]];
            hash = ccl_hash64(via, nranks * sizeof *via, hash);
            for (uint32_t k = 1; k < g.norder && steps; k++)
                hash = ccl_hash64(&g.step[g.order[k]], sizeof *g.step, hash);
        }
    }
    if (status == CCL_OK) {
        ccl_i_grower_fini(&g);
        c->signature = hash;
    }
    free(sketch);
    free(turn);
    free(via);
    return status;
}

/* ---------------------------------------------------------------- candidates */

static int by_estimate(const void *a, const void *b) {
    const ccl_i_candidate_t *x = a, *y = b;

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

uint32_t ccl_i_candidate_parts(const ccl_i_space_t *space, const ccl_i_sketches_t *sketches,
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
    return mix->parts * (even ? times : 1);
}

/* Thread blocks of a sketch over `channels`. */
static uint32_t blocks_of(const ccl_i_sketch_t *sketch, uint32_t channels) {
    uint32_t all = sketch->blocks * channels, turns = channels / sketch->variants;

    turns = sketch->turn_blocks * (turns + (channels % sketch->variants > 0));
    return turns < all ? turns : all;
}

/* Most GPUs that a holder hands on to in a group of a dimension: all others, or one a server. */
static uint32_t receivers_of(const ccl_i_space_t *space, const ccl_i_sketches_t *sketches,
                             const ccl_i_mix_t *mix, uint32_t d) {
    const ccl_dimension_t *near = &space->symmetry->dimensions[space->dimension[0]];
    const ccl_dimension_t *dim = &space->symmetry->dimensions[space->dimension[d]];
    uint32_t most = 1;

    for (uint32_t i = 0; i < mix->n; i++) {
        const ccl_i_sketch_t *sketch = &sketches->items[mix->sketch[i]];

        for (uint32_t k = 0; k < sketch->nstages; k++) {
            const uint8_t *reach = sketch->reach + (size_t)k * space->ngroups;

            for (uint32_t g = space->first_group[d]; g < space->first_group[d + 1]; g++) {
                if (reach[g] >= CCL_I_REACH_ALL)
                    return dim->max_gpus - 1;
                if (reach[g] == CCL_I_REACH_EACH && near->ngroups > 1)
                    most = near->ngroups - 1;
            }
        }
    }
    return most;
}

/*
 * What comes on top of latencies: links and overheads, or FIFOs that are too short for them; and
 * until a first piece (of a part in a micro-batch) has come all the way links wait.
 * @param fill  shape over the network with which that is reckoned
 */
static double flow_s(const ccl_i_space_t *space, const ccl_i_mix_t *mix, uint32_t parts,
                     double chunk_bytes, ccl_i_shape_t fill) {
    double pieces = parts * fmax(1, ccl_model_ceil(chunk_bytes / parts / space->piece_bytes));

    return fmax(mix->s_per_byte * chunk_bytes + mix->busy_s * (parts - 1.0) / mix->n,
                mix->fifo_s * parts / mix->n) +
           mix->fill_s_per_byte[fill] * chunk_bytes / pieces;
}

double ccl_i_mix_estimate(const ccl_i_space_t *space, const ccl_i_sketches_t *sketches,
                          const ccl_i_mix_t *mix, double chunk_bytes) {
    uint32_t parts = ccl_i_candidate_parts(space, sketches, mix);

    return mix->depth_s + flow_s(space, mix, parts, chunk_bytes, CCL_I_SHAPE_DIRECT);
}

static double transfers_of(const ccl_i_mix_t *mix, uint32_t parts, const ccl_i_costs_t *costs) {
    return costs->ways * mix->transfers / mix->parts * parts;
}

/* Into how many each part is cut, by the estimate. */
static uint32_t best_cuts(const ccl_i_space_t *space, const ccl_i_mix_t *mix, uint32_t parts,
                          const ccl_i_costs_t *costs, ccl_i_shape_t fill) {
    uint32_t best = 1;
    double best_s = mix->depth_s + flow_s(space, mix, parts, costs->chunk_bytes, fill);

    for (uint32_t cuts = 2;
         cuts <= CCL_I_SKETCH_CUTS && transfers_of(mix, parts * cuts, costs) <= CUT_TRANSFERS;
         cuts *= 2) {
        double s = mix->depth_s + flow_s(space, mix, parts * cuts, costs->chunk_bytes, fill);

        if (s >= best_s * (1 - CCL_I_SKETCH_CUT_GAIN))
            break;
        best = cuts;
        best_s = s;
    }
    return best;
}

bool ccl_i_candidates_add(ccl_i_candidates_t *all, const ccl_i_space_t *space,
                          const ccl_i_sketches_t *sketches, const ccl_i_costs_t *costs,
                          ccl_i_variant_t as) {
    const ccl_i_mix_t *mix = as.mix;
    const ccl_i_shape_t net = as.net;
    uint32_t channels = as.channels, sms = costs->sms;
    ccl_i_candidate_t c = {
        .mix = mix, .channels = channels, .index = (uint32_t)all->n, .net = (uint8_t)net};
    double chain_s = 0;
    ccl_i_shape_t fill = net;

    if (!ccl_i_space_shapes(space, net, c.shapes) && net != CCL_I_SHAPE_DIRECT)
        return true; /* the same as direct */
    if (net != CCL_I_SHAPE_DIRECT && space->scatter)
        return true; /* relays would hand on what is for all behind them */
    for (uint32_t d = 0; d < space->ndimensions; d++) {
        const ccl_dimension_t *dim = &space->symmetry->dimensions[space->dimension[d]];

        if (c.shapes[d] != CCL_I_SHAPE_DIRECT)
            chain_s += (ccl_i_chain_length(net, receivers_of(space, sketches, mix, d)) - 1) *
                       dim->max_latency_s;
    }
    for (uint32_t i = 0; i < mix->n && sms; i++) {
        uint32_t blocks = blocks_of(&sketches->items[mix->sketch[i]], channels);

        c.wide |= blocks > sms;
        c.hopeless |= blocks > 2 * sms;
    }
    c.parts = ccl_i_candidate_parts(space, sketches, mix);
    c.parts *= (channels + c.parts - 1) / c.parts;
    /* When chains start tells apart those that there is no other way for, or of which few are
       simulated. */
    if (!c.wide && transfers_of(mix, c.parts, costs) <= CCL_I_SKETCH_LARGE)
        fill = CCL_I_SHAPE_DIRECT;
    if (net != CCL_I_SHAPE_DIRECT) /* in chains a GPU has fewer: worth() counts */
        c.wide = c.hopeless = false;
    c.cuts = as.cuts ? as.cuts : best_cuts(space, mix, c.parts, costs, fill);
    c.parts *= c.cuts;
    c.transfers = transfers_of(mix, c.parts, costs);
    if (c.transfers > CCL_I_SKETCH_TRANSFERS && c.parts > mix->parts && !costs->fixed)
        return true; /* too many: fewer channels do */
    c.estimate_s = mix->depth_s + chain_s + flow_s(space, mix, c.parts, costs->chunk_bytes, fill);
    if (!ccl_grow(&all->items, &all->cap, all->n + 1, sizeof *all->items))
        return false;
    all->items[all->n++] = c;
    return true;
}

/* A mix of the user's, as it was given. */
static bool add_given(ccl_i_candidates_t *all, const ccl_i_space_t *space,
                      const ccl_i_sketches_t *sketches, const ccl_i_mix_t *mix, uint32_t channels,
                      const ccl_i_costs_t *costs) {
    ccl_i_candidate_t c = {.mix = mix,
                           .channels = mix->channels ? mix->channels : channels,
                           .cuts = mix->cuts ? mix->cuts : 1,
                           .flow_bytes = mix->flows ? costs->size_bytes : 0,
                           .apart = mix->apart,
                           .index = (uint32_t)all->n};

    memcpy(c.shapes, mix->shapes, sizeof c.shapes);
    c.parts = ccl_i_candidate_parts(space, sketches, mix);
    c.parts *= (c.channels + c.parts - 1) / c.parts;
    c.parts *= c.cuts;
    c.transfers = transfers_of(mix, c.parts, costs);
    c.estimate_s =
        mix->depth_s + flow_s(space, mix, c.parts, costs->chunk_bytes, CCL_I_SHAPE_DIRECT);
    if (!ccl_grow(&all->items, &all->cap, all->n + 1, sizeof *all->items))
        return false;
    all->items[all->n++] = c;
    return true;
}

bool ccl_i_mix_solved(const ccl_i_sketches_t *sketches, const ccl_i_mix_t *mix) {
    bool some = false;

    for (uint32_t i = 0; i < mix->n; i++)
        some |= sketches->items[mix->sketch[i]].sub != NULL;
    return some;
}

/* Every mix over one channel and over all, each shape; in the order of what they are estimated to
   take. */
ccl_status_t ccl_i_candidates_fill(ccl_i_candidates_t *all, const ccl_i_space_t *space,
                                   const ccl_i_sketches_t *sketches, const ccl_i_mixes_t *mixes,
                                   uint32_t channels, const ccl_i_costs_t *costs,
                                   ccl_error_t *err) {
    for (size_t i = 0; i < mixes->n; i++) {
        const ccl_i_mix_t *mix = &mixes->items[i];

        if (mix->given) {
            if (!add_given(all, space, sketches, mix, channels, costs))
                return ccl_fail_nomem(err);
            continue;
        }
        for (int shape = CCL_I_SHAPE_DIRECT; shape <= CCL_I_SHAPE_CHAINS; shape++) {
            bool ok =
                ccl_i_candidates_add(all, space, sketches, costs,
                                     (ccl_i_variant_t){mix, channels, 0, (ccl_i_shape_t)shape});

            /* Every way of a solved sub-demand over a channel of its own. */
            if (ok && !costs->fixed && shape == CCL_I_SHAPE_DIRECT) {
                uint32_t own = ccl_i_candidate_parts(space, sketches, mix);

                own *= (channels + own - 1) / own;
                if (ccl_i_mix_solved(sketches, mix) && own > 1 && own <= 32 && own != channels)
                    ok = ccl_i_candidates_add(all, space, sketches, costs,
                                              (ccl_i_variant_t){mix, own, 0, CCL_I_SHAPE_DIRECT});
            }
            if (ok && !costs->fixed && channels > 1)
                ok = ccl_i_candidates_add(all, space, sketches, costs,
                                          (ccl_i_variant_t){mix, 1, 0, (ccl_i_shape_t)shape});
            if (!ok)
                return ccl_fail_nomem(err);
        }
    }
    if (all->n)
        qsort(all->items, all->n, sizeof *all->items, by_estimate);
    return CCL_OK;
}

ccl_status_t ccl_i_candidate_fits(const ccl_i_space_t *space, const ccl_i_sketches_t *sketches,
                                  const ccl_i_candidate_t *c, uint32_t sms, bool *fits_out,
                                  ccl_error_t *err) {
    const ccl_i_exchange_t *x = &space->x;
    uint8_t *used = calloc(x->nhops + (size_t)1, 1);
    uint32_t *blocks = calloc(x->nranks, sizeof *blocks), most = 0;
    ccl_i_grower_t g;
    ccl_status_t status = used && blocks ? CCL_OK : ccl_fail_nomem(err);

    if (status == CCL_OK)
        status = ccl_i_grower_init(&g, space, err);
    for (uint32_t i = 0; status == CCL_OK && i < c->mix->n; i++) {
        const ccl_i_sketch_t *sketch = &sketches->items[c->mix->sketch[i]];
        uint32_t turns = sketch->uses_one ? space->rotations : 1;

        for (uint32_t r = 0; r < x->nranks; r++) {
            for (uint32_t turn = 0; turn < turns && turn < c->parts; turn++) {
                if (space->root == CCL_NONE || space->root == r)
                    ccl_i_grow(&g, sketch, c->shapes, r, turn);
                else
                    g.norder = 0;
                for (uint32_t k = 1; k < g.norder; k++)
                    used[g.via[g.order[k]]] = 1;
            }
        }
    }
    for (uint32_t h = 0; status == CCL_OK && h < x->nhops; h++) {
        blocks[x->hops[h].src] += used[h];
        blocks[x->hops[h].dst] += used[h];
    }
    for (uint32_t r = 0; status == CCL_OK && r < x->nranks; r++)
        most = blocks[r] > most ? blocks[r] : most;
    *fits_out = most * c->channels <= sms;
    if (status == CCL_OK)
        ccl_i_grower_fini(&g);
    free(used);
    free(blocks);
    return status;
}
