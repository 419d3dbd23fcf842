/*
 * Plans for single failures: one comparison on the whole cluster, one on what each class of
 * failures leaves, and runs of today's programs there. Each comparison uses all cores, so cases
 * come one after the other, and what an interrupted one has finished is whole.
 */
#include "search/failover/failover.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "search/compare/points.h"
#include "search/compare/shared.h"

/* Who takes more than this times the winner's time at every size is not asked again: a failure
   changes times by less, but where somebody cannot run. */
static const double HOPELESS = 2;
/* Only the fastest is of use here: whose schedule takes more than this times another's in the plain
   way is not lowered with care. tests/search/unit_failover.c: who has no hope. */
static const double HOPE = 1.25;
/* Runs before the other synthesizers for each size, as it is the fastest most often. */
static const char *const LEADER = "packing";

typedef struct failover {
    const ccl_ctx_t *ctx;
    const ccl_topology_t *topo;
    const ccl_collective_t *want;
    const ccl_failover_options_t *options;
    ccl_comparison_t *today; /* on the whole cluster, with its runs */
    ccl_contender_t *all;    /* [ncontenders] who is asked on the whole cluster, the leader first */
    ccl_contender_t *again;  /* who is asked on damaged clusters, the fastest first */
    uint32_t nagain;
    ccl_content_t *left; /* [ncases] hashes of what is left */
    ccl_failover_t *out;
} failover_t;

/* ---------------------------------------------------------------- progress */

/* Of one comparison, as a part of all. */
typedef struct part {
    const ccl_ctx_t *outer;
    const char *kind, *name;
    uint64_t done, total;
} part_t;

static int tell(const ccl_progress_t *progress, void *user) {
    const part_t *part = user;
    char phase[400];
    snprintf(phase, sizeof phase, "%s%.120s: %.200s", part->kind, part->name, progress->phase);
    ccl_progress_t all = {phase, part->done, part->total, 0, 0};
    return part->outer->progress(&all, part->outer->progress_user);
}

static ccl_ctx_t part_ctx(part_t *part, const ccl_ctx_t *outer) {
    ccl_ctx_t ctx = outer ? *outer : (ccl_ctx_t)CCL_CTX_INIT;
    part->outer = outer;
    ctx.progress = ctx.progress ? tell : NULL;
    ctx.progress_user = part;
    return ctx;
}

/* ---------------------------------------------------------------- the whole cluster */

static const char *keep_text(failover_t *f, const char *text) {
    return text && text[0] ? ccl_arena_strdup(&f->out->arena, text) : NULL;
}

static ccl_status_t tell_today(failover_t *f, ccl_error_t *err) {
    const ccl_comparison_t *today = f->today;
    bool nomem = false, any = false;
    for (uint32_t s = 0; s < today->nsizes; s++) {
        const ccl_compare_cell_t *cells = today->cells + (size_t)s * today->ncontenders;
        ccl_failover_today_t *t = &f->out->today[s];
        uint32_t w = today->winner[s];
        *t = (ccl_failover_today_t){.time_s = NAN, .nccl_s = NAN, .bound_s = today->bound_s[s]};
        if (today->nccl != CCL_NONE && cells[today->nccl].status == CCL_OK)
            t->nccl_s = cells[today->nccl].time_s;
        if (w == CCL_NONE)
            continue;
        any = true;
        t->time_s = cells[w].time_s;
        t->winner = keep_text(f, today->names[w]);
        t->origin = keep_text(f, cells[w].origin);
        t->proto = cells[w].proto;
        nomem |= !t->winner;
        if (f->options->program && today->winner_runs[s].program)
            CCL_TRY(f->options->program(f->out, CCL_NONE, s, today->winner_runs[s].program,
                                        f->options->user, err));
    }
    f->out->library = today->nccl == CCL_NONE ? NULL : keep_text(f, today->names[today->nccl]);
    if (nomem)
        return ccl_fail_nomem(err);
    return any ? CCL_OK
               : ccl_fail(err, CCL_INFEASIBLE, "no contender could run on the whole cluster");
}

/* At how many sizes a contender is the fastest. */
static uint32_t wins_of(const ccl_comparison_t *today, uint32_t contender) {
    uint32_t wins = 0;
    for (uint32_t s = 0; s < today->nsizes; s++)
        wins += today->winner[s] == contender;
    return wins;
}

