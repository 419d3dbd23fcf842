/* What a result of `explain` holds, and its tables. */
#include "report/runs/explain.h"

#include <math.h>
#include <stdlib.h>

const char *const ccl_report_explanation_tables[] = {
    "changes", "causes", "waits", "links", "path", "cut", "thread_blocks", "slow_parts", NULL};

typedef ccl_report_explanation_t about_t;

/* Rows of the cut's parts for people. */
enum { SHOWN_PARTS = 10 };

static const char *kind_name(const about_t *a, uint32_t kind) {
    return kind < a->topo->nkinds ? a->topo->kinds[kind] : "";
}

/* ---------------------------------------------------------------- rows */

typedef struct change_row {
    const ccl_counterfactual_t *of;
    const char *what, *remedy, *family, *options, *status, *why, *with;
    double time_s, change;
} change_row_t;

/** Some of the time: what it goes to, or what waited for it. */
typedef struct time_row {
    const char *what, *in_words, *kind, *some_kind;
    double time_s, share;
} time_row_t;

typedef struct resource_row {
    char link[600];
    double bandwidth_Bps, link_s, sharing_s, latency_s, share;
} resource_row_t;

typedef struct segment_row {
    double start_s, end_s;
    const char *cause, *wait, *type, *link, *kind;
    uint32_t rank, tb, step, batch, slice, peer;
    char link_name[600];
} segment_row_t;

/** Some part of the run, as the links of the bound were in it. */
typedef struct part_row {
    double start_s, busy;
    const char *cause, *in_words;
} part_row_t;

typedef struct block_row {
    ccl_i_block_row_t of;
    double path_s;
} block_row_t;

static uint64_t count_edits(const void *row) {
    return ((const change_row_t *)row)->of->nedits;
}

static const void *edit_at(const void *row, uint64_t i, void *scratch) {
    const char **edit = scratch;

    *edit = ((const change_row_t *)row)->of->edits[i];
    return edit;
}

static uint64_t count_changes(const void *row) {
    return ((const ccl_i_explain_t *)row)->of->explanation->ntried;
}

static const void *change_at(const void *row, uint64_t i, void *scratch) {
    const ccl_i_explain_t *root = row;
    ccl_text_t *edits = root->edits;
    const ccl_counterfactual_t *c = &root->of->explanation->tried[i];
    bool ran = c->status == CCL_OK;
    change_row_t *out = scratch;

    /* The text is room that the changes share, one after the other. */
    edits->len = 0;
    ccl_text_add(edits, "", 0);
    ccl_i_explain_edits(c, edits);
    *out = (change_row_t){c,
                          c->what,
                          ccl_remedy_name(c->remedy),
                          c->family,
                          c->options,
                          ccl_i_status_word(c->status),
                          ran ? NULL : c->why,
                          edits->data,
                          ran ? c->time_s : NAN,
                          ran ? ccl_i_explain_change(root->of, c) : NAN};
    return out;
}

/** Of all time what goes to cause `index % CCL_PATH_CAUSES` over kind `index / CCL_PATH_CAUSES`. */
static const void *cause_of(const about_t *a, uint32_t index, time_row_t *out) {
    ccl_path_cause_t cause = (ccl_path_cause_t)(index % CCL_PATH_CAUSES);
    uint32_t kind = index / CCL_PATH_CAUSES;
    double time_s = a->explanation->sum.kind_s[index];

    *out = (time_row_t){ccl_path_cause_name(cause),
                        ccl_i_path_cause_text(cause),
                        kind < a->topo->nkinds ? kind_name(a, kind) : NULL,
                        kind_name(a, kind),
                        time_s,
                        ccl_i_explain_share(a, time_s)};
    return out;
}

static uint64_t count_cells(const void *row) {
    return (uint64_t)(((const ccl_i_explain_t *)row)->of->topo->nkinds + 1) * CCL_PATH_CAUSES;
}

