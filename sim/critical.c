/**
 * @file critical.c
 * The critical path of a run, from its last primitive back to time 0, and its sums.
 */
#include "sim/critical.h"

#include <math.h>

/* Parts of a flow's time below this share of it are rounding. */
#define SLACK 1e-9

const char *ccl_path_cause_name(ccl_path_cause_t cause) {
    static const char *const names[CCL_PATH_CAUSES] = {
        "link",    "sharing",   "block_rate", "reduce",     "copy",  "overhead",
        "latency", "transport", "flag",       "links_held", "launch"};
    return (unsigned)cause < CCL_PATH_CAUSES ? names[cause] : "?";
}

const char *ccl_path_wait_name(ccl_path_wait_t wait) {
    static const char *const names[CCL_PATH_WAITS] = {"end",        "data",  "slot",
                                                      "dependency", "block", "connection"};
    return (unsigned)wait < CCL_PATH_WAITS ? names[wait] : "?";
}

/* The walk back: what lies after `time_s` is attributed. */
typedef struct walk {
    const ccl_i_run_t *run;
    const ccl_i_record_t *record;
    uint32_t *step_unit; /* [nsteps] */
    uint32_t *group_first, *group_list;
    double time_s;
    uint32_t node, unit; /* the unit whose work the node stands for */
    uint8_t wait;
    uint32_t for_tb, for_step;
    ccl_path_segment_t *segments; /* the last first */
    size_t n, cap;
    uint32_t *way; /* [links] scratch */
    bool nomem;
} walk_t;

static uint32_t step_at(const ccl_i_run_t *run, uint32_t unit, uint32_t at) {
    return ccl_i_step_at(run, run->units[unit].first + at);
}

static const ccl_i_node_t *node_of(const walk_t *w) {
    return &w->record->nodes[w->node];
}

static uint32_t step_of(const walk_t *w) {
    return step_at(w->run, w->unit, node_of(w)->at);
}

/* Connection that the walk's step sends or receives on. */
static const ccl_i_conn_t *conn_of(const walk_t *w, bool send) {
    const ccl_i_run_t *run = w->run;
    const ccl_i_unit_t *u = &run->units[w->unit];
    uint32_t c = run->step_conns ? run->step_conns[2 * (size_t)step_of(w) + (send ? 0 : 1)]
                 : send          ? u->send
                                 : u->recv;
    return &run->conns[c];
}

static uint32_t kind_index(const ccl_topology_t *topo, const char *name) {
    for (uint32_t k = 0; k < topo->nkinds; k++)
        if (strcmp(topo->kinds[k], name) == 0)
            return k;
    return CCL_NONE;
}

static uint32_t kind_of(const walk_t *w, const ccl_i_conn_t *conn) {
    return kind_index(w->run->topo, ccl_model_route_kind(w->run->topo, conn->route));
}

/* The time from lo_s to where the walk is has this cause. */
static void cut(walk_t *w, double lo_s, ccl_path_cause_t cause, uint32_t resource, uint32_t kind) {
    if (!(lo_s < w->time_s))
        return;
    if (!ccl_i_grow(&w->segments, &w->cap, w->n + 1, sizeof(*w->segments))) {
        w->nomem = true;
        return;
    }
    const ccl_i_node_t *node = node_of(w);
    uint32_t step = step_of(w), tb = w->run->units[w->unit].tb;
    uint32_t peer = CCL_NONE;
    if (w->run->work[step].sends)
        peer = ccl_program_peers(w->run->program, &w->run->program->tbs[tb], step).send_peer;
    w->segments[w->n++] = (ccl_path_segment_t){.start_s = lo_s,
                                               .end_s = w->time_s,
                                               .cause = (uint8_t)cause,
                                               .wait = w->wait,
                                               .tb = tb,
                                               .step = step,
                                               .batch = node->batch,
                                               .slice = node->slice,
                                               .for_tb = w->for_tb,
                                               .for_step = w->for_step,
                                               .peer = peer,
                                               .resource = resource,
                                               .kind = kind};
    w->time_s = lo_s;
}

