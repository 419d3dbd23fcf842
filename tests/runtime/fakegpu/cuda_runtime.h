/*
 * A stand-in for CUDA's runtime, for tests of stand-alone sources on a machine without a GPU: the
 * device's memory is the host's, a block is one thread, a stream is a thread that works in order.
 * Memory lies in files of /dev/shm, so that another process can open it by its handle. Names and
 * shapes are those that NVIDIA documents for its runtime API; only what the sources use.
 */
#ifndef CCL_TESTS_FAKE_CUDA_RUNTIME_H
#define CCL_TESTS_FAKE_CUDA_RUNTIME_H

#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fcntl.h>
#include <functional>
#include <map>
#include <mutex>
#include <sys/mman.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>

#define __global__
#define __device__
#define __launch_bounds__(n_)
#define __grid_constant__
#define __shared__ static thread_local /* a block is one thread */

typedef struct alignas(16) uint4 {
    uint32_t x, y, z, w;
} uint4;
typedef struct dim3 {
    uint32_t x, y, z;
    dim3(uint32_t x_ = 1, uint32_t y_ = 1, uint32_t z_ = 1) : x(x_), y(y_), z(z_) {
    }
} dim3;
static thread_local dim3 threadIdx(0), blockIdx(0), blockDim(1);
static inline void __syncthreads() {
}
static void ccl_gpu_barrier(const struct ccl_gpu_block *) {
}
static bool ccl_gpu_barrier_or(const struct ccl_gpu_block *, bool what) {
    return what;
}

typedef int cudaError_t;
enum {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorNotReady = 600,
    cudaErrorPeerAccessAlreadyEnabled = 704
};
enum {
    cudaDevAttrMultiProcessorCount = 16,
    cudaDevAttrCooperativeLaunch = 95,
    cudaDevP2PAttrNativeAtomicSupported = 3
};
enum cudaMemcpyKind {
    cudaMemcpyHostToDevice = 1,
    cudaMemcpyDeviceToHost,
    cudaMemcpyDeviceToDevice
};
enum { cudaHostAllocMapped = 2, cudaIpcMemLazyEnablePeerAccess = 1, cudaStreamNonBlocking = 1 };
typedef struct cudaIpcMemHandle_t {
    char name[64];
} cudaIpcMemHandle_t;

/* ---------------------------------------------------------------- devices and memory */

static int fake_env(const char *name, int otherwise) {
    const char *v = getenv(name);
    return v ? atoi(v) : otherwise;
}
static thread_local int fake_device;
static std::mutex fake_lock;
typedef struct fake_memory {
    size_t bytes;
    char name[64];
} fake_memory_t;
static std::map<char *, fake_memory_t> fake_memories;

