/*
 * The passes of a lowering in their order: order, stages, channels, blocks (lower.c), executor,
 * allocation by state. Where no rule tells which way is better, several are lowered and simulated.
 */
#include "synth/lower.h"
#include "synth/registry.h"

#include <stdlib.h>
#include <string.h>

/* FIFO depth in primitives of the poorest executor: MSCCL under Simple. */
enum { LEAST_SLOTS = 2 };

void ccl_lower_options_fit(ccl_lower_options_t *options, const ccl_topology_t *topo) {
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
    CCL_TRY(ccl_i_lower_program(m->ctx, schedule, m->how, out, err));
    if (m->options->allocation == CCL_ALLOCATE_STATE && !m->options->rough)
        return ccl_i_allocate_state(m->ctx, m->options, out, NULL, err);
    return CCL_OK;
}

ccl_status_t ccl_i_check_blocks(const ccl_program_t *program, const ccl_lower_options_t *options,
                                ccl_error_t *err) {
    for (uint32_t r = 0; options->topo && r < program->nranks; r++) {
        ccl_gpu_model_t gpu = ccl_model_gpu(options->topo, r);
        uint32_t blocks = ccl_program_rank_blocks(program, r, options->granularity);
        if (gpu.sms && blocks > gpu.sms)
            return ccl_fail(err, CCL_ERR_UNSUPPORTED,
                            "%s: rank %u needs %u thread blocks; its %s has room for %u",
                            program->name, r, blocks, gpu.name, gpu.sms);
    }
    return CCL_OK;
}

/** Channels of a connection. */
typedef struct width {
    uint32_t most;
    bool wider; /* more than one for some connection, or the schedule is refused */
} width_t;

