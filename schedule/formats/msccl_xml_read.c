/*
 * MSCCL XML reader, both dialects.
 *
 * Sources: the parsers of MSCCL (microsoft/msccl), RCCL and msccl-scheduler. Newer files must have
 * outofplace, minBytes and maxBytes; older ones lack them. Order is document order; `deps` names
 * the attribute `s` of a step of block `depid` of the same GPU.
 *
 * Blocks and steps are collected in flat arrays while expat runs; the collective is made only when
 * the file turned out to describe all its GPUs, so that a small file cannot ask for much memory.
 */
#include "schedule/formats/msccl_xml_reader_i.h"

#include <stdlib.h>
#include <string.h>

enum {
    DEPTH_TOP,
    DEPTH_ALGO,
    DEPTH_GPU,
    DEPTH_TB,
    DEPTH_STEP,
    DEPTH_COPY,
    DEPTH_DEMAND,
    DEPTH_CHUNK,
    DEPTH_GROUP
};

typedef ccl_i_msccl_reader_t reader_t;

/* ---------------------------------------------------------------- tb and step */

static bool peer_of(reader_t *r, const char *element, const char *name, const char *text,
                    uint32_t *out) {
    int64_t peer;
    if (!ccl_i_msccl_number(r, element, name, text, -1, (int64_t)r->ngpus - 1, &peer))
        return false;
    if (peer == (int64_t)r->rank) {
        CCL_I_MSCCL_BAD(r, "%s %s is its own gpu %u: another gpu or -1 is needed", element, name,
                        r->rank);
        return false;
    }
    *out = peer < 0 ? CCL_NONE : (uint32_t)peer;
    return true;
}

/*
 * The six attributes of an element's two peers: a rank as MSCCL has it, and our two of switch
 * connections, of which the first names a group, the second a rank.
 */
enum { PEER_RANK, PEER_GROUP, PEER_MEMBER, PEER_FORMS };
static const char *const send_names[PEER_FORMS] = {"send", "multicast", "offer"};
static const char *const recv_names[PEER_FORMS] = {"recv", "pull", "take"};

/** One of an element's peers. @param v  [PEER_FORMS] values of the attributes `names`. */
static bool any_peer_of(reader_t *r, const char *element, const char *const *names,
                        const char *const *v, uint32_t *out) {
    int64_t value;
    if (!peer_of(r, element, names[PEER_RANK], v[PEER_RANK], out))
        return false;
    for (unsigned form = PEER_GROUP; form < PEER_FORMS; form++) {
        bool group = form == PEER_GROUP;
        uint32_t most = group ? (uint32_t)r->groups.len : r->ngpus;
        if (!v[form])
            continue;
        if (*out != CCL_NONE) {
            CCL_I_MSCCL_BAD(r, "%s %s %.40s beside another peer: only one of %s (else -1), %s, %s",
                            element, names[form], v[form], names[0], names[1], names[2]);
            return false;
        }
        if (most == 0) {
            CCL_I_MSCCL_BAD(r, "%s %s '%.40s': algo has no group", element, names[form], v[form]);
            return false;
        }
        if (!ccl_i_msccl_number(r, element, names[form], v[form], 0, (int64_t)most - 1, &value))
            return false;
        *out = (uint32_t)value | (group ? CCL_PEER_GROUP : CCL_PEER_MEMBER);
    }
    return true;
}

