/**
 * @file small_clusters.h
 * Random clusters of 3 to 8 GPUs: GPUs joined at random, servers around a switch, and servers with
 * NICs on a fabric; with and without transports, GPU models and protocols.
 */
#ifndef CCL_BENCH_SMALL_CLUSTERS_H
#define CCL_BENCH_SMALL_CLUSTERS_H

#include "topologies/topologies.h"

#include <stdio.h>

enum { SMALL_LEAST = 3, SMALL_MOST = 8 };

typedef struct small {
    ccl_rng_t rng;
    ccl_text_t text;
    uint32_t ngpus, nlinks;
} small_t;

static inline double small_one_of(small_t *s, const double *values, uint32_t n) {
    return values[ccl_rng_below(&s->rng, n)];
}

/* A duplex link; one in ten of them has another bandwidth on the way back. */
static inline void small_link(small_t *s, const char *from, const char *to, const char *kind) {
    static const double rates[] = {6, 12.5, 16, 25, 50, 100, 150, 300};
    static const double latencies[] = {0, 0.35, 0.7, 1.5, 4};
    double GBps = small_one_of(s, rates, CCL_ARRAY_LEN(rates));
    double us = small_one_of(s, latencies, CCL_ARRAY_LEN(latencies));
    bool unequal = ccl_rng_below(&s->rng, 10) == 0;

    for (int back = 0; back <= (int)unequal; back++)
        ccl_text_printf(&s->text,
                        "%s\n{\"from\":\"%s\",\"to\":\"%s\",\"kind\":\"%s\",\"bandwidth\":\"%gGB/s"
                        "\",\"latency\":\"%gus\",\"duplex\":%s}",
                        s->nlinks++ ? "," : "", back ? to : from, back ? from : to, kind,
                        back ? GBps / 2 : GBps, us, unequal ? "false" : "true");
}

/* A random tree over the GPUs, then up to as many links again; no pair has two. */
static inline void small_joined(small_t *s) {
    static const char *const kinds[] = {"nvlink", "pcie", "net"};
    bool joined[SMALL_MOST][SMALL_MOST] = {{false}};
    uint32_t n = s->ngpus, more = ccl_rng_below(&s->rng, n + 1), nkinds;

    nkinds = 1 + ccl_rng_below(&s->rng, CCL_ARRAY_LEN(kinds));
    for (uint32_t i = 1; i < n + more; i++) {
        uint32_t a = i < n ? i : ccl_rng_below(&s->rng, n);
        uint32_t b = ccl_rng_below(&s->rng, i < n ? i : n);
        char from[24], to[24];

        if (a == b || joined[a][b])
            continue;
        joined[a][b] = joined[b][a] = true;
        snprintf(from, sizeof from, "g%u", a);
        snprintf(to, sizeof to, "g%u", b);
        small_link(s, from, to, kinds[ccl_rng_below(&s->rng, nkinds)]);
    }
}

/* The GPUs [first, last) of server `at` around a switch, or all to all; `nics` of them share the
   way to the fabric. */
static inline void small_server(small_t *s, uint32_t at, uint32_t first, uint32_t last, bool mesh,
                                uint32_t nics) {
    char from[24], to[24];

    for (uint32_t a = first; a < last; a++) {
        snprintf(from, sizeof from, "g%u", a);
        for (uint32_t b = first; mesh && b < a; b++) {
            snprintf(to, sizeof to, "g%u", b);
            small_link(s, from, to, "nvlink");
        }
        snprintf(to, sizeof to, "sw%u", at);
        if (!mesh && last - first > 1)
            small_link(s, from, to, "nvlink");
        snprintf(to, sizeof to, "n%u.%u", at, nics ? (a - first) % nics : 0);
        if (nics)
            small_link(s, from, to, "pcie");
    }
    for (uint32_t k = 0; k < nics; k++) {
        snprintf(from, sizeof from, "n%u.%u", at, k);
        small_link(s, from, "fabric", "net");
    }
}

/* Keys of one kind of link, or of one protocol of it; what is left out is no limit and no cost. */
static inline void small_transport_keys(small_t *s, double slower) {
    static const double rates[] = {8, 12, 20, 24, 40};
    static const double overheads[] = {0.2, 0.5, 1.2, 2}, latencies[] = {0, 0.7, 1.5, 9.5};
    static const double slices[] = {8, 64, 128, 512};

    ccl_text_printf(&s->text, "\"overhead\":\"%gus\",\"latency\":\"%gus\",",
                    small_one_of(s, overheads, CCL_ARRAY_LEN(overheads)) / slower,
                    small_one_of(s, latencies, CCL_ARRAY_LEN(latencies)) / slower);
    ccl_text_printf(&s->text, "\"tb_rate\":\"%gGB/s\"",
                    small_one_of(s, rates, CCL_ARRAY_LEN(rates)) / slower);
    if (ccl_rng_below(&s->rng, 4) > 0)
        ccl_text_printf(&s->text, ",\"slice\":\"%gKiB\"",
                        small_one_of(s, slices, CCL_ARRAY_LEN(slices)));
    if (ccl_rng_below(&s->rng, 3) == 0)
        ccl_text_printf(&s->text, ",\"slices\":%u", 1 + ccl_rng_below(&s->rng, 4));
    if (ccl_rng_below(&s->rng, 2) == 0)
        ccl_text_printf(&s->text, ",\"slots\":%u", 1u << (1 + ccl_rng_below(&s->rng, 4)));
    if (ccl_rng_below(&s->rng, 2) == 0)
        ccl_text_printf(&s->text, ",\"direct\":%s", ccl_rng_below(&s->rng, 2) ? "true" : "false");
}

