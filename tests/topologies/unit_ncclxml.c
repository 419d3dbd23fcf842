/* NCCL topology XML: each constant and each rule on a machine small enough to check by hand. */
#include "import_helpers.h"

#include <strings.h>

#include "topologies/readers/nccl/nccl_presets.h"

static ccl_topology_t *read_xml(const char *text) {
    return import_logged(ccl_topology_read_nccl_xml, text, NULL);
}

/* Two CPUs, a bridge on each, GPU and NIC below; NVLink 0 -> 1 of 2, 1 -> 0 of 3 links. */
static const char two[] =
    "<system version=\"1\">\n"
    " <cpu numaid=\"0\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"85\">\n"
    "  <pci busid=\"0000:01:00.0\" class=\"0x060400\" link_speed=\"16.0 GT/s PCIe\" "
    "link_width=\"16\">\n"
    "   <pci busid=\"0000:02:00.0\" class=\"0x030200\" link_speed=\"8 GT/s\" link_width=\"8\">\n"
    "    <gpu dev=\"0\" sm=\"70\" rank=\"0\" gdr=\"1\">\n"
    "     <nvlink target=\"0000:82:00.0\" count=\"2\" tclass=\"0x030200\"/>\n"
    "    </gpu>\n"
    "   </pci>\n"
    "   <pci busid=\"0000:03:00.0\" class=\"0x020000\" link_speed=\"2.5 GT/s\" link_width=\"4\">\n"
    "    <nic><net name=\"mlx5_0\" dev=\"0\" speed=\"100000\" port=\"1\" latency=\"3.0\" "
    "guid=\"0x1\"/></nic>\n"
    "   </pci>\n"
    "  </pci>\n"
    " </cpu>\n"
    " <cpu numaid=\"1\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"143\">\n"
    "  <pci busid=\"0000:81:00.0\" class=\"0x060400\" link_speed=\"32 GT/s\" link_width=\"16\">\n"
    "   <pci busid=\"0000:82:00.0\" class=\"0x030200\" link_speed=\"Unknown\" link_width=\"0\">\n"
    "    <gpu dev=\"1\" sm=\"70\" rank=\"1\" gdr=\"1\">\n"
    "     <nvlink target=\"0000:02:00.0\" count=\"3\" tclass=\"0x030200\"/>\n"
    "    </gpu>\n"
    "   </pci>\n"
    "  </pci>\n"
    " </cpu>\n"
    "</system>\n";

START_TEST(test_two_gpus) {
    ccl_topology_t *t = read_xml(two);
    ck_assert_uint_eq(t->nranks, 2);
    ck_assert_uint_eq(t->nservers, 1);
    /* width x code / 80: 8 x 60 / 80, 16 x 120 / 80, 4 x 15 / 80, 16 x 240 / 80; unknown 16 x 60.
     */
    check_duplex(t, "gpu0", "pci0000:01:00.0", "pcie", 6.0, 1);
    check_duplex(t, "pci0000:01:00.0", "cpu0", "pcie", 24.0, 1);
    check_duplex(t, "mlx5_0", "pci0000:01:00.0", "pcie", 0.75, 1);
    check_duplex(t, "pci0000:81:00.0", "cpu1", "pcie", 48.0, 1);
    check_duplex(t, "gpu1", "pci0000:81:00.0", "pcie", 12.0, 1);
    check_link(t, "gpu0", "gpu1", "nvlink", 50.0, 2); /* as given, per direction */
    check_link(t, "gpu1", "gpu0", "nvlink", 75.0, 3);
    check_link(t, "cpu0", "cpu1", "upi", 10.0, 1); /* Skylake's */
    check_link(t, "cpu1", "cpu0", "upi", 22.0, 1); /* Sapphire Rapids' */
    check_duplex(t, "mlx5_0", "fabric", "net", 12.5, 1);
    for (uint32_t l = 0; l < t->nlinks; l++) {
        bool net = strcmp(t->kinds[t->links[l].kind], "net") == 0;
        const char *kind = t->kinds[t->links[l].kind];
        /* its own of the net; else the library's: a direct NVLink, PCIe of a GPU and others, CPUs
         */
        bool gpu = t->devices[t->links[l].from].kind == CCL_DEVICE_GPU ||
                   t->devices[t->links[l].to].kind == CCL_DEVICE_GPU;
        double wanted_s = net                           ? 1.5e-6
                          : strcmp(kind, "nvlink") == 0 ? 0.7e-6
                          : strcmp(kind, "upi") == 0    ? 0.5e-6
                          : gpu                         ? 0.25e-6
                                                        : 0.1e-6;
        ck_assert(fabs(t->links[l].latency_s - wanted_s) < 1e-15);
    }
    ck_assert_uint_eq(t->nlinks, 2 + 5 * 2 + 2 + 2);
    ck_assert_str_eq(t->gpu_models[0].name, "V100");
    ck_assert_str_eq(t->gpu_models[0].vendor, "NVIDIA");
    check_all_routes(t);
    ccl_topology_destroy(t);
}
END_TEST