/* From the schedule in its order to the program. */
static ccl_status_t lower_spread(const ccl_ctx_t *ctx, const ccl_schedule_t *schedule,
                                 const ccl_lower_options_t *options, const ccl_i_lower_how_t *how,
                                 width_t width, uint32_t *spread_out, ccl_program_t **out,
                                 ccl_error_t *err) {
    const ccl_executor_limits_t *limits = ccl_executor_limits(options->executor);
    ccl_schedule_t *spread = NULL;
    ccl_program_t *program = NULL;
    ccl_i_lower_how_t plain = *how;
    maker_t user = {ctx, options, &plain};
    ccl_i_maker_t maker = {make, &user};
    ccl_status_t status = CCL_OK;
    *spread_out = 1;
    if (width.most > 1) {
        ccl_i_capacity_t capacity = {.topo = options->topo,
                                     .routes = options->routes,
                                     .proto = how->proto,
                                     .stage = how->stage,
                                     .size_bytes = options->size_bytes,
                                     .batches = options->batches,
                                     .max_channels = width.most,
                                     .all_channels = limits->channels,
                                     .max_blocks = limits->tbs,
                                     .copies = options->out_of_place};
        CCL_TRY_GOTO(ccl_i_channels_capacity(schedule, &capacity, spread_out, &spread, err), status,
                     end);
        schedule = spread;
    }
    if (width.wider && *spread_out == 1) {
        status = ccl_fail(err, CCL_ERR_UNSUPPORTED, "no connection is spread");
        goto end;
    }
    if (options->executor == CCL_EXECUTOR_ANY)
        status = make(&user, schedule, &program, err);
    else {
        plain.stage = NULL; /* stages are channels then */
        status = ccl_i_executor_fit(ctx, schedule, options->executor, options->granularity,
                                    how->stage, options->routes, &maker, &program, err);
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
    for (uint32_t spread; width.most >= 1; width.most = spread / 2) {
        status = lower_spread(ctx, schedule, options, how, width, &spread, out, err);
        if (status != CCL_ERR_UNSUPPORTED || spread <= 1)
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
    ccl_i_timed_t best;
    uint32_t most; /* channels that it may spread a connection over */
} choice_t;

/* Takes the program of this schedule when it is faster by more than `gain`; *taken_out then. */
static ccl_status_t consider(choice_t *c, const ccl_schedule_t *schedule, width_t width,
                             double gain, bool *taken_out, ccl_error_t *err) {
    ccl_i_timed_t timed = {NULL, NULL};
    double below_s = c->best.program ? (1 - gain) * c->best.run->time_s : 0;
    ccl_status_t status =
        lower_fitting(c->ctx, schedule, c->options, c->how, width, &timed.program, NULL);
    if (status == CCL_INTERRUPTED || status == CCL_ERR_NOMEM)
        return ccl_fail(err, status, "%s", ccl_status_meaning(status));
    if (status != CCL_OK) /* it does not fit */
        return CCL_OK;
    status = ccl_i_state_run(c->ctx, c->options, &timed, below_s, err);
    if (status == CCL_OK && (!c->best.program || timed.run->time_s < below_s)) {
        ccl_i_timed_fini(&c->best);
        c->best = timed;
        c->most = width.most;
        *taken_out = true;
        return CCL_OK;
    }
    ccl_i_timed_fini(&timed);
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
    return ccl_schedule_builder_finish(b, out, err);
}

/*
 * State allocation at task level. Task level does the transfers of a connection one after the
 * other, each for all micro-batches. That costs where several have their data at the same time
 * (when servers differ in size): they wait in line; and where what comes last in a micro-batch
 * could run beside what comes first in the next (an AllReduce's two phases). So beside the order
 * found, these are simulated: fast connections spread over channels (ResCCL looks at primitives,
 * not connections: section 4.1); and the whole done part by part, so that parts overlap as
 * micro-batches do at algorithm level. The fastest is merged.
 *
 * @param unturned  NULL, or an order that may suit parts better, in which sums are not mirrored.
 */
static ccl_status_t lower_state(const ccl_ctx_t *ctx, const ccl_schedule_t *given,
                                const ccl_schedule_t *ordered, const ccl_schedule_t *unturned,
                                const ccl_lower_options_t *options, const ccl_i_lower_how_t *how,
                                ccl_i_timed_t *known, ccl_program_t **out, uint32_t *pipelines,
                                ccl_error_t *err) {
    enum { MOST_PARTS = 16 };
    ccl_lower_options_t plain = *options;
    choice_t c = {.ctx = ctx, .options = &plain, .how = how, .most = 1};
    ccl_schedule_t *split = NULL;
    const width_t one = {.most = 1}, any = {.most = UINT16_MAX},
                  wider = {.most = UINT16_MAX, .wider = true};
    bool hpds = options->order == CCL_ORDER_HPDS, taken = false;
    bool differ = hpds && !ccl_schedule_equal(given, ordered);
    double bytes, batches = options->batches;
    ccl_status_t status = CCL_OK;
    plain.allocation = CCL_ALLOCATE_CONNECTION;
    if (!options->batches)
        batches =
            ccl_i_likely_batches(given, options->topo, how->proto, options->size_bytes, &bytes);
    if (known->run && ccl_i_check_blocks(known->program, &plain, NULL) == CCL_OK) {
        c.best = *known;
        *known = (ccl_i_timed_t){NULL, NULL};
    } else if (!known->run) {
        CCL_TRY_GOTO(consider(&c, ordered, one, 0, &taken, err), status, end);
    }
    bool few = batches * given->ntransfers <= ccl_i_lower_most_sends(options);
    if (few || !options->rough)
        CCL_TRY_GOTO(consider(&c, ordered, wider, WIDE, &taken, err), status, end);
    if (hpds && few && c.best.program) { /* else neither fits in parts */
        const ccl_schedule_t *best = ordered;
        uint32_t fewest = batches < 4 ? 2 : 4;
        taken = false;
        if (differ)
            CCL_TRY_GOTO(consider(&c, given, any, WIDE, &taken, err), status, end);
        best = taken ? given : best;
        for (uint32_t parts = fewest; parts <= MOST_PARTS && parts <= batches; parts *= 4) {
            bool better = false;
            for (int k = 0; k < 3; k++) {
                const ccl_schedule_t *whole = k == 0 ? ordered : k == 1 ? given : unturned;
                if (!whole || (whole == given && !differ) ||
                    (parts > fewest && whole != best)) /* the first tell which order suits */
                    continue;
                taken = false;
                CCL_TRY_GOTO(in_parts(whole, parts, &split, err), status, end);
                width_t same = {.most = c.most};
                CCL_TRY_GOTO(consider(&c, split, same, PARTS, &taken, err), status, end);
                if (parts == fewest && c.most > 1) /* parts may do what spreading did */
                    CCL_TRY_GOTO(consider(&c, split, one, PARTS, &taken, err), status, end);
                ccl_schedule_destroy(split);
                split = NULL;
                best = taken ? whole : best;
                better = better || taken;
            }
            if (!better)
                break;
        }
        *pipelines = best == ordered ? *pipelines : 0;
    }
    if (!c.best.program) { /* merged it may fit */
        status = lower_fitting(ctx, ordered, options, how, one, out, err);
        goto end;
    }
    if (!options->rough)
        CCL_TRY_GOTO(ccl_i_allocate_state(ctx, options, &c.best.program, c.best.run, err), status,
                     end);
    *out = c.best.program;
    c.best.program = NULL;
end:
    ccl_schedule_destroy(split);
    ccl_i_timed_fini(&c.best);
    return status;
}

/* State allocation of a program that is simulated already. */
static ccl_status_t merge_known(const ccl_ctx_t *ctx, const ccl_lower_options_t *options,
                                ccl_i_timed_t *known, ccl_program_t **out, ccl_error_t *err) {
    if (!options->rough)
        CCL_TRY(ccl_i_allocate_state(ctx, options, &known->program, known->run, err));
    CCL_TRY(ccl_i_check_blocks(known->program, options, err));
    *out = known->program;
    known->program = NULL;
    return CCL_OK;
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
        return ccl_fail(err, CCL_ERR_UNSUPPORTED,
                        "lowering: state allocation makes blocks that connections share; %s runs "
                        "none: take another allocation",
                        ccl_executor_limits(options->executor)->name);
    if (!(options->size_bytes >= 0) || options->size_bytes > 1e300)
        return ccl_fail(err, CCL_ERR_INPUT, "lowering: the size is no number of bytes");
    return CCL_OK;
}

ccl_status_t ccl_lower(const ccl_ctx_t *ctx, const ccl_schedule_t *schedule,
                       const ccl_lower_options_t *options, ccl_program_t **out, ccl_error_t *err) {
    const ccl_lower_options_t defaults = CCL_LOWER_OPTIONS_INIT;
    const ccl_synth_ops_t *ops = ccl_synth_find(schedule->name);
    ccl_lower_stats_t stats = {0};
    ccl_routes_t *own_routes = NULL;
    const ccl_schedule_t *given = schedule;
    ccl_schedule_t *ordered = NULL, *unturned = NULL;
    uint16_t *stage = NULL;
    uint8_t *forwards = NULL;
    ccl_status_t status = CCL_OK;
    ccl_i_timed_t timed = {NULL, NULL};
    double start_s = ccl_now_s();
    width_t width = {.most = 1};
    options = options ? options : &defaults;
    ccl_i_lower_how_t how = {.proto = options->proto ? options->proto : "Simple",
                             .out_of_place = options->out_of_place,
                             .no_fuse = options->no_fuse,
                             .ordered = options->ordered || (ops && ops->ordered),
                             .task = options->granularity == CCL_GRANULARITY_TASK,
                             .slots = options->slots ? options->slots : LEAST_SLOTS};
    how.no_fuse = how.no_fuse || how.task;
    if (options->executor != CCL_EXECUTOR_ANY && how.slots > LEAST_SLOTS)
        how.slots = LEAST_SLOTS;
    CCL_TRY(check_options(schedule, options, err));
    ccl_lower_options_t full = *options;
    if (full.topo && !full.routes) {
        full.routes = own_routes = ccl_routes_create(full.topo);
        if (!own_routes)
            return ccl_fail_nomem(err);
    }
    options = &full;
    if (options->allocation == CCL_ALLOCATE_CAPACITY)
        width.most = UINT16_MAX;
    if (options->order != CCL_ORDER_STEP) {
        how.ordered = false; /* steps are no rounds any more */
        CCL_TRY_GOTO(ccl_i_lower_order(ctx, schedule, options, &how, &ordered, &timed, &unturned,
                                       &stats, err),
                     status, end);
        schedule = ordered;
    }
    if (options->granularity == CCL_GRANULARITY_STAGE) {
        stage = calloc(schedule->ntransfers + (size_t)1, sizeof *stage);
        if (!stage) {
            status = ccl_fail_nomem(err);
            goto end;
        }
        CCL_TRY_GOTO(
            ccl_i_stages_find(ctx, schedule, &how, options->stages, options->routes, stage, err),
            status, end);
        how.stage = stage;
    }
    if (!how.no_fuse &&
        (options->allocation == CCL_ALLOCATE_CAPACITY || options->executor != CCL_EXECUTOR_ANY)) {
        forwards = calloc(schedule->ntransfers + (size_t)1, 2);
        if (!forwards) {
            status = ccl_fail_nomem(err);
            goto end;
        }
        CCL_TRY_GOTO(ccl_i_find_forwarding(schedule, forwards, err), status, end);
        how.forwards = forwards;
    }
    if (options->allocation == CCL_ALLOCATE_STATE && how.task)
        status = lower_state(ctx, given, schedule, unturned, options, &how, &timed, out,
                             &stats.pipelines, err);
    else if (timed.run && options->granularity == CCL_GRANULARITY_ALGORITHM)
        status = merge_known(ctx, options, &timed, out, err);
    else
        status = lower_fitting(ctx, schedule, options, &how, width, out, err);
    if (status != CCL_OK)
        goto end;
    stats.lower_s = ccl_now_s() - start_s - stats.analyse_s - stats.order_s;
    if (options->stats)
        *options->stats = stats;
end:
    free(stage);
    free(forwards);
    ccl_i_timed_fini(&timed);
    ccl_schedule_destroy(ordered);
    ccl_schedule_destroy(unturned);
    ccl_routes_destroy(own_routes);
    return status;
}
