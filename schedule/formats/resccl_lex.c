/* ResCCLang's tokens: Python's layout with words, integers, strings and a few signs. */
#include "schedule/formats/resccl_i.h"

#include <string.h>

void ccl_i_lexer_init(ccl_i_lexer_t *lexer, const char *file, const char *text, size_t len,
                      ccl_error_t *err) {
    *lexer = (ccl_i_lexer_t){.p = text,
                             .end = text + len,
                             .line_start = text,
                             .line = 1,
                             .nindents = 1,
                             .fresh_line = true,
                             .file = file,
                             .err = err};
}

static ccl_i_pos_t pos_of(const ccl_i_lexer_t *x) {
    ptrdiff_t column = x->p - x->line_start;
    return (ccl_i_pos_t){x->line, column < INT32_MAX - 1 ? (int)column + 1 : 0};
}

#define BAD(x_, pos_, ...)                                                                         \
    ccl_error_set((x_)->err, CCL_ERR_INPUT, (x_)->file, (pos_).line, (pos_).column, __VA_ARGS__)

static void end_line(ccl_i_lexer_t *x) {
    x->p++;
    x->line++;
    x->line_start = x->p;
}

/** Blanks and comments; inside parentheses line ends too. */
static void skip(ccl_i_lexer_t *x) {
    while (x->p < x->end) {
        if (*x->p == '#') {
            const char *newline = memchr(x->p, '\n', (size_t)(x->end - x->p));
            x->p = newline ? newline : x->end;
        } else if (*x->p == '\n' && x->parens) {
            end_line(x);
        } else if (*x->p == ' ' || *x->p == '\t' || *x->p == '\r') {
            x->p++;
        } else {
            return;
        }
    }
}

/** Columns that the next line with any content is indented by; a tab goes to the next eighth. */
static size_t indentation(ccl_i_lexer_t *x) {
    for (;;) {
        size_t columns = 0;
        const char *p = x->p;
        for (; p < x->end && (*p == ' ' || *p == '\t'); p++)
            columns = *p == '\t' ? (columns / 8 + 1) * 8 : columns + 1;
        x->p = p;
        skip(x);
        if (x->p == x->end || *x->p != '\n')
            return columns;
        end_line(x);
    }
}

static ccl_status_t start_line(ccl_i_lexer_t *x, ccl_i_token_t *out, bool *told) {
    size_t columns = indentation(x);
    x->fresh_line = false;
    *told = false;
    if (x->p == x->end) {
        x->ended = true;
        x->dedents = x->nindents - 1;
        return CCL_OK;
    }
    size_t current = x->indents[x->nindents - 1];
    if (columns > current) {
        if (x->nindents == CCL_I_RESCCL_MAX_NESTING)
            return BAD(x, pos_of(x), "more than %u blocks inside each other",
                       CCL_I_RESCCL_MAX_NESTING - 1);
        x->indents[x->nindents++] = columns;
        *out = (ccl_i_token_t){.kind = CCL_I_TOKEN_INDENT, .pos = pos_of(x)};
        *told = true;
        return CCL_OK;
    }
    while (columns < x->indents[x->nindents - 1]) {
        x->nindents--;
        x->dedents++;
    }
    if (columns != x->indents[x->nindents - 1])
        return BAD(x, pos_of(x), "the indentation matches no enclosing block");
    return CCL_OK;
}

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static ccl_status_t read_number(ccl_i_lexer_t *x, ccl_i_token_t *out) {
    for (; x->p < x->end && is_digit(*x->p); x->p++) {
        if (__builtin_mul_overflow(out->number, (int64_t)10, &out->number) ||
            __builtin_add_overflow(out->number, (int64_t)(*x->p - '0'), &out->number))
            return BAD(x, out->pos, "the number does not fit in 64 bits");
    }
    if (x->p < x->end && (is_letter(*x->p) || *x->p == '.'))
        return BAD(x, out->pos, "only integers are numbers here");
    out->kind = CCL_I_TOKEN_NUMBER;
    return CCL_OK;
}

static ccl_status_t read_string(ccl_i_lexer_t *x, ccl_i_token_t *out) {
    char quote = *x->p++;
    out->kind = CCL_I_TOKEN_STRING;
    out->text = x->p;
    while (x->p < x->end && *x->p != quote && *x->p != '\n')
        x->p++;
    if (x->p == x->end || *x->p != quote)
        return BAD(x, out->pos, "the string does not end on its line");
    out->len = (size_t)(x->p++ - out->text);
    return CCL_OK;
}

static ccl_status_t read_token(ccl_i_lexer_t *x, ccl_i_token_t *out) {
    char c = *x->p;
    *out = (ccl_i_token_t){.kind = CCL_I_TOKEN_PUNCT, .pos = pos_of(x), .text = x->p, .len = 1};
    if (c == '\n') {
        out->kind = CCL_I_TOKEN_NEWLINE;
        end_line(x);
        x->fresh_line = true;
        return CCL_OK;
    }
    if (is_letter(c)) {
        out->kind = CCL_I_TOKEN_WORD;
        while (x->p < x->end && (is_letter(*x->p) || is_digit(*x->p)))
            x->p++;
        out->len = (size_t)(x->p - out->text);
        return CCL_OK;
    }
    if (is_digit(c))
        return read_number(x, out);
    if (c == '"' || c == '\'')
        return read_string(x, out);
    if (!c || !strchr("():,=+-*/%", c)) {
        if (c > ' ' && c < 127)
            return BAD(x, out->pos, "unexpected character '%c'", c);
        return BAD(x, out->pos, "unexpected byte 0x%02x", (unsigned)(unsigned char)c);
    }
    out->punct = c;
    x->p++;
    if (c == '/' && x->p < x->end && *x->p == '/')
        x->p++;
    if (c == '(')
        x->parens++;
    else if (c == ')' && x->parens)
        x->parens--;
    return CCL_OK;
}

ccl_status_t ccl_i_lexer_next(ccl_i_lexer_t *x, ccl_i_token_t *out) {
    if (x->fresh_line) {
        bool told;
        CCL_TRY(start_line(x, out, &told));
        if (told)
            return CCL_OK;
    }
    if (x->dedents == 0) {
        skip(x);
        if (x->p < x->end)
            return read_token(x, out);
        /* The end of the text ends its last line, where that is open, then every block. */
        if (!x->ended) {
            x->ended = true;
            x->dedents = x->nindents - 1;
            *out = (ccl_i_token_t){.kind = CCL_I_TOKEN_NEWLINE, .pos = pos_of(x)};
            return CCL_OK;
        }
    }
    *out = (ccl_i_token_t){.pos = pos_of(x)};
    out->kind = x->dedents ? CCL_I_TOKEN_DEDENT : CCL_I_TOKEN_END;
    x->dedents -= x->dedents ? 1 : 0;
    return CCL_OK;
}
