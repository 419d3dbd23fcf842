/* ccllab lower */
#include "cli/command.h"

#include <stdlib.h>
#include <string.h>

static const double default_size_bytes = 256.0 * 1024 * 1024;

/* Orders, allocations and levels with --all. */
enum {
    MOST_WAYS =
        (CCL_ORDER_HPDS_PRINTED + 1) * (CCL_ALLOCATE_CAPACITY + 1) * (CCL_GRANULARITY_TASK + 1)
};

/** What one run of the command holds; one fini for all. */
typedef struct lower {
    ccl_i_document_t document;
    ccl_topology_t *topo;
    ccl_way_t ways[MOST_WAYS];
    uint32_t nways;
    ccl_lowered_t *rows;
    bool to_stdout, blocks; /* the program goes to standard output; tables of blocks are wanted */
} lower_t;

static void lower_fini(lower_t *l) {
    ccl_lowered_destroy(l->rows, l->nways);
    ccl_i_document_fini(&l->document);
    ccl_topology_destroy(l->topo);
}

/** What was chosen of one option, else its first choice, or with --all each of them. */
static ccl_i_choices_t choices_of(const ccl_i_args_t *args, const ccl_option_t *table,
                                  const char *name) {
    const ccl_option_t *option = ccl_option_find(table, name, strlen(name));
    ccl_i_choices_t out = ccl_i_choices(args, option);

    if (out.n)
        return out;
    for (out.n = 0; out.n < CCL_ARRAY_LEN(out.at) && option->words[out.n]; out.n++)
        out.at[out.n] = out.n;
    if (!args->all)
        out.n = 1;
    return out;
}

static void choose_ways(const ccl_i_args_t *args, lower_t *l) {
    ccl_i_choices_t orders = choices_of(args, ccl_lower_option_table, "order");
    ccl_i_choices_t allocations = choices_of(args, ccl_lower_option_table, "allocate");
    ccl_i_choices_t levels = choices_of(args, ccl_sim_option_table, "granularity");

    for (uint32_t g = 0; g < levels.n; g++) {
        for (uint32_t a = 0; a < allocations.n; a++) {
            for (uint32_t o = 0; o < orders.n; o++)
                l->ways[l->nways++] =
                    (ccl_way_t){(ccl_order_t)orders.at[o], (ccl_allocation_t)allocations.at[a],
                                (ccl_granularity_t)levels.at[g]};
        }
    }
}

/** Where the program goes, if anywhere. */
static ccl_status_t check_output(const ccl_i_args_t *args, lower_t *l, ccl_error_t *err) {
    const char *dot = args->output ? strrchr(args->output, '.') : NULL;

    if (!args->output)
        return CCL_OK;
    l->to_stdout = strcmp(args->output, "-") == 0;
    if (l->nways > 1)
        return ccl_fail(
            err, CCL_ERR_USAGE,
            "-o %s takes one program, but %u ways of lowering are asked for; tables and "
            "--json go to standard output",
            args->output, l->nways);
    if (!l->to_stdout && (!dot || strcmp(dot, ".xml") != 0))
        return ccl_fail(err, CCL_ERR_USAGE,
                        "-o %s: a program is MSCCL XML, its file's name must end in .xml",
                        args->output);
    return CCL_OK;
}

/** --rank N or all. */
static ccl_status_t rank_of(const ccl_i_args_t *args, uint32_t nranks, ccl_report_lowering_t *about,
                            ccl_error_t *err) {
    char *end = NULL;
    unsigned long rank;

    about->rank = CCL_NONE;
    about->all_ranks = args->rank && strcmp(args->rank, "all") == 0;
    if (!args->rank || about->all_ranks)
        return CCL_OK;
    rank = strtoul(args->rank, &end, 10);
    if (args->rank[0] < '0' || args->rank[0] > '9' || *end || rank >= nranks)
        return ccl_fail(err, CCL_ERR_USAGE,
                        "option --rank wants \"all\" or a rank from 0 to %u, not \"%s\"",
                        nranks - 1, args->rank);
    about->rank = (uint32_t)rank;
    return CCL_OK;
}

static ccl_status_t write_program(ccl_i_cli_t *cli, const lower_t *l, ccl_error_t *err) {
    ccl_text_t text = {.columns = cli->style.columns};
    ccl_status_t status = ccl_program_write_xml(l->rows[0].program, &text, err);

    if (status == CCL_OK)
        status = ccl_i_emit(cli, &text, err);
    ccl_text_fini(&text);
    return status;
}

static ccl_status_t tell(ccl_i_cli_t *cli, const ccl_report_lowering_t *about, ccl_error_t *err) {
    ccl_text_t text = {0};
    ccl_status_t status = ccl_report_lowering(about, &cli->style, &text, err);

    ccl_i_terminal_clear();
    if (status == CCL_OK &&
        !(about->output && cli->args.quiet && cli->style.format == CCL_REPORT_TEXT))
        status = ccl_file_write("-", text.data ? text.data : "", text.len, err);
    ccl_text_fini(&text);
    return status;
}

