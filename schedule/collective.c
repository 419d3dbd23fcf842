/*
 * Collectives: which rank holds which chunk before, and must hold it after.
 *
 * Lists of ranks are shared: `all` holds 0 .. n-1, so the list {r} is &all[r] and the list of all
 * ranks is all. A custom collective keeps two lists of chunks per rank in custom_chunks: list 2r is
 * its input, list 2r + 1 its output; custom_first[2n + 1] says where each starts.
 */
#include "schedule/schedule_i.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const kind_names[CCL_COLLECTIVE_KINDS + 1] = {
    "allreduce", "allgather", "reducescatter", "alltoall", "broadcast", "reduce",
    "gather",    "scatter",   "sendrecv",      "custom",   NULL};

const char *ccl_collective_kind_name(ccl_collective_kind_t kind) {
    return (unsigned)kind < CCL_COLLECTIVE_KINDS ? kind_names[kind] : "?";
}

ccl_status_t ccl_collective_kind_parse(const char *text, ccl_collective_kind_t *out,
                                       ccl_error_t *err) {
    char word[32];
    size_t len = 0;
    for (const char *p = text; *p; p++) {
        if (*p == '-' || *p == '_')
            continue;
        if (len + 1 == sizeof word)
            break;
        word[len++] = (char)tolower((unsigned char)*p);
    }
    word[len] = 0;
    for (unsigned k = 0; k < CCL_COLLECTIVE_KINDS; k++) {
        if (strcmp(word, kind_names[k]) == 0) {
            *out = (ccl_collective_kind_t)k;
            return CCL_OK;
        }
    }
    const char *near = ccl_nearest(word, kind_names);
    if (near)
        return ccl_fail(err, CCL_ERR_INPUT, "unknown collective '%.40s', did you mean \"%s\"?",
                        text, near);
    return ccl_fail(err, CCL_ERR_INPUT,
                    "unknown collective '%.40s': one of allreduce, allgather, reducescatter, "
                    "alltoall, broadcast, reduce, gather, scatter, sendrecv",
                    text);
}

bool ccl_collective_kind_is_rooted(ccl_collective_kind_t kind) {
    return kind == CCL_BROADCAST || kind == CCL_REDUCE || kind == CCL_GATHER || kind == CCL_SCATTER;
}

static ccl_collective_t *new_collective(ccl_collective_kind_t kind, uint32_t nranks,
                                        uint32_t nchunks, ccl_chunk_t **chunks, uint32_t **all) {
    ccl_collective_t *coll = calloc(1, sizeof *coll);
    if (!coll)
        return NULL;
    ccl_arena_init(&coll->arena);
    coll->kind = kind;
    coll->nranks = nranks;
    coll->nchunks = nchunks;
    *chunks = ccl_arena_alloc(&coll->arena, nchunks ? nchunks : 1, sizeof **chunks);
    *all = ccl_arena_alloc(&coll->arena, nranks, sizeof **all);
    if (!*chunks || !*all) {
        ccl_collective_destroy(coll);
        return NULL;
    }
    for (uint32_t r = 0; r < nranks; r++)
        (*all)[r] = r;
    coll->chunks = *chunks;
    return coll;
}

/* A chunk of a block. @param all  all ranks, from which its sources and destinations are taken */
static ccl_chunk_t chunk_of(ccl_collective_kind_t kind, uint32_t nranks, uint32_t root,
                            uint32_t block, double share, const uint32_t *all) {
    const uint32_t *src = all, *dst = all;
    uint32_t nsrc = nranks, ndst = nranks;
    switch (kind) {
    case CCL_BROADCAST:
        src = &all[root], nsrc = 1;
        break;
    case CCL_REDUCE:
        dst = &all[root], ndst = 1;
        break;
    case CCL_ALLGATHER:
        src = &all[block], nsrc = 1;
        break;
    case CCL_GATHER:
        src = &all[block], nsrc = 1, dst = &all[root], ndst = 1;
        break;
    case CCL_REDUCESCATTER:
        dst = &all[block], ndst = 1;
        break;
    case CCL_SCATTER:
        src = &all[root], nsrc = 1, dst = &all[block], ndst = 1;
        break;
    case CCL_ALLTOALL:
        src = &all[block / nranks], nsrc = 1, dst = &all[block % nranks], ndst = 1;
        break;
    case CCL_SENDRECV:
        src = &all[block], nsrc = 1, dst = &all[(block + 1) % nranks], ndst = 1;
        break;
    default:
        break;
    }
    bool reduced = kind == CCL_ALLREDUCE || kind == CCL_REDUCESCATTER || kind == CCL_REDUCE;
    return (ccl_chunk_t){share, src, dst, nsrc, ndst, reduced};
}

