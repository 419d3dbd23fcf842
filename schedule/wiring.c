/*
 * Units, connections and messages of a program. Large programs have millions of connections' ends,
 * so they are found by a hash that keeps neighbours near each other, not by sorting.
 */
#include "schedule/schedule.h"

#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- units */

static bool by_stage(ccl_granularity_t granularity) {
    return granularity == CCL_GRANULARITY_STAGE;
}

/** Units of one block from place `at` of the order; at stage level in ascending stages. */
static bool block_units(const ccl_program_t *p, uint32_t index, bool stages, uint32_t at,
                        size_t *cap, ccl_wiring_t *w) {
    const ccl_tb_t *tb = &p->tbs[index];
    uint32_t stage = 0, previous = CCL_NONE, left = tb->nsteps;
    while (left > 0) {
        uint32_t first = at, next = UINT32_MAX;
        for (uint32_t s = 0; s < tb->nsteps; s++) {
            uint32_t of = stages ? p->steps[tb->first_step + s].stage : 0;
            if (of == stage)
                w->order[at++] = tb->first_step + s;
            else if (of > stage && of < next)
                next = of;
        }
        left -= at - first;
        stage = next;
        if (at == first)
            continue;
        if (w->nunits == *cap && !ccl_grow(&w->units, cap, w->nunits + (size_t)1, sizeof *w->units))
            return false;
        w->units[w->nunits++] = (ccl_wiring_unit_t){.tb = index,
                                                    .first = first,
                                                    .nsteps = at - first,
                                                    .previous = previous,
                                                    .send = CCL_NONE,
                                                    .recv = CCL_NONE};
        w->rank_units[tb->rank + 1] = w->nunits;
        previous = w->order[at - 1];
    }
    return true;
}

static bool make_units(const ccl_program_t *p, ccl_granularity_t granularity, ccl_wiring_t *w) {
    size_t cap = p->ntbs;
    w->order = ccl_array_alloc(p->nsteps + (size_t)1, sizeof *w->order);
    w->rank_units = calloc(p->nranks + (size_t)1, sizeof *w->rank_units);
    w->units = malloc((cap + 1) * sizeof *w->units);
    if (!w->order || !w->rank_units || !w->units)
        return false;
    for (uint32_t i = 0, at = 0; i < p->ntbs; at += p->tbs[i++].nsteps)
        if (!block_units(p, i, by_stage(granularity), at, &cap, w))
            return false;
    for (uint32_t rank = 0; rank < p->nranks; rank++) /* ranks without blocks */
        if (w->rank_units[rank + 1] < w->rank_units[rank])
            w->rank_units[rank + 1] = w->rank_units[rank];
    return true;
}

/* ---------------------------------------------------------------- connections */

typedef struct conn_key {
    uint32_t src, dst, channel, stage, kind;
} conn_key_t;

typedef struct table {
    const ccl_program_t *p;
    ccl_wiring_t *w;
    bool stages, members; /* a member of a switch connection has been asked for */
    size_t cconns, cnext, cswitches, cmembers;
    uint32_t *next; /* [nconns] of the same slot */
    uint32_t *head, len, row;
} table_t;

/* Connections are asked for rank by rank, from either end. Neighbours in a row or a column of ranks
   lie near each other in this table, so that both orders stay in the cache. */
static uint32_t *key_slot(const table_t *t, const conn_key_t *k) {
    uint64_t plane = ccl_mix64(((uint64_t)k->channel << 2 | k->kind) << 32 | k->stage);
    return &t->head[((uint64_t)k->src * t->row + k->dst + (plane >> 20)) & (t->len - 1)];
}

static bool has_key(const ccl_wiring_conn_t *c, const conn_key_t *key) {
    return c->src == key->src && c->dst == key->dst && c->channel == key->channel &&
           c->stage == key->stage && c->kind == key->kind;
}

/** CCL_NONE: no memory. */
static uint32_t conn_get(table_t *t, const conn_key_t *key) {
    ccl_wiring_t *w = t->w;
    uint32_t *head = key_slot(t, key);
    for (uint32_t c = *head; c != CCL_NONE; c = t->next[c])
        if (has_key(&w->conns[c], key))
            return c;
    if ((w->nconns == t->cconns &&
         !ccl_grow(&w->conns, &t->cconns, w->nconns + (size_t)1, sizeof *w->conns)) ||
        (w->nconns == t->cnext &&
         !ccl_grow(&t->next, &t->cnext, w->nconns + (size_t)1, sizeof *t->next)))
        return CCL_NONE;
    w->conns[w->nconns] = (ccl_wiring_conn_t){.src = key->src,
                                              .dst = key->dst,
                                              .channel = key->channel,
                                              .stage = key->stage,
                                              .kind = key->kind,
                                              .sender = CCL_NONE,
                                              .receiver = CCL_NONE,
                                              .in_switch = CCL_NONE};
    t->next[w->nconns] = *head;
    *head = w->nconns;
    return w->nconns++;
}

