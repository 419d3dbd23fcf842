/* Nodes joined by a fabric: ids, ranks, rates, and the one-word form. */
#include "import_helpers.h"
#include "tests/topologies/topologies.h"

#include <math.h>
#include <unistd.h>

/* GPUs 0 and 1 on one CPU, a NIC beside each. */
static const char node[] =
    "<system version=\"1\"><cpu numaid=\"0\" arch=\"x86_64\" vendor=\"AuthenticAMD\" "
    "familyid=\"175\" modelid=\"1\">"
    "<pci busid=\"0000:10:00.0\" class=\"0x060400\" link_speed=\"16 GT/s\" link_width=\"16\">"
    "<pci busid=\"0000:11:00.0\" class=\"0x030200\" link_speed=\"16 GT/s\" link_width=\"16\">"
    "<gpu dev=\"0\" sm=\"86\" rank=\"0\"/></pci>"
    "<pci busid=\"0000:12:00.0\" class=\"0x020000\" link_speed=\"16 GT/s\" link_width=\"16\"><nic>"
    "<net name=\"m0\" speed=\"%d\" latency=\"2\"/><net name=\"m1\" speed=\"8000\"/></nic></pci>"
    "</pci>"
    "<pci busid=\"0000:20:00.0\" class=\"0x060400\" link_speed=\"16 GT/s\" link_width=\"16\">"
    "<pci busid=\"0000:21:00.0\" class=\"0x030200\" link_speed=\"16 GT/s\" link_width=\"16\">"
    "<gpu dev=\"1\" sm=\"86\" rank=\"1\"/></pci></pci></cpu></system>";

static ccl_topology_t *read_node(int speed_Mbitps) {
    char text[2000];
    snprintf(text, sizeof(text), node, speed_Mbitps);
    return import_logged(ccl_topology_read_nccl_xml, text, NULL);
}

START_TEST(test_single) {
    ccl_topology_t *a = read_node(80000), *b = read_node(40000), *t = NULL;
    const ccl_topology_t *nodes[] = {a, b, a};
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_msg(ccl_topology_join(NULL, nodes, 3, NULL, &t, &err) == CCL_OK, "%s", err.text);
    ck_assert_uint_eq(t->nranks, 6);
    ck_assert_uint_eq(t->nservers, 3);
    ck_assert_uint_eq(t->ngpu_models, 1);
    ck_assert_uint_eq(t->ntransports, a->ntransports);
    ck_assert_uint_eq(t->ngroups, 6);
    ck_assert_str_eq(t->name, "t+t+t");
    check_duplex(t, "n0/m0", "fabric", "net", 10.0, 1);
    check_duplex(t, "n1/m0", "fabric", "net", 5.0, 1);
    check_duplex(t, "n2/m1", "fabric", "net", 1.0, 1);
    ck_assert_uint_eq(device_of(t, "n1/fabric"), CCL_NONE);
    ck_assert_str_eq(t->devices[t->rank_device[3]].id, "n1/gpu1");
    for (uint32_t g = 0; g < t->ngroups; g++) /* of m0 and m1 of the same node */
        ck_assert_uint_eq(t->devices[t->links[t->groups[g].links[0]].from].server,
                          t->devices[t->links[t->groups[g].links[1]].to].server);
    check_all_routes(t);
    /* Half of the NIC's latency on each side, and the wider of its two ports. */
    ccl_routes_t *routes = ccl_routes_create(t);
    const ccl_route_t *route = NULL;
    ck_assert(ccl_routes_get(routes, 0, 4, 0, &route, NULL) == CCL_OK);
    ck_assert(fabs(route->latency_s - 2e-6) < 1e-15 && route->bottleneck_Bps == 10 * GB);
    ck_assert(ccl_routes_get(routes, 0, 2, 0, &route, NULL) == CCL_OK);
    ck_assert(route->bottleneck_Bps == 5 * GB);
    ccl_routes_destroy(routes);
    ccl_topology_destroy(t);
    ccl_topology_destroy(a);
    ccl_topology_destroy(b);
}
END_TEST

