/*
 * The parser of HeteCCL's topology language: its tokens; private to heteccl_dsl.c and
 * heteccl_lex.c.
 */
#ifndef CCL_TOPOLOGIES_HETECCL_LEX_H
#define CCL_TOPOLOGIES_HETECCL_LEX_H

#include "topologies/readers/heteccl_dsl.h"

typedef enum ccl_i_dsl_token_kind {
    TOKEN_END,
    TOKEN_BAD,    /* a byte that begins nothing; refused when its turn comes */
    TOKEN_WORD,   /* letters, digits, _ */
    TOKEN_NUMBER, /* digits, with what follows without a blank: "25", "0.7us" */
    TOKEN_ARROW,  /* -> */
    TOKEN_SPREAD, /* >-> */
    TOKEN_MAPS,   /* => */
    TOKEN_CHAR    /* ( ) [ ] { } , = */
} ccl_i_dsl_token_kind_t;

typedef struct ccl_i_dsl_token {
    ccl_i_dsl_token_kind_t kind;
    const char *start;
    size_t len;
    int line, column;
} ccl_i_dsl_token_t;

typedef struct ccl_i_dsl_parser {
    const ccl_ctx_t *ctx;
    ccl_error_t *err;
    ccl_i_dsl_t *dsl;
    const char *at, *end;
    int line, column;
    ccl_i_dsl_token_t token, next; /* the current one, and one to look ahead */
    uint32_t total_gpus;
    uint32_t node;      /* that a bandwidth belongs to */
    uint32_t statement; /* that an interbandwidth belongs to */
    uint32_t stamp;     /* of the tuple or entry at work, in mark */
    uint32_t mark[CCL_I_HETECCL_MAX_GPUS];
} ccl_i_dsl_parser_t;

/** Refuse the text at a token. */
ccl_status_t ccl_i_dsl_fail(ccl_i_dsl_parser_t *p, const ccl_i_dsl_token_t *token, const char *fmt,
                            ...) CCL_PRINTF(3, 4);
/** "(" or "the end" for messages; out holds 60 bytes. */
const char *ccl_i_dsl_shown(const ccl_i_dsl_token_t *token, char *out);
bool ccl_i_dsl_digit(char c);

/** The token that begins where the parser is. */
ccl_i_dsl_token_t ccl_i_dsl_scan(ccl_i_dsl_parser_t *p);
/** To the next token; a byte that begins none is refused. */
ccl_status_t ccl_i_dsl_advance(ccl_i_dsl_parser_t *p);
bool ccl_i_dsl_char_token(const ccl_i_dsl_token_t *token, char c);
/** Is the current token this character? */
bool ccl_i_dsl_is_char(const ccl_i_dsl_parser_t *p, char c);
bool ccl_i_dsl_word_token(const ccl_i_dsl_token_t *token, const char *word);

/** What the current token says; anything else is refused. Each goes on to the next token. */
ccl_status_t ccl_i_dsl_expect(ccl_i_dsl_parser_t *p, char c, const char *where);
ccl_status_t ccl_i_dsl_take_u32(ccl_i_dsl_parser_t *p, const char *what, uint32_t min, uint32_t max,
                                uint32_t *out);
ccl_status_t ccl_i_dsl_take_GBps(ccl_i_dsl_parser_t *p, double *out);
/** "node7" to 6. */
ccl_status_t ccl_i_dsl_take_node(ccl_i_dsl_parser_t *p, uint32_t *out);

#endif
