/*
 * Answers of sub-demands on disk, by content: a text file per sub-demand, the question in it, so
 * that no two can be taken for each other, and a sum at its end, so that damage shows.
 */
#include "synth/sketch/solve.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FORMAT "ccllab sub-demand "
#define MAX_BYTES ((size_t)64 << 20)

char *ccl_i_cache_dir(const char *given) {
    const char *home = getenv("HOME"), *cache = getenv("XDG_CACHE_HOME");
    ccl_text_t path = {0};

    if (!given || strcmp(given, "none") == 0)
        return NULL;
    if (strcmp(given, "auto") != 0)
        ccl_text_printf(&path, "%s", given);
    else if (cache && *cache == '/') /* relative ones are to be ignored, as XDG has it */
        ccl_text_printf(&path, "%s/ccllab/sub-demands", cache);
    else if (home && *home == '/')
        ccl_text_printf(&path, "%s/.cache/ccllab/sub-demands", home);
    if (!path.data || path.nomem) {
        ccl_text_fini(&path);
        return NULL;
    }
    return path.data;
}

/* The first line: another solver may answer the same question otherwise. */
static size_t header(char out[64]) {
    return (size_t)snprintf(out, 64, FORMAT "2 %s\n", ccl_i_sketch_sources);
}

static bool path_of(const char *dir, const ccl_i_part_t *part, ccl_text_t *out) {
    ccl_text_printf(out, "%s/%016llx%016llx", dir,
                    (unsigned long long)ccl_hash64(part->content.data, part->content.len, 1),
                    (unsigned long long)ccl_hash64(part->content.data, part->content.len, 2));
    return !out->nomem;
}

static void number(const char **at, const char *end, uint64_t *out, bool *ok) {
    uint64_t value = 0;
    const char *from = *at;

    while (*at < end && **at >= '0' && **at <= '9' && value < (uint64_t)1 << 40)
        value = value * 10 + (uint64_t)(*(*at)++ - '0');
    *ok = *ok && *at > from && *at < end && (**at == ' ' || **at == '\n');
    if (*at < end)
        ++*at;
    *out = value;
}

/* The answer behind the question: false when it is none. */
static bool parse(const ccl_i_part_t *part, const char *at, const char *end, ccl_i_trees_t **out,
                  bool *none_out, ccl_error_t *err) {
    uint64_t epochs = 0, proven = 0, n = 0;
    bool ok = true;
    ccl_i_trees_t *trees;
    size_t cells = (size_t)part->n * part->chunks * part->n;

    number(&at, end, &epochs, &ok);
    number(&at, end, &proven, &ok);
    number(&at, end, &n, &ok);
    if (!ok || epochs > CCL_I_MILP_EPOCHS || n > cells)
        return false;
    if (epochs == 0) {
        *none_out = n == 0;
        return n == 0;
    }
    trees = ccl_i_trees_create(part->n, part->chunks);
    if (!trees) {
        ccl_fail_nomem(err);
        return true; /* not the file's fault */
    }
    trees->epochs = (uint32_t)epochs;
    trees->proven = proven == 1;
    for (uint64_t i = 0; i < n && ok; i++) {
        uint64_t cell, parent, step, channel;

        number(&at, end, &cell, &ok);
        number(&at, end, &parent, &ok);
        number(&at, end, &step, &ok);
        number(&at, end, &channel, &ok);
        ok = ok && cell < cells && parent < part->n && step < epochs && channel < UINT16_MAX;
        if (!ok)
            break;
        trees->parent[cell] = (uint32_t)parent;
        trees->step[cell] = (uint32_t)step;
        trees->channel[cell] = (uint16_t)channel;
    }
    if (!ok || at != end || !ccl_i_part_check(part, trees)) {
        ccl_i_trees_destroy(trees);
        return false;
    }
    *out = trees;
    return true;
}

