/*
 * The elements of MSCCL XML that come before thread blocks: algo, gpu, demand and group; and the
 * attributes of all elements.
 */
#include "schedule/formats/msccl_xml_reader_i.h"

#include <stdlib.h>
#include <string.h>

typedef ccl_i_msccl_reader_t reader_t;

/* ---------------------------------------------------------------- errors and attributes */

void ccl_i_msccl_stop(reader_t *r, ccl_status_t status) {
    if (r->status == CCL_OK)
        r->status = status;
    XML_StopParser(r->parser, XML_FALSE);
}

void ccl_i_msccl_stop_nomem(reader_t *r) {
    ccl_i_msccl_stop(r, ccl_fail_nomem(r->err));
}

int ccl_i_msccl_line(const reader_t *r) {
    XML_Size line = XML_GetCurrentLineNumber(r->parser);
    return line <= INT32_MAX ? (int)line : 0;
}

int ccl_i_msccl_column(const reader_t *r) {
    XML_Size column = XML_GetCurrentColumnNumber(r->parser);
    return column < INT32_MAX ? (int)column + 1 : 0;
}

/**
 * Pick the values of `names` out of atts, whatever their order; others are skipped.
 * The first `required` names must be there.
 */
bool ccl_i_msccl_pick(reader_t *r, const char *element, const XML_Char **atts,
                      const char *const *names, unsigned n, unsigned required,
                      const char **values) {
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
            CCL_I_MSCCL_BAD(r, "%s lacks the attribute '%s'", element, names[i]);
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

bool ccl_i_msccl_number(reader_t *r, const char *element, const char *name, const char *text,
                        int64_t min, int64_t max, int64_t *out) {
    if (integer(text, out) && *out >= min && *out <= max)
        return true;
    CCL_I_MSCCL_BAD(r, "%s %s '%.40s': an integer from %lld to %lld is needed", element, name, text,
                    (long long)min, (long long)max);
    return false;
}

bool ccl_i_msccl_flag(reader_t *r, const char *element, const char *name, const char *text,
                      bool *out) {
    int64_t value;
    if (!ccl_i_msccl_number(r, element, name, text, 0, 1, &value))
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
        CCL_I_MSCCL_BAD(r, "algo %s '%.40s': a number of bytes up to 2^63 is needed", name, text);
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
    CCL_I_MSCCL_BAD(
        r,
        "coll '%.40s' is not supported: allreduce, allgather, reducescatter, alltoall, broadcast, "
        "reduce, gather, scatter, sendrecv or custom",
        text);
    return false;
}

/* Attributes of <algo>: those up to COLL and INPLACE must be there. */
enum {
    NAME,
    PROTO,
    NCHANNELS,
    NCHUNKS,
    NGPUS,
    COLL,
    INPLACE,
    OUTOFPLACE,
    MIN,
    MAX,
    ROOT,
    ORIGIN,
    PIECE,
    N
};
static const char *const algo_names[N] = {
    "name",       "proto",    "nchannels", "nchunksperloop", "ngpus",  "coll", "inplace",
    "outofplace", "minBytes", "maxBytes",  "root",           "origin", "piece"};

static bool algo_proto(reader_t *r, const char *proto) {
    if (strcmp(proto, "Simple") != 0 && strcmp(proto, "LL") != 0 && strcmp(proto, "LL128") != 0) {
        CCL_I_MSCCL_BAD(r, "algo proto '%.40s': Simple, LL or LL128 is needed", proto);
        return false;
    }
    strcpy(r->proto, proto);
    return true;
}

/** Attributes that may be missing, but for the root. */
static bool algo_limits(reader_t *r, const char **v) {
    r->out_of_place = !r->in_place;
    if (v[OUTOFPLACE] &&
        !ccl_i_msccl_flag(r, "algo", "outofplace", v[OUTOFPLACE], &r->out_of_place))
        return false;
    r->missing_attributes = (v[OUTOFPLACE] ? 0 : CCL_ATTRIBUTE_OUTOFPLACE) |
                            (v[MIN] ? 0 : CCL_ATTRIBUTE_MINBYTES) |
                            (v[MAX] ? 0 : CCL_ATTRIBUTE_MAXBYTES);
    if ((v[MIN] && !byte_limit(r, "minBytes", v[MIN], &r->min_bytes)) ||
        (v[MAX] && !byte_limit(r, "maxBytes", v[MAX], &r->max_bytes)))
        return false;
    if (v[PIECE] && !byte_limit(r, "piece", v[PIECE], &r->piece_bytes))
        return false;
    return true;
}

void ccl_i_msccl_open_algo(reader_t *r, const XML_Char **atts) {
    const char *v[N];
    int64_t ngpus, nchunks, nchannels, root = 0;
    if (!ccl_i_msccl_pick(r, "algo", atts, algo_names, N, OUTOFPLACE, v))
        return;
    r->seen_algo = true;
    r->algo_line = ccl_i_msccl_line(r);
    r->algo_column = ccl_i_msccl_column(r);
    if (!algo_proto(r, v[PROTO]))
        return;
    if (!ccl_i_msccl_number(r, "algo", "ngpus", v[NGPUS], 1, CCL_I_XML_MAX_GPUS, &ngpus) ||
        !ccl_i_msccl_number(r, "algo", "nchunksperloop", v[NCHUNKS], 1, CCL_I_XML_MAX_CHUNKS,
                            &nchunks) ||
        !ccl_i_msccl_number(r, "algo", "nchannels", v[NCHANNELS], 1, CCL_I_MAX_CHANNELS,
                            &nchannels) ||
        !ccl_i_msccl_flag(r, "algo", "inplace", v[INPLACE], &r->in_place) ||
        !collective_of(r, v[COLL]))
        return;
    if (!algo_limits(r, v))
        return;
    if (v[ROOT] && !ccl_i_msccl_number(r, "algo", "root", v[ROOT], 0, ngpus - 1, &root))
        return;
    r->ngpus = (uint32_t)ngpus;
    r->nchunks = (uint32_t)nchunks;
    r->nchannels = (uint32_t)nchannels;
    ccl_origin_set(r->origin, "%s", v[ORIGIN] ? v[ORIGIN] : "");
    r->root = (uint32_t)root;
    if (ccl_i_xml_chunks_per_block(r->kind, r->ngpus, r->nchunks) == 0) {
        CCL_I_MSCCL_BAD(r, "nchunksperloop %u is not a multiple of ngpus %u, as coll %s needs",
                        r->nchunks, r->ngpus, ccl_collective_kind_name(r->kind));
        return;
    }
    r->name = strdup(v[NAME]);
    r->gpu_seen = calloc(r->ngpus, sizeof *r->gpu_seen);
    r->buffer_len = calloc(3 * (size_t)r->ngpus, sizeof *r->buffer_len);
    r->shares = calloc(3 * (size_t)r->ngpus, sizeof *r->shares);
    if (!r->name || !r->gpu_seen || !r->buffer_len || !r->shares)
        ccl_i_msccl_stop_nomem(r);
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
        ccl_i_msccl_stop_nomem(r);
        return;
    }
    while (shares && given < len && (p = next_word(p, word))) {
        if (ccl_parse_bytes(word, &shares[given], NULL) != CCL_OK)
            break;
        given++;
    }
    if (!shares || given < len || !only_blanks(p)) {
        CCL_I_MSCCL_BAD(r, "gpu %s: %u numbers, the share of each element, are needed", name, len);
        free(shares);
        return;
    }
    r->shares[3 * r->rank + buffer] = shares;
}

