/**
 * @file base.h
 * Errors, memory, units, JSON, tables, hashes, random numbers, progress, logs, threads, children.
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
#include <sys/uio.h>

/** Around the declarations of a public header: C linkage in C++, exported by the shared library. */
#ifdef __cplusplus
#define CCL_BEGIN_DECLS                                                                            \
    extern "C" {                                                                                   \
    _Pragma("GCC visibility push(default)")
#define CCL_END_DECLS                                                                              \
    _Pragma("GCC visibility pop")                                                                  \
    }
#else
#define CCL_BEGIN_DECLS _Pragma("GCC visibility push(default)")
#define CCL_END_DECLS _Pragma("GCC visibility pop")
#endif

CCL_BEGIN_DECLS

#define CCL_VERSION "0.2.0" /* CMakeLists.txt reads it here */
#define CCL_PRINTF(fmt_, args_) __attribute__((format(printf, fmt_, args_)))
#define CCL_ARRAY_LEN(a_) (sizeof(a_) / sizeof((a_)[0]))
/** Marks "no such index" in every uint32_t index of the library. */
#define CCL_NONE UINT32_MAX

/* ---------------------------------------------------------------- status and errors */

/**
 * Exit codes of the program: X(name, code, as it is written, meaning). The one table that --help,
 * the manual pages and docs/exit-codes.md are held to.
 */
#define CCL_EXIT_MAP(X_)                                                                           \
    X_(CCL_EXIT_DONE, 0, "0", "done")                                                              \
    X_(CCL_EXIT_NO, 1, "1", "the answer is no: wrong, a deadlock, no solution, or not this way")   \
    X_(CCL_EXIT_USE, 2, "2", "wrong use, or bad input")                                            \
    X_(CCL_EXIT_LIMIT, 3, "3", "limit reached; what was found by then was written")                \
    X_(CCL_EXIT_MACHINE, 4, "4", "a file, device, module or process failed, or no memory is left") \
    X_(CCL_EXIT_BUG, 70, "70", "a bug in ccllab; please report it with the line that it printed")  \
    X_(CCL_EXIT_SIGNAL, 128, "128+n", "ended by signal n: 130 by Ctrl-C, 143 by SIGTERM")

enum {
#define CCL_EXIT_ENUM_(name_, code_, written_, meaning_) name_ = (code_),
    CCL_EXIT_MAP(CCL_EXIT_ENUM_)
#undef CCL_EXIT_ENUM_
};

/** X(status, exit code of the program, meaning). Those named CCL_ERR_ are errors, not answers. */
#define CCL_STATUS_MAP(X_)                                                                         \
    X_(CCL_OK, CCL_EXIT_DONE, "done")                                                              \
    X_(CCL_CHECK, CCL_EXIT_NO, "it is wrong")                                                      \
    X_(CCL_INFEASIBLE, CCL_EXIT_NO, "there is no solution")                                        \
    X_(CCL_DEADLOCK, CCL_EXIT_NO, "the program cannot finish")                                     \
    X_(CCL_UNSUPPORTED, CCL_EXIT_NO, "this method or format cannot do it here")                    \
    X_(CCL_ERR_USAGE, CCL_EXIT_USE, "wrong use of a command")                                      \
    X_(CCL_ERR_INPUT, CCL_EXIT_USE, "bad input")                                                   \
    X_(CCL_TIMEOUT, CCL_EXIT_LIMIT, "limit reached; what was found is returned")                   \
    X_(CCL_ERR_IO, CCL_EXIT_MACHINE, "a file, a device or a process failed")                       \
    X_(CCL_ERR_MISSING, CCL_EXIT_MACHINE, "a device, module, library or right is not here")        \
    X_(CCL_ERR_NOMEM, CCL_EXIT_MACHINE, "out of memory")                                           \
    X_(CCL_ERR_INTERNAL, CCL_EXIT_BUG, "a bug in ccllab")                                          \
    X_(CCL_INTERRUPTED, CCL_EXIT_SIGNAL + 2, "interrupted")

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

