/* What verify and synth found. */
#include "report/writer.h"

#include <string.h>

static ccl_status_t verdict_json(const ccl_report_verdict_t *v, ccl_text_t *out, ccl_error_t *err) {
    ccl_i_json_t json;
    char text[1200];

    ccl_i_json_begin(&json, out);
    ccl_i_json_schema(&json, "ccllab/verify/1");
    ccl_i_json_string(&json, "input", v->input);
    ccl_i_json_string(&json, "form", v->form);
    ccl_i_json_bool(&json, "valid", v->verdict && v->verdict->valid);
    ccl_i_json_string(&json, "collective", v->collective);
    if (v->nranks)
        ccl_i_json_u64(&json, "nranks", v->nranks);
    else
        ccl_i_json_null(&json, "nranks");
    if (v->verdict) {
        ccl_i_json_fault(&json, v->verdict);
    } else {
        ccl_error_format(v->malformed, text, sizeof(text));
        ccl_i_json_object(&json, "fault", true);
        ccl_i_json_string(&json, "kind", "malformed");
        ccl_i_json_null(&json, "rank");
        ccl_i_json_null(&json, "thread_block");
        ccl_i_json_null(&json, "step");
        ccl_i_json_null(&json, "chunk");
        ccl_i_json_index(&json, "line",
                         v->malformed->line > 0 ? (uint32_t)v->malformed->line : CCL_NONE);
        ccl_i_json_index(&json, "column",
                         v->malformed->column > 0 ? (uint32_t)v->malformed->column : CCL_NONE);
        ccl_i_json_string(&json, "text", text);
        ccl_i_json_close_object(&json);
    }
    ccl_i_json_array(&json, "warnings", false);
    for (uint32_t i = 0; v->verdict && i < v->verdict->nwarnings && i < CCL_MAX_WARNINGS; i++)
        ccl_i_json_string(&json, NULL, v->verdict->warnings[i]);
    ccl_i_json_close_array(&json);
    ccl_i_json_end(&json);
    return ccl_i_text_status(out, err);
}

static ccl_status_t verdict_csv(const ccl_report_verdict_t *v, ccl_text_t *out, ccl_error_t *err) {
    static const char *const headers[] = {"input", "valid", "collective",   "nranks",
                                          "kind",  "rank",  "thread_block", "step",
                                          "chunk", "text",  "warnings"};
    const ccl_fault_t *fault = v->verdict && !v->verdict->valid ? &v->verdict->fault : NULL;
    ccl_table_t *table = ccl_table_create();
    ccl_status_t status;
    char text[1200] = "";

    if (!table)
        return ccl_fail_nomem(err);
    ccl_i_table_columns(table, headers, CCL_ARRAY_LEN(headers), CCL_ARRAY_LEN(headers));
    ccl_table_row(table);
    ccl_table_cell(table, "%s", v->input);
    ccl_table_cell(table, "%s", v->verdict && v->verdict->valid ? "true" : "false");
    ccl_table_cell(table, "%s", v->collective ? v->collective : "");
    ccl_table_cell(table, "%s", ccl_i_index(v->nranks ? v->nranks : CCL_NONE, text, sizeof(text)));
    if (fault) {
        ccl_table_cell(table, "%s", fault->kind);
        ccl_table_cell(table, "%s", ccl_i_index(fault->rank, text, sizeof(text)));
        ccl_table_cell(table, "%s", ccl_i_index(fault->tb, text, sizeof(text)));
        ccl_table_cell(table, "%s", ccl_i_index(fault->step, text, sizeof(text)));
        ccl_table_cell(table, "%s", ccl_i_index(fault->chunk, text, sizeof(text)));
        ccl_table_cell(table, "%s", fault->text);
    } else {
        ccl_table_cell(table, "%s", v->verdict ? "" : "malformed");
        for (int i = 0; i < 4; i++)
            ccl_table_cell(table, "%s", "");
        text[0] = '\0';
        if (!v->verdict)
            ccl_error_format(v->malformed, text, sizeof(text));
        ccl_table_cell(table, "%s", text);
    }
    ccl_table_cell(table, "%u", v->verdict ? v->verdict->nwarnings : 0);
    status = ccl_i_table_emit(table, CCL_REPORT_CSV, out, err);
    ccl_table_destroy(table);
    return status;
}

