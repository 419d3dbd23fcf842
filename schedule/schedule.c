/* Schedules and their builder. */
#include "schedule/groups_i.h"
#include "schedule/schedule_i.h"

#include <stdlib.h>
#include <string.h>

struct ccl_schedule_builder {
    char *name;
    ccl_collective_t *coll;
    ccl_transfer_t *transfers;
    size_t len, cap;
    ccl_i_groups_t groups;
    bool nomem;
};

ccl_schedule_builder_t *ccl_schedule_builder_create(const char *name, ccl_collective_t *coll) {
    ccl_schedule_builder_t *b = calloc(1, sizeof *b);
    char *copy = strdup(name ? name : "");
    if (!b || !copy) {
        free(b);
        free(copy);
        ccl_collective_destroy(coll);
        return NULL;
    }
    b->name = copy;
    b->coll = coll;
    return b;
}

void ccl_schedule_builder_destroy(ccl_schedule_builder_t *b) {
    if (!b)
        return;
    ccl_collective_destroy(b->coll);
    ccl_i_groups_fini(&b->groups);
    free(b->transfers);
    free(b->name);
    free(b);
}

uint32_t ccl_schedule_builder_group(ccl_schedule_builder_t *b, const uint32_t *ranks, uint32_t n) {
    uint32_t end = ccl_i_groups_add(&b->groups, ranks, n);
    b->nomem = b->nomem || end == CCL_NONE;
    return end;
}

void ccl_schedule_builder_add(ccl_schedule_builder_t *b, ccl_transfer_t transfer) {
    /* One beyond the bound is kept, so that finish sees that there were too many. */
    if (b->nomem || b->len > CCL_I_MAX_TRANSFERS)
        return;
    if (b->len == b->cap && !ccl_grow_raw(&b->transfers, &b->cap, b->len + 1, sizeof transfer)) {
        b->nomem = true;
        return;
    }
    b->transfers[b->len++] = transfer;
}

/** Stable sort by step, 12 bits at a time; in order already is common. */
static bool sort_by_step(ccl_transfer_t **transfers, size_t len) {
    ccl_transfer_t *from = *transfers;
    bool sorted = true;
    for (size_t i = 1; i < len && sorted; i++)
        sorted = from[i - 1].step <= from[i].step;
    if (sorted)
        return true;
    enum { BITS = 12, BUCKETS = 1 << BITS };
    ccl_transfer_t *to = malloc(len * sizeof *to);
    size_t *first = malloc((BUCKETS + 1) * sizeof *first);
    if (!to || !first) {
        free(to);
        free(first);
        return false;
    }
    for (int shift = 0; shift < 32; shift += BITS) {
        memset(first, 0, (BUCKETS + 1) * sizeof *first);
        for (size_t i = 0; i < len; i++)
            first[(from[i].step >> shift & (BUCKETS - 1)) + 1]++;
        if (first[(from[0].step >> shift & (BUCKETS - 1)) + 1] == len)
            continue;
        for (size_t k = 0; k < BUCKETS; k++)
            first[k + 1] += first[k];
        for (size_t i = 0; i < len; i++)
            to[first[from[i].step >> shift & (BUCKETS - 1)]++] = from[i];
        ccl_transfer_t *swap = from;
        from = to;
        to = swap;
    }
    free(first);
    free(to);
    *transfers = from;
    return true;
}

static ccl_status_t check_transfer(const ccl_collective_t *coll, uint32_t ngroups, size_t index,
                                   const ccl_transfer_t *t, ccl_error_t *err) {
    unsigned long long i = index;
    bool from = ccl_peer_is_group(t->src), to = ccl_peer_is_group(t->dst);
    if (from && to)
        return ccl_fail(err, CCL_ERR_INPUT, "transfer %llu goes from a group to a group", i);
    if ((from && (t->src & ~CCL_PEER_GROUP) >= ngroups) ||
        (to && (t->dst & ~CCL_PEER_GROUP) >= ngroups))
        return ccl_fail(err, CCL_ERR_INPUT, "transfer %llu names a group that does not exist", i);
    if ((!from && t->src >= coll->nranks) || (!to && t->dst >= coll->nranks))
        return ccl_fail(err, CCL_ERR_INPUT, "transfer %llu goes from rank %u to %u of %u ranks", i,
                        t->src, t->dst, coll->nranks);
    if (t->src == t->dst)
        return ccl_fail(err, CCL_ERR_INPUT, "transfer %llu goes from rank %u to itself", i, t->src);
    if (t->chunk >= coll->nchunks)
        return ccl_fail(err, CCL_ERR_INPUT, "transfer %llu moves chunk %u of %u chunks", i,
                        t->chunk, coll->nchunks);
    if (t->step >= CCL_I_MAX_STEP_NUMBER)
        return ccl_fail(err, CCL_ERR_INPUT, "transfer %llu has step %u: at most %u is possible", i,
                        t->step, CCL_I_MAX_STEP_NUMBER - 1);
    if (t->reduce > 1)
        return ccl_fail(err, CCL_ERR_INPUT, "transfer %llu has operation %u: 0 copies, 1 reduces",
                        i, t->reduce);
    return CCL_OK;
}