static ccl_status_t check_peer(const ccl_program_t *p, const ccl_tb_t *tb, uint32_t peer,
                               bool member, const char *what, ccl_error_t *err) {
    if (peer == CCL_NONE)
        return ccl_fail(err, CCL_ERR_INPUT, "rank %u block %u %ss but has no %s peer", tb->rank,
                        tb->id, what, what);
    if (peer >= p->nranks || (peer == tb->rank && !member))
        return ccl_fail(err, CCL_ERR_INPUT, "rank %u block %u: %s peer %u is %s", tb->rank, tb->id,
                        what, peer, peer == tb->rank ? "itself" : "no rank");
    return CCL_OK;
}

/** Unit u becomes one end of the connection of `key`. */
static ccl_status_t take_end(table_t *t, uint32_t u, const conn_key_t *key, bool sends,
                             uint32_t *out, ccl_error_t *err) {
    const ccl_tb_t *tb = &t->p->tbs[t->w->units[u].tb];
    uint32_t peer = sends ? key->dst : key->src;
    CCL_TRY(
        check_peer(t->p, tb, peer, key->kind != CCL_WIRING_PLAIN, sends ? "send" : "receive", err));
    uint32_t c = conn_get(t, key);
    if (c == CCL_NONE)
        return ccl_fail_nomem(err);
    uint32_t *end = sends ? &t->w->conns[c].sender : &t->w->conns[c].receiver;
    if (*end != CCL_NONE && *end != u)
        return ccl_fail(err, CCL_ERR_INPUT,
                        "rank %u blocks %u and %u %s on the same connection (%s %u, channel %u)",
                        tb->rank, t->p->tbs[t->w->units[*end].tb].id, tb->id,
                        sends ? "send" : "receive", sends ? "to" : "from", peer, key->channel);
    *end = u;
    *out = c;
    return CCL_OK;
}

/** The switch connection of unit u and a group; a unit has one a group, channel and stage. */
static uint32_t switch_find(const ccl_wiring_t *w, uint32_t u, bool sends, uint32_t group,
                            conn_key_t key) {
    for (uint32_t i = w->nswitches; i-- > 0;) {
        const ccl_wiring_switch_t *s = &w->switches[i];
        if (s->unit != u)
            break; /* a unit names its own one after the other */
        if (s->reduces != sends && s->group == group && s->channel == key.channel)
            return i;
    }
    return CCL_NONE;
}

/** Unit u multicasts to a group, or pulls from it: one connection per member. */
static ccl_status_t take_switch(table_t *t, uint32_t u, conn_key_t key, bool sends, uint32_t *out,
                                ccl_error_t *err) {
    ccl_wiring_t *w = t->w;
    uint32_t peer = sends ? key.dst : key.src, group = peer & ~CCL_PEER_GROUP;
    uint32_t single = sends ? key.src : key.dst;
    const ccl_peer_group_t *ranks = &t->p->groups[group];
    uint32_t at = switch_find(w, u, sends, group, key);
    if (at == CCL_NONE) {
        if (!ccl_grow(&w->switches, &t->cswitches, w->nswitches + (size_t)1, sizeof *w->switches) ||
            !ccl_grow(&w->members, &t->cmembers, w->nmembers + (size_t)ranks->n,
                      sizeof *w->members))
            return ccl_fail_nomem(err);
        at = w->nswitches++;
        w->switches[at] = (ccl_wiring_switch_t){.reduces = !sends,
                                                .single = single,
                                                .unit = u,
                                                .group = group,
                                                .channel = key.channel,
                                                .stage = key.stage,
                                                .first = w->nmembers};
        key.kind = sends ? CCL_WIRING_MULTICAST : CCL_WIRING_REDUCING;
        for (uint32_t i = 0; i < ranks->n; i++) {
            uint32_t c;
            *(sends ? &key.dst : &key.src) = ranks->ranks[i];
            CCL_TRY(take_end(t, u, &key, sends, &c, err));
            if (w->conns[c].in_switch != CCL_NONE)
                return ccl_fail(err, CCL_ERR_INPUT,
                                "rank %u block %u: ranks %u and %u have two switch connections on "
                                "channel %u",
                                single, t->p->tbs[w->units[u].tb].id, key.src, key.dst,
                                key.channel);
            w->conns[c].in_switch = at;
            w->members[w->nmembers++] = c;
        }
    }
    *out = CCL_WIRING_SWITCH | at;
    return CCL_OK;
}

