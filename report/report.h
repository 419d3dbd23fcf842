/**
 * @file report.h
 * Results as text for people, JSON and CSV for programs. Nothing here computes a time.
 *
 * Every function appends to a caller's text buffer. JSON objects name their schema
 * ("ccllab/simulate/1"), keep a fixed key order, and print numbers so that they read back to the
 * same double. CSV is one table; where a result has several, `table` chooses. docs/results.md
 * has all keys, ccl_report_schema() the JSON Schemas.
 */
#ifndef CCL_REPORT_REPORT_H
#define CCL_REPORT_REPORT_H

#include "draw/draw.h"
#include "runtime/runtime.h"
#include "search/compare/compare.h"
#include "search/compare/ways.h"
#include "search/explain/explain.h"
#include "search/export/export.h"
#include "search/failover/failover.h"
#include "search/notebook/notebook.h"
#include "search/tune/replay.h"
#include "search/tune/sampled.h"
#include "training/training.h"
#include "validate/validate.h"

CCL_BEGIN_DECLS

typedef enum ccl_report_format {
    CCL_REPORT_TEXT,
    CCL_REPORT_JSON,
    CCL_REPORT_CSV
} ccl_report_format_t;

/** Where a result goes and in what form. */
typedef struct ccl_report_style {
    ccl_report_format_t format;
    const char *table; /**< CSV: which table; NULL: the first of the lists below */
    uint32_t rows;     /**< text: most rows of "busiest" tables; 0: 8 */
    uint32_t columns;  /**< text: width at which the times of `compare` are split; 0: 120. All else
                            keeps to that of the text it is written to */
} ccl_report_style_t;
/** The defaults. */
#define CCL_REPORT_STYLE_INIT                                                                      \
    { CCL_REPORT_TEXT, NULL, 0, 0 }

/* Tables of the results that have several, NULL-terminated. */
extern const char *const ccl_report_topology_tables[];   /**< devices links groups routes */
extern const char *const ccl_report_simulation_tables[]; /**< summary links thread_blocks flows */
extern const char *const ccl_report_comparison_tables[]; /**< times links */
extern const char *const ccl_report_lowering_tables[];   /**< ways blocks */

/* ---------------------------------------------------------------- schemas of JSON results */

/** Every result that is written as JSON, with the command that writes it. */
ccl_status_t ccl_report_schemas(const ccl_report_style_t *style, ccl_text_t *out, ccl_error_t *err);
/**
 * JSON Schema (draft 2020-12) of the results "ccllab/NAME/1", made from the descriptions that
 * write them; as text and CSV a row per key with type, unit and meaning.
 * @param name  "compare", ...
 * @retval CCL_ERR_USAGE  no result is called so.
 */
ccl_status_t ccl_report_schema(const char *name, const ccl_report_style_t *style, ccl_text_t *out,
                               ccl_error_t *err);

/* ---------------------------------------------------------------- what there is */

/** The built-in library of servers and clusters. */
ccl_status_t ccl_report_library(const ccl_report_style_t *style, ccl_text_t *out, ccl_error_t *err);
/**
 * The synthesizers with their sources.
 * @param topo  NULL, or a cluster: then the collectives each may be tried for are listed too.
 */
ccl_status_t ccl_report_algos(const ccl_topology_t *topo, const ccl_report_style_t *style,
                              ccl_text_t *out, ccl_error_t *err);

/* ---------------------------------------------------------------- topologies */

/** Routes of many GPU pairs that look alike. */
typedef struct ccl_route_class {
    const char
        *transport; /**< "nvlink", "pcie", "net", ...; NULL: no route without a relaying GPU */
    uint64_t pairs; /**< ordered pairs of GPUs */
    uint32_t min_links, max_links, max_width;
    double min_Bps, max_Bps; /**< bottleneck */
    double min_latency_s, max_latency_s;
} ccl_route_class_t;
/**
 * Sum up the routes between all ordered pairs of GPUs (channel 0); of at most `max_sources`
 * sources spread evenly over the ranks, 0 for all.
 * @param routes  NULL: made here.
 * @param out     malloc'ed array; caller frees.
 */
ccl_status_t ccl_report_route_classes(const ccl_topology_t *topo, ccl_routes_t *routes,
                                      uint32_t max_sources, ccl_route_class_t **out,
                                      uint32_t *n_out, uint32_t *sources_out, ccl_error_t *err);
/**
 * Devices by kind, servers, links by kind, groups, transports, GPU models, routes.
 * @param routes  NULL: made here.
 */
