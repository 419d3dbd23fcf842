/* Private to schedule/formats: traffic of experts in the making. */
#ifndef CCL_SCHEDULE_MOE_I_H
#define CCL_SCHEDULE_MOE_I_H

#include "schedule/formats/moe.h"

/* GPUs of a server in one set: bits of a word. Larger servers are taken in parts. */
enum { CCL_I_MOE_SET = 64, CCL_I_MOE_TOP = 64 };

typedef struct ccl_i_moe_way {
    uint32_t part; /* of a server */
    uint64_t set;  /* of its GPUs */
} ccl_i_moe_way_t;

typedef struct ccl_i_moe {
    const ccl_topology_t *topo;
    const ccl_moe_options_t *o;
    uint32_t n, nparts, nreplicas, nservers;
    uint32_t *part, *bit, *server; /* [n] of a GPU */
    uint32_t *part_gpus;           /* [nparts][CCL_I_MOE_SET] */
    double *weight, *below;        /* [experts] popularity, and its sum up to here */
    uint32_t *circle, *place;      /* [experts] circles one after the other, and places there */
    uint32_t *first, *gpu;         /* [experts + 1] into gpu: where the expert's copies are */
    ccl_i_moe_way_t *ways;         /* of the tokens of a GPU */
    uint64_t *tokens;              /* [n] for experts of a GPU */
    double *border;                /* [nservers] bytes in */
} ccl_i_moe_t;

/** Tokens of a GPU are drawn one after the other from here. */
void ccl_i_moe_begin(const ccl_i_moe_t *m, uint32_t src, ccl_rng_t *rng);
/** Different experts of the next token. */
void ccl_i_moe_draw(const ccl_i_moe_t *m, ccl_rng_t *rng, uint32_t *out);
/** Which copy a token takes: one in the sender's server, else copies in turn. */
static inline uint32_t ccl_i_moe_copy(const ccl_i_moe_t *m, const uint32_t *gpu, uint32_t expert,
                                      uint32_t src, uint32_t token) {
    uint32_t first = m->first[expert], n = m->first[expert + 1] - first;
    for (uint32_t k = 0; k < n; k++)
        if (m->server[gpu[first + k]] == m->server[src])
            return gpu[first + k];
    return gpu[first + (src + token) % n];
}

/** m->first: how many copies each expert has. */
ccl_status_t ccl_i_moe_copies(ccl_i_moe_t *m, ccl_error_t *err);
/** @param gpu  [nreplicas] filled; not for CCL_MOE_OPTIMISED. */
ccl_status_t ccl_i_moe_place(const ccl_i_moe_t *m, ccl_moe_placement_t placement, uint32_t *gpu,
                             ccl_error_t *err);
/** m->gpu by search, and what the report has of it. */
ccl_status_t ccl_i_moe_optimise(ccl_i_moe_t *m, ccl_moe_report_t *report, ccl_error_t *err);

#endif
