/* A Chrome trace as data of the page's timelines, few enough spans that a browser stays fluid. */
#include "report/html/page.h"
#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* About 4 MB of text in a page, and 2 GB while a file is read. */
enum { MOST_SPANS = 200000, MOST_EVENTS = 1500000, MOST_KINDS = 256 };

typedef struct span {
    uint32_t pid, tid, kind;
    double start_ns, end_ns;
} span_t;

typedef struct events {
    span_t *spans;
    size_t n, cap;
    const char *kinds[MOST_KINDS];
    uint32_t nkinds;
    ccl_strmap_t *names; /* of rows: index into texts */
    const char **texts;
    size_t ntexts, texts_cap;
    double time_ns;
} events_t;

static int by_place(const void *x, const void *y) {
    const span_t *a = x;
    const span_t *b = y;

    if (a->pid != b->pid)
        return a->pid < b->pid ? -1 : 1;
    if (a->tid != b->tid)
        return a->tid < b->tid ? -1 : 1;
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return a->end_ns < b->end_ns ? -1 : a->end_ns > b->end_ns;
}

static uint32_t kind_of(events_t *e, const char *name) {
    for (uint32_t i = 0; i < e->nkinds; i++)
        if (strcmp(e->kinds[i], name) == 0)
            return i;
    if (e->nkinds == MOST_KINDS)
        return MOST_KINDS - 1;
    e->kinds[e->nkinds] = name;
    return e->nkinds++;
}

static void row_key(char *out, size_t out_len, uint32_t pid, uint32_t tid) {
    snprintf(out, out_len, "%u.%u", pid, tid);
}

/** "thread_name" and "process_name"; the latter has no tid. */
static ccl_status_t add_name(events_t *e, const ccl_json_at_t *event, uint32_t pid,
                             ccl_error_t *err) {
    ccl_json_at_t at = ccl_json_member(event, "tid");
    ccl_json_at_t args = ccl_json_member(event, "args");
    ccl_json_at_t name = ccl_json_member(&args, "name");
    uint32_t tid = CCL_NONE;
    const char *text = NULL;
    char key[40];

    CCL_TRY(ccl_json_u32(&at, false, CCL_NONE - 1, &tid, err));
    CCL_TRY(ccl_json_string(&name, true, &text, err));
    row_key(key, sizeof(key), pid, tid);
    if (!ccl_grow(&e->texts, &e->texts_cap, e->ntexts + 1, sizeof(*e->texts)) ||
        !ccl_strmap_put(e->names, key, (uint32_t)e->ntexts))
        return ccl_fail_nomem(err);
    e->texts[e->ntexts++] = text;
    return CCL_OK;
}

static ccl_status_t add_event(events_t *e, const ccl_json_at_t *event, ccl_error_t *err) {
    ccl_json_at_t at = ccl_json_member(event, "ph");
    const char *phase;
    const char *name;
    span_t span = {0};
    double dur;

    CCL_TRY(ccl_json_string(&at, true, &phase, err));
    at = ccl_json_member(event, "pid");
    CCL_TRY(ccl_json_u32(&at, true, CCL_NONE - 1, &span.pid, err));
    if (strcmp(phase, "M") == 0)
        return add_name(e, event, span.pid, err);
    if (strcmp(phase, "X") != 0)
        return CCL_OK;
    at = ccl_json_member(event, "tid");
    CCL_TRY(ccl_json_u32(&at, true, CCL_NONE - 1, &span.tid, err));
    at = ccl_json_member(event, "name");
    CCL_TRY(ccl_json_string(&at, true, &name, err));
    at = ccl_json_member(event, "ts");
    CCL_TRY(ccl_json_number(&at, true, &span.start_ns, err));
    at = ccl_json_member(event, "dur");
    CCL_TRY(ccl_json_number(&at, true, &dur, err));
    if (span.start_ns < 0 || dur < 0)
        return ccl_json_fail(event, err, "time runs backwards");
    span.start_ns *= 1e3;
    span.end_ns = span.start_ns + dur * 1e3;
    span.kind = kind_of(e, name);
    e->time_ns = fmax(e->time_ns, span.end_ns);
    if (!ccl_grow(&e->spans, &e->cap, e->n + 1, sizeof(*e->spans)))
        return ccl_fail_nomem(err);
    e->spans[e->n++] = span;
    return CCL_OK;
}