#define GPU_AT(bus_, inside_)                                                                      \
    "<pci busid=\"" bus_ "\" class=\"0x030200\" link_speed=\"16 GT/s\" link_width=\"16\">" inside_ \
    "</pci>"
#define CPU(inside_)                                                                               \
    "<cpu numaid=\"0\" arch=\"x86_64\" vendor=\"AuthenticAMD\" familyid=\"143\" "                  \
    "modelid=\"49\">" inside_ "</cpu>"
#define SYSTEM(inside_) "<system version=\"1\">" inside_ "</system>"

START_TEST(test_nvswitch_and_cpu_links) {
    ccl_topology_t *t = read_xml(SYSTEM(CPU(
        GPU_AT("0000:01:00.0", "<gpu dev=\"0\" sm=\"80\" rank=\"0\">"
                               "<nvlink target=\"0000:c0:00.0\" count=\"2\" tclass=\"0x068000\"/>"
                               "<nvlink target=\"0000:c1:00.0\" count=\"4\" tclass=\"0x068000\"/>"
                               "</gpu>")
            GPU_AT("0000:02:00.0",
                   "<gpu dev=\"1\" sm=\"80\" rank=\"1\">"
                   "<nvlink target=\"0000:c0:00.0\" count=\"6\" tclass=\"0x068000\"/>"
                   "<nvlink target=\"0000:d0:00.0\" count=\"3\" tclass=\"0x068001\"/>"
                   "</gpu>"))));
    /* All NVSwitches are one, as NCCL has it. */
    check_duplex(t, "gpu0", "nvswitch", "nvlink", 150.0, 6);
    check_duplex(t, "gpu1", "nvswitch", "nvlink", 150.0, 6);
    check_duplex(t, "gpu1", "cpu0", "nvlink", 75.0, 3);
    check_duplex(t, "gpu1", "cpu0", "pcie", 24.0, 1);
    check_all_routes(t);
    ccl_topology_destroy(t);
}
END_TEST

START_TEST(test_xgmi_rates) {
    static const struct {
        const char *gcn;
        double GBps;
        const char *model, *why;
    } rows[] = {
        {"906", 24.0, "gfx906", "MI50"},
        {"908", 24.0, "gfx908", "MI100"},
        {"910", 36.0, "MI250", "MI200, RCCL's old number"},
        {"gfx90a:sramecc+", 36.0, "MI250", "with features"},
        {"940", 48.0, "MI300X", "MI300A, taken for it"},
        {"gfx942", 48.0, "MI300X", "MI300X"},
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        char text[1500];
        snprintf(text, sizeof(text),
                 SYSTEM(CPU("<pci busid=\"01:00.0\" class=\"0x038000\"><gpu dev=\"0\" sm=\"104\" "
                            "gcn=\"%s\" rank=\"0\"><xgmi target=\"0000:02:00.0\" count=\"4\" "
                            "tclass=\"0x038000\"/></gpu></pci>"
                            "<pci busid=\"02:00.0\" class=\"0x120000\"><gpu dev=\"1\" sm=\"104\" "
                            "gcn=\"%s\" rank=\"1\"><xgmi target=\"0000:01:00.0\" count=\"4\" "
                            "tclass=\"0x120000\"/></gpu></pci>")),
                 rows[i].gcn, rows[i].gcn);
        ccl_topology_t *t = read_xml(text);
        check_duplex(t, "gpu0", "gpu1", "xgmi", 4 * rows[i].GBps, 4);
        ck_assert_str_eq(t->gpu_models[0].name, rows[i].model);
        ck_assert_int_eq(strcasecmp(t->gpu_models[0].vendor, "amd"), 0);
        ck_assert_uint_eq(t->gpu_models[0].sms, 104);
        ccl_topology_destroy(t);
    }
}
END_TEST