/** Cause by cause, and of each kind by kind. */
static const void *cause_at(const void *row, uint64_t i, void *scratch) {
    const about_t *a = ((const ccl_i_explain_t *)row)->of;
    uint32_t nkinds = a->topo->nkinds + 1;
    uint32_t index = (uint32_t)(i % nkinds) * CCL_PATH_CAUSES + (uint32_t)(i / nkinds);

    return a->explanation->sum.kind_s[index] > 0 ? cause_of(a, index, scratch) : NULL;
}

static uint64_t count_largest(const void *row) {
    return ((const ccl_i_explain_t *)row)->ncauses;
}

static const void *largest_at(const void *row, uint64_t i, void *scratch) {
    const ccl_i_explain_t *root = row;

    return cause_of(root->of, root->causes[i].index, scratch);
}

static uint64_t count_waits(const void *row) {
    (void)row;
    return CCL_PATH_WAITS;
}

static const void *wait_at(const void *row, uint64_t i, void *scratch) {
    const about_t *a = ((const ccl_i_explain_t *)row)->of;
    double time_s = a->explanation->sum.wait_s[i];
    time_row_t *out = scratch;

    *out = (time_row_t){ccl_path_wait_name((ccl_path_wait_t)i),
                        ccl_i_path_wait_text((ccl_path_wait_t)i),
                        NULL,
                        NULL,
                        time_s,
                        ccl_i_explain_share(a, time_s)};
    return out;
}

static const void *some_wait_at(const void *row, uint64_t i, void *scratch) {
    return ((const ccl_i_explain_t *)row)->of->explanation->sum.wait_s[i] > 0
               ? wait_at(row, i, scratch)
               : NULL;
}

static uint64_t count_resources(const void *row) {
    return ((const ccl_i_explain_t *)row)->nresources;
}

/** For people the first few do. */
static uint64_t count_first(const void *row) {
    const ccl_i_explain_t *root = row;

    return root->nresources < root->most ? root->nresources : root->most;
}

static const void *resource_at(const void *row, uint64_t i, void *scratch) {
    const ccl_i_explain_t *root = row;
    const ccl_i_keyed_t *key = &root->resources[i];
    const double *s = &root->of->explanation->sum.resource_s[(size_t)key->index * CCL_PATH_CAUSES];
    resource_row_t *out = scratch;

    ccl_i_explain_resource(root->of, key->index, out->link, sizeof(out->link));
    out->bandwidth_Bps = ccl_i_explain_resource_Bps(root->of, key->index);
    out->link_s = s[CCL_PATH_LINK];
    out->sharing_s = s[CCL_PATH_SHARING];
    out->latency_s = s[CCL_PATH_LATENCY];
    out->share = ccl_i_explain_share(root->of, key->key);
    return out;
}

static uint64_t count_segments(const void *row) {
    return ((const ccl_i_explain_t *)row)->of->explanation->result->npath;
}

static const void *segment_at(const void *row, uint64_t i, void *scratch) {
    const about_t *a = ((const ccl_i_explain_t *)row)->of;
    const ccl_path_segment_t *s = &a->explanation->result->path[i];
    const ccl_tb_t *tb = &a->program->tbs[s->tb];
    segment_row_t *out = scratch;

    out->start_s = s->start_s;
    out->end_s = s->end_s;
    out->cause = ccl_path_cause_name((ccl_path_cause_t)s->cause);
    out->wait = ccl_path_wait_name((ccl_path_wait_t)s->wait);
    out->type = ccl_primitive_name((ccl_primitive_t)a->program->steps[s->step].type);
    out->kind = s->kind == CCL_NONE ? NULL : kind_name(a, s->kind);
    out->rank = tb->rank;
    out->tb = tb->id;
    out->step = s->step - tb->first_step;
    out->batch = s->batch;
    out->slice = s->slice;
    out->peer = ccl_i_peer_rank(s->peer);
    ccl_i_explain_resource(a, s->resource, out->link_name, sizeof(out->link_name));
    out->link = s->resource == CCL_NONE ? NULL : out->link_name;
    return out;
}