/* May a contender be the best after a failure? Nobody knows of those that ended early. */
static bool may_be_best(const failover_t *f, uint32_t contender) {
    const ccl_comparison_t *today = f->today;
    bool may = f->options->all || contender == today->nccl;
    for (uint32_t s = 0; s < today->nsizes && !may; s++) {
        const ccl_compare_cell_t *cells = today->cells + (size_t)s * today->ncontenders;
        const ccl_compare_cell_t *cell = &cells[contender];
        uint32_t w = today->winner[s];
        may = cell->hopeless || (w != CCL_NONE && cell->status == CCL_OK &&
                                 cell->time_s <= HOPELESS * cells[w].time_s);
    }
    return may;
}

static void choose_again(failover_t *f) {
    const ccl_comparison_t *today = f->today;
    f->nagain = 0;
    for (uint32_t wins = today->nsizes + 1; wins-- > 0;)
        for (uint32_t i = 0; i < today->ncontenders; i++)
            if (wins_of(today, i) == wins && may_be_best(f, i))
                f->again[f->nagain++] = f->all[i];
}

static ccl_status_t compare_today(failover_t *f, ccl_error_t *err) {
    ccl_compare_options_t options = f->options->compare;
    part_t part = {.kind = "the whole cluster", .name = "", .total = f->out->ncases + (uint64_t)1};
    ccl_ctx_t ctx = part_ctx(&part, f->ctx);
    uint32_t n = 0;
    for (int leads = 1; leads >= 0; leads--)
        for (uint32_t i = 0; i < options.ncontenders; i++)
            if ((strcmp(options.contenders[i].name, LEADER) == 0) == (leads == 1))
                f->all[n++] = options.contenders[i];
    options.contenders = f->all;
    options.keep = true;
    options.hope = f->options->all ? 0 : HOPE;
    ccl_status_t status = ccl_compare(&ctx, f->topo, f->want, &options, &f->today, err);
    if (status == CCL_INTERRUPTED)
        return ccl_fail(err, CCL_INTERRUPTED, "no failure is finished");
    CCL_TRY(status);
    choose_again(f);
    return tell_today(f, err);
}

/* ---------------------------------------------------------------- what is left */

/* A NIC that leads nowhere; CCL_NONE: there is none. */
static uint32_t dead_nic(const ccl_topology_t *topo) {
    for (uint32_t d = 0; d < topo->ndevices; d++) {
        uint32_t other = CCL_NONE;
        bool leads = topo->devices[d].kind != CCL_DEVICE_NIC;
        for (uint32_t l = 0; l < topo->nlinks && !leads; l++) {
            const ccl_link_t *link = &topo->links[l];
            if (link->from != d && link->to != d)
                continue;
            uint32_t end = link->from == d ? link->to : link->from;
            leads = other != CCL_NONE && other != end;
            other = end;
        }
        if (!leads)
            return d;
    }
    return CCL_NONE;
}

/* What a failure leaves, without NICs that lead nowhere now: a NIC whose only cable is cut is as
   good as dead. */
static ccl_status_t damage(const ccl_topology_t *topo, const char *edit, ccl_topology_t **out,
                           ccl_error_t *err) {
    ccl_topology_t *left = NULL;
    CCL_TRY(ccl_topology_edit(topo, edit, &left, err));
    if (dead_nic(topo) == CCL_NONE) {
        for (uint32_t nic; (nic = dead_nic(left)) != CCL_NONE;) {
            ccl_topology_t *less = NULL;
            char fail[400];
            snprintf(fail, sizeof fail, "fail:nic:%.380s", left->devices[nic].id);
            ccl_status_t status = ccl_topology_edit(left, fail, &less, err);
            ccl_topology_destroy(left);
            CCL_TRY(status);
            left = less;
        }
    }
    *out = left;
    return CCL_OK;
}

/* ---------------------------------------------------------------- today's programs */

typedef struct stay {
    const failover_t *f;
    const ccl_topology_t *left;
    const char *edit;
    double *times_s;   /* [nsizes][2] winner, library */
    ccl_error_t *whys; /* [nsizes][2] */
} stay_t;

/* Statuses by which a program cannot run, and not the work on it. */
static bool cannot_run(ccl_status_t status) {
    return status == CCL_ERR_INPUT || status == CCL_UNSUPPORTED || status == CCL_DEADLOCK ||
           status == CCL_INFEASIBLE || status == CCL_CHECK;
}

