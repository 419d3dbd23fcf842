/* Switches of a cluster that multicast or reduce, those that can do the same as one row. */
#include "report/clusters/alike.h"

#include <string.h>

/** Those that can do the same. */
typedef struct switch_row {
    const char *example, *types;
    uint32_t switches, groups;
    bool multicast, reduce;
    double reduce_rate_Bps;
} switch_row_t;

static bool is_able(const ccl_device_t *d) {
    return d->multicast || d->reduce;
}

static bool same(const ccl_device_t *a, const ccl_device_t *b) {
    return a->multicast == b->multicast && a->reduce == b->reduce && a->groups == b->groups &&
           a->reduce_rate_Bps == b->reduce_rate_Bps && !a->types == !b->types &&
           (!a->types || strcmp(a->types, b->types) == 0);
}

/** The device that leads class i; CCL_NONE behind the last. */
static uint32_t leader(const ccl_topology_t *topo, uint64_t i) {
    for (uint32_t d = 0; d < topo->ndevices; d++) {
        bool first = is_able(&topo->devices[d]);

        for (uint32_t e = 0; first && e < d; e++)
            first = !is_able(&topo->devices[e]) || !same(&topo->devices[d], &topo->devices[e]);
        if (first && i-- == 0)
            return d;
    }
    return CCL_NONE;
}

uint64_t ccl_i_switch_classes(const void *row) {
    const ccl_topology_t *topo = *(const ccl_topology_t *const *)row;
    uint64_t n = 0;

    while (leader(topo, n) != CCL_NONE)
        n++;
    return n;
}

const void *ccl_i_switch_class(const void *row, uint64_t i, void *scratch) {
    const ccl_topology_t *topo = *(const ccl_topology_t *const *)row;
    const ccl_device_t *d = &topo->devices[leader(topo, i)];
    switch_row_t *out = scratch;

    *out = (switch_row_t){
        d->id,     d->types,          0, d->groups ? d->groups : CCL_NONE, d->multicast,
        d->reduce, d->reduce_rate_Bps};
    for (uint32_t e = 0; e < topo->ndevices; e++)
        out->switches += is_able(&topo->devices[e]) && same(d, &topo->devices[e]);
    return out;
}

#define AT(member) CCL_I_AT(switch_row_t, member)
#define NO_LIMIT "no limit"
const ccl_i_described_t ccl_i_switch_record = {
    .size = sizeof(switch_row_t),
    .fields = (const ccl_i_field_t[]){
        {"switches", AT(switches), "that can do the same"},
        {"multicast", AT(multicast)},
        {"reduce", AT(reduce)},
        {"groups", AT(groups), "at a time", .null = NO_LIMIT},
        {"reduce_rate_Bps", AT(reduce_rate_Bps), "of results, of all reductions", .null = NO_LIMIT},
        {"types", AT(types), "that it can sum", .null = "any"},
        {"example", AT(example), "the first"},
        {0}}};
#undef AT
#undef NO_LIMIT

const ccl_i_column_t ccl_i_switch_columns[] = {
    CCL_I_COLUMN("switches"),
    CCL_I_COLUMN("multicast"),
    CCL_I_COLUMN("reduce"),
    CCL_I_COLUMN("groups"),
    CCL_I_COLUMN("reduce_rate_Bps", "reduce_rate(GB/s)", ccl_i_GBps),
    CCL_I_COLUMN("types"),
    CCL_I_COLUMN("example", "for example"),
    CCL_I_COLUMNS_END};
