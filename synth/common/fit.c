/* Plans whose thread blocks every GPU has room for: with fewer channels, where it must be. */
#include "synth/common/plan.h"

#include <math.h>
#include <stdlib.h>

/** Connections of one rank on one channel. */
typedef struct ends {
    uint32_t in, out, from, to; /* how many; the last peer each way */
} ends_t;

/* A block per end of a connection; one for both where a rank receives from one and sends to
 * another. */
static uint32_t blocks_of(const ends_t *e) {
    return e->in == 1 && e->out == 1 && e->from != e->to ? 1 : e->in + e->out;
}

/* The least share of its thread blocks that a GPU has room for, at most 1. */
static ccl_status_t room_for(const ccl_topology_t *topo, const ccl_schedule_t *s, double *out,
                             ccl_error_t *err) {
    size_t n = topo->nranks, channels = 1;
    for (uint32_t t = 0; t < s->ntransfers; t++)
        channels = s->transfers[t].channel >= channels ? s->transfers[t].channel + 1u : channels;
    uint8_t *seen = calloc(n * n * channels / 8 + 1, 1);
    ends_t *ends = calloc(n * channels, sizeof *ends);
    if (!seen || !ends) {
        free(seen);
        free(ends);
        return ccl_fail_nomem(err);
    }
    for (uint32_t t = 0; t < s->ntransfers; t++) {
        const ccl_transfer_t *x = &s->transfers[t];
        size_t bit = ((size_t)x->channel * n + x->src) * n + x->dst;
        if (seen[bit / 8] >> (bit % 8) & 1)
            continue;
        seen[bit / 8] |= (uint8_t)(1u << (bit % 8));
        ends_t *src = &ends[x->src * channels + x->channel];
        ends_t *dst = &ends[x->dst * channels + x->channel];
        src->out++;
        src->to = x->dst;
        dst->in++;
        dst->from = x->src;
    }
    *out = 1;
    for (uint32_t r = 0; r < n; r++) {
        uint32_t sms = ccl_model_gpu(topo, r).sms, blocks = 0;
        for (size_t c = 0; c < channels; c++)
            blocks += blocks_of(&ends[r * channels + c]);
        if (sms && blocks > sms)
            *out = fmin(*out, (double)sms / blocks);
    }
    free(seen);
    free(ends);
    return CCL_OK;
}

ccl_status_t ccl_i_plan_fit(const ccl_ctx_t *ctx, ccl_i_cluster_t *cluster,
                            const ccl_collective_t *want, const ccl_i_plan_t *plan,
                            uint32_t *channels, ccl_schedule_t **out, ccl_error_t *err) {
    ccl_i_plan_t fitting = *plan;
    uint32_t loops = plan->parts / *channels;
    for (;;) {
        ccl_schedule_t *made = NULL;
        double room = 1;
        fitting.parts = *channels * loops;
        CCL_TRY(ccl_i_plan_run(ctx, cluster, want, &fitting, &made, err));
        ccl_status_t status = room_for(cluster->topo, made, &room, err);
        if (status == CCL_OK && (room == 1 || *channels == 1)) {
            *out = made;
            return CCL_OK;
        }
        ccl_schedule_destroy(made);
        CCL_TRY(status);
        *channels = (uint32_t)fmax(1, floor(room * *channels));
        fitting.down_channels = fitting.down_channels ? *channels : 0;
    }
}
