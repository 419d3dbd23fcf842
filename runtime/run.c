/**
 * @file run.c
 * ccl_run_program: options, plan, and who runs which ranks.
 */
#define _GNU_SOURCE
#include "runtime/wire/bootstrap.h"
#include "runtime/generate.h"
#include "runtime/hom/hom.h"
#include "runtime/job.h"
#include "runtime/wire/segment.h"
#include "runtime/wire/verbs.h"
#include "runtime/wire/wire.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DEFAULT_REPEATS = 9, MAX_REPEATS = 1000000 };
#define DEFAULT_WATCHDOG_S 10.0

const char *ccl_run_transport_name(ccl_run_transport_t transport) {
    static const char *const names[CCL_RUN_TRANSPORTS] = {"shm", "tcp", "verbs"};
    return (unsigned)transport < CCL_RUN_TRANSPORTS ? names[transport] : "?";
}

static ccl_status_t check_options(const ccl_program_t *program, ccl_run_options_t *o,
                                  ccl_error_t *err) {
    o->device = o->device ? o->device : "host";
    o->repeats = o->repeats ? o->repeats : DEFAULT_REPEATS;
    o->watchdog_s = o->watchdog_s > 0 ? o->watchdog_s : DEFAULT_WATCHDOG_S;
    if (!(o->size_bytes > 0) || o->size_bytes > 0x1p50)
        return ccl_fail(err, CCL_ERR_USAGE, "a size of %g bytes: more than 0 is needed",
                        o->size_bytes);
    if ((unsigned)o->type >= CCL_TYPES || (unsigned)o->op >= CCL_REDUCTIONS)
        return ccl_fail(err, CCL_ERR_USAGE, "no such type or reduction");
    if ((unsigned)o->kernel > CCL_KERNEL_GENERATED)
        return ccl_fail(err, CCL_ERR_USAGE, "no such kind of kernel");
    if ((unsigned)o->protocol > CCL_RUN_LL128)
        return ccl_fail(err, CCL_ERR_USAGE, "no such protocol");
    if ((unsigned)o->library > CCL_LIBRARY_RCCL)
        return ccl_fail(err, CCL_ERR_USAGE, "no such library of collectives");
    if ((unsigned)o->hom_library > CCL_LIBRARY_RCCL)
        return ccl_fail(err, CCL_ERR_USAGE, "no such library of collectives");
    if (o->hom_library && o->library)
        return ccl_fail(err, CCL_ERR_USAGE,
                        "a library does the whole collective or the insides of clusters, not both");
    if (o->hom_library && o->granularity != CCL_GRANULARITY_STAGE)
        return ccl_fail(err, CCL_ERR_USAGE,
                        "libraries inside clusters want a program at stage level");
    if (o->library && o->block_times)
        return ccl_fail(err, CCL_ERR_USAGE, "a library's collective has no thread blocks of ours");
    if (o->repeats > MAX_REPEATS || o->warmups > MAX_REPEATS)
        return ccl_fail(err, CCL_ERR_USAGE, "at most %u repeats are possible", MAX_REPEATS);
    if (o->world > 1 && o->ranks == CCL_RANKS_PROCESSES)
        return ccl_fail(err, CCL_ERR_USAGE,
                        "the processes of a job do not start processes of their own");
    if (o->world > 1 && (o->rank >= o->world || (!o->root && !o->bootstrap)))
        return ccl_fail(err, CCL_ERR_USAGE,
                        "a job of %u processes wants a rank below that and a root host:port",
                        o->world);
    if (o->world > program->nranks)
        return ccl_fail(err, CCL_ERR_USAGE, "%u processes for %u ranks", o->world, program->nranks);
    if (o->first_rank && o->world <= 1)
        return ccl_fail(err, CCL_ERR_USAGE, "shares of ranks are for the processes of a job");
    for (uint32_t i = 0; o->first_rank && i < o->world; i++)
        if (o->first_rank[0] || o->first_rank[i] >= o->first_rank[i + 1] ||
            o->first_rank[o->world] != program->nranks)
            return ccl_fail(err, CCL_ERR_USAGE,
                            "shares of ranks must be at least one each, and all of %u together",
                            program->nranks);
    CCL_TRY(ccl_i_kinds_check(o->device, program->nranks, err));
    if (o->world <= 1 && o->ranks == CCL_RANKS_THREADS && ccl_i_kinds_several(o->device))
        return ccl_fail(err, CCL_ERR_USAGE,
                        "ranks on different kinds of device run in processes: --ranks processes");
    if (o->ranks == CCL_RANKS_THREADS)
        o->processes = 1;
    else if (o->processes == 0 || o->processes > program->nranks)
        o->processes = program->nranks;
    return CCL_OK;
}

