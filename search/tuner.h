/* Private to search: the tuner itself, and what a point means to synthesis and lowering. */
#ifndef CCL_SEARCH_TUNER_H
#define CCL_SEARCH_TUNER_H

#include "search/tune.h"
#include "search/ways.h"

#include <stdatomic.h>

/** A schedule that one or several settings give. */
typedef struct ccl_i_shared {
    ccl_schedule_t *schedule;
    ccl_content_t content;
    uint32_t users;
} ccl_i_shared_t;

/** What settings and a size give: a schedule, or why there is none. */
typedef struct ccl_i_made {
    char *key;
    const ccl_tune_point_t *point; /* valid while it is being made */
    double size_bytes, synth_s;
    ccl_i_shared_t *shared;
    ccl_status_t status;
    ccl_error_t err;
} ccl_i_made_t;

struct ccl_i_tuner {
    const ccl_ctx_t *ctx;
    const ccl_topology_t *topo;
    const ccl_collective_t *want;
    const ccl_tune_options_t *options;
    ccl_tuning_t *out;
    ccl_content_t topology, demand;
    ccl_strmap_t *by_settings, *by_run, *by_key, *by_work;
    ccl_routes_t **routes; /* [threads] */
    uint32_t threads;
    ccl_i_made_t **made;
    size_t made_cap;
    uint32_t nmade, first_new, first_run;
    uint32_t *missing; /* runs of this round that are to be evaluated */
    uint32_t *copies;  /* [nruns asked for in this round] the run that is the same; CCL_NONE */
    double start_s;
    atomic_uint_least64_t done;
};

/* tune.c */
ccl_status_t ccl_i_tune_routes(ccl_i_tuner_t *t, uint32_t worker, ccl_routes_t **out,
                               ccl_error_t *err);
/** Counts as progress, told by the first worker. */
ccl_status_t ccl_i_tune_poll(ccl_i_tuner_t *t, const char *phase, uint32_t worker);

/* tune_made.c: schedules, kept while they are not too many */
const ccl_synth_ops_t *ccl_i_point_ops(const double values[CCL_KNOBS]);
ccl_synth_options_t ccl_i_point_synth(const double values[CCL_KNOBS], double size_bytes);
/** A count or the index of a choice; `otherwise`: auto. */
uint32_t ccl_i_whole(double value, uint32_t otherwise);
/** Ask for what a run needs, unless it is there. */
ccl_status_t ccl_i_made_want(ccl_i_tuner_t *t, const ccl_tune_run_t *run, ccl_error_t *err);
/** Synthesize all that was asked for since first_new; what comes out equal is kept once. */
ccl_status_t ccl_i_made_all(ccl_i_tuner_t *t, ccl_error_t *err);
ccl_status_t ccl_i_made_of(const ccl_i_tuner_t *t, const ccl_tune_run_t *run,
                           const ccl_i_made_t **out, ccl_error_t *err);
/** Too many: all but those of the last round go. */
ccl_status_t ccl_i_made_forget(ccl_i_tuner_t *t, ccl_error_t *err);
void ccl_i_made_destroy(ccl_i_made_t *m);

/* tune_eval.c: runs */
ccl_lower_options_t ccl_i_point_lower(const double values[CCL_KNOBS]);
ccl_way_t ccl_i_point_way(const double values[CCL_KNOBS]);
/** What is done for a run, as text: equal for runs that can only come to the same. malloc'ed. */
char *ccl_i_tune_work(const ccl_i_tuner_t *t, const ccl_tune_run_t *run, const ccl_i_made_t *m);
/** Evaluate t->missing[index], for ccl_parallel_for(). */
ccl_status_t ccl_i_tune_evaluate(uint32_t index, uint32_t worker, void *user, ccl_error_t *err);
/** Write a finished run to the notebook, if there is one. */
ccl_status_t ccl_i_tune_keep(ccl_i_tuner_t *t, ccl_tune_run_t *run, ccl_status_t status,
                             ccl_error_t *err);
ccl_point_t ccl_i_tune_notebook_point(const ccl_i_tuner_t *t, const ccl_tune_run_t *run);

#endif