ccl_status_t ccl_report_topology(const ccl_topology_t *topo, ccl_routes_t *routes,
                                 const ccl_report_style_t *style, ccl_text_t *out,
                                 ccl_error_t *err);
/** Verdict on a description. @param topo  NULL when it was refused. @param why  then the reason. */
ccl_status_t ccl_report_topology_check(const char *spec, const ccl_topology_t *topo,
                                       const ccl_error_t *why, const ccl_report_style_t *style,
                                       ccl_text_t *out, ccl_error_t *err);
/** Chunks that hops, links and groups carry in a step of cegis. */
ccl_status_t ccl_report_capacities(const ccl_topology_t *topo,
                                   const ccl_chunk_capacities_t *capacities,
                                   const ccl_report_style_t *style, ccl_text_t *out,
                                   ccl_error_t *err);
/** Dimensions, their groups, classes of groups and of GPUs; CSV has the dimensions. */
ccl_status_t ccl_report_symmetry(const ccl_topology_t *topo, const ccl_symmetry_t *symmetry,
                                 const ccl_report_style_t *style, ccl_text_t *out,
                                 ccl_error_t *err);

/* ---------------------------------------------------------------- schedules and programs */

/** What `synth` made. */
typedef struct ccl_report_synth {
    const ccl_topology_t *topo;
    const ccl_schedule_t *schedule;
    const ccl_program_t *program; /**< NULL when only the schedule was wanted */
    const char *with, *output;
    double size_bytes;
    uint64_t seed;
    const ccl_synth_stats_t *stats; /**< NULL, or without parts: it did not search */
    bool seconds; /**< sketch: wall times of its phases too; c2c: links by phase */
} ccl_report_synth_t;
ccl_status_t ccl_report_synth(const ccl_report_synth_t *made, const ccl_report_style_t *style,
                              ccl_text_t *out, ccl_error_t *err);

/** What `verify` found. */
typedef struct ccl_report_verdict {
    const char *input;            /**< file name */
    const char *form;             /**< "program" or "schedule" */
    const char *collective;       /**< NULL: not known */
    uint32_t nranks;              /**< 0: not known */
    const ccl_verdict_t *verdict; /**< NULL: the file could not be read as what it claims to be */
    const ccl_error_t *malformed; /**< then why */
    const char *origin;           /**< of what was verified; NULL: not known */
} ccl_report_verdict_t;
ccl_status_t ccl_report_verdict(const ccl_report_verdict_t *verdict,
                                const ccl_report_style_t *style, ccl_text_t *out, ccl_error_t *err);

/* ---------------------------------------------------------------- lower bounds */

/** What `bound` found: one bound per collective. */
typedef struct ccl_report_bounds {
    const ccl_topology_t *topo;
    uint32_t nbounds;
    const ccl_collective_t *const *collectives; /**< [nbounds] */
    const ccl_bound_t *bounds;                  /**< [nbounds] */
    bool over_time;                             /**< text and CSV: each as a table over the size */
} ccl_report_bounds_t;
ccl_status_t ccl_report_bounds(const ccl_report_bounds_t *bounds, const ccl_report_style_t *style,
                               ccl_text_t *out, ccl_error_t *err);

/* ---------------------------------------------------------------- training */

/** What `balance` found. CSV has the workers. */
typedef struct ccl_report_training {
    const ccl_topology_t *topo;
    const ccl_training_t *training;
    const ccl_training_result_t *result;
    ccl_balance_rule_t rule;
} ccl_report_training_t;
ccl_status_t ccl_report_training(const ccl_report_training_t *training,
                                 const ccl_report_style_t *style, ccl_text_t *out,
                                 ccl_error_t *err);

/* ---------------------------------------------------------------- runs */

/** One simulated run, or the refusal of one. */
typedef struct ccl_report_run {
    const char *input; /**< program or flow list file */
    const ccl_topology_t *topo;
    const ccl_program_t *program; /**< NULL for flow lists */
    const ccl_flow_list_t *flows; /**< NULL for programs */
    const ccl_verdict_t *verdict; /**< NULL: not verified */
    const ccl_sim_options_t *options;
    const ccl_sim_result_t *result;  /**< NULL: refused by the verdict */
    const ccl_way_t *way;            /**< how a schedule was lowered; NULL: a program's own */
    const ccl_bound_t *bound;        /**< of its collective at its size; NULL: none */
    const ccl_epoch_flows_t *epochs; /**< what `flows` are; NULL: a flow list's */
    bool unicast;                    /**< epoch flows: switches did not copy */
    const ccl_spread_t *spread;      /**< over samples of a scenario; NULL: none */
} ccl_report_run_t;
ccl_status_t ccl_report_simulation(const ccl_report_run_t *run, const ccl_report_style_t *style,
                                   ccl_text_t *out, ccl_error_t *err);

