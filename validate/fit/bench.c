/*
 * Measured points of many sources, predicted with any constants. A worker has a predictor and a
 * copy of the cluster's constants for each group of sources on the same cluster, so that points are
 * simulated on all threads; what they give does not depend on which.
 */
#include "validate/fit/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/*
 * Switch connections: a block's warps are split: some copy in, some out, some pull. With more than
 * half of a block's rate for each, links limit large messages (switch_calibrate.c).
 */
#define COPY_SHARE 0.6

/** What one worker runs one group's points with. */
typedef struct ccl_i_seat {
    ccl_predictor_t *predictor; /* NULL: of programs */
    ccl_topology_t laid;        /* the group's, with arrays of our own */
    ccl_link_t *links;
    ccl_transport_spec_t *transports;
    ccl_gpu_model_t *models;
    ccl_routes_t *routes;
    double efficiency[CCL_I_FIT_KINDS]; /* that the links have */
    uint32_t epoch;                     /* of the constants; 0: not made yet */
} seat_t;

static const char *proto_name(uint32_t proto) {
    return ccl_nccl_proto_name((ccl_nccl_proto_t)proto);
}

static int proto_of(const char *name) {
    for (int p = 0; name && p < (int)CCL_I_FIT_PROTOS; p++)
        if (strcmp(proto_name((uint32_t)p), name) == 0)
            return p;
    return CCL_NCCL_SIMPLE;
}

double ccl_i_fit_rounded(double value) {
    char text[40];
    snprintf(text, sizeof text, "%.6g", value);
    return strtod(text, NULL);
}

/* ---------------------------------------------------------------- constants on a cluster */

static uint32_t given_unless_nan(double value, uint32_t given) {
    return isnan(value) ? 0 : given;
}

static void lay_transports(const ccl_i_bench_t *b, seat_t *s) {
    const ccl_i_constants_set_t *c = b->constants;
    uint32_t n = s->laid.ntransports;
    for (uint32_t k = 0; k < b->nkinds; k++) {
        const ccl_i_fit_kind_t *kind = &b->kinds[k];
        ccl_transport_spec_t *all = &s->transports[n++];
        *all = (ccl_transport_spec_t){.kind = kind->name};
        if (b->of_nccl) { /* NCCL receives into its own buffer and copies out */
            all->given = CCL_TRANSPORT_DIRECT;
            all->value.direct = false;
        }
        if (kind->base) {
            all->given = CCL_TRANSPORT_ALL;
            all->value = kind->own[CCL_NCCL_SIMPLE];
            all->value.wire = isnan(c->wire[k]) ? all->value.wire : c->wire[k];
        }
        for (uint32_t p = 0; p < CCL_I_FIT_PROTOS; p++) {
            ccl_transport_spec_t *one = &s->transports[n++];
            *one = (ccl_transport_spec_t){.kind = kind->name, .protocol = proto_name(p)};
            one->value.overhead_s = c->overhead_s[k][p];
            one->value.latency_s = c->latency_s[k][p];
            one->value.tb_rate_Bps = c->tb_rate_Bps[k][p];
            one->value.message_s = c->message_s[k][p];
            one->value.message_bytes = c->message_bytes[k][p];
            one->given = given_unless_nan(c->overhead_s[k][p], CCL_TRANSPORT_OVERHEAD) |
                         given_unless_nan(c->latency_s[k][p], CCL_TRANSPORT_LATENCY) |
                         given_unless_nan(c->tb_rate_Bps[k][p], CCL_TRANSPORT_TB_RATE) |
                         given_unless_nan(c->message_s[k][p],
                                          CCL_TRANSPORT_MESSAGE | CCL_TRANSPORT_MESSAGE_SIZE);
        }
    }
    s->laid.ntransports = n;
}

static void lay_models(const ccl_i_bench_t *b, const ccl_topology_t *own, seat_t *s) {
    const ccl_i_constants_set_t *c = b->constants;
    for (uint32_t m = 0; m < own->ngpu_models; m++) {
        s->models[m] = own->gpu_models[m];
        for (uint32_t p = 0; p < CCL_I_FIT_PROTOS; p++) {
            ccl_protocol_t place = ccl_protocol_find(proto_name(p));
            if (isnan(c->launch_s[p]))
                continue;
            s->models[m].launches |= 1u << place;
            s->models[m].protocol_launch_s[place] = c->launch_s[p];
        }
        if (!isnan(c->reduce_Bps))
            s->models[m].reduce_rate_Bps = c->reduce_Bps;
    }
}

