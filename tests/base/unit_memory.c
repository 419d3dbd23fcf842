#include "base/base.h"

#include <string.h>

#include "tests/base/main.h"

static bool all_are(const unsigned char *bytes, size_t n, size_t value) {
    for (size_t i = 0; i < n; i++)
        if (bytes[i] != value)
            return false;
    return true;
}

START_TEST(arena_gives_apart_zeroed_aligned) {
    ccl_arena_t arena;
    ccl_arena_init(&arena);
    enum { N = 4000 };
    unsigned char **blocks = calloc(N, sizeof *blocks);
    size_t *sizes = calloc(N, sizeof *sizes);
    ccl_rng_t rng;
    ccl_rng_init(&rng, 7);
    for (size_t i = 0; i < N; i++) {
        /* mostly small, now and then more than any block holds */
        sizes[i] = ccl_rng_below(&rng, i % 500 == 3 ? 3000000 : 300);
        blocks[i] = ccl_arena_alloc(&arena, sizes[i], 1);
        ck_assert_ptr_nonnull(blocks[i]);
        ck_assert_uint_eq((uintptr_t)blocks[i] % 16, 0);
        ck_assert_msg(all_are(blocks[i], sizes[i], 0), "block %zu is not zeroed", i);
        memset(blocks[i], (int)(i % 255) + 1, sizes[i]);
    }
    for (size_t i = 0; i < N; i++)
        ck_assert_msg(all_are(blocks[i], sizes[i], i % 255 + 1), "block %zu was written over", i);
    ck_assert_msg(arena.used_bytes > 4000, "used_bytes does not count");
    free(blocks);
    free(sizes);
    ccl_arena_fini(&arena);
    ccl_arena_fini(&arena); /* a zeroed arena is fine */
    ccl_arena_fini(NULL);
}
END_TEST

START_TEST(arena_refuses_overflow) {
    ccl_arena_t arena = {0};
    ck_assert_ptr_null(ccl_arena_alloc(&arena, SIZE_MAX / 2, 3));
    ck_assert_ptr_null(ccl_arena_alloc(&arena, SIZE_MAX, 1));
    ck_assert_ptr_nonnull(ccl_arena_alloc(&arena, 0, 8));
    ck_assert_str_eq(ccl_arena_strdup(&arena, "gpu:0"), "gpu:0");
    ccl_arena_fini(&arena);
}
END_TEST

START_TEST(grow) {
    uint32_t *array = NULL;
    size_t cap = 0;
    for (size_t n = 1; n <= 1000; n++) {
        ck_assert(ccl_grow(&array, &cap, n, sizeof *array));
        ck_assert_msg(array[n - 1] == 0, "new elements are zeroed");
        array[n - 1] = (uint32_t)n;
    }
    for (size_t n = 1; n <= 1000; n++)
        ck_assert_uint_eq(array[n - 1], n);
    ck_assert_msg(cap < 2048, "doubles, no more: %zu", cap);
    size_t before = cap;
    uint32_t *same = array;
    ck_assert(!ccl_grow(&array, &cap, SIZE_MAX / 2, sizeof *array));
    ck_assert_msg(cap == before && array == same, "a refusal leaves the array alone");
    ck_assert(ccl_grow_raw(&array, &cap, 5 * before, sizeof *array));
    ck_assert_msg(array[999] == 1000 && cap >= 5 * before, "what was there stays");
    for (size_t n = before; n < cap; n++)
        array[n] = 1;
    before = cap;
    ck_assert(ccl_grow(&array, &cap, before + 1, sizeof *array));
    ck_assert_msg(array[before - 1] == 1 && array[before] == 0 && array[cap - 1] == 0,
                  "zeros begin where the capacity ended");
    free(array);
}
END_TEST

