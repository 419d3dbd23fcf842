/* Composition of pods: parts of a topology, every collective, what it costs beside the bound. */
#include "common.h"
#include "synth/compose/compose.h"

static const char pods8[] = "servers:8 gpus:4 nvswitch=180GB/s,1us nics:4x50GB/s,2us fabric=rail";

/* Kinds of servers that differ in GPUs, each twice or more. */
static const char mixed[] =
    "servers:6 gpus:2 nvswitch=300GB/s,1us nics:2x20GB/s,2us + servers:3 gpus:4 "
    "nvswitch=300GB/s,1us nics:2x20GB/s,2us fabric=single";

static ccl_schedule_t *make_by(const char *name, const ccl_topology_t *topo,
                               ccl_collective_kind_t kind, uint32_t root, uint32_t chunks,
                               bool uniform) {
    ccl_collective_t *want = collective(kind, topo->nranks, root);
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_schedule_t *schedule = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    options.compose = CCL_COMPOSE_ON;
    options.chunks = chunks;
    options.uniform_roots = uniform;
    options.size_bytes = 1e9;
    ck_assert_msg(ccl_synthesize(NULL, name, topo, NULL, want, &options, &schedule, &err) == CCL_OK,
                  "%s: %s", want->name, err.text);
    ccl_collective_destroy(want);
    return schedule;
}

static ccl_schedule_t *make(const ccl_topology_t *topo, ccl_collective_kind_t kind, uint32_t root,
                            uint32_t chunks) {
    return make_by("greedy", topo, kind, root, chunks, false);
}

static double time_of(const ccl_topology_t *topo, const ccl_schedule_t *schedule) {
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    lower.topo = topo;
    sim.size_bytes = 1e9;
    return lowered_s(topo, schedule, &lower, &sim);
}

