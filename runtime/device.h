/**
 * @file device.h
 * The table of device functions: all that the runtime asks of an accelerator.
 *
 * `host` is built in. Others are shared objects that are opened at run time and export one
 * function, CCL_DEVICE_ENTRY, which returns their table; nothing of a vendor is linked here. A
 * table says how long it is and which version of this page it was written for, so old modules are
 * refused, not misread. This header includes nothing of ours and is valid C and C++.
 *
 * @par Source  TACC, the function table over CUDA and HIP of HetCCL (Seoul/Samsung), section 4.2
 *              and appendix C; the device functions of HetCCL (Peking/BAAI), table 5.
 * @par Differs  Only what an executor of programs needs: no graphs, no capture, no managed memory.
 */
#ifndef CCL_RUNTIME_DEVICE_H
#define CCL_RUNTIME_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CCL_DEVICE_ABI 5u
/** const ccl_device_ops_t *ccl_runtime_module_v1(void) */
#define CCL_DEVICE_ENTRY "ccl_runtime_module_v1"
#define CCL_DEVICE_NONE UINT32_MAX

/* ---------------------------------------------------------------- programs as devices run them */

/** Element runs of a step: n equal elements that follow each other in both buffers. */
typedef struct ccl_device_piece {
    uint64_t src, dst;    /**< first item, counted from the rank's memory; 0 where it has none */
    uint64_t items;       /**< of one element */
    uint64_t batch_items; /**< of one element in a micro-batch; the last ones may have fewer */
    uint64_t n;
} ccl_device_piece_t;

/** Numbers of the primitives, as in MSCCL's order. */
enum {
    CCL_DEVICE_S,
    CCL_DEVICE_R,
    CCL_DEVICE_RCS,
    CCL_DEVICE_RRS,
    CCL_DEVICE_RRC,
    CCL_DEVICE_RRCS,
    CCL_DEVICE_CPY,
    CCL_DEVICE_RE,
    CCL_DEVICE_NOP
};

/** How slices lie in their slots; numbers of ccl_run_protocol_t less 1. */
enum { CCL_DEVICE_SIMPLE, CCL_DEVICE_LL, CCL_DEVICE_LL128 };
/**
 * Lines of the protocols whose flags are in the data. Of slice k a line of LL is twice (4 bytes of
 * data, flag k + 1 as 32 bits), each of the two stored at once; one of LL128 is 120 bytes of data
 * and then flag k + 1 as 64 bits, stored at once by 8 lanes of a warp, or its flag last (release).
 * A slice of n bytes has ceil(n / data of a line) lines, at least one. Slots begin zeroed.
 *
 * @par Source  NCCL, prims_ll.h and prims_ll128.h.
 */
enum {
    CCL_DEVICE_LL_LINE = 16,
    CCL_DEVICE_LL_DATA = 8,
    CCL_DEVICE_LL128_LINE = 128,
    CCL_DEVICE_LL128_DATA = 120
};
/**
 * Flags of LL repeat after 2^32 slices. So that no line of a slot keeps its flag for that long, the
 * sender writes all lines of slice k where (k + 2 slots) mod 2^31 < slots, also those that the
 * slice does not need.
 */
#define CCL_DEVICE_LL_CLEAN_MASK 0x7fffffffu

typedef struct ccl_device_step {
    uint32_t prim;
    uint32_t send, recv; /**< connections, of a switch connection the first; CCL_DEVICE_NONE */
    uint32_t nsend;      /**< a multicast writes the slice to connections send .. send + nsend - 1,
                              when all have a free slot; any other send 1, none 0 */
    uint32_t nrecv;      /**< a pull takes the sum (`op`) of a slice of each of connections recv ..
                              recv + nrecv - 1, which are by rank, when all are there, and frees
                              them together; any other receive 1, none 0 */
    uint32_t dep;        /**< step whose micro-batch must be done; CCL_DEVICE_NONE */
    uint32_t slices;     /**< passes of one micro-batch */
    uint32_t shared; /**< with LL and LL128, whose messages order nothing but their own data: 1: it
                          touches memory that another block of its rank touches too, and one of the
                          two writes it. A device orders such a step by fences */
    uint32_t first_piece, npieces;   /**< into pieces */
    uint32_t first_waiter, nwaiters; /**< into waiters: units that wait for this step */
} ccl_device_step_t;