static inline const char *cudaGetErrorString(cudaError_t) {
    return "an error of the stand-in";
}
static inline cudaError_t cudaGetLastError() {
    return cudaSuccess;
}
static inline cudaError_t cudaGetDeviceCount(int *n) {
    *n = fake_env("FAKE_DEVICES", 1);
    return cudaSuccess;
}
static inline cudaError_t cudaSetDevice(int d) {
    fake_device = d;
    return d < 0 || d >= fake_env("FAKE_DEVICES", 1) ? cudaErrorInvalidValue : cudaSuccess;
}
static inline cudaError_t cudaGetDevice(int *d) {
    *d = fake_device;
    return cudaSuccess;
}
static inline cudaError_t cudaDeviceSynchronize() {
    return cudaSuccess;
}
static inline cudaError_t cudaDeviceGetAttribute(int *out, int what, int) {
    *out = what == cudaDevAttrMultiProcessorCount ? fake_env("FAKE_UNITS", 132) : 1;
    return cudaSuccess;
}
static inline cudaError_t cudaDeviceGetP2PAttribute(int *out, int, int, int) {
    *out = fake_env("FAKE_NVLINK", 1);
    return cudaSuccess;
}
static inline cudaError_t cudaDeviceCanAccessPeer(int *out, int, int) {
    *out = fake_env("FAKE_PEERS", 1);
    return cudaSuccess;
}
static inline cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) {
    return cudaErrorPeerAccessAlreadyEnabled;
}
static inline cudaError_t cudaDeviceGetPCIBusId(char *out, int len, int d) {
    snprintf(out, (size_t)len, "%d", d);
    return cudaSuccess;
}
static inline cudaError_t cudaDeviceGetByPCIBusId(int *out, const char *bus) {
    *out = atoi(bus);
    return cudaSuccess;
}
static inline cudaError_t cudaMalloc(void **out, size_t bytes) {
    static int counter;
    fake_memory_t m;
    std::lock_guard<std::mutex> hold(fake_lock);
    m.bytes = bytes ? bytes : 1;
    snprintf(m.name, sizeof m.name, "/dev/shm/ccllab-fake-%d-%d", (int)getpid(), counter++);
    int fd = open(m.name, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)m.bytes) != 0)
        return cudaErrorInvalidValue;
    char *at = (char *)mmap(NULL, m.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    fake_memories[at] = m;
    *out = at;
    return at == (char *)MAP_FAILED ? cudaErrorInvalidValue : cudaSuccess;
}
static inline cudaError_t cudaFree(void *p) {
    std::lock_guard<std::mutex> hold(fake_lock);
    auto found = fake_memories.find((char *)p);
    if (!p)
        return cudaSuccess;
    if (found == fake_memories.end())
        return cudaErrorInvalidValue;
    munmap(p, found->second.bytes);
    unlink(found->second.name);
    fake_memories.erase(found);
    return cudaSuccess;
}
static inline cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned) {
    return cudaMalloc(out, bytes);
}
static inline cudaError_t cudaFreeHost(void *p) {
    return cudaFree(p);
}
static inline cudaError_t cudaMemset(void *p, int byte, size_t bytes) {
    memset(p, byte, bytes);
    return cudaSuccess;
}
static inline cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind) {
    memcpy(to, from, bytes);
    return cudaSuccess;
}
static inline cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *out, void *p) {
    std::lock_guard<std::mutex> hold(fake_lock);
    snprintf(out->name, sizeof out->name, "%s", fake_memories[(char *)p].name);
    return cudaSuccess;
}
static inline cudaError_t cudaIpcOpenMemHandle(void **out, cudaIpcMemHandle_t h, unsigned) {
    struct stat about;
    int fd = open(h.name, O_RDWR);
    if (fd < 0 || fstat(fd, &about) != 0)
        return cudaErrorInvalidValue;
    *out = mmap(NULL, (size_t)about.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return *out == MAP_FAILED ? cudaErrorInvalidValue : cudaSuccess;
}
static inline cudaError_t cudaIpcCloseMemHandle(void *) {
    return cudaSuccess;
}

/* ---------------------------------------------------------------- streams and launches */

typedef struct fake_stream {
    std::deque<std::function<void()>> work;
    std::mutex lock;
    std::condition_variable changed;
    bool busy;
    std::thread thread;
} * cudaStream_t;

static inline void fake_stream_main(cudaStream_t s) {
    for (;;) {
        std::unique_lock<std::mutex> hold(s->lock);
        s->busy = false;
        s->changed.wait(hold, [s] { return !s->work.empty(); });
        s->busy = true;
        std::function<void()> next = s->work.front();
        s->work.pop_front();
        hold.unlock();
        next();
    }
}
static inline void fake_enqueue(cudaStream_t s, std::function<void()> what) {
    std::lock_guard<std::mutex> hold(s->lock);
    s->work.push_back(what);
    s->changed.notify_all();
}
static inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned) {
    *out = new fake_stream();
    (*out)->thread = std::thread(fake_stream_main, *out);
    (*out)->thread.detach();
    return cudaSuccess;
}
static inline cudaError_t cudaStreamQuery(cudaStream_t s) {
    std::lock_guard<std::mutex> hold(s->lock);
    return s->busy || !s->work.empty() ? cudaErrorNotReady : cudaSuccess;
}
static inline cudaError_t cudaStreamSynchronize(cudaStream_t s) {
    while (cudaStreamQuery(s) != cudaSuccess)
        usleep(100);
    return cudaSuccess;
}
static inline cudaError_t cudaMallocAsync(void **out, size_t bytes, cudaStream_t) {
    return cudaMalloc(out, bytes);
}
static inline cudaError_t cudaFreeAsync(void *p, cudaStream_t s) {
    fake_enqueue(s, [p] { (void)cudaFree(p); });
    return cudaSuccess;
}
static inline cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from,
                                            size_t from_pitch, size_t width, size_t height,
                                            cudaMemcpyKind, cudaStream_t s) {
    if (height > 1 && (to_pitch < width || from_pitch < width))
        return cudaErrorInvalidValue;
    fake_enqueue(s, [=] {
        for (size_t i = 0; i < height; i++)
            memcpy((char *)to + i * to_pitch, (const char *)from + i * from_pitch, width);
    });
    return cudaSuccess;
}
template <class Kernel>
static inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *out, Kernel *,
                                                                        int threads, size_t) {
    *out = 1024 / threads;
    return cudaSuccess;
}
static void fake_kernel(const void *argument); /* behind the source: its kernel's only argument */
static size_t fake_argument_bytes();
static inline cudaError_t cudaLaunchCooperativeKernel(const void *, dim3 grid, dim3, void **args,
                                                      size_t, cudaStream_t s) {
    char *copy = (char *)aligned_alloc(64, (fake_argument_bytes() + 63) / 64 * 64);
    memcpy(copy, args[0], fake_argument_bytes());
    fake_enqueue(s, [=] {
        std::vector<std::thread> blocks;
        for (uint32_t i = 0; i < grid.x; i++)
            blocks.emplace_back([copy, i] {
                blockIdx.x = i;
                fake_kernel(copy);
            });
        for (std::thread &b : blocks)
            b.join();
        free(copy);
    });
    return cudaSuccess;
}

#endif
