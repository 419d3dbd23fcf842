/**
 * @file vendor.c
 * A whole collective by NCCL or RCCL.
 */
#include "runtime/hom/vendor.h"

#include "runtime/hom/library.h"

#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- state */

/** Elements that lie one after the other. */
typedef struct span {
    char *memory;
    uint64_t items;
} span_t;

/** A rank and its device. */
typedef struct member {
    ccl_i_words_t *words; /* of the part */
    ccl_device_stream_t *stream;
    void *native;
    ccl_i_comm_t *comm;
    ccl_device_event_t *begin, *end;
} member_t;

struct ccl_i_vendor {
    ccl_i_job_t *job;
    ccl_i_library_t library;
    ccl_device_event_t *go; /* the gate was open */
    member_t *members;      /* [job->nparts] */
    bool connected;         /* it has run before */
    bool aborted;
};

static ccl_status_t device_fail(const ccl_i_vendor_t *v, int code, ccl_error_t *err) {
    return ccl_fail(err, CCL_ERR_IO, "device %s: %s", v->job->ops->name,
                    v->job->ops->error_text(code));
}

#define DEVICE_TRY(call_)                                                                          \
    do {                                                                                           \
        int code_ = (call_);                                                                       \
        if (code_)                                                                                 \
            return device_fail(v, code_, err);                                                     \
    } while (0)

/* ---------------------------------------------------------------- buffers */

/** Elements first to end - 1 of a rank's buffer. @return false: they do not follow each other. */
static bool span_of(const ccl_i_vendor_t *v, uint32_t rank, ccl_buffer_t buffer, uint32_t first,
                    uint32_t end, span_t *out) {
    const ccl_i_layout_t *l = &v->job->plan->layout;
    uint64_t begin = 0;
    *out = (span_t){NULL, 0};
    for (uint32_t i = first; i < end; i++) {
        uint32_t e = ccl_i_layout_find(v->job->program, l, rank, buffer, i);
        if (e == CCL_NONE || (i > first && l->at[e] != begin + out->items))
            return false;
        begin = i == first ? l->at[e] : begin;
        out->items += l->items[e];
    }
    if (first < end && v->job->memory[rank])
        out->memory = (char *)v->job->memory[rank] + begin * l->item_bytes;
    return true;
}

static span_t block_of(const ccl_i_vendor_t *v, uint32_t rank, ccl_buffer_t buffer,
                       uint32_t block) {
    uint32_t c = v->job->program->coll->chunks_per_block;
    span_t span;
    span_of(v, rank, buffer, block * c, (block + 1) * c, &span); /* was checked */
    return span;
}

static uint32_t buffer_len(const ccl_collective_t *coll, uint32_t rank, ccl_buffer_t buffer) {
    return buffer == CCL_BUF_INPUT ? ccl_collective_input_len(coll, rank)
                                   : ccl_collective_output_len(coll, rank);
}

/** A library has one count for all blocks of all ranks, and every buffer is one piece. */
static ccl_status_t check_buffers(const ccl_i_vendor_t *v, ccl_error_t *err) {
    const ccl_collective_t *coll = v->job->program->coll;
    uint64_t want =
        block_of(v, coll->root, ccl_collective_input_len(coll, coll->root) == 0, 0).items;
    for (uint32_t r = 0; r < coll->nranks; r++) {
        for (uint32_t b = CCL_BUF_INPUT; b <= CCL_BUF_OUTPUT; b++) {
            ccl_buffer_t buffer = (ccl_buffer_t)b;
            uint32_t len = buffer_len(coll, r, buffer), c = coll->chunks_per_block;
            span_t span;
            bool fine = span_of(v, r, buffer, 0, len, &span);
            for (uint32_t i = 0; fine && i < len / c; i++)
                fine = span_of(v, r, buffer, i * c, (i + 1) * c, &span) && span.items == want;
            if (!fine)
                return ccl_fail(err, CCL_UNSUPPORTED,
                                "%s takes blocks of one size, each in one piece; those of rank %u "
                                "are not",
                                v->library.name, r);
        }
    }
    return CCL_OK;
}

