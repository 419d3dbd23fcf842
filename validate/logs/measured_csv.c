/*
 * Measured runs as tables of other tools. CSV: planners' databases (latency in ms, message_size in
 * elements) and collections of quoted rows (oop_us, ip_us, size_bytes). JSON lines: baselines of
 * MSCCL++ (size in bytes, time in us), and what NCCL's Inspector writes.
 */
#include "validate/logs/measured.h"
#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MAX_FIELDS 64u

typedef enum column {
    COLUMN_OP,
    COLUMN_RANKS,
    COLUMN_NODES,
    COLUMN_GPU,
    COLUMN_TYPE,
    COLUMN_ELEMENTS,
    COLUMN_BYTES,
    COLUMN_MS,
    COLUMN_US,
    COLUMN_IN_PLACE_US,
    COLUMN_SOURCE,
    COLUMN_CONFIG,
    COLUMN_VERSION,
    COLUMN_PROGRAM,
    COLUMN_PROTO,
    COLUMN_MIN_US,
    COLUMN_MAX_US,
    COLUMN_DEVIATION_US,
    NCOLUMNS
} column_t;

static column_t column_of(const char *name, size_t len) {
    static const struct {
        const char *name;
        column_t column;
    } known[] = {{"op", COLUMN_OP},
                 {"op_name", COLUMN_OP},
                 {"collective", COLUMN_OP},
                 {"ranks", COLUMN_RANKS},
                 {"num_gpus", COLUMN_RANKS},
                 {"nodes", COLUMN_NODES},
                 {"gpu", COLUMN_GPU},
                 {"device", COLUMN_GPU},
                 {"nccl_dtype", COLUMN_TYPE},
                 {"type", COLUMN_TYPE},
                 {"dtype", COLUMN_TYPE},
                 {"message_size", COLUMN_ELEMENTS},
                 {"size_bytes", COLUMN_BYTES},
                 {"size", COLUMN_BYTES},
                 {"latency", COLUMN_MS},
                 {"latency_ms", COLUMN_MS},
                 {"oop_us", COLUMN_US},
                 {"time_us", COLUMN_US},
                 {"time", COLUMN_US},
                 {"median_us", COLUMN_US},
                 {"time_us_out_of_place", COLUMN_US},
                 {"ip_us", COLUMN_IN_PLACE_US},
                 {"time_us_in_place", COLUMN_IN_PLACE_US},
                 {"min_us", COLUMN_MIN_US},
                 {"max_us", COLUMN_MAX_US},
                 {"std_us", COLUMN_DEVIATION_US},
                 {"program", COLUMN_PROGRAM},
                 {"schedule", COLUMN_PROGRAM},
                 {"protocol", COLUMN_PROTO},
                 {"proto", COLUMN_PROTO},
                 {"cluster", COLUMN_CONFIG},
                 {"nccl", COLUMN_VERSION},
                 {"source", COLUMN_SOURCE},
                 {"config", COLUMN_CONFIG},
                 {"version", COLUMN_VERSION}};
    for (size_t i = 0; i < CCL_ARRAY_LEN(known); i++)
        if (strlen(known[i].name) == len && memcmp(known[i].name, name, len) == 0)
            return known[i].column;
    return NCOLUMNS;
}

/* Bytes of an element of a type; 0: not known. */
static double element_bytes(const char *type) {
    static const struct {
        const char *name;
        double bytes;
    } known[] = {{"int8", 1},    {"uint8", 1},    {"fp8", 1},    {"half", 2},  {"fp16", 2},
                 {"float16", 2}, {"bfloat16", 2}, {"bf16", 2},   {"float", 4}, {"float32", 4},
                 {"int32", 4},   {"uint32", 4},   {"double", 8}, {"int64", 8}, {"uint64", 8}};
    for (size_t i = 0; i < CCL_ARRAY_LEN(known); i++)
        if (strcmp(known[i].name, type) == 0)
            return known[i].bytes;
    return 0;
}

typedef struct table {
    ccl_i_measured_t *m;
    uint32_t at[NCOLUMNS]; /* field of each column; CCL_NONE: none */
} table_t;

static const ccl_csv_field_t *get(const table_t *t, const ccl_csv_field_t *fields, uint32_t n,
                                  column_t column) {
    static const ccl_csv_field_t none = {"", 0};
    uint32_t at = t->at[column];
    return at < n ? &fields[at] : &none;
}

