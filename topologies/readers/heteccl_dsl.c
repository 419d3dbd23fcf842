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
#include "topologies/readers/heteccl_lex.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef ccl_i_dsl_token_t token_t;
typedef ccl_i_dsl_parser_t dsl_parser_t;

/* ---------------------------------------------------------------- entries */

static ccl_status_t add_number(dsl_parser_t *p, uint32_t number) {
    ccl_i_dsl_t *dsl = p->dsl;
    if (dsl->nnumbers == CCL_I_HETECCL_MAX_NUMBERS)
        return ccl_i_dsl_fail(p, &p->token, "more than %zu gpu numbers in one file", dsl->nnumbers);
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
    CCL_TRY(ccl_i_dsl_expect(p, '(', "before gpu numbers"));
    for (;;) {
        token_t at = p->token;
        uint32_t gpu = 0;
        CCL_TRY(ccl_i_dsl_take_u32(p, "a gpu number", 0, CCL_I_HETECCL_MAX_GPUS, &gpu));
        if (gpu >= dsl->gpus[node])
            return ccl_i_dsl_fail(p, &at, "node%u has no gpu %u, only 0 to %u", node + 1, gpu,
                                  dsl->gpus[node] - 1);
        if (p->mark[gpu] == stamp)
            return ccl_i_dsl_fail(p, &at, "gpu %u twice in one tuple", gpu);
        p->mark[gpu] = stamp;
        CCL_TRY(add_number(p, gpu));
        tuple.n++;
        if (!ccl_i_dsl_is_char(p, ','))
            break;
        CCL_TRY(ccl_i_dsl_advance(p));
    }
    CCL_TRY(ccl_i_dsl_expect(p, ')', "after gpu numbers"));
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
            return ccl_i_dsl_fail(p, first, "a direct link joins one pair of gpus, such as (0,1)");
        return CCL_OK;
    }
    if (entry->node == CCL_NONE) {
        const ccl_i_dsl_internode_t *inter = &dsl->internodes[entry->statement];
        if (entry->ntuples != inter->n)
            return ccl_i_dsl_fail(p, first, "%u tuples of gpus for an internode of %u nodes",
                                  entry->ntuples, inter->n);
        return CCL_OK;
    }
    uint32_t total = 0, stamp = ++p->stamp;
    for (uint32_t t = 0; t < entry->ntuples; t++) {
        const ccl_i_dsl_tuple_t *tuple = &dsl->tuples[entry->first_tuple + t];
        for (uint32_t i = 0; i < tuple->n; i++) {
            uint32_t gpu = dsl->numbers[tuple->first + i];
            if (p->mark[gpu] == stamp)
                return ccl_i_dsl_fail(p, first, "gpu %u in two tuples of one switch", gpu);
            p->mark[gpu] = stamp;
            total++;
        }
    }
    if (total < 2)
        return ccl_i_dsl_fail(p, first, "a switch of one gpu joins nothing");
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
        return ccl_i_dsl_fail(p, &p->token,
                              "more tuples of gpus than the %u nodes of the internode", inter->n);
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
        while (ccl_i_dsl_is_char(p, '(') && ccl_i_dsl_char_token(&p->next, '(')) {
            depth++;
            CCL_TRY(ccl_i_dsl_advance(p));
        }
        CCL_TRY(tuple_node(p, &entry, &node));
        CCL_TRY(take_tuple(p, node));
        entry.ntuples++;
        while (ccl_i_dsl_is_char(p, ')') && depth > 0) {
            depth--;
            CCL_TRY(ccl_i_dsl_advance(p));
        }
        more = ccl_i_dsl_is_char(p, ',');
        if (more)
            CCL_TRY(ccl_i_dsl_advance(p));
    }
    ccl_i_dsl_token_kind_t arrow = entry.direct ? TOKEN_ARROW : TOKEN_SPREAD;
    if (p->token.kind != arrow)
        return ccl_i_dsl_fail(p, &p->token, "expected \"%s\" after the gpus of a %s entry, not %s",
                              entry.direct ? "->" : ">->", entry.direct ? "direct" : "switch",
                              ccl_i_dsl_shown(&p->token, text));
    CCL_TRY(check_entry(p, &entry, &first));
    CCL_TRY(ccl_i_dsl_advance(p));
    CCL_TRY(ccl_i_dsl_expect(p, '(', "before (bandwidth, numlinks)"));
    CCL_TRY(ccl_i_dsl_take_GBps(p, &entry.GBps));
    CCL_TRY(ccl_i_dsl_expect(p, ',', "between bandwidth and numlinks"));
    CCL_TRY(ccl_i_dsl_take_u32(p, "numlinks", 1, CCL_I_HETECCL_MAX_LINKS, &entry.links));
    CCL_TRY(ccl_i_dsl_expect(p, ')', "after (bandwidth, numlinks)"));
    while (ccl_i_dsl_is_char(p, ')') && depth > 0) {
        depth--;
        CCL_TRY(ccl_i_dsl_advance(p));
    }
    if (ccl_i_dsl_is_char(p, ')'))
        return ccl_i_dsl_fail(p, &p->token, "unmatched \")\"");
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
    entry.direct = ccl_i_dsl_word_token(&p->token, "direct");
    if (!entry.direct && !ccl_i_dsl_word_token(&p->token, "switch"))
        return ccl_i_dsl_fail(p, &p->token, "expected direct or switch, not %s",
                              ccl_i_dsl_shown(&p->token, text));
    if (entry.direct && inter)
        return ccl_i_dsl_fail(p, &p->token,
                              "nodes are joined by switch lists, not by direct links");
    CCL_TRY(ccl_i_dsl_advance(p));
    if (p->token.kind != TOKEN_MAPS)
        return ccl_i_dsl_fail(p, &p->token, "expected \"=>\", not %s",
                              ccl_i_dsl_shown(&p->token, text));
    CCL_TRY(ccl_i_dsl_advance(p));
    CCL_TRY(ccl_i_dsl_expect(p, '[', "before a list of links"));
    while (!ccl_i_dsl_is_char(p, ']')) {
        if (!ccl_i_dsl_is_char(p, '('))
            return ccl_i_dsl_fail(p, &p->token,
                                  "expected \"(\" or \"]\" in a list of links, not %s",
                                  ccl_i_dsl_shown(&p->token, text));
        CCL_TRY(take_entry(p, entry));
        if (ccl_i_dsl_is_char(p, ',') && p->next.kind != TOKEN_WORD) {
            CCL_TRY(ccl_i_dsl_advance(p));
            continue;
        }
        if (ccl_i_dsl_is_char(p, ',') || ccl_i_dsl_is_char(p, '}')) {
            ccl_log(p->ctx, CCL_LOG_WARN, "heteccl",
                    "%s:%d:%d: \"]\" missing, taken as closed here", p->dsl->file, p->token.line,
                    p->token.column);
            return CCL_OK;
        }
        if (!ccl_i_dsl_is_char(p, ']'))
            return ccl_i_dsl_fail(p, &p->token, "expected \",\" or \"]\" after a link, not %s",
                                  ccl_i_dsl_shown(&p->token, text));
    }
    return ccl_i_dsl_advance(p);
}

