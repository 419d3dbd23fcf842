/* Demand files: explicit chunks and the two compact forms. */
#include "suite.h"

static ccl_collective_t *read_ok(const char *text) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_collective_t *coll = NULL;
    check_ok(ccl_demand_read_text("in", text, strlen(text), &coll, &err), &err);
    return coll;
}

START_TEST(chunks) {
    ccl_collective_t *coll = read_ok(
        "{\"format\": \"ccllab-demand-1\", \"name\": \"mine\", \"nranks\": 4, \"chunks\": [\n"
        "{\"source\": 2, \"destinations\": [3, 0], \"bytes\": \"1K\"},\n"
        "{\"source\": [3, 1], \"destinations\": \"all\", \"reduced\": true, \"bytes\": 512},\n"
        "{\"source\": 0, \"destinations\": [], \"bytes\": 0},\n"
        "{\"source\": \"all\", \"destinations\": 1, \"reduced\": true, \"bytes\": \"0.5KiB\"}]}");
    ck_assert_int_eq(coll->kind, CCL_CUSTOM);
    ck_assert_str_eq(coll->name, "mine");
    ck_assert_uint_eq(coll->nranks, 4);
    ck_assert_uint_eq(coll->nchunks, 4);
    /* The largest buffers: output of 0 and 3, 1024 + 512; input of 2, 1024 + 512. */
    ck_assert_double_eq(coll->natural_bytes, 1536);
    ck_assert_double_eq(coll->chunks[0].share, 1024 / 1536.0);
    ck_assert_double_eq(coll->chunks[2].share, 0);
    static const uint32_t lists[][4] = {{0, 3}, {1, 3}, {0, 1, 2, 3}};
    ck_assert_mem_eq(coll->chunks[0].dests, lists[0], 8);
    ck_assert_mem_eq(coll->chunks[1].sources, lists[1], 8);
    ck_assert_uint_eq(coll->chunks[1].ndests, 4);
    ck_assert_mem_eq(coll->chunks[3].sources, lists[2], 16);
    ck_assert(coll->chunks[1].reduced && !coll->chunks[0].reduced);
    static const struct {
        uint32_t rank, chunk, input, output;
    } at[] = {{0, 0, CCL_NONE, 0}, {0, 1, CCL_NONE, 1}, {0, 2, 0, CCL_NONE},
              {0, 3, 1, CCL_NONE}, {1, 1, 0, 0},        {1, 3, 1, 1},
              {2, 0, 0, CCL_NONE}, {2, 3, 1, CCL_NONE}, {3, 0, CCL_NONE, 0},
              {3, 1, 0, 1},        {3, 3, 1, CCL_NONE}, {9, 0, CCL_NONE, CCL_NONE}};
    for (size_t i = 0; i < CCL_ARRAY_LEN(at); i++) {
        ck_assert_uint_eq(ccl_collective_input(coll, at[i].rank, at[i].chunk), at[i].input);
        ck_assert_uint_eq(ccl_collective_output(coll, at[i].rank, at[i].chunk), at[i].output);
    }
    ck_assert_uint_eq(ccl_collective_input_len(coll, 0), 2);
    ck_assert_uint_eq(ccl_collective_output_len(coll, 1), 2);
    ccl_collective_t *split, *clone;
    ck_assert_int_eq(ccl_collective_split(coll, 4, &split, NULL), CCL_OK);
    ck_assert_uint_eq(split->nchunks, 16);
    ck_assert_double_eq(split->natural_bytes, 1536);
    ck_assert_double_eq(split->chunks[3].share, 256 / 1536.0);
    ck_assert_uint_eq(ccl_collective_input(split, 2, 2), 2);
    ck_assert_uint_eq(ccl_collective_input(split, 2, 13), 5);
    ck_assert_int_eq(ccl_collective_clone(coll, &clone, NULL), CCL_OK);
    ck_assert(ccl_collective_equal(coll, clone));
    ccl_collective_destroy(split);
    ccl_collective_destroy(clone);
    ccl_collective_destroy(coll);
}
END_TEST

