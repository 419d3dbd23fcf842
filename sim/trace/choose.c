/* Which GPUs of a large run a trace has in full, so that viewers still open it. */
#include "sim/trace/trace.h"

#include <stdlib.h>

/* Text of a pass with its wait and arrows, and of a slice on the network, measured on traces. */
enum { PASS_BYTES = 470, SLICE_BYTES = 160, COUNTERS_BYTES = 6000000 };

static ccl_status_t cost(const ccl_i_trace_writer_t *w, uint64_t **out, ccl_error_t *err) {
    uint64_t *bytes = calloc(w->nranks + (size_t)1, sizeof(*bytes));

    if (!bytes)
        return ccl_fail_nomem(err);
    for (size_t i = 0; i < w->n; i++) {
        uint32_t rank = w->rows[i].rank;

        if (rank < w->nranks)
            bytes[rank] += w->rows[i].name ? PASS_BYTES : SLICE_BYTES;
    }
    *out = bytes;
    return CCL_OK;
}

/** Beside whom a GPU stands: 0 of the first server, then the first of every other one, the rest. */
static uint32_t turn(const ccl_topology_t *topo, uint32_t rank) {
    uint32_t server, first;

    if (!topo)
        return rank < 8 ? 0 : 2;
    server = topo->devices[topo->rank_device[rank]].server;
    first = topo->devices[topo->rank_device[0]].server;
    if (server == CCL_NONE)
        return rank < 8 ? 0 : 2;
    if (server == first)
        return 0;
    return topo->devices[topo->rank_device[rank - 1]].server != server ? 1 : 2;
}

ccl_status_t ccl_i_trace_choose(ccl_i_trace_writer_t *w, ccl_error_t *err) {
    const ccl_trace_about_t *about = w->about;
    uint64_t *bytes = NULL, all = 0, used = 0, most = about->most_bytes;

    w->shown = ccl_arena_alloc(&w->arena, w->nranks + (size_t)1, sizeof(*w->shown));
    if (!w->shown)
        return ccl_fail_nomem(err);
    CCL_TRY(cost(w, &bytes, err));
    for (uint32_t r = 0; r < w->nranks; r++)
        all += bytes[r];
    most = most > 2 * COUNTERS_BYTES ? most - COUNTERS_BYTES : most / 2;
    for (uint32_t t = 0; t < 3; t++) {
        for (uint32_t r = 0; r < w->nranks; r++) {
            bool fits =
                about->most_bytes == 0 || all <= most || w->nshown == 0 || used + bytes[r] <= most;

            if (turn(about->topo, r) != t || !fits)
                continue;
            w->shown[r] = true;
            w->nshown++;
            used += bytes[r];
        }
    }
    free(bytes);
    return CCL_OK;
}
