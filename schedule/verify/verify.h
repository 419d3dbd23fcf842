/*
 * Private to the verifier and the deadlock check: blocks and connections of a run, sums of
 * contributions, happens-before, verdicts. Shares no code with builders or synthesizers; units,
 * connections and messages are found here once more, not by schedule/wiring.h, on purpose.
 */
#ifndef CCL_SCHEDULE_VERIFY_H
#define CCL_SCHEDULE_VERIFY_H

#include "schedule/schedule.h"

/* ---------------------------------------------------------------- verdicts (verify_verdict.c) */

/** First fault wins; `kind` is static. */
void ccl_i_fault(ccl_verdict_t *verdict, const char *kind, uint32_t rank, uint32_t tb,
                 uint32_t step, uint32_t chunk, const char *fmt, ...) CCL_PRINTF(7, 8);
/** Kept up to CCL_MAX_WARNINGS, the same text once. */
void ccl_i_warn(ccl_verdict_t *verdict, const char *fmt, ...) CCL_PRINTF(2, 3);

typedef struct ccl_i_place {
    char text[96];
} ccl_i_place_t;
/** "rank 3 block 2 step 5 (line 88)". @param tb index into program->tbs. @param step in the block
 */
ccl_i_place_t ccl_i_place(const ccl_program_t *program, uint32_t tb, uint32_t step);
/**
 * Refuses (CCL_UNSUPPORTED) a collective with more than 2^26 contributions and results in all,
 * which a small file could ask for: 65536 ranks with a million chunks each.
 */
ccl_status_t ccl_i_check_members(const ccl_collective_t *coll, ccl_error_t *err);
/** FIFO depth of a protocol: Simple 2, LL and LL128 8. */
uint32_t ccl_i_default_slots(const char *proto);

/* ---------------------------------------------------------------- sums (verify_sums.c) */

/**
 * Reductions of contributions, hash-consed. Ids below nranks are the contribution of one rank,
 * higher ones are unordered pairs of ids: equal ids are reduced in the same order, so are bitwise
 * equal.
 */
typedef struct ccl_i_sums {
    uint32_t nranks, words, nnodes, nlists;
    struct ccl_i_sum {
        uint32_t lo, hi; /* what it adds */
        uint32_t list;   /* which of bits, or how many ranks it adds to one that has one */
    } *nodes;
    uint64_t *bits;    /* [words nlists] ranks */
    uint64_t *scratch; /* [words] */
    uint32_t *slots;   /* hash: node or CCL_NONE */
    size_t nodes_cap, bits_cap, nslots;
} ccl_i_sums_t;

bool ccl_i_sums_init(ccl_i_sums_t *sums, uint32_t nranks);
void ccl_i_sums_fini(ccl_i_sums_t *sums);
/**
 * @param twice_out  a rank that both hold (then out is not set), else CCL_NONE.
 * @return false when out of memory.
 */
bool ccl_i_sums_add(ccl_i_sums_t *sums, uint32_t a, uint32_t b, uint32_t *out, uint32_t *twice_out);
/** a and b will be added: where that is found comes into the cache. @param soon  call it before
 * without, as long before as memory takes. */
void ccl_i_sums_prefetch(const ccl_i_sums_t *sums, uint32_t a, uint32_t b, bool soon);
bool ccl_i_sums_has(const ccl_i_sums_t *sums, uint32_t sum, uint32_t rank);
/** First of the chunk's sources that `sum` lacks; CCL_NONE: complete. *nlack_out: how many. */
uint32_t ccl_i_sums_lacks(const ccl_i_sums_t *sums, uint32_t sum, const ccl_chunk_t *chunk,
                          uint32_t *nlack_out);

/* ---------------------------------------------------------------- blocks (verify_blocks.c) */

/** A block as a run sees it: a thread block, at stage level a thread block and stage. */
typedef struct ccl_i_block {
    uint32_t tb;    /* index into program->tbs */
    uint32_t first; /* its steps are order[first .. first + nsteps) */
    uint32_t nsteps;
    uint32_t prev;    /* the thread block's previous stage, or CCL_NONE */
    uint32_t in, out; /* connections, or CCL_NONE; of a shared block see ccl_i_step_in/out */
} ccl_i_block_t;

/*
 * A plain connection; the connection of a member of a switch connection; or a hub, which stands for
 * the whole switch connection where its single GPU's block sends or receives.
 */
typedef enum ccl_i_verify_kind {
    CCL_I_PLAIN,
    CCL_I_TAKE,      /* of a member, from the GPU that multicasts */
    CCL_I_OFFER,     /* of a member, to the GPU that pulls */
    CCL_I_MULTICAST, /* hubs; dst, src is a group's peer */
    CCL_I_PULL
} ccl_i_verify_kind_t;