/* ---------------------------------------------------------------- one process of a job */

typedef struct card {
    uint64_t run, machine;
    char kind[CCL_I_KIND_LEN];
} card_t;

/** The kinds of all processes, each once: "cuda+host". */
static void name_kinds(const card_t *all, uint32_t n, char *out, size_t len) {
    size_t used = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = 0;
        while (k < i && strcmp(all[k].kind, all[i].kind) != 0)
            k++;
        if (k == i && used < len)
            used += (size_t)snprintf(out + used, len - used, "%s%s", i ? "+" : "", all[i].kind);
    }
}

static ccl_status_t open_hom(ccl_i_job_t *job, const card_t *all, ccl_run_result_t *result,
                             ccl_error_t *err) {
    const char **kinds = malloc(job->nprocesses * sizeof *kinds);
    for (uint32_t p = 0; kinds && p < job->nprocesses; p++)
        kinds[p] = all[p].kind;
    ccl_status_t status = ccl_i_group_agree(job->group, kinds ? CCL_OK : ccl_fail_nomem(err), err);
    if (status == CCL_OK)
        status = ccl_i_hom_open(job, kinds, result, err);
    free(kinds);
    return status;
}

/** All processes run the same, on which devices, and how many of them share this machine. */
static ccl_status_t introduce(ccl_i_job_t *job, uint32_t *here_out, ccl_run_result_t *result,
                              ccl_error_t *err) {
    card_t mine = {.run = ccl_i_bootstrap_fingerprint(job->plan, job->options),
                   .machine = ccl_i_bootstrap_machine()};
    uint32_t n = job->group->world, here = 0;
    card_t *all = calloc(n, sizeof *all);
    ccl_status_t status = all ? CCL_OK : ccl_fail_nomem(err);
    if (status == CCL_OK)
        status =
            ccl_i_kinds_of(job->options->device, job->first_rank, job->end_rank, job->kind, err);
    status = ccl_i_group_agree(job->group, status, err);
    memcpy(mine.kind, job->kind, sizeof mine.kind);
    if (status == CCL_OK)
        status = ccl_i_group_exchange(job->group, &mine, sizeof mine, all, NULL, err);
    for (uint32_t i = 0; i < n && status == CCL_OK; i++) {
        here += all[i].machine == mine.machine;
        job->mixed = job->mixed || strcmp(all[i].kind, all[0].kind) != 0;
        if (all[i].run != all[0].run)
            status = ccl_fail(err, CCL_ERR_USAGE,
                              "process %u runs another program or other options than process 0", i);
    }
    if (status == CCL_OK)
        name_kinds(all, n, result->device, sizeof result->device);
    if (status == CCL_OK && job->options->hom_library)
        status = open_hom(job, all, result, err);
    free(all);
    *here_out = here;
    return status;
}

static bool on_host(const ccl_i_job_t *job) {
    return job->parts[0].properties.host_access;
}

/** Some connection between processes has no memory that both ends see. */
static bool wants_wire(const ccl_i_job_t *job) {
    if (on_host(job) || job->mixed)
        return job->nprocesses > 1 && !job->region_is_shared;
    return job->reach.wired;
}

