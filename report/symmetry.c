/* What is alike in a cluster: dimensions, groups, automorphism classes. */
#include "report/writer.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_RUNS = 8, MAX_CLASSES = 40 };

/* "0-3,8,16-19": ranks r with of[r] == which. */
static void ranks_of(const uint32_t *of, uint32_t n, uint32_t which, ccl_text_t *out) {
    uint32_t runs = 0;

    for (uint32_t r = 0; r < n; r++) {
        uint32_t last = r;

        if (of[r] != which)
            continue;
        while (last + 1 < n && of[last + 1] == which)
            last++;
        if (runs++ == MAX_RUNS) {
            ccl_text_printf(out, ",...");
            return;
        }
        ccl_text_printf(out, last > r ? "%s%u-%u" : "%s%u", runs > 1 ? "," : "", r, last);
        r = last;
    }
}

static void range(ccl_table_t *table, const char *low, const char *high) {
    ccl_table_cell(table, strcmp(low, high) ? "%s..%s" : "%s", low, high);
}

static ccl_status_t dimension_table(const ccl_symmetry_t *s, ccl_report_format_t format,
                                    ccl_text_t *out, ccl_error_t *err) {
    static const char *const headers[] = {"dimension", "groups",          "GPUs per group",
                                          "classes",   "narrowest(GB/s)", "latency(us)",
                                          "all pairs"};
    ccl_table_t *table = ccl_table_create();
    ccl_status_t status;
    char a[64], b[64];

    if (!table)
        return ccl_fail_nomem(err);
    ccl_i_table_columns(table, headers, CCL_ARRAY_LEN(headers), 1);
    for (uint32_t i = 0; i < s->ndimensions; i++) {
        const ccl_dimension_t *d = &s->dimensions[i];
        uint32_t complete = 0;

        for (uint32_t g = 0; g < d->ngroups; g++)
            complete += d->complete[g];
        ccl_table_row(table);
        ccl_table_cell(table, "%s", d->name);
        ccl_table_cell(table, "%u", d->ngroups);
        range(table, ccl_i_index(d->min_gpus, a, sizeof a), ccl_i_index(d->max_gpus, b, sizeof b));
        ccl_table_cell(table, "%u", d->nclasses);
        range(table, ccl_i_GBps(d->min_Bps, a, sizeof a), ccl_i_GBps(d->max_Bps, b, sizeof b));
        range(table, ccl_i_us(d->min_latency_s, a, sizeof a),
              ccl_i_us(d->max_latency_s, b, sizeof b));
        ccl_table_cell(table, "%u", complete);
    }
    status = ccl_i_table_emit(table, format, out, err);
    ccl_table_destroy(table);
    return status;
}

static ccl_status_t symmetry_text(const ccl_topology_t *topo, const ccl_symmetry_t *s,
                                  ccl_text_t *out, ccl_error_t *err) {
    ccl_text_printf(out, "%s: %u GPUs, %u dimension%s\n\n", topo->name, s->nranks, s->ndimensions,
                    s->ndimensions == 1 ? "" : "s");
    CCL_TRY(dimension_table(s, CCL_REPORT_TEXT, out, err));
    ccl_text_printf(out,
                    "\n\"classes\": groups that an automorphism carries to each other are one; "
                    "\"all pairs\":\ngroups in which every two GPUs have a route of that kind\n");
    for (uint32_t i = 0; i < s->ndimensions; i++) {
        const ccl_dimension_t *d = &s->dimensions[i];

        if (d->nclasses < 2)
            continue;
        ccl_text_printf(out, "\nclasses of groups, %s\n", d->name);
        for (uint32_t c = 0; c < d->nclasses && c < MAX_CLASSES; c++) {
            uint32_t some = CCL_NONE, n = 0;

            for (uint32_t g = 0; g < d->ngroups; g++) {
                if (d->class_of[g] == c && n++ == 0)
                    some = g;
            }
            ccl_text_printf(out, "  %u: %u group%s of %u, like GPUs ", c, n, n == 1 ? "" : "s",
                            d->first[some + 1] - d->first[some]);
            ranks_of(d->group_of, s->nranks, some, out);
            ccl_text_printf(out, "\n");
        }
    }
    ccl_text_printf(out, "\nclasses of GPUs: %u (about 10^%.3g automorphisms, %u generators)\n",
                    s->ngpu_classes, s->log10_automorphisms, s->ngenerators);
    for (uint32_t c = 0; c < s->ngpu_classes && c < MAX_CLASSES; c++) {
        ccl_text_printf(out, "  %u: ", c);
        ranks_of(s->gpu_class, s->nranks, c, out);
        ccl_text_printf(out, "\n");
    }
    if (s->ngpu_classes > MAX_CLASSES)
        ccl_text_printf(out, "  and %u more\n", s->ngpu_classes - MAX_CLASSES);
    return ccl_i_text_status(out, err);
}

