/**
 * @file runtime.h
 * Runs programs on devices, proves the data right, and measures.
 *
 * A program runs as docs/model.md defines it: thread blocks, FIFOs of slices between them,
 * micro-batches, three granularities. What the numbers of a run mean is in docs/runtime.md.
 */
#ifndef CCL_RUNTIME_RUNTIME_H
#define CCL_RUNTIME_RUNTIME_H

#include "schedule/schedule.h"

CCL_BEGIN_DECLS

typedef enum ccl_type { CCL_TYPE_INT32, CCL_TYPE_FP32, CCL_TYPE_FP16, CCL_TYPE_BF16 } ccl_type_t;
#define CCL_TYPES 4
typedef enum ccl_reduction { CCL_OP_SUM, CCL_OP_MIN, CCL_OP_MAX } ccl_reduction_t;
#define CCL_REDUCTIONS 3
const char *ccl_type_name(ccl_type_t type);         /**< "int32", "fp32", "fp16", "bf16" */
uint32_t ccl_type_bytes(ccl_type_t type);           /**< 4, 4, 2, 2 */
const char *ccl_reduction_name(ccl_reduction_t op); /**< "sum", "min", "max" */

/* ---------------------------------------------------------------- devices */

typedef struct ccl_device_info {
    char kind[16];  /**< "host", "cuda", "hip" */
    uint32_t index; /**< of its kind */
    bool available;
    char name[128];        /**< of the device; when not available: why not, one line */
    uint32_t units;        /**< cores or multiprocessors */
    double memory_bytes;   /**< 0: not known */
    char architecture[32]; /**< "x86_64", "sm_90" */
} ccl_device_info_t;
/**
 * What there is: `host`, then the devices of the modules that are found. A kind whose module or
 * driver is missing is one entry that is not available and says why.
 * @param out  malloc'ed array; caller frees.
 */
ccl_status_t ccl_devices_list(ccl_device_info_t **out, uint32_t *n_out, ccl_error_t *err);

/* ---------------------------------------------------------------- runs */

typedef enum ccl_run_ranks {
    CCL_RANKS_THREADS,  /**< all ranks in this process */
    CCL_RANKS_PROCESSES /**< children of this process run them */
} ccl_run_ranks_t;

/** How ranks of different processes reach each other. */
typedef enum ccl_run_transport {
    CCL_RUN_SHM, /**< memory that all share; where that cannot be, TCP */
    CCL_RUN_TCP,
    CCL_RUN_VERBS /**< RDMA; where a process has no device for it, TCP, and a warning */
} ccl_run_transport_t;
#define CCL_RUN_TRANSPORTS 3
/** "shm", "tcp", "verbs". */
const char *ccl_run_transport_name(ccl_run_transport_t transport);

/** A job's processes as MPI knows them; opaque. */
typedef struct ccl_bootstrap ccl_bootstrap_t;
/** How a device comes from a program to what its thread blocks do. */
typedef enum ccl_run_kernel {
    CCL_KERNEL_INTERPRETER, /**< one kernel for all programs reads the program */
    CCL_KERNEL_GENERATED    /**< a kernel written for this program and compiled now (ResCCL, 4.5) */
} ccl_run_kernel_t;
/** Whose library runs the collective instead of the program. */
typedef enum ccl_run_library {
    CCL_LIBRARY_NONE, /**< the program itself is run */
    CCL_LIBRARY_AUTO, /**< that of the devices' vendor */
    CCL_LIBRARY_NCCL, /**< of cuda devices */
    CCL_LIBRARY_RCCL  /**< of hip devices */
} ccl_run_library_t;

/** What a library is called for inside a cluster of one vendor. */
typedef enum ccl_run_call {
    CCL_CALL_ALLGATHER,
    CCL_CALL_REDUCESCATTER,
    CCL_CALL_BROADCAST,
    CCL_CALL_REDUCE,
    CCL_CALL_SENDRECV
} ccl_run_call_t;
#define CCL_RUN_CALLS 5
const char *ccl_run_call_name(ccl_run_call_t call); /**< "allgather", ... */

