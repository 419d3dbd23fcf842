/* What `tune --export DIR` writes, and how files of such folders are. */
#include "cli/command.h"
#include "search/export/export.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

ccl_status_t ccl_i_export_file(ccl_i_cli_t *cli, const char *dir, const char *name,
                               ccl_text_t *text, ccl_error_t *err) {
    char path[1200];
    ccl_status_t status;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    status = text->nomem ? ccl_fail_nomem(err)
                         : ccl_file_write(path, text->data ? text->data : "", text->len, err);
    if (status == CCL_OK)
        ccl_log(&cli->ctx, CCL_LOG_INFO, "export", "%s", path);
    ccl_text_fini(text);
    return status;
}

/* What cannot be had is reported, and the rest written. */
static ccl_status_t unless_unsupported(ccl_i_cli_t *cli, ccl_status_t status, const char *what,
                                       ccl_error_t *inner, ccl_error_t *err) {
    if (status == CCL_UNSUPPORTED) {
        ccl_log(&cli->ctx, CCL_LOG_WARN, "export", "no %s: %s", what, inner->text);
        return CCL_OK;
    }
    if (status != CCL_OK && err)
        *err = *inner;
    return status;
}

static ccl_status_t programs(ccl_i_cli_t *cli, const ccl_topology_t *topo,
                             const ccl_collective_t *want, const ccl_tuning_t *tuning,
                             const char *dir, ccl_error_t *err) {
    ccl_executor_t executor = cli->args.lower.executor;
    ccl_export_t *list = NULL;
    uint32_t n = 0;
    ccl_status_t status = CCL_OK;

    if (executor == CCL_EXECUTOR_ANY)
        executor = CCL_EXECUTOR_RCCL; /* the narrowest limits */
    CCL_TRY(ccl_export_programs(&cli->ctx, topo, want, tuning, executor, &list, &n, err));
    if (n == 0)
        ccl_log(&cli->ctx, CCL_LOG_WARN, "export", "no program fits the limits of %s",
                ccl_executor_limits(executor)->name);
    for (uint32_t i = 0; i < n && status == CCL_OK; i++) {
        char name[200];
        ccl_text_t text = {0};
        ccl_error_t inner = CCL_ERROR_INIT;

        snprintf(name, sizeof name, "%.80s-%u-%.0f-%.0f.xml", want->name, want->nranks,
                 list[i].program->min_bytes, list[i].program->max_bytes);
        status = ccl_program_write_xml(list[i].program, &text, err);
        if (status == CCL_OK)
            status = ccl_i_export_file(cli, dir, name, &text, err);
        ccl_text_fini(&text);
        if (status != CCL_OK)
            break;
        memcpy(strrchr(name, '.'), ".json", 6);
        status = ccl_program_write_mscclpp(list[i].program, topo, &text, &inner);
        if (status == CCL_OK)
            status = ccl_i_export_file(cli, dir, name, &text, err);
        else
            status = unless_unsupported(cli, status, "plan of MSCCL++", &inner, err);
        ccl_text_fini(&text);
    }
    ccl_exports_destroy(list, n);
    return status;
}

static ccl_status_t graphs(ccl_i_cli_t *cli, const ccl_topology_t *topo, const char *dir,
                           ccl_error_t *err) {
    uint32_t n = topo->nservers ? topo->nservers : 1;

    for (uint32_t s = 0; s < n; s++) {
        char name[200];
        ccl_text_t text = {0};
        ccl_error_t inner = CCL_ERROR_INIT;
        ccl_status_t status =
            ccl_export_nccl_graph(&cli->ctx, topo, topo->nservers ? s : CCL_NONE, 0, &text, &inner);

        snprintf(name, sizeof name, "graph-%.120s.xml", topo->nservers ? topo->servers[s] : "all");
        for (char *p = name; *p; p++)
            *p = *p == '/' ? '_' : *p;
        if (status == CCL_OK)
            status = ccl_i_export_file(cli, dir, name, &text, err);
        else
            status = unless_unsupported(cli, status, name, &inner, err);
        ccl_text_fini(&text);
        CCL_TRY(status);
    }
    return CCL_OK;
}

static ccl_status_t tuner(ccl_i_cli_t *cli, const ccl_collective_t *want,
                          const ccl_tuning_t *tuning, const char *dir, ccl_error_t *err) {
    ccl_topology_t *topo = NULL; /* NCCL looks at the machine, not at a profile */
    ccl_profile_t *profile = NULL;
    ccl_text_t text = {0};
    ccl_error_t inner = CCL_ERROR_INIT;
    ccl_status_t status;

    CCL_TRY(ccl_i_topology_open(cli, cli->args.topology, &topo, err));
    status = ccl_i_cluster_profile(cli, topo, &profile, &inner);
    if (status == CCL_OK && ccl_export_nccl_asks(want->kind)) { /* harm is an answer */
        status = ccl_export_nccl_tuner_check(topo, profile, err);
        if (status != CCL_OK) {
            ccl_profile_destroy(profile);
            ccl_topology_destroy(topo);
            return status;
        }
    }
    if (status == CCL_OK)
        status = ccl_export_nccl_tuner(&cli->ctx, topo, profile, want->kind, tuning->sizes_bytes,
                                       tuning->nsizes, &text, &inner);
    if (status == CCL_OK)
        status = ccl_i_export_file(cli, dir, "tuner.csv", &text, err);
    else
        status = unless_unsupported(cli, status, "table for the tuner plugin", &inner, err);
    ccl_text_fini(&text);
    ccl_profile_destroy(profile);
    ccl_topology_destroy(topo);
    return status;
}

ccl_status_t ccl_i_export_folder(const char *dir, ccl_error_t *err) {
    if (strlen(dir) > 900 || (mkdir(dir, 0777) != 0 && errno != EEXIST))
        return ccl_fail(err, CCL_ERR_IO, "%.300s: no folder can be made there: %s", dir,
                        strerror(errno));
    return CCL_OK;
}

ccl_status_t ccl_i_export(ccl_i_cli_t *cli, const ccl_topology_t *topo,
                          const ccl_collective_t *want, const ccl_tuning_t *tuning, const char *dir,
                          ccl_error_t *err) {
    CCL_TRY(ccl_i_export_folder(dir, err));
    CCL_TRY(programs(cli, topo, want, tuning, dir, err));
    CCL_TRY(graphs(cli, topo, dir, err));
    return tuner(cli, want, tuning, dir, err);
}
