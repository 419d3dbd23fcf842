/* Private to synth: what one run of cegis works on. */
#ifndef CCL_SYNTH_CEGIS_JOB_H
#define CCL_SYNTH_CEGIS_JOB_H

#include "synth/cegis/cegis.h"
#include "synth/common/race.h"

/** Plans of one run at most. */
#define CCL_I_CEGIS_PLANS 26
/** Of them those with steps of other lengths. */
#define CCL_I_CEGIS_OTHERS 5

/*
 * How much is made and simulated. Work is in transfers (slices of transports) of simulations.
 * bench/cases/synth_small.c and synth_allgather.c run it.
 */
typedef struct ccl_i_cegis_policy {
    double size;          /* bytes, where the user gives none */
    double transfers;     /* of a schedule: twice as many slices gain less than 1 % there, and cost
                             every user of it twice the time */
    double small;         /* GPUs of a cluster on which slices are doubled once only */
    double small_most;    /* beyond these transfers: what gained once gains less than 1 % more */
    double trees;         /* of a plan in more cuts than needed */
    double other_worth;   /* part of the best time below which another length of a step is taken */
    double other_latency; /* part of a shard's time on the slowest hop that latency must have:
                             below, load decides, which no length of a step changes */
    double other_rough;   /* times the best estimate up to which other lengths are simulated */
    double other_work;    /* part of all work that they get beside the others */
    double rival_work;    /* the same, of a plan as it was before Z3 changed it */
    double pair_work;     /* work to choose cuts, slices and connections, for each pair of ranks: */
    double least_work[2]; /* at least (one way; up and down), */
    double work;          /* at most */
    double shares;        /* no first try costs more than 1 / this of all work */
    double least_factor;  /* factor by which a round lowers expected work, at least */
    double near;          /* times the best estimate up to which cuts are simulated */
    double rough;         /* the same, of at most half as many cuts as the best one, on GPUs whose
                             thread blocks count, which the estimate does not */
    double margin;        /* part of the time by which a later trial must be faster */
} ccl_i_cegis_policy_t;
extern const ccl_i_cegis_policy_t ccl_i_cegis_policy;

/** One direction: trees that copies go down, or that reductions come up. */
typedef struct ccl_i_cegis_side {
    bool used, up;
    bool one_send; /* equation 8 holds */
    ccl_i_exchange_t x;
    ccl_i_chunking_t capacity;
    ccl_i_cegis_problem_t problem;
    ccl_i_cegis_chunk_t *chunks;
    ccl_i_cegis_plan_t plan;
    size_t *first;          /* [ntrees + 1] into order */
    uint32_t *order;        /* sends by chunk */
    uint8_t *contended;     /* [nhops] */
    uint32_t *serial;       /* [sends of the plan] place among those of its hop */
    uint32_t *sends_of;     /* [nhops] */
    uint32_t *lanes;        /* [nhops] connections of its own */
    uint32_t *lane_first;   /* [nhops] into lane_channel */
    uint16_t *lane_channel; /* of every lane */
} ccl_i_cegis_side_t;

/** A plan for a number of cuts of a chunk, and what it may take. */
typedef struct ccl_i_cegis_cut {
    uint32_t cuts, slices;
    uint32_t *owner;
    ccl_i_cegis_side_t sides[2];
    double estimate_s;
    bool other; /* of another length of a step */
    bool rival; /* as another one was before Z3 took steps away */
    ccl_synth_stats_t stats;
} ccl_i_cegis_cut_t;

/** How many connections a hop gets. */
typedef enum ccl_i_cegis_lanes {
    CCL_I_LANES_PLAIN, /* one for each chunk where a busy link is shared; elsewhere one */
    CCL_I_LANES_RATE,  /* as many more as thread blocks need for what the hop carries */
    CCL_I_LANES_LINK,  /* as many more as fill its links */
    CCL_I_LANES_KINDS
} ccl_i_cegis_lanes_t;

/** A schedule to be simulated. */
typedef struct ccl_i_cegis_trial {
    uint32_t cut, slices;
    ccl_i_cegis_lanes_t lanes;
    const uint32_t *lanes_of[2]; /* both sides' */
    double time_s;
} ccl_i_cegis_trial_t;

typedef struct ccl_i_cegis_job {
    const ccl_ctx_t *ctx;
    const ccl_synth_options_t *options;
    const ccl_collective_t *want;
    const ccl_topology_t *topo;
    ccl_routes_t *routes;
    uint32_t nranks;
    uint32_t cuts;   /* trees of a chunk of `want` */
    uint32_t slices; /* of what a tree carries */
    uint32_t down_channels;
    ccl_i_cegis_side_t sides[2]; /* down, up */
    ccl_i_cegis_task_t task;
    uint32_t *owner; /* [cuts] AllReduce: roots; NULL: in turn */
    uint32_t *depth; /* [nranks] of the tree in hand */
    ccl_i_cegis_cut_t cut[CCL_I_CEGIS_PLANS];
    double stretch; /* 0: to be chosen */
    bool solved;    /* Z3 changed the plans for the first number of cuts */
    uint32_t ncuts;
    ccl_synth_stats_t stats;         /* of the plan in hand */
    const ccl_i_cegis_plan_t *given; /* the way down is known already, with what it took */
    ccl_synth_stats_t given_stats;
    ccl_i_race_t race;           /* of trials, with the work that is left for simulation */
    double cost_factor;          /* factor by which simulations cost more than expected */
    ccl_i_cegis_trial_t *trials; /* those that run now */
    ccl_i_cegis_trial_t *best;   /* the fastest so far, whose schedule is the race's */
    ccl_arena_t arena;
} ccl_i_cegis_job_t;

/** Root of the cut of a chunk. */
uint32_t ccl_i_cegis_root(const ccl_i_cegis_job_t *c, uint32_t chunk, uint32_t cut);
/** Bytes of the run. */
double ccl_i_cegis_size(const ccl_i_cegis_job_t *c);
/** Exchange and capacities of a side, and its chunks. */
ccl_status_t ccl_i_cegis_discretise(ccl_i_cegis_job_t *c, ccl_i_cegis_side_t *side,
                                    ccl_error_t *err);
/** Plans for one and for more cuts of a chunk (c->cut); the solver works on the first. */
ccl_status_t ccl_i_cegis_cuts(ccl_i_cegis_job_t *c, ccl_error_t *err);
/** A plan that was set aside is the one in hand (pointers inside it point to c->sides). */
void ccl_i_cegis_take(ccl_i_cegis_job_t *c, uint32_t i);
void ccl_i_cegis_side_fini(ccl_i_cegis_side_t *side);

/** Before ccl_i_cegis_choose(); c->race is for ccl_i_race_fini(). */
void ccl_i_cegis_race_init(ccl_i_cegis_job_t *c);
/** Cuts, slices and connections: the best cuts as estimated are lowered and simulated. */
ccl_status_t ccl_i_cegis_choose(ccl_i_cegis_job_t *c, ccl_error_t *err);

/**
 * Connections of the plan in hand (c->sides), no more than thread blocks allow; where both sides
 * are used, apart from each other if that fits (c->down_channels).
 */
ccl_status_t ccl_i_cegis_channels(ccl_i_cegis_job_t *c, ccl_i_cegis_lanes_t kind, ccl_error_t *err);

#endif
