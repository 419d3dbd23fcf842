// timeout: 120
/* failover: failures that are alike have the same plans, plans hold, what cannot be says so. */
#include "search/failover/failover.h"

#include <math.h>
#include <stdlib.h>

#include "make/make.h"
#include "tests/topologies/topologies.h"

static const ccl_contender_t few[] = {{.name = "ring"}, {.name = "hm"}, {.name = "greedy"}};
static const double sizes[] = {1 << 16, 1 << 26};

static ccl_failover_options_t options_of(void) {
    ccl_failover_options_t o = CCL_FAILOVER_OPTIONS_INIT;
    o.compare.contenders = few;
    o.compare.ncontenders = CCL_ARRAY_LEN(few);
    o.compare.sizes_bytes = sizes;
    o.compare.nsizes = CCL_ARRAY_LEN(sizes);
    o.all = true;
    return o;
}

static ccl_failover_t *plans_of(const ccl_topology_t *topo, ccl_collective_kind_t kind,
                                const ccl_failover_options_t *o, uint32_t threads) {
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ccl_collective_t *want;
    ccl_failover_t *f = NULL;
    ctx.threads = threads;
    MUST(ccl_collective_create(kind, topo->nranks, 1, 0, &want, e));
    MUST(ccl_failover(&ctx, topo, want, o, &f, e));
    ccl_collective_destroy(want);
    return f;
}

/* Four NICs for two servers of four GPUs, each behind a switch with two: without its NIC a GPU has
   another way, and today's schedule may stay. */
#define SHARED "servers:2 gpus:4 nvswitch=300GB/s,1us nics:2x25GB/s,2us"

/* Another failure of a class by hand: the best of the same contenders, and the bound. */
static double best_after(const ccl_topology_t *topo, const char *edit, uint32_t size,
                         double *bound_s) {
    ccl_topology_t *left = edited(topo, edit);
    ccl_failover_options_t o = options_of();
    ccl_collective_t *want;
    ccl_comparison_t *c = NULL;
    MUST(ccl_collective_create(CCL_ALLREDUCE, left->nranks, 1, 0, &want, e));
    MUST(ccl_compare(NULL, left, want, &o.compare, &c, e));
    double time_s = c->cells[size * 3 + c->winner[size]].time_s;
    *bound_s = c->bound_s[size];
    ccl_comparison_destroy(c);
    ccl_collective_destroy(want);
    ccl_topology_destroy(left);
    return time_s;
}

START_TEST(classes_have_the_same_plans) {
    ccl_topology_t *topo = topology(SHARED);
    ccl_failover_options_t o = options_of();
    if (SANITIZED) /* of the other kinds more of the same */
        o.kinds = 1U << CCL_FAILURE_NIC | 1U << CCL_FAILURE_SERVER;
    ccl_failover_t *f = plans_of(topo, CCL_ALLREDUCE, &o, 0);
    uint32_t n[CCL_FAILURE_KINDS] = {0}, all = 0;
    ck_assert_uint_eq(f->finished, f->ncases);
    for (uint32_t i = 0; i < f->ncases; i++) {
        const ccl_failover_case_t *c = &f->cases[i];
        n[c->failure.kind]++;
        all += c->failure.nalike;
        ck_assert_int_eq(c->status, CCL_OK);
        for (uint32_t s = 0; s < f->nsizes; s++) {
            const ccl_failover_plan_t *p = &c->plans[s];
            ck_assert_double_ge(p->best_s, p->bound_s * (1 - 1e-9));
            ck_assert(!(p->stays_s < p->best_s));
            ck_assert(p->same == (p->best_s == p->stays_s));
            ck_assert_ptr_nonnull(p->best);
        }
        if (c->failure.kind == CCL_FAILURE_NIC || c->failure.kind == CCL_FAILURE_SERVER) {
            /* The last of the class, compared by itself; today's may be better. */
            char edit[200];
            bool nic = c->failure.kind == CCL_FAILURE_NIC;
            snprintf(edit, sizeof edit, nic ? "fail:nic:%s" : "degrade:server:%s=50%%",
                     c->failure.alike[c->failure.nalike - 1]);
            double bound_s, other_s = best_after(topo, edit, 1, &bound_s);
            ck_assert_double_eq_tol(c->plans[1].bound_s, bound_s, 1e-9 * bound_s);
            /* Searches go by the numbers of ranks, so they may end a little apart. */
            ck_assert_double_le(c->plans[1].best_s, other_s * 1.02);
            if (!c->plans[1].same)
                ck_assert_double_ge(c->plans[1].best_s, other_s / 1.02);
        }
    }
    ck_assert_uint_eq(all, f->nfailures);
    ck_assert_uint_eq(n[CCL_FAILURE_NIC], 1);
    ck_assert_uint_eq(n[CCL_FAILURE_SERVER], 1);
    ck_assert(SANITIZED || n[CCL_FAILURE_GPU] == 1);
    ck_assert(SANITIZED || n[CCL_FAILURE_LINK] >= 3);
    ccl_failover_destroy(f);
    ccl_topology_destroy(topo);
}
END_TEST

