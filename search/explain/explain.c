/* Why a run takes its time: its critical path, the links of the bound, and what was tried. */
#include "search/explain/changes.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

const char *ccl_remedy_name(ccl_remedy_t remedy) {
    static const char *const names[] = {"program", "setting", "hardware"};
    return (unsigned)remedy < CCL_ARRAY_LEN(names) ? names[remedy] : "?";
}

/* ---------------------------------------------------------------- the links of the bound */

/* Of the links together: a group takes away what its links have beyond it. */
static double capacity_of(const ccl_topology_t *topo, const bool *in) {
    double capacity_Bps = 0;
    for (uint32_t l = 0; l < topo->nlinks; l++)
        capacity_Bps += in[l] ? topo->links[l].bandwidth_Bps : 0;
    for (uint32_t g = 0; g < topo->ngroups; g++) {
        double members_Bps = 0;
        for (uint32_t i = 0; i < topo->groups[g].nlinks; i++) {
            uint32_t l = topo->groups[g].links[i];
            members_Bps += in[l] ? topo->links[l].bandwidth_Bps : 0;
        }
        capacity_Bps -= fmax(0, members_Bps - topo->groups[g].bandwidth_Bps);
    }
    return capacity_Bps;
}

static bool crosses(const ccl_route_t *route, const bool *in) {
    for (uint32_t i = 0; i < route->nlinks; i++)
        if (in[route->links[i]])
            return true;
    return false;
}

static ccl_status_t sends_over(const ccl_program_t *p, const ccl_tb_t *tb, ccl_routes_t *routes,
                               const bool *in, bool *out, ccl_error_t *err) {
    *out = false;
    for (uint32_t s = tb->first_step; s < tb->first_step + tb->nsteps && !*out; s++) {
        const ccl_route_t *route;
        ccl_peers_t peers = ccl_program_peers(p, tb, s);
        if (ccl_primitive_receives((ccl_primitive_t)p->steps[s].type) &&
            ccl_peer_is_group(peers.recv_peer)) {
            CCL_TRY(ccl_sim_flow_route(p, routes, peers.recv_peer, tb->rank, peers.channel, &route,
                                       err));
            *out = crosses(route, in);
        }
        if (*out || !ccl_primitive_sends((ccl_primitive_t)p->steps[s].type))
            continue;
        CCL_TRY(
            ccl_sim_flow_route(p, routes, tb->rank, peers.send_peer, peers.channel, &route, err));
        *out = route && crosses(route, in);
        if (!p->peers && !p->ngroups) /* the others are like it */
            break;
    }
    return CCL_OK;
}

/* What the blocks did that send over those links. */
static ccl_status_t cut_blocks(const ccl_program_t *p, ccl_routes_t *routes, const bool *in,
                               ccl_explanation_t *e, ccl_error_t *err) {
    const ccl_sim_result_t *r = e->result;
    ccl_cut_use_t *cut = &e->cut;
    for (uint32_t i = 0; i < p->ntbs; i++) {
        const ccl_tb_use_t *use = &r->tbs[i];
        bool sends;
        CCL_TRY(sends_over(p, &p->tbs[i], routes, in, &sends, err));
        if (!sends)
            continue;
        double waits_s = use->wait_data_s + use->wait_peer_s + use->wait_slot_s;
        double life_s = use->done_s - use->start_s;
        /* at stage level the stages of a block overlap: shares of the sum of their lives */
        double whole_s = use->busy_s + waits_s, of = whole_s > 0 ? life_s / whole_s : 0;
        cut->blocks++;
        cut->before += use->start_s;
        cut->working += use->busy_s * of;
        cut->waits_data += use->wait_data_s * of;
        cut->waits_peer += use->wait_peer_s * of;
        cut->waits_slot += use->wait_slot_s * of;
        cut->after += r->time_s - use->done_s;
    }
    double *const shares[] = {&cut->before,     &cut->working,    &cut->waits_data,
                              &cut->waits_peer, &cut->waits_slot, &cut->after};
    for (size_t i = 0; i < CCL_ARRAY_LEN(shares); i++)
        *shares[i] = cut->blocks && r->time_s > 0 ? *shares[i] / (cut->blocks * r->time_s) : 0;
    return CCL_OK;
}