/** How slices lie in FIFOs, and how a receiver sees that they are there (docs/runtime.md). */
typedef enum ccl_run_protocol {
    CCL_RUN_OF_PROGRAM, /**< as the program says */
    CCL_RUN_SIMPLE,     /**< data as they are, counters beside them */
    CCL_RUN_LL,         /**< 4 bytes of data and a flag of 4 bytes in each store of 8 */
    CCL_RUN_LL128       /**< lines of 120 bytes of data and a flag of 8 */
} ccl_run_protocol_t;
/** "Simple", "LL", "LL128"; "" of CCL_RUN_OF_PROGRAM. */
const char *ccl_run_protocol_name(ccl_run_protocol_t protocol);

typedef struct ccl_run_options {
    size_t size;
    const char
        *device;       /**< "host" (NULL), "cuda", "hip", "auto": what a process finds, or one for
                            every rank, as "cuda*4,host*2,hip": then in processes, none of which
                            has ranks on different devices. Between those it is `transport`, or TCP */
    double size_bytes; /**< nccl-tests' size, > 0 (docs/runtime.md: rounding to items) */
    uint32_t batches;  /**< micro-batches; 0: as few as the FIFOs allow, as in the model */
    ccl_granularity_t granularity;
    ccl_type_t type;
    ccl_reduction_t op;
    bool out_of_place;  /**< of a program that can be run in place and out of place; what can be run
                             in one way only is run so */
    uint32_t repeats;   /**< measured runs; 0: 9 */
    uint32_t warmups;   /**< runs before them that are checked but not measured */
    bool no_check;      /**< do not look at the data (buffers are filled all the same) */
    bool block_times;   /**< one more run, in which blocks are timed (it is not among the times) */
    uint32_t slots;     /**< FIFO depth in slices; 0: 8 */
    uint32_t slices;    /**< least number of slices of a primitive; 0: 1 */
    double slice_bytes; /**< most bytes of a slice; 0: 32 KiB, less where the FIFOs of all
                             connections would take more than 512 MiB */
    double watchdog_s;  /**< give up after this time without any progress; 0: 10 */
    bool no_static_check; /**< leave programs that cannot finish to the watchdog */
    uint32_t threads;     /**< workers per process; 0: the machine's cores over the processes */
    ccl_run_ranks_t ranks;
    uint32_t processes; /**< of CCL_RANKS_PROCESSES, at most the ranks; 0: one per rank */
    ccl_run_transport_t transport;
    /* A job of processes that were started elsewhere: */
    uint32_t world;   /**< processes; 0 or 1: not such a job */
    uint32_t rank;    /**< this one, < world */
    const char *root; /**< "host:port" at which process 0 listens; NULL with `bootstrap` */
    ccl_bootstrap_t *bootstrap; /**< how they find each other without a root; NULL: by root */
    ccl_run_kernel_t kernel;
    const uint32_t *first_rank; /**< [world + 1] ranks of process i: first_rank[i] to
                                     first_rank[i + 1] - 1; NULL: equal shares. Borrowed */
    const char
        *rdma; /**< CCL_RUN_VERBS: "DEVICE[:PORT[:GID INDEX]]"; NULL: the first active port */
    ccl_run_library_t
        library; /**< with one, the program says which collective, which ranks and how
                      buffers lie; memory, values and the check of them are the same */
    ccl_run_library_t
        hom_library; /**< stage level: where a program crosses between different devices,
                      what clusters of equal ones do before and after that is left to
                      their vendor's library where it is here (AUTO: any; NCCL, RCCL:
                      that one alone). HetCCL (Peking/BAAI), 3.3 and 4.2: homColl */
    ccl_run_protocol_t protocol;
    uint64_t first_slice; /**< number of every connection's first slice, of which flags are made;
                               for tests of what happens after 2^31 and 2^32. The host, without TCP
                               and RDMA; else 0 */
} ccl_run_options_t;
/** The defaults. */
#define CCL_RUN_OPTIONS_INIT                                                                       \
    {                                                                                              \
        sizeof(ccl_run_options_t), NULL, 0, 0, CCL_GRANULARITY_ALGORITHM, CCL_TYPE_FP32,           \
            CCL_OP_SUM, false, 0, 1, false, false, 0, 0, 0, 0, false, 0, CCL_RANKS_THREADS, 0,     \
            CCL_RUN_SHM, 0, 0, NULL, NULL, CCL_KERNEL_INTERPRETER, NULL, NULL, CCL_LIBRARY_NONE,   \
            CCL_LIBRARY_NONE, CCL_RUN_OF_PROGRAM, 0                                                \
    }

