/*
 * Private to the schedule module: limits, and what its readers and writers share.
 */
#ifndef CCL_SCHEDULE_SCHEDULE_I_H
#define CCL_SCHEDULE_SCHEDULE_I_H

#include "schedule/schedule.h"

/* Bounds on any input, so that a small file cannot ask for much memory. */
#define CCL_I_MAX_RANKS 65536u         /* of a collective */
#define CCL_I_MAX_CHUNKS (1u << 24)    /* of a collective */
#define CCL_I_MAX_MEMBERS (1u << 26)   /* sources and destinations of a demand, summed */
#define CCL_I_MAX_TRANSFERS (1u << 24) /* of a schedule; steps of a program */
#define CCL_I_MAX_STEP_NUMBER (1u << 24)
#define CCL_I_MAX_CHANNELS 65536u

/** A custom collective from a demand: share fields hold bytes, from which natural_bytes and shares
 * follow. */
ccl_status_t ccl_i_collective_from_bytes(const char *name, uint32_t nranks, ccl_chunk_t *chunks,
                                         uint32_t nchunks, ccl_collective_t **out,
                                         ccl_error_t *err);
/** Chunks that `rank` puts in (output false) or gets out of a custom collective, ascending. */
const uint32_t *ccl_i_collective_custom_list(const ccl_collective_t *coll, uint32_t rank,
                                             bool output, uint32_t *len_out);

/** The first key of a JSON object, as it stands there; len 0: none. */
const char *ccl_i_json_first_key(const char *text, size_t len, size_t *len_out);
/** "7-Flows" is TE-CCL's "Flows". */
const char *ccl_i_teccl_key(const char *key);

/** A file's steps are kept as they stand, has_dep too. @param marks  of all, in the order in which
    they are added; there until the end. */
void ccl_i_program_builder_keep_file_steps(ccl_program_builder_t *b, const ccl_step_mark_t *marks);
/** The program has at least `nchannels` channels. */
void ccl_i_program_builder_channels(ccl_program_builder_t *b, uint32_t nchannels);
/** Shares of the elements of a custom collective's input or output buffer into shares[len]. */
void ccl_i_collective_shares(const ccl_collective_t *coll, uint32_t rank, ccl_buffer_t buffer,
                             double *shares, uint32_t len);

/** `text` as a JSON string with its quotes; bytes that are not UTF-8 become '?'. */
void ccl_i_json_text(const char *text, ccl_text_t *out);
/** An unsigned integer in decimal; a fast ccl_text_printf. */
void ccl_i_text_u64(ccl_text_t *out, uint64_t value);
/** `text` as an XML attribute value with its quotes; what XML cannot hold becomes '?'. */
void ccl_i_xml_text(const char *text, ccl_text_t *out);

/* Shares of demands are rounded down to multiples of 1/PARTS of a message. */
#define CCL_I_BOUND_PARTS ((uint64_t)1 << 20)

/** Shares that must enter, and leave, each part of ccl_cut_levels_init()'s levels; malloc'ed, also
    on failure. */
ccl_status_t ccl_i_bound_borders(const ccl_topology_t *topo, const ccl_collective_t *coll,
                                 double **entering, double **leaving, ccl_error_t *err);
/** Tighten by cuts around the parts of ccl_cut_levels_init(); any demand. */
ccl_status_t ccl_i_bound_levels(const ccl_topology_t *topo, const ccl_collective_t *coll,
                                ccl_bandwidth_bound_t *best, ccl_error_t *err);
/** Tighten by flows between servers as nodes; every chunk goes from one rank to one other. */
ccl_status_t ccl_i_bound_servers(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                                 const ccl_collective_t *coll, ccl_bandwidth_bound_t *best,
                                 ccl_error_t *err);

#endif