static bool number_of(const table_t *t, const ccl_csv_field_t *fields, uint32_t n, column_t column,
                      double *out) {
    const ccl_csv_field_t *f = get(t, fields, n, column);
    return ccl_i_parse_number(f->text, f->len, out);
}

/** 22703 for 2.27.3 and for 22703; 0 for anything else. */
static uint32_t version_of(const ccl_csv_field_t *f) {
    unsigned major, minor, patch = 0;
    char text[32];
    if (f->len >= sizeof text)
        return 0;
    memcpy(text, f->text, f->len);
    text[f->len] = '\0';
    if (sscanf(text, "%u.%u.%u", &major, &minor, &patch) == 1 && major >= 20000 && major < 100000)
        return major;
    if (sscanf(text, "%u.%u.%u", &major, &minor, &patch) < 2 || major > 99 || minor > 99 ||
        patch > 99)
        return 0;
    return major * 10000 + minor * 100 + patch;
}

/** A size as nccl-tests prints it, or with a suffix, "64K"; in elements where there is no column of
 * bytes. */
static ccl_status_t size_of(const table_t *t, const ccl_csv_field_t *fields, uint32_t n,
                            uint32_t line, double *out, ccl_error_t *err) {
    const ccl_csv_field_t *type = get(t, fields, n, COLUMN_TYPE),
                          *bytes = get(t, fields, n, COLUMN_BYTES);
    double size = -1;
    if (t->at[COLUMN_BYTES] == CCL_NONE) {
        double element = element_bytes(type->text);
        if (element == 0)
            return ccl_error_set(err, CCL_ERR_INPUT, t->m->name, (int)line, 0,
                                 "element type \"%.40s\" has no known size", type->text);
        if (number_of(t, fields, n, COLUMN_ELEMENTS, &size))
            size *= element;
        else
            size = -1;
    } else if (!number_of(t, fields, n, COLUMN_BYTES, &size)) {
        char text[32];
        snprintf(text, sizeof text, "%.*s", (int)(bytes->len < 31 ? bytes->len : 31), bytes->text);
        if (ccl_parse_bytes(text, &size, NULL) != CCL_OK)
            size = -1;
    }
    if (!(size > 0) || size > 1e18)
        return ccl_error_set(err, CCL_ERR_INPUT, t->m->name, (int)line, 0,
                             "the message size is no positive number");
    *out = size;
    return CCL_OK;
}

/* Relative standard deviation: as given, or a quarter of the range, which is about four. */
static double spread_of(const table_t *t, const ccl_csv_field_t *fields, uint32_t n, double us) {
    double low, high, deviation;
    if (!(us > 0))
        return 0;
    if (number_of(t, fields, n, COLUMN_DEVIATION_US, &deviation) && deviation > 0)
        return deviation / us;
    if (number_of(t, fields, n, COLUMN_MIN_US, &low) &&
        number_of(t, fields, n, COLUMN_MAX_US, &high) && high > low && low > 0)
        return (high - low) / 4 / us;
    return 0;
}

/** What a run of programs or of collectives is; the run is told apart by its columns. */
static ccl_status_t about_run(table_t *t, const ccl_csv_field_t *fields, uint32_t n, uint32_t line,
                              ccl_measured_run_t *out, ccl_error_t *err) {
    const ccl_csv_field_t *op = get(t, fields, n, COLUMN_OP),
                          *program = get(t, fields, n, COLUMN_PROGRAM),
                          *proto = get(t, fields, n, COLUMN_PROTO);
    double ranks = 0;
    out->known = ccl_i_collective_named(op->text, op->len, &out->kind);
    if (!out->known && program->len == 0)
        return ccl_error_set(err, CCL_ERR_INPUT, t->m->name, (int)line, 0,
                             "\"%.60s\" is no collective", op->text);
    if ((program->len == 0 || t->at[COLUMN_RANKS] != CCL_NONE) &&
        (!number_of(t, fields, n, COLUMN_RANKS, &ranks) || ranks < 1 || ranks > CCL_I_MAX_RANKS ||
         ranks != floor(ranks)))
        return ccl_error_set(err, CCL_ERR_INPUT, t->m->name, (int)line, 0,
                             "\"%.40s\" is no number of ranks",
                             get(t, fields, n, COLUMN_RANKS)->text);
    out->nranks = (uint32_t)ranks;
    for (int p = 0; proto->len > 0 && !out->proto; p++) {
        if (p == CCL_PROTOCOLS)
            return ccl_error_set(err, CCL_ERR_INPUT, t->m->name, (int)line, 0,
                                 "\"%.40s\" is no protocol: Simple, LL or LL128", proto->text);
        const char *name = ccl_protocol_name((ccl_protocol_t)p);
        if (strcasecmp(name, proto->text) == 0)
            out->proto = name;
    }
    out->proto = out->proto ? out->proto : "";
    return CCL_OK;
}

