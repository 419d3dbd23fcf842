/* A Chrome trace as data of the page's timelines, few enough spans that a browser stays fluid. */
#include "report/html/page_timeline.h"
#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* About 2 MB of text in a page, and 2 GB while a file is read. */
enum { MOST_SPANS = 80000, MOST_EVENTS = 1500000, MOST_NAMES = 6000 };

/** What a span is, from its category; colours of the page. */
enum { SPAN_BUSY, SPAN_DATA, SPAN_BLOCK, SPAN_SLOT, SPAN_NETWORK, SPAN_OTHER };

typedef struct span {
    uint32_t pid, tid, name;
    uint32_t state;
    double start_ns, end_ns;
} span_t;

typedef struct events {
    span_t *spans;
    size_t n, cap;
    ccl_strmap_t *words; /* names of spans: index into said */
    const char *said[MOST_NAMES];
    uint32_t nsaid;
    ccl_strmap_t *names; /* of rows: index into texts */
    const char **texts;
    size_t ntexts, texts_cap;
    double time_ns;
} events_t;

/** Rows that stand in others. */
typedef struct folding {
    uint32_t *alike; /* of each row that is left */
    ccl_text_t processes;
    size_t folded;
} folding_t;

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

/** Number of a name; beyond the most there is room for, of the last one, which says nothing. */
static ccl_status_t name_of(events_t *e, const char *name, uint32_t *out, ccl_error_t *err) {
    *out = ccl_strmap_get(e->words, name);
    if (*out != CCL_NONE)
        return CCL_OK;
    *out = e->nsaid < MOST_NAMES - 1 ? e->nsaid++ : MOST_NAMES - 1;
    if (*out == MOST_NAMES - 1) {
        e->said[*out] = "";
        e->nsaid = MOST_NAMES;
        return CCL_OK;
    }
    e->said[*out] = name;
    return ccl_strmap_put(e->words, name, *out) ? CCL_OK : ccl_fail_nomem(err);
}

static uint32_t state_of(const char *category) {
    static const char *const states[] = {"", "wait data", "wait block", "wait slot", "network"};
    static const char *const busy[] = {"send", "receive", "forward", "local", "pass"};

    for (uint32_t i = 1; i < CCL_ARRAY_LEN(states); i++)
        if (strcmp(category, states[i]) == 0)
            return i;
    for (size_t i = 0; i < CCL_ARRAY_LEN(busy); i++)
        if (strcmp(category, busy[i]) == 0)
            return SPAN_BUSY;
    return SPAN_OTHER;
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
    if (!name.value || !json_is_string(name.value))
        return CCL_OK; /* an order of rows, and the like */
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
    const char *name, *category;
    span_t span = {0};
    double dur;

    CCL_TRY(ccl_json_string(&at, true, &phase, err));
    at = ccl_json_member(event, "pid");
    CCL_TRY(ccl_json_u32(&at, true, CCL_NONE - 1, &span.pid, err));
    if (strcmp(phase, "M") == 0) {
        const char *what = json_string_value(json_object_get(event->value, "name"));

        return what && strstr(what, "_name") ? add_name(e, event, span.pid, err) : CCL_OK;
    }
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
    category = json_string_value(json_object_get(event->value, "cat"));
    span.state = category ? state_of(category) : SPAN_OTHER;
    CCL_TRY(name_of(e, name, &span.name, err));
    e->time_ns = fmax(e->time_ns, span.end_ns);
    if (!ccl_grow(&e->spans, &e->cap, e->n + 1, sizeof(*e->spans)))
        return ccl_fail_nomem(err);
    e->spans[e->n++] = span;
    return CCL_OK;
}

/** Spans of a row with less than `gap_ns` between them that say the same, or of which one is as
 * short, become one. Returns how many are left. */
static size_t merged(span_t *spans, size_t n, double gap_ns) {
    size_t kept = 0;

    for (size_t i = 0; i < n; i++) {
        span_t *last = kept ? &spans[kept - 1] : NULL, *s = &spans[i];

        if (last && last->pid == s->pid && last->tid == s->tid &&
            s->start_ns - last->end_ns < gap_ns &&
            (last->state == s->state || s->end_ns - s->start_ns < gap_ns ||
             last->end_ns - last->start_ns < gap_ns)) {
            if (s->end_ns - s->start_ns > last->end_ns - last->start_ns) {
                last->state = s->state;
                last->name = s->name;
            }
            last->end_ns = fmax(last->end_ns, s->end_ns);
        } else {
            spans[kept++] = *s;
        }
    }
    return kept;
}

static void row_name(const events_t *e, const span_t *span, char *out, size_t out_len) {
    char key[40];
    uint32_t text;

    row_key(key, sizeof(key), span->pid, span->tid);
    text = ccl_strmap_get(e->names, key);
    if (text != CCL_NONE)
        snprintf(out, out_len, "%.80s", e->texts[text]);
    else
        snprintf(out, out_len, "row %u", span->tid);
}

static void process_name(const events_t *e, uint32_t pid, char *out, size_t out_len) {
    char key[40];
    uint32_t text;

    row_key(key, sizeof(key), pid, CCL_NONE);
    text = ccl_strmap_get(e->names, key);
    if (text != CCL_NONE)
        snprintf(out, out_len, "%.80s", e->texts[text]);
    else
        snprintf(out, out_len, "process %u", pid);
}

