/**
 * @file switches.c
 * Which switch connections lie in multicast memory, and where.
 *
 * @par Source  CUDA driver API, multicast objects; NCCL's NVLS, whose buffers lie with the members
 *              in both directions.
 */
#include "runtime/wire/switches.h"

#include "runtime/job.h"

#include <stdlib.h>
#include <string.h>

enum { SLOT_ALIGN_BYTES = 128 };

/* ---------------------------------------------------------------- which */

static bool add(ccl_i_wire_switches_t *s, uint32_t first, uint32_t n, bool pulls) {
    if (s->of_conn[first] != CCL_NONE)
        return true;
    size_t cap = s->n;
    ccl_i_wire_switch_t *grown = realloc(s->items, (cap + 1) * sizeof *grown);
    if (!grown)
        return false;
    s->items = grown;
    for (uint32_t c = first; c < first + n; c++)
        s->of_conn[c] = s->n;
    s->items[s->n++] =
        (ccl_i_wire_switch_t){.first = first, .n = n, .pulls = pulls, .memory = CCL_NONE};
    return true;
}

static ccl_status_t find(ccl_i_job_t *job, ccl_error_t *err) {
    const ccl_device_plan_t *plan = &job->plan->dev;
    ccl_i_wire_switches_t *s = &job->reach.switches;
    s->of_conn = malloc((plan->nconns + (size_t)1) * sizeof *s->of_conn);
    if (!s->of_conn)
        return ccl_fail_nomem(err);
    for (uint32_t c = 0; c < plan->nconns; c++)
        s->of_conn[c] = CCL_NONE;
    for (uint32_t i = 0; i < plan->nsteps; i++) {
        const ccl_device_step_t *d = &plan->steps[i];
        if ((d->nsend > 1 && !add(s, d->send, d->nsend, false)) ||
            (d->nrecv > 1 && !add(s, d->recv, d->nrecv, true)))
            return ccl_fail_nomem(err);
    }
    return CCL_OK;
}

static uint32_t process_of_part(const ccl_i_job_t *job, uint32_t part) {
    uint32_t p = 0;
    while (part >= job->reach.first_part[p + 1])
        p++;
    return p;
}

/** Bits of its members among the parts of a process; 0: they are not devices of one process. */
static uint32_t members_of(const ccl_i_job_t *job, const ccl_i_wire_switch_t *s,
                           uint32_t *process_out) {
    const ccl_i_wire_reach_t *r = &job->reach;
    uint32_t members = 0;
    *process_out = process_of_part(job, r->from[s->first]);
    for (uint32_t c = s->first; c < s->first + s->n; c++) {
        uint32_t member = s->pulls ? r->from[c] : r->to[c];
        if (process_of_part(job, r->from[c]) != *process_out ||
            process_of_part(job, r->to[c]) != *process_out)
            return 0;
        uint32_t bit = UINT32_C(1) << (member - r->first_part[*process_out]);
        if (members & bit) /* two of them share a device, which has one part */
            return 0;
        members |= bit;
    }
    return members;
}

/** Its memory, as yet one that is wanted only. */
static ccl_status_t choose_memory(ccl_i_job_t *job, ccl_i_wire_switch_t *it, uint32_t process,
                                  uint32_t members, ccl_error_t *err) {
    ccl_i_wire_switches_t *s = &job->reach.switches;
    const ccl_device_conn_t *c = &job->plan->conns[it->first];
    uint32_t m = 0;
    while (m < s->nmemories &&
           (s->memories[m].process != process || s->memories[m].members != members))
        m++;
    if (m == s->nmemories) {
        ccl_i_wire_memory_t *grown = realloc(s->memories, (m + (size_t)1) * sizeof *grown);
        if (!grown)
            return ccl_fail_nomem(err);
        s->memories = grown;
        s->memories[s->nmemories++] = (ccl_i_wire_memory_t){.process = process, .members = members};
    }
    it->memory = m;
    it->at = s->memories[m].bytes;
    uint64_t bytes = c->slot_bytes * c->slots;
    s->memories[m].bytes += (bytes + SLOT_ALIGN_BYTES - 1) / SLOT_ALIGN_BYTES * SLOT_ALIGN_BYTES;
    return CCL_OK;
}

uint32_t ccl_i_switches_can(const ccl_i_job_t *job) {
    const ccl_device_plan_t *plan = &job->plan->dev;
    const ccl_device_ops_t *ops = job->ops;
    if (!ops->multicast_reduces || !ops->multicast_alloc || !ops->multicast_free)
        return 0;
    for (uint32_t k = 0; k < job->nparts; k++)
        if (!job->parts[k].properties.multicast)
            return 0;
    return CCL_I_SWITCHES_CAST |
           (ops->multicast_reduces(plan->type, plan->op) ? CCL_I_SWITCHES_PULL : 0);
}

