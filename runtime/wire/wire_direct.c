/**
 * @file wire_direct.c
 * Slots in memory of devices that an RDMA device reaches.
 */
#include "runtime/wire/wire_direct.h"

#include <stdlib.h>
#include <string.h>

ccl_status_t ccl_i_wire_direct_init(const ccl_i_job_t *job, ccl_i_wire_direct_t *out,
                                    ccl_error_t *err) {
    const ccl_i_wire_reach_t *r = &job->reach;
    uint32_t n = job->plan->dev.nconns;
    out->job = job;
    out->from_at = calloc(n + (size_t)1, sizeof *out->from_at);
    out->to_at = calloc(n + (size_t)1, sizeof *out->to_at);
    out->part_bytes = calloc(r->nparts + (size_t)1, sizeof *out->part_bytes);
    if (!out->from_at || !out->to_at || !out->part_bytes)
        return ccl_fail_nomem(err);
    for (uint32_t c = 0; c < n; c++) {
        if (!r->carried[c])
            continue;
        uint64_t bytes = ccl_i_wire_slots_bytes(&job->plan->conns[c]);
        out->from_at[c] = out->part_bytes[r->from[c]];
        out->to_at[c] = out->part_bytes[r->to[c]];
        out->part_bytes[r->from[c]] += bytes;
        out->part_bytes[r->to[c]] += bytes;
    }
    return CCL_OK;
}

static void close_parts(ccl_i_wire_direct_t *d) {
    for (uint32_t k = 0; k < CCL_I_MOST_PARTS; k++)
        if (d->parts[k].ops)
            ccl_i_direct_close(&d->parts[k]);
}

void ccl_i_wire_direct_open(ccl_i_wire_direct_t *d, const ccl_i_direct_calls_t *calls) {
    const ccl_i_job_t *job = d->job;
    const uint64_t *bytes = d->part_bytes + job->reach.first_part[job->self];
    d->path = CCL_I_DIRECT_DMABUF;
    for (uint32_t k = 0; k < job->nparts && d->path != CCL_I_DIRECT_HOST; k++) {
        ccl_i_direct_t *part = &d->parts[k];
        if (bytes[k] == 0)
            continue;
        ccl_i_direct_open(job->ops, job->parts[k].device, calls, bytes[k], part);
        d->used = true;
        if (part->path < d->path) {
            d->path = part->path;
            memcpy(d->why, part->why, sizeof d->why);
        }
    }
    if (d->path != CCL_I_DIRECT_HOST)
        return;
    d->used = false;
    close_parts(d);
}

const ccl_i_direct_t *ccl_i_wire_direct_of(const ccl_i_wire_direct_t *d, uint32_t conn,
                                           uint64_t *at_out) {
    if (!d->used || !d->job->reach.carried[conn])
        return NULL;
    const ccl_i_wire_reach_t *r = &d->job->reach;
    uint32_t first = r->first_part[d->job->self], k = r->from[conn] - first; /* wraps around */
    *at_out = d->from_at[conn];
    if (k >= d->job->nparts) {
        k = r->to[conn] - first;
        *at_out = d->to_at[conn];
    }
    return k < d->job->nparts ? &d->parts[k] : NULL;
}

void ccl_i_wire_direct_fini(ccl_i_wire_direct_t *d) {
    close_parts(d);
    free(d->from_at);
    free(d->to_at);
    free(d->part_bytes);
    memset(d, 0, sizeof *d);
}
