/* What `balance` found: who gets how many micro-batches, and what a step takes. */
#include "report/describe.h"

#include <inttypes.h>
#include <math.h>

static const char *id_of(const ccl_topology_t *topo, uint32_t rank) {
    return topo->devices[topo->rank_device[rank]].id;
}

static const char *model_of(const ccl_topology_t *topo, uint32_t rank) {
    uint32_t model = topo->devices[topo->rank_device[rank]].model;

    return model == CCL_NONE ? "" : topo->gpu_models[model].name;
}

/* ---------------------------------------------------------------- rows */

typedef struct worker_row {
    uint32_t stage, rank, nranks;
    const char *gpu, *model;
    double speed_per_s, compute_s;
    uint64_t most, batches, equal;
    char gpus[300]; /* "s0/gpu0", or "s0/gpu0 .. s0/gpu3" */
} worker_row_t;

typedef struct step_row {
    const char *step, *status;
    uint64_t total;
    double time_s, compute_s, tensor_s, pipeline_s, data_s, per_s;
    char name[100];
} step_row_t;

typedef struct root {
    const ccl_report_training_t *of;
    const char *topology, *profile, *plan, *rule;
    uint32_t nranks;
    uint64_t micro_batches;
    double makespan_s, best_makespan_s, speedup, efficiency;
} root_t;

static uint64_t count_workers(const void *root) {
    const ccl_report_training_t *r = ((const root_t *)root)->of;

    return r->result->nworkers;
}

/** Workers [first, last] as one row. */
static const void *workers_of(const ccl_report_training_t *r, uint32_t first, uint32_t last,
                              worker_row_t *out) {
    const ccl_training_worker_t *a = &r->result->workers[first], *z = &r->result->workers[last];

    *out = (worker_row_t){.stage = a->stage,
                          .rank = a->rank,
                          .nranks = a->nranks,
                          .gpu = id_of(r->topo, a->rank),
                          .model = model_of(r->topo, a->rank),
                          .speed_per_s = a->speed_per_s,
                          .compute_s = a->compute_s,
                          .most = a->most,
                          .batches = a->batches,
                          .equal = a->equal};
    if (first == last && a->nranks == 1)
        snprintf(out->gpus, sizeof(out->gpus), "%s", out->gpu);
    else
        snprintf(out->gpus, sizeof(out->gpus), "%s .. %s", out->gpu,
                 id_of(r->topo, z->rank + z->nranks - 1));
    return out;
}

static const void *worker_at(const void *root, uint64_t i, void *scratch) {
    const ccl_report_training_t *r = ((const root_t *)root)->of;

    return workers_of(r, (uint32_t)i, (uint32_t)i, scratch);
}

static bool alike(const ccl_training_worker_t *a, const ccl_training_worker_t *b) {
    return a->stage == b->stage && a->speed_per_s == b->speed_per_s && a->most == b->most &&
           a->batches == b->batches && a->equal == b->equal;
}

/** Workers in a row that have all the same are one row, that of their first. */
static const void *folded_at(const void *root, uint64_t i, void *scratch) {
    const ccl_report_training_t *r = ((const root_t *)root)->of;
    const ccl_training_worker_t *all = r->result->workers;
    uint32_t last = (uint32_t)i;

    if (i > 0 && alike(&all[i - 1], &all[i]))
        return NULL;
    while (last + 1 < r->result->nworkers && alike(&all[i], &all[last + 1]))
        last++;
    return workers_of(r, (uint32_t)i, last, scratch);
}

static uint64_t count_collectives(const void *root) {
    const ccl_report_training_t *r = ((const root_t *)root)->of;

    return r->result->ncollectives;
}

static const void *collective_at(const void *root, uint64_t i, void *scratch) {
    const ccl_report_training_t *r = ((const root_t *)root)->of;

    (void)scratch;
    return &r->result->collectives[i];
}

static uint64_t count_steps(const void *root) {
    const ccl_report_training_t *r = ((const root_t *)root)->of;

    return r->result->nsteps;
}

static const void *step_at(const void *root, uint64_t i, void *scratch) {
    const ccl_report_training_t *r = ((const root_t *)root)->of;
    const ccl_training_step_t *k = &r->result->steps[i];
    bool ok = k->status == CCL_OK;
    step_row_t *out = scratch;

    *out = (step_row_t){k->name,
                        ccl_i_status_word(k->status),
                        k->total,
                        ok ? k->time_s : NAN,
                        ok ? k->compute_s : NAN,
                        ok ? k->tensor_s : NAN,
                        ok ? k->pipeline_s : NAN,
                        ok ? k->data_s : NAN,
                        ok ? k->per_s : NAN,
                        ""};
    snprintf(out->name, sizeof(out->name), i < 2 ? "%s" : "%s alone", k->name);
    return out;
}

