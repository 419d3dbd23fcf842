/*
 * <system> of NCCL and RCCL: system > cpu > pci (nested) > gpu > nvlink or xgmi; nic > net.
 *
 * Follows NCCL's own reading (src/graph/topo.cc): a pci element with a <gpu> is that GPU, one with
 * a <nic> is that NIC, the rest are bridges; CPUs are joined all to all; NVSwitches count as one;
 * links go in the direction in which the file gives them.
 */
#include "topologies/readers/nccl/nccl_xml.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct system_reader {
    ccl_i_nccl_plan_t *plan;
    const ccl_i_xml_tree_t *tree;
    ccl_i_platform_key_t key;
    const ccl_i_platform_t *platform;
    uint32_t gpu_elements, net_elements, link_elements, gpu_leaves, nic_leaves;
    uint32_t unused_gpus, unknown_speeds, implied_nics, huge_nets, repeated_nets;
    bool apu;             /* FlagCX's word for <gpu> */
    ccl_strmap_t *ports;  /* NIC ports seen, by name, guid, port and dev */
    ccl_strmap_t *by_bus; /* GPU by PCI address */
} system_reader_t;

static bool is_gpu_element(const ccl_i_xml_tree_t *tree, uint32_t elem) {
    return ccl_i_xml_is(tree, elem, "gpu") || ccl_i_xml_is(tree, elem, "apu");
}

/* ---------------------------------------------------------------- what kind of file is it */

/* What of all elements is not a key yet. */
typedef struct survey {
    uint32_t pcis, classed, gpu_device, sm;
    bool other_device, other_sm; /* GPUs differ in it */
} survey_t;

static void survey_cpu(system_reader_t *r, uint32_t e) {
    const char *vendor = ccl_i_xml_attr(r->tree, e, "vendor");
    const char *model = ccl_i_xml_attr(r->tree, e, "modelid");
    if (r->key.cpus++ == 0 && vendor)
        r->key.cpu_vendor = vendor;
    if (r->key.cpus == 1 && model)
        r->key.cpu_model = strtol(model, NULL, 10);
}

static void survey_gpu(system_reader_t *r, uint32_t e, survey_t *s) {
    const char *text = ccl_i_xml_attr(r->tree, e, "sm");
    uint32_t value = text ? (uint32_t)strtoul(text, NULL, 10) : 0;
    s->other_sm = s->other_sm || (r->gpu_elements > 0 && value != s->sm);
    s->sm = value;
    r->gpu_elements++;
    r->apu = r->apu || ccl_i_xml_is(r->tree, e, "apu");
}

static void survey_pci(system_reader_t *r, uint32_t e, survey_t *s) {
    const ccl_i_xml_tree_t *tree = r->tree;
    ccl_i_pci_class_t class = ccl_i_pci_class(ccl_i_xml_attr(tree, e, "class"));
    bool gpu = class == CCL_I_CLASS_GPU, leaf = tree->elems[e].child == CCL_NONE;
    for (uint32_t c = tree->elems[e].child; c != CCL_NONE; c = tree->elems[c].next)
        gpu = gpu || is_gpu_element(tree, c);
    s->pcis++;
    s->classed += class != CCL_I_CLASS_NONE;
    r->key.leaves += leaf;
    r->key.bridges += ccl_i_xml_child(tree, e, "pci") != CCL_NONE;
    r->gpu_leaves += leaf && class == CCL_I_CLASS_GPU;
    r->nic_leaves += leaf && class == CCL_I_CLASS_NIC;
    if (gpu) {
        uint32_t device = ccl_i_pci_hex(tree, e, "device");
        s->other_device = s->other_device || (s->gpu_device && device != s->gpu_device);
        s->gpu_device = device;
    }
}

/* A classless file is known by its addresses, so they must all be there. */
static bool has_all_addresses(const ccl_i_xml_tree_t *tree, const char *const *id) {
    for (; id && *id; id++) {
        bool found = false;
        for (uint32_t e = 0; e < tree->nelems && !found; e++) {
            const char *bus = ccl_i_xml_attr(tree, e, "busid");
            found = bus && strcmp(bus, *id) == 0;
        }
        if (!found)
            return false;
    }
    return true;
}

