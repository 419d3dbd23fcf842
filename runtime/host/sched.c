/**
 * @file sched.c
 * Marks of units that may go on, and the words that sleepers wait on.
 *
 * A unit is idle (0), marked (MARK) or being stepped (RUN); marked while stepped it is both, and is
 * stepped again. Its bit in the bitmap is set by whoever marks an idle unit, so at most one worker
 * has it.
 */
#define _GNU_SOURCE
#include "runtime/host/sched.h"

#include <errno.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void ccl_i_futex_wait(uint32_t *word, uint32_t value, double limit_s) {
    struct timespec limit = {.tv_sec = (time_t)limit_s,
                             .tv_nsec = (long)((limit_s - (double)(time_t)limit_s) * 1e9)};
    syscall(SYS_futex, word, FUTEX_WAIT, value, &limit, NULL, 0);
}

void ccl_i_futex_wake(uint32_t *word, int n) {
    syscall(SYS_futex, word, FUTEX_WAKE, n, NULL, NULL, 0);
}

size_t ccl_i_sched_bytes(uint32_t nunits) {
    size_t words = (nunits + (size_t)63) / 64 + 1;
    return (sizeof(ccl_i_sched_t) + words * sizeof(uint64_t) + nunits * sizeof(uint32_t) + 127) /
           128 * 128;
}

void ccl_i_sched_init(ccl_i_sched_t *sched, uint32_t first_unit, uint32_t nunits) {
    memset(sched, 0, ccl_i_sched_bytes(nunits));
    sched->first_unit = first_unit;
    sched->nunits = nunits;
    sched->nwords = (nunits + 63) / 64;
    sched->states_at = (uint32_t)(sizeof *sched + ((size_t)sched->nwords + 1) * sizeof(uint64_t));
}

static void set_bit(ccl_i_sched_t *sched, uint32_t local) {
    __atomic_fetch_or(&sched->bits[local / 64], UINT64_C(1) << local % 64, __ATOMIC_SEQ_CST);
    /* A worker counts itself as parked before it looks at the bits a last time. */
    if (__atomic_load_n(&sched->parked, __ATOMIC_SEQ_CST)) {
        __atomic_fetch_add(&sched->epoch, 1, __ATOMIC_SEQ_CST);
        ccl_i_futex_wake(&sched->epoch, 1);
    }
}

bool ccl_i_sched_mark(ccl_i_sched_t *sched, uint32_t local) {
    uint32_t *state = ccl_i_sched_state(sched, local);
    uint32_t was = __atomic_fetch_or(state, CCL_I_MARK, __ATOMIC_ACQ_REL);
    if (was == 0)
        set_bit(sched, local);
    return !(was & CCL_I_RUN);
}

void ccl_i_host_ring(const ccl_i_host_t *host, uint32_t unit) {
    ccl_i_sched_t *sched = host->scheds[host->unit_process[unit]];
    ccl_i_sched_mark(sched, unit - sched->first_unit);
}

/** The next marked unit of first .. end, from `at` on and around. */
static uint32_t take_of(ccl_i_sched_t *sched, uint32_t first, uint32_t end, uint32_t at) {
    uint32_t low = first / 64, n = end > first ? (end - 1) / 64 - low + 1 : 0;
    for (uint32_t i = 0; i <= n && n; i++) {
        uint32_t word = low + (at / 64 - low + i) % n;
        uint64_t mask = ~UINT64_C(0);
        if (i == 0)
            mask &= ~UINT64_C(0) << at % 64;
        if (i == n) /* the first word again, what lies before `at` */
            mask &= (UINT64_C(1) << at % 64) - 1;
        if (word == low)
            mask &= ~UINT64_C(0) << first % 64;
        if (word == low + n - 1 && end % 64)
            mask &= (UINT64_C(1) << end % 64) - 1;
        uint64_t bits = __atomic_load_n(&sched->bits[word], __ATOMIC_SEQ_CST) & mask;
        for (; bits; bits &= bits - 1) {
            uint32_t bit = (uint32_t)__builtin_ctzll(bits);
            uint64_t one = UINT64_C(1) << bit;
            if (__atomic_fetch_and(&sched->bits[word], ~one, __ATOMIC_ACQ_REL) & one)
                return word * 64 + bit;
        }
    }
    return CCL_NONE;
}

bool ccl_i_sched_claim(ccl_i_sched_t *sched, uint32_t local) {
    uint64_t *word = &sched->bits[local / 64], one = UINT64_C(1) << local % 64;
    if (!(__atomic_load_n(word, __ATOMIC_RELAXED) & one) ||
        !(__atomic_fetch_and(word, ~one, __ATOMIC_ACQ_REL) & one))
        return false;
    __atomic_exchange_n(ccl_i_sched_state(sched, local), CCL_I_RUN, __ATOMIC_ACQ_REL);
    return true;
}

uint32_t ccl_i_sched_take(ccl_i_sched_t *sched, ccl_i_home_t *home) {
    uint32_t local = CCL_NONE;
    if (home->end > home->first)
        local = take_of(sched, home->first, home->end,
                        home->cursor < home->end ? home->cursor : home->first);
    if (local != CCL_NONE)
        home->cursor = local + 1;
    else if (sched->nunits > 0)
        local = take_of(sched, 0, sched->nunits, home->end < sched->nunits ? home->end : 0);
    if (local != CCL_NONE) /* marks from now on are seen at the end of the step */
        __atomic_exchange_n(ccl_i_sched_state(sched, local), CCL_I_RUN, __ATOMIC_ACQ_REL);
    return local;
}

void ccl_i_sched_release(ccl_i_sched_t *sched, uint32_t local, bool again) {
    uint32_t *state = ccl_i_sched_state(sched, local), run = CCL_I_RUN;
    if (!again &&
        __atomic_compare_exchange_n(state, &run, 0, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return;
    __atomic_exchange_n(state, CCL_I_MARK, __ATOMIC_ACQ_REL);
    set_bit(sched, local);
}

bool ccl_i_sched_any(const ccl_i_sched_t *sched) {
    for (uint32_t i = 0; i < sched->nwords; i++)
        if (__atomic_load_n(&sched->bits[i], __ATOMIC_SEQ_CST))
            return true;
    return false;
}
