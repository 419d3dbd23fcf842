/* ccllab export: a winner for stock libraries; a program as a kernel (export_kernel.c) */
#include "cli/command.h"
#include "search/export/export.h"

#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { MOST_FILES = 512 };

typedef struct exported {
    ccl_topology_t *machine, *topo; /* as described; as timed */
    ccl_profile_t *profile;         /* NULL: none */
    char *copy;
    const char **words;
    uint32_t nwords, nkinds;
    ccl_collective_kind_t kinds[CCL_CUSTOM];
    double *sizes_bytes;
    uint32_t nsizes;
    ccl_notebook_t *notebook;
    ccl_export_table_t *table;
    ccl_report_file_t files[MOST_FILES]; /* paths owned */
    uint32_t nfiles;
} exported_t;

static void exported_fini(exported_t *e) {
    for (uint32_t i = 0; i < e->nfiles; i++)
        free((char *)(uintptr_t)e->files[i].path);
    ccl_export_table_destroy(e->table);
    ccl_notebook_close(e->notebook);
    ccl_profile_destroy(e->profile);
    ccl_topology_destroy(e->machine);
    ccl_topology_destroy(e->topo);
    free(e->sizes_bytes);
    free(e->words);
    free(e->copy);
}

static ccl_status_t note(exported_t *e, const char *dir, const char *name, const char *what,
                         ccl_error_t *err) {
    size_t len = strlen(dir) + strlen(name) + 2;
    char *path = malloc(len);

    if (!path)
        return ccl_fail_nomem(err);
    snprintf(path, len, "%s/%s", dir, name);
    if (e->nfiles == MOST_FILES) {
        free(path);
        return CCL_OK;
    }
    e->files[e->nfiles++] = (ccl_report_file_t){path, what};
    return CCL_OK;
}

/* ---------------------------------------------------------------- what is asked */

/** Collectives of --collective; without: those that NCCL asks its tuner for. */
static ccl_status_t open_kinds(ccl_i_cli_t *cli, exported_t *e, ccl_error_t *err) {
    static const ccl_collective_kind_t tuned[] = {CCL_ALLREDUCE, CCL_ALLGATHER, CCL_REDUCESCATTER,
                                                  CCL_BROADCAST, CCL_REDUCE};

    if (!cli->args.collective) {
        memcpy(e->kinds, tuned, sizeof(tuned));
        e->nkinds = CCL_ARRAY_LEN(tuned);
        return CCL_OK;
    }
    CCL_TRY(ccl_i_words("collective", cli->args.collective, &e->copy, &e->words, &e->nwords, err));
    for (uint32_t i = 0; i < e->nwords; i++) {
        ccl_collective_t *coll = NULL;
        bool known = false;

        CCL_TRY(ccl_i_collective_open(&cli->args, e->words[i], e->topo->nranks, &coll, err));
        for (uint32_t k = 0; k < e->nkinds; k++)
            known = known || e->kinds[k] == coll->kind;
        if (!known && e->nkinds < CCL_CUSTOM)
            e->kinds[e->nkinds++] = coll->kind;
        ccl_collective_destroy(coll);
    }
    return CCL_OK;
}

static ccl_status_t open_all(ccl_i_cli_t *cli, exported_t *e, ccl_error_t *err) {
    const ccl_i_args_t *args = &cli->args;

    CCL_TRY(ccl_i_topology_open(cli, args->topology, &e->machine, err));
    CCL_TRY(ccl_i_cluster_profile(cli, e->machine, &e->profile, err));
    CCL_TRY(ccl_i_cluster_open(cli, args->topology, NULL, NULL, &e->topo, err));
    CCL_TRY(open_kinds(cli, e, err));
    return ccl_i_sizes(args->sizes ? args->sizes : "64K:1G:4", &e->sizes_bytes, &e->nsizes, err);
}

/* ---------------------------------------------------------------- the tuner plugin */

