/**
 * @file cache.h
 * Compiled kernels by content, for the life of a module. Valid C and C++.
 */
#ifndef CCL_RUNTIME_GPU_CACHE_H
#define CCL_RUNTIME_GPU_CACHE_H

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { CCL_GPU_CACHE_DEVICES = 64 };

typedef struct ccl_gpu_image {
    struct ccl_gpu_image *next;
    uint64_t hash;
    char *source, *architecture;
    void *code; /* malloc'ed */
    size_t bytes;
    void *loaded[CCL_GPU_CACHE_DEVICES]; /* what a device made of it; NULL: nothing yet */
} ccl_gpu_image_t;

typedef struct ccl_gpu_cache {
    pthread_mutex_t lock; /* whoever uses the rest holds it */
    ccl_gpu_image_t *first;
} ccl_gpu_cache_t;
#define CCL_GPU_CACHE_INIT                                                                         \
    { PTHREAD_MUTEX_INITIALIZER, NULL }

/** FNV-1a. */
static inline uint64_t ccl_gpu_cache_hash(const char *text, uint64_t h) {
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return h;
}

static inline uint64_t ccl_gpu_cache_key(const char *source, const char *architecture) {
    return ccl_gpu_cache_hash(architecture,
                              ccl_gpu_cache_hash(source, UINT64_C(0xcbf29ce484222325)));
}

/** NULL: not there. */
static inline ccl_gpu_image_t *ccl_gpu_cache_find(ccl_gpu_cache_t *cache, const char *source,
                                                  const char *architecture) {
    uint64_t hash = ccl_gpu_cache_key(source, architecture);
    for (ccl_gpu_image_t *i = cache->first; i; i = i->next)
        if (i->hash == hash && strcmp(i->source, source) == 0 &&
            strcmp(i->architecture, architecture) == 0)
            return i;
    return NULL;
}

/** Takes the code, also when it returns NULL: out of memory. */
static inline ccl_gpu_image_t *ccl_gpu_cache_add(ccl_gpu_cache_t *cache, const char *source,
                                                 const char *architecture, void *code,
                                                 size_t bytes) {
    ccl_gpu_image_t *i = (ccl_gpu_image_t *)calloc(1, sizeof *i);
    char *text = strdup(source), *name = strdup(architecture);
    if (!i || !text || !name) {
        free(i);
        free(text);
        free(name);
        free(code);
        return NULL;
    }
    i->hash = ccl_gpu_cache_key(source, architecture);
    i->source = text;
    i->architecture = name;
    i->code = code;
    i->bytes = bytes;
    i->next = cache->first;
    cache->first = i;
    return i;
}

#endif
