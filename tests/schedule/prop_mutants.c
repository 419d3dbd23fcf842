// timeout: 300
/*
 * The verifier under mutation: small programs, real ones and ones made here, with one thing
 * changed. At least 99 of 100 mutants are refused; every survivor is run by brute force and must be
 * right, and mutants that the verifier says lack something must go wrong there.
 */
#include "brute.h"
#include "mutants.h"
#include "tests/base/main.h"
#include "tests/base/nightly.h"

#define MUTANTS (nightly() ? 12000u : SANITIZED ? 500u : 4500u)
#define SURVIVOR_RUNS 24

/* ---------------------------------------------------------------- programs made here */

static ccl_program_builder_t *begin(const char *name, ccl_collective_kind_t kind, uint32_t n,
                                    uint32_t c, const char *proto) {
    ccl_collective_t *coll = NULL;
    ck_assert_int_eq(ccl_collective_create(kind, n, c, 0, &coll, NULL), CCL_OK);
    return ccl_program_builder_create(name, coll, kind == CCL_ALLREDUCE ? c : n * c, proto);
}

static ccl_program_t *finish(ccl_program_builder_t *b) {
    ccl_program_t *p = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_msg(ccl_program_builder_finish(b, &p, &err) == CCL_OK, "%s", err.text);
    return p;
}

typedef struct place {
    uint8_t buffer;
    uint32_t offset;
} place_t;

/** What a step waits for. */
typedef struct dep {
    uint32_t tb, step;
} dep_t;

static const dep_t nothing = {CCL_NONE, CCL_NONE};

static uint32_t add(ccl_program_builder_t *b, uint32_t tb, ccl_primitive_t type, place_t src,
                    place_t dst, uint32_t count, dep_t dep) {
    ccl_step_t step = {.type = (uint8_t)type,
                       .src_buf = src.buffer,
                       .src_off = src.offset,
                       .dst_buf = dst.buffer,
                       .dst_off = dst.offset,
                       .count = count,
                       .dep_tb = dep.tb,
                       .dep_step = dep.step};
    return ccl_program_builder_step(b, tb, step);
}

enum { I = CCL_BUF_INPUT, O = CCL_BUF_OUTPUT, S = CCL_BUF_SCRATCH };

/** Ring, one block that receives and sends; fused. In place. */
static ccl_program_t *ring_allgather(uint32_t n, uint32_t c) {
    ccl_program_builder_t *b = begin("ring-ag", CCL_ALLGATHER, n, c, "Simple");
    ccl_program_builder_place(b, true, false, 0, 0);
    for (uint32_t r = 0; r < n; r++) {
        uint32_t t = ccl_program_builder_tb(b, r, (r + 1) % n, (r + n - 1) % n, 0);
        add(b, t, CCL_PRIM_S, (place_t){O, r * c}, (place_t){O, r * c}, c, nothing);
        for (uint32_t i = 1; i < n; i++) {
            uint32_t at = (r + n - i) % n * c;
            add(b, t, i + 1 < n ? CCL_PRIM_RCS : CCL_PRIM_R, (place_t){O, at}, (place_t){O, at}, c,
                nothing);
        }
    }
    return finish(b);
}

/** Ring with a block for sending and one for receiving, so with dependencies. Both places. */
static ccl_program_t *ring_allgather_blocks(uint32_t n, uint32_t c) {
    ccl_program_builder_t *b = begin("ring-ag-blocks", CCL_ALLGATHER, n, c, "LL");
    ccl_program_builder_place(b, true, true, 0, 0);
    for (uint32_t r = 0; r < n; r++) {
        uint32_t out = ccl_program_builder_tb(b, r, (r + 1) % n, CCL_NONE, 0);
        uint32_t in = ccl_program_builder_tb(b, r, CCL_NONE, (r + n - 1) % n, 0);
        uint32_t copy = ccl_program_builder_tb(b, r, CCL_NONE, CCL_NONE, 0);
        add(b, copy, CCL_PRIM_CPY, (place_t){I, 0}, (place_t){O, r * c}, c, nothing);
        for (uint32_t i = 1; i < n; i++) {
            uint32_t at = (r + n - i) % n * c, sent = (r + n - i + 1) % n * c;
            add(b, in, CCL_PRIM_R, (place_t){O, at}, (place_t){O, at}, c, nothing);
            add(b, out, CCL_PRIM_S, (place_t){i == 1 ? I : O, i == 1 ? 0 : sent},
                (place_t){O, sent}, c, (dep_t){i == 1 ? CCL_NONE : 1, i == 1 ? CCL_NONE : i - 2});
        }
    }
    return finish(b);
}

