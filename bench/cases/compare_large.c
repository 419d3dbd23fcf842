/**
 * Baselines on a large cluster, each by itself, one thread: events (what of the work does not
 * depend on the machine), CPU seconds, most memory of the process so far, and the times, so that
 * less work for a worse schedule shows.
 * usage: bench_compare_large CLUSTER COLLECTIVE NAME,NAME... SIZE...   ("nccl": stock NCCL)
 */
#include "bench/common.h"
#include "search/compare/compare.h"

enum { SIZES = 16 };

static ccl_status_t one(const ccl_topology_t *topo, const ccl_collective_t *want, const char *name,
                        const double *sizes, uint32_t nsizes, ccl_error_t *err) {
    const ccl_contender_t contender = {.name = name, .library = strcmp(name, "nccl") == 0};
    ccl_compare_options_t options = CCL_COMPARE_OPTIONS_INIT;
    ccl_comparison_t *made = NULL;
    ccl_work_t work = {0};
    ccl_ctx_t ctx = CCL_CTX_INIT;
    double from_s = bench_cpu_s();

    options.contenders = &contender;
    options.ncontenders = 1;
    options.sizes_bytes = sizes;
    options.nsizes = nsizes;
    options.protocols = true;
    ctx.threads = 1;
    ctx.work = &work;
    CCL_TRY(ccl_compare(&ctx, topo, want, &options, &made, err));
    printf("%-10s %12llu events %7.2f s %6.0f MB ", name, (unsigned long long)work.events,
           bench_cpu_s() - from_s, bench_peak_mb());
    for (uint32_t s = 0; s < nsizes && !made->why_not[0]; s++)
        printf(" %.2f us", made->cells[s].time_s * 1e6);
    if (made->why_not[0])
        printf(" %s", made->why_not[0]);
    printf("\n");
    fflush(stdout);
    ccl_comparison_destroy(made);
    return CCL_OK;
}

int main(int argc, char **argv) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_topology_t *topo = NULL;
    ccl_collective_t *want = NULL;
    ccl_collective_kind_t kind;
    double sizes[SIZES];
    uint32_t nsizes = 0;

    if (argc < 5 || argc > 4 + SIZES) {
        fprintf(stderr, "usage: %s CLUSTER COLLECTIVE NAME,NAME... SIZE...\n", argv[0]);
        return 2;
    }
    ccl_status_t status = ccl_topology_read(NULL, argv[1], &topo, &err);
    if (status == CCL_OK)
        status = ccl_collective_kind_parse(argv[2], &kind, &err);
    if (status == CCL_OK)
        status = ccl_collective_create(kind, topo->nranks, 1, 0, &want, &err);
    for (int i = 4; status == CCL_OK && i < argc; i++)
        status = ccl_parse_bytes(argv[i], &sizes[nsizes++], &err);
    for (char *name = strtok(argv[3], ","); status == CCL_OK && name; name = strtok(NULL, ","))
        status = one(topo, want, name, sizes, nsizes, &err);
    if (status != CCL_OK)
        fprintf(stderr, "%s\n", err.text);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
    return status != CCL_OK;
}
