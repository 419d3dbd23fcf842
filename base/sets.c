#include "base/base.h"

uint32_t ccl_set_find(uint32_t *set, uint32_t i) {
    while (set[i] != i)
        i = set[i] = set[set[i]];
    return i;
}

void ccl_set_join(uint32_t *set, uint32_t a, uint32_t b) {
    a = ccl_set_find(set, a);
    b = ccl_set_find(set, b);
    if (a < b)
        set[b] = a;
    else
        set[a] = b;
}
