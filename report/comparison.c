/* Who wins at which size, by how much, and how busy the winner's links were. */
#include "report/rows.h"

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

/* ---------------------------------------------------------------- rows */

typedef struct root {
    const ccl_report_comparison_t *of;
    ccl_link_class_t *classes; /* [nkinds] of the size at hand */
    const char *topology, *granularity, *sharing;
    uint32_t nranks;
    uint64_t seed;
} root_t;

typedef struct comparison_row {
    const root_t *root;
    const ccl_comparison_t *of;
    uint32_t index;
    const char *collective;
    double busbw_factor;
} comparison_row_t;

typedef struct contender_row {
    const char *name, *why_not;
    bool takes_part;
    uint32_t thread_blocks;
    ccl_i_way_row_t way;
} contender_row_t;

typedef struct size_row {
    const comparison_row_t *parent;
    uint32_t size;
    ccl_i_link_rows_t links;
    double size_bytes, bound_s;
    const char *winner;
    bool tie;
} size_row_t;

/** One contender at one size. */
typedef struct cell_row {
    const char *topology, *collective, *name, *status, *why;
    bool winner, tied;
    double size_bytes, time_s, algbw_GBps, busbw_GBps, low_s, high_s, gap, bound_s;
    uint32_t batches, run_batches; /* CCL_NONE: it did not run */
    ccl_i_way_row_t way;
    ccl_i_usage_row_t usage;
} cell_row_t;

/** A link of the winner at one size. */
typedef struct use_row {
    const char *topology, *collective, *winner;
    double size_bytes;
    ccl_i_link_row_t link;
} use_row_t;

static uint64_t count_contenders(const void *row) {
    const comparison_row_t *c = row;

    return c->of->ncontenders;
}

static const void *contender_at(const void *row, uint64_t i, void *scratch) {
    const ccl_comparison_t *c = ((const comparison_row_t *)row)->of;
    contender_row_t *out = scratch;

    *out = (contender_row_t){c->names[i], c->why_not[i], c->why_not[i] == NULL,
                             c->why_not[i] ? CCL_NONE : c->thread_blocks[i],
                             ccl_i_way_row(&c->ways[i], c->lowered[i])};
    return out;
}

/** Contender k of comparison i at size s. */
static const void *cell_of(const ccl_report_comparison_t *r, uint32_t i, uint32_t s, uint32_t k,
                           cell_row_t *out) {
    const ccl_comparison_t *c = r->comparisons[i];
    const ccl_compare_cell_t *cell = cell_at(c, s, k);
    bool ok = !c->why_not[k] && cell->status == CCL_OK;

    *out =
        (cell_row_t){.topology = r->topo->name,
                     .collective = r->collectives[i]->name,
                     .name = c->names[k],
                     .status = c->why_not[k] ? "not taking part" : ccl_i_status_word(cell->status),
                     .why = cell->why,
                     .winner = k == c->winner[s],
                     .tied = !c->why_not[k] && is_tied(c, s, k),
                     .size_bytes = c->sizes_bytes[s],
                     .time_s = ok ? cell->time_s : NAN,
                     .algbw_GBps = ok ? cell->algbw_GBps : NAN,
                     .busbw_GBps = ok ? cell->busbw_GBps : NAN,
                     .low_s = ok ? cell->low_s : NAN,
                     .high_s = ok ? cell->high_s : NAN,
                     .gap = ok ? ccl_i_gap(cell->time_s, bound_of(c, s)) : NAN,
                     .bound_s = bound_of(c, s),
                     .batches = cell->batches,
                     .run_batches = ok ? cell->batches : CCL_NONE,
                     .way = ccl_i_way_row(&c->ways[k], c->lowered[k]),
                     .usage = ccl_i_usage_row(&cell->usage, ok)};
    return out;
}

static uint64_t count_cells(const void *row) {
    const size_row_t *size = row;

    return size->parent->of->ncontenders;
}

static const void *result_at(const void *row, uint64_t i, void *scratch) {
    const size_row_t *size = row;
    const comparison_row_t *c = size->parent;

    if (c->of->why_not[i])
        return NULL;
    return cell_of(c->root->of, c->index, size->size, (uint32_t)i, scratch);
}

