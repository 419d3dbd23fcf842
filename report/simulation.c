/* One simulated run: the time, how busy every link was, what every thread block waited for. */
#include "report/rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const ccl_report_simulation_tables[] = {"summary", "links", "thread_blocks", "flows",
                                                    NULL};

void ccl_report_link_classes(const ccl_topology_t *topo, const ccl_sim_result_t *result,
                             ccl_link_class_t *out) {
    memset(out, 0, topo->nkinds * sizeof(*out));
    for (uint32_t k = 0; k < topo->nkinds; k++)
        out[k].kind = topo->kinds[k];
    for (uint32_t l = 0; l < topo->nlinks; l++) {
        ccl_link_class_t *c = &out[topo->links[l].kind];
        double u = result->links[l].utilization;

        c->min = c->nlinks == 0 ? u : fmin(c->min, u);
        c->max = c->nlinks == 0 ? u : fmax(c->max, u);
        c->nlinks++;
        c->used += result->links[l].bytes > 0;
        c->bytes += result->links[l].bytes;
        c->mean += u;
    }
    for (uint32_t k = 0; k < topo->nkinds; k++) {
        if (out[k].nlinks > 0)
            out[k].mean /= out[k].nlinks;
    }
}

static bool finished(const ccl_report_run_t *run) {
    return run->result && !run->result->deadlock;
}

static const char *collective_name(const ccl_report_run_t *run) {
    return run->program ? run->program->coll->name : NULL;
}

/* ---------------------------------------------------------------- rows */

typedef struct run_row {
    const ccl_report_run_t *of;
    ccl_i_link_rows_t links;
    const char *input, *topology, *collective, *proto, *sharing;
    uint32_t nranks;
    bool is_program, is_plan, done, done_program, deadlocked;
    const bool *valid; /* NULL: not verified */
    const void *fault, *deadlock;
    ccl_i_fault_row_t fault_row;
    ccl_i_deadlock_row_t deadlock_row;
    ccl_i_way_row_t way;
    ccl_i_usage_row_t usage;
    double size_bytes, claimed_s, time_s, bound_s, gap, algbw_GBps, busbw_GBps, batches,
        chunk_bytes;
    uint64_t transfers, flows, events, rate_changes, skipped_batches;
} run_row_t;

typedef struct flow_row {
    uint32_t id, src, dst;
    double bytes, done_s;
} flow_row_t;

static uint64_t count_blocks(const void *root) {
    const run_row_t *run = root;

    return run->is_program && run->done && run->of->result->tbs ? run->of->result->ntbs : 0;
}

static const void *block_at(const void *root, uint64_t i, void *scratch) {
    const run_row_t *run = root;
    ccl_i_block_row_t *out = scratch;

    *out = ccl_i_block_row(&run->of->program->tbs[i], &run->of->result->tbs[i]);
    return out;
}

/** Flow lists: when each flow arrived. */
static uint64_t count_flows(const void *root) {
    const run_row_t *run = root;

    return run->of->flows && run->done && run->of->result->flow_done_s ? run->of->flows->nflows : 0;
}

static const void *flow_at(const void *root, uint64_t i, void *scratch) {
    const ccl_report_run_t *run = ((const run_row_t *)root)->of;
    flow_row_t *out = scratch;

    *out = (flow_row_t){(uint32_t)i, run->flows->src[i], run->flows->dst[i], run->flows->bytes[i],
                        run->result->flow_done_s[i]};
    return out;
}

static const char *sharing_name(const ccl_report_run_t *run) {
    if (run->epochs)
        return run->unicast ? "fifo" : "fifo-multicast";
    return ccl_i_sharing_name(run->options->sharing);
}

