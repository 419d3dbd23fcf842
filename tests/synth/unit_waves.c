/*
 * AllReduces over servers whose switches add, in waves: what goes from one GPU to another in a wave
 * is one message, in the first and last waves less than between; and what that gains.
 */
#include "common.h"
#include "synth/switch/through.h"

#include <string.h>

#define TWO "servers:2 gpus:4 nvswitch=100GB/s,nvls nics:4x10GB/s fabric=rail"

/* Sums of each server to its first GPU, of the other to rank 0, and back; `cuts` chunks alike. */
static ccl_schedule_t *star(uint32_t cuts) {
    static const uint32_t ends[14][2] = {{1, 0}, {2, 0}, {3, 0}, {5, 4}, {6, 4}, {7, 4}, {4, 0},
                                         {0, 4}, {0, 1}, {0, 2}, {0, 3}, {4, 5}, {4, 6}, {4, 7}};
    ccl_collective_t *coll = NULL;
    ccl_schedule_t *made = NULL;
    MUST(ccl_collective_create(CCL_ALLREDUCE, 8, cuts, 0, &coll, e));
    ccl_schedule_builder_t *b = ccl_schedule_builder_create("star", coll);
    uint32_t step = 0, nchunks = coll->nchunks;
    for (uint32_t c = 0; c < nchunks; c++)
        for (uint32_t i = 0; i < 14; i++)
            ccl_schedule_builder_add(b, (ccl_transfer_t){.src = ends[i][0],
                                                         .dst = ends[i][1],
                                                         .chunk = c,
                                                         .step = step++,
                                                         .channel = (uint16_t)(c % cuts),
                                                         .reduce = i < 7});
    MUST(ccl_schedule_builder_finish(b, &made, e));
    return made;
}

static ccl_program_t *lowered(const ccl_schedule_t *s) {
    ccl_verdict_t *verdict = calloc(1, sizeof *verdict);
    ccl_program_t *program = NULL;
    MUST(ccl_schedule_verify(NULL, s, verdict, e));
    ck_assert(verdict->valid);
    free(verdict);
    MUST(ccl_lower(NULL, s, NULL, &program, e));
    check_program(program, 0, "waves");
    return program;
}

/* Chunks that a rank sends at a time to rank `to`. */
static uint32_t counts_of(const ccl_program_t *p, uint32_t rank, uint32_t to, uint32_t *out) {
    uint32_t n = 0;
    for (uint32_t t = 0; t < p->ntbs; t++) {
        const ccl_tb_t *tb = &p->tbs[t];
        for (uint32_t k = 0; tb->rank == rank && tb->send_peer == to && k < tb->nsteps; k++)
            if (p->steps[tb->first_step + k].type == CCL_PRIM_S)
                out[n++] = p->steps[tb->first_step + k].count;
    }
    return n;
}

START_TEST(test_messages) {
    static const uint32_t most[] = {2, 2, 4, 2, 2, 2, 2};
    ccl_i_through_way_t way = {.channels = 8, .parts = 2, .in_turn = true};
    ccl_topology_t *topo = topology(TWO);
    ccl_schedule_t *plain = star(3), *whole = NULL, *made = NULL;
    uint32_t counts[64];
    way.waves = (ccl_i_through_waves_t){8, 2, 4, 4};
    MUST(ccl_i_through_uncut(plain, &whole, e));
    ck_assert_uint_eq(whole->coll->nchunks * 3, plain->coll->nchunks); /* all go the same way */
    ck_assert_uint_eq(whole->nsteps, 4);
    MUST(ccl_i_through_switches(topo, NULL, whole, &way, &made, e));
    ck_assert_uint_eq(made->ntransfers, 16 * 6);
    ccl_program_t *program = lowered(made);
    ck_assert_uint_eq(counts_of(program, 4, 0, counts), CCL_ARRAY_LEN(most));
    for (uint32_t k = 0; k < CCL_ARRAY_LEN(most); k++)
        ck_assert_uint_eq(counts[k], most[k]);
    ccl_program_destroy(program);
    made->joined = false;
    program = lowered(made);
    ck_assert_uint_eq(counts_of(program, 4, 0, counts), 16);
    ccl_program_destroy(program);
    ccl_schedule_destroy(made);
    ccl_schedule_destroy(whole);
    ccl_schedule_destroy(plain);
    ccl_topology_destroy(topo);
}
END_TEST

/* Rank 0 sends two chunks to rank 1, as one message. In the second row it receives the first from
 * rank 2 in the same step, which would wait for the second to be sent as well: then apart. */