START_TEST(test_constants) {
    static const struct {
        uint32_t sm;
        double GBps;
    } nvlink[] = {{60, 18}, {70, 20}, {80, 20}, {86, 12}, {90, 20.6}, {100, 40.1}, {103, 40.1}};
    for (size_t i = 0; i < CCL_ARRAY_LEN(nvlink); i++)
        ck_assert(ccl_i_nccl_nvlink_GBps(nvlink[i].sm) == nvlink[i].GBps);
    static const struct {
        const char *speed;
        uint32_t width;
        double GBps;
        const char *why;
    } pci[] = {{"2.5 GT/s", 16, 3, "gen 1"},
               {"5 GT/s", 16, 6, "gen 2"},
               {"5.0 GT/s PCIe", 8, 3, "gen 2 x8"},
               {"8 GT/s", 16, 12, "gen 3"},
               {"8.0 GT/s PCIe", 16, 12, "gen 3"},
               {"16.0 GT/s PCIe", 16, 24, "gen 4"},
               {"32 GT/s", 16, 48, "gen 5"},
               {"64.0 GT/s PCIe", 16, 96, "gen 6"},
               {"", 16, 12, "empty"},
               {"Unknown", 16, 12, "not known to the kernel"},
               {NULL, 0, 12, "not given at all"},
               {"16 GT/sx", 16, 12, "not a speed"}};
    for (size_t i = 0; i < CCL_ARRAY_LEN(pci); i++)
        ck_assert_msg(ccl_i_nccl_pci_GBps(pci[i].speed, pci[i].width) == pci[i].GBps, "%s",
                      pci[i].why);
    static const struct {
        const char *arch, *vendor;
        int64_t family, model;
        double GBps;
        const char *why;
    } cpu[] = {{"x86_64", "GenuineIntel", 6, 79, 6, "Broadwell"},
               {"x86_64", "GenuineIntel", 6, 85, 10, "Skylake"},
               {"x86_64", "GenuineIntel", 6, 106, 10, "Ice Lake"},
               {"x86_64", "GenuineIntel", 6, 143, 22, "Sapphire Rapids"},
               {"x86_64", "GenuineIntel", 6, 207, 40, "Emerald Rapids"},
               {"x86_64", "AuthenticAMD", 175, 1, 16, "AMD"},
               {"arm64", "ARM", -1, -1, 6, "ARM"},
               {"ppc64", NULL, -1, -1, 32, "Power 9"},
               {NULL, NULL, -1, -1, 6, "nothing known"}};
    for (size_t i = 0; i < CCL_ARRAY_LEN(cpu); i++)
        ck_assert_msg(ccl_i_nccl_cpu_GBps(cpu[i].arch, cpu[i].vendor, cpu[i].family,
                                          cpu[i].model) == cpu[i].GBps,
                      "%s", cpu[i].why);
    /* Every GPU of a DGX-1 has six NVLinks, and links are mutual. */
    for (uint32_t a = 0; a < 8; a++) {
        uint32_t sum = 0;
        for (uint32_t b = 0; b < 8; b++) {
            sum += ccl_i_cube_mesh_links(a, b);
            ck_assert_uint_eq(ccl_i_cube_mesh_links(a, b), ccl_i_cube_mesh_links(b, a));
        }
        ck_assert_uint_eq(sum, 6);
    }
}
END_TEST

/* GPUs that the library does not have: NCCL's latencies, and no more. */
START_TEST(test_transports) {
    ccl_topology_t *t =
        read_xml(SYSTEM(CPU(GPU_AT("0000:01:00.0", "<gpu dev=\"0\" sm=\"86\" rank=\"0\"/>")
                                GPU_AT("0000:02:00.0", "<gpu dev=\"1\" sm=\"86\" rank=\"1\"/>"))));
    static const struct {
        const char *kind, *protocol;
        double latency_us;
    } rows[] = {{"nvlink", NULL, 3.4}, {"nvlink", "LL", .6},  {"nvlink", "LL128", 1.9},
                {"pcie", NULL, 5.7},   {"pcie", "LL", 1.0},   {"pcie", "LL128", 2.5},
                {"net", NULL, 14.0},   {"net", "LL", 2.7},    {"net", "LL128", 4.0},
                {"xgmi", NULL, 3.4},   {"xgmi", "LL128", 1.9}};
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        bool found = false;
        for (uint32_t k = 0; k < t->ntransports; k++) {
            const ccl_transport_spec_t *spec = &t->transports[k];
            if (strcmp(spec->kind, rows[i].kind) != 0 || !spec->protocol != !rows[i].protocol ||
                (spec->protocol && strcmp(spec->protocol, rows[i].protocol) != 0))
                continue;
            found = true;
            ck_assert(fabs(spec->value.latency_s - rows[i].latency_us * 1e-6) < 1e-15);
            ck_assert_uint_eq(spec->given & CCL_TRANSPORT_LATENCY, CCL_TRANSPORT_LATENCY);
            ck_assert_int_eq((spec->given & CCL_TRANSPORT_WIRE) != 0, rows[i].protocol != NULL);
            ck_assert_double_eq(spec->value.wire, !rows[i].protocol ? 1
                                                  : strcmp(rows[i].protocol, "LL") == 0
                                                      ? 2
                                                      : 16.0 / 15);
        }
        ck_assert_msg(found, "%s %s", rows[i].kind, rows[i].protocol ? rows[i].protocol : "");
    }
    ccl_topology_destroy(t);
}
END_TEST