void ccl_i_msccl_open_gpu(reader_t *r, const XML_Char **atts) {
    enum { ID, INPUT, OUTPUT, SCRATCH, SHARES, N = SHARES + 3 };
    static const char *const names[N] = {"id",       "i_chunks", "o_chunks", "s_chunks",
                                         "i_shares", "o_shares", "s_shares"};
    const char *v[N];
    int64_t id, len;
    if (!ccl_i_msccl_pick(r, "gpu", atts, names, N, SHARES, v) ||
        !ccl_i_msccl_number(r, "gpu", "id", v[ID], 0, (int64_t)r->ngpus - 1, &id))
        return;
    if (r->gpu_seen[id]) {
        CCL_I_MSCCL_BAD(r, "gpu %lld is described twice", (long long)id);
        return;
    }
    r->gpu_seen[id] = 1;
    r->gpus_seen++;
    r->rank = (uint32_t)id;
    r->gpu_first_tb = (uint32_t)r->ntbs;
    for (unsigned b = 0; b < 3; b++) {
        if (!ccl_i_msccl_number(r, "gpu", names[INPUT + b], v[INPUT + b], 0, INT32_MAX, &len))
            return;
        r->buffer_len[3 * r->rank + b] = (uint32_t)len;
        if (v[SHARES + b])
            read_shares(r, names[SHARES + b], v[SHARES + b], b);
    }
}

/* ---------------------------------------------------------------- demand */

