/*
 * AllReduce between the parts of a partition, over time. Each element passes between k parts at
 * least 2 (k - 1) times (allreduce.c). Where J of the messages that arrive are partial results of
 * several parts, at least k - J parts get all others one by one: (k - J)(k - 1) + J messages; and
 * those only travel once two parts' data have met.
 */
#include "models/bounds/bounds.h"
#include "models/bounds/time.h"

#include <stdlib.h>
#include <string.h>

typedef struct arrays {
    double *earliest, *several, *latest; /* of ccl_i_time_reach() */
    bool *late;                          /* [nvertices] */
    uint8_t *set, *part;                 /* [nranks] */
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

/* What a part does not send from: all but its devices, or beyond its tightest border. */
static ccl_status_t find_late(const ccl_capacity_t *c, const uint32_t *device_part, uint32_t p,
                              ccl_i_cutter_t *cutter, arrays_t *w, ccl_error_t *err) {
    if (device_part) {
        ccl_i_time_part(c, device_part, p, false, w->late);
        return CCL_OK;
    }
    if (ccl_i_cut_between(cutter, w->part, w->set) < 0)
        return ccl_fail_nomem(err);
    for (uint32_t v = 0; v < c->nvertices; v++)
        w->late[v] = !cutter->side[v];
    return CCL_OK;
}

static ccl_status_t parts(const ccl_ctx_t *ctx, ccl_i_time_cuts_t *cuts,
                          const ccl_i_partition_t *of, ccl_i_cutter_t *cutter, arrays_t *w,
                          ccl_error_t *err) {
    const uint32_t *part_of = of->part_of;
    const ccl_i_time_net_t *net = cuts->net;
    uint32_t n = net->c->topo->nranks;
    double k = 0; /* parts with a GPU: others send nothing and need nothing */
    memset(w->set, 1, n);
    CCL_TRY(ccl_i_time_reach(net, false, w->set, part_of, w->earliest, w->several, err));
    for (uint32_t p = 0; p < of->nparts; p++) {
        bool some = false;
        CCL_TRY(ccl_ctx_poll(ctx, NULL));
        for (uint32_t r = 0; r < n; r++) {
            w->set[r] = part_of[r] != p;
            w->part[r] = part_of[r] == p;
            some |= w->part[r];
        }
        if (!some)
            continue;
        k++;
        CCL_TRY(ccl_i_time_reach(net, true, w->set, NULL, w->latest, NULL, err));
        CCL_TRY(find_late(net->c, of->device_part, p, cutter, w, err));
        ccl_i_time_side_t side = {.late = w->late,
                                  .earliest = w->earliest,
                                  .latest = w->latest,
                                  .several_earliest = w->several};
        CCL_TRY(ccl_i_time_leave(cuts, &side, err));
    }
    memset(w->set, 1, n);
    ccl_i_time_needed_t needed = {.share = k * (k - 1),
                                  .least = 2 * (k - 1),
                                  .partials = k - 1,
                                  .sources = w->set,
                                  .dests = w->set};
    return ccl_i_time_cut(cuts, &needed, err);
}

ccl_status_t ccl_i_time_partition(const ccl_ctx_t *ctx, ccl_i_time_cuts_t *cuts,
                                  const ccl_i_partition_t *of, ccl_error_t *err) {
    const ccl_capacity_t *c = cuts->net->c;
    size_t nv = c->nvertices + (size_t)1, all = nv + c->narcs, n = c->topo->nranks + (size_t)1;
    arrays_t w = {malloc(all * sizeof *w.earliest), malloc(all * sizeof *w.several),
                  malloc(all * sizeof *w.latest),   calloc(nv, sizeof *w.late),
                  calloc(n, sizeof *w.set),         calloc(n, sizeof *w.part)};
    ccl_i_cutter_t cutter = {0};
    ccl_status_t status = w.earliest && w.several && w.latest && w.late && w.set && w.part
                              ? CCL_OK
                              : ccl_fail_nomem(err);
    if (status == CCL_OK && !of->device_part)
        status = ccl_i_cutter_init(&cutter, c, false, err);
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
    return status;
}
