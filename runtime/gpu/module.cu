/**
 * @file module.cu
 * The device modules cuda and hip: their table of functions over the vendor's runtime. Programs are
 * in program.cu.
 */
#include "runtime/gpu/program.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

int gpu_use(const ccl_device_handle_t *device) {
    return (int)GPU(SetDevice)((int)device->index);
}

static const char *error_text(int code) {
    if (code == GPU_HOST_MEMORY)
        return "out of host memory";
    if (code == GPU_TOO_MANY_BLOCKS)
        return "the program has more thread blocks than the device can hold at once";
    if (code == GPU_NOT_COOPERATIVE)
        return "it cannot promise that all thread blocks run at once (cooperative launch)";
    if (code == GPU_NO_COMPILER)
        return "no compiler of kernels is here (" GPU_COMPILER ")";
    if (code == GPU_NOT_COMPILED)
        return "the compiler refuses the generated kernel";
    if (code == GPU_NO_LOADER)
        return "its driver does not load or launch the generated kernel";
    if (code == GPU_NOT_ORDERED)
        return "kernels that run would not see in order what RDMA devices write";
    if (code == GPU_NO_DMABUF)
        return "its driver makes no dmabuf of its memory";
    if (code == GPU_NO_MULTICAST)
        return "its driver makes no multicast memory";
    if (code == GPU_OTHER_PLAN)
        return "the plan is of another version than the module";
    if (GPU_NOT_DRIVEN(code))
        return GPU_NO_DRIVER;
    return GPU(GetErrorString)((gpu_error_t)code);
}

static int count(uint32_t *out) {
    int n = 0;
    gpu_error_t code = GPU(GetDeviceCount)(&n);
    *out = 0;
    if (GPU_NO_DEVICE(code))
        return 0;
    if (code == GPU(Success))
        *out = n > 0 ? (uint32_t)n : 0;
    return (int)code;
}

/** NVLink carries atomics, PCIe does not; a process that sees one device alone cannot tell. */
static bool whole_lines(int index) {
#ifdef __HIP__
    (void)index;
    return true; /* machine.h asks nothing of links */
#else
    int n = 0, atomic = 0;
    if (cudaGetDeviceCount(&n) || n < 2)
        return false;
    for (int peer = 0; peer < n; peer++)
        if (peer != index &&
            (cudaDeviceGetP2PAttribute(&atomic, cudaDevP2PAttrNativeAtomicSupported, index, peer) ||
             !atomic))
            return false;
    return true;
#endif
}

int gpu_properties(uint32_t index, ccl_device_properties_t *out) {
    gpu_properties_t p;
    size_t free_bytes = 0, all_bytes = 0;
    GPU_TRY(GPU(GetDeviceProperties)(&p, (int)index));
    GPU_TRY(GPU(SetDevice)((int)index));
    GPU_TRY(GPU(MemGetInfo)(&free_bytes, &all_bytes));
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "%.127s", p.name);
#ifdef __HIP__
    snprintf(out->architecture, sizeof out->architecture, "%.31s", p.gcnArchName);
#else
    snprintf(out->architecture, sizeof out->architecture, "sm_%d%d", p.major, p.minor);
#endif
    GPU_TRY(GPU(DeviceGetPCIBusId)(out->bus_id, (int)sizeof out->bus_id, (int)index));
    out->units = (uint32_t)p.multiProcessorCount;
    out->memory_bytes = all_bytes;
    out->free_bytes = free_bytes;
    out->ipc = true;
#ifndef __HIP__
    out->multicast = gpu_multicast_here(index);
#endif
    out->whole_lines = whole_lines((int)index);
    return gpu_residency(index, out->units, GPU_LEAST_THREADS, 0, &out->max_blocks);
}

static int device_open(uint32_t index, ccl_device_handle_t **out) {
    ccl_device_handle_t *device = (ccl_device_handle_t *)calloc(1, sizeof *device);
    if (!device)
        return GPU_HOST_MEMORY;
    device->index = index;
    int code = gpu_use(device);
    code = code ? code : gpu_clock_rate(device);
    if (code)
        free(device);
    else
        *out = device;
    return code;
}

static void device_close(ccl_device_handle_t *device) {
    free(device);
}

/* ---------------------------------------------------------------- memory */

static int memory_alloc(ccl_device_handle_t *device, size_t bytes, void **out) {
    GPU_TRY(gpu_use(device));
    return (int)GPU(Malloc)(out, bytes ? bytes : 1);
}

static int memory_free(ccl_device_handle_t *device, void *memory) {
    GPU_TRY(gpu_use(device));
    return (int)GPU(Free)(memory);
}

