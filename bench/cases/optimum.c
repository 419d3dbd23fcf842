/**
 * How loose the bound is, on clusters so small that the optimum is known: random ones of 3 to 6
 * GPUs, links alone (tiny_clusters.h), collectives and times; the size that just can be done in the
 * time, when data are cut as finely as one likes (tiny_fluid.h); the bound of that size; the best
 * schedule of whole chunks, 1 to MOST_PARTS of a block, proven and simulated (tiny_chunks.h); and
 * the best contender of `compare`.
 * usage: bench_optimum SEED CASES [NODES [EVERY]] NODES: of the search over whole chunks, 0: none;
 * EVERY: `compare` on every such round of all collectives, 0: on none.
 * A line per case, us; then by collective the share of cases whose optimum is within 0, 1, 5, 10
 * and 25 % of the bound, and the greatest; and likewise of programs over the optimum.
 */
#include "bench/common.h"
#include "bench/tiny_case.h"
#include "bench/tiny_program.h"
#include "search/compare/compare.h"

enum { MOST_PARTS = 3, KINDS = CCL_ARRAY_LEN(TINY_KINDS), LIMITS = 5 };

typedef struct tally {
    uint32_t n, unproven, within[LIMITS];
    double most;
} tally_t;

/* The optimum over the bound; over the optimum the best of whole chunks, of contenders, and of both
 * where both were tried. The last row is of all. */
enum { OPTIMUM, WHOLE, CONTENDERS, PROGRAMS, MEASURES };
static const char *const measures[] = {"optimum", "whole chunks", "compare", "best program"};

typedef struct run {
    uint64_t seed, nodes;
    uint32_t every, wrong;
    tally_t tallies[MEASURES][KINDS + 1];
} run_t;

static void count(run_t *run, uint32_t measure, uint32_t kind, double ratio, bool proven) {
    static const double limits[LIMITS] = {1e-6, 0.01, 0.05, 0.1, 0.25};
    for (uint32_t i = 0; i < 2; i++) {
        tally_t *t = &run->tallies[measure][i ? KINDS : kind];
        t->n++;
        t->unproven += !proven;
        t->most = fmax(t->most, ratio);
        for (uint32_t l = 0; l < LIMITS; l++)
            t->within[l] += ratio <= 1 + limits[l];
    }
}

static ccl_status_t simulated(const tiny_case_t *c, const ccl_collective_t *coll,
                              const tiny_plan_t *plan, double *time_s, ccl_error_t *err) {
    ccl_sim_options_t options = CCL_SIM_OPTIONS_INIT;
    ccl_sim_result_t *result = NULL;
    ccl_program_t *program = NULL;
    options.size_bytes = c->size_bytes;
    options.batches = 1;
    CCL_TRY(tiny_write(&c->net, coll, plan, &program, err));
    ccl_status_t status = ccl_sim_program(NULL, c->topo, NULL, program, &options, &result, err);
    *time_s = status == CCL_OK ? result->time_s : INFINITY;
    ccl_sim_result_destroy(result);
    ccl_program_destroy(program);
    return status;
}

/* The best of 1 to MOST_PARTS chunks of a block; of each the simulator must say what the plan does.
 */
static ccl_status_t whole(run_t *run, const tiny_case_t *c, double *best_s, bool *proven,
                          ccl_error_t *err) {
    *best_s = INFINITY;
    *proven = true;
    for (uint32_t parts = 1; parts <= MOST_PARTS && run->nodes; parts++) {
        ccl_collective_t *coll = NULL;
        tiny_plan_t plan;
        double time_s = INFINITY;
        CCL_TRY(ccl_collective_create(c->kind, c->net.ngpus, parts, c->root, &coll, err));
        ccl_status_t status = CCL_OK;
        bool there = tiny_chunks(&c->net, coll, c->size_bytes, c->optimum_s, run->nodes, &plan);
        if (there && isfinite(plan.time_s))
            status = simulated(c, coll, &plan, &time_s, err);
        ccl_collective_destroy(coll);
        if (status != CCL_OK)
            return status;
        if (isfinite(time_s) &&
            (plan.proven ? fabs(time_s - plan.time_s) > 1e-9 * plan.time_s
                         : time_s > plan.time_s * (1 + 1e-9))) {
            printf("the plan of %u parts takes %.9g us, its program %.9g\n", parts,
                   1e6 * plan.time_s, 1e6 * time_s);
            run->wrong++;
        }
        *proven = *proven && (!there || plan.proven);
        *best_s = fmin(*best_s, time_s);
    }
    return CCL_OK;
}

