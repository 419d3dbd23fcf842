/* Schedules as JSON: reading both forms of transfers, writing, refusing. */
#include "suite.h"
#include "base/json.h"

#define FILE_OF(coll_, transfers_)                                                                 \
    "{\"format\": \"ccllab-schedule-1\", \"name\": \"t\", \"collective\": " coll_                  \
    ",\n\"transfers\": [" transfers_ "]}"
#define ALLGATHER "{\"kind\": \"AllGather\", \"nranks\": 4, \"chunks_per_block\": 2}"

static ccl_schedule_t *read_ok(const char *text) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_schedule_t *s = NULL;
    check_ok(ccl_schedule_read_json("in", text, strlen(text), &s, &err), &err);
    return s;
}

static void check_round_trip(const ccl_schedule_t *s) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_text_t once = {0}, twice = {0};
    ccl_schedule_t *again;
    check_ok(ccl_schedule_write_json(s, &once, &err), &err);
    check_ok(ccl_schedule_read_json("once", once.data, once.len, &again, &err), &err);
    ck_assert(ccl_schedule_equal(s, again));
    check_ok(ccl_schedule_write_json(again, &twice, &err), &err);
    ck_assert_str_eq(once.data, twice.data);
    json_t *json = json_loadb(once.data, once.len, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_ptr_nonnull(json);
    ck_assert_uint_eq(json_array_size(json_object_get(json, "transfers")), s->ntransfers);
    json_decref(json);
    ccl_text_fini(&once);
    ccl_text_fini(&twice);
    ccl_schedule_destroy(again);
}

START_TEST(transfers) {
    ccl_schedule_t *s = read_ok(
        FILE_OF(ALLGATHER, "\n[0, 1, 7, 5, 3, \"reduce\", 1],\n [ 1,2 , 6,0 ],[2,3,0,0,9],"
                           "[3,0,1,0,0,\"copy\"],\n{\"dst\": 2, \"src\": 3, \"op\": \"reduce\", "
                           "\"step\": 1, \"chunk\": 4, \"phase\": 255, \"channel\": 65535}"));
    static const ccl_transfer_t expected[] = {{1, 2, 6, 0, 0, 0, 0},
                                              {2, 3, 0, 0, 9, 0, 0},
                                              {3, 0, 1, 0, 0, 0, 0},
                                              {3, 2, 4, 1, 65535, 1, 255},
                                              {0, 1, 7, 5, 3, 1, 1}};
    ck_assert_uint_eq(s->ntransfers, CCL_ARRAY_LEN(expected));
    for (size_t i = 0; i < CCL_ARRAY_LEN(expected); i++) {
        const ccl_transfer_t *a = &s->transfers[i], *b = &expected[i];
        ck_assert(a->src == b->src && a->dst == b->dst && a->chunk == b->chunk &&
                  a->step == b->step && a->channel == b->channel && a->reduce == b->reduce &&
                  a->phase == b->phase);
    }
    ck_assert_uint_eq(s->nsteps, 6);
    ck_assert_uint_eq(s->nchannels, 65536);
    ck_assert_str_eq(s->name, "t");
    ck_assert_uint_eq(s->coll->nchunks, 8);
    ck_assert(!s->limited);
    check_round_trip(s);
    ccl_schedule_destroy(s);
}
END_TEST

START_TEST(whole_files) {
    static const struct {
        const char *why, *text;
        uint32_t ntransfers, nchunks;
        bool limited;
    } rows[] = {
        {"no transfers", FILE_OF(ALLGATHER, " "), 0, 8, false},
        {"the array first; a name with brackets, quotes and the key itself",
         "{\"transfers\": [[0,1,0,0]], \"name\": \"]\\\"[\\\\transfers\\n\", \"limited\": true, "
         "\"format\": \"ccllab-schedule-1\", \"collective\": " ALLGATHER "}",
         1, 8, true},
        {"a demand of chunks of one third, which decimals cannot hold",
         FILE_OF("{\"demand\": {\"name\": \"d\", \"nranks\": 3, \"chunks\": ["
                 "{\"source\": 0, \"destinations\": [1], \"bytes\": 0.3333333333333333},"
                 "{\"source\": [0, 1], \"destinations\": \"all\", \"reduced\": true, \"bytes\": 1}"
                 "]}}",
                 "[0,1,1,0]"),
         1, 2, false},
        {"a rooted collective",
         FILE_OF("{\"kind\": \"broadcast\", \"nranks\": 4, \"root\": 3}", "[3,1,0,0]"), 1, 1,
         false},
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_schedule_t *s = read_ok(rows[i].text);
        ck_assert_msg(s->ntransfers == rows[i].ntransfers, "%s", rows[i].why);
        ck_assert_msg(s->coll->nchunks == rows[i].nchunks, "%s", rows[i].why);
        ck_assert_msg(s->limited == rows[i].limited, "%s", rows[i].why);
        check_round_trip(s);
        ccl_schedule_destroy(s);
    }
}
END_TEST