START_TEST(test_pods) {
    ccl_topology_t *topo = topology(pods8);
    ccl_routes_t *routes = ccl_routes_create(topo);
    ccl_i_pods_t pods;
    ccl_topology_t *part = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_int_eq(ccl_i_pods_find(topo, routes, false, &pods, &err), CCL_OK);
    ck_assert_uint_eq(pods.npods, 8);
    ck_assert(pods.nkinds == 1 && pods.most == 4);
    for (uint32_t r = 0; r < 32; r++)
        ck_assert(pods.pod[r] == r / 4 && pods.place[r] == r % 4 && pods.ranks[r] == r);
    /* A rail has routes as the whole has, and nothing else. */
    static const uint32_t rail[] = {2, 6, 30};
    ck_assert_msg(ccl_i_topology_part(topo, routes, rail, 3, 1, &part, &err) == CCL_OK, "%s",
                  err.text);
    ck_assert_uint_eq(part->nranks, 3);
    ccl_routes_t *part_routes = ccl_routes_create(part);
    for (uint32_t a = 0; a < 3; a++) {
        for (uint32_t b = 0; b < 3; b++) {
            const ccl_route_t *x, *y;
            if (a == b)
                continue;
            ck_assert_int_eq(ccl_routes_get(routes, rail[a], rail[b], 0, &x, NULL), CCL_OK);
            ck_assert_int_eq(ccl_routes_get(part_routes, a, b, 0, &y, NULL), CCL_OK);
            ck_assert_uint_eq(x->nlinks, y->nlinks);
            ck_assert_double_eq(x->latency_s, y->latency_s);
            ck_assert_double_eq(x->bottleneck_Bps, y->bottleneck_Bps);
        }
    }
    ck_assert_uint_lt(part->nlinks, topo->nlinks / 4);
    ccl_routes_destroy(part_routes);
    ccl_topology_destroy(part);
    ccl_i_pods_fini(&pods);
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(test_kinds) {
    ccl_topology_t *topo = topology(mixed);
    ccl_routes_t *routes = ccl_routes_create(topo);
    ccl_i_pods_t pods;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_msg(ccl_i_pods_find(topo, routes, false, &pods, &err) == CCL_OK, "%s", err.text);
    ck_assert(pods.npods == 9 && pods.nkinds == 2 && pods.most == 4);
    for (uint32_t k = 0; k < 2; k++) {
        ck_assert_uint_eq(ccl_i_kind_size(&pods, k), k ? 3 : 6);
        for (uint32_t i = 0; i < ccl_i_kind_size(&pods, k); i++) {
            uint32_t p = ccl_i_kind_pod(&pods, k, i);
            ck_assert(p == (k ? 6 + i : i) && pods.kind[p] == k && pods.index[p] == i);
            ck_assert_uint_eq(ccl_i_pod_size(&pods, p), k ? 4 : 2);
        }
    }
    for (uint32_t r = 0; r < 24; r++)
        ck_assert_uint_eq(ccl_i_pod_rank(&pods, pods.pod[r], pods.place[r]), r);
    ccl_i_pods_fini(&pods);
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
}
END_TEST

/* Where no server is named fast hops show pods: of one size if there are such. These are also taken
   for servers that differ in size, if asked for. */
static const struct {
    const char *spec;
    uint32_t npods[2], most[2]; /* servers; sets, or servers where sets differ too */
} sets[] = {{"heteccl-h20-4x2+8", {3, 3}, {8, 8}}, {"heteccl-v100-4+8", {2, 3}, {8, 4}}};

START_TEST(test_sets) {
    ccl_topology_t *topo = topology(sets[_i].spec);
    ccl_device_t *nameless = NULL;
    ccl_i_pods_t pods[3];
    for (int k = 0; k < 3; k++) {
        if (k == 2)
            nameless = forget_servers(topo);
        ccl_routes_t *routes = ccl_routes_create(topo);
        MUST(ccl_i_pods_find(topo, routes, k == 1, &pods[k], e));
        ck_assert_uint_eq(pods[k].npods, sets[_i].npods[k > 0]);
        ck_assert_uint_eq(pods[k].most, sets[_i].most[k > 0]);
        ccl_routes_destroy(routes);
    }
    for (uint32_t a = 0; a < topo->nranks; a++)
        for (uint32_t b = 0; b < topo->nranks; b++)
            ck_assert(pods[2].pod[a] != pods[2].pod[b] || pods[0].pod[a] == pods[0].pod[b]);
    for (int k = 0; k < 3; k++)
        ccl_i_pods_fini(&pods[k]);
    free(nameless);
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(test_refused) {
    static const struct {
        const char *spec;
        ccl_collective_kind_t kind;
        const char *text;
    } rows[] = {{"heteccl-h20-4+8", CCL_ALLGATHER, "differ"},
                {"servers:1 gpus:4 nvswitch=300GB/s,1us", CCL_ALLGATHER, "no pods"},
                {mixed, CCL_ALLTOALL, "alltoall wants one"},
                {pods8, CCL_SCATTER, "scatter is not composed"}};
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_topology_t *topo = topology(rows[i].spec);
        ccl_collective_t *want = collective(rows[i].kind, topo->nranks, 0);
        ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
        ccl_schedule_t *schedule = NULL;
        ccl_error_t err = CCL_ERROR_INIT;
        options.compose = CCL_COMPOSE_ON;
        ck_assert_int_eq(
            ccl_synthesize(NULL, "greedy", topo, NULL, want, &options, &schedule, &err),
            CCL_UNSUPPORTED);
        ck_assert_msg(strstr(err.text, rows[i].text), "%s", err.text);
        options.compose = CCL_COMPOSE_AUTO;
        options.chunks = 1;
        ck_assert_int_eq(
            ccl_synthesize(NULL, "greedy", topo, NULL, want, &options, &schedule, &err), CCL_OK);
        ccl_schedule_destroy(schedule);
        ccl_collective_destroy(want);
        ccl_topology_destroy(topo);
    }
}
END_TEST

START_TEST(test_collectives) {
    static const ccl_collective_kind_t kinds[] = {CCL_ALLGATHER, CCL_REDUCESCATTER, CCL_ALLREDUCE,
                                                  CCL_BROADCAST, CCL_REDUCE,        CCL_ALLTOALL};
    static const char *const specs[] = {pods8, mixed,
                                        "servers:3 gpus:2 nvswitch=300GB/s,1us nics:2x25GB/s,2us",
                                        "servers:2 gpus:4 nvswitch=300GB/s,1us nics:2x25GB/s,2us"};
    for (size_t s = 0; s < CCL_ARRAY_LEN(specs); s++) {
        ccl_topology_t *topo = topology(specs[s]);
        ccl_routes_t *routes = ccl_routes_create(topo);
        for (size_t k = 0; k < CCL_ARRAY_LEN(kinds); k++) {
            ccl_collective_t *want = collective(kinds[k], topo->nranks, topo->nranks - 2);
            ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
            options.compose = CCL_COMPOSE_ON;
            options.chunks = 1 + k % 3;
            ck_assert(check_all("greedy", topo, routes, want, &options, 1, specs[s]) ||
                      (specs[s] == mixed && kinds[k] == CCL_ALLTOALL));
            ccl_collective_destroy(want);
        }
        ccl_routes_destroy(routes);
        ccl_topology_destroy(topo);
    }
}
END_TEST

START_TEST(test_time) {
    /*
     * Pure links, 1e9 bytes. Links between pods limit: a pod takes in 28 of 32 blocks over four
     * NICs of 10 GB/s, and what comes in last is passed on once more.
     */
    ccl_topology_t *topo =
        topology("servers:8 gpus:4 nvswitch=300GB/s,1us nics:4x10GB/s,2us fabric=rail");
    double least_s = 28.0 / 32 * 1e9 / 40e9;
    ccl_schedule_t *s = make(topo, CCL_ALLGATHER, 0, 8);
    double time_s = time_of(topo, s);
    ck_assert_msg(time_s >= least_s * (1 - 1e-9) && time_s < 1.03 * least_s, "%g s, bound %g s",
                  time_s, least_s);
    ccl_schedule_destroy(s);
    s = make(topo, CCL_REDUCESCATTER, 0, 8);
    time_s = time_of(topo, s);
    ck_assert_msg(time_s >= least_s * (1 - 1e-9) && time_s < 1.03 * least_s, "%g s, bound %g s",
                  time_s, least_s);
    ccl_schedule_destroy(s);
    /* AllToAll: every GPU has 28 of 32 blocks for other pods. */
    s = make(topo, CCL_ALLTOALL, 0, 1);
    least_s = 28.0 / 32 * 1e9 / 10e9;
    time_s = time_of(topo, s);
    ck_assert_msg(time_s >= least_s * (1 - 1e-9) && time_s < 1.05 * least_s, "%g s, bound %g s",
                  time_s, least_s);
    ccl_schedule_destroy(s);
    ccl_topology_destroy(topo);
}
END_TEST

/* Over the bandwidth bound, 1e9 bytes over links alone. */
static double over_bound(const ccl_topology_t *topo, const ccl_schedule_t *s,
                         ccl_collective_kind_t kind) {
    ccl_bound_options_t options = CCL_BOUND_OPTIONS_INIT;
    ccl_collective_t *want = collective(kind, topo->nranks, 0);
    ccl_bound_t bound;
    ccl_error_t err = CCL_ERROR_INIT;
    options.size_bytes = 1e9;
    ck_assert_msg(ccl_bound(NULL, topo, want, &options, &bound, &err) == CCL_OK, "%s", err.text);
    double over = time_of(topo, s) / bound.bandwidth_s;
    ccl_bound_fini(&bound);
    ccl_collective_destroy(want);
    return over;
}

/* Where pods' links out limit, and where the root's links do; every kind of pods. */
START_TEST(test_near_bound) {
    static const char narrow[] =
        "servers:8 gpus:4 nvswitch=300GB/s,1us nics:4x10GB/s,2us fabric=rail";
    static const struct {
        const char *spec, *name;
        ccl_collective_kind_t kind;
        uint32_t chunks;
        double most;
    } rows[] = {
        {narrow, "greedy", CCL_BROADCAST, 24, 1.06},  {narrow, "greedy", CCL_REDUCE, 24, 1.06},
        {mixed, "greedy", CCL_BROADCAST, 24, 1.06},   {mixed, "greedy", CCL_REDUCE, 24, 1.06},
        {mixed, "greedy", CCL_ALLGATHER, 4, 1.05},    {mixed, "cegis", CCL_ALLGATHER, 4, 1.05},
        {mixed, "cegis", CCL_REDUCESCATTER, 4, 1.12}, {mixed, "greedy", CCL_ALLREDUCE, 4, 1.12},
        {pods8, "cegis", CCL_ALLGATHER, 4, 1.1},
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_topology_t *topo = topology(rows[i].spec);
        ccl_schedule_t *s = make_by(rows[i].name, topo, rows[i].kind, 0, rows[i].chunks, false);
        double over = over_bound(topo, s, rows[i].kind);
        ck_assert_msg(over > 1 - 1e-9 && over < rows[i].most, "row %zu: %g of the bound", i, over);
        ccl_schedule_destroy(s);
        ccl_topology_destroy(topo);
    }
}
END_TEST

/* Servers of another kind carry as much with half the GPUs: they add up more of it. */
START_TEST(test_roots) {
    ccl_topology_t *topo = topology(mixed);
    for (int uniform = 0; uniform < 2; uniform++) {
        ccl_schedule_t *s = make_by("greedy", topo, CCL_ALLREDUCE, 0, 4, uniform);
        uint32_t *root = calloc(s->coll->nchunks, sizeof *root), in_small = 0;
        for (uint32_t i = 0; i < s->ntransfers; i++) /* by step: the last to add */
            if (s->transfers[i].reduce)
                root[s->transfers[i].chunk] = s->transfers[i].dst;
        ck_assert_uint_eq(s->coll->nchunks, 4 * 24);
        for (uint32_t k = 0; k < s->coll->nchunks; k++)
            in_small += root[k] < 12;
        /* 6 of 9 servers, or 12 of 24 GPUs. */
        if (uniform)
            ck_assert_uint_eq(in_small, 48);
        else
            ck_assert_uint_ge(in_small, 60);
        free(root);
        ccl_schedule_destroy(s);
    }
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("compose");
    TCase *tc = tcase_create("compose");
    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, test_pods);
    tcase_add_test(tc, test_refused);
    tcase_add_test(tc, test_collectives);
    tcase_add_test(tc, test_kinds);
    tcase_add_loop_test(tc, test_sets, 0, (int)CCL_ARRAY_LEN(sets));
    tcase_add_test(tc, test_time);
    tcase_add_test(tc, test_near_bound);
    tcase_add_test(tc, test_roots);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
