/* Sorting and numbering of millions of operations by keys. */
#include "lower/lower_i.h"

#include <stdlib.h>
#include <string.h>

static void sort_few(uint64_t *keys, uint32_t *items, size_t n) {
    for (size_t i = 1; i < n; i++) {
        uint64_t key = keys[i];
        uint32_t item = items[i];
        size_t at = i;
        for (; at > 0 && keys[at - 1] > key; at--) {
            keys[at] = keys[at - 1];
            items[at] = items[at - 1];
        }
        keys[at] = key;
        items[at] = item;
    }
}

void ccl_i_radix_sort(uint64_t *keys, uint32_t *items, uint64_t *keys_tmp, uint32_t *items_tmp,
                      size_t n) {
    enum { BITS = 11, BUCKETS = 1 << BITS, FEW = 64 };
    uint64_t differ = 0; /* bits in which not all are alike; others need no pass */
    bool sorted = true, swapped = false;
    for (size_t i = 1; i < n; i++) {
        differ |= keys[i] ^ keys[0];
        sorted = sorted && keys[i - 1] <= keys[i];
    }
    if (n <= FEW && !sorted) {
        sort_few(keys, items, n);
        return;
    }
    while (differ && !sorted) {
        int shift = __builtin_ctzll(differ);
        size_t count[BUCKETS] = {0}, at = 0;
        const uint64_t *from = swapped ? keys_tmp : keys;
        const uint32_t *from_items = swapped ? items_tmp : items;
        uint64_t *to = swapped ? keys : keys_tmp;
        uint32_t *to_items = swapped ? items : items_tmp;
        for (size_t i = 0; i < n; i++)
            count[from[i] >> shift & (BUCKETS - 1)]++;
        for (unsigned b = 0; b < BUCKETS; b++) {
            size_t c = count[b];
            count[b] = at;
            at += c;
        }
        for (size_t i = 0; i < n; i++) {
            size_t place = count[from[i] >> shift & (BUCKETS - 1)]++;
            to[place] = from[i];
            to_items[place] = from_items[i];
        }
        differ &= ~((uint64_t)(BUCKETS - 1) << shift);
        swapped = !swapped;
    }
    if (swapped) {
        memcpy(keys, keys_tmp, n * sizeof *keys);
        memcpy(items, items_tmp, n * sizeof *items);
    }
}

static size_t slot_of(const ccl_i_numbering_t *m, uint64_t key) {
    size_t at = (size_t)ccl_mix64(key) & (m->nslots - 1);
    while (m->slots[at] != CCL_NONE && m->keys[m->slots[at]] != key)
        at = (at + 1) & (m->nslots - 1);
    return at;
}

static bool grow_slots(ccl_i_numbering_t *m) {
    enum { FIRST = 1 << 10 };
    size_t n = m->nslots ? 2 * m->nslots : FIRST;
    uint32_t *slots = malloc(n * sizeof *slots);
    if (!slots)
        return false;
    free(m->slots);
    m->slots = slots;
    m->nslots = n;
    memset(slots, 0xff, n * sizeof *slots);
    for (uint32_t k = 0; k < m->n; k++)
        slots[slot_of(m, m->keys[k])] = k;
    return true;
}

bool ccl_i_numbering_add(ccl_i_numbering_t *m, uint64_t key, uint32_t *out) {
    if (2 * (m->n + (size_t)1) > m->nslots && !grow_slots(m))
        return false;
    size_t at = slot_of(m, key);
    if (m->slots[at] == CCL_NONE) {
        if (!ccl_grow_raw(&m->keys, &m->keys_cap, m->n + (size_t)1, sizeof *m->keys))
            return false;
        m->keys[m->n] = key;
        m->slots[at] = m->n++;
    }
    *out = m->slots[at];
    return true;
}

void ccl_i_numbering_fini(ccl_i_numbering_t *m) {
    free(m->keys);
    free(m->slots);
}
