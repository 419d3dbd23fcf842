/* Sketch files with mistakes: one line that tells where and what, and nothing is made. */
#include "common.h"

/* Dimensions: nvlink (groups 0, 1), net (group 0). */
#define PAIR "servers:2 gpus:4 nvswitch=180GB/s,1us nics:4x50GB/s,5us"
#define HEAD "{\"schema\": \"ccllab/sketches/1\",\n"
#define GOOD                                                                                       \
    "\"sketches\": [{\"name\": \"a\", \"stages\": [{\"nvlink\": \"all\"}, {\"net\": \"all\"}]}]"

static const struct {
    const char *text, *want;
} rows[] = {
    {"[]", "t.json:1:1: expected an object"},
    {"{\"sketches\": []}", "t.json:1:1: /schema: missing"},
    {"{\"schema\": \"ccllab/sketch/1\"}",
     "t.json:1:12: /schema: \"ccllab/sketch/1\" is not \"ccllab/sketches/1\""},
    {HEAD "\"sketch\": []}", "t.json:2:1: /sketch: unknown key \"sketch\", did you mean"},
    {HEAD "\"mixes\": []}", "/sketches: missing"},
    {HEAD "\"sketches\": []}", "t.json:2:13: /sketches: 0 sketches: 1 to 10000 are taken"},
    {HEAD "\"sketches\": [{}]}", "/sketches/0/stages: missing"},
    {HEAD "\"sketches\": [{\"stages\": []}]}",
     "t.json:2:25: /sketches/0/stages: 0 stages: a sketch has 1 to 10"},
    {HEAD "\"sketches\": [{\"stages\": [{}]}]}",
     "t.json:2:26: /sketches/0/stages/0: a stage uses at least one dimension"},
    {HEAD "\"sketches\": [{\"stages\": [{\"nvlinks\": \"all\"}]}]}",
     "t.json:2:27: /sketches/0/stages/0/nvlinks: unknown key \"nvlinks\", did you mean "
     "\"nvlink\"?"},
    {HEAD "\"sketches\": [{\"stages\": [{\"net\": \"some\"}]}]}",
     "t.json:2:34: /sketches/0/stages/0/net: \"some\" is none of \"none\", \"one each\", "
     "\"one a server\", \"all\", \"on and on\""},
    {HEAD "\"sketches\": [{\"stages\": [{\"nvlink\": \"one a server\"}]}]}",
     "t.json:2:37: /sketches/0/stages/0/nvlink: \"one a server\" reaches nobody"},
    {HEAD "\"sketches\": [{\"stages\": [{\"nvlink\": \"all\"}]}]}",
     "t.json:2:14: /sketches/0: \"nvlink\" reaches 4 of 8 GPUs from GPU 0, GPU 4 not"},
    {HEAD "\"sketches\": [{\"stages\": [{\"nvlink\": [{\"reach\": \"all\", \"groups\": [2]}]}]}]}",
     "/groups/0: 2 is not a whole number from 0 to 1"},
    {HEAD
     "\"sketches\": [{\"stages\": [{\"nvlink\": [{\"reach\": \"all\", \"groups\": [1, 1]}]}]}]}",
     "/groups/1: group 1 is named twice in this stage"},
    {HEAD "\"sketches\": [{\"stages\": [{\"nvlink\": [{\"reach\": \"all\"}]}]}]}",
     "either \"groups\" or \"classes\" says which groups"},
    {HEAD "\"sketches\": [{\"stages\": [{\"nvlink\": []}]}]}", "no group is named"},
    {HEAD
     "\"sketches\": [{\"line\": true, \"stages\": [{\"nvlink\": \"all\"}, {\"net\": \"all\"}]}]}",
     "t.json:2:23: /sketches/0/line: only sketches of broadcast and reduce may be in a line"},
    {HEAD "\"sketches\": [{\"tree\": true, \"stages\": [{\"nvlink\": \"all\"}]}]}",
     "t.json:2:23: /sketches/0/tree: a tree of servers is a kind of line: \"line\": true"},
    {HEAD GOOD ", \"mixes\": [{}]}", "/mixes/0/parts: missing"},
    {HEAD GOOD ", \"mixes\": [{\"parts\": []}]}", "0 sketches: a mix is of 1 to 8"},
    {HEAD GOOD ", \"mixes\": [{\"parts\": [{\"sketch\": \"b\", \"count\": 1}]}]}",
     "/mixes/0/parts/0/sketch: 0 sketches have the name \"b\""},
    {HEAD GOOD ", \"mixes\": [{\"parts\": [{\"sketch\": 1, \"count\": 1}]}]}",
     "/sketch: 1 is not a whole number from 0 to 0"},
    {HEAD GOOD ", \"mixes\": [{\"parts\": [{\"sketch\": \"a\", \"count\": 0}]}]}",
     "a sketch of a mix has at least one part"},
    {HEAD GOOD ", \"mixes\": [{\"parts\": [{\"sketch\": \"a\", \"count\": [1, 2]}]}]}",
     "2 counts: one, or one for each of 1 classes of GPUs"},
    {HEAD GOOD ", \"mixes\": [{\"parts\": [{\"sketch\": \"a\", \"count\": 1}, {\"sketch\": 0, "
               "\"count\": 1}]}]}",
     "a sketch stands in a mix once"},
    {HEAD GOOD ", \"mixes\": [{\"parts\": [{\"sketch\": \"a\", \"count\": 1}], \"channels\": 0}]}",
     "0 channels: 1 to 256, or leave the key out"},
    {HEAD GOOD ", \"mixes\": [{\"parts\": [{\"sketch\": \"a\", \"count\": 1}], \"cuts\": 0}]}",
     "0 cuts: 1 to 64, or leave the key out"},
    {HEAD GOOD ", \"mixes\": [{\"parts\": [{\"sketch\": \"a\", \"count\": 1}], \"flows\": 2}]}",
     "/flows: "},
    {HEAD GOOD ", \"mixes\": [{\"parts\": [{\"sketch\": \"a\", \"count\": 1}], \"apart\": 2}]}",
     "/apart: "},
    {HEAD GOOD
     ", \"mixes\": [{\"parts\": [{\"sketch\": \"a\", \"count\": 1}], \"shapes\": {\"net\": "
     "\"ring\"}}]}",
     "/shapes/net: \"ring\" is none of \"direct\", \"chain\", \"chains\""},
    {HEAD
     "\"sketches\": [{\"name\": \"a\", \"stages\": [{\"net\": \"on and on\"}, {\"nvlink\": "
     "\"all\"}]}, {\"name\": \"a\", \"stages\": [{\"nvlink\": \"all\"}, {\"net\": \"all\"}]}], "
     "\"mixes\": [{\"parts\": [{\"sketch\": \"a\", \"count\": 1}]}]}",
     "2 sketches have the name \"a\": say which by its place, from 0"},
};

