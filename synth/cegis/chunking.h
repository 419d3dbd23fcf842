/*
 * Private to synth: chunking (HeteCCL, NSDI 2026, section 4.1). Links of different speed become
 * numbers of equal chunks that they carry in one step of length tau_ref.
 */
#ifndef CCL_SYNTH_CHUNKING_H
#define CCL_SYNTH_CHUNKING_H

#include "synth/common/exchange.h"

/** What of an exchange graph one step carries. */
typedef struct ccl_i_chunking {
    double chunk_bytes;
    bool ceiling, reduce;
    double slowest_s;     /* tau of the slowest hop */
    double tau_ref_s;     /* length of a step: stretch times slowest_s, or as given */
    double stretch;       /* 0: tau_ref_s was given */
    double *hop_fixed_s;  /* [nhops] alpha, and what reducing takes */
    double *hop_tau_s;    /* [nhops] alpha + S_c beta (+ S_c gamma) of one chunk alone */
    uint32_t *hop_chunks; /* [nhops] C(u,v), eq. 1 */
    double *resource_fixed_s;
    double
        *resource_tau_s; /* [nresources] the same of a link or group; alpha: its hops' greatest */
    uint32_t *resource_chunks; /* [nresources] C_g */
    ccl_arena_t arena;
} ccl_i_chunking_t;

/**
 * Chunks that fit: floor((tau_ref - alpha) lane_Bps / chunk_bytes) lanes, at least 1; or the
 * paper's ceil(tau_ref / tau_uv) lanes, which may promise more than the link carries.
 */
uint32_t ccl_i_chunking_fit(double tau_ref_s, double alpha_s, double Bps, uint32_t lanes,
                            double chunk_bytes, double gamma_s, bool ceiling);
/** How long a step is, and how many chunks fit. */
typedef struct ccl_i_chunking_step {
    double tau_ref_s; /* 0: `stretch` times the slowest hop's tau */
    double stretch;
    bool ceiling; /* the paper's rounding */
} ccl_i_chunking_step_t;
/**
 * @param reduce  receivers add, and hops are those of the reversed tree: tau grows by chunk_bytes
 *                times gamma.
 */
ccl_status_t ccl_i_chunking_init(ccl_i_chunking_t *out, const ccl_i_exchange_t *x,
                                 double chunk_bytes, ccl_i_chunking_step_t step, bool reduce,
                                 ccl_error_t *err);
/** Hops, links and groups that are alike, for people. */
ccl_status_t ccl_i_chunking_explain(const ccl_i_chunking_t *chunking, const ccl_i_exchange_t *x,
                                    ccl_chunk_capacities_t **out, ccl_error_t *err);
void ccl_i_chunking_fini(ccl_i_chunking_t *chunking);

#endif
