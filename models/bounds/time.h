/* Private to models: bounds over time. */
#ifndef CCL_MODELS_BOUNDS_TIME_H
#define CCL_MODELS_BOUNDS_TIME_H

#include "models/models.h"

/* The network of a topology under one protocol: when what leaves a GPU can be where. */
typedef struct ccl_i_time_net {
    const ccl_capacity_t *c;
    const char *proto;
    double *wire;       /* [narcs] least bytes on it per byte of data, with the share of messages;
                           INFINITY: nothing takes it */
    double *delay_s;    /* [narcs] from the last link of a route to its GPU; INFINITY: no route ends
                           with it; 0: the arc does not enter a GPU */
    double *overhead_s; /* [narcs] least of a send whose route starts with it, else 0 */
    double *launch_s;   /* [nranks] */
    double last_s;      /* after the arrival of any byte; 0 where primitives may have slices */
    bool sliced;        /* a primitive may pass slices on before it has all */
    bool able;          /* some switch multicasts or reduces */
    /* Of routes; NULL where there are too many, or switches have ways of their own: */
    double *pair_s, *pair_overhead_s; /* [nranks * nranks] least delay and overhead from s to d at
                                         s nranks + d; INFINITY: no route */
    double *to_s;        /* [narcs * nranks] least delay of routes to a GPU that take the arc */
    double *overheads_s; /* [narcs * nranks] least overhead of those from a GPU; INFINITY: none */
    uint32_t *out_first, *out_arcs; /* [nvertices + 1], [narcs] arcs that leave a vertex */
    uint32_t *in_first, *in_arcs;   /* [nvertices + 1], [narcs] that enter it */
    ccl_arena_t arena;
} ccl_i_time_net_t;
/** @param c, proto  borrowed. @param routes  NULL: made for the call. */
ccl_status_t ccl_i_time_net_init(ccl_i_time_net_t *net, const ccl_capacity_t *c,
                                 ccl_routes_t *routes, const char *proto, ccl_error_t *err);
void ccl_i_time_net_fini(ccl_i_time_net_t *net);
/**
 * Earliest times at which anything of the GPUs in a set can be at each vertex and start on each
 * arc, or, backward, how long before the end anything must be there at the latest to reach one of
 * them.
 *
 * @param set       [nranks].
 * @param group_of  [nranks] NULL: every GPU is a group of its own.
 * @param first     [nvertices + narcs], vertices first.
 * @param several   [nvertices + narcs] the same of what comes from (goes to) two groups at least,
 * joined (divided) at a GPU or an able switch; NULL: not asked for.
 */
ccl_status_t ccl_i_time_reach(const ccl_i_time_net_t *net, bool backward, const uint8_t *set,
                              const uint32_t *group_of, double *first, double *several,
                              ccl_error_t *err);

/* A set of vertices that something must leave, and what is known of when. */
typedef struct ccl_i_time_side {
    const bool *late;   /* [nvertices] not in the set */
    const double *from; /* [nvertices] those in it count from this time on; NULL: from 0 */
    const double *upto; /* [nvertices] the others up to this long before the end; NULL: `latest` */
    const double *earliest, *latest;                 /* of ccl_i_time_reach() */
    const double *several_earliest, *several_latest; /* of partial results; NULL: the same */
    const double *weights; /* [narcs] all arcs count, by these, in place of those that leave the
                              set; NULL: none */
} ccl_i_time_side_t;
/* What must leave them; ccl_time_cut_t. */
typedef struct ccl_i_time_needed {
    double share, least, partials;
    bool lengths;
    const uint8_t *sources, *dests; /* [nranks] */
} ccl_i_time_needed_t;
/* Cuts so far; those that are best at no size go. */
typedef struct ccl_i_time_cuts {
    const ccl_i_time_net_t *net;
    ccl_time_bound_t *out;
    double *best_s; /* [CCL_I_TIME_SIZES] */
    struct ccl_i_time_step
        *steps[2]; /* of the cut in hand: all, and those that partial results can take */
    ccl_time_link_t *links;
    double fixed_bytes;
    struct ccl_i_time_span *spans; /* of the arc in hand */
    size_t nsteps[2], nlinks, cap, cap_steps[2], cap_links, cap_spans;
} ccl_i_time_cuts_t;
enum { CCL_I_TIME_SIZES = 34 };
ccl_status_t ccl_i_time_cuts_init(ccl_i_time_cuts_t *cuts, const ccl_i_time_net_t *net,
                                  ccl_time_bound_t *out, ccl_error_t *err);
