/*
 * Tuned points over samples of a scenario: who is best there becomes the best of its size; figures
 * are those of runs in the same samples; threads change nothing.
 */
#include "search/tune/sampled.h"
#include "tests/topologies/topologies.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/base/main.h"

enum { SAMPLES = 24 };
static const double sizes[] = {64 << 10, 16 << 20};

typedef struct lab {
    ccl_topology_t *topo;
    ccl_collective_t *want;
    ccl_space_t *space;
    ccl_tuning_t *tuning;
    ccl_scenario_t *scenario;
    ccl_draws_t *draws;
} lab_t;

static void open_lab(lab_t *lab, const char *scenario) {
    ccl_tune_options_t options = CCL_TUNE_OPTIONS_INIT;
    ccl_error_t err = CCL_ERROR_INIT;
    lab->topo = topology("servers:2 gpus:2 nvswitch=100GB/s,1us nics:2x10GB/s,2us");
    ck_assert_int_eq(ccl_collective_create(CCL_BROADCAST, 4, 1, 0, &lab->want, NULL), CCL_OK);
    ck_assert_int_eq(ccl_space_create(&lab->space, NULL), CCL_OK);
    ck_assert_int_eq(ccl_space_set(lab->space, "with=ring,packing,direct,greedy", NULL), CCL_OK);
    options.space = lab->space;
    options.sizes_bytes = sizes;
    options.nsizes = CCL_ARRAY_LEN(sizes);
    options.budget_runs = 30;
    ck_assert_msg(ccl_tune(NULL, lab->topo, lab->want, &options, &lab->tuning, &err) == CCL_OK,
                  "%s", err.text);
    ck_assert_msg(ccl_scenario_read(scenario, &lab->scenario, &err) == CCL_OK, "%s", err.text);
    ck_assert_int_eq(ccl_draws_create(lab->scenario, lab->topo, 5, &lab->draws, NULL), CCL_OK);
}

static void close_lab(lab_t *lab) {
    ccl_draws_destroy(lab->draws);
    ccl_scenario_destroy(lab->scenario);
    ccl_tuning_destroy(lab->tuning);
    ccl_space_destroy(lab->space);
    ccl_collective_destroy(lab->want);
    ccl_topology_destroy(lab->topo);
}

static ccl_tune_samples_t *sample(lab_t *lab, const char *rank, uint32_t top, uint32_t threads) {
    ccl_tune_sample_options_t options = CCL_TUNE_SAMPLE_OPTIONS_INIT;
    ccl_tune_samples_t *out = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ctx.threads = threads;
    options.draws = lab->draws;
    options.samples = SAMPLES;
    options.top = top;
    if (rank)
        ck_assert_int_eq(ccl_rank_parse(rank, &options.rank, NULL), CCL_OK);
    ck_assert_msg(ccl_tune_sample(&ctx, lab->topo, lab->want, lab->tuning, &options, &out, &err) ==
                      CCL_OK,
                  "%s", err.text);
    return out;
}

static const char *settings_of(const lab_t *lab, uint32_t run) {
    return lab->tuning->points[lab->tuning->runs[run].point].settings;
}

/** A NIC at a twentieth: trees over all NICs lose to those that do not use it. */
START_TEST(test_another_wins) {
    lab_t lab;
    open_lab(&lab, "rate@nic:1=constant(0.05)");
    uint32_t drawn[] = {lab.tuning->best[0], lab.tuning->best[1]};
    ck_assert_str_eq(settings_of(&lab, drawn[1]), "{\"with\":\"greedy\"}");
    ccl_tune_samples_t *plain = sample(&lab, NULL, 0, 0);
    ck_assert_uint_eq(lab.tuning->best[1], drawn[1]); /* nothing to rank by */
    ck_assert_uint_eq(plain->points[0].tuned_rank, 1);
    ccl_tune_samples_t *s = sample(&lab, "p95", 0, 0);
    ck_assert_uint_ne(lab.tuning->best[1], drawn[1]);
    ck_assert_ptr_nonnull(strstr(settings_of(&lab, lab.tuning->best[1]), "\"direct\""));
    ccl_tune_samples_destroy(plain);
    ccl_tune_samples_destroy(s);
    close_lab(&lab);
}
END_TEST

