/**
 * @file base.h
 * Errors, memory, units, JSON and table helpers, hashing, random numbers, progress, logging,
 * threads.
 *
 * The lowest module: it includes nothing of ours. Nothing here prints, exits or keeps global state.
 */
#ifndef CCL_BASE_BASE_H
#define CCL_BASE_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include <jansson.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CCL_VERSION "0.1.0"
#define CCL_PRINTF(fmt_, args_) __attribute__((format(printf, fmt_, args_)))
#define CCL_ARRAY_LEN(a_) (sizeof(a_) / sizeof((a_)[0]))
/** Marks "no such index" in every uint32_t index of the library. */
#define CCL_NONE UINT32_MAX

/* ---------------------------------------------------------------- status and errors */

/** X(code, exit code of the command line, meaning). */
#define CCL_STATUS_MAP(X_)                                                                         \
    X_(CCL_OK, 0, "done")                                                                          \
    X_(CCL_CHECK, 1, "the answer is no (check failed)")                                            \
    X_(CCL_INFEASIBLE, 1, "no solution exists")                                                    \
    X_(CCL_DEADLOCK, 1, "the program cannot finish")                                               \
    X_(CCL_ERR_USAGE, 2, "wrong use of a command")                                                 \
    X_(CCL_ERR_INPUT, 2, "bad input")                                                              \
    X_(CCL_TIMEOUT, 3, "limit reached, best so far returned")                                      \
    X_(CCL_INTERRUPTED, 130, "interrupted")                                                        \
    X_(CCL_ERR_IO, 4, "input or output failed")                                                    \
    X_(CCL_ERR_UNSUPPORTED, 4, "not available here")                                               \
    X_(CCL_ERR_NOMEM, 4, "out of memory")                                                          \
    X_(CCL_ERR_INTERNAL, 70, "bug in ccllab")

typedef enum ccl_status {
#define CCL_STATUS_ENUM_(code_, exit_, text_) code_,
    CCL_STATUS_MAP(CCL_STATUS_ENUM_)
#undef CCL_STATUS_ENUM_
} ccl_status_t;

/** Caller-owned error. The function that first knows fills it; callers only pass the status on. */
typedef struct ccl_error {
    ccl_status_t status;
    int line;        /**< 1-based; 0 when unknown */
    int column;      /**< 1-based; 0 when unknown */
    char where[256]; /**< file name, option or object; "" when unknown */
    char text[768];  /**< one lower-case line, no full stop */
} ccl_error_t;

#define CCL_ERROR_INIT                                                                             \
    { CCL_OK, 0, 0, "", "" }
#define CCL_TRY(expr_)                                                                             \
    do {                                                                                           \
        ccl_status_t status_ = (expr_);                                                            \
        if (status_ != CCL_OK)                                                                     \
            return status_;                                                                        \
    } while (0)
/** CCL_TRY for functions with one clean-up label: sets `status` and jumps. */
#define CCL_TRY_GOTO(expr_, status_, label_)                                                       \
    do {                                                                                           \
        (status_) = (expr_);                                                                       \
        if ((status_) != CCL_OK)                                                                   \
            goto label_;                                                                           \
    } while (0)

const char *ccl_status_name(ccl_status_t status);    /**< "CCL_ERR_INPUT"; static */
const char *ccl_status_meaning(ccl_status_t status); /**< one line; static */
int ccl_status_exit_code(ccl_status_t status);       /**< 0, 1, 2, 3, 4, 70 or 130 */

/**
 * Fill an error, unless it is filled already (first writer wins).
 *
 * @param err    may be NULL.
 * @param where  file, option or object; may be NULL.
 * @param line, column  1-based or 0.
 * @return `status`, so that `return ccl_error_set(...)` works.
 */
ccl_status_t ccl_error_set(ccl_error_t *err, ccl_status_t status, const char *where, int line,
                           int column, const char *fmt, ...) CCL_PRINTF(6, 7);
/** As ccl_error_set without a position. */
ccl_status_t ccl_fail(ccl_error_t *err, ccl_status_t status, const char *fmt, ...) CCL_PRINTF(3, 4);
/** CCL_ERR_NOMEM with its text. */
ccl_status_t ccl_fail_nomem(ccl_error_t *err);
void ccl_error_clear(ccl_error_t *err);
/** Write "where:line:column: text" (parts that are known) to out; always terminated. */
void ccl_error_format(const ccl_error_t *err, char *out, size_t out_len);

/* ---------------------------------------------------------------- context: log, progress, cancel
 */

