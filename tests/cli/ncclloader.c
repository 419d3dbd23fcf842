/*
 * Plays NCCL's part for a tuner plugin: looks its versions up, makes communicators, asks for many
 * collectives with cost tables, ends. The interface is written down here a second time, from
 * NCCL's headers (plugins/tuner/example/nccl/tuner.h, src/include/plugin/tuner).
 *
 * Usage: ncclloader PLUGIN RANKS NODES LEAST MOST HASH ROWS: what the table is for, and a file with
 * a line "collective algo proto least most" for each of its ranges.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum { ncclSuccess = 0 } ncclResult_t;
typedef enum {
    ncclFuncBroadcast = 0,
    ncclFuncReduce = 1,
    ncclFuncAllGather = 2,
    ncclFuncReduceScatter = 3,
    ncclFuncAllReduce = 4,
    ncclFuncSendRecv = 5,
    ncclNumFuncs = 8
} ncclFunc_t;
typedef enum { NCCL_LOG_INFO = 3 } ncclDebugLogLevel;
typedef void (*ncclDebugLogger_t)(ncclDebugLogLevel level, unsigned long flags, const char *file,
                                  int line, const char *fmt, ...);
typedef struct {
    int nNvlDomains, minRanksPerNvlDomain, maxRanksPerNvlDomain;
} ncclNvlDomainInfo_t;
typedef struct {
    double baseLatencies[7][3], hwLatencies[3][7][3], llMaxBws[5][3], ring[5][3], treeLL128[5][3],
        tree[5][3], nvlsTree[5][3], bwRatio[2][7][3]; /* the largest: version 7, and RCCL's tail */
} ncclTunerConstants_t;
typedef ncclResult_t (*getCollInfo_t)(void *context, ncclFunc_t collType, size_t nBytes,
                                      int numPipeOps, float **collCostTable, int numAlgo,
                                      int numProto, int regBuff, int *nChannels);
typedef struct {
    const char *name;
    ncclResult_t (*init)(size_t nRanks, size_t nNodes, ncclDebugLogger_t log, void **context);
    getCollInfo_t getCollInfo;
    ncclResult_t (*destroy)(void *context);
} ncclTuner_v4_t;
typedef struct {
    const char *name;
    ncclResult_t (*init)(void **context, uint64_t commId, size_t nRanks, size_t nNodes,
                         ncclDebugLogger_t log, ncclNvlDomainInfo_t *domains,
                         ncclTunerConstants_t *constants);
    getCollInfo_t getCollInfo;
    ncclResult_t (*finalize)(void *context);
    ncclResult_t (*getChunkSize)(void *context, ncclFunc_t collType, size_t nBytes, int algo,
                                 int proto, int nChannels, size_t *chunkSize); /* from 6 on */
} ncclTuner_v7_t;

/* ---------------------------------------------------------------- what the table should say */

enum { ALGOS = 7, PROTOS = 3, MOST_ROWS = 400, COMMUNICATORS = 64 };
typedef struct {
    int func, algo, proto;
    uint64_t least, most;
} row_t;
static row_t rows[MOST_ROWS];
static size_t nrows;
static const char *const funcs[] = {"broadcast",     "reduce",    "allgather",
                                    "reducescatter", "allreduce", NULL};
static const char *const algos[] = {"tree", "ring",     "collnetdirect", "collnetchain",
                                    "nvls", "nvlstree", "pat",           NULL};
static const char *const protos[] = {"LL", "LL128", "Simple", NULL};

static void die(const char *format, ...) {
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}
#define MUST(what, ...) ((what) ? (void)0 : die(__VA_ARGS__))

static int word_at(const char *const *words, const char *word) {
    for (int i = 0; words[i]; i++)
        if (strcmp(words[i], word) == 0)
            return i;
    die("unknown word %s", word);
    return -1;
}

static void read_rows(const char *path) {
    char func[32], algo[32], proto[32];
    unsigned long long least, most;
    FILE *f = fopen(path, "r");
    MUST(f, "%s cannot be read", path);
    while (fscanf(f, "%31s %31s %31s %llu %llu", func, algo, proto, &least, &most) == 5) {
        MUST(nrows < MOST_ROWS, "too many rows");
        rows[nrows++] = (row_t){word_at(funcs, func), word_at(algos, algo), word_at(protos, proto),
                                least, most};
    }
    MUST(feof(f) && nrows > 0, "%s has no rows", path);
    fclose(f);
}

