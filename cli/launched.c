/* Several processes that mpirun or srun started, which share the work through the lab notebook. */
#include "cli/command.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What all processes of one launch have in common, and no other launch has. */
static void name_launch(char *out, size_t len) {
    const char *step = getenv("SLURM_STEP_ID"), *again = getenv("SLURM_RESTART_COUNT"),
               *space = getenv("PMIX_NAMESPACE");
    char host[64] = "";

    gethostname(host, sizeof(host) - 1);
    if (getenv("SLURM_JOB_ID") && getenv("SLURM_PROCID"))
        snprintf(out, len, "slurm %s.%s.%s", getenv("SLURM_JOB_ID"), step ? step : "",
                 again ? again : "");
    else if (space)
        snprintf(out, len, "pmix %s", space);
    else /* the launcher's own process on this machine */
        snprintf(out, len, "%s %ld", host, (long)getppid());
}

/* As far as the launcher says so. */
static bool on_several_machines(uint32_t world) {
    static const char *const here[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"};
    const char *nodes = getenv("SLURM_STEP_NUM_NODES");

    for (size_t i = 0; i < CCL_ARRAY_LEN(here); i++)
        if (getenv(here[i]) && strtoul(getenv(here[i]), NULL, 10) < world)
            return true;
    return nodes && strtoul(nodes, NULL, 10) > 1;
}

ccl_status_t ccl_i_launched_find(ccl_i_cli_t *cli, ccl_i_launched_t *l, ccl_error_t *err) {
    enum { AUTO, ALONE }; /* as the option lists them */
    const char *notebook = cli->args.notebook;

    if (cli->args.job.bootstrap == ALONE || !ccl_run_place_from_environment(&l->rank, &l->world) ||
        l->world < 2) {
        l->rank = l->world = 0;
        return CCL_OK;
    }
    name_launch(l->launch, sizeof(l->launch));
    if (!cli->args.threads)
        cli->ctx.threads = 1; /* there are others for the other cores */
    if (ccl_i_notebook_none(&cli->args))
        return ccl_fail(err, CCL_ERR_USAGE,
                        "process %u of %u that a launcher started: they share a lab notebook, so "
                        "--notebook none does not do (--bootstrap none: each does all by itself)",
                        l->rank, l->world);
    if (on_several_machines(l->world) && !(notebook && ccl_notebook_is_url(notebook)))
        return ccl_fail(err, CCL_ERR_USAGE,
                        "process %u of %u that a launcher started on several machines: they want a "
                        "lab notebook on a server, --notebook postgresql://HOST/DATABASE",
                        l->rank, l->world);
    return CCL_OK;
}

bool ccl_i_launched_helper(const ccl_i_launched_t *l) {
    return l->rank > 0;
}

ccl_status_t ccl_i_lab_options(const ccl_i_args_t *args, ccl_lab_options_t *out, ccl_error_t *err) {
    if (!ccl_i_given(args, "lease"))
        return CCL_OK;
    out->lease_s = args->lab.lease_s;
    return out->lease_s >= 1
               ? CCL_OK
               : ccl_fail(err, CCL_ERR_USAGE, "option --lease wants a time of 1s or more");
}

ccl_status_t ccl_i_launched_join(ccl_i_cli_t *cli, ccl_i_launched_t *l, ccl_notebook_t *notebook,
                                 ccl_lab_t **out, ccl_error_t *err) {
    ccl_lab_options_t options = CCL_LAB_OPTIONS_INIT;

    if (!notebook)
        return CCL_OK;
    options.works = ccl_i_launched_helper(l);
    options.launch = l->world ? l->launch : NULL;
    CCL_TRY(ccl_i_lab_options(&cli->args, &options, err));
    return ccl_lab_join(&cli->ctx, notebook, &options, out, err);
}

ccl_status_t ccl_i_launched_work(ccl_i_cli_t *cli, ccl_i_launched_t *l, ccl_error_t *err) {
    ccl_tune_work_options_t options = CCL_TUNE_WORK_OPTIONS_INIT;
    ccl_ctx_t quiet = cli->ctx;
    ccl_notebook_t *notebook = NULL;
    ccl_lab_t *lab = NULL;
    uint64_t tasks = 0;
    ccl_status_t status = ccl_i_notebook_open(cli, true, &notebook, err);

    quiet.progress = NULL; /* process 0 has one line for all */
    options.launched = true;
    if (status == CCL_OK)
        status = ccl_i_launched_join(cli, l, notebook, &lab, err);
    if (status == CCL_OK)
        status = ccl_tune_work(&quiet, lab, &options, &tasks, err);
    ccl_lab_leave(lab);
    ccl_notebook_close(notebook);
    return status;
}
