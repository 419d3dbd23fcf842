/*
 * Tuned points on a device: the fastest of each size are run, what the simulator thought of the
 * cluster's transports is fitted to their times, and they are ranked again with that. Fitted are,
 * for each transport that their connections use, the overhead of a primitive and the share of the
 * bandwidth that its links (and thread blocks) reach; what the runs do not determine stays as
 * described.
 */
#include "search/tune/tuner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TOP = 3, REPEATS = 5, MAX_KINDS = 8 };
/* Of logarithms: descriptions are often of other machines by an order of magnitude. */
static const double OVERHEAD_SPREAD = 3, SHARE_SPREAD = 1.5;
static const double LEAST_OVERHEAD_S =
    1e-6;                           /* where the cluster has none: factors need something */
static const double MOST_SHARE = 2; /* a profile's */
static const double NOISE = 0.05;

typedef struct job {
    const ccl_ctx_t *ctx;
    const ccl_topology_t *topo;
    const ccl_tuning_t *tuning;
    const ccl_replay_options_t *o;
    ccl_replay_t *r;
    ccl_program_t **programs; /* [npoints]; NULL: it cannot be made */
    ccl_way_t *ways;          /* [npoints] */
    uint32_t nkinds;
    const char *kinds[MAX_KINDS];
    bool uses[MAX_KINDS][CCL_PROTOCOLS]; /* programs that use this kind have this protocol */
} job_t;

/* ---------------------------------------------------------------- which */

bool ccl_i_tune_alike(const ccl_tuning_t *t, const ccl_i_tune_candidate_t *a,
                      const ccl_i_tune_candidate_t *b) {
    return a->time_s == b->time_s && t->points[t->runs[a->run].point].values[CCL_KNOB_WITH] ==
                                         t->points[t->runs[b->run].point].values[CCL_KNOB_WITH];
}

static ccl_status_t choose(job_t *j, ccl_error_t *err) {
    const ccl_tuning_t *t = j->tuning;
    uint32_t top = j->o->top ? j->o->top : TOP;
    ccl_i_tune_candidate_t *list = malloc(((size_t)t->nruns + 1) * sizeof *list);
    j->r->points = ccl_arena_alloc(&j->r->arena, (size_t)t->nruns + 1, sizeof *j->r->points);
    if (!list || !j->r->points) {
        free(list);
        return ccl_fail_nomem(err);
    }
    for (uint32_t s = 0; s < t->nsizes; s++) {
        uint32_t n = ccl_i_tune_candidates(t, s, list), taken = 0;
        for (uint32_t i = 0; i < n && taken < top; i++) {
            if (i > 0 && ccl_i_tune_alike(t, &list[i], &list[i - 1]))
                continue;
            j->r->points[j->r->npoints++] =
                (ccl_replayed_t){.run = list[i].run, .tuned_s = list[i].time_s};
            taken++;
        }
    }
    free(list);
    return j->r->npoints ? CCL_OK
                         : ccl_fail(err, CCL_INFEASIBLE, "nothing to replay: no point has a time");
}

static const ccl_tune_run_t *run_of(const job_t *j, uint32_t point) {
    return &j->tuning->runs[j->r->points[point].run];
}

static const double *values_of(const job_t *j, uint32_t point) {
    return j->tuning->points[run_of(j, point)->point].values;
}

static double size_of(const job_t *j, uint32_t point) {
    return j->tuning->sizes_bytes[run_of(j, point)->size];
}

/* ---------------------------------------------------------------- measuring */

/* What concerns one point only; anything else ends the replay. */
static bool one_points(ccl_status_t status) {
    return status == CCL_CHECK || status == CCL_DEADLOCK || status == CCL_UNSUPPORTED ||
           status == CCL_ERR_INPUT || status == CCL_ERR_MISSING;
}

static ccl_status_t told(ccl_replayed_t *p, ccl_status_t status, const ccl_error_t *why,
                         ccl_error_t *err) {
    if (status == CCL_OK)
        return CCL_OK;
    if (!one_points(status)) {
        if (err)
            *err = *why;
        return status;
    }
    p->status = status;
    snprintf(p->why, sizeof p->why, "%.255s", why->text);
    return CCL_OK;
}

static ccl_status_t make_programs(job_t *j, const ccl_collective_t *want, ccl_error_t *err) {
    for (uint32_t i = 0; i < j->r->npoints; i++) {
        ccl_error_t why = CCL_ERROR_INIT;
        ccl_topology_t *own = NULL;
        ccl_status_t status = ccl_tune_cluster(j->topo, values_of(j, i), &own, &why);
        if (status == CCL_OK)
            status =
                ccl_tune_program(j->ctx, own ? own : j->topo, want, values_of(j, i), size_of(j, i),
                                 &(ccl_tune_target_t){0}, &j->programs[i], &j->ways[i], &why);
        ccl_topology_destroy(own);
        CCL_TRY(told(&j->r->points[i], status, &why, err));
    }
    return CCL_OK;
}

