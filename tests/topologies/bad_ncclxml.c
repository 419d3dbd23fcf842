/* Malformed NCCL XML: one clear line each, bounded time and memory. */
#include "import_helpers.h"

#define BEFORE                                                                                     \
    "<system version=\"1\">\n<cpu numaid=\"0\">\n<pci busid=\"0000:01:00.0\" "                     \
    "class=\"0x030200\">\n"
#define AFTER "</pci></cpu></system>"

static const bad_row_t rows[] = {
    {"", 1, 0, "no element found", "empty"},
    {"hello", 0, 0, "not well-formed", "no XML at all"},
    {"<system>", 1, 9, "not well-formed", "not closed"},
    {"<system>\n <cpu></system>", 2, 9, "mismatched tag", "crossed elements"},
    {"<topology/>", 1, 1, "must be <system> or <graphs>", "another document"},
    {"<system version=\"1\"/>", 1, 1, "no <cpu>", "nothing in it"},
    {"<system>\n <cpu numaid=\"0\"/>\n</system>", 1, 1, "no gpu", "no gpu"},
    {"<system><cpu><pci busid=\"0000:01:00.0\"/></cpu></system>", 1, 1, "no gpu",
     "a leaf of no class is no gpu"},
    {"<!DOCTYPE s [<!ENTITY a \"b\">]><system/>", 1, 0, "entity declarations are not allowed",
     "an entity"},
    {"<!DOCTYPE s [<!ENTITY a \"x\"><!ENTITY b \"&a;&a;&a;\">]><system>&b;</system>", 1, 0,
     "entity declarations are not allowed", "a billion laughs"},
    {"<!DOCTYPE s [<!ENTITY % a SYSTEM \"file:///etc/passwd\">%a;]><system/>", 1, 0,
     "entity declarations are not allowed", "an outside entity"},
    {BEFORE "<gpu dev=\"x\"/>" AFTER, 4, 1, "dev \"x\" is not a whole number", "dev"},
    {BEFORE "<gpu dev=\"0\" sm=\"-3\"/>" AFTER, 4, 1, "sm -3 is not in", "negative sm"},
    {BEFORE "<gpu dev=\"0\" rank=\"99999999999999999999\"/>" AFTER, 4, 1,
     "rank \"99999999999999999999\" is not a whole number", "overflow"},
    {BEFORE "<gpu dev=\"0\" sm=\"80\">\n<nvlink target=\"0000:02:00.0\" count=\"0\" "
            "tclass=\"0x03\"/></gpu>" AFTER,
     5, 1, "count 0 is not in 1 to 4096", "zero links"},
    {BEFORE "<gpu dev=\"0\" sm=\"80\">\n<nvlink target=\"0000:02:00.0\" count=\"1000000\" "
            "tclass=\"0x03\"/></gpu>" AFTER,
     5, 1, "count 1000000 is not in", "a million links"},
    {BEFORE "<gpu dev=\"0\" sm=\"80\">\n<nvlink count=\"1\" tclass=\"0x030200\"/></gpu>" AFTER, 5,
     1, "no target", "link to nowhere"},
    {BEFORE "<gpu dev=\"0\" sm=\"80\">\n<nvlink target=\"zz\" count=\"1\" tclass=\"0x03\"/>"
            "</gpu>" AFTER,
     5, 1, "target \"zz\" is no PCI address", "bad target"},
    {BEFORE "<gpu dev=\"0\" sm=\"80\">\n<c2c count=\"1\"/></gpu>" AFTER, 5, 1, "c2c needs a bw",
     "c2c of no speed"},
    {"<system><cpu>\n<pci busid=\"1:2\"><gpu dev=\"0\"/></pci></cpu></system>", 2, 1,
     "busid \"1:2\" is no PCI address", "half an address"},
    {"<system><cpu>\n<pci busid=\"0000:001:00.0:0\"><gpu dev=\"0\"/></pci></cpu></system>", 2, 1,
     "is no PCI address", "too long an address"},
    {"<system><cpu>\n<pci busid=\"0000:01:00.0\" link_width=\"many\"><gpu dev=\"0\"/></pci></cpu>"
     "</system>",
     2, 1, "link_width \"many\"", "width in words"},
    {"<system><cpu>\n<pci busid=\"0000:01:00.0\" link_width=\"65\"><gpu dev=\"0\"/></pci></cpu>"
     "</system>",
     2, 1, "link_width 65 is not in 0 to 64", "too wide"},
    {"<system>\n<cpu familyid=\"six\"><pci><gpu dev=\"0\"/></pci></cpu></system>", 2, 1,
     "familyid \"six\"", "family in words"},
    {"<system><cpu>\n<gpu dev=\"0\"/></cpu></system>", 2, 1, "must stand in a <pci>",
     "a gpu on the CPU"},
    {"<system><cpu><pci><gpu dev=\"0\"/></pci>\n<nic>\n<net name=\"a\" speed=\"fast\"/></nic></cpu>"
     "</system>",
     3, 1, "speed \"fast\"", "speed in words"},
    {"<system><cpu><pci><gpu dev=\"0\"/></pci>\n<nic>\n<net name=\"a\" speed=\"1\" "
     "latency=\"nan\"/></nic></cpu></system>",
     3, 1, "latency \"nan\" is not a number", "no latency"},
    {"<system><cpu><pci><gpu dev=\"0\"/></pci>\n<nic>\n<net name=\"a\" speed=\"1\" "
     "latency=\"-1\"/></nic></cpu></system>",
     3, 1, "latency -1 is not in", "negative latency"},
    {"<graphs/>", 1, 1, "no <graph> with a <channel>", "no graph"},
    {"<graphs>\n<graph id=\"0\" speedintra=\"1\"/></graphs>", 1, 1, "no <graph> with a <channel>",
     "graph without channels"},
    {"<graphs>\n<graph id=\"0\"><channel><gpu dev=\"0\"/></channel></graph></graphs>", 2, 1,
     "must be above 0", "graph without speed"},
    {"<graphs>\n<graph id=\"0\" speedintra=\"1\">\n<channel/></graph></graphs>", 3, 1, "no <gpu>",
     "empty channel"},
    {"<graphs>\n<graph id=\"0\" speedintra=\"1\">\n<channel>\n<gpu/></channel></graph></graphs>", 4,
     1, "no dev", "gpu without dev"},
    {"<system>\n<group name=\"x\"/></system>", 2, 1, "no gpu and no slot", "empty group"},
    {"<system><group name=\"x\"><cpu><pci><gpu dev=\"0\"/>\n<nic/></pci></cpu></group></system>", 2,
     1, "a nic needs an id", "nic without id"},
};