ccl_status_t ccl_i_switches_init(ccl_i_job_t *job, const uint32_t *can, ccl_error_t *err) {
    ccl_i_wire_switches_t *s = &job->reach.switches;
    CCL_TRY(find(job, err));
    /* Lines carry their flags with them, which no switch can sum. */
    for (uint32_t i = 0; i < s->n && job->plan->dev.protocol == CCL_DEVICE_SIMPLE; i++) {
        uint32_t process, members = members_of(job, &s->items[i], &process);
        uint32_t wanted = s->items[i].pulls ? CCL_I_SWITCHES_PULL : CCL_I_SWITCHES_CAST;
        if (members && (can[process] & wanted))
            CCL_TRY(choose_memory(job, &s->items[i], process, members, err));
    }
    return CCL_OK;
}

/* ---------------------------------------------------------------- making them */

static bool make(ccl_i_job_t *job, ccl_i_wire_memory_t *m) {
    ccl_device_handle_t *devices[CCL_I_MOST_PARTS];
    uint32_t members = 0, n = 0, part_of[CCL_I_MOST_PARTS];
    for (uint32_t others = 0; others < 2; others++) {
        for (uint32_t k = 0; k < job->nparts; k++) {
            if ((m->members >> k & 1) == others)
                continue;
            part_of[n] = k;
            devices[n++] = job->parts[k].device;
        }
        members = others ? members : n;
    }
    if (job->ops->multicast_alloc(devices, n, members, m->bytes, &m->memory))
        return false;
    for (uint32_t i = 0; i < members; i++) {
        ccl_device_stream_t *stream = job->parts[part_of[i]].stream;
        if (job->ops->memory_set(stream, m->memory->parts[i], 0, m->bytes) ||
            job->ops->stream_wait(stream))
            return false;
    }
    return true;
}

bool ccl_i_switches_make(ccl_i_job_t *job) {
    ccl_i_wire_switches_t *s = &job->reach.switches;
    for (uint32_t i = 0; i < s->nmemories; i++)
        if (s->memories[i].process == job->self && !make(job, &s->memories[i]))
            return false;
    return true;
}

void ccl_i_switches_drop(ccl_i_job_t *job) {
    ccl_i_wire_switches_t *s = &job->reach.switches;
    for (uint32_t i = 0; i < s->nmemories; i++)
        if (s->memories[i].memory)
            job->ops->multicast_free(s->memories[i].memory);
    for (uint32_t i = 0; i < s->n; i++)
        s->items[i].memory = CCL_NONE;
    s->nmemories = 0;
}

/* ---------------------------------------------------------------- using them */

static const ccl_i_wire_switch_t *switch_of(const ccl_i_job_t *job, uint32_t conn) {
    const ccl_i_wire_switches_t *s = &job->reach.switches;
    return s->of_conn[conn] == CCL_NONE ? NULL : &s->items[s->of_conn[conn]];
}

bool ccl_i_switches_hold(const ccl_i_job_t *job, uint32_t conn) {
    const ccl_i_wire_switch_t *s = switch_of(job, conn);
    return s && s->memory != CCL_NONE;
}

void ccl_i_switches_address(ccl_i_job_t *job, uint32_t conn) {
    const ccl_i_wire_reach_t *r = &job->reach;
    const ccl_i_wire_switch_t *s = switch_of(job, conn);
    const ccl_i_wire_memory_t *m = &r->switches.memories[s->memory];
    uint32_t member = (s->pulls ? r->from[conn] : r->to[conn]) - r->first_part[job->self];
    /* Parts are in the order of the bits. */
    uint32_t part = (uint32_t)__builtin_popcount(m->members & ((UINT32_C(1) << member) - 1));
    job->plan->conns[conn].data = (char *)m->memory->parts[part] + s->at;
    if (conn == s->first)
        job->plan->conns[conn].multi = (char *)m->memory->multi + s->at;
}

uint32_t ccl_i_switches_held(const ccl_i_job_t *job) {
    const ccl_i_wire_switches_t *s = &job->reach.switches;
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n; i++)
        n += s->items[i].memory != CCL_NONE;
    return n;
}

void ccl_i_switches_fini(ccl_i_job_t *job) {
    ccl_i_wire_switches_t *s = &job->reach.switches;
    ccl_i_switches_drop(job);
    free(s->items);
    free(s->memories);
    free(s->of_conn);
    memset(s, 0, sizeof *s);
}
