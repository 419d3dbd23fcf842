/**
 * @file command.h
 * Private to cli/: commands, options, and what the commands share.
 */
#ifndef CCL_CLI_COMMAND_H
#define CCL_CLI_COMMAND_H

#include "cli/cli.h"

/** Values of an option that may be given several times, in the order of the command line. */
typedef struct ccl_i_list {
    const char **items;
    size_t n, cap;
} ccl_i_list_t;

/** Choices of one option, as indices into its words. */
typedef struct ccl_i_choices {
    uint32_t n; /**< 0: not given */
    uint32_t at[4];
} ccl_i_choices_t;

/** Among a command's options: all of lowering; all of synthesizers; the same with what these write;
 *  those that make the run of ccl_i_subject_open(). */
#define CCL_I_LOWERING "@lowering"
#define CCL_I_SYNTH "@synth"
#define CCL_I_SYNTH_FILES "@synth-files"
#define CCL_I_MADE "@made"

/** All options of all commands; an option means the same wherever it is accepted. */
typedef struct ccl_i_args {
    /* everywhere */
    bool help, json, csv, quiet;
    uint32_t verbose;
    const char *output, *progress;
    uint64_t seed;
    uint32_t threads;
    /* topologies */
    const char *topology;
    ccl_i_list_t topologies; /**< of measured runs, which may have used different ones */
    ccl_i_list_t edits;      /**< "fail:..." and "degrade:..." in the order given */
    /* what to do */
    const char *collective, *demand, *with, *format, *table, *flows, *trace, *sizes;
    const char *rank;
    ccl_i_list_t programs, schedules, plugins;
    double size_bytes;
    uint32_t root, nccl_channels, slots, rows;
    ccl_synth_options_t synth; /**< what tables of options set; files and sizes are not in them */
    ccl_lower_options_t lower;
    ccl_sim_options_t sim;
    const char *profile, *from_nccl_tests, *name, *source;
    uint32_t ranks, run; /**< which measured runs; 0: all */
    bool in_place;
    bool registered;
    const char *hold_out;
    ccl_i_list_t measured; /**< files of `validate --measured` */
    struct {               /* of `run` */
        const char *device, *root, *emit_kernel, *rdma;
        uint32_t type, op, ranks, transport, bootstrap, kernel, library,
            hom; /**< index into the option's choices */
        uint32_t repeats, warmups, slices, processes, world, rank;
        double slice_bytes, watchdog_s;
        bool no_check;
    } job;
    struct { /* of `export` */
        const char *cuda, *hip;
        uint32_t api; /**< index into the option's choices */
    } kernel;
    struct { /* of `validate` and `calibrate --device host` */
        const char *ranks, *suite, *keep, *footprints;
    } host;
    struct { /* of the testbed */
        const char *cluster, *rate_max;
        bool calibrate;
    } testbed;
    bool explain;         /**< --explain-capacities */
    const char *kinds;    /**< of `failover` */
    const char *question; /**< of `report` */
    const char *heat;     /**< of `draw` */
    uint32_t width_px;
    uint32_t draw_rows, draw_colour; /**< index into the option's choices */
    bool unfolded;                   /**< rows of a timeline that look alike one by one */
    const char *notebook;
    struct { /* of processes that share it */
        double lease_s, idle_s;
    } lab;
    struct { /* of `tune` */
        const char *budget, *space, *gap;
        ccl_i_list_t knobs;
        uint32_t strategy; /**< index into the option's choices */
        uint32_t improve, top;
        const char *export, *replay, *save_profile;
        const char *tuner_plugin, *plans; /* of `export` */
        ccl_i_list_t vary;
        uint32_t over; /* index into the option's choices */
    } tune;
    struct { /* of `compare` and `simulate` */
        const char *scenario, *rank;
        uint32_t samples;
    } vary;
    struct {
        bool follow;
        double interval_s;
        uint32_t window;
    } watch;
    struct { /* of `thresholds` */
        const char *margin, *check;
    } accept;
    struct { /* of `balance` */
        const char *plan, *speeds, *most;
        uint32_t total, rule; /**< the last: index into the option's choices */
    } train;
    struct { /* of `demand moe` */
        uint32_t experts, top_k, hidden, tokens, copies;
        uint32_t placement; /**< index into the option's choices */
        double element;
        const char *skew, *affinity, *write_placement;
        bool combine, unshared;
    } moe;
    bool path, no_what_if; /**< of `explain` */
    bool unicast, no_verify, all, blocks, over_time;
    /* and the rest of the line */
    ccl_i_list_t inputs;
    ccl_i_list_t given;       /**< names of the options on the line */
    ccl_i_list_t given_texts; /**< and their values, "" of flags */
} ccl_i_args_t;

