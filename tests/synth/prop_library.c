// timeout: 600
/*
 * Every synthesizer on every cluster and server of the library with up to 64 GPUs, for every
 * collective it supports: routes exist, schedule and program verify.
 */
#include "common.h"
#include "tests/base/nightly.h"

/* Searches take nearly all of the time: at night on the larger ones too, for every kind, all of
   five that come in turn, for every change one. Sanitizers are ten times as slow: they
   have every third cluster. */
#ifdef __SANITIZE_ADDRESS__
enum { MOST_RANKS = 8, LEAST_TRIED = 60, OF_CLUSTERS = 3 };
enum { NIGHTLY_RANKS = 16, ALL_KINDS_RANKS = 8, NIGHTLY_OF_FIVE = 2 };
#else
enum { MOST_RANKS = 16, LEAST_TRIED = 500, OF_CLUSTERS = 1 };
enum { NIGHTLY_RANKS = 64, ALL_KINDS_RANKS = 16, NIGHTLY_OF_FIVE = 5 };
#endif
enum { SEARCHED_RANKS = 8, OF_FIVE = 1 };

START_TEST(test_library) {
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    uint32_t tried = 0, turn = 0, searches = 0;
    options.chunks = 1; /* tries fewer ways where a synthesizer searches */
    options.sketch.cache = solved_once();
    for (const ccl_library_entry_t *entry = ccl_topology_library(); entry->name; entry++) {
        ccl_topology_t *topo = topology(entry->name);
        bool skipped = !nightly() && (entry - ccl_topology_library()) % OF_CLUSTERS;
        if (skipped || topo->nranks > (nightly() ? 64 : MOST_RANKS)) {
            ccl_topology_destroy(topo);
            continue;
        }
        ccl_routes_t *routes = ccl_routes_create(topo);
        for (uint32_t kind = 0; kind < CCL_CUSTOM; kind++) {
            if (topo->nranks > 32 && kind > CCL_BROADCAST && kind != CCL_GATHER)
                continue; /* the others are these turned round, or cheaper */
            ccl_collective_t *want =
                collective((ccl_collective_kind_t)kind, topo->nranks, topo->nranks / 2);
            for (const ccl_synth_ops_t *const *ops = ccl_synth_all(); *ops && !(*ops)->by_name;
                 ops++) {
                if (topo->nranks > ALL_KINDS_RANKS && (*ops)->by_size && kind != CCL_ALLGATHER &&
                    (kind != CCL_ALLREDUCE || topo->nranks > 32))
                    continue; /* searching takes its time, and differs little between kinds */
                if (topo->nranks > (nightly() ? NIGHTLY_RANKS : SEARCHED_RANKS) && (*ops)->by_size)
                    continue;
                if ((*ops)->by_size && searches++ % 5 >= (nightly() ? NIGHTLY_OF_FIVE : OF_FIVE))
                    continue;
                /* Each way of lowering in turn; large ones as compare does. */
                unsigned way = topo->nranks > 16 ? 1 : 1u << turn++ % 4;
                tried += check_all((*ops)->name, topo, routes, want, &options, way, entry->name);
            }
            ccl_collective_destroy(want);
        }
        ccl_routes_destroy(routes);
        ccl_topology_destroy(topo);
    }
    ck_assert_uint_gt(tried, LEAST_TRIED);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("prop.synth.library");
    TCase *tcase = tcase_create("library");
    tcase_set_timeout(tcase, 0);
    tcase_add_test(tcase, test_library);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