/** Exit code: 0 when some way ran; a single way's own reason otherwise. */
static ccl_status_t conclude(const lower_t *l, ccl_error_t *err) {
    for (uint32_t i = 0; i < l->nways; i++) {
        if (l->rows[i].status == CCL_OK)
            return CCL_OK;
    }
    for (uint32_t i = 0; i < l->nways; i++) {
        if (l->rows[i].status == CCL_ERR_NOMEM)
            return ccl_fail_nomem(err);
    }
    return ccl_fail(err, CCL_INFEASIBLE, "no way of lowering could run: %s", l->rows[0].why);
}

static ccl_status_t lower(ccl_i_cli_t *cli, lower_t *l, ccl_error_t *err) {
    const ccl_i_args_t *args = &cli->args;
    ccl_lower_ways_options_t options = CCL_LOWER_WAYS_OPTIONS_INIT;
    ccl_report_lowering_t about = {
        .input = args->inputs.items[0], .lower = &options.lower, .options = &options.sim};
    ccl_bound_options_t bounds = CCL_BOUND_OPTIONS_INIT;
    ccl_bound_t bound;
    const char *form;
    ccl_status_t status;
    double start_s;

    options.ways = l->ways;
    choose_ways(args, l);
    CCL_TRY(check_output(args, l, err));
    options.lower = ccl_i_lower_options(args);
    CCL_TRY(ccl_i_cluster_open(cli, args->topology, NULL, NULL, &l->topo, err));
    CCL_TRY(rank_of(args, l->topo->nranks, &about, err));
    start_s = ccl_now_s();
    CCL_TRY(ccl_i_document_read(about.input, &l->document, &form, err));
    about.parse_s = ccl_now_s() - start_s;
    if (l->document.program)
        return ccl_error_set(err, CCL_ERR_INPUT, about.input, 0, 0,
                             "a program, which is lowered already; a schedule is wanted");
    CCL_TRY(ccl_i_document_fits(&l->document, about.input, l->topo, err));
    options.sim = ccl_i_sim_options(args);
    if (!(options.sim.size_bytes > 0))
        options.sim.size_bytes = l->document.schedule->coll->natural_bytes;
    if (!(options.sim.size_bytes > 0))
        options.sim.size_bytes = default_size_bytes;
    bounds.size_bytes = options.sim.size_bytes;
    bounds.proto = options.lower.proto;
    CCL_TRY(ccl_bound(&cli->ctx, l->topo, l->document.schedule->coll, &bounds, &bound, err));
    about.bound_s = bound.time_s;
    ccl_bound_fini(&bound);
    l->blocks = args->blocks || args->rank || (args->table && strcmp(args->table, "blocks") == 0);
    options.nways = l->nways;
    options.keep = l->blocks || args->output;
    status = ccl_lower_ways(&cli->ctx, l->topo, l->document.schedule, &options, &l->rows, err);
    if (status == CCL_CHECK && err && !err->where[0])
        snprintf(err->where, sizeof(err->where), "%s", about.input);
    CCL_TRY(status);
    if (l->nways == 1 && l->rows[0].status != CCL_OK)
        return ccl_error_set(err, l->rows[0].status, about.input, 0, 0, "%s", l->rows[0].why);
    if (args->output)
        CCL_TRY(write_program(cli, l, err));
    if (l->to_stdout)
        return CCL_OK;
    about.output = args->output;
    about.topo = l->topo;
    about.schedule = l->document.schedule;
    about.ways = l->rows;
    about.nways = l->nways;
    about.blocks = l->blocks;
    CCL_TRY(tell(cli, &about, err));
    return conclude(l, err);
}

static ccl_status_t run(ccl_i_cli_t *cli, ccl_error_t *err) {
    lower_t l;
    ccl_status_t status;

    memset(&l, 0, sizeof(l));
    status = lower(cli, &l, err);
    lower_fini(&l);
    return status;
}

static const char *const accepts[] = {"topology", "fail",         "degrade", "scale",  "set",
                                      "profile",  "granularity",  "all",     "size",   "batches",
                                      "sharing",  "no-skip",      "no-fold", "blocks", "rank",
                                      "table",    CCL_I_LOWERING, NULL};
static const char *const lists[] = {"order", "allocate", "granularity", NULL};
const ccl_i_command_t ccl_i_cmd_lower = {
    .name = "lower",
    .usage = "SCHEDULE --topology SPEC [options] [-o PROGRAM.xml]",
    .summary = "a schedule to thread blocks, one or several ways, and what each costs",
    .details =
        "SCHEDULE is our JSON or ResCCLang; - is stdin. -o writes the program (MSCCL XML) when\n"
        "it is proven and runs. The table has a row per way: --order, --allocate and\n"
        "--granularity take lists (step,hpds), --all takes every choice of those not given.\n"
        "Each program is simulated at --size (256M). --blocks adds the thread blocks of a\n"
        "rank. --csv prints one table: --table ways (default) or blocks.\n",
    .examples = "ccllab lower schedule.json -t dgx-a100 --all --size 64M\n"
                "ccllab lower schedule.json -t dgx-a100 --order hpds -o program.xml\n",
    .accepts = accepts,
    .min_inputs = 1,
    .max_inputs = 1,
    .lists = lists,
    .tables = ccl_report_lowering_tables,
    .no = "it is wrong, or no way could run",
    .run = run,
};
