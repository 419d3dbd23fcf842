/*
 * HeteCCL's topology language (HeteCCL, NSDI 2026, appendix A, figure 10): text to statements.
 *
 * The paper gives one example and no grammar; this one accepts that example as printed and its
 * balanced form:
 *
 *   file       = { [number] "define" statement }        (the numbers are the figure's line numbers)
 *   statement  = "nodenum" "=" n | "node"i "=" n
 *              | "bandwidth" "=" "{" list { "," list } "}"          (of the node defined last)
 *              | "internode" "=" "(" "node"i { "," "node"j } ")"
 *              | "interbandwidth" "=" "{" list { "," list } "}"     (of the internode defined last)
 *              | "latency" "=" "{" kind "=>" time { "," kind "=>" time } "}"    (ours)
 *   list       = "direct" "=>" "[" { entry } "]"   entry = ( (a,b) -> (GB/s, links) )
 *              | "switch" "=>" "[" { entry } "]"   entry = ( ( (a,b,..) , (c,..) >-> (GB/s, links)
 * ) )
 *
 * The figure leaves out one "]" before ", direct" and one ")" of an interbandwidth: missing closing
 * brackets of an entry or a list are therefore accepted, with a warning; superfluous ones are not.
 */
#include "topologies/readers/heteccl_dsl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum token_kind {
    TOKEN_END,
    TOKEN_BAD,    /* a byte that begins nothing; refused when its turn comes */
    TOKEN_WORD,   /* letters, digits, _ */
    TOKEN_NUMBER, /* digits, with what follows without a blank: "25", "0.7us" */
    TOKEN_ARROW,  /* -> */
    TOKEN_SPREAD, /* >-> */
    TOKEN_MAPS,   /* => */
    TOKEN_CHAR    /* ( ) [ ] { } , = */
} token_kind_t;

typedef struct token {
    token_kind_t kind;
    const char *start;
    size_t len;
    int line, column;
} token_t;

typedef struct dsl_parser {
    const ccl_ctx_t *ctx;
    ccl_error_t *err;
    ccl_i_dsl_t *dsl;
    const char *at, *end;
    int line, column;
    token_t token, next; /* the current one, and one to look ahead */
    uint32_t total_gpus;
    uint32_t node;      /* that a bandwidth belongs to */
    uint32_t statement; /* that an interbandwidth belongs to */
    uint32_t stamp;     /* of the tuple or entry at work, in mark */
    uint32_t mark[CCL_I_HETECCL_MAX_GPUS];
} dsl_parser_t;

static ccl_status_t fail_at(dsl_parser_t *p, const token_t *token, const char *fmt, ...)
    CCL_PRINTF(3, 4);
static ccl_status_t fail_at(dsl_parser_t *p, const token_t *token, const char *fmt, ...) {
    char text[500];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    return ccl_error_set(p->err, CCL_ERR_INPUT, p->dsl->file, token->line, token->column, "%s",
                         text);
}