/* ---------------------------------------------------------------- one flow */

static double resource_Bps(const walk_t *w, uint32_t res) {
    const ccl_topology_t *topo = w->run->topo;
    return res < topo->nlinks ? topo->links[res].bandwidth_Bps
                              : topo->groups[res - topo->nlinks].bandwidth_Bps;
}

/* How often a flow on the route counts on a resource. */
static uint32_t weight_on(const walk_t *w, const ccl_route_t *route, uint32_t res) {
    uint32_t weight = 0;
    for (uint32_t i = 0; i < route->nlinks; i++) {
        uint32_t l = route->links[i];
        weight += l == res;
        for (uint32_t g = w->group_first ? w->group_first[l] : 0;
             w->group_first && g < w->group_first[l + 1]; g++)
            weight += w->group_list[g] + w->run->topo->nlinks == res;
    }
    return weight;
}

/* The rate of a flow that has its route for itself, and what limits it: of links that are as narrow
   the NIC's, which is what people name. */
static double alone_Bps(const walk_t *w, const ccl_route_t *route, uint32_t *narrowest) {
    double least = INFINITY;
    *narrowest = CCL_NONE;
    for (uint32_t i = 0; i < route->nlinks; i++) {
        uint32_t l = route->links[i];
        double rate = resource_Bps(w, l);
        bool net = strcmp(w->run->topo->kinds[w->run->topo->links[l].kind], "net") == 0;
        if (rate < least || (rate == least && net)) {
            least = rate;
            *narrowest = l;
        }
        for (uint32_t g = w->group_first ? w->group_first[l] : 0;
             w->group_first && g < w->group_first[l + 1]; g++) {
            uint32_t res = w->group_list[g] + w->run->topo->nlinks;
            rate = resource_Bps(w, res) / weight_on(w, route, res);
            if (rate < least) {
                least = rate;
                *narrowest = res;
            }
        }
    }
    return least;
}

/* What limited the flow of a block that is alike stands for a like one on this block's route. */
static uint32_t lift(const walk_t *w, const ccl_route_t *route, uint32_t res) {
    const ccl_topology_t *topo = w->run->topo;
    if (res == CCL_NONE || !w->record->unit_of || weight_on(w, route, res) > 0)
        return res;
    for (uint32_t i = 0; i < route->nlinks; i++) {
        uint32_t l = route->links[i];
        if (res < topo->nlinks && topo->links[l].kind == topo->links[res].kind &&
            topo->links[l].bandwidth_Bps == topo->links[res].bandwidth_Bps)
            return l;
        for (uint32_t g = w->group_first ? w->group_first[l] : 0;
             res >= topo->nlinks && w->group_first && g < w->group_first[l + 1]; g++)
            if (topo->groups[w->group_list[g]].bandwidth_Bps == resource_Bps(w, res))
                return w->group_list[g] + topo->nlinks;
    }
    return CCL_NONE;
}

static uint32_t resource_kind(const walk_t *w, const ccl_route_t *route, uint32_t res) {
    const ccl_topology_t *topo = w->run->topo;
    if (res < topo->nlinks)
        return topo->links[res].kind;
    for (uint32_t i = 0; res != CCL_NONE && i < route->nlinks; i++)
        for (uint32_t g = w->group_first[route->links[i]]; g < w->group_first[route->links[i] + 1];
             g++)
            if (w->group_list[g] + topo->nlinks == res)
                return topo->links[route->links[i]].kind;
    return CCL_NONE;
}

/* What limits the rate of a pass. */
static ccl_path_cause_t pass_cause(const walk_t *w) {
    const ccl_step_t *s = &w->run->program->steps[step_of(w)];
    const ccl_gpu_model_t gpu =
        ccl_model_gpu(w->run->topo, w->run->program->tbs[w->run->units[w->unit].tb].rank);
    double rate_Bps = w->run->work[step_of(w)].rate_Bps;
    if (ccl_primitive_reduces((ccl_primitive_t)s->type) && gpu.reduce_rate_Bps <= rate_Bps)
        return CCL_PATH_REDUCE;
    if (s->type == CCL_PRIM_CPY && gpu.copy_rate_Bps <= rate_Bps)
        return CCL_PATH_COPY;
    return CCL_PATH_BLOCK_RATE;
}

