/* Machine: CUDA or HIP. Needs no header beyond theirs and the system's. */
#if defined(__HIPCC__) || defined(__HIP__)
#ifndef __HIP_PLATFORM_AMD__
#define __HIP_PLATFORM_AMD__
#endif
#include <hip/hip_runtime.h>
#define GPU(name_) hip##name_
#define CCL_GRID_CONSTANT
#else
#include <cuda_runtime.h>
#define GPU(name_) cuda##name_
#define CCL_GRID_CONSTANT __grid_constant__
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