static uint64_t count_parts(const void *row) {
    const ccl_explanation_t *e = (*(const ccl_i_explain_t *const *)row)->of->explanation;

    return e->cut.nlinks ? e->intervals : 0;
}

/** Intervals [first, end) as one row. */
static const void *parts_of(const ccl_explanation_t *e, uint32_t first, uint32_t end,
                            part_row_t *out) {
    double busy = 0;

    for (uint32_t k = first; k < end; k++)
        busy += e->cut.interval_busy[k] / (end - first);
    *out = (part_row_t){e->result->time_s * first / e->intervals, busy,
                        ccl_path_cause_name(e->cut.interval_on[first]),
                        ccl_i_path_cause_text(e->cut.interval_on[first])};
    return out;
}

static const void *part_at(const void *row, uint64_t i, void *scratch) {
    return parts_of((*(const ccl_i_explain_t *const *)row)->of->explanation, (uint32_t)i,
                    (uint32_t)i + 1, scratch);
}

/** For people neighbours that make SHOWN_PARTS rows. */
static const void *folded_part_at(const void *row, uint64_t i, void *scratch) {
    const ccl_explanation_t *e = (*(const ccl_i_explain_t *const *)row)->of->explanation;
    uint32_t each = e->intervals <= SHOWN_PARTS ? 1 : e->intervals / SHOWN_PARTS;
    uint32_t end = (uint32_t)i + each < e->intervals ? (uint32_t)i + each : e->intervals;

    return i % each == 0 ? parts_of(e, (uint32_t)i, end, scratch) : NULL;
}

static uint64_t count_cut_links(const void *row) {
    return (*(const ccl_i_explain_t *const *)row)->of->explanation->cut.nlinks;
}

static const void *cut_link_at(const void *row, uint64_t i, void *scratch) {
    const about_t *a = (*(const ccl_i_explain_t *const *)row)->of;
    ccl_i_link_row_t *out = scratch;

    *out =
        ccl_i_link_row(a->topo, a->explanation->result, a->explanation->bound.bandwidth.links[i]);
    return out;
}

static uint64_t count_blocks(const void *row) {
    return ((const ccl_i_explain_t *)row)->of->explanation->result->ntbs;
}

static const void *block_at(const void *row, uint64_t i, void *scratch) {
    const about_t *a = ((const ccl_i_explain_t *)row)->of;
    block_row_t *out = scratch;

    *out = (block_row_t){ccl_i_block_row(&a->program->tbs[i], &a->explanation->result->tbs[i]),
                         a->explanation->sum.tb_s[i]};
    return out;
}

/* ---------------------------------------------------------------- what they hold */

#define NO_TIME "it has no time"
#define AT(member) CCL_I_AT(change_row_t, member)
static const ccl_i_described_t change_record = {
    .size = sizeof(change_row_t),
    .fields = (const ccl_i_field_t[]){
        {"what", AT(what), "in words"},
        {"of", AT(remedy), .words = (const char *const[]){"program", "setting", "hardware", NULL}},
        {"family", AT(family), "of which only one can be chosen", .null = "none"},
        {"edits", CCL_I_LIST_OF(ccl_i_bare_string, count_edits, edit_at), "of the cluster",
         .line = true},
        {"options", AT(options), "of the command line", .null = "none"},
        {"status", AT(status), .words = ccl_i_status_words},
        {"why", AT(why), "it has no time", .null = "it has one"},
        {"time_s", AT(time_s), .null = NO_TIME},
        {"change", AT(change), "time / the run's time - 1", .null = NO_TIME},
        {"with", AT(with), .hidden = true},
        {0}}};
