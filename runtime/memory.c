/**
 * @file memory.c
 * A job's device, memory and connections.
 */
#define _GNU_SOURCE
#include "runtime/job.h"
#include "runtime/hom/hom.h"
#include "runtime/hom/vendor.h"
#include "runtime/wire/wire.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { LINE_BYTES = 128, FLAG_BYTES = 2 * LINE_BYTES };

static size_t scheds_bytes(const ccl_i_run_plan_t *plan, uint32_t nprocesses) {
    size_t sum = 0;
    for (uint32_t p = 0; p < nprocesses; p++) {
        uint32_t first = ccl_i_first_rank(plan, nprocesses, p);
        uint32_t end = ccl_i_first_rank(plan, nprocesses, p + 1);
        sum += ccl_i_sched_bytes(plan->rank_first_unit[end] - plan->rank_first_unit[first]);
    }
    return sum;
}

size_t ccl_i_region_bytes(const ccl_i_run_plan_t *plan, uint32_t nprocesses) {
    return scheds_bytes(plan, nprocesses) + (size_t)plan->dev.nconns * FLAG_BYTES +
           (size_t)plan->fifo_bytes + LINE_BYTES;
}

static ccl_status_t device_fail(const ccl_i_job_t *job, int code, const char *what,
                                ccl_error_t *err) {
    return ccl_fail(err, CCL_ERR_IO, "device %s: %s: %s", job->ops->name, what,
                    job->ops->error_text(code));
}

#define DEVICE_TRY(call_, what_)                                                                   \
    do {                                                                                           \
        int code_ = (call_);                                                                       \
        if (code_)                                                                                 \
            return device_fail(job, code_, what_, err);                                            \
    } while (0)

/* ---------------------------------------------------------------- parts */

static ccl_status_t check_memory(const ccl_i_job_t *job, const ccl_i_job_part_t *part,
                                 ccl_error_t *err) {
    double need = (double)job->region_bytes;
    for (uint32_t r = 0; r < job->plan->dev.nranks; r++)
        if (job->region_is_shared || (r >= part->first_rank && r < part->end_rank))
            need += (double)job->plan->layout.rank_items[r] * job->plan->layout.item_bytes;
    if (part->properties.memory_bytes && need > 0.9 * (double)part->properties.memory_bytes)
        return ccl_fail(err, CCL_ERR_NOMEM,
                        "the run needs %.1f GiB of memory, the device has %.1f: take a smaller "
                        "size",
                        need / 0x1p30, (double)part->properties.memory_bytes / 0x1p30);
    return CCL_OK;
}

