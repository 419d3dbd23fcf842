/*
 * Output of nccl-tests and rccl-tests. A line may begin with what a launcher puts there
 * ("[1,0]<stdout>:", "node1: ", "0: "), and lines of other output may stand between the rows. A
 * row is found by its element type with two whole numbers before it; its columns follow from the
 * header line, or from their number where there is none.
 */
#include "validate/logs/measured.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_WORDS 48u

typedef struct word {
    const char *at;
    size_t len;
} word_t;

/* What the lines before a table said. */
typedef struct state {
    ccl_i_measured_t *m;
    ccl_i_log_run_t *run; /* rows go there; NULL: none begun */
    bool has_redop, has_root, has_header;
    bool known;
    ccl_collective_kind_t kind;
    uint32_t nranks, device_lines, nhosts, channels, nthreads, ngpus;
    uint32_t version;
    bool no_nvls;
    const char *gpu;
    ccl_strmap_t *hosts;
    bool devices_open; /* device lines of this table are being counted */
    /* To infer the collective: the widest busbw / algbw seen. */
    double ratio_algbw, ratio;
    bool redop_none;
    int64_t root;
} state_t;

static uint32_t split(const char *line, size_t len, word_t words[MAX_WORDS]) {
    uint32_t n = 0;
    size_t i = 0;
    while (i < len && n < MAX_WORDS) {
        while (i < len && isspace((unsigned char)line[i]))
            i++;
        size_t from = i;
        while (i < len && !isspace((unsigned char)line[i]))
            i++;
        if (i > from)
            words[n++] = (word_t){line + from, i - from};
    }
    return n;
}

static bool is(const word_t *w, const char *text) {
    return w->len == strlen(text) && memcmp(w->at, text, w->len) == 0;
}

static bool ends(const word_t *w, const char *text) {
    size_t n = strlen(text);
    return w->len >= n && memcmp(w->at + w->len - n, text, n) == 0;
}

static bool is_type(const word_t *w) {
    static const char *const types[] = {"int8",     "uint8",    "int32",  "uint32", "int64",
                                        "uint64",   "half",     "float",  "double", "bfloat16",
                                        "fp8_e4m3", "fp8_e5m2", "f8e4m3", "f8e5m2", "fp8e4m3",
                                        "fp8e5m2",  "int",      "char"};
    for (size_t i = 0; i < CCL_ARRAY_LEN(types); i++)
        if (is(w, types[i]))
            return true;
    return false;
}

/* Digits at the end of a word, behind a prefix without a blank ("0:1048576"); -1: none. */
static double whole(const word_t *w, bool prefix) {
    size_t from = w->len;
    while (from > 0 && isdigit((unsigned char)w->at[from - 1]))
        from--;
    if (from == w->len || w->len - from > 18)
        return -1;
    if (from > 0 && (!prefix || strchr(":>]|", w->at[from - 1]) == NULL))
        return -1;
    double value = 0;
    for (size_t i = from; i < w->len; i++)
        value = 10 * value + (w->at[i] - '0');
    return value;
}

static bool u32_after(const char *line, size_t len, const char *mark, uint32_t *out) {
    size_t n = strlen(mark);
    for (size_t i = 0; i + n < len; i++) {
        if (memcmp(line + i, mark, n) != 0)
            continue;
        i += n;
        while (i < len && (line[i] == ' ' || line[i] == ':'))
            i++;
        uint32_t value = 0;
        size_t digits = 0;
        for (; i < len && isdigit((unsigned char)line[i]) && digits < 8; i++, digits++)
            value = 10 * value + (uint32_t)(line[i] - '0');
        if (digits == 0)
            return false;
        *out = value;
        return true;
    }
    return false;
}

/* ---------------------------------------------------------------- lines that are no rows */

static void close_run(state_t *s) {
    ccl_i_log_run_t *run = s->run;
    if (!run)
        return;
    s->run = NULL;
    ccl_measured_run_t *a = &run->about;
    a->channels = s->channels;
    a->version = s->version;
    a->no_nvls = s->no_nvls;
    if (a->known || s->ratio_algbw <= 0 || a->nranks < 2)
        return;
    /* Who ran is not said: the ratio of the bandwidths and the columns narrow it down. */
    double n = a->nranks, r = s->ratio;
    bool reduces = s->has_redop && !s->redop_none, rooted = s->has_root && s->root >= 0;
    bool partial = fabs(r - (n - 1) / n) < 0.02, one = fabs(r - 1) < 0.02;
    if (reduces && !rooted && fabs(r - 2 * (n - 1) / n) < 0.02) {
        a->kind = CCL_ALLREDUCE;
        a->known = true;
    } else if (reduces && !rooted && partial) {
        a->kind = CCL_REDUCESCATTER;
        a->known = true;
    } else if (rooted && one) {
        a->kind = reduces ? CCL_REDUCE : CCL_BROADCAST;
        a->known = true;
    }
}

