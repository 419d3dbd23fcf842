/*
 * What stock NCCL (RCCL on AMD) runs, as a contender: at every size a program, a cluster as its
 * kernels use it and options of the run, all made before the first cell is run.
 */
#include "search/compare/cells.h"
#include "validate/nccl/nccl.h"

#include <math.h>
#include <stdlib.h>

/** Of one comparison. */
struct ccl_i_nccl {
    ccl_predictor_t *predictor;
    ccl_nccl_kernel_t kernels[]; /* [nsizes] */
};

void ccl_i_nccl_destroy(ccl_i_nccl_t *n) {
    if (!n)
        return;
    ccl_predictor_destroy(n->predictor);
    free(n);
}

uint32_t ccl_i_nccl_steps(const ccl_i_nccl_t *n, uint32_t nsizes) {
    uint32_t most = 0;
    for (uint32_t s = 0; n && s < nsizes; s++)
        most = n->kernels[s].program.nsteps > most ? n->kernels[s].program.nsteps : most;
    return most;
}

ccl_status_t ccl_i_nccl_prepare(ccl_i_compare_t *c, const ccl_ctx_t *ctx, ccl_i_nccl_t **out,
                                ccl_error_t *err) {
    const ccl_compare_options_t *o = c->options;
    ccl_i_nccl_t *n = calloc(1, sizeof *n + o->nsizes * sizeof n->kernels[0]);
    if (!n)
        return ccl_fail_nomem(err);
    ccl_status_t status = ccl_nccl_open(ctx, o->machine, c->topo, c->want, &n->predictor, err);
    if (status == CCL_OK)
        ccl_predictor_nvls(n->predictor, true, o->registered);
    for (uint32_t s = 0; status == CCL_OK && s < o->nsizes; s++)
        status = ccl_predictor_kernel(n->predictor, c->want->kind, c->want->root, o->sizes_bytes[s],
                                      NULL, &n->kernels[s], err);
    if (status == CCL_OK) {
        const ccl_nccl_setup_t *setup = ccl_predictor_setup(n->predictor);
        c->out->nccl_note = ccl_nccl_note(setup, c->want->kind);
        ccl_predictor_rest(n->predictor); /* all programs are made */
        *out = n;
        return CCL_OK;
    }
    ccl_i_nccl_destroy(n);
    return status;
}

void ccl_i_nccl_run(const ccl_i_nccl_t *n, uint32_t size, double size_bytes,
                    ccl_i_cell_run_t *out) {
    const ccl_nccl_kernel_t *kernel = &n->kernels[size];
    out->topo = kernel->topo;
    out->program = &kernel->program;
    out->sim = ccl_nccl_kernel_sim(kernel, size_bytes);
}

ccl_status_t ccl_i_nccl_tell(ccl_i_compare_t *c, ccl_error_t *err) {
    uint32_t k = c->out->nccl;
    const ccl_i_nccl_t *n = k == CCL_NONE ? NULL : c->ready[k].nccl;
    for (uint32_t s = 0; n && s < c->out->nsizes; s++) {
        char text[64];
        ccl_nccl_choice_text(&n->kernels[s].choice, text, sizeof text);
        const char *kept = ccl_arena_strdup(&c->out->arena, text);
        if (!kept)
            return ccl_fail_nomem(err);
        ccl_compare_cell_t *cell = &c->out->cells[(size_t)s * c->out->ncontenders + k];
        cell->choice = kept;
        cell->step_bytes = n->kernels[s].step_bytes;
        cell->buffer_bytes = n->kernels[s].buffer_bytes;
    }
    return CCL_OK;
}

double ccl_comparison_speedup(const ccl_comparison_t *c, uint32_t size, uint32_t contender) {
    if (c->nccl == CCL_NONE || contender == CCL_NONE)
        return NAN;
    const ccl_compare_cell_t *cells = c->cells + (size_t)size * c->ncontenders;
    if (cells[c->nccl].status != CCL_OK || cells[contender].status != CCL_OK)
        return NAN;
    return cells[c->nccl].time_s / cells[contender].time_s;
}
