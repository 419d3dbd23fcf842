/* Parts of the HTML page: what `tune` tried, or all that a lab notebook holds. */
#include "report/html/page.h"
#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/** A point with a time. */
typedef struct tried {
    double size_bytes, time_s, bound_s, seed; /* seed: NaN where it is not given */
    const char *settings, *with, *origin;     /* origin: "" where nobody said */
    uint32_t order;                           /* in the document */
} tried_t;

/** Points of one cluster and collective, by one version of ccllab. */
typedef struct part {
    const char *topology, *collective, *profile, *tool;
    const char *cluster_hash, *demand_hash; /* "": a result of tune */
    tried_t *list;                          /* by size and time */
    uint32_t n, refused;
    size_t cap;
} part_t;

typedef struct search {
    ccl_arena_t arena;
    part_t *parts;
    uint32_t n, last;
    size_t cap;
} search_t;

static void search_fini(search_t *s) {
    for (uint32_t i = 0; i < s->n; i++)
        free(s->parts[i].list);
    free(s->parts);
    ccl_arena_fini(&s->arena);
}

/* ---------------------------------------------------------------- reading */

/** Columns of `notebook export` that a section needs. */
enum {
    CLUSTER,
    COLLECTIVE,
    SIZE,
    SETTINGS,
    SEED,
    STATUS,
    TIME,
    BOUND,
    PROFILE,
    TOPOLOGY,
    DEMAND,
    TOOL,
    ORIGIN /* files that older versions wrote lack it */
};
static const char *const wanted[] = {"cluster", "collective", "size_bytes", "settings", "seed",
                                     "status",  "time_s",     "bound_s",    "profile",  "topology",
                                     "demand",  "tool",       "origin"};
enum { WANTED = CCL_ARRAY_LEN(wanted) };

/** @return whether all but ORIGIN are there; its place is behind the last where it is not. */
static bool columns_of(const json_t *root, size_t at[WANTED]) {
    const json_t *columns = json_object_get(root, "columns");

    for (size_t w = 0; w < WANTED; w++) {
        size_t n = json_array_size(columns), c = 0;

        while (c < n && (!json_is_string(json_array_get(columns, c)) ||
                         strcmp(json_string_value(json_array_get(columns, c)), wanted[w]) != 0))
            c++;
        if (c == n && w != ORIGIN)
            return false;
        at[w] = c;
    }
    return true;
}

bool ccl_i_page_is_search(const ccl_json_doc_t *doc) {
    const char *schema = json_string_value(json_object_get(doc->root, "schema"));
    size_t at[WANTED];

    if (!schema)
        return false;
    return strcmp(schema, "ccllab/tune/1") == 0 ||
           (strcmp(schema, "ccllab/notebook/1") == 0 && columns_of(doc->root, at));
}

/** Member "with" of settings, which are JSON in a string. */
static ccl_status_t read_with(const ccl_json_at_t *at, search_t *s, tried_t *out,
                              ccl_error_t *err) {
    json_t *settings;
    const char *with;

    CCL_TRY(ccl_json_string(at, true, &out->settings, err));
    settings = json_loads(out->settings, 0, NULL);
    with = json_string_value(json_object_get(settings, "with"));
    out->with = with ? ccl_arena_strdup(&s->arena, with) : NULL;
    json_decref(settings);
    if (!with)
        return ccl_json_fail(at, err, "settings of a point are wanted, as in {\"with\":\"ring\"}");
    return out->with ? CCL_OK : ccl_fail_nomem(err);
}

static ccl_status_t more_than_0(const ccl_json_at_t *at, double *out, ccl_error_t *err) {
    CCL_TRY(ccl_json_number(at, true, out, err));
    return *out > 0 ? CCL_OK : ccl_json_fail(at, err, "a number above 0 is wanted");
}

static ccl_status_t add_tried(part_t *part, const tried_t *point, ccl_error_t *err) {
    if (!ccl_grow(&part->list, &part->cap, part->n + (size_t)1, sizeof(*part->list)))
        return ccl_fail_nomem(err);
    part->list[part->n] = *point;
    part->list[part->n].order = part->n;
    part->n++;
    return CCL_OK;
}