/** A thread block; at stage level one stage of one. */
typedef struct ccl_device_unit {
    uint32_t rank, tb;           /**< tb: index into the program's blocks */
    uint32_t first_step, nsteps; /**< into steps */
    uint32_t after; /**< step (of the block's previous stage) whose micro-batch must be done before
                         the first one here; CCL_DEVICE_NONE */
} ccl_device_unit_t;

/**
 * A connection: a FIFO of slices in memory that both ends can reach. The sender writes slice k to
 * data + (k mod slots) * slot_bytes and then stores *head = k + 1 (release, system scope); the
 * receiver reads it when *head > k (acquire) and afterwards stores *tail = k + 1 (release). The
 * sender may write slice k when k - *tail < slots.
 *
 * With LL and LL128 a slot holds lines, the receiver waits for their flags, and *head is the
 * sender's own; but where the connection is `counted`, *head says as before what has come.
 *
 * Connections of a multicast or a pull have equal slots, as their slices are equal. Where those lie
 * in multicast memory, `multi` of the first is its address: 16 bytes that a multicast stores at a
 * place there reach that place of the slots of all, and a load there has the sum of what is at that
 * place in all.
 */
typedef struct ccl_device_conn {
    void *data;
    void *multi;           /**< NULL: connection by connection */
    uint64_t *head, *tail; /**< slices so far, on and on from run to run; each on a cache line of
                                its own */
    uint64_t *lengths;     /**< NULL, or [slots]: the sender stores the bytes of every slice there
                            *before     head, for a transport that passes it on */
    uint64_t slot_bytes;
    uint32_t slots;
    uint32_t counted; /**< 1: *head counts with every protocol, since a transport passes slices on,
                           or since lines of LL128 may not arrive whole */
    uint32_t sender, receiver; /**< units */
} ccl_device_conn_t;

/** Where a block is: what a watchdog reports. */
typedef struct ccl_device_place {
    uint32_t step; /**< index into the unit's steps; nsteps: finished */
    uint32_t batch, slice;
    uint32_t waits; /**< ccl_wait_t: data, slot, dependency, stage; CCL_DEVICE_NONE: for nothing */
} ccl_device_place_t;

/**
 * A program laid out for a run; every process of a job makes the same one. A primitive's data in
 * micro-batch j are, piece by piece and element by element, the items j * batch_items to
 * (j + 1) * batch_items of the element (as far as it goes); they are handed over in `slices`
 * slices of x = ceil(n / slices) items, rounded up to whole 16 bytes, the last ones with fewer or
 * none.
 */
typedef struct ccl_device_plan {
    size_t size; /**< of this struct */
    uint32_t nranks, nunits, nsteps, nconns;
    uint32_t npieces, nwaiters, batches;
    uint32_t by_task;               /**< 1: for each step every micro-batch; 0: the other way */
    uint32_t type, op, item_bytes;  /**< ccl_type_t, ccl_reduction_t */
    uint32_t protocol;              /**< CCL_DEVICE_SIMPLE ... */
    const ccl_device_unit_t *units; /**< by rank */
    const ccl_device_step_t *steps; /**< by unit */
    const ccl_device_piece_t *pieces;
    const uint32_t *waiters;
    const ccl_device_conn_t *conns; /**< those with an end among the units of this load are valid */
    uint32_t first_unit, end_unit;  /**< the units that this load runs */
    void *const *memory;            /**< [nranks] of the ranks of these units; else NULL */
    uint64_t *done;   /**< [nsteps] micro-batches done; of the ranks of this load, zeroed before */
    const void *host; /**< what only the host device knows; NULL elsewhere */
    const char *source; /**< the same units as a kernel of their own, C++ (kernel_compile has taken
                             it); NULL: to be interpreted */
} ccl_device_plan_t;

/** Where a block's time went, seconds. */
typedef struct ccl_device_use {
    double busy_s, wait_data_s, wait_slot_s, wait_peer_s, wait_core_s;
    uint64_t slices;
} ccl_device_use_t;

