/*
 * Mapping files: <system> of <group name="...">, one group for each environment in which the file
 * may be used. A group lists cpu > pci > gpu(dev), nic(id speed), slot(id); its name is
 * GPU_count_arch[_vendor]_NICprefix_NICs_fabric_speeds(Gbit/s, joined by -)_linktype_groups. Groups
 * are alternatives, not parts of one machine, so the first is taken.
 */
#include "topologies/readers/nccl/nccl_xml.h"

#include <stdlib.h>
#include <string.h>

typedef struct mapping {
    ccl_i_nccl_plan_t *plan;
    const ccl_i_xml_tree_t *tree;
    char gfx[16];
    char vendor[40];
    const char *speeds; /* "200-200-40_...", NULL when the name has none */
    uint32_t slots, gpus_left, unknown_nics;
} mapping_t;

/* Words of the name, up to "|" (another name of the same group). */
static void read_name(mapping_t *m, const char *name) {
    const char *c = name;
    for (uint32_t word = 0; *c && *c != '|'; word++) {
        size_t n = strcspn(c, "_|");
        if (word == 0)
            snprintf(m->gfx, sizeof(m->gfx), "%.*s", (int)(n < 15 ? n : 15), c);
        if (word == 1)
            m->gpus_left = (uint32_t)strtoul(c, NULL, 10);
        if (n == 12 && (strncmp(c, "HygonGenuine", n) == 0 || strncmp(c, "GenuineIntel", n) == 0 ||
                        strncmp(c, "AuthenticAMD", n) == 0))
            snprintf(m->vendor, sizeof(m->vendor), "%.*s", (int)n, c);
        if (n >= 8 && (strncmp(c, "Ethernet", n) == 0 || strncmp(c, "InfiniBand", n) == 0) &&
            c[n] == '_')
            m->speeds = c + n + 1;
        c += n;
        if (*c == '_')
            c++;
    }
}

/* NIC number i of the machine has the i-th speed; "mlx5_7" is number 7. */
static double speed_of(const mapping_t *m, const char *id) {
    size_t n = strlen(id);
    while (n > 0 && id[n - 1] >= '0' && id[n - 1] <= '9')
        n--;
    if (!m->speeds || !id[n])
        return 0;
    unsigned long number = strtoul(id + n, NULL, 10);
    const char *c = m->speeds;
    for (unsigned long i = 0; i < number; i++) {
        c += strspn(c, "0123456789");
        if (*c++ != '-')
            return 0;
    }
    return strtod(c, NULL) / 8.0;
}

static ccl_status_t add_gpu(mapping_t *m, uint32_t elem, uint32_t parent, ccl_error_t *err) {
    uint32_t index;
    double GBps = 0;
    if (elem != CCL_NONE)
        CCL_TRY(ccl_i_nccl_pci_link(m->tree, elem, &GBps, err));
    else
        GBps = ccl_i_nccl_pci_GBps(NULL, 0);
    CCL_TRY(ccl_i_plan_add(m->plan, CCL_DEVICE_GPU, NULL, parent, GBps, &index, err));
    ccl_i_plan_dev_t *gpu = &m->plan->devs[index];
    if (elem != CCL_NONE)
        CCL_TRY(ccl_i_xml_int(m->tree, elem, "dev", -1, INT32_MAX, &gpu->dev, err));
    snprintf(gpu->gfx, sizeof(gpu->gfx), "%s", m->gfx);
    gpu->vendor = "hygon";
    gpu->model = ccl_arena_strdup(&m->plan->arena, m->gfx[0] ? m->gfx : "gpu");
    return gpu->model ? CCL_OK : ccl_fail_nomem(err);
}

static ccl_status_t add_nic(mapping_t *m, uint32_t elem, const char *id, uint32_t parent,
                            ccl_error_t *err) {
    uint32_t index;
    double GBps, net_GBps = speed_of(m, id);
    int64_t speed_Mbitps = 0;
    CCL_TRY(ccl_i_nccl_pci_link(m->tree, elem, &GBps, err));
    CCL_TRY(ccl_i_xml_int(m->tree, elem, "speed", -1, 4000000000, &speed_Mbitps, err));
    if (speed_Mbitps > 0)
        net_GBps = (double)speed_Mbitps / 8000.0;
    if (net_GBps <= 0) {
        net_GBps = CCL_I_NCCL_NET_GBps;
        m->unknown_nics++;
    }
    CCL_TRY(ccl_i_plan_add(m->plan, CCL_DEVICE_NIC, id, parent, GBps, &index, err));
    m->plan->devs[index].net_GBps = net_GBps;
    return CCL_OK;
}

