/*
 * Traces of PyTorch's profiler (Kineto, in Chrome's form): kernels of NCCL and RCCL carry what was
 * called in their arguments. A trace is of one rank, so its times hold the wait for the others; of
 * the calls of one size the median counts.
 */
#define _GNU_SOURCE /* memmem */
#include "validate/logs/measured.h"

#include <math.h>
#include <string.h>

static const struct {
    const char *name; /* as PyTorch's process groups record it */
    ccl_collective_kind_t kind;
} COLLECTIVES[] = {{"allreduce", CCL_ALLREDUCE},
                   {"all_reduce", CCL_ALLREDUCE},
                   {"allreduce_coalesced", CCL_ALLREDUCE},
                   {"allgather", CCL_ALLGATHER},
                   {"all_gather", CCL_ALLGATHER},
                   {"_allgather_base", CCL_ALLGATHER},
                   {"allgather_into_tensor_coalesced", CCL_ALLGATHER},
                   {"reduce_scatter", CCL_REDUCESCATTER},
                   {"_reduce_scatter_base", CCL_REDUCESCATTER},
                   {"reduce_scatter_tensor_coalesced", CCL_REDUCESCATTER},
                   {"all_to_all", CCL_ALLTOALL},
                   {"all_to_allv", CCL_ALLTOALL},
                   {"broadcast", CCL_BROADCAST},
                   {"_broadcast_oop", CCL_BROADCAST},
                   {"reduce", CCL_REDUCE},
                   {"_reduce_oop", CCL_REDUCE},
                   {"gather", CCL_GATHER},
                   {"scatter", CCL_SCATTER}};

static const struct {
    const char *name; /* c10::ScalarType, without bits after Float8 */
    double bytes;
} TYPES[] = {{"Float8", 1}, {"BFloat16", 2}, {"Half", 2},  {"Float", 4}, {"Double", 8}, {"Byte", 1},
             {"Char", 1},   {"Bool", 1},     {"Short", 2}, {"Int", 4},   {"Long", 8}};

bool ccl_i_kineto_is(const char *text, size_t len) {
    static const char key[] = "\"traceEvents\"";
    return memmem(text, len, key, sizeof key - 1) != NULL;
}

static bool kind_of(const char *name, ccl_collective_kind_t *out) {
    for (size_t i = 0; name && i < CCL_ARRAY_LEN(COLLECTIVES); i++) {
        if (strcmp(COLLECTIVES[i].name, name) == 0) {
            *out = COLLECTIVES[i].kind;
            return true;
        }
    }
    return false;
}

/* Bytes of an element; 0: no type that we know. */
static double bytes_of(const char *type) {
    for (size_t i = 0; type && i < CCL_ARRAY_LEN(TYPES); i++) {
        bool starts = strcmp(TYPES[i].name, "Float8") == 0;
        if (starts ? strncmp(type, "Float8", 6) == 0 : strcmp(type, TYPES[i].name) == 0)
            return TYPES[i].bytes;
    }
    return 0;
}

/* Whether all numbers of a list in a text, "[4, 4]", are the same; so they are in "[]". */
static bool even(const char *list) {
    double first = 0;
    bool some = false;
    for (const char *at = list ? list : ""; *at;) {
        size_t n = strspn(at, "0123456789");
        double value;
        if (n == 0) {
            at++;
            continue;
        }
        if (!ccl_i_parse_number(at, n, &value) || (some && value != first))
            return false;
        first = value;
        some = true;
        at += n;
    }
    return !list || !strstr(list, "...");
}

static const char *word(const json_t *args, const char *key) {
    return json_string_value(json_object_get(args, key));
}

/* One event; what is no kernel of a collective that moved something is left out. */
static ccl_status_t read_event(ccl_i_measured_t *m, ccl_i_inspector_t *calls, const json_t *event,
                               size_t number, ccl_error_t *err) {
    const json_t *args = json_object_get(event, "args");
    const char *category = word(event, "cat"), *group = word(args, "Process Group Name");
    ccl_collective_kind_t kind;
    if (!category || strcmp(category, "kernel") != 0 ||
        !kind_of(word(args, "Collective name"), &kind))
        return CCL_OK;
    double in = json_number_value(json_object_get(args, "In msg nelems")),
           out = json_number_value(json_object_get(args, "Out msg nelems")),
           ranks = json_number_value(json_object_get(args, "Group size")),
           us = json_number_value(json_object_get(event, "dur"));
    const char *type = word(args, "dtype");
    double bytes = bytes_of(type);
    if (bytes == 0)
        return ccl_error_set(err, CCL_ERR_INPUT, m->name, 0, 0,
                             "event %zu: dtype \"%.40s\" is no type of PyTorch that is known here",
                             number, type ? type : "");
    if (!(ranks >= 1) || ranks > CCL_I_MAX_RANKS || ranks != floor(ranks))
        return ccl_error_set(err, CCL_ERR_INPUT, m->name, 0, 0,
                             "event %zu: \"Group size\" is %g; 1 to %u", number, ranks,
                             CCL_I_MAX_RANKS);
    /* nccl-tests counts the larger buffer of a rank, and so do we. */
    double size_bytes = bytes * (in > out ? in : out);
    if (!(size_bytes > 0) || size_bytes > 1e18 || !(us > 0) || us > 1e15 ||
        !even(word(args, "In split size")) || !even(word(args, "Out split size")))
        return CCL_OK;
    char key[200], label[160];
    snprintf(key, sizeof key, "%d|%.100s|%g", (int)kind, group ? group : "", ranks);
    ccl_i_log_run_t *run = ccl_i_measured_key(m, key, 0);
    if (!run)
        return CCL_OK; /* reported by the caller, or more runs than are kept */
    if (!run->about.nranks) {
        run->about.known = true;
        run->about.kind = kind;
        run->about.nranks = (uint32_t)ranks;
        snprintf(label, sizeof label, "process group %.60s", group ? group : "without a name");
        run->about.label = ccl_i_measured_text(m, label, strlen(label));
    }
    ccl_i_call_t call = {(size_t)(run - m->runs), size_bytes, (double)number, us, 0};
    return ccl_i_inspector_add(calls, call, err);
}

ccl_status_t ccl_i_read_kineto(ccl_i_measured_t *m, const char *text, size_t len,
                               ccl_error_t *err) {
    ccl_json_doc_t doc;
    ccl_i_inspector_t calls = {0};
    size_t n = 0;
    CCL_TRY(ccl_json_parse(m->name, text, len, &doc, err));
    ccl_json_at_t root = ccl_json_root(&doc), events = ccl_json_member(&root, "traceEvents");
    ccl_status_t status = ccl_json_array(&events, true, &n, err);
    for (size_t i = 0; i < n && status == CCL_OK && !m->nomem; i++)
        status = read_event(m, &calls, json_array_get(events.value, i), i, err);
    ccl_json_fini(&doc);
    ccl_i_inspector_finish(m, &calls);
    if (status == CCL_OK && m->nomem)
        status = ccl_fail_nomem(err);
    return status;
}