typedef enum ccl_log_level {
    CCL_LOG_ERROR,
    CCL_LOG_WARN,
    CCL_LOG_INFO,
    CCL_LOG_DEBUG
} ccl_log_level_t;
typedef void (*ccl_log_fn)(ccl_log_level_t level, const char *subsystem, const char *text,
                           void *user);
typedef struct ccl_progress {
    const char *phase;
    uint64_t done, total; /**< total 0: unknown */
    double best_s;        /**< best time so far, seconds; 0 when not known */
    double bound_s;       /**< proven lower bound, seconds; 0 when not known */
} ccl_progress_t;
/** Return non-zero to cancel. */
typedef int (*ccl_progress_fn)(const ccl_progress_t *progress, void *user);

/** Passed (may be NULL everywhere) to long or talkative functions. */
typedef struct ccl_ctx {
    ccl_log_fn log; /**< NULL: silent */
    void *log_user;
    ccl_progress_fn progress; /**< NULL: none */
    void *progress_user;
    const volatile int *cancel; /**< non-zero target: stop with CCL_INTERRUPTED; NULL: never */
    uint64_t seed;
    uint32_t threads; /**< 0: one per core */
} ccl_ctx_t;
#define CCL_CTX_INIT                                                                               \
    { NULL, NULL, NULL, NULL, NULL, 1, 0 }

void ccl_log(const ccl_ctx_t *ctx, ccl_log_level_t level, const char *subsystem, const char *fmt,
             ...) CCL_PRINTF(4, 5);
/** CCL_INTERRUPTED when ctx asks to stop, or its progress callback does; else CCL_OK. */
ccl_status_t ccl_ctx_poll(const ccl_ctx_t *ctx, const ccl_progress_t *progress);

/* ---------------------------------------------------------------- memory */

/** Chunked bump allocator; freed as a whole. Zeroed memory, 16-byte aligned. */
typedef struct ccl_arena {
    struct ccl_arena_block *head;
    size_t used_bytes;
} ccl_arena_t;
void ccl_arena_init(ccl_arena_t *arena);
void ccl_arena_fini(ccl_arena_t *arena); /**< a zeroed arena is fine */
/** NULL when out of memory or when count * size overflows. */
void *ccl_arena_alloc(ccl_arena_t *arena, size_t count, size_t size);
char *ccl_arena_strdup(ccl_arena_t *arena, const char *text);

/**
 * Make room for `need` elements in a malloc'ed array, doubling its capacity.
 * @param array  address of the pointer (void * of an element pointer). New elements are zeroed.
 * @return false when out of memory (array unchanged).
 */
bool ccl_grow(void *array, size_t *capacity, size_t need, size_t elem_size);

/** Growing text buffer. Zero-initialise; free with ccl_text_fini. Sticky out-of-memory flag. */
typedef struct ccl_text {
    char *data; /**< always terminated once something was added; NULL before */
    size_t len, cap;
    bool nomem;
} ccl_text_t;
void ccl_text_add(ccl_text_t *text, const char *data, size_t len);
void ccl_text_printf(ccl_text_t *text, const char *fmt, ...) CCL_PRINTF(2, 3);
/** Text between tags or in an attribute of XML and HTML: & < > " become entities. */
void ccl_text_add_xml(ccl_text_t *text, const char *data);
void ccl_text_fini(ccl_text_t *text);

/** String to uint32_t map, insertion order kept. Keys are copied. */
typedef struct ccl_strmap ccl_strmap_t;
ccl_strmap_t *ccl_strmap_create(void);
void ccl_strmap_destroy(ccl_strmap_t *map);
/** CCL_NONE when absent. */
uint32_t ccl_strmap_get(const ccl_strmap_t *map, const char *key);
/** Add or replace; false when out of memory. */
bool ccl_strmap_put(ccl_strmap_t *map, const char *key, uint32_t value);
size_t ccl_strmap_len(const ccl_strmap_t *map);

/** 64-bit FNV-1a, for content hashes that are not cryptographic. */
uint64_t ccl_hash64(const void *data, size_t len, uint64_t seed);

/* ---------------------------------------------------------------- whole numbers */

