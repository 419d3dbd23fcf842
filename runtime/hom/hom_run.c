/**
 * @file hom_run.c
 * Starts and ends by vendors' libraries in a job: who has one, communicators of clusters, and a
 * run: gate, start, our kernel, end on one stream.
 */
#include "runtime/wire/bootstrap.h"
#include "runtime/hom/hom.h"

#include <stdlib.h>
#include <string.h>

/** A rank of a cluster that a library works for, alone on its device. */
typedef struct member {
    uint32_t cluster; /* CCL_NONE: the part's ranks run our program only */
    uint32_t local;
    uint32_t rank;
    ccl_i_words_t *words;
    ccl_device_stream_t *stream;
    void *native;
    ccl_i_comm_t *comm;
    ccl_device_event_t *begin, *end;
    uint32_t reached; /* when the run was stopped */
} member_t;

/** How far a stream has come. */
enum { IN_START, IN_KERNEL, IN_END, DONE };

struct ccl_i_hom_run {
    ccl_i_hom_t hom;
    ccl_i_job_t *job;
    ccl_i_library_t library;
    member_t *members; /* [job->nparts] */
    ccl_device_event_t *go;
    uint32_t first; /* member whose stream waits at the gate; CCL_NONE: no library here */
    bool connected; /* it has run before */
    bool aborted;
};

#define DEVICE_TRY(call_)                                                                          \
    do {                                                                                           \
        int code_ = (call_);                                                                       \
        if (code_)                                                                                 \
            return ccl_fail(err, CCL_ERR_IO, "device %s: %s", run->job->ops->name,                 \
                            run->job->ops->error_text(code_));                                     \
    } while (0)

/* ---------------------------------------------------------------- who has a library */

/** What a process says of its library. */
typedef struct card {
    uint64_t machine;
    uint32_t devices;
    char version[24]; /* "": none */
    char why[120];
} card_t;

/** A library for the devices of this process, and their number. */
static ccl_status_t find_library(ccl_i_hom_run_t *run, card_t *out, ccl_error_t *err) {
    const ccl_i_job_t *job = run->job;
    const ccl_device_ops_t *ops = NULL;
    void *module = NULL;
    ccl_i_library_choose(job->options->hom_library, job->kind, &run->library);
    if (strcmp(run->library.kind, job->kind) != 0)
        return ccl_fail(err, CCL_ERR_MISSING, "%s runs on %s devices, not on %s", run->library.name,
                        run->library.kind, job->kind);
    CCL_TRY(ccl_i_device_find(job->kind, &ops, &module, err));
    int code = ops->count(&out->devices);
    bool streams = ops->stream_native != NULL;
    ccl_i_device_release(module);
    if (code || !streams)
        return ccl_fail(err, CCL_ERR_MISSING, "device %s does not show %s its streams", job->kind,
                        run->library.name);
    return ccl_i_library_open(&run->library, out->version, sizeof out->version, err);
}

/** Why process p has no library for its ranks; NULL: it has. */
static const char *why_not(const ccl_i_job_t *job, const card_t *cards, const char *const *kinds,
                           uint32_t p) {
    uint32_t here = 0, ranks = ccl_i_first_rank(job->plan, job->nprocesses, p + 1) -
                               ccl_i_first_rank(job->plan, job->nprocesses, p);
    if (!cards[p].version[0])
        return cards[p].why;
    for (uint32_t i = 0; i < job->nprocesses; i++)
        here += cards[i].machine == cards[p].machine && strcmp(kinds[i], kinds[p]) == 0;
    return ccl_i_reach_share(cards[p].devices, here, ranks) < ranks ||
                   cards[p].devices < here * ranks
               ? "it wants a device for every rank"
               : NULL;
}

static uint32_t process_of(const ccl_i_job_t *job, uint32_t rank) {
    uint32_t p = 0;
    while (rank >= ccl_i_first_rank(job->plan, job->nprocesses, p + 1))
        p++;
    return p;
}