static ccl_status_t measure_one(const job_t *j, uint32_t point, bool check, double *time_s_out,
                                ccl_error_t *err) {
    ccl_run_options_t o = j->o->run;
    ccl_run_result_t *result = NULL;
    const double *v = values_of(j, point);
    o.size_bytes = size_of(j, point);
    o.batches = ccl_i_whole(v[CCL_KNOB_BATCHES], 0); /* 0: as its FIFOs allow */
    if (!isnan(v[CCL_KNOB_PIECE]))                   /* no runtime knows it: what came of it */
        o.batches = run_of(j, point)->result.batches;
    o.slots = ccl_i_whole(v[CCL_KNOB_FIFO], o.slots);
    o.slices = ccl_i_whole(v[CCL_KNOB_SLICES], o.slices);
    o.slice_bytes = isnan(v[CCL_KNOB_SLICE]) ? o.slice_bytes : v[CCL_KNOB_SLICE];
    o.granularity = j->ways[point].granularity;
    o.repeats = 1;
    o.no_check = !check;
    if (j->o->measure)
        return j->o->measure(j->programs[point], &o, time_s_out, j->o->measure_user, err);
    ccl_status_t status = ccl_run_program(j->ctx, j->programs[point], &o, &result, err);
    if (status == CCL_OK)
        *time_s_out = result->min_s;
    ccl_run_result_destroy(result);
    return status;
}

static ccl_status_t measure(job_t *j, ccl_error_t *err) {
    uint32_t repeats = j->o->repeats ? j->o->repeats : REPEATS, n = j->r->npoints;
    for (uint32_t round = 0; round < repeats; round++) {
        for (uint32_t i = 0; i < n; i++) {
            ccl_replayed_t *p = &j->r->points[i];
            ccl_progress_t progress = {"replay", (uint64_t)round * n + i, (uint64_t)repeats * n, 0,
                                       0};
            ccl_error_t why = CCL_ERROR_INIT;
            double time_s = 0;
            if (p->status != CCL_OK)
                continue;
            CCL_TRY(ccl_ctx_poll(j->ctx, &progress));
            ccl_status_t status = measure_one(j, i, round == 0, &time_s, &why);
            CCL_TRY(told(p, status, &why, err));
            if (status == CCL_OK && (round == 0 || time_s < p->measured_s))
                p->measured_s = time_s;
        }
    }
    for (uint32_t i = 0; i < n; i++)
        j->r->nran += j->r->points[i].status == CCL_OK;
    if (j->r->nran)
        return CCL_OK;
    return ccl_fail(err, j->r->points[0].status, "no point ran; the first: %.400s",
                    j->r->points[0].why);
}

/* ---------------------------------------------------------------- fitting */

static uint32_t kind_of(job_t *j, const char *kind) {
    for (uint32_t k = 0; k < j->nkinds; k++)
        if (strcmp(j->kinds[k], kind) == 0)
            return k;
    if (j->nkinds == MAX_KINDS)
        return CCL_NONE;
    j->kinds[j->nkinds] = kind;
    return j->nkinds++;
}

static void add_use(job_t *j, const char *kind, const char *proto) {
    uint32_t k = kind_of(j, kind);
    ccl_protocol_t p = ccl_protocol_find(proto);
    if (k != CCL_NONE && p < CCL_PROTOCOLS)
        j->uses[k][p] = true;
}

/* Transports of the connections of one program. */
static ccl_status_t add_kinds(job_t *j, const ccl_program_t *p, ccl_routes_t *routes,
                              ccl_error_t *err) {
    for (uint32_t t = 0; t < p->ntbs; t++) {
        const ccl_tb_t *tb = &p->tbs[t];
        for (uint32_t s = tb->first_step; s < tb->first_step + tb->nsteps; s++) {
            const ccl_route_t *route;
            ccl_peers_t peers = ccl_program_peers(p, tb, s);
            if (ccl_primitive_receives(p->steps[s].type) && ccl_peer_is_group(peers.recv_peer)) {
                CCL_TRY(ccl_sim_flow_route(p, routes, peers.recv_peer, tb->rank, peers.channel,
                                           &route, err));
                add_use(j, ccl_model_tree_kind(j->topo, route), p->proto);
            }
            if (!ccl_primitive_sends(p->steps[s].type))
                continue;
            CCL_TRY(ccl_sim_flow_route(p, routes, tb->rank, peers.send_peer, peers.channel, &route,
                                       err));
            if (route)
                add_use(j,
                        ccl_peer_is_group(peers.send_peer) ? ccl_model_tree_kind(j->topo, route)
                                                           : ccl_model_route_kind(j->topo, route),
                        p->proto);
        }
    }
    return CCL_OK;
}

