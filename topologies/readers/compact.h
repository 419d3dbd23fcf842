/*
 * The reader of the compact cluster form; private to compact*.c.
 */
#ifndef CCL_TOPOLOGIES_COMPACT_H
#define CCL_TOPOLOGIES_COMPACT_H

#include "base/json.h"
#include "topologies/cluster.h"

/* A constant with a name ("net", "A100") that some file of the cluster gives. */
typedef struct ccl_i_compact_constant {
    const char *name;
    const char *owner; /* server type; NULL: the cluster itself, which overrides */
    ccl_json_at_t at;
} ccl_i_compact_constant_t;

typedef struct ccl_i_compact_constants {
    ccl_strmap_t *index;
    ccl_i_compact_constant_t *items;
    size_t n, cap;
} ccl_i_compact_constants_t;

typedef struct ccl_i_compact_reader {
    const ccl_ctx_t *ctx;
    ccl_error_t *err;
    ccl_arena_t arena;
    ccl_json_doc_t **docs; /* library files read so far; values are borrowed from them */
    size_t ndocs, cdocs;
    ccl_i_server_type_t *types;
    size_t ntypes, ctypes;
    ccl_strmap_t *type_index;
    uint32_t *servers;
    size_t nservers, cservers;
    ccl_i_compact_constants_t transports, models;
    ccl_i_cluster_spec_t cluster;
} ccl_i_compact_reader_t;

/** A fault found by the builder, at the place in the file. */
ccl_status_t ccl_i_compact_wrap(ccl_i_compact_reader_t *r, const ccl_json_at_t *at,
                                ccl_status_t status, const ccl_error_t *inner);
/** Name, source and note; other remarks are checked to be text. */
ccl_status_t ccl_i_compact_about(ccl_i_compact_reader_t *r, const ccl_json_at_t *at,
                                 const char **name, const char **source, const char **note);
/** What a switch can do, of the object's keys; NULL: nothing is said. */
ccl_status_t ccl_i_compact_able(ccl_i_compact_reader_t *r, const ccl_json_at_t *at,
                                const ccl_device_t **out);
/** Remember every member of "transports" or "gpu_models"; `blame` is where a clash is reported. */
ccl_status_t ccl_i_compact_constants(ccl_i_compact_reader_t *r, const ccl_json_at_t *at,
                                     const char *owner, const ccl_json_at_t *blame);
/** Read a server object and append it to r->types; its constants are blamed on `blame`. */
ccl_status_t ccl_i_compact_server(ccl_i_compact_reader_t *r, const ccl_json_at_t *at,
                                  const char *fallback_name, const ccl_json_at_t *blame,
                                  const char **source, const char **note);

#endif
