/* Who wins at which size, by how much, and how busy the winner's links were. */
#include "report/writer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const ccl_report_comparison_tables[] = {"times", "links", NULL};

static const ccl_compare_cell_t *cell_at(const ccl_comparison_t *c, uint32_t size,
                                         uint32_t contender) {
    return &c->cells[(size_t)size * c->ncontenders + contender];
}

/** Is this contender as good as the winner, as far as the model knows? */
static bool is_tied(const ccl_comparison_t *c, uint32_t size, uint32_t contender) {
    uint32_t w = c->winner[size];
    const ccl_compare_cell_t *cell = cell_at(c, size, contender);

    if (w == CCL_NONE || contender == w || !c->tie[size] || cell->status != CCL_OK)
        return false;
    return cell->low_s <= cell_at(c, size, w)->high_s;
}

/* ---------------------------------------------------------------- text */

static void text_title(const ccl_report_comparison_t *r, uint32_t i, ccl_text_t *out) {
    const ccl_topology_t *topo = r->topo;

    ccl_text_printf(out, "%s%s on %s: %u GPUs", i ? "\n\n" : "", r->collectives[i]->name,
                    topo->name, topo->nranks);
    if (topo->nservers)
        ccl_text_printf(out, " on %u server%s", topo->nservers, topo->nservers == 1 ? "" : "s");
    ccl_text_printf(out, " (simulated; %s level, %s sharing)\n\n",
                    ccl_i_granularity_name(r->options->granularity),
                    ccl_i_sharing_name(r->options->sharing));
}

/** What a contender's column shows at a size, with a mark or a blank behind it. */
static const char *cell_text(const ccl_comparison_t *c, uint32_t size, uint32_t contender,
                             char *out, size_t out_len) {
    const ccl_compare_cell_t *cell = cell_at(c, size, contender);
    char number[40];

    if (cell->status != CCL_OK)
        snprintf(out, out_len, "%s ", ccl_i_status_word(cell->status));
    else
        snprintf(out, out_len, "%s%s", ccl_i_GBps(cell->busbw_GBps * 1e9, number, sizeof(number)),
                 contender == c->winner[size]  ? "*"
                 : is_tied(c, size, contender) ? "="
                                               : " ");
    return out;
}

/** Width of a contender's column, with the gap before it. */
static uint32_t column_width(const ccl_comparison_t *c, uint32_t contender) {
    size_t most = strlen(c->names[contender]) + 1;
    char text[64];

    for (uint32_t s = 0; s < c->nsizes; s++) {
        size_t len = strlen(cell_text(c, s, contender, text, sizeof(text)));

        most = len > most ? len : most;
    }
    return (uint32_t)most + 2;
}

/** Lower bound at a size, seconds; 0: there is none. */
static double bound_of(const ccl_comparison_t *c, uint32_t size) {
    return c->bound_s ? c->bound_s[size] : 0;
}

static const char *bound_text(const ccl_comparison_t *c, uint32_t size, char *out, size_t out_len) {
    if (!(bound_of(c, size) > 0))
        return "-";
    return ccl_i_us(bound_of(c, size), out, out_len);
}

