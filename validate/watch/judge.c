/* Calls beside what the model expects of them; what was computed once is kept. */
#include "validate/watch/state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *ccl_watch_state_name(ccl_watch_state_t state) {
    return state == CCL_WATCH_NORMAL ? "normal"
           : state == CCL_WATCH_SLOW ? "slow"
           : state == CCL_WATCH_FAST ? "fast"
                                     : "unknown";
}

/* ---------------------------------------------------------------- what is expected */

static void part_fini(ccl_i_watch_part_t *part) {
    ccl_predictor_destroy(part->predictor);
    ccl_topology_destroy(part->laid);
    ccl_topology_destroy(part->topo);
    part->topo = NULL;
}

static ccl_status_t make_part(ccl_watch_t *w, ccl_i_watch_part_t *part, ccl_error_t *err) {
    ccl_error_t why = CCL_ERROR_INIT;
    ccl_status_t status = part->nranks < 2 ? ccl_fail(&why, CCL_ERR_INPUT, "a single rank")
                                           : ccl_topology_take(w->topo, part->nranks, part->nnodes,
                                                               &part->topo, &why);
    if (status == CCL_OK)
        status = ccl_predictor_create(&w->ctx, part->topo, w->options.profile, w->options.channels,
                                      &part->predictor, &why);
    if (status == CCL_OK)
        ccl_predictor_nvls(part->predictor, true, w->options.registered);
    if (status == CCL_OK && w->options.profile)
        status = ccl_profile_apply(&w->ctx, w->options.profile, part->topo, &part->laid, &why);
    if (status == CCL_OK)
        return CCL_OK;
    part_fini(part);
    if (status == CCL_ERR_INPUT || status == CCL_UNSUPPORTED) {
        snprintf(part->why, sizeof part->why, "%.299s", why.text);
        return CCL_OK;
    }
    if (err)
        *err = why;
    return status;
}

/* *out NULL: not known yet. */
static ccl_status_t part_of(ccl_watch_t *w, const ccl_i_watch_group_t *g, bool known,
                            ccl_i_watch_part_t **out, ccl_error_t *err) {
    char key[40];
    snprintf(key, sizeof key, "%u|%u", g->nranks, g->nnodes);
    uint32_t at = ccl_strmap_get(w->part_keys, key);
    *out = at == CCL_NONE ? NULL : &w->parts[at];
    if (*out || known)
        return CCL_OK;
    ccl_i_watch_part_t part = {.nranks = g->nranks, .nnodes = g->nnodes};
    CCL_TRY(make_part(w, &part, err));
    if (!ccl_grow(&w->parts, &w->parts_cap, w->nparts + 1, sizeof *w->parts) ||
        !ccl_strmap_put(w->part_keys, key, (uint32_t)w->nparts)) {
        part_fini(&part);
        return ccl_fail_nomem(err);
    }
    w->parts[w->nparts] = part;
    *out = &w->parts[w->nparts++];
    return CCL_OK;
}

static ccl_status_t expect(ccl_watch_t *w, const ccl_i_watch_group_t *g, ccl_i_watch_part_t *part,
                           ccl_i_expected_t *out, ccl_error_t *err) {
    ccl_bound_options_t options = CCL_BOUND_OPTIONS_INIT;
    ccl_collective_t *coll = NULL;
    ccl_bound_t bound;
    options.size_bytes = g->size_bytes;
    CCL_TRY(ccl_predictor_run(part->predictor, g->kind, 0, g->size_bytes, NULL, &out->is, err));
    CCL_TRY(ccl_collective_create(g->kind, g->nranks, 1, 0, &coll, err));
    ccl_status_t status =
        ccl_bound(&w->ctx, part->laid ? part->laid : part->topo, coll, &options, &bound, err);
    if (status == CCL_OK) {
        out->bound_s = bound.time_s;
        ccl_bound_fini(&bound);
    }
    ccl_collective_destroy(coll);
    return status;
}

