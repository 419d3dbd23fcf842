/* Lower bounds: how fast a collective can be at all on a cluster, and what stands in the way. */
#include "report/writer.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Names of one line before the rest are counted. */
enum { MOST_NAMES = 12 };

static bool rounds_off(const ccl_bound_t *b) {
    return b->bandwidth.exact_Bps.den == 0;
}

/** The rate as a fraction of GB/s in lowest terms; den 0: there is none. */
static ccl_fraction_t GBps_of(ccl_fraction_t Bps) {
    uint64_t a = Bps.num, b = 1000000000u;
    ccl_fraction_t out = {0, 0};

    if (Bps.den == 0)
        return out;
    while (b) {
        uint64_t r = a % b;

        a = b;
        b = r;
    }
    if (Bps.den > UINT64_MAX / (1000000000u / a))
        return out;
    return (ccl_fraction_t){Bps.num / a, Bps.den * (1000000000u / a)};
}

double ccl_i_gap(double time_s, double bound_s) {
    return bound_s > 0 ? time_s / bound_s : NAN;
}

const char *ccl_i_gap_text(double time_s, double bound_s, char *out, size_t out_len) {
    double gap = ccl_i_gap(time_s, bound_s);

    if (isfinite(gap))
        snprintf(out, out_len, gap < 9.995 ? "%.2f" : "%.4g", gap);
    else
        snprintf(out, out_len, "-");
    return out;
}

static const char *proof_text(const ccl_bandwidth_bound_t *b) {
    switch (b->proof) {
    case CCL_BOUND_CUT:
        return "the tightest cut";
    case CCL_BOUND_PARTITION:
        return "the tightest partition";
    case CCL_BOUND_LENGTHS:
        return "flows between all pairs";
    default:
        return "nothing has to move";
    }
}

/** GPUs of one part, the first few by name. */
static void text_part(const ccl_topology_t *topo, const uint32_t *part, uint32_t which,
                      ccl_text_t *out) {
    uint32_t n = 0;

    for (uint32_t r = 0; r < topo->nranks; r++) {
        if (part[topo->rank_device[r]] != which)
            continue;
        if (n < MOST_NAMES)
            ccl_text_printf(out, " %s", topo->devices[topo->rank_device[r]].id);
        n++;
    }
    if (n > MOST_NAMES)
        ccl_text_printf(out, " and %u more", n - MOST_NAMES);
}

static uint32_t part_size(const ccl_topology_t *topo, const uint32_t *part, uint32_t which) {
    uint32_t n = 0;

    for (uint32_t r = 0; r < topo->nranks; r++)
        n += part[topo->rank_device[r]] == which;
    return n;
}

static void text_witness(const ccl_topology_t *topo, const ccl_bandwidth_bound_t *b, uint32_t rows,
                         ccl_text_t *out) {
    char name[300];
    char rate[40];

    if (b->proof == CCL_BOUND_CUT) {
        uint32_t sends = part_size(topo, b->part, 1);
        bool less = sends <= topo->nranks - sends;

        ccl_text_printf(out, "  cut        %u GPUs send to %u: %s", sends, topo->nranks - sends,
                        less ? "from" : "to");
        text_part(topo, b->part, less ? 1 : 0, out);
        ccl_text_printf(out, "\n");
    } else if (b->proof == CCL_BOUND_PARTITION) {
        ccl_text_printf(out, "  partition  %u parts:", b->nparts);
        for (uint32_t p = 0; p < b->nparts && p < 4; p++) {
            text_part(topo, b->part, p, out);
            ccl_text_printf(out, p + 1 < b->nparts ? " |" : "");
        }
        ccl_text_printf(out, "%s\n", b->nparts > 4 ? " ..." : "");
    }
    if (b->nlinks == 0)
        return;
    ccl_text_printf(out, "  saturated ");
    for (uint32_t i = 0; i < b->nlinks && i < rows; i++)
        ccl_text_printf(
            out, "%s %s (%s)", i ? "," : "", ccl_i_link_name(topo, b->links[i], name, sizeof(name)),
            ccl_format_rate(topo->links[b->links[i]].bandwidth_Bps, rate, sizeof(rate)));
    if (b->nlinks > rows)
        ccl_text_printf(out, " and %u more links", b->nlinks - rows);
    ccl_text_printf(out, "\n");
}