/** One block of the table: contenders [first, last) of those that take part. */
static ccl_status_t text_times(const ccl_comparison_t *c, const uint32_t *order, uint32_t first,
                               uint32_t last, ccl_text_t *out, ccl_error_t *err) {
    ccl_table_t *table = ccl_table_create();
    ccl_status_t status;
    char text[64];

    if (!table)
        return ccl_fail_nomem(err);
    ccl_table_column(table, "size", CCL_ALIGN_RIGHT);
    if (first == 0) {
        ccl_table_column(table, "winner", CCL_ALIGN_LEFT);
        ccl_table_column(table, "time(us)", CCL_ALIGN_RIGHT);
        ccl_table_column(table, "bound(us)", CCL_ALIGN_RIGHT);
        ccl_table_column(table, "gap", CCL_ALIGN_RIGHT);
        ccl_table_column(table, "algbw(GB/s)", CCL_ALIGN_RIGHT);
        ccl_table_column(table, "busbw(GB/s)", CCL_ALIGN_RIGHT);
    }
    ccl_table_column(table, "|", CCL_ALIGN_LEFT);
    for (uint32_t k = first; k < last; k++) {
        /* the blank stands above the marks */
        snprintf(text, sizeof(text), "%.60s ", c->names[order[k]]);
        ccl_table_column(table, text, CCL_ALIGN_RIGHT);
    }
    for (uint32_t s = 0; s < c->nsizes; s++) {
        uint32_t w = c->winner[s];

        ccl_table_row(table);
        ccl_table_cell(table, "%s", ccl_format_bytes(c->sizes_bytes[s], text, sizeof(text)));
        if (first == 0 && w != CCL_NONE) {
            const ccl_compare_cell_t *best = cell_at(c, s, w);

            ccl_table_cell(table, "%s%s", c->names[w], c->tie[s] ? " =" : "");
            ccl_table_cell(table, "%s", ccl_i_us(best->time_s, text, sizeof(text)));
            ccl_table_cell(table, "%s", bound_text(c, s, text, sizeof(text)));
            ccl_table_cell(table, "%s",
                           ccl_i_gap_text(best->time_s, bound_of(c, s), text, sizeof(text)));
            ccl_table_cell(table, "%s", ccl_i_GBps(best->algbw_GBps * 1e9, text, sizeof(text)));
            ccl_table_cell(table, "%s", ccl_i_GBps(best->busbw_GBps * 1e9, text, sizeof(text)));
        } else if (first == 0) {
            ccl_table_cell(table, "none");
            for (int k = 0; k < 5; k++) {
                if (k == 1)
                    ccl_table_cell(table, "%s", bound_text(c, s, text, sizeof(text)));
                else
                    ccl_table_cell(table, "-");
            }
        }
        ccl_table_cell(table, "|");
        for (uint32_t k = first; k < last; k++)
            ccl_table_cell(table, "%s", cell_text(c, s, order[k], text, sizeof(text)));
    }
    status = ccl_i_table_emit(table, CCL_REPORT_TEXT, out, err);
    ccl_table_destroy(table);
    return status;
}

static ccl_status_t text_all_times(const ccl_comparison_t *c, uint32_t columns, ccl_text_t *out,
                                   ccl_error_t *err) {
    uint32_t *order = calloc(c->ncontenders ? c->ncontenders : 1, sizeof(*order));
    uint32_t fixed = 8 + 10 + 11 + 6 + 13 + 13 + 3;
    uint32_t winner = 6;
    uint32_t n = 0;
    ccl_status_t status = CCL_OK;

    if (!order)
        return ccl_fail_nomem(err);
    for (uint32_t k = 0; k < c->ncontenders; k++) {
        if (c->why_not[k])
            continue;
        order[n++] = k;
        if (strlen(c->names[k]) + 2 > winner)
            winner = (uint32_t)strlen(c->names[k]) + 2;
    }
    ccl_text_printf(out, "The winner at each size; right of the bar, busbw (GB/s) of everyone\n");
    for (uint32_t first = 0; status == CCL_OK && (first < n || first == 0);) {
        uint32_t width = first == 0 ? fixed + winner + 2 : 8 + 3;
        uint32_t last = first;

        while (last < n && (last == first || width + column_width(c, order[last]) <= columns))
            width += column_width(c, order[last++]);
        if (first > 0)
            ccl_text_printf(out, "\n");
        status = text_times(c, order, first, last, out, err);
        if (last == first)
            break;
        first = last;
    }
    free(order);
    return status;
}

/** Busiest link of a run; CCL_NONE when nothing was carried. */
static uint32_t busiest_link(const ccl_sim_result_t *result) {
    uint32_t best = CCL_NONE;

    for (uint32_t l = 0; l < result->nlinks; l++) {
        if (result->links[l].utilization > 0 &&
            (best == CCL_NONE || result->links[l].utilization > result->links[best].utilization))
            best = l;
    }
    return best;
}

