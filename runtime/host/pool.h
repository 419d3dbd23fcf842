/** @file pool.h Private to the host device: memory of slices within a process (see pool.c). */
#ifndef CCL_RUNTIME_POOL_H
#define CCL_RUNTIME_POOL_H

#include "runtime/host/host.h"

typedef struct ccl_i_pool ccl_i_pool_t;

/** For the connections of a load whose ends are both in it. @return NULL: no memory. */
ccl_i_pool_t *ccl_i_pool_create(const ccl_device_plan_t *plan, uint32_t nworkers);
void ccl_i_pool_destroy(ccl_i_pool_t *pool);
/** Whether slices of this connection lie here. */
bool ccl_i_pool_has(const ccl_i_pool_t *pool, uint32_t conn);
/** Memory for slice k of a connection that has a slot free. */
char *ccl_i_pool_take(ccl_i_pool_t *pool, uint32_t worker, uint32_t conn, uint64_t k);
/** Where slice k lies. */
char *ccl_i_pool_find(const ccl_i_pool_t *pool, uint32_t conn, uint64_t k);
/** Slice k was read; only then may its slot be announced free. */
void ccl_i_pool_give(ccl_i_pool_t *pool, uint32_t worker, uint32_t conn, uint64_t k);

#endif
