/* ccllab schema */
#include "cli/command.h"

static ccl_status_t run(ccl_i_cli_t *cli, ccl_error_t *err) {
    ccl_text_t text = {.columns = cli->style.columns};
    ccl_status_t status =
        cli->args.inputs.n ? ccl_report_schema(cli->args.inputs.items[0], &cli->style, &text, err)
                           : ccl_report_schemas(&cli->style, &text, err);

    if (status == CCL_OK)
        status = ccl_i_emit(cli, &text, err);
    ccl_text_fini(&text);
    return status;
}

static const char *const accepts[] = {NULL};
const ccl_i_command_t ccl_i_cmd_schema = {
    .name = "schema",
    .usage = "[NAME] [options]",
    .summary = "the keys of JSON results, and their JSON Schemas",
    .details = "NAME is what stands in a result as \"schema\": \"ccllab/NAME/1\". Text and CSV "
               "have a row per\n"
               "key with type, unit and meaning, --json is the JSON Schema (draft 2020-12). "
               "Without NAME all\n"
               "results are listed.\n",
    .examples = "ccllab schema\n"
                "ccllab schema compare --json\n",
    .accepts = accepts,
    .max_inputs = 1,
    .run = run,
};