static void open_tb(reader_t *r, const XML_Char **atts) {
    enum { ID, CHAN, SEND, RECV, MULTICAST, OFFER, PULL, TAKE, N };
    static const char *const names[N] = {"id",        "chan",  "send", "recv",
                                         "multicast", "offer", "pull", "take"};
    const char *v[N];
    int64_t id, chan;
    uint32_t expected = (uint32_t)r->ntbs - r->gpu_first_tb;
    ccl_tb_t tb = {.rank = r->rank, .id = expected, .first_step = (uint32_t)r->nsteps};
    if (!ccl_i_msccl_pick(r, "tb", atts, names, N, MULTICAST, v) ||
        !ccl_i_msccl_number(r, "tb", "id", v[ID], 0, INT32_MAX, &id))
        return;
    if (id != (int64_t)expected) {
        CCL_I_MSCCL_BAD(
            r, "tb id %lld of gpu %u: ids count from 0 in the order of the file, %u is next",
            (long long)id, r->rank, expected);
        return;
    }
    const char *send[PEER_FORMS] = {v[SEND], v[MULTICAST], v[OFFER]};
    const char *recv[PEER_FORMS] = {v[RECV], v[PULL], v[TAKE]};
    if (!any_peer_of(r, "tb", send_names, send, &tb.send_peer) ||
        !any_peer_of(r, "tb", recv_names, recv, &tb.recv_peer) ||
        !ccl_i_msccl_number(r, "tb", "chan", v[CHAN], 0, (int64_t)r->nchannels - 1, &chan))
        return;
    tb.channel = (uint32_t)chan;
    if (r->ntbs >= CCL_I_MAX_TRANSFERS) {
        CCL_I_MSCCL_BAD(r, "too many tbs: at most %u", CCL_I_MAX_TRANSFERS);
        return;
    }
    if (!ccl_grow(&r->tbs, &r->tbs_cap, r->ntbs + 1, sizeof tb)) {
        ccl_i_msccl_stop_nomem(r);
        return;
    }
    r->tbs[r->ntbs++] = tb;
}

static bool type_of(reader_t *r, const char *text, uint8_t *out) {
    for (unsigned t = 0; t <= CCL_PRIM_NOP; t++) {
        if (strcmp(text, ccl_primitive_name((ccl_primitive_t)t)) == 0) {
            *out = (uint8_t)t;
            return true;
        }
    }
    CCL_I_MSCCL_BAD(
        r, "step type '%.40s': one of s, r, rcs, rrs, rrc, rrcs, cpy, re, nop is needed", text);
    return false;
}

static bool buffer_of(reader_t *r, const char *name, const char *text, uint8_t *out) {
    static const char *const full[] = {"input", "output", "scratch"};
    for (uint8_t b = 0; b < 3; b++) {
        if ((text[0] == full[b][0] && text[1] == 0) || strcmp(text, full[b]) == 0) {
            *out = b;
            return true;
        }
    }
    CCL_I_MSCCL_BAD(r, "step %s '%.40s': i, o or s is needed", name, text);
    return false;
}

static bool offsets_of(reader_t *r, ccl_step_t *step, const char *src, const char *dst,
                       const char *count) {
    int64_t src_off, dst_off, cnt;
    int64_t min = step->type == CCL_PRIM_NOP ? -1 : 0; /* compilers give a nop -1 */
    if (!ccl_i_msccl_number(r, "step", "srcoff", src, min, INT32_MAX, &src_off) ||
        !ccl_i_msccl_number(r, "step", "dstoff", dst, min, INT32_MAX, &dst_off) ||
        !ccl_i_msccl_number(r, "step", "cnt", count, 0, INT32_MAX, &cnt))
        return false;
    if (step->type == CCL_PRIM_NOP)
        return true;
    if (cnt == 0) {
        CCL_I_MSCCL_BAD(r, "step cnt 0: only a nop moves nothing");
        return false;
    }
    if (src_off + cnt > INT32_MAX || dst_off + cnt > INT32_MAX) {
        CCL_I_MSCCL_BAD(r, "step offset and cnt reach beyond 2^31 chunks");
        return false;
    }
    step->src_off = (uint32_t)src_off;
    step->dst_off = (uint32_t)dst_off;
    step->count = (uint32_t)cnt;
    return true;
}

