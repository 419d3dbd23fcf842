/**
 * @file job.c
 * The runs of one process: fill, start together, watch, check.
 */
#include "runtime/job.h"

#include "runtime/generate.h"
#include "runtime/hom/hom.h"
#include "runtime/hom/vendor.h"
#include "runtime/wire/wire.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/** What a process sends to the others after a run. */
typedef struct outcome {
    ccl_status_t status;
    uint32_t hung;
    double time_s;
    uint64_t checked, wrong;
    ccl_run_fault_t fault;
    char text[256];
} outcome_t;

static ccl_status_t device_fail(const ccl_i_job_t *job, int code, const char *what,
                                ccl_error_t *err) {
    return ccl_fail(err, CCL_ERR_IO, "device %s: %s: %s", job->ops->name, what,
                    job->ops->error_text(code));
}

static ccl_i_values_t values_of(const ccl_i_job_t *job) {
    return (ccl_i_values_t){.program = job->program,
                            .layout = &job->plan->layout,
                            .type = job->options->type,
                            .op = job->options->op,
                            .first_rank = job->first_rank,
                            .end_rank = job->end_rank,
                            .memory = job->staging,
                            .threads = job->threads};
}

/** Copies between device and staging of all own ranks. */
static ccl_status_t stage(ccl_i_job_t *job, bool to_device, ccl_error_t *err) {
    const ccl_i_layout_t *l = &job->plan->layout;
    int code = 0;
    for (uint32_t r = job->first_rank; r < job->end_rank && !code; r++) {
        size_t bytes = (size_t)l->rank_items[r] * l->item_bytes;
        if (job->staging[r] == job->memory[r])
            continue;
        ccl_device_stream_t *stream = ccl_i_part_of(job, r)->stream;
        code = to_device ? job->ops->copy_h2d(stream, job->memory[r], job->staging[r], bytes)
                         : job->ops->copy_d2h(stream, job->staging[r], job->memory[r], bytes);
    }
    for (uint32_t k = 0; k < job->nparts && !code; k++)
        code = job->ops->stream_wait(job->parts[k].stream);
    return code ? device_fail(job, code, "copying buffers", err) : CCL_OK;
}

/* ---------------------------------------------------------------- one run */

static void reset_words(ccl_i_words_t *w) {
    __atomic_store_n(&w->ready, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&w->gate, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&w->over, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&w->kernel_ready, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&w->kernel_over, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&w->progress, 0, __ATOMIC_RELAXED);
    w->start_s = w->end_s = 0;
}

static void abort_libraries(ccl_i_job_t *job) {
    ccl_i_vendor_abort(job->vendor);
    ccl_i_hom_abort(job->hom);
}

static ccl_status_t wait_for(ccl_i_job_t *job, const ccl_i_job_part_t *part, uint32_t *word,
                             const ccl_i_watch_t *watch, ccl_error_t *err) {
    ccl_status_t status = CCL_OK;
    double wait_s = 1e-3;
    while (!__atomic_load_n(word, __ATOMIC_ACQUIRE)) {
        ccl_i_futex_wait(word, 0, wait_s);
        wait_s = wait_s < 0.05 ? 2 * wait_s : 0.05;
        if (__atomic_load_n(word, __ATOMIC_ACQUIRE))
            continue;
        bool idle;
        int code = job->ops->stream_done(part->stream, &idle);
        if (code) /* a device that failed says nothing more */
            return device_fail(job, code, "run", err);
        if (status != CCL_OK)
            continue;
        status = ccl_i_group_tick(job->group, watch, 0, err);
        if (status == CCL_OK && job->ctx)
            status = ccl_ctx_poll(job->ctx, NULL);
        if (status != CCL_OK) /* it ends soon, then */
            __atomic_store_n(watch->stop, 1, __ATOMIC_RELEASE);
        if (__atomic_load_n(watch->stop, __ATOMIC_ACQUIRE))
            abort_libraries(job);
    }
    return status;
}

/** @param within  a library's calls, which say themselves when the part is ready and over. */
static ccl_status_t launch_part(ccl_i_job_t *job, ccl_i_job_part_t *part, bool timed, bool within,
                                ccl_error_t *err) {
    ccl_i_words_t *w = part->words, *all = job->words;
    part->how = (ccl_device_launch_t){.size = sizeof part->how,
                                      .ready = within ? &w->kernel_ready : &w->ready,
                                      .gate = &all->gate,
                                      .stop = &all->stop,
                                      .over = within ? &w->kernel_over : &w->over,
                                      .progress = &all->progress,
                                      .start_s = &w->start_s,
                                      .end_s = &w->end_s,
                                      .places = job->places,
                                      .uses = timed ? job->uses : NULL};
    int code = job->ops->program_launch(part->loaded, part->stream, &part->how);
    return code ? device_fail(job, code, "launch", err) : CCL_OK;
}