static void open_devices(state_t *s) {
    s->device_lines = s->nhosts = 0;
    s->gpu = "";
    s->devices_open = true;
    ccl_strmap_destroy(s->hosts);
    s->hosts = NULL;
}

/* "#  Rank  0 Group  0 Pid 120037 on HOST device  0 [0001:00:00.0] MODEL" */
static bool device_line(state_t *s, const word_t *words, uint32_t n) {
    for (uint32_t i = 0; i + 5 < n; i++) {
        if (!is(&words[i], "Rank") || whole(&words[i + 1], false) < 0)
            continue;
        uint32_t on = i + 2;
        while (on + 3 < n && !is(&words[on], "on"))
            on++;
        if (on + 3 >= n || !is(&words[on + 2], "device"))
            continue;
        if (!s->devices_open)
            open_devices(s);
        if (s->device_lines < CCL_I_MAX_RANKS)
            s->device_lines++;
        char host[200];
        snprintf(host, sizeof host, "%.*s",
                 (int)(words[on + 1].len < 199 ? words[on + 1].len : 199), words[on + 1].at);
        if (!s->hosts)
            s->hosts = ccl_strmap_create();
        if (!s->hosts || !ccl_strmap_put(s->hosts, host, 0))
            s->m->nomem = true;
        else
            s->nhosts = (uint32_t)ccl_strmap_len(s->hosts);
        if (!s->gpu[0] && on + 5 < n) {
            const char *from = words[on + 5].at;
            s->gpu = ccl_i_measured_text(s->m, from,
                                         (size_t)(words[n - 1].at + words[n - 1].len - from));
        }
        return true;
    }
    return false;
}

/* "#  size  count  type  redop  root  time ..." */
static bool header_line(state_t *s, const word_t *words, uint32_t n) {
    for (uint32_t i = 0; i + 3 < n; i++) {
        if (!(is(&words[i], "size") || ends(&words[i], "#size")) || !is(&words[i + 1], "count") ||
            !is(&words[i + 2], "type"))
            continue;
        close_run(s);
        s->has_header = true;
        s->has_redop = s->has_root = false;
        for (uint32_t k = i + 3; k < n && !is(&words[k], "time"); k++) {
            s->has_redop = s->has_redop || is(&words[k], "redop");
            s->has_root = s->has_root || is(&words[k], "root");
        }
        return true;
    }
    return false;
}

static void other_line(state_t *s, const char *line, size_t len, const word_t *words, uint32_t n) {
    uint32_t value;
    bool begins =
        u32_after(line, len, "nThread ", &value) || u32_after(line, len, "nThreads:", &value);
    if (begins) {
        close_run(s);
        s->nthreads = value;
        s->nranks = 0;
        s->ngpus = 1;
        s->devices_open = false;
        if (u32_after(line, len, "nGpus", &value))
            s->ngpus = value;
        if (u32_after(line, len, "nRanks", &value))
            s->nranks = value;
        return;
    }
    if (u32_after(line, len, "NCCL_MAX_NCHANNELS set by environment to", &value) && value > 0)
        s->channels = value;
    if (u32_after(line, len, "nccl-library=", &value))
        s->version = value;
    if (u32_after(line, len, "NCCL_NVLS_ENABLE set by environment to", &value))
        s->no_nvls = value == 0;
    for (uint32_t i = 0; i < n; i++) {
        if (i > 0 && i + 1 < n && is(&words[i], "nvls") &&
            (is(&words[i + 1], "channels,") || is(&words[i + 1], "channels")))
            s->no_nvls = whole(&words[i - 1], false) == 0;
        if (i > 0 && i + 1 < n && is(&words[i], "coll") && is(&words[i + 1], "channels,")) {
            double v = whole(&words[i - 1], false);
            if (v > 0 && v <= 1024)
                s->channels = (uint32_t)v;
        }
        /* "Collective test starting: all_gather_perf", or the command line echoed */
        size_t from = words[i].len;
        while (from > 0 && words[i].at[from - 1] != '/')
            from--;
        word_t base = {words[i].at + from, words[i].len - from};
        ccl_collective_kind_t kind;
        if (ends(&base, "_perf") && ccl_i_collective_named(base.at, base.len, &kind)) {
            close_run(s);
            s->known = true;
            s->kind = kind;
        }
    }
}

/* ---------------------------------------------------------------- rows */

static void skip(state_t *s, uint32_t line) {
    if (!s->m->first_skipped)
        s->m->first_skipped = line;
    s->m->nskipped++;
}

