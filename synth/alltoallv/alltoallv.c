/*
 * alltoallv: AllToAll, AllToAllv and the dispatch and combine of experts, balanced over NICs. The
 * planner's schedule; where the size is known and the schedule is small enough, simulation chooses
 * between that, the same with blocks sent straight, and the baselines that do no more than pass on;
 * and before them all the former schedule, where one is given.
 */
#include "synth/alltoallv/warm.h"
#include "synth/alltoallv/work.h"
#include "synth/common/options.h"
#include "synth/common/race.h"
#include "synth/registry.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Sizes where the user gives none; GPUs and transfers up to which candidates are simulated; times
   over the cut that are near, off and far; by what part a second round must be faster; GPUs up to
   which greedy is tried, and where a searched plan waits for most of what it loses. */
typedef struct policy {
    double size, transfers, near, off, far, margin;
    uint32_t search_gpus, greedy_gpus, idle_gpus;
    double greedy_size, cut_bytes;
    double slack; /* part by which a plan must be faster than the former schedule's ways */
} policy_t;

static const policy_t POLICY = {.size = CCL_LOWER_SIZE_BYTES,
                                .transfers = 1e5,
                                .near = 1.01,
                                .off = 1.04,
                                .far = 1.1,
                                .margin = 0.008,
                                .search_gpus = 64,
                                .greedy_gpus = 8,
                                .idle_gpus = 32,
                                .greedy_size = 33554432,
                                .cut_bytes = 262144,
                                .slack = 0.009};

static bool supports(const ccl_topology_t *topo, const ccl_collective_t *want, const char **why) {
    bool up = false, down = false;
    (void)topo;
    if (want->kind == CCL_ALLTOALL)
        return true;
    if (want->kind != CCL_CUSTOM) {
        *why = "blocks go from one GPU to one, or few, in AllToAll and demands alone";
        return false;
    }
    for (uint32_t k = 0; k < want->nchunks; k++) {
        const ccl_chunk_t *c = &want->chunks[k];
        up |= c->nsources > 1;
        down |= c->ndests > 1 || (c->ndests == 1 && c->dests[0] != c->sources[0] && !c->reduced);
        if (c->nsources > 1 && c->ndests > 1) {
            *why = "a sum goes to several GPUs; use hm or greedy";
            return false;
        }
    }
    if (up && down) {
        *why = "some blocks are summed and others copied; ask for each on its own, or use greedy";
        return false;
    }
    return true;
}

static bool is_reduced(const ccl_collective_t *want) {
    for (uint32_t k = 0; k < want->nchunks; k++)
        if (want->chunks[k].nsources > 1)
            return true;
    return false;
}

/* ---------------------------------------------------------------- the collective of the parts */

/* Chunks as the plan cuts them. An AllToAll's are cut before, so that it stays one. */
static ccl_status_t cut_collective(const ccl_i_av_work_t *w, const ccl_collective_t *coll,
                                   ccl_collective_t **out, ccl_error_t *err) {
    uint32_t n = w->nsub[w->nchunks];
    if (coll->kind != CCL_CUSTOM || n == coll->nchunks)
        return ccl_collective_clone(coll, out, err);
    double *shares = calloc(n + (size_t)1, sizeof *shares);
    if (!shares)
        return ccl_fail_nomem(err);
    for (uint32_t k = 0; k < coll->nchunks; k++)
        for (uint32_t i = w->nsub[k]; i < w->nsub[k + 1]; i++)
            shares[i] = coll->chunks[k].share;
    for (size_t i = 0; i < w->npieces; i++) {
        const ccl_i_av_piece_t *p = &w->pieces[i];
        const ccl_i_av_item_t *item = &w->items[p->item];
        const double share = coll->chunks[item->chunk].share;
        for (uint32_t j = 0; j < p->cuts && !item->whole; j++)
            shares[w->nsub[item->chunk] + p->sub + j] = share * (p->bytes / item->bytes) / p->cuts;
    }
    ccl_status_t status = ccl_collective_cut(coll, w->nsub, shares, out, err);
    free(shares);
    return status;
}

/* ---------------------------------------------------------------- sums */

