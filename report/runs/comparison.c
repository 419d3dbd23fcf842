/* Who wins at which size, by how much, and how busy the winner's links were. */
#include "report/runs/comparison.h"
#include "report/runs/spread.h"

#include <math.h>
#include <stdlib.h>

const char *const ccl_report_comparison_tables[] = {"times", "links", "spread", NULL};

bool ccl_i_compare_tied(const ccl_comparison_t *c, uint32_t size, uint32_t contender) {
    uint32_t w = c->winner[size];
    const ccl_compare_cell_t *cell = ccl_i_compare_cell(c, size, contender);

    if (w == CCL_NONE || contender == w || !c->tie[size] || cell->status != CCL_OK)
        return false;
    return cell->low_s <= ccl_i_compare_cell(c, size, w)->high_s;
}

double ccl_i_compare_bound_s(const ccl_comparison_t *c, uint32_t size) {
    return c->bound_s ? c->bound_s[size] : 0;
}

/* ---------------------------------------------------------------- rows */

typedef struct root {
    const ccl_report_comparison_t *of;
    ccl_link_class_t *classes; /* [nkinds] of the size at hand */
    const char *topology, *profile, *granularity, *sharing;
    uint32_t nranks;
    uint64_t seed;
    const char *scenario, *rank;
    uint32_t samples;
} root_t;

typedef struct comparison_row {
    const root_t *root;
    const ccl_comparison_t *of;
    uint32_t index;
    const char *collective;
    double busbw_factor, proven_gap;
} comparison_row_t;

typedef struct contender_row {
    const char *name, *why_not, *missing;
    bool takes_part;
    uint32_t thread_blocks;
    ccl_i_way_row_t way;
} contender_row_t;

typedef struct size_row {
    const comparison_row_t *parent;
    uint32_t size;
    ccl_i_link_rows_t links;
    double size_bytes, bound_s, speedup;
    const char *winner;
    bool tie, proven;
} size_row_t;

/** One contender at one size. */
typedef struct cell_row {
    const char *topology, *collective, *name, *status, *proto, *why, *origin, *choice;
    bool winner, tied;
    double size_bytes, time_s, algbw_GBps, busbw_GBps, low_s, high_s, gap, bound_s, speedup,
        step_bytes, buffer_bytes;
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

    *out = (contender_row_t){c->names[i],
                             c->why_not[i],
                             i == c->nccl ? c->nccl_note : NULL,
                             c->why_not[i] == NULL,
                             c->why_not[i] ? CCL_NONE : c->thread_blocks[i],
                             ccl_i_way_row(&c->ways[i], c->lowered[i])};
    return out;
}

