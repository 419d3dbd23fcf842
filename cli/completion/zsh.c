/* Completion for zsh, from the tables that --help is made from: specifications of _arguments. */
#include "cli/completion/places.h"

#include <string.h>

/** Within '...' and a specification of _arguments or _describe. */
static void quoted(ccl_text_t *out, const char *text) {
    for (const char *p = text; *p; p++) {
        if (*p == '\'')
            ccl_text_printf(out, "'\\''");
        else if (strchr(":[]\\", *p))
            ccl_text_printf(out, "\\%c", *p);
        else
            ccl_text_add(out, *p == '\n' ? " " : p, 1);
    }
}

/** The action that completes a place. */
static void action(const ccl_i_completed_t *place, ccl_text_t *out) {
    static const char *const names[] = {NULL, "clusters", "synthesizers", "collectives",
                                        "profiles"};
    bool any = place->words.len > 0;

    for (size_t i = 1; i < CCL_ARRAY_LEN(names); i++)
        any = any || (place->kinds & 1U << i);
    ccl_text_printf(out, "{");
    if (any) {
        ccl_text_printf(out, "_ccllab_words");
        for (size_t i = 1; i < CCL_ARRAY_LEN(names); i++)
            if (place->kinds & 1U << i)
                ccl_text_printf(out, " $_ccllab_%s", names[i]);
        quoted(out, place->words.data ? place->words.data : "");
    }
    if (place->kinds & CCL_I_COMPLETED_FILES)
        ccl_text_printf(out, "%s_files", any ? "; " : "");
    ccl_text_printf(out, "%s}", any || place->kinds ? "" : "_message value");
}

/** One spelling of an option: "--size" or "-s". */
static void spelling(const ccl_i_command_t *command, const ccl_i_option_info_t *o, bool letter,
                     ccl_text_t *out) {
    ccl_i_completed_t place = {0};
    ccl_text_t doc = {0};

    ccl_text_printf(out, " \\\n            '*");
    if (letter)
        ccl_text_printf(out, "-%c%s", o->letter, o->value ? "+" : "");
    else
        ccl_text_printf(out, "--%s%s", o->name, o->value_optional ? "=-" : o->value ? "=" : "");
    ccl_i_option_doc(o, &doc);
    ccl_text_printf(out, "[");
    quoted(out, doc.data ? doc.data : "");
    ccl_text_printf(out, "]");
    if (o->value) {
        ccl_text_printf(out, "%s", o->value_optional ? "::" : ":");
        quoted(out, o->value);
        ccl_text_printf(out, ":");
        ccl_i_completed_value(command, o, &place);
        action(&place, out);
    }
    ccl_text_printf(out, "'");
    out->nomem = out->nomem || place.words.nomem || doc.nomem;
    ccl_text_fini(&place.words);
    ccl_text_fini(&doc);
}

static void of_command(const ccl_i_command_t *command, ccl_text_t *out) {
    ccl_i_option_info_t o;
    ccl_i_completed_t place = {0};

    ccl_text_printf(out, "    ('%s')\n        _arguments -s -S", command->name);
    for (size_t i = 0; ccl_i_option_info(command, i, &o); i++) {
        spelling(command, &o, false, out);
        if (o.letter)
            spelling(command, &o, true, out);
    }
    ccl_i_completed_input(command, &place);
    if (command->max_inputs > 0) {
        ccl_text_printf(out, " \\\n            '*:input:");
        action(&place, out);
        ccl_text_printf(out, "'");
    }
    ccl_text_printf(out, "\n        ;;\n");
    out->nomem = out->nomem || place.words.nomem;
    ccl_text_fini(&place.words);
}

static void list(const char *name, unsigned kind, ccl_text_t *out) {
    ccl_text_printf(out, "_ccllab_%s=(", name);
    for (size_t i = 0; ccl_i_completed_name(kind, i); i++)
        ccl_text_printf(out, "%s'%s'", i ? " " : "", ccl_i_completed_name(kind, i));
    ccl_text_printf(out, ")\n");
}

