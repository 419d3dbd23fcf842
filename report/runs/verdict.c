/* What verify and synth found. */
#include "report/runs/warm.h"
#include "report/rows.h"

typedef struct verified {
    const ccl_report_verdict_t *of;
    const char *input, *form, *collective, *origin;
    bool valid;
    uint32_t nranks, nwarnings;
    const void *fault; /* NULL, or &fault_row */
    ccl_i_fault_row_t fault_row;
    char malformed[1200];
} verified_t;

static void verify_row(const ccl_report_verdict_t *v, verified_t *out) {
    *out = (verified_t){.of = v,
                        .input = v->input,
                        .form = v->form,
                        .collective = v->collective,
                        .origin = v->origin && v->origin[0] ? v->origin : NULL,
                        .valid = v->verdict && v->verdict->valid,
                        .nranks = v->nranks ? v->nranks : CCL_NONE,
                        .nwarnings = v->verdict ? v->verdict->nwarnings : 0};
    out->fault_row = (ccl_i_fault_row_t){.rank = CCL_NONE,
                                         .tb = CCL_NONE,
                                         .step = CCL_NONE,
                                         .chunk = CCL_NONE,
                                         .line = CCL_NONE,
                                         .column = CCL_NONE};
    ccl_i_fault_row(v->verdict, &out->fault_row);
    if (!v->verdict) {
        ccl_error_format(v->malformed, out->malformed, sizeof(out->malformed));
        out->fault_row.kind = "malformed";
        out->fault_row.text = out->malformed;
        out->fault_row.malformed = true;
        if (v->malformed->line > 0)
            out->fault_row.line = (uint32_t)v->malformed->line;
        if (v->malformed->column > 0)
            out->fault_row.column = (uint32_t)v->malformed->column;
    }
    out->fault = out->fault_row.kind ? &out->fault_row : NULL;
}

static uint64_t count_warnings(const void *row) {
    const ccl_verdict_t *verdict = ((const verified_t *)row)->of->verdict;

    if (!verdict)
        return 0;
    return verdict->nwarnings < CCL_MAX_WARNINGS ? verdict->nwarnings : CCL_MAX_WARNINGS;
}

static const void *warning_at(const void *row, uint64_t i, void *scratch) {
    (void)scratch;
    return ((const verified_t *)row)->of->verdict->warnings[i];
}

#define NOT_SAID "not of one"
#define AT(member) CCL_I_AT(verified_t, member)
const ccl_i_result_t ccl_i_result_verify = {
    "verify", "ccllab verify", "is a program or schedule right?",
    &(const ccl_i_described_t){
        .fields = (const ccl_i_field_t[]){
            {"input", AT(input), "file"},
            {"form", AT(form), .words = (const char *const[]){"program", "schedule", NULL}},
            {"valid", AT(valid)},
            {"collective", AT(collective), .null = "not known"},
            {"nranks", AT(nranks), .null = "not known"},
            {"origin", AT(origin), "who made it, and how", .null = "nobody said"},
            {"fault", AT(fault), .null = "there is none", .of = &ccl_i_fault_record},
            {"warnings", CCL_I_LIST_OF(ccl_i_bare_chars, count_warnings, warning_at), "in words"},
            {"kind", AT(fault_row.kind), .hidden = true},
            {"rank", AT(fault_row.rank), .null = NOT_SAID, .hidden = true},
            {"thread_block", AT(fault_row.tb), .null = NOT_SAID, .hidden = true},
            {"step", AT(fault_row.step), .null = NOT_SAID, .hidden = true},
            {"chunk", AT(fault_row.chunk), .null = NOT_SAID, .hidden = true},
            {"text", AT(fault_row.text), .hidden = true},
            {"nwarnings", AT(nwarnings), .hidden = true},
            {0}}}};
#undef AT

