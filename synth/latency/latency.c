/*
 * latency: schedules of few steps for small messages. GPUs are places of a grid (lanes of servers,
 * wires of a mesh); along each digit all peers exchange at once. Which grid, which digits, how many
 * channels and parts is decided by simulation at the size asked for.
 */
#include "lower/lower.h"
#include "synth/common/race.h"
#include "synth/latency/family.h"
#include "synth/registry.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool supports(const ccl_topology_t *topo, const ccl_collective_t *want, const char **why) {
    (void)topo;
    switch (want->kind) {
    case CCL_ALLREDUCE:
    case CCL_ALLGATHER:
    case CCL_REDUCESCATTER:
    case CCL_BROADCAST:
    case CCL_REDUCE:
    case CCL_ALLTOALL:
        return true;
    default:
        *why = "blocks of one GPU or of one pair have no exchange; use direct";
        return false;
    }
}

/** Candidates of the first round that race at once, behind the first leaders. */
enum { TOGETHER = 8 };
/** The size where none is asked for. */
#define DEFAULT_SIZE_BYTES 65536.0
/** Rounds in which the best is varied, as long as that gains this part. */
#define ROUNDS 4
#define LEAST_GAIN 0.003

/* ---------------------------------------------------------------- the race */

/* The schedule, its steps in another order. */
static ccl_status_t set_order(const ccl_i_family_t *f, const ccl_i_racer_t *with,
                              ccl_i_form_order_t order, ccl_schedule_t **schedule,
                              ccl_error_t *err) {
    const ccl_topology_t *topo = with->cluster->topo;
    const ccl_order_options_t options = {.size = sizeof options,
                                         .topo = topo,
                                         .routes = with->routes,
                                         .order = CCL_ORDER_HPDS,
                                         .batches = 1};
    ccl_schedule_t *other = NULL;
    if (order == CCL_I_FORM_AS_MADE)
        return CCL_OK;
    if (order == CCL_I_FORM_BY_LINKS)
        CCL_TRY(ccl_schedule_order(with->ctx, *schedule, &options, &other, NULL, NULL, err));
    else
        CCL_TRY(ccl_schedule_order_list(with->ctx, *schedule, topo, with->routes, f->size_bytes,
                                        &other, err));
    other->joined = (*schedule)->joined;
    ccl_schedule_destroy(*schedule);
    *schedule = other;
    return CCL_OK;
}

static void set_origin(const ccl_i_form_t *form, const char *shape, ccl_schedule_t *made) {
    ccl_origin_set(made->origin, "latency: %s, %u channel%s", shape, form->channels,
                   form->channels == 1 ? "" : "s");
    if (form->across < form->channels)
        ccl_origin_add(made->origin, "%u between %s", form->across,
                       form->grid->sets ? "sets" : "servers");
    if (form->joined)
        ccl_origin_add(made->origin, "neighbours joined");
    if (form->apart)
        ccl_origin_add(made->origin, "others' shares apart");
    if (form->parts > 1)
        ccl_origin_add(made->origin, "%u parts in %s", form->parts, form->row ? "a row" : "turn");
    if (form->order == CCL_I_FORM_BY_LINKS)
        ccl_origin_add(made->origin, "links in turn");
    if (form->order == CCL_I_FORM_BY_WAYS)
        ccl_origin_add(made->origin, "longest way first on %u channels", made->nchannels);
}

static ccl_status_t make(void *user, uint32_t index, const ccl_i_racer_t *with,
                         ccl_schedule_t **out, ccl_error_t *err) {
    const ccl_i_family_t *f = user;
    const ccl_i_form_t *form = &f->forms[f->turn[f->from + index]];
    ccl_text_t text = {0};
    if (form->planned) {
        uint32_t level = (uint32_t)__builtin_ctz(form->parts);
        CCL_TRY(ccl_i_meet_make(f->plans, level, f->want, out, err));
        ccl_origin_set((*out)->origin, "latency: planned in time, %u part%s", form->parts,
                       form->parts == 1 ? "" : "s");
        return CCL_OK;
    }
    if (form->grid) {
        CCL_TRY(ccl_i_form_make(with->cluster, f->want, form, out, err));
        ccl_i_form_print(form, f->want->kind, &text);
    } else {
        CCL_TRY(ccl_i_shortest_make(with->ctx, with->cluster, f->want, form, out, err));
        ccl_text_printf(&text, "shortest ways%s",
                        f->want->kind == CCL_ALLREDUCE ? " from the middle" : "");
    }
    ccl_status_t status = set_order(f, with, form->order, out, err);
    if (status == CCL_OK) {
        set_origin(form, text.data ? text.data : "", *out);
    } else {
        ccl_schedule_destroy(*out);
        *out = NULL;
    }
    ccl_text_fini(&text);
    return status;
}