typedef struct ccl_i_cli {
    ccl_ctx_t ctx;
    ccl_i_args_t args;
    ccl_report_style_t style;
    bool page; /**< the result becomes an HTML page */
    int argc;  /**< the line as it was typed, for what says how it was made */
    char **argv;
} ccl_i_cli_t;

typedef struct ccl_i_command {
    const char *name;           /**< "simulate", "topology show" */
    const char *usage;          /**< what follows the name */
    const char *summary;        /**< one line */
    const char *details;        /**< paragraphs of the help, at most 80 columns wide */
    const char *examples;       /**< command lines that work as they are or with the user's files */
    const char *const *accepts; /**< names of its own options, and CCL_I_*; NULL-terminated */
    uint32_t min_inputs, max_inputs;
    const char *const *lists;  /**< options whose words may be a list with commas; NULL: none */
    const char *const *tables; /**< what --table takes, NULL-terminated; NULL: no --table */
    const char *no;            /**< when its exit code is 1; NULL: never */
    /** CCL_OK, or the status whose exit code is wanted; err without text: all is said already. */
    ccl_status_t (*run)(ccl_i_cli_t *cli, ccl_error_t *err);
} ccl_i_command_t;

/** All commands, NULL-terminated, in the order of the help. */
extern const ccl_i_command_t *const ccl_i_commands[];
extern const ccl_i_command_t ccl_i_cmd_doctor, ccl_i_cmd_topology_list, ccl_i_cmd_topology_show,
    ccl_i_cmd_topology_expand, ccl_i_cmd_topology_here, ccl_i_cmd_topology_check,
    ccl_i_cmd_topology_symmetry, ccl_i_cmd_algos, ccl_i_cmd_demand_moe, ccl_i_cmd_bound,
    ccl_i_cmd_synth, ccl_i_cmd_verify, ccl_i_cmd_simulate, ccl_i_cmd_compare, ccl_i_cmd_lower,
    ccl_i_cmd_calibrate, ccl_i_cmd_diagnose, ccl_i_cmd_run, ccl_i_cmd_devices, ccl_i_cmd_validate,
    ccl_i_cmd_explain;
extern const ccl_i_command_t ccl_i_cmd_draw_topology, ccl_i_cmd_draw_timeline, ccl_i_cmd_draw_busbw,
    ccl_i_cmd_draw_idle, ccl_i_cmd_draw_progress, ccl_i_cmd_draw_curves, ccl_i_cmd_report,
    ccl_i_cmd_schema;
extern const ccl_i_command_t ccl_i_cmd_testbed_up, ccl_i_cmd_testbed_run, ccl_i_cmd_testbed_down,
    ccl_i_cmd_testbed_list, ccl_i_cmd_testbed_topology;
extern const ccl_i_command_t ccl_i_cmd_tune, ccl_i_cmd_sweep, ccl_i_cmd_failover, ccl_i_cmd_balance,
    ccl_i_cmd_export, ccl_i_cmd_watch, ccl_i_cmd_thresholds;
extern const ccl_i_command_t ccl_i_cmd_work, ccl_i_cmd_notebook_list, ccl_i_cmd_notebook_show,
    ccl_i_cmd_notebook_query, ccl_i_cmd_notebook_diff, ccl_i_cmd_notebook_export,
    ccl_i_cmd_notebook_copy, ccl_i_cmd_notebook_gc;

