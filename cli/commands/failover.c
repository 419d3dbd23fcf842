/* ccllab failover */
#include "cli/command.h"

#include <stdlib.h>
#include <string.h>

typedef struct failover {
    ccl_i_cli_t *cli;
    ccl_topology_t *topo, *machine; /* machine: without the profile; NULL: there is none */
    ccl_collective_t *want;
    ccl_i_synth_files_t files;
    double *sizes_bytes;
    uint32_t nsizes;
    char *with_copy;
    const char **with;
    uint32_t nwith;
    ccl_contender_t *contenders;
    uint32_t ncontenders;
    ccl_failover_t *result;
    char **programs; /* [ncases + 1][nsizes] names of files that were written; NULL: no --export */
    size_t nprograms;
} failover_t;

static void failover_fini(failover_t *f) {
    for (size_t i = 0; f->programs && i < f->nprograms; i++)
        free(f->programs[i]);
    free(f->programs);
    ccl_failover_destroy(f->result);
    free(f->contenders);
    free(f->with);
    free(f->with_copy);
    free(f->sizes_bytes);
    ccl_i_synth_files_fini(&f->files);
    ccl_collective_destroy(f->want);
    ccl_topology_destroy(f->machine);
    ccl_topology_destroy(f->topo);
}

/* ---------------------------------------------------------------- who is asked */

/** By default all but those that search longest: there is a comparison per failure. */
static ccl_status_t choose(failover_t *f, ccl_error_t *err) {
    static const char *const slow[] = {"cegis", "sccl", "milp", NULL};

    f->contenders = calloc(ccl_i_contenders_room(f->nwith), sizeof(*f->contenders));
    if (!f->contenders)
        return ccl_fail_nomem(err);
    f->ncontenders = ccl_i_contenders(f->topo, f->with, f->nwith, slow, f->contenders);
    return CCL_OK;
}

/* ---------------------------------------------------------------- files */

/** "nic-s0_nic0-allreduce-64-1048576.xml"; "today-..." of the whole cluster. */
static void file_name(const failover_t *f, const ccl_failover_t *result, uint32_t which,
                      uint32_t size, char *out, size_t out_len) {
    const ccl_failure_t *failure = which == CCL_NONE ? NULL : &result->cases[which].failure;

    snprintf(out, out_len, "%s%s%.160s-%.40s-%u-%.0f.xml",
             failure ? ccl_failure_kind_name(failure->kind) : "today", failure ? "-" : "",
             failure ? failure->name : "", f->want->name,
             which == CCL_NONE ? f->want->nranks : result->cases[which].nranks,
             result->sizes_bytes[size]);
    for (char *p = out; *p; p++)
        if (strchr("/\\:*?\"<>| ", *p))
            *p = '_';
}

/** One program as soon as it is chosen, so that an interruption leaves it. */
static ccl_status_t write_program(const ccl_failover_t *result, uint32_t which, uint32_t size,
                                  const ccl_program_t *program, void *user, ccl_error_t *err) {
    failover_t *f = user;
    uint32_t row = which == CCL_NONE ? result->ncases : which;
    ccl_text_t text = {0};
    ccl_error_t inner = CCL_ERROR_INIT;
    char name[400];

    if (!f->programs) {
        f->nprograms = ((size_t)result->ncases + 1) * result->nsizes;
        f->programs = calloc(f->nprograms, sizeof(*f->programs));
        if (!f->programs)
            return ccl_fail_nomem(err);
    }
    file_name(f, result, which, size, name, sizeof(name));
    ccl_status_t status = ccl_program_write_xml(program, &text, &inner);
    if (status == CCL_UNSUPPORTED) {
        ccl_log(&f->cli->ctx, CCL_LOG_WARN, "export", "no %s: %s", name, inner.text);
        ccl_text_fini(&text);
        return CCL_OK;
    }
    if (status != CCL_OK && err)
        *err = inner;
    if (status == CCL_OK)
        status = ccl_i_export_file(f->cli, f->cli->args.tune.export, name, &text, err);
    ccl_text_fini(&text);
    if (status == CCL_OK && !(f->programs[(size_t)row * result->nsizes + size] = strdup(name)))
        status = ccl_fail_nomem(err);
    return status;
}

/** The JSON result beside the programs that it names. */
static ccl_status_t write_index(failover_t *f, const ccl_report_failover_t *about,
                                ccl_error_t *err) {
    ccl_report_style_t style = f->cli->style;
    ccl_text_t text = {0};

    style.format = CCL_REPORT_JSON;
    ccl_status_t status = ccl_report_failover(about, &style, &text, err);
    if (status == CCL_OK)
        status = ccl_i_export_file(f->cli, f->cli->args.tune.export, "index.json", &text, err);
    ccl_text_fini(&text);
    return status;
}

/* ---------------------------------------------------------------- run */

static ccl_status_t print(failover_t *f, ccl_error_t *err) {
    ccl_report_failover_t about = {f->topo, f->want, f->result, (const char *const *)f->programs};
    ccl_text_t text = {.columns = f->cli->style.columns};

    if (f->cli->args.tune.export)
        CCL_TRY(write_index(f, &about, err));
    ccl_status_t status = ccl_report_failover(&about, &f->cli->style, &text, err);
    if (status == CCL_OK)
        status = ccl_i_emit(f->cli, &text, err);
    ccl_text_fini(&text);
    return status;
}

