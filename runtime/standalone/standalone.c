/**
 * @file standalone.c
 * From a program to the numbers of its stand-alone source: where elements and connections lie.
 */
#include "runtime/standalone/standalone.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_SLOTS = 8, DEFAULT_SLICE_BYTES = 32 << 10, MOST_SLOTS = 1024, SIDE_BYTES = 256 };
enum { CUDA_BLOCKS = 132, HIP_BLOCKS = 304 };
/* nvcc takes about 20 ms a step and architecture (docs/kernels.md). */
#define MAX_STEPS (1u << 14)

/* ---------------------------------------------------------------- elements */

ccl_i_standalone_at_t ccl_i_standalone_place(const ccl_i_standalone_t *s, uint32_t rank,
                                             uint32_t buffer, uint32_t element) {
    const ccl_collective_t *coll = s->program->coll;
    const uint32_t *len = s->program->buffer_len + 3 * (size_t)rank;
    uint32_t in = ccl_collective_input_len(coll, rank), out = ccl_collective_output_len(coll, rank);
    uint32_t first[2] = {0, 0}, own = len[CCL_BUF_SCRATCH];
    if (buffer == CCL_BUF_SCRATCH)
        return (ccl_i_standalone_at_t){CCL_BUF_SCRATCH, element};
    bool one = s->in_place && ccl_collective_in_place(coll, rank, &first[0], &first[1]);
    if (one) {
        uint32_t at = first[buffer] + element, end = first[0] + in;
        end = end > first[1] + out ? end : first[1] + out;
        if (at < end)
            return (ccl_i_standalone_at_t){CCL_BUF_OUTPUT, at};
        return (ccl_i_standalone_at_t){CCL_BUF_SCRATCH, own + at - end};
    }
    if (element < (buffer == CCL_BUF_INPUT ? in : out))
        return (ccl_i_standalone_at_t){buffer, element};
    /* The collective has no such place: memory of the kernel's own. */
    return (ccl_i_standalone_at_t){
        CCL_BUF_SCRATCH, own + (buffer == CCL_BUF_OUTPUT ? len[CCL_BUF_INPUT] : 0) + element};
}

/** Scratch that the steps of a rank reach, and whether they write what a caller only reads. */
static void scan_elements(ccl_i_standalone_t *s) {
    const ccl_program_t *p = s->program;
    for (uint32_t t = 0; t < p->ntbs; t++) {
        uint32_t rank = p->tbs[t].rank, in_first = 0, out_first = 0;
        (void)ccl_collective_in_place(p->coll, rank, &in_first, &out_first);
        uint32_t out_end = out_first + ccl_collective_output_len(p->coll, rank);
        for (uint32_t i = p->tbs[t].first_step; i < p->tbs[t].first_step + p->tbs[t].nsteps; i++) {
            const ccl_step_t *step = &p->steps[i];
            for (uint32_t k = 0; k < 2 && step->count; k++) {
                if (!(k ? ccl_i_prim_writes(step->type) : ccl_i_prim_reads(step->type)))
                    continue;
                uint32_t buffer = k ? step->dst_buf : step->src_buf;
                for (uint32_t e = 0; e < step->count; e++) {
                    ccl_i_standalone_at_t at = ccl_i_standalone_place(
                        s, rank, buffer, (k ? step->dst_off : step->src_off) + e);
                    if (at.buffer == CCL_BUF_SCRATCH && at.element >= s->scratch[rank])
                        s->scratch[rank] = at.element + 1;
                    else if (k && at.buffer != CCL_BUF_SCRATCH && s->in_place &&
                             (at.element < out_first || at.element >= out_end))
                        s->writes_input[rank] = 1;
                }
            }
        }
    }
}

/* ---------------------------------------------------------------- connections */