/** What `explain` found. */
typedef struct ccl_report_explanation {
    const char *input; /**< file, or synthesizer */
    const ccl_topology_t *topo;
    const ccl_program_t *program;
    const ccl_way_t *way; /**< how a schedule was lowered; NULL: a program's own */
    const ccl_sim_options_t *options;
    const ccl_explanation_t *explanation;
    bool path; /**< also every segment of the critical path */
} ccl_report_explanation_t;
extern const char *const ccl_report_explanation_tables[]; /**< changes causes waits links path cut
                                                               thread_blocks slow_parts */
ccl_status_t ccl_report_explanation(const ccl_report_explanation_t *about,
                                    const ccl_report_style_t *style, ccl_text_t *out,
                                    ccl_error_t *err);

/** One size of a measurement. */
typedef struct ccl_measured_size {
    double size_bytes;
    ccl_status_t status;               /**< CCL_OK, CCL_CHECK, CCL_DEADLOCK, or why it failed */
    const char *why;                   /**< NULL: nothing to say */
    const ccl_run_result_t *result;    /**< NULL when it failed */
    const ccl_run_result_t *generated; /**< the same with the program's own kernel; NULL: not run */
    const ccl_run_result_t *library;   /**< the collective by a vendor's library; NULL: not run */
    ccl_status_t library_status;       /**< of it: CCL_OK or CCL_CHECK */
    const char *library_why;           /**< NULL: nothing to say */
} ccl_measured_size_t;

/** What `run` measured. */
typedef struct ccl_report_measurement {
    const char *input;
    const ccl_program_t *program;
    const ccl_verdict_t *verdict; /**< NULL: not verified */
    const ccl_run_options_t *options;
    const ccl_measured_size_t *sizes; /**< [nsizes] */
    uint32_t nsizes;
} ccl_report_measurement_t;
extern const char *const ccl_report_measurement_tables[]; /**< sizes thread_blocks */
ccl_status_t ccl_report_measurement(const ccl_report_measurement_t *m,
                                    const ccl_report_style_t *style, ccl_text_t *out,
                                    ccl_error_t *err);
ccl_status_t ccl_report_devices(const ccl_device_info_t *devices, uint32_t n,
                                const ccl_report_style_t *style, ccl_text_t *out, ccl_error_t *err);

/** A library that ccllab uses. Strings are borrowed. */
typedef struct ccl_doctor_part {
    const char *name;
    bool built_in;
    const char *version; /**< NULL: not built in, or it does not say */
    const char *use;     /**< what it is for */
    const char *licence; /**< SPDX */
} ccl_doctor_part_t;
/** What this build of ccllab has, and what it finds on this machine. */
typedef struct ccl_doctor {
    const char *build; /**< ccl_notebook_tool() */
    const char *compiler;
    const char *here;               /**< how `topology here` fares: what it finds, or why nothing */
    const ccl_doctor_part_t *parts; /**< [nparts] */
    const ccl_device_info_t *devices; /**< [ndevices] */
    uint32_t nparts, ndevices;
} ccl_doctor_t;
ccl_status_t ccl_report_doctor(const ccl_doctor_t *doctor, const ccl_report_style_t *style,
                               ccl_text_t *out, ccl_error_t *err);

/** Utilisation of the links of one kind in one run; over all directed links, idle ones included. */
typedef struct ccl_link_class {
    const char *kind;
    uint32_t nlinks, used; /**< used: carried at least one byte */
    double bytes;
    double min, mean, max; /**< utilisation, 0..1 */
} ccl_link_class_t;
/** @param out  array [topo->nkinds], in the order of topo->kinds. */
void ccl_report_link_classes(const ccl_topology_t *topo, const ccl_sim_result_t *result,
                             ccl_link_class_t *out);