static void survey(system_reader_t *r) {
    const ccl_i_xml_tree_t *tree = r->tree;
    ccl_i_platform_key_t *key = &r->key;
    survey_t s = {0};
    *key = (ccl_i_platform_key_t){.cpu_model = -1, .cpu_vendor = ""};
    for (uint32_t e = 0; e < tree->nelems; e++) {
        if (ccl_i_xml_is(tree, e, "cpu"))
            survey_cpu(r, e);
        else if (is_gpu_element(tree, e))
            survey_gpu(r, e, &s);
        else if (ccl_i_xml_is(tree, e, "net"))
            r->net_elements++;
        else if (ccl_i_xml_is(tree, e, "nvlink") || ccl_i_xml_is(tree, e, "xgmi") ||
                 ccl_i_xml_is(tree, e, "c2c"))
            r->link_elements++;
        else if (ccl_i_xml_is(tree, e, "pci"))
            survey_pci(r, e, &s);
    }
    key->gpus = r->gpu_elements ? r->gpu_elements : r->gpu_leaves;
    key->nics = r->net_elements ? r->net_elements : r->nic_leaves;
    key->classless = s.pcis && !s.classed;
    key->gpu_elements = r->gpu_elements && !r->apu;
    key->gpu_device = s.other_device ? 0 : s.gpu_device;
    key->sm = s.other_sm ? 0 : s.sm;
    if (!r->link_elements)
        r->platform = ccl_i_platform_find(key);
    if (r->platform && !has_all_addresses(tree, r->platform->gpu_busids))
        r->platform = NULL;
}

/* ---------------------------------------------------------------- devices */

static void name_gfx(const char *gcn, char out[16]) {
    /* RCCL writes 906, 908, 910 (gfx90a), 940, or the name with features behind a colon. */
    size_t n = strcspn(gcn, ":");
    if (strncmp(gcn, "gfx", 3) == 0)
        snprintf(out, 16, "%.*s", (int)(n < 15 ? n : 15), gcn);
    else if (strcmp(gcn, "910") == 0)
        snprintf(out, 16, "gfx90a");
    else
        snprintf(out, 16, "gfx%.8s", gcn);
}

static const ccl_i_gpu_preset_t *preset_of(const system_reader_t *r, uint32_t pci) {
    uint32_t vendor = ccl_i_pci_hex(r->tree, pci, "vendor");
    if (vendor == 0x10de)
        return ccl_i_gpu_preset_by_device(ccl_i_pci_hex(r->tree, pci, "device"));
    return r->platform && !vendor ? ccl_i_gpu_preset_by_name(r->platform->gpu) : NULL;
}

static ccl_status_t describe_gpu(system_reader_t *r, uint32_t index, uint32_t pci, uint32_t elem,
                                 ccl_error_t *err) {
    const ccl_i_xml_tree_t *tree = r->tree;
    ccl_i_plan_dev_t *gpu = &r->plan->devs[index];
    const char *gcn = NULL;
    int64_t sm = 0;
    gpu->implied = elem == CCL_NONE;
    gpu->elem = elem;
    if (elem != CCL_NONE) {
        CCL_TRY(ccl_i_xml_int(tree, elem, "dev", -1, INT32_MAX, &gpu->dev, err));
        CCL_TRY(ccl_i_xml_int(tree, elem, "rank", -1, INT32_MAX, &gpu->rank, err));
        CCL_TRY(ccl_i_xml_int(tree, elem, "sm", 0, 100000, &sm, err));
        gcn = ccl_i_xml_attr(tree, elem, "gcn");
    }
    char name[80];
    uint32_t vendor = ccl_i_pci_hex(tree, pci, "vendor");
    const ccl_i_gpu_preset_t *preset = preset_of(r, pci);
    if (gcn && *gcn) {
        name_gfx(gcn, gpu->gfx);
        gpu->vendor = "amd";
        gpu->sms = (uint32_t)sm; /* RCCL's sm counts compute units */
        snprintf(name, sizeof(name), "%s", gpu->gfx);
    } else if (preset) {
        gpu->vendor = "nvidia";
        gpu->sm = sm ? (uint32_t)sm : preset->sm;
        gpu->sms = preset->sms;
        snprintf(name, sizeof(name), "%s", preset->name);
    } else if (sm) {
        gpu->vendor = "nvidia";
        gpu->sm = (uint32_t)sm;
        snprintf(name, sizeof(name), "sm%u", gpu->sm);
    } else {
        gpu->vendor = vendor == 0x10de ? "nvidia" : vendor == 0x1002 ? "amd" : "";
        snprintf(name, sizeof(name), "%s-%04x", *gpu->vendor ? gpu->vendor : "gpu",
                 ccl_i_pci_hex(tree, pci, "device"));
    }
    gpu->model = ccl_arena_strdup(&r->plan->arena, name);
    return gpu->model ? CCL_OK : ccl_fail_nomem(err);
}