ccl_status_t ccl_report_verdict(const ccl_report_verdict_t *v, const ccl_report_style_t *style,
                                ccl_text_t *out, ccl_error_t *err) {
    char text[1200];

    if (style->format == CCL_REPORT_JSON)
        return verdict_json(v, out, err);
    if (style->format == CCL_REPORT_CSV)
        return verdict_csv(v, out, err);
    if (!v->verdict) {
        ccl_error_format(v->malformed, text, sizeof(text));
        ccl_text_printf(out, "invalid: malformed %s: %s\n", v->form, text);
    } else if (v->verdict->valid) {
        ccl_text_printf(out, "valid: %s is a correct %s for %u ranks (%s)\n", v->input,
                        v->collective, v->nranks, v->form);
    } else {
        ccl_text_printf(out, "invalid: %s: %s\n", v->verdict->fault.kind, v->verdict->fault.text);
    }
    return ccl_i_text_status(out, err);
}

/* ---------------------------------------------------------------- synth */

static uint32_t most_blocks(const ccl_program_t *program) {
    uint32_t most = 0;

    for (uint32_t r = 0; r < program->nranks; r++) {
        uint32_t n = program->rank_first_tb[r + 1] - program->rank_first_tb[r];

        if (n > most)
            most = n;
    }
    return most;
}

static ccl_status_t synth_csv(const ccl_report_synth_t *made, ccl_text_t *out, ccl_error_t *err) {
    static const char *const headers[] = {"output",    "synthesizer", "collective", "topology",
                                          "nranks",    "size_bytes",  "transfers",  "steps",
                                          "channels",  "limited",     "seed",       "thread_blocks",
                                          "primitives"};
    const ccl_schedule_t *s = made->schedule;
    ccl_table_t *table = ccl_table_create();
    ccl_status_t status;
    char number[40];

    if (!table)
        return ccl_fail_nomem(err);
    ccl_i_table_columns(table, headers, CCL_ARRAY_LEN(headers), CCL_ARRAY_LEN(headers));
    ccl_table_row(table);
    ccl_table_cell(table, "%s", made->output);
    ccl_table_cell(table, "%s", made->with);
    ccl_table_cell(table, "%s", s->coll->name);
    ccl_table_cell(table, "%s", made->topo->name);
    ccl_table_cell(table, "%u", s->coll->nranks);
    ccl_table_cell(table, "%s", ccl_i_number(made->size_bytes, number, sizeof(number)));
    ccl_table_cell(table, "%u", s->ntransfers);
    ccl_table_cell(table, "%u", s->nsteps);
    ccl_table_cell(table, "%u", s->nchannels);
    ccl_table_cell(table, "%s", s->limited ? "true" : "false");
    ccl_table_cell(table, "%llu", (unsigned long long)made->seed);
    ccl_table_cell(table, "%s",
                   made->program ? ccl_i_index(made->program->ntbs, number, sizeof(number)) : "");
    ccl_table_cell(table, "%s",
                   made->program ? ccl_i_index(made->program->nsteps, number, sizeof(number)) : "");
    status = ccl_i_table_emit(table, CCL_REPORT_CSV, out, err);
    ccl_table_destroy(table);
    return status;
}

