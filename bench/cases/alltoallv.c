/**
 * Plans of AllToAllv: how long they take from matrix to verified schedule, and how near the bound
 * the simulated schedule comes over links alone. usage: bench_alltoallv plan TOPOLOGY [TRAFFIC...]
 * first plan, plan of another matrix, replan bench_alltoallv gap TOPOLOGY [TRAFFIC...]    time over
 * the bound, and of NAMES beside it Traffic: zipf:T of pairs of GPUs, experts:T and gini:G of
 * destinations, hot:X (one destination gets X times as much), even. NAMES (environment) lists
 * synthesizers to compare, EDIT an edit of the topology; with TIMES plan simulates what was
 * replanned and a plan from the start beside it, SEED of gap chooses who is hot. 256 MB a GPU.
 */
#include <math.h>

#include <jansson.h>

#include "bench/common.h"
#include "synth/synth.h"

static const char *const all_traffic[] = {"zipf:0.4",    "zipf:0.8", "zipf:1.2",
                                          "experts:0.8", "hot:20",   "gini:0.1",
                                          "gini:0.2",    "gini:0.3", "even"};

static void shuffle(double *x, size_t n, ccl_rng_t *rng) {
    for (size_t i = n; i > 1; i--) {
        size_t j = ccl_rng_below(rng, (uint32_t)i);
        double t = x[i - 1];
        x[i - 1] = x[j];
        x[j] = t;
    }
}

/* 256 MB a GPU on average; `seed` chooses who is hot. */
static double *traffic(const char *spec, uint32_t n, uint64_t seed) {
    const char *colon = strchr(spec, ':');
    double arg = colon ? strtod(colon + 1, NULL) : 0, sum = 0;
    double *m = calloc((size_t)n * n, sizeof *m), *w = calloc((size_t)n * n, sizeof *w);
    ccl_rng_t rng;
    ccl_rng_init(&rng, seed);
    if (spec[0] == 'z') {
        for (size_t i = 0; i < (size_t)n * n; i++)
            m[i] = pow((double)i + 1, -arg);
        shuffle(m, (size_t)n * n, &rng);
    } else {
        for (uint32_t d = 0; d < n; d++)
            w[d] = spec[0] == 'h'   ? d == 0 ? arg : 1
                   : spec[0] == 'g' ? pow((d + 1.0) / n, 2 * arg / (1 - arg))
                                    : pow(d + 1.0, -arg);
        shuffle(w, n, &rng);
        for (uint32_t s = 0; s < n; s++)
            for (uint32_t d = 0; d < n; d++)
                m[(size_t)s * n + d] =
                    w[d] * (spec[0] == 'e' && spec[1] == 'v' ? 1 : 0.9 + 0.2 * ccl_rng_unit(&rng));
    }
    for (size_t i = 0; i < (size_t)n * n; i++)
        sum += m[i] *= i / n == i % n ? 0 : 1;
    for (size_t i = 0; i < (size_t)n * n; i++)
        m[i] = round(m[i] * 256e6 * n / sum);
    free(w);
    return m;
}

/* A tenth of the blocks get other bytes. */
static void change(double *m, uint32_t n, uint64_t seed) {
    ccl_rng_t rng;
    ccl_rng_init(&rng, seed);
    for (size_t i = 0; i < (size_t)n * n; i++)
        if (ccl_rng_below(&rng, 10) == 0)
            m[i] = round(m[i] * (0.5 + ccl_rng_unit(&rng)));
}

static ccl_status_t links_alone(const char *spec, ccl_topology_t **out, ccl_error_t *err) {
    ccl_topology_t *topo = NULL, *edited = NULL;
    ccl_text_t text = {0};
    size_t i;
    json_t *x;
    CCL_TRY(ccl_topology_read(NULL, spec, &topo, err));
    for (char *edit = getenv("EDIT") ? strtok(strdup(getenv("EDIT")), ";") : NULL; edit;
         edit = strtok(NULL, ";")) {
        CCL_TRY(ccl_topology_edit(topo, edit, &edited, err));
        ccl_topology_destroy(topo);
        topo = edited;
    }
    ccl_status_t status = ccl_topology_write_json(topo, &text, err);
    json_t *root = json_loadb(text.data, text.len, 0, NULL);
    ccl_text_fini(&text);
    json_object_del(root, "transports");
    json_object_del(root, "gpu_models");
    json_array_foreach(json_object_get(root, "devices"), i, x) json_object_del(x, "model");
    json_array_foreach(json_object_get(root, "links"), i, x) json_object_del(x, "latency");
    char *left = json_dumps(root, 0);
    if (status == CCL_OK)
        status = ccl_topology_read_text(NULL, topo->name, left, strlen(left), out, err);
    free(left);
    json_decref(root);
    ccl_topology_destroy(topo);
    return status;
}