/* ---------------------------------------------------------------- options.c, parse.c, help.c */

/** Parse what follows the command's name. CCL_ERR_USAGE with one line otherwise. */
ccl_status_t ccl_i_options_parse(const ccl_i_command_t *command, int argc, char **argv,
                                 ccl_i_args_t *args, ccl_error_t *err);
void ccl_i_args_init(ccl_i_args_t *args);
void ccl_i_args_fini(ccl_i_args_t *args);
/** Append; false when out of memory. */
bool ccl_i_list_add(ccl_i_list_t *list, const char *item);
/** Whether the line has this option, by its name in the table. */
bool ccl_i_given(const ccl_i_args_t *args, const char *name);
/** Its value on the line, the last one; NULL: the line has no such option. */
const char *ccl_i_given_text(const ccl_i_args_t *args, const char *name);
/** All words of an option that takes a list. */
ccl_i_choices_t ccl_i_choices(const ccl_i_args_t *args, const ccl_option_t *option);
/** An option as help, manual pages and completion show it. */
typedef struct ccl_i_option_info {
    char name[32];       /**< as it is spelled, without dashes */
    char letter;         /**< 0: none */
    bool value_optional; /**< --name[=VALUE] */
    bool general;        /**< of every command */
    const char *value;   /**< how its value is named; NULL: takes none */
    const char *help;
    const char *otherwise;      /**< what holds without it; NULL: help says so */
    const char *const *choices; /**< NULL: not a choice */
    char group[80];             /**< "lowering", "greedy, cegis"; "": the command's */
} ccl_i_option_info_t;
/** Its help, with what holds without it. */
void ccl_i_option_doc(const ccl_i_option_info_t *option, ccl_text_t *out);
/** Option number `index` of a command, its own first; false: there are no more. */
bool ccl_i_option_info(const ccl_i_command_t *command, size_t index, ccl_i_option_info_t *out);
/** Usage, details and options of a command, at most 80 columns wide. */
void ccl_i_help_command(const ccl_i_command_t *command, ccl_text_t *out);
void ccl_i_help_all(ccl_text_t *out);
/** Commands that begin with `prefix` ("topology"). */
void ccl_i_help_family(const char *prefix, ccl_text_t *out);

/* ---------------------------------------------------------------- cli.c */

/**
 * The end of a command: one line on standard error, where there is something to say.
 * @return the exit code.
 */
int ccl_i_finish(ccl_status_t status, const ccl_error_t *err);

/* ---------------------------------------------------------------- manual.c */

/** What an exit code means; the last has code NULL. */
typedef struct ccl_i_exit_code {
    const char *code, *meaning;
} ccl_i_exit_code_t;
extern const ccl_i_exit_code_t ccl_i_exit_codes[];
/** Manual page ccllab(1), in roff. */
void ccl_i_man_program(ccl_text_t *out);
/** Manual page ccllab-COMMAND(1), in roff. */
void ccl_i_man_command(const ccl_i_command_t *command, ccl_text_t *out);

/* ---------------------------------------------------------------- markdown.c */

/** A table of docs/: "synthesizers", "lowering", "runs", "knobs". false: there is no such. */
bool ccl_i_markdown(const char *what, ccl_text_t *out);

/* ---------------------------------------------------------------- completion/ */

/** Scripts for shells that complete commands, options, their values, and inputs. */
void ccl_i_completion_bash(ccl_text_t *out);
void ccl_i_completion_zsh(ccl_text_t *out);
void ccl_i_completion_fish(ccl_text_t *out);

/* ---------------------------------------------------------------- synthesis.c */

/** Files that options of synthesizers name: what is read, and texts to be written. */
typedef struct ccl_i_synth_files {
    ccl_json_doc_t input;
    ccl_schedule_t *schedule;
    uint32_t noutputs;
    struct {
        const char *path;
        ccl_text_t text;
    } outputs[8];
} ccl_i_synth_files_t;
/**
 * What the options say to synthesizers.
 * @param files  zeroed; *out borrows from it: ccl_i_synth_files_fini(), also on failure.
 */