/** A step of a block that several connections share: its tb has none, it has all three. */
static bool step_peers(reader_t *r, const ccl_tb_t *tb, const char *const *send,
                       const char *const *recv, const char *chan, ccl_peers_t *out) {
    int64_t channel;
    if (tb->send_peer != CCL_NONE || tb->recv_peer != CCL_NONE) {
        CCL_I_MSCCL_BAD(r, "step send, recv and chan are for a tb with send -1 and recv -1");
        return false;
    }
    if (!send[PEER_RANK] || !recv[PEER_RANK] || !chan) {
        CCL_I_MSCCL_BAD(r, "step lacks %s: send, recv and chan come together",
                        !send[PEER_RANK]   ? "send"
                        : !recv[PEER_RANK] ? "recv"
                                           : "chan");
        return false;
    }
    if (!any_peer_of(r, "step", send_names, send, &out->send_peer) ||
        !any_peer_of(r, "step", recv_names, recv, &out->recv_peer) ||
        !ccl_i_msccl_number(r, "step", "chan", chan, 0, (int64_t)r->nchannels - 1, &channel))
        return false;
    out->channel = (uint32_t)channel;
    return true;
}

/** Remembers the connections of the step to come; the first time also those of all before. */
static bool keep_peers(reader_t *r, ccl_peers_t peers) {
    bool first = !r->peers;
    if (!ccl_grow(&r->peers, &r->peers_cap, r->nsteps + 1, sizeof *r->peers)) {
        ccl_i_msccl_stop_nomem(r);
        return false;
    }
    for (size_t t = 0; first && t < r->ntbs; t++) {
        const ccl_tb_t *tb = &r->tbs[t];
        for (uint32_t i = 0; i < tb->nsteps; i++)
            r->peers[tb->first_step + i] = (ccl_peers_t){tb->send_peer, tb->recv_peer, tb->channel};
    }
    r->peers[r->nsteps] = peers;
    return true;
}

/* Attributes of <step>: those before STAGE must be there. */
enum {
    S,
    TYPE,
    SRCBUF,
    SRCOFF,
    DSTBUF,
    DSTOFF,
    CNT,
    DEPID,
    DEPS,
    HASDEP,
    STAGE,
    SEND,
    RECV,
    CHAN,
    MULTICAST,
    OFFER,
    PULL,
    TAKE,
    N
};
static const char *const step_names[N] = {
    "s",      "type",  "srcbuf", "srcoff", "dstbuf", "dstoff",    "cnt",   "depid", "deps",
    "hasdep", "stage", "send",   "recv",   "chan",   "multicast", "offer", "pull",  "take"};

/** All but its peers. */
static bool read_step(reader_t *r, const char **v, ccl_step_t *step, ccl_step_mark_t *mark) {
    int64_t s, depid, deps, stage = 0;
    bool has_dep;
    if (!ccl_i_msccl_number(r, "step", "s", v[S], 0, INT32_MAX, &s) ||
        !type_of(r, v[TYPE], &step->type) || !buffer_of(r, "srcbuf", v[SRCBUF], &step->src_buf) ||
        !buffer_of(r, "dstbuf", v[DSTBUF], &step->dst_buf) ||
        !offsets_of(r, step, v[SRCOFF], v[DSTOFF], v[CNT]) ||
        !ccl_i_msccl_number(r, "step", "depid", v[DEPID], -1, INT32_MAX, &depid) ||
        !ccl_i_msccl_number(r, "step", "deps", v[DEPS], -1, INT32_MAX, &deps) ||
        !ccl_i_msccl_flag(r, "step", "hasdep", v[HASDEP], &has_dep) ||
        (v[STAGE] && !ccl_i_msccl_number(r, "step", "stage", v[STAGE], 0, UINT16_MAX, &stage)))
        return false;
    if ((depid < 0) != (deps < 0)) {
        CCL_I_MSCCL_BAD(r, "step depid %lld with deps %lld: both or neither must be -1",
                        (long long)depid, (long long)deps);
        return false;
    }
    *mark = (ccl_step_mark_t){(uint32_t)s, (uint32_t)ccl_i_msccl_line(r)};
    step->dep_tb = depid < 0 ? CCL_NONE : (uint32_t)depid;
    step->dep_step = deps < 0 ? CCL_NONE : (uint32_t)deps; /* still its s; see resolve_deps */
    step->has_dep = has_dep ? 1 : 0;
    step->stage = (uint16_t)stage;
    return true;
}

