/* Private to search: the tuner itself, and what a point means to synthesis and lowering. */
#ifndef CCL_SEARCH_TUNER_H
#define CCL_SEARCH_TUNER_H

#include "search/compare/points.h"
#include "search/compare/shared.h"
#include "search/notebook/lab_i.h"
#include "search/tune/replay.h"
#include "search/tune/strategy.h"

#include <stdatomic.h>

/** A schedule that one or several settings give. */
typedef struct ccl_i_shared {
    ccl_schedule_t *schedule; /* NULL: another process has it */
    ccl_lower_memo_t *memo;   /* of its lowerings on the cluster as it is; NULL: none */
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
    bool tried;                   /* shared, status and err say what came out */
    uint32_t run_point, run_size; /* whom it was first asked for */
    char by[128];                 /* of a queue: the process that has the schedule; else "" */
    bool scarce;                  /* some of its candidates were dropped for lack of memory */
} ccl_i_made_t;

/** The cluster, or as some points have it. */
typedef struct ccl_i_tune_cluster {
    char *key;
    ccl_topology_t *own;        /* NULL: `topo` is the tuner's */
    const ccl_topology_t *topo; /* NULL: it cannot be so; status and err say why */
    ccl_routes_t **routes;      /* [threads] */
    double *bound_s;            /* [nsizes] */
    ccl_status_t status;
    ccl_error_t err;
} ccl_i_tune_cluster_t;

/** A lowered program: for all runs that it is the same for, also of later rounds while it is kept.
 */
typedef struct ccl_i_lowered {
    char *key;
    ccl_program_t *program; /* NULL: not lowered yet, it cannot be, or given up to save memory */
    ccl_sim_result_t *run;  /* of it, where lowering has made one; NULL: none */
    bool proven;
    bool waits;          /* for memory: some of its runs are to be tried again */
    ccl_status_t status; /* of lowering and proof */
    ccl_error_t err;
    uint32_t first_run, last_run; /* of this round, joined by t->next_of; CCL_NONE */
    double work;                  /* how long the first run may take, in no unit */
} ccl_i_lowered_t;

/** A round: at most this many runs are looked at together. */
enum { CCL_I_ROUND = 64 };

struct ccl_i_tuner {
    const ccl_ctx_t *ctx;
    const ccl_topology_t *topo;
    const ccl_collective_t *want;
    const ccl_tune_options_t *options;
    ccl_tuning_t *out;
    ccl_content_t topology, demand;
    ccl_strmap_t *by_settings, *by_run, *by_key, *by_work, *by_program;
    ccl_i_tune_cluster_t *clusters; /* [nclusters] the first: as it is */
    size_t clusters_cap;
    uint32_t nclusters, threads;
    ccl_i_made_t **made;
    size_t made_cap;
    uint32_t nmade, first_new, first_run;
    uint32_t *missing; /* runs of this round that are to be evaluated */
    ccl_i_lowered_t **lowered;
    size_t lowered_cap;
    uint32_t nlowered, ngroups;
    bool alone;        /* one thread evaluates what waited for memory */
    uint32_t *groups;  /* [ngroups] of this round: indices into lowered */
    uint32_t *next_of; /* [run - first_run] the next run with the same program; CCL_NONE */
    atomic_uint_least64_t kept_steps;
    atomic_uint_least64_t lower_ns, simulate_ns, notebook_ns; /* of all workers */
    uint32_t *copies; /* [nruns asked for in this round] the run that is the same; CCL_NONE */
    double start_s;
    bool alone_here; /* others cannot know what is tuned */
    bool queued;     /* this round's work is in the notebook's queue */
    bool lazy;       /* points are for sure with the answer that follows them */
    atomic_uint_least64_t done;
    const ccl_topology_t *again; /* programs are simulated on this cluster; NULL: where made */
    ccl_routes_t **again_routes; /* [threads] of it */
};

/* tune_cluster.c: clusters, made by the first thread before a round, kept while they are few */
/** @param bound_s  [nsizes] no time of the space is less. */
ccl_status_t ccl_i_clusters_init(ccl_i_tuner_t *t, double *bound_s, ccl_error_t *err);
void ccl_i_clusters_fini(ccl_i_tuner_t *t);
/** Too many: all but the first go. */
void ccl_i_clusters_forget(ccl_i_tuner_t *t);
/** Make what a point needs, unless it is there. */
ccl_status_t ccl_i_cluster_want(ccl_i_tuner_t *t, const double values[CCL_KNOBS], ccl_error_t *err);
/** @param out  borrowed; until others are made or forgotten. */
ccl_status_t ccl_i_cluster_of(const ccl_i_tuner_t *t, const double values[CCL_KNOBS],
                              ccl_i_tune_cluster_t **out, ccl_error_t *err);
ccl_status_t ccl_i_cluster_routes(ccl_i_tune_cluster_t *cluster, uint32_t worker,
                                  ccl_routes_t **out, ccl_error_t *err);
/** What of the cluster a point sets, as text; empty: nothing. */
void ccl_i_cluster_key(const double values[CCL_KNOBS], ccl_text_t *out);

/* knobs.c */
/** Whether a synthesizer looks at a knob. */
bool ccl_i_knob_counts(ccl_knob_t knob, const ccl_synth_ops_t *ops);
/** Its values are whole numbers. */
bool ccl_i_knob_whole(ccl_knob_t knob);
/** A value from text: "auto", "4", "2us", "hpds". */
ccl_status_t ccl_i_knob_value(ccl_knob_t knob, const char *text, double *out, ccl_error_t *err);

/* space.c */
/** What ccl_space_settings() wrote. @retval CCL_ERR_INPUT  it was not this build. */
ccl_status_t ccl_i_space_values(const char *settings, double values[CCL_KNOBS], ccl_error_t *err);

