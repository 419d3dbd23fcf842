/* Scenarios from files of the form ccllab/scenarios/1 and from one line of text. */
#include "base/json.h"
#include "search/scenario/scenario.h"

#include <stdlib.h>
#include <string.h>

#include "search/scenario/scenario_i.h"

static const char *const whats[] = {"rate", "latency", "blocks", "launch", NULL};
static const char *const pers[] = {"link", "device", "server", "cluster", NULL};

/* Index of a word; CCL_NONE: none of them. */
static uint32_t word_of(const char *text, const char *const *words) {
    for (uint32_t i = 0; words[i]; i++)
        if (strcmp(text, words[i]) == 0)
            return i;
    return CCL_NONE;
}

static bool of_gpus(ccl_vary_t what) {
    return what == CCL_VARY_BLOCKS || what == CCL_VARY_LAUNCH;
}

static ccl_status_t set_what(const char *text, ccl_variation_t *out, ccl_error_t *err) {
    uint32_t what = word_of(text, whats);
    if (what == CCL_NONE)
        return ccl_fail(err, CCL_ERR_INPUT,
                        "\"%.60s\" does not vary: rate, latency, blocks or launch do", text);
    out->what = (ccl_vary_t)what;
    out->per = of_gpus(out->what) ? CCL_PER_DEVICE : CCL_PER_LINK;
    return CCL_OK;
}

static ccl_status_t set_per(const char *text, ccl_variation_t *out, ccl_error_t *err) {
    uint32_t per = word_of(text, pers);
    if (per == CCL_NONE || (per == CCL_PER_LINK && of_gpus(out->what)))
        return ccl_fail(err, CCL_ERR_INPUT,
                        "a draw holds for a %sdevice, server or cluster, not "
                        "for a \"%.60s\"",
                        of_gpus(out->what) ? "" : "link, ", text);
    out->per = (ccl_vary_per_t)per;
    return CCL_OK;
}

static ccl_status_t set_text(const char *text, const char *what, char *out, size_t len,
                             ccl_error_t *err) {
    if (strlen(text) >= len)
        return ccl_fail(err, CCL_ERR_INPUT, "%s of more than %zu bytes", what, len - 1);
    memcpy(out, text, strlen(text) + 1);
    return CCL_OK;
}

static ccl_status_t set_mishap(const char *edit, double probability, ccl_mishap_t *out,
                               ccl_error_t *err) {
    if (!(probability >= 0) || probability > 1)
        return ccl_fail(err, CCL_ERR_INPUT, "a probability of %g: from 0 to 1 is needed",
                        probability);
    out->probability = probability;
    return set_text(edit, "an edit", out->edit, sizeof out->edit, err);
}

/* ---------------------------------------------------------------- growing */

static ccl_status_t add_variation(ccl_scenario_t *s, ccl_variation_t **out, ccl_error_t *err) {
    ccl_variation_t *more = realloc(s->variations, (s->nvariations + 1u) * sizeof *more);
    if (!more)
        return ccl_fail_nomem(err);
    s->variations = more;
    *out = &more[s->nvariations++];
    memset(*out, 0, sizeof **out);
    return CCL_OK;
}

static ccl_status_t add_mishap(ccl_scenario_t *s, ccl_mishap_t **out, ccl_error_t *err) {
    if (s->nmishaps == CCL_MISHAPS_MAX)
        return ccl_fail(err, CCL_ERR_INPUT, "more than %d failures", CCL_MISHAPS_MAX);
    ccl_mishap_t *more = realloc(s->mishaps, (s->nmishaps + 1u) * sizeof *more);
    if (!more)
        return ccl_fail_nomem(err);
    s->mishaps = more;
    *out = &more[s->nmishaps++];
    memset(*out, 0, sizeof **out);
    return CCL_OK;
}

/* ---------------------------------------------------------------- one line */

static char *trim(char *text) {
    while (*text == ' ' || *text == '\n' || *text == '\t')
        text++;
    for (char *end = text + strlen(text);
         end > text && (end[-1] == ' ' || end[-1] == '\n' || end[-1] == '\t');)
        *--end = '\0';
    return text;
}

/* "rate@net/device=normal(1,0.05)". */
static ccl_status_t parse_variation(ccl_scenario_t *s, char *text, ccl_error_t *err) {
    ccl_variation_t *v = NULL;
    char *law = strchr(text, '=');
    *law++ = '\0';
    char *slash = strrchr(text, '/');
    if (slash && word_of(trim(slash + 1), pers) != CCL_NONE)
        *slash++ = '\0';
    else
        slash = NULL; /* of a device's id, or a word that set_what() refuses */
    char *of = strchr(text, '@');
    if (of)
        *of++ = '\0';
    CCL_TRY(add_variation(s, &v, err));
    CCL_TRY(set_what(trim(text), v, err));
    if (slash)
        CCL_TRY(set_per(trim(slash), v, err));
    if (of)
        CCL_TRY(set_text(trim(of), "a name", v->of, sizeof v->of, err));
    return ccl_i_law_parse(trim(law), v->what, NULL, &v->law, err);
}

