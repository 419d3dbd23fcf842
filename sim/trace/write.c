/*
 * A trace as Chrome's trace events
 * (https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU): complete
 * events ("ph":"X"), times in microseconds.
 */
#include "sim/trace/trace.h"

#include <math.h>
#include <stdlib.h>

void ccl_i_trace_string(ccl_text_t *out, const char *text) {
    for (const unsigned char *s = (const unsigned char *)text; *s; s++) {
        if (*s < 0x20 || *s == '"' || *s == '\\')
            ccl_text_printf(out, "\\u%04x", *s);
        else
            ccl_text_add(out, (const char *)s, 1);
    }
}

static const char *end_name(const ccl_trace_t *t, uint32_t end, char *out, size_t len) {
    if (ccl_peer_is_group(end) && (end & ~CCL_PEER_GROUP) < t->ngroups)
        snprintf(out, len, "GPUs %s", t->groups[end & ~CCL_PEER_GROUP]);
    else if (ccl_peer_is_member(end))
        snprintf(out, len, "GPU %u through a switch", ccl_peer_rank(end));
    else
        snprintf(out, len, "GPU %u", end);
    return out;
}

uint32_t ccl_i_trace_stage(const ccl_i_trace_writer_t *w, const ccl_trace_span_t *pass) {
    const ccl_trace_about_t *about = w->about;

    return about->program && about->result && about->result->stages
               ? about->program->steps[pass->step].stage
               : 0;
}

uint32_t ccl_i_trace_row(const ccl_i_trace_writer_t *w, const ccl_trace_span_t *pass) {
    bool stages = w->about->result && w->about->result->stages;

    return stages ? pass->other * 1000 + ccl_i_trace_stage(w, pass) : pass->other;
}

static int by_place(const void *a, const void *b) {
    const ccl_trace_span_t *x = a, *y = b;
    int dx = (x->name == NULL) - (y->name == NULL);

    if (dx)
        return dx;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    if (x->other != y->other)
        return x->other < y->other ? -1 : 1;
    if (!x->name && x->channel != y->channel)
        return x->channel < y->channel ? -1 : 1;
    if (x->start_s != y->start_s)
        return x->start_s < y->start_s ? -1 : 1;
    return x->end_s < y->end_s ? -1 : x->end_s > y->end_s;
}

/* ---------------------------------------------------------------- words */

static void process_name(ccl_i_trace_writer_t *w, uint32_t rank) {
    const ccl_topology_t *topo = w->about->topo;

    ccl_text_printf(
        w->out, ",\n{\"ph\":\"M\",\"pid\":%u,\"name\":\"process_name\",\"args\":{\"name\":\"GPU %u",
        rank, rank);
    if (topo && rank < topo->nranks) {
        ccl_text_printf(w->out, " (");
        ccl_i_trace_string(w->out, topo->devices[topo->rank_device[rank]].id);
        ccl_text_printf(w->out, ")");
    }
    ccl_text_printf(w->out,
                    "\"}},\n{\"ph\":\"M\",\"pid\":%u,\"name\":\"process_sort_index\",\"args\":{"
                    "\"name\":\"\",\"sort_index\":%u}}",
                    rank, rank);
}

static void block_name(ccl_i_trace_writer_t *w, const ccl_trace_span_t *pass) {
    const ccl_program_t *p = w->about->program;
    const ccl_tb_t *tb = p ? &p->tbs[p->rank_first_tb[pass->rank] + pass->other] : NULL;
    char peer[80];

    ccl_text_printf(w->out,
                    ",\n{\"ph\":\"M\",\"pid\":%u,\"tid\":%u,\"name\":\"thread_name\",\"args\":{"
                    "\"name\":\"block %u",
                    pass->rank, ccl_i_trace_row(w, pass), pass->other);
    if (w->about->result && w->about->result->stages)
        ccl_text_printf(w->out, " stage %u", ccl_i_trace_stage(w, pass));
    if (tb && tb->recv_peer != CCL_NONE)
        ccl_text_printf(w->out, ", from %s", end_name(w->trace, tb->recv_peer, peer, sizeof(peer)));
    if (tb && tb->send_peer != CCL_NONE)
        ccl_text_printf(w->out, "%s to %s", tb->recv_peer != CCL_NONE ? "" : ",",
                        end_name(w->trace, tb->send_peer, peer, sizeof(peer)));
    if (tb && (tb->recv_peer != CCL_NONE || tb->send_peer != CCL_NONE))
        ccl_text_printf(w->out, ", channel %u", tb->channel);
    ccl_text_printf(w->out, "\"}}");
}

