/* Local search: what it returns is right, never slower, the same for a seed; every change that it
 * makes to good schedules is refused or right. */
#include <check.h>
#include <stdlib.h>

#include "search/improve/moves.h"
#include "search/improve/improve.h"
#include "synth/synth.h"
#include "tests/topologies/topologies.h"

static ccl_topology_t *topo;
static ccl_routes_t *routes;

static ccl_schedule_t *make(const char *cluster, ccl_collective_kind_t kind, const char *with) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_collective_t *want = NULL;
    ccl_schedule_t *out = NULL;
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    topo = topology(cluster);
    routes = ccl_routes_create(topo);
    ck_assert_int_eq(ccl_collective_create(kind, topo->nranks, 1, 0, &want, NULL), CCL_OK);
    ck_assert_msg(ccl_synthesize(NULL, with, topo, routes, want, &options, &out, &err) == CCL_OK,
                  "%s", err.text);
    ccl_collective_destroy(want);
    return out;
}

static void drop(ccl_schedule_t *schedule) {
    ccl_schedule_destroy(schedule);
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
}

static ccl_improvement_t improve(const ccl_schedule_t *schedule, double size_bytes, uint32_t tries,
                                 uint64_t seed) {
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ccl_improve_options_t options = CCL_IMPROVE_OPTIONS_INIT;
    ccl_improvement_t out;
    ccl_error_t err = CCL_ERROR_INIT;
    ctx.seed = seed;
    options.sim.size_bytes = size_bytes;
    options.tries = tries;
    ck_assert_msg(ccl_improve(&ctx, topo, schedule, &options, &out, &err) == CCL_OK, "%s",
                  err.text);
    ck_assert_uint_eq(out.tries, tries);
    ck_assert(out.valid >= out.accepted && out.tries >= out.valid);
    return out;
}

static bool right(const ccl_schedule_t *schedule) {
    ccl_verdict_t verdict;
    ck_assert_int_eq(ccl_schedule_verify(NULL, schedule, &verdict, NULL), CCL_OK);
    return verdict.valid;
}

static double run(const ccl_schedule_t *schedule, double size_bytes) {
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    ccl_program_t *program = NULL;
    ccl_sim_result_t *result = NULL;
    lower.topo = topo;
    lower.size_bytes = sim.size_bytes = size_bytes;
    ck_assert_int_eq(ccl_lower(NULL, schedule, &lower, &program, NULL), CCL_OK);
    ck_assert_int_eq(ccl_sim_program(NULL, topo, routes, program, &sim, &result, NULL), CCL_OK);
    double time_s = result->time_s;
    ccl_sim_result_destroy(result);
    ccl_program_destroy(program);
    return time_s;
}

/* Small messages on servers of unlike size: the mesh waits where other ways are free. */
START_TEST(test_gains) {
    ccl_schedule_t *hm = make("hetccl-snu", CCL_ALLGATHER, "hm");
    ccl_improvement_t a = improve(hm, 1 << 20, 150, 1), b = improve(hm, 1 << 20, 150, 1);
    ccl_improvement_t c = improve(hm, 1 << 20, 150, 2);
    ck_assert(a.time_s < 0.97 * a.before_s);
    ck_assert(right(a.schedule) && right(c.schedule));
    ck_assert_double_eq_tol(run(hm, 1 << 20), a.before_s, 1e-12);
    ck_assert_double_eq_tol(run(a.schedule, 1 << 20), a.time_s, 1e-12);
    ck_assert(ccl_schedule_equal(a.schedule, b.schedule) && a.time_s == b.time_s);
    ck_assert(!ccl_schedule_equal(a.schedule, c.schedule));
    ccl_schedule_destroy(a.schedule);
    ccl_schedule_destroy(b.schedule);
    ccl_schedule_destroy(c.schedule);
    drop(hm);
}
END_TEST

