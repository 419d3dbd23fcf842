/* What can stand where on a command line, read off the tables that --help is made from. */
#include "cli/completion/places.h"

#include <string.h>

/** What one alternative of a value's or an input's name stands for: "FILE", "LL", "N". */
static void alternative(const char *word, size_t len, ccl_i_completed_t *out) {
    static const struct {
        const char *word;
        unsigned kinds;
    } known[] = {{"SPEC", CCL_I_COMPLETED_CLUSTERS | CCL_I_COMPLETED_FILES},
                 {"CLUSTER", CCL_I_COMPLETED_CLUSTERS | CCL_I_COMPLETED_FILES},
                 {"FILE", CCL_I_COMPLETED_FILES},
                 {"FILE[+hpds]", CCL_I_COMPLETED_FILES},
                 {"LOG", CCL_I_COMPLETED_FILES},
                 {"SCHEDULE", CCL_I_COMPLETED_FILES},
                 {"PROGRAM", CCL_I_COMPLETED_FILES},
                 {"PICTURE", CCL_I_COMPLETED_FILES},
                 {"SYNTHESIZER", CCL_I_COMPLETED_SYNTHESIZERS},
                 {"RESULTS...", CCL_I_COMPLETED_FILES},
                 {"P", CCL_I_COMPLETED_PROFILES | CCL_I_COMPLETED_FILES}};
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
static void alternatives(const char *text, size_t len, ccl_i_completed_t *out) {
    while (len) {
        const char *bar = memchr(text, '|', len);
        size_t n = bar ? (size_t)(bar - text) : len;

        alternative(text, n, out);
        n += bar != NULL;
        text += n;
        len -= n;
    }
}

void ccl_i_completed_value(const ccl_i_command_t *command, const ccl_i_option_info_t *o,
                           ccl_i_completed_t *out) {
    if (strcmp(o->name, "collective") == 0) {
        out->kinds = CCL_I_COMPLETED_COLLECTIVES;
    } else if (strcmp(o->name, "with") == 0) {
        out->kinds = CCL_I_COMPLETED_SYNTHESIZERS;
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
void ccl_i_completed_input(const ccl_i_command_t *command, ccl_i_completed_t *out) {
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

bool ccl_i_first_of_family(size_t index, size_t len) {
    for (size_t i = 0; i < index; i++)
        if (strncmp(ccl_i_commands[i]->name, ccl_i_commands[index]->name, len + 1) == 0)
            return false;
    return true;
}

const char *ccl_i_completed_name(unsigned kind, size_t index) {
    const ccl_synth_ops_t *const *synths = ccl_synth_all();
    size_t nsynths = 0;

    switch (kind) {
    case CCL_I_COMPLETED_CLUSTERS:
        return ccl_topology_library()[index].name;
    case CCL_I_COMPLETED_PROFILES:
        return ccl_profile_library()[index].name;
    case CCL_I_COMPLETED_COLLECTIVES:
        return index < CCL_CUSTOM ? ccl_collective_kind_name((ccl_collective_kind_t)index) : NULL;
    default:
        while (synths[nsynths])
            nsynths++;
        if (index < nsynths)
            return synths[index]->name;
        return index == nsynths ? "nccl" : index == nsynths + 1 ? "rccl" : NULL;
    }
}