static const void *tied_at(const void *row, uint64_t i, void *scratch) {
    const size_row_t *size = row;
    const ccl_comparison_t *c = size->parent->of;
    const char **name = scratch;

    *name = c->names[i];
    return !c->why_not[i] && is_tied(c, size->size, (uint32_t)i) ? name : NULL;
}

static uint64_t count_classes(const void *row) {
    const size_row_t *size = row;

    return size->links.result && size->links.result->links ? size->links.topo->nkinds : 0;
}

static const void *class_at(const void *row, uint64_t i, void *scratch) {
    const size_row_t *size = row;

    (void)scratch;
    if (i == 0)
        ccl_report_link_classes(size->links.topo, size->links.result, size->parent->root->classes);
    return &size->parent->root->classes[i];
}

static uint64_t count_sizes(const void *row) {
    const comparison_row_t *c = row;

    return c->of->nsizes;
}

static const void *size_at(const void *row, uint64_t i, void *scratch) {
    const comparison_row_t *c = row;
    uint32_t w = c->of->winner[i];
    double bound_s = bound_of(c->of, (uint32_t)i);
    size_row_t *out = scratch;

    *out = (size_row_t){c,
                        (uint32_t)i,
                        {c->root->of->topo, c->of->best[i]},
                        c->of->sizes_bytes[i],
                        bound_s > 0 ? bound_s : NAN,
                        w == CCL_NONE ? NULL : c->of->names[w],
                        c->of->tie[i]};
    return out;
}

static uint64_t count_comparisons(const void *root) {
    return ((const root_t *)root)->of->ncomparisons;
}

static const void *comparison_at(const void *root, uint64_t i, void *scratch) {
    const ccl_report_comparison_t *r = ((const root_t *)root)->of;
    const ccl_collective_t *coll = r->collectives[i];
    comparison_row_t *out = scratch;

    *out = (comparison_row_t){root, r->comparisons[i], (uint32_t)i, coll->name,
                              ccl_collective_busbw_factor(coll->kind, coll->nranks)};
    return out;
}

/** All contenders at all sizes of all comparisons. */
static uint64_t count_times(const void *root) {
    const ccl_report_comparison_t *r = ((const root_t *)root)->of;
    uint64_t n = 0;

    for (uint32_t i = 0; i < r->ncomparisons; i++)
        n += (uint64_t)r->comparisons[i]->nsizes * r->comparisons[i]->ncontenders;
    return n;
}

static const void *time_at(const void *root, uint64_t at, void *scratch) {
    const ccl_report_comparison_t *r = ((const root_t *)root)->of;

    for (uint32_t i = 0; i < r->ncomparisons; i++) {
        const ccl_comparison_t *c = r->comparisons[i];
        uint64_t n = (uint64_t)c->nsizes * c->ncontenders;

        if (at < n)
            return cell_of(r, i, (uint32_t)(at / c->ncontenders), (uint32_t)(at % c->ncontenders),
                           scratch);
        at -= n;
    }
    return NULL;
}

static uint64_t links_of(const ccl_comparison_t *c, uint32_t size) {
    return c->best[size] && c->best[size]->links ? c->best[size]->nlinks : 0;
}

/** The winner's links at all sizes of all comparisons. */
static uint64_t count_uses(const void *root) {
    const ccl_report_comparison_t *r = ((const root_t *)root)->of;
    uint64_t n = 0;

    for (uint32_t i = 0; i < r->ncomparisons; i++)
        for (uint32_t s = 0; s < r->comparisons[i]->nsizes; s++)
            n += links_of(r->comparisons[i], s);
    return n;
}

static const void *use_at(const void *root, uint64_t at, void *scratch) {
    const ccl_report_comparison_t *r = ((const root_t *)root)->of;
    use_row_t *out = scratch;

    for (uint32_t i = 0; i < r->ncomparisons; i++) {
        const ccl_comparison_t *c = r->comparisons[i];

        for (uint32_t s = 0; s < c->nsizes; s++) {
            uint64_t n = links_of(c, s);

            if (at < n) {
                *out = (use_row_t){r->topo->name, r->collectives[i]->name, c->names[c->winner[s]],
                                   c->sizes_bytes[s],
                                   ccl_i_link_row(r->topo, c->best[s], (uint32_t)at)};
                return out;
            }
            at -= n;
        }
    }
    return NULL;
}

/* ---------------------------------------------------------------- what they hold */

