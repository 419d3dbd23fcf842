/* A training plan: read from JSON, for the GPUs of one cluster. */
#include "training/plan.h"
#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

ccl_status_t ccl_training_create(const ccl_topology_t *topo, ccl_training_t **out,
                                 ccl_error_t *err) {
    ccl_training_t *t = calloc(1, sizeof *t);
    uint32_t n = topo->nranks;
    if (!t)
        return ccl_fail_nomem(err);
    ccl_arena_init(&t->arena);
    t->name = ccl_arena_strdup(&t->arena, "training");
    t->source = "";
    t->nranks = n;
    t->speeds_per_s = ccl_arena_alloc(&t->arena, n, sizeof *t->speeds_per_s);
    t->most = ccl_arena_alloc(&t->arena, n, sizeof *t->most);
    t->memory_bytes = ccl_arena_alloc(&t->arena, n, sizeof *t->memory_bytes);
    t->stages = ccl_arena_alloc(&t->arena, 1, sizeof *t->stages);
    if (t->stages)
        t->stages[0].ranks = ccl_arena_alloc(&t->arena, n, sizeof *t->stages[0].ranks);
    if (!t->name || !t->speeds_per_s || !t->most || !t->memory_bytes || !t->stages ||
        !t->stages[0].ranks) {
        ccl_training_destroy(t);
        return ccl_fail_nomem(err);
    }
    for (uint32_t r = 0; r < n; r++) {
        t->most[r] = CCL_BALANCE_ANY;
        t->memory_bytes[r] = INFINITY;
        t->stages[0].ranks[r] = r;
    }
    t->nstages = 1;
    t->stages[0].nranks = n;
    t->stages[0].layers = t->layers = 1;
    t->samples = t->tensor = t->passes = 1;
    t->bytes = 2;
    t->optimizer_bytes = 12;
    *out = t;
    return CCL_OK;
}

void ccl_training_destroy(ccl_training_t *training) {
    if (!training)
        return;
    ccl_arena_fini(&training->arena);
    free(training);
}

/* ---------------------------------------------------------------- values by word */

typedef ccl_status_t (*scalar_fn)(const ccl_json_at_t *at, double *out, ccl_error_t *err);

static ccl_status_t positive(const ccl_json_at_t *at, double *out, ccl_error_t *err) {
    CCL_TRY(ccl_json_number(at, true, out, err));
    return *out > 0 ? CCL_OK : ccl_json_fail(at, err, "must be greater than 0");
}

static ccl_status_t whole(const ccl_json_at_t *at, double *out, ccl_error_t *err) {
    uint32_t value = 0;
    CCL_TRY(ccl_json_u32(at, true, CCL_BALANCE_MOST_TOTAL - 1, &value, err));
    *out = value;
    return CCL_OK;
}

static ccl_status_t bytes(const ccl_json_at_t *at, double *out, ccl_error_t *err) {
    return ccl_json_bytes(at, true, out, err);
}

/* {"nvidia": 4, "s3": 2} */
static ccl_status_t by_word(const ccl_json_at_t *at, const ccl_topology_t *topo, scalar_fn scalar,
                            ccl_i_training_values_t *v, ccl_error_t *err) {
    const char *word;
    json_t *ignored;
    CCL_TRY(ccl_json_object(at, true, err));
    json_object_foreach((json_t *)at->value, word, ignored) {
        ccl_json_at_t member = ccl_json_member(at, word);
        ccl_error_t inner = CCL_ERROR_INIT;
        double value = 0;
        ccl_status_t status;
        CCL_TRY(scalar(&member, &value, err));
        status = ccl_i_values_set(v, topo, word, value, &inner);
        if (status == CCL_ERR_INPUT)
            return ccl_json_fail(&member, err, "%s", inner.text);
        if (status != CCL_OK)
            return ccl_fail_nomem(err);
    }
    return CCL_OK;
}

