/*
 * Private to lowering. A transfer is two operations, its send and its receive; operations of a
 * rank on one chunk form a history (lower_values.c) from which buffers and dependencies follow;
 * connections become blocks (lower_blocks.c); lower.c writes the program.
 *
 * All order comes from one total order of the operations (lower_values.c): by step, in a step the
 * send of a transfer before its receive, a rank's sends of a chunk before its receives. Blocks,
 * dependencies and messages all go forward in it, so a program without fused operations cannot
 * block for any FIFO depth.
 *
 * Nor can it at task level, with any number of micro-batches. The order is made of groups of
 * transfers, all sends of a group before its receives, with one transfer of a connection in a group
 * at most (number_in_step). Take the earliest group with unfinished operations, and there the
 * unfinished operation that is first by micro-batch, then by place: what its block does before it
 * and all it depends on in earlier groups is over for all micro-batches, what it depends on in its
 * group is over for this one, and so is, for a receive, the send it takes from. A send finds its
 * FIFO empty: of earlier groups all was received, and of its own transfer every earlier
 * micro-batch. So it can go on, and the program finishes. A nop is a step of its own, which at task
 * level waits for all micro-batches of what it names; therefore no nop may name an operation of its
 * own group (chain_group in lower.c sees to it).
 *
 * With stages the order is by stage first. No operation depends on one of a later stage (stages.c),
 * so all still goes forward.
 */
#ifndef CCL_LOWER_LOWER_I_H
#define CCL_LOWER_LOWER_I_H

#include "lower/lower.h"

/** A place in a rank's buffers. */
typedef struct ccl_i_loc {
    uint32_t off; /* CCL_NONE: none */
    uint8_t buf;  /* ccl_buffer_t */
} ccl_i_loc_t;

/** Operation 2 t is the send of transfer t, 2 t + 1 its receive (t in sorted order). Packed: there
   are millions. What emission does not need stands in arrays of its own, which end before the
   program begins to grow. */
typedef struct __attribute__((packed)) ccl_i_op {
    uint32_t block; /* of its rank, program-wide */
    uint32_t item;  /* in its block; at emission its step there */
    uint32_t src_off, dst_off;
    uint8_t src_buf : 2, dst_buf : 2;
    uint8_t readers : 2; /* receives: operations that read the value before it is replaced; 2: or
                            more */
    uint8_t kept : 1;    /* receives: a destination ends with this value */
} ccl_i_op_t;

static inline ccl_i_loc_t ccl_i_op_src(const ccl_i_op_t *op) {
    return (ccl_i_loc_t){op->src_off, op->src_buf};
}
static inline ccl_i_loc_t ccl_i_op_dst(const ccl_i_op_t *op) {
    return (ccl_i_loc_t){op->dst_off, op->dst_buf};
}
static inline void ccl_i_op_place(ccl_i_op_t *op, ccl_i_loc_t src, ccl_i_loc_t dst) {
    op->src_off = src.off;
    op->src_buf = src.buf & 3u;
    op->dst_off = dst.off;
    op->dst_buf = dst.buf & 3u;
}

/** What an operation waits for: deps[first_dep ..]. */
typedef struct ccl_i_waits {
    uint32_t first_dep, ndeps;
} ccl_i_waits_t;

/** Copy from a rank's input to its output of a chunk that nothing else brings there. */
typedef struct ccl_i_copy {
    uint32_t rank;
    double share; /* of the message */
    ccl_i_loc_t src, dst;
} ccl_i_copy_t;

