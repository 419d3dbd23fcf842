/**
 * @file rows.h
 * Private to report/: rows that several results have.
 */
#ifndef CCL_REPORT_ROWS_H
#define CCL_REPORT_ROWS_H

#include "report/describe.h"

/* ---------------------------------------------------------------- how a schedule was lowered */

typedef struct ccl_i_way_row {
    const char *order, *allocation; /**< NULL: a program's own */
    const char *granularity;
} ccl_i_way_row_t;
ccl_i_way_row_t ccl_i_way_row(const ccl_way_t *way, bool lowered);
/** Fields "order", "allocation", "granularity" of member `m`. */
#define CCL_I_WAY_FIELDS(T, m, own)                                                                \
    {"order", CCL_I_AT(T, m.order), "of transfers", .null = own, .words = ccl_i_order_words},      \
        {"allocation", CCL_I_AT(T, m.allocation), "of thread blocks", .null = own,                 \
         .words = ccl_i_allocation_words},                                                         \
    {                                                                                              \
        "granularity", CCL_I_AT(T, m.granularity), "level of execution",                           \
            .words = ccl_i_granularity_words                                                       \
    }

/* ---------------------------------------------------------------- beside stock software */

typedef struct ccl_i_nccl_row {
    const char *library, *choice; /**< NULL: neither library runs this here */
    double nccl_s, speedup;       /**< NaN without; speedup also where `time_s` was */
} ccl_i_nccl_row_t;
/** @param time_s  of what is set beside it; NaN: there is no time. */
ccl_i_nccl_row_t ccl_i_nccl_row(const ccl_nccl_baseline_t *nccl, double time_s);
/** "1.42x"; "-": NaN. */
const char *ccl_i_speedup_text(double speedup, char *out, size_t out_len);
#define CCL_I_NO_NCCL "neither NCCL nor RCCL runs this here"
#define CCL_I_NCCL_FIELDS(T, m)                                                                    \
    {"nccl", CCL_I_AT(T, m.library), "what stock software runs there", .null = CCL_I_NO_NCCL},     \
        {"nccl_choice", CCL_I_AT(T, m.choice), "its algorithm, protocol, channels",                \
         .null = CCL_I_NO_NCCL},                                                                   \
        {"nccl_s", CCL_I_AT(T, m.nccl_s), "its time", .null = CCL_I_NO_NCCL}, {                    \
        "speedup_over_nccl", CCL_I_AT(T, m.speedup), "nccl_s / time_s",                            \
            .null = "there is one time at most"                                                    \
    }

/* ---------------------------------------------------------------- what a run made of its blocks */

typedef struct ccl_i_usage_row {
    double thread_blocks, comm_share, mean_idle_share, max_idle_share, link_utilization;
} ccl_i_usage_row_t;
/** Not finite where `have` is false. */
ccl_i_usage_row_t ccl_i_usage_row(const ccl_sim_usage_t *usage, bool have);
#define CCL_I_NO_RUN "it did not run to its end"
#define CCL_I_USAGE_FIELDS(T, m)                                                                   \
    {"thread_blocks_per_gpu", CCL_I_AT(T, m.thread_blocks), "on the fullest GPU",                  \
     .null = CCL_I_NO_RUN, .whole = true},                                                         \
        {"comm_share", CCL_I_AT(T, m.comm_share),                                                  \
         "of the lives of blocks, in which they move data", .null = CCL_I_NO_RUN},                 \
        {"mean_idle_share", CCL_I_AT(T, m.mean_idle_share), "of the lives of blocks",              \
         .null = CCL_I_NO_RUN},                                                                    \
        {"max_idle_share", CCL_I_AT(T, m.max_idle_share), "of the idlest block",                   \
         .null = CCL_I_NO_RUN},                                                                    \
    {                                                                                              \
        "link_utilization", CCL_I_AT(T, m.link_utilization),                                       \
            "mean over the links that carry data", .null = CCL_I_NO_RUN                            \
    }

/* ---------------------------------------------------------------- thread blocks of a run */

typedef struct ccl_i_block_row {
    uint32_t rank, id, channel, send, recv;
    double start_s, done_s, busy_s, wait_data_s, wait_peer_s, wait_slot_s;
} ccl_i_block_row_t;
/** Rank that a peer is, of a member's the single GPU's; CCL_NONE: a group, or none. */
uint32_t ccl_i_peer_rank(uint32_t peer);
ccl_i_block_row_t ccl_i_block_row(const ccl_tb_t *tb, const ccl_tb_use_t *use);
#define CCL_I_BLOCK_TIMES(T, m)                                                                    \
    {"start_s", CCL_I_AT(T, m start_s)}, {"done_s", CCL_I_AT(T, m done_s)},                        \
        {"busy_s", CCL_I_AT(T, m busy_s), "moving data"},                                          \
        {"wait_data_s", CCL_I_AT(T, m wait_data_s)},                                               \
        {"wait_peer_s", CCL_I_AT(T, m wait_peer_s), "for another block"}, {                        \
        "wait_slot_s", CCL_I_AT(T, m wait_slot_s), "for a free slot"                               \
    }