static const ccl_i_column_t verify_columns[] = {CCL_I_COLUMN("input"),
                                                CCL_I_COLUMN("valid"),
                                                CCL_I_COLUMN("collective"),
                                                CCL_I_COLUMN("nranks"),
                                                CCL_I_COLUMN("kind"),
                                                CCL_I_COLUMN("rank"),
                                                CCL_I_COLUMN("thread_block"),
                                                CCL_I_COLUMN("step"),
                                                CCL_I_COLUMN("chunk"),
                                                CCL_I_COLUMN("text"),
                                                CCL_I_COLUMN("nwarnings", "warnings"),
                                                CCL_I_COLUMN("origin"),
                                                CCL_I_COLUMNS_END};

ccl_status_t ccl_report_verdict(const ccl_report_verdict_t *v, const ccl_report_style_t *style,
                                ccl_text_t *out, ccl_error_t *err) {
    verified_t row;

    verify_row(v, &row);
    if (style->format == CCL_REPORT_JSON)
        return ccl_i_result_json(&ccl_i_result_verify, &row, out, err);
    if (style->format == CCL_REPORT_CSV)
        return ccl_i_row_emit(ccl_i_result_verify.root, &row, verify_columns, style->format, out,
                              err);
    if (!v->verdict) {
        ccl_text_printf(out, "invalid: malformed %s: %s\n", v->form, row.malformed);
    } else if (v->verdict->valid) {
        ccl_text_printf(out, "valid: %s is a correct %s for %u ranks (%s)\n", v->input,
                        v->collective, v->nranks, v->form);
        if (row.origin)
            ccl_text_printf(out, "origin: %s\n", row.origin);
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

typedef struct sketch_row {
    ccl_sketch_stats_t of;
    bool seconds;
} sketch_row_t;

typedef struct made {
    const char *output, *synthesizer, *origin, *collective, *topology, *profile;
    uint32_t nranks, transfers, steps, channels, thread_blocks, primitives;
    uint64_t seed;
    double size_bytes;
    bool limited;
    const void *search, *sketch, *c2c, *warm; /* NULL, or what stands behind */
    ccl_synth_stats_t stats;
    sketch_row_t sketch_row;
    ccl_i_warm_row_t warm_row;
} made_t;

static void made_row(const ccl_report_synth_t *m, made_t *out) {
    const ccl_schedule_t *s = m->schedule;

    *out = (made_t){.output = m->output,
                    .synthesizer = m->with,
                    .origin = m->program ? m->program->origin : s->origin,
                    .collective = s->coll->name,
                    .topology = m->topo->name,
                    .profile = ccl_i_profile_name(m->topo),
                    .nranks = s->coll->nranks,
                    .transfers = s->ntransfers,
                    .steps = s->nsteps,
                    .channels = s->nchannels,
                    .thread_blocks = m->program ? m->program->ntbs : CCL_NONE,
                    .primitives = m->program ? m->program->nsteps : CCL_NONE,
                    .seed = m->seed,
                    .size_bytes = m->size_bytes,
                    .limited = s->limited};
    if (!m->stats)
        return;
    out->stats = *m->stats;
    out->sketch_row = (sketch_row_t){m->stats->sketch, m->seconds};
    out->search = m->stats->parts ? &out->stats : NULL;
    out->sketch = m->stats->sketch.runs ? &out->sketch_row : NULL;
    out->c2c = m->stats->c2c.runs ? &out->stats.c2c : NULL;
    out->warm_row = (ccl_i_warm_row_t){m->stats->warm, m->topo};
    out->warm = m->stats->warm.runs ? &out->warm_row : NULL;
}

#define AT(member) CCL_I_AT(ccl_synth_stats_t, member)
static const ccl_i_described_t search_record = {
    .fields = (const ccl_i_field_t[]){{"start_steps", AT(start_steps), "of the start"},
                                      {"steps", AT(steps), "in the end"},
                                      {"bound_steps", AT(bound_steps), "proven: none has fewer"},
                                      {"counterexamples", AT(counterexamples)},
                                      {"solver_calls", AT(solver_calls)},
                                      {"solver_steps", AT(solver_steps), "that it took away"},
                                      {"solver_spreads", AT(solver_spreads),
                                       "parts whose load it spread"},
                                      {"solver_s", AT(solver_s), "wall time in the solver"},
                                      {0}},
    .tall = true};
#undef AT
#define AT(member) CCL_I_AT(sketch_row_t, of.member)
/* Without this the same on every machine, whatever its cache holds. */
#define SECONDS .when = CCL_I_WHEN(sketch_row_t, seconds)
static const ccl_i_described_t sketch_record = {
    .fields =
        (const ccl_i_field_t[]){
            {"dimensions", AT(dimensions), "of the cluster, used"},
            {"visited", AT(visited), "partial sketches"},
            {"found", AT(found), "sketches kept"},
            {"given", AT(given), "sketches of the user's file"},
            {"isomorphic", AT(isomorphic), "dropped by pruning 1"},
            {"inconsistent", AT(inconsistent), "ways to fill a stage that pruning 2 left out"},
            {"relayed", AT(relayed), "dropped by pruning 3"},
            {"unreaching", AT(unreaching), "dropped: do not work from every root"},
            {"capped", AT(capped), "there were more than the limits let in"},
            {"mixes_tried", AT(mixes_tried), "combinations balanced"},
            {"mixes", AT(mixes), "kept"},
            {"candidates", AT(candidates), "mixes with channels and shapes: estimated"},
            {"simulated", AT(simulated), "candidates made into schedules and simulated"},
            {"solved", AT(solved), "sketches added whose sub-demands are solved"},
            {"sub_demands", AT(sub_demands), "different ones"},
            {"shapes", AT(shapes), "of these answered by a proven shape"},
            {"milps", AT(milps), "asked of GLPK; with --verbose", SECONDS},
            {"cached", AT(cached), "found in the cache; with --verbose", SECONDS},
            {"solve_s", AT(solve_s), "wall time; with --verbose", SECONDS},
            {"symmetry_s", AT(symmetry_s), "wall time; with --verbose", SECONDS},
            {"search_s", AT(search_s), "wall time; with --verbose", SECONDS},
            {"combine_s", AT(combine_s), "wall time; with --verbose", SECONDS},
            {"simulate_s", AT(simulate_s), "wall time; with --verbose", SECONDS},
            {0}},
    .tall = true};
#undef AT
#define AT(member) CCL_I_AT(ccl_c2c_stats_t, member)
static const ccl_i_described_t c2c_record = {
    .fields =
        (const ccl_i_field_t[]){
            {"size_bytes", AT(size_bytes)},
            {"start_s", AT(phase_s[0]), "of the busiest link or group in the start"},
            {"between_s", AT(phase_s[1]), "the same between clusters"},
            {"end_s", AT(phase_s[2]), "the same in the end"},
            {"together_s", AT(together_s), "the same in all three"},
            {"overlap_gain", AT(overlap_gain), "what overlapping the phases gains at least"},
            {0}},
    .tall = true};
#undef AT
#define AT(member) CCL_I_AT(made_t, member)
const ccl_i_result_t ccl_i_result_synth = {
    "synth", "ccllab synth", "a schedule that was synthesized",
    &(const ccl_i_described_t){
        .fields = (const ccl_i_field_t[]){
            {"output", AT(output), "file of the schedule or program"},
            {"synthesizer", AT(synthesizer)},
            {"origin", AT(origin), "who made it, and how"},
            {"collective", AT(collective)},
            {"topology", AT(topology)},
            CCL_I_PROFILE(AT(profile)),
            {"nranks", AT(nranks)},
            {"size_bytes", AT(size_bytes), "that it was made for"},
            {"transfers", AT(transfers)},
            {"steps", AT(steps)},
            {"channels", AT(channels)},
            {"limited", AT(limited), "a limit was reached: the best so far"},
            {"seed", AT(seed)},
            {"thread_blocks", AT(thread_blocks), .null = "not lowered"},
            {"primitives", AT(primitives), .null = "not lowered"},
            {"search", AT(search), "of cegis", .null = "another synthesizer", .of = &search_record},
            {"sketch", AT(sketch), "of sketch", .null = "another synthesizer",
             .of = &sketch_record},
            {"c2c", AT(c2c), "of c2c", .null = "another synthesizer", .of = &c2c_record},
            {"warm", AT(warm), "of alltoallv", .null = "without --warm", .of = &ccl_i_warm_record},
            {0}}}};
#undef AT

static const ccl_i_column_t synth_columns[] = {
    CCL_I_COLUMN("output"),     CCL_I_COLUMN("synthesizer"), CCL_I_COLUMN("collective"),
    CCL_I_COLUMN("topology"),   CCL_I_COLUMN("nranks"),      CCL_I_COLUMN("size_bytes"),
    CCL_I_COLUMN("transfers"),  CCL_I_COLUMN("steps"),       CCL_I_COLUMN("channels"),
    CCL_I_COLUMN("limited"),    CCL_I_COLUMN("seed"),        CCL_I_COLUMN("thread_blocks"),
    CCL_I_COLUMN("primitives"), CCL_I_COLUMN("origin"),      CCL_I_COLUMNS_END};

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

static void c2c_text(const ccl_c2c_stats_t *s, ccl_text_t *out) {
    ccl_text_printf(out,
                    "c2c: at %.0f bytes links are busy for %.6g us in the start, %.6g between "
                    "clusters, %.6g in the end,\n  the busiest for %.6g in all, whatever the "
                    "order; one phase behind the other takes %.2f times that or more\n",
                    s->size_bytes, 1e6 * s->phase_s[0], 1e6 * s->phase_s[1], 1e6 * s->phase_s[2],
                    1e6 * s->together_s, s->overlap_gain);
}

ccl_status_t ccl_report_synth(const ccl_report_synth_t *made, const ccl_report_style_t *style,
                              ccl_text_t *out, ccl_error_t *err) {
    char with[300];
    const ccl_schedule_t *s = made->schedule;
    made_t row;

    made_row(made, &row);
    if (style->format == CCL_REPORT_JSON)
        return ccl_i_result_json(&ccl_i_result_synth, &row, out, err);
    if (style->format == CCL_REPORT_CSV)
        return ccl_i_row_emit(ccl_i_result_synth.root, &row, synth_columns, style->format, out,
                              err);
    ccl_text_printf(out, "%s: %s by %s on %s: %u ranks, %u transfer%s in %u step%s, %u channel%s%s",
                    made->output, s->coll->name, made->with, made->topo->name, s->coll->nranks,
                    s->ntransfers, s->ntransfers == 1 ? "" : "s", s->nsteps,
                    s->nsteps == 1 ? "" : "s", s->nchannels, s->nchannels == 1 ? "" : "s",
                    s->limited ? " (limit reached: best so far)" : "");
    if (made->program)
        ccl_text_printf(out, ", at most %u thread blocks a GPU", most_blocks(made->program));
    ccl_text_printf(out, "\norigin: %s\nwith %s\n", row.origin,
                    ccl_i_constants_text(made->topo, with, sizeof(with)));
    if (made->stats && made->stats->parts)
        ccl_text_printf(out,
                        "search: %u steps at first, %u now, %u %s; %u counterexamples, %u solver "
                        "calls of %.3f s in all\n",
                        made->stats->start_steps, made->stats->steps, made->stats->bound_steps,
                        made->stats->steps > made->stats->bound_steps ? "at least" : "proven least",
                        made->stats->counterexamples, made->stats->solver_calls,
                        made->stats->solver_s);
    if (made->stats && made->stats->sketch.runs)
        sketch_text(&made->stats->sketch, made->seconds, out);
    if (made->stats && made->stats->c2c.runs && made->seconds)
        c2c_text(&made->stats->c2c, out);
    if (made->stats && made->stats->warm.runs)
        ccl_i_warm_text(&made->stats->warm, made->topo, out);
    return ccl_i_text_status(out, err);
}
