/* Pictures of results that are read back from their JSON. */
#include "report/pictures.h"
#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

ccl_status_t ccl_i_result_schema(const ccl_json_doc_t *doc, const char **out, ccl_error_t *err) {
    ccl_json_at_t root = ccl_json_root(doc);
    ccl_json_at_t schema;

    CCL_TRY(ccl_json_object(&root, true, err));
    schema = ccl_json_member(&root, "schema");
    return ccl_json_string(&schema, true, out, err);
}

ccl_status_t ccl_i_want_schema(const ccl_json_doc_t *doc, const char *want, const char *command,
                               ccl_error_t *err) {
    ccl_json_at_t root = ccl_json_root(doc);
    ccl_json_at_t at;
    const char *have = NULL;

    CCL_TRY(ccl_i_result_schema(doc, &have, err));
    if (strcmp(have, want) == 0)
        return CCL_OK;
    at = ccl_json_member(&root, "schema");
    return ccl_json_fail(&at, err, "\"%s\", but what ccllab %s --json writes (\"%s\") is wanted",
                         have, command, want);
}

ccl_status_t ccl_i_read_number(const ccl_json_at_t *at, const char *key, double *out,
                               ccl_error_t *err) {
    ccl_json_at_t member = ccl_json_member(at, key);

    return ccl_json_number(&member, true, out, err);
}

ccl_status_t ccl_i_read_maybe(const ccl_json_at_t *at, const char *key, double *out,
                              ccl_error_t *err) {
    ccl_json_at_t member = ccl_json_member(at, key);

    *out = NAN;
    if (!member.value || json_is_null(member.value))
        return CCL_OK;
    return ccl_json_number(&member, true, out, err);
}

ccl_status_t ccl_i_read_string(const ccl_json_at_t *at, const char *key, const char **out,
                               ccl_error_t *err) {
    ccl_json_at_t member = ccl_json_member(at, key);

    return ccl_json_string(&member, true, out, err);
}

static char *title_of(ccl_arena_t *arena, const char *fmt, const char *a, const char *b,
                      const char *c) {
    ccl_text_t text = {0};
    char *title;

    ccl_text_printf(&text, fmt, a, b, c);
    title = text.nomem ? NULL : ccl_arena_strdup(arena, text.data);
    ccl_text_fini(&text);
    return title;
}

/* ---------------------------------------------------------------- compare */

/** A plot while it is read. */
typedef struct comparison_plot {
    ccl_draw_busbw_t *out;
    ccl_draw_curve_t *curves;
    double **values; /* [curve][size] */
    double *sizes_bytes, *bound_GBps;
    size_t nsizes;
    double factor;
} comparison_plot_t;

/** A curve for each contender that took part, without values yet. */
static ccl_status_t read_contenders(const ccl_json_at_t *contenders, size_t n, ccl_arena_t *arena,
                                    comparison_plot_t *p, ccl_error_t *err) {
    for (size_t c = 0; c < n; c++) {
        ccl_json_at_t contender = ccl_json_element(contenders, c);
        ccl_json_at_t part = ccl_json_member(&contender, "takes_part");
        uint32_t at = p->out->ncurves;
        bool takes_part = true;

        CCL_TRY(ccl_json_bool(&part, false, &takes_part, err));
        if (!takes_part)
            continue;
        CCL_TRY(ccl_i_read_string(&contender, "name", &p->curves[at].name, err));
        p->values[at] = ccl_arena_alloc(arena, p->nsizes + 1, sizeof(**p->values));
        if (!p->values[at])
            return ccl_fail_nomem(err);
        for (size_t i = 0; i < p->nsizes; i++)
            p->values[at][i] = NAN;
        p->curves[at].values = p->values[at];
        p->out->ncurves++;
    }
    return CCL_OK;
}

