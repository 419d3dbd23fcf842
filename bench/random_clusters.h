/**
 * @file random_clusters.h
 * Random clusters of any range of GPUs, 8 to 64 by default: plain graphs of GPUs (chain, star,
 * hypercube, random regular, dragonfly, grid, torus) and servers (NVSwitch, mesh, PCIe tree, of one
 * kind or mixed) with NICs on a flat or a rail fabric or without any; some with a dead or a slow
 * part. Half of them are links alone; the others have transports and a GPU model.
 */
#ifndef CCL_BENCH_RANDOM_CLUSTERS_H
#define CCL_BENCH_RANDOM_CLUSTERS_H

#include <string.h>

#include "bench/small_clusters.h"

enum { RANDOM_GRAPHS = 7, RANDOM_FAMILIES = 14 };

/* How servers of a kind are made. */
typedef struct random_server {
    enum { RANDOM_SWITCH, RANDOM_MESH, RANDOM_PCIE } inside;
    uint32_t gpus, nics; /* NIC k serves the GPUs [k gpus / nics, (k + 1) gpus / nics) */
    double GBps, nic_GBps;
} random_server_t;

typedef struct random {
    small_t s; /* the links; `devices` are written beside them */
    ccl_text_t devices;
    uint32_t least, most, ndevices, nnics;
    uint32_t slow, dead; /* which link has half its rate, which NIC is missing; CCL_NONE */
    double GBps, us;     /* a plain graph's links */
    char family[24];
} random_t;

static inline uint32_t random_from(random_t *r, uint32_t least, uint32_t most) {
    return least + ccl_rng_below(&r->s.rng, most - least + 1);
}

static inline void random_device(random_t *r, const char *kind, const char *id, uint32_t server) {
    ccl_text_printf(&r->devices, "%s{\"id\":\"%s\",\"kind\":\"%s\"", r->ndevices++ ? ",\n" : "", id,
                    kind);
    if (server != CCL_NONE)
        ccl_text_printf(&r->devices, ",\"server\":\"s%u\"", server);
    if (strcmp(kind, "gpu") == 0)
        ccl_text_printf(&r->devices, ",\"rank\":%u,\"model\":\"G\"", r->s.ngpus++);
    ccl_text_printf(&r->devices, "}");
}

static inline void random_link(random_t *r, const char *from, const char *to, const char *kind,
                               double GBps, double us) {
    ccl_text_printf(&r->s.text,
                    "%s\n{\"from\":\"%s\",\"to\":\"%s\",\"kind\":\"%s\",\"bandwidth\":\"%gGB/s\","
                    "\"latency\":\"%gus\"}",
                    r->s.nlinks ? "," : "", from, to, kind,
                    r->s.nlinks == r->slow ? GBps / 2 : GBps, us);
    r->s.nlinks++;
}

static inline void random_join(random_t *r, uint32_t a, uint32_t b) {
    char from[24], to[24];

    snprintf(from, sizeof from, "g%u", a);
    snprintf(to, sizeof to, "g%u", b);
    random_link(r, from, to, "nvlink", r->GBps, r->us);
}

/* GPUs of a plain graph, each a server of its own. */
static inline void random_plain(random_t *r, uint32_t n) {
    char id[24];

    for (uint32_t g = 0; g < n; g++) {
        snprintf(id, sizeof id, "g%u", g);
        random_device(r, "gpu", id, g);
    }
}

/* A grid of up to three dimensions; a torus where `wrap`. */
static inline void random_grid(random_t *r, bool wrap) {
    uint32_t d[3], n;

    do {
        d[0] = random_from(r, 2, 8);
        d[1] = random_from(r, 2, 8);
        d[2] = random_from(r, 1, 5);
        n = d[0] * d[1] * d[2];
    } while (n < r->least || n > r->most);
    snprintf(r->family, sizeof r->family, "%s%ux%ux%u", wrap ? "torus" : "grid", d[0], d[1], d[2]);
    random_plain(r, n);
    for (uint32_t g = 0; g < n; g++)
        for (uint32_t k = 0, step = 1; k < 3; step *= d[k++]) {
            uint32_t at = g / step % d[k];

            if (at + 1 < d[k])
                random_join(r, g, g + step);
            else if (wrap && d[k] > 2)
                random_join(r, g, g - at * step);
        }
}

