/* Private to models: the graph whose automorphisms are those of a cluster. */
#ifndef CCL_MODELS_SYMMETRY_H
#define CCL_MODELS_SYMMETRY_H

#include "models/models.h"

/**
 * Build it: vertices are the devices in order, then the servers, then what stands for links and
 * groups.
 * @param graph  zeroed; ccl_undirected_fini(), also on failure.
 * @param fixed  a device that no automorphism may move; CCL_NONE: none.
 * @return false: out of memory.
 */
bool ccl_i_symmetry_graph(ccl_undirected_t *graph, const ccl_topology_t *topo, uint32_t fixed,
                          ccl_arena_t *arena);

#endif
