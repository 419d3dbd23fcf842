/* The machine that the program runs on, as a topology: GPUs and their links from the vendor's
   library, the PCI tree and NICs from hwloc, their rates from the kernel. */
#include "topologies/here/here.h"

#include <stdlib.h>
#include <string.h>

ccl_status_t ccl_i_here_gpus(ccl_i_here_t *here, uint32_t n, ccl_error_t *err) {
    if (n > CCL_I_MACHINE_MAX_DEVICES)
        n = CCL_I_MACHINE_MAX_DEVICES;
    here->gpus = calloc((size_t)n + 1, sizeof *here->gpus);
    here->lanes = calloc((size_t)n + 1, (size_t)n + 1);
    here->near = calloc((size_t)n + 1, (size_t)n + 1);
    if (!here->gpus || !here->lanes || !here->near)
        return ccl_fail_nomem(err);
    memset(here->near, CCL_I_NEAR_UNKNOWN, (size_t)n * n);
    for (uint32_t g = 0; g < n; g++)
        here->gpus[g].numa = -1;
    here->ngpus = n;
    return CCL_OK;
}

void ccl_i_here_fini(ccl_i_here_t *here) {
    free(here->gpus);
    free(here->lanes);
    free(here->near);
    free(here->nics);
    memset(here, 0, sizeof *here);
}

void ccl_i_here_why_not(ccl_i_here_t *here, const char *fmt, ...) {
    size_t len = strlen(here->why_not);
    va_list args;
    if (len > 0 && len + 2 < sizeof here->why_not)
        len += (size_t)snprintf(here->why_not + len, sizeof here->why_not - len, "; ");
    va_start(args, fmt);
    vsnprintf(here->why_not + len, sizeof here->why_not - len, fmt, args);
    va_end(args);
}

/* "400 Gb/sec (4X NDR)" and "4: ACTIVE" of a port. */
static void read_port(ccl_i_machine_dev_t *nic) {
    char path[200], *text = NULL;
    size_t len;
    snprintf(path, sizeof path, "/sys/class/infiniband/%.60s/ports/1/rate", nic->name);
    if (ccl_file_read(path, 4096, &text, &len, NULL) == CCL_OK)
        nic->net_GBps = strtod(text, NULL) / 8;
    free(text);
    text = NULL;
    snprintf(path, sizeof path, "/sys/class/infiniband/%.60s/ports/1/state", nic->name);
    if (ccl_file_read(path, 4096, &text, &len, NULL) == CCL_OK)
        nic->down = strstr(text, "DOWN") != NULL;
    free(text);
}

static ccl_status_t to_machine(const ccl_i_here_t *here, ccl_i_here_tree_t *tree,
                               ccl_i_machine_t *m, ccl_error_t *err) {
    uint32_t nnics = here->nnics;
    if (here->ngpus + nnics > CCL_I_MACHINE_MAX_DEVICES)
        nnics = CCL_I_MACHINE_MAX_DEVICES - here->ngpus;
    CCL_TRY(ccl_i_machine_init(m, "this machine", here->ngpus, nnics, err));
    uint32_t n = here->ngpus + nnics;
    m->amd = here->amd;
    for (uint32_t a = 0; a < n; a++) {
        bool gpu = a < here->ngpus;
        uint64_t bus = gpu ? here->gpus[a].bus : here->nics[a - here->ngpus].bus;
        ccl_i_machine_dev_t *dev = &m->devs[a];
        snprintf(dev->name, sizeof dev->name, "%s",
                 gpu ? here->gpus[a].name : here->nics[a - here->ngpus].name);
        dev->numa = gpu ? here->gpus[a].numa : -1;
        if (dev->numa < 0 && tree)
            dev->numa = ccl_i_here_tree_numa(tree, bus);
        if (gpu) {
            snprintf(dev->gfx, sizeof dev->gfx, "%s", here->gpus[a].gfx);
            dev->pci_GBps = here->gpus[a].pci_GBps;
        } else {
            read_port(dev);
        }
        for (uint32_t b = 0; b < n; b++) {
            uint64_t other = b < here->ngpus ? here->gpus[b].bus : here->nics[b - here->ngpus].bus;
            ccl_i_near_t near =
                tree && b != a ? ccl_i_here_tree_near(tree, bus, other) : CCL_I_NEAR_UNKNOWN;
            if (near == CCL_I_NEAR_UNKNOWN && gpu && b < here->ngpus)
                near = (ccl_i_near_t)here->near[a * here->ngpus + b];
            *ccl_i_machine_near(m, a, b) = (uint8_t)near;
            if (gpu && b < here->ngpus)
                *ccl_i_machine_lanes(m, a, b) = here->lanes[a * here->ngpus + b];
        }
    }
    return CCL_OK;
}

static ccl_status_t find(ccl_i_here_t *here, ccl_i_here_tree_t *tree, ccl_error_t *err) {
    CCL_TRY(ccl_i_here_nvml(here, err));
    if (!here->ngpus)
        CCL_TRY(ccl_i_here_rocm(here, err));
    if (!here->ngpus && tree)
        CCL_TRY(ccl_i_here_tree_gpus(tree, here, err));
    if (!here->ngpus) {
        if (!ccl_i_here_tree_built())
            ccl_i_here_why_not(here,
                               "the PCI tree was not searched: ccllab was built without hwloc");
        else
            ccl_i_here_why_not(here, tree ? "no NVIDIA or AMD GPU in the PCI tree"
                                          : "hwloc finds no PCI tree");
        return ccl_fail(
            err, CCL_ERR_MISSING,
            "no GPU on this machine (%s); name another cluster, or host:N for its cores",
            here->why_not);
    }
    return tree ? ccl_i_here_tree_nics(tree, here, err) : CCL_OK;
}

ccl_status_t ccl_topology_here(const ccl_ctx_t *ctx, ccl_topology_t **out, ccl_error_t *err) {
    ccl_i_here_t here = {0};
    ccl_i_machine_t m = {0};
    ccl_i_here_tree_t *tree = ccl_i_here_tree_create();
    ccl_status_t status = find(&here, tree, err);
    if (status == CCL_OK)
        status = to_machine(&here, tree, &m, err);
    if (status == CCL_OK && !tree)
        ccl_log(ctx, CCL_LOG_WARN, "topo", "this machine: %s: NICs and PCIe switches are left out",
                ccl_i_here_tree_built() ? "hwloc finds no PCI tree" : "built without hwloc");
    if (status == CCL_OK)
        status = ccl_i_machine_topology(ctx, "this machine",
                                        here.amd ? "ROCm SMI and hwloc on this machine"
                                                 : "NVML and hwloc on this machine",
                                        &m, NULL, out, err);
    ccl_i_machine_fini(&m);
    ccl_i_here_fini(&here);
    ccl_i_here_tree_destroy(tree);
    return status;
}