START_TEST(test_rail) {
    ccl_topology_t *a = read_node(80000), *t = NULL;
    const ccl_topology_t *nodes[] = {a, a};
    ccl_topology_join_options_t options = CCL_TOPOLOGY_JOIN_OPTIONS_INIT;
    options.fabric = CCL_JOIN_RAIL;
    options.name = "pair";
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_msg(ccl_topology_join(NULL, nodes, 2, &options, &t, &err) == CCL_OK, "%s", err.text);
    ck_assert_str_eq(t->name, "pair");
    check_duplex(t, "n0/m0", "fabric/rail0", "net", 10.0, 1);
    check_duplex(t, "n1/m1", "fabric/rail1", "net", 1.0, 1);
    check_duplex(t, "fabric/rail0", "fabric/spine", "net", 20.0, 1);
    check_duplex(t, "fabric/rail1", "fabric/spine", "net", 2.0, 1);
    ck_assert(rate_Bps(t, "n0/m0", "fabric/rail1", "net", NULL) == 0);
    check_all_routes(t);
    ccl_topology_destroy(t);
    ccl_topology_destroy(a);
}
END_TEST

START_TEST(test_refusals) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_topology_t *a = import_logged(
        ccl_topology_read_nccl_xml,
        "<system><cpu><pci><gpu dev=\"0\"/></pci><pci><gpu dev=\"1\"/></pci></cpu></system>", NULL);
    const ccl_topology_t *nodes[] = {a, a};
    ccl_topology_t *t = NULL;
    ck_assert_int_eq(ccl_topology_join(NULL, nodes, 2, NULL, &t, &err), CCL_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(err.text, "has no net links"));
    ccl_error_clear(&err);
    ck_assert_int_eq(ccl_topology_join(NULL, nodes, 0, NULL, &t, &err), CCL_ERR_INPUT);
    ccl_error_clear(&err);
    ck_assert_int_eq(ccl_topology_join(NULL, nodes, 5000, NULL, &t, &err), CCL_ERR_INPUT);
    /* One node alone needs no network. */
    ccl_error_clear(&err);
    ck_assert_msg(ccl_topology_join(NULL, nodes, 1, NULL, &t, &err) == CCL_OK, "%s", err.text);
    ccl_topology_destroy(t);
    ccl_topology_destroy(a);
}
END_TEST

/** The format with `path` for each %s. */
static void fill_in(const char *format, const char *path, char *out, size_t size) {
    size_t n = 0;
    for (const char *c = format; *c && n + strlen(path) + 1 < size; c++) {
        if (c[0] == '%' && c[1] == 's') {
            memcpy(out + n, path, strlen(path));
            n += strlen(path);
            c++;
        } else {
            out[n++] = *c;
        }
    }
    out[n] = '\0';
}

START_TEST(test_one_word) {
    char path[] = "/tmp/ccl_join_XXXXXX.xml", text[2000], spec[400];
    int fd = mkstemps(path, 4);
    ck_assert_int_ge(fd, 0);
    snprintf(text, sizeof(text), node, 80000);
    ck_assert_int_eq((int)write(fd, text, strlen(text)), (int)strlen(text));
    close(fd);
    static const struct {
        const char *format;
        uint32_t gpus; /* 0: refused */
        const char *needs, *why;
    } rows[] = {
        {"%s*3", 6, NULL, "a count"},
        {"%s+%s", 4, NULL, "two files"},
        {"%s*2+%s", 6, NULL, "count and file"},
        {"%s*2,fabric=rail", 4, NULL, "rails"},
        {"%s,fabric=single", 2, NULL, "one"},
        {"%s*2,fabric=ring", 0, "neither single nor rail", "no such fabric"},
        {"%s*0", 0, "1 to 4096 nodes", "none"},
        {"%s*99999999999", 0, "1 to 4096 nodes", "very many"},
        {"%s*2*2", 0, "one count a node", "two counts"},
        {"%s+", 0, "nothing behind the last", "one end"},
        {"%s*2+no-such-file", 0, "no-such-file", "no file"},
        {"*2", 0, "without a name", "no name"},
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_error_t err = CCL_ERROR_INIT;
        ccl_topology_t *t = NULL;
        fill_in(rows[i].format, path, spec, sizeof spec);
        ck_assert_msg(ccl_topology_is_nodes(spec), "%s", rows[i].why);
        ccl_status_t status = ccl_topology_read_nodes(NULL, spec, &t, &err);
        if (rows[i].gpus) {
            ck_assert_msg(status == CCL_OK, "%s: %s", rows[i].why, err.text);
            ck_assert_msg(t->nranks == rows[i].gpus, "%s: %u", rows[i].why, t->nranks);
            ccl_topology_destroy(t);
        } else {
            ck_assert_msg(status == CCL_ERR_INPUT, "%s: %s", rows[i].why, ccl_status_name(status));
            ck_assert_msg(strstr(err.text, rows[i].needs), "%s: %s", rows[i].why, err.text);
        }
    }
    unlink(path);
}
END_TEST