/** Contender k of comparison i at size s. */
static const void *cell_of(const ccl_report_comparison_t *r, uint32_t i, uint32_t s, uint32_t k,
                           cell_row_t *out) {
    const ccl_comparison_t *c = r->comparisons[i];
    const ccl_compare_cell_t *cell = ccl_i_compare_cell(c, s, k);
    const ccl_way_t plain = {CCL_ORDER_STEP, CCL_ALLOCATE_CONNECTION, CCL_GRANULARITY_ALGORITHM};
    bool ok = !c->why_not[k] && cell->status == CCL_OK;

    *out = (cell_row_t){
        .topology = r->topo->name,
        .collective = r->collectives[i]->name,
        .name = c->names[k],
        .status = c->why_not[k] ? "not taking part" : ccl_i_status_word(cell->status),
        .proto = ok ? cell->proto : NULL,
        .why = cell->why,
        .origin = ok && cell->origin[0] ? cell->origin : NULL,
        .choice = cell->choice,
        .step_bytes = cell->choice ? cell->step_bytes : NAN,
        .buffer_bytes = cell->choice ? cell->buffer_bytes : NAN,
        .winner = k == c->winner[s],
        .tied = !c->why_not[k] && ccl_i_compare_tied(c, s, k),
        .size_bytes = c->sizes_bytes[s],
        .time_s = ok ? cell->time_s : NAN,
        .algbw_GBps = ok ? cell->algbw_GBps : NAN,
        .busbw_GBps = ok ? cell->busbw_GBps : NAN,
        .low_s = ok ? cell->low_s : NAN,
        .high_s = ok ? cell->high_s : NAN,
        .gap = ok ? ccl_i_gap(cell->time_s, ccl_i_compare_bound_s(c, s)) : NAN,
        .bound_s = ccl_i_compare_bound_s(c, s),
        .speedup = ok ? ccl_comparison_speedup(c, s, k) : NAN,
        .batches = cell->batches,
        .run_batches = ok ? cell->batches : CCL_NONE,
        .way = ccl_i_way_row(cell->algorithm_only ? &plain : &c->ways[k], c->lowered[k]),
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
    return !c->why_not[i] && ccl_i_compare_tied(c, size->size, (uint32_t)i) ? name : NULL;
}

static uint64_t count_spreads(const void *row) {
    const size_row_t *size = row;

    return size->parent->of->spreads ? size->parent->of->ncontenders : 0;
}

static const void *spread_at(const void *row, uint64_t i, void *scratch) {
    const size_row_t *size = row;

    return ccl_i_compare_spread_row(size->parent->root->of, size->parent->index, size->size,
                                    (uint32_t)i, scratch);
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
    double bound_s = ccl_i_compare_bound_s(c->of, (uint32_t)i);
    size_row_t *out = scratch;

    *out = (size_row_t){c,
                        (uint32_t)i,
                        {c->root->of->topo, c->of->best[i]},
                        c->of->sizes_bytes[i],
                        bound_s > 0 ? bound_s : NAN,
                        ccl_comparison_speedup(c->of, (uint32_t)i, w),
                        w == CCL_NONE ? NULL : c->of->names[w],
                        c->of->tie[i],
                        ccl_comparison_proven(c->of, (uint32_t)i)};
    return out;
}

static uint64_t count_comparisons(const void *root) {
    return ((const root_t *)root)->of->ncomparisons;
}

static const void *comparison_at(const void *root, uint64_t i, void *scratch) {
    const ccl_report_comparison_t *r = ((const root_t *)root)->of;
    const ccl_collective_t *coll = r->collectives[i];
    comparison_row_t *out = scratch;

    *out = (comparison_row_t){root,
                              r->comparisons[i],
                              (uint32_t)i,
                              coll->name,
                              ccl_collective_busbw_factor(coll->kind, coll->nranks),
                              r->comparisons[i]->gap};
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

/** The same over samples. */
static const void *spread_of(const void *root, uint64_t at, void *scratch) {
    const ccl_report_comparison_t *r = ((const root_t *)root)->of;

    for (uint32_t i = 0; i < r->ncomparisons; i++) {
        const ccl_comparison_t *c = r->comparisons[i];
        uint64_t n = (uint64_t)c->nsizes * c->ncontenders;

        if (at < n)
            return ccl_i_compare_spread_row(r, i, (uint32_t)(at / c->ncontenders),
                                            (uint32_t)(at % c->ncontenders), scratch);
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
        {"not_modelled", AT(missing), "what NCCL may do there and its model here does not",
         .null = "nothing, or another contender"},
        {"thread_blocks", AT(thread_blocks), "on the fullest GPU", .null = "it does not take part"},
        CCL_I_WAY_FIELDS(contender_row_t, way, OWN),
        {0}}};
#undef AT
#define AT(member) CCL_I_AT(cell_row_t, member)
#define NO_TIME "it has no time"
#define NO_STEPS "another contender, or unlimited"
#define NO_GAIN "either has no time, or NCCL is no contender"
static const ccl_i_described_t cell_record = {
    .size = sizeof(cell_row_t),
    .fields = (const ccl_i_field_t[]){
        {"name", AT(name), "of the contender"},
        {"status", AT(status), .words = ccl_i_status_words},
        {"proto", AT(proto), "the protocol it ran", .null = NO_TIME},
        {"why", AT(why), "it has no time", .null = "it has one"},
        {"origin", AT(origin), "who made the schedule, and how", .null = NO_TIME},
        {"time_s", AT(time_s), .null = NO_TIME},
        {"algbw_GBps", AT(algbw_GBps), "size / time", .null = NO_TIME},
        {"busbw_GBps", AT(busbw_GBps), "algbw x busbw_factor", .null = NO_TIME},
        {"low_s", AT(low_s), "time at a size smaller by 1e-6", .null = NO_TIME},
        {"high_s", AT(high_s), "time at a size larger by 1e-6", .null = NO_TIME},
        {"gap", AT(gap), "time_s / bound_s", .null = NO_TIME},
        {"speedup_over_nccl", AT(speedup), "NCCL's (or RCCL's) time / time_s", .null = NO_GAIN},
        {"choice", AT(choice), "of NCCL: algorithm, protocol, channels",
         .null = "another contender"},
        {"step_bytes", AT(step_bytes), "of NCCL: that a block sends at a time inside servers",
         .null = NO_STEPS},
        {"buffer_bytes", AT(buffer_bytes), "of NCCL: of a connection there", .null = NO_STEPS},
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
            {"speedup_over_nccl", AT(speedup), "of the winner: NCCL's (or RCCL's) time / its own",
             .null = NO_GAIN},
            {"proven", AT(proven),
             "no schedule is faster than the winner by more than proven_gap (ccllab bound)"},
            {"tie", AT(tie), "others are as good as the winner"},
            {"tied_with", CCL_I_LIST_OF(ccl_i_bare_string, count_cells, tied_at), .line = true},
            {"results", CCL_I_LIST_OF(cell_record, count_cells, result_at),
             "of those that take part"},
            {"spread", CCL_I_LIST_OF(ccl_i_compare_spread_record, count_spreads, spread_at),
             "over samples of a scenario, of those with a time; empty without one"},
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
    .fields =
        (const ccl_i_field_t[]){
            {"collective", AT(collective)},
            {"busbw_factor", AT(busbw_factor), "busbw / algbw"},
            {"proven_gap", AT(proven_gap), "a proven winner's time / bound - 1 at most"},
            {"contenders", CCL_I_LIST_OF(contender_record, count_contenders, contender_at)},
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
            CCL_I_PROFILE(AT(profile)),
            {"nranks", AT(nranks)},
            {"granularity", AT(granularity), "level of execution",
             .words = ccl_i_granularity_words},
            {"sharing", AT(sharing), "of links",
             .words = (const char *const[]){"fair", "exclusive", NULL}},
            {"seed", AT(seed)},
            {"scenario", AT(scenario), "its name", .null = "there is none"},
            {"samples", AT(samples), "of the scenario", .null = "there is none"},
            {"rank", AT(rank), "by what over samples winners are chosen",
             .null = "their time on the cluster as drawn"},
            {"comparisons", CCL_I_LIST_OF(comparison_record, count_comparisons, comparison_at),
             "one per collective"},
            {"times", CCL_I_LIST_OF(cell_record, count_times, time_at), .hidden = true},
            {"links", CCL_I_LIST_OF(use_record, count_uses, use_at), .hidden = true},
            {"spread", CCL_I_LIST_OF(ccl_i_compare_spread_record, count_times, spread_of),
             .hidden = true},
            {0}}}};
#undef AT

static const ccl_i_column_t spread_columns[] = {CCL_I_COLUMN("topology"),
                                                CCL_I_COLUMN("collective"),
                                                CCL_I_COLUMN("size_bytes"),
                                                CCL_I_COLUMN("name", "contender"),
                                                CCL_I_COLUMN("winner"),
                                                CCL_I_COLUMN("samples"),
                                                CCL_I_COLUMN("lost"),
                                                CCL_I_COLUMN("mean_s"),
                                                CCL_I_COLUMN("mean_ci_s"),
                                                CCL_I_COLUMN("sd_s"),
                                                CCL_I_COLUMN("min_s"),
                                                CCL_I_COLUMN("max_s"),
                                                CCL_I_COLUMN("p50_s"),
                                                CCL_I_COLUMN("p50_low_s"),
                                                CCL_I_COLUMN("p50_high_s"),
                                                CCL_I_COLUMN("p95_s"),
                                                CCL_I_COLUMN("p95_low_s"),
                                                CCL_I_COLUMN("p95_high_s"),
                                                CCL_I_COLUMN("p99_s"),
                                                CCL_I_COLUMN("p99_low_s"),
                                                CCL_I_COLUMN("p99_high_s"),
                                                CCL_I_COLUMN("cvar95_s"),
                                                CCL_I_COLUMN("rank_s"),
                                                CCL_I_COLUMN("regret_s"),
                                                CCL_I_COLUMN("behind_s"),
                                                CCL_I_COLUMN("behind_ci_s"),
                                                CCL_I_COLUMN("beats_winner"),
                                                CCL_I_COLUMN("fastest"),
                                                CCL_I_COLUMNS_END};

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
    CCL_I_COLUMN("proto"),
    CCL_I_COLUMN("thread_blocks_per_gpu", "thread_blocks"),
    CCL_I_COLUMN("mean_idle_share"),
    CCL_I_COLUMN("max_idle_share"),
    CCL_I_COLUMN("bound_s"),
    CCL_I_COLUMN("gap"),
    CCL_I_COLUMN("speedup_over_nccl"),
    CCL_I_COLUMN("choice"),
    CCL_I_COLUMN("origin"),
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
                   ccl_i_profile_name(comparison->topo),
                   ccl_i_granularity_name(options->granularity),
                   ccl_i_sharing_name(options->sharing),
                   comparison->topo->nranks,
                   comparison->seed,
                   NULL,
                   NULL,
                   CCL_NONE};
    const ccl_i_column_t *const columns[] = {time_columns, NULL, spread_columns};
    char rank[40];
    size_t which = 0;

    root.scenario = comparison->scenario;
    root.samples = CCL_NONE;
    if (comparison->ncomparisons && comparison->comparisons[0]->nsamples) {
        root.samples = comparison->comparisons[0]->nsamples;
        root.rank = ccl_i_rank_text(comparison->comparisons[0]->rank, rank, sizeof(rank));
    }
    CCL_TRY(ccl_i_table_choice(ccl_report_comparison_tables, style->table, &which, err));
    if (style->format == CCL_REPORT_JSON)
        return comparison_json(&root, out, err);
    if (style->format == CCL_REPORT_TEXT)
        return ccl_i_compare_text(comparison, style->columns ? style->columns : 120, out, err);
    return ccl_i_rows_emit(ccl_i_result_compare.root, ccl_report_comparison_tables[which], &root,
                           columns[which], CCL_REPORT_CSV, out, err);
}
