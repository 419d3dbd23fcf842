/* Explicit JSON that must be refused: where and why, one row each. */
#include <check.h>

#include "topology_helpers.h"

#define DEVICES                                                                                    \
    "\"devices\":[\n"                                                                              \
    "{\"id\":\"a\",\"kind\":\"gpu\",\"rank\":0},\n"                                                \
    "{\"id\":\"b\",\"kind\":\"gpu\",\"rank\":1}]"
#define HEAD "{\"format\":\"ccllab-topology-1\",\n"
#define LINK "{\"from\":\"a\",\"to\":\"b\",\"kind\":\"nvlink\",\"bandwidth\":\"25GB/s\"}"
/* Line 5 is the link, line 6 what follows. */
#define WITH_LINK(link_) HEAD DEVICES ",\n\"links\":[" link_ "]\n}"
#define WITH_REST(rest_) HEAD DEVICES ",\n\"links\":[" LINK "],\n" rest_ "\n}"
#define WITH_DEVICES(list_) HEAD "\"devices\":[\n" list_ "\n]}"

typedef struct row {
    const char *why, *text;
    int line, column; /* 0: only the line, or neither, is expected */
    const char *expect;
} row_t;

static const row_t rows[] = {
    {"syntax", "{\"format\":\n\"ccllab-topology-1\",}", 2, 0, ""},
    {"no object", "[1]", 1, 1, "object"},
    {"other format", "{\"format\":\"ccllab-topology-2\"}", 1, 11, "ccllab-topology-1"},
    {"no format", "{\"devices\":[]}", 1, 1, "format"},
    {"no devices", "{\"format\":\"ccllab-topology-1\"}", 1, 1, "devices"},
    {"empty devices", HEAD "\"devices\":[]}", 2, 11, "no gpu"},
    {"only switches", WITH_DEVICES("{\"id\":\"s\",\"kind\":\"switch\"}"), 2, 11, "no gpu"},
    {"unknown top key", WITH_REST("\"gruops\":[]"), 6, 0, "groups"},
    {"key twice", HEAD DEVICES "," DEVICES "}", 0, 0, "duplicate"},
    {"unknown device key", WITH_DEVICES("{\"id\":\"a\",\"kind\":\"gpu\",\"rnk\":0}"), 3, 0, "rank"},
    {"no id", WITH_DEVICES("{\"kind\":\"gpu\",\"rank\":0}"), 3, 1, "id"},
    {"id that is no whole number", WITH_DEVICES("{\"id\":1.5,\"kind\":\"gpu\",\"rank\":0}"), 3, 7,
     "/devices/0/id: expected a string, got a number"},
    {"id below 0", WITH_DEVICES("{\"id\":-1,\"kind\":\"gpu\",\"rank\":0}"), 3, 7,
     "/devices/0/id: expected a string, got a number; write \"-1\""},
    {"id that is no name", WITH_DEVICES("{\"id\":true,\"kind\":\"gpu\",\"rank\":0}"), 3, 7,
     "expected a string, got a boolean"},
    {"server that is no name",
     WITH_DEVICES("{\"id\":\"a\",\"kind\":\"gpu\",\"rank\":0,\"server\":[3]}"), 3, 42,
     "expected a string, got an array"},
    {"a number and its digits are one id",
     WITH_DEVICES("{\"id\":3,\"kind\":\"gpu\",\"rank\":0},\n"
                  "{\"id\":\"3\",\"kind\":\"switch\"}"),
     4, 1, "duplicate device id \"3\""},
    {"end by number, no place in the list",
     WITH_LINK("{\"from\":0,\"to\":1,\"kind\":\"nvlink\",\"bandwidth\":\"1GB/s\"}"), 5, 18,
     "no device \"0\""},
    {"kind of device by number", WITH_DEVICES("{\"id\":\"a\",\"kind\":3,\"rank\":0}"), 3, 18,
     "/devices/0/kind: expected a string, got a number; write \"3\""},
    {"text that is a number", WITH_REST("\"note\":3"), 6, 8,
     "/note: expected a string, got a number; write \"3\""},
    {"empty id", WITH_DEVICES("{\"id\":\"\",\"kind\":\"gpu\",\"rank\":0}"), 3, 1, "empty"},
    {"control character in id", WITH_DEVICES("{\"id\":\"a\\n\",\"kind\":\"gpu\",\"rank\":0}"), 3, 1,
     "control"},
    {"no kind", WITH_DEVICES("{\"id\":\"a\",\"rank\":0}"), 3, 1, "kind"},
    {"unknown kind", WITH_DEVICES("{\"id\":\"a\",\"kind\":\"gpus\",\"rank\":0}"), 3, 18,
     "gpu, switch, nic or host"},
    {"gpu without rank", WITH_DEVICES("{\"id\":\"a\",\"kind\":\"gpu\"}"), 3, 1, "rank"},
    {"switch with rank", WITH_DEVICES("{\"id\":\"a\",\"kind\":\"switch\",\"rank\":0}"), 3, 1,
     "only gpus"},
    {"negative rank", WITH_DEVICES("{\"id\":\"a\",\"kind\":\"gpu\",\"rank\":-1}"), 3, 31, ""},
    {"fractional rank", WITH_DEVICES("{\"id\":\"a\",\"kind\":\"gpu\",\"rank\":0.5}"), 3, 31, ""},
    {"rank beyond",
     WITH_DEVICES("{\"id\":\"a\",\"kind\":\"gpu\",\"rank\":0},\n"
                  "{\"id\":\"b\",\"kind\":\"gpu\",\"rank\":2}"),
     4, 1, "2 gpus have ranks 0 to 1"},
    {"rank twice",
     WITH_DEVICES("{\"id\":\"a\",\"kind\":\"gpu\",\"rank\":0},\n"
                  "{\"id\":\"b\",\"kind\":\"gpu\",\"rank\":0}"),
     4, 1, "both have rank 0"},
    {"id twice",
     WITH_DEVICES("{\"id\":\"a\",\"kind\":\"gpu\",\"rank\":0},\n"
                  "{\"id\":\"a\",\"kind\":\"switch\"}"),
     4, 1, "duplicate device id \"a\""},
    {"no link at all", HEAD DEVICES "}", 4, 1, "no path from gpu \"a\" (rank 0) to gpu \"b\""},
    {"one way only",
     WITH_LINK("{\"from\":\"a\",\"to\":\"b\",\"kind\":\"nvlink\",\"bandwidth\":\"1GB/s\","
               "\"duplex\":false}"),
     4, 1, "no path from gpu \"b\" (rank 1) to gpu \"a\""},
    {"unknown end",
     WITH_LINK("{\"from\":\"a\",\"to\":\"c\",\"kind\":\"nvlink\",\"bandwidth\":\"1GB/s\"}"), 5, 27,
     "no device \"c\""},
    {"no end", WITH_LINK("{\"from\":\"a\",\"kind\":\"nvlink\",\"bandwidth\":\"1GB/s\"}"), 5, 10,
     "to"},
    {"self link",
     WITH_LINK("{\"from\":\"a\",\"to\":\"a\",\"kind\":\"nvlink\",\"bandwidth\":\"1GB/s\"}"), 5, 10,
     "itself"},
    {"no link kind", WITH_LINK("{\"from\":\"a\",\"to\":\"b\",\"bandwidth\":\"1GB/s\"}"), 5, 10,
     "kind"},
    {"no bandwidth", WITH_LINK("{\"from\":\"a\",\"to\":\"b\",\"kind\":\"nvlink\"}"), 5, 10,
     "bandwidth"},
    {"bandwidth without unit",
     WITH_LINK("{\"from\":\"a\",\"to\":\"b\",\"kind\":\"nvlink\",\"bandwidth\":\"25\"}"), 5, 59,
     "GB/s"},
    {"bare bandwidth",
     WITH_LINK("{\"from\":\"a\",\"to\":\"b\",\"kind\":\"nvlink\",\"bandwidth\":25}"), 5, 59, ""},
    {"zero bandwidth",
     WITH_LINK("{\"from\":\"a\",\"to\":\"b\",\"kind\":\"nvlink\",\"bandwidth\":\"0GB/s\"}"), 5, 59,
     ""},
    {"negative bandwidth",
     WITH_LINK("{\"from\":\"a\",\"to\":\"b\",\"kind\":\"nvlink\",\"bandwidth\":\"-1GB/s\"}"), 5, 59,
     ""},
    {"latency without unit",
     WITH_LINK("{\"from\":\"a\",\"to\":\"b\",\"kind\":\"x\",\"bandwidth\":\"1GB/s\",\n"
               "\"latency\":\"2\"}"),
     6, 11, "us"},
    {"negative latency",
     WITH_LINK("{\"from\":\"a\",\"to\":\"b\",\"kind\":\"x\",\"bandwidth\":\"1GB/s\",\n"
               "\"latency\":\"-2us\"}"),
     6, 11, ""},
    {"no lanes",
     WITH_LINK("{\"from\":\"a\",\"to\":\"b\",\"kind\":\"x\",\"bandwidth\":\"1GB/s\",\n"
               "\"lanes\":0}"),
     6, 9, "1 or more"},
    {"negative contention",
     WITH_LINK("{\"from\":\"a\",\"to\":\"b\",\"kind\":\"x\",\"bandwidth\":\"1GB/s\",\n"
               "\"contention\":-0.1}"),
     6, 14, "0 or more"},
    {"duplex is no word",
     WITH_LINK("{\"from\":\"a\",\"to\":\"b\",\"kind\":\"x\",\"bandwidth\":\"1GB/s\",\n"
               "\"duplex\":\"no\"}"),
     6, 10, ""},
    {"unknown link key",
     WITH_LINK("{\"from\":\"a\",\"to\":\"b\",\"kind\":\"x\",\"bandwidth\":\"1GB/s\",\n"
               "\"bandwith\":\"1GB/s\"}"),
     6, 0, "bandwidth"},
    {"group over an unknown device",
     WITH_REST("\"groups\":[{\"name\":\"g\",\"links\":[[\"a\",\"c\"]],\"bandwidth\":\"1GB/s\"}]"),
     6, 37, "no device \"c\""},
    {"group pair without a link",
     HEAD "\"devices\":[{\"id\":\"a\",\"kind\":\"gpu\",\"rank\":0},{\"id\":\"s\",\"kind\":"
          "\"switch\"}],\n\"links\":[{\"from\":\"a\",\"to\":\"s\",\"kind\":\"x\",\"bandwidth\":"
          "\"1GB/s\",\"duplex\":false}],\n"
          "\"groups\":[{\"name\":\"g\",\"links\":[[\"s\",\"a\"]],\"bandwidth\":\"1GB/s\"}]}",
     4, 32, "the other way"},
    {"group pair of three",
     WITH_REST("\"groups\":[{\"name\":\"g\",\"links\":[[\"a\",\"b\",\"a\"]],\"bandwidth\":"
               "\"1GB/s\"}]"),
     6, 32, "two"},
    {"pair twice",
     WITH_REST("\"groups\":[{\"name\":\"g\",\"links\":[[\"a\",\"b\"],[\"a\",\"b\"]],\"bandwidth\":"
               "\"1GB/s\"}]"),
     6, 11, "twice"},
    {"empty group", WITH_REST("\"groups\":[{\"name\":\"g\",\"links\":[],\"bandwidth\":\"1GB/s\"}]"),
     6, 11, "no links"},
    {"group without bandwidth",
     WITH_REST("\"groups\":[{\"name\":\"g\",\"links\":[[\"a\",\"b\"]]}]"), 6, 11, "bandwidth"},
    {"group without name",
     WITH_REST("\"groups\":[{\"links\":[[\"a\",\"b\"]],\"bandwidth\":\"1GB/s\"}]"), 6, 11, "name"},
    {"two groups of one name",
     WITH_REST("\"groups\":[{\"name\":\"g\",\"links\":[[\"a\",\"b\"]],\"bandwidth\":\"1GB/s\"},\n"
               "{\"name\":\"g\",\"links\":[[\"b\",\"a\"]],\"bandwidth\":\"1GB/s\"}]"),
     7, 1, "duplicate group"},
    {"unknown transport key", WITH_REST("\"transports\":{\"nvlink\":{\"tbrate\":\"1GB/s\"}}"), 6, 0,
     "tb_rate"},
    {"unknown protocol", WITH_REST("\"transports\":{\"nvlink\":{\"protocols\":{\"LL64\":{}}}}"), 6,
     0, "LL"},
    {"protocol in a protocol",
     WITH_REST("\"transports\":{\"nvlink\":{\"protocols\":{\"LL\":{\"protocols\":{}}}}}"), 6, 0,
     "protocols"},
    {"no slots", WITH_REST("\"transports\":{\"nvlink\":{\n\"slots\":0}}"), 6, 0, "slots"},
    {"no slices", WITH_REST("\"transports\":{\"nvlink\":{\n\"slices\":0}}"), 6, 0, "slices"},
    {"empty slice", WITH_REST("\"transports\":{\"nvlink\":{\n\"slice\":0}}"), 6, 0, "slice"},
    {"tb_rate without unit", WITH_REST("\"transports\":{\"nvlink\":{\n\"tb_rate\":\"20\"}}"), 7, 11,
     "GB/s"},
    {"negative overhead", WITH_REST("\"transports\":{\"nvlink\":{\n\"overhead\":\"-1us\"}}"), 7, 12,
     ""},
    {"transport is a list", WITH_REST("\"transports\":{\"nvlink\":[]}"), 6, 24, "object"},
    {"unknown model key", WITH_REST("\"gpu_models\":{\"M\":{\"rate\":\"1GB/s\"}}"), 6, 0, ""},
    {"zero reduce rate", WITH_REST("\"gpu_models\":{\"M\":{\n\"reduce_rate\":\"0GB/s\"}}"), 7, 15,
     ""},
    {"no sms", WITH_REST("\"gpu_models\":{\"M\":{\n\"sms\":0}}"), 7, 7, "1 or more"},
    {"launch without unit", WITH_REST("\"gpu_models\":{\"M\":{\n\"launch\":\"5\"}}"), 7, 10, "us"},
};