/** What `lower` found: one schedule, lowered and run in one or several ways. */
typedef struct ccl_report_lowering {
    const char *input, *output; /**< output: file of the program; NULL: none was written */
    const ccl_topology_t *topo;
    const ccl_schedule_t *schedule;
    const ccl_lower_options_t *lower; /**< protocol, executor, stages of all ways */
    const ccl_sim_options_t *options;
    double parse_s; /**< wall time of reading the schedule */
    const ccl_lowered_t *ways;
    uint32_t nways;
    double bound_s; /**< lower bound at the size; 0: none */
    bool blocks;    /**< thread block by thread block too; of ways whose results were kept */
    uint32_t rank;  /**< then of this rank; CCL_NONE: of the busiest of each way */
    bool all_ranks;
} ccl_report_lowering_t;
ccl_status_t ccl_report_lowering(const ccl_report_lowering_t *lowering,
                                 const ccl_report_style_t *style, ccl_text_t *out,
                                 ccl_error_t *err);

/** What `compare` found: one comparison per collective. */
typedef struct ccl_report_comparison {
    const ccl_topology_t *topo;
    uint32_t ncomparisons;
    const ccl_collective_t *const *collectives; /**< [ncomparisons] */
    const ccl_comparison_t *const *comparisons; /**< [ncomparisons] */
    const ccl_sim_options_t *options;
    uint64_t seed;
    const char *scenario; /**< name of the one that times are sampled over; NULL: none */
} ccl_report_comparison_t;
ccl_status_t ccl_report_comparison(const ccl_report_comparison_t *comparison,
                                   const ccl_report_style_t *style, ccl_text_t *out,
                                   ccl_error_t *err);

/* ---------------------------------------------------------------- measured runs */

/** What `calibrate` fitted. CSV: the constants. */
typedef struct ccl_report_calibration {
    const ccl_calibration_t *calibration;
    const char *output; /**< file name */
} ccl_report_calibration_t;
ccl_status_t ccl_report_calibration(const ccl_report_calibration_t *about,
                                    const ccl_report_style_t *style, ccl_text_t *out,
                                    ccl_error_t *err);

/** What `calibrate --device host` fitted. CSV: the constants. */
/** Constants of a device with their intervals. */
ccl_status_t ccl_report_gpu_calibration(const ccl_gpu_calibration_t *made, const char *output,
                                        const ccl_report_style_t *style, ccl_text_t *out,
                                        ccl_error_t *err);
ccl_status_t ccl_report_host_calibration(const ccl_host_calibration_t *made, const char *output,
                                         const ccl_report_style_t *style, ccl_text_t *out,
                                         ccl_error_t *err);

/** What `validate` found. CSV: the runs. */
typedef struct ccl_report_validation {
    const char *profile, *suite; /**< as given */
    const ccl_run_options_t *run;
    const ccl_validate_case_t *cases;
    const ccl_validation_t *validation;
    const char *device; /**< "testbed"; NULL: "host" */
} ccl_report_validation_t;
ccl_status_t ccl_report_validation(const ccl_report_validation_t *about,
                                   const ccl_report_style_t *style, ccl_text_t *out,
                                   ccl_error_t *err);

/** What `validate --measured` found. @param profile  NULL: the topologies' own constants. CSV: the
 * points. */
ccl_status_t ccl_report_measured(const ccl_measured_validation_t *made,
                                 const ccl_profile_t *profile, const ccl_report_style_t *style,
                                 ccl_text_t *out, ccl_error_t *err);

/** A testbed that is up. */
ccl_status_t ccl_report_testbed(const ccl_testbed_plan_t *plan, const ccl_testbed_entry_t *entry,
                                const ccl_report_style_t *style, ccl_text_t *out, ccl_error_t *err);
/** All that are up. */
ccl_status_t ccl_report_testbeds(const ccl_testbed_entry_t *entries, uint32_t n,
                                 const ccl_report_style_t *style, ccl_text_t *out,
                                 ccl_error_t *err);

/** What `diagnose` found: one diagnosis per measured run. */
typedef struct ccl_report_diagnosis {
    const char *input;
    const ccl_topology_t *topo;
    const ccl_profile_t *profile; /**< NULL: the topology's own constants */
    uint32_t ndiagnoses;
    const ccl_diagnosis_run_t *const *diagnoses; /**< [ndiagnoses] */
} ccl_report_diagnosis_t;
ccl_status_t ccl_report_diagnosis(const ccl_report_diagnosis_t *about,
                                  const ccl_report_style_t *style, ccl_text_t *out,
                                  ccl_error_t *err);

/** What `watch` saw so far. CSV: a row per communicator, collective and size. */
typedef struct ccl_report_watch {
    const char *input; /**< the file or folder */
    const ccl_topology_t *topo;
    const ccl_profile_t *profile; /**< NULL: the topology's own constants */
    const ccl_watch_table_t *table;
} ccl_report_watch_t;
ccl_status_t ccl_report_watch(const ccl_report_watch_t *about, const ccl_report_style_t *style,
                              ccl_text_t *out, ccl_error_t *err);