/* GPUs by PCI id or by generation are the library's: its name, rates, protocols, latencies. */
START_TEST(test_library_gpus) {
    static const struct {
        const char *gpu, *attributes; /* of the <pci> and the <gpu> */
        const char *server, *model;
        bool assumed;
    } rows[] = {
        {"vendor=\"0x10de\" device=\"0x2330\"", "sm=\"90\"", "dgx-h100", "H100", false},
        {"vendor=\"0x10de\" device=\"0x20b2\"", "sm=\"80\"", "dgx-a100", "A100", false},
        {"vendor=\"0x10de\" device=\"0x2324\"", "sm=\"90\"", "h800-x8", "H800", false},
        {"", "sm=\"90\"", "dgx-h100", "H100", true},
        {"", "sm=\"100\"", "dgx-b200", "B200", true},
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        static const char pci[] =
            "<pci busid=\"0000:0%d:00.0\" class=\"0x030200\" %s link_speed=\"16 GT/s\" "
            "link_width=\"16\"><gpu dev=\"%d\" %s rank=\"%d\"><nvlink target=\"0000:c0:00.0\" "
            "count=\"18\" tclass=\"0x068000\"/></gpu></pci>";
        char text[2000], one[600], two_of[600];
        ccl_text_t log = {0};
        ccl_profile_t *profile = NULL, *wanted = NULL;
        ccl_topology_t *server = topology(rows[i].server), *t;
        snprintf(one, sizeof one, pci, 1, rows[i].gpu, 0, rows[i].attributes, 0);
        snprintf(two_of, sizeof two_of, pci, 2, rows[i].gpu, 1, rows[i].attributes, 1);
        snprintf(text, sizeof text, SYSTEM(CPU("%s%s")), one, two_of);
        t = import_logged(ccl_topology_read_nccl_xml, text, &log);
        ck_assert_uint_eq(t->ngpu_models, 1);
        ck_assert_str_eq(t->gpu_models[0].name, rows[i].model);
        ck_assert(t->gpu_models[0].launch_s == server->gpu_models[0].launch_s &&
                  t->gpu_models[0].reduce_rate_Bps == server->gpu_models[0].reduce_rate_Bps);
        for (uint32_t k = 0; k < server->ntransports; k++) {
            const ccl_transport_t *mine = &t->transports[k].value,
                                  *its = &server->transports[k].value;
            ck_assert_str_eq(t->transports[k].kind, server->transports[k].kind);
            ck_assert_uint_eq(t->transports[k].given, server->transports[k].given);
            ck_assert(mine->tb_rate_Bps == its->tb_rate_Bps &&
                      mine->overhead_s == its->overhead_s && mine->latency_s == its->latency_s &&
                      mine->wire == its->wire);
        }
        ck_assert_int_eq(log.data && strstr(log.data, "taken for") != NULL, rows[i].assumed);
        /* The same profile fits. */
        ck_assert_int_eq(ccl_profile_for(t, &profile, NULL), CCL_OK);
        ck_assert_int_eq(ccl_profile_for(server, &wanted, NULL), CCL_OK);
        ck_assert(!profile == !wanted);
        if (profile)
            ck_assert_str_eq(ccl_profile_name(profile), ccl_profile_name(wanted));
        ccl_profile_destroy(profile);
        ccl_profile_destroy(wanted);
        ccl_text_fini(&log);
        ccl_topology_destroy(server);
        ccl_topology_destroy(t);
    }
}
END_TEST