/*
 * Reversed transfers all reduce. A rank that contributes nothing has nothing to add to: the first
 * to arrive there is a copy.
 */
static ccl_status_t settle_sums(const ccl_collective_t *coll, ccl_transfer_t *transfers, size_t n,
                                ccl_error_t *err) {
    uint32_t *first = calloc(coll->nchunks + (size_t)2, sizeof *first);
    uint32_t *list = calloc(n + 1, sizeof *list);
    if (!first || !list) {
        free(first);
        free(list);
        return ccl_fail_nomem(err);
    }
    for (size_t i = 0; i < n; i++)
        first[transfers[i].chunk + 2]++;
    for (uint32_t k = 0; k < coll->nchunks; k++)
        first[k + 2] += first[k + 1];
    for (size_t i = 0; i < n; i++)
        list[first[transfers[i].chunk + 1]++] = (uint32_t)i;
    for (uint32_t k = 0; k < coll->nchunks; k++) {
        const ccl_chunk_t *c = &coll->chunks[k];
        for (uint32_t i = first[k]; i < first[k + 1]; i++) {
            ccl_transfer_t *t = &transfers[list[i]];
            bool has = false;
            for (uint32_t j = 0; j < c->nsources && !has; j++)
                has = c->sources[j] == t->dst;
            for (uint32_t j = first[k]; j < i && !has; j++)
                has = transfers[list[j]].dst == t->dst;
            t->reduce = has;
        }
    }
    free(first);
    free(list);
    return CCL_OK;
}

/* ---------------------------------------------------------------- schedules */

typedef struct job {
    const ccl_ctx_t *ctx;
    const ccl_topology_t *topo;
    const ccl_collective_t *want;
    const ccl_synth_options_t *options;
    ccl_i_av_net_t net;
    double size_bytes, transfers;   /* of the plan's schedule */
    uint32_t round;                 /* of the choice */
    double beat_s;                  /* of the rounds before: the fastest */
    double bound_s, load_s, ways_s; /* of the plan: as in work.h */
    uint32_t way_hops;
    bool searched;
    ccl_error_t why; /* there is no plan */
    ccl_i_av_warm_t warm;
    ccl_i_av_cold_t cold; /* beside `warm` */
} job_t;

static ccl_status_t to_schedule(ccl_i_av_work_t *w, const ccl_collective_t *coll,
                                ccl_schedule_t **out, ccl_error_t *err) {
    ccl_collective_t *cut = NULL;
    CCL_TRY(cut_collective(w, coll, &cut, err));
    if (w->net->reversed) {
        ccl_status_t status = settle_sums(cut, w->transfers, w->nmade, err);
        if (status != CCL_OK) {
            ccl_collective_destroy(cut);
            return status;
        }
    }
    ccl_schedule_builder_t *b = ccl_schedule_builder_create("alltoallv", cut);
    if (!b)
        return ccl_fail_nomem(err);
    for (size_t i = 0; i < w->nmade; i++)
        ccl_schedule_builder_add(b, w->transfers[i]);
    CCL_TRY(ccl_schedule_builder_finish(b, out, err));
    ccl_i_av_origin(w, (*out)->origin);
    return CCL_OK;
}

/* Parts of an AllToAll's blocks: enough for even lanes and short last hops. */
static uint32_t parts_of(const job_t *j) {
    uint32_t gpus = j->net.cluster.max_gpus, others = j->net.nservers - 1;
    if (j->want->kind != CCL_ALLTOALL || j->net.nservers < 2)
        return 1;
    if (j->options->chunks)
        return j->options->chunks;
    uint32_t parts = (32 + gpus * others - 1) / (gpus * others);
    double block = j->size_bytes / j->net.n, most = fmax(1, block / POLICY.cut_bytes);
    return parts < most ? parts : (uint32_t)most;
}

/* @param apart, heavy  as in work.h; unsupported where no ways are searched. @param first_out NULL,
   or the first chunk of each block and behind the last; malloc'ed. */
