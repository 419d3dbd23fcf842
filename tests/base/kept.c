/** @file kept.c Large arrays of sanitized programs are used again.
 *
 * Beyond 128 KB the address sanitizer asks the system for each array and gives it back: the system
 * then zeroes every page of it, and of its shadow, at the first touch, a third of the time of the
 * sanitized tests. The linker puts these functions in the place of malloc, calloc, realloc and free
 * (cmake/CclModule.cmake). What is freed is poisoned, and waits until 2 MB more were freed, as in
 * the sanitizer's own quarantine; the bytes behind what was asked for are poisoned too, and the
 * search for leaks does not read poisoned bytes. With CCL_UNKEPT set (tools/check --nightly) all is
 * left to the sanitizer.
 */
#include <pthread.h>
#include <sanitizer/asan_interface.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LARGE ((size_t)128 << 10)
#define LEAST_STEP (LARGE / 16)
#define MOST_ASKED ((size_t)32 << 20) /* of one array: larger ones are rare */
#define MOST_KEPT ((size_t)96 << 20)  /* together */
#define QUARANTINE ((size_t)2 << 20)  /* freed after an array before it is used again */
#define PLACES 256
#define IN_USE 0x6b657074206f6e65u
#define FREED 0x6b65707420667265u

/* As in allocator_interface.h, which gcc does not install. */
int __sanitizer_get_ownership(const volatile void *p);
size_t __sanitizer_get_allocated_size(const volatile void *p);

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__real_realloc(void *p, size_t bytes);
void __real_free(void *p);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_realloc(void *p, size_t bytes);
void __wrap_free(void *p);

/* Behind the room of an array, poisoned while it lives. */
typedef struct {
    uint64_t asked, state;
} mark_t;

typedef struct {
    char *p;
    size_t room;
    uint64_t when; /* freed bytes until then, its own too */
} kept_t;

static kept_t kept[PLACES]; /* the oldest first */
static size_t nkept, kept_bytes;
static uint64_t freed_bytes;
static bool off;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void hold(void) {
    pthread_mutex_lock(&lock);
}

static void let_go(void) {
    pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void begin(void) {
    off = getenv("CCL_UNKEPT") != NULL;
    pthread_atfork(hold, let_go, let_go);
}

__attribute__((no_sanitize("address"))) static mark_t mark_of(const char *p, size_t room) {
    return *(const mark_t *)(p + room);
}

__attribute__((no_sanitize("address"))) static void set_mark(char *p, size_t room, mark_t mark) {
    *(mark_t *)(p + room) = mark;
}

/* A sixth more at most, in steps, so that arrays of about one size serve each other. */
static size_t room_for(size_t bytes) {
    size_t step = LEAST_STEP;
    while (step * 16 < bytes)
        step *= 2;
    return (bytes + step - 1) / step * step;
}

/* The room of an array from here that is in use, 0 for what is not of here. */
static size_t room_of(char *p, uint64_t *asked) {
    size_t all;
    mark_t mark;

    /* Where the sanitizer begins an array that has pages of its own; cheap, as most are not. */
    if (((uintptr_t)p & 4095) != 2048 || !__sanitizer_get_ownership(p))
        return 0;
    all = __sanitizer_get_allocated_size(p);
    if (all < LARGE || all % LEAST_STEP != sizeof mark)
        return 0;
    mark = mark_of(p, all - sizeof mark);
    if (mark.state == FREED)
        __builtin_trap(); /* freed twice */
    *asked = mark.asked;
    return mark.state == IN_USE ? all - sizeof mark : 0;
}

static char *take_from(size_t i) {
    char *p = kept[i].p;

    kept_bytes -= kept[i].room;
    memmove(kept + i, kept + i + 1, (--nkept - i) * sizeof *kept);
    kept[nkept].p = NULL; /* what is seen from here is no leak */
    return p;
}

static char *take(size_t room) {
    char *p = NULL;

    hold();
    for (size_t i = 0; i < nkept && !p && freed_bytes - kept[i].when >= QUARANTINE; i++)
        if (kept[i].room == room)
            p = take_from(i);
    let_go();
    return p;
}

static void *get(size_t bytes, bool zero) {
    size_t room = room_for(bytes);
    char *p = take(room);

    if (p) {
        __asan_unpoison_memory_region(p, bytes);
        if (zero)
            memset(p, 0, bytes);
    } else {
        p = zero ? __real_calloc(1, room + sizeof(mark_t)) : __real_malloc(room + sizeof(mark_t));
        if (!p)
            return NULL;
        __asan_poison_memory_region(p + bytes, room + sizeof(mark_t) - bytes);
    }
    set_mark(p, room, (mark_t){bytes, IN_USE});
    return p;
}

static bool wanted(size_t bytes) {
    return bytes >= LARGE && bytes <= MOST_ASKED && !off;
}

void *__wrap_malloc(size_t bytes) {
    return wanted(bytes) ? get(bytes, false) : __real_malloc(bytes);
}

void *__wrap_calloc(size_t n, size_t bytes) {
    size_t all;

    if (__builtin_mul_overflow(n, bytes, &all) || !wanted(all))
        return __real_calloc(n, bytes);
    return get(all, true);
}

void __wrap_free(void *p) {
    uint64_t asked;
    size_t room = p && !off ? room_of(p, &asked) : 0;
    char *rest = NULL;

    if (!room) {
        __real_free(p);
        return;
    }
    set_mark(p, room, (mark_t){asked, FREED});
    __asan_poison_memory_region(p, asked);
    hold();
    if (nkept == PLACES || (nkept && kept_bytes + room > MOST_KEPT))
        rest = take_from(0);
    freed_bytes += room;
    kept_bytes += room;
    kept[nkept++] = (kept_t){p, room, freed_bytes};
    let_go();
    __real_free(rest);
}

void *__wrap_realloc(void *p, size_t bytes) {
    uint64_t asked;
    size_t room = p && !off ? room_of(p, &asked) : 0;
    void *q;

    if (!p)
        return __wrap_malloc(bytes);
    if (!bytes || (!room && !wanted(bytes)))
        return __real_realloc(p, bytes);
    if (!room)
        asked = __sanitizer_get_allocated_size(p);
    q = __wrap_malloc(bytes);
    if (!q)
        return NULL;
    memcpy(q, p, asked < bytes ? asked : bytes);
    __wrap_free(p);
    return q;
}
