/*
 * Every option of every table of the library: the command line takes it in its range, refuses it
 * outside with one line, and help, manual page, completion and docs/ have it.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options.h"
#include "tests/base/main.h"
#include "validate/nccl/nccl.h"

typedef void (*each_fn)(const ccl_option_t *table, const ccl_option_t *o);

static uint32_t each(each_fn fn) {
    const ccl_option_t *tables[80] = {ccl_sim_option_table, ccl_lower_option_table};
    uint32_t n = 2, count = 0;
    for (uint32_t t = 0; ccl_synth_option_table(t); t++)
        tables[n++] = ccl_synth_option_table(t);
    for (uint32_t t = 0; t < n; t++)
        for (const ccl_option_t *o = tables[t]; o->name; o++, count++)
            fn(tables[t], o);
    return count;
}

/* A command that takes it. */
static const ccl_i_command_t *command_of(const ccl_option_t *table) {
    return table == ccl_sim_option_table ? &ccl_i_cmd_lower : &ccl_i_cmd_synth;
}

static const void *owner_of(const ccl_i_args_t *args, const ccl_option_t *table) {
    if (table == ccl_sim_option_table)
        return &args->sim;
    return table == ccl_lower_option_table ? (const void *)&args->lower : &args->synth;
}

/* A value in range that is not what holds without the option. */
static void value_in(const ccl_option_t *o, char *out, size_t len) {
    double most = o->max > 0 ? o->max : 4294967294.0;
    switch (o->type) {
    case CCL_OPTION_COUNT:
        snprintf(out, len, "%.0f", most);
        break;
    case CCL_OPTION_NUMBER:
        snprintf(out, len, "%g", most);
        break;
    case CCL_OPTION_PERCENT:
        snprintf(out, len, "%g", 100 * most);
        break;
    case CCL_OPTION_TIME:
        snprintf(out, len, "7us");
        break;
    case CCL_OPTION_BYTES:
        snprintf(out, len, "7K");
        break;
    case CCL_OPTION_EITHER:
    case CCL_OPTION_CHOICE:
    case CCL_OPTION_WORD:
        snprintf(out, len, "%s", o->words[1]);
        break;
    default:
        snprintf(out, len, "%s", o->knob_words ? o->knob_words[0] : "some");
    }
}

static void value_out(const ccl_option_t *o, char *out, size_t len) {
    double beyond = o->max > 0 ? 2 * o->max : 4294967295.0;
    if (o->type == CCL_OPTION_COUNT || o->type == CCL_OPTION_NUMBER)
        snprintf(out, len, "%.0f", beyond);
    else if (o->type == CCL_OPTION_PERCENT)
        snprintf(out, len, "%.0f", 100 * beyond);
    else if (o->type == CCL_OPTION_TEXT)
        out[0] = '\0';
    else
        snprintf(out, len, "-1");
}

static ccl_status_t parse(const ccl_i_command_t *command, const char *name, const char *value,
                          ccl_i_args_t *args, ccl_error_t *err) {
    static char word[400], input[] = "input";   /* borrowed by args */
    char *argv[] = {word, input, input, input}; /* as many inputs as a command needs */
    snprintf(word, sizeof word, value ? "--%s=%s" : "--%s", name, value);
    ccl_i_args_init(args);
    return ccl_i_options_parse(command, 1 + (int)command->min_inputs, argv, args, err);
}

static void taken(const ccl_option_t *table, const ccl_option_t *o) {
    ccl_i_args_t args;
    ccl_error_t err = CCL_ERROR_INIT;
    char value[80];
    if (o->flags & CCL_OPTION_KNOB_ONLY)
        return;
    bool flag = o->type == CCL_OPTION_FLAG, file = o->type >= CCL_OPTION_INPUT;
    value_in(o, value, sizeof value);
    ck_assert_msg(parse(command_of(table), o->name, flag ? NULL : value, &args, &err) == CCL_OK,
                  "%s", err.text);
    ck_assert_msg(ccl_i_given(&args, o->name), "--%s", o->name);
    ck_assert_msg(ccl_option_is_set(o, owner_of(&args, table)) != file, "--%s", o->name);
    ccl_i_args_fini(&args);
    if (o->alias) {
        ck_assert_int_eq(parse(command_of(table), o->alias, value, &args, &err), CCL_OK);
        ck_assert_msg(ccl_i_given(&args, o->name), "--%s", o->alias);
        ccl_i_args_fini(&args);
    }
}

