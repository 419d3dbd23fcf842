/* ccllab report */
#include "cli/command.h"

#include <stdlib.h>
#include <string.h>

/** A lab notebook by its first bytes; a file that is named like one and is not is refused as such.
 */
static bool is_notebook(const char *path) {
    static const char magic[16] = "SQLite format 3";
    const char *end = strrchr(path, '.');
    char head[sizeof(magic)];
    FILE *file = fopen(path, "rb");
    bool is = ccl_notebook_is_url(path) || (end && strcmp(end, ".db") == 0);

    if (!file)
        return is;
    if (fread(head, 1, sizeof(head), file) == sizeof(head))
        is |= memcmp(head, magic, sizeof(magic)) == 0;
    fclose(file);
    return is;
}

static ccl_status_t read_result(ccl_i_cli_t *cli, const char *path, ccl_json_doc_t *out,
                                ccl_error_t *err) {
    ccl_notebook_t *notebook = NULL;
    ccl_status_t status;

    if (!is_notebook(path))
        return ccl_json_read(path, out, err);
    CCL_TRY(ccl_notebook_open(path, false, &notebook, err));
    status = ccl_report_notebook_document(
        &cli->ctx, notebook, ccl_notebook_is_url(path) ? "the lab notebook" : path, out, err);
    ccl_notebook_close(notebook);
    return status;
}

static ccl_status_t run(ccl_i_cli_t *cli, ccl_error_t *err) {
    const ccl_i_list_t *inputs = &cli->args.inputs;
    ccl_report_page_t page = {.question = cli->args.question};
    ccl_topology_t *topo = NULL;
    ccl_json_doc_t *docs;
    ccl_text_t text = {0}, line = {0};
    char date[16];
    ccl_status_t status = CCL_OK;

    if (cli->args.json || cli->args.csv)
        return ccl_fail(err, CCL_ERR_USAGE, "a report is HTML; --json and --csv do not go with it");
    docs = calloc(inputs->n + 1, sizeof(*docs));
    if (!docs)
        return ccl_fail_nomem(err);
    if (cli->args.topology)
        status = ccl_i_topology_open(cli, cli->args.topology, &topo, err);
    while (status == CCL_OK && page.ndocs < inputs->n) {
        status = read_result(cli, inputs->items[page.ndocs], &docs[page.ndocs], err);
        page.ndocs += status == CCL_OK;
    }
    page.topo = topo;
    page.docs = docs;
    ccl_i_page_made(cli, date, &line, &page);
    if (status == CCL_OK)
        status = ccl_report_page(&page, &text, err);
    if (status == CCL_OK)
        status = ccl_i_emit(cli, &text, err);
    ccl_text_fini(&text);
    ccl_text_fini(&line);
    for (uint32_t i = 0; i < page.ndocs; i++)
        ccl_json_fini(&docs[i]);
    free(docs);
    ccl_topology_destroy(topo);
    return status;
}

static const char *const accepts[] = {"topology", "fail", "degrade", "question", NULL};
const ccl_i_command_t ccl_i_cmd_report = {
    .name = "report",
    .usage = "RESULT.json|NOTEBOOK.db... [--topology SPEC] -o PAGE.html",
    .summary = "results in one HTML page: the answer first, tables, plots, timelines that zoom",
    .details = "Results are what any command wrote with --json, and what simulate --trace wrote. "
               "A lab\n"
               "notebook is read as what \"notebook export --json\" writes. The page needs no "
               "network and no\n"
               "other file.\n",
    .examples = "ccllab compare -t dgx-h100 -c allreduce --json -o all.json\n"
                "ccllab report all.json -t dgx-h100 -o page.html\n",
    .accepts = accepts,
    .min_inputs = 1,
    .max_inputs = 64,
    .run = run,
};