typedef struct ccl_i_lowering {
    const ccl_ctx_t *ctx;
    const ccl_schedule_t *schedule;
    const ccl_collective_t *coll;
    bool in_place, no_fuse, ordered, task;
    uint32_t ntransfers, nranks, slots;
    const ccl_topology_t *topo;      /* NULL: any */
    uint32_t max_blocks;             /* of a GPU, beside its sms */
    const ccl_transfer_t *transfers; /* by step, then chunk or as listed; the schedule's where it
                                        has them so */
    uint32_t *original;              /* [ntransfers] their places there; NULL: the same */
    const uint16_t *stage;           /* [ntransfers] of the schedule's transfers; NULL: all 0 */
    const uint8_t *forwards; /* [2 ntransfers] of the schedule's transfers; NULL: by channels */
    uint32_t *by_place;   /* [2 ntransfers] operations in the total order; until there are blocks */
    uint32_t *place;      /* [2 ntransfers] of an operation in it; of blocks, until they are run */
    ccl_i_op_t *ops;      /* [2 ntransfers] */
    ccl_i_waits_t *waits; /* [2 ntransfers] until emission */
    uint32_t *deps;       /* operations; until emission */
    size_t ndeps, deps_cap;
    ccl_i_copy_t *copies; /* by rank */
    size_t ncopies, copies_cap;
    uint32_t *scratch_len; /* [nranks] */
    /* Scratch elements by history: CCL_NONE until written. Until emission. */
    uint32_t *history_of;  /* [2 ntransfers] */
    uint32_t *scratch_off; /* [histories] */
    uint32_t nhistories;
    ccl_arena_t arena;
} ccl_i_lowering_t;

static inline uint32_t ccl_i_op_rank(const ccl_i_lowering_t *l, uint32_t op) {
    const ccl_transfer_t *t = &l->transfers[op / 2];
    return op % 2 ? t->dst : t->src;
}

/**
 * Stable radix sort of items by keys (both permuted). @param keys, items length n; scratch of the
 * same lengths.
 */
void ccl_i_radix_sort(uint64_t *keys, uint32_t *items, uint64_t *keys_tmp, uint32_t *items_tmp,
                      size_t n);

/** Numbers keys in the order in which they come; zeroed at first. */
typedef struct ccl_i_numbering {
    uint64_t *keys; /* [n] */
    size_t keys_cap, nslots;
    uint32_t *slots; /* hash: numbers, CCL_NONE */
    uint32_t n;
} ccl_i_numbering_t;
/** False: no memory. */
bool ccl_i_numbering_add(ccl_i_numbering_t *numbering, uint64_t key, uint32_t *out);
void ccl_i_numbering_fini(ccl_i_numbering_t *numbering);
/** Connections as keys, in the order of their blocks. */
static inline uint64_t ccl_i_connection(const ccl_transfer_t *t) {
    return (uint64_t)t->src << 32 | (uint64_t)t->channel << 16 | t->dst;
}

/** The place in the schedule of a transfer, by its place in l->transfers; and its stage. */
static inline uint32_t ccl_i_original(const ccl_i_lowering_t *l, uint32_t transfer) {
    return l->original ? l->original[transfer] : transfer;
}
static inline uint32_t ccl_i_stage(const ccl_i_lowering_t *l, uint32_t transfer) {
    return l->stage ? l->stage[ccl_i_original(l, transfer)] : 0;
}

/** Sorts the transfers, orders the operations, finds buffers and dependencies. */
ccl_status_t ccl_i_lower_values(ccl_i_lowering_t *l, ccl_error_t *err);

/** Fills `place` from `by_place`. */
ccl_status_t ccl_i_lower_places(ccl_i_lowering_t *l, ccl_error_t *err);

/** One primitive of a block: an operation, or a receive and the send it feeds. */
typedef struct ccl_i_item {
    uint32_t recv, send; /* operations or CCL_NONE */
} ccl_i_item_t;

typedef struct ccl_i_lblock {
    uint32_t rank, send_peer, recv_peer, channel;
    uint32_t first, nitems; /* into items */
} ccl_i_lblock_t;

typedef struct ccl_i_lblocks {
    ccl_i_lblock_t *blocks; /* by rank */
    ccl_i_item_t *items;
    uint32_t nblocks, nitems;
} ccl_i_lblocks_t;

/** Groups the operations into blocks and fuses; ops[].block and .item are set. */
ccl_status_t ccl_i_lower_blocks(ccl_i_lowering_t *l, ccl_i_lblocks_t *out, ccl_error_t *err);
/** By rank, then by destination. */
void ccl_i_copies_sort(ccl_i_copy_t *copies, size_t n);
/** Of sorted ones: end of those of the rank that `first` is of. */
size_t ccl_i_copies_end(const ccl_i_copy_t *copies, size_t n, size_t first);
/** Emits one rank's copies in up to `blocks` thread blocks of their own, which take them in turn.
 */
