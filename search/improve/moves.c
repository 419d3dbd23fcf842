/* Small changes of a schedule. */
#include "search/improve/moves.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_OF_CHUNK = 2000, /* transfers of one chunk: beyond these it stays as it is */
    MOST_CHANNELS = 32,
    FAR = 4 /* steps that a transfer moves, at most */
};

ccl_status_t ccl_i_moves_init(const ccl_schedule_t *schedule, ccl_i_moves_t *out,
                              ccl_error_t *err) {
    ccl_i_moves_t from = {schedule->coll, schedule->transfers, schedule->ntransfers,
                          schedule->nchannels, 0};
    return ccl_i_moves_copy(&from, out, err);
}

ccl_status_t ccl_i_moves_copy(const ccl_i_moves_t *from, ccl_i_moves_t *out, ccl_error_t *err) {
    ccl_i_moves_t m = {.n = from->n, .nchannels = from->nchannels};
    CCL_TRY(ccl_collective_clone(from->coll, &m.coll, err));
    if (!ccl_grow(&m.transfers, &m.cap, from->n + (size_t)4, sizeof *m.transfers)) {
        ccl_i_moves_fini(&m);
        return ccl_fail_nomem(err);
    }
    if (from->n > 0)
        memcpy(m.transfers, from->transfers, from->n * sizeof *m.transfers);
    *out = m;
    return CCL_OK;
}

void ccl_i_moves_fini(ccl_i_moves_t *m) {
    ccl_collective_destroy(m->coll);
    free(m->transfers);
    *m = (ccl_i_moves_t){0};
}

ccl_status_t ccl_i_moves_split(ccl_i_moves_t *m, bool *done_out, ccl_error_t *err) {
    ccl_collective_t *coll = NULL;
    CCL_TRY(ccl_collective_split(m->coll, 2, &coll, err));
    if (!ccl_grow(&m->transfers, &m->cap, 2 * (size_t)m->n, sizeof *m->transfers)) {
        ccl_collective_destroy(coll);
        return ccl_fail_nomem(err);
    }
    for (uint32_t i = 0; i < m->n; i++) {
        ccl_transfer_t *t = &m->transfers[i];
        t->chunk *= 2;
        t->step *= 2;
        m->transfers[m->n + i] = *t;
        m->transfers[m->n + i].chunk++;
        m->transfers[m->n + i].step++;
    }
    ccl_collective_destroy(m->coll);
    m->coll = coll;
    m->n *= 2;
    *done_out = true;
    return CCL_OK;
}

/* ---------------------------------------------------------------- one chunk */

/** Transfers of one chunk, as indices. */
typedef struct chunk {
    ccl_i_moves_t *m;
    uint32_t *at, n, id;
    bool *copied; /* [nranks] a copy arrives there */
} chunk_t;

static ccl_status_t chunk_open(ccl_i_moves_t *m, uint32_t id, chunk_t *out, ccl_error_t *err) {
    chunk_t c = {.m = m, .id = id};
    c.at = malloc((m->n + (size_t)4) * sizeof *c.at);
    c.copied = calloc(m->coll->nranks, sizeof *c.copied);
    if (!c.at || !c.copied) {
        free(c.at);
        free(c.copied);
        return ccl_fail_nomem(err);
    }
    for (uint32_t i = 0; i < m->n; i++)
        if (m->transfers[i].chunk == id)
            c.at[c.n++] = i;
    *out = c;
    return CCL_OK;
}

static void chunk_close(chunk_t *c) {
    free(c->at);
    free(c->copied);
}

static ccl_transfer_t *of(const chunk_t *c, uint32_t i) {
    return &c->m->transfers[c->at[i]];
}

static void see_copies(chunk_t *c) {
    memset(c->copied, 0, c->m->coll->nranks * sizeof *c->copied);
    for (uint32_t i = 0; i < c->n; i++)
        if (!of(c, i)->reduce)
            c->copied[of(c, i)->dst] = true;
}

