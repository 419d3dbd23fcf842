/* Random clusters of 4 to 32 GPUs, links alone, and traffic of 256 MB a GPU on them. */
#ifndef CCL_TESTS_SYNTH_RANDOM_TRAFFIC_H
#define CCL_TESTS_SYNTH_RANDOM_TRAFFIC_H

#include "bench/small_clusters.h"
#include "common.h"

#include <math.h>

/** What stands in {} behind a key at the top is left out; latencies become 0. */
static inline ccl_topology_t *links_alone(const ccl_topology_t *topo) {
    static const char *const keys[] = {"\n  \"transports\": {", "\n  \"gpu_models\": {"};
    ccl_text_t text = {0};
    ccl_topology_t *still = NULL, *out = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_msg(ccl_topology_edit(topo, "scale:latency=0", &still, &err) == CCL_OK, "%s",
                  err.text);
    ck_assert(ccl_topology_write_json(still, &text, &err) == CCL_OK);
    for (size_t k = 0; k < CCL_ARRAY_LEN(keys); k++) {
        char *at = strstr(text.data, keys[k]), *end = at ? strstr(at + 3, "\n  }") : NULL;
        if (end) {
            at += strlen(keys[k]);
            memmove(at, end + 3, strlen(end + 3) + 1);
        }
    }
    ck_assert_msg(ccl_topology_read_text(NULL, topo->name, text.data, strlen(text.data), &out,
                                         &err) == CCL_OK,
                  "%s: %s", topo->name, err.text);
    ccl_text_fini(&text);
    ccl_topology_destroy(still);
    return out;
}

static inline uint32_t pick(ccl_rng_t *rng, const uint32_t *of, uint32_t n) {
    return of[ccl_rng_below(rng, n)];
}

/* Servers around switches or joined all to all, with NICs of one rate. */
static inline void one_liner(ccl_rng_t *rng, uint32_t most, char *out, size_t size) {
    static const uint32_t sizes[] = {2, 4, 4, 8, 8}, rates[] = {25, 50, 100, 150, 300, 450};
    static const uint32_t nic_rates[] = {5, 12, 25, 50, 100};
    uint32_t gpus = pick(rng, sizes, CCL_ARRAY_LEN(sizes)), least = gpus < 4 ? 2 : 1;
    uint32_t servers = least + ccl_rng_below(rng, most / gpus - least + 1);
    bool mesh = ccl_rng_below(rng, 3) == 0, rail = ccl_rng_below(rng, 2) == 0;
    uint32_t rate = pick(rng, rates, CCL_ARRAY_LEN(rates)), nics = 1 + ccl_rng_below(rng, gpus);
    int n = snprintf(out, size, "servers:%u gpus:%u %s=%s%uGB/s", servers, gpus,
                     mesh ? "xgmi" : "nvswitch", mesh ? "mesh," : "", rate);
    if (servers > 1)
        snprintf(out + n, size - (size_t)n, " nics:%ux%uGB/s%s", nics,
                 pick(rng, nic_rates, CCL_ARRAY_LEN(nic_rates)), rail ? " fabric=rail" : "");
}

/* Servers of the library, of one kind or two. */
static inline void library(ccl_rng_t *rng, uint32_t most, char *out, size_t size) {
    static const struct {
        const char *name;
        uint32_t gpus;
    } kinds[] = {{"a100-x4-2nic", 4}, {"a100-x8-4nic", 8}, {"dgx-2", 16},       {"dgx-h100", 8},
                 {"dgx1-v100", 8},    {"gh200-x4", 4},     {"h20-x4", 4},       {"h20-x8", 8},
                 {"mi300x-x8", 8},    {"nd-a100-v4", 8},   {"ndv2", 8},         {"v100-x4", 4},
                 {"v100-x8", 8},      {"w7800-x4", 4},     {"mi250-x16", 16},   {"v100-pcie-x4", 4},
                 {"h800-x4", 4},      {"dgx-a100", 8},     {"syccl-a100-x8", 8}};
    uint32_t a = ccl_rng_below(rng, CCL_ARRAY_LEN(kinds)), b;
    while (kinds[a].gpus > most)
        a = ccl_rng_below(rng, CCL_ARRAY_LEN(kinds));
    uint32_t na = 1 + ccl_rng_below(rng, most / kinds[a].gpus);
    uint32_t left = most - na * kinds[a].gpus;
    do
        b = ccl_rng_below(rng, CCL_ARRAY_LEN(kinds));
    while (left >= 4 && kinds[b].gpus > left);
    if (left < 4 || ccl_rng_below(rng, 2))
        snprintf(out, size, "%s*%u", kinds[a].name, na);
    else
        snprintf(out, size, "%s*%u+%s*%u", kinds[a].name, na, kinds[b].name,
                 1 + ccl_rng_below(rng, left / kinds[b].gpus));
}