static void decide(ccl_i_hom_run_t *run, const card_t *cards, const char *const *kinds) {
    for (uint32_t c = 0; c < run->hom.nclusters; c++) {
        ccl_i_hom_cluster_t *k = &run->hom.clusters[c];
        const char *why = NULL;
        for (uint32_t q = 0; q < k->nranks && !why; q++)
            why = why_not(run->job, cards, kinds, process_of(run->job, k->ranks[q]));
        if (!why)
            memcpy(k->version, cards[process_of(run->job, k->ranks[0])].version, sizeof k->version);
        for (uint32_t i = 0; i < CCL_I_HOM_PARTS; i++) {
            ccl_i_hom_part_t *part = &k->part[i];
            part->by_library = !why && part->ncalls > 0;
            if (why && part->nsteps)
                snprintf(part->why, sizeof part->why, "%s", why);
        }
    }
}

/* ---------------------------------------------------------------- what is reported */

static ccl_status_t tell(const ccl_i_hom_run_t *run, ccl_run_result_t *result, ccl_error_t *err) {
    const ccl_i_hom_t *hom = &run->hom;
    ccl_run_cluster_t *all = ccl_arena_alloc(&result->arena, hom->nclusters, sizeof *all);
    if (!all)
        return ccl_fail_nomem(err);
    for (uint32_t c = 0; c < hom->nclusters; c++) {
        const ccl_i_hom_cluster_t *k = &hom->clusters[c];
        ccl_run_cluster_t *out = &all[c];
        *out = (ccl_run_cluster_t){
            .nranks = k->nranks, .first_rank = k->ranks[0], .last_rank = k->ranks[k->nranks - 1]};
        snprintf(out->device, sizeof out->device, "%s", k->kind);
        memcpy(out->library, k->version, sizeof out->library);
        for (uint32_t i = 0; i < CCL_I_HOM_PARTS; i++) {
            const ccl_i_hom_part_t *part = &k->part[i];
            ccl_run_cluster_step_t *step = i == CCL_I_HOM_START ? &out->start : &out->end;
            step->by = !part->nsteps      ? CCL_RUN_BY_NOBODY
                       : part->by_library ? CCL_RUN_BY_LIBRARY
                                          : CCL_RUN_BY_PROGRAM;
            memcpy(step->why, part->why, sizeof step->why);
            for (uint32_t n = 0; part->by_library && n < part->ncalls; n++) {
                step->calls[part->calls[n].call]++;
                step->bytes += (double)part->calls[n].items * run->job->plan->layout.item_bytes;
            }
        }
    }
    result->clusters = all;
    result->nclusters = hom->nclusters;
    return CCL_OK;
}

/* ---------------------------------------------------------------- open */

/** The program without what libraries do, cut into micro-batches and slices like the whole. */
static ccl_status_t cut(ccl_i_hom_run_t *run, ccl_run_result_t *result, ccl_error_t *err) {
    ccl_i_job_t *job = run->job;
    ccl_run_options_t options = *job->options;
    CCL_TRY(ccl_i_hom_cut(job->program, &run->hom, err));
    options.batches = job->plan->dev.batches;
    options.slice_bytes = job->plan->slice_bytes;
    CCL_TRY(ccl_i_run_plan_init(&run->hom.program, &options, &run->hom.plan, err));
    job->program = &run->hom.program;
    job->plan = &run->hom.plan;
    result->transfers = job->plan->transfers;
    return CCL_OK;
}

static ccl_status_t find(ccl_i_hom_run_t *run, const char *const *kinds, ccl_error_t *err) {
    const ccl_i_job_t *job = run->job;
    const char **by_rank = malloc(job->program->nranks * sizeof *by_rank);
    if (!by_rank)
        return ccl_fail_nomem(err);
    for (uint32_t r = 0; r < job->program->nranks; r++)
        by_rank[r] = kinds[process_of(job, r)];
    ccl_status_t status = ccl_i_hom_find(job->program, job->plan, by_rank, &run->hom, err);
    free(by_rank);
    return status;
}

