/*
 * The passes of a lowering in their order: order, stages, channels, blocks, executor, allocation
 * by state. Where no rule decides which way is better, several are lowered and simulated.
 */
#include "lower/lower_i.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* FIFO depth in primitives of the poorest executor: MSCCL under Simple. */
enum { LEAST_SLOTS = 2 };

void ccl_i_lower_fit(ccl_lower_options_t *options, const ccl_topology_t *topo) {
    uint32_t slots = UINT32_MAX, slices = 1;
    for (uint32_t k = 0; k < topo->nkinds; k++) {
        ccl_transport_t t =
            ccl_model_transport(topo, topo->kinds[k], options->proto ? options->proto : "Simple");
        slots = t.slots < slots ? t.slots : slots;
        slices = t.slices > slices ? t.slices : slices;
    }
    slots /= slices;
    if (slots == 0)
        options->no_fuse = true;
    if (options->slots == 0)
        options->slots = slots < 1 ? 1 : slots > LEAST_SLOTS ? LEAST_SLOTS : slots;
}

/** The last pass: everything behind the schedule's channels. */
typedef struct maker {
    const ccl_ctx_t *ctx;
    const ccl_lower_options_t *options;
    const ccl_i_lower_how_t *how;
} maker_t;

static ccl_status_t make(const void *user, const ccl_schedule_t *schedule, ccl_program_t **out,
                         ccl_error_t *err) {
    const maker_t *m = user;
    ccl_timed_program_t timed = {NULL, NULL};
    CCL_TRY(ccl_i_lower_program(m->ctx, schedule, m->how, &timed.program, err));
    ccl_status_t status = CCL_OK;
    if (m->options->allocation == CCL_ALLOCATE_STATE && !m->options->rough)
        status = ccl_i_allocate_state(m->ctx, m->options, &timed, err);
    if (status == CCL_OK) {
        *out = timed.program;
        timed.program = NULL;
    }
    ccl_timed_program_fini(&timed);
    return status;
}

ccl_status_t ccl_i_check_blocks(const ccl_program_t *program, const ccl_lower_options_t *options,
                                ccl_error_t *err) {
    for (uint32_t r = 0; options->topo && r < program->nranks; r++) {
        ccl_gpu_model_t gpu = ccl_model_gpu(options->topo, r);
        uint32_t blocks = ccl_program_rank_blocks(program, r, options->granularity);
        if (gpu.sms && blocks > gpu.sms)
            return ccl_fail(err, CCL_UNSUPPORTED,
                            "%s: rank %u needs %u thread blocks; its %s has room for %u",
                            program->name, r, blocks, gpu.name, gpu.sms);
    }
    return CCL_OK;
}

/** Channels of a connection. */
typedef struct width {
    uint32_t most;
    bool wider;      /* more than one for some connection, or the schedule is refused */
    uint32_t spread; /* most that one got */
} width_t;

/* From the schedule in its order to the program. */
static ccl_status_t lower_spread(const ccl_ctx_t *ctx, const ccl_schedule_t *schedule,
                                 const ccl_lower_options_t *options, const ccl_i_lower_how_t *how,
                                 width_t *width, ccl_program_t **out, ccl_error_t *err) {
    const ccl_executor_limits_t *limits = ccl_executor_limits(options->executor);
    ccl_schedule_t *spread = NULL;
    ccl_program_t *program = NULL;
    ccl_i_lower_how_t plain = *how;
    maker_t user = {ctx, options, &plain};
    ccl_i_maker_t maker = {make, &user};
    ccl_status_t status = CCL_OK;
    width->spread = 1;
    if (width->most > 1) {
        ccl_i_capacity_t capacity = {.topo = options->topo,
                                     .routes = options->routes,
                                     .proto = how->proto,
                                     .stage = how->stage,
                                     .size_bytes = options->size_bytes,
                                     .batches = options->batches,
                                     .max_channels = width->most,
                                     .all_channels = limits->channels,
                                     .max_blocks = limits->tbs,
                                     .copies = options->out_of_place};
        CCL_TRY_GOTO(ccl_i_channels_capacity(schedule, &capacity, &width->spread, &spread, err),
                     status, end);
        schedule = spread;
    }
    if (width->wider && width->spread == 1) {
        status = ccl_fail(err, CCL_UNSUPPORTED, "no connection is spread");
        goto end;
    }
    if (options->executor == CCL_EXECUTOR_ANY)
        status = make(&user, schedule, &program, err);
    else {
        plain.stage = NULL; /* stages are channels then */
        status = ccl_i_executor_fit(ctx, schedule, options, how->stage, &maker, &program, err);
    }
    if (status == CCL_OK)
        status = ccl_i_check_blocks(program, options, err);
    if (status == CCL_OK) {
        *out = program;
        program = NULL;
    }
end:
    ccl_program_destroy(program);
    ccl_schedule_destroy(spread);
    return status;
}