/** Who it sends to and receives from: its block's peers, or its own. @param own  it has its own */
static bool read_peers(reader_t *r, const char **v, const ccl_step_t *step, ccl_peers_t *peers,
                       bool *own) {
    const ccl_tb_t *tb = &r->tbs[r->ntbs - 1];
    *peers = (ccl_peers_t){tb->send_peer, tb->recv_peer, tb->channel};
    const char *send[PEER_FORMS] = {v[SEND], v[MULTICAST], v[OFFER]};
    const char *recv[PEER_FORMS] = {v[RECV], v[PULL], v[TAKE]};
    *own = v[CHAN] || v[SEND] || v[MULTICAST] || v[OFFER] || v[RECV] || v[PULL] || v[TAKE];
    if (*own && !step_peers(r, tb, send, recv, v[CHAN], peers))
        return false;
    if (ccl_primitive_sends(step->type) && peers->send_peer == CCL_NONE) {
        CCL_I_MSCCL_BAD(r, "step type %s sends, but its tb has send -1", v[TYPE]);
        return false;
    }
    if (ccl_primitive_receives(step->type) && peers->recv_peer == CCL_NONE) {
        CCL_I_MSCCL_BAD(r, "step type %s receives, but its tb has recv -1", v[TYPE]);
        return false;
    }
    return true;
}

static void open_step(reader_t *r, const XML_Char **atts) {
    const char *v[N];
    ccl_step_t step = {0};
    ccl_step_mark_t mark;
    ccl_peers_t peers;
    bool own;
    if (!ccl_i_msccl_pick(r, "step", atts, step_names, N, STAGE, v) ||
        !read_step(r, v, &step, &mark) || !read_peers(r, v, &step, &peers, &own))
        return;
    if (r->nsteps >= CCL_I_MAX_TRANSFERS) {
        CCL_I_MSCCL_BAD(r, "too many steps: at most %u", CCL_I_MAX_TRANSFERS);
        return;
    }
    if (!ccl_grow(&r->steps, &r->steps_cap, r->nsteps + 1, sizeof step) ||
        !ccl_grow(&r->marks, &r->marks_cap, r->nsteps + 1, sizeof mark)) {
        ccl_i_msccl_stop_nomem(r);
        return;
    }
    if ((own || r->peers) && !keep_peers(r, peers))
        return;
    r->marks[r->nsteps] = mark;
    r->steps[r->nsteps++] = step;
    r->tbs[r->ntbs - 1].nsteps++;
}

/** Turn every `deps` of the gpu that just ended from an `s` into an index. */
static void resolve_deps(reader_t *r) {
    if (r->gpu_first_tb == r->ntbs)
        return;
    ccl_status_t status = ccl_i_xml_resolve_deps(r->file, r->tbs + r->gpu_first_tb,
                                                 (uint32_t)r->ntbs - r->gpu_first_tb, r->steps,
                                                 r->marks, r->nsteps, r->err);
    if (status != CCL_OK)
        ccl_i_msccl_stop(r, status);
}

/* ---------------------------------------------------------------- elements */

