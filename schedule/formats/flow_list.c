/*
 * Flow lists: "nranks nflows gpus_per_server", then one flow a line, "id src dst bytes dep".
 *
 * Parsed by hand in one pass: with millions of lines the reader must not cost more than the run.
 */
#include "schedule/schedule_i.h"

#include <stdlib.h>
#include <string.h>

typedef struct cursor {
    const char *p, *end, *line_start;
    int line;
    const char *file;
    ccl_error_t *err;
} cursor_t;

#define BAD(c_, at_, ...)                                                                          \
    ccl_error_set(                                                                                 \
        (c_)->err, CCL_ERR_INPUT, (c_)->file, (c_)->line,                                          \
        (int)((at_) - (c_)->line_start < INT32_MAX - 1 ? (at_) - (c_)->line_start + 1 : 0),        \
        __VA_ARGS__)

static void skip_blanks(cursor_t *c) {
    while (c->p < c->end && (*c->p == ' ' || *c->p == '\t' || *c->p == '\r'))
        c->p++;
}

/** To the first field of the next line that has any; false at the end. '#' starts a comment. */
static bool next_line(cursor_t *c) {
    for (;;) {
        skip_blanks(c);
        if (c->p == c->end)
            return false;
        if (*c->p == '#') {
            const char *newline = memchr(c->p, '\n', (size_t)(c->end - c->p));
            c->p = newline ? newline : c->end;
            continue;
        }
        if (*c->p != '\n')
            return true;
        c->p++;
        c->line++;
        c->line_start = c->p;
    }
}

static bool at_field_end(const cursor_t *c) {
    return c->p == c->end || *c->p == ' ' || *c->p == '\t' || *c->p == '\n' || *c->p == '\r';
}

static ccl_status_t bad_field(const cursor_t *c, const char *start, const char *what, uint64_t min,
                              uint64_t max) {
    const char *end = start;
    while (end < c->end && !strchr(" \t\r\n", *end) && end - start < 40)
        end++;
    if (end == start)
        return BAD(c, start, "%s is missing: a flow is 'id src dst bytes dep'", what);
    return BAD(c, start, "%s '%.*s': an integer from %llu to %llu is needed", what,
               (int)(end - start), start, (unsigned long long)min, (unsigned long long)max);
}

static inline ccl_status_t read_u32(cursor_t *c, const char *what, uint32_t min, uint32_t max,
                                    uint32_t *out) {
    while (c->p < c->end && (*c->p == ' ' || *c->p == '\t'))
        c->p++;
    const char *start = c->p;
    uint64_t value = 0;
    while (c->p < c->end && (unsigned)(*c->p - '0') < 10 && c->p - start < 11)
        value = value * 10 + (unsigned)(*c->p++ - '0');
    if (c->p == start || !at_field_end(c) || value < min || value > max)
        return bad_field(c, start, what, min, max);
    *out = (uint32_t)value;
    return CCL_OK;
}

/** Whole numbers are quick; anything else goes through the library's number reader. */
static ccl_status_t read_bytes(cursor_t *c, double *out) {
    while (c->p < c->end && (*c->p == ' ' || *c->p == '\t'))
        c->p++;
    const char *start = c->p;
    uint64_t value = 0;
    while (c->p < c->end && (unsigned)(*c->p - '0') < 10 && c->p - start < 18)
        value = value * 10 + (unsigned)(*c->p++ - '0');
    if (c->p > start && at_field_end(c)) {
        *out = (double)value;
        return CCL_OK;
    }
    char copy[64];
    size_t len = 0;
    for (c->p = start; !at_field_end(c) && len < sizeof copy - 1; c->p++) {
        if (!strchr("0123456789.eE+-", *c->p))
            break;
        copy[len++] = *c->p;
    }
    copy[len] = 0;
    double bytes = 0;
    if (!at_field_end(c) || ccl_parse_bytes(copy, &bytes, NULL) != CCL_OK) {
        c->p = start;
        while (!at_field_end(c) && c->p - start < 40)
            c->p++;
        if (c->p == start)
            return BAD(c, start, "bytes is missing: a flow is 'id src dst bytes dep'");
        return BAD(c, start, "bytes '%.*s': a number of bytes, 0 or more, is needed",
                   (int)(c->p - start), start);
    }
    *out = bytes;
    return CCL_OK;
}

