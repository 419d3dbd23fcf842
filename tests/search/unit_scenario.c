/* Scenarios: what is read and refused, laws, samples that are the same for everybody, quantiles
   that hold what they say, ranks. */
#include "make/make.h"
#include "search/compare/compare.h"
#include "tests/topologies/topologies.h"

#include <math.h>
#include <stdlib.h>

static ccl_scenario_t *scenario(const char *text) {
    ccl_scenario_t *s = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_status_t status = text[0] == '{' ? ccl_scenario_parse("test", text, strlen(text), &s, &err)
                                         : ccl_scenario_read(text, &s, &err);
    ck_assert_msg(status == CCL_OK, "%s: %s", text, err.text);
    return s;
}

START_TEST(two_forms) {
    ccl_scenario_t *a =
        scenario("rate@s0/nic0/device = normal(1, 5%) ; launch/server=gamma(20us,2);"
                 "degrade:nic:0=50%~2%;");
    ccl_scenario_t *b = scenario(
        "{\"schema\":\"ccllab/scenarios/1\",\"name\":\"x\",\"vary\":[{\"what\":\"rate\",\"of\":"
        "\"s0/nic0\",\"per\":\"device\",\"law\":\"normal(1,0.05)\"},{\"what\":\"launch\",\"per\":"
        "\"server\",\"law\":\"gamma(20us,2)\"}],\"failures\":[{\"edit\":\"degrade:nic:0=50%\","
        "\"probability\":0.02}]}");
    ck_assert_str_eq(b->name, "x");
    ck_assert_uint_eq(a->nvariations, 2);
    ck_assert_uint_eq(b->nvariations, 2);
    for (uint32_t i = 0; i < 2; i++) {
        ck_assert_int_eq(a->variations[i].what, b->variations[i].what);
        ck_assert_str_eq(a->variations[i].of, b->variations[i].of);
        ck_assert_int_eq(a->variations[i].per, b->variations[i].per);
        ck_assert_int_eq(a->variations[i].law.kind, b->variations[i].law.kind);
        ck_assert_double_eq(a->variations[i].law.a, b->variations[i].law.a);
        ck_assert_double_eq(a->variations[i].law.b, b->variations[i].law.b);
    }
    ck_assert_str_eq(a->mishaps[0].edit, "degrade:nic:0=50%");
    ck_assert_double_eq(a->mishaps[0].probability, b->mishaps[0].probability);
    ccl_scenario_destroy(a);
    ccl_scenario_destroy(b);
}
END_TEST

static const struct {
    const char *text, *says;
} bad[] = {
    {"rate=", "\"\" is no law: constant(VALUE), uniform"},
    {"speed=constant(1)", "\"speed\" does not vary: rate, latency, blocks or launch do"},
    {"rate=normal(1)", "normal(MEAN,DEVIATION)"},
    {"rate=normal(1,2,3)", "normal(MEAN,DEVIATION)"},
    {"rate=constant(0)", "factors are above 0"},
    {"rate=constant(fast)", "\"fast\" is no number, such as 0.9 or 90%"},
    {"rate=uniform(1,0.5)", "the most, 0.5, is less than the least, 1"},
    {"latency=constant(5)", "\"5\" has no unit"},
    {"latency=gamma(1us,0)", "its second value is 0"},
    {"launch/link=constant(1us)", "a draw holds for a device, server or cluster"},
    {"fail:nic:0~2", "a probability of 2: from 0 to 1 is needed"},
    {"fail:nic:0~often", "\"often\" is no number"},
    {";=;", "does not vary"},
    {"; ~", "is no number"},
    {"{\"schema\":\"ccllab/scenarios/2\"}", "\"ccllab/scenarios/1\" is"},
    {"{\"schema\":\"ccllab/scenarios/1\"}", "the scenario is empty"},
    {"{\"schema\":\"ccllab/scenarios/1\",\"vary\":[{\"what\":\"rate\",\"law\":\"normal(1,x)\"}]}",
     "/vary/0/law: \"x\" is no number"},
    {"{\"schema\":\"ccllab/scenarios/1\",\"vary\":[{\"what\":\"rate\",\"laws\":\"normal(1,x)\"}]}",
     "laws"},
    {"rate=empirical(/nonexistent.csv)", "/nonexistent.csv"},
};

