/* The graph whose automorphisms are those of a cluster. */
#include <stdio.h>
#include <string.h>

#include "models/symmetry.h"

/*
 * Vertices: devices; servers (next to their devices); of every link a tail and a head, or one
 * vertex for a link and its equal way back when no group holds either; groups (next to the tails of
 * their links). Colours tell constants apart.
 */
typedef struct colours {
    ccl_strmap_t *map;
    bool nomem;
} colours_t;

static unsigned colour(colours_t *colours, const char *key) {
    uint32_t known = ccl_strmap_get(colours->map, key);

    if (known != CCL_NONE)
        return known;
    known = (uint32_t)ccl_strmap_len(colours->map);
    if (!ccl_strmap_put(colours->map, key, known))
        colours->nomem = true;
    return known;
}

static bool same_link(const ccl_link_t *a, const ccl_link_t *b) {
    return a->kind == b->kind && a->lanes == b->lanes && a->bandwidth_Bps == b->bandwidth_Bps &&
           a->latency_s == b->latency_s && a->contention == b->contention;
}

static void add_devices(ccl_undirected_t *graph, colours_t *colours, const ccl_topology_t *topo,
                        uint32_t fixed) {
    char key[400];

    for (uint32_t i = 0; i < topo->ndevices; i++) {
        const ccl_device_t *d = &topo->devices[i];

        snprintf(key, sizeof key, "%s %d %u %d %d %u %a %.200s", i == fixed ? "fixed" : "device",
                 (int)d->kind, d->model, d->multicast, d->reduce, d->groups, d->reduce_rate_Bps,
                 d->types ? d->types : "");
        ccl_undirected_vertex(graph, colour(colours, key));
    }
    for (uint32_t i = 0; i < topo->nservers; i++)
        ccl_undirected_vertex(graph, colour(colours, "server"));
    for (uint32_t i = 0; i < topo->ndevices; i++) {
        if (topo->devices[i].server != CCL_NONE)
            ccl_undirected_edge(graph, i, topo->ndevices + topo->devices[i].server);
    }
}

/* The way back of link i that nothing was paired with yet; CCL_NONE: none. */
static uint32_t way_back(const ccl_topology_t *topo, const uint8_t *done, uint32_t i) {
    const ccl_link_t *link = &topo->links[i];

    for (uint32_t k = topo->out_first[link->to]; k < topo->out_first[link->to + 1]; k++) {
        uint32_t j = topo->out_links[k];

        if (j > i && !done[j] && topo->links[j].to == link->from &&
            same_link(link, &topo->links[j]))
            return j;
    }
    return CCL_NONE;
}

static void add_links(ccl_undirected_t *graph, colours_t *colours, const ccl_topology_t *topo,
                      uint8_t *done, uint32_t *tail) {
    char key[160];

    memset(done, 0, topo->nlinks);
    for (uint32_t g = 0; g < topo->ngroups; g++) {
        for (uint32_t k = 0; k < topo->groups[g].nlinks; k++)
            done[topo->groups[g].links[k]] = 2; /* never paired */
    }
    for (uint32_t i = 0; i < topo->nlinks; i++) {
        const ccl_link_t *link = &topo->links[i];
        uint32_t back;

        if (done[i] == 1)
            continue;
        snprintf(key, sizeof key, "%u %u %.17g %.17g %.17g", link->kind, link->lanes,
                 link->bandwidth_Bps, link->latency_s, link->contention);
        back = done[i] == 2 ? CCL_NONE : way_back(topo, done, i);
        if (back != CCL_NONE) {
            char both[176];

            done[i] = done[back] = 1;
            snprintf(both, sizeof both, "both %s", key);
            tail[i] = tail[back] = ccl_undirected_vertex(graph, colour(colours, both));
            ccl_undirected_edge(graph, tail[i], link->from);
            ccl_undirected_edge(graph, tail[i], link->to);
        } else {
            uint32_t head;
            char one[176];

            snprintf(one, sizeof one, "tail %s", key);
            tail[i] = ccl_undirected_vertex(graph, colour(colours, one));
            snprintf(one, sizeof one, "head %s", key);
            head = ccl_undirected_vertex(graph, colour(colours, one));
            ccl_undirected_edge(graph, tail[i], link->from);
            ccl_undirected_edge(graph, tail[i], head);
            ccl_undirected_edge(graph, head, link->to);
        }
    }
    for (uint32_t g = 0; g < topo->ngroups; g++) {
        uint32_t vertex;

        snprintf(key, sizeof key, "group %.17g", topo->groups[g].bandwidth_Bps);
        vertex = ccl_undirected_vertex(graph, colour(colours, key));
        for (uint32_t k = 0; k < topo->groups[g].nlinks; k++)
            ccl_undirected_edge(graph, vertex, tail[topo->groups[g].links[k]]);
    }
}

bool ccl_i_symmetry_graph(ccl_undirected_t *graph, const ccl_topology_t *topo, uint32_t fixed,
                          ccl_arena_t *arena) {
    colours_t colours = {ccl_strmap_create(), false};
    uint8_t *done = ccl_arena_alloc(arena, topo->nlinks + 1, 1);
    uint32_t *tail = ccl_arena_alloc(arena, topo->nlinks + 1, sizeof(*tail));
    bool ok = colours.map && done && tail;

    if (ok) {
        add_devices(graph, &colours, topo, fixed);
        add_links(graph, &colours, topo, done, tail);
    }
    ccl_strmap_destroy(colours.map);
    return ok && !colours.nomem && !graph->nomem;
}