/* What does not fit when fast connections are spread may fit when they are spread less. */
static ccl_status_t lower_fitting(const ccl_ctx_t *ctx, const ccl_schedule_t *schedule,
                                  const ccl_lower_options_t *options, const ccl_i_lower_how_t *how,
                                  width_t width, ccl_program_t **out, ccl_error_t *err) {
    ccl_status_t status = CCL_OK;
    for (; width.most >= 1; width.most = width.spread / 2) {
        status = lower_spread(ctx, schedule, options, how, &width, out, err);
        if (status != CCL_UNSUPPORTED || width.spread <= 1)
            break;
    }
    return status;
}

/* What more blocks must bring; parts cost none. */
static const double WIDE = 0.02, PARTS = 0.005;

/** The best program so far of state allocation at task level, blocks not merged yet. */
typedef struct choice {
    const ccl_ctx_t *ctx;
    const ccl_lower_options_t *options; /* a block per connection */
    const ccl_i_lower_how_t *how;
    ccl_timed_program_t best;
    ccl_i_try_t taken; /* what `best` was lowered from */
    uint32_t most;     /* channels that it may spread a connection over */
} choice_t;

/* Takes the program of this schedule when it is faster by more than `gain`; *taken_out then. */
static ccl_status_t consider(choice_t *c, const ccl_schedule_t *schedule, ccl_i_try_t this,
                             double gain, bool *taken_out, ccl_error_t *err) {
    width_t width = {.most = this.most, .wider = this.wider};
    ccl_timed_program_t timed = {NULL, NULL};
    double below_s = c->best.program ? (1 - gain) * c->best.run->time_s : 0;
    ccl_i_known_t known = ccl_i_memo_get(c->options, c->how, this);
    if (known.what != CCL_I_UNKNOWN &&
        (known.time_s == INFINITY || (c->best.program && known.time_s >= below_s)))
        return CCL_OK;
    ccl_status_t status =
        lower_fitting(c->ctx, schedule, c->options, c->how, width, &timed.program, NULL);
    if (status == CCL_INTERRUPTED || status == CCL_ERR_NOMEM)
        return ccl_fail(err, status, "%s", ccl_status_meaning(status));
    if (status != CCL_OK) { /* it does not fit */
        ccl_i_memo_put(c->options, c->how, this, (ccl_i_known_t){CCL_I_LONGER, INFINITY});
        return CCL_OK;
    }
    status = ccl_i_lower_time(c->ctx, c->options, &timed, below_s, err);
    if (status == CCL_OK) {
        known = timed.run->time_s < INFINITY ? (ccl_i_known_t){CCL_I_TIME, timed.run->time_s}
                                             : (ccl_i_known_t){CCL_I_LONGER, below_s};
        ccl_i_memo_put(c->options, c->how, this, known);
    }
    if (status == CCL_OK && (!c->best.program || timed.run->time_s < below_s)) {
        ccl_timed_program_fini(&c->best);
        c->best = timed;
        c->taken = this;
        c->most = width.most;
        *taken_out = true;
        return CCL_OK;
    }
    ccl_timed_program_fini(&timed);
    return status;
}

/* Every chunk cut into parts, the schedule done for one part after the other. */
static ccl_status_t in_parts(const ccl_schedule_t *schedule, uint32_t parts, ccl_schedule_t **out,
                             ccl_error_t *err) {
    ccl_collective_t *coll;
    CCL_TRY(ccl_collective_split(schedule->coll, parts, &coll, err));
    ccl_schedule_builder_t *b = ccl_schedule_builder_create(schedule->name, coll);
    if (!b)
        return ccl_fail_nomem(err);
    for (uint32_t part = 0; part < parts; part++) {
        for (uint32_t i = 0; i < schedule->ntransfers; i++) {
            ccl_transfer_t t = schedule->transfers[i];
            t.chunk = t.chunk * parts + part;
            t.step += part * schedule->nsteps;
            ccl_schedule_builder_add(b, t);
        }
    }
    CCL_TRY(ccl_schedule_builder_finish(b, out, err));
    (*out)->piece_bytes = schedule->piece_bytes;
    return CCL_OK;
}