/* "fail:nic:0~1%". */
static ccl_status_t parse_mishap(ccl_scenario_t *s, char *text, char *tilde, ccl_error_t *err) {
    ccl_mishap_t *m = NULL;
    double probability;
    *tilde = '\0';
    CCL_TRY(ccl_i_scenario_number(trim(tilde + 1), &probability, err));
    CCL_TRY(add_mishap(s, &m, err));
    return set_mishap(trim(text), probability, m, err);
}

static ccl_status_t parse_part(ccl_scenario_t *s, char *part, ccl_error_t *err) {
    char *tilde = strrchr(part, '~');
    ccl_error_t own = CCL_ERROR_INIT;
    ccl_status_t status;
    char shown[120];
    snprintf(shown, sizeof shown, "%s", part);
    if (tilde)
        status = parse_mishap(s, part, tilde, &own);
    else if (strchr(part, '='))
        status = parse_variation(s, part, &own);
    else
        status = ccl_fail(&own, CCL_ERR_INPUT,
                          "neither what varies, rate@net=normal(1,0.05), nor a failure, "
                          "fail:nic:0~1%%");
    if (status == CCL_OK || !err)
        return status;
    if (own.line || status != CCL_ERR_INPUT) /* a file has said it */
        *err = own;
    else
        ccl_fail(err, status, "scenario \"%s\": %s", shown, own.text);
    return status;
}

static ccl_status_t parse_line(ccl_scenario_t *s, char *text, ccl_error_t *err) {
    for (char *part = text; part;) {
        char *end = strchr(part, ';');
        if (end)
            *end++ = '\0';
        part = trim(part);
        if (*part)
            CCL_TRY(parse_part(s, part, err));
        part = end;
    }
    return s->nvariations + s->nmishaps ? CCL_OK
                                        : ccl_fail(err, CCL_ERR_INPUT, "the scenario is empty");
}

/* ---------------------------------------------------------------- files */

/* A part's own message at the place of its value. */
static ccl_status_t at_value(const ccl_json_at_t *at, ccl_status_t status, const ccl_error_t *own,
                             ccl_error_t *err) {
    if (status == CCL_OK)
        return CCL_OK;
    if (status == CCL_ERR_INPUT && own->line == 0)
        return ccl_json_fail(at, err, "%s", own->text);
    if (err)
        *err = *own;
    return status;
}

static ccl_status_t read_variation(ccl_scenario_t *s, const ccl_json_at_t *at, const char *folder,
                                   ccl_error_t *err) {
    static const char *const keys[] = {"what", "of", "per", "law", NULL};
    ccl_json_at_t what = ccl_json_member(at, "what"), of = ccl_json_member(at, "of"),
                  per = ccl_json_member(at, "per"), law = ccl_json_member(at, "law");
    const char *texts[4] = {NULL, NULL, NULL, NULL};
    ccl_error_t own = CCL_ERROR_INIT;
    ccl_variation_t *v = NULL;
    CCL_TRY(ccl_json_object(at, true, err));
    CCL_TRY(ccl_json_only(at, keys, err));
    CCL_TRY(ccl_json_string(&what, true, &texts[0], err));
    CCL_TRY(ccl_json_string(&of, false, &texts[1], err));
    CCL_TRY(ccl_json_string(&per, false, &texts[2], err));
    CCL_TRY(ccl_json_string(&law, true, &texts[3], err));
    CCL_TRY(add_variation(s, &v, err));
    CCL_TRY(at_value(&what, set_what(texts[0], v, &own), &own, err));
    if (texts[1])
        CCL_TRY(at_value(&of, set_text(texts[1], "a name", v->of, sizeof v->of, &own), &own, err));
    if (texts[2])
        CCL_TRY(at_value(&per, set_per(texts[2], v, &own), &own, err));
    return at_value(&law, ccl_i_law_parse(texts[3], v->what, folder, &v->law, &own), &own, err);
}