void ccl_i_copies_blocks(const ccl_i_copy_t *copies, size_t n, size_t blocks,
                         ccl_program_builder_t *b);
/**
 * Emits what a rank copies for itself, behind its blocks `first` to `end` - 1.
 * @param at  its first copy; moved behind its last.
 */
void ccl_i_emit_copies(const ccl_i_lowering_t *l, const ccl_i_lblocks_t *blocks, uint32_t first,
                       uint32_t end, size_t *at, ccl_program_builder_t *b);
/**
 * Run the blocks untimed with FIFOs of `slots` primitives and take fused items apart where all
 * would wait for each other: a ring whose every block forwards needs one free slot.
 */
ccl_status_t ccl_i_lower_unblock(ccl_i_lowering_t *l, ccl_i_lblocks_t *blocks, ccl_error_t *err);

/**
 * Which items become one primitive with the item before them in their block (join.c): the same
 * primitive, of transfers of one step, at places side by side, and the same at the other end.
 *
 * @param prims   [nitems] each by itself.
 * @param joined  [nitems] out; none where joined items would wait for each other.
 */
ccl_status_t ccl_i_lower_join(const ccl_i_lowering_t *l, const ccl_i_lblocks_t *blocks,
                              const ccl_step_t *prims, uint8_t *joined, ccl_error_t *err);

/**
 * State-based allocation (state.c): blocks of the program whose connections are hardly active at
 * the same time in a run of options->size_bytes, ->batches and ->granularity on options->topo
 * become one. The program is replaced (and destroyed) when that saves blocks at no more than 1 %
 * more time.
 * @param timed  its run: such a one; NULL, or without times of steps: it is simulated. Afterwards
 * that of the program that is there then; without times of steps if that was replaced.
 */
ccl_status_t ccl_i_allocate_state(const ccl_ctx_t *ctx, const ccl_lower_options_t *options,
                                  ccl_timed_program_t *timed, ccl_error_t *err);

/**
 * Simulates a program (run.c).
 * @param timeline  step times are wanted, about; else the time in full: a merged program may block
 * where shorter runs do not, and must not be slower by more than 1 %.
 */
ccl_status_t ccl_i_lower_simulate(const ccl_ctx_t *ctx, const ccl_lower_options_t *options,
                                  const ccl_program_t *p, bool timeline, double give_up_s,
                                  ccl_sim_result_t **out, ccl_error_t *err);

/** As ccl_lower_run(), without times of steps where the time is known: of many programs that are
 * compared one is merged. */
ccl_status_t ccl_i_lower_time(const ccl_ctx_t *ctx, const ccl_lower_options_t *options,
                              ccl_timed_program_t *timed, double give_up_s, ccl_error_t *err);

/* ---------------------------------------------------------------- what is known */

/** Whose order a candidate has. */
typedef enum ccl_i_order_of {
    CCL_I_ORDER_GIVEN, /* and those of HPDS, as ccl_i_lower_order() looks at them */
    CCL_I_ORDER_FLOW,
    CCL_I_ORDER_NO_FLOW,
    CCL_I_ORDER_APART,
    CCL_I_ORDER_TURNED,
    CCL_I_ORDERS,
    CCL_I_ORDER_OTHER /* not simulated */
} ccl_i_order_of_t;

/** A candidate of the passes, with a block per connection. */
typedef struct ccl_i_try {
    ccl_i_order_of_t order;
    uint32_t parts, most; /* of a chunk; channels of a connection */
    bool wider;           /* as in width_t */
    bool fits;            /* only if its blocks have room */
} ccl_i_try_t;

typedef struct ccl_i_known {
    enum {
        CCL_I_UNKNOWN,
        CCL_I_TIME,   /* it takes time_s */
        CCL_I_LONGER, /* it takes more; INFINITY: it cannot run, or never has to be looked at */
        CCL_I_UNFIT   /* large, and its blocks have no room: others are not looked at */
    } what;
    double time_s;
} ccl_i_known_t;

