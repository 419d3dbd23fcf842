/* What is alike in a cluster: dimensions, groups, automorphism classes. */
#include "report/describe.h"

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

/* ---------------------------------------------------------------- rows */

typedef struct dimension_row {
    const ccl_dimension_t *of;
    const char *name, *transport;
    double min_Bps, max_Bps, min_latency_s, max_latency_s;
    uint32_t ngroups, nclasses, complete;
    char gpus[80], rates_GBps[140], latencies_us[140]; /* "25.00" or "12.50..25.00" */
} dimension_row_t;

typedef struct group_row {
    const uint32_t *ranks;
    uint32_t nranks, class_of;
    bool all_pairs;
} group_row_t;

typedef struct root {
    const ccl_symmetry_t *of;
    const char *topology;
    uint32_t nranks, generators;
    double log10_automorphisms;
} root_t;

static void range(const char *low, const char *high, char *out, size_t out_len) {
    snprintf(out, out_len, strcmp(low, high) ? "%s..%s" : "%s", low, high);
}

static uint64_t count_ranks(const void *row) {
    const group_row_t *group = row;

    return group->nranks;
}

static const void *rank_at(const void *row, uint64_t i, void *scratch) {
    const group_row_t *group = row;

    (void)scratch;
    return &group->ranks[i];
}

static uint64_t count_groups(const void *row) {
    const dimension_row_t *dimension = row;

    return dimension->of->ngroups;
}

static const void *group_at(const void *row, uint64_t i, void *scratch) {
    const dimension_row_t *dimension = row;
    const ccl_dimension_t *d = dimension->of;
    group_row_t *out = scratch;

    *out = (group_row_t){d->ranks + d->first[i], d->first[i + 1] - d->first[i], d->class_of[i],
                         d->complete[i] != 0};
    return out;
}

static uint64_t count_dimensions(const void *row) {
    const root_t *root = row;

    return root->of->ndimensions;
}

static const void *dimension_at(const void *row, uint64_t i, void *scratch) {
    const root_t *root = row;
    const ccl_dimension_t *d = &root->of->dimensions[i];
    dimension_row_t *out = scratch;
    char a[64], b[64];

    *out = (dimension_row_t){d,
                             d->name,
                             d->kind,
                             d->min_Bps,
                             d->max_Bps,
                             d->min_latency_s,
                             d->max_latency_s,
                             d->ngroups,
                             d->nclasses,
                             0,
                             "",
                             "",
                             ""};
    for (uint32_t g = 0; g < d->ngroups; g++)
        out->complete += d->complete[g];
    range(ccl_i_index(d->min_gpus, a, sizeof a), ccl_i_index(d->max_gpus, b, sizeof b), out->gpus,
          sizeof out->gpus);
    range(ccl_i_GBps(d->min_Bps, a, sizeof a), ccl_i_GBps(d->max_Bps, b, sizeof b), out->rates_GBps,
          sizeof out->rates_GBps);
    range(ccl_i_us(d->min_latency_s, a, sizeof a), ccl_i_us(d->max_latency_s, b, sizeof b),
          out->latencies_us, sizeof out->latencies_us);
    return out;
}

static const void *class_at(const void *row, uint64_t i, void *scratch) {
    const root_t *root = row;

    (void)scratch;
    return &root->of->gpu_class[i];
}

static uint64_t count_gpus(const void *row) {
    const root_t *root = row;

    return root->nranks;
}

static const ccl_i_described_t group_record = {
    .size = sizeof(group_row_t),
    .fields = (const ccl_i_field_t[]){
        {"class", CCL_I_AT(group_row_t, class_of), "the lowest group that is alike"},
        {"all_pairs", CCL_I_AT(group_row_t, all_pairs), "every two of its GPUs have such a route"},
        {"ranks", CCL_I_LIST_OF(ccl_i_bare_u32, count_ranks, rank_at), .line = true},
        {0}}};

