/* ccllab notebook */
#include "cli/command.h"
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

/* Of the view `run`, what two points may differ in, in this order; settings one by one. */
static const char *const compared[] = {
    "cluster",    "topology", "profile",       "collective", "demand",  "size_bytes",
    "settings",   "seed",     "tool",          "status",     "why",     "time_s",
    "busbw_GBps", "bound_s",  "thread_blocks", "batches",    "synth_s", "eval_s"};

bool ccl_i_notebook_none(const ccl_i_args_t *args) {
    return args->notebook && strcmp(args->notebook, "none") == 0;
}

ccl_status_t ccl_i_notebook_open(const ccl_i_cli_t *cli, bool write, ccl_notebook_t **out,
                                 ccl_error_t *err) {
    char path[1024];

    if (cli->args.notebook)
        return ccl_notebook_open(cli->args.notebook, write, out, err);
    CCL_TRY(ccl_notebook_default_path(path, sizeof(path), err));
    return ccl_notebook_open(path, write, out, err);
}

/** Whole numbers, and there are points of these numbers. */
static ccl_status_t check_ids(ccl_i_cli_t *cli, ccl_notebook_t *notebook, ccl_error_t *err) {
    for (size_t i = 0; i < cli->args.inputs.n; i++) {
        const char *id = cli->args.inputs.items[i];
        ccl_notebook_rows_t *rows = NULL;
        bool there;

        if (!*id || id[strspn(id, "0123456789")] || strlen(id) > 18)
            return ccl_fail(
                err, CCL_ERR_USAGE,
                "the number of a point is wanted, not \"%.60s\" (ccllab notebook export "
                "has them)",
                id);
        CCL_TRY(ccl_notebook_query(&cli->ctx, notebook, "SELECT 1 FROM point WHERE id = ?1", &id, 1,
                                   &rows, err));
        there = rows->nrows > 0;
        ccl_notebook_rows_destroy(rows);
        if (!there)
            return ccl_fail(err, CCL_ERR_INPUT, "the lab notebook has no point %s", id);
    }
    return CCL_OK;
}

/** @param ids  the inputs are numbers of points, and the parameters of the query. */
static ccl_status_t ask(ccl_i_cli_t *cli, const char *sql, bool ids, bool upright,
                        ccl_error_t *err) {
    ccl_notebook_t *notebook = NULL;
    ccl_notebook_rows_t *rows = NULL;
    ccl_text_t text = {.columns = cli->style.columns};
    ccl_status_t status;

    CCL_TRY(ccl_i_notebook_open(cli, false, &notebook, err));
    status = ids ? check_ids(cli, notebook, err) : CCL_OK;
    if (status == CCL_OK)
        status = ccl_notebook_query(&cli->ctx, notebook, sql, ids ? cli->args.inputs.items : NULL,
                                    ids ? (uint32_t)cli->args.inputs.n : 0, &rows, err);
    if (status == CCL_OK)
        status = ccl_report_notebook(rows, upright, &cli->style, &text, err);
    if (status == CCL_OK)
        status = ccl_i_emit(cli, &text, err);
    ccl_text_fini(&text);
    ccl_notebook_rows_destroy(rows);
    ccl_notebook_close(notebook);
    return status;
}

static ccl_status_t run_list(ccl_i_cli_t *cli, ccl_error_t *err) {
    return ask(cli,
               "SELECT min(cluster) AS cluster, min(collective) AS collective, tool,"
               " count(*) AS points, sum(CASE WHEN status = 'CCL_OK' THEN 1 ELSE 0 END) AS timed,"
               " count(DISTINCT size_bytes) AS sizes, max(busbw_GBps) AS best_busbw_GBps,"
               " min(gap) AS least_gap, max(at) AS last FROM run GROUP BY topology, demand, tool"
               " ORDER BY 1, 2, topology, tool",
               false, false, err);
}

static ccl_status_t run_show(ccl_i_cli_t *cli, ccl_error_t *err) {
    return ask(cli, "SELECT * FROM run WHERE id = ?1", true, true, err);
}

static ccl_status_t run_query(ccl_i_cli_t *cli, ccl_error_t *err) {
    return ask(cli, cli->args.inputs.items[0], false, false, err);
}

/** One value of a point; NULL: none. */
typedef struct value {
    const char *text;
    bool number;
} value_t;

static value_t value_of(const ccl_notebook_rows_t *point, const char *column) {
    for (uint32_t c = 0; c < point->ncolumns && point->nrows; c++)
        if (strcmp(point->columns[c], column) == 0)
            return (value_t){point->cells[c], point->number[c]};
    return (value_t){NULL, false};
}