ccl_status_t ccl_i_synth_options(const ccl_i_args_t *args, ccl_i_synth_files_t *files,
                                 ccl_synth_options_t *out, ccl_error_t *err);
/** Write what a synthesizer has put into the outputs. */
ccl_status_t ccl_i_synth_files_write(const ccl_i_synth_files_t *files, ccl_error_t *err);
void ccl_i_synth_files_fini(ccl_i_synth_files_t *files);
/** A file of options (sketches, a trace) is refused beside a synthesizer that does not know it.
    @param with  its name; NULL: none is named. */
ccl_status_t ccl_i_synth_files_check(const ccl_i_args_t *args, const char *with, ccl_error_t *err);

/* ---------------------------------------------------------------- measured.c */

/** Clusters that runs may have used. */
typedef struct ccl_i_clusters {
    uint32_t n;
    const ccl_topology_t *const *items;
} ccl_i_clusters_t;
/**
 * Measured runs of a log that --collective, --ranks and --run leave, and for which a cluster has
 * the GPUs; what is left out is reported.
 * @param n_out  at least 1.  @param chosen_out  malloc'ed, borrows from the log.
 */
ccl_status_t ccl_i_measured_open(ccl_i_cli_t *cli, const char *path,
                                 const ccl_i_clusters_t *clusters, ccl_measured_log_t **log_out,
                                 const ccl_measured_run_t ***chosen_out, uint32_t *n_out,
                                 ccl_error_t *err);
/** The GPUs of a run: of the first cluster that has them. */
ccl_status_t ccl_i_measured_take(const ccl_i_clusters_t *clusters, const ccl_measured_run_t *run,
                                 ccl_topology_t **out, ccl_error_t *err);
/** "allreduce on 8 ranks, half, A100 (line 12)". */
void ccl_i_measured_title(const ccl_measured_run_t *run, char *out, size_t out_len);

/* ---------------------------------------------------------------- sources.c */

/** Measured runs of several files, on the clusters that they used. */
typedef struct ccl_i_sources {
    uint32_t n, nlogs, nclusters, nprograms, nparts;
    ccl_measured_source_t *items; /**< [n] */
    ccl_measured_log_t **logs;
    ccl_topology_t **clusters, **parts;
    ccl_program_t **programs;
    char **paths; /**< [nprograms] */
} ccl_i_sources_t;
/**
 * Read files of measured runs; programs that they name lie beside them.
 * @param out  zeroed; ccl_i_sources_fini(), also on failure.
 */
ccl_status_t ccl_i_sources_open(ccl_i_cli_t *cli, const ccl_i_list_t *files, ccl_i_sources_t *out,
                                ccl_error_t *err);
void ccl_i_sources_fini(ccl_i_sources_t *sources);

/* ---------------------------------------------------------------- cmd_validate.c */

/** `calibrate --device host`. */
ccl_status_t ccl_i_calibrate_host(ccl_i_cli_t *cli, ccl_error_t *err);

/* ---------------------------------------------------------------- calibrate_device.c */

/** `calibrate --device cuda|hip`. */
ccl_status_t ccl_i_calibrate_device(ccl_i_cli_t *cli, ccl_error_t *err);
/** How a calibration runs its programs, as far as host and devices have it in common. */
ccl_status_t ccl_i_calibration_runs(const ccl_i_args_t *args, ccl_run_options_t *out,
                                    ccl_error_t *err);
typedef ccl_status_t (*ccl_i_profile_report_fn)(const void *made, const char *output,
                                                const ccl_report_style_t *style, ccl_text_t *out,
                                                ccl_error_t *err);
/** The profile to --output; what was made on the terminal, where that is another place. */
ccl_status_t ccl_i_emit_profile(ccl_i_cli_t *cli, const char *profile,
                                ccl_i_profile_report_fn report, const void *made, ccl_error_t *err);