static void refused(const ccl_option_t *table, const ccl_option_t *o) {
    ccl_i_args_t args;
    ccl_error_t err = CCL_ERROR_INIT;
    char value[80];
    if (o->flags & CCL_OPTION_KNOB_ONLY || o->type >= CCL_OPTION_INPUT)
        return;
    value_out(o, value, sizeof value);
    ck_assert_msg(parse(command_of(table), o->name, value, &args, &err) == CCL_ERR_USAGE,
                  "--%s took \"%s\"", o->name, value);
    ck_assert_msg(strstr(err.text, o->name) && !strchr(err.text, '\n'), "%s", err.text);
    ccl_i_args_fini(&args);
}

START_TEST(test_taken) {
    ck_assert_uint_gt(each(taken), 40);
}
END_TEST

START_TEST(test_refused) {
    each(refused);
}
END_TEST

/* ---------------------------------------------------------------- where they stand */

static char *docs;

static uint32_t count_of(const char *text, const char *what) {
    uint32_t n = 0;
    for (const char *p = text; (p = strstr(p, what)); p += strlen(what))
        n++;
    return n;
}

/* `made` is about all options of `command`. */
static void has(const char *where, void (*make)(const ccl_i_command_t *, ccl_text_t *),
                const ccl_i_command_t *command, const char *what, bool wanted) {
    ccl_text_t text = {0};
    make(command, &text);
    ck_assert(!text.nomem);
    ck_assert_msg((strstr(text.data, what) != NULL) == wanted, "%s of %s: \"%s\"", where,
                  command->name, what);
    ccl_text_fini(&text);
}

static void completion(const ccl_i_command_t *command, ccl_text_t *out) {
    (void)command;
    ccl_i_completion_bash(out);
}

static void stands(const ccl_option_t *table, const ccl_option_t *o) {
    const ccl_i_command_t *command = command_of(table);
    ccl_text_t roff = {0};
    char help[80], docs_row[80];
    bool shown = !(o->flags & CCL_OPTION_KNOB_ONLY);
    if (!shown)
        return;
    snprintf(help, sizeof help, " --%s%s%s\n", o->name, o->value ? " " : "",
             o->value ? o->value : "");
    help[strlen(help) - 1] = '\0';
    has("help", ccl_i_help_command, command, help, true);
    ccl_text_printf(&roff, "\\fB\\-\\-");
    for (const char *p = o->name; *p; p++)
        ccl_text_printf(&roff, *p == '-' ? "\\-" : "%c", *p);
    ccl_text_printf(&roff, "\\fR");
    ccl_i_man_command(command, &roff); /* behind what is looked for */
    char *page = strchr(roff.data + 8, '.');
    ck_assert(page != NULL);
    *page = '\0';
    ck_assert_msg(strstr(page + 1, roff.data) != NULL, "manual page: %s", o->name);
    ccl_text_fini(&roff);
    snprintf(help, sizeof help, " --%s", o->name);
    has("completion", completion, command, help, true);
    snprintf(docs_row, sizeof docs_row, "--%s", o->name);
    const char *row = strstr(docs, docs_row);
    ck_assert_msg(row != NULL, "docs/commands.md lacks --%s", o->name);
    if (o->alias) {
        snprintf(help, sizeof help, " --%s ", o->alias);
        has("help", ccl_i_help_command, &ccl_i_cmd_synth, help, false);
    }
}

START_TEST(test_stands) {
    size_t len;
    ck_assert_int_eq(
        ccl_file_read(CCLLAB_SOURCE_DIR "/docs/commands.md", CCL_FILE_MAX_BYTES, &docs, &len, NULL),
        CCL_OK);
    each(stands);
    free(docs);
}
END_TEST

