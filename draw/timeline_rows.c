/* The rows of a timeline: thread blocks, GPUs, servers or links, and what each did in each part of
 * time. */
#include "draw/timeline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = CCL_I_MOST_ROWS, MOST_GPU_ROWS = 512, MOST_FOLDED = 20000 };

typedef ccl_i_timeline_row_t row_t;
typedef ccl_i_timeline_t timeline_t;

/* ---------------------------------------------------------------- rows */

static uint32_t stages_of(const timeline_t *t, const ccl_tb_t *tb) {
    uint32_t most = 0;

    if (!t->result->stages)
        return 1;
    for (uint32_t s = tb->first_step; s < tb->first_step + tb->nsteps; s++)
        if (t->program->steps[s].stage > most)
            most = t->program->steps[s].stage;
    return most + 1;
}

static void block_name(const timeline_t *t, const ccl_tb_t *tb, uint32_t stage, char *out,
                       size_t out_len) {
    int n = snprintf(out, out_len, "%u.%u", tb->rank, tb->id);

    if (t->result->stages)
        n += snprintf(out + n, out_len - (size_t)n, " st %u", stage);
    char to[32], from[32];
    ccl_peer_text(t->program, tb->send_peer, to, sizeof(to));
    ccl_peer_text(t->program, tb->recv_peer, from, sizeof(from));
    if (tb->recv_peer != CCL_NONE && tb->send_peer != CCL_NONE)
        n += snprintf(out + n, out_len - (size_t)n, "  %s>%u>%s", from, tb->rank, to);
    else if (tb->send_peer != CCL_NONE)
        n += snprintf(out + n, out_len - (size_t)n, "  >%s", to);
    else if (tb->recv_peer != CCL_NONE)
        n += snprintf(out + n, out_len - (size_t)n, "  <%s", from);
    if ((size_t)n >= out_len) /* more than there is room for */
        memcpy(out + out_len - 4, "...", 4);
}

static ccl_status_t make_lanes(timeline_t *t, ccl_error_t *err) {
    const ccl_program_t *p = t->program;
    uint32_t lanes = 0;

    t->first_lane = ccl_arena_alloc(&t->arena, p->ntbs + (size_t)1, sizeof(*t->first_lane));
    if (!t->first_lane)
        return ccl_fail_nomem(err);
    for (uint32_t b = 0; b < p->ntbs; b++) {
        t->first_lane[b] = lanes;
        lanes += stages_of(t, &p->tbs[b]);
        if (t->options->rank == CCL_NONE || p->tbs[b].rank == t->options->rank)
            t->nlanes = t->nlanes + stages_of(t, &p->tbs[b]);
    }
    t->first_lane[p->ntbs] = lanes;
    t->lane_row = ccl_arena_alloc(&t->arena, lanes + (size_t)1, sizeof(*t->lane_row));
    return t->lane_row ? CCL_OK : ccl_fail_nomem(err);
}

static ccl_status_t make_block_rows(timeline_t *t, ccl_error_t *err) {
    const ccl_program_t *p = t->program;
    uint32_t last = CCL_NONE;

    t->rows = ccl_arena_alloc(&t->arena, t->nlanes + (size_t)1, sizeof(*t->rows));
    if (!t->rows)
        return ccl_fail_nomem(err);
    for (uint32_t b = 0; b < p->ntbs; b++) {
        const ccl_tb_t *tb = &p->tbs[b];
        uint32_t server = t->topo->devices[t->topo->rank_device[tb->rank]].server;

        for (uint32_t lane = t->first_lane[b]; lane < t->first_lane[b + 1]; lane++) {
            uint32_t key = t->by == CCL_DRAW_ROWS_BLOCK ? lane
                           : t->by == CCL_DRAW_ROWS_GPU ? tb->rank
                                                        : server;
            row_t *row;

            t->lane_row[lane] = CCL_NONE;
            if (t->options->rank != CCL_NONE && tb->rank != t->options->rank)
                continue;
            if (t->nrows == 0 || key != last) {
                row = &t->rows[t->nrows++];
                *row = (row_t){.rank = tb->rank, .server = server};
                if (t->by == CCL_DRAW_ROWS_BLOCK)
                    block_name(t, tb, lane - t->first_lane[b], row->name, sizeof(row->name));
                else if (t->by == CCL_DRAW_ROWS_GPU)
                    snprintf(row->name, sizeof(row->name), "GPU %u", tb->rank);
                else
                    snprintf(row->name, sizeof(row->name), "%.40s",
                             server == CCL_NONE ? "no server" : t->topo->servers[server]);
            }
            last = key;
            t->rows[t->nrows - 1].lanes++;
            t->lane_row[lane] = t->nrows - 1;
        }
    }
    return CCL_OK;
}