/* ---------------------------------------------------------------- cmd_run.c */

/** Of --proto, also for a program that names another; else as the program says. */
ccl_run_protocol_t ccl_i_run_protocol(const ccl_i_args_t *args);
/** Run a program, a schedule or what a synthesizer makes (`what`) in a testbed. */
ccl_status_t ccl_i_run_in(ccl_i_cli_t *cli, const ccl_testbed_t *testbed,
                          const ccl_topology_t *emulated, const char *what, ccl_error_t *err);
/** `export --cuda` and `--hip`: a program as one stand-alone source. */
ccl_status_t ccl_i_export_kernel(ccl_i_cli_t *cli, ccl_error_t *err);

/* ---------------------------------------------------------------- cmd_testbed.c */

/** `validate --testbed CLUSTER`. */
ccl_status_t ccl_i_validate_testbed(ccl_i_cli_t *cli, ccl_error_t *err);

/* ---------------------------------------------------------------- progress.c */

/** What work of equal parts still takes. NaN: not known, as in its first second. */
double ccl_i_progress_left_s(const ccl_progress_t *p, double elapsed_s);
/**
 * " 37% 37 of 100, 12/s, about 6 s left: cegis at 64M; best 123 us; bound 100 us", cut before the
 * last column.
 * @param elapsed_s  since it began.
 */
void ccl_i_progress_line(const ccl_progress_t *p, double elapsed_s, size_t columns,
                         ccl_text_t *out);

/* ---------------------------------------------------------------- terminal.c */

/** Log and progress to stderr, SIGINT and SIGTERM to the cancel flag. */
void ccl_i_terminal_open(ccl_i_cli_t *cli);
/** Width of results: $COLUMNS, else the terminal's; 0: they go elsewhere, and have no limit. */
uint32_t ccl_i_terminal_columns(void);
/** The end: nothing is drawn any more. */
void ccl_i_terminal_close(void);
/** Take a progress line off the terminal. */
void ccl_i_terminal_clear(void);
/** The signal that asked to stop; 0: none. */
int ccl_i_terminal_signal(void);
/** One line "ccllab: ..." on stderr, whatever characters the text holds. */
void ccl_i_say(const char *kind, const char *text);

/* ---------------------------------------------------------------- inputs.c */

/** The cluster of a description, with the edits of the command line: as it is described. */
ccl_status_t ccl_i_topology_open(ccl_i_cli_t *cli, const char *spec, ccl_topology_t **out,
                                 ccl_error_t *err);
/**
 * The cluster as it is timed: with the constants of --profile, else of the library's profile for
 * its GPUs; "none": as described. Edits of parts and bandwidths come before a profile, those of
 * constants after it.
 * @param edit         one more, "set:slots=4"; NULL: none.
 * @param machine_out  the same without the profile; NULL where there is none. NULL: not wanted.
 */
ccl_status_t ccl_i_cluster_open(ccl_i_cli_t *cli, const char *spec, const char *edit,
                                ccl_topology_t **machine_out, ccl_topology_t **out,
                                ccl_error_t *err);
/** The profile that ccl_i_cluster_open() lays over that cluster; NULL: none. */
ccl_status_t ccl_i_cluster_profile(const ccl_i_cli_t *cli, const ccl_topology_t *topo,
                                   ccl_profile_t **out, ccl_error_t *err);
/** A program file, or a schedule file, told apart by content; the other one is NULL. */
typedef struct ccl_i_document {
    ccl_program_t *program;
    ccl_schedule_t *schedule;
} ccl_i_document_t;
/** @param form_out  "program" or "schedule", also when reading failed. */
ccl_status_t ccl_i_document_read(const char *path, ccl_i_document_t *out, const char **form_out,
                                 ccl_error_t *err);
void ccl_i_document_fini(ccl_i_document_t *document);
/** Warn where some of the sizes are outside of what the program says it is made for. */
void ccl_i_warn_sizes(const ccl_i_cli_t *cli, const char *path, const ccl_program_t *program,
                      const double *sizes_bytes, uint32_t nsizes);
