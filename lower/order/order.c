/* Order of a schedule's transfers: as given, round robin over chunks, or sub-pipelines. */
#include "lower/order/order.h"

#include <stdlib.h>

/** Open units of every chunk, as heaps in the chunks' own places. */
typedef struct rr {
    const ccl_i_dag_t *dag;
    ccl_i_entry_t *open; /* [nunits] */
    uint32_t *nopen;     /* [nchunks] */
} rr_t;

static void rr_open(uint32_t unit, void *user) {
    rr_t *rr = user;
    uint32_t chunk = rr->dag->unit_chunk[unit];
    ccl_i_entries_push(NULL, rr->open + rr->dag->chunk_first[chunk], rr->nopen[chunk]++,
                       (ccl_i_entry_t){0, unit, chunk});
}

ccl_status_t ccl_i_order_rr(const ccl_ctx_t *ctx, ccl_i_dag_t *dag, uint32_t *order_out,
                            ccl_error_t *err) {
    rr_t rr = {.dag = dag};
    uint32_t done = 0, nleft = 0;
    uint32_t *circle = malloc((dag->nchunks + (size_t)1) * sizeof *circle);
    ccl_status_t status = CCL_OK;
    ccl_progress_t progress = {.phase = "order", .total = dag->nunits};
    rr.open = malloc((dag->nunits + (size_t)1) * sizeof *rr.open);
    rr.nopen = calloc(dag->nchunks + (size_t)1, sizeof *rr.nopen);
    if (!circle || !rr.open || !rr.nopen) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    for (uint32_t u = 0; u < dag->nunits; u++) {
        if (dag->unit_wait[u] == 0)
            rr_open(u, &rr);
    }
    for (uint32_t c = 0; c < dag->nchunks; c++)
        circle[nleft++] = c;
    while (done < dag->nunits) {
        uint32_t before = done, n = nleft;
        progress.done = done;
        CCL_TRY_GOTO(ccl_ctx_poll(ctx, &progress), status, end);
        nleft = 0;
        for (uint32_t i = 0; i < n; i++) {
            uint32_t chunk = circle[i];
            if (rr.nopen[chunk] == 0)
                continue; /* what is not done has something open: this chunk is done */
            ccl_i_entry_t *heap = rr.open + dag->chunk_first[chunk];
            uint32_t unit = ccl_i_entries_pop(NULL, heap, rr.nopen[chunk]--).rank;
            order_out[done++] = unit;
            ccl_i_dag_take(dag, unit, rr_open, &rr);
            circle[nleft++] = chunk;
        }
        if (done == before) {
            status = ccl_fail(err, CCL_ERR_INTERNAL, "transfers wait for each other in a cycle");
            goto end;
        }
    }
end:
    free(circle);
    free(rr.open);
    free(rr.nopen);
    return status;
}

/* The schedule with unit order[i], i = 0, 1 ..., as step i; as given where order is NULL. */
static ccl_status_t rebuild(const ccl_schedule_t *schedule, const ccl_i_dag_t *dag,
                            const uint32_t *order, ccl_schedule_t **out, ccl_error_t *err) {
    ccl_collective_t *coll;
    CCL_TRY(ccl_collective_clone(schedule->coll, &coll, err));
    ccl_schedule_builder_t *b = ccl_schedule_builder_create(schedule->name, coll);
    if (!b)
        return ccl_fail_nomem(err);
    for (uint32_t t = 0; !order && t < schedule->ntransfers; t++)
        ccl_schedule_builder_add(b, schedule->transfers[t]);
    for (uint32_t i = 0; order && i < dag->nunits; i++) {
        for (uint32_t m = dag->unit_first[order[i]]; m < dag->unit_first[order[i] + 1]; m++) {
            ccl_transfer_t t = schedule->transfers[dag->transfer[m]];
            t.step = i;
            ccl_schedule_builder_add(b, t);
        }
    }
    CCL_TRY(ccl_schedule_builder_finish(b, out, err));
    ccl_origin_set((*out)->origin, "%s", schedule->origin);
    (*out)->limited = schedule->limited;
    (*out)->piece_bytes = schedule->piece_bytes;
    return CCL_OK;
}

