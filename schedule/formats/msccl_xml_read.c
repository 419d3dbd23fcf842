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
#include "schedule/formats/demand_i.h"
#include "schedule/formats/msccl_xml_i.h"

#include <expat.h>
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
    DEPTH_CHUNK
};

typedef struct reader {
    XML_Parser parser;
    const char *file;
    ccl_error_t *err;
    ccl_status_t status;
    int where; /* which element is open */
    bool seen_algo;
    int algo_line, algo_column;

    char *name;
    char proto[8];
    ccl_collective_kind_t kind;
    uint32_t ngpus, nchunks, nchannels, root;
    bool in_place, out_of_place;
    double min_bytes, max_bytes;
    uint32_t missing_attributes;

    uint32_t gpus_seen, rank, gpu_first_tb;
    uint8_t *gpu_seen;    /* [ngpus] */
    uint32_t *buffer_len; /* [3 ngpus] */
    double **shares;      /* [3 ngpus], NULL where not given */
    ccl_i_demand_t demand;
    char *demand_name; /* NULL: no demand element yet */
    int demand_line, demand_column;
    ccl_tb_t *tbs;
    size_t ntbs, tbs_cap;
    ccl_step_t *steps;
    size_t nsteps, steps_cap;
    ccl_peers_t *peers; /* [nsteps] once a step gives its own; else NULL */
    size_t peers_cap;
} reader_t;

/* ---------------------------------------------------------------- errors and attributes */

static void stop(reader_t *r, ccl_status_t status) {
    if (r->status == CCL_OK)
        r->status = status;
    XML_StopParser(r->parser, XML_FALSE);
}

static void stop_nomem(reader_t *r) {
    stop(r, ccl_fail_nomem(r->err));
}

#define BAD(r_, ...)                                                                               \
    stop((r_), ccl_error_set((r_)->err, CCL_ERR_INPUT, (r_)->file, line_of(r_), column_of(r_),     \
                             __VA_ARGS__))

static int line_of(const reader_t *r) {
    XML_Size line = XML_GetCurrentLineNumber(r->parser);
    return line <= INT32_MAX ? (int)line : 0;
}

static int column_of(const reader_t *r) {
    XML_Size column = XML_GetCurrentColumnNumber(r->parser);
    return column < INT32_MAX ? (int)column + 1 : 0;
}

/**
 * Pick the values of `names` out of atts, whatever their order; others are skipped.
 * The first `required` names must be there.
 */
static bool pick(reader_t *r, const char *element, const XML_Char **atts, const char *const *names,
                 unsigned n, unsigned required, const char **values) {
    unsigned hint = 0;
    memset(values, 0, n * sizeof *values);
    for (; atts[0]; atts += 2) {
        for (unsigned i = 0; i < n; i++) {
            unsigned k = hint + i < n ? hint + i : hint + i - n;
            if (strcmp(names[k], atts[0]) == 0) {
                values[k] = atts[1];
                hint = k + 1 < n ? k + 1 : 0;
                break;
            }
        }
    }
    for (unsigned i = 0; i < required; i++) {
        if (!values[i]) {
            BAD(r, "%s lacks the attribute '%s'", element, names[i]);
            return false;
        }
    }
    return true;
}

/** A decimal integer, nothing else. */
static bool integer(const char *text, int64_t *out) {
    bool negative = *text == '-';
    int64_t value = 0;
    const char *p = text + (negative ? 1 : 0);
    if (!*p)
        return false;
    for (; *p; p++) {
        if (*p < '0' || *p > '9' || value > (INT64_MAX - 9) / 10)
            return false;
        value = value * 10 + (*p - '0');
    }
    *out = negative ? -value : value;
    return true;
}

static bool number(reader_t *r, const char *element, const char *name, const char *text,
                   int64_t min, int64_t max, int64_t *out) {
    if (integer(text, out) && *out >= min && *out <= max)
        return true;
    BAD(r, "%s %s '%.40s': an integer from %lld to %lld is needed", element, name, text,
        (long long)min, (long long)max);
    return false;
}

static bool flag(reader_t *r, const char *element, const char *name, const char *text, bool *out) {
    int64_t value;
    if (!number(r, element, name, text, 0, 1, &value))
        return false;
    *out = value == 1;
    return true;
}