/** The collective of --collective (one word of it) or --demand for this many ranks. */
ccl_status_t ccl_i_collective_open(const ccl_i_args_t *args, const char *word, uint32_t nranks,
                                   ccl_collective_t **out, ccl_error_t *err);
/** Split at commas into a malloc'ed array of pointers into `copy_out`; empty words are refused. */
ccl_status_t ccl_i_words(const char *option, const char *text, char **copy_out,
                         const char ***words_out, uint32_t *n_out, ccl_error_t *err);
/** "2%" as 0.02; not below 0. */
ccl_status_t ccl_i_percent_option(const char *option, const char *text, double *out,
                                  ccl_error_t *err);
/** "1K:4G", "1K:4G:4", "1K,64K,1M" or a mixture; at most 4096, in the order given. */
ccl_status_t ccl_i_sizes(const char *text, double **out, uint32_t *n_out, ccl_error_t *err);
/** Those of --sizes; without: a demand's own size, or `otherwise`. */
ccl_status_t ccl_i_sizes_of(const ccl_i_args_t *args, const ccl_collective_t *want,
                            const char *otherwise, double **out, uint32_t *n_out, ccl_error_t *err);
/** The simulator's options of the command line. */
ccl_sim_options_t ccl_i_sim_options(const ccl_i_args_t *args);
/** "dir/allgather_8.xml" is shown as "allgather_8"; malloc'ed, NULL when out of memory. */
char *ccl_i_title(const char *path);
/**
 * Date and command line of a page, into `date` (11 characters) and `line`. The date is that of
 * SOURCE_DATE_EPOCH where it is set, as for other builds that are to be repeated, in UTC.
 */
void ccl_i_page_made(const ccl_i_cli_t *cli, char date[16], ccl_text_t *line,
                     ccl_report_page_t *page);
/** Write a result where -o says; as an HTML page where that ends in .html. */
ccl_status_t ccl_i_emit(ccl_i_cli_t *cli, const ccl_text_t *text, ccl_error_t *err);

/* ---------------------------------------------------------------- cmd_tune.c */

/** What the line says of budget, strategy and space. @param space_out  also on failure, if set. */
ccl_status_t ccl_i_tune_options(ccl_i_cli_t *cli, ccl_tune_options_t *options,
                                ccl_space_t **space_out, ccl_error_t *err);
/** In one line, what there was no memory for. @retval CCL_ERR_NOMEM  there was none for anything.
 */
ccl_status_t ccl_i_tell_scarcity(const ccl_i_cli_t *cli, const ccl_scarcity_t *scarcity,
                                 ccl_error_t *err);

/* ---------------------------------------------------------------- export.c */

/** Make a folder where there is none. */
ccl_status_t ccl_i_export_folder(const char *dir, ccl_error_t *err);
/** Write a text as a file of a folder, and say so (-v). @param text  freed. */
ccl_status_t ccl_i_export_file(ccl_i_cli_t *cli, const char *dir, const char *name,
                               ccl_text_t *text, ccl_error_t *err);
/**
 * Write what was tuned to files in a folder, which is made when absent: programs, plans, ring
 * orders, a table for NCCL's tuner plugin.
 */
ccl_status_t ccl_i_export(ccl_i_cli_t *cli, const ccl_topology_t *topo,
                          const ccl_collective_t *want, const ccl_tuning_t *tuning, const char *dir,
                          ccl_error_t *err);

/* ---------------------------------------------------------------- launched.c */

/** One of several processes that mpirun or srun started. Zeros: alone. */
typedef struct ccl_i_launched {
    uint32_t rank, world;
    char launch[200]; /* what they have in common */
} ccl_i_launched_t;
/**
 * Where a launcher started several processes: which one is this?
 * @retval CCL_ERR_USAGE  they have no notebook that all of them can share.
 */
