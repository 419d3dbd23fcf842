/* Plans for MSCCL++: an executor of their operations, written from MSCCL++'s own, comes to what the
 * collective wants; and it finds a plan wrong that lacks a signal. */
#include <check.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "synth/synth.h"
#include "tests/topologies/topologies.h"

enum { MOST = 64, TBS = 64, CELLS = 1024 };

typedef struct value {
    uint32_t chunk;
    uint64_t from; /* ranks that it is the sum of */
} value_t;
typedef struct gpu {
    json_t *json, *tbs;
    value_t own[3][CELLS];
    value_t *cell[3][CELLS]; /* in place, elements of two buffers are one */
    uint32_t inbound[2][CELLS], semaphore[CELLS], at[TBS];
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

static value_t **cells(uint32_t g, json_t *tb, json_t *op, const char *key, uint32_t n,
                       uint32_t *size) {
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
    uint32_t b = *type == 'i' ? 0 : *type == 'o' ? 1 : 2;
    static const char *const lens[] = {"input_chunks", "output_chunks", "scratch_chunks"};
    ck_assert_uint_le(at + *size, number(gpus[on].json, lens[b]));
    return &gpus[on].cell[b][at];
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
            value_t part = *gpus[nth(offerers, "ranks", k)].cell[from][number(src, "index") + i];
            v = k == 0 ? part : sum_of(v, part);
        }
        for (size_t k = 0; k < many(takers, "ranks"); k++)
            *gpus[nth(takers, "ranks", k)].cell[to][number(dst, "index") + i] = v;
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

/* One operation; false: it has to wait. */
static bool operate(uint32_t g, json_t *tb, json_t *op) {
    const char *name = word(op, "name");
    uint32_t size = 0, other = 0;
    bool known;
    if (!told(g, tb, op, &known))
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

static void fill(json_t *plan, const ccl_collective_t *coll) {
    bool in_place = json_is_true(json_object_get(plan, "inplace"));
    memset(gpus, 0, sizeof gpus);
    ngpus = (uint32_t)json_array_size(json_object_get(plan, "gpus"));
    ck_assert_uint_eq(ngpus, coll->nranks);
    for (uint32_t g = 0; g < ngpus; g++) {
        gpus[g].json = json_array_get(json_object_get(plan, "gpus"), g);
        gpus[g].tbs = json_object_get(gpus[g].json, "threadblocks");
        for (size_t t = 0; t < json_array_size(gpus[g].tbs); t++)
            ck_assert_uint_le(many(json_array_get(gpus[g].tbs, t), "ops"), 64);
        ck_assert(number(gpus[g].json, "id") == g && json_array_size(gpus[g].tbs) <= TBS);
        ck_assert_uint_le(number(gpus[g].json, "scratch_chunks"), CELLS);
        for (uint32_t b = 0; b < 3; b++)
            for (uint32_t i = 0; i < CELLS; i++) {
                gpus[g].cell[b][i] = &gpus[g].own[b][i];
                gpus[g].own[b][i].chunk = CCL_NONE;
            }
        for (uint32_t k = 0; k < coll->nchunks; k++) {
            uint32_t in = ccl_collective_input(coll, g, k), out = ccl_collective_output(coll, g, k);
            if (in != CCL_NONE && out != CCL_NONE && in_place)
                gpus[g].cell[1][out] = gpus[g].cell[0][in];
            if (in != CCL_NONE)
                *gpus[g].cell[0][in] = (value_t){k, 1ull << g};
        }
    }
}

/* Read back, a plan is a program that is right, and the plan of that program reads to the same. */
static void check_round_trip(const ccl_text_t *text, const ccl_program_t *from,
                             const ccl_topology_t *topo, bool widened) {
    ccl_program_t *program = NULL, *again = NULL;
    ccl_text_t more = {0};
    ccl_verdict_t result;
    ck_assert(ccl_program_is_mscclpp(text->data, text->len));
    MUST(ccl_program_read_mscclpp("plan", text->data, text->len, &program, e));
    MUST(ccl_program_verify(NULL, program, NULL, &result, e));
    ck_assert_msg(result.valid, "%s", result.fault.text);
    ck_assert(ccl_collective_equal(program->coll, from->coll));
    if (!widened) {
        ck_assert_uint_eq(program->ntbs, from->ntbs);
        ck_assert_uint_eq(program->nsteps, from->nsteps);
    }
    ck_assert_uint_eq(program->ngroups > 0, from->ngroups > 0);
    MUST(ccl_program_write_mscclpp(program, topo, &more, e));
    MUST(ccl_program_read_mscclpp("plan", more.data, more.len, &again, e));
    ck_assert(ccl_program_equal(program, again));
    ccl_program_destroy(program);
    ccl_program_destroy(again);
    ccl_text_fini(&more);
}

/* Runs the plan; is the result what the collective wants? */
static bool comes_right(json_t *plan, const ccl_collective_t *coll, bool backwards) {
    fill(plan, coll);
    if (!finished(backwards))
        return false;
    for (uint32_t k = 0; k < coll->nchunks; k++) {
        uint64_t sum = 0;
        for (uint32_t i = 0; i < coll->chunks[k].nsources; i++)
            sum |= 1ull << coll->chunks[k].sources[i];
        for (uint32_t i = 0; i < coll->chunks[k].ndests; i++) {
            uint32_t g = coll->chunks[k].dests[i];
            const value_t *v = gpus[g].cell[1][ccl_collective_output(coll, g, k)];
            if (v->chunk != k || v->from != sum)
                return false;
        }
    }
    for (uint32_t g = 0; g < ngpus; g++) /* nothing is left over for the next launch */
        for (uint32_t i = 0; i < CELLS; i++)
            if (gpus[g].inbound[0][i] || gpus[g].inbound[1][i] || gpus[g].semaphore[i])
                return false;
    return true;
}

#define PLAIN "servers:2 gpus:2 nvswitch=300GB/s nics:2x25GB/s"
#define NVLS "servers:1 gpus:4 nvswitch=100GB/s,nvls"
static const struct {
    const char *cluster;
    ccl_collective_kind_t kind;
    const char *with;
    uint32_t channels;
    bool out_of_place;
} ROWS[] = {
    {PLAIN, CCL_ALLGATHER, "ring", 2, false},
    {PLAIN, CCL_ALLREDUCE, "ring", 1, false},
    {PLAIN, CCL_ALLREDUCE, "ring", 2, true},
    {PLAIN, CCL_REDUCESCATTER, "hm", 1, false},
    {PLAIN, CCL_ALLTOALL, "direct", 1, false},
    {PLAIN, CCL_BROADCAST, "tree", 1, false},
    {PLAIN, CCL_ALLREDUCE, "recursive", 1, false},
    {PLAIN, CCL_ALLREDUCE, "hm", 1, false},
    {NVLS, CCL_ALLREDUCE, "nvls", 1, false},
    {NVLS, CCL_ALLREDUCE, "nvls", 2, true},
    {NVLS, CCL_ALLGATHER, "nvls", 2, false},
    {NVLS, CCL_ALLGATHER, "nvls", 1, true},
    {NVLS, CCL_BROADCAST, "nvls", 1, true},
    {NVLS, CCL_ALLREDUCE, "nvls-pull", 2, false},
    {NVLS, CCL_ALLGATHER, "nvls-pull", 1, false},
    {"servers:1 gpus:9 nvswitch=100GB/s", CCL_ALLREDUCE, "ring", 1, false}, /* > 64 operations */
    {"servers:1 gpus:9 nvswitch=100GB/s,nvls", CCL_ALLREDUCE, "nvls", 1, false}};

START_TEST(test_runs) {
    ccl_topology_t *topo = NULL;
    ccl_collective_t *want = NULL;
    ccl_schedule_t *schedule = NULL;
    ccl_program_t *program = NULL;
    ccl_text_t text = {0};
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_synth_options_t synth = CCL_SYNTH_OPTIONS_INIT;
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    synth.channels = ROWS[_i].channels;
    synth.size_bytes = 64e6;
    lower.out_of_place = ROWS[_i].out_of_place;
    topo = topology(ROWS[_i].cluster);
    bool switches = strstr(ROWS[_i].with, "nvls") != NULL;
    bool widens = strcmp(ROWS[_i].with, "nvls-pull") == 0; /* own parts join the groups */
    ccl_routes_t *routes = ccl_routes_create(topo);
    ck_assert_int_eq(ccl_collective_create(ROWS[_i].kind, topo->nranks, 1, 0, &want, NULL), CCL_OK);
    ck_assert_msg(
        ccl_synthesize(NULL, ROWS[_i].with, topo, routes, want, &synth, &schedule, &err) == CCL_OK,
        "%s", err.text);
    ck_assert_int_eq(ccl_lower(NULL, schedule, &lower, &program, &err), CCL_OK);
    for (int servers = 0; servers < 2; servers++) {
        json_error_t where;
        ccl_text_fini(&text);

        ck_assert_msg(ccl_program_write_mscclpp(program, servers ? topo : NULL, &text, &err) ==
                          CCL_OK,
                      "%s", err.text);
        json_t *plan = json_loadb(text.data, text.len, JSON_REJECT_DUPLICATES, &where);
        ck_assert_msg(plan != NULL, "%d: %s", where.line, where.text);
        ck_assert(comes_right(plan, program->coll, false));
        ck_assert(comes_right(plan, program->coll, true));
        ck_assert_int_eq(strstr(text.data, "\"port\"") != NULL,
                         servers && strcmp(ROWS[_i].cluster, PLAIN) == 0);
        ck_assert_int_eq(strstr(text.data, "\"switch\"") != NULL, switches);
        check_round_trip(&text, program, servers ? topo : NULL, widens);
        /* A signal that is missing is missed. */
        json_t *ops = json_object_get(
            json_array_get(
                json_object_get(json_array_get(json_object_get(plan, "gpus"), 0), "threadblocks"),
                0),
            "ops");
        for (size_t i = json_array_size(ops); i-- > 0;)
            if (strcmp(word(json_array_get(ops, i), "name"), "signal") == 0) {
                json_array_remove(ops, i);
                break;
            }
        ck_assert(!comes_right(plan, program->coll, false));
        json_decref(plan);
    }
    ccl_text_fini(&text);
    ccl_program_destroy(program);
    ccl_schedule_destroy(schedule);
    ccl_collective_destroy(want);
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
}
END_TEST

/* What MSCCL++'s executor cannot do is refused, and it says what. */
static const struct {
    const char *cluster, *with;
    ccl_collective_kind_t kind;
    const char *why;
} REFUSED[] = {
    {NVLS, "nvls", CCL_REDUCESCATTER, "has no pull alone"},
    {"servers:1 gpus:10 nvswitch=100GB/s,nvls", "nvls", CCL_ALLREDUCE, "more than 16 channels"},
    {"dgx-h100-sharp-4", "collnet", CCL_ALLGATHER, "switches between servers"},
};

START_TEST(test_refused) {
    ccl_topology_t *topo = topology(REFUSED[_i].cluster);
    ccl_routes_t *routes = ccl_routes_create(topo);
    ccl_collective_t *want = NULL;
    ccl_schedule_t *schedule = NULL;
    ccl_program_t *program = NULL;
    ccl_text_t text = {0};
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_synth_options_t synth = CCL_SYNTH_OPTIONS_INIT;
    synth.channels = 1;
    synth.size_bytes = 1e6;
    MUST(ccl_collective_create(REFUSED[_i].kind, topo->nranks, 1, 0, &want, e));
    MUST(ccl_synthesize(NULL, REFUSED[_i].with, topo, routes, want, &synth, &schedule, e));
    MUST(ccl_lower(NULL, schedule, NULL, &program, e));
    ck_assert_int_eq(ccl_program_write_mscclpp(program, topo, &text, &err), CCL_UNSUPPORTED);
    ck_assert_msg(strstr(err.text, REFUSED[_i].why) != NULL, "%s", err.text);
    ccl_text_fini(&text);
    ccl_program_destroy(program);
    ccl_schedule_destroy(schedule);
    ccl_collective_destroy(want);
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
}
END_TEST

/* Plans that are read, and faults of them: a piece of the plan, what stands there instead, the
 * line. */
#define CHANNELS "\"channels\": [{\"channel_type\": \"memory\", \"channel_ids\": [0]}, "
static const char PLAN[] = "{\"name\": \"p\", \"collective\": \"allreduce\", \"protocol\": "
                           "\"Simple\", \"inplace\": true,\n"
                           "\"max_message_size\": 18446744073709551615, \"gpus\": [\n"
#define GPU(id_, peer_)                                                                            \
    "{\"id\": " id_ ", \"input_chunks\": 2, \"output_chunks\": 2, \"scratch_chunks\": 0,\n"        \
    "\"threadblocks\": [{\"id\": 0, \"ops\": [\n"                                                  \
    "{\"name\": \"rlxsignal\", \"channel_ids\": [0], \"channel_type\": \"memory\"},\n"             \
    "{\"name\": \"rlxwait\", \"channel_ids\": [0], \"channel_type\": \"memory\"}, {\"name\": "     \
    "\"nop\"},\n"                                                                                  \
    "{\"name\": \"glres\", \"src_buff\": [{\"switch_channel_id\": 0, \"index\": " id_              \
    ", \"size\": 1}],\n"                                                                           \
    "\"dst_buff\": [{\"switch_channel_id\": 0, \"index\": " id_ ", \"size\": 1}],\n"               \
    "\"channel_type\": \"switch\", \"reduce_op\": \"sum\"},\n"                                     \
    "{\"name\": \"rlxsignal\", \"channel_ids\": [0], \"channel_type\": \"memory\"},\n"             \
    "{\"name\": \"rlxwait\", \"channel_ids\": [0], \"channel_type\": \"memory\"}],\n" CHANNELS     \
    "{\"channel_type\": \"switch\", \"channel_ids\": [0]}], \"remote_buffer_refs\": []}],\n"       \
    "\"channels\": [{\"channel_type\": \"memory\", \"connected_to\": [" peer_ "]},\n"              \
    "{\"channel_type\": \"switch\", \"buffer_type\": \"i\", \"rank_groups\": [{\"size\": 2, "      \
    "\"ranks\": [0, 1]}]}],\n\"remote_buffers\": [], \"semaphores\": []}"
    GPU("0", "1") ",\n" GPU("1", "0") "]}";
static const struct {
    const char *from, *to;
    int line;
    const char *why;
} BAD[] = {
    {"rlxwait", "rlxwate", 6, "no operation"},
    {"{\"name\": \"nop\"}", "{\"name\": \"get\"}", 6, "get is not read"},
    {"{\"name\": \"nop\"}", "{\"name\": \"upkt\"}", 6, "packets"},
    {"\"reduce_op\": \"sum\"", "\"reduce_op\": \"max\"", 9, "add only"},
    {"\"channel_ids\": [0]", "\"channel_ids\": [1]", 5, "channels of this type"},
    {"\"index\": 0, \"size\": 1", "\"index\": 0, \"size\": 9", 7, "GPU 0 has 2 there"},
    {"\"inplace\": true", "\"inplace\": 1", 1, "true"},
    {"\"Simple\"", "\"LL\"", 1, "only Simple"},
    {"allreduce", "allreduced", 1, "no collective"},
    {"\"ranks\": [0, 1]", "\"ranks\": [1]", 14, "not in the group"},
    {"\"connected_to\": [1]", "\"connected_to\": [0]", 13, "to itself"},
    {"rlxsignal", "rlxwait", 6, "waits for ever"},
};

START_TEST(test_read) {
    ccl_program_t *program = NULL;
    ccl_verdict_t verdict;
    MUST(ccl_program_read_mscclpp("plan", PLAN, strlen(PLAN), &program, e));
    MUST(ccl_program_verify(NULL, program, NULL, &verdict, e));
    ck_assert_msg(verdict.valid, "%s", verdict.fault.text);
    ck_assert_uint_eq(program->ngroups, 1);
    ck_assert(program->max_bytes == 0);
    ccl_program_destroy(program);
    for (size_t i = 0; i < CCL_ARRAY_LEN(BAD); i++) {
        ccl_error_t err = CCL_ERROR_INIT;
        char text[4000];
        const char *at = strstr(PLAN, BAD[i].from);
        ck_assert_ptr_nonnull(at);
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - PLAN), PLAN, BAD[i].to,
                 at + strlen(BAD[i].from));
        ck_assert_int_eq(ccl_program_read_mscclpp("plan", text, strlen(text), &program, &err),
                         CCL_ERR_INPUT);
        ck_assert_ptr_null(program);
        ck_assert_msg(strstr(err.text, BAD[i].why) && err.line == BAD[i].line && err.column > 0,
                      "%s: %d:%d: %s", BAD[i].why, err.line, err.column, err.text);
    }
}
END_TEST

int main(void) {
    Suite *s = suite_create("mscclpp");
    TCase *t = tcase_create("mscclpp");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, test_runs, 0, CCL_ARRAY_LEN(ROWS));
    tcase_add_test(t, test_read);
    tcase_add_loop_test(t, test_refused, 0, CCL_ARRAY_LEN(REFUSED));
    suite_add_tcase(s, t);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}
