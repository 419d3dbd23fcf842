/*
 * Out of memory at every single allocation in turn: each call must come back with CCL_ERR_NOMEM (or
 * its like), leak nothing and leave its outputs alone. malloc and friends are wrapped by the
 * linker.
 */
#include "base/base.h"
#include "base/json.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "tests/base/main.h"
#include "tests/base/failing_malloc.h"

static void *counting_malloc(size_t size) { /* for jansson, whose own calls are not wrapped */
    return fails() ? NULL : __real_malloc(size);
}

typedef ccl_status_t (*scenario_fn)(void);

static ccl_status_t json(void) {
    static const char text[] = "{\"a\":[1,2,{\"b\":\"c\"}],\"d\":{\"e\":null}}";
    ccl_json_doc_t doc = {0};
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_status_t status = ccl_json_parse("t", text, sizeof text - 1, &doc, &err);
    if (status == CCL_OK)
        ccl_json_fini(&doc);
    armed = false;
    if (status != CCL_OK)
        ck_assert_msg(!doc.root && !doc.text, "output written on failure");
    return status;
}

static ccl_status_t map(void) {
    ccl_strmap_t *map = ccl_strmap_create();
    if (!map)
        return CCL_ERR_NOMEM;
    bool fine = true;
    char key[16];
    uint32_t put = 0;
    for (; fine && put < 100; put += fine) {
        snprintf(key, sizeof key, "k%u", put);
        fine = ccl_strmap_put(map, key, put);
    }
    armed = false;
    for (uint32_t i = 0; i < put; i++) { /* what went in before stays */
        snprintf(key, sizeof key, "k%u", i);
        ck_assert_uint_eq(ccl_strmap_get(map, key), i);
    }
    ccl_strmap_destroy(map);
    return fine ? CCL_OK : CCL_ERR_NOMEM;
}

static ccl_status_t table(void) {
    ccl_table_t *table = ccl_table_create();
    if (!table)
        return CCL_ERR_NOMEM;
    ccl_table_column(table, "a", CCL_ALIGN_LEFT);
    ccl_table_column(table, "b", CCL_ALIGN_LEFT);
    for (int i = 0; i < 20; i++) {
        ccl_table_row(table);
        ccl_table_cell(table, "%d", i);
        ccl_table_cell(table, "%0900d", i);
    }
    ccl_text_t out = {0};
    ccl_status_t status = ccl_table_text(table, &out);
    if (status == CCL_OK)
        status = ccl_table_csv(table, &out);
    ccl_text_fini(&out);
    ccl_table_destroy(table);
    return status;
}

static ccl_status_t file(void) {
    char *data = NULL;
    size_t len = 0;
    ccl_status_t status = ccl_file_read("/proc/self/stat", 1 << 20, &data, &len, NULL);
    if (status == CCL_OK)
        free(data);
    armed = false;
    if (status != CCL_OK)
        ck_assert_ptr_null(data);
    return status;
}

static ccl_status_t count_job(uint32_t index, uint32_t worker, void *user, ccl_error_t *err) {
    (void)index, (void)worker, (void)err;
    __atomic_add_fetch((uint32_t *)user, 1, __ATOMIC_SEQ_CST);
    return CCL_OK;
}

START_TEST(every_allocation) {
    static const struct {
        const char *name;
        scenario_fn run;
        long least;
        bool any; /**< jansson does without some memory, or takes its lack for a syntax error */
    } rows[] = {{"json", json, 10, true},
                {"map", map, 5, false},
                {"table", table, 8, false},
                {"file", file, 1, false}};
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        fail_in = LONG_MAX;
        armed = true;
        ccl_status_t first = rows[i].run();
        armed = false;
        ck_assert_int_eq(first, CCL_OK);
        long total = LONG_MAX - fail_in;
        ck_assert_msg(total >= rows[i].least, "%s: only %ld allocations seen", rows[i].name, total);
        for (long n = 0; n < total; n++) {
            fail_in = n;
            armed = true;
            ccl_status_t status = rows[i].run();
            armed = false;
            ck_assert_msg(status == CCL_ERR_NOMEM || rows[i].any, "%s, allocation %ld of %ld: %s",
                          rows[i].name, n, total, ccl_status_name(status));
        }
    }
}
END_TEST

START_TEST(threads_do_without) {
    uint32_t count = 0;
    fail_in = 0;
    armed = true;
    ccl_status_t status = ccl_parallel_for(10, 4, count_job, &count, NULL);
    armed = false;
    ck_assert_int_eq(status, CCL_OK);
    ck_assert_uint_eq(count, 10);
}
END_TEST

START_TEST(jansson_too) {
    json_set_alloc_funcs(counting_malloc, free);
}
END_TEST

RUN_TESTS(jansson_too, every_allocation, threads_do_without)