/** The first wrong item found. */
typedef struct ccl_run_fault {
    uint32_t rank, chunk;
    uint32_t element;      /**< of the rank's output buffer */
    uint32_t repeat;       /**< run, warm-ups included */
    uint64_t item;         /**< within the element */
    uint64_t offset_bytes; /**< within the output buffer */
    double expected, got;  /**< got: NaN when nothing was written there */
} ccl_run_fault_t;

/** Seconds that a thread block spent in the run of `block_times`. */
typedef struct ccl_run_block {
    double busy_s;
    double wait_data_s, wait_slot_s;
    double wait_peer_s; /**< for another block of its rank */
    double wait_core_s; /**< able to go on, but no worker had time */
    uint64_t slices;    /**< passes */
} ccl_run_block_t;

typedef enum ccl_run_by {
    CCL_RUN_BY_NOBODY, /**< there is nothing to do */
    CCL_RUN_BY_PROGRAM,
    CCL_RUN_BY_LIBRARY
} ccl_run_by_t;
/** Who did a cluster's step before (start) or behind (end) what crosses borders. */
typedef struct ccl_run_cluster_step {
    ccl_run_by_t by;
    uint32_t calls[CCL_RUN_CALLS]; /**< of the library, in one run */
    double bytes;                  /**< the sum of their counts, as nccl.h has them, in bytes */
    char why[160];                 /**< by the program: why not by a library */
} ccl_run_cluster_step_t;
/** Ranks on devices of one vendor that start or end a collective together. */
typedef struct ccl_run_cluster {
    uint32_t nranks, first_rank, last_rank;
    char device[16];  /**< "cuda" */
    char library[24]; /**< "nccl 2.18.5"; "": none */
    ccl_run_cluster_step_t start, end;
} ccl_run_cluster_t;

typedef struct ccl_run_result {
    char device[16];                     /**< of all processes, each once: "cuda+host" */
    uint32_t nranks, processes, threads; /**< threads: workers per process */
    ccl_run_transport_t transport;       /**< between processes */
    uint32_t devices;                    /**< that this process's ranks are spread over */
    uint32_t switch_connections; /**< of the program, on devices whose memory is not the host's */
    uint32_t in_switch;   /**< of them those that pass a switch as they are (multicast memory); the
                               blocks go through the others' members one by one */
    bool ipc;             /**< processes write to each other's devices; else through the host */
    char rdma_memory[24]; /**< CCL_RUN_VERBS and devices: how RDMA gets at their slices, each way
                               once: "dmabuf", "peer" (their pointer), "host"; else "" */
    char rdma_why[176];   /**< one line: why not by a better way, of the slowest; "" */
    uint32_t batches, slots;
    ccl_run_protocol_t protocol; /**< that was run; never CCL_RUN_OF_PROGRAM */
    ccl_run_kernel_t kernel;
    char library[24];    /**< "nccl 2.18.5", when it ran the collective; else "" */
    double compile_s;    /**< of a generated kernel, in process 0; next to nothing when the same one
                              was compiled before */
    double size_bytes;   /**< as asked */
    double buffer_bytes; /**< largest input or output buffer of a rank, in whole items */
    double chunk_bytes;  /**< of the largest element, in the first micro-batch */
    double slice_bytes;  /**< limit that was used */
    uint32_t repeats;
    double *time_s; /**< [repeats] in order: from the common start to the last block's end */
    double min_s, median_s, max_s;
    double algbw_GBps, busbw_GBps; /**< of the median */
    uint64_t transfers;            /**< slices handed over in one run */
    bool checked;
    uint64_t checked_items; /**< over all runs */
    uint64_t wrong_items;
    ccl_run_fault_t fault; /**< when wrong_items > 0 */
    uint32_t ntbs;
    ccl_run_block_t *blocks; /**< [ntbs] with block_times, as in the program; else NULL */
    uint32_t nclusters;
    ccl_run_cluster_t *clusters; /**< [nclusters] with hom_library, by first rank; else NULL */
    ccl_deadlock_t *deadlock;    /**< when the program cannot finish or hung; else NULL */
    ccl_arena_t arena;
} ccl_run_result_t;

