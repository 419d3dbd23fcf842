/*
 * Private to synth: spreading chunks over the exchange graph by greedy matching in continuous time
 * (spread.c), trees for chunks with few destinations (spread_tree.c), and what sets of GPUs can
 * take in (spread_cuts.c).
 */
#ifndef CCL_SYNTH_SPREAD_H
#define CCL_SYNTH_SPREAD_H

#include "synth/common/exchange.h"

/** A chunk on its way over a hop. */
typedef struct ccl_i_sent {
    uint32_t src, dst, chunk, hop;
    uint16_t lane; /* of a hop that takes several thread blocks to fill: which of them */
    double start_s, arrive_s;
} ccl_i_sent_t;

/** Chunks, each at one rank, that every rank (or dests) must get. */
typedef struct ccl_i_spread {
    const ccl_i_exchange_t *x;
    uint32_t nchunks;
    const uint32_t *owner; /* [nchunks] */
    const double *bytes;   /* [nchunks] > 0 */
    /* NULL: every rank. Else [nchunks]: ascending ranks. */
    const uint32_t *const *dests;
    const uint32_t *ndests;
} ccl_i_spread_t;

/** Sets of GPUs that chunks should enter once only, since their way in is what limits. */
typedef struct ccl_i_cuts {
    uint32_t nsets;
    uint32_t *first, *ranks; /* [nsets + 1] into ranks */
    double *share;           /* [nsets] time to take in what it lacks / the greatest of all */
    uint32_t *enters_first, *enters; /* [nhops + 1]: sets that a hop leads into */
    double least_s;                  /* greatest time of all sets and GPUs: nobody is faster */
    ccl_arena_t arena;
} ccl_i_cuts_t;

ccl_status_t ccl_i_cuts_init(ccl_i_cuts_t *cuts, const ccl_i_spread_t *what, ccl_error_t *err);
void ccl_i_cuts_fini(ccl_i_cuts_t *cuts);
/**
 * What can flow into a set at once, bytes/s: max-min fair rates of all hops that lead into it.
 * @param inside  [nranks] 1: in the set. @param out  the other way: what can flow out.
 */
ccl_status_t ccl_i_exchange_inflow(const ccl_i_exchange_t *x, const uint8_t *inside, bool out,
                                   double *Bps_out, ccl_error_t *err);

typedef struct ccl_i_spread_params {
    uint64_t seed;
    double tight;    /* sets whose share is at least this are entered once per chunk; > 1: none */
    uint32_t sample; /* candidates looked at for a hop */
    /* In a set whose members all reach each other, who brings a chunk in sends it to all others:
       hops that share links carry as much then, which fair sharing likes. */
    bool star;
} ccl_i_spread_params_t;

/** What was sent, in order of start. */
typedef struct ccl_i_sends {
    ccl_i_sent_t *sent;
    size_t len, cap;
    double time_s; /* last arrival */
} ccl_i_sends_t;
void ccl_i_sends_fini(ccl_i_sends_t *sends);

/**
 * Spread every chunk to every rank: whenever a hop's links are free, it takes the chunk that fewest
 * ranks have and that its receiver lacks.
 *
 * @param give_up_s  stop when time passes this (INFINITY: never); then out->time_s is INFINITY.
 */
ccl_status_t ccl_i_spread_match(const ccl_ctx_t *ctx, const ccl_i_spread_t *what,
                                const ccl_i_cuts_t *cuts, const ccl_i_spread_params_t *params,
                                double give_up_s, ccl_i_sends_t *out, ccl_error_t *err);
/** Trees by load, then hops as their links become free, longest way first. Any destinations. */
ccl_status_t ccl_i_spread_trees(const ccl_ctx_t *ctx, const ccl_i_spread_t *what,
                                const ccl_i_spread_params_t *params, ccl_i_sends_t *out,
                                ccl_error_t *err);

/** Hops and the resources they take while chunks cross them. */
typedef struct ccl_i_traffic {
    const ccl_i_exchange_t *x;
    double *free_Bps;              /* [nresources] */
    double *full_Bps;              /* [nhops] of one thread block, with nothing else there */
    uint64_t *busy;                /* [nhops] lanes in use */
    uint8_t *lanes;                /* [nhops] thread blocks that it may take, at most 64 */
    uint8_t *opened;               /* [nhops] that it has taken so far */
    uint32_t *senders, *receivers; /* [nranks] thread blocks in use */
    uint32_t *room;                /* [nranks] for senders, and for receivers */
    bool limited;                  /* no more than there is room for */
    uint32_t *user_first, *users;  /* [nresources + 1] hops of a resource */
    ccl_arena_t arena;
} ccl_i_traffic_t;
/** @param limited  hops take no more thread blocks than GPUs have room for. */
ccl_status_t ccl_i_traffic_init(ccl_i_traffic_t *t, const ccl_i_exchange_t *x, bool limited,
                                ccl_error_t *err);
void ccl_i_traffic_fini(ccl_i_traffic_t *t);
/** Rate at which a chunk could cross the hop now; 0: not now. */
double ccl_i_traffic_rate(const ccl_i_traffic_t *t, uint32_t hop);
/** Take the hop at a rate; returns the lane. */
uint32_t ccl_i_traffic_take(ccl_i_traffic_t *t, uint32_t hop, double Bps);
void ccl_i_traffic_give(ccl_i_traffic_t *t, uint32_t hop, uint32_t lane, double Bps);

/** Times in order; equal ones by id. */
typedef struct ccl_i_spread_event {
    double at_s;
    uint32_t id;
} ccl_i_spread_event_t;
typedef struct ccl_i_agenda {
    ccl_i_spread_event_t *heap;
    size_t len, cap;
} ccl_i_agenda_t;
bool ccl_i_agenda_add(ccl_i_agenda_t *a, double at_s, uint32_t id);
ccl_i_spread_event_t ccl_i_agenda_take(ccl_i_agenda_t *a); /* len > 0 */

#endif
