/* Demands at random. */
#ifndef CCL_TESTS_RUNTIME_RANDOM_DEMAND_H
#define CCL_TESTS_RUNTIME_RANDOM_DEMAND_H

#include "schedule/schedule.h"

#include <check.h>

static inline void random_ranks(ccl_text_t *text, ccl_rng_t *rng, uint32_t n) {
    uint32_t count = 0, always = ccl_rng_below(rng, n);
    ccl_text_printf(text, "[");
    for (uint32_t r = 0; r < n; r++)
        if (r == always || ccl_rng_below(rng, 2))
            ccl_text_printf(text, "%s%u", count++ ? "," : "", r);
    ccl_text_printf(text, "]");
}

/** Unequal chunks with any sources and destinations, some of no bytes. */
static inline ccl_collective_t *random_demand(ccl_rng_t *rng, uint32_t n) {
    ccl_text_t text = {0};
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_collective_t *out = NULL;
    uint32_t flavour = ccl_rng_below(rng, 3), chunks = 1 + ccl_rng_below(rng, 8);
    ccl_text_printf(&text, "{\"format\":\"ccllab-demand-1\",\"nranks\":%u,\"chunks\":[", n);
    for (uint32_t k = 0; k < chunks; k++) {
        bool reduced = flavour == 2 || (flavour == 1 && ccl_rng_below(rng, 2));
        ccl_text_printf(&text, "%s{\"bytes\":%u,\"source\":", k ? "," : "",
                        k && ccl_rng_below(rng, 6) == 0 ? 0 : 1 + ccl_rng_below(rng, 5000));
        if (reduced)
            random_ranks(&text, rng, n);
        else
            ccl_text_printf(&text, "%u", ccl_rng_below(rng, n));
        ccl_text_printf(&text, ",\"destinations\":");
        if (flavour == 0)
            ccl_text_printf(&text, "%u", ccl_rng_below(rng, n));
        else
            random_ranks(&text, rng, n);
        ccl_text_printf(&text, ",\"reduced\":%s}", reduced ? "true" : "false");
    }
    ccl_text_printf(&text, "]}");
    ck_assert_msg(ccl_demand_read_text("random", text.data, text.len, &out, &err) == CCL_OK,
                  "%s: %s", err.text, text.data);
    ccl_text_fini(&text);
    return out;
}

#endif