/** $CC or cc on the source; @retval CCL_ERR_MISSING  there is none. */
static ccl_status_t compile(const char *source, const char *object, ccl_error_t *err) {
    const char *given = getenv("CC");
    char *cc = strdup(given && *given ? given : "cc");
    char *argv[32] = {NULL}, *rest = NULL;
    const char *more[] = {"-std=c99", "-O2",  "-fPIC", "-shared", "-fvisibility=hidden",
                          "-o",       object, source};
    size_t n = 0;
    pid_t pid;
    int state = 0, failed;

    if (!cc)
        return ccl_fail_nomem(err);
    for (char *word = strtok_r(cc, " ", &rest); word && n < 16; word = strtok_r(NULL, " ", &rest))
        argv[n++] = word; /* CC may be "ccache gcc" */
    for (size_t i = 0; i < CCL_ARRAY_LEN(more); i++)
        argv[n++] = (char *)(uintptr_t)more[i];
    failed = argv[0] ? posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ) : ENOENT;
    while (!failed && waitpid(pid, &state, 0) < 0 && errno == EINTR)
        continue;
    free(cc);
    if (failed)
        return ccl_fail(err, CCL_ERR_MISSING,
                        "no C compiler (%s; $CC names one), so the source alone was written: cc "
                        "-O2 -shared -fPIC -o %s %s",
                        strerror(failed), object, source);
    if (!WIFEXITED(state) || WEXITSTATUS(state) != 0)
        return ccl_fail(err, CCL_ERR_MISSING,
                        "the C compiler did not take %s, so the source alone was written", source);
    return CCL_OK;
}

static ccl_status_t plugin(ccl_i_cli_t *cli, exported_t *e, ccl_error_t *err) {
    static const char source[] = "nccl-tuner-ccllab.c", object[] = "libnccl-tuner-ccllab.so";
    const char *dir = cli->args.tune.tuner_plugin;
    char from[1200], to[1200];
    ccl_text_t text = {0};
    ccl_error_t why = CCL_ERROR_INIT;
    ccl_status_t status;

    CCL_TRY(ccl_i_export_folder(dir, err));
    CCL_TRY(ccl_export_table_plugin(e->table, &text, err));
    CCL_TRY(ccl_i_export_file(cli, dir, source, &text, err));
    CCL_TRY(note(e, dir, source, "tuner plugin for NCCL and RCCL, in C", err));
    snprintf(from, sizeof(from), "%s/%s", dir, source);
    snprintf(to, sizeof(to), "%s/%s", dir, object);
    status = compile(from, to, &why);
    if (status == CCL_ERR_MISSING) {
        unlink(to); /* one of another table must not be taken for this one's */
        ccl_log(&cli->ctx, CCL_LOG_WARN, "export", "%s", why.text);
        return CCL_OK;
    }
    if (status != CCL_OK) {
        *err = why;
        return status;
    }
    ccl_log(&cli->ctx, CCL_LOG_INFO, "export", "%s", to);
    return note(e, dir, object, "the same, for NCCL_TUNER_PLUGIN", err);
}

/** Choices are made unless only plans are asked for; harm is an answer. */
static ccl_status_t table(ccl_i_cli_t *cli, exported_t *e, ccl_error_t *err) {
    ccl_collective_kind_t kinds[CCL_CUSTOM];
    uint32_t n = 0;

    if (cli->args.tune.plans && !cli->args.tune.tuner_plugin)
        return CCL_OK;
    for (uint32_t k = 0; k < e->nkinds; k++) {
        if (ccl_export_nccl_asks(e->kinds[k]) || !cli->args.tune.plans)
            kinds[n++] = e->kinds[k];
        else
            ccl_log(&cli->ctx, CCL_LOG_WARN, "export", "NCCL does not ask its tuner for %s",
                    ccl_collective_kind_name(e->kinds[k]));
    }
    return ccl_export_table_create(&cli->ctx, e->machine, e->profile, cli->args.registered, kinds,
                                   n, e->sizes_bytes, e->nsizes, &e->table, err);
}

/* ---------------------------------------------------------------- plans */

/** One plan, under a name that no other has: MSCCL++ keeps plans by it. */
static ccl_status_t write_plan(ccl_i_cli_t *cli, exported_t *e, ccl_program_t *program,
                               bool in_place, ccl_error_t *err) {
    ccl_text_t text = {0};
    char name[200], file[220];
    ccl_status_t status;

    snprintf(name, sizeof(name), "%.60s-%u-%.0f-%.0f-%s", program->coll->name, program->nranks,
             program->min_bytes, program->max_bytes, in_place ? "inplace" : "outofplace");
    snprintf(file, sizeof(file), "%s.json", name);
    status = ccl_program_write_mscclpp_as(program, e->topo, name, &text, err);
    if (status == CCL_OK)
        status = ccl_i_export_file(cli, cli->args.tune.plans, file, &text, err);
    if (status == CCL_OK)
        status = note(e, cli->args.tune.plans, file, "execution plan of MSCCL++", err);
    if (status == CCL_OK)
        ccl_log(&cli->ctx, CCL_LOG_WARN, "export",
                "%s: MSCCL++ ends an application that calls it with a message that is no multiple "
                "of %u bytes",
                file, ccl_export_plan_multiple(program));
    ccl_text_fini(&text);
    return status;
}

