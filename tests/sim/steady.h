/* One program with and without skipping of whole periods and folding of blocks that are alike. */
#ifndef CCL_TESTS_SIM_STEADY_H
#define CCL_TESTS_SIM_STEADY_H

#include <check.h>
#include <math.h>

#include "tests/sim/random_cases.h"

typedef struct totals {
    uint32_t cases, skipped;
    uint64_t events, full_events;
} totals_t;

static inline ccl_sim_result_t *simulate(const setting_t *run, bool in_full, const char *what) {
    ccl_sim_options_t options = options_of(run);
    ccl_sim_result_t *result = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    options.no_skip = options.no_fold = in_full;
    options.step_times = true;
    ccl_status_t status =
        ccl_sim_program(NULL, run->topo, run->routes, run->program, &options, &result, &err);
    if (status == CCL_DEADLOCK) {
        ccl_sim_result_destroy(result);
        return NULL;
    }
    ck_assert_msg(status == CCL_OK, "%s: %s", what, err.text);
    return result;
}

static inline void check_use(const ccl_tb_use_t *a, const ccl_tb_use_t *b, const ccl_tb_t *tb,
                             double tolerance_s, const char *what) {
    const double got[] = {a->start_s,     a->done_s,      a->busy_s,
                          a->wait_data_s, a->wait_peer_s, a->wait_slot_s};
    const double want[] = {b->start_s,     b->done_s,      b->busy_s,
                           b->wait_data_s, b->wait_peer_s, b->wait_slot_s};
    static const char *const names[] = {"start", "done", "busy", "data", "peer", "slot"};
    for (uint32_t k = 0; k < 6; k++)
        ck_assert_msg(fabs(got[k] - want[k]) <= tolerance_s,
                      "%s: rank %u block %u %s: %.12g us, in full %.12g us", what, tb->rank, tb->id,
                      names[k], got[k] * 1e6, want[k] * 1e6);
}

/** Returns the micro-batches skipped; UINT64_MAX: the program blocks. */
static inline uint64_t check_same(setting_t run, const char *what, totals_t *totals) {
    const ccl_program_t *program = run.program;
    ccl_sim_result_t *full = simulate(&run, true, what);
    ccl_sim_result_t *fast = simulate(&run, false, what);
    ck_assert_msg(!full == !fast, "%s: only one of both blocks", what);
    if (!full)
        return UINT64_MAX;
    double tolerance_s = 1e-9 * full->time_s;
    ck_assert_uint_eq(full->skipped_batches, 0);
    ck_assert_msg(fabs(fast->time_s - full->time_s) <= tolerance_s,
                  "%s: %.15g us with %llu of %u micro-batches skipped, %.15g us in full", what,
                  fast->time_s * 1e6, (unsigned long long)fast->skipped_batches, run.batches,
                  full->time_s * 1e6);
    for (uint32_t t = 0; t < program->ntbs; t++)
        check_use(&fast->tbs[t], &full->tbs[t], &program->tbs[t], tolerance_s, what);
    ck_assert_uint_eq(fast->nstages, full->nstages);
    for (uint32_t t = 0; t < full->nstages; t++) {
        ck_assert_uint_eq(fast->stages[t].tb, full->stages[t].tb);
        ck_assert_uint_eq(fast->stages[t].stage, full->stages[t].stage);
        check_use(&fast->stages[t].use, &full->stages[t].use, &program->tbs[full->stages[t].tb],
                  tolerance_s, what);
    }
    for (uint32_t s = 0; s < program->nsteps; s++) {
        ck_assert_double_le(fabs(fast->step_start_s[s] - full->step_start_s[s]), tolerance_s);
        ck_assert_msg(fabs(fast->step_end_s[s] - full->step_end_s[s]) <= tolerance_s,
                      "%s: step %u ends at %.12g us, in full at %.12g us", what, s,
                      fast->step_end_s[s] * 1e6, full->step_end_s[s] * 1e6);
    }
    for (uint32_t l = 0; l < run.topo->nlinks; l++)
        ck_assert(fast->links[l].bytes == full->links[l].bytes);
    ck_assert_uint_eq(fast->transfers, full->transfers);
    ck_assert_uint_eq(fast->flows, full->flows);
    uint64_t skipped = fast->skipped_batches;
    totals->cases++;
    totals->skipped += skipped > 0;
    totals->events += fast->events;
    totals->full_events += full->events;
    ccl_sim_result_destroy(full);
    ccl_sim_result_destroy(fast);
    return skipped;
}

#endif
