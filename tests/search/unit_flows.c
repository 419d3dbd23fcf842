/* flows: near the bound where GPUs relay, as compare has it; demands, what is refused. */
#include "search/compare/compare.h"
#include "tests/synth/common.h"

typedef struct row {
    const char *spec, *edits;
    double size_bytes, most; /* time over the bound */
    const char *why;
} row_t;

/* Times over the bound; in `why` also the best of other synthesizers. */
static const row_t rows[] = {
    {"dgx1-v100", "", 65536, 1.21, "4 paths, LL128; 1.33"},
    {"dgx1-v100", "fail:gpu:0", 65536, 1.3, "1 path; 1.37"},
    {"dgx1-v100", "fail:gpu:0", 16777216, 1.06, "8 paths; 1.19"},
    {"dgx1-v100", "fail:gpu:0", 1073741824, 1.025, "32 paths; 1.08"},
    {"ndv2", "fail:gpu:1 fail:gpu:4", 4194304, 1.2, "8 paths; 1.30"},
    {"mi300x-x8", "fail:s0/gpu0-s0/gpu1", 16777216, 1.31, "16 paths; 1.37"},
    {"mi250-x16", "fail:gpu:3", 1073741824, 1.025, "2 paths, by careful lowering; 1.17"},
};

START_TEST(near_the_bound) {
    const row_t *row = &rows[_i];
    ccl_topology_t *topo = topology(row->spec), *edited = NULL;
    char edits[100], *rest = edits, *edit;
    const ccl_contender_t contender = {.name = "flows"};
    ccl_compare_options_t options = CCL_COMPARE_OPTIONS_INIT;
    ccl_comparison_t *c = NULL;
    snprintf(edits, sizeof edits, "%s", row->edits);
    while ((edit = strtok_r(rest, " ", &rest))) {
        ck_assert_int_eq(ccl_topology_edit(topo, edit, &edited, NULL), CCL_OK);
        ccl_topology_destroy(topo);
        topo = edited;
    }
    ccl_collective_t *want = collective(CCL_ALLTOALL, topo->nranks, 0);
    options.contenders = &contender;
    options.sizes_bytes = &row->size_bytes;
    options.ncontenders = options.nsizes = 1;
    options.protocols = true;
    ck_assert_int_eq(ccl_compare(NULL, topo, want, &options, &c, NULL), CCL_OK);
    double gap = c->cells[0].time_s / c->bound_s[0];
    ck_assert_msg(gap <= row->most, "%s %s: %.4f of the bound, %s", row->spec, row->edits, gap,
                  row->why);
    ccl_comparison_destroy(c);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}
END_TEST

/* Blocks of different sizes, some empty, from few to few. */
#define DEMAND                                                                                     \
    "{\"format\":\"ccllab-demand-1\",\"nranks\":8,\"chunks\":["                                    \
    "{\"source\":0,\"destinations\":[7],\"bytes\":3000000},"                                       \
    "{\"source\":0,\"destinations\":[0],\"bytes\":1000},"                                          \
    "{\"source\":3,\"destinations\":[4],\"bytes\":1},"                                             \
    "{\"source\":3,\"destinations\":[4],\"bytes\":2000000}]}"

START_TEST(verifies) {
    static const ccl_collective_kind_t kinds[] = {CCL_ALLTOALL, CCL_SCATTER, CCL_GATHER,
                                                  CCL_SENDRECV, CCL_CUSTOM};
    ccl_topology_t *topo = topology("dgx1-v100");
    ccl_routes_t *routes = ccl_routes_create(topo);
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    for (uint32_t i = 0; i < CCL_ARRAY_LEN(kinds); i++) {
        ccl_collective_t *want = NULL;
        if (kinds[i] == CCL_CUSTOM)
            ck_assert_int_eq(
                ccl_demand_read_text("a demand", DEMAND, sizeof DEMAND - 1, &want, NULL), CCL_OK);
        else
            want = collective(kinds[i], topo->nranks, 1);
        options.chunks = i % 2 ? 3 : 0;
        ck_assert(check_all("flows", topo, routes, want, &options, 1, "dgx1-v100"));
        ccl_collective_destroy(want);
    }
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(refuses) {
    static const struct {
        const char *spec;
        ccl_collective_kind_t kind;
        const char *why;
    } refused[] = {
        {"dgx1-v100", CCL_ALLGATHER, "chunks with one destination"},
        {"dgx1-v100", CCL_REDUCESCATTER, "chunks with one destination"},
        {"dgx-h100", CCL_ALLTOALL, "no link joins two GPUs"},
        {"dgx1-v100*9", CCL_ALLTOALL, "2 to 64 GPUs"},
        {"mi300x-x8*4", CCL_ALLTOALL, "variables of flows"},
    };
    for (uint32_t i = 0; i < CCL_ARRAY_LEN(refused); i++) {
        ccl_topology_t *topo = topology(refused[i].spec);
        ccl_collective_t *want = collective(refused[i].kind, topo->nranks, 0);
        ccl_schedule_t *s = NULL;
        ccl_error_t err = CCL_ERROR_INIT;
        ck_assert_int_eq(ccl_synthesize(NULL, "flows", topo, NULL, want, NULL, &s, &err),
                         CCL_UNSUPPORTED);
        ck_assert_msg(strstr(err.text, refused[i].why), "%s", err.text);
        ccl_collective_destroy(want);
        ccl_topology_destroy(topo);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("search.flows");
    TCase *tcase = tcase_create("flows");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, near_the_bound, 0, SANITIZED ? 2 : (int)CCL_ARRAY_LEN(rows));
    tcase_add_test(tcase, verifies);
    tcase_add_test(tcase, refuses);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