static void XMLCALL open_element(void *user, const XML_Char *element, const XML_Char **atts) {
    reader_t *r = user;
    if (r->status != CCL_OK)
        return;
    if (r->where == DEPTH_TOP && strcmp(element, "algo") == 0) {
        r->where = DEPTH_ALGO;
        ccl_i_msccl_open_algo(r, atts);
    } else if (r->where == DEPTH_ALGO && strcmp(element, "gpu") == 0) {
        r->where = DEPTH_GPU;
        ccl_i_msccl_open_gpu(r, atts);
    } else if (r->where == DEPTH_ALGO && strcmp(element, "demand") == 0) {
        r->where = DEPTH_DEMAND;
        ccl_i_msccl_open_demand(r, atts);
    } else if (r->where == DEPTH_ALGO && strcmp(element, "group") == 0) {
        r->where = DEPTH_GROUP;
        ccl_i_msccl_open_group(r, atts);
    } else if (r->where == DEPTH_DEMAND && strcmp(element, "chunk") == 0) {
        r->where = DEPTH_CHUNK;
        ccl_i_msccl_open_chunk(r, atts);
    } else if (r->where == DEPTH_GPU && strcmp(element, "tb") == 0) {
        r->where = DEPTH_TB;
        open_tb(r, atts);
    } else if (r->where == DEPTH_GPU && strcmp(element, "copy") == 0) {
        /* Left by TACCL: the rank's own chunk starts in both buffers. No executor reads it. */
        r->where = DEPTH_COPY;
    } else if (r->where == DEPTH_TB && strcmp(element, "step") == 0) {
        r->where = DEPTH_STEP;
        open_step(r, atts);
    } else {
        static const char *const wanted[] = {[DEPTH_TOP] = "an MSCCL program starts with algo",
                                             [DEPTH_ALGO] = "algo holds gpu",
                                             [DEPTH_GPU] = "gpu holds tb",
                                             [DEPTH_TB] = "tb holds step",
                                             [DEPTH_STEP] = "step holds nothing",
                                             [DEPTH_COPY] = "copy holds nothing",
                                             [DEPTH_DEMAND] = "demand holds chunk",
                                             [DEPTH_CHUNK] = "chunk holds nothing",
                                             [DEPTH_GROUP] = "group holds nothing"};
        CCL_I_MSCCL_BAD(r, "element '%.40s' is out of place: %s", element, wanted[r->where]);
    }
}

static void XMLCALL close_element(void *user, const XML_Char *element) {
    reader_t *r = user;
    (void)element;
    if (r->status != CCL_OK)
        return;
    switch (r->where) {
    case DEPTH_GPU:
        resolve_deps(r);
        r->where = DEPTH_ALGO;
        break;
    case DEPTH_TB:
    case DEPTH_COPY:
        r->where = DEPTH_GPU;
        break;
    case DEPTH_STEP:
        r->where = DEPTH_TB;
        break;
    case DEPTH_DEMAND:
    case DEPTH_GROUP:
        r->where = DEPTH_ALGO;
        break;
    case DEPTH_CHUNK:
        r->where = DEPTH_DEMAND;
        break;
    default:
        r->where = DEPTH_TOP;
        break;
    }
}

static void XMLCALL text_inside(void *user, const XML_Char *text, int len) {
    reader_t *r = user;
    if (r->status != CCL_OK)
        return;
    for (int i = 0; i < len; i++) {
        if (!strchr(" \t\r\n", text[i])) {
            CCL_I_MSCCL_BAD(r, "text between the elements: only comments may stand there");
            return;
        }
    }
}

static void XMLCALL doctype(void *user, const XML_Char *name, const XML_Char *sysid,
                            const XML_Char *pubid, int internal) {
    reader_t *r = user;
    (void)name, (void)sysid, (void)pubid, (void)internal;
    if (r->status == CCL_OK)
        CCL_I_MSCCL_BAD(
            r, "a document type declaration is not accepted (entities are never expanded)");
}

/* ---------------------------------------------------------------- whole file */