static ccl_status_t take(table_t *t, uint32_t u, bool sends, ccl_peers_t peers, uint32_t stage,
                         uint32_t *out, ccl_error_t *err) {
    uint32_t rank = t->p->tbs[t->w->units[u].tb].rank;
    uint32_t peer = sends ? peers.send_peer : peers.recv_peer;
    conn_key_t key = {sends ? rank : peer, sends ? peer : rank, peers.channel, stage,
                      CCL_WIRING_PLAIN};
    if (ccl_peer_is_group(peer))
        return take_switch(t, u, key, sends, out, err);
    if (ccl_peer_is_member(peer)) {
        t->members = true;
        key.kind = sends ? CCL_WIRING_REDUCING : CCL_WIRING_MULTICAST;
        *(sends ? &key.dst : &key.src) = ccl_peer_rank(peer);
    }
    return take_end(t, u, &key, sends, out, err);
}

static ccl_status_t check_members(const ccl_wiring_t *w, ccl_error_t *err) {
    for (uint32_t i = 0; i < w->nconns; i++) {
        const ccl_wiring_conn_t *c = &w->conns[i];
        bool offers = c->kind == CCL_WIRING_REDUCING;
        if (c->kind == CCL_WIRING_PLAIN || c->in_switch != CCL_NONE)
            continue;
        return ccl_fail(err, CCL_ERR_INPUT,
                        "rank %u %s rank %u on channel %u, which %s no group there that has it",
                        offers ? c->src : c->dst, offers ? "offers to" : "takes the multicast of",
                        offers ? c->dst : c->src, c->channel,
                        offers ? "pulls from" : "multicasts to");
    }
    return CCL_OK;
}

static uint32_t stage_of(const table_t *t, uint32_t unit) {
    return t->stages ? t->p->steps[t->w->order[t->w->units[unit].first]].stage : 0;
}

/** Connections of every step of a unit that has several. */
static ccl_status_t step_conns(table_t *t, uint32_t i, ccl_error_t *err) {
    const ccl_wiring_unit_t *u = &t->w->units[i];
    const ccl_tb_t *tb = &t->p->tbs[u->tb];
    uint32_t stage = stage_of(t, i);
    for (uint32_t k = u->first; k < u->first + u->nsteps; k++) {
        uint32_t s = t->w->order[k], *conns = &t->w->step_conns[2 * (size_t)s];
        ccl_peers_t peers = ccl_program_peers(t->p, tb, s);
        conns[0] = conns[1] = CCL_NONE;
        if (ccl_primitive_sends(t->p->steps[s].type))
            CCL_TRY(take(t, i, true, peers, stage, &conns[0], err));
        if (ccl_primitive_receives(t->p->steps[s].type))
            CCL_TRY(take(t, i, false, peers, stage, &conns[1], err));
    }
    return CCL_OK;
}

/** All senders first: the connections of a rank then follow one another. */
static ccl_status_t unit_conns(table_t *t, ccl_error_t *err) {
    ccl_wiring_t *w = t->w;
    for (uint32_t i = 0; i < w->nunits; i++) {
        ccl_wiring_unit_t *u = &w->units[i];
        const ccl_tb_t *tb = &t->p->tbs[u->tb];
        bool sends = false, receives = false;
        for (uint32_t k = u->first; k < u->first + u->nsteps && !(sends && receives); k++) {
            uint8_t type = t->p->steps[w->order[k]].type;
            sends = sends || ccl_primitive_sends(type);
            receives = receives || ccl_primitive_receives(type);
        }
        u->recv = receives ? 0 : CCL_NONE; /* which one: below */
        if (sends)
            CCL_TRY(take(t, i, true, (ccl_peers_t){tb->send_peer, CCL_NONE, tb->channel},
                         stage_of(t, i), &u->send, err));
    }
    for (uint32_t i = 0; i < w->nunits; i++) {
        ccl_wiring_unit_t *u = &w->units[i];
        const ccl_tb_t *tb = &t->p->tbs[u->tb];
        if (u->recv != CCL_NONE)
            CCL_TRY(take(t, i, false, (ccl_peers_t){CCL_NONE, tb->recv_peer, tb->channel},
                         stage_of(t, i), &u->recv, err));
    }
    return CCL_OK;
}