static ccl_status_t text_links(const ccl_topology_t *topo, const ccl_comparison_t *c,
                               ccl_text_t *out, ccl_error_t *err) {
    ccl_link_class_t *classes = calloc(topo->nkinds ? topo->nkinds : 1, sizeof(*classes));
    ccl_table_t *table = ccl_table_create();
    ccl_status_t status;
    bool some = false;
    char text[300];
    char low[24], mean[24], high[24];

    if (!classes || !table) {
        free(classes);
        ccl_table_destroy(table);
        return ccl_fail_nomem(err);
    }
    ccl_table_column(table, "size", CCL_ALIGN_RIGHT);
    ccl_table_column(table, "winner", CCL_ALIGN_LEFT);
    for (uint32_t k = 0; k < topo->nkinds; k++) {
        snprintf(text, sizeof(text), "%s(%%)", topo->kinds[k]);
        ccl_table_column(table, text, CCL_ALIGN_RIGHT);
    }
    ccl_table_column(table, "busiest link", CCL_ALIGN_LEFT);
    ccl_table_column(table, "busy(%)", CCL_ALIGN_RIGHT);
    for (uint32_t s = 0; s < c->nsizes; s++) {
        uint32_t top;

        if (!c->best[s] || !c->best[s]->links)
            continue;
        some = true;
        ccl_report_link_classes(topo, c->best[s], classes);
        ccl_table_row(table);
        ccl_table_cell(table, "%s", ccl_format_bytes(c->sizes_bytes[s], text, sizeof(text)));
        ccl_table_cell(table, "%s", c->names[c->winner[s]]);
        for (uint32_t k = 0; k < topo->nkinds; k++)
            ccl_table_cell(table, "%s / %s / %s", ccl_i_percent(classes[k].min, low, sizeof(low)),
                           ccl_i_percent(classes[k].mean, mean, sizeof(mean)),
                           ccl_i_percent(classes[k].max, high, sizeof(high)));
        top = busiest_link(c->best[s]);
        if (top == CCL_NONE) {
            ccl_table_cell(table, "-");
            ccl_table_cell(table, "-");
        } else {
            ccl_table_cell(table, "%s", ccl_i_link_name(topo, top, text, sizeof(text)));
            ccl_table_cell(table, "%s",
                           ccl_i_percent(c->best[s]->links[top].utilization, high, sizeof(high)));
        }
    }
    status = CCL_OK;
    if (some) {
        ccl_text_printf(out, "\nHow busy the winner's links were, by kind: the least busy link / "
                             "the mean / the busiest\n");
        status = ccl_i_table_emit(table, CCL_REPORT_TEXT, out, err);
    }
    ccl_table_destroy(table);
    free(classes);
    return status;
}

static bool any_tie(const ccl_comparison_t *c) {
    for (uint32_t s = 0; s < c->nsizes; s++) {
        if (c->tie[s])
            return true;
    }
    return false;
}

/** Who is lowered and run otherwise than the title says. */
static void text_ways(const ccl_report_comparison_t *r, const ccl_comparison_t *c,
                      ccl_text_t *out) {
    for (uint32_t k = 0; k < c->ncontenders; k++) {
        const ccl_way_t *way = &c->ways[k];

        if (c->why_not[k])
            continue;
        if (c->lowered[k] &&
            (way->order != CCL_ORDER_STEP || way->allocation != CCL_ALLOCATE_CONNECTION ||
             way->granularity != r->options->granularity))
            ccl_text_printf(out, "  %s: %s order, %s allocation, %s level\n", c->names[k],
                            ccl_i_order_name(way->order), ccl_i_allocation_name(way->allocation),
                            ccl_i_granularity_name(way->granularity));
    }
}

/** Reasons begin with the name mostly, which stands before them already. */
static const char *without_name(const char *why, const char *name) {
    size_t len = strlen(name);

    return strncmp(why, name, len) == 0 && strncmp(why + len, ": ", 2) == 0 ? why + len + 2 : why;
}