/* Each option that the help names is taken: a value may be missing or wrong, but it is known. */
static uint32_t take_all(const ccl_i_command_t *command, const char *help) {
    uint32_t count = 0;
    for (const char *p = help; (p = strstr(p, "--")) != NULL; count++) {
        ccl_i_args_t args;
        ccl_error_t err = CCL_ERROR_INIT;
        size_t len = 2 + strspn(p + 2, "abcdefghijklmnopqrstuvwxyz-");
        char name[64];
        ck_assert_uint_lt(len, sizeof name);
        snprintf(name, sizeof name, "%.*s", (int)(len - 2), p + 2);
        p += len;
        ccl_status_t status = parse(command, name, NULL, &args, &err);
        ck_assert_msg(status == CCL_OK || (!strstr(err.text, "unknown option") &&
                                           !strstr(err.text, "does not belong")),
                      "%s: help names --%s: %s", command->name, name, err.text);
        ccl_i_args_fini(&args);
    }
    return count;
}

START_TEST(test_help) {
    for (size_t c = 0; ccl_i_commands[c]; c++) {
        ccl_text_t text = {0};
        ccl_i_help_command(ccl_i_commands[c], &text);
        char *options = strstr(text.data, "\noptions:\n");
        ck_assert_msg(options && strstr(text.data, "\nexamples:\n"), "%s", text.data);
        ck_assert_uint_ge(take_all(ccl_i_commands[c], options), 9);
        for (const char *line = text.data; *line; line += strcspn(line, "\n") + 1)
            ck_assert_msg(strcspn(line, "\n") <= 80, "wide: %.100s", line);
        ccl_text_fini(&text);
    }
}
END_TEST

/* Common options first, then each group under the names of its synthesizers. */
START_TEST(test_groups) {
    ccl_text_t text = {0};
    char heading[120], owners[80];
    ccl_i_help_command(&ccl_i_cmd_synth, &text);
    const char *at = strstr(text.data, "--channels");
    ck_assert_ptr_nonnull(at);
    for (uint32_t t = 1; ccl_synth_option_table(t); t++) {
        snprintf(heading, sizeof heading, "\noptions of %s:\n",
                 ccl_synth_option_owners(ccl_synth_option_table(t), owners, sizeof owners));
        ck_assert_msg(count_of(text.data, heading) == 1, "%s", heading);
        ck_assert_msg(strstr(at, heading) != NULL, "out of order: %s", heading);
        at = strstr(at, heading);
        for (const ccl_option_t *o = ccl_synth_option_table(t); o->name; o++) {
            char row[80];
            snprintf(row, sizeof row, "\n      --%s", o->name);
            ck_assert_msg(strstr(at, row) != NULL, "--%s is not below %s", o->name, heading);
        }
    }
    ck_assert_ptr_nonnull(strstr(at, "\noptions of every command:\n"));
    ccl_text_fini(&text);
}
END_TEST

/* ---------------------------------------------------------------- the tables themselves */

static const char *names[200], *knob_names[200];
static uint32_t nnames, nknobs;

static void sound(const ccl_option_t *table, const ccl_option_t *o) {
    (void)table;
    for (uint32_t i = 0; i < nnames; i++)
        ck_assert_msg(strcmp(names[i], o->name) != 0, "--%s is declared twice", o->name);
    names[nnames++] = o->name;
    ck_assert_msg(o->doc && *o->doc, "--%s says nothing", o->name);
    ck_assert_msg((o->value == NULL) == (o->type == CCL_OPTION_FLAG), "--%s", o->name);
    bool words =
        o->type == CCL_OPTION_EITHER || o->type == CCL_OPTION_CHOICE || o->type == CCL_OPTION_WORD;
    ck_assert_msg((o->words != NULL) == words, "--%s", o->name);
    if (!o->knob)
        return;
    for (uint32_t i = 0; i < nknobs; i++)
        ck_assert_msg(strcmp(knob_names[i], o->knob) != 0, "knob %s is declared twice", o->knob);
    knob_names[nknobs++] = o->knob;
    ccl_knob_t knob;
    ck_assert_msg(ccl_knob_find(o->knob, strlen(o->knob), &knob, NULL) == CCL_OK,
                  "the tuner does not know %s", o->knob);
    ck_assert_ptr_eq(ccl_knob_option(knob), o);
}