static bool byte_limit(reader_t *r, const char *name, const char *text, double *out) {
    double value = 0;
    const char *p = text;
    for (; *p >= '0' && *p <= '9' && value <= CCL_I_XML_MAX_BYTES; p++)
        value = value * 10 + (*p - '0');
    if (p == text || *p || value > CCL_I_XML_MAX_BYTES) {
        BAD(r, "algo %s '%.40s': a number of bytes up to 2^63 is needed", name, text);
        return false;
    }
    /* Digit by digit rounds; every integer below 2^53 and every power of two is exact this way. */
    *out = strtod(text, NULL);
    return true;
}

/* ---------------------------------------------------------------- algo and gpu */

uint32_t ccl_i_xml_chunks_per_block(ccl_collective_kind_t kind, uint32_t nranks, uint32_t nchunks) {
    switch (kind) {
    case CCL_ALLREDUCE:
    case CCL_BROADCAST:
    case CCL_REDUCE:
    case CCL_SENDRECV:
    case CCL_CUSTOM:
        return nchunks;
    default:
        return nchunks % nranks == 0 ? nchunks / nranks : 0;
    }
}

static bool collective_of(reader_t *r, const char *text) {
    ccl_error_t ignored = CCL_ERROR_INIT;
    if (ccl_collective_kind_parse(text, &r->kind, &ignored) == CCL_OK)
        return true;
    BAD(r,
        "coll '%.40s' is not supported: allreduce, allgather, reducescatter, alltoall, broadcast, "
        "reduce, gather, scatter, sendrecv or custom",
        text);
    return false;
}

static void open_algo(reader_t *r, const XML_Char **atts) {
    enum { NAME, PROTO, NCHANNELS, NCHUNKS, NGPUS, COLL, INPLACE, OUTOFPLACE, MIN, MAX, ROOT, N };
    static const char *const names[N] = {"name",     "proto",    "nchannels", "nchunksperloop",
                                         "ngpus",    "coll",     "inplace",   "outofplace",
                                         "minBytes", "maxBytes", "root"};
    const char *v[N];
    int64_t ngpus, nchunks, nchannels, root = 0;
    if (!pick(r, "algo", atts, names, N, OUTOFPLACE, v))
        return;
    r->seen_algo = true;
    r->algo_line = line_of(r);
    r->algo_column = column_of(r);
    if (strcmp(v[PROTO], "Simple") != 0 && strcmp(v[PROTO], "LL") != 0 &&
        strcmp(v[PROTO], "LL128") != 0) {
        BAD(r, "algo proto '%.40s': Simple, LL or LL128 is needed", v[PROTO]);
        return;
    }
    strcpy(r->proto, v[PROTO]);
    if (!number(r, "algo", "ngpus", v[NGPUS], 1, CCL_I_XML_MAX_GPUS, &ngpus) ||
        !number(r, "algo", "nchunksperloop", v[NCHUNKS], 1, CCL_I_XML_MAX_CHUNKS, &nchunks) ||
        !number(r, "algo", "nchannels", v[NCHANNELS], 1, CCL_I_MAX_CHANNELS, &nchannels) ||
        !flag(r, "algo", "inplace", v[INPLACE], &r->in_place) || !collective_of(r, v[COLL]))
        return;
    r->out_of_place = !r->in_place;
    if (v[OUTOFPLACE] && !flag(r, "algo", "outofplace", v[OUTOFPLACE], &r->out_of_place))
        return;
    r->missing_attributes = (v[OUTOFPLACE] ? 0 : CCL_ATTRIBUTE_OUTOFPLACE) |
                            (v[MIN] ? 0 : CCL_ATTRIBUTE_MINBYTES) |
                            (v[MAX] ? 0 : CCL_ATTRIBUTE_MAXBYTES);
    if ((v[MIN] && !byte_limit(r, "minBytes", v[MIN], &r->min_bytes)) ||
        (v[MAX] && !byte_limit(r, "maxBytes", v[MAX], &r->max_bytes)))
        return;
    if (v[ROOT] && !number(r, "algo", "root", v[ROOT], 0, ngpus - 1, &root))
        return;
    r->ngpus = (uint32_t)ngpus;
    r->nchunks = (uint32_t)nchunks;
    r->nchannels = (uint32_t)nchannels;
    r->root = (uint32_t)root;
    if (ccl_i_xml_chunks_per_block(r->kind, r->ngpus, r->nchunks) == 0) {
        BAD(r, "nchunksperloop %u is not a multiple of ngpus %u, as coll %s needs", r->nchunks,
            r->ngpus, ccl_collective_kind_name(r->kind));
        return;
    }
    r->name = strdup(v[NAME]);
    r->gpu_seen = calloc(r->ngpus, sizeof *r->gpu_seen);
    r->buffer_len = calloc(3 * (size_t)r->ngpus, sizeof *r->buffer_len);
    r->shares = calloc(3 * (size_t)r->ngpus, sizeof *r->shares);
    if (!r->name || !r->gpu_seen || !r->buffer_len || !r->shares)
        stop_nomem(r);
}

