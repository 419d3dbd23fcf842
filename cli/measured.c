/* Measured runs that a command is asked for. */
#include "cli/command.h"

#include <stdlib.h>

void ccl_i_measured_title(const ccl_measured_run_t *run, char *out, size_t out_len) {
    if (run->program[0]) {
        snprintf(out, out_len, "%.200s%s%.20s (line %u)", run->program, run->proto[0] ? ", " : "",
                 run->proto, run->line);
        return;
    }
    snprintf(out, out_len, "%s on %u ranks%s%.20s%s%.60s%s%.60s (line %u)",
             run->known ? ccl_collective_kind_name(run->kind) : "?", run->nranks,
             run->type[0] ? ", " : "", run->type, run->gpu[0] ? ", " : "", run->gpu,
             run->label[0] ? ", " : "", run->label, run->line);
}

static ccl_status_t none_left(const ccl_i_cli_t *cli, const char *path,
                              const ccl_measured_log_t *log, ccl_error_t *err) {
    char title[300];

    ccl_i_measured_title(&log->runs[0], title, sizeof(title));
    if (cli->args.run > log->nruns)
        return ccl_error_set(err, CCL_ERR_USAGE, path, 0, 0, "run %u, but it has %u measured runs",
                             cli->args.run, log->nruns);
    return ccl_error_set(err, CCL_ERR_INPUT, path, 0, 0,
                         "none of its %u measured runs is left by --collective, --ranks and --run "
                         "(the first is %s)",
                         log->nruns, title);
}

/** Is this run wanted? */
static bool wanted(const ccl_i_args_t *args, const ccl_measured_run_t *run, uint32_t index,
                   bool named, ccl_collective_kind_t kind) {
    if (args->run && args->run != index + 1)
        return false;
    if (args->ranks && args->ranks != run->nranks)
        return false;
    return !named || !run->known || run->kind == kind;
}

ccl_status_t ccl_i_measured_take(const ccl_i_clusters_t *clusters, const ccl_measured_run_t *run,
                                 ccl_topology_t **out, ccl_error_t *err) {
    for (uint32_t t = 0; t < clusters->n; t++) { /* the first cluster that it fits */
        ccl_error_t *why = t + 1 < clusters->n ? NULL : err;
        ccl_status_t status =
            ccl_topology_take(clusters->items[t], run->nranks, run->nhosts, out, why);
        if (status == CCL_OK || t + 1 == clusters->n)
            return status;
    }
    return CCL_ERR_INTERNAL;
}

/** Has the run times, a cluster its GPUs, and is its collective known? Else why. */
static bool usable(const char *path, const ccl_i_clusters_t *clusters,
                   const ccl_measured_run_t *run, bool in_place, ccl_error_t *why) {
    ccl_topology_t *part = NULL;
    bool timed = false;

    for (uint32_t i = 0; i < run->npoints; i++)
        timed = timed || (in_place ? run->points[i].in_place_time_s : run->points[i].time_s) > 0;
    if (!timed) {
        ccl_error_set(why, CCL_ERR_INPUT, path, (int)run->line, 0, "nothing was measured %s",
                      in_place ? "in place" : "out of place (but in place: --in-place)");
        return false;
    }

    if (run->program[0])
        return true;
    if (ccl_i_measured_take(clusters, run, &part, why) != CCL_OK)
        return false;
    ccl_topology_destroy(part);
    if (run->known)
        return true;
    ccl_error_set(why, CCL_ERR_INPUT, path, (int)run->line, 0,
                  "the log does not say which collective it measured: --collective NAME");
    return false;
}

ccl_status_t ccl_i_measured_open(ccl_i_cli_t *cli, const char *path,
                                 const ccl_i_clusters_t *clusters, ccl_measured_log_t **log_out,
                                 const ccl_measured_run_t ***chosen_out, uint32_t *n_out,
                                 ccl_error_t *err) {
    const ccl_i_args_t *args = &cli->args;
    ccl_measured_log_t *log = NULL;
    const ccl_measured_run_t **chosen;
    ccl_collective_kind_t kind = CCL_ALLREDUCE;
    ccl_error_t last = CCL_ERROR_INIT;
    uint32_t n = 0;
    uint32_t left_out = 0;

    if (args->collective)
        CCL_TRY(ccl_collective_kind_parse(args->collective, &kind, err));
    CCL_TRY(ccl_measured_read(path, &log, err));
    chosen = calloc(log->nruns, sizeof(*chosen));
    ccl_status_t status = chosen ? CCL_OK : ccl_fail_nomem(err);
    for (uint32_t r = 0; status == CCL_OK && r < log->nruns; r++) {
        /* The log is ours: what it does not say, the command line does. */
        ccl_measured_run_t *run = (ccl_measured_run_t *)&log->runs[r];
        ccl_error_t why = CCL_ERROR_INIT;

        if (!wanted(args, run, r, args->collective != NULL, kind))
            continue;
        if (!run->known && args->collective) {
            run->known = true;
            run->kind = kind;
        }
        if (run->nranks == 0 && !run->program[0])
            run->nranks = args->ranks ? args->ranks : clusters->items[0]->nranks;
        if (usable(path, clusters, run, args->in_place, &why)) {
            chosen[n++] = run;
        } else {
            last = why;
            left_out++;
        }
    }
    if (status == CCL_OK && n == 0) {
        status = left_out ? last.status : none_left(cli, path, log, err);
        if (left_out && err)
            *err = last;
    }
    if (status != CCL_OK) {
        free(chosen);
        ccl_measured_log_destroy(log);
        return status;
    }
    if (left_out)
        ccl_log(&cli->ctx, CCL_LOG_WARN, "measured", "%s: %u runs are left out, the last as %s",
                path, left_out, last.text);
    if (log->nskipped)
        ccl_log(&cli->ctx, CCL_LOG_WARN, "measured",
                "%s:%u: a row cut short by other output is left out%s", path, log->first_skipped,
                log->nskipped > 1 ? ", and others" : "");
    *log_out = log;
    *chosen_out = chosen;
    *n_out = n;
    return CCL_OK;
}