static ccl_status_t read_mishap(ccl_scenario_t *s, const ccl_json_at_t *at, ccl_error_t *err) {
    static const char *const keys[] = {"edit", "probability", NULL};
    ccl_json_at_t edit = ccl_json_member(at, "edit"), p = ccl_json_member(at, "probability");
    const char *text = NULL;
    double probability = 0;
    ccl_error_t own = CCL_ERROR_INIT;
    ccl_mishap_t *m = NULL;
    CCL_TRY(ccl_json_object(at, true, err));
    CCL_TRY(ccl_json_only(at, keys, err));
    CCL_TRY(ccl_json_string(&edit, true, &text, err));
    CCL_TRY(ccl_json_number(&p, true, &probability, err));
    CCL_TRY(at_value(at, add_mishap(s, &m, &own), &own, err));
    return at_value(at, set_mishap(text, probability, m, &own), &own, err);
}

static ccl_status_t read_document(ccl_scenario_t *s, const ccl_json_at_t *root, const char *folder,
                                  ccl_error_t *err) {
    static const char *const keys[] = {"schema", "name", "vary", "failures", NULL};
    ccl_json_at_t schema = ccl_json_member(root, "schema"), vary = ccl_json_member(root, "vary"),
                  failures = ccl_json_member(root, "failures"),
                  name = ccl_json_member(root, "name");
    const char *text = NULL;
    size_t n = 0;
    CCL_TRY(ccl_json_object(root, true, err));
    CCL_TRY(ccl_json_only(root, keys, err));
    CCL_TRY(ccl_json_string(&schema, true, &text, err));
    if (strcmp(text, "ccllab/scenarios/1") != 0)
        return ccl_json_fail(&schema, err, "\"%.60s\" is no scenario; \"ccllab/scenarios/1\" is",
                             text);
    text = NULL;
    CCL_TRY(ccl_json_string(&name, false, &text, err));
    if (text && !(s->name = strdup(text)))
        return ccl_fail_nomem(err);
    CCL_TRY(ccl_json_array(&vary, false, &n, err));
    for (size_t i = 0; vary.value && i < n; i++) {
        ccl_json_at_t at = ccl_json_element(&vary, i);
        CCL_TRY(read_variation(s, &at, folder, err));
    }
    n = 0;
    CCL_TRY(ccl_json_array(&failures, false, &n, err));
    for (size_t i = 0; failures.value && i < n; i++) {
        ccl_json_at_t at = ccl_json_element(&failures, i);
        CCL_TRY(read_mishap(s, &at, err));
    }
    return s->nvariations + s->nmishaps ? CCL_OK
                                        : ccl_json_fail(root, err, "the scenario is empty");
}

ccl_status_t ccl_scenario_parse(const char *name, const char *text, size_t len,
                                ccl_scenario_t **out, ccl_error_t *err) {
    ccl_scenario_t *s = calloc(1, sizeof *s);
    const char *slash = strrchr(name, '/');
    char *folder = slash ? strndup(name, (size_t)(slash - name)) : NULL;
    ccl_json_doc_t doc;
    ccl_status_t status =
        s && (!slash || folder) ? ccl_json_parse(name, text, len, &doc, err) : ccl_fail_nomem(err);
    if (status == CCL_OK) {
        ccl_json_at_t root = ccl_json_root(&doc);
        status = read_document(s, &root, folder, err);
        ccl_json_fini(&doc);
    }
    if (status == CCL_OK && !s->name && !(s->name = strdup(slash ? slash + 1 : name)))
        status = ccl_fail_nomem(err);
    free(folder);
    if (status == CCL_OK)
        *out = s;
    else
        ccl_scenario_destroy(s);
    return status;
}

static ccl_status_t read_text(const char *text, ccl_scenario_t **out, ccl_error_t *err) {
    ccl_scenario_t *s = calloc(1, sizeof *s);
    char *copy = strdup(text);
    if (s)
        s->name = strdup(text);
    ccl_status_t status = s && copy && s->name ? parse_line(s, copy, err) : ccl_fail_nomem(err);
    free(copy);
    if (status == CCL_OK)
        *out = s;
    else
        ccl_scenario_destroy(s);
    return status;
}

ccl_status_t ccl_scenario_read(const char *file_or_text, ccl_scenario_t **out, ccl_error_t *err) {
    char *data = NULL;
    size_t len = 0;
    if (strpbrk(file_or_text, "=~"))
        return read_text(file_or_text, out, err);
    CCL_TRY(ccl_file_read(file_or_text, 1 << 26, &data, &len, err));
    ccl_status_t status = ccl_scenario_parse(file_or_text, data, len, out, err);
    free(data);
    return status;
}

void ccl_scenario_destroy(ccl_scenario_t *scenario) {
    if (!scenario)
        return;
    for (uint32_t i = 0; i < scenario->nvariations; i++)
        free(scenario->variations[i].law.values);
    free(scenario->variations);
    free(scenario->mishaps);
    free(scenario->name);
    free(scenario);
}
