/* Collectives inside a cluster (homColl), by any of our synthesizers, as hops by chunk. */
#include "synth/c2c/c2c.h"
#include "synth/common/race.h"
#include "synth/compose/compose.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Tried where nobody names one: a vendor's library has a ring and something that spreads at once.
 */
static const char *const tried[] = {"direct", "hm", "ring"};

typedef struct part {
    const ccl_topology_t *topo;
    ccl_routes_t *routes;
    const ccl_collective_t *want;
    const char *inner; /* synthesizer; NULL: the fastest of those that are tried */
    const ccl_synth_options_t *options;
} part_t;

static ccl_status_t make(void *user, uint32_t index, const ccl_i_racer_t *with,
                         ccl_schedule_t **out, ccl_error_t *err) {
    const part_t *p = user;
    return ccl_synthesize(with->ctx, tried[index], p->topo, with->routes, p->want, p->options, out,
                          err);
}

/* The fastest schedule of the part, of those that are tried or by the one that is named. */
static ccl_status_t choose(const ccl_ctx_t *ctx, part_t *p, ccl_schedule_t **out,
                           ccl_error_t *err) {
    const char *why_not = NULL;
    const ccl_synth_ops_t *ops = p->inner ? ccl_synth_find(p->inner) : NULL;
    /* Gather, Scatter and AllToAll send and receive, whatever a library has for the others. */
    if (p->inner &&
        !(ops && p->want->kind == CCL_ALLTOALL && !ops->supports(p->topo, p->want, &why_not)))
        return ccl_synthesize(ctx, p->inner, p->topo, p->routes, p->want, p->options, out, err);
    ccl_i_race_t race = {.ctx = ctx,
                         .topo = p->topo,
                         .routes = p->routes,
                         .phase = "simulate",
                         .make = make,
                         .in_turn = true, /* synthesizers have threads of their own */
                         .user = p,
                         .level = CCL_GRANULARITY_ALGORITHM,
                         .size_bytes = p->options->size_bytes};
    ccl_status_t status = ccl_i_race_run(&race, CCL_ARRAY_LEN(tried), err);
    if (status == CCL_OK)
        status = ccl_i_race_take(&race, out, err);
    ccl_i_race_fini(&race);
    return status;
}

static ccl_status_t take_hops(const ccl_schedule_t *s, const ccl_i_c2c_cluster_t *cluster,
                              uint32_t blocks, ccl_i_c2c_hom_t *out, ccl_error_t *err) {
    uint32_t nk = s->coll->nchunks;
    out->first = calloc(nk + (size_t)2, sizeof *out->first);
    out->hops = calloc(s->ntransfers + (size_t)1, sizeof *out->hops);
    if (!out->first || !out->hops)
        return ccl_fail_nomem(err);
    out->by = ccl_synth_find(s->name) ? ccl_synth_find(s->name)->name : NULL;
    out->nchunks = nk;
    out->nchannels = s->nchannels;
    out->nsteps = s->nsteps ? s->nsteps : 1;
    out->parts = nk / blocks;
    for (uint32_t i = 0; i < s->ntransfers; i++)
        out->first[s->transfers[i].chunk + 2]++;
    for (uint32_t k = 0; k < nk; k++)
        out->first[k + 2] += out->first[k + 1];
    for (uint32_t i = 0; i < s->ntransfers; i++) {
        const ccl_transfer_t *t = &s->transfers[i];
        out->hops[out->first[t->chunk + 1]++] = (ccl_i_c2c_hop_t){
            cluster->ranks[t->src], cluster->ranks[t->dst], t->step, t->channel, t->reduce};
    }
    return CCL_OK;
}

ccl_status_t ccl_i_c2c_hom_init(const ccl_ctx_t *ctx, const ccl_i_cluster_t *whole,
                                const ccl_i_c2c_cluster_t *cluster,
                                const ccl_i_c2c_hom_want_t *want,
                                const ccl_synth_options_t *options, ccl_i_c2c_hom_t *out,
                                ccl_error_t *err) {
    ccl_synth_options_t inner = *options;
    ccl_topology_t *part = NULL;
    ccl_routes_t *part_routes = NULL;
    ccl_collective_t *coll = NULL;
    ccl_schedule_t *schedule = NULL;
    ccl_error_t why = CCL_ERROR_INIT;
    memset(out, 0, sizeof *out);
    out->parts = 1;
    if (cluster->nranks == 1)
        return CCL_OK;
    ccl_status_t status = ccl_i_topology_part(whole->topo, whole->routes, cluster->ranks,
                                              cluster->nranks, want->sms_share, &part, &why);
    if (status == CCL_ERR_INPUT)
        return ccl_fail(err, CCL_UNSUPPORTED,
                        "the cluster of rank %u does not hang together: %.200s", cluster->ranks[0],
                        why.text);
    if (status != CCL_OK) {
        if (err)
            *err = why;
        return status;
    }
    inner.size_bytes = want->size_bytes;
    inner.channels = want->channels;
    inner.chunks = 0;
    inner.compose = CCL_COMPOSE_OFF;
    inner.part = true;
    inner.plain = true; /* hops go from GPU to GPU */
    inner.c2c = (ccl_c2c_options_t){0};
    inner.stats = NULL; /* several are made, few are kept */
    part_routes = ccl_routes_create(part);
    if (!part_routes) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    CCL_TRY_GOTO(ccl_collective_create(want->kind, cluster->nranks, 1, want->root, &coll, err),
                 status, end);
    CCL_TRY_GOTO(
        choose(ctx, &(part_t){part, part_routes, coll, want->inner, &inner}, &schedule, err),
        status, end);
    status = take_hops(schedule, cluster, coll->nchunks, out, err);
end:
    ccl_schedule_destroy(schedule);
    ccl_collective_destroy(coll);
    ccl_routes_destroy(part_routes);
    ccl_topology_destroy(part);
    if (status != CCL_OK)
        ccl_i_c2c_hom_fini(out);
    return status;
}

void ccl_i_c2c_hom_fini(ccl_i_c2c_hom_t *hom) {
    free(hom->first);
    free(hom->hops);
    memset(hom, 0, sizeof *hom);
}