/** Reduce-scatter and all-gather on a ring, out of place: partial sums in scratch. */
static ccl_program_t *ring_allreduce(uint32_t n) {
    ccl_program_builder_t *b = begin("ring-ar", CCL_ALLREDUCE, n, n, "LL128");
    ccl_program_builder_place(b, true, true, 0, 0);
    for (uint32_t r = 0; r < n; r++) {
        uint32_t t = ccl_program_builder_tb(b, r, (r + 1) % n, (r + n - 1) % n, 0);
        add(b, t, CCL_PRIM_S, (place_t){I, (r + n - 1) % n}, (place_t){O, 0}, 1, nothing);
        for (uint32_t i = 2; i < n; i++)
            add(b, t, CCL_PRIM_RRS, (place_t){I, (r + n - i) % n}, (place_t){O, 0}, 1, nothing);
        add(b, t, CCL_PRIM_RRCS, (place_t){I, r}, (place_t){O, r}, 1, nothing);
        for (uint32_t i = 1; i < n; i++) {
            uint32_t at = (r + n - i) % n;
            add(b, t, i + 1 < n ? CCL_PRIM_RCS : CCL_PRIM_R, (place_t){O, at}, (place_t){O, at}, 1,
                nothing);
        }
    }
    return finish(b);
}

/** All pairs: parts to their owner's scratch, one block adds up, each pair's block sends results.
 */
static ccl_program_t *allpairs_allreduce(uint32_t n) {
    ccl_program_builder_t *b = begin("allpairs-ar", CCL_ALLREDUCE, n, n, "LL");
    ccl_program_builder_place(b, true, false, 0, 0);
    for (uint32_t r = 0; r < n; r++) {
        ccl_program_builder_buffer(b, r, CCL_BUF_SCRATCH, n);
        uint32_t sum = ccl_program_builder_tb(b, r, CCL_NONE, CCL_NONE, 0);
        for (uint32_t d = 1; d < n; d++) {
            uint32_t peer = (r + d) % n, t = ccl_program_builder_tb(b, r, peer, peer, 0);
            add(b, t, CCL_PRIM_S, (place_t){I, peer}, (place_t){S, r}, 1, nothing);
            add(b, t, CCL_PRIM_R, (place_t){I, r}, (place_t){S, peer}, 1, nothing);
            add(b, sum, CCL_PRIM_RE, (place_t){S, peer}, (place_t){I, r}, 1, (dep_t){d, 1});
        }
        for (uint32_t d = 1; d < n; d++) {
            uint32_t peer = (r + d) % n, t = 0;
            (void)t;
            /* blocks were created in turn: the handle of (r, d) follows from n */
            uint32_t handle = r * n + d;
            add(b, handle, CCL_PRIM_S, (place_t){I, r}, (place_t){I, r}, 1, (dep_t){0, n - 2});
            add(b, handle, CCL_PRIM_R, (place_t){I, peer}, (place_t){I, peer}, 1, nothing);
        }
    }
    return finish(b);
}

