/* A simulated run for people. */
#include "report/runs/simulation.h"
#include "report/runs/spread.h"

#include <stdlib.h>
#include <string.h>

/** Lists of a run's text: kinds of links; groups of links or thread blocks that look alike. */
typedef struct lists {
    const ccl_report_run_t *run;
    ccl_link_class_t *classes;  /* [nkinds] */
    ccl_i_keyed_t *order;       /* [n] what is grouped, as it is to stand */
    uint32_t n;
    const ccl_i_row_group_t *groups;
    uint32_t ngroups;
} lists_t;

typedef struct kind_row {
    const char *kind;
    char used[40];
    double bytes, min, mean, max;
} kind_row_t;

typedef struct busy_row {
    char link[300];
    uint32_t alike;
    const char *kind;
    double bandwidth_Bps;
    ccl_i_link_row_t use;
} busy_row_t;

typedef struct some_blocks {
    ccl_i_block_row_t of;
    uint32_t alike;
} some_blocks_t;

static uint64_t count_kinds(const void *lists) {
    return ((const lists_t *)lists)->run->topo->nkinds;
}

static const void *kind_at(const void *lists, uint64_t i, void *scratch) {
    const ccl_link_class_t *k = &((const lists_t *)lists)->classes[i];
    kind_row_t *out = scratch;

    *out = (kind_row_t){
        .kind = k->kind, .bytes = k->bytes, .min = k->min, .mean = k->mean, .max = k->max};
    snprintf(out->used, sizeof(out->used), "%u of %u", k->used, k->nlinks);
    return out;
}

static uint64_t count_groups(const void *lists) {
    return ((const lists_t *)lists)->ngroups;
}

static uint32_t first_of(const lists_t *lists, uint64_t group) {
    return lists->order[lists->groups[group].first].index;
}

static const void *busy_at(const void *lists, uint64_t i, void *scratch) {
    const lists_t *l = lists;
    const ccl_topology_t *topo = l->run->topo;
    uint32_t link = first_of(l, i);
    busy_row_t *out = scratch;

    *out = (busy_row_t){.alike = l->groups[i].n,
                        .kind = topo->kinds[topo->links[link].kind],
                        .bandwidth_Bps = topo->links[link].bandwidth_Bps,
                        .use = ccl_i_link_row(topo, l->run->result, link)};
    ccl_i_link_name(topo, link, out->link, sizeof(out->link));
    return out;
}

static const void *some_blocks_at(const void *lists, uint64_t i, void *scratch) {
    const lists_t *l = lists;
    uint32_t tb = first_of(l, i);
    some_blocks_t *out = scratch;

    *out = (some_blocks_t){ccl_i_block_row(&l->run->program->tbs[tb], &l->run->result->tbs[tb]),
                           l->groups[i].n};
    return out;
}

#define AT(member) CCL_I_AT(kind_row_t, member)
static const ccl_i_described_t kind_record = {.size = sizeof(kind_row_t),
                                              .fields =
                                                  (const ccl_i_field_t[]){{"links", AT(kind)},
                                                                          {"used", AT(used)},
                                                                          {"bytes", AT(bytes)},
                                                                          {"min", AT(min)},
                                                                          {"mean", AT(mean)},
                                                                          {"max", AT(max)},
                                                                          {0}}};
#undef AT
#define AT(member) CCL_I_AT(busy_row_t, member)
static const ccl_i_described_t busy_record = {
    .size = sizeof(busy_row_t),
    .fields = (const ccl_i_field_t[]){{"link", AT(link)},
                                      {"alike", AT(alike)},
                                      {"kind", AT(kind)},
                                      {"bandwidth_Bps", AT(bandwidth_Bps)},
                                      CCL_I_LINK_USE(busy_row_t, use.),
                                      {0}}};
#undef AT
static const ccl_i_described_t some_blocks_record = {
    .size = sizeof(some_blocks_t),
    .fields = (const ccl_i_field_t[]){
        CCL_I_BLOCK_FIELDS(some_blocks_t, of.), {"alike", CCL_I_AT(some_blocks_t, alike)}, {0}}};