/** RDMA where every process can; else one line, and TCP. */
static ccl_status_t open_verbs(ccl_i_job_t *job, ccl_i_verbs_t **out, ccl_error_t *err) {
    ccl_error_t own = CCL_ERROR_INIT;
    char mine[sizeof own.text] = "";
    char(*all)[sizeof own.text] = calloc(job->nprocesses, sizeof *all);
    if (!all)
        return ccl_fail_nomem(err);
    ccl_status_t opened = ccl_i_verbs_open(job->options->rdma, out, &own), status;
    if (opened != CCL_OK)
        memcpy(mine, own.text, sizeof mine);
    status = ccl_i_group_exchange(job->group, mine, sizeof mine, all, NULL, err);
    uint32_t without = 0;
    while (without < job->nprocesses && !all[without][0])
        without++;
    if (status == CCL_OK && opened == CCL_ERR_USAGE)
        status = ccl_fail(err, opened, "%s", own.text);
    else if (status == CCL_OK && without < job->nprocesses)
        ccl_log(job->ctx, CCL_LOG_WARN, "run", "process %u: %s: TCP instead", without,
                all[without]);
    if (status != CCL_OK || without < job->nprocesses) {
        ccl_i_verbs_close(*out);
        *out = NULL;
    }
    free(all);
    return status;
}

static void tell_device_memory(const ccl_i_job_t *job, ccl_run_result_t *result) {
    const char *why, *memory = ccl_i_wire_device_memory(job->wire, &why);
    snprintf(result->rdma_memory, sizeof result->rdma_memory, "%s", memory);
    snprintf(result->rdma_why, sizeof result->rdma_why, "%s", why);
    if (job->ctx && memory[0])
        ccl_log(job->ctx, CCL_LOG_INFO, "run", "RDMA reaches slices of devices by %s%s%s", memory,
                why[0] ? ": " : "", why);
}

static ccl_status_t wire_up(ccl_i_job_t *job, ccl_run_result_t *result, ccl_error_t *err) {
    const ccl_i_wire_reach_t *reach = &job->reach;
    ccl_i_wire_staged_t staged = {reach->conns, reach->carried, reach->memory, reach->memory_bytes};
    ccl_i_wire_how_t how = {.group = job->group, .stop = &job->words->stop};
    how.staged = on_host(job) ? NULL : &staged;
    how.devices = on_host(job) && !job->mixed ? NULL : job;
    if (job->options->transport == CCL_RUN_VERBS)
        CCL_TRY(ccl_i_group_agree(job->group, open_verbs(job, &how.verbs, err), err));
    int *fds = malloc(job->nprocesses * sizeof *fds);
    ccl_status_t status = fds ? CCL_OK : ccl_fail_nomem(err);
    if (status == CCL_OK)
        status = ccl_i_bootstrap_mesh(job->group, job->options->world <= 1, fds, err);
    if (status == CCL_OK)
        status =
            ccl_i_wire_create(job->plan, &job->host, &how, job->nprocesses, fds, &job->wire, err);
    else
        ccl_i_verbs_close(how.verbs);
    free(fds);
    CCL_TRY(ccl_i_group_agree(job->group, status, err));
    job->host.proxy = ccl_i_wire_ring;
    job->host.proxy_user = job->wire;
    CCL_TRY(ccl_i_group_agree(job->group, ccl_i_wire_start(job->wire, err), err));
    tell_device_memory(job, result);
    return CCL_OK;
}

/** Processes that were started apart share memory where all are on one machine and can. */
static ccl_status_t share_memory(ccl_i_job_t *job, uint32_t here, ccl_error_t *err) {
    uint32_t n = job->group->world;
    void *memory = NULL;
    if (job->options->world <= 1 || here < n || job->options->transport != CCL_RUN_SHM ||
        strcmp(job->kind, "host") != 0 || job->mixed)
        return CCL_OK;
    CCL_TRY(ccl_i_segment_map(job->group, ccl_i_region_bytes(job->plan, n), &memory, err));
    job->region = memory;
    job->region_is_shared = memory != NULL;
    return CCL_OK;
}

