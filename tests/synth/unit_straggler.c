/* straggler: right for any late rank, StragglAR's number of rounds, its gain where links alone
   count, and none without a delay. */
#include <math.h>
#include <stdlib.h>

#include "synth/synth.h"
#include "tests/topologies/topologies.h"

/* A share is one micro-batch: the others reduce all of them before the straggler comes. */
#define SIZE_BYTES 0x1p22

static ccl_schedule_t *make(const ccl_topology_t *topo, const ccl_synth_options_t *o) {
    ccl_collective_t *want;
    ccl_schedule_t *s = NULL;
    MUST(ccl_collective_create(CCL_ALLREDUCE, topo->nranks, 1, 0, &want, e));
    MUST(ccl_synthesize(NULL, "straggler", topo, NULL, want, o, &s, e));
    ccl_collective_destroy(want);
    return s;
}

static ccl_topology_t *server(uint32_t gpus) {
    char text[80];
    snprintf(text, sizeof text, "servers:1 gpus:%u nvswitch=100GB/s,0us", gpus);
    return topology(text);
}

static ccl_synth_options_t plain(ccl_straggler_join_t join, uint32_t cuts) {
    ccl_synth_options_t o = CCL_SYNTH_OPTIONS_INIT;
    o.straggler.join = join;
    o.channels = 1;
    o.chunks = cuts;
    o.size_bytes = SIZE_BYTES;
    return o;
}

/* In each step each GPU sends one share at most and gets one at most. */
static void check_rounds(const ccl_schedule_t *s, uint32_t n) {
    for (uint32_t step = 0; step < s->nsteps; step++) {
        uint32_t sent[64] = {0}, got[64] = {0};
        for (uint32_t i = 0; i < s->ntransfers; i++) {
            if (s->transfers[i].step != step)
                continue;
            ck_assert_uint_eq(sent[s->transfers[i].src]++, 0);
            ck_assert_uint_eq(got[s->transfers[i].dst]++, 0);
        }
        for (uint32_t r = 0; step < n - 2 && r < n; r++)
            ck_assert_uint_le(sent[r], 1);
    }
}

START_TEST(as_many_rounds_as_the_paper) {
    for (uint32_t l = 2; l <= 6; l++) {
        uint32_t n = 1u << l, late[] = {CCL_NONE, 0, n / 2};
        ccl_topology_t *topo = server(n);
        for (uint32_t k = 0; k < CCL_ARRAY_LEN(late); k++) {
            ccl_synth_options_t o = plain(CCL_STRAGGLER_ROUNDS, 1);
            ccl_verdict_t verdict = {0};
            o.straggler.rank = late[k];
            ccl_schedule_t *s = make(topo, &o);
            uint32_t straggler = late[k] == CCL_NONE ? n - 1 : late[k];
            /* The others' ReduceScatter, then n - 2 + log2 n rounds. */
            ck_assert_uint_eq(s->nsteps, n - 2 + n - 2 + l);
            check_rounds(s, n);
            for (uint32_t i = 0; i < s->ntransfers; i++)
                ck_assert(s->transfers[i].step >= n - 2 ||
                          (s->transfers[i].src != straggler && s->transfers[i].dst != straggler));
            MUST(ccl_schedule_verify(NULL, s, &verdict, e));
            ck_assert_msg(verdict.valid, "%u GPUs, rank %u late: %s", n, straggler,
                          verdict.fault.text);
            ccl_schedule_destroy(s);
        }
        ccl_topology_destroy(topo);
    }
}
END_TEST

START_TEST(straight_for_any_number) {
    for (uint32_t n = 3; n <= 12; n++) {
        ccl_topology_t *topo = server(n);
        ccl_synth_options_t o = plain(CCL_STRAGGLER_AUTO, 2);
        ccl_verdict_t verdict = {0};
        o.straggler.rank = n / 2;
        o.straggler.join = n & 1 ? CCL_STRAGGLER_AUTO : CCL_STRAGGLER_STRAIGHT;
        ccl_schedule_t *s = make(topo, &o);
        MUST(ccl_schedule_verify(NULL, s, &verdict, e));
        ck_assert_msg(verdict.valid, "%u GPUs: %s", n, verdict.fault.text);
        ck_assert_ptr_nonnull(strstr(s->origin, "straight"));
        ccl_schedule_destroy(s);
        ccl_topology_destroy(topo);
    }
}
END_TEST

/* What a schedule takes from the moment that the last rank comes; negative delays are none. */
static double after(const ccl_topology_t *topo, const char *name, const ccl_synth_options_t *o,
                    double late_s) {
    ccl_collective_t *want;
    ccl_schedule_t *schedule = NULL;
    ccl_program_t *program = NULL;
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    ccl_sim_result_t *run = NULL;
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    double late[8] = {0};
    ccl_sim_variation_t variation = {.late_s = late};
    ccl_routes_t *routes = ccl_routes_create(topo);
    late[7] = late_s;
    sim.size_bytes = o->size_bytes;
    sim.variation = &variation;
    MUST(ccl_collective_create(CCL_ALLREDUCE, 8, 1, 0, &want, e));
    lower.topo = topo;
    lower.routes = routes;
    lower.size_bytes = o->size_bytes;
    MUST(ccl_synthesize(NULL, name, topo, routes, want, o, &schedule, e));
    MUST(ccl_lower(NULL, schedule, &lower, &program, e));
    MUST(ccl_sim_program(NULL, topo, routes, program, &sim, &run, e));
    double time_s = run->time_s - late_s;
    ccl_sim_result_destroy(run);
    ccl_program_destroy(program);
    ccl_schedule_destroy(schedule);
    ccl_routes_destroy(routes);
    ccl_collective_destroy(want);
    return time_s;
}