/** Whether a link changed. */
static bool lay_links(const ccl_i_bench_t *b, const ccl_topology_t *own, seat_t *s) {
    bool changed = false;
    for (uint32_t k = 0; k < b->nkinds; k++) {
        double now = isnan(b->constants->efficiency[k]) ? 1 : b->constants->efficiency[k];
        changed = changed || now != s->efficiency[k];
        s->efficiency[k] = now;
    }
    for (uint32_t l = 0; changed && l < own->nlinks; l++)
        for (uint32_t k = 0; k < b->nkinds; k++)
            if (strcmp(own->kinds[own->links[l].kind], b->kinds[k].name) == 0)
                s->links[l].bandwidth_Bps = own->links[l].bandwidth_Bps * s->efficiency[k];
    return changed;
}

/** The constants of this evaluation on a worker's cluster. */
static ccl_status_t lay(const ccl_i_bench_t *b, const ccl_topology_t *own, seat_t *s,
                        ccl_error_t *err) {
    if (!s->links) {
        size_t most = own->ntransports + (size_t)CCL_I_FIT_KINDS * (CCL_I_FIT_PROTOS + 1);
        s->links = malloc((own->nlinks + (size_t)1) * sizeof *s->links);
        s->transports = calloc(most, sizeof *s->transports);
        s->models = calloc(own->ngpu_models + (size_t)1, sizeof *s->models);
        if (!s->links || !s->transports || !s->models)
            return ccl_fail_nomem(err);
        memcpy(s->links, own->links, own->nlinks * sizeof *s->links);
        for (uint32_t k = 0; k < CCL_I_FIT_KINDS; k++)
            s->efficiency[k] = 1;
    }
    s->laid = *own;
    s->laid.links = s->links;
    bool changed = false;
    if (b->constants) {
        memcpy(s->transports, own->transports, own->ntransports * sizeof *s->transports);
        s->laid.transports = s->transports;
        s->laid.gpu_models = s->models;
        lay_transports(b, s);
        lay_models(b, own, s);
        changed = lay_links(b, own, s);
    }
    if (s->predictor)
        ccl_predictor_lay(s->predictor, &s->laid);
    if (s->routes && !changed)
        return CCL_OK;
    ccl_routes_destroy(s->routes);
    s->routes = ccl_routes_create(&s->laid);
    return s->routes ? CCL_OK : ccl_fail_nomem(err);
}

/* ---------------------------------------------------------------- points */

static const ccl_topology_t *base_of(const ccl_i_bench_t *b, uint32_t source) {
    return b->bases[b->group_of[source]];
}

/* The program of a point, and the cluster and options that it runs with. */
static ccl_status_t kernel_of(const ccl_i_bench_t *b, seat_t *s, const ccl_i_point_t *p,
                              ccl_nccl_kernel_t *out, ccl_error_t *err) {
    const ccl_measured_source_t *source = &b->sources[p->source];
    if (s->predictor)
        return ccl_predictor_kernel(s->predictor, source->run->kind, source->run->root,
                                    p->size_bytes, NULL, out, err);
    *out = (ccl_nccl_kernel_t){.program = *source->program, .topo = &s->laid};
    out->program.proto = proto_name((uint32_t)p->proto);
    return CCL_OK;
}

static ccl_status_t open_seat(const ccl_i_bench_t *b, uint32_t source, seat_t *s,
                              ccl_error_t *err) {
    const ccl_measured_source_t *from = &b->sources[source];
    if (s->epoch == b->epoch)
        return CCL_OK;
    if (!from->program && !s->predictor) {
        uint32_t channels = b->channels ? b->channels : from->run->channels;
        CCL_TRY(ccl_predictor_create(&b->quiet, from->topo, NULL, channels, &s->predictor, err));
        ccl_predictor_version(s->predictor, from->run->version);
        ccl_predictor_nvls(s->predictor, !from->run->no_nvls && ccl_nccl_nvls_type(from->run->type),
                           false);
    }
    CCL_TRY(lay(b, base_of(b, source), s, err));
    s->epoch = b->epoch;
    return CCL_OK;
}

static seat_t *seat_of(const ccl_i_bench_t *b, uint32_t source, uint32_t worker) {
    return &b->seats[(size_t)b->group_of[source] * b->workers + worker];
}

