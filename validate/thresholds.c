/* Thresholds for acceptance tests, and measured runs held against them. */
#include "validate/validate.h"
#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SCHEMA "ccllab/thresholds/1"
#define MAX_FILE_BYTES ((size_t)64 << 20)
#define MAX_RANKS ((uint32_t)1 << 20)

static double busbw_GBps(ccl_collective_kind_t kind, uint32_t nranks, double size_bytes,
                         double time_s) {
    return size_bytes / time_s * ccl_collective_busbw_factor(kind, nranks) / 1e9;
}

static ccl_thresholds_t *create(ccl_error_t *err) {
    ccl_thresholds_t *t = calloc(1, sizeof *t);
    if (t)
        ccl_arena_init(&t->arena);
    else
        ccl_fail_nomem(err);
    return t;
}

void ccl_thresholds_destroy(ccl_thresholds_t *thresholds) {
    if (!thresholds)
        return;
    ccl_arena_fini(&thresholds->arena);
    free(thresholds);
}

/* ---------------------------------------------------------------- made */

typedef struct maker {
    const ccl_ctx_t *ctx;
    const ccl_topology_t *topo, *laid; /* laid: with the profile */
    const ccl_thresholds_options_t *options;
    ccl_predictor_t **predictors; /* [threads] */
    ccl_threshold_t *items;
    uint32_t done;
} maker_t;

static ccl_status_t make_one(uint32_t index, uint32_t worker, void *user, ccl_error_t *err) {
    maker_t *m = user;
    const ccl_thresholds_options_t *o = m->options;
    ccl_threshold_t *t = &m->items[index];
    ccl_bound_options_t options = CCL_BOUND_OPTIONS_INIT;
    ccl_collective_t *coll = NULL;
    ccl_prediction_t expected;
    ccl_bound_t bound;
    if (!m->predictors[worker]) {
        CCL_TRY(ccl_predictor_create(m->ctx, m->topo, o->profile, o->channels,
                                     &m->predictors[worker], err));
        ccl_predictor_nvls(m->predictors[worker], true, o->registered);
    }
    t->kind = o->kinds[index / o->nsizes];
    t->nranks = m->topo->nranks;
    t->size_bytes = options.size_bytes = o->sizes_bytes[index % o->nsizes];
    CCL_TRY(
        ccl_predictor_run(m->predictors[worker], t->kind, 0, t->size_bytes, NULL, &expected, err));
    CCL_TRY(ccl_collective_create(t->kind, t->nranks, 1, 0, &coll, err));
    ccl_status_t status = ccl_bound(m->ctx, m->laid, coll, &options, &bound, err);
    ccl_collective_destroy(coll);
    CCL_TRY(status);
    t->bound_s = bound.time_s;
    ccl_bound_fini(&bound);
    t->choice = expected.choice;
    t->expected_s = expected.time_s;
    t->expected_busbw_GBps = expected.busbw_GBps;
    t->most_s = t->expected_s / o->share;
    t->least_busbw_GBps = busbw_GBps(t->kind, t->nranks, t->size_bytes, t->most_s);
    uint32_t done = __atomic_add_fetch(&m->done, 1, __ATOMIC_RELAXED);
    return ccl_ctx_poll(m->ctx, &(ccl_progress_t){"thresholds", done, o->nkinds * o->nsizes, 0, 0});
}

static int by_place(const void *a, const void *b) {
    const ccl_threshold_t *x = a, *y = b;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    if (x->nranks != y->nranks)
        return x->nranks < y->nranks ? -1 : 1;
    return x->size_bytes < y->size_bytes ? -1 : x->size_bytes > y->size_bytes;
}

static ccl_status_t make(maker_t *m, ccl_thresholds_t *out, ccl_error_t *err) {
    const ccl_thresholds_options_t *o = m->options;
    uint32_t threads = m->ctx && m->ctx->threads ? m->ctx->threads : ccl_core_count();
    out->topology = ccl_arena_strdup(&out->arena, m->topo->name);
    out->profile = o->profile ? ccl_arena_strdup(&out->arena, ccl_profile_name(o->profile)) : NULL;
    out->share = o->share;
    out->n = o->nkinds * o->nsizes;
    m->items = ccl_arena_alloc(&out->arena, out->n + (size_t)1, sizeof *m->items);
    m->predictors = calloc(threads, sizeof *m->predictors);
    if (!out->topology || (o->profile && !out->profile) || !m->items || !m->predictors)
        return ccl_fail_nomem(err);
    ccl_status_t status = ccl_parallel_for(out->n, threads, make_one, m, err);
    for (uint32_t i = 0; i < threads; i++)
        ccl_predictor_destroy(m->predictors[i]);
    qsort(m->items, out->n, sizeof *m->items, by_place);
    out->items = m->items;
    return status;
}

