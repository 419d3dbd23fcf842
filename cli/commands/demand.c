/* ccllab demand moe */
#include "cli/command.h"

static void tell(const ccl_moe_options_t *o, const ccl_topology_t *topo,
                 const ccl_collective_t *coll, const ccl_moe_report_t *r, ccl_text_t *out) {
    ccl_text_printf(out,
                    "%s of %u tokens a GPU to %u of %u experts on %s: %u GPUs, %u chunks, largest "
                    "buffer %.0f bytes\n",
                    coll->name, o->tokens, o->top_k, o->experts, topo->name, topo->nranks,
                    coll->nchunks, coll->natural_bytes);
    ccl_text_printf(
        out,
        "  between servers  %.0f bytes, each token once to a server; %.0f if each GPU's "
        "copy crossed\n"
        "  inside servers   %.0f bytes of tokens whose server it is\n"
        "  busiest GPU      %.3f times the mean of tokens\n"
        "  busiest server   %.3f times the mean of bytes between servers\n",
        r->network_bytes, r->unshared_bytes, r->local_bytes, r->most_tokens, r->most_server);
}

/** What the search of a placement brought. */
static void tell_placement(const ccl_moe_report_t *r) {
    char line[240];
    snprintf(line, sizeof line,
             "placement optimised: %.6g us at the border of %s; block %.6g us, balanced %.6g us",
             1e6 * r->bound_s, r->border, 1e6 * r->block_bound_s, 1e6 * r->balanced_bound_s);
    ccl_i_say("", line);
}

static ccl_status_t options_of(const ccl_i_cli_t *cli, ccl_moe_options_t *out, ccl_error_t *err) {
    const ccl_i_args_t *a = &cli->args;
    ccl_moe_options_t o = CCL_MOE_OPTIONS_INIT;
    o.experts = ccl_i_given(a, "experts") ? a->moe.experts : o.experts;
    o.top_k = ccl_i_given(a, "top-k") ? a->moe.top_k : o.top_k;
    o.hidden = ccl_i_given(a, "hidden") ? a->moe.hidden : o.hidden;
    o.tokens = ccl_i_given(a, "tokens") ? a->moe.tokens : o.tokens;
    o.element_bytes = ccl_i_given(a, "element") ? a->moe.element : o.element_bytes;
    o.copies = a->moe.copies;
    o.skew = a->moe.skew;
    o.placement = (ccl_moe_placement_t)a->moe.placement;
    o.combine = a->moe.combine;
    o.each_expert = a->moe.unshared;
    o.seed = cli->ctx.seed;
    if (a->moe.affinity)
        CCL_TRY(ccl_i_percent_option("affinity", a->moe.affinity, &o.affinity, err));
    *out = o;
    return CCL_OK;
}

static ccl_status_t make(ccl_i_cli_t *cli, const ccl_topology_t *topo, ccl_error_t *err) {
    const ccl_i_args_t *a = &cli->args;
    ccl_moe_options_t o;
    ccl_collective_t *coll = NULL;
    ccl_moe_report_t report;
    ccl_text_t text = {0}, about = {0}, placement = {0};
    CCL_TRY(options_of(cli, &o, err));
    o.write = a->moe.write_placement ? &placement : NULL;
    CCL_TRY(ccl_moe_demand(topo, &o, &coll, &report, err));
    ccl_status_t status = ccl_demand_write(coll, &text, err);
    if (status == CCL_OK && o.write)
        status = ccl_file_write(a->moe.write_placement, placement.data, placement.len, err);
    if (status == CCL_OK && report.border && !a->quiet)
        tell_placement(&report);
    if (status == CCL_OK && a->output) {
        status = ccl_file_write(a->output, text.data, text.len, err);
        tell(&o, topo, coll, &report, &about);
        if (status == CCL_OK && !a->quiet)
            status = ccl_file_write("-", about.data, about.len, err);
    } else if (status == CCL_OK) {
        status = ccl_file_write("-", text.data, text.len, err);
    }
    ccl_text_fini(&text);
    ccl_text_fini(&about);
    ccl_text_fini(&placement);
    ccl_collective_destroy(coll);
    return status;
}

static ccl_status_t run(ccl_i_cli_t *cli, ccl_error_t *err) {
    ccl_topology_t *topo = NULL;
    CCL_TRY(ccl_i_cluster_open(cli, cli->args.topology, NULL, NULL, &topo, err));
    ccl_status_t status = make(cli, topo, err);
    ccl_topology_destroy(topo);
    return status;
}

static const char *const accepts[] = {
    "topology", "fail",      "experts",         "top-k",  "hidden",  "tokens",   "element", "skew",
    "affinity", "placement", "write-placement", "copies", "combine", "unshared", NULL};
const ccl_i_command_t ccl_i_cmd_demand_moe = {
    .name = "demand moe",
    .usage = "--topology SPEC [options] [-o FILE]",
    .summary = "a demand file: tokens to experts (dispatch), or their results back (combine)",
    .details =
        "Draws each token's experts by their popularity and writes who sends what to whom as a\n"
        "demand for synth, compare and bound (--demand). A token that several GPUs of a server\n"
        "want is one chunk for all of them, so that it crosses the network once; with --combine\n"
        "what they return of it is one reduction. Without -o the demand goes to the terminal.\n",
    .examples = "ccllab demand moe -t \"dgx-h100*2\" --tokens 512 --skew zipf:0.8 -o D.json\n"
                "ccllab demand moe -t \"dgx-h100*2\" --copies 32 --combine -o C.json\n",
    .accepts = accepts,
    .run = run,
};
