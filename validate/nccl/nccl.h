/**
 * @file nccl.h
 * What stock NCCL runs: its own choice of algorithm, protocol and channels, the programs that its
 * kernels are, and their times.
 */
#ifndef CCL_VALIDATE_NCCL_H
#define CCL_VALIDATE_NCCL_H

#include "make/make.h"

CCL_BEGIN_DECLS

typedef enum ccl_nccl_algo {
    CCL_NCCL_RING,
    CCL_NCCL_TREE,
    CCL_NCCL_NVLS,      /**< pulled sums and multicasts through the NVSwitch of one server */
    CCL_NCCL_NVLS_TREE, /**< the same in several servers, trees between them */
    CCL_NCCL_P2P
} ccl_nccl_algo_t;
typedef enum ccl_nccl_proto { CCL_NCCL_LL, CCL_NCCL_LL128, CCL_NCCL_SIMPLE } ccl_nccl_proto_t;
const char *ccl_nccl_algo_name(ccl_nccl_algo_t algo);    /**< "ring"; static */
const char *ccl_nccl_proto_name(ccl_nccl_proto_t proto); /**< "LL128"; static */

/** What NCCL's tuning model knows of a cluster. */
typedef struct ccl_nccl_setup {
    uint32_t nranks, nservers;
    uint32_t arch;         /**< row of its tables: 0 Volta, 1 Ampere, 2 Hopper, 3 Blackwell */
    bool nvlink;           /**< GPUs of a server reach each other over NVLink or xGMI alone */
    bool ll128;            /**< the protocol may be used */
    uint32_t channels;     /**< of rings and trees */
    uint32_t searched;     /**< that limit its estimates: between servers the half that its graph
                                search finds, before NCCL doubles them; inside one all, since its
                                search of Blackwell is not known and for others neither limits */
    double bus_GBps;       /**< bandwidth of all rings together, as NCCL's graph search sees it */
    double tree_GBps;      /**< of all trees together: with two servers up to twice the network's */
    uint32_t nic_gpus;     /**< that share a NIC, each with a proxy of its own; 1 without NICs */
    uint32_t p2p_channels; /**< that all peers inside a server share */
    uint32_t net_channels; /**< of one message between servers, at most */
    bool nvls;             /**< it may reduce AllReduce in the NVSwitches */
    double nvls_GBps;      /**< of one head's part of the links, as its graph search finds it */
    double nvls_net_GBps;  /**< of one head's part of the network, found likewise */
    uint32_t nvls_heads;   /**< GPUs of a server that have a part of the data each */
    uint32_t nvls_channels;
    bool registered;  /**< users' buffers are registered: NVLS copies nothing in or out */
    uint32_t version; /**< of NCCL, 22703 for 2.27.3; 23000 unless given */
} ccl_nccl_setup_t;
/** A decision, with NCCL's own estimate of the time. */
typedef struct ccl_nccl_choice {
    ccl_nccl_algo_t algo;
    ccl_nccl_proto_t proto;
    uint32_t channels; /**< a thread block each, on every GPU */
    double estimate_s; /**< 0 for point-to-point */
    uint32_t batches;  /**< micro-batches of the simulation; 0: as few as FIFOs and slices allow */
} ccl_nccl_choice_t;
/**
 * The library that stock software runs on these GPUs.
 * @param out  "nccl" (GPUs of NVIDIA, or of no given vendor) or "rccl" (of AMD); static.
 * @retval CCL_UNSUPPORTED  GPUs of two vendors, or of another one: neither runs there.
 */
ccl_status_t ccl_nccl_library(const ccl_topology_t *topo, const char **out, ccl_error_t *err);
/** Is this the name of stock software, "nccl" or "rccl", not of a synthesizer? @param name may be
 * NULL: no. */
bool ccl_nccl_stock(const char *name);
/**
 * Look at a cluster as NCCL does: of different GPUs and servers the oldest generation, the fewest
 * channels and the least bandwidth count, because all ranks take the same.
 * @param channels  of rings and trees when they are known (a log, NCCL_MAX_NCHANNELS); 0: over
 * NVLink 12 on Volta, 24 on Ampere and Hopper and over xGMI, 32 on Blackwell; 2 over PCIe.
 */
ccl_status_t ccl_nccl_setup(const ccl_topology_t *topo, uint32_t channels, ccl_nccl_setup_t *out,
                            ccl_error_t *err);
