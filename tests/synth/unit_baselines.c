/* What makes each baseline what it is: steps, volumes, trees, relays, refusals. */
#include "common.h"

static ccl_schedule_t *synth(const char *name, const char *spec, ccl_collective_kind_t kind,
                             uint32_t root, uint32_t channels) {
    ccl_topology_t *topo = topology(spec);
    ccl_collective_t *want = collective(kind, topo->nranks, root);
    ccl_schedule_t *schedule = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    options.channels = channels;
    ccl_status_t status = ccl_synthesize(NULL, name, topo, NULL, want, &options, &schedule, &err);
    ck_assert_msg(status == CCL_OK, "%s %s: %s", name, spec, err.text);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
    return schedule;
}

static const struct {
    const char *name, *spec;
    ccl_collective_kind_t kind;
    uint32_t steps, transfers;
    const char *why;
} sizes[] = {
    {"ring", "servers:1 gpus:8 nvswitch=1GB/s,1us", CCL_ALLGATHER, 7, 56, "n - 1 steps"},
    {"ring", "servers:1 gpus:8 nvswitch=1GB/s,1us", CCL_ALLREDUCE, 14, 112, "2 (n - 1) steps"},
    {"ring", "servers:1 gpus:8 nvswitch=1GB/s,1us", CCL_BROADCAST, 7, 7, "a chain"},
    {"ring", "servers:1 gpus:8 nvswitch=1GB/s,1us", CCL_GATHER, 7, 28, "chunks pass on"},
    {"recursive", "servers:1 gpus:8 nvswitch=1GB/s,1us", CCL_ALLGATHER, 3, 56, "log2 8"},
    {"recursive", "servers:1 gpus:7 nvswitch=1GB/s,1us", CCL_ALLGATHER, 3, 42, "dissemination"},
    {"recursive", "servers:3 gpus:4 nvswitch=1GB/s,1us nics:4x1GB/s,1us", CCL_ALLGATHER, 4, 132,
     "2 steps over 3 servers, 2 inside"},
    {"recursive", "servers:1 gpus:8 nvswitch=1GB/s,1us", CCL_ALLREDUCE, 6, 112, "halve and double"},
    {"direct", "servers:1 gpus:8 nvswitch=1GB/s,1us", CCL_ALLREDUCE, 2, 112, "reduce, spread"},
    {"direct", "servers:1 gpus:8 nvswitch=1GB/s,1us", CCL_ALLTOALL, 1, 56, "all at once"},
    {"pairwise", "servers:1 gpus:8 nvswitch=1GB/s,1us", CCL_ALLTOALL, 7, 56, "n - 1 rounds"},
    {"pairwise", "servers:1 gpus:5 nvswitch=1GB/s,1us", CCL_ALLTOALL, 4, 20, "shifts"},
    {"pxn", "servers:2 gpus:4 nvswitch=1GB/s,1us nics:4x1GB/s,1us fabric=rail", CCL_ALLTOALL, 2,
     24 + 32 + 24, "inside 24; 32 cross, 24 of them after a relay"},
    {"hm", "servers:2 gpus:4 nvswitch=1GB/s,1us nics:4x1GB/s,1us fabric=rail", CCL_ALLGATHER, 2, 56,
     "own chunk everywhere, then what came in"},
    {"hm", "servers:4 gpus:2 nvswitch=1GB/s,1us nics:2x1GB/s,1us fabric=rail", CCL_ALLREDUCE, 8,
     112, "mesh, 3 hops of a ring; back"},
};

START_TEST(test_sizes) {
    ccl_schedule_t *s = synth(sizes[_i].name, sizes[_i].spec, sizes[_i].kind, 0, 1);
    ck_assert_msg(s->nsteps == sizes[_i].steps, "%s %s: %u steps", sizes[_i].name, sizes[_i].why,
                  s->nsteps);
    ck_assert_msg(s->ntransfers == sizes[_i].transfers, "%s %s: %u transfers", sizes[_i].name,
                  sizes[_i].why, s->ntransfers);
    ccl_schedule_destroy(s);
}
END_TEST