ccl_status_t ccl_collective_create(ccl_collective_kind_t kind, uint32_t nranks,
                                   uint32_t chunks_per_block, uint32_t root, ccl_collective_t **out,
                                   ccl_error_t *err) {
    uint64_t n = nranks, c = chunks_per_block, blocks, total;
    if ((unsigned)kind >= CCL_CUSTOM)
        return ccl_fail(err, CCL_ERR_INPUT, "a custom collective needs a demand file");
    if (nranks < 1 || nranks > CCL_I_MAX_RANKS)
        return ccl_fail(err, CCL_ERR_INPUT, "%u ranks: from 1 to %u are possible", nranks,
                        CCL_I_MAX_RANKS);
    if (chunks_per_block < 1)
        return ccl_fail(err, CCL_ERR_INPUT, "0 chunks per block: at least 1 is needed");
    if (ccl_collective_kind_is_rooted(kind) && root >= nranks)
        return ccl_fail(err, CCL_ERR_INPUT, "root %u is not one of %u ranks", root, nranks);
    if (kind == CCL_ALLREDUCE || kind == CCL_BROADCAST || kind == CCL_REDUCE)
        blocks = 1;
    else
        blocks = kind == CCL_ALLTOALL ? n * n : n;
    if (c > CCL_I_MAX_CHUNKS || blocks * c > CCL_I_MAX_CHUNKS)
        return ccl_fail(err, CCL_ERR_INPUT,
                        "%s of %u ranks with %u chunks per block has too many chunks: at most %u",
                        kind_names[kind], nranks, chunks_per_block, CCL_I_MAX_CHUNKS);
    total = blocks * c;

    ccl_chunk_t *chunks;
    uint32_t *all;
    ccl_collective_t *coll = new_collective(kind, nranks, (uint32_t)total, &chunks, &all);
    if (!coll)
        return ccl_fail_nomem(err);
    coll->chunks_per_block = chunks_per_block;
    coll->root = ccl_collective_kind_is_rooted(kind) ? root : 0;
    coll->name = kind_names[kind];
    /* The largest buffer holds one block (allreduce ...) or n of them; sendrecv's one. */
    bool single = blocks == 1 || kind == CCL_SENDRECV;
    double share = 1.0 / (single ? (double)c : (double)n * (double)c);
    for (uint32_t k = 0; k < total; k++)
        chunks[k] = chunk_of(kind, nranks, root, (uint32_t)(k / c), share, all);
    *out = coll;
    return CCL_OK;
}

/* ---------------------------------------------------------------- custom */

static bool is_all(const uint32_t *list, uint32_t len, uint32_t nranks) {
    /* Ascending and distinct, so the length decides. */
    return list && len == nranks;
}

static const uint32_t *copy_list(ccl_collective_t *coll, const uint32_t *all, const uint32_t *list,
                                 uint32_t len) {
    if (len == 0 || is_all(list, len, coll->nranks))
        return all;
    if (len == 1)
        return &all[list[0]];
    uint32_t *copy = ccl_arena_alloc(&coll->arena, len, sizeof *copy);
    if (copy)
        memcpy(copy, list, len * sizeof *copy);
    return copy;
}

/** The two chunk lists of each rank, from the chunks. */
static bool list_chunks(ccl_collective_t *coll) {
    uint32_t n = coll->nranks;
    uint32_t *first = ccl_arena_alloc(&coll->arena, 2 * (size_t)n + 1, sizeof *first);
    uint32_t *fill = calloc(2 * (size_t)n, sizeof *fill);
    if (!first || !fill) {
        free(fill);
        return false;
    }
    for (uint32_t k = 0; k < coll->nchunks; k++) {
        const ccl_chunk_t *c = &coll->chunks[k];
        for (uint32_t i = 0; i < c->nsources; i++)
            first[2 * c->sources[i] + 1]++;
        for (uint32_t i = 0; i < c->ndests; i++)
            first[2 * c->dests[i] + 2]++;
    }
    for (uint32_t i = 0; i < 2 * n; i++) {
        first[i + 1] += first[i];
        fill[i] = first[i];
    }
    uint32_t *chunks = ccl_arena_alloc(&coll->arena, first[2 * n] + (size_t)1, sizeof *chunks);
    if (!chunks) {
        free(fill);
        return false;
    }
    for (uint32_t k = 0; k < coll->nchunks; k++) {
        const ccl_chunk_t *c = &coll->chunks[k];
        for (uint32_t i = 0; i < c->nsources; i++)
            chunks[fill[2 * c->sources[i]]++] = k;
        for (uint32_t i = 0; i < c->ndests; i++)
            chunks[fill[2 * c->dests[i] + 1]++] = k;
    }
    free(fill);
    coll->custom_first = first;
    coll->custom_chunks = chunks;
    return true;
}

