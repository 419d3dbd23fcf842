/**
 * @file kinds.c
 * Kinds of devices by rank.
 */
#include "runtime/kinds.h"

#include "runtime/job.h"

#include <stdlib.h>
#include <string.h>

static const char *const kinds[] = {"host", "cuda", "hip", "auto"};

/** An entry of the list. */
typedef struct entry {
    char kind[CCL_I_KIND_LEN];
    uint32_t n; /* ranks */
} entry_t;

/** Takes the entry at *at; false: it is none. */
static bool next_entry(const char **at, entry_t *out) {
    size_t len = strcspn(*at, "*,"), k = 0;
    while (k < CCL_ARRAY_LEN(kinds) && (strlen(kinds[k]) != len || strncmp(kinds[k], *at, len)))
        k++;
    if (k == CCL_ARRAY_LEN(kinds))
        return false;
    snprintf(out->kind, sizeof out->kind, "%s", kinds[k]);
    *at += len;
    out->n = 1;
    if (**at == '*') {
        char *end;
        unsigned long n = strtoul(*at + 1, &end, 10);
        if (end == *at + 1 || (*at)[1] < '0' || (*at)[1] > '9' || n == 0 || n > UINT32_MAX)
            return false;
        out->n = (uint32_t)n;
        *at = end;
    }
    if (**at == ',')
        return (*at)++, **at != '\0';
    return **at == '\0';
}

static bool is_list(const char *devices) {
    return strpbrk(devices, ",*") != NULL;
}

ccl_status_t ccl_i_kinds_check(const char *devices, uint32_t nranks, ccl_error_t *err) {
    uint64_t ranks = 0;
    const char *at = devices;
    entry_t e = {.n = 0};
    do {
        if (!next_entry(&at, &e))
            return ccl_fail(err, CCL_ERR_USAGE,
                            "unknown device \"%.40s\": host, cuda, hip or auto is wanted, or one "
                            "for every rank, as cuda*4,host*2",
                            devices);
        ranks += e.n;
    } while (*at);
    if (is_list(devices) && ranks != nranks)
        return ccl_fail(err, CCL_ERR_USAGE, "\"%.40s\" names devices of %llu ranks, there are %u",
                        devices, (unsigned long long)ranks, nranks);
    return CCL_OK;
}

bool ccl_i_kinds_all(const char *devices, const char *kind) {
    const char *at = devices;
    entry_t e;
    while (*at)
        if (!next_entry(&at, &e) || strcmp(e.kind, kind) != 0)
            return false;
    return true;
}

bool ccl_i_kinds_several(const char *devices) {
    entry_t first;
    const char *at = devices;
    return next_entry(&at, &first) && !ccl_i_kinds_all(devices, first.kind);
}

static void find_kind(char out[CCL_I_KIND_LEN]) {
    for (size_t k = 1; k < 3; k++) {
        const ccl_device_ops_t *ops;
        void *module = NULL;
        uint32_t n = 0;
        bool here = ccl_i_device_find(kinds[k], &ops, &module, NULL) == CCL_OK &&
                    ops->count(&n) == 0 && n > 0;
        ccl_i_device_release(module);
        if (here) {
            snprintf(out, CCL_I_KIND_LEN, "%s", kinds[k]);
            return;
        }
    }
    snprintf(out, CCL_I_KIND_LEN, "host");
}

ccl_status_t ccl_i_kinds_of(const char *devices, uint32_t first, uint32_t end,
                            char out[CCL_I_KIND_LEN], ccl_error_t *err) {
    const char *at = devices;
    uint32_t rank = 0;
    entry_t e = {.n = 0};
    out[0] = '\0';
    while (*at && next_entry(&at, &e)) {
        uint32_t until = is_list(devices) ? rank + e.n : end;
        if (rank < end && first < until) {
            if (out[0] && strcmp(out, e.kind) != 0)
                return ccl_fail(err, CCL_ERR_USAGE,
                                "ranks %u to %u would be in one process, on %s and on %s: more "
                                "processes are wanted (--ranks processes, --processes)",
                                first, end - 1, out, e.kind);
            snprintf(out, CCL_I_KIND_LEN, "%s", e.kind);
        }
        rank = until;
    }
    if (strcmp(out, "auto") == 0)
        find_kind(out);
    return CCL_OK;
}
