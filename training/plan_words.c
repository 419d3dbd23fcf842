/* Values by vendor, GPU model, server, GPU, from the command line and for the file's reader. */
#include "training/plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { LEVELS = 5 };

static const char *name_at(const ccl_topology_t *topo, uint32_t level, uint32_t rank) {
    const ccl_device_t *d = &topo->devices[topo->rank_device[rank]];
    switch (level) {
    case 0:
        return "all";
    case 1:
        return d->model == CCL_NONE ? "" : topo->gpu_models[d->model].vendor;
    case 2:
        return d->model == CCL_NONE ? "" : topo->gpu_models[d->model].name;
    case 3:
        return d->server == CCL_NONE ? "" : topo->servers[d->server];
    default:
        return d->id;
    }
}

bool ccl_i_word_means(const ccl_topology_t *topo, const char *word, uint32_t level, uint32_t rank) {
    const char *name = name_at(topo, level, rank);
    return *word && strcasecmp(word, name) == 0;
}

uint32_t ccl_i_word_level(const ccl_topology_t *topo, const char *word) {
    for (uint32_t level = 0; level < LEVELS; level++) {
        for (uint32_t r = 0; r < topo->nranks; r++) {
            if (ccl_i_word_means(topo, word, level, r))
                return level;
        }
    }
    return CCL_NONE;
}

void ccl_i_word_choices(const ccl_topology_t *topo, char *out, size_t out_len) {
    ccl_text_t text = {0};
    ccl_text_printf(&text, "all");
    for (uint32_t level = 1; level < LEVELS; level++) {
        const char *last = "";
        uint32_t told = 0;
        for (uint32_t r = 0; r < topo->nranks && told < 4; r++) {
            const char *name = name_at(topo, level, r);
            if (!*name || strcmp(name, last) == 0)
                continue;
            ccl_text_printf(&text, ", %.40s", name);
            last = name;
            told++;
        }
        if (told == 4)
            ccl_text_printf(&text, " ...");
    }
    snprintf(out, out_len, "%s", text.data ? text.data : "all");
    ccl_text_fini(&text);
}

ccl_status_t ccl_i_values_init(ccl_i_training_values_t *v, uint32_t nranks, ccl_error_t *err) {
    v->values = calloc(nranks, sizeof *v->values);
    v->level = calloc(nranks, sizeof *v->level);
    return v->values && v->level ? CCL_OK : ccl_fail_nomem(err);
}

void ccl_i_values_fini(ccl_i_training_values_t *v) {
    free(v->values);
    free(v->level);
}

ccl_status_t ccl_i_values_set(ccl_i_training_values_t *v, const ccl_topology_t *topo,
                              const char *word, double value, ccl_error_t *err) {
    uint32_t level = ccl_i_word_level(topo, word);
    char choices[300];
    if (level == CCL_NONE) {
        ccl_i_word_choices(topo, choices, sizeof choices);
        return ccl_fail(err, CCL_ERR_INPUT, "\"%.60s\" is nobody in %.60s: %s", word, topo->name,
                        choices);
    }
    for (uint32_t r = 0; r < topo->nranks; r++) {
        if (v->level[r] > level + 1 || !ccl_i_word_means(topo, word, level, r))
            continue;
        v->values[r] = value;
        v->level[r] = level + 1;
    }
    return CCL_OK;
}

/* ---------------------------------------------------------------- the command line's lists */

/* "who=number" of `text`, up to the next comma. */
static ccl_status_t one_word(ccl_i_training_values_t *v, const ccl_topology_t *topo,
                             const char *text, size_t len, bool whole, ccl_error_t *err) {
    char word[200], *equals, *end;
    double value;
    if (len >= sizeof word)
        return ccl_fail(err, CCL_ERR_USAGE, "too long a word: \"%.60s...\"", text);
    memcpy(word, text, len);
    word[len] = '\0';
    equals = strrchr(word, '=');
    if (!equals || equals == word)
        return ccl_fail(err, CCL_ERR_USAGE,
                        "\"%.60s\": who=number is wanted, such as nvidia=4.2 or s0=2", word);
    *equals++ = '\0';
    value = strtod(equals, &end);
    if (end == equals || *end || !isfinite(value) || value < 0 || (whole && value != floor(value)))
        return ccl_fail(err, CCL_ERR_USAGE, "\"%.60s=%.60s\": %s is wanted behind the =", word,
                        equals, whole ? "a whole number" : "a number");
    return ccl_i_values_set(v, topo, word, value, err);
}

static ccl_status_t words(ccl_i_training_values_t *v, const ccl_topology_t *topo, const char *text,
                          bool whole, ccl_error_t *err) {
    for (const char *p = text; p;) {
        size_t len = strcspn(p, ",");
        CCL_TRY(one_word(v, topo, p, len, whole, err));
        p = p[len] ? p + len + 1 : NULL;
    }
    return CCL_OK;
}

ccl_status_t ccl_training_speeds(ccl_training_t *training, const ccl_topology_t *topo,
                                 const char *text, ccl_error_t *err) {
    ccl_i_training_values_t v = {0};
    ccl_status_t status = ccl_i_values_init(&v, topo->nranks, err);
    if (status == CCL_OK)
        status = words(&v, topo, text, false, err);
    for (uint32_t r = 0; status == CCL_OK && r < topo->nranks; r++) {
        if (v.level[r])
            training->speeds_per_s[r] = v.values[r];
    }
    ccl_i_values_fini(&v);
    return status;
}

ccl_status_t ccl_training_most(ccl_training_t *training, const ccl_topology_t *topo,
                               const char *text, ccl_error_t *err) {
    ccl_i_training_values_t v = {0};
    ccl_status_t status = ccl_i_values_init(&v, topo->nranks, err);
    if (status == CCL_OK)
        status = words(&v, topo, text, true, err);
    for (uint32_t r = 0; status == CCL_OK && r < topo->nranks; r++) {
        if (v.level[r])
            training->most[r] = (uint64_t)fmin(v.values[r], (double)CCL_BALANCE_MOST_TOTAL);
    }
    ccl_i_values_fini(&v);
    return status;
}
