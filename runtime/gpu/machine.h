/**
 * @file machine.h
 * What blocks.h wants of a machine, for CUDA and HIP. It includes nothing: generated kernels have
 * it in their text, and compilers at run time have no headers. A machine that says CCL_GPU_FN
 * itself is left alone.
 */
#ifndef CCL_RUNTIME_GPU_MACHINE_H
#define CCL_RUNTIME_GPU_MACHINE_H

#ifndef CCL_GPU_FN

#ifdef CCL_KERNEL_TYPE
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef unsigned long uintptr_t; /* as on Linux */
#ifndef __HIPCC_RTC__            /* which has its own */
typedef unsigned long uint64_t;
#endif
#endif

#define CCL_GPU_FN __device__ static __forceinline__
#define CCL_KERNEL_CALL __device__ static __noinline__
#define CCL_KERNEL_LOOP _Pragma("unroll 1") /* unrolled loops would only take long to compile */
#define CCL_GPU_VECTOR uint4
#define CCL_GPU_WORD uint32_t
#define CCL_GPU_NARROW uint16_t
#define CCL_GPU_WIDE uint64_t

struct ccl_gpu_block;

#ifdef __HIP__

CCL_GPU_FN uint64_t ccl_gpu_load(const uint64_t *word) {
    return __hip_atomic_load(word, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM);
}
CCL_GPU_FN uint32_t ccl_gpu_load32(const uint32_t *word) {
    return __hip_atomic_load(word, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM);
}
CCL_GPU_FN void ccl_gpu_store(uint64_t *word, uint64_t value) {
    __hip_atomic_store(word, value, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_SYSTEM);
}
CCL_GPU_FN void ccl_gpu_store32(uint32_t *word, uint32_t value) {
    __hip_atomic_store(word, value, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_SYSTEM);
}
CCL_GPU_FN void ccl_gpu_note(uint64_t *word, uint64_t value) {
    __hip_atomic_store(word, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}
CCL_GPU_FN uint32_t ccl_gpu_add32(uint32_t *word, uint32_t value) {
    return __hip_atomic_fetch_add(word, value, __ATOMIC_ACQ_REL, __HIP_MEMORY_SCOPE_AGENT);
}
/* Loads and stores of the whole system, 8 bytes at once; a flag of LL128 is stored behind a fence
   of its wave, so that nothing is asked of links. */
CCL_GPU_FN uint64_t ccl_gpu_peek(const char *at) {
    return __hip_atomic_load((const uint64_t *)(const void *)at, __ATOMIC_RELAXED,
                             __HIP_MEMORY_SCOPE_SYSTEM);
}
CCL_GPU_FN void ccl_gpu_poke(char *at, uint64_t value) {
    __hip_atomic_store((uint64_t *)(void *)at, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}
CCL_GPU_FN uint4 ccl_gpu_load_ll(const char *line) {
    uint64_t a = ccl_gpu_peek(line), b = ccl_gpu_peek(line + 8);
    uint4 v;
    v.x = (uint32_t)a;
    v.y = (uint32_t)(a >> 32);
    v.z = (uint32_t)b;
    v.w = (uint32_t)(b >> 32);
    return v;
}
CCL_GPU_FN void ccl_gpu_store_ll(char *line, uint32_t x, uint32_t y, uint32_t flag) {
    ccl_gpu_poke(line, (uint64_t)flag << 32 | x);
    ccl_gpu_poke(line + 8, (uint64_t)flag << 32 | y);
}
CCL_GPU_FN bool ccl_gpu_any(bool what) {
    return __any(what) != 0;
}
CCL_GPU_FN void ccl_gpu_store_ll128(const struct ccl_gpu_block *, char *at, uint32_t part,
                                    bool active, uint64_t lo, uint64_t hi) {
    if (active)
        ccl_gpu_poke(at, lo);
    if (active && part < 7)
        ccl_gpu_poke(at + 8, hi);
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "");
    if (active && part == 7)
        ccl_gpu_poke(at + 8, hi);
}
CCL_GPU_FN bool ccl_gpu_look_ll128(const char *at, uint32_t part, bool active, uint64_t flag,
                                   uint64_t *lo, uint64_t *hi) {
    if (ccl_gpu_any(active && part == 7 && ccl_gpu_peek(at + 8) != flag))
        return false;
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "");
    *lo = active ? ccl_gpu_peek(at) : 0;
    *hi = active ? ccl_gpu_peek(at + 8) : 0;
    return true;
}
CCL_GPU_FN uint64_t ccl_gpu_clock() {
    return __builtin_amdgcn_s_memrealtime();
}
CCL_GPU_FN void ccl_gpu_pause() {
    __builtin_amdgcn_s_sleep(1);
}
CCL_GPU_FN float ccl_gpu_half_to_float(uint32_t half) {
    union {
        uint16_t bits;
        _Float16 half;
    } n = {(uint16_t)half};
    return (float)n.half;
}
CCL_GPU_FN uint32_t ccl_gpu_half_from_float(float f) {
    union {
        _Float16 half;
        uint16_t bits;
    } n = {(_Float16)f};
    return n.bits;
}