/** Sides of connections in the regions of their ranks, and marks of steps. */
static void lay_out(ccl_i_standalone_t *s, bool puts) {
    const ccl_device_plan_t *dev = &s->plan.dev;
    uint64_t fifo = (s->slot_bytes * s->plan.slots + SIDE_BYTES - 1) / SIDE_BYTES * SIDE_BYTES;
    for (uint32_t c = 0; c < dev->nconns; c++) {
        uint32_t src = s->plan.conn_src[c], dst = s->plan.conn_dst[c];
        s->in_at[c] = s->region[dst];
        s->region[dst] += SIDE_BYTES + fifo;
        s->out_at[c] = s->region[src];
        s->region[src] += SIDE_BYTES + (puts ? fifo : 0); /* what is put comes from there */
        s->in_signal[c] = s->signals[dst]++;
        s->out_signal[c] = s->signals[src]++;
    }
    for (uint32_t u = 0; u < dev->nunits; u++) {
        const ccl_device_unit_t *unit = &s->plan.units[u];
        for (uint32_t i = unit->first_step; i < unit->first_step + unit->nsteps; i++)
            s->mark[i] = s->plan.steps[i].nwaiters ? s->marks[unit->rank]++ : CCL_NONE;
    }
}

static ccl_status_t allocate(ccl_i_standalone_t *s, ccl_error_t *err) {
    size_t conns = s->plan.dev.nconns + (size_t)1, ranks = s->program->nranks + (size_t)1;
    s->in_at = calloc(conns, sizeof *s->in_at);
    s->out_at = calloc(conns, sizeof *s->out_at);
    s->in_signal = calloc(conns, sizeof *s->in_signal);
    s->out_signal = calloc(conns, sizeof *s->out_signal);
    s->region = calloc(ranks, sizeof *s->region);
    s->signals = calloc(ranks, sizeof *s->signals);
    s->mark = calloc(s->plan.dev.nsteps + (size_t)1, sizeof *s->mark);
    s->marks = calloc(ranks, sizeof *s->marks);
    s->scratch = calloc(ranks, sizeof *s->scratch);
    s->writes_input = calloc(ranks, sizeof *s->writes_input);
    return s->in_at && s->out_at && s->in_signal && s->out_signal && s->region && s->signals &&
                   s->mark && s->marks && s->scratch && s->writes_input
               ? CCL_OK
               : ccl_fail_nomem(err);
}

/* ---------------------------------------------------------------- what cannot be */

static ccl_status_t refuse_program(const ccl_program_t *p, ccl_error_t *err) {
    if (p->coll->kind == CCL_CUSTOM)
        return ccl_fail(err, CCL_UNSUPPORTED,
                        "a demand: a kernel has a function of NCCL's shape, which allreduce, "
                        "allgather and the like have");
    if (p->nranks < 2)
        return ccl_fail(err, CCL_UNSUPPORTED, "a program of one rank: nothing moves");
    if (p->ngroups)
        return ccl_fail(err, CCL_UNSUPPORTED,
                        "the program has switch connections, which kernels have not; MSCCL++ plans "
                        "have (synth --format mscclpp)");
    for (uint32_t i = 0; p->shares && i < 3 * p->nranks; i++)
        for (uint32_t k = 0; k < p->buffer_len[i]; k++)
            if (fabs(p->shares[i][k] * p->nchunks - 1) > 1e-9)
                return ccl_fail(err, CCL_UNSUPPORTED,
                                "chunks of different sizes: kernels have equal ones");
    return CCL_OK;
}

static ccl_status_t refuse_size(const ccl_i_standalone_t *s,
                                const ccl_standalone_options_t *options, ccl_error_t *err) {
    uint32_t most = options->max_blocks                   ? options->max_blocks
                    : options->what == CCL_STANDALONE_HIP ? HIP_BLOCKS
                                                          : CUDA_BLOCKS;
    for (uint32_t r = 0; r < s->program->nranks; r++) {
        uint32_t n = s->plan.rank_first_unit[r + 1] - s->plan.rank_first_unit[r];
        if (n > most)
            return ccl_fail(err, CCL_UNSUPPORTED,
                            "rank %u has %u thread blocks, but a GPU holds %u; fewer channels, or "
                            "another lowering, have fewer",
                            r, n, most);
    }
    if (s->plan.dev.nsteps > MAX_STEPS)
        return ccl_fail(err, CCL_UNSUPPORTED, "a kernel of %u steps: at most %u are written",
                        s->plan.dev.nsteps, MAX_STEPS);
    return CCL_OK;
}