/* What takes too many thread blocks with the channels that fill the links takes fewer channels. */
START_TEST(test_room) {
    static const struct {
        const char *name, *cluster;
        uint32_t room;
    } rows[] = {{"tree", "resccl-topo2", 108}, {"recursive", "heteccl-h20-4+8", 78}};
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_topology_t *topo = topology(rows[i].cluster);
        ccl_collective_t *want = collective(CCL_ALLREDUCE, topo->nranks, 0);
        ccl_error_t err = CCL_ERROR_INIT;
        ccl_schedule_t *schedule = NULL;
        ccl_program_t *program = NULL;
        ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
        uint32_t most = 0;
        lower.topo = topo;
        ccl_status_t status =
            ccl_synthesize(NULL, rows[i].name, topo, NULL, want, NULL, &schedule, &err);
        if (status == CCL_OK)
            status = ccl_lower(NULL, schedule, &lower, &program, &err);
        ck_assert_msg(status == CCL_OK, "%s: %s", rows[i].name, err.text);
        for (uint32_t r = 0; r < topo->nranks; r++) {
            uint32_t blocks = ccl_program_rank_blocks(program, r, CCL_GRANULARITY_ALGORITHM);
            most = blocks > most ? blocks : most;
        }
        ck_assert_uint_le(most, rows[i].room);
        ck_assert_uint_gt(most, rows[i].room * 3 / 4); /* and no fewer than it must */
        ccl_program_destroy(program);
        ccl_schedule_destroy(schedule);
        ccl_collective_destroy(want);
        ccl_topology_destroy(topo);
    }
}
END_TEST

START_TEST(test_pairwise_rounds) {
    /* Every rank sends to one rank and receives from one in every round. */
    for (uint32_t n = 5; n <= 8; n += 3) {
        char spec[80];
        snprintf(spec, sizeof spec, "servers:1 gpus:%u nvswitch=1GB/s,1us", n);
        ccl_schedule_t *s = synth("pairwise", spec, CCL_ALLTOALL, 0, 1);
        uint32_t sends[8][8] = {{0}}, receives[8][8] = {{0}};
        for (uint32_t i = 0; i < s->ntransfers; i++) {
            const ccl_transfer_t *t = &s->transfers[i];
            ck_assert_uint_eq(sends[t->step][t->src]++, 0);
            ck_assert_uint_eq(receives[t->step][t->dst]++, 0);
        }
        ccl_schedule_destroy(s);
    }
}
END_TEST

START_TEST(test_double_tree) {
    /* Nodes of one GPU: whoever passes data on in one tree is a leaf of the other. */
    for (uint32_t n = 2; n <= 17; n++) {
        char spec[100];
        snprintf(spec, sizeof spec, "servers:%u gpus:1 nvswitch=1GB/s,1us nics:1x1GB/s,1us", n);
        ccl_schedule_t *s = synth("tree", spec, CCL_ALLREDUCE, 0, 2);
        uint32_t children[2][17] = {{0}}, depth = 0;
        for (uint32_t i = 0; i < s->ntransfers; i++) {
            const ccl_transfer_t *t = &s->transfers[i];
            if (t->reduce)
                children[t->channel][t->dst]++;
        }
        while ((1u << depth) < n)
            depth++;
        for (uint32_t r = 0; r < n; r++) {
            uint32_t a = children[0][r], b = children[1][r];
            ck_assert_uint_le(a, 2);
            ck_assert_uint_le(b, 2);
            /* A tree's root has one child; it may be an inner node of the other tree. */
            ck_assert_msg(a <= 1 || b <= 1, "rank %u of %u has %u and %u children", r, n, a, b);
        }
        ck_assert_uint_le(s->nsteps, 2 * (depth + 1));
        ccl_schedule_destroy(s);
    }
}
END_TEST

/* Rails that are alike carry alike, NCCL's rule; where it would leave a NIC busier (14), another.
 */
