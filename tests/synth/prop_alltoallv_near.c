// timeout: 600
/*
 * How near alltoallv comes to the bound on random clusters with random traffic of 256 MB a GPU:
 * every schedule is verified, and none is above 1.25 of the bound without saying why. Never slower
 * than direct, pxn, pairwise and, on smaller clusters, greedy.
 */
#include "random_traffic.h"

enum { ROUNDS = 100, NIGHTLY_ROUNDS = 100000, GREEDY_GPUS = 8, MOST_GPUS = 32 };

/* Origins of what is further away say one of these. */
static const char *const reasons[] = {"of the time: latency, waiting", "no ways of up to",
                                      "better ways were not found", "no plan of alltoallv"};

static bool has_reason(const char *origin) {
    for (size_t i = 0; i < CCL_ARRAY_LEN(reasons); i++)
        if (strstr(origin, reasons[i]))
            return true;
    return false;
}

typedef struct near {
    uint64_t seed;
    const char *what; /* traffic */
    ccl_topology_t *topo;
    ccl_collective_t *want;
    ccl_schedule_t *schedule;
    double time_s;
} near_t;

static void near_init(near_t *c, uint64_t seed) {
    ccl_rng_t rng;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_verdict_t verdict;
    *c = (near_t){.seed = seed};
    ccl_rng_init(&rng, seed * 7919);
    c->topo = random_cluster(&rng, MOST_GPUS);
    double *bytes = random_traffic(&rng, c->topo->nranks, &c->what);
    c->want = demand_of(bytes, c->topo->nranks);
    free(bytes);
    options.size_bytes = c->want->natural_bytes;
    ck_assert_msg(ccl_synthesize(NULL, "alltoallv", c->topo, NULL, c->want, &options, &c->schedule,
                                 &err) == CCL_OK,
                  "seed %llu: %s: %s", (unsigned long long)seed, c->topo->name, err.text);
    ck_assert(ccl_schedule_verify(NULL, c->schedule, &verdict, &err) == CCL_OK);
    ck_assert_msg(verdict.valid, "seed %llu: %s", (unsigned long long)seed, verdict.fault.text);
    c->time_s = time_of(c->topo, c->schedule, "alltoallv", options.size_bytes);
}

static void near_fini(near_t *c) {
    ccl_schedule_destroy(c->schedule);
    ccl_collective_destroy(c->want);
    ccl_topology_destroy(c->topo);
}

/* @return  time over the bound. */
static double check_bound(const near_t *c) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_bound_options_t options = CCL_BOUND_OPTIONS_INIT;
    ccl_bound_t bound;
    options.size_bytes = c->want->natural_bytes;
    ck_assert_msg(ccl_bound(NULL, c->topo, c->want, &options, &bound, &err) == CCL_OK, "%s",
                  err.text);
    double gap = c->time_s / bound.time_s;
    ck_assert_msg(gap > 1 - 1e-9, "seed %llu: faster than the bound", (unsigned long long)c->seed);
    ck_assert_msg(gap <= 1.25 || has_reason(c->schedule->origin),
                  "seed %llu: %s, %s: %.3f of the bound, and no reason: %s",
                  (unsigned long long)c->seed, c->topo->name, c->what, gap, c->schedule->origin);
    ccl_bound_fini(&bound);
    const char *least = strstr(c->schedule->origin, "no ways of up to"),
               *link = strstr(c->schedule->origin, "busiest link ");
    if (least && link) /* what is proven to be the least is no more than what is reached */
        ck_assert_msg(strtod(strstr(least, "below ") + 6, NULL) <= strtod(link + 13, NULL) + 0.02,
                      "seed %llu: %s", (unsigned long long)c->seed, c->schedule->origin);
    return gap;
}

/* @param way  whose way of lowering; times of schedules that are lowered otherwise differ more. */
static void check_other(const near_t *c, const char *name, const char *way, double most) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_schedule_t *s = NULL;
    options.size_bytes = c->want->natural_bytes;
    ccl_status_t status = ccl_synthesize(NULL, name, c->topo, NULL, c->want, &options, &s, &err);
    ck_assert_msg(status == CCL_OK || status == CCL_UNSUPPORTED, "seed %llu: %s: %s",
                  (unsigned long long)c->seed, name, err.text);
    if (status == CCL_OK) {
        double time_s = time_of(c->topo, s, way, options.size_bytes);
        ck_assert_msg(c->time_s <= most * time_s, "seed %llu: %s, %s: %.3f of %s's time; %s",
                      (unsigned long long)c->seed, c->topo->name, c->what, c->time_s / time_s, name,
                      c->schedule->origin);
    }
    ccl_schedule_destroy(s);
}

/** @return  time over the bound. */
static double one_round(uint64_t seed) {
    static const char *const others[] = {"direct", "pxn", "pairwise"};
    near_t c;
    near_init(&c, seed);
    double gap = check_bound(&c);
    for (size_t i = 0; i < CCL_ARRAY_LEN(others); i++)
        check_other(&c, others[i], others[i], 1.01);
    if (c.topo->nranks <= GREEDY_GPUS) {
        check_other(&c, "greedy", "alltoallv", 1.01);
        check_other(&c, "greedy", "greedy", 1.05);
    }
    near_fini(&c);
    return gap;
}

