/**
 * @file rdma.cu
 * Memory of a GPU that RDMA devices read and write (GPUDirect): a dmabuf by the driver, and what it
 * takes that a kernel that runs sees what was written.
 *
 * @par Source  CUDA driver API, cuMemGetHandleForAddressRange and
 *              cudaDeviceFlushGPUDirectRDMAWrites; ROCr, hsa_amd_portable_export_dmabuf; the HDP
 *              register that HIP tells the address of.
 */
#include "runtime/gpu/program.h"

#include <dlfcn.h>

/* Drivers map memory for others in whole pages; allocations of this size begin at one. */
enum { WHOLE = 2 << 20 };

static size_t whole(size_t bytes) {
    return (bytes + WHOLE) / WHOLE * WHOLE;
}

#ifdef __HIP__

int gpu_rdma_alloc(ccl_device_handle_t *device, size_t bytes, void **out) {
    void *flush_at = NULL;
    GPU_TRY(gpu_use(device));
    if (hipDeviceGetAttribute((int *)&flush_at, hipDeviceAttributeHdpMemFlushCntl,
                              (int)device->index)) /* it writes an address there */
        return GPU_NOT_ORDERED;
    device->flush_at = (volatile uint32_t *)flush_at;
    device->flushes = flush_at != NULL;
    /* Kernels see changes of coarse-grained memory between launches only. */
    return (int)hipExtMallocWithFlags(out, whole(bytes), hipDeviceMallocFinegrained);
}

int gpu_rdma_export(ccl_device_handle_t *device, void *memory, size_t bytes, int *fd_out,
                    uint64_t *offset_out) {
    int (*take)(const void *, size_t, int *, uint64_t *);
    void *library = dlopen("libhsa-runtime64.so.1", RTLD_NOW | RTLD_LOCAL);
    GPU_TRY(gpu_use(device));
    if (!library || !gpu_symbol(library, "hsa_amd_portable_export_dmabuf", &take) ||
        take(memory, whole(bytes), fd_out, offset_out))
        return GPU_NO_DMABUF;
    return 0;
}

int gpu_rdma_flush(ccl_device_handle_t *device) {
    if (device->flushes)
        __atomic_store_n(device->flush_at, 1u, __ATOMIC_SEQ_CST);
    return 0;
}

#else

int gpu_rdma_alloc(ccl_device_handle_t *device, size_t bytes, void **out) {
    int order = 0, options = 0;
    GPU_TRY(gpu_use(device));
    GPU_TRY(
        cudaDeviceGetAttribute(&order, cudaDevAttrGPUDirectRDMAWritesOrdering, (int)device->index));
    GPU_TRY(cudaDeviceGetAttribute(&options, cudaDevAttrGPUDirectRDMAFlushWritesOptions,
                                   (int)device->index));
    device->flushes = order < cudaGPUDirectRDMAWritesOrderingOwner;
    if (device->flushes && !(options & cudaFlushGPUDirectRDMAWritesOptionHost))
        return GPU_NOT_ORDERED;
    return (int)cudaMalloc(out, whole(bytes));
}

int gpu_rdma_export(ccl_device_handle_t *device, void *memory, size_t bytes, int *fd_out,
                    uint64_t *offset_out) {
    enum { DMABUF = 1 }; /* CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD */
    int (*take)(void *, unsigned long long, size_t, int, unsigned long long);
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    GPU_TRY(gpu_use(device));
    GPU_TRY(cudaFree(NULL)); /* its context is there and current */
    if (!library || !gpu_symbol(library, "cuMemGetHandleForAddressRange", &take) ||
        take(fd_out, (uintptr_t)memory, whole(bytes), DMABUF, 0))
        return GPU_NO_DMABUF;
    *offset_out = 0;
    return 0;
}

int gpu_rdma_flush(ccl_device_handle_t *device) {
    if (!device->flushes)
        return 0;
    GPU_TRY(gpu_use(device));
    return (int)cudaDeviceFlushGPUDirectRDMAWrites(cudaFlushGPUDirectRDMAWritesTargetCurrentDevice,
                                                   cudaFlushGPUDirectRDMAWritesToOwner);
}

#endif
