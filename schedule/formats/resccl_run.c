/*
 * Running a ResCCLang program: loops unrolled into the transfers of a schedule.
 *
 * The unified DataBuffer of a rank has as many chunks as there are ranks, so an AllReduce has
 * nRanks chunks, and AllGather and ReduceScatter one per rank.
 * Source: ResCCL (SIGCOMM 2025) section 4.2, appendix B.
 */
#include "schedule/formats/resccl_i.h"

#include <stdlib.h>
#include <string.h>

typedef struct runner {
    const ccl_i_resccl_t *program;
    ccl_schedule_builder_t *builder;
    uint32_t nchunks;
    int64_t *values; /* [nvariables] */
    bool *is_set;    /* [nvariables] */
    int64_t *stack;  /* [max_stack] */
    uint64_t iterations, operations;
    uint32_t ntransfers;
    const char *file;
    ccl_error_t *err;
} runner_t;

#define BAD(r_, pos_, ...)                                                                         \
    ccl_error_set((r_)->err, CCL_ERR_INPUT, (r_)->file, (pos_).line, (pos_).column, __VA_ARGS__)

static int64_t floor_div(int64_t a, int64_t b) {
    int64_t q = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

static int64_t floor_mod(int64_t a, int64_t b) {
    int64_t r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

/** False: does not fit. */
static bool calculate(ccl_i_resccl_op_t op, int64_t a, int64_t b, int64_t *out) {
    switch (op) {
    case CCL_I_OP_ADD:
        return !__builtin_add_overflow(a, b, out);
    case CCL_I_OP_SUB:
        return !__builtin_sub_overflow(a, b, out);
    case CCL_I_OP_MUL:
        return !__builtin_mul_overflow(a, b, out);
    default:
        if (b == -1) { /* the quotient of the least integer does not fit */
            *out = 0;
            return op == CCL_I_OP_MOD || !__builtin_sub_overflow((int64_t)0, a, out);
        }
        *out = op == CCL_I_OP_DIV ? floor_div(a, b) : floor_mod(a, b);
        return true;
    }
}

static ccl_status_t evaluate(runner_t *r, const ccl_i_stmt_t *stmt, unsigned index, int64_t *out) {
    int64_t *top = r->stack; /* one above the last value */
    r->operations += stmt->behind[index] - stmt->first[index] + 1;
    if (r->operations > CCL_I_RESCCL_MAX_OPERATIONS)
        return BAD(r, stmt->pos, "the program runs too long: more than %u operations",
                   CCL_I_RESCCL_MAX_OPERATIONS);
    for (uint32_t i = stmt->first[index]; i < stmt->behind[index]; i++) {
        const ccl_i_instr_t *in = &r->program->code[i];
        if (in->op == CCL_I_OP_NUMBER) {
            *top++ = in->value;
        } else if (in->op == CCL_I_OP_LOAD) {
            if (!r->is_set[in->value])
                return BAD(r, in->pos, "variable '%.40s' has no value yet",
                           r->program->names[in->value]);
            *top++ = r->values[in->value];
        } else if (in->op == CCL_I_OP_NEG) {
            if (!calculate(CCL_I_OP_SUB, 0, top[-1], &top[-1]))
                return BAD(r, in->pos, "the result does not fit in 64 bits");
        } else {
            top--;
            if (*top == 0 && (in->op == CCL_I_OP_DIV || in->op == CCL_I_OP_MOD))
                return BAD(r, in->pos, "division by zero");
            if (!calculate(in->op, top[-1], top[0], &top[-1]))
                return BAD(r, in->pos, "the result does not fit in 64 bits");
        }
    }
    *out = top[-1];
    return CCL_OK;
}

static bool is_given(const ccl_i_stmt_t *stmt, unsigned index) {
    return stmt->behind[index] > stmt->first[index];
}

static ccl_status_t run_transfer(runner_t *r, const ccl_i_stmt_t *stmt) {
    enum { SRC, DST, STEP, CHUNK, N };
    static const char *const what[N] = {"source rank", "destination rank", "step", "chunk"};
    int64_t nranks = r->program->nranks;
    int64_t limit[N] = {nranks, nranks, CCL_I_MAX_STEP_NUMBER, r->nchunks};
    int64_t v[N];
    for (unsigned i = 0; i < N; i++) {
        CCL_TRY(evaluate(r, stmt, i, &v[i]));
        if (v[i] < 0 || v[i] >= limit[i])
            return BAD(r, stmt->pos, "the transfer's %s is %lld: from 0 to %lld are possible",
                       what[i], (long long)v[i], (long long)limit[i] - 1);
    }
    if (v[SRC] == v[DST])
        return BAD(r, stmt->pos, "rank %lld sends chunk %lld to itself", (long long)v[SRC],
                   (long long)v[CHUNK]);
    if (r->ntransfers++ >= CCL_I_MAX_TRANSFERS)
        return BAD(r, stmt->pos, "too many transfers: at most %u", CCL_I_MAX_TRANSFERS);
    /* An AllReduce reduces first and spreads the results in its second phase. */
    bool second = r->program->kind == CCL_ALLREDUCE && !stmt->reduce;
    ccl_schedule_builder_add(r->builder, (ccl_transfer_t){.src = (uint32_t)v[SRC],
                                                          .dst = (uint32_t)v[DST],
                                                          .chunk = (uint32_t)v[CHUNK],
                                                          .step = (uint32_t)v[STEP],
                                                          .reduce = stmt->reduce,
                                                          .phase = second});
    return CCL_OK;
}

static ccl_status_t run(runner_t *r, uint32_t from, uint32_t to);

static ccl_status_t run_for(runner_t *r, uint32_t index) {
    const ccl_i_stmt_t *stmt = &r->program->stmts[index];
    int64_t start = 0, stop, step = 1, length;
    if (is_given(stmt, 0))
        CCL_TRY(evaluate(r, stmt, 0, &start));
    CCL_TRY(evaluate(r, stmt, 1, &stop));
    if (is_given(stmt, 2))
        CCL_TRY(evaluate(r, stmt, 2, &step));
    if (step == 0)
        return BAD(r, stmt->pos, "the step of the range is 0");
    if (__builtin_sub_overflow(stop, start, &length) || (length < 0) != (step < 0 && length != 0))
        return BAD(r, stmt->pos, "the range from %lld to %lld in steps of %lld is negative",
                   (long long)start, (long long)stop, (long long)step);
    for (int64_t value = start; step > 0 ? value < stop : value > stop;) {
        if (r->iterations++ >= CCL_I_RESCCL_MAX_ITERATIONS)
            return BAD(r, stmt->pos, "the program runs too long: more than %u turns of loops",
                       CCL_I_RESCCL_MAX_ITERATIONS);
        r->values[stmt->variable] = value;
        r->is_set[stmt->variable] = true;
        CCL_TRY(run(r, index + 1, stmt->body_end));
        if (__builtin_add_overflow(value, step, &value))
            break;
    }
    return CCL_OK;
}

/** Statements from .. to - 1; recursion is as deep as blocks are nested. */
static ccl_status_t run(runner_t *r, uint32_t from, uint32_t to) {
    for (uint32_t i = from; i < to; i++) {
        const ccl_i_stmt_t *stmt = &r->program->stmts[i];
        if (stmt->kind == CCL_I_STMT_TRANSFER) {
            CCL_TRY(run_transfer(r, stmt));
        } else if (stmt->kind == CCL_I_STMT_ASSIGN) {
            CCL_TRY(evaluate(r, stmt, 0, &r->values[stmt->variable]));
            r->is_set[stmt->variable] = true;
        } else {
            CCL_TRY(run_for(r, i));
            i = stmt->body_end - 1;
        }
    }
    return CCL_OK;
}

static ccl_status_t make_builder(runner_t *r) {
    const ccl_i_resccl_t *p = r->program;
    uint32_t chunks_per_block = p->kind == CCL_ALLREDUCE ? p->nranks : 1;
    ccl_collective_t *coll;
    CCL_TRY(ccl_collective_create(p->kind, p->nranks, chunks_per_block, 0, &coll, r->err));
    r->nchunks = coll->nchunks;
    r->builder = ccl_schedule_builder_create(p->name ? p->name : "resccl", coll);
    return r->builder ? CCL_OK : ccl_fail_nomem(r->err);
}

ccl_status_t ccl_schedule_read_resccl(const char *name, const char *text, size_t len,
                                      ccl_schedule_t **out, ccl_error_t *err) {
    ccl_i_resccl_t program = {0};
    runner_t r = {.program = &program, .file = name, .err = err};
    ccl_status_t status;
    CCL_TRY_GOTO(ccl_i_resccl_parse(name, text, len, &program, err), status, end);
    size_t nvariables = program.nvariables;
    r.values = calloc(nvariables + 1, sizeof *r.values);
    r.is_set = calloc(nvariables + 1, sizeof *r.is_set);
    r.stack = calloc(program.max_stack + 1, sizeof *r.stack);
    if (!r.values || !r.is_set || !r.stack) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    if (nvariables) {
        memcpy(r.values, program.preset, nvariables * sizeof *r.values);
        memcpy(r.is_set, program.is_preset, nvariables * sizeof *r.is_set);
    }
    CCL_TRY_GOTO(make_builder(&r), status, end);
    CCL_TRY_GOTO(run(&r, 0, (uint32_t)program.nstmts), status, end);
    status = ccl_schedule_builder_finish(r.builder, out, err);
    r.builder = NULL;
end:
    ccl_schedule_builder_destroy(r.builder);
    free(r.values);
    free(r.is_set);
    free(r.stack);
    ccl_i_resccl_fini(&program);
    return status;
}
