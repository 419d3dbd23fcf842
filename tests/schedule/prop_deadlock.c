// timeout: 300
/*
 * The deadlock check against a naive run: one slice at a time, blocks in random order, on random
 * programs, at every granularity, with random FIFO depths and slices. The same verdict and the same
 * number of stuck blocks whatever the order; a reported cycle is a cycle.
 */
#include "tests/base/main.h"
#include "tests/schedule/share.h"

#include <stdlib.h>
#include <string.h>

typedef struct naive_block {
    uint32_t tb, steps[64], nsteps, prev;
    uint32_t cur, batch, slice;
} naive_block_t;

typedef struct conn {
    uint32_t src, dst, channel, stage;
} conn_t;

typedef struct naive {
    const ccl_program_t *p;
    const ccl_blocking_t *how;
    naive_block_t blocks[128];
    uint32_t nblocks;
    uint32_t done[1024]; /* micro-batches done, by step */
    conn_t conns[256];
    uint32_t nconns;
    int64_t sent[256], taken[256]; /* by connection */
} naive_t;

static uint32_t stage_of(const naive_t *n, uint32_t b) {
    const naive_block_t *k = &n->blocks[b];
    return n->how->granularity == CCL_GRANULARITY_STAGE ? n->p->steps[k->steps[0]].stage : 0;
}

static void cut(naive_t *n) {
    for (uint32_t t = 0; t < n->p->ntbs; t++) {
        const ccl_tb_t *tb = &n->p->tbs[t];
        uint32_t prev = CCL_NONE;
        for (uint32_t stage = 0; stage < 4; stage++) {
            naive_block_t *k = &n->blocks[n->nblocks];
            *k = (naive_block_t){.tb = t, .prev = prev};
            for (uint32_t i = 0; i < tb->nsteps; i++) {
                uint32_t s = tb->first_step + i;
                if (n->how->granularity != CCL_GRANULARITY_STAGE ? stage == 0
                                                                 : n->p->steps[s].stage == stage)
                    k->steps[k->nsteps++] = s;
            }
            if (k->nsteps)
                prev = n->nblocks++;
        }
    }
}

static uint32_t slices(const naive_t *n, uint32_t s) {
    uint32_t type = n->p->steps[s].type;
    bool moves = ccl_primitive_sends(type) || ccl_primitive_receives(type);
    return moves && n->how->step_slices ? n->how->step_slices[s] : 1;
}

/** Connection that a step of block b sends (receives) on. */
static uint32_t conn_of(naive_t *n, uint32_t b, uint32_t s, bool sends) {
    const ccl_tb_t *tb = &n->p->tbs[n->blocks[b].tb];
    ccl_peers_t peers = ccl_program_peers(n->p, tb, s);
    conn_t key = {sends ? tb->rank : peers.recv_peer, sends ? peers.send_peer : tb->rank,
                  peers.channel, stage_of(n, b)};
    uint32_t c = 0;
    while (c < n->nconns && memcmp(&n->conns[c], &key, sizeof key) != 0)
        c++;
    n->conns[c] = key;
    n->nconns += c == n->nconns;
    return c;
}

