/*
 * Ties of a comparison: cells near a size's winner are run at sizes a millionth below and above as
 * well. What is inside that spread is a tie.
 */
#include "search/compare/cells.h"
#include "search/compare/shared.h"

#include <math.h>
#include <stdlib.h>

#define SPREAD 1e-6

static void find_tie(ccl_comparison_t *out, uint32_t size) {
    const ccl_compare_cell_t *cells = out->cells + (size_t)size * out->ncontenders;
    uint32_t best = out->winner[size];
    for (uint32_t i = 0; best != CCL_NONE && i < out->ncontenders; i++) {
        if (i != best && cells[i].status == CCL_OK && cells[i].low_s <= cells[best].high_s)
            out->tie[size] = true;
    }
}

/* Cells near a size's winner: it, or those that may be as good. */
static void choose_again(ccl_i_compare_t *c, bool winners) {
    uint32_t nc = c->options->ncontenders;
    c->nagain = 0;
    for (uint32_t s = 0; s < c->options->nsizes; s++) {
        const ccl_compare_cell_t *cells = c->out->cells + (size_t)s * nc;
        uint32_t best = c->out->winner[s];
        bool rivals = false;
        for (uint32_t i = 0; best != CCL_NONE && i < nc; i++) {
            if (i == best || cells[i].status != CCL_OK ||
                cells[i].time_s > cells[best].time_s * (1 + CCL_I_COMPARE_NEAR))
                continue;
            rivals = true;
            if (!winners && cells[i].time_s > cells[best].high_s)
                c->again[c->nagain++] = s * nc + i;
        }
        if (winners && rivals)
            c->again[c->nagain++] = s * nc + best;
    }
}

ccl_status_t ccl_i_compare_unsure(ccl_i_compare_t *c, ccl_status_t status) {
    if (status == CCL_INTERRUPTED) {
        atomic_store(&c->interrupted, true);
        return CCL_OK;
    }
    if (status != CCL_ERR_NOMEM)
        return status;
    atomic_fetch_add(&c->unsure, 1);
    return CCL_OK;
}

/* The cells of `again` at sizes a millionth below and above, each by itself. */
typedef struct sides {
    ccl_i_compare_t *c;
    double (*time_s)[2]; /* [nagain]; 0: there is none */
} sides_t;

static ccl_status_t run_side(ccl_i_compare_t *c, const ccl_i_cell_run_t *how, ccl_routes_t *routes,
                             double *time_s, ccl_error_t *err) {
    ccl_ctx_t ctx = ccl_i_worker_ctx(c->ctx);
    ccl_sim_result_t *run = NULL;
    ccl_status_t status =
        ccl_sim_program(&ctx, how->topo, routes, how->program, &how->sim, &run, err);
    if (status == CCL_OK)
        *time_s = run->time_s;
    ccl_sim_result_destroy(run);
    /* deadlock: one slice more than FIFOs hold: there is no such time */
    return status == CCL_DEADLOCK ? CCL_OK : status;
}

/* Both sides of a cell whose program has to be made, or one of the others. */
static ccl_status_t run_again(uint32_t index, uint32_t worker, void *user, ccl_error_t *err) {
    const sides_t *sides = user;
    ccl_i_compare_t *c = sides->c;
    uint32_t k = index / 2, nc = c->options->ncontenders, size = c->again[k] / nc,
             contender = c->again[k] % nc;
    const ccl_i_ready_t *ready = &c->ready[contender];
    bool made = ready->program || ready->nccl;
    double size_bytes = c->options->sizes_bytes[size];
    ccl_i_cell_run_t how = {0};
    ccl_routes_t *routes = NULL;
    if ((!made && index % 2) || !ccl_i_compare_begin(c, size, contender, worker))
        return CCL_OK;
    ccl_status_t status = ccl_i_compare_routes(c, worker, &routes, err);
    if (status == CCL_OK)
        status = ccl_i_compare_open(c, size, contender, routes, &how, err);
    how.sim.batches = c->out->cells[c->again[k]].batches; /* as at the size itself: their number may
                                                             jump there */
    for (uint32_t side = 0; side < 2 && status == CCL_OK; side++) {
        if (made && side != index % 2)
            continue;
        how.sim.size_bytes = size_bytes * (1 + (side ? SPREAD : -SPREAD));
        status = run_side(c, &how, routes, &sides->time_s[k][side], err);
    }
    ccl_sim_result_destroy(how.run);
    ccl_program_destroy(how.own);
    return ccl_i_compare_unsure(c, status);
}

/* The spreads of the cells of `again`. */
static ccl_status_t run_sides(ccl_i_compare_t *c, uint32_t threads, ccl_error_t *err) {
    sides_t sides = {c, calloc(c->nagain + (size_t)1, sizeof *sides.time_s)};
    if (!sides.time_s)
        return ccl_fail_nomem(err);
    ccl_status_t status = ccl_parallel_for(2 * c->nagain, threads, run_again, &sides, err);
    for (uint32_t k = 0; k < 2 * c->nagain; k++) {
        ccl_compare_cell_t *cell = &c->out->cells[c->again[k / 2]];
        double time_s = sides.time_s[k / 2][k % 2];
        if (time_s == 0)
            continue;
        cell->low_s = fmin(cell->low_s, time_s);
        cell->high_s = fmax(cell->high_s, time_s);
    }
    free(sides.time_s);
    return status;
}

ccl_status_t ccl_i_compare_ties(ccl_i_compare_t *c, uint32_t threads, ccl_error_t *err) {
    if (c->out->rank.kind != CCL_RANK_NONE || c->options->hope > 0)
        return CCL_OK; /* their times are not what decides; some have none */
    for (int winners = 1; winners >= 0; winners--) {
        choose_again(c, winners);
        CCL_TRY(ccl_parallel_for(c->options->ncontenders, threads, ccl_i_compare_prepare, c, err));
        CCL_TRY(run_sides(c, threads, err));
    }
    for (uint32_t s = 0; s < c->options->nsizes; s++)
        find_tie(c->out, s);
    return CCL_OK;
}