/** Chunks with sources and destinations. */
typedef struct custom {
    const char *name; /* NULL: "custom" */
    uint32_t nranks, nchunks;
    const ccl_chunk_t *chunks;
    double natural_bytes;
} custom_t;

/** The collective of those chunks, each cut into `parts`. */
static ccl_status_t custom(const custom_t *what, uint32_t parts, ccl_collective_t **out,
                           ccl_error_t *err) {
    const ccl_chunk_t *chunks = what->chunks;
    uint32_t nranks = what->nranks, nchunks = what->nchunks;
    uint64_t members = 0;
    if (nranks < 1 || nranks > CCL_I_MAX_RANKS)
        return ccl_fail(err, CCL_ERR_INPUT, "%u ranks: from 1 to %u are possible", nranks,
                        CCL_I_MAX_RANKS);
    if ((uint64_t)nchunks * parts > CCL_I_MAX_CHUNKS)
        return ccl_fail(err, CCL_ERR_INPUT, "too many chunks: at most %u", CCL_I_MAX_CHUNKS);
    for (uint32_t k = 0; k < nchunks; k++)
        members += ((uint64_t)chunks[k].nsources + chunks[k].ndests) * parts;
    if (members > CCL_I_MAX_MEMBERS)
        return ccl_fail(err, CCL_ERR_INPUT,
                        "too many sources and destinations: at most %u over all chunks",
                        CCL_I_MAX_MEMBERS);

    ccl_chunk_t *copies;
    uint32_t *all;
    ccl_collective_t *coll = new_collective(CCL_CUSTOM, nranks, nchunks * parts, &copies, &all);
    if (!coll)
        return ccl_fail_nomem(err);
    coll->chunks_per_block = 1;
    coll->natural_bytes = what->natural_bytes;
    coll->name = ccl_arena_strdup(&coll->arena, what->name ? what->name : "custom");
    for (uint32_t k = 0; k < nchunks; k++) {
        ccl_chunk_t c = chunks[k];
        c.share /= parts;
        c.sources = copy_list(coll, all, c.sources, c.nsources);
        c.dests = copy_list(coll, all, c.dests, c.ndests);
        if (!c.sources || !c.dests)
            goto nomem;
        for (uint32_t i = 0; i < parts; i++)
            copies[k * parts + i] = c;
    }
    if (!coll->name || !list_chunks(coll))
        goto nomem;
    *out = coll;
    return CCL_OK;
nomem:
    ccl_collective_destroy(coll);
    return ccl_fail_nomem(err);
}

ccl_status_t ccl_i_collective_from_bytes(const char *name, uint32_t nranks, ccl_chunk_t *chunks,
                                         uint32_t nchunks, ccl_collective_t **out,
                                         ccl_error_t *err) {
    double *sums = calloc(2 * (size_t)nranks + 1, sizeof *sums);
    if (!sums)
        return ccl_fail_nomem(err);
    for (uint32_t k = 0; k < nchunks; k++) {
        for (uint32_t i = 0; i < chunks[k].nsources; i++)
            sums[2 * chunks[k].sources[i]] += chunks[k].share;
        for (uint32_t i = 0; i < chunks[k].ndests; i++)
            sums[2 * chunks[k].dests[i] + 1] += chunks[k].share;
    }
    double natural_bytes = 0;
    for (size_t i = 0; i < 2 * (size_t)nranks; i++)
        natural_bytes = sums[i] > natural_bytes ? sums[i] : natural_bytes;
    free(sums);
    if (!(natural_bytes > 0) || !isfinite(natural_bytes))
        return ccl_fail(err, CCL_ERR_INPUT,
                        natural_bytes > 0 ? "the chunks have too many bytes"
                                          : "no chunk has any bytes: nothing to do");
    for (uint32_t k = 0; k < nchunks; k++)
        chunks[k].share /= natural_bytes;
    return custom(&(custom_t){name, nranks, nchunks, chunks, natural_bytes}, 1, out, err);
}