/** One slice of block b if it can. */
static bool move(naive_t *n, uint32_t b) {
    naive_block_t *k = &n->blocks[b];
    if (k->cur == k->nsteps)
        return false;
    uint32_t s = k->steps[k->cur];
    const ccl_step_t *step = &n->p->steps[s];
    const ccl_tb_t *tb = &n->p->tbs[k->tb];
    bool task = n->how->granularity == CCL_GRANULARITY_TASK;
    if (!k->slice) {
        if (step->dep_tb != CCL_NONE) {
            const ccl_tb_t *on = &n->p->tbs[n->p->rank_first_tb[tb->rank] + step->dep_tb];
            if (n->done[on->first_step + step->dep_step] <= k->batch)
                return false;
        }
        if (k->cur == 0 && k->prev != CCL_NONE) {
            const naive_block_t *q = &n->blocks[k->prev];
            if (n->done[q->steps[q->nsteps - 1]] <= k->batch)
                return false;
        }
    }
    uint32_t from = CCL_NONE;
    if (ccl_primitive_receives(step->type)) {
        from = conn_of(n, b, s, false);
        if (n->sent[from] == n->taken[from])
            return false;
    }
    if (ccl_primitive_sends(step->type)) {
        uint32_t slots = n->how->step_slots ? n->how->step_slots[s] : n->how->slots;
        uint32_t to = conn_of(n, b, s, true);
        if (n->sent[to] - n->taken[to] >= slots)
            return false;
        n->sent[to]++;
    }
    if (from != CCL_NONE)
        n->taken[from]++;
    if (++k->slice < slices(n, s))
        return true;
    k->slice = 0;
    n->done[s] = k->batch + 1;
    if (task) { /* every micro-batch of a step, then the next step */
        if (++k->batch == n->how->batches) {
            k->batch = 0;
            k->cur++;
        }
    } else if (++k->cur == k->nsteps) {
        if (++k->batch < n->how->batches)
            k->cur = 0;
    }
    return true;
}

/** Blocks that cannot finish. */
static uint32_t run_naive(const ccl_program_t *p, const ccl_blocking_t *how, ccl_rng_t *rng) {
    naive_t *n = calloc(1, sizeof *n);
    n->p = p;
    n->how = how;
    cut(n);
    for (bool moved = true; moved;) {
        moved = false;
        uint32_t start = ccl_rng_below(rng, n->nblocks), many = 1 + ccl_rng_below(rng, 40);
        for (uint32_t i = 0; i < n->nblocks; i++) {
            for (uint32_t k = 0; k < many && move(n, (start + i) % n->nblocks); k++)
                moved = true;
        }
    }
    uint32_t stuck = 0;
    for (uint32_t b = 0; b < n->nblocks; b++)
        stuck += n->blocks[b].cur < n->blocks[b].nsteps;
    free(n);
    return stuck;
}

/** Blocks; CCL_NONE: none there. */
typedef struct ends {
    uint32_t n, rank_of[64], in[64], out[64], channel[64];
} ends_t;

/** Distinct connections; some sending and receiving blocks of one rank are joined, so that steps
   can be fused. */
static void random_ends(ccl_rng_t *rng, uint32_t nranks, uint32_t nconns, ends_t *e) {
    uint32_t *rank_of = e->rank_of, *in = e->in, *out = e->out, *channel = e->channel, ntbs = 0;
    memset(e->in, 0xff, sizeof e->in);
    memset(e->out, 0xff, sizeof e->out);
    /* Connection c is channel c, from block 2 c to block 2 c + 1. */
    for (uint32_t c = 0; c < nconns; c++) {
        uint32_t src = ccl_rng_below(rng, nranks),
                 dst = (src + 1 + ccl_rng_below(rng, nranks - 1)) % nranks;
        rank_of[ntbs] = src;
        out[ntbs++] = dst;
        rank_of[ntbs] = dst;
        in[ntbs++] = src;
    }
    for (uint32_t t = 0; t < ntbs; t++)
        channel[t] = t / 2;
    for (uint32_t t = 0; t < ntbs; t++) {
        for (uint32_t q = 0; q < ntbs; q++) {
            if (rank_of[t] != rank_of[q] || out[t] == CCL_NONE || in[t] != CCL_NONE ||
                in[q] == CCL_NONE || out[q] != CCL_NONE || t == q || ccl_rng_below(rng, 2))
                continue;
            /* one channel for both: rename the connection of q to that of t, both ends */
            uint32_t other = q ^ 1u, to = channel[t], taken = 0;
            for (uint32_t z = 0; z < ntbs; z++)
                taken += channel[z] == to && z != q && z != other &&
                         ((rank_of[z] == in[q] && out[z] == rank_of[q]) ||
                          (rank_of[z] == rank_of[q] && in[z] == in[q]));
            if (taken || (out[other] != CCL_NONE && in[other] != CCL_NONE))
                continue;
            in[t] = in[q];
            channel[q] = channel[other] = to;
            rank_of[q] = CCL_NONE; /* gone */
            break;
        }
    }
    e->n = ntbs;
}

