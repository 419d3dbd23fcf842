/**
 * @file rates.h
 * State of the rate solver, shared by paths.c (set-up), network.c (flows come and go), own.c (who
 * limits whom), relax.c and fill.c (the two ways to make rates max-min fair again).
 */
#ifndef CCL_SIM_RATES_H
#define CCL_SIM_RATES_H

#include "sim/maxmin/network.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rates that differ by less than this, relatively, are equal: keeps rounding from moving paths
   to and fro between resources that are tied. */
#define EPS 1e-12
/* Paths of a list are far apart in memory: fetch those this many places on. */
#define AHEAD 8

typedef struct entry {
    uint32_t res, weight;
} entry_t;

typedef struct flow {
    double key; /* drained when the path's clock of served volume shows this */
    uint32_t user;
} flow_t;

typedef struct path {
    uint32_t first, n; /* entries */
    uint32_t count;    /* active flows that the rates know of */
    uint32_t own_pos;  /* its place among the bottleneck's own */
    uint32_t mark;
    uint32_t nflows;
    uint32_t rest; /* its flows but the first, a heap by key; CCL_NONE: never had two */
    bool simple;   /* one or two entries, of weight 1 */
    double offset; /* path's clock - bottleneck's clock */
    flow_t flow;   /* the first to drain */
} path_t;

typedef struct rest {
    flow_t *heap;
    size_t cheap;
} rest_t;

/* What tells paths of one route apart. */
typedef struct path_cap {
    double cap_Bps; /* also what a flow adds to a link's demand in eta(z) */
    uint32_t next;  /* path of the same route; CCL_NONE */
} path_cap_t;

/* A path among those limited by a resource. */
typedef struct own {
    uint32_t path, other;
    double count;
    double key; /* of its first flow, on the resource's clock */
} own_t;

/* The part of own_t that the inner loops read, packed. */
typedef struct load {
    uint32_t other, count;
} load_t;

typedef struct member {
    uint32_t path, slot;
} member_t;

typedef struct resource {
    double vol, vol_t; /* served volume per flow and the time it holds for */
    double next_t, min_key;
    own_t *own;    /* a heap by key for cap classes, unordered for others */
    load_t *loads; /* [cown] mirrors own */
    uint32_t nown, cown;
    uint32_t nwide;  /* of own: not of two resources of weight 1 */
    uint32_t nlazy;  /* the first of own: their other resource is lazy */
    double min_safe; /* no lazy one of those is in danger up to this level */
    uint32_t calm;   /* flows that ended here since it was last found not to be lazy */
    member_t *list;  /* all active paths (not kept for cap classes) */
    uint32_t nlist, clist;
    uint32_t *bottles; /* [cbottles] of the paths of list, once pull() has asked */
    size_t cbottles;
    uint32_t queue_pos; /* in the completion queue */
    uint32_t mark, touched;
    uint32_t age; /* relaxations since `other` was last summed up afresh */
    bool fixed;   /* a cap class: its level is its rate for ever */
    bool check;   /* paths limited elsewhere may be faster than its level */
    bool min_stale;
    bool listed;                /* bottles is kept up to date */
    double base, kappa, demand; /* links with contention */
    double rem, cnt;            /* filling */
} resource_t;

typedef struct keyed {
    double key;
    uint32_t id;
} keyed_t;

typedef struct share {
    double rate, weight;
} share_t;

typedef struct started {
    double bytes;
    uint32_t path, user;
} started_t;

/* Filling: what the seeds are connected to: resources, paths, and paths under a cap class. */
typedef struct component {
    uint32_t *res, *paths;
    keyed_t *capped, *heap;
    uint32_t nres, npaths, ncapped, nheap;
    size_t cres, cpaths, ccapped, cheap;
} component_t;