const uint32_t *ccl_i_collective_custom_list(const ccl_collective_t *coll, uint32_t rank,
                                             bool output, uint32_t *len_out) {
    uint32_t i = 2 * rank + (output ? 1 : 0);
    *len_out = coll->custom_first[i + 1] - coll->custom_first[i];
    return coll->custom_chunks + coll->custom_first[i];
}

static uint32_t custom_find(const ccl_collective_t *coll, uint32_t rank, bool output,
                            uint32_t chunk) {
    uint32_t len, lo = 0;
    const uint32_t *list = ccl_i_collective_custom_list(coll, rank, output, &len);
    for (uint32_t hi = len; lo < hi;) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (list[mid] < chunk)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < len && list[lo] == chunk ? lo : CCL_NONE;
}

/* ---------------------------------------------------------------- common */

ccl_status_t ccl_collective_split(const ccl_collective_t *coll, uint32_t parts,
                                  ccl_collective_t **out, ccl_error_t *err) {
    if (parts < 1)
        return ccl_fail(err, CCL_ERR_INPUT, "a chunk cannot be cut into 0 parts");
    if (coll->kind == CCL_CUSTOM) {
        const custom_t same = {coll->name, coll->nranks, coll->nchunks, coll->chunks,
                               coll->natural_bytes};
        return custom(&same, parts, out, err);
    }
    if ((uint64_t)coll->chunks_per_block * parts > CCL_I_MAX_CHUNKS)
        return ccl_fail(err, CCL_ERR_INPUT, "too many chunks: at most %u", CCL_I_MAX_CHUNKS);
    return ccl_collective_create(coll->kind, coll->nranks, coll->chunks_per_block * parts,
                                 coll->root, out, err);
}

ccl_status_t ccl_collective_cut(const ccl_collective_t *coll, const uint32_t *first,
                                const double *shares, ccl_collective_t **out, ccl_error_t *err) {
    uint32_t n = first[coll->nchunks];
    if (coll->kind != CCL_CUSTOM)
        return ccl_fail(err, CCL_ERR_INPUT, "chunks of %s are of one size", coll->name);
    ccl_chunk_t *parts = calloc(n + (size_t)1, sizeof *parts);
    if (!parts)
        return ccl_fail_nomem(err);
    for (uint32_t k = 0; k < coll->nchunks; k++) {
        for (uint32_t i = first[k]; i < first[k + 1]; i++) {
            parts[i] = coll->chunks[k];
            parts[i].share = shares[i];
        }
    }
    const custom_t cut = {coll->name, coll->nranks, n, parts, coll->natural_bytes};
    ccl_status_t status = custom(&cut, 1, out, err);
    free(parts);
    return status;
}

ccl_status_t ccl_collective_clone(const ccl_collective_t *coll, ccl_collective_t **out,
                                  ccl_error_t *err) {
    return ccl_collective_split(coll, 1, out, err);
}

void ccl_collective_destroy(ccl_collective_t *coll) {
    if (!coll)
        return;
    ccl_arena_fini(&coll->arena);
    free(coll);
}

static bool lists_equal(const uint32_t *a, uint32_t na, const uint32_t *b, uint32_t nb) {
    return na == nb && (na == 0 || memcmp(a, b, na * sizeof *a) == 0);
}

/** Shares go through decimal text in files: equal to 1e-12 is equal. */
static bool shares_equal(double a, double b) {
    return fabs(a - b) <= 1e-12 * fmax(fabs(a), fabs(b));
}

bool ccl_collective_equal(const ccl_collective_t *a, const ccl_collective_t *b) {
    if (a->kind != b->kind || a->nranks != b->nranks || a->nchunks != b->nchunks ||
        a->chunks_per_block != b->chunks_per_block || a->root != b->root)
        return false;
    if (a->kind != CCL_CUSTOM)
        return true;
    if (strcmp(a->name, b->name) != 0 || !shares_equal(a->natural_bytes, b->natural_bytes))
        return false;
    for (uint32_t k = 0; k < a->nchunks; k++) {
        const ccl_chunk_t *x = &a->chunks[k], *y = &b->chunks[k];
        if (x->reduced != y->reduced || !shares_equal(x->share, y->share) ||
            !lists_equal(x->sources, x->nsources, y->sources, y->nsources) ||
            !lists_equal(x->dests, x->ndests, y->dests, y->ndests))
            return false;
    }
    return true;
}