START_TEST(refused) {
    ccl_scenario_t *s = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    char said[1400];
    const char *text = bad[_i].text;
    ccl_status_t status = text[0] == '{' ? ccl_scenario_parse("test", text, strlen(text), &s, &err)
                                         : ccl_scenario_read(text, &s, &err);
    ccl_error_format(&err, said, sizeof said);
    ck_assert_msg(status != CCL_OK && !s, "%s is accepted", text);
    ck_assert_msg(strstr(said, bad[_i].says) != NULL, "%s: %s", text, said);
}
END_TEST

static const struct {
    const char *name, *of;
} absent[] = {{"rate@nic:9=constant(1)", "no nic 9"},
              {"rate@nett=constant(1)", "no device or link \"nett\""},
              {"launch@nic:0=constant(1us)", "has no GPU"},
              {"fail:gpu:99~1%", "no rank 99"}};

START_TEST(not_of_this_cluster) {
    ccl_topology_t *topo = topology("servers:2 gpus:4 nvswitch=300GB/s nics:4x25GB/s");
    ccl_scenario_t *s = scenario(absent[_i].name);
    ccl_draws_t *draws = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_int_eq(ccl_draws_create(s, topo, 1, &draws, &err), CCL_ERR_INPUT);
    ck_assert_msg(strstr(err.text, absent[_i].of) != NULL, "%s", err.text);
    ccl_scenario_destroy(s);
    ccl_topology_destroy(topo);
}
END_TEST

/* Mean and deviation of many draws within five standard errors. */
static const struct {
    const char *law;
    double mean, deviation;
} laws[] = {
    {"constant(0.7)", 0.7, 0},
    {"uniform(0.5,1.5)", 1, 0.2886751345948129},
    {"normal(10,0.5)", 10, 0.5},
    {"normal(0.5,0.5)", 0.6438,
     0.39677}, /* what is left of it above 0: mean 0.5 + 0.5 h, h = 0.28760 */
    {"lognormal(2,0.25)", 2.063488, 0.524046}, /* 2 exp(s^2/2), times sqrt(exp(s^2) - 1) */
    {"gamma(3,4)", 3, 1.5},
    {"gamma(3,0.5)", 3, 4.242640687119285},
};

START_TEST(moments) {
    char text[80];
    enum { N = 40000 };
    double sum = 0, squares = 0;
    ccl_rng_t rng;
    snprintf(text, sizeof text, "rate=%s", laws[_i].law);
    ccl_scenario_t *s = scenario(text);
    ccl_rng_init(&rng, 5);
    for (int i = 0; i < N; i++) {
        double x = ccl_law_draw(&s->variations[0].law, &rng);
        ck_assert_double_gt(x, 0);
        sum += x;
        squares += x * x;
    }
    double mean = sum / N, deviation = sqrt(fmax(0, squares / N - mean * mean));
    ck_assert_double_eq_tol(mean, laws[_i].mean, 5 * laws[_i].deviation / sqrt(N) + 1e-3);
    ck_assert_double_eq_tol(deviation, laws[_i].deviation, 0.05 * laws[_i].deviation + 1e-6);
    ccl_scenario_destroy(s);
}
END_TEST

START_TEST(from_a_file) {
    char path[] = "/tmp/ccl_scenario_XXXXXX", text[120];
    int fd = mkstemp(path);
    FILE *file = fdopen(fd, "w");
    ck_assert_ptr_nonnull(file);
    fprintf(file, "# measured\nname,lag\na,1us\nb,3us\n\nc,8us\n");
    fclose(file);
    snprintf(text, sizeof text, "launch=empirical(%s:lag)", path);
    ccl_scenario_t *s = scenario(text);
    ck_assert_uint_eq(s->variations[0].law.nvalues, 3);
    ck_assert_double_eq(s->variations[0].law.values[2], 8e-6);
    ccl_scenario_destroy(s);
    remove(path);
}
END_TEST

/* ---------------------------------------------------------------- samples */

static ccl_program_t *program_of(const ccl_topology_t *topo, ccl_collective_kind_t kind,
                                 const char *with, double size_bytes) {
    ccl_collective_t *want = NULL;
    ccl_made_t made = {0};
    ccl_synth_options_t synth = CCL_SYNTH_OPTIONS_INIT;
    synth.size_bytes = size_bytes;
    MUST(ccl_collective_create(kind, topo->nranks, 1, 0, &want, e));
    MUST(ccl_make(NULL, with, topo, NULL, want, &synth, NULL, false, &made, e));
    ccl_program_t *program = made.program;
    made.program = NULL;
    ccl_made_fini(&made);
    ccl_collective_destroy(want);
    return program;
}