static ccl_status_t csv_row(table_t *t, const ccl_csv_field_t *fields, uint32_t n, uint32_t line,
                            ccl_error_t *err) {
    const ccl_csv_field_t *op = get(t, fields, n, COLUMN_OP),
                          *type = get(t, fields, n, COLUMN_TYPE),
                          *gpu = get(t, fields, n, COLUMN_GPU),
                          *source = get(t, fields, n, COLUMN_SOURCE),
                          *version = get(t, fields, n, COLUMN_VERSION),
                          *program = get(t, fields, n, COLUMN_PROGRAM);
    ccl_measured_run_t about = {.line = line};
    ccl_measurement_t point = {.line = line};
    double value, in_place, nodes = 0;
    CCL_TRY(about_run(t, fields, n, line, &about, err));
    CCL_TRY(size_of(t, fields, n, line, &point.size_bytes, err));
    if (number_of(t, fields, n, COLUMN_MS, &value) && value > 0)
        point.time_s = value * 1e-3;
    else if (number_of(t, fields, n, COLUMN_US, &value) && value > 0)
        point.time_s = value * 1e-6;
    if (number_of(t, fields, n, COLUMN_IN_PLACE_US, &in_place) && in_place > 0)
        point.in_place_time_s = in_place * 1e-6;
    if (point.time_s == 0 && point.in_place_time_s == 0)
        return CCL_OK; /* a bandwidth without a time */
    point.spread = spread_of(t, fields, n, 1e6 * point.time_s);
    if (source->len == 0)
        source = version;
    (void)number_of(t, fields, n, COLUMN_NODES, &nodes);
    char key[1400];
    snprintf(key, sizeof key, "%s|%s|%s|%u|%s|%s|%s|%s|%s|%g", version->text, op->text, type->text,
             about.nranks, gpu->text, source->text, get(t, fields, n, COLUMN_CONFIG)->text,
             program->text, about.proto, nodes);
    ccl_i_log_run_t *run = ccl_i_measured_key(t->m, key, line);
    if (!run)
        return CCL_OK; /* reported by the caller, or more runs than are kept */
    if (run->npoints == 0) {
        about.nhosts = nodes >= 1 && nodes <= about.nranks ? (uint32_t)nodes : 0;
        about.version = version_of(version);
        about.gpu = ccl_i_measured_text(t->m, gpu->text, gpu->len);
        about.type = ccl_i_measured_text(t->m, type->text, type->len);
        about.label = ccl_i_measured_text(t->m, source->text, source->len);
        about.program = ccl_i_measured_text(t->m, program->text, program->len);
        run->about = about;
    }
    ccl_i_measured_point(t->m, run, point);
    return CCL_OK;
}

ccl_status_t ccl_i_read_csv(ccl_i_measured_t *m, const char *text, size_t len, ccl_error_t *err) {
    table_t t = {.m = m};
    ccl_csv_field_t *fields = calloc(MAX_FIELDS, sizeof *fields);
    uint32_t line = 0;
    ccl_status_t status = fields ? CCL_OK : ccl_fail_nomem(err);
    for (size_t i = 0; i < NCOLUMNS; i++)
        t.at[i] = CCL_NONE;
    bool header = true;
    size_t at = len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    while (status == CCL_OK && at < len && !m->nomem) {
        const char *end = memchr(text + at, '\n', len - at);
        size_t width = end ? (size_t)(end - (text + at)) : len - at;
        uint32_t n = ccl_csv_fields(text + at, width, fields, MAX_FIELDS);
        line++;
        at += width + 1;
        if (n == 1 && fields[0].len == 0)
            continue;
        if (!header) {
            status = csv_row(&t, fields, n, line, err);
            continue;
        }
        header = false;
        for (uint32_t i = 0; i < n; i++) {
            column_t c = column_of(fields[i].text, fields[i].len);
            if (c < NCOLUMNS && t.at[c] == CCL_NONE)
                t.at[c] = i;
        }
        bool programs = t.at[COLUMN_PROGRAM] != CCL_NONE;
        if ((!programs && (t.at[COLUMN_OP] == CCL_NONE || t.at[COLUMN_RANKS] == CCL_NONE)) ||
            (t.at[COLUMN_BYTES] == CCL_NONE && t.at[COLUMN_ELEMENTS] == CCL_NONE) ||
            (t.at[COLUMN_MS] == CCL_NONE && t.at[COLUMN_US] == CCL_NONE))
            status =
                ccl_error_set(err, CCL_ERR_INPUT, m->name, (int)line, 0,
                              "columns op, ranks, size_bytes and oop_us are needed (or op_name, "
                              "num_gpus, message_size in elements, latency in ms; or program, "
                              "size, time in us)");
    }
    free(fields);
    return status == CCL_OK && m->nomem ? ccl_fail_nomem(err) : status;
}

