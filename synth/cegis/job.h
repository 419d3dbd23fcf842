/* Private to synth: what one run of cegis works on. */
#ifndef CCL_SYNTH_CEGIS_JOB_H
#define CCL_SYNTH_CEGIS_JOB_H

#include "synth/cegis/cegis.h"
#include "synth/common/race.h"

/** Plans of one run at most. */
#define CCL_I_CEGIS_PLANS 26

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

/**
 * Connections of the plan in hand (c->sides), no more than thread blocks allow; where both sides
 * are used, apart from each other if that fits (c->down_channels).
 */
ccl_status_t ccl_i_cegis_channels(ccl_i_cegis_job_t *c, ccl_i_cegis_lanes_t kind, ccl_error_t *err);

#endif
