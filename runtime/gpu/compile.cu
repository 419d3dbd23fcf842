/**
 * @file compile.cu
 * Generated kernels: compiled at run time by NVRTC or hiprtc, loaded with the driver's functions.
 * Both libraries are opened when they are wanted, so a module loads without them.
 */
#include "runtime/gpu/program.h"
#include "runtime/gpu/cache.h"

#include <dlfcn.h>

#define KERNEL_NAME "ccl_kernel"

static ccl_gpu_cache_t cache = CCL_GPU_CACHE_INIT;

/* ---------------------------------------------------------------- the compiler's library */

typedef void *rtc_program_t;
typedef struct rtc {
    int (*create)(rtc_program_t *, const char *, const char *, int, const char *const *,
                  const char *const *);
    int (*compile)(rtc_program_t, int, const char *const *);
    int (*destroy)(rtc_program_t *);
    int (*log_size)(rtc_program_t, size_t *);
    int (*log)(rtc_program_t, char *);
    int (*code_size)(rtc_program_t, size_t *);
    int (*code)(rtc_program_t, char *);
} rtc_t;

#ifdef __HIP__
#define RTC(name_) "hiprtc" name_
#define RTC_CODE "Code"
static const char *const rtc_names[] = {"libhiprtc.so", "libhiprtc.so.7", "libhiprtc.so.6",
                                        "libhiprtc.so.5"};
#else
#define RTC(name_) "nvrtc" name_
#define RTC_CODE "CUBIN"
#define TEXT_OF(x_) #x_
#define TEXT(x_) TEXT_OF(x_)
/* The one of the toolkit that this was built with comes first. */
static const char *const rtc_names[] = {"libnvrtc.so." TEXT(__CUDACC_VER_MAJOR__),
#ifdef CCL_RTC_FOLDER
                                        CCL_RTC_FOLDER "/libnvrtc.so." TEXT(__CUDACC_VER_MAJOR__),
#endif
                                        "libnvrtc.so.13",
                                        "libnvrtc.so.12",
                                        "libnvrtc.so.11.2",
                                        "libnvrtc.so",
                                        "/usr/local/cuda/lib64/libnvrtc.so"};
#endif

bool gpu_symbol(void *library, const char *name, void *out) {
    void *found = dlsym(library, name);
    memcpy(out, &found, sizeof found);
    return found != NULL;
}

static bool rtc_take(void *library, rtc_t *out) {
    return gpu_symbol(library, RTC("CreateProgram"), &out->create) &&
           gpu_symbol(library, RTC("CompileProgram"), &out->compile) &&
           gpu_symbol(library, RTC("DestroyProgram"), &out->destroy) &&
           gpu_symbol(library, RTC("GetProgramLogSize"), &out->log_size) &&
           gpu_symbol(library, RTC("GetProgramLog"), &out->log) &&
           gpu_symbol(library, RTC("Get") RTC_CODE "Size", &out->code_size) &&
           gpu_symbol(library, RTC("Get") RTC_CODE, &out->code);
}

/** It stays open: closing a compiler is not what its vendors test. */
static bool rtc_find(rtc_t *out) {
    for (size_t i = 0; i < sizeof rtc_names / sizeof *rtc_names; i++) {
        void *library = dlopen(rtc_names[i], RTLD_NOW | RTLD_LOCAL);
        if (library && rtc_take(library, out))
            return true;
    }
#ifdef __HIP__
    return rtc_take(RTLD_DEFAULT, out); /* older ones have it in the runtime's library */
#else
    return false;
#endif
}

static void take_log(const rtc_t *rtc, rtc_program_t program, char *log, size_t len) {
    size_t bytes = 0;
    if (!log || len == 0 || rtc->log_size(program, &bytes) || bytes < 2)
        return;
    char *all = (char *)calloc(bytes + 1, 1);
    if (all && rtc->log(program, all) == 0)
        snprintf(log, len, "%s", all);
    free(all);
}

static int compile(const rtc_t *rtc, const char *source, const char *architecture, char *log,
                   size_t len, void **code, size_t *bytes) {
    char arch[64];
    rtc_program_t program = NULL;
#ifdef __HIP__
    snprintf(arch, sizeof arch, "--offload-arch=%.40s", architecture);
    const char *options[] = {arch, "-O3", "-std=c++17"};
#else
    snprintf(arch, sizeof arch, "--gpu-architecture=%.40s", architecture);
    const char *options[] = {arch, "-std=c++17"};
#endif
    if (rtc->create(&program, source, "ccl_kernel.cu", 0, NULL, NULL))
        return GPU_NOT_COMPILED;
    int code_of = rtc->compile(program, (int)(sizeof options / sizeof *options), options);
    take_log(rtc, program, log, len);
    *bytes = 0;
    code_of = code_of || rtc->code_size(program, bytes) || *bytes == 0 ? GPU_NOT_COMPILED : 0;
    *code = code_of ? NULL : malloc(*bytes);
    if (!code_of && !*code)
        code_of = GPU_HOST_MEMORY;
    if (!code_of && rtc->code(program, (char *)*code))
        code_of = GPU_NOT_COMPILED;
    if (code_of) {
        free(*code);
        *code = NULL;
    }
    (void)rtc->destroy(&program);
    return code_of;
}

