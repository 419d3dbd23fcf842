/**
 * @file mscclpp_exec.h
 * An executor of plans of MSCCL++, written from MSCCL++'s own
 * (src/core/include/execution_kernel.hpp): values are chunks and who has added to them.
 */
#ifndef CCL_TESTS_SEARCH_MSCCLPP_EXEC_H
#define CCL_TESTS_SEARCH_MSCCLPP_EXEC_H

#include <check.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "synth/synth.h"

enum { MOST = 128, PACKETS = 3 };

typedef unsigned __int128 ranks_t;
typedef struct value {
    uint32_t chunk;
    ranks_t from; /* ranks that it is the sum of */
} value_t;
/* Memory of one kind: input, output, scratch, and packets, which have come or not. */
typedef struct memory {
    uint32_t n;
    value_t *own, **cell; /* in place, elements of two buffers are one */
    bool *come;
} memory_t;
typedef struct gpu {
    json_t *json, *tbs;
    memory_t of[4];
    uint32_t *inbound[2], ninbound[2], *semaphore, nsemaphores, *at;
} gpu_t;
static gpu_t gpus[MOST];
static uint32_t ngpus;

static uint32_t number(const json_t *o, const char *key) {
    ck_assert_msg(json_is_integer(json_object_get(o, key)), "no %s", key);
    return (uint32_t)json_integer_value(json_object_get(o, key));
}
static const char *word(const json_t *o, const char *key) {
    const char *text = json_string_value(json_object_get(o, key));
    return text ? text : "";
}
static uint32_t nth(const json_t *o, const char *key, size_t i) {
    return (uint32_t)json_integer_value(json_array_get(json_object_get(o, key), i));
}
static size_t many(const json_t *o, const char *key) {
    return json_array_size(json_object_get(o, key));
}
static json_t *of_type(json_t *list, const char *key, const char *type) {
    size_t i;
    json_t *e;
    json_array_foreach(list, i, e) if (strcmp(word(e, key), type) == 0) return e;
    ck_abort_msg("no %s of type %s", key, type);
    return NULL;
}

/* The number of a block's channel in its GPU's list; its other end. */
static uint32_t of_gpu(json_t *tb, const char *type, uint32_t at) {
    json_t *list = of_type(json_object_get(tb, "channels"), "channel_type", type);
    ck_assert_uint_le(many(list, "channel_ids"), 16);
    ck_assert_uint_lt(at, many(list, "channel_ids"));
    return nth(list, "channel_ids", at);
}
static uint32_t channel(json_t *tb, json_t *op, size_t i) {
    return of_gpu(tb, word(op, "channel_type"), nth(op, "channel_ids", i));
}
static void partner(uint32_t g, const char *type, uint32_t at, uint32_t *peer, uint32_t *peer_at) {
    json_t *mine = json_object_get(
        of_type(json_object_get(gpus[g].json, "channels"), "channel_type", type), "connected_to");
    uint32_t to = (uint32_t)json_integer_value(json_array_get(mine, at)), before = 0, seen = 0;
    for (uint32_t i = 0; i < at; i++)
        before += (uint32_t)json_integer_value(json_array_get(mine, i)) == to;
    json_t *theirs = json_object_get(
        of_type(json_object_get(gpus[to].json, "channels"), "channel_type", type), "connected_to");
    for (uint32_t i = 0; i < json_array_size(theirs); i++)
        if ((uint32_t)json_integer_value(json_array_get(theirs, i)) == g && seen++ == before) {
            *peer = to;
            *peer_at = i;
            return;
        }
    ck_abort_msg("channel %u of GPU %u has no other end", at, g);
}

