/*
 * A topology's bandwidths as whole numbers: what cuts and packings of trees work on. Devices are
 * vertices and links are arcs; a group of links that all leave (or all enter) one device is a
 * vertex of its own between the device and the links' other ends, which is the group's capacity
 * exactly.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/models.h"

/* Sums of capacities times ranks stay below this. */
#define MOST_SUM ((double)((int64_t)1 << 60))

/* Is x so near a whole number that it was meant as one? */
static bool whole(double x) {
    return fabs(x - round(x)) <= 4e-16 * fabs(x) + 1e-9;
}

/*
 * Units: 1 B/s, or a power of ten of it down to 1e-9, or, where a rate is no decimal fraction or
 * sums grow too large, a power of two; there rates are rounded up, so that bounds stay bounds.
 */
static void choose_unit(const double *rates_Bps, uint32_t n, uint32_t factor, ccl_capacity_t *c) {
    double unit = 1, sum = 0, most = 0;
    bool exact = false;
    int64_t g = 0, parts = 1;
    for (uint32_t i = 0; i < n; i++) {
        sum += rates_Bps[i];
        most = fmax(most, rates_Bps[i]);
    }
    for (int k = 0; k < 10 && !exact && most / unit < 1e13; k++) {
        exact = true;
        for (uint32_t i = 0; i < n && exact; i++)
            exact = whole(rates_Bps[i] * (double)parts);
        if (!exact)
            parts *= 10;
        unit = 1 / (double)parts;
    }
    if (exact) {
        for (uint32_t i = 0; i < n; i++)
            g = (int64_t)ccl_gcd((uint64_t)llround(rates_Bps[i] * (double)parts), (uint64_t)g);
        g = g > 0 ? g : 1;
        unit = (double)g / (double)parts;
    }
    if (!exact || sum / unit * factor > MOST_SUM) {
        exact = false;
        unit = 1;
        while (sum / unit * factor > MOST_SUM / 4)
            unit *= 2;
        while (sum / unit * factor < MOST_SUM / 16)
            unit /= 2;
    }
    c->unit_Bps = unit;
    c->exact = exact;
    c->unit_num = exact ? g : 0;
    c->unit_den = exact ? parts : 0;
}

/* The device that all links of a group leave (`out`) or enter; CCL_NONE: there is none. */
static uint32_t common_end(const ccl_topology_t *topo, const ccl_group_t *g, bool out) {
    uint32_t device = CCL_NONE;
    for (uint32_t i = 0; i < g->nlinks; i++) {
        const ccl_link_t *l = &topo->links[g->links[i]];
        uint32_t end = out ? l->from : l->to;
        if (i > 0 && end != device)
            return CCL_NONE;
        device = end;
    }
    return device;
}

static ccl_status_t fill(ccl_capacity_t *c, const ccl_topology_t *topo, const double *rates_Bps,
                         ccl_error_t *err) {
    uint32_t *first = malloc((topo->nlinks + (size_t)1) * sizeof *first);
    uint32_t *last = malloc((topo->nlinks + (size_t)1) * sizeof *last);
    uint32_t nv = topo->ndevices, na = 0;
    if (!first || !last) {
        free(first);
        free(last);
        return ccl_fail_nomem(err);
    }
    /* A link becomes first -> last; the group vertices stand between its device and that. */
    for (uint32_t l = 0; l < topo->nlinks; l++) {
        first[l] = topo->links[l].from;
        last[l] = topo->links[l].to;
    }
    for (uint32_t g = 0; g < topo->ngroups; g++) {
        const ccl_group_t *group = &topo->groups[g];
        uint32_t device = CCL_NONE, *end = first;
        /* At the end they leave, else at the one they enter, if no other group is there. */
        for (int out = 1; out >= 0 && device == CCL_NONE; out--) {
            end = out ? first : last;
            device = common_end(topo, group, out);
            for (uint32_t i = 0; i < group->nlinks && device != CCL_NONE; i++)
                device = end[group->links[i]] == device ? device : CCL_NONE;
        }
        if (device == CCL_NONE) {
            c->left_groups[c->nleft_groups++] = g;
            continue;
        }
        for (uint32_t i = 0; i < group->nlinks; i++)
            end[group->links[i]] = nv;
        c->arcs[na++] = (ccl_capacity_arc_t){end == first ? device : nv, end == first ? nv : device,
                                             CCL_NONE, g, 0};
        nv++;
    }
    for (uint32_t l = 0; l < topo->nlinks; l++)
        c->arcs[na++] = (ccl_capacity_arc_t){first[l], last[l], l, CCL_NONE, 0};
    c->nvertices = nv;
    c->narcs = na;
    for (uint32_t a = 0; a < na; a++) {
        const ccl_capacity_arc_t *arc = &c->arcs[a];
        double rate = rates_Bps[arc->link != CCL_NONE ? arc->link : topo->nlinks + arc->group];
        c->arcs[a].units = (int64_t)(c->exact ? round(rate / c->unit_Bps)
                                              : ceil(rate / c->unit_Bps * (1 - 1e-15)));
    }
    free(first);
    free(last);
    return CCL_OK;
}