static ccl_status_t check_job(const ccl_i_vendor_t *v, const char *kind, ccl_error_t *err) {
    const ccl_i_job_t *job = v->job;
    const ccl_collective_t *coll = job->program->coll;
    if (job->mixed || strcmp(job->kind, kind) != 0)
        return ccl_fail(err, CCL_ERR_MISSING, "%s runs on %s devices, this run is on %s%s",
                        v->library.name, kind, job->kind, job->mixed ? " and others" : "");
    if (!job->ops->stream_native)
        return ccl_fail(err, CCL_ERR_MISSING, "device %s does not show %s its streams",
                        job->ops->name, v->library.name);
    if (job->nparts != job->end_rank - job->first_rank)
        return ccl_fail(err, CCL_ERR_MISSING,
                        "%s wants a device for every rank, process %u has %u ranks on %u",
                        v->library.name, job->self, job->end_rank - job->first_rank, job->nparts);
    if (coll->kind == CCL_CUSTOM)
        return ccl_fail(err, CCL_UNSUPPORTED, "%s has no collective like %s", v->library.name,
                        coll->name);
    if (job->plan->layout.in_place && (coll->kind == CCL_ALLTOALL || coll->kind == CCL_SENDRECV))
        return ccl_fail(err, CCL_UNSUPPORTED,
                        "%s runs %s out of place only, the program is in place", v->library.name,
                        coll->name);
    return check_buffers(v, err);
}

/* ---------------------------------------------------------------- open */

static ccl_status_t prepare(ccl_i_vendor_t *v, char *name_out, size_t len, ccl_error_t *err) {
    ccl_i_job_t *job = v->job;
    ccl_i_library_choose(job->options->library, job->kind, &v->library);
    CCL_TRY(check_job(v, v->library.kind, err));
    CCL_TRY(ccl_i_library_open(&v->library, name_out, len, err));
    DEVICE_TRY(job->ops->event_create(job->parts[0].device, &v->go));
    for (uint32_t k = 0; k < job->nparts; k++) {
        member_t *m = &v->members[k];
        m->words = job->parts[k].words;
        m->stream = job->parts[k].stream;
        DEVICE_TRY(job->ops->event_create(job->parts[k].device, &m->begin));
        DEVICE_TRY(job->ops->event_create(job->parts[k].device, &m->end));
    }
    return CCL_OK;
}

static ccl_status_t connect(ccl_i_vendor_t *v, const ccl_i_library_id_t *id, ccl_error_t *err) {
    const ccl_i_job_t *job = v->job;
    int code = v->library.calls.GroupStart();
    for (uint32_t k = 0; k < job->nparts && code == 0; k++) {
        member_t *m = &v->members[k];
        DEVICE_TRY(job->ops->stream_native(m->stream, &m->native));
        code = v->library.calls.CommInitRank(&m->comm, (int)job->plan->dev.nranks, *id,
                                             (int)job->parts[k].first_rank);
    }
    int ended = v->library.calls.GroupEnd();
    code = code == 0 ? ended : code;
    if (code != 0)
        return ccl_fail(err, CCL_ERR_MISSING, "%s cannot connect the ranks: %s", v->library.name,
                        v->library.calls.GetErrorString(code));
    return CCL_OK;
}

static ccl_status_t open_all(ccl_i_vendor_t *v, char *name_out, size_t len, ccl_error_t *err) {
    ccl_i_group_t *group = v->job->group;
    ccl_i_library_id_t mine = {{0}};
    CCL_TRY(ccl_i_group_agree(group, prepare(v, name_out, len, err), err));
    int code = v->job->self == 0 ? v->library.calls.GetUniqueId(&mine) : 0;
    ccl_status_t status =
        code == 0 ? CCL_OK : ccl_i_library_fail(&v->library, code, "unique id", err);
    CCL_TRY(ccl_i_group_agree(group, status, err));
    ccl_i_library_id_t *all = calloc(group->world, sizeof *all);
    CCL_TRY(ccl_i_group_agree(group, all ? CCL_OK : ccl_fail_nomem(err), err));
    status = ccl_i_group_exchange(group, &mine, sizeof mine, all, NULL, err);
    if (status == CCL_OK)
        status = ccl_i_group_agree(group, connect(v, &all[0], err), err);
    free(all);
    return status;
}

