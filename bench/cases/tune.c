/*
 * Successive halving beside the full grid, on three clusters: how much of the grid's work it does,
 * and how near its best comes. Work is what runs and estimates took, synthesis left out.
 *
 *     bench_tune [THREADS]
 */
#include "search/tune/tune.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const clusters[] = {"heteccl-h20-4+8", "resccl-topo1", "hetccl-snu"};
static const char *const knobs[] = {"with=ring,recursive,direct,hm,packing", "channels=auto,1:8",
                                    "chunks=auto,1:4", "proto=auto", NULL};
static const double sizes[] = {1 << 20, 64 << 20, 1 << 30};

static ccl_tuning_t *tune(const ccl_topology_t *topo, ccl_strategy_t strategy, uint32_t threads) {
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ccl_tune_options_t options = CCL_TUNE_OPTIONS_INIT;
    ccl_collective_t *want = NULL;
    ccl_space_t *space = NULL;
    ccl_tuning_t *out = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ctx.threads = threads;
    bool good = ccl_space_create(&space, &err) == CCL_OK &&
                ccl_collective_create(CCL_ALLGATHER, topo->nranks, 1, 0, &want, &err) == CCL_OK;
    for (const char *const *k = knobs; good && *k; k++)
        good = ccl_space_set(space, *k, &err) == CCL_OK;
    options.space = space;
    options.strategy = strategy;
    options.sizes_bytes = sizes;
    options.nsizes = CCL_ARRAY_LEN(sizes);
    options.gap = 0;
    if (good)
        good = ccl_tune(&ctx, topo, want, &options, &out, &err) == CCL_OK;
    if (!good)
        fprintf(stderr, "%s\n", err.text);
    ccl_space_destroy(space);
    ccl_collective_destroy(want);
    return out;
}

int main(int argc, char **argv) {
    uint32_t threads = argc > 1 ? (uint32_t)atoi(argv[1]) : 0;
    printf("%-18s %6s %9s %9s %9s %7s  %s\n", "cluster", "grid", "grid_s", "halving_s", "share",
           "worse", "at most 15 % of the work, 2 % worse");
    for (size_t i = 0; i < CCL_ARRAY_LEN(clusters); i++) {
        ccl_topology_t *topo = NULL;
        if (ccl_topology_read(NULL, clusters[i], &topo, NULL) != CCL_OK)
            return 1;
        ccl_tuning_t *grid = tune(topo, CCL_STRATEGY_GRID, threads);
        ccl_tuning_t *halving = grid ? tune(topo, CCL_STRATEGY_HALVING, threads) : NULL;
        if (!halving)
            return 1;
        double worse = 0;
        for (uint32_t s = 0; s < grid->nsizes; s++) {
            double a = grid->runs[grid->best[s]].result.time_s;
            double b = halving->runs[halving->best[s]].result.time_s;
            worse = b / a - 1 > worse ? b / a - 1 : worse;
        }
        printf("%-18s %6.0f %9.3f %9.3f %8.1f%% %6.2f%%  %s\n", clusters[i], grid->space_points,
               grid->eval_s, halving->eval_s, 100 * halving->eval_s / grid->eval_s, 100 * worse,
               worse <= 0.02 && halving->eval_s <= 0.15 * grid->eval_s ? "yes" : "no");
        fflush(stdout);
        ccl_tuning_destroy(grid);
        ccl_tuning_destroy(halving);
        ccl_topology_destroy(topo);
    }
    return 0;
}
