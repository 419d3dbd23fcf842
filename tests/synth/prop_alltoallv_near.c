// timeout: 600
/*
 * How near alltoallv comes to the bound on random clusters with random traffic of 256 MB a GPU:
 * every schedule is verified, and none is above 1.25 of the bound without saying why. Never slower
 * than direct, pxn, pairwise and, on smaller clusters, greedy: by night one in 20 is held to that.
 * CCL_SEED=N begins with another seed, CCL_ROUNDS=N does as many, and then nothing else is run.
 */
#include "random_traffic.h"

#include <stdarg.h>

enum {
    ROUNDS = SANITIZED ? 3 : 12,
    NIGHTLY_ROUNDS = 100000,
    BESIDE = 20,
    GREEDY_GPUS = 8,
    MOST_GPUS = 32,
    MOST_FAULTS = 10
};

/* Origins of what is further away say one of these. */
static const char *const reasons[] = {"of the time: latency, waiting", "no ways of up to",
                                      "better ways were not found", "no plan of alltoallv"};

static ccl_ctx_t one_thread(void) {
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ctx.threads = 1;
    return ctx;
}

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
    ccl_schedule_t *schedule; /* NULL: the first fault says why */
    double time_s, gap;       /* gap: over the bound */
    char fault[1024];         /* the first; "": none */
} near_t;

__attribute__((format(printf, 2, 3))) static void fault(near_t *c, const char *format, ...) {
    va_list args;
    if (c->fault[0])
        return;
    int n =
        snprintf(c->fault, sizeof c->fault, "seed %llu: %.100s, %s: ", (unsigned long long)c->seed,
                 c->topo->name, c->what);
    va_start(args, format);
    vsnprintf(c->fault + n, sizeof c->fault - (size_t)n, format, args);
    va_end(args);
}

static void near_init(near_t *c, uint64_t seed) {
    ccl_rng_t rng;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_verdict_t verdict;
    const ccl_ctx_t one = one_thread();
    *c = (near_t){.seed = seed};
    ccl_rng_init(&rng, seed * 7919);
    c->topo = random_cluster(&rng, MOST_GPUS);
    double *bytes = random_traffic(&rng, c->topo->nranks, &c->what);
    c->want = demand_of(bytes, c->topo->nranks);
    free(bytes);
    options.size_bytes = c->want->natural_bytes;
    if (ccl_synthesize(&one, "alltoallv", c->topo, NULL, c->want, &options, &c->schedule, &err) !=
        CCL_OK) {
        fault(c, "%s", err.text);
        return;
    }
    ck_assert(ccl_schedule_verify(NULL, c->schedule, &verdict, &err) == CCL_OK);
    if (!verdict.valid)
        fault(c, "%s", verdict.fault.text);
    c->time_s = time_of(c->topo, c->schedule, "alltoallv", options.size_bytes);
}

static void near_fini(near_t *c) {
    ccl_schedule_destroy(c->schedule);
    ccl_collective_destroy(c->want);
    ccl_topology_destroy(c->topo);
}

static void check_bound(near_t *c) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_bound_options_t options = CCL_BOUND_OPTIONS_INIT;
    ccl_bound_t bound;
    const char *origin = c->schedule->origin;
    options.size_bytes = c->want->natural_bytes;
    if (ccl_bound(NULL, c->topo, c->want, &options, &bound, &err) != CCL_OK) {
        fault(c, "%s", err.text);
        return;
    }
    c->gap = c->time_s / bound.time_s;
    ccl_bound_fini(&bound);
    if (!(c->gap > 1 - 1e-9))
        fault(c, "%.9f of the bound", c->gap);
    if (c->gap > 1.25 && !has_reason(origin))
        fault(c, "%.3f of the bound, and no reason: %s", c->gap, origin);
    const char *least = strstr(origin, "no ways of up to"), *link = strstr(origin, "busiest link ");
    if (least && link) /* what is proven to be the least is no more than what is reached */
        if (strtod(strstr(least, "below ") + 6, NULL) > strtod(link + 13, NULL) + 0.02)
            fault(c, "more than is reached: %s", origin);
}

/* @param way  whose way of lowering; times of schedules that are lowered otherwise differ more. */
static void check_other(near_t *c, const char *name, const char *way, double most) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_schedule_t *s = NULL;
    const ccl_ctx_t one = one_thread();
    options.size_bytes = c->want->natural_bytes;
    ccl_status_t status = ccl_synthesize(&one, name, c->topo, NULL, c->want, &options, &s, &err);
    if (status != CCL_OK && status != CCL_UNSUPPORTED)
        fault(c, "%s: %s", name, err.text);
    if (status == CCL_OK) {
        double time_s = time_of(c->topo, s, way, options.size_bytes);
        if (!(c->time_s <= most * time_s))
            fault(c, "%.3f of %s's time; %s", c->time_s / time_s, name, c->schedule->origin);
    }
    ccl_schedule_destroy(s);
}