/* Chords of random rings: every GPU has `2 rings` links; an odd degree adds a random matching. No
   pair has two. */
static inline void random_regular(random_t *r) {
    uint32_t n = random_from(r, r->least, r->most), rings = random_from(r, 1, 2), order[64];
    bool matched = ccl_rng_below(&r->s.rng, 2) > 0 || rings == 1, joined[64][64] = {{false}};

    snprintf(r->family, sizeof r->family, "regular%ux%u", n, 2 * rings + matched);
    random_plain(r, n);
    for (uint32_t k = 0; k < rings + matched; k++) {
        for (uint32_t i = 0; i < n; i++) {
            uint32_t at = random_from(r, 0, i);

            order[i] = order[at];
            order[at] = i;
        }
        for (uint32_t i = 0; i < n; i += 1 + (k == rings)) {
            uint32_t a = order[i], b = order[(i + 1) % n];

            if (a == b || joined[a][b])
                continue;
            joined[a][b] = joined[b][a] = true;
            random_join(r, a, b);
        }
    }
}

/* Groups whose GPUs are joined all to all, and one link between each two groups. */
static inline void random_dragonfly(random_t *r) {
    uint32_t size, groups;

    do {
        size = random_from(r, 2, 8);
        groups = random_from(r, 3, 2 * size + 1);
    } while (size * groups < r->least || size * groups > r->most);
    snprintf(r->family, sizeof r->family, "dragonfly%ux%u", groups, size);
    random_plain(r, groups * size);
    for (uint32_t a = 0; a < groups; a++) {
        for (uint32_t i = 0; i < size; i++)
            for (uint32_t j = 0; j < i; j++)
                random_join(r, a * size + i, a * size + j);
        for (uint32_t b = 0; b < a; b++)
            random_join(r, a * size + b % size, b * size + (a - 1) % size);
    }
}

static inline void random_graph(random_t *r, uint32_t family) {
    static const double rates[] = {12.5, 25, 50, 100}, latencies[] = {0, 0.5, 0.7, 2};
    uint32_t n = random_from(r, r->least, r->most);

    r->GBps = small_one_of(&r->s, rates, CCL_ARRAY_LEN(rates));
    r->us = small_one_of(&r->s, latencies, CCL_ARRAY_LEN(latencies));
    if (family == 3)
        random_regular(r);
    else if (family == 4)
        random_dragonfly(r);
    else if (family == 5 || family == 6)
        random_grid(r, family == 6);
    if (family > 2)
        return;
    while (family == 2 && (n & (n - 1)))
        n &= n - 1;
    static const char *const names[] = {"chain", "star", "cube"};
    snprintf(r->family, sizeof r->family, "%s%u", names[family], n);
    random_plain(r, n);
    for (uint32_t g = 1; g < n; g++)
        for (uint32_t bit = 1; bit < n && (family == 2 || bit == 1); bit *= 2)
            if (family < 2 || g & bit)
                random_join(r, family == 0 ? g - 1 : family == 1 ? 0 : g ^ bit, g);
}

static inline random_server_t random_kind(random_t *r, uint32_t most) {
    static const double inside[3][4] = {{100, 200, 300, 450}, {25, 50, 25, 50}, {16, 24, 24, 48}};
    static const double nics[] = {12.5, 25, 25, 50};
    random_server_t kind = {.inside = ccl_rng_below(&r->s.rng, 3)};

    do
        kind.gpus = 1u << random_from(r, 1, 3);
    while (kind.gpus > most);
    kind.nics = kind.gpus >> ccl_rng_below(&r->s.rng, 3);
    kind.nics = kind.nics ? kind.nics : 1;
    kind.GBps = inside[kind.inside][ccl_rng_below(&r->s.rng, 4)];
    kind.nic_GBps = small_one_of(&r->s, nics, CCL_ARRAY_LEN(nics));
    return kind;
}