/** The spans of a row as text; rows of equal texts look alike. */
static void spans_text(const events_t *e, size_t from, size_t to, bool names, ccl_text_t *out) {
    for (size_t i = from; i < to; i++) {
        const span_t *s = &e->spans[i];

        ccl_text_printf(out, "%s%.0f,%.0f,%u", i > from ? "," : "", s->start_ns,
                        s->end_ns - s->start_ns, s->state);
        if (names)
            ccl_text_printf(out, ",%u", s->name);
    }
}

/** Where the next row begins. */
static size_t next_row(const events_t *e, size_t from) {
    size_t end = from + 1;

    while (end < e->n && e->spans[end].pid == e->spans[from].pid &&
           e->spans[end].tid == e->spans[from].tid)
        end++;
    return end;
}

/** Rows that look alike become one; of each process the row to look at, as text. */
static ccl_status_t fold(events_t *e, folding_t *f, ccl_error_t *err) {
    ccl_strmap_t *seen = ccl_strmap_create();
    uint32_t nrows = 0, pid = CCL_NONE;
    size_t kept = 0;
    bool nomem = !seen;

    f->alike = calloc(e->n + 1, sizeof(*f->alike));
    nomem |= !f->alike;
    for (size_t i = 0, end; !nomem && i < e->n; i = end) {
        uint32_t own = e->spans[i].pid, row;
        ccl_text_t text = {0};
        char name[120];

        end = next_row(e, i);
        spans_text(e, i, end, false, &text);
        nomem = text.nomem;
        row = nomem ? 0 : ccl_strmap_get(seen, text.data);
        if (row != CCL_NONE) {
            f->alike[row]++;
            f->folded++;
        } else {
            row = nrows++;
            nomem = !ccl_strmap_put(seen, text.data, row);
            memmove(e->spans + kept, e->spans + i, (end - i) * sizeof(*e->spans));
            kept += end - i;
        }
        ccl_text_fini(&text);
        if (own == pid)
            continue;
        process_name(e, own, name, sizeof(name));
        ccl_text_printf(&f->processes, "%s[", pid != CCL_NONE ? "," : "");
        ccl_i_script_string(&f->processes, name);
        ccl_text_printf(&f->processes, ",%u]", row);
        pid = own;
    }
    e->n = kept;
    ccl_strmap_destroy(seen);
    return nomem || f->processes.nomem ? ccl_fail_nomem(err) : CCL_OK;
}

static void write_data(events_t *e, const folding_t *f, ccl_text_t *out) {
    char number[40], name[120];
    uint32_t nrows = 0;

    ccl_text_printf(out, "{\"time\":%s,\"names\":[",
                    ccl_i_number(e->time_ns, number, sizeof(number)));
    for (uint32_t i = 0; i < e->nsaid; i++) {
        ccl_text_add(out, i ? "," : "", i ? 1 : 0);
        ccl_i_script_string(out, e->said[i] ? e->said[i] : "");
    }
    ccl_text_printf(out, "],\"rows\":[");
    for (size_t i = 0, end; i < e->n; i = end, nrows++) {
        end = next_row(e, i);
        ccl_text_printf(out, "%s{\"of\":", i ? ",\n" : "\n");
        process_name(e, e->spans[i].pid, name, sizeof(name));
        ccl_i_script_string(out, name);
        ccl_text_printf(out, ",\"name\":");
        row_name(e, &e->spans[i], name, sizeof(name));
        ccl_i_script_string(out, name);
        ccl_text_printf(out, ",\"spans\":[");
        spans_text(e, i, end, true, out);
        ccl_text_printf(out, "]}");
    }
    ccl_text_printf(out, "],\"alike\":[");
    for (uint32_t r = 0; r < nrows; r++)
        ccl_text_printf(out, "%s%u", r ? "," : "", f->alike[r]);
    ccl_text_printf(out, "],\"processes\":[%s]}\n", f->processes.data ? f->processes.data : "");
}

ccl_status_t ccl_i_page_timeline(const ccl_json_doc_t *doc, ccl_text_t *out,
                                 ccl_i_page_traced_t *about, ccl_error_t *err) {
    ccl_json_at_t root = ccl_json_root(doc);
    ccl_json_at_t list = ccl_json_member(&root, "traceEvents");
    events_t e = {.names = ccl_strmap_create(), .words = ccl_strmap_create()};
    folding_t folding = {0};
    size_t n = 0;
    double gap_ns = 0;
    ccl_status_t status = e.names && e.words ? CCL_OK : ccl_fail_nomem(err);

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
        about->spans = e.n;
        status = fold(&e, &folding, err);
        about->folded = folding.folded;
    }
    if (status == CCL_OK) {
        while (e.n > MOST_SPANS && gap_ns < e.time_ns) {
            gap_ns = gap_ns > 0 ? 2 * gap_ns : e.time_ns / 1e6;
            e.n = merged(e.spans, e.n, gap_ns);
        }
        about->merged_ns = gap_ns;
        write_data(&e, &folding, out);
        if (out->nomem)
            status = ccl_fail_nomem(err);
    }
    free(folding.alike);
    ccl_text_fini(&folding.processes);
    ccl_strmap_destroy(e.names);
    ccl_strmap_destroy(e.words);
    free(e.texts);
    free(e.spans);
    return status;
}
