#include "base/base.h"

#include <string.h>
#include <time.h>

#include "tests/base/main.h"

enum { N = 500 };

typedef struct shared {
    uint32_t runs[N];  /* by index, atomic */
    uint32_t busy[64]; /* by worker, atomic: two at once would be a clash */
    uint32_t workers, fail_every, fail_from;
    bool clash;
} shared_t;

static ccl_status_t job(uint32_t index, uint32_t worker, void *user, ccl_error_t *err) {
    shared_t *s = user;
    if (worker >= s->workers || __atomic_add_fetch(&s->busy[worker], 1, __ATOMIC_SEQ_CST) != 1)
        __atomic_store_n(&s->clash, true, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&s->runs[index], 1, __ATOMIC_SEQ_CST);
    /* later indices finish sooner: the first failure in time is not the lowest index */
    struct timespec nap = {0, (long)(N - index) * 100};
    if (s->fail_every)
        nanosleep(&nap, NULL);
    __atomic_sub_fetch(&s->busy[worker], 1, __ATOMIC_SEQ_CST);
    if (s->fail_every && index >= s->fail_from && index % s->fail_every == 0)
        return ccl_fail(err, index % 2 ? CCL_CHECK : CCL_INFEASIBLE, "index %u", index);
    return CCL_OK;
}

START_TEST(every_index_once) {
    for (uint32_t threads = 0; threads <= 9; threads++) {
        shared_t s = {.workers = threads ? threads : ccl_core_count()};
        ck_assert_int_eq(ccl_parallel_for(N, threads, job, &s, NULL), CCL_OK);
        for (uint32_t i = 0; i < N; i++)
            ck_assert_msg(s.runs[i] == 1, "index %u ran %u times on %u threads", i, s.runs[i],
                          threads);
        ck_assert_msg(!s.clash, "a worker number was used twice at once on %u threads", threads);
    }
    ck_assert_int_eq(ccl_parallel_for(0, 4, job, NULL, NULL), CCL_OK);
}
END_TEST

START_TEST(lowest_failure_wins) {
    for (uint32_t threads = 1; threads <= 8; threads++)
        for (uint32_t from = 1; from < N; from += 97) {
            shared_t s = {.workers = threads, .fail_every = 7, .fail_from = from};
            uint32_t lowest = (from + 6) / 7 * 7;
            char want[32];
            snprintf(want, sizeof want, "index %u", lowest);
            ccl_error_t err = CCL_ERROR_INIT;
            ccl_status_t status = ccl_parallel_for(N, threads, job, &s, &err);
            ck_assert_msg(strcmp(err.text, want) == 0, "%u threads: \"%s\", not \"%s\"", threads,
                          err.text, want);
            ck_assert_int_eq(status, lowest % 2 ? CCL_CHECK : CCL_INFEASIBLE);
            ck_assert_int_eq(err.status, status);
            ck_assert_int_eq(ccl_parallel_for(N, threads, job, &s, NULL), status);
        }
}
END_TEST

START_TEST(cores_and_clock) {
    ck_assert_uint_ge(ccl_core_count(), 1);
    double before_s = ccl_now_s();
    struct timespec nap = {0, 2000000};
    nanosleep(&nap, NULL);
    double passed_s = ccl_now_s() - before_s;
    ck_assert_msg(passed_s >= 0.002 && passed_s < 60, "%g", passed_s);
}
END_TEST

RUN_TESTS(every_index_once, lowest_failure_wins, cores_and_clock)