/* ---------------------------------------------------------------- JSON, an object a line */

static ccl_status_t json_row(ccl_i_measured_t *m, ccl_i_inspector_t *calls, const char *text,
                             size_t len, uint32_t line, ccl_error_t *err) {
    json_error_t why;
    json_t *row = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
    if (!row)
        return ccl_error_set(err, CCL_ERR_INPUT, m->name, (int)line,
                             why.column > 0 ? why.column : 0, "%.200s", why.text);
    if (ccl_i_inspector_is(row)) {
        json_decref(row);
        return ccl_i_inspector_row(m, calls, text, len, line, err);
    }
    const char *name = json_string_value(json_object_get(row, "name"));
    double ranks = json_number_value(json_object_get(row, "ranks"));
    double size = json_number_value(json_object_get(row, "size"));
    double time_us = json_number_value(json_object_get(row, "time"));
    const json_t *kernel = json_object_get(row, "kernel");
    double per_node = json_number_value(json_object_get(row, "ranksPerNode"));
    ccl_collective_kind_t kind;
    ccl_status_t status = CCL_OK;
    if (!name || !ccl_i_collective_named(name, strlen(name), &kind) || !(ranks >= 1) ||
        ranks > CCL_I_MAX_RANKS || ranks != floor(ranks) || !(size > 0) || !(time_us > 0)) {
        status = ccl_error_set(err, CCL_ERR_INPUT, m->name, (int)line, 0,
                               "a row needs \"name\" (a collective), \"ranks\", \"size\" in bytes "
                               "and \"time\" in us; or \"header\" and \"coll_perf\" as NCCL's "
                               "Inspector writes them");
        goto done;
    }
    char key[200], label[60] = "";
    if (json_is_integer(kernel))
        snprintf(label, sizeof label, "kernel %lld", (long long)json_integer_value(kernel));
    snprintf(key, sizeof key, "%d|%g|%s", (int)kind, ranks, label);
    ccl_i_log_run_t *run = ccl_i_measured_key(m, key, line);
    if (!run)
        goto done;
    if (run->npoints == 0) {
        run->about.known = true;
        run->about.kind = kind;
        run->about.nranks = (uint32_t)ranks;
        if (per_node >= 1 && per_node <= ranks)
            run->about.nhosts = (uint32_t)ceil(ranks / per_node);
        run->about.label = ccl_i_measured_text(m, label, strlen(label));
    }
    ccl_i_measured_point(
        m, run, (ccl_measurement_t){.size_bytes = size, .time_s = time_us * 1e-6, .line = line});
done:
    json_decref(row);
    return status;
}

ccl_status_t ccl_i_read_json_lines(ccl_i_measured_t *m, const char *text, size_t len,
                                   ccl_error_t *err) {
    uint32_t line = 0;
    ccl_i_inspector_t calls = {0};
    ccl_status_t status = CCL_OK;
    size_t at = len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    while (status == CCL_OK && at < len && !m->nomem) {
        const char *end = memchr(text + at, '\n', len - at);
        size_t width = end ? (size_t)(end - (text + at)) : len - at;
        const char *start = text + at;
        line++;
        at += width + 1;
        while (width > 0 && strchr(" \t\r", start[width - 1]) && start[width - 1])
            width--;
        if (width > 0)
            status = json_row(m, &calls, start, width, line, err);
    }
    ccl_i_inspector_finish(m, &calls);
    if (status != CCL_OK)
        return status;
    return m->nomem ? ccl_fail_nomem(err) : CCL_OK;
}
