/* What `tune` found: the best per size, fronts, what knobs are worth. */
#include "report/writer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const ccl_report_tuning_tables[] = {"best", "blocks", "synthesis", "knobs",
                                                "runs", "replay", "ranks",     NULL};
enum {
    TABLE_BEST,
    TABLE_BLOCKS,
    TABLE_SYNTHESIS,
    TABLE_KNOBS,
    TABLE_RUNS,
    TABLE_REPLAY,
    TABLE_RANKS
};

static const ccl_tune_run_t *run_of(const ccl_tuning_t *t, uint32_t run) {
    return run == CCL_NONE ? NULL : &t->runs[run];
}

/** Columns of one table, in the same words for text, CSV and JSON. */
static const char *const run_columns[] = {
    "size_bytes", "time_s", "busbw_GBps", "bound_s",  "gap",     "thread_blocks", "batches",
    "synth_s",    "eval_s", "status",     "estimate", "resumed", "settings",      NULL};

static double value_of(const ccl_tuning_t *t, const ccl_tune_run_t *run, uint32_t column) {
    const ccl_point_result_t *r = &run->result;
    bool ran = r->status == CCL_OK;
    const double values[] = {t->sizes_bytes[run->size],
                             ran ? r->time_s : NAN,
                             ran ? r->busbw_GBps : NAN,
                             r->bound_s,
                             ran ? ccl_i_gap(r->time_s, r->bound_s) : NAN,
                             ran ? r->thread_blocks : NAN,
                             ran ? r->batches : NAN,
                             r->synth_s,
                             r->eval_s};
    return values[column];
}
enum { NUMBERS = 9 };

static void json_run(ccl_i_json_t *json, const char *key, const ccl_tuning_t *t,
                     const ccl_tune_run_t *run) {
    if (!run) {
        ccl_i_json_null(json, key);
        return;
    }
    ccl_i_json_object(json, key, true);
    for (uint32_t c = 0; c < NUMBERS; c++)
        ccl_i_json_number(json, run_columns[c], value_of(t, run, c));
    ccl_i_json_string(json, "status", ccl_status_name(run->result.status));
    ccl_i_json_bool(json, "estimate", run->estimate);
    ccl_i_json_bool(json, "resumed", run->resumed);
    ccl_i_json_string(json, "settings", t->points[run->point].settings);
    ccl_i_json_close_object(json);
}

/** The runs of a table, in order; malloc'ed. */
static ccl_status_t rows_of(const ccl_tuning_t *t, size_t table, uint32_t **out, uint32_t *n_out,
                            ccl_error_t *err) {
    uint32_t *rows = malloc(((size_t)t->nruns + 1) * sizeof *rows);
    uint32_t n = 0;
    ccl_status_t status = rows ? CCL_OK : ccl_fail_nomem(err);

    for (uint32_t s = 0; s < t->nsizes && status == CCL_OK && table != TABLE_RUNS; s++) {
        uint32_t *front = NULL, nfront = 0;

        if (table == TABLE_BEST) {
            if (t->best[s] != CCL_NONE)
                rows[n++] = t->best[s];
            continue;
        }
        status =
            ccl_tuning_front(t, s, table == TABLE_BLOCKS ? CCL_FRONT_BLOCKS : CCL_FRONT_SYNTHESIS,
                             &front, &nfront, err);
        if (status == CCL_OK && nfront > 0)
            memcpy(rows + n, front, nfront * sizeof *rows);
        n += nfront;
        free(front);
    }
    for (uint32_t i = 0; i < t->nruns && status == CCL_OK && table == TABLE_RUNS; i++)
        rows[n++] = i;
    if (status != CCL_OK) {
        free(rows);
        return status;
    }
    *out = rows;
    *n_out = n;
    return CCL_OK;
}

static ccl_status_t json_rows(ccl_i_json_t *json, const ccl_tuning_t *t, size_t table,
                              ccl_error_t *err) {
    uint32_t *rows = NULL, n = 0;

    CCL_TRY(rows_of(t, table, &rows, &n, err));
    ccl_i_json_array(json, ccl_report_tuning_tables[table], false);
    for (uint32_t i = 0; i < n; i++)
        json_run(json, NULL, t, &t->runs[rows[i]]);
    ccl_i_json_close_array(json);
    free(rows);
    return CCL_OK;
}