static ccl_status_t add_difference(ccl_notebook_rows_t *out, const char *prefix, const char *what,
                                   value_t a, value_t b, ccl_error_t *err) {
    char name[100];
    value_t cells[3] = {{name, false}, a, b};

    if (a.text == b.text || (a.text && b.text && strcmp(a.text, b.text) == 0))
        return CCL_OK;
    snprintf(name, sizeof(name), "%s%s", prefix, what);
    if (!ccl_grow(&out->cells, &out->cells_cap, out->ncells + 3, sizeof(*out->cells)) ||
        !ccl_grow(&out->number, &out->number_cap, out->ncells + 3, sizeof(*out->number)))
        return ccl_fail_nomem(err);
    for (int i = 0; i < 3; i++) {
        out->cells[out->ncells] =
            cells[i].text ? ccl_arena_strdup(&out->arena, cells[i].text) : NULL;
        out->number[out->ncells++] = cells[i].number;
    }
    out->nrows++;
    return CCL_OK;
}

/** A setting as text, without the quotes of a string. @param out  freed by the caller. */
static value_t setting(const json_t *settings, const char *name, char **out) {
    const json_t *value = json_object_get(settings, name);

    *out = json_is_string(value) ? strdup(json_string_value(value))
           : value               ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT)
                                 : NULL;
    return (value_t){*out, json_is_number(value)};
}

static ccl_status_t diff_settings(ccl_notebook_rows_t *out, value_t a, value_t b,
                                  ccl_error_t *err) {
    json_t *x = json_loads(a.text ? a.text : "{}", 0, NULL),
           *y = json_loads(b.text ? b.text : "{}", 0, NULL), *all = json_object(), *unused;
    const char *name;
    void *next;
    ccl_status_t status = CCL_OK;

    json_object_update(all, x);
    json_object_update(all, y);
    char *sorted = json_dumps(all, JSON_SORT_KEYS);
    json_decref(all);
    all = sorted ? json_loads(sorted, 0, NULL) : NULL; /* in the order of their names */
    free(sorted);
    json_object_foreach_safe(all, next, name, unused) {
        char *texts[2];
        value_t p = setting(x, name, &texts[0]), q = setting(y, name, &texts[1]);

        if (status == CCL_OK)
            status = add_difference(out, "settings.", name, p, q, err);
        free(texts[0]);
        free(texts[1]);
    }
    json_decref(all);
    json_decref(x);
    json_decref(y);
    return status;
}

static ccl_status_t find_differences(ccl_i_cli_t *cli, ccl_notebook_t *notebook,
                                     ccl_notebook_rows_t *out, ccl_error_t *err) {
    ccl_notebook_rows_t *points[2] = {NULL, NULL};
    ccl_status_t status = CCL_OK;

    for (int i = 0; i < 2 && status == CCL_OK; i++)
        status = ccl_notebook_query(&cli->ctx, notebook, "SELECT * FROM run WHERE id = ?1",
                                    &cli->args.inputs.items[i], 1, &points[i], err);
    for (size_t i = 0; i < CCL_ARRAY_LEN(compared) && status == CCL_OK; i++) {
        value_t a = value_of(points[0], compared[i]), b = value_of(points[1], compared[i]);

        status = strcmp(compared[i], "settings") == 0
                     ? diff_settings(out, a, b, err)
                     : add_difference(out, "", compared[i], a, b, err);
    }
    ccl_notebook_rows_destroy(points[0]);
    ccl_notebook_rows_destroy(points[1]);
    return status;
}

static ccl_status_t run_diff(ccl_i_cli_t *cli, ccl_error_t *err) {
    static const char *columns[] = {"what", "a", "b"};
    ccl_notebook_t *notebook = NULL;
    ccl_notebook_rows_t *rows = calloc(1, sizeof(*rows));
    ccl_text_t text = {.columns = cli->style.columns};
    ccl_status_t status =
        rows ? ccl_i_notebook_open(cli, false, &notebook, err) : ccl_fail_nomem(err);

    if (status == CCL_OK) {
        rows->ncolumns = 3;
        rows->columns = columns;
        status = check_ids(cli, notebook, err);
    }
    if (status == CCL_OK)
        status = find_differences(cli, notebook, rows, err);
    if (status == CCL_OK)
        status = ccl_report_notebook(rows, false, &cli->style, &text, err);
    if (status == CCL_OK)
        status = ccl_i_emit(cli, &text, err);
    ccl_text_fini(&text);
    ccl_notebook_rows_destroy(rows);
    ccl_notebook_close(notebook);
    return status;
}

