/*
 * Simulating blocks that are alike once changes nothing: every block of every copy of a random
 * system has the times and the use that it has when all are simulated, and it is done where there
 * is something alike.
 */
#include "tests/schedule/share.h"
#include "tests/sim/random_cases.h"
#include "tests/sim/small.h"
#include "tests/sim/steady.h"

static totals_t totals;
static uint32_t folded, unskipped;

static void check_folded(const ccl_topology_t *topo, ccl_routes_t *routes,
                         const ccl_program_t *program, double size_bytes, uint32_t batches,
                         const char *what) {
    for (uint32_t g = 0; g < 3; g++) {
        uint64_t events = totals.events, full = totals.full_events;
        if (check_same(
                (setting_t){topo, routes, program, size_bytes, batches, (ccl_granularity_t)g, 0},
                what, &totals) > 0)
            continue; /* skipped, or blocked */
        unskipped++;
        folded += 2 * (totals.events - events) <= totals.full_events - full;
    }
}

/** A program several times over, on ranks of its own each time. Destroys p. */
static ccl_program_t *repeat(ccl_program_t *p, uint32_t copies) {
    ccl_collective_t *coll = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    uint32_t n = p->nranks;
    ck_assert_int_eq(ccl_collective_create(CCL_ALLGATHER, n * copies, 1, 0, &coll, NULL), CCL_OK);
    ccl_program_builder_t *b = ccl_program_builder_create("copies", coll, p->nchunks, p->proto);
    for (uint32_t c = 0; c < copies; c++) {
        for (uint32_t i = 0; i < 3 * n; i++) {
            ccl_program_builder_buffer(b, c * n + i / 3, (ccl_buffer_t)(i % 3), p->buffer_len[i]);
            if (p->shares)
                ccl_program_builder_shares(b, c * n + i / 3, (ccl_buffer_t)(i % 3), p->shares[i]);
        }
        for (uint32_t t = 0; t < p->ntbs; t++) {
            const ccl_tb_t *tb = &p->tbs[t];
            uint32_t send = tb->send_peer, recv = tb->recv_peer, first = c * n;
            uint32_t handle =
                ccl_program_builder_tb(b, first + tb->rank, send == CCL_NONE ? send : first + send,
                                       recv == CCL_NONE ? recv : first + recv, tb->channel);
            for (uint32_t s = tb->first_step; s < tb->first_step + tb->nsteps; s++) {
                ccl_peers_t peers = ccl_program_peers(p, tb, s);
                peers.send_peer += peers.send_peer == CCL_NONE ? 0 : first;
                peers.recv_peer += peers.recv_peer == CCL_NONE ? 0 : first;
                if (send == CCL_NONE && recv == CCL_NONE && p->peers)
                    ccl_program_builder_step_peers(b, handle, p->steps[s], peers);
                else
                    ccl_program_builder_step(b, handle, p->steps[s]);
            }
        }
    }
    ccl_program_destroy(p);
    ck_assert_msg(ccl_program_builder_finish(b, &p, &err) == CCL_OK, "%s", err.text);
    return p;
}

START_TEST(test_copies) {
    for (uint32_t k = 0; k < 60; k++) {
        ccl_rng_t rng;
        char what[64];
        ccl_rng_init(&rng, 77000u + 100u * (uint64_t)_i + k);
        snprintf(what, sizeof what, "copies %d.%u", _i, k);
        uint32_t n = 2 + ccl_rng_below(&rng, 3), copies = 2 + ccl_rng_below(&rng, 3);
        ccl_topology_t *topo = random_copies(&rng, n, copies);
        ccl_routes_t *routes = ccl_routes_create(topo);
        ccl_program_t *program;
        if (k % 2) /* apart but for groups of links */
            program = repeat(share_blocks(random_program(&rng, n, "Simple"), &rng), copies);
        else
            program = random_copied_program(&rng, n, copies, "Simple");
        static const uint32_t counts[] = {1, 3, 20};
        uint32_t batches = PICK(&rng, counts);
        double size_bytes = 1e5 * batches * (0.5 + ccl_rng_unit(&rng));
        check_folded(topo, routes, program, size_bytes, batches, what);
        ccl_program_destroy(program);
        ccl_routes_destroy(routes);
        ccl_topology_destroy(topo);
    }
}
END_TEST