typedef struct evaluation {
    ccl_i_bench_t *b;
    const uint32_t *list; /* points to run */
    double *time_s;
} evaluation_t;

static ccl_status_t run_point(uint32_t index, uint32_t worker, void *user, ccl_error_t *err) {
    evaluation_t *e = user;
    const ccl_i_point_t *p = &e->b->points[e->list[index]];
    seat_t *s = seat_of(e->b, p->source, worker);
    ccl_nccl_kernel_t kernel;
    ccl_sim_result_t *run = NULL;
    CCL_TRY(open_seat(e->b, p->source, s, err));
    CCL_TRY(kernel_of(e->b, s, p, &kernel, err));
    ccl_sim_options_t options = ccl_nccl_kernel_sim(&kernel, p->size_bytes);
    ccl_status_t status =
        ccl_sim_program(&e->b->quiet, kernel.topo, s->routes, &kernel.program, &options, &run, err);
    e->time_s[e->list[index]] = status == CCL_OK ? run->time_s : NAN;
    ccl_sim_result_destroy(run);
    if (status == CCL_DEADLOCK && e->b->sources[p->source].program) {
        ccl_error_clear(err);
        return CCL_OK;
    }
    return status;
}

ccl_status_t ccl_i_bench_run(ccl_i_bench_t *b, const ccl_i_constants_set_t *constants,
                             const bool *wanted, double *time_s, ccl_error_t *err) {
    evaluation_t e = {.b = b, .time_s = time_s};
    uint32_t *list = malloc((b->npoints + (size_t)1) * sizeof *list), n = 0;
    if (!list)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < b->npoints; i++) {
        if (b->points[i].stuck)
            time_s[i] = NAN;
        else if (!wanted || wanted[i])
            list[n++] = i;
    }
    e.list = list;
    b->constants = constants;
    b->epoch++;
    ccl_status_t status = ccl_ctx_poll(&b->quiet, NULL);
    if (status == CCL_OK)
        status = ccl_parallel_for(n, b->workers, run_point, &e, err);
    free(list);
    return status;
}

/* ---------------------------------------------------------------- what is there */

static ccl_status_t add_points(ccl_i_bench_t *b, const ccl_calibrate_options_t *o,
                               ccl_error_t *err) {
    size_t most = 1;
    for (uint32_t s = 0; s < b->nsources; s++)
        most += b->sources[s].run->npoints;
    b->points = ccl_arena_alloc(&b->arena, most, sizeof *b->points);
    if (!b->points)
        return ccl_fail_nomem(err);
    for (uint32_t s = 0; s < b->nsources; s++) {
        const ccl_measured_run_t *run = b->sources[s].run;
        for (uint32_t i = 0; i < run->npoints; i++) {
            const ccl_measurement_t *m = &run->points[i];
            double time_s = o->in_place ? m->in_place_time_s : m->time_s;
            if (!(time_s > 0) || m->size_bytes < o->min_bytes)
                continue;
            b->points[b->npoints++] = (ccl_i_point_t){.source = s,
                                                      .size_bytes = m->size_bytes,
                                                      .measured_s = time_s,
                                                      .spread = m->spread};
        }
    }
    return CCL_OK;
}

static bool same_group(const ccl_measured_source_t *a, const ccl_measured_source_t *b) {
    if (a->topo != b->topo || !a->program != !b->program)
        return false;
    return a->program ||
           (a->run->channels == b->run->channels && a->run->version == b->run->version &&
            a->run->no_nvls == b->run->no_nvls &&
            ccl_nccl_nvls_type(a->run->type) == ccl_nccl_nvls_type(b->run->type));
}

static ccl_status_t make_groups(ccl_i_bench_t *b, const ccl_profile_t *profile, ccl_error_t *err) {
    b->group_of = ccl_arena_alloc(&b->arena, b->nsources + (size_t)1, sizeof *b->group_of);
    b->bases = ccl_arena_alloc(&b->arena, b->nsources + (size_t)1, sizeof *b->bases);
    b->laid = ccl_arena_alloc(&b->arena, b->nsources + (size_t)1, sizeof *b->laid);
    if (!b->group_of || !b->bases || !b->laid)
        return ccl_fail_nomem(err);
    for (uint32_t s = 0; s < b->nsources; s++) {
        uint32_t like = 0;
        while (like < s && !same_group(&b->sources[like], &b->sources[s]))
            like++;
        if (like < s) {
            b->group_of[s] = b->group_of[like];
            continue;
        }
        b->group_of[s] = b->ngroups;
        b->bases[b->ngroups] = b->sources[s].topo;
        if (profile) {
            CCL_TRY(ccl_profile_apply(&b->quiet, profile, b->sources[s].topo, &b->laid[b->ngroups],
                                      err));
            b->bases[b->ngroups] = b->laid[b->ngroups];
        }
        b->ngroups++;
    }
    b->seats = calloc((size_t)b->ngroups * b->workers, sizeof *b->seats);
    return b->seats ? CCL_OK : ccl_fail_nomem(err);
}

