// timeout: 300
/* cegis: steps that are known to be the fewest, proofs, the trace, limits, equal bytes. */
#include "bench/small_clusters.h"
#include "common.h"
#include "synth/cegis/cegis.h"
#include "synth/common/plan.h"

/* Two quads of four GPUs, each a mesh, with two links between them: HeteCCL's figure 5. */
static ccl_topology_t *figure5(void) {
    static const uint32_t links[][2] = {{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}, {4, 5},
                                        {4, 6}, {4, 7}, {5, 6}, {5, 7}, {6, 7}, {1, 4}, {2, 7}};
    ccl_topology_builder_t *b = with_gpus("figure5", 8);
    for (size_t i = 0; i < CCL_ARRAY_LEN(links); i++)
        add_duplex(b, links[i][0], links[i][1], "nvlink", 25, 1);
    return finish(b);
}

static ccl_topology_t *torus4x4(void) {
    ccl_topology_builder_t *b = with_gpus("torus", 16);
    for (uint32_t r = 0; r < 16; r++) {
        add_duplex(b, r, r / 4 * 4 + (r + 1) % 4, "nvlink", 50, 1);
        add_duplex(b, r, (r + 4) % 16, "nvlink", 50, 1);
    }
    return finish(b);
}

static ccl_schedule_t *synth_counted(const ccl_topology_t *topo, ccl_collective_kind_t kind,
                                     ccl_synth_options_t options, uint64_t seed, ccl_work_t *work) {
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_collective_t *want = collective(kind, topo->nranks, 0);
    ccl_schedule_t *schedule = NULL;
    ctx.seed = seed;
    ctx.work = work;
    ccl_status_t status =
        ccl_synthesize(&ctx, "cegis", topo, NULL, want, &options, &schedule, &err);
    ck_assert_msg(status == CCL_OK, "%s: %s", topo->name, err.text);
    ccl_collective_destroy(want);
    return schedule;
}

static ccl_schedule_t *synth(const ccl_topology_t *topo, ccl_collective_kind_t kind,
                             ccl_synth_options_t options, uint64_t seed) {
    return synth_counted(topo, kind, options, seed, NULL);
}

static const struct {
    const char *spec;
    uint32_t steps; /* counted by hand: what enters the smallest server over its NICs, one more */
} clusters[] = {{"heteccl-h20-4+8", 3},    {"heteccl-h20-4x2+8", 4},  {"heteccl-h20-4x3", 3},
                {"heteccl-h20-4x3+8", 5},  {"heteccl-h20-8x2+4", 5},  {"heteccl-h20-4x2+8x2", 6},
                {"heteccl-v100-4+8", 3},   {"heteccl-v100-4x2+8", 4}, {"heteccl-v100-4x3", 3},
                {"heteccl-v100-4x3+8", 5}, {"heteccl-v100-8x2+4", 5}, {"heteccl-v100-4x2+8x2", 6},
                {"heteccl-a100-4+8", 3}};

