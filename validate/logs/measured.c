/* What every reader of measured runs shares: growing runs, names of collectives, recognizing forms.
 */
#include "validate/logs/measured.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void ccl_i_measured_init(ccl_i_measured_t *m, const char *name) {
    memset(m, 0, sizeof *m);
    m->name = name;
    ccl_arena_init(&m->arena);
}

void ccl_i_measured_fini(ccl_i_measured_t *m) {
    for (size_t i = 0; i < m->nruns; i++)
        free(m->runs[i].points);
    free(m->runs);
    ccl_strmap_destroy(m->keys);
    ccl_arena_fini(&m->arena);
}

const char *ccl_i_measured_text(ccl_i_measured_t *m, const char *text, size_t len) {
    char *copy = ccl_arena_alloc(&m->arena, len + 1, 1);
    if (!copy) {
        m->nomem = true;
        return "";
    }
    /* It may be printed: one line, nothing that a terminal obeys. */
    for (size_t i = 0; i < len; i++)
        copy[i] = isprint((unsigned char)text[i]) ? text[i] : '?';
    return copy;
}

ccl_i_log_run_t *ccl_i_measured_add(ccl_i_measured_t *m, uint32_t line) {
    if (m->nruns >= CCL_I_MAX_RUNS || !ccl_grow(&m->runs, &m->cap, m->nruns + 1, sizeof *m->runs)) {
        m->nomem = m->nruns < CCL_I_MAX_RUNS;
        return NULL;
    }
    ccl_i_log_run_t *run = &m->runs[m->nruns++];
    memset(run, 0, sizeof *run);
    run->about.gpu = run->about.type = run->about.label = "";
    run->about.program = run->about.proto = "";
    run->about.reduces = run->about.rooted = -1;
    run->about.line = line;
    return run;
}

ccl_i_log_run_t *ccl_i_measured_key(ccl_i_measured_t *m, const char *key, uint32_t line) {
    if (!m->keys && !(m->keys = ccl_strmap_create())) {
        m->nomem = true;
        return NULL;
    }
    uint32_t index = ccl_strmap_get(m->keys, key);
    if (index != CCL_NONE)
        return &m->runs[index];
    ccl_i_log_run_t *run = ccl_i_measured_add(m, line);
    if (run && !ccl_strmap_put(m->keys, key, (uint32_t)m->nruns - 1)) {
        m->nomem = true;
        return NULL;
    }
    return run;
}

void ccl_i_measured_point(ccl_i_measured_t *m, ccl_i_log_run_t *run, ccl_measurement_t point) {
    if (!ccl_grow(&run->points, &run->cap, run->npoints + 1, sizeof *run->points)) {
        m->nomem = true;
        return;
    }
    run->points[run->npoints++] = point;
}

bool ccl_i_collective_named(const char *text, size_t len, ccl_collective_kind_t *out) {
    char name[40];
    if (len > 5 && memcmp(text + len - 5, "_perf", 5) == 0)
        len -= 5;
    if (len == 0 || len >= sizeof name)
        return false;
    memcpy(name, text, len);
    name[len] = '\0';
    return ccl_collective_kind_parse(name, out, NULL) == CCL_OK && *out != CCL_CUSTOM;
}

bool ccl_i_parse_number(const char *text, size_t len, double *out) {
    char copy[64], *end = NULL;
    if (len == 0 || len >= sizeof copy || !memchr("0123456789.+-", text[0], 13))
        return false;
    memcpy(copy, text, len);
    copy[len] = '\0';
    double value = strtod(copy, &end);
    if (end != copy + len || !isfinite(value))
        return false;
    *out = value;
    return true;
}

ccl_status_t ccl_i_measured_finish(ccl_i_measured_t *m, ccl_measured_log_t **out,
                                   ccl_error_t *err) {
    ccl_measured_log_t *log = calloc(1, sizeof *log);
    if (!log || m->nomem) {
        free(log);
        return ccl_fail_nomem(err);
    }
    log->arena = m->arena;
    ccl_arena_init(&m->arena);
    log->nskipped = m->nskipped;
    log->first_skipped = m->first_skipped;
    ccl_measured_run_t *runs = ccl_arena_alloc(&log->arena, m->nruns + 1, sizeof *runs);
    bool ok = runs != NULL;
    for (size_t i = 0; ok && i < m->nruns; i++) {
        const ccl_i_log_run_t *run = &m->runs[i];
        if (run->npoints == 0)
            continue;
        ccl_measurement_t *points = ccl_arena_alloc(&log->arena, run->npoints, sizeof *points);
        if (!points) {
            ok = false;
            break;
        }
        memcpy(points, run->points, run->npoints * sizeof *points);
        runs[log->nruns] = run->about;
        runs[log->nruns].points = points;
        runs[log->nruns++].npoints = (uint32_t)run->npoints;
    }
    log->runs = runs;
    if (!ok || log->nruns == 0) {
        ccl_measured_log_destroy(log);
        return !ok ? ccl_fail_nomem(err)
                   : ccl_error_set(
                         err, CCL_ERR_INPUT, m->name, 0, 0,
                         "no measured rows; nccl-tests or rccl-tests output (size, count, "
                         "type, ..., time, algbw, busbw), CSV with a header line, JSON, "
                         "an object a line, or a trace of PyTorch's profiler");
    }
    *out = log;
    return CCL_OK;
}

