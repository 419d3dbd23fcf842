/**
 * @file platform.h
 * One source for CUDA and HIP: GPU(Malloc) is cudaMalloc or hipMalloc; what has other names is
 * here, and what blocks.h wants of a machine.
 */
#ifndef CCL_RUNTIME_GPU_PLATFORM_H
#define CCL_RUNTIME_GPU_PLATFORM_H

#include "runtime/device.h"

#ifdef __HIP__
#ifndef __HIP_PLATFORM_AMD__
#define __HIP_PLATFORM_AMD__
#endif
#include <hip/hip_runtime.h>
#define GPU(name_) hip##name_
#define GPU_KIND "hip"
#define GPU_SUMMARY "AMD GPUs: a persistent kernel that interprets programs"
#define GPU_NO_DRIVER "no AMD GPU or its driver is here"
typedef hipError_t gpu_error_t;
typedef hipDeviceProp_t gpu_properties_t;
#define GPU_NO_DEVICE(code_) ((code_) == hipErrorNoDevice || (code_) == hipErrorInvalidDevice)
#define GPU_NOT_DRIVEN(code_) ((code_) == hipErrorInsufficientDriver)
static inline gpu_error_t gpu_host_alloc(void **out, size_t bytes) {
    return hipHostMalloc(out, bytes,
                         hipHostMallocMapped | hipHostMallocPortable | hipHostMallocCoherent);
}
static inline gpu_error_t gpu_host_free(void *p) {
    return hipHostFree(p);
}
#else
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#define GPU(name_) cuda##name_
#define GPU_KIND "cuda"
#define GPU_SUMMARY "NVIDIA GPUs: a persistent kernel that interprets programs"
#define GPU_NO_DRIVER "no NVIDIA driver is here, or it is too old for this module"
typedef cudaError_t gpu_error_t;
typedef cudaDeviceProp gpu_properties_t;
#define GPU_NO_DEVICE(code_) ((code_) == cudaErrorNoDevice)
#define GPU_NOT_DRIVEN(code_)                                                                      \
    ((code_) == cudaErrorInsufficientDriver || (code_) == cudaErrorStubLibrary)
static inline gpu_error_t gpu_host_alloc(void **out, size_t bytes) {
    return cudaHostAlloc(out, bytes, cudaHostAllocMapped | cudaHostAllocPortable);
}
static inline gpu_error_t gpu_host_free(void *p) {
    return cudaFreeHost(p);
}
#endif

/* ---------------------------------------------------------------- in kernels */

#define CCL_GPU_FN __device__ static __forceinline__
#define CCL_GPU_VECTOR uint4
#define CCL_GPU_WORD uint32_t
#define CCL_GPU_NARROW uint16_t

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
CCL_GPU_FN uint64_t ccl_gpu_clock() {
    uint64_t ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}
CCL_GPU_FN void ccl_gpu_pause() {
}
CCL_GPU_FN float ccl_gpu_half_to_float(uint32_t half) {
    return __half2float(__ushort_as_half((unsigned short)half));
}
CCL_GPU_FN uint32_t ccl_gpu_half_from_float(float f) {
    return __half_as_ushort(__float2half_rn(f));
}

#endif

CCL_GPU_FN void ccl_gpu_barrier(const struct ccl_gpu_block *block) {
    (void)block;
    __syncthreads();
}

#include "runtime/gpu/blocks.h"

#endif
