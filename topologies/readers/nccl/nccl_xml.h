/**
 * @file nccl_xml.h
 * What the NCCL and RCCL topology importers share: the plan of one machine, between XML and graph.
 */
#ifndef CCL_TOPOLOGIES_NCCL_XML_H
#define CCL_TOPOLOGIES_NCCL_XML_H

#include "topologies/readers/nccl/nccl_presets.h"
#include "topologies/topologies.h"
#include "topologies/readers/xml_tree.h"

/** Bounds of one file; NCCL itself stops at 576 nodes of a type. */
#define CCL_I_PLAN_MAX_GPUS 1024u
#define CCL_I_PLAN_MAX_HOSTS 256u
#define CCL_I_PLAN_MAX_DEVICES 65536u
#define CCL_I_PLAN_MAX_LANES 4096

#define CCL_I_BUS_NONE UINT64_MAX

/** A device of the PCI tree. */
typedef struct ccl_i_plan_dev {
    ccl_device_kind_t kind;
    const char *id; /**< GPUs: NULL, named after their rank later */
    uint32_t server;
    uint32_t parent;   /**< CCL_NONE: root (a CPU, an NVSwitch) */
    double up_GBps;    /**< to the parent, each way */
    uint32_t function; /**< endpoints with the same function share its PCI link; CCL_NONE: alone */
    uint64_t bus;      /**< PCI address, CCL_I_BUS_NONE when not given */
    double cpu_GBps;   /**< hosts: to each other host of its server */
    /* GPUs */
    uint32_t first_link; /**< of its links in plan->links, CCL_NONE: none */
    uint32_t elem; /**< XML element, CCL_NONE when there is none (its nvlink children are read) */
    bool implied;  /**< no <gpu> element: only a PCI function of class GPU */
    int64_t dev, rank; /**< -1: not given */
    uint32_t sm, sms;
    char gfx[16];      /**< "" when not AMD's */
    const char *model; /**< arena */
    const char *vendor;
    /* NICs */
    double net_GBps;
    double latency_s; /**< one way, NIC to NIC */
} ccl_i_plan_dev_t;

/** Direct link between GPUs, or between a GPU and an NVSwitch or a CPU. */
typedef struct ccl_i_plan_link {
    uint32_t from, to;
    const char *kind; /**< "nvlink" or "xgmi" */
    uint32_t lanes;
    double GBps;   /**< of all lanes */
    uint32_t next; /**< of the same `from` */
} ccl_i_plan_link_t;

typedef struct ccl_i_nccl_plan {
    const ccl_ctx_t *ctx;
    const char *file; /**< for messages */
    const char *area; /**< of the log */
    const char *name; /**< of the topology */
    ccl_i_plan_dev_t *devs;
    uint32_t ndevs, ngpus, nhosts;
    size_t devs_cap;
    ccl_i_plan_link_t *links;
    uint32_t nlinks;
    size_t links_cap;
    const char **servers;
    uint32_t nservers;
    size_t servers_cap;
    ccl_text_t note;
    uint32_t nassumed;
    ccl_strmap_t *ids;
    ccl_arena_t arena;
} ccl_i_nccl_plan_t;

ccl_status_t ccl_i_plan_init(ccl_i_nccl_plan_t *plan, const ccl_ctx_t *ctx, const char *file,
                             ccl_error_t *err);
void ccl_i_plan_fini(ccl_i_nccl_plan_t *plan);
/** Warn through ctx->log and keep the text in the topology's note. */
void ccl_i_plan_assume(ccl_i_nccl_plan_t *plan, const char *fmt, ...) CCL_PRINTF(2, 3);
/** Index of a server of that name, added when new. */
ccl_status_t ccl_i_plan_server(ccl_i_nccl_plan_t *plan, const char *name, uint32_t *out,
                               ccl_error_t *err);
/**
 * Add a device. @param id  made unique with ".2", ".3" ... when taken; NULL only for GPUs.
 * @param out  the new index; *dev_out valid until the next call. Either may be NULL.
 */
ccl_status_t ccl_i_plan_add(ccl_i_nccl_plan_t *plan, ccl_device_kind_t kind, const char *id,
                            uint32_t parent, double up_GBps, uint32_t *out, ccl_error_t *err);