/* @param beside  others, too. @param fault_out  "": none. @return  time over the bound. */
static double one_round(uint64_t seed, bool beside, char fault_out[1024]) {
    static const char *const others[] = {"direct", "pxn", "pairwise"};
    near_t c;
    near_init(&c, seed);
    if (c.schedule)
        check_bound(&c);
    for (size_t i = 0; c.schedule && beside && i < CCL_ARRAY_LEN(others); i++)
        check_other(&c, others[i], others[i], 1.01);
    if (c.schedule && beside && c.topo->nranks <= GREEDY_GPUS) {
        check_other(&c, "greedy", "alltoallv", 1.01);
        check_other(&c, "greedy", "greedy", 1.05);
    }
    memcpy(fault_out, c.fault, sizeof c.fault);
    near_fini(&c);
    return c.gap;
}

static uint64_t number_of(const char *variable, uint64_t otherwise) {
    const char *text = getenv(variable);
    return text ? strtoull(text, NULL, 0) : otherwise;
}

/* Faults do not end it: after a night all of them are known. */
START_TEST(near_the_bound_and_never_behind) {
    uint32_t rounds = (uint32_t)number_of("CCL_ROUNDS", nightly() ? NIGHTLY_ROUNDS : ROUNDS);
    uint32_t far = 0, beside = 0, faults = 0;
    double sum = 0;
    uint64_t first = number_of("CCL_SEED", 1);
    for (uint64_t seed = first; seed < first + rounds; seed++) {
        char why[1024];
        bool others = !nightly() || seed % BESIDE == 0;
        double gap = one_round(seed, others, why);
        sum += gap;
        far += gap > 1.25;
        beside += others;
        faults += why[0] != 0;
        if (why[0] && faults <= MOST_FAULTS)
            fprintf(stderr, "%s\n", why);
    }
    printf("seeds %llu to %llu: %u done, %u beside others, %u faults; %.4f of the bound on "
           "average, %u above 1.25 say why\n",
           (unsigned long long)first, (unsigned long long)(first + rounds - 1), rounds, beside,
           faults, sum / rounds, far);
    ck_assert_uint_eq(faults, 0);
    ck_assert_msg(sum / rounds < 1.06 && far <= rounds / 20, "mean %.3f of the bound, %u of %u far",
                  sum / rounds, far, rounds);
}
END_TEST

/* Found by night: rates above what a link has, chunks that greedy sent on in the step in which they
 * came, and no reason where `direct` beats plans that wait. */
START_TEST(what_failed_once) {
    static const uint64_t seeds[] = {325, 1452, 3018, 5506483};
    for (size_t i = 0; i < CCL_ARRAY_LEN(seeds); i++) {
        char why[1024];
        one_round(seeds[i], true, why);
        ck_assert_str_eq(why, "");
    }
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
        {"mi250-x16*2", NULL, 1.14, 1.11, 1.23},
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
    check_bound(&c);
    ck_assert_str_eq(c.fault, "");
    ck_assert_double_le(c.gap, 1.1);
    near_fini(&c);
}
END_TEST

/* Few tokens to skewed experts, and back: 1.11 of the bound where sums that stay in a server are
   formed beside those that cross. */
START_TEST(combine_is_as_near_as_dispatch) {
    for (int back = 0; back < 2; back++) {
        ccl_topology_t *made = topology("dgx-h100*4");
        near_t c = {.topo = links_alone(made), .what = back ? "combine" : "dispatch"};
        ccl_moe_options_t moe = CCL_MOE_OPTIONS_INIT;
        ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
        moe.tokens = 64;
        moe.skew = "zipf:0.8";
        moe.combine = back;
        ck_assert(ccl_moe_demand(c.topo, &moe, &c.want, NULL, NULL) == CCL_OK);
        options.size_bytes = c.want->natural_bytes;
        ck_assert(ccl_synthesize(NULL, "alltoallv", c.topo, NULL, c.want, &options, &c.schedule,
                                 NULL) == CCL_OK);
        c.time_s = time_of(c.topo, c.schedule, "alltoallv", options.size_bytes);
        check_bound(&c);
        ck_assert_str_eq(c.fault, "");
        ck_assert_msg(c.gap < 1.05, "%s: %.3f of the bound", c.what, c.gap);
        near_fini(&c);
        ccl_topology_destroy(made);
    }
}
END_TEST

int main(void) {
    const TTest *const tests[] = {near_the_bound_and_never_behind, what_failed_once,
                                  combine_is_as_near_as_dispatch, plans_are_as_near_as_they_were,
                                  a_second_round_mends_what_waits};
    TCase *cases = tcase_create("all");
    Suite *suite = suite_create(__FILE__);
    /* Sanitized without the last three, which are of times. */
    size_t n = getenv("CCL_ROUNDS") ? 1 : SANITIZED ? 2 : CCL_ARRAY_LEN(tests);
    for (size_t i = 0; i < n; i++)
        tcase_add_test(cases, tests[i]);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