/* All contenders that `compare` has by default, but stock NCCL. */
static ccl_status_t contenders(const tiny_case_t *c, double *best_s, ccl_error_t *err) {
    ccl_compare_options_t options = CCL_COMPARE_OPTIONS_INIT;
    ccl_contender_t all[64] = {{0}};
    ccl_collective_t *want = NULL;
    ccl_comparison_t *result = NULL;
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ctx.threads = 1;
    for (const ccl_synth_ops_t *const *ops = ccl_synth_all(); *ops && options.ncontenders < 64;
         ops++)
        if (!(*ops)->by_name)
            all[options.ncontenders++].name = (*ops)->name;
    options.contenders = all;
    options.sizes_bytes = &c->size_bytes;
    options.nsizes = 1;
    CCL_TRY(ccl_collective_create(c->kind, c->net.ngpus, 1, c->root, &want, err));
    ccl_status_t status = ccl_compare(&ctx, c->topo, want, &options, &result, err);
    if (status == CCL_OK && result->winner[0] != CCL_NONE)
        *best_s = result->cells[result->winner[0]].time_s;
    ccl_comparison_destroy(result);
    ccl_collective_destroy(want);
    return status;
}

static ccl_status_t one(run_t *run, uint32_t number, ccl_error_t *err) {
    tiny_case_t c;
    double whole_s = INFINITY, best_s = INFINITY;
    bool proven = false;
    CCL_TRY(tiny_case(run->seed, number, &c, err));
    uint32_t kind = number % KINDS;
    ccl_status_t status = whole(run, &c, &whole_s, &proven, err);
    if (status == CCL_OK && run->every && number / KINDS % run->every == 0)
        status = contenders(&c, &best_s, err);
    double program_s = fmin(whole_s, best_s);
    printf("%5u %u GPUs %2u links %-13s %9.0f B  bound %7.3f by %-9s optimum %7.3f%s %6.4f", number,
           c.net.ngpus, c.net.nlinks, ccl_collective_kind_name(c.kind), c.size_bytes,
           1e6 * c.bound_s, ccl_bound_by_name(c.by), 1e6 * c.optimum_s, c.proven ? " " : "?",
           c.optimum_s / c.bound_s);
    count(run, OPTIMUM, kind, c.optimum_s / c.bound_s, c.proven);
    if (isfinite(whole_s)) {
        printf("  whole %7.3f%s", 1e6 * whole_s, proven ? "" : "?");
        count(run, WHOLE, kind, whole_s / c.optimum_s, proven);
    }
    if (isfinite(best_s)) {
        printf("  compare %7.3f", 1e6 * best_s);
        count(run, CONTENDERS, kind, best_s / c.optimum_s, true);
    }
    if (isfinite(best_s))
        count(run, PROGRAMS, kind, program_s / c.optimum_s, true);
    printf("\n");
    bool above = c.bound_s > c.optimum_s * (1 + 1e-9);
    bool below = c.kind != CCL_ALLREDUCE && program_s < c.optimum_s * (1 - 1e-6);
    if (above || below || program_s < c.bound_s * (1 - 1e-9))
        printf("WRONG: %s\n", above ? "the bound is above the optimum" : "a program is below it");
    run->wrong += above || below;
    tiny_case_fini(&c);
    return status;
}

static void print(const run_t *run, uint32_t measure) {
    printf("\n%-13s %5s %8s  %6s %6s %6s %6s %6s  %s\n", measures[measure], "cases", "unproven",
           "0 %", "1 %", "5 %", "10 %", "25 %", "greatest");
    for (uint32_t k = 0; k <= KINDS; k++) {
        const tally_t *t = &run->tallies[measure][k];
        if (t->n == 0)
            continue;
        printf("%-13s %5u %8u ", k < KINDS ? ccl_collective_kind_name(TINY_KINDS[k]) : "all", t->n,
               t->unproven);
        for (uint32_t l = 0; l < LIMITS; l++)
            printf(" %6.1f", 100.0 * t->within[l] / t->n);
        printf("  %8.2f\n", t->most);
    }
}

int main(int argc, char **argv) {
    static run_t run;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_status_t status = CCL_OK;
    double start_s = bench_cpu_s();
    if (argc < 3) {
        fprintf(stderr, "usage: bench_optimum SEED CASES [NODES [EVERY]]\n");
        return 2;
    }
    run.seed = strtoull(argv[1], NULL, 10);
    run.nodes = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
    run.every = argc > 4 ? (uint32_t)strtoul(argv[4], NULL, 10) : 0;
    uint32_t cases = (uint32_t)strtoul(argv[2], NULL, 10);
    for (uint32_t i = 0; i < cases && status == CCL_OK; i++)
        status = one(&run, i, &err);
    for (uint32_t m = 0; m < MEASURES; m++)
        print(&run, m);
    printf("%u wrong, %.1f CPU s\n", run.wrong, bench_cpu_s() - start_s);
    if (status != CCL_OK)
        fprintf(stderr, "%s: %s\n", err.where, err.text);
    return status != CCL_OK || run.wrong > 0;
}
