/*
 * Trees of a sub-demand, and those that another synthesizer's schedule is made of.
 */
#include "synth/sketch/solve.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_VARIANTS = 32 };

ccl_i_trees_t *ccl_i_trees_create(uint32_t n, uint32_t variants) {
    ccl_i_trees_t *t = calloc(1, sizeof *t);
    size_t cells = (size_t)n * variants * n;

    if (!t)
        return NULL;
    t->n = n;
    t->variants = variants;
    t->parent = malloc((cells + 1) * sizeof *t->parent);
    t->step = calloc(cells + 1, sizeof *t->step);
    t->channel = calloc(cells + 1, sizeof *t->channel);
    if (!t->parent || !t->step || !t->channel) {
        ccl_i_trees_destroy(t);
        return NULL;
    }
    memset(t->parent, 0xff, cells * sizeof *t->parent);
    return t;
}

void ccl_i_trees_destroy(ccl_i_trees_t *trees) {
    if (!trees)
        return;
    free(trees->parent);
    free(trees->step);
    free(trees->channel);
    free(trees);
}

/*
 * Another synthesizer's schedule as trees; *out NULL when there are too many, or they are not
 * equal.
 * @param rank  [n] rank, in the schedule, of each place
 */
static ccl_status_t trees_of(const ccl_schedule_t *schedule, const uint32_t *place, uint32_t n,
                             bool all, ccl_i_trees_t **out, ccl_error_t *err) {
    uint32_t variants = schedule->coll->nchunks / (all ? n : 1);
    uint32_t *variant = calloc(schedule->coll->nchunks + (size_t)1, sizeof *variant);
    uint32_t *next = calloc(n, sizeof *next);
    ccl_i_trees_t *trees = NULL;
    bool ok = variants >= 1 && variants <= MOST_VARIANTS;

    if (!variant || !next) {
        free(variant);
        free(next);
        return ccl_fail_nomem(err);
    }
    for (uint32_t c = 0; ok && c < schedule->coll->nchunks; c++) {
        const ccl_chunk_t *chunk = &schedule->coll->chunks[c];

        variant[c] = next[chunk->sources[0]]++;
        ok = variant[c] < variants &&
             fabs(chunk->share - schedule->coll->chunks[0].share) <= 1e-9 * chunk->share;
    }
    if (ok)
        trees = ccl_i_trees_create(n, variants);
    for (uint32_t i = 0; trees && i < schedule->ntransfers; i++) {
        const ccl_transfer_t *t = &schedule->transfers[i];
        uint32_t from = place[schedule->coll->chunks[t->chunk].sources[0]];
        size_t at = ((size_t)from * variants + variant[t->chunk]) * n + place[t->dst];

        if (place[t->dst] == from || trees->parent[at] != CCL_NONE)
            continue; /* it has it already */
        trees->parent[at] = place[t->src];
        trees->step[at] = t->step;
        trees->channel[at] = t->channel;
    }
    free(variant);
    free(next);
    if (ok && !trees)
        return ccl_fail_nomem(err);
    *out = trees;
    return CCL_OK;
}

ccl_status_t ccl_i_trees_ask(const ccl_ctx_t *ctx, const ccl_i_trees_ask_t *ask,
                             const ccl_i_part_t *part, ccl_i_trees_t **out, ccl_error_t *err) {
    const ccl_topology_t *topo = ask->topo;
    ccl_routes_t *routes = ccl_routes_create(topo);
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_collective_t *want = NULL;
    ccl_schedule_t *schedule = NULL;
    uint32_t *place = calloc(part->n, sizeof *place);
    const char *why = NULL;
    ccl_error_t refused = CCL_ERROR_INIT;
    ccl_status_t status = routes && place ? CCL_OK : ccl_fail_nomem(err);
    bool all = part->root == CCL_NONE;

    if (status == CCL_OK)
        status = ccl_collective_create(all ? CCL_ALLGATHER : CCL_BROADCAST, part->n, 1,
                                       all ? 0 : part->rank[part->root], &want, err);
    if (status != CCL_OK || !ask->ops->supports(topo, want, &why))
        goto end;
    for (uint32_t i = 0; i < part->n; i++) /* parts of a cluster are numbered by place */
        place[ask->whole ? part->rank[i] : i] = i;
    options.size_bytes = ask->size_bytes;
    options.restarts = 1;
    options.part = true;
    for (uint32_t chunks = ask->cut; status == CCL_OK && !*out; chunks = CCL_I_MOST_CUTS) {
        options.chunks = chunks;
        status = ask->ops->synthesize(ctx, topo, routes, want, &options, &schedule, &refused);
        if (status == CCL_OK)
            status = trees_of(schedule, place, part->n, all, out, err);
        else if (status == CCL_UNSUPPORTED || status == CCL_INFEASIBLE || status == CCL_ERR_USAGE ||
                 status == CCL_ERR_INPUT) {
            status = CCL_OK; /* no answer of this kind */
            break;
        } else if (err)
            *err = refused;
        ccl_schedule_destroy(schedule);
        schedule = NULL;
        if (chunks)
            break;
    }
end:
    ccl_schedule_destroy(schedule);
    ccl_collective_destroy(want);
    ccl_routes_destroy(routes);
    free(place);
    return status;
}
