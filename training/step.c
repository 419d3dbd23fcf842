/* What a step takes: compute in proportion to micro-batches, and what collectives add to it. */
#include "training/groups.h"
#include "validate/nccl/nccl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const usual[] = {"ring", "tree", "hm", "direct", "c2c"};

/** A time that was simulated. */
typedef struct known {
    uint64_t ranks; /* hash of the groups */
    uint32_t kind, n, nranks;
    double size_bytes, time_s;
    const char *by;
} known_t;

typedef struct estimate {
    const ccl_ctx_t *ctx;
    const ccl_topology_t *topo;
    const ccl_training_t *t;
    const ccl_topology_t *machine;
    const char *const *with;
    uint32_t nwith;
    ccl_training_result_t *out;
    known_t *known;
    size_t nknown, known_cap;
    uint64_t done;
} estimate_t;

/** One stage of one way to spread: its workers and what they do. */
typedef struct part {
    const ccl_training_stage_t *stage;
    uint32_t nworkers;
    double share;   /* of the model */
    double *speeds; /* [nworkers] of the whole model */
    uint64_t *most; /* [nworkers] */
    uint64_t *batches;
    uint64_t longest; /* most batches of a worker */
    double compute_s; /* of the slowest worker */
    double one_s;     /* of one micro-batch on the slowest */
    double tensor_s;  /* of one micro-batch */
    double data_s;    /* exposed */
} part_t;

/** One way to spread the step. */
typedef struct spread {
    uint32_t nparts;
    part_t *parts;
    uint64_t total;
    ccl_balance_rule_t rule;
    bool told; /* its collectives are those of the result */
} spread_t;

static void spread_fini(spread_t *s) {
    for (uint32_t k = 0; s->parts && k < s->nparts; k++) {
        free(s->parts[k].speeds);
        free(s->parts[k].most);
        free(s->parts[k].batches);
    }
    free(s->parts);
}

/* ---------------------------------------------------------------- workers */

static const char *id_of(const estimate_t *e, uint32_t rank) {
    return e->topo->devices[e->topo->rank_device[rank]].id;
}

/* Bytes of parameters, gradients and optimizer that a GPU holds (ZeRO, arXiv 1910.02054, figure 1).
 */
static double state_bytes(const ccl_training_t *t, const part_t *p) {
    double held = t->parameters * p->share / t->tensor;
    double n = p->nworkers;
    double parameters = t->bytes / (t->zero >= 3 ? n : 1);
    double gradients = t->bytes / (t->zero >= 2 ? n : 1);
    double optimizer = t->optimizer_bytes / (t->zero >= 1 ? n : 1);
    return held * (parameters + gradients + optimizer);
}

/* What memory leaves to a worker; stages hold as many micro-batches at once as stages are left. */
static ccl_status_t room(const estimate_t *e, const part_t *p, uint32_t rank, uint32_t ahead,
                         uint64_t *most, ccl_error_t *err) {
    const ccl_training_t *t = e->t;
    double memory = t->memory_bytes[rank];
    double states = state_bytes(t, p), one = t->activation_bytes * p->share / t->tensor;
    *most = t->most[rank];
    if (!t->has_model || !isfinite(memory))
        return CCL_OK;
    if (states + (t->nstages > 1 ? ahead * one : 0) > memory)
        return ccl_fail(err, CCL_INFEASIBLE,
                        "GPU %s has %.4g GB of memory, but the model's states%s take %.4g GB",
                        id_of(e, rank), memory / 1e9,
                        t->nstages > 1 && one > 0 ? " and micro-batches under way" : "",
                        (states + (t->nstages > 1 ? ahead * one : 0)) / 1e9);
    if (one > 0 && t->nstages == 1) {
        double fit = floor((memory - states) / one * (1 + 1e-12)) * t->passes;
        if (fit < (double)CCL_BALANCE_MOST_TOTAL && (uint64_t)fit < *most)
            *most = (uint64_t)fit;
    }
    return CCL_OK;
}

