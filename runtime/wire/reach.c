/**
 * @file reach.c
 * FIFOs between devices. A region of each device holds what its ranks receive into and the flags
 * that they wait for; other devices write there, those of other processes through IPC handles
 * that are exchanged at the start. What cannot be reached so lies in memory of the host that the
 * devices of both ends see; between machines TCP passes it on (wire.c).
 *
 * @par Source  NCCL's P2P and SHM transports: FIFOs with the receiver, its head there, the tail
 *              with the sender, so that nobody polls far away.
 */
#define _GNU_SOURCE
#include "runtime/wire/reach.h"

#include "runtime/wire/bootstrap.h"
#include "runtime/job.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { LINE_BYTES = 128 };

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

static uint32_t process_of(const ccl_i_job_t *job, uint32_t unit) {
    return job->unit_process[unit];
}

static bool own_part(const ccl_i_job_t *job, uint32_t part) {
    const ccl_i_wire_reach_t *r = &job->reach;
    return part >= r->first_part[job->self] && part < r->first_part[job->self + 1];
}

/* ---------------------------------------------------------------- which devices */

/** First rank of a part of a process. */
static uint32_t part_rank(const ccl_i_job_t *job, uint32_t process, uint32_t part, uint32_t parts) {
    uint32_t first = ccl_i_first_rank(job->plan, job->nprocesses, process);
    uint32_t end = ccl_i_first_rank(job->plan, job->nprocesses, process + 1);
    return first + (uint32_t)((uint64_t)(end - first) * part / parts);
}

/** Devices that a process of a machine uses: a fair share of them, at least one. */
uint32_t ccl_i_reach_share(uint32_t devices, uint32_t processes, uint32_t ranks) {
    uint32_t n = devices / processes;
    n = n < ranks ? n : ranks;
    n = n < CCL_I_MOST_PARTS ? n : CCL_I_MOST_PARTS;
    return n ? n : 1;
}

typedef struct card {
    uint64_t machine;
    uint32_t devices, peers;
    char kind[CCL_I_KIND_LEN];
} card_t;

static bool alike(const card_t *a, const card_t *b) {
    return a->machine == b->machine && strcmp(a->kind, b->kind) == 0;
}

static ccl_status_t set_parts(ccl_i_job_t *job, const card_t *cards, ccl_error_t *err) {
    ccl_i_wire_reach_t *r = &job->reach;
    uint32_t first_device = 0;
    for (uint32_t p = 0; p < job->nprocesses; p++) {
        uint32_t here = 0, before = 0;
        uint32_t ranks = ccl_i_first_rank(job->plan, job->nprocesses, p + 1) -
                         ccl_i_first_rank(job->plan, job->nprocesses, p);
        for (uint32_t i = 0; i < job->nprocesses; i++) {
            here += alike(&cards[i], &cards[p]);
            before += i < p && alike(&cards[i], &cards[p]);
        }
        uint32_t parts = ccl_i_reach_share(cards[p].devices, here, ranks);
        r->machines[p] = cards[p].machine;
        r->first_part[p + 1] = r->first_part[p] + parts;
        uint32_t each = cards[p].devices / here;
        if (p == job->self)
            first_device = each ? before * each : before % cards[p].devices;
    }
    r->nparts = r->first_part[job->nprocesses];
    job->nparts = r->first_part[job->self + 1] - r->first_part[job->self];
    job->parts = calloc(job->nparts, sizeof *job->parts);
    if (!job->parts)
        return ccl_fail_nomem(err);
    for (uint32_t k = 0; k < job->nparts; k++) {
        job->parts[k].index = first_device + k;
        job->parts[k].first_rank = part_rank(job, job->self, k, job->nparts);
        job->parts[k].end_rank = part_rank(job, job->self, k + 1, job->nparts);
    }
    return CCL_OK;
}

ccl_status_t ccl_i_reach_parts(ccl_i_job_t *job, uint32_t devices, ccl_error_t *err) {
    ccl_i_wire_reach_t *r = &job->reach;
    uint32_t n = job->nprocesses;
    card_t mine = {.machine = ccl_i_bootstrap_machine(), .devices = devices};
    card_t *cards = calloc(n, sizeof *cards);
    memcpy(mine.kind, job->kind, sizeof mine.kind);
    r->first_part = calloc(n + (size_t)1, sizeof *r->first_part);
    r->machines = calloc(n, sizeof *r->machines);
    r->peers = calloc(n, sizeof *r->peers);
    ccl_status_t status =
        cards && r->first_part && r->machines && r->peers ? CCL_OK : ccl_fail_nomem(err);
    if (status == CCL_OK)
        status = ccl_i_group_exchange(job->group, &mine, sizeof mine, cards, NULL, err);
    for (uint32_t p = 0; p < n && status == CCL_OK; p++)
        if (cards[p].devices == 0) /* every process says so, none waits for the others */
            status = ccl_fail(err, CCL_ERR_MISSING, "no %s device is here", cards[p].kind);
    if (status == CCL_OK)
        status = set_parts(job, cards, err);
    free(cards);
    return status;
}

