/* The race of candidates: what is kept, dropped, left out, for any number of threads. */
#include "common.h"
#include "synth/common/race.h"

#include <math.h>
#include <pthread.h>

enum { MOST = 16 };

/* Candidates whose times are given. */
typedef struct fake {
    ccl_topology_t *topo;
    ccl_collective_t *coll;
    double time_s[MOST], work[MOST], expected[MOST];
    ccl_status_t made[MOST], timed[MOST];
    uint32_t nmade, ntimed;
} fake_t;

static void fake_init(fake_t *f) {
    *f = (fake_t){.topo = topology("servers:1 gpus:4 nvswitch=300GB/s,1us")};
    f->coll = collective(CCL_ALLGATHER, 4, 0);
    for (uint32_t i = 0; i < MOST; i++)
        f->time_s[i] = 10 + i;
}

static void fake_fini(fake_t *f) {
    ccl_collective_destroy(f->coll);
    ccl_topology_destroy(f->topo);
}

static ccl_status_t make(void *user, uint32_t index, const ccl_i_racer_t *with,
                         ccl_schedule_t **out, ccl_error_t *err) {
    fake_t *f = user;
    ck_assert_ptr_nonnull(with->routes);
    if (f->made[index] != CCL_OK)
        return ccl_fail(err, f->made[index], "candidate %u", index);
    __atomic_fetch_add(&f->nmade, 1, __ATOMIC_RELAXED);
    return ccl_synthesize(with->ctx, "ring", f->topo, with->routes, f->coll, NULL, out, err);
}

static ccl_status_t time_it(void *user, uint32_t index, const ccl_i_racer_t *with,
                            const ccl_schedule_t *schedule, ccl_i_raced_t *out, ccl_error_t *err) {
    fake_t *f = user;
    (void)with;
    (void)schedule;
    __atomic_fetch_add(&f->ntimed, 1, __ATOMIC_RELAXED);
    if (f->timed[index] != CCL_OK)
        return ccl_fail(err, f->timed[index], "candidate %u", index);
    out->time_s = f->time_s[index];
    out->work = f->work[index];
    return CCL_OK;
}

static double expect(void *user, uint32_t index) {
    return ((const fake_t *)user)->expected[index];
}

static ccl_i_race_t race_of(fake_t *f, uint32_t threads, bool in_turn) {
    return (ccl_i_race_t){.topo = f->topo,
                          .threads = threads,
                          .make = make,
                          .in_turn = in_turn,
                          .time = time_it,
                          .user = f};
}

START_TEST(test_best) {
    /* Candidates 3 and 7 are equally fast: the first of them wins, on 1, 2, 3, 8 threads, made on
       workers or in turn; one that is later and equal does not take its place in another round. */
    static const uint32_t threads[] = {1, 2, 3, 8};
    fake_t f;
    fake_init(&f);
    f.time_s[3] = f.time_s[7] = 5;
    for (size_t t = 0; t < 2 * CCL_ARRAY_LEN(threads); t++) {
        ccl_i_race_t race = race_of(&f, threads[t / 2], t % 2);
        ccl_schedule_t *out = NULL;
        ck_assert_int_eq(ccl_i_race_run(&race, 12, NULL), CCL_OK);
        ck_assert_uint_eq(race.best.index, 3);
        ck_assert_double_eq(race.best.time_s, 5);
        for (uint32_t i = 0; i < 12; i++)
            ck_assert_double_eq(race.results[i].time_s, f.time_s[i]);
        ck_assert_int_eq(ccl_i_race_run(&race, 12, NULL), CCL_OK);
        ck_assert_uint_eq(race.best.index, CCL_NONE);
        ck_assert_int_eq(ccl_i_race_take(&race, &out, NULL), CCL_OK);
        ck_assert_ptr_nonnull(out);
        ccl_schedule_destroy(out);
        ccl_i_race_fini(&race);
    }
    fake_fini(&f);
}
END_TEST

START_TEST(test_margin) {
    fake_t f;
    fake_init(&f);
    f.time_s[1] = 10 * (1 - 1e-7);
    ccl_i_race_t race = race_of(&f, 2, false);
    race.margin = 1e-6;
    ck_assert_int_eq(ccl_i_race_run(&race, 2, NULL), CCL_OK);
    ck_assert_uint_eq(race.best.index, 0);
    ccl_i_race_best_t best = ccl_i_race_set_aside(&race);
    ccl_schedule_destroy(best.schedule);
    race.margin = 0;
    ck_assert_int_eq(ccl_i_race_run(&race, 2, NULL), CCL_OK);
    ck_assert_uint_eq(race.best.index, 1);
    ccl_i_race_fini(&race);
    fake_fini(&f);
}
END_TEST

