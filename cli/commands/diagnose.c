/* ccllab diagnose */
#include "cli/command.h"

#include <stdlib.h>
#include <string.h>

/** What a diagnosis is made of; one fini for all. */
typedef struct desk {
    ccl_topology_t *topo, **parts;
    ccl_measured_log_t *log;
    const ccl_measured_run_t **runs;
    ccl_profile_t *profile;
    ccl_diagnosis_run_t **made;
    uint32_t n;
} desk_t;

static void desk_fini(desk_t *d) {
    for (uint32_t i = 0; i < d->n; i++) {
        if (d->made)
            ccl_diagnosis_destroy(d->made[i]);
        if (d->parts)
            ccl_topology_destroy(d->parts[i]);
    }
    free(d->made);
    free(d->parts);
    free(d->runs);
    ccl_profile_destroy(d->profile);
    ccl_measured_log_destroy(d->log);
    ccl_topology_destroy(d->topo);
}

static ccl_status_t diagnose(ccl_i_cli_t *cli, desk_t *d, bool *slow, ccl_error_t *err) {
    const char *path = cli->args.inputs.items[0];

    CCL_TRY(ccl_i_topology_open(cli, cli->args.topology, &d->topo, err));
    CCL_TRY(ccl_i_cluster_profile(cli, d->topo, &d->profile, err));
    const ccl_topology_t *const one[] = {d->topo};
    const ccl_i_clusters_t clusters = {1, one};
    CCL_TRY(ccl_i_measured_open(cli, path, &clusters, &d->log, &d->runs, &d->n, err));
    d->parts = calloc(d->n, sizeof(*d->parts));
    d->made = calloc(d->n, sizeof(*d->made));
    if (!d->parts || !d->made)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < d->n; i++) {
        CCL_TRY(
            ccl_topology_take(d->topo, d->runs[i]->nranks, d->runs[i]->nhosts, &d->parts[i], err));
        CCL_TRY(ccl_diagnose(&cli->ctx, d->parts[i], d->profile, d->runs[i],
                             cli->args.nccl_channels, cli->args.in_place, cli->args.registered,
                             &d->made[i], err));
        for (uint32_t k = 0; k < d->made[i]->npoints; k++)
            *slow = *slow || (!d->made[i]->points[k].normal && d->made[i]->points[k].ratio < 1);
    }
    ccl_report_diagnosis_t about = {path, d->topo, d->profile, d->n,
                                    (const ccl_diagnosis_run_t *const *)d->made};
    ccl_text_t text = {.columns = cli->style.columns};
    ccl_status_t status = ccl_report_diagnosis(&about, &cli->style, &text, err);

    if (status == CCL_OK)
        status = ccl_i_emit(cli, &text, err);
    ccl_text_fini(&text);
    return status;
}

static ccl_status_t run(ccl_i_cli_t *cli, ccl_error_t *err) {
    desk_t desk = {0};
    bool slow = false;
    ccl_status_t status = diagnose(cli, &desk, &slow, err);

    desk_fini(&desk);
    return status == CCL_OK && slow ? CCL_CHECK : status;
}

static const char *const accepts[] = {
    "topology", "fail", "degrade",           "scale",    "set",        "profile", "collective",
    "ranks",    "run",  "channels@measured", "in-place", "registered", NULL};
const ccl_i_command_t ccl_i_cmd_diagnose = {
    .name = "diagnose",
    .usage = "LOG --topology SPEC [--profile P]",
    .summary = "is this busbw normal? measured runs beside the model",
    .details =
        "LOG is output of nccl-tests or rccl-tests, behind any launcher's prefix, a table of\n"
        "such runs, JSON lines of NCCL's Inspector, or a trace of PyTorch's profiler.\n"
        "First the verdict with its probability, then\n"
        "the likely causes and what to measure next, then per size measured and expected "
        "bandwidth\n"
        "(docs/commands.md has the rules). Exit code 1 when a size is slower than expected.\n",
    .examples = "ccllab diagnose run.log -t dgx-h100\n"
                "ccllab diagnose run.log -t \"dgx-h100*2\" --profile mine.json --json\n",
    .accepts = accepts,
    .min_inputs = 1,
    .max_inputs = 1,
    .no = "a size is slower than expected",
    .run = run,
};