/**
 * Run a program, check every item that it produced, and time it.
 *
 * The program should have been verified (ccl_program_verify): one that can run (ccl_program_check)
 * but is wrong is found by its data, after the run.
 *
 * @param out  set on CCL_OK, with wrong data and on CCL_DEADLOCK; destroy with
 *             ccl_run_result_destroy().
 * @retval CCL_CHECK        wrong data; the error names rank, offset, expected, got. Or
 *                          ccl_program_check() finds a fault, before anything starts.
 * @retval CCL_DEADLOCK     the program cannot finish, or nothing moved for watchdog_s;
 *                          (*out)->deadlock says who waits for what.
 * @retval CCL_ERR_IO       a process of the job ended or cannot be reached.
 * @retval CCL_ERR_MISSING  the device is not there; with `library` or `hom_library`: the library
 *                          is not there, or this run's ranks have not its devices (of one vendor,
 *                          each rank one of its own).
 * @retval CCL_UNSUPPORTED  the device has no room for its blocks, or runs no generated kernels (and
 *                          none has switch connections); with `library`: it has no such
 * collective, or takes equal blocks only; with `hom_library`: nothing crosses between heterogeneous
 *                          devices, or all of it does.
 */
ccl_status_t ccl_run_program(const ccl_ctx_t *ctx, const ccl_program_t *program,
                             const ccl_run_options_t *options, ccl_run_result_t **out,
                             ccl_error_t *err);
/** Frees it and all it owns; NULL is fine. */
void ccl_run_result_destroy(ccl_run_result_t *result);

/** Memory that a pass uses; addresses count through the memory of all ranks. */
typedef struct ccl_run_use {
    uint32_t step;           /**< of the program */
    uint64_t src_at, dst_at; /**< bytes; CCL_RUN_NOWHERE: it reads, or writes, no buffer */
    uint64_t bytes;
} ccl_run_use_t;
#define CCL_RUN_NOWHERE UINT64_MAX
typedef struct ccl_run_order_ops {
    /** First: bytes of all ranks' memory, and the run's micro-batches. */
    ccl_status_t (*begin)(void *user, uint64_t bytes, uint32_t batches, ccl_error_t *err);
    void (*use)(void *user, const ccl_run_use_t *use);
} ccl_run_order_ops_t;
/**
 * The order in which one worker of the host takes the passes of a run, without moving anything: a
 * slice's receiver goes on before its sender, and that before the others. A program that cannot
 * finish ends where it stands.
 */
ccl_status_t ccl_run_order(const ccl_program_t *program, const ccl_run_options_t *options,
                           const ccl_run_order_ops_t *ops, void *user, ccl_error_t *err);
