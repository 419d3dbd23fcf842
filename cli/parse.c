/* The command line: words to options and inputs. */
#include "cli/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool ccl_i_list_add(ccl_i_list_t *list, const char *item) {
    if (!ccl_grow(&list->items, &list->cap, list->n + 1, sizeof(*list->items)))
        return false;
    list->items[list->n++] = item;
    return true;
}

void ccl_i_args_init(ccl_i_args_t *args) {
    memset(args, 0, sizeof(*args));
    args->seed = 1;
    args->job.warmups = 1;
    args->synth = (ccl_synth_options_t)CCL_SYNTH_OPTIONS_INIT;
    args->lower = (ccl_lower_options_t)CCL_LOWER_OPTIONS_INIT;
    args->sim = (ccl_sim_options_t)CCL_SIM_OPTIONS_INIT;
}

void ccl_i_args_fini(ccl_i_args_t *args) {
    for (size_t i = 0; i < args->edits.n; i++)
        free((void *)args->edits.items[i]); /* made of name and value */
    free(args->edits.items);
    free(args->programs.items);
    free(args->schedules.items);
    free(args->plugins.items);
    free(args->topologies.items);
    free(args->measured.items);
    free(args->tune.knobs.items);
    free(args->tune.vary.items);
    free(args->inputs.items);
    free(args->given.items);
    free(args->given_texts.items);
}

/* ---------------------------------------------------------------- values */

static ccl_status_t seed(const ccl_i_own_option_t *o, const char *text, uint64_t *out,
                         ccl_error_t *err) {
    char *end = NULL;
    unsigned long long value;

    errno = 0;
    value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno)
        return ccl_fail(err, CCL_ERR_USAGE,
                        "option --%s wants a whole number from 0 to %llu, not \"%s\"", o->name,
                        (unsigned long long)UINT64_MAX, text);
    *out = value;
    return CCL_OK;
}

const char *ccl_i_given_text(const ccl_i_args_t *args, const char *name) {
    for (size_t i = args->given.n; i-- > 0;)
        if (strcmp(args->given.items[i], name) == 0)
            return args->given_texts.items[i];
    return NULL;
}

bool ccl_i_given(const ccl_i_args_t *args, const char *name) {
    return ccl_i_given_text(args, name) != NULL;
}

ccl_i_choices_t ccl_i_choices(const ccl_i_args_t *args, const ccl_option_t *option) {
    ccl_i_choices_t out = {0};

    for (const char *p = ccl_i_given_text(args, option->name);
         p && out.n < CCL_ARRAY_LEN(out.at);) {
        size_t len = strcspn(p, ",");
        uint32_t index = ccl_option_word(option->words, p, len);
        bool seen = false;

        for (uint32_t i = 0; i < out.n; i++)
            seen |= out.at[i] == index;
        if (!seen)
            out.at[out.n++] = index;
        p = p[len] ? p + len + 1 : NULL;
    }
    return out;
}

/** Of a list each word; the first one counts for whoever takes one. */
static ccl_status_t take_words(const ccl_option_t *o, const char *text, void *to,
                               ccl_error_t *err) {
    uint32_t first = CCL_NONE;

    for (const char *p = text; p;) {
        char word[80];
        size_t len = strcspn(p, ",");

        snprintf(word, sizeof(word), "%.*s", (int)(len < sizeof(word) ? len : sizeof(word)), p);
        CCL_TRY(ccl_option_parse(o, word, to, err));
        if (first == CCL_NONE)
            first = *(uint32_t *)((char *)to + o->offset);
        p = p[len] ? p + len + 1 : NULL;
    }
    *(uint32_t *)((char *)to + o->offset) = first;
    return CCL_OK;
}

static ccl_status_t take_item(const ccl_i_own_option_t *o, const char *text, ccl_i_list_t *list,
                              ccl_error_t *err) {
    size_t prefix = strlen(o->name);
    char *item;

    if (o->kind == KIND_LIST)
        return ccl_i_list_add(list, text) ? CCL_OK : ccl_fail_nomem(err);
    item = malloc(prefix + strlen(text) + 2);
    if (!item)
        return ccl_fail_nomem(err);
    sprintf(item, "%s:%s", o->name, text);
    if (ccl_i_list_add(list, item))
        return CCL_OK;
    free(item);
    return ccl_fail_nomem(err);
}

