/*
 * Chunking (HeteCCL, NSDI 2026, section 4.1, equation 1): tau_uv = alpha + S_c beta (+ S_c gamma)
 * of every hop, a reference step tau_ref, and how many chunks fit hops, links and groups in it.
 *
 * The paper rounds tau_ref / tau_uv up, so that a link of 12.5 GB/s beside one of 8 GB/s takes two
 * chunks where 1.56 fit. Here what fits is rounded down, and a step may be stretched to a multiple
 * of the slowest hop's tau, which makes the loss smaller.
 */
#include "synth/cegis/chunking.h"

#include <math.h>
#include <string.h>

/* A quotient that is whole but for rounding is whole. */
#define WHOLE (1 + 1e-9)
#define MOST 1e6

uint32_t ccl_i_chunking_fit(double tau_ref_s, double alpha_s, double Bps, uint32_t lanes,
                            double chunk_bytes, double gamma_s, bool ceiling) {
    double lane_s = chunk_bytes * lanes / Bps, fixed_s = alpha_s + chunk_bytes * gamma_s;
    double n = ceiling ? ccl_model_ceil(tau_ref_s / (fixed_s + lane_s))
                       : floor((tau_ref_s - fixed_s) / lane_s * WHOLE);
    n = isnan(n) || n < 1 ? 1 : n;
    n = fmin(n, MOST) * lanes;
    return (uint32_t)fmin(n, MOST);
}

static double gamma_of(const ccl_i_exchange_t *x, const ccl_i_hop_t *hop, bool reduce) {
    return reduce ? 1 / ccl_model_gpu(x->topo, hop->src).reduce_rate_Bps : 0; /* reversed */
}

ccl_status_t ccl_i_chunking_init(ccl_i_chunking_t *out, const ccl_i_exchange_t *x,
                                 double chunk_bytes, ccl_i_chunking_step_t step, bool reduce,
                                 ccl_error_t *err) {
    memset(out, 0, sizeof *out);
    ccl_arena_init(&out->arena);
    out->hop_tau_s = ccl_arena_alloc(&out->arena, x->nhops + (size_t)1, sizeof(double));
    out->hop_chunks = ccl_arena_alloc(&out->arena, x->nhops + (size_t)1, sizeof(uint32_t));
    out->resource_tau_s = ccl_arena_alloc(&out->arena, x->nresources + (size_t)1, sizeof(double));
    out->resource_chunks =
        ccl_arena_alloc(&out->arena, x->nresources + (size_t)1, sizeof(uint32_t));
    out->hop_fixed_s = ccl_arena_alloc(&out->arena, x->nhops + (size_t)1, sizeof(double));
    out->resource_fixed_s = ccl_arena_alloc(&out->arena, x->nresources + (size_t)1, sizeof(double));
    /* Of the hops that use a resource: greatest fixed part, most uses by one. */
    double *fixed_s = out->resource_fixed_s;
    uint32_t *times = ccl_arena_alloc(&out->arena, x->nresources + (size_t)1, sizeof(uint32_t));
    if (!out->hop_tau_s || !out->hop_chunks || !out->resource_tau_s || !out->resource_chunks ||
        !out->hop_fixed_s || !fixed_s || !times)
        return ccl_fail_nomem(err);
    out->chunk_bytes = chunk_bytes;
    out->ceiling = step.ceiling;
    out->reduce = reduce;
    for (uint32_t h = 0; h < x->nhops; h++) {
        const ccl_i_hop_t *hop = &x->hops[h];
        double hop_fixed_s = hop->alpha_s + chunk_bytes * gamma_of(x, hop, reduce);
        out->hop_fixed_s[h] = hop_fixed_s;
        out->hop_tau_s[h] = hop_fixed_s + chunk_bytes / hop->link_Bps;
        double lane_s = hop_fixed_s + chunk_bytes * hop->lanes / hop->link_Bps;
        /* A lane is the unit in which chunks go, so the slowest lane sets the step. */
        out->slowest_s = fmax(out->slowest_s, hop->lanes > 1 ? lane_s : out->hop_tau_s[h]);
        for (uint32_t u = hop->first_use; u < hop->first_use + hop->nuses; u++) {
            uint32_t r = x->uses[u].resource;
            fixed_s[r] = fmax(fixed_s[r], hop_fixed_s);
            times[r] = x->uses[u].times > times[r] ? x->uses[u].times : times[r];
        }
    }
    out->stretch = step.tau_ref_s > 0 ? 0 : step.stretch;
    out->tau_ref_s = step.tau_ref_s > 0 ? step.tau_ref_s : step.stretch * out->slowest_s;
    for (uint32_t h = 0; h < x->nhops; h++) {
        const ccl_i_hop_t *hop = &x->hops[h];
        out->hop_chunks[h] =
            ccl_i_chunking_fit(out->tau_ref_s, hop->alpha_s, hop->link_Bps, hop->lanes, chunk_bytes,
                               gamma_of(x, hop, reduce), step.ceiling);
    }
    for (uint32_t r = 0; r < x->nresources; r++) {
        const ccl_i_resource_t *res = &x->resources[r];
        uint32_t lanes = res->link != CCL_NONE ? x->topo->links[res->link].lanes : 1;
        uint32_t fit = ccl_i_chunking_fit(out->tau_ref_s, fixed_s[r], res->Bps, lanes, chunk_bytes,
                                          0, step.ceiling);
        out->resource_tau_s[r] = fixed_s[r] + chunk_bytes / res->Bps;
        out->resource_chunks[r] = fit > times[r] ? fit : times[r];
    }
    return CCL_OK;
}

void ccl_i_chunking_fini(ccl_i_chunking_t *chunking) {
    ccl_arena_fini(&chunking->arena);
}
