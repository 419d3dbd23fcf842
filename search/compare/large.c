/*
 * Comparisons on large clusters. A contender goes from beginning to end, so that its program is
 * given back before the next one's is made. From some size on two at a time take too much: the
 * first worker makes the large ones that are synthesized here one after the other, with its sizes
 * simulated by several threads, and the other workers the others.
 */
#include "search/compare/cells.h"
#include "search/compare/shared.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

void ccl_i_compare_give_back(void) {
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

/* From as many ranks on, programs have millions of steps. */
static const uint32_t ALONE = 400;

bool ccl_i_compare_is_large(ccl_i_compare_t *c) {
    c->alone = c->threads > 1 && c->ngroup > 1 && c->topo->nranks >= ALONE;
    for (uint32_t k = 0; k < c->ngroup; k++) /* these hold a program at a time, and search long */
        c->alone = c->alone && !ccl_i_compare_by_size(c, c->group[k]);
    return c->alone || (c->topo->nranks >= CCL_I_COMPARE_LARGE && c->ngroup > c->threads);
}

bool ccl_i_compare_bounds_later(const ccl_i_compare_t *c) {
    return c->threads > 1 && c->topo->nranks >= ALONE && !(c->options->gap > 0) &&
           !c->options->notebook;
}

/* Is its program made of a schedule here, once for all sizes, and may be large? */
static bool is_alone(const ccl_i_compare_t *c, uint32_t contender) {
    const ccl_contender_t *by = &c->options->contenders[contender];
    const ccl_synth_ops_t *ops = by->schedule ? NULL : ccl_synth_find(by->name);
    return c->alone && !by->program && !by->library && !(ops && ops->few);
}

/* Sizes of one contender. Threads beside the worker take the places of workers that have ended,
   with their routes, or places behind those of all workers. */
typedef struct sizes {
    ccl_i_compare_t *c;
    uint32_t contender, worker;
} sizes_t;

static ccl_status_t simulate_size(uint32_t index, uint32_t worker, void *user, ccl_error_t *err) {
    const sizes_t *s = user;
    ccl_i_compare_t *c = s->c;
    uint32_t as = s->worker;
    if (worker != 0) /* an ended worker does not begin again */
        as = atomic_load(&c->ended[worker]) ? worker : c->threads + worker - 1;
    return ccl_i_compare_simulate(index * c->options->ncontenders + s->contender, as, c, err);
}

static ccl_status_t run_one(ccl_i_compare_t *c, uint32_t contender, uint32_t worker,
                            uint32_t threads, ccl_error_t *err) {
    sizes_t sizes = {c, contender, worker};
    ccl_i_compare_give_back(); /* what contenders before had in small pieces */
    CCL_TRY(ccl_i_compare_prepare(contender, worker, c, err));
    CCL_TRY(ccl_parallel_for(c->options->nsizes, threads, simulate_size, &sizes, err));
    ccl_i_compare_release(c, contender);
    ccl_i_compare_end_routes(c, worker); /* some know all pairs, others a few */
    for (uint32_t w = 1; worker == 0 && w < threads; w++)
        ccl_i_compare_end_routes(c, c->threads + w - 1); /* beside it nobody has these */
    ccl_i_compare_give_back();
    return CCL_OK;
}

/* Those that a worker may make beside others, as long as there are any. */
static ccl_status_t run_others(ccl_i_compare_t *c, uint32_t worker, ccl_error_t *err) {
    for (;;) {
        uint32_t k = atomic_fetch_add(&c->next, 1);
        if (k >= c->ngroup)
            return CCL_OK;
        if (!is_alone(c, c->group[k]) && !atomic_load(&c->ready[c->group[k]].finished))
            CCL_TRY(run_one(c, c->group[k], worker, 1, err));
    }
}

static ccl_status_t run_alone(ccl_i_compare_t *c, ccl_error_t *err) {
    for (uint32_t k = c->next_alone; k < c->ngroup; k = c->next_alone) {
        c->next_alone++;
        if (is_alone(c, c->group[k]))
            CCL_TRY(run_one(c, c->group[k], 0, c->threads, err));
    }
    return CCL_OK;
}

static ccl_status_t work(uint32_t index, uint32_t worker, void *user, ccl_error_t *err) {
    (void)index;
    ccl_i_compare_t *c = user;
    if (worker == 0)
        CCL_TRY(run_alone(c, err));
    if (worker == 1) {
        ccl_ctx_t ctx = ccl_i_worker_ctx(c->ctx);
        CCL_TRY(ccl_i_compare_bound(c, &ctx, err));
    }
    CCL_TRY(run_others(c, worker, err));
    atomic_store(&c->ended[worker], true);
    return CCL_OK;
}

/* What a library runs is proven before large programs are made. If it is one it is run before, too.
 */
static ccl_status_t run_libraries(ccl_i_compare_t *c, ccl_error_t *err) {
    enum { MANY = 1 << 18 };
    for (uint32_t k = 0; c->alone && k < c->ngroup; k++) {
        uint32_t contender = c->group[k];
        if (!c->options->contenders[contender].library)
            continue;
        CCL_TRY(ccl_i_compare_prepare(contender, 0, c, err));
        if (ccl_i_nccl_steps(c->ready[contender].nccl, c->options->nsizes) >= MANY)
            CCL_TRY(run_one(c, contender, 0, c->threads, err));
    }
    return CCL_OK;
}

typedef struct begin {
    ccl_i_compare_t *c;
    bool libraries; /* begun, by the first worker */
} begin_t;

/* Bounds take little memory: they are computed beside what a library runs. */
static ccl_status_t begin(uint32_t index, uint32_t worker, void *user, ccl_error_t *err) {
    (void)index;
    begin_t *b = user;
    if (worker == 0 && !b->libraries) {
        b->libraries = true;
        return run_libraries(b->c, err);
    }
    ccl_ctx_t ctx = ccl_i_worker_ctx(b->c->ctx);
    return worker == 1 ? ccl_i_compare_bound(b->c, &ctx, err) : CCL_OK;
}

ccl_status_t ccl_i_compare_large(ccl_i_compare_t *c, ccl_error_t *err) {
    begin_t b = {c, false};
    atomic_store(&c->next, 0);
    for (uint32_t w = 0; w < c->threads; w++)
        atomic_store(&c->ended[w], false);
    if (c->alone)
        CCL_TRY(ccl_parallel_for(2, 2, begin, &b, err));
    if (!b.libraries)
        CCL_TRY(run_libraries(c, err));
    c->next_alone = 0;
    CCL_TRY(ccl_parallel_for(c->threads, c->threads, work, c, err));
    return run_alone(c, err); /* where others were faster than the first worker began */
}