/* Does x read what y wrote? Reductions come before copies. */
static bool reads(const chunk_t *c, const ccl_transfer_t *x, const ccl_transfer_t *y) {
    if (y->dst != x->src)
        return false;
    return x->reduce ? y->reduce : !y->reduce || !c->copied[x->src];
}

/* Is x too early behind y? A copy may not take the place of a sum that is still to be sent. */
static uint32_t earliest(const chunk_t *c, const ccl_transfer_t *x, const ccl_transfer_t *y) {
    if (reads(c, x, y))
        return y->step + 1;
    return !x->reduce && y->reduce && y->src == x->dst ? y->step : 0;
}

/* Steps pushed later until all that is read is there; false: it goes round in a circle. */
static bool settle(chunk_t *c) {
    bool moved = true;
    see_copies(c);
    for (uint32_t pass = 0; moved && pass <= c->n; pass++) {
        moved = false;
        for (uint32_t i = 0; i < c->n; i++) {
            ccl_transfer_t *x = of(c, i);
            for (uint32_t k = 0; k < c->n; k++) {
                uint32_t least = k == i ? 0 : earliest(c, x, of(c, k));
                if (x->step < least) {
                    x->step = least;
                    moved = true;
                }
            }
        }
    }
    return !moved;
}

static bool wanted(const chunk_t *c, uint32_t rank) {
    const ccl_chunk_t *chunk = &c->m->coll->chunks[c->id];
    for (uint32_t i = 0; i < chunk->ndests; i++)
        if (chunk->dests[i] == rank)
            return true;
    return false;
}

/* Copies to who neither wants nor hands on the chunk go. */
static void drop_idle(ccl_i_moves_t *m, chunk_t *c) {
    for (bool again = true; again;) {
        again = false;
        for (uint32_t i = 0; i < c->n && !again; i++) {
            bool used = of(c, i)->reduce || wanted(c, of(c, i)->dst);
            for (uint32_t k = 0; k < c->n && !used; k++)
                used = of(c, k)->src == of(c, i)->dst;
            if (used)
                continue;
            uint32_t last = --m->n, gone = c->at[i];
            m->transfers[gone] = m->transfers[last];
            for (uint32_t k = 0; k < c->n; k++)
                if (c->at[k] == last)
                    c->at[k] = gone;
            c->at[i] = c->at[--c->n];
            again = true;
        }
    }
}

/* ---------------------------------------------------------------- changes */

static bool holds(const chunk_t *c, uint32_t rank) {
    const ccl_chunk_t *chunk = &c->m->coll->chunks[c->id];
    bool held = c->copied[rank];
    for (uint32_t i = 0; i < chunk->nsources && !held && !chunk->reduced; i++)
        held = chunk->sources[i] == rank;
    for (uint32_t i = 0; i < c->n && !held; i++) /* of reductions: where the copies begin */
        held = !of(c, i)->reduce && of(c, i)->src == rank;
    return held;
}

/* A copy comes from another rank that has the chunk; a sum goes to another rank. */
static bool reroute(chunk_t *c, ccl_rng_t *rng, ccl_transfer_t *t) {
    uint32_t count = 0, other = CCL_NONE;
    see_copies(c);
    for (uint32_t r = 0; r < c->m->coll->nranks; r++) {
        bool fits = r != t->src && r != t->dst && (t->reduce || holds(c, r));
        if (fits && ccl_rng_below(rng, ++count) == 0)
            other = r;
    }
    if (other == CCL_NONE)
        return false;
    if (t->reduce) {
        t->dst = other;
        return true;
    }
    t->src = other;
    t->step = 0; /* as early as it is there */
    return true;
}

