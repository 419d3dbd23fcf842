/* What `balance` found: who gets how many micro-batches, and what a step takes. */
#include "report/writer.h"

#include <inttypes.h>
#include <math.h>

/* Workers in a row that have all the same. */
static uint32_t alike(const ccl_report_training_t *r, uint32_t first) {
    const ccl_training_worker_t *a = &r->result->workers[first];
    uint32_t n = 1;

    for (; first + n < r->result->nworkers; n++) {
        const ccl_training_worker_t *b = a + n;

        if (a->stage != b->stage || a->speed_per_s != b->speed_per_s || a->most != b->most ||
            a->batches != b->batches || a->equal != b->equal)
            break;
    }
    return n;
}

static const char *id_of(const ccl_topology_t *topo, uint32_t rank) {
    return topo->devices[topo->rank_device[rank]].id;
}

static const char *model_of(const ccl_topology_t *topo, uint32_t rank) {
    uint32_t model = topo->devices[topo->rank_device[rank]].model;

    return model == CCL_NONE ? "" : topo->gpu_models[model].name;
}

static const char *limit(uint64_t most, char *out, size_t out_len) {
    if (most == CCL_BALANCE_ANY)
        snprintf(out, out_len, "-");
    else
        snprintf(out, out_len, "%" PRIu64, most);
    return out;
}

static ccl_table_t *workers_table(const ccl_report_training_t *r, bool folded) {
    static const char *const headers[] = {"stage", "GPUs",     "model", "speed(1/s)",
                                          "limit", "balanced", "equal", "compute(us)"};
    ccl_table_t *table = ccl_table_create();
    uint32_t step = 1;

    if (!table)
        return NULL;
    for (size_t h = 0; h < CCL_ARRAY_LEN(headers); h++)
        ccl_table_column(table, headers[h], h == 1 || h == 2 ? CCL_ALIGN_LEFT : CCL_ALIGN_RIGHT);
    for (uint32_t w = 0; w < r->result->nworkers; w += step) {
        const ccl_training_worker_t *a = &r->result->workers[w], *z;
        char number[40], most[40];

        step = folded ? alike(r, w) : 1;
        z = a + step - 1;
        ccl_table_row(table);
        ccl_table_cell(table, "%u", a->stage);
        if (step == 1 && a->nranks == 1)
            ccl_table_cell(table, "%s", id_of(r->topo, a->rank));
        else
            ccl_table_cell(table, "%s .. %s", id_of(r->topo, a->rank),
                           id_of(r->topo, z->rank + z->nranks - 1));
        ccl_table_cell(table, "%s", model_of(r->topo, a->rank));
        ccl_table_cell(table, "%s", ccl_i_number(a->speed_per_s, number, sizeof(number)));
        ccl_table_cell(table, "%s", limit(a->most, most, sizeof(most)));
        ccl_table_cell(table, "%" PRIu64, a->batches);
        ccl_table_cell(table, "%" PRIu64, a->equal);
        ccl_table_cell(table, "%.0f", a->compute_s * 1e6);
    }
    return table;
}

static ccl_table_t *collectives_table(const ccl_report_training_t *r) {
    static const char *const headers[] = {"stage", "part", "what", "collective", "groups",
                                          "ranks", "size", "by",   "time(us)",   "times"};
    ccl_table_t *table = ccl_table_create();

    if (!table)
        return NULL;
    for (size_t h = 0; h < CCL_ARRAY_LEN(headers); h++)
        ccl_table_column(table, headers[h],
                         (h >= 1 && h <= 3) || h == 7 ? CCL_ALIGN_LEFT : CCL_ALIGN_RIGHT);
    for (uint32_t c = 0; c < r->result->ncollectives; c++) {
        const ccl_training_collective_t *k = &r->result->collectives[c];
        char a[40];

        ccl_table_row(table);
        ccl_table_cell(table, "%u", k->stage);
        ccl_table_cell(table, "%s", k->part);
        ccl_table_cell(table, "%s", k->what);
        ccl_table_cell(table, "%s", k->name);
        ccl_table_cell(table, "%u", k->ngroups);
        ccl_table_cell(table, "%u", k->nranks);
        ccl_table_cell(table, "%.4gMB", k->size_bytes / 1e6);
        ccl_table_cell(table, "%s", k->by);
        ccl_table_cell(table, "%s", ccl_i_us(k->time_s, a, sizeof(a)));
        ccl_table_cell(table, "%g", k->times);
    }
    return table;
}

