// timeout: 600
/*
 * Random topologies (synthetic, mixed servers, parts failed) x random demands (unequal shares,
 * several destinations, reductions with any sources) and collectives: whatever a baseline accepts,
 * it does right.
 */
#include "common.h"
#include "tests/base/nightly.h"

static const struct {
    const char *spec;
    const char *edits[3];
    const char *why;
} bases[] = {
    {"heteccl-h20-4+8", {"fail:gpu:2", "fail:gpu:7", NULL}, "two sizes, GPUs gone"},
    {"heteccl-h20-4+8", {"fail:s1/nic0", NULL}, "a NIC gone: its GPUs have no route out"},
    {"dgx1-v100", {"fail:gpu:3", NULL}, "hybrid cube mesh of 7"},
    {"mi300x-x8", {"degrade:s0/gpu0-s0/gpu1=1GB/s", NULL}, "one slow link in a mesh"},
    {"servers:2 gpus:3 nvswitch=300GB/s,1us nics:3x25GB/s,2us fabric=rail",
     {"fail:gpu:0", NULL},
     "rails that miss a GPU"},
    {"servers:4 gpus:2 nvswitch=300GB/s,1us nics:1x25GB/s,2us", {NULL}, "a NIC for two"},
};

static ccl_topology_t *cluster(uint32_t base) {
    ccl_topology_t *topo = topology(bases[base].spec);
    for (uint32_t i = 0; i < 3 && bases[base].edits[i]; i++) {
        ccl_topology_t *next = edited(topo, bases[base].edits[i]);
        ccl_topology_destroy(topo);
        topo = next;
    }
    return topo;
}

static void add_ranks(ccl_text_t *text, ccl_rng_t *rng, uint32_t n, uint32_t least) {
    uint32_t count = 0, first = ccl_rng_below(rng, n);
    ccl_text_printf(text, "[");
    for (uint32_t r = 0; r < n; r++) {
        if (ccl_rng_below(rng, 2) && !(r == first) && count + (n - r) > least)
            continue;
        ccl_text_printf(text, "%s%u", count++ ? "," : "", r);
    }
    ccl_text_printf(text, "]");
}

static ccl_collective_t *random_demand(ccl_rng_t *rng, uint32_t n, unsigned flavour) {
    ccl_text_t text = {0};
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_collective_t *out = NULL;
    ccl_text_printf(&text, "{\"format\":\"ccllab-demand-1\",\"nranks\":%u,\"chunks\":[", n);
    uint32_t chunks = 1 + ccl_rng_below(rng, 12);
    for (uint32_t k = 0; k < chunks; k++) {
        bool reduced = flavour == 2 || (flavour == 3 && ccl_rng_below(rng, 2));
        ccl_text_printf(&text, "%s{\"bytes\":%u,\"source\":", k ? "," : "",
                        ccl_rng_below(rng, 5) ? 1 + ccl_rng_below(rng, 1 << 20)
                        : k > 0               ? 0
                                              : 7);
        if (reduced)
            add_ranks(&text, rng, n, 1);
        else
            ccl_text_printf(&text, "%u", ccl_rng_below(rng, n));
        ccl_text_printf(&text, ",\"destinations\":");
        if (flavour == 0)
            ccl_text_printf(&text, "%u", ccl_rng_below(rng, n));
        else
            add_ranks(&text, rng, n, flavour == 1 ? n / 2 + 1 : 1);
        ccl_text_printf(&text, ",\"reduced\":%s}", reduced ? "true" : "false");
    }
    ccl_text_printf(&text, "]}");
    ccl_status_t status = ccl_demand_read_text("random", text.data, text.len, &out, &err);
    ck_assert_msg(status == CCL_OK, "%s: %s", err.text, text.data);
    ccl_text_fini(&text);
    return out;
}

START_TEST(test_base) {
    ccl_rng_t rng;
    ccl_topology_t *topo = cluster((uint32_t)_i);
    ccl_routes_t *routes = ccl_routes_create(topo);
    unsigned accepted[4] = {0};
    ccl_rng_init(&rng, 1000 + (uint64_t)_i);
    for (unsigned trial = 0; trial < (nightly() ? 12u : 4u); trial++) {
        ccl_collective_t *want = random_demand(&rng, topo->nranks, trial % 4);
        ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
        options.channels = ccl_rng_below(&rng, 4);
        options.chunks = ccl_rng_below(&rng, 3);
        options.sketch.cache = solved_once();
        for (const ccl_synth_ops_t *const *ops = ccl_synth_all(); *ops && !(*ops)->by_name; ops++)
            accepted[trial % 4] += check_all((*ops)->name, topo, routes, want, &options,
                                             1u << trial % 4, bases[_i].spec);
        ccl_collective_destroy(want);
    }
    /* direct and pairwise take any demand; reductions and shared chunks suit ring or hm too. */
    for (unsigned flavour = 0; flavour < 4; flavour++)
        ck_assert_uint_ge(accepted[flavour], 2);
    uint32_t step = nightly() ? 1 : 2; /* every second kind, the others on the next cluster */
    for (uint32_t kind = (uint32_t)_i % step; kind < CCL_CUSTOM; kind += step) {
        ccl_collective_t *want = collective((ccl_collective_kind_t)kind, topo->nranks,
                                            ccl_rng_below(&rng, topo->nranks));
        ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
        options.channels = ccl_rng_below(&rng, 4);
        options.chunks = ccl_rng_below(&rng, 3);
        options.sketch.cache = solved_once();
        for (const ccl_synth_ops_t *const *ops = ccl_synth_all(); *ops && !(*ops)->by_name; ops++)
            if (!only_plain(*ops, want->kind))
                check_all((*ops)->name, topo, routes, want, &options, 1u << kind % 4,
                          bases[_i].spec);
        ccl_collective_destroy(want);
    }
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("prop.synth.random");
    TCase *tcase = tcase_create("random");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, test_base, 0, (int)CCL_ARRAY_LEN(bases));
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
