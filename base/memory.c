/** @file memory.c Bump arena and growing arrays. */
#include "base/base.h"

#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

struct ccl_arena_block {
    struct ccl_arena_block *next;
    size_t cap_bytes, used_bytes;
    char *data;
};

enum { ARENA_ALIGN = 16 };
#define ARENA_FIRST_BYTES ((size_t)4 << 10)
#define ARENA_MOST_BYTES ((size_t)1 << 20)
#define ARENA_HEADER_BYTES                                                                         \
    ((sizeof(struct ccl_arena_block) + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN)

/* Pages of 2 MB: accesses all over an array need the page table less, and there are fewer faults.
 */
void ccl_memory_large(void *memory, size_t bytes) {
#ifdef MADV_HUGEPAGE
    const uintptr_t page = (uintptr_t)2 << 20;
    uintptr_t from = ((uintptr_t)memory + page - 1) / page * page;
    uintptr_t to = ((uintptr_t)memory + bytes) / page * page;
    if (memory && bytes >= 4 * page && from < to)
        (void)madvise((void *)from, to - from, MADV_HUGEPAGE); /* without it all goes on */
#else
    (void)memory, (void)bytes;
#endif
}

void *ccl_array_alloc(size_t count, size_t size) {
    size_t bytes;
    void *memory = __builtin_mul_overflow(count, size, &bytes) ? NULL : malloc(bytes);
    ccl_memory_large(memory, bytes);
    return memory;
}

void ccl_arena_init(ccl_arena_t *arena) {
    *arena = (ccl_arena_t){0};
}

void ccl_arena_fini(ccl_arena_t *arena) {
    if (!arena)
        return;
    struct ccl_arena_block *block = arena->head;
    while (block) {
        struct ccl_arena_block *next = block->next;
        free(block);
        block = next;
    }
    *arena = (ccl_arena_t){0};
}

static struct ccl_arena_block *block_create(size_t cap_bytes) {
    if (cap_bytes > SIZE_MAX - ARENA_HEADER_BYTES)
        return NULL;
    struct ccl_arena_block *block = calloc(1, ARENA_HEADER_BYTES + cap_bytes);
    if (!block)
        return NULL;
    ccl_memory_large(block, ARENA_HEADER_BYTES + cap_bytes);
    block->cap_bytes = cap_bytes;
    block->data = (char *)block + ARENA_HEADER_BYTES;
    return block;
}

void *ccl_arena_alloc(ccl_arena_t *arena, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX - ARENA_ALIGN)
        return NULL;
    bytes = bytes ? (bytes + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN : ARENA_ALIGN;
    struct ccl_arena_block *head = arena->head;
    if (!head || head->cap_bytes - head->used_bytes < bytes) {
        size_t cap = head ? head->cap_bytes * 2 : ARENA_FIRST_BYTES;
        if (cap > ARENA_MOST_BYTES)
            cap = ARENA_MOST_BYTES;
        bool own = bytes > cap / 4;
        struct ccl_arena_block *block = block_create(own ? bytes : cap);
        if (!block)
            return NULL;
        if (own && head) { /* behind the head, whose free rest stays in use */
            block->next = head->next;
            head->next = block;
        } else {
            block->next = head;
            arena->head = block;
        }
        head = block;
    }
    void *data = head->data + head->used_bytes;
    head->used_bytes += bytes;
    arena->used_bytes += bytes;
    return data;
}

char *ccl_arena_strdup(ccl_arena_t *arena, const char *text) {
    size_t len = strlen(text) + 1;
    char *copy = ccl_arena_alloc(arena, len, 1);
    if (copy)
        memcpy(copy, text, len);
    return copy;
}

bool ccl_grow_raw(void *array, size_t *capacity, size_t need, size_t elem_size) {
    if (need <= *capacity)
        return true;
    size_t cap = *capacity ? *capacity : 8, bytes;
    while (cap < need) {
        if (cap > SIZE_MAX / 2) {
            cap = need;
            break;
        }
        cap *= 2;
    }
    if (__builtin_mul_overflow(cap, elem_size, &bytes))
        return false;
    void *data; /* memcpy: the caller's pointer may be of any object pointer type */
    memcpy(&data, array, sizeof data);
    data = realloc(data, bytes);
    if (!data)
        return false;
    ccl_memory_large(data, bytes);
    memcpy(array, &data, sizeof data);
    *capacity = cap;
    return true;
}

bool ccl_grow(void *array, size_t *capacity, size_t need, size_t elem_size) {
    size_t before = *capacity;
    char *data;
    if (!ccl_grow_raw(array, capacity, need, elem_size))
        return false;
    memcpy(&data, array, sizeof data);
    if (*capacity > before)
        memset(data + before * elem_size, 0, (*capacity - before) * elem_size);
    return true;
}