static void times_of(const char *text, const ccl_topology_t *topo, const ccl_program_t *program,
                     double size_bytes, uint32_t threads, uint32_t n, double *times_s) {
    ccl_scenario_t *s = scenario(text);
    ccl_draws_t *draws = NULL;
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    ctx.threads = threads;
    sim.size_bytes = size_bytes;
    MUST(ccl_draws_create(s, topo, 7, &draws, e));
    MUST(ccl_draws_time_all(&ctx, draws, &(ccl_drawn_run_t){topo, NULL, program, &sim}, n, times_s,
                            e));
    ccl_draws_destroy(draws);
    ccl_scenario_destroy(s);
}

enum { N = 2000 };

/* Two GPUs exchange their halves: t = L + c / (B x), so the quantile p of t is at 1 - p of x. */
START_TEST(quantiles_of_one_link) {
    static double times_s[N];
    ccl_topology_t *topo = topology("servers:1 gpus:2 nvlink=mesh,10GB/s,2us");
    ccl_program_t *program = program_of(topo, CCL_ALLGATHER, "direct", 2e6);
    ccl_spread_t spread;
    times_of("rate/cluster=lognormal(1,0.2)", topo, program, 2e6, 0, N, times_s);
    MUST(ccl_spread(times_s, N, &spread, e));
    const struct {
        ccl_quantile_t got;
        double z;
    } rows[] = {
        {spread.p50, 0}, {spread.p95, 1.6448536269514722}, {spread.p99, 2.3263478740408408}};
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        double want_s = 2e-6 + 1e6 / 10e9 * exp(0.2 * rows[i].z);
        ck_assert_msg(rows[i].got.low_s <= want_s && want_s <= rows[i].got.high_s,
                      "%g s is not in %g to %g", want_s, rows[i].got.low_s, rows[i].got.high_s);
        ck_assert_double_le(rows[i].got.high_s - rows[i].got.low_s, 0.1 * want_s);
        ck_assert_double_le(rows[i].got.low_s, rows[i].got.value_s);
    }
    ck_assert_double_eq(spread.quantile_s[0], spread.min_s);
    ck_assert_double_eq(spread.quantile_s[50], spread.p50.value_s);
    ck_assert_double_eq(spread.quantile_s[95], spread.p95.value_s);
    ck_assert_double_eq(spread.quantile_s[99], spread.p99.value_s);
    ck_assert_double_eq(spread.quantile_s[CCL_SPREAD_QUANTILES - 1], spread.max_s);
    double mean_s = 2e-6 + 1e-4 * exp(0.02);
    ck_assert_double_eq_tol(spread.mean_s, mean_s, 1.3 * spread.mean_ci_s);
    ccl_program_destroy(program);
    ccl_topology_destroy(topo);
}
END_TEST

/* The intervals hold the quantile in 95 of 100 trials or more, of uniform numbers. */
START_TEST(coverage) {
    static const double ps[] = {0.5, 0.95, 0.99};
    uint32_t inside[3] = {0};
    enum { TRIALS = 2000, EACH = 500 };
    ccl_rng_t rng;
    ccl_rng_init(&rng, 3);
    for (int t = 0; t < TRIALS; t++) {
        double x[EACH];
        ccl_spread_t spread;
        for (int i = 0; i < EACH; i++)
            x[i] = ccl_rng_unit(&rng);
        MUST(ccl_spread(x, EACH, &spread, e));
        const ccl_quantile_t *q[] = {&spread.p50, &spread.p95, &spread.p99};
        for (int k = 0; k < 3; k++) /* an open end holds it */
            inside[k] += !(q[k]->low_s > ps[k]) && !(q[k]->high_s < ps[k]);
    }
    for (int k = 0; k < 3; k++) {
        ck_assert_uint_ge(inside[k], (uint32_t)(0.94 * TRIALS));
        ck_assert_uint_le(inside[k], (uint32_t)(0.995 * TRIALS));
    }
}
END_TEST