/** What the run itself gave. */
static void row_of_result(const ccl_report_run_t *run, run_row_t *out) {
    const ccl_sim_result_t *r = run->result;
    ccl_sim_usage_t usage = {0};

    out->batches = out->chunk_bytes = NAN;
    out->time_s = out->gap = out->algbw_GBps = out->busbw_GBps = NAN;
    out->transfers = out->flows = UINT64_MAX;
    if (r && run->program) {
        out->batches = r->batches;
        out->chunk_bytes = r->chunk_bytes;
        out->deadlock = ccl_i_deadlock_row(r->deadlock, &out->deadlock_row);
    }
    out->deadlocked = r && r->deadlock;
    if (out->done) {
        out->links = (ccl_i_link_rows_t){run->topo, r};
        out->time_s = r->time_s;
        out->gap = ccl_i_gap(r->time_s, out->bound_s);
        out->transfers = r->transfers;
        out->flows = r->flows;
        out->events = r->events;
        out->rate_changes = r->rate_changes;
        out->skipped_batches = r->skipped_batches;
    }
    if (out->done_program) {
        out->algbw_GBps = r->algbw_GBps;
        out->busbw_GBps = r->busbw_GBps;
        ccl_sim_usage(run->program, r, &usage);
    }
    out->usage = ccl_i_usage_row(&usage, out->done_program);
}

static void row_of(const ccl_report_run_t *run, run_row_t *out) {
    const ccl_way_t own = {CCL_ORDER_STEP, CCL_ALLOCATE_CONNECTION, run->options->granularity};
    *out = (run_row_t){.of = run,
                       .input = run->input,
                       .topology = run->topo->name,
                       .collective = collective_name(run),
                       .proto = run->program ? run->program->proto : NULL,
                       .sharing = sharing_name(run),
                       .nranks = run->topo->nranks,
                       .is_program = run->program != NULL,
                       .is_plan = run->epochs != NULL,
                       .done = finished(run),
                       .done_program = finished(run) && run->program,
                       .valid = run->verdict ? &run->verdict->valid : NULL,
                       .way = ccl_i_way_row(run->way ? run->way : &own, run->way != NULL),
                       .size_bytes = run->options->size_bytes,
                       .claimed_s = run->epochs ? run->epochs->finish_s : NAN,
                       .bound_s = run->bound ? run->bound->time_s : NAN};

    out->fault = ccl_i_fault_row(run->verdict, &out->fault_row);
    row_of_result(run, out);
}

/* ---------------------------------------------------------------- what they hold */

static const ccl_i_described_t block_record = {
    .size = sizeof(ccl_i_block_row_t),
    .fields = (const ccl_i_field_t[]){CCL_I_BLOCK_FIELDS(ccl_i_block_row_t, ), {0}}};

#define AT(member) CCL_I_AT(flow_row_t, member)
static const ccl_i_described_t flow_record = {.size = sizeof(flow_row_t),
                                              .fields =
                                                  (const ccl_i_field_t[]){{"id", AT(id)},
                                                                          {"src", AT(src)},
                                                                          {"dst", AT(dst)},
                                                                          {"bytes", AT(bytes)},
                                                                          {"done_s", AT(done_s)},
                                                                          {0}}};
#undef AT