/* What the path does most of the time in each part of the run. */
static void interval_causes(ccl_explanation_t *e) {
    const ccl_sim_result_t *r = e->result;
    uint32_t first = 0;
    for (uint32_t i = 0; i < e->intervals; i++) {
        double from_s = r->time_s * i / e->intervals, to_s = r->time_s * (i + 1) / e->intervals;
        double sum_s[CCL_PATH_CAUSES] = {0};
        uint32_t most = 0;
        while (first < r->npath && r->path[first].end_s <= from_s)
            first++;
        for (uint32_t k = first; k < r->npath && r->path[k].start_s < to_s; k++)
            sum_s[r->path[k].cause] +=
                fmin(to_s, r->path[k].end_s) - fmax(from_s, r->path[k].start_s);
        for (uint32_t c = 1; c < CCL_PATH_CAUSES; c++)
            most = sum_s[c] > sum_s[most] ? c : most;
        e->cut.interval_on[i] = (ccl_path_cause_t)most;
    }
}

/* Links that stand in a cut just as tight: images of those under symmetries that keep the demand,
 * and for AllReduce, which is its own reverse, the links back where they are as fast. */
static ccl_status_t links_alike(const ccl_topology_t *topo, const ccl_collective_t *coll,
                                const bool *in, bool *out, ccl_error_t *err) {
    bool rooted = ccl_collective_kind_is_rooted(coll->kind);
    ccl_capacity_t *c = NULL;
    ccl_automorphisms_t symmetry;
    memcpy(out, in, topo->nlinks * sizeof *out);
    if (coll->kind == CCL_SENDRECV || coll->kind == CCL_CUSTOM)
        return CCL_OK;
    CCL_TRY(ccl_capacity_create(topo, &c, err));
    ccl_status_t status = CCL_OK;
    if (c->nleft_groups == 0) { /* these have no part in the graph's symmetries */
        bool *orbit = calloc(c->narcs + 1u, sizeof *orbit);
        status = orbit ? ccl_automorphisms_find(&c->graph,
                                                rooted ? topo->rank_device[coll->root] : CCL_NONE,
                                                &symmetry, err)
                       : ccl_fail_nomem(err);
        if (status == CCL_OK) {
            for (uint32_t a = 0; a < c->narcs; a++)
                if (c->arcs[a].link != CCL_NONE && in[c->arcs[a].link])
                    orbit[symmetry.arc_orbit[a]] = true;
            for (uint32_t a = 0; a < c->narcs; a++)
                if (c->arcs[a].link != CCL_NONE && orbit[symmetry.arc_orbit[a]])
                    out[c->arcs[a].link] = true;
            ccl_automorphisms_fini(&symmetry);
        }
        free(orbit);
    }
    ccl_capacity_destroy(c);
    for (uint32_t l = 0; coll->kind == CCL_ALLREDUCE && l < topo->nlinks; l++) {
        const ccl_link_t *link = &topo->links[l];
        for (uint32_t i = topo->out_first[link->to]; i < topo->out_first[link->to + 1]; i++) {
            const ccl_link_t *back = &topo->links[topo->out_links[i]];
            if (out[l] && back->to == link->from && back->bandwidth_Bps == link->bandwidth_Bps)
                out[topo->out_links[i]] = true;
        }
    }
    return status;
}

/* Of the path, what sends over those links: its bytes, not the latency behind them. */
static ccl_status_t cut_path(const ccl_program_t *p, ccl_routes_t *routes, const bool *in,
                             ccl_explanation_t *e, ccl_error_t *err) {
    const ccl_sim_result_t *r = e->result;
    const ccl_path_segment_t *last = NULL; /* whose route was looked up */
    bool on = false;
    for (uint32_t i = 0; i < r->npath; i++) {
        const ccl_path_segment_t *s = &r->path[i];
        bool bytes = s->cause == CCL_PATH_LINK || s->cause == CCL_PATH_SHARING ||
                     s->cause == CCL_PATH_BLOCK_RATE || s->cause == CCL_PATH_REDUCE ||
                     s->cause == CCL_PATH_COPY;
        if (!bytes || s->peer == CCL_NONE)
            continue;
        if (!last || last->tb != s->tb || last->step != s->step) {
            const ccl_tb_t *tb = &p->tbs[s->tb];
            uint32_t channel = ccl_program_peers(p, tb, s->step).channel;
            const ccl_route_t *route;
            CCL_TRY(ccl_sim_flow_route(p, routes, tb->rank, s->peer, channel, &route, err));
            on = route && crosses(route, in);
            last = s;
        }
        e->cut.path_s += on ? s->end_s - s->start_s : 0;
    }
    return CCL_OK;
}