/** Switch connections: members of one trunk are alike too. */
START_TEST(test_switches) {
    uint32_t with = 0, halved = 0;
    for (uint32_t k = 0; k < 80; k++) {
        ccl_rng_t rng;
        totals_t apart = {0};
        ccl_rng_init(&rng, 880000u + k);
        uint32_t n = 2 + ccl_rng_below(&rng, 3), copies = 2 + ccl_rng_below(&rng, 3);
        random_abilities = true;
        ccl_topology_t *topo = random_copies(&rng, n, copies);
        ccl_routes_t *routes = random_switch_routes = ccl_routes_create(topo);
        ccl_program_t *program = random_copied_program(&rng, n, copies, "Simple");
        random_abilities = false;
        random_switch_routes = NULL;
        with += program->ngroups > 0;
        for (uint32_t g = 0; g < 3; g++)
            check_same((setting_t){topo, routes, program, 3e5, 3, (ccl_granularity_t)g, 0},
                       "switches", &apart);
        halved += program->ngroups > 0 && 2 * apart.events <= apart.full_events;
        ccl_program_destroy(program);
        ccl_routes_destroy(routes);
        ccl_topology_destroy(topo);
    }
    printf("switches: %u programs with switch connections, %u with half the events\n", with,
           halved);
    ck_assert_uint_ge(with, 20);
    ck_assert_uint_ge(halved, with * 3 / 4);
}
END_TEST

START_TEST(test_copies_totals) {
    printf("copies: %u cases, %u of %u without skipping halved, %llu events instead of %llu\n",
           totals.cases, folded, unskipped, (unsigned long long)totals.events,
           (unsigned long long)totals.full_events);
    ck_assert_uint_ge(unskipped, 300);
    ck_assert_uint_ge(folded, unskipped * 3 / 4);
}
END_TEST

/** What looks alike from near but is not: nothing may be folded wrongly. */
START_TEST(test_not_alike) {
    static const struct {
        const char *program, *links, *groups, *why;
    } cases[] = {
        {"0>1: s1 | 1<0: r1 | 2>3: s1 | 3<2: r1", NULL, NULL, "two pairs, alike"},
        {"0>1: s1 | 1<0: r1 | 2>3: s1 | 3<2: rrc1", NULL, NULL, "the receivers differ"},
        {"0>1: s1 s1 | 1<0: r1 r1 | 2>3: s1 s2 | 3<2: r1 r2", NULL, NULL, "a later size differs"},
        {"0>1: s1 | 1<0: r1 | 2>3: s1 | 3<2: r1",
         "0-1:nvlink,10,1 2-3:nvlink,10,1 0-2:nvlink,5,1 1-3:nvlink,10,2", NULL, "unused links"},
        {"0>1: s1 | 1<0: r1 | 2>3: s1 | 3<2: r1", "0-1:nvlink,10,1 2-3:nvlink,10,1.5 0-2:pcie,1,1",
         NULL, "latencies"},
        {"0>1: s1 | 1<0: r1 | 2>3: s1 | 3<2: r1", NULL,
         "{\"name\":\"g\",\"links\":[[\"0\",\"1\"]],\"bandwidth\":\"4GB/s\"}",
         "a group of one pair"},
        {"0>1: s1 | 1<0: r1 | 2>3: s1 | 3<2: r1 | 1>0: s1 | 0<1: r1 | 3>2: s1 | 2<3: r1", NULL,
         "{\"name\":\"g\",\"links\":[[\"0\",\"1\"],[\"1\",\"0\"],[\"2\",\"3\"]],"
         "\"bandwidth\":\"13GB/s\"}",
         "one of four outside the group"},
        {"0>1: s3 | 1>2<0: rcs3 | 2>3<1: rcs3 | 3<2: r3", NULL, NULL, "a chain"},
        {"0>1<3: s1 rcs1 rcs1 r1 | 1>2<0: s1 rcs1 rcs1 r1 | 2>3<1: s1 rcs1 rcs1 r1 | "
         "3>0<2: s1 rcs1 rcs1 r1",
         NULL, NULL, "a ring"},
        {"0>1<3: s1 rcs1 rcs1 r1 | 1>2<0: s1 rcs1 rcs1 r1 | 2>3<1: s1 rcs1 rcs1 r1 | "
         "3>0<2: s1 rcs1 rcs1 r1",
         "0-1:nvlink,10,1 1-2:nvlink,10,1 2-3:nvlink,10,1 3-0:nvlink,9,1", NULL,
         "a ring, one slow"},
        {"0: re1 | 0: cpy1@0.0 | 1: re1 | 1: cpy1@0.0 | 2: re1 | 2: cpy1", NULL, NULL,
         "dependencies"},
    };
    for (uint32_t k = 0; k < CCL_ARRAY_LEN(cases); k++) {
        small_system_t on = {.links = cases[k].links, .groups = cases[k].groups};
        ccl_topology_t *topo = small_topology(&on);
        ccl_routes_t *routes = ccl_routes_create(topo);
        ccl_program_t *program = small_program(cases[k].program, topo->nranks, "Simple", NULL);
        for (uint32_t batches = 1; batches <= 64; batches *= 8)
            check_folded(topo, routes, program, 3e6 * batches, batches, cases[k].why);
        ccl_program_destroy(program);
        ccl_routes_destroy(routes);
        ccl_topology_destroy(topo);
    }
}
END_TEST

