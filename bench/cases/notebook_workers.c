/*
 * A tuning by worker processes over lab notebooks, one after the other, twice: wall time by
 * notebook and how much of the first one's.
 *
 *   bench_notebook_workers POINTS WORKERS NOTEBOOK...
 *
 * Notebooks are files or postgresql:// URLs; every run has a seed of its own, so that nothing is
 * there before.
 */
#include "search/search.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 2 };

static int fail(const ccl_error_t *err) {
    fprintf(stderr, "%s\n", err->text);
    return 1;
}

static int work(const char *path) {
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_lab_options_t member = CCL_LAB_OPTIONS_INIT;
    ccl_tune_work_options_t options = CCL_TUNE_WORK_OPTIONS_INIT;
    ccl_notebook_t *notebook = NULL;
    ccl_lab_t *lab = NULL;
    uint64_t tasks = 0;
    member.works = true;
    if (ccl_notebook_open(path, true, &notebook, &err) != CCL_OK ||
        ccl_lab_join(&ctx, notebook, &member, &lab, &err) != CCL_OK ||
        ccl_tune_work(&ctx, lab, &options, &tasks, &err) != CCL_OK)
        return fail(&err);
    return 0;
}

/* Wall seconds of it; negative: it failed. */
static double tune(const char *path, uint64_t seed, uint64_t points, uint32_t *runs_out) {
    static const char *const knobs[] = {"with=ring,hm,direct,recursive,pairwise,hpds",
                                        "channels=auto,1:4", "chunks=auto,1:4"};
    double sizes[16];
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_lab_options_t member = CCL_LAB_OPTIONS_INIT;
    ccl_tune_options_t o = CCL_TUNE_OPTIONS_INIT;
    ccl_topology_t *topo = NULL;
    ccl_collective_t *want = NULL;
    ccl_space_t *space = NULL;
    ccl_notebook_t *notebook = NULL;
    ccl_lab_t *lab = NULL;
    ccl_tuning_t *tuning = NULL;
    ctx.seed = seed;
    ctx.threads = 1;
    for (uint32_t i = 0; i < CCL_ARRAY_LEN(sizes); i++)
        sizes[i] = 65536.0 * (1u << i);
    ccl_status_t status = ccl_topology_read(&ctx, "heteccl-h20-4+8", &topo, &err);
    if (status == CCL_OK)
        status = ccl_collective_create(CCL_ALLGATHER, topo->nranks, 1, 0, &want, &err);
    if (status == CCL_OK)
        status = ccl_space_create(&space, &err);
    for (size_t i = 0; i < CCL_ARRAY_LEN(knobs) && status == CCL_OK; i++)
        status = ccl_space_set(space, knobs[i], &err);
    if (status == CCL_OK)
        status = ccl_notebook_open(path, true, &notebook, &err);
    if (status == CCL_OK)
        status = ccl_lab_join(&ctx, notebook, &member, &lab, &err);
    o.space = space;
    o.strategy = CCL_STRATEGY_RANDOM;
    o.sizes_bytes = sizes;
    o.nsizes = CCL_ARRAY_LEN(sizes);
    o.budget_runs = points;
    o.notebook = notebook;
    o.lab = lab;
    double start_s = ccl_now_s();
    if (status == CCL_OK)
        status = ccl_tune(&ctx, topo, want, &o, &tuning, &err);
    double wall_s = ccl_now_s() - start_s;
    *runs_out = tuning ? tuning->nruns : 0;
    if (status != CCL_OK)
        fail(&err);
    ccl_tuning_destroy(tuning);
    ccl_lab_leave(lab);
    ccl_notebook_close(notebook);
    ccl_space_destroy(space);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
    return status == CCL_OK ? wall_s : -1;
}

int main(int argc, char **argv) {
    uint64_t points = argc > 3 ? strtoull(argv[1], NULL, 10) : 0;
    uint32_t workers = argc > 3 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0;
    double sums_s[16] = {0};
    if (!points || argc - 3 > (int)CCL_ARRAY_LEN(sums_s)) {
        fprintf(stderr, "usage: bench_notebook_workers POINTS WORKERS NOTEBOOK...\n");
        return 2;
    }
    for (uint64_t round = 0; round < ROUNDS; round++)
        for (int i = 3; i < argc; i++) {
            uint64_t seed = (uint64_t)getpid() * 1000 + round;
            uint32_t runs = 0;
            pid_t *others = calloc(workers + 1u, sizeof *others);
            for (uint32_t w = 0; w < workers && others; w++)
                if ((others[w] = fork()) == 0)
                    _exit(work(argv[i]));
            double wall_s = tune(argv[i], seed, points, &runs);
            for (uint32_t w = 0; w < workers && others; w++) {
                kill(others[w], SIGKILL);
                waitpid(others[w], NULL, 0);
            }
            free(others);
            if (wall_s < 0)
                return 1;
            sums_s[i - 3] += wall_s;
            printf("%s: %u points, %u workers: %.2f s\n", argv[i], runs, workers, wall_s);
            fflush(stdout);
        }
    for (int i = 4; i < argc; i++)
        printf("%s / %s: %.3f\n", argv[i], argv[3], sums_s[i - 3] / sums_s[0]);
    return 0;
}
