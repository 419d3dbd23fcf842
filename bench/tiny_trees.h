/**
 * @file tiny_trees.h
 * The cheapest way to bring data to GPUs in time, when each link has a price at each step: out-trees
 * (copies), in-trees (sums), and what an AllReduce joins from both. Dynamic programs over sets of
 * GPUs and steps, exact for trees.
 */
#ifndef CCL_BENCH_TINY_TREES_H
#define CCL_BENCH_TINY_TREES_H

#include "bench/tiny_clusters.h"

#include <stdlib.h>

enum { TINY_SETS = 1 << TINY_GPUS, TINY_STEPS = 32 };

/** What is best in a state, and what it is followed by. */
typedef enum tiny_how {
    TINY_DONE,
    TINY_WAIT,  /* a step */
    TINY_SEND,  /* over arc `by` */
    TINY_SPLIT, /* set `by` and the others, apart */
    TINY_DROP,  /* the GPU itself has it */
    TINY_MEET,  /* AllReduce: joined at GPU `by` % GPUS in step `by` / GPUS, spread from there */
    TINY_BY_SOURCE
} tiny_how_t;

typedef struct tiny_state {
    double price;
    uint16_t how, by;
} tiny_state_t;

typedef struct tiny_trees {
    const tiny_net_t *net;
    uint32_t nsteps, nsets;
    double price[TINY_ARCS][TINY_STEPS];                 /**< of an arc in a step */
    tiny_state_t out[TINY_STEPS][TINY_GPUS][TINY_SETS];  /**< from here on to the set */
    tiny_state_t in[TINY_STEPS][TINY_GPUS][TINY_SETS];   /**< the sum of the set is here */
    tiny_state_t join[TINY_SETS][TINY_SETS];             /**< the sum of a set at each of a set */
} tiny_trees_t;

static inline bool tiny_better(tiny_state_t *s, double price, tiny_how_t how, uint32_t by) {
    if (!(price < s->price))
        return false;
    *s = (tiny_state_t){price, (uint16_t)how, (uint16_t)by};
    return true;
}

/* In one step: latencies of 0 are passed at once, so until nothing changes. */
static inline void tiny_out_set(tiny_trees_t *x, uint32_t t, uint32_t set) {
    const tiny_net_t *net = x->net;
    for (uint32_t v = 0; v < net->ngpus; v++) {
        tiny_state_t *s = &x->out[t][v][set];
        *s = (tiny_state_t){set ? INFINITY : 0, TINY_DONE, 0};
        if (set >> v & 1)
            tiny_better(s, x->out[t][v][set & ~(1u << v)].price, TINY_DROP, 0);
        else if (t + 1 < x->nsteps)
            tiny_better(s, x->out[t + 1][v][set].price, TINY_WAIT, 0);
        for (uint32_t one = (set - 1) & set; one > (set ^ one); one = (one - 1) & set)
            tiny_better(s, x->out[t][v][one].price + x->out[t][v][set ^ one].price, TINY_SPLIT,
                        one);
    }
    for (bool again = set != 0; again;) {
        again = false;
        for (uint32_t a = 0; a < net->narcs; a++) {
            const tiny_arc_t *arc = &net->arcs[a];
            uint32_t then = t + arc->steps;
            if (then < x->nsteps && !(set >> arc->from & 1) &&
                tiny_better(&x->out[t][arc->from][set],
                            x->price[a][t] + x->out[then][arc->to][set].price, TINY_SEND, a))
                again = true;
        }
    }
}

static inline void tiny_in_set(tiny_trees_t *x, uint32_t t, uint32_t set) {
    const tiny_net_t *net = x->net;
    for (uint32_t v = 0; v < net->ngpus; v++) {
        tiny_state_t *s = &x->in[t][v][set];
        *s = (tiny_state_t){set == 1u << v ? 0 : INFINITY, TINY_DONE, 0};
        if (t > 0)
            tiny_better(s, x->in[t - 1][v][set].price, TINY_WAIT, 0);
        for (uint32_t one = (set - 1) & set; one > (set ^ one); one = (one - 1) & set)
            tiny_better(s, x->in[t][v][one].price + x->in[t][v][set ^ one].price, TINY_SPLIT, one);
    }
    for (bool again = true; again;) {
        again = false;
        for (uint32_t a = 0; a < net->narcs; a++) {
            const tiny_arc_t *arc = &net->arcs[a];
            if (t >= arc->steps &&
                tiny_better(&x->in[t][arc->to][set],
                            x->in[t - arc->steps][arc->from][set].price +
                                x->price[a][t - arc->steps],
                            TINY_SEND, a))
                again = true;
        }
    }
}

