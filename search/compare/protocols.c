/*
 * Which protocol a contender runs at a size: NCCL's LL, LL128 and Simple differ in latency and
 * rate, and libraries choose among them by size. What was lowered runs under each, and stops as
 * soon as it is slower than the best; where lowering looks at a run's time, the winner is lowered
 * again for its protocol.
 */
#include "search/compare/cells.h"
#include "search/compare/shared.h"

#include <stdlib.h>
#include <string.h>

/* The same program, under another protocol. Borrows everything; never destroyed. */
static ccl_program_t under(const ccl_program_t *program, ccl_protocol_t protocol) {
    ccl_program_t view = *program;
    view.proto = ccl_protocol_name(protocol);
    return view;
}

bool ccl_i_compare_protocol(const ccl_i_compare_t *c, ccl_protocol_t protocol) {
    const ccl_compare_options_t *o = c->options;
    return o->protocols && strcmp(ccl_protocol_name(protocol), o->lower.proto) != 0 &&
           ccl_model_has_protocol(c->topo, ccl_protocol_name(protocol));
}

void ccl_i_compare_views(ccl_i_ready_t *r) {
    for (uint32_t p = 0; p < CCL_PROTOCOLS; p++)
        r->as[p] = under(r->program, (ccl_protocol_t)p);
}

/* Proven, and run under this protocol before. */
static bool is_same(const ccl_program_t *program, const ccl_program_t *before) {
    const ccl_program_t view = under(before, ccl_protocol_find(program->proto));
    return ccl_program_equal(program, &view);
}

/* What the cell's schedule becomes when it is lowered for its protocol, if it is faster so. */
static ccl_status_t lower_again(ccl_i_compare_t *c, uint32_t size, uint32_t contender,
                                ccl_routes_t *routes, const ccl_i_cell_run_t *how,
                                ccl_compare_cell_t *cell, ccl_error_t *err) {
    size_t at = (size_t)size * c->options->ncontenders + contender;
    const ccl_i_ready_t *r = &c->ready[contender];
    ccl_program_t *program = NULL;
    ccl_sim_result_t *run = NULL;
    ccl_error_t why = CCL_ERROR_INIT;
    const ccl_i_cell_lower_t as = {
        .proto = cell->proto, .run_out = &run, .prove_later = true, .keep_schedule = true};
    if (r->program)
        return CCL_OK; /* the same for all */
    ccl_status_t status = ccl_i_compare_lower(c, size, contender, routes, as, &program, &why);
    bool same = status == CCL_OK && is_same(program, how->program);
    if (status == CCL_OK && !same)
        status = ccl_i_compare_prove(c, contender, program, &why);
    if (status == CCL_OK && !same) {
        ccl_compare_cell_t now = *cell;
        ccl_i_cell_run_t anew = *how;
        anew.program = program;
        anew.run = run; /* where lowering made it */
        run = NULL;
        anew.sim.give_up_s = cell->time_s;
        status = ccl_i_compare_run(c, size, contender, &anew, routes, &now, &why);
        ccl_sim_result_destroy(anew.run);
        if (status == CCL_OK && now.time_s < cell->time_s) {
            now.proto = cell->proto;
            now.for_protocol = true;
            now.usage.thread_blocks = ccl_i_most_blocks(program, r->way.granularity);
            *cell = now;
            c->for_protocol[at] = true;
        }
    }
    if (c->for_protocol[at] && r->kept[size]) {
        ccl_program_destroy(r->kept[size]);
        r->kept[size] = program;
        program = NULL;
    }
    ccl_sim_result_destroy(run);
    ccl_program_destroy(program);
    if (!ccl_i_stops_all(status))
        return CCL_OK; /* it has a time without */
    if (err)
        *err = why;
    return status;
}

ccl_status_t ccl_i_compare_choose(ccl_i_compare_t *c, uint32_t size, uint32_t contender,
                                  ccl_routes_t *routes, const ccl_i_cell_run_t *how,
                                  ccl_compare_cell_t *cell, ccl_error_t *err) {
    ccl_protocol_t first = ccl_protocol_find(how->program->proto), best = first;
    if (c->options->contenders[contender].program || how->program->ngroups > 0)
        return CCL_OK; /* a program has its own; what goes through switches is Simple */
    for (uint32_t k = 0; k < CCL_PROTOCOLS; k++) {
        ccl_protocol_t p = ccl_protocol_turn(k);
        ccl_compare_cell_t now = *cell;
        ccl_error_t why = CCL_ERROR_INIT;
        if (!ccl_i_compare_protocol(c, p))
            continue;
        const ccl_program_t view = under(how->program, p);
        ccl_i_cell_run_t other = *how;
        other.program = &view;
        other.run = NULL;
        other.sim.give_up_s = cell->time_s;
        ccl_status_t status = ccl_i_compare_run(c, size, contender, &other, routes, &now, &why);
        if (ccl_i_stops_all(status)) {
            if (err)
                *err = why;
            return status;
        }
        if (status != CCL_OK || !(now.time_s < cell->time_s))
            continue;
        now.proto = view.proto;
        *cell = now;
        best = p;
    }
    return best == first ? CCL_OK : lower_again(c, size, contender, routes, how, cell, err);
}