static ccl_status_t add_gpu(system_reader_t *r, uint32_t pci, uint32_t elem, uint32_t parent,
                            double GBps, uint32_t function, ccl_error_t *err) {
    uint32_t index;
    CCL_TRY(ccl_i_plan_add(r->plan, CCL_DEVICE_GPU, NULL, parent, GBps, &index, err));
    r->plan->devs[index].function = function;
    CCL_TRY(ccl_i_pci_bus(r->tree, pci, "busid", &r->plan->devs[index].bus, err));
    CCL_TRY(describe_gpu(r, index, pci, elem, err));
    if (r->plan->devs[index].bus == CCL_I_BUS_NONE)
        return CCL_OK;
    char bus[24];
    snprintf(bus, sizeof(bus), "%llx", (unsigned long long)r->plan->devs[index].bus);
    uint32_t other = ccl_strmap_get(r->by_bus, bus);
    if (other != CCL_NONE) {
        ccl_i_plan_assume(r->plan, "several gpus at PCI address %.40s: links to it go to the first",
                          ccl_i_xml_attr(r->tree, pci, "busid"));
        return CCL_OK;
    }
    return ccl_strmap_put(r->by_bus, bus, index) ? CCL_OK : ccl_fail_nomem(err);
}

static ccl_status_t net_speed(system_reader_t *r, uint32_t pci, uint32_t net, const char *name,
                              double *GBps_out, ccl_error_t *err) {
    int64_t speed = 0; /* Mbit/s */
    bool given = ccl_i_xml_attr(r->tree, net, "speed") != NULL;
    CCL_TRY(ccl_i_xml_int(r->tree, net, "speed", -1, 4000000000, &speed, err));
    if (speed > 0) {
        r->huge_nets += speed > 10000000;
        *GBps_out = (double)speed / 8000.0;
        return CCL_OK;
    }
    const ccl_i_nic_preset_t *preset =
        given || pci == CCL_NONE ? NULL
                                 : ccl_i_nic_preset_find(ccl_i_pci_hex(r->tree, pci, "vendor"),
                                                         ccl_i_pci_hex(r->tree, pci, "device"));
    if (!preset) {
        *GBps_out = CCL_I_NCCL_NET_DEFAULT_MBITPS / 8000.0;
        ccl_i_plan_assume(r->plan, "net %.60s has no speed: %d Mbit/s as NCCL does", name,
                          CCL_I_NCCL_NET_DEFAULT_MBITPS);
        return CCL_OK;
    }
    uint32_t ports = 1; /* "mlx5_4+mlx5_5" is two ports used as one */
    for (const char *c = name; *c; c++)
        ports += *c == '+';
    *GBps_out = ports * preset->GBps;
    ccl_i_plan_assume(r->plan, "net %.60s has no speed: %u x %g GB/s of %s", name, ports,
                      preset->GBps, preset->name);
    return CCL_OK;
}

/* The NICs (one per <net>) of a <nic>; pci CCL_NONE: it sits in the host. */
static ccl_status_t add_nets(system_reader_t *r, uint32_t nic, uint32_t pci, uint32_t parent,
                             double GBps, uint32_t function, ccl_error_t *err) {
    const ccl_i_xml_tree_t *tree = r->tree;
    for (uint32_t e = tree->elems[nic].child; e != CCL_NONE; e = tree->elems[e].next) {
        if (!ccl_i_xml_is(tree, e, "net"))
            continue;
        const char *name = ccl_i_xml_attr(tree, e, "name");
        const char *guid = ccl_i_xml_attr(tree, e, "guid");
        const char *port = ccl_i_xml_attr(tree, e, "port");
        const char *dev = ccl_i_xml_attr(tree, e, "dev");
        if (!name || !*name)
            name = "nic";
        char key[300];
        snprintf(key, sizeof(key), "%.120s|%.60s|%.20s|%.20s", name, guid ? guid : "",
                 port ? port : "", dev ? dev : "");
        bool named = guid && strcmp(guid, "0x0") != 0 && strcmp(guid, "0") != 0;
        if (named && ccl_strmap_get(r->ports, key) != CCL_NONE) {
            r->repeated_nets++;
            continue;
        }
        uint32_t index;
        double net_GBps, latency_us = 0;
        CCL_TRY(net_speed(r, pci, e, name, &net_GBps, err));
        CCL_TRY(ccl_i_xml_number(tree, e, "latency", 1e6, &latency_us, err));
        CCL_TRY(ccl_i_plan_add(r->plan, CCL_DEVICE_NIC, name, parent, GBps, &index, err));
        r->plan->devs[index].function = function;
        r->plan->devs[index].net_GBps = net_GBps;
        r->plan->devs[index].latency_s = latency_us * 1e-6;
        if (!ccl_strmap_put(r->ports, key, index))
            return ccl_fail_nomem(err);
    }
    return CCL_OK;
}

