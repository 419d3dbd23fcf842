/* Private: ccl_rng_next() and ccl_rng_below() inline, for loops that draw for every item. */
#ifndef CCL_BASE_RNG_INLINE_H
#define CCL_BASE_RNG_INLINE_H

#include "base/base.h"

static inline uint64_t ccl_i_rng_rotl(uint64_t x, int k) {
    return (x << k) | (x >> (64 - k));
}

static inline uint64_t ccl_i_rng_next(ccl_rng_t *rng) {
    uint64_t *s = rng->s;
    uint64_t result = ccl_i_rng_rotl(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = ccl_i_rng_rotl(s[3], 45);
    return result;
}

static inline uint32_t ccl_i_rng_below(ccl_rng_t *rng, uint32_t n) {
    /* Lemire's multiply-and-reject: unbiased, and a division only rarely. */
    uint64_t product = (ccl_i_rng_next(rng) >> 32) * n;
    if ((uint32_t)product < n) {
        uint32_t least = -n % n;
        while ((uint32_t)product < least)
            product = (ccl_i_rng_next(rng) >> 32) * n;
    }
    return (uint32_t)(product >> 32);
}

#endif