static ccl_status_t json(const ccl_report_tuning_t *about, ccl_text_t *out, ccl_error_t *err) {
    const ccl_tuning_t *t = about->tuning;
    ccl_knob_worth_t *worth = NULL;
    uint32_t n = 0;
    char text[64];
    ccl_i_json_t json;

    CCL_TRY(ccl_tuning_sensitivity(t, &worth, &n, err));
    ccl_i_json_begin(&json, out);
    ccl_i_json_schema(&json, "ccllab/tune/1");
    ccl_i_json_string(&json, "topology", about->topology);
    ccl_i_json_string(&json, "collective", about->collective);
    ccl_i_json_u64(&json, "nranks", about->nranks);
    ccl_i_json_string(&json, "strategy", about->strategy);
    ccl_i_json_u64(&json, "seed", about->seed);
    ccl_i_json_string(&json, "stopped", t->stopped);
    ccl_i_json_number(&json, "space_points", t->space_points);
    ccl_i_json_u64(&json, "schedules", t->schedules);
    ccl_i_json_number(&json, "synth_s", t->synth_s);
    ccl_i_json_number(&json, "eval_s", t->eval_s);
    ccl_i_json_number(&json, "lower_s", t->lower_s);
    ccl_i_json_number(&json, "simulate_s", t->simulate_s);
    ccl_i_json_number(&json, "notebook_s", t->notebook_s);
    ccl_i_json_array(&json, "sizes", false);
    for (uint32_t s = 0; s < t->nsizes; s++) {
        ccl_i_json_object(&json, NULL, false);
        ccl_i_json_number(&json, "size_bytes", t->sizes_bytes[s]);
        ccl_i_json_number(&json, "bound_s", t->bound_s[s]);
        ccl_i_json_bool(&json, "within_gap", t->done[s]);
        json_run(&json, "best", t, run_of(t, t->best[s]));
        json_run(&json, "untuned", t, run_of(t, t->untuned[s]));
        ccl_i_json_close_object(&json);
    }
    ccl_i_json_close_array(&json);
    ccl_i_json_array(&json, "knobs", false);
    for (uint32_t i = 0; i < n; i++) {
        ccl_knob_text(worth[i].knob, worth[i].value, text, sizeof(text));
        ccl_i_json_object(&json, NULL, true);
        ccl_i_json_string(&json, "knob", ccl_knob_name(worth[i].knob));
        ccl_i_json_string(&json, "value", text);
        ccl_i_json_u64(&json, "runs", worth[i].runs);
        ccl_i_json_u64(&json, "best_sizes", worth[i].best_sizes);
        ccl_i_json_number(&json, "slowdown", worth[i].slowdown);
        ccl_i_json_close_object(&json);
    }
    ccl_i_json_close_array(&json);
    free(worth);
    CCL_TRY(json_rows(&json, t, TABLE_BLOCKS, err));
    CCL_TRY(json_rows(&json, t, TABLE_SYNTHESIS, err));
    CCL_TRY(json_rows(&json, t, TABLE_RUNS, err));
    if (about->replay)
        ccl_i_replay_json(&json, about->device, t, about->replay);
    ccl_i_json_end(&json);
    return ccl_i_text_status(out, err);
}

/* ---------------------------------------------------------------- tables */

static ccl_status_t knobs_table(const ccl_tuning_t *t, ccl_table_t *table, ccl_error_t *err) {
    ccl_knob_worth_t *worth = NULL;
    uint32_t n = 0;
    char text[64];

    CCL_TRY(ccl_tuning_sensitivity(t, &worth, &n, err));
    ccl_table_column(table, "knob", CCL_ALIGN_LEFT);
    ccl_table_column(table, "value", CCL_ALIGN_LEFT);
    ccl_table_column(table, "runs", CCL_ALIGN_RIGHT);
    ccl_table_column(table, "best_sizes", CCL_ALIGN_RIGHT);
    ccl_table_column(table, "slowdown", CCL_ALIGN_RIGHT);
    for (uint32_t i = 0; i < n; i++) {
        ccl_knob_text(worth[i].knob, worth[i].value, text, sizeof(text));
        ccl_table_row(table);
        ccl_table_cell(table, "%s", ccl_knob_name(worth[i].knob));
        ccl_table_cell(table, "%s", text);
        ccl_table_cell(table, "%u", worth[i].runs);
        ccl_table_cell(table, "%u", worth[i].best_sizes);
        ccl_table_cell(table, "%.3f", worth[i].slowdown);
    }
    free(worth);
    return CCL_OK;
}

