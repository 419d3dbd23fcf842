/*
 * Constants of NCCL's and RCCL's topology model, as data with their sources, and presets for what
 * partial topology files leave out.
 *
 * Sources: NCCL 2.30 src/graph/topo.h, topo.cc, tuning.cc; RCCL src/graph/topo.h (xGMI widths);
 * PCI device names from the PCI ID repository; machines from their vendors' pages, each named in
 * its row. GB/s here is 1e9 bytes per second in one direction.
 */
#include "topologies/readers/nccl/nccl_presets.h"

#include <string.h>

#define US 1e-6

double ccl_i_nccl_nvlink_GBps(uint32_t sm) {
    /* NCCL 2.30 topo.h, SM*_NVLINK_BW; below sm60 there is no NVLink and NCCL falls back to 20. */
    return sm >= 100  ? 40.1
           : sm >= 90 ? 20.6
           : sm == 86 ? 12.0
           : sm >= 70 ? 20.0
           : sm >= 60 ? 18.0
                      : 20.0;
}

double ccl_i_nccl_xgmi_GBps(const char *gfx) {
    /* RCCL topo.h: MI200_XGMI_WIDTH, GFX94X_XGMI_WIDTH, GFX95X_XGMI_WIDTH, VEGA_XGMI_WIDTH. */
    if (strncmp(gfx, "gfx90a", 6) == 0)
        return 36.0;
    if (strncmp(gfx, "gfx94", 5) == 0 || strncmp(gfx, "gfx95", 5) == 0)
        return 48.0;
    return 24.0;
}

/* NCCL topo.cc, kvDictPciGen: hundreds of Mbit/s per lane; both spellings of the kernel. */
static const struct {
    const char *prefix;
    uint32_t code;
} pci_speeds[] = {{"2.5 GT/s", 15},   {"5 GT/s", 30},   {"5.0 GT/s", 30},   {"8 GT/s", 60},
                  {"8.0 GT/s", 60},   {"16 GT/s", 120}, {"16.0 GT/s", 120}, {"32 GT/s", 240},
                  {"32.0 GT/s", 240}, {"64 GT/s", 480}, {"64.0 GT/s", 480}};
#define PCI_SPEED_DEFAULT 60u

static uint32_t pci_speed_code(const char *speed) {
    for (size_t i = 0; speed && i < CCL_ARRAY_LEN(pci_speeds); i++) {
        size_t n = strlen(pci_speeds[i].prefix);
        if (strncmp(speed, pci_speeds[i].prefix, n) == 0 &&
            (speed[n] == '\0' || strcmp(speed + n, " PCIe") == 0))
            return pci_speeds[i].code;
    }
    return 0;
}

bool ccl_i_nccl_pci_speed_known(const char *speed) {
    return pci_speed_code(speed) != 0;
}

double ccl_i_nccl_pci_GBps(const char *speed, uint32_t width) {
    uint32_t code = pci_speed_code(speed);
    return (width ? width : 16u) * (double)(code ? code : PCI_SPEED_DEFAULT) / 80.0;
}

double ccl_i_nccl_cpu_GBps(const char *arch, const char *vendor, int64_t family, int64_t model) {
    /* NCCL topo.h: P9_BW, ARM_BW, AMD_BW, *_QPI_BW, ZPI_BW; topo.cc: ncclTopoGetInterCpuBw. */
    if (arch && strcmp(arch, "ppc64") == 0)
        return 32.0;
    if (arch && strcmp(arch, "arm64") == 0)
        return 6.0;
    if (vendor && strcmp(vendor, "AuthenticAMD") == 0)
        return 16.0;
    /* A Zen 1 made under licence; NCCL does not know it, so it takes AMD's. */
    if (vendor && strcmp(vendor, "HygonGenuine") == 0)
        return 16.0;
    if (vendor && strcmp(vendor, "GenuineIntel") == 0) {
        if (family != 6)
            return 6.0;
        return model >= 0xCF ? 40.0 : model >= 0x8F ? 22.0 : model >= 0x55 ? 10.0 : 6.0;
    }
    if (vendor && strstr(vendor, "Shanghai"))
        return model == 0x5B ? 9.0 : 6.0; /* Yongfeng, other Zhaoxin */
    return 6.0;                           /* unknown: the slowest that NCCL knows */
}