/* The kind of the transport that a pass moves its bytes through. */
static uint32_t pass_kind(const walk_t *w) {
    const ccl_i_work_t *work = &w->run->work[step_of(w)];
    return work->sends      ? kind_of(w, conn_of(w, true))
           : work->receives ? kind_of(w, conn_of(w, false))
                            : CCL_NONE;
}

/* Least rate at which the switches of a pull's tree reduce. */
static double reduce_Bps(const walk_t *w, const ccl_i_conn_t *conn) {
    const ccl_i_trunk_t *t = conn->trunk != CCL_NONE ? &w->run->trunks[conn->trunk] : NULL;
    double rate_Bps = INFINITY;
    for (uint32_t i = 0; t && i < t->tree->nreducers; i++)
        rate_Bps = fmin(rate_Bps, w->run->topo->devices[t->tree->reducers[i]].reduce_rate_Bps);
    return rate_Bps;
}

/* A flow on a connection; of a pull its own node. */
static void cut_drain(walk_t *w, const ccl_i_conn_t *conn, const ccl_i_node_t *node) {
    const ccl_i_work_t *work = &w->run->work[step_of(w)];
    uint32_t narrowest;
    double took_s = w->time_s - node->flow_s, flow_bytes = ccl_i_work_bytes(w->run, conn, work);
    double link_s = flow_bytes / alone_Bps(w, conn->route, &narrowest);
    double reduced_s = fmax(link_s, flow_bytes / reduce_Bps(w, conn));
    double capped_s = conn->holds ? fmax(reduced_s, work->bytes / work->rate_Bps) : reduced_s;
    if (took_s - capped_s > SLACK * took_s) {
        uint32_t res = lift(w, conn->route, node->res);
        res = res == CCL_NONE ? narrowest : res;
        cut(w, node->flow_s + capped_s, CCL_PATH_SHARING, res, resource_kind(w, conn->route, res));
    }
    if (capped_s - reduced_s > SLACK * capped_s)
        cut(w, node->flow_s + reduced_s, pass_cause(w), CCL_NONE, kind_of(w, conn));
    if (reduced_s - link_s > SLACK * reduced_s)
        cut(w, node->flow_s + link_s, CCL_PATH_REDUCE, CCL_NONE, kind_of(w, conn));
    cut(w, node->flow_s, CCL_PATH_LINK, narrowest, resource_kind(w, conn->route, narrowest));
}

/* Appends a member's own part of its way in a tree, from the member on. */
static uint32_t member_part(const ccl_topology_t *topo, const ccl_i_trunk_t *t, uint32_t rank,
                            const uint32_t *part, uint32_t npart, uint32_t *links) {
    uint32_t n = 0, at = topo->rank_device[rank];
    for (uint32_t i = 0; i < npart && at != t->tree->root; i++) {
        const ccl_link_t *link = &topo->links[part[i]];
        if ((t->reduces ? link->from : link->to) != at)
            continue;
        links[n++] = part[i];
        at = t->reduces ? link->to : link->from;
        i = UINT32_MAX; /* the next may stand before it */
    }
    return n;
}

/* A member's way in its tree, links in their order: the single GPU's way is the first of a
   multicast, the last of a reduction. */