START_TEST(test_crossed) {
    ccl_collective_t *coll = NULL;
    ccl_schedule_t *made = NULL;
    const uint32_t others[3] = {0, 2, 3};
    uint32_t counts[8];
    MUST(ccl_collective_create(CCL_ALLREDUCE, 4, 2, 0, &coll, e));
    ccl_schedule_builder_t *b = ccl_schedule_builder_create("crossed", coll);
    for (uint32_t c = 0; c < 2; c++) {
        for (uint32_t k = 0; k < 3; k++)
            ccl_schedule_builder_add(
                b, (ccl_transfer_t){
                       .src = others[k], .dst = 1, .chunk = c, .step = k, .reduce = true});
        ccl_schedule_builder_add(
            b,
            (ccl_transfer_t){
                .src = 1, .dst = ccl_schedule_builder_group(b, others, 3), .chunk = c, .step = 3});
    }
    if (_i == 1)
        ccl_schedule_builder_add(b, (ccl_transfer_t){.src = 2, .dst = 0, .reduce = true});
    MUST(ccl_schedule_builder_finish(b, &made, e));
    made->joined = true;
    ccl_program_t *program = lowered(made);
    ck_assert_uint_eq(counts_of(program, 0, 1, counts), 1u + (uint32_t)_i);
    ck_assert_uint_eq(counts[0], 2u - (uint32_t)_i);
    ccl_program_destroy(program);
    ccl_schedule_destroy(made);
}
END_TEST

/* By `packing`, with the profile that is the default: without waves 1256 and 4586 us. */
START_TEST(test_gain) {
    static const struct {
        double size_bytes, most_s;
    } rows[] = {{0x1p28, 1207e-6}, {0x1p30, 4403e-6}};
    ccl_topology_t *topo = with_profile("dgx-h100*4", NULL);
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    ccl_schedule_t *schedule = NULL;
    ccl_program_t *program = NULL;
    ccl_sim_result_t *run = NULL;
    options.size_bytes = sim.size_bytes = lower.size_bytes = rows[_i].size_bytes;
    lower.topo = topo;
    ccl_collective_t *want = collective(CCL_ALLREDUCE, topo->nranks, 0);
    MUST(ccl_synthesize(NULL, "packing", topo, NULL, want, &options, &schedule, e));
    ck_assert(strstr(schedule->origin, "in waves") != NULL);
    MUST(ccl_lower(NULL, schedule, &lower, &program, e));
    MUST(ccl_sim_program(NULL, topo, NULL, program, &sim, &run, e));
    ck_assert_msg(run->time_s <= rows[_i].most_s, "row %d: %g s", _i, run->time_s);
    ccl_sim_result_destroy(run);
    ccl_program_destroy(program);
    ccl_schedule_destroy(schedule);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}
END_TEST

/* Each rank has the sum of a chunk: its server's by way of the other's rank of its rail. */
static ccl_schedule_t *by_rails(void) {
    ccl_collective_t *coll = NULL;
    ccl_schedule_t *made = NULL;
    MUST(ccl_collective_create(CCL_ALLREDUCE, 8, 8, 0, &coll, e));
    ccl_schedule_builder_t *b = ccl_schedule_builder_create("by rails", coll);
    for (uint32_t root = 0; root < 8; root++)
        for (uint32_t step = 0; step < 4; step++)
            for (uint32_t r = 0; r < 8; r++) {
                uint32_t top = r / 4 * 4 + root % 4; /* of its server, and between them */
                bool far = step == 1 || step == 2, down = step > 1;
                ccl_transfer_t t = {.src = far ? top : r, .dst = far ? root : top, .chunk = root};
                t.step = step;
                t.reduce = !down;
                if (far ? r != top || top == root : r == top)
                    continue;
                if (down) {
                    t.src = far ? root : top;
                    t.dst = far ? top : r;
                }
                ccl_schedule_builder_add(b, t);
            }
    MUST(ccl_schedule_builder_finish(b, &made, e));
    return made;
}

/* Waves of 512 GiB would have more than a million transfers, which take too long: none are tried.
 * With them it is a simulation more. */
START_TEST(test_limit) {
    ccl_topology_t *topo = topology(
        "servers:2 gpus:4 nvswitch=200GB/s,1us,nvls nics:4x50GB/s,2us fabric=rail model=H100");
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_routes_t *routes = ccl_routes_create(topo);
    ccl_schedule_t *schedule = by_rails();
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ccl_work_t work = {0};
    ctx.work = &work;
    options.size_bytes = 0x1p39;
    MUST(ccl_i_through_if_faster(&ctx, ccl_synth_find("packing"), topo, routes, &options, &schedule,
                                 e));
    ck_assert_msg(work.runs <= 28, "%llu simulations", (unsigned long long)work.runs);
    ccl_schedule_destroy(schedule);
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("synth.waves");
    TCase *tcase = tcase_create("waves");
    tcase_set_timeout(tcase, 0);
    tcase_add_test(tcase, test_messages);
    tcase_add_loop_test(tcase, test_crossed, 0, 2);
    if (!SANITIZED) {
        tcase_add_loop_test(tcase, test_gain, 0, 2);
        tcase_add_test(tcase, test_limit);
    }
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
