/*
 * Who runs when, and where a race is over: what takes long comes late, and does not run at sizes
 * whose best time is proven to be near the least that is possible.
 */
#include "search/compare/cells.h"

static bool is_proven(const ccl_comparison_t *c, uint32_t size, uint32_t contender) {
    if (contender == CCL_NONE || !c->bound_s || !(c->bound_s[size] > 0))
        return false;
    const ccl_compare_cell_t *cell = &c->cells[(size_t)size * c->ncontenders + contender];
    return cell->status == CCL_OK && cell->time_s <= (1 + c->gap) * c->bound_s[size];
}

bool ccl_comparison_proven(const ccl_comparison_t *c, uint32_t size) {
    return is_proven(c, size, c->winner[size]);
}

/* Those that take longest, as they are made for each size, come last: what an interrupted
   comparison has finished is of use then. */
bool ccl_i_compare_by_size(const ccl_i_compare_t *c, uint32_t i) {
    const ccl_contender_t *contender = &c->options->contenders[i];
    const ccl_synth_ops_t *ops = ccl_synth_find(contender->name);
    return !contender->program && !contender->schedule && !contender->library && ops &&
           ops->by_size;
}

/* The fastest of those that ran at a size so far; CCL_NONE: nobody. */
static uint32_t fastest(const ccl_comparison_t *out, uint32_t size) {
    const ccl_compare_cell_t *cells = out->cells + (size_t)size * out->ncontenders;
    uint32_t best = CCL_NONE;
    for (uint32_t i = 0; i < out->ncontenders; i++)
        if (cells[i].status == CCL_OK && cells[i].time_s > 0 &&
            (best == CCL_NONE || cells[i].time_s < cells[best].time_s))
            best = i;
    return best;
}

ccl_status_t ccl_i_compare_end_races(ccl_i_compare_t *c, ccl_error_t *err) {
    ccl_comparison_t *out = c->out;
    for (uint32_t s = 0; s < out->nsizes; s++) {
        uint32_t best = fastest(out, s);
        if (!is_proven(out, s, best))
            continue;
        double time_s = out->cells[(size_t)s * out->ncontenders + best].time_s;
        for (uint32_t k = 0; k < c->ngroup; k++) {
            size_t at = (size_t)s * out->ncontenders + c->group[k];
            ccl_text_t why = {0};
            if (c->known[at])
                continue;
            ccl_text_printf(&why, "not run: %s is within %.3g %% of the bound", out->names[best],
                            100 * (time_s / out->bound_s[s] - 1));
            if (why.nomem)
                return ccl_fail_nomem(err);
            c->cell_why[at] = why.data;
            out->cells[at].status = CCL_UNSUPPORTED;
            out->cells[at].ended = c->known[at] = true;
        }
    }
    return CCL_OK;
}

bool ccl_i_compare_next(ccl_i_compare_t *c, uint32_t *from) {
    uint32_t nc = c->options->ncontenders;
    bool first = *from == CCL_NONE, single = c->options->gap > 0 && !first;
    c->ngroup = 0;
    for (uint32_t i = first ? 0 : *from; i < nc && !(single && c->ngroup); i++) {
        *from = i + 1;
        if (ccl_i_compare_by_size(c, i) != first)
            c->group[c->ngroup++] = i;
    }
    if (first)
        *from = 0;
    return first || c->ngroup > 0;
}