static ccl_status_t worker(const estimate_t *e, part_t *p, uint32_t w, uint32_t ahead,
                           ccl_error_t *err) {
    const ccl_training_t *t = e->t;
    double slowest = INFINITY;
    p->most[w] = CCL_BALANCE_ANY;
    for (uint32_t j = 0; j < t->tensor; j++) {
        uint32_t rank = p->stage->ranks[w * t->tensor + j];
        uint64_t most = 0;
        if (!(t->speeds_per_s[rank] > 0))
            return ccl_fail(err, CCL_ERR_INPUT,
                            "GPU %s has no speed: --speeds WHO=MICRO_BATCHES_PER_SECOND, or "
                            "\"speeds\" in the plan",
                            id_of(e, rank));
        slowest = fmin(slowest, t->speeds_per_s[rank]);
        CCL_TRY(room(e, p, rank, ahead, &most, err));
        p->most[w] = most < p->most[w] ? most : p->most[w];
    }
    p->speeds[w] = slowest * t->tensor;
    return CCL_OK;
}

static ccl_status_t fill_part(const estimate_t *e, const spread_t *s, part_t *p, uint32_t ahead,
                              ccl_error_t *err) {
    p->nworkers = p->stage->nranks / e->t->tensor;
    p->share = p->stage->layers / e->t->layers;
    p->speeds = calloc(p->nworkers, sizeof *p->speeds);
    p->most = calloc(p->nworkers, sizeof *p->most);
    p->batches = calloc(p->nworkers, sizeof *p->batches);
    if (!p->speeds || !p->most || !p->batches)
        return ccl_fail_nomem(err);
    for (uint32_t w = 0; w < p->nworkers; w++)
        CCL_TRY(worker(e, p, w, ahead, err));
    CCL_TRY(ccl_balance(p->speeds, p->most, p->nworkers, s->total, s->rule, p->batches, err));
    p->compute_s = ccl_balance_makespan_s(p->speeds, p->batches, p->nworkers) * p->share;
    for (uint32_t w = 0; w < p->nworkers; w++) {
        p->longest = p->batches[w] > p->longest ? p->batches[w] : p->longest;
        if (p->batches[w] > 0)
            p->one_s = fmax(p->one_s, p->share / p->speeds[w]);
    }
    return CCL_OK;
}

/* ---------------------------------------------------------------- collectives, each once */

static ccl_status_t tell(estimate_t *e, const spread_t *s, ccl_training_collective_t c,
                         ccl_error_t *err) {
    ccl_training_result_t *r = e->out;
    if (!s->told || !(c.time_s > 0))
        return CCL_OK;
    if (!ccl_grow(&r->collectives, &r->collectives_cap, r->ncollectives + 1u,
                  sizeof *r->collectives))
        return ccl_fail_nomem(err);
    r->collectives[r->ncollectives++] = c;
    return CCL_OK;
}

static ccl_status_t timed(estimate_t *e, const ccl_i_rank_groups_t *g, ccl_collective_kind_t kind,
                          double size_bytes, double *time_s, const char **by, ccl_error_t *err) {
    uint64_t hash = ccl_hash64(g->ranks, (size_t)g->n * g->nranks * sizeof *g->ranks, 0);
    ccl_progress_t progress = {"simulate", e->done++, 0, 0, 0};
    known_t k = {hash, (uint32_t)kind, g->n, g->nranks, size_bytes, 0, ""};
    CCL_TRY(ccl_ctx_poll(e->ctx, &progress));
    for (size_t i = 0; i < e->nknown; i++) {
        const known_t *o = &e->known[i];
        if (o->ranks == hash && o->kind == k.kind && o->n == k.n && o->nranks == k.nranks &&
            o->size_bytes == size_bytes) {
            *time_s = o->time_s;
            *by = o->by;
            return CCL_OK;
        }
    }
    ccl_i_groups_ask_t ask = {kind, size_bytes, e->machine, e->with, e->nwith};
    CCL_TRY(ccl_i_groups_time(e->ctx, e->topo, g, &ask, &k.time_s, &k.by, err));
    if (!ccl_grow(&e->known, &e->known_cap, e->nknown + 1, sizeof *e->known))
        return ccl_fail_nomem(err);
    e->known[e->nknown++] = k;
    *time_s = k.time_s;
    *by = k.by;
    return CCL_OK;
}

/* One collective of a stage, `c.times` over; its time is added to *sum_s. */
static ccl_status_t add(estimate_t *e, const spread_t *s, const ccl_i_rank_groups_t *g,
                        ccl_collective_kind_t kind, ccl_training_collective_t c, double *sum_s,
                        ccl_error_t *err) {
    c.name = ccl_collective_kind_name(kind);
    c.ngroups = g->n;
    c.nranks = g->nranks;
    CCL_TRY(timed(e, g, kind, c.size_bytes, &c.time_s, &c.by, err));
    *sum_s += c.times * c.time_s;
    return tell(e, s, c, err);
}