#define OWN "a program's own"
#define AT(member) CCL_I_AT(contender_row_t, member)
static const ccl_i_described_t contender_record = {
    .size = sizeof(contender_row_t),
    .fields = (const ccl_i_field_t[]){
        {"name", AT(name)},
        {"takes_part", AT(takes_part)},
        {"why_not", AT(why_not), .null = "it takes part"},
        {"thread_blocks", AT(thread_blocks), "on the fullest GPU", .null = "it does not take part"},
        CCL_I_WAY_FIELDS(contender_row_t, way, OWN),
        {0}}};
#undef AT
#define AT(member) CCL_I_AT(cell_row_t, member)
#define NO_TIME "it has no time"
static const ccl_i_described_t cell_record = {
    .size = sizeof(cell_row_t),
    .fields = (const ccl_i_field_t[]){
        {"name", AT(name), "of the contender"},
        {"status", AT(status), .words = ccl_i_status_words},
        {"why", AT(why), "it has no time", .null = "it has one"},
        {"time_s", AT(time_s), .null = NO_TIME},
        {"algbw_GBps", AT(algbw_GBps), "size / time", .null = NO_TIME},
        {"busbw_GBps", AT(busbw_GBps), "algbw x busbw_factor", .null = NO_TIME},
        {"low_s", AT(low_s), "time at a size smaller by 1e-6", .null = NO_TIME},
        {"high_s", AT(high_s), "time at a size larger by 1e-6", .null = NO_TIME},
        {"gap", AT(gap), "time_s / bound_s", .null = NO_TIME},
        {"batches", AT(batches), "micro-batches"},
        CCL_I_USAGE_FIELDS(cell_row_t, usage),
        {"topology", AT(topology), .hidden = true},
        {"collective", AT(collective), .hidden = true},
        {"size_bytes", AT(size_bytes), .hidden = true},
        {"run_batches", AT(run_batches), .null = NO_TIME, .hidden = true},
        {"winner", AT(winner), .hidden = true},
        {"tied", AT(tied), .hidden = true},
        {"order", AT(way.order), .hidden = true},
        {"allocation", AT(way.allocation), .hidden = true},
        {"granularity", AT(way.granularity), .hidden = true},
        {"bound_s", AT(bound_s), .hidden = true},
        {0}}};
#undef AT
#define AT(member) CCL_I_AT(ccl_link_class_t, member)
static const ccl_i_described_t class_record = {
    .fields = (const ccl_i_field_t[]){{"kind", AT(kind)},
                                      {"links", AT(nlinks), "of this kind"},
                                      {"used", AT(used), "that carried at least one byte"},
                                      {"bytes", AT(bytes), "carried"},
                                      {"min_utilization", AT(min), "over all of them"},
                                      {"mean_utilization", AT(mean)},
                                      {"max_utilization", AT(max)},
                                      {0}}};
#undef AT
#define AT(member) CCL_I_AT(size_row_t, member)
static const ccl_i_described_t size_record = {
    .size = sizeof(size_row_t),
    .fields =
        (const ccl_i_field_t[]){
            {"size_bytes", AT(size_bytes), "of the largest buffer of a GPU"},
            {"bound_s", AT(bound_s), "no schedule is faster", .null = "there is none"},
            {"winner", AT(winner), .null = "nobody has a time"},
            {"tie", AT(tie), "others are as good as the winner"},
            {"tied_with", CCL_I_LIST_OF(ccl_i_bare_string, count_cells, tied_at), .line = true},
            {"results", CCL_I_LIST_OF(cell_record, count_cells, result_at),
             "of those that take part"},
            {"link_classes", CCL_I_LIST_OF(class_record, count_classes, class_at),
             "the winner's links by kind"},
            {"links",
             CCL_I_LIST_IN(size_row_t, links, ccl_i_link_record, ccl_i_count_links, ccl_i_link_at),
             "of the winner's run"},
            {0}},
    .tall = true};
#undef AT
#define AT(member) CCL_I_AT(comparison_row_t, member)
static const ccl_i_described_t comparison_record = {
    .size = sizeof(comparison_row_t),
    .fields = (const ccl_i_field_t[]){{"collective", AT(collective)},
                                      {"busbw_factor", AT(busbw_factor), "busbw / algbw"},
                                      {"contenders", CCL_I_LIST_OF(contender_record,
                                                                   count_contenders, contender_at)},
                                      {"sizes", CCL_I_LIST_OF(size_record, count_sizes, size_at)},
                                      {0}},
    .tall = true};