START_TEST(test_tree_rails) {
    static const struct { uint32_t nics, channels, most; } rows[] = {{4, 8, CCL_NONE}, {2, 6, 12}};
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        char spec[100];
        uint32_t crossings[16] = {0};
        snprintf(spec, sizeof spec, "servers:4 gpus:4 nvswitch=300GB/s,1us nics:%ux25GB/s,2us",
                 rows[i].nics);
        ccl_schedule_t *s = synth("tree", spec, CCL_ALLREDUCE, 0, rows[i].channels);
        for (uint32_t k = 0; k < s->ntransfers; k++) {
            const ccl_transfer_t *t = &s->transfers[k];
            crossings[t->src] += t->src / 4 != t->dst / 4;
            crossings[t->dst] += t->src / 4 != t->dst / 4;
        }
        for (uint32_t r = 0; r < 16; r++) {
            uint32_t first = crossings[r / 4 * 4];
            ck_assert_msg(rows[i].most == CCL_NONE ? crossings[r] == first
                                                   : crossings[r] <= rows[i].most,
                          "%s: GPU %u: %u, the first %u", spec, r, crossings[r], first);
        }
        ccl_schedule_destroy(s);
    }
}
END_TEST

START_TEST(test_rails) {
    /* On rails pxn and hm send between servers only at the same place. */
    static const char *const names[] = {"pxn", "hm"};
    static const ccl_collective_kind_t kinds[] = {CCL_ALLTOALL, CCL_ALLGATHER};
    for (uint32_t i = 0; i < 2; i++) {
        ccl_schedule_t *s =
            synth(names[i], "servers:3 gpus:4 nvswitch=1GB/s,1us nics:4x1GB/s,1us fabric=rail",
                  kinds[i], 0, 1);
        for (uint32_t k = 0; k < s->ntransfers; k++) {
            const ccl_transfer_t *t = &s->transfers[k];
            if (t->src / 4 != t->dst / 4)
                ck_assert_uint_eq(t->src % 4, t->dst % 4);
        }
        ccl_schedule_destroy(s);
    }
}
END_TEST

START_TEST(test_mixed_mesh) {
    /* 4 + 8 GPUs: chunks of the small server land on all GPUs of the big one. */
    ccl_schedule_t *s = synth("hm", "heteccl-h20-4+8", CCL_ALLGATHER, 0, 0);
    uint32_t landed[12] = {0};
    for (uint32_t i = 0; i < s->ntransfers; i++) {
        const ccl_transfer_t *t = &s->transfers[i];
        if (t->src < 4 && t->dst >= 4)
            landed[t->dst]++;
        if (t->src >= 4 && t->dst < 4)
            landed[t->dst]++;
    }
    for (uint32_t r = 1; r < 12; r++)
        ck_assert_uint_eq(landed[r], landed[r < 4 ? 0 : 4]);
    ck_assert_uint_gt(landed[4], 0);
    ccl_schedule_destroy(s);
}
END_TEST

/* Every rank takes chunks in turns of its own: that is faster than by number, and GPUs that are alike
   are simulated once. Where they would not be faster, chunks go by number. */
START_TEST(test_turns) {
    static const struct {
        const char *spec;
        ccl_collective_kind_t kind;
        bool listed;
        double most; /* of the time by number; measured 0.61 to 0.83 */
        uint32_t events;
    } cases[] = {{"dgx-h100*4", CCL_ALLREDUCE, true, 0.85, 800},
                 {"dgx-h100*4", CCL_ALLGATHER, true, 0.85, 800},
                 {"dgx-h100*4", CCL_REDUCESCATTER, true, 0.85, 800},
                 {"dgx-h100*4", CCL_ALLTOALL, true, 0.9, 5000},
                 {"dgx-h100*6", CCL_ALLGATHER, true, 0.85, 800},
                 {"dgx-h100*6", CCL_ALLREDUCE, false, 1, UINT32_MAX},
                 {"heteccl-h20-4+8", CCL_ALLTOALL, false, 1, UINT32_MAX}};
    for (size_t i = 0; i < CCL_ARRAY_LEN(cases); i++) {
        ccl_topology_t *topo = topology(cases[i].spec);
        ccl_schedule_t *s = synthesized("recursive", topo, cases[i].kind, NULL);
        ccl_program_t *program = NULL;
        ccl_sim_result_t *run = NULL;
        ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
        sim.size_bytes = 64 << 20;
        ck_assert_int_eq(s->listed, cases[i].listed);
        ck_assert_int_eq(ccl_lower(NULL, s, NULL, &program, NULL), CCL_OK);
        ck_assert_int_eq(ccl_sim_program(NULL, topo, NULL, program, &sim, &run, NULL), CCL_OK);
        ck_assert_msg(run->events <= cases[i].events, "%zu: %llu events", i,
                      (unsigned long long)run->events);
        s->listed = false;
        double by_number_s = lowered_s(topo, s, NULL, &sim);
        ck_assert_msg(run->time_s <= cases[i].most * by_number_s, "%zu: %.3f of the time", i,
                      run->time_s / by_number_s);
        ccl_sim_result_destroy(run);
        ccl_program_destroy(program);
        ccl_schedule_destroy(s);
        ccl_topology_destroy(topo);
    }
}
END_TEST