/** Of at least 4 and at most `most` GPUs; in one of three something is slower, or gone. */
static inline ccl_topology_t *random_cluster(ccl_rng_t *rng, uint32_t most) {
    ccl_topology_t *topo = NULL, *made = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    uint32_t kind = ccl_rng_below(rng, 5);
    char text[128];
    if (kind == 4) {
        do {
            ccl_topology_destroy(made);
            made = small_cluster(rng->s[0], ccl_rng_below(rng, 1u << 30), &err);
        } while (!made || made->nranks < 4);
    } else {
        kind < 2 ? one_liner(rng, most, text, sizeof text) : library(rng, most, text, sizeof text);
        ck_assert_msg(ccl_topology_read(NULL, text, &made, &err) == CCL_OK, "%s: %s", text,
                      err.text);
    }
    if (ccl_rng_below(rng, 3) == 0) {
        uint32_t l = ccl_rng_below(rng, made->nlinks), k = ccl_rng_below(rng, 4);
        ccl_topology_t *edited = NULL;
        if (k == 0)
            snprintf(text, sizeof text, "fail:nic:%u", ccl_rng_below(rng, 4));
        else if (k == 1)
            snprintf(text, sizeof text, "degrade:nic:%u=50%%", ccl_rng_below(rng, 4));
        else
            snprintf(text, sizeof text, "degrade:%s->%s=%u%%",
                     made->devices[made->links[l].from].id, made->devices[made->links[l].to].id,
                     10 + ccl_rng_below(rng, 80));
        if (ccl_topology_edit(made, text, &edited, NULL) == CCL_OK) {
            ccl_topology_destroy(made);
            made = edited;
        }
    }
    topo = links_alone(made);
    ccl_topology_destroy(made);
    return topo;
}

/** Bytes [n][n], 256 MB a GPU on average: even, by pairs, by destinations, few blocks, a hot one.
 */
static inline double *random_traffic(ccl_rng_t *rng, uint32_t n, const char **what_out) {
    static const char *const whats[] = {"even",  "zipf", "experts",    "hot",      "sparse",
                                        "shift", "gini", "one source", "near even"};
    double *m = calloc((size_t)n * n, sizeof *m), *w = calloc(n, sizeof *w), sum = 0;
    uint32_t kind = ccl_rng_below(rng, CCL_ARRAY_LEN(whats)), hot = ccl_rng_below(rng, n);
    double t = 0.2 + 1.2 * ccl_rng_unit(rng);
    uint32_t by = 1 + ccl_rng_below(rng, n - 1);
    for (uint32_t d = 0; d < n; d++)
        w[d] = kind == 6 ? ccl_rng_unit(rng) : pow(1 + ccl_rng_below(rng, n), -t);
    for (size_t i = 0; i < (size_t)n * n; i++) {
        uint32_t s = (uint32_t)(i / n), d = (uint32_t)(i % n);
        double u = ccl_rng_unit(rng);
        m[i] = kind == 0   ? 1
               : kind == 1 ? pow(1 + floor(u * n * n), -t)
               : kind == 2 ? w[d] * (0.9 + 0.2 * u)
               : kind == 3 ? (d == hot ? 20 : 1) * (0.9 + 0.2 * u)
               : kind == 4 ? (u < 0.1 ? 1 + ccl_rng_unit(rng) : 0)
               : kind == 5 ? (d == (s + by) % n ? 1 : 0)
               : kind == 6 ? w[d]
               : kind == 7 ? (s == hot ? 1 : 0.01)
                           : 0.9 + 0.2 * u;
        m[i] = s == d ? 0 : m[i];
        sum += m[i];
    }
    if (!(sum > 0))
        sum = m[1] = 1;
    for (size_t i = 0; i < (size_t)n * n; i++)
        m[i] = round(m[i] * 256e6 * n / sum);
    free(w);
    *what_out = whats[kind];
    return m;
}

/** The demand of a matrix. */
static inline ccl_collective_t *demand_of(const double *m, uint32_t n) {
    ccl_collective_t *out = NULL;
    ccl_text_t text = {0};
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_text_printf(&text, "{\"format\": \"ccllab-demand-1\", \"alltoallv\": [");
    for (uint32_t s = 0; s < n; s++) {
        for (uint32_t d = 0; d < n; d++)
            ccl_text_printf(&text, "%s%.17g", d ? "," : s ? ",[" : "[", m[(size_t)s * n + d]);
        ccl_text_printf(&text, "]");
    }
    ccl_text_printf(&text, "]}");
    ck_assert_msg(ccl_demand_read_text("traffic", text.data, text.len, &out, &err) == CCL_OK, "%s",
                  err.text);
    ccl_text_fini(&text);
    return out;
}

/** Time of a schedule, lowered as its synthesizer wants it. */
static inline double time_of(const ccl_topology_t *topo, const ccl_schedule_t *s, const char *name,
                             double size_bytes) {
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    ccl_program_t *program = NULL;
    ccl_sim_result_t *result = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_way_t way = ccl_way_choose(ccl_synth_find(name)->way, (ccl_way_t){0}, 0);
    lower.topo = topo;
    lower.order = way.order;
    lower.allocation = way.allocation;
    lower.granularity = sim.granularity = way.granularity;
    lower.size_bytes = sim.size_bytes = size_bytes;
    ck_assert_msg(ccl_lower(NULL, s, &lower, &program, &err) == CCL_OK, "%s", err.text);
    ck_assert_msg(ccl_sim_program(NULL, topo, NULL, program, &sim, &result, &err) == CCL_OK,
                  "%s: %s", topo->name, err.text);
    double time_s = result->time_s;
    ccl_sim_result_destroy(result);
    ccl_program_destroy(program);
    return time_s;
}

#endif