static double activation(const ccl_training_t *t) {
    return t->samples * t->sequence * t->hidden * t->bytes;
}

/* Two AllReduces a layer forward, two back (Megatron-LM, section 3), two more where the way forward
   is done again. With one stage a pass has several micro-batches at once; the size is the mean of
   whoever has most. */
static ccl_status_t tensor(estimate_t *e, const spread_t *s, uint32_t k, ccl_error_t *err) {
    const ccl_training_t *t = e->t;
    part_t *p = &s->parts[k];
    ccl_i_rank_groups_t g = {p->nworkers, t->tensor, p->stage->ranks};
    double times = p->stage->layers * (t->recompute ? 6 : 4), size_bytes = activation(t), sum = 0;
    if (t->tensor == 1 || p->longest == 0)
        return CCL_OK;
    if (s->nparts == 1) {
        size_bytes *= (double)p->longest / t->passes;
        times *= t->passes;
    } else {
        times *= (double)p->longest;
    }
    ccl_training_collective_t c = {.part = "tensor",
                                   .what = "activations",
                                   .stage = k,
                                   .size_bytes = size_bytes,
                                   .times = times};
    CCL_TRY(add(e, s, &g, CCL_ALLREDUCE, c, &sum, err));
    p->tensor_s = sum / (double)p->longest;
    return CCL_OK;
}

/* HetCCL (Seoul National University, Samsung), table 3; ZeRO-3 gathers parameters for both ways. */
static ccl_status_t data(estimate_t *e, const spread_t *s, uint32_t k, ccl_error_t *err) {
    const ccl_training_t *t = e->t;
    part_t *p = &s->parts[k];
    double held = t->parameters * p->share / t->tensor * t->bytes, sum = 0, passes = t->passes;
    uint32_t *ranks = calloc(p->stage->nranks, sizeof *ranks);
    ccl_i_rank_groups_t g = {t->tensor, p->nworkers, ranks};
    ccl_status_t status = ranks ? CCL_OK : ccl_fail_nomem(err);
    for (uint32_t i = 0; ranks && i < p->stage->nranks; i++)
        ranks[i % t->tensor * p->nworkers + i / t->tensor] = p->stage->ranks[i];
    ccl_training_collective_t c = {
        .part = "data", .what = "gradients", .stage = k, .size_bytes = held, .times = 1};
    if (status == CCL_OK && t->zero <= 1)
        status = add(e, s, &g, CCL_ALLREDUCE, c, &sum, err);
    c.times = passes;
    if (status == CCL_OK && t->zero >= 2)
        status = add(e, s, &g, CCL_REDUCESCATTER, c, &sum, err);
    c.what = "parameters";
    c.times = t->zero == 3 ? 2 * passes : 1;
    if (status == CCL_OK && t->zero >= 1)
        status = add(e, s, &g, CCL_ALLGATHER, c, &sum, err);
    free(ranks);
    p->data_s = fmax(0, sum - t->overlap * p->compute_s);
    return status;
}

/** Something that micro-batches pass one by one: a stage, or a way between two. */
typedef struct passed {
    double one_s, all_s;
} passed_t;

/* Activations forward and gradients back between two stages, each GPU its part of the tensor. */
static ccl_status_t border(estimate_t *e, const spread_t *s, uint32_t k, passed_t ways[2],
                           ccl_error_t *err) {
    const ccl_training_stage_t *a = s->parts[k].stage, *b = s->parts[k + 1].stage;
    uint32_t n = a->nranks > b->nranks ? a->nranks : b->nranks;
    uint32_t *pairs = calloc(2 * (size_t)n, sizeof *pairs);
    double size_bytes = activation(e->t) / e->t->tensor;
    double each = ceil((double)s->total * e->t->tensor / n);
    ccl_status_t status = pairs ? CCL_OK : ccl_fail_nomem(err);
    for (uint32_t way = 0; status == CCL_OK && way < 2; way++) {
        ccl_training_collective_t c = {
            "pipeline", way ? "gradients" : "activations", "send", "", k, n, 2, size_bytes, 0,
            each};
        for (uint32_t i = 0; i < n; i++) {
            pairs[2 * (size_t)i + way] = a->ranks[(uint64_t)i * a->nranks / n];
            pairs[2 * (size_t)i + 1 - way] = b->ranks[(uint64_t)i * b->nranks / n];
        }
        status = ccl_i_pairs_time(e->ctx, e->topo, pairs, n, size_bytes, &c.time_s, err);
        ways[way] = (passed_t){c.time_s, each * c.time_s};
        if (status == CCL_OK)
            status = tell(e, s, c, err);
    }
    free(pairs);
    return status;
}

