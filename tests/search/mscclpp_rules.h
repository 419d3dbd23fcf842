/**
 * @file mscclpp_rules.h
 * What MSCCL++'s executor and its DSL ask of a plan, checked one rule after the other. Written from
 * their sources, not from our writer: src/core/executor/execution_plan.cc and executor.cc (what is
 * read, and into what room), src/core/include/ execution_common.hpp (limits) and
 * execution_kernel.hpp (what operations do, and which of them do it wrongly),
 * python/mscclpp/language (what its own plans keep to).
 */
#ifndef CCL_TESTS_SEARCH_MSCCLPP_RULES_H
#define CCL_TESTS_SEARCH_MSCCLPP_RULES_H

#include <jansson.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_CHANNEL = 16,
    MAX_CHANNEL_PER_OPERATION = 8,
    MAX_LOCAL_BUFFER_PER_OPERATION = 2,
    MAX_OPERATION = 64,
    MAX_DEVICE_SYNCERS = 16,
    MAX_DEVICE_SEMAPHORES = 16,
    MAX_THREADS = 1024
};

typedef struct rules {
    json_t *plan, *gpus, *gpu, *tb;
    size_t ngpus, g, t, o;
    bool packets;
    uint32_t most_blocks; /* that are on a GPU at once */
    json_int_t size;      /* of a message that it is for; 0: not known */
    char *why;            /* [300] the first rule that is broken; "": none is */
} rules_t;

static void broken(rules_t *r, const char *format, ...) {
    va_list args;
    if (*r->why)
        return;
    int n = snprintf(r->why, 300, "GPU %zu block %zu operation %zu: ", r->g, r->t, r->o);
    va_start(args, format);
    vsnprintf(r->why + n, 300 - (size_t)n, format, args);
    va_end(args);
}
#define RULE(what, ...) ((what) ? (void)0 : broken(r, __VA_ARGS__))

static json_int_t int_of(rules_t *r, const json_t *o, const char *key, json_int_t least,
                         json_int_t most) {
    json_t *v = json_object_get(o, key);
    if (!json_is_integer(v) || json_integer_value(v) < least || json_integer_value(v) > most) {
        broken(r, "%s is not a number from %lld to %lld", key, (long long)least, (long long)most);
        return least;
    }
    return json_integer_value(v);
}
/* The index among words; 0 where it is none of them, which is told. */
static int word_of(rules_t *r, const json_t *o, const char *key, const char *const *words) {
    const char *text = json_string_value(json_object_get(o, key));
    for (int i = 0; text && words[i]; i++)
        if (strcmp(words[i], text) == 0)
            return i;
    broken(r, "%s is %s", key, text ? text : "no text");
    return 0;
}
static json_t *list_of(rules_t *r, const json_t *o, const char *key, size_t least, size_t most) {
    json_t *v = json_object_get(o, key);
    RULE(json_is_array(v) && json_array_size(v) >= least && json_array_size(v) <= most,
         "%s is no list of %zu to %zu", key, least, most);
    return v;
}
static bool distinct(const json_t *list) {
    for (size_t i = 0; i < json_array_size(list); i++)
        for (size_t k = 0; k < i; k++)
            if (json_integer_value(json_array_get(list, i)) ==
                json_integer_value(json_array_get(list, k)))
                return false;
    return true;
}
static json_int_t at(const json_t *list, size_t i) {
    return json_integer_value(json_array_get(list, i));
}

static const char *const TYPES[] = {"memory", "port", "switch", NULL};
enum { MEMORY, PORT, SWITCH };
static const char *const BUFFERS[] = {"i", "o", "s", NULL};
static const char *const LENGTHS[] = {"input_chunks", "output_chunks", "scratch_chunks"};

/* ---------------------------------------------------------------- head and GPUs */

