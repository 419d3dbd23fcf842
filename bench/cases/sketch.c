/**
 * Sketches as SyCCL (SIGCOMM 2025) measures them: where time goes (its figure 16b), threads (16c),
 * and prunings switched off one by one (17a, 17b).
 * usage: bench_sketch phases|threads|prunings [TOPOLOGY...]
 * CSV; seconds of the synthesis alone (wall, cpu: the processor's), the least of three runs; us:
 * simulated time of what was made, in HPDS order at task level (0: no sketch reached all GPUs).
 * Sketches with a +: limits left some out.
 */
#include "bench/common.h"
#include "synth/synth.h"

typedef struct made {
    double wall_s, cpu_s, time_us; /* time 0: no sketch reached all GPUs */
    ccl_sketch_stats_t stats;      /* of the fastest run */
} made_t;

static int fail(const ccl_error_t *err) {
    fprintf(stderr, "%s\n", err->text);
    return 1;
}

static ccl_status_t simulate(const ccl_topology_t *topo, const ccl_schedule_t *schedule,
                             double size_bytes, double *us, ccl_error_t *err) {
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    ccl_program_t *program = NULL;
    ccl_sim_result_t *result = NULL;
    ccl_status_t status;

    lower.order = CCL_ORDER_HPDS;
    lower.granularity = sim.granularity = CCL_GRANULARITY_TASK;
    lower.topo = topo;
    lower.size_bytes = sim.size_bytes = size_bytes;
    status = ccl_lower(NULL, schedule, &lower, &program, err);
    if (status == CCL_OK)
        status = ccl_sim_program(NULL, topo, NULL, program, &sim, &result, err);
    if (status == CCL_OK)
        *us = result->time_s * 1e6;
    ccl_sim_result_destroy(result);
    ccl_program_destroy(program);
    return status;
}

static int make(const char *spec, ccl_collective_kind_t kind, double size_bytes, uint32_t threads,
                const ccl_sketch_options_t *sketch, made_t *out) {
    ccl_topology_t *topo = NULL;
    ccl_collective_t *want = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_status_t status = ccl_topology_read(NULL, spec, &topo, &err);

    if (status == CCL_OK)
        status = ccl_collective_create(kind, topo->nranks, 1, 0, &want, &err);
    *out = (made_t){.wall_s = 1e30, .cpu_s = 1e30};
    for (int k = 0; k < 3 && status == CCL_OK; k++) {
        ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
        ccl_synth_stats_t stats = {0};
        ccl_ctx_t ctx = CCL_CTX_INIT;
        ccl_schedule_t *schedule = NULL;
        double from_s, cpu_s = bench_cpu_s();

        ctx.threads = threads;
        options.size_bytes = size_bytes;
        options.stats = &stats;
        if (sketch)
            options.sketch = *sketch;
        from_s = ccl_now_s();
        status = ccl_synthesize(&ctx, "sketch", topo, NULL, want, &options, &schedule, &err);
        double wall_s = ccl_now_s() - from_s;

        cpu_s = bench_cpu_s() - cpu_s;
        if (status == CCL_UNSUPPORTED) {
            ccl_error_clear(&err);
            status = CCL_OK;
            out->wall_s = wall_s;
            out->cpu_s = cpu_s;
            out->stats = stats.sketch;
            break;
        }
        if (status == CCL_OK && cpu_s < out->cpu_s)
            out->cpu_s = cpu_s;
        if (status == CCL_OK && wall_s < out->wall_s) {
            out->wall_s = wall_s;
            out->stats = stats.sketch;
        }
        if (status == CCL_OK && k == 0)
            status = simulate(topo, schedule, size_bytes, &out->time_us, &err);
        ccl_schedule_destroy(schedule);
    }
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
    return status == CCL_OK ? 0 : fail(&err);
}

static const ccl_collective_kind_t kinds[] = {CCL_ALLGATHER, CCL_ALLTOALL};
static const char *const names[] = {"allgather", "alltoall"};

