/* Arrows of a trace, from a send to the receive that takes its data. */
#include "sim/trace/trace.h"

#include <stdlib.h>

/** A pass as an end of a connection. */
typedef struct end {
    uint32_t from, to, channel;
    uint32_t at; /* which of the connection's sends (receives) of a micro-batch */
    uint32_t batch, slice;
    bool receives;
    const ccl_trace_span_t *pass;
} end_t;

static int by_key(const void *a, const void *b) {
    const end_t *x = a, *y = b;
    const uint32_t keys[6][2] = {{x->from, y->from},   {x->to, y->to}, {x->channel, y->channel},
                                 {x->batch, y->batch}, {x->at, y->at}, {x->slice, y->slice}};

    for (int i = 0; i < 6; i++)
        if (keys[i][0] != keys[i][1])
            return keys[i][0] < keys[i][1] ? -1 : 1;
    return x->receives < y->receives ? -1 : x->receives > y->receives;
}

static bool same(const end_t *x, const end_t *y) {
    return x->from == y->from && x->to == y->to && x->channel == y->channel &&
           x->batch == y->batch && x->at == y->at && x->slice == y->slice && !x->receives &&
           y->receives;
}

/** Number of a step among those of its block that send (receive) on its connection. */
static void number_steps(const ccl_program_t *p, bool receives, uint32_t *at) {
    for (uint32_t b = 0; b < p->ntbs; b++) {
        uint32_t n = 0;

        for (uint32_t s = p->tbs[b].first_step; s < p->tbs[b].first_step + p->tbs[b].nsteps; s++) {
            ccl_primitive_t type = (ccl_primitive_t)p->steps[s].type;

            at[s] = n;
            n += receives ? ccl_primitive_receives(type) : ccl_primitive_sends(type);
        }
    }
}

static ccl_status_t ends_of(ccl_i_trace_writer_t *w, end_t **out, size_t *n_out, ccl_error_t *err) {
    const ccl_program_t *p = w->about->program;
    uint32_t *at[2];
    end_t *ends;
    size_t n = 0;

    for (int i = 0; i < 2; i++) {
        at[i] = ccl_arena_alloc(&w->arena, p->nsteps + (size_t)1, sizeof(**at));
        if (!at[i])
            return ccl_fail_nomem(err);
        number_steps(p, i == 1, at[i]);
    }
    ends = malloc((2 * w->npasses + 1) * sizeof(*ends));
    if (!ends)
        return ccl_fail_nomem(err);
    for (size_t i = 0; i < w->npasses; i++) {
        const ccl_trace_span_t *pass = &w->rows[i];
        const ccl_tb_t *tb = &p->tbs[p->rank_first_tb[pass->rank] + pass->other];
        ccl_peers_t peers = ccl_program_peers(p, tb, pass->step);
        ccl_primitive_t type = (ccl_primitive_t)p->steps[pass->step].type;
        end_t end = {0, 0, peers.channel, 0, pass->batch, pass->slice, false, pass};

        if (!w->shown[pass->rank])
            continue;
        if (ccl_primitive_sends(type) && !ccl_peer_is_group(peers.send_peer)) {
            end.from = pass->rank;
            end.to = peers.send_peer;
            end.at = at[0][pass->step];
            ends[n++] = end;
        }
        if (ccl_primitive_receives(type) && !ccl_peer_is_group(peers.recv_peer)) {
            end.from = peers.recv_peer;
            end.to = pass->rank;
            end.at = at[1][pass->step];
            end.receives = true;
            ends[n++] = end;
        }
    }
    *out = ends;
    *n_out = n;
    return CCL_OK;
}

/** An end of an arrow; its time is inside the pass, so that viewers find the slice. */
static void write_end(ccl_i_trace_writer_t *w, const ccl_trace_span_t *pass, bool start,
                      uint64_t id) {
    double at_s = (pass->start_s + pass->end_s) / 2;

    ccl_text_printf(w->out,
                    ",\n{\"ph\":\"%s\",\"cat\":\"data\",\"name\":\"data\",\"id\":%llu,"
                    "\"pid\":%u,\"tid\":%u,\"ts\":%.8g}",
                    start ? "s" : "f\",\"bp\":\"e", (unsigned long long)id, pass->rank,
                    ccl_i_trace_row(w, pass), at_s * 1e6);
}

ccl_status_t ccl_i_trace_arrows(ccl_i_trace_writer_t *w, ccl_error_t *err) {
    end_t *ends = NULL;
    size_t n = 0;
    uint64_t id = 0;

    if (!w->about->program)
        return CCL_OK;
    CCL_TRY(ends_of(w, &ends, &n, err));
    qsort(ends, n, sizeof(*ends), by_key);
    for (size_t i = 0; i + 1 < n; i++) {
        if (!same(&ends[i], &ends[i + 1]))
            continue;
        id++;
        write_end(w, ends[i].pass, true, id);
        write_end(w, ends[i + 1].pass, false, id);
    }
    free(ends);
    return CCL_OK;
}
