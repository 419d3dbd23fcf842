/* Library clusters against the same clusters written by others: bandwidths, and what is reachable.
 */
#include "tests/topologies/cluster_helpers.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#define FOLDER CCLLAB_DATA_DIR "/peers/topologies/"

/*
 * nvlink: compare only NVLink, as the other file has nothing else. latency: route latencies are the
 * same too; not where our fabric has more tiers.
 */
static const struct {
    const char *name, *file;
    bool nvlink, latency;
} rows[] = {
    {"heteccl-h20-4+8", "heteccl_h20_4+8", false, true},
    {"heteccl-h20-4x2+8", "heteccl_h20_4x2+8", false, true},
    {"heteccl-h20-4x3", "heteccl_h20_4x3", false, true},
    {"heteccl-h20-4x3+8", "heteccl_h20_4x3+8", false, true},
    {"heteccl-h20-8x2+4", "heteccl_h20_8x2+4", false, true},
    {"heteccl-v100-4+8", "heteccl_v100_4+8", false, true},
    {"heteccl-v100-4x2+8", "heteccl_v100_4x2+8", false, true},
    {"heteccl-v100-4x2+8x2", "heteccl_v100_4x2+8x2", false, true},
    {"heteccl-v100-4x3", "heteccl_v100_4x3", false, true},
    {"heteccl-v100-4x3+8", "heteccl_v100_4x3+8", false, true},
    {"syccl-a100-16", "syccl_a100_16", false, true},
    {"syccl-a100-32", "syccl_a100_32", false, false},
    {"syccl-h800-64", "syccl_h800_64", false, true},
    {"forestcoll-a100-2x8", "a100_2x8", false, true},
    {"forestcoll-a100-4x8", "a100_4x8", false, true},
    {"forestcoll-a100-8x8", "a100_8x8", false, true},
    {"forestcoll-mi250-2x16", "mi250_2x16", false, true},
    {"mi250-x16", "mi250_1x16", false, true},
    {"teccl-ndv2-2x8", "ndv2_2x8", false, true},
    {"teccl-ndv2-4x8", "ndv2_4x8", false, true},
    {"teccl-dgx2-2x16", "dgx2_2x16", false, true},
    {"dgx-a100", "a100_1x8", true, true},
    {"dgx1-v100", "dgx1_v100_8", true, true},
    {"ndv2", "dgx1_v100_8", true, true},
};

static bool is_nvlink(const ccl_topology_t *t, const ccl_link_t *link) {
    return strcmp(t->kinds[link->kind], "nvlink") == 0;
}

/* The other files know no kinds; what takes 1.3 us and more is the network there. */
static bool is_net(const ccl_topology_t *t, const ccl_link_t *link) {
    return strcmp(t->kinds[link->kind], "net") == 0 || link->latency_s > 1.29e-6;
}

static uint32_t root_of(uint32_t *parent, uint32_t v) {
    while (parent[v] != v)
        v = parent[v] = parent[parent[v]];
    return v;
}

/* Per rank: what leaves and enters its GPU, and what leaves and enters its server. */
typedef struct totals {
    double out_Bps, in_Bps, server_out_Bps, server_in_Bps;
} totals_t;

static totals_t *totals_of(const ccl_topology_t *t, bool nvlink) {
    uint32_t *parent = calloc(t->ndevices, sizeof *parent);
    double *flow = calloc(4 * (size_t)t->ndevices, sizeof *flow);
    totals_t *totals = calloc(t->nranks, sizeof *totals);
    ck_assert(parent && flow && totals);
    for (uint32_t d = 0; d < t->ndevices; d++)
        parent[d] = d;
    for (uint32_t l = 0; l < t->nlinks; l++)
        if (!is_net(t, &t->links[l]))
            parent[root_of(parent, t->links[l].from)] = root_of(parent, t->links[l].to);
    for (uint32_t l = 0; l < t->nlinks; l++) {
        const ccl_link_t *link = &t->links[l];
        if (nvlink && !is_nvlink(t, link))
            continue;
        flow[4 * link->from] += link->bandwidth_Bps;
        flow[4 * link->to + 1] += link->bandwidth_Bps;
        if (is_net(t, link)) {
            flow[4 * root_of(parent, link->from) + 2] += link->bandwidth_Bps;
            flow[4 * root_of(parent, link->to) + 3] += link->bandwidth_Bps;
        }
    }
    for (uint32_t r = 0; r < t->nranks; r++) {
        uint32_t d = t->rank_device[r], s = root_of(parent, d);
        totals[r] = (totals_t){flow[4 * d], flow[4 * d + 1], flow[4 * s + 2], flow[4 * s + 3]};
    }
    free(parent);
    free(flow);
    return totals;
}