static int host_alloc(ccl_device_handle_t *device, size_t bytes, void **out) {
    GPU_TRY(gpu_use(device));
    return (int)gpu_host_alloc(out, bytes ? bytes : 1);
}

static int host_free(ccl_device_handle_t *device, void *memory) {
    GPU_TRY(gpu_use(device));
    return (int)gpu_host_free(memory);
}

static int copy(ccl_device_stream_t *s, void *dst, const void *src, size_t bytes,
                GPU(MemcpyKind) kind) {
    GPU_TRY(gpu_use(s->device));
    return bytes ? (int)GPU(MemcpyAsync)(dst, src, bytes, kind, s->stream) : 0;
}

static int copy_h2d(ccl_device_stream_t *stream, void *dst, const void *host, size_t bytes) {
    return copy(stream, dst, host, bytes, GPU(MemcpyHostToDevice));
}

static int copy_d2h(ccl_device_stream_t *stream, void *host, const void *src, size_t bytes) {
    return copy(stream, host, src, bytes, GPU(MemcpyDeviceToHost));
}

static int copy_d2d(ccl_device_stream_t *stream, void *dst, const void *src, size_t bytes) {
    return copy(stream, dst, src, bytes, GPU(MemcpyDeviceToDevice));
}

static int memory_set(ccl_device_stream_t *s, void *dst, int byte, size_t bytes) {
    GPU_TRY(gpu_use(s->device));
    return (int)GPU(MemsetAsync)(dst, byte, bytes, s->stream);
}

static int host_register(ccl_device_handle_t *device, void *host, size_t bytes, void **out) {
    GPU_TRY(gpu_use(device));
    GPU_TRY(GPU(HostRegister)(host, bytes, GPU(HostRegisterMapped) | GPU(HostRegisterPortable)));
    int code = (int)GPU(HostGetDevicePointer)(out, host, 0);
    if (code)
        (void)GPU(HostUnregister)(host);
    return code;
}

static int host_unregister(ccl_device_handle_t *device, void *host) {
    GPU_TRY(gpu_use(device));
    return (int)GPU(HostUnregister)(host);
}

static int ipc_get(ccl_device_handle_t *device, void *memory, ccl_device_ipc_t *out) {
    GPU(IpcMemHandle_t) handle;
    static_assert(sizeof handle <= sizeof out->bytes, "a handle fits");
    GPU_TRY(gpu_use(device));
    GPU_TRY(GPU(IpcGetMemHandle)(&handle, memory));
    memset(out, 0, sizeof *out);
    memcpy(out->bytes, &handle, sizeof handle);
    return 0;
}

static int ipc_open(ccl_device_handle_t *device, const ccl_device_ipc_t *ipc, void **out) {
    GPU(IpcMemHandle_t) handle;
    memcpy(&handle, ipc->bytes, sizeof handle);
    GPU_TRY(gpu_use(device));
    return (int)GPU(IpcOpenMemHandle)(out, handle, GPU(IpcMemLazyEnablePeerAccess));
}

static int ipc_close(ccl_device_handle_t *device, void *memory) {
    GPU_TRY(gpu_use(device));
    return (int)GPU(IpcCloseMemHandle)(memory);
}

static int peer_enable(ccl_device_handle_t *device, uint32_t peer_index) {
    GPU_TRY(gpu_use(device));
    gpu_error_t code = GPU(DeviceEnablePeerAccess)((int)peer_index, 0);
    if (code == GPU(ErrorPeerAccessAlreadyEnabled)) {
        (void)GPU(GetLastError)(); /* it is remembered otherwise */
        return 0;
    }
    return (int)code;
}

/* ---------------------------------------------------------------- streams and events */

static int stream_create(ccl_device_handle_t *device, ccl_device_stream_t **out) {
    GPU_TRY(gpu_use(device));
    ccl_device_stream_t *s = (ccl_device_stream_t *)calloc(1, sizeof *s);
    if (!s)
        return GPU_HOST_MEMORY;
    s->device = device;
    int code = (int)GPU(StreamCreateWithFlags)(&s->stream, GPU(StreamNonBlocking));
    if (code)
        free(s);
    else
        *out = s;
    return code;
}

static int stream_wait(ccl_device_stream_t *s) {
    GPU_TRY(gpu_use(s->device));
    return (int)GPU(StreamSynchronize)(s->stream);
}

static int stream_destroy(ccl_device_stream_t *s) {
    if (!s)
        return 0;
    int code = stream_wait(s), destroyed = (int)GPU(StreamDestroy)(s->stream);
    free(s);
    return code ? code : destroyed;
}

