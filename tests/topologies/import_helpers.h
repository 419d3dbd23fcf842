/* Shared by the tests of the importers: reading from memory, and looking at what came out. */
#ifndef CCL_TEST_IMPORT_HELPERS_H
#define CCL_TEST_IMPORT_HELPERS_H

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/topologies/topologies.h"

#define GB 1e9

typedef ccl_status_t (*import_fn)(const ccl_ctx_t *ctx, const char *name, const char *text,
                                  size_t len, ccl_topology_t **out, ccl_error_t *err);

/* Everything logged, one line each. */
static inline void keep_log(ccl_log_level_t level, const char *subsystem, const char *text,
                            void *user) {
    ccl_text_printf(user, "%d %s %s\n", (int)level, subsystem, text);
}

static inline ccl_topology_t *import_logged(import_fn fn, const char *text, ccl_text_t *log) {
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_topology_t *topo = NULL;
    ctx.log = keep_log;
    ctx.log_user = log;
    ccl_status_t status = fn(log ? &ctx : NULL, "t.in", text, strlen(text), &topo, &err);
    ck_assert_msg(status == CCL_OK, "%d:%d: %s", err.line, err.column, err.text);
    return topo;
}

/* Sum over links of a kind from one device to another; 0: none. */
static inline double rate_Bps(const ccl_topology_t *topo, const char *from, const char *to,
                              const char *kind, uint32_t *lanes) {
    uint32_t a = device_of(topo, from), b = device_of(topo, to);
    double sum = 0;
    ck_assert_msg(a != CCL_NONE, "no device %s", from);
    ck_assert_msg(b != CCL_NONE, "no device %s", to);
    if (lanes)
        *lanes = 0;
    for (uint32_t l = 0; l < topo->nlinks; l++) {
        const ccl_link_t *link = &topo->links[l];
        if (link->from != a || link->to != b || strcmp(topo->kinds[link->kind], kind) != 0)
            continue;
        sum += link->bandwidth_Bps;
        if (lanes)
            *lanes += link->lanes;
    }
    return sum;
}

static inline void check_link(const ccl_topology_t *topo, const char *from, const char *to,
                              const char *kind, double GBps, uint32_t lanes) {
    uint32_t have = 0;
    double rate = rate_Bps(topo, from, to, kind, &have);
    ck_assert_msg(fabs(rate - GBps * GB) <= 1e-9 * GBps * GB && have == lanes,
                  "%s to %s %s: %g B/s in %u lanes, not %g GB/s in %u", from, to, kind, rate, have,
                  GBps, lanes);
}

static inline void check_duplex(const ccl_topology_t *topo, const char *a, const char *b,
                                const char *kind, double GBps, uint32_t lanes) {
    check_link(topo, a, b, kind, GBps, lanes);
    check_link(topo, b, a, kind, GBps, lanes);
}

static inline uint32_t count_kind(const ccl_topology_t *topo, ccl_device_kind_t kind) {
    uint32_t n = 0;
    for (uint32_t d = 0; d < topo->ndevices; d++)
        n += topo->devices[d].kind == kind;
    return n;
}

/* A route for every pair; inside a server none over the network. */
static inline void check_all_routes(const ccl_topology_t *topo) {
    ccl_routes_t *routes = ccl_routes_create(topo);
    ck_assert_ptr_nonnull(routes);
    for (uint32_t a = 0; a < topo->nranks; a++) {
        for (uint32_t b = 0; b < topo->nranks; b++) {
            const ccl_route_t *route = NULL;
            ccl_error_t err = CCL_ERROR_INIT;
            if (a == b)
                continue;
            ck_assert_msg(ccl_routes_get(routes, a, b, 0, &route, &err) == CCL_OK, "%s", err.text);
            bool same = topo->devices[topo->rank_device[a]].server ==
                        topo->devices[topo->rank_device[b]].server;
            ck_assert_msg(route->crosses_net == !same, "%u to %u", a, b);
        }
    }
    ccl_routes_destroy(routes);
}

typedef struct bad_row {
    const char *text;
    int line, column;  /* 0: any */
    const char *needs; /* part of the message */
    const char *why;
} bad_row_t;

static inline void check_bad(import_fn fn, const bad_row_t *rows, size_t n) {
    for (size_t i = 0; i < n; i++) {
        ccl_error_t err = CCL_ERROR_INIT;
        ccl_topology_t *topo = NULL;
        ccl_status_t status = fn(NULL, "t.in", rows[i].text, strlen(rows[i].text), &topo, &err);
        ck_assert_msg(status == CCL_ERR_INPUT, "%s: status %s", rows[i].why,
                      ccl_status_name(status));
        ck_assert_msg(topo == NULL, "%s", rows[i].why);
        ck_assert_msg(strstr(err.text, rows[i].needs) != NULL, "%s: \"%s\" lacks \"%s\"",
                      rows[i].why, err.text, rows[i].needs);
        if (rows[i].line)
            ck_assert_msg(err.line == rows[i].line &&
                              (!rows[i].column || err.column == rows[i].column) &&
                              strcmp(err.where, "t.in") == 0,
                          "%s: at %s:%d:%d, not %d:%d (%s)", rows[i].why, err.where, err.line,
                          err.column, rows[i].line, rows[i].column, err.text);
        ck_assert_msg(strchr(err.text, '\n') == NULL, "%s: more than one line", rows[i].why);
    }
}

#endif