static bool begin_run(state_t *s, const word_t *type, uint32_t line) {
    ccl_i_log_run_t *run = ccl_i_measured_add(s->m, line);
    if (!run)
        return false;
    s->run = run;
    ccl_measured_run_t *a = &run->about;
    a->known = s->known;
    a->kind = s->kind;
    uint64_t local = (uint64_t)(s->nthreads ? s->nthreads : 1) * (s->ngpus ? s->ngpus : 1);
    /* rccl-tests' nRanks counts those of one process. */
    a->nranks = s->nranks > s->device_lines ? s->nranks : s->device_lines;
    if (!a->nranks && s->nthreads && local <= CCL_I_MAX_RANKS)
        a->nranks = (uint32_t)local;
    a->nhosts = s->nhosts;
    a->gpu = s->gpu ? s->gpu : "";
    a->type = ccl_i_measured_text(s->m, type->at, type->len);
    s->devices_open = false;
    s->ratio_algbw = 0;
    s->redop_none = true;
    s->root = -1;
    return true;
}

/* time algbw busbw wrong; false when a number is missing. */
static bool timing(const word_t *words, double *time_us, double *algbw, double *busbw) {
    return ccl_i_parse_number(words[0].at, words[0].len, time_us) &&
           ccl_i_parse_number(words[1].at, words[1].len, algbw) &&
           ccl_i_parse_number(words[2].at, words[2].len, busbw) && *time_us >= 0 && *algbw >= 0 &&
           *busbw >= 0;
}

/* @return whether the line is a row of a table, whole or not. */
static bool row(state_t *s, const word_t *words, uint32_t n, uint32_t line) {
    uint32_t t = 2;
    while (t < n && !(is_type(&words[t]) && whole(&words[t - 1], false) >= 0 &&
                      whole(&words[t - 2], true) >= 0))
        t++;
    if (t >= n)
        return false;
    double size = whole(&words[t - 2], true);
    /* Old headers name a redop column that rows of collectives without one leave blank. */
    bool redop = s->has_redop && t + 1 < n && isalpha((unsigned char)words[t + 1].at[0]);
    bool root = s->has_root;
    uint32_t rest = n - t - 1;
    if (!s->has_header) { /* 8 or 4 columns of figures behind redop and root */
        uint32_t extra = rest >= 8 ? rest - 8 : rest >= 4 ? rest - 4 : 0;
        redop = extra > 0 && t + 1 < n && isalpha((unsigned char)words[t + 1].at[0]);
        root = extra > (redop ? 1u : 0u);
    }
    uint32_t first = t + 1 + redop + root;
    double time_us, algbw, busbw;
    if (first + 4 > n || !timing(&words[first], &time_us, &algbw, &busbw)) {
        skip(s, line);
        return true;
    }
    if (size <= 0 || time_us <= 0)
        return true; /* nothing was moved */
    if (!s->run && !begin_run(s, &words[t], line))
        return true;
    ccl_measurement_t point = {.size_bytes = size, .time_s = time_us * 1e-6, .line = line};
    double in_place_us, a, b;
    if (first + 7 <= n && timing(&words[first + 4], &in_place_us, &a, &b))
        point.in_place_time_s = in_place_us * 1e-6;
    ccl_i_measured_point(s->m, s->run, point);
    if (redop && !is(&words[t + 1], "none"))
        s->redop_none = false;
    double at_root;
    if (root && ccl_i_parse_number(words[t + 1 + redop].at, words[t + 1 + redop].len, &at_root) &&
        fabs(at_root) < 1e6) {
        s->root = (int64_t)at_root;
        s->run->about.root = at_root > 0 ? (uint32_t)at_root : 0;
    }
    if (algbw > s->ratio_algbw) {
        s->ratio_algbw = algbw;
        s->ratio = busbw / algbw;
    }
    return true;
}

ccl_status_t ccl_i_read_nccl_tests(ccl_i_measured_t *m, const char *text, size_t len,
                                   ccl_error_t *err) {
    state_t s = {.m = m, .gpu = "", .ngpus = 1, .root = -1};
    word_t words[MAX_WORDS];
    uint32_t line = 0;
    for (size_t at = 0; at < len && !m->nomem;) {
        const char *end = memchr(text + at, '\n', len - at);
        size_t width = end ? (size_t)(end - (text + at)) : len - at;
        const char *start = text + at;
        at += width + 1;
        line++;
        uint32_t n = split(start, width, words);
        if (n == 0 || row(&s, words, n, line) || header_line(&s, words, n) ||
            device_line(&s, words, n))
            continue;
        other_line(&s, start, width, words, n);
    }
    close_run(&s);
    ccl_strmap_destroy(s.hosts);
    return m->nomem ? ccl_fail_nomem(err) : CCL_OK;
}