struct ccl_i_net {
    const ccl_topology_t *topo;
    bool use_links, varied;
    int force;
    double now;
    resource_t *res;
    uint32_t nres;
    size_t cres;
    uint32_t first_cap; /* resources from here on are cap classes */
    /* [nres + 1], the last for the sentinel that limits nobody */
    double *level;   /* rate of the paths limited here; INFINITY when there are none */
    double *other;   /* load of flows limited elsewhere */
    double *own;     /* weight of flows limited here */
    double *cap;     /* capacity now, B eta(z) */
    double *full;    /* cap (1 + EPS) */
    double *limit;   /* more load than this makes the resource dirty, see ccl_i_net_watch() */
    uint32_t *bins;  /* [nbins] resources by level, see ccl_i_net_bin() */
    double *fastest; /* no path limited elsewhere is faster; ends a step */
    uint32_t nbins;  /* a power of two */
    /* A resource far from full is lazy: its load is not kept up to date, because at the rates its
       paths have it cannot fill up (rate <= cap / weight of all paths). Only one that its paths'
       levels may endanger is brought up to date, and is eager from then on. */
    uint8_t *lazy;
    double *all;    /* weight of all flows */
    uint8_t *dirty; /* waits in work; always set for cap
                       classes, the sentinel and lazy resources */
    path_t *paths;
    uint32_t npaths;
    size_t cpaths;
    bool lists;       /* some resource has been listed */
    uint32_t *bottle; /* [path] resource that limits it; CCL_NONE when inactive */
    entry_t *entries;
    uint32_t nentries;
    size_t centries;
    path_cap_t *caps; /* [npaths] */
    size_t ccaps;
    rest_t *rests; /* of paths that have had several flows */
    uint32_t nrests;
    size_t crests;
    uint32_t *by_route; /* [route's index] last path of a route; CCL_NONE */
    size_t cby_route;
    uint32_t *group_first, *group_list; /* groups of each link; NULL: no groups */
    uint8_t *dropped;                   /* resources that are redundant: no path has them */
    uint8_t *is_used;                   /* those in `used` */
    size_t cdropped, cis_used;
    uint32_t *used; /* resources of paths */
    uint32_t nused;
    size_t cused;
    uint32_t stride; /* most entries of a path */
    uint32_t *pos;   /* [path][stride]: place in its resources' lists */
    uint32_t active_paths, active_flows;
    started_t *started; /* flows to add at the next solve */
    uint32_t nstarted;
    size_t cstarted;
    uint32_t *ended; /* a path per flow that was taken */
    uint32_t nended;
    size_t cended;
    uint32_t *fresh; /* paths that were inactive */
    uint32_t nfresh;
    size_t cfresh;
    ccl_i_drained_t *drained;
    size_t cdrained;
    uint32_t *queue; /* completion queue: resources by next_t */
    uint32_t nqueue;
    uint32_t nwork;        /* dirty resources, in buckets by level: relax.c */
    double *bucket_low;    /* [nbuckets] */
    uint32_t *bucket_head; /* [nbuckets] the first of a bucket that is used */
    uint32_t *bucket_next; /* [nres + 1] */
    uint32_t *bucket_at;   /* [nres + 1] where it was last */
    double *bucket_key;    /* [nres + 1] level it would have got when it was marked */
    uint64_t bucket_used[64], bucket_words; /* bitmaps */
    uint32_t nbuckets;
    uint64_t looks; /* at others of a bucket, since bounds were set */
    uint32_t *touched;
    uint32_t ntouched;
    size_t ctouched;
    uint32_t *seeds; /* resources of what changed in this instant */
    uint32_t nseeds;
    size_t cseeds;
    uint32_t *scratch;
    size_t cscratch;
    share_t *shares; /* of the paths through an overloaded resource */
    size_t cshares;
    component_t component; /* kept for its memory */
    struct ccl_i_wide *wide; /* wide.c; NULL: no bundles */
    uint32_t epoch, touch_epoch;
    uint64_t rate_changes, visits;
    uint64_t scans, scanned; /* passes over a resource's paths, and paths, since bounds were set */
    bool binned;             /* bins are kept: passes are long */
    bool nomem;
};

/* network.c */
/** Enter a path's `slot`-th resource's list of active paths. */
void ccl_i_net_member_add(ccl_i_net_t *net, uint32_t path, uint32_t slot, uint32_t res);