/* Every kind of chunk: sums, relays, roots. Never slower; without tries nothing changes. */
START_TEST(test_kinds) {
    static const struct {
        ccl_collective_kind_t kind;
        const char *with;
    } rows[] = {{CCL_ALLREDUCE, "ring"},  {CCL_ALLREDUCE, "recursive"}, {CCL_REDUCESCATTER, "hm"},
                {CCL_ALLTOALL, "direct"}, {CCL_BROADCAST, "tree"},      {CCL_REDUCE, "tree"},
                {CCL_ALLREDUCE, "hm"},    {CCL_ALLREDUCE, "latency"}};
    ccl_schedule_t *s = make("servers:2 gpus:2 nvswitch=300GB/s,0.7us nics:1x25GB/s,2us",
                             rows[_i].kind, rows[_i].with);
    ccl_improvement_t none = improve(s, 1 << 22, 0, 1), some = improve(s, 1 << 22, 60, 1);
    ck_assert(none.time_s == none.before_s && none.time_s == some.before_s);
    ck_assert(ccl_schedule_equal(none.schedule, s));
    ck_assert(some.time_s <= some.before_s && some.valid > 0);
    ck_assert(right(some.schedule));
    ccl_schedule_destroy(none.schedule);
    ccl_schedule_destroy(some.schedule);
    drop(s);
}
END_TEST

static ccl_schedule_t *built(const ccl_i_moves_t *m) {
    ccl_collective_t *coll = NULL;
    ccl_schedule_t *out = NULL;
    ck_assert_int_eq(ccl_collective_clone(m->coll, &coll, NULL), CCL_OK);
    ccl_schedule_builder_t *b = ccl_schedule_builder_create("moved", coll);
    for (uint32_t i = 0; i < m->n; i++)
        ccl_schedule_builder_add(b, m->transfers[i]);
    ck_assert_int_eq(ccl_schedule_builder_finish(b, &out, NULL), CCL_OK);
    return out;
}

/* Changes keep a schedule of trees right, and many of them change it. */
START_TEST(test_moves) {
    static const char *const with[] = {"ring", "ring", "tree", "recursive", "direct"};
    ccl_schedule_t *from = make("servers:2 gpus:3 nvswitch=300GB/s nics:3x25GB/s",
                                _i ? CCL_ALLREDUCE : CCL_ALLGATHER, with[_i]);
    ccl_rng_t rng;
    uint32_t changed = 0, kept = 0;
    ccl_rng_init(&rng, 7);
    for (uint32_t i = 0; i < 200; i++) {
        ccl_i_moves_t m;
        bool done = false;
        ck_assert_int_eq(ccl_i_moves_init(from, &m, NULL), CCL_OK);
        ck_assert_int_eq(ccl_i_moves_any(&m, &rng, ccl_rng_below(&rng, m.n), &done, NULL), CCL_OK);
        ccl_schedule_t *to = built(&m);
        changed += done;
        kept += done && right(to);
        ccl_schedule_destroy(to);
        ccl_i_moves_fini(&m);
    }
    ck_assert_msg(changed >= 80 && kept == changed, "%u changed, %u right", changed, kept);
    ccl_i_moves_t halves;
    bool done = false;
    ck_assert_int_eq(ccl_i_moves_init(from, &halves, NULL), CCL_OK);
    ck_assert_int_eq(ccl_i_moves_split(&halves, &done, NULL), CCL_OK);
    ccl_schedule_t *to = built(&halves);
    ck_assert(done && right(to) && to->ntransfers == 2 * from->ntransfers);
    ccl_schedule_destroy(to);
    ccl_i_moves_fini(&halves);
    drop(from);
}
END_TEST

int main(void) {
    Suite *s = suite_create("improve");
    TCase *t = tcase_create("improve");
    tcase_set_timeout(t, 100);
    tcase_add_test(t, test_gains);
    tcase_add_loop_test(t, test_kinds, 0, 8);
    tcase_add_loop_test(t, test_moves, 0, 5);
    suite_add_tcase(s, t);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}
