/*
 * MSCCL XML writer: every attribute that any executor needs, in one fixed order.
 *
 * What the format lacks is added where a parser that does not know it skips it: attribute `stage`
 * of a step, `root` and `origin` of algo, `i_shares` / `o_shares` / `s_shares` of a gpu, elements
 * `demand` and `group` of algo. Blocks with switch connections (`multicast`, `offer`, `pull`,
 * `take`) have `send` or `recv` -1: a parser that skips these attributes refuses what their steps
 * do.
 */
#include "schedule/formats/demand_i.h"
#include "schedule/formats/msccl_xml_i.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void add(ccl_text_t *out, const char *text) {
    ccl_text_add(out, text, strlen(text));
}

/** name="value" after a blank. */
static void add_u32(ccl_text_t *out, const char *name, uint32_t value) {
    add(out, name);
    ccl_i_text_u64(out, value);
    add(out, "\"");
}

/** The same; CCL_NONE is written -1. */
static void add_index(ccl_text_t *out, const char *name, uint32_t value) {
    if (value != CCL_NONE) {
        add_u32(out, name, value);
        return;
    }
    add(out, name);
    add(out, "-1\"");
}

static void write_algo(const ccl_program_t *p, ccl_text_t *out) {
    add(out, "<algo name=");
    ccl_i_xml_text(p->name, out);
    add(out, " proto=");
    ccl_i_xml_text(p->proto, out);
    add_u32(out, " nchannels=\"", p->nchannels);
    add_u32(out, " nchunksperloop=\"", p->nchunks);
    add_u32(out, " ngpus=\"", p->nranks);
    add(out, " coll=\"");
    add(out, ccl_collective_kind_name(p->coll->kind));
    add_u32(out, "\" inplace=\"", p->in_place);
    add_u32(out, " outofplace=\"", p->out_of_place);
    ccl_text_printf(out, " minBytes=\"%.0f\" maxBytes=\"%.0f\"", p->min_bytes, p->max_bytes);
    if (ccl_collective_kind_is_rooted(p->coll->kind))
        add_u32(out, " root=\"", p->coll->root);
    if (p->origin[0]) {
        add(out, " origin=");
        ccl_i_xml_text(p->origin, out);
    }
    if (p->piece_bytes > 0)
        ccl_text_printf(out, " piece=\"%.0f\"", p->piece_bytes);
    add(out, ">\n");
}

static void write_list(const uint32_t *list, uint32_t len, uint32_t nranks, ccl_text_t *out) {
    if (len == nranks && nranks > 1) {
        add(out, "all");
        return;
    }
    for (uint32_t i = 0; i < len; i++) {
        if (i)
            add(out, " ");
        ccl_i_text_u64(out, list[i]);
    }
}

static void write_demand(const ccl_collective_t *coll, ccl_text_t *out) {
    add(out, "  <demand name=");
    ccl_i_xml_text(coll->name, out);
    add(out, ">\n");
    for (uint32_t k = 0; k < coll->nchunks; k++) {
        const ccl_chunk_t *c = &coll->chunks[k];
        add(out, "    <chunk sources=\"");
        write_list(c->sources, c->nsources, coll->nranks, out);
        add(out, "\" destinations=\"");
        write_list(c->dests, c->ndests, coll->nranks, out);
        add_u32(out, "\" reduced=\"", c->reduced);
        add(out, " bytes=\"");
        ccl_i_demand_write_bytes(coll, c, out);
        add(out, "\"/>\n");
    }
    add(out, "  </demand>\n");
}

static void write_groups(const ccl_program_t *p, ccl_text_t *out) {
    for (uint32_t g = 0; g < p->ngroups; g++) {
        const ccl_peer_group_t *group = &p->groups[g];
        add_u32(out, "  <group id=\"", g);
        add(out, " ranks=\"");
        for (uint32_t i = 0, end; i < group->n; i = end) {
            for (end = i + 1; end < group->n && group->ranks[end] == group->ranks[end - 1] + 1;)
                end++;
            ccl_text_printf(out, "%s%u", i ? "," : "", group->ranks[i]);
            if (end > i + 1)
                ccl_text_printf(out, "-%u", group->ranks[end - 1]);
        }
        add(out, "\"/>\n");
    }
}

/** Peers of a block or a step; those that MSCCL does not know come last. */
static void write_peers(const ccl_peers_t *peers, ccl_text_t *out) {
    uint32_t send = peers->send_peer, recv = peers->recv_peer;
    bool multicast = ccl_peer_is_group(send), pull = ccl_peer_is_group(recv);
    bool offer = ccl_peer_is_member(send), take = ccl_peer_is_member(recv);
    add_index(out, " send=\"", multicast || offer ? CCL_NONE : send);
    add_index(out, " recv=\"", pull || take ? CCL_NONE : recv);
    add_u32(out, " chan=\"", peers->channel);
    if (multicast)
        add_u32(out, " multicast=\"", send & ~CCL_PEER_GROUP);
    if (offer)
        add_u32(out, " offer=\"", ccl_peer_rank(send));
    if (pull)
        add_u32(out, " pull=\"", recv & ~CCL_PEER_GROUP);
    if (take)
        add_u32(out, " take=\"", ccl_peer_rank(recv));
}

