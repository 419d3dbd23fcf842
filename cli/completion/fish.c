/* Completion for fish, from the tables that --help is made from. */
#include "cli/completion/places.h"

#include <string.h>

/** Within '...'. */
static void quoted(ccl_text_t *out, const char *text) {
    ccl_text_add(out, "'", 1);
    for (const char *p = text; *p; p++) {
        if (*p == '\'' || *p == '\\')
            ccl_text_add(out, "\\", 1);
        ccl_text_add(out, *p == '\n' ? " " : p, 1);
    }
    ccl_text_add(out, "'", 1);
}

/** What can stand in a place: "-r -F -a '...'". */
static void arguments(const ccl_i_completed_t *place, bool value, ccl_text_t *out) {
    static const char *const names[] = {NULL, "clusters", "synthesizers", "collectives",
                                        "profiles"};
    bool any = place->words.len > 0;

    if (value)
        ccl_text_printf(out, " -r");
    ccl_text_printf(out, place->kinds & CCL_I_COMPLETED_FILES ? " -F" : " -f");
    for (size_t i = 1; i < CCL_ARRAY_LEN(names); i++)
        any = any || (place->kinds & 1U << i);
    if (!any)
        return;
    ccl_text_printf(out, " -a '(__ccllab_words");
    for (size_t i = 1; i < CCL_ARRAY_LEN(names); i++)
        if (place->kinds & 1U << i)
            ccl_text_printf(out, " $__ccllab_%s", names[i]);
    ccl_text_printf(out, "%s)'", place->words.data ? place->words.data : "");
}

static void begin(const ccl_i_command_t *command, ccl_text_t *out) {
    ccl_text_printf(out, "complete -c ccllab -n '__ccllab_is %s'", command->name);
}

static void of_command(const ccl_i_command_t *command, ccl_text_t *out) {
    ccl_i_option_info_t o;
    ccl_i_completed_t inputs = {0};

    for (size_t i = 0; ccl_i_option_info(command, i, &o); i++) {
        ccl_i_completed_t place = {0};
        ccl_text_t doc = {0};

        begin(command, out);
        ccl_text_printf(out, " -l %s", o.name);
        if (o.letter)
            ccl_text_printf(out, " -s %c", o.letter);
        if (o.value && !o.value_optional) {
            ccl_i_completed_value(command, &o, &place);
            arguments(&place, true, out);
        }
        ccl_i_option_doc(&o, &doc);
        ccl_text_printf(out, " -d ");
        quoted(out, doc.data ? doc.data : "");
        ccl_text_printf(out, "\n");
        if (o.value_optional) {
            ccl_text_printf(out,
                            "complete -c ccllab -n '__ccllab_is %s; and string match -q -- \"-*\" "
                            "(commandline -ct)' -f -a '--%s=%s'\n",
                            command->name, o.name, o.value);
        }
        out->nomem = out->nomem || place.words.nomem || doc.nomem;
        ccl_text_fini(&place.words);
        ccl_text_fini(&doc);
    }
    if (command->max_inputs == 0)
        return;
    ccl_i_completed_input(command, &inputs);
    begin(command, out);
    arguments(&inputs, false, out);
    ccl_text_printf(out, "\n");
    out->nomem = out->nomem || inputs.words.nomem;
    ccl_text_fini(&inputs.words);
}

static void list(const char *name, unsigned kind, ccl_text_t *out) {
    ccl_text_printf(out, "set -g __ccllab_%s", name);
    for (size_t i = 0; ccl_i_completed_name(kind, i); i++)
        ccl_text_printf(out, " '%s'", ccl_i_completed_name(kind, i));
    ccl_text_printf(out, "\n");
}

/** Each command by its first word, and those of families by their second. */
static void commands(ccl_text_t *out) {
    for (size_t i = 0; ccl_i_commands[i]; i++) {
        const char *name = ccl_i_commands[i]->name, *rest = strchr(name, ' ');
        size_t len = strcspn(name, " ");

        if (rest && ccl_i_first_of_family(i, len))
            ccl_text_printf(out,
                            "complete -c ccllab -n '__ccllab_is' -f -a %.*s -d 'its commands: "
                            "ccllab %.*s --help'\n",
                            (int)len, name, (int)len, name);
        if (rest)
            ccl_text_printf(out, "complete -c ccllab -n '__ccllab_is %.*s' -f -a %s -d ", (int)len,
                            name, rest + 1);
        else
            ccl_text_printf(out, "complete -c ccllab -n '__ccllab_is' -f -a %s -d ", name);
        quoted(out, ccl_i_commands[i]->summary);
        ccl_text_printf(out, "\n");
    }
}

void ccl_i_completion_fish(ccl_text_t *out) {
    ccl_text_printf(
        out, "# fish completion for ccllab %s, made by \"ccllab help --completion fish\"\n\n",
        CCL_VERSION);
    list("clusters", CCL_I_COMPLETED_CLUSTERS, out);
    list("synthesizers", CCL_I_COMPLETED_SYNTHESIZERS, out);
    list("collectives", CCL_I_COMPLETED_COLLECTIVES, out);
    list("profiles", CCL_I_COMPLETED_PROFILES, out);
    ccl_text_printf(out, "set -g __ccllab_families");
    for (size_t i = 0; ccl_i_commands[i]; i++) {
        size_t len = strcspn(ccl_i_commands[i]->name, " ");
        if (ccl_i_commands[i]->name[len] && ccl_i_first_of_family(i, len))
            ccl_text_printf(out, " %.*s", (int)len, ccl_i_commands[i]->name);
    }
    ccl_text_printf(
        out, "\n\n# Is the command before the cursor this one? None: it is still to come.\n"
             "function __ccllab_is\n"
             "    set -l words (commandline -opc)\n"
             "    set -e words[1]\n"
             "    set -l help 0\n"
             "    test \"$words[1]\" = help; and set help 1; and set -e words[1]\n"
             "    set -l command $words[1]\n"
             "    contains -- \"$command\" $__ccllab_families; and set command $words[1..2]\n"
             "    # What stands behind a command whose help is wanted is no input of it.\n"
             "    test $help = 1 -a (count $command) -gt 0; and "
             "not contains -- \"$command\" $__ccllab_families; and return 1\n"
             "    test \"$command\" = \"$argv\"\n"
             "end\n\n"
             "# Behind the last comma of a list.\n"
             "function __ccllab_words\n"
             "    set -l before (string replace -r '^--[^=]*=' '' -- (commandline -ct) | "
             "string match -r '^.*,')\n"
             "    for word in $argv\n"
             "        echo \"$before$word\"\n"
             "    end\n"
             "end\n\n"
             "complete -c ccllab -f\n"
             "complete -c ccllab -n '__ccllab_is' -f -l version -d 'its version'\n"
             "complete -c ccllab -n '__ccllab_is' -f -l help -d 'its commands'\n"
             "complete -c ccllab -n '__ccllab_is' -f -a help -d 'help of a command'\n");
    commands(out);
    for (size_t i = 0; ccl_i_commands[i]; i++)
        of_command(ccl_i_commands[i], out);
}