/* own.c */
/** A flow more on a path; false when out of memory. */
bool ccl_i_path_push(ccl_i_net_t *net, path_t *path, flow_t flow);
/** Take a path's first flow away. */
void ccl_i_path_pop(ccl_i_net_t *net, path_t *path);
/** Key of the first flow on the bottleneck's clock. */
static inline double ccl_i_path_key(const path_t *p) {
    return p->nflows ? p->flow.key - p->offset : INFINITY;
}
/** Count or first flow of an active path changed. */
void ccl_i_net_own_update(ccl_i_net_t *net, uint32_t path);
void ccl_i_net_own_remove(ccl_i_net_t *net, uint32_t path, resource_t *r);
double ccl_i_net_first_key(resource_t *r);
/** No path through lazy resource r endangers it up to this rate. */
static inline double ccl_i_net_safe(const ccl_i_net_t *net, uint32_t r) {
    return 0.999 * net->cap[r] / net->all[r];
}
/** Make a lazy resource eager, with its load as the levels are now. */
void ccl_i_net_wake(ccl_i_net_t *net, uint32_t index);
/** Make a resource lazy if it is far from full. */
void ccl_i_net_rest(ccl_i_net_t *net, uint32_t index);
/** Bring a resource's clock to now, once per solve, before anything of it changes. */
void ccl_i_net_touch(ccl_i_net_t *net, uint32_t index);
/** Weight that was limited here no longer is; its path has left the own list. */
void ccl_i_net_leave(ccl_i_net_t *net, uint32_t res, double weight);
/** An inactive path, or one that just left its bottleneck, becomes limited by `to`; clock: the
    path's served volume now. */
void ccl_i_net_join(ccl_i_net_t *net, uint32_t path, uint32_t to, double weight, double clock);

/* relax.c */
void ccl_i_net_push_dirty(ccl_i_net_t *net, uint32_t index);
bool ccl_i_net_buckets_create(ccl_i_net_t *net);
uint32_t ccl_i_net_pop_dirty(ccl_i_net_t *net);
void ccl_i_net_relax(ccl_i_net_t *net, uint32_t index);

/* fill.c */
/** Progressive filling of all that net->seeds are connected to. */
void ccl_i_net_fill(ccl_i_net_t *net);
/** Takes what started and ended, makes the lists of all resources again and fills: for instants in
    which most flows change. */
void ccl_i_net_rebuild(ccl_i_net_t *net);
/** An empty component. */
component_t *ccl_i_fill_begin(ccl_i_net_t *net);
/** What may be full next, by level; there is room. */
void ccl_i_fill_push(component_t *c, keyed_t item);
keyed_t ccl_i_fill_pop(component_t *c);

/* wide.c */
/** After the last path: net->wide where many paths load many resources alike. False: no memory. */
bool ccl_i_net_wide_create(ccl_i_net_t *net);
void ccl_i_net_wide_destroy(struct ccl_i_wide *wide);
/** Takes what started and ended, and fills, with net->wide; nothing else solves such a network. */
void ccl_i_net_wide_solve(ccl_i_net_t *net);

static inline uint64_t ccl_i_net_bits(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

/** Levels of a bin differ by 2^-18 at most; far apart ones share bins. Few resources change places
    in the order of levels at a time: that the bins between the old and the new level are empty
    shows it without a look at all paths. */
static inline uint64_t ccl_i_net_bin(double level) {
    return ccl_i_net_bits(level) >> 34;
}

static inline void ccl_i_net_set_level(ccl_i_net_t *net, uint32_t r, double level) {
    if (net->binned) {
        uint64_t mask = net->nbins - 1;
        net->bins[ccl_i_net_bin(net->level[r]) & mask]--;
        net->bins[ccl_i_net_bin(level) & mask]++;
    }
    net->level[r] = level;
}

/** The end of a level's step of 2^-12: bounds of rates are rounded up to it, so that they hold
   while levels move a little. */
static inline double ccl_i_net_step_end(double level) {
    uint64_t bits = ccl_i_net_bits(level) | (((uint64_t)1 << 40) - 1);
    memcpy(&level, &bits, sizeof(bits));
    return level;
}

/** A path through r limited elsewhere has this rate. */
static inline void ccl_i_net_meet(ccl_i_net_t *net, uint32_t r, double rate) {
    double end = ccl_i_net_step_end(rate);
    if (end > net->fastest[r])
        net->fastest[r] = end;
}

/** To be called when own, full or dirty of a resource changed: a resource that waits already is not
    marked again, one with paths of its own is marked whatever its load, others when it is too
    much. */
static inline void ccl_i_net_watch(ccl_i_net_t *net, uint32_t r) {
    net->limit[r] = net->dirty[r] ? INFINITY : net->own[r] > 0 ? -INFINITY : net->full[r];
}

static inline double ccl_i_net_candidate(const ccl_i_net_t *net, uint32_t r) {
    return net->own[r] > 0 ? (net->cap[r] - net->other[r]) / net->own[r] : 0;
}

/* Only what has paths of its own to set, or too much load, needs relaxing. */
static inline void ccl_i_net_mark_dirty(ccl_i_net_t *net, uint32_t r) {
    if (net->other[r] > net->limit[r])
        ccl_i_net_push_dirty(net, r);
}

#endif