typedef struct used {
    uint32_t link;
    double utilization;
} used_t;

static int by_use(const void *x, const void *y) {
    const used_t *a = x;
    const used_t *b = y;

    if (a->utilization != b->utilization)
        return a->utilization > b->utilization ? -1 : 1;
    return a->link < b->link ? -1 : a->link > b->link;
}

static int by_link(const void *x, const void *y) {
    const used_t *a = x;
    const used_t *b = y;

    return a->link < b->link ? -1 : a->link > b->link;
}

/** The busiest links, in the order of the cluster. */
static ccl_status_t make_link_rows(timeline_t *t, ccl_error_t *err) {
    used_t *used = ccl_arena_alloc(&t->arena, t->topo->nlinks + (size_t)1, sizeof(*used));

    t->link_row = ccl_arena_alloc(&t->arena, t->topo->nlinks + (size_t)1, sizeof(*t->link_row));
    t->rows = ccl_arena_alloc(&t->arena, MOST_ROWS, sizeof(*t->rows));
    if (!used || !t->rows || !t->link_row)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < t->topo->nlinks; i++) {
        t->link_row[i] = CCL_NONE;
        if (t->result->links[i].bytes > 0)
            used[t->nlinks++] = (used_t){i, t->result->links[i].utilization};
    }
    qsort(used, t->nlinks, sizeof(*used), by_use);
    t->nrows = t->nlinks < MOST_ROWS ? t->nlinks : MOST_ROWS;
    qsort(used, t->nrows, sizeof(*used), by_link);
    for (uint32_t i = 0; i < t->nrows; i++) {
        const ccl_link_t *link = &t->topo->links[used[i].link];

        t->link_row[used[i].link] = i;
        t->rows[i] = (row_t){.rank = CCL_NONE, .server = CCL_NONE, .lanes = 1};
        snprintf(t->rows[i].name, sizeof(t->rows[i].name), "%.30s>%.30s",
                 t->topo->devices[link->from].id, t->topo->devices[link->to].id);
    }
    return CCL_OK;
}

ccl_status_t ccl_i_timeline_rows(timeline_t *t, ccl_error_t *err) {
    t->nlanes = t->nrows = 0;
    CCL_TRY(make_lanes(t, err));
    if (t->by == CCL_DRAW_ROWS_PHASE)
        return ccl_i_timeline_phases(t, err);
    if (t->by == CCL_DRAW_ROWS_AUTO)
        t->by = t->nlanes <= MOST_ROWS ||
                        (!t->options->unfolded && !t->too_many && t->nlanes <= MOST_FOLDED)
                    ? CCL_DRAW_ROWS_BLOCK
                : t->topo->nranks <= MOST_GPU_ROWS || t->topo->nservers == 0 ? CCL_DRAW_ROWS_GPU
                                                                             : CCL_DRAW_ROWS_SERVER;
    if (t->by == CCL_DRAW_ROWS_LINK)
        return make_link_rows(t, err);
    return make_block_rows(t, err);
}

/* ---------------------------------------------------------------- what rows did */

/** Give [start, end) of a row to a state; `weight` seconds a second. */
static void give(timeline_t *t, uint32_t row, uint32_t state, double start_s, double end_s,
                 double weight) {
    double bin_s = t->time_s / t->nbins;
    double from = start_s / bin_s;
    double to = end_s / bin_s;
    uint32_t i = from > 0 ? (uint32_t)from : 0;

    for (; i < t->nbins && i < to; i++) {
        double part = fmin(to, i + 1.0) - fmax(from, i);

        if (part > 0)
            t->share[((size_t)row * t->nbins + i) * t->nstates + state] +=
                (float)(part * bin_s * weight);
    }
}

/** Colour of a chunk, from the place in the buffer that a step works on. */
static uint32_t chunk_of(const timeline_t *t, uint32_t step) {
    const ccl_step_t *s = &t->program->steps[step];
    uint32_t chunk = ccl_primitive_sends((ccl_primitive_t)s->type) &&
                             !ccl_primitive_receives((ccl_primitive_t)s->type)
                         ? s->src_off
                         : s->dst_off;

    if (t->nchunks <= CHUNK_COLOURS)
        return chunk % t->nchunks;
    return (uint32_t)((uint64_t)(chunk % t->nchunks) * CHUNK_COLOURS / t->nchunks);
}