static ccl_status_t planned(job_t *j, bool apart, bool heavy, ccl_schedule_t **out,
                            uint32_t **first_out, ccl_error_t *err) {
    ccl_i_av_work_t w = {0};
    ccl_collective_t *coll = NULL;
    uint32_t parts = parts_of(j);
    bool whole = j->want->kind == CCL_ALLTOALL;
    ccl_status_t status = ccl_i_av_work_init(&w, &j->net, err);
    if (status != CCL_OK)
        goto end;
    w.cut_bytes = POLICY.cut_bytes;
    w.apart = apart;
    w.heavy = heavy;
    w.prove = !apart;
    if (j->options->time_limit_s > 0)
        w.deadline_s = ccl_now_s() + j->options->time_limit_s;
    CCL_TRY_GOTO(ccl_collective_split(j->want, parts, &coll, err), status, end);
    CCL_TRY_GOTO(ccl_i_av_items_collective(&w, coll, j->size_bytes, whole, err), status, end);
    CCL_TRY_GOTO(ccl_i_av_ways(&w, j->net.n <= POLICY.search_gpus && !j->net.reversed, err), status,
                 end);
    if (!apart) {
        j->bound_s = w.bound_s;
        j->load_s = w.load_max_s;
        j->ways_s = w.ways_s;
        j->way_hops = w.way_hops;
        j->searched = w.searched;
    }
    if (apart && !w.searched && !(heavy && j->net.reversed)) {
        status = ccl_fail(err, CCL_UNSUPPORTED, "the same as the first plan");
        goto end;
    }
    CCL_TRY_GOTO(ccl_i_av_emit(&w, err), status, end);
    status = to_schedule(&w, coll, out, err);
    if (status == CCL_OK)
        (*out)->limited = w.late;
    if (status == CCL_OK && first_out) {
        *first_out = w.nsub;
        w.nsub = NULL;
    }
end:
    ccl_collective_destroy(coll);
    ccl_i_av_work_fini(&w);
    return status;
}

/* ---------------------------------------------------------------- the choice */

/* Those of a former schedule first: with as few blocks on other ways as may be, and with more. */
typedef struct candidate {
    const char *name; /* NULL: ours */
    bool warm;
    ccl_i_av_mix_t mix; /* of a warm one */
} candidate_t;

static const candidate_t candidates[] = {
    {NULL, true, {1e9, false}}, {NULL, true, {0.008, false}}, {NULL, true, {0, false}},
    {NULL, true, {0, true}},    {NULL, false, {0, false}},
};
/* How many of them are warm; the first that looks at loads. */
enum { WARM = 4, LOADED = 1 };
/* Then what only passes on. Where the fastest is not near the cuts: the plan again with other
   connections, which keeps links busier being known from simulation only, and on few GPUs greedy.
 */
static const char *const baselines[] = {"direct", "pxn", "pairwise"};
static const char *const seconds[] = {NULL, NULL, "greedy"};

/* Whether its links, busy all the time, could end before `j->beat_s`. */
static ccl_status_t may_win(job_t *j, const ccl_schedule_t *s, bool *out, ccl_error_t *err) {
    double *load_s = calloc(j->net.nresources + (size_t)1, sizeof *load_s), most_s = 0;
    ccl_status_t status = load_s ? ccl_i_av_load_schedule(&j->net, s, j->size_bytes, load_s, err)
                                 : ccl_fail_nomem(err);
    for (uint32_t r = 0; status == CCL_OK && r < j->net.nresources; r++)
        most_s = fmax(most_s, load_s[r]);
    free(load_s);
    *out = most_s < j->beat_s;
    return status;
}

/* Ours: former ways, the plan. */
static ccl_status_t make_ours(job_t *j, uint32_t index, ccl_schedule_t **out, ccl_error_t *err) {
    const candidate_t *c = &candidates[index + (j->options->warm ? 0 : WARM)];
    if (c->warm)
        return ccl_i_av_warm_mix(&j->warm, &j->cold, &c->mix, out, err);
    if (j->cold.schedule) { /* made already; the mixes that need it come before */
        *out = j->cold.schedule;
        j->cold.schedule = NULL;
        return CCL_OK;
    }
    ccl_status_t status = planned(j, false, false, out, NULL, &j->why);
    if (status != CCL_OK && err)
        *err = j->why;
    return status;
}