static ccl_status_t check(const ccl_schedule_t *schedule, const ccl_topology_t *topo,
                          ccl_order_t order, ccl_error_t *err) {
    if (order > CCL_ORDER_HPDS_PRINTED)
        return ccl_fail(err, CCL_ERR_USAGE, "there is no order %d", (int)order);
    if (order == CCL_ORDER_STEP)
        return CCL_OK;
    if (!topo)
        return ccl_fail(err, CCL_ERR_USAGE, "this order needs a topology");
    if (topo->nranks != schedule->coll->nranks)
        return ccl_fail(err, CCL_ERR_INPUT, "the schedule is for %u ranks, the topology has %u",
                        schedule->coll->nranks, topo->nranks);
    return CCL_OK;
}

enum {
    MANY_BATCHES = 64,         /* when nothing is said about the run */
    CHUNK_BYTES = 1024 * 1024, /* of a micro-batch: ResCCL, section 5.1 */
    BOTH_WAYS = 1 << 20,       /* most units for which both ways are tried */
    FLOWING_BATCHES = 8        /* beyond that: micro-batches from which on they flow */
};

/* Both ways, and of them the one of the better pace. */
static ccl_status_t order_by_pace(const ccl_ctx_t *ctx, ccl_i_dag_t *dag,
                                  const ccl_i_conns_t *conns, uint32_t batches, ccl_i_row_t *out,
                                  ccl_error_t *err) {
    size_t n = dag->nunits + (size_t)1;
    ccl_i_row_t other = {malloc(n * sizeof(uint32_t)), malloc(n * sizeof(uint32_t)), 0};
    double pace_s = 0, other_s = 0, many = batches ? batches : MANY_BATCHES;
    ccl_progress_t progress = {.phase = "order", .total = 2 * (uint64_t)dag->nunits};
    ccl_status_t status = other.units && other.pipelines ? CCL_OK : ccl_fail_nomem(err);
    if (status != CCL_OK)
        goto end;
    CCL_TRY_GOTO(ccl_i_order_hpds(ctx, dag, conns, true, progress, out, err), status, end);
    CCL_TRY_GOTO(ccl_i_order_pace(dag, conns, out->units, CHUNK_BYTES, many, &pace_s, err), status,
                 end);
    ccl_i_dag_rewind(dag);
    progress.done = dag->nunits;
    CCL_TRY_GOTO(ccl_i_order_hpds(ctx, dag, conns, false, progress, &other, err), status, end);
    CCL_TRY_GOTO(ccl_i_order_pace(dag, conns, other.units, CHUNK_BYTES, many, &other_s, err),
                 status, end);
    if (other_s < pace_s * (1 - 1e-9)) {
        ccl_i_row_t swap = *out;
        *out = other;
        other = swap;
    }
end:
    free(other.units);
    free(other.pipelines);
    return status;
}

static bool flows(ccl_order_flow_t flow, uint32_t batches) {
    bool many = batches == 0 || batches >= FLOWING_BATCHES;
    return flow == CCL_ORDER_FLOW_YES || (flow == CCL_ORDER_FLOW_BY_PACE && many);
}

/* The order is found on the schedule reversed. */
static bool turns(const ccl_order_options_t *wish) {
    return wish->flow >= CCL_ORDER_FLOW_REVERSED && wish->order == CCL_ORDER_HPDS;
}