#define AT(member) CCL_I_AT(dimension_row_t, member)
static const ccl_i_described_t dimension_record = {
    .size = sizeof(dimension_row_t),
    .fields =
        (const ccl_i_field_t[]){
            {"name", AT(name)},
            {"transport", AT(transport), "of its routes"},
            {"min_Bps", AT(min_Bps), "narrowest link of its routes"},
            {"max_Bps", AT(max_Bps)},
            {"min_latency_s", AT(min_latency_s), "over its routes"},
            {"max_latency_s", AT(max_latency_s)},
            {"groups", CCL_I_LIST_OF(group_record, count_groups, group_at), "of two GPUs or more"},
            {"ngroups", AT(ngroups), .hidden = true},
            {"gpus", AT(gpus), .hidden = true},
            {"nclasses", AT(nclasses), .hidden = true},
            {"rates_GBps", AT(rates_GBps), .hidden = true},
            {"latencies_us", AT(latencies_us), .hidden = true},
            {"complete", AT(complete), .hidden = true},
            {0}},
    .tall = true};
#undef AT

const ccl_i_result_t ccl_i_result_symmetry = {
    "symmetry", "ccllab topology symmetry", "what is alike in a cluster",
    &(const ccl_i_described_t){
        .fields = (const ccl_i_field_t[]){
            {"topology", CCL_I_AT(root_t, topology)},
            {"nranks", CCL_I_AT(root_t, nranks)},
            {"log10_automorphisms", CCL_I_AT(root_t, log10_automorphisms), "approximate"},
            {"generators", CCL_I_AT(root_t, generators), "of the automorphism group, as found"},
            {"gpu_class", CCL_I_LIST_OF(ccl_i_bare_u32, count_gpus, class_at),
             "per rank; GPUs that an automorphism carries to each other have the same",
             .line = true},
            {"dimensions", CCL_I_LIST_OF(dimension_record, count_dimensions, dimension_at),
             "from the fastest and nearest to the widest"},
            {0}}}};

static const ccl_i_column_t columns[] = {
    CCL_I_COLUMN("name", "dimension"),
    CCL_I_COLUMN("ngroups", "groups"),
    CCL_I_COLUMN("gpus", "GPUs per group", .right = true),
    CCL_I_COLUMN("nclasses", "classes"),
    CCL_I_COLUMN("rates_GBps", "narrowest(GB/s)", .right = true),
    CCL_I_COLUMN("latencies_us", "latency(us)", .right = true),
    CCL_I_COLUMN("complete", "all pairs"),
    CCL_I_COLUMNS_END};

static ccl_status_t dimension_table(const root_t *root, ccl_report_format_t format, ccl_text_t *out,
                                    ccl_error_t *err) {
    return ccl_i_rows_emit(ccl_i_result_symmetry.root, "dimensions", root, columns, format, out,
                           err);
}

/* ---------------------------------------------------------------- text */

static ccl_status_t symmetry_text(const root_t *root, ccl_text_t *out, ccl_error_t *err) {
    const ccl_symmetry_t *s = root->of;

    ccl_text_printf(out, "%s: %u GPUs, %u dimension%s\n\n", root->topology, s->nranks,
                    s->ndimensions, s->ndimensions == 1 ? "" : "s");
    CCL_TRY(dimension_table(root, CCL_REPORT_TEXT, out, err));
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

ccl_status_t ccl_report_symmetry(const ccl_topology_t *topo, const ccl_symmetry_t *symmetry,
                                 const ccl_report_style_t *style, ccl_text_t *out,
                                 ccl_error_t *err) {
    const root_t root = {symmetry, topo->name, symmetry->nranks, symmetry->ngenerators,
                         symmetry->log10_automorphisms};

    if (style->format == CCL_REPORT_TEXT)
        return symmetry_text(&root, out, err);
    if (style->format == CCL_REPORT_CSV)
        return dimension_table(&root, CCL_REPORT_CSV, out, err);
    return ccl_i_result_json(&ccl_i_result_symmetry, &root, out, err);
}
