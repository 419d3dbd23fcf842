/* One simulated run: the time, how busy every link was, what every thread block waited for. */
#include "report/writer.h"

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

/* ---------------------------------------------------------------- JSON */

static void json_links(ccl_i_json_t *json, const ccl_topology_t *topo,
                       const ccl_sim_result_t *result) {
    ccl_i_json_array(json, "links", false);
    for (uint32_t l = 0; l < result->nlinks && l < topo->nlinks; l++) {
        const ccl_link_t *link = &topo->links[l];

        ccl_i_json_object(json, NULL, true);
        ccl_i_json_string(json, "from", topo->devices[link->from].id);
        ccl_i_json_string(json, "to", topo->devices[link->to].id);
        ccl_i_json_string(json, "kind", topo->kinds[link->kind]);
        ccl_i_json_number(json, "bytes", result->links[l].bytes);
        ccl_i_json_number(json, "utilization", result->links[l].utilization);
        ccl_i_json_close_object(json);
    }
    ccl_i_json_close_array(json);
}

static void json_blocks(ccl_i_json_t *json, const ccl_program_t *program,
                        const ccl_sim_result_t *result) {
    ccl_i_json_array(json, "thread_blocks", false);
    for (uint32_t i = 0; i < program->ntbs && i < result->ntbs; i++) {
        const ccl_tb_t *tb = &program->tbs[i];
        const ccl_tb_use_t *use = &result->tbs[i];

        ccl_i_json_object(json, NULL, true);
        ccl_i_json_u64(json, "rank", tb->rank);
        ccl_i_json_u64(json, "id", tb->id);
        ccl_i_json_u64(json, "channel", tb->channel);
        ccl_i_json_index(json, "send", tb->send_peer);
        ccl_i_json_index(json, "recv", tb->recv_peer);
        ccl_i_json_number(json, "start_s", use->start_s);
        ccl_i_json_number(json, "done_s", use->done_s);
        ccl_i_json_number(json, "busy_s", use->busy_s);
        ccl_i_json_number(json, "wait_data_s", use->wait_data_s);
        ccl_i_json_number(json, "wait_peer_s", use->wait_peer_s);
        ccl_i_json_number(json, "wait_slot_s", use->wait_slot_s);
        ccl_i_json_close_object(json);
    }
    ccl_i_json_close_array(json);
}

/** NaN, which is printed as null, for what a run that did not finish does not have. */
static double or_null(bool have, double value) {
    return have ? value : NAN;
}

static const char *sharing_name(const ccl_report_run_t *run) {
    if (run->epochs)
        return run->unicast ? "fifo" : "fifo-multicast";
    return ccl_i_sharing_name(run->options->sharing);
}

/** Order and allocation of a schedule, the level of all. */
static void json_way(ccl_i_json_t *json, const ccl_report_run_t *run) {
    ccl_way_t way = {CCL_ORDER_STEP, CCL_ALLOCATE_CONNECTION, run->options->granularity};

    ccl_i_json_way(json, run->way ? run->way : &way, run->way != NULL);
}

static ccl_status_t run_json(const ccl_report_run_t *run, ccl_text_t *out, ccl_error_t *err) {
    const ccl_sim_result_t *r = run->result;
    bool done = finished(run);
    ccl_i_json_t json;

    ccl_i_json_begin(&json, out);
    ccl_i_json_schema(&json, "ccllab/simulate/1");
    ccl_i_json_string(&json, "input", run->input);
    ccl_i_json_string(&json, "topology", run->topo->name);
    ccl_i_json_string(&json, "collective", collective_name(run));
    ccl_i_json_u64(&json, "nranks", run->topo->nranks);
    if (run->program) {
        if (run->verdict)
            ccl_i_json_bool(&json, "valid", run->verdict->valid);
        else
            ccl_i_json_null(&json, "valid");
        ccl_i_json_fault(&json, run->verdict);
        ccl_i_json_string(&json, "proto", run->program->proto);
        ccl_i_json_number(&json, "size_bytes", run->options->size_bytes);
        json_way(&json, run);
    }
    ccl_i_json_string(&json, "sharing", sharing_name(run));
    if (run->epochs) {
        ccl_i_json_number(&json, "size_bytes", run->options->size_bytes);
        ccl_i_json_number(&json, "claimed_s", run->epochs->finish_s);
    }
    ccl_i_json_number(&json, "time_s", or_null(done, r ? r->time_s : 0));
    if (run->program) {
        double bound_s = run->bound ? run->bound->time_s : NAN;

        ccl_i_json_number(&json, "bound_s", bound_s);
        ccl_i_json_number(&json, "gap", or_null(done, r ? ccl_i_gap(r->time_s, bound_s) : 0));
    }
    if (run->program) {
        ccl_i_json_number(&json, "algbw_GBps", or_null(done, r ? r->algbw_GBps : 0));
        ccl_i_json_number(&json, "busbw_GBps", or_null(done, r ? r->busbw_GBps : 0));
        ccl_i_json_number(&json, "batches", or_null(r != NULL, r ? r->batches : 0));
        ccl_i_json_number(&json, "chunk_bytes", or_null(r != NULL, r ? r->chunk_bytes : 0));
    }
    if (done) {
        ccl_i_json_u64(&json, "transfers", r->transfers);
        ccl_i_json_u64(&json, "flows", r->flows);
        ccl_i_json_u64(&json, "events", r->events);
        ccl_i_json_u64(&json, "rate_changes", r->rate_changes);
        if (run->program)
            ccl_i_json_u64(&json, "skipped_batches", r->skipped_batches);
    } else {
        ccl_i_json_null(&json, "transfers");
        ccl_i_json_null(&json, "flows");
    }
    if (run->program) {
        ccl_sim_usage_t usage = {0};

        if (done)
            ccl_sim_usage(run->program, r, &usage);
        ccl_i_json_usage(&json, &usage, done);
        ccl_i_json_deadlock(&json, r ? r->deadlock : NULL);
    }
    if (done && r->links) {
        json_links(&json, run->topo, r);
    } else {
        ccl_i_json_array(&json, "links", true);
        ccl_i_json_close_array(&json);
    }
    if (run->program) {
        if (done && r->tbs) {
            json_blocks(&json, run->program, r);
        } else {
            ccl_i_json_array(&json, "thread_blocks", true);
            ccl_i_json_close_array(&json);
        }
    }
    ccl_i_json_end(&json);
    return ccl_i_text_status(out, err);
}

