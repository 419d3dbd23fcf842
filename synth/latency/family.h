/*
 * Private to synth/latency: the forms that race, and what they are varied to.
 */
#ifndef CCL_SYNTH_LATENCY_FAMILY_H
#define CCL_SYNTH_LATENCY_FAMILY_H

#include "synth/latency/meet.h"

enum { MOST_GRIDS = 8, MOST_FORMS = 64, LEADERS = 5, MOST_TRIED = 256 };

typedef struct ccl_i_family {
    const ccl_i_cluster_t *cluster;
    const ccl_collective_t *want;
    const ccl_synth_options_t *options;
    double size_bytes, work; /* work: left */
    uint32_t sms;            /* of the GPU with the fewest */
    unsigned protocols;      /* bits */
    ccl_protocol_t proto;    /* that the fastest of the first round takes */
    ccl_i_grid_t grids[MOST_GRIDS];
    uint32_t ngrids;
    ccl_i_form_t forms[MOST_FORMS];
    double times[MOST_FORMS][CCL_PROTOCOLS];
    double time_s[MOST_FORMS];      /* the least of them */
    uint32_t turn[MOST_FORMS];      /* the form that races at each place */
    uint32_t n, from;               /* from: the first place that races now */
    double limit_s;                 /* what takes longer is of no use; 0: nobody knows yet */
    ccl_i_form_t tried[MOST_TRIED]; /* of all rounds */
    uint32_t ntried;
    ccl_i_meet_plans_t *plans; /* NULL: not asked for */
    ccl_arena_t arena;
} ccl_i_family_t;

/** Transfers of all candidates, times protocols: about two tenths of a second on 16 GPUs. */
#define CCL_I_FAMILY_WORK 1200000.0

/** Bytes of a share. */
double ccl_i_family_share_bytes(const ccl_i_family_t *f, const ccl_i_form_t *form);
/** One form, unless it was tried before or takes too long. */
void ccl_i_family_add(ccl_i_family_t *f, ccl_i_form_t form);
/** Those of the first round: along shortest ways, and on all grids. */
ccl_status_t ccl_i_family_start(ccl_i_family_t *f, ccl_routes_t *routes, ccl_error_t *err);
/** A form's neighbours: with other channels and parts, others' shares apart or not.
    @param first  of forms behind the best the likeliest alone. */
void ccl_i_family_neighbours(ccl_i_family_t *f, const ccl_i_form_t *best, bool first);

#endif