ccl_status_t ccl_i_cache_get(const ccl_ctx_t *ctx, const char *dir, const ccl_i_part_t *part,
                             ccl_i_trees_t **out, bool *none_out, ccl_error_t *err) {
    ccl_text_t path = {0};
    ccl_error_t why = CCL_ERROR_INIT;
    char *data = NULL, first[64];
    size_t len = 0, head = header(first), question = part->content.len;
    struct stat info;
    ccl_status_t status = CCL_OK;

    *out = NULL;
    *none_out = false;
    if (!path_of(dir, part, &path)) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    if (stat(path.data, &info) != 0)
        goto end;
    if (ccl_file_read(path.data, MAX_BYTES, &data, &len, &why) != CCL_OK) {
        ccl_log(ctx, CCL_LOG_WARN, "sketch", "%s; it is solved again", why.text);
        goto end;
    }
    if (len >= head && memcmp(data, FORMAT, strlen(FORMAT)) == 0 && memcmp(data, first, head) != 0)
        goto end; /* another solver's */
    bool good = len > head + question + 17 && memcmp(data, first, head) == 0;
    unsigned long long sum = 0;

    good = good && data[len - 1] == '\n' && data[len - 18] == '\n' &&
           sscanf(data + len - 17, "%16llx", &sum) == 1 && sum == ccl_hash64(data, len - 17, 3);
    if (good && memcmp(data + head, part->content.data, question) != 0)
        goto end; /* another question's, by a hash that is the same */
    good = good && parse(part, data + head + question, data + len - 17, out, none_out, &why);
    if (why.status == CCL_ERR_NOMEM)
        status = ccl_fail_nomem(err);
    else if (!good)
        ccl_log(ctx, CCL_LOG_WARN, "sketch", "%s is damaged; it is solved again and rewritten",
                path.data);
end:
    free(data);
    ccl_text_fini(&path);
    return status;
}

/* With all its parents. */
static bool make_dirs(const char *dir) {
    char path[PATH_MAX];
    size_t len = strlen(dir);

    if (len == 0 || len >= sizeof path)
        return false;
    memcpy(path, dir, len + 1);
    for (size_t i = 1; i <= len; i++) {
        if (path[i] != '/' && path[i] != 0)
            continue;
        path[i] = 0;
        if (mkdir(path, 0777) != 0 && errno != EEXIST)
            return false;
        path[i] = i < len ? '/' : 0;
    }
    return true;
}

void ccl_i_cache_put(const ccl_ctx_t *ctx, const char *dir, const ccl_i_part_t *part,
                     const ccl_i_trees_t *trees) {
    ccl_text_t path = {0}, text = {0};
    ccl_error_t why = CCL_ERROR_INIT;
    size_t cells = (size_t)part->n * part->chunks * part->n, n = 0;
    char first[64];

    header(first);
    for (size_t i = 0; trees && i < cells; i++)
        n += trees->parent[i] != CCL_NONE;
    ccl_text_printf(&text, "%s%s%u %d %zu\n", first, part->content.data, trees ? trees->epochs : 0,
                    trees && trees->proven, n);
    for (size_t i = 0; trees && i < cells; i++) {
        if (trees->parent[i] != CCL_NONE)
            ccl_text_printf(&text, "%zu %u %u %u\n", i, trees->parent[i], trees->step[i],
                            trees->channel[i]);
    }
    if (!text.nomem)
        ccl_text_printf(&text, "%016llx\n", (unsigned long long)ccl_hash64(text.data, text.len, 3));
    if (text.nomem || !path_of(dir, part, &path))
        ccl_log(ctx, CCL_LOG_WARN, "sketch", "out of memory: an answer is not kept");
    else if (!make_dirs(dir))
        ccl_log(ctx, CCL_LOG_WARN, "sketch", "%s: cannot make the cache directory: %s", dir,
                strerror(errno));
    else if (ccl_file_write(path.data, text.data, text.len, &why) != CCL_OK)
        ccl_log(ctx, CCL_LOG_WARN, "sketch", "%s; an answer is not kept", why.text);
    ccl_text_fini(&path);
    ccl_text_fini(&text);
}
