// timeout: 600
/*
 * The verifier and a run judge alike: what one accepts the other runs, with right data, and what
 * cannot run is refused before anything starts, by both with the same fault. Random programs and
 * mutants of them: of blocks and steps, of the lengths and sizes of buffers, of in place and out of
 * place.
 */
#include "random_programs.h"
#include "tests/base/nightly.h"
#include "tests/schedule/mutants.h"

#include <dirent.h>

enum { PROGRAMS = SANITIZED ? 10 : 30, NIGHTLY_PROGRAMS = 1000, MUTANTS_EACH = 60 };

typedef struct tally {
    uint32_t mutants, accepted, folded, sized, stuck, cannot_run, wrong;
} tally_t;

/** A run of what the verifier accepts: right, unless its own FIFOs are too short. */
static bool must_run(const ccl_program_t *p, const ccl_run_options_t *o, const char *what,
                     tally_t *tally) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_run_result_t *r = NULL;
    ccl_status_t status = ccl_run_program(NULL, p, o, &r, &err);
    bool stuck = status == CCL_DEADLOCK && strstr(err.text, "cannot finish with FIFOs of");
    ck_assert_msg(status == CCL_OK || stuck, "%s: valid, but not run: %s: %s", what,
                  ccl_status_name(status), err.text);
    ccl_run_result_destroy(r);
    tally->stuck += stuck;
    return !stuck;
}

/** A run of what cannot run. */
static void must_refuse(const ccl_program_t *p, const ccl_run_options_t *o,
                        const ccl_verdict_t *found, const char *what) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_run_result_t *r = NULL;
    ccl_status_t status = ccl_run_program(NULL, p, o, &r, &err);
    ck_assert_msg(status == CCL_CHECK && !r, "%s: %s, but it ran: %s", what, found->fault.text,
                  ccl_status_name(status));
    ck_assert_msg(strcmp(err.text, found->fault.text) == 0, "%s: \"%s\", but a run says \"%s\"",
                  what, found->fault.text, err.text);
}

static bool shares_a_connection(const ccl_verdict_t *found) {
    return strcmp(found->fault.kind, "connection") == 0;
}

static void judge(const ccl_program_t *p, const ccl_run_options_t *o, const char *what,
                  tally_t *tally) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_verify_options_t options = CCL_VERIFY_OPTIONS_INIT;
    ccl_verdict_t *all = calloc(2, sizeof *all), *whole = &all[0], *first = &all[1];
    options.granularity = o->granularity;
    options.skip_deadlock = true; /* the run knows its slots and slices */
    ck_assert_msg(ccl_program_verify(NULL, p, &options, whole, &err) == CCL_OK, "%s", err.text);
    ck_assert_msg(ccl_program_check(p, o->granularity, first, &err) == CCL_OK, "%s", err.text);
    if (whole->valid) {
        ck_assert_msg(first->valid, "%s: valid, but %s", what, first->fault.text);
        tally->accepted += must_run(p, o, what, tally);
    } else if (first->valid) {
        tally->wrong++; /* it would run, and its data would be wrong, or never come */
    } else {
        /* Of blocks that share a connection the verifier says what that does to the data. */
        ck_assert_msg(shares_a_connection(first) ||
                          strcmp(whole->fault.text, first->fault.text) == 0,
                      "%s: \"%s\", but first \"%s\"", what, whole->fault.text, first->fault.text);
        must_refuse(p, o, first, what);
        tally->cannot_run++;
    }
    free(all);
}

static void try_mutants(const random_case_t *c, ccl_rng_t *rng, uint32_t n, tally_t *tally) {
    for (uint32_t i = 0; i < n; i++) {
        ccl_program_t m = mutant_of(c->program);
        ccl_run_options_t o = c->options;
        bool folded = ccl_rng_below(rng, 4) == 0, sized = ccl_rng_below(rng, 2);
        char what[500];
        if (folded)
            mutant_fold(&m, (ccl_buffer_t)ccl_rng_below(rng, 2));
        for (uint32_t k = sized ? 1 + ccl_rng_below(rng, 2) : 0; k; k--)
            mutate_places(&m, (place_mutation_t)ccl_rng_below(rng, PLACE_MUTATIONS), rng);
        for (uint32_t k = ccl_rng_below(rng, folded || sized ? 2 : 3); k; k--)
            mutate(&m, (mutation_t)ccl_rng_below(rng, MUTATIONS), rng);
        o.type = (ccl_type_t)(i % CCL_TYPES);
        o.out_of_place = i % 3 == 0;
        o.watchdog_s = 60;
        snprintf(what, sizeof what, "%s, mutant %u", c->what, i);
        uint32_t before = tally->accepted;
        judge(&m, &o, what, tally);
        tally->folded += folded && tally->accepted > before;
        tally->sized += sized && tally->accepted > before;
        tally->mutants++;
        mutant_free(&m);
    }
}

START_TEST(test_mutants) {
    uint32_t programs = nightly() ? NIGHTLY_PROGRAMS : PROGRAMS;
    ccl_rng_t rng;
    random_world_t world;
    tally_t tally = {0};
    ccl_rng_init(&rng, 31);
    random_world_init(&world);
    for (uint32_t done = 0; done < programs;) {
        random_case_t c = {0};
        if (!random_case(&rng, &world, &c))
            continue;
        if (c.program->nsteps > 0 && c.program->nsteps <= 1500) {
            judge(c.program, &c.options, c.what, &tally);
            try_mutants(&c, &rng, MUTANTS_EACH, &tally);
            done++;
        }
        ccl_program_destroy(c.program);
    }
    random_world_fini(&world);
    if (getenv("CCL_TEST_VERBOSE"))
        printf("%u mutants: %u accepted (%u folded, %u of other sizes), %u stuck, %u cannot run, "
               "%u are wrong\n",
               tally.mutants, tally.accepted, tally.folded, tally.sized, tally.stuck,
               tally.cannot_run, tally.wrong);
    ck_assert_uint_gt(tally.accepted, 10 * programs / 3);
    ck_assert_uint_gt(tally.folded, 5 * programs / 6);
    ck_assert_uint_gt(tally.sized, 5 * programs / 6);
    ck_assert_uint_gt(tally.cannot_run, 25 * programs / 3);
    ck_assert_uint_gt(tally.wrong, 10 * programs / 3);
}
END_TEST

/* Programs that others wrote: in place most of them have one of the two buffers only. */
START_TEST(test_real) {
    static const char folder[] = CCLLAB_DATA_DIR "/msccl_xml/valid";
    DIR *dir = opendir(folder);
    tally_t tally = {0};
    struct dirent *entry;
    if (!dir)
        return;
    while ((entry = readdir(dir)) != NULL) {
        char path[1024];
        ccl_error_t err = CCL_ERROR_INIT;
        ccl_program_t *p = NULL;
        ccl_run_options_t o = CCL_RUN_OPTIONS_INIT;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] == '.' || ccl_program_read(path, &p, &err) != CCL_OK)
            continue;
        o.size_bytes = 10000;
        o.repeats = 1;
        o.warmups = 0;
        o.slots = 64;
        o.watchdog_s = 60;
        if (p->nsteps <= 3000)
            judge(p, &o, entry->d_name, &tally);
        ccl_program_destroy(p);
    }
    closedir(dir);
    ck_assert_uint_gt(tally.accepted, 50);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("prop.runtime.accepted");
    TCase *tcase = tcase_create("accepted");
    tcase_set_timeout(tcase, 0);
    tcase_add_test(tcase, test_mutants);
    tcase_add_test(tcase, test_real);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