/* A pci element without children: in partial files the only trace of a GPU or a NIC. */
static ccl_status_t add_leaf(system_reader_t *r, uint32_t pci, uint32_t parent, double GBps,
                             ccl_error_t *err) {
    const char *bus = ccl_i_xml_attr(r->tree, pci, "busid");
    ccl_i_pci_class_t class = ccl_i_pci_class(ccl_i_xml_attr(r->tree, pci, "class"));
    if (class == CCL_I_CLASS_NONE && r->platform && r->platform->gpu_busids) {
        class = CCL_I_CLASS_NIC;
        for (const char *const *id = r->platform->gpu_busids; *id; id++)
            if (bus && strcmp(bus, *id) == 0)
                class = CCL_I_CLASS_GPU;
    }
    if (class == CCL_I_CLASS_GPU) {
        if (!r->gpu_elements)
            return add_gpu(r, pci, CCL_NONE, parent, GBps, CCL_NONE, err);
        r->unused_gpus++;
        return CCL_OK;
    }
    if (class != CCL_I_CLASS_NIC || r->net_elements)
        return CCL_OK;
    const ccl_i_nic_preset_t *preset = ccl_i_nic_preset_find(ccl_i_pci_hex(r->tree, pci, "vendor"),
                                                             ccl_i_pci_hex(r->tree, pci, "device"));
    char id[80];
    snprintf(id, sizeof(id), "nic%u", r->implied_nics);
    uint32_t index;
    CCL_TRY(ccl_i_plan_add(r->plan, CCL_DEVICE_NIC, id, parent, GBps, &index, err));
    r->implied_nics++;
    double net_GBps = preset        ? preset->GBps
                      : r->platform ? r->platform->nic_GBps
                                    : CCL_I_NCCL_NET_GBps;
    r->plan->devs[index].net_GBps = net_GBps;
    return CCL_OK;
}

static ccl_status_t add_pci(system_reader_t *r, uint32_t pci, uint32_t parent, ccl_error_t *err) {
    const ccl_i_xml_tree_t *tree = r->tree;
    double GBps;
    uint64_t bus;
    uint32_t endpoints = 0;
    bool bridge = false;
    CCL_TRY(ccl_i_nccl_pci_link(tree, pci, &GBps, err));
    CCL_TRY(ccl_i_pci_bus(tree, pci, "busid", &bus, err));
    for (uint32_t e = tree->elems[pci].child; e != CCL_NONE; e = tree->elems[e].next) {
        bridge = bridge || ccl_i_xml_is(tree, e, "pci");
        endpoints += is_gpu_element(tree, e);
        if (ccl_i_xml_is(tree, e, "nic"))
            for (uint32_t n = tree->elems[e].child; n != CCL_NONE; n = tree->elems[n].next)
                endpoints += ccl_i_xml_is(tree, n, "net");
    }
    if (endpoints || bridge || tree->elems[pci].child == CCL_NONE)
        r->unknown_speeds += !ccl_i_nccl_pci_speed_known(ccl_i_xml_attr(tree, pci, "link_speed"));
    if (!bridge && !endpoints)
        return add_leaf(r, pci, parent, GBps, err);
    if (bridge) {
        const char *text = ccl_i_xml_attr(tree, pci, "busid");
        char id[80];
        snprintf(id, sizeof(id), "pci%.60s", text ? text : "");
        CCL_TRY(ccl_i_plan_add(r->plan, CCL_DEVICE_SWITCH, id, parent, GBps, &parent, err));
    }
    uint32_t function = endpoints > 1 ? pci : CCL_NONE;
    for (uint32_t e = tree->elems[pci].child; e != CCL_NONE; e = tree->elems[e].next) {
        if (is_gpu_element(tree, e))
            CCL_TRY(add_gpu(r, pci, e, parent, GBps, function, err));
        else if (ccl_i_xml_is(tree, e, "nic"))
            CCL_TRY(add_nets(r, e, pci, parent, GBps, function, err));
    }
    for (uint32_t e = tree->elems[pci].child; e != CCL_NONE; e = tree->elems[e].next)
        if (ccl_i_xml_is(tree, e, "pci"))
            CCL_TRY(add_pci(r, e, parent, err));
    return CCL_OK;
}