static ccl_status_t time_form(void *user, uint32_t index, const ccl_i_racer_t *with,
                              const ccl_schedule_t *schedule, ccl_i_raced_t *out,
                              ccl_error_t *err) {
    ccl_i_family_t *f = user;
    ccl_i_timing_t timing = {.size_bytes = f->size_bytes,
                             .way.granularity = CCL_GRANULARITY_ALGORITHM,
                             .give_up_s = f->limit_s,
                             .protocols = f->protocols};
    double *times = f->times[f->turn[f->from + index]];
    CCL_TRY(
        ccl_i_time_each(with->ctx, f->cluster->topo, with->routes, schedule, &timing, times, err));
    for (uint32_t k = 0; k < CCL_PROTOCOLS; k++)
        out->time_s = fmin(out->time_s, times[k]);
    return CCL_OK;
}

/* The fastest of those that were timed, fastest first; of equals the first. */
static uint32_t fastest(const ccl_i_family_t *f, uint32_t out[LEADERS]) {
    double after = 0;
    uint32_t n = 0;
    while (n < LEADERS) {
        uint32_t best = CCL_NONE;
        for (uint32_t i = 0; i < f->n; i++) {
            double t = f->time_s[i];
            if (t > after && t < INFINITY && (best == CCL_NONE || t < f->time_s[best]))
                best = i;
        }
        if (best == CCL_NONE)
            break;
        after = f->time_s[best];
        out[n++] = best;
    }
    return n;
}

/* Bytes that all GPUs send. */
static double form_bytes(const ccl_i_family_t *f, ccl_i_form_t form) {
    double bytes = ccl_i_family_share_bytes(f, &form);
    form.channels = form.parts = 1;
    return ccl_i_form_transfers(&form, f->want) * bytes;
}

/* What sends least comes first. */
static void set_turns(ccl_i_family_t *f) {
    for (uint32_t i = 0; i < f->n; i++) {
        double bytes = form_bytes(f, f->forms[i]);
        uint32_t at = i;
        for (; at > 0 && bytes < form_bytes(f, f->forms[f->turn[at - 1]]); at--)
            f->turn[at] = f->turn[at - 1];
        f->turn[at] = i;
        f->time_s[i] = INFINITY;
    }
}

/* The first round, some after the others: what is slower than the leaders so far gives up. A form
   that sends many times another's bytes takes long to simulate: it is among the last. */
static ccl_status_t race_all(ccl_i_family_t *f, ccl_i_race_t *race, ccl_error_t *err) {
    uint32_t lead[LEADERS];
    set_turns(f);
    while (f->from < f->n) {
        uint32_t most = f->from == 0 ? LEADERS : TOGETHER;
        uint32_t n = f->n - f->from < most ? f->n - f->from : most;
        CCL_TRY(ccl_i_race_run(race, n, err));
        for (uint32_t i = 0; i < n; i++)
            f->time_s[f->turn[f->from + i]] = race->results[i].time_s;
        f->from += n;
        if (fastest(f, lead) == LEADERS)
            f->limit_s = f->time_s[lead[LEADERS - 1]];
    }
    f->from = 0;
    for (uint32_t i = 0; i < MOST_FORMS; i++)
        f->turn[i] = i;
    return CCL_OK;
}

/* From now on only the protocols that they are fastest with. */
static uint32_t leaders(ccl_i_family_t *f, ccl_i_form_t *out) {
    uint32_t lead[LEADERS], n = fastest(f, lead);
    f->protocols = n > 0 ? 0 : f->protocols;
    for (uint32_t i = n; i-- > 0;) {
        out[i] = f->forms[lead[i]];
        for (uint32_t k = 0; k < CCL_PROTOCOLS; k++) {
            bool takes = f->times[lead[i]][k] <= f->time_s[lead[i]];
            f->protocols |= (takes ? 1u : 0) << k;
            f->proto = takes ? (ccl_protocol_t)k : f->proto;
        }
    }
    return n;
}

/* Plans in time: with transports the order of what they promise is not that of what they take. */
static ccl_status_t race_plans(ccl_i_family_t *f, ccl_i_race_t *race, ccl_error_t *err) {
    const ccl_synth_options_t *o = f->options;
    const ccl_i_racer_t *own;
    if (!ccl_i_meet_serves(f->cluster, f->want) || o->channels > 1 || o->chunks)
        return CCL_OK;
    CCL_TRY(ccl_i_race_racer(race, &own, err));
    CCL_TRY(ccl_i_meet_plan(own->cluster, f->want, f->size_bytes, ccl_protocol_name(f->proto),
                            &f->plans, err));
    f->n = 0;
    for (uint32_t k = 0; k < f->plans->nlevels; k++) {
        ccl_i_form_t form;
        memset(&form, 0, sizeof form);
        form.planned = true;
        form.channels = 1;
        form.parts = 1u << k;
        if (!(o->hope_s > 0) || f->plans->levels[k].time_s < CCL_I_SYNTH_CARE * o->hope_s)
            ccl_i_family_add(f, form);
    }
    f->limit_s = race->best.schedule ? race->best.time_s : f->limit_s;
    return ccl_i_race_run(race, f->n, err);
}