static ccl_status_t values(const ccl_json_at_t *root, const char *key, const ccl_topology_t *topo,
                           scalar_fn scalar, ccl_i_training_values_t *v, ccl_error_t *err) {
    ccl_json_at_t at = ccl_json_member(root, key);
    CCL_TRY(ccl_i_values_init(v, topo->nranks, err));
    return at.value ? by_word(&at, topo, scalar, v, err) : CCL_OK;
}

static ccl_status_t read_values(const ccl_json_at_t *root, const ccl_topology_t *topo,
                                ccl_training_t *t, ccl_error_t *err) {
    ccl_i_training_values_t speeds = {0}, most = {0}, memory = {0};
    ccl_status_t status = values(root, "speeds", topo, positive, &speeds, err);
    if (status == CCL_OK)
        status = values(root, "most", topo, whole, &most, err);
    if (status == CCL_OK)
        status = values(root, "memory", topo, bytes, &memory, err);
    for (uint32_t r = 0; status == CCL_OK && r < t->nranks; r++) {
        t->speeds_per_s[r] = speeds.values[r];
        if (most.level[r])
            t->most[r] = (uint64_t)most.values[r];
        if (memory.level[r])
            t->memory_bytes[r] = memory.values[r];
    }
    ccl_i_values_fini(&speeds);
    ccl_i_values_fini(&most);
    ccl_i_values_fini(&memory);
    return status;
}

/* ---------------------------------------------------------------- model and parallelism */

static ccl_status_t optional(const ccl_json_at_t *at, const char *key, double *out,
                             ccl_error_t *err) {
    ccl_json_at_t member = ccl_json_member(at, key);
    return member.value ? positive(&member, out, err) : CCL_OK;
}

static ccl_status_t read_model(const ccl_json_at_t *at, ccl_training_t *t, ccl_error_t *err) {
    static const char *const members[] = {
        "parameters", "layers",    "hidden",          "sequence",         "samples",
        "bytes",      "recompute", "optimizer_bytes", "activation_bytes", NULL};
    ccl_json_at_t member = ccl_json_member(at, "parameters");
    CCL_TRY(ccl_json_object(at, false, err));
    if (!at->value)
        return CCL_OK;
    CCL_TRY(ccl_json_only(at, members, err));
    t->has_model = true;
    CCL_TRY(positive(&member, &t->parameters, err));
    CCL_TRY(optional(at, "layers", &t->layers, err));
    CCL_TRY(optional(at, "hidden", &t->hidden, err));
    CCL_TRY(optional(at, "sequence", &t->sequence, err));
    CCL_TRY(optional(at, "samples", &t->samples, err));
    CCL_TRY(optional(at, "bytes", &t->bytes, err));
    CCL_TRY(optional(at, "optimizer_bytes", &t->optimizer_bytes, err));
    member = ccl_json_member(at, "activation_bytes");
    CCL_TRY(ccl_json_bytes(&member, false, &t->activation_bytes, err));
    member = ccl_json_member(at, "recompute");
    return ccl_json_bool(&member, false, &t->recompute, err);
}