/** One blank-separated word of at most 63 characters; NULL at the end or when it is longer. */
static const char *next_word(const char *p, char word[64]) {
    size_t len = 0;
    while (*p == ' ')
        p++;
    while (*p && *p != ' ' && len < 63)
        word[len++] = *p++;
    word[len] = 0;
    return len == 0 || (*p && *p != ' ') ? NULL : p;
}

static bool only_blanks(const char *p) {
    return p[strspn(p, " ")] == 0;
}

static void read_shares(reader_t *r, const char *name, const char *text, unsigned buffer) {
    uint32_t len = r->buffer_len[3 * r->rank + buffer];
    const char *p = text;
    char word[64];
    /* A share takes two characters at least, so the text bounds what is allocated. */
    double *shares = len <= strlen(text) ? calloc(len ? len : 1, sizeof *shares) : NULL;
    uint32_t given = 0;
    if (!shares && len <= strlen(text)) {
        stop_nomem(r);
        return;
    }
    while (shares && given < len && (p = next_word(p, word))) {
        if (ccl_parse_bytes(word, &shares[given], NULL) != CCL_OK)
            break;
        given++;
    }
    if (!shares || given < len || !only_blanks(p)) {
        BAD(r, "gpu %s: %u numbers, the share of each element, are needed", name, len);
        free(shares);
        return;
    }
    r->shares[3 * r->rank + buffer] = shares;
}

static void open_gpu(reader_t *r, const XML_Char **atts) {
    enum { ID, INPUT, OUTPUT, SCRATCH, SHARES, N = SHARES + 3 };
    static const char *const names[N] = {"id",       "i_chunks", "o_chunks", "s_chunks",
                                         "i_shares", "o_shares", "s_shares"};
    const char *v[N];
    int64_t id, len;
    if (!pick(r, "gpu", atts, names, N, SHARES, v) ||
        !number(r, "gpu", "id", v[ID], 0, (int64_t)r->ngpus - 1, &id))
        return;
    if (r->gpu_seen[id]) {
        BAD(r, "gpu %lld is described twice", (long long)id);
        return;
    }
    r->gpu_seen[id] = 1;
    r->gpus_seen++;
    r->rank = (uint32_t)id;
    r->gpu_first_tb = (uint32_t)r->ntbs;
    for (unsigned b = 0; b < 3; b++) {
        if (!number(r, "gpu", names[INPUT + b], v[INPUT + b], 0, INT32_MAX, &len))
            return;
        r->buffer_len[3 * r->rank + b] = (uint32_t)len;
        if (v[SHARES + b])
            read_shares(r, names[SHARES + b], v[SHARES + b], b);
    }
}

/* ---------------------------------------------------------------- demand */

static void open_demand(reader_t *r, const XML_Char **atts) {
    static const char *const names[] = {"name"};
    const char *name;
    if (!pick(r, "demand", atts, names, 1, 1, &name))
        return;
    if (r->kind != CCL_CUSTOM || r->demand_name) {
        BAD(r, r->demand_name ? "a second demand element" : "a demand needs coll custom");
        return;
    }
    r->demand_line = line_of(r);
    r->demand_column = column_of(r);
    r->demand.nranks = r->ngpus;
    r->demand_name = strdup(name);
    if (!r->demand_name)
        stop_nomem(r);
}

