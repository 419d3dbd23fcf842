/* ccllab compare */
#include "cli/command.h"

#include <stdlib.h>
#include <string.h>

/** A contender from a file. */
typedef struct mine {
    ccl_i_document_t document;
    char *path, *title;
    const ccl_way_t *way; /* NULL: as the options say */
} mine_t;

/** What a comparison is made of; one fini for all. */
typedef struct compare {
    ccl_topology_t *topo, *machine; /* machine: without the profile; NULL: there is none */
    char *with_copy, *collectives_copy;
    const char **with, **words;
    uint32_t nwith, nwords;
    double *sizes_bytes;
    uint32_t nsizes;
    mine_t *mine; /* of --program, then of --schedule */
    size_t nmine;
    ccl_collective_t **collectives;
    ccl_comparison_t **comparisons;
    ccl_contender_t *contenders; /* room for all */
    uint32_t ncollectives, ncompared;
    ccl_i_synth_files_t files; /* of --sketches */
    ccl_notebook_t *notebook;  /* NULL: none */
    ccl_scenario_t *scenario;  /* NULL: none */
    ccl_draws_t *draws;
} compare_t;

static void compare_fini(compare_t *c) {
    for (uint32_t i = 0; i < c->ncollectives; i++) {
        if (c->comparisons)
            ccl_comparison_destroy(c->comparisons[i]);
        if (c->collectives)
            ccl_collective_destroy(c->collectives[i]);
    }
    for (size_t i = 0; i < c->nmine; i++) {
        ccl_i_document_fini(&c->mine[i].document);
        free(c->mine[i].path);
        free(c->mine[i].title);
    }
    free(c->mine);
    free(c->comparisons);
    free(c->collectives);
    free(c->contenders);
    free(c->sizes_bytes);
    free(c->with);
    free(c->with_copy);
    free(c->words);
    free(c->collectives_copy);
    ccl_i_synth_files_fini(&c->files);
    ccl_draws_destroy(c->draws);
    ccl_scenario_destroy(c->scenario);
    ccl_topology_destroy(c->topo);
    ccl_topology_destroy(c->machine);
    ccl_notebook_close(c->notebook);
}

/* ---------------------------------------------------------------- what is compared */

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

/** Does the program do what is compared? */
static bool same_collective(const ccl_collective_t *a, const ccl_collective_t *b) {
    return a->kind == b->kind && a->nranks == b->nranks && a->root == b->root;
}

static const ccl_collective_t *collective_of(const ccl_i_document_t *document) {
    return document->program ? document->program->coll : document->schedule->coll;
}

/** Verdict on a file of the user's; printed where JSON or CSV is wanted. */
static ccl_status_t verify_mine(ccl_i_cli_t *cli, const mine_t *mine, const char *form,
                                ccl_error_t *err) {
    ccl_verify_options_t options = CCL_VERIFY_OPTIONS_INIT;
    ccl_verdict_t verdict = {0};
    const ccl_collective_t *coll = collective_of(&mine->document);
    ccl_report_verdict_t about = {mine->path, form, coll->name, coll->nranks, &verdict, NULL, NULL};
    ccl_text_t text = {.columns = cli->style.columns};
    ccl_status_t status;

    options.granularity = cli->args.sim.granularity;
    options.skip_deadlock = true;
    if (mine->document.program)
        CCL_TRY(ccl_program_verify(&cli->ctx, mine->document.program, &options, &verdict, err));
    else
        CCL_TRY(ccl_schedule_verify(&cli->ctx, mine->document.schedule, &verdict, err));
    for (uint32_t i = 0; i < verdict.nwarnings && i < CCL_MAX_WARNINGS; i++)
        ccl_log(&cli->ctx, CCL_LOG_WARN, "verify", "%s: %s", mine->path, verdict.warnings[i]);
    if (verdict.valid)
        return CCL_OK;
    status = ccl_report_verdict(&about, &cli->style, &text, err);
    if (status == CCL_OK && cli->style.format != CCL_REPORT_TEXT) {
        status = ccl_i_emit(cli, &text, err);
    } else if (status == CCL_OK) {
        if (text.len > 0 && text.data[text.len - 1] == '\n')
            text.data[text.len - 1] = '\0';
        ccl_error_set(err, CCL_CHECK, mine->path, 0, 0, "%s", text.data ? text.data : "invalid");
    }
    ccl_text_fini(&text);
    return status == CCL_OK ? CCL_CHECK : status;
}

