/**
 * @file transfers.h
 * Schedules: what moves where, in what order; their formats.
 */
#ifndef CCL_SCHEDULE_TRANSFERS_H
#define CCL_SCHEDULE_TRANSFERS_H

#include "schedule/collective.h"
#include "schedule/groups.h"
#include "schedule/origin.h"

CCL_BEGIN_DECLS

/* ---------------------------------------------------------------- schedules */

/**
 * One movement of one chunk. Transfers of a step read what their source holds after all earlier
 * steps. `reduce`: the destination adds what arrives to what it holds of the chunk; else it
 * replaces.
 *
 * Through a switch (docs/model.md "Switch connections") one end may be a group of ranks, given as
 * CCL_PEER_GROUP plus an index into schedule->groups: a multicast copies the source's chunk to
 * every rank of the group; a reducing transfer brings the sum of what the ranks of the group hold
 * of the chunk. The rank at the other end may be in the group.
 */
typedef struct ccl_transfer {
    uint32_t src, dst, chunk, step;
    uint16_t channel;
    uint8_t reduce; /**< 0 copy, 1 reduce */
    uint8_t phase;  /**< 0.. : phase of a composed algorithm, e.g. 0 reduce-scatter, 1 all-gather */
} ccl_transfer_t;

/** Most groups of ccl_schedule_t.stagger. */
enum { CCL_MAX_STAGGER = 64 };

typedef struct ccl_schedule {
    const char *name;          /**< synthesizer or file */
    ccl_origin_t origin;       /**< how it came about; no part of equality */
    ccl_collective_t *coll;    /**< owned */
    ccl_transfer_t *transfers; /**< sorted by step (stable) */
    uint32_t ntransfers, nsteps, nchannels;
    const ccl_peer_group_t *groups; /**< [ngroups] ends of transfers through a switch */
    uint32_t ngroups;               /**< 0: every transfer is from one rank to another */
    bool limited;                   /**< a limit was reached; this is the best so far */
    bool rounds; /**< steps are rounds: lowered in their own order, a rank starts a step's sends
                    only  when its sends and receives of its step before, on the same channel, are
                    done */
    bool joined; /**< lowered in its own order, transfers of a step with the same ends and channel,
                    whose chunks lie side by side at all ends, are one primitive */
    bool listed; /**< lowered in its own order, transfers of a step are done in the order in which
                    they stand; else by chunk */
    double piece_bytes; /**< most chunk bytes of a micro-batch: how deep its chunks are pipelined;
                             0: as the cluster says. Lowering hands it to the program */
    uint32_t stagger;   /**< 0, or 2 and up. Of a Broadcast or Reduce with piece_bytes: their chunks
                             are this number of groups, chunk k in group k * stagger / nchunks.
                             Lowered in its own order, group g begins with a piece of (g + 1) /
                             stagger of the others', so that chunks which share links do not all
                             stand still at once, for the overhead of their next pieces. Of an
                             AllReduce with piece_bytes: its last two pieces are this number of
                             parts each, so that little is left after the last reductions */
    ccl_arena_t arena;
} ccl_schedule_t;

/** Collects transfers in any order. Takes ownership of coll (also when it returns NULL). */
typedef struct ccl_schedule_builder ccl_schedule_builder_t;
ccl_schedule_builder_t *ccl_schedule_builder_create(const char *name, ccl_collective_t *coll);
/** Frees it and all it owns; NULL is fine. */
void ccl_schedule_builder_destroy(ccl_schedule_builder_t *b);
/** What stands for a group of ranks as an end of transfers; as ccl_program_builder_group(). */
uint32_t ccl_schedule_builder_group(ccl_schedule_builder_t *b, const uint32_t *ranks, uint32_t n);
/** Out of memory is remembered and reported by finish. */
void ccl_schedule_builder_add(ccl_schedule_builder_t *b, ccl_transfer_t transfer);
/** Checks ranges, sorts by step (stable), destroys the builder, also on failure. */
ccl_status_t ccl_schedule_builder_finish(ccl_schedule_builder_t *b, ccl_schedule_t **out,
                                         ccl_error_t *err);
