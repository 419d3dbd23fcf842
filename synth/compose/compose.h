/*
 * Private to synth: hierarchical composition. A cluster of equal pods (servers, as a rule) is
 * solved once inside a pod and once between pods, whatever its size; the two are put together.
 */
#ifndef CCL_SYNTH_COMPOSE_H
#define CCL_SYNTH_COMPOSE_H

#include "synth/common/turn.h"

/** GPUs by pod. A GPU's place in its pod is its place among the rails of its kind of pod. */
typedef struct ccl_i_pods {
    uint32_t npods, nkinds, most;   /* most: GPUs of the largest pod */
    uint32_t *first, *ranks;        /* [npods + 1] into ranks, ascending in a pod */
    uint32_t *pod, *place;          /* [nranks] */
    uint32_t *kind, *index;         /* [npods], and which of its kind */
    uint32_t *kind_first, *of_kind; /* [nkinds + 1] into of_kind: pods */
    bool rails; /* a hop leads from every place to the same one of all pods of its kind */
} ccl_i_pods_t;

static inline uint32_t ccl_i_pod_size(const ccl_i_pods_t *p, uint32_t pod) {
    return p->first[pod + 1] - p->first[pod];
}
static inline uint32_t ccl_i_pod_rank(const ccl_i_pods_t *p, uint32_t pod, uint32_t place) {
    return p->ranks[p->first[pod] + place];
}
static inline uint32_t ccl_i_kind_size(const ccl_i_pods_t *p, uint32_t kind) {
    return p->kind_first[kind + 1] - p->kind_first[kind];
}
static inline uint32_t ccl_i_kind_pod(const ccl_i_pods_t *p, uint32_t kind, uint32_t index) {
    return p->of_kind[p->kind_first[kind] + index];
}

/**
 * Pods of a topology: its servers; without servers the sets of GPUs that hang together over faster
 * hops. Pods are of one kind if hops between their places are as fast, and their GPUs as fast
 * towards other pods.
 * @param equal  such sets also where servers differ in size and they do not.
 * @retval CCL_UNSUPPORTED  there are none.
 */
ccl_status_t ccl_i_pods_find(const ccl_topology_t *topo, ccl_routes_t *routes, bool equal,
                             ccl_i_pods_t *out, ccl_error_t *err);
void ccl_i_pods_fini(ccl_i_pods_t *pods);
/**
 * The GPUs `ranks` (new ranks in that order) and whatever lies on routes between them.
 * @param sms_share  of a GPU's thread blocks that the part may use.
 */
ccl_status_t ccl_i_topology_part(const ccl_topology_t *topo, ccl_routes_t *routes,
                                 const uint32_t *ranks, uint32_t nranks, double sms_share,
                                 ccl_topology_t **out, ccl_error_t *err);
/** The same for the GPUs of one server, with those routes alone that do not leave it. */
ccl_status_t ccl_i_topology_server(const ccl_topology_t *topo, ccl_routes_t *routes,
                                   const uint32_t *ranks, uint32_t nranks, ccl_topology_t **out,
                                   ccl_error_t *err);

/* ---------------------------------------------------------------- what pods and rails do */

/** One hop of a chunk in a part's schedule; 0 <= at < until <= 1. */
typedef struct ccl_i_part_hop {
    uint32_t src, dst;
    uint16_t channel;
    double at, until;
} ccl_i_part_hop_t;

/** A part's schedule by chunk, parents first. */
typedef struct ccl_i_part_trees {
    uint32_t parts;  /* chunks of a block */
    uint32_t stride; /* from one part that was asked for to the next: slices are alike */
    uint32_t nsteps; /* that 0 .. 1 were */
    uint32_t *first; /* [blocks * parts + 2] into hops */
    ccl_i_part_hop_t *hops;
    ccl_origin_t origin; /* of the part's schedule */
} ccl_i_part_trees_t;

/** Who makes a part's schedule. */
typedef enum ccl_i_part_shape {
    CCL_I_PART_INNER, /* the synthesizer that composes */
    CCL_I_PART_PLAIN, /* inside pods `direct`; along rails `ring` */
    CCL_I_PART_TREE,  /* along rails, of one buffer: `tree` */
    CCL_I_PART_SHAPES
} ccl_i_part_shape_t;

/** A kind of pod: its first pod, its first rail, and what was solved on them. */
typedef struct ccl_i_pod_kind {
    ccl_topology_t *pod, *rail; /* NULL: a single GPU, a single pod */
    uint32_t heads;             /* rails that a block's variants take, summed */
    ccl_i_part_trees_t in_pod[2][CCL_I_PART_SHAPES], on_rail[2][CCL_I_PART_SHAPES]; /* down, up */
} ccl_i_pod_kind_t;