/* Today's program on what is left, run by hand. */
START_TEST(staying_is_a_run) {
    static const ccl_contender_t ring = {.name = "ring"};
    ccl_topology_t *topo = topology(SHARED), *left = edited(topo, "degrade:server:0=50%");
    ccl_failover_options_t o = options_of();
    ccl_collective_t *want;
    ccl_synth_options_t synth = CCL_SYNTH_OPTIONS_INIT;
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    ccl_made_t made = {0};
    ccl_sim_result_t *run = NULL;
    ccl_routes_t *routes = ccl_routes_create(left);
    o.compare.contenders = &ring;
    o.compare.ncontenders = 1;
    o.kinds = 1U << CCL_FAILURE_SERVER;
    ccl_failover_t *f = plans_of(topo, CCL_ALLREDUCE, &o, 1);
    synth.size_bytes = sim.size_bytes = sizes[1];
    MUST(ccl_collective_create(CCL_ALLREDUCE, 8, 1, 0, &want, e));
    MUST(ccl_make(NULL, "ring", topo, NULL, want, &synth, NULL, true, &made, e));
    ck_assert_double_eq_tol(f->today[1].time_s, made.run->time_s, 1e-12);
    MUST(ccl_sim_program(NULL, left, routes, made.program, &sim, &run, e));
    ck_assert_uint_eq(f->ncases, 1);
    ck_assert_double_eq_tol(f->cases[0].plans[1].stays_s, run->time_s, 1e-12);
    ck_assert_double_gt(run->time_s, made.run->time_s);
    ccl_sim_result_destroy(run);
    ccl_made_fini(&made);
    ccl_routes_destroy(routes);
    ccl_collective_destroy(want);
    ccl_failover_destroy(f);
    ccl_topology_destroy(left);
    ccl_topology_destroy(topo);
}
END_TEST

/* A NIC of one's own, its cable and the way to it: all leave the same, and today's cannot stay. */
START_TEST(a_cable_is_a_nic) {
    ccl_topology_t *topo = topology("servers:2 gpus:2 nvswitch=300GB/s,1us nics:2x25GB/s,2us");
    ccl_failover_options_t o = options_of();
    uint32_t same = 0;
    o.kinds = 1U << CCL_FAILURE_NIC | 1U << CCL_FAILURE_LINK;
    ccl_failover_t *f = plans_of(topo, CCL_ALLREDUCE, &o, 0),
                   *g = plans_of(topo, CCL_ALLREDUCE, &o, 3);
    for (uint32_t i = 0; i < f->ncases; i++) {
        same += f->cases[i].same_as == 0;
        ck_assert_double_eq(f->cases[i].plans[1].best_s, g->cases[i].plans[1].best_s);
        ck_assert_str_eq(f->cases[i].plans[1].best, g->cases[i].plans[1].best);
    }
    ck_assert_uint_eq(same, 2);
    ck_assert(f->cases[0].plans[1].stays_s == INFINITY);
    ck_assert_ptr_nonnull(strstr(f->cases[0].plans[1].stays_why, "no route"));
    ck_assert_ptr_nonnull(f->cases[0].plans[1].best);
    ccl_failover_destroy(f);
    ccl_failover_destroy(g);
    ccl_topology_destroy(topo);
}
END_TEST