/** "all" or ranks between blanks. @param list_out malloc'ed */
static bool read_ranks(reader_t *r, const char *name, const char *text, uint32_t **list_out,
                       uint32_t *len_out) {
    char word[64];
    const char *p = text;
    int64_t rank;
    if (strcmp(text, "all") == 0) {
        *len_out = CCL_I_DEMAND_ALL;
        return true;
    }
    size_t room = strlen(text) / 2 + 1;
    uint32_t *list = calloc(room, sizeof *list);
    uint32_t len = 0;
    if (!list) {
        stop_nomem(r);
        return false;
    }
    *list_out = list;
    while (!only_blanks(p)) {
        p = next_word(p, word);
        if (!p || !integer(word, &rank) || rank < 0 || rank >= (int64_t)r->ngpus ||
            len == r->ngpus) {
            BAD(r,
                "chunk %s: 'all', or different ranks from 0 to %u with blanks between, are "
                "needed",
                name, r->ngpus - 1);
            return false;
        }
        list[len++] = (uint32_t)rank;
    }
    *len_out = len;
    return true;
}

static void open_chunk(reader_t *r, const XML_Char **atts) {
    enum { SOURCES, DESTINATIONS, REDUCED, BYTES, N };
    static const char *const names[N] = {"sources", "destinations", "reduced", "bytes"};
    const char *v[N];
    uint32_t *sources = NULL, *dests = NULL, nsources = 0, ndests = 0;
    bool reduced;
    double bytes;
    ccl_error_t inner = CCL_ERROR_INIT;
    if (!pick(r, "chunk", atts, names, N, N, v) ||
        !read_ranks(r, "sources", v[SOURCES], &sources, &nsources) ||
        !read_ranks(r, "destinations", v[DESTINATIONS], &dests, &ndests) ||
        !flag(r, "chunk", "reduced", v[REDUCED], &reduced))
        goto end;
    if (ccl_parse_bytes(v[BYTES], &bytes, &inner) != CCL_OK) {
        BAD(r, "chunk bytes: %s", inner.text);
        goto end;
    }
    ccl_status_t status =
        ccl_i_demand_add(&r->demand, sources, nsources, dests, ndests, reduced, bytes, &inner);
    if (status == CCL_ERR_INPUT)
        BAD(r, "%s", inner.text);
    else if (status != CCL_OK)
        stop_nomem(r);
end:
    free(sources);
    free(dests);
}

/* ---------------------------------------------------------------- tb and step */

static bool peer_of(reader_t *r, const char *element, const char *name, const char *text,
                    uint32_t *out) {
    int64_t peer;
    if (!number(r, element, name, text, -1, (int64_t)r->ngpus - 1, &peer))
        return false;
    if (peer == (int64_t)r->rank) {
        BAD(r, "%s %s is its own gpu %u: another gpu or -1 is needed", element, name, r->rank);
        return false;
    }
    *out = peer < 0 ? CCL_NONE : (uint32_t)peer;
    return true;
}