static ccl_status_t take_own(const ccl_i_own_option_t *o, const char *text, ccl_i_args_t *args,
                             ccl_error_t *err) {
    void *at = (char *)args + o->offset;
    char name[64];

    switch (o->kind) {
    case KIND_REPEATED:
        ++*(uint32_t *)at;
        return CCL_OK;
    case KIND_TEXT:
    case KIND_TEXT_OR_NONE:
        *(const char **)at = text;
        return CCL_OK;
    case KIND_LIST:
    case KIND_EDIT:
        return take_item(o, text, at, err);
    case KIND_U64:
        return seed(o, text, at, err);
    case KIND_FLAG:
    case KIND_CHOICE:
    case KIND_U32:
    case KIND_SECONDS:
    case KIND_BYTES:
        break;
    }
    snprintf(name, sizeof(name), "%.*s", (int)ccl_i_spelled_len(o->name), o->name);
    ccl_option_t as = {
        .name = name, .type = (ccl_option_type_t)o->kind, .offset = o->offset, .words = o->words};
    return ccl_option_parse(&as, text, args, err);
}

static ccl_status_t take(const ccl_i_command_t *command, const ccl_i_option_entry_t *e,
                         const char *text, ccl_i_args_t *args, ccl_error_t *err) {
    if (!ccl_i_list_add(&args->given, ccl_i_entry_name(e)) ||
        !ccl_i_list_add(&args->given_texts, text ? text : ""))
        return ccl_fail_nomem(err);
    if (e->own)
        return take_own(e->own, text, args, err);
    for (const char *const *name = command->lists; name && *name; name++)
        if (strcmp(*name, e->of->name) == 0)
            return take_words(e->of, text, (char *)args + e->base, err);
    return ccl_option_parse(e->of, text, (char *)args + e->base, err);
}

static bool wants_value(const ccl_i_option_entry_t *e) {
    if (e->of)
        return e->of->type != CCL_OPTION_FLAG;
    return e->own->kind != KIND_FLAG && e->own->kind != KIND_REPEATED &&
           e->own->kind != KIND_TEXT_OR_NONE;
}

/* ---------------------------------------------------------------- parsing */

static ccl_status_t unknown(const ccl_i_command_t *command, const char *name, ccl_error_t *err) {
    ccl_i_option_entry_t entries[CCL_I_MOST_OPTIONS];
    const char *names[CCL_I_MOST_OPTIONS + 1] = {NULL};
    const char *near;

    if (ccl_i_known_elsewhere(name))
        return ccl_fail(err, CCL_ERR_USAGE,
                        "option --%s does not belong to \"%s\" (see ccllab %s --help)", name,
                        command->name, command->name);
    for (size_t i = ccl_i_entries(command, entries); i-- > 0;)
        names[i] = ccl_i_entry_name(&entries[i]);
    near = ccl_nearest(name, names);
    if (near)
        return ccl_fail(err, CCL_ERR_USAGE, "unknown option --%s, did you mean --%.*s?", name,
                        (int)ccl_i_spelled_len(near), near);
    return ccl_fail(err, CCL_ERR_USAGE, "unknown option --%s (see ccllab %s --help)", name,
                    command->name);
}

static ccl_status_t parse_long(const ccl_i_command_t *command, int argc, char **argv, int *i,
                               ccl_i_args_t *args, ccl_error_t *err) {
    const char *word = argv[*i] + 2;
    const char *equals = strchr(word, '=');
    size_t len = equals ? (size_t)(equals - word) : strlen(word);
    char name[64];
    ccl_i_option_entry_t e;

    if (len >= sizeof(name))
        return ccl_fail(err, CCL_ERR_USAGE, "unknown option --%.40s...", word);
    memcpy(name, word, len);
    name[len] = '\0';
    if (!ccl_i_find_long(command, name, &e))
        return unknown(command, name, err);
    if (ccl_i_value_is_optional(&e))
        return take(command, &e, equals ? equals + 1 : "", args, err);
    if (!wants_value(&e)) {
        if (equals)
            return ccl_fail(err, CCL_ERR_USAGE, "option --%s takes no value", name);
        return take(command, &e, NULL, args, err);
    }
    if (equals)
        return take(command, &e, equals + 1, args, err);
    if (*i + 1 >= argc)
        return ccl_fail(err, CCL_ERR_USAGE, "option --%s needs a value: --%s %s", name, name,
                        ccl_i_entry_value(&e));
    return take(command, &e, argv[++*i], args, err);
}