static const ccl_i_described_t lists_record = {
    .fields = (const ccl_i_field_t[]){
        {"kinds", CCL_I_LIST_OF(kind_record, count_kinds, kind_at)},
        {"links", CCL_I_LIST_OF(busy_record, count_groups, busy_at)},
        {"thread_blocks", CCL_I_LIST_OF(some_blocks_record, count_groups, some_blocks_at)},
        {0}}};

static const char *show_GB(double bytes, char *out, size_t out_len) {
    return ccl_i_digits(bytes / 1e9, 4, out, out_len);
}

static const char *show_MB(double bytes, char *out, size_t out_len) {
    return ccl_i_digits(bytes / 1e6, 4, out, out_len);
}

static const ccl_i_column_t kind_columns[] = {
    CCL_I_COLUMN("links"),
    CCL_I_COLUMN("used", .right = true),
    CCL_I_COLUMN("bytes", "GB carried", show_GB),
    CCL_I_COLUMN("min", "least busy(%)", ccl_i_show_percent),
    CCL_I_COLUMN("mean", "mean(%)", ccl_i_show_percent),
    CCL_I_COLUMN("max", "busiest(%)", ccl_i_show_percent),
    CCL_I_COLUMNS_END};
static const ccl_i_column_t busy_columns[] = {
    CCL_I_COLUMN("link"),
    CCL_I_COLUMN("alike"),
    CCL_I_COLUMN("kind"),
    CCL_I_COLUMN("bandwidth_Bps", "bandwidth(GB/s)", ccl_i_GBps),
    CCL_I_COLUMN("bytes", "MB carried", show_MB),
    CCL_I_COLUMN("utilization", "busy(%)", ccl_i_show_percent),
    CCL_I_COLUMNS_END};
static const ccl_i_column_t some_blocks_columns[] = {
    CCL_I_COLUMN("rank"),
    CCL_I_COLUMN("id", "block"),
    CCL_I_COLUMN("alike"),
    CCL_I_COLUMN("channel"),
    CCL_I_COLUMN("send", "send to", .none = "-"),
    CCL_I_COLUMN("recv", "recv from", .none = "-"),
    CCL_I_COLUMN("done_s", "done(us)", ccl_i_us),
    CCL_I_COLUMN("busy_s", "busy(us)", ccl_i_us),
    CCL_I_COLUMN("wait_data_s", "waits: data(us)", ccl_i_us),
    CCL_I_COLUMN("wait_peer_s", "peer(us)", ccl_i_us),
    CCL_I_COLUMN("wait_slot_s", "slot(us)", ccl_i_us),
    CCL_I_COLUMNS_END};

static ccl_status_t text_kinds(const ccl_report_run_t *run, ccl_text_t *out, ccl_error_t *err) {
    const ccl_topology_t *topo = run->topo;
    lists_t lists = {.run = run};
    ccl_status_t status;

    lists.classes = calloc(topo->nkinds ? topo->nkinds : 1, sizeof(*lists.classes));
    if (!lists.classes)
        return ccl_fail_nomem(err);
    ccl_report_link_classes(topo, run->result, lists.classes);
    ccl_text_printf(out, "\nHow busy the links were (bytes / (bandwidth x time))\n");
    status =
        ccl_i_rows_emit(&lists_record, "kinds", &lists, kind_columns, CCL_REPORT_TEXT, out, err);
    free(lists.classes);
    return status;
}

static void link_key(const void *user, uint32_t l, char *out, size_t out_len) {
    const ccl_report_run_t *run = user;
    const ccl_link_t *link = &run->topo->links[l];
    const ccl_link_use_t *use = &run->result->links[l];
    char a[40];
    char b[40];

    snprintf(out, out_len, "%u %s %s %.1f", link->kind,
             ccl_i_GBps(link->bandwidth_Bps, a, sizeof(a)), ccl_i_us(use->bytes, b, sizeof(b)),
             100 * use->utilization);
}