static double overhead_of(const job_t *j, uint32_t kind, ccl_protocol_t proto) {
    return fmax(ccl_model_transport(j->topo, j->kinds[kind], ccl_protocol_name(proto)).overhead_s,
                LEAST_OVERHEAD_S);
}

/* The one whose constants are reported: the first in use. */
static ccl_protocol_t main_proto(const job_t *j, uint32_t kind) {
    ccl_protocol_t proto = CCL_PROTOCOL_SIMPLE;
    while (proto + 1 < CCL_PROTOCOLS && !j->uses[kind][proto])
        proto++;
    return proto;
}

/* @param p  logarithms: factors on the overheads, shares of the bandwidths, kind by kind; of all
   protocols, so that points in one that did not run are no better for it. */
static void profile_text(const job_t *j, const double *p, ccl_text_t *out) {
    char text[64];
    ccl_text_printf(out, "{\n  \"format\": \"ccllab-profile-1\",\n  \"name\": \"replay\",\n"
                         "  \"links\": {");
    for (uint32_t k = 0; k < j->nkinds; k++)
        ccl_text_printf(out, "%s\"%s\": {\"efficiency\": %.6g}", k ? ", " : "", j->kinds[k],
                        fmin(exp(p[2 * k + 1]), MOST_SHARE));
    ccl_text_printf(out, "},\n  \"transports\": {");
    for (uint32_t k = 0; k < j->nkinds; k++) {
        const char *between = "";
        ccl_text_printf(out, "%s\n    \"%s\": {\"protocols\": {", k ? "," : "", j->kinds[k]);
        for (ccl_protocol_t i = CCL_PROTOCOL_SIMPLE; i < CCL_PROTOCOLS; i++) {
            const char *proto = ccl_protocol_name(i);
            double rate_Bps = ccl_model_transport(j->topo, j->kinds[k], proto).tb_rate_Bps;
            ccl_text_printf(
                out, "%s\"%s\": {\"overhead\": \"%s\"", between, proto,
                ccl_format_time(overhead_of(j, k, i) * exp(p[2 * k]), text, sizeof text));
            if (isfinite(rate_Bps))
                ccl_text_printf(out, ", \"tb_rate\": \"%s\"",
                                ccl_format_rate(rate_Bps * fmin(exp(p[2 * k + 1]), MOST_SHARE),
                                                text, sizeof text));
            ccl_text_printf(out, "}");
            between = ", ";
        }
        ccl_text_printf(out, "}}");
    }
    ccl_text_printf(out, "\n  }\n}\n");
}

/* One point on the cluster with other constants, and its own ones. */
static ccl_status_t predict_one(const job_t *j, const ccl_ctx_t *ctx, const ccl_topology_t *laid,
                                ccl_routes_t *routes, uint32_t point, double *time_s,
                                ccl_error_t *err) {
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    ccl_sim_result_t *result = NULL;
    ccl_topology_t *own = NULL;
    CCL_TRY(ccl_tune_cluster(laid, values_of(j, point), &own, err));
    sim.size_bytes = size_of(j, point);
    sim.batches = run_of(j, point)->result.batches;
    sim.granularity = j->ways[point].granularity;
    ccl_status_t status = ccl_sim_program(ctx, own ? own : laid, own ? NULL : routes,
                                          j->programs[point], &sim, &result, err);
    if (status == CCL_OK)
        *time_s = result->time_s;
    ccl_sim_result_destroy(result);
    ccl_topology_destroy(own);
    return status;
}

/* The cluster with these parameters. */
static ccl_status_t lay(const job_t *j, const double *p, ccl_topology_t **out, ccl_error_t *err) {
    ccl_text_t text = {0};
    ccl_profile_t *profile = NULL;
    ccl_ctx_t ctx = ccl_i_worker_ctx(j->ctx);
    profile_text(j, p, &text);
    ccl_status_t status = text.nomem
                              ? ccl_fail_nomem(err)
                              : ccl_profile_read_text("replay", text.data, text.len, &profile, err);
    ccl_text_fini(&text);
    if (status == CCL_OK)
        status = ccl_profile_apply(&ctx, profile, j->topo, out, err);
    ccl_profile_destroy(profile);
    return status;
}

