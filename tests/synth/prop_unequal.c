// timeout: 120
/* AllReduce where servers carry unequally much, in parts along rails: near the bound, quickly made.
 */
#include "passes.h"
#include "tests/base/nightly.h"

#define H100 " model=H100"

/* One of `servers` with NICs of that rate. */
static ccl_topology_t *cluster_of(uint32_t servers, uint32_t gpus, double inside_GBps, double GBps,
                                  const char *model) {
    char spec[400];
    snprintf(spec, sizeof spec,
             "servers:1 gpus:%u nvswitch=%gGB/s,1us nics:%ux%gGB/s,2us%s + "
             "servers:%u gpus:%u nvswitch=%gGB/s,1us nics:%ux50GB/s,2us%s",
             gpus, inside_GBps, gpus, GBps, model, servers - 1, gpus, inside_GBps, gpus, model);
    return topology(spec);
}

static ccl_topology_t *cluster(uint32_t servers, uint32_t gpus, double GBps, const char *model) {
    return cluster_of(servers, gpus, 450, GBps, model);
}

typedef struct made {
    double gap;          /* time over the bound */
    uint64_t runs;       /* simulations of the synthesis */
    uint64_t events;     /* of all of them */
    uint32_t ntransfers; /* of the schedule */
    bool in_parts;
} made_t;

/* @param channels  given; 0: chosen. */
static made_t make_with(const ccl_topology_t *topo, double bytes, uint32_t channels) {
    made_t made = {0};
    ccl_collective_t *want = collective(CCL_ALLREDUCE, topo->nranks, 0);
    ccl_schedule_t *schedule = NULL;
    ccl_program_t *program = NULL;
    ccl_sim_result_t *result = NULL;
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ccl_work_t work = {0};
    ccl_bound_t bound;
    ctx.work = &work;
    options.size_bytes = lower.size_bytes = sim.size_bytes = bytes;
    options.channels = channels;
    MUST(ccl_synthesize(&ctx, "packing", topo, NULL, want, &options, &schedule, e));
    made.runs = work.runs;
    made.events = work.events;
    made.ntransfers = schedule->ntransfers;
    made.in_parts = strstr(schedule->origin, "along rails in parts") != NULL;
    MUST(ccl_lower(NULL, schedule, &lower, &program, e));
    check_program(program, 2, schedule->origin);
    MUST(ccl_sim_program(NULL, topo, NULL, program, &sim, &result, e));
    MUST(ccl_bound(NULL, topo, want, NULL, &bound, e));
    made.gap = result->time_s / ccl_bound_time_s(&bound, bytes);
    ccl_bound_fini(&bound);
    ccl_sim_result_destroy(result);
    ccl_program_destroy(program);
    ccl_schedule_destroy(schedule);
    ccl_collective_destroy(want);
    return made;
}

static made_t make(const ccl_topology_t *topo, double bytes) {
    return make_with(topo, bytes, 0);
}

static void check(ccl_topology_t *topo, double bytes, double most, uint32_t most_transfers) {
    made_t made = make(topo, bytes);
    ck_assert_msg(made.gap >= 1 && made.gap <= most, "%s: %.4f of the bound", topo->name, made.gap);
    ck_assert_msg(made.in_parts, "%s: not in parts", topo->name);
    ck_assert_msg(made.ntransfers <= most_transfers, "%s: %u transfers", topo->name,
                  made.ntransfers);
    /* No others were looked for. */
    ck_assert_msg(made.runs <= 16, "%s: %llu simulations", topo->name,
                  (unsigned long long)made.runs);
    ccl_topology_destroy(topo);
}

/* Roots of 3 and 1 parts, of 17 and 11. */
START_TEST(a_slow_server) {
    check(cluster(4, 4, 37.5, H100), 0x1p28, 1.025, 1200);
    check(cluster(4, 4, 43.75, H100), 0x1p28, 1.022, 3480);
    if (SANITIZED) /* larger ones, no other code */
        return;
    check(cluster(5, 4, 37.5, ""), 0x1p28, 1.01, 5320); /* 8 and 3; exact are 13 and 5 */
    if (nightly())
        check(cluster(8, 8, 37.5, H100), 0x1p28, 1.08, 7056); /* pieces of whole rails */
}
END_TEST

/* Links inside are as busy as NICs, and messages cost: few pieces, of which the last two are cut
 * (1.091 of the bound without, 1.078 where a rail is not copied as one). */
START_TEST(busy_inside) {
    ccl_topology_t *topo = cluster_of(8, 8, 348.5, 37.5, H100);
    check(edited(topo, "set:message:net=0.25us"), 0x1p28, 1.076, 28224);
    ccl_topology_destroy(topo);
}
END_TEST

/* What the dead NIC's rail has goes over the others. */
START_TEST(a_dead_nic) {
    ccl_topology_t *whole = cluster(4, 4, 50, H100);
    check(edited(whole, "fail:nic:0"), 0x1p28, 1.045, 810);
    ccl_topology_destroy(whole);
    /* Links inside are busy: the GPU without a NIC copies what comes for its rail. */
    whole = cluster_of(4, 4, 190, 50, H100);
    check(edited(whole, "fail:nic:0"), 0x1p28, 1.065, 810);
    ccl_topology_destroy(whole);
}
END_TEST

/* Without a limit to thread blocks deep trees take twice the pieces where four times are too many
 * to simulate: 1.037 of the bound without. */