/** A part like `key`, new or seen; mostly the last one's. */
static ccl_status_t part_like(search_t *s, const part_t *key, part_t **out, ccl_error_t *err) {
    for (uint32_t i = 0; i < s->n; i++) {
        uint32_t k = (s->last + i) % s->n;
        const part_t *p = &s->parts[k];

        if (strcmp(p->cluster_hash, key->cluster_hash) == 0 &&
            strcmp(p->demand_hash, key->demand_hash) == 0 && strcmp(p->tool, key->tool) == 0) {
            s->last = k;
            *out = &s->parts[k];
            return CCL_OK;
        }
    }
    if (!ccl_grow(&s->parts, &s->cap, s->n + (size_t)1, sizeof(*s->parts)))
        return ccl_fail_nomem(err);
    s->parts[s->n] = *key;
    s->last = s->n++;
    *out = &s->parts[s->last];
    return CCL_OK;
}

static ccl_status_t cell_text(const ccl_json_at_t *row, size_t column, const char **out,
                              ccl_error_t *err) {
    ccl_json_at_t cell = ccl_json_element(row, column);

    *out = "";
    return !cell.value || json_is_null(cell.value) ? CCL_OK
                                                   : ccl_json_string(&cell, true, out, err);
}

static ccl_status_t read_row(const ccl_json_at_t *row, const size_t at[WANTED], search_t *s,
                             ccl_error_t *err) {
    part_t key = {0}, *part = NULL;
    tried_t point = {.seed = NAN};
    const char *status;
    ccl_json_at_t cell;

    CCL_TRY(cell_text(row, at[CLUSTER], &key.topology, err));
    CCL_TRY(cell_text(row, at[COLLECTIVE], &key.collective, err));
    CCL_TRY(cell_text(row, at[PROFILE], &key.profile, err));
    CCL_TRY(cell_text(row, at[TOOL], &key.tool, err));
    CCL_TRY(cell_text(row, at[TOPOLOGY], &key.cluster_hash, err));
    CCL_TRY(cell_text(row, at[DEMAND], &key.demand_hash, err));
    CCL_TRY(cell_text(row, at[STATUS], &status, err));
    CCL_TRY(part_like(s, &key, &part, err));
    if (strcmp(status, "CCL_OK") != 0) {
        part->refused++;
        return CCL_OK;
    }
    cell = ccl_json_element(row, at[SIZE]);
    CCL_TRY(more_than_0(&cell, &point.size_bytes, err));
    cell = ccl_json_element(row, at[TIME]);
    CCL_TRY(more_than_0(&cell, &point.time_s, err));
    cell = ccl_json_element(row, at[BOUND]);
    CCL_TRY(more_than_0(&cell, &point.bound_s, err));
    cell = ccl_json_element(row, at[SEED]);
    point.seed = json_is_number(cell.value) ? json_number_value(cell.value) : NAN;
    cell = ccl_json_element(row, at[SETTINGS]);
    CCL_TRY(read_with(&cell, s, &point, err));
    CCL_TRY(cell_text(row, at[ORIGIN], &point.origin, err));
    return add_tried(part, &point, err);
}

static ccl_status_t read_notebook(const ccl_json_doc_t *doc, search_t *s, ccl_error_t *err) {
    ccl_json_at_t root = ccl_json_root(doc);
    ccl_json_at_t rows = ccl_json_member(&root, "rows");
    size_t at[WANTED], n = 0;

    columns_of(doc->root, at);
    CCL_TRY(ccl_json_array(&rows, true, &n, err));
    for (size_t i = 0; i < n; i++) {
        ccl_json_at_t row = ccl_json_element(&rows, i);
        size_t width = 0;

        CCL_TRY(ccl_json_array(&row, true, &width, err));
        if (width != json_array_size(json_object_get(doc->root, "columns")))
            return ccl_json_fail(&row, err, "%zu cells, but the columns are %zu", width,
                                 json_array_size(json_object_get(doc->root, "columns")));
        CCL_TRY(read_row(&row, at, s, err));
    }
    return CCL_OK;
}