/** Whom block t sends to; CCL_NONE: nobody receives. */
static uint32_t receiver_of(const ends_t *e, uint32_t t) {
    uint32_t found = CCL_NONE;
    for (uint32_t z = 0; z < e->n; z++) {
        if (e->rank_of[z] == e->out[t] && e->in[z] == e->rank_of[t] &&
            e->channel[z] == e->channel[t])
            found = z;
    }
    return found;
}

/** Random blocks on distinct connections; sends and receives nearly balanced by a random walk. */
static ccl_program_t *random_program(ccl_rng_t *rng) {
    uint32_t nranks = 2 + ccl_rng_below(rng, 4), nconns = 1 + ccl_rng_below(rng, 8);
    ccl_collective_t *coll = NULL;
    ck_assert_int_eq(ccl_collective_create(CCL_ALLREDUCE, nranks, 4, 0, &coll, NULL), CCL_OK);
    ccl_program_builder_t *b = ccl_program_builder_create("random", coll, 4, "Simple");
    uint32_t tb_of[64], id_of[64], len[64] = {0}, ids[8] = {0};
    ends_t e = {.n = 0};
    random_ends(rng, nranks, nconns, &e);
    uint32_t ntbs = e.n, *rank_of = e.rank_of, *in = e.in, *out = e.out, *channel = e.channel;
    for (uint32_t t = 0; t < ntbs; t++) {
        if (rank_of[t] == CCL_NONE)
            continue;
        tb_of[t] = ccl_program_builder_tb(b, rank_of[t], out[t], in[t], channel[t]);
        id_of[t] = ids[rank_of[t]]++;
    }
    static const uint8_t send_types[] = {CCL_PRIM_S}, recv_types[] = {CCL_PRIM_R, CCL_PRIM_RRC};
    static const uint8_t both_types[] = {CCL_PRIM_S, CCL_PRIM_R, CCL_PRIM_RCS, CCL_PRIM_RRCS};
    uint32_t total = 2 + ccl_rng_below(rng, 16);
    bool loose = ccl_rng_below(rng, 3) == 0; /* also steps that nobody answers */
    for (uint32_t i = 0; i < total; i++) {
        uint32_t t = ccl_rng_below(rng, ntbs), pair[2] = {t, CCL_NONE};
        if (rank_of[t] == CCL_NONE)
            continue;
        uint8_t types[2] = {CCL_PRIM_NOP, CCL_PRIM_R};
        if (loose && ccl_rng_below(rng, 4) == 0) {
            types[0] = in[t] == CCL_NONE    ? send_types[0]
                       : out[t] == CCL_NONE ? recv_types[ccl_rng_below(rng, 2)]
                                            : both_types[ccl_rng_below(rng, 4)];
        } else if (out[t] != CCL_NONE && ccl_rng_below(rng, 8)) {
            pair[1] = receiver_of(&e, t);
            types[0] = CCL_PRIM_S;
            if (pair[1] != CCL_NONE && ccl_rng_below(rng, 4) == 0) { /* the other end first */
                pair[0] = pair[1];
                pair[1] = t;
                types[0] = CCL_PRIM_R;
                types[1] = CCL_PRIM_S;
            }
        }
        for (uint32_t k = 0; k < 2 && pair[k] != CCL_NONE; k++) {
            ccl_step_t step = {.type = types[k],
                               .count = types[k] != CCL_PRIM_NOP,
                               .dep_tb = CCL_NONE,
                               .dep_step = CCL_NONE,
                               .stage = (uint16_t)(loose ? ccl_rng_below(rng, 3) : i / 6)};
            uint32_t q = ccl_rng_below(rng, ntbs);
            if (rank_of[q] == rank_of[pair[k]] && len[q] && q != pair[k] && ccl_rng_below(rng, 2)) {
                step.dep_tb = id_of[q];
                step.dep_step = ccl_rng_below(rng, len[q]);
            }
            ccl_program_builder_step(b, tb_of[pair[k]], step);
            len[pair[k]]++;
        }
    }
    ccl_program_t *p = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_msg(ccl_program_builder_finish(b, &p, &err) == CCL_OK, "%s", err.text);
    return p;
}