static int phases(const char *spec) {
    static const double sizes[] = {1024, 1048576, 67108864, 1073741824};

    for (size_t k = 0; k < CCL_ARRAY_LEN(kinds); k++) {
        for (size_t i = 0; i < CCL_ARRAY_LEN(sizes); i++) {
            made_t m;

            if (make(spec, kinds[k], sizes[i], 0, NULL, &m))
                return 1;
            printf("%s,%s,%.0f,%.4f,%.4f,%.4f,%.4f,%.4f,%.4f\n", spec, names[k], sizes[i],
                   m.stats.symmetry_s, m.stats.search_s, m.stats.solve_s, m.stats.combine_s,
                   m.stats.simulate_s, m.wall_s);
        }
    }
    return 0;
}

static int thread_counts(const char *spec) {
    for (size_t k = 0; k < CCL_ARRAY_LEN(kinds); k++) {
        made_t m[2];

        for (uint32_t t = 0; t < 2; t++) {
            if (make(spec, kinds[k], 1073741824, t + 1, NULL, &m[t]))
                return 1;
        }
        printf("%s,%s,%.3f,%.3f,%.2f\n", spec, names[k], m[0].wall_s, m[1].wall_s,
               m[0].wall_s / m[1].wall_s);
    }
    return 0;
}

static int prunings(const char *spec) {
    /* Caps high enough that rules, not caps, say what is left, where that can be waited for. */
    static const struct {
        const char *name;
        ccl_sketch_options_t options;
    } rows[] = {
        {"all", {.max_relays = CCL_NONE, .max_sketches = 1000}},
        {"without 1", {.keep_isomorphic = true, .max_relays = CCL_NONE, .max_sketches = 1000}},
        {"without 2", {.keep_inconsistent = true, .max_relays = CCL_NONE, .max_sketches = 1000}},
        {"without 3", {.keep_relayed = true, .max_relays = CCL_NONE, .max_sketches = 1000}},
        {"without 1 and 2",
         {.keep_isomorphic = true,
          .keep_inconsistent = true,
          .max_relays = CCL_NONE,
          .max_sketches = 1000}},
        {"no relays", {.max_relays = 0, .max_sketches = 1000}},
        {"3 stages",
         {.keep_relayed = true, .max_relays = CCL_NONE, .max_stages = 3, .max_sketches = 1000}},
        {"5 stages",
         {.keep_relayed = true, .max_relays = CCL_NONE, .max_stages = 5, .max_sketches = 1000}},
        {"10 stages",
         {.keep_relayed = true, .max_relays = CCL_NONE, .max_stages = 10, .max_sketches = 1000}},
    };

    for (size_t k = 0; k < CCL_ARRAY_LEN(kinds); k++) {
        for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
            made_t m;

            if (make(spec, kinds[k], 67108864, 0, &rows[i].options, &m))
                return 1;
            printf("%s,%s,%s,%llu,%llu%s,%.3f,%.1f\n", spec, names[k], rows[i].name,
                   (unsigned long long)m.stats.visited, (unsigned long long)m.stats.found,
                   m.stats.capped ? "+" : "", m.cpu_s, m.time_us);
            fflush(stdout);
        }
    }
    return 0;
}

int main(int argc, char **argv) {
    static const struct {
        const char *name, *head;
        int (*run)(const char *spec);
        const char *topologies[4];
    } what[] = {
        {"phases",
         "topology,collective,size_bytes,symmetry_s,search_s,solve_s,combine_s,simulate_s,wall_s",
         phases,
         {"syccl-a100-16", "syccl-a100-32", "syccl-h800-64"}},
        {"threads",
         "topology,collective,one_s,two_s,speedup",
         thread_counts,
         {"syccl-a100-16", "syccl-a100-32", "syccl-h800-64"}},
        {"prunings",
         "topology,collective,rules,visited,sketches,cpu_s,us",
         prunings,
         {"syccl-a100-16", "syccl-h800-64"}},
    };

    bench_keep_memory();
    for (size_t i = 0; argc > 1 && i < CCL_ARRAY_LEN(what); i++) {
        if (strcmp(argv[1], what[i].name) != 0)
            continue;
        printf("%s\n", what[i].head);
        for (int k = 2; k < argc; k++) {
            if (what[i].run(argv[k]))
                return 1;
        }
        for (size_t k = 0; argc == 2 && what[i].topologies[k]; k++) {
            if (what[i].run(what[i].topologies[k]))
                return 1;
        }
        return 0;
    }
    fprintf(stderr, "usage: bench_sketch phases|threads|prunings [TOPOLOGY...]\n");
    return 2;
}
