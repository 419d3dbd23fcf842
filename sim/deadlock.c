/*
 * Of a run that is stuck: who waits for whom, found by the untimed run (blocking does not depend on
 * time), and on which FIFOs it depends, found by trying others.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/program.h"

/** The run's steps as the untimed run takes them. */
typedef struct steps {
    const ccl_i_run_t *run;
    const ccl_i_fifos_t *fifos;
    uint32_t *slots, *slices; /* [nsteps] */
    double *bytes;            /* [nsteps] over all micro-batches */
    uint8_t *kind;            /* [nsteps] of the connection that a step sends on */
    uint8_t *deepen;          /* [nsteps] in a trial of deeper FIFOs */
    ccl_blocking_t blocking;
} steps_t;

static bool steps_alloc(steps_t *s, size_t n) {
    s->slots = malloc((n + 1) * sizeof(*s->slots));
    s->slices = malloc((n + 1) * sizeof(*s->slices));
    s->bytes = malloc((n + 1) * sizeof(*s->bytes));
    s->kind = calloc(n + 1, 1);
    s->deepen = calloc(n + 1, 1);
    return s->slots && s->slices && s->bytes && s->kind && s->deepen;
}

static void steps_fini(steps_t *s) {
    free(s->slots);
    free(s->slices);
    free(s->bytes);
    free(s->kind);
    free(s->deepen);
}

static void take_steps(steps_t *s) {
    const ccl_i_run_t *run = s->run;
    for (uint32_t i = 0; i < run->nunits; i++) {
        const ccl_i_unit_t *u = &run->units[i];
        for (uint32_t k = 0; k < u->nsteps; k++) {
            uint32_t step = ccl_i_step_at(run, u->first + k);
            uint32_t send = run->step_conns ? run->step_conns[2 * (size_t)step] : u->send;
            const ccl_i_work_t *w = &run->work[step];
            s->slots[step] = send != CCL_NONE ? run->conns[send].slots : 1;
            s->kind[step] = send != CCL_NONE ? run->conns[send].kind : UINT8_MAX;
            s->slices[step] = w->slices;
            s->bytes[step] = w->sends || w->receives ? w->bytes * w->slices * run->batches : 0;
        }
    }
    s->blocking = (ccl_blocking_t){.granularity = run->granularity,
                                   .batches = run->batches,
                                   .step_slots = s->slots,
                                   .slots = 1,
                                   .step_slices = s->slices};
}

/* ---------------------------------------------------------------- deeper FIFOs */

/* Transports whose slots a block of the cycle waits for, in its order. @return how many. */
static uint32_t waited_for(const steps_t *s, const ccl_deadlock_t *d, uint8_t *kinds) {
    const ccl_program_t *p = s->run->program;
    uint32_t n = 0;
    for (uint32_t i = 0; i < d->nwaits && i < CCL_ARRAY_LEN(d->waits); i++) {
        const ccl_deadlock_wait_t *w = &d->waits[i];
        if (w->wait != CCL_WAIT_SLOT)
            continue;
        uint8_t kind = s->kind[p->tbs[p->rank_first_tb[w->rank] + w->tb].first_step + w->step];
        if (kind != UINT8_MAX && !memchr(kinds, kind, n))
            kinds[n++] = kind;
    }
    return n;
}

static void name_fifos(const steps_t *s, uint8_t kind, ccl_deadlock_cause_t *out) {
    const char *name = s->fifos->kind[kind].name;
    const ccl_transport_spec_t *spec =
        ccl_model_slots_spec(s->run->topo, name, s->run->program->proto);
    snprintf(out->transport, sizeof(out->transport), "%.31s", name);
    snprintf(out->protocol, sizeof(out->protocol), "%.15s",
             spec && spec->protocol ? spec->protocol : "");
    const char *from = !spec ? "" : spec->slots_from ? spec->slots_from : s->run->topo->name;
    snprintf(out->from, sizeof(out->from), "%s%.150s",
             ccl_topology_library_find(from) ? "library " : "", from);
    out->slots = s->fifos->kind[kind].transport.slots;
}

/* One transport's FIFOs, or when none alone will do, all. */
static ccl_status_t deeper(steps_t *s, const ccl_deadlock_t *d, ccl_deadlock_cause_t *out,
                           ccl_error_t *err) {
    const ccl_program_t *p = s->run->program;
    uint8_t kinds[CCL_ARRAY_LEN(d->waits)];
    uint32_t n = waited_for(s, d, kinds);
    for (uint32_t i = 0; i < n && !out->least_slots; i++) {
        for (uint32_t step = 0; step < p->nsteps; step++)
            s->deepen[step] = s->kind[step] == kinds[i];
        CCL_TRY(ccl_program_least_slots(s->run->ctx, p, &s->blocking, s->deepen, &out->least_slots,
                                        err));
        if (out->least_slots)
            name_fifos(s, kinds[i], out);
    }
    if (n == 0 || out->least_slots)
        return CCL_OK;
    CCL_TRY(ccl_program_least_slots(s->run->ctx, p, &s->blocking, NULL, &out->least_slots, err));
    if (n == 1)
        name_fifos(s, kinds[0], out);
    else
        out->slots = s->fifos->slots;
    return CCL_OK;
}

