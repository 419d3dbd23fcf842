/** @file internal.h Shared inside sim only. */
#ifndef CCL_SIM_INTERNAL_H
#define CCL_SIM_INTERNAL_H

#include "sim/engine.h"
#include "sim/sim.h"

#include <stdlib.h>
#include <string.h>

/**
 * First room of an array for ccl_grow(), of a size known in advance: exact and not zeroed (every
 * element is assigned before it is read), so a generous guess costs nothing.
 */
static inline bool ccl_i_reserve(void *array, size_t *capacity, size_t need, size_t elem_size) {
    void *data;
    memcpy(&data, array, sizeof(data));
    if (data || need == 0)
        return ccl_grow(array, capacity, need, elem_size);
    if (need > SIZE_MAX / elem_size)
        return false;
    data = malloc(need * elem_size);
    if (!data)
        return false;
    memcpy(array, &data, sizeof(data));
    *capacity = need;
    return true;
}

/** Zeroed result with its arrays; NULL when out of memory. */
ccl_sim_result_t *ccl_i_result_create(uint32_t nlinks, uint32_t ntbs, uint32_t nflows);
/** A finished run of a program, without stages or path, again; NULL when out of memory. */
ccl_sim_result_t *ccl_i_result_copy(const ccl_sim_result_t *result, uint32_t nsteps);
/** Utilization from bytes and time_s. */
void ccl_i_result_links(ccl_sim_result_t *result, const ccl_topology_t *topo);

/** Names of the program's groups, for the rows of their flows. */
void ccl_i_trace_groups(ccl_trace_t *trace, const ccl_program_t *program);
/** A row of the trace, copied. */
void ccl_i_trace_tb(ccl_trace_t *trace, const ccl_trace_span_t *pass);
void ccl_i_trace_flow(ccl_trace_t *trace, const ccl_trace_span_t *slice);

#endif