/**
 * The kernel that ccl_run_program would have a device compile for all ranks of the program
 * (CCL_KERNEL_GENERATED): C++ for CUDA and HIP that needs no header.
 * @param out  the text is added to it.
 * @retval CCL_UNSUPPORTED  the program has too many steps for a kernel, or switch connections.
 */
ccl_status_t ccl_run_kernel_text(const ccl_program_t *program, const ccl_run_options_t *options,
                                 ccl_text_t *out, ccl_error_t *err);
/** What a stand-alone source is written for. */
typedef enum ccl_standalone_for {
    CCL_STANDALONE_CUDA, /**< CUDA alone: GPUs of one host, with a bootstrap of its own */
    CCL_STANDALONE_HIP,  /**< HIP alone, likewise */
    CCL_STANDALONE_NCCL  /**< NCCL's device API (2.28 and newer), also between hosts */
} ccl_standalone_for_t;
typedef struct ccl_standalone_options {
    size_t size; /**< of this struct */
    ccl_standalone_for_t what;
    ccl_granularity_t granularity;
    ccl_run_protocol_t protocol;
    bool out_of_place;    /**< of a program that can be run in place and out of place */
    uint32_t slots;       /**< FIFO depth in slices; 0: 8 */
    uint32_t slice_bytes; /**< most bytes of a slice, whole 16; 0: 32 KiB */
    uint32_t
        max_blocks; /**< thread blocks that a GPU holds; 0: 132 (H100), with HIP 304 (MI300X) */
} ccl_standalone_options_t;
/** The defaults. */
#define CCL_STANDALONE_OPTIONS_INIT                                                                \
    {                                                                                              \
        sizeof(ccl_standalone_options_t), CCL_STANDALONE_CUDA, CCL_GRANULARITY_ALGORITHM,          \
            CCL_RUN_OF_PROGRAM, false, 0, 0, 0                                                     \
    }
/**
 * A program as one source file (docs/kernels.md): its thread blocks as straight code for any
 * number of items, every type and every reduction, a host function of NCCL's shape, and a main()
 * that checks the data.
 * @param program  a proven one of a built-in collective.
 * @param out  the text is added to it.
 * @retval CCL_UNSUPPORTED  a demand; switch connections; more blocks than max_blocks on a rank;
 *                          more steps than a compiler takes in reasonable time.
 * @retval CCL_DEADLOCK  it cannot finish with these slots.
 */
ccl_status_t ccl_standalone_write(const ccl_program_t *program,
                                  const ccl_standalone_options_t *options, ccl_text_t *out,
                                  ccl_error_t *err);
/**
 * Place of this process in a job that srun or mpirun started (SLURM_PROCID and SLURM_NTASKS,
 * OMPI_COMM_WORLD_RANK and _SIZE, PMI_RANK and PMI_SIZE).
 * @return false when there is none.
 */
bool ccl_run_place_from_environment(uint32_t *rank_out, uint32_t *world_out);

/** From where a process knows its place in a job, and where process 0 is. */
typedef enum ccl_bootstrap_kind {
    CCL_BOOTSTRAP_AUTO, /**< `root` when a world is given, `env` when a root is; else `mpi` in a
                             process that a launcher started, where its module is here */
    CCL_BOOTSTRAP_ROOT, /**< the options: world, rank, root */
    CCL_BOOTSTRAP_ENV,  /**< the launcher's environment; the options have the root */
    CCL_BOOTSTRAP_MPI   /**< MPI: rank, world and addresses; opens libccl_bootstrap_mpi.so */
} ccl_bootstrap_kind_t;
/**
 * Find this process's place; once in a process's life with MPI. A process with a place of its own
 * in a job has options->world > 1 afterwards.
 * @param options  world, rank, root are read; world, rank and bootstrap are set.
 * @param out      NULL without MPI; else what options->bootstrap is: end with
 *                 ccl_bootstrap_close() after the last run.
 * @retval CCL_ERR_USAGE        too little or too much is given, or there is no launcher.
 * @retval CCL_ERR_MISSING      CCL_BOOTSTRAP_MPI, but its module is not here.
 */
