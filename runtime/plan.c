/**
 * @file plan.c
 * Steps with their pieces, micro-batches, slices and who waits for whom. Units and connections are
 * in connections.c.
 */
#include "runtime/plan_i.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_SLOTS = 8, MIN_SLICE_BYTES = 4096, DEFAULT_SLICE_BYTES = 32 << 10 };
#define MAX_BATCHES (1u << 24)
#define FIFO_BUDGET_BYTES (UINT64_C(512) << 20)

const char *ccl_run_protocol_name(ccl_run_protocol_t protocol) {
    static const char *const names[] = {"", "Simple", "LL", "LL128"};
    return (unsigned)protocol < CCL_ARRAY_LEN(names) ? names[protocol] : "?";
}

bool ccl_i_prim_reads(uint32_t prim) {
    return prim == CCL_PRIM_S || prim == CCL_PRIM_RRS || prim == CCL_PRIM_RRC ||
           prim == CCL_PRIM_RRCS || prim == CCL_PRIM_CPY || prim == CCL_PRIM_RE;
}

bool ccl_i_prim_writes(uint32_t prim) {
    return prim == CCL_PRIM_R || prim == CCL_PRIM_RCS || prim == CCL_PRIM_RRC ||
           prim == CCL_PRIM_RRCS || prim == CCL_PRIM_CPY || prim == CCL_PRIM_RE;
}

/* ---------------------------------------------------------------- pieces */

static ccl_status_t make_pieces(const ccl_program_t *program, const ccl_device_unit_t *unit,
                                uint32_t at, ccl_i_run_plan_t *plan, size_t *cap,
                                ccl_error_t *err) {
    const ccl_i_layout_t *l = &plan->layout;
    uint32_t index = plan->program_step[at];
    const ccl_step_t *s = &program->steps[index];
    const ccl_tb_t *tb = &program->tbs[unit->tb];
    ccl_device_step_t *d = &plan->steps[at];
    bool reads = ccl_i_prim_reads(s->type), writes = ccl_i_prim_writes(s->type);
    d->first_piece = plan->dev.npieces;
    if (!reads && !writes)
        return CCL_OK;
    ccl_device_piece_t *last = NULL;
    for (uint32_t e = 0; e < s->count; e++) {
        uint32_t src = reads ? ccl_i_layout_element(l, tb->rank, s->src_buf, s->src_off + e) : 0;
        uint32_t dst = writes ? ccl_i_layout_element(l, tb->rank, s->dst_buf, s->dst_off + e) : 0;
        uint64_t items = l->items[reads ? src : dst]; /* of one size */
        uint64_t from = reads ? l->at[src] : 0, to = writes ? l->at[dst] : 0;
        if (items == 0)
            continue;
        if (last && last->items == items && (!reads || from == last->src + last->n * items) &&
            (!writes || to == last->dst + last->n * items)) {
            last->n++;
            continue;
        }
        if (!ccl_grow(&plan->pieces, cap, plan->dev.npieces + (size_t)1, sizeof *plan->pieces))
            return ccl_fail_nomem(err);
        last = &plan->pieces[plan->dev.npieces++];
        *last = (ccl_device_piece_t){from, to, items, items, 1};
        d->npieces++;
    }
    return CCL_OK;
}

/* ---------------------------------------------------------------- dependencies */

