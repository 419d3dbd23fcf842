/* Stands in for NVML (as libnvidia-ml.so.1) and for ROCm SMI (as librocm_smi64.so): four GPUs of
   0000:11, 12, 21 and 22, whose shape $FAKE_SHAPE names. Types and values are those of the published
   interfaces. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int is(const char *shape) {
    const char *have = getenv("FAKE_SHAPE");
    return have && strcmp(have, shape) == 0;
}
static const unsigned buses[] = {0x11, 0x12, 0x21, 0x22};

typedef struct {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char text[32];
} pci_t;

int nvmlInit_v2(void) {
    return is("no-driver") ? 9 : 0;
}
int nvmlShutdown(void) {
    return 0;
}
int nvmlDeviceGetCount_v2(unsigned *n) {
    *n = is("none") ? 0 : 4;
    return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **out) {
    *out = (void *)(uintptr_t)(i + 1);
    return i == 2 && is("broken") ? 15 : 0;
}
static unsigned index_of(void *device) {
    return (unsigned)(uintptr_t)device - 1;
}
int nvmlDeviceGetName(void *device, char *out, unsigned len) {
    (void)device;
    snprintf(out, len, "NVIDIA H100 80GB HBM3");
    return 0;
}
int nvmlDeviceGetPciInfo_v3(void *device, pci_t *out) {
    memset(out, 0, sizeof *out);
    out->bus = buses[index_of(device)];
    return 0;
}
/* switch: 18 links each, of which the last GPU has lost one; mesh: six to each other. */
int nvmlDeviceGetNvLinkState(void *device, unsigned link, unsigned *out) {
    *out = link < (index_of(device) == 3 && is("switch") ? 17 : 18);
    return link < 18 ? 0 : 2;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned link, unsigned *out) {
    (void)device, (void)link;
    *out = is("mesh") ? 0 : 2;
    return 0;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned link, pci_t *out) {
    memset(out, 0, sizeof *out);
    out->bus = buses[(index_of(device) + 1 + link / 6) % 4];
    return 0;
}
int nvmlDeviceGetTopologyCommonAncestor(void *a, void *b, unsigned *out) {
    *out = index_of(a) / 2 == index_of(b) / 2 ? 20 : 50;
    return 0;
}
int nvmlDeviceGetMaxPcieLinkGeneration(void *device, unsigned *out) {
    (void)device;
    *out = 4;
    return 0;
}
int nvmlDeviceGetMaxPcieLinkWidth(void *device, unsigned *out) {
    (void)device;
    *out = 16;
    return 0;
}

int rsmi_init(uint64_t flags) {
    (void)flags;
    return 0;
}
int rsmi_shut_down(void) {
    return 0;
}
int rsmi_num_monitor_devices(uint32_t *n) {
    *n = 4;
    return 0;
}
int rsmi_dev_name_get(uint32_t i, char *out, size_t len) {
    (void)i;
    snprintf(out, len, "AMD Instinct MI250X");
    return 0;
}
int rsmi_dev_pci_id_get(uint32_t i, uint64_t *out) {
    *out = (uint64_t)buses[i] << 8;
    return 0;
}
int rsmi_topo_get_link_type(uint32_t a, uint32_t b, uint64_t *hops, int *type) {
    (void)a, (void)b;
    *hops = 1;
    *type = 2;
    return 0;
}
int rsmi_topo_get_link_weight(uint32_t a, uint32_t b, uint64_t *out) {
    *out = (a + b) % 2 ? 15 : 30; /* a ring */
    return 0;
}
int rsmi_topo_get_numa_node_number(uint32_t i, uint32_t *out) {
    *out = i / 2;
    return 0;
}