/* ---------------------------------------------------------------- the step */

/* The slowest works without a pause; before and behind it one micro-batch passes all others. */
static double pipelined(const passed_t *elements, uint32_t n) {
    double sum = 0, longest = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += elements[i].one_s;
    for (uint32_t i = 0; i < n; i++)
        longest = fmax(longest, elements[i].all_s + sum - elements[i].one_s);
    return longest;
}

static ccl_status_t add_up(estimate_t *e, const spread_t *s, ccl_training_step_t *step,
                           ccl_error_t *err) {
    uint32_t n = s->nparts, many = n > 1;
    passed_t *elements = calloc(3 * (size_t)n, sizeof *elements);
    ccl_status_t status = elements ? CCL_OK : ccl_fail_nomem(err);
    for (uint32_t k = 0; elements && k < n; k++) {
        elements[k].one_s = many ? s->parts[k].one_s : 0;
        elements[k].all_s = s->parts[k].compute_s;
    }
    step->compute_s = elements ? pipelined(elements, n) : 0;
    for (uint32_t k = 0; elements && k < n; k++) {
        const part_t *p = &s->parts[k];
        elements[k].one_s += many ? p->tensor_s : 0;
        for (uint32_t w = 0; w < p->nworkers; w++) {
            double b = (double)p->batches[w];
            elements[k].all_s =
                fmax(elements[k].all_s, b * (p->share / p->speeds[w] + p->tensor_s));
        }
        step->data_s = fmax(step->data_s, p->data_s);
    }
    if (elements)
        step->tensor_s = pipelined(elements, n) - step->compute_s;
    for (uint32_t k = 0; status == CCL_OK && k + 1 < n; k++)
        status = border(e, s, k, &elements[n + 2 * k], err);
    if (status == CCL_OK)
        step->pipeline_s = pipelined(elements, 3 * n - 2) - step->compute_s - step->tensor_s;
    free(elements);
    step->time_s = step->compute_s + step->tensor_s + step->pipeline_s + step->data_s;
    step->total = s->total;
    step->per_s = step->time_s > 0 ? (double)s->total / step->time_s : 0;
    return status;
}

static ccl_status_t spread_init(const estimate_t *e, const ccl_training_stage_t *stages,
                                uint32_t nstages, spread_t *s, ccl_error_t *err) {
    s->nparts = nstages;
    s->parts = calloc(nstages, sizeof *s->parts);
    if (!s->parts)
        return ccl_fail_nomem(err);
    for (uint32_t k = 0; k < nstages; k++) {
        s->parts[k].stage = &stages[k];
        CCL_TRY(fill_part(e, s, &s->parts[k], nstages - k, err));
    }
    return CCL_OK;
}

static ccl_status_t take_step(estimate_t *e, spread_t *s, ccl_training_step_t *step,
                              ccl_error_t *err) {
    for (uint32_t k = 0; e->t->has_model && k < s->nparts; k++) {
        CCL_TRY(tensor(e, s, k, err));
        CCL_TRY(data(e, s, k, err));
    }
    if (!e->t->has_model && s->nparts > 1)
        return ccl_fail(err, CCL_ERR_INPUT, "stages are of a model: \"model\" in the plan");
    return add_up(e, s, step, err);
}

/* ---------------------------------------------------------------- beside it */

/* Who makes a GPU, or its model where that is not said. */
static const char *maker(const ccl_topology_t *topo, uint32_t rank) {
    uint32_t model = topo->devices[topo->rank_device[rank]].model;
    if (model == CCL_NONE)
        return "";
    return *topo->gpu_models[model].vendor ? topo->gpu_models[model].vendor
                                           : topo->gpu_models[model].name;
}

/* GPUs of the plan's only stage that are of the same maker as `rank`, with their micro-batches.
   False: a worker has GPUs of several. */
static bool of_maker(const estimate_t *e, uint32_t rank, uint32_t *ranks, uint32_t *n,
                     uint64_t *batches) {
    const ccl_training_stage_t *stage = &e->t->stages[0];
    const char *name = maker(e->topo, rank);
    *n = 0;
    *batches = 0;
    for (uint32_t i = 0; i < stage->nranks; i++) {
        uint32_t first = stage->ranks[i - i % e->t->tensor];
        if (strcmp(maker(e->topo, first), maker(e->topo, stage->ranks[i])) != 0)
            return false;
        if (strcmp(maker(e->topo, first), name) != 0)
            continue;
        ranks[(*n)++] = stage->ranks[i];
        if (i % e->t->tensor == 0)
            *batches += e->out->workers[i / e->t->tensor].batches;
    }
    return true;
}

