/*
 * Private to synth: what a synthesizer is asked for, and where, for those that hand it on.
 */
#ifndef CCL_SYNTH_ASKED_H
#define CCL_SYNTH_ASKED_H

#include "synth/synth.h"

typedef struct ccl_i_asked {
    const ccl_ctx_t *ctx;
    const ccl_topology_t *topo;
    ccl_routes_t *routes;
    const ccl_collective_t *want;
    const ccl_synth_options_t *options;
} ccl_i_asked_t;

#endif