static ccl_status_t run_process(ccl_i_job_t *job, ccl_run_result_t *result, ccl_error_t *err) {
    uint32_t here = 1;
    job->group->patience_s = 3 * job->options->watchdog_s;
    job->nprocesses = job->group->world;
    job->self = job->group->rank;
    job->first_rank = ccl_i_first_rank(job->plan, job->nprocesses, job->self);
    job->end_rank = ccl_i_first_rank(job->plan, job->nprocesses, job->self + 1);
    ccl_status_t status = introduce(job, &here, result, err);
    if (job->mixed) { /* different devices have no memory that all of them see */
        job->region = NULL;
        job->region_is_shared = false;
    }
    if (status == CCL_OK)
        status = share_memory(job, here, err);
    if (status != CCL_OK)
        return status;
    job->threads = job->options->threads;
    if (!job->threads)
        job->threads = ccl_core_count() / here ? ccl_core_count() / here : 1;
    status = ccl_i_group_agree(job->group, ccl_i_job_open(job, err), err);
    if (status == CCL_OK && wants_wire(job))
        status = wire_up(job, result, err);
    result->processes = job->nprocesses;
    result->threads = job->threads;
    result->transport = !job->wire                      ? CCL_RUN_SHM
                        : ccl_i_wire_is_rdma(job->wire) ? CCL_RUN_VERBS
                                                        : CCL_RUN_TCP;
    if (status == CCL_OK)
        status = ccl_i_job_run(job, result, err);
    result->devices = job->nparts;
    result->ipc = job->reach.ipc;
    result->switch_connections = job->reach.switches.n;
    result->in_switch = ccl_i_switches_held(job);
    ccl_i_job_close(job, status == CCL_OK);
    return status;
}

/* ---------------------------------------------------------------- children */

typedef struct family {
    uint32_t n;
    pid_t *pids; /* [n] of children; [0] unused */
    int *fds;    /* [n] our ends */
} family_t;

/** The child's life. It ends without the caller's exit handlers, which are not its own. */
static void child(ccl_i_job_t *job, uint32_t rank, uint32_t n, int fd) {
    ccl_i_group_t group;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_run_result_t result = {.repeats = job->options->repeats, .nranks = job->program->nranks};
    ccl_arena_init(&result.arena);
    job->ctx = NULL;
    if (ccl_i_group_join(rank, n, &fd, &group, &err) == CCL_OK) {
        result.time_s = ccl_arena_alloc(&result.arena, result.repeats, sizeof *result.time_s);
        job->group = &group;
        if (result.time_s)
            run_process(job, &result, &err);
        ccl_i_group_fini(&group);
    }
    ccl_arena_fini(&result.arena);
    syscall(SYS_exit_group, 0);
}

static ccl_status_t start_children(ccl_i_job_t *job, family_t *family, ccl_error_t *err) {
    for (uint32_t i = 1; i < family->n; i++) {
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
            return ccl_fail(err, CCL_ERR_IO, "no socket for process %u: %s", i, strerror(errno));
        pid_t pid = fork();
        if (pid == 0) {
            close(pair[0]);
            for (uint32_t k = 1; k < i; k++) /* or the parent's death would go unseen */
                close(family->fds[k]);
            child(job, i, family->n, pair[1]);
        }
        close(pair[1]);
        if (pid < 0) {
            close(pair[0]);
            return ccl_fail(err, CCL_ERR_IO, "process %u cannot be started: %s", i,
                            strerror(errno));
        }
        family->pids[i] = pid;
        family->fds[i] = pair[0];
    }
    return CCL_OK;
}

/** Children end when their sockets close; who does not is ended. */
static void end_children(family_t *family, double patience_s) {
    double limit_s = ccl_now_s() + patience_s;
    for (uint32_t i = 1; i < family->n; i++) {
        if (family->pids[i] <= 0)
            continue;
        for (;;) {
            int state;
            pid_t pid = waitpid(family->pids[i], &state, WNOHANG);
            if (pid == family->pids[i] || (pid < 0 && errno != EINTR))
                break;
            if (ccl_now_s() > limit_s)
                kill(family->pids[i], SIGKILL);
            usleep(500);
        }
    }
}