uint32_t ccl_i_member_way(const ccl_topology_t *topo, const ccl_i_trunk_t *t, uint32_t rank,
                          uint32_t *links) {
    const ccl_route_t *route = &t->tree->route;
    uint32_t single = 0, all = route->nlinks, n;
    if (t->reduces) {
        while (topo->links[route->links[all - ++single]].from != t->tree->root)
            ;
        n = member_part(topo, t, rank, route->links, all - single, links);
        memcpy(links + n, route->links + all - single, single * sizeof(*links));
        return n + single;
    }
    while (topo->links[route->links[single++]].to != t->tree->root)
        ;
    memcpy(links, route->links, single * sizeof(*links));
    n = member_part(topo, t, rank, route->links + single, all - single, links + single);
    for (uint32_t i = 0; i < n / 2; i++) { /* it was walked backwards */
        uint32_t swap = links[single + i];
        links[single + i] = links[single + n - 1 - i];
        links[single + n - 1 - i] = swap;
    }
    return single + n;
}

/* Links whose latencies a connection's delay has; of a trunk those of the farthest member. */
static uint32_t way_of(walk_t *w, const ccl_i_conn_t *conn, const uint32_t **out) {
    const ccl_i_run_t *run = w->run;
    *out = conn->route->links;
    if (conn->trunk == CCL_NONE)
        return conn->route->nlinks;
    const ccl_i_trunk_t *t = &run->trunks[conn->trunk];
    uint32_t i = 0;
    bool trunk = conn == &run->conns[t->conn];
    while (i + 1 < t->n && (trunk ? run->conns[run->members[t->first + i]].delay_s < conn->delay_s
                                  : conn != &run->conns[run->members[t->first + i]]))
        i++;
    const ccl_i_conn_t *member = &run->conns[run->members[t->first + i]];
    uint32_t unit = t->reduces ? member->sender : member->receiver;
    *out = w->way;
    return ccl_i_member_way(run->topo, t, run->program->tbs[run->units[unit].tb].rank, w->way);
}

/* The delay of a connection, which ended where the walk is. */
static void cut_delay(walk_t *w, const ccl_i_conn_t *conn, double lo_s) {
    const ccl_topology_t *topo = w->run->topo;
    const uint32_t *way;
    uint32_t n = way_of(w, conn, &way), left = 0;
    double transport_s = conn->delay_s;
    bool drawn = conn->trunk == CCL_NONE && !w->run->variation; /* the sum as the route has it */
    if (drawn)
        transport_s -= conn->route->latency_s;
    for (uint32_t i = 0; i < n; i++) {
        left += topo->links[way[i]].latency_s > 0;
        transport_s -= drawn ? 0 : topo->links[way[i]].latency_s;
    }
    bool transport = transport_s > SLACK * conn->delay_s;
    if (transport || left == 0)
        cut(w, left ? fmax(lo_s, w->time_s - transport_s) : lo_s, CCL_PATH_TRANSPORT, CCL_NONE,
            kind_of(w, conn));
    for (uint32_t i = n; i-- > 0;) {
        uint32_t l = way[i];
        double latency_s = topo->links[l].latency_s;
        if (latency_s > 0)
            cut(w, --left ? fmax(lo_s, w->time_s - latency_s) : lo_s, CCL_PATH_LATENCY, l,
                topo->links[l].kind);
    }
}

/* ---------------------------------------------------------------- from node to node */

/* What comes before on the path is what the node in hand waited for, in this way. */
static void waits(walk_t *w, ccl_path_wait_t wait) {
    w->wait = (uint8_t)wait;
    w->for_tb = w->run->units[w->unit].tb;
    w->for_step = step_of(w);
}

/* The real step that a node waited for: of the two that it may, the one that stands for `pred`. */
static uint32_t awaited_step(const walk_t *w, uint32_t pred) {
    const ccl_i_run_t *run = w->run;
    const ccl_i_node_t *p = &w->record->nodes[pred];
    const uint32_t some[] = {run->work[step_of(w)].dep,
                             node_of(w)->at == 0 ? run->units[w->unit].stage_dep : CCL_NONE};
    for (size_t i = 0; i < CCL_ARRAY_LEN(some); i++) {
        if (some[i] == CCL_NONE)
            continue;
        uint32_t unit = w->step_unit[some[i]];
        if ((w->record->unit_of ? w->record->unit_of[unit] : unit) == p->unit &&
            step_at(run, unit, p->at) == some[i])
            return some[i];
    }
    return CCL_NONE;
}

