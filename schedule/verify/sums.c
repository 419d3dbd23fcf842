/* Hash-consed sums of contributions: which ranks a partial result holds, and in which order added.
 */
#include "schedule/verify/verify.h"

#include <stdlib.h>
#include <string.h>

/* 1 GiB: more than any real program needs, less than a hostile one would take. */
#define MAX_WORDS ((size_t)1 << 27)
/* Rings add one rank at a time: of these sums every eighth has its ranks listed. */
enum { MOST_ALONE = 7 };
#define UNLISTED 0x80000000u

bool ccl_i_sums_init(ccl_i_sums_t *sums, uint32_t nranks) {
    memset(sums, 0, sizeof *sums);
    sums->nranks = nranks;
    sums->words = (nranks + 63) / 64;
    sums->nslots = 1024;
    sums->slots = malloc(sums->nslots * sizeof *sums->slots);
    sums->scratch = malloc((sums->words + (size_t)1) * sizeof *sums->scratch);
    if (!sums->slots || !sums->scratch) {
        ccl_i_sums_fini(sums);
        return false;
    }
    memset(sums->slots, 0xff, sums->nslots * sizeof *sums->slots);
    return true;
}

void ccl_i_sums_fini(ccl_i_sums_t *sums) {
    free(sums->nodes);
    free(sums->bits);
    free(sums->scratch);
    free(sums->slots);
    memset(sums, 0, sizeof *sums);
}

static bool rehash(ccl_i_sums_t *sums) {
    size_t nslots = 2 * sums->nslots;
    uint32_t *slots = malloc(nslots * sizeof *slots);
    if (!slots)
        return false;
    memset(slots, 0xff, nslots * sizeof *slots);
    for (uint32_t i = 0; i < sums->nnodes; i++) {
        size_t at = (size_t)ccl_mix64((uint64_t)sums->nodes[i].lo << 32 | sums->nodes[i].hi);
        while (slots[at & (nslots - 1)] != CCL_NONE)
            at++;
        slots[at & (nslots - 1)] = i;
    }
    free(sums->slots);
    sums->slots = slots;
    sums->nslots = nslots;
    return true;
}

/** Of a sum whose ranks are not listed: the rank that it adds; *sum is what it adds it to. */
static uint32_t added(const ccl_i_sums_t *sums, uint32_t *sum) {
    const struct ccl_i_sum *node = &sums->nodes[*sum - sums->nranks];
    *sum = node->hi;
    return node->lo;
}

/** Ranks of a sum that are listed, or NULL. */
static const uint64_t *list_of(const ccl_i_sums_t *sums, uint32_t sum) {
    uint32_t list = sums->nodes[sum - sums->nranks].list;
    return list & UNLISTED ? NULL : sums->bits + (size_t)list * sums->words;
}

static bool holds(const uint64_t *bits, uint32_t rank) {
    return bits[rank / 64] >> (rank % 64) & 1;
}

bool ccl_i_sums_has(const ccl_i_sums_t *sums, uint32_t sum, uint32_t rank) {
    while (sum >= sums->nranks) {
        const uint64_t *list = list_of(sums, sum);
        if (list)
            return holds(list, rank);
        if (added(sums, &sum) == rank)
            return true;
    }
    return sum == rank;
}

static uint32_t note(uint64_t *bits, uint32_t rank, uint32_t twice) {
    bool there = holds(bits, rank);
    bits[rank / 64] |= UINT64_C(1) << (rank % 64);
    return there && rank < twice ? rank : twice;
}

/** Adds the ranks of `sum` to bits; the lowest that was there already, or CCL_NONE. */
static uint32_t merge(const ccl_i_sums_t *sums, uint32_t sum, uint64_t *bits) {
    uint32_t twice = CCL_NONE;
    while (sum >= sums->nranks) {
        const uint64_t *more = list_of(sums, sum);
        if (!more) {
            twice = note(bits, added(sums, &sum), twice);
            continue;
        }
        for (uint32_t w = sums->words; w-- > 0;) {
            uint64_t both = bits[w] & more[w];
            uint32_t first = both ? w * 64 + (uint32_t)__builtin_ctzll(both) : CCL_NONE;
            twice = first < twice ? first : twice;
            bits[w] |= more[w];
        }
        return twice;
    }
    return note(bits, sum, twice);
}

