/*
 * Runs that are known (ccl_ctx_t.runs): they are not made again, and say what they would say if
 * they were; what differs in anything that a run depends on is another run.
 */
#include "tests/sim/random_cases.h"

#include <math.h>

typedef struct asked {
    ccl_ctx_t ctx;
    ccl_work_t work;
    const ccl_topology_t *topo;
    ccl_routes_t *routes;
    ccl_topology_t *own;
    ccl_program_t *program;
    ccl_rng_t rng;
    uint32_t served, made, kept; /* kept whole */
} asked_t;

/* A random program. @param in_switches  it may run through switches */
static void asked_begin(asked_t *a, uint64_t seed, bool in_switches) {
    *a = (asked_t){.ctx = CCL_CTX_INIT};
    ccl_rng_init(&a->rng, seed);
    uint32_t n = 2 + ccl_rng_below(&a->rng, 5);
    random_abilities = in_switches;
    a->topo = a->own = random_topology(&a->rng, n);
    random_abilities = false;
    a->routes = ccl_routes_create(a->topo);
    random_switch_routes = in_switches ? a->routes : NULL;
    a->program = random_program(&a->rng, n, "Simple");
    random_switch_routes = NULL;
    a->ctx.work = &a->work;
    a->ctx.runs = ccl_runs_create(a->topo);
}

static void asked_end(asked_t *a) {
    ccl_runs_destroy(a->ctx.runs);
    ccl_routes_destroy(a->routes);
    ccl_program_destroy(a->program);
    ccl_topology_destroy(a->own);
}

/* NULL: it cannot finish. *made_out: it was simulated. */
static ccl_sim_result_t *ask(asked_t *a, const ccl_program_t *program, const ccl_sim_options_t *sim,
                             bool known_too, bool *made_out) {
    ccl_sim_result_t *r = NULL;
    uint64_t before = a->work.runs;
    ccl_ctx_t without = CCL_CTX_INIT;
    ccl_status_t status =
        ccl_sim_program(known_too ? &a->ctx : &without, a->topo, a->routes, program, sim, &r, NULL);
    *made_out = a->work.runs > before;
    if (status == CCL_OK) {
        if (known_too) {
            bool kept = !*made_out && sim->step_times && r->time_s < INFINITY;
            ck_assert_int_eq(r->known, !*made_out && !kept);
            a->served += !*made_out;
            a->kept += kept;
            a->made += *made_out;
        }
        return r;
    }
    ck_assert_int_eq(status, CCL_DEADLOCK);
    ccl_sim_result_destroy(r);
    return NULL;
}

/* All of two whole runs. */
static void check_whole(const ccl_program_t *p, const ccl_sim_result_t *r,
                        const ccl_sim_result_t *same) {
    const double *of[2][2] = {{r->step_start_s, r->step_end_s},
                              {same->step_start_s, same->step_end_s}};
    for (int k = 0; k < 2; k++)
        ck_assert_mem_eq(of[0][k], of[1][k], p->nsteps * sizeof(double));
    ck_assert_mem_eq(r->links, same->links, r->nlinks * sizeof *r->links);
    ck_assert_mem_eq(r->tbs, same->tbs, r->ntbs * sizeof *r->tbs);
    ck_assert_uint_eq(r->nstages, same->nstages);
    ck_assert_uint_eq(r->flows, same->flows);
    ck_assert_double_eq(r->algbw_GBps, same->algbw_GBps);
}

/* Whether it is simulated; what comes is what comes without. */
static bool made(asked_t *a, const ccl_program_t *program, const ccl_sim_options_t *sim) {
    bool with, unused;
    ccl_sim_result_t *r = ask(a, program, sim, true, &with);
    ccl_sim_result_t *same = ask(a, program, sim, false, &unused);
    double limit_s = sim->give_up_s > 0 ? sim->give_up_s : INFINITY;
    ck_assert_int_eq(r == NULL, same == NULL);
    if (r) {
        bool longer = r->time_s > limit_s;
        ck_assert_int_eq(longer, same->time_s > limit_s);
        ck_assert(longer || r->time_s == same->time_s);
        ck_assert_uint_eq(r->batches, same->batches);
        ck_assert_double_eq(r->size_bytes, same->size_bytes);
        ck_assert(longer || (r->events == same->events && r->estimated == same->estimated &&
                             r->rate_changes == same->rate_changes));
        if (sim->step_times && !longer)
            check_whole(program, r, same);
    }
    ccl_sim_result_destroy(r);
    ccl_sim_result_destroy(same);
    return with;
}

