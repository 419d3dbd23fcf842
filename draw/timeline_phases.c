/*
 * Phases of a run: what thread blocks do (reduce, or move what is ready) and over which kind of
 * link. What a hierarchical schedule does inside of servers and between them stands in rows of its
 * own.
 */
#include "draw/timeline.h"

#include <stdlib.h>
#include <string.h>

enum { MOVES, REDUCES, LOCAL, DOINGS };

/** Kind of the link that leaves a server on the way from one GPU to another, else of the slowest;
 * CCL_NONE where there is none. */
static uint32_t kind_between(const ccl_i_timeline_t *t, ccl_routes_t *routes, uint32_t from,
                             uint32_t to, uint32_t channel) {
    const ccl_route_t *route = NULL;
    uint32_t kind = CCL_NONE;
    double least = 0;

    if (ccl_sim_flow_route(t->program, routes, from, to, channel, &route, NULL) != CCL_OK || !route)
        return CCL_NONE;
    for (uint32_t i = 0; i < route->nlinks; i++) {
        const ccl_link_t *link = &t->topo->links[route->links[i]];

        if (t->topo->devices[link->from].server != t->topo->devices[link->to].server)
            return link->kind;
        if (kind == CCL_NONE || link->bandwidth_Bps < least) {
            least = link->bandwidth_Bps;
            kind = link->kind;
        }
    }
    return kind;
}

/** Steps that receive are known by themselves; a send does what the receive of its data does. */
static uint32_t doing_of(const ccl_program_t *p, const ccl_tb_t *tb, uint32_t step) {
    ccl_primitive_t type = (ccl_primitive_t)p->steps[step].type;
    uint32_t nth = 0;

    if (!ccl_primitive_sends(type) && !ccl_primitive_receives(type))
        return LOCAL;
    if (ccl_primitive_receives(type) || p->peers || ccl_peer_is_group(tb->send_peer))
        return ccl_primitive_reduces(type) ? REDUCES : MOVES;
    for (uint32_t s = tb->first_step; s < step; s++)
        nth += ccl_primitive_sends((ccl_primitive_t)p->steps[s].type);
    for (uint32_t b = p->rank_first_tb[tb->send_peer]; b < p->rank_first_tb[tb->send_peer + 1];
         b++) {
        const ccl_tb_t *other = &p->tbs[b];

        if (other->recv_peer != tb->rank || other->channel != tb->channel)
            continue;
        for (uint32_t s = other->first_step; s < other->first_step + other->nsteps; s++)
            if (ccl_primitive_receives((ccl_primitive_t)p->steps[s].type) && nth-- == 0)
                return ccl_primitive_reduces((ccl_primitive_t)p->steps[s].type) ? REDUCES : MOVES;
    }
    return MOVES;
}

static void name_row(const ccl_i_timeline_t *t, uint32_t doing, uint32_t kind, char *out,
                     size_t out_len) {
    static const char *const names[] = {"moves", "reduces", "copies, reduces"};

    if (doing == LOCAL || kind == CCL_NONE)
        snprintf(out, out_len, "%s locally", names[doing]);
    else
        snprintf(out, out_len, "%s over %.30s", names[doing], t->topo->kinds[kind]);
}

/** Which phases the steps of a block are of, and that it is one of their blocks. */
static void block_phases(ccl_i_timeline_t *t, ccl_routes_t *routes, const ccl_tb_t *tb,
                         uint32_t *row_of) {
    const ccl_program_t *p = t->program;
    uint32_t nkinds = t->topo->nkinds + 1;
    bool *seen = ccl_arena_alloc(&t->arena, (size_t)nkinds * DOINGS, sizeof(*seen));

    for (uint32_t s = tb->first_step; seen && s < tb->first_step + tb->nsteps; s++) {
        ccl_peers_t peers = ccl_program_peers(p, tb, s);
        ccl_primitive_t type = (ccl_primitive_t)p->steps[s].type;
        uint32_t doing = doing_of(p, tb, s), kind = CCL_NONE, key;

        if (ccl_primitive_sends(type))
            kind = kind_between(t, routes, tb->rank, peers.send_peer, peers.channel);
        else if (ccl_primitive_receives(type))
            kind = kind_between(t, routes, peers.recv_peer, tb->rank, peers.channel);
        key = doing * nkinds + (kind == CCL_NONE ? nkinds - 1 : kind);
        if (row_of[key] == CCL_NONE) {
            ccl_i_timeline_row_t *row = &t->rows[t->nrows];

            row_of[key] = t->nrows++;
            *row = (ccl_i_timeline_row_t){.rank = CCL_NONE, .server = CCL_NONE};
            name_row(t, doing, kind, row->name, sizeof(row->name));
        }
        t->phase_row[s] = row_of[key];
        t->rows[row_of[key]].lanes += !seen[key];
        seen[key] = true;
    }
}

ccl_status_t ccl_i_timeline_phases(ccl_i_timeline_t *t, ccl_error_t *err) {
    const ccl_program_t *p = t->program;
    size_t nkeys = (size_t)(t->topo->nkinds + 1) * DOINGS;
    uint32_t *row_of = ccl_arena_alloc(&t->arena, nkeys, sizeof(*row_of));
    ccl_routes_t *routes = ccl_routes_create(t->topo);

    t->rows = ccl_arena_alloc(&t->arena, nkeys + 1, sizeof(*t->rows));
    t->phase_row = ccl_arena_alloc(&t->arena, p->nsteps + (size_t)1, sizeof(*t->phase_row));
    if (!row_of || !routes || !t->rows || !t->phase_row) {
        ccl_routes_destroy(routes);
        return ccl_fail_nomem(err);
    }
    memset(row_of, 0xff, nkeys * sizeof(*row_of));
    for (uint32_t b = 0; b < p->ntbs; b++) {
        bool drawn = t->options->rank == CCL_NONE || p->tbs[b].rank == t->options->rank;

        for (uint32_t lane = t->first_lane[b]; lane < t->first_lane[b + 1]; lane++)
            t->lane_row[lane] = drawn ? 0 : CCL_NONE;
        if (drawn)
            block_phases(t, routes, &p->tbs[b], row_of);
    }
    ccl_routes_destroy(routes);
    return CCL_OK;
}