/** The defaults. */
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
int ccl_status_exit_code(ccl_status_t status);       /**< 0, 1, 2, 3, 4, 70 or 130 (128 + SIGINT) */

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

/** What was done for a caller, who zeroes it and reads it at the end; any thread may add. */
typedef struct ccl_work {
    uint64_t runs;    /**< simulations of programs, those given up included */
    uint64_t events;  /**< of their engines */
    uint64_t visited; /**< steps that proofs of programs looked at to see what comes before what */
} ccl_work_t;

/** Passed (may be NULL everywhere) to long or talkative functions. */
typedef struct ccl_ctx {
    ccl_log_fn log; /**< NULL: silent */
    void *log_user;
    ccl_progress_fn progress; /**< NULL: none */
    void *progress_user;
    const volatile int *cancel; /**< non-zero target: stop with CCL_INTERRUPTED; NULL: never */
    uint64_t seed;
    uint32_t threads;              /**< 0: one per core */
    ccl_work_t *work;              /**< NULL: not counted */
    struct ccl_runs *runs;         /**< borrowed: what simulations know (sim.h); NULL: nothing */
    const struct ccl_judge *judge; /**< borrowed: times candidates (sim.h); NULL: one run does */
} ccl_ctx_t;
/** The defaults. */
#define CCL_CTX_INIT                                                                               \
    { NULL, NULL, NULL, NULL, NULL, 1, 0, NULL, NULL, NULL }

void ccl_log(const ccl_ctx_t *ctx, ccl_log_level_t level, const char *subsystem, const char *fmt,
             ...) CCL_PRINTF(4, 5);
/** Counts one simulation and its events, where ctx counts. */
void ccl_ctx_count(const ccl_ctx_t *ctx, uint64_t events);
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
/** Asks for large pages where an array has millions of elements. Only speed depends on it. */
void ccl_memory_large(void *memory, size_t bytes);
/** malloc(), and ccl_memory_large(); NULL when out of memory or when count * size overflows. */
void *ccl_array_alloc(size_t count, size_t size);
/** Room for `need` elements in a malloc'ed array, by doubling; @param array address of its pointer.
 * New elements are zeroed (raw: not; only what is used takes memory). @return false: no memory. */
bool ccl_grow(void *array, size_t *capacity, size_t need, size_t elem_size);
bool ccl_grow_raw(void *array, size_t *capacity, size_t need, size_t elem_size);

/** Growing text buffer. Zero-initialise; free with ccl_text_fini. Sticky out-of-memory flag. */
typedef struct ccl_text {
    char *data; /**< always terminated once something was added; NULL before */
    size_t len, cap;
    bool nomem;
    size_t columns; /**< what is laid out in it keeps to this width; 0: no limit */
} ccl_text_t;
void ccl_text_add(ccl_text_t *text, const char *data, size_t len);
void ccl_text_printf(ccl_text_t *text, const char *fmt, ...) CCL_PRINTF(2, 3);
/** Text between tags or in an attribute of XML and HTML: & < > " become entities. */
void ccl_text_add_xml(ccl_text_t *text, const char *data);
/**
 * Append text with its lines broken at blanks before out->columns, where that is not 0. Later lines
 * are indented like the first, or to where what stands behind its name begins ("  name  what").
 * Words, and what stands in '...' behind a blank, stay whole.
 */
void ccl_text_add_wrapped(ccl_text_t *out, const char *text);
/** Frees what it owns; the struct itself is the caller's. */
void ccl_text_fini(ccl_text_t *text);