START_TEST(refused) {
    const row_t *row = &rows[_i];
    ccl_topology_t *topo = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_status_t status =
        ccl_topology_read_json(NULL, "f.json", row->text, strlen(row->text), &topo, &err);
    char line[1200];
    ccl_error_format(&err, line, sizeof line);
    ck_assert_msg(status == CCL_ERR_INPUT, "%s: accepted or %s", row->why, ccl_status_name(status));
    ck_assert_ptr_null(topo);
    ck_assert_str_eq(err.where, "f.json");
    ck_assert_msg(strstr(err.text, row->expect) != NULL, "%s: \"%s\" not in %s", row->why,
                  row->expect, line);
    ck_assert_msg(!strchr(err.text, '\n'), "%s: more than one line", row->why);
    ck_assert_msg(err.line > 0 && err.column > 0, "%s: no position in %s", row->why, line);
    ck_assert_msg(row->line == 0 || err.line == row->line, "%s: line %d expected: %s", row->why,
                  row->line, line);
    ck_assert_msg(row->column == 0 || err.column == row->column, "%s: column %d expected: %s",
                  row->why, row->column, line);
}
END_TEST

/* Without the fault the frame of the rows is fine, so each row is refused for its own reason. */
START_TEST(frame_is_accepted) {
    const char *texts[] = {WITH_LINK(LINK), WITH_REST("\"groups\":[]"),
                           WITH_REST("\"transports\":{\"nvlink\":{}},\n\"gpu_models\":{\"M\":{}}")};
    for (size_t i = 0; i < CCL_ARRAY_LEN(texts); i++) {
        ccl_topology_t *topo = NULL;
        MUST(ccl_topology_read_json(NULL, "f.json", texts[i], strlen(texts[i]), &topo, e));
        ccl_topology_destroy(topo);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("bad.topologies.json");
    TCase *tc = tcase_create("rows");
    tcase_add_loop_test(tc, refused, 0, (int)CCL_ARRAY_LEN(rows));
    tcase_add_test(tc, frame_is_accepted);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