static ccl_status_t read_dep(cursor_t *c, uint32_t nflows, uint32_t *out) {
    while (c->p < c->end && (*c->p == ' ' || *c->p == '\t'))
        c->p++;
    if (c->end - c->p >= 2 && c->p[0] == '-' && c->p[1] == '1') {
        const char *start = c->p;
        c->p += 2;
        if (at_field_end(c)) {
            *out = CCL_NONE;
            return CCL_OK;
        }
        c->p = start;
    }
    const char *start = c->p;
    uint64_t value = 0;
    while (c->p < c->end && (unsigned)(*c->p - '0') < 10 && c->p - start < 11)
        value = value * 10 + (unsigned)(*c->p++ - '0');
    if (c->p == start || !at_field_end(c) || value >= nflows) {
        if (start < c->end && !strchr(" \t\r\n", *start))
            return BAD(c, start, "dep: the id of one of the %u flows, or -1, is needed", nflows);
        return bad_field(c, start, "dep", 0, 0);
    }
    *out = (uint32_t)value;
    return CCL_OK;
}

static ccl_status_t end_of_line(cursor_t *c, const char *shape) {
    skip_blanks(c);
    if (c->p < c->end && *c->p != '\n' && *c->p != '#')
        return BAD(c, c->p, "more than the %s", shape);
    return CCL_OK;
}

/** Line of flow `id`, for messages about flows that were read before. */
static int line_of(const cursor_t *from, uint32_t id) {
    cursor_t c = *from;
    uint32_t seen = 0;
    while (next_line(&c)) {
        ccl_error_t ignored = CCL_ERROR_INIT;
        c.err = &ignored;
        if (read_u32(&c, "id", 0, UINT32_MAX - 1, &seen) != CCL_OK)
            return 0;
        if (seen == id)
            return c.line;
        const char *newline = memchr(c.p, '\n', (size_t)(c.end - c.p));
        if (!newline)
            return 0;
        c.p = newline;
    }
    return 0;
}

/** A flow has one dependency at most: follow each chain once. */
static ccl_status_t check_cycles(const ccl_flow_list_t *list, const cursor_t *flows) {
    /* In file order almost all dependencies point back, and such flows cannot be on a cycle alone.
     */
    bool back = true;
    for (uint32_t i = 0; i < list->nflows && back; i++)
        back = list->dep[i] == CCL_NONE || list->dep[i] < i;
    if (back)
        return CCL_OK;
    uint32_t *mark = calloc(list->nflows, sizeof *mark); /* 1 + the start of the chain it is on */
    if (!mark)
        return ccl_fail_nomem(flows->err);
    ccl_status_t status = CCL_OK;
    for (uint32_t i = 0; i < list->nflows && status == CCL_OK; i++) {
        uint32_t at = i;
        while (at != CCL_NONE && mark[at] == 0) {
            mark[at] = i + 1;
            at = list->dep[at];
        }
        if (at != CCL_NONE && mark[at] == i + 1)
            status = ccl_error_set(flows->err, CCL_ERR_INPUT, flows->file, line_of(flows, at), 0,
                                   "flow %u waits for itself through its dependencies", at);
    }
    free(mark);
    return status;
}