static const char *const all = "rate@net/device=normal(1,0.2); latency@nvlink=uniform(0us,2us); "
                               "blocks=uniform(0.5,1); launch/server=gamma(9us,2); fail:nic:0~30%; "
                               "fail:gpu:1~10%; degrade:server:1=50%~20%";

START_TEST(any_number_of_threads) {
    static double one_s[60], four_s[60];
    ccl_topology_t *topo = topology("servers:2 gpus:2 nvswitch=300GB/s nics:4x25GB/s,2us");
    ccl_program_t *program = program_of(topo, CCL_ALLREDUCE, "hm", 1e6);
    uint32_t lost = 0;
    times_of(all, topo, program, 1e6, 1, 60, one_s);
    times_of(all, topo, program, 1e6, 4, 60, four_s);
    for (int i = 0; i < 60; i++) {
        ck_assert_msg(one_s[i] == four_s[i], "sample %d: %g and %g", i, one_s[i], four_s[i]);
        lost += isinf(one_s[i]);
    }
    ck_assert_uint_ge(lost, 1); /* without GPU 1 */
    ck_assert_uint_le(lost, 15);
    ccl_program_destroy(program);
    ccl_topology_destroy(topo);
}
END_TEST

/* A failed NIC leaves the time of the cluster without it, and the others' variations their links.
 */
START_TEST(failures) {
    static double some_s[20];
    double drawn_s = 0, damaged_s = 0;
    ccl_topology_t *topo = topology("servers:2 gpus:2 nvswitch=300GB/s nics:4x25GB/s,2us"),
                   *damaged = edited(topo, "fail:nic:0");
    ccl_program_t *program = program_of(topo, CCL_ALLREDUCE, "ring", 1e6);
    times_of("rate=constant(1)", topo, program, 1e6, 1, 1, &drawn_s);
    times_of("rate=constant(1)", damaged, program, 1e6, 1, 1, &damaged_s);
    ck_assert_double_gt(damaged_s, 1.01 * drawn_s);
    times_of("fail:nic:0~50%", topo, program, 1e6, 1, 20, some_s);
    uint32_t failed = 0;
    for (int i = 0; i < 20; i++) {
        ck_assert_msg(some_s[i] == drawn_s || some_s[i] == damaged_s, "sample %d: %g", i,
                      some_s[i]);
        failed += some_s[i] == damaged_s;
    }
    ck_assert_uint_ge(failed, 4);
    ck_assert_uint_le(failed, 16);
    /* The slow NIC is the third, also where the first is gone. */
    double slow_s, both_s;
    times_of("fail:nic:0~1; rate@nic:2=constant(10%)", topo, program, 1e6, 1, 1, &both_s);
    times_of("rate@nic:1=constant(10%)", damaged, program, 1e6, 1, 1, &slow_s);
    ck_assert_double_eq_tol(both_s, slow_s, 1e-12 * slow_s);
    ck_assert_double_gt(both_s, 1.01 * damaged_s);
    ccl_program_destroy(program);
    ccl_topology_destroy(damaged);
    ccl_topology_destroy(topo);
}
END_TEST

/* ---------------------------------------------------------------- ranks */

START_TEST(ranks) {
    /* a is faster most of the time, b never slow. */
    double a_s[100], b_s[100], best_s[100], got[2];
    static const struct {
        const char *text;
        bool a_wins;
    } rows[] = {{"p50", true},     {"mean", true},    {"p99", false},
                {"cvar95", false}, {"regret", false}, {"p95", true}};
    for (int i = 0; i < 100; i++) {
        a_s[i] = i < 97 ? 1 : 9;
        b_s[i] = 2;
        best_s[i] = fmin(a_s[i], b_s[i]);
    }
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_rank_t rank;
        MUST(ccl_rank_parse(rows[i].text, &rank, e));
        MUST(ccl_rank_value(rank, a_s, best_s, 100, &got[0], e));
        MUST(ccl_rank_value(rank, b_s, best_s, 100, &got[1], e));
        ck_assert_msg((got[0] < got[1]) == rows[i].a_wins, "%s: %g and %g", rows[i].text, got[0],
                      got[1]);
    }
    ccl_rank_t rank;
    static const char *const none[] = {"p0", "p100", "p", "q5", "cvar", "p99x", ""};
    for (size_t i = 0; i < CCL_ARRAY_LEN(none); i++)
        ck_assert_int_eq(ccl_rank_parse(none[i], &rank, NULL), CCL_ERR_INPUT);
    ccl_paired_t paired;
    ccl_paired(a_s, b_s, 100, &paired);
    ck_assert_double_eq_tol(paired.wins, 0.97, 1e-12);
    ck_assert_double_eq_tol(paired.mean_s, -0.97 + 0.21, 1e-12);
}
END_TEST