/** At which sizes one that takes part has no time, and why: sizes of one reason in one line. */
static void text_without_time(const ccl_comparison_t *c, uint32_t k, ccl_text_t *out) {
    const char *last = NULL;
    char text[64];

    for (uint32_t s = 0; !c->why_not[k] && s < c->nsizes; s++) {
        const char *why = cell_at(c, s, k)->why;

        if (!why)
            continue;
        ccl_format_bytes(c->sizes_bytes[s], text, sizeof(text));
        if (last && strcmp(why, last) == 0) {
            ccl_text_printf(out, ", %s", text);
            continue;
        }
        if (last)
            ccl_text_printf(out, ": %s\n", without_name(last, c->names[k]));
        ccl_text_printf(out, "  %s has no time at %s", c->names[k], text);
        last = why;
    }
    if (last)
        ccl_text_printf(out, ": %s\n", without_name(last, c->names[k]));
}

static void text_notes(const ccl_report_comparison_t *r, uint32_t i, ccl_text_t *out) {
    const ccl_comparison_t *c = r->comparisons[i];
    double factor = ccl_collective_busbw_factor(r->collectives[i]->kind, r->collectives[i]->nranks);
    bool some = false;

    ccl_text_printf(out, "\n  size   bytes of the largest buffer of a GPU (K, M, G are 2^10, 2^20, "
                         "2^30, as in nccl-tests)\n"
                         "  bound  no schedule is faster (ccllab bound); gap: time / bound\n"
                         "  algbw  size / time\n");
    if (factor == 1)
        ccl_text_printf(out, "  busbw  the same as algbw here\n");
    else
        ccl_text_printf(
            out,
            "  busbw  algbw x %.4g, nccl-tests' measure to set beside link speeds whatever "
            "the number of GPUs\n",
            factor);
    ccl_text_printf(out, "  *      the winner%s\n",
                    any_tie(c) ? "; = as good as the winner (their times differ by no more than a "
                                 "size change of 1e-6 does)"
                               : "");
    ccl_text_printf(out, "  busy   bytes carried / (bandwidth x time)\n");
    ccl_text_printf(out, "  thread blocks on the fullest GPU:");
    for (uint32_t k = 0; k < c->ncontenders; k++) {
        if (c->why_not[k])
            continue;
        ccl_text_printf(out, "%s %s %u", some ? "," : "", c->names[k], c->thread_blocks[k]);
        some = true;
    }
    ccl_text_printf(out, "%s\n", some ? "" : " nobody took part");
    text_ways(r, c, out);
    for (uint32_t k = 0; k < c->ncontenders; k++) {
        size_t len = strlen(c->names[k]);

        if (!c->why_not[k])
            continue;
        ccl_text_printf(out, "  did not take part: ");
        if (strncmp(c->why_not[k], c->names[k], len) != 0) /* most reasons begin with the name */
            ccl_text_printf(out, "%s: ", c->names[k]);
        ccl_text_printf(out, "%s\n", c->why_not[k]);
    }
    for (uint32_t k = 0; k < c->ncontenders; k++)
        text_without_time(c, k, out);
}

static ccl_status_t comparison_text(const ccl_report_comparison_t *r, uint32_t columns,
                                    ccl_text_t *out, ccl_error_t *err) {
    for (uint32_t i = 0; i < r->ncomparisons; i++) {
        text_title(r, i, out);
        CCL_TRY(text_all_times(r->comparisons[i], columns, out, err));
        CCL_TRY(text_links(r->topo, r->comparisons[i], out, err));
        text_notes(r, i, out);
    }
    return ccl_i_text_status(out, err);
}

/* ---------------------------------------------------------------- JSON */

