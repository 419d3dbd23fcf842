/* Time in epochs, for the MILPs. */
#include "synth/exact/milp.h"

#include <math.h>
#include <string.h>

/* A chunk that takes longer than an epoch by this share at most, for its latency say, does not wait
   for the next one. */
#define LATE 0.05

ccl_status_t ccl_i_milp_discretise(const ccl_i_exchange_t *x, double chunk_bytes, double epoch_s,
                                   uint32_t *delay, uint32_t *window, uint32_t *capacity,
                                   ccl_error_t *err) {
    for (uint32_t r = 0; r < x->nresources; r++) {
        double each = x->resources[r].Bps * epoch_s / chunk_bytes; /* chunks per epoch */
        window[r] = each < 1 - 1e-9 ? (uint32_t)fmin(ceil(1 / each - 1e-9), CCL_I_MILP_EPOCHS) : 1;
        capacity[r] = (uint32_t)fmin(fmax(floor(each * window[r] + 1e-9), 1), 1e6);
    }
    for (uint32_t h = 0; h < x->nhops; h++) {
        const ccl_i_hop_t *hop = &x->hops[h];
        double time = chunk_bytes / hop->link_Bps + hop->alpha_s;
        delay[h] = (uint32_t)fmin(fmax(ceil(time / epoch_s - LATE), 1), CCL_I_MILP_EPOCHS);
        if (time > epoch_s * CCL_I_MILP_EPOCHS)
            return ccl_fail(err, CCL_ERR_USAGE,
                            "an epoch of %g us is too short: a chunk takes up to %g us here",
                            epoch_s * 1e6, time * 1e6);
    }
    return CCL_OK;
}

void ccl_i_milp_distances(const ccl_i_exchange_t *x, const uint32_t *delay, uint32_t *away) {
    uint32_t n = x->nranks;
    memset(away, 0xff, (size_t)n * n * sizeof *away);
    for (uint32_t s = 0; s < n; s++) {
        uint32_t *from = &away[(size_t)s * n];
        bool changed = true;
        from[s] = 0;
        while (changed) {
            changed = false;
            for (uint32_t h = 0; h < x->nhops; h++) {
                const ccl_i_hop_t *hop = &x->hops[h];
                if (from[hop->src] == CCL_NONE || from[hop->src] + delay[h] >= from[hop->dst])
                    continue;
                from[hop->dst] = from[hop->src] + delay[h];
                changed = true;
            }
        }
    }
}
