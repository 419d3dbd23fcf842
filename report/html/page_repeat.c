/* Command lines that repeat what a page shows. */
#include "report/html/page.h"
#include "validate/nccl/nccl.h"

#include <math.h>
#include <string.h>

void ccl_i_page_word(ccl_text_t *out, const char *text) {
    bool plain = text[0] != '\0';

    for (const char *s = text; *s; s++)
        plain &= strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-_./,:=",
                        *s) != NULL;
    if (plain) {
        ccl_text_add_xml(out, text);
        return;
    }
    ccl_text_add(out, "'", 1);
    for (const char *s = text; *s; s++) {
        char one[2] = {*s, '\0'};

        if (*s == '\'')
            ccl_text_printf(out, "'\\''");
        else
            ccl_text_add_xml(out, one);
    }
    ccl_text_add(out, "'", 1);
}

void ccl_i_page_option(ccl_text_t *out, const char *name, const char *value) {
    if (!value[0])
        return;
    ccl_text_printf(out, " --%s ", name);
    ccl_i_page_word(out, value);
}

/** Does `--with` make it? Behind the name may stand in parentheses what was chosen. */
static bool made(const char *input, char *name, size_t len) {
    const char *end = strstr(input, " (");

    snprintf(name, len, "%.*s", end ? (int)(end - input) : (int)strlen(input), input);
    return ccl_synth_find(name) || ccl_nccl_stock(name);
}

ccl_status_t ccl_i_page_repeat_compare(const ccl_json_doc_t *doc, ccl_text_t *out,
                                       ccl_error_t *err) {
    const json_t *root = doc->root;
    const json_t *list = json_object_get(root, "comparisons");

    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *comparison = json_array_get(list, i);
        const json_t *contenders = json_object_get(comparison, "contenders");
        const json_t *sizes = json_object_get(comparison, "sizes");

        for (size_t c = 0; c < json_array_size(contenders); c++) {
            const json_t *contender = json_array_get(contenders, c);
            char name[64];
            bool own = !json_is_string(json_object_get(contender, "order")) &&
                       !made(ccl_i_page_string(contender, "name"), name, sizeof(name));

            if (!json_is_true(json_object_get(contender, "takes_part")))
                continue;
            ccl_text_printf(out, "ccllab compare");
            ccl_i_page_option(out, "topology", ccl_i_page_string(root, "topology"));
            ccl_i_page_option(out, "collective", ccl_i_page_string(comparison, "collective"));
            ccl_i_page_option(out, own ? "program" : "with", ccl_i_page_string(contender, "name"));
            ccl_i_page_option(out, "order", ccl_i_page_string(contender, "order"));
            ccl_i_page_option(out, "allocate", ccl_i_page_string(contender, "allocation"));
            ccl_i_page_option(out, "granularity", ccl_i_page_string(contender, "granularity"));
            ccl_i_page_option(out, "sharing", ccl_i_page_string(root, "sharing"));
            ccl_text_printf(out, " --seed %.0f --sizes ", ccl_i_page_number(root, "seed"));
            for (size_t s = 0; s < json_array_size(sizes); s++)
                ccl_text_printf(out, "%s%.17g", s ? "," : "",
                                ccl_i_page_number(json_array_get(sizes, s), "size_bytes"));
            ccl_text_add(out, "\n", 1);
        }
    }
    (void)err;
    return CCL_OK;
}

/** A run of `simulate` or `explain`. */
static void repeat_run(const json_t *root, const char *command, ccl_text_t *out) {
    double batches = ccl_i_page_number(root, "batches");
    const char *input = ccl_i_page_string(root, "input");
    char name[64];

    ccl_text_printf(out, "ccllab %s", command);
    ccl_i_page_option(out, "topology", ccl_i_page_string(root, "topology"));
    if (made(input, name, sizeof(name))) {
        ccl_i_page_option(out, "collective", ccl_i_page_string(root, "collective"));
        ccl_i_page_option(out, "with", name);
    } else {
        ccl_text_add(out, " ", 1);
        ccl_i_page_word(out, input);
    }
    ccl_text_printf(out, " --size %.17g", ccl_i_page_number(root, "size_bytes"));
    if (isfinite(batches))
        ccl_text_printf(out, " --batches %.0f", batches);
    ccl_i_page_option(out, "granularity", ccl_i_page_string(root, "granularity"));
    ccl_i_page_option(out, "sharing", ccl_i_page_string(root, "sharing"));
    ccl_i_page_option(out, "order", ccl_i_page_string(root, "order"));
    ccl_i_page_option(out, "allocate", ccl_i_page_string(root, "allocation"));
    ccl_text_add(out, "\n", 1);
}

ccl_status_t ccl_i_page_repeat_simulate(const ccl_json_doc_t *doc, ccl_text_t *out,
                                        ccl_error_t *err) {
    (void)err;
    repeat_run(doc->root, "simulate", out);
    return CCL_OK;
}

ccl_status_t ccl_i_page_repeat_explain(const ccl_json_doc_t *doc, ccl_text_t *out,
                                       ccl_error_t *err) {
    (void)err;
    repeat_run(doc->root, "explain", out);
    return CCL_OK;
}
