/*
 * NVIDIA's GPUs by NVML, opened where a driver has put it. Names, structures and values are those
 * of its published interface (nvml.h): version 2 and 3 of calls that have several.
 */
#include "topologies/here/here.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define NVML_LINKS 36u /* of a GPU, more than any has */
#define NVML_ENABLED 1u
#define NVML_REMOTE_SWITCH 2u

typedef void *nvml_device_t;
typedef struct nvml_pci {
    char legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char text[32];
} nvml_pci_t;

typedef struct nvml {
    void *library;
    int (*init)(void);
    int (*shutdown)(void);
    int (*count)(unsigned *);
    int (*handle)(unsigned, nvml_device_t *);
    int (*name)(nvml_device_t, char *, unsigned);
    int (*pci)(nvml_device_t, nvml_pci_t *);
    /* These may be missing from old drivers. */
    int (*link_state)(nvml_device_t, unsigned, unsigned *);
    int (*link_remote)(nvml_device_t, unsigned, nvml_pci_t *);
    int (*link_type)(nvml_device_t, unsigned, unsigned *);
    int (*ancestor)(nvml_device_t, nvml_device_t, unsigned *);
    int (*generation)(nvml_device_t, unsigned *);
    int (*width)(nvml_device_t, unsigned *);
} nvml_t;

static bool load(nvml_t *nvml, ccl_i_here_t *here) {
    static const char file[] = "libnvidia-ml.so.1";
    const struct {
        const char *name;
        void *at;
        bool needed;
    } calls[] = {{"nvmlInit_v2", &nvml->init, true},
                 {"nvmlShutdown", &nvml->shutdown, true},
                 {"nvmlDeviceGetCount_v2", &nvml->count, true},
                 {"nvmlDeviceGetHandleByIndex_v2", &nvml->handle, true},
                 {"nvmlDeviceGetName", &nvml->name, true},
                 {"nvmlDeviceGetPciInfo_v3", &nvml->pci, true},
                 {"nvmlDeviceGetNvLinkState", &nvml->link_state, false},
                 {"nvmlDeviceGetNvLinkRemotePciInfo_v2", &nvml->link_remote, false},
                 {"nvmlDeviceGetNvLinkRemoteDeviceType", &nvml->link_type, false},
                 {"nvmlDeviceGetTopologyCommonAncestor", &nvml->ancestor, false},
                 {"nvmlDeviceGetMaxPcieLinkGeneration", &nvml->generation, false},
                 {"nvmlDeviceGetMaxPcieLinkWidth", &nvml->width, false}};
    nvml->library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!nvml->library) {
        ccl_i_here_why_not(here, "no NVML (%s)", file);
        return false;
    }
    for (size_t i = 0; i < CCL_ARRAY_LEN(calls); i++) {
        void *symbol = dlsym(nvml->library, calls[i].name);
        memcpy(calls[i].at, &symbol, sizeof symbol);
        if (!symbol && calls[i].needed) {
            ccl_i_here_why_not(here, "NVML without %s", calls[i].name);
            return false;
        }
    }
    return true;
}

static uint64_t bus_of(const nvml_pci_t *pci) {
    return CCL_I_HERE_BUS(pci->domain, pci->bus, pci->device, 0);
}

static void read_gpu(const nvml_t *nvml, nvml_device_t device, ccl_i_here_gpu_t *gpu) {
    nvml_pci_t pci = {.bus = 0};
    unsigned generation = 0, width = 0;
    static const char *const speeds[] = {"",        "2.5 GT/s", "5 GT/s", "8 GT/s",
                                         "16 GT/s", "32 GT/s",  "64 GT/s"};
    if (nvml->name(device, gpu->name, sizeof gpu->name) != 0)
        gpu->name[0] = '\0';
    gpu->name[sizeof gpu->name - 1] = '\0';
    gpu->bus = nvml->pci(device, &pci) == 0 ? bus_of(&pci) : CCL_I_BUS_NONE;
    if (nvml->generation && nvml->width && nvml->generation(device, &generation) == 0 &&
        nvml->width(device, &width) == 0 && generation > 0 && generation < CCL_ARRAY_LEN(speeds) &&
        width > 0 && width <= 32)
        gpu->pci_GBps = ccl_i_nccl_pci_GBps(speeds[generation], width);
}

