/*
 * Private to synth: symmetry sketches (SyCCL, SIGCOMM 2025). A sketch says, stage by stage, over
 * which dimensions the GPUs that hold a chunk hand it to those that do not; grown from a root it is
 * an out-tree. A mix of sketches sends parts of every chunk along different sketches so that all
 * links are busy.
 */
#ifndef CCL_SYNTH_SKETCH_H
#define CCL_SYNTH_SKETCH_H

#include "synth/common/exchange.h"
#include "synth/common/plan.h"

enum {
    CCL_I_SKETCH_STAGES = 10, /* most stages of a sketch */
    CCL_I_SKETCH_DIMENSIONS = 8,
    CCL_I_SKETCH_MIX = 8, /* most sketches of a mix */
    CCL_I_SKETCH_CLASSES = 16,
    CCL_I_SKETCH_CUTS = 64, /* most that parts are cut into */
    /* Most transfers of a schedule, unless each part has more: 2 GB to lower and simulate. */
    CCL_I_SKETCH_TRANSFERS = 1400000
};

/** Whom a group's holders reach in a stage. */
typedef enum ccl_i_reach {
    CCL_I_REACH_NONE,
    CCL_I_REACH_ONE,  /* every holder one GPU */
    CCL_I_REACH_EACH, /* one GPU of every group of the nearest dimension without a holder */
    CCL_I_REACH_ALL,  /* those to which a hop leads from a holder */
    CCL_I_REACH_FLOOD /* all, handed on by those that were reached: where hops are missing */
} ccl_i_reach_t;

/** A solved sub-demand in a group: trees from each of its GPUs to the others. */
typedef struct ccl_i_sub {
    uint32_t n, variants;
    uint32_t steps;         /* places in time, together */
    const uint32_t *rank;   /* [n] of each place */
    const uint32_t *place;  /* [nranks] CCL_NONE: not in the group */
    const uint32_t *parent; /* [n][variants][n] place; CCL_NONE: the tree's root, or no tree */
    const uint32_t *step;   /* same */
    const uint32_t *via;    /* same: hop */
} ccl_i_sub_t;

/** How a group hands on what one of its GPUs holds. */
typedef enum ccl_i_shape {
    CCL_I_SHAPE_DIRECT, /* the holder to every other */
    CCL_I_SHAPE_CHAIN,  /* from one to the next, in rank order from the holder on */
    CCL_I_SHAPE_CHAINS, /* several chains, as many as each is long */
    CCL_I_SHAPES
} ccl_i_shape_t;

typedef struct ccl_i_sketch {
    uint32_t nstages;
    const uint8_t *reach; /* [nstages][ngroups of all dimensions] */
    bool uses_one;        /* some stage picks single GPUs: parts take turns which */
    bool line;            /* from one root: the newest holders hand on, in a line where each server
                             gets one; so the root's links carry what they must only */
    bool tree;            /* of a line: each server that gets one hands on to two others */
    const ccl_i_sub_t *const *sub; /* [nstages][ngroups] how a group does it; NULL, also all of
                                      it: as ccl_i_reach_t says */
    uint8_t solved;                /* how: 1 + place in ccl_i_solver_names; 0: not */
    uint32_t variants;             /* of the sub-demands: parts that go different ways; else 1 */
    uint32_t sub_steps;            /* most of a sub-demand */
    uint32_t relays;               /* most GPUs between stages on a way from the root to a leaf */
    uint32_t blocks;      /* connections in and out of the GPU that has most, a channel's */
    uint32_t turn_blocks; /* the same, if each variant has channels of its own: of all */
    double transfers;     /* of a part of every chunk */
    uint32_t turns;       /* parts take turns: ways that were grown from every root */
    double depth_s;       /* longest way from the root by latencies alone */
    double busy_s;        /* overheads of the busiest connection, for one part of every chunk */
    double fifo_s;        /* the same of waiting for free slots: a slot comes back after two ways */
    const double *load;   /* [nclasses][x.nresources] seconds per byte of a chunk of every root of
                             that class */
    /* By shape over the network: what it takes more than the busiest resource where the hops of a
       way come one after the other, as they do for a single piece. */
    double fill_s_per_byte[CCL_I_SHAPES];
    char *name; /* "nvlink > net" */
} ccl_i_sketch_t;

