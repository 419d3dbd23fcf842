/*
 * Algorithms as SCCL and msccl-tools save them: docs/formats.md, "Schedule: SCCL".
 *
 * Chunks name who has them before (`pre`) and after (`post`) and an address; sends name addresses.
 * Chunks of one address are contributions to one value: that is how SCCL writes reductions.
 */
#include "schedule/schedule_i.h"
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

#define MAX_WORDS ((uint64_t)1 << 24) /* of contributions: addresses x ranks x ranks / 64 */

typedef struct reader {
    ccl_json_doc_t doc;
    ccl_json_at_t root, coll, chunks, steps;
    uint32_t nranks, nvalues, words;
    uint64_t *has;           /* [nvalues][nranks][words] contributions that a rank's copy holds */
    uint64_t *next;          /* the same after the step */
    uint64_t *want;          /* [nvalues][words] ranks that must have it */
    uint32_t *contributions; /* [nvalues] */
    ccl_error_t *err;
} reader_t;

static uint64_t *holds(const reader_t *r, uint64_t *of, uint32_t value, uint32_t rank) {
    return of + ((size_t)value * r->nranks + rank) * r->words;
}

static bool test_bit(const uint64_t *set, uint32_t i) {
    return set[i / 64] >> (i % 64) & 1;
}

static void set_bit(uint64_t *set, uint32_t i) {
    set[i / 64] |= (uint64_t)1 << (i % 64);
}

static bool any(const uint64_t *set, uint32_t words) {
    for (uint32_t w = 0; w < words; w++)
        if (set[w])
            return true;
    return false;
}

/* ---------------------------------------------------------------- head */

/** What kind of object it says to be; msccl-tools' predecessor wrote sccl_type. */
static ccl_status_t expect_type(const ccl_json_at_t *at, const char *wanted, ccl_error_t *err) {
    const char *type = NULL;
    CCL_TRY(ccl_json_object(at, true, err));
    ccl_json_at_t type_at = ccl_json_member(at, "msccl_type");
    if (!type_at.value)
        type_at = ccl_json_member(at, "sccl_type");
    CCL_TRY(ccl_json_string(&type_at, true, &type, err));
    if (strcmp(type, wanted) != 0)
        return ccl_json_fail(&type_at, err, "an object of type '%s' is needed, not '%.40s'", wanted,
                             type);
    return CCL_OK;
}

static ccl_status_t read_head(reader_t *r, const char **name) {
    size_t nchunks = 0, nsteps = 0;
    r->root = ccl_json_root(&r->doc);
    CCL_TRY(expect_type(&r->root, "algorithm", r->err));
    ccl_json_at_t name_at = ccl_json_member(&r->root, "name");
    CCL_TRY(ccl_json_string(&name_at, false, name, r->err));
    r->coll = ccl_json_member(&r->root, "collective");
    CCL_TRY(expect_type(&r->coll, "collective", r->err));
    ccl_json_at_t nodes_at = ccl_json_member(&r->coll, "nodes");
    CCL_TRY(ccl_json_u32(&nodes_at, true, CCL_I_MAX_RANKS, &r->nranks, r->err));
    r->chunks = ccl_json_member(&r->coll, "chunks");
    CCL_TRY(ccl_json_array(&r->chunks, true, &nchunks, r->err));
    r->steps = ccl_json_member(&r->root, "steps");
    CCL_TRY(ccl_json_array(&r->steps, true, &nsteps, r->err));
    if (r->nranks < 1 || nchunks < 1)
        return ccl_json_fail(&r->coll, r->err, "a collective has a node and a chunk at least");
    if (nchunks > CCL_I_MAX_CHUNKS || nsteps > CCL_I_MAX_STEP_NUMBER)
        return ccl_json_fail(&r->root, r->err, "too many chunks or steps");
    return CCL_OK;
}

/* ---------------------------------------------------------------- chunks */

/** Calls set_bit for each rank of a list. */
static ccl_status_t read_ranks(const reader_t *r, const ccl_json_at_t *at, uint64_t *set) {
    size_t n = 0;
    CCL_TRY(ccl_json_array(at, true, &n, r->err));
    for (size_t i = 0; i < n; i++) {
        uint32_t rank = 0;
        ccl_json_at_t item = ccl_json_element(at, i);
        CCL_TRY(ccl_json_u32(&item, true, r->nranks - 1, &rank, r->err));
        set_bit(set, rank);
    }
    return CCL_OK;
}

