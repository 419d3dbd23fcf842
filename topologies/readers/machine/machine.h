/**
 * @file machine.h
 * One machine by how near its devices are to each other: what `nvidia-smi topo -m`, `rocm-smi
 * --showtopo` and the libraries behind them say. Private.
 */
#ifndef CCL_TOPOLOGIES_MACHINE_H
#define CCL_TOPOLOGIES_MACHINE_H

#include "topologies/readers/nccl/nccl_xml.h"

#define CCL_I_MACHINE_MAX_DEVICES 256u /**< GPUs and NICs */
#define CCL_I_MACHINE_MAX_LANES 99u    /**< direct links of a pair */

/** How near two devices are over PCIe, nearest first; NVIDIA's words. */
typedef enum ccl_i_near {
    CCL_I_NEAR_PIX,  /**< behind one PCIe switch */
    CCL_I_NEAR_PXB,  /**< over several switches, not over the host */
    CCL_I_NEAR_HOST, /**< PHB and NODE: over the host bridges of one NUMA node */
    CCL_I_NEAR_SYS,  /**< of two NUMA nodes */
    CCL_I_NEAR_UNKNOWN
} ccl_i_near_t;

typedef struct ccl_i_machine_dev {
    char name[64];   /**< NICs: "mlx5_0"; GPUs: the product as the vendor's tools print it, "" where
                        none is known */
    char gfx[16];    /**< AMD's name of the generation, "" */
    int numa;        /**< -1: not known */
    double net_GBps; /**< NICs: 0 where not known */
    double pci_GBps; /**< 0 where not known */
    bool down;       /**< NICs: known to have no link */
} ccl_i_machine_dev_t;

/** GPUs first, in the order of their numbers, then NICs. */
typedef struct ccl_i_machine {
    uint32_t ngpus, nnics;
    ccl_i_machine_dev_t *devs;
    uint8_t *lanes; /**< [ngpus * ngpus] NVLinks or xGMI links of a pair */
    uint8_t *near;  /**< [n * n] ccl_i_near_t */
    bool amd;
} ccl_i_machine_t;

/** What the user adds to a description: `,gpu=NAME,nic=RATE`. */
typedef struct ccl_i_machine_hints {
    const char *gpu; /**< product or model; NULL: none */
    double nic_Bps;  /**< of each NIC and direction; 0: none */
} ccl_i_machine_hints_t;

/** All pairs unknown, no links. @retval CCL_ERR_INPUT  no GPU, or more devices than the limit. */
ccl_status_t ccl_i_machine_init(ccl_i_machine_t *m, const char *file, uint32_t ngpus,
                                uint32_t nnics, ccl_error_t *err);
void ccl_i_machine_fini(ccl_i_machine_t *m); /**< a zeroed one is fine */
static inline uint8_t *ccl_i_machine_near(ccl_i_machine_t *m, uint32_t a, uint32_t b) {
    return &m->near[(size_t)a * (m->ngpus + m->nnics) + b];
}
static inline uint8_t *ccl_i_machine_lanes(ccl_i_machine_t *m, uint32_t a, uint32_t b) {
    return &m->lanes[(size_t)a * m->ngpus + b];
}

/** What is known of a GPU by its product's name. */
typedef struct ccl_i_product {
    const char *word;  /**< part of the product's name, in capitals */
    const char *model; /**< as the importers of NCCL's XML name it */
    const char *pcie;  /**< of the cards without NVLink to a switch; NULL: there is none */
    const char *gfx;   /**< AMD's generation; NULL: NVIDIA's */
    uint32_t sm, sms;  /**< sms 0: the library's */
    uint32_t links;    /**< NVLinks of a GPU */
    double pci_GBps;   /**< of its slot, x16 */
    double nic_GBps;   /**< of the NIC that such machines have per GPU */
} ccl_i_product_t;
/** The row for a name such as "NVIDIA H100 80GB HBM3" or "gfx942"; NULL: none. */
const ccl_i_product_t *ccl_i_product_find(const char *name);
/** Whether the name is of a PCIe card. */
bool ccl_i_product_is_pcie(const char *name);
/** Names that ccl_i_product_find() takes, for messages. */
void ccl_i_product_list(char *out, size_t size);
/** The product that a machine without a name most likely has, by its links; NULL: none. */
const ccl_i_product_t *ccl_i_product_guess(ccl_i_machine_t *m);

/** Fill in the hints, place the devices on hosts and bridges, and make the topology. */
ccl_status_t ccl_i_machine_topology(const ccl_ctx_t *ctx, const char *file, const char *source,
                                    ccl_i_machine_t *m, const ccl_i_machine_hints_t *hints,
                                    ccl_topology_t **out, ccl_error_t *err);

/* ---------------------------------------------------------------- text */

/** The text in lines without control sequences of terminals. */
typedef struct ccl_i_smi {
    const char *file;
    char *text;
    uint32_t nlines;
    const char **lines; /**< each ends with NUL */
} ccl_i_smi_t;
ccl_status_t ccl_i_smi_init(ccl_i_smi_t *smi, const char *file, const char *text, size_t len,
                            ccl_error_t *err);
void ccl_i_smi_fini(ccl_i_smi_t *smi);
/** Next word of a line; *at moves behind it. @return its length, 0: no more. */
size_t ccl_i_smi_word(const char **at, const char **word_out);
/** "GPU12" to 12, CCL_NONE for anything else. @param prefix  "GPU" or "NIC". */
uint32_t ccl_i_smi_index(const char *word, size_t len, const char *prefix);

/** Products, generations and speeds of NICs, wherever in the text other tools' output has them. */
void ccl_i_smi_names(const ccl_i_smi_t *smi, ccl_i_machine_t *m);
/** Index of the line with the columns of `nvidia-smi topo -m`; CCL_NONE: there is none. */
uint32_t ccl_i_nvidia_head(const ccl_i_smi_t *smi);
ccl_status_t ccl_i_nvidia_read(const ccl_i_smi_t *smi, uint32_t head, ccl_i_machine_t *out,
                               ccl_error_t *err);
/** Likewise of rocm-smi and amd-smi: the table of link types. */
uint32_t ccl_i_rocm_head(const ccl_i_smi_t *smi);
ccl_status_t ccl_i_rocm_read(const ccl_i_smi_t *smi, uint32_t head, ccl_i_machine_t *out,
                             ccl_error_t *err);

#endif