/** Frees it and all it owns; NULL is fine. */
void ccl_schedule_destroy(ccl_schedule_t *schedule);
/**
 * CCL_UNSUPPORTED where a schedule has transfers through a switch, for what only knows others.
 * @param what  begins the message: "lowering in rounds".
 */
ccl_status_t ccl_schedule_refuse_groups(const ccl_schedule_t *schedule, const char *what,
                                        ccl_error_t *err);
/** Same name, collective and transfers in the same order. */
bool ccl_schedule_equal(const ccl_schedule_t *a, const ccl_schedule_t *b);

/** Our JSON, TE-CCL's, SCCL's, a ResCCLang program, told apart by content. "-" is stdin. Its origin
    is the file where that does not say one. */
ccl_status_t ccl_schedule_read(const char *path, ccl_schedule_t **out, ccl_error_t *err);
/** Any of the three JSON forms, told apart by their first key. */
ccl_status_t ccl_schedule_read_json(const char *name, const char *text, size_t len,
                                    ccl_schedule_t **out, ccl_error_t *err);
ccl_status_t ccl_schedule_read_resccl(const char *name, const char *text, size_t len,
                                      ccl_schedule_t **out, ccl_error_t *err);
/**
 * An algorithm of SCCL or msccl-tools (PPoPP 2021): steps of sends (address, source, destination).
 * Chunks of one address are contributions to one reduced chunk; a send adds what the destination
 * lacks, or replaces what the source has more of. Names of chunks follow the built-in collective
 * that it is, else a custom one of a byte per chunk.
 */
ccl_status_t ccl_schedule_read_sccl(const char *name, const char *text, size_t len,
                                    ccl_schedule_t **out, ccl_error_t *err);
ccl_status_t ccl_schedule_write_json(const ccl_schedule_t *schedule, ccl_text_t *out,
                                     ccl_error_t *err);

/* ---------------------------------------------------------------- epoch flows */

/** A chunk, or a part of it, on its way from GPU to GPU, straight or through switches. */
typedef struct ccl_epoch_flow {
    uint32_t src, dst; /**< ranks */
    uint32_t chunk, epoch;
    uint32_t first_via, nvias; /**< into vias */
    double part;               /**< of the chunk, 0 < part <= 1 */
} ccl_epoch_flow_t;

/** What TE-CCL writes: which chunk crosses which links in which epoch. */
typedef struct ccl_epoch_flows {
    const char *name;
    ccl_collective_t *coll; /**< owned; allgather or alltoall */
    uint32_t nranks, nflows, nvias, nswitches;
    const uint32_t *rank_node;     /**< [nranks] the file's number of each GPU, ascending */
    const uint32_t *switch_node;   /**< [nswitches] and of each switch, ascending */
    const ccl_epoch_flow_t *flows; /**< by epoch, in an epoch as in the file */
    const uint32_t *vias;          /**< indices into switch_node */
    double epoch_s, finish_s;      /**< as the file claims */
    ccl_arena_t arena;
} ccl_epoch_flows_t;
/**
 * TE-CCL's schedule JSON (SIGCOMM 2024). GPUs are the nodes that have or want chunks, ranks go by
 * their numbers; switches are the nodes that flows go through.
 * @param out  destroy with ccl_epoch_flows_destroy().
 */
ccl_status_t ccl_epoch_flows_read_text(const char *name, const char *text, size_t len,
                                       ccl_epoch_flows_t **out, ccl_error_t *err);
/** Frees it and all it owns; NULL is fine. */
void ccl_epoch_flows_destroy(ccl_epoch_flows_t *flows);
/** As a schedule: a step per epoch; parts become chunks of their own, the first to arrive leave
 * first. @retval CCL_ERR_INPUT  more of a chunk leaves a GPU than came. */
ccl_status_t ccl_epoch_flows_schedule(const ccl_epoch_flows_t *flows, ccl_schedule_t **out,
                                      ccl_error_t *err);

CCL_END_DECLS
#endif
