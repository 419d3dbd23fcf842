/**
 * @file conns.c
 * From a program's wiring to the units and connections of a run, and the transports that they use.
 */
#include "sim/program.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Index of the transport of that name; CCL_NONE: too many. */
static uint32_t kind_get(ccl_i_kinds_t *k, const char *name) {
    uint32_t i = 0;
    while (i < k->fifos.n && k->fifos.kind[i].name != name &&
           strcmp(k->fifos.kind[i].name, name) != 0)
        i++;
    if (i == CCL_ARRAY_LEN(k->fifos.kind))
        return CCL_NONE;
    if (i == k->fifos.n) {
        ccl_transport_t *t = &k->fifos.kind[i].transport;
        k->fifos.n++;
        k->fifos.kind[i].name = name;
        *t = ccl_model_transport(k->topo, name, k->proto);
        k->fifos.slice_bytes = fmin(k->fifos.slice_bytes, t->slice_bytes);
        k->piece_bytes = fmin(k->piece_bytes, t->piece_bytes);
        k->fifos.slots = t->slots < k->fifos.slots ? t->slots : k->fifos.slots;
        k->fifos.slices = t->slices > k->fifos.slices ? t->slices : k->fifos.slices;
    }
    return i;
}

ccl_i_kinds_t ccl_i_kinds_init(const ccl_topology_t *topo, const ccl_program_t *program) {
    return (ccl_i_kinds_t){.topo = topo,
                           .proto = program->proto,
                           .piece_bytes = INFINITY,
                           .fifos = {.slice_bytes = INFINITY, .slots = UINT32_MAX, .slices = 1}};
}

static double largest_element(const ccl_program_t *program) {
    if (!program->shares)
        return 1.0 / program->nchunks;
    double most = 0;
    for (uint32_t i = 0; i < 3 * program->nranks; i++)
        for (uint32_t k = 0; k < program->buffer_len[i]; k++)
            most = fmax(most, program->shares[i][k]);
    return most;
}

ccl_status_t ccl_i_kinds_batches(const ccl_i_kinds_t *k, const ccl_program_t *program,
                                 double size_bytes, uint32_t *out, ccl_error_t *err) {
    double most = fmin(0.5 * k->fifos.slots * k->fifos.slice_bytes, k->piece_bytes);
    if (program->piece_bytes > 0)
        most = fmin(most, program->piece_bytes);
    double n = most < INFINITY ? ccl_model_ceil(size_bytes * largest_element(program) / most) : 1;
    if (n > 1e9)
        return ccl_fail(err, CCL_ERR_INPUT,
                        "%.17g bytes need %.3g micro-batches; give --batches or a larger slice",
                        size_bytes, n);
    *out = n < 1 ? 1 : (uint32_t)n;
    return CCL_OK;
}

static ccl_status_t tree_get(const ccl_program_t *program, const ccl_wiring_switch_t *s,
                             ccl_routes_t *routes, const ccl_tree_t **out, ccl_error_t *err) {
    const ccl_peer_group_t *group = &program->groups[s->group];
    return ccl_routes_tree(routes, s->reduces, s->single, group->ranks, group->n, s->channel, out,
                           err);
}

ccl_status_t ccl_sim_flow_route(const ccl_program_t *program, ccl_routes_t *routes, uint32_t src,
                                uint32_t dst, uint32_t channel, const ccl_route_t **out,
                                ccl_error_t *err) {
    bool pulls = ccl_peer_is_group(src);
    const ccl_peer_group_t *group = ccl_program_group(program, pulls ? src : dst);
    const ccl_tree_t *tree;
    *out = NULL;
    if (ccl_peer_is_member(src) || ccl_peer_is_member(dst))
        return CCL_OK;
    if (!group)
        return ccl_routes_get(routes, src, dst, channel, out, err);
    CCL_TRY(ccl_routes_tree(routes, pulls, pulls ? dst : src, group->ranks, group->n, channel,
                            &tree, err));
    *out = &tree->route;
    return CCL_OK;
}