ccl_status_t ccl_bootstrap_open(const ccl_ctx_t *ctx, ccl_bootstrap_kind_t kind,
                                ccl_run_options_t *options, ccl_bootstrap_t **out,
                                ccl_error_t *err);
/**
 * @param together  the last run ended with an agreement of all (CCL_OK, CCL_CHECK, CCL_DEADLOCK),
 *                  so that all come here. Otherwise this process should end soon with an exit code
 *                  that is not 0: the launcher then ends the others.
 */
void ccl_bootstrap_close(ccl_bootstrap_t *bootstrap, bool together);

/* ---------------------------------------------------------------- testbed */

/** A server of a cluster, emulated by a network namespace with one NIC. */
typedef struct ccl_testbed_server {
    const char *name;
    uint32_t first_rank, nranks;
    double out_Bps, in_Bps; /**< sum of the cluster's NICs of this server */
    /** Ethernet bits per second that the token buckets let through, ends included. */
    double rate_out_bps, rate_in_bps;
} ccl_testbed_server_t;
/** How a cluster is emulated on this machine (docs/testbed.md). */
typedef struct ccl_testbed_plan {
    const char *cluster;
    uint32_t nservers, nranks;
    const ccl_testbed_server_t *servers;
    const uint32_t *first_rank; /**< [nservers + 1] */
    double rate_max_bps;        /**< as asked */
    double scale;               /**< emulated over described bandwidth */
    double head_start_s;        /**< full buckets let the bytes of this time pass free */
    ccl_arena_t arena;
} ccl_testbed_plan_t;
#define CCL_TESTBED_RATE_MAX_BPS 1e9
#define CCL_TESTBED_RATE_MIN_BPS 1e8
#define CCL_TESTBED_RATE_SUM_BPS 4e9
#define CCL_TESTBED_MAX_SERVERS 64
/**
 * Servers, their ranks and rates in the proportions of their NICs' bandwidths: the fastest has
 * rate_max_bps, or less where all together would have more than CCL_TESTBED_RATE_SUM_BPS.
 *
 * @param rate_max_bps  CCL_TESTBED_RATE_MIN_BPS to CCL_TESTBED_RATE_MAX_BPS; 0: the latter.
 * @param out  destroy with ccl_testbed_plan_destroy().
 * @retval CCL_ERR_INPUT  a GPU without a server, ranks of a server that do not follow each other,
 *                        fewer than 2 or more than CCL_TESTBED_MAX_SERVERS servers, no net links,
 *                        or a server that would have less than CCL_TESTBED_RATE_MIN_BPS.
 */
ccl_status_t ccl_testbed_plan(const ccl_topology_t *topo, double rate_max_bps,
                              ccl_testbed_plan_t **out, ccl_error_t *err);
/** Frees it and all it owns; NULL is fine. */
void ccl_testbed_plan_destroy(ccl_testbed_plan_t *plan);
/**
 * The commands, one a line, that make the network: of the namespace of a server, or of the bridge
 * (server == CCL_NONE), for `ip -batch` or `tc -batch`.
 * @param namespaces  [nservers] how ip calls the servers' namespaces (a path or process id).
 */
void ccl_testbed_commands(const ccl_testbed_plan_t *plan, uint32_t server, bool tc,
                          const char *const *namespaces, ccl_text_t *out);

/** Constants of the emulated cluster that are measured, not chosen. */
typedef struct ccl_testbed_constants {
    double launch_s;
    double overhead_s, latency_s; /**< of the transport between servers */
    double efficiency;            /**< carried over the payload rate, 0..1 */
    double tb_rate_Bps;           /**< one pass into or out of a FIFO between servers */
    double local_overhead_s, local_latency_s, local_Bps; /**< the same within a server */
    double reduce_rate_Bps;
} ccl_testbed_constants_t;
/** Measured on 2 cores of a virtual machine; docs/reproductions/testbed.md. */
#define CCL_TESTBED_CONSTANTS_INIT                                                                 \
    { 0.1e-6, 4.8e-6, 48e-6, 0.965, 8.5e9, 33e-9, 33e-9, 4.9e9, 15e9 }