static void symmetry_json(const ccl_topology_t *topo, const ccl_symmetry_t *s, ccl_text_t *out) {
    ccl_i_json_t json;

    ccl_i_json_begin(&json, out);
    ccl_i_json_schema(&json, "ccllab/symmetry/1");
    ccl_i_json_string(&json, "topology", topo->name);
    ccl_i_json_u64(&json, "nranks", s->nranks);
    ccl_i_json_number(&json, "log10_automorphisms", s->log10_automorphisms);
    ccl_i_json_u64(&json, "generators", s->ngenerators);
    ccl_i_json_array(&json, "gpu_class", true);
    for (uint32_t r = 0; r < s->nranks; r++)
        ccl_i_json_u64(&json, NULL, s->gpu_class[r]);
    ccl_i_json_close_array(&json);
    ccl_i_json_array(&json, "dimensions", false);
    for (uint32_t i = 0; i < s->ndimensions; i++) {
        const ccl_dimension_t *d = &s->dimensions[i];

        ccl_i_json_object(&json, NULL, false);
        ccl_i_json_string(&json, "name", d->name);
        ccl_i_json_string(&json, "transport", d->kind);
        ccl_i_json_number(&json, "min_Bps", d->min_Bps);
        ccl_i_json_number(&json, "max_Bps", d->max_Bps);
        ccl_i_json_number(&json, "min_latency_s", d->min_latency_s);
        ccl_i_json_number(&json, "max_latency_s", d->max_latency_s);
        ccl_i_json_array(&json, "groups", false);
        for (uint32_t g = 0; g < d->ngroups; g++) {
            ccl_i_json_object(&json, NULL, true);
            ccl_i_json_u64(&json, "class", d->class_of[g]);
            ccl_i_json_bool(&json, "all_pairs", d->complete[g]);
            ccl_i_json_array(&json, "ranks", true);
            for (uint32_t k = d->first[g]; k < d->first[g + 1]; k++)
                ccl_i_json_u64(&json, NULL, d->ranks[k]);
            ccl_i_json_close_array(&json);
            ccl_i_json_close_object(&json);
        }
        ccl_i_json_close_array(&json);
        ccl_i_json_close_object(&json);
    }
    ccl_i_json_close_array(&json);
    ccl_i_json_end(&json);
}

ccl_status_t ccl_report_symmetry(const ccl_topology_t *topo, const ccl_symmetry_t *symmetry,
                                 const ccl_report_style_t *style, ccl_text_t *out,
                                 ccl_error_t *err) {
    if (style->format == CCL_REPORT_TEXT)
        return symmetry_text(topo, symmetry, out, err);
    if (style->format == CCL_REPORT_CSV)
        return dimension_table(symmetry, CCL_REPORT_CSV, out, err);
    symmetry_json(topo, symmetry, out);
    return ccl_i_text_status(out, err);
}