/** "FILE+hpds" is FILE, lowered ResCCL's way. */
static ccl_status_t split_way(const char *word, bool may, mine_t *mine, ccl_error_t *err) {
    static const char suffix[] = "+hpds";
    size_t len = strlen(word);
    size_t cut = sizeof(suffix) - 1;
    bool hpds = may && len > cut && strcmp(word + len - cut, suffix) == 0;

    mine->path = strndup(word, hpds ? len - cut : len);
    mine->way = hpds ? &ccl_way_hpds : NULL;
    if (!mine->path)
        return ccl_fail_nomem(err);
    mine->title = ccl_i_title(mine->path);
    if (mine->title && hpds) {
        char *longer = realloc(mine->title, strlen(mine->title) + sizeof(suffix));

        if (!longer)
            return ccl_fail_nomem(err);
        mine->title = strcat(longer, suffix);
    }
    return mine->title ? CCL_OK : ccl_fail_nomem(err);
}

static ccl_status_t open_one(ccl_i_cli_t *cli, const compare_t *c, bool schedule, mine_t *mine,
                             ccl_error_t *err) {
    const ccl_collective_t *coll;
    const char *form;
    bool fits = false;

    CCL_TRY(ccl_i_document_read(mine->path, &mine->document, &form, err));
    if (schedule && mine->document.program)
        return ccl_fail(err, CCL_ERR_USAGE,
                        "%s is a program, which is lowered already: --program %s", mine->path,
                        mine->path);
    coll = collective_of(&mine->document);
    CCL_TRY(ccl_i_document_fits(&mine->document, mine->path, c->topo, err));
    for (uint32_t k = 0; k < c->ncollectives; k++)
        fits = fits || same_collective(coll, c->collectives[k]);
    if (!fits)
        return ccl_error_set(err, CCL_ERR_INPUT, mine->path, 0, 0,
                             "does %s (root %u), which is not compared here", coll->name,
                             coll->root);
    if (mine->document.program)
        ccl_i_warn_sizes(cli, mine->path, mine->document.program, c->sizes_bytes, c->nsizes);
    return cli->args.no_verify ? CCL_OK : verify_mine(cli, mine, form, err);
}

static ccl_status_t open_mine(ccl_i_cli_t *cli, compare_t *c, ccl_error_t *err) {
    const ccl_i_list_t *lists[] = {&cli->args.programs, &cli->args.schedules};
    size_t n = lists[0]->n + lists[1]->n;

    if (n == 0)
        return CCL_OK;
    c->mine = calloc(n, sizeof(*c->mine));
    if (!c->mine)
        return ccl_fail_nomem(err);
    for (size_t k = 0; k < CCL_ARRAY_LEN(lists); k++) {
        for (size_t i = 0; i < lists[k]->n; i++) {
            mine_t *mine = &c->mine[c->nmine++];

            CCL_TRY(split_way(lists[k]->items[i], k == 1, mine, err));
            CCL_TRY(open_one(cli, c, k == 1, mine, err));
        }
    }
    return CCL_OK;
}

/** Contenders for collective k: the library and the chosen synthesizers, then the files that do it.
 */
static uint32_t choose(compare_t *c, uint32_t k) {
    uint32_t n = ccl_i_contenders(c->topo, c->with, c->nwith, NULL, c->contenders);

    for (size_t i = 0; i < c->nmine; i++) {
        const mine_t *mine = &c->mine[i];

        if (same_collective(collective_of(&mine->document), c->collectives[k]))
            c->contenders[n++] = (ccl_contender_t){.name = mine->title,
                                                   .program = mine->document.program,
                                                   .schedule = mine->document.schedule,
                                                   .way = mine->way};
    }
    return n;
}

/* ---------------------------------------------------------------- run */

/** The plot of `draw busbw`, of the result as JSON. */
static ccl_status_t draw(ccl_i_cli_t *cli, const ccl_text_t *json, ccl_error_t *err) {
    ccl_picture_t *picture = NULL;
    ccl_json_doc_t doc = {0};
    ccl_status_t status = ccl_json_parse("result", json->data, json->len, &doc, err);

    if (status == CCL_OK)
        status = ccl_report_draw_busbw(&doc, 1, &picture, err);
    if (status == CCL_OK)
        status = ccl_i_picture_emit(cli, picture, err);
    ccl_picture_destroy(picture);
    ccl_json_fini(&doc);
    return status;
}

static ccl_status_t print(ccl_i_cli_t *cli, const compare_t *c, const ccl_sim_options_t *sim,
                          ccl_error_t *err) {
    ccl_report_comparison_t about = {c->topo,
                                     c->ncompared,
                                     (const ccl_collective_t *const *)c->collectives,
                                     (const ccl_comparison_t *const *)c->comparisons,
                                     sim,
                                     cli->args.seed,
                                     c->scenario ? c->scenario->name : NULL};
    ccl_text_t text = {.columns = cli->style.columns};
    bool picture = ccl_i_wants_picture(&cli->args);
    ccl_status_t status;

    if (picture)
        cli->style.format = CCL_REPORT_JSON;
    status = ccl_report_comparison(&about, &cli->style, &text, err);
    if (status == CCL_OK)
        status = picture ? draw(cli, &text, err) : ccl_i_emit(cli, &text, err);
    ccl_text_fini(&text);
    return status;
}