ccl_status_t ccl_sim_default_batches(const ccl_topology_t *topo, ccl_routes_t *routes,
                                     const ccl_program_t *program, double size_bytes, uint32_t *out,
                                     ccl_error_t *err) {
    ccl_i_kinds_t kinds = ccl_i_kinds_init(topo, program);
    ccl_wiring_t w;
    CCL_TRY(ccl_wiring_init(program, CCL_GRANULARITY_ALGORITHM, &w, err));
    ccl_status_t status = CCL_OK;
    for (uint32_t i = 0; status == CCL_OK && i < w.nconns; i++) {
        const ccl_wiring_conn_t *c = &w.conns[i];
        const ccl_route_t *route;
        if (c->kind != CCL_WIRING_PLAIN)
            continue;
        status = ccl_routes_get(routes, c->src, c->dst, c->channel, &route, err);
        if (status == CCL_OK)
            kind_get(&kinds, ccl_model_route_kind(topo, route));
    }
    for (uint32_t i = 0; status == CCL_OK && i < w.nswitches; i++) {
        const ccl_tree_t *tree;
        status = tree_get(program, &w.switches[i], routes, &tree, err);
        if (status == CCL_OK)
            kind_get(&kinds, ccl_model_tree_kind(topo, &tree->route));
    }
    ccl_wiring_fini(&w);
    if (status != CCL_OK)
        return status;
    return ccl_i_kinds_batches(&kinds, program, size_bytes, out, err);
}

/* ---------------------------------------------------------------- units and connections */

static bool make_units(ccl_i_run_t *run, ccl_wiring_t *w) {
    run->units = malloc((w->nunits + (size_t)1) * sizeof(*run->units));
    if (!run->units)
        return false;
    for (uint32_t i = 0; i < w->nunits; i++) {
        const ccl_wiring_unit_t *u = &w->units[i];
        run->units[i] = (ccl_i_unit_t){.tb = u->tb,
                                       .first = u->first,
                                       .nsteps = u->nsteps,
                                       .send = u->send,
                                       .recv = u->recv,
                                       .stage_dep = u->previous,
                                       .next_waiter = CCL_NONE};
    }
    run->nunits = run->nleft = w->nunits;
    run->rank_units = w->rank_units;
    run->step_conns = w->step_conns;
    w->rank_units = w->step_conns = NULL; /* the run's from now on */
    if (run->granularity != CCL_GRANULARITY_STAGE)
        return true; /* a unit is a block, whose steps are side by side */
    run->order = w->order;
    w->order = NULL;
    return true;
}

/* A connection without its route; of a unit that has no other the transport's number is kept. */
static ccl_status_t conn_init(ccl_i_kinds_t *kinds, const char *kind, uint32_t sender,
                              uint32_t receiver, ccl_i_conn_t *out, ccl_error_t *err) {
    uint32_t k = kind_get(kinds, kind);
    if (k == CCL_NONE)
        return ccl_fail(err, CCL_UNSUPPORTED, "more than %u kinds of connection in one program",
                        (unsigned)CCL_ARRAY_LEN(kinds->fifos.kind));
    const ccl_transport_t *transport = &kinds->fifos.kind[k].transport;
    *out = (ccl_i_conn_t){.sender = sender,
                          .receiver = receiver,
                          .slots = transport->slots,
                          .holds = transport->holds_tb,
                          .delay_s = transport->latency_s,
                          .kind = (uint8_t)k,
                          .trunk = CCL_NONE};
    if (sender != CCL_NONE)
        kinds->ends[sender].send = (uint8_t)k;
    if (receiver != CCL_NONE)
        kinds->ends[receiver].recv = (uint8_t)k;
    return CCL_OK;
}

/* Route, transport and delay of every plain connection; room for those of switches. */
static ccl_status_t make_conns(ccl_i_run_t *run, const ccl_wiring_t *w, ccl_i_kinds_t *kinds,
                               ccl_routes_t *routes, ccl_error_t *err) {
    run->conns = malloc((w->nconns + (size_t)w->nswitches + 1) * sizeof(*run->conns));
    kinds->ends = malloc((w->nunits + (size_t)1) * sizeof(*kinds->ends));
    if (!run->conns || !kinds->ends)
        return ccl_fail_nomem(err);
    for (; run->nconns < w->nconns; run->nconns++) {
        const ccl_wiring_conn_t *c = &w->conns[run->nconns];
        ccl_i_conn_t *conn = &run->conns[run->nconns];
        const ccl_route_t *route;
        if (c->kind != CCL_WIRING_PLAIN) { /* make_trunk() */
            *conn = (ccl_i_conn_t){.trunk = CCL_NONE};
            continue;
        }
        CCL_TRY(ccl_routes_get(routes, c->src, c->dst, c->channel, &route, err));
        CCL_TRY(conn_init(kinds, ccl_model_route_kind(run->topo, route), c->sender, c->receiver,
                          conn, err));
        conn->route = route;
        conn->delay_s += run->variation
                             ? ccl_i_way_latency_s(run->topo, route->links, route->nlinks)
                             : route->latency_s;
    }
    return CCL_OK;
}