/** Ways to solve sub-demands (sketch_solve.c), NULL-terminated. */
extern const char *const ccl_i_solver_names[];

/** GPUs in each chain of a group that hands on to n others. */
static inline uint32_t ccl_i_chain_length(ccl_i_shape_t shape, uint32_t n) {
    uint32_t length = 1;

    while (shape == CCL_I_SHAPE_CHAINS && length * length < n)
        length++;
    return shape == CCL_I_SHAPE_CHAIN ? n : length;
}

typedef struct ccl_i_space {
    const ccl_topology_t *topo;
    const ccl_symmetry_t *symmetry;
    ccl_i_exchange_t x;
    bool up;       /* hops reversed: the trees are of reductions */
    bool scatter;  /* every destination has chunks of its own: AllToAll, Scatter, Gather */
    uint32_t root; /* of one-to-all collectives; CCL_NONE: every GPU is one */
    uint32_t ndimensions, ngroups;
    uint32_t nclasses;          /* of roots: those that are not alike may mix differently */
    const uint32_t *root_class; /* [nranks] */
    uint32_t first_group[CCL_I_SKETCH_DIMENSIONS + 1];
    uint32_t dimension[CCL_I_SKETCH_DIMENSIONS];  /* of the symmetry: those that are used */
    uint32_t rotations;                           /* of sketches that pick single GPUs */
    uint8_t reach_limit[CCL_I_SKETCH_DIMENSIONS]; /* flooding only where hops are missing */
    const uint32_t *hop_at;   /* [nranks * nranks] first hop from one to another, CCL_NONE: none;
                                 NULL:    too many */
    const double *overhead_s; /* [x.nhops] of a primitive */
    const double *slot_s;     /* [x.nhops] per primitive, where the FIFO's depth is what limits */
    double piece_bytes;       /* most of a part in a micro-batch; INFINITY: it has only one */
    /* [nranks] the GPU of its server that chains go over: where flows that share a NIC lose by it,
       the first of those that share one; else each its own. NULL: nowhere */
    const uint32_t *port;
    const uint8_t *dimensions; /* [x.nhops] bit per dimension that the hop belongs to */
    ccl_arena_t arena;
} ccl_i_space_t;

typedef struct ccl_i_sketch_limits {
    bool prune_isomorphic, prune_inconsistent, prune_relays;
    uint32_t relays; /* cap; CCL_NONE: dimensions - 1 */
    uint32_t stages; /* cap; 0: dimensions + 1 */
    uint32_t sketches;
    uint64_t visits; /* partial sketches; 0: no limit */
} ccl_i_sketch_limits_t;

typedef struct ccl_i_sketch_stats {
    uint64_t visited; /* partial sketches */
    uint64_t found, isomorphic, relayed;
    double inconsistent; /* ways to fill a stage that were not tried */
    bool capped;         /* there were more than the limits let in */
} ccl_i_sketch_stats_t;

typedef struct ccl_i_sketches {
    ccl_i_sketch_t *items;
    size_t n, cap;
} ccl_i_sketches_t;

/** `symmetry` and `topo` are borrowed; finish with ccl_i_space_fini(), also on failure. */
ccl_status_t ccl_i_space_init(ccl_i_space_t *space, const ccl_topology_t *topo,
                              ccl_routes_t *routes, const ccl_symmetry_t *symmetry,
                              const ccl_collective_t *want, ccl_error_t *err);
void ccl_i_space_fini(ccl_i_space_t *space);

/* ---------------------------------------------------------------- growing (sketch_grow.c) */

