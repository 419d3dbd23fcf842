/**
 * @file switches.c
 * What switches allow: the sets of GPUs that a program's trees branch or join for at each.
 */
#include "sim/program.h"

#include <stdlib.h>
#include <string.h>

/* The single GPU of a switch connection and its members together, ascending. */
typedef struct set {
    const uint32_t *ranks;
    uint32_t n;
} set_t;

static uint32_t *put_set(const ccl_program_t *program, const ccl_wiring_switch_t *s, uint32_t *at,
                         set_t *out) {
    const ccl_peer_group_t *group = &program->groups[s->group];
    bool put = ccl_peer_group_has(group, s->single);
    *out = (set_t){at, 0};
    for (uint32_t i = 0; i < group->n; i++) {
        if (!put && group->ranks[i] > s->single) {
            at[out->n++] = s->single;
            put = true;
        }
        at[out->n++] = group->ranks[i];
    }
    if (!put)
        at[out->n++] = s->single;
    return at + out->n;
}

static int by_set(const void *a, const void *b) {
    const set_t *x = a, *y = b;
    if (x->n != y->n)
        return x->n < y->n ? -1 : 1;
    for (uint32_t i = 0; i < x->n; i++)
        if (x->ranks[i] != y->ranks[i])
            return x->ranks[i] < y->ranks[i] ? -1 : 1;
    return 0;
}

static bool works_at(const ccl_tree_t *tree, bool reduces, uint32_t device) {
    uint32_t n = reduces ? tree->nreducers : tree->ncopiers;
    for (uint32_t i = 0; i < n; i++)
        if ((reduces ? tree->reducers : tree->copiers)[i] == device)
            return true;
    return false;
}

static ccl_status_t check_device(const ccl_topology_t *topo, uint32_t device, const set_t *sets,
                                 uint32_t n, ccl_error_t *err) {
    uint32_t different = 0;
    for (uint32_t i = 0; i < n; i++)
        different += i == 0 || by_set(&sets[i - 1], &sets[i]) != 0;
    if (different <= topo->devices[device].groups)
        return CCL_OK;
    return ccl_fail(err, CCL_UNSUPPORTED,
                    "switch \"%s\" holds %u groups, the program's switch connections need %u",
                    topo->devices[device].id, topo->devices[device].groups, different);
}

ccl_status_t ccl_i_switch_groups(const ccl_topology_t *topo, const ccl_program_t *program,
                                 const ccl_wiring_t *w, const ccl_i_trunk_t *trunks,
                                 ccl_error_t *err) {
    uint32_t *ranks = malloc((w->nmembers + w->nswitches + (size_t)1) * sizeof(*ranks)),
             *at = ranks;
    set_t *sets = malloc((w->nswitches + (size_t)1) * sizeof(*sets));
    set_t *some = malloc((w->nswitches + (size_t)1) * sizeof(*some));
    ccl_status_t status = ranks && sets && some ? CCL_OK : ccl_fail_nomem(err);
    for (uint32_t i = 0; status == CCL_OK && i < w->nswitches; i++)
        at = put_set(program, &w->switches[i], at, &sets[i]);
    for (uint32_t d = 0; status == CCL_OK && d < topo->ndevices; d++) {
        uint32_t n = 0;
        for (uint32_t i = 0; topo->devices[d].groups > 0 && i < w->nswitches; i++)
            if (works_at(trunks[i].tree, trunks[i].reduces, d))
                some[n++] = sets[i];
        qsort(some, n, sizeof(*some), by_set);
        if (n > 0)
            status = check_device(topo, d, some, n, err);
    }
    free(ranks);
    free(sets);
    free(some);
    return status;
}
