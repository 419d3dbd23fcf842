/** @file scarce.h A process whose address space may grow no further than a little. */
#ifndef CCL_TESTS_BASE_SCARCE_H
#define CCL_TESTS_BASE_SCARCE_H

#include <check.h>
#include <malloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

/** Sanitizers need terabytes of address space: it cannot be limited. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SCARCE_MEMORY 0
#else
#define SCARCE_MEMORY 1
#endif

/** So much more than there is now; children inherit it. @return the limit before */
static inline struct rlimit scarce_begin(size_t bytes) {
    struct rlimit before, now;
    unsigned long pages = 0;
    FILE *file;

    malloc_trim(0); /* what was freed would serve */
    file = fopen("/proc/self/statm", "r");
    ck_assert(file && fscanf(file, "%lu", &pages) == 1);
    fclose(file);
    ck_assert_int_eq(getrlimit(RLIMIT_AS, &before), 0);
    now = before;
    now.rlim_cur = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + bytes;
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &now), 0);
    return before;
}

static inline void scarce_end(struct rlimit before) {
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &before), 0);
}

#endif