/** Splitting gives sizes that are no decimals; they survive files. */
START_TEST(split_demand) {
    static const char text[] =
        "{\"format\": \"ccllab-demand-1\", \"alltoallv\": [[1, 7, 3], [0, 5, 1e6], [11, 2, 0.1]]}";
    ccl_error_t err = CCL_ERROR_INIT;
    for (uint32_t parts = 1; parts <= 11; parts++) {
        ccl_collective_t *coll, *split;
        ccl_schedule_t *s;
        check_ok(ccl_demand_read_text("in", text, sizeof text - 1, &coll, &err), &err);
        check_ok(ccl_collective_split(coll, parts, &split, &err), &err);
        ccl_collective_destroy(coll);
        ccl_schedule_builder_t *b = ccl_schedule_builder_create("split", split);
        ccl_schedule_builder_add(b, (ccl_transfer_t){0, 1, parts, 0, 0, 0, 0});
        check_ok(ccl_schedule_builder_finish(b, &s, &err), &err);
        check_round_trip(s);
        ccl_schedule_destroy(s);
    }
}
END_TEST

START_TEST(many_transfers) {
    enum { N = 400000 };
    ccl_text_t text = {0};
    ccl_text_printf(&text, "{\"format\": \"ccllab-schedule-1\", \"name\": \"t\", \"collective\": "
                           "{\"kind\": \"allreduce\", \"nranks\": 64},\n\"transfers\": [");
    for (unsigned i = 0; i < N; i++)
        ccl_text_printf(&text, "%s\n  [%u, %u, 0, %u, 0, \"copy\", 0]", i ? "," : "", i % 64,
                        (i + 1) % 64, i / 64);
    ccl_text_printf(&text, "\n]}\n");
    ccl_schedule_t *s = read_ok(text.data);
    ck_assert_uint_eq(s->ntransfers, N);
    ck_assert_uint_eq(s->transfers[N - 1].step, (N - 1) / 64);
    ccl_schedule_destroy(s);
    ccl_text_fini(&text);
}
END_TEST