/** What sets one pair apart leaves the others alike. */
START_TEST(test_all_but_one) {
    static const char *const slow[] = {"\"launch\":\"50us\",\"reduce_rate\":\"5GB/s\"",
                                       "\"launch\":\"5us\",\"reduce_rate\":\"1GB/s\""};
    for (uint32_t k = 0; k < CCL_ARRAY_LEN(slow); k++) {
        small_system_t on = {.links = "0-1:nvlink,10,1 2-3:nvlink,10,1 4-5:nvlink,10,1 "
                                      "6-7:nvlink,10,1 0-s:pcie,1,1 2-s:pcie,1,1 4-s:pcie,1,1 "
                                      "6-s:pcie,1,1",
                             .gpu = "\"launch\":\"5us\",\"reduce_rate\":\"5GB/s\"",
                             .gpu1 = slow[k]};
        ccl_topology_t *topo = small_topology(&on);
        ccl_routes_t *routes = ccl_routes_create(topo);
        ccl_program_t *program =
            small_program("0>1: s1 | 1<0: rrc1 | 2>3: s1 | 3<2: rrc1 | 4>5: s1 | 5<4: rrc1 | "
                          "6>7: s1 | 7<6: rrc1",
                          topo->nranks, "Simple", NULL);
        uint32_t before = folded;
        check_folded(topo, routes, program, 3e6, 1, slow[k]);
        ck_assert_uint_eq(folded - before, 3);
        ccl_program_destroy(program);
        ccl_routes_destroy(routes);
        ccl_topology_destroy(topo);
    }
}
END_TEST

/** Blocks that are alike need not stand at the same place of their GPUs' lists. */
START_TEST(test_other_order) {
    small_system_t on = {.gpu = "\"reduce_rate\":\"1GB/s\",\"copy_rate\":\"20GB/s\""};
    ccl_topology_t *topo = small_topology(&on);
    ccl_routes_t *routes = ccl_routes_create(topo);
    ccl_program_t *program =
        small_program("0: re1 | 0: cpy1@0.0 | 0: re1@1.0 | 1: re1@2.0 | 1: re1 | 1: cpy1@1.0",
                      topo->nranks, "Simple", NULL);
    uint32_t before = folded;
    check_folded(topo, routes, program, 3e6, 1, "another order");
    ck_assert_uint_eq(folded - before, 3);
    ccl_program_destroy(program);
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("prop.sim.fold");
    TCase *tcase = tcase_create("fold");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, test_copies, 0, 4);
    tcase_add_test(tcase, test_copies_totals);
    tcase_add_test(tcase, test_switches);
    tcase_add_test(tcase, test_not_alike);
    tcase_add_test(tcase, test_all_but_one);
    tcase_add_test(tcase, test_other_order);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