static ccl_status_t make_waiters(const ccl_program_t *program, ccl_i_run_plan_t *plan,
                                 ccl_error_t *err) {
    uint32_t n = program->nsteps, total = 0;
    uint32_t *place = malloc((n + (size_t)1) * sizeof *place); /* of program steps */
    uint32_t *unit_of = malloc((n + (size_t)1) * sizeof *unit_of);
    plan->waiters = malloc((n + (size_t)plan->dev.nunits + 1) * sizeof *plan->waiters);
    if (!place || !unit_of || !plan->waiters) {
        free(place);
        free(unit_of);
        return ccl_fail_nomem(err);
    }
    for (uint32_t u = 0; u < plan->dev.nunits; u++) {
        const ccl_device_unit_t *unit = &plan->units[u];
        for (uint32_t i = unit->first_step; i < unit->first_step + unit->nsteps; i++) {
            place[plan->program_step[i]] = i;
            unit_of[i] = u;
        }
    }
    for (uint32_t u = 0; u < plan->dev.nunits; u++) {
        const ccl_device_unit_t *unit = &plan->units[u];
        const ccl_tb_t *tb = &program->tbs[unit->tb];
        if (unit->after != CCL_NONE)
            plan->steps[unit->after].nwaiters++;
        for (uint32_t i = unit->first_step; i < unit->first_step + unit->nsteps; i++) {
            const ccl_step_t *s = &program->steps[plan->program_step[i]];
            plan->steps[i].dep = CCL_NONE;
            if (s->dep_tb == CCL_NONE || s->dep_step == CCL_NONE)
                continue;
            const ccl_tb_t *on = &program->tbs[program->rank_first_tb[tb->rank] + s->dep_tb];
            uint32_t dep = place[on->first_step + s->dep_step];
            if (unit_of[dep] == u && dep < i)
                continue; /* met by order */
            plan->steps[i].dep = dep;
            plan->steps[dep].nwaiters++;
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        plan->steps[i].first_waiter = total;
        total += plan->steps[i].nwaiters;
        plan->steps[i].nwaiters = 0;
    }
    for (uint32_t u = 0; u < plan->dev.nunits; u++) {
        const ccl_device_unit_t *unit = &plan->units[u];
        for (uint32_t i = unit->first_step; i < unit->first_step + unit->nsteps; i++) {
            uint32_t on[2] = {plan->steps[i].dep, i == unit->first_step ? unit->after : CCL_NONE};
            for (int k = 0; k < 2; k++) {
                ccl_device_step_t *d = on[k] == CCL_NONE ? NULL : &plan->steps[on[k]];
                if (d)
                    plan->waiters[d->first_waiter + d->nwaiters++] = u;
            }
        }
    }
    plan->dev.nwaiters = total;
    free(place);
    free(unit_of);
    return CCL_OK;
}

/* ---------------------------------------------------------------- memory of several blocks */

/** Where an element lies, counted through the memory of all ranks; sorted. */
typedef struct places {
    uint64_t *at, *base; /* [n], [nranks]: of a rank's memory */
    uint32_t *tb;        /* [n] the one block that touches it, by its first place in `at` */
    uint8_t *state;
    size_t n;
} places_t;
enum { OF_SEVERAL = 1, WRITTEN = 2 };

static int place_cmp(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static size_t place_of(const places_t *p, uint64_t at) {
    size_t lo = 0;
    for (size_t hi = p->n; lo < hi;) {
        size_t mid = lo + (hi - lo) / 2;
        if (p->at[mid] < at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static ccl_status_t sort_places(const ccl_i_layout_t *l, places_t *p, ccl_error_t *err) {
    uint64_t sum = 0;
    p->n = l->first[3 * (size_t)l->nranks];
    p->at = malloc((p->n + 1) * sizeof *p->at);
    p->base = malloc((l->nranks + (size_t)1) * sizeof *p->base);
    p->tb = malloc((p->n + 1) * sizeof *p->tb);
    p->state = calloc(p->n + 1, 1);
    if (!p->at || !p->base || !p->tb || !p->state)
        return ccl_fail_nomem(err);
    for (uint32_t r = 0; r < l->nranks; r++) {
        p->base[r] = sum;
        sum += l->rank_items[r] + 1;
        for (uint32_t e = l->first[3 * (size_t)r]; e < l->first[3 * (size_t)r + 3]; e++)
            p->at[e] = p->base[r] + l->at[e];
    }
    qsort(p->at, p->n, sizeof *p->at, place_cmp);
    for (size_t i = 0; i < p->n; i++)
        p->tb[i] = CCL_NONE;
    return CCL_OK;
}

/** Notes who touches the elements of a step; returns whether some are of several blocks. */
static bool touch(const ccl_program_t *program, const ccl_i_layout_t *l, places_t *p, uint32_t tb,
                  const ccl_step_t *s) {
    uint32_t rank = program->tbs[tb].rank;
    bool shared = false;
    for (uint32_t i = 0; i < 2 * s->count; i++) {
        bool writes = i & 1;
        if (!(writes ? ccl_i_prim_writes(s->type) : ccl_i_prim_reads(s->type)))
            continue;
        uint32_t e = ccl_i_layout_element(l, rank, writes ? s->dst_buf : s->src_buf,
                                          (writes ? s->dst_off : s->src_off) + i / 2);
        size_t at = place_of(p, p->base[rank] + l->at[e]);
        p->state[at] |= writes ? WRITTEN : 0;
        p->state[at] |= p->tb[at] != CCL_NONE && p->tb[at] != tb ? OF_SEVERAL : 0;
        p->tb[at] = tb;
        shared = shared || p->state[at] == (OF_SEVERAL | WRITTEN);
    }
    return shared;
}

/** Flags in the data order nothing else: which steps must do so themselves. */
static ccl_status_t find_shared(const ccl_program_t *program, ccl_i_run_plan_t *plan,
                                ccl_error_t *err) {
    places_t p = {0};
    ccl_status_t status = CCL_OK;
    if (plan->dev.protocol != CCL_DEVICE_SIMPLE)
        status = sort_places(&plan->layout, &p, err);
    /* Twice: the first time all that touch an element become known. */
    for (int pass = 0; pass < 2 && p.n && status == CCL_OK; pass++) {
        for (uint32_t u = 0; u < plan->dev.nunits; u++) {
            const ccl_device_unit_t *unit = &plan->units[u];
            for (uint32_t i = unit->first_step; i < unit->first_step + unit->nsteps; i++)
                plan->steps[i].shared = touch(program, &plan->layout, &p, unit->tb,
                                              &program->steps[plan->program_step[i]]);
        }
    }
    free(p.at);
    free(p.base);
    free(p.tb);
    free(p.state);
    return status;
}

/* ---------------------------------------------------------------- micro-batches and slices */

static void cut(ccl_i_run_plan_t *plan, uint32_t batches, uint32_t slices, double slice_bytes) {
    uint64_t unit = 16 / plan->layout.item_bytes;
    plan->dev.batches = batches;
    for (uint32_t i = 0; i < plan->dev.npieces; i++) {
        ccl_device_piece_t *p = &plan->pieces[i];
        p->batch_items = (p->items + batches - 1) / batches;
        if (batches > 1)
            p->batch_items = (p->batch_items + unit - 1) / unit * unit;
    }
    for (uint32_t i = 0; i < plan->dev.nsteps; i++) {
        ccl_device_step_t *d = &plan->steps[i];
        uint64_t n = ccl_i_step_items(&plan->dev, d, 0);
        uint64_t most = (uint64_t)(slice_bytes / plan->layout.item_bytes), k = 1;
        if (d->send != CCL_NONE || d->recv != CCL_NONE) {
            k = (n + most - 1) / most;
            k = k < slices ? slices : k;
        }
        d->slices = k > UINT32_MAX ? UINT32_MAX : (uint32_t)k;
    }
}

/** Slots of every connection as large as its largest slice; returns bytes of all. */
static uint64_t measure_fifos(ccl_i_run_plan_t *plan) {
    for (uint32_t c = 0; c < plan->dev.nconns; c++)
        plan->conns[c].slot_bytes = CCL_DEVICE_LL128_LINE;
    plan->transfers = 0;
    for (uint32_t i = 0; i < plan->dev.nsteps; i++) {
        const ccl_device_step_t *d = &plan->steps[i];
        if (d->send == CCL_NONE)
            continue;
        uint64_t n = ccl_i_step_items(&plan->dev, d, 0);
        uint64_t bytes = ccl_i_slot_bytes(plan->dev.protocol,
                                          ccl_i_slice_items(n, d->slices, plan->layout.item_bytes) *
                                              plan->layout.item_bytes);
        for (uint32_t c = d->send; c < d->send + d->nsend; c++)
            if (bytes > plan->conns[c].slot_bytes)
                plan->conns[c].slot_bytes = bytes;
        plan->transfers += (uint64_t)d->slices * plan->dev.batches * d->nsend;
    }
    uint64_t sum = 0;
    for (uint32_t c = 0; c < plan->dev.nconns; c++) {
        uint64_t lines =
            (plan->conns[c].slot_bytes + CCL_DEVICE_LL128_LINE - 1) / CCL_DEVICE_LL128_LINE;
        plan->conns[c].slot_bytes = lines * CCL_DEVICE_LL128_LINE;
        plan->conns[c].slots = plan->slots;
        plan->conn_at[c] = sum;
        sum += plan->conns[c].slot_bytes * plan->slots;
    }
    return sum;
}

static ccl_status_t fit(const ccl_program_t *program, const ccl_run_options_t *options,
                        ccl_i_run_plan_t *plan, ccl_error_t *err) {
    uint32_t slices = options->slices ? options->slices : 1;
    double item = plan->layout.item_bytes;
    double slice = options->slice_bytes > 0 ? options->slice_bytes : DEFAULT_SLICE_BYTES;
    plan->slots = options->slots ? options->slots : DEFAULT_SLOTS;
    if (!(slice >= 16) || slice > 0x1p40)
        return ccl_fail(err, CCL_ERR_USAGE, "slices of %g bytes: at least 16 are needed", slice);
    slice = 16 * (double)(uint64_t)(slice / 16);
    double piece = program->piece_bytes > 0 ? program->piece_bytes : INFINITY;
    for (;;) {
        double batches = ccl_model_ceil((double)plan->layout.largest_items * item /
                                        fmin(0.5 * plan->slots * slice, piece));
        batches = batches < 1 ? 1 : batches;
        if (options->batches)
            batches = options->batches;
        if (batches > MAX_BATCHES)
            return ccl_fail(err, CCL_ERR_INPUT, "%.0f micro-batches: at most %u are possible",
                            batches, MAX_BATCHES);
        cut(plan, (uint32_t)batches, slices, slice);
        plan->fifo_bytes = measure_fifos(plan);
        if (options->slice_bytes > 0 || plan->fifo_bytes <= FIFO_BUDGET_BYTES ||
            slice <= MIN_SLICE_BYTES)
            break;
        slice /= 2;
    }
    plan->slice_bytes = slice;
    plan->chunk_bytes = (double)plan->layout.largest_items * item / plan->dev.batches;
    return CCL_OK;
}

/* ---------------------------------------------------------------- all of it */

/** All that follows relies on it. */
static ccl_status_t check(const ccl_program_t *program, ccl_granularity_t granularity,
                          ccl_error_t *err) {
    ccl_verdict_t verdict;
    CCL_TRY(ccl_program_check(program, granularity, &verdict, err));
    if (!verdict.valid)
        return ccl_fail(err, CCL_CHECK, "%s", verdict.fault.text);
    return CCL_OK;
}

static uint32_t protocol_of(const ccl_program_t *program, const ccl_run_options_t *options) {
    if (options->protocol != CCL_RUN_OF_PROGRAM)
        return options->protocol - CCL_RUN_SIMPLE;
    return strcmp(program->proto, "LL") == 0      ? CCL_DEVICE_LL
           : strcmp(program->proto, "LL128") == 0 ? CCL_DEVICE_LL128
                                                  : CCL_DEVICE_SIMPLE;
}

ccl_status_t ccl_i_run_plan_init(const ccl_program_t *program, const ccl_run_options_t *options,
                                 ccl_i_run_plan_t *out, ccl_error_t *err) {
    ccl_i_run_plan_t plan = {0};
    ccl_status_t status;
    size_t n = program->nsteps + (size_t)1, cap = 0;
    ccl_granularity_t level = ccl_program_level(program, options->granularity);
    CCL_TRY(check(program, level, err));
    CCL_TRY(ccl_i_layout_init(program, options, &plan.layout, err));
    plan.dev.size = sizeof plan.dev;
    plan.dev.nranks = program->nranks;
    plan.first_rank = options->first_rank;
    plan.dev.nsteps = program->nsteps;
    plan.dev.by_task = level == CCL_GRANULARITY_TASK;
    plan.dev.type = options->type;
    plan.dev.op = options->op;
    plan.dev.item_bytes = plan.layout.item_bytes;
    plan.first_slice = options->first_slice;
    plan.dev.protocol = protocol_of(program, options);
    plan.steps = calloc(n, sizeof *plan.steps);
    if (!plan.steps) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    CCL_TRY_GOTO(ccl_i_run_plan_connect(program, level, &plan, err), status, end);
    for (uint32_t u = 0; u < plan.dev.nunits; u++) {
        const ccl_device_unit_t *unit = &plan.units[u];
        for (uint32_t i = unit->first_step; i < unit->first_step + unit->nsteps; i++) {
            CCL_TRY_GOTO(make_pieces(program, unit, i, &plan, &cap, err), status, end);
        }
    }
    CCL_TRY_GOTO(make_waiters(program, &plan, err), status, end);
    CCL_TRY_GOTO(find_shared(program, &plan, err), status, end);
    plan.dev.units = plan.units;
    plan.dev.steps = plan.steps;
    plan.dev.pieces = plan.pieces;
    plan.dev.waiters = plan.waiters;
    plan.dev.conns = plan.conns;
    CCL_TRY_GOTO(fit(program, options, &plan, err), status, end);
    *out = plan;
    return CCL_OK;
end:
    ccl_i_run_plan_fini(&plan);
    return status;
}

void ccl_i_run_plan_fini(ccl_i_run_plan_t *plan) {
    ccl_i_layout_fini(&plan->layout);
    free(plan->units);
    free(plan->steps);
    free(plan->pieces);
    free(plan->waiters);
    free(plan->conns);
    free(plan->conn_src);
    free(plan->conn_dst);
    free(plan->conn_at);
    free(plan->program_step);
    free(plan->rank_first_unit);
    memset(plan, 0, sizeof *plan);
}

ccl_status_t ccl_i_run_plan_deadlock(const ccl_ctx_t *ctx, const ccl_program_t *program,
                                     const ccl_i_run_plan_t *plan, ccl_granularity_t granularity,
                                     ccl_deadlock_t *out, ccl_error_t *err) {
    uint32_t *slices = malloc((program->nsteps + (size_t)1) * sizeof *slices);
    if (!slices)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < program->nsteps; i++)
        slices[plan->program_step[i]] = plan->steps[i].slices;
    ccl_blocking_t blocking = {.granularity = granularity,
                               .batches = plan->dev.batches,
                               .slots = plan->slots,
                               .step_slices = slices};
    ccl_status_t status = ccl_program_deadlock(ctx, program, &blocking, out, err);
    if (status == CCL_OK && out->nwaits) {
        ccl_deadlock_cause_t cause = {.known = true, .slots = plan->slots};
        status = ccl_program_least_slots(ctx, program, &blocking, NULL, &cause.least_slots, err);
        cause.slice_bytes = plan->slice_bytes;
        out->cause = cause;
    }
    free(slices);
    return status;
}
