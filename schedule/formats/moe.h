/**
 * @file moe.h
 * Demands of mixture-of-experts layers: dispatch of tokens to experts, combine of what they return.
 */
#ifndef CCL_SCHEDULE_MOE_H
#define CCL_SCHEDULE_MOE_H

#include "schedule/collective.h"

CCL_BEGIN_DECLS

/** Which GPU has which expert. */
typedef enum ccl_moe_placement {
    CCL_MOE_BLOCK,    /**< neighbours together: experts / GPUs of them on each, in order */
    CCL_MOE_SPREAD,   /**< in turn over all GPUs */
    CCL_MOE_BALANCED, /**< the most popular first, each to the GPU that has least to do */
    CCL_MOE_OPTIMISED /**< by search: what is drawn takes least time to cross the borders of GPUs,
                           servers, and servers behind the same switches; experts that tokens choose
                           together come together. Never more than balanced has by that measure */
} ccl_moe_placement_t;

typedef struct ccl_moe_options {
    size_t size;
    uint32_t experts, top_k; /**< experts of the layer; different ones that a token goes to */
    uint32_t hidden, tokens; /**< elements of a token; tokens of each GPU */
    double element_bytes;    /**< of an element on its way: 1 FP8, 2 BF16 */
    /** Of the experts' popularity: "even"; "zipf:T", the r-th has r^-T; "gini:G", 0 <= G < 1; a
       file with a number for each expert, one a line or with commas. NULL: even. */
    const char *skew;
    uint32_t copies; /**< further copies of experts, each of the one whose copies have most to do */
    ccl_moe_placement_t placement;
    bool combine; /**< the way back: what a server's experts return of a token is summed there */
    bool each_expert; /**< as many copies cross the network as GPUs want a token: nothing is shared
                       */
    uint64_t seed;    /**< of the tokens' choice */
    double affinity;  /**< share of a token's further experts that are of the first one's circle, of
                           top_k experts drawn by the seed; 0 to 1 */
    ccl_text_t *write; /**< which GPUs have each expert is added, as JSON (docs/formats.md); NULL:
                            not wanted */
} ccl_moe_options_t;
/** DeepSeek-V3's layer on batches of 4096 tokens. @par Source  arXiv 2412.19437, section 2. */
#define CCL_MOE_OPTIONS_INIT                                                                       \
    {                                                                                              \
        sizeof(ccl_moe_options_t), 256, 8, 7168, 4096, 2, NULL, 0, CCL_MOE_BLOCK, false, false, 1, \
            0, NULL                                                                                \
    }

typedef struct ccl_moe_report {
    double network_bytes;  /**< between servers, each token once to (from) a server */
    double unshared_bytes; /**< between servers if each GPU's copy crossed by itself */
    double local_bytes;    /**< to GPUs of the sender's server, as if each got its own copy */
    double most_tokens;    /**< tokens for the experts of the busiest GPU, over the mean */
    double most_server;    /**< bytes into (out of) the busiest server, over the mean */
    /** Of CCL_MOE_OPTIMISED, else 0: seconds that no schedule can beat, since that long the busiest
        border is crossed. */
    double bound_s, block_bound_s, balanced_bound_s;
    const char *border; /**< whose it is: "a GPU", "a server", ...; static; NULL: of another
                             placement */
} ccl_moe_report_t;

/**
 * Draw each token's experts and make a demand of it: for each GPU, server and set of the server's
 * GPUs a chunk, with all tokens that go from there to exactly these. Dispatch copies it to the set,
 * combine sums what the set returns.
 * @param topo    says which GPUs form a server; GPUs without one stand alone.
 * @param report  NULL: not wanted.
 * @par Determinism  the same for a seed.
 * @par Source  experts' copies: DeepSeek's EPLB; a token once to a server: DeepEP.
 */
ccl_status_t ccl_moe_demand(const ccl_topology_t *topo, const ccl_moe_options_t *options,
                            ccl_collective_t **out, ccl_moe_report_t *report, ccl_error_t *err);
/** A custom collective as a demand file (docs/formats.md). */
ccl_status_t ccl_demand_write(const ccl_collective_t *coll, ccl_text_t *out, ccl_error_t *err);

CCL_END_DECLS
#endif