/** @param launched_out  parts that will say when they are over. */
static ccl_status_t launch_parts(ccl_i_job_t *job, bool timed, uint32_t *launched_out,
                                 ccl_error_t *err) {
    *launched_out = 0;
    if (job->vendor) {
        CCL_TRY(ccl_i_vendor_launch(job->vendor, err));
        *launched_out = job->nparts;
    }
    if (job->hom)
        CCL_TRY(ccl_i_hom_launch(job->hom, CCL_I_HOM_START, err));
    while (*launched_out < job->nparts) {
        uint32_t k = *launched_out;
        CCL_TRY(launch_part(job, &job->parts[k], timed, ccl_i_hom_has(job->hom, k), err));
        ++*launched_out;
    }
    return job->hom ? ccl_i_hom_launch(job->hom, CCL_I_HOM_END, err) : CCL_OK;
}

/** All parts are done with, or their devices have failed. */
static ccl_status_t finish(ccl_i_job_t *job, uint32_t launched, const ccl_i_watch_t *watch,
                           ccl_error_t *err) {
    ccl_status_t status = CCL_OK;
    for (uint32_t k = 0; k < launched; k++) {
        const ccl_i_job_part_t *part = &job->parts[k];
        ccl_error_t own = CCL_ERROR_INIT;
        ccl_status_t end = wait_for(job, part, &part->words->over, watch, &own);
        if (end != CCL_OK) /* the others wait for this one */
            __atomic_store_n(watch->stop, 1, __ATOMIC_RELEASE);
        int code = job->ops->stream_wait(part->stream);
        if (code && end == CCL_OK)
            end = device_fail(job, code, "run", &own);
        if (status == CCL_OK && end != CCL_OK)
            status = ccl_fail(err, end, "%s", own.text);
    }
    return status;
}

/**
 * Launch, start with all other processes, wait for the end. Returns the job's status, also when the
 * run was stopped; then the process must not go on.
 */
static ccl_status_t launch(ccl_i_job_t *job, bool timed, ccl_error_t *err) {
    ccl_i_words_t *w = job->words;
    ccl_i_watch_t watch = {&w->stop, &w->progress, job->options->watchdog_s};
    ccl_i_watch_t patient = watch; /* nothing can move yet */
    ccl_status_t status = CCL_OK;
    uint32_t launched = 0;
    patient.limit_s = INFINITY;
    for (uint32_t k = 0; k < job->nparts; k++)
        reset_words(&w[k]);
    ccl_i_group_watch_begin(job->group);
    status = launch_parts(job, timed, &launched, err);
    if (job->hom) /* a library may refuse in one process what others have begun */
        status = ccl_i_group_agree(job->group, status, err);
    bool agreed = job->hom && status != CCL_OK;
    for (uint32_t k = 0; k < launched && status == CCL_OK; k++)
        status = wait_for(job, &job->parts[k], &w[k].ready, &patient, err);
    if (!agreed && (status == CCL_OK || job->group->world == 1))
        status = ccl_i_group_agree(job->group, status, err);
    if (status != CCL_OK)
        __atomic_store_n(&w->stop, 1, __ATOMIC_RELEASE);
    ccl_i_group_watch_begin(job->group);
    __atomic_store_n(&w->gate, 1, __ATOMIC_RELEASE);
    ccl_i_futex_wake(&w->gate, INT32_MAX);
    ccl_error_t later = CCL_ERROR_INIT;
    ccl_status_t end = finish(job, launched, &watch, &later);
    if (status == CCL_OK && end != CCL_OK)
        status = ccl_fail(err, end, "%s", later.text);
    if (status == CCL_OK && job->vendor && !__atomic_load_n(&w->stop, __ATOMIC_ACQUIRE))
        status = ccl_i_vendor_times(job->vendor, err);
    if (status == CCL_OK && job->hom && !__atomic_load_n(&w->stop, __ATOMIC_ACQUIRE))
        status = ccl_i_hom_times(job->hom, err);
    return status;
}

/**
 * Every process learns what all processes found; times are the slowest process's.
 * @param watch  while others may still run; NULL afterwards.
 */