/* Winners differ by what they are chosen by, and contenders meet the same samples. */
START_TEST(compared) {
    static const ccl_contender_t contenders[] = {{.name = "ring"}, {.name = "direct"}};
    static const double sizes[] = {1 << 20};
    ccl_topology_t *topo = topology("servers:2 gpus:2 nvswitch=300GB/s nics:4x25GB/s,2us");
    ccl_scenario_t *s = scenario("launch=gamma(50us,1); fail:nic:1~10%");
    ccl_draws_t *draws = NULL;
    ccl_collective_t *want = NULL;
    ccl_comparison_t *c = NULL;
    ccl_compare_options_t options = CCL_COMPARE_OPTIONS_INIT;
    MUST(ccl_draws_create(s, topo, 7, &draws, e));
    MUST(ccl_collective_create(CCL_ALLGATHER, 4, 1, 0, &want, e));
    options.contenders = contenders;
    options.ncontenders = 2;
    options.sizes_bytes = sizes;
    options.nsizes = 1;
    options.draws = draws;
    options.samples = 40;
    options.rank = (ccl_rank_t){CCL_RANK_QUANTILE, 0.9};
    MUST(ccl_compare(NULL, topo, want, &options, &c, e));
    for (uint32_t k = 0; k < 2; k++) {
        double alone_s[40];
        ccl_program_t *program = program_of(topo, CCL_ALLGATHER, contenders[k].name, sizes[0]);
        times_of("launch=gamma(50us,1); fail:nic:1~10%", topo, program, sizes[0], 2, 40, alone_s);
        for (uint32_t i = 0; i < 40; i++)
            ck_assert_double_eq_tol(alone_s[i], c->samples_s[40 * k + i], 1e-12);
        ck_assert_uint_eq(c->spreads[k].spread.n, 40);
        ccl_program_destroy(program);
    }
    uint32_t w = c->winner[0];
    ck_assert_double_le(c->spreads[w].rank, c->spreads[1 - w].rank);
    ck_assert_double_eq(c->spreads[w].behind.mean_s, 0);
    ck_assert_double_ge(c->spreads[0].fastest + c->spreads[1].fastest, 1);
    ccl_comparison_destroy(c);
    options.draws = NULL;
    ck_assert_int_eq(ccl_compare(NULL, topo, want, &options, &c, NULL), CCL_ERR_INPUT);
    ccl_collective_destroy(want);
    ccl_draws_destroy(draws);
    ccl_scenario_destroy(s);
    ccl_topology_destroy(topo);
}
END_TEST

/* ---------------------------------------------------------------- candidates judged by samples */

static ccl_schedule_t *judged(const char *with, const ccl_topology_t *topo,
                              const ccl_judge_t *judge, uint32_t threads) {
    ccl_synth_options_t synth = CCL_SYNTH_OPTIONS_INIT;
    ccl_collective_t *want = NULL;
    ccl_schedule_t *schedule = NULL;
    ccl_ctx_t ctx = CCL_CTX_INIT;
    synth.size_bytes = 16 << 20;
    ctx.threads = threads;
    ctx.judge = judge;
    MUST(ccl_collective_create(CCL_BROADCAST, topo->nranks, 1, 0, &want, e));
    MUST(ccl_synthesize(&ctx, with, topo, NULL, want, &synth, &schedule, e));
    ccl_collective_destroy(want);
    return schedule;
}

/** p95 over samples that it was not chosen by. */
static double p95_of(const ccl_scenario_t *scenario, const ccl_topology_t *topo,
                     const ccl_schedule_t *schedule) {
    static double times_s[100];
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    ccl_program_t *program = NULL;
    ccl_draws_t *draws = NULL;
    ccl_spread_t spread;
    lower.topo = topo;
    lower.size_bytes = sim.size_bytes = 16 << 20;
    MUST(ccl_lower(NULL, schedule, &lower, &program, e));
    MUST(ccl_draws_create(scenario, topo, 99, &draws, e));
    MUST(ccl_draws_time_all(NULL, draws, &(ccl_drawn_run_t){topo, NULL, program, &sim}, 100,
                            times_s, e));
    MUST(ccl_spread(times_s, 100, &spread, e));
    ccl_draws_destroy(draws);
    ccl_program_destroy(program);
    return spread.p95.value_s;
}