/* Who has no hope is left out, and no plan is slower for that: packing leads, the others win where
   they can. */
START_TEST(no_plan_is_lost) {
    if (SANITIZED) /* times alone */
        return;
    static const ccl_contender_t four[] = {
        {.name = "ring"}, {.name = "greedy"}, {.name = "packing"}, {.name = "sketch"}};
    ccl_topology_t *topo =
        topology("servers:3 gpus:2 nvswitch=450GB/s,1us nics:2x50GB/s,2us model=H100");
    ccl_failover_options_t o = options_of();
    bool other = false;
    o.compare.contenders = four;
    o.compare.ncontenders = CCL_ARRAY_LEN(four);
    o.kinds = 1U << CCL_FAILURE_NIC | 1U << CCL_FAILURE_SERVER;
    ccl_failover_t *f = plans_of(topo, CCL_ALLREDUCE, &o, 0);
    o.all = false;
    ccl_failover_t *g = plans_of(topo, CCL_ALLREDUCE, &o, 3);
    ck_assert_uint_eq(f->ncases, 2);
    for (uint32_t s = 0; s < f->nsizes; s++) {
        ck_assert_double_eq(g->today[s].time_s, f->today[s].time_s);
        other |= strcmp(f->today[s].winner, "packing") != 0;
        for (uint32_t i = 0; i < f->ncases; i++) {
            const ccl_failover_plan_t *p = &f->cases[i].plans[s];
            ck_assert_double_eq(g->cases[i].plans[s].best_s, p->best_s);
            other |= strcmp(p->best, "packing") != 0;
        }
    }
    ck_assert(other);
    ccl_failover_destroy(f);
    ccl_failover_destroy(g);
    ccl_topology_destroy(topo);
}
END_TEST

static ccl_failover_t *of_kind(ccl_topology_t *topo, ccl_collective_kind_t kind, unsigned kinds) {
    ccl_failover_options_t o = options_of();
    o.kinds = kinds;
    o.compare.nsizes = 1;
    return plans_of(topo, kind, &o, 0);
}

START_TEST(what_cannot_be) {
    ccl_topology_t *pair = topology("servers:1 gpus:2 nvlink=mesh,100GB/s,1us");
    ccl_failover_t *f = of_kind(pair, CCL_ALLREDUCE, 1U << CCL_FAILURE_LINK);
    ck_assert_uint_eq(f->ncases, 1);
    ck_assert_int_eq(f->cases[0].status, CCL_INFEASIBLE);
    ck_assert_ptr_nonnull(strstr(f->cases[0].why, "broken cluster"));
    ccl_failover_destroy(f);
    ccl_topology_destroy(pair);
    /* The root goes; the others of its server are not like those of the other. */
    ccl_topology_t *topo = topology("servers:2 gpus:2 nvswitch=300GB/s,1us nics:2x25GB/s,2us");
    f = of_kind(topo, CCL_BROADCAST, 1U << CCL_FAILURE_GPU);
    ck_assert_uint_eq(f->ncases, 3);
    ck_assert_int_eq(f->cases[0].status, CCL_UNSUPPORTED);
    ck_assert_int_eq(f->cases[1].status, CCL_OK);
    ck_assert_uint_eq(f->cases[1].nranks, 3);
    ck_assert(isnan(f->cases[1].plans[0].stays_s));
    ccl_failover_destroy(f);
    /* Neighbours by number: no two GPUs are alike. */
    ccl_collective_t *want;
    ccl_failures_t *failures = NULL;
    MUST(ccl_collective_create(CCL_SENDRECV, 4, 1, 0, &want, e));
    MUST(ccl_failures_find(NULL, topo, want, 1U << CCL_FAILURE_GPU, &failures, e));
    ck_assert_uint_eq(failures->n, 4);
    ccl_failures_destroy(failures);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}