/* ---------------------------------------------------------------- switch connections */

/* A trunk and its members' FIFOs. Of these only the ends at members are units' own: the single
   GPU's block is at the trunk. */
static ccl_status_t make_trunk(ccl_i_run_t *run, const ccl_wiring_t *w, uint32_t index,
                               ccl_i_kinds_t *kinds, ccl_routes_t *routes, ccl_error_t *err) {
    const ccl_wiring_switch_t *s = &w->switches[index];
    ccl_i_trunk_t *t = &run->trunks[index];
    ccl_i_conn_t *trunk = &run->conns[run->nconns];
    *t = (ccl_i_trunk_t){.conn = run->nconns,
                         .first = s->first,
                         .n = run->program->groups[s->group].n,
                         .least = run->program->groups[s->group].n,
                         .reduces = s->reduces,
                         .even = true};
    CCL_TRY(tree_get(run->program, s, routes, &t->tree, err));
    const char *kind = ccl_model_tree_kind(run->topo, &t->tree->route);
    CCL_TRY(conn_init(kinds, kind, s->reduces ? CCL_NONE : s->unit, s->reduces ? s->unit : CCL_NONE,
                      trunk, err));
    double latency_s = trunk->delay_s;
    trunk->route = &t->tree->route;
    trunk->trunk = index;
    trunk->delay_s += t->tree->route.latency_s;
    trunk->holds |= s->reduces;
    for (uint32_t i = 0; i < t->n; i++) {
        const ccl_wiring_conn_t *c = &w->conns[w->members[s->first + i]];
        ccl_i_conn_t *conn = &run->conns[w->members[s->first + i]];
        CCL_TRY(conn_init(kinds, kind, s->reduces ? c->sender : CCL_NONE,
                          s->reduces ? CCL_NONE : c->receiver, conn, err));
        conn->route = trunk->route;
        conn->trunk = index;
        conn->delay_s = t->tree->latency_s[i] + latency_s;
        conn->holds = false; /* offers: nothing flows */
        t->even = t->even && conn->delay_s == trunk->delay_s;
    }
    run->nconns++;
    return CCL_OK;
}

/* Delays with the run's links: of a trunk the farthest member's. */
static ccl_status_t vary_trunk(ccl_i_run_t *run, const ccl_wiring_switch_t *s, ccl_i_trunk_t *t,
                               ccl_error_t *err) {
    const ccl_peer_group_t *group = &run->program->groups[s->group];
    ccl_i_conn_t *trunk = &run->conns[t->conn];
    double transport_s = trunk->delay_s - t->tree->route.latency_s;
    uint32_t *way = malloc((t->tree->route.nlinks + (size_t)1) * sizeof(*way));
    if (!way)
        return ccl_fail_nomem(err);
    trunk->delay_s = 0;
    for (uint32_t i = 0; i < t->n; i++) {
        uint32_t n = ccl_i_member_way(run->topo, t, group->ranks[i], way);
        double delay_s = ccl_i_way_latency_s(run->topo, way, n) + transport_s;
        run->conns[run->members[t->first + i]].delay_s = delay_s;
        trunk->delay_s = fmax(trunk->delay_s, delay_s);
    }
    for (uint32_t i = 0; i < t->n; i++)
        t->even &= run->conns[run->members[t->first + i]].delay_s == trunk->delay_s;
    free(way);
    return CCL_OK;
}

/* The single GPU of a switch connection and its members together, ascending. */
typedef struct set {
    const uint32_t *ranks;
    uint32_t n;
} set_t;

static uint32_t *put_set(const ccl_program_t *program, const ccl_wiring_switch_t *s, uint32_t *at,
                         set_t *out) {
    const ccl_peer_group_t *group = &program->groups[s->group];
    bool put = ccl_peer_group_has(group, s->single);
    *out = (set_t){at, 0};
    for (uint32_t i = 0; i < group->n; i++) {
        if (!put && group->ranks[i] > s->single) {
            at[out->n++] = s->single;
            put = true;
        }
        at[out->n++] = group->ranks[i];
    }
    if (!put)
        at[out->n++] = s->single;
    return at + out->n;
}

static int by_set(const void *a, const void *b) {
    const set_t *x = a, *y = b;
    if (x->n != y->n)
        return x->n < y->n ? -1 : 1;
    for (uint32_t i = 0; i < x->n; i++)
        if (x->ranks[i] != y->ranks[i])
            return x->ranks[i] < y->ranks[i] ? -1 : 1;
    return 0;
}