/** Which calls MSCCL++ takes by plans: ReduceScatter in place is seen as such by rank 0 alone. */
static bool may_be(ccl_collective_kind_t kind, bool in_place) {
    return !in_place || (kind != CCL_REDUCESCATTER && kind != CCL_ALLTOALL);
}

static ccl_status_t write_plans(ccl_i_cli_t *cli, exported_t *e, const ccl_collective_t *want,
                                const ccl_tuning_t *tuning, ccl_error_t *err) {
    uint32_t written = 0;
    ccl_status_t status = CCL_OK;

    for (int in_place = 0; in_place < 2 && status == CCL_OK; in_place++) {
        ccl_export_t *list = NULL;
        uint32_t n = 0;

        if (!may_be(want->kind, in_place))
            continue;
        status = ccl_export_plans(&cli->ctx, e->topo, want, tuning, in_place, &list, &n, err);
        for (uint32_t i = 0; i < n && status == CCL_OK; i++)
            status = write_plan(cli, e, list[i].program, in_place, err);
        written += n;
        ccl_exports_destroy(list, n);
    }
    if (status == CCL_OK && written == 0)
        ccl_log(&cli->ctx, CCL_LOG_WARN, "export", "no program of %s fits MSCCL++", want->name);
    return status;
}

/** What tune finds for a collective, from the notebook where it is there. */
static ccl_status_t plans_of(ccl_i_cli_t *cli, exported_t *e, ccl_collective_kind_t kind,
                             ccl_error_t *err) {
    ccl_tune_options_t options = CCL_TUNE_OPTIONS_INIT;
    ccl_collective_t *want = NULL;
    ccl_space_t *space = NULL;
    ccl_tuning_t *tuning = NULL;
    ccl_status_t status = ccl_i_tune_options(cli, &options, &space, err);

    if (status == CCL_OK)
        status = ccl_collective_create(kind, e->topo->nranks, 1, cli->args.root, &want, err);
    options.profile = *e->topo->profile ? e->topo->profile : NULL;
    options.machine = e->machine;
    options.sizes_bytes = e->sizes_bytes;
    options.nsizes = e->nsizes;
    options.notebook = e->notebook;
    if (status == CCL_OK)
        status = ccl_tune(&cli->ctx, e->topo, want, &options, &tuning, err);
    if (status == CCL_OK)
        status = write_plans(cli, e, want, tuning, err);
    ccl_tuning_destroy(tuning);
    ccl_space_destroy(space);
    ccl_collective_destroy(want);
    return status;
}

static ccl_status_t plans(ccl_i_cli_t *cli, exported_t *e, ccl_error_t *err) {
    CCL_TRY(ccl_i_export_folder(cli->args.tune.plans, err));
    if (!ccl_i_notebook_none(&cli->args))
        CCL_TRY(ccl_i_notebook_open(cli, true, &e->notebook, err));
    for (uint32_t k = 0; k < e->nkinds; k++)
        CCL_TRY(plans_of(cli, e, e->kinds[k], err));
    return CCL_OK;
}

/* ---------------------------------------------------------------- the command */

static ccl_status_t print(ccl_i_cli_t *cli, const exported_t *e, ccl_error_t *err) {
    ccl_report_export_t about = {.topology = e->machine->name,
                                 .profile = *e->topo->profile ? e->topo->profile : NULL,
                                 .hash = e->table ? e->table->hash : NULL,
                                 .table = e->table,
                                 .files = e->files,
                                 .nfiles = e->nfiles,
                                 .nranks = e->machine->nranks,
                                 .nnodes = e->table ? e->table->nnodes : CCL_NONE,
                                 .registered = cli->args.registered};
    ccl_text_t text = {.columns = cli->style.columns};
    ccl_status_t status = ccl_report_export(&about, &cli->style, &text, err);

    if (status == CCL_OK)
        status = ccl_i_emit(cli, &text, err);
    ccl_text_fini(&text);
    return status;
}

