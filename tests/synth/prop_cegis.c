// timeout: 300
/*
 * On random clusters and demands: plans of the greedy start and of the search keep capacities,
 * groups and receive-once, bring every chunk to its targets and need no fewer steps than the bound.
 * Counted here, without cegis's own checker; which then must see what is broken on purpose.
 */
#include "common.h"
#include "synth/cegis/cegis.h"

typedef struct setting {
    ccl_topology_t *topo;
    ccl_routes_t *routes;
    ccl_i_exchange_t x;
    ccl_i_chunking_t capacity;
    ccl_i_cegis_problem_t problem;
    ccl_i_cegis_chunk_t *chunks;
    uint32_t *targets;
} setting_t;

static const char *const kinds[] = {"heteccl-h20-4+8",
                                    "dgx1-v100",
                                    "resccl-topo1",
                                    "heteccl-v100-4x3",
                                    "servers:3 gpus:2 nvswitch=40GB/s,1us nics:1x25GB/s,2us",
                                    "servers:2 gpus:4 nvswitch=100GB/s,1us nics:2x12GB/s,2us"};

/** A random demand on one of the clusters; sometimes everything to everybody. */
static void set(setting_t *s, ccl_rng_t *rng, uint32_t which, bool one_send) {
    ccl_error_t err = CCL_ERROR_INIT;
    memset(s, 0, sizeof *s);
    s->topo = topology(kinds[which]);
    s->routes = ccl_routes_create(s->topo);
    ck_assert_int_eq(ccl_i_exchange_init(&s->x, s->topo, s->routes, NULL, &err), CCL_OK);
    double bytes = 1e4 * (double)(1 + ccl_rng_below(rng, 1000));
    uint32_t stretch = 1 + ccl_rng_below(rng, 3);
    ccl_i_chunking_step_t step = {0, stretch, ccl_rng_below(rng, 4) == 0};
    ck_assert_int_eq(ccl_i_chunking_init(&s->capacity, &s->x, bytes, step, false, &err), CCL_OK);
    uint32_t n = s->topo->nranks, nchunks = 1 + ccl_rng_below(rng, 2 * n);
    bool all = ccl_rng_below(rng, 2), single = !all && ccl_rng_below(rng, 2);
    s->chunks = calloc(nchunks, sizeof *s->chunks);
    s->targets = calloc((size_t)nchunks * n, sizeof *s->targets);
    for (uint32_t k = 0; k < nchunks; k++) {
        uint32_t root = ccl_rng_below(rng, n), len = 0, *targets = s->targets + (size_t)k * n;
        for (uint32_t r = 0; r < n; r++) {
            if (r != root && (all || ccl_rng_below(rng, 2)) && !(single && len))
                targets[len++] = r;
        }
        s->chunks[k] = (ccl_i_cegis_chunk_t){root, len, targets};
    }
    ck_assert_int_eq(ccl_i_cegis_problem_init(&s->problem, &s->x, &s->capacity, s->chunks, nchunks,
                                              one_send, &err),
                     CCL_OK);
}

static void unset(setting_t *s) {
    ccl_i_cegis_problem_fini(&s->problem);
    ccl_i_chunking_fini(&s->capacity);
    ccl_i_exchange_fini(&s->x);
    ccl_routes_destroy(s->routes);
    ccl_topology_destroy(s->topo);
    free(s->chunks);
    free(s->targets);
}

/** NULL, or what is wrong. */
static const char *fault(const setting_t *s, const ccl_i_cegis_plan_t *plan, bool one_send) {
    uint32_t n = s->topo->nranks, nchunks = s->problem.nchunks;
    uint8_t *has = calloc((size_t)nchunks * n, 1), *next = calloc((size_t)nchunks * n, 1);
    uint32_t *hops = calloc(s->x.nhops, sizeof *hops);
    uint32_t *resources = calloc(s->x.nresources, sizeof *resources);
    uint32_t *sent = calloc((size_t)nchunks * n, sizeof *sent);
    const char *bad = NULL;
    for (uint32_t k = 0; k < nchunks; k++)
        next[(size_t)k * n + s->chunks[k].root] = 1;
    for (uint32_t t = 0; t < plan->nsteps; t++) {
        memcpy(has, next, (size_t)nchunks * n);
        memset(hops, 0, s->x.nhops * sizeof *hops);
        memset(resources, 0, s->x.nresources * sizeof *resources);
        memset(sent, 0, (size_t)nchunks * n * sizeof *sent);
        for (size_t i = 0; i < plan->len; i++) {
            const ccl_i_cegis_send_t *send = &plan->sends[i];
            const ccl_i_hop_t *hop = &s->x.hops[send->hop];
            if (send->step != t)
                continue;
            if (!has[(size_t)send->chunk * n + hop->src])
                bad = "sent before it is there";
            if (next[(size_t)send->chunk * n + hop->dst]++)
                bad = "received twice";
            if (++hops[send->hop] > s->capacity.hop_chunks[send->hop])
                bad = "too much on a hop";
            if (++sent[(size_t)send->chunk * n + hop->src] > 1 && one_send)
                bad = "sent twice in a step";
            for (uint32_t u = hop->first_use; u < hop->first_use + hop->nuses; u++) {
                uint32_t r = s->x.uses[u].resource;
                resources[r] += s->x.uses[u].times;
                if (resources[r] > s->capacity.resource_chunks[r])
                    bad = "too much on a link or group";
            }
        }
    }
    for (uint32_t k = 0; k < nchunks; k++) {
        for (uint32_t i = 0; i < s->chunks[k].ntargets; i++) {
            if (!next[(size_t)k * n + s->chunks[k].targets[i]])
                bad = "a target is without its chunk";
        }
    }
    free(has);
    free(next);
    free(hops);
    free(resources);
    free(sent);
    return bad;
}