/* "(" or "the end" for messages; out holds 60 bytes. */
static const char *shown(const token_t *token, char *out) {
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

static bool is_digit(char c) {
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

static token_t scan(dsl_parser_t *p) {
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
    } else if (is_letter(c) || is_digit(c) || c == '.') {
        bool number = !is_letter(c);
        out.kind = number ? TOKEN_NUMBER : TOKEN_WORD;
        while (p->at + n < p->end &&
               (is_letter(p->at[n]) || is_digit(p->at[n]) || (number && p->at[n] == '.') ||
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

static ccl_status_t advance(dsl_parser_t *p) {
    p->token = p->next;
    if (p->token.kind == TOKEN_BAD) {
        char c = *p->token.start;
        if (c > ' ' && c < 0x7f)
            return fail_at(p, &p->token, "unexpected \"%c\"", c);
        return fail_at(p, &p->token, "unexpected byte 0x%02x", (unsigned char)c);
    }
    p->next = scan(p);
    return CCL_OK;
}

static bool char_token(const token_t *token, char c) {
    return token->kind == TOKEN_CHAR && *token->start == c;
}

static bool is_char(const dsl_parser_t *p, char c) {
    return char_token(&p->token, c);
}

static bool word_token(const token_t *token, const char *word) {
    return token->kind == TOKEN_WORD && token->len == strlen(word) &&
           memcmp(token->start, word, token->len) == 0;
}

static ccl_status_t expect_char(dsl_parser_t *p, char c, const char *where) {
    char text[60];
    if (!is_char(p, c))
        return fail_at(p, &p->token, "expected \"%c\" %s, not %s", c, where,
                       shown(&p->token, text));
    return advance(p);
}

static ccl_status_t take_u32(dsl_parser_t *p, const char *what, uint32_t min, uint32_t max,
                             uint32_t *out) {
    char text[60];
    uint64_t value = 0;
    bool good = p->token.kind == TOKEN_NUMBER && p->token.len <= 9;
    for (size_t i = 0; good && i < p->token.len; i++) {
        good = is_digit(p->token.start[i]);
        value = value * 10 + (uint64_t)(p->token.start[i] - '0');
    }
    if (!good || value < min || value > max)
        return fail_at(p, &p->token, "expected %s, a whole number from %u to %u, not %s", what, min,
                       max, shown(&p->token, text));
    *out = (uint32_t)value;
    return advance(p);
}

static ccl_status_t take_GBps(dsl_parser_t *p, double *out) {
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
        return fail_at(
            p, &p->token,
            "expected a bandwidth in GB/s, a bare number above 0 and at most 1e6, not %s",
            shown(&p->token, text));
    return advance(p);
}

/* "node7" to 6. */
static ccl_status_t take_node(dsl_parser_t *p, uint32_t *out) {
    char text[60];
    uint64_t number = 0;
    bool good = p->token.kind == TOKEN_WORD && p->token.len > 4 && p->token.len <= 12 &&
                memcmp(p->token.start, "node", 4) == 0;
    for (size_t i = 4; good && i < p->token.len; i++) {
        good = is_digit(p->token.start[i]);
        number = number * 10 + (uint64_t)(p->token.start[i] - '0');
    }
    if (!good)
        return fail_at(p, &p->token, "expected a node such as node1, not %s",
                       shown(&p->token, text));
    if (p->dsl->nnodes == 0)
        return fail_at(p, &p->token, "\"define nodenum = ...\" must come first");
    if (number < 1 || number > p->dsl->nnodes)
        return fail_at(p, &p->token, "node%llu is not one of node1 to node%u",
                       (unsigned long long)number, p->dsl->nnodes);
    *out = (uint32_t)number - 1;
    return advance(p);
}

/* ---------------------------------------------------------------- entries */

static ccl_status_t add_number(dsl_parser_t *p, uint32_t number) {
    ccl_i_dsl_t *dsl = p->dsl;
    if (dsl->nnumbers == CCL_I_HETECCL_MAX_NUMBERS)
        return fail_at(p, &p->token, "more than %zu gpu numbers in one file", dsl->nnumbers);
    if (!ccl_grow(&dsl->numbers, &dsl->numbers_cap, dsl->nnumbers + 1, sizeof(uint32_t)))
        return ccl_fail_nomem(p->err);
    dsl->numbers[dsl->nnumbers++] = number;
    return CCL_OK;
}

/* "(0,1,2)" of a node, each GPU once. */
static ccl_status_t take_tuple(dsl_parser_t *p, uint32_t node) {
    ccl_i_dsl_t *dsl = p->dsl;
    ccl_i_dsl_tuple_t tuple = {(uint32_t)dsl->nnumbers, 0};
    uint32_t stamp = ++p->stamp;
    CCL_TRY(expect_char(p, '(', "before gpu numbers"));
    for (;;) {
        token_t at = p->token;
        uint32_t gpu = 0;
        CCL_TRY(take_u32(p, "a gpu number", 0, CCL_I_HETECCL_MAX_GPUS, &gpu));
        if (gpu >= dsl->gpus[node])
            return fail_at(p, &at, "node%u has no gpu %u, only 0 to %u", node + 1, gpu,
                           dsl->gpus[node] - 1);
        if (p->mark[gpu] == stamp)
            return fail_at(p, &at, "gpu %u twice in one tuple", gpu);
        p->mark[gpu] = stamp;
        CCL_TRY(add_number(p, gpu));
        tuple.n++;
        if (!is_char(p, ','))
            break;
        CCL_TRY(advance(p));
    }
    CCL_TRY(expect_char(p, ')', "after gpu numbers"));
    if (!ccl_grow(&dsl->tuples, &dsl->tuples_cap, dsl->ntuples + 1, sizeof(tuple)))
        return ccl_fail_nomem(p->err);
    dsl->tuples[dsl->ntuples++] = tuple;
    return CCL_OK;
}

static ccl_status_t check_entry(dsl_parser_t *p, const ccl_i_dsl_entry_t *entry,
                                const token_t *first) {
    const ccl_i_dsl_t *dsl = p->dsl;
    if (entry->direct) {
        if (entry->ntuples != 1 || dsl->tuples[entry->first_tuple].n != 2)
            return fail_at(p, first, "a direct link joins one pair of gpus, such as (0,1)");
        return CCL_OK;
    }
    if (entry->node == CCL_NONE) {
        const ccl_i_dsl_internode_t *inter = &dsl->internodes[entry->statement];
        if (entry->ntuples != inter->n)
            return fail_at(p, first, "%u tuples of gpus for an internode of %u nodes",
                           entry->ntuples, inter->n);
        return CCL_OK;
    }
    uint32_t total = 0, stamp = ++p->stamp;
    for (uint32_t t = 0; t < entry->ntuples; t++) {
        const ccl_i_dsl_tuple_t *tuple = &dsl->tuples[entry->first_tuple + t];
        for (uint32_t i = 0; i < tuple->n; i++) {
            uint32_t gpu = dsl->numbers[tuple->first + i];
            if (p->mark[gpu] == stamp)
                return fail_at(p, first, "gpu %u in two tuples of one switch", gpu);
            p->mark[gpu] = stamp;
            total++;
        }
    }
    if (total < 2)
        return fail_at(p, first, "a switch of one gpu joins nothing");
    return CCL_OK;
}

/* Node that the t-th tuple of an entry speaks of. */
static ccl_status_t tuple_node(dsl_parser_t *p, const ccl_i_dsl_entry_t *entry, uint32_t *out) {
    if (entry->node != CCL_NONE) {
        *out = entry->node;
        return CCL_OK;
    }
    const ccl_i_dsl_internode_t *inter = &p->dsl->internodes[entry->statement];
    if (entry->ntuples >= inter->n)
        return fail_at(p, &p->token, "more tuples of gpus than the %u nodes of the internode",
                       inter->n);
    *out = p->dsl->numbers[inter->first + entry->ntuples];
    return CCL_OK;
}

static ccl_status_t take_entry(dsl_parser_t *p, ccl_i_dsl_entry_t entry) {
    token_t first = p->token;
    char text[60];
    uint32_t depth = 0, node = 0;
    bool more = true;
    entry.first_tuple = (uint32_t)p->dsl->ntuples;
    entry.line = first.line;
    entry.column = first.column;
    while (more) {
        while (is_char(p, '(') && char_token(&p->next, '(')) {
            depth++;
            CCL_TRY(advance(p));
        }
        CCL_TRY(tuple_node(p, &entry, &node));
        CCL_TRY(take_tuple(p, node));
        entry.ntuples++;
        while (is_char(p, ')') && depth > 0) {
            depth--;
            CCL_TRY(advance(p));
        }
        more = is_char(p, ',');
        if (more)
            CCL_TRY(advance(p));
    }
    token_kind_t arrow = entry.direct ? TOKEN_ARROW : TOKEN_SPREAD;
    if (p->token.kind != arrow)
        return fail_at(p, &p->token, "expected \"%s\" after the gpus of a %s entry, not %s",
                       entry.direct ? "->" : ">->", entry.direct ? "direct" : "switch",
                       shown(&p->token, text));
    CCL_TRY(check_entry(p, &entry, &first));
    CCL_TRY(advance(p));
    CCL_TRY(expect_char(p, '(', "before (bandwidth, numlinks)"));
    CCL_TRY(take_GBps(p, &entry.GBps));
    CCL_TRY(expect_char(p, ',', "between bandwidth and numlinks"));
    CCL_TRY(take_u32(p, "numlinks", 1, CCL_I_HETECCL_MAX_LINKS, &entry.links));
    CCL_TRY(expect_char(p, ')', "after (bandwidth, numlinks)"));
    while (is_char(p, ')') && depth > 0) {
        depth--;
        CCL_TRY(advance(p));
    }
    if (is_char(p, ')'))
        return fail_at(p, &p->token, "unmatched \")\"");
    if (depth > 0)
        ccl_log(p->ctx, CCL_LOG_WARN, "heteccl", "%s:%d:%d: %u \")\" missing, taken as closed here",
                p->dsl->file, p->token.line, p->token.column, depth);
    ccl_i_dsl_t *dsl = p->dsl;
    if (!ccl_grow(&dsl->entries, &dsl->entries_cap, dsl->nentries + 1, sizeof(entry)))
        return ccl_fail_nomem(p->err);
    dsl->entries[dsl->nentries++] = entry;
    return CCL_OK;
}

/* "direct => [ ... ]" or "switch => [ ... ]". */
static ccl_status_t take_list(dsl_parser_t *p, bool inter) {
    char text[60];
    ccl_i_dsl_entry_t entry = {.node = inter ? CCL_NONE : p->node, .statement = p->statement};
    entry.direct = word_token(&p->token, "direct");
    if (!entry.direct && !word_token(&p->token, "switch"))
        return fail_at(p, &p->token, "expected direct or switch, not %s", shown(&p->token, text));
    if (entry.direct && inter)
        return fail_at(p, &p->token, "nodes are joined by switch lists, not by direct links");
    CCL_TRY(advance(p));
    if (p->token.kind != TOKEN_MAPS)
        return fail_at(p, &p->token, "expected \"=>\", not %s", shown(&p->token, text));
    CCL_TRY(advance(p));
    CCL_TRY(expect_char(p, '[', "before a list of links"));
    while (!is_char(p, ']')) {
        if (!is_char(p, '('))
            return fail_at(p, &p->token, "expected \"(\" or \"]\" in a list of links, not %s",
                           shown(&p->token, text));
        CCL_TRY(take_entry(p, entry));
        if (is_char(p, ',') && p->next.kind != TOKEN_WORD) {
            CCL_TRY(advance(p));
            continue;
        }
        if (is_char(p, ',') || is_char(p, '}')) {
            ccl_log(p->ctx, CCL_LOG_WARN, "heteccl",
                    "%s:%d:%d: \"]\" missing, taken as closed here", p->dsl->file, p->token.line,
                    p->token.column);
            return CCL_OK;
        }
        if (!is_char(p, ']'))
            return fail_at(p, &p->token, "expected \",\" or \"]\" after a link, not %s",
                           shown(&p->token, text));
    }
    return advance(p);
}

/* ---------------------------------------------------------------- statements */

static ccl_status_t take_lists(dsl_parser_t *p, bool inter) {
    CCL_TRY(expect_char(p, '{', "before links"));
    for (;;) {
        CCL_TRY(take_list(p, inter));
        if (!is_char(p, ','))
            return expect_char(p, '}', "after links");
        CCL_TRY(advance(p));
    }
}

static ccl_status_t take_internode(dsl_parser_t *p) {
    ccl_i_dsl_t *dsl = p->dsl;
    ccl_i_dsl_internode_t inter = {(uint32_t)dsl->nnumbers, 0};
    CCL_TRY(expect_char(p, '(', "before nodes"));
    for (;;) {
        token_t at = p->token;
        uint32_t node;
        CCL_TRY(take_node(p, &node));
        if (dsl->gpus[node] == 0)
            return fail_at(p, &at, "node%u is not defined yet", node + 1);
        for (uint32_t i = 0; i < inter.n; i++)
            if (dsl->numbers[inter.first + i] == node)
                return fail_at(p, &at, "node%u twice in one internode", node + 1);
        CCL_TRY(add_number(p, node));
        inter.n++;
        if (!is_char(p, ','))
            break;
        CCL_TRY(advance(p));
    }
    if (inter.n < 2)
        return fail_at(p, &p->token, "an internode joins two or more nodes");
    CCL_TRY(expect_char(p, ')', "after nodes"));
    if (!ccl_grow(&dsl->internodes, &dsl->internodes_cap, dsl->ninternodes + 1, sizeof(inter)))
        return ccl_fail_nomem(p->err);
    p->statement = (uint32_t)dsl->ninternodes;
    dsl->internodes[dsl->ninternodes++] = inter;
    return CCL_OK;
}

static ccl_status_t take_latency(dsl_parser_t *p) {
    ccl_i_dsl_t *dsl = p->dsl;
    char text[60], copy[40];
    CCL_TRY(expect_char(p, '{', "before latencies"));
    for (;;) {
        double *out = word_token(&p->token, "nvlink") ? &dsl->nvlink_latency_s
                      : word_token(&p->token, "pcie") ? &dsl->pcie_latency_s
                      : word_token(&p->token, "net")  ? &dsl->net_latency_s
                                                      : NULL;
        if (!out)
            return fail_at(p, &p->token, "expected nvlink, pcie or net, not %s",
                           shown(&p->token, text));
        CCL_TRY(advance(p));
        if (p->token.kind != TOKEN_MAPS)
            return fail_at(p, &p->token, "expected \"=>\", not %s", shown(&p->token, text));
        CCL_TRY(advance(p));
        ccl_error_t why = CCL_ERROR_INIT;
        size_t n = p->token.len < sizeof(copy) - 1 ? p->token.len : sizeof(copy) - 1;
        memcpy(copy, p->token.start, n);
        copy[n] = '\0';
        if (p->token.kind != TOKEN_NUMBER || ccl_parse_time_s(copy, out, &why) != CCL_OK)
            return fail_at(p, &p->token, "expected a time with a unit such as 0.7us, not %s",
                           shown(&p->token, text));
        CCL_TRY(advance(p));
        if (!is_char(p, ','))
            return expect_char(p, '}', "after latencies");
        CCL_TRY(advance(p));
    }
}

static ccl_status_t take_nodenum(dsl_parser_t *p, const token_t *name) {
    ccl_i_dsl_t *dsl = p->dsl;
    if (dsl->nnodes)
        return fail_at(p, name, "nodenum defined twice");
    uint32_t n = 0;
    CCL_TRY(take_u32(p, "the number of nodes", 1, CCL_I_HETECCL_MAX_NODES, &n));
    if (!ccl_grow(&dsl->gpus, &dsl->gpus_cap, n, sizeof(uint32_t)))
        return ccl_fail_nomem(p->err);
    dsl->nnodes = n;
    return CCL_OK;
}

static ccl_status_t take_gpus(dsl_parser_t *p, const token_t *name, uint32_t node) {
    ccl_i_dsl_t *dsl = p->dsl;
    if (dsl->gpus[node])
        return fail_at(p, name, "node%u defined twice", node + 1);
    CCL_TRY(take_u32(p, "the number of gpus", 1, CCL_I_HETECCL_MAX_GPUS, &dsl->gpus[node]));
    p->total_gpus += dsl->gpus[node];
    if (p->total_gpus > CCL_I_HETECCL_MAX_GPUS)
        return fail_at(p, name, "more than %u gpus in all", CCL_I_HETECCL_MAX_GPUS);
    p->node = node;
    return CCL_OK;
}

static ccl_status_t take_equals(dsl_parser_t *p) {
    return expect_char(p, '=', "after what is defined");
}

static ccl_status_t take_statement(dsl_parser_t *p) {
    static const char *const known[] = {"nodenum",        "bandwidth", "node1", "internode",
                                        "interbandwidth", "latency",   NULL};
    token_t name = p->token;
    char text[60], word[40];
    if (word_token(&name, "nodenum")) {
        CCL_TRY(advance(p));
        CCL_TRY(take_equals(p));
        return take_nodenum(p, &name);
    }
    if (word_token(&name, "bandwidth")) {
        if (p->node == CCL_NONE)
            return fail_at(p, &name, "a bandwidth must follow the node it belongs to");
        CCL_TRY(advance(p));
        CCL_TRY(take_equals(p));
        return take_lists(p, false);
    }
    if (word_token(&name, "internode")) {
        CCL_TRY(advance(p));
        CCL_TRY(take_equals(p));
        return take_internode(p);
    }
    if (word_token(&name, "interbandwidth")) {
        if (p->statement == CCL_NONE)
            return fail_at(p, &name, "an interbandwidth must follow the internode it belongs to");
        CCL_TRY(advance(p));
        CCL_TRY(take_equals(p));
        return take_lists(p, true);
    }
    if (word_token(&name, "latency")) {
        CCL_TRY(advance(p));
        CCL_TRY(take_equals(p));
        return take_latency(p);
    }
    if (name.kind == TOKEN_WORD && name.len > 4 && memcmp(name.start, "node", 4) == 0 &&
        is_digit(name.start[4])) {
        uint32_t node;
        CCL_TRY(take_node(p, &node));
        CCL_TRY(take_equals(p));
        return take_gpus(p, &name, node);
    }
    size_t n = name.len < sizeof(word) - 1 ? name.len : sizeof(word) - 1;
    memcpy(word, name.start, n);
    word[n] = '\0';
    const char *near = name.kind == TOKEN_WORD ? ccl_nearest(word, known) : NULL;
    return fail_at(p, &name, "cannot define %s%s%s", shown(&name, text),
                   near ? ", did you mean "
                        : "; known are nodenum, node1 ..., bandwidth, internode, "
                          "interbandwidth, latency",
                   near ? near : "");
}

static ccl_status_t take_file(dsl_parser_t *p) {
    char text[60];
    p->next = scan(p);
    CCL_TRY(advance(p));
    while (p->token.kind != TOKEN_END) {
        if (p->token.kind == TOKEN_NUMBER && word_token(&p->next, "define"))
            CCL_TRY(advance(p)); /* a line number of the printed figure */
        if (!word_token(&p->token, "define"))
            return fail_at(p, &p->token, "expected \"define\", not %s", shown(&p->token, text));
        CCL_TRY(advance(p));
        CCL_TRY(take_statement(p));
    }
    if (p->dsl->nnodes == 0)
        return fail_at(p, &p->token, "no \"define nodenum = ...\"");
    for (uint32_t i = 0; i < p->dsl->nnodes; i++)
        if (p->dsl->gpus[i] == 0)
            return fail_at(p, &p->token, "node%u of %u is not defined", i + 1, p->dsl->nnodes);
    return CCL_OK;
}

ccl_status_t ccl_i_dsl_parse(const ccl_ctx_t *ctx, const char *file, const char *text, size_t len,
                             ccl_i_dsl_t *out, ccl_error_t *err) {
    ccl_i_dsl_t dsl = {.file = file};
    dsl_parser_t p = {.ctx = ctx,
                      .err = err,
                      .dsl = &dsl,
                      .at = text,
                      .end = text + len,
                      .line = 1,
                      .column = 1,
                      .node = CCL_NONE,
                      .statement = CCL_NONE};
    if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        p.at += 3;
    ccl_status_t status = take_file(&p);
    if (status != CCL_OK)
        ccl_i_dsl_fini(&dsl);
    else
        *out = dsl;
    return status;
}

void ccl_i_dsl_fini(ccl_i_dsl_t *dsl) {
    free(dsl->gpus);
    free(dsl->numbers);
    free(dsl->tuples);
    free(dsl->entries);
    free(dsl->internodes);
    memset(dsl, 0, sizeof(*dsl));
}

ccl_status_t ccl_topology_read_heteccl(const ccl_ctx_t *ctx, const char *name, const char *text,
                                       size_t len, ccl_topology_t **out, ccl_error_t *err) {
    ccl_i_dsl_t dsl;
    CCL_TRY(ccl_i_dsl_parse(ctx, name, text, len, &dsl, err));
    ccl_status_t status = ccl_i_dsl_build(&dsl, out, err);
    ccl_i_dsl_fini(&dsl);
    return status;
}
