/*
 * Private to the sketch synthesizer: the race of its candidates, in which they are simulated. What
 * is simulated at first is chosen in choose.c, what joins later in variants.c.
 */
#ifndef CCL_SYNTH_SKETCH_CHOOSE_H
#define CCL_SYNTH_SKETCH_CHOOSE_H

#include "synth/common/race.h"
#include "synth/sketch/candidates.h"

/*
 * How much is simulated. Transfers are those of schedules, sends count every micro-batch.
 * bench/cases/synth_sketch.c and synth_small.c run it.
 */
typedef struct ccl_i_sketch_policy {
    double simulated; /* transfers of all candidates, but two at least, and beside them one of
                         more than CCL_I_SKETCH_LARGE */
    double piped;     /* transfers up to which the fastest are cut into `piped_times` the pieces */
    double fine, cheap; /* and into ever more while that gains; up to `cheap`, also after one step
                           that did not */
    double flow;        /* pieces that flow begin with about as many transfers, */
    double flow_climb;  /* and get up to as many while that gains */
    double all_orders, two_orders; /* sends up to which reductions are simulated in four orders, in
                                      two */
    uint32_t small;                /* GPUs up to which the following keep work in proportion: */
    double small_long; /* primitives from which a run is a long one: reductions are simulated in two
                          orders at most, and what is slower than `within` is given up */
    double small_behind; /* times the other order's fastest: long runs of a slower order are none */
    double small_fine, small_flow; /* transfers for each pair of GPUs, of variants and of pieces
                                      that flow */
    double lowered;     /* sends up to which reductions are lowered to choose between them */
    double trees_alone; /* transfers from which steps of equal trees do not tell candidates apart */
    uint32_t counted;   /* candidates whose thread blocks are counted */
    uint32_t first_round; /* candidates that are simulated before it is asked whether one is */
    double enough; /* times the busiest link's time under the best shares: no other gains more */
    double fine_within; /* times the fastest: more channels for what is not slower; it may not stay
                           so */
    uint32_t piped_times; /* factor of pieces */
    double flow_load;     /* times the least load of the busiest link, of mixes whose pieces flow */
    double finalists_within; /* times the fastest, of reductions that are lowered */
} ccl_i_sketch_policy_t;
extern const ccl_i_sketch_policy_t ccl_i_sketch_policy;

/* Candidates that are estimated alike and are simulated. */
enum { CCL_I_SKETCH_ALIKE = 2 };

typedef struct ccl_i_sketch_race {
    const ccl_ctx_t *ctx;
    const ccl_i_space_t *space;
    const ccl_i_sketches_t *sketches;
    const ccl_collective_t *want;
    ccl_i_candidates_t all; /* the first n take part; those before `first` are done */
    uint32_t n, first;
    double size_bytes;
    ccl_i_race_t rounds;      /* of candidates from `first` on */
    ccl_i_cluster_t *cluster; /* of the calling thread */
    ccl_routes_t *given;
    uint32_t threads;
    uint32_t fastest; /* of all so far */
    double fastest_s;
    ccl_i_costs_t costs;
    double transfers;   /* of all that are simulated */
    double least_s;     /* the busiest link's time under the best shares of all mixes */
    double within;      /* times the fastest: no choice looks at what is slower */
    double best_s[3];   /* as ccl_i_sketch_find_best(), before the round */
    double long_within; /* the same of small clusters' long runs */
    double least_slice; /* bytes of the transport that has the smallest */
    double most_s;      /* a longer time is of no use; INFINITY: any is */
    double keep_s;      /* what a climb compares with; 0: nothing */
} ccl_i_sketch_race_t;

static inline bool ccl_i_sketch_reduces(const ccl_i_sketch_race_t *race) {
    return race->space->up || race->costs.ways > 1;
}
static inline bool ccl_i_sketch_enough(const ccl_i_sketch_race_t *race) {
    return race->fastest_s <= ccl_i_sketch_policy.enough * race->least_s;
}

/* What follows from the run; who races and on what is set. */
void ccl_i_sketch_race_init(ccl_i_sketch_race_t *race, const ccl_i_sketch_run_t *run);
/* Whether work is kept in proportion to the cluster. */
static inline bool ccl_i_sketch_small(const ccl_i_sketch_race_t *race) {
    return race->space->topo->nranks <= ccl_i_sketch_policy.small;
}
/* Transfers that a limit for each pair of GPUs allows, of small clusters at most `most`. */
static inline double ccl_i_sketch_of_pairs(const ccl_i_sketch_race_t *race, double of_pair,
                                           double most) {
    double n = race->space->topo->nranks;

    return ccl_i_sketch_small(race) && of_pair * n * n < most ? of_pair * n * n : most;
}
/* Whether the cluster is small and a candidate's run long. */
bool ccl_i_sketch_is_long(const ccl_i_sketch_race_t *race, const ccl_i_candidate_t *c);
/* Sends of a schedule over all micro-batches. */
double ccl_i_sketch_sends(const ccl_i_sketch_race_t *race, const ccl_schedule_t *schedule);
/* Of the first n. @param best_s  the least in its own order, in the mirrored one, in any */
void ccl_i_sketch_find_best(const ccl_i_sketch_race_t *race, uint32_t n, double best_s[3]);
/* Simulates all from `first` on, unless the first few are good enough; those given in any case. */
ccl_status_t ccl_i_sketch_race_from(ccl_i_sketch_race_t *race, uint32_t first, ccl_error_t *err);
/**
 * No estimate shows what several channels gain (thread blocks that fill a link, NICs, flows that do
 * not wait for each other): the fastest once more over four, then what wins over other numbers, in
 * other cuts and shapes.
 * @param within  of the fastest, those that are tried in other cuts.
 */
ccl_status_t ccl_i_sketch_fine(ccl_i_sketch_race_t *race, double within, ccl_error_t *err);

#endif