static ccl_status_t unknown_letter(const ccl_i_command_t *command, char letter, ccl_error_t *err) {
    ccl_i_option_entry_t e;

    for (size_t i = 0; ccl_i_commands[i]; i++)
        if (ccl_i_find_letter(ccl_i_commands[i], letter, &e))
            return ccl_fail(err, CCL_ERR_USAGE,
                            "option -%c (--%.*s) does not belong to \"%s\" (see ccllab %s --help)",
                            letter, (int)ccl_i_spelled_len(ccl_i_entry_name(&e)),
                            ccl_i_entry_name(&e), command->name, command->name);
    return ccl_fail(err, CCL_ERR_USAGE, "unknown option -%c (see ccllab %s --help)", letter,
                    command->name);
}

static ccl_status_t parse_letters(const ccl_i_command_t *command, int argc, char **argv, int *i,
                                  ccl_i_args_t *args, ccl_error_t *err) {
    for (const char *p = argv[*i] + 1; *p; p++) {
        ccl_i_option_entry_t e;

        if (!ccl_i_find_letter(command, *p, &e))
            return unknown_letter(command, *p, err);
        if (!wants_value(&e)) {
            CCL_TRY(take(command, &e, "", args, err));
            continue;
        }
        if (p[1])
            return take(command, &e, p[1] == '=' ? p + 2 : p + 1, args, err);
        if (*i + 1 >= argc)
            return ccl_fail(err, CCL_ERR_USAGE, "option -%c needs a value: -%c %s", *p, *p,
                            ccl_i_entry_value(&e));
        return take(command, &e, argv[++*i], args, err);
    }
    return CCL_OK;
}

/** Two options that exclude each other, of tables that say so. */
static ccl_status_t check_excludes(const ccl_i_command_t *command, const ccl_i_args_t *args,
                                   ccl_error_t *err) {
    ccl_i_option_entry_t entries[CCL_I_MOST_OPTIONS];

    for (size_t i = ccl_i_entries(command, entries); i-- > 0;) {
        const ccl_option_t *o = entries[i].of;

        if (o && o->excludes && ccl_i_given(args, o->name) && ccl_i_given(args, o->excludes))
            return ccl_fail(err, CCL_ERR_USAGE, "--%s and --%s exclude each other", o->excludes,
                            o->name);
    }
    return CCL_OK;
}

ccl_status_t ccl_i_options_parse(const ccl_i_command_t *command, int argc, char **argv,
                                 ccl_i_args_t *args, ccl_error_t *err) {
    bool only_inputs = false;

    for (int i = 0; i < argc; i++) {
        const char *word = argv[i];

        if (only_inputs || word[0] != '-' || word[1] == '\0') {
            if (!ccl_i_list_add(&args->inputs, word))
                return ccl_fail_nomem(err);
        } else if (strcmp(word, "--") == 0) {
            only_inputs = true;
        } else if (word[1] == '-') {
            CCL_TRY(parse_long(command, argc, argv, &i, args, err));
        } else {
            CCL_TRY(parse_letters(command, argc, argv, &i, args, err));
        }
    }
    if (args->help)
        return CCL_OK;
    if (args->json && args->csv)
        return ccl_fail(err, CCL_ERR_USAGE, "--json and --csv exclude each other");
    CCL_TRY(check_excludes(command, args, err));
    if (args->progress && args->progress[0] && strcmp(args->progress, "json") != 0)
        return ccl_fail(err, CCL_ERR_USAGE, "option --progress wants no value or json, not \"%s\"",
                        args->progress);
    if (args->inputs.n > command->max_inputs)
        return ccl_fail(err, CCL_ERR_USAGE, "unexpected \"%s\" (usage: ccllab %s %s)",
                        args->inputs.items[command->max_inputs], command->name, command->usage);
    if (args->inputs.n < command->min_inputs)
        return ccl_fail(err, CCL_ERR_USAGE, "nothing to work on (usage: ccllab %s %s)",
                        command->name, command->usage);
    return CCL_OK;
}
