/* ccllab bound */
#include "cli/command.h"

#include <stdlib.h>

typedef struct bound {
    ccl_topology_t *topo;
    char *copy;
    const char **words;
    uint32_t nwords, n;
    ccl_collective_t **collectives; /* [n] */
    ccl_bound_t *bounds;            /* [n] */
} bound_t;

static void bound_fini(bound_t *b) {
    for (uint32_t i = 0; i < b->n; i++) {
        ccl_collective_destroy(b->collectives[i]);
        ccl_bound_fini(&b->bounds[i]);
    }
    free(b->collectives);
    free(b->bounds);
    free(b->words);
    free(b->copy);
    ccl_topology_destroy(b->topo);
}

static ccl_status_t bound(ccl_i_cli_t *cli, bound_t *b, ccl_error_t *err) {
    ccl_bound_options_t options = CCL_BOUND_OPTIONS_INIT;
    ccl_report_bounds_t about = {0};
    ccl_text_t text = {.columns = cli->style.columns};
    ccl_status_t status;
    uint32_t n;

    if (ccl_i_given(&cli->args, "proto"))
        options.proto = cli->args.lower.proto;
    CCL_TRY(ccl_i_cluster_open(cli, cli->args.topology, NULL, NULL, &b->topo, err));
    if (!cli->args.demand && cli->args.collective)
        CCL_TRY(
            ccl_i_words("collective", cli->args.collective, &b->copy, &b->words, &b->nwords, err));
    n = cli->args.demand ? 1 : b->words ? b->nwords : CCL_CUSTOM;
    b->collectives = calloc(n, sizeof(*b->collectives));
    b->bounds = calloc(n, sizeof(*b->bounds));
    if (!b->collectives || !b->bounds)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < n; i++) {
        const char *word =
            b->words ? b->words[i] : ccl_collective_kind_name((ccl_collective_kind_t)i);

        CCL_TRY(ccl_i_collective_open(&cli->args, word, b->topo->nranks, &b->collectives[i], err));
        b->n++;
        options.size_bytes =
            cli->args.size_bytes > 0 ? cli->args.size_bytes : b->collectives[i]->natural_bytes;
        CCL_TRY(ccl_bound(&cli->ctx, b->topo, b->collectives[i], &options, &b->bounds[i], err));
    }
    about.topo = b->topo;
    about.nbounds = b->n;
    about.collectives = (const ccl_collective_t *const *)b->collectives;
    about.bounds = b->bounds;
    about.over_time = cli->args.over_time;
    status = ccl_report_bounds(&about, &cli->style, &text, err);
    if (status == CCL_OK)
        status = ccl_i_emit(cli, &text, err);
    ccl_text_fini(&text);
    return status;
}

static ccl_status_t run(ccl_i_cli_t *cli, ccl_error_t *err) {
    bound_t b = {0};
    ccl_status_t status = bound(cli, &b, err);

    bound_fini(&b);
    return status;
}

static const char *const accepts[] = {"topology", "fail",       "degrade",   "scale", "set",
                                      "profile",  "collective", "demand",    "root",  "size",
                                      "proto",    "rows",       "over-time", NULL};
const ccl_i_command_t ccl_i_cmd_bound = {
    .name = "bound",
    .usage = "--topology SPEC [--collective NAME[,NAME...]] [options]",
    .summary = "how fast a collective can be at all, and which links stand in the way",
    .details =
        "Three bounds hold for every schedule: latency, how far apart the farthest GPUs are;\n"
        "bandwidth, what must pass the tightest cut (or partition) over what can, as an exact\n"
        "fraction where it is one; and cuts over time, what can pass a cut between the earliest\n"
        "time at which its links can have any of it and the latest at which that is of use.\n"
        "Without --collective for each collective; with --size the time that no schedule beats,\n"
        "and which cut says so; with --over-time a table over the size. --proto takes that\n"
        "protocol's constants, else the fastest protocol counts. docs/bounds.md has the theory.\n",
    .examples = "ccllab bound -t heteccl-h20-4+8 -c allgather,allreduce --size 1G\n"
                "ccllab bound -t \"dgx-h100*2\" -c allreduce --over-time\n"
                "ccllab bound -t \"dgx-h100*2\" -c allreduce --size 1G --degrade nic:0=50%\n",
    .accepts = accepts,
    .run = run,
};