/** "name:summary" of commands: a family as its one word, or those of a family. */
static void commands(const char *family, ccl_text_t *out) {
    for (size_t i = 0; ccl_i_commands[i]; i++) {
        const char *name = ccl_i_commands[i]->name, *rest = strchr(name, ' ');
        size_t len = strcspn(name, " ");
        bool of_it = family && rest && strncmp(name, family, len + 1) == 0;

        if (family ? !of_it : rest && !ccl_i_first_of_family(i, len))
            continue;
        ccl_text_printf(out, "        '%s", of_it ? rest + 1 : "");
        if (!of_it)
            ccl_text_printf(out, "%.*s", (int)len, name);
        ccl_text_printf(out, ":");
        if (!family && rest)
            ccl_text_printf(out, "its commands\\: ccllab %.*s --help", (int)len, name);
        else
            quoted(out, ccl_i_commands[i]->summary);
        ccl_text_printf(out, "'\n");
    }
}

static void families(ccl_text_t *out) {
    ccl_text_printf(out, "    case $command in\n");
    for (size_t i = 0; ccl_i_commands[i]; i++) {
        const char *name = ccl_i_commands[i]->name;
        size_t len = strcspn(name, " ");

        if (!name[len] || !ccl_i_first_of_family(i, len))
            continue;
        ccl_text_printf(out, "    (%.*s) family=(\n", (int)len, name);
        commands(name, out);
        ccl_text_printf(out, "        ) ;;\n");
    }
    ccl_text_printf(out, "    esac\n");
}

void ccl_i_completion_zsh(ccl_text_t *out) {
    ccl_text_printf(out,
                    "#compdef ccllab\n# made by \"ccllab help --completion zsh\" of ccllab %s\n\n"
                    "typeset -ga _ccllab_clusters _ccllab_synthesizers _ccllab_collectives "
                    "_ccllab_profiles\n",
                    CCL_VERSION);
    list("clusters", CCL_I_COMPLETED_CLUSTERS, out);
    list("synthesizers", CCL_I_COMPLETED_SYNTHESIZERS, out);
    list("collectives", CCL_I_COMPLETED_COLLECTIVES, out);
    list("profiles", CCL_I_COMPLETED_PROFILES, out);
    ccl_text_printf(out, "\n# Behind the last comma of a list.\n"
                         "_ccllab_words() {\n"
                         "    compset -P '*,'\n"
                         "    compadd -- \"$@\"\n"
                         "}\n\n"
                         "_ccllab() {\n"
                         "    local command\n"
                         "    local -i first=2\n"
                         "    local -a family commands\n"
                         "    [[ $words[2] == help ]] && (( CURRENT > 2 )) && first=3\n"
                         "    command=$words[first]\n"
                         "    if (( CURRENT == first )); then\n"
                         "        commands=(\n");
    commands(NULL, out);
    ccl_text_printf(out, "        'help:help of a command'\n        )\n"
                         "        _describe -t commands command commands\n"
                         "        (( first == 2 )) && [[ $PREFIX == -* ]] && "
                         "compadd -- --help --version\n"
                         "        return\n"
                         "    fi\n");
    families(out);
    ccl_text_printf(out, "    if (( $#family )); then\n"
                         "        if (( CURRENT == first + 1 )); then\n"
                         "            _describe -t commands command family\n"
                         "            return\n"
                         "        fi\n"
                         "        (( first++ ))\n"
                         "        command+=\" $words[first]\"\n"
                         "    fi\n"
                         "    [[ $words[2] == help ]] && return\n"
                         "    shift $(( first - 1 )) words\n"
                         "    (( CURRENT -= first - 1 ))\n"
                         "    case $command in\n");
    for (size_t i = 0; ccl_i_commands[i]; i++)
        of_command(ccl_i_commands[i], out);
    ccl_text_printf(out, "    esac\n}\n\n"
                         "[[ $funcstack[1] == _ccllab ]] && _ccllab \"$@\" || "
                         "compdef _ccllab ccllab\n");
}
