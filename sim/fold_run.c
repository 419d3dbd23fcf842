/*
 * The folded run (fold.c finds it): tables of the blocks that stay, beside those of the run as it
 * was, and back again.
 */
#include "sim/fold.h"

#include <stdlib.h>
#include <string.h>

typedef ccl_i_folding_t folding_t;

/* How often a flow of each connection that stays counts on each resource that stays. */
bool ccl_i_fold_shares(const folding_t *f, ccl_i_fold_t *fold) {
    const ccl_i_run_t *run = f->run;
    uint32_t nentries = f->first_entry[run->nconns], n = 0;
    uint32_t *first = malloc((run->nconns + 1u) * sizeof(*first));
    uint32_t *len = calloc(run->nconns + 1u, sizeof(*len));
    fold->shares = malloc((nentries + 1u) * sizeof(*fold->shares));
    fold->first_share = malloc((run->nconns + 1u) * sizeof(*fold->first_share));
    if (!first || !len || !fold->shares || !fold->first_share) {
        free(first);
        free(len);
        return false;
    }
    uint32_t kept = 0;
    for (uint32_t c = 0; c < run->nconns; c++) {
        if (f->conn_rep[c] != c)
            continue;
        fold->first_share[kept++] = first[c] = n;
        for (uint32_t e = f->first_entry[c]; e < f->first_entry[c + 1]; e++) {
            uint32_t res = f->res_rep[f->entries[e].res], at = first[c];
            while (at < n && fold->shares[at].res != res)
                at++;
            if (at == n)
                fold->shares[n++] = (ccl_i_share_t){res, 0};
        }
        len[c] = n - first[c];
    }
    fold->first_share[kept] = n;
    for (uint32_t c = 0; c < run->nconns; c++) {
        uint32_t rep = f->conn_rep[c];
        for (uint32_t e = f->first_entry[c]; e < f->first_entry[c + 1]; e++)
            for (uint32_t k = 0; k < len[rep]; k++)
                if (fold->shares[first[rep] + k].res == f->entries[e].res)
                    fold->shares[first[rep] + k].weight += f->entries[e].weight;
    }
    free(first);
    free(len);
    return true;
}

static uint32_t step_of(const uint32_t *unit_of, const ccl_i_unit_t *units, ccl_i_fold_at_t at) {
    return at.unit == CCL_NONE ? CCL_NONE : units[unit_of[at.unit]].first + at.index;
}

/* Tables of a folded run. */
typedef struct tables {
    uint32_t *conn_of;
    ccl_i_unit_t *units;
    ccl_i_conn_t *conns;
    ccl_i_work_t *work;
    ccl_i_trunk_t *trunks;
    uint32_t *step_conns, *members;
    double *times;
} tables_t;

static bool alloc_tables(const ccl_i_run_t *run, uint32_t nunits, uint32_t nconns, uint32_t nsteps,
                         tables_t *t) {
    uint32_t nmembers = 0;
    for (uint32_t i = 0; i < run->ntrunks; i++)
        nmembers += run->trunks[i].n;
    t->trunks = run->trunks ? malloc(run->ntrunks * sizeof(*t->trunks)) : NULL;
    t->members = run->trunks ? malloc((nmembers + 1u) * sizeof(*t->members)) : NULL;
    t->conn_of = malloc((run->nconns + 1u) * sizeof(*t->conn_of));
    t->units = malloc((nunits + 1u) * sizeof(*t->units));
    t->conns = malloc((nconns + 1u) * sizeof(*t->conns));
    t->work = malloc((nsteps + 1u) * sizeof(*t->work));
    t->step_conns = run->step_conns ? malloc((2ull * nsteps + 1) * sizeof(*t->step_conns)) : NULL;
    t->times = run->step_end_s ? calloc(2ull * nsteps + 1, sizeof(*t->times)) : NULL;
    if ((!run->step_conns || t->step_conns) && (!run->step_end_s || t->times) &&
        (!run->trunks || (t->trunks && t->members)) && t->conn_of && t->units && t->conns &&
        t->work)
        return true;
    free(t->conn_of);
    free(t->units);
    free(t->conns);
    free(t->work);
    free(t->step_conns);
    free(t->times);
    free(t->trunks);
    free(t->members);
    return false;
}

