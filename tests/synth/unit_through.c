// timeout: 120
/*
 * Schedules of other families through switches: which trees become switch connections, that
 * groups of one GPU keep apart, and that a synthesizer takes them where, and only where, that is
 * faster.
 */
#include "common.h"
#include "tests/base/nightly.h"
#include "synth/switch/through.h"

#include <string.h>

/** "chunk: src>dst ..." a line; every transfer has a step of its own, in the order of the text. */
static ccl_schedule_t *schedule_of(const char *text, ccl_collective_t *coll) {
    ccl_schedule_builder_t *b = ccl_schedule_builder_create("by hand", coll);
    ccl_schedule_t *s = NULL;
    uint32_t chunk = 0, step = 0;
    for (const char *at = text; *at; at += strcspn(at, " ") + (at[strcspn(at, " ")] == ' ')) {
        unsigned src, dst;
        char arrow;
        if (sscanf(at, "%u%c%u", &src, &arrow, &dst) == 3 && arrow != ':')
            ccl_schedule_builder_add(b, (ccl_transfer_t){.src = src,
                                                         .dst = dst,
                                                         .chunk = chunk,
                                                         .step = step++,
                                                         .reduce = arrow == '+'});
        else
            chunk = src;
    }
    MUST(ccl_schedule_builder_finish(b, &s, e));
    return s;
}

static ccl_collective_t *parts_of(ccl_collective_kind_t kind, uint32_t n, uint32_t parts) {
    ccl_collective_t *whole = collective(kind, n, 0), *split = NULL;
    MUST(ccl_collective_split(whole, parts, &split, e));
    ccl_collective_destroy(whole);
    return split;
}

static bool is_valid(const ccl_schedule_t *s) {
    ccl_verdict_t *verdict = calloc(1, sizeof *verdict);
    MUST(ccl_schedule_verify(NULL, s, verdict, e));
    bool valid = verdict->valid;
    free(verdict);
    return valid;
}

#define ABLE "servers:1 gpus:4 nvswitch=100GB/s,nvls"
#define TWO "servers:2 gpus:4 nvswitch=100GB/s,nvls nics:4x10GB/s fabric=rail"
#define RAILS "servers:4 gpus:2 nvswitch=100GB/s nics:2x10GB/s fabric=rail,sharp"

/* Transfers of the schedule, of that through switches (0: it stays as it is), and its groups. */
static const struct {
    const char *what, *spec, *schedule;
    ccl_collective_kind_t kind;
    uint32_t parts, transfers, groups;
} cases[] = {
    {"a chain", ABLE, "0: 0>1 1>2 2>3", CCL_BROADCAST, 1, 1, 1},
    {"a tree", ABLE, "0: 0>2 0>1 2>3", CCL_BROADCAST, 1, 1, 1},
    {"sums along a chain", ABLE, "0: 3+2 2+1 1+0", CCL_REDUCE, 1, 1, 1},
    {"sums, and the result", ABLE, "0: 3+2 1+0 2+0 0>1 1>2 0>3", CCL_ALLREDUCE, 1, 2, 1},
    {"one GPU has sent on: no tree of its own", ABLE, "0: 0+1 1+0 2+3 3+2 0+2 1+3 2+0 3+1",
     CCL_ALLREDUCE, 1, 0, 0},
    {"switches that cannot", "servers:1 gpus:4 nvswitch=100GB/s", "0: 0>1 1>2 2>3", CCL_BROADCAST,
     1, 0, 0},
    {"a tree a server", TWO, "0: 0>1 0>2 0>4 2>3 4>5 4>6 6>7", CCL_BROADCAST, 1, 3, 2},
    {"into a server twice: two trees", TWO, "0: 0>1 0>4 0>2 4>5 5>6 2>3 3>7", CCL_BROADCAST, 1, 4,
     2},
    {"groups of one GPU", TWO, "0: 0>1 0>2 0>3 0>4 4>5 5>6 6>7 1: 0>1 0>2 0>4 4>5 4>6 6>7 4>3",
     CCL_BROADCAST, 2, 7, 3},
    {"along a rail", RAILS, "0: 0>1 0>2 2>4 4>6 2>3 4>5 6>7", CCL_BROADCAST, 1, 5, 1},
};