/** Devices of this process reach each other. */
static bool enable_peers(const ccl_i_job_t *job) {
    for (uint32_t a = 0; a < job->nparts; a++)
        for (uint32_t b = 0; b < job->nparts; b++)
            if (a != b && (!job->ops->peer_enable ||
                           job->ops->peer_enable(job->parts[a].device, job->parts[b].index)))
                return false;
    return true;
}

/* ---------------------------------------------------------------- where FIFOs lie */

static bool direct(const ccl_i_job_t *job, uint32_t conn) {
    const ccl_i_wire_reach_t *r = &job->reach;
    uint32_t s = process_of(job, job->plan->conns[conn].sender);
    uint32_t d = process_of(job, job->plan->conns[conn].receiver);
    if (s == d)
        return r->from[conn] == r->to[conn] || r->peers[s];
    return r->ipc && r->machines[s] == r->machines[d];
}

/** Whether flags in lines can be relied on: else *head counts with every protocol. */
static bool counted(const ccl_i_job_t *job, uint32_t conn) {
    const ccl_i_wire_reach_t *r = &job->reach;
    uint32_t protocol = job->plan->dev.protocol;
    if (protocol == CCL_DEVICE_SIMPLE || r->carried[conn])
        return true;
    return protocol == CCL_DEVICE_LL128 &&
           !(direct(job, conn) && (r->from[conn] == r->to[conn] || r->whole_lines));
}

static bool own(const ccl_i_job_t *job, uint32_t conn) {
    return own_part(job, job->reach.from[conn]) || own_part(job, job->reach.to[conn]);
}

static uint32_t part_of(const ccl_i_job_t *job, uint32_t unit) {
    const ccl_i_wire_reach_t *r = &job->reach;
    uint32_t p = process_of(job, unit), rank = job->plan->units[unit].rank, k = 0;
    uint32_t parts = r->first_part[p + 1] - r->first_part[p];
    while (k + 1 < parts && rank >= part_rank(job, p, k + 1, parts))
        k++;
    return r->first_part[p] + k;
}

