/*
 * From how near devices are to each other to the plan of one machine: NUMA nodes become hosts,
 * devices that share PCIe switches hang below one bridge, and direct links go to an NVSwitch where
 * a pair has more of them than a mesh could.
 */
#include "topologies/readers/machine/machine.h"

#include <stdlib.h>
#include <string.h>

#define NIC_UNKNOWN_GBps CCL_I_NCCL_NET_GBps
#define PCI_UNKNOWN_GBps 12.0 /* Gen3 x16, what NCCL takes where it knows nothing */

typedef struct placing {
    ccl_i_machine_t *m;
    ccl_i_nccl_plan_t *plan;
    const ccl_i_product_t *product; /* of all GPUs; NULL: not known, or several */
    uint32_t n;
    uint32_t *sets;  /* three union-finds: of one PCIe switch, of several, of one NUMA node */
    uint32_t *index; /* device to plan */
    bool *out;       /* NICs that are left out */
} placing_t;

static uint32_t *set_of(placing_t *p, ccl_i_near_t near) {
    return p->sets + (size_t)near * p->n;
}

/* ---------------------------------------------------------------- which GPUs */

static ccl_status_t name_gpus(placing_t *p, const char *hint, ccl_error_t *err) {
    ccl_i_machine_t *m = p->m;
    if (hint && !ccl_i_product_find(hint)) {
        char known[400];
        ccl_i_product_list(known, sizeof known);
        return ccl_fail(err, CCL_ERR_INPUT, "gpu=%.60s is not known; known are: %s", hint, known);
    }
    for (uint32_t g = 0; g < m->ngpus; g++) {
        if (hint)
            snprintf(m->devs[g].name, sizeof m->devs[g].name, "%s", hint);
        const ccl_i_product_t *mine = ccl_i_product_find(m->devs[g].name);
        if (!mine && m->devs[g].gfx[0])
            mine = ccl_i_product_find(m->devs[g].gfx);
        if (g == 0)
            p->product = mine;
        else if (mine != p->product)
            p->product = NULL;
    }
    if (p->product || m->devs[0].name[0] || m->devs[0].gfx[0])
        return CCL_OK;
    p->product = ccl_i_product_guess(m);
    if (p->product)
        ccl_i_plan_assume(p->plan,
                          "the output does not name the gpus: assumed %s by their links; give it "
                          "as FILE,gpu=NAME or "
                          "put the output of %s before it",
                          p->product->word,
                          m->amd ? "rocm-smi --showproductname" : "nvidia-smi -L");
    else
        ccl_i_plan_assume(
            p->plan,
            "the output does not name the gpus, and they have no direct links: no model assumed, "
            "PCIe of "
            "%g GB/s; give it as FILE,gpu=NAME or put the output of nvidia-smi -L before it",
            PCI_UNKNOWN_GBps);
    return CCL_OK;
}

static double pci_GBps(const placing_t *p, uint32_t d) {
    if (p->m->devs[d].pci_GBps > 0)
        return p->m->devs[d].pci_GBps;
    return p->product ? p->product->pci_GBps : PCI_UNKNOWN_GBps;
}

/* ---------------------------------------------------------------- NICs */

static bool is_close(const placing_t *p, uint32_t gpu, uint32_t nic) {
    return *ccl_i_machine_near(p->m, gpu, nic) <= CCL_I_NEAR_PXB ||
           *ccl_i_machine_near(p->m, nic, gpu) <= CCL_I_NEAR_PXB;
}

/* Where each GPU has a NIC on its own switches, libraries use those; others are for storage and
 * management. */
