/*
 * ResCCLang's grammar (ResCCL, SIGCOMM 2025, figure 14), compiled to statements and postfix code.
 *
 * Beyond the figure: `def` may be missing (as in figure 16), arguments may be named or in order,
 * strings may be bare words, a minus may stand before an operand, and the header's numbers can be
 * used by name. The text of section 4.2 lets a transfer be a "send"; the grammar does not, and
 * neither does this reader: what a transfer does is said by its receiver.
 */
#include "schedule/formats/resccl_i.h"

#include <stdlib.h>
#include <string.h>

typedef struct parser {
    ccl_i_lexer_t lexer;
    ccl_i_token_t token; /* the next one, not used up yet */
    ccl_i_resccl_t *program;
    unsigned nesting, stack;
    ccl_error_t *err;
} parser_t;

#define BAD(x_, ...)                                                                               \
    ccl_error_set((x_)->err, CCL_ERR_INPUT, (x_)->lexer.file, (x_)->token.pos.line,                \
                  (x_)->token.pos.column, __VA_ARGS__)

static ccl_status_t advance(parser_t *x) {
    return ccl_i_lexer_next(&x->lexer, &x->token);
}

static bool is_punct(const parser_t *x, char c) {
    return x->token.kind == CCL_I_TOKEN_PUNCT && x->token.punct == c;
}

static bool is_word(const ccl_i_token_t *token, const char *word) {
    return token->kind == CCL_I_TOKEN_WORD && token->len == strlen(word) &&
           memcmp(token->text, word, token->len) == 0;
}

/** What stands there, for "X instead of Y". */
static const char *found(const parser_t *x, char out[48]) {
    const ccl_i_token_t *t = &x->token;
    switch (t->kind) {
    case CCL_I_TOKEN_END:
        return "the end of the file";
    case CCL_I_TOKEN_NEWLINE:
        return "the end of the line";
    case CCL_I_TOKEN_INDENT:
        return "a deeper block";
    case CCL_I_TOKEN_DEDENT:
        return "the end of the block";
    case CCL_I_TOKEN_NUMBER:
        return "a number";
    default:
        snprintf(out, 48, "'%.*s'", (int)(t->len < 40 ? t->len : 40), t->text);
        return out;
    }
}

static ccl_status_t expect(parser_t *x, char c) {
    char word[48];
    if (!is_punct(x, c))
        return BAD(x, "%s instead of '%c'", found(x, word), c);
    return advance(x);
}

/* ---------------------------------------------------------------- variables and code */

static ccl_status_t variable_of(parser_t *x, const char *text, size_t len, uint32_t *out) {
    ccl_i_resccl_t *p = x->program;
    char *name = strndup(text, len);
    if (!name)
        return ccl_fail_nomem(x->err);
    *out = ccl_strmap_get(p->variables, name);
    if (*out != CCL_NONE) {
        free(name);
        return CCL_OK;
    }
    *out = (uint32_t)p->nvariables;
    if (!ccl_grow(&p->names, &p->names_cap, p->nvariables + 1, sizeof *p->names) ||
        !ccl_grow(&p->preset, &p->preset_cap, p->nvariables + 1, sizeof *p->preset) ||
        !ccl_grow(&p->is_preset, &p->is_preset_cap, p->nvariables + 1, sizeof *p->is_preset) ||
        !ccl_strmap_put(p->variables, name, *out)) {
        free(name);
        return ccl_fail_nomem(x->err);
    }
    p->names[p->nvariables++] = name;
    return CCL_OK;
}

static ccl_status_t emit(parser_t *x, ccl_i_resccl_op_t op, int64_t value, ccl_i_pos_t pos) {
    ccl_i_resccl_t *p = x->program;
    if (op == CCL_I_OP_NUMBER || op == CCL_I_OP_LOAD)
        x->stack++;
    else if (op != CCL_I_OP_NEG)
        x->stack--;
    p->max_stack = x->stack > p->max_stack ? x->stack : p->max_stack;
    if (p->ncode >= CCL_I_RESCCL_MAX_CODE)
        return BAD(x, "the program is too long");
    if (!ccl_grow(&p->code, &p->code_cap, p->ncode + 1, sizeof *p->code))
        return ccl_fail_nomem(x->err);
    p->code[p->ncode++] = (ccl_i_instr_t){value, pos, op};
    return CCL_OK;
}