static ccl_status_t run_family(ccl_i_job_t *job, ccl_run_result_t *result, ccl_error_t *err) {
    family_t family = {.n = job->options->processes};
    ccl_i_group_t group = {0};
    ccl_status_t status = CCL_OK;
    size_t bytes = ccl_i_region_bytes(job->plan, family.n);
    void *memory = MAP_FAILED;
    family.pids = calloc(family.n, sizeof *family.pids);
    family.fds = malloc(family.n * sizeof *family.fds);
    if (!family.pids || !family.fds) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    memset(family.fds, 0xff, family.n * sizeof *family.fds);
    if (job->options->transport == CCL_RUN_SHM) {
        memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) {
            status = ccl_fail_nomem(err);
            goto end;
        }
        job->region = memory;
        job->region_is_shared = true;
    }
    status = start_children(job, &family, err);
    if (status == CCL_OK)
        status = ccl_i_group_join(0, family.n, family.fds, &group, err);
    if (status != CCL_OK) { /* closed sockets end those that run already */
        for (uint32_t i = 1; i < family.n; i++)
            if (family.fds[i] >= 0)
                close(family.fds[i]);
    } else {
        job->group = &group;
        status = run_process(job, result, err);
        ccl_i_group_fini(&group);
    }
    end_children(&family, status == CCL_OK ? 5 : 1);
    if (memory != MAP_FAILED)
        munmap(memory, bytes);
end:
    free(family.pids);
    free(family.fds);
    return status;
}

/* ---------------------------------------------------------------- children with devices */

/** What the leader of such a family reports, in memory that this process shares with it. */
typedef struct report {
    bool done;
    ccl_status_t status;
    ccl_error_t error;
    ccl_run_result_t result;
    ccl_deadlock_t deadlock;
    double times_s[]; /* [repeats], then [ntbs] blocks, then [nranks] clusters */
} report_t;

static ccl_run_block_t *report_blocks(report_t *report, uint32_t repeats) {
    return (ccl_run_block_t *)(void *)(report->times_s + repeats);
}

static ccl_run_cluster_t *report_clusters(report_t *report, uint32_t repeats, uint32_t ntbs) {
    return (ccl_run_cluster_t *)(void *)(report_blocks(report, repeats) + ntbs);
}

static ccl_status_t take_report(report_t *report, ccl_run_result_t *out, ccl_error_t *err) {
    ccl_arena_t arena = out->arena;
    double *times_s = out->time_s;
    if (!report->done)
        return ccl_fail(err, CCL_ERR_IO, "process 0 of the run ended before it was over");
    *out = report->result;
    out->arena = arena;
    out->time_s = times_s;
    memcpy(times_s, report->times_s, out->repeats * sizeof *times_s);
    if (out->blocks) {
        out->blocks = ccl_arena_alloc(&out->arena, out->ntbs + (size_t)1, sizeof *out->blocks);
        if (!out->blocks)
            return ccl_fail_nomem(err);
        memcpy(out->blocks, report_blocks(report, out->repeats), out->ntbs * sizeof *out->blocks);
    }
    if (out->clusters) {
        out->clusters = ccl_arena_alloc(&out->arena, out->nclusters, sizeof *out->clusters);
        if (!out->clusters)
            return ccl_fail_nomem(err);
        memcpy(out->clusters, report_clusters(report, out->repeats, out->ntbs),
               out->nclusters * sizeof *out->clusters);
    }
    if (out->deadlock) {
        out->deadlock = ccl_arena_alloc(&out->arena, 1, sizeof *out->deadlock);
        if (!out->deadlock)
            return ccl_fail_nomem(err);
        *out->deadlock = report->deadlock;
    }
    if (report->status != CCL_OK)
        ccl_fail(err, report->status, "%s", report->error.text);
    return report->status;
}