/* Who sent the slice, or freed the slot, that `pred` stands for, and on which connection: of a
   trunk on that of a member, of a member the block at the trunk. */
static const ccl_i_conn_t *other_end(const walk_t *w, const ccl_i_conn_t *conn, bool slot,
                                     uint32_t pred, uint32_t *unit) {
    const ccl_i_run_t *run = w->run;
    *unit = slot ? conn->receiver : conn->sender;
    if (conn->trunk == CCL_NONE)
        return conn;
    const ccl_i_trunk_t *t = &run->trunks[conn->trunk];
    const ccl_i_conn_t *trunk = &run->conns[t->conn];
    if (conn != trunk) {
        *unit = slot ? trunk->receiver : trunk->sender;
        return conn;
    }
    for (uint32_t i = 0; i < t->n; i++) {
        const ccl_i_conn_t *member = &run->conns[run->members[t->first + i]];
        *unit = slot ? member->receiver : member->sender;
        uint32_t as = w->record->unit_of && *unit != CCL_NONE ? w->record->unit_of[*unit] : *unit;
        if (as == w->record->nodes[pred].unit)
            return member;
    }
    return conn;
}

/* To what the node's start waited for; false: nothing, it could start when blocks do. */
static bool back(walk_t *w) {
    const ccl_i_node_t *node = node_of(w);
    uint32_t pred = node->pred, unit = w->unit;
    waits(w, (ccl_path_wait_t)node->wait);
    if (pred == CCL_NONE) {
        cut(w, 0, CCL_PATH_LAUNCH, CCL_NONE, CCL_NONE);
        return false;
    }
    const ccl_i_conn_t *conn = NULL;
    double end_s = w->record->nodes[pred].end_s;
    if (node->wait == CCL_PATH_DATA || node->wait == CCL_PATH_SLOT) {
        bool slot = node->wait == CCL_PATH_SLOT;
        conn = other_end(w, conn_of(w, slot), slot, pred, &unit);
    } else if (node->wait == CCL_PATH_DEPENDENCY) {
        unit = w->step_unit[awaited_step(w, pred)];
    }
    w->node = pred;
    w->unit = unit;
    if (conn)
        cut_delay(w, conn, end_s);
    else
        cut(w, end_s, CCL_PATH_FLAG, CCL_NONE, CCL_NONE);
    return true;
}

/* All of one node, then to the one before; false at the start of the run. */
static bool walk_node(walk_t *w) {
    const ccl_i_node_t *node = node_of(w);
    const ccl_i_work_t *work = &w->run->work[step_of(w)];
    if (node->left) {
        bool queued = node->wait == CCL_PATH_CONNECTION;
        cut_drain(w, conn_of(w, true), node);
        cut(w, queued ? w->record->nodes[node->pred].end_s : node->start_s, CCL_PATH_LINKS_HELD,
            CCL_NONE, pass_kind(w));
        if (queued)
            waits(w, CCL_PATH_CONNECTION);
        w->node = node->pred;
        return true;
    }
    double pass_s = node->start_s + (node->slice == 0 ? work->overhead_s : 0);
    const ccl_i_conn_t *flows = work->sends && conn_of(w, true)->holds ? conn_of(w, true) : NULL;
    if (work->pulls) { /* what came last decides: the sum, or the slice that it sent meanwhile */
        const ccl_i_node_t *pull = node + 1;
        const ccl_i_conn_t *trunk = conn_of(w, false);
        if (!flows || pull->end_s + trunk->delay_s >= node->end_s * (1 - SLACK)) {
            cut_delay(w, trunk, pull->end_s);
            flows = trunk;
            node = pull;
        }
    }
    if (flows) {
        cut_drain(w, flows, node);
        cut(w, pass_s, CCL_PATH_LINKS_HELD, CCL_NONE, pass_kind(w));
        node = node_of(w);
    }
    cut(w, pass_s, pass_cause(w), CCL_NONE, pass_kind(w));
    cut(w, node->start_s, CCL_PATH_OVERHEAD, CCL_NONE, pass_kind(w));
    return back(w);
}