static bool is_reserved(const ccl_i_token_t *token) {
    static const char *const words[] = {"def",      "for",      "in",        "range",
                                        "transfer", "Transfer", "ResCCLAlgo"};
    for (size_t i = 0; i < CCL_ARRAY_LEN(words); i++) {
        if (is_word(token, words[i]))
            return true;
    }
    return false;
}

/* ---------------------------------------------------------------- expressions */

static ccl_status_t parse_sum(parser_t *x);

static ccl_status_t parse_operand(parser_t *x) {
    ccl_i_token_t token = x->token;
    char word[48];
    uint32_t variable;
    if (x->nesting >= CCL_I_RESCCL_MAX_NESTING)
        return BAD(x, "more than %u signs or parentheses inside each other",
                   CCL_I_RESCCL_MAX_NESTING);
    if (is_punct(x, '-') || is_punct(x, '+')) {
        CCL_TRY(advance(x));
        x->nesting++;
        CCL_TRY(parse_operand(x));
        x->nesting--;
        return token.punct == '-' ? emit(x, CCL_I_OP_NEG, 0, token.pos) : CCL_OK;
    }
    if (is_punct(x, '(')) {
        CCL_TRY(advance(x));
        x->nesting++;
        CCL_TRY(parse_sum(x));
        x->nesting--;
        return expect(x, ')');
    }
    if (token.kind == CCL_I_TOKEN_NUMBER) {
        CCL_TRY(advance(x));
        return emit(x, CCL_I_OP_NUMBER, token.number, token.pos);
    }
    if (token.kind != CCL_I_TOKEN_WORD || is_reserved(&token))
        return BAD(x, "%s instead of a number, a variable or '('", found(x, word));
    CCL_TRY(variable_of(x, token.text, token.len, &variable));
    CCL_TRY(advance(x));
    return emit(x, CCL_I_OP_LOAD, variable, token.pos);
}

static ccl_status_t parse_product(parser_t *x) {
    CCL_TRY(parse_operand(x));
    while (is_punct(x, '*') || is_punct(x, '/') || is_punct(x, '%')) {
        ccl_i_token_t sign = x->token;
        CCL_TRY(advance(x));
        CCL_TRY(parse_operand(x));
        CCL_TRY(emit(x,
                     sign.punct == '*'   ? CCL_I_OP_MUL
                     : sign.punct == '/' ? CCL_I_OP_DIV
                                         : CCL_I_OP_MOD,
                     0, sign.pos));
    }
    return CCL_OK;
}

static ccl_status_t parse_sum(parser_t *x) {
    CCL_TRY(parse_product(x));
    while (is_punct(x, '+') || is_punct(x, '-')) {
        ccl_i_token_t sign = x->token;
        CCL_TRY(advance(x));
        CCL_TRY(parse_product(x));
        CCL_TRY(emit(x, sign.punct == '+' ? CCL_I_OP_ADD : CCL_I_OP_SUB, 0, sign.pos));
    }
    return CCL_OK;
}

static ccl_status_t parse_expression(parser_t *x, ccl_i_stmt_t *stmt, unsigned index) {
    stmt->first[index] = (uint32_t)x->program->ncode;
    x->stack = 0;
    CCL_TRY(parse_sum(x));
    stmt->behind[index] = (uint32_t)x->program->ncode;
    return CCL_OK;
}

/* ---------------------------------------------------------------- statements */