static ccl_status_t open(failover_t *f, ccl_error_t *err) {
    const ccl_i_args_t *args = &f->cli->args;

    if (args->with) {
        CCL_TRY(ccl_i_words("with", args->with, &f->with_copy, &f->with, &f->nwith, err));
        CCL_TRY(ccl_i_contenders_check(f->with, f->nwith, err));
    }
    CCL_TRY(ccl_i_cluster_open(f->cli, args->topology, NULL, &f->machine, &f->topo, err));
    CCL_TRY(ccl_i_collective_open(args, args->collective, f->topo->nranks, &f->want, err));
    CCL_TRY(choose(f, err));
    if (args->tune.export)
        CCL_TRY(ccl_i_export_folder(args->tune.export, err));
    return ccl_i_sizes_of(args, f->want, "1M,64M,1G", &f->sizes_bytes, &f->nsizes, err);
}

/** --kinds as bits. */
static ccl_status_t kinds_of(const ccl_i_args_t *args, unsigned *out, ccl_error_t *err) {
    char *copy = NULL;
    const char **words = NULL;
    uint32_t n = 0;
    ccl_status_t status = CCL_OK;

    *out = 0;
    if (!args->kinds)
        return CCL_OK;
    CCL_TRY(ccl_i_words("kinds", args->kinds, &copy, &words, &n, err));
    for (uint32_t i = 0; i < n && status == CCL_OK; i++) {
        uint32_t k = 0;

        while (k < CCL_FAILURE_KINDS &&
               strcmp(words[i], ccl_failure_kind_name((ccl_failure_kind_t)k)) != 0)
            k++;
        if (k < CCL_FAILURE_KINDS)
            *out |= 1U << k;
        else
            status =
                ccl_fail(err, CCL_ERR_USAGE,
                         "option --kinds: \"%.80s\" is none of nic, link, gpu, server", words[i]);
    }
    free(words);
    free(copy);
    return status;
}

static ccl_status_t failover(failover_t *f, ccl_error_t *err) {
    const ccl_i_args_t *args = &f->cli->args;
    ccl_failover_options_t options = CCL_FAILOVER_OPTIONS_INIT;

    CCL_TRY(kinds_of(args, &options.kinds, err));
    CCL_TRY(open(f, err));
    options.compare.lower = ccl_i_lower_options(args);
    ccl_i_way(args, &options.compare.way_bits);
    options.compare.contenders = f->contenders;
    options.compare.ncontenders = f->ncontenders;
    options.compare.machine = f->machine;
    options.compare.registered = args->registered;
    options.compare.sizes_bytes = f->sizes_bytes;
    options.compare.nsizes = f->nsizes;
    CCL_TRY(ccl_i_synth_options(args, &f->files, &options.compare.synth, err));
    options.compare.sim = ccl_i_sim_options(args);
    options.compare.protocols = !ccl_i_given(args, "proto");
    options.all = args->all || f->nwith > 0;
    options.program = args->tune.export ? write_program : NULL;
    options.user = f;
    ccl_status_t status = ccl_failover(&f->cli->ctx, f->topo, f->want, &options, &f->result, err);
    if (!f->result)
        return status;
    CCL_TRY(print(f, err));
    if (status == CCL_INTERRUPTED)
        return ccl_fail(err, CCL_INTERRUPTED, "%u of %u failures are looked at",
                        f->result->finished, f->result->ncases);
    return status;
}

static ccl_status_t run(ccl_i_cli_t *cli, ccl_error_t *err) {
    failover_t f = {.cli = cli};
    ccl_status_t status = failover(&f, err);

    failover_fini(&f);
    return status;
}

static const char *const accepts[] = {"topology",    "fail",
                                      "degrade",     "scale",
                                      "set",         "profile",
                                      "collective",  "demand",
                                      "root",        "sizes",
                                      "with",        "all@failover",
                                      "kinds",       "export@failover",
                                      "registered",  "plugin",
                                      "granularity", "sharing",
                                      "batches",     "no-skip",
                                      "no-fold",     CCL_I_LOWERING,
                                      CCL_I_SYNTH,   NULL};
const ccl_i_command_t ccl_i_cmd_failover = {
    .name = "failover",
    .usage = "--topology SPEC --collective NAME [options]",
    .summary = "every single failure: what today's schedules lose, and what to run then",
    .details =
        "For each NIC, link and GPU that fails, and each server at half its bandwidth: what\n"
        "today's winner takes if it stays, over the routes that are left, what the best\n"
        "schedule for what is left takes, and the bound of the damaged cluster; the same of\n"
        "stock NCCL. Failures that are alike by symmetry are looked at once. After a GPU's "
        "failure\n"
        "the others go on. NCCL and all synthesizers but cegis, sccl and milp are compared on the\n"
        "whole cluster; those within twice the winner's time at some size are asked again after\n"
        "each failure (--all: all; --with: those named, all again). Every program is verified.\n",
    .examples = "ccllab failover -t \"dgx-h100*2\" -c allreduce --sizes 64M --with nccl,ring,hm\n"
                "ccllab failover -t heteccl-h20-4+8 -c allgather --kinds nic,gpu --export plans\n",
    .accepts = accepts,
    .no = "no synthesizer could run on the whole cluster",
    .run = run,
};
