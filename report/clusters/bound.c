/* Lower bounds: how fast a collective can be at all on a cluster, and what stands in the way. */
#include "report/clusters/bound.h"

#include <inttypes.h>
#include <math.h>

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
        snprintf(out, out_len, gap < 9.995 ? "%.2f" : gap < 9999.5 ? "%.4g" : "%.0f", gap);
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
    case CCL_BOUND_DOMAINS:
        return "messages through switches and past them";
    case CCL_BOUND_LENGTHS:
        return "flows between all pairs";
    case CCL_BOUND_SERVERS:
        return "flows between all servers";
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
    char a[40], c[40], with[300];

    ccl_text_printf(out, "%s%s on %s (%u GPUs) with %s\n", i ? "\n" : "", coll->name, topo->name,
                    topo->nranks, ccl_i_constants_text(topo, with, sizeof(with)));
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
                        ccl_i_us(b->time_s, c, sizeof(c)), ccl_bound_by_name(b->by));
    text_witness(topo, &b->bandwidth, rows, out);
    if (b->size_bytes > 0) {
        const ccl_i_bound_point_t point = ccl_i_bound_point(topo, b, b->size_bytes);

        ccl_i_bound_cut_text(&point, rows, out);
    }
}

/* ---------------------------------------------------------------- JSON and CSV */

typedef struct bound_row {
    const ccl_topology_t *topo;
    const ccl_bound_t *bound;
    const ccl_bandwidth_bound_t *of;
    ccl_i_bound_point_t point; /* at its size */
    const char *topology, *collective, *proof, *by, *proto;
    double size_bytes, time_s, latency_s, bandwidth_s, over_time_s;
    double algbw_GBps, busbw_GBps, trees_GBps;
    uint32_t latency_from, latency_to, latency_hops;
    const void *exact; /* NULL, or &exact_GBps */
    const void *cut;   /* NULL, or &point */
    ccl_fraction_t exact_GBps;
    char exact_text[48];
    bool tight;
} bound_row_t;

typedef struct part_row {
    const bound_row_t *bound;
    uint32_t part;
} part_row_t;

typedef struct link_row {
    const char *from, *to, *kind;
    double bandwidth_GBps;
} link_row_t;

static uint64_t count_devices(const void *row) {
    const part_row_t *part = row;

    return part->bound->topo->ndevices;
}

static const void *device_at(const void *row, uint64_t i, void *scratch) {
    const part_row_t *part = row;
    const char **id = scratch;

    *id = part->bound->topo->devices[i].id;
    return part->bound->of->part[i] == part->part ? id : NULL;
}

static uint64_t count_parts(const void *row) {
    const bound_row_t *bound = row;

    return bound->of->part ? bound->of->nparts : 0;
}

static const void *part_at(const void *row, uint64_t i, void *scratch) {
    part_row_t *part = scratch;

    *part = (part_row_t){row, (uint32_t)i};
    return part;
}

static uint64_t count_links(const void *row) {
    const bound_row_t *bound = row;

    return bound->of->nlinks;
}

static const void *link_at(const void *row, uint64_t i, void *scratch) {
    const bound_row_t *bound = row;
    const ccl_topology_t *topo = bound->topo;
    const ccl_link_t *link = &topo->links[bound->of->links[i]];
    link_row_t *out = scratch;

    *out = (link_row_t){topo->devices[link->from].id, topo->devices[link->to].id,
                        topo->kinds[link->kind], link->bandwidth_Bps / 1e9};
    return out;
}

static uint64_t count_points(const void *row) {
    (void)row;
    return CCL_I_BOUND_SIZES;
}

static const void *point_at(const void *row, uint64_t i, void *scratch) {
    const bound_row_t *bound = row;
    ccl_i_bound_point_t *point = scratch;

    *point = ccl_i_bound_point(bound->topo, bound->bound, ccl_i_bound_size(i));
    return point;
}

static uint64_t count_bounds(const void *root) {
    const ccl_report_bounds_t *r = root;

    return r->nbounds;
}