ccl_status_t ccl_i_nccl_transports(ccl_topology_builder_t *b, const char *kind, ccl_error_t *err) {
    /* NCCL 2.30 tuning.cc, ring hardware latency of one hop, us: NVLink .6/1.9/3.4,
     * PCI 1.0/2.5/5.7, NET 2.7/4.0/14 for LL, LL128, Simple. xGMI takes NVLink's, as in RCCL. */
    static const struct {
        const char *kind;
        double ll_s, ll128_s, simple_s;
    } rows[] = {{"nvlink", .6 * US, 1.9 * US, 3.4 * US},
                {"xgmi", .6 * US, 1.9 * US, 3.4 * US},
                {"pcie", 1.0 * US, 2.5 * US, 5.7 * US},
                {"net", 2.7 * US, 4.0 * US, 14.0 * US}};
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        if (strcmp(rows[i].kind, kind) != 0)
            continue;
        ccl_transport_spec_t spec = {.kind = rows[i].kind};
        spec.value = ccl_transport_default(rows[i].kind);
        const struct {
            const char *protocol;
            double latency_s, wire; /* a flag for every word, for every 15th */
        } by[] = {{NULL, rows[i].simple_s, 1},
                  {"LL", rows[i].ll_s, 2},
                  {"LL128", rows[i].ll128_s, 16.0 / 15}};
        for (size_t p = 0; p < CCL_ARRAY_LEN(by); p++) {
            spec.protocol = by[p].protocol;
            spec.value.latency_s = by[p].latency_s;
            spec.value.wire = by[p].wire;
            spec.given = CCL_TRANSPORT_LATENCY | (by[p].protocol ? CCL_TRANSPORT_WIRE : 0);
            CCL_TRY(ccl_topology_builder_transport(b, &spec, err));
        }
    }
    return CCL_OK;
}

/* Links per GPU and SM counts: NVIDIA's V100, A100, H100 architecture papers; China variants keep
 * 8 links (400 GB/s both ways). Names: PCI ID repository, vendor 10de. */
static const ccl_i_gpu_preset_t gpu_presets[] = {
    {0x1db1, "V100-SXM2-16GB", 70, 80, 6, CCL_I_WIRING_SXM},
    {0x1db5, "V100-SXM2-32GB", 70, 80, 6, CCL_I_WIRING_SXM},
    {0x1db4, "V100-PCIE-16GB", 70, 80, 0, CCL_I_WIRING_NONE},
    {0x1db6, "V100-PCIE-32GB", 70, 80, 0, CCL_I_WIRING_NONE},
    {0x1eb8, "T4", 75, 40, 0, CCL_I_WIRING_NONE},
    {0x20b0, "A100-SXM4-40GB", 80, 108, 12, CCL_I_WIRING_SXM},
    {0x20b2, "A100-SXM4-80GB", 80, 108, 12, CCL_I_WIRING_SXM},
    {0x20b5, "A100-PCIE-80GB", 80, 108, 0, CCL_I_WIRING_NONE},
    {0x20f1, "A100-PCIE-40GB", 80, 108, 0, CCL_I_WIRING_NONE},
    {0x20f3, "A800-SXM4-80GB", 80, 108, 8, CCL_I_WIRING_NVSWITCH},
    {0x2237, "A10G", 86, 80, 0, CCL_I_WIRING_NONE},
    {0x2330, "H100-SXM5-80GB", 90, 132, 18, CCL_I_WIRING_SXM},
    {0x2331, "H100-PCIE-80GB", 90, 114, 0, CCL_I_WIRING_NONE},
    {0x2335, "H200-SXM5-141GB", 90, 132, 18, CCL_I_WIRING_SXM},
    {0x2324, "H800-SXM5-80GB", 90, 132, 8, CCL_I_WIRING_NVSWITCH},
    {0x2329, "H20-SXM5-96GB", 90, 78, 18, CCL_I_WIRING_NVSWITCH},
};

/* Nominal speed of one port. Names: PCI ID repository, vendors 15b3 (Mellanox), 1d0f (Amazon). */
static const ccl_i_nic_preset_t nic_presets[] = {
    {0x15b3, 0x1017, "ConnectX-5", 12.5},    {0x15b3, 0x1018, "ConnectX-5 VF", 12.5},
    {0x15b3, 0x1019, "ConnectX-5 Ex", 12.5}, {0x15b3, 0x101b, "ConnectX-6", 25.0},
    {0x15b3, 0x101c, "ConnectX-6 VF", 25.0}, {0x15b3, 0x101d, "ConnectX-6 Dx", 12.5},
    {0x15b3, 0x1021, "ConnectX-7", 50.0},    {0x1d0f, 0xefa0, "EFA", 12.5},
    {0x1d0f, 0xefa1, "EFA", 12.5},           {0x1d0f, 0xefa2, "EFA", 25.0},
};

static const char *const g5_gpu_busids[] = {"0000:00:16.0", "0000:00:17.0", "0000:00:18.0",
                                            "0000:00:19.0", "0000:00:1a.0", "0000:00:1b.0",
                                            "0000:00:1c.0", "0000:00:1d.0", NULL};

