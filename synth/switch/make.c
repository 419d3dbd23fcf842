/* One schedule through switches: up to each chunk's root, and down to its destinations. */
#include "synth/switch/switch.h"

#include <stdlib.h>

typedef struct maker {
    const ccl_i_cluster_t *cluster;
    const ccl_i_switch_how_t *how;
    ccl_schedule_builder_t *b;
    uint32_t *ranks; /* [nranks] scratch */
    uint32_t up;     /* steps between servers, each way */
} maker_t;

/** A part of a chunk on its way. */
typedef struct part {
    const ccl_chunk_t *chunk;
    uint32_t index, root, step;
    uint16_t channel;
    uint8_t phase;
} part_t;

/* Of rank, in each server the one that stands for it. */
static uint32_t relay(const maker_t *m, uint32_t server, uint32_t rank) {
    return ccl_i_cluster_rank(m->cluster, server, m->cluster->local[rank]);
}

/** A rotation of the servers that starts at the root's. */
static uint32_t server_at(const maker_t *m, const part_t *p, uint32_t j) {
    return (m->cluster->server[p->root] + j) % m->cluster->nservers;
}

static uint32_t depth_of(uint32_t j) {
    uint32_t depth = 0;
    for (; j > 0; j = (j - 1) / 2)
        depth++;
    return depth;
}

static void add(maker_t *m, const part_t *p, uint32_t src, uint32_t dst, uint32_t step,
                bool reduce) {
    ccl_schedule_builder_add(m->b, (ccl_transfer_t){.src = src,
                                                    .dst = dst,
                                                    .chunk = p->index,
                                                    .step = p->step + step,
                                                    .channel = p->channel,
                                                    .reduce = reduce,
                                                    .phase = p->phase});
}

/** Ranks of a list that are in a server, into m->ranks; without `but` (CCL_NONE: all). */
static uint32_t in_server(maker_t *m, const uint32_t *list, uint32_t n, uint32_t server,
                          uint32_t but, bool *has_but) {
    uint32_t k = 0;
    *has_but = false;
    for (uint32_t i = 0; i < n; i++) {
        if (m->cluster->server[list[i]] != server)
            continue;
        *has_but = *has_but || list[i] == but;
        if (list[i] != but)
            m->ranks[k++] = list[i];
    }
    return k;
}

/** What stands for m->ranks[0 .. n): one rank needs no switch. */
static uint32_t end_of(maker_t *m, uint32_t n) {
    return n == 1 ? m->ranks[0] : ccl_schedule_builder_group(m->b, m->ranks, n);
}

/** The sum of a server's sources, to its relay. */
static void gather_in_server(maker_t *m, const part_t *p, uint32_t server) {
    uint32_t to = relay(m, server, p->root);
    bool source;
    uint32_t n = in_server(m, p->chunk->sources, p->chunk->nsources, server, to, &source);
    if (n == 0)
        return;
    bool adds = source && !m->how->own;
    if (source && m->how->own)
        m->ranks[n++] = to;
    add(m, p, end_of(m, n), to, 0, adds);
}

/** From a server's relay to the server's destinations. */
static void spread_in_server(maker_t *m, const part_t *p, uint32_t server, uint32_t step) {
    uint32_t from = relay(m, server, p->root);
    bool wants;
    uint32_t n = in_server(m, p->chunk->dests, p->chunk->ndests, server, from, &wants);
    if (n == 0)
        return;
    if (wants && m->how->own)
        m->ranks[n++] = from;
    add(m, p, from, end_of(m, n), step, false);
}

/** All relays but the root's, through switches. */
static uint32_t other_relays(maker_t *m, const part_t *p) {
    for (uint32_t j = 1; j < m->cluster->nservers; j++)
        m->ranks[j - 1] = relay(m, server_at(m, p, j), p->root);
    return end_of(m, m->cluster->nservers - 1);
}

/** Every relay gets every other's sum. */
static void exchange(maker_t *m, const part_t *p) {
    for (uint32_t j = 1; j < m->cluster->nservers; j++)
        for (uint32_t v = 0; v < m->cluster->nservers; v++)
            add(m, p, relay(m, v, p->root), relay(m, (v + j) % m->cluster->nservers, p->root), 1,
                true);
}

/** Exchanged are sums that all want. */
static bool exchanged(const maker_t *m, const ccl_chunk_t *c) {
    return m->how->between == CCL_I_BETWEEN_EXCHANGE && m->cluster->nservers > 1 && c->reduced &&
           c->ndests == m->cluster->nranks;
}

static void gather_between(maker_t *m, const part_t *p) {
    uint32_t n = m->cluster->nservers;
    if (exchanged(m, p->chunk)) {
        exchange(m, p);
        return;
    }
    if (m->how->between == CCL_I_BETWEEN_SWITCH) {
        add(m, p, other_relays(m, p), p->root, 1, true);
        return;
    }
    for (uint32_t j = 1; j < n; j++) {
        uint32_t src = relay(m, server_at(m, p, j), p->root), to = 0, step = 1;
        if (m->how->between == CCL_I_BETWEEN_RING) {
            to = (j + 1) % n;
            step = j;
        } else if (m->how->between == CCL_I_BETWEEN_TREE) {
            to = (j - 1) / 2;
            step = 1 + m->up - depth_of(j);
        }
        add(m, p, src, relay(m, server_at(m, p, to), p->root), step, true);
    }
}