#undef AT
#define AT(member) CCL_I_AT(time_row_t, member)
static const ccl_i_described_t cause_record = {
    .size = sizeof(time_row_t),
    .fields =
        (const ccl_i_field_t[]){{"cause", AT(what), "what the time goes to"},
                                {"kind", AT(kind), "of the link or transport", .null = "none"},
                                {"time_s", AT(time_s)},
                                {"share", AT(share), "of the run"},
                                {"in_words", AT(in_words), .hidden = true},
                                {"some_kind", AT(some_kind), .hidden = true},
                                {0}}};
static const ccl_i_described_t wait_record = {
    .size = sizeof(time_row_t),
    .fields = (const ccl_i_field_t[]){{"wait", AT(what), "why the run could not go on without it"},
                                      {"time_s", AT(time_s)},
                                      {"share", AT(share), "of the run"},
                                      {"in_words", AT(in_words), .hidden = true},
                                      {0}}};
#undef AT
#define AT(member) CCL_I_AT(resource_row_t, member)
static const ccl_i_described_t resource_record = {
    .size = sizeof(resource_row_t),
    .fields = (const ccl_i_field_t[]){{"link", AT(link), "\"from->to\", or a group"},
                                      {"bandwidth_Bps", AT(bandwidth_Bps)},
                                      {"link_s", AT(link_s), "bytes on it"},
                                      {"sharing_s", AT(sharing_s), "shared with other flows"},
                                      {"latency_s", AT(latency_s)},
                                      {"share", AT(share), .hidden = true},
                                      {0}}};
#undef AT
#define AT(member) CCL_I_AT(segment_row_t, member)
static const ccl_i_described_t segment_record = {
    .size = sizeof(segment_row_t),
    .fields = (const ccl_i_field_t[]){
        {"start_s", AT(start_s)},
        {"end_s", AT(end_s)},
        {"cause", AT(cause), "what the time goes to"},
        {"wait", AT(wait), "why the run could not go on without it"},
        {"rank", AT(rank), "whose work it is"},
        {"tb", AT(tb), "thread block of the rank"},
        {"step", AT(step), "of the thread block"},
        {"type", AT(type), "primitive"},
        {"batch", AT(batch)},
        {"slice", AT(slice)},
        {"peer", AT(peer), "rank that it sends to", .null = "it does not send"},
        {"link", AT(link), "\"from->to\", or a group", .null = "none"},
        {"kind", AT(kind), "of the link or transport", .null = "none"},
        {0}}};
#undef AT
#define AT(member) CCL_I_AT(part_row_t, member)
static const ccl_i_described_t part_record = {
    .size = sizeof(part_row_t),
    .fields =
        (const ccl_i_field_t[]){{"start_s", AT(start_s)},
                                {"busy", AT(busy), "the links, 0..1"},
                                {"cause", AT(cause), "what the critical path mostly did meanwhile"},
                                {"in_words", AT(in_words), .hidden = true},
                                {0}}};
#undef AT
static const ccl_i_described_t cut_link_record = {
    .size = sizeof(ccl_i_link_row_t),
    .fields = (const ccl_i_field_t[]){{"from", CCL_I_AT(ccl_i_link_row_t, from), "device"},
                                      {"to", CCL_I_AT(ccl_i_link_row_t, to), "device"},
                                      CCL_I_LINK_USE(ccl_i_link_row_t, ),
                                      {0}}};
static const ccl_i_described_t block_record = {
    .size = sizeof(block_row_t),
    .fields =
        (const ccl_i_field_t[]){CCL_I_BLOCK_FIELDS(block_row_t, of.),
                                {"path_s", CCL_I_AT(block_row_t, path_s), "of the critical path"},
                                {0}}};
#define AT(member) CCL_I_AT(ccl_i_explain_t, cut_row.of.member)
static const ccl_i_described_t cut_blocks_record = {
    .fields = (const ccl_i_field_t[]){{"count", AT(blocks)},
                                      {"before", AT(before), "share of the run, not launched"},
                                      {"working", AT(working), "share of the run"},
                                      {"waits_data", AT(waits_data), "share of the run"},
                                      {"waits_peer", AT(waits_peer), "share of the run"},
                                      {"waits_slot", AT(waits_slot), "share of the run"},
                                      {"after", AT(after), "share of the run, finished"},
                                      {0}}};