/** Size i: its bound, and the busbw of those that have a curve. */
static ccl_status_t read_size(const ccl_json_at_t *size, size_t i, comparison_plot_t *p,
                              ccl_error_t *err) {
    ccl_json_at_t results = ccl_json_member(size, "results");
    size_t nresults = 0;
    double bound_s;

    CCL_TRY(ccl_i_read_number(size, "size_bytes", &p->sizes_bytes[i], err));
    if (!(p->sizes_bytes[i] > 0)) {
        ccl_json_at_t bytes = ccl_json_member(size, "size_bytes");

        return ccl_json_fail(&bytes, err, "a size must be more than 0");
    }
    CCL_TRY(ccl_i_read_maybe(size, "bound_s", &bound_s, err));
    p->bound_GBps[i] = bound_s > 0 ? p->sizes_bytes[i] / bound_s * p->factor / 1e9 : NAN;
    if (bound_s > 0)
        p->out->bound_GBps = p->bound_GBps;
    CCL_TRY(ccl_json_array(&results, true, &nresults, err));
    for (size_t r = 0; r < nresults; r++) {
        ccl_json_at_t result = ccl_json_element(&results, r);
        const char *name;

        CCL_TRY(ccl_i_read_string(&result, "name", &name, err));
        for (uint32_t c = 0; c < p->out->ncurves; c++)
            if (strcmp(p->curves[c].name, name) == 0)
                CCL_TRY(ccl_i_read_maybe(&result, "busbw_GBps", &p->values[c][i], err));
    }
    return CCL_OK;
}

/** One comparison; contenders that took no part are left out. */
static ccl_status_t read_comparison(const ccl_json_at_t *at, const char *topology,
                                    ccl_arena_t *arena, ccl_draw_busbw_t *out, ccl_error_t *err) {
    ccl_json_at_t contenders = ccl_json_member(at, "contenders");
    ccl_json_at_t sizes = ccl_json_member(at, "sizes");
    comparison_plot_t p = {.out = out};
    const char *collective;
    size_t ncontenders = 0;

    CCL_TRY(ccl_i_read_string(at, "collective", &collective, err));
    CCL_TRY(ccl_i_read_number(at, "busbw_factor", &p.factor, err));
    CCL_TRY(ccl_json_array(&contenders, true, &ncontenders, err));
    CCL_TRY(ccl_json_array(&sizes, true, &p.nsizes, err));
    p.sizes_bytes = ccl_arena_alloc(arena, p.nsizes + 1, sizeof(*p.sizes_bytes));
    p.bound_GBps = ccl_arena_alloc(arena, p.nsizes + 1, sizeof(*p.bound_GBps));
    p.curves = ccl_arena_alloc(arena, ncontenders + 1, sizeof(*p.curves));
    p.values = ccl_arena_alloc(arena, ncontenders + 1, sizeof(*p.values));
    out->title = title_of(arena, "%s on %s%s", collective, topology, "");
    if (!p.sizes_bytes || !p.bound_GBps || !p.curves || !p.values || !out->title)
        return ccl_fail_nomem(err);
    CCL_TRY(read_contenders(&contenders, ncontenders, arena, &p, err));
    for (size_t i = 0; i < p.nsizes; i++) {
        ccl_json_at_t size = ccl_json_element(&sizes, i);

        CCL_TRY(read_size(&size, i, &p, err));
    }
    out->nsizes = (uint32_t)p.nsizes;
    out->sizes_bytes = p.sizes_bytes;
    out->curves = p.curves;
    out->factor = p.factor;
    return CCL_OK;
}

ccl_status_t ccl_i_read_comparisons(const ccl_json_doc_t *doc, ccl_arena_t *arena,
                                    ccl_draw_busbw_t **out, uint32_t *n_out, ccl_error_t *err) {
    ccl_json_at_t root = ccl_json_root(doc);
    ccl_json_at_t list = ccl_json_member(&root, "comparisons");
    ccl_draw_busbw_t *plots;
    const char *topology;
    size_t n = 0;

    CCL_TRY(ccl_i_want_schema(doc, "ccllab/compare/1", "compare", err));
    CCL_TRY(ccl_i_read_string(&root, "topology", &topology, err));
    CCL_TRY(ccl_json_array(&list, true, &n, err));
    plots = ccl_arena_alloc(arena, n + 1, sizeof(*plots));
    if (!plots)
        return ccl_fail_nomem(err);
    for (size_t i = 0; i < n; i++) {
        ccl_json_at_t comparison = ccl_json_element(&list, i);

        CCL_TRY(read_comparison(&comparison, topology, arena, &plots[i], err));
        if (plots[i].nsizes == 0)
            return ccl_json_fail(&comparison, err, "no sizes, so there is nothing to draw");
    }
    *out = plots;
    *n_out = (uint32_t)n;
    return CCL_OK;
}

