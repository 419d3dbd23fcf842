/*
 * A memo changes no program: all ways of lowering a schedule, by several threads and in any order,
 * make what they make without one, and where lowering hands out a run it is the program's.
 */
#include "tests/base/nightly.h"
#include "tests/synth/common.h"
#include "lower/lower_i.h"

enum { WAYS = 3 * 4 * 3 * 2 * 2 }; /* order, allocation, granularity, roughness, size */
#define OF_ALL (nightly() && !SANITIZED ? 1u : 3u) /* one of three ways each time */
#define HITS (OF_ALL == 1 ? 800u : 200u)

typedef struct all_ways {
    const ccl_schedule_t *schedule;
    const ccl_topology_t *topo;
    ccl_lower_memo_t *memo;
    uint32_t first, stride; /* way: (first + index * stride) % WAYS */
    const char *what;
    uint32_t lowered[WAYS], runs[WAYS];
} all_ways_t;

static const ccl_order_t ORDERS[] = {CCL_ORDER_STEP, CCL_ORDER_RR, CCL_ORDER_HPDS};
static const ccl_allocation_t ALLOCATIONS[] = {CCL_ALLOCATE_CONNECTION, CCL_ALLOCATE_CAPACITY,
                                               CCL_ALLOCATE_STATE, CCL_ALLOCATE_STATE};

static ccl_lower_options_t options_of(const all_ways_t *all, ccl_routes_t *routes, uint32_t way) {
    ccl_lower_options_t o = CCL_LOWER_OPTIONS_INIT;
    o.order = ORDERS[way % 3];
    o.allocation = ALLOCATIONS[way / 3 % 4];
    o.granularity = (ccl_granularity_t)(way / 12 % 3);
    o.rough = way / 36 % 2;
    o.size_bytes = way / 72 % 2 ? 64 << 20 : 1 << 20;
    o.batches = way / 3 % 4 == 3 ? 6 : 0;
    o.topo = all->topo;
    o.routes = routes;
    return o;
}

static double time_of(const ccl_lower_options_t *o, const ccl_program_t *p) {
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    ccl_sim_result_t *r = NULL;
    sim.size_bytes = o->size_bytes;
    sim.batches = o->batches;
    sim.granularity = o->granularity;
    ck_assert_int_eq(ccl_sim_program(NULL, o->topo, o->routes, p, &sim, &r, NULL), CCL_OK);
    double time_s = r->time_s;
    ccl_sim_result_destroy(r);
    return time_s;
}

static ccl_status_t one_way(uint32_t index, uint32_t worker, void *user, ccl_error_t *err) {
    all_ways_t *all = user;
    uint32_t way = (all->first + index * all->stride) % WAYS;
    ccl_routes_t *routes = ccl_routes_create(all->topo);
    ccl_lower_options_t o = options_of(all, routes, way);
    ccl_program_t *without = NULL, *with = NULL;
    ccl_sim_result_t *run = NULL;
    (void)worker;
    (void)err;
    ccl_status_t status = ccl_lower(NULL, all->schedule, &o, &without, NULL);
    o.memo = all->memo;
    o.run_out = &run;
    ck_assert_msg(ccl_lower(NULL, all->schedule, &o, &with, NULL) == status, "%s: way %u",
                  all->what, way);
    all->lowered[way] = status == CCL_OK;
    all->runs[way] = run != NULL;
    if (status == CCL_OK)
        ck_assert_msg(ccl_program_equal(without, with), "%s: way %u differs", all->what, way);
    if (run)
        ck_assert_double_eq(run->time_s, time_of(&o, with));
    ccl_sim_result_destroy(run);
    ccl_program_destroy(without);
    ccl_program_destroy(with);
    ccl_routes_destroy(routes);
    return CCL_OK;
}

START_TEST(all_ways) {
    static const char *const clusters[] = {
        "heteccl-h20-4+8", "servers:2 gpus:3 nvswitch=100GB/s,1us nics:1x25GB/s,5us fabric=single"};
    static const char *const names[] = {"greedy", "ring", "hm", "direct"};
    static const uint32_t strides[] = {1, 7, 143, 5}; /* forward, mixed, backward */
    ccl_rng_t rng;
    uint32_t lowered = 0, runs = 0;
    uint64_t hits = 0;
    ccl_rng_init(&rng, 11);
    for (size_t c = 0; c < CCL_ARRAY_LEN(clusters); c++) {
        ccl_topology_t *topo = topology(clusters[c]);
        for (size_t n = 0; n < CCL_ARRAY_LEN(names); n++) {
            char what[200];
            ccl_error_t why = CCL_ERROR_INIT;
            ccl_synth_options_t synth = CCL_SYNTH_OPTIONS_INIT;
            ccl_schedule_t *schedule = NULL;
            ccl_collective_t *want =
                collective((n + c) % 2 ? CCL_ALLREDUCE : CCL_ALLGATHER, topo->nranks, 0);
            synth.channels = n < 3 ? 1 + (uint32_t)c : 4; /* of direct not all have room */
            ck_assert_msg(
                ccl_synthesize(NULL, names[n], topo, NULL, want, &synth, &schedule, &why) == CCL_OK,
                "%s", why.text);
            snprintf(what, sizeof what, "%s %s on %s", names[n], want->name, clusters[c]);
            all_ways_t all = {.schedule = schedule,
                              .topo = topo,
                              .memo = ccl_lower_memo_create(),
                              .first = ccl_rng_below(&rng, WAYS),
                              .stride = strides[n],
                              .what = what};
            ck_assert_int_eq(ccl_parallel_for(WAYS / OF_ALL, 2, one_way, &all, NULL), CCL_OK);
            for (uint32_t w = 0; w < WAYS; w++) {
                lowered += all.lowered[w];
                runs += all.runs[w];
            }
            hits += ccl_i_memo_hits(all.memo);
            ccl_lower_memo_destroy(all.memo);
            ccl_schedule_destroy(schedule);
            ccl_collective_destroy(want);
        }
        ccl_topology_destroy(topo);
    }
    ck_assert_uint_ge(lowered * OF_ALL, 600); /* 963: others have no room */
    ck_assert_uint_ge(runs * OF_ALL, 150);    /* 238 */
    ck_assert_uint_ge(hits, HITS);            /* 1375, of one in three 287 */
}
END_TEST

int main(void) {
    Suite *suite = suite_create("prop.synth.memo");
    TCase *tcase = tcase_create("memo");
    tcase_set_timeout(tcase, 0);
    tcase_add_test(tcase, all_ways);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