static ccl_status_t choose_nics(placing_t *p, double hint_Bps, ccl_error_t *err) {
    ccl_i_machine_t *m = p->m;
    ccl_text_t far = {0};
    uint32_t down = 0, left = 0, unknown = 0;
    bool all_close = true;
    double assumed = p->product ? p->product->nic_GBps : NIC_UNKNOWN_GBps;
    for (uint32_t d = m->ngpus; d < p->n; d++) {
        p->out[d] = m->devs[d].down;
        down += m->devs[d].down;
    }
    for (uint32_t g = 0; g < m->ngpus; g++) {
        bool one = false;
        for (uint32_t d = m->ngpus; d < p->n; d++)
            one = one || (!p->out[d] && is_close(p, g, d));
        all_close = all_close && one;
    }
    for (uint32_t d = m->ngpus; d < p->n; d++) {
        bool near = false;
        for (uint32_t g = 0; g < m->ngpus; g++)
            near = near || is_close(p, g, d);
        if (all_close && !near && !p->out[d]) {
            p->out[d] = true;
            if (left++ < 8)
                ccl_text_printf(&far, "%s%s", far.len ? ", " : "", m->devs[d].name);
        }
        if (p->out[d])
            continue;
        if (hint_Bps > 0)
            m->devs[d].net_GBps = hint_Bps / 1e9;
        unknown += m->devs[d].net_GBps <= 0;
        if (m->devs[d].net_GBps <= 0)
            m->devs[d].net_GBps = assumed;
    }
    if (far.nomem) {
        ccl_text_fini(&far);
        return ccl_fail_nomem(err);
    }
    if (down)
        ccl_i_plan_assume(p->plan, "%u NIC%s without a link left out", down, down > 1 ? "s" : "");
    if (left)
        ccl_i_plan_assume(p->plan,
                          "NICs that share no PCIe switch with a gpu left out, as every gpu has "
                          "one that does: %s%s",
                          far.data, left > 8 ? " ..." : "");
    if (unknown)
        ccl_i_plan_assume(
            p->plan,
            "speed of %u NIC%s not given: assumed %g Gbit/s; give it as FILE,nic=400Gbit/s",
            unknown, unknown > 1 ? "s" : "", 8 * assumed);
    ccl_text_fini(&far);
    return CCL_OK;
}

/* ---------------------------------------------------------------- hosts and bridges */

/* What is known of a pair, whichever row says it. */
static ccl_i_near_t near_of(const placing_t *p, uint32_t a, uint32_t b) {
    uint8_t ab = *ccl_i_machine_near(p->m, a, b), ba = *ccl_i_machine_near(p->m, b, a);
    return (ccl_i_near_t)(ab < ba ? ab : ba);
}

/* Devices of which nothing is known go to one host. */
static void group_unknown(placing_t *p) {
    uint32_t first = CCL_NONE, n = 0;
    for (uint32_t a = 0; a < p->n; a++) {
        bool known = p->out[a] || p->m->devs[a].numa >= 0;
        for (uint32_t b = 0; b < p->n && !known; b++)
            known = b != a && !p->out[b] && near_of(p, a, b) != CCL_I_NEAR_UNKNOWN;
        if (known)
            continue;
        n++;
        if (first == CCL_NONE)
            first = a;
        ccl_set_join(set_of(p, CCL_I_NEAR_HOST), a, first);
    }
    if (n > 1)
        ccl_i_plan_assume(p->plan, "NUMA nodes of %u devices not given: one assumed", n);
}