/* The run goes on with the folded tables, the fold keeps those of the run as it was. */
static void take_tables(ccl_i_run_t *run, ccl_i_fold_t *fold, const tables_t *to, uint32_t nunits,
                        uint32_t nconns, uint32_t nsteps) {
    fold->conn_of = to->conn_of;
    fold->units = run->units;
    fold->conns = run->conns;
    fold->order = run->order;
    fold->step_conns = run->step_conns;
    run->step_conns = to->step_conns;
    fold->step_start_s = run->step_start_s;
    fold->step_end_s = run->step_end_s;
    run->step_end_s = to->times;
    run->step_start_s = to->times ? to->times + nsteps : NULL;
    fold->nunits = run->nunits;
    fold->nconns = run->nconns;
    fold->trunks = run->trunks;
    fold->members = run->members;
    fold->ntrunks = run->ntrunks;
    run->trunks = to->trunks;
    run->members = to->members;
    run->units = to->units;
    run->conns = to->conns;
    run->work = to->work;
    run->order = NULL; /* steps are by unit */
    run->nleft = run->nunits = nunits;
    run->nconns = nconns;
    run->nsteps = nsteps;
}

/* Trunks that stay, with one member of each colour. @return how many. */
static uint32_t fold_trunks(const folding_t *f, const ccl_i_run_t *run, const tables_t *to) {
    uint32_t ntrunks = 0, n = 0;
    for (uint32_t i = 0; i < run->ntrunks; i++) {
        const ccl_i_trunk_t *old = &run->trunks[i];
        if (f->conn_rep[old->conn] != old->conn)
            continue;
        ccl_i_trunk_t *t = &to->trunks[ntrunks];
        *t = *old;
        t->conn = to->conn_of[old->conn];
        t->first = n;
        for (uint32_t k = 0; k < old->n; k++) {
            uint32_t member = to->conn_of[run->members[old->first + k]], at = t->first;
            while (at < n && to->members[at] != member)
                at++;
            to->members[at] = member;
            n += at == n;
            to->conns[member].trunk = ntrunks;
        }
        t->n = t->least = n - t->first;
        to->conns[t->conn].trunk = ntrunks++;
    }
    return ntrunks;
}

