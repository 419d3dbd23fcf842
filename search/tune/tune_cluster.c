/*
 * Knobs that are constants of the cluster: a point with such has a cluster of its own, edited, with
 * routes and bounds of its own. They are made before a round, kept while they are few.
 */
#include "search/tune/tuner.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST = CCL_KNOB_BLOCKS, LAST = CCL_KNOB_TB_RATE, KEPT = 16 };

bool ccl_tune_can_be_had(const double v[CCL_KNOBS]) {
    for (uint32_t k = CCL_KNOB_LATENCY; k <= CCL_KNOB_TB_RATE; k++)
        if (!isnan(v[k]) && v[k] != 1)
            return false;
    return true;
}

/* "set:slice=512K", "scale:latency=0.5". */
static void edit_of(ccl_knob_t knob, double value, char *out, size_t out_len) {
    bool scale = knob >= CCL_KNOB_LATENCY;
    char text[64];
    ccl_knob_text(knob, value, text, sizeof text);
    snprintf(out, out_len, "%s:%s=%s", scale ? "scale" : "set",
             knob == CCL_KNOB_FIFO ? "slots" : ccl_knob_name(knob), text);
}

/* Takes *topo over: what comes out is another one, or nothing. */
static ccl_status_t edit(ccl_topology_t **topo, const ccl_topology_t *from, const char *what,
                         ccl_error_t *err) {
    ccl_topology_t *edited = NULL;
    ccl_status_t status = ccl_topology_edit(*topo ? *topo : from, what, &edited, err);
    ccl_topology_destroy(*topo);
    *topo = edited;
    return status;
}

ccl_status_t ccl_tune_cluster(const ccl_topology_t *topo, const double v[CCL_KNOBS],
                              ccl_topology_t **out, ccl_error_t *err) {
    ccl_topology_t *own = NULL;
    char what[128];
    for (uint32_t k = FIRST; k <= LAST; k++) {
        if (isnan(v[k]))
            continue;
        edit_of((ccl_knob_t)k, v[k], what, sizeof what);
        CCL_TRY(edit(&own, topo, what, err));
    }
    *out = own;
    return CCL_OK;
}

/* ---------------------------------------------------------------- of a tuning */

void ccl_i_cluster_key(const double v[CCL_KNOBS], ccl_text_t *out) {
    for (uint32_t k = FIRST; k <= LAST; k++)
        if (!isnan(v[k]))
            ccl_text_printf(out, " %u=%.17g", k, v[k]);
}

static ccl_status_t bounds(ccl_i_tuner_t *t, const ccl_topology_t *topo, double *out,
                           ccl_error_t *err) {
    ccl_bound_t bound;
    CCL_TRY(ccl_bound(t->ctx, topo, t->want, NULL, &bound, err));
    for (uint32_t s = 0; s < t->options->nsizes; s++)
        out[s] = ccl_bound_time_s(&bound, t->options->sizes_bytes[s]);
    ccl_bound_fini(&bound);
    return CCL_OK;
}

static void cluster_fini(ccl_i_tune_cluster_t *c, uint32_t threads) {
    for (uint32_t i = 0; c->routes && i < threads; i++)
        ccl_routes_destroy(c->routes[i]);
    free(c->routes);
    free(c->bound_s);
    free(c->key);
    ccl_topology_destroy(c->own);
    *c = (ccl_i_tune_cluster_t){0};
}

/* @param v  NULL: the cluster as it is. */
static ccl_status_t make(ccl_i_tuner_t *t, const double *v, ccl_i_tune_cluster_t *c,
                         ccl_error_t *err) {
    c->routes = calloc(t->threads, sizeof(ccl_routes_t *));
    c->bound_s = calloc(t->options->nsizes, sizeof *c->bound_s);
    if (!c->routes || !c->bound_s)
        return ccl_fail_nomem(err);
    c->topo = t->topo;
    if (!v)
        return bounds(t, c->topo, c->bound_s, err);
    c->status = ccl_tune_cluster(t->topo, v, &c->own, &c->err);
    if (ccl_i_stops_all(c->status)) {
        if (err)
            *err = c->err;
        return c->status;
    }
    memcpy(c->bound_s, t->clusters[0].bound_s, t->options->nsizes * sizeof *c->bound_s);
    if (c->status != CCL_OK)
        return CCL_OK;
    c->topo = c->own ? c->own : t->topo;
    if (!c->own || ccl_tune_can_be_had(v))
        return CCL_OK; /* what else is set the bounds do not look at */
    return bounds(t, c->topo, c->bound_s, err);
}