/* What sketch did, in words. */
static void sketch_text(const ccl_sketch_stats_t *s, bool seconds, ccl_text_t *out) {
    ccl_text_printf(
        out,
        "sketches: %llu found%s in %u dimension%s, %llu given, %llu with solved sub-demands; "
        "dropped: %llu isomorphic "
        "(1), %.3g ways inconsistent (2), %llu relayed (3), %llu not from every root\n"
        "mixes: %llu of %llu combinations, %llu candidates, %u simulated\n",
        (unsigned long long)s->found, s->capped ? " (there are more)" : "", s->dimensions,
        s->dimensions == 1 ? "" : "s", (unsigned long long)s->given, (unsigned long long)s->solved,
        (unsigned long long)s->isomorphic, s->inconsistent, (unsigned long long)s->relayed,
        (unsigned long long)s->unreaching, (unsigned long long)s->mixes,
        (unsigned long long)s->mixes_tried, (unsigned long long)s->candidates, s->simulated);
    if (seconds)
        ccl_text_printf(out,
                        "sub-demands: %u different, %u in proven shapes, %u asked of GLPK, %u from "
                        "the cache\nseconds: symmetry %.3f, search %.3f, sub-demands %.3f, combine "
                        "%.3f, simulate %.3f\n",
                        s->sub_demands, s->shapes, s->milps, s->cached, s->symmetry_s, s->search_s,
                        s->solve_s, s->combine_s, s->simulate_s);
}

static void sketch_json(const ccl_sketch_stats_t *s, bool seconds, ccl_i_json_t *json) {
    ccl_i_json_object(json, "sketch", false);
    ccl_i_json_u64(json, "dimensions", s->dimensions);
    ccl_i_json_u64(json, "visited", s->visited);
    ccl_i_json_u64(json, "found", s->found);
    ccl_i_json_u64(json, "given", s->given);
    ccl_i_json_u64(json, "isomorphic", s->isomorphic);
    ccl_i_json_number(json, "inconsistent", s->inconsistent);
    ccl_i_json_u64(json, "relayed", s->relayed);
    ccl_i_json_u64(json, "unreaching", s->unreaching);
    ccl_i_json_bool(json, "capped", s->capped);
    ccl_i_json_u64(json, "mixes_tried", s->mixes_tried);
    ccl_i_json_u64(json, "mixes", s->mixes);
    ccl_i_json_u64(json, "candidates", s->candidates);
    ccl_i_json_u64(json, "simulated", s->simulated);
    ccl_i_json_u64(json, "solved", s->solved);
    ccl_i_json_u64(json, "sub_demands", s->sub_demands);
    ccl_i_json_u64(json, "shapes", s->shapes);
    if (seconds) { /* else the same on every machine, whatever its cache holds */
        ccl_i_json_u64(json, "milps", s->milps);
        ccl_i_json_u64(json, "cached", s->cached);
        ccl_i_json_number(json, "solve_s", s->solve_s);
        ccl_i_json_number(json, "symmetry_s", s->symmetry_s);
        ccl_i_json_number(json, "search_s", s->search_s);
        ccl_i_json_number(json, "combine_s", s->combine_s);
        ccl_i_json_number(json, "simulate_s", s->simulate_s);
    }
    ccl_i_json_close_object(json);
}

static void c2c_text(const ccl_c2c_stats_t *s, ccl_text_t *out) {
    ccl_text_printf(out,
                    "c2c: at %.0f bytes links are busy for %.6g us in the start, %.6g between "
                    "clusters, %.6g in the end,\n  the busiest for %.6g in all, whatever the "
                    "order; one phase behind the other takes %.2f times that or more\n",
                    s->size_bytes, 1e6 * s->phase_s[0], 1e6 * s->phase_s[1], 1e6 * s->phase_s[2],
                    1e6 * s->together_s, s->overlap_gain);
}

static void c2c_json(const ccl_c2c_stats_t *s, ccl_i_json_t *json) {
    ccl_i_json_object(json, "c2c", false);
    ccl_i_json_number(json, "size_bytes", s->size_bytes);
    ccl_i_json_number(json, "start_s", s->phase_s[0]);
    ccl_i_json_number(json, "between_s", s->phase_s[1]);
    ccl_i_json_number(json, "end_s", s->phase_s[2]);
    ccl_i_json_number(json, "together_s", s->together_s);
    ccl_i_json_number(json, "overlap_gain", s->overlap_gain);
    ccl_i_json_close_object(json);
}