/* A copy goes over a rank that does not have the chunk. */
static bool relay(chunk_t *c, ccl_rng_t *rng, uint32_t index) {
    ccl_i_moves_t *m = c->m;
    uint32_t count = 0, other = CCL_NONE;
    see_copies(c);
    for (uint32_t r = 0; r < m->coll->nranks; r++) {
        const ccl_transfer_t *t = &m->transfers[index];
        if (r != t->src && r != t->dst && !holds(c, r) && ccl_rng_below(rng, ++count) == 0)
            other = r;
    }
    if (other == CCL_NONE || m->transfers[index].reduce || m->n == m->cap)
        return false;
    ccl_transfer_t *t = &m->transfers[index], *first = &m->transfers[m->n];
    *first = *t;
    first->dst = other;
    t->src = other;
    t->step++;
    c->at[c->n++] = m->n++;
    return true;
}

/* Two copies to one rank, of different chunks, come each from the other's source. */
static ccl_transfer_t *partner(ccl_i_moves_t *m, ccl_rng_t *rng, const ccl_transfer_t *t) {
    uint32_t count = 0;
    ccl_transfer_t *chosen = NULL;
    for (uint32_t i = 0; i < m->n; i++) {
        ccl_transfer_t *o = &m->transfers[i];
        if (o->dst == t->dst && o->src != t->src && o->chunk != t->chunk && !o->reduce &&
            !t->reduce && ccl_rng_below(rng, ++count) == 0)
            chosen = o;
    }
    return chosen;
}

static bool other_step(ccl_rng_t *rng, ccl_transfer_t *t) {
    uint32_t far = 1 + ccl_rng_below(rng, FAR);
    if (ccl_rng_below(rng, 2) == 0) {
        t->step += far;
        return true;
    }
    if (t->step == 0)
        return false;
    t->step -= far < t->step ? far : t->step;
    return true;
}

/* Of those that there are, sometimes one more. */
static bool other_channel(ccl_i_moves_t *m, ccl_rng_t *rng, ccl_transfer_t *t) {
    uint32_t n = m->nchannels + (m->nchannels < MOST_CHANNELS && ccl_rng_below(rng, 4) == 0);
    uint32_t channel = ccl_rng_below(rng, n);
    if (channel == t->channel)
        return false;
    t->channel = (uint16_t)channel;
    m->nchannels = channel >= m->nchannels ? channel + 1 : m->nchannels;
    return true;
}

static ccl_status_t settle_chunk(ccl_i_moves_t *m, uint32_t id, bool *done, ccl_error_t *err) {
    chunk_t c;
    CCL_TRY(chunk_open(m, id, &c, err));
    *done = c.n <= MOST_OF_CHUNK && settle(&c);
    if (*done)
        drop_idle(m, &c);
    chunk_close(&c);
    return CCL_OK;
}

ccl_status_t ccl_i_moves_any(ccl_i_moves_t *m, ccl_rng_t *rng, uint32_t at, bool *done_out,
                             ccl_error_t *err) {
    ccl_transfer_t *t = &m->transfers[at], *other = NULL;
    uint32_t id = t->chunk, second = CCL_NONE, src = t->src;
    bool done = false;
    chunk_t c;
    CCL_TRY(chunk_open(m, id, &c, err));
    if (c.n <= MOST_OF_CHUNK) {
        switch (ccl_rng_below(rng, 8)) {
        case 0:
        case 1:
        case 2:
        case 3:
            done = reroute(&c, rng, t);
            break;
        case 4:
            done = relay(&c, rng, at);
            break;
        case 5:
            other = partner(m, rng, t);
            done = other != NULL;
            if (done) {
                second = other->chunk;
                t->src = other->src;
                other->src = src;
            }
            break;
        case 6:
            done = other_step(rng, t);
            break;
        default:
            done = other_channel(m, rng, t);
        }
    }
    chunk_close(&c);
    if (done)
        CCL_TRY(settle_chunk(m, id, &done, err));
    if (done && second != CCL_NONE)
        CCL_TRY(settle_chunk(m, second, &done, err));
    *done_out = done;
    return CCL_OK;
}