START_TEST(test_relays) {
    /* Across rails there is no route: direct relays and says so in its transfers. */
    const char *spec = "servers:2 gpus:2 nvswitch=1GB/s,1us nics:2x1GB/s,1us fabric=rail";
    ccl_topology_t *topo = topology(spec);
    ccl_routes_t *routes = ccl_routes_create(topo);
    ccl_schedule_t *s = synth("direct", spec, CCL_ALLTOALL, 0, 1);
    if (ccl_routes_width(routes, 0, 3) == 0)
        ck_assert_uint_gt(s->ntransfers, 12);
    else
        ck_assert_uint_eq(s->ntransfers, 12);
    ccl_schedule_destroy(s);
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
}
END_TEST

static const struct {
    const char *name, *spec;
    ccl_collective_kind_t kind;
    const char *text;
} refusals[] = {
    {"ring", "servers:1 gpus:4 nvswitch=1GB/s,1us", CCL_ALLTOALL, "use direct"},
    {"tree", "servers:1 gpus:4 nvswitch=1GB/s,1us", CCL_ALLGATHER, "same data"},
    {"pairwise", "servers:1 gpus:4 nvswitch=1GB/s,1us", CCL_BROADCAST, "no pairs"},
    {"pxn", "servers:1 gpus:4 nvswitch=1GB/s,1us", CCL_ALLTOALL, "one server"},
    {"hm", "servers:1 gpus:4 nvswitch=1GB/s,1us", CCL_ALLGATHER, "one server"},
    {"recursive", "servers:1 gpus:4 nvswitch=1GB/s,1us", CCL_SENDRECV, "one peer"},
    {"rnig", "servers:1 gpus:4 nvswitch=1GB/s,1us", CCL_ALLGATHER, "did you mean 'ring'"},
};

START_TEST(test_refusals) {
    ccl_topology_t *topo = topology(refusals[_i].spec);
    ccl_collective_t *want = collective(refusals[_i].kind, topo->nranks, 0);
    ccl_schedule_t *schedule = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_int_ne(
        ccl_synthesize(NULL, refusals[_i].name, topo, NULL, want, NULL, &schedule, &err), CCL_OK);
    ck_assert_msg(strstr(err.text, refusals[_i].text) != NULL, "%s", err.text);
    ck_assert_ptr_null(schedule);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("unit.synth.baselines");
    TCase *tcase = tcase_create("baselines");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, test_sizes, 0, (int)CCL_ARRAY_LEN(sizes));
    tcase_add_test(tcase, test_pairwise_rounds);
    tcase_add_test(tcase, test_room);
    tcase_add_test(tcase, test_double_tree);
    tcase_add_test(tcase, test_tree_rails);
    tcase_add_test(tcase, test_rails);
    tcase_add_test(tcase, test_mixed_mesh);
    tcase_add_test(tcase, test_turns);
    tcase_add_test(tcase, test_relays);
    tcase_add_loop_test(tcase, test_refusals, 0, (int)CCL_ARRAY_LEN(refusals));
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