void ccl_i_time_cuts_fini(ccl_i_time_cuts_t *cuts);
/** The links that leave a set are part of the cut in hand. */
ccl_status_t ccl_i_time_leave(ccl_i_time_cuts_t *cuts, const ccl_i_time_side_t *side,
                              ccl_error_t *err);
/** The cut in hand is whole: keep it where it is the best at some size, and begin the next. */
ccl_status_t ccl_i_time_cut(ccl_i_time_cuts_t *cuts, const ccl_i_time_needed_t *needed,
                            ccl_error_t *err);

/** Of GPUs that a symmetry carries to each other mark all but one in `skip` ([nranks]). */
ccl_status_t ccl_i_bound_sinks(const ccl_capacity_t *c, const uint32_t *weights, uint8_t *skip,
                               ccl_error_t *err);
/**
 * A part on one side, all else on the other; vertices that stand for groups go with their device.
 * @param receives  the part is the late side. @param late  [nvertices].
 */
void ccl_i_time_part(const ccl_capacity_t *c, const uint32_t *device_part, uint32_t part,
                     bool receives, bool *late);
/* A partition of the GPUs. */
typedef struct ccl_i_partition {
    uint32_t nparts;
    const uint32_t *part_of;     /* [nranks], < nparts */
    const uint32_t *device_part; /* [ndevices] CCL_NONE: in no part. NULL: a part's border is where
                                    the least can leave (enter, reversed) its GPUs */
    uint32_t root;               /* of a Broadcast, reversed of a Reduce; CCL_NONE: AllReduce */
    bool reversed;
} ccl_i_partition_t;
/** What the parts of an AllReduce, Broadcast or Reduce send each other. */
ccl_status_t ccl_i_time_partition(const ccl_ctx_t *ctx, ccl_i_time_cuts_t *cuts,
                                  const ccl_i_partition_t *of, ccl_error_t *err);

/* Flows over time between two sets, and the cuts that limit them. */
typedef struct ccl_i_time_flow ccl_i_time_flow_t;
/** @param cuts  borrowed. NULL: out of memory. */
ccl_i_time_flow_t *ccl_i_time_flow_create(ccl_i_time_cuts_t *cuts);
void ccl_i_time_flow_destroy(ccl_i_time_flow_t *flow);
/** What must go from the GPUs of one side to those of the other. */
typedef struct ccl_i_time_need {
    uint8_t *sources, *dests; /* [nranks] */
    const uint32_t *group_of; /* with joins: as in ccl_i_time_reach() */
    bool joins;  /* messages of several sources may be summed on the way, or, of one, divided */
    bool to_one; /* one set of destinations that each need all; else one of sources, likewise */
    /** Parts of the message between the sources marked and the destinations marked. */
    double (*share)(const void *user, const uint8_t *sources, const uint8_t *dests);
    const void *user;
} ccl_i_time_need_t;
ccl_status_t ccl_i_time_flow(const ccl_ctx_t *ctx, ccl_i_time_flow_t *flow,
                             const ccl_i_time_need_t *need, ccl_error_t *err);
/** The one cut whose receiving side is given, instead of those that a flow finds. */
ccl_status_t ccl_i_time_border(const ccl_ctx_t *ctx, ccl_i_time_flow_t *flow,
                               const ccl_i_time_need_t *need, const bool *late, ccl_error_t *err);

#endif