/* ---------------------------------------------------------------- statements */

static ccl_status_t take_lists(dsl_parser_t *p, bool inter) {
    CCL_TRY(ccl_i_dsl_expect(p, '{', "before links"));
    for (;;) {
        CCL_TRY(take_list(p, inter));
        if (!ccl_i_dsl_is_char(p, ','))
            return ccl_i_dsl_expect(p, '}', "after links");
        CCL_TRY(ccl_i_dsl_advance(p));
    }
}

static ccl_status_t take_internode(dsl_parser_t *p) {
    ccl_i_dsl_t *dsl = p->dsl;
    ccl_i_dsl_internode_t inter = {(uint32_t)dsl->nnumbers, 0};
    CCL_TRY(ccl_i_dsl_expect(p, '(', "before nodes"));
    for (;;) {
        token_t at = p->token;
        uint32_t node;
        CCL_TRY(ccl_i_dsl_take_node(p, &node));
        if (dsl->gpus[node] == 0)
            return ccl_i_dsl_fail(p, &at, "node%u is not defined yet", node + 1);
        for (uint32_t i = 0; i < inter.n; i++)
            if (dsl->numbers[inter.first + i] == node)
                return ccl_i_dsl_fail(p, &at, "node%u twice in one internode", node + 1);
        CCL_TRY(add_number(p, node));
        inter.n++;
        if (!ccl_i_dsl_is_char(p, ','))
            break;
        CCL_TRY(ccl_i_dsl_advance(p));
    }
    if (inter.n < 2)
        return ccl_i_dsl_fail(p, &p->token, "an internode joins two or more nodes");
    CCL_TRY(ccl_i_dsl_expect(p, ')', "after nodes"));
    if (!ccl_grow(&dsl->internodes, &dsl->internodes_cap, dsl->ninternodes + 1, sizeof(inter)))
        return ccl_fail_nomem(p->err);
    p->statement = (uint32_t)dsl->ninternodes;
    dsl->internodes[dsl->ninternodes++] = inter;
    return CCL_OK;
}