#undef AT
#define AT(member) CCL_I_AT(use_row_t, member)
static const ccl_i_described_t use_record = {
    .size = sizeof(use_row_t),
    .fields = (const ccl_i_field_t[]){{"topology", AT(topology)},
                                      {"collective", AT(collective)},
                                      {"size_bytes", AT(size_bytes)},
                                      {"winner", AT(winner)},
                                      CCL_I_LINK_FIELDS(use_row_t, link.),
                                      {0}}};
#undef AT
#define AT(member) CCL_I_AT(root_t, member)
const ccl_i_result_t ccl_i_result_compare = {
    "compare", "ccllab compare", "schedules side by side over sizes",
    &(const ccl_i_described_t){
        .fields = (const ccl_i_field_t[]){
            {"topology", AT(topology)},
            {"nranks", AT(nranks)},
            {"granularity", AT(granularity), "level of execution",
             .words = ccl_i_granularity_words},
            {"sharing", AT(sharing), "of links",
             .words = (const char *const[]){"fair", "exclusive", NULL}},
            {"seed", AT(seed)},
            {"comparisons", CCL_I_LIST_OF(comparison_record, count_comparisons, comparison_at),
             "one per collective"},
            {"times", CCL_I_LIST_OF(cell_record, count_times, time_at), .hidden = true},
            {"links", CCL_I_LIST_OF(use_record, count_uses, use_at), .hidden = true},
            {0}}}};
#undef AT

static const ccl_i_column_t time_columns[] = {
    CCL_I_COLUMN("topology"),
    CCL_I_COLUMN("collective"),
    CCL_I_COLUMN("size_bytes"),
    CCL_I_COLUMN("name", "contender"),
    CCL_I_COLUMN("status"),
    CCL_I_COLUMN("time_s"),
    CCL_I_COLUMN("algbw_GBps"),
    CCL_I_COLUMN("busbw_GBps"),
    CCL_I_COLUMN("low_s"),
    CCL_I_COLUMN("high_s"),
    CCL_I_COLUMN("run_batches", "batches"),
    CCL_I_COLUMN("winner"),
    CCL_I_COLUMN("tied"),
    CCL_I_COLUMN("order"),
    CCL_I_COLUMN("allocation"),
    CCL_I_COLUMN("granularity"),
    CCL_I_COLUMN("thread_blocks_per_gpu", "thread_blocks"),
    CCL_I_COLUMN("mean_idle_share"),
    CCL_I_COLUMN("max_idle_share"),
    CCL_I_COLUMN("bound_s"),
    CCL_I_COLUMN("gap"),
    CCL_I_COLUMNS_END};

static ccl_status_t comparison_json(root_t *root, ccl_text_t *out, ccl_error_t *err) {
    uint32_t nkinds = root->of->topo->nkinds;
    ccl_status_t status;

    root->classes = calloc(nkinds ? nkinds : 1, sizeof(*root->classes));
    if (!root->classes)
        return ccl_fail_nomem(err);
    status = ccl_i_result_json(&ccl_i_result_compare, root, out, err);
    free(root->classes);
    return status;
}

ccl_status_t ccl_report_comparison(const ccl_report_comparison_t *comparison,
                                   const ccl_report_style_t *style, ccl_text_t *out,
                                   ccl_error_t *err) {
    const ccl_sim_options_t *options = comparison->options;
    root_t root = {comparison,
                   NULL,
                   comparison->topo->name,
                   ccl_i_granularity_name(options->granularity),
                   ccl_i_sharing_name(options->sharing),
                   comparison->topo->nranks,
                   comparison->seed};
    size_t which = 0;

    CCL_TRY(ccl_i_table_choice(ccl_report_comparison_tables, style->table, &which, err));
    if (style->format == CCL_REPORT_JSON)
        return comparison_json(&root, out, err);
    if (style->format == CCL_REPORT_TEXT)
        return comparison_text(comparison, style->columns ? style->columns : 120, out, err);
    return ccl_i_rows_emit(ccl_i_result_compare.root, ccl_report_comparison_tables[which], &root,
                           which == 0 ? time_columns : NULL, CCL_REPORT_CSV, out, err);
}
