/* Canonical numbering of coloured graphs. */
#include "graph/graph.h"

#include <bliss/bliss_C.h>

ccl_status_t ccl_graph_canonical(uint32_t nvertices, const uint32_t *colour, size_t nedges,
                                 const uint32_t (*edges)[2], uint32_t *label_out,
                                 ccl_error_t *err) {
    BlissGraph *graph = bliss_new(0);
    BlissStats stats;
    const unsigned *label;

    if (!graph)
        return ccl_fail_nomem(err);
    for (uint32_t v = 0; v < nvertices; v++)
        bliss_add_vertex(graph, colour[v]);
    for (size_t e = 0; e < nedges; e++)
        bliss_add_edge(graph, edges[e][0], edges[e][1]);
    label = nvertices ? bliss_find_canonical_labeling(graph, NULL, NULL, &stats) : NULL;
    for (uint32_t v = 0; v < nvertices; v++)
        label_out[v] = label[v];
    bliss_release(graph);
    return CCL_OK;
}
