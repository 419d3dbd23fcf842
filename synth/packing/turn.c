/* Trees of parts in turn: each server sums up for one root after another. */
#include <math.h>

#include "synth/packing/packing.h"

/* Of the widest way between two servers. */
static double widest_way(ccl_i_cluster_t *c, const ccl_i_pack_batch_t *batch) {
    double widest_Bps = 0;
    for (uint32_t i = 1; i < c->nranks; i++) {
        uint32_t dst = batch->order[i], src = batch->parent[dst];
        if (c->server[src] != c->server[dst])
            widest_Bps = fmax(widest_Bps, ccl_i_cluster_width_Bps(c, dst, src, 0));
    }
    return widest_Bps;
}

/*
 * When a server that is so far before a root sums up for it, of `m` turns: for the nearest behind
 * it first. Its own root comes in the middle: its sum goes nowhere, so what waits for a NIC goes
 * before it; and what other servers send is added before and after it.
 */
static uint32_t turn_of(uint32_t before, uint32_t m) {
    if (before == 0)
        return m / 2;
    return before <= m / 2 ? before - 1 : before;
}

/*
 * Each server sums up first what is for the server behind it, so roots get the servers' sums one
 * after another and need not add all up at the end; those of slow servers come last. A sum's cuts
 * go side by side, each on a connection of its own: GPUs add one after another to the same place,
 * so all of a sum's data in one go would be ready later.
 */
void ccl_i_pack_in_turn(const ccl_i_pack_turn_t *t, ccl_i_tree_t *out) {
    ccl_i_cluster_t *c = t->cluster;
    uint32_t m = c->nservers, home = c->server[t->batch->root];
    double widest_Bps = widest_way(c, t->batch);
    for (uint32_t i = 1; i < c->nranks; i++) {
        uint32_t dst = t->batch->order[i], src = t->batch->parent[dst], x = c->server[dst];
        uint32_t channel = t->channel[dst], step = 2 * m * t->depth[dst];
        if (t->up) {
            bool inside = c->server[src] == x;
            bool slow = !inside && ccl_i_cluster_width_Bps(c, dst, src, 0) < widest_Bps;
            step += (slow ? 0 : m) + m - 1 - turn_of((home + m - x) % m, m);
            channel += inside ? t->cut_channel : 0;
        }
        ccl_i_tree_add(out, src, dst, step, channel);
    }
}