static void lead(ccl_i_job_t *job, ccl_run_result_t *result, report_t *report) {
    report->status = run_family(job, result, &report->error);
    report->result = *result;
    memcpy(report->times_s, result->time_s, result->repeats * sizeof *result->time_s);
    if (result->blocks)
        memcpy(report_blocks(report, result->repeats), result->blocks,
               result->ntbs * sizeof *result->blocks);
    if (result->clusters)
        memcpy(report_clusters(report, result->repeats, result->ntbs), result->clusters,
               result->nclusters * sizeof *result->clusters);
    if (result->deadlock)
        report->deadlock = *result->deadlock;
    report->done = true;
    syscall(SYS_exit_group, 0);
}

/**
 * Vendors' runtimes do not survive a fork: this process must never begin with one, or its next run
 * could have no children. So process 0 is a child too.
 */
static ccl_status_t run_led(ccl_i_job_t *job, ccl_run_result_t *result, ccl_error_t *err) {
    size_t bytes = sizeof(report_t) + result->repeats * sizeof(double) +
                   result->ntbs * sizeof(ccl_run_block_t) +
                   result->nranks * sizeof(ccl_run_cluster_t);
    report_t *report = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ccl_status_t status = CCL_OK;
    if (report == MAP_FAILED)
        return ccl_fail_nomem(err);
    pid_t pid = fork();
    if (pid == 0)
        lead(job, result, report);
    if (pid < 0)
        status = ccl_fail(err, CCL_ERR_IO, "process 0 cannot be started: %s", strerror(errno));
    for (int state; pid > 0;) {
        pid_t ended = waitpid(pid, &state, WNOHANG);
        if (ended == pid || (ended < 0 && errno != EINTR))
            break;
        if (status == CCL_OK && job->ctx)
            status = ccl_ctx_poll(job->ctx, NULL);
        if (status != CCL_OK) /* its children see it go */
            kill(pid, SIGKILL);
        usleep(1000);
    }
    if (status == CCL_OK)
        status = take_report(report, result, err);
    munmap(report, bytes);
    return status;
}

static ccl_status_t run_alone(ccl_i_job_t *job, ccl_run_result_t *result, ccl_error_t *err) {
    ccl_i_group_t group;
    const ccl_run_options_t *o = job->options;
    if (o->world > 1)
        CCL_TRY(ccl_i_bootstrap_join(o, &group, err));
    else
        CCL_TRY(ccl_i_group_alone(&group, err));
    job->group = &group;
    ccl_status_t status = run_process(job, result, err);
    if (job->region_is_shared)
        munmap(job->region, ccl_i_region_bytes(job->plan, o->world));
    ccl_i_group_fini(&group);
    return status;
}

/* ---------------------------------------------------------------- all of it */

static ccl_status_t check_finishes(const ccl_ctx_t *ctx, const ccl_program_t *program,
                                   const ccl_i_run_plan_t *plan, const ccl_run_options_t *options,
                                   ccl_run_result_t *result, ccl_error_t *err) {
    ccl_deadlock_t *found = ccl_arena_alloc(&result->arena, 1, sizeof *found);
    if (!found)
        return ccl_fail_nomem(err);
    CCL_TRY(ccl_i_run_plan_deadlock(ctx, program, plan,
                                    ccl_program_level(program, options->granularity), found, err));
    if (!found->nwaits)
        return CCL_OK;
    result->deadlock = found;
    if (options->slots)
        snprintf(found->cause.from, sizeof found->cause.from, "--slots");
    const ccl_deadlock_wait_t *w = &found->waits[0];
    return ccl_fail(err, CCL_DEADLOCK,
                    "the program cannot finish with FIFOs of %u slices and %u micro-batches: %u "
                    "blocks are stuck, rank %u block %u step %u waits for %s",
                    plan->slots, plan->dev.batches, found->stuck, w->rank, w->tb, w->step,
                    ccl_wait_name(w->wait));
}