/** What growing needs besides the sketch; one per thread. */
typedef struct ccl_i_grower {
    const ccl_i_space_t *space;
    uint32_t *got;          /* [nranks] stage + 2 in which it was reached; 1: root; 0: not */
    uint32_t *parent, *via; /* [nranks] GPU it came from, hop */
    uint32_t *step;         /* [nranks] */
    uint32_t *order;        /* [nranks] GPUs reached, parents first */
    uint32_t norder;
    uint32_t *list;            /* [2 nranks] sources, then receivers, of the group in hand */
    uint32_t *used;            /* [nranks] children in this tree */
    uint32_t *sends;           /* [ndimensions][nranks] those over hops of the dimension */
    uint32_t stage, dimension; /* in hand */
    uint32_t turn;             /* which of equal hops and GPUs */
    bool line, tree;           /* of the sketch in hand */
    uint32_t *heads;           /* [nranks] of a tree over servers, in its order */
    ccl_arena_t arena;
} ccl_i_grower_t;
ccl_status_t ccl_i_grower_init(ccl_i_grower_t *g, const ccl_i_space_t *space, ccl_error_t *err);
void ccl_i_grower_fini(ccl_i_grower_t *g);
/**
 * Grow a sketch from `root`: fills got, parent, via, step and order.
 * @param shapes    [ndimensions of the space]; NULL: all direct.
 * @param rotation  which GPUs are picked, and in which order others are served.
 * @return whether all GPUs were reached.
 */
bool ccl_i_grow(ccl_i_grower_t *g, const ccl_i_sketch_t *sketch, const uint8_t *shapes,
                uint32_t root, uint32_t rotation);
/** The hop src -> dst of a dimension (CCL_NONE: of any); CCL_NONE: none. Of several equal routes
    that numbered `turn`.
 */
uint32_t ccl_i_space_hop(const ccl_i_space_t *space, uint32_t dimension, uint32_t src, uint32_t dst,
                         uint32_t turn);

/** Groups over the network that have others than pairs hand on in this shape, all others directly.
    @param shapes  [ndimensions], filled. @return whether there are such groups. */
bool ccl_i_space_shapes(const ccl_i_space_t *space, ccl_i_shape_t net, uint8_t *shapes);

/** Of the tree in hand: hand-overs from stage to stage on the way to the deepest leaf, and the
    longest way in seconds. */
void ccl_i_grower_measure(const ccl_i_grower_t *g, uint32_t *relays, double *depth_s);

/* ---------------------------------------------------------------- search (sketch_search.c) */

/** "nvlink > net (one each)", in the space's arena; NULL: out of memory. */
char *ccl_i_sketch_name(ccl_i_space_t *space, const ccl_i_sketch_t *sketch);
/** Sketches that are in `out` already stay; those found that are like them count as isomorphic. */
ccl_status_t ccl_i_sketch_search(const ccl_ctx_t *ctx, ccl_i_space_t *space,
                                 const ccl_i_sketch_limits_t *limits, ccl_i_sketches_t *out,
                                 ccl_i_sketch_stats_t *stats, ccl_error_t *err);

/* ---------------------------------------------------------------- mixes (sketch_mix.c) */

/**
 * Sets the loads of sketches; those that do not reach all GPUs from every root are left out.
 * @param unreaching  how many.
 */
ccl_status_t ccl_i_sketch_loads(const ccl_ctx_t *ctx, ccl_i_space_t *s, ccl_i_sketches_t *sketches,
                                uint64_t *unreaching, ccl_error_t *err);

/** Sketches with their numbers of parts, for each class of roots. */
typedef struct ccl_i_mix {
    uint32_t n, parts; /* parts: the sum of a class's counts */
    uint32_t sketch[CCL_I_SKETCH_MIX];
    uint32_t count[CCL_I_SKETCH_CLASSES][CCL_I_SKETCH_MIX];
    double share[CCL_I_SKETCH_CLASSES][CCL_I_SKETCH_MIX]; /* before rounding to parts */
    double ideal_s_per_byte; /* of a chunk of every root: busiest resource, exact shares */
    double s_per_byte;       /* with counts */
    double depth_s, busy_s;  /* the deepest sketch; overheads of a part along every sketch */
    double fifo_s;           /* waits for slots, likewise */
    double fill_s_per_byte[CCL_I_SHAPES]; /* most of a sketch */
    double transfers;                     /* of all parts */
    bool given;        /* the user's: counts, channels, cuts and shapes are as they are */
    uint32_t cuts;     /* given; 0: 1 */
    bool flows;        /* given; its pieces flow: ccl_schedule_order_list() */
    bool apart;        /* given; what is handed on has channels of its own */
    uint32_t channels; /* given; 0: as elsewhere */
    uint8_t shapes[CCL_I_SKETCH_DIMENSIONS]; /* given */
} ccl_i_mix_t;

