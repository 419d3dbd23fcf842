/* ccllab compare */
#include "cli/command.h"

#include <stdlib.h>
#include <string.h>

/** What a comparison is made of; one fini for all. */
typedef struct compare {
    ccl_topology_t *topo;
    char *with_copy, *collectives_copy;
    const char **with, **words;
    uint32_t nwith, nwords;
    double *sizes_bytes;
    uint32_t nsizes;
    ccl_i_document_t *documents; /* of --program */
    char **titles;
    ccl_collective_t **collectives;
    ccl_comparison_t **comparisons;
    ccl_contender_t *contenders; /* room for all */
    uint32_t ncollectives;
} compare_t;

static void compare_fini(const ccl_i_cli_t *cli, compare_t *c) {
    for (uint32_t i = 0; i < c->ncollectives; i++) {
        if (c->comparisons)
            ccl_comparison_destroy(c->comparisons[i]);
        if (c->collectives)
            ccl_collective_destroy(c->collectives[i]);
    }
    for (size_t i = 0; i < cli->args.programs.n; i++) {
        if (c->documents)
            ccl_i_document_fini(&c->documents[i]);
        if (c->titles)
            free(c->titles[i]);
    }
    free(c->documents);
    free(c->titles);
    free(c->comparisons);
    free(c->collectives);
    free(c->contenders);
    free(c->sizes_bytes);
    free(c->with);
    free(c->with_copy);
    free(c->words);
    free(c->collectives_copy);
    ccl_topology_destroy(c->topo);
}

/* ---------------------------------------------------------------- what is compared */

static ccl_status_t check_names(const compare_t *c, ccl_error_t *err) {
    const char *names[128];
    size_t n = 0;

    for (const ccl_synth_ops_t *const *all = ccl_synth_all(); *all && n + 1 < CCL_ARRAY_LEN(names);
         all++)
        names[n++] = (*all)->name;
    names[n] = NULL;
    for (uint32_t i = 0; i < c->nwith; i++) {
        const char *near;

        if (ccl_synth_find(c->with[i]))
            continue;
        near = ccl_nearest(c->with[i], names);
        if (near)
            return ccl_fail(err, CCL_ERR_USAGE, "unknown synthesizer \"%s\", did you mean \"%s\"?",
                            c->with[i], near);
        return ccl_fail(err, CCL_ERR_USAGE, "unknown synthesizer \"%s\" (ccllab algos lists them)",
                        c->with[i]);
    }
    return CCL_OK;
}

static ccl_status_t open_collectives(ccl_i_cli_t *cli, compare_t *c, ccl_error_t *err) {
    uint32_t n = 1;

    if (!cli->args.demand && cli->args.collective) {
        CCL_TRY(ccl_i_words("collective", cli->args.collective, &c->collectives_copy, &c->words,
                            &c->nwords, err));
        n = c->nwords;
    }
    c->collectives = calloc(n, sizeof(*c->collectives));
    c->comparisons = calloc(n, sizeof(*c->comparisons));
    if (!c->collectives || !c->comparisons)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < n; i++) {
        CCL_TRY(ccl_i_collective_open(&cli->args, c->words ? c->words[i] : NULL, c->topo->nranks,
                                      &c->collectives[i], err));
        c->ncollectives++;
    }
    return CCL_OK;
}

static ccl_status_t open_sizes(ccl_i_cli_t *cli, compare_t *c, ccl_error_t *err) {
    if (!cli->args.sizes && c->collectives[0]->natural_bytes > 0) {
        c->sizes_bytes = malloc(sizeof(*c->sizes_bytes));
        if (!c->sizes_bytes)
            return ccl_fail_nomem(err);
        c->sizes_bytes[0] = c->collectives[0]->natural_bytes;
        c->nsizes = 1;
        return CCL_OK;
    }
    return ccl_i_sizes(cli->args.sizes ? cli->args.sizes : "1K:1G", &c->sizes_bytes, &c->nsizes,
                       err);
}

/** Does the program do what is compared? */
static bool same_collective(const ccl_collective_t *a, const ccl_collective_t *b) {
    return a->kind == b->kind && a->nranks == b->nranks && a->root == b->root;
}

