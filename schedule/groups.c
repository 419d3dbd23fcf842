/* Groups of ranks. */
#include "schedule/groups_i.h"

#include <stdlib.h>
#include <string.h>

static int by_rank(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

bool ccl_peer_group_has(const ccl_peer_group_t *group, uint32_t rank) {
    return bsearch(&rank, group->ranks, group->n, sizeof rank, by_rank) != NULL;
}

uint32_t ccl_i_groups_add(ccl_i_groups_t *g, const uint32_t *ranks, uint32_t n) {
    uint32_t *copy = malloc((n + (size_t)1) * sizeof *copy);
    if (!copy || (g->len == g->cap && !ccl_grow(&g->list, &g->cap, g->len + 1, sizeof *g->list))) {
        free(copy);
        return CCL_NONE;
    }
    if (n > 0)
        memcpy(copy, ranks, n * sizeof *copy);
    qsort(copy, n, sizeof *copy, by_rank);
    for (size_t i = 0; i < g->len; i++) {
        if (g->list[i].n == n && memcmp(g->list[i].ranks, copy, n * sizeof *copy) == 0) {
            free(copy);
            return CCL_PEER_GROUP | (uint32_t)i;
        }
    }
    g->list[g->len].ranks = copy;
    g->list[g->len].n = n;
    return CCL_PEER_GROUP | (uint32_t)g->len++;
}

bool ccl_i_groups_place(const ccl_i_groups_t *g, ccl_arena_t *arena, const ccl_peer_group_t **out,
                        uint32_t *n_out) {
    *out = NULL;
    *n_out = 0;
    if (g->len == 0)
        return true;
    ccl_peer_group_t *groups = ccl_arena_alloc(arena, g->len, sizeof *groups);
    for (size_t i = 0; groups && i < g->len; i++) {
        uint32_t n = g->list[i].n, *ranks = ccl_arena_alloc(arena, n ? n : 1, sizeof *ranks);
        if (!ranks)
            return false;
        memcpy(ranks, g->list[i].ranks, n * sizeof *ranks);
        groups[i] = (ccl_peer_group_t){ranks, n};
    }
    *out = groups;
    *n_out = (uint32_t)g->len;
    return groups != NULL;
}

void ccl_i_groups_fini(ccl_i_groups_t *g) {
    for (size_t i = 0; i < g->len; i++)
        free(g->list[i].ranks);
    free(g->list);
    *g = (ccl_i_groups_t){0};
}

ccl_status_t ccl_i_groups_check(const ccl_peer_group_t *groups, uint32_t n, uint32_t nranks,
                                ccl_error_t *err) {
    for (uint32_t g = 0; g < n; g++) {
        const ccl_peer_group_t *group = &groups[g];
        if (group->n == 0)
            return ccl_fail(err, CCL_ERR_INPUT, "group %u has no ranks", g);
        for (uint32_t i = 0; i < group->n; i++) {
            if (group->ranks[i] >= nranks)
                return ccl_fail(err, CCL_ERR_INPUT, "group %u has rank %u of %u ranks", g,
                                group->ranks[i], nranks);
            if (i > 0 && group->ranks[i] == group->ranks[i - 1])
                return ccl_fail(err, CCL_ERR_INPUT, "group %u has rank %u twice", g,
                                group->ranks[i]);
        }
    }
    return CCL_OK;
}

bool ccl_i_groups_equal(const ccl_peer_group_t *a, uint32_t na, const ccl_peer_group_t *b,
                        uint32_t nb) {
    bool equal = na == nb;
    for (uint32_t g = 0; equal && g < na; g++)
        equal =
            a[g].n == b[g].n && memcmp(a[g].ranks, b[g].ranks, a[g].n * sizeof *a[g].ranks) == 0;
    return equal;
}