/** One run of a loaded program. Words are written and read with system-wide atomics. */
typedef struct ccl_device_launch {
    size_t size;
    uint32_t *ready;         /**< set to 1 when the blocks are there and wait for the gate */
    uint32_t *gate;          /**< the blocks begin when it becomes 1 */
    uint32_t *stop;          /**< not 0: give up soon */
    uint32_t *over;          /**< set to 1 when the run is over, finished or stopped */
    uint64_t *progress;      /**< grows while blocks move */
    double *start_s, *end_s; /**< when the gate was seen open, when the last block was done; of one
                                  clock, only their difference counts */
    ccl_device_place_t *places; /**< [nunits]: filled when the run was stopped */
    ccl_device_use_t *uses;     /**< NULL, or [nunits]: blocks are timed */
} ccl_device_launch_t;

/* ---------------------------------------------------------------- the table */

typedef struct ccl_device_handle ccl_device_handle_t;   /* one device, opened */
typedef struct ccl_device_stream ccl_device_stream_t;   /* work in order */
typedef struct ccl_device_event ccl_device_event_t;     /* a point in a stream */
typedef struct ccl_device_program ccl_device_program_t; /* a plan on a device */
/** Multicast memory: each of several devices has a part of it. */
typedef struct ccl_device_multicast {
    void *multi;        /**< where a store reaches all parts and a load has their sum */
    void *const *parts; /**< [members] each as memory of its own, which all devices reach */
} ccl_device_multicast_t;
typedef void (*ccl_device_host_fn)(void *user);

typedef struct ccl_device_properties {
    char name[128];
    char architecture[32]; /**< "sm_90", "gfx90a", "x86_64" */
    char bus_id[32];       /**< "" when it has none */
    uint32_t units;        /**< multiprocessors or cores */
    uint32_t max_blocks;   /**< thread blocks that can be resident at once; 0: no limit */
    uint64_t memory_bytes, free_bytes;
    bool host_access; /**< its memory is the host's: pointers are the same */
    bool ipc;         /**< ipc_* work */
    bool multicast;   /**< multicast_* work on it */
    bool whole_lines; /**< 128 bytes that 8 lanes of a warp store at once reach the memory of every
                           other device of its kind here at once (NVLink, not PCIe) */
} ccl_device_properties_t;

/** A name of memory that another process on this machine can open. */
typedef struct ccl_device_ipc {
    unsigned char bytes[128];
} ccl_device_ipc_t;

/**
 * Functions return 0, or a number of their own that error_text explains. Pointers to memory are
 * the device's unless named host. NULL entries marked optional are not there.
 */
