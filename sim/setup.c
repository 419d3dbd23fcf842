/**
 * @file setup.c
 * From a program, a topology and a size to the tables of a run; results afterwards.
 */
#include "sim/critical.h"
#include "sim/program.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/** Kinds of what a unit sends and receives on; NO_KIND: it does not. */
typedef struct ends {
    uint8_t send, recv;
} ends_t;
#define NO_KIND 0xff

/** Transports by kind, resolved once. */
typedef struct kinds {
    const ccl_topology_t *topo;
    const char *proto;
    struct ends *ends;  /* [units]; NULL: see the connections */
    double piece_bytes; /* smallest over those used */
    ccl_i_fifos_t fifos;
} kinds_t;

/* Index of the transport; CCL_NONE: too many. */
static uint32_t kind_get(kinds_t *k, const ccl_route_t *route) {
    const char *name = ccl_model_route_kind(k->topo, route);
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

static kinds_t kinds_init(const ccl_topology_t *topo, const ccl_program_t *program) {
    return (kinds_t){.topo = topo,
                     .proto = program->proto,
                     .piece_bytes = INFINITY,
                     .fifos = {.slice_bytes = INFINITY, .slots = UINT32_MAX, .slices = 1}};
}

static ccl_status_t check_peer(const ccl_program_t *program, const ccl_tb_t *tb, uint32_t peer,
                               const char *what, ccl_error_t *err) {
    if (peer == CCL_NONE)
        return ccl_fail(err, CCL_ERR_INPUT, "rank %u block %u %ss but has no %s peer", tb->rank,
                        tb->id, what, what);
    if (peer >= program->nranks || peer == tb->rank)
        return ccl_fail(err, CCL_ERR_INPUT, "rank %u block %u: %s peer %u is %s", tb->rank, tb->id,
                        what, peer, peer == tb->rank ? "itself" : "no rank");
    return CCL_OK;
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

static ccl_status_t default_batches(const kinds_t *k, const ccl_program_t *program,
                                    double size_bytes, uint32_t *out, ccl_error_t *err) {
    double most = fmin(0.5 * k->fifos.slots * k->fifos.slice_bytes, k->piece_bytes);
    double n = most < INFINITY ? ccl_model_ceil(size_bytes * largest_element(program) / most) : 1;
    if (n > 1e9)
        return ccl_fail(err, CCL_ERR_INPUT,
                        "%.17g bytes need %.3g micro-batches; give --batches or a larger slice",
                        size_bytes, n);
    *out = n < 1 ? 1 : (uint32_t)n;
    return CCL_OK;
}

ccl_status_t ccl_sim_default_batches(const ccl_topology_t *topo, ccl_routes_t *routes,
                                     const ccl_program_t *program, double size_bytes, uint32_t *out,
                                     ccl_error_t *err) {
    kinds_t kinds = kinds_init(topo, program);
    for (uint32_t i = 0; i < program->ntbs; i++) {
        const ccl_tb_t *tb = &program->tbs[i];
        for (uint32_t s = 0; s < tb->nsteps; s++) {
            if (!ccl_primitive_sends(program->steps[tb->first_step + s].type))
                continue;
            const ccl_route_t *route;
            ccl_peers_t peers = ccl_program_peers(program, tb, tb->first_step + s);
            CCL_TRY(check_peer(program, tb, peers.send_peer, "send", err));
            CCL_TRY(ccl_routes_get(routes, tb->rank, peers.send_peer, peers.channel, &route, err));
            kind_get(&kinds, route);
            if (!program->peers) /* the others are like it */
                break;
        }
    }
    return default_batches(&kinds, program, size_bytes, out, err);
}

/* ---------------------------------------------------------------- units */

static ccl_status_t make_units(ccl_i_run_t *run, ccl_error_t *err) {
    const ccl_program_t *p = run->program;
    size_t cap = 0;
    run->order = malloc((p->nsteps + 1u) * sizeof(*run->order));
    run->rank_units = calloc(p->nranks + 1u, sizeof(*run->rank_units));
    if (!run->order || !run->rank_units ||
        !ccl_i_reserve(&run->units, &cap, p->ntbs, sizeof(*run->units)))
        return ccl_fail_nomem(err);
    uint32_t at = 0;
    for (uint32_t i = 0; i < p->ntbs; i++) {
        const ccl_tb_t *tb = &p->tbs[i];
        uint32_t stage = 0, previous = CCL_NONE, left = tb->nsteps;
        while (left > 0) {
            uint32_t first = at, next = UINT32_MAX;
            for (uint32_t s = 0; s < tb->nsteps; s++) {
                uint32_t of = run->granularity == CCL_GRANULARITY_STAGE
                                  ? p->steps[tb->first_step + s].stage
                                  : 0;
                if (of == stage)
                    run->order[at++] = tb->first_step + s;
                else if (of > stage && of < next)
                    next = of;
            }
            left -= at - first;
            if (at > first) {
                if (!ccl_i_grow(&run->units, &cap, run->nunits + 1u, sizeof(*run->units)))
                    return ccl_fail_nomem(err);
                ccl_i_unit_t *u = &run->units[run->nunits++];
                *u = (ccl_i_unit_t){.tb = i,
                                    .first = first,
                                    .nsteps = at - first,
                                    .send = CCL_NONE,
                                    .recv = CCL_NONE,
                                    .stage_dep = previous,
                                    .next_waiter = CCL_NONE};
                run->rank_units[tb->rank + 1] = run->nunits;
                previous = run->order[at - 1];
            }
            stage = next;
        }
    }
    for (uint32_t rank = 0; rank < p->nranks; rank++) /* ranks without blocks */
        if (run->rank_units[rank + 1] < run->rank_units[rank])
            run->rank_units[rank + 1] = run->rank_units[rank];
    run->nleft = run->nunits;
    return CCL_OK;
}

/* ---------------------------------------------------------------- connections */

typedef struct conn_key {
    uint32_t src, dst, channel, stage;
} conn_key_t;

typedef struct keyed_conn {
    conn_key_t key;
    uint32_t next; /* of the same slot */
} keyed_conn_t;

typedef struct conn_table {
    keyed_conn_t *conns; /* [nconns] */
    size_t ckeyed, cconns;
    uint32_t *head, len, row;
} conn_table_t;

/* Connections are asked for rank by rank, from either end. Neighbours in a row or a column of ranks
   lie near each other in this table, so that both orders stay in the cache. */
static uint32_t *key_slot(const conn_table_t *t, conn_key_t k) {
    uint64_t plane = ccl_mix64((uint64_t)k.channel << 32 | k.stage);
    return &t->head[((uint64_t)k.src * t->row + k.dst + (plane >> 20)) & (t->len - 1)];
}

static ccl_status_t conn_get(ccl_i_run_t *run, conn_table_t *t, kinds_t *kinds,
                             ccl_routes_t *routes, conn_key_t key, uint32_t *out,
                             ccl_error_t *err) {
    uint32_t *head = key_slot(t, key);
    for (uint32_t c = *head; c != CCL_NONE; c = t->conns[c].next)
        if (memcmp(&t->conns[c].key, &key, sizeof(key)) == 0) {
            *out = c;
            return CCL_OK;
        }
    const ccl_route_t *route;
    CCL_TRY(ccl_routes_get(routes, key.src, key.dst, key.channel, &route, err));
    if (!ccl_i_grow(&run->conns, &t->cconns, run->nconns + 1u, sizeof(*run->conns)) ||
        !ccl_i_grow(&t->conns, &t->ckeyed, run->nconns + 1u, sizeof(*t->conns)))
        return ccl_fail_nomem(err);
    uint32_t kind = kind_get(kinds, route);
    if (kind == CCL_NONE)
        return ccl_fail(err, CCL_UNSUPPORTED, "more than %u kinds of connection in one program",
                        (unsigned)CCL_ARRAY_LEN(kinds->fifos.kind));
    const ccl_transport_t *transport = &kinds->fifos.kind[kind].transport;
    t->conns[run->nconns] = (keyed_conn_t){key, *head};
    *head = run->nconns;
    run->conns[run->nconns] = (ccl_i_conn_t){.sender = CCL_NONE,
                                             .receiver = CCL_NONE,
                                             .slots = transport->slots,
                                             .holds = transport->holds_tb,
                                             .delay_s = route->latency_s + transport->latency_s,
                                             .kind = (uint8_t)kind,
                                             .route = route};
    *out = run->nconns++;
    return CCL_OK;
}

/* Unit i becomes one end of the connection of `key`. */
static ccl_status_t take_end(ccl_i_run_t *run, conn_table_t *t, kinds_t *kinds,
                             ccl_routes_t *routes, uint32_t i, conn_key_t key, bool sends,
                             uint32_t *out, ccl_error_t *err) {
    const ccl_tb_t *tb = &run->program->tbs[run->units[i].tb];
    CCL_TRY(
        check_peer(run->program, tb, sends ? key.dst : key.src, sends ? "send" : "receive", err));
    CCL_TRY(conn_get(run, t, kinds, routes, key, out, err));
    uint32_t *end = sends ? &run->conns[*out].sender : &run->conns[*out].receiver;
    if (*end != CCL_NONE && *end != i)
        return ccl_fail(err, CCL_ERR_INPUT,
                        "rank %u blocks %u and %u %s on the same connection (%s %u, channel %u)",
                        tb->rank, run->program->tbs[run->units[*end].tb].id, tb->id,
                        sends ? "send" : "receive", sends ? "to" : "from",
                        sends ? key.dst : key.src, key.channel);
    *end = i;
    return CCL_OK;
}

/* Connections of every step of a unit that has several. */
static ccl_status_t share_conns(ccl_i_run_t *run, conn_table_t *t, kinds_t *kinds,
                                ccl_routes_t *routes, uint32_t i, uint32_t stage,
                                ccl_error_t *err) {
    const ccl_program_t *p = run->program;
    ccl_i_unit_t *u = &run->units[i];
    const ccl_tb_t *tb = &p->tbs[u->tb];
    for (uint32_t k = 0; k < u->nsteps; k++) {
        uint32_t s = run->order[u->first + k], *conns = &run->step_conns[2 * (size_t)s];
        ccl_peers_t peers = ccl_program_peers(p, tb, s);
        conns[0] = conns[1] = CCL_NONE;
        if (ccl_primitive_sends(p->steps[s].type))
            CCL_TRY(take_end(run, t, kinds, routes, i,
                             (conn_key_t){tb->rank, peers.send_peer, peers.channel, stage}, true,
                             &conns[0], err));
        if (ccl_primitive_receives(p->steps[s].type))
            CCL_TRY(take_end(run, t, kinds, routes, i,
                             (conn_key_t){peers.recv_peer, tb->rank, peers.channel, stage}, false,
                             &conns[1], err));
    }
    if (u->nsteps > 0)
        ccl_i_unit_conns(run, u);
    return CCL_OK;
}

static uint32_t stage_of(const ccl_i_run_t *run, uint32_t unit) {
    const ccl_step_t *first = &run->program->steps[run->order[run->units[unit].first]];
    return run->granularity == CCL_GRANULARITY_STAGE ? first->stage : 0;
}

/* All senders first: the connections of a rank then follow one another. */
static ccl_status_t unit_conns(ccl_i_run_t *run, conn_table_t *t, kinds_t *kinds,
                               ccl_routes_t *routes, ccl_error_t *err) {
    const ccl_program_t *p = run->program;
    kinds->ends = malloc((run->nunits + 1u) * sizeof(*kinds->ends));
    if (!kinds->ends)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < run->nunits; i++) {
        ccl_i_unit_t *u = &run->units[i];
        const ccl_tb_t *tb = &p->tbs[u->tb];
        bool sends = false, receives = false;
        for (uint32_t s = 0; s < u->nsteps; s++) {
            uint8_t type = p->steps[run->order[u->first + s]].type;
            sends = sends || ccl_primitive_sends(type);
            receives = receives || ccl_primitive_receives(type);
        }
        kinds->ends[i] = (ends_t){NO_KIND, receives ? 0 : NO_KIND};
        if (!sends)
            continue;
        CCL_TRY(take_end(run, t, kinds, routes, i,
                         (conn_key_t){tb->rank, tb->send_peer, tb->channel, stage_of(run, i)}, true,
                         &u->send, err));
        kinds->ends[i].send = run->conns[u->send].kind;
    }
    for (uint32_t i = 0; i < run->nunits; i++) {
        ccl_i_unit_t *u = &run->units[i];
        const ccl_tb_t *tb = &p->tbs[u->tb];
        if (kinds->ends[i].recv == NO_KIND)
            continue;
        CCL_TRY(take_end(run, t, kinds, routes, i,
                         (conn_key_t){tb->recv_peer, tb->rank, tb->channel, stage_of(run, i)},
                         false, &u->recv, err));
        kinds->ends[i].recv = run->conns[u->recv].kind;
    }
    return CCL_OK;
}

static ccl_status_t make_conns(ccl_i_run_t *run, conn_table_t *t, kinds_t *kinds,
                               ccl_routes_t *routes, ccl_error_t *err) {
    const ccl_program_t *p = run->program;
    uint64_t ends = p->peers ? 2ull * p->nsteps : run->nunits;
    for (t->len = 64; t->len < ends; t->len *= 2)
        ;
    t->row = p->nranks | 1; /* odd: every slot can be the first of a row */
    if (p->peers) {
        run->step_conns = malloc((2 * (size_t)p->nsteps + 1) * sizeof(*run->step_conns));
        if (!run->step_conns)
            return ccl_fail_nomem(err);
    }
    t->head = malloc(t->len * sizeof(*t->head));
    if (!t->head || !ccl_i_reserve(&run->conns, &t->cconns, run->nunits, sizeof(*run->conns)) ||
        !ccl_i_reserve(&t->conns, &t->ckeyed, run->nunits, sizeof(*t->conns)))
        return ccl_fail_nomem(err);
    memset(t->head, 0xff, t->len * sizeof(*t->head));
    for (uint32_t i = 0; p->peers && i < run->nunits; i++)
        CCL_TRY(share_conns(run, t, kinds, routes, i, stage_of(run, i), err));
    return p->peers ? CCL_OK : unit_conns(run, t, kinds, routes, err);
}

static void warn(const ccl_i_run_t *run, const kinds_t *kinds) {
    for (uint32_t i = 0; i < kinds->fifos.n; i++) {
        const ccl_transport_t *t = &kinds->fifos.kind[i].transport;
        if (t->holds_tb || !(t->tb_rate_Bps < INFINITY) || t->slice_bytes < INFINITY ||
            t->slices > 1)
            continue;
        ccl_log(run->ctx, CCL_LOG_WARN, "sim",
                "transport %s does not hold its thread block and has a tb_rate but neither "
                "slice nor slices: whole messages are stored and forwarded",
                kinds->fifos.kind[i].name);
        break;
    }
    bool contention = false;
    for (uint32_t l = 0; l < run->topo->nlinks; l++)
        contention = contention || run->topo->links[l].contention > 0;
    for (uint32_t c = 0; contention && c < run->nconns; c++) {
        const ccl_i_conn_t *conn = &run->conns[c];
        if (kinds->fifos.kind[conn->kind].transport.tb_rate_Bps < INFINITY)
            continue;
        for (uint32_t i = 0; i < conn->route->nlinks; i++) {
            const ccl_link_t *link = &run->topo->links[conn->route->links[i]];
            if (!(link->contention > 0))
                continue;
            ccl_log(run->ctx, CCL_LOG_WARN, "sim",
                    "link %s-%s has contention but thread blocks on it have no tb_rate: every "
                    "second one already counts as contention",
                    run->topo->devices[link->from].id, run->topo->devices[link->to].id);
            return;
        }
    }
}

/* ---------------------------------------------------------------- work of each step */

static uint32_t dependency(const ccl_program_t *p, const ccl_tb_t *tb, uint32_t step) {
    const ccl_step_t *s = &p->steps[step];
    if (s->dep_tb == CCL_NONE || s->dep_step == CCL_NONE)
        return CCL_NONE;
    const ccl_tb_t *other = &p->tbs[p->rank_first_tb[tb->rank] + s->dep_tb];
    uint32_t dep = other->first_step + s->dep_step;
    return other == tb && dep < step ? CCL_NONE : dep; /* met by order */
}

static ccl_status_t make_work(ccl_i_run_t *run, const kinds_t *kinds, double size_bytes,
                              uint64_t *conn_slices, ccl_sim_result_t *r, ccl_error_t *err) {
    const ccl_program_t *p = run->program;
    uint32_t rank = CCL_NONE;
    uint64_t slices = 0;
    ccl_gpu_model_t gpu = {0};
    for (uint32_t i = 0; i < run->nunits; i++) {
        const ccl_i_unit_t *u = &run->units[i];
        const ccl_tb_t *tb = &p->tbs[u->tb];
        if (tb->rank != rank) { /* units are by rank */
            rank = tb->rank;
            gpu = ccl_model_gpu(run->topo, rank);
            run->flag_s[rank] = gpu.flag_s;
        }
        if (u->stage_dep != CCL_NONE)
            run->awaited[u->stage_dep] = 1;
        slices = 0;
        for (uint32_t k = 0; k < u->nsteps; k++) {
            uint32_t index = run->order[u->first + k];
            const ccl_step_t *s = &p->steps[index];
            ccl_i_work_t *w = &run->work[index];
            double bytes = ccl_program_step_share(p, tb, s) * size_bytes / run->batches;
            *w = (ccl_i_work_t){.rate_Bps = INFINITY, .slices = 1};
            w->sends = ccl_primitive_sends(s->type);
            w->receives = ccl_primitive_receives(s->type);
            w->dep = dependency(p, tb, index);
            if (w->dep != CCL_NONE)
                run->awaited[w->dep] = 1;
            if (w->sends || w->receives) {
                double n =
                    fmax(ccl_model_ceil(bytes / kinds->fifos.slice_bytes), kinds->fifos.slices);
                if (n > 1e9)
                    return ccl_fail(err, CCL_ERR_INPUT,
                                    "rank %u block %u step %u: %.3g slices of one primitive",
                                    tb->rank, tb->id, index - tb->first_step, n);
                w->slices = (uint32_t)n;
            }
            w->bytes = bytes / w->slices;
            const uint32_t *own = run->step_conns ? &run->step_conns[2 * (size_t)index] : NULL;
            uint32_t send_conn = own ? own[0] : u->send;
            const ccl_i_conn_t *send = w->sends ? &run->conns[send_conn] : NULL;
            const ccl_transport_t *to = NULL, *from = NULL;
            if (w->sends)
                to = &kinds->fifos.kind[own ? send->kind : kinds->ends[i].send].transport;
            if (w->receives)
                from = &kinds->fifos.kind[own ? run->conns[own[1]].kind : kinds->ends[i].recv]
                            .transport;
            if (from)
                w->rate_Bps = fmin(w->rate_Bps, ccl_model_receive_Bps(from));
            if (to)
                w->rate_Bps = fmin(w->rate_Bps, to->tb_rate_Bps);
            if (ccl_primitive_reduces(s->type))
                w->rate_Bps = fmin(w->rate_Bps, gpu.reduce_rate_Bps);
            if (s->type == CCL_PRIM_CPY)
                w->rate_Bps = fmin(w->rate_Bps, gpu.copy_rate_Bps);
            w->overhead_s = to                        ? to->overhead_s
                            : from                    ? from->overhead_s
                            : s->type != CCL_PRIM_NOP ? gpu.overhead_s
                                                      : 0;
            if (s->type == CCL_PRIM_NOP)
                w->bytes = 0;
            if (send) {
                r->transfers += run->batches;
                slices += (uint64_t)run->batches * w->slices;
                if (own) {
                    uint64_t *sum = &conn_slices[send_conn];
                    *sum += (uint64_t)run->batches * w->slices;
                    run->conns[send_conn].roomy = *sum <= send->slots;
                }
                r->flows += (uint64_t)run->batches * w->slices;
                for (uint32_t l = 0; l < send->route->nlinks; l++)
                    r->links[send->route->links[l]].bytes += bytes * run->batches;
            }
        }
        if (u->send != CCL_NONE && !run->step_conns)
            run->conns[u->send].roomy = slices <= run->conns[u->send].slots;
    }
    return CCL_OK;
}

static uint32_t make_path(const ccl_i_run_t *run, uint32_t c, double cap_Bps) {
    const ccl_i_fold_t *fold = run->fold;
    ccl_i_net_t *net = ccl_i_engine_net(run->engine);
    if (!fold)
        return ccl_i_net_path(net, run->conns[c].route, cap_Bps);
    uint32_t first = fold->first_share[c], n = fold->first_share[c + 1] - first;
    return ccl_i_net_path_of(net, run->conns[c].route, cap_Bps, &fold->shares[first], n);
}

/* Paths of the steps that send. A block's steps differ little: a late path mostly fits. */
static bool make_paths(ccl_i_run_t *run) {
    if (!ccl_i_net_reserve(ccl_i_engine_net(run->engine), run->nconns + 1u))
        return false;
    for (uint32_t i = 0; i < run->nunits; i++) {
        const ccl_i_unit_t *u = &run->units[i];
        struct {
            double cap_Bps;
            uint32_t conn, path;
        } late[8];
        uint32_t nlate = 0;
        for (uint32_t k = 0; k < u->nsteps; k++) {
            uint32_t step = run->order[u->first + k], at = 0;
            ccl_i_work_t *w = &run->work[step];
            if (!w->sends)
                continue;
            uint32_t conn = run->step_conns ? run->step_conns[2 * (size_t)step] : u->send;
            double cap_Bps = run->conns[conn].holds ? w->rate_Bps : INFINITY;
            while (at < nlate && at < CCL_ARRAY_LEN(late) &&
                   (late[at].conn != conn || late[at].cap_Bps != cap_Bps))
                at++;
            if (at == nlate || at == CCL_ARRAY_LEN(late)) {
                at = nlate++ % CCL_ARRAY_LEN(late);
                late[at].conn = conn;
                late[at].cap_Bps = cap_Bps;
                late[at].path = make_path(run, conn, cap_Bps);
                if (late[at].path == CCL_NONE)
                    return false;
            }
            w->path = late[at].path;
        }
    }
    return ccl_i_net_freeze(ccl_i_engine_net(run->engine));
}

/* ---------------------------------------------------------------- results */

static bool tb_results(const ccl_i_run_t *run, ccl_sim_result_t *r) {
    if (run->granularity == CCL_GRANULARITY_STAGE) {
        r->stages = ccl_arena_alloc(&r->arena, run->nunits + 1u, sizeof(*r->stages));
        if (!r->stages)
            return false;
        r->nstages = run->nunits;
    }
    for (uint32_t rank = 0; rank < run->program->nranks; rank++) {
        double launch_s = ccl_model_gpu(run->topo, rank).launch_s;
        for (uint32_t i = run->program->rank_first_tb[rank];
             i < run->program->rank_first_tb[rank + 1]; i++)
            r->tbs[i].start_s = r->tbs[i].done_s = launch_s;
    }
    for (uint32_t i = 0; i < run->nunits; i++) {
        const ccl_i_unit_t *u = &run->units[i];
        ccl_tb_use_t *use = &r->tbs[u->tb];
        use->done_s = fmax(use->done_s, u->mark_s);
        use->busy_s += u->use_s[USE_BUSY];
        use->wait_data_s += u->use_s[USE_DATA];
        use->wait_peer_s += u->use_s[USE_PEER];
        use->wait_slot_s += u->use_s[USE_SLOT];
        if (r->stages)
            r->stages[i] =
                (ccl_stage_use_t){.tb = u->tb,
                                  .stage = run->program->steps[run->order[u->first]].stage,
                                  .use = {.start_s = use->start_s,
                                          .done_s = u->mark_s,
                                          .busy_s = u->use_s[USE_BUSY],
                                          .wait_data_s = u->use_s[USE_DATA],
                                          .wait_peer_s = u->use_s[USE_PEER],
                                          .wait_slot_s = u->use_s[USE_SLOT]}};
    }
    return true;
}

static void run_fini(ccl_i_run_t *run) {
    ccl_i_unfold(run);
    for (uint32_t i = 0; i < run->nconns; i++)
        free(run->conns[i].queue);
    free(run->conns);
    free(run->slice_start_s);
    free(run->flow_start_s);
    free(run->units);
    free(run->work);
    free(run->order);
    free(run->step_conns);
    free(run->rank_units);
    free(run->done);
    free(run->waiters);
    free(run->awaited);
    free(run->flag_s);
    free(run->ready);
    ccl_i_steady_destroy(run->steady);
    ccl_i_record_destroy(run->record);
    ccl_i_least_fini(run);
    ccl_i_engine_destroy(run->engine);
}

static bool run_tables(ccl_i_run_t *run) {
    uint32_t n = run->nsteps = run->program->nsteps;
    run->work = malloc((n + 1u) * sizeof(*run->work));
    run->done = calloc(n + 1u, sizeof(*run->done));
    run->waiters = malloc((n + 1u) * sizeof(*run->waiters));
    run->awaited = calloc(n + 1u, 1);
    run->flag_s = calloc(run->program->nranks + 1u, sizeof(*run->flag_s));
    run->ready = malloc((run->nunits + 1u) * sizeof(*run->ready));
    if (!run->work || !run->done || !run->waiters || !run->awaited || !run->flag_s || !run->ready)
        return false;
    memset(run->waiters, 0xff, n * sizeof(*run->waiters));
    if (!run->trace)
        return true;
    run->slice_start_s = calloc(run->nunits + 1u, sizeof(*run->slice_start_s));
    run->flow_start_s = calloc(run->nconns + 1u, sizeof(*run->flow_start_s));
    return run->slice_start_s && run->flow_start_s;
}

static bool step_times(ccl_i_run_t *run, ccl_sim_result_t *r) {
    size_t n = run->program->nsteps + (size_t)1;
    run->step_start_s = r->step_start_s = ccl_arena_alloc(&r->arena, n, sizeof(double));
    run->step_end_s = r->step_end_s = ccl_arena_alloc(&r->arena, n, sizeof(double));
    return r->step_start_s && r->step_end_s;
}

static ccl_status_t check(const ccl_topology_t *topo, const ccl_program_t *program,
                          const ccl_sim_options_t *options, ccl_error_t *err) {
    if (program->nranks != topo->nranks)
        return ccl_fail(err, CCL_ERR_INPUT, "the program has %u ranks, the topology %u GPUs",
                        program->nranks, topo->nranks);
    if (!(options->size_bytes > 0) || !(options->size_bytes < 1e18))
        return ccl_fail(err, CCL_ERR_INPUT, "size %g bytes is not within (0, 1e18)",
                        options->size_bytes);
    return CCL_OK;
}

static ccl_status_t stopped(const ccl_i_run_t *run, ccl_status_t status, ccl_error_t *err) {
    return status == CCL_OK
               ? CCL_OK
               : ccl_fail(err, status, "stopped at %.6g s of simulated time", run->end_s);
}

static ccl_status_t progress(const ccl_i_run_t *run, ccl_error_t *err) {
    return stopped(run, ccl_i_run_progress(run), err);
}

/* From its tables to where it ends or stops. */
static ccl_status_t simulate(ccl_i_run_t *run, const ccl_sim_options_t *options,
                             const ccl_sim_result_t *r, ccl_error_t *err) {
    const ccl_program_t *p = run->program;
    bool fair = options->sharing == CCL_SHARING_FAIR && !options->trace;
    if ((!options->no_fold && fair && !ccl_i_fold(run, r->flows)) || !make_paths(run) ||
        !ccl_i_least_init(run, r))
        return ccl_fail_nomem(err);
    if (options->path)
        CCL_TRY(ccl_i_record_create(run, err));
    if (!options->no_skip && !options->path && fair)
        run->steady = ccl_i_steady_create(run);
    for (uint32_t rank = 0; rank < p->nranks; rank++)
        if (run->rank_units[rank] < run->rank_units[rank + 1])
            ccl_i_engine_at(run->engine, ccl_model_gpu(run->topo, rank).launch_s, EV_LAUNCH, rank);
    run->total = (uint64_t)run->nsteps * run->batches;
    CCL_TRY(progress(run, err));
    CCL_TRY(ccl_i_engine_run(run->engine, err));
    CCL_TRY(stopped(run, run->status, err));
    if (run->record)
        ccl_i_record_keep(run);
    return run->nomem ? ccl_fail_nomem(err) : CCL_OK;
}

ccl_status_t ccl_sim_program(const ccl_ctx_t *ctx, const ccl_topology_t *topo, ccl_routes_t *routes,
                             const ccl_program_t *program, const ccl_sim_options_t *options,
                             ccl_sim_result_t **out, ccl_error_t *err) {
    CCL_OPTIONS_TRY(ccl_sim_options_t, options, err);
    CCL_TRY(check(topo, program, options, err));
    ccl_status_t status;
    conn_table_t table = {0};
    uint64_t *conn_slices = NULL;
    kinds_t kinds = kinds_init(topo, program);
    ccl_i_run_t run = {.ctx = ctx,
                       .topo = topo,
                       .program = program,
                       .granularity = options->granularity,
                       .trace = options->trace,
                       .give_up_s = options->give_up_s > 0 ? options->give_up_s : INFINITY,
                       .wrapped = CCL_NONE};
    ccl_routes_t *own = routes ? NULL : ccl_routes_create(topo);
    ccl_sim_result_t *r = ccl_i_result_create(topo->nlinks, program->ntbs, 0);
    run.engine = ccl_i_run_engine(&run, options->sharing);
    if ((!routes && !own) || !r || !run.engine) {
        status = ccl_fail_nomem(err);
        goto done;
    }
    CCL_TRY_GOTO(make_units(&run, err), status, done);
    CCL_TRY_GOTO(make_conns(&run, &table, &kinds, routes ? routes : own, err), status, done);
    warn(&run, &kinds);
    run.batches = options->batches;
    if (!run.batches)
        CCL_TRY_GOTO(default_batches(&kinds, program, options->size_bytes, &run.batches, err),
                     status, done);
    if (!run_tables(&run)) {
        status = ccl_fail_nomem(err);
        goto done;
    }
    if (run.step_conns)
        conn_slices = calloc(run.nconns + 1u, sizeof(*conn_slices));
    if ((run.step_conns && !conn_slices) || (options->step_times && !step_times(&run, r))) {
        status = ccl_fail_nomem(err);
        goto done;
    }
    CCL_TRY_GOTO(make_work(&run, &kinds, options->size_bytes, conn_slices, r, err), status, done);
    run.gave_up = ccl_i_least_exceeds(&run, r);
    if (!run.gave_up)
        CCL_TRY_GOTO(simulate(&run, options, r, err), status, done);
    if (!run.gave_up)
        ccl_i_unfold(&run);
    r->size_bytes = options->size_bytes;
    r->batches = run.batches;
    r->chunk_bytes = options->size_bytes / program->nchunks / run.batches;
    r->events = ccl_i_engine_events(run.engine);
    ccl_ctx_count(ctx, r->events);
    r->rate_changes = ccl_i_net_rate_changes(ccl_i_engine_net(run.engine));
    r->skipped_batches = run.skipped;
    if (run.gave_up) {
        r->time_s = INFINITY;
        *out = r;
        r = NULL;
        status = CCL_OK;
        goto done;
    }
    if (run.nleft > 0) {
        char text[400];
        CCL_TRY_GOTO(ccl_i_run_deadlock(&run, &kinds.fifos, options->cause, r, err), status, done);
        *out = r;
        r = NULL;
        ccl_i_deadlock_text((*out)->deadlock, text, sizeof(text));
        status = ccl_fail(err, CCL_DEADLOCK, "%s", text);
        goto done;
    }
    CCL_TRY_GOTO(progress(&run, err), status, done);
    r->time_s = run.end_s;
    if (r->time_s > 0) {
        r->algbw_GBps = r->size_bytes / r->time_s / 1e9;
        r->busbw_GBps =
            r->algbw_GBps * ccl_collective_busbw_factor(program->coll->kind, program->nranks);
    }
    ccl_i_result_links(r, topo);
    if (run.record)
        CCL_TRY_GOTO(ccl_i_record_path(&run, options->intervals, r, err), status, done);
    if (!tb_results(&run, r)) {
        status = ccl_fail_nomem(err);
        goto done;
    }
    *out = r;
    r = NULL;
    status = CCL_OK;
done:
    free(conn_slices);
    free(kinds.ends);
    free(table.conns);
    free(table.head);
    run_fini(&run);
    ccl_routes_destroy(own);
    ccl_sim_result_destroy(r);
    return status;
}