static ccl_status_t add_cpu(system_reader_t *r, uint32_t cpu, ccl_error_t *err) {
    const ccl_i_xml_tree_t *tree = r->tree;
    int64_t family = -1, model = -1;
    CCL_TRY(ccl_i_xml_int(tree, cpu, "familyid", -1, INT32_MAX, &family, err));
    CCL_TRY(ccl_i_xml_int(tree, cpu, "modelid", -1, INT32_MAX, &model, err));
    const char *numa = ccl_i_xml_attr(tree, cpu, "numaid");
    const char *host = ccl_i_xml_attr(tree, cpu, "host_hash");
    char text[300];
    uint32_t server, index;
    /* One file may hold several hosts that NVLink joins; each is a server. */
    snprintf(text, sizeof(text), "%s%s%.60s", r->plan->name, host ? "@" : "", host ? host : "");
    CCL_TRY(ccl_i_plan_server(r->plan, text, &server, err));
    snprintf(text, sizeof(text), "cpu%.20s", numa ? numa : "");
    CCL_TRY(ccl_i_plan_add(r->plan, CCL_DEVICE_HOST, text, CCL_NONE, 0, &index, err));
    r->plan->devs[index].server = server;
    r->plan->devs[index].cpu_GBps = ccl_i_nccl_cpu_GBps(
        ccl_i_xml_attr(tree, cpu, "arch"), ccl_i_xml_attr(tree, cpu, "vendor"), family, model);
    for (uint32_t e = tree->elems[cpu].child; e != CCL_NONE; e = tree->elems[e].next) {
        if (ccl_i_xml_is(tree, e, "pci"))
            CCL_TRY(add_pci(r, e, index, err));
        else if (ccl_i_xml_is(tree, e, "nic"))
            CCL_TRY(add_nets(r, e, CCL_NONE, index, CCL_I_NCCL_LOCAL_GBps, CCL_NONE, err));
        else if (is_gpu_element(tree, e))
            return ccl_i_xml_fail(tree, e, err, "a gpu must stand in a <pci> element");
    }
    return CCL_OK;
}

/* ---------------------------------------------------------------- direct links */

typedef struct link_faults {
    uint32_t self, absent, other;
} link_faults_t;

static uint32_t host_of(const ccl_i_nccl_plan_t *plan, uint32_t dev) {
    while (plan->devs[dev].parent != CCL_NONE)
        dev = plan->devs[dev].parent;
    return dev;
}

static ccl_status_t link_host(system_reader_t *r, uint32_t gpu, uint32_t lanes, double GBps,
                              ccl_error_t *err) {
    uint32_t host = host_of(r->plan, gpu);
    CCL_TRY(ccl_i_plan_link(r->plan, gpu, host, "nvlink", lanes, GBps, err));
    return ccl_i_plan_link(r->plan, host, gpu, "nvlink", lanes, GBps, err);
}