/**
 * Algorithm, protocol and channels that NCCL takes for a collective of this size: the least of
 * latency + bytes / bandwidth over ring and tree and the three protocols; fewer channels while a
 * channel would have too little to do; grouped sends and receives for AllToAll, Gather, Scatter and
 * SendRecv: a channel of those that the peers share for every 64 KiB of a message, LL up to 16 KiB
 * a channel. Between two ranks (SendRecv) of one server channels are doubled while a part exceeds
 * 16 MiB; a message between servers has a channel for every 14 GB/s of a NIC.
 *
 * @par Source  NCCL 2.30, tuning model (base and hardware latencies, bandwidth limits per channel,
 *              correction of trees; NVLS and NVLSTree); CollNet and PAT (AllGather and
 *              ReduceScatter of one GPU a server) are left out.
 */
ccl_nccl_choice_t ccl_nccl_choose(const ccl_nccl_setup_t *setup, ccl_collective_kind_t kind,
                                  double size_bytes);
/** The choice in a few words: "ring LL128 x24", 24 channels. */
void ccl_nccl_choice_text(const ccl_nccl_choice_t *choice, char *out, size_t out_len);
/**
 * Whether the choice may be this one at all: trees, NVLS and NVLSTree for AllReduce alone, LL128
 * and NVLS where the machine has them, NVLS in one server, NVLSTree over several, both with Simple.
 */
bool ccl_nccl_may(const ccl_nccl_setup_t *setup, ccl_collective_kind_t kind, ccl_nccl_algo_t algo,
                  ccl_nccl_proto_t proto);
/** Whether switches add elements of this type, by nccl-tests' name ("half"); "" or unknown: yes. */
bool ccl_nccl_nvls_type(const char *type);
/** What NCCL may take for this collective here and this model of it does not have, in a line; NULL:
    nothing. Static. */
const char *ccl_nccl_note(const ccl_nccl_setup_t *setup, ccl_collective_kind_t kind);
/** The channels it would use with this algorithm and protocol, if these were forced. */
ccl_nccl_choice_t ccl_nccl_channels(const ccl_nccl_setup_t *setup, ccl_collective_kind_t kind,
                                    ccl_nccl_algo_t algo, ccl_nccl_proto_t proto,
                                    double size_bytes);
/**
 * The program that NCCL's kernel runs: one block per channel and rank that walks the ring (send,
 * receive-forward ..., receive; both ends in one block also with two ranks); a lowered double
 * binary tree; for AllToAll per channel one block that sends and one that receives for each pair of
 * peers, and one that copies the rank's own part. In NCCL the two are halves of one block: blocks
 * of grouped sends move half as much (ccl_predictor_kernel() sees to that). Where pairs have no
 * route of their own, messages are relayed by GPUs of the destination's rail (PXN). The program is
 * not proven.
 *
 * @param choice  trees that need more thread blocks than a GPU has room for get fewer channels.
 * @param out     destroy with ccl_program_destroy().
 */
ccl_status_t ccl_nccl_program(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                              ccl_routes_t *routes, ccl_collective_kind_t kind, uint32_t root,
                              ccl_nccl_choice_t *choice, ccl_program_t **out, ccl_error_t *err);

/* ---------------------------------------------------------------- prediction */

/** Simulates NCCL's collectives on one cluster, and keeps the programs. Not thread-safe. */
typedef struct ccl_predictor ccl_predictor_t;
/** A predicted run. */
typedef struct ccl_prediction {
    ccl_nccl_choice_t choice;
    double time_s, busbw_GBps;
    double link_use;       /**< highest utilisation of a link, 0..1 */
    const char *link_kind; /**< its kind; "" when nothing moved; borrowed from the topology */
    double block_use;      /**< highest share of its time that a thread block was busy, 0..1 */
} ccl_prediction_t;
/**
 * @param profile   NULL: the topology's own constants. Borrowed; used only here.
 * @param channels  as in ccl_nccl_setup().
 * @param out       destroy with ccl_predictor_destroy().
 */
ccl_status_t ccl_predictor_create(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                                  const ccl_profile_t *profile, uint32_t channels,
                                  ccl_predictor_t **out, ccl_error_t *err);
/** Frees it and all it owns; NULL is fine. */
void ccl_predictor_destroy(ccl_predictor_t *p);
/** NCCL's version decides a little of its choice. @param version  22703 for 2.27.3; 0: as before.
 */
void ccl_predictor_version(ccl_predictor_t *p, uint32_t version);
/**
 * What decides about NVLS beside the machine.
 * @param allowed     false: NCCL_NVLS_ENABLE=0, or elements that switches do not add.
 * @param registered  as in ccl_nccl_setup_t.
 */
