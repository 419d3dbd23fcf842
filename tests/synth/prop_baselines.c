// timeout: 120
/*
 * Every schedule and every program of every baseline computes its collective: small topologies of
 * all shapes x collectives x synthesizers x ways of lowering, FIFOs of depth 1.
 */
#include "common.h"
#include "tests/base/nightly.h"

static const struct {
    const char *spec;
    const char *why;
} topologies[] = {
    {"servers:1 gpus:1 nvswitch=300GB/s,1us", "a single GPU"},
    {"servers:1 gpus:2 nvswitch=300GB/s,1us", "a single pair"},
    {"servers:1 gpus:5 nvswitch=300GB/s,1us", "odd number of GPUs"},
    {"servers:1 gpus:8 nvswitch=300GB/s,1us", "power of two"},
    {"servers:2 gpus:4 nvswitch=300GB/s,1us nics:4x25GB/s,2us fabric=rail", "rails"},
    {"servers:3 gpus:2 nvswitch=300GB/s,1us nics:2x25GB/s,2us fabric=rail", "odd servers"},
    {"servers:5 gpus:3 nvswitch=300GB/s,1us nics:3x25GB/s,2us fabric=rail", "all odd"},
    {"servers:2 gpus:4 nvswitch=300GB/s,1us nics:2x25GB/s,2us", "GPUs share NICs"},
    {"servers:3 gpus:1 nvswitch=300GB/s,1us nics:1x25GB/s,2us", "one GPU a server"},
    {"heteccl-h20-4+8", "mixed servers"},
};

/* For every change one root of a collective, and a way of lowering in turn; at night several and
 * all. */
START_TEST(test_topology) {
    const char *spec = topologies[_i].spec;
    uint32_t turn = (uint32_t)_i;
    ccl_topology_t *topo = topology(spec);
    ccl_routes_t *routes = ccl_routes_create(topo);
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    options.chunks = 1; /* tries fewer ways where a synthesizer searches */
    options.sketch.cache = solved_once();
    for (uint32_t kind = 0; kind < CCL_CUSTOM; kind++) {
        uint32_t roots = kind >= CCL_BROADCAST && kind <= CCL_SCATTER ? topo->nranks : 1;
        uint32_t step = nightly() ? 1 + topo->nranks / 3 : topo->nranks;
        for (uint32_t root = nightly() ? 0 : kind % roots; root < roots; root += step) {
            ccl_collective_t *want = collective((ccl_collective_kind_t)kind, topo->nranks, root);
            unsigned done = 0;
            for (const ccl_synth_ops_t *const *ops = ccl_synth_all(); *ops && !(*ops)->by_name;
                 ops++)
                done += !only_plain(*ops, want->kind) &&
                        check_all((*ops)->name, topo, routes, want, &options,
                                  nightly() ? 15 : 1u << turn++ % 4, spec);
            ck_assert_uint_ge(done, 1);
            ccl_collective_destroy(want);
        }
    }
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("prop.synth.baselines");
    TCase *tcase = tcase_create("topologies");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, test_topology, 0, (int)CCL_ARRAY_LEN(topologies));
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
