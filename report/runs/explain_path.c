/* Shares of a run, what of its critical path comes first, and the root of its result. */
#include "report/runs/explain.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef ccl_report_explanation_t about_t;

double ccl_i_explain_share(const about_t *a, double time_s) {
    double whole_s = a->explanation->result->time_s;

    return whole_s > 0 ? time_s / whole_s : 0;
}

double ccl_i_explain_change(const about_t *a, const ccl_counterfactual_t *c) {
    return ccl_i_explain_share(a, c->time_s) - 1;
}

const char *ccl_i_explain_resource(const about_t *a, uint32_t res, char *out, size_t out_len) {
    if (res == CCL_NONE)
        snprintf(out, out_len, "%s", "");
    else if (res < a->topo->nlinks)
        ccl_i_link_name(a->topo, res, out, out_len);
    else
        snprintf(out, out_len, "group %s", a->topo->groups[res - a->topo->nlinks].name);
    return out;
}

double ccl_i_explain_resource_Bps(const about_t *a, uint32_t res) {
    return res < a->topo->nlinks ? a->topo->links[res].bandwidth_Bps
                                 : a->topo->groups[res - a->topo->nlinks].bandwidth_Bps;
}

ccl_status_t ccl_i_explain_resources(const about_t *a, ccl_i_keyed_t **out, uint32_t *n_out,
                                     ccl_error_t *err) {
    uint32_t n = a->topo->nlinks + a->topo->ngroups;
    ccl_i_keyed_t *rows = malloc((n + 1u) * sizeof(*rows));
    uint32_t used = 0;

    if (!rows)
        return ccl_fail_nomem(err);
    for (uint32_t r = 0; r < n; r++) {
        const double *causes = &a->explanation->sum.resource_s[(size_t)r * CCL_PATH_CAUSES];
        double sum_s = 0;

        for (uint32_t c = 0; c < CCL_PATH_CAUSES; c++)
            sum_s += causes[c];
        if (sum_s > 0)
            rows[used++] = (ccl_i_keyed_t){sum_s, r};
    }
    qsort(rows, used, sizeof(*rows), ccl_i_by_key);
    *out = rows;
    *n_out = used;
    return CCL_OK;
}

ccl_status_t ccl_i_explain_causes(const about_t *a, ccl_i_keyed_t **out, uint32_t *n_out,
                                  ccl_error_t *err) {
    uint32_t cells = (a->topo->nkinds + 1) * CCL_PATH_CAUSES, n = 0;
    ccl_i_keyed_t *rows = malloc(cells * sizeof(*rows));

    if (!rows)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < cells; i++)
        if (a->explanation->sum.kind_s[i] > 0)
            rows[n++] = (ccl_i_keyed_t){a->explanation->sum.kind_s[i], i};
    qsort(rows, n, sizeof(*rows), ccl_i_by_key);
    *out = rows;
    *n_out = n;
    return CCL_OK;
}

void ccl_i_explain_scales(const char *const *edits, uint32_t n, ccl_text_t *out) {
    for (uint32_t i = 0; i < n; i++)
        ccl_text_printf(out, "%s--scale '%s'", i ? " " : "", strchr(edits[i], ':') + 1);
}

void ccl_i_explain_edits(const ccl_counterfactual_t *c, ccl_text_t *out) {
    ccl_i_explain_scales(c->edits, c->nedits, out);
    if (c->options)
        ccl_text_printf(out, "%s%s", c->nedits ? " " : "", c->options);
}

static const char *word_of_input(const about_t *a) {
    return a->input ? a->input : a->program->name;
}

static void fill(const about_t *a, ccl_i_explain_t *out) {
    const ccl_explanation_t *e = a->explanation;
    const ccl_sim_result_t *r = e->result;

    *out =
        (ccl_i_explain_t){.of = a,
                          .edits = &out->room,
                          .path = a->path,
                          .input = word_of_input(a),
                          .topology = a->topo->name,
                          .profile = ccl_i_profile_name(a->topo),
                          .collective = a->program->coll->name,
                          .origin = a->program->origin[0] ? a->program->origin : NULL,
                          .proto = a->program->proto,
                          .order = a->way ? ccl_i_order_name(a->way->order) : NULL,
                          .allocation = a->way ? ccl_i_allocation_name(a->way->allocation) : NULL,
                          .granularity = ccl_i_granularity_name(a->options->granularity),
                          .sharing = ccl_i_sharing_name(a->options->sharing),
                          .nranks = a->topo->nranks,
                          .batches = r->batches,
                          .untried = e->untried,
                          .path_transfers = e->sum.transfers,
                          .size_bytes = r->size_bytes,
                          .time_s = r->time_s,
                          .algbw_GBps = r->algbw_GBps,
                          .busbw_GBps = r->busbw_GBps,
                          .bound_s = e->bound.time_s,
                          .nccl = ccl_i_nccl_row(&e->nccl, r->time_s),
                          .gap = ccl_i_gap(r->time_s, e->bound.time_s)};
    out->cut = e->cut.nlinks ? out : NULL;
    out->cut_row.root = out;
    out->cut_row.proof = ccl_bound_proof_name(e->bound.bandwidth.proof);
    out->cut_row.least_bytes = e->cut.least_bytes > 0 ? e->cut.least_bytes : NAN;
    out->cut_row.path_share = ccl_i_explain_share(a, e->cut.path_s);
    out->cut_row.of = e->cut;
}

void ccl_i_explain_fini(ccl_i_explain_t *root) {
    ccl_text_fini(&root->room);
    free(root->resources);
    free(root->causes);
}

ccl_status_t ccl_i_explain_init(const ccl_report_explanation_t *about, uint32_t most,
                                ccl_i_explain_t *out, ccl_error_t *err) {
    ccl_status_t status;

    fill(about, out);
    out->most = most;
    status = ccl_i_explain_resources(about, &out->resources, &out->nresources, err);
    if (status == CCL_OK)
        status = ccl_i_explain_causes(about, &out->causes, &out->ncauses, err);
    if (status != CCL_OK)
        ccl_i_explain_fini(out);
    return status;
}