/* ---------------------------------------------------------------- what they hold */

#define AT(member) CCL_I_AT(worker_row_t, member)
static const ccl_i_described_t worker_record = {
    .size = sizeof(worker_row_t),
    .fields = (const ccl_i_field_t[]){
        {"stage", AT(stage), "of the pipeline"},
        {"rank", AT(rank), "the first of its ranks"},
        {"nranks", AT(nranks)},
        {"gpu", AT(gpu), "of that rank"},
        {"model", AT(model), "of that GPU"},
        {"speed_per_s", AT(speed_per_s), "micro-batches of the whole model"},
        {"limit", AT(most), "micro-batches that memory and limits leave", .null = "none"},
        {"balanced", AT(batches), "micro-batches of the balanced split"},
        {"equal", AT(equal), "micro-batches of the equal split"},
        {"compute_s", AT(compute_s), "of the balanced split"},
        {"gpus", AT(gpus), .hidden = true},
        {0}}};
#undef AT
#define AT(member) CCL_I_AT(ccl_training_collective_t, member)
static const ccl_i_described_t collective_record = {
    .fields = (const ccl_i_field_t[]){
        {"stage", AT(stage)},
        {"part", AT(part), "of the training",
         .words = (const char *const[]){"tensor", "pipeline", "data", NULL}},
        {"what", AT(what), "what it carries"},
        {"collective", AT(name)},
        {"groups", AT(ngroups), "that do it at once"},
        {"nranks", AT(nranks), "of each group"},
        {"size_bytes", AT(size_bytes)},
        {"by", AT(by), "synthesizer"},
        {"time_s", AT(time_s), "of one"},
        {"times", AT(times), "that it is done in a step"},
        {0}}};
#undef AT
#define AT(member) CCL_I_AT(step_row_t, member)
#define NO_STEP "limits do not let it"
static const ccl_i_described_t step_record = {
    .size = sizeof(step_row_t),
    .fields = (const ccl_i_field_t[]){
        {"step", AT(step), "balanced, equal, or the vendor whose GPUs are alone"},
        {"status", AT(status), .words = ccl_i_status_words},
        {"micro_batches", AT(total)},
        {"time_s", AT(time_s), .null = NO_STEP},
        {"compute_s", AT(compute_s), "with all communication free", .null = NO_STEP},
        {"tensor_s", AT(tensor_s), "that tensor parallelism adds", .null = NO_STEP},
        {"pipeline_s", AT(pipeline_s), "that the pipeline adds", .null = NO_STEP},
        {"data_s", AT(data_s), "that data parallelism adds", .null = NO_STEP},
        {"per_s", AT(per_s), "micro-batches", .null = NO_STEP},
        {"name", AT(name), .hidden = true},
        {0}}};
#undef AT
#define AT(member) CCL_I_AT(root_t, member)
const ccl_i_result_t ccl_i_result_balance = {
    "balance", "ccllab balance", "micro-batches of GPUs, and what a training step takes",
    &(const ccl_i_described_t){
        .fields = (const ccl_i_field_t[]){
            {"topology", AT(topology)},
            CCL_I_PROFILE(AT(profile)),
            {"nranks", AT(nranks)},
            {"plan", AT(plan), "its name"},
            {"rule", AT(rule), "of the split"},
            {"micro_batches", AT(micro_batches), "of a step"},
            {"makespan_s", AT(makespan_s), "compute of the slowest"},
            {"best_makespan_s", AT(best_makespan_s), "of the best split"},
            {"speedup", AT(speedup), "time of the equal split / time",
             .null = "an equal split does not fit"},
            {"efficiency", AT(efficiency), "throughput / that of the vendors together",
             .null = "not several vendors in one stage"},
            {"workers", CCL_I_LIST_OF(worker_record, count_workers, worker_at)},
            {"collectives", CCL_I_LIST_OF(collective_record, count_collectives, collective_at),
             "of the balanced step"},
            {"steps", CCL_I_LIST_OF(step_record, count_steps, step_at),
             "balanced, equal, then each vendor"},
            {"folded", CCL_I_LIST_OF(worker_record, count_workers, folded_at), .hidden = true},
            {0}}}};
#undef AT

/* ---------------------------------------------------------------- tables */

static const ccl_i_column_t worker_columns[] = {
    CCL_I_COLUMN("stage"),
    CCL_I_COLUMN("gpus", "GPUs"),
    CCL_I_COLUMN("model"),
    CCL_I_COLUMN("speed_per_s", "speed(1/s)"),
    CCL_I_COLUMN("limit", NULL, NULL, "-"),
    CCL_I_COLUMN("balanced"),
    CCL_I_COLUMN("equal"),
    CCL_I_COLUMN("compute_s", "compute(us)", ccl_i_show_us0),
    CCL_I_COLUMNS_END};