static const char *const NAMES[] = {"ring", "pairwise", "direct", "recursive"};

static ccl_status_t make_named(void *user, uint32_t index, const ccl_i_racer_t *with,
                               ccl_schedule_t **out, ccl_error_t *err) {
    fake_t *f = user;
    return ccl_synthesize(with->ctx, NAMES[index], f->topo, with->routes, f->coll, NULL, out, err);
}

START_TEST(test_given_up) {
    /* What is slower than the leader is given up; the winner and what is left of the work are the
       same with any number of threads. */
    fake_t f;
    double least_us = 0, left = 0;
    uint64_t events[CCL_ARRAY_LEN(NAMES) + 1];
    fake_init(&f);
    for (uint32_t lead = 0; lead <= CCL_ARRAY_LEN(NAMES); lead++) { /* the last gives nothing up */
        for (uint32_t threads = 1; threads <= 3; threads += 2) {
            ccl_work_t work = {0};
            ccl_ctx_t ctx = CCL_CTX_INIT;
            ccl_i_race_t race = race_of(&f, threads, true);
            ctx.work = &work;
            race.ctx = &ctx;
            race.make = make_named;
            race.time = NULL;
            race.expect = expect;
            race.left = 1000;
            race.size_bytes = 1048576;
            race.level = CCL_GRANULARITY_TASK;
            race.give_up = lead < CCL_ARRAY_LEN(NAMES);
            race.lead = lead;
            for (uint32_t i = 0; i < CCL_ARRAY_LEN(NAMES); i++)
                f.expected[i] = 10;
            ck_assert_int_eq(ccl_i_race_run(&race, CCL_ARRAY_LEN(NAMES), NULL), CCL_OK);
            if (lead == 0 && threads == 1)
                least_us = race.best.time_s * 1e6;
            ck_assert_double_eq_tol(race.best.time_s * 1e6, least_us, 1e-9);
            ck_assert_str_eq(NAMES[race.best.index], "direct");
            if (threads == 1)
                left = race.left;
            ck_assert_double_eq(race.left, left);
            for (uint32_t i = 0; i < CCL_ARRAY_LEN(NAMES); i++)
                ck_assert(!race.results[i].gave_up || race.give_up);
            events[lead] = work.events;
            ccl_i_race_fini(&race);
        }
    }
    ck_assert_uint_lt(events[2], events[CCL_ARRAY_LEN(NAMES)]);
    ck_assert_uint_le(events[2], events[0]);
    fake_fini(&f);
}
END_TEST

START_TEST(test_given_up_before) {
    /* Nothing of a round is as fast as what the family has already. */
    fake_t f;
    fake_init(&f);
    ccl_i_race_t race = race_of(&f, 1, true);
    race.make = make_named;
    race.time = NULL;
    race.size_bytes = 1048576;
    race.level = CCL_GRANULARITY_TASK;
    race.give_up = true;
    race.most_s = 1e-9;
    ck_assert_int_eq(ccl_i_race_run(&race, CCL_ARRAY_LEN(NAMES), NULL), CCL_OK);
    for (uint32_t i = 0; i < CCL_ARRAY_LEN(NAMES); i++)
        ck_assert(race.results[i].gave_up && race.results[i].time_s == INFINITY);
    ccl_i_race_fini(&race);
    fake_fini(&f);
}
END_TEST

START_TEST(test_dropped) {
    /* What cannot be made, or does not fit, is passed over; where nothing can, the first reason is
       the race's. */
    for (uint32_t threads = 1; threads <= 4; threads++) {
        fake_t f;
        ccl_error_t err = CCL_ERROR_INIT;
        ccl_schedule_t *out = NULL;
        fake_init(&f);
        f.made[0] = f.made[2] = f.timed[1] = CCL_UNSUPPORTED;
        ccl_i_race_t race = race_of(&f, threads, threads == 2);
        ck_assert_int_eq(ccl_i_race_run(&race, 4, NULL), CCL_OK);
        ck_assert_uint_eq(race.best.index, 3);
        ck_assert(!race.results[0].made && race.results[1].made);
        ck_assert(isinf(race.results[1].time_s) && !race.late);
        ccl_i_race_fini(&race);

        race = race_of(&f, threads, threads == 2);
        f.made[1] = CCL_UNSUPPORTED;
        ck_assert_int_eq(ccl_i_race_run(&race, 3, NULL), CCL_OK);
        ck_assert_int_eq(ccl_i_race_take(&race, &out, &err), CCL_UNSUPPORTED);
        ck_assert_ptr_null(out);
        ck_assert_str_eq(err.text, "candidate 0");
        ccl_i_race_fini(&race);
        fake_fini(&f);
    }
}
END_TEST

