/* The program verifier: what the buffers hold at the end. */
#include "schedule/verify/exec_i.h"

#include <stdio.h>

void ccl_i_exec_result(ccl_i_exec_t *x) {
    for (uint32_t k = 0; k < x->coll->nchunks && x->verdict->valid; k++) {
        const ccl_chunk_t *chunk = &x->coll->chunks[k];
        uint32_t whole = CCL_NONE; /* a sum that was found to be complete */
        for (uint32_t i = 0; i < chunk->ndests && chunk->share > 0; i++) {
            uint32_t r = chunk->dests[i], elem = ccl_collective_output(x->coll, r, k);
            uint32_t at = ccl_i_exec_place(x, r, CCL_BUF_OUTPUT, elem), nlack = 0; /* was checked */
            ccl_i_value_t got = x->elems[at].value;
            bool known = got.chunk == k && got.sum == whole;
            uint32_t lack = got.chunk == k && !known
                                ? ccl_i_sums_lacks(&x->sums, got.sum, chunk, &nlack)
                                : CCL_NONE;
            if (got.chunk == k && lack == CCL_NONE) {
                whole = got.sum;
                continue;
            }
            uint32_t w = x->elems[at].writer;
            uint32_t t = w == CCL_NONE ? CCL_NONE : x->links->nodes[w].tb;
            char where[128], what[200], more[48] = "";
            if (w == CCL_NONE)
                snprintf(where, sizeof where, "rank %u", r);
            else
                snprintf(where, sizeof where, "%s", ccl_i_exec_text(x, w).text);
            if (got.chunk == k && nlack > 1)
                snprintf(more, sizeof more, " and %u more", nlack - 1);
            if (got.chunk == k)
                snprintf(what, sizeof what, "chunk %u lacks the contribution of rank %u%s", k, lack,
                         more);
            else if (got.chunk == CCL_NONE)
                snprintf(what, sizeof what, "chunk %u is missing: nothing was written", k);
            else
                snprintf(what, sizeof what, "chunk %u is missing: chunk %u is there", k, got.chunk);
            ccl_i_fault(x->verdict, "missing", r, t == CCL_NONE ? CCL_NONE : x->program->tbs[t].id,
                        w == CCL_NONE ? CCL_NONE : ccl_i_exec_index(x, w), k,
                        "%s%s: at the end %s (output element %u of rank %u)", x->prefix, where,
                        what, elem, r);
            return;
        }
    }
}

void ccl_i_exec_orders(ccl_i_exec_t *x) {
    uint32_t n = 0, first = 0, a = 0, b = 0;
    for (uint32_t k = 0; k < x->coll->nchunks; k++) {
        const ccl_chunk_t *chunk = &x->coll->chunks[k];
        if (!chunk->reduced || chunk->share <= 0)
            continue;
        for (uint32_t i = 1; i < chunk->ndests; i++) {
            uint32_t sums[2];
            for (uint32_t j = 0; j < 2; j++) {
                uint32_t r = chunk->dests[j ? i : 0];
                sums[j] = x->elems[ccl_i_exec_place(x, r, CCL_BUF_OUTPUT,
                                                    ccl_collective_output(x->coll, r, k))]
                              .value.sum;
            }
            if (sums[0] == sums[1])
                continue;
            if (!n++) {
                first = k;
                a = chunk->dests[0];
                b = chunk->dests[i];
            }
            break;
        }
    }
    if (n)
        ccl_i_warn(x->verdict,
                   "ranks %u and %u add up chunk %u in different orders (%u chunks so): their "
                   "results may differ in the last bits",
                   a, b, first, n);
}