static bool walk_init(walk_t *w) {
    const ccl_i_run_t *run = w->run;
    const ccl_topology_t *topo = run->topo;
    w->step_unit = malloc((run->program->nsteps + 1u) * sizeof(*w->step_unit));
    w->way = malloc((topo->nlinks + 1u) * sizeof(*w->way));
    if (!w->step_unit || !w->way)
        return false;
    for (uint32_t i = 0; i < run->nunits; i++)
        for (uint32_t k = 0; k < run->units[i].nsteps; k++)
            w->step_unit[step_at(run, i, k)] = i;
    size_t total = 0;
    for (uint32_t g = 0; g < topo->ngroups; g++)
        total += topo->groups[g].nlinks;
    if (total == 0)
        return true;
    w->group_first = calloc(topo->nlinks + 2u, sizeof(*w->group_first));
    w->group_list = malloc(total * sizeof(*w->group_list));
    if (!w->group_first || !w->group_list)
        return false;
    for (uint32_t g = 0; g < topo->ngroups; g++)
        for (uint32_t k = 0; k < topo->groups[g].nlinks; k++)
            w->group_first[topo->groups[g].links[k] + 2]++;
    for (uint32_t l = 0; l < topo->nlinks; l++)
        w->group_first[l + 2] += w->group_first[l + 1];
    for (uint32_t g = 0; g < topo->ngroups; g++)
        for (uint32_t k = 0; k < topo->groups[g].nlinks; k++)
            w->group_list[w->group_first[topo->groups[g].links[k] + 1]++] = g;
    return true;
}

static void walk_fini(walk_t *w) {
    free(w->step_unit);
    free(w->way);
    free(w->group_first);
    free(w->group_list);
    free(w->segments);
}

/* ---------------------------------------------------------------- what links carried, and when */

/* A slice's bytes over the parts of the run that it drained in, at its mean rate. */
static void spread(double *parts, uint32_t n, double part_s, double start_s, double end_s,
                   double bytes) {
    double first = start_s / part_s, last = end_s / part_s;
    uint32_t from = first < n ? (uint32_t)first : n - 1;
    uint32_t to = last < n ? (uint32_t)last : n - 1;
    for (uint32_t i = from; i <= to && to > from; i++)
        parts[i] += bytes * (fmin(last, i + 1.0) - fmax(first, i)) / (last - first);
    if (to == from)
        parts[from] += bytes;
}

static ccl_status_t link_bytes(const ccl_i_run_t *run, uint32_t n, ccl_sim_result_t *r,
                               ccl_error_t *err) {
    const ccl_i_record_t *record = run->record;
    size_t nlinks = run->topo->nlinks;
    double *parts = calloc((size_t)record->nconns * n + 1, sizeof(*parts));
    r->link_bytes = ccl_arena_alloc(&r->arena, nlinks * n + 1, sizeof(double));
    if (!parts || !r->link_bytes) {
        free(parts);
        return ccl_fail_nomem(err);
    }
    r->intervals = n;
    for (uint32_t c = 0; c < run->nconns && r->time_s > 0; c++) {
        uint32_t as = record->conn_of ? record->conn_of[c] : c;
        uint32_t unit =
            run->conns[c].sender == CCL_NONE ? run->conns[c].receiver : run->conns[c].sender;
        if (run->conns[c].trunk != CCL_NONE && !ccl_i_conn_is_trunk(run, c))
            continue; /* nothing flows to a member alone */
        for (uint32_t i = record->conns[as].first; i != CCL_NONE; i = record->nodes[i].next) {
            const ccl_i_node_t *node = &record->nodes[i];
            double bytes =
                ccl_i_work_bytes(run, &run->conns[c], &run->work[step_at(run, unit, node->at)]);
            spread(&parts[(size_t)as * n], n, r->time_s / n, node->flow_s, node->end_s, bytes);
        }
        record->conns[as].first = CCL_NONE; /* blocks that are alike carry as much */
    }
    for (uint32_t c = 0; c < run->nconns; c++) {
        const ccl_route_t *route = run->conns[c].route;
        const double *from = &parts[(size_t)(record->conn_of ? record->conn_of[c] : c) * n];
        for (uint32_t l = 0; l < route->nlinks; l++)
            for (uint32_t i = 0; i < n; i++)
                r->link_bytes[(size_t)route->links[l] * n + i] += from[i];
    }
    free(parts);
    return CCL_OK;
}

