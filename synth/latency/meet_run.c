/* What a plan of meetings takes: a small simulation of its own, as a search asks for thousands. */
#include "synth/latency/meet.h"

#include <math.h>
#include <stdlib.h>

ccl_i_meet_run_t *ccl_i_meet_run_create(const ccl_i_meet_net_t *net) {
    ccl_i_meet_run_t *run = calloc(1, sizeof *run);
    if (!run)
        return NULL;
    run->net = net;
    run->left_Bps = calloc(net->x.nresources + (size_t)1, sizeof *run->left_Bps);
    run->users = calloc(net->x.nresources + (size_t)1, sizeof *run->users);
    if (run->left_Bps && run->users)
        return run;
    ccl_i_meet_run_destroy(run);
    return NULL;
}

void ccl_i_meet_run_destroy(ccl_i_meet_run_t *run) {
    if (run) {
        free(run->left_Bps);
        free(run->users);
    }
    free(run);
}

/* ---------------------------------------------------------------- what waits for what */

static double alone_s(const ccl_i_meet_run_t *r, uint32_t from, uint32_t to) {
    return ccl_i_meet_alone_s(&r->net->hops[r->net->hop[from][to]], r->bytes);
}

static bool in_core(const ccl_i_meeting_t *m, uint32_t v) {
    return m->core >> v & 1;
}

static double out_tail(ccl_i_meet_run_t *r, uint32_t chunk, uint32_t v) {
    const ccl_i_meeting_t *m = &r->meetings[chunk];
    double *known = &r->chunks[chunk].out_tail[v];
    if (*known < 0) {
        *known = 0;
        for (uint32_t w = 0; w < r->net->n && r->net->outs; w++)
            if (!in_core(m, w) && m->out[w] == v)
                *known = fmax(*known, alone_s(r, v, w) + out_tail(r, chunk, w));
    }
    return *known;
}

static double in_tail(ccl_i_meet_run_t *r, uint32_t chunk, uint32_t v) {
    const ccl_i_meeting_t *m = &r->meetings[chunk];
    double *known = &r->chunks[chunk].in_tail[v];
    if (*known < 0 && in_core(m, v)) {
        *known = out_tail(r, chunk, v);
        for (uint32_t w = 0; w < r->net->n; w++)
            if (w != v && in_core(m, w))
                *known = fmax(*known, alone_s(r, v, w) + out_tail(r, chunk, w));
    } else if (*known < 0) {
        *known = alone_s(r, v, m->in[v]) + in_tail(r, chunk, m->in[v]);
    }
    return *known;
}

static void add_ready(ccl_i_meet_run_t *r, uint32_t chunk, uint32_t src, uint32_t dst,
                      ccl_i_meet_kind_t kind) {
    uint32_t i = r->nmoves++;
    ccl_i_meet_lane_t *lane = &r->lanes[r->net->hop[src][dst]];
    r->moves[i] = (ccl_i_meet_move_t){
        .src = (uint8_t)src, .dst = (uint8_t)dst, .chunk = (uint8_t)chunk, .kind = (uint8_t)kind};
    r->moves[i].tail_s = alone_s(r, src, dst) +
                         (kind == CCL_I_MEET_IN ? in_tail(r, chunk, dst) : out_tail(r, chunk, dst));
    r->next[i] = lane->ready;
    lane->ready = i;
    r->waiting |= 1ull << r->net->hop[src][dst];
}

static void has_result(ccl_i_meet_run_t *r, uint32_t chunk, uint32_t v) {
    const ccl_i_meeting_t *m = &r->meetings[chunk];
    r->total_s += r->now_s;
    r->undone--;
    for (uint32_t w = 0; w < r->net->n && r->net->outs; w++)
        if (!in_core(m, w) && m->out[w] == v)
            add_ready(r, chunk, v, w, CCL_I_MEET_OUT);
}

static void has_part(ccl_i_meet_run_t *r, uint32_t chunk, uint32_t v) {
    if (--r->chunks[chunk].lacks[v] == 0)
        has_result(r, chunk, v);
}

static void has_sum(ccl_i_meet_run_t *r, uint32_t chunk, uint32_t v) {
    const ccl_i_meeting_t *m = &r->meetings[chunk];
    if (--r->chunks[chunk].sums[v] > 0)
        return;
    if (!in_core(m, v)) {
        add_ready(r, chunk, v, m->in[v], CCL_I_MEET_IN);
        return;
    }
    for (uint32_t w = 0; w < r->net->n; w++)
        if (w != v && in_core(m, w))
            add_ready(r, chunk, v, w, CCL_I_MEET_CORE);
    has_part(r, chunk, v);
}