static ccl_status_t take_latency(dsl_parser_t *p) {
    ccl_i_dsl_t *dsl = p->dsl;
    char text[60], copy[40];
    CCL_TRY(ccl_i_dsl_expect(p, '{', "before latencies"));
    for (;;) {
        double *out = ccl_i_dsl_word_token(&p->token, "nvlink") ? &dsl->nvlink_latency_s
                      : ccl_i_dsl_word_token(&p->token, "pcie") ? &dsl->pcie_latency_s
                      : ccl_i_dsl_word_token(&p->token, "net")  ? &dsl->net_latency_s
                                                                : NULL;
        if (!out)
            return ccl_i_dsl_fail(p, &p->token, "expected nvlink, pcie or net, not %s",
                                  ccl_i_dsl_shown(&p->token, text));
        CCL_TRY(ccl_i_dsl_advance(p));
        if (p->token.kind != TOKEN_MAPS)
            return ccl_i_dsl_fail(p, &p->token, "expected \"=>\", not %s",
                                  ccl_i_dsl_shown(&p->token, text));
        CCL_TRY(ccl_i_dsl_advance(p));
        ccl_error_t why = CCL_ERROR_INIT;
        size_t n = p->token.len < sizeof(copy) - 1 ? p->token.len : sizeof(copy) - 1;
        memcpy(copy, p->token.start, n);
        copy[n] = '\0';
        if (p->token.kind != TOKEN_NUMBER || ccl_parse_time_s(copy, out, &why) != CCL_OK)
            return ccl_i_dsl_fail(p, &p->token, "expected a time with a unit such as 0.7us, not %s",
                                  ccl_i_dsl_shown(&p->token, text));
        CCL_TRY(ccl_i_dsl_advance(p));
        if (!ccl_i_dsl_is_char(p, ','))
            return ccl_i_dsl_expect(p, '}', "after latencies");
        CCL_TRY(ccl_i_dsl_advance(p));
    }
}

static ccl_status_t take_nodenum(dsl_parser_t *p, const token_t *name) {
    ccl_i_dsl_t *dsl = p->dsl;
    if (dsl->nnodes)
        return ccl_i_dsl_fail(p, name, "nodenum defined twice");
    uint32_t n = 0;
    CCL_TRY(ccl_i_dsl_take_u32(p, "the number of nodes", 1, CCL_I_HETECCL_MAX_NODES, &n));
    if (!ccl_grow(&dsl->gpus, &dsl->gpus_cap, n, sizeof(uint32_t)))
        return ccl_fail_nomem(p->err);
    dsl->nnodes = n;
    return CCL_OK;
}

static ccl_status_t take_gpus(dsl_parser_t *p, const token_t *name, uint32_t node) {
    ccl_i_dsl_t *dsl = p->dsl;
    if (dsl->gpus[node])
        return ccl_i_dsl_fail(p, name, "node%u defined twice", node + 1);
    CCL_TRY(
        ccl_i_dsl_take_u32(p, "the number of gpus", 1, CCL_I_HETECCL_MAX_GPUS, &dsl->gpus[node]));
    p->total_gpus += dsl->gpus[node];
    if (p->total_gpus > CCL_I_HETECCL_MAX_GPUS)
        return ccl_i_dsl_fail(p, name, "more than %u gpus in all", CCL_I_HETECCL_MAX_GPUS);
    p->node = node;
    return CCL_OK;
}

