/* A comparison for people: times, links, notes. */
#include "report/runs/comparison.h"
#include "report/runs/spread.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void text_title(const ccl_report_comparison_t *r, uint32_t i, ccl_text_t *out) {
    const ccl_topology_t *topo = r->topo;
    char with[300];

    ccl_text_printf(out, "%s%s on %s: %u GPUs", i ? "\n\n" : "", r->collectives[i]->name,
                    topo->name, topo->nranks);
    if (topo->nservers)
        ccl_text_printf(out, " on %u server%s", topo->nservers, topo->nservers == 1 ? "" : "s");
    ccl_text_printf(out, " (simulated; %s level, %s sharing)\nwith %s\n\n",
                    ccl_i_granularity_name(r->options->granularity),
                    ccl_i_sharing_name(r->options->sharing),
                    ccl_i_constants_text(topo, with, sizeof(with)));
}

/** What a contender's column shows at a size, with a mark or a blank behind it. */
static const char *cell_text(const ccl_comparison_t *c, uint32_t size, uint32_t contender,
                             char *out, size_t out_len) {
    const ccl_compare_cell_t *cell = ccl_i_compare_cell(c, size, contender);
    char number[40];

    if (cell->status != CCL_OK)
        snprintf(out, out_len, "%s ", cell->ended ? "not run" : ccl_i_status_word(cell->status));
    else
        snprintf(out, out_len, "%s%s", ccl_i_GBps(cell->busbw_GBps * 1e9, number, sizeof(number)),
                 contender == c->winner[size]             ? "*"
                 : ccl_i_compare_tied(c, size, contender) ? "="
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

/* ---------------------------------------------------------------- tables of text */

/** One block of the table of times: contenders [first, last) of those that take part. */
typedef struct times {
    const ccl_comparison_t *of;
    const uint32_t *order;
    uint32_t first, last;
} times_t;

typedef struct times_row {
    const times_t *of;
    uint32_t size;
    double size_bytes, time_s, bound_s, gap, algbw_GBps, busbw_GBps;
    char winner[80], gain[24];
    const char *bar;
} times_row_t;

typedef struct head_cell {
    char heading[300], text[100];
} head_cell_t;

static uint64_t count_shown(const void *row) {
    const times_t *t = ((const times_row_t *)row)->of;

    return t->last - t->first;
}

static const void *shown_at(const void *row, uint64_t i, void *scratch) {
    const times_row_t *r = row;
    const ccl_comparison_t *c = r->of->of;
    uint32_t contender = r->of->order[r->of->first + i];
    head_cell_t *out = scratch;

    /* the blank stands above the marks */
    snprintf(out->heading, sizeof(out->heading), "%.60s ", c->names[contender]);
    cell_text(c, r->size, contender, out->text, sizeof(out->text));
    return out;
}

static uint64_t count_shown_sizes(const void *times) {
    return ((const times_t *)times)->of->nsizes;
}

static const void *shown_size_at(const void *times, uint64_t i, void *scratch) {
    const times_t *t = times;
    const ccl_comparison_t *c = t->of;
    uint32_t s = (uint32_t)i, w = c->winner[s];
    const ccl_compare_cell_t *best = w == CCL_NONE ? NULL : ccl_i_compare_cell(c, s, w);
    times_row_t *out = scratch;

    *out = (times_row_t){.of = t,
                         .size = s,
                         .size_bytes = c->sizes_bytes[s],
                         .time_s = best ? best->time_s : NAN,
                         .bound_s =
                             ccl_i_compare_bound_s(c, s) > 0 ? ccl_i_compare_bound_s(c, s) : NAN,
                         .gap = best ? ccl_i_gap(best->time_s, ccl_i_compare_bound_s(c, s)) : NAN,
                         .algbw_GBps = best ? best->algbw_GBps : NAN,
                         .busbw_GBps = best ? best->busbw_GBps : NAN,
                         .bar = "|"};
    double gain = ccl_comparison_speedup(c, s, w);
    ccl_i_speedup_text(gain, out->gain, sizeof(out->gain));
    snprintf(out->winner, sizeof(out->winner), "%s%s", best ? c->names[w] : "none",
             best && c->tie[s] ? " =" : "");
    return out;
}

static const ccl_i_described_t head_cell_record = {
    .size = sizeof(head_cell_t),
    .fields = (const ccl_i_field_t[]){
        {"heading", CCL_I_AT(head_cell_t, heading)}, {"text", CCL_I_AT(head_cell_t, text)}, {0}}};
#define AT(member) CCL_I_AT(times_row_t, member)
static const ccl_i_described_t times_record = {
    .size = sizeof(times_row_t),
    .fields = (const ccl_i_field_t[]){
        {"size", AT(size_bytes)},
        {"winner", AT(winner)},
        {"time_s", AT(time_s)},
        {"bound_s", AT(bound_s)},
        {"gap", AT(gap)},
        {"algbw_GBps", AT(algbw_GBps)},
        {"busbw_GBps", AT(busbw_GBps)},
        {"vs_nccl", AT(gain)},
        {"|", AT(bar)},
        {"contenders", CCL_I_LIST_OF(head_cell_record, count_shown, shown_at)},
        {0}}};
#undef AT
static const ccl_i_described_t times_of = {
    .fields = (const ccl_i_field_t[]){
        {"sizes", CCL_I_LIST_OF(times_record, count_shown_sizes, shown_size_at)}, {0}}};

#define OF_WINNER                                                                                  \
    CCL_I_COLUMN("size", .show = ccl_format_bytes), CCL_I_COLUMN("winner"),                        \
        CCL_I_COLUMN("time_s", "time(us)", ccl_i_us, "-"),                                         \
        CCL_I_COLUMN("bound_s", "bound(us)", ccl_i_us, "-"),                                       \
        CCL_I_COLUMN("gap", .show = ccl_i_show_gap, .none = "-"),                                  \
        CCL_I_COLUMN("algbw_GBps", "algbw(GB/s)", ccl_i_show_GBps, "-"),                           \
        CCL_I_COLUMN("busbw_GBps", "busbw(GB/s)", ccl_i_show_GBps, "-")
#define OF_ALL                                                                                     \
    CCL_I_COLUMN("|"), CCL_I_COLUMN("contenders", .spread = true, .right = true), CCL_I_COLUMNS_END
static const ccl_i_column_t first_times[] = {OF_WINNER, OF_ALL};
static const ccl_i_column_t nccl_times[] = {
    OF_WINNER, CCL_I_COLUMN("vs_nccl", "vs nccl", .right = true), OF_ALL};
static const ccl_i_column_t rccl_times[] = {
    OF_WINNER, CCL_I_COLUMN("vs_nccl", "vs rccl", .right = true), OF_ALL};
static const ccl_i_column_t more_times[] = {
    CCL_I_COLUMN("size", .show = ccl_format_bytes), CCL_I_COLUMN("|"),
    CCL_I_COLUMN("contenders", .spread = true, .right = true), CCL_I_COLUMNS_END};

static ccl_status_t text_times(const times_t *times, ccl_text_t *out, ccl_error_t *err) {
    const ccl_comparison_t *c = times->of;
    const ccl_i_column_t *first = first_times;

    if (c->nccl != CCL_NONE && !c->why_not[c->nccl])
        first = strcmp(c->names[c->nccl], "rccl") == 0 ? rccl_times : nccl_times;
    return ccl_i_rows_emit(&times_of, "sizes", times, times->first == 0 ? first : more_times,
                           CCL_REPORT_TEXT, out, err);
}

static ccl_status_t text_all_times(const ccl_comparison_t *c, uint32_t columns, ccl_text_t *out,
                                   ccl_error_t *err) {
    uint32_t *order = calloc(c->ncontenders ? c->ncontenders : 1, sizeof(*order));
    uint32_t fixed = 8 + 10 + 11 + 6 + 13 + 13 + 3 + (c->nccl == CCL_NONE ? 0 : 9);
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
        status = text_times(&(const times_t){c, order, first, last}, out, err);
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

/** The winner's links, size by size. */
typedef struct busy {
    const ccl_topology_t *topo;
    const ccl_comparison_t *of;
    ccl_link_class_t *classes; /* [nkinds] of the size at hand */
} busy_t;

typedef struct busy_row {
    const busy_t *of;
    double size_bytes, utilization;
    const char *winner;
    char link[300];
} busy_row_t;

static uint64_t count_busy_kinds(const void *row) {
    return ((const busy_row_t *)row)->of->topo->nkinds;
}

static const void *busy_kind_at(const void *row, uint64_t i, void *scratch) {
    const busy_t *b = ((const busy_row_t *)row)->of;
    const ccl_link_class_t *k = &b->classes[i];
    head_cell_t *out = scratch;
    char low[24], mean[24], high[24];

    snprintf(out->heading, sizeof(out->heading), "%s(%%)", b->topo->kinds[i]);
    snprintf(out->text, sizeof(out->text), "%s / %s / %s", ccl_i_percent(k->min, low, sizeof(low)),
             ccl_i_percent(k->mean, mean, sizeof(mean)), ccl_i_percent(k->max, high, sizeof(high)));
    return out;
}

static uint64_t count_busy_sizes(const void *busy) {
    return ((const busy_t *)busy)->of->nsizes;
}

static const void *busy_size_at(const void *busy, uint64_t i, void *scratch) {
    const busy_t *b = busy;
    const ccl_sim_result_t *best = b->of->best[i];
    busy_row_t *out = scratch;
    uint32_t top;

    if (!best || !best->links)
        return NULL;
    ccl_report_link_classes(b->topo, best, b->classes);
    top = busiest_link(best);
    *out = (busy_row_t){.of = b,
                        .size_bytes = b->of->sizes_bytes[i],
                        .winner = b->of->names[b->of->winner[i]],
                        .utilization = top == CCL_NONE ? NAN : best->links[top].utilization,
                        .link = "-"};
    if (top != CCL_NONE)
        ccl_i_link_name(b->topo, top, out->link, sizeof(out->link));
    return out;
}

#define AT(member) CCL_I_AT(busy_row_t, member)
static const ccl_i_described_t busy_record = {
    .size = sizeof(busy_row_t),
    .fields = (const ccl_i_field_t[]){
        {"size", AT(size_bytes)},
        {"winner", AT(winner)},
        {"kinds", CCL_I_LIST_OF(head_cell_record, count_busy_kinds, busy_kind_at)},
        {"link", AT(link)},
        {"utilization", AT(utilization)},
        {0}}};
#undef AT
static const ccl_i_described_t busy_of = {
    .fields = (const ccl_i_field_t[]){
        {"sizes", CCL_I_LIST_OF(busy_record, count_busy_sizes, busy_size_at)}, {0}}};
static const ccl_i_column_t busy_columns[] = {
    CCL_I_COLUMN("size", .show = ccl_format_bytes),
    CCL_I_COLUMN("winner"),
    CCL_I_COLUMN("kinds", .spread = true, .right = true),
    CCL_I_COLUMN("link", "busiest link"),
    CCL_I_COLUMN("utilization", "busy(%)", ccl_i_percent, "-"),
    CCL_I_COLUMNS_END};

static ccl_status_t text_links(const ccl_topology_t *topo, const ccl_comparison_t *c,
                               ccl_text_t *out, ccl_error_t *err) {
    busy_t busy = {topo, c, NULL};
    ccl_status_t status;
    bool some = false;

    for (uint32_t s = 0; s < c->nsizes; s++)
        some = some || (c->best[s] && c->best[s]->links);
    if (!some)
        return CCL_OK;
    busy.classes = calloc(topo->nkinds ? topo->nkinds : 1, sizeof(*busy.classes));
    if (!busy.classes)
        return ccl_fail_nomem(err);
    ccl_text_printf(out, "\nHow busy the winner's links were, by kind: the least busy link / "
                         "the mean / the busiest\n");
    status = ccl_i_rows_emit(&busy_of, "sizes", &busy, busy_columns, CCL_REPORT_TEXT, out, err);
    free(busy.classes);
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

/** The protocol that contender k ran at size s; NULL: none is known, or it is Simple. */
static const char *other_protocol(const ccl_comparison_t *c, uint32_t s, uint32_t k) {
    const ccl_compare_cell_t *cell = ccl_i_compare_cell(c, s, k);

    if (c->why_not[k] || cell->status != CCL_OK || !cell->proto ||
        strcmp(cell->proto, "Simple") == 0)
        return NULL;
    return cell->proto;
}

/** "ring LL 64K to 256K, LL128 1M; hm LL 64K": who ran what other than Simple. */
static void text_protocols(const ccl_comparison_t *c, ccl_text_t *out) {
    bool some = false;

    for (uint32_t k = 0; k < c->ncontenders; k++) {
        bool mine = false;

        for (uint32_t s = 0, last; s < c->nsizes; s = last + 1) {
            const char *proto = other_protocol(c, s, k);
            char size[40];

            last = s;
            if (!proto)
                continue;
            while (last + 1 < c->nsizes && other_protocol(c, last + 1, k) == proto)
                last++;
            ccl_text_printf(out, "%s%s %s %s",
                            !some  ? "  protocol Simple, but "
                            : mine ? ","
                                   : "; ",
                            mine ? "" : c->names[k], proto,
                            ccl_format_bytes(c->sizes_bytes[s], size, sizeof(size)));
            if (last > s)
                ccl_text_printf(out, " to %s",
                                ccl_format_bytes(c->sizes_bytes[last], size, sizeof(size)));
            some = mine = true;
        }
    }
    if (some)
        ccl_text_printf(out, "\n");
}

static const char *winner_origin(const void *of, uint32_t size, const char **name_out) {
    const ccl_comparison_t *c = of;
    uint32_t w = c->winner[size];

    *name_out = w == CCL_NONE ? NULL : c->names[w];
    return w == CCL_NONE ? NULL : ccl_i_compare_cell(c, size, w)->origin;
}

/** Reasons begin with the name mostly, which stands before them already. */
static const char *without_name(const char *why, const char *name) {
    size_t len = strlen(name);

    return strncmp(why, name, len) == 0 && strncmp(why + len, ": ", 2) == 0 ? why + len + 2 : why;
}

/** What the library chose: sizes in a row of one choice together. */
static void text_choices(const ccl_comparison_t *c, ccl_text_t *out) {
    uint32_t k = c->nccl;
    const char *before = " ";
    char low[64], high[64];

    if (k == CCL_NONE || c->why_not[k])
        return;
    ccl_text_printf(out, "  %s:", c->names[k]);
    for (uint32_t s = 0, end; s < c->nsizes; s = end) {
        const char *choice = ccl_i_compare_cell(c, s, k)->choice;

        for (end = s + 1; end < c->nsizes && choice &&
                          strcmp(choice, ccl_i_compare_cell(c, end, k)->choice) == 0;)
            end++;
        ccl_format_bytes(c->sizes_bytes[s], low, sizeof(low));
        ccl_format_bytes(c->sizes_bytes[end - 1], high, sizeof(high));
        ccl_text_printf(out, "%s%s%s%s %s", before, low, end > s + 1 ? " to " : "",
                        end > s + 1 ? high : "", choice ? choice : "-");
        before = ", ";
    }
    ccl_text_printf(out, "\n");
    if (c->nccl_note)
        ccl_text_printf(out, "  %s %s\n", c->names[k], c->nccl_note);
}

/** At which sizes one that takes part has no time, and why: sizes of one reason in one line. */
static void text_without_time(const ccl_comparison_t *c, uint32_t k, ccl_text_t *out) {
    const char *last = NULL;
    char text[64];

    for (uint32_t s = 0; !c->why_not[k] && s < c->nsizes; s++) {
        const char *why = ccl_i_compare_cell(c, s, k)->why;

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

/** Winners that are proven, and how much did not run for that. */
static void text_proven(const ccl_comparison_t *c, ccl_text_t *out) {
    uint32_t ended = 0;
    char size[64];
    bool some = false;

    for (uint32_t s = 0; s < c->nsizes; s++) {
        for (uint32_t k = 0; k < c->ncontenders; k++)
            ended += ccl_i_compare_cell(c, s, k)->ended;
        if (!ccl_comparison_proven(c, s))
            continue;
        if (!some)
            ccl_text_printf(out, "  proven: no schedule is faster by more than %.3g %% at",
                            100 * c->gap);
        ccl_format_bytes(c->sizes_bytes[s], size, sizeof(size));
        ccl_text_printf(out, "%s %s", some ? "," : "", size);
        some = true;
    }
    if (some)
        ccl_text_printf(out, "\n");
    if (ended)
        ccl_text_printf(
            out, "  %" PRIu32 " runs left out where a winner was proven before (--gap)\n", ended);
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
    if (c->nccl != CCL_NONE && !c->why_not[c->nccl])
        ccl_text_printf(out, "  vs %s  time of %s, as stock software runs it, / the winner's\n",
                        c->names[c->nccl], c->names[c->nccl]);
    ccl_text_printf(out, "  busy   bytes carried / (bandwidth x time)\n");
    ccl_text_printf(out, "  thread blocks on the fullest GPU:");
    for (uint32_t k = 0; k < c->ncontenders; k++) {
        if (c->why_not[k])
            continue;
        ccl_text_printf(out, "%s %s %u", some ? "," : "", c->names[k], c->thread_blocks[k]);
        some = true;
    }
    ccl_text_printf(out, "%s\n", some ? "" : " nobody took part");
    text_proven(c, out);
    text_protocols(c, out);
    text_choices(c, out);
    text_ways(r, c, out);
    ccl_i_text_origins("  how the winners came about:", c->sizes_bytes, c->nsizes, winner_origin, c,
                       out);
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

ccl_status_t ccl_i_compare_text(const ccl_report_comparison_t *r, uint32_t columns, ccl_text_t *out,
                                ccl_error_t *err) {
    for (uint32_t i = 0; i < r->ncomparisons; i++) {
        text_title(r, i, out);
        CCL_TRY(text_all_times(r->comparisons[i], columns, out, err));
        CCL_TRY(ccl_i_compare_spread_text(r, i, out, err));
        CCL_TRY(text_links(r->topo, r->comparisons[i], out, err));
        text_notes(r, i, out);
    }
    return ccl_i_text_status(out, err);
}
