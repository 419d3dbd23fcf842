/*
 * Blocks that are alike, while they are looked for; private to fold*.c.
 */
#ifndef CCL_SIM_FOLD_H
#define CCL_SIM_FOLD_H

#include "sim/program.h"

typedef struct ccl_i_fold_entry {
    uint32_t res,
        weight; /* a link, group or reducer (network.h) and how often a flow counts there */
} ccl_i_fold_entry_t;

typedef struct ccl_i_folding {
    const ccl_i_run_t *run;
    uint32_t nsteps, nres;
    uint32_t *step_unit, *step_index; /* [nsteps] at stage level: and the place in it; else NULL */
    uint32_t *tb_unit;                /* [ntbs] then: a block's unit */
    double *launch_s;                 /* [nranks] */
    uint32_t *first_dep, *deps;       /* [nunits + 1] units that a unit waits for */
    uint32_t *first_end, *ends;       /* [nunits + 1] connections of a unit; CCL_NONE */
    uint32_t *ports;                  /* [2 nconns] place among its sender's, its receiver's ends */
    uint32_t *first_entry;            /* [nconns + 1] */
    ccl_i_fold_entry_t *entries;
    size_t cdeps, cends, centries;
    uint64_t *unit, *next, *conn, *res; /* colours */
    uint64_t *seen;                     /* what each resource has seen */
    uint64_t *trunk, *members; /* [ntrunks] colours: of the trunk, of its members together */
    double *rate_Bps;          /* [nres] of reducers */
    uint64_t *set;             /* open addressing: colours */
    uint32_t *set_first;       /* member with that colour */
    uint32_t set_len;
    uint32_t *unit_rep, *conn_rep, *res_rep; /* first of the same colour */
} ccl_i_folding_t;

/** A step by the unit that does it; unit CCL_NONE: none. */
typedef struct ccl_i_fold_at {
    uint32_t unit, index; /* the place in it */
} ccl_i_fold_at_t;

static inline ccl_i_fold_at_t ccl_i_fold_find(const ccl_i_folding_t *f, uint32_t step) {
    return step == CCL_NONE ? (ccl_i_fold_at_t){CCL_NONE, 0}
                            : (ccl_i_fold_at_t){f->step_unit[step], f->step_index[step]};
}
/** What a step waits for. Where units are blocks the step itself says that. */
static inline ccl_i_fold_at_t ccl_i_fold_dep(const ccl_i_folding_t *f, uint32_t unit,
                                             uint32_t step) {
    if (f->step_unit)
        return ccl_i_fold_find(f, ccl_i_work_dep(f->run, unit, step));
    const ccl_program_t *p = f->run->program;
    const ccl_step_t *s = &p->steps[step];
    if (s->dep_tb == CCL_NONE || s->dep_step == CCL_NONE)
        return (ccl_i_fold_at_t){CCL_NONE, 0};
    uint32_t tb = f->run->units[unit].tb;
    uint32_t on = p->rank_first_tb[p->tbs[tb].rank] + s->dep_tb;
    if (on == tb && s->dep_step < step - p->tbs[tb].first_step) /* met by order */
        return (ccl_i_fold_at_t){CCL_NONE, 0};
    return (ccl_i_fold_at_t){f->tb_unit[on], s->dep_step};
}
/** How often a flow of each connection that stays counts on each resource that stays. False: no
 * memory. */
bool ccl_i_fold_shares(const ccl_i_folding_t *f, ccl_i_fold_t *fold);
/** Tables of the blocks that stay, in their old order, beside the old ones. False: no memory. */
bool ccl_i_fold_tables(const ccl_i_folding_t *f, ccl_i_run_t *run, ccl_i_fold_t *fold,
                       uint32_t nunits, uint32_t nconns);
void ccl_i_fold_destroy(ccl_i_fold_t *fold);

#endif