static void json_cells(ccl_i_json_t *json, const ccl_comparison_t *c, uint32_t s) {
    ccl_i_json_array(json, "results", false);
    for (uint32_t k = 0; k < c->ncontenders; k++) {
        const ccl_compare_cell_t *cell = cell_at(c, s, k);
        bool ok = cell->status == CCL_OK;

        if (c->why_not[k])
            continue;
        ccl_i_json_object(json, NULL, true);
        ccl_i_json_string(json, "name", c->names[k]);
        ccl_i_json_string(json, "status", ccl_i_status_word(cell->status));
        ccl_i_json_string(json, "why", cell->why);
        ccl_i_json_number(json, "time_s", ok ? cell->time_s : NAN);
        ccl_i_json_number(json, "algbw_GBps", ok ? cell->algbw_GBps : NAN);
        ccl_i_json_number(json, "busbw_GBps", ok ? cell->busbw_GBps : NAN);
        ccl_i_json_number(json, "low_s", ok ? cell->low_s : NAN);
        ccl_i_json_number(json, "high_s", ok ? cell->high_s : NAN);
        ccl_i_json_number(json, "gap", ok ? ccl_i_gap(cell->time_s, bound_of(c, s)) : NAN);
        ccl_i_json_u64(json, "batches", cell->batches);
        ccl_i_json_usage(json, &cell->usage, ok);
        ccl_i_json_close_object(json);
    }
    ccl_i_json_close_array(json);
}

/** The winner's links: by kind, and each. */
static void json_links(ccl_i_json_t *json, const ccl_topology_t *topo,
                       const ccl_sim_result_t *result, ccl_link_class_t *classes) {
    bool have = result && result->links;

    ccl_i_json_array(json, "link_classes", false);
    if (have) {
        ccl_report_link_classes(topo, result, classes);
        for (uint32_t k = 0; k < topo->nkinds; k++) {
            ccl_i_json_object(json, NULL, true);
            ccl_i_json_string(json, "kind", classes[k].kind);
            ccl_i_json_u64(json, "links", classes[k].nlinks);
            ccl_i_json_u64(json, "used", classes[k].used);
            ccl_i_json_number(json, "bytes", classes[k].bytes);
            ccl_i_json_number(json, "min_utilization", classes[k].min);
            ccl_i_json_number(json, "mean_utilization", classes[k].mean);
            ccl_i_json_number(json, "max_utilization", classes[k].max);
            ccl_i_json_close_object(json);
        }
    }
    ccl_i_json_close_array(json);
    ccl_i_json_array(json, "links", false);
    for (uint32_t l = 0; have && l < result->nlinks; l++) {
        ccl_i_json_object(json, NULL, true);
        ccl_i_json_string(json, "from", topo->devices[topo->links[l].from].id);
        ccl_i_json_string(json, "to", topo->devices[topo->links[l].to].id);
        ccl_i_json_string(json, "kind", topo->kinds[topo->links[l].kind]);
        ccl_i_json_number(json, "bytes", result->links[l].bytes);
        ccl_i_json_number(json, "utilization", result->links[l].utilization);
        ccl_i_json_close_object(json);
    }
    ccl_i_json_close_array(json);
}

static void json_comparison(ccl_i_json_t *json, const ccl_report_comparison_t *r, uint32_t i,
                            ccl_link_class_t *classes) {
    const ccl_comparison_t *c = r->comparisons[i];
    const ccl_collective_t *coll = r->collectives[i];

    ccl_i_json_object(json, NULL, false);
    ccl_i_json_string(json, "collective", coll->name);
    ccl_i_json_number(json, "busbw_factor", ccl_collective_busbw_factor(coll->kind, coll->nranks));
    ccl_i_json_array(json, "contenders", false);
    for (uint32_t k = 0; k < c->ncontenders; k++) {
        ccl_i_json_object(json, NULL, true);
        ccl_i_json_string(json, "name", c->names[k]);
        ccl_i_json_bool(json, "takes_part", c->why_not[k] == NULL);
        ccl_i_json_string(json, "why_not", c->why_not[k]);
        if (c->why_not[k])
            ccl_i_json_null(json, "thread_blocks");
        else
            ccl_i_json_u64(json, "thread_blocks", c->thread_blocks[k]);
        ccl_i_json_way(json, &c->ways[k], c->lowered[k]);
        ccl_i_json_close_object(json);
    }
    ccl_i_json_close_array(json);
    ccl_i_json_array(json, "sizes", false);
    for (uint32_t s = 0; s < c->nsizes; s++) {
        uint32_t w = c->winner[s];

        ccl_i_json_object(json, NULL, false);
        ccl_i_json_number(json, "size_bytes", c->sizes_bytes[s]);
        ccl_i_json_number(json, "bound_s", bound_of(c, s) > 0 ? bound_of(c, s) : NAN);
        ccl_i_json_string(json, "winner", w == CCL_NONE ? NULL : c->names[w]);
        ccl_i_json_bool(json, "tie", c->tie[s]);
        ccl_i_json_array(json, "tied_with", true);
        for (uint32_t k = 0; k < c->ncontenders; k++) {
            if (!c->why_not[k] && is_tied(c, s, k))
                ccl_i_json_string(json, NULL, c->names[k]);
        }
        ccl_i_json_close_array(json);
        json_cells(json, c, s);
        json_links(json, r->topo, c->best[s], classes);
        ccl_i_json_close_object(json);
    }
    ccl_i_json_close_array(json);
    ccl_i_json_close_object(json);
}

