/* Which GPU has which expert, by rules: in order, in turn, or by popularity. */
#include "schedule/formats/moe_i.h"

#include <stdlib.h>

typedef struct replica {
    double load;
    uint32_t expert;
} replica_t;

static int by_load(const void *a, const void *b) {
    const replica_t *x = a, *y = b;
    if (x->load != y->load)
        return x->load > y->load ? -1 : 1;
    return x->expert < y->expert ? -1 : x->expert > y->expert;
}

/* Further copies go to the expert whose copies have most to do. */
ccl_status_t ccl_i_moe_copies(ccl_i_moe_t *m, ccl_error_t *err) {
    const ccl_moe_options_t *o = m->o;
    uint32_t *copies = calloc(o->experts, sizeof *copies);
    if (!copies)
        return ccl_fail_nomem(err);
    for (uint32_t e = 0; e < o->experts; e++)
        copies[e] = 1;
    for (uint32_t c = 0; c < o->copies; c++) {
        uint32_t most = 0;
        for (uint32_t e = 1; e < o->experts; e++)
            if (m->weight[e] / copies[e] > m->weight[most] / copies[most])
                most = e;
        copies[most]++;
    }
    for (uint32_t e = 0; e < o->experts; e++)
        m->first[e + 1] = m->first[e] + copies[e];
    free(copies);
    return CCL_OK;
}

/* What balance() works with. */
typedef struct balancing {
    replica_t *all; /* [nreplicas] */
    uint32_t *at;   /* [experts] the next copy's place */
    uint32_t *count;
    double *load; /* [n] */
} balancing_t;

/* The GPU with the least to do that has room, for the heaviest copy first; not twice the same one.
 */
static void balance(const ccl_i_moe_t *m, balancing_t *b, uint32_t *gpu) {
    uint32_t room = (m->nreplicas + m->n - 1) / m->n;
    for (uint32_t e = 0; e < m->o->experts; e++) {
        uint32_t copies = m->first[e + 1] - m->first[e];
        b->at[e] = m->first[e];
        for (uint32_t i = m->first[e]; i < m->first[e + 1]; i++)
            b->all[i] = (replica_t){m->weight[e] / copies, e};
    }
    qsort(b->all, m->nreplicas, sizeof *b->all, by_load);
    for (uint32_t i = 0; i < m->nreplicas; i++) {
        uint32_t best = CCL_NONE, e = b->all[i].expert;
        for (int turn = 0; turn < 2 && best == CCL_NONE; turn++) {
            for (uint32_t g = 0; g < m->n; g++) {
                bool has = false;
                for (uint32_t k = m->first[e]; k < b->at[e] && turn == 0; k++)
                    has |= gpu[k] == g;
                if (b->count[g] < room && !has && (best == CCL_NONE || b->load[g] < b->load[best]))
                    best = g;
            }
        }
        gpu[b->at[e]++] = best;
        b->load[best] += b->all[i].load;
        b->count[best]++;
    }
}

ccl_status_t ccl_i_moe_place(const ccl_i_moe_t *m, ccl_moe_placement_t placement, uint32_t *gpu,
                             ccl_error_t *err) {
    uint32_t n = m->nreplicas;
    if (placement != CCL_MOE_BALANCED) {
        for (uint32_t i = 0; i < n; i++)
            gpu[i] = placement == CCL_MOE_SPREAD ? i % m->n : (uint32_t)((uint64_t)i * m->n / n);
        return CCL_OK;
    }
    balancing_t b = {.all = calloc(n, sizeof *b.all),
                     .at = calloc(m->o->experts, sizeof *b.at),
                     .count = calloc(m->n, sizeof *b.count),
                     .load = calloc(m->n, sizeof *b.load)};
    ccl_status_t status = b.all && b.at && b.count && b.load ? CCL_OK : ccl_fail_nomem(err);
    if (status == CCL_OK)
        balance(m, &b, gpu);
    free(b.all);
    free(b.at);
    free(b.count);
    free(b.load);
    return status;
}
