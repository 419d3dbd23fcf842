/* A deadlock as a fault of a verdict: who waits for whom, and the FIFO depth with which it would
 * finish. */
#include "schedule/verify/verify.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void tell_deadlock(const ccl_program_t *p, const ccl_deadlock_t *found, uint32_t slots,
                          uint32_t least, bool given, ccl_verdict_t *verdict) {
    char text[440] = "", more[80] = "";
    size_t len = 0;
    uint32_t shown = found->nwaits < 4 ? found->nwaits : 4;
    for (uint32_t i = 0; i < shown; i++) {
        const ccl_deadlock_wait_t *w = &found->waits[i];
        const ccl_tb_t *tb = &p->tbs[p->rank_first_tb[w->rank] + w->tb];
        uint32_t line = ccl_program_mark(p, tb, tb->first_step + w->step).line;
        char on[64] = "nobody", at[32] = "";
        if (w->on_rank != CCL_NONE)
            snprintf(on, sizeof on, "rank %u block %u", w->on_rank, w->on_tb);
        if (line)
            snprintf(at, sizeof at, " (line %u)", line);
        int n = snprintf(text + len, sizeof text - len,
                         "%srank %u block %u step %u%s waits for a %s of %s", i ? ", " : "",
                         w->rank, w->tb, w->step, at,
                         w->wait == CCL_WAIT_DATA ? "message" : ccl_wait_name(w->wait), on);
        if (n < 0 || (size_t)n >= sizeof text - len)
            break;
        len += (size_t)n;
    }
    char depth[48] = "with any FIFO depth";
    if (least) {
        snprintf(depth, sizeof depth, "with FIFO depth %u", slots);
        snprintf(more, sizeof more, "; with FIFO depth %u it finishes (%u is %s%.16s)", least,
                 slots, given ? "given" : "the default of ", given ? "" : p->proto);
    }
    const ccl_deadlock_wait_t *w = &found->waits[0];
    ccl_i_fault(verdict, "deadlock", w->rank, w->tb, w->step, CCL_NONE,
                "deadlock %s: %s%s; %u blocks are stuck%s", depth, text,
                found->nwaits > shown ? ", ..." : "", found->stuck, more);
    verdict->fault.slots = slots;
    verdict->fault.least_slots = least;
}

ccl_status_t ccl_i_check_deadlock(const ccl_ctx_t *ctx, const ccl_program_t *program,
                                  const ccl_verify_options_t *options, ccl_verdict_t *verdict,
                                  ccl_error_t *err) {
    ccl_blocking_t blocking = {.granularity = ccl_program_level(program, options->granularity),
                               .batches = options->batches ? options->batches : 4};
    blocking.slots = options->skip_deadlock ? UINT32_MAX
                     : options->slots       ? options->slots
                                            : ccl_i_default_slots(program->proto);
    ccl_deadlock_t found;
    CCL_TRY(ccl_program_deadlock(ctx, program, &blocking, &found, err));
    if (!found.nwaits)
        return CCL_OK;
    uint32_t least = 0;
    if (blocking.slots < UINT32_MAX)
        CCL_TRY(ccl_program_least_slots(ctx, program, &blocking, NULL, &least, err));
    tell_deadlock(program, &found, blocking.slots, least, options->slots != 0, verdict);
    return CCL_OK;
}