static size_t examples_of(const setting_t *s, const ccl_i_cegis_plan_t *plan) {
    ccl_i_cegis_examples_t examples = {0};
    ck_assert_int_eq(ccl_i_cegis_check(&s->problem, plan, &examples, NULL), CCL_OK);
    size_t n = examples.len;
    free(examples.items);
    return n;
}

/* With what it must beat, a start is the same plan, or none where it does not beat that. */
static void check_limits(const setting_t *s, bool plain, uint64_t seed,
                         const ccl_i_cegis_plan_t *plan) {
    double load_s = ccl_i_cegis_load_s(&s->problem, plan);
    const struct {
        ccl_i_cegis_limit_t most;
        bool beaten;
    } rows[] = {{{plan->nsteps, load_s * (1 + 1e-6)}, true},
                {{plan->nsteps + 1, 0}, true},
                {{plan->nsteps, load_s}, false},
                {{plan->nsteps - 1, INFINITY}, false}};
    ck_assert_double_ge(load_s, s->problem.least_s * (1 - 1e-9));
    ck_assert_double_ge(s->problem.least_s, s->problem.load_s * (1 - 1e-9));
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_i_cegis_plan_t again = {0};
        ck_assert_int_eq(ccl_i_cegis_greedy(&s->problem, plain, seed, &rows[i].most, &again, NULL),
                         CCL_OK);
        ck_assert_msg(again.len == (rows[i].beaten ? plan->len : 0),
                      "seed %u, limit %zu: %zu sends", (unsigned)seed, i, again.len);
        if (again.len)
            ck_assert_mem_eq(again.sends, plan->sends, plan->len * sizeof *plan->sends);
        ccl_i_cegis_plan_fini(&again);
    }
}

static uint32_t found; /* repairs, over all clusters */

START_TEST(test_random) {
    ccl_rng_t rng;
    ccl_error_t err = CCL_ERROR_INIT;
    uint32_t broken = 0;
    ccl_rng_init(&rng, 50 + (uint64_t)_i);
    for (uint32_t trial = 0; trial < 12; trial++) {
        setting_t s;
        ccl_i_cegis_plan_t plan = {0};
        bool one_send = trial % 3 == 2, plain = trial % 3 == 1;
        set(&s, &rng, (uint32_t)_i, one_send);
        ccl_status_t status = ccl_i_cegis_greedy(&s.problem, plain, trial, NULL, &plan, &err);
        ck_assert_msg(status == CCL_OK, "%s: %s", kinds[_i], err.text);
        const char *bad = fault(&s, &plan, one_send);
        ck_assert_msg(!bad, "%s, trial %u: %s", kinds[_i], trial, bad);
        ck_assert_uint_ge(plan.nsteps, s.problem.bound);
        ck_assert_uint_eq(examples_of(&s, &plan), 0);
        check_limits(&s, plain, trial, &plan);
        if (plan.nsteps > s.problem.bound) {
            ccl_i_cegis_run_t run;
            status = ccl_i_cegis_search(
                NULL, &(ccl_i_cegis_ask_t){&s.problem, &plan, plan.nsteps - 1, 400000, 0}, &run,
                &err);
            ck_assert_msg(status == CCL_OK, "%s: %s", kinds[_i], err.text);
            if (run.answer == CCL_I_CEGIS_FOUND) {
                found++;
                bad = fault(&s, &run.plan, one_send);
                ck_assert_msg(!bad, "%s, trial %u, repaired: %s", kinds[_i], trial, bad);
                ck_assert_uint_eq(run.plan.nsteps, plan.nsteps - 1);
            }
            ccl_i_cegis_run_fini(&run);
        }
        /* Broken: a send moved to the first step, or doubled. Both checkers say the same. */
        for (uint32_t i = 0; i < 8 && plan.len; i++) {
            ccl_i_cegis_plan_t wrong = {0};
            ck_assert(ccl_i_cegis_plan_copy(&wrong, &plan));
            uint32_t at = ccl_rng_below(&rng, (uint32_t)wrong.len);
            if (i % 2) {
                wrong.sends[at].step = 0;
            } else {
                wrong.sends[at] = wrong.sends[ccl_rng_below(&rng, (uint32_t)wrong.len)];
            }
            ck_assert(ccl_i_cegis_plan_sort(&wrong));
            wrong.nsteps = plan.nsteps;
            bad = fault(&s, &wrong, one_send);
            ck_assert_msg(!bad == !examples_of(&s, &wrong), "%s, trial %u: %s", kinds[_i], trial,
                          bad ? bad : "nothing wrong");
            broken += bad != NULL;
            ccl_i_cegis_plan_fini(&wrong);
        }
        ccl_i_cegis_plan_fini(&plan);
        unset(&s);
    }
    ck_assert_uint_ge(broken, 20);
}
END_TEST

START_TEST(test_found) {
    ck_assert_uint_ge(found, 5);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("prop.synth.cegis");
    TCase *tcase = tcase_create("cegis");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, test_random, 0, (int)CCL_ARRAY_LEN(kinds));
    tcase_add_test(tcase, test_found); /* what was repaired was also looked at */
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
