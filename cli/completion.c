/* Completion for bash, from the tables that --help is made from. */
#include "cli/command.h"

#include <stdlib.h>
#include <string.h>

/** What can stand in a place: any of these, and words. */
enum { FILES = 1, CLUSTERS = 2, SYNTHESIZERS = 4, COLLECTIVES = 8, PROFILES = 16 };

typedef struct place {
    unsigned kinds;
    ccl_text_t words; /* blank before each */
} place_t;

/** What one alternative of a value's or an input's name stands for: "FILE", "LL", "N". */
static void alternative(const char *word, size_t len, place_t *out) {
    static const struct {
        const char *word;
        unsigned kinds;
    } known[] = {{"SPEC", CLUSTERS | FILES},
                 {"CLUSTER", CLUSTERS | FILES},
                 {"FILE", FILES},
                 {"FILE[+hpds]", FILES},
                 {"LOG", FILES},
                 {"SCHEDULE", FILES},
                 {"PROGRAM", FILES},
                 {"PICTURE", FILES},
                 {"SYNTHESIZER", SYNTHESIZERS},
                 {"RESULTS...", FILES},
                 {"P", PROFILES | FILES}};
    bool literal = false;

    for (size_t i = 0; i < CCL_ARRAY_LEN(known); i++) {
        if (strlen(known[i].word) == len && strncmp(known[i].word, word, len) == 0) {
            out->kinds |= known[i].kinds;
            return;
        }
    }
    for (size_t i = 0; i < len; i++)
        literal = literal || (word[i] >= 'a' && word[i] <= 'z');
    if (literal || (len == 2 && strncmp(word, "LL", len) == 0) ||
        (len == 5 && strncmp(word, "LL128", len) == 0))
        ccl_text_printf(&out->words, " %.*s", (int)len, word);
}

/** Every alternative of "A|B|C". */
static void alternatives(const char *text, size_t len, place_t *out) {
    while (len) {
        const char *bar = memchr(text, '|', len);
        size_t n = bar ? (size_t)(bar - text) : len;

        alternative(text, n, out);
        n += bar != NULL;
        text += n;
        len -= n;
    }
}

static void value_place(const ccl_i_command_t *command, const ccl_i_option_info_t *o,
                        place_t *out) {
    if (strcmp(o->name, "collective") == 0) {
        out->kinds = COLLECTIVES;
    } else if (strcmp(o->name, "with") == 0) {
        out->kinds = SYNTHESIZERS;
    } else if (strcmp(o->name, "table") == 0) {
        for (size_t t = 0; command->tables && command->tables[t]; t++)
            ccl_text_printf(&out->words, " %s", command->tables[t]);
    } else if (o->choices) {
        for (const char *const *word = o->choices; *word; word++)
            ccl_text_printf(&out->words, " %s", *word);
    } else {
        alternatives(o->value, strlen(o->value), out);
    }
}

/** Inputs, as the usage names them: neither options with their values nor what stands in []. */
static void input_place(const ccl_i_command_t *command, place_t *out) {
    uint32_t depth = 0;
    bool of_option = false;

    if (command->max_inputs == 0)
        return;
    for (const char *p = command->usage; *p;) {
        size_t n = strcspn(p, " ");
        bool outside = depth == 0 && p[0] != '[';

        for (size_t i = 0; i < n; i++)
            depth += (p[i] == '[') - (uint32_t)(p[i] == ']');
        if (outside && p[0] == '-')
            of_option = true;
        else if (outside && of_option)
            of_option = false;
        else if (outside)
            alternatives(p, n, out);
        p += n + (p[n] == ' ');
    }
}

/** The lines that complete a place. */
static void complete(const place_t *place, ccl_text_t *out) {
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
    if (place->kinds & FILES)
        ccl_text_printf(out, "_ccllab_files; ");
}

/** Each option that takes a value, with what completes it. */
static void values(const ccl_i_command_t *command, ccl_text_t *out) {
    ccl_i_option_info_t o;

    ccl_text_printf(out, "        case $prev in\n");
    for (size_t i = 0; ccl_i_option_info(command, i, &o); i++) {
        place_t place = {0};

        if (!o.value || o.value_optional)
            continue;
        value_place(command, &o, &place);
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
    place_t place = {0};

    ccl_text_printf(out, "    '%s')\n", command->name);
    values(command, out);
    ccl_text_printf(out, "        if [[ $cur == -* ]]; then\n            _ccllab_words \"");
    for (size_t i = 0; ccl_i_option_info(command, i, &o); i++) {
        ccl_text_printf(out, " --%s", o.name);
        if (o.value_optional)
            ccl_text_printf(out, " --%s=%s", o.name, o.value);
    }
    ccl_text_printf(out, "\"\n        else\n            ");
    input_place(command, &place);
    complete(&place, out);
    ccl_text_printf(out, ":\n        fi\n        ;;\n");
    out->nomem = out->nomem || place.words.nomem;
    ccl_text_fini(&place.words);
}

static void lists(ccl_text_t *out) {
    ccl_text_printf(out, "_ccllab_clusters='");
    for (const ccl_library_entry_t *e = ccl_topology_library(); e->name; e++)
        ccl_text_printf(out, " %s", e->name);
    ccl_text_printf(out, "'\n_ccllab_synthesizers='");
    for (const ccl_synth_ops_t *const *s = ccl_synth_all(); *s; s++)
        ccl_text_printf(out, " %s", (*s)->name);
    ccl_text_printf(out, "'\n_ccllab_collectives='");
    for (int kind = 0; kind < CCL_CUSTOM; kind++)
        ccl_text_printf(out, " %s", ccl_collective_kind_name((ccl_collective_kind_t)kind));
    ccl_text_printf(out, "'\n_ccllab_profiles='");
    for (const ccl_profile_entry_t *p = ccl_profile_library(); p->name; p++)
        ccl_text_printf(out, " %s", p->name);
    ccl_text_printf(out, "'\n\n");
}

/** Is this the first command of its family? @param len  of the family's name. */
static bool first_of_family(size_t index, size_t len) {
    for (size_t i = 0; i < index; i++)
        if (strncmp(ccl_i_commands[i]->name, ccl_i_commands[index]->name, len + 1) == 0)
            return false;
    return true;
}

/** Commands, a family as its one word; then each family with its second words. */
static void commands(ccl_text_t *out) {
    ccl_text_printf(out, "_ccllab_commands='");
    for (size_t i = 0; ccl_i_commands[i]; i++) {
        const char *name = ccl_i_commands[i]->name;
        size_t len = strcspn(name, " ");

        if (!name[len] || first_of_family(i, len))
            ccl_text_printf(out, " %.*s", (int)len, name);
    }
    ccl_text_printf(out, " help'\n\n_ccllab_family() {\n    case $1 in\n");
    for (size_t i = 0; ccl_i_commands[i]; i++) {
        const char *name = ccl_i_commands[i]->name;
        size_t len = strcspn(name, " ");

        if (!name[len] || !first_of_family(i, len))
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