/* ---------------------------------------------------------------- CSV */

static void csv_summary(const ccl_report_run_t *run, ccl_table_t *table) {
    static const char *const headers[] = {
        "input",       "topology",  "collective", "nranks",          "size_bytes", "batches",
        "granularity", "sharing",   "valid",      "deadlock",        "time_s",     "algbw_GBps",
        "busbw_GBps",  "transfers", "flows",      "skipped_batches", "bound_s",    "gap"};
    const ccl_sim_result_t *r = run->result;
    bool done = finished(run);
    char text[40];

    ccl_i_table_columns(table, headers, CCL_ARRAY_LEN(headers), CCL_ARRAY_LEN(headers));
    ccl_table_row(table);
    ccl_table_cell(table, "%s", run->input);
    ccl_table_cell(table, "%s", run->topo->name);
    ccl_table_cell(table, "%s", run->program ? collective_name(run) : "");
    ccl_table_cell(table, "%u", run->topo->nranks);
    ccl_table_cell(table, "%s",
                   run->program ? ccl_i_number(run->options->size_bytes, text, sizeof(text)) : "");
    ccl_table_cell(table, "%s",
                   run->program && r ? ccl_i_index(r->batches, text, sizeof(text)) : "");
    ccl_table_cell(table, "%s",
                   run->program ? ccl_i_granularity_name(run->options->granularity) : "");
    ccl_table_cell(table, "%s", sharing_name(run));
    ccl_table_cell(table, "%s", run->verdict ? (run->verdict->valid ? "true" : "false") : "");
    ccl_table_cell(table, "%s", r && r->deadlock ? "true" : "false");
    ccl_table_cell(table, "%s", done ? ccl_i_number(r->time_s, text, sizeof(text)) : "");
    ccl_table_cell(table, "%s",
                   done && run->program ? ccl_i_number(r->algbw_GBps, text, sizeof(text)) : "");
    ccl_table_cell(table, "%s",
                   done && run->program ? ccl_i_number(r->busbw_GBps, text, sizeof(text)) : "");
    if (done) {
        ccl_table_cell(table, "%llu", (unsigned long long)r->transfers);
        ccl_table_cell(table, "%llu", (unsigned long long)r->flows);
        ccl_table_cell(table, "%llu", (unsigned long long)r->skipped_batches);
    } else {
        for (int i = 0; i < 3; i++)
            ccl_table_cell(table, "%s", "");
    }
    double bound_s = run->bound ? run->bound->time_s : NAN;

    ccl_table_cell(table, "%s", ccl_i_number(bound_s, text, sizeof(text)));
    ccl_table_cell(table, "%s",
                   done ? ccl_i_number(ccl_i_gap(r->time_s, bound_s), text, sizeof(text)) : "");
}

