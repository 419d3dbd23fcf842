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
#define MAX_SETTINGS 32u

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
    /* To infer the collective: the busbw / algbw of most digits, and what the columns say. */
    double ratio, ratio_error;
    int reduces, rooted;         /* -1: the rows do not say */
    double busbw_sum, busbw_of;  /* of the rows, out of place and in place; how many */
    ccl_measured_setting_t *set; /* what the log says about NCCL's variables */
    size_t nset, set_cap;
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

/* The run's own copy: later lines may say otherwise. */
static void keep_settings(state_t *s, ccl_measured_run_t *a) {
    ccl_measured_setting_t *own = ccl_arena_alloc(&s->m->arena, s->nset + 1, sizeof *own);
    if (!own) {
        s->m->nomem = true;
        return;
    }
    if (s->nset)
        memcpy(own, s->set, s->nset * sizeof *own);
    a->settings = own;
    a->nsettings = (uint32_t)s->nset;
}

static void close_run(state_t *s) {
    ccl_i_log_run_t *run = s->run;
    double mean = s->busbw_of > 0 ? s->busbw_sum / s->busbw_of : 0;
    s->busbw_sum = s->busbw_of = 0;
    if (!run)
        return;
    s->run = NULL;
    ccl_measured_run_t *a = &run->about;
    a->channels = s->channels;
    a->version = s->version;
    a->no_nvls = s->no_nvls;
    a->factor = s->ratio;
    a->factor_error = s->ratio_error;
    a->reduces = s->reduces;
    a->rooted = s->rooted;
    a->rows_GBps = mean;
    keep_settings(s, a);
    /* Who ran is not said: the ratio of the bandwidths and the columns may leave one. */
    uint32_t may = a->known ? 0 : ccl_measured_candidates(a);
    if (!may || (may & (may - 1)))
        return;
    a->known = true;
    for (int k = 0; k < CCL_CUSTOM; k++)
        if (may >> k & 1)
            a->kind = (ccl_collective_kind_t)k;
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

static bool begins(const word_t *w, const char *text) {
    size_t n = strlen(text);
    return w->len >= n && memcmp(w->at, text, n) == 0;
}

/* "NCCL_ALGO set by environment to Ring." of NCCL itself, or "NCCL_ALGO=Ring" of who started it. */
static void setting(state_t *s, const word_t *words, uint32_t n, uint32_t i) {
    const word_t *w = &words[i];
    size_t name = 0;
    while (name < w->len && (isupper((unsigned char)w->at[name]) || w->at[name] == '_' ||
                             isdigit((unsigned char)w->at[name])))
        name++;
    word_t value = {NULL, 0};
    if (!(begins(w, "NCCL_") || begins(w, "RCCL_")) || begins(w, "NCCL_DEBUG"))
        return;
    if (name < w->len && w->at[name] == '=')
        value = (word_t){w->at + name + 1, w->len - name - 1};
    else if (name == w->len && i + 5 < n && is(&words[i + 1], "set") && is(&words[i + 2], "by") &&
             is(&words[i + 3], "environment") && is(&words[i + 4], "to"))
        value = words[i + 5];
    while (value.len && strchr(".,;\"'", value.at[value.len - 1]))
        value.len--;
    while (value.len && strchr("\"'", value.at[0]))
        value = (word_t){value.at + 1, value.len - 1};
    if (!value.len || name > 40)
        return;
    if (value.len > 60)
        value.len = 60;
    size_t at = 0;
    const ccl_measured_setting_t made = {ccl_i_measured_text(s->m, w->at, name),
                                         ccl_i_measured_text(s->m, value.at, value.len)};
    while (at < s->nset && strcmp(s->set[at].name, made.name) != 0)
        at++;
    if (at == s->nset && s->nset >= MAX_SETTINGS)
        return;
    if (!ccl_grow(&s->set, &s->set_cap, at + 1, sizeof *s->set)) {
        s->m->nomem = true;
        return;
    }
    s->set[at] = made;
    s->nset = at == s->nset ? at + 1 : s->nset;
    double number = whole(&value, false);
    if (strcmp(made.name, "NCCL_MAX_NCHANNELS") == 0 && number > 0 && number <= 1024)
        s->channels = (uint32_t)number;
    if (strcmp(made.name, "NCCL_NVLS_ENABLE") == 0 && number >= 0)
        s->no_nvls = number == 0;
}

/* "# Avg bus bandwidth    : 47.8165", behind the rows that it is of. */
static bool average_line(state_t *s, const word_t *words, uint32_t n) {
    for (uint32_t i = 0; i + 4 < n; i++) {
        double average;
        if (!is(&words[i], "Avg") || !is(&words[i + 1], "bus") || !is(&words[i + 2], "bandwidth") ||
            !ccl_i_parse_number(words[i + 4].at, words[i + 4].len, &average))
            continue;
        if (s->run && average > 0)
            s->run->about.average_GBps = average;
        return true;
    }
    return false;
}

static void other_line(state_t *s, const char *line, size_t len, const word_t *words, uint32_t n) {
    uint32_t value;
    if (u32_after(line, len, "nThread ", &value) || u32_after(line, len, "nThreads:", &value)) {
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
    if (u32_after(line, len, "nccl-library=", &value))
        s->version = value;
    if (average_line(s, words, n))
        return;
    for (uint32_t i = 0; i < n; i++) {
        setting(s, words, n, i);
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
    s->ratio = 0;
    s->ratio_error = INFINITY;
    s->reduces = s->rooted = -1;
    return true;
}

/* time algbw busbw wrong; false when a number is missing. */
static bool timing(const word_t *words, double *time_us, double *algbw, double *busbw) {
    return ccl_i_parse_number(words[0].at, words[0].len, time_us) &&
           ccl_i_parse_number(words[1].at, words[1].len, algbw) &&
           ccl_i_parse_number(words[2].at, words[2].len, busbw) && *time_us >= 0 && *algbw >= 0 &&
           *busbw >= 0;
}

/* What one more in its last digit is: 0.01 of "23.88". */
static double last_digit(const word_t *w) {
    const char *point = memchr(w->at, '.', w->len);
    double unit = 1;
    for (const char *c = point ? point + 1 : w->at + w->len; c < w->at + w->len; c++)
        unit /= isdigit((unsigned char)*c) ? 10 : 1;
    return unit;
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
    double in_place_us, a, b;
    bool both = first + 7 <= n && timing(&words[first + 4], &in_place_us, &a, &b);
    s->busbw_sum += busbw + (both ? b : 0); /* the printed average counts empty rows, too */
    s->busbw_of += both ? 2 : 1;
    if (size <= 0 || time_us <= 0)
        return true; /* nothing was moved */
    if (!s->run && !begin_run(s, &words[t], line))
        return true;
    ccl_i_measured_point(s->m, s->run,
                         (ccl_measurement_t){.size_bytes = size,
                                             .time_s = time_us * 1e-6,
                                             .in_place_time_s = both ? in_place_us * 1e-6 : 0,
                                             .line = line});
    bool named = redop && !is(&words[t + 1], "none");
    if (s->has_header || redop)
        s->reduces = named || s->reduces == 1;
    double at_root = -1;
    if (root && ccl_i_parse_number(words[t + 1 + redop].at, words[t + 1 + redop].len, &at_root) &&
        fabs(at_root) < 1e6) {
        s->rooted = at_root >= 0;
        s->run->about.root = at_root > 0 ? (uint32_t)at_root : 0;
    } else if (s->has_header) {
        s->rooted = 0;
    }
    double error = algbw > 0 ? busbw / algbw * (last_digit(&words[first + 1]) / algbw) / 2 +
                                   last_digit(&words[first + 2]) / algbw / 2
                             : INFINITY;
    if (error < s->ratio_error) {
        s->ratio_error = fmin(1.05 * error + 1e-6, 0.05); /* as rounding in binary has it */
        s->ratio = busbw / algbw;
    }
    return true;
}

ccl_status_t ccl_i_read_nccl_tests(ccl_i_measured_t *m, const char *text, size_t len,
                                   ccl_error_t *err) {
    state_t s = {.m = m, .gpu = "", .ngpus = 1};
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
    free(s.set);
    return m->nomem ? ccl_fail_nomem(err) : CCL_OK;
}