ccl_status_t ccl_i_vendor_open(ccl_i_job_t *job, char *name_out, size_t len, ccl_i_vendor_t **out,
                               ccl_error_t *err) {
    ccl_i_vendor_t *v = calloc(1, sizeof *v);
    member_t *members = calloc(job->nparts + (size_t)1, sizeof *members);
    ccl_status_t status = v && members ? CCL_OK : ccl_fail_nomem(err);
    status = ccl_i_group_agree(job->group, status, err);
    if (status != CCL_OK) {
        free(v);
        free(members);
        return status;
    }
    v->job = job;
    v->members = members;
    status = open_all(v, name_out, len, err);
    if (status == CCL_OK)
        *out = v;
    else
        ccl_i_vendor_close(v);
    return status;
}

/* ---------------------------------------------------------------- one run */

/** Blocks to and from peers. In place at the root, its own block is where it belongs. */
static int pass(const ccl_i_vendor_t *v, const member_t *m, uint32_t rank, uint32_t in_block,
                uint32_t to, uint32_t out_block, uint32_t from) {
    int type = ccl_i_library_type(v->job->options->type), code = 0;
    span_t in = {NULL, 0}, out = {NULL, 0};
    if (to != CCL_NONE)
        in = block_of(v, rank, CCL_BUF_INPUT, in_block);
    if (from != CCL_NONE)
        out = block_of(v, rank, CCL_BUF_OUTPUT, out_block);
    if (to == rank && from == rank && in.memory == out.memory)
        return 0;
    if (to != CCL_NONE)
        code = v->library.calls.Send(in.memory, in.items, type, (int)to, m->comm, m->native);
    if (from != CCL_NONE && code == 0)
        code = v->library.calls.Recv(out.memory, out.items, type, (int)from, m->comm, m->native);
    return code;
}

/** Those of nccl-tests that are sends and receives. */
static int passes(const ccl_i_vendor_t *v, const member_t *m, uint32_t rank) {
    const ccl_collective_t *coll = v->job->program->coll;
    uint32_t n = coll->nranks, root = coll->root;
    bool gather = coll->kind == CCL_GATHER;
    int code = 0;
    if (coll->kind == CCL_SENDRECV)
        return pass(v, m, rank, 0, (rank + 1) % n, 0, (rank + n - 1) % n);
    if (coll->kind != CCL_ALLTOALL && rank != root)
        return gather ? pass(v, m, rank, 0, root, 0, CCL_NONE)
                      : pass(v, m, rank, 0, CCL_NONE, 0, root);
    for (uint32_t q = 0; q < n && code == 0; q++) {
        bool own = q == rank;
        if (coll->kind == CCL_ALLTOALL)
            code = pass(v, m, rank, q, q, q, q);
        else if (gather)
            code = pass(v, m, rank, 0, own ? rank : CCL_NONE, q, q);
        else
            code = pass(v, m, rank, q, q, 0, own ? rank : CCL_NONE);
    }
    return code;
}

/** Counts are a rank's shard, as in nccl.h. */
static int collective(const ccl_i_vendor_t *v, const member_t *m, uint32_t rank) {
    const ccl_collective_t *coll = v->job->program->coll;
    const ccl_i_library_calls_t *c = &v->library.calls;
    int type = ccl_i_library_type(v->job->options->type),
        op = ccl_i_library_op(v->job->options->op);
    int root = (int)coll->root;
    bool has_in = ccl_collective_input_len(coll, rank) > 0;
    bool has_out = ccl_collective_output_len(coll, rank) > 0;
    span_t in = {NULL, 0}, out = {NULL, 0};
    if (has_in)
        in = block_of(v, rank, CCL_BUF_INPUT, 0);
    if (has_out)
        out = block_of(v, rank, CCL_BUF_OUTPUT, 0);
    uint64_t count = has_in ? in.items : out.items;
    switch (coll->kind) {
    case CCL_ALLREDUCE:
        return c->AllReduce(in.memory, out.memory, count, type, op, m->comm, m->native);
    case CCL_REDUCESCATTER:
        return c->ReduceScatter(in.memory, out.memory, count, type, op, m->comm, m->native);
    case CCL_REDUCE:
        return c->Reduce(in.memory, out.memory, count, type, op, root, m->comm, m->native);
    case CCL_BROADCAST:
        return c->Broadcast(has_in ? in.memory : out.memory, out.memory, count, type, root, m->comm,
                            m->native);
    case CCL_ALLGATHER:
        return c->AllGather(in.memory, out.memory, count, type, m->comm, m->native);
    default:
        return passes(v, m, rank);
    }
}

