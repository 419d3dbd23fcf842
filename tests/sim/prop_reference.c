/*
 * The engine against the second simulator of naive.h on random small programs and flow lists: every
 * kind of cluster, transport, primitive, dependency; all granularities, 1 to 6 micro-batches, fair
 * and exclusive. Time of the run, every thread block's use, every link's bytes; deadlocks too.
 *
 * Times must agree to 1e-9. Bandwidth sharing can be chaotic: where sizes x (1 +- 1e-12) move the
 * naive simulator's own time by more than that, the contract's bound holds (1e-6 where the move is
 * less than 1e-8), and beyond it nothing is asked. Such cases are counted and must stay rare.
 */
#include "tests/schedule/share.h"
#include "tests/sim/reference.h"

enum { SHARDS = 8 };
static tally_t programs, switches, flows; /* of all cases of one kind */

static tally_t random_cases(int shard, uint32_t k, bool switches) {
    tally_t tally = {0};
    ccl_rng_t rng;
    char what[128];
    ccl_rng_init(&rng, (switches ? 90000000u : 0) + 1000000u * (uint64_t)shard + k);
    uint32_t n = 2 + ccl_rng_below(&rng, 5);
    random_mechanisms = k % 3 == 0;
    random_abilities = switches;
    ccl_topology_t *topo = random_topology(&rng, n);
    ccl_routes_t *routes = ccl_routes_create(topo);
    random_switch_routes = switches ? routes : NULL;
    static const char *const protos[] = {"Simple", "LL", "LL128"};
    ccl_program_t *program = random_program(&rng, n, PICK(&rng, protos));
    if (k % 4 == 3) /* blocks that several connections share */
        program = share_blocks(program, &rng);
    static const double sizes[] = {1048576, 1e6, 100, 262144, 3145728, 777777};
    setting_t s = {topo, routes, program, PICK(&rng, sizes), 0, 0, 0};
    for (uint32_t g = 0; g < 3 && (!switches || program->ngroups); g++) {
        s.granularity = (ccl_granularity_t)g;
        s.batches = 1 + ccl_rng_below(&rng, 6);
        s.sharing = ccl_rng_below(&rng, 4) ? CCL_SHARING_FAIR : CCL_SHARING_EXCLUSIVE;
        snprintf(what, sizeof what, "case %d.%u granularity %u batches %u sharing %d%s", shard, k,
                 g, s.batches, s.sharing, switches ? ", switches" : "");
        compare(&s, what, &tally);
    }
    random_abilities = false;
    random_switch_routes = NULL;
    ccl_program_destroy(program);
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
    return tally;
}

START_TEST(test_programs) {
    for (uint32_t k = 0; k < cases_per_shard(200); k++) {
        tally_t tally = random_cases(_i, k, false);
        add(&programs, &tally);
    }
}
END_TEST

START_TEST(test_switches) {
    for (uint32_t k = 0; k < cases_per_shard(300); k++) {
        tally_t tally = random_cases(_i, k, true);
        add(&switches, &tally);
    }
}
END_TEST