/* The DAG's units in that order, with their pipelines. */
static ccl_status_t find_rows(const ccl_ctx_t *ctx, const ccl_schedule_t *schedule,
                              ccl_i_dag_t *dag, ccl_i_conns_t *conns,
                              const ccl_order_options_t *wish, ccl_i_row_t *out, ccl_error_t *err) {
    ccl_progress_t progress = {.phase = "order", .total = dag->nunits};
    bool by_pace = wish->flow == CCL_ORDER_FLOW_BY_PACE && dag->nunits <= BOTH_WAYS;
    ccl_status_t status;
    if (wish->order == CCL_ORDER_RR)
        status = ccl_i_order_rr(ctx, dag, out->units, err);
    else if (turns(wish))
        status = ccl_i_order_turned(ctx, schedule, dag, conns,
                                    wish->flow == CCL_ORDER_FLOW_REVERSED, out, err);
    else if (by_pace)
        status = order_by_pace(ctx, dag, conns, wish->batches, out, err);
    else
        status =
            ccl_i_order_hpds(ctx, dag, conns, flows(wish->flow, wish->batches), progress, out, err);
    if (status != CCL_OK)
        return status;
    bool twice = wish->order == CCL_ORDER_HPDS && by_pace;
    progress.done = progress.total = dag->nunits * (twice ? (uint64_t)2 : 1);
    return ccl_ctx_poll(ctx, &progress);
}

ccl_status_t ccl_schedule_order(const ccl_ctx_t *ctx, const ccl_schedule_t *schedule,
                                const ccl_order_options_t *options, ccl_schedule_t **out,
                                uint32_t **pipeline_out, ccl_lower_stats_t *stats,
                                ccl_error_t *err) {
    CCL_OPTIONS_TRY(ccl_order_options_t, options, err);
    ccl_order_options_t wish = options ? *options : (ccl_order_options_t)CCL_ORDER_OPTIONS_INIT;
    ccl_i_dag_t dag = {0};
    ccl_i_conns_t conns = {0};
    ccl_routes_t *own = NULL;
    ccl_schedule_t *result = NULL;
    double start_s = ccl_now_s(), analysed_s = start_s;
    CCL_TRY(ccl_schedule_refuse_groups(schedule, "another order", err));
    CCL_TRY(check(schedule, wish.topo, wish.order, err));
    if (wish.order == CCL_ORDER_HPDS_PRINTED) {
        wish.order = CCL_ORDER_HPDS;
        wish.flow = CCL_ORDER_FLOW_YES;
    }
    size_t n = schedule->ntransfers + (size_t)1;
    ccl_i_row_t made = {malloc(n * sizeof(uint32_t)), calloc(n, sizeof(uint32_t)), 0};
    uint32_t *by_transfer = calloc(n, sizeof *by_transfer);
    ccl_status_t status =
        made.units && made.pipelines && by_transfer ? CCL_OK : ccl_fail_nomem(err);
    if (status != CCL_OK)
        goto end;
    CCL_TRY_GOTO(ccl_ctx_poll(ctx, NULL), status, end);
    if (wish.order != CCL_ORDER_STEP) {
        if (!wish.routes && !(wish.routes = own = ccl_routes_create(wish.topo))) {
            status = ccl_fail_nomem(err);
            goto end;
        }
        CCL_TRY_GOTO(ccl_i_dag_init(&dag, schedule, turns(&wish), err), status, end);
        CCL_TRY_GOTO(ccl_i_conns_init(&conns, schedule, &dag, wish.topo, wish.routes, err), status,
                     end);
        analysed_s = ccl_now_s();
        CCL_TRY_GOTO(find_rows(ctx, schedule, &dag, &conns, &wish, &made, err), status, end);
    }
    CCL_TRY_GOTO(
        rebuild(schedule, &dag, wish.order == CCL_ORDER_STEP ? NULL : made.units, &result, err),
        status, end);
    for (uint32_t i = 0, t = 0; i < dag.nunits; i++) {
        for (uint32_t m = dag.unit_first[made.units[i]]; m < dag.unit_first[made.units[i] + 1]; m++)
            by_transfer[t++] = made.pipelines[i];
    }
    *out = result;
    if (pipeline_out) {
        *pipeline_out = by_transfer;
        by_transfer = NULL;
    }
    if (stats) {
        stats->analyse_s = analysed_s - start_s;
        stats->order_s = ccl_now_s() - analysed_s;
        stats->pipelines = made.npipelines;
    }
end:
    free(made.units);
    free(made.pipelines);
    free(by_transfer);
    ccl_i_conns_fini(&conns);
    ccl_i_dag_fini(&dag);
    ccl_routes_destroy(own);
    return status;
}