/* With another rank in one of its groups a program is another one. */
static void change_groups(const asked_t *a, const ccl_program_t *p, const ccl_sim_options_t *sim) {
    for (uint32_t g = 0; g < p->ngroups; g++) {
        ccl_peer_group_t groups[64];
        uint32_t ranks[64];
        ccl_program_t other = *p;
        double known_s;
        ck_assert(p->ngroups <= 64 && p->groups[g].n <= 64);
        memcpy(groups, p->groups, p->ngroups * sizeof *groups);
        memcpy(ranks, groups[g].ranks, groups[g].n * sizeof *ranks);
        ranks[groups[g].n - 1] += 1;
        groups[g].ranks = ranks;
        other.groups = groups;
        ck_assert(!ccl_sim_known(&a->ctx, a->topo, &other, sim, &known_s));
    }
}

/* Each change of what is asked is another run, once. */
static void changes(asked_t *a, ccl_program_t *p, const ccl_sim_options_t *sim) {
    static const char *const protocols[] = {"LL", "LL128"};
    for (uint32_t k = 0; k < 5; k++) {
        ccl_sim_options_t other = *sim;
        const char *proto = p->proto;
        other.size_bytes *= k == 0 ? 1.5 : 1;
        other.batches += k == 1;
        other.sharing = k == 2 ? CCL_SHARING_EXCLUSIVE : other.sharing;
        p->proto = k >= 3 ? protocols[k - 3] : proto;
        ck_assert(made(a, p, &other));
        p->proto = proto;
    }
    for (uint32_t s = 0; s < p->nsteps && s < 4; s++) {
        ccl_step_t was = p->steps[s];
        if (was.dep_tb == CCL_NONE || was.dep_step == CCL_NONE)
            continue;
        p->steps[s].dep_tb = p->steps[s].dep_step = CCL_NONE;
        ck_assert(made(a, p, sim));
        p->steps[s] = was;
    }
    for (uint32_t t = 0; t < p->ntbs && t < 2 && p->ngroups == 0; t++) {
        p->tbs[t].channel += 7;
        bool unused;
        ccl_sim_result_destroy(ask(a, p, sim, true, &unused));
        p->tbs[t].channel -= 7;
    }
    ccl_sim_options_t other = *sim;
    other.batches = 0;
    for (uint32_t k = 0; k < 3; k++) {
        uint32_t batches;
        p->piece_bytes = k == 0 ? 0 : sim->size_bytes / (9 * k * p->nchunks);
        ck_assert_int_eq(
            ccl_sim_default_batches(a->topo, a->routes, p, other.size_bytes, &batches, NULL),
            CCL_OK);
        ck_assert(made(a, p, &other) || batches == 1); /* then another level's is this run too */
    }
    p->piece_bytes = 0;
    const double late_s[64] = {1};
    const ccl_sim_variation_t late = {.late_s = late_s};
    other = *sim;
    other.variation = &late;
    ck_assert(made(a, p, &other) && made(a, p, &other)); /* is never known */
    ck_assert(!made(a, p, sim));                         /* and is still known as it was */
}

static void one_program(asked_t *a, ccl_program_t *p, ccl_sim_options_t sim) {
    bool unused;
    ccl_sim_result_t *full = ask(a, p, &sim, false, &unused);
    if (!full || full->time_s == 0) { /* nothing to do takes no time, which is not kept */
        ccl_sim_result_destroy(full);
        return;
    }
    sim.give_up_s = 0.5 * full->time_s;
    (void)made(a, p, &sim); /* it gives up, mostly */
    sim.give_up_s = 0.4 * full->time_s;
    ck_assert(!made(a, p, &sim));
    sim.give_up_s = 0;
    (void)made(a, p, &sim);
    ck_assert(!made(a, p, &sim));
    sim.give_up_s = 2 * full->time_s;
    ck_assert(!made(a, p, &sim));
    sim.give_up_s = 0.9 * full->time_s;
    ck_assert(!made(a, p, &sim));
    sim.step_times = true; /* of what takes longer nobody has any */
    ck_assert(!made(a, p, &sim));
    sim.give_up_s = 0;
    (void)made(a, p, &sim); /* unless it is the fastest so far */
    sim.step_times = false;
    double known_s = 0;
    ck_assert(ccl_sim_known(&a->ctx, a->topo, p, &sim, &known_s) && known_s == full->time_s);
    changes(a, p, &sim);
    change_groups(a, p, &sim);
    sim.estimate = false; /* what is reported is run in full */
    ck_assert(made(a, p, &sim));
    sim.estimate = true;
    const ccl_topology_t *topo = a->topo;
    ccl_topology_t copy = *topo;
    a->topo = &copy; /* of another topology nothing is known */
    ck_assert(!ccl_sim_known(&a->ctx, &copy, p, &sim, &known_s));
    a->topo = topo;
    ccl_sim_result_destroy(full);
}