static ccl_status_t merge(ccl_i_job_t *job, const outcome_t *mine, const ccl_i_watch_t *watch,
                          outcome_t *out, ccl_error_t *err) {
    outcome_t *all = calloc(job->group->world, sizeof *all);
    if (!all)
        return ccl_fail_nomem(err);
    ccl_status_t status = ccl_i_group_exchange(job->group, mine, sizeof *mine, all, watch, err);
    *out = all[0];
    for (uint32_t i = 1; i < job->group->world && status == CCL_OK; i++) {
        out->hung |= all[i].hung;
        out->time_s = fmax(out->time_s, all[i].time_s);
        out->checked += all[i].checked;
        if (!out->wrong)
            out->fault = all[i].fault; /* processes have ascending ranks */
        out->wrong += all[i].wrong;
        if (out->status == CCL_OK && all[i].status != CCL_OK) {
            out->status = all[i].status;
            memcpy(out->text, all[i].text, sizeof out->text);
        }
    }
    free(all);
    return status;
}

static ccl_status_t one_run(ccl_i_job_t *job, uint32_t run, bool timed, outcome_t *out,
                            ccl_error_t *err) {
    ccl_i_values_t values = values_of(job);
    ccl_error_t own = CCL_ERROR_INIT;
    outcome_t mine = {.status = ccl_i_values_fill(&values, run, &own)};
    if (mine.status == CCL_OK)
        mine.status = stage(job, true, &own);
    mine.status = ccl_i_group_agree(job->group, mine.status, &own);
    if (mine.status == CCL_OK)
        mine.status = launch(job, timed, &own);
    if (mine.status != CCL_OK) {
        *err = own;
        return mine.status;
    }
    mine.hung = __atomic_load_n(&job->words->stop, __ATOMIC_ACQUIRE) != 0;
    for (uint32_t k = 0; k < job->nparts; k++) /* each by its own clock */
        mine.time_s = fmax(mine.time_s, job->words[k].end_s - job->words[k].start_s);
    uint32_t broken = ccl_i_wire_broken(job->wire);
    if (broken != CCL_NONE)
        mine.status =
            ccl_fail(&own, CCL_ERR_IO, "the connection of processes %u and %u broke%s%s", job->self,
                     broken, ccl_i_wire_why(job->wire)[0] ? ": " : "", ccl_i_wire_why(job->wire));
    memcpy(mine.text, own.text, sizeof mine.text - 1);
    ccl_i_watch_t watch = {&job->words->stop, &job->words->progress, job->options->watchdog_s};
    CCL_TRY(merge(job, &mine, &watch, out, err));
    if (out->status == CCL_OK && !out->hung && !job->options->no_check) {
        outcome_t checked = {.time_s = out->time_s};
        checked.status = stage(job, false, &own);
        if (checked.status == CCL_OK)
            checked.status = ccl_i_values_check(&values, run, &checked.checked, &checked.wrong,
                                                &checked.fault, &own);
        memcpy(checked.text, own.text, sizeof checked.text - 1);
        CCL_TRY(merge(job, &checked, NULL, out, err));
    }
    if (out->status != CCL_OK)
        return ccl_fail(err, out->status, "%s", out->text);
    return CCL_OK;
}

/* ---------------------------------------------------------------- what was found */

static ccl_status_t wrong_data(const ccl_i_job_t *job, const outcome_t *o, ccl_error_t *err) {
    const ccl_run_fault_t *f = &o->fault;
    char got[64] = "nothing: it was not written";
    if (!isnan(f->got))
        snprintf(got, sizeof got, "%.9g", f->got);
    return ccl_fail(err, CCL_CHECK,
                    "wrong data in run %u: rank %u output offset %llu (chunk %u, item %llu of "
                    "element %u): expected %.9g, got %s; %llu of %llu %s items are wrong",
                    f->repeat, f->rank, (unsigned long long)f->offset_bytes, f->chunk,
                    (unsigned long long)f->item, f->element, f->expected, got,
                    (unsigned long long)o->wrong, (unsigned long long)o->checked,
                    ccl_type_name(job->options->type));
}