/** Two servers of g GPUs: gather for a server's same-index peer in scratch, one message across. */
static ccl_program_t *two_step_alltoall(uint32_t g) {
    uint32_t n = 2 * g;
    ccl_program_builder_t *b = begin("two-step-a2a", CCL_ALLTOALL, n, 1, "Simple");
    ccl_program_builder_place(b, false, true, 0, 0);
    for (uint32_t r = 0; r < n; r++) {
        uint32_t base = r / g * g, far_base = g - base, local = r % g, far = far_base + local;
        ccl_program_builder_buffer(b, r, CCL_BUF_SCRATCH, g);
        uint32_t across = ccl_program_builder_tb(b, r, far, far, 0);
        uint32_t first_local = 1;
        for (uint32_t l = 0; l < g; l++) { /* far rank far_base + l is reached through base + l */
            uint32_t peer = base + l;
            uint32_t t = ccl_program_builder_tb(b, r, l == local ? CCL_NONE : peer,
                                                l == local ? CCL_NONE : peer, 0);
            if (l == local) {
                add(b, t, CCL_PRIM_CPY, (place_t){I, r}, (place_t){O, r}, 1, nothing);
                add(b, t, CCL_PRIM_CPY, (place_t){I, far}, (place_t){S, local}, 1, nothing);
                continue;
            }
            add(b, t, CCL_PRIM_S, (place_t){I, far_base + l}, (place_t){S, local}, 1, nothing);
            add(b, t, CCL_PRIM_R, (place_t){I, 0}, (place_t){S, l}, 1, nothing);
            add(b, t, CCL_PRIM_S, (place_t){I, peer}, (place_t){O, r}, 1, nothing);
            add(b, t, CCL_PRIM_R, (place_t){I, 0}, (place_t){O, peer}, 1, nothing);
        }
        for (uint32_t l = 0; l + 1 < g; l++)
            add(b, across, CCL_PRIM_NOP, (place_t){I, 0}, (place_t){I, 0}, 0,
                (dep_t){first_local + l, 1});
        add(b, across, CCL_PRIM_S, (place_t){S, 0}, (place_t){O, base}, g,
            (dep_t){first_local + g - 1, 1});
        add(b, across, CCL_PRIM_R, (place_t){S, 0}, (place_t){O, far_base}, g, nothing);
    }
    return finish(b);
}

/** Reduce-scatter by halving, in place: the shrinking part is added in the input. */
static ccl_program_t *pair_reducescatter(void) {
    ccl_program_builder_t *b = begin("halving-rs", CCL_REDUCESCATTER, 4, 1, "Simple");
    ccl_program_builder_place(b, true, false, 0, 0);
    for (uint32_t r = 0; r < 4; r++) {
        ccl_program_builder_buffer(b, r, CCL_BUF_SCRATCH, 3);
        uint32_t far = r ^ 2, near = r ^ 1, keep = r & 2, give = keep ^ 2;
        uint32_t t = ccl_program_builder_tb(b, r, far, far, 0);
        uint32_t u = ccl_program_builder_tb(b, r, near, near, 1);
        add(b, t, CCL_PRIM_S, (place_t){I, give}, (place_t){S, 0}, 2, nothing);
        add(b, t, CCL_PRIM_R, (place_t){I, 0}, (place_t){S, 0}, 2, nothing);
        add(b, t, CCL_PRIM_RE, (place_t){S, 0}, (place_t){I, keep}, 2, nothing);
        add(b, u, CCL_PRIM_S, (place_t){I, near}, (place_t){S, 2}, 1, (dep_t){0, 2});
        add(b, u, CCL_PRIM_RRC, (place_t){I, r}, (place_t){O, 0}, 1, nothing);
    }
    return finish(b);
}

/* ---------------------------------------------------------------- mutants */

typedef struct tally {
    uint32_t mutants, survivors, checked, races, races_shown, by_kind[MUTATIONS],
        alive_by_kind[MUTATIONS];
} tally_t;

static bool names(const char *kind, const char *const *list) {
    for (; *list; list++) {
        if (!strcmp(kind, *list))
            return true;
    }
    return false;
}

/** Faults that every interleaving must show. */
static const char *const always_wrong[] = {"missing", "deadlock", "dependency", NULL};

