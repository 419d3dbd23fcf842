/* AMD's GPUs by ROCm SMI, opened where ROCm has put it; names and values of its published interface
 * (rocm_smi.h). */
#include "topologies/here/here.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define RSMI_XGMI 2 /* RSMI_IOLINK_TYPE_XGMI */

typedef struct rsmi {
    void *library;
    int (*init)(uint64_t);
    int (*shutdown)(void);
    int (*count)(uint32_t *);
    int (*name)(uint32_t, char *, size_t);
    int (*pci)(uint32_t, uint64_t *);
    int (*link)(uint32_t, uint32_t, uint64_t *, int *);
    /* These may be missing from old releases. */
    int (*weight)(uint32_t, uint32_t, uint64_t *);
    int (*numa)(uint32_t, uint32_t *);
    int (*gfx)(uint32_t, uint64_t *);
} rsmi_t;

static bool load(rsmi_t *rsmi, ccl_i_here_t *here) {
    static const char *const files[] = {"librocm_smi64.so.7", "librocm_smi64.so.6",
                                        "librocm_smi64.so.5", "librocm_smi64.so",
                                        "/opt/rocm/lib/librocm_smi64.so"};
    const struct {
        const char *name;
        void *at;
        bool needed;
    } calls[] = {{"rsmi_init", &rsmi->init, true},
                 {"rsmi_shut_down", &rsmi->shutdown, true},
                 {"rsmi_num_monitor_devices", &rsmi->count, true},
                 {"rsmi_dev_name_get", &rsmi->name, true},
                 {"rsmi_dev_pci_id_get", &rsmi->pci, true},
                 {"rsmi_topo_get_link_type", &rsmi->link, true},
                 {"rsmi_topo_get_link_weight", &rsmi->weight, false},
                 {"rsmi_topo_get_numa_node_number", &rsmi->numa, false},
                 {"rsmi_dev_target_graphics_version_get", &rsmi->gfx, false}};
    for (size_t i = 0; i < CCL_ARRAY_LEN(files) && !rsmi->library; i++)
        rsmi->library = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
    if (!rsmi->library) {
        ccl_i_here_why_not(here, "no ROCm SMI (librocm_smi64.so)");
        return false;
    }
    for (size_t i = 0; i < CCL_ARRAY_LEN(calls); i++) {
        void *symbol = dlsym(rsmi->library, calls[i].name);
        memcpy(calls[i].at, &symbol, sizeof symbol);
        if (!symbol && calls[i].needed) {
            ccl_i_here_why_not(here, "ROCm SMI without %s", calls[i].name);
            return false;
        }
    }
    return true;
}

static void read_gpu(const rsmi_t *rsmi, uint32_t g, ccl_i_here_gpu_t *gpu) {
    uint64_t id = 0, gfx = 0;
    uint32_t numa = 0;
    if (rsmi->name(g, gpu->name, sizeof gpu->name) != 0)
        gpu->name[0] = '\0';
    gpu->name[sizeof gpu->name - 1] = '\0';
    gpu->bus = rsmi->pci(g, &id) == 0 /* domain, then bus, device and function as PCI packs them */
                   ? CCL_I_HERE_BUS(id >> 32, (id >> 8) & 0xff, (id >> 3) & 0x1f, id & 7)
                   : CCL_I_BUS_NONE;
    if (rsmi->numa && rsmi->numa(g, &numa) == 0 && numa < 256)
        gpu->numa = (int)numa;
    /* 942 is gfx942; gfx90a comes as 910, RCCL's way too, or as 90a in hexadecimal. */
    if (rsmi->gfx && rsmi->gfx(g, &gfx) == 0)
        snprintf(gpu->gfx, sizeof gpu->gfx, gfx == 910 || gfx == 0x90a ? "gfx90a" : "gfx%llu",
                 (unsigned long long)gfx);
}

/* Only pairs of the least weight are joined directly (rocm_matrix.c). */
static void read_links(const rsmi_t *rsmi, ccl_i_here_t *here, uint64_t *weights) {
    uint32_t n = here->ngpus;
    uint64_t least = UINT64_MAX;
    for (uint32_t a = 0; a < n; a++)
        for (uint32_t b = 0; b < n; b++) {
            uint64_t hops = 0, weight = 0;
            int type = 0;
            if (a == b || rsmi->link(a, b, &hops, &type) != 0)
                continue;
            if (type != RSMI_XGMI) {
                here->near[a * n + b] = (uint8_t)(hops <= 2 ? CCL_I_NEAR_HOST : CCL_I_NEAR_SYS);
                continue;
            }
            if (rsmi->weight && rsmi->weight(a, b, &weight) != 0)
                weight = 0;
            here->lanes[a * n + b] = 1;
            weights[a * n + b] = weight;
            least = weight && weight < least ? weight : least;
        }
    for (uint32_t i = 0; i < n * n; i++)
        if (weights[i] > least)
            here->lanes[i] = 0;
}

static ccl_status_t read_all(const rsmi_t *rsmi, ccl_i_here_t *here, ccl_error_t *err) {
    uint32_t count = 0;
    if (rsmi->count(&count) != 0 || count == 0) {
        ccl_i_here_why_not(here, "ROCm SMI counts no GPU");
        return CCL_OK;
    }
    CCL_TRY(ccl_i_here_gpus(here, count, err));
    here->amd = true;
    uint64_t *weights = calloc((size_t)here->ngpus * here->ngpus, sizeof *weights);
    if (!weights)
        return ccl_fail_nomem(err);
    for (uint32_t g = 0; g < here->ngpus; g++)
        read_gpu(rsmi, g, &here->gpus[g]);
    read_links(rsmi, here, weights);
    free(weights);
    return CCL_OK;
}

ccl_status_t ccl_i_here_rocm(ccl_i_here_t *here, ccl_error_t *err) {
    rsmi_t rsmi = {0};
    ccl_status_t status = CCL_OK;
    if (load(&rsmi, here)) {
        if (rsmi.init(0) == 0) {
            status = read_all(&rsmi, here, err);
            rsmi.shutdown();
        } else {
            ccl_i_here_why_not(here, "ROCm SMI does not start: no driver is loaded");
        }
    }
    if (rsmi.library)
        dlclose(rsmi.library);
    return status;
}
