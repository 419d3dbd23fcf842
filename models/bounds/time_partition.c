/*
 * What the parts of a partition send each other, over time.
 *
 * AllReduce: each element passes between k parts at least 2 (k - 1) times (allreduce.c). Where J of
 * the messages that arrive are partial results of several parts, at least k - J parts get all
 * others one by one: (k - J)(k - 1) + J messages; and those only travel once two parts' data have
 * met.
 *
 * Broadcast: each element enters k - 1 parts, and only the root's part can send at once. Reduce is
 * the reverse: each leaves k - 1 parts, and what enters others than the root's has to go on.
 */
#include "models/bounds/bounds.h"
#include "models/bounds/time.h"

#include <stdlib.h>
#include <string.h>

typedef struct arrays {
    double *earliest, *several, *latest; /* of ccl_i_time_reach() */
    bool *late;                          /* [nvertices] */
    uint8_t *set, *part, *ends;          /* [nranks] */
} arrays_t;

void ccl_i_time_part(const ccl_capacity_t *c, const uint32_t *device_part, uint32_t part,
                     bool receives, bool *late) {
    for (uint32_t v = 0; v < c->topo->ndevices; v++)
        late[v] = (device_part[v] == part) == receives;
    for (uint32_t a = 0; a < c->narcs; a++) {
        const ccl_capacity_arc_t *arc = &c->arcs[a];
        if (arc->link != CCL_NONE)
            continue;
        if (arc->from < c->topo->ndevices)
            late[arc->to] = late[arc->from];
        else
            late[arc->from] = late[arc->to];
    }
}

/* The late side of a part's border: all but the part, or, where it receives, the part. */
static ccl_status_t find_late(const ccl_capacity_t *c, const ccl_i_partition_t *of, uint32_t p,
                              ccl_i_cutter_t *cutter, arrays_t *w, ccl_error_t *err) {
    if (of->device_part) {
        ccl_i_time_part(c, of->device_part, p, of->reversed, w->late);
        return CCL_OK;
    }
    if (ccl_i_cut_between(cutter, w->part, w->set) < 0)
        return ccl_fail_nomem(err);
    for (uint32_t v = 0; v < c->nvertices; v++)
        w->late[v] = cutter->side[v] == of->reversed;
    return CCL_OK;
}

/* The border of part p, which w->part marks. */
static ccl_status_t border(ccl_i_time_cuts_t *cuts, const ccl_i_partition_t *of, uint32_t p,
                           ccl_i_cutter_t *cutter, arrays_t *w, ccl_error_t *err) {
    const ccl_i_time_net_t *net = cuts->net;
    double *varies = of->reversed ? w->earliest : w->latest;
    CCL_TRY(ccl_i_time_reach(net, !of->reversed, w->set, NULL, varies, NULL, err));
    CCL_TRY(find_late(net->c, of, p, cutter, w, err));
    const ccl_i_time_side_t side = {.late = w->late,
                                    .earliest = w->earliest,
                                    .latest = w->latest,
                                    .several_earliest = of->root == CCL_NONE ? w->several : NULL};
    return ccl_i_time_leave(cuts, &side, err);
}

static ccl_status_t parts(const ccl_ctx_t *ctx, ccl_i_time_cuts_t *cuts,
                          const ccl_i_partition_t *of, ccl_i_cutter_t *cutter, arrays_t *w,
                          ccl_error_t *err) {
    const ccl_i_time_net_t *net = cuts->net;
    const bool all = of->root == CCL_NONE;
    uint32_t n = net->c->topo->nranks;
    double k = 0; /* parts with a GPU: others send nothing and need nothing */
    for (uint32_t r = 0; r < n; r++)
        w->ends[r] = all || r == of->root;
    CCL_TRY(ccl_i_time_reach(net, of->reversed, w->ends, all ? of->part_of : NULL,
                             of->reversed ? w->latest : w->earliest, all ? w->several : NULL, err));
    for (uint32_t p = 0; p < of->nparts; p++) {
        bool some = false;
        CCL_TRY(ccl_ctx_poll(ctx, NULL));
        for (uint32_t r = 0; r < n; r++) {
            w->set[r] = of->part_of[r] != p;
            w->part[r] = of->part_of[r] == p;
            some |= w->part[r];
        }
        if (!some)
            continue;
        k++;
        CCL_TRY(border(cuts, of, p, cutter, w, err));
    }
    memset(w->set, 1, n);
    ccl_i_time_needed_t needed = {.share = all ? k * (k - 1) : k - 1,
                                  .least = all ? 2 * (k - 1) : k - 1,
                                  .partials = all ? k - 1 : 1,
                                  .sources = of->reversed ? w->set : w->ends,
                                  .dests = of->reversed ? w->ends : w->set};
    return ccl_i_time_cut(cuts, &needed, err);
}

ccl_status_t ccl_i_time_partition(const ccl_ctx_t *ctx, ccl_i_time_cuts_t *cuts,
                                  const ccl_i_partition_t *of, ccl_error_t *err) {
    const ccl_capacity_t *c = cuts->net->c;
    size_t nv = c->nvertices + (size_t)1, all = nv + c->narcs, n = c->topo->nranks + (size_t)1;
    arrays_t w = {malloc(all * sizeof *w.earliest), malloc(all * sizeof *w.several),
                  malloc(all * sizeof *w.latest),   calloc(nv, sizeof *w.late),
                  calloc(n, sizeof *w.set),         calloc(n, sizeof *w.part),
                  calloc(n, sizeof *w.ends)};
    ccl_i_cutter_t cutter = {0};
    ccl_status_t status = w.earliest && w.several && w.latest && w.late && w.set && w.part && w.ends
                              ? CCL_OK
                              : ccl_fail_nomem(err);
    if (status == CCL_OK && !of->device_part)
        status = ccl_i_cutter_init(&cutter, c, of->reversed, err);
    if (status == CCL_OK)
        status = parts(ctx, cuts, of, &cutter, &w, err);
    if (!of->device_part)
        ccl_i_cutter_fini(&cutter);
    free(w.earliest);
    free(w.several);
    free(w.latest);
    free(w.late);
    free(w.set);
    free(w.part);
    free(w.ends);
    return status;
}
