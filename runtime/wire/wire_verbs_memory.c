/*
 * Memory that RDMA writes to: slots on the host, or in the devices' own memory where that can be
 * registered.
 */
#include "runtime/wire/wire_verbs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/wire/reach.h"

enum { LINE_BYTES = 128 };

typedef ccl_i_rdma_card_t card_t;
typedef ccl_i_rdma_t rdma_t;

/**
 * On the host the slots of the connections that cross processes lie in memory of their own, so that
 * no more than that is registered, by number of connection; so every process knows where they lie
 * at others. @param local_at  [nconns] in this process's; bytes of it are returned.
 */
static uint64_t lay_out(const ccl_i_wire_t *w, uint64_t *at, uint64_t *local_at) {
    const rdma_t *s = w->state;
    const ccl_i_run_plan_t *plan = w->plan;
    for (uint32_t c = 0; c < plan->dev.nconns; c++) {
        uint32_t from = w->host->unit_process[plan->conns[c].sender];
        uint32_t to = w->host->unit_process[plan->conns[c].receiver];
        if (from == to)
            continue;
        local_at[c] = at[w->host->self];
        s->remote_at[c] = at[to];
        at[from] += ccl_i_wire_slots_bytes(&plan->conns[c]);
        at[to] += ccl_i_wire_slots_bytes(&plan->conns[c]);
    }
    return at[w->host->self];
}