/* A NIC at a few percent: a Broadcast that the samples choose keeps off it. */
START_TEST(judge) {
    ccl_scenario_t *s = scenario("rate@nic:1=uniform(0.02,0.1)");
    ccl_topology_t *topo = topology("servers:2 gpus:4 nvswitch=100GB/s,1us nics:4x10GB/s,2us");
    ccl_topology_t *other = topology("servers:2 gpus:4 nvswitch=100GB/s,1us nics:4x10GB/s,2us");
    ccl_draws_t *draws = NULL;
    ccl_draws_judge_t by;
    const ccl_rank_t p95 = {CCL_RANK_QUANTILE, 0.95};
    MUST(ccl_draws_create(s, topo, 5, &draws, e));
    MUST(ccl_draws_judge(draws, topo, 16, p95, &by, e));
    ccl_schedule_t *drawn = judged("latency", topo, NULL, 0),
                   *robust = judged("latency", topo, &by.of, 1);
    ccl_schedule_t *again = judged("latency", topo, &by.of, 3),
                   *elsewhere = judged("latency", other, &by.of, 1);
    ck_assert_double_lt(p95_of(s, topo, robust), 0.5 * p95_of(s, topo, drawn));
    ck_assert(ccl_schedule_equal(robust, again));
    ck_assert(ccl_schedule_equal(drawn, elsewhere)); /* not the judge's cluster */
    ck_assert_int_eq(ccl_draws_judge(draws, topo, 0, p95, &by, NULL), CCL_ERR_INPUT);
    ck_assert_int_eq(ccl_draws_judge(draws, topo, 9, (ccl_rank_t){CCL_RANK_REGRET, 0}, &by, NULL),
                     CCL_ERR_INPUT);
    ccl_schedule_destroy(drawn);
    ccl_schedule_destroy(robust);
    ccl_schedule_destroy(again);
    ccl_schedule_destroy(elsewhere);
    ccl_draws_destroy(draws);
    ccl_scenario_destroy(s);
    ccl_topology_destroy(topo);
    ccl_topology_destroy(other);
}
END_TEST

/* Where every sample is lost there is still a schedule. */
START_TEST(judge_of_lost_samples) {
    ccl_scenario_t *s = scenario("fail:gpu:1~100%");
    ccl_topology_t *topo = topology("servers:2 gpus:2 nvswitch=100GB/s,1us nics:2x10GB/s,2us");
    ccl_draws_t *draws = NULL;
    ccl_draws_judge_t by;
    MUST(ccl_draws_create(s, topo, 5, &draws, e));
    MUST(ccl_draws_judge(draws, topo, 4, (ccl_rank_t){CCL_RANK_MEAN, 0}, &by, e));
    static const char *const with[] = {"latency", "packing", "sketch", "greedy", "cegis"};
    for (size_t i = 0; i < CCL_ARRAY_LEN(with); i++)
        ccl_schedule_destroy(judged(with[i], topo, &by.of, 1));
    ccl_draws_destroy(draws);
    ccl_scenario_destroy(s);
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create(__FILE__);
    TCase *cases = tcase_create("all");
    tcase_add_test(cases, two_forms);
    tcase_add_loop_test(cases, refused, 0, CCL_ARRAY_LEN(bad));
    tcase_add_loop_test(cases, not_of_this_cluster, 0, CCL_ARRAY_LEN(absent));
    tcase_add_loop_test(cases, moments, 0, CCL_ARRAY_LEN(laws));
    tcase_add_test(cases, from_a_file);
    tcase_add_test(cases, quantiles_of_one_link);
    tcase_add_test(cases, coverage);
    tcase_add_test(cases, any_number_of_threads);
    tcase_add_test(cases, failures);
    tcase_add_test(cases, ranks);
    tcase_add_test(cases, compared);
    tcase_add_test(cases, judge);
    tcase_add_test(cases, judge_of_lost_samples);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