/** The greatest common divisor; ccl_gcd(a, 0) is a. */
static inline uint64_t ccl_gcd(uint64_t a, uint64_t b) {
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* ---------------------------------------------------------------- disjoint sets */

/**
 * The set of member i, named by its lowest member.
 * @param set  an entry a member, each its own index at first; paths are shortened as they are gone.
 */
uint32_t ccl_set_find(uint32_t *set, uint32_t i);
/** The sets of members a and b become one. */
void ccl_set_join(uint32_t *set, uint32_t a, uint32_t b);

/* ---------------------------------------------------------------- random numbers */

/** xoshiro256**; the only source of randomness. */
typedef struct ccl_rng {
    uint64_t s[4];
} ccl_rng_t;
void ccl_rng_init(ccl_rng_t *rng, uint64_t seed);
uint64_t ccl_rng_next(ccl_rng_t *rng);
uint32_t ccl_rng_below(ccl_rng_t *rng, uint32_t n); /**< [0, n), unbiased; n > 0 */
double ccl_rng_unit(ccl_rng_t *rng);                /**< [0, 1) */

/* ---------------------------------------------------------------- units */

/**
 * "64M" and "64MiB" are 64*2^20 bytes, "64MB" 64*10^6, a bare number is bytes (nccl-tests).
 * K, M, G, T; fractions allowed ("1.5G").  @retval CCL_ERR_INPUT with what would be right.
 */
ccl_status_t ccl_parse_bytes(const char *text, double *bytes_out, ccl_error_t *err);
/** "25GB/s", "200Gbit/s", "200Gbps": decimal prefixes; "50GiB/s" binary. A unit is required; > 0.
 */
ccl_status_t ccl_parse_rate_Bps(const char *text, double *Bps_out, ccl_error_t *err);
/** "2us", "0.35us", "1e-6s", ns/us/ms/s. A unit is required (but for "0"); >= 0. */
ccl_status_t ccl_parse_time_s(const char *text, double *s_out, ccl_error_t *err);
/** Shortest exact-looking text: "64M", "1.5K", "100"; 2^10 prefixes. Returns out. */
const char *ccl_format_bytes(double bytes, char *out, size_t out_len);
/** "25GB/s"; reads back to the same double. */
const char *ccl_format_rate(double Bps, char *out, size_t out_len);
/** "2us"; reads back to the same double. */
const char *ccl_format_time(double s, char *out, size_t out_len);

/* ---------------------------------------------------------------- files */

#define CCL_FILE_MAX_BYTES ((size_t)2 << 30)
/**
 * Read a whole file ("-" is stdin), at most max_bytes.
 * @param data_out  malloc'ed, terminated by a 0 byte beyond len; caller frees.
 */
ccl_status_t ccl_file_read(const char *path, size_t max_bytes, char **data_out, size_t *len_out,
                           ccl_error_t *err);
/**
 * What a file may be called in results: "dir/a.b.json" gives "a.b", "-" and "<stdin>" give "stdin".
 * @param out  of out_len bytes; what does not fit is cut.
 */
void ccl_file_title(const char *path, char *out, size_t out_len);
/** Write to a temporary beside `path`, flush, check, rename ("-" is stdout). */
ccl_status_t ccl_file_write(const char *path, const void *data, size_t len, ccl_error_t *err);

/* ---------------------------------------------------------------- JSON */

/** A parsed document that can tell the line and column of any of its values. */
typedef struct ccl_json_doc {
    json_t *root;
    char *text;
    size_t len;
    char name[256];    /**< file name for messages */
    ccl_arena_t names; /**< what ccl_json_name() spelled */
} ccl_json_doc_t;

/** Parse; duplicate keys refused; depth and size bounded. `text` is copied. */
ccl_status_t ccl_json_parse(const char *name, const char *text, size_t len, ccl_json_doc_t *out,
                            ccl_error_t *err);
ccl_status_t ccl_json_read(const char *path, ccl_json_doc_t *out, ccl_error_t *err);
void ccl_json_fini(ccl_json_doc_t *doc);

/** One value of a document together with its JSON pointer ("/links/3/bandwidth"). */
typedef struct ccl_json_at {
    const ccl_json_doc_t *doc;
    const json_t *value; /**< NULL when absent */
    char pointer[200];
} ccl_json_at_t;
ccl_json_at_t ccl_json_root(const ccl_json_doc_t *doc);
/** Member or element; .value NULL when absent. */
ccl_json_at_t ccl_json_member(const ccl_json_at_t *at, const char *key);
ccl_json_at_t ccl_json_element(const ccl_json_at_t *at, size_t index);
/** CCL_ERR_INPUT "file:line:column: /pointer: text"; always returns CCL_ERR_INPUT. */
ccl_status_t ccl_json_fail(const ccl_json_at_t *at, ccl_error_t *err, const char *fmt, ...)
    CCL_PRINTF(3, 4);
/** Refuse keys that are not in `allowed` (NULL-terminated), naming the nearest allowed one. */
ccl_status_t ccl_json_only(const ccl_json_at_t *at, const char *const *allowed, ccl_error_t *err);
/* Typed reads. `required` false: absent leaves *out as it is. */
ccl_status_t ccl_json_string(const ccl_json_at_t *at, bool required, const char **out,
                             ccl_error_t *err);
/** A name: a string, or a whole number from 0, whose digits are the name (3 is "3"). Lives as long
 * as the document, which one thread reads at a time. */
ccl_status_t ccl_json_name(const ccl_json_at_t *at, bool required, const char **out,
                           ccl_error_t *err);
ccl_status_t ccl_json_u32(const ccl_json_at_t *at, bool required, uint32_t max, uint32_t *out,
                          ccl_error_t *err);
ccl_status_t ccl_json_bool(const ccl_json_at_t *at, bool required, bool *out, ccl_error_t *err);
ccl_status_t ccl_json_number(const ccl_json_at_t *at, bool required, double *out,
                             ccl_error_t *err); /**< finite */
/** Strings with units; a bare number is refused with the units listed. */
ccl_status_t ccl_json_rate_Bps(const ccl_json_at_t *at, bool required, double *out,
                               ccl_error_t *err);
ccl_status_t ccl_json_time_s(const ccl_json_at_t *at, bool required, double *out, ccl_error_t *err);
ccl_status_t ccl_json_bytes(const ccl_json_at_t *at, bool required, double *out,
                            ccl_error_t *err); /**< a bare number is bytes */
ccl_status_t ccl_json_array(const ccl_json_at_t *at, bool required, size_t *len_out,
                            ccl_error_t *err);
ccl_status_t ccl_json_object(const ccl_json_at_t *at, bool required, ccl_error_t *err);

/** Nearest of `candidates` (NULL-terminated) by edit distance, or NULL when none is near. */
const char *ccl_nearest(const char *word, const char *const *candidates);

/* ---------------------------------------------------------------- tables */

typedef enum ccl_align { CCL_ALIGN_LEFT, CCL_ALIGN_RIGHT } ccl_align_t;
typedef struct ccl_table ccl_table_t;
ccl_table_t *ccl_table_create(void);
void ccl_table_destroy(ccl_table_t *table);
/** Units belong in the header: "time(us)". Add all columns before the first row. */
void ccl_table_column(ccl_table_t *table, const char *header, ccl_align_t align);
void ccl_table_row(ccl_table_t *table); /**< begin a row */
void ccl_table_cell(ccl_table_t *table, const char *fmt, ...) CCL_PRINTF(2, 3);
/** Aligned text; CCL_ERR_NOMEM when any earlier call ran out of memory. */
ccl_status_t ccl_table_text(const ccl_table_t *table, ccl_text_t *out);
/** RFC 4180. */
ccl_status_t ccl_table_csv(const ccl_table_t *table, ccl_text_t *out);
/** A field of a line of CSV, without its quotes. */
typedef struct ccl_csv_field {
    char text[160]; /**< ends in '\0'; longer ones are cut */
    size_t len;
} ccl_csv_field_t;
/**
 * The fields of one line: RFC 4180 without line ends in quotes.
 * @param fields  [most]; what comes behind these is left out.
 * @return how many there are; an empty line is one empty field.
 */
uint32_t ccl_csv_fields(const char *line, size_t len, ccl_csv_field_t *fields, uint32_t most);

/* ---------------------------------------------------------------- threads */

/** Work item `index`; worker in [0, threads). Errors: the lowest index that failed wins. */
typedef ccl_status_t (*ccl_job_fn)(uint32_t index, uint32_t worker, void *user, ccl_error_t *err);
/**
 * Run fn(0..n-1) on `threads` threads (0: one per core). Results must not depend on the order;
 * on failure the error of the lowest failing index is returned, whatever the thread count.
 */
ccl_status_t ccl_parallel_for(uint32_t n, uint32_t threads, ccl_job_fn fn, void *user,
                              ccl_error_t *err);
/** For what workers of a loop share. */
typedef struct ccl_lock ccl_lock_t;
ccl_lock_t *ccl_lock_create(void); /**< NULL: out of memory */
void ccl_lock_destroy(ccl_lock_t *lock);
void ccl_lock_take(ccl_lock_t *lock); /**< waits until nobody has it */
void ccl_lock_release(ccl_lock_t *lock);
/**
 * fork(2), also beside workers of loops, and from one: the child may allocate. In builds with the
 * address sanitizer, whose locks do not survive a fork, it waits until they are between two jobs.
 */
pid_t ccl_fork(void);
/** In a job that waits for long: others may fork now. */
void ccl_fork_point(void);
uint32_t ccl_core_count(void);
/** Monotonic seconds, for measuring our own work. */
double ccl_now_s(void);

#ifdef __cplusplus
}
#endif
#endif