/** From the root to all relays, and in every server to the destinations. */
static void spread(maker_t *m, const part_t *p, uint32_t first) {
    uint32_t n = m->cluster->nservers;
    spread_in_server(m, p, m->cluster->server[p->root], first);
    if (exchanged(m, p->chunk)) {
        for (uint32_t j = 1; j < n; j++)
            spread_in_server(m, p, server_at(m, p, j), first);
        return;
    }
    if (n > 1 && m->how->between == CCL_I_BETWEEN_SWITCH)
        add(m, p, p->root, other_relays(m, p), first, false);
    for (uint32_t j = 1; j < n; j++) {
        uint32_t dst = relay(m, server_at(m, p, j), p->root), from = 0, step = first;
        if (m->how->between == CCL_I_BETWEEN_RING) {
            from = j - 1;
            step = first + j - 1;
        } else if (m->how->between == CCL_I_BETWEEN_TREE) {
            from = (j - 1) / 2;
            step = first + depth_of(j) - 1;
        }
        if (m->how->between != CCL_I_BETWEEN_SWITCH)
            add(m, p, relay(m, server_at(m, p, from), p->root), dst, step, false);
        spread_in_server(m, p, server_at(m, p, j), step + 1);
    }
}

/** Parts of all chunks that go along one channel at one time. */
typedef struct wave {
    part_t *parts;
    uint32_t n;
} wave_t;

/*
 * Within servers: each server begins with the chunks whose root is in the next one and ends with
 * its own, so that not all servers send to one at first.
 */
static void gather_wave(maker_t *m, const wave_t *w) {
    uint32_t n = m->cluster->nservers;
    for (uint32_t turn = 1; turn <= n; turn++) {
        for (uint32_t i = 0; i < w->n; i++) {
            const part_t *p = &w->parts[i];
            if (p->chunk->reduced)
                gather_in_server(m, p, server_at(m, p, n - turn));
        }
    }
    for (uint32_t i = 0; i < w->n && n > 1; i++) {
        if (w->parts[i].chunk->reduced)
            gather_between(m, &w->parts[i]);
    }
}

static void spread_wave(maker_t *m, const wave_t *w) {
    for (uint32_t i = 0; i < w->n; i++) {
        part_t p = w->parts[i];
        if (p.chunk->ndests == 1 && p.chunk->reduced)
            continue;
        p.phase = 1;
        /* Results between servers have blocks of their own, so that sums do not wait for them. */
        if (m->cluster->nservers > 1 && !exchanged(m, p.chunk))
            p.channel = (uint16_t)(p.channel + m->how->channels);
        spread(m, &p, p.chunk->reduced ? 1 + m->up : 0);
    }
}

static uint32_t steps_between(const ccl_i_cluster_t *cluster, ccl_i_between_t between) {
    uint32_t n = cluster->nservers;
    if (n == 1)
        return 0;
    return between == CCL_I_BETWEEN_RING   ? n - 1
           : between == CCL_I_BETWEEN_TREE ? depth_of(n - 1)
                                           : 1;
}

/** The k-th GPU of the first server, for what goes to all; else a destination. */
static uint32_t root_in_first(const ccl_i_cluster_t *cluster, const ccl_chunk_t *c, uint32_t k) {
    return c->ndests == cluster->nranks ? ccl_i_cluster_rank(cluster, 0, k)
                                        : c->dests[k % c->ndests];
}

ccl_status_t ccl_i_switch_make(const ccl_i_cluster_t *cluster, const ccl_collective_t *want,
                               const ccl_i_switch_how_t *how, ccl_schedule_t **out,
                               ccl_error_t *err) {
    uint32_t each = how->channels * how->parts, roots = 1;
    ccl_collective_t *coll = NULL;
    for (uint32_t k = 0; k < want->nchunks; k++)
        if (want->chunks[k].reduced && want->chunks[k].ndests > roots)
            roots = want->chunks[k].ndests;
    /* Each server has a root then, so those of one are enough. */
    bool one =
        how->between == CCL_I_BETWEEN_EXCHANGE && cluster->nservers > 1 && roots == cluster->nranks;
    roots = one ? roots / cluster->nservers : roots;
    CCL_TRY(ccl_collective_split(want, roots * each, &coll, err));
    maker_t m = {.cluster = cluster,
                 .how = how,
                 .b = ccl_schedule_builder_create(how->name, coll),
                 .ranks = malloc((cluster->nranks + (size_t)1) * sizeof(uint32_t)),
                 .up = steps_between(cluster, how->between)};
    wave_t wave = {malloc(((size_t)want->nchunks * roots + 1) * sizeof(part_t)), 0};
    if (!m.b || !m.ranks || !wave.parts) {
        ccl_schedule_builder_destroy(m.b);
        free(m.ranks);
        free(wave.parts);
        return ccl_fail_nomem(err);
    }
    for (uint32_t q = 0; q < each; q++) {
        wave.n = 0;
        for (uint32_t k = 0; k < want->nchunks * roots; k++) {
            const ccl_chunk_t *c = &coll->chunks[k * each + q];
            if (c->nsources > 0 && c->ndests > 0)
                wave.parts[wave.n++] = (part_t){.chunk = c,
                                                .index = k * each + q,
                                                .root = !c->reduced ? c->sources[0]
                                                        : one       ? root_in_first(cluster, c, k)
                                                                    : c->dests[k % c->ndests],
                                                .step = q % how->parts * (2 * m.up + 3),
                                                .channel = (uint16_t)(q / how->parts)};
        }
        gather_wave(&m, &wave);
        spread_wave(&m, &wave);
    }
    free(wave.parts);
    free(m.ranks);
    return ccl_schedule_builder_finish(m.b, out, err);
}