static ccl_status_t run_left(const ccl_ctx_t *ctx, const stay_t *s, const ccl_compare_run_t *run,
                             double *time_s, ccl_error_t *err) {
    ccl_topology_t *own = NULL; /* the library's constants on what is left */
    ccl_sim_result_t *result = NULL;
    if (run->topo != s->f->topo)
        CCL_TRY(damage(run->topo, s->edit, &own, err));
    const ccl_topology_t *topo = own ? own : s->left;
    ccl_routes_t *routes = ccl_routes_create(topo);
    ccl_status_t status =
        routes ? ccl_sim_program(ctx, topo, routes, run->program, &run->sim, &result, err)
               : ccl_fail_nomem(err);
    if (status == CCL_OK)
        *time_s = result->time_s;
    ccl_sim_result_destroy(result);
    ccl_routes_destroy(routes);
    ccl_topology_destroy(own);
    return status;
}

static ccl_status_t stay_one(uint32_t index, uint32_t worker, void *user, ccl_error_t *err) {
    stay_t *s = user;
    const ccl_comparison_t *today = s->f->today;
    const ccl_compare_run_t *run =
        index % 2 ? &today->nccl_runs[index / 2] : &today->winner_runs[index / 2];
    ccl_ctx_t ctx = ccl_i_worker_ctx(s->f->ctx);
    (void)worker;
    s->times_s[index] = NAN;
    if (!run->program)
        return CCL_OK;
    ccl_status_t status = run_left(&ctx, s, run, &s->times_s[index], &s->whys[index]);
    if (cannot_run(status)) {
        s->times_s[index] = INFINITY;
        return CCL_OK;
    }
    if (status != CCL_OK && err)
        *err = s->whys[index];
    return status;
}

/* What today's programs take on what is left. */
static ccl_status_t stay(failover_t *f, ccl_failover_case_t *c, const ccl_topology_t *left,
                         ccl_error_t *err) {
    uint32_t ns = f->out->nsizes;
    stay_t s = {.f = f, .left = left, .edit = c->failure.edit};
    s.times_s = calloc(2 * (size_t)ns, sizeof *s.times_s);
    s.whys = calloc(2 * (size_t)ns, sizeof *s.whys);
    ccl_status_t status = s.times_s && s.whys ? CCL_OK : ccl_fail_nomem(err);
    if (status == CCL_OK)
        status = ccl_parallel_for(2 * ns, f->ctx ? f->ctx->threads : 0, stay_one, &s, err);
    for (uint32_t k = 0; status == CCL_OK && k < ns; k++) {
        ccl_failover_plan_t *plan = &c->plans[k];
        plan->stays_s = s.times_s[2 * k];
        plan->nccl_stays_s = s.times_s[2 * k + 1];
        if (plan->stays_s == INFINITY &&
            !(plan->stays_why = ccl_arena_strdup(&f->out->arena, s.whys[2 * k].text)))
            status = ccl_fail_nomem(err);
    }
    free(s.times_s);
    free(s.whys);
    return status;
}

/* ---------------------------------------------------------------- one failure */

/* The collective of the ranks that are left; *own_out to destroy, where it is another. */
static ccl_status_t collective_left(const failover_t *f, const ccl_failure_t *failure,
                                    const ccl_topology_t *left, ccl_collective_t **own_out,
                                    ccl_error_t *err) {
    const ccl_collective_t *want = f->want;
    uint32_t gone = 0, root = want->root;
    if (left->nranks == want->nranks)
        return CCL_OK;
    if (want->kind == CCL_CUSTOM)
        return ccl_fail(err, CCL_UNSUPPORTED,
                        "a demand names its ranks: there is none of the rest");
    while (gone < left->nranks && strcmp(f->topo->devices[f->topo->rank_device[gone]].id,
                                         left->devices[left->rank_device[gone]].id) == 0)
        gone++;
    if (ccl_collective_kind_is_rooted(want->kind) && gone == root)
        return ccl_fail(err, CCL_UNSUPPORTED, "the root is gone: %s needs another", failure->name);
    root -= ccl_collective_kind_is_rooted(want->kind) && gone < root;
    return ccl_collective_create(want->kind, left->nranks, want->chunks_per_block, root, own_out,
                                 err);
}