/** Add a direct link, or widen the one that is there. */
ccl_status_t ccl_i_plan_link(ccl_i_nccl_plan_t *plan, uint32_t from, uint32_t to, const char *kind,
                             uint32_t lanes, double GBps, ccl_error_t *err);
/** Join GPUs as a preset says: `lanes` links of `lane_GBps` each. @return CCL_OK. */
ccl_status_t ccl_i_plan_wire(ccl_i_nccl_plan_t *plan, ccl_i_wiring_t fabric, const char *kind,
                             uint32_t lanes, double lane_GBps, const char **what_out,
                             ccl_error_t *err);
/** Number the GPUs: by rank, else by dev, else by PCI address (implied ones), else by order. */
ccl_status_t ccl_i_plan_number(ccl_i_nccl_plan_t *plan, ccl_error_t *err);
/** Numbered plan to topology. */
ccl_status_t ccl_i_plan_build(ccl_i_nccl_plan_t *plan, const char *source, ccl_topology_t **out,
                              ccl_error_t *err);

/** <system> of NCCL and RCCL. */
ccl_status_t ccl_i_nccl_read_system(ccl_i_nccl_plan_t *plan, const ccl_i_xml_tree_t *tree,
                                    ccl_error_t *err);
/** <system> of <group>s: a mapping file with one group per environment; takes the first. */
ccl_status_t ccl_i_nccl_read_mapping(ccl_i_nccl_plan_t *plan, const ccl_i_xml_tree_t *tree,
                                     ccl_error_t *err);
/** <graphs>: the rings that NCCL found. */
ccl_status_t ccl_i_nccl_read_graphs(ccl_i_nccl_plan_t *plan, const ccl_i_xml_tree_t *tree,
                                    ccl_error_t *err);
/* ---------------------------------------------------------------- attributes of PCI elements */

typedef enum ccl_i_pci_class {
    CCL_I_CLASS_NONE,
    CCL_I_CLASS_BRIDGE,
    CCL_I_CLASS_NVSWITCH,
    CCL_I_CLASS_CPU,
    CCL_I_CLASS_GPU,
    CCL_I_CLASS_NIC,
    CCL_I_CLASS_OTHER
} ccl_i_pci_class_t;
/** What a class such as "0x030200" stands for. */
ccl_i_pci_class_t ccl_i_pci_class(const char *text);
/** A PCI address; CCL_I_BUS_NONE when it is not given. */
ccl_status_t ccl_i_pci_bus(const ccl_i_xml_tree_t *tree, uint32_t elem, const char *attr,
                           uint64_t *out, ccl_error_t *err);
/** "0x10de" to 0x10de; 0 when absent or malformed. */
uint32_t ccl_i_pci_hex(const ccl_i_xml_tree_t *tree, uint32_t elem, const char *name);
/** PCI bandwidth of an element with link_speed and link_width. */
ccl_status_t ccl_i_nccl_pci_link(const ccl_i_xml_tree_t *tree, uint32_t elem, double *GBps_out,
                                 ccl_error_t *err);

/** What the library knows of a file's GPUs. */
typedef struct ccl_i_nccl_library {
    ccl_topology_t *server; /**< one with these GPUs; NULL: it knows none, or they differ */
} ccl_i_nccl_library_t;
/** Find them, give GPUs the library's name and NVLinks their line rate. @param out  finish it. */
ccl_status_t ccl_i_nccl_library(ccl_i_nccl_plan_t *plan, ccl_i_nccl_library_t *out,
                                ccl_error_t *err);
void ccl_i_nccl_library_fini(ccl_i_nccl_library_t *library);
/** The model of a GPU, with the file's number of multiprocessors. */
ccl_gpu_model_t ccl_i_nccl_library_model(const ccl_i_nccl_library_t *library,
                                         const ccl_i_plan_dev_t *gpu);
/** The server's transports, and NCCL's latencies for kinds that it has none of. */
ccl_status_t ccl_i_nccl_library_transports(const ccl_i_nccl_library_t *library,
                                           ccl_topology_builder_t *b, ccl_error_t *err);
/** Of a link, to go with those transports; 0 without a server. @param to  NULL: the fabric. */
double ccl_i_nccl_library_latency_s(const ccl_i_nccl_library_t *library,
                                    const ccl_i_plan_dev_t *from, const ccl_i_plan_dev_t *to,
                                    const char *kind);

#endif