START_TEST(test_errors) {
    /* Any other error ends it, the lowest index's on any number of threads: out of memory, too. */
    for (uint32_t threads = 1; threads <= 4; threads++) {
        fake_t f;
        ccl_error_t err = CCL_ERROR_INIT;
        fake_init(&f);
        f.made[2] = CCL_ERR_NOMEM;
        f.timed[4] = CCL_INTERRUPTED;
        ccl_i_race_t race = race_of(&f, threads, threads == 2);
        ck_assert_int_eq(ccl_i_race_run(&race, 6, &err), CCL_ERR_NOMEM);
        ck_assert_str_eq(err.text, "candidate 2");
        ccl_i_race_fini(&race);
        race = race_of(&f, threads, threads == 2);
        f.made[2] = CCL_OK;
        ck_assert_int_eq(ccl_i_race_run(&race, 6, NULL), CCL_INTERRUPTED);
        ccl_i_race_fini(&race);
        fake_fini(&f);
    }
}
END_TEST

static int stop(const ccl_progress_t *progress, void *user) {
    uint32_t *calls = user;
    ck_assert_str_eq(progress->phase, "simulate");
    return ++*calls > 2;
}

/* Progress, by the thread that calls. */
typedef struct seen {
    pthread_t caller;
    uint32_t others;
} seen_t;

static int look(const ccl_progress_t *progress, void *user) {
    seen_t *seen = user;
    if (!pthread_equal(pthread_self(), seen->caller))
        __atomic_fetch_add(&seen->others, 1, __ATOMIC_RELAXED);
    ck_assert_uint_eq(progress->total, MOST);
    return 0;
}

START_TEST(test_progress) {
    fake_t f;
    seen_t seen = {.caller = pthread_self()};
    ccl_ctx_t ctx = CCL_CTX_INIT;
    fake_init(&f);
    ctx.progress = look;
    ctx.progress_user = &seen;
    ccl_i_race_t race = race_of(&f, 4, false);
    race.ctx = &ctx;
    race.phase = "simulate";
    for (int round = 0; round < 8; round++)
        ck_assert_int_eq(ccl_i_race_run(&race, MOST, NULL), CCL_OK);
    ck_assert_uint_eq(seen.others, 0);
    ccl_i_race_fini(&race);
    fake_fini(&f);
}
END_TEST

START_TEST(test_interrupt) {
    /* By ctx, and by whom progress is reported to. */
    fake_t f;
    int cancel = 1;
    uint32_t calls = 0;
    ccl_ctx_t ctx = CCL_CTX_INIT;
    fake_init(&f);
    ctx.cancel = &cancel;
    ccl_i_race_t race = race_of(&f, 3, false);
    race.ctx = &ctx;
    ck_assert_int_eq(ccl_i_race_run(&race, 6, NULL), CCL_INTERRUPTED);
    ck_assert_uint_eq(f.ntimed, 0);
    ccl_i_race_fini(&race);
    cancel = 0;
    ctx.progress = stop;
    ctx.progress_user = &calls;
    race = race_of(&f, 1, false);
    race.ctx = &ctx;
    race.phase = "simulate";
    ck_assert_int_eq(ccl_i_race_run(&race, 6, NULL), CCL_INTERRUPTED);
    ck_assert_uint_eq(f.ntimed, 2);
    ccl_i_race_fini(&race);
    fake_fini(&f);
}
END_TEST

START_TEST(test_late) {
    /* No time left: the first is made and simulated in any case, of the first round. */
    for (uint32_t threads = 1; threads <= 4; threads++) {
        fake_t f;
        fake_init(&f);
        ccl_i_race_t race = race_of(&f, threads, threads == 2);
        race.make_until_s = -1;
        ck_assert_int_eq(ccl_i_race_run(&race, 5, NULL), CCL_OK);
        ck_assert(f.nmade == 1 && f.ntimed == 1 && race.late);
        ck_assert_uint_eq(race.best.index, 0);
        ck_assert(!race.results[0].late && race.results[1].late && !race.results[1].made);
        ck_assert_int_eq(ccl_i_race_run(&race, 5, NULL), CCL_OK);
        ck_assert_uint_eq(f.nmade, 1);
        ccl_i_race_fini(&race);

        f.nmade = f.ntimed = 0;
        race = race_of(&f, threads, true); /* all are made, none is simulated */
        race.time_until_s = -1;
        ck_assert_int_eq(ccl_i_race_run(&race, 5, NULL), CCL_OK);
        ck_assert(f.nmade == 5 && f.ntimed == 0 && race.late);
        ck_assert_uint_eq(race.best.index, 0);
        ccl_i_race_fini(&race);
        fake_fini(&f);
    }
}
END_TEST

