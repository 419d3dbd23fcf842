/* Why a run takes its time: the critical path, the links of the bound, idle blocks, what helps. */
#include "report/writer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const ccl_report_explanation_tables[] = {"changes", "causes", "waits",         "links",
                                                     "path",    "cut",    "thread_blocks", NULL};

typedef ccl_report_explanation_t about_t;

enum { SHOWN_CHANGES = 3, SHOWN_PARTS = 10 };

/* Faster by less than this is not worth a word. */
#define HELPS 1e-3

static double share(const about_t *a, double time_s) {
    double whole_s = a->explanation->result->time_s;

    return whole_s > 0 ? time_s / whole_s : 0;
}

/** What a change adds to the time, relative: -0.31. */
static double change_of(const about_t *a, const ccl_counterfactual_t *c) {
    return share(a, c->time_s) - 1;
}

static bool helps(const about_t *a, const ccl_counterfactual_t *c) {
    return c->status == CCL_OK && change_of(a, c) < -HELPS;
}

static const char *resource_name(const about_t *a, uint32_t res, char *out, size_t out_len) {
    if (res == CCL_NONE)
        snprintf(out, out_len, "%s", "");
    else if (res < a->topo->nlinks)
        ccl_i_link_name(a->topo, res, out, out_len);
    else
        snprintf(out, out_len, "group %s", a->topo->groups[res - a->topo->nlinks].name);
    return out;
}

static double resource_Bps(const about_t *a, uint32_t res) {
    return res < a->topo->nlinks ? a->topo->links[res].bandwidth_Bps
                                 : a->topo->groups[res - a->topo->nlinks].bandwidth_Bps;
}

static const char *kind_name(const about_t *a, uint32_t kind) {
    return kind < a->topo->nkinds ? a->topo->kinds[kind] : "";
}

static const char *word_of_input(const about_t *a) {
    return a->input ? a->input : a->program->name;
}

/* ---------------------------------------------------------------- rows */

typedef struct keyed {
    double key;
    uint32_t index;
} keyed_t;

