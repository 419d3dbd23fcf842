/* What blocks and links of a run were used for: ResCCL (SIGCOMM 2025), section 5.4, tables 1 and 3.
 */
#include "sim/sim.h"

#include <math.h>

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