/* ---------------------------------------------------------------- passes */

/** `slots` and `no_fuse` as the FIFOs of the topology's transports want them (ccl_lower_options_t).
 */
void ccl_i_lower_fit(ccl_lower_options_t *options, const ccl_topology_t *topo);

/** What one lowering needs to know beside the schedule. */
typedef struct ccl_i_lower_how {
    const char *proto;
    bool out_of_place, no_fuse, ordered;
    bool task;                  /* to run at task level: nops wait for all micro-batches */
    uint32_t slots;             /* >= 1 */
    const ccl_topology_t *topo; /* NULL: any */
    uint32_t max_blocks;        /* of a GPU, beside its sms */
    double piece_bytes;         /* of the program */
    uint32_t stagger, pieces;   /* of the schedule, and pieces of a micro-batch; 0: all alike */
    bool small_end;             /* these are an AllReduce's: the last two are cut */
    bool joined;                /* as ccl_schedule_t.joined */
    const uint16_t *stage;      /* [ntransfers] of the schedule; NULL: all 0 */
    /* [2 ntransfers] of the schedule: whether its source (2 t), its destination (2 t + 1) may pass
       on in one block what it receives; NULL: as the channels say. */
    const uint8_t *forwards;
} ccl_i_lower_how_t;

/** UNKNOWN also without a memo (options->memo). */
ccl_i_known_t ccl_i_memo_get(const ccl_lower_options_t *options, const ccl_i_lower_how_t *how,
                             ccl_i_try_t candidate);
void ccl_i_memo_put(const ccl_lower_options_t *options, const ccl_i_lower_how_t *how,
                    ccl_i_try_t candidate, ccl_i_known_t known);
/** How often something was known. */
uint64_t ccl_i_memo_hits(const ccl_lower_memo_t *memo);

/** Values, dependencies and rounds. l is to be ended in any case. */
ccl_status_t ccl_i_lowering_begin(ccl_i_lowering_t *l, const ccl_ctx_t *ctx,
                                  const ccl_schedule_t *schedule, const ccl_i_lower_how_t *how,
                                  ccl_error_t *err);
void ccl_i_lowering_end(ccl_i_lowering_t *l);
/** Shares of scratch elements: a demand's chunks have different sizes. */
ccl_status_t ccl_i_emit_scratch_shares(const ccl_i_lowering_t *l, ccl_program_builder_t *b,
                                       ccl_error_t *err);
/**
 * A program whose micro-batches are how->pieces pieces, of which the first is shorter by the group
 * of its chunk, or the last two are cut (ccl_schedule_t.stagger; stagger.c).
 * @param chunk    [(*program)->nsteps] of each step.
 * @param program  in and out; destroyed on failure.
 */
ccl_status_t ccl_i_lower_stagger(const ccl_i_lower_how_t *how, const uint32_t *chunk,
                                 ccl_program_t **program, ccl_error_t *err);
/** Schedule -> program. */
ccl_status_t ccl_i_lower_program(const ccl_ctx_t *ctx, const ccl_schedule_t *schedule,
                                 const ccl_i_lower_how_t *how, ccl_program_t **out,
                                 ccl_error_t *err);

/**
 * The stage of every transfer (stages.c). No operation depends on one of a later stage.
 *
 * @param routes  not NULL for CCL_STAGES_AUTO.
 * @param stage   [ntransfers] by place in the schedule.
 */
ccl_status_t ccl_i_stages_find(const ccl_ctx_t *ctx, const ccl_schedule_t *schedule,
                               const ccl_i_lower_how_t *how, ccl_stages_t stages,
                               ccl_routes_t *routes, uint16_t *stage, ccl_error_t *err);

/**
 * For ccl_i_lower_how_t.forwards: which ranks have one connection in and one out on the schedule's
 * channels. Spreading connections over further channels does not make a rank forward that did not.
 */
ccl_status_t ccl_i_find_forwarding(const ccl_schedule_t *schedule, uint8_t *forwards,
                                   ccl_error_t *err);

/** Same schedule, transfers on other channels; channel[] by place. */
ccl_status_t ccl_i_schedule_with_channels(const ccl_schedule_t *schedule, const uint16_t *channel,
                                          ccl_schedule_t **out, ccl_error_t *err);

