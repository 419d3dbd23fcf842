/**
 * @file multicast.cu
 * Multicast memory of NVIDIA GPUs behind one NVSwitch: each member binds memory of its own to a
 * multicast object, whose address multimem instructions take.
 *
 * @par Source  CUDA driver API, multicast object management and virtual memory management.
 */
#include "runtime/gpu/program.h"

#ifndef __HIP__

#include <cuda.h>
#include <dlfcn.h>
#include <stdlib.h>

/* ---------------------------------------------------------------- the driver */

/* X(member, the driver's function) */
#define DRIVER_FUNCTIONS(X_)                                                                       \
    X_(device_get, cuDeviceGet)                                                                    \
    X_(device_attribute, cuDeviceGetAttribute)                                                     \
    X_(reserve, cuMemAddressReserve)                                                               \
    X_(give_back, cuMemAddressFree)                                                                \
    X_(create, cuMemCreate)                                                                        \
    X_(granularity, cuMemGetAllocationGranularity)                                                 \
    X_(map, cuMemMap)                                                                              \
    X_(unmap, cuMemUnmap)                                                                          \
    X_(access, cuMemSetAccess)                                                                     \
    X_(release, cuMemRelease)                                                                      \
    X_(multicast_create, cuMulticastCreate)                                                        \
    X_(multicast_add, cuMulticastAddDevice)                                                        \
    X_(multicast_bind, cuMulticastBindMem)                                                         \
    X_(multicast_unbind, cuMulticastUnbind)                                                        \
    X_(multicast_granularity, cuMulticastGetGranularity)

typedef struct driver {
#define MEMBER(name_, function_) decltype(&function_) name_;
    DRIVER_FUNCTIONS(MEMBER)
#undef MEMBER
} driver_t;

/** False: there is none, or one from before CUDA 12.1. */
static bool find_driver(driver_t *d) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    bool found = library != NULL;
#define FIND(name_, function_) found = found && gpu_symbol(library, #function_, &d->name_);
    DRIVER_FUNCTIONS(FIND)
#undef FIND
    return found;
}

bool gpu_multicast_here(uint32_t index) {
    driver_t d;
    CUdevice device;
    int has = 0;
    return find_driver(&d) && !d.device_get(&device, (int)index) &&
           !d.device_attribute(&has, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, device) && has;
}

/** min and max of fp32 are what multimem.ld_reduce has not. */
bool gpu_multicast_reduces(uint32_t type, uint32_t op) {
    return type != CCL_GPU_FP32 || op == CCL_GPU_SUM;
}

/* ---------------------------------------------------------------- memory */

enum { MOST = 64 };

/** Memory, or a multicast object, and where it is seen. */
typedef struct piece {
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at;
    bool made, mapped, bound;
} piece_t;

typedef struct multicast {
    ccl_device_multicast_t of;
    driver_t driver;
    size_t bytes;
    uint32_t members;
    piece_t object, parts[MOST];
    CUdevice devices[MOST];
    void *addresses[MOST];
} multicast_t;

static size_t up(size_t bytes, size_t to) {
    return (bytes + to - 1) / to * to;
}

static CUmemAllocationProp memory_of(int device) {
    CUmemAllocationProp prop = {};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = device;
    return prop;
}

/** All devices read and write there. */
static int show(multicast_t *m, piece_t *piece, uint32_t n) {
    CUmemAccessDesc access[MOST] = {};
    for (uint32_t i = 0; i < n; i++) {
        access[i].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        access[i].location.id = m->devices[i];
        access[i].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    }
    GPU_TRY(m->driver.reserve(&piece->at, m->bytes, 0, 0, 0));
    GPU_TRY(m->driver.map(piece->at, m->bytes, 0, piece->handle, 0));
    piece->mapped = true;
    return (int)m->driver.access(piece->at, m->bytes, access, n);
}

static int make(multicast_t *m, uint32_t n, size_t bytes) {
    const driver_t *d = &m->driver;
    CUmulticastObjectProp prop = {};
    size_t most = 1, one = 0;
    prop.numDevices = m->members;
    prop.size = bytes;
    GPU_TRY(d->multicast_granularity(&most, &prop, CU_MULTICAST_GRANULARITY_RECOMMENDED));
    for (uint32_t i = 0; i < m->members; i++) {
        CUmemAllocationProp memory = memory_of(m->devices[i]);
        GPU_TRY(d->granularity(&one, &memory, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
        most = one > most ? one : most; /* powers of two */
    }
    prop.size = m->bytes = up(bytes, most);
    GPU_TRY(d->multicast_create(&m->object.handle, &prop));
    m->object.made = true;
    /* Nothing is bound before all devices are there. */
    for (uint32_t i = 0; i < m->members; i++)
        GPU_TRY(d->multicast_add(m->object.handle, m->devices[i]));
    for (uint32_t i = 0; i < m->members; i++) {
        piece_t *part = &m->parts[i];
        CUmemAllocationProp memory = memory_of(m->devices[i]);
        GPU_TRY(d->create(&part->handle, m->bytes, &memory, 0));
        part->made = true;
        GPU_TRY(show(m, part, n));
        GPU_TRY(d->multicast_bind(m->object.handle, 0, part->handle, 0, m->bytes, 0));
        part->bound = true;
        m->addresses[i] = (void *)part->at;
    }
    GPU_TRY(show(m, &m->object, n));
    m->of.multi = (void *)m->object.at;
    m->of.parts = m->addresses;
    return 0;
}

static void remove(multicast_t *m, piece_t *piece) {
    if (piece->mapped)
        (void)m->driver.unmap(piece->at, m->bytes);
    if (piece->at)
        (void)m->driver.give_back(piece->at, m->bytes);
    if (piece->made)
        (void)m->driver.release(piece->handle);
}

int gpu_multicast_free(ccl_device_multicast_t *memory) {
    multicast_t *m = (multicast_t *)memory;
    for (uint32_t i = 0; i < m->members; i++)
        if (m->parts[i].bound)
            (void)m->driver.multicast_unbind(m->object.handle, m->devices[i], 0, m->bytes);
    remove(m, &m->object);
    for (uint32_t i = 0; i < m->members; i++)
        remove(m, &m->parts[i]);
    free(m);
    return 0;
}

int gpu_multicast_alloc(ccl_device_handle_t *const *devices, uint32_t n, uint32_t members,
                        size_t bytes, ccl_device_multicast_t **out) {
    if (n > MOST)
        return GPU_NO_MULTICAST;
    multicast_t *m = (multicast_t *)calloc(1, sizeof *m);
    if (!m)
        return GPU_HOST_MEMORY;
    m->members = members;
    int code = find_driver(&m->driver) ? 0 : GPU_NO_MULTICAST;
    for (uint32_t i = 0; i < n && !code; i++) {
        code = gpu_use(devices[i]);
        code = code ? code : (int)cudaFree(NULL); /* its context is there */
        if (!code && m->driver.device_get(&m->devices[i], (int)devices[i]->index))
            code = GPU_NO_MULTICAST;
    }
    if (!code && make(m, n, bytes))
        code = GPU_NO_MULTICAST;
    if (code)
        (void)gpu_multicast_free(&m->of);
    else
        *out = &m->of;
    return code;
}

#endif
