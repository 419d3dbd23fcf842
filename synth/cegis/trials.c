/* Which of its plans cegis takes: the fastest schedule by simulation. */
#include "synth/cegis/job.h"
#include "synth/common/turn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef ccl_i_cegis_job_t cegis_t;
typedef ccl_i_cegis_side_t side_t;
typedef ccl_i_cegis_cut_t cut_t;
typedef ccl_i_cegis_trial_t trial_t;

const ccl_i_cegis_policy_t ccl_i_cegis_policy = {.size = 256.0 * 1024 * 1024,
                                                 .transfers = 3e5,
                                                 .small = 8,
                                                 .small_most = 10000,
                                                 .trees = 400,
                                                 .other_worth = 0.98,
                                                 .other_latency = 0.06,
                                                 .other_rough = 2,
                                                 .other_work = 0.5,
                                                 .rival_work = 0.5,
                                                 .pair_work = 400,
                                                 .least_work = {280000, 300000},
                                                 .work = 2e6,
                                                 .shares = 8,
                                                 .least_factor = 0.25,
                                                 .near = 1.03,
                                                 .rough = 1.4,
                                                 .margin = 1e-6};
/* Cuts that are simulated: by their estimates, and with those of fewer cuts. */
#define FINALISTS 3u
#define MOST_FINALISTS 7u

/* ---------------------------------------------------------------- the schedule */

static uint32_t root(void *user, const ccl_i_want_t *want) {
    const cegis_t *c = user;
    return ccl_i_cegis_root(c, want->chunk, want->part / c->slices);
}

static ccl_status_t tree(void *user, const ccl_i_want_t *want, ccl_i_tree_t *out,
                         ccl_error_t *err) {
    cegis_t *c = user;
    side_t *side = &c->sides[want->up];
    uint32_t slice = want->part % c->slices;
    uint32_t k = want->chunk * c->cuts + want->part / c->slices;
    (void)err;
    if (!side->used)
        return CCL_OK;
    if (want->up) /* time-reversed, the last comes first; results shall go out in the order of
                     slices */
        slice = c->slices - 1 - slice;
    c->depth[want->root] = 0;
    for (size_t i = side->first[k]; i < side->first[k + 1]; i++) {
        const ccl_i_cegis_send_t *send = &side->plan.sends[side->order[i]];
        const ccl_i_hop_t *hop = &side->x.hops[send->hop];
        uint32_t round = c->slices > 1 ? slice + c->depth[hop->src] : 0, h = send->hop;
        uint32_t serial = side->serial[side->order[i]] + slice * side->sends_of[h];
        c->depth[hop->dst] = c->depth[hop->src] + 1;
        ccl_i_tree_add(out, hop->src, hop->dst, round * side->plan.nsteps + send->step,
                       side->lane_channel[side->lane_first[h] + serial % side->lanes[h]]);
    }
    return CCL_OK;
}

static ccl_status_t make(cegis_t *c, ccl_i_cluster_t *cluster, ccl_schedule_t **out,
                         ccl_error_t *err) {
    ccl_i_plan_t plan = {.name = "cegis",
                         .parts = c->cuts * c->slices,
                         .spread_roots = c->want->kind == CCL_CUSTOM,
                         .down_channels = c->down_channels,
                         .root = root,
                         .tree = tree,
                         .user = c};
    return ccl_i_plan_run(c->ctx, cluster, c->want, &plan, out, err);
}

/* ---------------------------------------------------------------- the fastest by simulation */

static double sends_of(const cut_t *cut) {
    return (double)cut->sides[0].plan.len + (double)cut->sides[1].plan.len;
}

/** Of a simulation: transfers, or slices that transports cut them into. */
static double work_of(const cegis_t *c, const cut_t *cut, uint32_t slices) {
    double bytes = 0, least = INFINITY;
    for (int i = 0; i < 2; i++)
        if (cut->sides[i].used)
            bytes += (double)cut->sides[i].plan.len * cut->sides[i].capacity.chunk_bytes;
    for (uint32_t t = 0; t < c->topo->ntransports; t++) {
        const ccl_transport_spec_t *spec = &c->topo->transports[t];
        if (!spec->protocol || strcmp(spec->protocol, "Simple") == 0)
            least = fmin(least, spec->value.slice_bytes);
    }
    return fmax(sends_of(cut) * slices, bytes / least);
}

/** Whether another trial is the same schedule. */
static bool same(const cegis_t *c, const trial_t *a, const trial_t *b) {
    bool same = a->cut == b->cut && a->slices == b->slices;
    for (int i = 0; i < 2 && same; i++) {
        const side_t *side = &c->cut[a->cut].sides[i];
        if (side->used)
            same = memcmp(a->lanes_of[i], b->lanes_of[i], side->x.nhops * sizeof(uint32_t)) == 0;
    }
    return same;
}