/** What `thresholds` made; its JSON is what ccl_thresholds_read() takes. */
ccl_status_t ccl_report_thresholds(const ccl_thresholds_t *thresholds,
                                   const ccl_report_style_t *style, ccl_text_t *out,
                                   ccl_error_t *err);

/** What `thresholds --check` found. CSV: the sizes. */
typedef struct ccl_report_acceptance {
    const char *path;          /**< of the thresholds */
    const char *const *inputs; /**< a log's path, of each run */
    const ccl_thresholds_t *thresholds;
    const ccl_acceptance_t *acceptance;
} ccl_report_acceptance_t;
ccl_status_t ccl_report_acceptance(const ccl_report_acceptance_t *about,
                                   const ccl_report_style_t *style, ccl_text_t *out,
                                   ccl_error_t *err);

/* ---------------------------------------------------------------- the lab notebook */

/**
 * Rows of a query.
 * @param upright  text: a line per column and not per row, for few rows with many columns.
 */
ccl_status_t ccl_report_notebook(const ccl_notebook_rows_t *rows, bool upright,
                                 const ccl_report_style_t *style, ccl_text_t *out,
                                 ccl_error_t *err);

/** What `notebook gc` dropped. */
ccl_status_t ccl_report_notebook_gc(uint64_t points, uint64_t inputs,
                                    const ccl_report_style_t *style, ccl_text_t *out,
                                    ccl_error_t *err);

/**
 * All points of a notebook as the document that `notebook export --json` writes, for
 * ccl_report_page().
 * @param name  of its file, for messages.
 * @param out   end it with ccl_json_fini().
 * @retval CCL_ERR_INPUT  no point is in it; damaged: CCL_ERR_IO.
 */
ccl_status_t ccl_report_notebook_document(const ccl_ctx_t *ctx, ccl_notebook_t *notebook,
                                          const char *name, ccl_json_doc_t *out, ccl_error_t *err);

/* ---------------------------------------------------------------- pictures of results */

/** busbw over size of all comparisons in results of `compare`. @param out  destroy with
 * ccl_picture_destroy(). @retval CCL_ERR_INPUT  not such a result; file, line and column. */
ccl_status_t ccl_report_draw_busbw(const ccl_json_doc_t *docs, uint32_t ndocs, ccl_picture_t **out,
                                   ccl_error_t *err);
/** Busy and idle thread blocks of results of `simulate` and `explain`.
 * @param rank  CCL_NONE: the fullest GPU. */
ccl_status_t ccl_report_draw_idle(const ccl_json_doc_t *docs, uint32_t ndocs, uint32_t rank,
                                  ccl_picture_t **out, ccl_error_t *err);
/** Where the time of a result of `explain` goes, and what would help. @param out  destroy with
 * ccl_picture_destroy(). @retval CCL_ERR_INPUT  not such a result; file, line and column. */
ccl_status_t ccl_report_draw_explanation(const ccl_json_doc_t *doc, ccl_picture_t **out,
                                         ccl_error_t *err);
/** Progress of what `synth --with cegis --search-trace` wrote. @param name  for messages and
 * titles. */
ccl_status_t ccl_report_draw_progress(const char *name, const char *text, size_t len,
                                      ccl_picture_t **out, ccl_error_t *err);
/**
 * Columns of a table over its first one, whose numbers are above 0 and ascend, on a logarithmic
 * axis. Headings are names; what stands in parentheses at the end of one is the unit of its axis,
 * and columns of one unit share a plot.
 * @param text  CSV; an empty field: the curve has a gap there.
 * @retval CCL_ERR_INPUT  not such a table; file, line and column.
 */
ccl_status_t ccl_report_draw_curves(const char *name, const char *text, size_t len,
                                    ccl_picture_t **out, ccl_error_t *err);

/** Results in one HTML page that needs nothing but itself. */
typedef struct ccl_report_page {
    const char *question;       /**< its title; NULL: made of the results */
    const ccl_topology_t *topo; /**< drawn, coloured by the first run that fits; NULL: none */
    uint32_t ndocs;
    const ccl_json_doc_t *docs; /**< results, traces of `simulate --trace`, notebooks' documents */
    const char *date, *command; /**< when and how it was made; NULL: it does not say */
} ccl_report_page_t;
/**
 * The answer in a sentence, contents, and in the order of the results tables, plots that show their
 * values, timelines that zoom, and the command that repeats each line. It needs no network, prints
 * on paper, follows the reader's choice of a dark page, and says without scripts what it says with
 * them. Equal input gives equal bytes.
 * @retval CCL_ERR_INPUT  something else than a result; file, line and column.
 */
