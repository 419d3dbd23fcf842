/*
 * The critical path of random programs: no gap from the end of the run back to its start, the time
 * of the run, each step to the one before it possible; the same run as without it.
 */
#include "tests/schedule/share.h"
#include "tests/sim/random_cases.h"

static uint32_t runs, segments, alike, switched, seen[CCL_PATH_CAUSES], waited[CCL_PATH_WAITS];

/** Whether what is sent to a peer can come to a rank. */
static bool meets(const ccl_program_t *p, uint32_t peer, uint32_t rank) {
    const ccl_peer_group_t *group = ccl_program_group(p, peer);
    return group ? ccl_peer_group_has(group, rank) : ccl_peer_rank(peer) == rank;
}

/** Who waited for a segment could wait for it in this way. */
static void check_wait(const ccl_program_t *p, const ccl_path_segment_t *s, const char *what) {
    uint32_t from = p->tbs[s->tb].rank;
    if (s->wait == CCL_PATH_END) {
        ck_assert_uint_eq(s->for_tb, CCL_NONE);
        return;
    }
    uint32_t to = p->tbs[s->for_tb].rank;
    switch (s->wait) {
    case CCL_PATH_DATA:
        ck_assert_msg(meets(p, s->peer, to), "%s: data of rank %u to %x reached %u", what, from,
                      s->peer, to);
        break;
    case CCL_PATH_SLOT: {
        ccl_peers_t peers = ccl_program_peers(p, &p->tbs[s->for_tb], s->for_step);
        ck_assert_msg(meets(p, peers.send_peer, from), "%s: rank %u freed a slot of %x for rank %u",
                      what, from, peers.send_peer, to);
        break;
    }
    case CCL_PATH_DEPENDENCY:
        ck_assert_msg(from == to, "%s: a step of another GPU", what);
        break;
    default:
        ck_assert_msg(s->tb == s->for_tb, "%s: %s of another block", what,
                      ccl_path_wait_name((ccl_path_wait_t)s->wait));
        break;
    }
}

static void check_path(const ccl_topology_t *topo, const ccl_program_t *p,
                       const ccl_sim_result_t *r, const char *what) {
    double cause_s = 0, wait_s = 0;
    ccl_path_sum_t sum;
    for (uint32_t i = 0; i < r->npath; i++) {
        const ccl_path_segment_t *s = &r->path[i];
        ck_assert_msg(s->start_s < s->end_s, "%s: segment %u is empty", what, i);
        ck_assert_msg(s->start_s == (i ? s[-1].end_s : 0), "%s: a gap before segment %u", what, i);
        ck_assert_msg((s->cause == CCL_PATH_LINK || s->cause == CCL_PATH_SHARING ||
                       s->cause == CCL_PATH_LATENCY) == (s->resource != CCL_NONE),
                      "%s: segment %u: %s", what, i,
                      ccl_path_cause_name((ccl_path_cause_t)s->cause));
        check_wait(p, s, what);
        seen[s->cause]++;
        waited[s->wait]++;
    }
    ck_assert_msg(r->npath > 0 || r->time_s == 0, "%s: no path", what);
    if (r->npath)
        ck_assert_double_eq(r->path[r->npath - 1].end_s, r->time_s);
    ck_assert_int_eq(ccl_path_sum(topo, r, &sum, NULL), CCL_OK);
    for (int c = 0; c < CCL_PATH_CAUSES; c++)
        cause_s += sum.cause_s[c];
    for (int w = 0; w < CCL_PATH_WAITS; w++)
        wait_s += sum.wait_s[w];
    ck_assert_msg(fabs(cause_s - r->time_s) <= 1e-9 * r->time_s, "%s: causes %.12g of %.12g", what,
                  cause_s, r->time_s);
    ck_assert_msg(fabs(wait_s - r->time_s) <= 1e-9 * r->time_s, "%s: waits %.12g of %.12g", what,
                  wait_s, r->time_s);
    for (uint32_t l = 0; l < r->nlinks; l++) {
        double bytes = 0;
        for (uint32_t i = 0; i < r->intervals; i++)
            bytes += r->link_bytes[(size_t)l * r->intervals + i];
        ck_assert_msg(fabs(bytes - r->links[l].bytes) <= 1e-9 * r->links[l].bytes,
                      "%s: link %u carried %.12g, not %.12g", what, l, bytes, r->links[l].bytes);
    }
    ccl_path_sum_fini(&sum);
}