static void check_cycle(const ccl_deadlock_t *d) {
    ck_assert_uint_gt(d->nwaits, 0);
    uint32_t n = d->nwaits < 64 ? d->nwaits : 64;
    for (uint32_t i = 0; i < n; i++) {
        const ccl_deadlock_wait_t *w = &d->waits[i], *next = &d->waits[(i + 1) % n];
        if (w->on_rank == CCL_NONE) {
            ck_assert_uint_eq(d->nwaits, 1);
        } else if (d->nwaits <= 64) {
            ck_assert_uint_eq(w->on_rank, next->rank);
            ck_assert_uint_eq(w->on_tb, next->tb);
        }
    }
}

static bool finishes_with(const ccl_program_t *p, const ccl_blocking_t *how, const uint8_t *deepen,
                          uint32_t depth) {
    uint32_t slots[64];
    ccl_blocking_t trial = *how;
    ccl_deadlock_t got;
    for (uint32_t s = 0; s < p->nsteps; s++) {
        slots[s] = how->step_slots ? how->step_slots[s] : how->slots;
        if ((!deepen || deepen[s]) && slots[s] < depth)
            slots[s] = depth;
    }
    trial.step_slots = slots;
    ck_assert_int_eq(ccl_program_deadlock(NULL, p, &trial, &got, NULL), CCL_OK);
    return got.stuck == 0;
}

/** The least depth that does, of all FIFOs or of some: one less does not. @return whether any does
 */
static bool check_least_slots(const ccl_program_t *p, const ccl_blocking_t *how, ccl_rng_t *rng) {
    uint8_t some[64];
    uint32_t least[2] = {7, 7};
    for (uint32_t t = 0; t < p->ntbs; t++) { /* whole connections */
        uint8_t word = (uint8_t)ccl_rng_below(rng, 256);
        for (uint32_t k = 0; k < p->tbs[t].nsteps; k++) {
            uint32_t at = p->tbs[t].first_step + k;
            ccl_peers_t peers = ccl_program_peers(p, &p->tbs[t], at);
            some[at] = (word >> (peers.channel + peers.send_peer) % 8) & 1;
        }
    }
    for (int i = 0; i < 2; i++) {
        const uint8_t *deepen = i ? some : NULL;
        ck_assert_int_eq(ccl_program_least_slots(NULL, p, how, deepen, &least[i], NULL), CCL_OK);
        if (!least[i]) {
            ck_assert(!finishes_with(p, how, deepen, 1u << 30));
            continue;
        }
        ck_assert(finishes_with(p, how, deepen, least[i]));
        ck_assert_uint_gt(least[i], 1);
        ck_assert(!finishes_with(p, how, deepen, least[i] - 1));
    }
    ck_assert(!least[1] || least[0]); /* what some do, all do */
    return least[0] > 0;
}