static void block_key(const void *user, uint32_t i, char *out, size_t out_len) {
    const ccl_report_run_t *run = user;
    const ccl_tb_use_t *u = &run->result->tbs[i];
    char t[5][40];

    snprintf(out, out_len, "%s %s %s %s %s", ccl_i_us(u->done_s, t[0], sizeof(t[0])),
             ccl_i_us(u->busy_s, t[1], sizeof(t[1])), ccl_i_us(u->wait_data_s, t[2], sizeof(t[2])),
             ccl_i_us(u->wait_peer_s, t[3], sizeof(t[3])),
             ccl_i_us(u->wait_slot_s, t[4], sizeof(t[4])));
}

/** The first `rows` groups of a list, under a title. @param lists  its order is sorted here */
static ccl_status_t text_grouped(lists_t lists, const char *title, const char *list, uint32_t rows,
                                 ccl_text_t *out, ccl_error_t *err) {
    bool links = strcmp(list, "links") == 0;
    uint32_t most = rows < lists.n ? rows : lists.n;
    ccl_i_row_group_t *groups = calloc(most + (size_t)1, sizeof(*groups));
    ccl_status_t status;

    if (!groups)
        return ccl_fail_nomem(err);
    qsort(lists.order, lists.n, sizeof(*lists.order), ccl_i_by_key);
    lists.groups = groups;
    lists.ngroups =
        ccl_i_groups(lists.order, lists.n, links ? link_key : block_key, lists.run, groups, most);
    ccl_text_printf(out, "\n%s\n", title);
    status = ccl_i_rows_emit(&lists_record, list, &lists,
                             links ? busy_columns : some_blocks_columns, CCL_REPORT_TEXT, out, err);
    free(groups);
    return status;
}

static ccl_status_t text_busiest(const ccl_report_run_t *run, uint32_t rows, ccl_text_t *out,
                                 ccl_error_t *err) {
    const ccl_sim_result_t *r = run->result;
    ccl_i_keyed_t *order = calloc(r->nlinks ? r->nlinks : 1, sizeof(*order));
    ccl_status_t status;
    uint32_t used = 0;

    if (!order)
        return ccl_fail_nomem(err);
    for (uint32_t l = 0; l < r->nlinks; l++) {
        if (r->links[l].bytes > 0)
            order[used++] = (ccl_i_keyed_t){r->links[l].utilization, l};
    }
    status =
        text_grouped((lists_t){.run = run, .order = order, .n = used},
                     "Busiest links (alike: how many stand for this row)", "links", rows, out, err);
    free(order);
    return status;
}

/** The blocks that finished last, or (idle) that waited longest. */
static ccl_status_t text_blocks(const ccl_report_run_t *run, bool idle, uint32_t rows,
                                ccl_text_t *out, ccl_error_t *err) {
    const ccl_sim_result_t *r = run->result;
    ccl_i_keyed_t *order = calloc(r->ntbs ? r->ntbs : 1, sizeof(*order));
    ccl_status_t status;
    uint32_t n = 0;

    if (!order)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < r->ntbs; i++) {
        const ccl_tb_use_t *u = &r->tbs[i];
        double waits = u->wait_data_s + u->wait_peer_s + u->wait_slot_s;

        if (!idle || waits > 0)
            order[n++] = (ccl_i_keyed_t){idle ? waits : u->done_s, i};
    }
    status = text_grouped((lists_t){.run = run, .order = order, .n = n},
                          idle ? "Thread blocks that waited longest"
                               : "Thread blocks that finished last",
                          "thread_blocks", rows, out, err);
    free(order);
    return status;
}

static const char *wait_text(ccl_wait_t wait) {
    static const char *const texts[] = {"data", "a free slot", "a step", "an earlier stage"};

    return (size_t)wait < CCL_ARRAY_LEN(texts) ? texts[wait] : ccl_wait_name(wait);
}