/* Of two runs of a size the faster one is kept whole, whichever comes first; of each size one. */
START_TEST(test_kept_whole) {
    uint32_t kept = 0;
    for (uint32_t k = 0; k < 24; k++) {
        asked_t a;
        asked_begin(&a, 9100 + k, false);
        ccl_sim_options_t sim[3] = {CCL_SIM_OPTIONS_INIT, CCL_SIM_OPTIONS_INIT,
                                    CCL_SIM_OPTIONS_INIT};
        double time_s[3] = {0};
        bool runs_all = a.program->ngroups == 0;
        for (int i = 0; i < 3 && runs_all; i++) {
            bool unused;
            sim[i].size_bytes = i == 2 ? 3e6 : 1e6;
            sim[i].batches = (k + i) % 2 ? 3 : 12;
            sim[i].granularity = k % 3 ? CCL_GRANULARITY_TASK : CCL_GRANULARITY_ALGORITHM;
            sim[i].estimate = true;
            ccl_sim_result_t *r = ask(&a, a.program, &sim[i], true, &unused);
            runs_all = r && r->time_s > 0;
            time_s[i] = r ? r->time_s : 0;
            ccl_sim_result_destroy(r);
        }
        for (int i = 2; i >= 0 && runs_all && time_s[0] != time_s[1]; i--) {
            sim[i].step_times = true;
            bool slower = i < 2 && time_s[i] > time_s[!i];
            ck_assert_int_eq(made(&a, a.program, &sim[i]), slower);
        }
        kept += a.kept;
        asked_end(&a);
    }
    ck_assert_uint_ge(kept, 20);
}
END_TEST

/* One micro-batch runs alike at algorithm and at task level, whether it is asked for or comes of
   the size; at stage level, and in two, it is another run. */
START_TEST(test_one_batch) {
    static const ccl_granularity_t levels[2][2] = {
        {CCL_GRANULARITY_ALGORITHM, CCL_GRANULARITY_TASK},
        {CCL_GRANULARITY_TASK, CCL_GRANULARITY_ALGORITHM}};
    uint32_t alike = 0;
    for (uint32_t k = 0; k < 24; k++) {
        asked_t a;
        asked_begin(&a, 7700 + k, false);
        ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
        sim.size_bytes = 100;
        sim.batches = k % 2;
        sim.estimate = true;
        bool unused;
        const ccl_granularity_t *order = levels[k % 4 / 2];
        sim.granularity = order[0];
        ccl_sim_result_t *r = ask(&a, a.program, &sim, false, &unused);
        if (a.program->ngroups == 0 && r && r->time_s > 0) {
            ck_assert_uint_eq(r->batches, 1);
            ck_assert(made(&a, a.program, &sim));
            sim.granularity = order[1];
            sim.step_times = k % 3 == 0;
            ck_assert(!made(&a, a.program, &sim));
            sim.step_times = false;
            sim.granularity = CCL_GRANULARITY_STAGE;
            ck_assert(made(&a, a.program, &sim));
            for (int i = 0; i < 2; i++) {
                sim.batches = 2;
                sim.granularity = order[i];
                ck_assert(made(&a, a.program, &sim));
            }
            alike++;
        }
        ccl_sim_result_destroy(r);
        asked_end(&a);
    }
    ck_assert_uint_ge(alike, 10);
}
END_TEST

START_TEST(test_known) {
    uint32_t served = 0, simulated = 0, in_switches = 0;
    for (uint32_t k = 0; k < 80; k++) {
        asked_t a;
        asked_begin(&a, 5200 + k, k >= 40);
        const bool groups = a.program->ngroups > 0;
        for (uint32_t g = 0; g < 3; g++) {
            if (groups && g != CCL_GRANULARITY_ALGORITHM)
                continue; /* as is all that runs through switches */
            ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
            sim.size_bytes = 777777 * (1 + k % 5);
            sim.batches = 2 + ccl_rng_below(&a.rng, 60);
            sim.granularity = (ccl_granularity_t)g;
            sim.estimate = true;
            if (k % 4 == 3 && g == k / 4 % 3) { /* at other levels it would be known */
                sim.batches = 1;
                one_program(&a, a.program, sim);
                break;
            }
            one_program(&a, a.program, sim);
        }
        in_switches += groups ? a.served : 0;
        served += a.served;
        simulated += a.made;
        asked_end(&a);
    }
    ck_assert_uint_ge(served, 400);
    ck_assert_uint_ge(simulated, 400);
    ck_assert_uint_ge(in_switches, 40);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("prop.sim.known");
    TCase *tcase = tcase_create("known");
    tcase_set_timeout(tcase, 0);
    tcase_add_test(tcase, test_known);
    tcase_add_test(tcase, test_one_batch);
    tcase_add_test(tcase, test_kept_whole);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
