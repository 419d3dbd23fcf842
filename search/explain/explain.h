/**
 * @file explain.h
 * Why a run takes its time, and what would help.
 */
#ifndef CCL_SEARCH_EXPLAIN_H
#define CCL_SEARCH_EXPLAIN_H

#include "synth/synth.h"
#include "validate/nccl/nccl.h"

CCL_BEGIN_DECLS

/** Who can make a change. */
typedef enum ccl_remedy {
    CCL_REMEDY_PROGRAM, /**< options of synthesis, lowering and running */
    CCL_REMEDY_SETTING, /**< a setting of the library or runtime: FIFO slots */
    CCL_REMEDY_HARDWARE /**< another cluster */
} ccl_remedy_t;
#define CCL_REMEDIES 3
const char *ccl_remedy_name(ccl_remedy_t remedy); /**< "program", "setting", "hardware"; static */

/** One change and what it does: the same run again with it. */
typedef struct ccl_counterfactual {
    const char *what; /**< "net links of server s2 twice as fast" */
    ccl_remedy_t remedy;
    const char *family;   /**< "micro-batches": of such only one can be chosen; NULL: none */
    const char *edits[4]; /**< ccl_topology_edit() of the cluster, in order */
    uint32_t nedits;
    const char *options; /**< of the command line, such as "--batches 8"; NULL: none */
    ccl_status_t status; /**< CCL_OK, or why there is no time */
    char why[200];       /**< then one line */
    double time_s;
} ccl_counterfactual_t;

typedef struct ccl_explain_options {
    size_t size;
    const ccl_program_t *program;
    const ccl_schedule_t *schedule; /**< what the program was lowered from; NULL: a program's own */
    const char *with;               /**< what synthesized it; NULL: nobody, or not here */
    const ccl_collective_t *want;   /**< of `with` */
    ccl_synth_options_t synth;      /**< of `with` */
    ccl_lower_options_t lower;      /**< of `schedule`, all but the way, topology and run */
    ccl_way_t way;                  /**< of `schedule` */
    ccl_sim_options_t sim;          /**< the run: size_bytes > 0; trace must be NULL */
    const ccl_topology_t *machine;  /**< the cluster without a profile, by which NCCL chooses; NULL:
                                         the one explained on */
    uint32_t intervals;             /**< parts of the run that links are looked at in; 0: 20 */
    bool no_what_if;                /**< no counterfactual runs */
} ccl_explain_options_t;
/** The defaults. */
#define CCL_EXPLAIN_OPTIONS_INIT                                                                   \
    {                                                                                              \
        .size = sizeof(ccl_explain_options_t), .synth = CCL_SYNTH_OPTIONS_INIT,                    \
        .lower = CCL_LOWER_OPTIONS_INIT, .sim = CCL_SIM_OPTIONS_INIT                               \
    }

/** Parts that are slower than others of their kind, and lack the same: links of one kind between
   devices of the same kinds are compared by their bandwidth a lane with the fastest of them. */
typedef struct ccl_slow_part {
    const char *what;      /**< "server s0", "nic s0/nic3", "link a - b"; of several the first */
    const char *bandwidth; /**< "net 25 of 50 GB/s": theirs, and the fastest's; by kind of link */
    uint32_t count; /**< how many lack the same; of the last entry of several, which is all of them
                         together, how many there are */
    double share;   /**< least bandwidth, as a share of the fastest's, 0..1 */
    const char *const *edits; /**< ccl_topology_edit() that make them as fast, in order */
    uint32_t nedits;
    bool decides;        /**< none gains more, and it is 1 % of the time or more */
    ccl_status_t status; /**< CCL_OK, or why there is no time */
    char why[200];       /**< then one line */
    double time_s;       /**< of the same program where they are as fast */
    double bound_s;      /**< of that cluster */
} ccl_slow_part_t;

/** What the links of the bound's proof did. */
typedef struct ccl_cut_use {
    uint32_t nlinks;
    double capacity_Bps;  /**< of them all, groups respected */
    double carried_bytes; /**< over all of them */
    double least_bytes;   /**< what any schedule carries over them; 0: not known (flow programs) */
    double busy;          /**< carried / (capacity time), 0..1 */
    double path_s; /**< of the critical path, while what is on it passes bytes over one of them, or
                        of a cut just as tight by symmetry (AllReduce: also by reversal), whatever
                        holds it up: the links, other flows, its thread block */
    double *interval_busy;         /**< [intervals] the same in each part of the run */
    ccl_path_cause_t *interval_on; /**< [intervals] what the critical path mostly did meanwhile */
    /* Of the thread blocks that send over these links, shares of the run, which add up to 1. */
    uint32_t blocks;
    double before, working, waits_data, waits_peer, waits_slot, after;
} ccl_cut_use_t;

typedef struct ccl_explanation {
    ccl_sim_result_t *result; /**< with path and link_bytes */
    ccl_path_sum_t sum;
    ccl_bound_t bound;
    ccl_nccl_baseline_t nccl; /**< what stock software takes for the same collective and size */
    ccl_cut_use_t cut;        /**< nlinks 0: the bound has no such links */
    uint32_t intervals;
    ccl_counterfactual_t *tried; /**< [ntried] the shortest time first, those without one last */
    uint32_t ntried;
    uint32_t nuntried; /**< changes that an interruption left out */
    ccl_slow_part_t
        *slow; /**< [nslow] the shortest time first, all together last; no_what_if: none */
    uint32_t nslow;
    uint32_t untried; /**< changes left out because a program of more than 200,000 primitives would
                           be lowered again for each */
    ccl_arena_t arena;
} ccl_explanation_t;
/**
 * Explain a run: its critical path, its distance from the bound, and what would help.
 *
 * Changes are looked for where the critical path spends its time, and each is run: hardware and
 * settings with the same program on the edited cluster, options with what they make of schedule and
 * program. So every figure is that of a separate run.
 *
 * @param out  destroy with ccl_explanation_destroy().
 * @retval CCL_INTERRUPTED  where changes were tried already, *out has these, and all else; destroy
 * it.
 * @retval CCL_DEADLOCK     the program cannot finish.
 * @retval CCL_UNSUPPORTED  the run is too long to keep its path (ccl_sim_program).
 * @par Determinism  the same for any number of threads.
 */
ccl_status_t ccl_explain(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                         const ccl_explain_options_t *options, ccl_explanation_t **out,
                         ccl_error_t *err);
/** Frees it and all it owns; NULL is fine. */
void ccl_explanation_destroy(ccl_explanation_t *explanation);

CCL_END_DECLS
#endif
