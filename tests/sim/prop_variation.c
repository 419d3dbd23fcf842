/*
 * Variations of a run: with one factor and one added latency for all links the times are those of a
 * cluster that was drawn so; folding, skipping and paths change nothing; blocks and launches by
 * closed forms; values out of range are refused.
 */
#include "tests/sim/random_cases.h"
#include "tests/sim/small.h"
#include "tests/topologies/topologies.h"

static ccl_sim_result_t *run(const ccl_topology_t *topo, ccl_routes_t *routes,
                             const ccl_program_t *program, ccl_sim_options_t options) {
    ccl_sim_result_t *out = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_status_t status = ccl_sim_program(NULL, topo, routes, program, &options, &out, &err);
    ck_assert_msg(status == CCL_OK || status == CCL_DEADLOCK, "%s", err.text);
    return out;
}

/* The cluster with other links, its routes found anew. */
static ccl_topology_t with_links(const ccl_topology_t *topo, ccl_link_t *links, double factor,
                                 double latency_s) {
    ccl_topology_t out = *topo;
    for (uint32_t l = 0; l < topo->nlinks; l++) {
        links[l] = topo->links[l];
        links[l].bandwidth_Bps *= factor;
        links[l].latency_s += latency_s;
    }
    out.links = links;
    return out;
}

static void check_near(double a, double b, const char *what) {
    ck_assert_msg(fabs(a - b) <= 1e-9 * fabs(b), "%s: %.17g and %.17g s", what, a, b);
}

START_TEST(all_links_alike) {
    uint32_t compared = 0, trees = 0;
    random_abilities = true;
    for (uint32_t k = 0; k < 60; k++) {
        static const double factors[] = {0.5, 0.9, 1, 1.3}, latencies_s[] = {0, 1e-6, 20e-6};
        double rate[512], added_s[512];
        ccl_link_t links[512];
        ccl_rng_t rng;
        char what[64];
        ccl_rng_init(&rng, 91000u + k);
        uint32_t n = 2 + ccl_rng_below(&rng, 4);
        ccl_topology_t *topo = random_topology(&rng, n);
        ccl_routes_t *routes = ccl_routes_create(topo);
        random_switch_routes = routes;
        ccl_program_t *program = random_program(&rng, n, "Simple");
        random_switch_routes = NULL;
        double factor = PICK(&rng, factors), latency_s = PICK(&rng, latencies_s);
        ck_assert_uint_le(topo->nlinks, 512);
        for (uint32_t l = 0; l < topo->nlinks; l++) {
            rate[l] = factor;
            added_s[l] = latency_s;
        }
        ccl_sim_variation_t variation = {.link_rate = rate, .link_latency_s = added_s};
        ccl_sim_options_t options = CCL_SIM_OPTIONS_INIT, varied;
        options.size_bytes = 1e5 * (1 + ccl_rng_below(&rng, 20));
        varied = options;
        varied.variation = &variation;
        ccl_topology_t drawn = with_links(topo, links, factor, latency_s);
        snprintf(what, sizeof what, "case %u", k);
        ccl_sim_result_t *a = run(topo, routes, program, varied),
                         *b = run(&drawn, NULL, program, options);
        ck_assert_int_eq(a->deadlock != NULL, b->deadlock != NULL);
        if (!a->deadlock) {
            check_near(a->time_s, b->time_s, what);
            varied.no_fold = varied.no_skip = varied.path = true;
            ccl_sim_result_t *full = run(topo, routes, program, varied);
            check_near(full->time_s, a->time_s, what);
            double path_s = 0;
            for (uint32_t i = 0; i < full->npath; i++)
                path_s += full->path[i].end_s - full->path[i].start_s;
            check_near(path_s, full->time_s, what);
            ccl_sim_result_destroy(full);
            compared++;
            trees += program->ngroups > 0;
        }
        ccl_sim_result_destroy(a);
        ccl_sim_result_destroy(b);
        ccl_program_destroy(program);
        ccl_routes_destroy(routes);
        ccl_topology_destroy(topo);
    }
    random_abilities = false;
    ck_assert_uint_gt(compared, 30);
    ck_assert_uint_gt(trees, 3);
}
END_TEST