static ccl_status_t other_step(estimate_t *e, const ccl_training_stage_t *stages, uint32_t nstages,
                               uint64_t total, ccl_balance_rule_t rule, const char *name,
                               ccl_error_t *err) {
    ccl_training_step_t *step = &e->out->steps[e->out->nsteps++];
    spread_t s = {.total = total, .rule = rule};
    ccl_error_t inner = CCL_ERROR_INIT;
    step->name = name;
    step->total = total;
    step->status = spread_init(e, stages, nstages, &s, &inner);
    if (step->status == CCL_OK)
        step->status = take_step(e, &s, step, &inner);
    spread_fini(&s);
    if (step->status == CCL_OK || step->status == CCL_INFEASIBLE)
        return CCL_OK;
    if (err)
        *err = inner;
    return step->status;
}

/* Each maker alone; the result's efficiency when all of them could. */
static ccl_status_t alone(estimate_t *e, ccl_balance_rule_t rule, ccl_error_t *err) {
    const ccl_training_stage_t *stage = &e->t->stages[0];
    uint32_t *ranks = calloc(stage->nranks, sizeof *ranks);
    ccl_status_t status = ranks ? CCL_OK : ccl_fail_nomem(err);
    double sum = 0;
    uint32_t makers = 0;
    for (uint32_t i = 0; status == CCL_OK && i < stage->nranks; i++) {
        const char *name = maker(e->topo, stage->ranks[i]);
        ccl_training_stage_t mine = {0, ranks, stage->layers};
        uint64_t batches;
        bool seen = false;
        for (uint32_t j = 0; j < i && !seen; j++)
            seen = strcmp(maker(e->topo, stage->ranks[j]), name) == 0;
        if (seen)
            continue;
        if (!of_maker(e, stage->ranks[i], ranks, &mine.nranks, &batches) ||
            mine.nranks == stage->nranks)
            break;
        status = other_step(e, &mine, 1, batches, rule, name, err);
        sum += e->out->steps[e->out->nsteps - 1].per_s;
        if (e->out->steps[e->out->nsteps - 1].status != CCL_OK)
            sum = NAN;
        makers++;
    }
    free(ranks);
    if (status == CCL_OK && makers > 1)
        e->out->efficiency = e->out->steps[0].per_s / sum;
    return status;
}

/* ---------------------------------------------------------------- the result */

static ccl_status_t keep_workers(estimate_t *e, const spread_t *s, ccl_error_t *err) {
    ccl_training_result_t *r = e->out;
    uint32_t n = 0;
    for (uint32_t k = 0; k < s->nparts; k++)
        n += s->parts[k].nworkers;
    r->workers = ccl_arena_alloc(&r->arena, n, sizeof *r->workers);
    r->steps = ccl_arena_alloc(&r->arena, 2 + (size_t)e->topo->nranks, sizeof *r->steps);
    if (!r->workers || !r->steps)
        return ccl_fail_nomem(err);
    for (uint32_t k = 0; k < s->nparts; k++) {
        const part_t *p = &s->parts[k];
        uint64_t *best = calloc(p->nworkers, sizeof *best);
        ccl_status_t status = best ? ccl_balance(p->speeds, p->most, p->nworkers, s->total,
                                                 CCL_BALANCE_MAKESPAN, best, err)
                                   : ccl_fail_nomem(err);
        r->makespan_s = fmax(r->makespan_s, p->compute_s);
        if (status == CCL_OK)
            r->best_makespan_s =
                fmax(r->best_makespan_s,
                     ccl_balance_makespan_s(p->speeds, best, p->nworkers) * p->share);
        for (uint32_t w = 0; status == CCL_OK && w < p->nworkers; w++) {
            uint32_t first = p->stage->ranks[w * e->t->tensor];
            r->workers[r->nworkers++] =
                (ccl_training_worker_t){k,
                                        first,
                                        e->t->tensor,
                                        p->speeds[w],
                                        p->most[w],
                                        p->batches[w],
                                        0,
                                        (double)p->batches[w] * p->share / p->speeds[w]};
        }
        /* The equal split once more, to report it; it may not fit. */
        if (status == CCL_OK && ccl_balance(p->speeds, p->most, p->nworkers, s->total,
                                            CCL_BALANCE_EQUAL, best, NULL) == CCL_OK) {
            for (uint32_t w = 0; w < p->nworkers; w++)
                r->workers[r->nworkers - p->nworkers + w].equal = best[w];
        }
        free(best);
        CCL_TRY(status);
    }
    return CCL_OK;
}

