/*
 * latency: which member wins where, and in what time; closed forms without thread blocks; small and
 * odd clusters proven; what is refused, and what options ask for.
 */
#include "common.h"

#include <math.h>

#define US 1e-6

/* Simulated, proven; its origin. */
static double time_of(const ccl_topology_t *topo, ccl_collective_kind_t kind, double size,
                      const char *proto, ccl_origin_t origin) {
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    ccl_collective_t *want = collective(kind, topo->nranks, 0);
    ccl_schedule_t *schedule = NULL;
    ccl_program_t *program = NULL;
    ccl_sim_result_t *run = NULL;
    options.size_bytes = lower.size_bytes = sim.size_bytes = size;
    lower.topo = topo;
    lower.proto = proto;
    MUST(ccl_synthesize(NULL, "latency", topo, NULL, want, &options, &schedule, e));
    MUST(ccl_lower(NULL, schedule, &lower, &program, e));
    check_program(program, 0, "latency");
    MUST(ccl_sim_program(NULL, topo, NULL, program, &sim, &run, e));
    double time_s = run->time_s;
    ccl_origin_set(origin, "%s", schedule->origin);
    ccl_sim_result_destroy(run);
    ccl_program_destroy(program);
    ccl_schedule_destroy(schedule);
    ccl_collective_destroy(want);
    return time_s;
}

/* Each member where it wins; without it the time is at least 1 % more. */
static const struct {
    const char *spec, *profile;
    ccl_collective_kind_t kind;
    double size, most_us;
    const char *proto, *origin, *why;
} cells[] = {
#define KiB *1024.0
    {"dgx-h100", NULL, CCL_ALLREDUCE, 4 KiB, 9.15, "LL", "all of 8,", "one shot"},
    {"dgx-h100", NULL, CCL_ALLREDUCE, 16 KiB, 9.85, "LL", "all of 4 x 2", "digits"},
    {"dgx-h100", NULL, CCL_ALLREDUCE, 256 KiB, 12.1, "LL", "shares of 8,", "two shots"},
    {"dgx-h100", NULL, CCL_ALLREDUCE, 256 KiB, 12.1, "LL", "joined", "chunks side by side"},
    {"dgx-h100", "nccl-h100", CCL_REDUCESCATTER, 1024 KiB, 11.2, "LL", "7 parts in turn",
     "peers in turn"},
    {"dgx-h100", NULL, CCL_BROADCAST, 256 KiB, 10.8, "LL", "shares of 8,", "scatter, gather"},
    {"dgx-a100*2", NULL, CCL_ALLREDUCE, 16 KiB, 14.7, "LL", "shares of 8, all of 2 servers",
     "shares inside, all across"},
    {"dgx-h100*4", "nccl-h100", CCL_ALLREDUCE, 16 KiB, 14.6, "LL", "2 between servers",
     "fewer channels between servers"},
    {"dgx-h100*4", "nccl-h100", CCL_ALLTOALL, 4 KiB, 11.8, "LL", "8 x 4 servers",
     "few messages between servers"},
    {"dgx-h100*4", NULL, CCL_ALLGATHER, 4 KiB, 10.9, "LL", "latency: 32,", "all GPUs are peers"},
    {"heteccl-h20-4+8", NULL, CCL_REDUCESCATTER, 16 KiB, 13.2, "LL", "4 x 3",
     "digits of servers of different size"},
    {"dgx-h100*4", "nccl-h100", CCL_ALLGATHER, 4 KiB, 9.45, "LL", "shares apart",
     "channels for what is passed on"},
    {"servers:3 gpus:6 nvswitch=200GB/s,1us nics:3x25GB/s,2us model=A100", NULL, CCL_ALLREDUCE,
     1024 KiB, 69, "LL128", "shares of 6 x 3 servers", "shares inside and across"},
    {"dgx-a100*2", "nccl-a100", CCL_BROADCAST, 1024 KiB, 38.2, "LL128", "8 parts in a row",
     "a part is on the next way while others follow"},
    {"dgx-h100", NULL, CCL_ALLTOALL, 64 KiB, 8.05, "LL", "8, 8 channels", "fewer channels"},
    {"ndv2", NULL, CCL_ALLGATHER, 256 KiB, 13.7, "LL", "10 channels; 2 parts", "not joined"},
    {"teccl-ndv2-2x8", NULL, CCL_ALLREDUCE, 256 KiB, 52, "LL128", "middle, 8 channels",
     "more channels"},
    {"ndv2", NULL, CCL_ALLREDUCE, 4 KiB, 10, "LL", "all of 4 x 2", "a grid of wires"},
    {"mi300x-x8", NULL, CCL_ALLREDUCE, 64 KiB, 17, "LL", "shares of 4, all of 2",
     "shares along some digits of a server"},
    {"mi300x-x8*4", NULL, CCL_ALLREDUCE, 256 KiB, 38.5, "LL", "4 x 2, all of 4 servers",
     "five leaders, and work for their neighbours"},
    {"ndv2", NULL, CCL_ALLTOALL, 1024 KiB, 33.2, "LL128", "links in turn", "HPDS order"},
    {"dgx1-v100*2", NULL, CCL_BROADCAST, 1024 KiB, 52.5, "LL128", "longest way first on 5 channels",
     "list scheduling"},
    {"mi250-x16", NULL, CCL_ALLREDUCE, 16 KiB, 21.6, "LL", "from the middle", "no grid"},
    {"teccl-ndv2-2x8", NULL, CCL_BROADCAST, 4 KiB, 12.1, "LL", "shortest ways", "no grid"},
};