static void text_one(const ccl_report_bounds_t *r, uint32_t i, uint32_t rows, ccl_text_t *out) {
    const ccl_bound_t *b = &r->bounds[i];
    const ccl_collective_t *coll = r->collectives[i];
    const ccl_topology_t *topo = r->topo;
    ccl_fraction_t exact = GBps_of(b->bandwidth.exact_Bps);
    double factor = ccl_collective_busbw_factor(coll->kind, coll->nranks);
    char a[40], c[40];

    ccl_text_printf(out, "%s%s on %s (%u GPUs)\n", i ? "\n" : "", coll->name, topo->name,
                    topo->nranks);
    ccl_text_printf(out, "  latency    %s us", ccl_i_us(b->latency.latency_s, a, sizeof(a)));
    if (b->latency.from != CCL_NONE)
        ccl_text_printf(out, ": %s to %s, %u hop%s",
                        topo->devices[topo->rank_device[b->latency.from]].id,
                        topo->devices[topo->rank_device[b->latency.to]].id, b->latency.hops,
                        b->latency.hops == 1 ? "" : "s");
    ccl_text_printf(out, "\n");
    if (b->bandwidth.proof == CCL_BOUND_NOTHING) {
        ccl_text_printf(out, "  bandwidth  no limit: nothing has to move\n");
        return;
    }
    ccl_text_printf(out, "  bandwidth  %s GB/s algbw", ccl_i_GBps(b->bandwidth.Bps, a, sizeof(a)));
    if (exact.den > 1)
        ccl_text_printf(out, " = %" PRIu64 "/%" PRIu64, exact.num, exact.den);
    else if (rounds_off(b))
        ccl_text_printf(out, " (rounded)");
    ccl_text_printf(out, ", %s GB/s busbw; %s%s\n",
                    ccl_i_GBps(b->bandwidth.Bps * factor, c, sizeof(c)), proof_text(&b->bandwidth),
                    b->bandwidth.tight ? ", which schedules can meet" : "");
    if (b->bandwidth.trees_Bps > 0)
        ccl_text_printf(out,
                        "  trees      %s GB/s algbw: the best that reduce-scatter and "
                        "all-gather trees reach\n",
                        ccl_i_GBps(b->bandwidth.trees_Bps, a, sizeof(a)));
    if (b->size_bytes > 0)
        ccl_text_printf(out, "  at %-7s %s us, by %s\n",
                        ccl_format_bytes(b->size_bytes, a, sizeof(a)),
                        ccl_i_us(b->time_s, c, sizeof(c)),
                        b->bandwidth_s > b->latency.latency_s ? "bandwidth" : "latency");
    text_witness(topo, &b->bandwidth, rows, out);
}

/* ---------------------------------------------------------------- JSON and CSV */

static void json_one(ccl_i_json_t *json, const ccl_report_bounds_t *r, uint32_t i) {
    const ccl_bound_t *b = &r->bounds[i];
    const ccl_bandwidth_bound_t *w = &b->bandwidth;
    const ccl_topology_t *topo = r->topo;
    const ccl_collective_t *coll = r->collectives[i];
    ccl_fraction_t exact = GBps_of(w->exact_Bps);
    bool sized = b->size_bytes > 0;

    ccl_i_json_object(json, NULL, false);
    ccl_i_json_string(json, "collective", coll->name);
    ccl_i_json_number(json, "size_bytes", sized ? b->size_bytes : NAN);
    ccl_i_json_number(json, "time_s", sized ? b->time_s : NAN);
    ccl_i_json_number(json, "latency_s", b->latency.latency_s);
    ccl_i_json_index(json, "latency_from", b->latency.from);
    ccl_i_json_index(json, "latency_to", b->latency.to);
    ccl_i_json_u64(json, "latency_hops", b->latency.hops);
    ccl_i_json_number(json, "bandwidth_s", sized ? b->bandwidth_s : NAN);
    ccl_i_json_number(json, "algbw_GBps", w->Bps / 1e9);
    ccl_i_json_number(json, "busbw_GBps",
                      w->Bps / 1e9 * ccl_collective_busbw_factor(coll->kind, coll->nranks));
    if (exact.den) {
        ccl_i_json_object(json, "exact_GBps", true);
        ccl_i_json_u64(json, "num", exact.num);
        ccl_i_json_u64(json, "den", exact.den);
        ccl_i_json_close_object(json);
    } else {
        ccl_i_json_null(json, "exact_GBps");
    }
    ccl_i_json_string(json, "proof", ccl_bound_proof_name(w->proof));
    ccl_i_json_bool(json, "tight", w->tight);
    ccl_i_json_number(json, "trees_GBps", w->trees_Bps > 0 ? w->trees_Bps / 1e9 : NAN);
    ccl_i_json_array(json, "parts", false);
    for (uint32_t p = 0; w->part && p < w->nparts; p++) {
        ccl_i_json_array(json, NULL, true);
        for (uint32_t v = 0; v < topo->ndevices; v++) {
            if (w->part[v] == p)
                ccl_i_json_string(json, NULL, topo->devices[v].id);
        }
        ccl_i_json_close_array(json);
    }
    ccl_i_json_close_array(json);
    ccl_i_json_array(json, "links", false);
    for (uint32_t l = 0; l < w->nlinks; l++) {
        const ccl_link_t *link = &topo->links[w->links[l]];

        ccl_i_json_object(json, NULL, true);
        ccl_i_json_string(json, "from", topo->devices[link->from].id);
        ccl_i_json_string(json, "to", topo->devices[link->to].id);
        ccl_i_json_string(json, "kind", topo->kinds[link->kind]);
        ccl_i_json_number(json, "bandwidth_GBps", link->bandwidth_Bps / 1e9);
        ccl_i_json_close_object(json);
    }
    ccl_i_json_close_array(json);
    ccl_i_json_close_object(json);
}