/** A schedule that may be done in parts, and the order that it has. */
typedef struct whole {
    const ccl_schedule_t *schedule; /* NULL: none, or equal to another */
    ccl_i_order_of_t order;
} whole_t;

/* The order found: the program that was simulated with it when its blocks fit. */
static ccl_status_t consider_order(choice_t *c, ccl_i_ordered_t *o, const ccl_schedule_t *ordered,
                                   ccl_i_try_t as, ccl_error_t *err) {
    bool taken = false;
    if (!o->timed.run)
        return consider(c, ordered, as, 0, &taken, err);
    if (ccl_i_check_blocks(o->timed.program, c->options, NULL) == CCL_OK) {
        c->best = o->timed;
        c->taken = as;
        o->timed = (ccl_timed_program_t){NULL, NULL};
    }
    return CCL_OK;
}

/* A schedule in parts, spread as the best is. @param unspread  it is tried without that too. */
static ccl_status_t consider_parts(choice_t *c, whole_t whole, ccl_i_try_t as, bool unspread,
                                   bool *taken_out, ccl_error_t *err) {
    ccl_schedule_t *split = NULL;
    as.order = whole.order;
    as.most = c->most;
    CCL_TRY(in_parts(whole.schedule, as.parts, &split, err));
    ccl_status_t status = consider(c, split, as, PARTS, taken_out, err);
    as.most = 1;
    if (status == CCL_OK && unspread && c->most > 1) /* parts may do what spreading did */
        status = consider(c, split, as, PARTS, taken_out, err);
    ccl_schedule_destroy(split);
    return status;
}

/* More and more parts while they are faster. *best: the whole schedule of the best so far. */
static ccl_status_t consider_more_parts(choice_t *c, const whole_t wholes[3], ccl_i_try_t as,
                                        double batches, const ccl_schedule_t **best,
                                        ccl_error_t *err) {
    enum { MOST_PARTS = 16 };
    uint32_t fewest = batches < 4 ? 2 : 4;
    for (as.parts = fewest; as.parts <= MOST_PARTS && as.parts <= batches; as.parts *= 4) {
        bool better = false;
        for (int k = 0; k < 3; k++) {
            const ccl_schedule_t *whole = wholes[k].schedule;
            bool taken = false;
            if (!whole || (as.parts > fewest && whole != *best)) /* the first show which suits */
                continue;
            CCL_TRY(consider_parts(c, wholes[k], as, as.parts == fewest, &taken, err));
            *best = taken ? whole : *best;
            better = better || taken;
        }
        if (!better)
            break;
    }
    return CCL_OK;
}

/* The order given, and the orders in parts. *best: as above. */
static ccl_status_t consider_others(choice_t *c, const ccl_schedule_t *given,
                                    const ccl_i_ordered_t *o, double batches,
                                    const ccl_schedule_t **best, ccl_error_t *err) {
    const ccl_schedule_t *ordered = *best;
    bool differ = !ccl_schedule_equal(given, ordered), taken = false;
    const whole_t wholes[] = {
        {differ || ordered != given ? ordered : NULL, o->schedule ? o->order : CCL_I_ORDER_GIVEN},
        {differ ? given : NULL, CCL_I_ORDER_GIVEN},
        {o->unturned, o->unturned_order}};
    ccl_i_try_t as = {
        .order = CCL_I_ORDER_GIVEN, .parts = 1, .most = UINT16_MAX, .fits = true, .wider = false};
    if (differ)
        CCL_TRY(consider(c, given, as, WIDE, &taken, err));
    *best = taken ? given : *best;
    return consider_more_parts(c, wholes, as, batches, best, err);
}

/*
 * State allocation at task level. Task level does the transfers of a connection one after the
 * other, each for all micro-batches. That costs where several have their data at the same time
 * (when servers differ in size): they wait in line; and where what comes last in a micro-batch
 * could run beside what comes first in the next (an AllReduce's two phases). So beside the order
 * found, these are simulated: fast connections spread over channels (ResCCL looks at primitives,
 * not connections: section 4.1); and the whole done part by part, so that parts overlap as
 * micro-batches do at algorithm level. The fastest is merged.
 */