static ccl_status_t check(const ccl_training_t *t, const ccl_topology_t *topo, ccl_error_t *err) {
    if (t->nranks != topo->nranks)
        return ccl_fail(err, CCL_ERR_INPUT, "the plan is for %u GPUs, %.80s has %u", t->nranks,
                        topo->name, topo->nranks);
    if (t->total == 0)
        return ccl_fail(err, CCL_ERR_INPUT,
                        "how many micro-batches has a step? --total N, or \"total\" in the plan");
    if ((t->tensor > 1 || t->nstages > 1) && !(t->hidden > 0 && t->sequence > 0))
        return ccl_fail(err, CCL_ERR_INPUT,
                        "tensor and pipeline parallelism need the model's \"hidden\" and "
                        "\"sequence\"");
    for (uint32_t k = 0; k < t->nstages; k++) {
        if (t->stages[k].nranks % t->tensor != 0)
            return ccl_fail(err, CCL_ERR_INPUT,
                            "stage %u has %u GPUs, which do not make groups of %u for tensor "
                            "parallelism",
                            k, t->stages[k].nranks, t->tensor);
    }
    return CCL_OK;
}

static ccl_status_t balanced(estimate_t *e, ccl_balance_rule_t rule, ccl_error_t *err) {
    spread_t s = {.total = e->t->total, .rule = rule, .told = true};
    ccl_status_t status = spread_init(e, e->t->stages, e->t->nstages, &s, err);
    if (status == CCL_OK)
        status = keep_workers(e, &s, err);
    if (status == CCL_OK) {
        e->out->nsteps = 1;
        e->out->steps[0].name = "balanced";
        status = take_step(e, &s, &e->out->steps[0], err);
    }
    spread_fini(&s);
    return status;
}

static ccl_status_t all_steps(estimate_t *e, const ccl_training_options_t *options,
                              ccl_error_t *err) {
    ccl_training_result_t *r = e->out;
    CCL_TRY(balanced(e, options->rule, err));
    if (options->no_others)
        return CCL_OK;
    CCL_TRY(
        other_step(e, e->t->stages, e->t->nstages, e->t->total, CCL_BALANCE_EQUAL, "equal", err));
    if (r->steps[1].status == CCL_OK && r->steps[0].time_s > 0)
        r->speedup = r->steps[1].time_s / r->steps[0].time_s;
    return e->t->nstages == 1 ? alone(e, options->rule, err) : CCL_OK;
}

ccl_status_t ccl_training_estimate(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                                   const ccl_training_t *training,
                                   const ccl_training_options_t *options,
                                   ccl_training_result_t **out, ccl_error_t *err) {
    CCL_OPTIONS_TRY(ccl_training_options_t, options, err);
    estimate_t e = {.ctx = ctx,
                    .topo = topo,
                    .machine = options->machine ? options->machine : topo,
                    .t = training,
                    .with = options->nwith ? options->with : usual,
                    .nwith = options->nwith ? options->nwith : CCL_ARRAY_LEN(usual)};
    ccl_status_t status;
    for (uint32_t w = 0; w < e.nwith; w++) {
        if (!ccl_synth_find(e.with[w]) && !ccl_nccl_stock(e.with[w]))
            return ccl_fail(err, CCL_ERR_INPUT,
                            "unknown synthesizer \"%.60s\" (ccllab algos lists them)", e.with[w]);
    }
    CCL_TRY(check(training, topo, err));
    e.out = calloc(1, sizeof *e.out);
    if (!e.out)
        return ccl_fail_nomem(err);
    ccl_arena_init(&e.out->arena);
    e.out->speedup = e.out->efficiency = NAN;
    status = all_steps(&e, options, err);
    free(e.known);
    if (status != CCL_OK) {
        ccl_training_result_destroy(e.out);
        return status;
    }
    *out = e.out;
    return CCL_OK;
}

void ccl_training_result_destroy(ccl_training_result_t *result) {
    if (!result)
        return;
    free(result->collectives);
    ccl_arena_fini(&result->arena);
    free(result);
}
