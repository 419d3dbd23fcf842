/* The program verifier: what ranks have sent, which says when a send is over. */
#include "schedule/verify/exec_i.h"

#include <stdlib.h>

bool ccl_i_exec_count_sends(ccl_i_exec_t *x) {
    uint64_t n = (uint64_t)x->program->nranks * x->coll->nchunks;
    bool sums = false;
    for (uint32_t k = 0; k < x->coll->nchunks; k++)
        sums = sums || x->coll->chunks[k].nsources > 1;
    if (!sums || x->program->ngroups > 0 || n > x->program->nsteps)
        return true;
    x->nsent = calloc(n + 1, sizeof *x->nsent);
    return x->nsent != NULL;
}

bool ccl_i_exec_comes_back(const ccl_i_exec_t *x, uint32_t send, uint32_t step, uint32_t at,
                           ccl_i_value_t value) {
    uint8_t type = x->program->steps[step].type;
    uint32_t rank = x->program->tbs[x->links->nodes[step].tb].rank;
    return x->nsent && (type == CCL_PRIM_R || type == CCL_PRIM_RCS) && value.chunk != CCL_NONE &&
           x->elems[at].value.chunk == value.chunk &&
           x->nsent[(size_t)rank * x->coll->nchunks + value.chunk] == 1 &&
           ccl_primitive_sends(x->program->steps[send].type) &&
           x->program->tbs[x->links->nodes[send].tb].rank == rank &&
           ccl_i_sums_has(&x->sums, value.sum, rank);
}
