/* The table of one machine's devices. */
#include "topologies/readers/machine/machine.h"

#include <stdlib.h>
#include <string.h>

ccl_status_t ccl_i_machine_init(ccl_i_machine_t *m, const char *file, uint32_t ngpus,
                                uint32_t nnics, ccl_error_t *err) {
    size_t n = (size_t)ngpus + nnics;
    memset(m, 0, sizeof *m);
    if (ngpus == 0)
        return ccl_error_set(err, CCL_ERR_INPUT, file, 0, 0, "no gpu");
    if (n > CCL_I_MACHINE_MAX_DEVICES)
        return ccl_error_set(err, CCL_ERR_INPUT, file, 0, 0,
                             "%zu gpus and NICs in one machine, more than %u", n,
                             CCL_I_MACHINE_MAX_DEVICES);
    m->ngpus = ngpus;
    m->nnics = nnics;
    m->devs = calloc(n, sizeof *m->devs);
    m->lanes = calloc(ngpus, ngpus);
    m->near = malloc(n * n);
    if (!m->devs || !m->lanes || !m->near) {
        ccl_i_machine_fini(m);
        return ccl_fail_nomem(err);
    }
    memset(m->near, CCL_I_NEAR_UNKNOWN, n * n);
    for (size_t d = 0; d < n; d++)
        m->devs[d].numa = -1;
    return CCL_OK;
}

void ccl_i_machine_fini(ccl_i_machine_t *m) {
    free(m->devs);
    free(m->lanes);
    free(m->near);
    memset(m, 0, sizeof *m);
}
