/* Malformed HeteCCL descriptions: each refused with the place and what would be right. */
#include "import_helpers.h"

#define NODES "define nodenum = 2\ndefine node1 = 2\n"
#define BOTH NODES "define node2 = 2\n"

static const bad_row_t rows[] = {
    {"", 1, 1, "no \"define nodenum", "empty"},
    {"# nothing\n", 2, 1, "no \"define nodenum", "only a comment"},
    {"nodenum = 2", 1, 1, "expected \"define\", not \"nodenum\"", "no define"},
    {"define nodenum 2", 1, 16, "expected \"=\"", "no ="},
    {"define nodenum = two", 1, 18, "the number of nodes", "number in words"},
    {"define nodenum = 0", 1, 18, "from 1 to 4096", "no nodes"},
    {"define nodenum = 5000", 1, 18, "from 1 to 4096", "too many nodes"},
    {"define nodenum = 2.5", 1, 18, "a whole number", "half a node"},
    {"define nodenum = 1 define nodenum = 1", 1, 27, "nodenum defined twice", "twice"},
    {"define node1 = 2", 1, 8, "nodenum = ...\" must come first", "node before nodenum"},
    {"define nodenum = 1 define node2 = 2", 1, 27, "node2 is not one of node1 to node1",
     "no such node"},
    {"define nodenum = 1 define node0 = 2", 1, 27, "node0 is not one of", "nodes count from 1"},
    {NODES "define node1 = 2", 3, 8, "node1 defined twice", "node twice"},
    {NODES, 3, 1, "node2 of 2 is not defined", "node missing"},
    {"define nodenum = 1 define node1 = 9000", 1, 35, "from 1 to 8192", "too many gpus"},
    {"define nodenum = 2 define node1 = 8000 define node2 = 8000", 1, 47, "more than 8192 gpus",
     "too many gpus in all"},
    {"define bandwidht = 2", 1, 8, "did you mean bandwidth", "misspelt"},
    {"define 7 = 2", 1, 8, "cannot define \"7\"", "a number"},
    {"define", 1, 7, "cannot define the end", "cut"},
    {"define nodenum = 1\ndefine bandwidth = {direct => []}", 2, 8,
     "must follow the node it belongs to", "bandwidth of no node"},
    {NODES "define bandwidth = [", 3, 20, "expected \"{\"", "wrong bracket"},
    {NODES "define bandwidth = {ring => []}", 3, 21, "expected direct or switch", "unknown kind"},
    {NODES "define bandwidth = {direct = []}", 3, 28, "expected \"=>\", not \"=\"", "= for =>"},
    {NODES "define bandwidth = {direct => (0,1)}", 3, 31, "expected \"[\"", "no list"},
    {NODES "define bandwidth = {direct => [((0,1) -> (25,2))", 3, 49, "expected \",\" or \"]\"",
     "cut in the list"},
    {NODES "define bandwidth = {direct => [((0,1) >-> (25,2))]}", 3, 39, "expected \"->\"",
     "switch arrow in direct"},
    {NODES "define bandwidth = {switch => [((0,1) -> (25,2))]}", 3, 39, "expected \">->\"",
     "direct arrow in switch"},
    {NODES "define bandwidth = {direct => [((0,1) - (25,2))]}", 3, 39, "unexpected \"-\"",
     "half an arrow"},
    {NODES "define bandwidth = {direct => [((0,2) -> (25,2))]}", 3, 36, "node1 has no gpu 2",
     "no such gpu"},
    {NODES "define bandwidth = {direct => [((0,0) -> (25,2))]}", 3, 36, "gpu 0 twice", "to itself"},
    {NODES "define bandwidth = {direct => [((0) -> (25,2))]}", 3, 32, "joins one pair", "one gpu"},
    {NODES "define bandwidth = {switch => [((0) >-> (25,2))]}", 3, 32, "joins nothing",
     "switch of one gpu"},
    {NODES "define bandwidth = {switch => [((0,1),(1) >-> (25,2))]}", 3, 32, "gpu 1 in two tuples",
     "gpu in two PCIe switches"},
    {NODES "define bandwidth = {direct => [((0,1) -> (0,2))]}", 3, 43, "above 0", "no bandwidth"},
    {NODES "define bandwidth = {direct => [((0,1) -> (-5,2))]}", 3, 43, "unexpected \"-\"",
     "negative"},
    {NODES "define bandwidth = {direct => [((0,1) -> (25GB/s,2))]}", 3, 43, "a bare number",
     "a unit"},
    {NODES "define bandwidth = {direct => [((0,1) -> (1e9,2))]}", 3, 43, "at most 1e6",
     "bytes per second"},
    {NODES "define bandwidth = {direct => [((0,1) -> (25))]}", 3, 45, "expected \",\"",
     "no numlinks"},
    {NODES "define bandwidth = {direct => [((0,1) -> (25,0))]}", 3, 46, "numlinks", "no links"},
    {NODES "define bandwidth = {direct => [((0,1) -> (25,1)))]}", 3, 49, "unmatched \")\"",
     "one bracket too many"},
    {NODES "define bandwidth = {direct => [((0,1) -> (25,1)) ((1,0) -> (25,1))]}", 3, 50,
     "expected \",\" or \"]\"", "no comma"},
    {NODES "define bandwidth = {direct => [((0,1) -> (25,1))]", 3, 50, "expected \"}\"",
     "not closed"},
    {NODES "define bandwidth = {direct => [((0,1)->(1,1)), ((0,1)->(2,1))]}\ndefine node2 = 1", 3,
     48, "direct link (0,1) of node1 given twice", "link twice"},
    {NODES "define internode = (node1, node2)", 3, 28, "node2 is not defined yet",
     "internode too early"},
    {BOTH "define internode = (node1)", 4, 26, "joins two or more", "of one node"},
    {BOTH "define internode = (node1, node1)", 4, 28, "node1 twice", "with itself"},
    {BOTH "define interbandwidth = {switch => []}", 4, 8, "must follow the internode",
     "no internode"},
    {BOTH "define internode = (node1,node2)\n"
          "define interbandwidth = {direct => [((0),(0) -> (1,1))]}",
     5, 26, "joined by switch lists", "direct between nodes"},
    {BOTH "define internode = (node1,node2)\n"
          "define interbandwidth = {switch => [((0) >-> (1,1))]}",
     5, 37, "1 tuples of gpus for an internode of 2", "one side only"},
    {BOTH "define internode = (node1,node2)\n"
          "define interbandwidth = {switch => [((0),(1),(1) >-> (1,1))]}",
     5, 46, "more tuples of gpus than the 2 nodes", "three sides"},
    {BOTH "define latency = {tcp => 1us}", 4, 19, "expected nvlink, pcie or net", "unknown kind"},
    {BOTH "define latency = {net => 1}", 4, 26, "a time with a unit", "no unit"},
    {BOTH "define latency = {net => fast}", 4, 26, "a time with a unit", "in words"},
    {BOTH "define nodenum ~ 2", 4, 16, "unexpected \"~\"", "odd character"},
    {BOTH "\x01", 4, 1, "unexpected byte 0x01", "control character"},
    {"define nodenum = 1 define node1 = 2", 0, 0, "gpu", "gpus that nothing joins"},
};

