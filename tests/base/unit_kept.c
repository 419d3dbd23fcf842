/** @file unit_kept.c What kept.c keeps for the sanitized tests is watched like any other memory. */
#include "tests/base/main.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARRAY ((size_t)200000)

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>

static char *volatile seen; /* keeps the compiler from knowing what happens to an array */

static char *array(size_t bytes) {
    seen = malloc(bytes);
    ck_assert_ptr_nonnull(seen);
    return seen;
}

/* As many that 2 MB are freed after the first, which is used again then. */
static void free_many(size_t bytes) {
    char *all[16];
    for (int i = 0; i < 16; i++)
        all[i] = array(bytes);
    for (int i = 0; i < 16; i++)
        free(all[i]);
}

static char *again(size_t bytes) {
    free_many(bytes);
    return array(bytes);
}

static void nothing(void) {
    free(again(ARRAY));
}
/* Not from here: the sanitizer's. */
static void others(void) {
    void *p = NULL;

    for (size_t bytes = ARRAY; bytes < ARRAY + 20; bytes++) {
        ck_assert_int_eq(posix_memalign(&p, 256, bytes), 0);
        free(p);
        ck_assert_int_eq(posix_memalign(&p, 256, bytes), 0);
        p = realloc(p, bytes + 1);
        ck_assert_ptr_nonnull(p);
        free(p);
    }
}
static void last_byte(void) {
    again(ARRAY)[ARRAY - 1] = 1;
    free(seen);
}
static void one_behind(void) {
    again(ARRAY)[ARRAY] = 1;
}
static void one_behind_new(void) {
    array(ARRAY)[ARRAY] = 1;
}
static void one_before(void) {
    again(ARRAY)[-1] = 1;
}
static void shorter(void) {
    free_many(ARRAY);
    array(ARRAY - 100)[ARRAY - 100] = 1;
}
static void grown(void) {
    char *p = realloc(again(ARRAY), ARRAY + 50);
    p[ARRAY + 49] = 1;
    seen = p;
    p[ARRAY + 50] = 1;
}
static void left_by_realloc(void) {
    char *p = again(ARRAY);
    seen = realloc(seen, 2 * ARRAY);
    p[0] = 1;
}
static void after_free(void) {
    char *p = again(ARRAY);
    free(seen);
    p[ARRAY / 2] = 1;
}
/* Another array of the size does not take its place at once. */
static void after_free_and_malloc(void) {
    char *p = array(2 * ARRAY);
    free(seen);
    array(2 * ARRAY);
    p[ARRAY / 2] = 1;
}
static void freed_twice(void) {
    again(ARRAY);
    free(seen);
    free(seen);
}
static void freed_inside(void) {
    again(ARRAY);
    seen += 4096;
    free(seen);
}

static const struct {
    const char *what;
    void (*run)(void);
    bool well;
} cases[] = {
    {"an array that was used before", nothing, true},
    {"arrays of posix_memalign", others, true},
    {"its last byte", last_byte, true},
    {"the byte behind it", one_behind, false},
    {"the byte behind a new one", one_behind_new, false},
    {"the byte before it", one_before, false},
    {"behind a shorter one in its place", shorter, false},
    {"behind one that realloc moved", grown, false},
    {"where it was before realloc", left_by_realloc, false},
    {"after free", after_free, false},
    {"after free, when there is another", after_free_and_malloc, false},
    {"free and free again", freed_twice, false},
    {"free of a place inside", freed_inside, false},
};

/* @return whether the child ended well */
static bool child(void (*run)(void)) {
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        if (!freopen("/dev/null", "w", stderr))
            _exit(3);
        run();
        _exit(0);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

START_TEST(faults_are_found) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_assert_msg(child(cases[i].run) == cases[i].well, "%s", cases[i].what);
}
END_TEST

/* The last one kept of this size is taken when all others are, and lost. */
__attribute__((noinline)) static void lose(char **others) {
    free_many(ARRAY);
    for (int i = 0; i < 15; i++) {
        if (i == 5)
            for (int k = 0; k < 3; k++)
                free(array((size_t)1 << 20));
        others[i] = array(ARRAY);
    }
    array(ARRAY);
    seen = NULL;
}

/* Neither the list of what is kept hides it nor an array there that holds its address. */
static void leak(void) {
    char *others[15], below[4096];

    lose(others);
    memset(below, 0, sizeof below);
    seen = below;
    if (__lsan_do_recoverable_leak_check())
        _exit(1);
}

static void leak_seen_from_kept(void) {
    char **p = malloc(ARRAY);

    p[9] = malloc(10);
    seen = (char *)p;
    free(seen);
    p = NULL;
    seen = NULL;
    if (__lsan_do_recoverable_leak_check())
        _exit(1);
}

START_TEST(leaks_are_found) {
    ck_assert(!child(leak));
    ck_assert(!child(leak_seen_from_kept));
}
END_TEST

static bool all_are(char byte, const char *p, size_t n) {
    return p[0] == byte && memcmp(p, p + 1, n - 1) == 0;
}

/* What is kept is used again, holds what was asked for, and zeroes where they are
 * promised. */
START_TEST(used_again) {
    char *first = array(ARRAY), *p;
    int met = 0;

    memset(first, 7, ARRAY);
    free(first);
    for (int i = 0; i < 40; i++) {
        p = calloc(ARRAY / 100, 100);
        met += p == first;
        ck_assert(all_are(0, p, ARRAY));
        memset(p, i, ARRAY);
        p = realloc(p, ARRAY * 2);
        ck_assert(all_are((char)i, p, ARRAY));
        free(p);
    }
    if (!getenv("CCL_UNKEPT"))
        ck_assert_int_ge(met, 2);
}
END_TEST

RUN_TESTS(faults_are_found, leaks_are_found, used_again)
#else
int main(void) {
    return 77;
}
#endif
