/**
 * @file failing_malloc.h
 * Fails a chosen allocation. For one file of a test program whose link wraps malloc, calloc and
 * realloc (tests named *_memory); what jansson, expat and libc allocate themselves is left alone.
 */
#ifndef CCL_TESTS_BASE_FAILING_MALLOC_H
#define CCL_TESTS_BASE_FAILING_MALLOC_H

#include <stdbool.h>
#include <stddef.h>

static long fail_in = -1; /* allocations until the one that fails; < 0: none */
static bool armed;        /* Check allocates too, even in an assertion: off before each */

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);

static bool fails(void) {
    return armed && fail_in >= 0 && fail_in-- == 0;
}

void *__wrap_malloc(size_t size) {
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size) {
    return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *old, size_t size) {
    return fails() ? NULL : __real_realloc(old, size);
}

#endif