ccl_status_t ccl_report_page(const ccl_report_page_t *page, ccl_text_t *out, ccl_error_t *err);

/* ---------------------------------------------------------------- tuning */

typedef struct ccl_report_tuning {
    const ccl_topology_t *topo;
    const char *collective, *strategy;
    uint64_t seed;
    const ccl_tuning_t *tuning;
    const ccl_replay_t *replay;        /**< NULL: none */
    const char *device;                /**< of the replay */
    const ccl_tune_samples_t *sampled; /**< NULL: none */
    const char *scenario;              /**< of these: file, or what varies */
} ccl_report_tuning_t;
extern const char
    *const ccl_report_tuning_tables[]; /**< best blocks synthesis knobs runs replay ranks samples */
ccl_status_t ccl_report_tuning(const ccl_report_tuning_t *about, const ccl_report_style_t *style,
                               ccl_text_t *out, ccl_error_t *err);

/** A file that was written. */
typedef struct ccl_report_file {
    const char *path, *what;
} ccl_report_file_t;
/** Choices for NCCL's calls, and files for other libraries. */
typedef struct ccl_report_export {
    const char *topology, *profile;  /**< profile: NULL: none */
    const char *hash;                /**< NULL without a table */
    const ccl_export_table_t *table; /**< NULL: none was made */
    const ccl_report_file_t *files;  /**< [nfiles] */
    uint32_t nfiles, nranks, nnodes; /**< nnodes: CCL_NONE without a table */
    bool registered;
} ccl_report_export_t;
ccl_status_t ccl_report_export(const ccl_report_export_t *about, const ccl_report_style_t *style,
                               ccl_text_t *out, ccl_error_t *err);

/** One cluster of a sweep. */
typedef struct ccl_report_sweep_case {
    const char *name;
    const ccl_topology_t *topo;
    const ccl_tuning_t *tuning; /**< all of the same sizes */
    const ccl_bound_t *bound; /**< of a cluster that changes nothing (ccl_report_sweep_same()): says
                                   why; NULL: not known */
    const char *knob; /**< what an edit sets, "degrade:nic:0"; NULL: no edit, or no number */
    double value;     /**< to which value; of a share of what was, in percent */
    const char *unit; /**< "%", "GB/s"; "": none */
} ccl_report_sweep_case_t;
/** What a picture of a sweep shows. */
typedef enum ccl_report_sweep_over {
    CCL_REPORT_OVER_AUTO, /**< values where one knob with several is all there is */
    CCL_REPORT_OVER_SIZE, /**< busbw over size, a curve per cluster */
    CCL_REPORT_OVER_VALUE /**< time, and the bound, over a knob's value; a plot per size, two curves
                             per knob */
} ccl_report_sweep_over_t;
typedef struct ccl_report_sweep {
    const char *collective;
    uint32_t ncases; /**< >= 1; the others are compared with the first */
    const ccl_report_sweep_case_t *cases;
} ccl_report_sweep_t;
/** Whether a cluster is as fast as the first one at every size, to half a percent. */
bool ccl_report_sweep_same(const ccl_report_sweep_t *about, uint32_t at);
ccl_status_t ccl_report_sweep(const ccl_report_sweep_t *about, const ccl_report_style_t *style,
                              ccl_text_t *out, ccl_error_t *err);
/** @retval CCL_ERR_USAGE  over values, but no knob has two, or they have different units. */
ccl_status_t ccl_report_draw_sweep(const ccl_report_sweep_t *about, ccl_report_sweep_over_t over,
                                   ccl_picture_t **out, ccl_error_t *err);

/** Plans for single failures. */
typedef struct ccl_report_failover {
    const ccl_topology_t *topo; /**< the whole cluster */
    const ccl_collective_t *want;
    const ccl_failover_t *failover;
    const char *const *programs; /**< [ncases + 1][nsizes] names of files, today's last, NULL where
                                      there is none; NULL: none at all */
} ccl_report_failover_t;
ccl_status_t ccl_report_failover(const ccl_report_failover_t *about,
                                 const ccl_report_style_t *style, ccl_text_t *out,
                                 ccl_error_t *err);

CCL_END_DECLS
#endif