static ccl_status_t expected_of(ccl_watch_t *w, const ccl_i_watch_group_t *g,
                                ccl_i_watch_part_t *part, bool known, const ccl_i_expected_t **out,
                                ccl_error_t *err) {
    char key[100];
    snprintf(key, sizeof key, "%u|%u|%d|%.17g", g->nranks, g->nnodes, (int)g->kind, g->size_bytes);
    uint32_t at = ccl_strmap_get(w->expected_keys, key);
    *out = at == CCL_NONE ? NULL : &w->expected[at];
    if (*out || known || !part || !part->topo)
        return CCL_OK;
    ccl_i_expected_t e = {0};
    const ccl_progress_t progress = {"expected times", w->nexpected, 0, 0, 0};
    CCL_TRY(ccl_ctx_poll(&w->ctx, &progress));
    CCL_TRY(expect(w, g, part, &e, err));
    if (!ccl_grow(&w->expected, &w->expected_cap, w->nexpected + 1, sizeof *w->expected) ||
        !ccl_strmap_put(w->expected_keys, key, (uint32_t)w->nexpected))
        return ccl_fail_nomem(err);
    w->expected[w->nexpected] = e;
    *out = &w->expected[w->nexpected++];
    return CCL_OK;
}

/* ---------------------------------------------------------------- rows */

static ccl_status_t judge_group(ccl_watch_t *w, const ccl_i_watch_group_t *g, bool known,
                                ccl_arena_t *arena, ccl_watch_row_t *row, ccl_error_t *err) {
    ccl_i_watch_part_t *part;
    const ccl_i_expected_t *e;
    ccl_text_t suspect = {0};
    double us = ccl_i_group_median_us(g, &row->spread, err);
    if (us == 0)
        return CCL_ERR_NOMEM;
    CCL_TRY(part_of(w, g, known, &part, err));
    CCL_TRY(expected_of(w, g, part, known, &e, err));
    row->size_bytes = g->size_bytes;
    row->calls = g->calls;
    row->measured_s = us * 1e-6;
    row->busbw_GBps =
        g->size_bytes / row->measured_s * ccl_collective_busbw_factor(g->kind, g->nranks) / 1e9;
    row->expected_s = e ? e->is.time_s : NAN;
    row->expected_busbw_GBps = e ? e->is.busbw_GBps : NAN;
    row->bound_s = e ? e->bound_s : NAN;
    row->ratio = row->expected_s / row->measured_s;
    row->link_kind = e ? e->is.link_kind : "";
    if (e)
        row->choice = e->is.choice;
    row->state = !e                             ? CCL_WATCH_UNKNOWN
                 : row->ratio < CCL_NORMAL_LOW  ? CCL_WATCH_SLOW
                 : row->ratio > CCL_NORMAL_HIGH ? CCL_WATCH_FAST
                                                : CCL_WATCH_NORMAL;
    ccl_status_t status =
        ccl_i_suspects(g, part && part->topo ? part : NULL, e, row->measured_s, &suspect, err);
    row->suspect =
        status == CCL_OK ? ccl_arena_strdup(arena, suspect.len ? suspect.data : "") : NULL;
    ccl_text_fini(&suspect);
    return status == CCL_OK && !row->suspect ? ccl_fail_nomem(err) : status;
}

/* ---------------------------------------------------------------- causes */

static uint64_t slow_hash(const ccl_watch_run_t *run) {
    uint64_t hash = 0;
    for (uint32_t i = 0; i < run->nrows; i++)
        if (run->rows[i].state == CCL_WATCH_SLOW)
            hash = ccl_hash64(&run->rows[i].size_bytes, sizeof run->rows[i].size_bytes, hash + 1);
    return hash;
}