/* Names of the library and one-liners are not nodes. */
START_TEST(test_not_nodes) {
    static const char *const others[] = {"heteccl-h20-4+8",
                                         "heteccl-v100-8x2+4",
                                         "dgx-a100",
                                         "-",
                                         "servers:4 gpus:8 nvswitch=300GB/s,0.7us",
                                         "gpus:8 fabric=rail",
                                         "a.xml b.xml*2",
                                         "a.xml",
                                         ""};
    for (size_t i = 0; i < CCL_ARRAY_LEN(others); i++)
        ck_assert_msg(!ccl_topology_is_nodes(others[i]), "%s", others[i]);
    ck_assert(ccl_topology_is_nodes("heteccl-h20-4+8*2"));
    ck_assert(ccl_topology_is_nodes("heteccl-h20-4+8*2 fabric=rail"));
}
END_TEST

/* Servers of the library and of files are joined by their ports: the same as a cluster of them. */
START_TEST(test_servers) {
    static const struct {
        const char *spec, *same;
    } rows[] = {
        {"hetccl-hw2-x8+hetccl-hw3-x8", "hetccl-pku-hw2+hw3"},
        {"hetccl-hw2-x8*1+hetccl-hw3-x8*1", "hetccl-pku-hw2+hw3"},
        {"a800-x8+hetccl-hw1-x16,fabric=single", "hetccl-pku-a800+hw1"},
        {"%s+hetccl-hw3-x8", "hetccl-pku-hw2+hw3"},
    };
    char path[] = "/tmp/ccl_join_XXXXXX.json", spec[200];
    const ccl_library_entry_t *server = ccl_topology_library_find("hetccl-hw2-x8");
    int fd = mkstemps(path, 5);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq((int)write(fd, server->text, server->len), (int)server->len);
    close(fd);
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_topology_t *t = NULL, *same = NULL;
        const char *file = strstr(rows[i].spec, "%s");
        snprintf(spec, sizeof spec, "%s%s", file ? path : "", rows[i].spec + (file ? 2 : 0));
        t = topology(spec);
        same = topology(rows[i].same);
        ck_assert_uint_eq(t->nranks, same->nranks);
        ck_assert_uint_eq(t->nlinks, same->nlinks);
        ck_assert_uint_eq(t->ngpu_models, same->ngpu_models);
        double sum = 0, want = 0;
        for (uint32_t l = 0; l < t->nlinks; l++) {
            sum += t->links[l].bandwidth_Bps + t->links[l].latency_s;
            want += same->links[l].bandwidth_Bps + same->links[l].latency_s;
        }
        ck_assert_msg(fabs(sum - want) <= 1e-12 * want, "%s: %g and %g", spec, sum, want);
        ccl_topology_destroy(same);
        ccl_topology_destroy(t);
    }
    unlink(path);
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_topology_t *t = NULL;
    ck_assert_int_eq(ccl_topology_read(NULL, "dgx-a100 + mi300x-x8", &t, &err), CCL_ERR_INPUT);
    ck_assert_msg(strstr(err.text, "A*2+B, without blanks"), "%s", err.text);
    ck_assert_int_eq(ccl_topology_read(NULL, "host:4+dgx-a100*2", &t, &err), CCL_ERR_INPUT);
}
END_TEST

/* Nodes whose transports are unlike: the first one's count, said once for a node, all of them
 * named. */
START_TEST(test_unlike) {
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ccl_text_t log = {0};
    ccl_topology_t *t = NULL;
    ctx.log = keep_log;
    ctx.log_user = &log;
    ck_assert_int_eq(ccl_topology_read(&ctx, "dgx-a100+mi300x-x8", &t, NULL), CCL_OK);
    ck_assert_ptr_nonnull(log.data);
    ck_assert_str_eq(strstr(log.data, "join"),
                     "join node 1 has other transports than an earlier node, whose count: "
                     "net, net LL, net LL128\n");
    ck_assert_uint_eq(strcspn(log.data, "\n") + 1, log.len); /* one line */
    ccl_text_fini(&log);
    ccl_topology_destroy(t);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("join");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, test_single);
    tcase_add_test(tc, test_rail);
    tcase_add_test(tc, test_refusals);
    tcase_add_test(tc, test_one_word);
    tcase_add_test(tc, test_not_nodes);
    tcase_add_test(tc, test_servers);
    tcase_add_test(tc, test_unlike);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