#define AT(member) CCL_I_AT(run_row_t, member)
#define PROGRAM .when = CCL_I_WHEN(run_row_t, is_program)
#define PLAN .when = CCL_I_WHEN(run_row_t, is_plan)
#define DONE .when = CCL_I_WHEN(run_row_t, done)
const ccl_i_result_t ccl_i_result_simulate = {
    "simulate", "ccllab simulate", "one simulated run of a program or of flows",
    &(const ccl_i_described_t){
        .size = sizeof(run_row_t),
        .fields = (const ccl_i_field_t[]){
            {"input", AT(input), "file"},
            {"topology", AT(topology)},
            {"collective", AT(collective), .null = "of flows"},
            {"nranks", AT(nranks)},
            {"valid", AT(valid), "proven", .null = "not verified", PROGRAM},
            {"fault", AT(fault), .null = "there is none", PROGRAM, .of = &ccl_i_fault_record},
            {"proto", AT(proto), "protocol", PROGRAM},
            {"size_bytes", AT(size_bytes), "of the largest buffer of a GPU", PROGRAM},
            {"order", AT(way.order), "of transfers", .null = "a program's own",
             .words = ccl_i_order_words, PROGRAM},
            {"allocation", AT(way.allocation), "of thread blocks", .null = "a program's own",
             .words = ccl_i_allocation_words, PROGRAM},
            {"granularity", AT(way.granularity), "level of execution",
             .words = ccl_i_granularity_words, PROGRAM},
            {"sharing", AT(sharing), "of links",
             .words = (const char *const[]){"fair", "exclusive", "fifo", "fifo-multicast", NULL}},
            {"size_bytes", AT(size_bytes), PLAN},
            {"claimed_s", AT(claimed_s), "that the plan of epoch flows claims", PLAN},
            {"time_s", AT(time_s), .null = CCL_I_NO_RUN},
            {"bound_s", AT(bound_s), "no schedule is faster", .null = "there is none", PROGRAM},
            {"gap", AT(gap), "time_s / bound_s", .null = CCL_I_NO_RUN, PROGRAM},
            {"algbw_GBps", AT(algbw_GBps), "size / time", .null = CCL_I_NO_RUN, PROGRAM},
            {"busbw_GBps", AT(busbw_GBps), "as nccl-tests has it", .null = CCL_I_NO_RUN, PROGRAM},
            {"batches", AT(batches), "micro-batches", .null = "it was refused", .whole = true,
             PROGRAM},
            {"chunk_bytes", AT(chunk_bytes), "of a micro-batch", .null = "it was refused", PROGRAM},
            {"transfers", AT(transfers), .null = CCL_I_NO_RUN},
            {"flows", AT(flows), "slices that links carried", .null = CCL_I_NO_RUN},
            {"events", AT(events), "that were simulated", DONE},
            {"rate_changes", AT(rate_changes), "of flows", DONE},
            {"skipped_batches", AT(skipped_batches), "passed over in steady state",
             .when = CCL_I_WHEN(run_row_t, done_program)},
            {"thread_blocks_per_gpu", AT(usage.thread_blocks), "on the fullest GPU",
             .null = CCL_I_NO_RUN, .whole = true, PROGRAM},
            {"comm_share", AT(usage.comm_share), "of the lives of blocks, in which they move data",
             .null = CCL_I_NO_RUN, PROGRAM},
            {"mean_idle_share", AT(usage.mean_idle_share), "of the lives of blocks",
             .null = CCL_I_NO_RUN, PROGRAM},
            {"max_idle_share", AT(usage.max_idle_share), "of the idlest block",
             .null = CCL_I_NO_RUN, PROGRAM},
            {"link_utilization", AT(usage.link_utilization), "mean over the links that carry data",
             .null = CCL_I_NO_RUN, PROGRAM},
            {"deadlock", AT(deadlock), .null = "there is none", PROGRAM,
             .of = &ccl_i_deadlock_record},
            {"links",
             CCL_I_LIST_IN(run_row_t, links, ccl_i_link_record, ccl_i_count_links, ccl_i_link_at)},
            {"thread_blocks", CCL_I_LIST_OF(block_record, count_blocks, block_at), PROGRAM},
            {"flow_list", CCL_I_LIST_OF(flow_record, count_flows, flow_at), .hidden = true},
            {"deadlocked", AT(deadlocked), .hidden = true},
            {"skipped", AT(skipped_batches), .hidden = true, DONE},
            {0}}}};
#undef AT