static ccl_status_t csv_runs(const ccl_tuning_t *t, size_t which, ccl_table_t *table,
                             ccl_error_t *err) {
    uint32_t *rows = NULL, n = 0;
    char text[40];

    CCL_TRY(rows_of(t, which, &rows, &n, err));
    for (uint32_t c = 0; run_columns[c]; c++)
        ccl_table_column(table, run_columns[c], CCL_ALIGN_LEFT);
    for (uint32_t i = 0; i < n; i++) {
        const ccl_tune_run_t *run = &t->runs[rows[i]];

        ccl_table_row(table);
        for (uint32_t c = 0; c < NUMBERS; c++)
            ccl_table_cell(table, "%s", ccl_i_number(value_of(t, run, c), text, sizeof(text)));
        ccl_table_cell(table, "%s", ccl_status_name(run->result.status));
        ccl_table_cell(table, "%s", run->estimate ? "true" : "false");
        ccl_table_cell(table, "%s", run->resumed ? "true" : "false");
        ccl_table_cell(table, "%s", t->points[run->point].settings);
    }
    free(rows);
    return CCL_OK;
}

static ccl_status_t best_table(const ccl_tuning_t *t, ccl_table_t *table) {
    static const char *const heads[] = {"size", "time(us)",    "busbw(GB/s)", "bound(us)",
                                        "gap",  "untuned(us)", "gain",        "blocks"};
    char text[40];

    ccl_i_table_columns(table, heads, CCL_ARRAY_LEN(heads), 0);
    ccl_table_column(table, "settings", CCL_ALIGN_LEFT);
    for (uint32_t s = 0; s < t->nsizes; s++) {
        const ccl_tune_run_t *best = run_of(t, t->best[s]), *untuned = run_of(t, t->untuned[s]);

        ccl_table_row(table);
        ccl_table_cell(table, "%s", ccl_format_bytes(t->sizes_bytes[s], text, sizeof(text)));
        if (!best) {
            ccl_table_cell(table, "nobody could run");
            continue;
        }
        ccl_table_cell(table, "%s", ccl_i_us(best->result.time_s, text, sizeof(text)));
        ccl_table_cell(table, "%s", ccl_i_GBps(best->result.busbw_GBps * 1e9, text, sizeof(text)));
        ccl_table_cell(table, "%s", ccl_i_us(best->result.bound_s, text, sizeof(text)));
        ccl_table_cell(
            table, "%s",
            ccl_i_gap_text(best->result.time_s, best->result.bound_s, text, sizeof(text)));
        ccl_table_cell(table, "%s",
                       untuned ? ccl_i_us(untuned->result.time_s, text, sizeof(text)) : "-");
        if (untuned)
            ccl_table_cell(table, "%.1f%%",
                           (1 - best->result.time_s / untuned->result.time_s) * 100);
        else
            ccl_table_cell(table, "-");
        ccl_table_cell(table, "%u", best->result.thread_blocks);
        ccl_table_cell(table, "%s", t->points[best->point].settings);
    }
    return CCL_OK;
}

static ccl_status_t front_table(const ccl_tuning_t *t, size_t which, ccl_table_t *table,
                                ccl_error_t *err) {
    uint32_t *rows = NULL, n = 0;
    char text[40];

    CCL_TRY(rows_of(t, which, &rows, &n, err));
    ccl_table_column(table, "size", CCL_ALIGN_RIGHT);
    ccl_table_column(table, which == TABLE_BLOCKS ? "blocks" : "synthesis(ms)", CCL_ALIGN_RIGHT);
    ccl_table_column(table, "time(us)", CCL_ALIGN_RIGHT);
    ccl_table_column(table, "settings", CCL_ALIGN_LEFT);
    for (uint32_t i = 0; i < n; i++) {
        const ccl_tune_run_t *run = &t->runs[rows[i]];

        ccl_table_row(table);
        ccl_table_cell(table, "%s",
                       ccl_format_bytes(t->sizes_bytes[run->size], text, sizeof(text)));
        if (which == TABLE_BLOCKS)
            ccl_table_cell(table, "%u", run->result.thread_blocks);
        else
            ccl_table_cell(table, "%.3g", run->result.synth_s * 1e3);
        ccl_table_cell(table, "%s", ccl_i_us(run->result.time_s, text, sizeof(text)));
        ccl_table_cell(table, "%s", t->points[run->point].settings);
    }
    free(rows);
    return CCL_OK;
}

