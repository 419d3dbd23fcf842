/* What `tune` found: the best per size, fronts, what knobs are worth. */
#include "report/rows.h"
#include "report/search/replay.h"
#include "report/search/sampled.h"
#include "report/rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const ccl_report_tuning_tables[] = {"best",   "blocks", "synthesis", "knobs", "runs",
                                                "replay", "ranks",  "samples",   NULL};
enum {
    TABLE_BEST,
    TABLE_BLOCKS,
    TABLE_SYNTHESIS,
    TABLE_KNOBS,
    TABLE_RUNS,
    TABLE_REPLAY,
    TABLE_RANKS,
    TABLE_SAMPLES
};

static const ccl_tune_run_t *run_of(const ccl_tuning_t *t, uint32_t run) {
    return run == CCL_NONE ? NULL : &t->runs[run];
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

/* ---------------------------------------------------------------- rows */

typedef struct run_row {
    double size_bytes, time_s, busbw_GBps, bound_s, gap, thread_blocks, batches, synth_s, eval_s;
    const char *status, *settings;
    bool estimate, resumed;
    const char *origin;
    char options[300];
} run_row_t;

typedef struct knob_row {
    const char *knob;
    char value[64];
    uint32_t runs, best_sizes;
    double slowdown;
} knob_row_t;

typedef struct size_row {
    double size_bytes, bound_s;
    bool within_gap;
    const void *best, *untuned; /* NULL, or what stands behind */
    run_row_t best_row, untuned_row;
    double time_s, busbw_GBps, best_bound_s, untuned_s, thread_blocks;
    const char *settings;
    char gap[40], gain[40], over[24], options[300];
    ccl_i_nccl_row_t nccl;
} size_row_t;

/** Runs of one table, by their index. */
typedef struct list {
    const ccl_tuning_t *tuning;
    uint32_t *rows, n;
} list_t;

typedef struct root {
    const ccl_report_tuning_t *of;
    const ccl_tuning_t *tuning;
    list_t lists[TABLE_RUNS + 1];
    ccl_knob_worth_t *worth;
    uint32_t nworth, nranks, schedules;
    const char *topology, *profile, *collective, *strategy, *stopped;
    uint64_t seed;
    double space_points, synth_s, eval_s, lower_s, simulate_s, notebook_s;
    bool replayed;
    const void *replay;
    ccl_i_replay_row_t replay_row;
    bool has_samples;
    const void *sampled;
    ccl_i_sampled_row_t sampled_row;
} root_t;

static run_row_t run_row(const ccl_tuning_t *t, const ccl_tune_run_t *run) {
    const ccl_point_result_t *r = &run->result;
    bool ran = r->status == CCL_OK;
    run_row_t row = {t->sizes_bytes[run->size],
                     ran ? r->time_s : NAN,
                     ran ? r->busbw_GBps : NAN,
                     r->bound_s,
                     ran ? ccl_i_gap(r->time_s, r->bound_s) : NAN,
                     ran ? r->thread_blocks : NAN,
                     ran ? r->batches : NAN,
                     r->synth_s,
                     r->eval_s,
                     ccl_status_name(r->status),
                     t->points[run->point].settings,
                     run->estimate,
                     run->resumed,
                     ran && r->origin[0] ? r->origin : NULL,
                     ""};

    ccl_i_options_text(&t->points[run->point], row.options, sizeof(row.options));
    return row;
}

static uint64_t count_runs(const void *list) {
    return ((const list_t *)list)->n;
}

static const void *run_at(const void *list, uint64_t i, void *scratch) {
    const list_t *of = list;
    run_row_t *out = scratch;

    *out = run_row(of->tuning, &of->tuning->runs[of->rows[i]]);
    return out;
}

static uint64_t count_knobs(const void *root) {
    return ((const root_t *)root)->nworth;
}

static const void *knob_at(const void *root, uint64_t i, void *scratch) {
    const ccl_knob_worth_t *worth = &((const root_t *)root)->worth[i];
    knob_row_t *out = scratch;

    *out = (knob_row_t){ccl_knob_name(worth->knob), "", worth->runs, worth->best_sizes,
                        worth->slowdown};
    ccl_knob_text(worth->knob, worth->value, out->value, sizeof(out->value));
    return out;
}

static uint64_t count_sizes(const void *root) {
    return ((const root_t *)root)->tuning->nsizes;
}

static const void *size_at(const void *root, uint64_t i, void *scratch) {
    const ccl_tuning_t *t = ((const root_t *)root)->tuning;
    const ccl_tune_run_t *best = run_of(t, t->best[i]), *untuned = run_of(t, t->untuned[i]);
    size_row_t *out = scratch;

    *out = (size_row_t){.size_bytes = t->sizes_bytes[i],
                        .bound_s = t->bound_s[i],
                        .within_gap = t->done[i],
                        .time_s = NAN,
                        .busbw_GBps = NAN,
                        .best_bound_s = NAN,
                        .untuned_s = untuned ? untuned->result.time_s : NAN,
                        .thread_blocks = NAN,
                        .nccl = ccl_i_nccl_row(&t->nccl[i], best ? best->result.time_s : NAN)};
    ccl_i_speedup_text(out->nccl.speedup, out->over, sizeof(out->over));
    if (untuned) {
        out->untuned_row = run_row(t, untuned);
        out->untuned = &out->untuned_row;
    }
    if (!best)
        return out;
    out->best_row = run_row(t, best);
    out->best = &out->best_row;
    out->time_s = best->result.time_s;
    out->busbw_GBps = best->result.busbw_GBps;
    out->best_bound_s = best->result.bound_s;
    out->thread_blocks = best->result.thread_blocks;
    out->settings = t->points[best->point].settings;
    ccl_i_options_text(&t->points[best->point], out->options, sizeof(out->options));
    ccl_i_gap_text(out->time_s, out->best_bound_s, out->gap, sizeof(out->gap));
    if (untuned)
        snprintf(out->gain, sizeof(out->gain), "%.1f%%", (1 - out->time_s / out->untuned_s) * 100);
    else
        snprintf(out->gain, sizeof(out->gain), "-");
    return out;
}

/* ---------------------------------------------------------------- what they hold */

#define NO_TIME "it has no time"
#define NOBODY "nothing has run to its end"
#define AT(member) CCL_I_AT(run_row_t, member)
static const ccl_i_described_t run_record = {
    .size = sizeof(run_row_t),
    .fields = (const ccl_i_field_t[]){
        {"size_bytes", AT(size_bytes)},
        {"time_s", AT(time_s), .null = NO_TIME},
        {"busbw_GBps", AT(busbw_GBps), .null = NO_TIME},
        {"bound_s", AT(bound_s), "no schedule is faster", .null = "there is none"},
        {"gap", AT(gap), "time_s / bound_s", .null = NO_TIME},
        {"thread_blocks", AT(thread_blocks), "on the fullest GPU", .null = NO_TIME, .whole = true},
        {"batches", AT(batches), "micro-batches", .null = NO_TIME, .whole = true},
        {"synth_s", AT(synth_s), "of work", .null = NO_TIME},
        {"eval_s", AT(eval_s), "of work", .null = NO_TIME},
        {"status", AT(status)},
        {"estimate", AT(estimate), "not run in full"},
        {"resumed", AT(resumed), "from the notebook"},
        {"settings", AT(settings), "JSON as a string"},
        {"options", AT(options), .hidden = true},
        {"origin", AT(origin), "who made the schedule, and how", .null = NO_TIME},
        {0}}};
#undef AT
#define AT(member) CCL_I_AT(knob_row_t, member)
static const ccl_i_described_t knob_record = {
    .size = sizeof(knob_row_t),
    .fields =
        (const ccl_i_field_t[]){{"knob", AT(knob)},
                                {"value", AT(value)},
                                {"runs", AT(runs), "in full, with a time"},
                                {"best_sizes", AT(best_sizes), "sizes whose best has it"},
                                {"slowdown", AT(slowdown),
                                 "best time with it / best time, mean over sizes", .null = NO_TIME},
                                {0}}};
#undef AT
#define AT(member) CCL_I_AT(size_row_t, member)
static const ccl_i_described_t size_record = {
    .size = sizeof(size_row_t),
    .fields =
        (const ccl_i_field_t[]){
            {"size_bytes", AT(size_bytes)},
            {"bound_s", AT(bound_s), "no schedule is faster", .null = "there is none"},
            {"within_gap", AT(within_gap), "near enough to the bound"},
            {"best", AT(best), .null = NOBODY, .of = &run_record},
            {"untuned", AT(untuned), "with the defaults", .null = NOBODY, .of = &run_record},
            CCL_I_NCCL_FIELDS(size_row_t, nccl),
            {"over", AT(over), .hidden = true},
            {"time_s", AT(time_s), .hidden = true},
            {"busbw_GBps", AT(busbw_GBps), .hidden = true},
            {"best_bound_s", AT(best_bound_s), .hidden = true},
            {"gap", AT(gap), .hidden = true},
            {"untuned_s", AT(untuned_s), .hidden = true},
            {"gain", AT(gain), .hidden = true},
            {"thread_blocks", AT(thread_blocks), .hidden = true},
            {"settings", AT(settings), .hidden = true},
            {"options", AT(options), .hidden = true},
            {0}},
    .tall = true};
#undef AT
#define AT(member) CCL_I_AT(root_t, member)
#define RUNS(table) CCL_I_LIST_IN(root_t, lists[table], run_record, count_runs, run_at)
const ccl_i_result_t ccl_i_result_tune = {
    "tune", "ccllab tune", "a search over synthesizers and their settings",
    &(const ccl_i_described_t){
        .fields = (const ccl_i_field_t[]){
            {"topology", AT(topology)},
            CCL_I_PROFILE(AT(profile)),
            {"collective", AT(collective)},
            {"nranks", AT(nranks)},
            {"strategy", AT(strategy)},
            {"seed", AT(seed)},
            {"stopped", AT(stopped), "why it ended", .words = ccl_i_stopped_words},
            {"space_points", AT(space_points), "of the whole space"},
            {"schedules", AT(schedules), "synthesized here"},
            {"synth_s", AT(synth_s), "of work, over all threads"},
            {"eval_s", AT(eval_s), "of work, over all threads"},
            {"lower_s", AT(lower_s), "of that, with proof"},
            {"simulate_s", AT(simulate_s), "of that"},
            {"notebook_s", AT(notebook_s)},
            {"sizes", CCL_I_LIST_OF(size_record, count_sizes, size_at)},
            {"knobs", CCL_I_LIST_OF(knob_record, count_knobs, knob_at), "what each is worth"},
            {"blocks", RUNS(TABLE_BLOCKS), "front of time and thread blocks"},
            {"synthesis", RUNS(TABLE_SYNTHESIS), "front of time and synthesis time"},
            {"runs", RUNS(TABLE_RUNS), "all of them"},
            {"replay", AT(replay), "on a device", .when = CCL_I_WHEN(root_t, replayed),
             .of = &ccl_i_replay_record},
            {"sampled", AT(sampled), "over samples of a scenario",
             .when = CCL_I_WHEN(root_t, has_samples), .of = &ccl_i_sampled_record},
            {"best", RUNS(TABLE_BEST), .hidden = true},
            {0}}}};
#undef AT

static void root_fini(root_t *root) {
    for (size_t table = 0; table < CCL_ARRAY_LEN(root->lists); table++)
        free(root->lists[table].rows);
    free(root->worth);
}

static ccl_status_t root_init(const ccl_report_tuning_t *about, root_t *out, ccl_error_t *err) {
    const ccl_tuning_t *t = about->tuning;
    ccl_status_t status = CCL_OK;

    *out = (root_t){.of = about,
                    .tuning = t,
                    .nranks = about->topo->nranks,
                    .schedules = t->schedules,
                    .topology = about->topo->name,
                    .profile = ccl_i_profile_name(about->topo),
                    .collective = about->collective,
                    .strategy = about->strategy,
                    .stopped = t->stopped,
                    .seed = about->seed,
                    .space_points = t->space_points,
                    .synth_s = t->synth_s,
                    .eval_s = t->eval_s,
                    .lower_s = t->lower_s,
                    .simulate_s = t->simulate_s,
                    .notebook_s = t->notebook_s,
                    .replayed = about->replay != NULL};
    if (about->replay) {
        out->replay_row = ccl_i_replay_row(about->device, t, about->replay);
        out->replay = &out->replay_row;
    }
    if (about->sampled) {
        ccl_i_sampled_row(about, &out->sampled_row);
        out->has_samples = true;
        out->sampled = &out->sampled_row;
    }
    for (size_t table = 0; table < CCL_ARRAY_LEN(out->lists) && status == CCL_OK; table++) {
        if (table == TABLE_KNOBS)
            continue;
        out->lists[table].tuning = t;
        status = rows_of(t, table, &out->lists[table].rows, &out->lists[table].n, err);
    }
    if (status == CCL_OK)
        status = ccl_tuning_sensitivity(t, &out->worth, &out->nworth, err);
    if (status != CCL_OK)
        root_fini(out);
    return status;
}

/* ---------------------------------------------------------------- tables */

static const char *show_ms(double seconds, char *out, size_t out_len) {
    return ccl_i_digits(seconds * 1e3, 3, out, out_len);
}

static const ccl_i_column_t knob_columns[] = {CCL_I_COLUMN("knob"),
                                              CCL_I_COLUMN("value"),
                                              CCL_I_COLUMN("runs"),
                                              CCL_I_COLUMN("best_sizes"),
                                              CCL_I_COLUMN("slowdown", NULL, ccl_i_show_3),
                                              CCL_I_COLUMNS_END};
static const ccl_i_column_t best_columns[] = {
    CCL_I_COLUMN("size_bytes", "size", ccl_format_bytes),
    CCL_I_COLUMN("time_s", "time(us)", ccl_i_us, NOBODY, .last = true),
    CCL_I_COLUMN("busbw_GBps", "busbw(GB/s)", ccl_i_show_GBps),
    CCL_I_COLUMN("best_bound_s", "bound(us)", ccl_i_us),
    CCL_I_COLUMN("gap", .right = true),
    CCL_I_COLUMN("untuned_s", "untuned(us)", ccl_i_us, "-"),
    CCL_I_COLUMN("gain", .right = true),
    CCL_I_COLUMN("over", "vs nccl", .right = true),
    CCL_I_COLUMN("thread_blocks", "blocks"),
    CCL_I_COLUMN("options", "settings"),
    CCL_I_COLUMNS_END};
#define FRONT(column)                                                                              \
    CCL_I_COLUMN("size_bytes", "size", ccl_format_bytes), column,                                  \
        CCL_I_COLUMN("time_s", "time(us)", ccl_i_us), CCL_I_COLUMN("options", "settings"),         \
        CCL_I_COLUMNS_END
static const ccl_i_column_t block_columns[] = {FRONT(CCL_I_COLUMN("thread_blocks", "blocks"))};
static const ccl_i_column_t synthesis_columns[] = {
    FRONT(CCL_I_COLUMN("synth_s", "synthesis(ms)", show_ms))};

static ccl_status_t one_table(const root_t *root, size_t which, ccl_report_format_t format,
                              ccl_text_t *out, ccl_error_t *err) {
    const ccl_i_described_t *record = ccl_i_result_tune.root;
    const char *list = ccl_report_tuning_tables[which];

    if ((which == TABLE_REPLAY || which == TABLE_RANKS) && !root->replay)
        return ccl_fail(err, CCL_ERR_USAGE,
                        which == TABLE_REPLAY ? "there is no table of a replay without --replay"
                                              : "there are no new ranks without --replay");
    if (which == TABLE_SAMPLES && !root->sampled)
        return ccl_fail(err, CCL_ERR_USAGE, "there is no table of samples without --scenario");
    if (which == TABLE_SAMPLES)
        return ccl_i_sampled_points(&root->sampled_row, format, out, err);
    if (which == TABLE_REPLAY)
        return ccl_i_replay_points(&root->replay_row, format, out, err);
    if (which == TABLE_RANKS)
        return ccl_i_replay_ranks(&root->replay_row, format, out, err);
    if (which == TABLE_KNOBS)
        return ccl_i_rows_emit(record, list, root, knob_columns, format, out, err);
    if (format == CCL_REPORT_CSV)
        return ccl_i_rows_emit(record, list, root, NULL, format, out, err);
    if (which == TABLE_BEST)
        return ccl_i_rows_emit(record, "sizes", root, best_columns, format, out, err);
    return ccl_i_rows_emit(record, list, root,
                           which == TABLE_BLOCKS ? block_columns : synthesis_columns, format, out,
                           err);
}

static void head(const ccl_report_tuning_t *about, ccl_text_t *out) {
    static const struct {
        const char *word, *reason;
    } why[] = {{"space", "nothing is left to try"},
               {"budget", "the budget is spent"},
               {"gap", "no size is left"},
               {"interrupted", "interrupted"}};
    char with[300];
    const ccl_tuning_t *t = about->tuning;
    const char *reason = t->stopped;
    uint32_t resumed = 0, estimates = 0, done = 0;

    for (uint32_t s = 0; s < t->nsizes; s++)
        done += t->done[s];
    for (uint32_t i = 0; i < t->nruns; i++) {
        resumed += t->runs[i].resumed;
        estimates += t->runs[i].estimate;
    }
    for (size_t i = 0; i < CCL_ARRAY_LEN(why); i++)
        if (strcmp(why[i].word, t->stopped) == 0)
            reason = why[i].reason;
    ccl_text_printf(out,
                    "%s on %s, %u GPUs: %s over %.0f points, %u runs (%u of them estimates, %u "
                    "from the notebook), %u schedules; %s",
                    about->collective, about->topo->name, about->topo->nranks, about->strategy,
                    t->space_points, t->nruns, estimates, resumed, t->schedules, reason);
    if (done)
        ccl_text_printf(out, "; %u of %u sizes done: within %.3g%% of their lower bounds", done,
                        t->nsizes, 100 * t->gap);
    ccl_text_printf(out, "\nwith %s\n\n", ccl_i_constants_text(about->topo, with, sizeof(with)));
}

static const char *best_origin(const void *of, uint32_t size, const char **name_out) {
    const ccl_tuning_t *t = of;
    const ccl_tune_run_t *best = run_of(t, t->best[size]);

    *name_out = NULL;
    return best ? best->result.origin : NULL;
}

static ccl_status_t text(const root_t *root, ccl_text_t *out, ccl_error_t *err) {
    static const char *const titles[] = {NULL, "time against thread blocks",
                                         "time against synthesis",
                                         "knobs: best time with a value / best time, mean over "
                                         "sizes"};
    const ccl_report_tuning_t *about = root->of;

    head(about, out);
    for (size_t which = TABLE_BEST; which <= TABLE_KNOBS; which++) {
        if (titles[which])
            ccl_text_printf(out, "\n%s\n", titles[which]);
        CCL_TRY(one_table(root, which, CCL_REPORT_TEXT, out, err));
        if (which == TABLE_BEST)
            ccl_i_text_origins("  how the best came about:", root->tuning->sizes_bytes,
                               root->tuning->nsizes, best_origin, root->tuning, out);
    }
    if (about->sampled) {
        ccl_i_sampled_head(&root->sampled_row, out);
        CCL_TRY(one_table(root, TABLE_SAMPLES, CCL_REPORT_TEXT, out, err));
    }
    if (about->replay) {
        ccl_i_replay_head(about->device, about->replay, out);
        CCL_TRY(one_table(root, TABLE_REPLAY, CCL_REPORT_TEXT, out, err));
        ccl_i_replay_constants(about->replay, out);
    }
    if (about->replay && about->replay->nranked) {
        ccl_i_ranks_head(about->replay, out);
        CCL_TRY(one_table(root, TABLE_RANKS, CCL_REPORT_TEXT, out, err));
    }
    return ccl_i_text_status(out, err);
}

ccl_status_t ccl_report_tuning(const ccl_report_tuning_t *about, const ccl_report_style_t *style,
                               ccl_text_t *out, ccl_error_t *err) {
    ccl_status_t status;
    size_t which = 0;
    root_t root;

    if (style->format == CCL_REPORT_CSV)
        CCL_TRY(ccl_i_table_choice(ccl_report_tuning_tables, style->table, &which, err));
    CCL_TRY(root_init(about, &root, err));
    if (style->format == CCL_REPORT_JSON)
        status = ccl_i_result_json(&ccl_i_result_tune, &root, out, err);
    else if (style->format == CCL_REPORT_CSV)
        status = one_table(&root, which, style->format, out, err);
    else
        status = text(&root, out, err);
    root_fini(&root);
    return status;
}
