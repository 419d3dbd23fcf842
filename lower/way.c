/* Ways of lowering: an order, an allocation of thread blocks, a level of execution. */
#include "lower/lower.h"

const ccl_way_t ccl_way_hpds = {CCL_ORDER_HPDS, CCL_ALLOCATE_STATE, CCL_GRANULARITY_TASK};

ccl_way_t ccl_way_choose(const ccl_way_t *preset, ccl_way_t given, unsigned given_bits) {
    ccl_way_t way = {CCL_ORDER_STEP, CCL_ALLOCATE_CONNECTION, CCL_GRANULARITY_ALGORITHM};

    if (preset)
        way = *preset;
    if (given_bits & CCL_WAY_ORDER)
        way.order = given.order;
    if (given_bits & CCL_WAY_ALLOCATION)
        way.allocation = given.allocation;
    if (given_bits & CCL_WAY_GRANULARITY)
        way.granularity = given.granularity;
    return way;
}
