/* Heaps made by CCL_HEAP, against a scan of all items; ccl_mix64's published values. */
#include "base/base.h"
#include "tests/base/main.h"

#include <check.h>

enum { MOST = 200 };

typedef struct item {
    uint32_t key, id;
} item_t;

#define ITEM_BEFORE(x_, a_, b_) ((a_).key != (b_).key ? (a_).key < (b_).key : (a_).id < (b_).id)
CCL_HEAP(items, item_t, void *, ITEM_BEFORE, CCL_HEAP_PUT)

/** Members by number; keys and places lie beside them. */
typedef struct members {
    uint32_t key[MOST];
    size_t place[MOST];
} members_t;

#define MEMBER_BEFORE(m_, a_, b_) ((m_)->key[a_] < (m_)->key[b_])
#define MEMBER_PUT(m_, heap_, at_, item_) ((m_)->place[item_] = (at_), (heap_)[at_] = (item_))
CCL_HEAP(members, uint32_t, members_t *, MEMBER_BEFORE, MEMBER_PUT)

START_TEST(test_first_comes_first) {
    ccl_rng_t rng;
    ccl_rng_init(&rng, 5);
    for (uint32_t n = 1; n <= MOST; n += n < 8 ? 1 : 31) {
        item_t heap[MOST], last = {0, 0};
        for (uint32_t i = 0; i < n; i++)
            items_push(NULL, heap, i, (item_t){ccl_rng_below(&rng, n), i});
        for (uint32_t left = n; left > 0; left--) {
            item_t item = items_pop(NULL, heap, left);
            ck_assert_msg(left == n || ITEM_BEFORE(NULL, last, item), "%u of %u: order", left, n);
            last = item;
        }
    }
}
END_TEST

START_TEST(test_changed_keys_and_places) {
    ccl_rng_t rng;
    members_t m;
    uint32_t heap[MOST];
    ccl_rng_init(&rng, 6);
    for (uint32_t i = 0; i < MOST; i++) {
        m.key[i] = ccl_rng_below(&rng, 1000);
        members_push(&m, heap, i, i);
    }
    for (uint32_t left = MOST; left > 0; left--) {
        for (int change = 0; change < 3; change++) {
            uint32_t member = heap[ccl_rng_below(&rng, left)];
            m.key[member] = ccl_rng_below(&rng, 1000);
            members_fix(&m, heap, left, m.place[member]);
        }
        for (uint32_t at = 0; at < left; at++) {
            ck_assert_uint_eq(m.place[heap[at]], at);
            ck_assert_uint_le(m.key[heap[0]], m.key[heap[at]]);
        }
        members_pop(&m, heap, left);
    }
}
END_TEST

START_TEST(test_mix) {
    /* The first two numbers of splitmix64 from seed 0. */
    ck_assert_uint_eq(ccl_mix64(0), UINT64_C(0xe220a8397b1dcdaf));
    ck_assert_uint_eq(ccl_mix64(UINT64_C(0x9e3779b97f4a7c15)), UINT64_C(0x6e789e6aa1b965f4));
}
END_TEST

RUN_TESTS(test_first_comes_first, test_changed_keys_and_places, test_mix)