/* Ranks of the GPUs at addresses 1, 2, 3 (hexadecimal bus) after import. */
START_TEST(test_numbering) {
    static const struct {
        const char *gpu[3]; /* attributes, in document order; address = position + 1 */
        uint32_t rank[3];
        const char *logged, *why;
    } rows[] = {
        {{"dev=\"0\" rank=\"2\"", "dev=\"1\" rank=\"0\"", "dev=\"2\" rank=\"1\""},
         {2, 0, 1},
         NULL,
         "ranks that number all"},
        {{"dev=\"2\" rank=\"8\"", "dev=\"1\" rank=\"9\"", "dev=\"0\" rank=\"10\""},
         {2, 1, 0},
         "numbered by dev",
         "ranks of one node of many"},
        {{"dev=\"2\" rank=\"-1\"", "dev=\"1\" rank=\"0\"", "dev=\"0\" rank=\"-1\""},
         {2, 1, 0},
         "numbered by dev",
         "some without rank"},
        {{"dev=\"0\" rank=\"0\"", "dev=\"0\" rank=\"1\"", "dev=\"1\" rank=\"1\""},
         {0, 1, 2},
         "document order",
         "both twice"},
        {{"dev=\"1\"", "dev=\"2\"", "dev=\"0\""}, {1, 2, 0}, NULL, "no rank anywhere"},
        {{"", "", ""}, {0, 1, 2}, "document order", "no number at all"},
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        char text[1500];
        snprintf(text, sizeof(text),
                 SYSTEM(CPU(GPU_AT("0000:01:00.0", "<gpu sm=\"80\" %s/>")
                                GPU_AT("0000:02:00.0", "<gpu sm=\"86\" %s/>")
                                    GPU_AT("0000:03:00.0", "<gpu sm=\"90\" %s/>"))),
                 rows[i].gpu[0], rows[i].gpu[1], rows[i].gpu[2]);
        static const char *const model[3] = {"sm80", "sm86", "sm90"};
        ccl_text_t log = {0};
        ccl_topology_t *t = import_logged(ccl_topology_read_nccl_xml, text, &log);
        for (uint32_t g = 0; g < 3; g++) {
            const ccl_device_t *dev = &t->devices[t->rank_device[rows[i].rank[g]]];
            ck_assert_msg(strcmp(t->gpu_models[dev->model].name, model[g]) == 0, "%s: gpu %u",
                          rows[i].why, g);
        }
        if (rows[i].logged)
            ck_assert_msg(log.data && strstr(log.data, rows[i].logged), "%s", rows[i].why);
        else
            ck_assert_msg(!strstr(log.data, "numbered") && !strstr(log.data, "order"), "%s: %s",
                          rows[i].why, log.data);
        ck_assert_ptr_nonnull(
            strstr(log.data, "no constants of thread blocks and protocols known"));
        ccl_text_fini(&log);
        ccl_topology_destroy(t);
    }
}
END_TEST

#define G(n_, bus_) GPU_AT("0000:" bus_ ":00.0", "<gpu dev=\"" n_ "\" rank=\"" n_ "\" sm=\"80\"/>")

START_TEST(test_nics) {
    /* Two ports of one card share its PCI link; one port listed again counts once; a NIC of the
     * host sits at 5000 GB/s; speed -1 is NCCL's 10 Gbit/s. */
    static const char text[] = SYSTEM(CPU(G("0", "01") G(
        "1",
        "02") "<pci busid=\"0000:03:00.0\" class=\"0x020700\" link_speed=\"16 GT/s\" "
              "link_width=\"16\">"
              "<nic><net name=\"a\" dev=\"0\" speed=\"200000\" port=\"1\" guid=\"0x5\"/>"
              "<net name=\"b\" dev=\"1\" speed=\"100000\" port=\"2\" guid=\"0x5\"/></nic></pci>"
              "<nic><net name=\"eth0\" dev=\"2\" speed=\"-1\" port=\"0\" guid=\"0x0\"/>"
              "<net name=\"eth0\" dev=\"3\" speed=\"8000\" port=\"0\" guid=\"0x0\"/></nic>"
              "<pci busid=\"0000:04:00.0\" class=\"0x020700\">"
              "<nic><net name=\"a\" dev=\"0\" speed=\"200000\" port=\"1\" "
              "guid=\"0x5\"/></nic></pci>"));
    ccl_text_t log = {0};
    ccl_topology_t *t = import_logged(ccl_topology_read_nccl_xml, text, &log);
    ck_assert_uint_eq(count_kind(t, CCL_DEVICE_NIC), 4);
    check_duplex(t, "a", "cpu0", "pcie", 24.0, 1);
    check_duplex(t, "b", "cpu0", "pcie", 24.0, 1);
    check_duplex(t, "a", "fabric", "net", 25.0, 1);
    check_duplex(t, "b", "fabric", "net", 12.5, 1);
    check_duplex(t, "eth0", "cpu0", "pcie", 5000.0, 1);
    check_duplex(t, "eth0", "fabric", "net", 1.25, 1);
    check_duplex(t, "eth0.2", "fabric", "net", 1.0, 1);
    ck_assert_uint_eq(t->ngroups, 2);
    for (uint32_t g = 0; g < 2; g++) {
        ck_assert_uint_eq(t->groups[g].nlinks, 2);
        ck_assert(t->groups[g].bandwidth_Bps == 24.0 * GB);
        const ccl_link_t *one = &t->links[t->groups[g].links[0]];
        const ccl_link_t *two_ = &t->links[t->groups[g].links[1]];
        ck_assert(g == 0 ? one->to == two_->to : one->from == two_->from);
    }
    ck_assert_ptr_nonnull(strstr(log.data, "1 NIC ports listed again"));
    ck_assert_ptr_nonnull(strstr(log.data, "10000 Mbit/s"));
    ccl_text_fini(&log);
    ccl_topology_destroy(t);
}
END_TEST