static void begin(ccl_i_meet_run_t *r, uint32_t chunk) {
    const ccl_i_meeting_t *m = &r->meetings[chunk];
    ccl_i_meet_chunk_t *c = &r->chunks[chunk];
    uint32_t size = (uint32_t)__builtin_popcount(m->core);
    c->sends = (uint8_t)(size * (size - 1));
    c->turn = CCL_NONE;
    for (uint32_t v = 0; v < r->net->n; v++) {
        c->out_tail[v] = c->in_tail[v] = -1;
        c->sums[v] = 1;
        c->lacks[v] = (uint8_t)size;
        c->begun[v] = 0;
    }
    for (uint32_t v = 0; v < r->net->n && r->net->ins; v++)
        if (!in_core(m, v))
            c->sums[m->in[v]]++;
    for (uint32_t v = 0; v < r->net->n; v++)
        if (r->net->ins || in_core(m, v))
            has_sum(r, chunk, v);
}

/* ---------------------------------------------------------------- links */

/* Whether a chunk whose sums began to be exchanged before has still to come on a hop. */
static bool passed(const ccl_i_meet_run_t *r, const ccl_i_meet_move_t *m) {
    uint32_t turn = r->chunks[m->chunk].turn;
    for (uint32_t c = 0; c < r->nchunks; c++) {
        const ccl_i_meet_chunk_t *d = &r->chunks[c];
        if (c != m->chunk && d->turn < turn && in_core(&r->meetings[c], m->src) &&
            in_core(&r->meetings[c], m->dst) && !(d->begun[m->src] >> m->dst & 1))
            return true;
    }
    return false;
}

/* Of those that wait the one with the most to follow; of equals the first chunk's. */
static void start(ccl_i_meet_run_t *r, uint32_t h) {
    ccl_i_meet_lane_t *lane = &r->lanes[h];
    uint32_t *best = NULL;
    for (uint32_t *i = &lane->ready; *i != CCL_NONE; i = &r->next[*i]) {
        if (r->moves[*i].kind == CCL_I_MEET_CORE && passed(r, &r->moves[*i]))
            continue;
        double more = best ? r->moves[*i].tail_s - r->moves[*best].tail_s : 1;
        if (more > 0 || (!(more < 0) && r->moves[*i].chunk < r->moves[*best].chunk))
            best = i;
    }
    if (!best)
        return;
    lane->sending = *best;
    *best = r->next[lane->sending];
    lane->left = r->bytes;
    lane->Bps = 0;
    lane->begin_s = r->now_s + r->net->hops[h].overhead_s;
    r->sending |= 1ull << h;
    if (lane->ready == CCL_NONE)
        r->waiting &= ~(1ull << h);
    lane->end_s = INFINITY;
    ccl_i_meet_move_t *m = &r->moves[lane->sending];
    ccl_i_meet_chunk_t *c = &r->chunks[m->chunk];
    m->start_s = r->now_s;
    if (m->kind == CCL_I_MEET_CORE) {
        c->begun[m->src] |= (uint8_t)(1u << m->dst);
        c->turn = c->turn == CCL_NONE ? r->nturns++ : c->turn;
    }
}

/* Max-min fair rates of what is on shared links. */
static void share(ccl_i_meet_run_t *r) {
    const ccl_i_exchange_t *x = &r->net->x;
    uint8_t open[CCL_I_MEET_HOPS];
    uint32_t nopen = 0;
    for (uint32_t i = 0; i < x->nresources; i++) {
        r->left_Bps[i] = x->resources[i].Bps;
        r->users[i] = 0;
    }
    for (uint64_t all = r->sending; all; all &= all - 1) {
        uint32_t h = (uint32_t)__builtin_ctzll(all);
        const ccl_i_meet_hop_t *hop = &r->net->hops[h];
        ccl_i_meet_lane_t *lane = &r->lanes[h];
        if (lane->begin_s > r->now_s)
            continue;
        lane->Bps = hop->most_Bps;
        if (!hop->shared)
            continue;
        open[nopen++] = (uint8_t)h;
        for (uint32_t u = hop->first_use; u < hop->first_use + hop->nuses; u++)
            r->users[x->uses[u].resource] += x->uses[u].times;
    }
    while (nopen > 0) {
        double least = INFINITY;
        uint32_t at = 0;
        for (uint32_t k = 0; k < nopen; k++) {
            const ccl_i_meet_hop_t *hop = &r->net->hops[open[k]];
            double Bps = hop->most_Bps;
            for (uint32_t u = hop->first_use; u < hop->first_use + hop->nuses; u++) {
                uint32_t i = x->uses[u].resource;
                Bps = fmin(Bps, r->left_Bps[i] / r->users[i]);
            }
            at = Bps < least ? k : at;
            least = fmin(least, Bps);
        }
        const ccl_i_meet_hop_t *hop = &r->net->hops[open[at]];
        r->lanes[open[at]].Bps = least;
        open[at] = open[--nopen];
        for (uint32_t u = hop->first_use; u < hop->first_use + hop->nuses; u++) {
            uint32_t i = x->uses[u].resource;
            r->left_Bps[i] -= least * x->uses[u].times;
            r->users[i] -= x->uses[u].times;
        }
    }
}