/* @param come_out  of packets: whether they have come; NULL: it is of none. */
static value_t **cells_of(uint32_t g, json_t *tb, json_t *op, const char *key, uint32_t n,
                          uint32_t *size, bool **come_out) {
    bool packets = come_out != NULL;
    json_t *buff = json_array_get(json_object_get(op, key), n);
    uint32_t on = g, at = number(buff, "index");
    const char *type = word(buff, "type");
    *size = number(buff, "size");
    if (!*type) { /* another GPU's */
        json_t *refs = of_type(json_object_get(tb, "remote_buffer_refs"), "access_channel_type",
                               word(op, "channel_type"));
        json_t *id =
            json_array_get(json_object_get(refs, "remote_buffer_ids"), number(buff, "buffer_id"));
        json_t *remote = json_array_get(json_object_get(gpus[g].json, "remote_buffers"),
                                        (size_t)json_integer_value(id));
        on = number(remote, "rank");
        type = word(remote, "type");
        uint32_t peer = CCL_NONE, ignored = 0;
        partner(g, word(op, "channel_type"), channel(tb, op, 0), &peer, &ignored);
        ck_assert_uint_eq(peer, on); /* the data go where the signal goes */
    }
    uint32_t b = *type == 'i' ? 0 : *type == 'o' ? 1 : packets ? PACKETS : 2;
    ck_assert(!packets || b == PACKETS);
    ck_assert_uint_le(at + *size, gpus[on].of[b].n);
    if (packets)
        *come_out = &gpus[on].of[b].come[at];
    return &gpus[on].of[b].cell[at];
}
static value_t **cells(uint32_t g, json_t *tb, json_t *op, const char *key, uint32_t n,
                       uint32_t *size) {
    return cells_of(g, tb, op, key, n, size, NULL);
}

static value_t sum_of(value_t a, value_t b) {
    /* Garbage makes garbage. */
    return a.chunk != b.chunk || (a.from & b.from) ? (value_t){CCL_NONE, 0}
                                                   : (value_t){a.chunk, a.from | b.from};
}

/* The group of GPUs that one buffer of a switch operation is of; the GPU itself is one of them. */
static json_t *group_of(uint32_t g, json_t *tb, json_t *buff, uint32_t *buffer) {
    uint32_t at = of_gpu(tb, "switch", number(buff, "switch_channel_id"));
    json_t *list = json_object_get(gpus[g].json, "channels"), *e;
    size_t i, k;
    json_array_foreach(list, i, e) {
        if (strcmp(word(e, "channel_type"), "switch") != 0)
            continue;
        json_t *groups = json_object_get(e, "rank_groups");
        if (at >= json_array_size(groups)) {
            at -= (uint32_t)json_array_size(groups);
            continue;
        }
        json_t *group = json_array_get(groups, at);
        bool own = false;
        for (k = 0; k < many(group, "ranks"); k++)
            own |= nth(group, "ranks", k) == g;
        ck_assert(own);
        const char *type = word(e, "buffer_type");
        *buffer = *type == 'i' ? 0 : *type == 'o' ? 1 : 2;
        return group;
    }
    ck_abort_msg("no switch channel %u", at);
    return NULL;
}

/* Sums and stores through switches. */
static void through_switch(uint32_t g, json_t *tb, json_t *op, bool pulls) {
    json_t *dst = json_array_get(json_object_get(op, "dst_buff"), 0);
    json_t *src = json_array_get(json_object_get(op, "src_buff"), 0);
    uint32_t to, from = 0, size = 0, n = number(dst, "size");
    json_t *takers = group_of(g, tb, dst, &to);
    json_t *offerers = pulls ? group_of(g, tb, src, &from) : NULL;
    value_t **held = pulls ? NULL : cells(g, tb, op, "src_buff", 0, &size);
    ck_assert_uint_eq(n, number(src, "size"));
    for (uint32_t i = 0; i < n; i++) {
        value_t v = pulls ? (value_t){0, 0} : *held[i];
        for (size_t k = 0; pulls && k < many(offerers, "ranks"); k++) {
            value_t part = *gpus[nth(offerers, "ranks", k)].of[from].cell[number(src, "index") + i];
            v = k == 0 ? part : sum_of(v, part);
        }
        for (size_t k = 0; k < many(takers, "ranks"); k++)
            *gpus[nth(takers, "ranks", k)].of[to].cell[number(dst, "index") + i] = v;
    }
}