START_TEST(same_as_the_naive_run) {
    ccl_rng_t rng;
    ccl_rng_init(&rng, 7);
    uint32_t finishes = 0, stuck_runs = 0, deeper = 0;
    for (uint32_t i = 0; i < 3000; i++) {
        ccl_program_t *p = random_program(&rng);
        if (i % 2)
            p = share_blocks(p, &rng);
        for (uint32_t g = 0; g < 3; g++) {
            uint32_t step_slices[64], step_slots[64], salt = ccl_rng_below(&rng, 6);
            uint32_t same = 1 + ccl_rng_below(&rng, 4);
            for (uint32_t s = 0; s < p->nsteps; s++)
                step_slices[s] = same;
            for (uint32_t t = 0; t < p->ntbs; t++) /* one depth per connection */
                for (uint32_t k = 0; k < p->tbs[t].nsteps; k++) {
                    uint32_t at = p->tbs[t].first_step + k;
                    ccl_peers_t peers = ccl_program_peers(p, &p->tbs[t], at);
                    step_slots[at] = 1 + (peers.channel + 3 * peers.send_peer + salt) % 6;
                }
            ccl_blocking_t how = {.granularity = (ccl_granularity_t)g,
                                  .batches = 1 + ccl_rng_below(&rng, 12),
                                  .slots = 1 + ccl_rng_below(&rng, 4)};
            how.step_slices = ccl_rng_below(&rng, 2) ? step_slices : NULL;
            how.step_slots = ccl_rng_below(&rng, 2) ? step_slots : NULL;
            ccl_deadlock_t got;
            ccl_error_t err = CCL_ERROR_INIT;
            ck_assert_msg(ccl_program_deadlock(NULL, p, &how, &got, &err) == CCL_OK, "%s",
                          err.text);
            /*
             * One micro-batch decides at algorithm and stage level if every message is taken; a
             * program that leaves some over is no program, so run the naive one for one as well.
             */
            ccl_blocking_t one = how;
            one.batches = g == CCL_GRANULARITY_TASK ? how.batches : 1;
            uint32_t want = run_naive(p, &one, &rng);
            ck_assert_msg(got.stuck == want, "program %u granularity %u: %u blocks stuck, not %u",
                          i, g, got.stuck, want);
            if (want) {
                check_cycle(&got);
                deeper += check_least_slots(p, &how, &rng);
                stuck_runs++;
            } else {
                ck_assert_uint_eq(got.nwaits, 0);
                finishes++;
            }
        }
        ccl_program_destroy(p);
    }
    ck_assert_uint_gt(finishes, 1000);
    ck_assert_uint_gt(stuck_runs, 1000);
    ck_assert_uint_gt(deeper, 100);
}
END_TEST

/** Balanced programs: one micro-batch decides for all. */
START_TEST(one_batch_decides) {
    ccl_rng_t rng;
    ccl_rng_init(&rng, 11);
    uint32_t compared = 0;
    for (uint32_t i = 0; i < 8000; i++) {
        ccl_program_t *p = random_program(&rng);
        if (i % 2)
            p = share_blocks(p, &rng);
        ccl_blocking_t how = {.granularity = ccl_rng_below(&rng, 2) ? CCL_GRANULARITY_STAGE
                                                                    : CCL_GRANULARITY_ALGORITHM,
                              .batches = 5,
                              .slots = 1 + ccl_rng_below(&rng, 3)};
        ccl_deadlock_t got;
        ck_assert_int_eq(ccl_program_deadlock(NULL, p, &how, &got, NULL), CCL_OK);
        ccl_blocking_t wide = how;
        wide.slots = 1000;
        ccl_deadlock_t balanced;
        ck_assert_int_eq(ccl_program_deadlock(NULL, p, &wide, &balanced, NULL), CCL_OK);
        uint32_t sends = 0, receives = 0;
        for (uint32_t s = 0; s < p->nsteps; s++) {
            sends += ccl_primitive_sends(p->steps[s].type);
            receives += ccl_primitive_receives(p->steps[s].type);
        }
        if (!balanced.nwaits && sends == receives && sends) { /* all that is sent is taken */
            compared++;
            ck_assert_msg((got.stuck > 0) == (run_naive(p, &how, &rng) > 0), "program %u", i);
        }
        ccl_program_destroy(p);
    }
    ck_assert_uint_gt(compared, 50);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("schedule.deadlock.naive");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, same_as_the_naive_run);
    tcase_add_test(tc, one_batch_decides);
    tcase_set_timeout(tc, 0);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