void ccl_i_msccl_open_demand(reader_t *r, const XML_Char **atts) {
    static const char *const names[] = {"name"};
    const char *name;
    if (!ccl_i_msccl_pick(r, "demand", atts, names, 1, 1, &name))
        return;
    if (r->kind != CCL_CUSTOM || r->demand_name) {
        CCL_I_MSCCL_BAD(r,
                        r->demand_name ? "a second demand element" : "a demand needs coll custom");
        return;
    }
    r->demand_line = ccl_i_msccl_line(r);
    r->demand_column = ccl_i_msccl_column(r);
    r->demand.nranks = r->ngpus;
    r->demand_name = strdup(name);
    if (!r->demand_name)
        ccl_i_msccl_stop_nomem(r);
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
        ccl_i_msccl_stop_nomem(r);
        return false;
    }
    *list_out = list;
    while (!only_blanks(p)) {
        p = next_word(p, word);
        if (!p || !integer(word, &rank) || rank < 0 || rank >= (int64_t)r->ngpus ||
            len == r->ngpus) {
            CCL_I_MSCCL_BAD(
                r,
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

void ccl_i_msccl_open_chunk(reader_t *r, const XML_Char **atts) {
    enum { SOURCES, DESTINATIONS, REDUCED, BYTES, N };
    static const char *const names[N] = {"sources", "destinations", "reduced", "bytes"};
    const char *v[N];
    uint32_t *sources = NULL, *dests = NULL, nsources = 0, ndests = 0;
    bool reduced;
    double bytes;
    ccl_error_t inner = CCL_ERROR_INIT;
    if (!ccl_i_msccl_pick(r, "chunk", atts, names, N, N, v) ||
        !read_ranks(r, "sources", v[SOURCES], &sources, &nsources) ||
        !read_ranks(r, "destinations", v[DESTINATIONS], &dests, &ndests) ||
        !ccl_i_msccl_flag(r, "chunk", "reduced", v[REDUCED], &reduced))
        goto end;
    if (ccl_parse_bytes(v[BYTES], &bytes, &inner) != CCL_OK) {
        CCL_I_MSCCL_BAD(r, "chunk bytes: %s", inner.text);
        goto end;
    }
    ccl_chunk_t what = {.sources = sources,
                        .dests = dests,
                        .nsources = nsources,
                        .ndests = ndests,
                        .share = bytes,
                        .reduced = reduced};
    ccl_status_t status = ccl_i_demand_add(&r->demand, &what, &inner);
    if (status == CCL_ERR_INPUT)
        CCL_I_MSCCL_BAD(r, "%s", inner.text);
    else if (status != CCL_OK)
        ccl_i_msccl_stop_nomem(r);
end:
    free(sources);
    free(dests);
}

/* ---------------------------------------------------------------- group */

/** A rank of a list; *end: the character after it. False: none is there. */
static bool rank_in(const char *text, uint32_t ngpus, uint32_t *out, const char **end) {
    uint64_t value = 0;
    const char *p = text;
    for (; *p >= '0' && *p <= '9' && value < ngpus; p++)
        value = value * 10 + (uint64_t)(*p - '0');
    if (p == text || value >= ngpus)
        return false;
    *out = (uint32_t)value;
    *end = p;
    return true;
}

/** Ranks and ranges of ranks, ascending: "0-7,9". False: not such a list. */
static bool ranks_of(const char *text, uint32_t ngpus, uint32_t *ranks, uint32_t *n_out) {
    uint32_t n = 0, first, last;
    const char *p = text;
    do {
        p += n > 0; /* a comma */
        if (!rank_in(p, ngpus, &first, &p))
            return false;
        last = first;
        if (*p == '-' && !rank_in(p + 1, ngpus, &last, &p))
            return false;
        if (last < first || (n > 0 && first <= ranks[n - 1]))
            return false;
        for (uint32_t rank = first; rank <= last; rank++)
            ranks[n++] = rank;
    } while (*p == ',');
    *n_out = n;
    return *p == 0;
}

void ccl_i_msccl_open_group(reader_t *r, const XML_Char **atts) {
    static const char *const names[] = {"id", "ranks"};
    const char *v[2];
    int64_t id;
    uint32_t n = 0, next = (uint32_t)r->groups.len;
    if (!ccl_i_msccl_pick(r, "group", atts, names, 2, 2, v) ||
        !ccl_i_msccl_number(r, "group", "id", v[0], 0, CCL_I_XML_MAX_GROUPS - 1, &id))
        return;
    if (r->gpus_seen > 0) {
        CCL_I_MSCCL_BAD(r, "group %lld stands after a gpu: groups come before", (long long)id);
        return;
    }
    if (id != (int64_t)next) {
        CCL_I_MSCCL_BAD(r, "group id %lld: ids count from 0 in the order of the file, %u is next",
                        (long long)id, next);
        return;
    }
    uint32_t *ranks = calloc(r->ngpus, sizeof *ranks);
    if (!ranks) {
        ccl_i_msccl_stop_nomem(r);
        return;
    }
    if (!ranks_of(v[1], r->ngpus, ranks, &n)) {
        CCL_I_MSCCL_BAD(r,
                        "group ranks '%.40s': ascending ranks from 0 to %u and ranges of them, as "
                        "in 0-3,5, are needed",
                        v[1], r->ngpus - 1);
    } else if ((r->group_ranks += n) > CCL_I_MAX_TRANSFERS) {
        CCL_I_MSCCL_BAD(r, "too many ranks in groups: at most %u", CCL_I_MAX_TRANSFERS);
    } else {
        uint32_t peer = ccl_i_groups_add(&r->groups, ranks, n);
        if (peer == CCL_NONE)
            ccl_i_msccl_stop_nomem(r);
        else if (r->groups.len == next)
            CCL_I_MSCCL_BAD(r, "group %u has the ranks of group %u", next, peer & ~CCL_PEER_GROUP);
    }
    free(ranks);
}
