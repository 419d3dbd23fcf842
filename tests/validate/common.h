/** @file common.h What the tests of validate share. */
#ifndef CCL_TESTS_VALIDATE_COMMON_H
#define CCL_TESTS_VALIDATE_COMMON_H

#include "tests/topologies/topologies.h"
#include "validate/validate.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define OK(expr_)                                                                                  \
    do {                                                                                           \
        ccl_error_t err = CCL_ERROR_INIT;                                                          \
        ccl_status_t status_ = (expr_);                                                            \
        ck_assert_msg(status_ == CCL_OK, "%s: %s", #expr_, err.text);                              \
    } while (0)

/** The first `nranks` GPUs of a cluster. */
static inline ccl_topology_t *part(const char *spec, uint32_t nranks) {
    ccl_topology_t *all = topology(spec), *topo = NULL;
    OK(ccl_topology_take(all, nranks, 0, &topo, &err));
    ccl_topology_destroy(all);
    return topo;
}

static inline ccl_measured_log_t *log_of(const char *text) {
    ccl_measured_log_t *log = NULL;
    OK(ccl_measured_read_text("log", text, strlen(text), &log, &err));
    return log;
}

/** A run of NCCL on the GPUs of two hosts. */
static inline ccl_measured_run_t run_of(ccl_collective_kind_t kind, const ccl_topology_t *topo,
                                        uint32_t npoints, const ccl_measurement_t *points) {
    return (ccl_measured_run_t){.kind = kind,
                                .known = true,
                                .nranks = topo->nranks,
                                .nhosts = 2,
                                .gpu = "",
                                .type = "half",
                                .label = "",
                                .program = "",
                                .proto = "",
                                .npoints = npoints,
                                .points = points};
}

/** A run of NCCL on a cluster. */
static inline ccl_measured_source_t source_of(const ccl_topology_t *topo,
                                              const ccl_measured_run_t *run) {
    return (ccl_measured_source_t){.name = "log", .topo = topo, .run = run};
}

#endif