ccl_status_t ccl_i_hom_open(ccl_i_job_t *job, const char *const *kinds, ccl_run_result_t *result,
                            ccl_error_t *err) {
    ccl_i_hom_run_t *run = calloc(1, sizeof *run);
    card_t mine = {.machine = ccl_i_bootstrap_machine()};
    card_t *cards = calloc(job->nprocesses, sizeof *cards);
    ccl_error_t why = CCL_ERROR_INIT;
    ccl_status_t status = run && cards ? CCL_OK : ccl_fail_nomem(err);
    if (status == CCL_OK) {
        run->job = job;
        run->first = CCL_NONE;
        job->hom = run; /* closed by whoever has the job */
        status = find(run, kinds, err);
    } else {
        free(run);
    }
    status = ccl_i_group_agree(job->group, status, err);
    if (status == CCL_OK && find_library(run, &mine, &why) != CCL_OK) {
        mine.version[0] = '\0';
        snprintf(mine.why, sizeof mine.why, "%.*s", (int)sizeof mine.why - 1, why.text);
    }
    if (status == CCL_OK)
        status = ccl_i_group_exchange(job->group, &mine, sizeof mine, cards, NULL, err);
    if (status == CCL_OK) {
        decide(run, cards, kinds);
        status = tell(run, result, err);
    }
    if (status == CCL_OK)
        status = cut(run, result, err);
    free(cards);
    return ccl_i_group_agree(job->group, status, err);
}

void ccl_i_hom_close(ccl_i_hom_run_t *run) {
    if (!run)
        return;
    ccl_i_hom_fini(&run->hom);
    free(run);
}

/* ---------------------------------------------------------------- communicators */

bool ccl_i_hom_has(const ccl_i_hom_run_t *run, uint32_t k) {
    return run && run->members && run->members[k].cluster != CCL_NONE;
}

static bool has_library(const ccl_i_hom_cluster_t *k) {
    return k->part[CCL_I_HOM_START].by_library || k->part[CCL_I_HOM_END].by_library;
}

static ccl_status_t prepare(ccl_i_hom_run_t *run, ccl_error_t *err) {
    ccl_i_job_t *job = run->job;
    member_t *members = calloc(job->nparts, sizeof *members);
    if (!members)
        return ccl_fail_nomem(err);
    for (uint32_t k = 0; k < job->nparts; k++)
        members[k].cluster = CCL_NONE;
    run->members = members;
    for (uint32_t k = 0; k < job->nparts; k++) {
        const ccl_i_job_part_t *part = &job->parts[k];
        member_t *m = &members[k];
        uint32_t cluster = run->hom.of[part->first_rank];
        if (!has_library(&run->hom.clusters[cluster]))
            continue;
        m->local = run->hom.local[part->first_rank];
        m->rank = part->first_rank;
        m->words = part->words;
        m->stream = part->stream;
        DEVICE_TRY(job->ops->event_create(part->device, &m->begin));
        DEVICE_TRY(job->ops->event_create(part->device, &m->end));
        if (run->first == CCL_NONE) {
            run->first = k;
            DEVICE_TRY(job->ops->event_create(part->device, &run->go));
        }
        m->cluster = cluster;
    }
    return CCL_OK;
}

/** The id of every cluster, from the process of its lowest rank. */
static ccl_status_t share_ids(const ccl_i_hom_run_t *run, ccl_i_library_id_t *ids,
                              ccl_error_t *err) {
    const ccl_i_job_t *job = run->job;
    uint32_t n = run->hom.nclusters;
    ccl_i_library_id_t *all = calloc((size_t)n * job->nprocesses, sizeof *all);
    ccl_status_t status = all ? CCL_OK : ccl_fail_nomem(err);
    for (uint32_t c = 0; c < n && status == CCL_OK; c++) {
        const ccl_i_hom_cluster_t *k = &run->hom.clusters[c];
        if (!has_library(k) || process_of(job, k->ranks[0]) != job->self)
            continue;
        int code = run->library.calls.GetUniqueId(&ids[c]);
        if (code)
            status = ccl_i_library_fail(&run->library, code, "unique id", err);
    }
    status = ccl_i_group_agree(job->group, status, err);
    if (status == CCL_OK)
        status = ccl_i_group_exchange(job->group, ids, n * sizeof *ids, all, NULL, err);
    for (uint32_t c = 0; c < n && status == CCL_OK; c++)
        ids[c] = all[(size_t)n * process_of(job, run->hom.clusters[c].ranks[0]) + c];
    free(all);
    return status;
}