/* The kind's index, made where there is none; CCL_NONE: there are too many. */
static uint32_t kind_index(ccl_i_bench_t *b, const ccl_topology_t *topo, const char *kind,
                           bool in_switch) {
    char name[80];
    snprintf(name, sizeof name, "%.60s%s", kind, in_switch ? "-switch" : "");
    for (uint32_t k = 0; k < b->nkinds; k++)
        if (strcmp(b->kinds[k].name, name) == 0)
            return k;
    if (b->nkinds == CCL_I_FIT_KINDS)
        return CCL_NONE;
    ccl_i_fit_kind_t *made = &b->kinds[b->nkinds];
    *made = (ccl_i_fit_kind_t){.name = ccl_arena_strdup(&b->arena, name),
                               .base = in_switch ? ccl_arena_strdup(&b->arena, kind) : NULL};
    if (!made->name || (in_switch && !made->base))
        return CCL_NONE;
    for (uint32_t k = 0; k < topo->nkinds; k++)
        made->links = made->links || strcmp(topo->kinds[k], name) == 0;
    for (uint32_t p = 0; p < CCL_I_FIT_PROTOS; p++) {
        made->own[p] = ccl_model_transport(topo, in_switch ? kind : name, proto_name(p));
        if (in_switch) {
            made->own[p].tb_rate_Bps *= COPY_SHARE;
            made->own[p].direct = false;
        }
    }
    return b->nkinds++;
}

/* One connection of a program. */
typedef struct way {
    uint32_t from, to, channel;
} way_t;

static ccl_status_t add_kind(ccl_i_bench_t *b, seat_t *s, const ccl_program_t *program, way_t way,
                             ccl_i_point_t *p, ccl_error_t *err) {
    const ccl_topology_t *topo = base_of(b, p->source);
    const ccl_route_t *route = NULL;
    CCL_TRY(ccl_sim_flow_route(program, s->routes, way.from, way.to, way.channel, &route, err));
    if (!route) /* an offer: who pulls counts it */
        return CCL_OK;
    uint32_t k = kind_index(b, topo, ccl_model_route_kind(topo, route),
                            ccl_peer_is_group(way.from) || ccl_peer_is_group(way.to));
    if (k == CCL_NONE)
        return ccl_fail(err, CCL_UNSUPPORTED, "more than %u kinds of connections", CCL_I_FIT_KINDS);
    p->kinds |= 1u << k;
    b->kinds[k].used[p->proto] = true;
    return CCL_OK;
}

/* Kinds of a point's connections; those of switches count as "-switch" of their links' kind. */
static ccl_status_t find_kinds(ccl_i_bench_t *b, seat_t *s, const ccl_program_t *program,
                               ccl_i_point_t *p, ccl_error_t *err) {
    for (uint32_t t = 0; t < program->ntbs; t++) {
        const ccl_tb_t *tb = &program->tbs[t];
        uint32_t nsteps = program->peers ? tb->nsteps : tb->nsteps > 0; /* else they are alike */
        for (uint32_t i = 0; i < nsteps; i++) {
            ccl_peers_t peers = ccl_program_peers(program, tb, tb->first_step + i);
            if (peers.send_peer != CCL_NONE)
                CCL_TRY(add_kind(b, s, program, (way_t){tb->rank, peers.send_peer, peers.channel},
                                 p, err));
            if (peers.recv_peer != CCL_NONE && ccl_peer_is_group(peers.recv_peer))
                CCL_TRY(add_kind(b, s, program, (way_t){peers.recv_peer, tb->rank, peers.channel},
                                 p, err));
        }
    }
    return CCL_OK;
}

