// timeout: 200
/*
 * State-based allocation on all synthesizers and collectives, on mixed clusters, at every
 * granularity: the program computes the same, finishes with one slot where it did before, takes at
 * most 1 % longer in the run it was made for, has no more blocks than before, and comes out the
 * same twice.
 */
#include "tests/synth/common.h"
#include "lower/lower_i.h"

typedef struct tally {
    uint32_t cases, merged, shared;
} tally_t;

static const char *const CLUSTERS[] = {
    "servers:2 gpus:3 nvswitch=100GB/s,1us nics:3x25GB/s,2us fabric=single",
    "servers:1 gpus:5 nvswitch=100GB/s,1us",
    "servers:3 gpus:2 nvswitch=50GB/s nics:1x25GB/s,2us fabric=single",
};

static double time_of(const ccl_lower_options_t *o, const ccl_program_t *p) {
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    ccl_sim_result_t *r = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    sim.size_bytes = o->size_bytes;
    sim.batches = o->batches;
    sim.granularity = o->granularity;
    ccl_status_t status = ccl_sim_program(NULL, o->topo, o->routes, p, &sim, &r, &err);
    double time_s = status == CCL_OK ? r->time_s : -1;
    ck_assert_msg(status == CCL_OK || status == CCL_DEADLOCK, "%s", err.text);
    ccl_sim_result_destroy(r);
    return time_s;
}

static bool finishes(const ccl_lower_options_t *o, const ccl_program_t *p) {
    ccl_blocking_t how = {.granularity = o->granularity, .batches = 7, .slots = 1};
    ccl_deadlock_t found;
    ck_assert_int_eq(ccl_program_deadlock(NULL, p, &how, &found, NULL), CCL_OK);
    return found.stuck == 0;
}

static void one(const ccl_schedule_t *schedule, const ccl_lower_options_t *options,
                const char *what, tally_t *tally) {
    ccl_program_t *plain = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_int_eq(ccl_lower(NULL, schedule, options, &plain, &err), CCL_OK);
    ccl_timed_program_t first = {NULL, NULL}, second = {NULL, NULL};
    ck_assert_int_eq(ccl_lower(NULL, schedule, options, &first.program, &err), CCL_OK);
    ck_assert_int_eq(ccl_lower(NULL, schedule, options, &second.program, &err), CCL_OK);
    ck_assert_msg(ccl_i_allocate_state(NULL, options, &first, &err) == CCL_OK, "%s: %s", what,
                  err.text);
    ck_assert_int_eq(ccl_i_allocate_state(NULL, options, &second, &err), CCL_OK);
    const ccl_program_t *merged = first.program;
    ck_assert_msg(ccl_program_equal(merged, second.program), "%s: different the second time", what);
    ck_assert_uint_le(merged->ntbs, plain->ntbs);
    ck_assert_uint_le(merged->nsteps, plain->nsteps);
    double plain_s = time_of(options, plain), merged_s = time_of(options, merged);
    ck_assert_double_eq(first.run->time_s, merged_s);
    ck_assert_msg(merged_s <= plain_s * 1.01, "%s: %g s, %g s with all blocks", what, merged_s,
                  plain_s);
    ck_assert_msg(!finishes(options, plain) || finishes(options, merged), "%s: blocks", what);
    ccl_verify_options_t how = CCL_VERIFY_OPTIONS_INIT;
    ccl_verdict_t verdict;
    how.granularity = options->granularity;
    how.slots = 2;
    ck_assert_msg(ccl_program_verify(NULL, merged, &how, &verdict, &err) == CCL_OK, "%s", err.text);
    ck_assert_msg(verdict.valid, "%s: %s", what, verdict.fault.text);
    tally->cases++;
    tally->merged += merged->ntbs < plain->ntbs;
    tally->shared += merged->peers != NULL;
    ccl_program_destroy(plain);
    ccl_timed_program_fini(&first);
    ccl_timed_program_fini(&second);
}

START_TEST(all_synthesizers) {
    tally_t tally = {0};
    for (size_t c = 0; c < CCL_ARRAY_LEN(CLUSTERS); c++) {
        ccl_topology_t *topo = topology(CLUSTERS[c]);
        ccl_routes_t *routes = ccl_routes_create(topo);
        for (int kind = 0; kind < CCL_CUSTOM; kind++) {
            ccl_collective_t *want =
                collective((ccl_collective_kind_t)kind, topo->nranks, topo->nranks / 2);
            for (const ccl_synth_ops_t *const *ops = ccl_synth_all(); *ops && !(*ops)->by_name;
                 ops++) {
                ccl_schedule_t *schedule = NULL;
                ccl_error_t err = CCL_ERROR_INIT;
                ccl_synth_options_t synth = CCL_SYNTH_OPTIONS_INIT;
                if (only_plain(*ops, want->kind))
                    continue;
                synth.chunks = 1; /* tries fewer ways where a synthesizer searches */
                synth.channels = 1;
                synth.sketch.cache = solved_once();
                ccl_status_t status =
                    ccl_synthesize(NULL, (*ops)->name, topo, routes, want, &synth, &schedule, &err);
                if (status == CCL_UNSUPPORTED)
                    continue;
                ck_assert_msg(status == CCL_OK, "%s", err.text);
                for (int g = 0; g < 3; g++) {
                    char what[200];
                    ccl_lower_options_t o = CCL_LOWER_OPTIONS_INIT;
                    o.granularity = (ccl_granularity_t)g;
                    o.no_fuse = g == CCL_GRANULARITY_TASK;
                    o.topo = topo;
                    o.routes = routes;
                    o.size_bytes = 4 << 20;
                    o.batches = g == CCL_GRANULARITY_TASK ? 6 : 1 + (uint32_t)kind % 3;
                    snprintf(what, sizeof what, "%s %s on %s, granularity %d", (*ops)->name,
                             want->name, CLUSTERS[c], g);
                    one(schedule, &o, what, &tally);
                }
                ccl_schedule_destroy(schedule);
            }
            ccl_collective_destroy(want);
        }
        ccl_routes_destroy(routes);
        ccl_topology_destroy(topo);
    }
    ck_assert_uint_gt(tally.cases, 150);
    ck_assert_uint_gt(tally.merged, tally.cases / 5);
    ck_assert_uint_gt(tally.shared, tally.cases / 10);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("synth.state.all");
    TCase *all = tcase_create("all");
    tcase_add_test(all, all_synthesizers);
    suite_add_tcase(suite, all);
    return run_suite(suite);
}