/** Index of the argument that comes next: by its name if it has one, else by its place. */
static ccl_status_t argument(parser_t *x, const char *const *names, unsigned n, unsigned *given,
                             bool *named, unsigned *out) {
    ccl_i_lexer_t lexer = x->lexer;
    ccl_i_token_t token = x->token;
    char word[48];
    unsigned index = 0;
    bool has_name = false;
    if (token.kind == CCL_I_TOKEN_WORD) {
        CCL_TRY(advance(x));
        has_name = is_punct(x, '=');
        if (!has_name) {
            x->lexer = lexer;
            x->token = token;
        }
    }
    if (has_name) {
        if (is_word(&token, "opType")) { /* the paper's text; commType in its grammar */
            token.text = "commType";
            token.len = strlen(token.text);
        }
        while (index < n && !is_word(&token, names[index]))
            index++;
        if (index == n) {
            x->token = token;
            return BAD(x, "unknown argument %s", found(x, word));
        }
        CCL_TRY(advance(x));
        *named = true;
    } else {
        if (*named)
            return BAD(x, "an argument without a name after one with a name");
        while (index < n && (*given >> index & 1))
            index++;
        if (index == n)
            return BAD(x, "more than %u arguments", n);
    }
    if (*given >> index & 1) {
        x->token = token;
        return BAD(x, "argument %s is given twice", names[index]);
    }
    *given |= 1u << index;
    *out = index;
    return CCL_OK;
}

static bool token_is(const ccl_i_token_t *token, const char *text) {
    return (token->kind == CCL_I_TOKEN_WORD || token->kind == CCL_I_TOKEN_STRING) &&
           token->len == strlen(text) && memcmp(token->text, text, token->len) == 0;
}

static ccl_status_t parse_transfer(parser_t *x, ccl_i_stmt_t *stmt) {
    enum { TYPE = 4, N };
    static const char *const names[N] = {"srcRank", "dstRank", "step", "chunkId", "commType"};
    unsigned given = 0, index;
    bool named = false;
    char word[48];
    stmt->kind = CCL_I_STMT_TRANSFER;
    CCL_TRY(advance(x));
    CCL_TRY(expect(x, '('));
    for (;;) {
        CCL_TRY(argument(x, names, N, &given, &named, &index));
        if (index == TYPE) {
            if (token_is(&x->token, "send"))
                return BAD(x, "a transfer is named by what its receiver does, recv or rrc, not "
                              "by send");
            if (!token_is(&x->token, "recv") && !token_is(&x->token, "rrc"))
                return BAD(x, "%s instead of recv (copy) or rrc (reduce)", found(x, word));
            stmt->reduce = token_is(&x->token, "rrc");
            CCL_TRY(advance(x));
        } else {
            CCL_TRY(parse_expression(x, stmt, index));
        }
        if (!is_punct(x, ','))
            break;
        CCL_TRY(advance(x));
        if (is_punct(x, ')'))
            break;
    }
    for (unsigned i = 0; i < N; i++) {
        if (!(given >> i & 1))
            return BAD(x,
                       "transfer lacks its argument %s: transfer(srcRank, dstRank, step, "
                       "chunkId, recv or rrc)",
                       names[i]);
    }
    return expect(x, ')');
}

static ccl_status_t parse_for(parser_t *x, ccl_i_stmt_t *stmt) {
    char word[48];
    unsigned n = 0;
    stmt->kind = CCL_I_STMT_FOR;
    CCL_TRY(advance(x));
    if (x->token.kind != CCL_I_TOKEN_WORD || is_reserved(&x->token))
        return BAD(x, "%s instead of a loop variable", found(x, word));
    CCL_TRY(variable_of(x, x->token.text, x->token.len, &stmt->variable));
    CCL_TRY(advance(x));
    if (!is_word(&x->token, "in"))
        return BAD(x, "%s instead of 'in'", found(x, word));
    CCL_TRY(advance(x));
    if (!is_word(&x->token, "range"))
        return BAD(x, "%s instead of 'range'", found(x, word));
    CCL_TRY(advance(x));
    CCL_TRY(expect(x, '('));
    do {
        if (n == 3)
            return BAD(x, "range has at most 3 arguments");
        if (n)
            CCL_TRY(advance(x));
        CCL_TRY(parse_expression(x, stmt, n++));
    } while (is_punct(x, ','));
    CCL_TRY(expect(x, ')'));
    if (n == 1) { /* range(stop): from 0 */
        stmt->first[1] = stmt->first[0];
        stmt->behind[1] = stmt->behind[0];
        stmt->behind[0] = stmt->first[0];
    }
    return CCL_OK;
}

