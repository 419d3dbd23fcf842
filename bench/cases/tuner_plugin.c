/*
 * What one call of an exported tuner plugin costs (ccllab export --tuner-plugin): CPU time per
 * getCollInfo of version 5, over sizes from 1 KiB to 1 GiB, as NCCL asks before a collective.
 * Usage: bench_tuner_plugin libnccl-tuner-ccllab.so RANKS NODES [CALLS]
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef int (*info_fn)(void *context, int func, size_t bytes, int ops, float **costs, int nalgos,
                       int nprotos, int registered, int *channels);
typedef struct tuner {
    const char *name;
    int (*init)(void **context, uint64_t id, size_t ranks, size_t nodes, void *log,
                const void *domains, void *constants);
    info_fn info;
    int (*end)(void *context);
} tuner_t;

int main(int argc, char **argv) {
    enum { ALGOS = 7, PROTOS = 3, FUNCS = 5, SIZES = 21 };
    float costs[ALGOS][PROTOS] = {{1}};
    void *context = NULL, *plugin = argc > 3 ? dlopen(argv[1], RTLD_NOW) : NULL;
    const tuner_t *tuner = plugin ? dlsym(plugin, "ncclTunerPlugin_v5") : NULL;
    long calls = argc > 4 ? atol(argv[4]) : 20000000, set = 0;
    int channels = 0;

    if (!tuner || tuner->init(&context, 1, strtoul(argv[2], NULL, 10), strtoul(argv[3], NULL, 10),
                              NULL, NULL, NULL) != 0) {
        fprintf(stderr, "usage: bench_tuner_plugin PLUGIN RANKS NODES [CALLS]\n");
        return 2;
    }
    clock_t start = clock();
    for (long i = 0; i < calls; i++) {
        costs[1][0] = costs[1][2] = 1;
        tuner->info(context, (int)(i % FUNCS), (size_t)1024 << (i % SIZES), 1,
                    (float **)(void *)costs, ALGOS, PROTOS, 0, &channels);
        set += costs[1][0] == 0 || costs[1][2] == 0;
    }
    double cpu_s = (double)(clock() - start) / CLOCKS_PER_SEC;
    printf("%ld calls, %ld of them with a ring of the table: %.1f ns of CPU time a call\n", calls,
           set, 1e9 * cpu_s / (double)calls);
    return tuner->end(context);
}
