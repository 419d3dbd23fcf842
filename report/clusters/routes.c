/* Routes of a cluster by what they cross. */
#include "report/describe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void class_add(ccl_route_class_t *c, const ccl_route_t *route, uint32_t width) {
    if (c->pairs++ == 0) {
        c->min_links = c->max_links = route->nlinks;
        c->min_Bps = c->max_Bps = route->bottleneck_Bps;
        c->min_latency_s = c->max_latency_s = route->latency_s;
        c->max_width = width;
        return;
    }
    if (route->nlinks < c->min_links)
        c->min_links = route->nlinks;
    if (route->nlinks > c->max_links)
        c->max_links = route->nlinks;
    c->min_Bps = fmin(c->min_Bps, route->bottleneck_Bps);
    c->max_Bps = fmax(c->max_Bps, route->bottleneck_Bps);
    c->min_latency_s = fmin(c->min_latency_s, route->latency_s);
    c->max_latency_s = fmax(c->max_latency_s, route->latency_s);
    if (width > c->max_width)
        c->max_width = width;
}

/** Class of a transport (compared by text; NULL: no route), made when it is new. */
static ccl_route_class_t *class_find(ccl_route_class_t *classes, uint32_t *n, uint32_t room,
                                     const char *transport) {
    for (uint32_t i = 0; i < *n; i++) {
        const char *have = classes[i].transport;

        if (have == transport || (have && transport && strcmp(have, transport) == 0))
            return &classes[i];
    }
    if (*n == room)
        return NULL;
    classes[*n].transport = transport;
    return &classes[(*n)++];
}

static ccl_status_t classes_of(const ccl_topology_t *topo, ccl_routes_t *routes,
                               uint32_t max_sources, ccl_route_class_t **out, uint32_t *n_out,
                               uint32_t *sources_out, ccl_error_t *err) {
    uint32_t sources = max_sources && max_sources < topo->nranks ? max_sources : topo->nranks;
    uint32_t room = topo->nkinds + 4; /* net, pcie, each kind, no route */
    uint32_t n = 0;
    ccl_route_class_t *classes = calloc(room, sizeof(*classes));

    if (!classes)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < sources; i++) {
        uint32_t src = (uint32_t)((uint64_t)i * topo->nranks / sources);

        for (uint32_t dst = 0; dst < topo->nranks; dst++) {
            const ccl_route_t *route = NULL;
            ccl_route_class_t *c;
            ccl_status_t status;
            ccl_error_t why = CCL_ERROR_INIT;

            if (dst == src)
                continue;
            status = ccl_routes_get(routes, src, dst, 0, &route, &why);
            if (status == CCL_ERR_INPUT) {
                c = class_find(classes, &n, room, NULL);
                if (c)
                    c->pairs++;
                continue;
            }
            if (status != CCL_OK) {
                free(classes);
                if (err)
                    *err = why;
                return status;
            }
            c = class_find(classes, &n, room, ccl_model_route_kind(topo, route));
            if (c)
                class_add(c, route, ccl_routes_width(routes, src, dst));
        }
    }
    *out = classes;
    *n_out = n;
    *sources_out = sources;
    return CCL_OK;
}

ccl_status_t ccl_report_route_classes(const ccl_topology_t *topo, ccl_routes_t *routes,
                                      uint32_t max_sources, ccl_route_class_t **out,
                                      uint32_t *n_out, uint32_t *sources_out, ccl_error_t *err) {
    ccl_routes_t *own = routes ? NULL : ccl_routes_create(topo);

    if (!routes && !own)
        return ccl_fail_nomem(err);
    ccl_status_t status =
        classes_of(topo, routes ? routes : own, max_sources, out, n_out, sources_out, err);
    ccl_routes_destroy(own);
    return status;
}
