/*
 * Private to synth: from moves in time to schedules. Out-trees that spread chunks (an AllGather's,
 * a Broadcast's) become a schedule of any collective: time-reversed they are
 * reductions (ReduceScatter, Reduce, Gather), and a reduction to roots with the spreading of the
 * results after it is AllReduce.
 */
#ifndef CCL_SYNTH_TURN_H
#define CCL_SYNTH_TURN_H

#include "synth/common/exchange.h"

/** A chunk passed on; times only order moves. A chunk's moves are an out-tree from where it is. */
typedef struct ccl_i_move {
    uint32_t src, dst, chunk;
    uint16_t channel;
    double start_s, arrive_s; /* start_s < arrive_s <= start_s of what passes it on */
} ccl_i_move_t;

/** What becomes a schedule. */
typedef struct ccl_i_turn {
    const char *name;
    /* Trees that will be time-reversed: found on an exchange graph that is `reversed`; u -> v here
       is the transfer v -> u, reduced. Only for chunks that are reduced. */
    const ccl_i_move_t *up;
    size_t nup;
    const ccl_i_move_t *down; /* as they are; of reduced chunks after all that is time-reversed */
    size_t ndown;
    /* Results go out on channels higher by this: thread blocks of their own, so that they need not
       wait for the last input. 0: the same channels. */
    uint32_t down_channels;
} ccl_i_turn_t;

/** @param coll  owned from here on; chunk numbers of the moves are its. */
ccl_status_t ccl_i_turn_schedule(const ccl_i_turn_t *turn, ccl_collective_t *coll,
                                 ccl_schedule_t **out, ccl_error_t *err);

/** What a solver's baseline finds: out-trees of copies. */
typedef struct ccl_i_copies {
    ccl_i_move_t *moves; /* malloc'ed, the caller's; times in its own steps */
    size_t nmoves;
    uint32_t parts; /* chunks that each of the collective's was cut into */
    bool limited;
    bool dropped; /* limited: the planner ran out of memory and this is the best so far */
} ccl_i_copies_t;

/**
 * Plans a collective in which every chunk has one source.
 * @param x  where chunks can go in one hop; maybe `reversed`.
 */
typedef ccl_status_t (*ccl_i_copies_fn)(const ccl_ctx_t *ctx, const ccl_i_exchange_t *x,
                                        const ccl_collective_t *want,
                                        const ccl_synth_options_t *options, ccl_i_copies_t *out,
                                        ccl_error_t *err);
/**
 * A planner's search in a child process. Where it fails after it has put an answer, for lack of
 * memory, that is the best so far: CCL_OK, and *dropped_out.
 * @return CCL_TIMEOUT: it put none within limits->time_s.
 */
ccl_status_t ccl_i_copies_search(const ccl_ctx_t *ctx, const ccl_child_limits_t *limits,
                                 ccl_child_fn fn, void *user, ccl_child_answer_t *out,
                                 bool *dropped_out, ccl_error_t *err);
/** A collective that ccl_i_turn_copies makes of copies alone. */
bool ccl_i_turn_copied(const ccl_collective_t *want);
/** Most GPUs of planners that plan all chunks at once. */
#define CCL_I_TURN_MOST_RANKS 64u
/**
 * For ccl_synth_ops_t.supports of such planners: what ccl_i_turn_copies takes, on as many GPUs.
 * @param to_some  a chunk of a demand that goes nowhere is refused.
 */
bool ccl_i_turn_supported(const ccl_collective_t *want, bool to_some, const char **why);
/**
 * Any collective from a planner of copies: ReduceScatter is the AllGather of the reversed hops,
 * time-reversed, Reduce the Broadcast; AllReduce is one after the other, with roots by
 * ccl_i_turn_roots, one chunk of as many as there are ranks each. Collectives without reduction
 * are planned as they are. AllReduce asks twice, with half of a time limit each.
 *
 * @param asked  for ccl_i_turn_copied(), or a collective of one-source chunks.
 * @par Source  SCCL (PPoPP 2021), section 3.5: reductions by inversion.
 */
ccl_status_t ccl_i_turn_copies(const ccl_i_asked_t *asked, const char *name, ccl_i_copies_fn plan,
                               ccl_schedule_t **out, ccl_error_t *err);

/**
 * Roots of AllReduce: which rank reduces which chunk. With w_r the share that GPU r is root of, a
 * set of GPUs S takes in 1 - w(S) of the results and w(S) of the inputs, and sends out as much the
 * other way; the shares are those for which the time of the slowest set is least, as even as that
 * allows. Sets are single GPUs and those of ccl_i_cuts_init; what they can carry is the smaller of
 * what can flow in and out.
 *
 * @param uniform  every rank as many (to one).
 * @param owner_out  [nchunks]
 * @par Source  HeteCCL (NSDI 2026), section 5, has roots k mod |V|: `uniform`.
 */
ccl_status_t ccl_i_turn_roots(const ccl_i_exchange_t *x, uint32_t nchunks, bool uniform,
                              uint32_t *owner_out, ccl_error_t *err);

/**
 * Channel whose connection takes the hop's route, the `lane`-th of them.
 * @param reversed  as the exchange graph is.
 */
ccl_status_t ccl_i_exchange_channel(const ccl_i_hop_t *hop, ccl_routes_t *routes, bool reversed,
                                    uint32_t lane, uint16_t *channel_out, ccl_error_t *err);

#endif