/* ---------------------------------------------------------------- simulation */

static ccl_status_t simulate(const ccl_topology_t *topo, const ccl_schedule_t *schedule,
                             const ccl_way_t *preset, double size, double *time_out,
                             ccl_error_t *err) {
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    ccl_way_t way = ccl_way_choose(preset, (ccl_way_t){0}, 0);
    ccl_program_t *program = NULL;
    ccl_sim_result_t *result = NULL;
    lower.topo = topo;
    lower.order = way.order;
    lower.allocation = way.allocation;
    lower.granularity = sim.granularity = way.granularity;
    lower.size_bytes = sim.size_bytes = size;
    ccl_status_t status = ccl_lower(NULL, schedule, &lower, &program, err);
    if (status == CCL_OK)
        status = ccl_sim_program(NULL, topo, NULL, program, &sim, &result, err);
    if (status == CCL_OK)
        *time_out = result->time_s;
    ccl_sim_result_destroy(result);
    ccl_program_destroy(program);
    return status;
}

/* ---------------------------------------------------------------- planning */

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

enum { TURNS = 9 };
static double median(double *x) {
    qsort(x, TURNS, sizeof *x, by_value);
    return x[TURNS / 2];
}

/* What was replanned beside a plan from the start: loads, and with TIMES times. */
typedef struct beside {
    ccl_alltoallv_t *planner;
    double load, time;
} beside_t;

static ccl_status_t beside_cold(beside_t *b, const ccl_topology_t *topo, const double *m,
                                const ccl_schedule_t *again, double load_s, ccl_error_t *err) {
    const ccl_schedule_t *cold;
    ccl_alltoallv_report_t r;
    double again_s, cold_s;
    ccl_alltoallv_forget(b->planner);
    CCL_TRY(ccl_alltoallv_plan(b->planner, m, 0, &cold, &r, err));
    b->load = fmax(b->load, load_s / r.load_s);
    if (!getenv("TIMES"))
        return CCL_OK;
    CCL_TRY(simulate(topo, again, NULL, again->coll->natural_bytes, &again_s, err));
    CCL_TRY(simulate(topo, cold, NULL, cold->coll->natural_bytes, &cold_s, err));
    b->time = fmax(b->time, again_s / cold_s);
    return CCL_OK;
}

static ccl_status_t plan(const ccl_topology_t *topo, const char *spec, ccl_error_t *err) {
    ccl_alltoallv_t *planner = NULL;
    const ccl_schedule_t *schedule;
    ccl_alltoallv_report_t r;
    ccl_alltoallv_options_t options = CCL_ALLTOALLV_OPTIONS_INIT;
    beside_t beside = {0};
    double anew[TURNS], again[TURNS], made = bench_cpu_s();
    uint32_t n = topo->nranks;
    if (getenv("NO_SEARCH"))
        options.search_gpus = CCL_NONE;
    CCL_TRY(ccl_alltoallv_create(NULL, topo, &options, &planner, err));
    made = bench_cpu_s() - made;
    CCL_TRY(ccl_alltoallv_create(NULL, topo, &options, &beside.planner, err));
    double *first = traffic(spec, n, 100), cold = bench_cpu_s();
    ccl_status_t status = ccl_alltoallv_plan(planner, first, 0, &schedule, &r, err);
    cold = bench_cpu_s() - cold;
    double load = r.load_s / r.bound_s, replanned = 0, mb = 0;
    for (uint32_t i = 0; status == CCL_OK && i < TURNS; i++) {
        double *m = traffic(spec, n, 101 + i);
        ccl_alltoallv_forget(planner);
        anew[i] = bench_cpu_s();
        status = ccl_alltoallv_plan(planner, m, 0, &schedule, &r, err);
        anew[i] = bench_cpu_s() - anew[i];
        load = fmax(load, r.load_s / r.bound_s);
        change(m, n, i);
        again[i] = bench_cpu_s();
        if (status == CCL_OK)
            status = ccl_alltoallv_plan(planner, m, 0, &schedule, &r, err);
        again[i] = bench_cpu_s() - again[i];
        replanned = fmax(replanned, r.pairs ? (double)r.replanned / r.pairs : 0);
        if (i == 0)
            mb = bench_peak_mb();
        if (status == CCL_OK)
            status = beside_cold(&beside, topo, m, schedule, r.load_s, err);
        free(m);
    }
    if (status == CCL_OK)
        printf("%-24s %4u GPUs %-11s prepare %8.2f ms, first %8.2f, plan %8.3f, replan %8.3f "
               "(%3.0f %% "
               "of servers), load %.4f of the cut, replanned %.4f of a plan's load, %.4f of its "
               "time, %u transfers, %.0f MB\n",
               topo->name, n, spec, 1e3 * made, 1e3 * cold, 1e3 * median(anew), 1e3 * median(again),
               100 * replanned, load, beside.load, beside.time, schedule->ntransfers, mb);
    free(first);
    ccl_alltoallv_destroy(beside.planner);
    ccl_alltoallv_destroy(planner);
    return status;
}