/** It finishes with calls of one slice, of a full FIFO, and of several micro-batches. */
static ccl_status_t refuse_deadlock(const ccl_program_t *p, const ccl_run_options_t *base,
                                    ccl_deadlock_t *deadlock, ccl_error_t *err) {
    double half = 0.5 * base->slots * base->slice_bytes;
    double sizes[] = {1, half * p->nchunks, 2.5 * half * p->nchunks};
    for (size_t i = 0; i < CCL_ARRAY_LEN(sizes); i++) {
        ccl_run_options_t o = *base;
        ccl_i_run_plan_t plan;
        o.size_bytes = sizes[i];
        CCL_TRY(ccl_i_run_plan_init(p, &o, &plan, err));
        ccl_status_t status = ccl_i_run_plan_deadlock(
            NULL, p, &plan, ccl_program_level(p, o.granularity), deadlock, err);
        if (status == CCL_OK && deadlock->nwaits) {
            const ccl_deadlock_wait_t *w = &deadlock->waits[0];
            status = ccl_fail(err, CCL_DEADLOCK,
                              "the kernel could not finish with FIFOs of %u slices and %u "
                              "micro-batches: rank %u block %u step %u would wait for %s",
                              plan.slots, plan.dev.batches, w->rank, w->tb, w->step,
                              ccl_wait_name(w->wait));
        }
        ccl_i_run_plan_fini(&plan);
        CCL_TRY(status);
    }
    return CCL_OK;
}

static ccl_status_t check_options(const ccl_standalone_options_t *o, ccl_error_t *err) {
    if (o->slots > MOST_SLOTS)
        return ccl_fail(err, CCL_ERR_USAGE, "%u slots: at most %u", o->slots, MOST_SLOTS);
    if (o->slice_bytes % 16 || o->slice_bytes > (1u << 24))
        return ccl_fail(err, CCL_ERR_USAGE, "slices of %u bytes: whole 16 and at most 16M",
                        o->slice_bytes);
    return CCL_OK;
}

/* ---------------------------------------------------------------- all of it */

ccl_status_t ccl_i_standalone_init(const ccl_program_t *program,
                                   const ccl_standalone_options_t *options, ccl_i_standalone_t *out,
                                   ccl_error_t *err) {
    ccl_i_standalone_t s = {.program = program};
    ccl_run_options_t run = CCL_RUN_OPTIONS_INIT;
    ccl_status_t status;
    CCL_TRY(check_options(options, err));
    CCL_TRY(refuse_program(program, err));
    run.granularity = options->granularity;
    run.protocol = options->protocol;
    run.out_of_place = options->out_of_place;
    run.slots = options->slots ? options->slots : DEFAULT_SLOTS;
    s.slice_bytes = options->slice_bytes ? options->slice_bytes : DEFAULT_SLICE_BYTES;
    run.slice_bytes = s.slice_bytes;
    run.size_bytes = 1;
    s.in_place = program->in_place && !(options->out_of_place && program->out_of_place);
    ccl_deadlock_t *deadlock = calloc(1, sizeof *deadlock);
    status = deadlock ? refuse_deadlock(program, &run, deadlock, err) : ccl_fail_nomem(err);
    free(deadlock);
    CCL_TRY(status);
    CCL_TRY(ccl_i_run_plan_init(program, &run, &s.plan, err));
    uint64_t bytes = ccl_i_slot_bytes(s.plan.dev.protocol, s.slice_bytes);
    s.slot_bytes =
        (bytes + CCL_DEVICE_LL128_LINE - 1) / CCL_DEVICE_LL128_LINE * CCL_DEVICE_LL128_LINE;
    CCL_TRY_GOTO(refuse_size(&s, options, err), status, end);
    CCL_TRY_GOTO(allocate(&s, err), status, end);
    scan_elements(&s);
    lay_out(&s, options->what == CCL_STANDALONE_NCCL);
    CCL_TRY_GOTO(ccl_i_standalone_mixes(&s, &s.whole, err), status, end);
    *out = s;
    return CCL_OK;
end:
    ccl_i_standalone_fini(&s);
    return status;
}

void ccl_i_standalone_fini(ccl_i_standalone_t *s) {
    ccl_i_run_plan_fini(&s->plan);
    free(s->in_at);
    free(s->out_at);
    free(s->region);
    free(s->in_signal);
    free(s->out_signal);
    free(s->signals);
    free(s->mark);
    free(s->marks);
    free(s->scratch);
    free(s->writes_input);
    memset(s, 0, sizeof *s);
}
