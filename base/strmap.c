/** @file strmap.c String to uint32_t map (open addressing over insertion-ordered entries); FNV-1a.
 */
#include "base/base.h"

#include <stdlib.h>
#include <string.h>

typedef struct entry {
    const char *key; /* in the arena */
    uint64_t hash;
    uint32_t value;
} entry_t;

struct ccl_strmap {
    entry_t *entries;
    size_t len, cap;
    uint32_t *slots; /* entry index + 1; 0: free */
    size_t nslots;   /* power of two, more than 4/3 of len */
    ccl_arena_t keys;
};

uint64_t ccl_hash64(const void *data, size_t len, uint64_t seed) {
    const unsigned char *bytes = data;
    uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ seed;
    for (size_t i = 0; i < len; i++) {
        hash ^= bytes[i];
        hash *= UINT64_C(0x100000001b3);
    }
    return hash;
}

/* FNV's low bits are weak for short keys that differ in one digit ("gpu:1", "gpu:2"). */
static uint64_t key_hash(const char *key) {
    return ccl_mix64(ccl_hash64(key, strlen(key), 0));
}

ccl_strmap_t *ccl_strmap_create(void) {
    return calloc(1, sizeof(ccl_strmap_t));
}

void ccl_strmap_destroy(ccl_strmap_t *map) {
    if (!map)
        return;
    free(map->entries);
    free(map->slots);
    ccl_arena_fini(&map->keys);
    free(map);
}

/* Slot of the key, or the free slot where it belongs. */
static size_t slot_of(const ccl_strmap_t *map, const char *key, uint64_t hash) {
    size_t mask = map->nslots - 1, slot = hash & mask;
    while (map->slots[slot]) {
        const entry_t *entry = &map->entries[map->slots[slot] - 1];
        if (entry->hash == hash && strcmp(entry->key, key) == 0)
            break;
        slot = (slot + 1) & mask;
    }
    return slot;
}

uint32_t ccl_strmap_get(const ccl_strmap_t *map, const char *key) {
    if (!map || !map->nslots)
        return CCL_NONE;
    uint32_t index = map->slots[slot_of(map, key, key_hash(key))];
    return index ? map->entries[index - 1].value : CCL_NONE;
}

static bool rehash(ccl_strmap_t *map, size_t nslots) {
    uint32_t *slots = calloc(nslots, sizeof *slots);
    if (!slots)
        return false;
    for (size_t i = 0; i < map->len; i++) {
        size_t slot = map->entries[i].hash & (nslots - 1);
        while (slots[slot])
            slot = (slot + 1) & (nslots - 1);
        slots[slot] = (uint32_t)i + 1;
    }
    free(map->slots);
    map->slots = slots;
    map->nslots = nslots;
    return true;
}

bool ccl_strmap_put(ccl_strmap_t *map, const char *key, uint32_t value) {
    if (map->len >= CCL_NONE - 1)
        return false;
    if ((map->len + 1) * 4 > map->nslots * 3 && !rehash(map, map->nslots ? map->nslots * 2 : 16))
        return false;
    uint64_t hash = key_hash(key);
    size_t slot = slot_of(map, key, hash);
    if (map->slots[slot]) {
        map->entries[map->slots[slot] - 1].value = value;
        return true;
    }
    if (!ccl_grow(&map->entries, &map->cap, map->len + 1, sizeof *map->entries))
        return false;
    const char *copy = ccl_arena_strdup(&map->keys, key);
    if (!copy)
        return false;
    map->entries[map->len++] = (entry_t){copy, hash, value};
    map->slots[slot] = (uint32_t)map->len;
    return true;
}

size_t ccl_strmap_len(const ccl_strmap_t *map) {
    return map ? map->len : 0;
}