static bool works_at(const ccl_tree_t *tree, bool reduces, uint32_t device) {
    uint32_t n = reduces ? tree->nreducers : tree->ncopiers;
    for (uint32_t i = 0; i < n; i++)
        if ((reduces ? tree->reducers : tree->copiers)[i] == device)
            return true;
    return false;
}

static ccl_status_t check_device(const ccl_topology_t *topo, uint32_t device, const set_t *sets,
                                 uint32_t n, ccl_error_t *err) {
    uint32_t different = 0;
    for (uint32_t i = 0; i < n; i++)
        different += i == 0 || by_set(&sets[i - 1], &sets[i]) != 0;
    if (different <= topo->devices[device].groups)
        return CCL_OK;
    return ccl_fail(err, CCL_UNSUPPORTED,
                    "switch \"%s\" holds %u group%s, the program's switch connections need %u",
                    topo->devices[device].id, topo->devices[device].groups,
                    topo->devices[device].groups == 1 ? "" : "s", different);
}

static ccl_status_t check_groups(const ccl_topology_t *topo, const ccl_program_t *program,
                                 const ccl_wiring_t *w, const ccl_i_trunk_t *trunks,
                                 ccl_error_t *err) {
    uint32_t *ranks = malloc((w->nmembers + w->nswitches + (size_t)1) * sizeof(*ranks)),
             *at = ranks;
    set_t *sets = malloc((w->nswitches + (size_t)1) * sizeof(*sets));
    set_t *some = malloc((w->nswitches + (size_t)1) * sizeof(*some));
    ccl_status_t status = ranks && sets && some ? CCL_OK : ccl_fail_nomem(err);
    for (uint32_t i = 0; status == CCL_OK && i < w->nswitches; i++)
        at = put_set(program, &w->switches[i], at, &sets[i]);
    for (uint32_t d = 0; status == CCL_OK && d < topo->ndevices; d++) {
        uint32_t n = 0;
        for (uint32_t i = 0; topo->devices[d].groups > 0 && i < w->nswitches; i++)
            if (works_at(trunks[i].tree, trunks[i].reduces, d))
                some[n++] = sets[i];
        qsort(some, n, sizeof(*some), by_set);
        if (n > 0)
            status = check_device(topo, d, some, n, err);
    }
    free(ranks);
    free(sets);
    free(some);
    return status;
}

static uint32_t trunk_of(const ccl_wiring_t *w, uint32_t conn) {
    return ccl_wiring_is_switch(conn) ? w->nconns + (conn & ~CCL_WIRING_SWITCH) : conn;
}

static ccl_status_t make_trunks(ccl_i_run_t *run, ccl_wiring_t *w, ccl_i_kinds_t *kinds,
                                ccl_routes_t *routes, ccl_error_t *err) {
    if (w->nswitches == 0)
        return CCL_OK;
    run->trunks = malloc(w->nswitches * sizeof(*run->trunks));
    if (!run->trunks)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < w->nswitches; i++)
        CCL_TRY(make_trunk(run, w, i, kinds, routes, err));
    run->ntrunks = w->nswitches;
    run->members = w->members;
    w->members = NULL; /* the run's from now on */
    for (uint32_t i = 0; run->variation && i < w->nswitches; i++)
        CCL_TRY(vary_trunk(run, &w->switches[i], &run->trunks[i], err));
    for (uint32_t i = 0; i < run->nunits; i++) {
        run->units[i].send = trunk_of(w, run->units[i].send);
        run->units[i].recv = trunk_of(w, run->units[i].recv);
    }
    for (size_t i = 0; run->step_conns && i < 2 * (size_t)run->program->nsteps; i++)
        run->step_conns[i] = trunk_of(w, run->step_conns[i]);
    return check_groups(run->topo, run->program, w, run->trunks, err);
}

ccl_status_t ccl_i_run_wiring(ccl_i_run_t *run, ccl_i_kinds_t *kinds, ccl_routes_t *routes,
                              ccl_error_t *err) {
    ccl_wiring_t w;
    CCL_TRY(ccl_wiring_init(run->program, run->granularity, &w, err));
    ccl_status_t status =
        make_units(run, &w) ? make_conns(run, &w, kinds, routes, err) : ccl_fail_nomem(err);
    if (status == CCL_OK)
        status = make_trunks(run, &w, kinds, routes, err);
    for (uint32_t i = 0; status == CCL_OK && run->step_conns && i < run->nunits; i++)
        ccl_i_unit_conns(run, &run->units[i]);
    ccl_wiring_fini(&w);
    return status;
}
