/**
 * @file rng.c xoshiro256** seeded by splitmix64.
 * Source: Blackman and Vigna, "Scrambled linear pseudorandom number generators", ACM TOMS 47, 2021.
 */
#include "base/base.h"

static uint64_t rotl(uint64_t x, int k) {
    return (x << k) | (x >> (64 - k));
}

void ccl_rng_init(ccl_rng_t *rng, uint64_t seed) {
    for (int i = 0; i < 4; i++, seed += UINT64_C(0x9e3779b97f4a7c15))
        rng->s[i] = ccl_mix64(seed);
}

uint64_t ccl_rng_next(ccl_rng_t *rng) {
    uint64_t *s = rng->s;
    uint64_t result = rotl(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return result;
}

uint32_t ccl_rng_below(ccl_rng_t *rng, uint32_t n) {
    /* Lemire's multiply-and-reject: unbiased, and a division only rarely. */
    uint64_t product = (ccl_rng_next(rng) >> 32) * n;
    if ((uint32_t)product < n) {
        uint32_t least = -n % n;
        while ((uint32_t)product < least)
            product = (ccl_rng_next(rng) >> 32) * n;
    }
    return (uint32_t)(product >> 32);
}

double ccl_rng_unit(ccl_rng_t *rng) {
    return (double)(ccl_rng_next(rng) >> 11) * 0x1p-53;
}