static void open_tb(reader_t *r, const XML_Char **atts) {
    enum { ID, SEND, RECV, CHAN, N };
    static const char *const names[N] = {"id", "send", "recv", "chan"};
    const char *v[N];
    int64_t id, chan;
    uint32_t expected = (uint32_t)r->ntbs - r->gpu_first_tb;
    ccl_tb_t tb = {.rank = r->rank, .id = expected, .first_step = (uint32_t)r->nsteps};
    if (!pick(r, "tb", atts, names, N, N, v) || !number(r, "tb", "id", v[ID], 0, INT32_MAX, &id))
        return;
    if (id != (int64_t)expected) {
        BAD(r, "tb id %lld of gpu %u: ids count from 0 in the order of the file, %u is next",
            (long long)id, r->rank, expected);
        return;
    }
    if (!peer_of(r, "tb", "send", v[SEND], &tb.send_peer) ||
        !peer_of(r, "tb", "recv", v[RECV], &tb.recv_peer) ||
        !number(r, "tb", "chan", v[CHAN], 0, (int64_t)r->nchannels - 1, &chan))
        return;
    tb.channel = (uint32_t)chan;
    if (r->ntbs >= CCL_I_MAX_TRANSFERS) {
        BAD(r, "too many tbs: at most %u", CCL_I_MAX_TRANSFERS);
        return;
    }
    if (!ccl_grow(&r->tbs, &r->tbs_cap, r->ntbs + 1, sizeof tb)) {
        stop_nomem(r);
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
    BAD(r, "step type '%.40s': one of s, r, rcs, rrs, rrc, rrcs, cpy, re, nop is needed", text);
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
    BAD(r, "step %s '%.40s': i, o or s is needed", name, text);
    return false;
}

static bool offsets_of(reader_t *r, ccl_step_t *step, const char *src, const char *dst,
                       const char *count) {
    int64_t src_off, dst_off, cnt;
    int64_t min = step->type == CCL_PRIM_NOP ? -1 : 0; /* compilers give a nop -1 */
    if (!number(r, "step", "srcoff", src, min, INT32_MAX, &src_off) ||
        !number(r, "step", "dstoff", dst, min, INT32_MAX, &dst_off) ||
        !number(r, "step", "cnt", count, 0, INT32_MAX, &cnt))
        return false;
    if (step->type == CCL_PRIM_NOP)
        return true;
    if (cnt == 0) {
        BAD(r, "step cnt 0: only a nop moves nothing");
        return false;
    }
    if (src_off + cnt > INT32_MAX || dst_off + cnt > INT32_MAX) {
        BAD(r, "step offset and cnt reach beyond 2^31 chunks");
        return false;
    }
    step->src_off = (uint32_t)src_off;
    step->dst_off = (uint32_t)dst_off;
    step->count = (uint32_t)cnt;
    return true;
}

/** A step of a block that several connections share: its tb has none, it has all three. */
static bool step_peers(reader_t *r, const ccl_tb_t *tb, const char *send, const char *recv,
                       const char *chan, ccl_peers_t *out) {
    int64_t channel;
    if (tb->send_peer != CCL_NONE || tb->recv_peer != CCL_NONE) {
        BAD(r, "step send, recv and chan are for a tb with send -1 and recv -1");
        return false;
    }
    if (!send || !recv || !chan) {
        BAD(r, "step lacks %s: send, recv and chan come together",
            !send   ? "send"
            : !recv ? "recv"
                    : "chan");
        return false;
    }
    if (!peer_of(r, "step", "send", send, &out->send_peer) ||
        !peer_of(r, "step", "recv", recv, &out->recv_peer) ||
        !number(r, "step", "chan", chan, 0, (int64_t)r->nchannels - 1, &channel))
        return false;
    out->channel = (uint32_t)channel;
    return true;
}

/** Remembers the connections of the step to come; the first time also those of all before. */
static bool keep_peers(reader_t *r, ccl_peers_t peers) {
    bool first = !r->peers;
    if (!ccl_grow(&r->peers, &r->peers_cap, r->nsteps + 1, sizeof *r->peers)) {
        stop_nomem(r);
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

static void open_step(reader_t *r, const XML_Char **atts) {
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
        N
    };
    static const char *const names[N] = {"s",      "type", "srcbuf", "srcoff", "dstbuf",
                                         "dstoff", "cnt",  "depid",  "deps",   "hasdep",
                                         "stage",  "send", "recv",   "chan"};
    const char *v[N];
    int64_t s, depid, deps, stage = 0;
    bool has_dep;
    ccl_step_t step = {0};
    const ccl_tb_t *tb = &r->tbs[r->ntbs - 1];
    if (!pick(r, "step", atts, names, N, STAGE, v) ||
        !number(r, "step", "s", v[S], 0, INT32_MAX, &s) || !type_of(r, v[TYPE], &step.type) ||
        !buffer_of(r, "srcbuf", v[SRCBUF], &step.src_buf) ||
        !buffer_of(r, "dstbuf", v[DSTBUF], &step.dst_buf) ||
        !offsets_of(r, &step, v[SRCOFF], v[DSTOFF], v[CNT]) ||
        !number(r, "step", "depid", v[DEPID], -1, INT32_MAX, &depid) ||
        !number(r, "step", "deps", v[DEPS], -1, INT32_MAX, &deps) ||
        !flag(r, "step", "hasdep", v[HASDEP], &has_dep) ||
        (v[STAGE] && !number(r, "step", "stage", v[STAGE], 0, UINT16_MAX, &stage)))
        return;
    if ((depid < 0) != (deps < 0)) {
        BAD(r, "step depid %lld with deps %lld: both or neither must be -1", (long long)depid,
            (long long)deps);
        return;
    }
    ccl_peers_t peers = {tb->send_peer, tb->recv_peer, tb->channel};
    bool own = v[SEND] || v[RECV] || v[CHAN];
    if (own && !step_peers(r, tb, v[SEND], v[RECV], v[CHAN], &peers))
        return;
    if (ccl_primitive_sends(step.type) && peers.send_peer == CCL_NONE) {
        BAD(r, "step type %s sends, but its tb has send -1", v[TYPE]);
        return;
    }
    if (ccl_primitive_receives(step.type) && peers.recv_peer == CCL_NONE) {
        BAD(r, "step type %s receives, but its tb has recv -1", v[TYPE]);
        return;
    }
    step.s = (uint32_t)s;
    step.dep_tb = depid < 0 ? CCL_NONE : (uint32_t)depid;
    step.dep_step = deps < 0 ? CCL_NONE : (uint32_t)deps; /* still its s; see resolve_deps */
    step.has_dep = has_dep ? 1 : 0;
    step.stage = (uint16_t)stage;
    step.line = (uint32_t)line_of(r);
    if (r->nsteps >= CCL_I_MAX_TRANSFERS) {
        BAD(r, "too many steps: at most %u", CCL_I_MAX_TRANSFERS);
        return;
    }
    if (!ccl_grow(&r->steps, &r->steps_cap, r->nsteps + 1, sizeof step)) {
        stop_nomem(r);
        return;
    }
    if ((own || r->peers) && !keep_peers(r, peers))
        return;
    r->steps[r->nsteps++] = step;
    r->tbs[r->ntbs - 1].nsteps++;
}

/** Turn every `deps` of the gpu that just ended from an `s` into an index. */
static void resolve_deps(reader_t *r) {
    if (r->gpu_first_tb == r->ntbs)
        return;
    size_t first = r->tbs[r->gpu_first_tb].first_step;
    ccl_status_t status = ccl_i_xml_resolve_deps(r->file, r->tbs + r->gpu_first_tb,
                                                 (uint32_t)r->ntbs - r->gpu_first_tb, r->steps,
                                                 first, r->nsteps, r->err);
    if (status != CCL_OK)
        stop(r, status);
}

/* ---------------------------------------------------------------- elements */

static void XMLCALL open_element(void *user, const XML_Char *element, const XML_Char **atts) {
    reader_t *r = user;
    if (r->status != CCL_OK)
        return;
    if (r->where == DEPTH_TOP && strcmp(element, "algo") == 0) {
        r->where = DEPTH_ALGO;
        open_algo(r, atts);
    } else if (r->where == DEPTH_ALGO && strcmp(element, "gpu") == 0) {
        r->where = DEPTH_GPU;
        open_gpu(r, atts);
    } else if (r->where == DEPTH_ALGO && strcmp(element, "demand") == 0) {
        r->where = DEPTH_DEMAND;
        open_demand(r, atts);
    } else if (r->where == DEPTH_DEMAND && strcmp(element, "chunk") == 0) {
        r->where = DEPTH_CHUNK;
        open_chunk(r, atts);
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
                                             [DEPTH_CHUNK] = "chunk holds nothing"};
        BAD(r, "element '%.40s' is out of place: %s", element, wanted[r->where]);
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
            BAD(r, "text between the elements: only comments may stand there");
            return;
        }
    }
}

static void XMLCALL doctype(void *user, const XML_Char *name, const XML_Char *sysid,
                            const XML_Char *pubid, int internal) {
    reader_t *r = user;
    (void)name, (void)sysid, (void)pubid, (void)internal;
    if (r->status == CCL_OK)
        BAD(r, "a document type declaration is not accepted (entities are never expanded)");
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
            return ccl_error_set(r->err, CCL_ERR_INPUT, r->file, line_of(r), column_of(r),
                                 "not well-formed XML: %s", XML_ErrorString(code));
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
    ccl_i_program_builder_keep_file_steps(b);
    ccl_i_program_builder_channels(b, r->nchannels);
    ccl_i_program_builder_reserve(b, r->ntbs, r->nsteps);
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
    free(r.tbs);
    free(r.steps);
    free(r.peers);
    return status;
}

ccl_status_t ccl_program_read(const char *path, ccl_program_t **out, ccl_error_t *err) {
    char *text;
    size_t len;
    CCL_TRY(ccl_file_read(path, CCL_FILE_MAX_BYTES, &text, &len, err));
    const char *name = strcmp(path, "-") == 0 ? "<stdin>" : path;
    ccl_status_t status = ccl_program_read_xml(name, text, len, out, err);
    free(text);
    return status;
}