/** String to uint32_t map, insertion order kept. Keys are copied. */
typedef struct ccl_strmap ccl_strmap_t;
ccl_strmap_t *ccl_strmap_create(void);
/** Frees it and all it owns; NULL is fine. */
void ccl_strmap_destroy(ccl_strmap_t *map);
/** CCL_NONE when absent. */
uint32_t ccl_strmap_get(const ccl_strmap_t *map, const char *key);
/** Add or replace; false when out of memory. */
bool ccl_strmap_put(ccl_strmap_t *map, const char *key, uint32_t value);
size_t ccl_strmap_len(const ccl_strmap_t *map);

/** 64-bit FNV-1a, for content hashes that are not cryptographic. */
uint64_t ccl_hash64(const void *data, size_t len, uint64_t seed);
/** A bijection of 64-bit numbers whose every output bit depends on every input bit; for hashes of
    numbers. @par Source  Steele, Lea, Flood, OOPSLA 2014 (splitmix64). */
static inline uint64_t ccl_mix64(uint64_t x) {
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* ---------------------------------------------------------------- heaps */

/**
 * Functions of a binary heap of ITEM_ in an array, the first item first. BEFORE_(x, a, b) compares
 * two items, PUT_(x, heap, at, item) stores one (and notes its place, where that is wanted); x is a
 * CONTEXT_ that is passed through. Of equal items the order is that of the array, so that equal
 * calls give equal results. The caller owns the array and counts its items:
 *
 * - NAME_push(x, heap, len, item)  there are len items, then len + 1
 * - NAME_pop(x, heap, len)         there are len > 0 items, then len - 1; returns the first
 * - NAME_fix(x, heap, len, at)     the item at `at` has changed
 */
#define CCL_HEAP(NAME_, ITEM_, CONTEXT_, BEFORE_, PUT_)                                            \
    __attribute__((unused)) static inline size_t NAME_##_rise(CONTEXT_ x, ITEM_ *heap, size_t at,  \
                                                              ITEM_ item) {                        \
        while (at > 0 && BEFORE_(x, item, heap[(at - 1) / 2])) {                                   \
            PUT_(x, heap, at, heap[(at - 1) / 2]);                                                 \
            at = (at - 1) / 2;                                                                     \
        }                                                                                          \
        return at;                                                                                 \
    }                                                                                              \
    __attribute__((unused)) static inline void NAME_##_sink(CONTEXT_ x, ITEM_ *heap, size_t len,   \
                                                            size_t at, ITEM_ item) {               \
        for (size_t kid; (kid = 2 * at + 1) < len; at = kid) {                                     \
            if (kid + 1 < len && BEFORE_(x, heap[kid + 1], heap[kid]))                             \
                kid++;                                                                             \
            if (!BEFORE_(x, heap[kid], item))                                                      \
                break;                                                                             \
            PUT_(x, heap, at, heap[kid]);                                                          \
        }                                                                                          \
        PUT_(x, heap, at, item);                                                                   \
    }                                                                                              \
    __attribute__((unused)) static inline void NAME_##_push(CONTEXT_ x, ITEM_ *heap, size_t len,   \
                                                            ITEM_ item) {                          \
        size_t at = NAME_##_rise(x, heap, len, item);                                              \
        PUT_(x, heap, at, item);                                                                   \
    }                                                                                              \
    __attribute__((unused)) static inline ITEM_ NAME_##_pop(CONTEXT_ x, ITEM_ *heap, size_t len) { \
        ITEM_ first = heap[0];                                                                     \
        if (len > 1)                                                                               \
            NAME_##_sink(x, heap, len - 1, 0, heap[len - 1]);                                      \
        return first;                                                                              \
    }                                                                                              \
    __attribute__((unused)) static inline void NAME_##_fix(CONTEXT_ x, ITEM_ *heap, size_t len,    \
                                                           size_t at) {                            \
        ITEM_ item = heap[at];                                                                     \
        NAME_##_sink(x, heap, len, NAME_##_rise(x, heap, at, item), item);                         \
    }