static ccl_status_t look_at_points(ccl_i_bench_t *b, ccl_error_t *err) {
    b->epoch++;
    for (uint32_t i = 0; i < b->npoints; i++) {
        ccl_i_point_t *p = &b->points[i];
        const ccl_measured_source_t *source = &b->sources[p->source];
        seat_t *s = seat_of(b, p->source, 0);
        ccl_nccl_kernel_t kernel;
        CCL_TRY(open_seat(b, p->source, s, err));
        if (source->program)
            p->proto =
                proto_of(source->run->proto[0] ? source->run->proto : source->program->proto);
        CCL_TRY(kernel_of(b, s, p, &kernel, err));
        if (!source->program)
            p->proto = (int)kernel.choice.proto;
        p->algo = source->program ? -1 : (int)kernel.choice.algo;
        CCL_TRY(find_kinds(b, s, &kernel.program, p, err));
        b->of_nccl = b->of_nccl || !source->program;
        b->used[p->proto] = true;
        b->own_launch_s[p->proto] =
            ccl_model_launch_s(base_of(b, p->source), 0, proto_name((uint32_t)p->proto));
    }
    return CCL_OK;
}

static ccl_status_t check_sources(const ccl_i_bench_t *b, ccl_error_t *err) {
    for (uint32_t s = 0; s < b->nsources; s++) {
        const ccl_measured_source_t *from = &b->sources[s];
        uint32_t nranks = from->program ? from->program->nranks : from->run->nranks;
        if (!from->program && !from->run->known)
            return ccl_fail(err, CCL_ERR_INPUT,
                            "the log does not say which collective it measured: --collective NAME");
        if (nranks != from->topo->nranks)
            return ccl_fail(err, CCL_ERR_INPUT, "a run of %u ranks on a cluster of %u GPUs", nranks,
                            from->topo->nranks);
    }
    return CCL_OK;
}

ccl_status_t ccl_i_bench_create(const ccl_ctx_t *ctx, const ccl_measured_source_t *sources,
                                uint32_t nsources, const ccl_calibrate_options_t *options,
                                const ccl_profile_t *profile, ccl_i_bench_t **out,
                                ccl_error_t *err) {
    ccl_i_bench_t *b = calloc(1, sizeof *b);
    if (!b)
        return ccl_fail_nomem(err);
    if (ctx)
        b->quiet = *ctx;
    b->quiet.log = NULL; /* the same for every point */
    b->quiet.progress = NULL;
    b->sources = sources;
    b->nsources = nsources;
    b->channels = options->channels;
    b->workers = b->quiet.threads ? b->quiet.threads : ccl_core_count();
    ccl_arena_init(&b->arena);
    ccl_status_t status = check_sources(b, err);
    if (status == CCL_OK)
        status = add_points(b, options, err);
    if (status == CCL_OK)
        status = make_groups(b, profile, err);
    if (status == CCL_OK)
        status = look_at_points(b, err);
    if (status != CCL_OK) {
        ccl_i_bench_destroy(b);
        return status;
    }
    *out = b;
    return CCL_OK;
}

void ccl_i_bench_destroy(ccl_i_bench_t *b) {
    if (!b)
        return;
    for (size_t i = 0; b->seats && i < (size_t)b->ngroups * b->workers; i++) {
        seat_t *s = &b->seats[i];
        ccl_predictor_destroy(s->predictor);
        ccl_routes_destroy(s->routes);
        free(s->links);
        free(s->transports);
        free(s->models);
    }
    for (uint32_t g = 0; g < b->ngroups; g++)
        ccl_topology_destroy(b->laid[g]);
    free(b->seats);
    ccl_arena_fini(&b->arena);
    free(b);
}

bool ccl_i_bench_estimate(const ccl_i_bench_t *b, uint32_t point, double *latency_s,
                          double *transfer_s) {
    const ccl_i_point_t *p = &b->points[point];
    const seat_t *s = seat_of(b, p->source, 0);
    if (!s->predictor)
        return false;
    const ccl_nccl_setup_t *setup = ccl_predictor_setup(s->predictor);
    ccl_collective_kind_t kind = b->sources[p->source].run->kind;
    ccl_nccl_algo_t algo = (ccl_nccl_algo_t)p->algo;
    ccl_nccl_proto_t proto = (ccl_nccl_proto_t)p->proto;
    *latency_s = ccl_nccl_channels(setup, kind, algo, proto, 1).estimate_s;
    *transfer_s =
        ccl_nccl_channels(setup, kind, algo, proto, p->size_bytes).estimate_s - *latency_s;
    return *latency_s > 0 && *transfer_s > 0;
}
