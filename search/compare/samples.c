/* A comparison over samples of a scenario: each cell's times, ranks, and how sure the winner is. */
#include "search/compare/cells.h"

#include <math.h>
#include <stdlib.h>

static double *samples_of(const ccl_comparison_t *out, uint32_t size, uint32_t contender) {
    return &out->samples_s[((size_t)size * out->ncontenders + contender) * out->nsamples];
}

ccl_status_t ccl_i_compare_sample(ccl_i_compare_t *c, uint32_t size, uint32_t contender,
                                  ccl_routes_t *routes, ccl_error_t *err) {
    ccl_i_cell_run_t how;
    if (!c->options->draws)
        return CCL_OK;
    /* Again: it may run with another protocol than it was opened with. */
    CCL_TRY(ccl_i_compare_open(c, size, contender, routes, &how, err));
    how.sim.batches = c->out->cells[(size_t)size * c->options->ncontenders + contender].batches;
    ccl_drawn_run_t run = {how.topo, routes, how.program, &how.sim};
    ccl_status_t status = ccl_draws_time(c->ctx, c->options->draws, &run, 0, c->options->samples,
                                         samples_of(c->out, size, contender), err);
    ccl_program_destroy(how.own);
    return status;
}

/* The fastest of each sample; NaN where nobody was run. */
static void find_best(const ccl_comparison_t *out, uint32_t size, double *best_s) {
    for (uint32_t k = 0; k < out->nsamples; k++) {
        best_s[k] = NAN;
        for (uint32_t i = 0; i < out->ncontenders; i++)
            best_s[k] = fmin(best_s[k], samples_of(out, size, i)[k]); /* of NaN and a number: it */
    }
}

static ccl_status_t rank_cell(const ccl_comparison_t *out, uint32_t size, uint32_t contender,
                              const double *best_s, ccl_error_t *err) {
    size_t cell = (size_t)size * out->ncontenders + contender;
    const double *times_s = samples_of(out, size, contender);
    ccl_compare_spread_t *spread = &out->spreads[cell];
    uint32_t n = out->nsamples, fastest = 0;
    spread->rank = out->cells[cell].time_s;
    if (out->cells[cell].status != CCL_OK)
        return CCL_OK;
    CCL_TRY(ccl_spread(times_s, n, &spread->spread, err));
    CCL_TRY(ccl_rank_value((ccl_rank_t){CCL_RANK_REGRET, 0}, times_s, best_s, n, &spread->regret_s,
                           err));
    for (uint32_t k = 0; k < n; k++)
        fastest += times_s[k] < INFINITY && times_s[k] <= best_s[k];
    spread->fastest = (double)fastest / n;
    return out->rank.kind == CCL_RANK_NONE
               ? CCL_OK
               : ccl_rank_value(out->rank, times_s, best_s, n, &spread->rank, err);
}

ccl_status_t ccl_i_compare_rank(ccl_i_compare_t *c, ccl_error_t *err) {
    const ccl_comparison_t *out = c->out;
    if (!out->samples_s)
        return CCL_OK;
    double *best_s = malloc((out->nsamples + (size_t)1) * sizeof *best_s);
    ccl_status_t status = best_s ? CCL_OK : ccl_fail_nomem(err);
    for (uint32_t s = 0; status == CCL_OK && s < out->nsizes; s++) {
        find_best(out, s, best_s);
        for (uint32_t i = 0; status == CCL_OK && i < out->ncontenders; i++)
            status = rank_cell(out, s, i, best_s, err);
    }
    free(best_s);
    return status;
}

void ccl_i_compare_pair(ccl_i_compare_t *c) {
    ccl_comparison_t *out = c->out;
    for (uint32_t s = 0; out->samples_s && s < out->nsizes; s++) {
        uint32_t w = out->winner[s];
        for (uint32_t i = 0; w != CCL_NONE && i < out->ncontenders; i++) {
            ccl_compare_spread_t *spread = &out->spreads[(size_t)s * out->ncontenders + i];
            if (out->cells[(size_t)s * out->ncontenders + i].status != CCL_OK)
                continue;
            ccl_paired(samples_of(out, s, i), samples_of(out, s, w), out->nsamples,
                       &spread->behind);
        }
    }
}