/** Verdict on a program of the user's; printed where JSON or CSV is wanted. */
static ccl_status_t verify_program(ccl_i_cli_t *cli, const char *path, const char *form,
                                   const ccl_program_t *program, ccl_error_t *err) {
    ccl_verify_options_t options = CCL_VERIFY_OPTIONS_INIT;
    ccl_verdict_t verdict = {0};
    ccl_report_verdict_t about = {path, form, program->coll->name, program->nranks, &verdict, NULL};
    ccl_text_t text = {0};
    ccl_status_t status;

    options.granularity = (ccl_granularity_t)cli->args.granularity;
    options.skip_deadlock = true;
    CCL_TRY(ccl_program_verify(&cli->ctx, program, &options, &verdict, err));
    for (uint32_t i = 0; i < verdict.nwarnings && i < CCL_MAX_WARNINGS; i++)
        ccl_log(&cli->ctx, CCL_LOG_WARN, "verify", "%s: %s", path, verdict.warnings[i]);
    if (verdict.valid)
        return CCL_OK;
    status = ccl_report_verdict(&about, &cli->style, &text, err);
    if (status == CCL_OK && cli->style.format != CCL_REPORT_TEXT) {
        status = ccl_i_emit(cli, &text, err);
    } else if (status == CCL_OK) {
        if (text.len > 0 && text.data[text.len - 1] == '\n')
            text.data[text.len - 1] = '\0';
        ccl_error_set(err, CCL_CHECK, path, 0, 0, "%s", text.data ? text.data : "invalid");
    }
    ccl_text_fini(&text);
    return status == CCL_OK ? CCL_CHECK : status;
}

/** "dir/allgather_8.xml" is shown as "allgather_8". */
static char *title_of(const char *path) {
    char title[121];

    ccl_file_title(path, title, sizeof(title));
    return strdup(title);
}

static ccl_status_t open_programs(ccl_i_cli_t *cli, compare_t *c, ccl_error_t *err) {
    size_t n = cli->args.programs.n;

    if (n == 0)
        return CCL_OK;
    c->documents = calloc(n, sizeof(*c->documents));
    c->titles = calloc(n, sizeof(*c->titles));
    if (!c->documents || !c->titles)
        return ccl_fail_nomem(err);
    for (size_t i = 0; i < n; i++) {
        const char *path = cli->args.programs.items[i];
        const ccl_program_t *program;
        const char *form;
        bool fits = false;

        CCL_TRY(ccl_i_document_read(path, &c->documents[i], &form, err));
        CCL_TRY(ccl_i_document_lower(cli, c->topo, &c->documents[i], err));
        program = c->documents[i].program;
        if (program->nranks != c->topo->nranks)
            return ccl_error_set(err, CCL_ERR_INPUT, path, 0, 0,
                                 "a %s for %u ranks, but %s has %u GPUs", form, program->nranks,
                                 c->topo->name, c->topo->nranks);
        for (uint32_t k = 0; k < c->ncollectives; k++)
            fits = fits || same_collective(program->coll, c->collectives[k]);
        if (!fits)
            return ccl_error_set(err, CCL_ERR_INPUT, path, 0, 0,
                                 "does %s (root %u), which is not compared here",
                                 program->coll->name, program->coll->root);
        if (!cli->args.no_verify)
            CCL_TRY(verify_program(cli, path, form, program, err));
        c->titles[i] = title_of(path);
        if (!c->titles[i])
            return ccl_fail_nomem(err);
    }
    return CCL_OK;
}

/** Contenders for collective k: the chosen synthesizers, then the programs that do it. */
static uint32_t choose(const ccl_i_cli_t *cli, compare_t *c, uint32_t k) {
    uint32_t n = 0;

    if (c->nwith > 0) {
        for (uint32_t i = 0; i < c->nwith; i++)
            c->contenders[n++] = (ccl_contender_t){c->with[i], NULL};
    } else {
        for (const ccl_synth_ops_t *const *all = ccl_synth_all(); *all; all++)
            c->contenders[n++] = (ccl_contender_t){(*all)->name, NULL};
    }
    for (size_t i = 0; i < cli->args.programs.n; i++) {
        if (same_collective(c->documents[i].program->coll, c->collectives[k]))
            c->contenders[n++] = (ccl_contender_t){c->titles[i], c->documents[i].program};
    }
    return n;
}

/* ---------------------------------------------------------------- run */

static ccl_status_t print(ccl_i_cli_t *cli, const compare_t *c, const ccl_sim_options_t *sim,
                          ccl_error_t *err) {
    ccl_report_comparison_t about = {c->topo,
                                     c->ncollectives,
                                     (const ccl_collective_t *const *)c->collectives,
                                     (const ccl_comparison_t *const *)c->comparisons,
                                     sim,
                                     cli->args.seed};
    ccl_text_t text = {0};
    ccl_status_t status = ccl_report_comparison(&about, &cli->style, &text, err);

    if (status == CCL_OK)
        status = ccl_i_emit(cli, &text, err);
    ccl_text_fini(&text);
    return status;
}

