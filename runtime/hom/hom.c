/**
 * @file hom.c
 * Clusters of a program that crosses between different devices, and the program without the steps
 * that libraries do.
 */
#include "runtime/hom/hom.h"

#include <stdlib.h>
#include <string.h>

const char *ccl_run_call_name(ccl_run_call_t call) {
    static const char *const names[CCL_RUN_CALLS] = {"allgather", "reducescatter", "broadcast",
                                                     "reduce", "sendrecv"};
    return (unsigned)call < CCL_RUN_CALLS ? names[call] : "?";
}

/* ---------------------------------------------------------------- clusters */

static uint32_t stage_of(const ccl_program_t *program, const ccl_i_run_plan_t *plan,
                         const ccl_device_unit_t *unit) {
    return program->steps[plan->program_step[unit->first_step]].stage;
}

/** The stages in which data pass between different devices. */
static ccl_status_t find_middle(const ccl_program_t *program, const ccl_i_run_plan_t *plan,
                                const char *const *kinds, ccl_i_hom_t *hom, ccl_error_t *err) {
    uint32_t lo = UINT32_MAX, hi = 0, last = 0;
    for (uint32_t u = 0; u < plan->dev.nunits; u++) {
        const ccl_device_unit_t *unit = &plan->units[u];
        uint32_t stage = stage_of(program, plan, unit);
        last = stage > last ? stage : last;
        for (uint32_t i = unit->first_step; i < unit->first_step + unit->nsteps; i++) {
            uint32_t c = plan->steps[i].send;
            if (c == CCL_NONE || strcmp(kinds[plan->conn_src[c]], kinds[plan->conn_dst[c]]) == 0)
                continue;
            lo = stage < lo ? stage : lo;
            hi = stage > hi ? stage : hi;
        }
    }
    if (lo == UINT32_MAX)
        return ccl_fail(err, CCL_UNSUPPORTED,
                        "nothing crosses between vendors; --with-ccl has a library do the "
                        "whole collective");
    if (lo == 0 && hi == last)
        return ccl_fail(err, CCL_UNSUPPORTED,
                        "the program has no stages before or after those that cross between "
                        "vendors: it wants phases as stages (synth --with c2c --granularity "
                        "stage --stages phase), and clusters that are the devices' vendors");
    hom->first_middle = (uint16_t)lo;
    hom->last_middle = (uint16_t)hi;
    return CCL_OK;
}

/** Ranks that neither start nor end anything with others: together, by device. */
static void join_idle(uint32_t n, const char *const *kinds, const bool *busy, uint32_t *set) {
    for (uint32_t r = 0; r < n; r++) {
        uint32_t q = 0;
        while (q < r && (busy[q] || busy[r] || strcmp(kinds[q], kinds[r]) != 0))
            q++;
        if (q < r)
            ccl_set_join(set, q, r);
    }
}

/** set[r]: lowest rank of its cluster. */
static void join(const ccl_program_t *program, const ccl_i_run_plan_t *plan, const ccl_i_hom_t *hom,
                 bool *busy, uint32_t *set) {
    for (uint32_t r = 0; r < program->nranks; r++)
        set[r] = r;
    for (uint32_t u = 0; u < plan->dev.nunits; u++) {
        const ccl_device_unit_t *unit = &plan->units[u];
        if (ccl_i_hom_part_of(hom, stage_of(program, plan, unit)) == CCL_I_HOM_PARTS)
            continue;
        for (uint32_t i = unit->first_step; i < unit->first_step + unit->nsteps; i++)
            if (plan->steps[i].send != CCL_NONE) {
                uint32_t from = plan->conn_src[plan->steps[i].send];
                uint32_t to = plan->conn_dst[plan->steps[i].send];
                busy[from] = busy[to] = true;
                ccl_set_join(set, from, to);
            }
    }
}

static ccl_status_t make_clusters(const ccl_program_t *program, const ccl_i_run_plan_t *plan,
                                  const char *const *kinds, ccl_i_hom_t *hom, ccl_error_t *err) {
    uint32_t n = program->nranks;
    uint32_t *set = ccl_arena_alloc(&hom->arena, n, sizeof *set);
    uint32_t *ranks = ccl_arena_alloc(&hom->arena, n, sizeof *ranks), at = 0;
    bool *busy = ccl_arena_alloc(&hom->arena, n, sizeof *busy);
    hom->of = ccl_arena_alloc(&hom->arena, n, sizeof *hom->of);
    hom->local = ccl_arena_alloc(&hom->arena, n, sizeof *hom->local);
    hom->clusters = ccl_arena_alloc(&hom->arena, n, sizeof *hom->clusters);
    if (!set || !ranks || !busy || !hom->of || !hom->local || !hom->clusters)
        return ccl_fail_nomem(err);
    join(program, plan, hom, busy, set);
    join_idle(n, kinds, busy, set);
    for (uint32_t r = 0; r < n; r++) {
        uint32_t lowest = ccl_set_find(set, r);
        hom->of[r] = lowest == r ? hom->nclusters++ : hom->of[lowest];
        ccl_i_hom_cluster_t *k = &hom->clusters[hom->of[r]];
        hom->local[r] = lowest == r ? 0 : k->nranks;
        if (lowest == r)
            *k = (ccl_i_hom_cluster_t){.kind = kinds[r]};
        k->nranks++;
    }
    for (uint32_t c = 0; c < hom->nclusters; c++) {
        hom->clusters[c].ranks = ranks + at;
        at += hom->clusters[c].nranks;
    }
    for (uint32_t r = 0; r < n; r++)
        hom->clusters[hom->of[r]].ranks[hom->local[r]] = r;
    for (uint32_t t = 0; t < program->ntbs; t++)
        for (uint32_t i = 0; i < program->tbs[t].nsteps; i++) {
            const ccl_step_t *s = &program->steps[program->tbs[t].first_step + i];
            uint32_t part = ccl_i_hom_part_of(hom, s->stage);
            if (part < CCL_I_HOM_PARTS && s->type != CCL_PRIM_NOP)
                hom->clusters[hom->of[program->tbs[t].rank]].part[part].nsteps++;
        }
    return CCL_OK;
}