/** Places of all units, known to every process. */
static ccl_status_t gather_places(ccl_i_job_t *job, ccl_device_place_t **out, ccl_error_t *err) {
    uint32_t n = job->plan->dev.nunits;
    size_t bytes = n * sizeof(ccl_device_place_t);
    ccl_device_place_t *all = calloc((size_t)n * job->group->world + 1, sizeof *all);
    if (!all)
        return ccl_fail_nomem(err);
    ccl_status_t status = ccl_i_group_exchange(job->group, job->places, bytes, all, NULL, err);
    for (uint32_t p = 1; p < job->nprocesses && status == CCL_OK; p++) {
        uint32_t first = ccl_i_first_rank(job->plan, job->nprocesses, p);
        uint32_t end = ccl_i_first_rank(job->plan, job->nprocesses, p + 1);
        uint32_t u = job->plan->rank_first_unit[first];
        memcpy(&all[u], &all[(size_t)n * p + u],
               (job->plan->rank_first_unit[end] - u) * sizeof *all);
    }
    if (status != CCL_OK) {
        free(all);
        return status;
    }
    *out = all;
    return CCL_OK;
}

static ccl_status_t hung(ccl_i_job_t *job, ccl_run_result_t *result, ccl_error_t *err) {
    ccl_device_place_t *places = NULL;
    if (job->hom)
        CCL_TRY(ccl_i_hom_hung(job->hom, err));
    ccl_deadlock_t *found = ccl_arena_alloc(&result->arena, 1, sizeof *found);
    if (!found)
        return ccl_fail_nomem(err);
    CCL_TRY(gather_places(job, &places, err));
    ccl_i_job_blame(job, places, found);
    free(places);
    result->deadlock = found;
    const ccl_deadlock_wait_t *w = &found->waits[0];
    char on[64] = "nobody";
    if (w->on_rank != CCL_NONE)
        snprintf(on, sizeof on, "rank %u block %u", w->on_rank, w->on_tb);
    return ccl_fail(err, CCL_DEADLOCK,
                    "nothing moved for %g s: %u blocks are stuck, rank %u block %u step %u waits "
                    "for %s of %s",
                    job->options->watchdog_s, found->stuck, w->rank, w->tb, w->step,
                    ccl_wait_name(w->wait), on);
}

