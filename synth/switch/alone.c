/* Where nothing but schedules through switches need be looked at. */
#include "synth/common/plan.h"
#include "synth/switch/contest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of the message whose trees are taken: where they are as low as can be. */
#define SMALL_BYTES 16384.0
/** Ranks of a switch from which a race of plain schedules takes long. */
#define LARGE_DOMAIN 32
/** In one, no AllGather, Broadcast or ReduceScatter without switches is looked for that can only be
    faster by less than this. */
#define LEAST_GAIN 1.06

/* By its links alone; with trees for a small message nothing is won where latency decides. */
static ccl_status_t least_time_of(const ccl_i_asked_t *asked, const ccl_topology_t *topo,
                                  double *out, ccl_error_t *err) {
    ccl_bound_t bound;
    CCL_TRY(ccl_bound(asked->ctx, topo, asked->want, NULL, &bound, err));
    *out = asked->options->size_bytes / bound.bandwidth.Bps;
    ccl_bound_fini(&bound);
    return CCL_OK;
}

/* No schedule takes less on the cluster without what its switches copy and add. */
static ccl_status_t least_plain(const ccl_i_asked_t *asked, double *out, ccl_error_t *err) {
    ccl_topology_t plain;
    ccl_device_t *devices;
    CCL_TRY(ccl_topology_unable(asked->topo, &plain, &devices, err));
    ccl_status_t status = least_time_of(asked, &plain, out, err);
    free(devices);
    return status;
}

/* Servers, where each is large and a switch joins all its GPUs; else 0. */
static ccl_status_t large_domains(const ccl_i_asked_t *asked, uint32_t *out, ccl_error_t *err) {
    ccl_i_cluster_t c;
    CCL_TRY(ccl_i_cluster_init(&c, asked->topo, asked->routes, err));
    *out = c.min_gpus >= LARGE_DOMAIN ? c.nservers : 0;
    for (uint32_t v = 0; v < c.nservers; v++)
        for (int adds = 0; adds < 2; adds++)
            if (!ccl_topology_in_switch(asked->topo, adds == 1, c.ranks + c.first[v],
                                        ccl_i_cluster_gpus(&c, v)))
                *out = 0;
    ccl_i_cluster_fini(&c);
    return CCL_OK;
}

/* Trees through switches as they are looked at first; *less_out: they take less. */
static ccl_status_t takes_less(const ccl_i_asked_t *asked, const ccl_schedule_t *trees,
                               double than_s, bool *less_out, ccl_error_t *err) {
    double time_s;
    CCL_TRY(ccl_i_through_look(asked, trees, asked->options->size_bytes, than_s, &time_s, err));
    *less_out = time_s < than_s;
    return CCL_OK;
}

/* Whether stars do, in one domain. */
static ccl_status_t stars_take_less(const ccl_i_asked_t *asked, double than_s, bool *out,
                                    ccl_error_t *err) {
    ccl_schedule_t *stars = NULL;
    CCL_TRY(ccl_synthesize(asked->ctx, "direct", asked->topo, asked->routes, asked->want, NULL,
                           &stars, err));
    ccl_status_t status = takes_less(asked, stars, than_s, out, err);
    ccl_schedule_destroy(stars);
    return status;
}

/* An AllReduce without switches takes at least this. Of others, one through switches that takes
   less is good enough: of Reduce any, as what comes to the root without switches was added up on
   the way, GPU by GPU. *less_out: one through switches may. */
static ccl_status_t least_other(const ccl_i_asked_t *asked, double *out, bool *less_out,
                                ccl_error_t *err) {
    ccl_bound_t bound;
    double in_switch_s;
    *less_out = true;
    *out = INFINITY;
    if (asked->want->kind == CCL_REDUCE)
        return CCL_OK;
    if (asked->want->kind == CCL_ALLREDUCE) {
        CCL_TRY(least_plain(asked, out, err));
        CCL_TRY(least_time_of(asked, asked->topo, &in_switch_s, err));
        *less_out = in_switch_s < *out;
        return CCL_OK;
    }
    CCL_TRY(ccl_bound(asked->ctx, asked->topo, asked->want, NULL, &bound, err));
    *out = LEAST_GAIN * ccl_bound_time_s(&bound, asked->options->size_bytes);
    ccl_bound_fini(&bound);
    return CCL_OK;
}

