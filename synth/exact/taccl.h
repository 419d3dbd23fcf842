/* Private to synth: the stages of taccl. */
#ifndef CCL_SYNTH_TACCL_H
#define CCL_SYNTH_TACCL_H

#include "synth/exact/rotation.h"
#include "synth/solvers/solver_glpk.h"

/** A collective on TACCL's logical topology. */
typedef struct ccl_i_taccl {
    const ccl_i_exchange_t *x;        /* hops of the logical topology only */
    const ccl_collective_t *coll;     /* already cut; a chunk has one source */
    const ccl_i_rotation_t *rotation; /* imposed on routes where its order is above 1 */
    const uint32_t *server;           /* [n] */
    const double *cost_s;             /* [nhops] of a chunk: latency and bytes over bandwidth */
    double chunk_bytes;
} ccl_i_taccl_t;

/** A chunk goes over a hop. Those of a chunk are a tree from its source. */
typedef struct ccl_i_taccl_send {
    uint32_t chunk, hop;
    uint32_t parent; /* the send that brought it to the hop's source, CCL_NONE: it starts there */
    double start_s, arrive_s;
} ccl_i_taccl_send_t;
typedef struct ccl_i_taccl_sends {
    ccl_i_taccl_send_t *sends; /* malloc'ed */
    size_t n, cap;
} ccl_i_taccl_sends_t;

/** A question about routes. */
typedef struct ccl_i_taccl_question {
    /* Any way among the GPUs on a chunk's shortest paths, with the time at which it comes to each;
     * else only those paths, which need no times. */
    bool wide;
    uint32_t nodes;   /* of the search, at most */
    double busiest_s; /* wide: found before, less is wanted. FOUND: T, that is the time of the
                         busiest hop, link or group, and of the longest way */
    bool best;        /* FOUND: no other routes have a smaller T */
    ccl_i_glpk_answer_t answer;
} ccl_i_taccl_question_t;
/**
 * Routes (stage 1): over which hops each chunk goes, so that T is least; that chunks wait for each
 * other does not count. In a child process only.
 *
 * @param out  FOUND: the sends, each behind its parent; else as it was.
 * @retval CCL_INFEASIBLE  a destination cannot be reached.
 * @par Source  TACCL (NSDI 2023), section 5.1; sets of GPUs as its program has them
 * (github.com/microsoft/taccl, shortest_path_sets.py).
 */
ccl_status_t ccl_i_taccl_route(const ccl_i_taccl_t *t, ccl_i_taccl_question_t *ask,
                               ccl_i_taccl_sends_t *out, ccl_error_t *err);
/**
 * Order (stage 2): times of all sends, one after the other as soon as a hop and what it shares is
 * free, of those that could start first the one with the longest way ahead.
 *
 * @par Source  TACCL, section 5.1, heuristic ordering.
 * @par Complexity  sends squared, times links of a route.
 */
ccl_status_t ccl_i_taccl_order(const ccl_i_taccl_t *t, ccl_i_taccl_sends_t *sends,
                               ccl_error_t *err);
/**
 * Contiguity and exact times (stage 3): which sends that follow each other on a hop between servers
 * go together, paying its latency once, and when all go, in the order found. In a child process
 * only.
 *
 * @param answer    FOUND: times are set; sends that go together have the same.
 * @param best_out  no other times end earlier, in this order.
 * @par Source  TACCL, section 5.2.
 */
ccl_status_t ccl_i_taccl_times(const ccl_i_taccl_t *t, uint32_t nodes, ccl_i_taccl_sends_t *sends,
                               ccl_i_glpk_answer_t *answer, bool *best_out, ccl_error_t *err);

#endif