static ccl_status_t diagnose(ccl_watch_t *w, const ccl_watch_run_t *run,
                             const ccl_i_watch_part_t *part, ccl_i_cause_kept_t *out,
                             ccl_error_t *err) {
    ccl_measurement_t *points = calloc(run->nrows, sizeof *points);
    ccl_diagnosis_run_t *made = NULL;
    if (!points)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < run->nrows; i++)
        points[i] = (ccl_measurement_t){.size_bytes = run->rows[i].size_bytes,
                                        .time_s = run->rows[i].measured_s,
                                        .spread = run->rows[i].spread};
    const ccl_measured_run_t as_log = {.kind = run->kind,
                                       .known = true,
                                       .nranks = run->nranks,
                                       .nhosts = run->nnodes,
                                       .gpu = "",
                                       .type = "",
                                       .label = "",
                                       .program = "",
                                       .proto = "",
                                       .npoints = run->nrows,
                                       .points = points};
    ccl_status_t status =
        ccl_diagnose(&w->ctx, part->topo, w->options.profile, &as_log, w->options.channels, false,
                     w->options.registered, &made, err);
    if (status == CCL_OK) {
        const ccl_cause_t *top = made->ncauses ? &made->causes[0] : NULL;
        free(out->claim);
        out->claim = strdup(!top                             ? made->verdict
                            : top->kind == CCL_CAUSE_HEALTHY ? "by what the model misses on "
                                                               "healthy clusters"
                                                             : top->claim);
        out->probability = top ? top->probability : NAN;
        if (!out->claim)
            status = ccl_fail_nomem(err);
    }
    ccl_diagnosis_destroy(made);
    free(points);
    return status;
}

/* The cause that is kept for a run, made where there is none. */
static ccl_i_cause_kept_t *cause_of(ccl_watch_t *w, const ccl_watch_run_t *run, ccl_error_t *err) {
    char key[300];
    snprintf(key, sizeof key, "%d|%.100s|%u|%u|%.60s", (int)run->kind, run->id, run->nranks,
             run->nnodes, run->clock);
    uint32_t at = ccl_strmap_get(w->cause_keys, key);
    if (at != CCL_NONE)
        return &w->causes[at];
    if (!ccl_grow(&w->causes, &w->causes_cap, w->ncauses + 1, sizeof *w->causes) ||
        !ccl_strmap_put(w->cause_keys, key, (uint32_t)w->ncauses)) {
        ccl_fail_nomem(err);
        return NULL;
    }
    return &w->causes[w->ncauses++];
}

static ccl_status_t judge_run(ccl_watch_t *w, ccl_watch_run_t *run, bool known, ccl_arena_t *arena,
                              uint32_t nslow, ccl_error_t *err) {
    char text[400];
    const ccl_i_watch_group_t like = {.nranks = run->nranks, .nnodes = run->nnodes};
    ccl_i_watch_part_t *part;
    uint32_t nfast = 0, nknown = 0;
    for (uint32_t i = 0; i < run->nrows; i++) {
        nfast += run->rows[i].state == CCL_WATCH_FAST;
        nknown += run->rows[i].state != CCL_WATCH_UNKNOWN;
    }
    CCL_TRY(part_of(w, &like, known, &part, err));
    run->probability = NAN;
    if (nslow) {
        ccl_i_cause_kept_t *cause = cause_of(w, run, err);
        if (!cause)
            return CCL_ERR_NOMEM;
        if (!known && (!cause->claim || cause->slow != slow_hash(run)))
            CCL_TRY(diagnose(w, run, part, cause, err));
        cause->slow = slow_hash(run);
        snprintf(text, sizeof text, "%u of %u sizes slow%s%.300s", nslow, run->nrows,
                 cause->claim ? ": " : "", cause->claim ? cause->claim : "");
        run->probability = cause->claim ? cause->probability : NAN;
    } else if (part && !part->topo) {
        snprintf(text, sizeof text, "no expectation: %.300s", part->why);
    } else if (nknown < run->nrows) {
        snprintf(text, sizeof text, "%u of %u sizes not judged yet", run->nrows - nknown,
                 run->nrows);
    } else if (nfast) {
        snprintf(text, sizeof text, "%u of %u sizes faster than expected", nfast, run->nrows);
    } else {
        snprintf(text, sizeof text, "as expected");
    }
    run->verdict = ccl_arena_strdup(arena, text);
    return run->verdict ? CCL_OK : ccl_fail_nomem(err);
}