START_TEST(test_flows) {
    tally_t tally = {0};
    for (uint32_t k = 0; k < cases_per_shard(110); k++) {
        ccl_rng_t rng;
        ccl_rng_init(&rng, 7000000u + 1000000u * (uint64_t)_i + k);
        uint32_t n = 2 + ccl_rng_below(&rng, 5), count = 1 + ccl_rng_below(&rng, 24);
        uint32_t src[24], dst[24], dep[24];
        double bytes[24];
        ccl_topology_t *topo = random_topology(&rng, n);
        ccl_routes_t *routes = ccl_routes_create(topo);
        ccl_flow_list_t list = {n, count, n, src, dst, dep, bytes};
        bool even = ccl_rng_below(&rng, 2);
        for (uint32_t f = 0; f < count; f++) {
            src[f] = ccl_rng_below(&rng, n);
            dst[f] = (src[f] + 1 + ccl_rng_below(&rng, n - 1)) % n;
            dep[f] = f && ccl_rng_below(&rng, 2) ? ccl_rng_below(&rng, f) : CCL_NONE;
            bytes[f] = even ? 65536 * (1 + ccl_rng_below(&rng, 2)) : 1e6 * ccl_rng_unit(&rng);
        }
        for (uint32_t sharing = 0; sharing < 2; sharing++) {
            ccl_sim_options_t options = CCL_SIM_OPTIONS_INIT;
            ccl_sim_result_t *got = NULL;
            ccl_error_t err = CCL_ERROR_INIT;
            naive_result_t want;
            options.sharing = (ccl_sharing_t)sharing;
            naive_flow_list(topo, routes, &list, sharing == CCL_SHARING_EXCLUSIVE, &want);
            ccl_status_t status = ccl_sim_flows(NULL, topo, routes, &list, &options, &got, &err);
            ck_assert_msg(status == CCL_OK, "flows %d.%u: %s", _i, k, err.text);
            double off = apart(got->time_s, want.time_s), restless = 0;
            for (uint32_t f = 0; f < count; f++)
                off = fmax(off, fabs(got->flow_done_s[f] - want.flow_done_s[f]) / want.time_s);
            if (off > 1e-9) {
                for (int sign = -1; sign <= 1; sign += 2) {
                    double moved_bytes[24];
                    naive_result_t moved;
                    for (uint32_t f = 0; f < count; f++)
                        moved_bytes[f] = bytes[f] * (1 + sign * 1e-12);
                    ccl_flow_list_t other = {n, count, n, src, dst, dep, moved_bytes};
                    naive_flow_list(topo, routes, &other, sharing == CCL_SHARING_EXCLUSIVE, &moved);
                    restless = fmax(restless, apart(moved.time_s, want.time_s));
                    naive_result_fini(&moved);
                }
                tally.chaotic++;
            }
            tally.cases++;
            tally.slices += count;
            ck_assert_msg(off <= 1e-9 || restless > 1e-11,
                          "flows %d.%u sharing %u: %.12g us, the reference %.12g us (off by %g)",
                          _i, k, sharing, got->time_s * 1e6, want.time_s * 1e6, off);
            for (uint32_t l = 0; l < topo->nlinks; l++)
                ck_assert_msg(fabs(got->links[l].bytes - want.link_bytes[l]) <=
                                  1e-9 * want.link_bytes[l],
                              "flows %d.%u: link %u", _i, k, l);
            ccl_sim_result_destroy(got);
            naive_result_fini(&want);
        }
        ccl_routes_destroy(routes);
        ccl_topology_destroy(topo);
    }
    add(&flows, &tally);
}
END_TEST

/** The cases are what they are meant to be. */
START_TEST(test_cases) {
    const tally_t *all[] = {&programs, &switches, &flows};
    const char *const names[] = {"programs", "with switch connections", "flow lists"};
    for (uint32_t i = 0; i < 3; i++) {
        printf("%s: %u cases, %llu slices, %u deadlocks, %u skipped, %u chaotic\n", names[i],
               all[i]->cases, (unsigned long long)all[i]->slices, all[i]->deadlocks,
               all[i]->skipped, all[i]->chaotic);
        ck_assert_uint_ge(all[i]->cases, 200);
        ck_assert_uint_ge(all[i]->slices, 10 * all[i]->cases);
        ck_assert_uint_le(all[i]->chaotic, all[i]->cases / 100);
    }
    ck_assert_uint_ge(programs.deadlocks, 50);
    ck_assert_uint_le(programs.deadlocks, programs.cases / 4);
    ck_assert_uint_ge(programs.skipped, 50);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("prop.sim.reference");
    TCase *tcase = tcase_create("reference");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, test_programs, 0, SHARDS);
    tcase_add_loop_test(tcase, test_switches, 0, SHARDS);
    tcase_add_loop_test(tcase, test_flows, 0, SHARDS);
    tcase_add_test(tcase, test_cases);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