START_TEST(test_trees) {
    ccl_topology_t *topo = topology(cases[_i].spec);
    ccl_collective_t *coll = parts_of(cases[_i].kind, topo->nranks, cases[_i].parts);
    ccl_schedule_t *plain = schedule_of(cases[_i].schedule, coll), *made = NULL;
    const char *what = cases[_i].what;
    if (cases[_i].transfers)
        ck_assert_msg(is_valid(plain), "%s: the schedule is wrong", what);
    for (uint32_t parts = 1; parts <= 3; parts += 2) {
        const ccl_i_through_way_t way = {.channels = 2, .parts = parts, .in_turn = parts > 1};
        MUST(ccl_i_through_switches(topo, NULL, plain, &way, &made, e));
        ck_assert_msg((made != NULL) == (cases[_i].transfers > 0), "%s", what);
        if (!made)
            continue;
        ck_assert_msg(made->ntransfers == parts * cases[_i].transfers, "%s: %u transfers", what,
                      made->ntransfers);
        ck_assert_msg(made->ngroups == cases[_i].groups, "%s: %u groups", what, made->ngroups);
        ck_assert_msg(is_valid(made), "%s: wrong", what);
        ccl_program_t *program = NULL;
        MUST(ccl_lower(NULL, made, NULL, &program, e));
        check_program(program, 0, what);
        ccl_program_destroy(program);
        ccl_schedule_destroy(made);
        made = NULL;
    }
    ccl_schedule_destroy(plain);
    ccl_topology_destroy(topo);
}
END_TEST

static double time_of(const char *name, const ccl_topology_t *topo, ccl_collective_kind_t kind,
                      double size_bytes, bool *through) {
    ccl_collective_t *want = collective(kind, topo->nranks, 0);
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    ccl_schedule_t *schedule = NULL;
    ccl_program_t *program = NULL;
    ccl_sim_result_t *run = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_way_t way = ccl_way_choose(ccl_synth_find(name)->way, (ccl_way_t){0}, 0);
    options.size_bytes = lower.size_bytes = sim.size_bytes = size_bytes;
    lower.topo = topo;
    lower.order = way.order;
    lower.allocation = way.allocation;
    lower.granularity = sim.granularity = way.granularity;
    MUST(ccl_synthesize(NULL, name, topo, NULL, want, &options, &schedule, e));
    *through = schedule->ngroups > 0;
    ck_assert(*through == (strstr(schedule->origin, "through switches") != NULL));
    MUST(ccl_lower(NULL, schedule, &lower, &program, e));
    ck_assert(program->algorithm_only == *through);
    MUST(ccl_sim_program(NULL, topo, NULL, program, &sim, &run, e));
    double time_s = run->time_s;
    ccl_sim_result_destroy(run);
    ccl_program_destroy(program);
    if (*through) { /* what was asked for, and cannot be, is refused */
        lower.asked = true;
        lower.order = CCL_ORDER_HPDS;
        ck_assert_int_eq(ccl_lower(NULL, schedule, &lower, &program, NULL), CCL_UNSUPPORTED);
        lower.asked = false;
        lower.proto = "LL";
        ck_assert_int_eq(ccl_lower(NULL, schedule, &lower, &program, &err), CCL_UNSUPPORTED);
        ck_assert_msg(strstr(err.text, "take Simple"), "%s", err.text);
    }
    ccl_schedule_destroy(schedule);
    ccl_collective_destroy(want);
    return time_s;
}