/* Signals, waits and semaphores; false: it has to wait. */
static bool told(uint32_t g, json_t *tb, json_t *op, bool *known) {
    const char *name = word(op, "name");
    bool wait = strcmp(name, "wait") == 0, acquire = strcmp(name, "sem_acquire") == 0;
    bool signal = strcmp(name, "signal") == 0, release = strcmp(name, "sem_release") == 0;
    bool port = strcmp(word(op, "channel_type"), "port") == 0;
    size_t n = many(op, wait || signal ? "channel_ids" : "semaphore_ids");
    *known = wait || acquire || signal || release;
    ck_assert(!*known || (n > 0 && n <= (wait || signal ? 8 : 16)));
    for (int take = 0; take < 2 && *known; take++) {
        for (size_t i = 0; i < n; i++) {
            uint32_t peer, at;
            uint32_t *held = wait      ? &gpus[g].inbound[port][channel(tb, op, i)]
                             : acquire ? &gpus[g].semaphore[nth(op, "semaphore_ids", i)]
                                       : NULL;
            if (held && *held == 0)
                return false;
            if (take && held)
                --*held;
            else if (take && release)
                gpus[g].semaphore[nth(op, "semaphore_ids", i)]++;
            else if (take) {
                partner(g, word(op, "channel_type"), channel(tb, op, i), &peer, &at);
                gpus[peer].inbound[port][at]++;
            }
        }
    }
    return true;
}

/* Packets: made, sent, read once they have come. False: it has to wait. */
static bool by_packets(uint32_t g, json_t *tb, json_t *op, bool *known) {
    const char *name = word(op, "name");
    bool makes = strcmp(name, "cpkt") == 0, puts = strcmp(name, "ppkt") == 0,
         passes = strcmp(name, "rppkt") == 0, reads = strcmp(name, "upkt") == 0,
         adds = strcmp(name, "repkt") == 0;
    uint32_t size, other;
    bool *come = NULL, *arrive = NULL;
    *known = makes || puts || passes || reads || adds;
    if (!*known)
        return true;
    value_t **from = cells_of(g, tb, op, "src_buff", 0, &size, passes || reads ? &come : NULL);
    value_t **part = adds ? cells_of(g, tb, op, "src_buff", 1, &other, &come) : NULL;
    value_t **to =
        cells_of(g, tb, op, "dst_buff", 0, &other, makes || puts || passes ? &arrive : NULL);
    ck_assert_uint_eq(size, other);
    for (uint32_t i = 0; come && i < size; i++)
        if (!come[i])
            return false;
    for (uint32_t i = 0; i < size; i++) {
        ck_assert_msg(!arrive || !arrive[i], "packets are written twice in a launch");
        *to[i] = adds ? sum_of(*from[i], *part[i]) : *from[i];
        if (arrive)
            arrive[i] = true;
    }
    return true;
}

/* One operation; false: it has to wait. */
static bool operate(uint32_t g, json_t *tb, json_t *op) {
    const char *name = word(op, "name");
    uint32_t size = 0, other = 0;
    bool known;
    if (!told(g, tb, op, &known))
        return false;
    if (known)
        return true;
    if (!by_packets(g, tb, op, &known))
        return false;
    if (known)
        return true;
    if (strcmp(name, "glres") == 0 || strcmp(name, "gstore") == 0) {
        through_switch(g, tb, op, name[1] == 'l');
    } else if (strcmp(name, "copy") == 0 || strcmp(name, "put") == 0) {
        value_t **from = cells(g, tb, op, "src_buff", 0, &size);
        value_t **to = cells(g, tb, op, "dst_buff", 0, &other);
        ck_assert_uint_eq(size, other);
        for (uint32_t i = 0; i < size; i++)
            *to[i] = *from[i];
    } else if (strcmp(name, "re") == 0) {
        value_t **a = cells(g, tb, op, "src_buff", 0, &size);
        value_t **b = cells(g, tb, op, "src_buff", 1, &size);
        value_t **to = cells(g, tb, op, "dst_buff", 0, &size);
        for (uint32_t i = 0; i < size; i++)
            *to[i] = sum_of(*a[i], *b[i]);
    } else {
        ck_assert_msg(strcmp(name, "nop") == 0 || strcmp(name, "flush") == 0, "operation %s", name);
    }
    return true;
}

static bool finished(bool backwards) {
    bool all = true;
    for (bool moved = true; moved;) {
        moved = false;
        all = true;
        for (uint32_t k = 0; k < ngpus; k++) {
            uint32_t g = backwards ? ngpus - 1 - k : k;
            for (size_t t = 0; t < json_array_size(gpus[g].tbs); t++) {
                json_t *tb = json_array_get(gpus[g].tbs, t), *ops = json_object_get(tb, "ops");
                while (gpus[g].at[t] < json_array_size(ops) &&
                       operate(g, tb, json_array_get(ops, gpus[g].at[t]))) {
                    gpus[g].at[t]++;
                    moved = true;
                }
                all &= gpus[g].at[t] == json_array_size(ops);
            }
        }
    }
    return all;
}