static ccl_status_t comparison_json(const ccl_report_comparison_t *r, ccl_text_t *out,
                                    ccl_error_t *err) {
    ccl_link_class_t *classes = calloc(r->topo->nkinds ? r->topo->nkinds : 1, sizeof(*classes));
    ccl_i_json_t json;

    if (!classes)
        return ccl_fail_nomem(err);
    ccl_i_json_begin(&json, out);
    ccl_i_json_schema(&json, "ccllab/compare/1");
    ccl_i_json_string(&json, "topology", r->topo->name);
    ccl_i_json_u64(&json, "nranks", r->topo->nranks);
    ccl_i_json_string(&json, "granularity", ccl_i_granularity_name(r->options->granularity));
    ccl_i_json_string(&json, "sharing", ccl_i_sharing_name(r->options->sharing));
    ccl_i_json_u64(&json, "seed", r->seed);
    ccl_i_json_array(&json, "comparisons", false);
    for (uint32_t i = 0; i < r->ncomparisons; i++)
        json_comparison(&json, r, i, classes);
    ccl_i_json_close_array(&json);
    ccl_i_json_end(&json);
    free(classes);
    return ccl_i_text_status(out, err);
}

/* ---------------------------------------------------------------- CSV */

static void csv_way(const ccl_comparison_t *c, uint32_t k, const ccl_compare_cell_t *cell, bool ok,
                    ccl_table_t *table) {
    const double shares[] = {cell->usage.mean_idle_share, cell->usage.max_idle_share};
    const ccl_way_t *way = &c->ways[k];
    char text[40];

    ccl_table_cell(table, "%s", c->lowered[k] ? ccl_i_order_name(way->order) : "");
    ccl_table_cell(table, "%s", c->lowered[k] ? ccl_i_allocation_name(way->allocation) : "");
    ccl_table_cell(table, "%s", ccl_i_granularity_name(way->granularity));
    ccl_table_cell(table, "%s",
                   ok ? ccl_i_index(cell->usage.thread_blocks, text, sizeof(text)) : "");
    for (size_t i = 0; i < CCL_ARRAY_LEN(shares); i++)
        ccl_table_cell(table, "%s", ok ? ccl_i_number(shares[i], text, sizeof(text)) : "");
}