/** PUT_ of a heap that notes no places. */
#define CCL_HEAP_PUT(x_, heap_, at_, item_) ((void)(x_), (void)((heap_)[at_] = (item_)))

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
/** "2us", "0.35us", "1e-6s", "5min"; ns/us/ms/s/min/h. A unit is required (but for "0"); >= 0. */
ccl_status_t ccl_parse_time_s(const char *text, double *s_out, ccl_error_t *err);
/** Shortest exact-looking text: "64M", "1.5K", "100"; 2^10 prefixes. Returns out. */
const char *ccl_format_bytes(double bytes, char *out, size_t out_len);
/** "25GB/s"; reads back to the same double. */
const char *ccl_format_rate(double Bps, char *out, size_t out_len);
/** "2us"; reads back to the same double. */
const char *ccl_format_time(double s, char *out, size_t out_len);

/* ---------------------------------------------------------------- options */

/**
 * Whether a struct of options is one of this library. Every such struct begins with `size_t size`,
 * which its CCL_..._INIT sets; a struct of another size was not initialised, or was compiled with
 * headers of another version. Members are added only where SOVERSION changes, so both a smaller
 * and a larger one are refused: a tail that one side does not know may hold a setting that counts.
 *
 * @param type     "ccl_sim_options_t"
 * @param options  NULL: the defaults are meant, which is fine.
 * @param known    sizeof the struct in this library.
 * @retval CCL_ERR_INPUT  it has another size.
 */
ccl_status_t ccl_options_check(const char *type, const void *options, size_t known,
                               ccl_error_t *err);