static ccl_status_t read_chunk(reader_t *r, size_t i, uint64_t *pre, uint64_t *post) {
    ccl_json_at_t at = ccl_json_element(&r->chunks, i);
    uint32_t addr = 0, nsources = 0;
    CCL_TRY(expect_type(&at, "chunk", r->err));
    ccl_json_at_t addr_at = ccl_json_member(&at, "addr");
    ccl_json_at_t pre_at = ccl_json_member(&at, "pre");
    ccl_json_at_t post_at = ccl_json_member(&at, "post");
    CCL_TRY(ccl_json_u32(&addr_at, true, r->nvalues - 1, &addr, r->err));
    memset(pre, 0, r->words * sizeof *pre);
    memset(post, 0, r->words * sizeof *post);
    CCL_TRY(read_ranks(r, &pre_at, pre));
    CCL_TRY(read_ranks(r, &post_at, post));
    for (uint32_t rank = 0; rank < r->nranks; rank++) {
        if (!test_bit(pre, rank))
            continue;
        nsources++;
        if (any(holds(r, r->has, addr, rank), r->words))
            return ccl_json_fail(&at, r->err, "GPU %u contributes twice to address %u", rank, addr);
        set_bit(holds(r, r->has, addr, rank), rank);
    }
    if (nsources != 1)
        return ccl_json_fail(&at, r->err, "a chunk that %u GPUs have before; 1 is needed",
                             nsources);
    if (r->contributions[addr]++ &&
        memcmp(post, &r->want[(size_t)addr * r->words], r->words * sizeof *post) != 0)
        return ccl_json_fail(&at, r->err, "chunks of address %u go to different GPUs", addr);
    memcpy(&r->want[(size_t)addr * r->words], post, r->words * sizeof *post);
    return CCL_OK;
}

static ccl_status_t read_chunks(reader_t *r) {
    size_t nchunks = json_array_size(r->chunks.value);
    for (size_t i = 0; i < nchunks; i++) { /* addresses are dense, or nearly */
        ccl_json_at_t at = ccl_json_element(&r->chunks, i);
        ccl_json_at_t addr_at = ccl_json_member(&at, "addr");
        uint32_t addr = 0;
        CCL_TRY(ccl_json_u32(&addr_at, true, (uint32_t)nchunks - 1, &addr, r->err));
        r->nvalues = addr + 1 > r->nvalues ? addr + 1 : r->nvalues;
    }
    r->words = (r->nranks + 63) / 64;
    uint64_t words = (uint64_t)r->nvalues * r->nranks * r->words;
    if (words > MAX_WORDS)
        return ccl_json_fail(&r->coll, r->err, "%u addresses on %u GPUs are too many", r->nvalues,
                             r->nranks);
    uint64_t *sets = calloc(2 * (size_t)r->words, sizeof *sets);
    r->has = calloc(words, sizeof *r->has);
    r->next = calloc(words, sizeof *r->next);
    r->want = calloc((size_t)r->nvalues * r->words, sizeof *r->want);
    r->contributions = calloc(r->nvalues, sizeof *r->contributions);
    ccl_status_t status = CCL_OK;
    if (!sets || !r->has || !r->next || !r->want || !r->contributions)
        status = ccl_fail_nomem(r->err);
    for (size_t i = 0; i < nchunks && status == CCL_OK; i++)
        status = read_chunk(r, i, sets, sets + r->words);
    free(sets);
    for (uint32_t v = 0; v < r->nvalues && status == CCL_OK; v++) {
        if (!r->contributions[v] || !any(&r->want[(size_t)v * r->words], r->words))
            status = ccl_json_fail(&r->chunks, r->err,
                                   "address %u has no chunk, or nobody must have it", v);
    }
    return status;
}

/* ---------------------------------------------------------------- collective */

static bool same_ranks(const uint32_t *list, uint32_t len, const uint64_t *set, uint32_t nranks) {
    uint32_t n = 0;
    for (uint32_t rank = 0; rank < nranks; rank++)
        n += test_bit(set, rank);
    for (uint32_t i = 0; i < len; i++)
        if (!test_bit(set, list[i]))
            return false;
    return n == len;
}