typedef struct ccl_device_ops {
    size_t size;  /**< of this struct */
    uint32_t abi; /**< CCL_DEVICE_ABI */
    const char *name, *summary, *source;

    const char *(*error_text)(int code);
    /** Devices of this kind. A missing driver is an error, no device is 0. */
    int (*count)(uint32_t *out);
    int (*properties)(uint32_t index, ccl_device_properties_t *out);
    int (*open)(uint32_t index, ccl_device_handle_t **out);
    void (*close)(ccl_device_handle_t *device); /**< all that was made on it must be gone */

    int (*memory_alloc)(ccl_device_handle_t *device, size_t bytes,
                        void **out); /**< aligned to 256 */
    int (*memory_free)(ccl_device_handle_t *device, void *memory);
    int (*host_alloc)(ccl_device_handle_t *device, size_t bytes, void **out); /**< pinned, mapped */
    int (*host_free)(ccl_device_handle_t *device, void *memory);
    /* Copies are asynchronous to the host and in order within a stream. */
    int (*copy_h2d)(ccl_device_stream_t *stream, void *dst, const void *host, size_t bytes);
    int (*copy_d2h)(ccl_device_stream_t *stream, void *host, const void *src, size_t bytes);
    int (*copy_d2d)(ccl_device_stream_t *stream, void *dst, const void *src, size_t bytes);
    int (*memory_set)(ccl_device_stream_t *stream, void *dst, int byte, size_t bytes);

    int (*stream_create)(ccl_device_handle_t *device, ccl_device_stream_t **out);
    int (*stream_destroy)(ccl_device_stream_t *stream); /**< waits for its work */
    int (*stream_wait)(ccl_device_stream_t *stream);    /**< the host waits until it is empty */
    int (*stream_done)(ccl_device_stream_t *stream, bool *out); /**< is it empty? */
    /** fn runs on a thread of the host, in order; it must not call this table. */
    int (*stream_call)(ccl_device_stream_t *stream, ccl_device_host_fn fn, void *user);

    int (*event_create)(ccl_device_handle_t *device, ccl_device_event_t **out);
    int (*event_destroy)(ccl_device_event_t *event);
    int (*event_record)(ccl_device_event_t *event, ccl_device_stream_t *stream);
    int (*event_wait)(ccl_device_event_t *event); /**< the host waits; at once if not recorded */
    int (*event_done)(ccl_device_event_t *event, bool *out);
    int (*stream_follow)(ccl_device_stream_t *stream, ccl_device_event_t *event);
    int (*event_elapsed)(ccl_device_event_t *from, ccl_device_event_t *to, double *s_out);

    /* Optional: memory of one process in another. */
    int (*ipc_get)(ccl_device_handle_t *device, void *memory, ccl_device_ipc_t *out);
    int (*ipc_open)(ccl_device_handle_t *device, const ccl_device_ipc_t *ipc, void **out);
    int (*ipc_close)(ccl_device_handle_t *device, void *memory);
    /* Optional: let this device reach the memory of another one of its kind. */
    int (*peer_enable)(ccl_device_handle_t *device, uint32_t peer_index);
    /* Optional: let the device reach memory that the host has already. */
    int (*host_register)(ccl_device_handle_t *device, void *host, size_t bytes, void **device_out);
    int (*host_unregister)(ccl_device_handle_t *device, void *host);

    /**
     * Optional: compile the source of a generated kernel (runtime/gpu/kernel.h) for an
     * architecture, which need not be here; what was compiled is kept by content while the module
     * is open. @param log  the compiler's words, cut to len; "" when there are none.
     */
    int (*kernel_compile)(const char *source, const char *architecture, char *log, size_t len);

    /** The plan stays the caller's and must outlive the program. */
    int (*program_load)(ccl_device_handle_t *device, const ccl_device_plan_t *plan,
                        uint32_t threads, ccl_device_program_t **out);
    int (*program_unload)(ccl_device_program_t *program);
    /** Asynchronous; `launch` and what it points at must live until *over is 1. */
    int (*program_launch)(ccl_device_program_t *program, ccl_device_stream_t *stream,
                          const ccl_device_launch_t *launch);

    /**
     * Optional: the vendor's own handle of a stream (a CUstream, a hipStream_t), for the vendor's
     * libraries. Its device becomes the calling thread's current one.
     */
    int (*stream_native)(ccl_device_stream_t *stream, void **out);

    /* Optional, all three or none: memory that RDMA devices read and write (GPUDirect). */
    /** For slices: kernels that run see what came there once rdma_flush has returned. It begins at
        a page of the host, and memory_free frees it. Not 0: the device has none. */
    int (*rdma_alloc)(ccl_device_handle_t *device, size_t bytes, void **out);
    /** A dmabuf of it. @param fd_out  the caller's to close. @param offset_out  of the memory in
        the dmabuf. Not 0: the driver makes none; the pointer itself may do (peer memory). */
    int (*rdma_export)(ccl_device_handle_t *device, void *memory, size_t bytes, int *fd_out,
                       uint64_t *offset_out);
    /** The host knows that an RDMA device has written: kernels see it from now on. */
    int (*rdma_flush)(ccl_device_handle_t *device);

    /* Optional, all three or none: memory of several devices behind one switch (NVLink SHARP). */
    /** Whether a load has the sum of parts: numbers of ccl_type_t and ccl_reduction_t. */
    bool (*multicast_reduces)(uint32_t type, uint32_t op);
    /**
     * @param devices  [n] that reach it; of the first `members`, two or more, each has a part of
     *                 `bytes`. Not 0: they have no switch for it, or it has no room left.
     */
    int (*multicast_alloc)(ccl_device_handle_t *const *devices, uint32_t n, uint32_t members,
                           size_t bytes, ccl_device_multicast_t **out);
    int (*multicast_free)(ccl_device_multicast_t *memory);
} ccl_device_ops_t;

typedef const ccl_device_ops_t *(*ccl_device_entry_fn)(void);

#ifdef __cplusplus
}
#endif
#endif
