/**
 * What `sketch`'s parts gain (SyCCL, SIGCOMM 2025, figure 17): AllGather with and without proven
 * shapes, with a cold and a warm cache, with epochs of several lengths.
 * usage: bench_synth_sketch TOPOLOGY SIZE
 * A line each: seconds to synthesize, of these for sub-demands, questions asked of GLPK and found
 * in the cache, simulated time. The cache is a directory of its own, removed at the end.
 */
#include "bench/common.h"
#include "synth/synth.h"

#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

typedef struct row {
    const char *name;
    double coarse, fine; /* 0: the default */
    bool no_shapes, cache;
} row_t;

static const row_t ROWS[] = {
    {"default, no cache", 0, 0, false, false},
    {"cold cache", 0, 0, false, true},
    {"warm cache", 0, 0, false, true},
    {"no shapes", 0, 0, true, false},
    {"coarse only (3.0, 3.0)", 3, 3, false, false},
    {"fine only (0.5, 0.5)", 0.5, 0.5, false, false},
    {"E2 = 0.2", 3, 0.2, false, false},
    {"E2 = 1.0", 3, 1, false, false},
};

static ccl_status_t bench(const ccl_topology_t *topo, const row_t *row, double size,
                          const char *dir, ccl_error_t *err) {
    ccl_collective_t *want = NULL;
    ccl_schedule_t *schedule = NULL;
    ccl_program_t *program = NULL;
    ccl_sim_result_t *result = NULL;
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_synth_stats_t stats = {0};
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    ccl_way_t way = ccl_way_choose(ccl_synth_find("sketch")->way, (ccl_way_t){0}, 0);
    ccl_status_t status = ccl_collective_create(CCL_ALLGATHER, topo->nranks, 1, 0, &want, err);
    double start_s = ccl_now_s(), made_s = 0;

    options.size_bytes = lower.size_bytes = sim.size_bytes = size;
    options.sketch.coarse = row->coarse;
    options.sketch.fine = row->fine;
    options.sketch.no_shapes = row->no_shapes;
    options.sketch.cache = row->cache ? dir : NULL;
    options.stats = &stats;
    if (status == CCL_OK)
        status = ccl_synthesize(NULL, "sketch", topo, NULL, want, &options, &schedule, err);
    made_s = ccl_now_s() - start_s;
    if (status == CCL_OK) {
        lower.topo = topo;
        lower.order = way.order;
        lower.allocation = way.allocation;
        lower.granularity = sim.granularity = way.granularity;
        status = ccl_lower(NULL, schedule, &lower, &program, err);
    }
    if (status == CCL_OK)
        status = ccl_sim_program(NULL, topo, NULL, program, &sim, &result, err);
    if (status == CCL_OK)
        printf("%-24s %8.3f s %8.3f s %4u asked %4u cached %10.1f us\n", row->name, made_s,
               stats.sketch.solve_s, stats.sketch.milps, stats.sketch.cached, result->time_s * 1e6);
    ccl_sim_result_destroy(result);
    ccl_program_destroy(program);
    ccl_schedule_destroy(schedule);
    ccl_collective_destroy(want);
    return status;
}

static void clear(const char *dir) {
    DIR *d = opendir(dir);

    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
        char path[PATH_MAX];

        if (snprintf(path, sizeof path, "%s/%s", dir, e->d_name) < (int)sizeof path)
            unlink(path);
    }
    if (d)
        closedir(d);
    rmdir(dir);
}

int main(int argc, char **argv) {
    char dir[] = "sketch-cache-XXXXXX";
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_topology_t *topo = NULL;
    double size = 0;
    ccl_status_t status;

    if (argc != 3) {
        fprintf(stderr, "usage: %s TOPOLOGY SIZE\n", argv[0]);
        return 2;
    }
    status = ccl_parse_bytes(argv[2], &size, &err);
    if (status == CCL_OK)
        status = ccl_topology_read(NULL, argv[1], &topo, &err);
    if (status == CCL_OK && !mkdtemp(dir)) {
        perror(dir);
        ccl_topology_destroy(topo);
        return 1;
    }
    for (size_t i = 0; i < CCL_ARRAY_LEN(ROWS) && status == CCL_OK; i++)
        status = bench(topo, &ROWS[i], size, dir, &err);
    if (topo)
        clear(dir);
    if (status != CCL_OK)
        fprintf(stderr, "%s\n", err.text);
    ccl_topology_destroy(topo);
    return status == CCL_OK ? 0 : 1;
}