ccl_status_t ccl_schedule_builder_finish(ccl_schedule_builder_t *b, ccl_schedule_t **out,
                                         ccl_error_t *err) {
    ccl_status_t status = CCL_OK;
    ccl_schedule_t *schedule = NULL;
    if (b->nomem)
        goto nomem;
    if (b->len > CCL_I_MAX_TRANSFERS) {
        status =
            ccl_fail(err, CCL_ERR_INPUT, "too many transfers: at most %u", CCL_I_MAX_TRANSFERS);
        goto end;
    }
    uint32_t nsteps = 0, nchannels = 1;
    for (size_t i = 0; i < b->len; i++) {
        const ccl_transfer_t *t = &b->transfers[i];
        CCL_TRY_GOTO(check_transfer(b->coll, (uint32_t)b->groups.len, i, t, err), status, end);
        nsteps = t->step >= nsteps ? t->step + 1 : nsteps;
        nchannels = t->channel >= nchannels ? t->channel + 1u : nchannels;
    }
    if (b->len && !sort_by_step(&b->transfers, b->len))
        goto nomem;
    schedule = calloc(1, sizeof *schedule);
    if (!schedule)
        goto nomem;
    ccl_arena_init(&schedule->arena);
    schedule->name = ccl_arena_strdup(&schedule->arena, b->name);
    schedule->transfers =
        ccl_arena_alloc(&schedule->arena, b->len ? b->len : 1, sizeof *schedule->transfers);
    if (!schedule->name || !schedule->transfers ||
        !ccl_i_groups_place(&b->groups, &schedule->arena, &schedule->groups, &schedule->ngroups))
        goto nomem;
    CCL_TRY_GOTO(ccl_i_groups_check(schedule->groups, schedule->ngroups, b->coll->nranks, err),
                 status, end);
    if (b->len)
        memcpy(schedule->transfers, b->transfers, b->len * sizeof *b->transfers);
    schedule->ntransfers = (uint32_t)b->len;
    schedule->nsteps = nsteps;
    schedule->nchannels = nchannels;
    schedule->coll = b->coll;
    b->coll = NULL;
    *out = schedule;
    schedule = NULL;
    goto end;
nomem:
    status = ccl_fail_nomem(err);
end:
    ccl_schedule_destroy(schedule);
    ccl_schedule_builder_destroy(b);
    return status;
}

void ccl_schedule_destroy(ccl_schedule_t *schedule) {
    if (!schedule)
        return;
    ccl_collective_destroy(schedule->coll);
    ccl_arena_fini(&schedule->arena);
    free(schedule);
}

ccl_status_t ccl_schedule_refuse_groups(const ccl_schedule_t *schedule, const char *what,
                                        ccl_error_t *err) {
    if (schedule->ngroups == 0)
        return CCL_OK;
    return ccl_fail(err, CCL_UNSUPPORTED,
                    "%s knows no transfers through a switch, which schedule %.80s has", what,
                    schedule->name);
}

bool ccl_schedule_equal(const ccl_schedule_t *a, const ccl_schedule_t *b) {
    if (strcmp(a->name, b->name) != 0 || a->ntransfers != b->ntransfers || a->nsteps != b->nsteps ||
        a->nchannels != b->nchannels || a->limited != b->limited || a->rounds != b->rounds ||
        a->joined != b->joined || a->listed != b->listed || a->piece_bytes != b->piece_bytes ||
        a->stagger != b->stagger || !ccl_collective_equal(a->coll, b->coll) ||
        !ccl_i_groups_equal(a->groups, a->ngroups, b->groups, b->ngroups))
        return false;
    for (uint32_t i = 0; i < a->ntransfers; i++) {
        const ccl_transfer_t *x = &a->transfers[i], *y = &b->transfers[i];
        if (x->src != y->src || x->dst != y->dst || x->chunk != y->chunk || x->step != y->step ||
            x->channel != y->channel || x->reduce != y->reduce || x->phase != y->phase)
            return false;
    }
    return true;
}