typedef struct ccl_i_verify_conn {
    uint32_t src, dst, channel, stage, kind;
    uint32_t sender, receiver; /* blocks, or CCL_NONE */
    uint32_t hub;              /* of a member's; CCL_NONE: none has it */
    uint32_t first, n;         /* of a hub: its members' connections in members */
} ccl_i_verify_conn_t;

typedef struct ccl_i_blocks {
    ccl_i_block_t *blocks;
    ccl_i_verify_conn_t *conns;
    /* At stage level, else NULL: steps are by block then, a block for each thread block. */
    uint32_t *order;    /* [nsteps] steps by block */
    uint32_t *block_of; /* [nsteps] */
    uint32_t *index_of; /* [nsteps] place in its block */
    /* [nsteps] connections of each step, when a block has several; else NULL */
    uint32_t *step_in, *step_out;
    uint32_t nblocks, nconns;
    uint32_t *members; /* [nmembers] connections, by hub, in order of rank */
    uint32_t nmembers;
    /* Two blocks on one end of a connection (the first such pair), or CCL_NONE. */
    uint32_t twin_a, twin_b;
    bool twin_sends;
    uint32_t twin_conn;
} ccl_i_blocks_t;

/** Peers of steps that send or receive must be valid (ccl_i_check_steps). */
ccl_status_t ccl_i_blocks_init(const ccl_program_t *program, ccl_granularity_t granularity,
                               ccl_i_blocks_t *out, ccl_error_t *err);
void ccl_i_blocks_fini(ccl_i_blocks_t *blocks);
/** Connection that a step of block b receives on (sends on); CCL_NONE: none. */
static inline uint32_t ccl_i_step_in(const ccl_i_blocks_t *net, uint32_t b, uint32_t step) {
    return net->step_in ? net->step_in[step] : net->blocks[b].in;
}
static inline uint32_t ccl_i_step_out(const ccl_i_blocks_t *net, uint32_t b, uint32_t step) {
    return net->step_out ? net->step_out[step] : net->blocks[b].out;
}
/** The step at place `at` of all blocks. */
static inline uint32_t ccl_i_block_step(const ccl_i_blocks_t *net, uint32_t at) {
    return net->order ? net->order[at] : at;
}
/** FIFOs of connection c: itself, or a hub's members. */
static inline uint32_t ccl_i_fifos(const ccl_i_blocks_t *net, const uint32_t *c,
                                   const uint32_t **out) {
    bool hub = net->conns[*c].kind >= CCL_I_MULTICAST;
    *out = hub ? &net->members[net->conns[*c].first] : c;
    return hub ? net->conns[*c].n : 1;
}
/** Global index of the step that `step` of block `tb` waits for; CCL_NONE: none. */
uint32_t ccl_i_dep(const ccl_program_t *program, const ccl_tb_t *tb, const ccl_step_t *step);

/* ---------------------------------------------------------------- structure (verify_links.c) */

/** What the proof knows of a step, in half a cache line: searches go from step to step. */
typedef struct ccl_i_proof_step {
    uint32_t tb;     /* index into tbs */
    uint32_t sender; /* whose message a receiving step takes; else CCL_NONE */
    uint32_t dep;    /* step waited for; else CCL_NONE */
    uint32_t next;   /* who takes a sending step's message; else CCL_NONE. When ways are mapped: the
                        step after on the data's way */
    /* Of happens-before. */
    uint32_t pos;   /* place in the order of execution */
    uint32_t above; /* when ways are mapped: nearest step of its rank up its data's path */
    uint32_t head;  /* then: first step of the chain of messages that it ends */
    uint32_t order; /* not of this step: the one at this place of the order */
} ccl_i_proof_step_t;

/** Which step meets which. */
typedef struct ccl_i_links {
    ccl_i_proof_step_t *nodes; /* [nsteps] */
    uint32_t *run;   /* [nsteps] at stage level: steps by block and stage, as it runs them */
    uint32_t *place; /* [nsteps] where in `run` a step is; both NULL: where it is in steps */
    /*
     * Of programs with switch connections: a pull adds offers[pull_first[step]] and those that
     * follow, pull_n[step] of them. sender of a pull and next of a multicast are CCL_NONE.
     */
    uint32_t *pull_first, *pull_n, *offers;
    size_t noffers, offers_cap;
    /*
     * Several blocks share one end of a connection, which is a fault. Then messages are matched as
     * in a run in which each block in turn goes as far as it can, to find what that does to the
     * data.
     */
    bool shared;
    uint32_t shared_tb; /* index into tbs of the second block */
    char shared_text[160];
} ccl_i_links_t;