static ccl_status_t bounds_csv(const ccl_report_bounds_t *r, ccl_text_t *out, ccl_error_t *err) {
    static const char *const headers[] = {"topology",   "collective",  "size_bytes", "time_s",
                                          "latency_s",  "bandwidth_s", "algbw_GBps", "busbw_GBps",
                                          "exact_GBps", "proof",       "tight",      "trees_GBps"};
    ccl_table_t *table = ccl_table_create();
    ccl_status_t status;
    char text[60];

    if (!table)
        return ccl_fail_nomem(err);
    ccl_i_table_columns(table, headers, CCL_ARRAY_LEN(headers), CCL_ARRAY_LEN(headers));
    for (uint32_t i = 0; i < r->nbounds; i++) {
        const ccl_bound_t *b = &r->bounds[i];
        const ccl_collective_t *coll = r->collectives[i];
        ccl_fraction_t exact = GBps_of(b->bandwidth.exact_Bps);
        double factor = ccl_collective_busbw_factor(coll->kind, coll->nranks);
        bool sized = b->size_bytes > 0;
        const double numbers[] = {sized ? b->size_bytes : NAN, sized ? b->time_s : NAN,
                                  b->latency.latency_s,        sized ? b->bandwidth_s : NAN,
                                  b->bandwidth.Bps / 1e9,      b->bandwidth.Bps / 1e9 * factor};

        ccl_table_row(table);
        ccl_table_cell(table, "%s", r->topo->name);
        ccl_table_cell(table, "%s", coll->name);
        for (size_t k = 0; k < CCL_ARRAY_LEN(numbers); k++)
            ccl_table_cell(table, "%s", ccl_i_number(numbers[k], text, sizeof(text)));
        if (exact.den)
            ccl_table_cell(table, "%" PRIu64 "/%" PRIu64, exact.num, exact.den);
        else
            ccl_table_cell(table, "%s", "");
        ccl_table_cell(table, "%s", ccl_bound_proof_name(b->bandwidth.proof));
        ccl_table_cell(table, "%s", b->bandwidth.tight ? "true" : "false");
        ccl_table_cell(table, "%s",
                       b->bandwidth.trees_Bps > 0
                           ? ccl_i_number(b->bandwidth.trees_Bps / 1e9, text, sizeof(text))
                           : "");
    }
    status = ccl_i_table_emit(table, CCL_REPORT_CSV, out, err);
    ccl_table_destroy(table);
    return status;
}

ccl_status_t ccl_report_bounds(const ccl_report_bounds_t *bounds, const ccl_report_style_t *style,
                               ccl_text_t *out, ccl_error_t *err) {
    ccl_i_json_t json;

    if (style->format == CCL_REPORT_CSV)
        return bounds_csv(bounds, out, err);
    if (style->format == CCL_REPORT_TEXT) {
        for (uint32_t i = 0; i < bounds->nbounds; i++)
            text_one(bounds, i, style->rows ? style->rows : 8, out);
        return ccl_i_text_status(out, err);
    }
    ccl_i_json_begin(&json, out);
    ccl_i_json_schema(&json, "ccllab/bound/1");
    ccl_i_json_string(&json, "topology", bounds->topo->name);
    ccl_i_json_u64(&json, "nranks", bounds->topo->nranks);
    ccl_i_json_array(&json, "bounds", false);
    for (uint32_t i = 0; i < bounds->nbounds; i++)
        json_one(&json, bounds, i);
    ccl_i_json_close_array(&json);
    ccl_i_json_end(&json);
    return ccl_i_text_status(out, err);
}