static ccl_status_t read_run(const ccl_json_at_t *run, search_t *s, part_t *part,
                             ccl_error_t *err) {
    ccl_json_at_t root = ccl_json_root(run->doc);
    ccl_json_at_t seed = ccl_json_member(&root, "seed"), member;
    tried_t point = {0};
    const char *status;
    bool estimate = false;

    CCL_TRY(ccl_i_read_string(run, "status", &status, err));
    member = ccl_json_member(run, "estimate");
    CCL_TRY(ccl_json_bool(&member, false, &estimate, err));
    if (estimate)
        return CCL_OK;
    if (strcmp(status, "CCL_OK") != 0) {
        part->refused++;
        return CCL_OK;
    }
    member = ccl_json_member(run, "size_bytes");
    CCL_TRY(more_than_0(&member, &point.size_bytes, err));
    member = ccl_json_member(run, "time_s");
    CCL_TRY(more_than_0(&member, &point.time_s, err));
    member = ccl_json_member(run, "bound_s");
    CCL_TRY(more_than_0(&member, &point.bound_s, err));
    point.seed = json_is_number(seed.value) ? json_number_value(seed.value) : NAN;
    member = ccl_json_member(run, "settings");
    CCL_TRY(read_with(&member, s, &point, err));
    point.origin = json_string_value(json_object_get(run->value, "origin"));
    point.origin = point.origin ? point.origin : "";
    return add_tried(part, &point, err);
}

static ccl_status_t read_tuning(const ccl_json_doc_t *doc, search_t *s, ccl_error_t *err) {
    ccl_json_at_t root = ccl_json_root(doc);
    ccl_json_at_t runs = ccl_json_member(&root, "runs");
    part_t key = {.profile = "", .cluster_hash = "", .demand_hash = ""}, *part = NULL;
    size_t n = 0;

    CCL_TRY(ccl_i_read_string(&root, "topology", &key.topology, err));
    CCL_TRY(ccl_i_read_string(&root, "collective", &key.collective, err));
    CCL_TRY(ccl_i_read_string(&root, "version", &key.tool, err));
    CCL_TRY(ccl_json_array(&runs, true, &n, err));
    CCL_TRY(part_like(s, &key, &part, err));
    for (size_t i = 0; i < n; i++) {
        ccl_json_at_t run = ccl_json_element(&runs, i);

        CCL_TRY(read_run(&run, s, part, err));
    }
    return CCL_OK;
}

static int by_size(const void *a, const void *b) {
    const tried_t *x = a, *y = b;

    if (x->size_bytes != y->size_bytes)
        return x->size_bytes < y->size_bytes ? -1 : 1;
    if (x->time_s != y->time_s)
        return x->time_s < y->time_s ? -1 : 1;
    return x->order < y->order ? -1 : 1;
}

/** Where the points of the next size begin. */
static uint32_t next_size(const part_t *part, uint32_t from) {
    uint32_t to = from;

    while (to < part->n && part->list[to].size_bytes == part->list[from].size_bytes)
        to++;
    return to;
}

/** Sorted; a size has one bound, the least of its points' (protocols start at different times). */
static void settle(part_t *part) {
    if (part->n > 0)
        qsort(part->list, part->n, sizeof(*part->list), by_size);
    for (uint32_t from = 0, to; from < part->n; from = to) {
        double least_s = INFINITY;

        to = next_size(part, from);
        for (uint32_t i = from; i < to; i++)
            least_s = fmin(least_s, part->list[i].bound_s);
        for (uint32_t i = from; i < to; i++)
            part->list[i].bound_s = least_s;
    }
}

/** @param out  search_fini() it, also after an error. */
static ccl_status_t read_search(const ccl_json_doc_t *doc, search_t *out, ccl_error_t *err) {
    const char *schema = json_string_value(json_object_get(doc->root, "schema"));

    memset(out, 0, sizeof(*out));
    ccl_arena_init(&out->arena);
    CCL_TRY(strcmp(schema, "ccllab/tune/1") == 0 ? read_tuning(doc, out, err)
                                                 : read_notebook(doc, out, err));
    for (uint32_t i = 0; i < out->n; i++)
        settle(&out->parts[i]);
    return CCL_OK;
}

/* ---------------------------------------------------------------- the section */