START_TEST(test_odd_links) {
    static const char text[] = SYSTEM(CPU(GPU_AT(
        "0000:01:00.0", "<gpu dev=\"0\" rank=\"0\" sm=\"80\">"
                        "<nvlink target=\"0000:01:00.0\" count=\"12\" tclass=\"0x030200\"/>"
                        "<nvlink target=\"0000:99:00.0\" count=\"1\" tclass=\"0x030200\"/>"
                        "<nvlink target=\"0000:02:00.0\" count=\"1\" tclass=\"0x030200\"/>"
                        "<nvlink target=\"0000:02:00.0\" count=\"2\" tclass=\"0x030200\"/></gpu>")
                                              G("1", "02")));
    ccl_text_t log = {0};
    ccl_topology_t *t = import_logged(ccl_topology_read_nccl_xml, text, &log);
    check_link(t, "gpu0", "gpu1", "nvlink", 75.0, 3); /* the two are one of three links */
    ck_assert(rate_Bps(t, "gpu1", "gpu0", "nvlink", NULL) == 0);
    ck_assert_ptr_nonnull(strstr(log.data, "1 links from a gpu to itself"));
    ck_assert_ptr_nonnull(strstr(log.data, "1 links to gpus that are not in the file"));
    ck_assert_ptr_nonnull(strstr(log.data, "1 direct links are given in one direction only"));
    check_all_routes(t);
    ccl_text_fini(&log);
    ccl_topology_destroy(t);
}
END_TEST

/* A NIC nearer than the CPU: the way over two NICs must not look shorter inside the machine. */
START_TEST(test_network_is_no_shortcut) {
#define DEEP(a_, b_, c_, gpu_)                                                                     \
    "<pci busid=\"0000:" a_ ":00.0\" class=\"0x060400\"><pci busid=\"0000:" b_                     \
    ":00.0\" class=\"0x060400\"><pci busid=\"0000:" c_ ":00.0\" class=\"0x060400\">" gpu_          \
    "<pci busid=\"0000:" c_ ":01.0\" class=\"0x020000\"><nic><net name=\"n" c_                     \
    "\" speed=\"100000\"/></nic></pci></pci></pci></pci>"
    ccl_topology_t *t = read_xml(
        SYSTEM(CPU(DEEP("10", "11", "12", G("0", "13")) DEEP("20", "21", "22", G("1", "23")))));
    check_all_routes(t);
    double gpu_to_cpu_Bps = rate_Bps(t, "gpu0", "pci0000:12:00.0", "pcie", NULL);
    ck_assert(gpu_to_cpu_Bps == 24.0 * GB);
    /* The joints of the cable carry the NIC's rate. */
    check_duplex(t, "n12", "n12/cable1", "net", 12.5, 1);
    ccl_topology_destroy(t);
}
END_TEST

