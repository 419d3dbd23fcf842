/**
 * @file lines.c
 * Lines with flags in the data. A reader waits for the flags of the lines that it wants and for
 * nothing else, so that no fence and no counter stands between data and the word that they are
 * there.
 *
 * @par Source  NCCL, prims_ll.h (readLL, storeLL, LL cleanup) and prims_ll128.h.
 */
#include "runtime/host/lines.h"

#include <sched.h>
#include <string.h>

enum { HALF_DATA = 4, LOOKS_PER_YIELD = 50 };
/* Looks at a line before its reader lets another thread block go on: about 10 us, longer than a
   writer needs for a slice, shorter than a core that it lost. */
enum { PATIENCE = 250 };

static void pause_core(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

void ccl_i_relax(uint32_t looks) {
    if (looks % LOOKS_PER_YIELD == 0)
        sched_yield();
    else
        pause_core();
}

/* ---------------------------------------------------------------- LL: halves of a line */

static uint64_t half_flag(const ccl_i_lines_t *l) {
    return (uint64_t)(uint32_t)(l->slice + 1) << 32;
}

static uint64_t *half_at(const ccl_i_lines_t *l, uint64_t from) {
    return (uint64_t *)(void *)l->slot + from / HALF_DATA;
}

/** A half has its data and its flag at once. Release: what came before in this thread block is seen
    by whoever a message leads there; it costs nothing on x86. */
static void write_halves(const ccl_i_lines_t *l, uint64_t from, const char *data, uint64_t n) {
    uint64_t flag = half_flag(l), *half = half_at(l, from), whole = n / HALF_DATA;
    uint64_t halves = (n + CCL_DEVICE_LL_DATA - 1) / CCL_DEVICE_LL_DATA * 2;
    uint32_t word = 0;
    for (uint64_t i = 0; i < whole; i++) {
        memcpy(&word, data + i * HALF_DATA, HALF_DATA);
        __atomic_store_n(&half[i], flag | word, __ATOMIC_RELEASE);
    }
    word = 0;
    memcpy(&word, data + whole * HALF_DATA, n % HALF_DATA);
    for (uint64_t i = whole; i < (halves ? halves : 2); i++, word = 0)
        __atomic_store_n(&half[i], flag | word, __ATOMIC_RELEASE);
}

/** The data of a half, when it is there. */
static inline bool await_half(const uint64_t *half, uint64_t flag, uint32_t *word) {
    for (uint32_t looks = 0; looks < PATIENCE; looks++) {
        uint64_t got = __atomic_load_n(half, __ATOMIC_ACQUIRE);
        *word = (uint32_t)got;
        if (got - *word == flag)
            return true;
        pause_core();
    }
    return false;
}

static bool read_halves(const ccl_i_lines_t *l, uint64_t from, char *data, uint64_t n) {
    const uint64_t flag = half_flag(l), *half = half_at(l, from), whole = n / HALF_DATA;
    uint64_t halves = (n + CCL_DEVICE_LL_DATA - 1) / CCL_DEVICE_LL_DATA * 2;
    uint32_t word;
    for (uint64_t i = 0; i < whole; i++) {
        if (!await_half(&half[i], flag, &word))
            return false;
        memcpy(data + i * HALF_DATA, &word, HALF_DATA);
    }
    for (uint64_t i = whole; i < halves; i++) {
        if (!await_half(&half[i], flag, &word))
            return false;
        if (i == whole)
            memcpy(data + i * HALF_DATA, &word, n % HALF_DATA);
    }
    return true;
}

/* ---------------------------------------------------------------- LL128 */

static uint64_t *line_flag(char *line) {
    return (uint64_t *)(void *)(line + CCL_DEVICE_LL128_DATA);
}

static char *line_at(const ccl_i_lines_t *l, uint64_t from) {
    return l->slot + from / CCL_DEVICE_LL128_DATA * CCL_DEVICE_LL128_LINE;
}

static void write_line(char *line, const char *data, size_t n, uint64_t flag) {
    if (n == CCL_DEVICE_LL128_DATA)
        memcpy(line, data, CCL_DEVICE_LL128_DATA); /* a constant: no call */
    else
        memcpy(line, data, n);
    __atomic_store_n(line_flag(line), flag, __ATOMIC_RELEASE);
}

static void write_whole(const ccl_i_lines_t *l, uint64_t from, const char *data, uint64_t n) {
    char *line = line_at(l, from);
    for (; n > CCL_DEVICE_LL128_DATA; n -= CCL_DEVICE_LL128_DATA) {
        write_line(line, data, CCL_DEVICE_LL128_DATA, l->slice + 1);
        line += CCL_DEVICE_LL128_LINE;
        data += CCL_DEVICE_LL128_DATA;
    }
    write_line(line, data, (size_t)n, l->slice + 1);
}

static bool await_line(char *line, uint64_t flag) {
    for (uint32_t looks = 0; looks < PATIENCE; looks++) {
        if (__atomic_load_n(line_flag(line), __ATOMIC_ACQUIRE) == flag)
            return true;
        pause_core();
    }
    return false;
}

static bool read_whole(const ccl_i_lines_t *l, uint64_t from, char *data, uint64_t n) {
    char *line = line_at(l, from);
    for (; n >= CCL_DEVICE_LL128_DATA; n -= CCL_DEVICE_LL128_DATA) {
        if (!await_line(line, l->slice + 1))
            return false;
        memcpy(data, line, CCL_DEVICE_LL128_DATA);
        line += CCL_DEVICE_LL128_LINE;
        data += CCL_DEVICE_LL128_DATA;
    }
    if (n && !await_line(line, l->slice + 1))
        return false;
    memcpy(data, line, (size_t)n);
    return true;
}

/* ---------------------------------------------------------------- both */

bool ccl_i_lines_begun(const ccl_i_lines_t *l) {
    if (l->protocol == CCL_DEVICE_LL)
        return __atomic_load_n(half_at(l, 0), __ATOMIC_ACQUIRE) >> 32 == half_flag(l) >> 32;
    return __atomic_load_n(line_flag(l->slot), __ATOMIC_ACQUIRE) == l->slice + 1;
}

bool ccl_i_lines_read(const ccl_i_lines_t *l, uint64_t from, void *data, uint64_t n) {
    return l->protocol == CCL_DEVICE_LL ? read_halves(l, from, data, n)
                                        : read_whole(l, from, data, n);
}

void ccl_i_lines_write(const ccl_i_lines_t *l, uint64_t from, const void *data, uint64_t n) {
    if (l->protocol == CCL_DEVICE_LL)
        write_halves(l, from, data, n);
    else
        write_whole(l, from, data, n);
}

void ccl_i_lines_clean(const ccl_i_lines_t *l, uint64_t n, uint64_t slot_bytes, uint32_t slots) {
    uint64_t turn = (l->slice + 2 * (uint64_t)slots) & CCL_DEVICE_LL_CLEAN_MASK;
    if (l->protocol != CCL_DEVICE_LL || turn >= slots)
        return;
    uint64_t lines = (n + CCL_DEVICE_LL_DATA - 1) / CCL_DEVICE_LL_DATA;
    uint64_t *half = (uint64_t *)(void *)l->slot, end = slot_bytes / sizeof *half;
    for (uint64_t i = 2 * (lines ? lines : 1); i < end; i++)
        __atomic_store_n(&half[i], half_flag(l), __ATOMIC_RELEASE);
}