static const void *bound_at(const void *root, uint64_t i, void *scratch) {
    const ccl_report_bounds_t *r = root;
    const ccl_bound_t *b = &r->bounds[i];
    const ccl_bandwidth_bound_t *w = &b->bandwidth;
    const ccl_collective_t *coll = r->collectives[i];
    bool sized = b->size_bytes > 0;
    bound_row_t *row = scratch;

    *row = (bound_row_t){.topo = r->topo, .bound = b, .of = w, .topology = r->topo->name};
    row->point = ccl_i_bound_point(r->topo, b, sized ? b->size_bytes : 1);
    row->by = sized ? row->point.by : NULL;
    row->proto = sized ? row->point.proto : NULL;
    row->over_time_s = sized ? row->point.over_time_s : NAN;
    row->cut = sized && row->point.cut ? &row->point : NULL;
    row->collective = coll->name;
    row->proof = ccl_bound_proof_name(w->proof);
    row->size_bytes = sized ? b->size_bytes : NAN;
    row->time_s = sized ? b->time_s : NAN;
    row->latency_s = b->latency.latency_s;
    row->bandwidth_s = sized ? b->bandwidth_s : NAN;
    row->algbw_GBps = w->Bps / 1e9;
    row->busbw_GBps = w->Bps / 1e9 * ccl_collective_busbw_factor(coll->kind, coll->nranks);
    row->trees_GBps = w->trees_Bps > 0 ? w->trees_Bps / 1e9 : NAN;
    row->latency_from = b->latency.from;
    row->latency_to = b->latency.to;
    row->latency_hops = b->latency.hops;
    row->tight = w->tight;
    row->exact_GBps = GBps_of(w->exact_Bps);
    if (row->exact_GBps.den) {
        row->exact = &row->exact_GBps;
        snprintf(row->exact_text, sizeof(row->exact_text), "%" PRIu64 "/%" PRIu64,
                 row->exact_GBps.num, row->exact_GBps.den);
    }
    return row;
}

static const ccl_i_described_t fraction_record = {
    .fields = (const ccl_i_field_t[]){
        {"num", CCL_I_AT(ccl_fraction_t, num)}, {"den", CCL_I_AT(ccl_fraction_t, den)}, {0}}};
static const ccl_i_described_t part_record = {
    .size = sizeof(part_row_t),
    .fields =
        (const ccl_i_field_t[]){
            {"devices", CCL_I_LIST_OF(ccl_i_bare_string, count_devices, device_at), .line = true},
            {0}},
    .bare = true};
static const ccl_i_described_t link_record = {
    .size = sizeof(link_row_t),
    .fields = (const ccl_i_field_t[]){{"from", CCL_I_AT(link_row_t, from), "device"},
                                      {"to", CCL_I_AT(link_row_t, to), "device"},
                                      {"kind", CCL_I_AT(link_row_t, kind)},
                                      {"bandwidth_GBps", CCL_I_AT(link_row_t, bandwidth_GBps)},
                                      {0}}};
#define AT(member) CCL_I_AT(bound_row_t, member)
#define UNSIZED "no size was named"
static const ccl_i_described_t bound_record = {
    .size = sizeof(bound_row_t),
    .fields =
        (const ccl_i_field_t[]){
            {"collective", AT(collective)},
            {"size_bytes", AT(size_bytes), .null = UNSIZED},
            {"time_s", AT(time_s), "the least of the protocols' greatest bound", .null = UNSIZED},
            {"by", AT(by), "what gives time_s", .null = UNSIZED, .words = ccl_i_bound_by_words},
            {"proto", AT(proto), "whose bound is the least",
             .null = UNSIZED ", or none has constants of its own"},
            {"latency_s", AT(latency_s), "of the slowest route that data must go"},
            {"latency_from", AT(latency_from), "rank at its start", .null = "no data must move"},
            {"latency_to", AT(latency_to), "rank at its end", .null = "no data must move"},
            {"latency_hops", AT(latency_hops)},
            {"bandwidth_s", AT(bandwidth_s), .null = UNSIZED},
            {"over_time_s", AT(over_time_s), "of the best cut over time",
             .null = UNSIZED ", or there is none"},
            {"algbw_GBps", AT(algbw_GBps), .null = "no limit"},
            {"busbw_GBps", AT(busbw_GBps), .null = "no limit"},
            {"exact_GBps", AT(exact), "algbw as a fraction", .null = "rounded",
             .of = &fraction_record},
            {"proof", AT(proof), "what proves the bandwidth"},
            {"tight", AT(tight), "schedules can meet the bandwidth"},
            {"trees_GBps", AT(trees_GBps),
             "the best that reduce-scatter and all-gather trees reach", .null = "not found"},
            {"parts", CCL_I_LIST_OF(part_record, count_parts, part_at),
             "devices of each part of the cut or partition"},
            {"links", CCL_I_LIST_OF(link_record, count_links, link_at), "that are saturated"},
            {"cut_over_time", AT(cut), "that gives over_time_s",
             .null = UNSIZED ", or there is none", .of = &ccl_i_bound_cut_record},
            {"curve", CCL_I_LIST_OF(ccl_i_bound_point_record, count_points, point_at),
             "over the size"},
            {"topology", AT(topology), .hidden = true},
            {"exact_text", AT(exact_text), .hidden = true},
            {0}},
    .tall = true};
