/**
 * @file nccl_presets.h
 * NCCL's and RCCL's own constants, and what partial topology files leave out; private.
 */
#ifndef CCL_TOPOLOGIES_NCCL_PRESETS_H
#define CCL_TOPOLOGIES_NCCL_PRESETS_H

#include "topologies/topologies.h"

/** GB/s (1e9 bytes per second) per direction, as everywhere in this file. */
double ccl_i_nccl_nvlink_GBps(uint32_t sm);   /**< one NVLink of a GPU of this sm */
double ccl_i_nccl_xgmi_GBps(const char *gfx); /**< one xGMI link; "gfx90a", "gfx942", ... */
/** width x speed code / 80. `speed` NULL, "" or unknown: 8 GT/s; width 0: 16. */
double ccl_i_nccl_pci_GBps(const char *speed, uint32_t width);
bool ccl_i_nccl_pci_speed_known(const char *speed);
/** Between the CPUs of one server, from the attributes of <cpu> (NULL or -1: not given). */
double ccl_i_nccl_cpu_GBps(const char *arch, const char *vendor, int64_t family, int64_t model);
#define CCL_I_NCCL_LOCAL_GBps 5000.0        /**< a device that sits in the host itself */
#define CCL_I_NCCL_NET_GBps 12.0            /**< a NIC of which nothing is known (100 Gbit/s) */
#define CCL_I_NCCL_NET_DEFAULT_MBITPS 10000 /**< a <net> with speed <= 0 */

/** Transport nvlink, xgmi, pcie or net with NCCL's hop latency of each protocol. */
ccl_status_t ccl_i_nccl_transports(ccl_topology_builder_t *b, const char *kind, ccl_error_t *err);

typedef enum ccl_i_wiring {
    CCL_I_WIRING_NONE,
    CCL_I_WIRING_NVSWITCH,  /**< all links of each GPU to one switch */
    CCL_I_WIRING_MESH,      /**< links shared out evenly over the other GPUs */
    CCL_I_WIRING_CUBE_MESH, /**< the hybrid cube mesh of DGX-1 V100, 8 GPUs */
    CCL_I_WIRING_SXM        /**< by number of GPUs: 2 to 4 mesh, else NVSwitch (V100: cube mesh) */
} ccl_i_wiring_t;

typedef struct ccl_i_gpu_preset {
    uint32_t device; /**< PCI device id of vendor 0x10de; 0: by name only */
    const char *name;
    uint32_t sm, sms; /**< sms 0: not stated */
    uint32_t nvlinks;
    ccl_i_wiring_t fabric;
} ccl_i_gpu_preset_t;

typedef struct ccl_i_nic_preset {
    uint32_t vendor, device;
    const char *name;
    double GBps;
} ccl_i_nic_preset_t;

/** What a partial file shows of itself. */
typedef struct ccl_i_platform_key {
    uint32_t cpus, gpus, nics, bridges;
    uint32_t leaves;        /**< pci elements without children */
    bool classless;         /**< no pci element has a class */
    bool gpu_elements;      /**< has <gpu> elements */
    uint32_t gpu_device;    /**< PCI device id when all GPUs have the same, else 0 */
    uint32_t sm;            /**< when all GPUs have the same, else 0 */
    int64_t cpu_model;      /**< modelid of the first cpu, -1 when not given */
    const char *cpu_vendor; /**< of the first cpu, "" when not given */
} ccl_i_platform_key_t;

/** A known machine that its file describes only in part. */
typedef struct ccl_i_platform {
    const char *name, *source;
    ccl_i_platform_key_t key; /**< 0, NULL or -1: any */
    const char *gpu;          /**< name of a gpu preset */
    double nic_GBps;
    const char *const *gpu_busids; /**< classless files: which leaves are GPUs; NULL-terminated */
} ccl_i_platform_t;

const ccl_i_platform_t *ccl_i_platform_find(const ccl_i_platform_key_t *key);
const ccl_i_gpu_preset_t *ccl_i_gpu_preset_by_device(uint32_t device);
const ccl_i_gpu_preset_t *ccl_i_gpu_preset_by_name(const char *name);
const ccl_i_nic_preset_t *ccl_i_nic_preset_find(uint32_t vendor, uint32_t device);
/** NVLinks between GPUs a and b of DGX-1 V100: 0, 1 or 2. */
uint32_t ccl_i_cube_mesh_links(uint32_t a, uint32_t b);

#endif
