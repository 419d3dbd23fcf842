/* Finding links in clusters, and descriptions that are refused, for tests only. */
#ifndef CCL_TESTS_CLUSTER_HELPERS_H
#define CCL_TESTS_CLUSTER_HELPERS_H

#include "tests/topologies/topology_helpers.h"

/* The only link between two devices, NULL when there is none. */
static inline const ccl_link_t *link_of(const ccl_topology_t *topo, const char *from,
                                        const char *to) {
    uint32_t a = device_of(topo, from), b = device_of(topo, to);
    const ccl_link_t *found = NULL;
    for (uint32_t l = 0; l < topo->nlinks; l++) {
        if (topo->links[l].from != a || topo->links[l].to != b || a == CCL_NONE || b == CCL_NONE)
            continue;
        ck_assert_msg(!found, "two links from %s to %s", from, to);
        found = &topo->links[l];
    }
    return found;
}

/* A link that must be there with this rate and latency, or (GBps 0) must not. */
static inline void check_link(const ccl_topology_t *topo, const char *from, const char *to,
                              const char *kind, double GBps, double us, const char *why) {
    const ccl_link_t *link = link_of(topo, from, to);
    if (GBps == 0) {
        ck_assert_msg(!link, "%s -> %s is there: %s", from, to, why);
        return;
    }
    ck_assert_msg(link != NULL, "no link %s -> %s: %s", from, to, why);
    ck_assert_msg(strcmp(topo->kinds[link->kind], kind) == 0, "%s -> %s is %s: %s", from, to,
                  topo->kinds[link->kind], why);
    double rate_error = link->bandwidth_Bps / (GBps * 1e9) - 1;
    ck_assert_msg(rate_error < 1e-12 && rate_error > -1e-12, "%s -> %s has %g GB/s: %s", from, to,
                  link->bandwidth_Bps / 1e9, why);
    double time_error = link->latency_s - us * 1e-6;
    ck_assert_msg(time_error < 1e-15 && time_error > -1e-15, "%s -> %s has %g us: %s", from, to,
                  link->latency_s * 1e6, why);
}

/* Does a route of this channel exist? */
static inline bool has_route(ccl_routes_t *routes, uint32_t src, uint32_t dst,
                             const ccl_route_t **out) {
    ccl_error_t err = CCL_ERROR_INIT;
    return ccl_routes_get(routes, src, dst, 0, out, &err) == CCL_OK;
}

typedef struct bad_row {
    const char *text;
    int line, column; /* 0: any */
    const char *says; /* part of the message */
    const char *why;
} bad_row_t;

static inline void check_bad(const bad_row_t *rows, size_t n) {
    for (size_t i = 0; i < n; i++) {
        ccl_topology_t *topo = NULL;
        ccl_error_t err = CCL_ERROR_INIT;
        ccl_status_t status =
            ccl_topology_read_text(NULL, "bad", rows[i].text, strlen(rows[i].text), &topo, &err);
        ck_assert_msg(status == CCL_ERR_INPUT, "row %zu (%s): %s\n%s", i, rows[i].why,
                      ccl_status_name(status), rows[i].text);
        ck_assert_msg(!topo, "row %zu (%s): output written on failure", i, rows[i].why);
        ck_assert_msg(strstr(err.text, rows[i].says) != NULL, "row %zu (%s): \"%s\"", i,
                      rows[i].why, err.text);
        ck_assert_msg(!strchr(err.text, '\n'), "row %zu: more than one line", i);
        ck_assert_msg(rows[i].line == 0 ||
                          (err.line == rows[i].line && err.column == rows[i].column),
                      "row %zu (%s): at %d:%d: %s", i, rows[i].why, err.line, err.column, err.text);
    }
}

#endif
