/* Bounds over time: at each size what gives the bound, and the cut that proves it. */
#include "report/clusters/bound.h"

#include <math.h>

/* Names of one line before the rest are counted. */
enum { MOST_NAMES = 4 };

const char *const ccl_i_bound_by_words[] = {"latency", "bandwidth", "over time", NULL};

ccl_i_bound_point_t ccl_i_bound_point(const ccl_topology_t *topo, const ccl_bound_t *bound,
                                      double size_bytes) {
    const ccl_bound_at_t at = ccl_bound_at(bound, size_bytes);

    return (ccl_i_bound_point_t){.topo = topo,
                                 .cut = at.cut,
                                 .by = ccl_bound_by_name(at.by),
                                 .proto = at.proto->proto,
                                 .size_bytes = size_bytes,
                                 .time_s = at.time_s,
                                 .latency_s = at.proto->latency_s,
                                 .bandwidth_s = size_bytes / at.proto->Bps,
                                 .over_time_s = at.cut ? at.cut_s : NAN,
                                 .messages = at.cut ? at.cut->share : NAN,
                                 .partials = at.cut ? at.cut->least : NAN,
                                 .fixed_bytes = at.cut ? at.cut->fixed_bytes : NAN};
}

double ccl_i_bound_size(uint64_t i) {
    return ldexp(1024, 2 * (int)i);
}

/* ---------------------------------------------------------------- text */

static void names(const ccl_topology_t *topo, const uint8_t *set, ccl_text_t *out) {
    uint32_t n = 0;

    for (uint32_t r = 0; r < topo->nranks; r++) {
        if (set[r] && n++ < MOST_NAMES)
            ccl_text_printf(out, "%s%s", n > 1 ? ", " : "", topo->devices[topo->rank_device[r]].id);
    }
    if (n > MOST_NAMES)
        ccl_text_printf(out, " and %u more", n - MOST_NAMES);
}

static const char *link_text(const ccl_topology_t *topo, const ccl_time_link_t *link, char *out,
                             size_t out_len) {
    if (link->link != CCL_NONE)
        return ccl_i_link_name(topo, link->link, out, out_len);
    snprintf(out, out_len, "group %s", topo->groups[link->group].name);
    return out;
}

void ccl_i_bound_cut_text(const ccl_i_bound_point_t *point, uint32_t rows, ccl_text_t *out) {
    const ccl_time_cut_t *cut = point->cut;
    char size[40], rate[40], from[40], upto[40], name[300];

    if (!cut)
        return;
    ccl_text_printf(out, "  over time  %s us", ccl_i_us(point->over_time_s, size, sizeof(size)));
    if (point->proto)
        ccl_text_printf(out, " with %s", point->proto);
    ccl_text_printf(out, ": %.4g x %s must go%s", cut->share,
                    ccl_format_bytes(point->size_bytes, size, sizeof(size)),
                    cut->lengths ? ", bytes times lengths of links," : "");
    if (cut->partials > 0 && cut->share > cut->least)
        ccl_text_printf(out, ", %.4g x as partial results,", cut->least);
    ccl_text_printf(out, " from ");
    names(point->topo, cut->sources, out);
    ccl_text_printf(out, " to ");
    names(point->topo, cut->dests, out);
    ccl_text_printf(out, "\n  windows   ");
    for (uint32_t i = 0; i < cut->nlinks && i < rows; i++)
        ccl_text_printf(out, "%s %s (%s GB/s) from %s us to %s us before the end", i ? "," : "",
                        link_text(point->topo, &cut->links[i], name, sizeof(name)),
                        ccl_i_GBps(cut->links[i].Bps, rate, sizeof(rate)),
                        ccl_i_us(cut->links[i].from_s, from, sizeof(from)),
                        ccl_i_us(cut->links[i].upto_s, upto, sizeof(upto)));
    if (cut->nlinks > rows)
        ccl_text_printf(out, " and %u more", cut->nlinks - rows);
    ccl_text_printf(out, "\n");
}

/* ---------------------------------------------------------------- JSON and tables */

typedef struct window_row {
    const char *from, *to, *group;
    double bandwidth_GBps, from_s, upto_s;
} window_row_t;

static uint64_t count_ranks(const void *row) {
    const ccl_i_bound_point_t *point = row;

    return point->topo->nranks;
}

