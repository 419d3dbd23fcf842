/* The total order of operations, and numbers of keys. */
#include "lower/lower_i.h"
#include "tests/synth/common.h"

/* In a step the first transfer of every connection comes first, sends before receives. */
START_TEST(test_order) {
    static const ccl_transfer_t transfers[] = {
        {.src = 0, .dst = 1, .chunk = 0}, {.src = 0, .dst = 1, .chunk = 1},
        {.src = 1, .dst = 2, .chunk = 2}, {.src = 2, .dst = 1, .chunk = 4},
        {.src = 2, .dst = 1, .chunk = 5}, {.src = 0, .dst = 1, .chunk = 1, .step = 1}};
    static const uint32_t want[] = {0, 4, 6, 1, 5, 7, 2, 8, 3, 9, 10, 11};
    ccl_collective_t *coll = NULL;
    ccl_schedule_t *schedule = NULL;
    ccl_i_lowering_t l;
    const ccl_i_lower_how_t how = {.proto = "Simple", .slots = 2};
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_int_eq(ccl_collective_create(CCL_ALLGATHER, 3, 2, 0, &coll, NULL), CCL_OK);
    ccl_schedule_builder_t *b = ccl_schedule_builder_create("two of one", coll);
    for (uint32_t i = 0; i < CCL_ARRAY_LEN(transfers); i++)
        ccl_schedule_builder_add(b, transfers[i]);
    ck_assert_int_eq(ccl_schedule_builder_finish(b, &schedule, NULL), CCL_OK);
    ck_assert_msg(ccl_i_lowering_begin(&l, NULL, schedule, &how, &err) == CCL_OK, "%s", err.text);
    for (uint32_t i = 0; i < CCL_ARRAY_LEN(want); i++)
        ck_assert_msg(l.by_place[i] == want[i], "place %u: operation %u", i, l.by_place[i]);
    ccl_i_lowering_end(&l);
    ccl_schedule_destroy(schedule);
}
END_TEST

/* As many as make the hash grow several times, each key twice. */
START_TEST(test_numbers) {
    enum { N = 5000 };
    ccl_i_numbering_t numbering = {0};
    for (uint32_t i = 0; i < 2 * N; i++) {
        uint32_t number = CCL_NONE;
        ck_assert(ccl_i_numbering_add(&numbering, (uint64_t)(i % N) << 32 | 7, &number));
        ck_assert_uint_eq(number, i % N);
    }
    ck_assert_uint_eq(numbering.n, N);
    ck_assert_uint_eq(numbering.keys[3], (uint64_t)3 << 32 | 7);
    ccl_i_numbering_fini(&numbering);
}
END_TEST

RUN_TESTS(test_order, test_numbers)
