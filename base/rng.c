/**
 * @file rng.c xoshiro256** seeded by splitmix64.
 * Source: Blackman and Vigna, "Scrambled linear pseudorandom number generators", ACM TOMS 47, 2021.
 */
#include "base/rng_inline.h"

void ccl_rng_init(ccl_rng_t *rng, uint64_t seed) {
    for (int i = 0; i < 4; i++, seed += UINT64_C(0x9e3779b97f4a7c15))
        rng->s[i] = ccl_mix64(seed);
}

uint64_t ccl_rng_next(ccl_rng_t *rng) {
    return ccl_i_rng_next(rng);
}

uint32_t ccl_rng_below(ccl_rng_t *rng, uint32_t n) {
    return ccl_i_rng_below(rng, n);
}

double ccl_rng_unit(ccl_rng_t *rng) {
    return (double)(ccl_rng_next(rng) >> 11) * 0x1p-53;
}
