/**
 * @file space.h
 * What can be tuned: knobs, and the values that each may have.
 */
#ifndef CCL_SEARCH_SPACE_H
#define CCL_SEARCH_SPACE_H

#include "synth/synth.h"

CCL_BEGIN_DECLS

/** Most options of synthesizers, without the common ones, that the tuner can have: 32 of built-in
    ones, and all of added ones. */
enum { CCL_KNOBS_OWN = 32 + CCL_SYNTH_OWN_OPTIONS };
/**
 * What can be tuned; docs/tuning.md says what each is. Those of synthesizers come from their tables
 * of options (ccl_synth_option_table), in that order; so do those of lowering and of a run.
 */
typedef enum ccl_knob {
    CCL_KNOB_WITH,
    CCL_KNOB_CHANNELS,
    CCL_KNOB_CHUNKS,
    CCL_KNOB_OWN, /**< the first of what only some synthesizers have */
    /** This one and those behind it: lowering and the run; before: synthesis. */
    CCL_KNOB_ORDER = CCL_KNOB_OWN + CCL_KNOBS_OWN,
    CCL_KNOB_ALLOCATE,
    CCL_KNOB_GRANULARITY,
    CCL_KNOB_FUSE,
    CCL_KNOB_SLOTS,
    CCL_KNOB_BATCHES,
    CCL_KNOB_PROTO,
    CCL_KNOB_BLOCKS, /**< this one to tb_rate: constants of the cluster, also for synthesis */
    CCL_KNOB_SLICE,
    CCL_KNOB_SLICES,
    CCL_KNOB_PIECE,
    CCL_KNOB_FIFO,
    CCL_KNOB_LATENCY, /**< this one to tb_rate: factors that nobody can choose */
    CCL_KNOB_OVERHEAD,
    CCL_KNOB_TB_RATE,
    CCL_KNOB_IMPROVE, /**< tries of ccl_improve() */
    CCL_KNOBS
} ccl_knob_t;
/** Its option, as its owner declares it; NULL: no such knob, or it is `with`. */
const ccl_option_t *ccl_knob_option(ccl_knob_t knob);
/** "greedy, cegis": which synthesizers look at it, of those that only some do. Returns out. */
const char *ccl_knob_owners(ccl_knob_t knob, char *out, size_t out_len);
/** @retval CCL_ERR_INPUT  there is none of that name; the nearest is named. */
ccl_status_t ccl_knob_find(const char *name, size_t len, ccl_knob_t *out, ccl_error_t *err);
const char *ccl_knob_name(ccl_knob_t knob); /**< "tau_ref"; static; NULL: there is none */
/** "auto", "4", "2us", "hpds", "ring". */
void ccl_knob_text(ccl_knob_t knob, double value, char *out, size_t out_len);

/** `knob` applies only where knob `on` has one of these values. */
typedef struct ccl_space_condition {
    ccl_knob_t knob, on;
    uint32_t nvalues;
    double *values;
} ccl_space_condition_t;

/** Values of each knob: numbers, or indices of choices and synthesizers; NAN: auto. */
typedef struct ccl_space {
    uint32_t nvalues[CCL_KNOBS]; /**< 0: auto; of `with`: all that support what is tuned */
    double *values[CCL_KNOBS];
    size_t caps[CCL_KNOBS];
    uint32_t nconditions;
    size_t conditions_cap;
    ccl_space_condition_t *conditions;
} ccl_space_t;
/** Where the user says nothing: channels, chunks, order, allocation, granularity. */
ccl_status_t ccl_space_create(ccl_space_t **out, ccl_error_t *err);
/** A file in format ccllab/space/1 (docs/formats.md). @retval CCL_ERR_INPUT with its place. */
ccl_status_t ccl_space_read(const char *path, ccl_space_t **out, ccl_error_t *err);
/**
 * "channels=auto,1:16", "tau_ref=1us:64us:4": takes the place of the knob's values.
 * "chunks=1:8 when with=greedy,cegis": also of its conditions; without "when" these stay.
 */
ccl_status_t ccl_space_set(ccl_space_t *space, const char *text, ccl_error_t *err);
/** Frees it and all it owns; NULL is fine. */
void ccl_space_destroy(ccl_space_t *space);
/** Knobs that do not apply become auto. @param values  `with` is set. */
void ccl_space_point(const ccl_space_t *space, double values[CCL_KNOBS]);
/** Canonical JSON of all that is not auto; malloc'ed, NULL when out of memory. */
char *ccl_space_settings(const double values[CCL_KNOBS]);
/**
 * The same as options of the command line, "--with ring --channels 4 --set slots=8"; what only a
 * tuning can set is a knob, "--knob improve=100".
 */
void ccl_space_options(const double values[CCL_KNOBS], ccl_text_t *out);

CCL_END_DECLS
#endif