/* The best with its steps in other orders. */
static ccl_status_t race_orders(ccl_i_family_t *f, ccl_i_race_t *race, ccl_i_form_t best,
                                ccl_error_t *err) {
    static const ccl_i_form_order_t orders[] = {CCL_I_FORM_BY_LINKS, CCL_I_FORM_BY_WAYS};
    f->limit_s = race->best.time_s;
    f->n = 0;
    for (uint32_t i = 0; i < CCL_ARRAY_LEN(orders); i++) {
        best.order = orders[i];
        ccl_i_family_add(f, best);
    }
    return ccl_i_race_run(race, f->n, err);
}

static ccl_status_t race_forms(ccl_i_family_t *f, ccl_i_race_t *race, ccl_error_t *err) {
    ccl_i_form_t best[LEADERS];
    CCL_TRY(race_all(f, race, err));
    uint32_t n = leaders(f, best);
    const bool timed = n > 0; /* else there was nothing to be timed */
    for (uint32_t round = 0; n > 0 && round <= ROUNDS; round++) {
        double before = f->limit_s = race->best.time_s;
        f->n = 0;
        for (uint32_t i = 0; i < n; i++)
            ccl_i_family_neighbours(f, &best[i], i == 0);
        CCL_TRY(ccl_i_race_run(race, f->n, err));
        if (race->best.index == CCL_NONE)
            break;
        n = race->best.time_s < (1 - LEAST_GAIN) * before;
        best[0] = f->forms[race->best.index];
    }
    if (timed && race->best.time_s < INFINITY)
        CCL_TRY(race_orders(f, race, best[0], err));
    return race_plans(f, race, err);
}

static ccl_status_t synthesize(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                               ccl_routes_t *routes, const ccl_collective_t *want,
                               const ccl_synth_options_t *options, ccl_schedule_t **out,
                               ccl_error_t *err) {
    ccl_i_cluster_t cluster;
    CCL_TRY(ccl_i_cluster_init(&cluster, topo, routes, err));
    ccl_i_family_t *f = calloc(1, sizeof *f);
    ccl_status_t status = f ? CCL_OK : ccl_fail_nomem(err);
    if (status == CCL_OK) {
        f->cluster = &cluster;
        f->want = want;
        f->options = options;
        f->work = CCL_I_FAMILY_WORK;
        f->limit_s = CCL_I_SYNTH_CARE * options->hope_s;
        f->size_bytes = options->size_bytes > 0 ? options->size_bytes : DEFAULT_SIZE_BYTES;
        f->protocols = (1u << CCL_PROTOCOLS) - 1;
        if (f->size_bytes > CCL_LINES_BYTES) /* its many lines take longest to simulate */
            f->protocols &= ~(1u << CCL_PROTOCOL_LL);
        for (uint32_t r = 0; r < topo->nranks; r++) {
            uint32_t sms = ccl_model_gpu(topo, r).sms;
            f->sms = sms && (!f->sms || sms < f->sms) ? sms : f->sms;
        }
        status = ccl_i_family_start(f, routes, err);
    }
    if (status == CCL_OK) {
        ccl_i_race_t race = {.ctx = ctx,
                             .topo = topo,
                             .routes = routes,
                             .clusters = true,
                             .make = make,
                             .time = time_form,
                             .user = f,
                             .size_bytes = f->size_bytes};
        status = race_forms(f, &race, err);
        if (status == CCL_OK && f->ntried == 0)
            status = ccl_fail(err, CCL_UNSUPPORTED,
                              "the GPUs of a server form no grid of wires; use greedy or sketch");
        if (status == CCL_OK)
            status = ccl_i_race_take(&race, out, err);
        ccl_i_race_fini(&race);
    }
    if (f) {
        ccl_i_meet_plans_destroy(f->plans);
        ccl_arena_fini(&f->arena);
    }
    free(f);
    ccl_i_cluster_fini(&cluster);
    return status;
}

const ccl_synth_ops_t ccl_i_synth_latency = {
    .size = sizeof(ccl_synth_ops_t),
    .name = "latency",
    .summary = "few steps for small messages: all peers of a digit exchange at once",
    .source =
        "Thakur, Rabenseifner, Gropp, IJHPCA 2005; Bruck et al., TPDS 1997; van de Geijn 1994",
    .supports = supports,
    .synthesize = synthesize,
    .by_size = true,
};