START_TEST(near_the_bound_and_never_behind) {
    uint32_t rounds = nightly() ? NIGHTLY_ROUNDS : ROUNDS, far = 0;
    double sum = 0;
    uint64_t first = getenv("CCL_SEED") ? strtoull(getenv("CCL_SEED"), NULL, 0) : 1;
    for (uint64_t seed = first; seed < first + rounds; seed++) {
        double gap = one_round(seed);
        sum += gap;
        far += gap > 1.25;
    }
    ck_assert_msg(sum / rounds < 1.06 && far <= rounds / 20, "mean %.3f of the bound, %u of %u far",
                  sum / rounds, far, rounds);
}
END_TEST

/* Found by night: rates above what a link has, and chunks that greedy sent on in the step in which
 * they came. */
START_TEST(what_failed_once) {
    static const uint64_t seeds[] = {325, 1452, 3018};
    for (size_t i = 0; i < CCL_ARRAY_LEN(seeds); i++)
        one_round(seeds[i]);
}
END_TEST

/* Plans of the planner alone, links alone: what was reached, and a little more. */
START_TEST(plans_are_as_near_as_they_were) {
    static const struct {
        const char *spec, *edit;
        double even, skewed, hot; /* time over the cut, at most */
    } rows[] = {
        {"dgx-h100*4", NULL, 1.0015, 1.007, 1.001},
        {"h20-x4*2+h20-x8", NULL, 1.001, 1.0015, 1.002},
        {"nd-a100-v4*2", NULL, 1.044, 1.052, 1.046},
        {"mi300x-x8*2", NULL, 1.005, 1.034, 1.006},
        {"mi300x-x8*4", NULL, 1.005, 1.012, 1.009},
        {"dgx-h100*4", "degrade:nic:0=50%", 1.001, 1.02, 1.001},
        {"servers:2 gpus:4 nvswitch=100GB/s nics:3x100GB/s", NULL, 1.055, 1.21, 1.008},
        {"mi250-x16*2", NULL, 1.17, 1.185, 1.3},
    };
    for (size_t i = 0; i < 3 * CCL_ARRAY_LEN(rows); i++) {
        ccl_topology_t *made = topology(rows[i / 3].spec), *edited = NULL;
        if (rows[i / 3].edit) {
            ck_assert(ccl_topology_edit(made, rows[i / 3].edit, &edited, NULL) == CCL_OK);
            ccl_topology_destroy(made);
            made = edited;
        }
        ccl_topology_t *topo = links_alone(made);
        uint32_t n = topo->nranks, kind = i % 3;
        double *m = calloc((size_t)n * n, sizeof *m);
        ccl_alltoallv_t *planner = NULL;
        const ccl_schedule_t *s = NULL;
        ccl_alltoallv_report_t r;
        ccl_rng_t rng;
        ccl_rng_init(&rng, 11);
        for (size_t k = 0; k < (size_t)n * n; k++) {
            double u = ccl_rng_unit(&rng);
            m[k] = kind == 0 ? 8e6 : kind == 1 ? 1e6 / (u + 0.02) : k % n == 3 ? 80e6 : 4e6;
        }
        ck_assert(ccl_alltoallv_create(NULL, topo, NULL, &planner, NULL) == CCL_OK);
        ck_assert(ccl_alltoallv_plan(planner, m, 0, &s, &r, NULL) == CCL_OK);
        double gap = time_of(topo, s, "alltoallv", s->coll->natural_bytes) / r.bound_s;
        double most = kind == 0   ? rows[i / 3].even
                      : kind == 1 ? rows[i / 3].skewed
                                  : rows[i / 3].hot;
        ck_assert_msg(gap <= most, "%s, matrix %u: %.4f of the cut, not %.4f", rows[i / 3].spec,
                      kind, gap, most);
        ccl_alltoallv_destroy(planner);
        free(m);
        ccl_topology_destroy(topo);
        ccl_topology_destroy(made);
    }
}
END_TEST

/* Even blocks where the server's switch is as busy as its NICs: the first plan takes 1.46 of the
   bound. */
START_TEST(a_second_round_mends_what_waits) {
    ccl_topology_t *topo = topology("servers:2 gpus:8 nvswitch=150GB/s nics:6x100GB/s fabric=rail");
    near_t c = {.topo = topo, .what = "even"};
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    double m[256];
    for (uint32_t i = 0; i < 256; i++)
        m[i] = i / 16 == i % 16 ? 0 : 17e6;
    c.want = demand_of(m, 16);
    options.size_bytes = c.want->natural_bytes;
    ck_assert(ccl_synthesize(NULL, "alltoallv", topo, NULL, c.want, &options, &c.schedule, NULL) ==
              CCL_OK);
    c.time_s = time_of(topo, c.schedule, "alltoallv", options.size_bytes);
    ck_assert_double_le(check_bound(&c), 1.1);
    near_fini(&c);
}
END_TEST

RUN_TESTS(what_failed_once, plans_are_as_near_as_they_were, a_second_round_mends_what_waits,
          near_the_bound_and_never_behind)
