/* Hash-consed sums of contributions: which ranks a partial result holds, and in which order added.
 */
#include "schedule/verify/verify.h"

#include <stdlib.h>
#include <string.h>

/* 1 GiB: more than any real program needs, less than a hostile one would take. */
#define MAX_WORDS ((size_t)1 << 27)

bool ccl_i_sums_init(ccl_i_sums_t *sums, uint32_t nranks) {
    memset(sums, 0, sizeof *sums);
    sums->nranks = nranks;
    sums->words = (nranks + 63) / 64;
    sums->nslots = 1024;
    sums->slots = malloc(sums->nslots * sizeof *sums->slots);
    if (!sums->slots)
        return false;
    memset(sums->slots, 0xff, sums->nslots * sizeof *sums->slots);
    return true;
}

void ccl_i_sums_fini(ccl_i_sums_t *sums) {
    free(sums->pairs);
    free(sums->bits);
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
        size_t at = (size_t)ccl_mix64((uint64_t)sums->pairs[2 * (size_t)i] << 32 |
                                      sums->pairs[2 * (size_t)i + 1]);
        while (slots[at & (nslots - 1)] != CCL_NONE)
            at++;
        slots[at & (nslots - 1)] = i;
    }
    free(sums->slots);
    sums->slots = slots;
    sums->nslots = nslots;
    return true;
}

bool ccl_i_sums_has(const ccl_i_sums_t *sums, uint32_t sum, uint32_t rank) {
    if (sum < sums->nranks)
        return sum == rank;
    const uint64_t *bits = sums->bits + (size_t)(sum - sums->nranks) * sums->words;
    return bits[rank / 64] >> (rank % 64) & 1;
}

/** Adds the ranks of `sum` to bits; a rank that was there already, or CCL_NONE. */
static uint32_t merge(const ccl_i_sums_t *sums, uint32_t sum, uint64_t *bits) {
    uint32_t twice = CCL_NONE;
    if (sum < sums->nranks) {
        uint64_t bit = UINT64_C(1) << (sum % 64);
        if (bits[sum / 64] & bit)
            twice = sum;
        bits[sum / 64] |= bit;
        return twice;
    }
    const uint64_t *more = sums->bits + (size_t)(sum - sums->nranks) * sums->words;
    for (uint32_t w = 0; w < sums->words; w++) {
        uint64_t both = bits[w] & more[w];
        if (both && twice == CCL_NONE)
            twice = w * 64 + (uint32_t)__builtin_ctzll(both);
        bits[w] |= more[w];
    }
    return twice;
}

bool ccl_i_sums_add(ccl_i_sums_t *sums, uint32_t a, uint32_t b, uint32_t *out,
                    uint32_t *twice_out) {
    *twice_out = CCL_NONE;
    uint32_t lo = a < b ? a : b, hi = a < b ? b : a;
    size_t at = (size_t)ccl_mix64((uint64_t)lo << 32 | hi);
    for (;; at++) {
        uint32_t node = sums->slots[at & (sums->nslots - 1)];
        if (node == CCL_NONE)
            break;
        if (sums->pairs[2 * (size_t)node] == lo && sums->pairs[2 * (size_t)node + 1] == hi) {
            *out = sums->nranks + node;
            return true;
        }
    }
    uint32_t node = sums->nnodes;
    if (node >= UINT32_MAX - sums->nranks - 1 || ((size_t)node + 1) * sums->words > MAX_WORDS ||
        !ccl_grow(&sums->pairs, &sums->pairs_cap, 2 * ((size_t)node + 1), sizeof *sums->pairs) ||
        !ccl_grow(&sums->bits, &sums->bits_cap, ((size_t)node + 1) * sums->words,
                  sizeof *sums->bits))
        return false;
    uint64_t *bits = sums->bits + (size_t)node * sums->words;
    memset(bits, 0, sums->words * sizeof *bits);
    merge(sums, lo, bits);
    *twice_out = merge(sums, hi, bits);
    if (*twice_out != CCL_NONE)
        return true;
    sums->pairs[2 * (size_t)node] = lo;
    sums->pairs[2 * (size_t)node + 1] = hi;
    sums->nnodes++;
    sums->slots[at & (sums->nslots - 1)] = node;
    *out = sums->nranks + node;
    return 2 * (size_t)sums->nnodes < sums->nslots || rehash(sums);
}

uint32_t ccl_i_sums_lacks(const ccl_i_sums_t *sums, uint32_t sum, const ccl_chunk_t *chunk,
                          uint32_t *nlack_out) {
    uint32_t first = CCL_NONE, n = 0;
    for (uint32_t i = 0; i < chunk->nsources; i++) {
        if (!ccl_i_sums_has(sums, sum, chunk->sources[i])) {
            first = first == CCL_NONE ? chunk->sources[i] : first;
            n++;
        }
    }
    *nlack_out = n;
    return first;
}
