/* The deadlock check: what blocks at which granularity, the cycle it names, and that it is quick.
 */
#include "schedule/schedule.h"
#include "tests/base/main.h"

#include <stdlib.h>
#include <string.h>

static ccl_step_t step(ccl_primitive_t type, uint32_t dep_tb, uint32_t dep_step, uint16_t stage) {
    return (ccl_step_t){.type = (uint8_t)type,
                        .count = type != CCL_PRIM_NOP,
                        .dep_tb = dep_tb,
                        .dep_step = dep_step,
                        .stage = stage};
}

static ccl_program_builder_t *begin(uint32_t n) {
    ccl_collective_t *coll = NULL;
    ck_assert_int_eq(ccl_collective_create(CCL_ALLGATHER, n, 1, 0, &coll, NULL), CCL_OK);
    return ccl_program_builder_create("t", coll, n, "Simple");
}

static ccl_program_t *finish(ccl_program_builder_t *b) {
    ccl_program_t *p = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_msg(ccl_program_builder_finish(b, &p, &err) == CCL_OK, "%s", err.text);
    return p;
}

/** Ring AllGather; one block per rank that does both, or two. `staged`: the first send is stage 0.
 */
static ccl_program_t *ring(uint32_t n, bool one_block, bool staged) {
    ccl_program_builder_t *b = begin(n);
    for (uint32_t r = 0; r < n; r++) {
        uint32_t next = (r + 1) % n, prev = (r + n - 1) % n;
        uint32_t out = ccl_program_builder_tb(b, r, next, one_block ? prev : CCL_NONE, 0);
        uint32_t in = one_block ? out : ccl_program_builder_tb(b, r, CCL_NONE, prev, 0);
        ccl_program_builder_step(b, out, step(CCL_PRIM_S, CCL_NONE, CCL_NONE, 0));
        for (uint32_t i = 1; i < n; i++) {
            uint16_t stage = staged ? (uint16_t)i : 0;
            if (one_block) {
                ccl_primitive_t type = i + 1 < n ? CCL_PRIM_RCS : CCL_PRIM_R;
                ccl_program_builder_step(b, out, step(type, CCL_NONE, CCL_NONE, stage));
                continue;
            }
            ccl_program_builder_step(b, in, step(CCL_PRIM_R, CCL_NONE, CCL_NONE, 0));
            if (i + 1 < n)
                ccl_program_builder_step(b, out, step(CCL_PRIM_S, 1, i - 1, 0));
        }
    }
    return finish(b);
}

/** Broadcast down a chain of fused steps. */
static ccl_program_t *chain(uint32_t n) {
    ccl_program_builder_t *b = begin(n);
    for (uint32_t r = 0; r < n; r++) {
        uint32_t t =
            ccl_program_builder_tb(b, r, r + 1 < n ? r + 1 : CCL_NONE, r ? r - 1 : CCL_NONE, 0);
        ccl_program_builder_step(b, t,
                                 step(!r          ? CCL_PRIM_S
                                      : r + 1 < n ? CCL_PRIM_RCS
                                                  : CCL_PRIM_R,
                                      CCL_NONE, CCL_NONE, 0));
    }
    return finish(b);
}

static ccl_deadlock_t run(const ccl_program_t *p, ccl_granularity_t g, uint32_t batches,
                          uint32_t slots, uint32_t slices) {
    uint32_t *step_slices = malloc((p->nsteps + 1) * sizeof *step_slices);
    for (uint32_t s = 0; s < p->nsteps; s++)
        step_slices[s] = slices;
    ccl_blocking_t how = {
        .granularity = g, .batches = batches, .slots = slots, .step_slices = step_slices};
    ccl_deadlock_t got;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_msg(ccl_program_deadlock(NULL, p, &how, &got, &err) == CCL_OK, "%s", err.text);
    free(step_slices);
    return got;
}