/* ---------------------------------------------------------------- the gap */

static void demand_text(const double *m, uint32_t n, ccl_text_t *out) {
    ccl_text_printf(out, "{\"format\": \"ccllab-demand-1\", \"alltoallv\": [");
    for (uint32_t s = 0; s < n; s++) {
        for (uint32_t d = 0; d < n; d++)
            ccl_text_printf(out, "%s%.17g", d ? "," : s ? ",[" : "[", m[(size_t)s * n + d]);
        ccl_text_printf(out, "]");
    }
    ccl_text_printf(out, "]}");
}

static ccl_status_t gap(const ccl_topology_t *topo, const char *spec, ccl_error_t *err) {
    uint32_t n = topo->nranks;
    uint64_t seed = getenv("SEED") ? strtoull(getenv("SEED"), NULL, 0) : 7;
    double *m = traffic(spec, n, seed), time_s = 0, start = 0;
    ccl_text_t text = {0};
    ccl_collective_t *want = NULL;
    ccl_bound_t bound;
    ccl_bound_options_t bo = CCL_BOUND_OPTIONS_INIT;
    const char *others = getenv("NAMES") ? getenv("NAMES") : "";
    ccl_alltoallv_t *planner = NULL;
    const ccl_schedule_t *planned = NULL;
    ccl_alltoallv_report_t r;
    demand_text(m, n, &text);
    CCL_TRY(ccl_demand_read_text("traffic", text.data, text.len, &want, err));
    ccl_text_fini(&text);
    bo.size_bytes = want->natural_bytes;
    start = bench_cpu_s();
    CCL_TRY(ccl_bound(NULL, topo, want, &bo, &bound, err));
    printf("%-24s %-11s bound %9.2f us (%s, %.2f s)", topo->name, spec, 1e6 * bound.time_s,
           ccl_bound_proof_name(bound.bandwidth.proof), bench_cpu_s() - start);
    start = bench_cpu_s();
    CCL_TRY(ccl_alltoallv_create(NULL, topo, NULL, &planner, err));
    CCL_TRY(ccl_alltoallv_plan(planner, m, 0, &planned, &r, err));
    printf(" load %.4f%s", r.load_s / bound.time_s, r.searched ? " (searched)" : "");
    CCL_TRY(simulate(topo, planned, NULL, want->natural_bytes, &time_s, err));
    printf(" planned %.4f", time_s / bound.time_s);
    ccl_alltoallv_destroy(planner);
    for (char *all = strdup(others), *at = strtok(all, ","); at; at = strtok(NULL, ",")) {
        ccl_synth_options_t so = CCL_SYNTH_OPTIONS_INIT;
        ccl_schedule_t *schedule = NULL;
        so.size_bytes = want->natural_bytes;
        start = bench_cpu_s();
        ccl_status_t status = ccl_synthesize(NULL, at, topo, NULL, want, &so, &schedule, err);
        if (status == CCL_OK)
            status = simulate(topo, schedule, ccl_synth_find(at)->way, want->natural_bytes, &time_s,
                              err);
        if (status == CCL_OK)
            printf(" %s %.4f (%.1f s)", at, time_s / bound.time_s, bench_cpu_s() - start);
        else
            printf(" %s: %s", at, err->text);
        ccl_schedule_destroy(schedule);
        fflush(stdout);
    }
    printf("\n");
    ccl_bound_fini(&bound);
    ccl_collective_destroy(want);
    free(m);
    return CCL_OK;
}

int main(int argc, char **argv) {
    ccl_topology_t *topo = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    bench_keep_memory();
    if (argc < 3 || (strcmp(argv[1], "plan") != 0 && strcmp(argv[1], "gap") != 0)) {
        fprintf(stderr, "usage: %s plan|gap TOPOLOGY [TRAFFIC...]\n", argv[0]);
        return 2;
    }
    if (links_alone(argv[2], &topo, &err) != CCL_OK) {
        fprintf(stderr, "%s: %s\n", argv[2], err.text);
        return 1;
    }
    uint32_t n = argc > 3 ? (uint32_t)argc - 3 : CCL_ARRAY_LEN(all_traffic);
    int failed = 0;
    for (uint32_t i = 0; i < n; i++) {
        const char *spec = argc > 3 ? argv[3 + i] : all_traffic[i];
        if ((argv[1][0] == 'p' ? plan : gap)(topo, spec, &err) != CCL_OK) {
            printf("%s %s: %s\n", argv[2], spec, err.text);
            failed = 1;
        }
        fflush(stdout);
    }
    ccl_topology_destroy(topo);
    return failed;
}