static ccl_status_t add_pci(mapping_t *m, uint32_t pci, uint32_t host, ccl_error_t *err) {
    uint32_t sw, slots = 0, slot = 0;
    double GBps;
    CCL_TRY(ccl_i_nccl_pci_link(m->tree, pci, &GBps, err));
    CCL_TRY(ccl_i_plan_add(m->plan, CCL_DEVICE_SWITCH, "pci", host, GBps, &sw, err));
    for (uint32_t e = m->tree->elems[pci].child; e != CCL_NONE; e = m->tree->elems[e].next)
        slots += ccl_i_xml_is(m->tree, e, "slot");
    for (uint32_t e = m->tree->elems[pci].child; e != CCL_NONE; e = m->tree->elems[e].next) {
        const char *id = ccl_i_xml_attr(m->tree, e, "id");
        if (ccl_i_xml_is(m->tree, e, "gpu")) {
            CCL_TRY(add_gpu(m, e, sw, err));
        } else if (ccl_i_xml_is(m->tree, e, "nic")) {
            if (!id || !*id)
                return ccl_i_xml_fail(m->tree, e, err, "a nic needs an id");
            CCL_TRY(add_nic(m, e, id, sw, err));
        } else if (ccl_i_xml_is(m->tree, e, "slot")) {
            /* A slot does not say what sits in it: the first half are GPUs, the rest NICs. */
            char text[60];
            snprintf(text, sizeof(text), "slot%.40s", id ? id : "");
            m->slots++;
            if (slot++ < (slots + 1) / 2)
                CCL_TRY(add_gpu(m, CCL_NONE, sw, err));
            else
                CCL_TRY(add_nic(m, e, text, sw, err));
        }
    }
    return CCL_OK;
}

static ccl_status_t add_group(mapping_t *m, uint32_t group, ccl_error_t *err) {
    uint32_t server;
    CCL_TRY(ccl_i_plan_server(m->plan, m->plan->name, &server, err));
    for (uint32_t cpu = m->tree->elems[group].child; cpu != CCL_NONE;
         cpu = m->tree->elems[cpu].next) {
        if (!ccl_i_xml_is(m->tree, cpu, "cpu"))
            continue;
        const char *numa = ccl_i_xml_attr(m->tree, cpu, "numaid");
        char id[40];
        uint32_t host;
        snprintf(id, sizeof(id), "cpu%.20s", numa ? numa : "");
        CCL_TRY(ccl_i_plan_add(m->plan, CCL_DEVICE_HOST, id, CCL_NONE, 0, &host, err));
        m->plan->devs[host].server = server;
        m->plan->devs[host].cpu_GBps = ccl_i_nccl_cpu_GBps("x86_64", m->vendor, 6, 0x8F);
        for (uint32_t pci = m->tree->elems[cpu].child; pci != CCL_NONE;
             pci = m->tree->elems[pci].next)
            if (ccl_i_xml_is(m->tree, pci, "pci"))
                CCL_TRY(add_pci(m, pci, host, err));
    }
    return CCL_OK;
}

ccl_status_t ccl_i_nccl_read_mapping(ccl_i_nccl_plan_t *plan, const ccl_i_xml_tree_t *tree,
                                     ccl_error_t *err) {
    uint32_t group = ccl_i_xml_child(tree, 0, "group"), groups = 0;
    mapping_t m = {.plan = plan, .tree = tree};
    const char *name = ccl_i_xml_attr(tree, group, "name"), *what = "";
    read_name(&m, name ? name : "");
    for (uint32_t e = tree->elems[0].child; e != CCL_NONE; e = tree->elems[e].next)
        groups += ccl_i_xml_is(tree, e, "group");
    CCL_TRY(add_group(&m, group, err));
    if (plan->ngpus == 0)
        return ccl_i_xml_fail(tree, group, err, "no gpu and no slot in this group");
    CCL_TRY(ccl_i_plan_number(plan, err));
    /* Chosen: the name says only that all GPUs are in one link group, not how. */
    double lane_GBps = ccl_i_nccl_xgmi_GBps(m.gfx);
    CCL_TRY(
        ccl_i_plan_wire(plan, CCL_I_WIRING_MESH, "xgmi", plan->ngpus - 1, lane_GBps, &what, err));
    ccl_i_plan_assume(plan, "mapping file of %u groups: took the first, \"%.100s\"", groups,
                      name ? name : "");
    ccl_i_plan_assume(plan,
                      "assumed %u gpus %s with one direct link of %g GB/s to each other "
                      "(%s), PCI at 8 GT/s x16 where not given, %s CPUs",
                      plan->ngpus, m.gfx, lane_GBps, what, m.vendor[0] ? m.vendor : "unknown");
    if (m.slots)
        ccl_i_plan_assume(plan,
                          "%u slots: the first half below each pci taken for gpus, the rest "
                          "for NICs",
                          m.slots);
    if (m.unknown_nics)
        ccl_i_plan_assume(plan, "%u NICs without a speed: %g GB/s each", m.unknown_nics,
                          CCL_I_NCCL_NET_GBps);
    return CCL_OK;
}