START_TEST(test_budget) {
    /* 100 of work: 60, not 50, 40; the simulations cost 70 and 50, so nothing is left. */
    for (uint32_t threads = 1; threads <= 3; threads++) {
        fake_t f;
        fake_init(&f);
        memcpy(f.expected, (double[]){60, 50, 40}, 3 * sizeof(double));
        memcpy(f.work, (double[]){70, 1, 50}, 3 * sizeof(double));
        ccl_i_race_t race = race_of(&f, threads, true);
        race.expect = expect;
        race.left = 100;
        ck_assert_int_eq(ccl_i_race_run(&race, 3, NULL), CCL_OK);
        ck_assert(race.results[0].made && !race.results[1].made && race.results[2].made);
        ck_assert_double_eq(race.expected, 100);
        ck_assert_double_eq(race.counted, 120);
        ck_assert_double_eq(race.left, -20);
        ck_assert_int_eq(ccl_i_race_run(&race, 3, NULL), CCL_OK);
        ck_assert(!race.results[0].made && !race.late);
        ccl_i_race_fini(&race);

        race = race_of(&f, threads, true); /* the first in any case; by transfers */
        race.expect = expect;
        race.unit = CCL_I_RACE_TRANSFERS;
        ck_assert_int_eq(ccl_i_race_run(&race, 3, NULL), CCL_OK);
        ck_assert(race.results[0].made && !race.results[1].made && !race.results[2].made);
        ck_assert_double_eq(race.left, -(double)race.best.schedule->ntransfers);
        ccl_i_race_fini(&race);
        fake_fini(&f);
    }
}
END_TEST

START_TEST(test_lone) {
    /* One that is alone needs no simulation; with times alone no schedule is kept. */
    fake_t f;
    fake_init(&f);
    f.made[0] = CCL_UNSUPPORTED;
    ccl_i_race_t race = race_of(&f, 2, true);
    race.skip_lone = true;
    ck_assert_int_eq(ccl_i_race_run(&race, 2, NULL), CCL_OK);
    ck_assert(f.ntimed == 0 && race.best.index == 1 && race.best.schedule);
    ccl_i_race_fini(&race);
    race = race_of(&f, 2, false);
    race.times_only = true;
    ck_assert_int_eq(ccl_i_race_run(&race, 4, NULL), CCL_OK);
    ck_assert(race.best.index == 1 && !race.best.schedule && race.best.time_s == 11);
    ccl_i_race_fini(&race);
    fake_fini(&f);
}
END_TEST

START_TEST(test_simulated) {
    /* Without a way to time of its own: the same time and work as ccl_i_time_schedule(). */
    fake_t f;
    ccl_i_timing_t timing = {.size_bytes = 1e6, .way.granularity = CCL_GRANULARITY_TASK};
    fake_init(&f);
    ccl_i_race_t race = race_of(&f, 2, false);
    race.time = NULL;
    race.level = CCL_GRANULARITY_TASK;
    race.size_bytes = 1e6;
    ck_assert_int_eq(ccl_i_race_run(&race, 2, NULL), CCL_OK);
    ck_assert_int_eq(ccl_i_time_schedule(NULL, f.topo, NULL, race.best.schedule, &timing, NULL),
                     CCL_OK);
    ck_assert_double_eq(race.best.time_s, timing.time_s);
    ck_assert_double_eq(race.results[1].time_s, timing.time_s);
    ck_assert_double_eq(race.counted, 2 * timing.work);
    ccl_i_race_fini(&race);
    fake_fini(&f);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("unit.synth.race");
    TCase *tcase = tcase_create("race");
    tcase_add_test(tcase, test_best);
    tcase_add_test(tcase, test_margin);
    tcase_add_test(tcase, test_given_up);
    tcase_add_test(tcase, test_given_up_before);
    tcase_add_test(tcase, test_dropped);
    tcase_add_test(tcase, test_errors);
    tcase_add_test(tcase, test_progress);
    tcase_add_test(tcase, test_interrupt);
    tcase_add_test(tcase, test_late);
    tcase_add_test(tcase, test_budget);
    tcase_add_test(tcase, test_lone);
    tcase_add_test(tcase, test_simulated);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