static void wait_at_gate(void *user) {
    ccl_i_words_t *w = user;
    while (!__atomic_load_n(&w->gate, __ATOMIC_ACQUIRE))
        ccl_i_futex_wait(&w->gate, 0, 1e-3);
}

static void say_over(void *user) {
    ccl_i_words_t *w = user;
    __atomic_store_n(&w->over, 1, __ATOMIC_RELEASE);
    ccl_i_futex_wake(&w->over, INT32_MAX);
}

/** One gate for all streams: functions of the host may all wait for each other. */
static ccl_status_t queue_begin(ccl_i_vendor_t *v, ccl_error_t *err) {
    const ccl_device_ops_t *ops = v->job->ops;
    if (v->connected)
        DEVICE_TRY(ops->stream_call(v->members[0].stream, wait_at_gate, v->job->words));
    DEVICE_TRY(ops->event_record(v->go, v->members[0].stream));
    for (uint32_t k = 0; k < v->job->nparts; k++) {
        if (k > 0)
            DEVICE_TRY(ops->stream_follow(v->members[k].stream, v->go));
        DEVICE_TRY(ops->event_record(v->members[k].begin, v->members[k].stream));
    }
    return CCL_OK;
}

ccl_status_t ccl_i_vendor_launch(ccl_i_vendor_t *v, ccl_error_t *err) {
    const ccl_i_job_t *job = v->job;
    CCL_TRY(queue_begin(v, err));
    int code = v->library.calls.GroupStart(), device = 0;
    for (uint32_t k = 0; k < job->nparts && code == 0 && !device; k++) {
        member_t *m = &v->members[k];
        device = job->ops->stream_native(m->stream, &m->native);
        if (!device)
            code = collective(v, m, job->parts[k].first_rank);
    }
    int ended = v->library.calls.GroupEnd();
    code = code == 0 ? ended : code;
    if (code != 0)
        return ccl_i_library_fail(&v->library, code, job->program->coll->name, err);
    DEVICE_TRY(device);
    for (uint32_t k = 0; k < job->nparts; k++) {
        const member_t *m = &v->members[k];
        DEVICE_TRY(job->ops->event_record(m->end, m->stream));
        DEVICE_TRY(job->ops->stream_call(m->stream, say_over, m->words));
        __atomic_store_n(&m->words->ready, 1, __ATOMIC_RELEASE);
    }
    v->connected = true;
    return CCL_OK;
}

ccl_status_t ccl_i_vendor_times(ccl_i_vendor_t *v, ccl_error_t *err) {
    for (uint32_t k = 0; k < v->job->nparts; k++) {
        member_t *m = &v->members[k];
        m->words->start_s = 0;
        DEVICE_TRY(v->job->ops->event_elapsed(m->begin, m->end, &m->words->end_s));
    }
    return CCL_OK;
}

/* ---------------------------------------------------------------- ends */

void ccl_i_vendor_abort(ccl_i_vendor_t *v) {
    if (!v || v->aborted)
        return;
    v->aborted = true;
    for (uint32_t k = 0; k < v->job->nparts; k++)
        if (v->members[k].comm)
            v->library.calls.CommAbort(v->members[k].comm);
}

ccl_status_t ccl_i_vendor_hung(const ccl_i_vendor_t *v, ccl_error_t *err) {
    return ccl_fail(err, CCL_ERR_IO, "%s was not done with %s after %g s", v->library.name,
                    v->job->program->coll->name, v->job->options->watchdog_s);
}

void ccl_i_vendor_close(ccl_i_vendor_t *v) {
    if (!v)
        return;
    const ccl_i_job_t *job = v->job;
    if (job->words && __atomic_load_n(&job->words->stop, __ATOMIC_ACQUIRE))
        ccl_i_vendor_abort(v);
    for (uint32_t k = 0; k < job->nparts; k++) {
        member_t *m = &v->members[k];
        if (m->stream)
            job->ops->stream_wait(m->stream);
        if (m->comm && !v->aborted)
            v->library.calls.CommDestroy(m->comm);
        if (m->begin)
            job->ops->event_destroy(m->begin);
        if (m->end)
            job->ops->event_destroy(m->end);
    }
    if (v->go)
        job->ops->event_destroy(v->go);
    free(v->members);
    free(v);
}