static ccl_status_t one_table(const ccl_report_tuning_t *about, size_t which,
                              ccl_report_format_t format, ccl_text_t *out, ccl_error_t *err) {
    const ccl_tuning_t *t = about->tuning;
    ccl_table_t *table = ccl_table_create();
    ccl_status_t status;

    if (!table)
        return ccl_fail_nomem(err);
    if (which == TABLE_REPLAY)
        status = ccl_i_replay_table(t, about->replay, format, table, err);
    else if (which == TABLE_RANKS)
        status = ccl_i_ranks_table(t, about->replay, format, table, err);
    else if (which == TABLE_KNOBS)
        status = knobs_table(t, table, err);
    else if (format == CCL_REPORT_CSV)
        status = csv_runs(t, which, table, err);
    else if (which == TABLE_BEST)
        status = best_table(t, table);
    else
        status = front_table(t, which, table, err);
    if (status == CCL_OK)
        status = ccl_i_table_emit(table, format, out, err);
    ccl_table_destroy(table);
    return status;
}

static void head(const ccl_report_tuning_t *about, ccl_text_t *out) {
    static const struct {
        const char *word, *told;
    } why[] = {{"space", "nothing is left to try"},
               {"budget", "the budget is spent"},
               {"gap", "no size is left"},
               {"interrupted", "interrupted"}};
    const ccl_tuning_t *t = about->tuning;
    const char *told = t->stopped;
    uint32_t resumed = 0, estimates = 0, done = 0;

    for (uint32_t s = 0; s < t->nsizes; s++)
        done += t->done[s];
    for (uint32_t i = 0; i < t->nruns; i++) {
        resumed += t->runs[i].resumed;
        estimates += t->runs[i].estimate;
    }
    for (size_t i = 0; i < CCL_ARRAY_LEN(why); i++)
        if (strcmp(why[i].word, t->stopped) == 0)
            told = why[i].told;
    ccl_text_printf(out,
                    "%s on %s, %u GPUs: %s over %.6g points, %u runs (%u of them estimates, %u "
                    "from the notebook), %u schedules; %s",
                    about->collective, about->topology, about->nranks, about->strategy,
                    t->space_points, t->nruns, estimates, resumed, t->schedules, told);
    if (done)
        ccl_text_printf(out, "; %u of %u sizes done: within %.3g%% of their lower bounds", done,
                        t->nsizes, 100 * t->gap);
    ccl_text_printf(out, "\n\n");
}

ccl_status_t ccl_report_tuning(const ccl_report_tuning_t *about, const ccl_report_style_t *style,
                               ccl_text_t *out, ccl_error_t *err) {
    static const char *const titles[] = {NULL, "time against thread blocks",
                                         "time against synthesis",
                                         "knobs: best time with a value / best time, mean over "
                                         "sizes"};
    size_t which = 0;

    if (style->format == CCL_REPORT_JSON)
        return json(about, out, err);
    if (style->format == CCL_REPORT_CSV) {
        CCL_TRY(ccl_i_table_choice(ccl_report_tuning_tables, style->table, &which, err));
        return one_table(about, which, style->format, out, err);
    }
    head(about, out);
    for (which = TABLE_BEST; which <= TABLE_KNOBS; which++) {
        if (titles[which])
            ccl_text_printf(out, "\n%s\n", titles[which]);
        CCL_TRY(one_table(about, which, style->format, out, err));
    }
    if (about->replay) {
        ccl_i_replay_head(about->device, about->replay, out);
        CCL_TRY(one_table(about, TABLE_REPLAY, style->format, out, err));
        ccl_i_replay_constants(about->replay, out);
    }
    if (about->replay && about->replay->nranked) {
        ccl_i_ranks_head(about->replay, out);
        CCL_TRY(one_table(about, TABLE_RANKS, style->format, out, err));
    }
    return ccl_i_text_status(out, err);
}
