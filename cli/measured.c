/* Measured runs that a command is asked for. */
#include "cli/command.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define AVERAGE_OFF 0.03 /* of nccl-tests' own mean, from which on rows are missing */

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

/** Words of a list: "allgather, alltoall or gather". */
static void kinds_text(uint32_t kinds, char *out, size_t out_len) {
    size_t at = 0;

    out[0] = '\0';
    for (int k = 0; k < CCL_CUSTOM; k++) {
        if (!(kinds >> k & 1))
            continue;
        kinds &= ~(1u << k);
        const char *before = at == 0 ? "" : kinds >> k ? ", " : " or ";
        at += (size_t)snprintf(out + at, out_len - at, "%s%s", before,
                               ccl_collective_kind_name((ccl_collective_kind_t)k));
        if (at >= out_len)
            return;
    }
}

/** The one collective that the rows can be of, or a line that asks. */
static bool named(const char *path, ccl_measured_run_t *run, ccl_error_t *why) {
    uint32_t may = ccl_measured_candidates(run);
    char names[200];

    if (!run->known && may && !(may & (may - 1))) {
        run->known = true;
        for (int k = 0; k < CCL_CUSTOM; k++)
            if (may >> k & 1)
                run->kind = (ccl_collective_kind_t)k;
    }
    if (run->known)
        return true;
    kinds_text(may, names, sizeof(names));
    if (may)
        ccl_error_set(
            why, CCL_ERR_INPUT, path, (int)run->line, 0,
            "the log does not name the collective; busbw / algbw is %.4g, on %u ranks that "
            "of %s: say which with -c, --collective NAME",
            run->factor, run->nranks, names);
    else if (run->factor > 0)
        ccl_error_set(why, CCL_ERR_INPUT, path, (int)run->line, 0,
                      "the log does not name the collective, and busbw / algbw of %.4g is that of "
                      "none on %u ranks: check --ranks, or say which with -c, --collective NAME",
                      run->factor, run->nranks);
    else
        ccl_error_set(why, CCL_ERR_INPUT, path, (int)run->line, 0,
                      "the log does not say which collective it measured: -c, --collective NAME");
    return false;
}

/** The cluster of as many such servers as the run needs: "; -t 'dgx-h100*2' has them"; else "". */
static void propose(ccl_i_cli_t *cli, const ccl_topology_t *topo, const ccl_measured_run_t *run,
                    char *out, size_t out_len) {
    const char *spec =
        cli->args.topologies.n == 1 ? cli->args.topologies.items[0] : cli->args.topology;
    ccl_topology_t *larger = NULL, *part = NULL;
    uint32_t servers = 0;
    char text[200];

    out[0] = '\0';
    if (!spec)
        return;
    for (uint32_t r = 0; r < topo->nranks; r++) {
        uint32_t server = topo->devices[topo->rank_device[r]].server;
        servers = server + 1 > servers ? server + 1 : servers;
    }
    uint32_t each = topo->nranks / (servers ? servers : 1);
    uint32_t n = each ? (run->nranks + each - 1) / each : 0;
    n = run->nhosts > n ? run->nhosts : n;
    int name = (int)strcspn(spec, "*");
    if (n <= servers || n > 65536 || name > 100)
        return;
    snprintf(text, sizeof(text), "%.*s*%u", name, spec, n);
    if (ccl_topology_read(&cli->ctx, text, &larger, NULL) == CCL_OK &&
        ccl_topology_take(larger, run->nranks, run->nhosts, &part, NULL) == CCL_OK)
        snprintf(out, out_len, ": -t '%s' has %u", text, larger->nranks);
    ccl_topology_destroy(part);
    ccl_topology_destroy(larger);
}