static void best_table(const part_t *part, ccl_text_t *out) {
    char size[32];

    ccl_i_page_scroll(out, "the best of each size");
    ccl_text_printf(out, "<table class=\"searched\"><caption>The best of each size</caption><tr>"
                         "<th scope=\"col\">size</th><th scope=\"col\">best</th>"
                         "<th scope=\"col\">time (us)</th><th scope=\"col\">bound (us)</th>"
                         "<th scope=\"col\">time / bound</th><th scope=\"col\">points</th>"
                         "<th scope=\"col\" class=\"words\">settings, origin</th></tr>\n");
    for (uint32_t from = 0, to; from < part->n; from = to) {
        const tried_t *best = &part->list[from];

        to = next_size(part, from);
        ccl_text_printf(out, "<tr><td class=\"n\">%s</td><td>",
                        ccl_format_bytes(best->size_bytes, size, sizeof(size)));
        ccl_text_add_xml(out, best->with);
        ccl_text_printf(out,
                        "</td><td class=\"n win\">%.4g</td><td class=\"n\">%.4g</td>"
                        "<td class=\"n\">%.4g</td><td class=\"n\">%u</td><td><code>",
                        best->time_s * 1e6, best->bound_s * 1e6, best->time_s / best->bound_s,
                        to - from);
        ccl_i_page_settings(out, best->settings);
        ccl_text_printf(out, "</code><br><span class=\"dim\">");
        ccl_text_add_xml(out, best->origin);
        ccl_text_printf(out, "</span></td></tr>\n");
    }
    ccl_text_printf(out, "</table></div>\n");
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/** Names of synthesizers, each once, in order. */
static uint32_t names_of(const part_t *part, const char **names) {
    uint32_t n = 0;

    for (uint32_t i = 0; i < part->n; i++)
        names[i] = part->list[i].with;
    qsort(names, part->n, sizeof(*names), by_text);
    for (uint32_t i = 0; i < part->n; i++)
        if (n == 0 || strcmp(names[i], names[n - 1]) != 0)
            names[n++] = names[i];
    return n;
}

static int by_kind(const void *a, const void *b) {
    const ccl_draw_point_t *x = a, *y = b;

    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    if (x->size_bytes != y->size_bytes)
        return x->size_bytes < y->size_bytes ? -1 : 1;
    if (x->value != y->value)
        return x->value < y->value ? -1 : 1;
    return strcmp(x->about, y->about);
}

static ccl_status_t draw_part(const part_t *part, ccl_arena_t *arena, ccl_picture_t **out,
                              ccl_error_t *err) {
    ccl_draw_point_t *points = ccl_arena_alloc(arena, part->n, sizeof(*points));
    const char **names = ccl_arena_alloc(arena, part->n, sizeof(*names));
    ccl_draw_points_t plot = {.y_name = "time over the bound", .n = part->n};
    char title[300];

    if (!points || !names)
        return ccl_fail_nomem(err);
    plot.nkinds = names_of(part, names);
    for (uint32_t i = 0; i < part->n; i++) {
        const tried_t *t = &part->list[i];
        const char **name = bsearch(&t->with, names, plot.nkinds, sizeof(*names), by_text);

        ccl_text_t settings = {0};
        const char *about;

        ccl_i_page_settings(&settings, t->settings);
        about = settings.data ? ccl_arena_strdup(arena, settings.data) : NULL;
        ccl_text_fini(&settings);
        if (!about)
            return ccl_fail_nomem(err);
        points[i] = (ccl_draw_point_t){t->size_bytes, t->time_s / t->bound_s,
                                       (uint32_t)(name - names), about};
    }
    qsort(points, part->n, sizeof(*points), by_kind);
    snprintf(title, sizeof(title), "%.100s on %.120s: %u points", part->collective, part->topology,
             part->n);
    plot.title = title;
    plot.names = names;
    plot.points = points;
    return ccl_draw_points(&plot, out, err);
}

/** What each value of a knob costs, of a result of tune. */
static ccl_status_t knob_table(const ccl_json_doc_t *doc, ccl_text_t *out, ccl_error_t *err) {
    ccl_json_at_t root = ccl_json_root(doc);
    ccl_json_at_t knobs = ccl_json_member(&root, "knobs");
    size_t n = 0;

    CCL_TRY(ccl_json_array(&knobs, false, &n, err));
    if (n == 0)
        return CCL_OK;
    ccl_i_page_scroll(out, "what each value of a knob costs");
    ccl_text_printf(out, "<table class=\"knobs\"><caption>What each value of a knob costs</caption>"
                         "<tr><th scope=\"col\">knob</th><th scope=\"col\">value</th>"
                         "<th scope=\"col\">runs</th><th scope=\"col\">best at sizes</th>"
                         "<th scope=\"col\">slowdown</th></tr>\n");
    for (size_t i = 0; i < n; i++) {
        ccl_json_at_t at = ccl_json_element(&knobs, i);
        const char *knob, *value;
        double runs, best, slowdown;

        CCL_TRY(ccl_i_read_string(&at, "knob", &knob, err));
        CCL_TRY(ccl_i_read_string(&at, "value", &value, err));
        CCL_TRY(ccl_i_read_number(&at, "runs", &runs, err));
        CCL_TRY(ccl_i_read_number(&at, "best_sizes", &best, err));
        CCL_TRY(ccl_i_read_maybe(&at, "slowdown", &slowdown, err));
        ccl_text_printf(out, "<tr><td>");
        ccl_text_add_xml(out, knob);
        ccl_text_printf(out, "</td><td>");
        ccl_text_add_xml(out, value);
        ccl_text_printf(out, "</td><td class=\"n\">%.0f</td><td class=\"n\">%.0f</td>", runs, best);
        if (isfinite(slowdown))
            ccl_text_printf(out, "<td class=\"n\">%.3f</td></tr>\n", slowdown);
        else
            ccl_text_printf(out, "<td class=\"n\">-</td></tr>\n");
    }
    ccl_text_printf(out, "</table></div>\n<p class=\"dim\">slowdown: the best time with this value "
                         "over the best time of the size (geometric mean of sizes).</p>\n");
    return CCL_OK;
}

static ccl_status_t section(ccl_i_page_t *page, const ccl_json_doc_t *doc, search_t *s,
                            const part_t *part, ccl_error_t *err) {
    ccl_text_t *out = &page->body;
    ccl_picture_t *picture = NULL;
    char name[121];

    ccl_file_title(doc->name, name, sizeof(name));
    ccl_i_page_begin(page, "%s on %s: what was tried", part->collective, part->topology);
    ccl_text_printf(out, "<p class=\"dim\">%u points with a time, %u without; ccllab ", part->n,
                    part->refused);
    ccl_text_add_xml(out, part->tool);
    if (part->profile[0]) {
        ccl_text_printf(out, "; profile ");
        ccl_text_add_xml(out, part->profile);
    }
    if (part->cluster_hash[0]) {
        ccl_text_printf(out, "; cluster ");
        ccl_text_add_xml(out, part->cluster_hash);
    }
    ccl_text_printf(out, "; from ");
    ccl_text_add_xml(out, name);
    ccl_text_printf(out, ".</p>\n");
    if (part->n == 0)
        return CCL_OK;
    best_table(part, out);
    CCL_TRY(draw_part(part, &s->arena, &picture, err));
    return ccl_i_page_picture(picture, out, err);
}

/** The best point of 64M, or of the largest size, beside NCCL's choice where the result has it. */
static void answer(ccl_i_page_t *page, const ccl_json_doc_t *doc, const part_t *part) {
    const json_t *sizes = json_object_get(doc->root, "sizes");
    const tried_t *best = NULL;
    ccl_text_t settings = {0};
    char size[32], beside[120] = "", plain[400];

    for (uint32_t from = 0; from < part->n; from = next_size(part, from))
        if (!best || best->size_bytes != 0x1p26)
            best = &part->list[from];
    if (!best)
        return;
    for (size_t i = 0; i < json_array_size(sizes); i++) {
        const json_t *at = json_array_get(sizes, i);
        double speedup = ccl_i_page_number(at, "speedup_over_nccl");

        if (isfinite(speedup) &&
            ccl_i_page_number(json_object_get(at, "best"), "size_bytes") == best->size_bytes)
            snprintf(beside, sizeof(beside), "%.2f times as fast as NCCL's choice (nccl), ",
                     speedup);
    }
    ccl_i_page_settings(&settings, best->settings);
    snprintf(plain, sizeof(plain), "%s", settings.data ? settings.data : "");
    ccl_text_fini(&settings);
    ccl_i_page_answer(page, "%s on %s: at %s use %s: %s%.0f %% above the bound.", part->collective,
                      part->topology, ccl_format_bytes(best->size_bytes, size, sizeof(size)), plain,
                      beside, 100 * (best->time_s / best->bound_s - 1));
}

ccl_status_t ccl_i_page_search(ccl_i_page_t *page, const ccl_json_doc_t *doc, ccl_error_t *err) {
    search_t s;
    ccl_status_t status = read_search(doc, &s, err);

    for (uint32_t i = 0; status == CCL_OK && i < s.n; i++) {
        answer(page, doc, &s.parts[i]);
        status = section(page, doc, &s, &s.parts[i], err);
        if (status == CCL_OK && i + 1 == s.n)
            status = knob_table(doc, &page->body, err);
        ccl_i_page_end(page);
    }
    search_fini(&s);
    return status;
}

/* ---------------------------------------------------------------- to repeat it */

/** A knob of a point as `tune -k` has it. */
static void pin(ccl_text_t *out, const char *name, const json_t *value) {
    ccl_text_t text = {0};

    ccl_text_printf(&text, "%s=", name);
    if (json_is_string(value))
        ccl_text_printf(&text, "%s", json_string_value(value));
    else if (json_is_integer(value))
        ccl_text_printf(&text, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        ccl_text_printf(&text, "%.17g", json_real_value(value));
    else
        ccl_text_printf(&text, "auto");
    if (!text.nomem)
        ccl_i_page_option(out, "knob", text.data);
    out->nomem |= text.nomem;
    ccl_text_fini(&text);
}

/** A grid of this one point: knobs that it leaves to themselves are auto. */
static ccl_status_t repeat(const part_t *part, const tried_t *best, const ccl_space_t *space,
                           ccl_text_t *out, ccl_error_t *err) {
    ccl_collective_kind_t kind;
    bool known = ccl_collective_kind_parse(part->collective, &kind, NULL) == CCL_OK;
    json_t *settings = json_loads(best->settings, 0, NULL);
    const char *name;
    json_t *value;

    if (!settings)
        return ccl_fail_nomem(err);
    ccl_text_printf(out, "ccllab tune");
    ccl_i_page_option(out, "topology", part->topology);
    ccl_i_page_option(out, known ? "collective" : "demand", part->collective);
    ccl_i_page_option(out, "profile", part->profile);
    ccl_text_printf(out, " --sizes %.17g", best->size_bytes);
    if (best->seed >= 0 && best->seed < 0x1p53)
        ccl_text_printf(out, " --seed %.0f", best->seed);
    json_object_foreach(settings, name, value) pin(out, name, value);
    for (uint32_t k = 0; k < CCL_KNOBS; k++)
        if (space->nvalues[k] > 0 && !json_object_get(settings, ccl_knob_name((ccl_knob_t)k)))
            pin(out, ccl_knob_name((ccl_knob_t)k), NULL);
    ccl_text_printf(out, " --strategy grid --notebook none\n");
    json_decref(settings);
    return CCL_OK;
}

ccl_status_t ccl_i_page_search_repeat(const ccl_json_doc_t *doc, ccl_text_t *out,
                                      ccl_error_t *err) {
    search_t s;
    ccl_space_t *space = NULL;
    ccl_status_t status = read_search(doc, &s, err);

    if (status == CCL_OK)
        status = ccl_space_create(&space, err);
    for (uint32_t i = 0; status == CCL_OK && i < s.n; i++)
        for (uint32_t from = 0; status == CCL_OK && from < s.parts[i].n;
             from = next_size(&s.parts[i], from))
            status = repeat(&s.parts[i], &s.parts[i].list[from], space, out, err);
    ccl_space_destroy(space);
    search_fini(&s);
    return status;
}