static ccl_status_t make_conns(const ccl_program_t *p, bool stages, ccl_wiring_t *w,
                               ccl_error_t *err) {
    table_t t = {.p = p, .w = w, .stages = stages, .len = 64, .cconns = w->nunits};
    uint64_t ends = p->peers ? 2ull * p->nsteps : w->nunits;
    t.cnext = w->nunits;
    t.row = p->nranks | 1; /* odd: every slot can be the first of a row */
    while (t.len < ends)
        t.len *= 2;
    t.head = malloc(t.len * sizeof *t.head);
    t.next = malloc((w->nunits + (size_t)1) * sizeof *t.next);
    w->conns = malloc((w->nunits + (size_t)1) * sizeof *w->conns);
    if (p->peers)
        w->step_conns = malloc((2 * (size_t)p->nsteps + 1) * sizeof *w->step_conns);
    ccl_status_t status = CCL_OK;
    if (!t.head || !t.next || !w->conns || (p->peers && !w->step_conns)) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    memset(t.head, 0xff, t.len * sizeof *t.head);
    for (uint32_t i = 0; p->peers && i < w->nunits; i++)
        CCL_TRY_GOTO(step_conns(&t, i, err), status, end);
    if (!p->peers)
        CCL_TRY_GOTO(unit_conns(&t, err), status, end);
    if (t.members)
        status = check_members(w, err);
end:
    free(t.head);
    free(t.next);
    return status;
}

ccl_status_t ccl_wiring_init(const ccl_program_t *program, ccl_granularity_t granularity,
                             ccl_wiring_t *out, ccl_error_t *err) {
    *out = (ccl_wiring_t){0};
    ccl_status_t status = make_units(program, granularity, out)
                              ? make_conns(program, by_stage(granularity), out, err)
                              : ccl_fail_nomem(err);
    if (status != CCL_OK)
        ccl_wiring_fini(out);
    return status;
}

void ccl_wiring_fini(ccl_wiring_t *w) {
    free(w->units);
    free(w->conns);
    free(w->switches);
    free(w->members);
    free(w->rank_units);
    free(w->order);
    free(w->step_conns);
    *w = (ccl_wiring_t){0};
}

/* ---------------------------------------------------------------- messages */

/** FIFOs of what a step sends or receives on: of a switch connection all its members'. */
static uint32_t fifos(const ccl_wiring_t *w, const ccl_program_t *p, const uint32_t *conn,
                      const uint32_t **out) {
    *out = conn;
    if (!ccl_wiring_is_switch(*conn))
        return 1;
    const ccl_wiring_switch_t *s = &w->switches[*conn & ~CCL_WIRING_SWITCH];
    *out = &w->members[s->first];
    return p->groups[s->group].n;
}

/* A connection has one unit at each end, so walking the units in their order meets its sends in
   theirs, and its receives. The members of a multicast have the same sends, so share their list. */
ccl_status_t ccl_wiring_match(const ccl_wiring_t *w, const ccl_program_t *program,
                              uint32_t *receiver, uint32_t *sender, bool *whole_out,
                              ccl_error_t *err) {
    size_t n = program->nsteps, nsends = 0, met = 0, nreceives = 0;
    uint32_t *first = malloc((w->nconns + (size_t)1) * sizeof *first);
    uint32_t *next = malloc((n + 1) * sizeof *next); /* the send behind this one */
    const uint32_t *at;
    if (!first || !next) {
        free(first);
        free(next);
        return ccl_fail_nomem(err);
    }
    memset(receiver, 0xff, n * sizeof *receiver);
    memset(sender, 0xff, n * sizeof *sender);
    for (uint32_t c = 0; c < w->nconns; c++)
        first[c] = CCL_NONE;
    /* Backwards, so that `first` ends at the first send of each connection. */
    for (uint32_t u = w->nunits; u-- > 0;)
        for (uint32_t k = w->units[u].nsteps; k-- > 0;) {
            uint32_t step = w->order[w->units[u].first + k];
            if (!ccl_primitive_sends(program->steps[step].type))
                continue;
            uint32_t conn = ccl_wiring_send(w, u, step), many = fifos(w, program, &conn, &at);
            next[step] = first[at[0]];
            for (uint32_t i = 0; i < many; i++)
                first[at[i]] = step;
            nsends += many;
        }
    for (uint32_t u = 0; u < w->nunits; u++)
        for (uint32_t k = 0; k < w->units[u].nsteps; k++) {
            uint32_t step = w->order[w->units[u].first + k];
            if (!ccl_primitive_receives(program->steps[step].type))
                continue;
            uint32_t conn = ccl_wiring_recv(w, u, step), many = fifos(w, program, &conn, &at);
            nreceives += many;
            for (uint32_t i = 0; i < many; i++) {
                uint32_t from = first[at[i]];
                if (from == CCL_NONE)
                    continue;
                first[at[i]] = next[from];
                met++;
                if (!ccl_wiring_is_switch(conn))
                    sender[step] = from;
                if (!ccl_wiring_is_switch(ccl_wiring_send(w, w->conns[at[i]].sender, from)))
                    receiver[from] = step;
            }
        }
    free(first);
    free(next);
    *whole_out = met == nsends && met == nreceives;
    return CCL_OK;
}