static const void *source_at(const void *row, uint64_t i, void *scratch) {
    const ccl_i_bound_point_t *point = row;
    const char **id = scratch;

    *id = point->topo->devices[point->topo->rank_device[i]].id;
    return point->cut->sources[i] ? id : NULL;
}

static const void *dest_at(const void *row, uint64_t i, void *scratch) {
    const ccl_i_bound_point_t *point = row;
    const char **id = scratch;

    *id = point->topo->devices[point->topo->rank_device[i]].id;
    return point->cut->dests[i] ? id : NULL;
}

static uint64_t count_windows(const void *row) {
    const ccl_i_bound_point_t *point = row;

    return point->cut->nlinks;
}

static const void *window_at(const void *row, uint64_t i, void *scratch) {
    const ccl_i_bound_point_t *point = row;
    const ccl_topology_t *topo = point->topo;
    const ccl_time_link_t *link = &point->cut->links[i];
    window_row_t *out = scratch;

    *out = (window_row_t){
        .bandwidth_GBps = link->Bps / 1e9, .from_s = link->from_s, .upto_s = link->upto_s};
    if (link->link == CCL_NONE) {
        out->group = topo->groups[link->group].name;
    } else {
        out->from = topo->devices[topo->links[link->link].from].id;
        out->to = topo->devices[topo->links[link->link].to].id;
    }
    return out;
}

static const ccl_i_described_t window_record = {
    .size = sizeof(window_row_t),
    .fields = (const ccl_i_field_t[]){
        {"from", CCL_I_AT(window_row_t, from), "device", .null = "it is a group's capacity"},
        {"to", CCL_I_AT(window_row_t, to), "device", .null = "it is a group's capacity"},
        {"group", CCL_I_AT(window_row_t, group), "of links", .null = "it is a link"},
        {"bandwidth_GBps", CCL_I_AT(window_row_t, bandwidth_GBps), "of data, without `wire`"},
        {"from_s", CCL_I_AT(window_row_t, from_s), "no data that count can be on it before"},
        {"upto_s", CCL_I_AT(window_row_t, upto_s), "before the end, from when on it is of no use"},
        {0}}};
const ccl_i_described_t ccl_i_bound_cut_record = {
    .size = sizeof(ccl_i_bound_point_t),
    .fields = (const ccl_i_field_t[]){
        {"sources", CCL_I_LIST_OF(ccl_i_bare_string, count_ranks, source_at), "whose data",
         .line = true},
        {"destinations", CCL_I_LIST_OF(ccl_i_bare_string, count_ranks, dest_at), "that need them",
         .line = true},
        {"messages", CCL_I_AT(ccl_i_bound_point_t, messages),
         "message sizes that must cross (times lengths where all links have one, as in flows "
         "between "
         "all pairs); between the two where partial results can"},
        {"messages_of_partials", CCL_I_AT(ccl_i_bound_point_t, partials),
         "where all are partial results"},
        {"fixed_bytes", CCL_I_AT(ccl_i_bound_point_t, fixed_bytes), "that cross besides"},
        {"windows", CCL_I_LIST_OF(window_record, count_windows, window_at),
         "of the links that the data must take"},
        {0}}};
const ccl_i_described_t ccl_i_bound_point_record = {
    .size = sizeof(ccl_i_bound_point_t),
    .fields = (const ccl_i_field_t[]){
        {"size_bytes", CCL_I_AT(ccl_i_bound_point_t, size_bytes)},
        {"time_s", CCL_I_AT(ccl_i_bound_point_t, time_s), "the greatest of the three"},
        {"by", CCL_I_AT(ccl_i_bound_point_t, by), "which that is", .words = ccl_i_bound_by_words},
        {"proto", CCL_I_AT(ccl_i_bound_point_t, proto), "the protocol with the least bound",
         .null = "none has constants of its own"},
        {"latency_s", CCL_I_AT(ccl_i_bound_point_t, latency_s)},
        {"bandwidth_s", CCL_I_AT(ccl_i_bound_point_t, bandwidth_s), .null = "nothing has to move"},
        {"over_time_s", CCL_I_AT(ccl_i_bound_point_t, over_time_s),
         .null = "no cut says more than 0"},
        {0}}};