static ccl_status_t lower_state(const ccl_ctx_t *ctx, const ccl_schedule_t *given,
                                ccl_i_ordered_t *o, const ccl_lower_options_t *options,
                                const ccl_i_lower_how_t *how, ccl_timed_program_t *out,
                                ccl_error_t *err) {
    ccl_lower_options_t plain = *options;
    choice_t c = {.ctx = ctx, .options = &plain, .how = how, .most = 1};
    const ccl_schedule_t *ordered = o->schedule ? o->schedule : given, *best = ordered;
    bool hpds = options->order == CCL_ORDER_HPDS, taken = false;
    double bytes, batches = options->batches;
    ccl_status_t status = CCL_OK;
    ccl_i_try_t as = {
        .order = o->schedule ? o->order : CCL_I_ORDER_GIVEN, .parts = 1, .most = 1, .fits = true};
    plain.allocation = CCL_ALLOCATE_CONNECTION;
    if (!options->batches)
        batches = ccl_lower_batches(given, options->topo, how->proto, options->size_bytes, &bytes);
    CCL_TRY_GOTO(consider_order(&c, o, ordered, as, err), status, end);
    bool few = batches * given->ntransfers <= ccl_i_lower_most_sends(options);
    bool printed = options->order == CCL_ORDER_HPDS_PRINTED;
    as.most = UINT16_MAX;
    as.wider = true;
    if (!printed && (few || !options->rough))
        CCL_TRY_GOTO(consider(&c, ordered, as, WIDE, &taken, err), status, end);
    if (hpds && few && c.best.program) { /* else neither fits in parts */
        CCL_TRY_GOTO(consider_others(&c, given, o, batches, &best, err), status, end);
        o->other = best != ordered;
    }
    if (!c.best.program) { /* merged it may fit */
        width_t one = {.most = 1};
        status = lower_fitting(ctx, ordered, options, how, one, &out->program, err);
        goto end;
    }
    if (!options->rough)
        CCL_TRY_GOTO(ccl_i_allocate_state(ctx, options, &c.best, err), status, end);
    o->taken = c.taken;
    *out = c.best;
    c.best = (ccl_timed_program_t){NULL, NULL};
end:
    ccl_timed_program_fini(&c.best);
    return status;
}

/* What was simulated in its order, and needs no further pass but merging. */
static ccl_status_t finish_known(const ccl_ctx_t *ctx, const ccl_lower_options_t *options,
                                 ccl_timed_program_t *known, ccl_timed_program_t *out,
                                 ccl_error_t *err) {
    if (options->allocation == CCL_ALLOCATE_STATE && !options->rough)
        CCL_TRY(ccl_i_allocate_state(ctx, options, known, err));
    CCL_TRY(ccl_i_check_blocks(known->program, options, err));
    *out = *known;
    *known = (ccl_timed_program_t){NULL, NULL};
    return CCL_OK;
}

/* The schedule's origin, and what lowering chose where it had a choice. */
static void tell_origin(const ccl_schedule_t *given, const ccl_lower_options_t *options,
                        ccl_i_try_t taken, ccl_program_t *program) {
    static const char *const orders[] = {"given order kept",    "algorithm 1 as printed",
                                         "followers apart",     "mirrored order, followers apart",
                                         "mirrored order",      NULL,
                                         "order by an estimate"};
    _Static_assert(CCL_ARRAY_LEN(orders) == CCL_I_ORDER_OTHER + 1, "a name for each order");
    ccl_text_t more = {0};

    ccl_origin_set(program->origin, "%s", given->origin);
    if (options->order == CCL_ORDER_HPDS)
        ccl_text_printf(&more, "hpds: %s", orders[taken.order]);
    else if (options->order == CCL_ORDER_HPDS_PRINTED)
        ccl_text_printf(&more, "hpds: %s alone", orders[CCL_I_ORDER_FLOW]);
    if (taken.parts > 1)
        ccl_text_printf(&more, "%schunks in %u parts", more.len ? ", " : "", taken.parts);
    if (taken.wider)
        ccl_text_printf(&more, "%sfast connections spread", more.len ? ", " : "");
    if (more.len)
        ccl_origin_add(program->origin, "%s", more.data);
    ccl_text_fini(&more);
}