/* Times of all that ran, with these parameters. */
static ccl_status_t predict(job_t *j, const double *p, double *time_s, ccl_error_t *err) {
    ccl_topology_t *laid = NULL;
    ccl_routes_t *routes = NULL;
    ccl_ctx_t ctx = ccl_i_worker_ctx(j->ctx);
    ccl_status_t status = lay(j, p, &laid, err);
    if (status == CCL_OK && !(routes = ccl_routes_create(laid)))
        status = ccl_fail_nomem(err);
    for (uint32_t i = 0, n = 0; i < j->r->npoints && status == CCL_OK; i++)
        if (j->r->points[i].status == CCL_OK)
            status = predict_one(j, &ctx, laid, routes, i, &time_s[n++], err);
    ccl_routes_destroy(routes);
    ccl_topology_destroy(laid);
    return status;
}

static ccl_status_t residuals(const double *p, double *r, void *user, ccl_error_t *err) {
    job_t *j = user;
    CCL_TRY(predict(j, p, r, err));
    for (uint32_t i = 0, n = 0; i < j->r->npoints; i++)
        if (j->r->points[i].status == CCL_OK) {
            r[n] = log(r[n] / j->r->points[i].measured_s);
            n++;
        }
    return CCL_OK;
}

static ccl_status_t keep_constants(job_t *j, const ccl_fit_parameter_t *fit, ccl_error_t *err) {
    ccl_constant_t *list = ccl_arena_alloc(&j->r->arena, 2 * j->nkinds + 1, sizeof *list);
    if (!list)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < 2 * j->nkinds; i++) {
        char name[160];
        bool overhead = i % 2 == 0;
        double unit = overhead ? overhead_of(j, i / 2, main_proto(j, i / 2)) : 1,
               wide = 1.96 * fit[i].error;
        snprintf(name, sizeof name, "%s/%.100s/%s", overhead ? "transports" : "links",
                 j->kinds[i / 2], overhead ? "overhead" : "efficiency");
        list[i] = (ccl_constant_t){.name = ccl_arena_strdup(&j->r->arena, name),
                                   .unit = overhead ? "s" : "1",
                                   .value = unit * exp(fit[i].value),
                                   .low = unit * exp(fit[i].value - wide),
                                   .high = unit * exp(fit[i].value + wide)};
        if (!list[i].name)
            return ccl_fail_nomem(err);
    }
    j->r->constants = list;
    j->r->nconstants = 2 * j->nkinds;
    return CCL_OK;
}

/* @param values  [2 kinds] what was fitted. */
static ccl_status_t fit(job_t *j, double *values, ccl_error_t *err) {
    ccl_fit_parameter_t parameters[2 * MAX_KINDS];
    ccl_fit_result_t result;
    ccl_text_t text = {0};
    double *time_s = malloc(j->r->npoints * sizeof *time_s);
    ccl_status_t status = time_s ? CCL_OK : ccl_fail_nomem(err);
    for (uint32_t k = 0; k < j->nkinds; k++) {
        parameters[2 * k] = (ccl_fit_parameter_t){.value = 0, .spread = OVERHEAD_SPREAD};
        parameters[2 * k + 1] = (ccl_fit_parameter_t){.value = 0, .spread = SHARE_SPREAD};
    }
    if (status == CCL_OK)
        status =
            ccl_fit(2 * j->nkinds, parameters, NULL, j->r->nran, NOISE, residuals, j, &result, err);
    for (uint32_t i = 0; i < 2 * j->nkinds; i++) {
        if (i % 2)
            parameters[i].value = fmin(parameters[i].value, log(MOST_SHARE));
        values[i] = parameters[i].value;
    }
    if (status == CCL_OK)
        status = predict(j, values, time_s, err);
    for (uint32_t i = 0, n = 0; status == CCL_OK && i < j->r->npoints; i++)
        if (j->r->points[i].status == CCL_OK)
            j->r->points[i].fitted_s = time_s[n++];
    free(time_s);
    CCL_TRY(status);
    profile_text(j, values, &text);
    j->r->profile = text.nomem ? NULL : ccl_arena_strdup(&j->r->arena, text.data);
    ccl_text_fini(&text);
    return j->r->profile ? keep_constants(j, parameters, err) : ccl_fail_nomem(err);
}

