/*
 * Trees in a part's epochs: shapes that are proven to need as few as can be, so that no search is
 * needed; and the check that trees keep to the part's hops and capacities.
 */
#include "synth/sketch/solve.h"

#include <stdlib.h>
#include <string.h>

/* Loads of resources in epochs, for what is placed one by one. */
typedef struct table {
    const ccl_i_part_t *p;
    uint32_t epochs;
    uint32_t *load; /* [epochs][nresources] */
} table_t;

static bool fits(const table_t *t, uint32_t hop, uint32_t epoch) {
    const ccl_i_exchange_t *x = &t->p->x;
    const ccl_i_hop_t *h = &x->hops[hop];

    if (epoch + t->p->delay[hop] > t->epochs)
        return false;
    for (uint32_t u = h->first_use; u < h->first_use + h->nuses; u++) {
        uint32_t r = x->uses[u].resource, window = t->p->window[r];

        /* All windows that hold this epoch. */
        for (uint32_t from = epoch + 1 > window ? epoch + 1 - window : 0; from <= epoch; from++) {
            uint32_t sum = x->uses[u].times;

            for (uint32_t k = from; k < from + window && k < t->epochs; k++)
                sum += t->load[(size_t)k * x->nresources + r];
            if (sum > t->p->capacity[r])
                return false;
        }
    }
    return true;
}

static void take(table_t *t, uint32_t hop, uint32_t epoch) {
    const ccl_i_exchange_t *x = &t->p->x;
    const ccl_i_hop_t *h = &x->hops[hop];

    for (uint32_t u = h->first_use; u < h->first_use + h->nuses; u++)
        t->load[(size_t)epoch * x->nresources + x->uses[u].resource] += x->uses[u].times;
}

static uint32_t hop_between(const ccl_i_exchange_t *x, uint32_t src, uint32_t dst) {
    for (uint32_t h = x->out_first[src]; h < x->out_first[src + 1]; h++) {
        if (x->hops[h].dst == dst)
            return h;
    }
    return CCL_NONE;
}

/* Of the hops between two the `nth`. */
static uint32_t equal_hop(const ccl_i_exchange_t *x, uint32_t src, uint32_t dst, uint32_t nth) {
    uint32_t hop = hop_between(x, src, dst);

    if (hop == CCL_NONE || nth >= x->nhops - hop || x->hops[hop + nth].src != src ||
        x->hops[hop + nth].dst != dst)
        return CCL_NONE;
    return hop + nth;
}

/* Each sends its own to the next, to the one after it ...: false when that takes more epochs. */
static bool everyone_itself(table_t *t, ccl_i_trees_t *trees) {
    const ccl_i_part_t *p = t->p;
    uint32_t n = p->n;

    for (uint32_t c = 0; c < p->chunks; c++) {
        for (uint32_t by = 1; by < n; by++) {
            for (uint32_t src = 0; src < n; src++) {
                uint32_t dst = (src + by) % n, hop = hop_between(&p->x, src, dst), k = 0;
                size_t at = ((size_t)src * p->chunks + c) * n + dst;

                if (hop == CCL_NONE)
                    return false;
                while (k < t->epochs && !fits(t, hop, k))
                    k++;
                if (k == t->epochs)
                    return false;
                take(t, hop, k);
                trees->parent[at] = src;
                trees->step[at] = k;
            }
        }
    }
    return true;
}

/* In every epoch each holder sends to one that has none. */
static bool doubling(table_t *t, ccl_i_trees_t *trees) {
    const ccl_i_part_t *p = t->p;
    uint32_t n = p->n, have = 1;
    size_t base = (size_t)p->root * n; /* one chunk */

    for (uint32_t k = 0; k < t->epochs && have < n; k++) {
        for (uint32_t src = 0; src < n; src++) {
            bool holds = src == p->root;
            uint32_t hop, in = CCL_NONE;

            if (trees->parent[base + src] != CCL_NONE) {
                in = hop_between(&p->x, trees->parent[base + src], src);
                holds = trees->step[base + src] + p->delay[in] <= k;
            }
            for (uint32_t dst = 0; holds && dst < n; dst++) {
                if (dst == p->root || trees->parent[base + dst] != CCL_NONE)
                    continue;
                hop = hop_between(&p->x, src, dst);
                if (hop == CCL_NONE || !fits(t, hop, k))
                    continue;
                take(t, hop, k);
                trees->parent[base + dst] = src;
                trees->step[base + dst] = k;
                have++;
            }
        }
    }
    return have == n;
}

ccl_status_t ccl_i_part_shape(const ccl_i_part_t *part, ccl_i_trees_t **out, ccl_error_t *err) {
    table_t t = {part, part->least, NULL};
    ccl_i_trees_t *trees;
    bool best = false;

    *out = NULL;
    if (part->least == CCL_NONE || part->least >= CCL_I_MILP_EPOCHS ||
        (part->root != CCL_NONE && part->chunks > 1))
        return CCL_OK;
    t.load = calloc((size_t)t.epochs * (part->x.nresources + (size_t)1), sizeof *t.load);
    trees = ccl_i_trees_create(part->n, part->chunks);
    if (t.load && trees)
        best = part->root == CCL_NONE ? everyone_itself(&t, trees) : doubling(&t, trees);
    if (!t.load || !trees) {
        free(t.load);
        ccl_i_trees_destroy(trees);
        return ccl_fail_nomem(err);
    }
    free(t.load);
    if (!best) {
        ccl_i_trees_destroy(trees);
        return CCL_OK;
    }
    trees->epochs = part->least;
    trees->proven = true;
    *out = trees;
    return CCL_OK;
}

bool ccl_i_part_check(const ccl_i_part_t *part, const ccl_i_trees_t *trees) {
    table_t t = {part, trees->epochs, NULL};
    uint32_t n = part->n;
    bool ok = trees->n == n && trees->variants == part->chunks && trees->epochs >= 1 &&
              trees->epochs <= CCL_I_MILP_EPOCHS;

    if (ok)
        t.load = calloc((size_t)t.epochs * (part->x.nresources + (size_t)1), sizeof *t.load);
    ok = ok && t.load;
    for (uint32_t from = 0; ok && from < n; from++) {
        for (uint32_t c = 0;
             ok && c < part->chunks && (part->root == CCL_NONE || part->root == from); c++) {
            size_t base = ((size_t)from * part->chunks + c) * n;

            for (uint32_t r = 0; ok && r < n; r++) {
                uint32_t parent = trees->parent[base + r], hop;

                if (r == from) {
                    ok = parent == CCL_NONE;
                    continue;
                }
                ok = parent < n;
                hop = ok ? equal_hop(&part->x, parent, r, trees->channel[base + r]) : CCL_NONE;
                ok = hop != CCL_NONE && fits(&t, hop, trees->step[base + r]);
                if (ok && parent != from) {
                    uint32_t above = trees->parent[base + parent], in = CCL_NONE;

                    if (above < n)
                        in = equal_hop(&part->x, above, parent, trees->channel[base + parent]);
                    ok = in != CCL_NONE &&
                         trees->step[base + parent] + part->delay[in] <= trees->step[base + r];
                }
                if (ok)
                    take(&t, hop, trees->step[base + r]);
            }
        }
    }
    free(t.load);
    return ok;
}