static void csv_links(const ccl_report_run_t *run, ccl_table_t *table) {
    static const char *const headers[] = {"from", "to", "kind", "bytes", "utilization"};
    char text[40];

    ccl_i_table_columns(table, headers, CCL_ARRAY_LEN(headers), CCL_ARRAY_LEN(headers));
    for (uint32_t l = 0; finished(run) && run->result->links && l < run->result->nlinks; l++) {
        const ccl_link_t *link = &run->topo->links[l];

        ccl_table_row(table);
        ccl_table_cell(table, "%s", run->topo->devices[link->from].id);
        ccl_table_cell(table, "%s", run->topo->devices[link->to].id);
        ccl_table_cell(table, "%s", run->topo->kinds[link->kind]);
        ccl_table_cell(table, "%s", ccl_i_number(run->result->links[l].bytes, text, sizeof(text)));
        ccl_table_cell(table, "%s",
                       ccl_i_number(run->result->links[l].utilization, text, sizeof(text)));
    }
}

static void csv_blocks(const ccl_report_run_t *run, ccl_table_t *table) {
    static const char *const headers[] = {"rank",        "id",          "channel",    "send",
                                          "recv",        "start_s",     "done_s",     "busy_s",
                                          "wait_data_s", "wait_peer_s", "wait_slot_s"};

    ccl_i_table_columns(table, headers, CCL_ARRAY_LEN(headers), CCL_ARRAY_LEN(headers));
    if (!run->program || !finished(run) || !run->result->tbs)
        return;
    for (uint32_t i = 0; i < run->result->ntbs; i++)
        ccl_i_table_block(table, &run->program->tbs[i], &run->result->tbs[i]);
}

/** Flow lists: when each flow arrived. */
static void csv_flows(const ccl_report_run_t *run, ccl_table_t *table) {
    static const char *const headers[] = {"id", "src", "dst", "bytes", "done_s"};
    char text[40];

    ccl_i_table_columns(table, headers, CCL_ARRAY_LEN(headers), CCL_ARRAY_LEN(headers));
    if (!run->flows || !finished(run) || !run->result->flow_done_s)
        return;
    for (uint32_t i = 0; i < run->flows->nflows; i++) {
        ccl_table_row(table);
        ccl_table_cell(table, "%u", i);
        ccl_table_cell(table, "%u", run->flows->src[i]);
        ccl_table_cell(table, "%u", run->flows->dst[i]);
        ccl_table_cell(table, "%s", ccl_i_number(run->flows->bytes[i], text, sizeof(text)));
        ccl_table_cell(table, "%s", ccl_i_number(run->result->flow_done_s[i], text, sizeof(text)));
    }
}

/* ---------------------------------------------------------------- text */

typedef struct rank_by {
    double key;
    uint32_t index;
} rank_by_t;

/** Largest key first; equal keys by index, so that the order is always the same. */
static int by_key(const void *a, const void *b) {
    const rank_by_t *x = a;
    const rank_by_t *y = b;

    if (x->key != y->key)
        return x->key > y->key ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

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
static void grouped(const ccl_report_run_t *run, const rank_by_t *order, uint32_t n, uint32_t rows,
                    void (*key)(const ccl_report_run_t *, uint32_t, char *, size_t),
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
    rank_by_t *order = calloc(r->nlinks ? r->nlinks : 1, sizeof(*order));
    ccl_table_t *table = ccl_table_create();
    ccl_status_t status = CCL_ERR_NOMEM;
    uint32_t used = 0;

    if (order && table) {
        for (uint32_t l = 0; l < r->nlinks; l++) {
            if (r->links[l].bytes > 0)
                order[used++] = (rank_by_t){r->links[l].utilization, l};
        }
        qsort(order, used, sizeof(*order), by_key);
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
    rank_by_t *order = calloc(r->ntbs ? r->ntbs : 1, sizeof(*order));
    ccl_table_t *table = ccl_table_create();
    ccl_status_t status = CCL_ERR_NOMEM;
    uint32_t n = 0;

    if (order && table) {
        for (uint32_t i = 0; i < r->ntbs; i++) {
            const ccl_tb_use_t *u = &r->tbs[i];
            double waits = u->wait_data_s + u->wait_peer_s + u->wait_slot_s;

            if (!idle || waits > 0)
                order[n++] = (rank_by_t){idle ? waits : u->done_s, i};
        }
        qsort(order, n, sizeof(*order), by_key);
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
    ccl_table_t *table;
    ccl_status_t status;
    size_t which = 0;

    CCL_TRY(ccl_i_table_choice(ccl_report_simulation_tables, style->table, &which, err));
    if (style->format == CCL_REPORT_JSON)
        return run_json(run, out, err);
    if (style->format == CCL_REPORT_TEXT)
        return run_text(run, style->rows ? style->rows : 8, out, err);
    table = ccl_table_create();
    if (!table)
        return ccl_fail_nomem(err);
    if (which == 0)
        csv_summary(run, table);
    else if (which == 1)
        csv_links(run, table);
    else if (which == 2)
        csv_blocks(run, table);
    else
        csv_flows(run, table);
    status = ccl_i_table_emit(table, CCL_REPORT_CSV, out, err);
    ccl_table_destroy(table);
    return status;
}