static ccl_status_t cut_use(const ccl_topology_t *topo, const ccl_program_t *p,
                            ccl_routes_t *routes, ccl_explanation_t *e, ccl_error_t *err) {
    const ccl_sim_result_t *r = e->result;
    const ccl_bandwidth_bound_t *bound = &e->bound.bandwidth;
    ccl_cut_use_t *cut = &e->cut;
    bool *in = ccl_arena_alloc(&e->arena, topo->nlinks + 1u, sizeof *in);
    cut->interval_busy = ccl_arena_alloc(&e->arena, e->intervals + 1u, sizeof *cut->interval_busy);
    cut->interval_on = ccl_arena_alloc(&e->arena, e->intervals + 1u, sizeof *cut->interval_on);
    if (!in || !cut->interval_busy || !cut->interval_on)
        return ccl_fail_nomem(err);
    interval_causes(e);
    cut->nlinks = bound->nlinks;
    for (uint32_t i = 0; i < bound->nlinks; i++) {
        uint32_t l = bound->links[i];
        in[l] = true;
        cut->carried_bytes += r->links[l].bytes;
        for (uint32_t k = 0; k < e->intervals; k++)
            cut->interval_busy[k] += r->link_bytes[(size_t)l * e->intervals + k];
    }
    if (!cut->nlinks || !(r->time_s > 0))
        return CCL_OK;
    cut->capacity_Bps = capacity_of(topo, in);
    cut->busy = cut->carried_bytes / (cut->capacity_Bps * r->time_s);
    if (bound->proof != CCL_BOUND_LENGTHS && bound->proof != CCL_BOUND_SERVERS &&
        bound->proof != CCL_BOUND_DOMAINS)
        cut->least_bytes = e->bound.bandwidth_s * cut->capacity_Bps;
    for (uint32_t k = 0; k < e->intervals; k++)
        cut->interval_busy[k] /= cut->capacity_Bps * r->time_s / e->intervals;
    bool *alike = ccl_arena_alloc(&e->arena, topo->nlinks + 1u, sizeof *alike);
    if (!alike)
        return ccl_fail_nomem(err);
    CCL_TRY(links_alike(topo, p->coll, in, alike, err));
    CCL_TRY(cut_path(p, routes, alike, e, err));
    return cut_blocks(p, routes, in, e, err);
}

/* ---------------------------------------------------------------- counterfactual runs */

typedef struct trial {
    const ccl_ctx_t *ctx;
    const ccl_topology_t *topo;
    const ccl_explain_options_t *options;
    ccl_i_change_t *changes; /* [n] */
    uint32_t n;
    ccl_explanation_t *e;  /* slow parts: the trials behind the changes */
    ccl_routes_t **routes; /* [threads] of the cluster as it is, made when first needed */
    ccl_runs_t *runs;      /* of the cluster as it is; NULL: it takes longer */
    atomic_uint_least64_t done;
} trial_t;

static ccl_status_t poll(trial_t *t, uint32_t worker) {
    ccl_progress_t progress = {"what if", atomic_load(&t->done), t->n + t->e->nslow, 0, 0};
    ccl_ctx_t quiet = t->ctx ? *t->ctx : (ccl_ctx_t)CCL_CTX_INIT;
    if (worker != 0) /* callbacks come from one thread only */
        quiet.progress = NULL;
    return ccl_ctx_poll(&quiet, &progress);
}