/** With the cache's lock. */
static int image_of(const char *source, const char *architecture, char *log, size_t len,
                    ccl_gpu_image_t **out) {
    rtc_t rtc;
    void *code = NULL;
    size_t bytes = 0;
    *out = ccl_gpu_cache_find(&cache, source, architecture);
    if (*out)
        return 0;
    if (!rtc_find(&rtc))
        return GPU_NO_COMPILER;
    GPU_TRY(compile(&rtc, source, architecture, log, len, &code, &bytes));
    *out = ccl_gpu_cache_add(&cache, source, architecture, code, bytes);
    return *out ? 0 : GPU_HOST_MEMORY;
}

int gpu_kernel_compile(const char *source, const char *architecture, char *log, size_t len) {
    ccl_gpu_image_t *image = NULL;
    if (log && len)
        log[0] = '\0';
    pthread_mutex_lock(&cache.lock);
    int code = image_of(source, architecture, log, len, &image);
    pthread_mutex_unlock(&cache.lock);
    return code;
}

/* ---------------------------------------------------------------- the driver */

#ifdef __HIP__

static int load(const void *code, gpu_kernel_t *out) {
    hipModule_t module = NULL;
    GPU_TRY(hipModuleLoadData(&module, code));
    return (int)hipModuleGetFunction(out, module, KERNEL_NAME);
}

int gpu_kernel_residency(gpu_kernel_t kernel, uint32_t threads, size_t shared, int *out) {
    return (int)hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(out, kernel, (int)threads,
                                                                   shared);
}

/* Younger runtimes have a cooperative launch for loaded kernels. Older ones have not; there the
   blocks are all there at once because no more of them are launched than the device holds. */
int gpu_kernel_launch(gpu_kernel_t kernel, uint32_t blocks, uint32_t threads, size_t shared,
                      hipStream_t stream, void **arguments) {
    int (*cooperative)(hipFunction_t, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                       unsigned, hipStream_t, void **) = NULL;
    if (gpu_symbol(RTLD_DEFAULT, "hipModuleLaunchCooperativeKernel", &cooperative))
        return cooperative(kernel, blocks, 1, 1, threads, 1, 1, (unsigned)shared, stream,
                           arguments);
    return (int)hipModuleLaunchKernel(kernel, blocks, 1, 1, threads, 1, 1, (unsigned)shared, stream,
                                      arguments, NULL);
}

#else

typedef struct driver {
    int (*load)(void **, const void *);
    int (*function)(gpu_kernel_t *, void *, const char *);
    int (*occupancy)(int *, gpu_kernel_t, int, size_t);
    int (*launch)(gpu_kernel_t, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                  unsigned, cudaStream_t, void **);
} driver_t;

static bool driver_take(driver_t *out) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    return library && gpu_symbol(library, "cuModuleLoadData", &out->load) &&
           gpu_symbol(library, "cuModuleGetFunction", &out->function) &&
           gpu_symbol(library, "cuOccupancyMaxActiveBlocksPerMultiprocessor", &out->occupancy) &&
           gpu_symbol(library, "cuLaunchCooperativeKernel", &out->launch);
}

static const driver_t *driver() {
    static driver_t found;
    static const bool there = driver_take(&found); /* once, also between threads */
    return there ? &found : NULL;
}

static int load(const void *code, gpu_kernel_t *out) {
    void *module = NULL;
    if (!driver())
        return GPU_NO_LOADER;
    GPU_TRY(cudaFree(NULL)); /* its context is there and current */
    GPU_TRY(driver()->load(&module, code) ? GPU_NO_LOADER : 0);
    return driver()->function(out, module, KERNEL_NAME) ? GPU_NO_LOADER : 0;
}

int gpu_kernel_residency(gpu_kernel_t kernel, uint32_t threads, size_t shared, int *out) {
    return driver()->occupancy(out, kernel, (int)threads, shared) ? GPU_NO_LOADER : 0;
}

int gpu_kernel_launch(gpu_kernel_t kernel, uint32_t blocks, uint32_t threads, size_t shared,
                      cudaStream_t stream, void **arguments) {
    return driver()->launch(kernel, blocks, 1, 1, threads, 1, 1, (unsigned)shared, stream,
                            arguments)
               ? GPU_NO_LOADER
               : 0;
}

#endif

/** Loaded once per device; it stays. */
int gpu_kernel_get(const ccl_device_handle_t *device, const char *source, gpu_kernel_t *out) {
    ccl_gpu_image_t *image = NULL;
    ccl_device_properties_t properties;
    GPU_TRY(gpu_properties(device->index, &properties));
    if (device->index >= CCL_GPU_CACHE_DEVICES)
        return GPU_NO_LOADER;
    pthread_mutex_lock(&cache.lock);
    int code = image_of(source, properties.architecture, NULL, 0, &image);
    if (!code && !image->loaded[device->index]) {
        gpu_kernel_t kernel = NULL;
        code = load(image->code, &kernel);
        image->loaded[device->index] = (void *)kernel;
    }
    if (!code)
        *out = (gpu_kernel_t)image->loaded[device->index];
    pthread_mutex_unlock(&cache.lock);
    return code;
}
