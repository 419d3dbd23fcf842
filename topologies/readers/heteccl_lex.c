/*
 * HeteCCL's topology language: tokens, and what is read from one token (heteccl_dsl.c has the
 * grammar).
 */
#include "topologies/readers/heteccl_lex.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef ccl_i_dsl_token_t token_t;
typedef ccl_i_dsl_parser_t dsl_parser_t;

ccl_status_t ccl_i_dsl_fail(dsl_parser_t *p, const token_t *token, const char *fmt, ...) {
    char text[500];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    return ccl_error_set(p->err, CCL_ERR_INPUT, p->dsl->file, token->line, token->column, "%s",
                         text);
}

/* "(" or "the end" for messages; out holds 60 bytes. */
const char *ccl_i_dsl_shown(const token_t *token, char *out) {
    if (token->kind == TOKEN_END)
        return "the end";
    size_t n = token->len < 40 ? token->len : 40;
    snprintf(out, 60, "\"%.*s\"", (int)n, token->start);
    return out;
}

/* ---------------------------------------------------------------- tokens */

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool ccl_i_dsl_digit(char c) {
    return c >= '0' && c <= '9';
}

static void step(dsl_parser_t *p) {
    if (*p->at == '\n') {
        p->line++;
        p->column = 1;
    } else {
        p->column++;
    }
    p->at++;
}

static void skip_blanks(dsl_parser_t *p) {
    while (p->at < p->end) {
        char c = *p->at;
        bool comment = c == '#' || (c == '/' && p->end - p->at > 1 && p->at[1] == '/');
        if (comment)
            while (p->at < p->end && *p->at != '\n')
                step(p);
        else if (c == ' ' || c == '\t' || c == '\n' || c == '\r')
            step(p);
        else
            break;
    }
}

static bool starts(const dsl_parser_t *p, const char *word) {
    size_t n = strlen(word);
    return (size_t)(p->end - p->at) >= n && memcmp(p->at, word, n) == 0;
}

token_t ccl_i_dsl_scan(dsl_parser_t *p) {
    skip_blanks(p);
    token_t out = {TOKEN_END, p->at, 0, p->line, p->column};
    if (p->at == p->end)
        return out;
    size_t n = 1;
    char c = *p->at;
    out.kind = TOKEN_BAD;
    if (starts(p, ">->")) {
        out.kind = TOKEN_SPREAD, n = 3;
    } else if (starts(p, "->")) {
        out.kind = TOKEN_ARROW, n = 2;
    } else if (starts(p, "=>")) {
        out.kind = TOKEN_MAPS, n = 2;
    } else if (is_letter(c) || ccl_i_dsl_digit(c) || c == '.') {
        bool number = !is_letter(c);
        out.kind = number ? TOKEN_NUMBER : TOKEN_WORD;
        while (p->at + n < p->end &&
               (is_letter(p->at[n]) || ccl_i_dsl_digit(p->at[n]) || (number && p->at[n] == '.') ||
                (number && p->at[n] == '/' && p->at + n + 1 < p->end && is_letter(p->at[n + 1]))))
            n++;
    } else if (c && strchr("()[]{},=", c)) {
        out.kind = TOKEN_CHAR;
    }
    out.len = n;
    while (n-- > 0)
        step(p);
    return out;
}

ccl_status_t ccl_i_dsl_advance(dsl_parser_t *p) {
    p->token = p->next;
    if (p->token.kind == TOKEN_BAD) {
        char c = *p->token.start;
        if (c > ' ' && c < 0x7f)
            return ccl_i_dsl_fail(p, &p->token, "unexpected \"%c\"", c);
        return ccl_i_dsl_fail(p, &p->token, "unexpected byte 0x%02x", (unsigned char)c);
    }
    p->next = ccl_i_dsl_scan(p);
    return CCL_OK;
}

bool ccl_i_dsl_char_token(const token_t *token, char c) {
    return token->kind == TOKEN_CHAR && *token->start == c;
}

bool ccl_i_dsl_is_char(const dsl_parser_t *p, char c) {
    return ccl_i_dsl_char_token(&p->token, c);
}

bool ccl_i_dsl_word_token(const token_t *token, const char *word) {
    return token->kind == TOKEN_WORD && token->len == strlen(word) &&
           memcmp(token->start, word, token->len) == 0;
}

ccl_status_t ccl_i_dsl_expect(dsl_parser_t *p, char c, const char *where) {
    char text[60];
    if (!ccl_i_dsl_is_char(p, c))
        return ccl_i_dsl_fail(p, &p->token, "expected \"%c\" %s, not %s", c, where,
                              ccl_i_dsl_shown(&p->token, text));
    return ccl_i_dsl_advance(p);
}

ccl_status_t ccl_i_dsl_take_u32(dsl_parser_t *p, const char *what, uint32_t min, uint32_t max,
                                uint32_t *out) {
    char text[60];
    uint64_t value = 0;
    bool good = p->token.kind == TOKEN_NUMBER && p->token.len <= 9;
    for (size_t i = 0; good && i < p->token.len; i++) {
        good = ccl_i_dsl_digit(p->token.start[i]);
        value = value * 10 + (uint64_t)(p->token.start[i] - '0');
    }
    if (!good || value < min || value > max)
        return ccl_i_dsl_fail(p, &p->token, "expected %s, a whole number from %u to %u, not %s",
                              what, min, max, ccl_i_dsl_shown(&p->token, text));
    *out = (uint32_t)value;
    return ccl_i_dsl_advance(p);
}

ccl_status_t ccl_i_dsl_take_GBps(dsl_parser_t *p, double *out) {
    char text[60], copy[40];
    bool good = p->token.kind == TOKEN_NUMBER && p->token.len < sizeof(copy);
    if (good) {
        memcpy(copy, p->token.start, p->token.len);
        copy[p->token.len] = '\0';
        good = strspn(copy, "0123456789.eE") == p->token.len;
        char *end = NULL;
        *out = good ? strtod(copy, &end) : 0;
        good = good && *end == '\0' && isfinite(*out) && *out > 0 && *out <= 1e6;
    }
    if (!good)
        return ccl_i_dsl_fail(
            p, &p->token,
            "expected a bandwidth in GB/s, a bare number above 0 and at most 1e6, not %s",
            ccl_i_dsl_shown(&p->token, text));
    return ccl_i_dsl_advance(p);
}

/* "node7" to 6. */
ccl_status_t ccl_i_dsl_take_node(dsl_parser_t *p, uint32_t *out) {
    char text[60];
    uint64_t number = 0;
    bool good = p->token.kind == TOKEN_WORD && p->token.len > 4 && p->token.len <= 12 &&
                memcmp(p->token.start, "node", 4) == 0;
    for (size_t i = 4; good && i < p->token.len; i++) {
        good = ccl_i_dsl_digit(p->token.start[i]);
        number = number * 10 + (uint64_t)(p->token.start[i] - '0');
    }
    if (!good)
        return ccl_i_dsl_fail(p, &p->token, "expected a node such as node1, not %s",
                              ccl_i_dsl_shown(&p->token, text));
    if (p->dsl->nnodes == 0)
        return ccl_i_dsl_fail(p, &p->token, "\"define nodenum = ...\" must come first");
    if (number < 1 || number > p->dsl->nnodes)
        return ccl_i_dsl_fail(p, &p->token, "node%llu is not one of node1 to node%u",
                              (unsigned long long)number, p->dsl->nnodes);
    *out = (uint32_t)number - 1;
    return ccl_i_dsl_advance(p);
}