static ccl_table_t *steps_table(const ccl_report_training_t *r) {
    static const char *const headers[] = {"step",       "micro-batches", "time(ms)", "compute(ms)",
                                          "tensor(ms)", "pipeline(ms)",  "data(ms)", "a second"};
    ccl_table_t *table = ccl_table_create();

    if (!table)
        return NULL;
    for (size_t h = 0; h < CCL_ARRAY_LEN(headers); h++)
        ccl_table_column(table, headers[h], h ? CCL_ALIGN_RIGHT : CCL_ALIGN_LEFT);
    for (uint32_t s = 0; s < r->result->nsteps; s++) {
        const ccl_training_step_t *k = &r->result->steps[s];
        const double ms[] = {k->time_s, k->compute_s, k->tensor_s, k->pipeline_s, k->data_s};

        ccl_table_row(table);
        ccl_table_cell(table, s < 2 ? "%s" : "%s alone", k->name);
        ccl_table_cell(table, "%" PRIu64, k->total);
        for (size_t i = 0; i < CCL_ARRAY_LEN(ms); i++)
            ccl_table_cell(table, k->status == CCL_OK ? "%.2f" : "-", ms[i] * 1e3);
        ccl_table_cell(table, k->status == CCL_OK ? "%.2f" : "-", k->per_s);
    }
    return table;
}

static ccl_status_t emit(ccl_table_t *table, ccl_report_format_t format, ccl_text_t *out,
                         ccl_error_t *err) {
    ccl_status_t status = table ? ccl_i_table_emit(table, format, out, err) : ccl_fail_nomem(err);

    ccl_table_destroy(table);
    return status;
}

static ccl_status_t text(const ccl_report_training_t *r, ccl_text_t *out, ccl_error_t *err) {
    const ccl_training_result_t *t = r->result;

    ccl_text_printf(out, "%s on %s (%u GPUs), %" PRIu64 " micro-batches a step, by %s\n\n",
                    r->training->name, r->topo->name, r->topo->nranks, r->training->total,
                    ccl_balance_rule_name(r->rule));
    CCL_TRY(emit(workers_table(r, true), CCL_REPORT_TEXT, out, err));
    if (t->makespan_s > t->best_makespan_s * (1 + 1e-9))
        ccl_text_printf(out, "the best split computes for %.0f us: --rule makespan\n",
                        t->best_makespan_s * 1e6);
    if (t->ncollectives > 0) {
        ccl_text_printf(out, "\n");
        CCL_TRY(emit(collectives_table(r), CCL_REPORT_TEXT, out, err));
    }
    ccl_text_printf(out, "\n");
    CCL_TRY(emit(steps_table(r), CCL_REPORT_TEXT, out, err));
    if (isfinite(t->speedup))
        ccl_text_printf(out, "balanced over equal: %.3f times as fast\n", t->speedup);
    if (isfinite(t->efficiency))
        ccl_text_printf(out, "efficiency: %.1f %% of the vendors' throughputs together\n",
                        t->efficiency * 100);
    return ccl_i_text_status(out, err);
}

/* ---------------------------------------------------------------- JSON */

static void json_workers(ccl_i_json_t *json, const ccl_report_training_t *r) {
    ccl_i_json_array(json, "workers", false);
    for (uint32_t w = 0; w < r->result->nworkers; w++) {
        const ccl_training_worker_t *k = &r->result->workers[w];

        ccl_i_json_object(json, NULL, true);
        ccl_i_json_u64(json, "stage", k->stage);
        ccl_i_json_u64(json, "rank", k->rank);
        ccl_i_json_u64(json, "nranks", k->nranks);
        ccl_i_json_string(json, "gpu", id_of(r->topo, k->rank));
        ccl_i_json_string(json, "model", model_of(r->topo, k->rank));
        ccl_i_json_number(json, "speed_per_s", k->speed_per_s);
        if (k->most == CCL_BALANCE_ANY)
            ccl_i_json_null(json, "limit");
        else
            ccl_i_json_u64(json, "limit", k->most);
        ccl_i_json_u64(json, "balanced", k->batches);
        ccl_i_json_u64(json, "equal", k->equal);
        ccl_i_json_number(json, "compute_s", k->compute_s);
        ccl_i_json_close_object(json);
    }
    ccl_i_json_close_array(json);
}

