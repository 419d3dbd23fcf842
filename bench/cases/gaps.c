/**
 * How far the best contender of `compare` is from the bound, on clusters of which nobody has seen
 * any: 3 to 8 GPUs at random (small_clusters.h), or more (random_clusters.h), and those that are
 * named.
 * usage: bench_gaps [OPTION...] SEED CLUSTERS SIZES [TOPOLOGY...]
 * SIZES: bytes with commas ("16384,1048576"). Per collective and size, links alone and with
 * transports apart: cells, the least, median and greatest gap (time over bound), the share of cells
 * within their goal and within 2, 10 and 50 percent, and where the greatest is; CPU seconds.
 *   -g LEAST:MOST  random clusters of that many GPUs, 8 to 64 at most
 *   -f NUMBER      the first cluster's number (0)
 *   -c             a line for each cell when it is known: cluster, collective, bytes, time in us,
 *                  gap, winner, CPU seconds of the cluster's collective
 *   -w             write cluster NUMBER as JSON and do no more
 */
#include <math.h>
#include <unistd.h>

#include "bench/common.h"
#include "bench/random_clusters.h"
#include "search/compare/compare.h"

static const ccl_collective_kind_t kinds[] = {CCL_ALLGATHER, CCL_REDUCESCATTER, CCL_ALLREDUCE,
                                              CCL_BROADCAST, CCL_ALLTOALL};

enum { MOST_SIZES = 16, KINDS = CCL_ARRAY_LEN(kinds) };

typedef struct cell {
    double gap;
    char where[64], winner[64];
} cell_t;

typedef struct cells {
    cell_t *of;
    size_t n, cap;
} cells_t;

typedef struct gaps {
    uint64_t seed;
    uint32_t clusters, first, least, most, nsizes;
    bool lines;
    double sizes[MOST_SIZES];
    cells_t cells[2][KINDS][MOST_SIZES]; /* links alone; with transports */
} gaps_t;

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
static ccl_status_t compare(gaps_t *g, const ccl_topology_t *topo, uint32_t kind,
                            ccl_error_t *err) {
    ccl_compare_options_t options = CCL_COMPARE_OPTIONS_INIT;
    ccl_contender_t contenders[64] = {{0}};
    ccl_collective_t *want = NULL;
    ccl_comparison_t *c = NULL;
    ccl_ctx_t ctx = CCL_CTX_INIT;
    double start = bench_cpu_s();
    ctx.threads = 1;
    for (const ccl_synth_ops_t *const *ops = ccl_synth_all(); *ops && options.ncontenders < 64;
         ops++)
        if (!(*ops)->by_name)
            contenders[options.ncontenders++].name = (*ops)->name;
    options.contenders = contenders;
    options.sizes_bytes = g->sizes;
    options.nsizes = g->nsizes;
    options.protocols = true;
    CCL_TRY(ccl_collective_create(kinds[kind], topo->nranks, 1, 0, &want, err));
    ccl_status_t status = ccl_compare(&ctx, topo, want, &options, &c, err);
    for (uint32_t s = 0; status == CCL_OK && s < g->nsizes; s++) {
        uint32_t w = c->winner[s];
        if (w == CCL_NONE)
            continue;
        double time_s = c->cells[s * c->ncontenders + w].time_s, gap = time_s / c->bound_s[s];
        status = add(&g->cells[topo->ntransports > 0][kind][s], gap, topo->name, c->names[w], err);
        if (g->lines)
            printf("%-28s %-13s %10.0f %12.3f %7.4f %-9s %6.1f\n", topo->name,
                   ccl_collective_kind_name(kinds[kind]), g->sizes[s], 1e6 * time_s, gap,
                   c->names[w], bench_cpu_s() - start);
    }
    fflush(stdout);
    ccl_comparison_destroy(c);
    ccl_collective_destroy(want);
    return status;
}

/* The gap to reach (docs/bounds.md): small, 1 MiB, 64 MiB, 1 GiB. */
static double goal(bool transports, ccl_collective_kind_t kind, double bytes) {
    static const double all[2][4] = {{1.15, 1.15, 1.03, 1.02}, {1.5, 1.5, 1.08, 1.03}};
    static const double allreduce[2][4] = {{1.3, 1.25, 1.05, 1.02}, {2, 1.8, 1.12, 1.03}};
    uint32_t at = bytes < 0x1p18 ? 0 : bytes < 0x1p23 ? 1 : bytes < 0x1p28 ? 2 : 3;
    return (kind == CCL_ALLREDUCE ? allreduce : all)[transports][at];
}