START_TEST(test_partial_files) {
    /* Unknown machine: GPUs by class, numbered by address, nothing assumed of their links. */
    static const char unknown[] = SYSTEM(CPU(
        "<pci busid=\"0000:09:00.0\" class=\"0x030200\" link_speed=\"16 GT/s\" link_width=\"16\"/>"
        "<pci busid=\"0000:08:00.0\" class=\"0x030200\" link_speed=\"8 GT/s\" link_width=\"16\"/>"
        "<pci busid=\"0000:07:00.0\" class=\"0x020000\" link_speed=\"8 GT/s\" "
        "link_width=\"16\"/>"));
    ccl_text_t log = {0};
    ccl_topology_t *t = import_logged(ccl_topology_read_nccl_xml, unknown, &log);
    check_duplex(t, "gpu0", "cpu0", "pcie", 12.0, 1);
    check_duplex(t, "gpu1", "cpu0", "pcie", 24.0, 1);
    check_duplex(t, "nic0", "fabric", "net", 12.0, 1);
    ck_assert_ptr_nonnull(strstr(log.data, "2 gpus of unknown model with no NVLink"));
    ck_assert_ptr_nonnull(strstr(t->note, "partial file"));
    ccl_text_fini(&log);
    ccl_topology_destroy(t);
    /* Known by PCI ids: four A100-SXM4 are joined directly, four links each pair. */
#define SXM(bus_)                                                                                  \
    "<pci busid=\"0000:" bus_ ":00.0\" class=\"0x030200\" vendor=\"0x10de\" device=\"0x20b2\"/>"
    log = (ccl_text_t){0};
    t = import_logged(ccl_topology_read_nccl_xml,
                      SYSTEM(CPU(SXM("01") SXM("02") SXM("03")
                                     SXM("04") "<pci busid=\"0000:05:00.0\" class=\"0x020700\" "
                                               "vendor=\"0x15b3\" device=\"0x1021\"/>")),
                      &log);
    for (int a = 0; a < 4; a++) {
        for (int b = 0; b < 4; b++) {
            char from[8], to[8];
            snprintf(from, sizeof(from), "gpu%d", a);
            snprintf(to, sizeof(to), "gpu%d", b);
            if (a != b)
                check_link(t, from, to, "nvlink", 100.0, 4);
        }
    }
    check_duplex(t, "nic0", "fabric", "net", 50.0, 1);
    ck_assert_ptr_nonnull(strstr(log.data, "A100-SXM4-80GB with 12 NVLinks of 20 GB/s each"));
    ck_assert_uint_eq(t->gpu_models[0].sms, 108);
    ccl_text_fini(&log);
    ccl_topology_destroy(t);
}
END_TEST

START_TEST(test_shared_function_and_hosts) {
    /* Two GPUs of one PCI function share its link; each host is a server with CPUs of its own. */
    static const char text[] =
        "<system><cpu numaid=\"0\" host_hash=\"0x1\">"
        "<pci busid=\"0000:01:00.0\" link_speed=\"16 GT/s\" link_width=\"16\">"
        "<gpu dev=\"0\" rank=\"0\" sm=\"90\"/><gpu dev=\"1\" rank=\"1\" sm=\"90\">"
        "<nvlink target=\"0000:81:00.0\" count=\"1\" tclass=\"0x03\"/></gpu></pci></cpu>"
        "<cpu numaid=\"0\" host_hash=\"0x2\"><pci busid=\"0000:81:00.0\">"
        "<gpu dev=\"0\" rank=\"2\" sm=\"90\">"
        "<nvlink target=\"0000:01:00.0\" count=\"1\" tclass=\"0x03\"/></gpu></pci></cpu></system>";
    ccl_text_t log = {0};
    ccl_topology_t *t = import_logged(ccl_topology_read_nccl_xml, text, &log);
    ck_assert_uint_eq(t->nservers, 2);
    ck_assert_uint_eq(t->ngroups, 2);
    ck_assert_uint_eq(t->groups[0].nlinks, 2);
    ck_assert(t->groups[0].bandwidth_Bps == 24.0 * GB);
    ck_assert_ptr_nonnull(strstr(log.data, "several gpus at PCI address 0000:01:00.0"));
    check_link(t, "gpu2", "gpu0", "nvlink", 25.0, 1); /* an address means its first GPU */
    ck_assert(rate_Bps(t, "cpu0", "cpu0.2", "upi", NULL) == 0);
    ck_assert(t->devices[device_of(t, "cpu0")].server != t->devices[device_of(t, "cpu0.2")].server);
    ccl_text_fini(&log);
    ccl_topology_destroy(t);
}
END_TEST