static uint64_t arc_colour(const ccl_capacity_t *c, const ccl_capacity_arc_t *arc) {
    uint64_t words[4] = {(uint64_t)arc->units, 1, 0, 0};
    if (arc->link != CCL_NONE) {
        const ccl_link_t *l = &c->topo->links[arc->link];
        words[1] = 2 + (uint64_t)l->kind;
        memcpy(&words[2], &l->latency_s, sizeof words[2]);
        memcpy(&words[3], &l->contention, sizeof words[3]);
    }
    return ccl_hash64(words, sizeof words, 7);
}

static uint64_t vertex_colour(const ccl_topology_t *topo, uint32_t vertex) {
    if (vertex >= topo->ndevices) /* a group */
        return 0;
    const ccl_device_t *d = &topo->devices[vertex];
    uint64_t gpu = d->kind == CCL_DEVICE_GPU ? 1 + (uint64_t)(d->model + 1) : 0;
    return (1 + (uint64_t)d->kind) | gpu << 8;
}

/* c->graph of the vertices and arcs that c has. */
static ccl_status_t colour(ccl_capacity_t *c, ccl_error_t *err) {
    const ccl_topology_t *topo = c->topo;
    uint32_t(*ends)[2] = ccl_arena_alloc(&c->arena, c->narcs + (size_t)1, sizeof *ends);
    uint64_t *arcs = ccl_arena_alloc(&c->arena, c->narcs + (size_t)1, sizeof *arcs);
    uint64_t *vertices = ccl_arena_alloc(&c->arena, c->nvertices + (size_t)1, sizeof *vertices);
    uint32_t *places = ccl_arena_alloc(&c->arena, c->nvertices + (size_t)1, sizeof *places);
    if (!ends || !arcs || !vertices || !places)
        return ccl_fail_nomem(err);
    for (uint32_t a = 0; a < c->narcs; a++) {
        ends[a][0] = c->arcs[a].from;
        ends[a][1] = c->arcs[a].to;
        arcs[a] = arc_colour(c, &c->arcs[a]);
    }
    for (uint32_t v = 0; v < c->nvertices; v++) {
        bool gpu = v < topo->ndevices && topo->devices[v].kind == CCL_DEVICE_GPU;
        vertices[v] = vertex_colour(topo, v);
        places[v] = gpu ? topo->devices[v].rank : CCL_NONE;
    }
    c->graph = (ccl_graph_t){.nvertices = c->nvertices,
                             .narcs = c->narcs,
                             .ends = (const uint32_t(*)[2])ends,
                             .vertex_colour = vertices,
                             .arc_colour = arcs,
                             .nplaces = topo->nranks,
                             .vertex_at = topo->rank_device,
                             .place_of = places};
    return CCL_OK;
}

ccl_status_t ccl_capacity_create(const ccl_topology_t *topo, ccl_capacity_t **out,
                                 ccl_error_t *err) {
    ccl_capacity_t *c = calloc(1, sizeof *c);
    uint32_t n = topo->nlinks + topo->ngroups;
    double *rates = malloc((n + (size_t)1) * sizeof *rates);
    ccl_status_t status = CCL_OK;
    if (c)
        ccl_arena_init(&c->arena);
    if (c) {
        c->topo = topo;
        c->arcs = ccl_arena_alloc(&c->arena, n + (size_t)1, sizeof *c->arcs);
        c->left_groups =
            ccl_arena_alloc(&c->arena, topo->ngroups + (size_t)1, sizeof *c->left_groups);
    }
    if (!c || !rates || !c->arcs || !c->left_groups) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    for (uint32_t l = 0; l < topo->nlinks; l++)
        rates[l] = topo->links[l].bandwidth_Bps;
    for (uint32_t g = 0; g < topo->ngroups; g++)
        rates[topo->nlinks + g] = topo->groups[g].bandwidth_Bps;
    choose_unit(rates, n, topo->nranks + 1, c);
    status = fill(c, topo, rates, err);
    if (status == CCL_OK)
        status = colour(c, err);
    if (status == CCL_OK) {
        *out = c;
        c = NULL;
    }
end:
    free(rates);
    ccl_capacity_destroy(c);
    return status;
}

void ccl_capacity_destroy(ccl_capacity_t *c) {
    if (!c)
        return;
    ccl_arena_fini(&c->arena);
    free(c);
}