void ccl_measured_log_destroy(ccl_measured_log_t *log) {
    if (!log)
        return;
    ccl_arena_fini(&log->arena);
    free(log);
}

uint32_t ccl_measured_candidates(const ccl_measured_run_t *run) {
    uint32_t found = 0;
    if (!(run->factor > 0) || run->nranks < 2)
        return 0;
    for (int k = 0; k < CCL_CUSTOM; k++) {
        ccl_collective_kind_t kind = (ccl_collective_kind_t)k;
        int reduces = kind == CCL_ALLREDUCE || kind == CCL_REDUCESCATTER || kind == CCL_REDUCE;
        if ((run->reduces >= 0 && run->reduces != reduces) ||
            (run->rooted >= 0 && run->rooted != (int)ccl_collective_kind_is_rooted(kind)) ||
            fabs(run->factor - ccl_collective_busbw_factor(kind, run->nranks)) > run->factor_error)
            continue;
        found |= 1u << k;
    }
    return found;
}

const char *ccl_measured_setting(const ccl_measured_run_t *run, const char *name) {
    for (uint32_t i = 0; i < run->nsettings; i++)
        if (strcmp(run->settings[i].name, name) == 0)
            return run->settings[i].value;
    return NULL;
}

/* A first line of at least two commas, all words, one of them a column that CSV must have. */
static bool looks_csv(const char *text, size_t len) {
    const char *end = memchr(text, '\n', len);
    size_t n = end ? (size_t)(end - text) : len;
    static const char *const columns[] = {"message_size", "size_bytes", "program,", "schedule,"};
    for (size_t c = 0; c < CCL_ARRAY_LEN(columns); c++) {
        size_t width = strlen(columns[c]);
        for (size_t i = 0; i + width <= n; i++)
            if (memcmp(text + i, columns[c], width) == 0 && memchr(text, ',', n))
                return true;
    }
    return false;
}

ccl_status_t ccl_measured_read_text(const char *name, const char *text, size_t len,
                                    ccl_measured_log_t **out, ccl_error_t *err) {
    ccl_i_measured_t m;
    if (len > CCL_I_MAX_LOG_BYTES)
        return ccl_error_set(err, CCL_ERR_INPUT, name, 0, 0, "larger than %zu bytes, the most",
                             CCL_I_MAX_LOG_BYTES);
    ccl_i_measured_init(&m, name);
    size_t at = len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    while (at < len && isspace((unsigned char)text[at]))
        at++;
    ccl_status_t status;
    if (at < len && text[at] == '{' && ccl_i_kineto_is(text, len))
        status = ccl_i_read_kineto(&m, text, len, err);
    else if (at < len && text[at] == '{')
        status = ccl_i_read_json_lines(&m, text, len, err);
    else if (looks_csv(text + at, len - at))
        status = ccl_i_read_csv(&m, text, len, err);
    else
        status = ccl_i_read_nccl_tests(&m, text, len, err);
    if (status == CCL_OK)
        status = ccl_i_measured_finish(&m, out, err);
    ccl_i_measured_fini(&m);
    return status;
}

ccl_status_t ccl_measured_read(const char *path, ccl_measured_log_t **out, ccl_error_t *err) {
    char *text = NULL;
    size_t len = 0;
    CCL_TRY(ccl_file_read(path, CCL_I_MAX_LOG_BYTES, &text, &len, err));
    const char *name = strcmp(path, "-") == 0 ? "<stdin>" : path;
    ccl_status_t status = ccl_measured_read_text(name, text, len, out, err);
    free(text);
    if (status != CCL_OK)
        return status;
    /* Old nccl-tests do not say which collective they ran; often the file's name does. */
    char title[200];
    ccl_file_title(path, title, sizeof title);
    static const struct {
        const char *word;
        ccl_collective_kind_t kind;
    } words[] = {{"alltoall", CCL_ALLTOALL},   {"allgather", CCL_ALLGATHER},
                 {"allreduce", CCL_ALLREDUCE}, {"reducescatter", CCL_REDUCESCATTER},
                 {"broadcast", CCL_BROADCAST}, {"sendrecv", CCL_SENDRECV},
                 {"scatter", CCL_SCATTER},     {"gather", CCL_GATHER},
                 {"reduce", CCL_REDUCE}};
    size_t n = 0;
    for (size_t i = 0; title[i]; i++)
        if (isalpha((unsigned char)title[i]))
            title[n++] = (char)tolower((unsigned char)title[i]);
    title[n] = '\0';
    ccl_measured_run_t *runs = (ccl_measured_run_t *)(*out)->runs; /* ours until returned */
    for (size_t w = 0; w < CCL_ARRAY_LEN(words); w++) {
        if (!strstr(title, words[w].word))
            continue;
        for (uint32_t r = 0; r < (*out)->nruns; r++) {
            uint32_t may = ccl_measured_candidates(&runs[r]);
            if (!runs[r].known && (!may || may >> words[w].kind & 1)) {
                runs[r].known = true;
                runs[r].kind = words[w].kind;
            }
        }
        break;
    }
    return CCL_OK;
}
