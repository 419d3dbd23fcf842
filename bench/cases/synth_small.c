/**
 * Work on small clusters: random ones of 3 to 8 GPUs, one collective each in turn, at a small and a
 * large size, by every synthesizer that comparisons have by default, one thread.
 * usage: bench_synth_small [--seed N] [--clusters N] [--from N] [--with NAME] [--all]
 *        [--against FILE] [TOPOLOGY...]
 * --all: all five collectives on every cluster. TOPOLOGY: these at the two sizes 64K and 64M
 * instead of random ones. A line of CSV per cluster, collective and synthesizer: CPU seconds for
 * both sizes (synthesis, lowering, proof, simulation), simulated times in microseconds, simulations
 * and their events (what of the work does not depend on the machine). Against the
 * output of another build: times that differ by more than 0.1 % are listed on stderr, with a
 * summary of CPU seconds per synthesizer.
 */
#include "bench/common.h"
#include "bench/small_clusters.h"
#include "search/compare/compare.h"

#include <math.h>

enum { SIZES = 2, MOST_NAMES = 32, MOST_ROWS = 65536 };

typedef struct row {
    char key[96]; /* cluster,gpus,links,collective,size,size,synthesizer */
    double cpu_s, us[SIZES];
    double runs, events;
} row_t;

typedef struct bench {
    uint64_t seed;
    uint32_t from, nclusters;
    bool all;
    const char *with;
    row_t *before, *rows; /* before: NULL, or of another build */
    size_t nbefore, nrows;
} bench_t;

static const ccl_collective_kind_t KINDS[] = {CCL_ALLREDUCE, CCL_ALLGATHER, CCL_REDUCESCATTER,
                                              CCL_BROADCAST, CCL_ALLTOALL};

/* ---------------------------------------------------------------- one question */

static ccl_status_t ask(const ccl_topology_t *topo, const ccl_collective_t *want, const char *name,
                        const double sizes[SIZES], row_t *row, ccl_error_t *err) {
    const ccl_contender_t contender = {.name = name};
    ccl_compare_options_t options = {.size = sizeof options,
                                     .contenders = &contender,
                                     .ncontenders = 1,
                                     .sizes_bytes = sizes,
                                     .nsizes = SIZES,
                                     .synth = CCL_SYNTH_OPTIONS_INIT,
                                     .lower = CCL_LOWER_OPTIONS_INIT,
                                     .sim = CCL_SIM_OPTIONS_INIT};
    ccl_comparison_t *made = NULL;
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ccl_work_t work = {0};
    double from_s = bench_cpu_s();

    ctx.threads = 1;
    ctx.work = &work;
    CCL_TRY(ccl_compare(&ctx, topo, want, &options, &made, err));
    row->cpu_s = bench_cpu_s() - from_s;
    row->runs = (double)work.runs;
    row->events = (double)work.events;
    for (uint32_t s = 0; s < SIZES; s++)
        row->us[s] = made->cells[s].status == CCL_OK ? made->cells[s].time_s * 1e6 : INFINITY;
    ccl_comparison_destroy(made);
    return CCL_OK;
}

static ccl_status_t ask_all(bench_t *b, const ccl_topology_t *topo, ccl_collective_kind_t kind,
                            const double sizes[SIZES], ccl_error_t *err) {
    ccl_collective_t *want = NULL;
    ccl_status_t status;

    CCL_TRY(ccl_collective_create(kind, topo->nranks, 1, 0, &want, err));
    status = CCL_OK;
    for (const ccl_synth_ops_t *const *ops = ccl_synth_all(); status == CCL_OK && *ops; ops++) {
        row_t *row = &b->rows[b->nrows];

        if ((b->with ? strcmp((*ops)->name, b->with) != 0 : (*ops)->by_name) ||
            b->nrows == MOST_ROWS)
            continue;
        snprintf(row->key, sizeof row->key, "%s,%u,%u,%s,%.0f,%.0f,%s", topo->name, topo->nranks,
                 topo->nlinks, want->name, sizes[0], sizes[1], (*ops)->name);
        status = ask(topo, want, (*ops)->name, sizes, row, err);
        if (status == CCL_OK) {
            b->nrows++;
            printf("%s,%.4f,%.6f,%.6f,%.0f,%.0f\n", row->key, row->cpu_s, row->us[0], row->us[1],
                   row->runs, row->events);
            fflush(stdout);
        }
    }
    ccl_collective_destroy(want);
    return status;
}

/* Cluster number 0 is the reported one. */
static ccl_status_t one(bench_t *b, uint32_t number, ccl_error_t *err) {
    ccl_topology_t *topo = NULL;
    ccl_status_t status = CCL_OK;
    double sizes[SIZES] = {1048576, 67108864};
    ccl_rng_t rng;

    if (number == 0)
        CCL_TRY(ccl_topology_read_text(NULL, "reported", SMALL_REPORTED, strlen(SMALL_REPORTED),
                                       &topo, err));
    else
        topo = small_cluster(b->seed, number, err);
    if (!topo)
        return CCL_ERR_INPUT;
    ccl_rng_init(&rng, b->seed + number);
    if (number > 0) {
        sizes[0] = exp2(10 + ccl_rng_below(&rng, 11));
        sizes[1] = exp2(21 + ccl_rng_below(&rng, 8));
    }
    for (uint32_t k = 0; status == CCL_OK && k < CCL_ARRAY_LEN(KINDS); k++) {
        if (b->all || k == number % CCL_ARRAY_LEN(KINDS))
            status = ask_all(b, topo, KINDS[k], sizes, err);
    }
    ccl_topology_destroy(topo);
    return status;
}

