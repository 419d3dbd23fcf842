/*
 * A machine whose ranks share its workers (docs/runtime.md, "Predicting the host"): everything that
 * moves crosses one link, from the switch `queue` to the switch `workers`. "host:8" is that with
 * nominal constants; a profile of ccllab calibrate --device host has those of a machine.
 */
#include "topologies/internal.h"

#include <stdlib.h>
#include <string.h>

#define MAX_RANKS 4096
#define NOMINAL_Bps 1e12 /* times a profile's efficiency: what the workers move together */
#define WIDE_Bps 1e15    /* never the limit */

ccl_status_t ccl_topology_host(const char *name, uint32_t nranks, const ccl_gpu_model_t *core,
                               double workers_Bps, double latency_s,
                               const ccl_transport_spec_t *transport, ccl_topology_t **out,
                               ccl_error_t *err) {
    ccl_topology_builder_t *b = ccl_topology_builder_create(name);
    uint32_t in, pool, rank;
    ccl_status_t status;
    if (!b)
        return ccl_fail_nomem(err);
    CCL_TRY_GOTO(ccl_topology_builder_gpu_model(b, core, err), status, done);
    CCL_TRY_GOTO(ccl_topology_builder_device(b, "queue", CCL_DEVICE_SWITCH, "host", CCL_NONE, NULL,
                                             &in, err),
                 status, done);
    CCL_TRY_GOTO(ccl_topology_builder_device(b, "workers", CCL_DEVICE_SWITCH, "host", CCL_NONE,
                                             NULL, &pool, err),
                 status, done);
    CCL_TRY_GOTO(ccl_topology_builder_link(b, in, pool, "host", workers_Bps, latency_s, 1, 0, err),
                 status, done);
    for (uint32_t r = 0; r < nranks; r++) {
        char id[24];
        snprintf(id, sizeof id, "rank%u", r);
        CCL_TRY_GOTO(
            ccl_topology_builder_device(b, id, CCL_DEVICE_GPU, "host", r, core->name, &rank, err),
            status, done);
        CCL_TRY_GOTO(ccl_topology_builder_link(b, rank, in, "host", WIDE_Bps, 0, 1, 0, err), status,
                     done);
        CCL_TRY_GOTO(ccl_topology_builder_link(b, pool, rank, "host", WIDE_Bps, 0, 1, 0, err),
                     status, done);
    }
    if (transport)
        CCL_TRY_GOTO(ccl_topology_builder_transport(b, transport, err), status, done);
    status = ccl_topology_builder_finish(b, out, err);
done:
    ccl_topology_builder_destroy(b);
    return status;
}

ccl_status_t ccl_i_topology_read_host(const char *text, ccl_topology_t **out, ccl_error_t *err) {
    const char *digits = text + strlen("host:");
    char *end = NULL;
    unsigned long ranks = *digits >= '0' && *digits <= '9' ? strtoul(digits, &end, 10) : 0;
    if (ranks < 1 || ranks > MAX_RANKS || *end)
        return ccl_error_set(err, CCL_ERR_INPUT, "one-liner", 1, 6,
                             "host:N wants 1 to %d ranks and nothing else, not \"%.40s\"",
                             MAX_RANKS, digits);
    ccl_gpu_model_t core = ccl_gpu_model_default("host");
    return ccl_topology_host(text, (uint32_t)ranks, &core, NOMINAL_Bps, 0, NULL, out, err);
}