ccl_status_t ccl_report_synth(const ccl_report_synth_t *made, const ccl_report_style_t *style,
                              ccl_text_t *out, ccl_error_t *err) {
    const ccl_schedule_t *s = made->schedule;
    ccl_i_json_t json;

    if (style->format == CCL_REPORT_CSV)
        return synth_csv(made, out, err);
    if (style->format == CCL_REPORT_TEXT) {
        ccl_text_printf(out,
                        "%s: %s by %s on %s: %u ranks, %u transfer%s in %u step%s, %u channel%s%s",
                        made->output, s->coll->name, made->with, made->topo->name, s->coll->nranks,
                        s->ntransfers, s->ntransfers == 1 ? "" : "s", s->nsteps,
                        s->nsteps == 1 ? "" : "s", s->nchannels, s->nchannels == 1 ? "" : "s",
                        s->limited ? " (limit reached: best so far)" : "");
        if (made->program)
            ccl_text_printf(out, ", at most %u thread blocks a GPU", most_blocks(made->program));
        ccl_text_printf(out, "\n");
        if (made->stats && made->stats->parts)
            ccl_text_printf(
                out,
                "search: %u steps at first, %u now, %u %s; %u counterexamples, %u solver "
                "calls of %.3f s in all\n",
                made->stats->start_steps, made->stats->steps, made->stats->bound_steps,
                made->stats->steps > made->stats->bound_steps ? "at least" : "proven least",
                made->stats->counterexamples, made->stats->solver_calls, made->stats->solver_s);
        if (made->stats && made->stats->sketch.runs)
            sketch_text(&made->stats->sketch, made->seconds, out);
        if (made->stats && made->stats->c2c.runs && made->seconds)
            c2c_text(&made->stats->c2c, out);
        return ccl_i_text_status(out, err);
    }
    ccl_i_json_begin(&json, out);
    ccl_i_json_schema(&json, "ccllab/synth/1");
    ccl_i_json_string(&json, "output", made->output);
    ccl_i_json_string(&json, "synthesizer", made->with);
    ccl_i_json_string(&json, "collective", s->coll->name);
    ccl_i_json_string(&json, "topology", made->topo->name);
    ccl_i_json_u64(&json, "nranks", s->coll->nranks);
    ccl_i_json_number(&json, "size_bytes", made->size_bytes);
    ccl_i_json_u64(&json, "transfers", s->ntransfers);
    ccl_i_json_u64(&json, "steps", s->nsteps);
    ccl_i_json_u64(&json, "channels", s->nchannels);
    ccl_i_json_bool(&json, "limited", s->limited);
    ccl_i_json_u64(&json, "seed", made->seed);
    if (made->program) {
        ccl_i_json_u64(&json, "thread_blocks", made->program->ntbs);
        ccl_i_json_u64(&json, "primitives", made->program->nsteps);
    } else {
        ccl_i_json_null(&json, "thread_blocks");
        ccl_i_json_null(&json, "primitives");
    }
    if (made->stats && made->stats->parts) {
        ccl_i_json_object(&json, "search", false);
        ccl_i_json_u64(&json, "start_steps", made->stats->start_steps);
        ccl_i_json_u64(&json, "steps", made->stats->steps);
        ccl_i_json_u64(&json, "bound_steps", made->stats->bound_steps);
        ccl_i_json_u64(&json, "counterexamples", made->stats->counterexamples);
        ccl_i_json_u64(&json, "solver_calls", made->stats->solver_calls);
        ccl_i_json_number(&json, "solver_s", made->stats->solver_s);
        ccl_i_json_close_object(&json);
    } else {
        ccl_i_json_null(&json, "search");
    }
    if (made->stats && made->stats->sketch.runs)
        sketch_json(&made->stats->sketch, made->seconds, &json);
    else
        ccl_i_json_null(&json, "sketch");
    if (made->stats && made->stats->c2c.runs)
        c2c_json(&made->stats->c2c, &json);
    else
        ccl_i_json_null(&json, "c2c");
    ccl_i_json_end(&json);
    return ccl_i_text_status(out, err);
}
