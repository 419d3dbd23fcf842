/*
 * Private to synth: candidates of the sketch synthesizer, that is mixes with all that it takes to
 * make schedules of them, and what they are estimated to take.
 */
#ifndef CCL_SYNTH_SKETCH_CANDIDATES_H
#define CCL_SYNTH_SKETCH_CANDIDATES_H

#include "synth/common/race.h"
#include "synth/sketch/sketch.h"

/* Parts are cut further for more than this. */
#define CCL_I_SKETCH_CUT_GAIN 0.01
/* Candidates of more transfers take seconds each to simulate. */
#define CCL_I_SKETCH_LARGE 3e5

/* A mix, how groups hand on, over how many channels. */
typedef struct ccl_i_candidate {
    const ccl_i_mix_t *mix;
    uint8_t shapes[CCL_I_SKETCH_DIMENSIONS];
    uint32_t channels, parts, index;
    double transfers;  /* about */
    uint32_t cuts;     /* parts are this many times those of the mix with its turns */
    double flow_bytes; /* its pieces flow in a run of this size: ccl_schedule_order_list(); 0:
                          all cuts side by side, in the order of lowering */
    bool apart;        /* what is handed on has as many channels of its own */
    bool hopeless;     /* more than twice as many */
    bool line;         /* simulated for the few flows that share links, whatever its estimate */
    bool wide; /* more connections than a GPU has thread blocks: only where nothing else is */
    double estimate_s;
    double time_s;     /* simulated, in the best order */
    double order_s[2]; /* of reductions: in its own order, in the mirrored one; INFINITY: not run */
    bool late;         /* not simulated: no time left */
    uint8_t net;       /* shape over the network */
    uint64_t signature; /* of its trees, once they are needed; 0: not yet */
} ccl_i_candidate_t;

/* What is the same for all candidates. */
typedef struct ccl_i_costs {
    double chunk_bytes, size_bytes; /* of a chunk, of the collective */
    double ways;  /* how often a part goes along its trees: in an AllReduce up and down */
    uint32_t sms; /* of the GPU that has fewest; 0: no limit */
    bool fixed;   /* the user says how many channels */
} ccl_i_costs_t;

typedef struct ccl_i_candidates {
    ccl_i_candidate_t *items;
    size_t n, cap;
} ccl_i_candidates_t;

/**
 * All candidates, by what they are estimated to take: every mix over one channel and over
 * `channels`, in every shape.
 */
ccl_status_t ccl_i_candidates_fill(ccl_i_candidates_t *all, const ccl_i_space_t *space,
                                   const ccl_i_sketches_t *sketches, const ccl_i_mixes_t *mixes,
                                   uint32_t channels, const ccl_i_costs_t *costs, ccl_error_t *err);
/** A mix, as a candidate is to have it. */
typedef struct ccl_i_variant {
    const ccl_i_mix_t *mix;
    uint32_t channels, cuts; /* cuts 0: as the estimate says */
    ccl_i_shape_t net;
} ccl_i_variant_t;
/**
 * One more, behind the others; none where it is as another shape, or has too many transfers.
 * @return false: out of memory.
 */
bool ccl_i_candidates_add(ccl_i_candidates_t *all, const ccl_i_space_t *space,
                          const ccl_i_sketches_t *sketches, const ccl_i_costs_t *costs,
                          ccl_i_variant_t as);
/** Parts of a mix in which each way of a sub-demand, and of one root each way to pick single GPUs,
 * has as many. */
uint32_t ccl_i_candidate_parts(const ccl_i_space_t *space, const ccl_i_sketches_t *sketches,
                               const ccl_i_mix_t *mix);
/** Estimate of a mix over one channel, direct and without cuts. */
double ccl_i_mix_estimate(const ccl_i_space_t *space, const ccl_i_sketches_t *sketches,
                          const ccl_i_mix_t *mix, double chunk_bytes);
/** Whether some group's part is solved: as a flow, or in rounds, quite unlike a tree. */
bool ccl_i_mix_solved(const ccl_i_sketches_t *sketches, const ccl_i_mix_t *mix);
/** Find its signature: candidates whose parts have the same trees, and with `steps` also the same
 * steps in them, have one. */
ccl_status_t ccl_i_candidate_sign(const ccl_i_space_t *space, const ccl_i_sketches_t *sketches,
                                  ccl_i_candidate_t *c, bool steps, ccl_error_t *err);
/** Whether a GPU of `sms` thread blocks has one for each connection, counted one by one. */
ccl_status_t ccl_i_candidate_fits(const ccl_i_space_t *space, const ccl_i_sketches_t *sketches,
                                  const ccl_i_candidate_t *c, uint32_t sms, bool *fits_out,
                                  ccl_error_t *err);
/** @param with  its context and cluster. */
ccl_status_t ccl_i_candidate_make(const ccl_i_racer_t *with, const ccl_i_space_t *space,
                                  const ccl_i_sketches_t *sketches,
                                  const ccl_i_candidate_t *candidate, const ccl_collective_t *want,
                                  ccl_schedule_t **out, ccl_error_t *err);

#endif
