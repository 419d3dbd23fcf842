/*
 * GPUs of an XML file by the names that the library has: rates of thread blocks, protocols and
 * latencies, which no such file holds, then are those of the library's server with these GPUs, and
 * profiles fit. NVLinks get their line rate there, as in the library (NCCL's own 20.6 GB/s of sm90
 * is what it expects to get out of 25).
 */
#include "topologies/readers/nccl/nccl_xml.h"

#include <string.h>

#define US 1e-6
/* docs/clusters.md: an NVSwitch is 0.7 us from GPU to GPU, a direct NVLink too; the PCIe of
   nd-a100-v4; a host to the other 0.5 us; a NIC to the fabric 1.3 us. */
#define NVSWITCH_S (0.35 * US)
#define NVLINK_S (0.7 * US)
#define PCIE_GPU_S (0.25 * US)
#define PCIE_S (0.1 * US)
#define HOST_S (0.5 * US)
#define NIC_S (1.3 * US)

static const struct {
    const char *prefix; /* of the names that nccl_xml_system.c gives */
    const char *server; /* of the library; its GPUs have one model */
    double nvlink_GBps; /* line rate of one, each way; 0: as NCCL has it */
    bool assumed;       /* the name is of a generation, not of a product */
} aliases[] = {{"V100-SXM", "dgx1-v100", 25, false}, {"A100-SXM", "dgx-a100", 25, false},
               {"A800-SXM", "a800-x8", 25, false},   {"H100-SXM", "dgx-h100", 25, false},
               {"H200-SXM", "dgx-h200", 25, false},  {"H800-SXM", "h800-x8", 25, false},
               {"H20-SXM", "h20-x8", 25, false},     {"sm70", "dgx1-v100", 25, true},
               {"sm80", "dgx-a100", 25, true},       {"sm90", "dgx-h100", 25, true},
               {"sm100", "dgx-b200", 50, true},      {"B200-SXM", "dgx-b200", 50, false},
               {"B300-SXM", "dgx-b300", 50, false},  {"MI300X", "mi300x-x8", 0, false},
               {"MI350X", "mi350x-x8", 0, false},    {"MI250", "mi250-x16", 0, false},
               {"gfx940", "mi300x-x8", 0, true},     {"gfx941", "mi300x-x8", 0, true},
               {"gfx942", "mi300x-x8", 0, true},     {"gfx90a", "mi250-x16", 0, true}};

static uint32_t alias_of(const ccl_i_plan_dev_t *gpu) {
    for (uint32_t i = 0; gpu->model && i < CCL_ARRAY_LEN(aliases); i++)
        if (strncmp(gpu->model, aliases[i].prefix, strlen(aliases[i].prefix)) == 0)
            return i;
    return CCL_NONE;
}

ccl_status_t ccl_i_nccl_library(ccl_i_nccl_plan_t *plan, ccl_i_nccl_library_t *out,
                                ccl_error_t *err) {
    ccl_topology_t *server = NULL;
    uint32_t alias = CCL_NONE;
    *out = (ccl_i_nccl_library_t){0};
    for (uint32_t d = 0; d < plan->ndevs; d++) {
        uint32_t mine;
        if (plan->devs[d].kind != CCL_DEVICE_GPU)
            continue;
        mine = alias_of(&plan->devs[d]);
        if (mine == CCL_NONE ||
            (alias != CCL_NONE && strcmp(aliases[mine].server, aliases[alias].server) != 0)) {
            ccl_i_plan_assume(plan,
                              "no constants of thread blocks and protocols known for gpus %.40s: "
                              "none assumed",
                              plan->devs[d].model ? plan->devs[d].model : "without a model");
            return CCL_OK;
        }
        alias = mine;
    }
    if (alias == CCL_NONE)
        return CCL_OK;
    CCL_TRY(ccl_topology_read(NULL, aliases[alias].server, &server, err));
    const char *name = server->gpu_models[0].name;
    if (aliases[alias].assumed)
        ccl_i_plan_assume(plan, "gpus %.40s taken for %s of the library (%s)",
                          aliases[alias].prefix, name, aliases[alias].server);
    for (uint32_t d = 0; d < plan->ndevs; d++) {
        ccl_i_plan_dev_t *gpu = &plan->devs[d];
        if (gpu->kind != CCL_DEVICE_GPU)
            continue;
        gpu->model = ccl_arena_strdup(&plan->arena, name);
        if (!gpu->model) {
            ccl_topology_destroy(server);
            return ccl_fail_nomem(err);
        }
    }
    for (uint32_t l = 0; l < plan->nlinks; l++)
        if (aliases[alias].nvlink_GBps > 0 && strcmp(plan->links[l].kind, "nvlink") == 0)
            plan->links[l].GBps = aliases[alias].nvlink_GBps * plan->links[l].lanes;
    out->server = server;
    return CCL_OK;
}

void ccl_i_nccl_library_fini(ccl_i_nccl_library_t *library) {
    ccl_topology_destroy(library->server);
}

ccl_gpu_model_t ccl_i_nccl_library_model(const ccl_i_nccl_library_t *library,
                                         const ccl_i_plan_dev_t *gpu) {
    ccl_gpu_model_t model = ccl_gpu_model_default(gpu->model);
    if (library->server)
        model = library->server->gpu_models[0];
    else
        model.vendor = gpu->vendor;
    if (gpu->sms)
        model.sms = gpu->sms;
    return model;
}

static bool has_kind(const ccl_topology_t *server, const char *kind) {
    for (uint32_t t = 0; server && t < server->ntransports; t++)
        if (strcmp(server->transports[t].kind, kind) == 0)
            return true;
    return false;
}

ccl_status_t ccl_i_nccl_library_transports(const ccl_i_nccl_library_t *library,
                                           ccl_topology_builder_t *b, ccl_error_t *err) {
    static const char *const kinds[] = {"nvlink", "xgmi", "pcie", "net"};
    const ccl_topology_t *server = library->server;
    for (uint32_t t = 0; server && t < server->ntransports; t++)
        CCL_TRY(ccl_topology_builder_transport(b, &server->transports[t], err));
    for (size_t i = 0; i < CCL_ARRAY_LEN(kinds); i++)
        if (!has_kind(server, kinds[i]))
            CCL_TRY(ccl_i_nccl_transports(b, kinds[i], err));
    return CCL_OK;
}

double ccl_i_nccl_library_latency_s(const ccl_i_nccl_library_t *library,
                                    const ccl_i_plan_dev_t *from, const ccl_i_plan_dev_t *to,
                                    const char *kind) {
    bool gpus = to && from->kind == CCL_DEVICE_GPU && to->kind == CCL_DEVICE_GPU;
    bool gpu = to && (from->kind == CCL_DEVICE_GPU || to->kind == CCL_DEVICE_GPU);
    if (!library->server)
        return 0;
    if (strcmp(kind, "nvlink") == 0)
        return gpus ? NVLINK_S : NVSWITCH_S;
    if (strcmp(kind, "pcie") == 0)
        return gpu ? PCIE_GPU_S : PCIE_S;
    return strcmp(kind, "upi") == 0 ? HOST_S : strcmp(kind, "net") == 0 ? NIC_S : 0;
}