static ccl_status_t run_copy(ccl_i_cli_t *cli, ccl_error_t *err) {
    ccl_notebook_t *from = NULL, *to = NULL;
    uint64_t points = 0, inputs = 0;
    ccl_status_t status = ccl_notebook_open(cli->args.inputs.items[0], false, &from, err);

    if (status == CCL_OK)
        status = ccl_i_notebook_open(cli, true, &to, err);
    if (status == CCL_OK)
        status = ccl_notebook_copy(&cli->ctx, from, to, &points, &inputs, err);
    if (status == CCL_OK)
        ccl_log(&cli->ctx, CCL_LOG_INFO, "notebook", "%llu points and %llu inputs are new",
                (unsigned long long)points, (unsigned long long)inputs);
    ccl_notebook_close(from);
    ccl_notebook_close(to);
    return status;
}

static ccl_status_t run_export(ccl_i_cli_t *cli, ccl_error_t *err) {
    if (cli->style.format == CCL_REPORT_TEXT)
        cli->style.format = CCL_REPORT_CSV;
    return ask(cli, "SELECT * FROM run ORDER BY id", false, false, err);
}

static ccl_status_t run_gc(ccl_i_cli_t *cli, ccl_error_t *err) {
    ccl_notebook_t *notebook = NULL;
    uint64_t points = 0, inputs = 0;
    ccl_text_t text = {.columns = cli->style.columns};
    ccl_status_t status;

    CCL_TRY(ccl_i_notebook_open(cli, false, &notebook, err));
    status = ccl_notebook_gc(notebook, cli->args.all, &points, &inputs, err);
    ccl_notebook_close(notebook);
    CCL_TRY(status);
    status = ccl_report_notebook_gc(points, inputs, &cli->style, &text, err);
    if (status == CCL_OK)
        status = ccl_i_emit(cli, &text, err);
    ccl_text_fini(&text);
    return status;
}

static const char *const accepts[] = {"notebook", NULL};
static const char *const gc_accepts[] = {"notebook", "all@notebook", NULL};
const ccl_i_command_t ccl_i_cmd_notebook_list = {
    .name = "notebook list",
    .usage = "[options]",
    .summary = "what the lab notebook knows, by cluster and collective",
    .examples = "ccllab notebook list\n",
    .accepts = accepts,
    .run = run_list,
};
const ccl_i_command_t ccl_i_cmd_notebook_show = {
    .name = "notebook show",
    .usage = "[options] ID",
    .summary = "one point of the lab notebook",
    .examples = "ccllab notebook show 12\n",
    .accepts = accepts,
    .min_inputs = 1,
    .max_inputs = 1,
    .run = run_show,
};
const ccl_i_command_t ccl_i_cmd_notebook_query = {
    .name = "notebook query",
    .usage = "[options] SQL",
    .summary = "ask the lab notebook in SQL",
    .details = "One SELECT over the view `run` (all of a point and its inputs' names), or the\n"
               "tables `point` and `input`; docs/formats.md has their columns.\n",
    .examples = "ccllab notebook query \"SELECT * FROM run LIMIT 5\"\n",
    .accepts = accepts,
    .min_inputs = 1,
    .max_inputs = 1,
    .run = run_query,
};
const ccl_i_command_t ccl_i_cmd_notebook_diff = {
    .name = "notebook diff",
    .usage = "[options] ID ID",
    .summary = "where two points of the lab notebook differ",
    .examples = "ccllab notebook diff 12 40\n",
    .accepts = accepts,
    .min_inputs = 2,
    .max_inputs = 2,
    .run = run_diff,
};
const ccl_i_command_t ccl_i_cmd_notebook_export = {
    .name = "notebook export",
    .usage = "[options]",
    .summary = "all points of the lab notebook (CSV, --json)",
    .examples = "ccllab notebook export --csv -o points.csv\n",
    .accepts = accepts,
    .run = run_export,
};
const ccl_i_command_t ccl_i_cmd_notebook_copy = {
    .name = "notebook copy",
    .usage = "[options] FILE|URL",
    .summary = "copy all points of a lab notebook into another one",
    .details = "What --notebook has already stays. Between files and servers, either way.\n",
    .examples = "ccllab notebook copy lab.db --notebook postgresql://lab.example.org/ccllab\n",
    .accepts = accepts,
    .min_inputs = 1,
    .max_inputs = 1,
    .run = run_copy,
};
const ccl_i_command_t ccl_i_cmd_notebook_gc = {
    .name = "notebook gc",
    .usage = "[--all] [options]",
    .summary = "drop points of other builds of ccllab, and give the space back",
    .examples = "ccllab notebook gc\n",
    .accepts = gc_accepts,
    .run = run_gc,
};