static ccl_status_t check_options(const ccl_schedule_t *schedule,
                                  const ccl_lower_options_t *options, ccl_error_t *err) {
    bool stages = options->granularity == CCL_GRANULARITY_STAGE;
    const char *what = options->order != CCL_ORDER_STEP                 ? "this order"
                       : options->allocation != CCL_ALLOCATE_CONNECTION ? "this allocation"
                       : stages && options->stages == CCL_STAGES_AUTO   ? "cutting into stages"
                                                                        : NULL;
    if (what && !options->topo)
        return ccl_fail(err, CCL_ERR_INPUT, "lowering: %s needs a topology", what);
    if (options->topo && options->topo->nranks != schedule->coll->nranks)
        return ccl_fail(err, CCL_ERR_INPUT, "the schedule has %u ranks, the topology %u",
                        schedule->coll->nranks, options->topo->nranks);
    if (options->allocation == CCL_ALLOCATE_STATE && options->executor != CCL_EXECUTOR_ANY)
        return ccl_fail(err, CCL_UNSUPPORTED,
                        "lowering: state allocation makes blocks that connections share; %s runs "
                        "none: take another allocation",
                        ccl_executor_limits(options->executor)->name);
    if (!(options->size_bytes >= 0) || options->size_bytes > 1e300)
        return ccl_fail(err, CCL_ERR_INPUT, "lowering: the size is no number of bytes");
    return CCL_OK;
}

/* Pieces of a micro-batch whose first ones differ, at most: a step of a block each. */
enum { MOST_PIECES = 128 };

/* Do its chunks begin or end with pieces of different sizes? Only in blocks that do one piece after
   the other, in memory that its elements share in the same way. */
static bool staggers(const ccl_schedule_t *schedule, const ccl_lower_options_t *options) {
    return schedule->stagger > 0 && schedule->piece_bytes > 0 &&
           (!schedule->joined || schedule->coll->kind == CCL_ALLREDUCE) &&
           options->executor == CCL_EXECUTOR_ANY && options->order == CCL_ORDER_STEP &&
           options->allocation == CCL_ALLOCATE_CONNECTION &&
           options->granularity == CCL_GRANULARITY_ALGORITHM && !options->out_of_place;
}

/* How blocks are made, but for what the schedule itself says in its order. */
static ccl_i_lower_how_t how_of(const ccl_schedule_t *schedule,
                                const ccl_lower_options_t *options) {
    ccl_i_lower_how_t how = {.proto = options->proto ? options->proto : "Simple",
                             .out_of_place = options->out_of_place,
                             .no_fuse = options->no_fuse,
                             .ordered = options->ordered || schedule->rounds,
                             .task = options->granularity == CCL_GRANULARITY_TASK,
                             .slots = options->slots ? options->slots : LEAST_SLOTS,
                             .topo = options->topo,
                             .max_blocks = ccl_executor_limits(options->executor)->tbs};
    if (options->executor == CCL_EXECUTOR_ANY) /* others have a rule of their own */
        how.piece_bytes = schedule->piece_bytes;
    if (staggers(schedule, options)) {
        double size_bytes = options->size_bytes > 0 ? options->size_bytes : CCL_LOWER_SIZE_BYTES;
        double pieces = ceil(size_bytes / schedule->coll->nchunks / schedule->piece_bytes - 1e-9);
        how.small_end = schedule->coll->kind == CCL_ALLREDUCE;
        how.stagger = pieces >= (how.small_end ? 3 : 2) ? schedule->stagger : 0;
        how.pieces = (uint32_t)fmin(pieces, MOST_PIECES);
    }
    how.no_fuse = how.no_fuse || how.task;
    how.joined = schedule->joined && options->order == CCL_ORDER_STEP && !how.task;
    if (options->executor != CCL_EXECUTOR_ANY && how.slots > LEAST_SLOTS)
        how.slots = LEAST_SLOTS;
    return how;
}

/* The stage of each transfer, where stages are wanted. */
static ccl_status_t find_stages(const ccl_ctx_t *ctx, const ccl_schedule_t *schedule,
                                const ccl_lower_options_t *options, ccl_i_lower_how_t *how,
                                uint16_t **stage, ccl_error_t *err) {
    if (options->granularity != CCL_GRANULARITY_STAGE)
        return CCL_OK;
    *stage = calloc(schedule->ntransfers + (size_t)1, sizeof **stage);
    if (!*stage)
        return ccl_fail_nomem(err);
    CCL_TRY(ccl_i_stages_find(ctx, schedule, how, options->stages, options->routes, *stage, err));
    how->stage = *stage;
    return CCL_OK;
}