/* ---------------------------------------------------------------- other micro-batches */

/* As the simulator cuts a step of that many bytes (docs/model.md, "Primitives"). */
static uint32_t slices_at(const steps_t *s, uint32_t step, uint32_t batches) {
    if (!(s->bytes[step] > 0))
        return s->slices[step];
    double n = ccl_model_ceil(s->bytes[step] / batches / s->fifos->slice_bytes);
    return n > s->fifos->slices ? (uint32_t)n : s->fifos->slices;
}

static ccl_status_t finishes_in(const steps_t *s, uint32_t *slices, uint32_t batches, bool *out,
                                ccl_error_t *err) {
    const ccl_program_t *p = s->run->program;
    ccl_blocking_t trial = s->blocking;
    ccl_deadlock_t found;
    for (uint32_t step = 0; step < p->nsteps; step++)
        slices[step] = slices_at(s, step, batches);
    trial.batches = batches;
    trial.step_slices = slices;
    CCL_TRY(ccl_program_deadlock(s->run->ctx, p, &trial, &found, err));
    *out = found.stuck == 0;
    return CCL_OK;
}

/* Where smaller chunks no longer mean fewer slices; at task level one micro-batch. */
static uint32_t last_batches(const steps_t *s) {
    double most = 0;
    if (s->run->granularity == CCL_GRANULARITY_TASK)
        return 1;
    for (uint32_t step = 0; step < s->run->program->nsteps; step++)
        most = s->bytes[step] > most ? s->bytes[step] : most;
    double n = ccl_model_ceil(most / s->fifos->slice_bytes / s->fifos->slices);
    return n < 1 ? 1 : n > 1e9 ? 1000000000u : (uint32_t)n;
}

/* The number nearest to the run's with which it finishes, between it and the last that helps. */
static ccl_status_t other_batches(const steps_t *s, uint32_t *out, ccl_error_t *err) {
    uint32_t fails = s->run->batches, ends = last_batches(s);
    bool task = s->run->granularity == CCL_GRANULARITY_TASK, yes = false;
    *out = 0;
    if (task ? ends >= fails : ends <= fails)
        return CCL_OK;
    uint32_t *slices = malloc((s->run->program->nsteps + 1u) * sizeof(*slices));
    if (!slices)
        return ccl_fail_nomem(err);
    ccl_status_t status = finishes_in(s, slices, ends, &yes, err);
    bool any = yes;
    while (status == CCL_OK && any && (task ? fails - ends : ends - fails) > 1) {
        uint32_t middle = task ? ends + (fails - ends) / 2 : fails + (ends - fails) / 2;
        status = finishes_in(s, slices, middle, &yes, err);
        if (yes)
            ends = middle;
        else
            fails = middle;
    }
    free(slices);
    if (status == CCL_OK && any)
        *out = ends;
    return status;
}

ccl_status_t ccl_i_run_deadlock(const ccl_i_run_t *run, const ccl_i_fifos_t *fifos, bool cause,
                                ccl_sim_result_t *r, ccl_error_t *err) {
    steps_t s = {.run = run, .fifos = fifos};
    ccl_status_t status = CCL_OK;
    ccl_deadlock_cause_t found = {.known = true};
    r->deadlock = ccl_arena_alloc(&r->arena, 1, sizeof(*r->deadlock));
    if (!r->deadlock || !steps_alloc(&s, run->program->nsteps)) {
        status = ccl_fail_nomem(err);
        goto done;
    }
    take_steps(&s);
    CCL_TRY_GOTO(ccl_program_deadlock(run->ctx, run->program, &s.blocking, r->deadlock, err),
                 status, done);
    if (r->deadlock->stuck == 0) {
        status = ccl_fail(err, CCL_ERR_INTERNAL,
                          "%u thread blocks did not finish, the untimed run finds no deadlock",
                          run->nleft);
        goto done;
    }
    if (!cause)
        goto done;
    CCL_TRY_GOTO(deeper(&s, r->deadlock, &found, err), status, done);
    if (found.least_slots) {
        CCL_TRY_GOTO(other_batches(&s, &found.batches, err), status, done);
        found.slice_bytes = fifos->slice_bytes < 1e18 ? fifos->slice_bytes : 0;
    }
    r->deadlock->cause = found;
done:
    steps_fini(&s);
    return status;
}

void ccl_i_deadlock_text(const ccl_deadlock_t *d, char *out, size_t len) {
    const ccl_deadlock_cause_t *c = &d->cause;
    int n = snprintf(out, len, "deadlock: %u thread blocks cannot finish", d->stuck);
    if (!c->known || n < 0 || (size_t)n >= len)
        return;
    if (!c->least_slots)
        snprintf(out + n, len - (size_t)n, ", at any depth of FIFOs");
    else
        snprintf(out + n, len - (size_t)n, "; slots%s%s%s%s are %u (%s), with %u they would",
                 c->transport[0] ? " of " : "", c->transport, c->protocol[0] ? " " : "",
                 c->protocol, c->slots, c->from[0] ? c->from : "the default", c->least_slots);
}
