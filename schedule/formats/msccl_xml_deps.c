/* MSCCL XML: a dependency names a step by its `s`, programs by its index. */
#include "schedule/formats/msccl_xml_i.h"

#include <stdlib.h>

typedef struct numbered {
    uint32_t s, index;
} numbered_t;

static int by_s(const void *a, const void *b) {
    const numbered_t *x = a, *y = b;
    if (x->s != y->s)
        return x->s < y->s ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/** The steps of a gpu by block and s, NULL where their s simply count from 0. */
static ccl_status_t number_steps(const char *file, const ccl_tb_t *tbs, uint32_t ntbs,
                                 const ccl_step_mark_t *marks, numbered_t **out, ccl_error_t *err) {
    size_t first = ntbs ? tbs[0].first_step : 0, n = 0;
    bool counted = true;
    for (uint32_t t = 0; t < ntbs; t++)
        n += tbs[t].nsteps;
    for (uint32_t t = 0; t < ntbs && counted; t++)
        for (uint32_t i = 0; i < tbs[t].nsteps && counted; i++)
            counted = marks[tbs[t].first_step + i].s == i;
    *out = NULL;
    if (counted)
        return CCL_OK;
    numbered_t *table = malloc((n + 1) * sizeof *table);
    if (!table)
        return ccl_fail_nomem(err);
    for (uint32_t t = 0; t < ntbs; t++) {
        const ccl_tb_t *tb = &tbs[t];
        numbered_t *mine = table + (tb->first_step - first);
        for (uint32_t i = 0; i < tb->nsteps; i++)
            mine[i] = (numbered_t){marks[tb->first_step + i].s, i};
        qsort(mine, tb->nsteps, sizeof *mine, by_s);
        for (uint32_t i = 1; i < tb->nsteps; i++) {
            if (mine[i].s != mine[i - 1].s)
                continue;
            uint32_t s = mine[i].s, line = marks[tb->first_step + mine[i].index].line;
            free(table);
            return ccl_error_set(err, CCL_ERR_INPUT, file, (int)line, 0,
                                 "gpu %u tb %u has two steps with s %u", tb->rank, tb->id, s);
        }
    }
    *out = table;
    return CCL_OK;
}

static uint32_t find_step(const numbered_t *mine, const ccl_tb_t *tb, uint32_t s) {
    if (!mine)
        return s < tb->nsteps ? s : CCL_NONE;
    uint32_t lo = 0, hi = tb->nsteps;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (mine[mid].s < s)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < tb->nsteps && mine[lo].s == s ? mine[lo].index : CCL_NONE;
}

ccl_status_t ccl_i_xml_resolve_deps(const char *file, const ccl_tb_t *tbs, uint32_t ntbs,
                                    ccl_step_t *steps, const ccl_step_mark_t *marks, size_t end,
                                    ccl_error_t *err) {
    numbered_t *table;
    size_t first = ntbs ? tbs[0].first_step : end;
    ccl_status_t status = CCL_OK;
    CCL_TRY(number_steps(file, tbs, ntbs, marks, &table, err));
    for (size_t i = first; i < end && status == CCL_OK; i++) {
        ccl_step_t *step = &steps[i];
        if (step->dep_tb == CCL_NONE)
            continue;
        if (step->dep_tb >= ntbs) {
            status =
                ccl_error_set(err, CCL_ERR_INPUT, file, (int)marks[i].line, 0,
                              "step depid %u: gpu %u has %u tbs", step->dep_tb, tbs[0].rank, ntbs);
            break;
        }
        const ccl_tb_t *on = &tbs[step->dep_tb];
        uint32_t s = step->dep_step;
        step->dep_step = find_step(table ? table + (on->first_step - first) : NULL, on, s);
        if (step->dep_step == CCL_NONE)
            status = ccl_error_set(err, CCL_ERR_INPUT, file, (int)marks[i].line, 0,
                                   "step deps %u: tb %u of gpu %u has no step with that s", s,
                                   on->id, on->rank);
    }
    free(table);
    return status;
}