static ccl_status_t add_direct(system_reader_t *r, uint32_t gpu, uint32_t e, uint32_t *nvswitch,
                               link_faults_t *faults, ccl_error_t *err) {
    const ccl_i_xml_tree_t *tree = r->tree;
    ccl_i_nccl_plan_t *plan = r->plan;
    bool xgmi = ccl_i_xml_is(tree, e, "xgmi"), c2c = ccl_i_xml_is(tree, e, "c2c");
    if (!xgmi && !c2c && !ccl_i_xml_is(tree, e, "nvlink"))
        return CCL_OK;
    int64_t count = 1;
    CCL_TRY(ccl_i_xml_int(tree, e, "count", 1, CCL_I_PLAN_MAX_LANES, &count, err));
    uint32_t lanes = (uint32_t)count;
    if (c2c) { /* GPU to its own CPU; bw is of one link, MB/s */
        double bw_MBps = 0;
        CCL_TRY(ccl_i_xml_number(tree, e, "bw", 1e9, &bw_MBps, err));
        if (bw_MBps <= 0)
            return ccl_i_xml_fail(tree, e, err, "c2c needs a bw in MB/s above 0");
        return link_host(r, gpu, lanes, lanes * bw_MBps / 1000.0, err);
    }
    double lane_GBps = xgmi ? ccl_i_nccl_xgmi_GBps(plan->devs[gpu].gfx)
                            : ccl_i_nccl_nvlink_GBps(plan->devs[gpu].sm);
    const char *kind = xgmi ? "xgmi" : "nvlink", *target = ccl_i_xml_attr(tree, e, "target");
    ccl_i_pci_class_t class = ccl_i_pci_class(ccl_i_xml_attr(tree, e, "tclass"));
    uint64_t bus;
    CCL_TRY(ccl_i_pci_bus(tree, e, "target", &bus, err));
    char key[24];
    snprintf(key, sizeof(key), "%llx", (unsigned long long)bus);
    uint32_t peer = bus == CCL_I_BUS_NONE ? CCL_NONE : ccl_strmap_get(r->by_bus, key);
    /* NVSwitches are named by class, since they need not stand in the file. */
    if (class == CCL_I_CLASS_CPU)
        return link_host(r, gpu, lanes, lanes * lane_GBps, err);
    if (class == CCL_I_CLASS_NVSWITCH) {
        if (*nvswitch == CCL_NONE)
            CCL_TRY(
                ccl_i_plan_add(plan, CCL_DEVICE_SWITCH, "nvswitch", CCL_NONE, 0, nvswitch, err));
        CCL_TRY(ccl_i_plan_link(plan, gpu, *nvswitch, kind, lanes, lanes * lane_GBps, err));
        return ccl_i_plan_link(plan, *nvswitch, gpu, kind, lanes, lanes * lane_GBps, err);
    }
    if (!target || !*target)
        return ccl_i_xml_fail(tree, e, err, "no target");
    if (class != CCL_I_CLASS_GPU && class != CCL_I_CLASS_NONE) {
        faults->other++;
        return CCL_OK;
    }
    if (peer == CCL_NONE) {
        faults->absent++;
        return CCL_OK;
    }
    if (peer == gpu) {
        faults->self++;
        return CCL_OK;
    }
    return ccl_i_plan_link(plan, gpu, peer, kind, lanes, lanes * lane_GBps, err);
}

static bool has_link(const ccl_i_nccl_plan_t *plan, uint32_t from, uint32_t to) {
    uint32_t i = plan->devs[from].first_link;
    while (i != CCL_NONE && plan->links[i].to != to)
        i = plan->links[i].next;
    return i != CCL_NONE;
}

static ccl_status_t add_all_direct(system_reader_t *r, ccl_error_t *err) {
    ccl_i_nccl_plan_t *plan = r->plan;
    link_faults_t faults = {0, 0, 0};
    uint32_t nvswitch = CCL_NONE, ndevs = plan->ndevs, one_way = 0;
    for (uint32_t d = 0; d < ndevs; d++) {
        uint32_t elem = plan->devs[d].kind == CCL_DEVICE_GPU ? plan->devs[d].elem : CCL_NONE;
        if (elem == CCL_NONE)
            continue;
        for (uint32_t e = r->tree->elems[elem].child; e != CCL_NONE; e = r->tree->elems[e].next)
            CCL_TRY(add_direct(r, d, e, &nvswitch, &faults, err));
    }
    for (uint32_t i = 0; i < plan->nlinks; i++)
        one_way += !has_link(plan, plan->links[i].to, plan->links[i].from);
    if (faults.self)
        ccl_i_plan_assume(plan, "%u links from a gpu to itself left out", faults.self);
    if (faults.absent)
        ccl_i_plan_assume(plan, "%u links to gpus that are not in the file left out",
                          faults.absent);
    if (faults.other)
        ccl_i_plan_assume(plan, "%u links to devices of unknown class left out", faults.other);
    if (one_way)
        ccl_i_plan_assume(plan, "%u direct links are given in one direction only", one_way);
    return CCL_OK;
}

/* ---------------------------------------------------------------- what the file leaves out */