ccl_status_t ccl_i_record_path(const ccl_i_run_t *run, uint32_t intervals, ccl_sim_result_t *r,
                               ccl_error_t *err) {
    walk_t w = {.run = run,
                .record = run->record,
                .time_s = run->end_s,
                .node = run->record->final,
                .wait = CCL_PATH_END,
                .for_tb = CCL_NONE,
                .for_step = CCL_NONE};
    ccl_status_t status = CCL_OK;
    if (!walk_init(&w)) {
        status = ccl_fail_nomem(err);
        goto done;
    }
    if (w.node != CCL_NONE) {
        w.unit = w.record->nodes[w.node].unit;
        for (uint32_t i = 0; w.record->unit_of && i < run->nunits; i++)
            if (w.record->unit_of[i] == w.record->nodes[w.node].unit) {
                w.unit = i;
                break;
            }
        while (!w.nomem && walk_node(&w))
            ;
    }
    r->path = ccl_arena_alloc(&r->arena, w.n + 1, sizeof(*r->path));
    if (!r->path || w.nomem) {
        status = ccl_fail_nomem(err);
        goto done;
    }
    r->npath = (uint32_t)w.n;
    for (size_t i = 0; i < w.n; i++)
        r->path[i] = w.segments[w.n - 1 - i];
    if (intervals)
        status = link_bytes(run, intervals, r, err);
done:
    walk_fini(&w);
    return status;
}

/* ---------------------------------------------------------------- sums */

ccl_status_t ccl_path_sum(const ccl_topology_t *topo, const ccl_sim_result_t *result,
                          ccl_path_sum_t *out, ccl_error_t *err) {
    ccl_path_sum_t sum = {.time_s = result->time_s};
    size_t resources = (size_t)topo->nlinks + topo->ngroups;
    if (!result->path)
        return ccl_fail(err, CCL_ERR_INPUT, "the run kept no path");
    sum.kind_s = ccl_arena_alloc(&sum.arena, (topo->nkinds + 1u) * CCL_PATH_CAUSES, sizeof(double));
    sum.resource_s = ccl_arena_alloc(&sum.arena, (resources + 1) * CCL_PATH_CAUSES, sizeof(double));
    sum.tb_s = ccl_arena_alloc(&sum.arena, result->ntbs + 1u, sizeof(double));
    if (!sum.kind_s || !sum.resource_s || !sum.tb_s) {
        ccl_path_sum_fini(&sum);
        return ccl_fail_nomem(err);
    }
    for (uint32_t i = 0; i < result->npath; i++) {
        const ccl_path_segment_t *s = &result->path[i];
        double time_s = s->end_s - s->start_s;
        uint32_t row = s->kind == CCL_NONE ? topo->nkinds : s->kind;
        sum.cause_s[s->cause] += time_s;
        sum.wait_s[s->wait] += time_s;
        sum.kind_s[(size_t)row * CCL_PATH_CAUSES + s->cause] += time_s;
        if (s->resource != CCL_NONE)
            sum.resource_s[(size_t)s->resource * CCL_PATH_CAUSES + s->cause] += time_s;
        sum.tb_s[s->tb] += time_s;
        sum.transfers += s->cause == CCL_PATH_LINK;
    }
    *out = sum;
    return CCL_OK;
}

void ccl_path_sum_fini(ccl_path_sum_t *sum) {
    ccl_arena_fini(&sum->arena);
}