ccl_status_t ccl_i_launched_find(ccl_i_cli_t *cli, ccl_i_launched_t *l, ccl_error_t *err);
/** Not process 0: it works for that one. */
bool ccl_i_launched_helper(const ccl_i_launched_t *l);
/** --lease. */
ccl_status_t ccl_i_lab_options(const ccl_i_args_t *args, ccl_lab_options_t *out, ccl_error_t *err);
/** To the others that share the notebook; *out as it is where there is none. */
ccl_status_t ccl_i_launched_join(ccl_i_cli_t *cli, ccl_i_launched_t *l, ccl_notebook_t *notebook,
                                 ccl_lab_t **out, ccl_error_t *err);
/** Works for process 0 until that one is done. */
ccl_status_t ccl_i_launched_work(ccl_i_cli_t *cli, ccl_i_launched_t *l, ccl_error_t *err);

/* ---------------------------------------------------------------- cmd_notebook.c */

/**
 * What --scenario and --samples say of a cluster; nothing is set without --scenario. What is set is
 * the caller's to destroy, also on failure.
 * @param topo  must outlive the draws.
 */
ccl_status_t ccl_i_scenario_open(const ccl_i_cli_t *cli, const ccl_topology_t *topo,
                                 ccl_scenario_t **scenario_out, ccl_draws_t **draws_out,
                                 uint32_t *samples_out, ccl_error_t *err);
/** --rank; *out stays without it. */
ccl_status_t ccl_i_scenario_rank(const ccl_i_cli_t *cli, ccl_rank_t *out, ccl_error_t *err);
/** --notebook none: what is found is not kept. */
bool ccl_i_notebook_none(const ccl_i_args_t *args);
/** The lab notebook of --notebook, or the user's own. */
ccl_status_t ccl_i_notebook_open(const ccl_i_cli_t *cli, bool write, ccl_notebook_t **out,
                                 ccl_error_t *err);

/* ---------------------------------------------------------------- lowering.c */

/** The way of lowering of the command line. @param bits_out  CCL_WAY_* of what was given. */
ccl_way_t ccl_i_way(const ccl_i_args_t *args, unsigned *bits_out);
/** All options of lowering, but for what depends on a cluster and a run. */
ccl_lower_options_t ccl_i_lower_options(const ccl_i_args_t *args);
/** The first option of lowering that was given and that a program cannot follow, NULL: none.
    @param level  count --granularity. */
const char *ccl_i_lowering_given(const ccl_i_args_t *args, bool level);
/** An error when an option was given that only a schedule can follow: a program is lowered. */
ccl_status_t ccl_i_refuse_lowered(const ccl_i_args_t *args, const char *path, ccl_error_t *err);
/**
 * Lower a schedule document for the cluster and its FIFOs; programs stay as they are but for a
 * protocol that --proto names.
 * @param topo    NULL: of no cluster.
 * @param preset  the way where the command line says nothing; NULL: the default way.
 */
ccl_status_t ccl_i_document_lower(ccl_i_cli_t *cli, const ccl_topology_t *topo,
                                  const ccl_way_t *preset, double size_bytes,
                                  ccl_i_document_t *document, ccl_error_t *err);
/** An error when a document has other ranks than the cluster has GPUs. */
ccl_status_t ccl_i_document_fits(const ccl_i_document_t *document, const char *path,
                                 const ccl_topology_t *topo, ccl_error_t *err);

/* ---------------------------------------------------------------- contenders.c */

/** No option of an added synthesizer has the name of one of the command line's own (options.c). */
ccl_status_t ccl_i_check_added(ccl_error_t *err);
/** The plugins of CCLLAB_PLUGINS and of --plugin, where the command takes them; before its options
    are parsed, since plugins add some. */
ccl_status_t ccl_i_plugins_load(const ccl_i_command_t *command, int argc, char **argv,
                                ccl_error_t *err);