START_TEST(test_graphs) {
    static const char text[] =
        "<graphs version=\"1\">"
        "<graph id=\"1\" pattern=\"1\" nchannels=\"1\" speedintra=\"5\" speedinter=\"5\" "
        "typeintra=\"NVL\"><channel><gpu dev=\"0\"/><gpu dev=\"1\"/></channel></graph>"
        "<graph id=\"0\" pattern=\"4\" nchannels=\"3\" speedintra=\"20\" speedinter=\"10\" "
        "typeintra=\"%s\">"
        "<channel>%s<gpu dev=\"0\"/><gpu dev=\"1\"/><gpu dev=\"2\"/>%s</channel>"
        "<channel><gpu dev=\"0\"/><gpu dev=\"1\"/><gpu dev=\"2\"/></channel>"
        "<channel><gpu dev=\"2\"/><gpu dev=\"1\"/><gpu dev=\"0\"/></channel>"
        "</graph></graphs>";
    char filled[1500];
    snprintf(filled, sizeof(filled), text, "NVL", "", "");
    ccl_topology_t *t = read_xml(filled);
    ck_assert_uint_eq(t->nranks, 3);
    check_link(t, "gpu0", "gpu1", "nvlink", 40.0, 2); /* two channels go 0 1 2 0 */
    check_link(t, "gpu2", "gpu0", "nvlink", 40.0, 2);
    check_link(t, "gpu1", "gpu0", "nvlink", 20.0, 1); /* one goes 2 1 0 2 */
    check_link(t, "gpu0", "gpu2", "nvlink", 20.0, 1);
    check_duplex(t, "gpu0", "cpu", "pcie", 12.0, 1);
    ccl_topology_destroy(t);

    snprintf(filled, sizeof(filled), text, "PHB", "<net dev=\"0\"/>", "<net dev=\"0\"/>");
    t = read_xml(filled);
    ck_assert(rate_Bps(t, "gpu0", "gpu1", "nvlink", NULL) == 0);
    check_duplex(t, "gpu1", "cpu", "pcie", 60.0, 1); /* three channels of 20 */
    check_duplex(t, "net0", "fabric", "net", 10.0, 1);
    check_all_routes(t);
    ccl_topology_destroy(t);
}
END_TEST

START_TEST(test_mapping) {
    static const char text[] =
        "<system version=\"2\">"
        "<group name=\"gfx936_3_x86_64_HygonGenuine_mlx5_3_Ethernet_40-200-100_1_8_1\">"
        "<cpu numaid=\"3\"><pci><gpu dev=\"1\"/><gpu dev=\"0\"/><nic id=\"mlx5_1\"/></pci></cpu>"
        "<cpu numaid=\"0\"><pci><gpu dev=\"2\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"/>"
        "<nic id=\"mlx5_2\" speed=\"400000\"/><nic id=\"shca\"/></pci></cpu></group>"
        "<group name=\"other\"><cpu numaid=\"0\"><pci><gpu dev=\"0\"/></pci></cpu></group>"
        "</system>";
    ccl_text_t log = {0};
    ccl_topology_t *t = import_logged(ccl_topology_read_nccl_xml, text, &log);
    ck_assert_uint_eq(t->nranks, 3);
    check_duplex(t, "mlx5_1", "fabric", "net", 25.0, 1); /* the name's speed number 1 */
    check_duplex(t, "mlx5_2", "fabric", "net", 50.0, 1); /* its own */
    check_duplex(t, "shca", "fabric", "net", 12.0, 1);   /* neither */
    check_duplex(t, "gpu2", "pci.2", "pcie", 48.0, 1);
    check_duplex(t, "gpu0", "pci", "pcie", 12.0, 1);
    check_duplex(t, "gpu0", "gpu2", "xgmi", 24.0, 1);
    check_duplex(t, "cpu3", "cpu0", "upi", 16.0, 1);
    ck_assert_ptr_nonnull(strstr(log.data, "mapping file of 2 groups: took the first"));
    check_all_routes(t);
    ccl_text_fini(&log);
    ccl_topology_destroy(t);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("ncclxml");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, test_two_gpus);
    tcase_add_test(tc, test_nvswitch_and_cpu_links);
    tcase_add_test(tc, test_xgmi_rates);
    tcase_add_test(tc, test_constants);
    tcase_add_test(tc, test_transports);
    tcase_add_test(tc, test_library_gpus);
    tcase_add_test(tc, test_numbering);
    tcase_add_test(tc, test_nics);
    tcase_add_test(tc, test_odd_links);
    tcase_add_test(tc, test_network_is_no_shortcut);
    tcase_add_test(tc, test_partial_files);
    tcase_add_test(tc, test_shared_function_and_hosts);
    tcase_add_test(tc, test_graphs);
    tcase_add_test(tc, test_mapping);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