#define CCL_I_BLOCK_FIELDS(T, m)                                                                   \
    {"rank", CCL_I_AT(T, m rank)}, {"id", CCL_I_AT(T, m id), "on its rank"},                       \
        {"channel", CCL_I_AT(T, m channel)},                                                       \
        {"send", CCL_I_AT(T, m send), "rank that it sends to", .null = "none"},                    \
        {"recv", CCL_I_AT(T, m recv), "rank that it receives from", .null = "none"},               \
        CCL_I_BLOCK_TIMES(T, m)

/* ---------------------------------------------------------------- links of a run */

/** Links of a run in a root; without a result there are none. */
typedef struct ccl_i_link_rows {
    const ccl_topology_t *topo;
    const ccl_sim_result_t *result;
} ccl_i_link_rows_t;
typedef struct ccl_i_link_row {
    const char *from, *to, *kind;
    double bytes, utilization;
} ccl_i_link_row_t;
ccl_i_link_row_t ccl_i_link_row(const ccl_topology_t *topo, const ccl_sim_result_t *result,
                                uint32_t link);
uint64_t ccl_i_count_links(const void *links);
const void *ccl_i_link_at(const void *links, uint64_t i, void *scratch);
extern const ccl_i_described_t ccl_i_link_record;
#define CCL_I_LINK_USE(T, m)                                                                       \
    {"bytes", CCL_I_AT(T, m bytes), "carried"}, {                                                  \
        "utilization", CCL_I_AT(T, m utilization), "bytes / (bandwidth x time), 0..1"              \
    }
#define CCL_I_LINK_FIELDS(T, m)                                                                    \
    {"from", CCL_I_AT(T, m from), "device"}, {"to", CCL_I_AT(T, m to), "device"},                  \
        {"kind", CCL_I_AT(T, m kind)}, CCL_I_LINK_USE(T, m)

/* ---------------------------------------------------------------- sorted rows */

typedef struct ccl_i_keyed {
    double key;
    uint32_t index;
} ccl_i_keyed_t;
/** For qsort(): largest key first; equal keys by index, so that the order is always the same. */
int ccl_i_by_key(const void *a, const void *b);

/** Rows of a sorted list that look alike: neighbours, which stand in one row of a table. */
typedef struct ccl_i_row_group {
    uint32_t first, n; /**< into the list */
} ccl_i_row_group_t;
/** What the row of `index` shows but for its name. */
typedef void (*ccl_i_key_fn)(const void *user, uint32_t index, char *out, size_t out_len);
/** The first groups of a list. @param groups  room for `most`. @return how many. */
uint32_t ccl_i_groups(const ccl_i_keyed_t *list, uint32_t n, ccl_i_key_fn key, const void *user,
                      ccl_i_row_group_t *groups, uint32_t most);

/* ---------------------------------------------------------------- what went wrong */

typedef struct ccl_i_fault_row {
    const char *kind, *text;
    uint32_t rank, tb, step, chunk, slots, least_slots, line, column;
    bool deadlock, malformed;
} ccl_i_fault_row_t;
/** The verdict's fault. Returns out; NULL: there is none. */
const ccl_i_fault_row_t *ccl_i_fault_row(const ccl_verdict_t *verdict, ccl_i_fault_row_t *out);
extern const ccl_i_described_t ccl_i_fault_record;

/** The FIFOs that a deadlock depends on. */
typedef struct ccl_i_depends_row {
    const char *key, *transport, *protocol, *source;
    uint32_t value, least;
    double slice_bytes;
} ccl_i_depends_row_t;
typedef struct ccl_i_deadlock_row {
    const ccl_deadlock_t *of;
    uint32_t stuck, cycle_length, batches;
    bool any;
    const bool *any_depth;
    const void *depends_on;
    ccl_i_depends_row_t depends;
} ccl_i_deadlock_row_t;
/** Returns out, which holds pointers into itself; NULL: there is no deadlock. */
const ccl_i_deadlock_row_t *ccl_i_deadlock_row(const ccl_deadlock_t *deadlock,
                                               ccl_i_deadlock_row_t *out);
extern const ccl_i_described_t ccl_i_deadlock_record;

/** How something came about at a size; "" or NULL: nobody said. @param name_out  of who it is;
   NULL: the origin says. */
typedef const char *(*ccl_i_origin_fn)(const void *of, uint32_t size, const char **name_out);
/** Origins size by size, under a title: sizes of one origin, one after the other, in one line. */
void ccl_i_text_origins(const char *title, const double *sizes_bytes, uint32_t nsizes,
                        ccl_i_origin_fn at, const void *of, ccl_text_t *out);

/** A point's settings as options of the command line, cut to the room that there is. */
void ccl_i_options_text(const ccl_tune_point_t *point, char *out, size_t out_len);

#endif
