#include "base/base.h"

#include "tests/base/main.h"

enum { MEMBERS = 200 };

/* Random joins, beside labels that are all written anew: the lowest member names a set. */
START_TEST(like_labels) {
    uint32_t set[MEMBERS], label[MEMBERS];
    ccl_rng_t rng;
    ccl_rng_init(&rng, 7);
    for (uint32_t i = 0; i < MEMBERS; i++)
        set[i] = label[i] = i;
    for (uint32_t joins = 0; joins < 2 * MEMBERS; joins++) {
        uint32_t a = ccl_rng_below(&rng, MEMBERS), b = ccl_rng_below(&rng, MEMBERS);
        uint32_t low = label[a] < label[b] ? label[a] : label[b];
        uint32_t high = label[a] < label[b] ? label[b] : label[a];
        ccl_set_join(set, a, b);
        for (uint32_t i = 0; i < MEMBERS; i++)
            label[i] = label[i] == high ? low : label[i];
        for (uint32_t i = joins % 3; i < MEMBERS; i += 3)
            ck_assert_uint_eq(ccl_set_find(set, i), label[i]);
    }
}
END_TEST

RUN_TESTS(like_labels)
