/*
 * Who runs when, and where a race is over: what takes long comes late, and does not run at sizes
 * whose best time is proven to be near the least that is possible, or where it is far behind.
 */
#include "search/compare/cells.h"
#include "search/compare/shared.h"

#include <math.h>
#include <string.h>

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

void ccl_i_compare_hope(ccl_i_compare_t *c) {
    const ccl_comparison_t *out = c->out;
    for (uint32_t s = 0; s < out->nsizes; s++) {
        uint32_t best = fastest(out, s);
        const size_t row = (size_t)s * out->ncontenders;
        for (uint32_t k = 0; k < c->ngroup && best != CCL_NONE; k++)
            c->hope_s[row + c->group[k]] = c->options->hope * out->cells[row + best].time_s;
    }
}

/* Does it end in how->give_up_s, a block per connection in the order of steps? What does not fit so
   may in a way of its own. */
static ccl_status_t is_near(const ccl_ctx_t *ctx, ccl_routes_t *routes,
                            const ccl_schedule_t *schedule, const ccl_lower_options_t *lower,
                            const ccl_sim_options_t *how, bool *out, ccl_error_t *err) {
    const ccl_way_t plain = {CCL_ORDER_STEP, CCL_ALLOCATE_CONNECTION, how->granularity};
    ccl_make_options_t make = ccl_i_make_options(plain, lower, how);
    ccl_program_t *program = NULL;
    ccl_sim_result_t *run = NULL;
    ccl_error_t why = CCL_ERROR_INIT;
    make.no_prove = true;
    ccl_status_t status =
        ccl_make_program(ctx, lower->topo, routes, schedule, &make, &program, &why);
    if (status == CCL_OK)
        status = ccl_sim_program(ctx, lower->topo, routes, program, how, &run, &why);
    *out = status == CCL_UNSUPPORTED || status == CCL_DEADLOCK ||
           (status == CCL_OK && run->time_s < INFINITY);
    ccl_sim_result_destroy(run);
    ccl_program_destroy(program);
    if (*out || status == CCL_OK)
        return CCL_OK;
    if (err)
        *err = why;
    return status;
}

ccl_status_t ccl_i_compare_may_win(ccl_i_compare_t *c, uint32_t size, uint32_t contender,
                                   const ccl_schedule_t *schedule, ccl_routes_t *routes,
                                   ccl_error_t *err) {
    const size_t at = (size_t)size * c->out->ncontenders + contender;
    ccl_ctx_t ctx = ccl_i_worker_ctx(c->ctx);
    ccl_lower_options_t lower = c->options->lower;
    ccl_sim_options_t sim = c->options->sim;
    bool near = !(c->hope_s[at] > 0);
    bool groups = schedule->ngroups > 0; /* then there is no other way, and no other protocol */
    bool lines = !groups && c->options->sizes_bytes[size] <= CCL_LINES_BYTES;
    ctx.runs = c->ready[contender].runs;
    lower.topo = c->topo;
    sim.granularity = CCL_GRANULARITY_ALGORITHM;
    sim.size_bytes = c->options->sizes_bytes[size];
    sim.give_up_s = groups ? c->hope_s[at] / c->options->hope : c->hope_s[at];
    sim.trace = NULL;
    sim.estimate = true;
    for (uint32_t k = 0; k < CCL_PROTOCOLS && !near; k++) {
        ccl_protocol_t protocol = ccl_protocol_turn(k);
        lower.proto = ccl_protocol_name(protocol);
        if (strcmp(lower.proto, c->options->lower.proto) == 0 ||
            (ccl_i_compare_protocol(c, protocol) && lines))
            CCL_TRY(is_near(&ctx, routes, schedule, &lower, &sim, &near, err));
    }
    if (near)
        return CCL_OK;
    c->out->cells[at].hopeless = true;
    return ccl_fail(err, CCL_UNSUPPORTED, "not run: it takes more than %.3g times another's time",
                    c->options->hope);
}

/* What takes long: those for each size and, where some may have no hope, lowering in HPDS order. */
static bool is_late(const ccl_i_compare_t *c, uint32_t i) {
    return ccl_i_compare_by_size(c, i) ||
           (c->options->hope > 0 && ccl_i_compare_way(c, i).order == CCL_ORDER_HPDS);
}

bool ccl_i_compare_next(ccl_i_compare_t *c, uint32_t *from) {
    uint32_t nc = c->options->ncontenders;
    bool first = *from == CCL_NONE;
    bool leads = c->options->hope > 0 && *from == 0; /* the first of those that are late */
    bool single = !first && (c->options->gap > 0 || leads);
    c->ngroup = 0;
    for (uint32_t i = first ? 0 : *from; i < nc && !(single && c->ngroup); i++) {
        *from = i + 1;
        if (is_late(c, i) != first)
            c->group[c->ngroup++] = i;
    }
    if (first)
        *from = 0;
    return first || c->ngroup > 0;
}