/** What the simulator warned of, each kind once over all collectives. */
static void warn(const ccl_i_cli_t *cli, const compare_t *c) {
    for (uint32_t k = 0; k < c->ncompared; k++) {
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
    for (uint32_t k = 0; k < c->ncompared; k++) {
        for (uint32_t s = 0; s < c->comparisons[k]->nsizes; s++) {
            if (c->comparisons[k]->winner[s] != CCL_NONE)
                return true;
        }
    }
    return false;
}

static ccl_status_t open_notebook(ccl_i_cli_t *cli, compare_t *c, ccl_compare_options_t *options,
                                  ccl_error_t *err) {
    const char *untold = ccl_compare_untold(options);

    if (untold)
        return ccl_fail(err, CCL_ERR_USAGE,
                        "--notebook does not go with --%s: points of a notebook do not record it",
                        untold);
    CCL_TRY(ccl_i_notebook_open(cli, true, &c->notebook, err));
    options->notebook = c->notebook;
    options->profile = *c->topo->profile ? c->topo->profile : NULL;
    return CCL_OK;
}

static ccl_status_t open_scenario(ccl_i_cli_t *cli, compare_t *c, ccl_compare_options_t *options,
                                  ccl_error_t *err) {
    CCL_TRY(ccl_i_scenario_open(cli, c->topo, &c->scenario, &c->draws, &options->samples, err));
    options->draws = c->draws;
    return ccl_i_scenario_rank(cli, &options->rank, err);
}

/** Collective by collective, until it is interrupted. */
static ccl_status_t compare_all(ccl_i_cli_t *cli, compare_t *c, ccl_compare_options_t *options,
                                ccl_error_t *err) {
    ccl_status_t status = CCL_OK;

    for (uint32_t k = 0; status == CCL_OK && k < c->ncollectives; k++) {
        options->ncontenders = choose(c, k);
        status =
            ccl_compare(&cli->ctx, c->topo, c->collectives[k], options, &c->comparisons[k], err);
        c->ncompared += c->comparisons[k] != NULL;
        if (c->comparisons[k] && cli->args.notebook)
            ccl_log(&cli->ctx, CCL_LOG_INFO, "notebook", "%s: %u of %u times were there",
                    c->collectives[k]->name, c->comparisons[k]->resumed,
                    options->ncontenders * options->nsizes);
    }
    return status == CCL_INTERRUPTED && c->ncompared ? CCL_OK : status;
}

static bool interrupted(const compare_t *c) {
    return c->ncompared > 0 && c->comparisons[c->ncompared - 1]->interrupted;
}

/** What is finished, and how to go on. */
static ccl_status_t tell_interrupted(const ccl_i_cli_t *cli, const compare_t *c, ccl_error_t *err) {
    uint32_t finished = 0, all = 0;

    for (uint32_t k = 0; k < c->ncompared; k++) {
        finished += c->comparisons[k]->finished;
        all += c->comparisons[k]->nsizes * c->comparisons[k]->ncontenders;
    }
    all += (c->ncollectives - c->ncompared) * (all / c->ncompared);
    return ccl_fail(err, CCL_INTERRUPTED, "%u of %u runs are finished; %s", finished, all,
                    cli->args.notebook
                        ? "the same command goes on with the others"
                        : "with --notebook FILE they are kept, and the same command goes on");
}

/** Why, where one alone was asked; the table has the reasons of several. */
static ccl_status_t nobody_ran(const compare_t *c, ccl_error_t *err) {
    const ccl_comparison_t *first = c->ncompared == 1 ? c->comparisons[0] : NULL;
    bool one = first && first->ncontenders == 1 && first->why_not[0];

    return ccl_fail(err, CCL_INFEASIBLE, "no contender could run at any size%s%s", one ? ": " : "",
                    one ? first->why_not[0] : "");
}

/** A former schedule that fits nothing of this is an error, not a contender less. */
static ccl_status_t check_warm(const compare_t *c, const ccl_schedule_t *warm, ccl_error_t *err) {
    ccl_routes_t *routes = warm ? ccl_routes_create(c->topo) : NULL;
    ccl_status_t status = warm && !routes ? ccl_fail_nomem(err) : CCL_OK;

    for (uint32_t i = 0; warm && status == CCL_OK && i < c->ncollectives; i++)
        status = ccl_alltoallv_warm_check(c->topo, routes, warm, c->collectives[i], err);
    ccl_routes_destroy(routes);
    return status;
}

static ccl_status_t compare(ccl_i_cli_t *cli, compare_t *c, ccl_error_t *err) {
    ccl_compare_options_t options = CCL_COMPARE_OPTIONS_INIT;

    options.lower = ccl_i_lower_options(&cli->args);
    ccl_i_way(&cli->args, &options.way_bits);
    if (cli->args.with) {
        CCL_TRY(ccl_i_words("with", cli->args.with, &c->with_copy, &c->with, &c->nwith, err));
        CCL_TRY(ccl_i_contenders_check(c->with, c->nwith, err));
    }
    CCL_TRY(ccl_i_cluster_open(cli, cli->args.topology, NULL, &c->machine, &c->topo, err));
    CCL_TRY(open_collectives(cli, c, err));
    CCL_TRY(
        ccl_i_sizes_of(&cli->args, c->collectives[0], "1K:1G", &c->sizes_bytes, &c->nsizes, err));
    CCL_TRY(open_mine(cli, c, err));
    c->contenders = calloc(ccl_i_contenders_room(c->nwith) + c->nmine, sizeof(*c->contenders));
    if (!c->contenders)
        return ccl_fail_nomem(err);

    options.contenders = c->contenders;
    options.machine = c->machine;
    options.registered = cli->args.registered;
    options.sizes_bytes = c->sizes_bytes;
    options.nsizes = c->nsizes;
    CCL_TRY(ccl_i_synth_options(&cli->args, &c->files, &options.synth, err));
    CCL_TRY(check_warm(c, options.synth.warm, err));
    options.sim = ccl_i_sim_options(&cli->args);
    if (cli->args.tune.gap)
        CCL_TRY(ccl_i_percent_option("gap", cli->args.tune.gap, &options.gap, err));
    options.no_verify = true; /* files of the user were verified above, or are not to be */
    if (ccl_i_notebook_none(&cli->args))
        cli->args.notebook = NULL;
    /* A notebook's points have one protocol each. */
    options.protocols = !ccl_i_given(&cli->args, "proto") && !cli->args.notebook;
    CCL_TRY(open_scenario(cli, c, &options, err));
    if (cli->args.notebook)
        CCL_TRY(open_notebook(cli, c, &options, err));
    CCL_TRY(compare_all(cli, c, &options, err));
    warn(cli, c);
    if (interrupted(c) && !somebody_won(c))
        return ccl_fail(err, CCL_INTERRUPTED, "no run is finished");
    CCL_TRY(print(cli, c, &options.sim, err));
    if (interrupted(c))
        return tell_interrupted(cli, c, err);
    if (somebody_won(c))
        return CCL_OK;
    return nobody_ran(c, err);
}

static ccl_status_t run(ccl_i_cli_t *cli, ccl_error_t *err) {
    compare_t c = {0};
    ccl_status_t status = compare(cli, &c, err);

    compare_fini(&c);
    return status;
}

static const char *const accepts[] = {
    "topology",         "fail",         "degrade",     "scale",        "set",         "profile",
    "notebook@compare", "collective",   "demand",      "root",         "sizes",       "with",
    "registered",       "plugin",       "program",     "schedule",     "granularity", "sharing",
    "batches",          "no-verify",    "no-skip",     "no-fold",      "table",       "scenario",
    "samples",          "rank@samples", "gap@compare", CCL_I_LOWERING, CCL_I_SYNTH,   NULL};
const ccl_i_command_t ccl_i_cmd_compare = {
    .name = "compare",
    .usage = "--topology SPEC --collective NAME[,NAME...] [options]",
    .summary = "which schedule wins at which size, and how busy the links were",
    .details =
        "What stock NCCL runs (nccl; rccl on AMD) and all synthesizers, or those of --with A,B,C,\n"
        "and programs and schedules of yours, at every size, each lowered its own way (hpds: HPDS "
        "order, thread blocks by state, task\n"
        "level) unless --order, --allocate or --granularity give one for all: a\n"
        "table in nccl-tests' shape with the winner per size and its gain over NCCL. = marks a "
        "tie. --json has all\n"
        "numbers; --csv prints --table times (default) or links.\n",
    .examples = "ccllab compare -t dgx-h100 -c allreduce --sizes 1K:1G:4\n"
                "ccllab compare -t heteccl-h20-4+8 -c allgather --with ring,cegis --sizes 64M\n"
                "ccllab compare -t dgx-h100 -c allreduce --program mine.xml -o page.html\n"
                "ccllab compare -t dgx-h100 -c allgather --sizes 16M:1G --gap 3%\n"
                "ccllab compare -t dgx-a100 -c allgather --scenario s.json "
                "--rank p99\n",
    .accepts = accepts,
    .tables = ccl_report_comparison_tables,
    .no = "no contender could run, or a program of yours is wrong",
    .run = run,
};
