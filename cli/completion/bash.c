/* Completion for bash, from the tables that --help is made from. */
#include "cli/completion/places.h"

#include <string.h>

/** The lines that complete a place. */
static void complete(const ccl_i_completed_t *place, ccl_text_t *out) {
    static const char *const names[] = {NULL, "_ccllab_clusters", "_ccllab_synthesizers",
                                        "_ccllab_collectives", "_ccllab_profiles"};
    bool any = place->words.len > 0;

    for (size_t i = 1; i < CCL_ARRAY_LEN(names); i++)
        any = any || (place->kinds & 1U << i);
    if (any) {
        ccl_text_printf(out, "_ccllab_words \"");
        for (size_t i = 1; i < CCL_ARRAY_LEN(names); i++)
            if (place->kinds & 1U << i)
                ccl_text_printf(out, " $%s", names[i]);
        ccl_text_printf(out, "%s\"; ", place->words.data ? place->words.data : "");
    }
    if (place->kinds & CCL_I_COMPLETED_FILES)
        ccl_text_printf(out, "_ccllab_files; ");
}

/** Each option that takes a value, with what completes it. */
static void values(const ccl_i_command_t *command, ccl_text_t *out) {
    ccl_i_option_info_t o;

    ccl_text_printf(out, "        case $prev in\n");
    for (size_t i = 0; ccl_i_option_info(command, i, &o); i++) {
        ccl_i_completed_t place = {0};

        if (!o.value || o.value_optional)
            continue;
        ccl_i_completed_value(command, &o, &place);
        ccl_text_printf(out, "        --%s", o.name);
        if (o.letter)
            ccl_text_printf(out, " | -%c", o.letter);
        ccl_text_printf(out, ") ");
        complete(&place, out);
        ccl_text_printf(out, "return ;;\n");
        out->nomem = out->nomem || place.words.nomem;
        ccl_text_fini(&place.words);
    }
    ccl_text_printf(out, "        esac\n");
}

static void of_command(const ccl_i_command_t *command, ccl_text_t *out) {
    ccl_i_option_info_t o;
    ccl_i_completed_t place = {0};

    ccl_text_printf(out, "    '%s')\n", command->name);
    values(command, out);
    ccl_text_printf(out, "        if [[ $cur == -* ]]; then\n            _ccllab_words \"");
    for (size_t i = 0; ccl_i_option_info(command, i, &o); i++) {
        ccl_text_printf(out, " --%s", o.name);
        if (o.value_optional)
            ccl_text_printf(out, " --%s=%s", o.name, o.value);
    }
    ccl_text_printf(out, "\"\n        else\n            ");
    ccl_i_completed_input(command, &place);
    complete(&place, out);
    ccl_text_printf(out, ":\n        fi\n        ;;\n");
    out->nomem = out->nomem || place.words.nomem;
    ccl_text_fini(&place.words);
}

static void lists(ccl_text_t *out) {
    static const struct {
        unsigned kind;
        const char *name;
    } all[] = {{CCL_I_COMPLETED_CLUSTERS, "clusters"},
               {CCL_I_COMPLETED_SYNTHESIZERS, "synthesizers"},
               {CCL_I_COMPLETED_COLLECTIVES, "collectives"},
               {CCL_I_COMPLETED_PROFILES, "profiles"}};

    for (size_t k = 0; k < CCL_ARRAY_LEN(all); k++) {
        ccl_text_printf(out, "_ccllab_%s='", all[k].name);
        for (size_t i = 0; ccl_i_completed_name(all[k].kind, i); i++)
            ccl_text_printf(out, " %s", ccl_i_completed_name(all[k].kind, i));
        ccl_text_printf(out, "'\n");
    }
    ccl_text_printf(out, "\n");
}

/** Commands, a family as its one word; then each family with its second words. */
static void commands(ccl_text_t *out) {
    ccl_text_printf(out, "_ccllab_commands='");
    for (size_t i = 0; ccl_i_commands[i]; i++) {
        const char *name = ccl_i_commands[i]->name;
        size_t len = strcspn(name, " ");

        if (!name[len] || ccl_i_first_of_family(i, len))
            ccl_text_printf(out, " %.*s", (int)len, name);
    }
    ccl_text_printf(out, " help'\n\n_ccllab_family() {\n    case $1 in\n");
    for (size_t i = 0; ccl_i_commands[i]; i++) {
        const char *name = ccl_i_commands[i]->name;
        size_t len = strcspn(name, " ");

        if (!name[len] || !ccl_i_first_of_family(i, len))
            continue;
        ccl_text_printf(out, "    %.*s) echo \"", (int)len, name);
        for (size_t k = i; ccl_i_commands[k]; k++)
            if (strncmp(ccl_i_commands[k]->name, name, len + 1) == 0)
                ccl_text_printf(out, " %s", ccl_i_commands[k]->name + len + 1);
        ccl_text_printf(out, "\" ;;\n");
    }
    ccl_text_printf(out, "    esac\n}\n\n");
}

void ccl_i_completion_bash(ccl_text_t *out) {
    ccl_text_printf(
        out, "# bash completion for ccllab %s, made by \"ccllab help --completion\" -*- sh -*-\n\n",
        CCL_VERSION);
    lists(out);
    commands(out);
    ccl_text_printf(
        out, "# Words that begin like the one at the cursor; behind the last comma of a list.\n"
             "_ccllab_words() {\n"
             "    local before= word\n"
             "    [[ $cur == *,* ]] && before=${cur%%,*},\n"
             "    for word in $(compgen -W \"$1\" -- \"${cur##*,}\"); do\n"
             "        COMPREPLY+=(\"$before$word\")\n"
             "    done\n"
             "}\n\n"
             "_ccllab_files() {\n"
             "    local name\n"
             "    while IFS= read -r name; do\n"
             "        COMPREPLY+=(\"$name\")\n"
             "    done < <(compgen -f -- \"$cur\")\n"
             "    compopt -o filenames 2>/dev/null\n"
             "}\n\n"
             "_ccllab() {\n"
             "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
             "    local command=${COMP_WORDS[1]} first=1 family\n"
             "    COMPREPLY=()\n"
             "    # --option=value is three words where = parts words\n"
             "    if [[ $prev == = ]] && ((COMP_CWORD > 2)); then\n"
             "        prev=${COMP_WORDS[COMP_CWORD - 2]}\n"
             "    elif [[ $cur == = ]]; then\n"
             "        cur=\n"
             "    fi\n"
             "    if [[ $command == help ]] && ((COMP_CWORD > 1)); then\n"
             "        first=2\n"
             "        command=${COMP_WORDS[2]}\n"
             "    fi\n"
             "    if ((COMP_CWORD == first)); then\n"
             "        _ccllab_words \"$_ccllab_commands\"\n"
             "        ((first == 1)) && [[ $cur == -* ]] && _ccllab_words '--help --version'\n"
             "        return\n"
             "    fi\n"
             "    family=$(_ccllab_family \"$command\")\n"
             "    if [[ $family ]]; then\n"
             "        if ((COMP_CWORD == first + 1)); then\n"
             "            _ccllab_words \"$family --help\"\n"
             "            return\n"
             "        fi\n"
             "        command+=\" ${COMP_WORDS[first + 1]}\"\n"
             "    fi\n"
             "    ((first == 2)) && return\n"
             "    case $command in\n");
    for (size_t i = 0; ccl_i_commands[i]; i++)
        of_command(ccl_i_commands[i], out);
    ccl_text_printf(out, "    esac\n}\n\ncomplete -F _ccllab ccllab\n");
}