static ccl_status_t parse(reader_t *r, const char *text, size_t len) {
    const size_t piece_max = (size_t)1 << 26;
    do {
        size_t piece = len < piece_max ? len : piece_max;
        enum XML_Status ok = XML_Parse(r->parser, text, (int)piece, piece == len);
        if (r->status != CCL_OK)
            return r->status;
        if (ok != XML_STATUS_OK) {
            enum XML_Error code = XML_GetErrorCode(r->parser);
            if (code == XML_ERROR_NO_MEMORY)
                return ccl_fail_nomem(r->err);
            return ccl_error_set(r->err, CCL_ERR_INPUT, r->file, ccl_i_msccl_line(r),
                                 ccl_i_msccl_column(r), "not well-formed XML: %s",
                                 XML_ErrorString(code));
        }
        text += piece;
        len -= piece;
    } while (len);
    if (r->gpus_seen != r->ngpus)
        return ccl_error_set(r->err, CCL_ERR_INPUT, r->file, r->algo_line, r->algo_column,
                             "ngpus is %u, but %u gpu elements follow", r->ngpus, r->gpus_seen);
    return CCL_OK;
}

static ccl_status_t make_collective(reader_t *r, ccl_collective_t **out) {
    if (r->kind == CCL_CUSTOM && !r->demand_name)
        return ccl_error_set(r->err, CCL_ERR_INPUT, r->file, r->algo_line, r->algo_column,
                             "coll custom without a demand element: nothing says what must arrive "
                             "where");
    bool custom = r->kind == CCL_CUSTOM;
    ccl_error_t inner = CCL_ERROR_INIT;
    uint32_t blocks = ccl_i_xml_chunks_per_block(r->kind, r->ngpus, r->nchunks);
    ccl_status_t status =
        custom ? ccl_i_demand_finish(&r->demand, r->demand_name, out, &inner)
               : ccl_collective_create(r->kind, r->ngpus, blocks, r->root, out, &inner);
    if (status == CCL_ERR_INPUT)
        return ccl_error_set(r->err, status, r->file, custom ? r->demand_line : r->algo_line,
                             custom ? r->demand_column : r->algo_column, "%s", inner.text);
    return status == CCL_OK ? CCL_OK : ccl_fail_nomem(r->err);
}

/** Without shares of its own, a buffer of a custom program must be laid out as its demand is. */
static ccl_status_t check_sizes(const reader_t *r, const ccl_collective_t *coll) {
    for (uint32_t i = 0; i < 3 * r->ngpus; i++) {
        if (r->shares[i] || r->buffer_len[i] == 0)
            continue;
        uint32_t rank = i / 3, want = 0;
        if (i % 3 == CCL_BUF_INPUT)
            want = ccl_collective_input_len(coll, rank);
        else if (i % 3 == CCL_BUF_OUTPUT)
            want = ccl_collective_output_len(coll, rank);
        if (r->buffer_len[i] != want)
            return ccl_error_set(r->err, CCL_ERR_INPUT, r->file, r->algo_line, r->algo_column,
                                 "gpu %u %c_chunks %u without %c_shares: the demand gives it %u",
                                 rank, "ios"[i % 3], r -> buffer_len[i], "ios"[i % 3], want);
    }
    return CCL_OK;
}

/** Built-in collectives have shares for all buffers or for none. */
static ccl_status_t set_shares(const reader_t *r, const ccl_collective_t *coll,
                               ccl_program_builder_t *b) {
    uint32_t given = 0, missing = CCL_NONE;
    for (uint32_t i = 0; i < 3 * r->ngpus; i++) {
        if (r->shares[i]) {
            ccl_program_builder_shares(b, i / 3, (ccl_buffer_t)(i % 3), r->shares[i]);
            given++;
        } else if (r->buffer_len[i]) {
            missing = i;
        }
    }
    if (coll->kind == CCL_CUSTOM)
        return check_sizes(r, coll);
    if (given && missing != CCL_NONE)
        return ccl_error_set(r->err, CCL_ERR_INPUT, r->file, r->algo_line, r->algo_column,
                             "gpu %u lacks %c_shares, which others have", missing / 3,
                             "ios"[missing % 3]);
    return CCL_OK;
}