static int stream_done(ccl_device_stream_t *s, bool *out) {
    GPU_TRY(gpu_use(s->device));
    gpu_error_t code = GPU(StreamQuery)(s->stream);
    *out = code == GPU(Success);
    return code == GPU(ErrorNotReady) ? 0 : (int)code;
}

static int stream_call(ccl_device_stream_t *s, ccl_device_host_fn fn, void *user) {
    GPU_TRY(gpu_use(s->device));
    return gpu_stream_call(s, fn, user);
}

static int stream_native(ccl_device_stream_t *s, void **out) {
    GPU_TRY(gpu_use(s->device));
    *out = (void *)s->stream;
    return 0;
}

static int event_create(ccl_device_handle_t *device, ccl_device_event_t **out) {
    GPU_TRY(gpu_use(device));
    ccl_device_event_t *e = (ccl_device_event_t *)calloc(1, sizeof *e);
    if (!e)
        return GPU_HOST_MEMORY;
    int code = (int)GPU(EventCreate)(&e->event);
    if (code)
        free(e);
    else
        *out = e;
    return code;
}

static int event_destroy(ccl_device_event_t *event) {
    if (!event)
        return 0;
    int code = (int)GPU(EventDestroy)(event->event);
    free(event);
    return code;
}

static int event_record(ccl_device_event_t *event, ccl_device_stream_t *s) {
    GPU_TRY(gpu_use(s->device));
    return (int)GPU(EventRecord)(event->event, s->stream);
}

static int event_wait(ccl_device_event_t *event) {
    return (int)GPU(EventSynchronize)(event->event);
}

static int event_done(ccl_device_event_t *event, bool *out) {
    gpu_error_t code = GPU(EventQuery)(event->event);
    *out = code == GPU(Success);
    return code == GPU(ErrorNotReady) ? 0 : (int)code;
}

static int stream_follow(ccl_device_stream_t *s, ccl_device_event_t *event) {
    GPU_TRY(gpu_use(s->device));
    return (int)GPU(StreamWaitEvent)(s->stream, event->event, 0);
}

static int event_elapsed(ccl_device_event_t *from, ccl_device_event_t *to, double *s_out) {
    float ms = 0;
    GPU_TRY(GPU(EventElapsedTime)(&ms, from->event, to->event));
    *s_out = (double)ms * 1e-3;
    return 0;
}

/* ---------------------------------------------------------------- the table */

static ccl_device_ops_t table() {
    ccl_device_ops_t o;
    memset(&o, 0, sizeof o);
    o.size = sizeof o;
    o.abi = CCL_DEVICE_ABI;
    o.name = GPU_KIND;
    o.summary = GPU_SUMMARY;
    o.source = "ccllab";
    o.error_text = error_text;
    o.count = count;
    o.properties = gpu_properties;
    o.open = device_open;
    o.close = device_close;
    o.memory_alloc = memory_alloc;
    o.memory_free = memory_free;
    o.host_alloc = host_alloc;
    o.host_free = host_free;
    o.copy_h2d = copy_h2d;
    o.copy_d2h = copy_d2h;
    o.copy_d2d = copy_d2d;
    o.memory_set = memory_set;
    o.stream_create = stream_create;
    o.stream_destroy = stream_destroy;
    o.stream_wait = stream_wait;
    o.stream_done = stream_done;
    o.stream_call = stream_call;
    o.event_create = event_create;
    o.event_destroy = event_destroy;
    o.event_record = event_record;
    o.event_wait = event_wait;
    o.event_done = event_done;
    o.stream_follow = stream_follow;
    o.event_elapsed = event_elapsed;
    o.ipc_get = ipc_get;
    o.ipc_open = ipc_open;
    o.ipc_close = ipc_close;
    o.peer_enable = peer_enable;
    o.host_register = host_register;
    o.host_unregister = host_unregister;
    o.kernel_compile = gpu_kernel_compile;
    o.program_load = gpu_program_load;
    o.program_unload = gpu_program_unload;
    o.program_launch = gpu_program_launch;
    o.stream_native = stream_native;
    o.rdma_alloc = gpu_rdma_alloc;
    o.rdma_export = gpu_rdma_export;
    o.rdma_flush = gpu_rdma_flush;
#ifndef __HIP__
    o.multicast_reduces = gpu_multicast_reduces;
    o.multicast_alloc = gpu_multicast_alloc;
    o.multicast_free = gpu_multicast_free;
#endif
    return o;
}

extern "C" __attribute__((visibility("default"))) const ccl_device_ops_t *ccl_runtime_module_v1() {
    static const ccl_device_ops_t ops = table();
    return &ops;
}