#define ROOT_OF(record, count, at) CCL_I_LIST_IN(ccl_i_explain_t, cut_row.root, record, count, at)
static const ccl_i_described_t cut_record = {
    .fields =
        (const ccl_i_field_t[]){
            {"proof", CCL_I_AT(ccl_i_explain_t, cut_row.proof), "of the bound"},
            {"nlinks", AT(nlinks)},
            {"capacity_Bps", AT(capacity_Bps), "of the links together"},
            {"carried_bytes", AT(carried_bytes), "over all of them"},
            {"least_bytes", CCL_I_AT(ccl_i_explain_t, cut_row.least_bytes),
             "what any schedule carries over them", .null = "not known"},
            {"busy", AT(busy), "carried / (capacity x time)"},
            {"path_s", AT(path_s), "of the critical path, that passes bytes over them"},
            {"path_share", CCL_I_AT(ccl_i_explain_t, cut_row.path_share), "of the run"},
            {"blocks", CCL_I_PART_OF(cut_blocks_record), "that send over these links"},
            {"parts", ROOT_OF(part_record, count_parts, part_at), "of the run"},
            {"links", ROOT_OF(cut_link_record, count_cut_links, cut_link_at)},
            {"folded", ROOT_OF(part_record, count_parts, folded_part_at), .hidden = true},
            {0}},
    .tall = true};
#undef AT
#define AT(member) CCL_I_AT(ccl_i_explain_t, member)
#define OWN "a program's own"
const ccl_i_result_t ccl_i_result_explain = {
    "explain", "ccllab explain", "why a run takes its time, and what would help",
    &(const ccl_i_described_t){
        .fields = (const ccl_i_field_t[]){
            {"input", AT(input), "file, or synthesizer"},
            {"topology", AT(topology)},
            CCL_I_PROFILE(AT(profile)),
            {"collective", AT(collective)},
            {"nranks", AT(nranks)},
            {"size_bytes", AT(size_bytes), "of the largest buffer of a GPU"},
            {"origin", AT(origin), "who made it, and how", .null = "nobody said"},
            {"proto", AT(proto), "protocol"},
            {"order", AT(order), "of transfers", .null = OWN, .words = ccl_i_order_words},
            {"allocation", AT(allocation), "of thread blocks", .null = OWN,
             .words = ccl_i_allocation_words},
            {"granularity", AT(granularity), "level of execution",
             .words = ccl_i_granularity_words},
            {"sharing", AT(sharing), "of links",
             .words = (const char *const[]){"fair", "exclusive", NULL}},
            {"batches", AT(batches), "micro-batches"},
            {"time_s", AT(time_s)},
            {"algbw_GBps", AT(algbw_GBps), "size / time"},
            {"busbw_GBps", AT(busbw_GBps), "as nccl-tests has it"},
            {"bound_s", AT(bound_s), "no schedule is faster"},
            {"gap", AT(gap), "time_s / bound_s", .null = "there is no bound"},
            CCL_I_NCCL_FIELDS(ccl_i_explain_t, nccl),
            {"changes", CCL_I_LIST_OF(change_record, count_changes, change_at),
             "that were tried, the best first"},
            {"slow_parts",
             CCL_I_LIST_OF(ccl_i_slow_record, ccl_i_explain_count_slow, ccl_i_explain_slow_at),
             "of the cluster, slower than others of their kind: what deciding parts cost first"},
            {"untried", AT(untried), "changes that were left out: the program is large"},
            {"path_transfers", AT(path_transfers), "on the critical path"},
            {"causes", CCL_I_LIST_OF(cause_record, count_cells, cause_at),
             "of the critical path's time"},
            {"waits", CCL_I_LIST_OF(wait_record, count_waits, wait_at), "the same time"},
            {"links", CCL_I_LIST_OF(resource_record, count_resources, resource_at),
             "on the critical path"},
            {"path", CCL_I_LIST_OF(segment_record, count_segments, segment_at),
             "every segment; with --path", .when = CCL_I_WHEN(ccl_i_explain_t, path)},
            {"cut", AT(cut), "the links of the bound", .null = "it has none", .of = &cut_record},
            {"thread_blocks", CCL_I_LIST_OF(block_record, count_blocks, block_at)},
            {"largest_causes", CCL_I_LIST_OF(cause_record, count_largest, largest_at),
             .hidden = true},
            {"some_waits", CCL_I_LIST_OF(wait_record, count_waits, some_wait_at), .hidden = true},
            {"first_links", CCL_I_LIST_OF(resource_record, count_first, resource_at),
             .hidden = true},
            {"segments", CCL_I_LIST_OF(segment_record, count_segments, segment_at), .hidden = true},
            {0}}}};