static const struct row {
    const char *why;
    uint32_t ranks;
    bool one_block, staged;
    ccl_granularity_t granularity;
    uint32_t batches, slots, slices, stuck, at_step;
} rows[] = {
    {"any ring, batch after batch", 8, true, false, CCL_GRANULARITY_ALGORITHM, 100, 2, 1, 0, 0},
    {"one slot: a fused step frees its slot only when it has got one", 8, true, false,
     CCL_GRANULARITY_ALGORITHM, 100, 1, 1, 8, 1},
    {"all send two slices into one slot first", 8, true, false, CCL_GRANULARITY_ALGORITHM, 100, 1,
     2, 8, 0},
    {"four slices into five slots", 8, true, false, CCL_GRANULARITY_ALGORITHM, 100, 5, 4, 0, 0},
    {"task level: fewer batches than slots", 8, true, false, CCL_GRANULARITY_TASK, 7, 8, 1, 0, 0},
    {"task level: full FIFOs", 8, true, false, CCL_GRANULARITY_TASK, 8, 8, 1, 8, 1},
    {"task level: one batch more than slots", 8, true, false, CCL_GRANULARITY_TASK, 9, 8, 1, 8, 0},
    {"task level: slices count", 8, true, false, CCL_GRANULARITY_TASK, 4, 8, 3, 8, 0},
    {"task level with a block for each direction", 8, false, false, CCL_GRANULARITY_TASK, 4096, 2,
     1, 0, 0},
    {"one slot is enough then", 8, false, false, CCL_GRANULARITY_ALGORITHM, 9, 1, 3, 0, 0},
    {"stages have FIFOs of their own: a fused step of stage 1 meets no send of stage 0", 4, true,
     true, CCL_GRANULARITY_STAGE, 3, 2, 1, 12, 1},
};

START_TEST(rings) {
    const struct row *row = &rows[_i];
    ccl_program_t *p = ring(row->ranks, row->one_block, row->staged);
    ccl_deadlock_t got = run(p, row->granularity, row->batches, row->slots, row->slices);
    ck_assert_msg(got.stuck == row->stuck, "%s: %u stuck", row->why, got.stuck);
    ck_assert_msg((got.nwaits > 0) == (row->stuck > 0), "%s", row->why);
    if (row->stuck) { /* the cycle goes round the ring, each waiting for the same */
        ck_assert_uint_eq(got.nwaits, row->ranks);
        for (uint32_t i = 0; i < got.nwaits; i++) {
            uint32_t n = row->ranks, to = row->staged ? n - 1 : 1;
            ck_assert_int_eq(got.waits[i].wait, row->staged ? CCL_WAIT_DATA : CCL_WAIT_SLOT);
            ck_assert_uint_eq(got.waits[i].on_rank, (got.waits[i].rank + to) % n);
            ck_assert_msg(got.waits[i].step == row->at_step, "%s: step %u", row->why,
                          got.waits[i].step);
        }
        bool first = row->at_step == 0, task = row->granularity == CCL_GRANULARITY_TASK;
        ck_assert_uint_eq(got.waits[0].batch, first && task ? row->slots / row->slices : 0);
        ck_assert_uint_eq(got.waits[0].slice, first ? row->slots % row->slices : 0);
    }
    ccl_program_destroy(p);
}
END_TEST

START_TEST(names_who_waits_for_nobody) {
    ccl_program_builder_t *b = begin(2);
    uint32_t t = ccl_program_builder_tb(b, 0, CCL_NONE, 1, 0);
    ccl_program_builder_step(b, t, step(CCL_PRIM_R, CCL_NONE, CCL_NONE, 0));
    uint32_t u = ccl_program_builder_tb(b, 0, CCL_NONE, CCL_NONE, 0);
    ccl_program_builder_step(b, u, step(CCL_PRIM_NOP, 0, 0, 0));
    ccl_program_t *p = finish(b);
    ccl_deadlock_t got = run(p, CCL_GRANULARITY_ALGORITHM, 1, 1, 1);
    ck_assert_uint_eq(got.stuck, 2);
    ck_assert_uint_eq(got.nwaits, 1);
    ck_assert_int_eq(got.waits[0].wait, CCL_WAIT_DATA);
    ck_assert_uint_eq(got.waits[0].tb, 0);
    ck_assert_uint_eq(got.waits[0].on_rank, CCL_NONE);
    ccl_program_destroy(p);
}
END_TEST