static void print(ccl_collective_kind_t kind, double size, double most, cells_t *cells) {
    static const double most_of[3] = {1.02, 1.1, 1.5};
    size_t within[4] = {0, 0, 0, 0};
    if (cells->n == 0)
        return;
    qsort(cells->of, cells->n, sizeof *cells->of, by_gap);
    for (size_t i = 0; i < cells->n; i++)
        for (int k = 0; k < 4; k++)
            within[k] += cells->of[i].gap <= (k == 3 ? most : most_of[k]);
    const cell_t *worst = &cells->of[cells->n - 1];
    double n = 0.01 * (double)cells->n;
    printf("%-13s %10.0f %5zu  %6.3f %6.3f %6.3f  %5.1f %5.1f %5.1f  %4.2f %5.1f  %s by %s\n",
           ccl_collective_kind_name(kind), size, cells->n, cells->of[0].gap,
           cells->of[cells->n / 2].gap, worst->gap, (double)within[0] / n, (double)within[1] / n,
           (double)within[2] / n, most, (double)within[3] / n, worst->where, worst->winner);
}

static void print_all(gaps_t *g) {
    for (uint32_t t = 0; t < 2; t++) {
        printf("\n%-13s %10s %5s  %6s %6s %6s  %5s %5s %5s  %4s %5s  worst on\n",
               t ? "transports" : "links alone", "bytes", "cells", "least", "median", "worst",
               "<=1.02", "<=1.1", "<=1.5", "goal", "met");
        for (uint32_t k = 0; k < KINDS; k++)
            for (uint32_t s = 0; s < g->nsizes; s++) {
                print(kinds[k], g->sizes[s], goal(t, kinds[k], g->sizes[s]), &g->cells[t][k][s]);
                free(g->cells[t][k][s].of);
            }
    }
}

static ccl_topology_t *make(const gaps_t *g, uint32_t number, ccl_error_t *err) {
    return g->most ? random_cluster(g->seed, number, g->least, g->most, err)
                   : small_cluster(g->seed, number, err);
}

static ccl_status_t write_one(const gaps_t *g, ccl_error_t *err) {
    ccl_topology_t *topo = make(g, g->first, err);
    ccl_text_t text = {0};
    ccl_status_t status = topo ? ccl_topology_write_json(topo, &text, err) : CCL_ERR_INPUT;
    if (status == CCL_OK)
        fputs(text.data, stdout);
    ccl_text_fini(&text);
    ccl_topology_destroy(topo);
    return status;
}

static ccl_status_t run(gaps_t *g, char **named, uint32_t nnamed, ccl_error_t *err) {
    double start = bench_cpu_s();
    ccl_status_t status = CCL_OK;
    for (uint32_t i = 0; i < g->clusters + nnamed && status == CCL_OK; i++) {
        ccl_topology_t *topo = NULL;
        if (i < g->clusters)
            topo = make(g, g->first + i, err);
        else
            status = ccl_topology_read(NULL, named[i - g->clusters], &topo, err);
        if (!topo)
            status = status == CCL_OK ? CCL_ERR_INPUT : status;
        for (uint32_t k = 0; k < KINDS && status == CCL_OK; k++)
            status = compare(g, topo, k, err);
        ccl_topology_destroy(topo);
        fprintf(stderr, "\r%u of %u, %.0f CPU s ", i + 1, g->clusters + nnamed,
                bench_cpu_s() - start);
    }
    print_all(g);
    printf("%.1f CPU s\n", bench_cpu_s() - start);
    return status;
}

/* False: wrong use. */
static bool parse(gaps_t *g, int argc, char **argv, bool *writes) {
    int option;
    while ((option = getopt(argc, argv, "g:f:cw")) != -1) {
        if (option == 'g' && (sscanf(optarg, "%u:%u", &g->least, &g->most) != 2 || g->least < 8 ||
                              g->most < 2 * g->least || g->most > 64))
            return false;
        g->first = option == 'f' ? (uint32_t)strtoul(optarg, NULL, 10) : g->first;
        g->lines |= option == 'c';
        *writes |= option == 'w';
        if (option == '?')
            return false;
    }
    if (argc - optind < (*writes ? 1 : 3))
        return false;
    g->seed = strtoull(argv[optind], NULL, 10);
    if (*writes)
        return true;
    g->clusters = (uint32_t)strtoul(argv[optind + 1], NULL, 10);
    for (char *at = argv[optind + 2]; *at && g->nsizes < MOST_SIZES; at += *at == ',')
        g->sizes[g->nsizes++] = strtod(at, &at);
    return true;
}

int main(int argc, char **argv) {
    gaps_t g = {.seed = 0};
    ccl_error_t err = CCL_ERROR_INIT;
    bool writes = false;
    if (!parse(&g, argc, argv, &writes)) {
        fprintf(stderr, "usage: bench_gaps [-g LEAST:MOST] [-f NUMBER] [-c] SEED CLUSTERS SIZES "
                        "[TOPOLOGY...]\n       bench_gaps [-g LEAST:MOST] -f NUMBER -w SEED\n");
        return 2;
    }
    ccl_status_t status = writes ? write_one(&g, &err)
                                 : run(&g, argv + optind + 3, (uint32_t)(argc - optind - 3), &err);
    if (status != CCL_OK)
        fprintf(stderr, "%s: %s\n", err.where, err.text);
    return status != CCL_OK;
}