static const row_t *expected(int func, uint64_t bytes) {
    for (size_t i = 0; i < nrows; i++)
        if (rows[i].func == func && rows[i].least <= bytes && bytes <= rows[i].most)
            return &rows[i];
    return NULL;
}

/* ---------------------------------------------------------------- one call */

enum { CANARY = 1234 };

/* What NCCL asks about. */
typedef struct call {
    int func;
    uint64_t bytes;
    int ops, reg, nalgos;
} call_t;

/* Costs as NCCL hands them over, between canaries; what may not be taken is -1. */
static void check_call(getCollInfo_t ask, void *context, call_t call, const row_t *want,
                       int forbidden) {
    int func = call.func, nalgos = call.nalgos;
    uint64_t bytes = call.bytes;
    float costs[ALGOS * PROTOS + 2], before[ALGOS * PROTOS + 2];
    int channels = 77;
    size_t n = (size_t)nalgos * PROTOS;
    costs[0] = costs[n + 1] = CANARY;
    for (size_t i = 0; i < n; i++)
        costs[i + 1] = 1 + (float)i;
    if (forbidden && want)
        costs[1 + want->algo * PROTOS + want->proto] = -1;
    memcpy(before, costs, sizeof costs);
    if (want && !forbidden && want->algo < nalgos)
        before[1 + want->algo * PROTOS + want->proto] = 0;
    MUST(ask(context, (ncclFunc_t)func, bytes, call.ops, (float **)(void *)&costs[1], nalgos,
             PROTOS, call.reg, &channels) == ncclSuccess,
         "a call fails");
    for (size_t i = 0; i < n + 2; i++)
        MUST(costs[i] == before[i], "%s of %llu bytes: cost %zu is %g, not %g",
             func < 5 ? funcs[func] : "?", (unsigned long long)bytes, i - 1, (double)costs[i],
             (double)before[i]);
    MUST(channels == 77, "the number of channels was touched");
}

/* Everywhere that something changes, and between. @param known  the table is for it. */
static void check_communicator(getCollInfo_t ask, void *context, int known) {
    for (size_t i = 0; i < nrows; i++) {
        const uint64_t at[] = {rows[i].least,
                               rows[i].most,
                               rows[i].least - 1,
                               rows[i].most + 1,
                               rows[i].least + (rows[i].most - rows[i].least) / 2,
                               1,
                               UINT64_MAX >> 1};
        for (size_t k = 0; k < sizeof at / sizeof *at; k++) {
            const row_t *want = known ? expected(rows[i].func, at[k]) : NULL;
            check_call(ask, context, (call_t){rows[i].func, at[k], 1, 0, ALGOS}, want, 0);
            check_call(ask, context, (call_t){rows[i].func, at[k], 1, 0, ALGOS}, want, 1);
            check_call(ask, context, (call_t){rows[i].func, at[k], 1, 0, 6}, want,
                       0); /* without PAT */
            check_call(ask, context, (call_t){rows[i].func, at[k], 2, 0, ALGOS}, NULL, 0);
            check_call(ask, context, (call_t){rows[i].func, at[k], 1, 1, ALGOS}, NULL, 0);
        }
        check_call(ask, context, (call_t){rows[i].func, rows[i].least, 1, 0, 0}, NULL, 0);
    }
    for (int func = ncclFuncSendRecv; func < ncclNumFuncs + 8; func++)
        check_call(ask, context, (call_t){func, rows[0].least, 1, 0, ALGOS}, NULL, 0);
}

/* ---------------------------------------------------------------- communicators */

static void *plugin;
static size_t ranks, nodes;
static int least, most;

static void say(ncclDebugLogLevel level, unsigned long flags, const char *file, int line,
                const char *fmt, ...) {
    char text[400];
    va_list args;
    (void)line;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    MUST(level == NCCL_LOG_INFO && flags == 64 && strlen(file) > 0 && strstr(text, "ccllab"),
         "told: %s", text);
}