static ccl_status_t build(reader_t *r, ccl_program_t **out) {
    ccl_collective_t *coll = NULL;
    CCL_TRY(make_collective(r, &coll));
    ccl_program_builder_t *b = ccl_program_builder_create(r->name, coll, r->nchunks, r->proto);
    if (!b)
        return ccl_fail_nomem(r->err);
    ccl_i_program_builder_keep_file_steps(b, r->marks);
    ccl_i_program_builder_channels(b, r->nchannels);
    ccl_program_builder_reserve(b, r->ntbs, r->nsteps);
    ccl_program_builder_place(b, r->in_place, r->out_of_place, r->min_bytes, r->max_bytes);
    for (uint32_t rank = 0; rank < r->ngpus; rank++) {
        for (unsigned k = 0; k < 3; k++)
            ccl_program_builder_buffer(b, rank, (ccl_buffer_t)k, r->buffer_len[3 * rank + k]);
    }
    ccl_status_t status = set_shares(r, coll, b);
    if (status != CCL_OK) {
        ccl_program_builder_destroy(b);
        return status;
    }
    for (size_t g = 0; g < r->groups.len; g++)
        ccl_program_builder_group(b, r->groups.list[g].ranks, r->groups.list[g].n);
    for (size_t t = 0; t < r->ntbs; t++) {
        const ccl_tb_t *tb = &r->tbs[t];
        uint32_t handle =
            ccl_program_builder_tb(b, tb->rank, tb->send_peer, tb->recv_peer, tb->channel);
        for (uint32_t i = 0; i < tb->nsteps; i++) {
            uint32_t at = tb->first_step + i;
            if (r->peers && tb->send_peer == CCL_NONE && tb->recv_peer == CCL_NONE)
                ccl_program_builder_step_peers(b, handle, r->steps[at], r->peers[at]);
            else
                ccl_program_builder_step(b, handle, r->steps[at]);
        }
    }
    CCL_TRY(ccl_program_builder_finish(b, out, r->err));
    (*out)->missing_attributes = r->missing_attributes;
    (*out)->piece_bytes = r->piece_bytes;
    ccl_origin_set((*out)->origin, "%s", r->origin);
    return CCL_OK;
}

ccl_status_t ccl_program_read_xml(const char *name, const char *text, size_t len,
                                  ccl_program_t **out, ccl_error_t *err) {
    reader_t r = {.file = name, .err = err, .status = CCL_OK, .where = DEPTH_TOP};
    r.parser = XML_ParserCreate(NULL);
    if (!r.parser)
        return ccl_fail_nomem(err);
    XML_SetUserData(r.parser, &r);
    XML_SetElementHandler(r.parser, open_element, close_element);
    XML_SetCharacterDataHandler(r.parser, text_inside);
    XML_SetStartDoctypeDeclHandler(r.parser, doctype);
    ccl_status_t status = parse(&r, text, len);
    XML_ParserFree(r.parser);
    if (status == CCL_OK)
        status = build(&r, out);
    free(r.name);
    free(r.gpu_seen);
    free(r.buffer_len);
    for (size_t i = 0; r.shares && i < 3 * (size_t)r.ngpus; i++)
        free(r.shares[i]);
    free(r.shares);
    free(r.demand_name);
    ccl_i_demand_fini(&r.demand);
    ccl_i_groups_fini(&r.groups);
    free(r.tbs);
    free(r.steps);
    free(r.marks);
    free(r.peers);
    return status;
}

ccl_status_t ccl_program_read(const char *path, ccl_program_t **out, ccl_error_t *err) {
    char *text;
    size_t len;
    CCL_TRY(ccl_file_read(path, CCL_FILE_MAX_BYTES, &text, &len, err));
    const char *name = strcmp(path, "-") == 0 ? "<stdin>" : path;
    ccl_status_t status = ccl_program_read_xml(name, text, len, out, err);
    if (status == CCL_OK && !(*out)->origin[0])
        ccl_origin_file((*out)->origin, path);
    free(text);
    return status;
}