static ccl_status_t text_deadlock(const ccl_report_run_t *run, ccl_text_t *out, ccl_error_t *err) {
    const ccl_deadlock_t *d = run->result->deadlock;

    ccl_text_printf(out,
                    "deadlock: %s cannot finish at %s level with %u micro-batch%s: %u thread "
                    "block%s stuck\n",
                    run->input, ccl_i_granularity_name(run->options->granularity),
                    run->result->batches, run->result->batches == 1 ? "" : "es", d->stuck,
                    d->stuck == 1 ? " is" : "s are");
    if (d->nwaits > 0)
        ccl_text_printf(out, "who waits for whom:\n");
    for (uint32_t i = 0; i < d->nwaits && i < CCL_ARRAY_LEN(d->waits); i++) {
        const ccl_deadlock_wait_t *w = &d->waits[i];

        ccl_text_printf(out, "  rank %u, thread block %u, step %u, batch %u, slice %u waits for %s",
                        w->rank, w->tb, w->step, w->batch, w->slice, wait_text(w->wait));
        if (w->on_rank == CCL_NONE)
            ccl_text_printf(out, " that nobody ever gives\n");
        else if (w->on_tb == CCL_NONE)
            ccl_text_printf(out, " of rank %u\n", w->on_rank);
        else
            ccl_text_printf(out, " of rank %u, thread block %u\n", w->on_rank, w->on_tb);
    }
    if (d->nwaits > CCL_ARRAY_LEN(d->waits))
        ccl_text_printf(out, "  and %u more\n", d->nwaits - (uint32_t)CCL_ARRAY_LEN(d->waits));
    ccl_i_text_cause(&d->cause, out);
    if (run->options->granularity == CCL_GRANULARITY_TASK)
        ccl_text_printf(out, "at task level a block that receives and sends needs a slot for every "
                             "micro-batch: fewer batches, or lower the schedule with --no-fuse\n");
    return ccl_i_text_status(out, err);
}

/** "682.7K": four digits are enough to read. */
static const char *short_bytes(double bytes, char *out, size_t out_len) {
    static const char suffixes[] = {'\0', 'K', 'M', 'G', 'T'};
    size_t k = 0;

    while (bytes >= 1024 && k + 1 < CCL_ARRAY_LEN(suffixes)) {
        bytes /= 1024;
        k++;
    }
    char digits[32];

    snprintf(out, out_len, "%s%c", ccl_i_digits(bytes, 4, digits, sizeof(digits)), suffixes[k]);
    return out;
}

static void text_usage(const ccl_report_run_t *run, ccl_text_t *out) {
    ccl_sim_usage_t usage;
    char mean[24];
    char most[24];

    ccl_sim_usage(run->program, run->result, &usage);
    ccl_text_printf(out,
                    "  %u thread blocks on the fullest GPU, idle for %s%% of their lives on "
                    "average, the idlest for %s%%\n",
                    usage.thread_blocks, ccl_i_percent(usage.mean_idle_share, mean, sizeof(mean)),
                    ccl_i_percent(usage.max_idle_share, most, sizeof(most)));
    if (run->way)
        ccl_text_printf(out, "  lowered in %s order, thread blocks by %s\n",
                        ccl_i_order_name(run->way->order),
                        ccl_i_allocation_name(run->way->allocation));
}

static void text_constants(const ccl_report_run_t *run, ccl_text_t *out) {
    char with[300];

    ccl_text_printf(out, "  with   %s\n", ccl_i_constants_text(run->topo, with, sizeof(with)));
}