static ccl_status_t own_memory(ccl_i_wire_t *w, const uint64_t *local_at, uint64_t bytes,
                               ccl_error_t *err) {
    rdma_t *s = w->state;
    s->bytes = bytes ? bytes : LINE_BYTES;
    void *memory = mmap(NULL, s->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return ccl_fail_nomem(err);
    s->memory = memory;
    s->own_memory = true;
    for (uint32_t c = 0; c < w->plan->dev.nconns; c++)
        if (w->conn_peer[c] != CCL_NONE)
            w->conns[c].data = s->memory + local_at[c];
    return CCL_OK;
}

static ccl_status_t place_slots(ccl_i_wire_t *w, ccl_error_t *err) {
    rdma_t *s = w->state;
    uint64_t *at = calloc(w->nprocesses, sizeof *at);
    uint64_t *local_at = calloc(w->plan->dev.nconns + (size_t)1, sizeof *local_at);
    ccl_status_t status = at && local_at ? CCL_OK : ccl_fail_nomem(err);
    uint64_t bytes = status == CCL_OK ? lay_out(w, at, local_at) : 0;
    if (w->how.staged) { /* memory of the host that devices reach too */
        s->memory = w->how.staged->memory;
        s->bytes = w->how.staged->memory_bytes;
    } else if (status == CCL_OK) {
        status = own_memory(w, local_at, bytes, err);
    }
    free(at);
    free(local_at);
    return status;
}

/** What reach.c has for a process of devices: flags, then slots, of all connections. */
void ccl_i_rdma_staged_at(ccl_i_wire_t *w, uint32_t process) {
    const rdma_t *s = w->state;
    const ccl_i_run_plan_t *plan = w->plan;
    for (uint32_t c = 0; c < plan->dev.nconns; c++)
        if (w->conn_peer[c] == process)
            s->remote_at[c] = ccl_i_reach_staged_at(plan, c);
}

/* ---------------------------------------------------------------- memory of devices */

enum { ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE };

static bool take_key(struct ibv_mr *mr, ccl_i_direct_key_t *out) {
    if (mr)
        *out = (ccl_i_direct_key_t){mr, mr->lkey, mr->rkey};
    return mr != NULL;
}

static bool of_dmabuf(void *pd, int fd, uint64_t offset, void *memory, size_t bytes,
                      ccl_i_direct_key_t *out) {
    return take_key(ibv_reg_dmabuf_mr(pd, offset, bytes, (uintptr_t)memory, fd, ACCESS), out);
}

static bool of_pointer(void *pd, void *memory, size_t bytes, ccl_i_direct_key_t *out) {
    return take_key(ibv_reg_mr(pd, memory, bytes, ACCESS), out);
}

static void drop(void *pd, const ccl_i_direct_key_t *key) {
    (void)pd;
    ibv_dereg_mr(key->region);
}

/** Slots in the devices' own memory where they can be; what is set up for the host stays there. */
static ccl_status_t use_devices(ccl_i_wire_t *w, ccl_error_t *err) {
    rdma_t *s = w->state;
    ccl_i_direct_calls_t calls = {s->pd, of_dmabuf, of_pointer, drop};
    if (w->how.devices)
        CCL_TRY(ccl_i_wire_direct_init(w->how.devices, &s->direct, err));
    if (w->how.staged)
        ccl_i_wire_direct_open(&s->direct, &calls);
    for (uint32_t c = 0; c < w->plan->dev.nconns; c++) {
        uint64_t at = 0;
        const ccl_i_direct_t *part =
            w->how.staged ? ccl_i_wire_direct_of(&s->direct, c, &at) : NULL;
        s->local_key[c] = part ? part->key.lkey : s->mr->lkey;
        if (part) /* programs are not loaded yet */
            w->conns[c].data = w->plan->conns[c].data = (char *)part->memory + at;
    }
    return CCL_OK;
}

/** Of a peer whose slots are in its devices. */
void ccl_i_rdma_direct_at(ccl_i_wire_t *w, uint32_t process, const card_t *peer) {
    rdma_t *s = w->state;
    const ccl_i_wire_reach_t *r = &w->how.devices->reach;
    for (uint32_t c = 0; c < w->plan->dev.nconns; c++) {
        if (w->conn_peer[c] != process || !ccl_i_wire_outbound(w, c))
            continue;
        uint32_t k = r->to[c] - r->first_part[process];
        s->remote_at[c] = peer->parts[k].base + s->direct.to_at[c];
        s->remote_key[c] = peer->parts[k].rkey;
    }
}

/** What all processes report of their devices, each way once. */
void ccl_i_rdma_report_devices(ccl_i_wire_t *w, const char *cards, size_t len) {
    static const ccl_i_direct_path_t paths[] = {CCL_I_DIRECT_DMABUF, CCL_I_DIRECT_PEER,
                                                CCL_I_DIRECT_HOST};
    size_t used = 0;
    for (size_t i = 0; i < CCL_ARRAY_LEN(paths); i++) {
        bool some = false;
        for (uint32_t p = 0; p < w->nprocesses; p++) {
            const card_t *card = (const card_t *)(const void *)(cards + p * len);
            if (card->direct != 1u + paths[i])
                continue;
            if (card->why[0]) /* the last one reported is of the slowest way */
                snprintf(w->device_why, sizeof w->device_why, "process %u: %s", p, card->why);
            some = true;
        }
        if (some)
            used += (size_t)snprintf(w->device_memory + used, sizeof w->device_memory - used,
                                     "%s%s", used ? "+" : "", ccl_i_direct_path_name(paths[i]));
    }
}

/* ---------------------------------------------------------------- of the host */

ccl_status_t ccl_i_rdma_memory(ccl_i_wire_t *w, ccl_error_t *err) {
    rdma_t *s = w->state;
    uint32_t nconns = w->plan->dev.nconns;
    if (nconns > CONN_MASK)
        return ccl_fail(err, CCL_UNSUPPORTED,
                        "%u connections: RDMA carries at most %u of a program; --transport tcp",
                        nconns, (unsigned)CONN_MASK);
    s->remote_at = calloc(nconns + (size_t)1, sizeof *s->remote_at);
    s->local_key = calloc(nconns + (size_t)1, sizeof *s->local_key);
    s->remote_key = calloc(nconns + (size_t)1, sizeof *s->remote_key);
    s->written = calloc(nconns + (size_t)1, sizeof *s->written);
    s->credited = calloc(nconns + (size_t)1, sizeof *s->credited);
    if (!s->remote_at || !s->local_key || !s->remote_key || !s->written || !s->credited)
        return ccl_fail_nomem(err);
    CCL_TRY(place_slots(w, err));
    s->mr = ibv_reg_mr(s->pd, s->memory, s->bytes, ACCESS);
    if (!s->mr)
        return ccl_fail(err, CCL_ERR_IO,
                        "RDMA device %s: %.1f MiB of memory cannot be registered: %s (see ulimit "
                        "-l, and --slice for smaller FIFOs)",
                        s->verbs->name, (double)s->bytes / 0x1p20, strerror(errno));
    return use_devices(w, err);
}