START_TEST(test_heteccl_clusters) {
    ccl_topology_t *topo = topology(clusters[_i].spec);
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_synth_stats_t stats = {0};
    options.size_bytes = 1e9;
    options.chunks = 1;
    options.stats = &stats;
    ccl_schedule_destroy(synth(topo, CCL_ALLGATHER, options, 1));
    ck_assert_uint_eq(stats.parts, 1);
    ck_assert_uint_eq(stats.steps, clusters[_i].steps);
    ck_assert_uint_eq(stats.bound_steps, clusters[_i].steps);
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(test_figure5) {
    /* Each quad lacks four chunks, two links bring two in a step; what comes last must come to all
       four at once, which two links cannot do: 3 steps. */
    ccl_topology_t *topo = figure5();
    for (int plain = 0; plain < 2; plain++) {
        ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
        ccl_synth_stats_t stats = {0};
        ccl_text_t trace = {0};
        options.chunks = 1;
        options.plain_start = plain;
        options.effort = 4;
        options.stats = &stats;
        options.trace = &trace;
        ccl_schedule_destroy(synth(topo, CCL_ALLGATHER, options, 1));
        ck_assert_uint_eq(stats.steps, 3);
        ck_assert_uint_eq(stats.bound_steps, 3);
        ck_assert_ptr_nonnull(strstr(trace.data, "\"event\":\"result\""));
        if (plain) {
            ck_assert_uint_gt(stats.start_steps, 3);
            ck_assert_uint_gt(stats.counterexamples, 0);
            ck_assert_ptr_nonnull(strstr(trace.data, "\"kind\":\"link\""));
        }
        ccl_text_fini(&trace);
    }
    ccl_topology_destroy(topo);
}
END_TEST

typedef struct setting {
    ccl_topology_t *topo;
    ccl_routes_t *routes;
    ccl_i_exchange_t x;
    ccl_i_chunking_t capacity;
    ccl_i_cegis_problem_t problem;
    ccl_i_cegis_chunk_t chunks[16];
    uint32_t targets[16][16];
} setting_t;

/** AllGather, a chunk per GPU. */
static void set(setting_t *s, ccl_topology_t *topo, bool one_send) {
    ccl_error_t err = CCL_ERROR_INIT;
    memset(s, 0, sizeof *s);
    s->topo = topo;
    s->routes = ccl_routes_create(topo);
    ck_assert_int_eq(ccl_i_exchange_init(&s->x, topo, s->routes, NULL, &err), CCL_OK);
    ck_assert_int_eq(ccl_i_chunking_init(&s->capacity, &s->x, 1e6,
                                         (ccl_i_chunking_step_t){.stretch = 1}, false, &err),
                     CCL_OK);
    for (uint32_t k = 0; k < topo->nranks; k++) {
        uint32_t n = 0;
        for (uint32_t r = 0; r < topo->nranks; r++) {
            if (r != k)
                s->targets[k][n++] = r;
        }
        s->chunks[k] = (ccl_i_cegis_chunk_t){k, n, s->targets[k]};
    }
    ck_assert_int_eq(ccl_i_cegis_problem_init(&s->problem, &s->x, &s->capacity, s->chunks,
                                              topo->nranks, one_send, &err),
                     CCL_OK);
}

static void unset(setting_t *s) {
    ccl_i_cegis_problem_fini(&s->problem);
    ccl_i_chunking_fini(&s->capacity);
    ccl_i_exchange_fini(&s->x);
    ccl_routes_destroy(s->routes);
    ccl_topology_destroy(s->topo);
}

START_TEST(test_repair_and_proof) {
    /* 15 chunks over 4 links a GPU: 4 steps, with one place of 16 free. A start of 5 is repaired,
       3 are refuted by the solver alone. */
    setting_t s;
    ccl_error_t err = CCL_ERROR_INIT;
    set(&s, torus4x4(), false);
    ck_assert_uint_eq(s.problem.bound, 4);
    uint32_t repaired = 0;
    for (uint64_t seed = 1; seed < 20 && repaired < 3; seed++) {
        ccl_i_cegis_plan_t plan = {0};
        ccl_i_cegis_run_t run;
        ck_assert_int_eq(ccl_i_cegis_greedy(&s.problem, false, seed, NULL, &plan, &err), CCL_OK);
        if (plan.nsteps == 5) {
            ccl_i_cegis_examples_t examples = {0};
            ck_assert_int_eq(
                ccl_i_cegis_search(NULL, &(ccl_i_cegis_ask_t){&s.problem, &plan, 4, 3000000, 0},
                                   &run, &err),
                CCL_OK);
            if (run.answer == CCL_I_CEGIS_FOUND) {
                repaired++;
                ck_assert_uint_gt(run.len, 1);
                ck_assert_int_eq(run.snapshots[0].sat, -2);
                ck_assert_uint_gt(run.snapshots[0].examples, 0);
                ck_assert_uint_eq(run.plan.nsteps, 4);
                ck_assert_int_eq(ccl_i_cegis_check(&s.problem, &run.plan, &examples, &err), CCL_OK);
                ck_assert_uint_eq(examples.len, 0);
            }
            free(examples.items);
            ccl_i_cegis_run_fini(&run);
        }
        ccl_i_cegis_plan_fini(&plan);
    }
    ck_assert_uint_ge(repaired, 2);
    ccl_i_cegis_plan_t plan = {0};
    ccl_i_cegis_run_t run;
    ck_assert_int_eq(ccl_i_cegis_greedy(&s.problem, false, 1, NULL, &plan, &err), CCL_OK);
    ck_assert_int_eq(
        ccl_i_cegis_search(NULL, &(ccl_i_cegis_ask_t){&s.problem, &plan, 3, 0, 100}, &run, &err),
        CCL_OK);
    ck_assert_int_eq(run.answer, CCL_I_CEGIS_NONE);
    ccl_i_cegis_run_fini(&run);
    ccl_i_cegis_plan_fini(&plan);
    unset(&s);
}
END_TEST

START_TEST(test_clock) {
    /* No time at all: unknown and limited, nothing worse. */
    setting_t s;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_i_cegis_plan_t plan = {0};
    ccl_i_cegis_run_t run;
    set(&s, torus4x4(), true);
    ck_assert_int_eq(ccl_i_cegis_greedy(&s.problem, false, 1, NULL, &plan, &err), CCL_OK);
    ck_assert_int_eq(
        ccl_i_cegis_search(NULL, &(ccl_i_cegis_ask_t){&s.problem, &plan, plan.nsteps - 1, 0, 0.02},
                           &run, &err),
        CCL_OK);
    ck_assert(run.limited);
    ck_assert_int_eq(run.answer, CCL_I_CEGIS_UNKNOWN);
    ccl_i_cegis_run_fini(&run);
    ccl_i_cegis_plan_fini(&plan);
    unset(&s);
    ccl_topology_t *topo = topology("heteccl-h20-4x8+8x4");
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    options.time_limit_s = 1e-6;
    ccl_schedule_t *schedule = synth(topo, CCL_ALLREDUCE, options, 1);
    ck_assert(schedule->limited);
    ccl_schedule_destroy(schedule);
    ccl_topology_destroy(topo);
}
END_TEST

static double run_with(const ccl_topology_t *topo, const char *name, ccl_collective_kind_t kind,
                       ccl_synth_options_t options) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    ccl_collective_t *want = collective(kind, topo->nranks, 0);
    ccl_way_t way = ccl_way_choose(ccl_synth_find(name)->way, (ccl_way_t){0}, 0);
    ccl_schedule_t *schedule = NULL;
    ccl_program_t *program = NULL;
    ccl_sim_result_t *result = NULL;
    lower.size_bytes = sim.size_bytes = options.size_bytes;
    ccl_status_t status = ccl_synthesize(NULL, name, topo, NULL, want, &options, &schedule, &err);
    lower.topo = topo;
    lower.order = way.order;
    lower.allocation = way.allocation;
    lower.granularity = sim.granularity = way.granularity;
    if (status == CCL_OK)
        status = ccl_lower(NULL, schedule, &lower, &program, &err);
    if (status == CCL_OK)
        status = ccl_sim_program(NULL, topo, NULL, program, &sim, &result, &err);
    ck_assert_msg(status == CCL_OK, "%s on %s: %s", name, topo->name, err.text);
    double time_s = result->time_s;
    ccl_sim_result_destroy(result);
    ccl_program_destroy(program);
    ccl_schedule_destroy(schedule);
    ccl_collective_destroy(want);
    return time_s;
}

