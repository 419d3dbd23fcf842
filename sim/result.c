/**
 * @file result.c
 * What a run gave.
 */
#include "sim/internal.h"

#include <stdlib.h>
#include <string.h>

ccl_sim_result_t *ccl_i_result_create(uint32_t nlinks, uint32_t ntbs, uint32_t nflows) {
    ccl_sim_result_t *r = calloc(1, sizeof(*r));
    if (!r)
        return NULL;
    ccl_arena_init(&r->arena);
    r->nlinks = nlinks;
    r->ntbs = ntbs;
    r->links = ccl_arena_alloc(&r->arena, nlinks + 1u, sizeof(*r->links));
    if (ntbs)
        r->tbs = ccl_arena_alloc(&r->arena, ntbs, sizeof(*r->tbs));
    if (nflows)
        r->flow_done_s = ccl_arena_alloc(&r->arena, nflows, sizeof(*r->flow_done_s));
    if (!r->links || (ntbs && !r->tbs) || (nflows && !r->flow_done_s)) {
        ccl_sim_result_destroy(r);
        return NULL;
    }
    return r;
}

/* An array of a result in the arena of another; none stays none. */
static bool copy_array(ccl_sim_result_t *to, void *out, const void *from, size_t n, size_t size) {
    void *copy = from ? ccl_arena_alloc(&to->arena, n + 1, size) : NULL;
    if (copy)
        memcpy(copy, from, n * size);
    memcpy(out, &copy, sizeof(copy));
    return copy || !from;
}

ccl_sim_result_t *ccl_i_result_copy(const ccl_sim_result_t *r, uint32_t nsteps) {
    ccl_sim_result_t *copy = calloc(1, sizeof(*copy));
    if (!copy)
        return NULL;
    *copy = *r;
    ccl_arena_init(&copy->arena);
    copy->stages = NULL;
    if (copy_array(copy, &copy->links, r->links, r->nlinks, sizeof(*r->links)) &&
        copy_array(copy, &copy->tbs, r->tbs, r->ntbs, sizeof(*r->tbs)) &&
        copy_array(copy, &copy->step_start_s, r->step_start_s, nsteps, sizeof(double)) &&
        copy_array(copy, &copy->step_end_s, r->step_end_s, nsteps, sizeof(double)))
        return copy;
    ccl_sim_result_destroy(copy);
    return NULL;
}

void ccl_i_result_links(ccl_sim_result_t *r, const ccl_topology_t *topo) {
    for (uint32_t i = 0; i < r->nlinks; i++) {
        double most = topo->links[i].bandwidth_Bps * r->time_s;
        r->links[i].utilization = most > 0 ? r->links[i].bytes / most : 0;
    }
}

void ccl_sim_result_destroy(ccl_sim_result_t *r) {
    if (!r)
        return;
    ccl_arena_fini(&r->arena);
    free(r);
}
