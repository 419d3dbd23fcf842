/* Schedules of plans in time: steps in which all connections keep the plan's order. */
#include "synth/latency/meet.h"

#include <math.h>
#include <stdlib.h>

/** Moves of the plan by start; those of a chunk's exchange make one step. */
typedef struct writer {
    const ccl_i_meet_plans_t *plans;
    ccl_i_meet_run_t *run;
    const ccl_i_meeting_t *meetings;
    bool placed[CCL_I_MEET_MOVES];
    uint32_t before[CCL_I_MEET_MOVES]; /* the last one on the same connection; CCL_NONE: none */
    struct {
        uint32_t n, moves[CCL_I_MEET_HOPS];
    } chunks[CCL_I_MEET_CHUNKS];
} writer_t;

static int by_start(const void *a, const void *b) {
    const ccl_i_meet_move_t *x = a, *y = b;
    if (x->start_s != y->start_s)
        return x->start_s < y->start_s ? -1 : 1;
    if (x->done_s != y->done_s)
        return x->done_s < y->done_s ? -1 : 1;
    if (x->chunk != y->chunk)
        return x->chunk - y->chunk;
    return x->src != y->src ? x->src - y->src : x->dst - y->dst;
}

/* Of two moves of a chunk. */
static bool together(const ccl_i_meet_move_t *a, const ccl_i_meet_move_t *b) {
    return a == b || (a->kind == CCL_I_MEET_CORE && b->kind == CCL_I_MEET_CORE);
}

/* Does y, of the same chunk, bring what x passes on? */
static bool brings(const writer_t *w, const ccl_i_meet_move_t *y, const ccl_i_meet_move_t *x) {
    if (x->kind != CCL_I_MEET_OUT)
        return y->kind == CCL_I_MEET_IN && y->dst == x->src;
    return y->dst == x->src ||
           (y->kind == CCL_I_MEET_CORE && w->meetings[x->chunk].core >> x->src & 1);
}

/* May move i, and what goes together with it, come next? */
static bool may(const writer_t *w, uint32_t i, double *done_s) {
    const ccl_i_meet_move_t *all = w->run->moves;
    const uint32_t *of = w->chunks[all[i].chunk].moves, n = w->chunks[all[i].chunk].n;
    *done_s = 0;
    for (uint32_t k = 0; k < n; k++) {
        if (!together(&all[i], &all[of[k]]))
            continue;
        if (w->before[of[k]] != CCL_NONE && !w->placed[w->before[of[k]]])
            return false;
        for (uint32_t m = 0; m < n; m++)
            if (!w->placed[of[m]] && brings(w, &all[of[m]], &all[of[k]]))
                return false;
        *done_s = fmax(*done_s, all[of[k]].done_s);
    }
    return true;
}

/* Of what may come next that which is done first; CCL_NONE: all wait for each other. */
static uint32_t next(const writer_t *w) {
    uint32_t best = CCL_NONE;
    double best_s = INFINITY, done_s;
    for (uint32_t i = 0; i < w->run->nmoves; i++) {
        bool first = w->before[i] == CCL_NONE || w->placed[w->before[i]];
        if (w->placed[i] || !first || !(w->run->moves[i].done_s < best_s) || !may(w, i, &done_s) ||
            !(done_s < best_s))
            continue;
        best = i;
        best_s = done_s;
    }
    return best;
}

/* One step, what is done first in front: so it is added first. */
static uint32_t add(writer_t *w, uint32_t first, uint32_t step, ccl_schedule_builder_t *b) {
    const ccl_i_meet_move_t *all = w->run->moves;
    const ccl_i_meet_net_t *net = &w->plans->net;
    const uint32_t *of = w->chunks[all[first].chunk].moves, n = w->chunks[all[first].chunk].n;
    uint32_t added = 0;
    for (;; added++) {
        uint32_t best = CCL_NONE;
        for (uint32_t k = 0; k < n; k++)
            if (!w->placed[of[k]] && together(&all[first], &all[of[k]]) &&
                (best == CCL_NONE || all[of[k]].done_s < all[best].done_s))
                best = of[k];
        if (best == CCL_NONE)
            return added;
        const ccl_i_meet_move_t *m = &all[best];
        bool out = m->kind == CCL_I_MEET_OUT;
        w->placed[best] = true;
        ccl_schedule_builder_add(b, (ccl_transfer_t){m->src, m->dst, m->chunk, step,
                                                     net->hops[net->hop[m->src][m->dst]].channel,
                                                     !out, out && net->ins});
    }
}

static void order(writer_t *w) {
    uint32_t last[CCL_I_MEET_GPUS][CCL_I_MEET_GPUS];
    ccl_i_meet_move_t *all = w->run->moves;
    qsort(all, w->run->nmoves, sizeof *all, by_start);
    for (uint32_t v = 0; v < CCL_I_MEET_GPUS * CCL_I_MEET_GPUS; v++)
        last[v / CCL_I_MEET_GPUS][v % CCL_I_MEET_GPUS] = CCL_NONE;
    for (uint32_t i = 0; i < w->run->nmoves; i++) {
        w->before[i] = last[all[i].src][all[i].dst];
        last[all[i].src][all[i].dst] = i;
        w->chunks[all[i].chunk].moves[w->chunks[all[i].chunk].n++] = i;
    }
}

static ccl_status_t write(writer_t *w, ccl_collective_t *coll, ccl_schedule_t **out,
                          ccl_error_t *err) {
    ccl_schedule_builder_t *b = ccl_schedule_builder_create("latency", coll);
    if (!b)
        return ccl_fail_nomem(err);
    for (uint32_t step = 0, n = 0; n < w->run->nmoves; step++) {
        uint32_t first = next(w);
        if (first == CCL_NONE) {
            ccl_schedule_builder_destroy(b);
            return ccl_fail(err, CCL_UNSUPPORTED, "chunks wait for each other");
        }
        n += add(w, first, step, b);
    }
    return ccl_schedule_builder_finish(b, out, err);
}

ccl_status_t ccl_i_meet_make(const ccl_i_meet_plans_t *plans, uint32_t level,
                             const ccl_collective_t *want, ccl_schedule_t **out, ccl_error_t *err) {
    const uint32_t parts = 1u << level;
    ccl_collective_t *coll = NULL;
    writer_t *w = calloc(1, sizeof *w);
    ccl_i_meet_run_t *run = ccl_i_meet_run_create(&plans->net);
    ccl_status_t status = w && run ? CCL_OK : ccl_fail_nomem(err);
    if (status == CCL_OK)
        status = ccl_collective_split(want, parts, &coll, err);
    if (status == CCL_OK) {
        w->plans = plans;
        w->run = run;
        w->meetings = plans->levels[level].meetings;
        ccl_i_meet_time(run, w->meetings, coll->nchunks, plans->share_bytes / parts);
        order(w);
        status = write(w, coll, out, err);
    }
    ccl_i_meet_run_destroy(run);
    free(w);
    return status;
}