/** "receive and reduce", "send" ... and their category. */
static const char *verb_of(ccl_primitive_t type, const char **category) {
    *category = !ccl_primitive_sends(type)     ? ccl_primitive_receives(type) ? "receive" : "local"
                : ccl_primitive_receives(type) ? "forward"
                                               : "send";
    switch (type) {
    case CCL_PRIM_S:
        return "send";
    case CCL_PRIM_R:
        return "receive";
    case CCL_PRIM_RCS:
        return "receive, keep and send on";
    case CCL_PRIM_RRS:
        return "receive, reduce and send on";
    case CCL_PRIM_RRC:
        return "receive and reduce";
    case CCL_PRIM_RRCS:
        return "receive, reduce, keep and send on";
    case CCL_PRIM_CPY:
        return "copy";
    case CCL_PRIM_RE:
        return "reduce";
    case CCL_PRIM_NOP:
        break;
    }
    return "nothing";
}

static void write_pass(ccl_i_trace_writer_t *w, const ccl_trace_span_t *r) {
    const ccl_program_t *p = w->about->program;
    const ccl_tb_t *tb = p ? &p->tbs[p->rank_first_tb[r->rank] + r->other] : NULL;
    ccl_text_t *out = w->out;
    char data[100], peer[80];
    const char *category = "pass";

    ccl_text_printf(out, ",\n{\"ph\":\"X\",\"pid\":%u,\"tid\":%u,\"name\":\"", r->rank,
                    ccl_i_trace_row(w, r));
    if (p) {
        ccl_primitive_t type = (ccl_primitive_t)p->steps[r->step].type;
        ccl_peers_t peers = ccl_program_peers(p, tb, r->step);

        ccl_step_data_text(p, r->step, data, sizeof(data));
        ccl_text_printf(out, "%s %s", verb_of(type, &category), data);
        if (ccl_primitive_receives(type))
            ccl_text_printf(out, ", from %s",
                            end_name(w->trace, peers.recv_peer, peer, sizeof(peer)));
        if (ccl_primitive_sends(type))
            ccl_text_printf(out, "%s to %s", ccl_primitive_receives(type) ? "" : ",",
                            end_name(w->trace, peers.send_peer, peer, sizeof(peer)));
    } else {
        ccl_text_printf(out, "%s", r->name);
    }
    ccl_text_printf(
        out,
        "\",\"cat\":\"%s\",\"ts\":%.15g,\"dur\":%.9g,\"args\":{\"primitive\":\"%s\",\"step\":%u,"
        "\"batch\":%u,\"slice\":%u,\"bytes\":%.9g}}",
        category, r->start_s * 1e6, (r->end_s - r->start_s) * 1e6, r->name, r->at, r->batch,
        r->slice, r->bytes);
}

/* ---------------------------------------------------------------- waits */

static void write_wait(ccl_i_trace_writer_t *w, const ccl_trace_span_t *pass, const char *of,
                       const char *what, double from_s, double s) {
    if (!(s > 0.5e-9))
        return;
    ccl_text_printf(w->out,
                    ",\n{\"ph\":\"X\",\"pid\":%u,\"tid\":%u,\"name\":\"%s\",\"cat\":\"wait %s\","
                    "\"ts\":%.9g,\"dur\":%.9g}",
                    pass->rank, ccl_i_trace_row(w, pass), what, of, from_s * 1e6, s * 1e6);
}