static void group(placing_t *p) {
    uint32_t contradictions = 0, n = p->n;
    for (uint32_t s = 0; s < 3 * n; s++)
        p->sets[s] = s % n;
    group_unknown(p);
    for (uint32_t a = 0; a < n; a++)
        for (uint32_t b = 0; b < a; b++) {
            ccl_i_near_t near = p->out[a] || p->out[b] ? CCL_I_NEAR_UNKNOWN : near_of(p, a, b);
            int numa_a = p->m->devs[a].numa, numa_b = p->m->devs[b].numa;
            if (near == CCL_I_NEAR_UNKNOWN && numa_a >= 0 && numa_a == numa_b && !p->out[a] &&
                !p->out[b])
                near = CCL_I_NEAR_HOST;
            for (int set = (int)near; set < CCL_I_NEAR_SYS; set++)
                ccl_set_join(set_of(p, (ccl_i_near_t)set), a, b);
        }
    for (uint32_t a = 0; a < n; a++)
        for (uint32_t b = 0; b < a; b++) {
            ccl_i_near_t said = p->out[a] || p->out[b] ? CCL_I_NEAR_UNKNOWN : near_of(p, a, b),
                         is = CCL_I_NEAR_SYS;
            for (int set = CCL_I_NEAR_HOST; set >= 0; set--)
                if (ccl_set_find(set_of(p, (ccl_i_near_t)set), a) ==
                    ccl_set_find(set_of(p, (ccl_i_near_t)set), b))
                    is = (ccl_i_near_t)set;
            contradictions += said != CCL_I_NEAR_UNKNOWN && is < said;
        }
    if (contradictions)
        ccl_i_plan_assume(p->plan,
                          "%u pairs of devices are said to be further apart than what both are "
                          "near to: taken as near",
                          contradictions);
}

/* Of the CPUs' link, which no such output knows: Sapphire Rapids', EPYC's and Skylake's as NCCL has
 * them. */
static double cpu_GBps(const placing_t *p) {
    uint32_t sm = p->product ? p->product->sm : 0;
    return ccl_i_nccl_cpu_GBps(NULL,
                               p->m->amd || (sm >= 80 && sm < 90) ? "AuthenticAMD" : "GenuineIntel",
                               6, sm >= 90 ? 0x8F : 0x55);
}

/* The host of each NUMA node, named by its number where that is known. */
static ccl_status_t add_hosts(placing_t *p, uint32_t *host, ccl_error_t *err) {
    uint32_t server, nhosts = 0, numa = 0;
    CCL_TRY(ccl_i_plan_server(p->plan, p->plan->name, &server, err));
    for (uint32_t d = 0; d < p->n; d++) {
        uint32_t root = ccl_set_find(set_of(p, CCL_I_NEAR_HOST), d);
        if (p->out[d])
            continue;
        if (host[root] == CCL_NONE) {
            int number = -1;
            char id[32];
            for (uint32_t o = 0; o < p->n && number < 0; o++)
                if (ccl_set_find(set_of(p, CCL_I_NEAR_HOST), o) == root)
                    number = p->m->devs[o].numa;
            snprintf(id, sizeof id, "cpu%d", number >= 0 ? number : (int)numa);
            numa++;
            CCL_TRY(ccl_i_plan_add(p->plan, CCL_DEVICE_HOST, id, CCL_NONE, 0, &host[root], err));
            p->plan->devs[host[root]].server = server;
            p->plan->devs[host[root]].cpu_GBps = cpu_GBps(p);
            nhosts++;
        }
    }
    if (nhosts > 1)
        ccl_i_plan_assume(p->plan, "links between the %u NUMA nodes assumed as %g GB/s", nhosts,
                          cpu_GBps(p));
    return CCL_OK;
}

static uint32_t members(placing_t *p, ccl_i_near_t near, uint32_t d) {
    uint32_t n = 0, root = ccl_set_find(set_of(p, near), d);
    for (uint32_t o = 0; o < p->n; o++)
        n += !p->out[o] && ccl_set_find(set_of(p, near), o) == root;
    return n;
}

/* The bridge of a set of devices, added where it is met first; the parent itself for one device
 * alone. */
static ccl_status_t bridge(placing_t *p, ccl_i_near_t near, uint32_t d, uint32_t *known,
                           uint32_t *parent, ccl_error_t *err) {
    uint32_t root = ccl_set_find(set_of(p, near), d), n = members(p, near, d);
    bool same = near == CCL_I_NEAR_PIX && n == members(p, CCL_I_NEAR_PXB, d);
    if (n < 2 || same)
        return CCL_OK;
    if (known[root] == CCL_NONE)
        CCL_TRY(ccl_i_plan_add(p->plan, CCL_DEVICE_SWITCH, "pcie", *parent, pci_GBps(p, d),
                               &known[root], err));
    *parent = known[root];
    return CCL_OK;
}

