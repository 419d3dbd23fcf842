/**
 * @file here.h
 * What finds the devices of the machine that the program runs on; private.
 */
#ifndef CCL_TOPOLOGIES_HERE_H
#define CCL_TOPOLOGIES_HERE_H

#include "topologies/readers/machine/machine.h"

/** A PCI function: domain, bus, device and function as in 0000:17:00.0. */
#define CCL_I_HERE_BUS(domain_, bus_, device_, function_)                                          \
    (((uint64_t)(domain_) << 24) | ((uint64_t)(bus_) << 16) | ((uint64_t)(device_) << 8) |         \
     (uint64_t)(function_))

typedef struct ccl_i_here_gpu {
    uint64_t bus;
    char name[64], gfx[16];
    int numa;        /**< -1: not known */
    double pci_GBps; /**< the most that GPU and slot can; 0: not known */
} ccl_i_here_gpu_t;

typedef struct ccl_i_here_nic {
    uint64_t bus;
    char name[64];
} ccl_i_here_nic_t;

/** GPUs with their links, from a vendor's library. */
typedef struct ccl_i_here {
    ccl_i_here_gpu_t *gpus; /**< [ngpus] */
    uint8_t *lanes;         /**< [ngpus * ngpus] */
    uint8_t
        *near; /**< [ngpus * ngpus] ccl_i_near_t, of what the library knows without a PCI tree */
    ccl_i_here_nic_t *nics; /**< [nnics] from the PCI tree */
    uint32_t ngpus, nnics;
    bool amd;
    char why_not[400]; /**< per source that found nothing, in one line */
} ccl_i_here_t;

ccl_status_t ccl_i_here_gpus(ccl_i_here_t *here, uint32_t n,
                             ccl_error_t *err); /**< room for n, all unknown */
void ccl_i_here_fini(ccl_i_here_t *here);
void ccl_i_here_why_not(ccl_i_here_t *here, const char *fmt, ...) CCL_PRINTF(2, 3);

/** NVIDIA's GPUs by NVML, AMD's by ROCm SMI; ngpus stays 0 where the library or the devices are
 * missing. */
ccl_status_t ccl_i_here_nvml(ccl_i_here_t *here, ccl_error_t *err);
ccl_status_t ccl_i_here_rocm(ccl_i_here_t *here, ccl_error_t *err);

/** The PCI tree, by hwloc; every function does nothing where ccllab was built without. */
typedef struct ccl_i_here_tree ccl_i_here_tree_t;
bool ccl_i_here_tree_built(void);
ccl_i_here_tree_t *ccl_i_here_tree_create(void); /**< NULL: it cannot be had */
void ccl_i_here_tree_destroy(ccl_i_here_tree_t *tree);
/** GPUs by their PCI class, where no library names them; RDMA NICs. */
ccl_status_t ccl_i_here_tree_gpus(ccl_i_here_tree_t *tree, ccl_i_here_t *here, ccl_error_t *err);
ccl_status_t ccl_i_here_tree_nics(ccl_i_here_tree_t *tree, ccl_i_here_t *here, ccl_error_t *err);
ccl_i_near_t ccl_i_here_tree_near(ccl_i_here_tree_t *tree, uint64_t a, uint64_t b);
int ccl_i_here_tree_numa(ccl_i_here_tree_t *tree, uint64_t bus); /**< -1: not known */

#endif