/** Seconds not longer than what is left. */
static double take(double *left_s, double s) {
    double taken = s < *left_s ? (s > 0 ? s : 0) : *left_s;

    *left_s -= taken;
    return taken;
}

void ccl_i_trace_waits(ccl_i_trace_writer_t *w, const ccl_trace_span_t *pass,
                       const ccl_trace_span_t *last, double from_s) {
    const ccl_program_t *p = w->about->program;
    ccl_peers_t peers = {CCL_NONE, CCL_NONE, 0};
    double left_s = pass->start_s - from_s, s;
    char peer[80], what[160];

    if (!(left_s > 0))
        return;
    if (p)
        peers =
            ccl_program_peers(p, &p->tbs[p->rank_first_tb[pass->rank] + pass->other], pass->step);
    s = take(&left_s, pass->peer_s - (last ? last->peer_s : 0));
    write_wait(w, pass, "block", "waits for another block of its GPU", from_s, s);
    from_s += s;
    s = take(&left_s, pass->data_s - (last ? last->data_s : 0));
    snprintf(what, sizeof(what), "waits for data%s%s", peers.recv_peer != CCL_NONE ? " from " : "",
             peers.recv_peer != CCL_NONE ? end_name(w->trace, peers.recv_peer, peer, sizeof(peer))
                                         : "");
    write_wait(w, pass, "data", what, from_s, s);
    from_s += s;
    s = take(&left_s, pass->slot_s - (last ? last->slot_s : 0));
    snprintf(
        what, sizeof(what), "waits for a free slot%s%s", peers.send_peer != CCL_NONE ? " at " : "",
        peers.send_peer != CCL_NONE ? end_name(w->trace, peers.send_peer, peer, sizeof(peer)) : "");
    write_wait(w, pass, "slot", what, from_s, s);
}

/* ---------------------------------------------------------------- the whole */

/** Passes of a GPU's block; at stage level its stages run at the same time. */
static void write_block(ccl_i_trace_writer_t *w, size_t first, size_t end) {
    uint32_t most = 0;

    for (size_t i = first; i < end; i++) {
        uint32_t stage = ccl_i_trace_stage(w, &w->rows[i]);

        most = stage > most ? stage : most;
    }
    for (uint32_t stage = 0; stage <= most; stage++) {
        const ccl_trace_span_t *last = NULL;
        const ccl_program_t *p = w->about->program;

        for (size_t i = first; i < end; i++) {
            const ccl_trace_span_t *pass = &w->rows[i];
            double from_s = pass->start_s;

            if (ccl_i_trace_stage(w, pass) != stage)
                continue;
            if (!last)
                block_name(w, pass);
            if (last)
                from_s = last->end_s;
            else if (p && w->about->result && w->about->result->tbs)
                from_s = w->about->result->tbs[p->rank_first_tb[pass->rank] + pass->other].start_s;
            ccl_i_trace_waits(w, pass, last, from_s);
            write_pass(w, pass);
            last = pass;
        }
    }
}

static void write_passes(ccl_i_trace_writer_t *w) {
    uint32_t rank = CCL_NONE;

    for (size_t i = 0, end; i < w->npasses; i = end) {
        const ccl_trace_span_t *r = &w->rows[i];

        for (end = i + 1;
             end < w->npasses && w->rows[end].rank == r->rank && w->rows[end].other == r->other;)
            end++;
        if (!w->shown[r->rank])
            continue;
        if (r->rank != rank)
            process_name(w, r->rank);
        rank = r->rank;
        write_block(w, i, end);
    }
}