static void try_base(const ccl_program_t *p, uint32_t nmutants, uint64_t seed, tally_t *tally) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_verdict_t verdict;
    uint32_t slots = !strcmp(p->proto, "Simple") ? 2 : 8;
    ck_assert_int_eq(ccl_program_verify(NULL, p, NULL, &verdict, &err), CCL_OK);
    ck_assert_msg(verdict.valid, "%s: %s", p->name, verdict.fault.text);
    ck_assert_msg(brute_check(p, slots, SURVIVOR_RUNS, seed), "%s is wrong by brute force",
                  p->name);
    ccl_rng_t rng;
    ccl_rng_init(&rng, seed);
    for (uint32_t i = 0; i < nmutants;) {
        ccl_program_t m = mutant_of(p);
        mutation_t how = (mutation_t)ccl_rng_below(&rng, MUTATIONS);
        if (mutate(&m, how, &rng)) {
            ck_assert_int_eq(ccl_program_verify(NULL, &m, NULL, &verdict, &err), CCL_OK);
            tally->mutants++;
            tally->by_kind[how]++;
            if (verdict.valid) {
                tally->survivors++;
                tally->alive_by_kind[how]++;
                if (getenv("CCL_TEST_VERBOSE"))
                    printf("  %s survives in %s\n", mutation_names[how], p->name);
                ck_assert_msg(brute_check(&m, slots, SURVIVOR_RUNS, seed + 1000 * i),
                              "%s with %s verifies, but is wrong (mutant %u)", p->name,
                              mutation_names[how], i);
            } else if (i % 8 == 0 && names(verdict.fault.kind, always_wrong)) {
                tally->checked++;
                ck_assert_msg(!brute_check(&m, slots, 1, seed + i),
                              "%s with %s: %s; but it is right", p->name, mutation_names[how],
                              verdict.fault.text);
            }
            if (!verdict.valid && i % 4 == 0 && !strcmp(verdict.fault.kind, "race")) {
                tally->races++;
                tally->races_shown += !brute_check(&m, slots, SURVIVOR_RUNS, seed + i);
            }
            i++;
        }
        mutant_free(&m);
    }
}

#define XML_DIR CCLLAB_DATA_DIR "/msccl_xml/valid/"
static const char *const real_programs[] = {
    "generated__ag_ring_4_ch1_in1_Simple.xml", "generated__ag_recdoub_8_in1_Simple.xml",
    "generated__ar_ring_4_ch4_in1_LL.xml",     "generated__ar_rdh_4_in1_Simple.xml",
    "generated__ar_allpairs_v2_4_in1_LL.xml",  "generated__a2a_2step_2x4_Simple.xml",
    "generated__ar_hier_4x2_in1_Simple.xml",   "generated__ar_ncv4_4_in1_LL.xml",
    "generated__simple_ag_ring.xml",           "spriestgcl_teccl-msccl__test.xml",
};

START_TEST(mutants_are_refused_or_right) {
    ccl_program_t *bases[32];
    size_t n = 0;
    bases[n++] = ring_allgather(4, 1);
    bases[n++] = ring_allgather(3, 2);
    bases[n++] = ring_allgather_blocks(4, 1);
    bases[n++] = ring_allgather_blocks(3, 3);
    bases[n++] = ring_allreduce(4);
    bases[n++] = ring_allreduce(5);
    bases[n++] = allpairs_allreduce(3);
    bases[n++] = two_step_alltoall(2);
    bases[n++] = two_step_alltoall(3);
    bases[n++] = pair_reducescatter();
    for (size_t i = 0; i < CCL_ARRAY_LEN(real_programs); i++) {
        char path[1024];
        snprintf(path, sizeof path, XML_DIR "%s", real_programs[i]);
        ccl_error_t err = CCL_ERROR_INIT;
        if (ccl_program_read(path, &bases[n], &err) == CCL_OK)
            n++;
    }
    tally_t tally = {0};
    for (size_t i = 0; i < n; i++) {
        uint32_t before = tally.survivors;
        try_base(bases[i], (uint32_t)(MUTANTS / n), 1 + i, &tally);
        if (getenv("CCL_TEST_VERBOSE"))
            printf("%s: %u survive\n", bases[i]->name, tally.survivors - before);
        ccl_program_destroy(bases[i]);
    }
    for (uint32_t k = 0; k < MUTATIONS && getenv("CCL_TEST_VERBOSE"); k++)
        printf("%s: %u of %u survive\n", mutation_names[k], tally.alive_by_kind[k],
               tally.by_kind[k]);
    if (getenv("CCL_TEST_VERBOSE"))
        printf("%u races, %u go wrong; %u others checked\n", tally.races, tally.races_shown,
               tally.checked);
    ck_assert_uint_ge(tally.mutants, MUTANTS * 5 / 6);
    ck_assert_uint_gt(tally.checked, MUTANTS / 120);
    /* The oracle is sharp: most races that are told do go wrong in a few interleavings. */
    ck_assert_uint_gt(tally.races, MUTANTS / 600);
    ck_assert_msg(tally.races_shown * 10 >= tally.races * 8, "only %u of %u races go wrong",
                  tally.races_shown, tally.races);
    ck_assert_msg(tally.survivors * 100 <= tally.mutants, "%u of %u mutants survive",
                  tally.survivors, tally.mutants);
}
END_TEST