static void clear(void) {
    for (uint32_t g = 0; g < ngpus; g++) {
        for (int b = 0; b < 4; b++) {
            free(gpus[g].of[b].own);
            free(gpus[g].of[b].cell);
            free(gpus[g].of[b].come);
        }
        free(gpus[g].inbound[0]);
        free(gpus[g].inbound[1]);
        free(gpus[g].semaphore);
        free(gpus[g].at);
    }
    memset(gpus, 0, sizeof gpus);
    ngpus = 0;
}

static uint32_t channels_of(const json_t *gpu, const char *type) {
    size_t i;
    json_t *e;
    json_array_foreach(json_object_get(gpu, "channels"), i,
                       e) if (strcmp(word(e, "channel_type"), type) ==
                              0) return (uint32_t)many(e, "connected_to");
    return 0;
}

static void fill(json_t *plan, const ccl_collective_t *coll) {
    static const char *const lens[] = {"input_chunks", "output_chunks", "scratch_chunks",
                                       "scratch_chunks"};
    bool in_place = json_is_true(json_object_get(plan, "inplace"));
    clear();
    ngpus = (uint32_t)json_array_size(json_object_get(plan, "gpus"));
    ck_assert(ngpus == coll->nranks && ngpus <= MOST);
    for (uint32_t g = 0; g < ngpus; g++) {
        gpu_t *gpu = &gpus[g];
        gpu->json = json_array_get(json_object_get(plan, "gpus"), g);
        gpu->tbs = json_object_get(gpu->json, "threadblocks");
        gpu->at = calloc(json_array_size(gpu->tbs) + 1, sizeof *gpu->at);
        gpu->nsemaphores = (uint32_t)many(gpu->json, "semaphores");
        gpu->semaphore = calloc(gpu->nsemaphores + 1u, sizeof *gpu->semaphore);
        for (int type = 0; type < 2; type++) {
            gpu->ninbound[type] = channels_of(gpu->json, type ? "port" : "memory");
            gpu->inbound[type] = calloc(gpu->ninbound[type] + 1u, sizeof **gpu->inbound);
        }
        for (uint32_t b = 0; b < 4; b++) {
            memory_t *m = &gpu->of[b];
            m->n = number(gpu->json, lens[b]);
            m->own = calloc(m->n + 1u, sizeof *m->own);
            m->cell = calloc(m->n + 1u, sizeof *m->cell);
            m->come = calloc(m->n + 1u, sizeof *m->come);
            for (uint32_t i = 0; i < m->n; i++) {
                m->cell[i] = &m->own[i];
                m->own[i].chunk = CCL_NONE;
            }
        }
        for (uint32_t k = 0; k < coll->nchunks; k++) {
            uint32_t in = ccl_collective_input(coll, g, k), out = ccl_collective_output(coll, g, k);
            if (in != CCL_NONE && out != CCL_NONE && in_place)
                gpu->of[1].cell[out] = gpu->of[0].cell[in];
            if (in != CCL_NONE)
                *gpu->of[0].cell[in] = (value_t){k, (ranks_t)1 << g};
        }
    }
}

/* Runs the plan; is the result what the collective wants? */
static bool comes_right(json_t *plan, const ccl_collective_t *coll, bool backwards) {
    fill(plan, coll);
    if (!finished(backwards))
        return false;
    for (uint32_t k = 0; k < coll->nchunks; k++) {
        ranks_t sum = 0;
        for (uint32_t i = 0; i < coll->chunks[k].nsources; i++)
            sum |= (ranks_t)1 << coll->chunks[k].sources[i];
        for (uint32_t i = 0; i < coll->chunks[k].ndests; i++) {
            uint32_t g = coll->chunks[k].dests[i];
            const value_t *v = gpus[g].of[1].cell[ccl_collective_output(coll, g, k)];
            if (v->chunk != k || v->from != sum)
                return false;
        }
    }
    for (uint32_t g = 0; g < ngpus; g++) { /* nothing is left over for the next launch */
        for (int type = 0; type < 2; type++)
            for (uint32_t i = 0; i < gpus[g].ninbound[type]; i++)
                if (gpus[g].inbound[type][i])
                    return false;
        for (uint32_t i = 0; i < gpus[g].nsemaphores; i++)
            if (gpus[g].semaphore[i])
                return false;
    }
    return true;
}

#endif
