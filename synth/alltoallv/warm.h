/* Private to synth/alltoallv: a former schedule as the start of another. */
#ifndef CCL_SYNTH_ALLTOALLV_WARM_H
#define CCL_SYNTH_ALLTOALLV_WARM_H

#include "synth/alltoallv/net.h"

/** Entries of a list by what they belong to: those of i at list[first[i]] .. list[first[i + 1]]. */
typedef struct ccl_i_av_lists {
    uint32_t *first, *list;
} ccl_i_av_lists_t;

typedef struct ccl_i_av_warm {
    const ccl_i_av_net_t *net;
    const ccl_schedule_t *former;
    const ccl_collective_t *want;
    double size_bytes, former_bytes; /* sizes of the two */
    ccl_i_av_lists_t parts;          /* chunks of the former schedule, by block of `want` */
    ccl_i_av_lists_t moves;          /* transfers of the former schedule, by its chunks */
    double *had_bytes;               /* [blocks] in the former schedule */
    uint32_t blocks;                 /* of `want` that move */
} ccl_i_av_warm_t;

/** A plan from the start beside it: its chunks are first[k] .. first[k + 1] - 1 of block k. */
typedef struct ccl_i_av_cold {
    ccl_schedule_t *schedule;
    uint32_t *first;
    ccl_i_av_lists_t moves;
} ccl_i_av_cold_t;

/**
 * @param w  zeroed; ccl_i_av_warm_fini(), also on failure.
 * @retval CCL_ERR_INPUT  the former schedule is wrong, or of another cluster or collective.
 */
ccl_status_t ccl_i_av_warm_init(ccl_i_av_warm_t *w, const ccl_i_av_net_t *net,
                                const ccl_schedule_t *former, const ccl_collective_t *want,
                                double size_bytes, ccl_error_t *err);
void ccl_i_av_warm_fini(ccl_i_av_warm_t *w);
void ccl_i_av_cold_fini(ccl_i_av_cold_t *cold);
/** How far blocks may keep their former ways. */
typedef struct ccl_i_av_mix {
    double within; /**< part by which a link may be busy for longer than with the cold plan */
    bool alike;    /**< only those do whose ways, with channels, are the cold plan's as well */
} ccl_i_av_mix_t;
/**
 * Blocks on their former ways, those on the ways of the cold plan that are new, or without which a
 * link would be busy for longer than `how` allows.
 * @param cold       its moves are filled here.
 */
ccl_status_t ccl_i_av_warm_mix(ccl_i_av_warm_t *w, ccl_i_av_cold_t *cold, const ccl_i_av_mix_t *how,
                               ccl_schedule_t **out, ccl_error_t *err);
/** Chunks with the same ends get one number: of a's chunks, then of b's. @param out  malloc'ed. */
ccl_status_t ccl_i_av_number_blocks(const ccl_collective_t *a, const ccl_collective_t *b,
                                    uint32_t **out, uint32_t *n_out, ccl_error_t *err);
/** Seconds of all links and groups. */
ccl_status_t ccl_i_av_load_schedule(const ccl_i_av_net_t *net, const ccl_schedule_t *s, double size,
                                    double *load_s, ccl_error_t *err);
static inline bool ccl_i_av_moves(const ccl_chunk_t *c) {
    bool stays = c->nsources == 1 && c->ndests == 1 && c->sources[0] == c->dests[0];
    return c->share > 0 && c->ndests > 0 && !stays;
}
/** What changed from the former schedule to another. */
ccl_status_t ccl_i_av_warm_tell(const ccl_i_av_warm_t *w, const ccl_schedule_t *now,
                                ccl_warm_stats_t *out, ccl_error_t *err);

#endif
