/* Options of every synthesizer, tables that several have, and who has which. */
#include "synth/common/options.h"

#include <stdio.h>

#define AT CCL_I_SYNTH_AT

/* Different tables; a test of the registry finds all of each synthesizer's. */
enum { MOST_TABLES = 64 };

const ccl_option_t ccl_i_common_options[] = {
    {.name = "channels",
     .type = CCL_OPTION_COUNT,
     .offset = AT(channels),
     .value = "N",
     .doc = "channels of the schedule",
     .otherwise = "as many as the synthesizer thinks best",
     .knob = "channels",
     .knob_max = 64},
    {.name = "chunks",
     .type = CCL_OPTION_COUNT,
     .offset = AT(chunks),
     .value = "N",
     .doc = "parts that a block of a channel is cut into",
     .otherwise = "the synthesizer's choice",
     .knob = "chunks",
     .knob_max = 1024},
    {.name = "time-limit",
     .type = CCL_OPTION_TIME,
     .offset = AT(time_limit_s),
     .value = "TIME",
     .doc = "stop the search after this long (10s, 500ms); the best so far is kept, exit code 3",
     .otherwise = "none; milp, taccl: 10s"},
    {.name = NULL},
};

const ccl_option_t ccl_i_rooted_options[] = {
    {.name = "roots",
     .type = CCL_OPTION_EITHER,
     .offset = AT(uniform_roots),
     .value = "HOW",
     .words = CCL_OPTION_WORDS("weighted", "uniform"),
     .doc = "allreduce: GPUs are root of what they can carry, or all of as much",
     .otherwise = "weighted",
     .knob = "roots"},
    {.name = NULL},
};

const ccl_option_t ccl_i_compose_options[] = {
    {.name = "compose",
     .type = CCL_OPTION_CHOICE,
     .offset = AT(compose),
     .value = "HOW",
     .words = CCL_OPTION_WORDS("auto", "off", "on"),
     .doc = "a cluster of pods from the schedules of one pod and of one rail of each kind",
     .otherwise = "auto: from 96 GPUs on",
     .knob = "compose"},
    {.name = NULL},
};

bool ccl_synth_has_options(const ccl_synth_ops_t *ops, const ccl_option_t *table) {
    if (table == ccl_i_common_options)
        return true;
    for (uint32_t t = 0; ops->options && ops->options[t]; t++)
        if (ops->options[t] == table)
            return true;
    return false;
}

const ccl_option_t *ccl_synth_option_table(uint32_t index) {
    const ccl_option_t *seen[MOST_TABLES] = {ccl_i_common_options};
    uint32_t n = 1;

    for (const ccl_synth_ops_t *const *ops = ccl_synth_all(); *ops && n <= index; ops++) {
        for (uint32_t t = 0; (*ops)->options && (*ops)->options[t]; t++) {
            uint32_t i = 0;

            while (i < n && seen[i] != (*ops)->options[t])
                i++;
            if (i == n && n < MOST_TABLES)
                seen[n++] = (*ops)->options[t];
        }
    }
    return index < n ? seen[index] : NULL;
}

const char *ccl_synth_option_owners(const ccl_option_t *table, char *out, size_t out_len) {
    size_t len = 0;

    out[0] = '\0';
    for (const ccl_synth_ops_t *const *ops = ccl_synth_all();
         *ops && table != ccl_i_common_options && len < out_len; ops++)
        if (ccl_synth_has_options(*ops, table))
            len +=
                (size_t)snprintf(out + len, out_len - len, "%s%s", len ? ", " : "", (*ops)->name);
    return out;
}