/** The times of a point's program, made and run by itself. */
static void times_of(const lab_t *lab, uint32_t run, double *times_s) {
    const ccl_tune_run_t *r = &lab->tuning->runs[run];
    const double *values = lab->tuning->points[r->point].values;
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    ccl_program_t *program = NULL;
    ccl_way_t way;
    ck_assert_int_eq(ccl_tune_program(NULL, lab->topo, lab->want, values, sizes[r->size],
                                      &(ccl_tune_target_t){0}, &program, &way, NULL),
                     CCL_OK);
    sim.size_bytes = sizes[r->size];
    sim.granularity = way.granularity;
    ccl_drawn_run_t drawn = {lab->topo, NULL, program, &sim};
    ck_assert_int_eq(ccl_draws_time_all(NULL, lab->draws, &drawn, SAMPLES, times_s, NULL), CCL_OK);
    ccl_program_destroy(program);
}

START_TEST(test_figures) {
    static const char *const ranks[] = {"p95", "mean", "cvar90", "regret"};
    static double times_s[2 * 32][SAMPLES];
    lab_t lab;
    open_lab(&lab, "rate@net/device=normal(1,0.3); fail:nic:0~4%");
    ccl_tune_samples_t *s = sample(&lab, ranks[_i], 6, 1), *same = sample(&lab, ranks[_i], 6, 3);
    ck_assert_uint_eq(s->npoints, same->npoints);
    ck_assert_uint_le(s->npoints, 12);
    for (uint32_t i = 0; i < s->npoints; i++)
        times_of(&lab, s->points[i].run, times_s[i]);
    for (uint32_t i = 0; i < s->npoints; i++) {
        const ccl_sampled_t *p = &s->points[i];
        uint32_t size = lab.tuning->runs[p->run].size;
        bool first = i == 0 || lab.tuning->runs[p[-1].run].size != size;
        double best_s[SAMPLES], want_s;
        ccl_spread_t spread;
        ccl_rank_t rank;
        for (uint32_t k = 0; k < SAMPLES; k++) {
            best_s[k] = INFINITY;
            for (uint32_t o = 0; o < s->npoints; o++)
                if (lab.tuning->runs[s->points[o].run].size == size)
                    best_s[k] = fmin(best_s[k], times_s[o][k]);
        }
        ck_assert_int_eq(ccl_spread(times_s[i], SAMPLES, &spread, NULL), CCL_OK);
        ck_assert_double_eq(p->spread.mean_s, spread.mean_s);
        ck_assert_uint_eq(p->spread.lost, spread.lost);
        ck_assert_int_eq(ccl_rank_parse(ranks[_i], &rank, NULL), CCL_OK);
        ck_assert_int_eq(ccl_rank_value(rank, times_s[i], best_s, SAMPLES, &want_s, NULL), CCL_OK);
        ck_assert(p->rank_s == want_s);
        ck_assert_uint_eq(p->run, same->points[i].run);
        ck_assert(p->rank_s == same->points[i].rank_s && p->regret_s == same->points[i].regret_s);
        if (first)
            ck_assert_uint_eq(lab.tuning->best[size], p->run);
        else
            ck_assert_float_le((float)p[-1].rank_s, (float)p->rank_s);
    }
    ccl_tune_samples_destroy(s);
    ccl_tune_samples_destroy(same);
    close_lab(&lab);
}
END_TEST

START_TEST(test_refused) {
    ccl_tune_sample_options_t options = CCL_TUNE_SAMPLE_OPTIONS_INIT;
    ccl_tune_samples_t *out = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    lab_t lab;
    open_lab(&lab, "launch=constant(1us)");
    ck_assert_int_eq(ccl_tune_sample(NULL, lab.topo, lab.want, lab.tuning, &options, &out, &err),
                     CCL_ERR_INPUT);
    options.draws = lab.draws;
    ck_assert_int_eq(ccl_tune_sample(NULL, lab.topo, lab.want, lab.tuning, &options, &out, &err),
                     CCL_ERR_INPUT);
    ck_assert_ptr_null(out);
    close_lab(&lab);
}
END_TEST

int main(void) {
    Suite *suite = suite_create(__FILE__);
    TCase *cases = tcase_create("all");
    tcase_add_test(cases, test_another_wins);
    tcase_add_loop_test(cases, test_figures, 0, 4);
    tcase_add_test(cases, test_refused);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
