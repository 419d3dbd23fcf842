/* ccllab notebook */
#include "cli/command.h"
#include "base/json.h"

#include <string.h>

/* Of the view `run`, what two points may differ in besides their settings. */
static const char diff_sql[] =
    "WITH a AS (SELECT * FROM run WHERE id = ?1), b AS (SELECT * FROM run WHERE id = ?2),"
    " keys AS (SELECT key FROM a, json_each(a.settings) UNION"
    "          SELECT key FROM b, json_each(b.settings)),"
    " both AS ("
    "SELECT 0 AS n, 'cluster' AS what, a.cluster AS a, b.cluster AS b FROM a, b UNION ALL "
    "SELECT 1, 'topology', a.topology, b.topology FROM a, b UNION ALL "
    "SELECT 2, 'profile', a.profile, b.profile FROM a, b UNION ALL "
    "SELECT 3, 'collective', a.collective, b.collective FROM a, b UNION ALL "
    "SELECT 4, 'demand', a.demand, b.demand FROM a, b UNION ALL "
    "SELECT 5, 'size_bytes', a.size_bytes, b.size_bytes FROM a, b UNION ALL "
    "SELECT 6, 'settings.' || key, json_extract(a.settings, '$.' || key),"
    " json_extract(b.settings, '$.' || key) FROM a, b, keys UNION ALL "
    "SELECT 7, 'seed', a.seed, b.seed FROM a, b UNION ALL "
    "SELECT 8, 'tool', a.tool, b.tool FROM a, b UNION ALL "
    "SELECT 9, 'status', a.status, b.status FROM a, b UNION ALL "
    "SELECT 10, 'why', a.why, b.why FROM a, b UNION ALL "
    "SELECT 11, 'time_s', a.time_s, b.time_s FROM a, b UNION ALL "
    "SELECT 12, 'busbw_GBps', a.busbw_GBps, b.busbw_GBps FROM a, b UNION ALL "
    "SELECT 13, 'bound_s', a.bound_s, b.bound_s FROM a, b UNION ALL "
    "SELECT 14, 'thread_blocks', a.thread_blocks, b.thread_blocks FROM a, b UNION ALL "
    "SELECT 15, 'batches', a.batches, b.batches FROM a, b UNION ALL "
    "SELECT 16, 'synth_s', a.synth_s, b.synth_s FROM a, b UNION ALL "
    "SELECT 17, 'eval_s', a.eval_s, b.eval_s FROM a, b) "
    "SELECT what, a, b FROM both WHERE a IS NOT b ORDER BY n, what";

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
               "SELECT cluster, collective, tool, count(*) AS points,"
               " sum(status = 'CCL_OK') AS timed, count(DISTINCT size_bytes) AS sizes,"
               " max(busbw_GBps) AS best_busbw_GBps, min(gap) AS least_gap, max(at) AS last"
               " FROM run GROUP BY topology, demand, tool ORDER BY cluster, collective, topology, "
               "tool",
               false, false, err);
}

static ccl_status_t run_show(ccl_i_cli_t *cli, ccl_error_t *err) {
    return ask(cli, "SELECT * FROM run WHERE id = ?1", true, true, err);
}

static ccl_status_t run_query(ccl_i_cli_t *cli, ccl_error_t *err) {
    return ask(cli, cli->args.inputs.items[0], false, false, err);
}

static ccl_status_t run_diff(ccl_i_cli_t *cli, ccl_error_t *err) {
    return ask(cli, diff_sql, true, false, err);
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
const ccl_i_command_t ccl_i_cmd_notebook_gc = {
    .name = "notebook gc",
    .usage = "[--all] [options]",
    .summary = "drop points of other builds of ccllab, and give the space back",
    .examples = "ccllab notebook gc\n",
    .accepts = gc_accepts,
    .run = run_gc,
};