/** Spreading fast connections over channels (channels.c). */
typedef struct ccl_i_capacity {
    const ccl_topology_t *topo;
    ccl_routes_t *routes;
    const char *proto;
    const uint16_t *stage; /* as in ccl_i_lower_how_t */
    double size_bytes;
    uint32_t batches;      /* 0: as many as the model says */
    uint32_t max_channels; /* of one connection, >= 1 */
    uint32_t all_channels; /* of the schedule */
    uint32_t max_blocks;   /* of a GPU, beside its sms */
    bool copies;           /* a GPU may need a block for local copies */
} ccl_i_capacity_t;

/** Each GPU runs all its blocks at once. @retval CCL_UNSUPPORTED  it has no room for them. */
ccl_status_t ccl_i_check_blocks(const ccl_program_t *program, const ccl_lower_options_t *options,
                                ccl_error_t *err);
/** Sends, over all micro-batches, up to which ways of ordering and of cutting are simulated. */
double ccl_i_lower_most_sends(const ccl_lower_options_t *options);

/** A schedule in its order. */
typedef struct ccl_i_ordered {
    ccl_i_try_t taken; /* in the end: what the program was lowered from */
    ccl_schedule_t *schedule;
    ccl_schedule_t *unturned; /* where the mirrored order is fastest the best other one of HPDS,
                                 else NULL */
    ccl_i_order_of_t order, unturned_order;
    bool
        other; /* the program was lowered from another schedule than these, without sub-pipelines */
    ccl_timed_program_t timed; /* with a block per connection, where it was simulated; for
                            allocation by state always if it was ever, with times of steps */
} ccl_i_ordered_t;
/**
 * The schedule in options->order for the run that the options describe. Of HPDS's two ways (may a
 * transfer stand in the sub-pipeline of what it waits for?), of reductions also in the mirrored
 * order of copies, the fastest one in simulation, or by estimate where simulating would take long.
 *
 * @param out  order; whose it is; for ccl_i_ordered_fini().
 */
ccl_status_t ccl_i_lower_order(const ccl_ctx_t *ctx, const ccl_schedule_t *schedule,
                               const ccl_lower_options_t *options, const ccl_i_lower_how_t *how,
                               ccl_i_ordered_t *out, ccl_lower_stats_t *stats, ccl_error_t *err);
void ccl_i_ordered_fini(ccl_i_ordered_t *ordered);
/**
 * @param spread_out  greatest number of channels that one connection got.
 */
ccl_status_t ccl_i_channels_capacity(const ccl_schedule_t *schedule, const ccl_i_capacity_t *how,
                                     uint32_t *spread_out, ccl_schedule_t **out, ccl_error_t *err);

/** How executor.c makes a program of a schedule that it has spread over channels. */
typedef struct ccl_i_maker {
    ccl_status_t (*make)(const void *user, const ccl_schedule_t *schedule, ccl_program_t **out,
                         ccl_error_t *err);
    const void *user;
} ccl_i_maker_t;
/**
 * Cut connections over channels until the program keeps the executor's limits (executor.c).
 *
 * @param stage   as in ccl_i_lower_how_t: stages get channels of their own; the maker is not to
 *                look at them any more.
 * @param routes  NULL, or channels are chosen, where there is a choice, that keep the routes.
 * @retval CCL_UNSUPPORTED  names the limit and the rank.
 */
ccl_status_t ccl_i_executor_fit(const ccl_ctx_t *ctx, const ccl_schedule_t *schedule,
                                const ccl_lower_options_t *options, const uint16_t *stage,
                                const ccl_i_maker_t *maker, ccl_program_t **out, ccl_error_t *err);

/* ---------------------------------------------------------------- switch connections (switch/) */

/** ccl_lower() of a schedule with groups: what forwards in one primitive is chosen by simulation.
 */
ccl_status_t ccl_i_lower_switch(const ccl_ctx_t *ctx, const ccl_schedule_t *schedule,
                                const ccl_lower_options_t *options, ccl_program_t **out,
                                ccl_error_t *err);

#endif