static const char *show_MB(double bytes, char *out, size_t out_len) {
    snprintf(out, out_len, "%.4gMB", bytes / 1e6);
    return out;
}

static const char *show_times(double times, char *out, size_t out_len) {
    snprintf(out, out_len, "%g", times);
    return out;
}

static const char *show_ms(double seconds, char *out, size_t out_len) {
    return ccl_i_show_2(seconds * 1e3, out, out_len);
}

static const ccl_i_column_t collective_columns[] = {CCL_I_COLUMN("stage"),
                                                    CCL_I_COLUMN("part"),
                                                    CCL_I_COLUMN("what"),
                                                    CCL_I_COLUMN("collective"),
                                                    CCL_I_COLUMN("groups"),
                                                    CCL_I_COLUMN("nranks", "ranks"),
                                                    CCL_I_COLUMN("size_bytes", "size", show_MB),
                                                    CCL_I_COLUMN("by"),
                                                    CCL_I_COLUMN("time_s", "time(us)", ccl_i_us),
                                                    CCL_I_COLUMN("times", NULL, show_times),
                                                    CCL_I_COLUMNS_END};
static const ccl_i_column_t step_columns[] = {
    CCL_I_COLUMN("name", "step"),
    CCL_I_COLUMN("micro_batches", "micro-batches"),
    CCL_I_COLUMN("time_s", "time(ms)", show_ms, "-"),
    CCL_I_COLUMN("compute_s", "compute(ms)", show_ms, "-"),
    CCL_I_COLUMN("tensor_s", "tensor(ms)", show_ms, "-"),
    CCL_I_COLUMN("pipeline_s", "pipeline(ms)", show_ms, "-"),
    CCL_I_COLUMN("data_s", "data(ms)", show_ms, "-"),
    CCL_I_COLUMN("per_s", "a second", ccl_i_show_2, "-"),
    CCL_I_COLUMNS_END};

static ccl_status_t emit(const root_t *root, const char *list, const ccl_i_column_t *columns,
                         ccl_report_format_t format, ccl_text_t *out, ccl_error_t *err) {
    return ccl_i_rows_emit(ccl_i_result_balance.root, list, root, columns, format, out, err);
}

static ccl_status_t text(const root_t *root, ccl_text_t *out, ccl_error_t *err) {
    const ccl_report_training_t *r = root->of;
    const ccl_training_result_t *t = r->result;
    char with[300];

    ccl_text_printf(out, "%s on %s (%u GPUs), %" PRIu64 " micro-batches a step, by %s\nwith %s\n\n",
                    r->training->name, r->topo->name, r->topo->nranks, r->training->total,
                    ccl_balance_rule_name(r->rule),
                    ccl_i_constants_text(r->topo, with, sizeof(with)));
    CCL_TRY(emit(root, "folded", worker_columns, CCL_REPORT_TEXT, out, err));
    if (t->makespan_s > t->best_makespan_s * (1 + 1e-9))
        ccl_text_printf(out, "the best split computes for %.0f us: --rule makespan\n",
                        t->best_makespan_s * 1e6);
    if (t->ncollectives > 0) {
        ccl_text_printf(out, "\n");
        CCL_TRY(emit(root, "collectives", collective_columns, CCL_REPORT_TEXT, out, err));
    }
    ccl_text_printf(out, "\n");
    CCL_TRY(emit(root, "steps", step_columns, CCL_REPORT_TEXT, out, err));
    if (isfinite(t->speedup))
        ccl_text_printf(out, "balanced over equal: %.3f times as fast\n", t->speedup);
    if (isfinite(t->efficiency))
        ccl_text_printf(out, "efficiency: %.1f %% of the vendors' throughputs together\n",
                        t->efficiency * 100);
    return ccl_i_text_status(out, err);
}

ccl_status_t ccl_report_training(const ccl_report_training_t *training,
                                 const ccl_report_style_t *style, ccl_text_t *out,
                                 ccl_error_t *err) {
    const ccl_training_result_t *result = training->result;
    const root_t root = {training,
                         training->topo->name,
                         ccl_i_profile_name(training->topo),
                         training->training->name,
                         ccl_balance_rule_name(training->rule),
                         training->topo->nranks,
                         training->training->total,
                         result->makespan_s,
                         result->best_makespan_s,
                         result->speedup,
                         result->efficiency};

    if (style->format == CCL_REPORT_TEXT)
        return text(&root, out, err);
    if (style->format == CCL_REPORT_CSV)
        return emit(&root, "workers", worker_columns, CCL_REPORT_CSV, out, err);
    return ccl_i_result_json(&ccl_i_result_balance, &root, out, err);
}
