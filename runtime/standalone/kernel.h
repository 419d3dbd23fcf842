/* Machine: CUDA or HIP. Needs no header beyond theirs and the system's. */
#if defined(__HIPCC__) || defined(__HIP__)
#ifndef __HIP_PLATFORM_AMD__
#define __HIP_PLATFORM_AMD__
#endif
#include <hip/hip_runtime.h>
#define GPU(name_) hip##name_
#define CCL_GRID_CONSTANT
#define GPU_UNITS hipDeviceAttributeMultiprocessorCount
#define GPU_COOPERATIVE hipDeviceAttributeCooperativeLaunch
/* Memory that peers write and poll while a kernel runs is fine-grained. */
#define GPU_REGION(out_, bytes_) hipExtMallocWithFlags(out_, bytes_, hipDeviceMallocFinegrained)
#define GPU_HOST(out_, bytes_)                                                                     \
    hipHostMalloc(out_, bytes_, hipHostMallocMapped | hipHostMallocCoherent)
#define GPU_HOST_FREE(p_) hipHostFree(p_)
#else
#include <cuda_runtime.h>
#define GPU(name_) cuda##name_
#define CCL_GRID_CONSTANT __grid_constant__
#define GPU_UNITS cudaDevAttrMultiProcessorCount
#define GPU_COOPERATIVE cudaDevAttrCooperativeLaunch
#define GPU_REGION(out_, bytes_) cudaMalloc(out_, bytes_)
#define GPU_HOST(out_, bytes_) cudaHostAlloc(out_, bytes_, cudaHostAllocMapped)
#define GPU_HOST_FREE(p_) cudaFreeHost(p_)
#endif
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#if defined(__CUDACC__)
#pragma nv_diag_suppress 177 /* functions that this program does not need */
#endif
#define CCL_DEVICE_NONE 0xffffffffu