static inline void small_transports(small_t *s) {
    static const char *const kinds[] = {"nvlink", "pcie", "net"};
    static const char *const protocols[] = {"LL", "LL128", "Simple"};
    bool by_protocol = ccl_rng_below(&s->rng, 2) == 0;

    ccl_text_printf(&s->text, ",\n\"transports\":{");
    for (uint32_t k = 0; k < CCL_ARRAY_LEN(kinds); k++) {
        ccl_text_printf(&s->text, "%s\"%s\":{", k ? ",\n" : "", kinds[k]);
        small_transport_keys(s, 1);
        if (by_protocol) {
            ccl_text_printf(&s->text, ",\"protocols\":{");
            for (uint32_t p = 0; p < CCL_ARRAY_LEN(protocols); p++) {
                ccl_text_printf(&s->text, "%s\"%s\":{", p ? "," : "", protocols[p]);
                small_transport_keys(s, p == 0 ? 5 : 1);
                ccl_text_printf(&s->text, "}");
            }
            ccl_text_printf(&s->text, "}");
        }
        ccl_text_printf(&s->text, "}");
    }
    ccl_text_printf(&s->text, "}");
}

static inline void small_devices(small_t *s, uint32_t servers, uint32_t split, uint32_t nics) {
    for (uint32_t r = 0; r < s->ngpus; r++)
        ccl_text_printf(&s->text,
                        "%s{\"id\":\"g%u\",\"kind\":\"gpu\",\"server\":\"s%u\",\"rank\":%u,"
                        "\"model\":\"G\"}",
                        r ? ",\n" : "", r, servers ? (uint32_t)(r >= split) : r, r);
    for (uint32_t at = 0; at < servers; at++) {
        uint32_t gpus = at == 0 ? split : s->ngpus - split;

        ccl_text_printf(&s->text, ",\n{\"id\":\"sw%u\",\"kind\":\"switch\",\"server\":\"s%u\"}", at,
                        at);
        for (uint32_t k = 0; k < nics && k < gpus; k++)
            ccl_text_printf(&s->text, ",\n{\"id\":\"n%u.%u\",\"kind\":\"nic\",\"server\":\"s%u\"}",
                            at, k, at);
    }
    if (nics)
        ccl_text_printf(&s->text, ",\n{\"id\":\"fabric\",\"kind\":\"switch\"}");
}

/** The cluster of a number: the same one whatever was made before. NULL: `err` says why. */
static inline ccl_topology_t *small_cluster(uint64_t seed, uint32_t number, ccl_error_t *err) {
    small_t s = {.ngpus = 0};
    ccl_topology_t *topo = NULL;
    char name[32];

    snprintf(name, sizeof name, "small-%u", number);
    ccl_rng_init(&s.rng, seed * 0x9e3779b97f4a7c15u + number);
    s.ngpus = SMALL_LEAST + ccl_rng_below(&s.rng, SMALL_MOST - SMALL_LEAST + 1);
    /* Half of them GPUs joined at random, an eighth one server, the others two. */
    uint32_t shape = ccl_rng_below(&s.rng, 8), servers = shape < 4 ? 0 : shape == 4 ? 1 : 2;
    uint32_t split = servers == 2 ? 1 + ccl_rng_below(&s.rng, s.ngpus - 1) : s.ngpus;
    uint32_t nics = servers == 2 ? 1 + ccl_rng_below(&s.rng, SMALL_MOST / 2) : 0;

    ccl_text_printf(&s.text, "{\"format\":\"ccllab-topology-1\",\"name\":\"%s\",\"devices\":[\n",
                    name);
    small_devices(&s, servers, split, nics);
    ccl_text_printf(&s.text, "],\n\"links\":[");
    if (servers == 0)
        small_joined(&s);
    for (uint32_t at = 0; at < servers; at++) {
        uint32_t first = at == 0 ? 0 : split, last = at == 0 ? split : s.ngpus;

        small_server(&s, at, first, last, ccl_rng_below(&s.rng, 3) == 0,
                     nics < last - first ? nics : last - first);
    }
    ccl_text_printf(&s.text, "]");
    if (ccl_rng_below(&s.rng, 3) > 0)
        small_transports(&s);
    ccl_text_printf(&s.text, ",\n\"gpu_models\":{\"G\":{%s}}}\n",
                    ccl_rng_below(&s.rng, 2) ? "\"sms\":80,\"reduce_rate\":\"18GB/s\","
                                               "\"copy_rate\":\"24GB/s\",\"launch\":\"6us\""
                                             : "");
    ccl_topology_read_text(NULL, name, s.text.data, s.text.len, &topo, err);
    ccl_text_fini(&s.text);
    return topo;
}