/** ccl_options_check() at the top of a function that takes such a struct. */
#define CCL_OPTIONS_TRY(type_, options_, err_)                                                     \
    CCL_TRY(ccl_options_check(#type_, 1 ? (options_) : (const type_ *)NULL, sizeof(type_), err_))

/** How an option is written, and what its member of the owner's options is. */
typedef enum ccl_option_type {
    CCL_OPTION_FLAG,    /**< bool; takes no value */
    CCL_OPTION_EITHER,  /**< bool; one of two words, the second is true */
    CCL_OPTION_CHOICE,  /**< an enum (32 bits): index into its words */
    CCL_OPTION_WORD,    /**< const char *: one of its words, in any case */
    CCL_OPTION_COUNT,   /**< uint32_t */
    CCL_OPTION_TIME,    /**< double, seconds; written with a unit */
    CCL_OPTION_BYTES,   /**< double */
    CCL_OPTION_NUMBER,  /**< double */
    CCL_OPTION_PERCENT, /**< double; 0.2 is written 20 */
    CCL_OPTION_TEXT,    /**< const char *, borrowed; not empty */
    CCL_OPTION_INPUT,   /**< const ccl_json_doc_t *: a file that the command line reads */
    CCL_OPTION_OUTPUT,  /**< ccl_text_t *: a file that the command line writes afterwards */
    CCL_OPTION_SCHEDULE /**< const ccl_schedule_t *: a file that the command line reads */
} ccl_option_type_t;

enum {
    CCL_OPTION_KNOB_ONLY = 1, /**< for the tuner; the command line does not take it */
    CCL_OPTION_NEUTRAL = 2    /**< does not change the result: a notebook need not know it */
};

/**
 * One option of a synthesizer, of lowering or of a run, as its owner declares it. Command line,
 * help, manual pages, completion, the tuner's space, the notebook's settings and the tables of
 * docs/ are made from it. A table ends with a row without a name.
 */
typedef struct ccl_option {
    const char *name; /**< on the command line, without dashes: "tau-ref" */
    char letter;      /**< 0: none */
    ccl_option_type_t type;
    size_t offset;            /**< of the member in the owner's options */
    const char *value;        /**< what help calls its value: "TIME"; NULL for flags */
    const char *const *words; /**< of words; ends with NULL */
    double min, max;          /**< of numbers, as stored; max 0: what the type holds */
    double automatic;         /**< as stored: without it, the owner chooses; of words an index */
    const char *doc;          /**< what it does */
    const char *otherwise;    /**< what holds without it; NULL: nothing to say */
    const char *excludes;     /**< the option that it does not go with; NULL: none */
    const char *alias;        /**< an older name, taken but shown nowhere; NULL: none */
    /** Of texts: whether this may be its value; NULL: any. */
    ccl_status_t (*check)(const char *text, ccl_error_t *err);
    const char *knob;              /**< "tau_ref" in spaces and settings; NULL: is not tuned */
    double knob_max;               /**< of numbers: the most that the tuner takes; 0: max */
    const char *const *knob_words; /**< where the tuner's differ; NULL: words */
    const char *knob_doc;          /**< then what they mean; NULL: doc */
    unsigned flags;
} ccl_option_t;

/** CCL_OPTION_WORDS("a", "b") is a list of words. */
#define CCL_OPTION_WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

/** The option of a table with that name, of `len` bytes; NULL: none. */
const ccl_option_t *ccl_option_find(const ccl_option_t *table, const char *name, size_t len);
/** Index of a word of `len` bytes; CCL_NONE: it is none of them. @param words  ends with NULL. */
uint32_t ccl_option_word(const char *const *words, const char *text, size_t len);
/** "a, b or c" by their separators: words one after the other, but for the first `skip`. */
const char *ccl_option_join(const char *const *words, uint32_t skip, const char *between, char *out,
                            size_t out_len);
/**
 * Set the member by what stands on a command line.
 * @param text     of flags NULL. Texts are borrowed.
 * @param options  the owner's. Inputs and outputs, which are files, are the caller's.
 * @retval CCL_ERR_USAGE  "option --NAME wants ..., not ...".
 */
ccl_status_t ccl_option_parse(const ccl_option_t *option, const char *text, void *options,
                              ccl_error_t *err);
/** The member is not what it is without the option. */
bool ccl_option_is_set(const ccl_option_t *option, const void *options);
/**
 * The member as the tuner has it: a number, or the index of a word; NAN: automatic.
 * @return false: the tuner has no such value.
 */
bool ccl_option_get(const ccl_option_t *option, const void *options, double *out);
/** Set the member to a value as the tuner has it; NAN leaves it as it is. */
void ccl_option_put(const ccl_option_t *option, double value, void *options);
/** The words that the tuner has for it; NULL: it has numbers. */
const char *const *ccl_option_knob_words(const ccl_option_t *option);

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

/** A parsed document that knows the line and column of any of its values. Its members are private.
 */
typedef struct ccl_json_doc {
    void *root;
    char *text;
    size_t len;
    char name[256];    /**< file name for messages */
    ccl_arena_t names; /**< what ccl_json_name() spelled */
} ccl_json_doc_t;

/** Parse; duplicate keys refused; depth and size bounded. `text` is copied. */
ccl_status_t ccl_json_parse(const char *name, const char *text, size_t len, ccl_json_doc_t *out,
                            ccl_error_t *err);
ccl_status_t ccl_json_read(const char *path, ccl_json_doc_t *out, ccl_error_t *err);
/** Frees what it owns; the struct itself is the caller's. */
void ccl_json_fini(ccl_json_doc_t *doc);

/** Nearest of `candidates` (NULL-terminated) by edit distance, or NULL when none is near. */
const char *ccl_nearest(const char *word, const char *const *candidates);

/* ---------------------------------------------------------------- tables */

typedef enum ccl_align { CCL_ALIGN_LEFT, CCL_ALIGN_RIGHT } ccl_align_t;
typedef struct ccl_table ccl_table_t;
ccl_table_t *ccl_table_create(void);
/** Frees it and all it owns; NULL is fine. */
void ccl_table_destroy(ccl_table_t *table);
/** Units belong in the header: "time(us)". Add all columns before the first row. */
void ccl_table_column(ccl_table_t *table, const char *header, ccl_align_t align);
void ccl_table_row(ccl_table_t *table); /**< begin a row */
void ccl_table_cell(ccl_table_t *table, const char *fmt, ...) CCL_PRINTF(2, 3);
/**
 * Aligned text. Where it is wider than out->columns, first headers take several lines, then text in
 * columns that are aligned left, both without a break inside a word; then columns that have no room
 * follow as further tables, each with the first columns, by which rows differ.
 * @retval CCL_ERR_NOMEM  any earlier call ran out of memory.
 */
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
ccl_lock_t *ccl_lock_create(void);       /**< NULL: out of memory */
void ccl_lock_destroy(ccl_lock_t *lock); /**< NULL is fine */
void ccl_lock_take(ccl_lock_t *lock);    /**< waits until nobody has it */
void ccl_lock_release(ccl_lock_t *lock);
/** Calls fn every every_s seconds from a thread of its own, until it is stopped. */
typedef struct ccl_ticker ccl_ticker_t;
ccl_ticker_t *ccl_ticker_start(double every_s, void (*fn)(void *user), void *user); /**< or NULL */
void ccl_ticker_stop(ccl_ticker_t *ticker); /**< waits for fn; NULL is fine */
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

/* ---------------------------------------------------------------- child processes */

/**
 * To the parent of a function in a child process with a hard time limit: for libraries (GLPK, Z3,
 * bliss) that overrun limits, keep global state, or end their process when short of memory. It can
 * always be killed, and its end is an error.
 */
typedef struct ccl_child_pipe ccl_child_pipe_t;
/**
 * Hand flat bytes to the parent. The last complete answer counts: what is found survives the limit.
 * @return false when the parent no longer listens; then the function should return.
 */
bool ccl_child_put(ccl_child_pipe_t *pipe, const void *data, size_t len);
/** The same, in pieces. */
bool ccl_child_put_parts(ccl_child_pipe_t *pipe, const struct iovec *parts, size_t nparts);
/** What the parent's progress callback shall see: `done` and `total` of its phase. */
bool ccl_child_tell(ccl_child_pipe_t *pipe, uint64_t done, uint64_t total);
/**
 * Runs in the child, on a copy of the parent's memory, in its only thread. Output to stdout and
 * stderr goes nowhere (with sanitizers stderr stays, for their reports). It must not take locks
 * that another thread may have held at the fork.
 */
typedef ccl_status_t (*ccl_child_fn)(ccl_child_pipe_t *pipe, void *user, ccl_error_t *err);

typedef struct ccl_child_limits {
    double time_s;       /**< wall time; 0: none */
    double memory_bytes; /**< of address space beyond what there is at the fork; 0: none. Not
                              under sanitizers, which need terabytes of it */
    const char *phase;   /**< for progress; static */
} ccl_child_limits_t;

typedef struct ccl_child_answer {
    void *data; /**< last answer, malloc'ed, caller frees; NULL: none */
    size_t len;
    bool limited; /**< stopped at the time limit */
    double wall_s;
} ccl_child_answer_t;

/**
 * Run fn(user) in a child and wait for it. Several threads may do so at a time.
 *
 * @param out  filled whatever the return value: at the limit, when interrupted and where the child
 *             died it holds the last answer put.
 * @retval CCL_OK           the function returned CCL_OK, or the limit was reached (`limited`).
 * @retval CCL_INTERRUPTED  ctx asks to stop; the child is gone.
 * @retval CCL_ERR_NOMEM    there is no process to be had, or the child died of itself: a library's
 *                          abort, which is lack of memory or a fault of that library.
 * @return else what fn returned, with its error text.
 */
ccl_status_t ccl_child_run(const ccl_ctx_t *ctx, const ccl_child_limits_t *limits, ccl_child_fn fn,
                           void *user, ccl_child_answer_t *out, ccl_error_t *err);

CCL_END_DECLS
#endif