START_TEST(compact_forms) {
    ccl_collective_t *coll = read_ok("{\"format\": \"ccllab-demand-1\", \"alltoallv\": "
                                     "[[0, \"1K\", 3], [4, 5, 6], [7, 8, 9]]}");
    ck_assert_uint_eq(coll->nchunks, 9);
    static const double bytes[] = {0, 1024, 3, 4, 5, 6, 7, 8, 9};
    ck_assert_double_eq(coll->natural_bytes, 1024 + 5 + 8); /* into rank 1 */
    for (uint32_t k = 0; k < 9; k++) {
        ck_assert_uint_eq(coll->chunks[k].sources[0], k / 3);
        ck_assert_uint_eq(coll->chunks[k].dests[0], k % 3);
        ck_assert_double_eq(coll->chunks[k].share, bytes[k] / 1037);
    }
    ccl_collective_destroy(coll);
    coll = read_ok("{\"format\": \"ccllab-demand-1\", \"allgatherv\": [10, 0, 30]}");
    ck_assert_uint_eq(coll->nchunks, 3);
    ck_assert_double_eq(coll->natural_bytes, 40);
    ck_assert_uint_eq(coll->chunks[1].ndests, 3);
    ck_assert_double_eq(coll->chunks[2].share, 0.75);
    ck_assert_uint_eq(ccl_collective_output(coll, 1, 2), 2);
    ccl_collective_destroy(coll);
}
END_TEST

#define DEMAND(rest_) "{\"format\": \"ccllab-demand-1\", \"nranks\": 2, " rest_ "}"
#define CHUNK(chunk_) DEMAND("\"chunks\": [\n" chunk_ "]")

static const bad_row_t rows[] = {
    {"not JSON", "{", 1, 1, "not valid JSON"},
    {"another format", "{\"format\": \"x\"}", 1, 12, "unknown format 'x'"},
    {"no format", "{}", 1, 1, "format"},
    {"an unknown key", DEMAND("\"chunk\": []"), 1, 44, "chunk"},
    {"no chunks at all", DEMAND("\"name\": \"x\""), 1, 1, "exactly one of chunks, alltoallv"},
    {"two forms", DEMAND("\"chunks\": [], \"allgatherv\": [1, 1]"), 1, 1, "exactly one of"},
    {"an empty list", DEMAND("\"chunks\": []"), 1, 54, "nothing to do"},
    {"no ranks", "{\"format\": \"ccllab-demand-1\", \"chunks\": []}", 1, 1, "nranks"},
    {"0 ranks", "{\"format\": \"ccllab-demand-1\", \"nranks\": 0, \"chunks\": []}", 1, 41,
     "0 ranks: at least 1"},
    {"ranks unlike the matrix", DEMAND("\"allgatherv\": [1, 1, 1]"), 1, 41, "another length"},
    {"a row too short", DEMAND("\"alltoallv\": [[1, 1], [1]]"), 1, 66, "1 sizes: one for each"},
    {"negative bytes", CHUNK("{\"source\": 0, \"destinations\": 1, \"bytes\": -1}"), 2, 43,
     "negative"},
    {"an unknown unit", CHUNK("{\"source\": 0, \"destinations\": 1, \"bytes\": \"1X\"}"), 2, 43,
     "X"},
    {"no source", CHUNK("{\"destinations\": 1, \"bytes\": 1}"), 2, 1, "a rank, a list of ranks"},
    {"an empty source", CHUNK("{\"source\": [], \"destinations\": 1, \"bytes\": 1}"), 2, 1,
     "without a source"},
    {"a word for a rank", CHUNK("{\"source\": \"0\", \"destinations\": 1, \"bytes\": 1}"), 2, 12,
     "\"all\""},
    {"a rank that is none", CHUNK("{\"source\": 0, \"destinations\": [2], \"bytes\": 1}"), 2, 32,
     "2"},
    {"a rank twice", CHUNK("{\"source\": 0, \"destinations\": [1, 1], \"bytes\": 1}"), 2, 1,
     "destination 1 is named twice"},
    {"two sources, no reduction",
     CHUNK("{\"source\": [0, 1], \"destinations\": [1], \"bytes\": 1}"), 2, 1, "must be reduced"},
    {"bytes for nobody", CHUNK("{\"source\": 0, \"destinations\": [], \"bytes\": 1}"), 2, 1,
     "without a destination"},
    {"more ranks than there are", CHUNK("{\"source\": 0, \"destinations\": [0,1,0], \"bytes\": 1}"),
     2, 31, "3 ranks are listed"},
};

START_TEST(refused) {
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_error_t err = CCL_ERROR_INIT;
        ccl_collective_t *coll;
        ccl_status_t status =
            ccl_demand_read_text("in", rows[i].input, strlen(rows[i].input), &coll, &err);
        check_bad(&rows[i], status, &err);
    }
}
END_TEST

SUITE_MAIN("demand", chunks, compact_forms, refused)
