/* Measured runs of several files, each on the GPUs that it used. */
#include "cli/command.h"

#include <stdlib.h>
#include <string.h>

void ccl_i_sources_fini(ccl_i_sources_t *s) {
    for (uint32_t i = 0; i < s->nlogs; i++)
        ccl_measured_log_destroy(s->logs[i]);
    for (uint32_t i = 0; i < s->nparts; i++)
        ccl_topology_destroy(s->parts[i]);
    for (uint32_t i = 0; i < s->nclusters; i++)
        ccl_topology_destroy(s->clusters[i]);
    for (uint32_t i = 0; i < s->nprograms; i++) {
        ccl_program_destroy(s->programs[i]);
        free(s->paths[i]);
    }
    free(s->logs);
    free(s->parts);
    free(s->clusters);
    free(s->programs);
    free(s->paths);
    free(s->items);
}

/** One of the same GPUs that is there already: sources of one cluster share it. */
static ccl_status_t take_part(ccl_i_sources_t *s, const ccl_i_clusters_t *clusters,
                              const ccl_measured_run_t *run, const ccl_topology_t **out,
                              ccl_error_t *err) {
    for (uint32_t i = 0; i < s->n; i++) {
        const ccl_measured_source_t *old = &s->items[i];
        if (old->run->nranks == run->nranks && old->run->nhosts == run->nhosts) {
            *out = old->topo;
            return CCL_OK;
        }
    }
    ccl_topology_t **parts = realloc(s->parts, (s->nparts + (size_t)1) * sizeof *parts);
    if (!parts)
        return ccl_fail_nomem(err);
    s->parts = parts;
    CCL_TRY(ccl_i_measured_take(clusters, run, &parts[s->nparts], err));
    *out = parts[s->nparts++];
    return CCL_OK;
}

/** "runs/a.csv" and "xml/b.xml": "runs/xml/b.xml". */
static char *beside(const char *file, const char *path) {
    const char *slash = strrchr(file, '/');
    size_t folder = slash && path[0] != '/' ? (size_t)(slash - file) + 1 : 0;
    char *out = malloc(folder + strlen(path) + 1);
    if (out)
        sprintf(out, "%.*s%s", (int)folder, file, path);
    return out;
}

/** The program of a run; of a schedule as it is lowered for the run's cluster and sizes. */
static ccl_status_t open_program(ccl_i_cli_t *cli, ccl_i_sources_t *s, const char *file,
                                 const ccl_i_clusters_t *clusters, ccl_measured_run_t *run,
                                 const ccl_program_t **out, ccl_error_t *err) {
    ccl_i_document_t document = {NULL, NULL};
    const char *form = "";
    const ccl_topology_t *topo = NULL;
    char *path = beside(file, run->program);
    if (!path)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < s->nprograms; i++)
        if (strcmp(s->paths[i], path) == 0) {
            *out = s->programs[i];
            run->nranks = (*out)->nranks;
            free(path);
            return CCL_OK;
        }
    ccl_program_t **programs = realloc(s->programs, (s->nprograms + (size_t)1) * sizeof *programs);
    s->programs = programs ? programs : s->programs;
    char **paths = programs ? realloc(s->paths, (s->nprograms + (size_t)1) * sizeof *paths) : NULL;
    s->paths = paths ? paths : s->paths;
    ccl_status_t status =
        paths ? ccl_i_document_read(path, &document, &form, err) : ccl_fail_nomem(err);
    if (status == CCL_OK) {
        run->nranks = document.program ? document.program->nranks : document.schedule->coll->nranks;
        status = take_part(s, clusters, run, &topo, err);
    }
    if (status == CCL_OK)
        status = ccl_i_document_lower(cli, topo, NULL, run->points[run->npoints / 2].size_bytes,
                                      &document, err);
    if (status == CCL_OK) {
        programs[s->nprograms] = document.program;
        paths[s->nprograms++] = path;
        *out = document.program;
        document.program = NULL;
        path = NULL;
    }
    ccl_i_document_fini(&document);
    free(path);
    return status;
}

static ccl_status_t add_file(ccl_i_cli_t *cli, ccl_i_sources_t *s, const char *file,
                             const ccl_i_clusters_t *clusters, ccl_error_t *err) {
    const ccl_measured_run_t **runs = NULL;
    uint32_t n = 0;
    CCL_TRY(ccl_i_measured_open(cli, file, clusters, &s->logs[s->nlogs], &runs, &n, err));
    s->nlogs++;
    ccl_measured_source_t *items = realloc(s->items, (s->n + (size_t)n) * sizeof *items);
    ccl_status_t status = items ? CCL_OK : ccl_fail_nomem(err);
    s->items = items ? items : s->items;
    for (uint32_t r = 0; status == CCL_OK && r < n; r++) {
        ccl_measured_run_t *run = (ccl_measured_run_t *)runs[r]; /* the log is ours */
        ccl_measured_source_t made = {.name = file, .run = run};
        ccl_error_t own = CCL_ERROR_INIT;
        if (run->program[0])
            status = open_program(cli, s, file, clusters, run, &made.program, &own);
        if (status == CCL_OK)
            status = take_part(s, clusters, run, &made.topo, &own);
        if (status != CCL_OK && run->program[0] && status != CCL_ERR_NOMEM)
            ccl_error_set(err, status, file, (int)run->line, 0, "%s%s%s", own.where,
                          own.where[0] ? ": " : "", own.text);
        else if (status != CCL_OK)
            *err = own;
        if (status == CCL_OK)
            s->items[s->n++] = made;
    }
    free(runs);
    return status;
}

ccl_status_t ccl_i_sources_open(ccl_i_cli_t *cli, const ccl_i_list_t *files, ccl_i_sources_t *out,
                                ccl_error_t *err) {
    const ccl_i_list_t *specs = &cli->args.topologies;
    if (specs->n == 0)
        return ccl_i_topology_open(cli, NULL, NULL, err); /* says that there is none */
    out->clusters = calloc(specs->n, sizeof *out->clusters);
    out->logs = calloc(files->n, sizeof *out->logs);
    if (!out->clusters || !out->logs)
        return ccl_fail_nomem(err);
    for (size_t t = 0; t < specs->n; t++) {
        CCL_TRY(ccl_i_topology_open(cli, specs->items[t], &out->clusters[t], err));
        out->nclusters++;
    }
    const ccl_i_clusters_t clusters = {out->nclusters,
                                       (const ccl_topology_t *const *)out->clusters};
    for (size_t f = 0; f < files->n; f++)
        CCL_TRY(add_file(cli, out, files->items[f], &clusters, err));
    return CCL_OK;
}
