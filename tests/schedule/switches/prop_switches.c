// timeout: 300
/*
 * Programs of switch connections: right ones verify, are right by brute force and survive their
 * files; of those with one thing changed at least 99 of 100 are refused, and every survivor is
 * right by brute force.
 */
#include "switches.h"
#include "tests/base/main.h"
#include "tests/schedule/brute.h"
#include "tests/schedule/mutants.h"

/* Sanitized a quarter: each way to change a program comes hundreds of times there, too. */
#define BASES (SANITIZED ? 30 : 120)
#define MUTANTS (SANITIZED ? 2520 : 10080)
#define RUNS 24

static uint32_t slots_of(const ccl_program_t *p) {
    return !strcmp(p->proto, "Simple") ? 2 : 8;
}

static bool verifies(const ccl_program_t *p, ccl_verdict_t *verdict) {
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_msg(ccl_program_verify(NULL, p, NULL, verdict, &err) == CCL_OK, "%s", err.text);
    return verdict->valid;
}

static void write(const ccl_program_t *p, const char *what) {
    ccl_text_t text = {0};
    if (getenv("CCL_TEST_VERBOSE") && ccl_program_write_xml(p, &text, NULL) == CCL_OK)
        printf("%s\n%s", what, text.data);
    ccl_text_fini(&text);
}

/** A right program; half of them with blocks that connections share. */
static ccl_program_t *base_program(ccl_rng_t *rng, uint64_t seed) {
    ccl_verdict_t verdict;
    bool share = ccl_rng_below(rng, 2);
    for (uint32_t tries = 0;; tries++) {
        ccl_program_t *p = switch_program(rng);
        if (!verifies(p, &verdict))
            write(p, "refused");
        ck_assert_msg(verdict.valid, "%s", verdict.fault.text);
        if (share)
            p = share_blocks(p, rng);
        if (verifies(p, &verdict)) {
            ck_assert_msg(brute_check(p, slots_of(p), RUNS, seed), "wrong by brute force");
            return p;
        }
        ck_assert_msg(!strcmp(verdict.fault.kind, "deadlock"), "%s", verdict.fault.text);
        ccl_program_destroy(p);
    }
}

static void round_trip(const ccl_program_t *p) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_program_t *back;
    ccl_text_t text = {0};
    ck_assert_msg(ccl_program_write_xml(p, &text, &err) == CCL_OK, "%s", err.text);
    ck_assert_msg(ccl_program_read_xml("text", text.data, text.len, &back, &err) == CCL_OK, "%s",
                  err.text);
    ck_assert(ccl_program_equal(p, back));
    ccl_text_fini(&text);
    ccl_program_destroy(back);
}

typedef struct tally {
    uint32_t mutants, survivors, races, races_shown;
    uint32_t of[MUTATIONS + 1], alive[MUTATIONS + 1];
} tally_t;

static void try_base(const ccl_program_t *p, ccl_rng_t *rng, tally_t *tally) {
    ccl_verdict_t verdict;
    for (uint32_t i = 0; i < MUTANTS / BASES;) {
        ccl_program_t m = mutant_of(p);
        uint32_t how = ccl_rng_below(rng, MUTATIONS + 1);
        if (how == MUTATIONS ? mutate_group(&m, rng) : mutate(&m, (mutation_t)how, rng)) {
            const char *name = how == MUTATIONS ? "group" : mutation_names[how];
            uint64_t seed = 1000 * (uint64_t)tally->mutants;
            i++;
            tally->mutants++;
            tally->of[how]++;
            if (verifies(&m, &verdict)) {
                tally->survivors++;
                tally->alive[how]++;
                write(&m, name);
                bool right = brute_check(&m, slots_of(&m), RUNS, seed);
                if (!right)
                    write(&m, name);
                ck_assert_msg(right, "mutant %u (%s) verifies, but is wrong", tally->mutants, name);
            } else if (!strcmp(verdict.fault.kind, "race") ||
                       !strcmp(verdict.fault.kind, "offer")) {
                tally->races++;
                tally->races_shown += !brute_check(&m, slots_of(&m), RUNS, seed);
            }
        }
        mutant_free(&m);
    }
}

START_TEST(mutants_are_refused_or_right) {
    tally_t tally = {0};
    ccl_rng_t rng;
    ccl_rng_init(&rng, 22);
    for (uint32_t i = 0; i < BASES; i++) {
        ccl_program_t *p = base_program(&rng, i);
        round_trip(p);
        try_base(p, &rng, &tally);
        ccl_program_destroy(p);
    }
    for (uint32_t k = 0; k <= MUTATIONS && getenv("CCL_TEST_VERBOSE"); k++)
        printf("%s: %u of %u survive\n", k == MUTATIONS ? "group" : mutation_names[k],
               tally.alive[k], tally.of[k]);
    if (getenv("CCL_TEST_VERBOSE"))
        printf("%u of %u mutants survive; %u of %u races go wrong\n", tally.survivors,
               tally.mutants, tally.races_shown, tally.races);
    ck_assert_uint_ge(tally.mutants, MUTANTS);
    ck_assert_uint_gt(tally.races, SANITIZED ? 5 : 20);
    ck_assert_msg(tally.races_shown * 10 >= tally.races * 8, "only %u of %u races go wrong",
                  tally.races_shown, tally.races);
    ck_assert_msg(tally.survivors * 100 <= tally.mutants, "%u of %u mutants survive",
                  tally.survivors, tally.mutants);
}
END_TEST

/** Programs far from the first one: whatever verifies becomes the next base, and must be right. */
START_TEST(drifting_programs_that_verify_are_right) {
    uint32_t accepted = 0;
    ccl_rng_t rng;
    ccl_rng_init(&rng, 23);
    for (uint32_t i = 0; i < (SANITIZED ? 20 : 80); i++) {
        ccl_program_t *p = base_program(&rng, i), now = mutant_of(p);
        for (uint32_t k = 0; k < 500; k++) {
            ccl_program_t m = mutant_of(&now);
            ccl_verdict_t verdict;
            bool changed = false;
            for (uint32_t times = 1 + ccl_rng_below(&rng, 3); times; times--) {
                uint32_t how = ccl_rng_below(&rng, MUTATIONS + 1);
                changed |=
                    how == MUTATIONS ? mutate_group(&m, &rng) : mutate(&m, (mutation_t)how, &rng);
            }
            if (!changed || !verifies(&m, &verdict)) {
                mutant_free(&m);
                continue;
            }
            bool right = brute_check(&m, slots_of(&m), 9, k);
            if (!right)
                write(&m, "drifted");
            ck_assert_msg(right, "wrong after %u changes", accepted);
            accepted++;
            mutant_free(&now);
            now = m;
        }
        mutant_free(&now);
        ccl_program_destroy(p);
    }
    if (getenv("CCL_TEST_VERBOSE"))
        printf("%u changes accepted\n", accepted);
    ck_assert_uint_gt(accepted, SANITIZED ? 25 : 100);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("schedule.verify.switches");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, mutants_are_refused_or_right);
    tcase_add_test(tc, drifting_programs_that_verify_are_right);
    tcase_set_timeout(tc, 0);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