/* The cluster with edits; *out is `topo` itself when there are none. */
static ccl_status_t edited(const ccl_topology_t *topo, const char *const *edits, uint32_t n,
                           const ccl_topology_t **out, ccl_topology_t **own, ccl_error_t *err) {
    *out = topo;
    *own = NULL;
    for (uint32_t i = 0; i < n; i++) {
        ccl_topology_t *next = NULL;
        ccl_status_t status = ccl_topology_edit(*out, edits[i], &next, err);
        ccl_topology_destroy(*own);
        *own = NULL;
        CCL_TRY(status);
        *own = next;
        *out = next;
    }
    return CCL_OK;
}

static ccl_status_t lower_changed(const trial_t *t, const ccl_ctx_t *ctx,
                                  const ccl_topology_t *topo, ccl_routes_t *routes,
                                  const ccl_i_change_t *c, ccl_program_t **out, ccl_error_t *err) {
    const ccl_explain_options_t *o = t->options;
    const ccl_schedule_t *schedule = o->schedule;
    ccl_schedule_t *made = NULL;
    ccl_lower_options_t lower = o->lower;
    ccl_sim_options_t sim = o->sim;
    ccl_status_t status = CCL_OK;
    if (c->resynthesize) {
        ccl_synth_options_t synth = o->synth;
        synth.channels = c->channels ? c->channels : synth.channels;
        synth.chunks = c->chunks ? c->chunks : synth.chunks;
        synth.trace = NULL;
        synth.stats = NULL;
        synth.plain |= o->lower.executor != CCL_EXECUTOR_ANY;
        CCL_TRY(ccl_synthesize(ctx, c->with ? c->with : o->with, topo, routes, o->want, &synth,
                               &made, err));
        schedule = made;
    }
    lower.ordered = c->with ? false : lower.ordered; /* what it makes says so itself */
    lower.proto = c->proto ? c->proto : lower.proto;
    if (made && made->ngroups > 0 && !o->synth.no_switches) /* no protocol was asked for */
        lower.proto = ccl_protocol_name(CCL_PROTOCOL_SIMPLE);
    lower.no_fuse = c->no_fuse ? true : lower.no_fuse;
    sim.batches = c->batches ? c->batches : sim.batches;
    ccl_make_options_t make = ccl_i_make_options(c->way, &lower, &sim);
    make.wrong = CCL_CHECK;
    status = ccl_make_program(ctx, topo, routes, schedule, &make, out, err);
    ccl_schedule_destroy(made);
    return status;
}

static ccl_status_t run_changed(const trial_t *t, const ccl_topology_t *topo, ccl_routes_t *routes,
                                ccl_i_change_t *c, ccl_error_t *err) {
    ccl_ctx_t ctx = ccl_i_worker_ctx(t->ctx);
    ccl_sim_options_t sim = t->options->sim;
    ccl_program_t *own = NULL;
    ctx.runs = topo == t->topo ? t->runs : NULL;
    ccl_program_t as = *t->options->program; /* the same arrays, perhaps another protocol */
    const ccl_program_t *program = &as;
    ccl_sim_result_t *result = NULL;
    sim.granularity = c->way.granularity;
    sim.batches = c->batches ? c->batches : sim.batches;
    sim.path = false;
    sim.intervals = 0;
    sim.step_times = false;
    sim.cause = false;
    if (c->lower) {
        CCL_TRY(lower_changed(t, &ctx, topo, routes, c, &own, err));
        program = own;
    } else if (c->proto) {
        as.proto = c->proto;
    }
    ccl_status_t status = ccl_sim_program(&ctx, topo, routes, program, &sim, &result, err);
    if (status == CCL_OK)
        c->out.time_s = result->time_s;
    ccl_sim_result_destroy(result);
    ccl_program_destroy(own);
    return status;
}

