/* What lowerings of one schedule know of its candidates' times (ccl_lower_memo_t). */
#include "lower/lower_i.h"

#include <stdio.h>
#include <stdlib.h>

struct ccl_lower_memo {
    ccl_lock_t *lock;
    ccl_strmap_t *index;
    ccl_i_known_t *known;
    size_t nknown, known_cap;
    uint64_t hits;
};

ccl_lower_memo_t *ccl_lower_memo_create(void) {
    ccl_lower_memo_t *memo = calloc(1, sizeof *memo);
    if (!memo)
        return NULL;
    memo->index = ccl_strmap_create();
    memo->lock = ccl_lock_create();
    if (memo->index && memo->lock)
        return memo;
    ccl_lower_memo_destroy(memo);
    return NULL;
}

void ccl_lower_memo_destroy(ccl_lower_memo_t *memo) {
    if (!memo)
        return;
    ccl_lock_destroy(memo->lock);
    ccl_strmap_destroy(memo->index);
    free(memo->known);
    free(memo);
}

enum { KEY_LEN = 256 };

/* Of the options only what a candidate's time depends on; who asks chooses among candidates. */
static void key_of(const ccl_lower_options_t *options, const ccl_i_lower_how_t *how, ccl_i_try_t c,
                   char out[KEY_LEN]) {
    snprintf(out, KEY_LEN, "%s %d%d%d %u %d %.17g %u: %d %d %u %u%d", how->proto, how->out_of_place,
             how->no_fuse, how->ordered, how->slots, (int)options->granularity, options->size_bytes,
             options->batches, c.fits, c.order, c.parts, c.most, c.wider);
}

ccl_i_known_t ccl_i_memo_get(const ccl_lower_options_t *options, const ccl_i_lower_how_t *how,
                             ccl_i_try_t c) {
    ccl_lower_memo_t *memo = options->memo;
    ccl_i_known_t known = {CCL_I_UNKNOWN, 0};
    char key[KEY_LEN];
    if (!memo)
        return known;
    key_of(options, how, c, key);
    ccl_lock_take(memo->lock);
    uint32_t at = ccl_strmap_get(memo->index, key);
    if (at != CCL_NONE) {
        known = memo->known[at];
        memo->hits++;
    }
    ccl_lock_release(memo->lock);
    return known;
}

uint64_t ccl_i_memo_hits(const ccl_lower_memo_t *memo) {
    return memo->hits;
}

void ccl_i_memo_put(const ccl_lower_options_t *options, const ccl_i_lower_how_t *how, ccl_i_try_t c,
                    ccl_i_known_t known) {
    ccl_lower_memo_t *memo = options->memo;
    char key[KEY_LEN];
    if (!memo)
        return;
    key_of(options, how, c, key);
    ccl_lock_take(memo->lock);
    uint32_t at = ccl_strmap_get(memo->index, key);
    bool better =
        at == CCL_NONE || (memo->known[at].what == CCL_I_LONGER &&
                           (known.what != CCL_I_LONGER || known.time_s > memo->known[at].time_s));
    if (at == CCL_NONE && /* what is not remembered costs only time */
        ccl_grow(&memo->known, &memo->known_cap, memo->nknown + 1, sizeof *memo->known) &&
        ccl_strmap_put(memo->index, key, (uint32_t)memo->nknown))
        at = (uint32_t)memo->nknown++;
    if (at != CCL_NONE && better)
        memo->known[at] = known;
    ccl_lock_release(memo->lock);
}