ccl_status_t ccl_i_hom_find(const ccl_program_t *program, const ccl_i_run_plan_t *plan,
                            const char *const *kinds, ccl_i_hom_t *out, ccl_error_t *err) {
    memset(out, 0, sizeof *out);
    ccl_arena_init(&out->arena);
    ccl_status_t status = find_middle(program, plan, kinds, out, err);
    if (status == CCL_OK)
        status = make_clusters(program, plan, kinds, out, err);
    if (status == CCL_OK)
        status = ccl_i_hom_flow(program, plan, out, err);
    for (uint32_t c = 0; c < out->nclusters && status == CCL_OK; c++)
        for (uint32_t part = 0; part < CCL_I_HOM_PARTS && status == CCL_OK; part++)
            if (out->clusters[c].part[part].nsteps)
                status = ccl_i_hom_calls(out, c, part, err);
    if (status != CCL_OK)
        ccl_i_hom_fini(out);
    return status;
}

void ccl_i_hom_fini(ccl_i_hom_t *hom) {
    ccl_i_run_plan_fini(&hom->plan);
    for (uint32_t part = 0; part < CCL_I_HOM_PARTS; part++)
        free(hom->flow.moves[part]);
    free(hom->flow.leaves);
    ccl_arena_fini(&hom->arena);
    memset(hom, 0, sizeof *hom);
}

/* ---------------------------------------------------------------- what is left */

static bool is_cut(const ccl_i_hom_t *hom, uint32_t rank, const ccl_step_t *step) {
    uint32_t part = ccl_i_hom_part_of(hom, step->stage);
    return part < CCL_I_HOM_PARTS && hom->clusters[hom->of[rank]].part[part].by_library;
}

/** Steps that are kept wait for those that are kept only: a library's are over, or come later. */
static void link_steps(const ccl_program_t *whole, const uint32_t *index, ccl_program_t *left) {
    for (uint32_t t = 0; t < left->ntbs; t++) {
        const ccl_tb_t *tb = &left->tbs[t];
        for (uint32_t i = tb->first_step; i < tb->first_step + tb->nsteps; i++) {
            ccl_step_t *s = &left->steps[i];
            if (s->dep_tb == CCL_NONE || s->dep_step == CCL_NONE)
                continue;
            uint32_t on = whole->rank_first_tb[tb->rank] + s->dep_tb;
            uint32_t now = index[whole->tbs[on].first_step + s->dep_step];
            if (now == CCL_NONE) {
                s->dep_tb = s->dep_step = CCL_NONE;
                continue;
            }
            s->dep_step = now - left->tbs[on].first_step;
            left->steps[now].has_dep = 1;
        }
    }
}

ccl_status_t ccl_i_hom_cut(const ccl_program_t *program, ccl_i_hom_t *hom, ccl_error_t *err) {
    ccl_program_t *left = &hom->program;
    size_t n = program->nsteps + (size_t)1;
    uint32_t *index = malloc(n * sizeof *index); /* of the program's steps among those left */
    ccl_peers_t *peers = ccl_arena_alloc(&hom->arena, n, sizeof *peers);
    *left = *program;
    left->tbs = ccl_arena_alloc(&hom->arena, program->ntbs + (size_t)1, sizeof *left->tbs);
    left->steps = ccl_arena_alloc(&hom->arena, n, sizeof *left->steps);
    if (!index || !peers || !left->tbs || !left->steps) {
        free(index);
        return ccl_fail_nomem(err);
    }
    left->nsteps = 0;
    for (uint32_t t = 0; t < program->ntbs; t++) {
        const ccl_tb_t *tb = &program->tbs[t];
        left->tbs[t] = *tb;
        left->tbs[t].first_step = left->nsteps;
        left->tbs[t].nsteps = 0;
        for (uint32_t i = tb->first_step; i < tb->first_step + tb->nsteps; i++) {
            index[i] = CCL_NONE;
            if (is_cut(hom, tb->rank, &program->steps[i]))
                continue;
            peers[left->nsteps] = ccl_program_peers(program, tb, i);
            left->steps[left->nsteps] = program->steps[i];
            left->steps[left->nsteps].has_dep = 0;
            index[i] = left->nsteps++;
            left->tbs[t].nsteps++;
        }
    }
    left->peers = program->peers ? peers : NULL;
    link_steps(program, index, left);
    free(index);
    return CCL_OK;
}