static ccl_status_t connect(ccl_i_hom_run_t *run, const ccl_i_library_id_t *ids, ccl_error_t *err) {
    const ccl_i_job_t *job = run->job;
    const ccl_i_library_calls_t *calls = &run->library.calls;
    if (run->first == CCL_NONE)
        return CCL_OK;
    int code = calls->GroupStart();
    for (uint32_t k = 0; k < job->nparts && !code; k++) {
        member_t *m = &run->members[k];
        if (m->cluster == CCL_NONE)
            continue;
        DEVICE_TRY(job->ops->stream_native(m->stream, &m->native));
        code = calls->CommInitRank(&m->comm, (int)run->hom.clusters[m->cluster].nranks,
                                   ids[m->cluster], (int)m->local);
    }
    int ended = calls->GroupEnd();
    code = code ? code : ended;
    return code ? ccl_i_library_fail(&run->library, code, "connecting a cluster's ranks", err)
                : CCL_OK;
}

ccl_status_t ccl_i_hom_connect(ccl_i_hom_run_t *run, ccl_error_t *err) {
    ccl_i_group_t *group = run->job->group;
    CCL_TRY(ccl_i_group_agree(group, prepare(run, err), err));
    ccl_i_library_id_t *ids = calloc(run->hom.nclusters, sizeof *ids);
    ccl_status_t status = ccl_i_group_agree(group, ids ? CCL_OK : ccl_fail_nomem(err), err);
    if (status == CCL_OK)
        status = share_ids(run, ids, err);
    if (status == CCL_OK)
        status = ccl_i_group_agree(group, connect(run, ids, err), err);
    free(ids);
    return status;
}

/* ---------------------------------------------------------------- one run */

static void *memory_at(const ccl_i_hom_run_t *run, const member_t *m, uint64_t at) {
    if (at == CCL_I_NOWHERE)
        return NULL;
    return (char *)run->job->memory[m->rank] + at * run->job->plan->layout.item_bytes;
}

static int one_call(const ccl_i_hom_run_t *run, const member_t *m, const ccl_i_hom_call_t *c) {
    const ccl_i_library_calls_t *calls = &run->library.calls;
    int type = ccl_i_library_type(run->job->options->type), root = (int)c->root, code = 0;
    int op = ccl_i_library_op(run->job->options->op);
    const void *from = memory_at(run, m, c->from[m->local]);
    void *to = memory_at(run, m, c->to[m->local]);
    switch (c->call) {
    case CCL_CALL_ALLGATHER:
        return calls->AllGather(from, to, c->items, type, m->comm, m->native);
    case CCL_CALL_REDUCESCATTER:
        return calls->ReduceScatter(from, to, c->items, type, op, m->comm, m->native);
    case CCL_CALL_BROADCAST:
        return calls->Broadcast(from ? from : to, to, c->items, type, root, m->comm, m->native);
    case CCL_CALL_REDUCE:
        return calls->Reduce(from, to, c->items, type, op, root, m->comm, m->native);
    default:
        if (m->local == c->root)
            code = calls->Send(from, c->items, type, (int)c->peer, m->comm, m->native);
        if (m->local == c->peer && !code)
            code = calls->Recv(to, c->items, type, root, m->comm, m->native);
        return code;
    }
}

