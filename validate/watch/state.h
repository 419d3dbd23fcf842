/**
 * @file state.h
 * What a watch holds; private to validate/watch.
 */
#ifndef CCL_VALIDATE_WATCH_STATE_H
#define CCL_VALIDATE_WATCH_STATE_H

#include "validate/logs/measured.h"

/* ---------------------------------------------------------------- follow.c */

typedef ccl_status_t (*ccl_i_line_fn)(void *user, const char *file, uint32_t line, const char *text,
                                      size_t len, ccl_error_t *err);
typedef struct ccl_i_follow ccl_i_follow_t;
/** NULL: out of memory. */
ccl_i_follow_t *ccl_i_follow_create(bool grows);
void ccl_i_follow_destroy(ccl_i_follow_t *follow);
/** Every whole line that is new, and, unless files grow, what is behind the last of them. */
ccl_status_t ccl_i_follow_read(ccl_i_follow_t *follow, const ccl_ctx_t *ctx, const char *path,
                               ccl_i_line_fn fn, void *user, ccl_error_t *err);

/* ---------------------------------------------------------------- calls.c */

/** A mean that forgets: what is older than a window counts ever less. */
typedef struct ccl_i_mean {
    double sum, n;
} ccl_i_mean_t;
typedef struct ccl_i_slot {
    double number, time_us; /**< time 0: empty */
} ccl_i_slot_t;

/** Calls of one size of one collective of one communicator. */
typedef struct ccl_i_watch_group {
    const char *id, *clock; /**< the watch's arena */
    ccl_collective_kind_t kind;
    uint32_t nranks, nnodes;
    double size_bytes;
    uint64_t calls;
    ccl_i_slot_t *slots; /**< [nslots], in no order */
    uint32_t nslots;
    ccl_i_mean_t *ranks;    /**< [nranks] a rank's time, us; NULL: no rank was given */
    ccl_i_mean_t *channels; /**< [CCL_I_MAX_CHANNELS] over the mean of all; NULL: none was given */
    char algo[24], proto[24]; /**< of the last call; "" */
} ccl_i_watch_group_t;

/** What is expected of a size. */
typedef struct ccl_i_expected {
    ccl_prediction_t is;
    double bound_s;
} ccl_i_expected_t;
/** GPUs that a communicator uses. */
typedef struct ccl_i_watch_part {
    uint32_t nranks, nnodes;
    ccl_topology_t *topo; /**< NULL: the cluster has no such part: why */
    ccl_topology_t *laid; /**< with the profile; NULL: there is none */
    ccl_predictor_t *predictor;
    char why[300];
} ccl_i_watch_part_t;
/** The cause that was found for a run while these sizes were slow. */
typedef struct ccl_i_cause_kept {
    uint64_t slow; /**< hash of the sizes */
    double probability;
    char *claim;
} ccl_i_cause_kept_t;

struct ccl_watch {
    ccl_ctx_t ctx;
    const ccl_topology_t *topo;
    ccl_watch_options_t options;
    ccl_i_follow_t *follow;
    ccl_arena_t arena;
    ccl_strmap_t *group_keys, *part_keys, *expected_keys, *cause_keys;
    ccl_i_watch_group_t *groups;
    ccl_i_watch_part_t *parts;
    ccl_i_expected_t *expected;
    ccl_i_cause_kept_t *causes;
    size_t ngroups, groups_cap, nparts, parts_cap, nexpected, expected_cap, ncauses, causes_cap;
    uint64_t nlines, bad;
};

/** Of calls that are kept. @param spread_out  as ccl_watch_row_t has it. */
double ccl_i_group_median_us(const ccl_i_watch_group_t *group, double *spread_out,
                             ccl_error_t *err);
static inline double ccl_i_mean(const ccl_i_mean_t *m) {
    return m->n > 0 ? m->sum / m->n : 0;
}

/* ---------------------------------------------------------------- suspects.c */

/**
 * What the calls of a group point to.
 * @param part  NULL: links of channels are not looked for.  @param e  NULL: unknown.
 * @param out   appended to; nothing: no suspect.
 */
ccl_status_t ccl_i_suspects(const ccl_i_watch_group_t *group, ccl_i_watch_part_t *part,
                            const ccl_i_expected_t *e, double measured_s, ccl_text_t *out,
                            ccl_error_t *err);

#endif