static ccl_status_t prepare(const ccl_program_t *program, const ccl_run_options_t *o,
                            const ccl_i_run_plan_t *plan, ccl_run_result_t *r, ccl_error_t *err) {
    snprintf(r->device, sizeof r->device, "%s", o->device);
    r->nranks = program->nranks;
    r->batches = plan->dev.batches;
    r->slots = plan->slots;
    r->protocol = (ccl_run_protocol_t)(CCL_RUN_SIMPLE + plan->dev.protocol);
    r->kernel = o->kernel;
    r->size_bytes = o->size_bytes;
    r->buffer_bytes = plan->layout.buffer_bytes;
    r->chunk_bytes = plan->chunk_bytes;
    r->slice_bytes = plan->slice_bytes;
    r->transfers = plan->transfers;
    r->repeats = o->repeats;
    r->ntbs = program->ntbs;
    r->time_s = ccl_arena_alloc(&r->arena, r->repeats, sizeof *r->time_s);
    return r->time_s ? CCL_OK : ccl_fail_nomem(err);
}

ccl_status_t ccl_run_program(const ccl_ctx_t *ctx, const ccl_program_t *program,
                             const ccl_run_options_t *options, ccl_run_result_t **out,
                             ccl_error_t *err) {
    CCL_OPTIONS_TRY(ccl_run_options_t, options, err);
    static const ccl_run_options_t defaults = CCL_RUN_OPTIONS_INIT;
    ccl_run_options_t o = options ? *options : defaults;
    ccl_i_run_plan_t plan = {0};
    CCL_TRY(check_options(program, &o, err));
    ccl_run_result_t *result = calloc(1, sizeof *result);
    ccl_error_t own = CCL_ERROR_INIT;
    if (!result)
        return ccl_fail_nomem(err);
    ccl_arena_init(&result->arena);
    ccl_status_t status;
    CCL_TRY_GOTO(ccl_i_run_plan_init(program, &o, &plan, &own), status, end);
    CCL_TRY_GOTO(prepare(program, &o, &plan, result, &own), status, end);
    if (!o.no_static_check)
        CCL_TRY_GOTO(check_finishes(ctx, program, &plan, &o, result, &own), status, end);
    ccl_i_job_t job = {.ctx = ctx, .program = program, .options = &o, .plan = &plan};
    if (o.processes > 1 && !ccl_i_kinds_all(o.device, "host"))
        status = run_led(&job, result, &own);
    else
        status = o.processes > 1 ? run_family(&job, result, &own) : run_alone(&job, result, &own);
    ccl_i_hom_close(job.hom);
end:
    ccl_i_run_plan_fini(&plan);
    if (status != CCL_OK)
        ccl_fail(err, status, "%s", own.text);
    if (status == CCL_OK || (status == CCL_CHECK && result->wrong_items) ||
        (status == CCL_DEADLOCK && result->deadlock))
        *out = result;
    else
        ccl_run_result_destroy(result);
    return status;
}

ccl_status_t ccl_run_kernel_text(const ccl_program_t *program, const ccl_run_options_t *options,
                                 ccl_text_t *out, ccl_error_t *err) {
    CCL_OPTIONS_TRY(ccl_run_options_t, options, err);
    static const ccl_run_options_t defaults = CCL_RUN_OPTIONS_INIT;
    ccl_run_options_t o = options ? *options : defaults;
    ccl_i_run_plan_t plan = {0};
    CCL_TRY(check_options(program, &o, err));
    CCL_TRY(ccl_i_run_plan_init(program, &o, &plan, err));
    plan.dev.end_unit = plan.dev.nunits;
    ccl_status_t status = ccl_i_kernel_text(&plan.dev, plan.slots, out, err);
    ccl_i_run_plan_fini(&plan);
    return status;
}

void ccl_run_result_destroy(ccl_run_result_t *result) {
    if (!result)
        return;
    ccl_arena_fini(&result->arena);
    free(result);
}
