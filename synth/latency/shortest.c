/*
 * Where GPUs form no grid: chunks go straight to all destinations, over other GPUs where that is
 * the shortest way. An AllReduce's chunks are summed up at a GPU in the middle, from which the
 * fewest hops lead to the farthest one and back; they take turns among those that are as near.
 */
#include "synth/latency/latency.h"

#include <stdlib.h>

/** The GPUs in the middle. */
typedef struct middle {
    uint32_t *ranks, n, channels;
} middle_t;

static ccl_status_t find_middle(ccl_i_cluster_t *c, middle_t *out, ccl_error_t *err) {
    uint32_t least = UINT32_MAX, *path = malloc((c->nranks + (size_t)1) * sizeof *path);
    ccl_status_t status = path ? CCL_OK : ccl_fail_nomem(err);
    out->n = 0;
    for (uint32_t r = 0; r < c->nranks && status == CCL_OK; r++) {
        uint32_t far = 0;
        for (uint32_t s = 0; s < c->nranks && status == CCL_OK; s++) {
            uint32_t to = 0, from = 0;
            status = ccl_i_cluster_path(c, r, s, path, &to, err);
            if (status == CCL_OK)
                status = ccl_i_cluster_path(c, s, r, path, &from, err);
            far = to + from > far ? to + from : far;
        }
        out->n = far < least ? 0 : out->n;
        least = far < least ? far : least;
        if (far == least)
            out->ranks[out->n++] = r;
    }
    free(path);
    return status;
}

static uint32_t root(void *user, const ccl_i_want_t *want) {
    const middle_t *m = user;
    return m->ranks[want->part % m->n];
}

static ccl_status_t tree(void *user, const ccl_i_want_t *want, ccl_i_tree_t *out,
                         ccl_error_t *err) {
    const middle_t *m = user;
    (void)err;
    for (uint32_t i = 0; i < want->ntargets; i++) {
        if (want->targets[i] != want->root)
            ccl_i_tree_add(out, want->root, want->targets[i], 0, want->part % m->channels);
    }
    return CCL_OK;
}

ccl_status_t ccl_i_shortest_make(const ccl_ctx_t *ctx, ccl_i_cluster_t *cluster,
                                 const ccl_collective_t *want, const ccl_i_form_t *form,
                                 ccl_schedule_t **out, ccl_error_t *err) {
    middle_t m = {.ranks = malloc(cluster->nranks * sizeof *m.ranks), .channels = form->channels};
    ccl_i_plan_t plan = {.name = "latency",
                         .parts = form->channels * form->parts,
                         .root = root,
                         .tree = tree,
                         .user = &m};
    ccl_status_t status = m.ranks ? find_middle(cluster, &m, err) : ccl_fail_nomem(err);
    if (status == CCL_OK)
        status = ccl_i_plan_run(ctx, cluster, want, &plan, out, err);
    free(m.ranks);
    return status;
}