static ccl_status_t for_libraries(ccl_i_cli_t *cli, ccl_error_t *err) {
    exported_t e = {0};
    ccl_status_t status = open_all(cli, &e, err);

    if (status == CCL_OK)
        status = table(cli, &e, err);
    if (status == CCL_OK && cli->args.tune.tuner_plugin)
        status = plugin(cli, &e, err);
    if (status == CCL_OK && cli->args.tune.plans)
        status = plans(cli, &e, err);
    if (status == CCL_OK)
        status = print(cli, &e, err);
    exported_fini(&e);
    return status;
}

/** Options of the one, which the other does not take; kernels have those of lowering, too. */
static const char *const of_kernels[] = {"cuda",  "hip",   "api",     "size",         "slots",
                                         "slice", "proto", "no-fuse", "out-of-place", NULL};
static const char *const of_libraries[] = {
    "fail",     "degrade",  "scale",        "set",   "profile",    "collective", "root",
    "sizes",    "budget",   "space",        "knob",  "registered", "gap",        "improve",
    "strategy", "notebook", "tuner-plugin", "plans", NULL};

static ccl_status_t run(ccl_i_cli_t *cli, ccl_error_t *err) {
    const ccl_i_args_t *args = &cli->args;
    bool kernel = args->inputs.n || args->kernel.cuda || args->kernel.hip;
    const char *alien = kernel ? NULL : ccl_i_lowering_given(args, true);

    for (const char *const *name = kernel ? of_libraries : of_kernels; !alien && *name; name++)
        alien = ccl_i_given(args, *name) ? *name : NULL;
    if (alien)
        return ccl_fail(err, CCL_ERR_USAGE,
                        kernel ? "--%s does not go with PROGRAM --cuda FILE or --hip FILE"
                               : "--%s goes with PROGRAM --cuda FILE or --hip FILE",
                        alien);
    return kernel ? ccl_i_export_kernel(cli, err) : for_libraries(cli, err);
}

static const char *const accepts[] = {
    "topology",     "fail",       "degrade",      "scale",    "set",
    "profile",      "collective", "root",         "sizes",    "plugin",
    "tuner-plugin", "plans",      "budget",       "space",    "knob",
    "registered",   "gap",        "improve",      "strategy", "notebook@tune",
    "cuda",         "hip",        "api",          "size",     "slots@run",
    "granularity",  "slice",      CCL_I_LOWERING, NULL};
const ccl_i_command_t ccl_i_cmd_export = {
    .name = "export",
    .usage = "--topology SPEC [options] | PROGRAM --cuda FILE.cu|--hip FILE.cpp [options]",
    .summary = "a winner for use: NCCL tuner plugin, calls of NCCL, MSCCL++ plans, a kernel",
    .details =
        "Prints, per collective and range of sizes, which of NCCL's own algorithms and protocols\n"
        "is fastest by the model, beside what NCCL takes by itself; --json has it as members of\n"
        "ncclCollConfig_t (NCCL 2.31). --tuner-plugin writes the same as a plugin that stock\n"
        "NCCL and RCCL load, --plans the best schedules as execution plans of MSCCL++, found as\n"
        "tune finds them (from the notebook where it has them). docs/howto/use-a-winner.md says\n"
        "what runs where. Without --collective: those that NCCL asks a tuner for.\n"
        "PROGRAM is a program (MSCCL XML) or a schedule, which is lowered first. --cuda and --hip\n"
        "write it as one source file for nvcc or hipcc that needs nothing of ccllab: thread\n"
        "blocks as straight code for any number of items, type and reduction, a host function\n"
        "of NCCL's shape, and a main() that checks the data. --api own needs CUDA or HIP alone\n"
        "and connects the GPUs of one host, of one process or several; --api nccl uses NCCL's\n"
        "device API (2.28 and newer), also between hosts. --topology says how many thread\n"
        "blocks its GPUs hold. docs/kernels.md has the rest.\n",
    .examples = "ccllab export -t dgx-h100 -c allreduce --sizes 64K:256M:4 --tuner-plugin tuner\n"
                "ccllab export -t dgx-a100 -c allreduce --sizes 1M,64M --json\n"
                "ccllab export -t dgx-a100 -c allgather --sizes 1M --budget 20runs --plans p\n"
                "ccllab export ring.xml --cuda ring.cu\n"
                "ccllab export ring.xml --cuda ring.cu --api nccl --proto LL128\n",
    .accepts = accepts,
    .max_inputs = 1,
    .no = "a table for NCCL's tuner would do harm, or it cannot be exported",
    .run = run,
};