/** All out-trees at the prices. */
static inline void tiny_outs(tiny_trees_t *x) {
    for (uint32_t t = x->nsteps; t-- > 0;)
        for (uint32_t set = 0; set < x->nsets; set++)
            tiny_out_set(x, t, set);
}

/** All in-trees at the prices. */
static inline void tiny_ins(tiny_trees_t *x) {
    for (uint32_t t = 0; t < x->nsteps; t++)
        for (uint32_t set = 1; set < x->nsets; set++)
            tiny_in_set(x, t, set);
}

/** What joins from both, of tiny_outs() and tiny_ins(): not all that an AllReduce can do. */
static inline void tiny_joins(tiny_trees_t *x) {
    for (uint32_t from = 1; from < x->nsets; from++)
        for (uint32_t to = 1; to < x->nsets; to++) {
            tiny_state_t *s = &x->join[from][to];
            s->price = INFINITY;
            for (uint32_t t = 0; t < x->nsteps; t++)
                for (uint32_t v = 0; v < x->net->ngpus; v++)
                    tiny_better(s, x->in[t][v][from].price + x->out[t][v][to].price, TINY_MEET,
                                t * TINY_GPUS + v);
            for (uint32_t one = (from - 1) & from; one > (from ^ one); one = (one - 1) & from)
                tiny_better(s, x->join[one][to].price + x->join[from ^ one][to].price,
                            TINY_BY_SOURCE, one);
            for (uint32_t one = (to - 1) & to; one > (to ^ one); one = (one - 1) & to)
                tiny_better(s, x->join[from][one].price + x->join[from][to ^ one].price, TINY_SPLIT,
                            one);
        }
}

/** How often the best tree uses each arc in each step; added to `use`. */
typedef double tiny_use_t[TINY_ARCS][TINY_STEPS];

static inline void tiny_use_out(const tiny_trees_t *x, uint32_t t, uint32_t v, uint32_t set,
                                tiny_use_t use) {
    while (set) {
        const tiny_state_t *s = &x->out[t][v][set];
        if (s->how == TINY_DROP) {
            set &= ~(1u << v);
        } else if (s->how == TINY_WAIT) {
            t++;
        } else if (s->how == TINY_SPLIT) {
            tiny_use_out(x, t, v, s->by, use);
            set ^= s->by;
        } else {
            use[s->by][t]++;
            t += x->net->arcs[s->by].steps;
            v = x->net->arcs[s->by].to;
        }
    }
}

static inline void tiny_use_in(const tiny_trees_t *x, uint32_t t, uint32_t v, uint32_t set,
                               tiny_use_t use) {
    for (const tiny_state_t *s; s = &x->in[t][v][set], s->how != TINY_DONE;) {
        if (s->how == TINY_WAIT) {
            t--;
        } else if (s->how == TINY_SPLIT) {
            tiny_use_in(x, t, v, s->by, use);
            set ^= s->by;
        } else {
            t -= x->net->arcs[s->by].steps;
            use[s->by][t]++;
            v = x->net->arcs[s->by].from;
        }
    }
}

static inline void tiny_use_join(const tiny_trees_t *x, uint32_t from, uint32_t to,
                                 tiny_use_t use) {
    const tiny_state_t *s = &x->join[from][to];
    if (s->how == TINY_MEET) {
        uint32_t t = s->by / TINY_GPUS, v = s->by % TINY_GPUS;
        tiny_use_in(x, t, v, from, use);
        tiny_use_out(x, t, v, to, use);
        return;
    }
    bool by_source = s->how == TINY_BY_SOURCE;
    tiny_use_join(x, by_source ? s->by : from, by_source ? to : s->by, use);
    tiny_use_join(x, by_source ? from ^ s->by : from, by_source ? to : to ^ s->by, use);
}

#endif