/** The contributors of a value are whoever holds something at the start. */
static void sources_of(const reader_t *r, uint32_t v, uint64_t *set) {
    memset(set, 0, r->words * sizeof *set);
    for (uint32_t rank = 0; rank < r->nranks; rank++)
        if (any(holds(r, r->has, v, rank), r->words))
            set_bit(set, rank);
}

static bool is_collective(const reader_t *r, const ccl_collective_t *c, uint64_t *set) {
    if (c->nchunks != r->nvalues)
        return false;
    for (uint32_t v = 0; v < r->nvalues; v++) {
        const ccl_chunk_t *chunk = &c->chunks[v];
        sources_of(r, v, set);
        if (!same_ranks(chunk->sources, chunk->nsources, set, r->nranks) ||
            !same_ranks(chunk->dests, chunk->ndests, &r->want[(size_t)v * r->words], r->nranks))
            return false;
    }
    return true;
}

static uint32_t lowest(const uint64_t *set, uint32_t nranks) {
    uint32_t rank = 0;
    while (rank < nranks && !test_bit(set, rank))
        rank++;
    return rank < nranks ? rank : 0;
}

static ccl_status_t make_custom(const reader_t *r, const char *name, uint64_t *set,
                                ccl_collective_t **out) {
    size_t members = 0;
    for (uint32_t v = 0; v < r->nvalues; v++)
        members += r->contributions[v];
    for (size_t w = 0; w < (size_t)r->nvalues * r->words; w++)
        members += (size_t)__builtin_popcountll(r->want[w]);
    ccl_chunk_t *chunks = calloc(r->nvalues, sizeof *chunks);
    uint32_t *list = malloc((members + 1) * sizeof *list);
    ccl_status_t status = chunks && list ? CCL_OK : ccl_fail_nomem(r->err);
    uint32_t n = 0;
    for (uint32_t v = 0; v < r->nvalues && status == CCL_OK; v++) {
        ccl_chunk_t *c = &chunks[v];
        const uint64_t *want = &r->want[(size_t)v * r->words];
        sources_of(r, v, set);
        c->share = 1; /* a byte */
        c->sources = list + n;
        for (uint32_t rank = 0; rank < r->nranks; rank++)
            if (test_bit(set, rank))
                list[n++] = rank, c->nsources++;
        c->dests = list + n;
        for (uint32_t rank = 0; rank < r->nranks; rank++)
            if (test_bit(want, rank))
                list[n++] = rank, c->ndests++;
        c->reduced = c->nsources > 1;
    }
    if (status == CCL_OK)
        status = ccl_i_collective_from_bytes(name, r->nranks, chunks, r->nvalues, out, r->err);
    free(chunks);
    free(list);
    return status;
}

static ccl_status_t find_collective(reader_t *r, const char *name, ccl_collective_t **out) {
    uint64_t *set = calloc(r->words, sizeof *set);
    ccl_status_t status = set ? CCL_OK : ccl_fail_nomem(r->err);
    for (unsigned kind = 0; kind < CCL_CUSTOM && status == CCL_OK; kind++) {
        uint32_t n = r->nranks;
        uint32_t blocks = kind == CCL_ALLREDUCE || kind == CCL_BROADCAST || kind == CCL_REDUCE ? 1
                          : kind == CCL_ALLTOALL && n <= UINT16_MAX ? n * n
                                                                    : n;
        uint32_t root = 0;
        ccl_collective_t *coll = NULL;
        if (r->nvalues % blocks)
            continue;
        if (kind == CCL_BROADCAST || kind == CCL_SCATTER) {
            sources_of(r, 0, set);
            root = lowest(set, n);
        } else if (kind == CCL_REDUCE || kind == CCL_GATHER) {
            root = lowest(r->want, n);
        }
        status = ccl_collective_create((ccl_collective_kind_t)kind, n, r->nvalues / blocks, root,
                                       &coll, r->err);
        if (status == CCL_OK && is_collective(r, coll, set)) {
            *out = coll;
            free(set);
            return CCL_OK;
        }
        ccl_collective_destroy(coll);
    }
    if (status == CCL_OK)
        status = make_custom(r, name, set, out);
    free(set);
    return status;
}

