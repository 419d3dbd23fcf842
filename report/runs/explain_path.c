/* Shares of a run, and what of its critical path comes first. */
#include "report/runs/explain.h"

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

void ccl_i_explain_edits(const ccl_counterfactual_t *c, ccl_text_t *out) {
    for (uint32_t i = 0; i < c->nedits; i++)
        ccl_text_printf(out, "%s--scale '%s'", i ? " " : "", strchr(c->edits[i], ':') + 1);
    if (c->options)
        ccl_text_printf(out, "%s%s", c->nedits ? " " : "", c->options);
}