static ccl_status_t read_flows(cursor_t *c, ccl_flow_list_t *list) {
    uint32_t nranks = list->nranks, nflows = list->nflows;
    memset(list->src, 0xff, nflows * sizeof *list->src); /* CCL_NONE: not read yet */
    for (uint32_t i = 0; i < nflows; i++) {
        uint32_t id = 0, src = 0, dst = 0, dep = 0;
        double bytes = 0;
        if (!next_line(c))
            return BAD(c, c->p, "the list ends after %u of %u flows", i, nflows);
        const char *start = c->p;
        CCL_TRY(read_u32(c, "id", 0, nflows - 1, &id));
        CCL_TRY(read_u32(c, "src", 0, nranks - 1, &src));
        CCL_TRY(read_u32(c, "dst", 0, nranks - 1, &dst));
        CCL_TRY(read_bytes(c, &bytes));
        CCL_TRY(read_dep(c, nflows, &dep));
        if (c->p == c->end || *c->p != '\n')
            CCL_TRY(end_of_line(c, "five fields 'id src dst bytes dep'"));
        if (list->src[id] != CCL_NONE)
            return BAD(c, start, "flow %u is given twice", id);
        if (src == dst)
            return BAD(c, start, "flow %u goes from rank %u to itself", id, src);
        list->src[id] = src;
        list->dst[id] = dst;
        list->bytes[id] = bytes;
        list->dep[id] = dep;
    }
    if (next_line(c))
        return BAD(c, c->p, "more flows than the %u that the first line announces", nflows);
    return CCL_OK;
}

ccl_status_t ccl_flow_list_read_text(const char *name, const char *text, size_t len,
                                     ccl_flow_list_t **out, ccl_error_t *err) {
    cursor_t c = {
        .p = text, .end = text + len, .line_start = text, .line = 1, .file = name, .err = err};
    uint32_t nranks = 0, nflows = 0, gpus_per_server = 0;
    if (!next_line(&c))
        return BAD(&c, c.p, "the first line 'nranks nflows gpus_per_server' is missing");
    const char *start = c.p;
    CCL_TRY(read_u32(&c, "nranks", 1, CCL_I_MAX_RANKS, &nranks));
    CCL_TRY(read_u32(&c, "nflows", 0, INT32_MAX, &nflows));
    CCL_TRY(read_u32(&c, "gpus_per_server", 1, CCL_I_MAX_RANKS, &gpus_per_server));
    CCL_TRY(end_of_line(&c, "three fields 'nranks nflows gpus_per_server'"));
    /* A flow takes 10 characters at least, so the text bounds what is allocated. */
    if (nflows > (size_t)(c.end - c.p) / 10 + 1)
        return BAD(&c, start, "%u flows do not fit in the rest of the file", nflows);

    ccl_flow_list_t *list = calloc(1, sizeof *list);
    if (!list)
        return ccl_fail_nomem(err);
    size_t room = nflows ? nflows : 1;
    list->nranks = nranks;
    list->nflows = nflows;
    list->gpus_per_server = gpus_per_server;
    list->src = malloc(room * sizeof *list->src);
    list->dst = malloc(room * sizeof *list->dst);
    list->dep = malloc(room * sizeof *list->dep);
    list->bytes = malloc(room * sizeof *list->bytes);
    ccl_status_t status = CCL_OK;
    if (!list->src || !list->dst || !list->dep || !list->bytes)
        status = ccl_fail_nomem(err);
    cursor_t flows = c;
    if (status == CCL_OK)
        status = read_flows(&c, list);
    if (status == CCL_OK)
        status = check_cycles(list, &flows);
    if (status != CCL_OK) {
        ccl_flow_list_destroy(list);
        return status;
    }
    *out = list;
    return CCL_OK;
}

ccl_status_t ccl_flow_list_read(const char *path, ccl_flow_list_t **out, ccl_error_t *err) {
    char *text;
    size_t len;
    CCL_TRY(ccl_file_read(path, CCL_FILE_MAX_BYTES, &text, &len, err));
    ccl_status_t status =
        ccl_flow_list_read_text(strcmp(path, "-") == 0 ? "<stdin>" : path, text, len, out, err);
    free(text);
    return status;
}

void ccl_flow_list_destroy(ccl_flow_list_t *list) {
    if (!list)
        return;
    free(list->src);
    free(list->dst);
    free(list->dep);
    free(list->bytes);
    free(list);
}