START_TEST(test_sound) {
    const ccl_synth_options_t synth = CCL_SYNTH_OPTIONS_INIT;
    each(sound);
    /* There is room for all that synthesizers can add. */
    ck_assert_ptr_null(ccl_knob_option((ccl_knob_t)(CCL_KNOB_ORDER - CCL_SYNTH_OWN_OPTIONS)));
    /* Without options all is automatic. */
    for (uint32_t t = 0; ccl_synth_option_table(t); t++)
        for (const ccl_option_t *o = ccl_synth_option_table(t); o->name; o++)
            ck_assert_msg(!ccl_option_is_set(o, &synth), "--%s is set", o->name);
    /* All tables of all synthesizers are found. */
    for (const ccl_synth_ops_t *const *ops = ccl_synth_all(); *ops; ops++) {
        for (uint32_t t = 0; (*ops)->options && (*ops)->options[t]; t++) {
            uint32_t i = 0;
            while (ccl_synth_option_table(i) && ccl_synth_option_table(i) != (*ops)->options[t])
                i++;
            ck_assert_msg(ccl_synth_option_table(i) != NULL, "%s's table %u", (*ops)->name, t);
        }
        bool composes = false;
        for (uint32_t t = 0; (*ops)->options && (*ops)->options[t]; t++)
            composes |= ccl_option_find((*ops)->options[t], "compose", 7) != NULL;
        ck_assert_msg(composes == (*ops)->composable, "%s", (*ops)->name);
    }
}
END_TEST

/* What commands name is declared somewhere, and there is room for all of it. */
START_TEST(test_commands) {
    static ccl_i_option_entry_t entries[CCL_I_MOST_OPTIONS], e;
    for (size_t c = 0; ccl_i_commands[c]; c++) {
        const ccl_i_command_t *command = ccl_i_commands[c];
        size_t n = ccl_i_entries(command, entries);
        ck_assert_msg(n < CCL_I_MOST_OPTIONS, "%s has no room", command->name);
        for (size_t i = 0; command->accepts[i]; i++) {
            char name[64];
            snprintf(name, sizeof name, "%.*s", (int)ccl_i_spelled_len(command->accepts[i]),
                     command->accepts[i]);
            ck_assert_msg(!*name || ccl_i_find_long(command, name, &e), "%s: no --%s",
                          command->name, command->accepts[i]);
        }
        for (size_t i = 0; i < n; i++) { /* no name twice */
            const char *name = ccl_i_entry_name(&entries[i]);
            char spelled[64];
            snprintf(spelled, sizeof spelled, "%.*s", (int)ccl_i_spelled_len(name), name);
            ck_assert(ccl_i_find_long(command, spelled, &e));
            ck_assert_msg(e.own == entries[i].own && e.of == entries[i].of, "%s: --%s twice",
                          command->name, spelled);
        }
    }
}
END_TEST

START_TEST(test_exclusive) {
    char one[] = "--sketches=a", two[] = "--add-sketches=b";
    char *argv[] = {one, two};
    ccl_i_args_t args;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_i_args_init(&args);
    ck_assert_int_eq(ccl_i_options_parse(&ccl_i_cmd_synth, 2, argv, &args, &err), CCL_ERR_USAGE);
    ck_assert_str_eq(err.text, "--sketches and --add-sketches exclude each other");
    ccl_i_args_fini(&args);
}
END_TEST

/* --root and --trace, which meant two things, mean one each; where they meant the other they are
   taken and shown nowhere. */
START_TEST(test_renamed) {
    ccl_i_args_t args;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_int_eq(parse(&ccl_i_cmd_run, "root", "here:1", &args, &err), CCL_OK);
    ck_assert_str_eq(args.job.root, "here:1");
    ck_assert(ccl_i_given(&args, "rendezvous") && !ccl_i_given(&args, "root"));
    ccl_i_args_fini(&args);
    ck_assert_int_eq(parse(&ccl_i_cmd_compare, "root", "3", &args, &err), CCL_OK);
    ck_assert_uint_eq(args.root, 3);
    ccl_i_args_fini(&args);
    ck_assert_int_eq(parse(&ccl_i_cmd_simulate, "trace", "t.json", &args, &err), CCL_OK);
    ck_assert_str_eq(args.trace, "t.json");
    ccl_i_args_fini(&args);
    ck_assert_int_eq(parse(&ccl_i_cmd_simulate, "search-trace", "t", &args, &err), CCL_ERR_USAGE);
    ccl_i_args_fini(&args);
    has("help", ccl_i_help_command, &ccl_i_cmd_run, "--root ", false);
    has("help", ccl_i_help_command, &ccl_i_cmd_run, "--rendezvous HOST:PORT", true);
    has("help", ccl_i_help_command, &ccl_i_cmd_simulate, "--trace FILE", true);
}
END_TEST

