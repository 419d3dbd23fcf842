/**
 * @file standalone.h
 * Programs as stand-alone sources: from a program to what its kernel is made of.
 */
#ifndef CCL_RUNTIME_STANDALONE_H
#define CCL_RUNTIME_STANDALONE_H

#include "runtime/plan_i.h"

/** Texts of this folder's headers and of gpu/ (made by embed.cmake). */
extern const char ccl_i_standalone_block[], ccl_i_standalone_shape[], ccl_i_standalone_check[];
extern const char ccl_i_standalone_kernel[], ccl_i_standalone_launch[], ccl_i_standalone_main[];
/* Of a bootstrap of our own, and beside NCCL's communicators. */
extern const char ccl_i_standalone_types_own[], ccl_i_standalone_comm_own[],
    ccl_i_standalone_test_own[];
extern const char ccl_i_standalone_types_nccl[], ccl_i_standalone_comm_nccl[],
    ccl_i_standalone_test_nccl[], ccl_i_standalone_reach[];

/** A program with all numbers that its source has. */
typedef struct ccl_i_standalone {
    const ccl_program_t *program;
    ccl_i_run_plan_t plan;
    bool in_place;
    bool whole; /* elements must be of one size: one part of a shard lies where another belongs */
    uint64_t slot_bytes;
    uint32_t slice_bytes;
    uint64_t *in_at, *out_at; /* [nconns] offsets of the two sides in their ranks' regions */
    uint64_t *region;         /* [nranks] bytes */
    uint32_t *in_signal, *out_signal; /* [nconns] numbers of the two ends in their ranks */
    uint32_t *signals;                /* [nranks] ends */
    uint32_t *mark;                   /* [nsteps] of the plan; CCL_NONE: nobody waits for it */
    uint32_t *marks;                  /* [nranks] */
    uint32_t *scratch;     /* [nranks] elements: the program's, then those of buffers that
                              the collective has not */
    uint8_t *writes_input; /* [nranks] */
} ccl_i_standalone_t;

/** Of the options' defaults 0 a value was chosen. */
ccl_status_t ccl_i_standalone_init(const ccl_program_t *program,
                                   const ccl_standalone_options_t *options, ccl_i_standalone_t *out,
                                   ccl_error_t *err);
void ccl_i_standalone_fini(ccl_i_standalone_t *s);

/** Where an element lies for its kernel: CCL_BUF_INPUT or CCL_BUF_OUTPUT with its place in shards,
    or CCL_BUF_SCRATCH. */
typedef struct ccl_i_standalone_at {
    uint32_t buffer, element;
} ccl_i_standalone_at_t;
ccl_i_standalone_at_t ccl_i_standalone_place(const ccl_i_standalone_t *s, uint32_t rank,
                                             uint32_t buffer, uint32_t element);
/** Whether parts of shards mix in one place, so that elements must be of one size. */
ccl_status_t ccl_i_standalone_mixes(const ccl_i_standalone_t *s, bool *out, ccl_error_t *err);

/** The thread blocks and the tables of a program; every name begins with `prefix`. */
void ccl_i_standalone_units(const ccl_i_standalone_t *s, const char *prefix, ccl_text_t *out);

#endif
