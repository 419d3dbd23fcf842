/**
 * @file notebook.h
 * The lab notebook: what was tried, kept in a file.
 */
#ifndef CCL_SEARCH_NOTEBOOK_H
#define CCL_SEARCH_NOTEBOOK_H

#include "schedule/origin.h"

CCL_BEGIN_DECLS

/**
 * The lab notebook, what was tried, in one SQLite file or on a PostgreSQL server: every evaluated
 * point, with its inputs by content. Several processes may write at once; what ccl_notebook_add()
 * returned from is there after a kill. Work is queued in it as well (lab.h).
 */
typedef struct ccl_notebook ccl_notebook_t;

/**
 * What writes points: version of ccllab and 12 digits of a hash of the sources that results depend
 * on
 * ("0.1.0+1a2b3c4d5e6f"); static. Builds of the same sources have the same; points of another are
 * kept, listed, and never taken for this one's.
 */
const char *ccl_notebook_tool(void);

/** Content hash as 32 hexadecimal digits (two times FNV-1a; not cryptographic). */
typedef char ccl_content_t[33];

/** What was asked: two points with the same are one point. */
typedef struct ccl_point {
    ccl_content_t topology; /**< of the cluster as resolved: edits and profile included */
    ccl_content_t demand;   /**< of the collective */
    const char *settings;   /**< canonical JSON: sorted keys, no blanks */
    uint64_t seed;
    double size_bytes;
    bool estimate; /**< time of one micro-batch, carried on; not a run of all of them */
} ccl_point_t;

/** What came out. */
typedef struct ccl_point_result {
    ccl_status_t status; /**< CCL_OK, or why there is no time */
    char why[256];       /**< then one line */
    ccl_origin_t origin; /**< of the program; "": not known (points that older versions wrote) */
    double time_s, algbw_GBps, busbw_GBps;
    double bound_s;         /**< ccl_bound(): no time is less */
    double synth_s, eval_s; /**< wall time: its schedule; lowering, proof and simulation */
    uint32_t thread_blocks; /**< most per GPU */
    uint32_t batches;
    /** As ccl_sim_usage_t; NAN: not known (estimates, points that older versions wrote). */
    double comm_share, mean_idle_share, max_idle_share, link_utilization;
} ccl_point_result_t;

/** Rows of a query as text. */
typedef struct ccl_notebook_rows {
    uint32_t ncolumns, nrows;
    size_t ncells, cells_cap, number_cap;
    const char **columns; /**< [ncolumns] */
    const char **cells;   /**< [nrows][ncolumns]; NULL: no value */
    bool *number;         /**< [nrows][ncolumns] */
    ccl_arena_t arena;
} ccl_notebook_rows_t;

/**
 * The notebook of a user who names none: $XDG_DATA_HOME/ccllab/notebook.db, or
 * ~/.local/share/ccllab/notebook.db.
 * @retval CCL_ERR_USAGE  neither XDG_DATA_HOME nor HOME is an absolute path.
 */
ccl_status_t ccl_notebook_default_path(char *out, size_t out_len, ccl_error_t *err);
/** Is it a URL of a PostgreSQL server (postgresql://, postgres://), not the path of a file? */
bool ccl_notebook_is_url(const char *path);
/** Can notebooks on servers be opened: built with libpq, which is on this machine? Any thread. */
bool ccl_notebook_servers(void);
/**
 * Open a notebook; to write, file and folders, or tables, are made when absent, and what an earlier
 * version lacks is added.
 * @param path  of a file, or postgresql://[USER[:PASSWORD]@][HOST][:PORT]/DATABASE[?OPTIONS], as
 *              libpq reads it, which also knows PGHOST and its like. A server that is gone later on
 *              is waited for, 30 s.
 * @retval CCL_ERR_INPUT    the file or database is something else, or of a later version.
 * @retval CCL_ERR_IO       absent (to read), not to be written, or no server answers.
 * @retval CCL_ERR_MISSING  a URL, but ccllab was built without libpq.
 */
ccl_status_t ccl_notebook_open(const char *path, bool write, ccl_notebook_t **out,
                               ccl_error_t *err);
/** Frees it and all it owns; NULL is fine. */
void ccl_notebook_close(ccl_notebook_t *notebook);
/**
 * Keep an input (a cluster, a demand, a profile) and return its hash.
 * @param notebook  NULL: only the hash.
 * @param kind      "topology", "demand", "profile".
 */
ccl_status_t ccl_notebook_input(ccl_notebook_t *notebook, const char *kind, const char *name,
                                const char *text, size_t len, ccl_content_t out, ccl_error_t *err);
/**
 * Write a point down; one that is there already, of this ccl_notebook_tool(), stays. Any thread.
 * @param profile  name of the profile that was laid over the cluster; NULL: none.
 */
ccl_status_t ccl_notebook_add(ccl_notebook_t *notebook, const ccl_point_t *point,
                              const ccl_point_result_t *result, const char *profile,
                              ccl_error_t *err);
/** The same point, of this ccl_notebook_tool(). @param found_out  there is one. Any thread. */
ccl_status_t ccl_notebook_find(ccl_notebook_t *notebook, const ccl_point_t *point,
                               ccl_point_result_t *out, bool *found_out, ccl_error_t *err);
/**
 * Rows of a query; table and column names: docs/formats.md.
 * @param sql   one statement that only reads.
 * @param args  [nargs] texts for its parameters ?1 ...; NULL: none.
 * @retval CCL_ERR_INPUT  the database's reason, or the statement writes.
 */
ccl_status_t ccl_notebook_query(const ccl_ctx_t *ctx, ccl_notebook_t *notebook, const char *sql,
                                const char *const *args, uint32_t nargs, ccl_notebook_rows_t **out,
                                ccl_error_t *err);
/** Frees it and all it owns; NULL is fine. */
void ccl_notebook_rows_destroy(ccl_notebook_rows_t *rows);
/**
 * Inputs and points of all ccl_notebook_tool()s go from one notebook to another, but for those that
 * it has.
 * @param points_out  that were new there.
 */
ccl_status_t ccl_notebook_copy(const ccl_ctx_t *ctx, ccl_notebook_t *from, ccl_notebook_t *to,
                               uint64_t *points_out, uint64_t *inputs_out, ccl_error_t *err);
/**
 * Drop points of other ccl_notebook_tool()s (all: every point), then inputs that no point has, and
 * give the space back.
 */
ccl_status_t ccl_notebook_gc(ccl_notebook_t *notebook, bool all, uint64_t *points_out,
                             uint64_t *inputs_out, ccl_error_t *err);

CCL_END_DECLS
#endif