static ccl_status_t named(bench_t *b, const char *spec, ccl_error_t *err) {
    static const double sizes[SIZES] = {65536, 67108864};
    ccl_topology_t *topo = NULL;
    ccl_status_t status = ccl_topology_read(NULL, spec, &topo, err);

    for (uint32_t k = 0; status == CCL_OK && k < CCL_ARRAY_LEN(KINDS); k++) {
        if (b->all || k == 0)
            status = ask_all(b, topo, KINDS[k], sizes, err);
    }
    ccl_topology_destroy(topo);
    return status;
}

/* ---------------------------------------------------------------- against another build */

static bool read_before(bench_t *b, const char *path) {
    FILE *file = fopen(path, "r");
    char line[256];

    b->before = calloc(MOST_ROWS, sizeof *b->before);
    while (file && b->before && fgets(line, sizeof line, file) && b->nbefore < MOST_ROWS) {
        row_t *row = &b->before[b->nbefore];
        char *at = line;

        for (int k = 0; at && k < 7; k++) /* behind the key */
            at = strchr(at + 1, ',');
        if (!at || (size_t)(at - line) >= sizeof row->key)
            continue;
        memcpy(row->key, line, (size_t)(at - line));
        if (sscanf(at, ",%lf,%lf,%lf,%lf,%lf", &row->cpu_s, &row->us[0], &row->us[1], &row->runs,
                   &row->events) >= 3)
            b->nbefore++;
    }
    if (file)
        fclose(file);
    return file && b->before;
}

typedef struct total {
    char name[32];
    double before_s, after_s, worst_s, before_events, events;
    uint32_t n, over;
} total_t;

static void add_total(total_t *totals, const row_t *before, const row_t *after) {
    const char *name = strrchr(after->key, ',') + 1;
    total_t *t = totals;

    while (t->name[0] && strcmp(t->name, name) != 0)
        t++;
    snprintf(t->name, sizeof t->name, "%.31s", name);
    t->before_s += before ? before->cpu_s : 0;
    t->after_s += after->cpu_s;
    t->before_events += before ? before->events : 0;
    t->events += after->events;
    t->worst_s = fmax(t->worst_s, after->cpu_s);
    t->over += after->cpu_s >= 0.5;
    t->n++;
}

/* How many times are slower by more than 1 %. */
static uint32_t report(const bench_t *b) {
    total_t totals[MOST_NAMES + 1] = {{.n = 0}};
    uint32_t slower = 0;

    for (size_t i = 0; i < b->nrows; i++) {
        const row_t *now = &b->rows[i], *was = NULL;

        for (size_t k = 0; k < b->nbefore && !was; k++)
            was = strcmp(b->before[k].key, now->key) == 0 ? &b->before[k] : NULL;
        add_total(totals, was, now);
        for (uint32_t s = 0; was && s < SIZES; s++) {
            double ratio = now->us[s] / was->us[s];

            if (isinf(now->us[s]) && isinf(was->us[s]))
                continue;
            slower += !(ratio <= 1.01);
            if (!(fabs(ratio - 1) <= 1e-3))
                fprintf(stderr, "%s: size %u: %.6g us, was %.6g us: %.4f%s\n", now->key, s,
                        now->us[s], was->us[s], ratio, ratio > 1.01 ? " SLOWER" : "");
        }
    }
    fprintf(stderr, "%-14s %5s %9s %9s %9s %9s %12s %12s\n", "synthesizer", "n", "before_s",
            "cpu_s", "longest_s", "over 0.5", "events before", "events");
    for (const total_t *t = totals; t->name[0]; t++)
        fprintf(stderr, "%-14s %5u %9.3f %9.3f %9.3f %9u %12.0f %12.0f\n", t->name, t->n,
                t->before_s, t->after_s, t->worst_s, t->over, t->before_events, t->events);
    fprintf(stderr, "slower by more than 1 %%: %u\n", slower);
    return slower;
}

int main(int argc, char **argv) {
    bench_t b = {.seed = 1, .nclusters = 100};
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_status_t status = CCL_OK;
    int i = 1;

    b.rows = calloc(MOST_ROWS, sizeof *b.rows);
    for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        uint32_t number = (uint32_t)strtoul(value, NULL, 10);

        if (strcmp(argv[i], "--all") == 0) {
            b.all = true;
            continue;
        }
        i++;
        if (strcmp(argv[i - 1], "--seed") == 0)
            b.seed = number;
        else if (strcmp(argv[i - 1], "--clusters") == 0)
            b.nclusters = number;
        else if (strcmp(argv[i - 1], "--from") == 0)
            b.from = number;
        else if (strcmp(argv[i - 1], "--with") == 0)
            b.with = value;
        else if (strcmp(argv[i - 1], "--against") != 0 || !read_before(&b, value))
            b.nclusters = 0;
    }
    if (!b.rows || b.nclusters == 0) {
        fprintf(stderr,
                "usage: %s [--seed N] [--clusters N] [--from N] [--with NAME] [--all] "
                "[--against FILE] [TOPOLOGY...]\n",
                argv[0]);
        return 2;
    }
    bench_keep_memory();
    printf("cluster,gpus,links,collective,size0,size1,synthesizer,cpu_s,us0,us1,runs,events\n");
    for (uint32_t k = b.from; i == argc && status == CCL_OK && k < b.from + b.nclusters; k++)
        status = one(&b, k, &err);
    while (status == CCL_OK && i < argc)
        status = named(&b, argv[i++], &err);
    uint32_t slower = report(&b);
    if (status != CCL_OK)
        fprintf(stderr, "%s\n", err.text);
    free(b.rows);
    free(b.before);
    return status == CCL_OK && slower == 0 ? 0 : 1;
}
