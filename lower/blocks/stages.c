/*
 * Stages: parts of a schedule that get thread blocks and FIFOs of their own, so that one part of a
 * micro-batch runs beside another part of the next. The cut is where data passes between links
 * inside servers and the network, as in MSCCLang's hand-made stages of hierarchical algorithms
 * (ResCCL, SIGCOMM 2025, section 2.1).
 *
 * stage(t) is the least number such that
 *   - data of d that t passes on: stage(d), plus one where one of them crosses the network and the
 *     other does not;
 *   - whatever else t waits for (writes for reads and writes before them, rounds): stage(d).
 * So nothing waits for a later stage, and order by stage first keeps all dependencies forward.
 */
#include "lower/lower_i.h"

#include <stdlib.h>
#include <string.h>

/* More changes of kind than this are no phases of a hierarchy but a path that goes in and out. */
enum { MOST_STAGES = 4 };

/** Where the data that a receive leaves behind has come over: its stage by kind of link. */
typedef struct passed {
    int32_t stage[2]; /* inside, network; -1: nothing came so */
} passed_t;

typedef struct finder {
    const ccl_i_lowering_t *l;
    const uint8_t *net;   /* [ntransfers], NULL: kinds do not count */
    const uint8_t *phase; /* [ntransfers] least stage, NULL: 0 */
    uint32_t *write;      /* [2 ntransfers] last write of its rank and chunk before the operation */
    passed_t *passed;     /* [ntransfers] */
    int32_t *stage;       /* [ntransfers] */
} finder_t;

/* Raise what one operation demands. @return whether anything was raised */
static bool raise_stage(finder_t *f, uint32_t op) {
    const ccl_i_lowering_t *l = f->l;
    const ccl_i_waits_t *o = &l->waits[op];
    uint32_t t = op / 2, write = f->write[op];
    int32_t least = f->stage[t];
    bool changed = false;
    for (uint32_t i = 0; i < o->ndeps; i++) {
        int32_t other = f->stage[l->deps[o->first_dep + i] / 2];
        least = other > least ? other : least;
    }
    if (write != CCL_NONE) {
        int32_t other = f->stage[write / 2];
        least = other > least ? other : least;
        for (int kind = 0; f->net && op % 2 == 0 && kind < 2; kind++) {
            int32_t from = f->passed[write / 2].stage[kind];
            int32_t need = from < 0 ? 0 : from + (kind != f->net[t]);
            least = need > least ? need : least;
        }
    }
    if (least > f->stage[t]) {
        f->stage[t] = least;
        changed = true;
    }
    if (f->net && op % 2 == 1) {
        passed_t now = {{-1, -1}};
        if (l->transfers[t].reduce && write != CCL_NONE)
            now = f->passed[write / 2];
        int32_t *mine = &now.stage[f->net[t]];
        *mine = f->stage[t] > *mine ? f->stage[t] : *mine;
        changed |= memcmp(&now, &f->passed[t], sizeof now) != 0;
        f->passed[t] = now;
    }
    return changed;
}

/*
 * Transfers of one step may wait for each other both ways (a rank's receive for its own send of the
 * chunk), so a step is gone over until nothing changes. @return greatest stage
 */
static int32_t find(finder_t *f) {
    const ccl_i_lowering_t *l = f->l;
    uint32_t n = l->ntransfers;
    int32_t most = 0;
    for (uint32_t t = 0; t < n; t++) {
        f->stage[t] = f->phase ? f->phase[t] : 0;
        f->passed[t] = (passed_t){{-1, -1}};
    }
    for (uint32_t first = 0, end; first < 2 * n; first = end) {
        uint32_t step = l->transfers[l->by_place[first] / 2].step;
        for (end = first + 1; end < 2 * n && l->transfers[l->by_place[end] / 2].step == step;)
            end++;
        for (bool again = true; again;) {
            again = false;
            for (uint32_t i = first; i < end; i++)
                again |= raise_stage(f, l->by_place[i]);
        }
    }
    for (uint32_t t = 0; t < n; t++)
        most = f->stage[t] > most ? f->stage[t] : most;
    return most;
}

static ccl_status_t find_kinds(const ccl_i_lowering_t *l, ccl_routes_t *routes, uint8_t *net,
                               ccl_error_t *err) {
    for (uint32_t t = 0; t < l->ntransfers; t++) {
        const ccl_transfer_t *x = &l->transfers[t];
        const ccl_route_t *route;
        CCL_TRY(ccl_routes_get(routes, x->src, x->dst, x->channel, &route, err));
        net[t] = route->crosses_net;
    }
    return CCL_OK;
}

static ccl_status_t find_writes(const ccl_i_lowering_t *l, uint32_t *write, ccl_error_t *err) {
    uint32_t *last = malloc((l->nhistories + (size_t)1) * sizeof *last);
    if (!last)
        return ccl_fail_nomem(err);
    memset(last, 0xff, (l->nhistories + (size_t)1) * sizeof *last);
    for (size_t i = 0; i < 2 * (size_t)l->ntransfers; i++) {
        uint32_t op = l->by_place[i];
        write[op] = last[l->history_of[op]];
        if (op % 2)
            last[l->history_of[op]] = op;
    }
    free(last);
    return CCL_OK;
}

ccl_status_t ccl_i_stages_find(const ccl_ctx_t *ctx, const ccl_schedule_t *schedule,
                               const ccl_i_lower_how_t *how, ccl_stages_t stages,
                               ccl_routes_t *routes, uint16_t *stage, ccl_error_t *err) {
    ccl_i_lowering_t l;
    ccl_i_lower_how_t plain = *how;
    size_t n = schedule->ntransfers + (size_t)1;
    uint8_t *net = calloc(n, sizeof *net), *phase = calloc(n, sizeof *phase);
    uint32_t *write = malloc(2 * n * sizeof *write);
    passed_t *passed = malloc(n * sizeof *passed);
    int32_t *found = malloc(n * sizeof *found);
    plain.stage = NULL;
    ccl_status_t status = ccl_i_lowering_begin(&l, ctx, schedule, &plain, err);
    if (status == CCL_OK && (!net || !phase || !write || !passed || !found))
        status = ccl_fail_nomem(err);
    if (status == CCL_OK)
        status = find_writes(&l, write, err);
    bool by_kind = stages == CCL_STAGES_AUTO;
    if (status == CCL_OK && by_kind)
        status = find_kinds(&l, routes, net, err);
    if (status == CCL_OK) {
        finder_t f = {&l, by_kind ? net : NULL, NULL, write, passed, found};
        if (!by_kind || find(&f) >= MOST_STAGES) {
            for (uint32_t t = 0; t < l.ntransfers; t++)
                phase[t] = l.transfers[t].phase;
            f.net = NULL;
            f.phase = phase;
            find(&f);
        }
        for (uint32_t t = 0; t < l.ntransfers; t++)
            stage[ccl_i_original(&l, t)] = (uint16_t)found[t];
    }
    ccl_i_lowering_end(&l);
    free(net);
    free(phase);
    free(write);
    free(passed);
    free(found);
    return status;
}