static int by_key(const void *x, const void *y) {
    const keyed_t *a = x, *b = y;

    if (a->key != b->key)
        return a->key > b->key ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

/** Links and groups on the path, most of it first. @param out  malloc'ed. */
static ccl_status_t path_resources(const about_t *a, keyed_t **out, uint32_t *n_out,
                                   ccl_error_t *err) {
    uint32_t n = a->topo->nlinks + a->topo->ngroups;
    keyed_t *rows = malloc((n + 1u) * sizeof(*rows));
    uint32_t used = 0;

    if (!rows)
        return ccl_fail_nomem(err);
    for (uint32_t r = 0; r < n; r++) {
        const double *causes = &a->explanation->sum.resource_s[(size_t)r * CCL_PATH_CAUSES];
        double sum_s = 0;

        for (uint32_t c = 0; c < CCL_PATH_CAUSES; c++)
            sum_s += causes[c];
        if (sum_s > 0)
            rows[used++] = (keyed_t){sum_s, r};
    }
    qsort(rows, used, sizeof(*rows), by_key);
    *out = rows;
    *n_out = used;
    return CCL_OK;
}

/** Time of a block's life that it waited; before its launch and after its end it does not live. */
static double waited_s(const ccl_tb_use_t *use) {
    return use->wait_data_s + use->wait_peer_s + use->wait_slot_s;
}

/* ---------------------------------------------------------------- JSON */

static void json_change(ccl_i_json_t *json, const about_t *a, const ccl_counterfactual_t *c) {
    bool ran = c->status == CCL_OK;

    ccl_i_json_object(json, NULL, true);
    ccl_i_json_string(json, "what", c->what);
    ccl_i_json_string(json, "of", ccl_remedy_name(c->remedy));
    ccl_i_json_string(json, "family", c->family);
    ccl_i_json_array(json, "edits", true);
    for (uint32_t i = 0; i < c->nedits; i++)
        ccl_i_json_string(json, NULL, c->edits[i]);
    ccl_i_json_close_array(json);
    ccl_i_json_string(json, "options", c->options);
    ccl_i_json_string(json, "status", ccl_i_status_word(c->status));
    ccl_i_json_string(json, "why", ran ? NULL : c->why);
    ccl_i_json_number(json, "time_s", ran ? c->time_s : NAN);
    ccl_i_json_number(json, "change", ran ? change_of(a, c) : NAN);
    ccl_i_json_close_object(json);
}

static void json_sums(ccl_i_json_t *json, const about_t *a) {
    const ccl_path_sum_t *sum = &a->explanation->sum;

    ccl_i_json_array(json, "causes", false);
    for (uint32_t c = 0; c < CCL_PATH_CAUSES; c++) {
        for (uint32_t k = 0; k <= a->topo->nkinds; k++) {
            double time_s = sum->kind_s[(size_t)k * CCL_PATH_CAUSES + c];

            if (!(time_s > 0))
                continue;
            ccl_i_json_object(json, NULL, true);
            ccl_i_json_string(json, "cause", ccl_path_cause_name((ccl_path_cause_t)c));
            ccl_i_json_string(json, "kind", k < a->topo->nkinds ? kind_name(a, k) : NULL);
            ccl_i_json_number(json, "time_s", time_s);
            ccl_i_json_number(json, "share", share(a, time_s));
            ccl_i_json_close_object(json);
        }
    }
    ccl_i_json_close_array(json);
    ccl_i_json_array(json, "waits", false);
    for (uint32_t w = 0; w < CCL_PATH_WAITS; w++) {
        ccl_i_json_object(json, NULL, true);
        ccl_i_json_string(json, "wait", ccl_path_wait_name((ccl_path_wait_t)w));
        ccl_i_json_number(json, "time_s", sum->wait_s[w]);
        ccl_i_json_number(json, "share", share(a, sum->wait_s[w]));
        ccl_i_json_close_object(json);
    }
    ccl_i_json_close_array(json);
}

static void json_links(ccl_i_json_t *json, const about_t *a, const keyed_t *rows, uint32_t n) {
    char name[600];

    ccl_i_json_array(json, "links", false);
    for (uint32_t i = 0; i < n; i++) {
        const double *s = &a->explanation->sum.resource_s[(size_t)rows[i].index * CCL_PATH_CAUSES];

        ccl_i_json_object(json, NULL, true);
        ccl_i_json_string(json, "link", resource_name(a, rows[i].index, name, sizeof(name)));
        ccl_i_json_number(json, "bandwidth_Bps", resource_Bps(a, rows[i].index));
        ccl_i_json_number(json, "link_s", s[CCL_PATH_LINK]);
        ccl_i_json_number(json, "sharing_s", s[CCL_PATH_SHARING]);
        ccl_i_json_number(json, "latency_s", s[CCL_PATH_LATENCY]);
        ccl_i_json_close_object(json);
    }
    ccl_i_json_close_array(json);
}

static void json_path(ccl_i_json_t *json, const about_t *a) {
    const ccl_sim_result_t *r = a->explanation->result;
    char name[600];

    ccl_i_json_array(json, "path", false);
    for (uint32_t i = 0; i < r->npath; i++) {
        const ccl_path_segment_t *s = &r->path[i];
        const ccl_tb_t *tb = &a->program->tbs[s->tb];

        ccl_i_json_object(json, NULL, true);
        ccl_i_json_number(json, "start_s", s->start_s);
        ccl_i_json_number(json, "end_s", s->end_s);
        ccl_i_json_string(json, "cause", ccl_path_cause_name((ccl_path_cause_t)s->cause));
        ccl_i_json_string(json, "wait", ccl_path_wait_name((ccl_path_wait_t)s->wait));
        ccl_i_json_u64(json, "rank", tb->rank);
        ccl_i_json_u64(json, "tb", tb->id);
        ccl_i_json_u64(json, "step", s->step - tb->first_step);
        ccl_i_json_string(json, "type",
                          ccl_primitive_name((ccl_primitive_t)a->program->steps[s->step].type));
        ccl_i_json_u64(json, "batch", s->batch);
        ccl_i_json_u64(json, "slice", s->slice);
        ccl_i_json_index(json, "peer", s->peer);
        ccl_i_json_string(
            json, "link",
            s->resource == CCL_NONE ? NULL : resource_name(a, s->resource, name, sizeof(name)));
        ccl_i_json_string(json, "kind", s->kind == CCL_NONE ? NULL : kind_name(a, s->kind));
        ccl_i_json_close_object(json);
    }
    ccl_i_json_close_array(json);
}

static void json_cut(ccl_i_json_t *json, const about_t *a) {
    const ccl_explanation_t *e = a->explanation;
    const ccl_cut_use_t *cut = &e->cut;

    if (!cut->nlinks) {
        ccl_i_json_null(json, "cut");
        return;
    }
    ccl_i_json_object(json, "cut", false);
    ccl_i_json_string(json, "proof", ccl_bound_proof_name(e->bound.bandwidth.proof));
    ccl_i_json_u64(json, "nlinks", cut->nlinks);
    ccl_i_json_number(json, "capacity_Bps", cut->capacity_Bps);
    ccl_i_json_number(json, "carried_bytes", cut->carried_bytes);
    ccl_i_json_number(json, "least_bytes", cut->least_bytes > 0 ? cut->least_bytes : NAN);
    ccl_i_json_number(json, "busy", cut->busy);
    ccl_i_json_number(json, "path_s", cut->path_s);
    ccl_i_json_number(json, "path_share", share(a, cut->path_s));
    ccl_i_json_object(json, "blocks", true);
    ccl_i_json_u64(json, "count", cut->blocks);
    ccl_i_json_number(json, "before", cut->before);
    ccl_i_json_number(json, "working", cut->working);
    ccl_i_json_number(json, "waits_data", cut->waits_data);
    ccl_i_json_number(json, "waits_peer", cut->waits_peer);
    ccl_i_json_number(json, "waits_slot", cut->waits_slot);
    ccl_i_json_number(json, "after", cut->after);
    ccl_i_json_close_object(json);
    ccl_i_json_array(json, "parts", false);
    for (uint32_t i = 0; i < e->intervals; i++) {
        ccl_i_json_object(json, NULL, true);
        ccl_i_json_number(json, "start_s", e->result->time_s * i / e->intervals);
        ccl_i_json_number(json, "busy", cut->interval_busy[i]);
        ccl_i_json_string(json, "cause", ccl_path_cause_name(cut->interval_on[i]));
        ccl_i_json_close_object(json);
    }
    ccl_i_json_close_array(json);
    ccl_i_json_array(json, "links", false);
    for (uint32_t i = 0; i < cut->nlinks; i++) {
        uint32_t l = e->bound.bandwidth.links[i];
        const ccl_link_t *link = &a->topo->links[l];

        ccl_i_json_object(json, NULL, true);
        ccl_i_json_string(json, "from", a->topo->devices[link->from].id);
        ccl_i_json_string(json, "to", a->topo->devices[link->to].id);
        ccl_i_json_number(json, "bytes", e->result->links[l].bytes);
        ccl_i_json_number(json, "utilization", e->result->links[l].utilization);
        ccl_i_json_close_object(json);
    }
    ccl_i_json_close_array(json);
    ccl_i_json_close_object(json);
}

static void json_blocks(ccl_i_json_t *json, const about_t *a) {
    const ccl_sim_result_t *r = a->explanation->result;

    ccl_i_json_array(json, "thread_blocks", false);
    for (uint32_t i = 0; i < r->ntbs; i++) {
        const ccl_tb_t *tb = &a->program->tbs[i];
        const ccl_tb_use_t *u = &r->tbs[i];

        ccl_i_json_object(json, NULL, true);
        ccl_i_json_u64(json, "rank", tb->rank);
        ccl_i_json_u64(json, "id", tb->id);
        ccl_i_json_u64(json, "channel", tb->channel);
        ccl_i_json_index(json, "send", tb->send_peer);
        ccl_i_json_index(json, "recv", tb->recv_peer);
        ccl_i_json_number(json, "start_s", u->start_s);
        ccl_i_json_number(json, "done_s", u->done_s);
        ccl_i_json_number(json, "busy_s", u->busy_s);
        ccl_i_json_number(json, "wait_data_s", u->wait_data_s);
        ccl_i_json_number(json, "wait_peer_s", u->wait_peer_s);
        ccl_i_json_number(json, "wait_slot_s", u->wait_slot_s);
        ccl_i_json_number(json, "path_s", a->explanation->sum.tb_s[i]);
        ccl_i_json_close_object(json);
    }
    ccl_i_json_close_array(json);
}

static ccl_status_t explain_json(const about_t *a, ccl_text_t *out, ccl_error_t *err) {
    const ccl_explanation_t *e = a->explanation;
    const ccl_sim_result_t *r = e->result;
    ccl_i_json_t json;
    keyed_t *rows = NULL;
    uint32_t n = 0;

    CCL_TRY(path_resources(a, &rows, &n, err));
    ccl_i_json_begin(&json, out);
    ccl_i_json_schema(&json, "ccllab/explain/1");
    ccl_i_json_string(&json, "input", word_of_input(a));
    ccl_i_json_string(&json, "topology", a->topo->name);
    ccl_i_json_string(&json, "collective", a->program->coll->name);
    ccl_i_json_u64(&json, "nranks", a->topo->nranks);
    ccl_i_json_number(&json, "size_bytes", r->size_bytes);
    ccl_i_json_string(&json, "proto", a->program->proto);
    ccl_i_json_string(&json, "order", a->way ? ccl_i_order_name(a->way->order) : NULL);
    ccl_i_json_string(&json, "allocation",
                      a->way ? ccl_i_allocation_name(a->way->allocation) : NULL);
    ccl_i_json_string(&json, "granularity", ccl_i_granularity_name(a->options->granularity));
    ccl_i_json_string(&json, "sharing", ccl_i_sharing_name(a->options->sharing));
    ccl_i_json_u64(&json, "batches", r->batches);
    ccl_i_json_number(&json, "time_s", r->time_s);
    ccl_i_json_number(&json, "algbw_GBps", r->algbw_GBps);
    ccl_i_json_number(&json, "busbw_GBps", r->busbw_GBps);
    ccl_i_json_number(&json, "bound_s", e->bound.time_s);
    ccl_i_json_number(&json, "gap", ccl_i_gap(r->time_s, e->bound.time_s));
    ccl_i_json_array(&json, "changes", false);
    for (uint32_t i = 0; i < e->ntried; i++)
        json_change(&json, a, &e->tried[i]);
    ccl_i_json_close_array(&json);
    ccl_i_json_u64(&json, "untried", e->untried);
    ccl_i_json_u64(&json, "path_transfers", e->sum.transfers);
    json_sums(&json, a);
    json_links(&json, a, rows, n);
    if (a->path)
        json_path(&json, a);
    json_cut(&json, a);
    json_blocks(&json, a);
    ccl_i_json_end(&json);
    free(rows);
    return ccl_i_text_status(out, err);
}

/* ---------------------------------------------------------------- tables */

static void edits_text(const ccl_counterfactual_t *c, ccl_text_t *out) {
    for (uint32_t i = 0; i < c->nedits; i++)
        ccl_text_printf(out, "%s--scale '%s'", i ? " " : "", strchr(c->edits[i], ':') + 1);
    if (c->options)
        ccl_text_printf(out, "%s%s", c->nedits ? " " : "", c->options);
}

static ccl_status_t changes_table(const about_t *a, ccl_table_t *table, ccl_error_t *err) {
    static const char *const headers[] = {"change", "of",       "with",  "status",
                                          "time_s", "relative", "reason"};
    char text[2][40];

    ccl_i_table_columns(table, headers, CCL_ARRAY_LEN(headers), CCL_ARRAY_LEN(headers));
    for (uint32_t i = 0; i < a->explanation->ntried; i++) {
        const ccl_counterfactual_t *c = &a->explanation->tried[i];
        bool ran = c->status == CCL_OK;
        ccl_text_t with = {0};

        edits_text(c, &with);
        if (with.nomem)
            return ccl_fail_nomem(err);
        ccl_table_row(table);
        ccl_table_cell(table, "%s", c->what);
        ccl_table_cell(table, "%s", ccl_remedy_name(c->remedy));
        ccl_table_cell(table, "%s", with.data ? with.data : "");
        ccl_table_cell(table, "%s", ccl_i_status_word(c->status));
        ccl_table_cell(table, "%s", ran ? ccl_i_number(c->time_s, text[0], sizeof(text[0])) : "");
        ccl_table_cell(table, "%s",
                       ran ? ccl_i_number(change_of(a, c), text[1], sizeof(text[1])) : "");
        ccl_table_cell(table, "%s", ran ? "" : c->why);
        ccl_text_fini(&with);
    }
    return CCL_OK;
}

static void time_cells(const about_t *a, ccl_table_t *table, double time_s, bool csv) {
    char text[2][40];

    ccl_table_cell(table, "%s",
                   csv ? ccl_i_number(time_s, text[0], sizeof(text[0]))
                       : ccl_i_us(time_s, text[0], sizeof(text[0])));
    if (csv)
        ccl_table_cell(table, "%s", ccl_i_number(share(a, time_s), text[1], sizeof(text[1])));
    else
        ccl_table_cell(table, "%.1f", 100 * share(a, time_s));
}

static ccl_status_t causes_table(const about_t *a, bool csv, ccl_table_t *table, ccl_error_t *err) {
    static const char *const csv_headers[] = {"cause", "kind", "time_s", "share"};
    static const char *const headers[] = {"time goes to", "kind", "time(us)", "share(%)"};
    uint32_t nkinds = a->topo->nkinds + 1, n = 0;
    keyed_t *rows = malloc((size_t)nkinds * CCL_PATH_CAUSES * sizeof(*rows));

    if (!rows)
        return ccl_fail_nomem(err);
    ccl_i_table_columns(table, csv ? csv_headers : headers, CCL_ARRAY_LEN(headers), 2);
    for (uint32_t i = 0; i < nkinds * CCL_PATH_CAUSES; i++)
        if (a->explanation->sum.kind_s[i] > 0)
            rows[n++] = (keyed_t){a->explanation->sum.kind_s[i], i};
    qsort(rows, n, sizeof(*rows), by_key);
    for (uint32_t i = 0; i < n; i++) {
        ccl_path_cause_t cause = (ccl_path_cause_t)(rows[i].index % CCL_PATH_CAUSES);

        ccl_table_row(table);
        ccl_table_cell(table, "%s",
                       csv ? ccl_path_cause_name(cause) : ccl_i_path_cause_text(cause));
        ccl_table_cell(table, "%s", kind_name(a, rows[i].index / CCL_PATH_CAUSES));
        time_cells(a, table, rows[i].key, csv);
    }
    free(rows);
    return CCL_OK;
}

static void waits_table(const about_t *a, bool csv, ccl_table_t *table) {
    static const char *const csv_headers[] = {"wait", "time_s", "share"};
    static const char *const headers[] = {"it had to be done because", "time(us)", "share(%)"};

    ccl_i_table_columns(table, csv ? csv_headers : headers, CCL_ARRAY_LEN(headers), 1);
    for (uint32_t w = 0; w < CCL_PATH_WAITS; w++) {
        double time_s = a->explanation->sum.wait_s[w];

        if (!(time_s > 0))
            continue;
        ccl_table_row(table);
        ccl_table_cell(table, "%s",
                       csv ? ccl_path_wait_name((ccl_path_wait_t)w)
                           : ccl_i_path_wait_text((ccl_path_wait_t)w));
        time_cells(a, table, time_s, csv);
    }
}

static ccl_status_t links_table(const about_t *a, bool csv, uint32_t most, ccl_table_t *table,
                                ccl_error_t *err) {
    static const char *const csv_headers[] = {"link",      "bandwidth_Bps", "link_s",
                                              "sharing_s", "latency_s",     "share"};
    static const char *const headers[] = {"link",        "bandwidth(GB/s)", "bytes(us)",
                                          "sharing(us)", "latency(us)",     "share(%)"};
    static const ccl_path_cause_t causes[] = {CCL_PATH_LINK, CCL_PATH_SHARING, CCL_PATH_LATENCY};
    keyed_t *rows = NULL;
    uint32_t n = 0;
    char text[600];

    CCL_TRY(path_resources(a, &rows, &n, err));
    ccl_i_table_columns(table, csv ? csv_headers : headers, CCL_ARRAY_LEN(headers), 1);
    for (uint32_t i = 0; i < n && (csv || i < most); i++) {
        const double *s = &a->explanation->sum.resource_s[(size_t)rows[i].index * CCL_PATH_CAUSES];
        double Bps = resource_Bps(a, rows[i].index);

        ccl_table_row(table);
        ccl_table_cell(table, "%s", resource_name(a, rows[i].index, text, sizeof(text)));
        ccl_table_cell(table, "%s",
                       csv ? ccl_i_number(Bps, text, sizeof(text))
                           : ccl_i_GBps(Bps, text, sizeof(text)));
        for (size_t c = 0; c < CCL_ARRAY_LEN(causes); c++)
            ccl_table_cell(table, "%s",
                           csv ? ccl_i_number(s[causes[c]], text, sizeof(text))
                               : ccl_i_us(s[causes[c]], text, sizeof(text)));
        if (csv)
            ccl_table_cell(table, "%s", ccl_i_number(share(a, rows[i].key), text, sizeof(text)));
        else
            ccl_table_cell(table, "%.1f", 100 * share(a, rows[i].key));
    }
    free(rows);
    return CCL_OK;
}

static void path_table(const about_t *a, bool csv, ccl_table_t *table) {
    static const char *const csv_headers[] = {"start_s", "end_s", "cause",     "wait",
                                              "rank",    "tb",    "primitive", "step",
                                              "batch",   "slice", "peer",      "link"};
    static const char *const headers[] = {"from(us)", "to(us)", "cause",     "waited for by",
                                          "rank",     "block",  "primitive", "step",
                                          "batch",    "slice",  "to rank",   "link"};
    const ccl_sim_result_t *r = a->explanation->result;
    char text[600];

    ccl_i_table_columns(table, csv ? csv_headers : headers, CCL_ARRAY_LEN(headers),
                        csv ? CCL_ARRAY_LEN(headers) : 0);
    for (uint32_t i = 0; i < r->npath; i++) {
        const ccl_path_segment_t *s = &r->path[i];
        const ccl_tb_t *tb = &a->program->tbs[s->tb];
        const double ends_s[] = {s->start_s, s->end_s};
        const uint32_t numbers[] = {tb->rank, tb->id};

        ccl_table_row(table);
        for (size_t k = 0; k < 2; k++)
            ccl_table_cell(table, "%s",
                           csv ? ccl_i_number(ends_s[k], text, sizeof(text))
                               : ccl_i_us(ends_s[k], text, sizeof(text)));
        ccl_table_cell(table, "%s", ccl_path_cause_name((ccl_path_cause_t)s->cause));
        ccl_table_cell(table, "%s", ccl_path_wait_name((ccl_path_wait_t)s->wait));
        for (size_t k = 0; k < CCL_ARRAY_LEN(numbers); k++)
            ccl_table_cell(table, "%u", numbers[k]);
        ccl_table_cell(table, "%s",
                       ccl_primitive_name((ccl_primitive_t)a->program->steps[s->step].type));
        ccl_table_cell(table, "%u", s->step - tb->first_step);
        ccl_table_cell(table, "%u", s->batch);
        ccl_table_cell(table, "%u", s->slice);
        ccl_table_cell(table, "%s", ccl_i_index(s->peer, text, sizeof(text)));
        ccl_table_cell(table, "%s", resource_name(a, s->resource, text, sizeof(text)));
    }
}

static void cut_table(const about_t *a, bool csv, ccl_table_t *table) {
    static const char *const csv_headers[] = {"start_s", "busy", "cause"};
    static const char *const headers[] = {"from(us)", "busy(%)", "the critical path meanwhile"};
    const ccl_explanation_t *e = a->explanation;
    uint32_t each = csv || e->intervals <= SHOWN_PARTS ? 1 : e->intervals / SHOWN_PARTS;
    char text[40];

    ccl_i_table_columns(table, csv ? csv_headers : headers, CCL_ARRAY_LEN(headers), 0);
    for (uint32_t i = 0; e->cut.nlinks && i < e->intervals; i += each) {
        double start_s = e->result->time_s * i / e->intervals, busy = 0;
        uint32_t end = i + each < e->intervals ? i + each : e->intervals;

        for (uint32_t k = i; k < end; k++)
            busy += e->cut.interval_busy[k] / (end - i);
        ccl_table_row(table);
        ccl_table_cell(table, "%s",
                       csv ? ccl_i_number(start_s, text, sizeof(text))
                           : ccl_i_us(start_s, text, sizeof(text)));
        if (csv)
            ccl_table_cell(table, "%s", ccl_i_number(busy, text, sizeof(text)));
        else
            ccl_table_cell(table, "%.1f", 100 * busy);
        ccl_table_cell(table, "%s",
                       csv ? ccl_path_cause_name(e->cut.interval_on[i])
                           : ccl_i_path_cause_text(e->cut.interval_on[i]));
    }
}

static void csv_blocks(const about_t *a, ccl_table_t *table) {
    static const char *const headers[] = {"rank",   "id",      "channel", "send",
                                          "recv",   "start_s", "done_s",  "busy_s",
                                          "data_s", "peer_s",  "slot_s",  "path_s"};
    const ccl_sim_result_t *r = a->explanation->result;
    char text[40];

    ccl_i_table_columns(table, headers, CCL_ARRAY_LEN(headers), CCL_ARRAY_LEN(headers));
    for (uint32_t i = 0; i < r->ntbs; i++) {
        ccl_i_table_block(table, &a->program->tbs[i], &r->tbs[i]);
        ccl_table_cell(table, "%s", ccl_i_number(a->explanation->sum.tb_s[i], text, sizeof(text)));
    }
}

/* ---------------------------------------------------------------- text */

/** Blocks that wait, idlest first; neighbours that look alike in one row. */
static ccl_status_t idle_table(const about_t *a, uint32_t most, ccl_table_t *table,
                               ccl_error_t *err) {
    static const char *const headers[] = {"rank",    "block",     "alike",   "channel",
                                          "send to", "recv from", "busy(%)", "waits: data(%)",
                                          "peer(%)", "slot(%)",   "over(%)", "on the path(%)"};
    const ccl_sim_result_t *r = a->explanation->result;
    keyed_t *order = malloc((r->ntbs + 1u) * sizeof(*order));
    char cells[2][160] = {"", ""}, head[160] = "";
    uint32_t n = 0, first = 0;

    if (!order)
        return ccl_fail_nomem(err);
    ccl_i_table_columns(table, headers, CCL_ARRAY_LEN(headers), 0);
    for (uint32_t i = 0; i < r->ntbs; i++)
        order[n++] = (keyed_t){waited_s(&r->tbs[i]) + r->time_s - r->tbs[i].done_s, i};
    qsort(order, n, sizeof(*order), by_key);
    for (uint32_t i = 0; i <= n && most > 0; i++) {
        cells[1][0] = '\0';
        if (i < n) {
            const ccl_tb_use_t *u = &r->tbs[order[i].index];

            snprintf(cells[1], sizeof(cells[1]), "%.1f %.1f %.1f %.1f %.1f",
                     100 * share(a, u->busy_s), 100 * share(a, u->wait_data_s),
                     100 * share(a, u->wait_peer_s), 100 * share(a, u->wait_slot_s),
                     100 * share(a, r->time_s - u->done_s));
        }
        if (i > 0 && strcmp(cells[0], cells[1]) != 0) {
            const ccl_tb_t *tb = &a->program->tbs[order[first].index];
            double path_s = 0;
            char peer[40];

            for (uint32_t k = first; k < i; k++)
                path_s += a->explanation->sum.tb_s[order[k].index];
            ccl_table_row(table);
            ccl_table_cell(table, "%u", tb->rank);
            ccl_table_cell(table, "%u", tb->id);
            ccl_table_cell(table, "%u", i - first);
            ccl_table_cell(table, "%u", tb->channel);
            ccl_table_cell(table, "%s", ccl_i_index(tb->send_peer, peer, sizeof(peer)));
            ccl_table_cell(table, "%s", ccl_i_index(tb->recv_peer, peer, sizeof(peer)));
            snprintf(head, sizeof(head), "%s", cells[0]);
            for (char *save = NULL, *word = strtok_r(head, " ", &save); word;
                 word = strtok_r(NULL, " ", &save))
                ccl_table_cell(table, "%s", word);
            ccl_table_cell(table, "%.1f", 100 * share(a, path_s));
            first = i;
            most--;
        }
        memcpy(cells[0], cells[1], sizeof(cells[0]));
    }
    free(order);
    return CCL_OK;
}

/** One table under a title. */
static ccl_status_t emit(const about_t *a, const char *title, size_t which, uint32_t rows,
                         ccl_text_t *out, ccl_error_t *err) {
    ccl_table_t *table = ccl_table_create();
    ccl_status_t status = CCL_OK;

    if (!table)
        return ccl_fail_nomem(err);
    ccl_text_printf(out, "\n%s\n", title);
    if (which == 1)
        status = causes_table(a, false, table, err);
    else if (which == 2)
        waits_table(a, false, table);
    else if (which == 3)
        status = links_table(a, false, rows, table, err);
    else if (which == 4)
        path_table(a, false, table);
    else if (which == 5)
        cut_table(a, false, table);
    else
        status = idle_table(a, rows, table, err);
    if (status == CCL_OK)
        status = ccl_i_table_emit(table, CCL_REPORT_TEXT, out, err);
    ccl_table_destroy(table);
    return status;
}

/** One of its family, or of its time, stands above already. */
static bool repeats(const about_t *a, uint32_t index, bool here) {
    const ccl_counterfactual_t *tried = a->explanation->tried, *c = &tried[index];

    for (uint32_t i = 0; i < index; i++) {
        if (here && tried[i].remedy == CCL_REMEDY_HARDWARE)
            continue;
        if (tried[i].time_s == c->time_s ||
            (c->family && tried[i].family && strcmp(c->family, tried[i].family) == 0))
            return true;
    }
    return false;
}

static void one_change(const about_t *a, const ccl_counterfactual_t *c, uint32_t number,
                       ccl_text_t *out) {
    char time[40];

    ccl_text_printf(out, "  %u. %s: %+.1f%% (%s us; %s: ", number, c->what, 100 * change_of(a, c),
                    ccl_i_us(c->time_s, time, sizeof(time)), ccl_remedy_name(c->remedy));
    edits_text(c, out);
    ccl_text_printf(out, "%s)\n", c->nedits || c->options ? "" : "another file");
}

/** The best of all, then the best of those that need no hardware where they are others. */
static void text_changes(const about_t *a, ccl_text_t *out) {
    const ccl_explanation_t *e = a->explanation;
    uint32_t all = 0, here = 0, failed = 0;
    bool same = true;

    for (uint32_t i = 0; i < e->ntried; i++)
        failed += e->tried[i].status != CCL_OK;
    if (!e->ntried)
        return;
    ccl_text_printf(out, "\nWhat would help most, of %u changes tried\n", e->ntried);
    for (uint32_t i = 0; i < e->ntried && all < SHOWN_CHANGES; i++) {
        if (!helps(a, &e->tried[i]) || repeats(a, i, false))
            continue;
        same = same && e->tried[i].remedy != CCL_REMEDY_HARDWARE;
        one_change(a, &e->tried[i], ++all, out);
    }
    if (!all)
        ccl_text_printf(out, "  none of them\n");
    if (all && !same) {
        ccl_text_printf(out, "And without other hardware\n");
        for (uint32_t i = 0; i < e->ntried && here < SHOWN_CHANGES; i++)
            if (helps(a, &e->tried[i]) && e->tried[i].remedy != CCL_REMEDY_HARDWARE &&
                !repeats(a, i, true))
                one_change(a, &e->tried[i], ++here, out);
        if (!here)
            ccl_text_printf(out, "  none of them\n");
    }
    if (e->untried)
        ccl_text_printf(out,
                        "(%u that lower the schedule anew were left out: the program is large)\n",
                        e->untried);
    if (failed)
        ccl_text_printf(out, "(%u could not run: --csv --table changes says why)\n", failed);
}

static ccl_status_t text_cut(const about_t *a, ccl_text_t *out, ccl_error_t *err) {
    const ccl_explanation_t *e = a->explanation;
    const ccl_cut_use_t *cut = &e->cut;
    const struct {
        const char *what;
        double share;
    } blocks[] = {{"working", cut->working},
                  {"waiting for data", cut->waits_data},
                  {"waiting for other blocks", cut->waits_peer},
                  {"waiting for slots", cut->waits_slot},
                  {"finished", cut->after},
                  {"not launched", cut->before}};
    char t[2][40];
    bool some = false;

    if (!cut->nlinks)
        return CCL_OK;
    ccl_text_printf(out, "\nThe links that the bound needs (%s): %u, %s GB/s together\n",
                    ccl_bound_proof_name(e->bound.bandwidth.proof), cut->nlinks,
                    ccl_i_GBps(cut->capacity_Bps, t[0], sizeof(t[0])));
    ccl_text_printf(out, "  carried %.4g MB", cut->carried_bytes / 1e6);
    if (cut->least_bytes > 0)
        ccl_text_printf(out, ", %.4g of what is needed at least",
                        cut->carried_bytes / cut->least_bytes);
    ccl_text_printf(out, "; busy %s%% of the time\n", ccl_i_percent(cut->busy, t[0], sizeof(t[0])));
    ccl_text_printf(out,
                    "  for %s%% of the time the critical path passes bytes over them, or over "
                    "links of cuts alike\n",
                    ccl_i_percent(share(a, cut->path_s), t[0], sizeof(t[0])));
    ccl_text_printf(out, "  the %u thread blocks that send over them:", cut->blocks);
    for (size_t i = 0; i < CCL_ARRAY_LEN(blocks); i++) {
        if (!(blocks[i].share > 5e-4))
            continue;
        ccl_text_printf(out, "%s %s %s%%", some ? "," : "", blocks[i].what,
                        ccl_i_percent(blocks[i].share, t[0], sizeof(t[0])));
        some = true;
    }
    return emit(a, "How busy they were", 5, 0, out, err);
}

static void text_blocks(const about_t *a, ccl_text_t *out) {
    const ccl_sim_result_t *r = a->explanation->result;
    uint32_t off = 0;
    double lost[4] = {0};
    char t[5][40];

    for (uint32_t i = 0; i < r->ntbs; i++) {
        const ccl_tb_use_t *u = &r->tbs[i];

        off += !(a->explanation->sum.tb_s[i] > 0);
        lost[0] += u->wait_data_s;
        lost[1] += u->wait_peer_s;
        lost[2] += u->wait_slot_s;
        lost[3] += r->time_s - u->done_s;
    }
    for (size_t k = 0; k < CCL_ARRAY_LEN(lost); k++)
        ccl_i_percent(r->ntbs ? share(a, lost[k]) / r->ntbs : 0, t[k], sizeof(t[k]));
    ccl_text_printf(out,
                    "\n%u thread blocks; on average they wait for data %s%% of the run, for other "
                    "blocks %s%%,\nfor slots %s%%, and are over for the last %s%%. %u are never on "
                    "the critical path.\n",
                    r->ntbs, t[0], t[1], t[2], t[3], off);
}

static ccl_status_t explain_text(const about_t *a, uint32_t rows, ccl_text_t *out,
                                 ccl_error_t *err) {
    const ccl_explanation_t *e = a->explanation;
    const ccl_sim_result_t *r = e->result;
    char t[2][64];

    ccl_text_printf(out, "%s: %s of %s on %s (%u GPUs), %u micro-batch%s, %s level\n",
                    word_of_input(a), a->program->coll->name,
                    ccl_format_bytes(r->size_bytes, t[0], sizeof(t[0])), a->topo->name,
                    a->topo->nranks, r->batches, r->batches == 1 ? "" : "es",
                    ccl_i_granularity_name(a->options->granularity));
    ccl_text_printf(out, "  time   %s us\n", ccl_i_us(r->time_s, t[0], sizeof(t[0])));
    ccl_text_printf(out, "  bound  %s us (%s); the time is %s of it\n",
                    ccl_i_us(e->bound.time_s, t[0], sizeof(t[0])),
                    e->bound.bandwidth_s > e->bound.latency.latency_s ? "bandwidth" : "latency",
                    ccl_i_gap_text(r->time_s, e->bound.time_s, t[1], sizeof(t[1])));
    text_changes(a, out);
    CCL_TRY(emit(a, "Critical path: where the time goes", 1, 0, out, err));
    CCL_TRY(emit(a, "The same time by why the run could not go on without it", 2, 0, out, err));
    if (rows)
        CCL_TRY(emit(a, "Links on the critical path", 3, rows, out, err));
    CCL_TRY(text_cut(a, out, err));
    text_blocks(a, out);
    CCL_TRY(emit(a, "Idlest thread blocks (over: of the run, after their end)", 6, rows, out, err));
    if (a->path)
        CCL_TRY(emit(a, "The critical path", 4, 0, out, err));
    return ccl_i_text_status(out, err);
}

ccl_status_t ccl_report_explanation(const ccl_report_explanation_t *a,
                                    const ccl_report_style_t *style, ccl_text_t *out,
                                    ccl_error_t *err) {
    ccl_table_t *table;
    ccl_status_t status = CCL_OK;
    size_t which = 0;

    CCL_TRY(ccl_i_table_choice(ccl_report_explanation_tables, style->table, &which, err));
    if (style->format == CCL_REPORT_JSON)
        return explain_json(a, out, err);
    if (style->format == CCL_REPORT_TEXT)
        return explain_text(a, style->rows ? style->rows : 8, out, err);
    table = ccl_table_create();
    if (!table)
        return ccl_fail_nomem(err);
    if (which == 0)
        status = changes_table(a, table, err);
    else if (which == 1)
        status = causes_table(a, true, table, err);
    else if (which == 2)
        waits_table(a, true, table);
    else if (which == 3)
        status = links_table(a, true, 0, table, err);
    else if (which == 4)
        path_table(a, true, table);
    else if (which == 5)
        cut_table(a, true, table);
    else
        csv_blocks(a, table);
    if (status == CCL_OK)
        status = ccl_i_table_emit(table, CCL_REPORT_CSV, out, err);
    ccl_table_destroy(table);
    return status;
}