START_TEST(test_rows) {
    check_bad(ccl_topology_read_nccl_xml, rows, CCL_ARRAY_LEN(rows));
}
END_TEST

/* head, then n times body, then tail; must be refused with `needs`. */
static void check_long(const char *head, const char *body, uint32_t n, const char *tail,
                       const char *needs) {
    ccl_text_t text = {0};
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_topology_t *topo = NULL;
    ccl_text_printf(&text, "%s", head);
    for (uint32_t i = 0; i < n; i++)
        ccl_text_printf(&text, "%s", body);
    ccl_text_printf(&text, "%s", tail);
    ck_assert(!text.nomem);
    double start_s = ccl_now_s();
    ck_assert_int_eq(ccl_topology_read_nccl_xml(NULL, "t.in", text.data, text.len, &topo, &err),
                     CCL_ERR_INPUT);
    ck_assert_msg(strstr(err.text, needs), "\"%s\" lacks \"%s\"", err.text, needs);
    ck_assert_msg(ccl_now_s() - start_s < 10.0, "%s took %g s", needs, ccl_now_s() - start_s);
    ccl_text_fini(&text);
}

START_TEST(test_bounds) {
    check_long("<system>", "<pci>", 1000, "", "nested deeper than 64");
    check_long("<system>", "<a/>", 300000, "</system>", "more than 262144 elements");
    check_long("<system><cpu>", "<pci><gpu/></pci>", 2000, "</cpu></system>",
               "more than 1024 gpus");
    check_long("<system>", "<cpu/>", 300, "</system>", "more than 256 cpus");
    check_long("<system><cpu><nic>", "<net speed=\"1\"/>", 70000, "</nic></cpu></system>",
               "more than 65536 devices");
    check_long("<system a=\"", "xxxxxxxxxxxxxxxx", 1000, "\"/>", "more than 4096 bytes");
}
END_TEST

/* Cut anywhere, a good file is refused or read, never more than one line, never a crash. */
START_TEST(test_truncation) {
    static const char good[] =
        "<system version=\"1\"><cpu numaid=\"0\" arch=\"x86_64\"><pci busid=\"0000:01:00.0\" "
        "class=\"0x030200\"><gpu dev=\"0\" sm=\"80\"><nvlink target=\"0000:02:00.0\" count=\"1\" "
        "tclass=\"0x030200\"/></gpu></pci><pci busid=\"0000:02:00.0\"><gpu dev=\"1\" sm=\"80\"/>"
        "</pci><nic><net name=\"a\" speed=\"1\"/></nic></cpu></system>";
    for (size_t len = 0; len < sizeof(good) - 1; len++) {
        ccl_topology_t *topo = NULL;
        ccl_error_t err = CCL_ERROR_INIT;
        ck_assert_int_eq(ccl_topology_read_nccl_xml(NULL, "t.in", good, len, &topo, &err),
                         CCL_ERR_INPUT);
        ck_assert(err.text[0] != '\0');
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("bad_ncclxml");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, test_rows);
    tcase_add_test(tc, test_bounds);
    tcase_add_test(tc, test_truncation);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