static double expect(void *user, uint32_t index) {
    const cegis_t *c = user;
    const trial_t *trial = &c->trials[index];
    return work_of(c, &c->cut[trial->cut], trial->slices) * c->cost_factor;
}

/** Dropped where another one is the same. */
static ccl_status_t make_trial(void *user, uint32_t index, const ccl_i_racer_t *with,
                               ccl_schedule_t **out, ccl_error_t *err) {
    cegis_t *c = user;
    trial_t *trial = &c->trials[index];
    ccl_i_cegis_take(c, trial->cut);
    c->slices = trial->slices;
    CCL_TRY(ccl_i_cegis_channels(c, trial->lanes, err));
    for (int k = 0; k < 2; k++) {
        c->cut[trial->cut].sides[k].contended = c->sides[k].contended;
        trial->lanes_of[k] = c->sides[k].lanes;
    }
    bool again = c->race.best.schedule && same(c, trial, c->best);
    for (uint32_t k = 0; k < index; k++)
        again |= c->race.results[k].made && same(c, trial, &c->trials[k]);
    if (again)
        return ccl_fail(err, CCL_UNSUPPORTED, "it is the same as another one");
    return make(c, with->cluster, out, err);
}

/** Make trials, as far as there is work left, and simulate them; the best so far is c->best. */
static ccl_status_t race(cegis_t *c, trial_t *trials, uint32_t n, ccl_error_t *err) {
    ccl_i_race_t *r = &c->race;
    c->trials = trials;
    if (c->task.deadline_s > 0 && ccl_now_s() > c->task.deadline_s)
        c->task.limited = true;
    r->time_until_s = c->task.deadline_s;
    r->make_until_s = c->task.limited ? -1 : c->task.deadline_s;
    ccl_status_t status = ccl_i_race_run(r, n, err);
    memset(c->sides, 0, sizeof c->sides); /* they are c->cut's */
    CCL_TRY(status);
    c->task.limited |= r->late;
    if (r->counted > 0)
        c->cost_factor *= fmax(r->counted / r->expected, ccl_i_cegis_policy.least_factor);
    if (r->best.index != CCL_NONE) {
        *c->best = trials[r->best.index];
        c->best->time_s = r->best.time_s;
    }
    return CCL_OK;
}

static int by_estimate(const void *a, const void *b) {
    const cut_t *x = a, *y = b;
    int later = (x->estimate_s > y->estimate_s) - (x->estimate_s < y->estimate_s);
    if (x->other != y->other)
        return x->other - y->other;
    return later ? later : (x->cuts > y->cuts) - (x->cuts < y->cuts);
}

/** Whether more slices than the best trial's may gain. @param first  none have been tried yet. */
static bool may_slice(const cegis_t *c, uint32_t slices, bool first) {
    double transfers = slices * sends_of(&c->cut[c->best->cut]);
    bool small = c->nranks <= ccl_i_cegis_policy.small && !first;
    return slices <= CCL_I_CEGIS_SLICES &&
           transfers <= (small ? ccl_i_cegis_policy.small_most : ccl_i_cegis_policy.transfers);
}

/**
 * The best cut with other connections and with more or fewer slices; then on in the direction that
 * helped, as long as it does.
 */
static ccl_status_t refine(cegis_t *c, ccl_error_t *err) {
    const trial_t *best = c->best;
    trial_t trials[CCL_I_LANES_KINDS + 1];
    uint32_t tried[2] = {best->slices, best->slices}; /* the fewest and the most */
    for (bool first = true;; first = false) {
        trial_t from = *best;
        uint32_t len = 0, fewer = from.slices / 2, more = 2 * from.slices;
        if (more > tried[1] && may_slice(c, more, first))
            trials[len] = from, trials[len++].slices = tried[1] = more;
        for (uint32_t k = 0; first && k < CCL_I_LANES_KINDS; k++) {
            if (k == from.lanes)
                continue;
            if (k == CCL_I_LANES_LINK) /* where it is not the fastest, it is hardly ever far off */
                c->race.lead = len;
            trials[len] = from, trials[len++].lanes = (ccl_i_cegis_lanes_t)k;
        }
        if (fewer && fewer < tried[0])
            trials[len] = from, trials[len++].slices = tried[0] = fewer;
        CCL_TRY(race(c, trials, len, err));
        if (best->lanes != from.lanes)
            tried[0] = tried[1] = best->slices;
        else if (best->slices == from.slices)
            return CCL_OK;
    }
}