static void check_head(rules_t *r) {
    static const char *const collectives[] = {"allreduce", "allgather", "reducescatter", "alltoall",
                                              "broadcast", "reduce",    "gather",        "scatter",
                                              "sendrecv",  NULL};
    static const char *const protocols[] = {"Simple", "LL", NULL};
    const char *name = json_string_value(json_object_get(r->plan, "name"));
    RULE(name && *name, "no name, by which contexts are kept");
    int kind = word_of(r, r->plan, "collective", collectives);
    r->packets = word_of(r, r->plan, "protocol", protocols) == 1;
    RULE(json_is_boolean(json_object_get(r->plan, "inplace")), "inplace is no truth");
    RULE(json_is_false(json_object_get(r->plan, "reuse_resources")),
         "reused scratch has 64 MiB, and addresses of its own");
    json_int_t threads = int_of(r, r->plan, "num_threads_per_block", 32, MAX_THREADS);
    RULE(threads % 32 == 0, "%lld threads are no warps", (long long)threads);
    RULE(int_of(r, r->plan, "buffer_alignment", 16, 4096) % 16 == 0, "data move in 16 bytes");
    RULE(!r->packets || json_is_true(json_object_get(r->plan, "use_double_scratch_buffer")),
         "packets of a launch need another half than those of the one before");
    json_int_t least = int_of(r, r->plan, "min_message_size", 0, INT64_MAX);
    json_int_t most = int_of(r, r->plan, "max_message_size", 0, INT64_MAX);
    RULE(least <= most, "no message is from %lld to %lld bytes", (long long)least, (long long)most);
    r->gpus = list_of(r, r->plan, "gpus", 2, 4096);
    r->ngpus = json_array_size(r->gpus);
    json_int_t most_chunks = 0, scratch = -1;
    for (r->g = 0; r->g < r->ngpus; r->g++) {
        const json_t *gpu = json_array_get(r->gpus, r->g);
        json_int_t len[3];
        RULE(int_of(r, gpu, "id", 0, 4095) == (json_int_t)r->g, "GPUs stand by their ids");
        for (int b = 0; b < 3; b++)
            len[b] =
                int_of(r, gpu, LENGTHS[b], b < 2, INT32_MAX); /* sizes are divided by two of them */
        json_int_t n = (json_int_t)r->ngpus;
        RULE(kind != 1 || len[1] == n * len[0], "allgather: all inputs are one output");
        RULE(kind != 2 || len[0] == n * len[1], "reducescatter: all outputs are one input");
        RULE(kind == 1 || kind == 2 || kind > 4 || len[0] == len[1],
             "input and output are as long");
        RULE(!r->packets || scratch < 0 || len[2] == scratch,
             "who sends packets takes its own half for the receiver's: all scratch is as long");
        scratch = len[2];
        json_int_t units = r->packets ? 4 * len[2] : len[2];
        json_int_t whole = len[0] > len[1] ? len[0] : len[1];
        units = units > whole ? units : whole;
        most_chunks = units > most_chunks ? units : most_chunks;
        RULE(least >= 16 * whole, "messages of %lld bytes have no 16 bytes for each of %lld chunks",
             (long long)least, (long long)whole);
        RULE(r->size % (16 * whole) == 0 && (r->size == 0 || (r->size >= least && r->size <= most)),
             "a message of %lld bytes is not for %lld chunks of a plan from %lld to %lld bytes",
             (long long)r->size, (long long)whole, (long long)least, (long long)most);
        RULE(most / whole <= UINT32_MAX / units, "offsets have 32 bits: %lld chunks of %lld bytes",
             (long long)units, (long long)(most / whole));
    }
    r->g = 0;
}

/* How many channels of a type a GPU has to another. */
static uint32_t count_to(const json_t *gpu, int type, json_int_t peer) {
    uint32_t n = 0;
    size_t i, k;
    json_t *e, *to;
    json_array_foreach(json_object_get(gpu, "channels"), i, e) {
        if (strcmp(json_string_value(json_object_get(e, "channel_type")), TYPES[type]) != 0)
            continue;
        json_array_foreach(json_object_get(e, "connected_to"), k, to) n +=
            json_integer_value(to) == peer;
    }
    return n;
}

static void check_switch(rules_t *r, const json_t *e) {
    int buffer = word_of(r, e, "buffer_type", BUFFERS);
    json_t *groups = list_of(r, e, "rank_groups", 1, 4096), *group;
    size_t i, k;
    json_array_foreach(groups, i, group) {
        json_t *ranks = list_of(r, group, "ranks", 2, r->ngpus), *rank;
        bool own = false;
        json_int_t len = json_integer_value(json_object_get(r->gpu, LENGTHS[buffer]));
        RULE(distinct(ranks), "a rank twice in a group");
        json_array_foreach(ranks, k, rank) {
            json_int_t other = json_integer_value(rank);
            own |= other == (json_int_t)r->g;
            RULE(other >= 0 && other < (json_int_t)r->ngpus, "no GPU %lld", (long long)other);
            const json_t *gpu = json_array_get(r->gpus, (size_t)other);
            RULE(json_integer_value(json_object_get(gpu, LENGTHS[buffer])) == len,
                 "buffers of a group are not as long");
        }
        RULE(own, "a group without the GPU itself");
    }
}