START_TEST(test_members) {
    if (SANITIZED && _i % 4) /* choices and times alone */
        return;
    ccl_origin_t origin;
    ccl_topology_t *topo = cells[_i].profile ? with_profile(cells[_i].spec, cells[_i].profile)
                                             : topology(cells[_i].spec);
    double time_s = time_of(topo, cells[_i].kind, cells[_i].size, cells[_i].proto, origin);
    ck_assert_msg(strstr(origin, cells[_i].origin) != NULL, "%s: %s", cells[_i].why, origin);
    ck_assert_msg(time_s <= cells[_i].most_us * US, "%s: %g us, %s", cells[_i].why, time_s / US,
                  origin);
    ccl_topology_destroy(topo);
}
END_TEST

#define RAILS_2X8 "servers:2 gpus:8 nvswitch=300GB/s,1us nics:8x25GB/s,3us fabric=rail"
#define RAILS_3X4 "servers:3 gpus:4 nvswitch=300GB/s,1us nics:4x25GB/s,3us fabric=rail"

/* No server is named: sets of fast hops are groups. Without them the times are
   at least 15 % more. */
static const struct {
    const char *spec;
    ccl_collective_kind_t kind;
    double size, most_us;
    const char *origin;
} nameless[] = {
    {RAILS_2X8, CCL_ALLREDUCE, 64 KiB, 5.67, "shares of 8, all of 2 sets"},
    {"servers:2 gpus:8 nvswitch=300GB/s,1us nics:8x25GB/s,3us", CCL_BROADCAST, 256 KiB, 6.93,
     "shares of 8, all of 2 sets"},
    {"servers:2 gpus:8 nvswitch=300GB/s,1us nics:8x25GB/s,3us", CCL_ALLREDUCE, 1024 KiB, 11.1,
     "shares of 8, all of 2 sets, 1 channel; 8 parts in a row"},
    {"servers:2 gpus:4 nvswitch=300GB/s,1us nics:4x25GB/s,3us + gpus:8 nvswitch=300GB/s,1us "
     "nics:4x25GB/s,3us",
     CCL_ALLREDUCE, 64 KiB, 6.65, "shares of 8, all of 3 sets, 15 channels; 14 between sets"},
    {RAILS_2X8, CCL_REDUCESCATTER, 256 KiB, 5.09, "8 x 2 sets"},
};

START_TEST(test_nameless) {
    ccl_origin_t origin;
    ccl_topology_t *topo = topology(nameless[_i].spec);
    ccl_device_t *devices = forget_servers(topo);
    double time_s = time_of(topo, nameless[_i].kind, nameless[_i].size, "Simple", origin);
    ck_assert_msg(time_s <= nameless[_i].most_us * US, "%g us, %s", time_s / US, origin);
    ck_assert_msg(strstr(origin, nameless[_i].origin) != NULL, "%s", origin);
    free(devices);
    ccl_topology_destroy(topo);
}
END_TEST

/* Lanes without a NIC own no shares, and what is of their GPUs goes by the others, all of them.
   Without that the times are at least 14 % more; roots with a NIC and without. */
static const struct {
    const char *spec;
    ccl_collective_kind_t kind;
    uint32_t root;
    bool nameless;
    double size, most_us;
} dead[] = {
    {RAILS_2X8, CCL_ALLREDUCE, 0, false, 64 KiB, 5.5},
    {RAILS_2X8, CCL_ALLREDUCE, 0, true, 64 KiB, 5.5},
    {RAILS_3X4, CCL_BROADCAST, 0, false, 64 KiB, 6.9},
    {RAILS_3X4, CCL_REDUCE, 5, false, 64 KiB, 6.9},
    {RAILS_2X8, CCL_ALLGATHER, 0, false, 512 KiB, 6.2},
    {RAILS_2X8, CCL_ALLGATHER, 0, true, 512 KiB, 6.2},
    {RAILS_3X4, CCL_REDUCESCATTER, 0, false, 512 KiB, 9.2},
    {RAILS_2X8, CCL_ALLTOALL, 0, false, 8 KiB, 5.2},
};