/* By transports and links: large sums in the switch, small ones not. */
START_TEST(test_faster) {
    static const char *const names[] = {"greedy", "packing", "sketch", "cegis"};
    ccl_topology_t *able = topology("dgx-h100");
    ccl_topology_t *unable = topology("dgx-h100");
    ccl_topology_t *off = NULL;
    bool through;
    MUST(ccl_topology_edit(unable, "set:in_switch=false", &off, e));
    double with_s = time_of(names[_i], able, CCL_ALLREDUCE, 1e9, &through);
    ck_assert(through);
    double without_s = time_of(names[_i], off, CCL_ALLREDUCE, 1e9, &through);
    ck_assert(!through);
    ck_assert_msg(with_s < 0.7 * without_s, "%s: %g and %g s", names[_i], with_s, without_s);
    with_s = time_of(names[_i], able, CCL_ALLREDUCE, 1024, &through);
    ck_assert(!through);
    without_s = time_of(names[_i], off, CCL_ALLREDUCE, 1024, &through);
    ck_assert_msg(with_s == without_s, "%s: %g and %g s", names[_i], with_s, without_s);
    ccl_topology_destroy(able);
    ccl_topology_destroy(unable);
    ccl_topology_destroy(off);
}
END_TEST

/* What pieces of their own and turns make of it: without pieces 247 us, without turns 146.8. */
START_TEST(test_pipelines) {
    static const struct {
        const char *name;
        ccl_collective_kind_t kind;
        double most_s;
    } rows[] = {{"greedy", CCL_ALLREDUCE, 201e-6}, {"packing", CCL_REDUCESCATTER, 144.5e-6}};
    ccl_topology_t *topo = topology("dgx-h100");
    bool through;
    double time_s = time_of(rows[_i].name, topo, rows[_i].kind, 67108864, &through);
    ck_assert(through);
    ck_assert_msg(time_s <= rows[_i].most_s, "row %d: %g s", _i, time_s);
    ccl_topology_destroy(topo);
}
END_TEST

/* Schedules as they are win where blocks lack: with the first row's, a block per connection takes
   more than twice as long as switches, and the best way of lowering less; with the second's such
   blocks have no room, and switches take 42 ms. */
START_TEST(test_own_way) {
    static const struct {
        const char *spec, *edit;
        double size_bytes;
    } rows[] = {{"dgx-h100*2", "set:blocks=24", 268435456}, {"dgx-h100*4", NULL, 1073741824}};
    ccl_topology_t *topo = with_profile(rows[_i].spec, NULL), *edited = NULL;
    bool through;
    if (rows[_i].edit)
        MUST(ccl_topology_edit(topo, rows[_i].edit, &edited, e));
    time_of("greedy", edited ? edited : topo, CCL_ALLREDUCE, rows[_i].size_bytes, &through);
    ck_assert_msg(!through, "row %d", _i);
    ccl_topology_destroy(edited);
    ccl_topology_destroy(topo);
}
END_TEST

#define RACK "gb200-nvl72"
/* As many blocks as one likes. */
#define ROOM "servers:1 gpus:32 nvswitch=450GB/s,1us,nvls"
#define RACKS "gb200-nvl72*2"
/* Where links allow for nothing as fast, schedules without switches do not race; and channels are
   tried from few up. At most 3 % above what there are. */
static const struct {
    const char *name, *spec;
    uint64_t events, runs;
} alone[] = {{"greedy", ROOM, 11370, 9},     {"nvls-pull", ROOM, 89700, 10},
             {"greedy", RACK, 45100, 7},     {"nvls-pull", RACK, 161500, 12},
             {"packing", RACK, 45100, 7},    {"sketch", RACK, 1298000, 26},
             {"cegis", RACK, 349900, 12},    {"greedy", RACKS, 811900, 21},
             {"packing", RACKS, 1161000, 18}};

START_TEST(test_alone) {
    bool through;
    bool twice = nightly() || strcmp(alone[_i].spec, ROOM) == 0; /* racks take longest */
    ccl_work_t work =
        work_alone(alone[_i].name, alone[_i].spec, CCL_ALLREDUCE, 268435456.0, twice, &through);
    ck_assert(through);
    ck_assert_msg(work.events <= alone[_i].events && work.runs <= alone[_i].runs,
                  "%s: %llu events, %llu runs", alone[_i].name, (unsigned long long)work.events,
                  (unsigned long long)work.runs);
}
END_TEST