/**
 * Five GPUs and nine links of two kinds, whose transports have slices of their own by protocol:
 * many small slices make long simulations.
 */
static const char SMALL_REPORTED[] =
    "{\"format\":\"ccllab-topology-1\",\"name\":\"reported\",\"devices\":[\n"
    "{\"id\":\"g0\",\"kind\":\"gpu\",\"server\":\"a\",\"rank\":0,\"model\":\"G\"},\n"
    "{\"id\":\"g1\",\"kind\":\"gpu\",\"server\":\"a\",\"rank\":1,\"model\":\"G\"},\n"
    "{\"id\":\"g2\",\"kind\":\"gpu\",\"server\":\"a\",\"rank\":2,\"model\":\"G\"},\n"
    "{\"id\":\"g3\",\"kind\":\"gpu\",\"server\":\"b\",\"rank\":3,\"model\":\"G\"},\n"
    "{\"id\":\"g4\",\"kind\":\"gpu\",\"server\":\"b\",\"rank\":4,\"model\":\"G\"}],\n"
    "\"links\":[\n"
    "{\"from\":\"g0\",\"to\":\"g1\",\"kind\":\"nvlink\",\"bandwidth\":\"150GB/"
    "s\",\"latency\":\"0.7us\"},\n"
    "{\"from\":\"g0\",\"to\":\"g2\",\"kind\":\"nvlink\",\"bandwidth\":\"50GB/"
    "s\",\"latency\":\"0.7us\"},\n"
    "{\"from\":\"g1\",\"to\":\"g2\",\"kind\":\"nvlink\",\"bandwidth\":\"100GB/"
    "s\",\"latency\":\"0.7us\"},\n"
    "{\"from\":\"g3\",\"to\":\"g4\",\"kind\":\"nvlink\",\"bandwidth\":\"50GB/"
    "s\",\"latency\":\"0.7us\"},\n"
    "{\"from\":\"g0\",\"to\":\"g3\",\"kind\":\"net\",\"bandwidth\":\"25GB/"
    "s\",\"latency\":\"2us\"},\n"
    "{\"from\":\"g1\",\"to\":\"g3\",\"kind\":\"net\",\"bandwidth\":\"12.5GB/"
    "s\",\"latency\":\"2us\"},\n"
    "{\"from\":\"g1\",\"to\":\"g4\",\"kind\":\"net\",\"bandwidth\":\"25GB/"
    "s\",\"latency\":\"2us\"},\n"
    "{\"from\":\"g2\",\"to\":\"g4\",\"kind\":\"net\",\"bandwidth\":\"12.5GB/"
    "s\",\"latency\":\"2us\"},\n"
    "{\"from\":\"g2\",\"to\":\"g3\",\"kind\":\"net\",\"bandwidth\":\"50GB/"
    "s\",\"latency\":\"2us\"}],\n"
    "\"transports\":{\n"
    "\"nvlink\":{\"overhead\":\"1.2us\",\"latency\":\"1.5us\",\"tb_rate\":\"24GB/s\",\"slice\":"
    "\"512KiB\",\"slots\":8,\"protocols\":{\n"
    "\"LL\":{\"overhead\":\"0.2us\",\"latency\":\"0us\",\"tb_rate\":\"3.65GB/"
    "s\",\"slice\":\"8KiB\"},\n"
    "\"LL128\":{\"overhead\":\"0.5us\",\"latency\":\"0.7us\",\"tb_rate\":\"20GB/s\",\"slice\":"
    "\"128KiB\"}}},\n"
    "\"net\":{\"overhead\":\"1.2us\",\"latency\":\"9.5us\",\"tb_rate\":\"24GB/s\",\"slice\":"
    "\"512KiB\",\"slots\":8,\"direct\":false,\"holds_tb\":false,\"protocols\":{\n"
    "\"LL\":{\"overhead\":\"0.4us\",\"latency\":\"0us\",\"tb_rate\":\"3.65GB/"
    "s\",\"slice\":\"8KiB\"},\n"
    "\"LL128\":{\"overhead\":\"0.5us\",\"latency\":\"0.2us\",\"tb_rate\":\"20GB/s\",\"slice\":"
    "\"128KiB\"}}}},\n"
    "\"gpu_models\":{\"G\":{\"sms\":108,\"copy_rate\":\"24GB/s\",\"reduce_rate\":\"19.2GB/s\","
    "\"overhead\":\"1.2us\",\"launch\":\"6.6us\"}}}\n";

#endif