/** The step at place `at` of all blocks as they run them, and back. */
static inline uint32_t ccl_i_run_step(const ccl_i_links_t *links, uint32_t at) {
    return links->run ? links->run[at] : at;
}
static inline uint32_t ccl_i_run_place(const ccl_i_links_t *links, uint32_t step) {
    return links->place ? links->place[step] : step;
}
/** The offers that a step pulls. */
static inline uint32_t ccl_i_noffers(const ccl_i_links_t *links, uint32_t step) {
    return links->pull_n ? links->pull_n[step] : 0;
}
static inline const uint32_t *ccl_i_offers(const ccl_i_links_t *links, uint32_t step) {
    return &links->offers[links->pull_first[step]];
}

/** Reads of its source and writes of its destination buffer, per primitive. */
bool ccl_i_reads_src(ccl_primitive_t prim);
bool ccl_i_writes_dst(ccl_primitive_t prim);

/** Structure faults go to the verdict; links are complete when it stays valid. */
ccl_status_t ccl_i_links_init(const ccl_program_t *program, ccl_granularity_t granularity,
                              ccl_i_links_t *out, ccl_verdict_t *verdict, ccl_error_t *err);
void ccl_i_links_fini(ccl_i_links_t *links);
/** The fault of shared links. */
void ccl_i_fault_shared(const ccl_program_t *program, const ccl_i_links_t *links,
                        ccl_verdict_t *verdict);
/** What sharing a connection did to the data, added to the fault that is there; or that fault
 * alone. */
void ccl_i_add_shared(const ccl_program_t *program, const ccl_i_links_t *links,
                      ccl_verdict_t *verdict);
/**
 * Faults of places: a chunk that a rank must have has an element there, and is of one size wherever
 * it is. Refuses (CCL_UNSUPPORTED) programs that are too large to verify and to run.
 */
ccl_status_t ccl_i_check_places(const ccl_program_t *program, ccl_verdict_t *verdict,
                                ccl_error_t *err);
/** Whether two shares are one size. */
bool ccl_i_same_share(double a, double b);
/** Limits of an executor's parser and kernel. */
void ccl_i_check_executor(const ccl_program_t *program, ccl_executor_t executor,
                          ccl_verdict_t *verdict);

/* ---------------------------------------------------------------- happens-before (verify_order.c)
 */

/** What a search needs, from query to query. */
typedef struct ccl_i_search {
    uint64_t *seen; /* hash of steps that the query visited, beneath its number */
    size_t nslots, nseen;
    uint32_t *stack; /* steps to visit, of a's rank; far: of others */
    uint32_t *far;
    size_t depth, stack_cap, far_depth, far_cap;
    uint32_t query;
    uint32_t hit;                   /* place of a's block where a search ended */
    uint64_t nvisited;              /* steps of all searches */
    struct ccl_i_met *after, *over; /* [ntbs] of a query: what waits for a, what b waits for */
} ccl_i_search_t;

/**
 * Program order, dependencies and messages. Free slots order nothing: a program that is right only
 * for some FIFO depth is not right.
 */
typedef struct ccl_i_order {
    const ccl_program_t *program;
    const ccl_i_links_t *links;
    ccl_i_proof_step_t *nodes;       /* the links' */
    bool mapped;                     /* the data's ways are */
    struct ccl_i_known_order *known; /* hash of what earlier queries found */
    ccl_i_search_t search;
    bool used; /* the nodes' `order` may be no more what it was */
} ccl_i_order_t;

/** The program must not block with unlimited FIFOs. */
ccl_status_t ccl_i_order_init(const ccl_program_t *program, const ccl_i_links_t *links,
                              ccl_i_order_t *out, ccl_error_t *err);
void ccl_i_order_fini(ccl_i_order_t *order);
/** The order at its nodes' `order`, which its one user may then use up. */
void ccl_i_order_restore(ccl_i_order_t *order);
/** What a step does to its element `elem`, counted from the step's offset. */
typedef struct ccl_i_access {
    uint32_t step, elem;
} ccl_i_access_t;
/**
 * Whether access a is over before access b, of a step later in the order.
 * @return false when out of memory.
 */
bool ccl_i_order_before(ccl_i_order_t *order, ccl_i_access_t a, ccl_i_access_t b, bool *out);

/** Whether blocks wait for each other for ever: a fault, with the FIFO depth that would do. */
ccl_status_t ccl_i_check_deadlock(const ccl_ctx_t *ctx, const ccl_program_t *program,
                                  const ccl_verify_options_t *options, ccl_verdict_t *verdict,
                                  ccl_error_t *err);

#endif