static ccl_status_t take_equals(dsl_parser_t *p) {
    return ccl_i_dsl_expect(p, '=', "after what is defined");
}

static ccl_status_t take_statement(dsl_parser_t *p) {
    static const char *const known[] = {"nodenum",        "bandwidth", "node1", "internode",
                                        "interbandwidth", "latency",   NULL};
    token_t name = p->token;
    char text[60], word[40];
    if (ccl_i_dsl_word_token(&name, "nodenum")) {
        CCL_TRY(ccl_i_dsl_advance(p));
        CCL_TRY(take_equals(p));
        return take_nodenum(p, &name);
    }
    if (ccl_i_dsl_word_token(&name, "bandwidth")) {
        if (p->node == CCL_NONE)
            return ccl_i_dsl_fail(p, &name, "a bandwidth must follow the node it belongs to");
        CCL_TRY(ccl_i_dsl_advance(p));
        CCL_TRY(take_equals(p));
        return take_lists(p, false);
    }
    if (ccl_i_dsl_word_token(&name, "internode")) {
        CCL_TRY(ccl_i_dsl_advance(p));
        CCL_TRY(take_equals(p));
        return take_internode(p);
    }
    if (ccl_i_dsl_word_token(&name, "interbandwidth")) {
        if (p->statement == CCL_NONE)
            return ccl_i_dsl_fail(p, &name,
                                  "an interbandwidth must follow the internode it belongs to");
        CCL_TRY(ccl_i_dsl_advance(p));
        CCL_TRY(take_equals(p));
        return take_lists(p, true);
    }
    if (ccl_i_dsl_word_token(&name, "latency")) {
        CCL_TRY(ccl_i_dsl_advance(p));
        CCL_TRY(take_equals(p));
        return take_latency(p);
    }
    if (name.kind == TOKEN_WORD && name.len > 4 && memcmp(name.start, "node", 4) == 0 &&
        ccl_i_dsl_digit(name.start[4])) {
        uint32_t node;
        CCL_TRY(ccl_i_dsl_take_node(p, &node));
        CCL_TRY(take_equals(p));
        return take_gpus(p, &name, node);
    }
    size_t n = name.len < sizeof(word) - 1 ? name.len : sizeof(word) - 1;
    memcpy(word, name.start, n);
    word[n] = '\0';
    const char *near = name.kind == TOKEN_WORD ? ccl_nearest(word, known) : NULL;
    return ccl_i_dsl_fail(p, &name, "cannot define %s%s%s", ccl_i_dsl_shown(&name, text),
                          near ? ", did you mean "
                               : "; known are nodenum, node1 ..., bandwidth, internode, "
                                 "interbandwidth, latency",
                          near ? near : "");
}

static ccl_status_t take_file(dsl_parser_t *p) {
    char text[60];
    p->next = ccl_i_dsl_scan(p);
    CCL_TRY(ccl_i_dsl_advance(p));
    while (p->token.kind != TOKEN_END) {
        if (p->token.kind == TOKEN_NUMBER && ccl_i_dsl_word_token(&p->next, "define"))
            CCL_TRY(ccl_i_dsl_advance(p)); /* a line number of the printed figure */
        if (!ccl_i_dsl_word_token(&p->token, "define"))
            return ccl_i_dsl_fail(p, &p->token, "expected \"define\", not %s",
                                  ccl_i_dsl_shown(&p->token, text));
        CCL_TRY(ccl_i_dsl_advance(p));
        CCL_TRY(take_statement(p));
    }
    if (p->dsl->nnodes == 0)
        return ccl_i_dsl_fail(p, &p->token, "no \"define nodenum = ...\"");
    for (uint32_t i = 0; i < p->dsl->nnodes; i++)
        if (p->dsl->gpus[i] == 0)
            return ccl_i_dsl_fail(p, &p->token, "node%u of %u is not defined", i + 1,
                                  p->dsl->nnodes);
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