#else

CCL_GPU_FN uint64_t ccl_gpu_load(const uint64_t *word) {
    uint64_t value;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
}
CCL_GPU_FN uint32_t ccl_gpu_load32(const uint32_t *word) {
    uint32_t value;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
    return value;
}
CCL_GPU_FN void ccl_gpu_store(uint64_t *word, uint64_t value) {
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}
CCL_GPU_FN void ccl_gpu_store32(uint32_t *word, uint32_t value) {
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}
CCL_GPU_FN void ccl_gpu_note(uint64_t *word, uint64_t value) {
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}
CCL_GPU_FN uint32_t ccl_gpu_add32(uint32_t *word, uint32_t value) {
    uint32_t old;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;"
                 : "=r"(old)
                 : "l"(word), "r"(value)
                 : "memory");
    return old;
}
CCL_GPU_FN uint4 ccl_gpu_load_ll(const char *line) {
    uint4 v;
    asm volatile("ld.volatile.global.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(line)
                 : "memory");
    return v;
}
CCL_GPU_FN void ccl_gpu_store_ll(char *line, uint32_t x, uint32_t y, uint32_t flag) {
    asm volatile("st.volatile.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(line), "r"(x), "r"(flag),
                 "r"(y), "r"(flag)
                 : "memory");
}
CCL_GPU_FN bool ccl_gpu_any(bool what) {
    return __any_sync(0xffffffffu, what) != 0;
}
/* The warp's lanes store at once, so that a line is one transaction of 128 bytes. */
CCL_GPU_FN void ccl_gpu_store_ll128(const struct ccl_gpu_block *, char *at, uint32_t, bool active,
                                    uint64_t lo, uint64_t hi) {
    __syncwarp();
    if (active)
        asm volatile("st.volatile.global.v2.u64 [%0], {%1,%2};" ::"l"(at), "l"(lo), "l"(hi)
                     : "memory");
}
/* Of one load the lanes may see different states of a line: when its flag was there, once more. */
CCL_GPU_FN bool ccl_gpu_look_ll128(const char *at, uint32_t part, bool active, uint64_t flag,
                                   uint64_t *lo, uint64_t *hi) {
    for (int k = 0; k < 2; k++) {
        if (active)
            asm volatile("ld.volatile.global.v2.u64 {%0,%1}, [%2];"
                         : "=l"(*lo), "=l"(*hi)
                         : "l"(at)
                         : "memory");
        if (k == 0 && ccl_gpu_any(active && part == 7 && *hi != flag))
            return false;
    }
    return true;
}
CCL_GPU_FN uint64_t ccl_gpu_clock() {
    uint64_t ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}
CCL_GPU_FN void ccl_gpu_pause() {
}
CCL_GPU_FN float ccl_gpu_half_to_float(uint32_t half) {
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"((unsigned short)half));
    return f;
}
CCL_GPU_FN uint32_t ccl_gpu_half_from_float(float f) {
    unsigned short half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(f));
    return half;
}

#endif

CCL_GPU_FN void ccl_gpu_fence() {
    __threadfence();
}

CCL_GPU_FN void ccl_gpu_credit(uint64_t *word, uint64_t value) {
    ccl_gpu_note(word, value);
}

CCL_GPU_FN void ccl_gpu_barrier(const struct ccl_gpu_block *block) {
    (void)block;
    __syncthreads();
}

CCL_GPU_FN bool ccl_gpu_barrier_or(const struct ccl_gpu_block *block, bool what) {
    (void)block;
    return __syncthreads_or(what) != 0;
}

#endif
#endif