/* Which transfers forward, where channels or an executor's rules depend on it. */
static ccl_status_t find_forwarding(const ccl_schedule_t *schedule,
                                    const ccl_lower_options_t *options, ccl_i_lower_how_t *how,
                                    uint8_t **forwards, ccl_error_t *err) {
    if (how->no_fuse ||
        (options->allocation != CCL_ALLOCATE_CAPACITY && options->executor == CCL_EXECUTOR_ANY))
        return CCL_OK;
    *forwards = calloc(schedule->ntransfers + (size_t)1, 2);
    if (!*forwards)
        return ccl_fail_nomem(err);
    CCL_TRY(ccl_i_find_forwarding(schedule, *forwards, err));
    how->forwards = *forwards;
    return CCL_OK;
}

/* All passes, for a schedule without groups. */
static ccl_status_t lower_passes(const ccl_ctx_t *ctx, const ccl_schedule_t *given,
                                 const ccl_lower_options_t *options, ccl_i_lower_how_t how,
                                 ccl_lower_stats_t *stats, ccl_timed_program_t *made,
                                 ccl_error_t *err) {
    const ccl_schedule_t *schedule = given;
    ccl_i_ordered_t ordered = {.order = CCL_I_ORDER_OTHER};
    uint16_t *stage = NULL;
    uint8_t *forwards = NULL;
    bool capacity = options->allocation == CCL_ALLOCATE_CAPACITY;
    width_t width = {.most = capacity ? UINT16_MAX : 1};
    ccl_status_t status = CCL_OK;
    if (options->order != CCL_ORDER_STEP) {
        how.ordered = false; /* steps are no rounds any more */
        CCL_TRY_GOTO(ccl_i_lower_order(ctx, schedule, options, &how, &ordered, stats, err), status,
                     end);
        schedule = ordered.schedule;
        ordered.taken = (ccl_i_try_t){.order = ordered.order, .parts = 1, .most = 1};
    }
    CCL_TRY_GOTO(find_stages(ctx, schedule, options, &how, &stage, err), status, end);
    CCL_TRY_GOTO(find_forwarding(schedule, options, &how, &forwards, err), status, end);
    if (options->allocation == CCL_ALLOCATE_STATE && how.task)
        status = lower_state(ctx, given, &ordered, options, &how, made, err);
    else if (ordered.timed.run && !capacity && options->granularity != CCL_GRANULARITY_STAGE &&
             options->executor == CCL_EXECUTOR_ANY)
        status = finish_known(ctx, options, &ordered.timed, made, err);
    else {
        ccl_timed_program_fini(&ordered.timed);
        status = lower_fitting(ctx, schedule, options, &how, width, &made->program, err);
    }
    if (ordered.other)
        stats->pipelines = 0;
    if (status == CCL_OK)
        tell_origin(given, options, ordered.taken, made->program);
end:
    free(stage);
    free(forwards);
    ccl_i_ordered_fini(&ordered);
    return status;
}

ccl_status_t ccl_lower(const ccl_ctx_t *ctx, const ccl_schedule_t *schedule,
                       const ccl_lower_options_t *options, ccl_program_t **out, ccl_error_t *err) {
    CCL_OPTIONS_TRY(ccl_lower_options_t, options, err);
    const ccl_lower_options_t defaults = CCL_LOWER_OPTIONS_INIT;
    ccl_lower_stats_t stats = {0};
    ccl_routes_t *own_routes = NULL;
    ccl_status_t status = CCL_OK;
    ccl_timed_program_t made = {NULL, NULL};
    double start_s = ccl_now_s();
    ccl_lower_options_t full = options ? *options : defaults;
    options = &full;
    if (full.topo)
        ccl_i_lower_fit(&full, full.topo);
    if (options->run_out)
        *options->run_out = NULL;
    CCL_TRY(check_options(schedule, options, err));
    if (full.topo && !full.routes) {
        full.routes = own_routes = ccl_routes_create(full.topo);
        if (!own_routes)
            return ccl_fail_nomem(err);
    }
    if (schedule->ngroups > 0) {
        status = ccl_i_lower_switch(ctx, schedule, &full, out, err);
        goto end;
    }
    CCL_TRY_GOTO(
        lower_passes(ctx, schedule, options, how_of(schedule, options), &stats, &made, err), status,
        end);
    *out = made.program;
    made.program = NULL;
    if (options->run_out && made.run && !made.run->estimated && !made.run->known) {
        *options->run_out = made.run;
        made.run = NULL;
    }
    stats.lower_s = ccl_now_s() - start_s - stats.analyse_s - stats.order_s;
    if (options->stats)
        *options->stats = stats;
end:
    ccl_timed_program_fini(&made);
    ccl_routes_destroy(own_routes);
    return status;
}