#undef AT

typedef struct root {
    ccl_report_bounds_t of;
    const char *topology, *profile;
    uint32_t nranks;
} root_t;

const ccl_i_result_t ccl_i_result_bound = {
    "bound", "ccllab bound", "lower bounds of collectives on a cluster, and what proves them",
    &(const ccl_i_described_t){
        .fields = (const ccl_i_field_t[]){
            {"topology", CCL_I_AT(root_t, topology)},
            CCL_I_PROFILE(CCL_I_AT(root_t, profile)),
            {"nranks", CCL_I_AT(root_t, nranks)},
            {"bounds", CCL_I_LIST_OF(bound_record, count_bounds, bound_at), "one per collective"},
            {0}}}};

static const ccl_i_column_t csv_columns[] = {CCL_I_COLUMN("topology"),
                                             CCL_I_COLUMN("collective"),
                                             CCL_I_COLUMN("size_bytes"),
                                             CCL_I_COLUMN("time_s"),
                                             CCL_I_COLUMN("latency_s"),
                                             CCL_I_COLUMN("bandwidth_s"),
                                             CCL_I_COLUMN("over_time_s"),
                                             CCL_I_COLUMN("by"),
                                             CCL_I_COLUMN("algbw_GBps"),
                                             CCL_I_COLUMN("busbw_GBps"),
                                             CCL_I_COLUMN("exact_text", "exact_GBps"),
                                             CCL_I_COLUMN("proof"),
                                             CCL_I_COLUMN("tight"),
                                             CCL_I_COLUMN("trees_GBps"),
                                             CCL_I_COLUMNS_END};

static const ccl_i_column_t curve_columns[] = {
    CCL_I_COLUMN("size_bytes", "size", ccl_format_bytes),
    CCL_I_COLUMN("time_s", "bound(us)", ccl_i_us),
    CCL_I_COLUMN("by"),
    CCL_I_COLUMN("proto", "protocol", .none = "-"),
    CCL_I_COLUMN("latency_s", "latency(us)", ccl_i_us),
    CCL_I_COLUMN("bandwidth_s", "bandwidth(us)", ccl_i_us, "-"),
    CCL_I_COLUMN("over_time_s", "over time(us)", ccl_i_us, "-"),
    CCL_I_COLUMNS_END};

/* Bounds over the size, a table each. */
static ccl_status_t curves(const root_t *root, ccl_report_format_t format, ccl_text_t *out,
                           ccl_error_t *err) {
    for (uint32_t i = 0; i < root->of.nbounds; i++) {
        bound_row_t row;
        char with[300];

        bound_at(root, i, &row);
        if (format != CCL_REPORT_CSV)
            ccl_text_printf(out, "%s%s on %s (%u GPUs) with %s\n", i ? "\n" : "", row.collective,
                            root->topology, root->nranks,
                            ccl_i_constants_text(root->of.topo, with, sizeof(with)));
        CCL_TRY(ccl_i_rows_emit(&bound_record, "curve", &row, curve_columns, format, out, err));
    }
    return ccl_i_text_status(out, err);
}

ccl_status_t ccl_report_bounds(const ccl_report_bounds_t *bounds, const ccl_report_style_t *style,
                               ccl_text_t *out, ccl_error_t *err) {
    const root_t root = {*bounds, bounds->topo->name, ccl_i_profile_name(bounds->topo),
                         bounds->topo->nranks};

    if (style->format == CCL_REPORT_JSON)
        return ccl_i_result_json(&ccl_i_result_bound, &root, out, err);
    if (bounds->over_time)
        return curves(&root, style->format, out, err);
    if (style->format == CCL_REPORT_CSV)
        return ccl_i_rows_emit(ccl_i_result_bound.root, "bounds", &root, csv_columns, style->format,
                               out, err);
    for (uint32_t i = 0; i < bounds->nbounds; i++)
        text_one(bounds, i, style->rows ? style->rows : 8, out);
    return ccl_i_text_status(out, err);
}