#undef AT

/* ---------------------------------------------------------------- tables */

#define TIMES(show, share_show)                                                                    \
    CCL_I_COLUMN("time_s", "time(us)", show), CCL_I_COLUMN("share", "share(%)", share_show),       \
        CCL_I_COLUMNS_END
static const ccl_i_column_t csv_changes[] = {
    CCL_I_COLUMN("what", "change"), CCL_I_COLUMN("of"),     CCL_I_COLUMN("with"),
    CCL_I_COLUMN("status"),         CCL_I_COLUMN("time_s"), CCL_I_COLUMN("change", "relative"),
    CCL_I_COLUMN("why", "reason"),  CCL_I_COLUMNS_END};
static const ccl_i_column_t csv_causes[] = {
    CCL_I_COLUMN("cause"), CCL_I_COLUMN("some_kind", "kind"), CCL_I_COLUMN("time_s"),
    CCL_I_COLUMN("share"), CCL_I_COLUMNS_END};
static const ccl_i_column_t text_causes[] = {CCL_I_COLUMN("in_words", "time goes to"),
                                             CCL_I_COLUMN("some_kind", "kind"),
                                             TIMES(ccl_i_us, ccl_i_show_percent)};
static const ccl_i_column_t csv_waits[] = {CCL_I_COLUMN("wait"), CCL_I_COLUMN("time_s"),
                                           CCL_I_COLUMN("share"), CCL_I_COLUMNS_END};
static const ccl_i_column_t text_waits[] = {CCL_I_COLUMN("in_words", "it had to be done because"),
                                            TIMES(ccl_i_us, ccl_i_show_percent)};
static const ccl_i_column_t csv_links[] = {CCL_I_COLUMN("link"),      CCL_I_COLUMN("bandwidth_Bps"),
                                           CCL_I_COLUMN("link_s"),    CCL_I_COLUMN("sharing_s"),
                                           CCL_I_COLUMN("latency_s"), CCL_I_COLUMN("share"),
                                           CCL_I_COLUMNS_END};
static const ccl_i_column_t text_links[] = {
    CCL_I_COLUMN("link"),
    CCL_I_COLUMN("bandwidth_Bps", "bandwidth(GB/s)", ccl_i_GBps),
    CCL_I_COLUMN("link_s", "bytes(us)", ccl_i_us),
    CCL_I_COLUMN("sharing_s", "sharing(us)", ccl_i_us),
    CCL_I_COLUMN("latency_s", "latency(us)", ccl_i_us),
    CCL_I_COLUMN("share", "share(%)", ccl_i_show_percent),
    CCL_I_COLUMNS_END};