/* The same program where a slow part is as fast as others, and the bound there. */
static ccl_status_t run_restored(const trial_t *t, ccl_slow_part_t *part, ccl_error_t *err) {
    ccl_ctx_t ctx = ccl_i_worker_ctx(t->ctx);
    ccl_i_change_t as_it_is = {.way = t->options->way};
    ccl_bound_options_t how = CCL_BOUND_OPTIONS_INIT;
    ccl_bound_t bound;
    const ccl_topology_t *topo;
    ccl_topology_t *own = NULL;
    ccl_routes_t *routes = NULL;
    as_it_is.way.granularity = t->options->sim.granularity;
    ccl_status_t status = edited(t->topo, part->edits, part->nedits, &topo, &own, err);
    if (status == CCL_OK && !(routes = ccl_routes_create(topo)))
        status = ccl_fail_nomem(err);
    if (status == CCL_OK)
        status = run_changed(t, topo, routes, &as_it_is, err);
    how.size_bytes = t->options->sim.size_bytes;
    how.proto = t->options->program->proto;
    how.any_switches = t->options->program->ngroups > 0;
    how.routes = routes;
    if (status == CCL_OK)
        status = ccl_bound(&ctx, topo, t->options->program->coll, &how, &bound, err);
    if (status == CCL_OK) {
        part->time_s = as_it_is.out.time_s;
        part->bound_s = bound.time_s;
        ccl_bound_fini(&bound);
    }
    ccl_routes_destroy(routes);
    ccl_topology_destroy(own);
    return status;
}

static ccl_status_t try_slow(trial_t *t, uint32_t index, uint32_t worker, ccl_error_t *err) {
    ccl_slow_part_t *part = &t->e->slow[index];
    ccl_error_t why = CCL_ERROR_INIT;
    if (poll(t, worker) != CCL_OK)
        return CCL_OK;
    part->status = run_restored(t, part, &why);
    if (part->status == CCL_INTERRUPTED)
        return CCL_OK;
    if (ccl_i_stops_all(part->status)) {
        if (err)
            *err = why;
        return part->status;
    }
    snprintf(part->why, sizeof part->why, "%.199s", why.text);
    atomic_fetch_add(&t->done, 1);
    return CCL_OK;
}

static ccl_status_t try_change(uint32_t index, uint32_t worker, void *user, ccl_error_t *err) {
    trial_t *t = user;
    if (index < t->e->nslow) /* these answer what is asked first */
        return try_slow(t, index, worker, err);
    ccl_i_change_t *c = &t->changes[index - t->e->nslow];
    const ccl_topology_t *topo;
    ccl_topology_t *own = NULL;
    ccl_routes_t *routes = NULL;
    ccl_error_t why = CCL_ERROR_INIT;
    c->out.status = CCL_INTERRUPTED;
    if (poll(t, worker) != CCL_OK)
        return CCL_OK;
    c->out.status = edited(t->topo, c->out.edits, c->out.nedits, &topo, &own, &why);
    if (c->out.status == CCL_OK) {
        if (own)
            routes = ccl_routes_create(own);
        else if (!t->routes[worker])
            t->routes[worker] = ccl_routes_create(t->topo);
        ccl_routes_t *use = own ? routes : t->routes[worker];
        c->out.status = use ? run_changed(t, topo, use, c, &why) : ccl_fail_nomem(&why);
    }
    ccl_routes_destroy(routes);
    ccl_topology_destroy(own);
    if (c->out.status == CCL_INTERRUPTED)
        return CCL_OK;
    if (ccl_i_stops_all(c->out.status)) {
        if (err)
            *err = why;
        return c->out.status;
    }
    snprintf(c->out.why, sizeof c->out.why, "%.199s", why.text);
    atomic_fetch_add(&t->done, 1);
    return CCL_OK;
}