static ccl_status_t take_uses(ccl_i_job_t *job, ccl_run_result_t *result, ccl_error_t *err) {
    uint32_t n = job->program->ntbs;
    ccl_run_block_t *own = calloc(n + (size_t)1, sizeof *own);
    ccl_run_block_t *all = calloc((size_t)n * job->group->world + 1, sizeof *all);
    result->blocks = ccl_arena_alloc(&result->arena, n ? n : 1, sizeof *result->blocks);
    ccl_status_t status = CCL_OK;
    if (!own || !all || !result->blocks) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    for (uint32_t u = job->plan->dev.first_unit; u < job->plan->dev.end_unit; u++) {
        const ccl_device_use_t *use = &job->uses[u];
        ccl_run_block_t *b = &own[job->plan->units[u].tb];
        b->busy_s += use->busy_s;
        b->wait_data_s += use->wait_data_s;
        b->wait_slot_s += use->wait_slot_s;
        b->wait_peer_s += use->wait_peer_s;
        b->wait_core_s += use->wait_core_s;
        b->slices += use->slices;
    }
    CCL_TRY_GOTO(ccl_i_group_exchange(job->group, own, n * sizeof *own, all, NULL, err), status,
                 end);
    for (uint32_t t = 0; t < n; t++) {
        uint32_t p = 0;
        while (job->program->tbs[t].rank >= ccl_i_first_rank(job->plan, job->nprocesses, p + 1))
            p++;
        result->blocks[t] = all[(size_t)n * p + t];
    }
end:
    free(own);
    free(all);
    return status;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static ccl_status_t sum_up(const ccl_i_job_t *job, ccl_run_result_t *r, ccl_error_t *err) {
    double *sorted = malloc(r->repeats * sizeof *sorted);
    if (!sorted)
        return ccl_fail_nomem(err);
    memcpy(sorted, r->time_s, r->repeats * sizeof *sorted);
    qsort(sorted, r->repeats, sizeof *sorted, by_value);
    uint32_t half = r->repeats / 2;
    r->min_s = sorted[0];
    r->max_s = sorted[r->repeats - 1];
    r->median_s = r->repeats % 2 ? sorted[half] : 0.5 * (sorted[half - 1] + sorted[half]);
    free(sorted);
    if (r->median_s > 0) {
        r->algbw_GBps = r->size_bytes / r->median_s / 1e9;
        r->busbw_GBps =
            r->algbw_GBps * ccl_collective_busbw_factor(job->program->coll->kind, r->nranks);
    }
    return CCL_OK;
}

static ccl_status_t all_runs(ccl_i_job_t *job, ccl_run_result_t *result, ccl_error_t *err) {
    const ccl_run_options_t *o = job->options;
    uint32_t runs = o->warmups + o->repeats + (o->block_times ? 1 : 0);
    for (uint32_t run = 0; run < runs; run++) {
        bool timed = run >= o->warmups + o->repeats;
        outcome_t out = {0};
        ccl_progress_t progress = {.phase = "run", .done = run, .total = runs};
        ccl_status_t polled = job->ctx ? ccl_ctx_poll(job->ctx, &progress) : CCL_OK;
        if (polled != CCL_OK)
            return polled; /* the others see us go */
        CCL_TRY(one_run(job, run, timed, &out, err));
        if (out.hung && job->vendor)
            return ccl_i_vendor_hung(job->vendor, err);
        if (out.hung)
            return hung(job, result, err);
        result->checked = !o->no_check;
        result->checked_items += out.checked;
        if (out.wrong) {
            result->wrong_items = out.wrong;
            result->fault = out.fault;
            return wrong_data(job, &out, err);
        }
        if (run >= o->warmups && !timed)
            result->time_s[run - o->warmups] = out.time_s;
    }
    if (o->block_times)
        CCL_TRY(take_uses(job, result, err));
    return sum_up(job, result, err);
}

/** Write a part's own kernel and have the device compile it. */
static ccl_status_t generate(ccl_i_job_t *job, ccl_i_job_part_t *part, double *compile_s,
                             ccl_error_t *err) {
    char log[1024] = "";
    if (!job->ops->kernel_compile)
        return ccl_fail(err, CCL_UNSUPPORTED,
                        "device %s runs no generated kernels: --kernel interpreter", job->kind);
    CCL_TRY(ccl_i_kernel_text(&part->plan, job->plan->slots, &part->kernel, err));
    double before_s = ccl_now_s();
    int code =
        job->ops->kernel_compile(part->kernel.data, part->properties.architecture, log, sizeof log);
    *compile_s += ccl_now_s() - before_s;
    if (code)
        return ccl_fail(err, CCL_ERR_IO, "device %s: the program's kernel: %s%s%.*s", job->kind,
                        job->ops->error_text(code), log[0] ? ": " : "", (int)strcspn(log, "\n"),
                        log);
    part->plan.source = part->kernel.data;
    return CCL_OK;
}

static ccl_status_t load(ccl_i_job_t *job, ccl_run_result_t *result, ccl_error_t *err) {
    for (uint32_t k = 0; k < job->nparts; k++) {
        ccl_i_job_part_t *part = &job->parts[k];
        if (job->options->kernel == CCL_KERNEL_GENERATED &&
            part->plan.first_unit < part->plan.end_unit)
            CCL_TRY(generate(job, part, &result->compile_s, err));
        int code = job->ops->program_load(part->device, &part->plan, job->threads, &part->loaded);
        if (code)
            return device_fail(job, code, "loading the program", err);
    }
    return CCL_OK;
}

/** A library makes its connections when they are first used: one run of which nothing is kept. */
static ccl_status_t load_library(ccl_i_job_t *job, ccl_run_result_t *result, ccl_error_t *err) {
    outcome_t first = {0};
    CCL_TRY(ccl_i_vendor_open(job, result->library, sizeof result->library, &job->vendor, err));
    CCL_TRY(one_run(job, 0, false, &first, err));
    return first.hung ? ccl_i_vendor_hung(job->vendor, err) : CCL_OK;
}

/** The same for libraries inside clusters. */
static ccl_status_t connect_libraries(ccl_i_job_t *job, ccl_run_result_t *result,
                                      ccl_error_t *err) {
    outcome_t first = {0};
    CCL_TRY(ccl_i_hom_connect(job->hom, err));
    CCL_TRY(one_run(job, 0, false, &first, err));
    return first.hung ? hung(job, result, err) : CCL_OK;
}

ccl_status_t ccl_i_job_run(ccl_i_job_t *job, ccl_run_result_t *result, ccl_error_t *err) {
    if (job->options->library) {
        CCL_TRY(load_library(job, result, err)); /* all together, or none */
        return all_runs(job, result, err);
    }
    ccl_status_t status = load(job, result, err);
    status = ccl_i_group_agree(job->group, status, err);
    if (status == CCL_OK && job->hom)
        status = connect_libraries(job, result, err);
    return status == CCL_OK ? all_runs(job, result, err) : status;
}