static void write_slices(ccl_i_trace_writer_t *w) {
    const ccl_trace_span_t *last = NULL;
    uint32_t tid = 0;

    ccl_text_printf(w->out,
                    "{\"ph\":\"M\",\"pid\":%u,\"name\":\"process_name\",\"args\":{\"name\":"
                    "\"network, by connection\"}}",
                    TRACE_NETWORK);
    for (size_t i = w->npasses; i < w->n; i++) {
        const ccl_trace_span_t *r = &w->rows[i];
        char from[80], to[80], data[100];

        if (r->rank < w->nranks && !w->shown[r->rank])
            continue;
        if (!last || last->rank != r->rank || last->other != r->other ||
            last->channel != r->channel) {
            tid++;
            ccl_text_printf(w->out,
                            ",\n{\"ph\":\"M\",\"pid\":%u,\"tid\":%u,\"name\":\"thread_name\","
                            "\"args\":{\"name\":\"%s to %s, channel %u\"}}",
                            TRACE_NETWORK, tid, end_name(w->trace, r->rank, from, sizeof(from)),
                            end_name(w->trace, r->other, to, sizeof(to)), r->channel);
        }
        last = r;
        if (w->about->program)
            ccl_step_data_text(w->about->program, r->step, data, sizeof(data));
        else
            snprintf(data, sizeof(data), "flow %u", r->step);
        ccl_text_printf(
            w->out,
            ",\n{\"ph\":\"X\",\"pid\":%u,\"tid\":%u,\"cat\":\"network\",\"name\":\"%s\","
            "\"ts\":%.15g,\"dur\":%.9g,\"args\":{\"channel\":%u,\"bytes\":%.9g}}",
            TRACE_NETWORK, tid, data, r->start_s * 1e6, (r->end_s - r->start_s) * 1e6, r->channel,
            r->bytes);
    }
}

static ccl_status_t sorted(ccl_i_trace_writer_t *w, ccl_error_t *err) {
    const ccl_trace_t *t = w->trace;

    w->rows = malloc((t->n + 1) * sizeof(*w->rows));
    if (!w->rows || t->nomem)
        return ccl_fail_nomem(err);
    for (size_t i = 0; i < t->n; i++) {
        w->rows[i] = t->rows[i];
        w->npasses += t->rows[i].name != NULL;
        w->time_s = fmax(w->time_s, t->rows[i].end_s);
        if (t->rows[i].name || !ccl_peer_is_group(t->rows[i].rank))
            w->nranks = t->rows[i].rank >= w->nranks ? t->rows[i].rank + 1 : w->nranks;
    }
    w->n = t->n;
    qsort(w->rows, w->n, sizeof(*w->rows), by_place);
    return CCL_OK;
}

ccl_status_t ccl_trace_write(const ccl_trace_t *trace, const ccl_trace_about_t *about,
                             ccl_text_t *out, ccl_error_t *err) {
    CCL_OPTIONS_TRY(ccl_trace_about_t, about, err);
    static const ccl_trace_about_t nothing = CCL_TRACE_ABOUT_INIT;
    ccl_i_trace_writer_t w = {.trace = trace, .about = about ? about : &nothing, .out = out};
    ccl_status_t status = CCL_OK;

    ccl_arena_init(&w.arena);
    CCL_TRY_GOTO(sorted(&w, err), status, done);
    CCL_TRY_GOTO(ccl_i_trace_choose(&w, err), status, done);
    ccl_text_printf(out,
                    "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"tool\":\"ccllab " CCL_VERSION
                    "\",\"dropped\":%llu,\"gpus\":%u,\"gpus_in_full\":%u},\"traceEvents\":[\n",
                    (unsigned long long)trace->dropped, w.nranks, w.nshown);
    write_slices(&w);
    write_passes(&w);
    CCL_TRY_GOTO(ccl_i_trace_arrows(&w, err), status, done);
    CCL_TRY_GOTO(ccl_i_trace_link_counters(&w, err), status, done);
    CCL_TRY_GOTO(ccl_i_trace_busy_counters(&w, err), status, done);
    ccl_text_printf(out, "\n]}\n");
    status = out->nomem ? ccl_fail_nomem(err) : CCL_OK;
done:
    free(w.rows);
    ccl_arena_fini(&w.arena);
    return status;
}
