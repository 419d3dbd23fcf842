/** @file program.h Shared by module.cu and program.cu. */
#ifndef CCL_RUNTIME_GPU_PROGRAM_H
#define CCL_RUNTIME_GPU_PROGRAM_H

#include "runtime/gpu/platform.h"

#include <stdio.h>

/* Numbers of our own beside the vendor's. */
enum {
    GPU_HOST_MEMORY = 100001,
    GPU_TOO_MANY_BLOCKS,
    GPU_NOT_COOPERATIVE,
    GPU_OTHER_PLAN,
    GPU_NO_COMPILER,
    GPU_NOT_COMPILED,
    GPU_NO_LOADER,
    GPU_NOT_ORDERED,
    GPU_NO_DMABUF,
    GPU_NO_MULTICAST
};
/* Threads of a block: as many as still let all blocks be there at once. */
enum { GPU_MOST_THREADS = 512, GPU_LEAST_THREADS = 128 };

#define GPU_TRY(call_)                                                                             \
    do {                                                                                           \
        int code_ = (int)(call_);                                                                  \
        if (code_)                                                                                 \
            return code_;                                                                          \
    } while (0)

struct ccl_device_handle {
    uint32_t index;
    double tick_s;               /* of the kernels' clock */
    bool flushes;                /* what RDMA devices write is seen after a flush only */
    volatile uint32_t *flush_at; /* HIP: the register that does it; NULL: nothing to do */
};
struct ccl_device_stream {
    ccl_device_handle_t *device;
    GPU(Stream_t) stream;
};
struct ccl_device_event {
    GPU(Event_t) event;
};

int gpu_use(const ccl_device_handle_t *device);  /* the calling thread works on it */
int gpu_clock_rate(ccl_device_handle_t *device); /* fills tick_s */
/* Blocks of the program kernel that are there at once. */
int gpu_residency(uint32_t index, uint32_t multiprocessors, uint32_t threads, size_t shared,
                  uint32_t *out);
int gpu_stream_call(ccl_device_stream_t *s, ccl_device_host_fn fn, void *user);

int gpu_properties(uint32_t index, ccl_device_properties_t *out);

/* Generated kernels (compile.cu). */
#ifdef __HIP__
typedef hipFunction_t gpu_kernel_t;
#else
typedef struct CUfunc_st *gpu_kernel_t;
#endif
int gpu_kernel_compile(const char *source, const char *architecture, char *log, size_t len);
int gpu_kernel_get(const ccl_device_handle_t *device, const char *source, gpu_kernel_t *out);
/* Blocks of a multiprocessor. */
int gpu_kernel_residency(gpu_kernel_t kernel, uint32_t threads, size_t shared, int *out);
int gpu_kernel_launch(gpu_kernel_t kernel, uint32_t blocks, uint32_t threads, size_t shared,
                      GPU(Stream_t) stream, void **arguments);

/* Memory for RDMA devices (rdma.cu). */
int gpu_rdma_alloc(ccl_device_handle_t *device, size_t bytes, void **out);
int gpu_rdma_export(ccl_device_handle_t *device, void *memory, size_t bytes, int *fd_out,
                    uint64_t *offset_out);
int gpu_rdma_flush(ccl_device_handle_t *device);

/* Multicast memory (multicast.cu); CUDA alone. */
#ifndef __HIP__
bool gpu_multicast_here(uint32_t index);
bool gpu_multicast_reduces(uint32_t type, uint32_t op);
int gpu_multicast_alloc(ccl_device_handle_t *const *devices, uint32_t n, uint32_t members,
                        size_t bytes, ccl_device_multicast_t **out);
int gpu_multicast_free(ccl_device_multicast_t *memory);
#endif

/* A function of a library that was opened; false: it has none of this name. */
bool gpu_symbol(void *library, const char *name, void *out);

int gpu_program_load(ccl_device_handle_t *device, const ccl_device_plan_t *plan, uint32_t threads,
                     ccl_device_program_t **out);
int gpu_program_unload(ccl_device_program_t *program);
int gpu_program_launch(ccl_device_program_t *program, ccl_device_stream_t *stream,
                       const ccl_device_launch_t *launch);

#endif