/* Of a PCIe tree two GPUs share a switch, and the switches one host. */
static inline void random_inside(random_t *r, const random_server_t *kind, uint32_t at,
                                 uint32_t first) {
    char from[24], to[24];

    for (uint32_t i = 0; i < kind->gpus; i++) {
        snprintf(from, sizeof from, "g%u", first + i);
        random_device(r, "gpu", from, at);
    }
    for (uint32_t i = 0; i < kind->gpus; i++) {
        snprintf(from, sizeof from, "g%u", first + i);
        for (uint32_t j = 0; kind->inside == RANDOM_MESH && j < i; j++) {
            snprintf(to, sizeof to, "g%u", first + j);
            random_link(r, from, to, "nvlink", kind->GBps, 0.7);
        }
        snprintf(to, sizeof to, kind->inside == RANDOM_PCIE ? "p%u.%u" : "sw%u", at, i / 2);
        if (kind->inside != RANDOM_MESH && (i == 0 || (kind->inside == RANDOM_PCIE && i % 2 == 0)))
            random_device(r, "switch", to, at);
        if (kind->inside != RANDOM_MESH)
            random_link(r, from, to, kind->inside == RANDOM_PCIE ? "pcie" : "nvlink", kind->GBps,
                        0.35);
        if (kind->inside != RANDOM_PCIE || i % 2)
            continue;
        snprintf(from, sizeof from, "h%u", at);
        if (i == 0)
            random_device(r, "switch", from, at);
        random_link(r, to, from, "pcie", kind->GBps, 0.5);
    }
}

static inline void random_nics(random_t *r, const random_server_t *kind, uint32_t at,
                               uint32_t first, uint32_t rails) {
    char from[24], to[24];

    for (uint32_t k = 0; k < kind->nics; k++) {
        if (r->nnics++ == r->dead)
            continue;
        snprintf(to, sizeof to, "n%u.%u", at, k);
        random_device(r, "nic", to, at);
        for (uint32_t i = k * kind->gpus / kind->nics; i < (k + 1) * kind->gpus / kind->nics; i++) {
            snprintf(from, sizeof from, "g%u", first + i);
            random_link(r, from, to, "pcie", kind->nic_GBps > 25 ? 64 : 32, 0.5);
        }
        snprintf(from, sizeof from, "fabric%u", k % rails);
        random_link(r, to, from, "net", kind->nic_GBps, 2);
    }
}

/* Servers of one or two kinds on a fabric, or one large switch domain. Rails have a spine. */
static inline void random_servers(random_t *r) {
    static const char *const names[] = {"switch", "mesh", "pcie"};
    uint32_t nkinds = 1 + (ccl_rng_below(&r->s.rng, 3) == 0), n = 0, at = 0, rails = 1;
    uint32_t total = random_from(r, r->least, r->most);
    random_server_t kinds[2];
    char spine[24];

    for (uint32_t k = 0; k < nkinds; k++)
        kinds[k] = random_kind(r, r->most / 2);
    if (ccl_rng_below(&r->s.rng, 2))
        rails = kinds[0].nics;
    for (uint32_t k = 0; k < rails; k++) {
        snprintf(spine, sizeof spine, "fabric%u", k);
        random_device(r, "switch", spine, CCL_NONE);
        if (k > 0)
            random_link(r, spine, "fabric0", "net", 25 * r->most, 0.5);
    }
    r->slow = ccl_rng_below(&r->s.rng, 4) ? CCL_NONE : random_from(r, rails, 4 * r->least);
    if (ccl_rng_below(&r->s.rng, 4) == 0 && kinds[0].nics > 1)
        r->dead = random_from(r, 0, kinds[0].nics - 1);
    for (; n < total && n + kinds[at % nkinds].gpus <= r->most; n += kinds[at++ % nkinds].gpus) {
        random_inside(r, &kinds[at % nkinds], at, n);
        random_nics(r, &kinds[at % nkinds], at, n, rails);
    }
    snprintf(r->family, sizeof r->family, "%ux%s%u%s%s", at, names[kinds[0].inside], kinds[0].gpus,
             nkinds > 1 ? names[kinds[1].inside] : "", rails > 1 ? "rail" : "");
}