uint32_t ccl_collective_input(const ccl_collective_t *coll, uint32_t rank, uint32_t chunk) {
    uint32_t c = coll->chunks_per_block, n = coll->nranks;
    if (rank >= n || chunk >= coll->nchunks)
        return CCL_NONE;
    switch (coll->kind) {
    case CCL_ALLREDUCE:
    case CCL_REDUCE:
    case CCL_REDUCESCATTER:
        return chunk;
    case CCL_BROADCAST:
    case CCL_SCATTER:
        return rank == coll->root ? chunk : CCL_NONE;
    case CCL_ALLGATHER:
    case CCL_GATHER:
    case CCL_SENDRECV:
        return chunk / c == rank ? chunk % c : CCL_NONE;
    case CCL_ALLTOALL:
        return chunk / c / n == rank ? chunk - rank * n * c : CCL_NONE;
    case CCL_CUSTOM:
        return custom_find(coll, rank, false, chunk);
    }
    return CCL_NONE;
}

uint32_t ccl_collective_output(const ccl_collective_t *coll, uint32_t rank, uint32_t chunk) {
    uint32_t c = coll->chunks_per_block, n = coll->nranks;
    if (rank >= n || chunk >= coll->nchunks)
        return CCL_NONE;
    switch (coll->kind) {
    case CCL_ALLREDUCE:
    case CCL_BROADCAST:
    case CCL_ALLGATHER:
        return chunk;
    case CCL_REDUCE:
    case CCL_GATHER:
        return rank == coll->root ? chunk : CCL_NONE;
    case CCL_REDUCESCATTER:
    case CCL_SCATTER:
        return chunk / c == rank ? chunk % c : CCL_NONE;
    case CCL_SENDRECV:
        return (chunk / c + 1) % n == rank ? chunk % c : CCL_NONE;
    case CCL_ALLTOALL: {
        uint32_t block = chunk / c;
        return block % n == rank ? block / n * c + chunk % c : CCL_NONE;
    }
    case CCL_CUSTOM:
        return custom_find(coll, rank, true, chunk);
    }
    return CCL_NONE;
}

uint32_t ccl_collective_input_len(const ccl_collective_t *coll, uint32_t rank) {
    uint32_t c = coll->chunks_per_block, n = coll->nranks, len;
    switch (coll->kind) {
    case CCL_ALLREDUCE:
    case CCL_REDUCE:
    case CCL_ALLGATHER:
    case CCL_GATHER:
    case CCL_SENDRECV:
        return c;
    case CCL_REDUCESCATTER:
    case CCL_ALLTOALL:
        return n * c;
    case CCL_BROADCAST:
        return rank == coll->root ? c : 0;
    case CCL_SCATTER:
        return rank == coll->root ? n * c : 0;
    case CCL_CUSTOM:
        ccl_i_collective_custom_list(coll, rank, false, &len);
        return len;
    }
    return 0;
}

uint32_t ccl_collective_output_len(const ccl_collective_t *coll, uint32_t rank) {
    uint32_t c = coll->chunks_per_block, n = coll->nranks, len;
    switch (coll->kind) {
    case CCL_ALLREDUCE:
    case CCL_BROADCAST:
    case CCL_REDUCESCATTER:
    case CCL_SCATTER:
    case CCL_SENDRECV:
        return c;
    case CCL_ALLGATHER:
    case CCL_ALLTOALL:
        return n * c;
    case CCL_REDUCE:
        return rank == coll->root ? c : 0;
    case CCL_GATHER:
        return rank == coll->root ? n * c : 0;
    case CCL_CUSTOM:
        ccl_i_collective_custom_list(coll, rank, true, &len);
        return len;
    }
    return 0;
}

void ccl_i_collective_shares(const ccl_collective_t *coll, uint32_t rank, ccl_buffer_t buffer,
                             double *shares, uint32_t len) {
    uint32_t have;
    const uint32_t *list =
        ccl_i_collective_custom_list(coll, rank, buffer == CCL_BUF_OUTPUT, &have);
    for (uint32_t i = 0; i < len; i++)
        shares[i] = i < have ? coll->chunks[list[i]].share : 0;
}

double ccl_collective_busbw_factor(ccl_collective_kind_t kind, uint32_t nranks) {
    double n = nranks ? nranks : 1;
    switch (kind) {
    case CCL_ALLREDUCE:
        return 2 * (n - 1) / n;
    case CCL_ALLGATHER:
    case CCL_REDUCESCATTER:
    case CCL_ALLTOALL:
    case CCL_GATHER:
    case CCL_SCATTER:
        return (n - 1) / n;
    default:
        return 1;
    }
}