START_TEST(dependencies_and_stages_in_a_cycle) {
    /* Two blocks that wait for each other. */
    ccl_program_builder_t *b = begin(2);
    uint32_t t = ccl_program_builder_tb(b, 0, CCL_NONE, CCL_NONE, 0);
    uint32_t u = ccl_program_builder_tb(b, 0, CCL_NONE, CCL_NONE, 0);
    ccl_program_builder_step(b, t, step(CCL_PRIM_NOP, 1, 0, 0));
    ccl_program_builder_step(b, u, step(CCL_PRIM_NOP, 0, 0, 0));
    ccl_program_t *p = finish(b);
    ccl_deadlock_t got = run(p, CCL_GRANULARITY_TASK, 3, 1, 1);
    ck_assert_uint_eq(got.nwaits, 2);
    ck_assert_int_eq(got.waits[0].wait, CCL_WAIT_DEP);
    ccl_program_destroy(p);
    /* Stage 0 of block 0 waits for stage 1 of block 1, whose stage 0 waits for stage 1 of block 0.
     */
    b = begin(2);
    t = ccl_program_builder_tb(b, 0, CCL_NONE, CCL_NONE, 0);
    u = ccl_program_builder_tb(b, 0, CCL_NONE, CCL_NONE, 0);
    ccl_program_builder_step(b, t, step(CCL_PRIM_NOP, 1, 1, 0));
    ccl_program_builder_step(b, t, step(CCL_PRIM_NOP, CCL_NONE, CCL_NONE, 1));
    ccl_program_builder_step(b, u, step(CCL_PRIM_NOP, 0, 1, 0));
    ccl_program_builder_step(b, u, step(CCL_PRIM_NOP, CCL_NONE, CCL_NONE, 1));
    p = finish(b);
    got = run(p, CCL_GRANULARITY_STAGE, 3, 1, 1);
    ck_assert_uint_eq(got.stuck, 4);
    ck_assert_uint_eq(got.nwaits, 4);
    uint32_t stage_waits = 0;
    for (uint32_t i = 0; i < 4; i++)
        stage_waits += got.waits[i].wait == CCL_WAIT_STAGE;
    ck_assert_uint_eq(stage_waits, 2);
    ck_assert_str_eq(ccl_wait_name(CCL_WAIT_STAGE), "stage");
    ccl_program_destroy(p);
}
END_TEST

START_TEST(many_batches_cost_little) {
    /* A chain passes a million micro-batches in one go, as does a ring of two blocks per rank. */
    double start_s = ccl_now_s();
    ccl_program_t *p = chain(64);
    ck_assert_uint_eq(run(p, CCL_GRANULARITY_TASK, 1000000, 2, 3).stuck, 0);
    ccl_program_destroy(p);
    p = ring(64, false, false);
    ck_assert_uint_eq(run(p, CCL_GRANULARITY_TASK, 1000000, 2, 1).stuck, 0);
    ccl_program_destroy(p);
    ck_assert_double_lt(ccl_now_s() - start_s,
                        2.0); /* 0.01 s; slice by slice it would be minutes */
}
END_TEST

START_TEST(bad_calls) {
    ccl_program_t *p = chain(3);
    ccl_blocking_t how = {.batches = 0, .slots = 1};
    ccl_deadlock_t got;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_int_eq(ccl_program_deadlock(NULL, p, &how, &got, &err), CCL_ERR_USAGE);
    ccl_program_destroy(p);
    ccl_program_builder_t *b = begin(2);
    for (uint32_t i = 0; i < 2; i++)
        ccl_program_builder_step(b, ccl_program_builder_tb(b, 0, 1, CCL_NONE, 3),
                                 step(CCL_PRIM_S, CCL_NONE, CCL_NONE, 0));
    p = finish(b);
    how.batches = 1;
    ccl_error_clear(&err);
    ck_assert_int_eq(ccl_program_deadlock(NULL, p, &how, &got, &err), CCL_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(err.text, "blocks 0 and 1 both send to rank 1 on channel 3"));
    ccl_program_destroy(p);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("schedule.deadlock");
    TCase *tc = tcase_create("all");
    tcase_add_loop_test(tc, rings, 0, (int)CCL_ARRAY_LEN(rows));
    tcase_add_test(tc, names_who_waits_for_nobody);
    tcase_add_test(tc, dependencies_and_stages_in_a_cycle);
    tcase_add_test(tc, many_batches_cost_little);
    tcase_add_test(tc, bad_calls);
    tcase_set_timeout(tc, 0);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
