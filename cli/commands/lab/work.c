/* ccllab work */
#include "cli/command.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* One process: tasks of the queue, one after the other. */
static ccl_status_t work(ccl_i_cli_t *cli, bool quiet, ccl_error_t *err) {
    ccl_tune_work_options_t options = CCL_TUNE_WORK_OPTIONS_INIT;
    ccl_lab_options_t member = CCL_LAB_OPTIONS_INIT;
    ccl_notebook_t *notebook = NULL;
    ccl_lab_t *lab = NULL;
    ccl_ctx_t ctx = cli->ctx;
    uint64_t tasks = 0;
    ccl_status_t status = ccl_i_lab_options(&cli->args, &member, err);

    if (status == CCL_OK)
        status = ccl_i_notebook_open(cli, true, &notebook, err);
    if (quiet)
        ctx.progress = NULL;
    options.idle_s = cli->args.lab.idle_s;
    member.works = true;
    if (status == CCL_OK)
        status = ccl_lab_join(&ctx, notebook, &member, &lab, err);
    if (status == CCL_OK)
        status = ccl_tune_work(&ctx, lab, &options, &tasks, err);
    if (status == CCL_INTERRUPTED)
        ccl_fail(err, status, "%llu tasks are done; what was begun is for others",
                 (unsigned long long)tasks);
    ccl_lab_leave(lab);
    ccl_notebook_close(notebook);
    return status;
}

/* The others end with this one, and after them their exit codes count. */
static ccl_status_t gather(const pid_t *others, uint32_t n, ccl_status_t status, ccl_error_t *err) {
    for (uint32_t i = 0; i < n && status != CCL_OK; i++)
        kill(others[i], SIGTERM);
    for (uint32_t i = 0; i < n; i++) {
        int state = 0;

        while (waitpid(others[i], &state, 0) < 0 && errno == EINTR)
            continue;
        if (status != CCL_OK || (WIFEXITED(state) && WEXITSTATUS(state) == 0))
            continue;
        status = WIFSIGNALED(state)
                     ? ccl_fail(err, CCL_ERR_IO,
                                "process %ld was ended by signal %d; others do its work",
                                (long)others[i], WTERMSIG(state))
                     : ccl_fail(err, CCL_ERR_IO, "process %ld ended with exit code %d",
                                (long)others[i], WEXITSTATUS(state));
    }
    return status;
}

static ccl_status_t run(ccl_i_cli_t *cli, ccl_error_t *err) {
    if (ccl_i_notebook_none(&cli->args))
        return ccl_fail(err, CCL_ERR_USAGE,
                        "--notebook none has no work; name the one that the tuning has");
    uint32_t n = cli->args.threads ? cli->args.threads : ccl_core_count(), started = 0;
    pid_t *others = calloc(n, sizeof(*others));
    ccl_lab_options_t unused = CCL_LAB_OPTIONS_INIT;
    ccl_status_t status = ccl_i_lab_options(&cli->args, &unused, err);

    if (status != CCL_OK || !others) {
        free(others);
        return status != CCL_OK ? status : ccl_fail_nomem(err);
    }
    for (; started + 1 < n; started++) {
        others[started] = fork();
        if (others[started] < 0)
            break;
        if (others[started] == 0) {
            ccl_error_t own = CCL_ERROR_INIT;

            free(others);
            cli->ctx.progress = NULL;
            status = work(cli, true, &own);
            if (status != CCL_OK && status != CCL_INTERRUPTED && err)
                *err = own;
            return status == CCL_INTERRUPTED ? CCL_OK : status;
        }
    }
    status = work(cli, false, err);
    status = gather(others, started, status, err);
    free(others);
    return status;
}

static const char *const accepts[] = {"notebook", "lease", "idle", "plugin", NULL};
const ccl_i_command_t ccl_i_cmd_work = {
    .name = "work",
    .usage = "[--notebook FILE|URL] [options]",
    .summary = "try points for the tunings that share a lab notebook",
    .details =
        "Takes work from the queue of a lab notebook, which tune and sweep fill, one process a\n"
        "core (-j N), until it is interrupted or, with --idle, there was no work for that time.\n"
        "Start it on any number of machines, by hand or as a job array, and end it at any\n"
        "time: what it had begun others do. It wants the build of ccllab that tunes, and its\n"
        "plugins; clusters and options it finds in the notebook. docs/tuning.md has more.\n",
    .examples = "ccllab work --notebook postgresql://lab.example.org/ccllab\n"
                "ccllab work --notebook lab.db -j 4 --idle 10min\n",
    .accepts = accepts,
    .run = run,
};
