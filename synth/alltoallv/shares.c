/*
 * How the bytes between two servers divide over their lanes: links at equal load, as far as that
 * goes. Each pair of servers in turn moves bytes from its most loaded lane to its least loaded one
 * until both are even, with what all other pairs send as it is; a few rounds settle it.
 */
#include "synth/alltoallv/work.h"

#include <math.h>
#include <string.h>

/* Rounds end with the first that brings less than this, or when the cut is met so nearly. */
typedef struct policy {
    uint32_t rounds;
    double gain, near;
} policy_t;

static const policy_t POLICY = {.rounds = 24, .gain = 1e-3, .near = 1.002};

static double greatest(const ccl_i_av_work_t *w) {
    double most = 0;
    for (uint32_t r = 0; r < w->net->nresources; r++)
        most = fmax(most, w->load_s[r]);
    return most;
}

/* One pair of servers; `even_s`: lanes that differ by less are even. */
static void balance(ccl_i_av_work_t *w, uint32_t pair, double even_s) {
    const ccl_i_av_net_t *net = w->net;
    uint32_t first = net->lane_first[pair], end = net->lane_first[pair + 1];
    for (uint32_t turn = 0; turn < 2 * (end - first); turn++) {
        uint32_t high = CCL_NONE, low = CCL_NONE;
        double high_s = -1, low_s = INFINITY;
        for (uint32_t l = first; l < end; l++) {
            double s = ccl_i_av_level(net, &net->lanes[l].uses, w->load_s);
            if (w->lane_bytes[l] > 0 && s > high_s)
                high_s = s, high = l;
            if (s < low_s)
                low_s = s, low = l;
        }
        if (high == CCL_NONE || high_s - low_s <= even_s)
            return;
        const ccl_i_av_uses_t *from = &net->lanes[high].uses, *to = &net->lanes[low].uses;
        double bytes = fmin(w->lane_bytes[high], (high_s - low_s) / (from->slowest + to->slowest));
        w->lane_bytes[high] -= bytes;
        w->lane_bytes[low] += bytes;
        ccl_i_av_add(net, from, -bytes, w->load_s);
        ccl_i_av_add(net, to, bytes, w->load_s);
    }
}

void ccl_i_av_shares(ccl_i_av_work_t *w) {
    const ccl_i_av_net_t *net = w->net;
    uint32_t pairs = net->nservers * net->nservers;
    memset(w->load_s, 0, net->nresources * sizeof *w->load_s);
    for (uint32_t p = 0; p < pairs; p++) {
        double bytes = 0;
        for (uint32_t i = w->item_first[p]; i < w->item_first[p + 1]; i++)
            bytes += w->items[i].bytes;
        for (uint32_t l = net->lane_first[p]; l < net->lane_first[p + 1]; l++) {
            w->lane_bytes[l] = bytes * w->share[l];
            ccl_i_av_add(net, &net->lanes[l].uses, w->lane_bytes[l], w->load_s);
        }
    }
    double now_s = greatest(w);
    for (uint32_t round = 0; round < POLICY.rounds && now_s > POLICY.near * w->bound_s; round++) {
        double before_s = now_s;
        if (ccl_i_av_is_late(w))
            break;
        for (uint32_t p = 0; p < pairs; p++)
            if (net->lane_first[p + 1] - net->lane_first[p] > 1)
                balance(w, p, 1e-4 * now_s);
        now_s = greatest(w);
        if (now_s > (1 - POLICY.gain) * before_s)
            break;
    }
    for (uint32_t p = 0; p < pairs; p++) {
        double sum = 0;
        for (uint32_t l = net->lane_first[p]; l < net->lane_first[p + 1]; l++)
            sum += w->lane_bytes[l] = fmax(0, w->lane_bytes[l]);
        for (uint32_t l = net->lane_first[p]; sum > 0 && l < net->lane_first[p + 1]; l++)
            w->share[l] = w->lane_bytes[l] / sum;
    }
    w->load_max_s = now_s;
}
