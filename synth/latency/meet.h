/*
 * Private to synth/latency: few GPUs, each chunk in a way of its own, planned together in time
 * (meet.c); what such a plan takes (meet_run.c); its schedule (meet_make.c).
 */
#ifndef CCL_SYNTH_MEET_H
#define CCL_SYNTH_MEET_H

#include "synth/common/exchange.h"
#include "synth/latency/latency.h"

enum {
    CCL_I_MEET_GPUS = 8,
    CCL_I_MEET_CHUNKS = 64, /* of an AllReduce a quarter */
    CCL_I_MEET_LEVELS = 5,  /* shares cut in 1, 2, 4, 8, 16 */
    CCL_I_MEET_HOPS = CCL_I_MEET_GPUS * (CCL_I_MEET_GPUS - 1),
    CCL_I_MEET_MOVES = 16 * CCL_I_MEET_HOPS
};

/**
 * How a chunk gets to where it is due. AllReduce: contributions gather in the core, the GPUs there
 * exchange theirs, and the result goes back. Else the core is the source, or where the sum is due.
 * Sets are bits by rank.
 */
typedef struct ccl_i_meeting {
    uint8_t core;                 /* not empty; all pairs in it reach each other */
    uint8_t in[CCL_I_MEET_GPUS];  /* of the others: to whom a GPU sends its sum */
    uint8_t out[CCL_I_MEET_GPUS]; /* and from whom it gets the result */
} ccl_i_meeting_t;

typedef enum ccl_i_meet_kind { CCL_I_MEET_IN, CCL_I_MEET_CORE, CCL_I_MEET_OUT } ccl_i_meet_kind_t;

typedef struct ccl_i_meet_move {
    double start_s, done_s; /* done: the receiver has added or stored it */
    double tail_s;          /* from its start to the end of all that waits for it, links idle */
    uint8_t src, dst, chunk, kind;
} ccl_i_meet_move_t;

/** A connection of two GPUs. */
typedef struct ccl_i_meet_hop {
    uint8_t src, dst;
    uint16_t channel;
    double overhead_s, latency_s; /* before the first byte leaves, after the last has */
    double most_Bps;              /* with nothing else on its way */
    bool shared;                  /* some resource is another hop's as well */
    uint32_t first_use, nuses;
} ccl_i_meet_hop_t;

/** The cluster as plans see it. */
typedef struct ccl_i_meet_net {
    ccl_i_exchange_t x;
    uint32_t n, nhops;
    bool ins, outs; /* contributions are added up; results are copied */
    ccl_i_meet_hop_t hops[CCL_I_MEET_HOPS];
    uint8_t hop[CCL_I_MEET_GPUS][CCL_I_MEET_GPUS];
    uint8_t to[CCL_I_MEET_GPUS], from[CCL_I_MEET_GPUS]; /* whom a GPU reaches, who reaches it */
} ccl_i_meet_net_t;

/** Of one chunk, while it runs. */
typedef struct ccl_i_meet_chunk {
    uint8_t sums[CCL_I_MEET_GPUS];  /* that are still to come before a GPU sends its own */
    uint8_t lacks[CCL_I_MEET_GPUS]; /* sums until it has the result */
    uint8_t begun[CCL_I_MEET_GPUS]; /* to whom a GPU in the core has begun to send its sum */
    uint8_t sends;                  /* of such that are not over */
    uint32_t turn;                  /* in which chunks' exchanges began; CCL_NONE: not yet */
    double out_tail[CCL_I_MEET_GPUS], in_tail[CCL_I_MEET_GPUS];
} ccl_i_meet_chunk_t;

/** Of a hop, while it runs. Moves by number, CCL_NONE: none. */
typedef struct ccl_i_meet_lane {
    uint32_t ready;        /* a list: may start */
    uint32_t first, last;  /* on their way, in order */
    uint32_t sending;      /* CCL_NONE: idle */
    double left, Bps;      /* bytes of it, and their rate from begin_s on */
    double begin_s, end_s; /* its first byte leaves; its last, if rates stay; INFINITY: later */
} ccl_i_meet_lane_t;

/** A run of a plan. Large: not for the stack. */
typedef struct ccl_i_meet_run {
    const ccl_i_meet_net_t *net;
    const ccl_i_meeting_t *meetings;
    double bytes, now_s, total_s;      /* total: of all results */
    uint64_t work;                     /* moves of all runs */
    uint64_t waiting, sending, coming; /* sets of lanes */
    uint32_t nmoves, nchunks, nturns, undone;
    ccl_i_meet_move_t moves[CCL_I_MEET_MOVES];
    uint32_t next[CCL_I_MEET_MOVES];
    double arrive_s[CCL_I_MEET_MOVES];
    ccl_i_meet_chunk_t chunks[CCL_I_MEET_CHUNKS];
    ccl_i_meet_lane_t lanes[CCL_I_MEET_HOPS];
    double *left_Bps; /* [resources of the net] */
    uint32_t *users;  /* [resources of the net] */
} ccl_i_meet_run_t;

/** NULL: out of memory. */
ccl_i_meet_run_t *ccl_i_meet_run_create(const ccl_i_meet_net_t *net);
void ccl_i_meet_run_destroy(ccl_i_meet_run_t *run);
/**
 * What chunks that go so take: every connection sends one after the other, those with the most to
 * follow first, links are shared fairly, a receiver takes chunks in order, and nothing is added to
 * a sum that is still to be sent. INFINITY: all wait for each other.
 * @param bytes  of a chunk.
 */
double ccl_i_meet_time(ccl_i_meet_run_t *run, const ccl_i_meeting_t *meetings, uint32_t nchunks,
                       double bytes);
/** A hop with nothing else on its way. */
static inline double ccl_i_meet_alone_s(const ccl_i_meet_hop_t *h, double bytes) {
    return h->overhead_s + h->latency_s + bytes / h->most_Bps;
}

/** Plans with shares cut in 1, 2, 4 ... */
typedef struct ccl_i_meet_plans {
    ccl_i_meet_net_t net;
    uint32_t nlevels;
    double share_bytes; /* of a chunk that is not cut */
    struct {
        double time_s; /* as planned */
        ccl_i_meeting_t meetings[CCL_I_MEET_CHUNKS];
    } levels[CCL_I_MEET_LEVELS]; /* level k: shares in 2^k parts */
} ccl_i_meet_plans_t;

/** Are these plans for such a collective and cluster? */
bool ccl_i_meet_serves(const ccl_i_cluster_t *cluster, const ccl_collective_t *want);
/**
 * Search. AllReduce, AllGather, ReduceScatter, Broadcast, Reduce.
 * @param proto  whose constants count.
 * @param out  ccl_i_meet_plans_destroy() afterwards.
 */
ccl_status_t ccl_i_meet_plan(ccl_i_cluster_t *cluster, const ccl_collective_t *want,
                             double size_bytes, const char *proto, ccl_i_meet_plans_t **out,
                             ccl_error_t *err);
void ccl_i_meet_plans_destroy(ccl_i_meet_plans_t *plans);
/** The schedule of a level. */
ccl_status_t ccl_i_meet_make(const ccl_i_meet_plans_t *plans, uint32_t level,
                             const ccl_collective_t *want, ccl_schedule_t **out, ccl_error_t *err);

#endif