#define ANY_CPU .cpu_model = -1
static const ccl_i_platform_t platforms[] = {
    {"Azure ND v2",
     "Azure size NDv2: 8 V100-SXM2-32GB as in DGX-1, one 100 Gbit/s EDR port",
     {.cpus = 2, .gpus = 8, .nics = 1, .leaves = 9, .cpu_model = 85, .cpu_vendor = "GenuineIntel"},
     "V100-SXM2-32GB",
     12.5,
     NULL},
    {"Azure ND A100 v4",
     "Azure size ND A100 v4: 8 A100-SXM4-40GB, NVSwitch, 8 x 200 Gbit/s HDR",
     {.cpus = 4,
      .gpus = 8,
      .nics = 8,
      .bridges = 4,
      .leaves = 16,
      ANY_CPU,
      .cpu_vendor = "AuthenticAMD"},
     "A100-SXM4-40GB",
     25.0,
     NULL},
    {"Azure ND H100 v5",
     "Azure size ND H100 v5: 8 H100-SXM5, NVSwitch, 8 x 400 Gbit/s NDR",
     {.cpus = 2,
      .gpus = 8,
      .nics = 8,
      .bridges = 8,
      .leaves = 16,
      .cpu_model = 143,
      .cpu_vendor = "GenuineIntel"},
     "H100-SXM5-80GB",
     50.0,
     NULL},
    {"AWS p4d.24xlarge",
     "AWS p4d: 8 A100-SXM4-40GB, NVSwitch, 4 x 100 Gbit/s EFA",
     {.cpus = 2, .gpus = 8, .nics = 4, .bridges = 4, .leaves = 12, ANY_CPU, .gpu_device = 0x20b0},
     "A100-SXM4-40GB",
     12.5,
     NULL},
    {"AWS p4de.24xlarge",
     "AWS p4de: 8 A100-SXM4-80GB, NVSwitch, 4 x 100 Gbit/s EFA",
     {.cpus = 2, .gpus = 8, .nics = 4, .bridges = 4, .leaves = 12, ANY_CPU, .gpu_device = 0x20b2},
     "A100-SXM4-80GB",
     12.5,
     NULL},
    {"AWS p5.48xlarge",
     "AWS p5: 8 H100-SXM5, NVSwitch, 32 x 100 Gbit/s EFA",
     {.cpus = 1, .gpus = 8, .nics = 32, .bridges = 8, .gpu_elements = true, .sm = 90, ANY_CPU},
     "H100-SXM5-80GB",
     12.5,
     NULL},
    {"AWS g5.48xlarge",
     "AWS g5: 8 A10G without NVLink, one 100 Gbit/s EFA",
     {.cpus = 2, .leaves = 9, .classless = true, ANY_CPU},
     "A10G",
     12.5,
     g5_gpu_busids},
};

static bool fits(const ccl_i_platform_key_t *want, const ccl_i_platform_key_t *have) {
    return (!want->cpus || want->cpus == have->cpus) && (!want->gpus || want->gpus == have->gpus) &&
           (!want->nics || want->nics == have->nics) && want->bridges == have->bridges &&
           (!want->leaves || want->leaves == have->leaves) && want->classless == have->classless &&
           want->gpu_elements == have->gpu_elements &&
           (!want->gpu_device || want->gpu_device == have->gpu_device) &&
           (!want->sm || want->sm == have->sm) &&
           (want->cpu_model < 0 || want->cpu_model == have->cpu_model) &&
           (!want->cpu_vendor || strcmp(want->cpu_vendor, have->cpu_vendor) == 0);
}

const ccl_i_platform_t *ccl_i_platform_find(const ccl_i_platform_key_t *key) {
    for (size_t i = 0; i < CCL_ARRAY_LEN(platforms); i++)
        if (fits(&platforms[i].key, key))
            return &platforms[i];
    return NULL;
}

const ccl_i_gpu_preset_t *ccl_i_gpu_preset_by_device(uint32_t device) {
    for (size_t i = 0; device && i < CCL_ARRAY_LEN(gpu_presets); i++)
        if (gpu_presets[i].device == device)
            return &gpu_presets[i];
    return NULL;
}

const ccl_i_gpu_preset_t *ccl_i_gpu_preset_by_name(const char *name) {
    for (size_t i = 0; i < CCL_ARRAY_LEN(gpu_presets); i++)
        if (strcmp(gpu_presets[i].name, name) == 0)
            return &gpu_presets[i];
    return NULL;
}

const ccl_i_nic_preset_t *ccl_i_nic_preset_find(uint32_t vendor, uint32_t device) {
    for (size_t i = 0; i < CCL_ARRAY_LEN(nic_presets); i++)
        if (nic_presets[i].vendor == vendor && nic_presets[i].device == device)
            return &nic_presets[i];
    return NULL;
}

uint32_t ccl_i_cube_mesh_links(uint32_t a, uint32_t b) {
    /* NVIDIA DGX-1 V100 system architecture paper; the order in which TE-CCL's ndv2 and dgx1 use
     * it: GPU i and i + 4 are joined, quads are fully joined, six links each. */
    static const uint8_t quad[4][4] = {{0, 2, 1, 1}, {2, 0, 1, 2}, {1, 1, 0, 2}, {1, 2, 2, 0}};
    static const uint8_t across[4] = {2, 1, 2, 1};
    if (a >= 8 || b >= 8 || a == b)
        return 0;
    if (a / 4 == b / 4)
        return quad[a % 4][b % 4];
    return a % 4 == b % 4 ? across[a % 4] : 0;
}
