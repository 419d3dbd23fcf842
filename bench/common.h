/** @file common.h The cluster and the flow lists of the published simulator comparison, made in
 * memory. */
#ifndef CCL_BENCH_COMMON_H
#define CCL_BENCH_COMMON_H

#include "sim/sim.h"

#include <limits.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/** 8 GPUs a server, NVLink 450 GB/s and 1 us per GPU through an NVSwitch, one NIC per GPU 50 GB/s
   and 2.5 us, non-blocking fabric. odd: every second server has NVLink / 3 and NIC / 2. */
static inline ccl_topology_t *bench_cluster(uint32_t nranks, bool odd, const char *transport_json) {
    ccl_text_t t = {0};
    ccl_text_printf(&t, "{\"format\":\"ccllab-topology-1\",\"name\":\"bench-%u\",%s\"devices\":[\n",
                    nranks, transport_json ? transport_json : "");
    for (uint32_t s = 0; s < nranks / 8; s++) {
        for (uint32_t i = 0; i < 8; i++)
            ccl_text_printf(&t,
                            "{\"id\":\"g%u\",\"kind\":\"gpu\",\"server\":\"s%u\",\"rank\":%u,"
                            "\"model\":\"G\"},\n"
                            "{\"id\":\"n%u\",\"kind\":\"nic\",\"server\":\"s%u\"},\n",
                            s * 8 + i, s, s * 8 + i, s * 8 + i, s);
        ccl_text_printf(&t, "{\"id\":\"sw%u\",\"kind\":\"switch\",\"server\":\"s%u\"},\n", s, s);
    }
    ccl_text_printf(
        &t, "{\"id\":\"fabric\",\"kind\":\"switch\"}],\"gpu_models\":{\"G\":{}},\"links\":[\n");
    for (uint32_t r = 0; r < nranks; r++) {
        bool slow = odd && (r / 8) % 2 == 1;
        ccl_text_printf(
            &t,
            "{\"from\":\"g%u\",\"to\":\"sw%u\",\"kind\":\"nvlink\",\"bandwidth\":\"%gGB/"
            "s\",\"latency\":\"0.5us\"},\n"
            "{\"from\":\"g%u\",\"to\":\"n%u\",\"kind\":\"pcie\",\"bandwidth\":\"%gGB/s\"},\n"
            "{\"from\":\"n%u\",\"to\":\"fabric\",\"kind\":\"net\",\"bandwidth\":\"%gGB/"
            "s\",\"latency\":\"1.25us\"}%s\n",
            r, r / 8, slow ? 150.0 : 450.0, r, r, slow ? 25.0 : 50.0, r, slow ? 25.0 : 50.0,
            r + 1 < nranks ? "," : "");
    }
    ccl_text_printf(&t, "]}");
    ccl_topology_t *topo = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    if (ccl_topology_read_text(NULL, "bench", t.data, t.len, &topo, &err) != CCL_OK)
        fprintf(stderr, "%s\n", err.text);
    ccl_text_fini(&t);
    return topo;
}

typedef struct bench_list {
    ccl_flow_list_t list;
    size_t cap;
    ccl_rng_t rng;
    double jitter;
} bench_list_t;

static inline uint32_t bench_flow(bench_list_t *b, uint32_t src, uint32_t dst, double bytes,
                                  uint32_t dep) {
    ccl_flow_list_t *l = &b->list;
    if (l->nflows == b->cap) {
        b->cap = b->cap ? 2 * b->cap : 4096;
        l->src = realloc(l->src, b->cap * 4);
        l->dst = realloc(l->dst, b->cap * 4);
        l->dep = realloc(l->dep, b->cap * 4);
        l->bytes = realloc(l->bytes, b->cap * 8);
    }
    uint32_t f = l->nflows++;
    l->src[f] = src;
    l->dst[f] = dst;
    l->dep[f] = dep;
    l->bytes[f] =
        b->jitter > 0 ? (bytes * (1 + b->jitter * (2 * ccl_rng_unit(&b->rng) - 1))) : bytes;
    return f;
}