/** A program's time beside its bound, and what it was made of. */
static void text_program(const ccl_report_run_t *run, ccl_text_t *out) {
    const ccl_sim_result_t *r = run->result;
    char a[64];
    char b[64];

    ccl_text_printf(out, "%s: %s of %s on %s (%u GPUs)\n", run->input, run->program->coll->name,
                    ccl_format_bytes(run->options->size_bytes, a, sizeof(a)), run->topo->name,
                    run->topo->nranks);
    text_constants(run, out);
    if (run->program->origin[0])
        ccl_text_printf(out, "  origin %s\n", run->program->origin);
    ccl_text_printf(out, "  time   %s us\n", ccl_i_us(r->time_s, a, sizeof(a)));
    if (run->bound)
        ccl_text_printf(out, "  bound  %s us (%s); the time is %s of it\n",
                        ccl_i_us(run->bound->time_s, a, sizeof(a)),
                        ccl_bound_by_name(run->bound->by),
                        ccl_i_gap_text(r->time_s, run->bound->time_s, b, sizeof(b)));
    ccl_text_printf(out, "  algbw  %s GB/s (size / time)\n",
                    ccl_i_GBps(r->algbw_GBps * 1e9, a, sizeof(a)));
    ccl_text_printf(out, "  busbw  %s GB/s (algbw x %.4g)\n",
                    ccl_i_GBps(r->busbw_GBps * 1e9, a, sizeof(a)),
                    ccl_collective_busbw_factor(run->program->coll->kind, run->program->nranks));
    ccl_text_printf(out, "  %u micro-batch%s of %s a chunk, %s level, %s sharing, %s\n", r->batches,
                    r->batches == 1 ? "" : "es", short_bytes(r->chunk_bytes, b, sizeof(b)),
                    ccl_i_granularity_name(run->options->granularity),
                    ccl_i_sharing_name(run->options->sharing), run->program->proto);
    ccl_text_printf(out, "  %s transfers, %s slices, %u thread blocks",
                    ccl_i_count(r->transfers, a, sizeof(a)), ccl_i_count(r->flows, b, sizeof(b)),
                    r->ntbs);
    if (r->skipped_batches)
        ccl_text_printf(out, ", %llu micro-batches passed over in steady state",
                        (unsigned long long)r->skipped_batches);
    ccl_text_printf(out, "\n");
    text_usage(run, out);
    if (!run->verdict)
        ccl_text_printf(out, "  not verified\n");
}

/** A plan of epochs. */
static void text_epochs(const ccl_report_run_t *run, ccl_text_t *out) {
    const ccl_sim_result_t *r = run->result;
    char a[64];

    ccl_text_printf(out, "%s: %u epoch flows, %s of %s, on %s (%u GPUs)\n", run->input,
                    run->flows->nflows, run->epochs->coll->name,
                    ccl_format_bytes(r->size_bytes, a, sizeof(a)), run->topo->name,
                    run->topo->nranks);
    text_constants(run, out);
    ccl_text_printf(out, "  time   %s us", ccl_i_us(r->time_s, a, sizeof(a)));
    ccl_text_printf(out, " (last arrival; the plan claims %s us)\n",
                    ccl_i_us(run->epochs->finish_s, a, sizeof(a)));
    ccl_text_printf(out, "  algbw  %s GB/s (size / time)\n",
                    ccl_i_GBps(r->algbw_GBps * 1e9, a, sizeof(a)));
    ccl_text_printf(out, "  %llu transmissions, each link one by one in the plan's order, %s\n",
                    (unsigned long long)r->flows,
                    run->unicast ? "switches do not copy" : "switches copy");
}

ccl_status_t ccl_i_run_text(const ccl_report_run_t *run, uint32_t rows, ccl_text_t *out,
                            ccl_error_t *err) {
    const ccl_sim_result_t *r = run->result;
    char a[64];

    if (!r) {
        ccl_text_printf(out, "refused: %s is invalid: %s: %s\n", run->input,
                        run->verdict->fault.kind, run->verdict->fault.text);
        return ccl_i_text_status(out, err);
    }
    if (r->deadlock)
        return text_deadlock(run, out, err);
    if (run->program) {
        text_program(run, out);
        CCL_TRY(ccl_i_run_spread_text(run, out, err));
    } else if (run->epochs) {
        text_epochs(run, out);
    } else {
        ccl_text_printf(out, "%s: %u flows on %s (%u GPUs), %s sharing\n", run->input,
                        run->flows->nflows, run->topo->name, run->topo->nranks,
                        ccl_i_sharing_name(run->options->sharing));
        text_constants(run, out);
        ccl_text_printf(out, "  time   %s us (last arrival)\n", ccl_i_us(r->time_s, a, sizeof(a)));
    }
    if (r->links) {
        CCL_TRY(text_kinds(run, out, err));
        CCL_TRY(text_busiest(run, rows, out, err));
    }
    if (run->program && r->tbs) {
        CCL_TRY(text_blocks(run, false, rows, out, err));
        CCL_TRY(text_blocks(run, true, rows, out, err));
    }
    return ccl_i_text_status(out, err);
}