static const ccl_i_column_t summary_columns[] = {CCL_I_COLUMN("input"),
                                                 CCL_I_COLUMN("topology"),
                                                 CCL_I_COLUMN("collective"),
                                                 CCL_I_COLUMN("nranks"),
                                                 CCL_I_COLUMN("size_bytes"),
                                                 CCL_I_COLUMN("batches"),
                                                 CCL_I_COLUMN("granularity"),
                                                 CCL_I_COLUMN("sharing"),
                                                 CCL_I_COLUMN("valid"),
                                                 CCL_I_COLUMN("deadlocked", "deadlock"),
                                                 CCL_I_COLUMN("time_s"),
                                                 CCL_I_COLUMN("algbw_GBps"),
                                                 CCL_I_COLUMN("busbw_GBps"),
                                                 CCL_I_COLUMN("transfers"),
                                                 CCL_I_COLUMN("flows"),
                                                 CCL_I_COLUMN("skipped", "skipped_batches"),
                                                 CCL_I_COLUMN("bound_s"),
                                                 CCL_I_COLUMN("gap"),
                                                 CCL_I_COLUMNS_END};

/* ---------------------------------------------------------------- text */

static ccl_status_t text_classes(const ccl_report_run_t *run, ccl_text_t *out, ccl_error_t *err) {
    const ccl_topology_t *topo = run->topo;
    ccl_link_class_t *classes = calloc(topo->nkinds ? topo->nkinds : 1, sizeof(*classes));
    ccl_table_t *table = ccl_table_create();
    ccl_status_t status = CCL_ERR_NOMEM;

    if (classes && table) {
        ccl_report_link_classes(topo, run->result, classes);
        ccl_table_column(table, "links", CCL_ALIGN_LEFT);
        ccl_table_column(table, "used", CCL_ALIGN_RIGHT);
        ccl_table_column(table, "GB carried", CCL_ALIGN_RIGHT);
        ccl_table_column(table, "least busy(%)", CCL_ALIGN_RIGHT);
        ccl_table_column(table, "mean(%)", CCL_ALIGN_RIGHT);
        ccl_table_column(table, "busiest(%)", CCL_ALIGN_RIGHT);
        for (uint32_t k = 0; k < topo->nkinds; k++) {
            ccl_table_row(table);
            ccl_table_cell(table, "%s", classes[k].kind);
            ccl_table_cell(table, "%u of %u", classes[k].used, classes[k].nlinks);
            ccl_table_cell(table, "%.4g", classes[k].bytes / 1e9);
            ccl_table_cell(table, "%.1f", 100 * classes[k].min);
            ccl_table_cell(table, "%.1f", 100 * classes[k].mean);
            ccl_table_cell(table, "%.1f", 100 * classes[k].max);
        }
        ccl_text_printf(out, "\nHow busy the links were (bytes / (bandwidth x time))\n");
        status = ccl_i_table_emit(table, CCL_REPORT_TEXT, out, err);
    } else {
        ccl_fail_nomem(err);
    }
    ccl_table_destroy(table);
    free(classes);
    return status;
}

/** What a link's row shows but for its name: equal ones stand in one row. */
static void link_key(const ccl_report_run_t *run, uint32_t l, char *out, size_t out_len) {
    const ccl_link_t *link = &run->topo->links[l];
    const ccl_link_use_t *use = &run->result->links[l];
    char a[40];
    char b[40];

    snprintf(out, out_len, "%u %s %s %.1f", link->kind,
             ccl_i_GBps(link->bandwidth_Bps, a, sizeof(a)), ccl_i_us(use->bytes, b, sizeof(b)),
             100 * use->utilization);
}

static void link_row(const ccl_report_run_t *run, uint32_t l, uint32_t alike, ccl_table_t *table) {
    char text[300];

    ccl_table_row(table);
    ccl_table_cell(table, "%s", ccl_i_link_name(run->topo, l, text, sizeof(text)));
    ccl_table_cell(table, "%u", alike);
    ccl_table_cell(table, "%s", run->topo->kinds[run->topo->links[l].kind]);
    ccl_table_cell(table, "%s", ccl_i_GBps(run->topo->links[l].bandwidth_Bps, text, sizeof(text)));
    ccl_table_cell(table, "%.4g", run->result->links[l].bytes / 1e6);
    ccl_table_cell(table, "%.1f", 100 * run->result->links[l].utilization);
}