/** ring, ring8, mesh, hier of an AllGather of `bytes` per rank. */
static inline ccl_flow_list_t *bench_flows(const char *kind, uint32_t n, double bytes,
                                           double jitter) {
    enum { G = 8 };
    bench_list_t *b = calloc(1, sizeof(*b));
    b->list.nranks = n;
    b->list.gpus_per_server = G;
    b->jitter = jitter;
    ccl_rng_init(&b->rng, 1);
    uint32_t servers = n / G;
    if (strcmp(kind, "mesh") == 0) {
        for (uint32_t k = 1; k < n; k++)
            for (uint32_t s = 0; s < n; s++)
                bench_flow(b, s, (s + k) % n, bytes, CCL_NONE);
    } else if (strcmp(kind, "hier") == 0) {
        uint32_t *arr = malloc((size_t)n * n * 4);
        for (uint32_t k = 1; k < servers; k++)
            for (uint32_t s = 0; s < servers; s++)
                for (uint32_t i = 0; i < G; i++) {
                    uint32_t t = (s + k) % servers;
                    arr[(size_t)(s * G + i) * n + t * G + i] =
                        bench_flow(b, s * G + i, t * G + i, bytes, CCL_NONE);
                }
        for (uint32_t s = 0; s < servers; s++)
            for (uint32_t i = 0; i < G; i++)
                for (uint32_t k = 0; k < servers; k++) {
                    uint32_t me = s * G + i, o = ((s + servers - k) % servers) * G + i;
                    uint32_t dep = o == me ? CCL_NONE : arr[(size_t)o * n + me];
                    for (uint32_t j = 1; j < G; j++)
                        bench_flow(b, me, s * G + (i + j) % G, bytes, dep);
                }
        free(arr);
    } else {
        uint32_t rings = strcmp(kind, "ring8") == 0 ? G : 1;
        uint32_t *order = malloc(n * 4), *prev = malloc(n * 4), *cur = malloc(n * 4);
        for (uint32_t c = 0; c < rings; c++) {
            for (uint32_t p = 0; p < n; p++)
                order[p] = p / G * G + (c + p % G) % G;
            for (uint32_t step = 0; step + 1 < n; step++) {
                for (uint32_t p = 0; p < n; p++)
                    cur[p] = bench_flow(b, order[p], order[(p + 1) % n], (bytes / rings),
                                        step ? prev[(p + n - 1) % n] : CCL_NONE);
                uint32_t *t = prev;
                prev = cur;
                cur = t;
            }
        }
        free(order);
        free(prev);
        free(cur);
    }
    return &b->list;
}

/** Keep freed memory for the next run, as the ccllab program does: without it every run pays the
    system for the same pages again. */
static inline void bench_keep_memory(void) {
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    mallopt(M_TRIM_THRESHOLD, INT_MAX);
}

/** CPU seconds so far of the process and of its children (solvers) that ended: a shared machine
    stretches wall times. */
static inline double bench_cpu_s(void) {
    static const int whose[] = {RUSAGE_SELF, RUSAGE_CHILDREN};
    double sum_s = 0;
    for (int i = 0; i < 2; i++) {
        struct rusage use;
        getrusage(whose[i], &use);
        sum_s += (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
                 1e-6 * (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
    }
    return sum_s;
}

static inline double bench_peak_mb(void) {
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return use.ru_maxrss / 1024.0;
}

/** Wall times of runs of one program. */
typedef struct bench_runs {
    double first_s, best_s;
    ccl_sim_result_t *last; /* the caller destroys it */
} bench_runs_t;

/** Simulate a program at least once. */
static inline ccl_status_t bench_runs(const ccl_topology_t *topo, ccl_routes_t *routes,
                                      const ccl_program_t *program,
                                      const ccl_sim_options_t *options, int repeats,
                                      bench_runs_t *out, ccl_error_t *err) {
    *out = (bench_runs_t){0};
    for (int i = 0; i == 0 || i < repeats; i++) {
        ccl_sim_result_destroy(out->last);
        out->last = NULL;
        double t = ccl_now_s();
        CCL_TRY(ccl_sim_program(NULL, topo, routes, program, options, &out->last, err));
        t = ccl_now_s() - t;
        out->first_s = i == 0 ? t : out->first_s;
        out->best_s = i == 0 || t < out->best_s ? t : out->best_s;
    }
    return CCL_OK;
}
#endif