ccl_status_t ccl_report_draw_busbw(const ccl_json_doc_t *docs, uint32_t ndocs, ccl_picture_t **out,
                                   ccl_error_t *err) {
    ccl_arena_t arena;
    ccl_draw_busbw_t *plots = NULL, *some = NULL;
    size_t cap = 0;
    uint32_t n = 0, more = 0;
    ccl_status_t status = CCL_OK;

    ccl_arena_init(&arena);
    for (uint32_t d = 0; status == CCL_OK && d < ndocs; d++) {
        status = ccl_i_read_comparisons(&docs[d], &arena, &some, &more, err);
        if (status == CCL_OK && !ccl_grow(&plots, &cap, n + (size_t)more + 1, sizeof(*plots)))
            status = ccl_fail_nomem(err);
        for (uint32_t i = 0; status == CCL_OK && i < more; i++)
            plots[n++] = some[i];
    }
    if (status == CCL_OK)
        status = ccl_draw_busbw(plots, n, out, err);
    free(plots);
    ccl_arena_fini(&arena);
    return status;
}

/* ---------------------------------------------------------------- simulate */

static ccl_status_t read_blocks(const ccl_json_doc_t *doc, ccl_arena_t *arena,
                                ccl_draw_blocks_t *out, ccl_error_t *err) {
    ccl_json_at_t root = ccl_json_root(doc);
    ccl_json_at_t list = ccl_json_member(&root, "thread_blocks");
    ccl_draw_block_t *blocks;
    const char *input;
    const char *topology;
    double size_bytes;
    char size[32];
    char name[121];
    size_t n = 0;

    const char *schema = NULL;

    CCL_TRY(ccl_i_result_schema(doc, &schema, err));
    if (strcmp(schema, "ccllab/explain/1") != 0) /* which has the same members */
        CCL_TRY(ccl_i_want_schema(doc, "ccllab/simulate/1", "simulate", err));
    CCL_TRY(ccl_i_read_string(&root, "input", &input, err));
    CCL_TRY(ccl_i_read_string(&root, "topology", &topology, err));
    if (!list.value)
        return ccl_json_fail(&root, err, "a run without thread blocks (a flow list's)");
    CCL_TRY(ccl_json_array(&list, true, &n, err));
    CCL_TRY(ccl_i_read_number(&root, "time_s", &out->time_s, err));
    CCL_TRY(ccl_i_read_number(&root, "size_bytes", &size_bytes, err));
    ccl_file_title(input, name, sizeof(name));
    blocks = ccl_arena_alloc(arena, n + 1, sizeof(*blocks));
    out->title = title_of(arena, "%s on %s, %s", name, topology,
                          ccl_format_bytes(size_bytes, size, sizeof(size)));
    if (!blocks || !out->title)
        return ccl_fail_nomem(err);
    for (size_t i = 0; i < n; i++) {
        ccl_json_at_t at = ccl_json_element(&list, i);
        ccl_json_at_t rank = ccl_json_member(&at, "rank");
        ccl_json_at_t id = ccl_json_member(&at, "id");

        CCL_TRY(ccl_json_u32(&rank, true, CCL_NONE - 1, &blocks[i].rank, err));
        CCL_TRY(ccl_json_u32(&id, true, CCL_NONE - 1, &blocks[i].id, err));
        CCL_TRY(ccl_i_read_number(&at, "start_s", &blocks[i].start_s, err));
        CCL_TRY(ccl_i_read_number(&at, "done_s", &blocks[i].done_s, err));
        CCL_TRY(ccl_i_read_number(&at, "busy_s", &blocks[i].busy_s, err));
        CCL_TRY(ccl_i_read_number(&at, "wait_data_s", &blocks[i].data_s, err));
        CCL_TRY(ccl_i_read_number(&at, "wait_peer_s", &blocks[i].peer_s, err));
        CCL_TRY(ccl_i_read_number(&at, "wait_slot_s", &blocks[i].slot_s, err));
    }
    out->nblocks = (uint32_t)n;
    out->blocks = blocks;
    return CCL_OK;
}

ccl_status_t ccl_report_draw_idle(const ccl_json_doc_t *docs, uint32_t ndocs, uint32_t rank,
                                  ccl_picture_t **out, ccl_error_t *err) {
    ccl_arena_t arena;
    ccl_draw_blocks_t *runs;
    ccl_status_t status;

    ccl_arena_init(&arena);
    runs = ccl_arena_alloc(&arena, ndocs + (size_t)1, sizeof(*runs));
    status = runs ? CCL_OK : ccl_fail_nomem(err);
    for (uint32_t d = 0; status == CCL_OK && d < ndocs; d++)
        status = read_blocks(&docs[d], &arena, &runs[d], err);
    if (status == CCL_OK)
        status = ccl_draw_idle(runs, ndocs, rank, out, err);
    ccl_arena_fini(&arena);
    return status;
}

/* ---------------------------------------------------------------- the trace of cegis */