/* The best of what is left at one size: a new schedule or today's. */
static ccl_status_t choose_plan(failover_t *f, uint32_t which, uint32_t size,
                                const ccl_comparison_t *now, ccl_error_t *err) {
    ccl_failover_plan_t *plan = &f->out->cases[which].plans[size];
    const ccl_compare_cell_t *cells = now->cells + (size_t)size * now->ncontenders;
    const ccl_failover_today_t *today = &f->out->today[size];
    const ccl_program_t *program = NULL;
    uint32_t w = now->winner[size];
    plan->bound_s = now->bound_s[size];
    if (now->nccl != CCL_NONE && cells[now->nccl].status == CCL_OK)
        plan->nccl_s = cells[now->nccl].time_s;
    if (w != CCL_NONE) {
        plan->best_s = cells[w].time_s;
        plan->best = keep_text(f, now->names[w]);
        plan->origin = keep_text(f, cells[w].origin);
        plan->proto = cells[w].proto;
        program = now->winner_runs[size].program;
    }
    if (plan->stays_s < INFINITY && !(plan->best_s < plan->stays_s)) {
        plan->best_s = plan->stays_s;
        plan->best = today->winner;
        plan->origin = today->origin;
        plan->proto = today->proto;
        plan->same = true;
        program = f->today->winner_runs[size].program;
    }
    if (plan->best_s < INFINITY && !plan->best)
        return ccl_fail_nomem(err);
    return f->options->program && program
               ? f->options->program(f->out, which, size, program, f->options->user, err)
               : CCL_OK;
}

static ccl_status_t repair(failover_t *f, uint32_t which, const ccl_topology_t *machine,
                           const ccl_topology_t *left, const ccl_collective_t *want,
                           ccl_error_t *err) {
    ccl_failover_case_t *c = &f->out->cases[which];
    ccl_compare_options_t options = f->options->compare;
    ccl_comparison_t *now = NULL;
    char kind[16];
    snprintf(kind, sizeof kind, "%s ", ccl_failure_kind_name(c->failure.kind));
    part_t part = {.kind = kind,
                   .name = c->failure.name,
                   .done = which + (uint64_t)1,
                   .total = f->out->ncases + (uint64_t)1};
    ccl_ctx_t ctx = part_ctx(&part, f->ctx);
    options.contenders = f->again;
    options.ncontenders = f->nagain;
    options.hope = f->options->all ? 0 : HOPE;
    options.machine = machine;
    options.keep = true;
    if (left->nranks == f->topo->nranks)
        CCL_TRY(stay(f, c, left, err));
    ccl_status_t status = ccl_compare(&ctx, left, want, &options, &now, err);
    for (uint32_t s = 0; status == CCL_OK && s < f->out->nsizes; s++)
        status = choose_plan(f, which, s, now, err);
    ccl_comparison_destroy(now);
    return status;
}

/* An earlier failure that left the same: its plans are these. */
static bool copy_plans(failover_t *f, uint32_t which) {
    ccl_failover_case_t *c = &f->out->cases[which];
    for (uint32_t i = 0; i < which; i++) {
        if (f->out->cases[i].status != CCL_OK || f->out->cases[i].nranks != c->nranks ||
            memcmp(f->left[i], f->left[which], sizeof f->left[i]) != 0)
            continue;
        memcpy(c->plans, f->out->cases[i].plans, f->out->nsizes * sizeof *c->plans);
        c->same_as = i;
        return true;
    }
    return false;
}

static ccl_status_t run_case(failover_t *f, uint32_t which, ccl_error_t *err) {
    ccl_failover_case_t *c = &f->out->cases[which];
    ccl_topology_t *left = NULL, *machine = NULL;
    ccl_collective_t *own = NULL;
    ccl_content_t demand;
    ccl_error_t why = CCL_ERROR_INIT;
    const ccl_topology_t *whole = f->options->compare.machine;
    ccl_status_t status = damage(f->topo, c->failure.edit, &left, &why);
    if (status == CCL_OK && whole)
        status = damage(whole, c->failure.edit, &machine, &why);
    if (status == CCL_ERR_INPUT)
        status = CCL_INFEASIBLE;
    if (status == CCL_OK)
        status = collective_left(f, &c->failure, left, &own, &why);
    if (status == CCL_OK) {
        c->nranks = left->nranks;
        status = ccl_i_point_inputs(NULL, left, own ? own : f->want, f->left[which], demand, &why);
    }
    if (status == CCL_OK && !copy_plans(f, which))
        status = repair(f, which, machine, left, own ? own : f->want, &why);
    ccl_collective_destroy(own);
    ccl_topology_destroy(machine);
    ccl_topology_destroy(left);
    if (status != CCL_OK && status != CCL_INFEASIBLE && status != CCL_UNSUPPORTED) {
        if (err)
            *err = why;
        return status;
    }
    c->status = status;
    c->why = NULL;
    if (status != CCL_OK && !(c->why = ccl_arena_strdup(&f->out->arena, why.text)))
        return ccl_fail_nomem(err);
    f->out->finished++;
    return CCL_OK;
}