/** By cause and kind of link: the same, but where several paths are as long. */
static bool same_shares(const ccl_topology_t *topo, const ccl_sim_result_t *a,
                        const ccl_sim_result_t *b) {
    ccl_path_sum_t x, y;
    bool same = true;
    ck_assert_int_eq(ccl_path_sum(topo, a, &x, NULL), CCL_OK);
    ck_assert_int_eq(ccl_path_sum(topo, b, &y, NULL), CCL_OK);
    for (uint32_t i = 0; i < (topo->nkinds + 1) * CCL_PATH_CAUSES; i++)
        same = same && fabs(x.kind_s[i] - y.kind_s[i]) <= 1e-9 * a->time_s;
    ccl_path_sum_fini(&x);
    ccl_path_sum_fini(&y);
    return same;
}

static void check_program(const ccl_topology_t *topo, const ccl_program_t *p, double size_bytes,
                          uint32_t batches, const char *what) {
    for (uint32_t k = 0; k < 6; k++) { /* level x sharing */
        ccl_sim_options_t options = CCL_SIM_OPTIONS_INIT;
        ccl_sim_result_t *plain = NULL, *with = NULL, *full = NULL;
        options.size_bytes = size_bytes;
        options.batches = batches;
        options.granularity = (ccl_granularity_t)(k % 3);
        options.sharing = (ccl_sharing_t)(k / 3 % 2);
        options.no_skip = true;
        ccl_status_t status = ccl_sim_program(NULL, topo, NULL, p, &options, &plain, NULL);
        options.path = true;
        options.intervals = 7;
        ck_assert_int_eq(ccl_sim_program(NULL, topo, NULL, p, &options, &with, NULL), status);
        if (status == CCL_OK) {
            ck_assert_msg(plain->time_s == with->time_s && plain->events == with->events,
                          "%s: another run", what);
            check_path(topo, p, with, what);
            options.no_fold = true;
            ck_assert_int_eq(ccl_sim_program(NULL, topo, NULL, p, &options, &full, NULL), CCL_OK);
            check_path(topo, p, full, what);
            alike += same_shares(topo, with, full);
            runs++;
            segments += with->npath;
        }
        ccl_sim_result_destroy(plain);
        ccl_sim_result_destroy(with);
        ccl_sim_result_destroy(full);
    }
}

static void check_random(int shard, bool switches) {
    for (uint32_t k = 0; k < 40; k++) {
        ccl_rng_t rng;
        char what[64];
        ccl_rng_init(&rng, 91000u + 100u * (uint64_t)shard + k);
        snprintf(what, sizeof what, "random %d.%u%s", shard, k, switches ? ", switches" : "");
        random_abilities = switches;
        uint32_t n = 2 + ccl_rng_below(&rng, 3);
        uint32_t copies = k % 4 == 0 ? 2 + ccl_rng_below(&rng, 3) : 1;
        const char *proto = ccl_rng_below(&rng, 3) ? "Simple" : "LL";
        ccl_topology_t *topo = random_copies(&rng, n, copies);
        ccl_routes_t *routes = random_switch_routes = switches ? ccl_routes_create(topo) : NULL;
        ccl_program_t *program = random_copied_program(&rng, n, copies, proto);
        ccl_routes_destroy(routes);
        random_switch_routes = NULL;
        if (k % 3 == 0)
            program = share_blocks(program, &rng);
        uint32_t batches = 1 + ccl_rng_below(&rng, 4);
        check_program(topo, program, 1e5 * batches * (0.5 + ccl_rng_unit(&rng)), batches, what);
        random_abilities = false;
        switched += program->ngroups > 0;
        ccl_program_destroy(program);
        ccl_topology_destroy(topo);
    }
}

START_TEST(test_random) {
    check_random(_i, false);
}
END_TEST

START_TEST(test_switches) {
    check_random(_i, true);
}
END_TEST

START_TEST(test_all_seen) {
    printf("%u runs, %u segments, %u the same when folded\n", runs, segments, alike);
    for (int c = 0; c < CCL_PATH_CAUSES; c++)
        ck_assert_msg(seen[c] >= 30, "cause %s only %u times",
                      ccl_path_cause_name((ccl_path_cause_t)c), seen[c]);
    for (int w = 0; w < CCL_PATH_WAITS; w++)
        ck_assert_msg(waited[w] >= 30, "wait %s only %u times",
                      ccl_path_wait_name((ccl_path_wait_t)w), waited[w]);
    ck_assert_uint_ge(switched, 100);
    ck_assert_uint_ge(runs, 500);
    ck_assert_uint_ge(alike, runs - runs / 50);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("path");
    TCase *tc = tcase_create("path");
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, test_random, 0, 6);
    tcase_add_loop_test(tc, test_switches, 0, 6);
    tcase_add_test(tc, test_all_seen);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