/** One way to compose. */
typedef struct ccl_i_composition {
    ccl_i_part_shape_t pod, rail;
    uint32_t nchunks; /* of the schedule */
} ccl_i_composition_t;

typedef struct ccl_i_composer {
    const ccl_ctx_t *ctx;
    const ccl_topology_t *topo;
    ccl_routes_t *routes;
    const ccl_collective_t *want;
    const ccl_synth_options_t *options;
    const ccl_synth_ops_t
        *inner; /* solves a part: a pod, or the GPUs of one place in all (a rail) */
    double size_bytes;
    ccl_i_pods_t pods;
    ccl_i_pod_kind_t *kinds; /* [nkinds] */
    uint32_t parts;          /* of a block */
    uint32_t variants;       /* of ways that parts take in turn */
    uint32_t *owner;         /* [nchunks] of AllReduce: roots */
    ccl_i_composition_t how; /* in hand */
    bool up;                 /* in hand: to be time-reversed */
    ccl_i_move_t *moves;     /* in hand */
    size_t nmoves, cap;
    double *arrived;   /* [most] at the GPUs of the pod in hand; INFINITY: not */
    double *at_head;   /* [npods][most] along rails */
    uint32_t *given;   /* [nranks] chunks that it had as owner so far */
    uint32_t *sent;    /* [npods] chunks to other pods so far */
    uint32_t *entered; /* [nranks] chunks of other kinds that came in by it */
} ccl_i_composer_t;

/**
 * The trees of one kind in the direction in hand, found when first asked for.
 * @param rail  along the first rail, else inside the first pod. AllToAll: a tree per pair; with
 * CCL_I_PART_TREE: from the first pod only.
 */
ccl_status_t ccl_i_compose_trees(ccl_i_composer_t *c, uint32_t kind, bool rail,
                                 ccl_i_part_shape_t shape, const ccl_i_part_trees_t **out,
                                 ccl_error_t *err);
void ccl_i_compose_trees_fini(ccl_i_part_trees_t *trees);
/** Of a block's trees the one for a part. */
static inline uint32_t ccl_i_compose_tree(const ccl_i_part_trees_t *t, uint32_t part) {
    return (uint32_t)((uint64_t)part * t->stride % t->parts);
}
/** `heads` of every kind: as many rails as keep links inside and between as busy. */
ccl_status_t ccl_i_compose_heads(ccl_i_composer_t *c, ccl_error_t *err);

/** All moves of one direction, composed as c->how says. */
ccl_status_t ccl_i_compose_moves(ccl_i_composer_t *c, ccl_error_t *err);

/**
 * A schedule for all pods. AllGather: a chunk goes to its pod's GPUs as the pod's schedule says; at
 * its place's rail to the other pods of the kind as the rail's says; there on as in its own pod. It
 * enters one pod of every other kind straight from its owner, and goes on there in the same way.
 * Where links inside pods would take longer than those between, part of the chunks goes over
 * several rails. ReduceScatter is found time-reversed, AllReduce is both, with roots by
 * ccl_i_turn_roots. Broadcast: the root deals its chunks out to the GPUs of its pod, which
 * spread them as their own; Reduce is Broadcast time-reversed. AllToAll (pods of one kind): inside
 * the pod to the place of the destination, then along the rail. Several ways to do so are
 * simulated, the fastest stays.
 *
 * @param inner  must do the collective itself on a pod and on a rail.
 * @retval CCL_UNSUPPORTED  no pods, most of them differ, or another collective; says why.
 * @par Source  HeteCCL (NSDI 2026), section 7.
 * @par Differs  a pod is no single node between pods: each of its rails is one; the rails' schedule
 * is that of the first. Pods of several kinds are composed, each kind solved once.
 */
ccl_status_t ccl_i_compose(const ccl_i_asked_t *asked, const ccl_synth_ops_t *inner,
                           ccl_schedule_t **out, ccl_error_t *err);
/**
 * By greedy: Broadcast or Reduce over all rails at once, if that is faster. The root deals a part of
 * its data to each GPU of its pod; these pass it on along their rails as `greedy` or `sketch` has it
 * for one, and in every pod who gets a chunk sends it to all. Reduce is Broadcast time-reversed.
 *
 * @param schedule  greedy's so far; destroyed where lanes replace it.
 */
ccl_status_t ccl_i_lanes_if_faster(const ccl_i_asked_t *asked, ccl_schedule_t **schedule,
                                   ccl_error_t *err);

#endif