END_TEST

/* What NCCL runs has constants of its own, on what is left too. */
START_TEST(nccl_stays) {
    static const ccl_contender_t nccl[] = {{.name = "nccl", .library = true}, {.name = "ring"}};
    ccl_topology_t *topo = topology("dgx-a100");
    ccl_failover_options_t o = options_of();
    o.compare.contenders = nccl;
    o.compare.ncontenders = 2;
    o.kinds = 1U << CCL_FAILURE_SERVER;
    ccl_failover_t *f = plans_of(topo, CCL_ALLREDUCE, &o, 0);
    ck_assert_str_eq(f->library, "nccl");
    for (uint32_t s = 0; s < f->nsizes; s++) {
        const ccl_failover_plan_t *p = &f->cases[0].plans[s];
        ck_assert(isfinite(p->nccl_stays_s));
        ck_assert_double_ge(p->nccl_stays_s, f->today[s].nccl_s * (1 - 1e-9));
        ck_assert_double_ge(p->nccl_stays_s, p->best_s);
    }
    ccl_failover_destroy(f);
    ccl_topology_destroy(topo);
}
END_TEST

typedef struct kept {
    uint32_t n;
} kept_t;

static ccl_status_t keep(const ccl_failover_t *f, uint32_t which, uint32_t size,
                         const ccl_program_t *program, void *user, ccl_error_t *err) {
    kept_t *kept = user;
    ccl_verify_options_t verify = CCL_VERIFY_OPTIONS_INIT;
    ccl_verdict_t verdict = {0};
    CCL_TRY(ccl_program_verify(NULL, program, &verify, &verdict, err));
    ck_assert_msg(verdict.valid, "%s", verdict.fault.text);
    ck_assert_uint_eq(program->coll->nranks, which == CCL_NONE ? 4 : f->cases[which].nranks);
    ck_assert_uint_lt(size, f->nsizes);
    kept->n++;
    return CCL_OK;
}

static int after_two(const ccl_progress_t *progress, void *user) {
    (void)user;
    return progress->done >= 3;
}

START_TEST(programs_and_interruption) {
    ccl_topology_t *topo = topology("servers:2 gpus:2 nvswitch=300GB/s,1us nics:2x25GB/s,2us");
    ccl_failover_options_t o = options_of();
    kept_t kept = {0};
    o.program = keep;
    o.user = &kept;
    ccl_failover_t *f = plans_of(topo, CCL_ALLGATHER, &o, 0);
    uint32_t different = 0;
    for (uint32_t i = 0; i < f->ncases; i++)
        different += f->cases[i].same_as == CCL_NONE;
    ck_assert_uint_eq(kept.n, (different + 1) * f->nsizes);
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ccl_collective_t *want;
    ccl_failover_t *part = NULL;
    ctx.progress = after_two;
    MUST(ccl_collective_create(CCL_ALLGATHER, 4, 1, 0, &want, e));
    ck_assert_int_eq(ccl_failover(&ctx, topo, want, &o, &part, NULL), CCL_INTERRUPTED);
    ck_assert_ptr_nonnull(part);
    ck_assert_uint_ge(part->finished, 2);
    ck_assert_uint_lt(part->finished, part->ncases);
    ck_assert_double_eq(part->cases[0].plans[1].best_s, f->cases[0].plans[1].best_s);
    ck_assert_int_eq(part->cases[part->ncases - 1].status, CCL_INTERRUPTED);
    ccl_failover_destroy(part);
    ccl_failover_destroy(f);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}
END_TEST

RUN_TESTS(classes_have_the_same_plans, staying_is_a_run, a_cable_is_a_nic, no_plan_is_lost,
          what_cannot_be, nccl_stays, programs_and_interruption)
