/**
 * @file result.c
 * What a run gave, and what its blocks and links were used for: ResCCL (SIGCOMM 2025), section 5.4,
 * tables 1 and 3.
 */
#include "sim/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

ccl_sim_result_t *ccl_i_result_create(uint32_t nlinks, uint32_t ntbs, uint32_t nflows) {
    ccl_sim_result_t *r = calloc(1, sizeof(*r));
    if (!r)
        return NULL;
    ccl_arena_init(&r->arena);
    r->nlinks = nlinks;
    r->ntbs = ntbs;
    r->links = ccl_arena_alloc(&r->arena, nlinks + 1u, sizeof(*r->links));
    if (ntbs)
        r->tbs = ccl_arena_alloc(&r->arena, ntbs, sizeof(*r->tbs));
    if (nflows)
        r->flow_done_s = ccl_arena_alloc(&r->arena, nflows, sizeof(*r->flow_done_s));
    if (!r->links || (ntbs && !r->tbs) || (nflows && !r->flow_done_s)) {
        ccl_sim_result_destroy(r);
        return NULL;
    }
    return r;
}

/* An array of a result in the arena of another; none stays none. */
static bool copy_array(ccl_sim_result_t *to, void *out, const void *from, size_t n, size_t size) {
    void *copy = from ? ccl_arena_alloc(&to->arena, n + 1, size) : NULL;
    if (copy)
        memcpy(copy, from, n * size);
    memcpy(out, &copy, sizeof(copy));
    return copy || !from;
}

ccl_sim_result_t *ccl_i_result_copy(const ccl_sim_result_t *r, uint32_t nsteps) {
    ccl_sim_result_t *copy = calloc(1, sizeof(*copy));
    if (!copy)
        return NULL;
    *copy = *r;
    ccl_arena_init(&copy->arena);
    copy->stages = NULL;
    if (copy_array(copy, &copy->links, r->links, r->nlinks, sizeof(*r->links)) &&
        copy_array(copy, &copy->tbs, r->tbs, r->ntbs, sizeof(*r->tbs)) &&
        copy_array(copy, &copy->step_start_s, r->step_start_s, nsteps, sizeof(double)) &&
        copy_array(copy, &copy->step_end_s, r->step_end_s, nsteps, sizeof(double)))
        return copy;
    ccl_sim_result_destroy(copy);
    return NULL;
}

void ccl_i_result_links(ccl_sim_result_t *r, const ccl_topology_t *topo) {
    for (uint32_t i = 0; i < r->nlinks; i++) {
        double most = topo->links[i].bandwidth_Bps * r->time_s;
        r->links[i].utilization = most > 0 ? r->links[i].bytes / most : 0;
    }
}

void ccl_sim_result_destroy(ccl_sim_result_t *r) {
    if (!r)
        return;
    ccl_arena_fini(&r->arena);
    free(r);
}

/* ---------------------------------------------------------------- use */

typedef struct shares {
    uint32_t blocks; /* that lived */
    double busy, idle, most_idle;
} shares_t;

static void add_block(shares_t *shares, const ccl_tb_use_t *use) {
    double life_s = use->done_s - use->start_s;

    if (!(life_s > 0))
        return;
    shares->blocks++;
    shares->busy += use->busy_s / life_s;
    shares->idle += ccl_sim_idle_share(use);
    shares->most_idle = fmax(shares->most_idle, ccl_sim_idle_share(use));
}

double ccl_sim_idle_share(const ccl_tb_use_t *use) {
    double life_s = use->done_s - use->start_s;

    return life_s > 0 ? (use->wait_data_s + use->wait_peer_s + use->wait_slot_s) / life_s : 0;
}

void ccl_sim_usage(const ccl_program_t *program, const ccl_sim_result_t *result,
                   ccl_sim_usage_t *out) {
    shares_t shares = {0, 0, 0, 0};
    uint32_t used = 0;
    double utilization = 0;

    if (result->stages) {
        for (uint32_t i = 0; i < result->nstages; i++)
            add_block(&shares, &result->stages[i].use);
    } else {
        for (uint32_t i = 0; result->tbs && i < result->ntbs; i++)
            add_block(&shares, &result->tbs[i]);
    }
    for (uint32_t l = 0; result->links && l < result->nlinks; l++) {
        if (!(result->links[l].bytes > 0))
            continue;
        used++;
        utilization += result->links[l].utilization;
    }
    out->thread_blocks = 0;
    for (uint32_t r = 0; r < program->nranks; r++) {
        uint32_t n = ccl_program_rank_blocks(
            program, r, result->stages ? CCL_GRANULARITY_STAGE : CCL_GRANULARITY_ALGORITHM);

        out->thread_blocks = n > out->thread_blocks ? n : out->thread_blocks;
    }
    out->comm_share = shares.blocks ? shares.busy / shares.blocks : 0;
    out->mean_idle_share = shares.blocks ? shares.idle / shares.blocks : 0;
    out->max_idle_share = shares.most_idle;
    out->link_utilization = used ? utilization / used : 0;
}