/** Has the run times, a cluster its GPUs, and is its collective known? Else why. */
static bool usable(ccl_i_cli_t *cli, const char *path, const ccl_i_clusters_t *clusters,
                   ccl_measured_run_t *run, ccl_error_t *why) {
    ccl_topology_t *part = NULL;
    bool in_place = cli->args.in_place, timed = false;
    char more[300];

    for (uint32_t i = 0; i < run->npoints; i++)
        timed = timed || (in_place ? run->points[i].in_place_time_s : run->points[i].time_s) > 0;
    if (!timed) {
        ccl_error_set(why, CCL_ERR_INPUT, path, (int)run->line, 0, "nothing was measured %s",
                      in_place ? "in place" : "out of place (but in place: --in-place)");
        return false;
    }

    if (run->program[0])
        return true;
    ccl_status_t status = ccl_i_measured_take(clusters, run, &part, why);
    if (status == CCL_ERR_INPUT) {
        propose(cli, clusters->items[clusters->n - 1], run, more, sizeof(more));
        ccl_error_t own = *why;
        ccl_error_clear(why);
        ccl_error_set(why, status, path, (int)run->line, 0, "%s%s", own.text, more);
    }
    if (status != CCL_OK)
        return false;
    ccl_topology_destroy(part);
    return named(path, run, why);
}

/** "H100" of "NVIDIA H100 80GB HBM3": letters, then at least two digits; "": there is none. */
static void model_of(const char *gpu, char *out, size_t out_len) {
    out[0] = '\0';
    for (size_t i = 0; gpu[i];) {
        size_t letters = 0, digits = 0, len = 0;
        while (isalnum((unsigned char)gpu[i + len])) {
            bool digit = isdigit((unsigned char)gpu[i + len]) != 0;
            digits += digit;
            letters += !digit && digits == 0;
            len++;
        }
        if (letters > 0 && digits >= 2 && len < out_len) {
            memcpy(out, gpu + i, len);
            out[len] = '\0';
            return;
        }
        i += len ? len : 1;
    }
}

/** One line each about what the log and the command line say differently. */
static void compare(ccl_i_cli_t *cli, const char *path, const ccl_i_clusters_t *clusters,
                    const ccl_measured_run_t *const *runs, uint32_t n) {
    char names[200], model[40];
    bool gpu_told = false;

    for (uint32_t r = 0; r < n; r++) {
        const ccl_measured_run_t *run = runs[r];
        uint32_t may = ccl_measured_candidates(run);
        bool alike = false, knows = false;
        model_of(run->gpu, model, sizeof(model));
        for (uint32_t t = 0; t < clusters->n; t++)
            for (uint32_t g = 0; g < clusters->items[t]->ngpu_models; g++) {
                char other[40];
                model_of(clusters->items[t]->gpu_models[g].name, other, sizeof(other));
                knows = knows || other[0];
                alike = alike || strcmp(other, model) == 0;
            }
        if (model[0] && knows && !alike && !gpu_told)
            ccl_log(&cli->ctx, CCL_LOG_WARN, "measured",
                    "%s:%u: the log is of %s, cluster \"%s\" has %s", path, run->line, run->gpu,
                    clusters->items[0]->name, clusters->items[0]->gpu_models[0].name);
        gpu_told = gpu_told || (model[0] && knows && !alike);
        if (may && !run->program[0] && !(may >> run->kind & 1)) {
            kinds_text(may, names, sizeof(names));
            ccl_log(&cli->ctx, CCL_LOG_WARN, "measured",
                    "%s:%u: taken for %s, but busbw / algbw is %.4g, on %u ranks that of %s", path,
                    run->line, ccl_collective_kind_name(run->kind), run->factor, run->nranks,
                    names);
        }
        if (run->average_GBps > 0 && fabs(run->rows_GBps / run->average_GBps - 1) > AVERAGE_OFF)
            ccl_log(&cli->ctx, CCL_LOG_WARN, "measured",
                    "%s:%u: the log's \"Avg bus bandwidth\" is %.4g GB/s, its rows have %.4g: rows "
                    "are missing, or of another run",
                    path, run->line, run->average_GBps, run->rows_GBps);
    }
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
        if (usable(cli, path, clusters, run, &why)) {
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
    compare(cli, path, clusters, chosen, n);
    if (log->nskipped)
        ccl_log(&cli->ctx, CCL_LOG_WARN, "measured",
                "%s:%u: a row cut short by other output is left out%s", path, log->first_skipped,
                log->nskipped > 1 ? ", and others" : "");
    *log_out = log;
    *chosen_out = chosen;
    *n_out = n;
    return CCL_OK;
}
