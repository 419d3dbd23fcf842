/**
 * @file tiny_case.h
 * Random cases: a tiny cluster, a collective and a time; the size that just can be done in it; and
 * what the bound says of that size.
 */
#ifndef CCL_BENCH_TINY_CASE_H
#define CCL_BENCH_TINY_CASE_H

#include "bench/tiny_fluid.h"

/** Kinds in the order of their numbers: case i is of kind i modulo their number. */
static const ccl_collective_kind_t TINY_KINDS[] = {CCL_ALLGATHER, CCL_REDUCESCATTER, CCL_ALLREDUCE,
                                                   CCL_ALLTOALL,  CCL_BROADCAST,     CCL_REDUCE,
                                                   CCL_SCATTER,   CCL_GATHER};

/* Rows of the linear program: links times steps. */
enum { TINY_ROWS = 300 };

typedef struct tiny_case {
    ccl_topology_t *topo;
    tiny_net_t net;
    ccl_collective_kind_t kind;
    uint32_t root, nsteps, farthest; /**< units: of the time; between GPUs */
    tiny_fluid_t fluid;
    double optimum_s, size_bytes; /**< nothing larger than this can be done in that time */
    bool proven;                  /**< false: AllReduce, whose size may be larger */
    double bound_s;
    ccl_bound_by_t by;
} tiny_case_t;

static inline void tiny_case_fini(tiny_case_t *c) {
    ccl_topology_destroy(c->topo);
    c->topo = NULL;
}

/* Units between the farthest two GPUs between which something must go. */
static inline uint32_t tiny_farthest(const tiny_net_t *net, ccl_collective_kind_t kind,
                                     uint32_t root) {
    uint32_t steps[TINY_GPUS][TINY_GPUS], most = 0, n = net->ngpus;
    bool leaves = kind == CCL_BROADCAST || kind == CCL_SCATTER;
    bool enters = kind == CCL_REDUCE || kind == CCL_GATHER;
    for (uint32_t i = 0; i < n * n; i++)
        steps[i / n][i % n] = i / n == i % n ? 0 : 10000;
    for (uint32_t i = 0; i < n * net->narcs; i++) {
        const tiny_arc_t *a = &net->arcs[i % net->narcs];
        for (uint32_t s = 0; s < n; s++)
            if (steps[s][a->from] + a->steps < steps[s][a->to])
                steps[s][a->to] = steps[s][a->from] + a->steps;
    }
    for (uint32_t i = 0; i < n * n; i++) {
        bool counts = leaves ? i / n == root : !enters || i % n == root;
        most = counts && steps[i / n][i % n] > most ? steps[i / n][i % n] : most;
    }
    return most;
}

/* A third of the times is near the latency, a third within twice of it, a third any. */
static inline uint32_t tiny_time(ccl_rng_t *rng, uint32_t farthest, uint32_t most) {
    uint32_t room = most - farthest, how = ccl_rng_below(rng, 3);
    uint32_t more = how == 0 ? 3 : how == 1 ? farthest + 1 : room;
    return farthest + 1 + ccl_rng_below(rng, more < room ? more : room);
}

static inline ccl_status_t tiny_case_bound(tiny_case_t *c, ccl_error_t *err) {
    ccl_collective_t *coll = NULL;
    ccl_bound_options_t options = CCL_BOUND_OPTIONS_INIT;
    ccl_bound_t bound;
    CCL_TRY(ccl_collective_create(c->kind, c->net.ngpus, 1, c->root, &coll, err));
    options.size_bytes = c->size_bytes;
    ccl_status_t status = ccl_bound(NULL, c->topo, coll, &options, &bound, err);
    if (status == CCL_OK) {
        c->bound_s = bound.time_s;
        c->by = bound.by;
        ccl_bound_fini(&bound);
    }
    ccl_collective_destroy(coll);
    return status;
}

/** The case of a number: the same one whatever was made before. tiny_case_fini() afterwards. */
static inline ccl_status_t tiny_case(uint64_t seed, uint32_t number, tiny_case_t *c,
                                     ccl_error_t *err) {
    ccl_rng_t rng;
    ccl_rng_init(&rng, seed * 0x9e3779b97f4a7c15u + number);
    *c = (tiny_case_t){.kind = TINY_KINDS[number % CCL_ARRAY_LEN(TINY_KINDS)]};
    for (;;) { /* some are too far apart for the steps that there are */
        c->topo = tiny_cluster(ccl_rng_next(&rng), number, err);
        if (!c->topo)
            return CCL_ERR_INPUT;
        bool ok = tiny_net(c->topo, &c->net);
        uint32_t most = TINY_ROWS / c->net.nlinks < TINY_STEPS ? TINY_ROWS / c->net.nlinks
                                                               : TINY_STEPS;
        c->root = ccl_rng_below(&rng, c->net.ngpus);
        c->farthest = ok ? tiny_farthest(&c->net, c->kind, c->root) : 0;
        if (ok && c->farthest < most) {
            c->nsteps = tiny_time(&rng, c->farthest, most);
            break;
        }
        tiny_case_fini(c);
    }
    ccl_status_t status = tiny_fluid(&c->net, c->kind, c->root, c->nsteps, &c->fluid, err);
    c->optimum_s = c->nsteps * TINY_UNIT_S;
    c->size_bytes = tiny_size(c->kind, c->net.ngpus, c->fluid.bytes);
    if (status == CCL_OK)
        status = tiny_case_bound(c, err);
    c->proven = c->kind == CCL_ALLREDUCE
                    ? c->bound_s > c->optimum_s * (1 - 1e-6)
                    : c->fluid.most_bytes <= c->fluid.bytes * (1 + 1e-6);
    if (status != CCL_OK)
        tiny_case_fini(c);
    return status;
}

#endif