static ccl_status_t make_region(ccl_i_job_t *job, ccl_error_t *err) {
    if (job->region)
        return CCL_OK; /* shared: was made before */
    void *memory = mmap(NULL, job->region_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return ccl_fail_nomem(err);
    job->region = memory;
    return CCL_OK;
}

/** Units to processes; marks of the host's units in the region. */
static ccl_status_t make_scheds(ccl_i_job_t *job, bool host, ccl_error_t *err) {
    const ccl_i_run_plan_t *plan = job->plan;
    job->scheds = calloc(job->nprocesses + (size_t)1, sizeof *job->scheds);
    job->unit_process = malloc((plan->dev.nunits + (size_t)1) * sizeof *job->unit_process);
    if (!job->scheds || !job->unit_process)
        return ccl_fail_nomem(err);
    char *at = job->region;
    for (uint32_t p = 0; p < job->nprocesses; p++) {
        uint32_t first = plan->rank_first_unit[ccl_i_first_rank(plan, job->nprocesses, p)];
        uint32_t end = plan->rank_first_unit[ccl_i_first_rank(plan, job->nprocesses, p + 1)];
        for (uint32_t u = first; u < end; u++)
            job->unit_process[u] = p;
        if (!host)
            continue;
        if (p == job->self || job->region_is_shared)
            job->scheds[p] = (ccl_i_sched_t *)at;
        if (p == job->self)
            ccl_i_sched_init(job->scheds[p], first, end - first);
        at += ccl_i_sched_bytes(end - first);
    }
    job->host =
        (ccl_i_host_t){.self = job->self, .scheds = job->scheds, .unit_process = job->unit_process};
    return CCL_OK;
}

static void connect_region(ccl_i_job_t *job) {
    ccl_i_run_plan_t *plan = job->plan;
    char *flags = job->region + scheds_bytes(plan, job->nprocesses);
    char *slots = flags + (size_t)plan->dev.nconns * FLAG_BYTES;
    for (uint32_t c = 0; c < plan->dev.nconns; c++) {
        plan->conns[c].head = (uint64_t *)(void *)(flags + (size_t)c * FLAG_BYTES);
        plan->conns[c].tail = (uint64_t *)(void *)(flags + (size_t)c * FLAG_BYTES + LINE_BYTES);
        plan->conns[c].data = slots + plan->conn_at[c];
        if (plan->first_slice) {
            __atomic_store_n(plan->conns[c].head, plan->first_slice, __ATOMIC_RELAXED);
            __atomic_store_n(plan->conns[c].tail, plan->first_slice, __ATOMIC_RELAXED);
        }
    }
}

static ccl_status_t make_buffers(ccl_i_job_t *job, ccl_error_t *err) {
    const ccl_i_layout_t *l = &job->plan->layout;
    uint32_t nranks = job->plan->dev.nranks;
    job->memory = calloc(nranks + (size_t)1, sizeof *job->memory);
    job->staging = calloc(nranks + (size_t)1, sizeof *job->staging);
    job->places = calloc(job->plan->dev.nunits + (size_t)1, sizeof *job->places);
    job->uses = calloc(job->plan->dev.nunits + (size_t)1, sizeof *job->uses);
    job->plan->dev.done = calloc(job->plan->dev.nsteps + (size_t)1, sizeof(uint64_t));
    if (!job->memory || !job->staging || !job->places || !job->uses || !job->plan->dev.done)
        return ccl_fail_nomem(err);
    for (uint32_t r = job->first_rank; r < job->end_rank; r++) {
        const ccl_i_job_part_t *part = ccl_i_part_of(job, r);
        size_t bytes = (size_t)l->rank_items[r] * l->item_bytes;
        DEVICE_TRY(job->ops->memory_alloc(part->device, bytes, &job->memory[r]), "memory");
        if (part->properties.host_access)
            job->staging[r] = job->memory[r];
        else
            DEVICE_TRY(job->ops->host_alloc(part->device, bytes, &job->staging[r]), "host memory");
    }
    return CCL_OK;
}

/* ---------------------------------------------------------------- devices */

static ccl_status_t open_part(ccl_i_job_t *job, ccl_i_job_part_t *part, ccl_error_t *err) {
    const uint32_t *first = job->plan->rank_first_unit;
    uint32_t blocks = first[part->end_rank] - first[part->first_rank];
    DEVICE_TRY(job->ops->properties(part->index, &part->properties), "properties");
    if (part->properties.max_blocks && blocks > part->properties.max_blocks)
        return ccl_fail(err, CCL_UNSUPPORTED,
                        "the program has %u thread blocks, device %s holds %u at once", blocks,
                        job->ops->name, part->properties.max_blocks);
    DEVICE_TRY(job->ops->open(part->index, &part->device), "opening it");
    DEVICE_TRY(job->ops->stream_create(part->device, &part->stream), "stream");
    return check_memory(job, part, err);
}

static ccl_status_t open_parts(ccl_i_job_t *job, ccl_error_t *err) {
    void *words = NULL;
    for (uint32_t k = 0; k < job->nparts; k++)
        CCL_TRY(open_part(job, &job->parts[k], err));
    DEVICE_TRY(job->ops->host_alloc(job->parts[0].device, job->nparts * sizeof *job->words, &words),
               "host memory");
    job->words = words;
    memset(job->words, 0, job->nparts * sizeof *job->words);
    for (uint32_t k = 0; k < job->nparts; k++)
        job->parts[k].words = &job->words[k];
    return CCL_OK;
}

/** Not the host: the device says so itself. */
static ccl_status_t find_device(ccl_i_job_t *job, bool *host_out, ccl_error_t *err) {
    ccl_device_properties_t first;
    uint32_t devices = 0;
    CCL_TRY(ccl_i_device_find(job->kind, &job->ops, &job->module, err));
    DEVICE_TRY(job->ops->count(&devices), "looking for devices");
    if (devices == 0)
        return ccl_fail(err, CCL_ERR_MISSING, "no %s device is here", job->kind);
    DEVICE_TRY(job->ops->properties(0, &first), "properties");
    *host_out = first.host_access;
    return CCL_OK;
}

/** The host: one part, whose memory all processes on the machine may share. */
static ccl_status_t open_host(ccl_i_job_t *job, ccl_error_t *err) {
    job->parts = calloc(1, sizeof *job->parts);
    if (!job->parts)
        return ccl_fail_nomem(err);
    job->nparts = 1;
    job->parts[0].first_rank = job->first_rank;
    job->parts[0].end_rank = job->end_rank;
    job->region_bytes = ccl_i_region_bytes(job->plan, job->nprocesses);
    CCL_TRY(open_parts(job, err));
    CCL_TRY(make_region(job, err));
    CCL_TRY(make_scheds(job, true, err));
    job->plan->dev.host = &job->host;
    connect_region(job);
    return CCL_OK;
}

/** Devices whose memory is not the host's; in a mixed job the host too, as one more of them. */
static ccl_status_t open_devices(ccl_i_job_t *job, bool host, ccl_error_t *err) {
    uint32_t devices = 0;
    job->region_bytes = host ? ccl_i_region_bytes(job->plan, job->nprocesses) : job->region_bytes;
    ccl_status_t status = host ? make_region(job, err) : CCL_OK;
    if (status == CCL_OK)
        status = make_scheds(job, host, err);
    CCL_TRY(ccl_i_group_agree(job->group, status, err));
    int code = job->ops->count(&devices);
    if (code)
        status = device_fail(job, code, "looking for devices", err);
    CCL_TRY(ccl_i_group_agree(job->group, status, err));
    CCL_TRY(ccl_i_group_agree(job->group, ccl_i_reach_parts(job, devices, err), err));
    CCL_TRY(ccl_i_group_agree(job->group, open_parts(job, err), err));
    CCL_TRY(ccl_i_reach_connect(job, job->region_is_shared ? job->region : NULL, err));
    if (host) {
        job->plan->dev.host = &job->host;
        connect_region(job);
    }
    return CCL_OK;
}

/* ---------------------------------------------------------------- all of it */

ccl_status_t ccl_i_job_open(ccl_i_job_t *job, ccl_error_t *err) {
    ccl_i_run_plan_t *plan = job->plan;
    bool host = false;
    CCL_TRY(ccl_i_group_agree(job->group, find_device(job, &host, err), err));
    CCL_TRY(host && !job->mixed ? open_host(job, err) : open_devices(job, host, err));
    CCL_TRY(make_buffers(job, err));
    plan->dev.memory = job->memory;
    plan->dev.first_unit = plan->rank_first_unit[job->first_rank];
    plan->dev.end_unit = plan->rank_first_unit[job->end_rank];
    for (uint32_t k = 0; k < job->nparts; k++) {
        job->parts[k].plan = plan->dev;
        job->parts[k].plan.first_unit = plan->rank_first_unit[job->parts[k].first_rank];
        job->parts[k].plan.end_unit = plan->rank_first_unit[job->parts[k].end_rank];
    }
    uint32_t own = plan->dev.end_unit - plan->dev.first_unit;
    job->threads = job->threads > own ? own : job->threads;
    job->threads = job->threads ? job->threads : 1;
    return CCL_OK;
}

static void close_parts(ccl_i_job_t *job) {
    if (job->words)
        job->ops->host_free(job->parts[0].device, job->words);
    for (uint32_t k = 0; k < job->nparts; k++) {
        if (job->parts[k].stream)
            job->ops->stream_destroy(job->parts[k].stream);
        if (job->parts[k].device)
            job->ops->close(job->parts[k].device);
    }
    free(job->parts);
}

void ccl_i_job_close(ccl_i_job_t *job, bool together) {
    bool host = job->nparts && job->parts[0].properties.host_access;
    ccl_i_vendor_close(job->vendor); /* it may still use the memory */
    ccl_i_hom_disconnect(job->hom);
    for (uint32_t k = 0; k < job->nparts; k++) {
        if (job->parts[k].loaded)
            job->ops->program_unload(job->parts[k].loaded);
        ccl_text_fini(&job->parts[k].kernel);
    }
    ccl_i_wire_destroy(job->wire);
    for (uint32_t r = job->first_rank; job->memory && job->staging && r < job->end_rank; r++) {
        const ccl_i_job_part_t *part = ccl_i_part_of(job, r);
        if (job->staging[r] && job->staging[r] != job->memory[r])
            job->ops->host_free(part->device, job->staging[r]);
        if (job->memory[r])
            job->ops->memory_free(part->device, job->memory[r]);
    }
    if (host && job->region && !job->region_is_shared)
        munmap(job->region, job->region_bytes);
    if (job->nparts && (!host || job->mixed))
        ccl_i_reach_close(job, together);
    close_parts(job);
    ccl_i_device_release(job->module);
    free(job->memory);
    free(job->staging);
    free(job->places);
    free(job->uses);
    free(job->scheds);
    free(job->unit_process);
    free(job->plan->dev.done);
    job->plan->dev.done = NULL;
}