/** What the simulator warned of, each kind once over all collectives. */
static void warn(const ccl_i_cli_t *cli, const compare_t *c) {
    for (uint32_t k = 0; k < c->ncollectives; k++) {
        for (uint32_t w = 0; w < c->comparisons[k]->nwarnings; w++) {
            const char *text = c->comparisons[k]->warnings[w];
            bool told = false;

            for (uint32_t e = 0; e < k && !told; e++) {
                for (uint32_t i = 0; i < c->comparisons[e]->nwarnings && !told; i++)
                    told = ccl_warnings_alike(c->comparisons[e]->warnings[i], text);
            }
            if (!told)
                ccl_log(&cli->ctx, CCL_LOG_WARN, "sim", "%s", text);
        }
    }
}

static bool somebody_won(const compare_t *c) {
    for (uint32_t k = 0; k < c->ncollectives; k++) {
        for (uint32_t s = 0; s < c->comparisons[k]->nsizes; s++) {
            if (c->comparisons[k]->winner[s] != CCL_NONE)
                return true;
        }
    }
    return false;
}

static ccl_status_t compare(ccl_i_cli_t *cli, compare_t *c, ccl_error_t *err) {
    ccl_compare_options_t options = {
        .size = sizeof(options), .synth = CCL_SYNTH_OPTIONS_INIT, .lower = CCL_LOWER_OPTIONS_INIT};
    size_t nall = 0;

    CCL_TRY(ccl_i_proto(cli->args.proto, &options.lower.proto, err));
    if (cli->args.with) {
        CCL_TRY(ccl_i_words("with", cli->args.with, &c->with_copy, &c->with, &c->nwith, err));
        CCL_TRY(check_names(c, err));
    }
    CCL_TRY(ccl_i_topology_open(cli, cli->args.topology, &c->topo, err));
    CCL_TRY(open_collectives(cli, c, err));
    CCL_TRY(open_sizes(cli, c, err));
    CCL_TRY(open_programs(cli, c, err));
    while (ccl_synth_all()[nall])
        nall++;
    c->contenders = calloc(nall + c->nwith + cli->args.programs.n + 1, sizeof(*c->contenders));
    if (!c->contenders)
        return ccl_fail_nomem(err);

    options.contenders = c->contenders;
    options.sizes_bytes = c->sizes_bytes;
    options.nsizes = c->nsizes;
    options.synth.channels = cli->args.channels;
    options.synth.chunks = cli->args.chunks;
    options.synth.time_limit_s = cli->args.time_limit_s;
    options.lower.no_fuse = cli->args.no_fuse;
    options.lower.out_of_place = cli->args.out_of_place;
    options.sim = ccl_i_sim_options(&cli->args);
    options.no_verify = true; /* --program files were verified above, or are not to be */
    for (uint32_t k = 0; k < c->ncollectives; k++) {
        options.ncontenders = choose(cli, c, k);
        CCL_TRY(
            ccl_compare(&cli->ctx, c->topo, c->collectives[k], &options, &c->comparisons[k], err));
    }
    warn(cli, c);
    CCL_TRY(print(cli, c, &options.sim, err));
    if (somebody_won(c))
        return CCL_OK;
    return ccl_fail(err, CCL_INFEASIBLE, "no contender could run at any size");
}

static ccl_status_t run(ccl_i_cli_t *cli, ccl_error_t *err) {
    compare_t c = {0};
    ccl_status_t status = compare(cli, &c, err);

    compare_fini(cli, &c);
    return status;
}

static const char *const accepts[] = {
    "topology",  "fail",    "degrade", "collective",  "demand",       "root",
    "sizes",     "with",    "program", "granularity", "sharing",      "batches",
    "channels",  "chunks",  "proto",   "no-fuse",     "out-of-place", "time-limit",
    "no-verify", "no-skip", "no-fold", "table",   NULL};
const ccl_i_command_t ccl_i_cmd_compare = {
    .name = "compare",
    .usage = "--topology SPEC --collective NAME[,NAME...] [options]",
    .summary = "which schedule wins at which size, and how busy the links were",
    .details =
        "All synthesizers, or those of --with A,B,C, and programs of yours, at every size: a\n"
        "table in nccl-tests' shape with the winner per size. = marks a tie. --json has all\n"
        "numbers; --csv prints --table times (default) or links.\n",
    .accepts = accepts,
    .run = run,
};