static bool near(double a, double b) {
    return fabs(a - b) <= 1e-9 * fabs(b);
}

START_TEST(totals) {
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        char path[512];
        snprintf(path, sizeof path, FOLDER "%s.json", rows[i].file);
        ccl_topology_t *ours = topology(rows[i].name), *theirs = topology(path);
        ck_assert_msg(ours->nranks == theirs->nranks, "%s: %u ranks", rows[i].name, ours->nranks);
        totals_t *a = totals_of(ours, rows[i].nvlink), *b = totals_of(theirs, rows[i].nvlink);
        double network_Bps = 0;
        for (uint32_t r = 0; r < ours->nranks; r++) {
            ck_assert_msg(near(a[r].out_Bps, b[r].out_Bps) && near(a[r].in_Bps, b[r].in_Bps),
                          "%s: rank %u: %g out, %g in; %s: %g, %g", rows[i].name, r, a[r].out_Bps,
                          a[r].in_Bps, rows[i].file, b[r].out_Bps, b[r].in_Bps);
            ck_assert_msg(near(a[r].server_out_Bps, b[r].server_out_Bps) &&
                              near(a[r].server_in_Bps, b[r].server_in_Bps),
                          "%s: server of rank %u: %g out, %g in; %s: %g, %g", rows[i].name, r,
                          a[r].server_out_Bps, a[r].server_in_Bps, rows[i].file,
                          b[r].server_out_Bps, b[r].server_in_Bps);
            ck_assert_double_gt(a[r].out_Bps, 0);
            network_Bps += a[r].server_out_Bps;
        }
        ck_assert_msg(network_Bps > 0 || ours->nservers == 1, "%s: no network found", rows[i].name);
        free(a);
        free(b);
        ccl_topology_destroy(ours);
        ccl_topology_destroy(theirs);
    }
}
END_TEST

START_TEST(routes_of_every_pair) {
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        char path[512];
        snprintf(path, sizeof path, FOLDER "%s.json", rows[i].file);
        ccl_topology_t *ours = topology(rows[i].name), *theirs = topology(path);
        ccl_routes_t *a = ccl_routes_create(ours), *b = ccl_routes_create(theirs);
        uint32_t joined = 0;
        for (uint32_t s = 0; s < ours->nranks; s++) {
            for (uint32_t d = 0; d < ours->nranks; d++) {
                const ccl_route_t *x = NULL, *y = NULL;
                if (s == d)
                    continue;
                bool have_x = has_route(a, s, d, &x), have_y = has_route(b, s, d, &y);
                if (rows[i].nvlink && have_x && (x->crosses_pcie || x->crosses_net))
                    have_x = false;
                ck_assert_msg(have_x == have_y, "%s: %u to %u: a route %s", rows[i].name, s, d,
                              have_x ? "that the other lacks" : "is missing");
                if (!have_x)
                    continue;
                joined++;
                ck_assert_msg(near(x->bottleneck_Bps, y->bottleneck_Bps),
                              "%s: %u to %u: %g B/s, the other %g", rows[i].name, s, d,
                              x->bottleneck_Bps, y->bottleneck_Bps);
                ck_assert_msg(!rows[i].latency || fabs(x->latency_s - y->latency_s) < 1e-12,
                              "%s: %u to %u: %g s, the other %g", rows[i].name, s, d, x->latency_s,
                              y->latency_s);
            }
        }
        ck_assert_msg(joined >= ours->nranks, "%s: %u pairs only", rows[i].name, joined);
        ccl_routes_destroy(a);
        ccl_routes_destroy(b);
        ccl_topology_destroy(ours);
        ccl_topology_destroy(theirs);
    }
}
END_TEST

int main(void) {
    if (access(FOLDER, R_OK) != 0) {
        printf("skipped: no " FOLDER "\n");
        return 77;
    }
    Suite *suite = suite_create("library against others");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 100);
    tcase_add_test(tc, totals);
    tcase_add_test(tc, routes_of_every_pair);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
