// timeout: 600
/*
 * Clusters so small that the optimum is known: the bound is not above it, no schedule is below it,
 * both ends of the linear program meet, and the best plans of whole chunks are right and take the
 * time that they say.
 */
#include <math.h>

#include "bench/tiny_case.h"
#include "bench/tiny_program.h"
#include "common.h"
#include "lower/lower.h"
#include "sim/sim.h"
#include "tests/base/nightly.h"

/* Nodes of a search over whole chunks. */
enum { CASES = 32, NIGHTLY_CASES = 1000, NODES = 3000 };

static uint32_t met, plans, known;

static double simulated_s(const tiny_case_t *c, const ccl_program_t *program) {
    ccl_sim_options_t options = CCL_SIM_OPTIONS_INIT;
    ccl_sim_result_t *result = NULL;
    options.size_bytes = c->size_bytes;
    options.batches = 1;
    MUST(ccl_sim_program(NULL, c->topo, NULL, program, &options, &result, e));
    double time_s = result->time_s;
    ccl_sim_result_destroy(result);
    return time_s;
}

static void check_plan(const tiny_case_t *c, uint32_t parts, uint32_t number) {
    ccl_collective_t *coll = NULL;
    ccl_program_t *program = NULL;
    tiny_plan_t plan;
    MUST(ccl_collective_create(c->kind, c->net.ngpus, parts, c->root, &coll, e));
    if (tiny_chunks(&c->net, coll, c->size_bytes, c->optimum_s, NODES, &plan) &&
        isfinite(plan.time_s)) {
        MUST(tiny_write(&c->net, coll, &plan, &program, e));
        check_program(program, 10000, "a plan of whole chunks");
        double time_s = simulated_s(c, program);
        ck_assert_msg(plan.time_s >= c->optimum_s * (1 - 1e-6), "case %u: %.9g us, optimum %.9g",
                      number, 1e6 * plan.time_s, 1e6 * c->optimum_s);
        ck_assert_msg(time_s <= plan.time_s * (1 + 1e-9) &&
                          (!plan.proven || time_s >= plan.time_s * (1 - 1e-9)),
                      "case %u: %.9g us, planned %.9g", number, 1e6 * time_s, 1e6 * plan.time_s);
        plans++;
        known += plan.proven;
        ccl_program_destroy(program);
    }
    ccl_collective_destroy(coll);
}

/* Of synthesizers that need no search. */
static void check_schedules(const tiny_case_t *c, uint32_t number) {
    ccl_routes_t *routes = ccl_routes_create(c->topo);
    ccl_collective_t *want = collective(c->kind, c->net.ngpus, c->root);
    double least_s = (c->proven ? c->optimum_s : c->bound_s) * (1 - 1e-6);
    for (const ccl_synth_ops_t *const *ops = ccl_synth_all(); *ops; ops++) {
        const char *why;
        ccl_schedule_t *schedule = NULL;
        ccl_program_t *program = NULL;
        ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
        ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
        if ((*ops)->by_size || (*ops)->by_name || !(*ops)->supports(c->topo, want, &why))
            continue;
        options.size_bytes = c->size_bytes;
        if (ccl_synthesize(NULL, (*ops)->name, c->topo, routes, want, &options, &schedule, NULL) !=
                CCL_OK ||
            !schedule)
            continue; /* other tests look at that */
        if (ccl_lower(NULL, schedule, &lower, &program, NULL) == CCL_OK) {
            double time_s = simulated_s(c, program);
            ck_assert_msg(time_s >= least_s, "case %u: %s takes %.9g us, optimum %.9g", number,
                          (*ops)->name, 1e6 * time_s, 1e6 * c->optimum_s);
        }
        ccl_program_destroy(program);
        ccl_schedule_destroy(schedule);
    }
    ccl_collective_destroy(want);
    ccl_routes_destroy(routes);
}

START_TEST(the_bound_is_at_most_the_optimum) {
    uint32_t cases = nightly() ? NIGHTLY_CASES : SANITIZED ? CASES / 4 : CASES;
    for (uint32_t i = 0; i < cases; i++) {
        tiny_case_t c;
        MUST(tiny_case(3, i, &c, e));
        ck_assert_msg(c.bound_s <= c.optimum_s * (1 + 1e-9), "case %u: bound %.9g us, optimum %.9g",
                      i, 1e6 * c.bound_s, 1e6 * c.optimum_s);
        ck_assert_msg(c.proven || c.kind == CCL_ALLREDUCE, "case %u: %.9g to %.9g bytes", i,
                      c.fluid.bytes, c.fluid.most_bytes);
        met += c.optimum_s < c.bound_s * 1.1;
        for (uint32_t parts = 1; parts <= 2; parts++)
            check_plan(&c, parts, i);
        check_schedules(&c, i);
        tiny_case_fini(&c);
    }
    ck_assert_uint_ge(10 * met, 9 * cases); /* and within a tenth of it in most */
    ck_assert_uint_gt(8 * plans, cases);
    ck_assert_uint_gt(known, plans / 4);
}
END_TEST

/* Two GPUs behind each other, 10 GB/s and 1 us a link: in closed form. */
START_TEST(optima_in_closed_form) {
    static const struct {
        ccl_collective_kind_t kind;
        uint32_t nsteps;
        double bytes;
        const char *why;
    } rows[] = {
        {CCL_BROADCAST, 12, 10000, "a 1 us stream, 2 us on the way"},
        {CCL_REDUCE, 12, 10000, "reversed"},
        {CCL_SCATTER, 20, 20000, "two blocks over the first link, 1 us from the end"},
        {CCL_GATHER, 20, 20000, "reversed"},
        {CCL_ALLGATHER, 12, 10000, "the far block needs 2 us"},
        {CCL_REDUCESCATTER, 12, 10000, "reversed"},
        {CCL_ALLTOALL, 20, 20000, "two blocks over each link, of use for 4 us"},
        {CCL_ALLREDUCE, 12, 10000, "met in the middle"},
        {CCL_BROADCAST, 8, 0, "2 us are not enough"},
    };
    ccl_topology_t *topo = topology_of(
        "{\"format\":\"ccllab-topology-1\",\"name\":\"t\",\"devices\":["
        "{\"id\":\"a\",\"kind\":\"gpu\",\"rank\":0},{\"id\":\"b\",\"kind\":\"gpu\",\"rank\":1},"
        "{\"id\":\"c\",\"kind\":\"gpu\",\"rank\":2}],\"links\":["
        "{\"from\":\"a\",\"to\":\"b\",\"kind\":\"nvlink\",\"bandwidth\":\"10GB/s\","
        "\"latency\":\"1us\"},{\"from\":\"b\",\"to\":\"c\",\"kind\":\"nvlink\","
        "\"bandwidth\":\"10GB/s\",\"latency\":\"1us\"}]}");
    tiny_net_t net;
    ck_assert(tiny_net(topo, &net));
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        tiny_fluid_t fluid;
        MUST(tiny_fluid(&net, rows[i].kind, 0, rows[i].nsteps, &fluid, e));
        ck_assert_msg(fabs(fluid.bytes - rows[i].bytes) < 1e-3, "row %zu: %.9g bytes: %s", i,
                      fluid.bytes, rows[i].why);
    }
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("optimum");
    TCase *tc = tcase_create("optimum");
    tcase_set_timeout(tc, 3600);
    tcase_add_test(tc, optima_in_closed_form);
    tcase_add_test(tc, the_bound_is_at_most_the_optimum);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
