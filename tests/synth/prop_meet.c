/*
 * Plans in which each chunk has its own way: closed forms on chains and stars; on clusters whose
 * optimum is known the program takes the time that was planned, and most are near the optimum.
 */
#include <math.h>

#include "bench/tiny_case.h"
#include "common.h"
#include "lower/lower.h"
#include "sim/sim.h"
#include "synth/latency/meet.h"
#include "tests/base/nightly.h"

enum { CASES = 6, PLANNED = 2, NIGHTLY_CASES = 200 };

static uint32_t levels, as_planned;

static double program_s(const ccl_topology_t *topo, const ccl_schedule_t *schedule, double size) {
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    ccl_program_t *program = NULL;
    ccl_sim_result_t *run = NULL;
    lower.topo = topo;
    lower.size_bytes = sim.size_bytes = size;
    MUST(ccl_lower(NULL, schedule, &lower, &program, e));
    check_program(program, 0, schedule->origin);
    MUST(ccl_sim_program(NULL, topo, NULL, program, &sim, &run, e));
    double time_s = run->time_s;
    ccl_sim_result_destroy(run);
    ccl_program_destroy(program);
    return time_s;
}

static double latency_s(const ccl_topology_t *topo, ccl_collective_kind_t kind, double size,
                        uint32_t root) {
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_collective_t *want = collective(kind, topo->nranks, root);
    ccl_schedule_t *schedule = NULL;
    options.size_bytes = size;
    MUST(ccl_synthesize(NULL, "latency", topo, NULL, want, &options, &schedule, e));
    double time_s = program_s(topo, schedule, size);
    ccl_schedule_destroy(schedule);
    ccl_collective_destroy(want);
    return time_s;
}

/* ---------------------------------------------------------------- closed forms */

/* GPUs and links between them, "01 12": both ways, 10 GB/s; us. */
static ccl_topology_t *linked(uint32_t n, const char *pairs, const double *us) {
    ccl_text_t text = {0};
    ccl_text_printf(&text, "{\"format\":\"ccllab-topology-1\",\"name\":\"t\",\"devices\":[");
    for (uint32_t g = 0; g < n; g++)
        ccl_text_printf(&text, "%s{\"id\":\"g%u\",\"kind\":\"gpu\",\"rank\":%u}", g ? "," : "", g,
                        g);
    ccl_text_printf(&text, "],\"links\":[");
    for (uint32_t i = 0; pairs[3 * i]; i++) {
        ccl_text_printf(&text,
                        "%s{\"from\":\"g%c\",\"to\":\"g%c\",\"kind\":\"nvlink\","
                        "\"bandwidth\":\"10GB/s\",\"latency\":\"%gus\"}",
                        i ? "," : "", pairs[3 * i], pairs[3 * i + 1], us[i]);
        if (!pairs[3 * i + 2])
            break;
    }
    ccl_text_printf(&text, "]}");
    ccl_topology_t *topo = topology_of(text.data);
    ccl_text_fini(&text);
    return topo;
}

/* Small messages take the way between the farthest GPUs once, wherever its middle is. */
START_TEST(small_messages_cross_once) {
    static const struct {
        uint32_t n;
        const char *pairs;
        double us[4], far_us;
        const char *why;
    } rows[] = {
        {4, "01 12 23", {1, 1, 1}, 3, "a chain of even length: its middle is a link"},
        {4, "01 12 23", {1, 4, 1}, 6, "two pairs far from each other"},
        {3, "01 02", {4, 2}, 6, "a star whose middle is in the longer link"},
        {5, "01 12 13 34", {6, 3, 3, 8}, 17, "a tree"},
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_topology_t *topo = linked(rows[i].n, rows[i].pairs, rows[i].us);
        double us = 1e6 * latency_s(topo, CCL_ALLREDUCE, 400, 0);
        ck_assert_msg(us < 1.03 * rows[i].far_us, "row %zu: %g us: %s", i, us, rows[i].why);
        ccl_topology_destroy(topo);
    }
}
END_TEST

/* ---------------------------------------------------------------- random clusters */

static bool planned(ccl_collective_kind_t kind) {
    return kind == CCL_ALLGATHER || kind == CCL_REDUCESCATTER || kind == CCL_ALLREDUCE ||
           kind == CCL_BROADCAST || kind == CCL_REDUCE;
}

static void check_levels(const tiny_case_t *c, uint32_t number) {
    ccl_routes_t *routes = ccl_routes_create(c->topo);
    ccl_collective_t *want = collective(c->kind, c->net.ngpus, c->root);
    ccl_i_cluster_t cluster;
    ccl_i_meet_plans_t *plans = NULL;
    MUST(ccl_i_cluster_init(&cluster, c->topo, routes, e));
    ck_assert(ccl_i_meet_serves(&cluster, want));
    MUST(ccl_i_meet_plan(&cluster, want, c->size_bytes, "Simple", &plans, e));
    for (uint32_t k = 0; k < plans->nlevels; k++) {
        ccl_schedule_t *schedule = NULL;
        levels++;
        ccl_status_t status = ccl_i_meet_make(plans, k, want, &schedule, NULL);
        if (status == CCL_UNSUPPORTED) /* no steps keep its order */
            continue;
        ck_assert_int_eq(status, CCL_OK);
        double planned_s = plans->levels[k].time_s,
               time_s = program_s(c->topo, schedule, c->size_bytes);
        as_planned += time_s > planned_s * (1 - 1e-6);
        ck_assert_msg(time_s < planned_s * (1 + 1e-6), "case %u, %u parts: %.9g us, planned %.9g",
                      number, 1u << k, 1e6 * time_s, 1e6 * planned_s);
        ccl_schedule_destroy(schedule);
    }
    ccl_i_meet_plans_destroy(plans);
    ccl_i_cluster_fini(&cluster);
    ccl_collective_destroy(want);
    ccl_routes_destroy(routes);
}

START_TEST(programs_take_what_was_planned_and_most_are_near_the_optimum) {
    uint32_t rounds = nightly() ? NIGHTLY_CASES : SANITIZED ? CASES / 3 : CASES;
    uint32_t near[CCL_ARRAY_LEN(TINY_KINDS)] = {0};
    for (uint32_t i = 0; i < rounds; i++) {
        for (uint32_t k = 0; k < CCL_ARRAY_LEN(TINY_KINDS); k++) {
            tiny_case_t c;
            uint32_t number = (uint32_t)CCL_ARRAY_LEN(TINY_KINDS) * i + k;
            if (!planned(TINY_KINDS[k]))
                continue;
            MUST(tiny_case(17, number, &c, e));
            if (i < PLANNED || nightly())
                check_levels(&c, number);
            near[k] += latency_s(c.topo, c.kind, c.size_bytes, c.root) < 1.1 * c.optimum_s;
            tiny_case_fini(&c);
        }
    }
    for (uint32_t k = 0; k < CCL_ARRAY_LEN(TINY_KINDS); k++)
        ck_assert_msg(!planned(TINY_KINDS[k]) || 2 * near[k] >= rounds, "%s: %u of %u",
                      ccl_collective_kind_name(TINY_KINDS[k]), near[k], rounds);
    ck_assert_msg(10 * as_planned >= 9 * levels, "%u of %u as planned", as_planned, levels);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("meet");
    TCase *tc = tcase_create("meet");
    tcase_set_timeout(tc, 3600);
    tcase_add_test(tc, small_messages_cross_once);
    tcase_add_test(tc, programs_take_what_was_planned_and_most_are_near_the_optimum);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