static ccl_status_t add_assumed_links(system_reader_t *r, ccl_error_t *err) {
    ccl_i_nccl_plan_t *plan = r->plan;
    const ccl_i_gpu_preset_t *preset = NULL;
    if (r->platform)
        preset = ccl_i_gpu_preset_by_name(r->platform->gpu);
    else if (r->apu || !r->gpu_elements) /* a full dump without links has none */
        preset = ccl_i_gpu_preset_by_device(r->key.gpu_device);
    bool partial = r->apu || !r->gpu_elements || r->platform;
    if (r->link_elements || !partial)
        return CCL_OK;
    const char *what = "no direct links";
    double lane_GBps = preset ? ccl_i_nccl_nvlink_GBps(preset->sm) : 0;
    if (preset)
        CCL_TRY(ccl_i_plan_wire(plan, preset->fabric, "nvlink", preset->nvlinks, lane_GBps, &what,
                                err));
    double least_GBps = INFINITY, most_GBps = 0;
    uint32_t nics = 0;
    for (uint32_t d = 0; d < plan->ndevs; d++) {
        if (plan->devs[d].kind == CCL_DEVICE_NIC) {
            least_GBps = fmin(least_GBps, plan->devs[d].net_GBps);
            most_GBps = fmax(most_GBps, plan->devs[d].net_GBps);
            nics++;
        }
    }
    char links[160] = "no NVLink";
    if (preset && preset->nvlinks && strcmp(what, "no direct links") != 0)
        snprintf(links, sizeof(links), "%u NVLinks of %g GB/s each (%s)", preset->nvlinks,
                 lane_GBps, what);
    char speed[80] = "";
    if (nics && least_GBps < most_GBps)
        snprintf(speed, sizeof(speed), " of %g to %g GB/s", least_GBps, most_GBps);
    else if (nics)
        snprintf(speed, sizeof(speed), " of %g GB/s", most_GBps);
    ccl_i_plan_assume(plan, "partial file%s%s: assumed %u gpus %s with %s, %u NICs%s",
                      r->platform ? ", taken for " : "", r->platform ? r->platform->name : "",
                      plan->ngpus, preset ? preset->name : "of unknown model", links, nics, speed);
    return CCL_OK;
}

static ccl_status_t read_all(system_reader_t *r, ccl_error_t *err) {
    const ccl_i_xml_tree_t *tree = r->tree;
    ccl_i_nccl_plan_t *plan = r->plan;
    for (uint32_t e = tree->elems[0].child; e != CCL_NONE; e = tree->elems[e].next)
        if (ccl_i_xml_is(tree, e, "cpu"))
            CCL_TRY(add_cpu(r, e, err));
    if (plan->nhosts == 0)
        return ccl_i_xml_fail(tree, 0, err, "no <cpu> in this system");
    if (plan->ngpus == 0)
        return ccl_i_xml_fail(tree, 0, err,
                              "no gpu: neither <gpu> elements nor pci elements of a gpu's class "
                              "(0x03...), nor a machine known by its PCI addresses");
    CCL_TRY(add_all_direct(r, err));
    if (r->unknown_speeds)
        ccl_i_plan_assume(plan, "%u PCI links without a known speed: 8 GT/s as NCCL does",
                          r->unknown_speeds);
    if (r->unused_gpus)
        ccl_i_plan_assume(plan, "%u PCI functions of class gpu without <gpu> left out",
                          r->unused_gpus);
    if (r->repeated_nets)
        ccl_i_plan_assume(plan, "%u NIC ports listed again left out", r->repeated_nets);
    if (r->huge_nets)
        ccl_i_plan_assume(plan,
                          "%u NICs of more than 10 Tbit/s: speed is in Mbit/s, taken as it "
                          "stands",
                          r->huge_nets);
    CCL_TRY(ccl_i_plan_number(plan, err));
    return add_assumed_links(r, err);
}

ccl_status_t ccl_i_nccl_read_system(ccl_i_nccl_plan_t *plan, const ccl_i_xml_tree_t *tree,
                                    ccl_error_t *err) {
    system_reader_t r = {.plan = plan, .tree = tree};
    r.ports = ccl_strmap_create();
    r.by_bus = ccl_strmap_create();
    survey(&r);
    ccl_status_t status = r.ports && r.by_bus ? read_all(&r, err) : ccl_fail_nomem(err);
    ccl_strmap_destroy(r.ports);
    ccl_strmap_destroy(r.by_bus);
    return status;
}