static void block_key(const ccl_report_run_t *run, uint32_t i, char *out, size_t out_len) {
    const ccl_tb_use_t *u = &run->result->tbs[i];
    char t[5][40];

    snprintf(out, out_len, "%s %s %s %s %s", ccl_i_us(u->done_s, t[0], sizeof(t[0])),
             ccl_i_us(u->busy_s, t[1], sizeof(t[1])), ccl_i_us(u->wait_data_s, t[2], sizeof(t[2])),
             ccl_i_us(u->wait_peer_s, t[3], sizeof(t[3])),
             ccl_i_us(u->wait_slot_s, t[4], sizeof(t[4])));
}

static void block_row(const ccl_report_run_t *run, uint32_t i, uint32_t alike, ccl_table_t *table) {
    const ccl_tb_t *tb = &run->program->tbs[i];
    const ccl_tb_use_t *u = &run->result->tbs[i];
    const double times[] = {u->done_s, u->busy_s, u->wait_data_s, u->wait_peer_s, u->wait_slot_s};
    const uint32_t peers[] = {tb->send_peer, tb->recv_peer};
    char text[64];

    ccl_table_row(table);
    ccl_table_cell(table, "%u", tb->rank);
    ccl_table_cell(table, "%u", tb->id);
    ccl_table_cell(table, "%u", alike);
    ccl_table_cell(table, "%u", tb->channel);
    for (size_t k = 0; k < CCL_ARRAY_LEN(peers); k++)
        ccl_table_cell(table, "%s",
                       peers[k] == CCL_NONE ? "-" : ccl_i_index(peers[k], text, sizeof(text)));
    for (size_t k = 0; k < CCL_ARRAY_LEN(times); k++)
        ccl_table_cell(table, "%s", ccl_i_us(times[k], text, sizeof(text)));
}

/** First rows of a sorted list, neighbours that look alike in one row. */
static void grouped(const ccl_report_run_t *run, const ccl_i_keyed_t *order, uint32_t n,
                    uint32_t rows, void (*key)(const ccl_report_run_t *, uint32_t, char *, size_t),
                    void (*row)(const ccl_report_run_t *, uint32_t, uint32_t, ccl_table_t *),
                    ccl_table_t *table) {
    char have[256] = "";
    char next[256];
    uint32_t first = 0;

    for (uint32_t i = 0; rows > 0 && i <= n; i++) {
        next[0] = '\0';
        if (i < n)
            key(run, order[i].index, next, sizeof(next));
        if (i > 0 && strcmp(have, next) != 0) {
            row(run, order[first].index, i - first, table);
            first = i;
            rows--;
        }
        memcpy(have, next, sizeof(have));
    }
}

static ccl_status_t text_busiest(const ccl_report_run_t *run, uint32_t rows, ccl_text_t *out,
                                 ccl_error_t *err) {
    const ccl_sim_result_t *r = run->result;
    ccl_i_keyed_t *order = calloc(r->nlinks ? r->nlinks : 1, sizeof(*order));
    ccl_table_t *table = ccl_table_create();
    ccl_status_t status = CCL_ERR_NOMEM;
    uint32_t used = 0;

    if (order && table) {
        for (uint32_t l = 0; l < r->nlinks; l++) {
            if (r->links[l].bytes > 0)
                order[used++] = (ccl_i_keyed_t){r->links[l].utilization, l};
        }
        qsort(order, used, sizeof(*order), ccl_i_by_key);
        ccl_table_column(table, "link", CCL_ALIGN_LEFT);
        ccl_table_column(table, "alike", CCL_ALIGN_RIGHT);
        ccl_table_column(table, "kind", CCL_ALIGN_LEFT);
        ccl_table_column(table, "bandwidth(GB/s)", CCL_ALIGN_RIGHT);
        ccl_table_column(table, "MB carried", CCL_ALIGN_RIGHT);
        ccl_table_column(table, "busy(%)", CCL_ALIGN_RIGHT);
        grouped(run, order, used, rows, link_key, link_row, table);
        ccl_text_printf(out, "\nBusiest links (alike: how many stand for this row)\n");
        status = ccl_i_table_emit(table, CCL_REPORT_TEXT, out, err);
    } else {
        ccl_fail_nomem(err);
    }
    ccl_table_destroy(table);
    free(order);
    return status;
}