typedef struct ccl_i_mixes {
    ccl_i_mix_t *items;
    size_t n, cap;
    bool complete;              /* those given are all: no others are made */
    uint64_t tried, unbalanced; /* combinations; those without a solution that uses all */
    uint64_t unreaching;        /* sketches dropped: they do not work from every root */
    uint64_t dropped;           /* combinations whose program GLPK failed at: without memory */
    double chunk_bytes; /* > 0: no pairs and triples whose estimate is sure to be longer than
                           `longest` times that of the best single sketch */
    double longest;
} ccl_i_mixes_t;

/** Bytes of what one tree carries: of an AllReduce's chunk every root has a part. */
static inline double ccl_i_sketch_chunk_bytes(const ccl_collective_t *want, double size_bytes) {
    double bytes = size_bytes * (want->nchunks ? want->chunks[0].share : 1);

    return want->kind == CCL_ALLREDUCE ? bytes / want->nranks : bytes;
}

/** Load of every sketch and all mixes of at most `most` sketches, and the best of all together.
    Mixes that are in `out` already, given ones, come first. Without memory for those of several
    sketches these are counted as dropped. */
ccl_status_t ccl_i_sketch_mixes(const ccl_ctx_t *ctx, ccl_i_space_t *space,
                                ccl_i_sketches_t *sketches, uint32_t most, uint32_t max_parts,
                                ccl_i_mixes_t *out, ccl_error_t *err);

/* ---------------------------------------------------------------- choice (sketch_choose.c) */

/** What there is to choose from. */
typedef struct ccl_i_sketch_choices {
    const ccl_i_space_t *space;
    const ccl_i_sketches_t *sketches;
    const ccl_i_mixes_t *mixes;
} ccl_i_sketch_choices_t;

/** What was made. */
typedef struct ccl_i_chosen {
    const ccl_i_mix_t *mix;
    uint32_t channels, cuts;
    bool flows, apart;
    uint8_t shapes[CCL_I_SKETCH_DIMENSIONS];
} ccl_i_chosen_t;

typedef struct ccl_i_sketch_run {
    double size_bytes; /* of the collective */
    double within;     /* those estimated slower than the best by this share are not simulated */
    uint32_t most;     /* candidates to simulate */
    bool fine;         /* then the best ones over other numbers of channels */
    uint32_t channels; /* 0: one, or as many as use all NICs, whichever is faster */
    double most_s;     /* a longer time is of no use; 0: any is */
    double until_s;    /* ccl_now_s() at which no candidate is begun any more; 0: never */
    ccl_sketch_stats_t *stats; /* candidates and those simulated are added */
} ccl_i_sketch_run_t;

/**
 * The schedule of the mix that a simulation finds fastest, the candidates run on its threads: the
 * same for any number of them, but for the time limit (then it is marked limited).
 */
ccl_status_t ccl_i_sketch_choose(const ccl_i_asked_t *asked, const ccl_i_sketch_choices_t *among,
                                 const ccl_i_sketch_run_t *run, ccl_i_chosen_t *chosen,
                                 ccl_schedule_t **out, ccl_error_t *err);

/* ---------------------------------------------------------------- files (sketch_file.c) */

/**
 * Read "ccllab/sketches/1": each sketch is held to reach every GPU from every root.
 * @param sketches, mixes  empty; filled in the file's order.
 * @param with_found       set where the file says so.
 */
ccl_status_t ccl_i_sketch_file_read(const ccl_json_doc_t *doc, ccl_i_space_t *space,
                                    ccl_i_sketches_t *sketches, ccl_i_mixes_t *mixes,
                                    bool *with_found, ccl_error_t *err);
/** Write sketches and the mix that was chosen; read back it makes the same schedule. */
ccl_status_t ccl_i_sketch_file_write(const ccl_i_space_t *space, const ccl_collective_t *want,
                                     double size_bytes, const ccl_i_sketches_t *sketches,
                                     const ccl_i_chosen_t *chosen, ccl_text_t *out,
                                     ccl_error_t *err);

/* options.c: tables of its options; ends with NULL */
extern const ccl_option_t *const ccl_i_sketch_options[];

#endif