void ccl_predictor_nvls(ccl_predictor_t *p, bool allowed, bool registered);
/** Give back what only new programs need: some 30 MB of routes on 512 GPUs. Made again when needed.
 */
void ccl_predictor_rest(ccl_predictor_t *p);
const ccl_nccl_setup_t *ccl_predictor_setup(const ccl_predictor_t *p);
/** Other constants for the same cluster: programs are kept. @param profile as above. */
ccl_status_t ccl_predictor_profile(ccl_predictor_t *p, const ccl_profile_t *profile,
                                   ccl_error_t *err);
/**
 * Run on another description of the cluster than NCCL chooses by: the same devices and links with
 * measured constants.
 * @param laid  borrowed while the predictor lives; NULL: the predictor's own.
 */
void ccl_predictor_lay(ccl_predictor_t *p, const ccl_topology_t *laid);

/**
 * A predictor of what the stock library of these GPUs does for a collective.
 * @param machine  what the library sees: the cluster without a profile; NULL: topo.
 * @param topo     the cluster that runs are simulated on. Both are borrowed while it lives.
 * @param out      destroy with ccl_predictor_destroy().
 * @retval CCL_UNSUPPORTED  neither NCCL nor RCCL runs there (ccl_nccl_library()), or it has no call
 *                          for this collective.
 */
ccl_status_t ccl_nccl_open(const ccl_ctx_t *ctx, const ccl_topology_t *machine,
                           const ccl_topology_t *topo, const ccl_collective_t *want,
                           ccl_predictor_t **out, ccl_error_t *err);

/** What NCCL runs for one collective of one size, and how the simulator runs it. */
typedef struct ccl_nccl_kernel {
    ccl_nccl_choice_t choice;
    ccl_program_t program; /**< the predictor's, under the choice's protocol: not to be destroyed */
    const ccl_topology_t *topo; /**< the predictor's: the cluster with what NCCL's kernel does
                                     otherwise than in a ring. Routes of the cluster that was laid,
                                     or of the predictor's own, fit it */
    double step_bytes;          /**< that a block sends at a time over the links inside servers */
    double buffer_bytes;        /**< of a connection there */
} ccl_nccl_kernel_t;
/**
 * What NCCL runs, proven: for ccl_sim_program() with the kernel's topology and program, `batches`
 * of its choice and the algorithm's level.
 *
 * @param choice  NULL: what NCCL chooses.
 * @param out     borrows from the predictor; kernels stay good when others are made.
 */
ccl_status_t ccl_predictor_kernel(ccl_predictor_t *p, ccl_collective_kind_t kind, uint32_t root,
                                  double size_bytes, const ccl_nccl_choice_t *choice,
                                  ccl_nccl_kernel_t *out, ccl_error_t *err);
/** The options of a kernel's run. */
ccl_sim_options_t ccl_nccl_kernel_sim(const ccl_nccl_kernel_t *kernel, double size_bytes);
/** What the library takes for one size. */
typedef struct ccl_nccl_baseline {
    const char *name; /**< "nccl" or "rccl"; NULL: neither runs here, or not this; static */
    char choice[64];  /**< "ring LL128 x24" */
    double time_s;    /**< NaN without a name */
} ccl_nccl_baseline_t;
/**
 * The library's times, to set others beside.
 * @param machine, topo  as in ccl_nccl_open().
 * @param out            [nsizes].
 */
ccl_status_t ccl_nccl_baselines(const ccl_ctx_t *ctx, const ccl_topology_t *machine,
                                const ccl_topology_t *topo, const ccl_collective_t *want,
                                const double *sizes_bytes, uint32_t nsizes,
                                ccl_nccl_baseline_t *out, ccl_error_t *err);
/** A kernel's run. @param choice  NULL: what NCCL chooses. */
ccl_status_t ccl_predictor_run(ccl_predictor_t *p, ccl_collective_kind_t kind, uint32_t root,
                               double size_bytes, const ccl_nccl_choice_t *choice,
                               ccl_prediction_t *out, ccl_error_t *err);
/**
 * The same, to compare with: of long runs an estimate (ccl_sim_options_t.estimate), and none beyond
 * a limit.
 * @param limit_s  > 0: a run that takes longer has time INFINITY, and nothing else. 0: to the end,
 *                 and no estimate.
 */
ccl_status_t ccl_predictor_estimate(ccl_predictor_t *p, ccl_collective_kind_t kind, uint32_t root,
                                    double size_bytes, const ccl_nccl_choice_t *choice,
                                    double limit_s, ccl_prediction_t *out, ccl_error_t *err);

CCL_END_DECLS
#endif