/** Every name of --with is a synthesizer or stock software. */
ccl_status_t ccl_i_contenders_check(const char *const *with, uint32_t nwith, ccl_error_t *err);
/** Most contenders that ccl_i_contenders() makes of this many names. */
uint32_t ccl_i_contenders_room(uint32_t nwith);
/**
 * Those of --with, or where it names nobody stock software and all synthesizers that take part.
 * @param without  NULL, or names that are left out where nobody is named; NULL-terminated.
 * @param out      has ccl_i_contenders_room().
 * @return their number.
 */
uint32_t ccl_i_contenders(const ccl_topology_t *topo, const char *const *with, uint32_t nwith,
                          const char *const *without, ccl_contender_t *out);

/* ---------------------------------------------------------------- subject.c */

/** The run that a command is about. */
typedef struct ccl_i_subject {
    const char *input;         /**< the file; NULL: --with made it */
    char name[121];            /**< "ring" of ring.xml, the synthesizer, "nccl" or "rccl" */
    char title[240];           /**< the file's path, the synthesizer, "nccl (ring LL128 x24 ...)" */
    ccl_i_document_t document; /**< what was read or made, and lowered; empty of stock software */
    const ccl_program_t *program; /**< in the document or the predictor */
    const ccl_topology_t *topo;   /**< what it runs on */
    ccl_sim_options_t sim;        /**< of the run, with its size and level */
    bool lowered;                 /**< by `way` */
    ccl_way_t way;
    bool proven; /**< the verdict is the verifier's; else it is "valid" */
    ccl_verdict_t verdict;
    ccl_collective_t *want;    /**< of --with; NULL of files */
    ccl_synth_options_t synth; /**< of a synthesizer */
    ccl_i_synth_files_t files;
    ccl_predictor_t *predictor; /**< of stock software; NULL otherwise */
    ccl_nccl_kernel_t kernel;   /**< the predictor's */
} ccl_i_subject_t;
/**
 * Read `file`, or make what --with says of --collective, lower it, and verify it unless
 * --no-verify. A wrong program is no error here: see the verdict.
 * @param file     NULL: --with.
 * @param machine  the cluster without --profile; NULL: there is none.
 * @param topo     the cluster; borrowed.
 * @param s        zeroed; ccl_i_subject_fini(), also on failure.
 */
ccl_status_t ccl_i_subject_open(ccl_i_cli_t *cli, const char *file, const ccl_topology_t *machine,
                                const ccl_topology_t *topo, ccl_i_subject_t *s, ccl_error_t *err);
/** @retval CCL_CHECK  its verdict is no; one line says why. */
ccl_status_t ccl_i_subject_right(const ccl_i_subject_t *s, ccl_error_t *err);
void ccl_i_subject_fini(ccl_i_subject_t *s);

/* ---------------------------------------------------------------- draw.c */

/** The picture's format by -o, which must be given and end in .svg, .pdf or .png. */
ccl_status_t ccl_i_picture_format(const ccl_i_cli_t *cli, ccl_draw_format_t *out, ccl_error_t *err);
/** -o asks for a picture. */
bool ccl_i_wants_picture(const ccl_i_args_t *args);
/** Write a picture where -o says, --width wide. */
ccl_status_t ccl_i_picture_emit(ccl_i_cli_t *cli, const ccl_picture_t *picture, ccl_error_t *err);
/** A simulated run to draw. */
typedef struct ccl_i_drawn_run {
    ccl_i_subject_t subject;
    ccl_topology_t *topo, *machine; /**< machine: without the profile; NULL: there is none */
    ccl_sim_result_t *result;
    char title[240]; /**< "ring, allgather of 64M" */
} ccl_i_drawn_run_t;
/**
 * The run of a file, or of --with, on the cluster of the command line, simulated.
 * @param file   NULL: --with.
 * @param spec   of the cluster.
 * @param trace  NULL: none.
 * @retval CCL_CHECK  it is not right; one line says why.
 */
ccl_status_t ccl_i_run_open(ccl_i_cli_t *cli, const char *file, const char *spec,
                            ccl_trace_t *trace, ccl_i_drawn_run_t *out, ccl_error_t *err);
void ccl_i_run_fini(ccl_i_drawn_run_t *run);

#endif
