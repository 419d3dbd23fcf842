/* ccllab balance */
#include "cli/command.h"

#include <stdlib.h>

typedef struct balance {
    ccl_topology_t *machine, *topo;
    ccl_training_t *training;
    ccl_training_result_t *result;
    char *copy;
    const char **with;
    uint32_t nwith;
} balance_t;

static void balance_fini(balance_t *b) {
    ccl_training_result_destroy(b->result);
    ccl_training_destroy(b->training);
    ccl_topology_destroy(b->topo);
    ccl_topology_destroy(b->machine);
    free(b->with);
    free(b->copy);
}

/** The plan with what the command line says in its place. */
static ccl_status_t open_plan(ccl_i_cli_t *cli, balance_t *b, ccl_error_t *err) {
    const ccl_i_args_t *args = &cli->args;

    if (args->train.plan)
        CCL_TRY(ccl_training_read(args->train.plan, b->topo, &b->training, err));
    else
        CCL_TRY(ccl_training_create(b->topo, &b->training, err));
    if (ccl_i_given(args, "total"))
        b->training->total = args->train.total;
    if (args->train.speeds)
        CCL_TRY(ccl_training_speeds(b->training, b->topo, args->train.speeds, err));
    if (args->train.most)
        CCL_TRY(ccl_training_most(b->training, b->topo, args->train.most, err));
    return CCL_OK;
}

static ccl_status_t balance(ccl_i_cli_t *cli, balance_t *b, ccl_error_t *err) {
    ccl_training_options_t options = CCL_TRAINING_OPTIONS_INIT;
    ccl_report_training_t about;
    ccl_text_t text = {.columns = cli->style.columns};
    ccl_status_t status;

    CCL_TRY(ccl_i_cluster_open(cli, cli->args.topology, NULL, &b->machine, &b->topo, err));
    CCL_TRY(open_plan(cli, b, err));
    if (cli->args.with)
        CCL_TRY(ccl_i_words("with", cli->args.with, &b->copy, &b->with, &b->nwith, err));
    options.rule = (ccl_balance_rule_t)cli->args.train.rule;
    options.with = b->with;
    options.nwith = b->nwith;
    options.machine = b->machine;
    CCL_TRY(ccl_training_estimate(&cli->ctx, b->topo, b->training, &options, &b->result, err));
    about = (ccl_report_training_t){b->topo, b->training, b->result, options.rule};
    status = ccl_report_training(&about, &cli->style, &text, err);
    if (status == CCL_OK)
        status = ccl_i_emit(cli, &text, err);
    ccl_text_fini(&text);
    return status;
}

static ccl_status_t run(ccl_i_cli_t *cli, ccl_error_t *err) {
    balance_t b = {0};
    ccl_status_t status = balance(cli, &b, err);

    balance_fini(&b);
    return status;
}

static const char *const accepts[] = {"topology", "fail", "degrade", "scale", "set",
                                      "profile",  "plan", "speeds",  "most",  "total",
                                      "rule",     "with", "plugin",  NULL};
const ccl_i_command_t ccl_i_cmd_balance = {
    .name = "balance",
    .usage = "--topology SPEC [--plan FILE] [--speeds LIST] [options]",
    .summary = "training micro-batches for GPUs of different speed, and a step's time",
    .details =
        "Splits the training micro-batches of a step in proportion to the GPUs' speeds,\n"
        "within memory and limits. With a model in the plan: the time of a step, compute and\n"
        "what collectives of data, tensor and pipeline parallelism and ZeRO add to it, each\n"
        "simulated on the cluster; beside it an equal split and each vendor alone.\n"
        "docs/training.md has the terms. --csv has the workers.\n",
    .examples = "ccllab balance -t hetccl-snu --speeds nvidia=2,amd=1 --total 48\n"
                "ccllab balance -t hetccl-snu --plan step.json\n",
    .accepts = accepts,
    .no = "memory or limits leave no room for the training micro-batches",
    .run = run,
};