typedef struct {
    int version;
    size_t ranks, nodes;
    int least, most, known, logs, rounds;
} communicator_t;

static void *live(void *of) {
    const communicator_t *c = of;
    ncclTunerConstants_t constants, before;
    ncclNvlDomainInfo_t domains = {(int)c->nodes, c->least, c->most};
    char symbol[40];
    void *context = &domains;
    ncclResult_t done;
    getCollInfo_t ask;
    memset(&constants, 0x5a, sizeof constants);
    before = constants;
    snprintf(symbol, sizeof symbol, "ncclTunerPlugin_v%d", c->version);
    void *found = dlsym(plugin, symbol);
    MUST(found, "no %s", symbol);
    if (c->version == 4) {
        const ncclTuner_v4_t *t = found;
        MUST(strcmp(t->name, "ccllab") == 0, "it is called %s", t->name);
        done = t->init(c->ranks, c->nodes, c->logs ? say : NULL, &context);
        ask = t->getCollInfo;
    } else {
        const ncclTuner_v7_t *t = found;
        MUST(strcmp(t->name, "ccllab") == 0, "it is called %s", t->name);
        MUST(c->version < 6 || !t->getChunkSize, "chunks are not ours to change");
        done = t->init(&context, 0x1234, c->ranks, c->nodes, c->logs ? say : NULL,
                       c->least ? &domains : NULL, &constants);
        ask = t->getCollInfo;
    }
    MUST(done == ncclSuccess, "init fails");
    MUST(memcmp(&constants, &before, sizeof constants) == 0, "NCCL's constants were touched");
    for (int i = 0; i < c->rounds; i++)
        check_communicator(ask, context, c->known);
    if (c->version == 4)
        done = ((const ncclTuner_v4_t *)found)->destroy(context);
    else
        done = ((const ncclTuner_v7_t *)found)->finalize(context);
    MUST(done == ncclSuccess, "the end fails");
    return NULL;
}

static void alone(const char *hash) {
    for (int version = 4; version <= 7; version++) {
        communicator_t c = {version, ranks, nodes, least, most, 1, 1, 1}, other;
        live(&c);
        c.logs = 0;
        live(&c);
        other = c;
        other.least = 0; /* not told */
        live(&other);
        other = c;
        other.ranks++;
        other.known = 0;
        live(&other);
        other = c;
        other.nodes++;
        other.known = 0;
        live(&other);
        if (version > 4) {
            other = c;
            other.least++;
            other.known = 0;
            other.logs = 1;
            live(&other);
        }
        setenv("CCLLAB_TUNER_TOPOLOGY", "0123456789abcdef0123456789abcdef", 1);
        other = c;
        other.known = 0;
        live(&other);
        setenv("CCLLAB_TUNER_TOPOLOGY", hash, 1);
        live(&c);
        unsetenv("CCLLAB_TUNER_TOPOLOGY");
    }
    MUST(!dlsym(plugin, "ncclTunerPlugin_v3") && !dlsym(plugin, "ncclTunerPlugin_v8"),
         "versions that it cannot have");
}

static void together(void) {
    pthread_t threads[COMMUNICATORS];
    communicator_t c[COMMUNICATORS];
    for (int i = 0; i < COMMUNICATORS; i++) {
        int known = i % 3 != 2;
        c[i] = (communicator_t){4 + i % 4, ranks + !known, nodes, least, most, known, i % 2, 3};
        MUST(pthread_create(&threads[i], NULL, live, &c[i]) == 0, "no thread");
    }
    for (int i = 0; i < COMMUNICATORS; i++)
        pthread_join(threads[i], NULL);
}

int main(int argc, char **argv) {
    MUST(argc == 8, "usage: ncclloader PLUGIN RANKS NODES LEAST MOST HASH ROWS");
    plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    MUST(plugin, "%s", dlerror());
    ranks = strtoul(argv[2], NULL, 10);
    nodes = strtoul(argv[3], NULL, 10);
    least = atoi(argv[4]);
    most = atoi(argv[5]);
    read_rows(argv[7]);
    alone(argv[6]);
    together();
    dlclose(plugin);
    printf("%zu ranges, %d communicators at once: right\n", nrows, COMMUNICATORS);
    return 0;
}