static ccl_status_t add(ccl_i_tuner_t *t, const char *key, const double *v, ccl_error_t *err) {
    ccl_i_tune_cluster_t c = {.key = strdup(key)};
    ccl_status_t status = c.key ? make(t, v, &c, err) : ccl_fail_nomem(err);
    if (status == CCL_OK &&
        !ccl_grow(&t->clusters, &t->clusters_cap, t->nclusters + 1u, sizeof *t->clusters))
        status = ccl_fail_nomem(err);
    if (status == CCL_OK)
        t->clusters[t->nclusters++] = c;
    else
        cluster_fini(&c, t->threads);
    return status;
}

static ccl_i_tune_cluster_t *find(const ccl_i_tuner_t *t, const char *key) {
    for (uint32_t i = 0; i < t->nclusters; i++)
        if (strcmp(t->clusters[i].key, key) == 0)
            return &t->clusters[i];
    return NULL;
}

/*
 * No time on any cluster of the space is less: latencies and overheads grow with their factors, and
 * the bounds look at nothing else that a knob sets.
 */
static ccl_status_t least_bounds(ccl_i_tuner_t *t, double *out, ccl_error_t *err) {
    const ccl_space_t *space = t->options->space;
    ccl_i_tune_cluster_t c = {0};
    double v[CCL_KNOBS];
    for (uint32_t k = 0; k < CCL_KNOBS; k++)
        v[k] = NAN;
    for (uint32_t k = CCL_KNOB_LATENCY; k <= CCL_KNOB_OVERHEAD; k++)
        for (uint32_t i = 0; i < space->nvalues[k]; i++)
            if (space->values[k][i] < 1) /* not NAN */
                v[k] = fmin(v[k], space->values[k][i]);
    ccl_status_t status = make(t, v, &c, err);
    for (uint32_t s = 0; status == CCL_OK && s < t->options->nsizes; s++)
        out[s] = fmin(t->clusters[0].bound_s[s], c.bound_s[s]);
    cluster_fini(&c, t->threads);
    return status;
}

ccl_status_t ccl_i_clusters_init(ccl_i_tuner_t *t, double *bound_s, ccl_error_t *err) {
    CCL_TRY(add(t, "", NULL, err));
    return least_bounds(t, bound_s, err);
}

ccl_status_t ccl_i_cluster_want(ccl_i_tuner_t *t, const double v[CCL_KNOBS], ccl_error_t *err) {
    ccl_text_t key = {0};
    ccl_i_cluster_key(v, &key);
    ccl_status_t status = key.nomem ? ccl_fail_nomem(err) : CCL_OK;
    if (status == CCL_OK && key.len > 0 && !find(t, key.data))
        status = add(t, key.data, v, err);
    ccl_text_fini(&key);
    return status;
}

ccl_status_t ccl_i_cluster_of(const ccl_i_tuner_t *t, const double v[CCL_KNOBS],
                              ccl_i_tune_cluster_t **out, ccl_error_t *err) {
    ccl_text_t key = {0};
    ccl_i_cluster_key(v, &key);
    *out = key.nomem ? NULL : key.len > 0 ? find(t, key.data) : &t->clusters[0];
    bool nomem = key.nomem;
    ccl_text_fini(&key);
    if (nomem)
        return ccl_fail_nomem(err);
    return *out ? CCL_OK : ccl_fail(err, CCL_ERR_INTERNAL, "a point without its cluster");
}

ccl_status_t ccl_i_cluster_routes(ccl_i_tune_cluster_t *c, uint32_t worker, ccl_routes_t **out,
                                  ccl_error_t *err) {
    if (!c->routes[worker])
        c->routes[worker] = ccl_routes_create(c->topo);
    if (!c->routes[worker])
        return ccl_fail_nomem(err);
    *out = c->routes[worker];
    return CCL_OK;
}

void ccl_i_clusters_forget(ccl_i_tuner_t *t) {
    for (uint32_t i = 1; t->nclusters > KEPT && i < t->nclusters; i++)
        cluster_fini(&t->clusters[i], t->threads);
    t->nclusters = t->nclusters > KEPT ? 1 : t->nclusters;
}

void ccl_i_clusters_fini(ccl_i_tuner_t *t) {
    for (uint32_t i = 0; i < t->nclusters; i++)
        cluster_fini(&t->clusters[i], t->threads);
    free(t->clusters);
}