/* "on": ["nvidia", "s3"] */
static ccl_status_t read_on(const ccl_json_at_t *at, const ccl_topology_t *topo, bool *taken,
                            ccl_arena_t *arena, ccl_training_stage_t *stage, ccl_error_t *err) {
    size_t n = 0;
    bool *mine = calloc(topo->nranks, sizeof *mine);
    ccl_status_t status = mine ? ccl_json_array(at, true, &n, err) : ccl_fail_nomem(err);
    for (size_t i = 0; status == CCL_OK && i < n; i++) {
        ccl_json_at_t element = ccl_json_element(at, i);
        const char *word = NULL;
        uint32_t level;
        status = ccl_json_string(&element, true, &word, err);
        if (status != CCL_OK)
            break;
        level = ccl_i_word_level(topo, word);
        if (level == CCL_NONE) {
            char choices[300];
            ccl_i_word_choices(topo, choices, sizeof choices);
            status = ccl_json_fail(&element, err, "\"%.60s\" is nobody in %.60s: %s", word,
                                   topo->name, choices);
            break;
        }
        for (uint32_t r = 0; status == CCL_OK && r < topo->nranks; r++) {
            if (!ccl_i_word_means(topo, word, level, r) || mine[r])
                continue;
            if (taken[r])
                status = ccl_json_fail(&element, err, "GPU %u is in an earlier stage too", r);
            taken[r] = mine[r] = true;
            stage->nranks++;
        }
    }
    if (status == CCL_OK && stage->nranks == 0)
        status = ccl_json_fail(at, err, "a stage needs GPUs");
    if (status == CCL_OK) {
        stage->ranks = ccl_arena_alloc(arena, stage->nranks, sizeof *stage->ranks);
        if (!stage->ranks)
            status = ccl_fail_nomem(err);
    }
    for (uint32_t r = 0, k = 0; status == CCL_OK && r < topo->nranks; r++) {
        if (mine[r])
            stage->ranks[k++] = r;
    }
    free(mine);
    return status;
}

static ccl_status_t read_stages(const ccl_json_at_t *at, const ccl_topology_t *topo,
                                ccl_training_t *t, ccl_error_t *err) {
    static const char *const members[] = {"on", "layers", NULL};
    bool *taken;
    size_t n = 0;
    double layers = 0;
    ccl_status_t status = CCL_OK;
    CCL_TRY(ccl_json_array(at, false, &n, err));
    if (!at->value)
        return CCL_OK;
    if (n == 0 || n > topo->nranks)
        return ccl_json_fail(at, err, "1 to %u stages, one GPU each at least", topo->nranks);
    taken = calloc(topo->nranks, sizeof *taken);
    t->stages = ccl_arena_alloc(&t->arena, n, sizeof *t->stages);
    t->nstages = 0;
    if (!taken || !t->stages)
        status = ccl_fail_nomem(err);
    for (size_t i = 0; status == CCL_OK && i < n; i++) {
        ccl_json_at_t stage = ccl_json_element(at, i);
        ccl_json_at_t on = ccl_json_member(&stage, "on");
        ccl_json_at_t held = ccl_json_member(&stage, "layers");
        status = ccl_json_object(&stage, true, err);
        if (status == CCL_OK)
            status = ccl_json_only(&stage, members, err);
        if (status == CCL_OK)
            status = read_on(&on, topo, taken, &t->arena, &t->stages[i], err);
        if (status == CCL_OK)
            status = positive(&held, &t->stages[i].layers, err);
        layers += t->stages[i].layers;
        t->nstages++;
    }
    free(taken);
    if (status == CCL_OK && fabs(layers - t->layers) > 1e-9 * t->layers)
        status =
            ccl_json_fail(at, err, "the stages have %g layers, the model %g", layers, t->layers);
    return status;
}

static ccl_status_t read_parallel(const ccl_json_at_t *at, const ccl_topology_t *topo,
                                  ccl_training_t *t, ccl_error_t *err) {
    static const char *const members[] = {"tensor", "zero", "passes", "overlap", "stages", NULL};
    ccl_json_at_t member = ccl_json_member(at, "tensor");
    CCL_TRY(ccl_json_object(at, false, err));
    if (!at->value)
        return CCL_OK;
    CCL_TRY(ccl_json_only(at, members, err));
    CCL_TRY(ccl_json_u32(&member, false, topo->nranks, &t->tensor, err));
    if (t->tensor == 0)
        return ccl_json_fail(&member, err, "at least 1: a GPU by itself");
    member = ccl_json_member(at, "zero");
    CCL_TRY(ccl_json_u32(&member, false, 3, &t->zero, err));
    member = ccl_json_member(at, "passes");
    CCL_TRY(ccl_json_u32(&member, false, 1000000, &t->passes, err));
    if (t->passes == 0)
        return ccl_json_fail(&member, err, "at least 1");
    member = ccl_json_member(at, "overlap");
    CCL_TRY(ccl_json_number(&member, false, &t->overlap, err));
    if (t->overlap < 0 || t->overlap > 1)
        return ccl_json_fail(&member, err, "a share from 0 to 1");
    member = ccl_json_member(at, "stages");
    CCL_TRY(read_stages(&member, topo, t, err));
    member = ccl_json_member(at, "zero");
    if (t->nstages > 1 && t->zero > 1)
        return ccl_json_fail(&member, err,
                             "gradients that are sharded do not go with %u pipeline stages: "
                             "0 or 1 is wanted",
                             t->nstages);
    member = ccl_json_member(at, "passes");
    if (t->nstages > 1 && member.value)
        return ccl_json_fail(&member, err,
                             "with %u pipeline stages every micro-batch is a pass of its own",
                             t->nstages);
    return CCL_OK;
}

