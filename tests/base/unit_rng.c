#include "base/base.h"

#include "tests/base/main.h"

START_TEST(reference_stream) {
    /* xoshiro256** from the state 1, 2, 3, 4; first outputs as in the authors' reference code:
       rotl(2 * 5, 7) * 9 = 11520, then s[1] = 0, ... */
    ccl_rng_t rng = {{1, 2, 3, 4}};
    static const uint64_t want[] = {11520, 0, 1509978240, UINT64_C(1215971899390074240)};
    for (size_t i = 0; i < CCL_ARRAY_LEN(want); i++)
        ck_assert_uint_eq(ccl_rng_next(&rng), want[i]);
}
END_TEST

START_TEST(seeding) {
    /* splitmix64 of seed 0: its first published outputs */
    ccl_rng_t rng;
    ccl_rng_init(&rng, 0);
    ck_assert_uint_eq(rng.s[0], UINT64_C(0xe220a8397b1dcdaf));
    ck_assert_uint_eq(rng.s[1], UINT64_C(0x6e789e6aa1b965f4));
    ccl_rng_t a, b, c;
    ccl_rng_init(&a, 5);
    ccl_rng_init(&b, 5);
    ccl_rng_init(&c, 6);
    bool differs = false;
    for (int i = 0; i < 100; i++) {
        uint64_t x = ccl_rng_next(&a);
        ck_assert_uint_eq(x, ccl_rng_next(&b));
        differs |= x != ccl_rng_next(&c);
    }
    ck_assert(differs);
}
END_TEST

START_TEST(below_is_in_range_and_even) {
    static const uint32_t bounds[] = {1, 2, 3, 7, 10, 1000, UINT32_C(1) << 31, UINT32_MAX};
    ccl_rng_t rng;
    ccl_rng_init(&rng, 42);
    for (size_t i = 0; i < CCL_ARRAY_LEN(bounds); i++)
        for (int k = 0; k < 2000; k++)
            ck_assert_uint_lt(ccl_rng_below(&rng, bounds[i]), bounds[i]);
    /* 3 * 2^30: taking a remainder of 32 bits would favour the lowest third, 2 to 1 */
    uint32_t n = UINT32_C(3) << 30, low = 0;
    for (int k = 0; k < 30000; k++)
        low += ccl_rng_below(&rng, n) < n / 3;
    ck_assert_msg(low > 9500 && low < 10500, "lowest third drawn %u times of 30000", low);
}
END_TEST

START_TEST(unit_interval) {
    ccl_rng_t rng;
    ccl_rng_init(&rng, 1);
    double sum = 0;
    for (int k = 0; k < 100000; k++) {
        double x = ccl_rng_unit(&rng);
        ck_assert(x >= 0 && x < 1);
        sum += x;
    }
    ck_assert_msg(sum > 49500 && sum < 50500, "mean %g", sum / 100000);
}
END_TEST

RUN_TESTS(reference_stream, seeding, below_is_in_range_and_even, unit_interval)