/* What must beat them; links that would be busy for too long say so before any simulation. */
static ccl_status_t make_other(job_t *j, uint32_t index, const ccl_i_racer_t *with,
                               ccl_schedule_t **out, ccl_error_t *err) {
    const char *name = j->round == 1 ? baselines[index] : seconds[index], *why = NULL;
    const ccl_synth_ops_t *ops = name ? ccl_synth_find(name) : NULL;
    bool may = false;
    if (ops && !ops->supports(j->topo, j->want, &why))
        return ccl_fail(err, CCL_UNSUPPORTED, "%s: %s", ops->name, why);
    if (ops)
        CCL_TRY(ops->synthesize(j->ctx, j->topo, with->routes, j->want, j->options, out, err));
    else
        CCL_TRY(planned(j, true, index == 0, out, NULL, err));
    ccl_status_t status = may_win(j, *out, &may, err);
    if (status == CCL_OK && !may)
        status = ccl_fail(err, CCL_UNSUPPORTED, "its busiest link alone takes longer");
    if (status != CCL_OK) {
        ccl_schedule_destroy(*out);
        *out = NULL;
    }
    return status;
}

static ccl_status_t make(void *user, uint32_t index, const ccl_i_racer_t *with,
                         ccl_schedule_t **out, ccl_error_t *err) {
    job_t *j = user;
    return j->round == 0 ? make_ours(j, index, out, err) : make_other(j, index, with, out, err);
}

/* Why the schedule is far from the cuts. `ours`: it is a plan, and no baseline. */
static void explain(const job_t *j, double time_s, bool ours, char *origin) {
    double least_s = fmax(j->ways_s, j->bound_s);
    if (!(j->bound_s > 0)) {
        ccl_origin_add(origin, "no plan of alltoallv: %s", j->why.text);
        return;
    }
    if (time_s < POLICY.far * j->bound_s)
        return;
    if (!ours && time_s > POLICY.off * j->load_s)
        ccl_origin_add(origin,
                       "plans of alltoallv idle for at least %.0f %% of the time: latency, waiting",
                       100 * (1 - j->load_s / time_s));
    else if (!ours)
        ccl_origin_add(origin, "plans of alltoallv are slower");
    if (ours && time_s > POLICY.off * j->load_s)
        ccl_origin_add(origin, "which idles %.0f %% of the time: latency, waiting",
                       100 * (1 - j->load_s / time_s));
    if (j->ways_s > POLICY.near * j->bound_s)
        ccl_origin_add(origin, "no ways of up to %u hops are below %.2f of it", j->way_hops,
                       j->ways_s / j->bound_s);
    if (j->load_s > POLICY.off * least_s)
        ccl_origin_add(origin, "better ways were not found, nor excluded");
}

/* Rounds after ours; ours: what is fastest is a plan. */
static ccl_status_t run_others(job_t *j, ccl_i_race_t *race, bool *ours, ccl_error_t *err) {
    /* Of less, other protocols than the race's are faster, and the choice may be wrong. */
    bool large = j->size_bytes >= POLICY.greedy_size;
    race->give_up = true;
    race->make_until_s = race->best.schedule ? race->make_until_s : 0;
    j->round = 1;
    j->beat_s = race->best.schedule ? race->best.time_s * (1 - race->margin) : INFINITY;
    CCL_TRY(ccl_i_race_run(race, CCL_ARRAY_LEN(baselines), err));
    *ours = race->best.index == CCL_NONE;
    if (!race->best.schedule || race->best.time_s <= POLICY.near * j->bound_s)
        return CCL_OK;
    bool waits = j->searched && race->best.time_s > POLICY.far * j->load_s;
    uint32_t most = waits ? POLICY.idle_gpus : POLICY.greedy_gpus;
    bool greedy = large && j->net.n <= most;
    j->round = 2;
    race->margin = j->options->warm ? POLICY.slack : POLICY.margin;
    j->beat_s = race->best.time_s * (1 - race->margin);
    CCL_TRY(ccl_i_race_run(race, CCL_ARRAY_LEN(seconds) - !greedy, err));
    *ours = race->best.index == CCL_NONE ? *ours : !seconds[race->best.index];
    return CCL_OK;
}