/* ---------------------------------------------------------------- sends */

/** What the destination lacks is added, what the source has more of replaces. */
static ccl_status_t add_send(reader_t *r, const ccl_json_at_t *at, uint32_t step,
                             ccl_schedule_builder_t *b) {
    uint32_t v[3] = {0};
    const uint32_t most[3] = {r->nvalues - 1, r->nranks - 1, r->nranks - 1};
    size_t n = 0;
    bool within = true, apart = true;
    CCL_TRY(ccl_json_array(at, true, &n, r->err));
    if (n != 3)
        return ccl_json_fail(at, r->err, "a send is [address, source, destination]");
    for (unsigned i = 0; i < 3; i++) {
        ccl_json_at_t item = ccl_json_element(at, i);
        CCL_TRY(ccl_json_u32(&item, true, most[i], &v[i], r->err));
    }
    if (v[1] == v[2])
        return ccl_json_fail(at, r->err, "GPU %u sends to itself", v[1]);
    const uint64_t *from = holds(r, r->has, v[0], v[1]);
    uint64_t *to = holds(r, r->next, v[0], v[2]);
    for (uint32_t w = 0; w < r->words; w++) {
        within = within && (to[w] & ~from[w]) == 0;
        apart = apart && (to[w] & from[w]) == 0;
    }
    bool reduce = !within && apart;
    for (uint32_t w = 0; w < r->words; w++)
        to[w] = reduce ? to[w] | from[w] : from[w];
    ccl_schedule_builder_add(
        b,
        (ccl_transfer_t){.src = v[1], .dst = v[2], .chunk = v[0], .step = step, .reduce = reduce});
    return CCL_OK;
}

static ccl_status_t add_steps(reader_t *r, ccl_schedule_builder_t *b) {
    size_t nsteps = json_array_size(r->steps.value), total = 0;
    size_t bytes = (size_t)r->nvalues * r->nranks * r->words * sizeof *r->has;
    /* A step costs a look at everything: no more of that than a second. */
    if (nsteps && bytes > ((size_t)1 << 36) / nsteps)
        return ccl_json_fail(&r->steps, r->err, "too many steps for this many chunks");
    memcpy(r->next, r->has, bytes);
    for (size_t i = 0; i < nsteps; i++) {
        ccl_json_at_t at = ccl_json_element(&r->steps, i);
        ccl_json_at_t sends = ccl_json_member(&at, "sends");
        size_t n = 0;
        CCL_TRY(expect_type(&at, "step", r->err));
        CCL_TRY(ccl_json_array(&sends, true, &n, r->err));
        total += n;
        if (total > CCL_I_MAX_TRANSFERS)
            return ccl_json_fail(&sends, r->err, "too many sends: at most %u", CCL_I_MAX_TRANSFERS);
        for (size_t k = 0; k < n; k++) {
            ccl_json_at_t send = ccl_json_element(&sends, k);
            CCL_TRY(add_send(r, &send, (uint32_t)i, b));
        }
        memcpy(r->has, r->next, bytes);
    }
    return CCL_OK;
}

ccl_status_t ccl_schedule_read_sccl(const char *name, const char *text, size_t len,
                                    ccl_schedule_t **out, ccl_error_t *err) {
    reader_t r = {.err = err};
    const char *title = "sccl";
    ccl_collective_t *coll = NULL;
    ccl_schedule_builder_t *b = NULL;
    CCL_TRY(ccl_json_parse(name, text, len, &r.doc, err));
    ccl_status_t status = read_head(&r, &title);
    if (status == CCL_OK)
        status = read_chunks(&r);
    if (status == CCL_OK)
        status = find_collective(&r, title, &coll);
    if (status == CCL_OK) {
        b = ccl_schedule_builder_create(title, coll);
        status = b ? add_steps(&r, b) : ccl_fail_nomem(err);
    }
    if (status == CCL_OK)
        status = ccl_schedule_builder_finish(b, out, err);
    else
        ccl_schedule_builder_destroy(b);
    free(r.has);
    free(r.next);
    free(r.want);
    free(r.contributions);
    ccl_json_fini(&r.doc);
    return status;
}