static ccl_status_t parse_assign(parser_t *x, ccl_i_stmt_t *stmt) {
    stmt->kind = CCL_I_STMT_ASSIGN;
    CCL_TRY(variable_of(x, x->token.text, x->token.len, &stmt->variable));
    CCL_TRY(advance(x));
    CCL_TRY(expect(x, '='));
    return parse_expression(x, stmt, 0);
}

static ccl_status_t parse_block(parser_t *x);

static ccl_status_t parse_statement(parser_t *x) {
    ccl_i_resccl_t *p = x->program;
    ccl_i_stmt_t stmt = {.pos = x->token.pos};
    char word[48];
    size_t index = p->nstmts;
    if (is_word(&x->token, "for"))
        CCL_TRY(parse_for(x, &stmt));
    else if (is_word(&x->token, "transfer") || is_word(&x->token, "Transfer"))
        CCL_TRY(parse_transfer(x, &stmt));
    else if (x->token.kind == CCL_I_TOKEN_WORD && !is_reserved(&x->token))
        CCL_TRY(parse_assign(x, &stmt));
    else
        return BAD(x, "%s instead of an assignment, a for loop or a transfer", found(x, word));
    if (p->nstmts >= CCL_I_RESCCL_MAX_CODE)
        return BAD(x, "the program is too long");
    if (!ccl_grow(&p->stmts, &p->stmts_cap, p->nstmts + 1, sizeof stmt))
        return ccl_fail_nomem(x->err);
    p->stmts[p->nstmts++] = stmt;
    if (stmt.kind == CCL_I_STMT_FOR) {
        CCL_TRY(parse_block(x));
        p->stmts[index].body_end = (uint32_t)p->nstmts;
        return CCL_OK;
    }
    if (x->token.kind != CCL_I_TOKEN_NEWLINE)
        return BAD(x, "%s after the end of the statement", found(x, word));
    return advance(x);
}

/** ':' and an indented block, or one statement on the same line. */
static ccl_status_t parse_block(parser_t *x) {
    char word[48];
    CCL_TRY(expect(x, ':'));
    if (x->nesting >= CCL_I_RESCCL_MAX_NESTING)
        return BAD(x, "more than %u blocks inside each other", CCL_I_RESCCL_MAX_NESTING);
    x->nesting++;
    if (x->token.kind != CCL_I_TOKEN_NEWLINE) {
        CCL_TRY(parse_statement(x));
    } else {
        CCL_TRY(advance(x));
        if (x->token.kind != CCL_I_TOKEN_INDENT)
            return BAD(x, "%s instead of an indented block", found(x, word));
        CCL_TRY(advance(x));
        while (x->token.kind != CCL_I_TOKEN_DEDENT)
            CCL_TRY(parse_statement(x));
        CCL_TRY(advance(x));
    }
    x->nesting--;
    return CCL_OK;
}

/* ---------------------------------------------------------------- header */

enum { N_RANKS, N_CHANNELS, N_WARPS, ALGO_NAME, OP_TYPE, GPU_PER_NODE, NIC_PER_NODE, N_PARAMS };

static ccl_status_t parse_op_type(parser_t *x) {
    char text[32];
    ccl_error_t ignored = CCL_ERROR_INIT;
    ccl_collective_kind_t kind = CCL_CUSTOM;
    bool named = x->token.kind == CCL_I_TOKEN_WORD || x->token.kind == CCL_I_TOKEN_STRING;
    if (named && x->token.len < sizeof text) {
        memcpy(text, x->token.text, x->token.len);
        text[x->token.len] = 0;
        if (ccl_collective_kind_parse(text, &kind, &ignored) != CCL_OK)
            kind = CCL_CUSTOM;
    }
    if (kind != CCL_ALLGATHER && kind != CCL_ALLREDUCE && kind != CCL_REDUCESCATTER)
        return BAD(x, "OpType must be Allgather, Allreduce or Reducescatter");
    x->program->kind = kind;
    return advance(x);
}