typedef struct side {
    const char *name;
    ccl_draw_moment_t *moments;
    size_t cap;
    uint32_t n;
} side_t;

static ccl_status_t add_line(const ccl_json_doc_t *doc, side_t sides[2], ccl_error_t *err) {
    ccl_json_at_t root = ccl_json_root(doc);
    ccl_json_at_t at = ccl_json_member(&root, "steps");
    ccl_draw_moment_t m = {0};
    const char *event;
    const char *name;
    uint32_t steps = 0;
    side_t *side;

    CCL_TRY(ccl_json_object(&root, true, err));
    CCL_TRY(ccl_i_read_string(&root, "event", &event, err));
    CCL_TRY(ccl_i_read_string(&root, "side", &name, err));
    CCL_TRY(ccl_json_u32(&at, true, CCL_NONE - 2, &steps, err));
    side = strcmp(name, sides[0].name) == 0 ? &sides[0] : &sides[1];
    if (strcmp(name, side->name) != 0) {
        at = ccl_json_member(&root, "side");
        return ccl_json_fail(&at, err, "\"%s\" is neither gather nor reduce", name);
    }
    if (side->n)
        m = side->moments[side->n - 1];
    m.candidate = false;
    m.begins = strcmp(event, "start") == 0;
    m.counterexamples = 0;
    if (strcmp(event, "start") == 0 || strcmp(event, "result") == 0) {
        at = ccl_json_member(&root, "bound");
        CCL_TRY(ccl_json_u32(&at, true, CCL_NONE - 1, &m.bound, err));
        m.best = steps;
    } else if (strcmp(event, "snapshot") == 0) {
        double solver_s = 0;

        CCL_TRY(ccl_i_read_number(&root, "solver_s", &solver_s, err));
        at = ccl_json_member(&root, "counterexamples");
        CCL_TRY(ccl_json_u32(&at, true, CCL_NONE - 1, &m.counterexamples, err));
        m.at_s += solver_s > 0 ? solver_s : 0;
        m.candidate = true;
    } else if (strcmp(event, "search") == 0) {
        const char *answer;

        CCL_TRY(ccl_i_read_string(&root, "answer", &answer, err));
        if (strcmp(answer, "found") == 0 && steps < m.best)
            m.best = steps;
        if (strcmp(answer, "none") == 0 && steps + 1 > m.bound)
            m.bound = steps + 1;
    } else {
        at = ccl_json_member(&root, "event");
        return ccl_json_fail(&at, err, "\"%s\" is none of start, snapshot, search, result", event);
    }
    if (!ccl_grow(&side->moments, &side->cap, side->n + (size_t)1, sizeof(*side->moments)))
        return ccl_fail_nomem(err);
    side->moments[side->n++] = m;
    return CCL_OK;
}

ccl_status_t ccl_report_draw_progress(const char *name, const char *text, size_t len,
                                      ccl_picture_t **out, ccl_error_t *err) {
    side_t sides[2] = {{.name = "gather"}, {.name = "reduce"}};
    ccl_draw_search_t searches[2];
    char titles[2][300];
    uint32_t n = 0;
    int line = 1;
    ccl_status_t status = CCL_OK;

    for (size_t at = 0; status == CCL_OK && at < len; line++) {
        const char *end = memchr(text + at, '\n', len - at);
        size_t n_chars = end ? (size_t)(end - text) - at : len - at;
        ccl_json_doc_t doc = {0};
        ccl_error_t inner = CCL_ERROR_INIT;

        if (n_chars > 0) {
            status = ccl_json_parse(name, text + at, n_chars, &doc, &inner);
            if (status == CCL_OK)
                status = add_line(&doc, sides, &inner);
            ccl_json_fini(&doc);
            if (status != CCL_OK)
                ccl_error_set(err, status, name, line, inner.column, "%s", inner.text);
        }
        at += n_chars + 1;
    }
    for (int i = 0; i < 2; i++) {
        if (!sides[i].n)
            continue;
        snprintf(titles[n], sizeof(titles[n]), "%.200s: search of cegis, %s side", name,
                 sides[i].name);
        searches[n] = (ccl_draw_search_t){titles[n], sides[i].n, sides[i].moments};
        n++;
    }
    if (status == CCL_OK && n == 0)
        status = ccl_error_set(
            err, CCL_ERR_INPUT, name, 1, 1,
            "nothing in it; what ccllab synth --with cegis --search-trace FILE writes "
            "is wanted");
    if (status == CCL_OK)
        status = ccl_draw_progress(searches, n, out, err);
    free(sides[0].moments);
    free(sides[1].moments);
    return status;
}