/* ---------------------------------------------------------------- the whole */

static int by_run(const ccl_i_watch_group_t *x, const ccl_i_watch_group_t *y) {
    int names = strcmp(x->id, y->id);
    int clocks = strcmp(x->clock, y->clock);
    return names                    ? names
           : x->kind != y->kind     ? (x->kind < y->kind ? -1 : 1)
           : x->nranks != y->nranks ? (x->nranks < y->nranks ? -1 : 1)
           : x->nnodes != y->nnodes ? (x->nnodes < y->nnodes ? -1 : 1)
                                    : clocks;
}

static int by_group(const void *a, const void *b) {
    const ccl_i_watch_group_t *x = *(const ccl_i_watch_group_t *const *)a,
                              *y = *(const ccl_i_watch_group_t *const *)b;
    int runs = by_run(x, y);
    return runs ? runs : x->size_bytes < y->size_bytes ? -1 : x->size_bytes > y->size_bytes;
}

static ccl_status_t judge_all(ccl_watch_t *w, const ccl_i_watch_group_t **sorted, bool known,
                              ccl_watch_table_t *table, ccl_error_t *err) {
    ccl_watch_run_t *runs = ccl_arena_alloc(&table->arena, w->ngroups + 1, sizeof *runs);
    ccl_watch_row_t *rows = ccl_arena_alloc(&table->arena, w->ngroups + 1, sizeof *rows);
    if (!runs || !rows)
        return ccl_fail_nomem(err);
    table->runs = runs;
    for (size_t from = 0, to; from < w->ngroups; from = to) {
        const ccl_i_watch_group_t *first = sorted[from];
        ccl_watch_run_t *run = &runs[table->nruns++];
        uint32_t nslow = 0;
        for (to = from; to < w->ngroups && by_run(first, sorted[to]) == 0; to++) {
            CCL_TRY(judge_group(w, sorted[to], known, &table->arena, &rows[to], err));
            nslow += rows[to].state == CCL_WATCH_SLOW;
        }
        *run = (ccl_watch_run_t){.kind = first->kind,
                                 .nranks = first->nranks,
                                 .nnodes = first->nnodes,
                                 .id = ccl_arena_strdup(&table->arena, first->id),
                                 .clock = ccl_arena_strdup(&table->arena, first->clock),
                                 .nrows = (uint32_t)(to - from),
                                 .rows = &rows[from]};
        if (!run->id || !run->clock)
            return ccl_fail_nomem(err);
        CCL_TRY(judge_run(w, run, known, &table->arena, nslow, err));
        table->nslow += nslow;
    }
    return CCL_OK;
}

ccl_status_t ccl_watch_judge(ccl_watch_t *watch, bool known, ccl_watch_table_t **out,
                             ccl_error_t *err) {
    ccl_watch_table_t *table = calloc(1, sizeof *table);
    const ccl_i_watch_group_t **sorted = malloc((watch->ngroups + 1) * sizeof *sorted);
    ccl_status_t status = table && sorted ? CCL_OK : ccl_fail_nomem(err);
    if (table) {
        ccl_arena_init(&table->arena);
        table->calls = watch->nlines;
        table->bad = watch->bad;
    }
    for (size_t i = 0; i < watch->ngroups && status == CCL_OK; i++)
        sorted[i] = &watch->groups[i];
    if (status == CCL_OK) {
        qsort(sorted, watch->ngroups, sizeof *sorted, by_group);
        status = judge_all(watch, sorted, known, table, err);
    }
    free(sorted);
    if (status != CCL_OK) {
        ccl_watch_table_destroy(table);
        return status;
    }
    *out = table;
    return CCL_OK;
}

void ccl_watch_table_destroy(ccl_watch_table_t *table) {
    if (!table)
        return;
    ccl_arena_fini(&table->arena);
    free(table);
}
