/**
 * @file graph.h
 * Walks over a device graph under construction; private to topologies.
 */
#ifndef CCL_TOPOLOGIES_GRAPH_H
#define CCL_TOPOLOGIES_GRAPH_H

#include "topologies/topologies.h"

/**
 * CSR of link indices by source device (by destination with `reverse`), ascending within a device.
 * @param first  [ndevices + 1]. @param list  [nlinks].
 */
void ccl_i_graph_csr(uint32_t ndevices, const ccl_link_t *links, uint32_t nlinks, bool reverse,
                     uint32_t *first, uint32_t *list);

/**
 * Find a GPU that cannot reach, or be reached from, another one, relaying through GPUs allowed.
 * Two breadth-first searches from one GPU: if every GPU is reached along and against the links,
 * every GPU reaches every other.
 *
 * @param from_out, to_out  devices of the pair without a path; CCL_NONE when all is well.
 * @retval CCL_ERR_NOMEM
 */
ccl_status_t ccl_i_graph_unreachable(uint32_t ndevices, const ccl_device_t *devices,
                                     const ccl_link_t *links, uint32_t nlinks, uint32_t *from_out,
                                     uint32_t *to_out, ccl_error_t *err);

#endif