static void check_gpu_channels(rules_t *r) {
    json_t *e, *peer;
    size_t i, k;
    bool seen[2] = {false};
    json_array_foreach(list_of(r, r->gpu, "channels", 0, 4096), i, e) {
        int type = word_of(r, e, "channel_type", TYPES);
        if (type == SWITCH) {
            check_switch(r, e);
            continue;
        }
        RULE(!seen[type], "two lists of %s channels", TYPES[type]);
        seen[type] = true;
        json_array_foreach(list_of(r, e, "connected_to", 1, 1 << 16), k, peer) {
            json_int_t to = json_integer_value(peer);
            RULE(to >= 0 && to < (json_int_t)r->ngpus && to != (json_int_t)r->g,
                 "a channel to GPU %lld", (long long)to);
            RULE(count_to(r->gpu, type, to) ==
                     count_to(json_array_get(r->gpus, (size_t)to), type, (json_int_t)r->g),
                 "unequal numbers of %s channels to GPU %lld", TYPES[type], (long long)to);
        }
    }
    json_array_foreach(list_of(r, r->gpu, "remote_buffers", 0, 4096), i, e) {
        json_int_t on = int_of(r, e, "rank", 0, (json_int_t)r->ngpus - 1);
        RULE(on != (json_int_t)r->g, "a remote buffer of its own");
        word_of(r, e, "type", BUFFERS);
        json_t *access = list_of(r, e, "access_channel_types", 1, 2);
        for (k = 0; k < json_array_size(access); k++) {
            const char *type = json_string_value(json_array_get(access, k));
            RULE(type && (strcmp(type, "memory") == 0 || strcmp(type, "port") == 0), "access by %s",
                 type);
        }
    }
}

/* Groups are made by all their GPUs together, one after the other: in one order everywhere. */
static void check_group_order(rules_t *r) {
    size_t *next = calloc(r->ngpus + 1, sizeof *next), left = 0;
    json_t **queue = calloc(r->ngpus + 1, sizeof *queue);
    for (size_t g = 0; g < r->ngpus; g++) { /* all groups of a GPU in a row: buffer, ranks */
        json_t *e, *group;
        size_t i, k;
        queue[g] = json_array();
        json_array_foreach(json_object_get(json_array_get(r->gpus, g), "channels"), i, e) {
            if (strcmp(json_string_value(json_object_get(e, "channel_type")), "switch") != 0)
                continue;
            json_array_foreach(json_object_get(e, "rank_groups"), k, group) {
                json_array_append_new(queue[g],
                                      json_pack("[O,O]", json_object_get(e, "buffer_type"),
                                                json_object_get(group, "ranks")));
                left++;
            }
        }
    }
    for (bool moved = true; moved;) {
        moved = false;
        for (size_t g = 0; g < r->ngpus; g++) {
            json_t *first = json_array_get(queue[g], next[g]);
            bool all = first != NULL;
            json_t *ranks = json_array_get(first, 1);
            for (size_t k = 0; all && k < json_array_size(ranks); k++) {
                size_t other = (size_t)at(ranks, k);
                all = json_equal(first, json_array_get(queue[other], next[other]));
            }
            for (size_t k = 0; all && k < json_array_size(ranks); k++) {
                next[at(ranks, k)]++;
                left--;
                moved = true;
            }
        }
    }
    RULE(left == 0, "%zu groups are never made: their GPUs make them in different orders", left);
    for (size_t g = 0; g < r->ngpus; g++)
        json_decref(queue[g]);
    free(queue);
    free(next);
}

#include "tests/search/mscclpp_rules_ops.h"

/**
 * Checks all rules.
 * @param most_blocks  blocks that a GPU runs at once, since they wait for each other; 0: not known.
 * @param size         a message that it is for; 0: not known.
 * @param why          [300] what is broken; "" where nothing is.
 */
static bool keeps_rules(json_t *plan, uint32_t most_blocks, double size, char *why) {
    rules_t rules = {.plan = plan, .most_blocks = most_blocks, .why = why}, *r = &rules;
    rules.size = (json_int_t)size;
    *why = '\0';
    check_head(r);
    for (r->g = 0; r->g < r->ngpus && !*why; r->g++) {
        r->gpu = json_array_get(r->gpus, r->g);
        check_gpu_channels(r);
        check_blocks(r);
    }
    if (!*why)
        check_group_order(r);
    if (!*why)
        check_pairs(r);
    return !*why;
}

#endif
