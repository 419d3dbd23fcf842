/**
 * @file pool.c
 * Memory of slices that stay in a process. A FIFO counts its slices; where they lie is free. Every
 * worker keeps the places that it emptied and fills the last one first, whatever the connection, so
 * that slices which are read soon after they are written never leave its core's cache.
 */
#define _GNU_SOURCE
#include "runtime/host/pool.h"

#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { LINE_BYTES = 64 };

/* Of one worker. The others take from it when they have none. */
typedef struct hoard {
    uint32_t lock, n;
    uint32_t *places; /* [of all] */
    char pad[LINE_BYTES - 2 * sizeof(uint32_t) - sizeof(uint32_t *)];
} hoard_t;

struct ccl_i_pool {
    uint32_t nworkers, nplaces, slots;
    uint64_t place_bytes;
    char *memory;
    uint32_t *first; /* [nconns] into at; CCL_DEVICE_NONE: lies elsewhere */
    uint32_t *at;    /* of slice k: at[first + k mod slots] */
    hoard_t *stacks;
};

static void lock(hoard_t *s) {
    for (uint32_t looks = 0; __atomic_exchange_n(&s->lock, 1, __ATOMIC_ACQUIRE); looks++)
        if (looks > 20) /* whoever has it may have lost its core */
            sched_yield();
}

static void unlock(hoard_t *s) {
    __atomic_store_n(&s->lock, 0, __ATOMIC_RELEASE);
}

/* Written under the lock; others look at it without. */
static void count(hoard_t *s, uint32_t n) {
    __atomic_store_n(&s->n, n, __ATOMIC_RELAXED);
}

static uint32_t pop(hoard_t *s) {
    uint32_t place = CCL_DEVICE_NONE;
    if (__atomic_load_n(&s->n, __ATOMIC_RELAXED) == 0)
        return place;
    lock(s);
    if (s->n) {
        place = s->places[s->n - 1];
        count(s, s->n - 1);
    }
    unlock(s);
    return place;
}

/** Places go from one connection to another, flags in the data must not. */
static bool within(const ccl_device_plan_t *plan, const ccl_device_conn_t *c) {
    return plan->protocol == CCL_DEVICE_SIMPLE && c->sender >= plan->first_unit &&
           c->sender < plan->end_unit && c->receiver >= plan->first_unit &&
           c->receiver < plan->end_unit;
}

static bool fill(ccl_i_pool_t *pool, const ccl_device_plan_t *plan, uint32_t nworkers) {
    pool->nworkers = nworkers;
    pool->place_bytes = LINE_BYTES;
    pool->first = malloc((plan->nconns + (size_t)1) * sizeof *pool->first);
    pool->stacks = calloc(nworkers, sizeof *pool->stacks);
    if (!pool->first || !pool->stacks)
        return false;
    for (uint32_t c = 0; c < plan->nconns; c++) {
        const ccl_device_conn_t *conn = &plan->conns[c];
        pool->first[c] = CCL_DEVICE_NONE;
        if (!within(plan, conn))
            continue;
        pool->slots = conn->slots;
        pool->first[c] = pool->nplaces;
        pool->nplaces += conn->slots;
        if (conn->slot_bytes > pool->place_bytes)
            pool->place_bytes = conn->slot_bytes;
    }
    if (!pool->nplaces)
        return true;
    pool->at = malloc(pool->nplaces * sizeof *pool->at);
    void *memory = mmap(NULL, pool->nplaces * pool->place_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    pool->memory = memory == MAP_FAILED ? NULL : memory;
    if (!pool->at || !pool->memory)
        return false;
    for (uint32_t w = 0; w < nworkers; w++) {
        hoard_t *s = &pool->stacks[w];
        s->places = malloc(pool->nplaces * sizeof *s->places);
        if (!s->places)
            return false;
        for (uint32_t i = pool->nplaces; i-- > 0;)
            if (i % nworkers == w)
                s->places[s->n++] = i;
    }
    return true;
}

ccl_i_pool_t *ccl_i_pool_create(const ccl_device_plan_t *plan, uint32_t nworkers) {
    ccl_i_pool_t *pool = calloc(1, sizeof *pool);
    if (pool && !fill(pool, plan, nworkers)) {
        ccl_i_pool_destroy(pool);
        return NULL;
    }
    return pool;
}

void ccl_i_pool_destroy(ccl_i_pool_t *pool) {
    if (!pool)
        return;
    for (uint32_t w = 0; pool->stacks && w < pool->nworkers; w++)
        free(pool->stacks[w].places);
    if (pool->memory)
        munmap(pool->memory, pool->nplaces * pool->place_bytes);
    free(pool->stacks);
    free(pool->first);
    free(pool->at);
    free(pool);
}

bool ccl_i_pool_has(const ccl_i_pool_t *pool, uint32_t conn) {
    return pool->first[conn] != CCL_DEVICE_NONE;
}

char *ccl_i_pool_find(const ccl_i_pool_t *pool, uint32_t conn, uint64_t k) {
    return pool->memory + pool->at[pool->first[conn] + k % pool->slots] * pool->place_bytes;
}

char *ccl_i_pool_take(ccl_i_pool_t *pool, uint32_t worker, uint32_t conn, uint64_t k) {
    uint32_t place = pop(&pool->stacks[worker]);
    /* There are as many places as slots: one is free somewhere. */
    for (uint32_t w = worker + 1; place == CCL_DEVICE_NONE; w++)
        place = pop(&pool->stacks[w % pool->nworkers]);
    pool->at[pool->first[conn] + k % pool->slots] = place;
    return pool->memory + place * pool->place_bytes;
}

void ccl_i_pool_give(ccl_i_pool_t *pool, uint32_t worker, uint32_t conn, uint64_t k) {
    hoard_t *s = &pool->stacks[worker];
    uint32_t place = pool->at[pool->first[conn] + k % pool->slots];
    lock(s);
    s->places[s->n] = place;
    count(s, s->n + 1);
    unlock(s);
}