/* One switch with all GPUs. */
static inline void random_domain(random_t *r) {
    random_server_t kind = {.inside = RANDOM_SWITCH, .gpus = random_from(r, r->least, r->most)};

    kind.GBps = ccl_rng_below(&r->s.rng, 2) ? 450 : 900;
    random_inside(r, &kind, 0, 0);
    snprintf(r->family, sizeof r->family, "domain%u", kind.gpus);
}

/* Constants of a usual server. Any (small_transports) would have slices of 8 KiB, of which 1 GiB on
   32 GPUs is simulated for minutes. */
static inline void random_transports(random_t *r) {
    static const char usual[] =
        ",\n\"transports\":{\n\"nvlink\":{\"overhead\":\"1.2us\",\"latency\":\"1.5us\",\"tb_rate\":"
        "\"24GB/s\",\"slice\":\"512KiB\",\"slots\":8,\"protocols\":{\n"
        "\"LL\":{\"overhead\":\"0.2us\",\"latency\":\"0us\",\"tb_rate\":\"3.65GB/s\",\"slice\":"
        "\"8KiB\",\"wire\":2},\n\"LL128\":{\"overhead\":\"0.5us\",\"latency\":\"0.7us\",\"tb_"
        "rate\":"
        "\"20GB/s\",\"slice\":\"128KiB\",\"wire\":1.0667}}},\n"
        "\"pcie\":{\"overhead\":\"1.2us\",\"latency\":\"1.7us\",\"tb_rate\":\"24GB/s\",\"slice\":"
        "\"512KiB\",\"slots\":8},\n"
        "\"net\":{\"overhead\":\"1.2us\",\"latency\":\"9.5us\",\"tb_rate\":\"24GB/s\",\"slice\":"
        "\"512KiB\",\"slots\":8,\"direct\":false,\"holds_tb\":false,\"protocols\":{\n"
        "\"LL\":{\"overhead\":\"0.4us\",\"latency\":\"0us\",\"tb_rate\":\"3.65GB/s\",\"slice\":"
        "\"8KiB\",\"wire\":2},\n\"LL128\":{\"overhead\":\"0.5us\",\"latency\":\"0.2us\",\"tb_"
        "rate\":"
        "\"20GB/s\",\"slice\":\"128KiB\",\"wire\":1.0667}}}}";

    ccl_text_printf(&r->s.text, "%s", usual);
}

/** The cluster of a number: the same one whatever was made before. NULL: `err` says why. */
static inline ccl_topology_t *random_cluster(uint64_t seed, uint32_t number, uint32_t least,
                                             uint32_t most, ccl_error_t *err) {
    random_t r = {.least = least, .most = most, .slow = CCL_NONE, .dead = CCL_NONE};
    ccl_text_t text = {0};
    ccl_topology_t *topo = NULL;

    ccl_rng_init(&r.s.rng, seed * 0x9e3779b97f4a7c15u + number);
    uint32_t family = ccl_rng_below(&r.s.rng, RANDOM_FAMILIES);
    if (family < RANDOM_GRAPHS)
        random_graph(&r, family);
    else if (family == RANDOM_GRAPHS)
        random_domain(&r);
    else
        random_servers(&r);
    ccl_text_printf(&r.s.text, "]");
    bool transports = ccl_rng_below(&r.s.rng, 2);
    if (transports)
        random_transports(&r);
    ccl_text_printf(&text,
                    "{\"format\":\"ccllab-topology-1\",\"name\":\"%u-%s%s\",\"devices\":[\n%s],\n"
                    "\"links\":[%s,\n\"gpu_models\":{\"G\":{%s}}}\n",
                    number, r.family, transports ? "-t" : "", r.devices.data, r.s.text.data,
                    transports
                        ? "\"sms\":108,\"copy_rate\":\"24GB/s\",\"reduce_rate\":\"19.2GB/s\","
                          "\"overhead\":\"1.2us\",\"launch\":\"6.6us\""
                        : "");
    ccl_topology_read_text(NULL, "random cluster", text.data, text.len, &topo, err);
    ccl_text_fini(&text);
    ccl_text_fini(&r.devices);
    ccl_text_fini(&r.s.text);
    return topo;
}

#endif