/* tune.c */
/** Set up, with nothing tried. @param out  set also after an error, unless NULL; end with
    ccl_i_tuner_destroy(), its ->out with ccl_tuning_destroy(). */
ccl_status_t ccl_i_tuner_create(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                                const ccl_collective_t *want, const ccl_tune_options_t *options,
                                ccl_i_tuner_t **out, ccl_error_t *err);
/** Not its result. */
void ccl_i_tuner_destroy(ccl_i_tuner_t *t);
/** Nothing tried yet; *out is destroyed with ccl_tuning_destroy(), also after an error. */
ccl_status_t ccl_i_tuning_create(const ccl_i_tuner_t *t, ccl_tuning_t **out, ccl_error_t *err);
/** Adds the time since start_s; returns now. */
double ccl_i_tune_spend(atomic_uint_least64_t *ns, double start_s);
/** Counts as progress, reported by the first worker.
    @param values  of the point that it works on; NULL: none. */
ccl_status_t ccl_i_tune_poll(ccl_i_tuner_t *t, const char *phase, const double *values,
                             uint32_t worker);

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
/** The schedule of a run that can be had is made by this process, where only others have it. */
ccl_status_t ccl_i_made_here(ccl_i_tuner_t *t, const ccl_tune_run_t *run, uint32_t worker,
                             ccl_error_t *err);
/** Synthesize one, again where memory was short. @param index  in t->made. */
ccl_status_t ccl_i_made_one(ccl_i_tuner_t *t, uint32_t index, uint32_t worker, ccl_error_t *err);
/** What others want to know of one that was tried. */
void ccl_i_made_answer(const ccl_i_made_t *m, ccl_i_task_answer_t *out);

/* tune_eval.c: runs */
/** Lowers the program of a run; of an estimate roughly. @param topo  the point's.
    @param out  gets the program, and its run where lowering has made one, else NULL. */
ccl_status_t ccl_i_tune_lower(ccl_i_tuner_t *t, const ccl_topology_t *topo, ccl_routes_t *routes,
                              const ccl_i_made_t *m, const ccl_tune_run_t *run,
                              ccl_i_lowered_t *out, ccl_error_t *err);
/** Simulates a run of its program. @param known  a run of the program on this cluster, which may be
    the one; NULL: none. */
ccl_status_t ccl_i_tune_simulate(ccl_i_tuner_t *t, const ccl_topology_t *topo, ccl_routes_t *routes,
                                 const ccl_program_t *program, const ccl_sim_result_t *known,
                                 ccl_tune_run_t *run, ccl_error_t *err);
void ccl_i_result_usage(const ccl_program_t *program, const ccl_sim_result_t *run,
                        ccl_point_result_t *out);
ccl_lower_options_t ccl_i_point_lower(const double values[CCL_KNOBS]);
ccl_way_t ccl_i_point_way(const double values[CCL_KNOBS]);
/** What is done for a run, as text: equal for runs that can only come to the same. malloc'ed. */
char *ccl_i_tune_work(const ccl_i_tuner_t *t, const ccl_tune_run_t *run, const ccl_i_made_t *m);
/** Write a finished run to the notebook, if there is one. */
ccl_status_t ccl_i_tune_keep(ccl_i_tuner_t *t, ccl_tune_run_t *run, ccl_status_t status,
                             ccl_error_t *err);
/* tune_lowered.c: programs, shared by the runs that they are the same for */
/** Evaluate t->missing: each program is lowered once, all its runs of a round are one worker's. */
ccl_status_t ccl_i_tune_evaluate(ccl_i_tuner_t *t, uint32_t nmissing, ccl_error_t *err);
/** The runs of one program, again where memory was short. @param index  in t->lowered. */
ccl_status_t ccl_i_lowered_one(ccl_i_tuner_t *t, uint32_t index, uint32_t worker, ccl_error_t *err);
void ccl_i_lowered_destroy(ccl_i_lowered_t *l);

/* rerank.c */
typedef struct ccl_i_tune_candidate {
    double time_s;
    uint32_t run; /* of a tuning */
} ccl_i_tune_candidate_t;
/**
 * All of a size that have a time in full and settings that can be had, the fastest first.
 * @param list  has room for all runs. @return how many.
 */
uint32_t ccl_i_tune_candidates(const ccl_tuning_t *tuning, uint32_t size,
                               ccl_i_tune_candidate_t *list);
/** Most likely one program under several settings. */
bool ccl_i_tune_alike(const ccl_tuning_t *tuning, const ccl_i_tune_candidate_t *a,
                      const ccl_i_tune_candidate_t *b);
/**
 * All points with a time ranked again: their programs, made for the cluster that was tuned, on
 * `topo`.
 * @param tuning  with kept.
 * @param most_s  wall time after which no round is begun; 0: none.
 * @param r       gets ranked, nranked, nunranked.
 */
ccl_status_t ccl_i_tune_rerank(const ccl_tuning_t *tuning, const ccl_topology_t *topo,
                               double most_s, ccl_replay_t *r, ccl_error_t *err);

/* tune_queue.c: what a round wants is asked of all that share options->lab's notebook, and done
   here as far as they leave it */
/** Schedules since first_new. */
ccl_status_t ccl_i_queue_make(ccl_i_tuner_t *t, ccl_error_t *err);
/** Runs of t->groups; those stay there that memory was short for elsewhere. */
ccl_status_t ccl_i_queue_run(ccl_i_tuner_t *t, ccl_error_t *err);

ccl_point_t ccl_i_tune_notebook_point(const ccl_i_tuner_t *t, const ccl_tune_run_t *run);

#endif