START_TEST(test_dead_lanes) {
    ccl_topology_t *whole = topology(dead[_i].spec), *topo = edited(whole, "fail:nic:0");
    ccl_device_t *devices = dead[_i].nameless ? forget_servers(topo) : NULL;
    ccl_collective_t *want = collective(dead[_i].kind, topo->nranks, dead[_i].root);
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_routes_t *routes = ccl_routes_create(topo);
    ccl_schedule_t *schedule = NULL;
    options.size_bytes = dead[_i].size;
    ck_assert(check_all("latency", topo, routes, want, &options, 1 + 8, dead[_i].spec));
    MUST(ccl_synthesize(NULL, "latency", topo, NULL, want, &options, &schedule, e));
    double time_s = timed_s(topo, schedule, dead[_i].size, (ccl_way_t){0});
    ck_assert_msg(time_s <= dead[_i].most_us * US, "%g us, %s", time_s / US, schedule->origin);
    ccl_schedule_destroy(schedule);
    ccl_routes_destroy(routes);
    ccl_collective_destroy(want);
    free(devices);
    ccl_topology_destroy(topo);
    ccl_topology_destroy(whole);
}
END_TEST

/* One byte, so that only steps count: of 1 us each. */
static const struct {
    const char *spec;
    ccl_collective_kind_t kind;
    double steps;
    const char *why;
} steps[] = {
    {"gpus:8 nvswitch=100GB/s,1us", CCL_ALLREDUCE, 1, "all exchange at once"},
    {"gpus:7 nvswitch=100GB/s,1us", CCL_REDUCESCATTER, 1, "so with a prime number"},
    {"gpus:4 nvlink=ring,100GB/s,1us", CCL_ALLREDUCE, 2, "a ring of four is a square"},
    {"gpus:5 nvlink=ring,100GB/s,1us", CCL_ALLREDUCE, 4, "to the middle and back"},
    {"servers:3 gpus:4 nvswitch=100GB/s,1us nics:4x10GB/s,1us fabric=rail", CCL_ALLREDUCE, 2,
     "inside, then along rails"},
};

START_TEST(test_steps) {
    ccl_origin_t origin;
    ccl_topology_t *topo = topology(steps[_i].spec);
    double time_s = time_of(topo, steps[_i].kind, 1, "Simple", origin);
    ck_assert_msg(fabs(time_s / US - steps[_i].steps) < 0.01, "%s: %g us, %s", steps[_i].why,
                  time_s / US, origin);
    ccl_topology_destroy(topo);
}
END_TEST

static const char *const odd[] = {
    "gpus:1 nvswitch=100GB/s,1us",
    "gpus:2 nvswitch=100GB/s,1us",
    "gpus:3 nvlink=ring,100GB/s,1us",
    "gpus:6 nvlink=ring,100GB/s,1us",
    "gpus:7 nvswitch=100GB/s,1us",
    "servers:5 gpus:1 nvswitch=100GB/s,1us nics:1x10GB/s,2us",
    "servers:3 gpus:5 nvswitch=100GB/s,1us nics:2x10GB/s,2us",
    "servers:2 gpus:3 nvswitch=100GB/s,1us nics:1x10GB/s,2us + servers:2 gpus:7 "
    "nvswitch=100GB/s,1us nics:2x10GB/s,2us",
    "gpus:1 nvswitch=100GB/s,1us nics:1x10GB/s,2us + gpus:6 nvlink=mesh,50GB/s,1us "
    "nics:1x10GB/s,2us",
    "servers:2 gpus:8 nvswitch=100GB/s,1us nics:8x10GB/s,2us fabric=rail",
};