/* Whether anything through switches can take less than all others: in how many domains, or 0. */
static ccl_status_t may_be_alone(const ccl_i_asked_t *asked, double *least_out, uint32_t *out,
                                 ccl_error_t *err) {
    const ccl_collective_kind_t kind = asked->want->kind;
    const bool in_trees = kind == CCL_ALLREDUCE || kind == CCL_ALLGATHER ||
                          kind == CCL_REDUCESCATTER || kind == CCL_BROADCAST || kind == CCL_REDUCE;
    bool less;
    *out = 0;
    if (!in_trees || !(asked->options->size_bytes > SMALL_BYTES) || asked->options->chunks)
        return CCL_OK;
    CCL_TRY(large_domains(asked, out, err));
    if (*out > 1 && kind != CCL_ALLREDUCE)
        *out = 0;
    if (*out == 0)
        return CCL_OK;
    CCL_TRY(least_other(asked, least_out, &less, err));
    if (less && *out == 1 && *least_out < INFINITY)
        CCL_TRY(stars_take_less(asked, *least_out, &less, err));
    *out = less ? *out : 0;
    return CCL_OK;
}

/* Over several domains a composition is what `hm` is, a mesh in each and rails, as all are alike.
 */
static ccl_status_t trees_of(const ccl_synth_ops_t *ops, const ccl_i_asked_t *asked, bool several,
                             ccl_schedule_t **out, ccl_error_t *err) {
    if (several && ops->composable)
        return ccl_synthesize(asked->ctx, "hm", asked->topo, asked->routes, asked->want,
                              asked->options, out, err);
    return ops->synthesize(asked->ctx, asked->topo, asked->routes, asked->want, asked->options, out,
                           err);
}

ccl_status_t ccl_i_through_alone(const ccl_synth_ops_t *ops, const ccl_i_asked_t *asked,
                                 ccl_schedule_t **out, ccl_error_t *err) {
    ccl_ctx_t quiet = asked->ctx ? *asked->ctx : (ccl_ctx_t)CCL_CTX_INIT;
    ccl_synth_options_t small = *asked->options;
    ccl_i_asked_t of = *asked;
    const ccl_i_contest_t c = {&quiet, asked->topo, asked->routes, asked->options->size_bytes,
                               INFINITY};
    ccl_schedule_t *trees = NULL;
    ccl_i_through_t best = {.time_s = INFINITY};
    double least_s = 0;
    uint32_t ndomains = 0;
    bool less = true;
    *out = NULL;
    quiet.progress = NULL;
    quiet.log = NULL;
    of.ctx = &quiet;
    CCL_TRY(may_be_alone(&of, &least_s, &ndomains, err));
    if (ndomains == 0)
        return CCL_OK;
    small.size_bytes = SMALL_BYTES;
    small.chunks = 1;
    small.in_switch_bytes = ndomains > 1 ? asked->options->size_bytes : 0;
    const ccl_i_asked_t for_trees = {asked->ctx, asked->topo, asked->routes, asked->want, &small};
    CCL_TRY(trees_of(ops, &for_trees, ndomains > 1, &trees, err));
    ccl_status_t status = CCL_OK;
    if (ndomains > 1) /* in one domain stars did, or need not */
        status = takes_less(&of, trees, least_s, &less, err);
    if (status == CCL_OK && less)
        status = ccl_i_through_best(&c, trees, &best, err);
    if (status == CCL_OK && best.time_s < least_s) {
        bool plain = false;
        if (asked->want->kind != CCL_ALLREDUCE)
            status = ccl_i_plain_beats(&c, ops, trees, best.time_s, &plain, err);
        ccl_schedule_t **winner = plain ? &trees : &best.schedule;
        *out = status == CCL_OK ? *winner : NULL;
        *winner = status == CCL_OK ? NULL : *winner;
    }
    ccl_schedule_destroy(best.schedule);
    ccl_schedule_destroy(trees);
    return status;
}
