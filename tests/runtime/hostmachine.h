/*
 * The host as a machine for runtime/gpu/blocks.h and for generated kernels: a lane is a thread. C
 * and C++; generated kernels get it by -include.
 */
#ifndef CCL_TESTS_RUNTIME_HOSTMACHINE_H
#define CCL_TESTS_RUNTIME_HOSTMACHINE_H

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif
float ccl_i_half_to_float(uint16_t half);
uint16_t ccl_i_half_from_float(float value);
#ifdef __cplusplus
}
#endif

typedef struct __attribute__((may_alias, aligned(16))) vector {
    uint32_t x, y, z, w;
} vector_t;
typedef uint32_t __attribute__((may_alias)) word_t;
typedef uint16_t __attribute__((may_alias)) narrow_t;
typedef uint64_t __attribute__((may_alias)) wide_t;

#define CCL_GPU_FN __attribute__((unused)) static inline
#define CCL_KERNEL_CALL __attribute__((unused)) static
#define CCL_KERNEL_LOOP
#define CCL_GPU_VECTOR vector_t
#define CCL_GPU_WORD word_t
#define CCL_GPU_NARROW narrow_t
#define CCL_GPU_WIDE wide_t

CCL_GPU_FN uint64_t ccl_gpu_load(const uint64_t *word) {
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}
CCL_GPU_FN uint32_t ccl_gpu_load32(const uint32_t *word) {
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}
CCL_GPU_FN void ccl_gpu_store(uint64_t *word, uint64_t value) {
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}
CCL_GPU_FN void ccl_gpu_store32(uint32_t *word, uint32_t value) {
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}
CCL_GPU_FN void ccl_gpu_note(uint64_t *word, uint64_t value) {
    __atomic_store_n(word, value, __ATOMIC_RELAXED);
}
CCL_GPU_FN void ccl_gpu_fence(void) { /* flags order all here */
}
CCL_GPU_FN void ccl_gpu_credit(uint64_t *word, uint64_t value) {
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}
CCL_GPU_FN uint32_t ccl_gpu_add32(uint32_t *word, uint32_t value) {
    return __atomic_fetch_add(word, value, __ATOMIC_ACQ_REL);
}
CCL_GPU_FN uint64_t ccl_gpu_clock(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
CCL_GPU_FN void ccl_gpu_pause(void) {
    sched_yield();
}
CCL_GPU_FN float ccl_gpu_half_to_float(uint32_t half) {
    return ccl_i_half_to_float((uint16_t)half);
}
CCL_GPU_FN uint32_t ccl_gpu_half_from_float(float f) {
    return ccl_i_half_from_float(f);
}

/* Halves of a line of LL, each at once; ordered, since a thread sanitizer knows no fences. */
CCL_GPU_FN vector_t ccl_gpu_load_ll(const char *line) {
    const wide_t *half = (const wide_t *)(const void *)line;
    uint64_t a = __atomic_load_n(&half[0], __ATOMIC_ACQUIRE);
    uint64_t b = __atomic_load_n(&half[1], __ATOMIC_ACQUIRE);
    vector_t v = {(uint32_t)a, (uint32_t)(a >> 32), (uint32_t)b, (uint32_t)(b >> 32)};
    return v;
}
CCL_GPU_FN void ccl_gpu_store_ll(char *line, uint32_t x, uint32_t y, uint32_t flag) {
    wide_t *half = (wide_t *)(void *)line;
    __atomic_store_n(&half[0], (uint64_t)flag << 32 | x, __ATOMIC_RELEASE);
    __atomic_store_n(&half[1], (uint64_t)flag << 32 | y, __ATOMIC_RELEASE);
}
/* Lanes are on their own: each looks at the flag of its line. */
CCL_GPU_FN bool ccl_gpu_look_ll128(const char *at, uint32_t part, bool active, uint64_t flag,
                                   uint64_t *lo, uint64_t *hi) {
    const wide_t *word = (const wide_t *)(const void *)at;
    if (!active)
        return true;
    if (__atomic_load_n(&word[15 - 2 * part], __ATOMIC_ACQUIRE) != flag)
        return false;
    *lo = word[0];
    *hi = part < 7 ? word[1] : flag;
    return true;
}
CCL_GPU_FN bool ccl_gpu_any(bool what) {
    return what;
}

/* What a block has as its barrier; who includes this defines the functions behind blocks.h. */
typedef struct fake_barrier {
    pthread_barrier_t barrier;
    uint32_t vote;
} fake_barrier_t;
struct ccl_gpu_block;
static void ccl_gpu_barrier(const struct ccl_gpu_block *block);
static bool ccl_gpu_barrier_or(const struct ccl_gpu_block *block, bool what);

CCL_GPU_FN void fake_wait(void *barrier) {
    pthread_barrier_wait(&((fake_barrier_t *)barrier)->barrier);
}
/* A run in which a lane gave up goes no further: votes are never taken back. */
CCL_GPU_FN bool fake_vote(void *barrier, bool what) {
    uint32_t *vote = &((fake_barrier_t *)barrier)->vote;
    if (what)
        __atomic_store_n(vote, 1, __ATOMIC_RELAXED);
    fake_wait(barrier);
    bool any = __atomic_load_n(vote, __ATOMIC_RELAXED) != 0;
    fake_wait(barrier);
    return any;
}

/* The 8 lanes of a line may be fewer threads, one after the other: its flag is stored last. */
CCL_GPU_FN void ccl_gpu_store_ll128(const struct ccl_gpu_block *block, char *at, uint32_t part,
                                    bool active, uint64_t lo, uint64_t hi) {
    wide_t *word = (wide_t *)(void *)at;
    if (active)
        word[0] = lo;
    if (active && part < 7)
        word[1] = hi;
    ccl_gpu_barrier(block);
    if (active && part == 7)
        __atomic_store_n(&word[1], hi, __ATOMIC_RELEASE);
}

#endif
