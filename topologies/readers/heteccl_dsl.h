/**
 * @file heteccl_dsl.h
 * What a HeteCCL description says, between its text and the graph; private.
 */
#ifndef CCL_TOPOLOGIES_HETECCL_DSL_H
#define CCL_TOPOLOGIES_HETECCL_DSL_H

#include "topologies/topologies.h"

#define CCL_I_HETECCL_MAX_NODES 4096u
#define CCL_I_HETECCL_MAX_GPUS 8192u /**< of the whole cluster */
#define CCL_I_HETECCL_MAX_LINKS 4096u
#define CCL_I_HETECCL_MAX_NUMBERS ((size_t)1 << 20) /**< GPU numbers in all tuples */

/** "(0,1,2)": GPUs by their number in a node. */
typedef struct ccl_i_dsl_tuple {
    uint32_t first, n; /**< in numbers */
} ccl_i_dsl_tuple_t;

/** One "... -> (bandwidth, numlinks)". */
typedef struct ccl_i_dsl_entry {
    uint32_t node;      /**< of a bandwidth; CCL_NONE: of an interbandwidth */
    uint32_t statement; /**< of an interbandwidth: which internode it belongs to */
    bool direct;
    uint32_t first_tuple, ntuples;
    double GBps; /**< of one link */
    uint32_t links;
    int line, column;
} ccl_i_dsl_entry_t;

/** "(node1, node2)". */
typedef struct ccl_i_dsl_internode {
    uint32_t first, n; /**< node indices in numbers */
} ccl_i_dsl_internode_t;

typedef struct ccl_i_dsl {
    const char *file;
    uint32_t nnodes;
    uint32_t *gpus;    /**< [nnodes]; 0: not yet defined */
    uint32_t *numbers; /**< pool */
    ccl_i_dsl_tuple_t *tuples;
    ccl_i_dsl_entry_t *entries;
    ccl_i_dsl_internode_t *internodes;
    size_t gpus_cap, nnumbers, numbers_cap, ntuples, tuples_cap, nentries, entries_cap, ninternodes,
        internodes_cap;
    double nvlink_latency_s, pcie_latency_s, net_latency_s;
} ccl_i_dsl_t;

ccl_status_t ccl_i_dsl_parse(const ccl_ctx_t *ctx, const char *file, const char *text, size_t len,
                             ccl_i_dsl_t *out, ccl_error_t *err);
ccl_status_t ccl_i_dsl_build(const ccl_i_dsl_t *dsl, ccl_topology_t **out, ccl_error_t *err);
void ccl_i_dsl_fini(ccl_i_dsl_t *dsl);

#endif