/* At most 3 % above what there are: of a heavy schedule without switches, which is not lowered in
   its own way, as that takes several runs of it; where one through switches is so near the bound
   that no schedule without races. */
static const struct {
    const char *name;
    ccl_collective_kind_t kind;
    double size_bytes;
    uint64_t events, runs;
    bool through;
} large[] = {{"cegis", CCL_REDUCESCATTER, 0x1p30, 1023000, 13, true},
             {"greedy", CCL_REDUCESCATTER, 0x1p26, 140300, 9, true},
             {"greedy", CCL_BROADCAST, 0x1p28, 394, 11, true},
             {"greedy", CCL_REDUCE, 0x1p22, 970, 11, true},
             {"cegis", CCL_REDUCE, 0x1p28, 6300, 22, true},
             {"cegis", CCL_ALLGATHER, 0x1p28, 22200, 12, false}};

START_TEST(test_large) {
    bool through;
    ccl_work_t work =
        work_alone(large[_i].name, RACK, large[_i].kind, large[_i].size_bytes, nightly(), &through);
    ck_assert_msg(through == large[_i].through, "row %d", _i);
    ck_assert_msg(work.events <= large[_i].events && work.runs <= large[_i].runs,
                  "row %d: %llu events, %llu runs", _i, (unsigned long long)work.events,
                  (unsigned long long)work.runs);
}
END_TEST

/* Where it is not so near, others race: else the first takes 654 us. A Reduce through switches goes
   in pieces: else 74 us. */
static const struct {
    const char *spec;
    ccl_collective_kind_t kind;
    double size_bytes, most_s;
} far[] = {
    {"servers:1 gpus:40 nvswitch=150GB/s,2us,nvls model=H100", CCL_BROADCAST, 0x1p26, 640e-6},
    {"servers:1 gpus:48 nvswitch=700GB/s,0.5us,nvls model=B200", CCL_REDUCE, 0x1p24, 66e-6}};

START_TEST(test_far) {
    ccl_topology_t *topo = with_profile(far[_i].spec, NULL);
    bool through;
    double time_s = time_of("greedy", topo, far[_i].kind, far[_i].size_bytes, &through);
    ck_assert_msg(through && time_s < far[_i].most_s, "row %d: %g s", _i, time_s);
    ccl_topology_destroy(topo);
}
END_TEST

/* The schedule without switches is not asked under protocols by whose bytes its busiest link takes
   longer than those through switches. At most 3 % above what there are. */
START_TEST(test_protocols) {
    bool through;
    ccl_work_t work =
        work_alone("greedy", "dgx-b300*2", CCL_ALLGATHER, 0x1p30, nightly(), &through);
    ck_assert(through);
    ck_assert_msg(work.events <= 2130000 && work.runs <= 22, "%llu events, %llu runs",
                  (unsigned long long)work.events, (unsigned long long)work.runs);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("synth.through");
    TCase *tcase = tcase_create("through");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, test_trees, 0, (int)CCL_ARRAY_LEN(cases));
    tcase_add_loop_test(tcase, test_faster, 0, SANITIZED ? 1 : 4);
    tcase_add_loop_test(tcase, test_alone, 0, SANITIZED ? 2 : (int)CCL_ARRAY_LEN(alone));
    tcase_add_loop_test(tcase, test_pipelines, 0, 2);
    if (!SANITIZED) {
        tcase_add_test(tcase, test_protocols);
        tcase_add_loop_test(tcase, test_far, 0, (int)CCL_ARRAY_LEN(far));
        tcase_add_loop_test(tcase, test_large, 0, (int)CCL_ARRAY_LEN(large));
    }
    TCase *own = tcase_create("own");
    tcase_set_timeout(own, 0);
    tcase_add_loop_test(own, test_own_way, 0, nightly() ? 2 : 1);
    suite_add_tcase(suite, tcase);
    suite_add_tcase(suite, own);
    return run_suite(suite);
}
