/*
 * Crash safety of the lab notebook: two processes write at once and are killed (SIGKILL) at random
 * moments, 20 times; every point whose writing had returned is there, and the file is sound.
 */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "search/notebook/notebook.h"

enum { KILLS = 20, WRITERS = 2 };

/* A child: opens, writes points, tells each through the pipe once it is written. */
static void write_on(const char *path, uint64_t seed, int pipe_fd) {
    ccl_notebook_t *n = NULL;
    ccl_point_t p = {.settings = "{\"channels\":2}", .seed = seed};
    ccl_point_result_t r = {.status = CCL_OK, .time_s = 1, .bound_s = 1};
    ccl_error_t err = CCL_ERROR_INIT;
    if (ccl_notebook_open(path, true, &n, &err) != CCL_OK ||
        ccl_notebook_input(n, "topology", "t", "{}", 2, p.topology, &err) != CCL_OK ||
        ccl_notebook_input(n, "demand", "d", "d", 1, p.demand, &err) != CCL_OK) {
        fprintf(stderr, "%s\n", err.text);
        _exit(2);
    }
    for (uint32_t i = 0;; i++) {
        p.size_bytes = i + 1;
        if (ccl_notebook_add(n, &p, &r, NULL, NULL) != CCL_OK)
            _exit(3);
        if (write(pipe_fd, &i, sizeof i) != (ssize_t)sizeof i)
            _exit(4);
    }
}

/* Points 1 ... n are there, and of those told none is missing. */
static void check_points(const char *path, uint64_t seed, uint32_t told) {
    ccl_notebook_t *n = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_msg(ccl_notebook_open(path, false, &n, &err) == CCL_OK, "%s", err.text);
    ccl_point_t p = {.settings = "{\"channels\":2}", .seed = seed};
    ck_assert_int_eq(ccl_notebook_input(NULL, "topology", "t", "{}", 2, p.topology, NULL), CCL_OK);
    ck_assert_int_eq(ccl_notebook_input(NULL, "demand", "d", "d", 1, p.demand, NULL), CCL_OK);
    for (uint32_t i = 0; i < told; i++) {
        ccl_point_result_t r;
        bool found = false;
        p.size_bytes = i + 1;
        ck_assert_int_eq(ccl_notebook_find(n, &p, &r, &found, NULL), CCL_OK);
        ck_assert_msg(found && r.status == CCL_OK && r.time_s == 1,
                      "point %u of %u of writer %llu is lost", i, told, (unsigned long long)seed);
    }
    ccl_notebook_rows_t *rows = NULL;
    ck_assert_int_eq(ccl_notebook_query(NULL, n, "PRAGMA integrity_check", NULL, 0, &rows, &err),
                     CCL_OK);
    ck_assert_str_eq(rows->cells[0], "ok");
    ccl_notebook_rows_destroy(rows);
    ccl_notebook_close(n);
}

START_TEST(test_kill) {
    char dir[] = "/tmp/ccllab_kill_XXXXXX", path[64], command[100];
    ccl_rng_t rng;
    uint64_t told_all = 0;
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/notebook.db", dir);
    ccl_rng_init(&rng, (uint64_t)time(NULL));
    for (uint32_t k = 0; k < KILLS; k++) {
        pid_t children[WRITERS];
        int ends[WRITERS][2];
        if (k % 5 == 0) /* also while the file is being made */
            unlink(path);
        for (uint32_t w = 0; w < WRITERS; w++) {
            ck_assert_int_eq(pipe(ends[w]), 0);
            children[w] = fork();
            ck_assert_int_ge(children[w], 0);
            if (children[w] == 0)
                write_on(path, 1 + k * WRITERS + w, ends[w][1]);
            close(ends[w][1]);
        }
        uint32_t us = k % 5 == 0 ? ccl_rng_below(&rng, 20000) : 20000 + ccl_rng_below(&rng, 130000);
        nanosleep(&(struct timespec){0, us * 1000L}, NULL);
        for (uint32_t w = 0; w < WRITERS; w++)
            ck_assert_int_eq(kill(children[w], SIGKILL), 0);
        bool there = false;
        uint32_t told[WRITERS] = {0}, i = 0;
        for (uint32_t w = 0; w < WRITERS; w++) {
            int state = 0;
            while (read(ends[w][0], &i, sizeof i) == (ssize_t)sizeof i)
                told[w] = i + 1;
            close(ends[w][0]);
            ck_assert_int_eq(waitpid(children[w], &state, 0), children[w]);
            ck_assert_msg(WIFSIGNALED(state) && WTERMSIG(state) == SIGKILL,
                          "writer %u ended by itself: %d", w, state);
            there |= told[w] > 0;
            told_all += told[w];
        }
        for (uint32_t w = 0; there && w < WRITERS; w++)
            check_points(path, 1 + k * WRITERS + w, told[w]);
        if (k % 5 == 4 || k % 5 == 0) { /* a WAL without its file is no notebook's */
            ccl_notebook_t *n = NULL;
            ccl_error_t err = CCL_ERROR_INIT;
            ck_assert_msg(ccl_notebook_open(path, true, &n, &err) == CCL_OK, "%s", err.text);
            ccl_notebook_close(n);
        }
    }
    ck_assert_uint_ge(told_all, KILLS);
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

int main(void) {
    Suite *s = suite_create("notebook kill");
    TCase *t = tcase_create("kill");
    tcase_set_timeout(t, 100);
    tcase_add_test(t, test_kill);
    suite_add_tcase(s, t);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}