START_TEST(test_odd_clusters) {
    static const ccl_collective_kind_t kinds[] = {CCL_ALLREDUCE, CCL_ALLGATHER, CCL_REDUCESCATTER,
                                                  CCL_BROADCAST, CCL_REDUCE,    CCL_ALLTOALL};
    ccl_topology_t *topo = topology(odd[_i]);
    ccl_routes_t *routes = ccl_routes_create(topo);
    for (uint32_t k = 0; k < CCL_ARRAY_LEN(kinds); k++) {
        ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
        bool rooted = kinds[k] == CCL_BROADCAST || kinds[k] == CCL_REDUCE;
        ccl_collective_t *want = collective(kinds[k], topo->nranks, rooted ? topo->nranks / 2 : 0);
        options.size_bytes = k % 2 ? 1024 : 131072;
        options.chunks = k % 2 ? 0 : 3;
        check_all("latency", topo, routes, want, &options, 1 + 8, odd[_i]);
        ccl_collective_destroy(want);
    }
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(test_refuses) {
    ccl_topology_t *topo = topology("gpus:9 nvlink=ring,100GB/s,1us");
    ccl_schedule_t *schedule = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_collective_t *want = collective(CCL_REDUCESCATTER, 9, 0);
    ck_assert_int_eq(ccl_synthesize(NULL, "latency", topo, NULL, want, NULL, &schedule, &err),
                     CCL_UNSUPPORTED);
    ck_assert_msg(strstr(err.text, "no grid of wires") != NULL, "%s", err.text);
    ccl_collective_destroy(want);
    want = collective(CCL_GATHER, 9, 0);
    err = (ccl_error_t)CCL_ERROR_INIT;
    ck_assert_int_eq(ccl_synthesize(NULL, "latency", topo, NULL, want, NULL, &schedule, &err),
                     CCL_UNSUPPORTED);
    ck_assert_msg(strstr(err.text, "use direct") != NULL, "%s", err.text);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(test_options) {
    ccl_topology_t *topo = topology("dgx-h100");
    ccl_collective_t *want = collective(CCL_ALLREDUCE, 8, 0);
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_schedule_t *schedule = NULL;
    options.size_bytes = 1 << 20;
    options.channels = 3;
    options.chunks = 5;
    MUST(ccl_synthesize(NULL, "latency", topo, NULL, want, &options, &schedule, e));
    ck_assert_uint_eq(schedule->nchannels, 3);
    ck_assert_uint_eq(schedule->coll->nchunks % 15, 0);
    for (int joined = 0; joined < 2; joined++) { /* the JSON form keeps it */
        ccl_schedule_t *again = NULL;
        ccl_text_t text = {0};
        schedule->joined = schedule->listed = joined;
        MUST(ccl_schedule_write_json(schedule, &text, e));
        MUST(ccl_schedule_read_json("test", text.data, text.len, &again, e));
        ck_assert(again->joined == schedule->joined && again->listed == schedule->listed);
        ck_assert(ccl_schedule_equal(schedule, again));
        again->listed = !joined;
        ck_assert(!ccl_schedule_equal(schedule, again));
        again->listed = joined;
        again->joined = !joined;
        ck_assert(!ccl_schedule_equal(schedule, again));
        ccl_schedule_destroy(again);
        ccl_text_fini(&text);
    }
    ccl_schedule_destroy(schedule);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}
END_TEST

/* What is slower than the leaders, or than another protocol, is not run to its end; forms that send
   many times another's bytes are raced last; large messages not under LL. At most 3 % above what
   there are. */
static const struct {
    const char *spec;
    ccl_collective_kind_t kind;
    double size;
    uint64_t events;
} gives_up[] = {{"dgx-h100*4", CCL_ALLREDUCE, 65536 KiB, 244000},
                {"gb200-nvl72", CCL_REDUCE, 262144 KiB, 8369000},
                {"gb200-nvl72", CCL_ALLREDUCE, 65536 KiB, 2835000}};

START_TEST(test_gives_up) {
    ccl_topology_t *topo = topology(gives_up[_i].spec);
    ccl_collective_t *want = collective(gives_up[_i].kind, topo->nranks, 0);
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_origin_t origin[2];
    options.size_bytes = gives_up[_i].size;
    for (uint32_t k = 0; k < 2; k++) { /* on one thread, and on three */
        ccl_schedule_t *schedule = NULL;
        ccl_work_t work = {0};
        ccl_ctx_t ctx = CCL_CTX_INIT;
        ctx.threads = k ? 3 : 1;
        ctx.work = &work;
        MUST(ccl_synthesize(&ctx, "latency", topo, NULL, want, &options, &schedule, e));
        ck_assert_msg(work.events <= gives_up[_i].events, "%s: %llu events", gives_up[_i].spec,
                      (unsigned long long)work.events);
        ccl_origin_set(origin[k], "%s", schedule->origin);
        ccl_schedule_destroy(schedule);
    }
    ck_assert_str_eq(origin[0], origin[1]);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("unit.synth.latency");
    TCase *tcase = tcase_create("latency");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, test_members, 0, (int)CCL_ARRAY_LEN(cells));
    tcase_add_loop_test(tcase, test_nameless, 0, (int)CCL_ARRAY_LEN(nameless));
    tcase_add_loop_test(tcase, test_dead_lanes, 0, (int)CCL_ARRAY_LEN(dead));
    tcase_add_loop_test(tcase, test_steps, 0, (int)CCL_ARRAY_LEN(steps));
    tcase_add_loop_test(tcase, test_odd_clusters, 0, (int)CCL_ARRAY_LEN(odd));
    tcase_add_test(tcase, test_refuses);
    tcase_add_test(tcase, test_options);
    tcase_add_loop_test(tcase, test_gives_up, 0, SANITIZED ? 1 : (int)CCL_ARRAY_LEN(gives_up));
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
