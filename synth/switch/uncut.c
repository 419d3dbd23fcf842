/* An AllReduce for waves, which cut its trees otherwise: whole trees, as early as they can be. */
#include "synth/switch/through.h"

#include <stdlib.h>
#include <string.h>

/** Chunks in one, at most. */
#define MOST_CUTS 16u

typedef struct uncut {
    const ccl_schedule_t *from;
    uint32_t *first, *list; /* [nchunks + 2], [ntransfers] transfers by chunk, then step */
    uint64_t *ends;         /* [ntransfers] by chunk, then source, destination and kind */
    uint32_t *level;        /* [nranks] the step before which a rank has its part of a chunk */
} uncut_t;

static int by_number(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static ccl_status_t uncut_init(uncut_t *u, ccl_error_t *err) {
    const ccl_schedule_t *s = u->from;
    uint32_t nchunks = s->coll->nchunks;
    u->first = calloc(nchunks + (size_t)3, sizeof *u->first);
    u->list = malloc((s->ntransfers + (size_t)1) * sizeof *u->list);
    u->ends = malloc((s->ntransfers + (size_t)1) * sizeof *u->ends);
    u->level = malloc((s->coll->nranks + (size_t)1) * sizeof *u->level);
    if (!u->first || !u->list || !u->ends || !u->level)
        return ccl_fail_nomem(err);
    ccl_i_through_by_chunk(s, u->first, u->list);
    for (uint32_t i = 0; i < s->ntransfers; i++) {
        const ccl_transfer_t *t = &s->transfers[u->list[i]];
        u->ends[i] = (uint64_t)t->src << 32 | t->dst << 1 | t->reduce;
    }
    for (uint32_t c = 0; c < nchunks; c++)
        qsort(u->ends + u->first[c], u->first[c + 1] - u->first[c], sizeof *u->ends, by_number);
    return CCL_OK;
}

static void uncut_fini(uncut_t *u) {
    free(u->first);
    free(u->list);
    free(u->ends);
    free(u->level);
}

/* Do two chunks go the same way? */
static bool alike(const uncut_t *u, uint32_t a, uint32_t b) {
    uint32_t n = u->first[a + 1] - u->first[a];
    return n == u->first[b + 1] - u->first[b] &&
           memcmp(u->ends + u->first[a], u->ends + u->first[b], n * sizeof *u->ends) == 0;
}

/* As many chunks as follow each other everywhere and go the same way. */
static uint32_t cuts_of(const uncut_t *u) {
    uint32_t nchunks = u->from->coll->nchunks, cuts = MOST_CUTS;
    for (; cuts > 1; cuts--) {
        bool all = nchunks % cuts == 0;
        for (uint32_t c = 0; c < nchunks && all; c++)
            all = c % cuts == 0 || alike(u, c - 1, c);
        if (all)
            break;
    }
    return cuts;
}

ccl_status_t ccl_i_through_uncut(const ccl_schedule_t *schedule, ccl_schedule_t **out,
                                 ccl_error_t *err) {
    const ccl_collective_t *coll = schedule->coll;
    uncut_t u = {.from = schedule};
    ccl_collective_t *whole = NULL;
    ccl_schedule_builder_t *b = NULL;
    ccl_status_t status = uncut_init(&u, err);
    *out = NULL;
    uint32_t cuts = status == CCL_OK ? cuts_of(&u) : 1;
    if (status == CCL_OK)
        status =
            ccl_collective_create(coll->kind, coll->nranks, coll->nchunks / cuts, 0, &whole, err);
    if (status == CCL_OK) {
        b = ccl_schedule_builder_create(schedule->name, whole);
        status = b ? CCL_OK : ccl_fail_nomem(err);
    }
    for (uint32_t c = 0; c < coll->nchunks && status == CCL_OK; c += cuts) {
        memset(u.level, 0, coll->nranks * sizeof *u.level);
        for (uint32_t i = u.first[c]; i < u.first[c + 1]; i++) {
            ccl_transfer_t t = schedule->transfers[u.list[i]];
            t.step = u.level[t.src];
            t.chunk /= cuts;
            if (u.level[t.dst] < t.step + 1)
                u.level[t.dst] = t.step + 1;
            ccl_schedule_builder_add(b, t);
        }
    }
    if (status == CCL_OK)
        status = ccl_schedule_builder_finish(b, out, err);
    if (status == CCL_OK)
        ccl_origin_set((*out)->origin, "%s", schedule->origin);
    uncut_fini(&u);
    return status;
}