static ccl_status_t choose(job_t *j, ccl_routes_t *routes, ccl_schedule_t **out, ccl_error_t *err) {
    double transfers = ccl_i_collective_transfers(j->want);
    bool warm = j->options->warm != NULL, sized = j->options->size_bytes > 0, ours = true;
    uint32_t first = warm ? 0 : WARM;
    if (transfers > POLICY.transfers || (!warm && !sized))
        return warm ? ccl_i_av_warm_mix(&j->warm, &j->cold, &candidates[LOADED].mix, out, err)
                    : planned(j, false, false, out, NULL, err);
    ccl_i_race_t race = {.ctx = j->ctx,
                         .topo = j->topo,
                         .routes = routes,
                         .phase = "simulate",
                         .make = make,
                         .in_turn = true,
                         .user = j,
                         .level = CCL_GRANULARITY_ALGORITHM,
                         .size_bytes = j->size_bytes,
                         .margin = warm ? POLICY.slack : 0};
    if (j->options->time_limit_s > 0)
        race.make_until_s = race.time_until_s = ccl_now_s() + j->options->time_limit_s;
    ccl_status_t status = ccl_i_race_run(&race, CCL_ARRAY_LEN(candidates) - first, err);
    if (status == CCL_OK && sized)
        status = run_others(j, &race, &ours, err);
    double time_s = race.best.time_s;
    if (status == CCL_OK)
        status = ccl_i_race_take(&race, out, err);
    if (status == CCL_OK) {
        (*out)->limited |= race.late;
        explain(j, time_s, ours, (*out)->origin);
    }
    ccl_i_race_fini(&race);
    return status;
}

/* From a former schedule, and what changed. */
static ccl_status_t start_warm(job_t *j, ccl_routes_t *routes, ccl_schedule_t **out,
                               ccl_error_t *err) {
    ccl_status_t status =
        ccl_i_av_warm_init(&j->warm, &j->net, j->options->warm, j->want, j->size_bytes, err);
    if (status == CCL_OK)
        status = planned(j, false, false, &j->cold.schedule, &j->cold.first, err);
    if (status == CCL_OK)
        status = choose(j, routes, out, err);
    if (status == CCL_OK && j->options->stats) {
        status = ccl_i_av_warm_tell(&j->warm, *out, &j->options->stats->warm, err);
        if (status != CCL_OK) {
            ccl_schedule_destroy(*out);
            *out = NULL;
        }
    }
    ccl_i_av_cold_fini(&j->cold);
    ccl_i_av_warm_fini(&j->warm);
    return status;
}

static ccl_status_t synthesize(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                               ccl_routes_t *routes, const ccl_collective_t *want,
                               const ccl_synth_options_t *options, ccl_schedule_t **out,
                               ccl_error_t *err) {
    job_t j = {.ctx = ctx, .topo = topo, .want = want, .options = options, .why = CCL_ERROR_INIT};
    j.size_bytes = options->size_bytes > 0   ? options->size_bytes
                   : want->natural_bytes > 0 ? want->natural_bytes
                                             : POLICY.size;
    CCL_TRY(ccl_i_av_net_init(&j.net, topo, is_reduced(want), err));
    ccl_status_t status =
        options->warm ? start_warm(&j, routes, out, err) : choose(&j, routes, out, err);
    ccl_i_av_net_fini(&j.net);
    return status;
}

static const ccl_option_t own_options[] = {
    {.name = "warm",
     .type = CCL_OPTION_SCHEDULE,
     .offset = CCL_I_SYNTH_AT(warm),
     .value = "FILE",
     .doc =
         "the schedule of the traffic before: blocks keep its ways where that costs at most 1 %, "
         "and what changed is reported"},
    {.name = NULL},
};
static const ccl_option_t *const tables[] = {own_options, NULL};

const ccl_synth_ops_t ccl_i_synth_alltoallv = {
    .size = sizeof(ccl_synth_ops_t),
    .name = "alltoallv",
    .summary = "blocks of any sizes, balanced over NICs inside servers; dispatch and combine",
    .source = "FAST (arXiv 2505.09764), balancing; lanes and their loads are ours",
    .supports = supports,
    .synthesize = synthesize,
    .by_size = true,
    .options = tables,
};