static uint64_t take(uint64_t *region_bytes, uint64_t bytes) {
    uint64_t at = *region_bytes;
    *region_bytes += (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
    return at;
}

/** Sizes of all regions and what lies where in them: every process finds the same. */
static void lay_out(ccl_i_job_t *job) {
    ccl_i_wire_reach_t *r = &job->reach;
    const ccl_i_run_plan_t *plan = job->plan;
    memset(r->region_bytes, 0, r->nparts * sizeof *r->region_bytes);
    r->staged = r->wired = false;
    for (uint32_t c = 0; c < plan->dev.nconns; c++) {
        bool across =
            process_of(job, plan->conns[c].sender) != process_of(job, plan->conns[c].receiver);
        if (!direct(job, c)) {
            r->staged = r->staged || own(job, c);
            r->carried[c] = across && !r->memory_is_shared;
            r->wired = r->wired || r->carried[c];
            continue;
        }
        r->carried[c] = false;
        r->head_at[c] =
            take(&r->region_bytes[counted(job, c) ? r->to[c] : r->from[c]], sizeof(uint64_t));
        r->tail_at[c] = take(&r->region_bytes[r->from[c]], sizeof(uint64_t));
        if (!ccl_i_switches_hold(job, c))
            r->data_at[c] =
                take(&r->region_bytes[r->to[c]], plan->conns[c].slot_bytes * plan->conns[c].slots);
    }
}

static ccl_status_t allot(ccl_i_job_t *job, ccl_error_t *err) {
    ccl_i_wire_reach_t *r = &job->reach;
    size_t n = job->plan->dev.nconns + (size_t)1;
    r->from = calloc(n, sizeof *r->from);
    r->to = calloc(n, sizeof *r->to);
    r->head_at = calloc(n, sizeof *r->head_at);
    r->tail_at = calloc(n, sizeof *r->tail_at);
    r->data_at = calloc(n, sizeof *r->data_at);
    r->region_bytes = calloc(r->nparts, sizeof *r->region_bytes);
    r->mapped = calloc((size_t)job->nparts * r->nparts, sizeof *r->mapped);
    r->conns = calloc(n, sizeof *r->conns);
    r->carried = calloc(n, sizeof *r->carried);
    if (!r->from || !r->to || !r->head_at || !r->tail_at || !r->data_at || !r->region_bytes ||
        !r->mapped || !r->conns || !r->carried)
        return ccl_fail_nomem(err);
    for (uint32_t c = 0; c < job->plan->dev.nconns; c++) {
        r->from[c] = part_of(job, job->plan->conns[c].sender);
        r->to[c] = part_of(job, job->plan->conns[c].receiver);
    }
    return CCL_OK;
}

static ccl_status_t make_regions(ccl_i_job_t *job, ccl_error_t *err) {
    const ccl_i_wire_reach_t *r = &job->reach;
    for (uint32_t k = 0; k < job->nparts; k++) {
        ccl_i_job_part_t *part = &job->parts[k];
        uint64_t bytes = r->region_bytes[r->first_part[job->self] + k];
        void *memory = NULL;
        if (bytes == 0 || part->properties.host_access) /* whose FIFOs lie elsewhere */
            continue;
        DEVICE_TRY(job->ops->memory_alloc(part->device, bytes, &memory), "memory");
        part->region = memory;
        DEVICE_TRY(job->ops->memory_set(part->stream, memory, 0, bytes), "memory");
        DEVICE_TRY(job->ops->stream_wait(part->stream), "memory");
    }
    return CCL_OK;
}

/* ---------------------------------------------------------------- between processes */

typedef struct handles {
    uint32_t ok, peers;
    ccl_device_ipc_t ipc[CCL_I_MOST_PARTS];
} handles_t;

/** Some connection of own part k has its other end at a part of another process. */
static bool wanted(const ccl_i_job_t *job, uint32_t k, uint32_t other) {
    const ccl_i_wire_reach_t *r = &job->reach;
    uint32_t part = r->first_part[job->self] + k;
    for (uint32_t c = 0; c < job->plan->dev.nconns; c++)
        if (((r->from[c] == part && r->to[c] == other) ||
             (r->to[c] == part && r->from[c] == other)) &&
            direct(job, c))
            return true;
    return false;
}

static void unmap(ccl_i_job_t *job) {
    ccl_i_wire_reach_t *r = &job->reach;
    for (uint32_t k = 0; r->mapped && k < job->nparts; k++) {
        for (uint32_t g = 0; g < r->nparts; g++) {
            void **m = &r->mapped[(size_t)k * r->nparts + g];
            if (*m)
                job->ops->ipc_close(job->parts[k].device, *m);
            *m = NULL;
        }
    }
}

static bool map(ccl_i_job_t *job, const handles_t *all) {
    ccl_i_wire_reach_t *r = &job->reach;
    for (uint32_t p = 0; p < job->nprocesses; p++) {
        for (uint32_t g = r->first_part[p]; g < r->first_part[p + 1] && p != job->self; g++)
            for (uint32_t k = 0; k < job->nparts; k++)
                if (wanted(job, k, g) &&
                    job->ops->ipc_open(job->parts[k].device, &all[p].ipc[g - r->first_part[p]],
                                       &r->mapped[(size_t)k * r->nparts + g]))
                    return false;
    }
    return true;
}

static bool offer(const ccl_i_job_t *job, handles_t *mine) {
    if (!job->ops->ipc_get || !job->ops->ipc_open || !job->ops->ipc_close)
        return false;
    for (uint32_t k = 0; k < job->nparts; k++) {
        if (!job->parts[k].properties.ipc)
            return false;
        if (job->parts[k].region &&
            job->ops->ipc_get(job->parts[k].device, job->parts[k].region, &mine->ipc[k]))
            return false;
    }
    return true;
}

/** All processes say whether they could; what one could not nobody does. */
static ccl_status_t all_ok(ccl_i_job_t *job, bool mine, bool *out, ccl_error_t *err) {
    uint32_t ok = mine, *all = calloc(job->nprocesses, sizeof *all);
    if (!all)
        return ccl_fail_nomem(err);
    ccl_status_t status = ccl_i_group_exchange(job->group, &ok, sizeof ok, all, NULL, err);
    *out = true;
    for (uint32_t p = 0; p < job->nprocesses; p++)
        *out = *out && all[p];
    free(all);
    return status;
}

static ccl_status_t exchange(ccl_i_job_t *job, ccl_error_t *err) {
    ccl_i_wire_reach_t *r = &job->reach;
    handles_t *mine = calloc(1, sizeof *mine), *all = calloc(job->nprocesses, sizeof *all);
    bool opened = false;
    ccl_status_t status = mine && all ? CCL_OK : ccl_fail_nomem(err);
    if (status == CCL_OK) {
        mine->ok = offer(job, mine);
        status = ccl_i_group_exchange(job->group, mine, sizeof *mine, all, NULL, err);
    }
    if (status == CCL_OK) {
        bool ok = true;
        for (uint32_t p = 0; p < job->nprocesses; p++)
            ok = ok && all[p].ok;
        opened = ok && map(job, all);
        status = all_ok(job, opened, &r->ipc, err);
    }
    if (status == CCL_OK && !r->ipc) {
        unmap(job);
        lay_out(job); /* regions stay as they are: what is left in them lies lower than before */
    }
    free(mine);
    free(all);
    return status;
}

/* ---------------------------------------------------------------- through the host */

static ccl_status_t make_staged(ccl_i_job_t *job, void **device_out, ccl_error_t *err) {
    ccl_i_wire_reach_t *r = &job->reach;
    const ccl_i_run_plan_t *plan = job->plan;
    uint64_t lengths = (uint64_t)plan->dev.nconns * plan->slots * sizeof(uint64_t);
    r->memory_bytes = ccl_i_region_bytes(plan, job->nprocesses);
    if (!job->ops->host_register || !job->ops->host_unregister)
        return ccl_fail(err, CCL_ERR_MISSING, "device %s reaches no memory of the host",
                        job->ops->name);
    if (!r->memory_is_shared) {
        r->memory_bytes += lengths;
        void *memory = mmap(NULL, r->memory_bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED)
            return ccl_fail_nomem(err);
        r->memory = memory;
    }
    DEVICE_TRY(
        job->ops->host_register(job->parts[0].device, r->memory, r->memory_bytes, device_out),
        "reaching memory of the host");
    r->registered = true;
    return CCL_OK;
}

uint64_t ccl_i_reach_staged_at(const ccl_i_run_plan_t *plan, uint32_t conn) {
    return (uint64_t)plan->dev.nconns * 2 * LINE_BYTES + plan->conn_at[conn];
}

/** The host's view of a FIFO in its memory, and the devices'. */
static void stage(ccl_i_job_t *job, uint32_t c, char *device) {
    ccl_i_wire_reach_t *r = &job->reach;
    ccl_i_run_plan_t *plan = job->plan;
    ccl_device_conn_t *host = &r->conns[c], *conn = &plan->conns[c];
    uint64_t flags = (uint64_t)c * 2 * LINE_BYTES;
    uint64_t data = ccl_i_reach_staged_at(plan, c);
    uint64_t lengths =
        ccl_i_region_bytes(plan, job->nprocesses) + (uint64_t)c * plan->slots * sizeof(uint64_t);
    conn->counted = counted(job, c);
    *host = *conn;
    host->head = (uint64_t *)(void *)(r->memory + flags);
    host->tail = (uint64_t *)(void *)(r->memory + flags + LINE_BYTES);
    host->data = r->memory + data;
    conn->head = (uint64_t *)(void *)(device + flags);
    conn->tail = (uint64_t *)(void *)(device + flags + LINE_BYTES);
    conn->data = device + data;
    if (r->carried[c]) {
        host->lengths = (uint64_t *)(void *)(r->memory + lengths);
        conn->lengths = (uint64_t *)(void *)(device + lengths);
    }
}

/* ---------------------------------------------------------------- all of it */

/** A part's region as the part at the own end of a connection sees it. */
static char *region_of(const ccl_i_job_t *job, uint32_t own_end, uint32_t part) {
    const ccl_i_wire_reach_t *r = &job->reach;
    uint32_t first = r->first_part[job->self];
    return own_part(job, part) ? job->parts[part - first].region
                               : r->mapped[(size_t)(own_end - first) * r->nparts + part];
}

static void address(ccl_i_job_t *job, uint32_t c) {
    const ccl_i_wire_reach_t *r = &job->reach;
    ccl_device_conn_t *conn = &job->plan->conns[c];
    uint32_t own_end = own_part(job, r->to[c]) ? r->to[c] : r->from[c];
    char *to = region_of(job, own_end, r->to[c]), *from = region_of(job, own_end, r->from[c]);
    conn->counted = counted(job, c);
    conn->head = (uint64_t *)(void *)((conn->counted ? to : from) + r->head_at[c]);
    conn->tail = (uint64_t *)(void *)(from + r->tail_at[c]);
    if (ccl_i_switches_hold(job, c))
        ccl_i_switches_address(job, c);
    else
        conn->data = to + r->data_at[c];
}

/** Whether devices of the processes' own are reached is tried; `--transport tcp` is obeyed. */
static bool may_use_ipc(const ccl_i_job_t *job) {
    const ccl_run_options_t *o = job->options;
    return job->nprocesses > 1 && !job->mixed && (o->world > 1 || o->transport == CCL_RUN_SHM);
}

/** What a process's devices can do. */
typedef struct abilities {
    bool peers, whole_lines;
    uint32_t switches;
} abilities_t;

static abilities_t own_abilities(const ccl_i_job_t *job) {
    abilities_t a = {enable_peers(job), true, 0};
    for (uint32_t k = 0; k < job->nparts; k++)
        a.whole_lines = a.whole_lines && job->parts[k].properties.whole_lines;
    a.switches = a.peers ? ccl_i_switches_can(job) : 0;
    return a;
}

/** Learns what devices of all processes can do, and so which slots lie in multicast memory. */
static ccl_status_t share_abilities(ccl_i_job_t *job, ccl_error_t *err) {
    ccl_i_wire_reach_t *r = &job->reach;
    abilities_t mine = own_abilities(job), *all = calloc(job->nprocesses, sizeof *all);
    uint32_t *switches = calloc(job->nprocesses, sizeof *switches);
    ccl_status_t status = all && switches ? allot(job, err) : ccl_fail_nomem(err);
    if (status == CCL_OK)
        status = ccl_i_group_exchange(job->group, &mine, sizeof mine, all, NULL, err);
    r->whole_lines = true;
    for (uint32_t p = 0; p < job->nprocesses && status == CCL_OK; p++) {
        r->peers[p] = all[p].peers;
        r->whole_lines = r->whole_lines && all[p].whole_lines;
        switches[p] = all[p].switches;
    }
    if (status == CCL_OK)
        status = ccl_i_switches_init(job, switches, err);
    free(all);
    free(switches);
    return status;
}

ccl_status_t ccl_i_reach_connect(ccl_i_job_t *job, char *shared, ccl_error_t *err) {
    ccl_i_wire_reach_t *r = &job->reach;
    void *device = NULL;
    r->memory = shared;
    r->memory_is_shared = shared != NULL;
    CCL_TRY(share_abilities(job, err));
    if (r->switches.nmemories) {
        bool all = false;
        CCL_TRY(all_ok(job, ccl_i_switches_make(job), &all, err));
        if (!all)
            ccl_i_switches_drop(job);
    }
    r->ipc = may_use_ipc(job);
    lay_out(job);
    CCL_TRY(ccl_i_group_agree(job->group, make_regions(job, err), err));
    if (r->ipc)
        CCL_TRY(exchange(job, err));
    if (job->parts[0].properties.host_access)
        return CCL_OK;
    if (r->staged)
        CCL_TRY(make_staged(job, &device, err));
    for (uint32_t c = 0; c < job->plan->dev.nconns; c++) {
        if (own(job, c) && direct(job, c))
            address(job, c);
        else if (own(job, c))
            stage(job, c, device);
    }
    return CCL_OK;
}

void ccl_i_reach_close(ccl_i_job_t *job, bool together) {
    ccl_i_wire_reach_t *r = &job->reach;
    unmap(job);
    if (together && r->ipc) /* nobody frees what another one still has mapped */
        (void)ccl_i_group_agree(job->group, CCL_OK, NULL);
    for (uint32_t k = 0; k < job->nparts; k++) {
        if (job->parts[k].region)
            job->ops->memory_free(job->parts[k].device, job->parts[k].region);
        job->parts[k].region = NULL;
    }
    if (r->registered)
        job->ops->host_unregister(job->parts[0].device, r->memory);
    if (r->memory && !r->memory_is_shared)
        munmap(r->memory, r->memory_bytes);
    free(r->first_part);
    free(r->machines);
    free(r->peers);
    free(r->from);
    free(r->to);
    free(r->head_at);
    free(r->tail_at);
    free(r->data_at);
    free(r->region_bytes);
    free(r->mapped);
    free(r->conns);
    free(r->carried);
    ccl_i_switches_fini(job);
    memset(r, 0, sizeof *r);
}