static double run_s(const ccl_topology_t *topo, const char *name, ccl_collective_kind_t kind) {
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    options.size_bytes = 1e9;
    return run_with(topo, name, kind, options);
}

/* The length of a step: the bound alone would have twice the slowest hop's tau, and once (chunks of
   85 KiB and 21 KiB); by simulation another one is faster. */
START_TEST(test_steps) {
    static const struct {
        const char *spec;
        double size_bytes, by_bound_s, less;
    } cases[] = {{"heteccl-h20-4+8", 1048576, 31.4953e-6, 0.88},
                 {"heteccl-v100-4+8", 262144, 17.4307e-6, 0.85}};
    ccl_topology_t *topo = topology(cases[_i].spec);
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    options.size_bytes = cases[_i].size_bytes;
    double time_s = run_with(topo, "cegis", CCL_ALLGATHER, options);
    options.tau_ref_s = cases[_i].by_bound_s;
    ck_assert_double_lt(time_s, cases[_i].less * run_with(topo, "cegis", CCL_ALLGATHER, options));
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(test_baselines) {
    /* Thread blocks as limited as they are: no baseline is faster. */
    static const struct {
        const char *spec;
        ccl_collective_kind_t kind;
        double most_s;
    } cases[] = {{"heteccl-h20-4x3", CCL_ALLGATHER, 3.45e-3},
                 {"heteccl-a100-4+8", CCL_ALLGATHER, 6.8e-3}};
    static const char *const baselines[] = {"ring", "recursive", "hm", "hpds"};
    ccl_topology_t *topo = topology(cases[_i].spec);
    double time_s = run_s(topo, "cegis", cases[_i].kind);
    for (size_t i = 0; i < CCL_ARRAY_LEN(baselines); i++)
        ck_assert_double_le(time_s, run_s(topo, baselines[i], cases[_i].kind));
    ck_assert_double_le(time_s, cases[_i].most_s);
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(test_one_second) {
    /* 64 GPUs: something right after a second or so, whatever had to be left out. */
    ccl_topology_t *topo = topology("heteccl-v100-4x8+8x4");
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    options.time_limit_s = 1;
    options.size_bytes = 1e9;
    ccl_schedule_destroy(synth(topo, CCL_ALLGATHER, options, 1));
    ccl_schedule_t *schedule = synth(topo, CCL_ALLREDUCE, options, 1);
    ck_assert_uint_eq(schedule->coll->nranks, 64);
    ccl_schedule_destroy(schedule);
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(test_same_bytes) {
    ccl_topology_t *topo = topology(SANITIZED ? "heteccl-v100-4+8" : "heteccl-v100-4x2+8");
    ccl_text_t text[3] = {{0}, {0}, {0}};
    for (uint64_t i = 0; i < 3; i++) {
        ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
        options.size_bytes = 64e6;
        ccl_schedule_t *s = synth(topo, CCL_REDUCESCATTER, options, i < 2 ? 7 : 8);
        ck_assert_int_eq(ccl_schedule_write_json(s, &text[i], NULL), CCL_OK);
        ccl_schedule_destroy(s);
    }
    ck_assert_str_eq(text[0].data, text[1].data);
    ck_assert_str_ne(text[0].data, text[2].data);
    for (int i = 0; i < 3; i++)
        ccl_text_fini(&text[i]);
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(test_squeeze_and_fill) {
    setting_t s;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_i_cegis_plan_t plan = {0}, squeezed = {0};
    ccl_i_cegis_examples_t examples = {0};
    uint32_t moved;
    set(&s, figure5(), false);
    ck_assert_int_eq(ccl_i_cegis_greedy(&s.problem, false, 1, NULL, &plan, &err), CCL_OK);
    ck_assert_int_eq(ccl_i_cegis_squeeze(&s.problem, &plan, 2, &squeezed, &err), CCL_OK);
    ck_assert_uint_eq(squeezed.len, plan.len);
    ck_assert_int_eq(ccl_i_cegis_check(&s.problem, &squeezed, &examples, &err), CCL_OK);
    ck_assert_uint_gt(examples.len, 0);
    /* A plan that leaves its first step to the second has it filled up again. */
    for (size_t i = 0; i < plan.len; i++)
        plan.sends[i].step++;
    plan.nsteps++;
    ck_assert_int_eq(ccl_i_cegis_fill(&s.problem, &plan, 0, &moved, &err), CCL_OK);
    ck_assert_uint_gt(moved, 20);
    ck_assert_int_eq(ccl_i_cegis_check(&s.problem, &plan, &examples, &err), CCL_OK);
    ck_assert_uint_eq(examples.len, 0);
    free(examples.items);
    ccl_i_cegis_plan_fini(&plan);
    ccl_i_cegis_plan_fini(&squeezed);
    unset(&s);
}
END_TEST

START_TEST(test_relieve) {
    /* Every chunk crosses between the quads over 1-4, though 2-7 is there as well. A GPU with three
       links takes in seven chunks: three over one of them. */
    setting_t s;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_i_cegis_plan_t plan = {0}, out = {0};
    ccl_i_cegis_examples_t examples = {0};
    set(&s, figure5(), false);
    for (uint32_t k = 0; k < 8; k++) {
        uint32_t step_of[8], done = 1;
        memset(step_of, 0xff, sizeof step_of);
        step_of[k] = 0;
        for (uint32_t step = 0; done < 8; step++) {
            for (uint32_t h = 0; h < s.x.nhops; h++) {
                const ccl_i_hop_t *hop = &s.x.hops[h];
                if (step_of[hop->src] > step || step_of[hop->dst] != CCL_NONE ||
                    hop->src + hop->dst == 9)
                    continue;
                ck_assert(ccl_grow(&plan.sends, &plan.cap, plan.len + 1, sizeof *plan.sends));
                plan.sends[plan.len++] = (ccl_i_cegis_send_t){k, h, step};
                step_of[hop->dst] = step + 1;
                done++;
            }
        }
    }
    ck_assert(ccl_i_cegis_plan_sort(&plan));
    double chunk_s = 1e6 / 25e9;
    ck_assert_double_ge(ccl_i_cegis_load_s(&s.problem, &plan), 4 * chunk_s - 1e-9);
    ck_assert_int_eq(ccl_i_cegis_relieve(&s.problem, &plan, &out, &err), CCL_OK);
    ck_assert_uint_eq(out.len, plan.len);
    ck_assert_double_eq_tol(ccl_i_cegis_load_s(&s.problem, &out), 3 * chunk_s, 1e-9);
    ck_assert_int_eq(ccl_i_cegis_check(&s.problem, &out, &examples, &err), CCL_OK);
    ck_assert_uint_eq(examples.len, 0);
    /* Nothing is left to gain. */
    ck_assert_int_eq(ccl_i_cegis_relieve(&s.problem, &out, &plan, &err), CCL_OK);
    ck_assert_uint_eq(plan.len, 0);
    free(examples.items);
    ccl_i_cegis_plan_fini(&plan);
    ccl_i_cegis_plan_fini(&out);
    unset(&s);
}
END_TEST

static uint64_t asked(const char *spec, uint32_t effort) {
    ccl_topology_t *topo = topology(spec);
    ccl_synth_stats_t stats = {0};
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    options.effort = effort;
    options.stats = &stats;
    ccl_schedule_destroy(synth(topo, CCL_ALLGATHER, options, 1));
    ccl_topology_destroy(topo);
    ck_assert_uint_gt(stats.solver_work, 0);
    return stats.solver_work;
}

/* Z3 finds nothing here, so it may use an eighth of its least work, and of four times that. */
START_TEST(test_asked_little) {
    ck_assert_uint_le(asked("mi250-x16", 1), 800000 / 8);
    uint64_t more = asked("mi250-x16", 4);
    ck_assert_uint_gt(more, 800000 / 8);
    ck_assert_uint_le(more, 4 * 800000 / 8);
}
END_TEST

/* Z3 takes a step away here, and then the schedule is slower: the one before is taken. */
START_TEST(test_fewer_steps_are_not_faster) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_topology_t *topo = small_cluster(1, 22, &err);
    ck_assert_ptr_nonnull(topo);
    ccl_i_timing_t timing[2];
    for (uint32_t effort = 0; effort < 2; effort++) {
        ccl_synth_stats_t stats = {0};
        ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
        options.size_bytes = 16 << 10;
        options.effort = effort;
        options.stats = &stats;
        ccl_schedule_t *schedule = synth(topo, CCL_REDUCESCATTER, options, 1);
        timing[effort] = (ccl_i_timing_t){.size_bytes = options.size_bytes,
                                          .way.granularity = CCL_GRANULARITY_TASK};
        ck_assert_int_eq(ccl_i_time_schedule(NULL, topo, NULL, schedule, &timing[effort], NULL),
                         CCL_OK);
        ck_assert_int_eq(stats.solver_calls > 0, effort);
        ccl_schedule_destroy(schedule);
    }
    ck_assert_double_le(timing[1].time_s, timing[0].time_s * (1 + 1e-9));
    ccl_topology_destroy(topo);
}
END_TEST

/* Small clusters: beyond 10,000 transfers slices are doubled once. */
START_TEST(test_no_more_slices) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_topology_t *topo = small_cluster(1, 45, &err);
    ck_assert_ptr_nonnull(topo);
    ccl_work_t work = {0};
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    options.size_bytes = 32 << 20;
    ccl_schedule_destroy(synth_counted(topo, CCL_ALLREDUCE, options, 1, &work));
    ck_assert_uint_gt(work.events, 0);
    ck_assert_uint_le(work.events, 750000); /* 310,000 more where it is done twice */
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("unit.synth.cegis");
    TCase *tcase = tcase_create("cegis");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, test_heteccl_clusters, 0,
                        SANITIZED ? 2 : (int)CCL_ARRAY_LEN(clusters));
    tcase_add_test(tcase, test_figure5);
    tcase_add_test(tcase, test_repair_and_proof);
    tcase_add_test(tcase, test_clock);
    tcase_add_test(tcase, test_same_bytes);
#ifdef __SANITIZE_ADDRESS__ /* six times as slow */
    enum { CASES = 1 };
#else
    enum { CASES = 2 };
#endif
    tcase_add_loop_test(tcase, test_baselines, 0, CASES);
    tcase_add_loop_test(tcase, test_steps, 0, CASES);
    tcase_add_test(tcase, test_one_second);
    tcase_add_test(tcase, test_squeeze_and_fill);
    tcase_add_test(tcase, test_relieve);
    if (!SANITIZED) /* work alone */
        tcase_add_test(tcase, test_asked_little);
    tcase_add_test(tcase, test_fewer_steps_are_not_faster);
    tcase_add_test(tcase, test_no_more_slices);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