static const bad_row_t rows[] = {
    {"nothing", "", 1, 0, "not valid JSON"},
    {"no object", "[]", 1, 1, "object"},
    {"another format", "{\"format\": \"ccllab-demand-1\"}", 1, 12, "ccllab-schedule-1 is read"},
    {"no format", "{\"transfers\": []}", 1, 1, "format"},
    {"no collective", "{\"format\": \"ccllab-schedule-1\", \"transfers\": []}", 1, 1, "collective"},
    {"no transfers",
     "{\"format\": \"ccllab-schedule-1\", \"name\": \"t\", \"collective\": " ALLGATHER "}", 1, 1,
     "transfers must be an array"},
    {"transfers twice", "{\"format\": \"ccllab-schedule-1\", \"transfers\": [], \"transfers\": []}",
     1, 60, "duplicate object key"},
    {"an unknown collective", FILE_OF("{\"kind\": \"x\", \"nranks\": 2}", ""), 1, 69,
     "unknown collective 'x'"},
    {"too many ranks", FILE_OF("{\"kind\": \"allgather\", \"nranks\": 99999999}", ""), 1, 92,
     "nranks"},
    {"too many chunks",
     FILE_OF("{\"kind\": \"alltoall\", \"nranks\": 65536, \"chunks_per_block\": 16777216}", ""), 1,
     60, "too many chunks"},
    {"an unknown key of the collective", FILE_OF("{\"kind\": \"allgather\", \"ranks\": 2}", ""), 1,
     82, "ranks"},
    {"a demand and a kind", FILE_OF("{\"kind\": \"allgather\", \"demand\": {}}", ""), 1, 61,
     "kind"},
    {"an unknown key after the array, whose place is kept",
     "{\"format\": \"ccllab-schedule-1\", \"collective\": " ALLGATHER
     ", \"transfers\": [\n[0,1,0,0],\n  [1,2,0,0]], \"nme\": 1}",
     3, 15, "nme"},
    {"a rank that is none", FILE_OF(ALLGATHER, "\n [0, 4, 0, 0]"), 3, 6,
     "/transfers/0: dst must be an integer from 0 to 3"},
    {"a negative number", FILE_OF(ALLGATHER, "[0,1,0,0],\n[-1, 2, 0, 0]"), 3, 2,
     "/transfers/1: src must be"},
    {"a chunk that is none", FILE_OF(ALLGATHER, "[0,1,8,0]"), 2, 20,
     "chunk must be an integer from 0 to 7"},
    {"a fraction", FILE_OF(ALLGATHER, "[0,1,0.5,0]"), 2, 20, "chunk must be an integer"},
    {"a step beyond any bound", FILE_OF(ALLGATHER, "[0,1,0,16777216]"), 2, 22, "step must be"},
    {"a number of many digits", FILE_OF(ALLGATHER, "[0,1,0,00000000000000000000]"), 2, 22, "step"},
    {"an unknown operation", FILE_OF(ALLGATHER, "[0,1,0,0,0,\"add\",0]"), 2, 26,
     "op must be \"copy\" or \"reduce\""},
    {"too few fields", FILE_OF(ALLGATHER, "[0,1,0]"), 2, 21, "step is missing"},
    {"too many fields", FILE_OF(ALLGATHER, "[0,1,0,0,0,\"copy\",0,0]"), 2, 35,
     "more than 7 fields"},
    {"a rank to itself", FILE_OF(ALLGATHER, "[1,1,0,0]"), 2, 24, "rank 1 sends to itself"},
    {"a key twice", FILE_OF(ALLGATHER, "{\"src\":0,\"src\":1}"), 2, 24, "key given twice"},
    {"an unknown key", FILE_OF(ALLGATHER, "{\"source\":0}"), 2, 16, "unknown key"},
    {"a key is missing", FILE_OF(ALLGATHER, "{\"src\":0,\"dst\":1,\"step\":0}"), 2, 40,
     "chunk is missing"},
    {"a group without groups", FILE_OF(ALLGATHER, "[\"g0\",1,0,0]"), 2, 16,
     "src must be a rank: there are no groups"},
    {"an unknown group",
     "{\"format\": \"ccllab-schedule-1\", \"collective\": " ALLGATHER
     ", \"groups\": [[0, 1]],\n\"transfers\": [[3,\"g1\",0,0]]}",
     2, 18, "dst must be a rank or a group"},
    {"between groups",
     "{\"format\": \"ccllab-schedule-1\", \"collective\": " ALLGATHER
     ", \"groups\": [[0, 1]],\n\"transfers\": [[\"g0\",\"g0\",0,0]]}",
     2, 30, "src and dst are groups"},
    {"a rank twice in a group",
     "{\"format\": \"ccllab-schedule-1\", \"collective\": " ALLGATHER
     ",\n\"groups\": [[1, 1]],\"transfers\": []}",
     2, 16, "rank 1 is there twice"},
    {"an empty group",
     "{\"format\": \"ccllab-schedule-1\", \"collective\": " ALLGATHER
     ",\n\"groups\": [[]],\"transfers\": []}",
     2, 12, "a group is a list of 1 to 4 ranks"},
    {"no transfer", FILE_OF(ALLGATHER, "7"), 2, 15, "a transfer is [src, dst"},
    {"a comma too many", FILE_OF(ALLGATHER, "[0,1,0,0],"), 2, 25, "a transfer is [src, dst"},
    {"a comma too few", FILE_OF(ALLGATHER, "[0,1,0,0] [0,1,0,0]"), 2, 25, "']' or ',' is missing"},
    {"an array that does not end",
     "{\"format\": \"ccllab-schedule-1\", \"collective\": " ALLGATHER ", \"transfers\": [[0,1,0,0]",
     1, 128, "not valid JSON"},
};

START_TEST(refused) {
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_error_t err = CCL_ERROR_INIT;
        ccl_schedule_t *s;
        ccl_status_t status =
            ccl_schedule_read_json("in", rows[i].input, strlen(rows[i].input), &s, &err);
        check_bad(&rows[i], status, &err);
    }
}
END_TEST

SUITE_MAIN("schedule_json", transfers, whole_files, split_demand, many_transfers, refused)