/* What has arrived in its turn, unless what it would be added to is still to be sent. */
static void receive(ccl_i_meet_run_t *r, uint32_t h) {
    ccl_i_meet_lane_t *lane = &r->lanes[h];
    while (lane->first != CCL_NONE && r->arrive_s[lane->first] <= r->now_s) {
        ccl_i_meet_move_t *m = &r->moves[lane->first];
        if (m->kind == CCL_I_MEET_CORE && r->chunks[m->chunk].sends > 0)
            return;
        lane->first = r->next[lane->first];
        if (lane->first == CCL_NONE)
            r->coming &= ~(1ull << h);
        m->done_s = r->now_s;
        if (m->kind == CCL_I_MEET_IN)
            has_sum(r, m->chunk, m->dst);
        else if (m->kind == CCL_I_MEET_CORE)
            has_part(r, m->chunk, m->dst);
        else
            has_result(r, m->chunk, m->dst);
    }
}

static void sent(ccl_i_meet_run_t *r, uint32_t h) {
    ccl_i_meet_lane_t *lane = &r->lanes[h];
    uint32_t i = lane->sending;
    const ccl_i_meet_move_t *m = &r->moves[i];
    r->sending &= ~(1ull << h);
    r->coming |= 1ull << h;
    r->arrive_s[i] = r->now_s + r->net->hops[h].latency_s;
    r->next[i] = CCL_NONE;
    if (lane->first == CCL_NONE)
        lane->first = i;
    else
        r->next[lane->last] = i;
    lane->last = i;
    lane->sending = CCL_NONE;
    if (m->kind == CCL_I_MEET_CORE)
        r->chunks[m->chunk].sends--;
}

/* When something happens next; INFINITY: never. */
static double next_s(ccl_i_meet_run_t *r) {
    double next = INFINITY;
    for (uint64_t all = r->sending; all; all &= all - 1) {
        ccl_i_meet_lane_t *lane = &r->lanes[__builtin_ctzll(all)];
        lane->end_s = lane->begin_s > r->now_s ? INFINITY : r->now_s + lane->left / lane->Bps;
        next = fmin(next, lane->begin_s > r->now_s ? lane->begin_s : lane->end_s);
    }
    for (uint64_t all = r->coming; all; all &= all - 1) {
        double arrive_s = r->arrive_s[r->lanes[__builtin_ctzll(all)].first];
        next = arrive_s > r->now_s ? fmin(next, arrive_s) : next;
    }
    return next;
}

/* All that happens at one time; what it lets start has started then. */
static void step(ccl_i_meet_run_t *r, double at_s) {
    double past_s = at_s - r->now_s, before_s = r->now_s;
    r->now_s = at_s;
    for (uint64_t all = r->sending; all; all &= all - 1) {
        uint32_t h = (uint32_t)__builtin_ctzll(all);
        ccl_i_meet_lane_t *lane = &r->lanes[h];
        if (lane->begin_s <= before_s)
            lane->left -= lane->Bps * past_s;
        if (lane->end_s <= at_s * (1 + 1e-12))
            sent(r, h);
    }
    for (uint64_t all = r->coming; all; all &= all - 1)
        receive(r, (uint32_t)__builtin_ctzll(all));
    for (uint64_t all = r->waiting & ~r->sending; all; all &= all - 1)
        start(r, (uint32_t)__builtin_ctzll(all));
}

double ccl_i_meet_time(ccl_i_meet_run_t *r, const ccl_i_meeting_t *meetings, uint32_t nchunks,
                       double bytes) {
    r->meetings = meetings;
    r->bytes = bytes;
    r->now_s = r->total_s = 0;
    r->waiting = r->sending = r->coming = 0;
    r->nmoves = r->nturns = 0;
    r->nchunks = nchunks;
    r->undone = nchunks * (r->net->outs ? r->net->n : 1);
    for (uint32_t h = 0; h < r->net->nhops; h++)
        r->lanes[h] =
            (ccl_i_meet_lane_t){.ready = CCL_NONE, .first = CCL_NONE, .sending = CCL_NONE};
    for (uint32_t c = 0; c < nchunks; c++)
        begin(r, c);
    step(r, 0);
    while (r->undone > 0) {
        share(r);
        double next = next_s(r);
        if (!(next < INFINITY))
            return INFINITY;
        step(r, next);
    }
    r->work += r->nmoves;
    return r->now_s;
}