ccl_status_t ccl_thresholds_make(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                                 const ccl_thresholds_options_t *options, ccl_thresholds_t **out,
                                 ccl_error_t *err) {
    CCL_OPTIONS_TRY(ccl_thresholds_options_t, options, err);
    ccl_thresholds_options_t given = *options;
    ccl_topology_t *laid = NULL;
    maker_t maker = {.ctx = ctx, .topo = topo, .laid = topo, .options = &given};
    if (topo->nranks < 2)
        return ccl_fail(err, CCL_ERR_INPUT, "a cluster of one GPU has no collectives");
    if (given.share == 0)
        given.share = CCL_NORMAL_LOW;
    if (given.profile) {
        CCL_TRY(ccl_profile_apply(ctx, given.profile, topo, &laid, err));
        maker.laid = laid;
    }
    ccl_thresholds_t *t = create(err);
    ccl_status_t status = t ? make(&maker, t, err) : CCL_ERR_NOMEM;
    free(maker.predictors);
    ccl_topology_destroy(laid);
    if (status != CCL_OK) {
        ccl_thresholds_destroy(t);
        return status;
    }
    *out = t;
    return CCL_OK;
}

/* ---------------------------------------------------------------- read */

/* A number above 0. */
static ccl_status_t read_positive(const ccl_json_at_t *item, const char *key, double *out,
                                  ccl_error_t *err) {
    ccl_json_at_t v = ccl_json_member(item, key);
    CCL_TRY(ccl_json_number(&v, true, out, err));
    return *out > 0 ? CCL_OK : ccl_json_fail(&v, err, "%g; it must be above 0", *out);
}

static ccl_status_t read_item(const ccl_json_at_t *item, ccl_threshold_t *out, ccl_error_t *err) {
    const char *name = NULL;
    CCL_TRY(ccl_json_object(item, true, err));
    ccl_json_at_t v = ccl_json_member(item, "collective");
    CCL_TRY(ccl_json_string(&v, true, &name, err));
    if (ccl_collective_kind_parse(name, &out->kind, NULL) != CCL_OK || out->kind == CCL_CUSTOM)
        return ccl_json_fail(&v, err, "\"%.60s\" is no collective", name);
    v = ccl_json_member(item, "nranks");
    CCL_TRY(ccl_json_u32(&v, true, MAX_RANKS, &out->nranks, err));
    if (out->nranks < 2)
        return ccl_json_fail(&v, err, "%u ranks; at least 2 are needed", out->nranks);
    CCL_TRY(read_positive(item, "size_bytes", &out->size_bytes, err));
    CCL_TRY(read_positive(item, "expected_s", &out->expected_s, err));
    CCL_TRY(read_positive(item, "most_s", &out->most_s, err));
    out->expected_busbw_GBps = busbw_GBps(out->kind, out->nranks, out->size_bytes, out->expected_s);
    out->least_busbw_GBps = busbw_GBps(out->kind, out->nranks, out->size_bytes, out->most_s);
    out->bound_s = NAN;
    return CCL_OK;
}

static ccl_status_t read_document(const ccl_json_at_t *root, ccl_thresholds_t *out,
                                  ccl_error_t *err) {
    const char *schema = NULL, *name = NULL;
    size_t n = 0;
    CCL_TRY(ccl_json_object(root, true, err));
    ccl_json_at_t v = ccl_json_member(root, "schema");
    CCL_TRY(ccl_json_string(&v, true, &schema, err));
    if (strcmp(schema, SCHEMA) != 0)
        return ccl_json_fail(&v, err, "\"%.60s\", where thresholds are \"" SCHEMA "\"", schema);
    v = ccl_json_member(root, "topology");
    CCL_TRY(ccl_json_string(&v, true, &name, err));
    out->topology = ccl_arena_strdup(&out->arena, name);
    v = ccl_json_member(root, "share");
    CCL_TRY(ccl_json_number(&v, true, &out->share, err));
    ccl_json_at_t list = ccl_json_member(root, "thresholds");
    CCL_TRY(ccl_json_array(&list, true, &n, err));
    ccl_threshold_t *items = ccl_arena_alloc(&out->arena, n + 1, sizeof *items);
    if (!items || !out->topology)
        return ccl_fail_nomem(err);
    for (size_t i = 0; i < n; i++) {
        ccl_json_at_t item = ccl_json_element(&list, i);
        CCL_TRY(read_item(&item, &items[i], err));
    }
    qsort(items, n, sizeof *items, by_place);
    out->n = (uint32_t)n;
    out->items = items;
    return CCL_OK;
}