/* Tables of the blocks that stay, in their old order, beside the old ones. */
bool ccl_i_fold_tables(const folding_t *f, ccl_i_run_t *run, ccl_i_fold_t *fold, uint32_t nunits,
                       uint32_t nconns) {
    uint32_t nsteps = 0, u = 0, c = 0;
    fold->unit_of = malloc((run->nunits + 1u) * sizeof(*fold->unit_of));
    for (uint32_t i = 0; i < run->nunits; i++)
        nsteps += f->unit_rep[i] == i ? run->units[i].nsteps : 0;
    tables_t to;
    if (!fold->unit_of || !alloc_tables(run, nunits, nconns, nsteps, &to))
        return false;
    uint32_t *conn_of = to.conn_of;
    ccl_i_unit_t *units = to.units;
    nsteps = 0;
    memset(run->rank_units, 0, (run->program->nranks + 1u) * sizeof(*run->rank_units));
    for (uint32_t i = 0; i < run->nunits; i++) {
        fold->unit_of[i] = f->unit_rep[i] == i ? u : fold->unit_of[f->unit_rep[i]];
        if (f->unit_rep[i] != i)
            continue;
        units[u] = run->units[i];
        units[u++].first = nsteps;
        nsteps += run->units[i].nsteps;
        run->rank_units[run->program->tbs[run->units[i].tb].rank + 1]++;
    }
    for (uint32_t r = 0; r < run->program->nranks; r++)
        run->rank_units[r + 1] += run->rank_units[r];
    for (uint32_t i = 0; i < run->nconns; i++) {
        conn_of[i] = f->conn_rep[i] == i ? c : conn_of[f->conn_rep[i]];
        if (f->conn_rep[i] == i)
            to.conns[c++] = run->conns[i];
    }
    for (uint32_t i = 0; i < nconns; i++) {
        if (to.conns[i].sender != CCL_NONE)
            to.conns[i].sender = fold->unit_of[to.conns[i].sender];
        if (to.conns[i].receiver != CCL_NONE)
            to.conns[i].receiver = fold->unit_of[to.conns[i].receiver];
    }
    for (uint32_t i = 0; i < run->nunits; i++) {
        if (f->unit_rep[i] != i)
            continue;
        ccl_i_unit_t *unit = &units[fold->unit_of[i]];
        unit->send = unit->send == CCL_NONE ? CCL_NONE : conn_of[unit->send];
        unit->recv = unit->recv == CCL_NONE ? CCL_NONE : conn_of[unit->recv];
        if (unit->stage_dep != CCL_NONE)
            unit->stage_dep = step_of(fold->unit_of, units, ccl_i_fold_find(f, unit->stage_dep));
        for (uint32_t k = 0; k < unit->nsteps; k++) {
            uint32_t old = ccl_i_step_at(run, run->units[i].first + k), is = unit->first + k;
            for (size_t end = 0; to.step_conns && end < 2; end++) {
                uint32_t conn = run->step_conns[2 * (size_t)old + end];
                to.step_conns[2 * (size_t)is + end] = conn == CCL_NONE ? CCL_NONE : conn_of[conn];
            }
            to.work[is] = run->works[run->work_of[old]];
            to.work[is].dep = step_of(fold->unit_of, units, ccl_i_fold_dep(f, i, old));
        }
    }
    ccl_i_work_mark(to.work, nsteps, units, nunits);
    uint32_t ntrunks = fold_trunks(f, run, &to);
    take_tables(run, fold, &to, nunits, nconns, nsteps);
    run->ntrunks = ntrunks;
    return true;
}

void ccl_i_fold_destroy(ccl_i_fold_t *fold) {
    if (!fold)
        return;
    free(fold->unit_of);
    free(fold->conn_of);
    free(fold->shares);
    free(fold->first_share);
    free(fold);
}

void ccl_i_unfold(ccl_i_run_t *run) {
    ccl_i_fold_t *fold = run->fold;
    if (!fold)
        return;
    for (uint32_t i = 0; i < fold->nunits; i++) {
        const ccl_i_unit_t *from = &run->units[fold->unit_of[i]];
        ccl_i_unit_t *to = &fold->units[i];
        to->phase = from->phase;
        to->mark_s = from->mark_s;
        memcpy(to->use_s, from->use_s, sizeof(to->use_s));
        for (uint32_t k = 0; fold->step_end_s && k < to->nsteps; k++) {
            uint32_t step = fold->order ? fold->order[to->first + k] : to->first + k;
            fold->step_start_s[step] = run->step_start_s[from->first + k];
            fold->step_end_s[step] = run->step_end_s[from->first + k];
        }
    }
    for (uint32_t c = 0; c < run->nconns; c++)
        free(run->conns[c].queue);
    free(run->units);
    free(run->conns);
    free(run->work);
    free(run->order);
    free(run->step_conns);
    free(run->step_end_s);
    free(run->trunks);
    free(run->members);
    run->trunks = fold->trunks;
    run->members = fold->members;
    run->ntrunks = fold->ntrunks;
    run->units = fold->units;
    run->conns = fold->conns;
    run->work = NULL;
    run->order = fold->order;
    run->step_conns = fold->step_conns;
    run->step_start_s = fold->step_start_s;
    run->step_end_s = fold->step_end_s;
    run->nunits = fold->nunits;
    run->nconns = fold->nconns;
    run->nsteps = run->program->nsteps;
    run->fold = NULL;
    ccl_i_fold_destroy(fold);
}