START_TEST(many_pieces) {
    ccl_topology_t *whole = cluster(8, 8, 50, "");
    ccl_topology_t *left = edited(whole, "fail:nic:0");
    made_t made = make(left, 0x1p30);
    ck_assert_msg(made.gap >= 1 && made.gap <= 1.02, "%.4f of the bound", made.gap);
    ccl_topology_destroy(left);
    ccl_topology_destroy(whole);
}
END_TEST

/* Three parts and one would leave a connection for sums and one for copies: too slow. */
START_TEST(few_thread_blocks) {
    ccl_topology_t *whole = cluster(4, 4, 37.5, H100);
    check(edited(whole, "set:blocks=46"), 0x1p28, 1.08, 360);
    ccl_topology_destroy(whole);
}
END_TEST

/* Parts have as many connections as parts: who gives a number of channels gets that. */
START_TEST(given_channels) {
    ccl_topology_t *topo = cluster(4, 4, 37.5, H100);
    ck_assert(!make_with(topo, 0x1p28, 2).in_parts);
    ccl_topology_destroy(topo);
}
END_TEST

/* In parts, and not slower than that, nor with more simulations. @return its events */
static uint64_t compare(ccl_topology_t *topo, double bytes, bool in_parts, double most,
                        uint64_t runs) {
    made_t made = make(topo, bytes);
    ck_assert_msg(made.in_parts == in_parts, "%s: in parts?", topo->name);
    ck_assert_msg(made.gap >= 1 && made.gap <= most, "%s: %.4f of the bound", topo->name, made.gap);
    ck_assert_msg(made.runs <= runs, "%s: %llu simulations", topo->name,
                  (unsigned long long)made.runs);
    ccl_topology_destroy(topo);
    return made.events;
}

/* A sum's cuts side by side, servers one after another, and slow ones last. */
START_TEST(sums_in_turn) {
    ccl_topology_t *topo = cluster_of(6, 4, 348, 25, H100);
    compare(edited(topo, "set:message:net=0.25us"), 0x1p26, true, 1.142, 22);
    ccl_topology_destroy(topo);
}
END_TEST

/* Servers that are alike have a part each: no others near the bound, else what is faster. */
START_TEST(alike) {
    compare(cluster(4, 4, 50, H100), 0x1p30, true, 1.0065, 10);
    compare(cluster(6, 4, 50, H100), 0x1p30, true, 1.02, 9);
    ccl_topology_t *busy = cluster_of(4, 4, 190, 50, H100);
    made_t made = make(busy, 0x1p28);
    ck_assert_msg(made.runs > 10, "no others but parts");
    ck_assert_msg(made.runs <= 23, "%llu simulations", (unsigned long long)made.runs);
    ccl_topology_destroy(busy);
}
END_TEST

/* Parts lead by 0.02 % before lowering, from which other trees gain more: 3.5 % in the end. */
START_TEST(no_lead) {
    compare(with_profile("dgx-h200*4", NULL), 0x1p28, false, 1.27, 200);
}
END_TEST

/* Others than parts are looked for as long as they may be faster, and for long only where parts
   load links unevenly. */
START_TEST(behind_parts) {
    ccl_topology_t *whole = cluster(4, 4, 50, H100);
    ccl_topology_t *dead = edited(whole, "fail:nic:0");
    ck_assert_uint_le(make(dead, 0x1p26).events, 3500000); /* they end where others are faster */
    ccl_topology_destroy(dead);
    compare(edited(whole, "degrade:nic:1=50%"), 0x1p26, true, 1.113, 20);
    compare(edited(whole, "degrade:nic:0=25%"), 0x1p26, false, 1.305, 34);
    ccl_topology_destroy(whole);
    compare(cluster(6, 8, 50, H100), 0x1p25, false, 1.433, 22);
    ck_assert_uint_le(compare(cluster(6, 8, 50, H100), 0x1p26, false, 1.193, 23), 7000000);
}
END_TEST

/* Few pieces, and a number between powers of two. */
START_TEST(few_pieces) {
    ccl_topology_t *topo = cluster_of(8, 8, 348.5, 43.75, H100);
    compare(edited(topo, "set:message:net=0.25us"), 0x1p26, true, 1.36, 35);
    ccl_topology_destroy(topo);
}
END_TEST

/* Small sizes, and links alone where rails lose, go as before. */
START_TEST(others) {
    ccl_topology_t *slow = cluster(4, 4, 37.5, H100), *whole = cluster(4, 4, 50, "");
    ccl_topology_t *dead = edited(whole, "fail:nic:0");
    made_t made = make(slow, 0x1p24);
    ck_assert(!made.in_parts);
    ck_assert_msg(made.runs <= 27, "%llu simulations", (unsigned long long)made.runs);
    made = make(dead, 0x1p30);
    ck_assert(!made.in_parts);
    ck_assert_msg(made.gap < 1.02, "%.4f of the bound", made.gap);
    ccl_topology_destroy(slow);
    ccl_topology_destroy(whole);
    ccl_topology_destroy(dead);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("unequal");
    TCase *tc = tcase_create("unequal");
    tcase_set_timeout(tc, 110);
    tcase_add_test(tc, a_slow_server);
    if (!SANITIZED)
        tcase_add_test(tc, busy_inside);
    if (!SANITIZED)
        tcase_add_test(tc, sums_in_turn);
    tcase_add_test(tc, a_dead_nic);
    tcase_add_test(tc, few_thread_blocks);
    tcase_add_test(tc, given_channels);
    if (!SANITIZED) {
        tcase_add_test(tc, alike);
        tcase_add_test(tc, others);
        tcase_add_test(tc, behind_parts);
        if (nightly()) {
            tcase_add_test(tc, few_pieces);
            tcase_add_test(tc, no_lead);
            tcase_add_test(tc, many_pieces);
        }
    }
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