static ccl_status_t add_device(placing_t *p, uint32_t d, uint32_t parent, ccl_error_t *err) {
    const ccl_i_machine_dev_t *dev = &p->m->devs[d];
    bool gpu = d < p->m->ngpus;
    CCL_TRY(ccl_i_plan_add(p->plan, gpu ? CCL_DEVICE_GPU : CCL_DEVICE_NIC, gpu ? NULL : dev->name,
                           parent, pci_GBps(p, d), &p->index[d], err));
    ccl_i_plan_dev_t *made = &p->plan->devs[p->index[d]];
    made->net_GBps = gpu ? 0 : dev->net_GBps;
    if (!gpu)
        return CCL_OK;
    made->rank = made->dev = d;
    made->vendor = p->m->amd ? "amd" : "nvidia";
    const ccl_i_product_t *product = p->product;
    const char *model =
        product
            ? (product->pcie && ccl_i_product_is_pcie(dev->name) ? product->pcie : product->model)
        : dev->name[0] ? dev->name
        : dev->gfx[0]  ? dev->gfx
                       : "unknown";
    if (product) {
        made->sm = product->sm;
        made->sms = product->sms;
        snprintf(made->gfx, sizeof made->gfx, "%s", product->gfx ? product->gfx : "");
    }
    made->model = ccl_arena_strdup(&p->plan->arena, model);
    return made->model ? CCL_OK : ccl_fail_nomem(err);
}

static ccl_status_t add_tree(placing_t *p, ccl_error_t *err) {
    uint32_t *at =
        malloc((size_t)3 * p->n * sizeof *at); /* host, wide bridge, narrow bridge of each root */
    ccl_status_t status = at ? CCL_OK : ccl_fail_nomem(err);
    for (size_t i = 0; at && i < (size_t)3 * p->n; i++)
        at[i] = CCL_NONE;
    if (status == CCL_OK)
        status = add_hosts(p, at, err);
    for (uint32_t d = 0; d < p->n && status == CCL_OK; d++) {
        if (p->out[d])
            continue;
        uint32_t parent = at[ccl_set_find(set_of(p, CCL_I_NEAR_HOST), d)];
        status = bridge(p, CCL_I_NEAR_PXB, d, at + p->n, &parent, err);
        if (status == CCL_OK)
            status = bridge(p, CCL_I_NEAR_PIX, d, at + 2 * (size_t)p->n, &parent, err);
        if (status == CCL_OK)
            status = add_device(p, d, parent, err);
    }
    free(at);
    return status;
}

/* ---------------------------------------------------------------- direct links */

static double lane_GBps(const placing_t *p) {
    if (p->m->amd)
        return ccl_i_nccl_xgmi_GBps(p->product && p->product->gfx ? p->product->gfx : "");
    return ccl_i_nccl_nvlink_GBps(p->product ? p->product->sm : 70);
}