/** Another order of a block's steps, or one dependency more: often harmless. */
static void reorder(ccl_program_t *m, ccl_rng_t *rng) {
    ccl_tb_t *tb = &m->tbs[ccl_rng_below(rng, m->ntbs)];
    if (!tb->nsteps)
        return;
    uint32_t i = ccl_rng_below(rng, tb->nsteps), k = i + 1 < tb->nsteps ? i + 1 : 0;
    ccl_step_t *a = &m->steps[tb->first_step + i], *b = &m->steps[tb->first_step + k], keep = *a;
    if (ccl_rng_below(rng, 2)) {
        *a = *b;
        *b = keep;
        uint8_t flag = a->has_dep;
        a->has_dep = b->has_dep;
        b->has_dep = flag;
        return;
    }
    uint32_t first = m->rank_first_tb[tb->rank], n = m->rank_first_tb[tb->rank + 1] - first;
    uint32_t on = ccl_rng_below(rng, n);
    if (!m->tbs[first + on].nsteps)
        return;
    a->dep_tb = on;
    a->dep_step = ccl_rng_below(rng, m->tbs[first + on].nsteps);
    m->steps[m->tbs[first + on].first_step + a->dep_step].has_dep = 1;
}

/** Programs far from the first one: whatever verifies becomes the next base, and must be right. */
START_TEST(drifting_programs_that_verify_are_right) {
    ccl_program_t *bases[] = {ring_allgather_blocks(3, 2), ring_allreduce(3), allpairs_allreduce(3),
                              two_step_alltoall(2), pair_reducescatter()};
    uint32_t accepted = 0;
    ccl_rng_t rng;
    ccl_rng_init(&rng, 99);
    for (size_t i = 0; i < CCL_ARRAY_LEN(bases); i++) {
        ccl_program_t now = mutant_of(bases[i]);
        uint32_t slots = !strcmp(now.proto, "Simple") ? 2 : 8;
        for (uint32_t k = 0; k < (SANITIZED ? 400u : 2000u); k++) {
            ccl_program_t m = mutant_of(&now);
            bool changed = ccl_rng_below(&rng, 2);
            if (changed)
                reorder(&m, &rng);
            for (uint32_t times = ccl_rng_below(&rng, 3); times; times--)
                changed |= mutate(&m, (mutation_t)ccl_rng_below(&rng, MUTATIONS), &rng);
            ccl_verdict_t verdict;
            ck_assert_int_eq(ccl_program_verify(NULL, &m, NULL, &verdict, NULL), CCL_OK);
            if (!changed || !verdict.valid) {
                mutant_free(&m);
                continue;
            }
            ck_assert_msg(brute_check(&m, slots, 9, k), "%s after %u changes: wrong", m.name,
                          accepted);
            accepted++;
            mutant_free(&now);
            now = m;
        }
        mutant_free(&now);
        ccl_program_destroy(bases[i]);
    }
    if (getenv("CCL_TEST_VERBOSE"))
        printf("%u changes accepted\n", accepted);
    ck_assert_uint_gt(accepted, 100);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("schedule.verify.mutants");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, mutants_are_refused_or_right);
    tcase_add_test(tc, drifting_programs_that_verify_are_right);
    tcase_set_timeout(tc, 0);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
