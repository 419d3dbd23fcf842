/** @file testbed.h Private to runtime/: what the files of the testbed share. */
#ifndef CCL_RUNTIME_TESTBED_H
#define CCL_RUNTIME_TESTBED_H

#include "runtime/runtime.h"

#define CCL_I_TESTBED_NET "10.77.0."
#define CCL_I_TESTBED_PORT 29500

struct ccl_testbed {
    const ccl_testbed_plan_t *plan;
    int fds[CCL_TESTBED_MAX_SERVERS + 1]; /* of the servers, then the bridge; -1: none */
};

/** With no namespaces yet. */
ccl_testbed_t *ccl_i_testbed_create(const ccl_testbed_plan_t *plan);

#endif