/** All calls of one part, of all clusters here. */
static ccl_status_t queue_calls(ccl_i_hom_run_t *run, uint32_t part, ccl_error_t *err) {
    int code = run->library.calls.GroupStart(), device = 0;
    for (uint32_t k = 0; k < run->job->nparts && !code && !device; k++) {
        member_t *m = &run->members[k];
        if (m->cluster == CCL_NONE)
            continue;
        const ccl_i_hom_part_t *p = &run->hom.clusters[m->cluster].part[part];
        device = run->job->ops->stream_native(m->stream, &m->native);
        for (uint32_t i = 0; p->by_library && i < p->ncalls && !code && !device; i++)
            code = one_call(run, m, &p->calls[i]);
    }
    int ended = run->library.calls.GroupEnd();
    code = code ? code : ended;
    if (code)
        return ccl_i_library_fail(
            &run->library, code,
            part == CCL_I_HOM_START ? "start inside a cluster" : "end inside a cluster", err);
    DEVICE_TRY(device);
    return CCL_OK;
}

static void wait_at_gate(void *user) {
    ccl_i_words_t *w = user;
    while (!__atomic_load_n(&w->gate, __ATOMIC_ACQUIRE))
        ccl_i_futex_wait(&w->gate, 0, 1e-3);
}

static void go_on(void *user) {
    ccl_i_words_t *w = user;
    __atomic_add_fetch(&w->reached, 1, __ATOMIC_ACQ_REL);
}

static void say_over(void *user) {
    ccl_i_words_t *w = user;
    __atomic_store_n(&w->over, 1, __ATOMIC_RELEASE);
    ccl_i_futex_wake(&w->over, INT32_MAX);
}

static ccl_status_t on_all(ccl_i_hom_run_t *run, ccl_device_host_fn fn, ccl_error_t *err) {
    for (uint32_t k = 0; k < run->job->nparts; k++)
        if (run->members[k].cluster != CCL_NONE)
            DEVICE_TRY(
                run->job->ops->stream_call(run->members[k].stream, fn, run->members[k].words));
    return CCL_OK;
}

/** One gate for all streams here; except for the first time, when libraries connect. */
static ccl_status_t queue_begin(ccl_i_hom_run_t *run, ccl_error_t *err) {
    const ccl_device_ops_t *ops = run->job->ops;
    ccl_device_stream_t *first = run->members[run->first].stream;
    if (run->connected)
        DEVICE_TRY(ops->stream_call(first, wait_at_gate, run->job->words));
    DEVICE_TRY(ops->event_record(run->go, first));
    for (uint32_t k = 0; k < run->job->nparts; k++) {
        member_t *m = &run->members[k];
        if (m->cluster == CCL_NONE)
            continue;
        m->reached = IN_START;
        __atomic_store_n(&m->words->reached, IN_START, __ATOMIC_RELEASE);
        if (k != run->first)
            DEVICE_TRY(ops->stream_follow(m->stream, run->go));
        DEVICE_TRY(ops->event_record(m->begin, m->stream));
    }
    return CCL_OK;
}

static ccl_status_t queue_end(ccl_i_hom_run_t *run, ccl_error_t *err) {
    CCL_TRY(on_all(run, go_on, err));
    CCL_TRY(queue_calls(run, CCL_I_HOM_END, err));
    CCL_TRY(on_all(run, go_on, err));
    for (uint32_t k = 0; k < run->job->nparts; k++) {
        const member_t *m = &run->members[k];
        if (m->cluster == CCL_NONE)
            continue;
        DEVICE_TRY(run->job->ops->event_record(m->end, m->stream));
        __atomic_store_n(&m->words->ready, 1, __ATOMIC_RELEASE);
    }
    run->connected = true;
    return CCL_OK;
}

ccl_status_t ccl_i_hom_launch(ccl_i_hom_run_t *run, uint32_t part, ccl_error_t *err) {
    if (run->first == CCL_NONE)
        return CCL_OK;
    if (part == CCL_I_HOM_START) {
        CCL_TRY(queue_begin(run, err));
        CCL_TRY(queue_calls(run, CCL_I_HOM_START, err));
        return on_all(run, go_on, err);
    }
    ccl_status_t status = queue_end(run, err);
    ccl_status_t over = on_all(run, say_over, status == CCL_OK ? err : NULL);
    return status == CCL_OK ? over : status;
}