static int by_time(const void *a, const void *b) {
    const ccl_i_change_t *x = a, *y = b;
    bool x_ran = x->out.status == CCL_OK, y_ran = y->out.status == CCL_OK;
    if (x_ran != y_ran)
        return x_ran ? -1 : 1;
    if (x_ran && x->out.time_s != y->out.time_s)
        return x->out.time_s < y->out.time_s ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

static ccl_status_t try_changes(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                                const ccl_explain_options_t *options, ccl_explanation_t *e,
                                ccl_error_t *err) {
    trial_t t = {.ctx = ctx, .topo = topo, .options = options, .e = e};
    uint32_t threads = ctx && ctx->threads ? ctx->threads : ccl_core_count();
    ccl_status_t status = ccl_i_changes(topo, options, e, &t.changes, &t.n, err);
    if (status == CCL_OK)
        status = ccl_i_slow_parts(topo, e, err);
    atomic_init(&t.done, 0);
    t.routes = calloc(threads, sizeof *t.routes);
    t.runs = ccl_runs_create(topo);
    if (status == CCL_OK && !t.routes)
        status = ccl_fail_nomem(err);
    if (status == CCL_OK)
        status = ccl_parallel_for(t.n + e->nslow, threads, try_change, &t, err);
    if (status == CCL_OK) {
        (void)poll(&t, 0); /* all is done */
        if (t.n > 0)
            qsort(t.changes, t.n, sizeof *t.changes, by_time);
        e->tried = ccl_arena_alloc(&e->arena, t.n + 1u, sizeof *e->tried);
        status = e->tried ? CCL_OK : ccl_fail_nomem(err);
    }
    for (uint32_t i = 0; status == CCL_OK && i < t.n; i++) {
        if (t.changes[i].out.status == CCL_INTERRUPTED)
            e->nuntried++;
        else
            e->tried[e->ntried++] = t.changes[i].out;
    }
    for (uint32_t i = 0; status == CCL_OK && i < e->nslow; i++)
        e->nuntried += e->slow[i].status == CCL_INTERRUPTED;
    if (status == CCL_OK)
        ccl_i_slow_decide(e);
    if (status == CCL_OK && e->nuntried)
        status = CCL_INTERRUPTED;
    for (uint32_t i = 0; t.routes && i < threads; i++)
        ccl_routes_destroy(t.routes[i]);
    ccl_runs_destroy(t.runs);
    free(t.routes);
    free(t.changes);
    return status;
}

/* ---------------------------------------------------------------- all of it */

static ccl_status_t explain(const ccl_ctx_t *ctx, const ccl_topology_t *topo, ccl_routes_t *routes,
                            const ccl_explain_options_t *options, ccl_explanation_t *e,
                            ccl_error_t *err) {
    ccl_sim_options_t sim = options->sim;
    ccl_bound_options_t bound = CCL_BOUND_OPTIONS_INIT;
    sim.path = true;
    sim.intervals = e->intervals;
    CCL_TRY(ccl_sim_program(ctx, topo, routes, options->program, &sim, &e->result, err));
    CCL_TRY(ccl_path_sum(topo, e->result, &e->sum, err));
    bound.size_bytes = sim.size_bytes;
    bound.proto = options->program->proto;
    bound.any_switches = options->program->ngroups > 0;
    bound.routes = routes;
    CCL_TRY(ccl_bound(ctx, topo, options->program->coll, &bound, &e->bound, err));
    CCL_TRY(ccl_nccl_baselines(ctx, options->machine, topo, options->program->coll, &sim.size_bytes,
                               1, &e->nccl, err));
    CCL_TRY(cut_use(topo, options->program, routes, e, err));
    return options->no_what_if ? CCL_OK : try_changes(ctx, topo, options, e, err);
}

ccl_status_t ccl_explain(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                         const ccl_explain_options_t *options, ccl_explanation_t **out,
                         ccl_error_t *err) {
    CCL_OPTIONS_TRY(ccl_explain_options_t, options, err);
    CCL_OPTIONS_TRY(ccl_synth_options_t, &options->synth, err);
    CCL_OPTIONS_TRY(ccl_lower_options_t, &options->lower, err);
    CCL_OPTIONS_TRY(ccl_sim_options_t, &options->sim, err);
    ccl_explanation_t *e = calloc(1, sizeof *e);
    ccl_routes_t *routes = ccl_routes_create(topo);
    ccl_status_t status = CCL_OK;
    if (!e || !routes) {
        status = ccl_fail_nomem(err);
        goto done;
    }
    e->intervals = options->intervals ? options->intervals : 20;
    status = explain(ctx, topo, routes, options, e, err);
    if (status != CCL_OK && e->nuntried == 0)
        goto done;
    *out = e;
    e = NULL;
done:
    ccl_routes_destroy(routes);
    ccl_explanation_destroy(e);
    return status;
}

void ccl_explanation_destroy(ccl_explanation_t *e) {
    if (!e)
        return;
    ccl_sim_result_destroy(e->result);
    ccl_path_sum_fini(&e->sum);
    ccl_bound_fini(&e->bound);
    ccl_arena_fini(&e->arena);
    free(e);
}