/* S / B is what every GPU has to get when the straggler comes; rounds take 9 / 7 of it on 8 GPUs,
   a ring 2 * 7 / 8. Without a delay 6 / 7 for the ReduceScatter come before that. */
START_TEST(gains_where_links_alone_count) {
    ccl_topology_t *topo = server(8);
    ccl_synth_options_t rounds = plain(CCL_STRAGGLER_ROUNDS, 1),
                        straight = plain(CCL_STRAGGLER_STRAIGHT, 16), ring = plain(0, 0);
    double least_s = SIZE_BYTES / 100e9, late_s = 4 * least_s;
    double r = after(topo, "straggler", &rounds, late_s) / least_s;
    double s = after(topo, "straggler", &straight, late_s) / least_s;
    double plain_ring = after(topo, "ring", &ring, late_s) / least_s;
    ck_assert_double_ge(r, 1 - 1e-9);
    ck_assert_double_le(r, 9 / 7.0 * 1.01);
    ck_assert_double_ge(s, 1 - 1e-9);
    ck_assert_double_le(s, 1.1);
    ck_assert_double_ge(plain_ring, 1.75 * (1 - 1e-9));
    ck_assert_double_ge(after(topo, "straggler", &rounds, 0), after(topo, "ring", &ring, 0));
    ccl_topology_destroy(topo);
}
END_TEST

/* Told how late it is, the faster way is taken. */
START_TEST(chooses_by_the_delay) {
    ccl_topology_t *topo = topology("dgx-a100");
    ccl_synth_options_t o = CCL_SYNTH_OPTIONS_INIT, fixed;
    double late_s = 0.002;
    o.size_bytes = 0x1p26;
    o.straggler.late_s = late_s;
    fixed = o;
    double best = after(topo, "straggler", &o, late_s);
    for (uint32_t join = CCL_STRAGGLER_ROUNDS; join <= CCL_STRAGGLER_STRAIGHT; join++) {
        fixed.straggler.join = (ccl_straggler_join_t)join;
        ck_assert_double_le(best, after(topo, "straggler", &fixed, late_s) * (1 + 1e-9));
    }
    ccl_topology_destroy(topo);
}
END_TEST

static const struct {
    const char *cluster;
    ccl_collective_kind_t kind;
    uint32_t rank;
    ccl_status_t status;
    const char *text;
} refused[] = {
    {"servers:1 gpus:8 nvswitch=100GB/s,1us", CCL_ALLGATHER, CCL_NONE, CCL_UNSUPPORTED,
     "only AllReduce"},
    {"servers:1 gpus:6 nvswitch=100GB/s,1us", CCL_ALLREDUCE, CCL_NONE, CCL_UNSUPPORTED,
     "rounds are for 4, 8, 16"},
    {"servers:1 gpus:8 nvswitch=100GB/s,1us", CCL_ALLREDUCE, 8, CCL_ERR_INPUT, "no rank 8"},
    {"servers:2 gpus:4 nvswitch=100GB/s,1us nics:4x25GB/s", CCL_ALLREDUCE, CCL_NONE,
     CCL_UNSUPPORTED, "several servers"},
    {"servers:1 gpus:2 nvswitch=100GB/s,1us", CCL_ALLREDUCE, CCL_NONE, CCL_UNSUPPORTED,
     "fewer than three"},
    {"servers:1 gpus:4 nvlink=ring,100GB/s,1us", CCL_ALLREDUCE, CCL_NONE, CCL_UNSUPPORTED,
     "some have no route"}};

START_TEST(says_why_not) {
    ccl_topology_t *topo = topology(refused[_i].cluster);
    ccl_synth_options_t o = plain(CCL_STRAGGLER_ROUNDS, 1);
    ccl_collective_t *want;
    ccl_schedule_t *s = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    o.straggler.rank = refused[_i].rank;
    MUST(ccl_collective_create(refused[_i].kind, topo->nranks, 1, 0, &want, e));
    ck_assert_int_eq(ccl_synthesize(NULL, "straggler", topo, NULL, want, &o, &s, &err),
                     refused[_i].status);
    ck_assert_msg(strstr(err.text, refused[_i].text) != NULL, "%s", err.text);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("unit.synth.straggler");
    TCase *cases = tcase_create("all");

    tcase_set_timeout(cases, 0);
    tcase_add_test(cases, as_many_rounds_as_the_paper);
    tcase_add_test(cases, straight_for_any_number);
    tcase_add_test(cases, gains_where_links_alone_count);
    tcase_add_test(cases, chooses_by_the_delay);
    tcase_add_loop_test(cases, says_why_not, 0, CCL_ARRAY_LEN(refused));
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