/** A plan as it is tried first: as many slices as there is work for. */
static trial_t first_trial(const cegis_t *c, uint32_t k) {
    const cut_t *cut = &c->cut[k];
    uint32_t slices = cut->slices;
    while (slices > 1 && sends_of(cut) * slices > c->race.left / ccl_i_cegis_policy.shares)
        slices /= 2;
    return (trial_t){.cut = k, .slices = slices, .lanes = CCL_I_LANES_RATE};
}

/** Steps of other lengths, with work of their own: what was found is not lost for them. */
static ccl_status_t choose_other(cegis_t *c, double work, uint32_t first, ccl_error_t *err) {
    trial_t trials[2 * CCL_I_CEGIS_OTHERS], other = {.time_s = INFINITY}, *best = c->best;
    uint32_t len = 0;
    c->race.left = fmax(c->race.left, 0) + ccl_i_cegis_policy.other_work * work;
    for (uint32_t k = first; k < c->ncuts; k++)
        if (c->cut[k].estimate_s <= ccl_i_cegis_policy.other_rough * c->cut[0].estimate_s)
            trials[len++] = first_trial(c, k);
    if (!len)
        return CCL_OK;
    ccl_i_race_best_t last = ccl_i_race_set_aside(&c->race);
    c->best = &other;
    c->race.most_s = ccl_i_cegis_policy.rough * best->time_s;
    ccl_status_t status = race(c, trials, len, err);
    if (status == CCL_OK && c->race.best.schedule &&
        other.time_s <= ccl_i_cegis_policy.rough * best->time_s)
        status = refine(c, err);
    c->best = best;
    if (status == CCL_OK && other.time_s < ccl_i_cegis_policy.other_worth * best->time_s) {
        *best = other;
        ccl_schedule_destroy(last.schedule);
    } else {
        ccl_schedule_destroy(c->race.best.schedule);
        c->race.best = last;
    }
    return status;
}

ccl_status_t ccl_i_cegis_choose(cegis_t *c, ccl_error_t *err) {
    trial_t only = {.cut = 0, .slices = 1, .lanes = CCL_I_LANES_PLAIN}, trials[MOST_FINALISTS];
    double n = c->nranks, work;
    c->cost_factor = 1;
    if (c->options->part)
        return race(c, &only, 1, err);
    bool two_ways = c->cut[0].sides[0].used && c->cut[0].sides[1].used;
    work = fmin(fmax(ccl_i_cegis_policy.pair_work * n * n, ccl_i_cegis_policy.least_work[two_ways]),
                ccl_i_cegis_policy.work);
    if (c->options->effort > 0)
        work *= c->options->effort;
    c->race.left = work * (c->solved ? 1 + ccl_i_cegis_policy.rival_work : 1);
    qsort(c->cut, c->ncuts, sizeof *c->cut, by_estimate);
    uint32_t ncuts = 0;
    while (ncuts < c->ncuts && !c->cut[ncuts].other)
        ncuts++;
    /* The best one, those with few cuts, then others that are near: the last ones go first where
       there is not enough work. */
    uint32_t len = 0, most = MOST_FINALISTS - FINALISTS - (c->solved ? 0 : 1);
    for (uint32_t i = 0; i < 2 * ncuts && len < MOST_FINALISTS - (c->solved ? 0 : 2); i++) {
        uint32_t k = i % ncuts;
        double worse = c->cut[k].estimate_s / c->cut[0].estimate_s;
        bool few = ccl_model_gpu(c->topo, 0).sms && 2 * c->cut[k].cuts <= c->cut[0].cuts;
        bool first =
            k == 0 || ((few || c->cut[k].rival) && worse <= ccl_i_cegis_policy.rough && len < most);
        if (i < ncuts ? !first
                      : k == 0 || few || c->cut[k].rival || k >= FINALISTS ||
                            worse > ccl_i_cegis_policy.near)
            continue;
        trials[len++] = first_trial(c, k);
    }
    CCL_TRY(race(c, trials, len, err));
    CCL_TRY(refine(c, err));
    return choose_other(c, work, ncuts, err);
}

void ccl_i_cegis_race_init(cegis_t *c) {
    c->race = (ccl_i_race_t){.ctx = c->ctx,
                             .topo = c->topo,
                             .routes = c->routes,
                             .clusters = true,
                             .make = make_trial,
                             .in_turn = true, /* the plan in hand is one */
                             .user = c,
                             .level = CCL_GRANULARITY_TASK,
                             .size_bytes = ccl_i_cegis_size(c),
                             .skip_lone = c->options->part,
                             .margin = ccl_i_cegis_policy.margin,
                             .give_up = true,
                             .expect = expect};
}