/**
 * The emulated cluster as a topology: per server a NIC at payload rate (1448 of 1514 bytes of a
 * frame) to one switch, GPUs that copy through memory.
 * @param constants  NULL: CCL_TESTBED_CONSTANTS_INIT.
 * @param out  destroy with ccl_topology_destroy().
 */
ccl_status_t ccl_testbed_topology(const ccl_testbed_plan_t *plan,
                                  const ccl_testbed_constants_t *constants, ccl_topology_t **out,
                                  ccl_error_t *err);

/** Namespaces that are up. They live as long as a process holds them open, and no longer. */
typedef struct ccl_testbed ccl_testbed_t;
/**
 * Make the namespaces, held by this process alone: when it ends, however it ends, they are gone.
 * @param plan  borrowed while the testbed lives.
 * @retval CCL_ERR_MISSING  not permitted (CAP_SYS_ADMIN and CAP_NET_ADMIN), or no ip or tc.
 */
ccl_status_t ccl_testbed_open(const ccl_testbed_plan_t *plan, ccl_testbed_t **out,
                              ccl_error_t *err);
/** Frees it and all it owns; NULL is fine. */
void ccl_testbed_close(ccl_testbed_t *testbed);
const ccl_testbed_plan_t *ccl_testbed_get_plan(const ccl_testbed_t *testbed);
/**
 * ccl_run_program() as a job over TCP with a process per server in its namespace; the calling
 * process has the first server's ranks.
 * @param options  world, rank, root and transport are set here; so is first_rank when it is NULL:
 *                 the plan's. Else the program runs on servers 0 to world - 1 with these shares.
 */
ccl_status_t ccl_testbed_run(const ccl_ctx_t *ctx, const ccl_testbed_t *testbed,
                             const ccl_program_t *program, const ccl_run_options_t *options,
                             ccl_run_result_t **out, ccl_error_t *err);

/** A testbed that a process in the background keeps. */
typedef struct ccl_testbed_entry {
    char name[64];
    bool mine;   /**< false: of another user; nothing else is known */
    int32_t pid; /**< who keeps it */
    char cluster[128];
    uint32_t nservers, nranks;
    int32_t fds[CCL_TESTBED_MAX_SERVERS + 1]; /**< /proc/PID/fd/N is a server's namespace; the
                                                   last is the bridge's */
} ccl_testbed_entry_t;
/**
 * Start a process that keeps a testbed until it is dropped or ended; with it everything goes.
 * @param topo  the cluster.  @param name  letters, digits, `-`, `_`, `.`; at most 63.
 * @retval CCL_ERR_INPUT  a testbed of that name is up.
 */
ccl_status_t ccl_testbed_keep(const ccl_topology_t *topo, double rate_max_bps, const char *name,
                              ccl_testbed_entry_t *out, ccl_error_t *err);
/**
 * A kept testbed, to run in. @param plan_out  destroy after the testbed.
 * @retval CCL_ERR_INPUT  none of that name is up.
 */
ccl_status_t ccl_testbed_attach(const ccl_ctx_t *ctx, const char *name, ccl_testbed_t **out,
                                ccl_testbed_plan_t **plan_out, ccl_error_t *err);
/** End the process that keeps it. @retval CCL_ERR_INPUT  none of that name is up. */
ccl_status_t ccl_testbed_drop(const char *name, ccl_error_t *err);
/** @param out  malloc'ed, by name; caller frees. */
ccl_status_t ccl_testbed_list(ccl_testbed_entry_t **out, uint32_t *n_out, ccl_error_t *err);

CCL_END_DECLS
#endif
