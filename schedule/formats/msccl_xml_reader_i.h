/*
 * The reader of MSCCL XML while expat runs; private to msccl_xml_read.c and msccl_xml_head.c.
 */
#ifndef CCL_SCHEDULE_MSCCL_XML_READER_I_H
#define CCL_SCHEDULE_MSCCL_XML_READER_I_H

#include <expat.h>

#include "schedule/formats/demand_i.h"
#include "schedule/formats/msccl_xml_i.h"
#include "schedule/groups_i.h"

typedef struct ccl_i_msccl_reader {
    XML_Parser parser;
    const char *file;
    ccl_error_t *err;
    ccl_status_t status;
    int where; /* which element is open */
    bool seen_algo;
    int algo_line, algo_column;

    char *name;
    ccl_origin_t origin;
    char proto[8];
    ccl_collective_kind_t kind;
    uint32_t ngpus, nchunks, nchannels, root;
    bool in_place, out_of_place;
    double min_bytes, max_bytes;
    uint32_t missing_attributes;
    double piece_bytes;

    uint32_t gpus_seen, rank, gpu_first_tb;
    uint8_t *gpu_seen;    /* [ngpus] */
    uint32_t *buffer_len; /* [3 ngpus] */
    double **shares;      /* [3 ngpus], NULL where not given */
    ccl_i_demand_t demand;
    char *demand_name; /* NULL: no demand element yet */
    int demand_line, demand_column;
    ccl_i_groups_t groups;
    uint64_t group_ranks; /* of all groups together */
    ccl_tb_t *tbs;
    size_t ntbs, tbs_cap;
    ccl_step_t *steps;
    ccl_step_mark_t *marks; /* [nsteps] */
    size_t nsteps, steps_cap, marks_cap;
    ccl_peers_t *peers; /* [nsteps] once a step gives its own; else NULL */
    size_t peers_cap;
} ccl_i_msccl_reader_t;

/** The first failure counts; expat stops. */
void ccl_i_msccl_stop(ccl_i_msccl_reader_t *r, ccl_status_t status);
void ccl_i_msccl_stop_nomem(ccl_i_msccl_reader_t *r);
/** Where the parser is, from 1; 0: beyond what an int holds. */
int ccl_i_msccl_line(const ccl_i_msccl_reader_t *r);
int ccl_i_msccl_column(const ccl_i_msccl_reader_t *r);

/** The input is refused at the place where the parser is. */
#define CCL_I_MSCCL_BAD(r_, ...)                                                                   \
    ccl_i_msccl_stop((r_),                                                                         \
                     ccl_error_set((r_)->err, CCL_ERR_INPUT, (r_)->file, ccl_i_msccl_line(r_),     \
                                   ccl_i_msccl_column(r_), __VA_ARGS__))

/** Values of `names` by their order, whatever the order of `atts`; the first `required` must be
 * there. */
bool ccl_i_msccl_pick(ccl_i_msccl_reader_t *r, const char *element, const XML_Char **atts,
                      const char *const *names, unsigned n, unsigned required, const char **values);
/** An attribute's integer within its range, and one that is 0 or 1. False: the reader was stopped.
 */
bool ccl_i_msccl_number(ccl_i_msccl_reader_t *r, const char *element, const char *name,
                        const char *text, int64_t min, int64_t max, int64_t *out);
bool ccl_i_msccl_flag(ccl_i_msccl_reader_t *r, const char *element, const char *name,
                      const char *text, bool *out);

/** Elements before the thread blocks. */
void ccl_i_msccl_open_algo(ccl_i_msccl_reader_t *r, const XML_Char **atts);
void ccl_i_msccl_open_gpu(ccl_i_msccl_reader_t *r, const XML_Char **atts);
void ccl_i_msccl_open_demand(ccl_i_msccl_reader_t *r, const XML_Char **atts);
void ccl_i_msccl_open_chunk(ccl_i_msccl_reader_t *r, const XML_Char **atts);
void ccl_i_msccl_open_group(ccl_i_msccl_reader_t *r, const XML_Char **atts);

#endif