/** The blocks that finished last, or (idle) that waited longest. */
static ccl_status_t text_blocks(const ccl_report_run_t *run, bool idle, uint32_t rows,
                                ccl_text_t *out, ccl_error_t *err) {
    static const char *const headers[] = {
        "rank",     "block",    "alike",           "channel",  "send to", "recv from",
        "done(us)", "busy(us)", "waits: data(us)", "peer(us)", "slot(us)"};
    const ccl_sim_result_t *r = run->result;
    ccl_i_keyed_t *order = calloc(r->ntbs ? r->ntbs : 1, sizeof(*order));
    ccl_table_t *table = ccl_table_create();
    ccl_status_t status = CCL_ERR_NOMEM;
    uint32_t n = 0;

    if (order && table) {
        for (uint32_t i = 0; i < r->ntbs; i++) {
            const ccl_tb_use_t *u = &r->tbs[i];
            double waits = u->wait_data_s + u->wait_peer_s + u->wait_slot_s;

            if (!idle || waits > 0)
                order[n++] = (ccl_i_keyed_t){idle ? waits : u->done_s, i};
        }
        qsort(order, n, sizeof(*order), ccl_i_by_key);
        ccl_i_table_columns(table, headers, CCL_ARRAY_LEN(headers), 0);
        grouped(run, order, n, rows, block_key, block_row, table);
        ccl_text_printf(out, "\n%s\n",
                        idle ? "Thread blocks that waited longest"
                             : "Thread blocks that finished last");
        status = ccl_i_table_emit(table, CCL_REPORT_TEXT, out, err);
    } else {
        ccl_fail_nomem(err);
    }
    ccl_table_destroy(table);
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
    snprintf(out, out_len, "%.4g%c", bytes, suffixes[k]);
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

static ccl_status_t run_text(const ccl_report_run_t *run, uint32_t rows, ccl_text_t *out,
                             ccl_error_t *err) {
    const ccl_sim_result_t *r = run->result;
    char a[64];
    char b[64];

    if (!r) {
        ccl_text_printf(out, "refused: %s is invalid: %s: %s\n", run->input,
                        run->verdict->fault.kind, run->verdict->fault.text);
        return ccl_i_text_status(out, err);
    }
    if (r->deadlock)
        return text_deadlock(run, out, err);
    if (run->program) {
        ccl_text_printf(out, "%s: %s of %s on %s (%u GPUs)\n", run->input, collective_name(run),
                        ccl_format_bytes(run->options->size_bytes, a, sizeof(a)), run->topo->name,
                        run->topo->nranks);
        ccl_text_printf(out, "  time   %s us\n", ccl_i_us(r->time_s, a, sizeof(a)));
        if (run->bound)
            ccl_text_printf(out, "  bound  %s us (%s); the time is %s of it\n",
                            ccl_i_us(run->bound->time_s, a, sizeof(a)),
                            run->bound->bandwidth_s > run->bound->latency.latency_s ? "bandwidth"
                                                                                    : "latency",
                            ccl_i_gap_text(r->time_s, run->bound->time_s, b, sizeof(b)));
        ccl_text_printf(out, "  algbw  %s GB/s (size / time)\n",
                        ccl_i_GBps(r->algbw_GBps * 1e9, a, sizeof(a)));
        ccl_text_printf(
            out, "  busbw  %s GB/s (algbw x %.4g)\n", ccl_i_GBps(r->busbw_GBps * 1e9, a, sizeof(a)),
            ccl_collective_busbw_factor(run->program->coll->kind, run->program->nranks));
        ccl_text_printf(out, "  %u micro-batch%s of %s a chunk, %s level, %s sharing, %s\n",
                        r->batches, r->batches == 1 ? "" : "es",
                        short_bytes(r->chunk_bytes, b, sizeof(b)),
                        ccl_i_granularity_name(run->options->granularity),
                        ccl_i_sharing_name(run->options->sharing), run->program->proto);
        ccl_text_printf(out, "  %llu transfers, %llu slices, %u thread blocks",
                        (unsigned long long)r->transfers, (unsigned long long)r->flows, r->ntbs);
        if (r->skipped_batches)
            ccl_text_printf(out, ", %llu micro-batches passed over in steady state",
                            (unsigned long long)r->skipped_batches);
        ccl_text_printf(out, "\n");
        text_usage(run, out);
        if (!run->verdict)
            ccl_text_printf(out, "  not verified\n");
    } else if (run->epochs) {
        ccl_text_printf(out, "%s: %u epoch flows, %s of %s, on %s (%u GPUs)\n", run->input,
                        run->flows->nflows, run->epochs->coll->name,
                        ccl_format_bytes(r->size_bytes, a, sizeof(a)), run->topo->name,
                        run->topo->nranks);
        ccl_text_printf(out, "  time   %s us", ccl_i_us(r->time_s, a, sizeof(a)));
        ccl_text_printf(out, " (last arrival; the plan claims %s us)\n",
                        ccl_i_us(run->epochs->finish_s, a, sizeof(a)));
        ccl_text_printf(out, "  algbw  %s GB/s (size / time)\n",
                        ccl_i_GBps(r->algbw_GBps * 1e9, a, sizeof(a)));
        ccl_text_printf(out, "  %llu transmissions, each link one by one in the plan's order, %s\n",
                        (unsigned long long)r->flows,
                        run->unicast ? "switches do not copy" : "switches copy");
    } else {
        ccl_text_printf(out, "%s: %u flows on %s (%u GPUs), %s sharing\n", run->input,
                        run->flows->nflows, run->topo->name, run->topo->nranks,
                        ccl_i_sharing_name(run->options->sharing));
        ccl_text_printf(out, "  time   %s us (last arrival)\n", ccl_i_us(r->time_s, a, sizeof(a)));
    }
    if (r->links) {
        CCL_TRY(text_classes(run, out, err));
        CCL_TRY(text_busiest(run, rows, out, err));
    }
    if (run->program && r->tbs) {
        CCL_TRY(text_blocks(run, false, rows, out, err));
        CCL_TRY(text_blocks(run, true, rows, out, err));
    }
    return ccl_i_text_status(out, err);
}

ccl_status_t ccl_report_simulation(const ccl_report_run_t *run, const ccl_report_style_t *style,
                                   ccl_text_t *out, ccl_error_t *err) {
    static const char *const lists[] = {NULL, "links", "thread_blocks", "flow_list"};
    const ccl_i_described_t *record = ccl_i_result_simulate.root;
    run_row_t row;

    row_of(run, &row);
    size_t which = 0;

    CCL_TRY(ccl_i_table_choice(ccl_report_simulation_tables, style->table, &which, err));
    if (style->format == CCL_REPORT_JSON)
        return ccl_i_result_json(&ccl_i_result_simulate, &row, out, err);
    if (style->format == CCL_REPORT_TEXT)
        return run_text(run, style->rows ? style->rows : 8, out, err);
    if (which == 0)
        return ccl_i_row_emit(record, &row, summary_columns, CCL_REPORT_CSV, out, err);
    return ccl_i_rows_emit(record, lists[which], &row, NULL, CCL_REPORT_CSV, out, err);
}