/** The ranks of a new sum, listed or not. */
static bool list(ccl_i_sums_t *sums, uint32_t lo, uint32_t hi, uint32_t *twice_out) {
    uint32_t *out = &sums->nodes[sums->nnodes].list;
    if (lo < sums->nranks) {
        uint32_t before = hi < sums->nranks ? UNLISTED : sums->nodes[hi - sums->nranks].list;
        uint32_t alone = before & UNLISTED ? before & ~UNLISTED : 0;
        *out = UNLISTED | (alone + 1);
        if (ccl_i_sums_has(sums, hi, lo)) {
            *twice_out = lo;
            return true;
        }
        if (alone < MOST_ALONE)
            return true;
    }
    size_t end = (sums->nlists + (size_t)1) * sums->words;
    if (end > MAX_WORDS || !ccl_grow_raw(&sums->bits, &sums->bits_cap, end, sizeof *sums->bits))
        return false;
    uint64_t *bits = sums->bits + end - sums->words;
    memset(bits, 0, sums->words * sizeof *bits);
    merge(sums, lo, bits);
    *twice_out = merge(sums, hi, bits);
    *out = sums->nlists;
    sums->nlists += *twice_out == CCL_NONE;
    return true;
}

static size_t slot_of(uint32_t lo, uint32_t hi) {
    return (size_t)ccl_mix64((uint64_t)lo << 32 | hi);
}

void ccl_i_sums_prefetch(const ccl_i_sums_t *sums, uint32_t a, uint32_t b, bool soon) {
    const uint32_t *slot = &sums->slots[slot_of(a < b ? a : b, a < b ? b : a) & (sums->nslots - 1)];
    if (!soon)
        __builtin_prefetch(slot);
    else if (*slot != CCL_NONE)
        __builtin_prefetch(&sums->nodes[*slot]);
}

bool ccl_i_sums_add(ccl_i_sums_t *sums, uint32_t a, uint32_t b, uint32_t *out,
                    uint32_t *twice_out) {
    *twice_out = CCL_NONE;
    uint32_t lo = a < b ? a : b, hi = a < b ? b : a;
    size_t at = slot_of(lo, hi);
    for (;; at++) {
        uint32_t node = sums->slots[at & (sums->nslots - 1)];
        if (node == CCL_NONE)
            break;
        if (sums->nodes[node].lo == lo && sums->nodes[node].hi == hi) {
            *out = sums->nranks + node;
            return true;
        }
    }
    uint32_t node = sums->nnodes;
    if (node >= UINT32_MAX - sums->nranks - 1 || node >= MAX_WORDS ||
        !ccl_grow_raw(&sums->nodes, &sums->nodes_cap, (size_t)node + 1, sizeof *sums->nodes) ||
        !list(sums, lo, hi, twice_out))
        return false;
    if (*twice_out != CCL_NONE)
        return true;
    sums->nodes[node].lo = lo;
    sums->nodes[node].hi = hi;
    sums->nnodes++;
    sums->slots[at & (sums->nslots - 1)] = node;
    *out = sums->nranks + node;
    return 2 * (size_t)sums->nnodes < sums->nslots || rehash(sums);
}

uint32_t ccl_i_sums_lacks(const ccl_i_sums_t *sums, uint32_t sum, const ccl_chunk_t *chunk,
                          uint32_t *nlack_out) {
    uint32_t first = CCL_NONE, n = 0;
    memset(sums->scratch, 0, sums->words * sizeof *sums->scratch);
    merge(sums, sum, sums->scratch);
    for (uint32_t i = 0; i < chunk->nsources; i++) {
        if (!holds(sums->scratch, chunk->sources[i])) {
            first = first == CCL_NONE ? chunk->sources[i] : first;
            n++;
        }
    }
    *nlack_out = n;
    return first;
}