static void csv_times(const ccl_report_comparison_t *r, ccl_table_t *table) {
    static const char *const headers[] = {"topology",       "collective",    "size_bytes",
                                          "contender",      "status",        "time_s",
                                          "algbw_GBps",     "busbw_GBps",    "low_s",
                                          "high_s",         "batches",       "winner",
                                          "tied",           "order",         "allocation",
                                          "granularity",    "thread_blocks", "mean_idle_share",
                                          "max_idle_share", "bound_s",       "gap"};
    char text[40];

    ccl_i_table_columns(table, headers, CCL_ARRAY_LEN(headers), CCL_ARRAY_LEN(headers));
    for (uint32_t i = 0; i < r->ncomparisons; i++) {
        const ccl_comparison_t *c = r->comparisons[i];

        for (uint32_t s = 0; s < c->nsizes; s++) {
            for (uint32_t k = 0; k < c->ncontenders; k++) {
                const ccl_compare_cell_t *cell = cell_at(c, s, k);
                const double numbers[] = {cell->time_s, cell->algbw_GBps, cell->busbw_GBps,
                                          cell->low_s, cell->high_s};
                bool ok = !c->why_not[k] && cell->status == CCL_OK;

                ccl_table_row(table);
                ccl_table_cell(table, "%s", r->topo->name);
                ccl_table_cell(table, "%s", r->collectives[i]->name);
                ccl_table_cell(table, "%s", ccl_i_number(c->sizes_bytes[s], text, sizeof(text)));
                ccl_table_cell(table, "%s", c->names[k]);
                ccl_table_cell(table, "%s",
                               c->why_not[k] ? "not taking part" : ccl_i_status_word(cell->status));
                for (size_t n = 0; n < CCL_ARRAY_LEN(numbers); n++)
                    ccl_table_cell(table, "%s",
                                   ok ? ccl_i_number(numbers[n], text, sizeof(text)) : "");
                ccl_table_cell(table, "%s",
                               ok ? ccl_i_index(cell->batches, text, sizeof(text)) : "");
                ccl_table_cell(table, "%s", k == c->winner[s] ? "true" : "false");
                ccl_table_cell(table, "%s", !c->why_not[k] && is_tied(c, s, k) ? "true" : "false");
                csv_way(c, k, cell, ok, table);
                ccl_table_cell(table, "%s", ccl_i_number(bound_of(c, s), text, sizeof(text)));
                ccl_table_cell(
                    table, "%s",
                    ok ? ccl_i_number(ccl_i_gap(cell->time_s, bound_of(c, s)), text, sizeof(text))
                       : "");
            }
        }
    }
}

static void csv_links(const ccl_report_comparison_t *r, ccl_table_t *table) {
    static const char *const headers[] = {"topology", "collective", "size_bytes",
                                          "winner",   "from",       "to",
                                          "kind",     "bytes",      "utilization"};
    char text[40];

    ccl_i_table_columns(table, headers, CCL_ARRAY_LEN(headers), CCL_ARRAY_LEN(headers));
    for (uint32_t i = 0; i < r->ncomparisons; i++) {
        const ccl_comparison_t *c = r->comparisons[i];

        for (uint32_t s = 0; s < c->nsizes; s++) {
            const ccl_sim_result_t *best = c->best[s];

            for (uint32_t l = 0; best && best->links && l < best->nlinks; l++) {
                const ccl_link_t *link = &r->topo->links[l];

                ccl_table_row(table);
                ccl_table_cell(table, "%s", r->topo->name);
                ccl_table_cell(table, "%s", r->collectives[i]->name);
                ccl_table_cell(table, "%s", ccl_i_number(c->sizes_bytes[s], text, sizeof(text)));
                ccl_table_cell(table, "%s", c->names[c->winner[s]]);
                ccl_table_cell(table, "%s", r->topo->devices[link->from].id);
                ccl_table_cell(table, "%s", r->topo->devices[link->to].id);
                ccl_table_cell(table, "%s", r->topo->kinds[link->kind]);
                ccl_table_cell(table, "%s", ccl_i_number(best->links[l].bytes, text, sizeof(text)));
                ccl_table_cell(table, "%s",
                               ccl_i_number(best->links[l].utilization, text, sizeof(text)));
            }
        }
    }
}

ccl_status_t ccl_report_comparison(const ccl_report_comparison_t *comparison,
                                   const ccl_report_style_t *style, ccl_text_t *out,
                                   ccl_error_t *err) {
    ccl_table_t *table;
    ccl_status_t status;
    size_t which = 0;

    CCL_TRY(ccl_i_table_choice(ccl_report_comparison_tables, style->table, &which, err));
    if (style->format == CCL_REPORT_JSON)
        return comparison_json(comparison, out, err);
    if (style->format == CCL_REPORT_TEXT)
        return comparison_text(comparison, style->columns ? style->columns : 120, out, err);
    table = ccl_table_create();
    if (!table)
        return ccl_fail_nomem(err);
    if (which == 0)
        csv_times(comparison, table);
    else
        csv_links(comparison, table);
    status = ccl_i_table_emit(table, CCL_REPORT_CSV, out, err);
    ccl_table_destroy(table);
    return status;
}