typedef struct lane {
    double end_s, data_s, peer_s, slot_s;
    bool seen;
} lane_t;

/** Seconds not longer than what is left. */
static double take(double *left_s, double s) {
    double taken = s < *left_s ? (s > 0 ? s : 0) : *left_s;

    *left_s -= taken;
    return taken;
}

/** The gap before a pass: a block first waits for others of its GPU, then for data, then a slot. */
static void give_gap(timeline_t *t, uint32_t row, const lane_t *lane,
                     const ccl_trace_span_t *span) {
    uint32_t grey = t->options->by_chunk ? t->nstates - 1 : CCL_NONE;
    double left_s = span->start_s - lane->end_s;
    double at = lane->end_s;
    double s;

    if (!(left_s > 0))
        return;
    if (t->heat) { /* one sum of waits, of whatever kind */
        give(t, row, 1, at, span->start_s, 1);
        return;
    }
    s = take(&left_s, span->peer_s - lane->peer_s);
    give(t, row, grey != CCL_NONE ? grey : WAIT_PEER, at, at + s, 1);
    at += s;
    s = take(&left_s, span->data_s - lane->data_s);
    give(t, row, grey != CCL_NONE ? grey : WAIT_DATA, at, at + s, 1);
    at += s;
    s = take(&left_s, span->slot_s - lane->slot_s);
    give(t, row, grey != CCL_NONE ? grey : WAIT_SLOT, at, at + s, 1);
}

ccl_status_t ccl_i_timeline_blocks(timeline_t *t, ccl_error_t *err) {
    const ccl_program_t *p = t->program;
    uint32_t nlanes = t->first_lane[p->ntbs];
    lane_t *lanes = calloc(nlanes + (size_t)1, sizeof(*lanes));

    if (!lanes)
        return ccl_fail_nomem(err);
    for (uint32_t b = 0; b < p->ntbs; b++)
        for (uint32_t lane = t->first_lane[b]; lane < t->first_lane[b + 1]; lane++)
            lanes[lane].end_s = t->result->tbs[b].start_s;
    for (uint64_t i = 0; i < t->nspans; i++) {
        const ccl_trace_span_t *span = &t->spans[i];
        uint32_t b;
        uint32_t lane, row;

        if (!span->name)
            continue;
        b = p->rank_first_tb[span->rank] + span->other;
        lane = t->first_lane[b];
        if (t->result->stages)
            lane += p->steps[span->step].stage;
        if (t->lane_row[lane] == CCL_NONE)
            continue;
        row = t->phase_row ? t->phase_row[span->step] : t->lane_row[lane];
        give_gap(t, row, &lanes[lane], span);
        give(t, row, t->options->by_chunk ? chunk_of(t, span->step) : BUSY, span->start_s,
             span->end_s, 1);
        lanes[lane] = (lane_t){span->end_s, span->data_s, span->peer_s, span->slot_s, true};
    }
    free(lanes);
    return CCL_OK;
}

/** Bytes on links, at the mean rate of each slice. */
ccl_status_t ccl_i_timeline_links(timeline_t *t, ccl_error_t *err) {
    ccl_routes_t *routes = ccl_routes_create(t->topo);
    ccl_status_t status = routes ? CCL_OK : ccl_fail_nomem(err);

    for (uint64_t i = 0; status == CCL_OK && i < t->nspans; i++) {
        const ccl_trace_span_t *span = &t->spans[i];
        const ccl_route_t *route;

        if (span->name || !(span->end_s > span->start_s))
            continue;
        status = ccl_sim_flow_route(t->program, routes, span->rank, span->other, span->channel,
                                    &route, err);
        for (uint32_t k = 0; status == CCL_OK && k < route->nlinks; k++) {
            uint32_t row = t->link_row[route->links[k]];

            if (row != CCL_NONE)
                give(t, row, t->options->by_chunk ? chunk_of(t, span->step) : 0, span->start_s,
                     span->end_s,
                     span->bytes / (span->end_s - span->start_s) /
                         t->topo->links[route->links[k]].bandwidth_Bps);
        }
    }
    ccl_routes_destroy(routes);
    return status;
}
