/* Private to search: the changes that ccl_explain() tries. */
#ifndef CCL_SEARCH_CHANGES_H
#define CCL_SEARCH_CHANGES_H

#include "search/compare/shared.h"
#include "search/explain/explain.h"

/** What to do differently; its time and why not come into `out`. */
typedef struct ccl_i_change {
    ccl_counterfactual_t out; /* texts live in the explanation's arena */
    uint32_t index;           /* in the order they were thought of */
    bool lower;               /* lowered again: by `way`, proto, no_fuse */
    bool resynthesize;        /* from a schedule with other channels or chunks, or by `with` */
    const char *with;         /* NULL: who made it */
    ccl_way_t way;            /* and the level of the run */
    const char *proto;        /* NULL: as it is */
    bool no_fuse;
    uint32_t batches, channels, chunks; /* 0: as it is */
} ccl_i_change_t;

/** Changes that the critical path suggests. @param out  malloc'ed, also on failure. */
ccl_status_t ccl_i_changes(const ccl_topology_t *topo, const ccl_explain_options_t *options,
                           ccl_explanation_t *e, ccl_i_change_t **out, uint32_t *n_out,
                           ccl_error_t *err);

/** slow.c: e->slow, without times. */
ccl_status_t ccl_i_slow_parts(const ccl_topology_t *topo, ccl_explanation_t *e, ccl_error_t *err);
/** Puts them in order once they have times, and says which decides. */
void ccl_i_slow_decide(ccl_explanation_t *e);

#endif
