/*
 * Multicast memory of the fake GPU (gpublocks.c): parts are memory as all is, and its own address
 * is one where nothing may be read or written but by the two functions below. CCL_TEST_MULTICAST:
 * devices have it; "full": it has no room left.
 */
#ifndef CCL_TESTS_RUNTIME_FAKEMULTICAST_H
#define CCL_TESTS_RUNTIME_FAKEMULTICAST_H

#include "runtime/host/kernels.h"

typedef struct multicast {
    ccl_device_multicast_t of;
    struct multicast *next;
    ccl_device_handle_t *device;
    char *base;
    size_t bytes;
    uint32_t members;
    void *parts[16];
} multicast_t;

static multicast_t *multicasts;
/* How often blocks loaded and stored there. */
__attribute__((visibility("default"))) uint64_t fake_multi_loads, fake_multi_stores;

/** As NVLink SHARP. */
static bool multicast_reduces(uint32_t type, uint32_t op) {
    return type != CCL_TYPE_FP32 || op == CCL_OP_SUM;
}

static int multicast_alloc(ccl_device_handle_t *const *devices, uint32_t n, uint32_t members,
                           size_t bytes, ccl_device_multicast_t **out) {
    if (strcmp(getenv("CCL_TEST_MULTICAST"), "full") == 0)
        return 1;
    if (members < 2 || members > n || bytes == 0)
        abort();
    multicast_t *m = calloc(1, sizeof *m);
    m->base = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (m->base == MAP_FAILED)
        abort();
    for (uint32_t i = 0; i < members; i++)
        if (memory_alloc(devices[i], bytes, &m->parts[i]))
            abort();
    m->of = (ccl_device_multicast_t){away(m->base), m->parts};
    m->device = devices[0];
    m->bytes = bytes;
    m->members = members;
    pthread_mutex_lock(&blocks_lock);
    m->next = multicasts;
    multicasts = m;
    pthread_mutex_unlock(&blocks_lock);
    *out = &m->of;
    return 0;
}

static int multicast_free(ccl_device_multicast_t *memory) {
    multicast_t *m = (multicast_t *)memory, **at = &multicasts;
    pthread_mutex_lock(&blocks_lock);
    while (*at != m)
        at = &(*at)->next;
    *at = m->next;
    pthread_mutex_unlock(&blocks_lock);
    for (uint32_t i = 0; i < m->members; i++)
        memory_free(m->device, m->parts[i]);
    munmap(m->base, m->bytes);
    free(m);
    return 0;
}

static const multicast_t *multicast_at(const char *at, size_t *offset) {
    pthread_mutex_lock(&blocks_lock);
    const multicast_t *m = multicasts;
    while (m && (at < m->base || at + 16 > m->base + m->bytes))
        m = m->next;
    pthread_mutex_unlock(&blocks_lock);
    if (!m || (uintptr_t)at % 16)
        abort();
    *offset = (size_t)(at - m->base);
    return m;
}

static vector_t ccl_gpu_multi_load(uint32_t type, uint32_t op, const char *at) {
    size_t offset, items = type <= CCL_TYPE_FP32 ? 4 : 8;
    const multicast_t *m = multicast_at(at, &offset);
    vector_t sum, x;
    if (!multicast_reduces(type, op))
        abort();
    for (uint32_t i = 0; i < m->members; i++) {
        memcpy(i ? &x : &sum, (char *)back(m->parts[i]) + offset, 16);
        if (i)
            ccl_i_reduce_get((ccl_type_t)type, (ccl_reduction_t)op)(&sum, &sum, &x, items);
    }
    __atomic_add_fetch(&fake_multi_loads, 1, __ATOMIC_RELAXED);
    return sum;
}

static void ccl_gpu_multi_store(char *at, vector_t v) {
    size_t offset;
    const multicast_t *m = multicast_at(at, &offset);
    for (uint32_t i = 0; i < m->members; i++)
        memcpy((char *)back(m->parts[i]) + offset, &v, 16);
    __atomic_add_fetch(&fake_multi_stores, 1, __ATOMIC_RELAXED);
}

#endif
