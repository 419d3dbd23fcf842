/* Private to search: the database behind a notebook. Both kinds answer the same questions in SQL.
 */
#ifndef CCL_SEARCH_STORE_H
#define CCL_SEARCH_STORE_H

#include "search/notebook/notebook.h"

/** An argument of a question. */
typedef struct ccl_i_sql_value {
    enum { CCL_I_NULL, CCL_I_INT, CCL_I_REAL, CCL_I_TEXT, CCL_I_BLOB } type;
    int64_t number;
    double real;
    const char *text; /* NULL: no value */
    size_t len;       /* of a blob */
} ccl_i_sql_value_t;
ccl_i_sql_value_t ccl_i_sql_int(int64_t number);
ccl_i_sql_value_t ccl_i_sql_real(double real); /**< NAN: no value */
ccl_i_sql_value_t ccl_i_sql_text(const char *text);

/**
 * One statement. Ours have words in braces for what the two databases write differently: {now}
 * (seconds since 1970), {at} (the same as text), {id}, {text}, {blob}, {lean}, {skip}.
 */
typedef struct ccl_i_question {
    const char *sql; /* parameters ?1, ?2 ...; static, and prepared once, unless `once` */
    const ccl_i_sql_value_t *args; /* [nargs] */
    uint32_t nargs;
    bool once;
    bool lazy;            /* a crash of the server may undo it; nothing waits for a disk */
    const ccl_ctx_t *ctx; /* a user's query: only reads, its faults are input's; polled meanwhile */
} ccl_i_question_t;

typedef struct ccl_i_backend {
    struct {
        const char *word, *text;
    } words[8];
    char mark; /* in front of a parameter's number */
    const char *begin, *exclusive;
    bool (*there)(void); /* what it needs is on this machine; NULL: it needs nothing */
    /* All with the lock. */
    ccl_status_t (*open)(ccl_notebook_t *n, const char *where, bool write, ccl_error_t *err);
    void (*close)(ccl_notebook_t *n);
    /** @param version_out  0: nothing is in it yet. */
    ccl_status_t (*identify)(ccl_notebook_t *n, int64_t *version_out, ccl_error_t *err);
    /** Before the first table; not in a transaction. NULL: nothing. */
    ccl_status_t (*found)(ccl_notebook_t *n, ccl_error_t *err);
    ccl_status_t (*set_version)(ccl_notebook_t *n, bool fresh, int64_t version, ccl_error_t *err);
    /** @param rows  zeroed; NULL: none are wanted. @param changes_out  rows written; NULL. */
    ccl_status_t (*ask)(ccl_notebook_t *n, const ccl_i_question_t *q, ccl_notebook_rows_t *rows,
                        int64_t *changes_out, ccl_error_t *err);
    /** The connection broke, or others were in the way: the transaction is to be begun again. */
    bool (*again)(ccl_notebook_t *n);
    const char *tidy; /* gives space back; NULL: that needs no asking */
} ccl_i_backend_t;
extern const ccl_i_backend_t ccl_i_backend_sqlite, ccl_i_backend_postgres;

/** A prepared statement. */
typedef struct ccl_i_prepared {
    const char *sql;
    void *stmt;
} ccl_i_prepared_t;

struct ccl_notebook {
    const ccl_i_backend_t *ops;
    ccl_lock_t *lock; /* one thread at a time */
    void *db;
    ccl_i_prepared_t prepared[40];
    uint32_t nprepared;
    int64_t version;
    char path[1024];            /* for messages: without a password */
    bool told;                  /* that other builds' points are not used */
    const volatile int *cancel; /* of whoever waits for the server; NULL */
};

enum {
    CCL_I_BUSY_MS = 30000
}; /* writers wait for each other, and for a server, at most this time */

/** Our SQL in the words of the database; malloc'ed. @param ours  braces are words. */
char *ccl_i_sql(const ccl_i_backend_t *ops, const char *sql, bool ours);
/** Ask by itself. */
ccl_status_t ccl_i_ask(ccl_notebook_t *n, const ccl_i_question_t *q, ccl_notebook_rows_t *rows,
                       int64_t *changes_out, ccl_error_t *err);
/** What fn asks by n->ops->ask() is done as one, or not at all; fn may be called again.
    @param lazy  as of a question. */
typedef ccl_status_t (*ccl_i_transaction_fn)(ccl_notebook_t *n, void *user, ccl_error_t *err);
ccl_status_t ccl_i_transact(ccl_notebook_t *n, bool lazy, ccl_i_transaction_fn fn, void *user,
                            ccl_error_t *err);

/* Rows. */
ccl_status_t ccl_i_rows_column(ccl_notebook_rows_t *rows, uint32_t column, const char *name,
                               ccl_error_t *err);
/** The next cell in the order of the rows. @param text  copied; NULL: no value. */
ccl_status_t ccl_i_rows_cell(ccl_notebook_rows_t *rows, const char *text, bool number,
                             ccl_error_t *err);
/** A number with as many digits as bring it back. Returns out. */
const char *ccl_i_exact(double value, char out[40]);
void ccl_i_rows_fini(ccl_notebook_rows_t *rows);
const char *ccl_i_row_text(const ccl_notebook_rows_t *rows, uint32_t row,
                           uint32_t column); /**< or "" */
int64_t ccl_i_row_int(const ccl_notebook_rows_t *rows, uint32_t row, uint32_t column);
double ccl_i_row_real(const ccl_notebook_rows_t *rows, uint32_t row, uint32_t column); /**< NAN */

/** A status by its name. */
bool ccl_i_status_of(const char *name, ccl_status_t *out);
/** ccl_notebook_add(), which a crash of the server may undo: a task's answer follows. */
ccl_status_t ccl_i_notebook_add_lazily(ccl_notebook_t *n, const ccl_point_t *point,
                                       const ccl_point_result_t *result, const char *profile,
                                       ccl_error_t *err);

#endif
