/*
 * GPUs of one server that are alike, as the 72 of an NVLink domain: the same model, the same links
 * to what they share, and the same of what is theirs alone (a NIC). The first few are drawn for
 * all.
 */
#include "draw/layout.h"

#include <string.h>

enum { MANY_GPUS = 24, DRAWN_GPUS = 8 };

/** GPUs of the box that a device is linked to. */
static uint32_t gpus_near(const ccl_i_draw_layout_t *l, const ccl_i_neighbours_t *near,
                          uint32_t d) {
    uint32_t n = 0, last = CCL_NONE;

    for (uint32_t k = near->first[d]; k < near->first[d + 1]; k++) {
        uint32_t e = near->list[k];

        if (l->topo->devices[e].kind != CCL_DEVICE_GPU || l->box_of[e] != l->box_of[d] || e == last)
            continue;
        n += last == CCL_NONE || last != e;
        last = e;
    }
    return n;
}

static bool is_own(const ccl_i_draw_layout_t *l, const ccl_i_neighbours_t *near, uint32_t e) {
    return l->topo->devices[e].kind == CCL_DEVICE_NIC && gpus_near(l, near, e) == 1;
}

/** What makes GPUs alike; CCL_NONE stands for what is theirs alone. */
static uint64_t gpu_signature(const ccl_i_draw_layout_t *l, const ccl_i_neighbours_t *near,
                              uint32_t d) {
    const ccl_topology_t *topo = l->topo;
    uint64_t sum = ccl_hash64(&topo->devices[d].model, sizeof(topo->devices[d].model), 7);

    for (uint32_t k = topo->out_first[d]; k < topo->out_first[d + 1]; k++) {
        const ccl_link_t *link = &topo->links[topo->out_links[k]];
        uint64_t what[3] = {is_own(l, near, link->to) ? CCL_NONE : link->to, link->kind, 0};

        memcpy(&what[2], &link->bandwidth_Bps, sizeof(what[2]));
        sum += ccl_hash64(what, sizeof(what), 1);
    }
    return sum;
}

/** The `at`-th device that is the GPU's alone. */
static uint32_t own_of(const ccl_i_draw_layout_t *l, const ccl_i_neighbours_t *near, uint32_t gpu,
                       uint32_t at) {
    uint32_t last = CCL_NONE;

    for (uint32_t k = near->first[gpu]; k < near->first[gpu + 1]; k++) {
        uint32_t e = near->list[k];

        if (e == last || l->box_of[e] != l->box_of[gpu] || !is_own(l, near, e))
            continue;
        last = e;
        if (at-- == 0)
            return e;
    }
    return CCL_NONE;
}

static void fold_box(ccl_i_draw_layout_t *l, ccl_i_box_t *box, const ccl_i_neighbours_t *near,
                     uint32_t *gpus) {
    uint64_t signature = 0;
    uint32_t n = 0;

    for (uint32_t i = 0; i < box->n; i++) {
        uint32_t d = l->devices[box->first + i];

        if (l->topo->devices[d].kind != CCL_DEVICE_GPU)
            continue;
        if (n == 0)
            signature = gpu_signature(l, near, d);
        if (gpu_signature(l, near, d) != signature)
            return;
        gpus[n++] = d;
    }
    if (n <= MANY_GPUS)
        return;
    box->folded = n - DRAWN_GPUS;
    for (uint32_t i = DRAWN_GPUS; i < n; i++) {
        uint32_t like = gpus[i % DRAWN_GPUS], e;

        l->stands[gpus[i]] = like;
        for (uint32_t at = 0; (e = own_of(l, near, gpus[i], at)) != CCL_NONE; at++)
            l->stands[e] = own_of(l, near, like, at);
    }
}

ccl_status_t ccl_i_layout_fold(ccl_i_draw_layout_t *l, const ccl_i_neighbours_t *near,
                               ccl_error_t *err) {
    uint32_t *gpus = ccl_arena_alloc(&l->arena, l->topo->ndevices + (size_t)1, sizeof(*gpus));

    if (!gpus)
        return ccl_fail_nomem(err);
    for (uint32_t b = 0; b < l->nboxes; b++)
        if (!l->boxes[b].flat)
            fold_box(l, &l->boxes[b], near, gpus);
    return CCL_OK;
}
