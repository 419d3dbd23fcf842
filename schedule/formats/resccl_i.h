/*
 * ResCCLang: tokens, compiled form, and the passes between them.
 * Source: ResCCL (SIGCOMM 2025) section 4.2, appendix B, figures 14 and 16.
 */
#ifndef CCL_SCHEDULE_RESCCL_I_H
#define CCL_SCHEDULE_RESCCL_I_H

#include "schedule/schedule_i.h"

#define CCL_I_RESCCL_MAX_NESTING 64u           /* blocks, parentheses */
#define CCL_I_RESCCL_MAX_ITERATIONS (1u << 23) /* of all loops together */
#define CCL_I_RESCCL_MAX_OPERATIONS (1u << 27) /* evaluated in one run */
#define CCL_I_RESCCL_MAX_CODE (1u << 24)       /* instructions, statements */

typedef struct ccl_i_pos {
    int line, column;
} ccl_i_pos_t;

/* ---------------------------------------------------------------- tokens */

typedef enum ccl_i_token_kind {
    CCL_I_TOKEN_END,
    CCL_I_TOKEN_NEWLINE,
    CCL_I_TOKEN_INDENT,
    CCL_I_TOKEN_DEDENT,
    CCL_I_TOKEN_WORD,
    CCL_I_TOKEN_NUMBER,
    CCL_I_TOKEN_STRING, /**< text without its quotes */
    CCL_I_TOKEN_PUNCT
} ccl_i_token_kind_t;

typedef struct ccl_i_token {
    ccl_i_token_kind_t kind;
    const char *text;
    size_t len;
    int64_t number;
    char punct; /**< ( ) : , = + - * / %; "//" is '/' */
    ccl_i_pos_t pos;
} ccl_i_token_t;

/** Python's layout: indentation opens and closes blocks, lines go on inside parentheses. */
typedef struct ccl_i_lexer {
    const char *p, *end, *line_start;
    int line;
    unsigned parens, nindents, dedents; /* dedents: still to be returned */
    size_t indents[CCL_I_RESCCL_MAX_NESTING];
    bool fresh_line, ended;
    const char *file;
    ccl_error_t *err;
} ccl_i_lexer_t;

void ccl_i_lexer_init(ccl_i_lexer_t *lexer, const char *file, const char *text, size_t len,
                      ccl_error_t *err);
ccl_status_t ccl_i_lexer_next(ccl_i_lexer_t *lexer, ccl_i_token_t *out);

/* ---------------------------------------------------------------- compiled form */

typedef enum ccl_i_resccl_op {
    CCL_I_OP_NUMBER, /**< push value */
    CCL_I_OP_LOAD,   /**< push variable value */
    CCL_I_OP_ADD,
    CCL_I_OP_SUB,
    CCL_I_OP_MUL,
    CCL_I_OP_DIV, /**< rounds down */
    CCL_I_OP_MOD, /**< sign of the divisor */
    CCL_I_OP_NEG
} ccl_i_resccl_op_t;

/** Postfix, so that evaluating needs no recursion however long an expression is. */
typedef struct ccl_i_instr {
    int64_t value;
    ccl_i_pos_t pos;
    ccl_i_resccl_op_t op;
} ccl_i_instr_t;

typedef enum ccl_i_stmt_kind {
    CCL_I_STMT_ASSIGN,  /**< variable = exps[0] */
    CCL_I_STMT_FOR,     /**< variable in range(exps[0], exps[1], exps[2]) */
    CCL_I_STMT_TRANSFER /**< source, destination, step, chunk */
} ccl_i_stmt_kind_t;

typedef struct ccl_i_stmt {
    ccl_i_stmt_kind_t kind;
    uint32_t variable;
    uint32_t body_end;            /**< for: index behind its last statement */
    uint32_t first[4], behind[4]; /**< code of each expression; empty: not given */
    bool reduce;
    ccl_i_pos_t pos;
} ccl_i_stmt_t;

typedef struct ccl_i_resccl {
    char *name;
    ccl_collective_kind_t kind;
    uint32_t nranks;
    ccl_i_instr_t *code;
    size_t ncode, code_cap;
    ccl_i_stmt_t *stmts;
    size_t nstmts, stmts_cap;
    ccl_strmap_t *variables; /**< name to slot */
    char **names;            /**< [nvariables] */
    int64_t *preset;         /**< values that the header gives */
    bool *is_preset;
    size_t nvariables, names_cap, preset_cap, is_preset_cap;
    unsigned max_stack;
} ccl_i_resccl_t;

/** Parse into *out (zeroed by the caller); free with ccl_i_resccl_fini also on failure. */
ccl_status_t ccl_i_resccl_parse(const char *file, const char *text, size_t len, ccl_i_resccl_t *out,
                                ccl_error_t *err);
void ccl_i_resccl_fini(ccl_i_resccl_t *program);

#endif