static void json_collectives(ccl_i_json_t *json, const ccl_report_training_t *r) {
    ccl_i_json_array(json, "collectives", false);
    for (uint32_t c = 0; c < r->result->ncollectives; c++) {
        const ccl_training_collective_t *k = &r->result->collectives[c];

        ccl_i_json_object(json, NULL, true);
        ccl_i_json_u64(json, "stage", k->stage);
        ccl_i_json_string(json, "part", k->part);
        ccl_i_json_string(json, "what", k->what);
        ccl_i_json_string(json, "collective", k->name);
        ccl_i_json_u64(json, "groups", k->ngroups);
        ccl_i_json_u64(json, "nranks", k->nranks);
        ccl_i_json_number(json, "size_bytes", k->size_bytes);
        ccl_i_json_string(json, "by", k->by);
        ccl_i_json_number(json, "time_s", k->time_s);
        ccl_i_json_number(json, "times", k->times);
        ccl_i_json_close_object(json);
    }
    ccl_i_json_close_array(json);
}

static void json_steps(ccl_i_json_t *json, const ccl_report_training_t *r) {
    ccl_i_json_array(json, "steps", false);
    for (uint32_t s = 0; s < r->result->nsteps; s++) {
        const ccl_training_step_t *k = &r->result->steps[s];
        bool ok = k->status == CCL_OK;

        ccl_i_json_object(json, NULL, true);
        ccl_i_json_string(json, "step", k->name);
        ccl_i_json_string(json, "status", ccl_i_status_word(k->status));
        ccl_i_json_u64(json, "micro_batches", k->total);
        ccl_i_json_number(json, "time_s", ok ? k->time_s : NAN);
        ccl_i_json_number(json, "compute_s", ok ? k->compute_s : NAN);
        ccl_i_json_number(json, "tensor_s", ok ? k->tensor_s : NAN);
        ccl_i_json_number(json, "pipeline_s", ok ? k->pipeline_s : NAN);
        ccl_i_json_number(json, "data_s", ok ? k->data_s : NAN);
        ccl_i_json_number(json, "per_s", ok ? k->per_s : NAN);
        ccl_i_json_close_object(json);
    }
    ccl_i_json_close_array(json);
}

ccl_status_t ccl_report_training(const ccl_report_training_t *training,
                                 const ccl_report_style_t *style, ccl_text_t *out,
                                 ccl_error_t *err) {
    ccl_i_json_t json;

    if (style->format == CCL_REPORT_TEXT)
        return text(training, out, err);
    if (style->format == CCL_REPORT_CSV)
        return emit(workers_table(training, false), CCL_REPORT_CSV, out, err);
    ccl_i_json_begin(&json, out);
    ccl_i_json_schema(&json, "ccllab/balance/1");
    ccl_i_json_string(&json, "topology", training->topo->name);
    ccl_i_json_u64(&json, "nranks", training->topo->nranks);
    ccl_i_json_string(&json, "plan", training->training->name);
    ccl_i_json_string(&json, "rule", ccl_balance_rule_name(training->rule));
    ccl_i_json_u64(&json, "micro_batches", training->training->total);
    ccl_i_json_number(&json, "makespan_s", training->result->makespan_s);
    ccl_i_json_number(&json, "best_makespan_s", training->result->best_makespan_s);
    ccl_i_json_number(&json, "speedup", training->result->speedup);
    ccl_i_json_number(&json, "efficiency", training->result->efficiency);
    json_workers(&json, training);
    json_collectives(&json, training);
    json_steps(&json, training);
    ccl_i_json_end(&json);
    return ccl_i_text_status(out, err);
}
