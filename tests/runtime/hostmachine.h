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

#define CCL_GPU_FN __attribute__((unused)) static inline
#define CCL_KERNEL_CALL __attribute__((unused)) static
#define CCL_KERNEL_LOOP
#define CCL_GPU_VECTOR vector_t
#define CCL_GPU_WORD word_t
#define CCL_GPU_NARROW narrow_t

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

/* A pthread_barrier_t, which the block has; who includes this defines it behind blocks.h. */
struct ccl_gpu_block;
static void ccl_gpu_barrier(const struct ccl_gpu_block *block);

#endif