static ccl_status_t parse_param(parser_t *x, unsigned index, const char *name) {
    ccl_i_resccl_t *p = x->program;
    uint32_t variable;
    if (index == OP_TYPE)
        return parse_op_type(x);
    if (index == ALGO_NAME) {
        if (x->token.kind != CCL_I_TOKEN_WORD && x->token.kind != CCL_I_TOKEN_STRING)
            return BAD(x, "AlgoName must be a string");
        p->name = strndup(x->token.text, x->token.len);
        return p->name ? advance(x) : ccl_fail_nomem(x->err);
    }
    uint32_t max = index == N_RANKS ? CCL_I_MAX_RANKS : CCL_I_MAX_CHANNELS;
    if (x->token.kind != CCL_I_TOKEN_NUMBER || x->token.number < 1 || x->token.number > max)
        return BAD(x, "%s must be an integer from 1 to %u", name, max);
    if (index == N_RANKS)
        p->nranks = (uint32_t)x->token.number;
    CCL_TRY(variable_of(x, name, strlen(name), &variable));
    p->preset[variable] = x->token.number;
    p->is_preset[variable] = true;
    return advance(x);
}

static ccl_status_t parse_header(parser_t *x) {
    static const char *const names[N_PARAMS] = {"nRanks", "nChannels",  "nWarps",    "AlgoName",
                                                "OpType", "GPUPerNode", "NICPerNode"};
    unsigned given = 0, index;
    bool named = false;
    char word[48];
    while (x->token.kind == CCL_I_TOKEN_NEWLINE)
        CCL_TRY(advance(x));
    if (is_word(&x->token, "def"))
        CCL_TRY(advance(x));
    if (!is_word(&x->token, "ResCCLAlgo"))
        return BAD(x, "%s instead of 'def ResCCLAlgo(...)', with which a ResCCLang program starts",
                   found(x, word));
    CCL_TRY(advance(x));
    CCL_TRY(expect(x, '('));
    while (!is_punct(x, ')')) {
        CCL_TRY(argument(x, names, N_PARAMS, &given, &named, &index));
        CCL_TRY(parse_param(x, index, names[index]));
        if (!is_punct(x, ','))
            break;
        CCL_TRY(advance(x));
    }
    if (!(given >> N_RANKS & 1) || !(given >> OP_TYPE & 1))
        return BAD(x, "ResCCLAlgo lacks %s", given >> N_RANKS & 1 ? "OpType" : "nRanks");
    return expect(x, ')');
}

ccl_status_t ccl_i_resccl_parse(const char *file, const char *text, size_t len, ccl_i_resccl_t *out,
                                ccl_error_t *err) {
    parser_t x = {.program = out, .err = err};
    char word[48];
    ccl_i_lexer_init(&x.lexer, file, text, len, err);
    out->variables = ccl_strmap_create();
    if (!out->variables)
        return ccl_fail_nomem(err);
    CCL_TRY(advance(&x));
    CCL_TRY(parse_header(&x));
    CCL_TRY(parse_block(&x));
    while (x.token.kind == CCL_I_TOKEN_NEWLINE)
        CCL_TRY(advance(&x));
    if (x.token.kind != CCL_I_TOKEN_END)
        return ccl_error_set(err, CCL_ERR_INPUT, file, x.token.pos.line, x.token.pos.column,
                             "%s after the end of the algorithm", found(&x, word));
    return CCL_OK;
}

void ccl_i_resccl_fini(ccl_i_resccl_t *program) {
    for (size_t i = 0; i < program->nvariables; i++)
        free(program->names[i]);
    free(program->names);
    free(program->preset);
    free(program->is_preset);
    free(program->code);
    free(program->stmts);
    free(program->name);
    ccl_strmap_destroy(program->variables);
    memset(program, 0, sizeof *program);
}