/* Links to an NVSwitch count for all who have some, as `nvidia-smi topo -m` prints them. */
static void read_links(const nvml_t *nvml, const nvml_device_t *devices, ccl_i_here_t *here,
                       uint8_t *to_switch) {
    uint32_t n = here->ngpus;
    for (uint32_t a = 0; a < n && nvml->link_state && nvml->link_remote; a++)
        for (unsigned link = 0; link < NVML_LINKS; link++) {
            unsigned state = 0, type = 0;
            nvml_pci_t remote = {.bus = 0};
            if (nvml->link_state(devices[a], link, &state) != 0 || state != NVML_ENABLED)
                continue;
            if (nvml->link_type && nvml->link_type(devices[a], link, &type) == 0 &&
                type == NVML_REMOTE_SWITCH) {
                to_switch[a]++;
                continue;
            }
            if (nvml->link_remote(devices[a], link, &remote) != 0)
                continue;
            for (uint32_t b = 0; b < n; b++)
                here->lanes[a * n + b] += b != a && here->gpus[b].bus == bus_of(&remote);
        }
    for (uint32_t a = 0; a < n; a++)
        for (uint32_t b = 0; b < n; b++)
            if (b != a)
                here->lanes[a * n + b] += to_switch[a] < to_switch[b] ? to_switch[a] : to_switch[b];
}

/* Levels of the common ancestor: 10 one switch, 20 several, 30 and 40 the host, 50 several NUMA
 * nodes. */
static void read_levels(const nvml_t *nvml, const nvml_device_t *devices, ccl_i_here_t *here) {
    uint32_t n = here->ngpus;
    for (uint32_t a = 0; a < n && nvml->ancestor; a++)
        for (uint32_t b = 0; b < n; b++) {
            unsigned level = 0;
            if (a == b || nvml->ancestor(devices[a], devices[b], &level) != 0)
                continue;
            here->near[a * n + b] = (uint8_t)(level <= 10   ? CCL_I_NEAR_PIX
                                              : level <= 20 ? CCL_I_NEAR_PXB
                                              : level <= 40 ? CCL_I_NEAR_HOST
                                                            : CCL_I_NEAR_SYS);
        }
}

static ccl_status_t read_all(const nvml_t *nvml, ccl_i_here_t *here, ccl_error_t *err) {
    unsigned count = 0;
    if (nvml->count(&count) != 0 || count == 0) {
        ccl_i_here_why_not(here, "NVML counts no GPU");
        return CCL_OK;
    }
    CCL_TRY(ccl_i_here_gpus(here, count, err));
    nvml_device_t *devices = calloc(here->ngpus, sizeof *devices);
    uint8_t *to_switch = calloc(here->ngpus, 1);
    ccl_status_t status = devices && to_switch ? CCL_OK : ccl_fail_nomem(err);
    for (uint32_t g = 0; g < here->ngpus && status == CCL_OK; g++) {
        if (nvml->handle(g, &devices[g]) != 0)
            status = ccl_fail(err, CCL_ERR_MISSING,
                              "NVML does not open GPU %u; is it in order? (nvidia-smi -q)", g);
        else
            read_gpu(nvml, devices[g], &here->gpus[g]);
    }
    if (status == CCL_OK) {
        read_links(nvml, devices, here, to_switch);
        read_levels(nvml, devices, here);
    }
    free(devices);
    free(to_switch);
    return status;
}

ccl_status_t ccl_i_here_nvml(ccl_i_here_t *here, ccl_error_t *err) {
    nvml_t nvml = {0};
    ccl_status_t status = CCL_OK;
    if (load(&nvml, here)) {
        if (nvml.init() == 0) {
            status = read_all(&nvml, here, err);
            nvml.shutdown();
        } else {
            ccl_i_here_why_not(here, "NVML does not start: no driver is loaded");
        }
    }
    if (nvml.library)
        dlclose(nvml.library);
    return status;
}
