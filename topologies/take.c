/* The GPUs of a cluster that a measured run used. */
#include "topologies/topologies.h"

#include <stdlib.h>

/* Servers in the order of their lowest rank; GPUs without a server are one each, or, where nobody
   has a server, all one. */
static uint32_t number_servers(const ccl_topology_t *topo, uint32_t *number_of, uint32_t *server,
                               uint32_t *gpus) {
    uint32_t n = 0;
    for (uint32_t s = 0; s <= topo->nservers; s++)
        number_of[s] = CCL_NONE;
    for (uint32_t r = 0; r < topo->nranks; r++) {
        uint32_t mine = topo->devices[topo->rank_device[r]].server;
        bool alone = mine == CCL_NONE && topo->nservers > 0;
        uint32_t *number = &number_of[mine == CCL_NONE ? topo->nservers : mine];
        if (alone || *number == CCL_NONE) {
            gpus[n] = 0;
            *number = n++;
        }
        server[r] = *number;
        gpus[server[r]]++;
    }
    return n;
}

static ccl_status_t plan(const ccl_topology_t *topo, uint32_t nranks, uint32_t nhosts, bool *keep,
                         ccl_error_t *err) {
    uint32_t *server = malloc((size_t)topo->nranks * sizeof *server);
    uint32_t *gpus = malloc((size_t)topo->nranks * sizeof *gpus);
    uint32_t *taken = calloc(topo->nranks, sizeof *taken);
    uint32_t *number_of = malloc(((size_t)topo->nservers + 1) * sizeof *number_of);
    ccl_status_t status = CCL_OK;
    if (!server || !gpus || !taken || !number_of) {
        status = ccl_fail_nomem(err);
        goto done;
    }
    uint32_t nservers = number_servers(topo, number_of, server, gpus), each = 0;
    if (nhosts == 0) {
        nhosts = (nranks + gpus[0] - 1) / gpus[0];
        each = nhosts == 1 ? nranks : gpus[0];
    } else if (nranks % nhosts == 0) {
        each = nranks / nhosts;
    }
    bool fits = each > 0 && (uint64_t)each * nhosts == nranks && nhosts <= nservers;
    for (uint32_t h = 0; fits && h < nhosts; h++)
        fits = gpus[h] >= each;
    if (!fits) {
        status =
            ccl_fail(err, CCL_ERR_INPUT,
                     "a run of %u ranks on %u hosts does not fit cluster \"%.100s\" of %u GPUs "
                     "on %u servers (the first has %u)",
                     nranks, nhosts, topo->name, topo->nranks, nservers, gpus[0]);
        goto done;
    }
    for (uint32_t r = 0; r < topo->nranks; r++)
        keep[r] = server[r] < nhosts && taken[server[r]]++ < each;
done:
    free(number_of);
    free(taken);
    free(gpus);
    free(server);
    return status;
}

ccl_status_t ccl_topology_keep(const ccl_topology_t *topo, const bool *keep, ccl_topology_t **out,
                               ccl_error_t *err) {
    ccl_text_t text = {0};
    ccl_topology_t *now = NULL;
    ccl_status_t status = ccl_topology_write_json(topo, &text, err);
    if (status == CCL_OK)
        status = ccl_topology_read_json(NULL, topo->name, text.data, text.len, &now, err);
    ccl_text_fini(&text);
    /* From the last rank on, so that the numbers of those before it stay. */
    for (uint32_t r = topo->nranks; status == CCL_OK && r-- > 0;) {
        char edit[32];
        ccl_topology_t *less = NULL;
        if (keep[r])
            continue;
        snprintf(edit, sizeof edit, "fail:gpu:%u", r);
        status = ccl_topology_edit(now, edit, &less, err);
        ccl_topology_destroy(now);
        now = less;
    }
    if (status == CCL_OK)
        *out = now;
    return status;
}

ccl_status_t ccl_topology_take(const ccl_topology_t *topo, uint32_t nranks, uint32_t nhosts,
                               ccl_topology_t **out, ccl_error_t *err) {
    bool *keep = malloc((size_t)topo->nranks * sizeof *keep);
    ccl_status_t status = CCL_OK;
    if (!keep)
        return ccl_fail_nomem(err);
    if (nranks == 0 || nranks > topo->nranks) {
        status =
            ccl_fail(err, CCL_ERR_INPUT, "a run of %u ranks, but cluster \"%.100s\" has %u GPUs",
                     nranks, topo->name, topo->nranks);
    } else if (nranks == topo->nranks && nhosts == 0) {
        for (uint32_t r = 0; r < nranks; r++)
            keep[r] = true;
    } else {
        status = plan(topo, nranks, nhosts, keep, err);
    }
    if (status == CCL_OK)
        status = ccl_topology_keep(topo, keep, out, err);
    free(keep);
    return status;
}