static const ccl_i_column_t csv_path[] = {CCL_I_COLUMN("start_s"),
                                          CCL_I_COLUMN("end_s"),
                                          CCL_I_COLUMN("cause"),
                                          CCL_I_COLUMN("wait"),
                                          CCL_I_COLUMN("rank"),
                                          CCL_I_COLUMN("tb"),
                                          CCL_I_COLUMN("type", "primitive"),
                                          CCL_I_COLUMN("step"),
                                          CCL_I_COLUMN("batch"),
                                          CCL_I_COLUMN("slice"),
                                          CCL_I_COLUMN("peer"),
                                          CCL_I_COLUMN("link"),
                                          CCL_I_COLUMNS_END};
static const ccl_i_column_t text_path[] = {CCL_I_COLUMN("start_s", "from(us)", ccl_i_us),
                                           CCL_I_COLUMN("end_s", "to(us)", ccl_i_us),
                                           CCL_I_COLUMN("cause", .right = true),
                                           CCL_I_COLUMN("wait", "waited for by", .right = true),
                                           CCL_I_COLUMN("rank"),
                                           CCL_I_COLUMN("tb", "block"),
                                           CCL_I_COLUMN("type", "primitive", .right = true),
                                           CCL_I_COLUMN("step"),
                                           CCL_I_COLUMN("batch"),
                                           CCL_I_COLUMN("slice"),
                                           CCL_I_COLUMN("peer", "to rank"),
                                           CCL_I_COLUMN("link", .right = true),
                                           CCL_I_COLUMNS_END};
static const ccl_i_column_t csv_cut[] = {CCL_I_COLUMN("start_s"), CCL_I_COLUMN("busy"),
                                         CCL_I_COLUMN("cause"), CCL_I_COLUMNS_END};
static const ccl_i_column_t text_cut[] = {
    CCL_I_COLUMN("start_s", "from(us)", ccl_i_us),
    CCL_I_COLUMN("busy", "busy(%)", ccl_i_show_percent),
    CCL_I_COLUMN("in_words", "the critical path meanwhile", .right = true), CCL_I_COLUMNS_END};
static const ccl_i_column_t csv_blocks[] = {CCL_I_COLUMN("rank"),
                                            CCL_I_COLUMN("id"),
                                            CCL_I_COLUMN("channel"),
                                            CCL_I_COLUMN("send"),
                                            CCL_I_COLUMN("recv"),
                                            CCL_I_COLUMN("start_s"),
                                            CCL_I_COLUMN("done_s"),
                                            CCL_I_COLUMN("busy_s"),
                                            CCL_I_COLUMN("wait_data_s", "data_s"),
                                            CCL_I_COLUMN("wait_peer_s", "peer_s"),
                                            CCL_I_COLUMN("wait_slot_s", "slot_s"),
                                            CCL_I_COLUMN("path_s"),
                                            CCL_I_COLUMNS_END};

/** Where a table's rows stand, in the order of ccl_report_explanation_tables. */
static const struct {
    const char *csv_list, *text_list;
    const ccl_i_column_t *csv, *text;
    bool of_cut;
} tables[] = {{"changes", NULL, csv_changes, NULL, false},
              {"largest_causes", "largest_causes", csv_causes, text_causes, false},
              {"some_waits", "some_waits", csv_waits, text_waits, false},
              {"links", "first_links", csv_links, text_links, false},
              {"segments", "segments", csv_path, text_path, false},
              {"parts", "folded", csv_cut, text_cut, true},
              {"thread_blocks", NULL, csv_blocks, NULL, false},
              {"slow_parts", "slow_parts", ccl_i_slow_csv, ccl_i_slow_text, false}};

ccl_status_t ccl_i_explain_table(ccl_i_explain_t *root, size_t which, ccl_report_format_t format,
                                 ccl_text_t *out, ccl_error_t *err) {
    bool csv = format == CCL_REPORT_CSV;

    return ccl_i_rows_emit(tables[which].of_cut ? &cut_record : ccl_i_result_explain.root,
                           csv ? tables[which].csv_list : tables[which].text_list, root,
                           csv ? tables[which].csv : tables[which].text, format, out, err);
}