ccl_status_t ccl_thresholds_read(const char *path, ccl_thresholds_t **out, ccl_error_t *err) {
    char inside[4096], *data = NULL;
    struct stat st;
    size_t len = 0;
    ccl_json_doc_t doc;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        int n = snprintf(inside, sizeof inside, "%s/thresholds.json", path);
        if (n > 0 && (size_t)n < sizeof inside)
            path = inside;
    }
    CCL_TRY(ccl_file_read(path, MAX_FILE_BYTES, &data, &len, err));
    ccl_status_t status = ccl_json_parse(path, data, len, &doc, err);
    free(data);
    CCL_TRY(status);
    ccl_json_at_t root = ccl_json_root(&doc);
    ccl_thresholds_t *t = create(err);
    status = t ? read_document(&root, t, err) : CCL_ERR_NOMEM;
    ccl_json_fini(&doc);
    if (status != CCL_OK) {
        ccl_thresholds_destroy(t);
        return status;
    }
    *out = t;
    return CCL_OK;
}

/* ---------------------------------------------------------------- held against */

static double between(double x, double x0, double y0, double x1, double y1) {
    return x1 == x0 ? y0 : exp(log(y0) + (log(y1) - log(y0)) * log(x / x0) / log(x1 / x0));
}

/* The threshold of a size; false: there is none. */
static bool threshold_of(const ccl_thresholds_t *t, const ccl_measured_run_t *run,
                         double size_bytes, ccl_accepted_t *out) {
    const ccl_threshold_t *below = NULL, *above = NULL;
    for (uint32_t i = 0; i < t->n; i++) {
        const ccl_threshold_t *item = &t->items[i];
        if (item->kind != run->kind || item->nranks != run->nranks)
            continue;
        if (item->size_bytes <= size_bytes)
            below = item;
        if (item->size_bytes >= size_bytes && !above)
            above = item;
    }
    if (!run->known || !below || !above)
        return false;
    double most_s =
        between(size_bytes, below->size_bytes, below->most_s, above->size_bytes, above->most_s);
    double expected_s = between(size_bytes, below->size_bytes, below->expected_s, above->size_bytes,
                                above->expected_s);
    out->least_busbw_GBps = busbw_GBps(run->kind, run->nranks, size_bytes, most_s);
    out->expected_busbw_GBps = busbw_GBps(run->kind, run->nranks, size_bytes, expected_s);
    return true;
}

static ccl_status_t check(const ccl_thresholds_t *t, const ccl_measured_run_t *const *runs,
                          uint32_t nruns, bool in_place, ccl_acceptance_t *out, ccl_error_t *err) {
    size_t npoints = 0;
    for (uint32_t r = 0; r < nruns; r++)
        npoints += runs[r]->npoints;
    ccl_accepted_t *items = ccl_arena_alloc(&out->arena, npoints + 1, sizeof *items);
    if (!items)
        return ccl_fail_nomem(err);
    out->items = items;
    for (uint32_t r = 0; r < nruns; r++)
        for (uint32_t i = 0; i < runs[r]->npoints; i++) {
            const ccl_measurement_t *p = &runs[r]->points[i];
            ccl_accepted_t *a = &items[out->n];
            double time_s = in_place ? p->in_place_time_s : p->time_s;
            if (!(time_s > 0))
                continue;
            if (!threshold_of(t, runs[r], p->size_bytes, a)) {
                out->nothers++;
                continue;
            }
            a->run = r;
            a->line = p->line;
            a->kind = runs[r]->kind;
            a->nranks = runs[r]->nranks;
            a->size_bytes = p->size_bytes;
            a->measured_s = time_s;
            a->measured_busbw_GBps = busbw_GBps(a->kind, a->nranks, a->size_bytes, time_s);
            a->accepted = a->measured_busbw_GBps >= a->least_busbw_GBps * (1 - 1e-9);
            out->nrefused += !a->accepted;
            out->n++;
        }
    return out->n ? CCL_OK
                  : ccl_fail(err, CCL_ERR_INPUT,
                             "no size of the measured runs has a threshold: those are of %s",
                             t->topology);
}

ccl_status_t ccl_thresholds_check(const ccl_thresholds_t *thresholds,
                                  const ccl_measured_run_t *const *runs, uint32_t nruns,
                                  bool in_place, ccl_acceptance_t **out, ccl_error_t *err) {
    ccl_acceptance_t *a = calloc(1, sizeof *a);
    if (!a)
        return ccl_fail_nomem(err);
    ccl_arena_init(&a->arena);
    ccl_status_t status = check(thresholds, runs, nruns, in_place, a, err);
    if (status != CCL_OK) {
        ccl_acceptance_destroy(a);
        return status;
    }
    *out = a;
    return CCL_OK;
}

void ccl_acceptance_destroy(ccl_acceptance_t *acceptance) {
    if (!acceptance)
        return;
    ccl_arena_fini(&acceptance->arena);
    free(acceptance);
}