ccl_status_t ccl_i_hom_times(ccl_i_hom_run_t *run, ccl_error_t *err) {
    for (uint32_t k = 0; run->first != CCL_NONE && k < run->job->nparts; k++) {
        member_t *m = &run->members[k];
        if (m->cluster == CCL_NONE)
            continue;
        m->words->start_s = 0;
        DEVICE_TRY(run->job->ops->event_elapsed(m->begin, m->end, &m->words->end_s));
    }
    return CCL_OK;
}

/* ---------------------------------------------------------------- ends */

void ccl_i_hom_abort(ccl_i_hom_run_t *run) {
    if (!run || run->aborted || run->first == CCL_NONE)
        return;
    run->aborted = true;
    for (uint32_t k = 0; k < run->job->nparts; k++)
        if (run->members[k].cluster != CCL_NONE)
            run->members[k].reached =
                __atomic_load_n(&run->members[k].words->reached, __ATOMIC_ACQUIRE);
    for (uint32_t k = 0; k < run->job->nparts; k++)
        if (run->members[k].comm)
            run->library.calls.CommAbort(run->members[k].comm);
}

/** Where all ranks of a cluster have come to a call of its library, that call did not end. */
static ccl_status_t blame(const ccl_i_hom_run_t *run, const uint8_t *reached, ccl_error_t *err) {
    for (uint32_t c = 0; c < run->hom.nclusters; c++) {
        const ccl_i_hom_cluster_t *k = &run->hom.clusters[c];
        uint8_t least = DONE;
        for (uint32_t q = 0; q < k->nranks; q++)
            least = reached[k->ranks[q]] < least ? reached[k->ranks[q]] : least;
        bool start = least == IN_START && k->part[CCL_I_HOM_START].by_library;
        bool end = least == IN_END && k->part[CCL_I_HOM_END].by_library;
        if (start || end)
            return ccl_fail(err, CCL_ERR_IO,
                            "%s was not done with the %s of the cluster of rank %u (%u ranks) "
                            "after %g s",
                            k->version, start ? "start" : "end", k->ranks[0], k->nranks,
                            run->job->options->watchdog_s);
    }
    return CCL_OK;
}

ccl_status_t ccl_i_hom_hung(const ccl_i_hom_run_t *run, ccl_error_t *err) {
    const ccl_i_job_t *job = run->job;
    uint32_t n = job->program->nranks;
    uint8_t *mine = malloc(n), *all = malloc((size_t)n * job->nprocesses);
    ccl_status_t status = mine && all ? CCL_OK : ccl_fail_nomem(err);
    if (status == CCL_OK) {
        memset(mine, DONE, n);
        for (uint32_t k = 0; run->first != CCL_NONE && k < job->nparts; k++)
            if (run->members[k].cluster != CCL_NONE)
                mine[run->members[k].rank] = (uint8_t)run->members[k].reached;
        status = ccl_i_group_exchange(job->group, mine, n, all, NULL, err);
    }
    for (uint32_t r = 0; r < n && status == CCL_OK; r++)
        mine[r] = all[(size_t)n * process_of(job, r) + r];
    if (status == CCL_OK)
        status = blame(run, mine, err);
    free(mine);
    free(all);
    return status;
}

void ccl_i_hom_disconnect(ccl_i_hom_run_t *run) {
    if (!run || !run->members)
        return;
    const ccl_i_job_t *job = run->job;
    if (job->words && __atomic_load_n(&job->words->stop, __ATOMIC_ACQUIRE))
        ccl_i_hom_abort(run);
    for (uint32_t k = 0; k < job->nparts; k++) {
        member_t *m = &run->members[k];
        if (m->stream)
            job->ops->stream_wait(m->stream);
        if (m->comm && !run->aborted)
            run->library.calls.CommDestroy(m->comm);
        if (m->begin)
            job->ops->event_destroy(m->begin);
        if (m->end)
            job->ops->event_destroy(m->end);
    }
    if (run->go)
        job->ops->event_destroy(run->go);
    free(run->members);
    run->members = NULL;
}
