/**
 * @file platform.h
 * One source for CUDA and HIP: GPU(Malloc) is cudaMalloc or hipMalloc; what has other names is
 * here. What blocks.h wants of a machine is in machine.h.
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
#define GPU_COMPILER "libhiprtc"
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
#include <cuda_runtime.h>
#define GPU(name_) cuda##name_
#define GPU_KIND "cuda"
#define GPU_COMPILER "libnvrtc"
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

#include "runtime/gpu/machine.h"
#include "runtime/gpu/multimem.h"
#include "runtime/gpu/blocks.h"

#endif