START_TEST(array) {
    enum { MANY = 6 << 20 }; /* pages of 2 MB do not begin where it does */
    uint32_t *array = ccl_array_alloc(MANY, sizeof *array);
    ck_assert_ptr_nonnull(array);
    array[0] = 1;
    array[MANY - 1] = 2;
    ck_assert_uint_eq(array[0] + array[MANY - 1], 3);
    free(array);
    ck_assert_ptr_null(ccl_array_alloc(SIZE_MAX / 2, 3));
}
END_TEST

START_TEST(text) {
    ccl_text_t text = {0};
    ck_assert_ptr_null(text.data);
    ccl_text_add(&text, "", 0);
    ck_assert_str_eq(text.data, "");
    ccl_text_add(&text, "ab", 2);
    ccl_text_printf(&text, "-%d-%s", 7, "x");
    ck_assert_str_eq(text.data, "ab-7-x");
    size_t len = text.len;
    ccl_text_printf(&text, "%*d", 5000, 1); /* more than was reserved */
    ck_assert_uint_eq(text.len, len + 5000);
    ck_assert_int_eq(text.data[text.len - 1], '1');
    ck_assert_int_eq(text.data[text.len], 0);
    for (int i = 0; i < 3000; i++)
        ccl_text_printf(&text, "%d,", i);
    ck_assert_uint_eq(strlen(text.data), text.len);
    ck_assert(!text.nomem);
    ccl_text_fini(&text);
    ccl_text_t full = {.nomem = true};
    ccl_text_add(&full, "x", 1);
    ccl_text_printf(&full, "x");
    ck_assert_msg(!full.data && full.nomem, "out of memory sticks");
    ccl_text_fini(NULL);
}
END_TEST

START_TEST(strmap) {
    ccl_strmap_t *map = ccl_strmap_create();
    ck_assert_uint_eq(ccl_strmap_get(map, "a"), CCL_NONE);
    char key[32];
    for (uint32_t i = 0; i < 20000; i++) {
        snprintf(key, sizeof key, "gpu:%u", i);
        ck_assert(ccl_strmap_put(map, key, i)); /* the key is copied: `key` is reused */
    }
    ck_assert_uint_eq(ccl_strmap_len(map), 20000);
    for (uint32_t i = 0; i < 20000; i++) {
        snprintf(key, sizeof key, "gpu:%u", i);
        ck_assert_uint_eq(ccl_strmap_get(map, key), i);
    }
    ck_assert_uint_eq(ccl_strmap_get(map, "gpu:20000"), CCL_NONE);
    ck_assert_uint_eq(ccl_strmap_get(map, "gpu"), CCL_NONE);
    ck_assert_uint_eq(ccl_strmap_get(map, ""), CCL_NONE);
    ck_assert(ccl_strmap_put(map, "gpu:5", 99));
    ck_assert_uint_eq(ccl_strmap_get(map, "gpu:5"), 99);
    ck_assert_msg(ccl_strmap_len(map) == 20000, "replacing adds nothing");
    ck_assert(ccl_strmap_put(map, "", 1));
    ck_assert_uint_eq(ccl_strmap_get(map, ""), 1);
    ccl_strmap_destroy(map);
    ccl_strmap_destroy(NULL);
}
END_TEST

START_TEST(hash) {
    /* published FNV-1a 64 test vectors (Fowler, Noll, Vo) */
    ck_assert_uint_eq(ccl_hash64("", 0, 0), UINT64_C(0xcbf29ce484222325));
    ck_assert_uint_eq(ccl_hash64("a", 1, 0), UINT64_C(0xaf63dc4c8601ec8c));
    ck_assert_uint_eq(ccl_hash64("foobar", 6, 0), UINT64_C(0x85944171f73967e8));
    ck_assert_uint_ne(ccl_hash64("a", 1, 1), ccl_hash64("a", 1, 0));
}
END_TEST

RUN_TESTS(arena_gives_apart_zeroed_aligned, arena_refuses_overflow, grow, array, text, strmap, hash)