/* ---------------------------------------------------------------- examples */

enum { MOST_WORDS = 32 };

/* Blanks part words, double quotes keep them together; writes into the line. */
static int words_of(char *line, char *argv[MOST_WORDS]) {
    int n = 0;
    bool quoted = false, last = false;
    char *p = line, *to = line;
    while (!last && n < MOST_WORDS) {
        argv[n++] = to;
        for (; *p && (quoted || *p != ' '); p++) {
            if (*p == '"')
                quoted = !quoted;
            else
                *to++ = *p;
        }
        last = !*p++;
        *to++ = '\0';
    }
    return n;
}

static const ccl_i_command_t *named(char *argv[MOST_WORDS], int n, int *nwords) {
    for (*nwords = n > 2 ? 2 : 1; *nwords > 0; --*nwords) {
        char name[80];
        snprintf(name, sizeof name, *nwords == 2 ? "%s %s" : "%s", argv[1], argv[2]);
        for (size_t c = 0; ccl_i_commands[c]; c++)
            if (strcmp(ccl_i_commands[c]->name, name) == 0)
                return ccl_i_commands[c];
    }
    return NULL;
}

static void check_cluster(const char *spec, const char *line) {
    ccl_topology_t *topo = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    if (!spec || strstr(spec, ".json") || strncmp(spec, "here", 4) == 0) /* where there is a GPU */
        return;
    ck_assert_msg(ccl_topology_read(NULL, spec, &topo, &err) == CCL_OK, "%s: %s", line, err.text);
    ccl_topology_destroy(topo);
}

/* A line that its command takes, about clusters, collectives and synthesizers that there are. */
static const ccl_i_command_t *check_example(const char *line) {
    char copy[200], *argv[MOST_WORDS + 1] = {NULL};
    snprintf(copy, sizeof copy, "%s", line);
    int nwords, n = words_of(copy, argv);
    const ccl_i_command_t *used = n > 1 ? named(argv, n, &nwords) : NULL;
    ck_assert_msg(used != NULL && strcmp(argv[0], "ccllab") == 0, "%s: no such command", line);
    ccl_i_args_t args;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_i_args_init(&args);
    ck_assert_msg(ccl_i_options_parse(used, n - 1 - nwords, argv + 1 + nwords, &args, &err) ==
                      CCL_OK,
                  "%s: %s", line, err.text);
    check_cluster(args.topology, line);
    if (args.inputs.n && strstr(used->name, "topology"))
        check_cluster(args.inputs.items[0], line);
    for (const char *with = args.with; with;
         with = strchr(with, ',') ? strchr(with, ',') + 1 : NULL) {
        char name[40];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(with, ","), with);
        ck_assert_msg(ccl_nccl_stock(name) || ccl_synth_find(name), "%s: no %s", line, name);
    }
    for (const char *word = args.collective; word;) {
        char name[40];
        ccl_collective_kind_t kind;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(word, ","), word);
        ck_assert_msg(ccl_collective_kind_parse(name, &kind, NULL) == CCL_OK, "%s", line);
        word = strchr(word, ',') ? strchr(word, ',') + 1 : NULL;
    }
    ccl_i_args_fini(&args);
    return used;
}

/* Every command has one of its own; help and manual page show it as it is. */
START_TEST(test_examples) {
    for (size_t c = 0; ccl_i_commands[c]; c++) {
        const ccl_i_command_t *command = ccl_i_commands[c];
        bool own = false;
        ck_assert_msg(command->examples != NULL, "%s has no examples", command->name);
        for (const char *p = command->examples; *p; p += strcspn(p, "\n") + 1) {
            char line[200];
            ck_assert_msg(strcspn(p, "\n") < 79 && strchr(p, '\n'), "too wide: %s", p);
            snprintf(line, sizeof line, "%.*s", (int)strcspn(p, "\n"), p);
            own |= check_example(line) == command;
            has("help", ccl_i_help_command, command, line, true);
        }
        ck_assert_msg(own, "%s has no example of its own", command->name);
        has("manual page", ccl_i_man_command, command, ".SH EXAMPLES\n.nf\nccllab ", true);
    }
}
END_TEST

RUN_TESTS(test_taken, test_refused, test_stands, test_help, test_groups, test_sound, test_commands,
          test_examples, test_exclusive, test_renamed)
