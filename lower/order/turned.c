/*
 * Reductions ordered by their time-reversed schedule. An in-tree of reductions is, backwards in
 * time, an out-tree of copies, whose order HPDS finds well: what waits for nothing starts at once,
 * and what has the longest way still to go comes first. For reductions it is the other way round:
 * nearly all can start at once, and the last ones, at the roots, must not all come together. So the
 * order of the time-reversed transfers is found, and mirrored. Which reduction comes first is then
 * no constraint either (reductions commute), just as it does not matter which copy leaves first.
 *
 * A transfer that no reduction waits for (an AllReduce's second half) keeps its own order, at the
 * end.
 */
#include "lower/order/order.h"

#include <stdlib.h>
#include <string.h>

bool ccl_schedule_reduces(const ccl_schedule_t *schedule) {
    for (uint32_t t = 0; t < schedule->ntransfers; t++) {
        if (schedule->transfers[t].reduce)
            return true;
    }
    return false;
}

/* after_out[unit]: 1 where no reduction is in it or waits for it. @param row  in topological order
 */
static ccl_status_t find_after(const ccl_schedule_t *schedule, const ccl_i_dag_t *d,
                               const uint32_t *row, uint8_t *after_out, uint32_t *nafter_out,
                               ccl_error_t *err) {
    uint8_t *sums =
        calloc(d->ngroups + (size_t)1, 1); /* by group: a reduction is in it or after it */
    if (!sums)
        return ccl_fail_nomem(err);
    *nafter_out = 0;
    for (uint32_t n = d->nunits; n-- > 0;) {
        uint32_t unit = row[n], begin = 2 * d->unit_first[unit], end = 2 * d->unit_first[unit + 1];
        bool sum = false;
        for (uint32_t a = begin; a < end; a++) {
            uint32_t next = d->group_of[a] + 1;
            sum |= schedule->transfers[d->transfer[a / 2]].reduce ||
                   (!d->group_starts[next] && sums[next]);
        }
        for (uint32_t a = begin; sum && a < end; a++)
            sums[d->group_of[a]] = 1;
        after_out[unit] = !sum;
        *nafter_out += !sum;
    }
    free(sums);
    return CCL_OK;
}

static void ignore(uint32_t unit, void *user) {
    (void)unit;
    (void)user;
}

/* Those of `past` are done. */
static void set_past(ccl_i_dag_t *d, const uint8_t *past, uint32_t npast) {
    for (uint32_t u = 0; u < d->nunits && npast; u++) {
        if (past[u])
            ccl_i_dag_take(d, u, ignore, NULL);
    }
    d->past = past;
    d->npast = npast;
}

static void mirror(ccl_i_row_t *row, uint32_t n) {
    for (uint32_t i = 0, k = n; i < k--; i++) {
        uint32_t unit = row->units[i], at = row->pipelines[i];
        row->units[i] = row->units[k];
        row->pipelines[i] = row->npipelines - 1 - row->pipelines[k];
        row->units[k] = unit;
        row->pipelines[k] = row->npipelines - 1 - at;
    }
}

ccl_status_t ccl_i_order_turned(const ccl_ctx_t *ctx, const ccl_schedule_t *schedule,
                                ccl_i_dag_t *dag, const ccl_i_conns_t *conns, bool flowing,
                                ccl_i_row_t *out, ccl_error_t *err) {
    ccl_progress_t begin = {.phase = "order", .total = dag->nunits};
    uint32_t n = 0, nafter = 0, nsums, *row = malloc((dag->nunits + (size_t)1) * sizeof *row);
    ccl_i_row_t sums = {out->units, out->pipelines, 0}, others;
    uint8_t *after = malloc(dag->nunits + (size_t)1);
    ccl_status_t status = row && after ? CCL_OK : ccl_fail_nomem(err);
    if (status != CCL_OK)
        goto end;
    CCL_TRY_GOTO(ccl_i_dag_walk(dag, row, &n, err), status, end);
    if (n < dag->nunits) {
        status = ccl_fail(err, CCL_ERR_INTERNAL, "transfers wait for each other in a cycle");
        goto end;
    }
    CCL_TRY_GOTO(find_after(schedule, dag, row, after, &nafter, err), status, end);
    nsums = dag->nunits - nafter;
    ccl_i_dag_reverse(dag);
    set_past(dag, after, nafter);
    if (nsums)
        CCL_TRY_GOTO(ccl_i_order_hpds(ctx, dag, conns, flowing, begin, &sums, err), status, end);
    mirror(&sums, nsums);
    ccl_i_dag_reverse(dag);
    for (uint32_t u = 0; u < dag->nunits; u++)
        after[u] = !after[u]; /* before, from now on */
    set_past(dag, after, nsums);
    begin.done += nsums;
    others = (ccl_i_row_t){out->units + nsums, out->pipelines + nsums, 0};
    if (nafter)
        CCL_TRY_GOTO(ccl_i_order_hpds(ctx, dag, conns, flowing, begin, &others, err), status, end);
    for (uint32_t i = 0; i < nafter; i++)
        others.pipelines[i] += sums.npipelines;
    out->npipelines = sums.npipelines + others.npipelines;
end:
    dag->past = NULL;
    dag->npast = 0;
    free(row);
    free(after);
    return status;
}