START_TEST(test_bad) {
    ccl_topology_t *topo = topology(PAIR);
    ccl_collective_t *want = collective(CCL_ALLGATHER, topo->nranks, 0);
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_schedule_t *schedule = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_json_doc_t doc;
    char got[1200];

    ck_assert_msg(ccl_json_parse("t.json", rows[_i].text, strlen(rows[_i].text), &doc, &err) ==
                      CCL_OK,
                  "%s", err.text);
    options.sketch.file = &doc;
    ck_assert_msg(ccl_synthesize(NULL, "sketch", topo, NULL, want, &options, &schedule, &err) ==
                      CCL_ERR_INPUT,
                  "%s: taken", rows[_i].text);
    ck_assert_ptr_null(schedule);
    ccl_error_format(&err, got, sizeof got);
    ck_assert_msg(strstr(got, rows[_i].want) != NULL, "%s: \"%s\"", rows[_i].want, got);
    ck_assert_msg(strncmp(got, "t.json:", 7) == 0, "no place: \"%s\"", got);
    ck_assert_int_gt(err.line, 0);
    ck_assert_int_gt(err.column, 0);
    ccl_json_fini(&doc);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(test_classes) {
    /* Servers of four and of eight: every class of roots has its own counts, of one sum. */
    static const char *const text =
        "{\"schema\": \"ccllab/sketches/1\", \"sketches\": ["
        "{\"name\": \"a\", \"stages\": [{\"nvlink\": \"all\"}, {\"net\": \"on and on\"}]},"
        "{\"name\": \"b\", \"stages\": [{\"net\": \"on and on\"}, {\"nvlink\": \"all\"}]}],\n"
        "\"mixes\": [{\"parts\": [{\"sketch\": \"a\", \"count\": [1, 2]},"
        "{\"sketch\": \"b\", \"count\": %s}]}]}";
    ccl_topology_t *topo = topology("heteccl-h20-4+8");
    ccl_collective_t *want = collective(CCL_ALLGATHER, topo->nranks, 0);

    for (int good = 0; good < 2; good++) {
        ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
        ccl_schedule_t *schedule = NULL;
        ccl_error_t err = CCL_ERROR_INIT;
        ccl_json_doc_t doc;
        char filled[600];

        snprintf(filled, sizeof filled, text, good ? "[2, 1]" : "[1, 1]");
        ck_assert_int_eq(ccl_json_parse("t", filled, strlen(filled), &doc, &err), CCL_OK);
        options.sketch.file = &doc;
        ccl_status_t status =
            ccl_synthesize(NULL, "sketch", topo, NULL, want, &options, &schedule, &err);
        ck_assert_msg(status == (good ? CCL_OK : CCL_ERR_INPUT), "%s", err.text);
        if (!good)
            ck_assert_msg(strstr(err.text, "3 parts for class 1 of GPUs, 2 for class 0") != NULL,
                          "%s", err.text);
        ccl_schedule_destroy(schedule);
        ccl_json_fini(&doc);
    }
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("bad.synth.sketches");
    TCase *tcase = tcase_create("sketches");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, test_bad, 0, (int)CCL_ARRAY_LEN(rows));
    tcase_add_test(tcase, test_classes);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