/* ---------------------------------------------------------------- ranking */

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *values, uint32_t n) {
    qsort(values, n, sizeof *values, by_value);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static double sign(double x) {
    return x > 0 ? 1 : x < 0 ? -1 : 0;
}

static ccl_status_t judge(job_t *j, ccl_error_t *err) {
    ccl_replay_t *r = j->r;
    double *tuned = malloc(r->npoints * sizeof *tuned),
           *fitted = malloc(r->npoints * sizeof *fitted);
    double pairs = 0, agree_tuned = 0, agree_fitted = 0;
    uint32_t n = 0;
    for (uint32_t a = 0; tuned && fitted && a < r->npoints; a++) {
        ccl_replayed_t *x = &r->points[a];
        if (x->status != CCL_OK)
            continue;
        x->tuned_rank = x->fitted_rank = x->measured_rank = 1;
        tuned[n] = fabs(x->tuned_s / x->measured_s - 1);
        fitted[n++] = fabs(x->fitted_s / x->measured_s - 1);
        for (uint32_t b = 0; b < r->npoints; b++) {
            const ccl_replayed_t *y = &r->points[b];
            if (a == b || y->status != CCL_OK || run_of(j, a)->size != run_of(j, b)->size)
                continue;
            x->tuned_rank += y->tuned_s < x->tuned_s;
            x->fitted_rank += y->fitted_s < x->fitted_s;
            x->measured_rank += y->measured_s < x->measured_s;
            pairs++;
            agree_tuned += sign((y->tuned_s - x->tuned_s) * (y->measured_s - x->measured_s));
            agree_fitted += sign((y->fitted_s - x->fitted_s) * (y->measured_s - x->measured_s));
        }
    }
    ccl_status_t status = tuned && fitted ? CCL_OK : ccl_fail_nomem(err);
    if (status == CCL_OK) {
        r->error_tuned = median(tuned, n);
        r->error_fitted = median(fitted, n);
        r->tau_tuned = pairs > 0 ? agree_tuned / pairs : NAN;
        r->tau_fitted = pairs > 0 ? agree_fitted / pairs : NAN;
    }
    free(tuned);
    free(fitted);
    return status;
}

static ccl_status_t rank_all(job_t *j, const double *values, ccl_error_t *err) {
    ccl_topology_t *laid = NULL;
    if (!j->tuning->kept)
        return CCL_OK;
    CCL_TRY(lay(j, values, &laid, err));
    ccl_status_t status = ccl_i_tune_rerank(j->tuning, laid, j->o->rank_s, j->r, err);
    ccl_topology_destroy(laid);
    return status;
}

static ccl_status_t replay(job_t *j, const ccl_collective_t *want, ccl_error_t *err) {
    double values[2 * MAX_KINDS];
    ccl_routes_t *routes = NULL;
    ccl_status_t status = CCL_OK;
    CCL_TRY(choose(j, err));
    j->programs = calloc(j->r->npoints, sizeof(ccl_program_t *));
    j->ways = calloc(j->r->npoints, sizeof *j->ways);
    routes = ccl_routes_create(j->topo);
    if (!j->programs || !j->ways || !routes)
        status = ccl_fail_nomem(err);
    if (status == CCL_OK)
        status = make_programs(j, want, err);
    if (status == CCL_OK)
        status = measure(j, err);
    for (uint32_t i = 0; status == CCL_OK && i < j->r->npoints; i++)
        if (j->r->points[i].status == CCL_OK)
            status = add_kinds(j, j->programs[i], routes, err);
    if (status == CCL_OK)
        status = fit(j, values, err);
    if (status == CCL_OK)
        status = judge(j, err);
    if (status == CCL_OK)
        status = rank_all(j, values, err);
    for (uint32_t i = 0; j->programs && i < j->r->npoints; i++)
        ccl_program_destroy(j->programs[i]);
    ccl_routes_destroy(routes);
    return status;
}

ccl_status_t ccl_tune_replay(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                             const ccl_collective_t *want, const ccl_tuning_t *tuning,
                             const ccl_replay_options_t *options, ccl_replay_t **out,
                             ccl_error_t *err) {
    CCL_OPTIONS_TRY(ccl_replay_options_t, options, err);
    CCL_OPTIONS_TRY(ccl_run_options_t, &options->run, err);
    ccl_replay_t *r = calloc(1, sizeof *r);
    job_t j = {.ctx = ctx, .topo = topo, .tuning = tuning, .o = options, .r = r};
    if (!r)
        return ccl_fail_nomem(err);
    ccl_arena_init(&r->arena);
    ccl_status_t status = replay(&j, want, err);
    free(j.programs);
    free(j.ways);
    if (status == CCL_OK)
        *out = r;
    else
        ccl_replay_destroy(r);
    return status;
}

void ccl_replay_destroy(ccl_replay_t *replay) {
    if (!replay)
        return;
    ccl_arena_fini(&replay->arena);
    free(replay);
}