/* One megabyte from 0 over 10 GB/s and 1 us to each of two others. */
#define LINKS "0-1:nvlink,10,1 0-2:nvlink,10,1"
#define PROGRAM "0>1: s1 | 0>2: s1 | 1<0: r1 | 2<0: r1"

static const struct {
    const char *why, *transports;
    double rate[4], latency_s[4], blocks[3], late_s[3], want_s;
} forms[] = {
    {"as drawn", NULL, {1, 1, 1, 1}, {0}, {1, 1, 1}, {0}, 101e-6},
    {"one link at half its rate", NULL, {0.5, 1, 1, 1}, {0}, {1, 1, 1}, {0}, 201e-6},
    {"the way back does not matter", NULL, {1, 0.5, 1, 1}, {0}, {1, 1, 1}, {0}, 101e-6},
    {"one link is longer", NULL, {1, 1, 1, 1}, {0, 0, 7e-6, 0}, {1, 1, 1}, {0}, 108e-6},
    {"the sender is late", NULL, {1, 1, 1, 1}, {0}, {1, 1, 1}, {30e-6, 0, 0}, 131e-6},
    {"a receiver is late, but not later",
     NULL,
     {1, 1, 1, 1},
     {0},
     {1, 1, 1},
     {0, 90e-6, 0},
     101e-6},
    {"a receiver is later", NULL, {1, 1, 1, 1}, {0}, {1, 1, 1}, {0, 0, 500e-6}, 500e-6},
    {"blocks of 5 GB/s",
     "\"nvlink\":{\"tb_rate\":\"5GB/s\"}",
     {1, 1, 1, 1},
     {0},
     {1, 1, 1},
     {0},
     201e-6},
    {"and at half of it",
     "\"nvlink\":{\"tb_rate\":\"5GB/s\"}",
     {1, 1, 1, 1},
     {0},
     {0.5, 1, 1},
     {0},
     401e-6},
};

START_TEST(closed_forms) {
    const small_system_t system = {.links = LINKS, .transports = forms[_i].transports};
    ccl_topology_t *topo = small_topology(&system);
    ccl_program_t *program = small_program(PROGRAM, 3, "Simple", NULL);
    ccl_sim_variation_t variation = {forms[_i].rate, forms[_i].latency_s, forms[_i].blocks,
                                     forms[_i].late_s};
    ccl_sim_options_t options = CCL_SIM_OPTIONS_INIT;
    options.size_bytes = 1e6 * program->nchunks;
    options.batches = 1;
    options.variation = &variation;
    ccl_sim_result_t *r = run(topo, NULL, program, options);
    ck_assert_uint_eq(topo->nlinks, 4);
    ck_assert_msg(fabs(r->time_s - forms[_i].want_s) < 1e-12, "%s: %.9g s", forms[_i].why,
                  r->time_s);
    ccl_sim_result_destroy(r);
    ccl_program_destroy(program);
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(refused) {
    static const double bad[][4] = {
        {1, 0, 1, 1}, {1, -1, 1, 1}, {1, INFINITY, 1, 1}, {1, NAN, 1, 1}};
    const small_system_t system = {.links = LINKS};
    ccl_topology_t *topo = small_topology(&system);
    ccl_program_t *program = small_program(PROGRAM, 3, "Simple", NULL);
    for (size_t i = 0; i < CCL_ARRAY_LEN(bad); i++) {
        ccl_sim_variation_t variation = {.link_rate = bad[i]};
        ccl_sim_options_t options = CCL_SIM_OPTIONS_INIT;
        ccl_sim_result_t *r = NULL;
        ccl_error_t err = CCL_ERROR_INIT;
        options.size_bytes = 1e6;
        options.variation = &variation;
        ck_assert_int_eq(ccl_sim_program(NULL, topo, NULL, program, &options, &r, &err),
                         CCL_ERR_INPUT);
        ck_assert_ptr_nonnull(strstr(err.text, "rate of link 1 is "));
    }
    ccl_program_destroy(program);
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create(__FILE__);
    TCase *all = tcase_create("all");
    tcase_add_test(all, all_links_alike);
    tcase_add_loop_test(all, closed_forms, 0, CCL_ARRAY_LEN(forms));
    tcase_add_test(all, refused);
    suite_add_tcase(suite, all);
    return run_suite(suite);
}
