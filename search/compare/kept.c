/*
 * What a comparison made, given back, or kept: runs of winners and of the library stay with the
 * result where the caller goes on with them.
 */
#include "search/compare/cells.h"

#include <stdlib.h>

void ccl_i_compare_forget(ccl_i_ready_t *r, uint32_t nsizes) {
    ccl_i_nccl_destroy(r->nccl);
    ccl_program_destroy(r->own);
    ccl_schedule_destroy(r->made);
    for (uint32_t k = 0; r->kept && k < nsizes; k++)
        ccl_program_destroy(r->kept[k]);
    for (uint32_t k = 0; r->at && k < nsizes; k++)
        ccl_schedule_destroy(r->at[k]);
    free(r->kept);
    free(r->at);
    ccl_runs_destroy(r->runs);
    r->runs = NULL;
    r->nccl = NULL;
    r->own = NULL;
    r->made = NULL;
    r->kept = NULL;
    r->at = NULL;
    r->program = NULL;
    r->schedule = NULL;
}

void ccl_i_compare_forget_all(ccl_i_ready_t *ready, uint32_t ncontenders, uint32_t nsizes) {
    for (uint32_t i = 0; ready && i < ncontenders; i++) {
        ccl_i_compare_forget(&ready[i], nsizes);
        free(ready[i].settings);
        for (uint32_t k = 0; k < ready[i].nwarnings; k++)
            free(ready[i].warnings[k]);
    }
    free(ready);
}

/* May ties or results need its program? Others only become faster. */
static bool is_needed(const ccl_i_compare_t *c, uint32_t contender) {
    const ccl_comparison_t *out = c->out;
    for (uint32_t s = 0; s < out->nsizes; s++) {
        const ccl_compare_cell_t *cells = out->cells + (size_t)s * out->ncontenders;
        const ccl_compare_cell_t *mine = &cells[contender];
        if (mine->status == CCL_ERR_NOMEM || mine->status == CCL_INTERRUPTED)
            return true;
        bool beaten = mine->status != CCL_OK;
        for (uint32_t i = 0; i < out->ncontenders && !beaten; i++)
            beaten = atomic_load(&c->ready[i].finished) && cells[i].status == CCL_OK &&
                     mine->time_s > cells[i].time_s * (1 + CCL_I_COMPARE_NEAR);
        if (!beaten)
            return true;
    }
    return false;
}

void ccl_i_compare_release(ccl_i_compare_t *c, uint32_t contender) {
    if (contender != CCL_NONE)
        atomic_store(&c->ready[contender].finished, true);
    if (c->topo->nranks < CCL_I_COMPARE_LARGE || c->out->rank.kind != CCL_RANK_NONE)
        return;
    ccl_lock_take(c->lock);
    for (uint32_t i = 0; i < c->out->ncontenders; i++) {
        ccl_i_ready_t *r = &c->ready[i];
        if (!atomic_load(&r->finished) || c->options->contenders[i].library || !r->own ||
            is_needed(c, i))
            continue;
        ccl_i_compare_forget(r, c->out->nsizes);
        c->out->released++;
    }
    ccl_lock_release(c->lock);
}

/** Of one comparison. */
struct ccl_i_kept {
    ccl_i_ready_t *ready;
    uint32_t ncontenders, nsizes, nown;
    ccl_program_t **own; /* [nown] what was not kept in `ready` */
};

void ccl_i_compare_kept_destroy(ccl_i_kept_t *kept) {
    if (!kept)
        return;
    for (uint32_t i = 0; kept->own && i < kept->nown; i++)
        ccl_program_destroy(kept->own[i]);
    free(kept->own);
    ccl_i_compare_forget_all(kept->ready, kept->ncontenders, kept->nsizes);
    free(kept);
}

/* Does anybody go on with what this contender made? */
static bool is_kept(const ccl_comparison_t *out, uint32_t contender) {
    bool kept = contender == out->nccl;
    for (uint32_t s = 0; s < out->nsizes && !kept; s++)
        kept = out->winner[s] == contender;
    return kept;
}

static ccl_status_t keep_run(ccl_i_compare_t *c, uint32_t size, uint32_t contender,
                             ccl_compare_run_t *out, ccl_error_t *err) {
    ccl_routes_t *routes = NULL;
    ccl_i_cell_run_t how = {0};
    if (contender == CCL_NONE)
        return CCL_OK;
    const ccl_compare_cell_t *cell =
        &c->out->cells[(size_t)size * c->options->ncontenders + contender];
    if (cell->status != CCL_OK)
        return CCL_OK;
    CCL_TRY(ccl_i_compare_routes(c, 0, &routes, err));
    ccl_status_t status = ccl_i_compare_open(c, size, contender, routes, &how, err);
    ccl_sim_result_destroy(how.run);
    if (status == CCL_INTERRUPTED) {
        ccl_error_clear(err);
        return CCL_OK;
    }
    CCL_TRY(status);
    if (how.own)
        c->out->kept->own[c->out->kept->nown++] = how.own;
    how.sim.batches = cell->batches;
    *out = (ccl_compare_run_t){how.topo, how.program, how.sim};
    return CCL_OK;
}

ccl_status_t ccl_i_compare_keep(ccl_i_compare_t *c, ccl_error_t *err) {
    uint32_t ns = c->options->nsizes;
    ccl_comparison_t *out = c->out;
    out->winner_runs = ccl_arena_alloc(&out->arena, ns, sizeof *out->winner_runs);
    out->nccl_runs = ccl_arena_alloc(&out->arena, ns, sizeof *out->nccl_runs);
    out->kept = calloc(1, sizeof *out->kept);
    if (!out->winner_runs || !out->nccl_runs || !out->kept)
        return ccl_fail_nomem(err);
    out->kept->own = calloc(2 * (size_t)ns, sizeof(ccl_program_t *));
    if (!out->kept->own)
        return ccl_fail_nomem(err);
    for (uint32_t s = 0; s < ns; s++) {
        CCL_TRY(keep_run(c, s, out->winner[s], &out->winner_runs[s], err));
        CCL_TRY(keep_run(c, s, out->nccl, &out->nccl_runs[s], err));
    }
    for (uint32_t i = 0; i < c->options->ncontenders; i++)
        if (!is_kept(out, i))
            ccl_i_compare_forget(&c->ready[i], ns);
    out->kept->ready = c->ready;
    out->kept->ncontenders = c->options->ncontenders;
    out->kept->nsizes = ns;
    c->ready = NULL;
    return CCL_OK;
}
