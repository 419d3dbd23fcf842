/* ccllab verify */
#include "cli/command.h"

static ccl_status_t print(ccl_i_cli_t *cli, const ccl_report_verdict_t *about, ccl_error_t *err) {
    ccl_text_t text = {.columns = cli->style.columns};
    ccl_status_t status = ccl_report_verdict(about, &cli->style, &text, err);

    if (status == CCL_OK)
        status = ccl_i_emit(cli, &text, err);
    ccl_text_fini(&text);
    return status;
}

/** A program that cannot be read is not a valid program: the answer is no. */
static ccl_status_t malformed(ccl_i_cli_t *cli, const char *form, const ccl_error_t *why,
                              ccl_error_t *err) {
    ccl_report_verdict_t about = {cli->args.inputs.items[0], form, NULL, 0, NULL, why, NULL};

    if (cli->style.format == CCL_REPORT_TEXT) {
        *err = *why;
        return CCL_CHECK;
    }
    CCL_TRY(print(cli, &about, err));
    return CCL_CHECK;
}

static ccl_status_t run(ccl_i_cli_t *cli, ccl_error_t *err) {
    ccl_verify_options_t options = CCL_VERIFY_OPTIONS_INIT;
    ccl_i_document_t document = {NULL, NULL};
    ccl_report_verdict_t about = {cli->args.inputs.items[0], "program", NULL, 0, NULL, NULL, NULL};
    ccl_error_t why = CCL_ERROR_INIT;
    ccl_verdict_t verdict = {0};
    ccl_status_t status = ccl_i_document_read(about.input, &document, &about.form, &why);

    if (status == CCL_ERR_INPUT)
        return malformed(cli, about.form, &why, err);
    if (status != CCL_OK) {
        *err = why;
        return status;
    }
    options.executor = cli->args.lower.executor;
    options.granularity = cli->args.sim.granularity;
    options.slots = cli->args.slots;
    options.batches = cli->args.sim.batches;
    if (document.program) {
        about.collective = document.program->coll->name;
        about.nranks = document.program->nranks;
        about.origin = document.program->origin;
        status = ccl_program_verify(&cli->ctx, document.program, &options, &verdict, err);
    } else {
        about.collective = document.schedule->coll->name;
        about.nranks = document.schedule->coll->nranks;
        about.origin = document.schedule->origin;
        status = ccl_schedule_verify(&cli->ctx, document.schedule, &verdict, err);
    }
    if (status == CCL_OK) {
        about.verdict = &verdict;
        if (cli->style.format == CCL_REPORT_TEXT && !cli->args.quiet) {
            for (uint32_t i = 0; i < verdict.nwarnings && i < CCL_MAX_WARNINGS; i++)
                ccl_i_say("warning", verdict.warnings[i]);
        }
        status = print(cli, &about, err);
    }
    ccl_i_document_fini(&document);
    if (status == CCL_OK && !verdict.valid)
        status = CCL_CHECK;
    return status;
}

static const char *const accepts[] = {"executor", "granularity", "slots", "batches", NULL};
const ccl_i_command_t ccl_i_cmd_verify = {
    .name = "verify",
    .usage = "[options] FILE",
    .summary = "is a program or schedule right? exit code 0 or 1",
    .details =
        "FILE is a program (MSCCL XML, either dialect) or a schedule (our JSON, ResCCLang),\n"
        "recognised by content; - is stdin. It is executed symbolically: every required chunk\n"
        "arrives, every reduction holds each contribution exactly once, nothing is read before\n"
        "it is there, no thread blocks race, connections match, no deadlock. The first fault\n"
        "is named: rank, thread block, step, chunk. --batches, --slots and --granularity are\n"
        "those of the deadlock check.\n",
    .examples = "ccllab verify program.xml\n"
                "ccllab verify schedule.json --json\n",
    .accepts = accepts,
    .min_inputs = 1,
    .max_inputs = 1,
    .no = "it is not right",
    .run = run,
};
