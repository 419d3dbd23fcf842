/* Adjacency and reachability of a device graph. */
#include "topologies/graph.h"

#include <stdlib.h>

void ccl_i_graph_csr(uint32_t ndevices, const ccl_link_t *links, uint32_t nlinks, bool reverse,
                     uint32_t *first, uint32_t *list) {
    for (uint32_t v = 0; v <= ndevices; v++)
        first[v] = 0;
    for (uint32_t l = 0; l < nlinks; l++)
        first[(reverse ? links[l].to : links[l].from) + 1]++;
    for (uint32_t v = 0; v < ndevices; v++)
        first[v + 1] += first[v];
    /* Filling in ascending order uses first[v] as a cursor; it ends one place further on. */
    for (uint32_t l = 0; l < nlinks; l++)
        list[first[reverse ? links[l].to : links[l].from]++] = l;
    for (uint32_t v = ndevices; v > 0; v--)
        first[v] = first[v - 1];
    first[0] = 0;
}

static void flood(uint32_t start, const ccl_link_t *links, bool reverse, const uint32_t *first,
                  const uint32_t *list, bool *seen, uint32_t *queue) {
    uint32_t head = 0, tail = 0;
    seen[start] = true;
    queue[tail++] = start;
    while (head < tail) {
        uint32_t v = queue[head++];
        for (uint32_t i = first[v]; i < first[v + 1]; i++) {
            const ccl_link_t *link = &links[list[i]];
            uint32_t w = reverse ? link->from : link->to;
            if (!seen[w]) {
                seen[w] = true;
                queue[tail++] = w;
            }
        }
    }
}

ccl_status_t ccl_i_graph_unreachable(uint32_t ndevices, const ccl_device_t *devices,
                                     const ccl_link_t *links, uint32_t nlinks, uint32_t *from_out,
                                     uint32_t *to_out, ccl_error_t *err) {
    *from_out = *to_out = CCL_NONE;
    uint32_t start = CCL_NONE;
    for (uint32_t v = 0; v < ndevices && start == CCL_NONE; v++)
        if (devices[v].kind == CCL_DEVICE_GPU && devices[v].rank == 0)
            start = v;
    if (start == CCL_NONE)
        return CCL_OK;
    ccl_status_t status = CCL_OK;
    uint32_t *first = calloc((size_t)ndevices + 1, sizeof *first);
    uint32_t *list = calloc((size_t)nlinks + 1, sizeof *list);
    uint32_t *queue = calloc(ndevices, sizeof *queue);
    bool *seen = calloc(ndevices, sizeof *seen);
    if (!first || !list || !queue || !seen) {
        status = ccl_fail_nomem(err);
        goto done;
    }
    for (int reverse = 0; reverse < 2 && *from_out == CCL_NONE; reverse++) {
        for (uint32_t v = 0; v < ndevices; v++)
            seen[v] = false;
        ccl_i_graph_csr(ndevices, links, nlinks, reverse != 0, first, list);
        flood(start, links, reverse != 0, first, list, seen, queue);
        for (uint32_t v = 0; v < ndevices; v++) {
            if (devices[v].kind == CCL_DEVICE_GPU && !seen[v]) {
                *from_out = reverse ? v : start;
                *to_out = reverse ? start : v;
                break;
            }
        }
    }
done:
    free(seen);
    free(queue);
    free(list);
    free(first);
    return status;
}