/** Spans of a row with less than `gap_ns` between them become one. Returns how many are left. */
static size_t merged(span_t *spans, size_t n, double gap_ns) {
    size_t kept = 0;

    for (size_t i = 0; i < n; i++) {
        span_t *last = kept ? &spans[kept - 1] : NULL;

        if (last && last->pid == spans[i].pid && last->tid == spans[i].tid &&
            spans[i].start_ns - last->end_ns < gap_ns)
            last->end_ns = fmax(last->end_ns, spans[i].end_ns);
        else
            spans[kept++] = spans[i];
    }
    return kept;
}

static void row_name(const events_t *e, const span_t *span, char *out, size_t out_len) {
    char key[40];
    uint32_t text;

    row_key(key, sizeof(key), span->pid, span->tid);
    text = ccl_strmap_get(e->names, key);
    if (text != CCL_NONE) {
        snprintf(out, out_len, "%.80s", e->texts[text]);
        return;
    }
    row_key(key, sizeof(key), span->pid, CCL_NONE);
    text = ccl_strmap_get(e->names, key);
    if (text != CCL_NONE)
        snprintf(out, out_len, "%.60s, block %u", e->texts[text], span->tid);
    else
        snprintf(out, out_len, "%u.%u", span->pid, span->tid);
}

static void write_data(events_t *e, size_t n, ccl_text_t *out) {
    char number[40];

    ccl_text_printf(out, "{\"time\":%s,\"kinds\":[",
                    ccl_i_number(e->time_ns, number, sizeof(number)));
    for (uint32_t i = 0; i < e->nkinds; i++) {
        ccl_text_add(out, i ? "," : "", i ? 1 : 0);
        ccl_i_script_string(out, e->kinds[i]);
    }
    ccl_text_printf(out, "],\"rows\":[");
    for (size_t i = 0; i < n; i++) {
        const span_t *s = &e->spans[i];
        bool new = i == 0 || s[-1].pid != s->pid || s[-1].tid != s->tid;
        char name[120];

        if (new) {
            row_name(e, s, name, sizeof(name));
            ccl_text_printf(out, "%s{\"name\":", i ? "]},\n" : "\n");
            ccl_i_script_string(out, name);
            ccl_text_printf(out, ",\"spans\":[");
        }
        ccl_text_printf(out, "%s%.1f,%.1f,%u", new ? "" : ",", s->start_ns, s->end_ns - s->start_ns,
                        s->kind);
    }
    ccl_text_printf(out, "%s]}\n", n ? "]}" : "");
}

ccl_status_t ccl_i_page_timeline(const ccl_json_doc_t *doc, ccl_text_t *out, double *merged_ns_out,
                                 size_t *spans_out, ccl_error_t *err) {
    ccl_json_at_t root = ccl_json_root(doc);
    ccl_json_at_t list = ccl_json_member(&root, "traceEvents");
    events_t e = {.names = ccl_strmap_create()};
    size_t n = 0;
    double gap_ns = 0;
    ccl_status_t status = e.names ? CCL_OK : ccl_fail_nomem(err);

    if (status == CCL_OK)
        status = ccl_json_array(&list, true, &n, err);
    if (status == CCL_OK && n > MOST_EVENTS)
        status = ccl_json_fail(&list, err, "%zu events, %d are the most", n, (int)MOST_EVENTS);
    for (size_t i = 0; status == CCL_OK && i < n; i++) {
        ccl_json_at_t event = ccl_json_element(&list, i);

        status = add_event(&e, &event, err);
    }
    if (status == CCL_OK && (e.n == 0 || !(e.time_ns > 0)))
        status = ccl_json_fail(&list, err, "nothing took any time, so there is nothing to draw");
    if (status == CCL_OK) {
        qsort(e.spans, e.n, sizeof(*e.spans), by_place);
        *spans_out = e.n;
        while (e.n > MOST_SPANS && gap_ns < e.time_ns) {
            gap_ns = gap_ns > 0 ? 2 * gap_ns : e.time_ns / 1e6;
            e.n = merged(e.spans, e.n, gap_ns);
        }
        *merged_ns_out = gap_ns;
        write_data(&e, e.n, out);
        if (out->nomem)
            status = ccl_fail_nomem(err);
    }
    ccl_strmap_destroy(e.names);
    free(e.texts);
    free(e.spans);
    return status;
}
