/**
 * How far the best contender of `compare` is from the bound, on clusters of which nobody has seen
 * any: 3 to 8 GPUs at random (small_clusters.h), and those that are named.
 * usage: bench_gaps SEED CLUSTERS SIZES [TOPOLOGY...]
 * SIZES: bytes with commas ("16384,1048576"). Per collective and size: cells, the least, median and
 * greatest gap (time over bound), the share of cells within 2, 10 and 50 percent, and where the
 * greatest is; CPU seconds in all.
 */
#include <math.h>

#include "bench/common.h"
#include "bench/small_clusters.h"
#include "search/compare/compare.h"

enum { MOST_SIZES = 16 };

typedef struct cell {
    double gap;
    char where[64], winner[64];
} cell_t;

typedef struct cells {
    cell_t *of;
    size_t n, cap;
} cells_t;

static ccl_status_t add(cells_t *cells, double gap, const char *where, const char *winner,
                        ccl_error_t *err) {
    if (!ccl_grow(&cells->of, &cells->cap, cells->n + 1, sizeof *cells->of))
        return ccl_fail_nomem(err);
    cell_t *c = &cells->of[cells->n++];
    c->gap = gap;
    snprintf(c->where, sizeof c->where, "%s", where);
    snprintf(c->winner, sizeof c->winner, "%s", winner);
    return CCL_OK;
}

static int by_gap(const void *a, const void *b) {
    double x = ((const cell_t *)a)->gap, y = ((const cell_t *)b)->gap;
    return (x > y) - (x < y);
}

/* All contenders that `compare` has by default, but stock NCCL. */
static ccl_status_t compare(const ccl_topology_t *topo, ccl_collective_kind_t kind,
                            const double *sizes, uint32_t nsizes, cells_t *cells,
                            ccl_error_t *err) {
    ccl_compare_options_t options = CCL_COMPARE_OPTIONS_INIT;
    ccl_contender_t contenders[64] = {{0}};
    ccl_collective_t *want = NULL;
    ccl_comparison_t *c = NULL;
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ctx.threads = 1;
    for (const ccl_synth_ops_t *const *ops = ccl_synth_all(); *ops && options.ncontenders < 64;
         ops++)
        if (!(*ops)->by_name)
            contenders[options.ncontenders++].name = (*ops)->name;
    options.contenders = contenders;
    options.sizes_bytes = sizes;
    options.nsizes = nsizes;
    options.protocols = true;
    CCL_TRY(ccl_collective_create(kind, topo->nranks, 1, 0, &want, err));
    ccl_status_t status = ccl_compare(&ctx, topo, want, &options, &c, err);
    for (uint32_t s = 0; status == CCL_OK && s < nsizes; s++) {
        uint32_t w = c->winner[s];
        if (w != CCL_NONE)
            status = add(&cells[s], c->cells[s * c->ncontenders + w].time_s / c->bound_s[s],
                         topo->name, c->names[w], err);
    }
    ccl_comparison_destroy(c);
    ccl_collective_destroy(want);
    return status;
}

static void print(const char *collective, double size, cells_t *cells) {
    size_t within[3] = {0, 0, 0};
    if (cells->n == 0)
        return;
    qsort(cells->of, cells->n, sizeof *cells->of, by_gap);
    for (size_t i = 0; i < cells->n; i++) {
        within[0] += cells->of[i].gap <= 1.02;
        within[1] += cells->of[i].gap <= 1.1;
        within[2] += cells->of[i].gap <= 1.5;
    }
    const cell_t *worst = &cells->of[cells->n - 1];
    double n = (double)cells->n;
    printf("%-13s %10.0f %5zu  %6.3f %6.3f %6.3f  %5.1f %5.1f %5.1f  %s by %s\n", collective, size,
           cells->n, cells->of[0].gap, cells->of[cells->n / 2].gap, worst->gap,
           100 * (double)within[0] / n, 100 * (double)within[1] / n, 100 * (double)within[2] / n,
           worst->where, worst->winner);
}

int main(int argc, char **argv) {
    static const ccl_collective_kind_t kinds[] = {CCL_ALLGATHER, CCL_REDUCESCATTER, CCL_ALLREDUCE,
                                                  CCL_BROADCAST, CCL_ALLTOALL};
    enum { KINDS = CCL_ARRAY_LEN(kinds) };
    cells_t cells[KINDS][MOST_SIZES] = {{{0}}};
    double sizes[MOST_SIZES], start = bench_cpu_s();
    uint32_t nsizes = 0;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_status_t status = CCL_OK;
    if (argc < 4) {
        fprintf(stderr, "usage: bench_gaps SEED CLUSTERS SIZES [TOPOLOGY...]\n");
        return 2;
    }
    for (char *at = argv[3]; *at && nsizes < MOST_SIZES; at += *at == ',')
        sizes[nsizes++] = strtod(at, &at);
    uint32_t random = (uint32_t)strtoul(argv[2], NULL, 10);
    for (uint32_t i = 0; i < random + (uint32_t)(argc - 4) && status == CCL_OK; i++) {
        ccl_topology_t *topo = NULL;
        if (i < random)
            topo = small_cluster(strtoull(argv[1], NULL, 10), i, &err);
        else
            status = ccl_topology_read(NULL, argv[4 + i - random], &topo, &err);
        if (!topo)
            status = status == CCL_OK ? CCL_ERR_INPUT : status;
        for (uint32_t k = 0; k < KINDS && status == CCL_OK; k++)
            status = compare(topo, kinds[k], sizes, nsizes, cells[k], &err);
        ccl_topology_destroy(topo);
        fprintf(stderr, "\r%u of %u, %.0f CPU s ", i + 1, random + (uint32_t)(argc - 4),
                bench_cpu_s() - start);
    }
    printf("\n%-13s %10s %5s  %6s %6s %6s  %5s %5s %5s  %s\n", "collective", "bytes", "cells",
           "least", "median", "worst", "<=1.02", "<=1.1", "<=1.5", "worst on");
    for (uint32_t k = 0; k < KINDS; k++)
        for (uint32_t s = 0; s < nsizes; s++) {
            print(ccl_collective_kind_name(kinds[k]), sizes[s], &cells[k][s]);
            free(cells[k][s].of);
        }
    printf("%.1f CPU s\n", bench_cpu_s() - start);
    if (status != CCL_OK)
        fprintf(stderr, "%s: %s\n", err.where, err.text);
    return status != CCL_OK;
}