START_TEST(test_rows) {
    check_bad(ccl_topology_read_heteccl, rows, CCL_ARRAY_LEN(rows));
}
END_TEST

/* Very many brackets, gpus and entries are refused or read in little time. */
START_TEST(test_bounds) {
    static const char head[] = "define nodenum = 1 define node1 = 8192 define bandwidth = {";
    ccl_text_t text = {0};
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_topology_t *topo = NULL;
    ccl_text_printf(&text, "%sswitch => [", head);
    for (int i = 0; i < 1000000; i++)
        ccl_text_printf(&text, "(");
    double start_s = ccl_now_s();
    ck_assert_int_eq(ccl_topology_read_heteccl(NULL, "t.in", text.data, text.len, &topo, &err),
                     CCL_ERR_INPUT);
    ccl_text_fini(&text);
    text = (ccl_text_t){0};
    ccl_error_clear(&err);
    ccl_text_printf(&text, "%sdirect => [", head);
    for (int i = 0; i < 600000; i++)
        ccl_text_printf(&text, "((0,1)->(1,1)),");
    ck_assert_int_eq(ccl_topology_read_heteccl(NULL, "t.in", text.data, text.len, &topo, &err),
                     CCL_ERR_INPUT);
    ck_assert_msg(strstr(err.text, "gpu numbers"), "%s", err.text);
    ck_assert(ccl_now_s() - start_s < 10.0);
    ccl_text_fini(&text);
}
END_TEST

START_TEST(test_truncation) {
    static const char good[] = "define nodenum=2 define node1=1 define node2=2 define bandwidth={"
                               "direct=>[((0,1)->(1,1)),((1,0)->(1,1))]} define internode=(node1,"
                               "node2) define interbandwidth={switch=>[((0),(0,1)>->(8,1))]}";
    for (size_t len = 0; len < sizeof(good) - 1; len++) {
        ccl_topology_t *topo = NULL;
        ccl_error_t err = CCL_ERROR_INIT;
        ck_assert_int_eq(ccl_topology_read_heteccl(NULL, "t.in", good, len, &topo, &err),
                         CCL_ERR_INPUT);
        ck_assert(err.text[0] != '\0');
    }
    ccl_topology_destroy(import_logged(ccl_topology_read_heteccl, good, NULL));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("bad_heteccl");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, test_rows);
    tcase_add_test(tc, test_bounds);
    tcase_add_test(tc, test_truncation);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