/* ---------------------------------------------------------------- all of them */

static ccl_status_t allocate(failover_t *f, ccl_error_t *err) {
    ccl_failover_t *out = f->out;
    uint32_t ns = f->options->compare.nsizes;
    out->nsizes = ns;
    out->ncases = out->failures->n;
    out->nfailures = out->failures->nall;
    out->sizes_bytes = ccl_arena_alloc(&out->arena, ns, sizeof *out->sizes_bytes);
    out->today = ccl_arena_alloc(&out->arena, ns, sizeof *out->today);
    out->cases = ccl_arena_alloc(&out->arena, out->ncases + (size_t)1, sizeof *out->cases);
    f->all = calloc(f->options->compare.ncontenders + (size_t)1, sizeof *f->all);
    f->again = calloc(f->options->compare.ncontenders + (size_t)1, sizeof *f->again);
    f->left = calloc(out->ncases + (size_t)1, sizeof *f->left);
    if (!out->sizes_bytes || !out->today || !out->cases || !f->all || !f->again || !f->left)
        return ccl_fail_nomem(err);
    for (uint32_t s = 0; s < ns; s++)
        out->sizes_bytes[s] = f->options->compare.sizes_bytes[s];
    for (uint32_t i = 0; i < out->ncases; i++) {
        ccl_failover_case_t *c = &out->cases[i];
        *c = (ccl_failover_case_t){.failure = out->failures->items[i],
                                   .status = CCL_INTERRUPTED,
                                   .why = "interrupted",
                                   .same_as = CCL_NONE,
                                   .plans = ccl_arena_alloc(&out->arena, ns, sizeof *c->plans)};
        if (!c->plans)
            return ccl_fail_nomem(err);
        for (uint32_t s = 0; s < ns; s++)
            c->plans[s] = (ccl_failover_plan_t){
                .stays_s = NAN, .nccl_stays_s = NAN, .best_s = NAN, .nccl_s = NAN, .bound_s = NAN};
    }
    return CCL_OK;
}

static ccl_status_t check(const ccl_failover_options_t *o, ccl_error_t *err) {
    if (o->compare.notebook || o->compare.draws)
        return ccl_fail(err, CCL_ERR_INPUT, "failures are compared without notebook and scenario");
    if (o->compare.nsizes == 0 || o->compare.ncontenders == 0)
        return ccl_fail(err, CCL_ERR_INPUT, "nothing to compare: no size or no contender");
    return CCL_OK;
}

ccl_status_t ccl_failover(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                          const ccl_collective_t *want, const ccl_failover_options_t *options,
                          ccl_failover_t **out, ccl_error_t *err) {
    CCL_OPTIONS_TRY(ccl_failover_options_t, options, err);
    CCL_TRY(check(options, err));
    failover_t f = {.ctx = ctx, .topo = topo, .want = want, .options = options};
    f.out = calloc(1, sizeof *f.out);
    if (!f.out)
        return ccl_fail_nomem(err);
    ccl_arena_init(&f.out->arena);
    ccl_status_t status = ccl_failures_find(ctx, topo, want, options->kinds, &f.out->failures, err);
    if (status == CCL_OK)
        status = allocate(&f, err);
    if (status == CCL_OK)
        status = compare_today(&f, err);
    for (uint32_t i = 0; status == CCL_OK && i < f.out->ncases; i++)
        status = run_case(&f, i, err);
    if (status == CCL_OK || (status == CCL_INTERRUPTED && f.out->finished)) {
        *out = f.out;
        f.out = NULL;
    }
    ccl_comparison_destroy(f.today);
    free(f.all);
    free(f.again);
    free(f.left);
    ccl_failover_destroy(f.out);
    return status;
}

void ccl_failover_destroy(ccl_failover_t *failover) {
    if (!failover)
        return;
    ccl_failures_destroy(failover->failures);
    ccl_arena_fini(&failover->arena);
    free(failover);
}