/** Shares that reading the demand gives anyway need not be written. */
static ccl_status_t shares_are_derived(const ccl_program_t *p, uint32_t rank, ccl_buffer_t buffer,
                                       bool *out, ccl_error_t *err) {
    uint32_t len = p->buffer_len[3 * rank + buffer];
    *out = len == 0;
    if (len == 0 || p->coll->kind != CCL_CUSTOM || buffer == CCL_BUF_SCRATCH)
        return CCL_OK;
    double *derived = malloc(len * sizeof *derived);
    if (!derived)
        return ccl_fail_nomem(err);
    ccl_i_collective_shares(p->coll, rank, buffer, derived, len);
    const double *shares = p->shares[3 * rank + buffer];
    *out = true;
    for (uint32_t i = 0; i < len && *out; i++)
        *out = fabs(derived[i] - shares[i]) <= 1e-12 * fmax(fabs(derived[i]), fabs(shares[i]));
    free(derived);
    return CCL_OK;
}

static ccl_status_t write_gpu(const ccl_program_t *p, uint32_t rank, ccl_text_t *out,
                              ccl_error_t *err) {
    static const char *const lens[] = {" i_chunks=\"", " o_chunks=\"", " s_chunks=\""};
    static const char *const shares[] = {" i_shares=\"", " o_shares=\"", " s_shares=\""};
    add_u32(out, "  <gpu id=\"", rank);
    for (unsigned b = 0; b < 3; b++)
        add_u32(out, lens[b], p->buffer_len[3 * rank + b]);
    for (unsigned b = 0; b < 3 && p->shares; b++) {
        bool derived;
        CCL_TRY(shares_are_derived(p, rank, (ccl_buffer_t)b, &derived, err));
        if (derived)
            continue;
        add(out, shares[b]);
        for (uint32_t i = 0; i < p->buffer_len[3 * rank + b]; i++)
            ccl_text_printf(out, "%s%.17g", i ? " " : "", p->shares[3 * rank + b][i]);
        add(out, "\"");
    }
    add(out, ">\n");
    return CCL_OK;
}

static void write_step(const ccl_program_t *p, const ccl_tb_t *tb, const ccl_step_t *s, bool shared,
                       ccl_text_t *out) {
    static const char *const buffers[] = {"i", "o", "s"};
    bool nop = s->type == CCL_PRIM_NOP;
    uint32_t deps = CCL_NONE;
    if (s->dep_tb != CCL_NONE) {
        const ccl_tb_t *on = &p->tbs[p->rank_first_tb[tb->rank] + s->dep_tb];
        deps = ccl_program_mark(p, on, on->first_step + s->dep_step).s;
    }
    add_u32(out, "      <step s=\"", ccl_program_mark(p, tb, (uint32_t)(s - p->steps)).s);
    add(out, " type=\"");
    add(out, ccl_primitive_name((ccl_primitive_t)s->type));
    add(out, "\" srcbuf=\"");
    add(out, buffers[s->src_buf]);
    add_index(out, "\" srcoff=\"", nop ? CCL_NONE : s->src_off);
    add(out, " dstbuf=\"");
    add(out, buffers[s->dst_buf]);
    add_index(out, "\" dstoff=\"", nop ? CCL_NONE : s->dst_off);
    add_u32(out, " cnt=\"", nop ? 0 : s->count);
    add_index(out, " depid=\"", s->dep_tb);
    add_index(out, " deps=\"", deps);
    add_u32(out, " hasdep=\"", s->has_dep);
    if (shared && (ccl_primitive_sends(s->type) || ccl_primitive_receives(s->type))) {
        ccl_peers_t peers = ccl_program_peers(p, tb, (uint32_t)(s - p->steps));
        write_peers(&peers, out);
    }
    if (s->stage)
        add_u32(out, " stage=\"", s->stage);
    add(out, "/>\n");
}

ccl_status_t ccl_program_write_xml(const ccl_program_t *program, ccl_text_t *out,
                                   ccl_error_t *err) {
    const ccl_program_t *p = program;
    if (p->nranks > CCL_I_XML_MAX_GPUS || p->nchunks > CCL_I_XML_MAX_CHUNKS)
        return ccl_fail(err, CCL_ERR_INPUT,
                        "a program of %u ranks and %u chunks cannot be written as MSCCL XML: at "
                        "most %u and %u",
                        p->nranks, p->nchunks, CCL_I_XML_MAX_GPUS, CCL_I_XML_MAX_CHUNKS);
    if (p->ngroups > CCL_I_XML_MAX_GROUPS)
        return ccl_fail(err, CCL_ERR_INPUT,
                        "a program with %u groups of ranks cannot be written as MSCCL XML: at most "
                        "%u",
                        p->ngroups, CCL_I_XML_MAX_GROUPS);
    write_algo(p, out);
    if (p->coll->kind == CCL_CUSTOM)
        write_demand(p->coll, out);
    write_groups(p, out);
    for (uint32_t rank = 0; rank < p->nranks; rank++) {
        CCL_TRY(write_gpu(p, rank, out, err));
        for (uint32_t t = p->rank_first_tb[rank]; t < p->rank_first_tb[rank + 1]; t++) {
            const ccl_tb_t *tb = &p->tbs[t];
            add_u32(out, "    <tb id=\"", tb->id);
            write_peers(&(ccl_peers_t){tb->send_peer, tb->recv_peer, tb->channel}, out);
            add(out, ">\n");
            bool shared = ccl_program_tb_shared(p, tb);
            for (uint32_t i = 0; i < tb->nsteps; i++)
                write_step(p, tb, &p->steps[tb->first_step + i], shared, out);
            add(out, "    </tb>\n");
        }
        add(out, "  </gpu>\n");
    }
    add(out, "</algo>\n");
    return out->nomem ? ccl_fail_nomem(err) : CCL_OK;
}
