/*
 * What an order is worth, without simulating it: when the last transfer would end if every
 * connection ran its transfers in turn, each for all micro-batches, at the rate left to it when all
 * connections of its links are busy. Two moments per transfer are enough, those of its first and of
 * its last micro-batch. For choosing between orders, not for predicting a time.
 */
#include "lower/order/order.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/** Moments of a first and a last micro-batch. */
typedef struct span {
    double first_s, last_s;
} span_t;

typedef struct pace {
    double *rate_Bps;   /* [nconns] */
    double *free_s;     /* [nconns] its transfers so far are sent */
    span_t *done;       /* [groups] of all its accesses so far */
    double *demand_Bps; /* [nresources] */
} pace_t;

/* Connections share a link in proportion to their peaks when they want more than it has. */
static void find_rates(pace_t *p, const ccl_i_conns_t *c) {
    for (uint32_t conn = 0; conn < c->nconns; conn++) {
        for (uint32_t i = c->use_first[conn]; i < c->use_first[conn + 1]; i++)
            p->demand_Bps[c->uses[i]] += c->peak_Bps[conn];
    }
    for (uint32_t conn = 0; conn < c->nconns; conn++) {
        double share = 1;
        for (uint32_t i = c->use_first[conn]; i < c->use_first[conn + 1]; i++) {
            uint32_t r = c->uses[i];
            share = fmin(share, c->capacity_Bps[r] / p->demand_Bps[r]);
        }
        p->rate_Bps[conn] = c->peak_Bps[conn] * share;
    }
}

static double run_unit(pace_t *p, const ccl_i_dag_t *d, const ccl_i_conns_t *c, uint32_t unit,
                       double chunk_bytes, double batches) {
    span_t after = {0, 0};
    uint32_t begin = d->unit_first[unit], end = d->unit_first[unit + 1];
    double last_s = 0;
    for (uint32_t a = 2 * begin; a < 2 * end; a++) {
        uint32_t g = d->group_of[a];
        if (d->group_starts[g])
            continue;
        after.first_s = fmax(after.first_s, p->done[g - 1].first_s);
        after.last_s = fmax(after.last_s, p->done[g - 1].last_s);
    }
    for (uint32_t m = begin; m < end; m++) {
        uint32_t conn = c->conn_of[m];
        double batch_s = chunk_bytes / p->rate_Bps[conn], delay_s = c->delay_s[conn];
        double start_s = fmax(p->free_s[conn], after.first_s);
        double sent_s = fmax(start_s + batches * batch_s, after.last_s + batch_s);
        p->free_s[conn] = sent_s;
        for (uint32_t a = 2 * m; a < 2 * m + 2; a++) {
            span_t *done = &p->done[d->group_of[a]];
            done->first_s = fmax(done->first_s, start_s + batch_s + delay_s);
            done->last_s = fmax(done->last_s, sent_s + delay_s);
        }
        last_s = fmax(last_s, sent_s + delay_s);
    }
    return last_s;
}

ccl_status_t ccl_i_order_pace(const ccl_i_dag_t *dag, const ccl_i_conns_t *conns,
                              const uint32_t *order, double chunk_bytes, double batches,
                              double *seconds_out, ccl_error_t *err) {
    pace_t p = {calloc(conns->nconns + (size_t)1, sizeof(double)),
                calloc(conns->nconns + (size_t)1, sizeof(double)),
                calloc(dag->ngroups + (size_t)1, sizeof(span_t)),
                calloc(conns->nresources + (size_t)1, sizeof(double))};
    ccl_status_t status = CCL_OK;
    double last_s = 0;
    if (p.rate_Bps && p.free_s && p.done && p.demand_Bps) {
        find_rates(&p, conns);
        for (uint32_t i = 0; i < dag->nunits; i++)
            last_s = fmax(last_s, run_unit(&p, dag, conns, order[i], chunk_bytes, batches));
        *seconds_out = last_s;
    } else {
        status = ccl_fail_nomem(err);
    }
    free(p.rate_Bps);
    free(p.free_s);
    free(p.done);
    free(p.demand_Bps);
    return status;
}