static ccl_status_t add_switched(placing_t *p, ccl_error_t *err) {
    ccl_i_nccl_plan_t *plan = p->plan;
    uint32_t nvswitch, most = 0, fewer = 0;
    CCL_TRY(ccl_i_plan_add(plan, CCL_DEVICE_SWITCH, "nvswitch", CCL_NONE, 0, &nvswitch, err));
    plan->devs[nvswitch].server = plan->devs[p->index[0]].server;
    for (uint32_t pass = 0; pass < 2; pass++)
        for (uint32_t a = 0; a < p->m->ngpus; a++) {
            uint32_t lanes = 0, gpu = p->index[a];
            for (uint32_t b = 0; b < p->m->ngpus; b++)
                lanes = *ccl_i_machine_lanes(p->m, a, b) > lanes ? *ccl_i_machine_lanes(p->m, a, b)
                                                                 : lanes;
            most = lanes > most ? lanes : most;
            if (pass == 0)
                continue;
            fewer += lanes < most;
            if (lanes == 0)
                continue;
            CCL_TRY(
                ccl_i_plan_link(plan, gpu, nvswitch, "nvlink", lanes, lanes * lane_GBps(p), err));
            CCL_TRY(
                ccl_i_plan_link(plan, nvswitch, gpu, "nvlink", lanes, lanes * lane_GBps(p), err));
        }
    if (fewer)
        ccl_i_plan_assume(plan, "%u gpus have fewer than %u NVLinks to the switch", fewer, most);
    return CCL_OK;
}

static ccl_status_t add_links(placing_t *p, ccl_error_t *err) {
    const char *kind = p->m->amd ? "xgmi" : "nvlink";
    uint32_t most = 0, links = p->product && p->product->links ? p->product->links : 18, any = 0;
    for (uint32_t a = 0; a < p->m->ngpus; a++) {
        uint32_t row = 0;
        for (uint32_t b = 0; b < p->m->ngpus; b++)
            row += *ccl_i_machine_lanes(p->m, a, b);
        most = row > most ? row : most;
        any += row > 0;
    }
    if (!any && p->product && p->product->links && p->m->ngpus > 1 &&
        !ccl_i_product_is_pcie(p->m->devs[0].name))
        ccl_i_plan_assume(p->plan,
                          "no direct links in this output, though %s have some: nvidia-smi topo "
                          "-mp leaves them out, -m does not",
                          p->product->word);
    if (!p->m->amd && most > links && p->m->ngpus > 2)
        return add_switched(p, err);
    for (uint32_t a = 0; a < p->m->ngpus; a++)
        for (uint32_t b = 0; b < p->m->ngpus; b++) {
            uint32_t lanes = *ccl_i_machine_lanes(p->m, a, b);
            if (lanes)
                CCL_TRY(ccl_i_plan_link(p->plan, p->index[a], p->index[b], kind, lanes,
                                        lanes * lane_GBps(p), err));
        }
    return CCL_OK;
}

static ccl_status_t place(placing_t *p, const ccl_i_machine_hints_t *hints, ccl_error_t *err) {
    CCL_TRY(name_gpus(p, hints ? hints->gpu : NULL, err));
    CCL_TRY(choose_nics(p, hints ? hints->nic_Bps : 0, err));
    group(p);
    CCL_TRY(add_tree(p, err));
    CCL_TRY(add_links(p, err));
    return ccl_i_plan_number(p->plan, err);
}

ccl_status_t ccl_i_machine_topology(const ccl_ctx_t *ctx, const char *file, const char *source,
                                    ccl_i_machine_t *m, const ccl_i_machine_hints_t *hints,
                                    ccl_topology_t **out, ccl_error_t *err) {
    ccl_i_nccl_plan_t plan;
    uint32_t n = m->ngpus + m->nnics;
    CCL_TRY(ccl_i_plan_init(&plan, ctx, file, err));
    plan.area = "topo";
    placing_t p = {.m = m, .plan = &plan, .n = n};
    p.sets = ccl_arena_alloc(&plan.arena, (size_t)3 * n, sizeof *p.sets);
    p.index = ccl_arena_alloc(&plan.arena, n, sizeof *p.index);
    p.out = ccl_arena_alloc(&plan.arena, n, sizeof *p.out);
    ccl_status_t status = p.sets && p.index && p.out ? CCL_OK : ccl_fail_nomem(err);
    if (status == CCL_OK)
        status = place(&p, hints, err);
    if (status == CCL_OK)
        status = ccl_i_plan_build(&plan, source, out, err);
    ccl_i_plan_fini(&plan);
    return status;
}