static ccl_status_t read_plan(const ccl_json_doc_t *doc, const ccl_topology_t *topo,
                              ccl_training_t *t, ccl_error_t *err) {
    static const char *const members[] = {"format", "name",  "source",   "note",
                                          "chosen", "total", "speeds",   "memory",
                                          "most",   "model", "parallel", NULL};
    ccl_json_at_t root = ccl_json_root(doc), at;
    const char *format = NULL, *name = NULL, *source = "";
    uint32_t total = 0;
    CCL_TRY(ccl_json_object(&root, true, err));
    CCL_TRY(ccl_json_only(&root, members, err));
    at = ccl_json_member(&root, "format");
    CCL_TRY(ccl_json_string(&at, true, &format, err));
    if (strcmp(format, "ccllab-training-1") != 0)
        return ccl_json_fail(&at, err, "\"ccllab-training-1\" is wanted, not \"%.60s\"", format);
    at = ccl_json_member(&root, "name");
    CCL_TRY(ccl_json_string(&at, true, &name, err));
    at = ccl_json_member(&root, "source");
    CCL_TRY(ccl_json_string(&at, false, &source, err));
    t->name = ccl_arena_strdup(&t->arena, name);
    t->source = ccl_arena_strdup(&t->arena, source);
    if (!t->name || !t->source)
        return ccl_fail_nomem(err);
    at = ccl_json_member(&root, "total");
    CCL_TRY(ccl_json_u32(&at, false, CCL_BALANCE_MOST_TOTAL - 1, &total, err));
    t->total = total;
    CCL_TRY(read_values(&root, topo, t, err));
    at = ccl_json_member(&root, "model");
    CCL_TRY(read_model(&at, t, err));
    t->stages[0].layers = t->layers;
    at = ccl_json_member(&root, "parallel");
    return read_parallel(&at, topo, t, err);
}

static ccl_status_t of_document(const ccl_json_doc_t *doc, const ccl_topology_t *topo,
                                ccl_training_t **out, ccl_error_t *err) {
    ccl_training_t *t = NULL;
    ccl_status_t status;
    CCL_TRY(ccl_training_create(topo, &t, err));
    status = read_plan(doc, topo, t, err);
    if (status != CCL_OK) {
        ccl_training_destroy(t);
        return status;
    }
    *out = t;
    return CCL_OK;
}

ccl_status_t ccl_training_read(const char *path, const ccl_topology_t *topo, ccl_training_t **out,
                               ccl_error_t *err) {
    ccl_json_doc_t doc = {0};
    ccl_status_t status = ccl_json_read(path, &doc, err);
    if (status == CCL_OK)
        status = of_document(&doc, topo, out, err);
    ccl_json_fini(&doc);
    return status;
}

ccl_status_t ccl_training_read_text(const char *name, const char *text, size_t len,
                                    const ccl_topology_t *topo, ccl_training_t **out,
                                    ccl_error_t *err) {
    ccl_json_doc_t doc = {0};
    ccl_status_t status = ccl_json_parse(name, text, len, &doc, err);
    if (status == CCL_OK)
        status = of_document(&doc, topo, out, err);
    ccl_json_fini(&doc);
    return status;
}
